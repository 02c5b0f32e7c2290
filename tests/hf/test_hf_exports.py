# SPDX-License-Identifier: Apache-2.0
"""Exports of models whose queries have a norm, against transformers' own queries; torch loads them; transformers obeys layer_types
as far as docs/howto/export.md says."""
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, read_json

from hf_environment import hf_run, once

sys.path.append(str(ROOT / "tests" / "export"))
from torch_reader import read_torch  # noqa: E402

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
pytestmark = pytest.mark.test_all
SCRIPT = Path(__file__).with_name("hf_exports.py")
LENGTH, TEXTS, WINDOW = 96, 6, 16


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Models, tokens of bytes, and what hooks saw."""
    def make(folder):
        lines = [json.loads(line)["text"].encode()[:LENGTH] for line in (ROOT / "examples" / "kjv-tiny" / "passages.jsonl").read_text().splitlines()]
        lines = [line for line in lines if line.isascii()][:TEXTS]
        (folder / "texts.jsonl").write_text("".join(json.dumps({"text": line.decode()}) + "\n" for line in lines))
        (folder / "tokens.json").write_text(json.dumps([list(line) for line in lines]))
        hf_run(SCRIPT, "make", folder, folder / "tokens.json")
        for model in ("qwen3", "gemma3_text", "two_thetas", "yarn", "llama"):
            shutil.copy(ROOT / "examples" / "kjv-tiny" / "step-20" / "tokenizer.json", folder / model)
    return once(tmp_path_factory, "exports", make)


def export(qkscope, made, model, folder, form="triattention"):
    qkscope("capture", "-m", made / model, "-t", made / "texts.jsonl", "--stage", "pre", "--keep", "moments", "-o", folder / "in", "-q", expect=0)
    qk.export(form, folder / "in", folder / "out")
    return read_torch(folder / "out" / "triattention.pt") if form == "triattention" else None


def numbers_of(stats):
    """(mean z, mean |z|), [L][Hq][pairs]"""
    parts = [np.array([[stats[f"layer{layer:02d}_head{head:02d}"][part] for head in range(4)] for layer in range(3)], float)
             for part in ("q_mean_real", "q_mean_imag", "q_abs_mean")]
    return parts[0] + 1j * parts[1], parts[2]


def off(found, seen):
    return max(np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, (seen["mean"], seen["length"]), strict=True))


@pytest.mark.parametrize("model", ["qwen3", "gemma3_text", "yarn"])
def test_queries_are_those_behind_their_norm(qkscope, made, tmp_path, model):
    """In float32, which transformers and the engine both compute with. With the norm left out they would be far off."""
    found = export(qkscope, made, model, tmp_path)
    numbers, factor = numbers_of(found["stats"]), 0.1 * np.log(4) + 1
    seen = {kind: np.load(made / f"{model}-{kind}.npz") for kind in ("normed", "plain")}
    assert off(numbers, seen["normed"]) < 2e-6
    assert off(numbers, seen["plain"]) > 0.1
    if model == "yarn":  # which multiplies queries when it turns them
        assert off([factor * one for one in numbers], seen["normed"]) > 0.1


def test_interleaved_pairs_of_the_bridge(made, tmp_path):
    hf_run(SCRIPT, "bridge", tmp_path, "cohere", made / "texts.jsonl")
    with pytest.warns(qk.QkscopeWarning, match="TensorRT-LLM reads the pairs as halves"):
        qk.export("triattention", tmp_path / "cohere", tmp_path / "out")
    found = read_torch(tmp_path / "out" / "triattention.pt")
    assert off(numbers_of(found["stats"]), np.load(tmp_path / "cohere.npz")) < 2e-6 and found["metadata"]["rope_style"] == "interleaved"


def test_latent_attention_is_refused(made, tmp_path):
    hf_run(SCRIPT, "bridge", tmp_path, "deepseek_v3", made / "texts.jsonl")
    for form in ("triattention", "triattention-ggml", "duo-attention"):
        with pytest.raises(qk.DataError, match="dimensions from 16 on.*MLA"):
            qk.export(form, tmp_path / "deepseek_v3", tmp_path / "out")


def test_models_of_two_thetas_are_refused(qkscope, made, tmp_path):
    for form in ("triattention", "triattention-ggml"):
        with pytest.raises(qk.DataError, match="layer 2 turns by other frequencies than layer 0"):
            export(qkscope, made, "two_thetas", tmp_path / form, form)


def test_torch_loads_it(qkscope, made, tmp_path):
    found = export(qkscope, made, "qwen3", tmp_path)
    told = json.loads(hf_run(SCRIPT, "load", tmp_path / "out" / "triattention.pt"))
    assert told["same"] and told["heads"] == 12 and told["metadata"] == found["metadata"]
    np.testing.assert_allclose(told["sums"], [sum(float(part.astype(float).sum()) for part in head.values()) for head in found["stats"].values()], rtol=1e-12)


@pytest.mark.filterwarnings("ignore::qkscope.QkscopeWarning")
@pytest.mark.parametrize("model", ["qwen3", "llama"])
def test_layer_types_cost_what_the_ablation_says(qkscope, made, tmp_path, model):
    """transformers obeys those of Qwen 3, and passes over those of Llama."""
    qkscope("ablate", "-m", made / model, "-t", made / "texts.jsonl", "-o", tmp_path / "in", "--groups", "layer", "--groups", "all", "--what",
            f"window:{WINDOW}", "--no-controls", "-q", expect=0)
    qk.export("layer-types", tmp_path / "in", tmp_path / "out", model=made / model, tolerance=100.0)
    types, told = tmp_path / "out" / "layer-types.json", read_json(tmp_path / "out" / "layer-types-made-from.json")
    assert read_json(types)["layer_types"] == ["sliding_attention"] * 3
    losses = json.loads(hf_run(SCRIPT, "loss", made / model, made / "tokens.json", types))
    cost = losses["windows"] - losses["as it is"]
    if model == "llama":
        assert cost == 0
        return
    assert abs(told["together"]["delta"]) > 1e-3
    assert cost == pytest.approx(told["together"]["delta"], abs=2e-5)
