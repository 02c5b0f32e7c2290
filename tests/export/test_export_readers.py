# SPDX-License-Identifier: Apache-2.0
"""TriAttention's loaders, as they were at the commits below, load what is exported, and make of it what the formats say. Their sources
are not here: QKSCOPE_READERS, or ~/.cache/qkscope/readers, is a folder with clones `triattention` (WeianMao) and `triattention-ggml`
(domvox). TensorRT-LLM's loader needs CUDA's packages."""
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, environment, read_head

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
pytestmark = pytest.mark.test_all
MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
COMMITS = {"triattention": "c3744ee6a50522a1559a577f85aef2b165a344f2", "triattention-ggml": "e61673bc95cfd3af67b7c98444d0c811552e3e61"}
LAYERS, QUERIES, KEYS, PAIRS = 5, 4, 2, 16


@pytest.fixture(scope="module")
def told(qkscope, tmp_path_factory):
    """What the readers make of the files, what they ship, and rows."""
    python = os.environ.get("QKSCOPE_HF_PYTHON") or Path.home() / ".cache" / "qkscope" / "hf" / "bin" / "python"
    readers = Path(os.environ.get("QKSCOPE_READERS") or Path.home() / ".cache" / "qkscope" / "readers")
    for needed in (Path(python), *(readers / name for name in COMMITS)):
        if not needed.exists():
            pytest.skip(f"{needed} is absent (make hf-env; clones of {', '.join(f'{name} at {commit[:7]}' for name, commit in COMMITS.items())})")
    print("readers, as they were checked:", COMMITS)
    folder = tmp_path_factory.mktemp("readers")
    qkscope("capture", "-m", MODEL, "-t", ROOT / "examples" / "kjv-tiny" / "passages.jsonl", "--max-texts", 2, "--max-length", 128, "--long", "cut",
            "--stage", "pre", "--sampler", "all", "-o", folder / "in", expect=0)
    for form in ("triattention", "triattention-ggml"):
        qk.export(form, folder / "in", folder)
    done = subprocess.run([python, Path(__file__).with_name("with_readers.py"), readers, folder], text=True, capture_output=True, check=False,
                          env=environment({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}))
    assert done.returncode == 0, done.stderr[-4000:]
    return np.load(folder / "read.npz"), json.loads(done.stdout.splitlines()[-1]), folder / "in"


@pytest.fixture(scope="module")
def wanted(told):
    """(mean z, mean |z|), of rows in float64"""
    rows = [[read_head(told[2], f"l{layer:02d}h{head:02d}q")[0] for head in range(QUERIES)] for layer in range(LAYERS)]
    z = np.array(rows)[..., :PAIRS] + 1j * np.array(rows)[..., PAIRS:]
    return z.mean(2), abs(z).mean(2)


def same(found, expected):
    assert found.shape == expected.shape and np.abs(found - expected).max() <= 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("reader", ["transformers", "sglang", "ggml"])
def test_each_query_head(told, wanted, reader):
    for part, expected in zip(("mean", "length"), wanted, strict=True):
        same(told[0][f"{reader}_{part}"], expected)


def test_vllm_has_means_of_key_heads(told, wanted):
    for part, expected in zip(("mean", "length"), wanted, strict=True):
        same(told[0][f"vllm_{part}"], expected.reshape(LAYERS, KEYS, QUERIES // KEYS, PAIRS).mean(2))
    assert told[0]["vllm_heads"].tolist() == [LAYERS, QUERIES, KEYS] and told[0]["vllm_style"] == "half"


@pytest.mark.parametrize("reader", ["vllm", "sglang", "ggml"])
def test_frequencies_are_the_models(told, reader):
    np.testing.assert_allclose(told[0][f"{reader}_omega"], 1e4 ** (-np.arange(PAIRS) / PAIRS), rtol=1e-6)


def test_ggml_knows_key_heads(told):
    assert told[0]["ggml_keys"] == KEYS and told[0]["ggml_scales"].tolist() == [1] * LAYERS


def test_shipped_files_have_the_same_layout(told):
    """Names, order of heads, types, and no mean longer than the mean length."""
    assert len(told[1]) >= 5 and all(one["layout"] and one["lengths"] for one in told[1]), told[1]
