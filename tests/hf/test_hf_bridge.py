# SPDX-License-Identifier: Apache-2.0
"""The bridge from transformers beside the C engine, beside itself by other ways, and what it refuses. hf_runs.py makes
the captures, in an environment with torch; here they are read."""
import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, head_names, read_head

from hf_environment import hf_run, once
from hooks_golden import collected

pytestmark = pytest.mark.test_all

SAVED = ROOT / "tests" / "data" / "saved"
KJV = ROOT / "examples" / "kjv-tiny"
ARCHITECTURES = sorted(p.name for p in SAVED.iterdir() if p.is_dir())
PASSAGES = ["-t", KJV / "passages.jsonl", "--id-column", "id", "--max-texts", "9"]
JOBS = {
    "drawn": ["-m", KJV / "step-2004", *PASSAGES, "--rows", "500", "--stage", "both"],
    "windows": ["-m", KJV / "step-2004", *PASSAGES, "--max-length", "300", "--sampler", "log_uniform", "--base-rate",
                "4", "--sample-heads", "7", "--seed", "3", "--layout", "packed", "--token-strings"],
    "moments": ["-m", KJV / "step-2004", *PASSAGES, "--keep", "moments,reservoir=3", "--layers", "1,4"],
    "sums": ["-m", KJV / "step-2004", *PASSAGES, "--keep", "moments", "--groups", "0", "--kinds", "k", "--token-strings"],
    "made": ["-m", SAVED / "llama", "-t", "repeat:30x4:3", "--tokenizer", SAVED / "llama" / "tokenizer.json", "--sampler", "all",
             "--max-length", "90"],
    **{f"saved-{name}": ["-m", SAVED / name, "-t", KJV / "passages.jsonl", "--max-texts", "2", "--max-length", "200", "--sampler", "all",
                         "--stage", "both", "--tokenizer", SAVED / name / "tokenizer.json"] for name in ARCHITECTURES},
}
CHECKS = re.findall(r"^def check_(\w+)", Path(__file__).with_name("hf_runs.py").read_text(), re.M)


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    """Folder of all that hf_runs.py made."""
    def make(folder):
        jobs = {name: [*map(str, words), "-o", str(folder / "jobs" / name), "-q"] for name, words in JOBS.items()}
        (folder / "jobs.json").write_text(json.dumps(jobs))
        hf_run(Path(__file__).with_name("hf_runs.py"), folder)
    return once(tmp_path_factory, "hf_runs", make)


def stages(folder):
    return [folder / stage for stage in ("post", "pre")] if (folder / "post").is_dir() else [folder]


def rows_of(folder):
    """All numbers of a capture, of its stages and heads."""
    parts = stages(folder)
    return {f"{part.name}." * (len(parts) > 1) + name: values
            for part in parts for name, values in collected(part)[0].items()}


def check_rows(got, wanted, tolerance):
    """The same rows; vectors as near as that, beside the largest number of their head."""
    assert got.keys() == wanted.keys() and got
    for name, values in wanted.items():
        assert got[name].shape == values.shape, name
        if name.endswith(".vector") and tolerance:
            assert np.abs(got[name] - values).max(initial=0) <= tolerance * np.abs(values).max(initial=0), name
        elif values.dtype == np.float64 and tolerance:
            assert np.abs(got[name] - values).max(initial=0) <= tolerance * np.abs(values).max(initial=1e-300), name
        else:
            assert (got[name] == values).all(), name


# "memory" is bounded in MB, which an allocator may move.
@pytest.mark.parametrize("check", [*(c for c in CHECKS if c != "memory"), pytest.param("memory", marks=pytest.mark.test_long), *JOBS])
def test_check(ran, check):
    found = json.loads((ran / "found.json").read_text())[check]
    assert found["error"] is None, found["error"]


# ---- beside the C engine -------------------------------------------------------------------------

def packed_rows(folder):
    import pyarrow.parquet as pq
    return {file.name: pq.read_table(file).drop(["vector"]).to_pydict() for file in sorted(folder.rglob("*.parquet"))}


@pytest.mark.parametrize("name", JOBS)
def test_engine(ran, qkscope, tmp_path, name):
    """kjv-tiny within 2e-6, as the goal has it; the architectures' models have 64 times fewer numbers, whose largest
    is nearer to what rounding adds."""
    qkscope("capture", *JOBS[name], "-o", tmp_path / "c", "-q", expect=0)
    got, wanted = rows_of(ran / "jobs" / name), rows_of(tmp_path / "c")
    if name == "windows":
        assert packed_rows(ran / "jobs" / name) == packed_rows(tmp_path / "c")
        got, wanted = packed_vectors(ran / "jobs" / name), packed_vectors(tmp_path / "c")
    check_rows(got, wanted, {"moments": 5e-6, "sums": 5e-6}.get(name, 2e-6 if not name.startswith("saved") else 5e-6))
    for a, b in zip(stages(ran / "jobs" / name), stages(tmp_path / "c"), strict=True):
        mine, theirs = (json.loads((x / "capture.json").read_text()) for x in (a, b))
        for fact in ("model", "q_per_kv_group", "num_layers", "stage", "examples", "head_sampling", "texts", "heads"):
            assert mine.get(fact) == theirs.get(fact), fact
        check_frequencies(mine, theirs)
        assert (a / "examples.csv").read_text() == (b / "examples.csv").read_text()


def packed_vectors(folder):
    import pyarrow.parquet as pq
    return {f"{f.name}.vector": pq.read_table(f)["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
            for f in sorted(folder.rglob("*.parquet"))}


def check_frequencies(mine, theirs):
    a, b = (m.get("rope_frequencies") for m in (mine, theirs))
    assert (a is None) == (b is None)
    if a is not None:
        layers = range(mine["num_layers"])
        a, b = ([f] * len(layers) if isinstance(f, list) else [f.get(str(i)) for i in layers] for f in (a, b))
        for x, y in zip(a, b, strict=True):
            assert (x is None) == (y is None)
            assert x is None or np.allclose(x, y, rtol=3e-6, atol=0)


def test_unknown_to_the_c_engine(qkscope, tmp_path):
    """It says which command to try."""
    (tmp_path / "config.json").write_text('{"model_type": "deepseek_v3"}')
    for words in (["inspect", tmp_path], ["capture", "-m", tmp_path, "-t", KJV / "passages.jsonl", "-o", tmp_path / "c"]):
        said = qkscope(*words, expect=1).err
        assert "deepseek_v3" in said and "`qkscope-hf` captures most others" in said, said


# ---- beside itself -------------------------------------------------------------------------------

@pytest.mark.parametrize("way, tolerance", [("chunks", 2e-6), ("together", 2e-6), ("eager", 2e-6), ("one", 0),
                                            ("threads", 2e-6), ("inference", 0),
                                            ("device", 2e-6), ("device_chunks", 2e-6)])
def test_ways(ran, way, tolerance):
    """In chunks, side by side, gathered as on a device: the rows of one text after the other. What is gathered is
    what is read where it lies, bit for bit."""
    check_rows(rows_of(ran / "ways" / way), rows_of(ran / "ways" / "host"), tolerance)


def test_ways_of_a_device(ran):
    check_rows(rows_of(ran / "ways" / "device_chunks"), rows_of(ran / "ways" / "chunks"), 0)
    check_rows(rows_of(ran / "ways" / "device"), rows_of(ran / "ways" / "together"), 0)


@pytest.mark.parametrize("name", ["all", "drawn", "logarithmic", "some"])
def test_moments(ran, name):
    rows = rows_of(ran / "moments" / name / "rows")
    check_moments(rows_of(ran / "moments" / name / "sums"), rows, 1e-12)
    check_moments(rows_of(ran / "moments" / name / "chunks"), rows, 2e-6)


def check_moments(got, wanted, tolerance):
    """Rows of the reservoir, and sums to the rounding of their order, or of the model's."""
    assert any("sum_xx" in name for name in wanted)
    exact = tolerance < 1e-9
    check_rows({n: v for n, v in got.items() if not exact or v.dtype != np.float64},
               {n: v for n, v in wanted.items() if not exact or v.dtype != np.float64}, 0 if exact else tolerance)
    assert got.keys() == wanted.keys()
    for name, values in wanted.items():
        assert np.abs(got[name] - values).max(initial=0) <= tolerance * max(np.abs(values).max(initial=0), 1e-300), name


def test_bfloat16(ran):
    from safetensors.numpy import load_file
    seen = load_file(ran / "bfloat16" / "seen.safetensors")
    for name in head_names(ran / "bfloat16" / "c"):
        layer, head, kind = re.fullmatch(r"(l\d+)h(\d+)([qk])", name).groups()
        assert (read_head(ran / "bfloat16" / "c", name)[0] == seen[f"{layer}.{kind}"][int(head)]).all()


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("check, name", [("exception_in_a_text", "False"), ("exception_in_a_text", "True"),
                                         ("offloaded", "c"), ("shards", "c"), ("quantised", "c")])
def test_the_same_in_the_end(ran, check, name):
    got, wanted = files_of(ran / check / name), files_of(ran / check / "plain")
    differ = [file for file in wanted if got.get(file) != wanted[file]]
    assert got.keys() == wanted.keys() and set(differ) <= {"capture.json", "README.md"}, differ
