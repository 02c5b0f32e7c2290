# SPDX-License-Identifier: Apache-2.0
"""Captures and analyses on Ray give the bytes of one process, also where workers die. Ray is looked for in
QKSCOPE_RAY_PYTHON, an interpreter, in the environment of `make hf-env`, and in that of the tests."""
import functools
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BUILD, EXAMPLE, environment

pytestmark = pytest.mark.test_all

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from made_up_capture import fill  # noqa: E402
from test_join_results import tables  # noqa: E402

SCRIPT = Path(__file__).with_name("run_on_ray.py")


@functools.cache
def ray_python():
    """An interpreter with Ray and cffi; None: there is none."""
    hf = os.environ.get("QKSCOPE_HF_PYTHON", os.path.expanduser("~/.cache/qkscope/hf/bin/python"))
    for path in filter(None, (os.environ.get("QKSCOPE_RAY_PYTHON"), hf, sys.executable)):
        try:
            if subprocess.run([path, "-c", "import ray, cffi"], capture_output=True, timeout=120).returncode == 0:
                return path
        except OSError:
            pass
    return None


@pytest.fixture
def on_ray(tmp_path_factory):
    """on_ray(name, argument...) -> what run_on_ray.py finds."""
    if ray_python() is None:
        pytest.skip("Ray is not installed (make hf-env; QKSCOPE_RAY_PYTHON names an interpreter with ray and cffi)")

    def run(name, *arguments):
        env = environment({"PYTHONPATH": BUILD / "python", "RAY_ADDRESS": None, "RAY_USAGE_STATS_ENABLED": "0"})
        found = tmp_path_factory.mktemp("found") / "found.json"
        done = subprocess.run([ray_python(), SCRIPT, found, name, *map(str, arguments)], env=env, capture_output=True,
                              text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(found.read_text())
    return run


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_ray_begins_and_ends_by_itself(on_ray, tmp_path):
    """With more shards than there are layers."""
    qk.analyze(EXAMPLE, output=tmp_path / "one", layers="0,1", progress=False)
    (said,) = on_ray("analysis", EXAMPLE, tmp_path / "many", '{"workers": 2, "shards": 30, "layers": "0,1"}')
    assert said["progress"][0] == ["shards", 0, 30] and said["progress"][-1] == ["shards", 30, 30]
    assert not said["initialized"]
    many, one = tables(tmp_path / "many"), tables(tmp_path / "one")
    assert many.pop("model_report.csv") and one.pop("model_report.csv") and many == one
    assert sorted(path.name for path in tmp_path.iterdir()) == ["many", "one"]


def test_on_the_machines_of_a_cluster(on_ray, qkscope, tmp_path):
    kjv = EXAMPLE.parent / "kjv-tiny"
    model, text, keep = kjv / "step-2004", kjv / "passages.jsonl", "rows,moments"
    qkscope("capture", "--model", model, "--text", text, "-o", tmp_path / "whole", "--keep", keep)
    (said,) = on_ray("on_a_cluster", model, text, tmp_path / "many", keep)
    assert said["complete"] and files(tmp_path / "many") == files(tmp_path / "whole")


def test_captures_of_which_one_worker_is_killed(on_ray, tmp_path):
    keep = "moments,reservoir=3"
    with qk.Sink(tmp_path / "whole", keep=keep, threads=1) as sink:
        fill(sink)
    (warnings,) = on_ray("killed_capture", tmp_path / "many", tmp_path / "grave", keep)
    assert (tmp_path / "grave").exists() and any("a worker died while it computed shard" in w for w in warnings)
    assert not [w for w in warnings if not re.search("a worker died|without positions 0 to 3", w)]
    assert len(files(tmp_path / "whole")) > 3 and files(tmp_path / "many") == files(tmp_path / "whole")


def test_what_workers_raise_reaches_the_caller(on_ray, tmp_path):
    *failures, end = on_ray("failing", tmp_path)
    bad_text, no_model, unopened, ended, missing, setting, unseen = failures
    assert bad_text == {"type": "KeyError", "text": "'a model that cannot'"}
    assert no_model == {"type": "OSError", "text": "no such model"}
    assert unopened["type"] == "ArgumentError" and "without opening" in unopened["text"]
    assert ended["type"] == "Error" and "shard 0 of 1 has ended 5 workers" in ended["text"]
    assert missing["type"] == "NotFoundError" and str(tmp_path / "nothing") in missing["text"]
    assert setting["type"] == "ArgumentError" and "ci" in setting["text"]
    assert unseen["type"] == "ArgumentError" and "all machines of the cluster share" in unseen["text"]
    assert end["complete"]
    assert not [name for name in end["left"] if ".ray-" in name]


# ---- without Ray ---------------------------------------------------------------------------------

def test_wrong_keywords_need_no_ray(tmp_path):
    import qkscope.ray
    with pytest.raises(TypeError, match="layer"):
        qkscope.ray.analyze(EXAMPLE, tmp_path, layer=3)
    with pytest.raises(TypeError, match="force"):
        qkscope.ray.capture(lambda: fill, tmp_path, force=True)
    with pytest.raises(TypeError, match="texts"):
        qkscope.ray.capture("model", tmp_path, texts="a.txt")
    with pytest.raises(ValueError, match="which texts"):
        qkscope.ray.capture("model", tmp_path)
    with pytest.raises(ValueError, match="analysis='all' is none of analyze, pca"):
        qkscope.ray.analyze(EXAMPLE, tmp_path, analysis="all")


@pytest.mark.skipif(importlib.util.find_spec("ray") is not None, reason="the tests' own environment has Ray")
def test_without_ray_the_remedy_is_told(tmp_path):
    import qkscope.ray
    with pytest.raises(ImportError, match="pip install ray"):
        qkscope.ray.analyze(EXAMPLE, tmp_path)
