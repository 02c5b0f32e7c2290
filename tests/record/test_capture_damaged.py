# SPDX-License-Identifier: Apache-2.0
"""Models and captures that are damaged or lack a part: the run says which, and what to do."""
import json
import re
import shutil

import numpy as np
import pytest

from recording import manifest_of, some_texts, write_jsonl, write_model


def spoil(folder, tensor, begin=0, count=64):
    """Bytes of a tensor that are all ones: numbers that are none."""
    path = next(folder.glob("*.safetensors"))
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    name = next(n for n in header if n.endswith(tensor))
    at = 8 + size + header[name]["data_offsets"][0] + begin
    data[at:at + count] = b"\xff" * count
    path.write_bytes(data)


@pytest.mark.parametrize("tensor, head", [
    ("layers.1.self_attn.q_proj.weight", "layer 1, query head 0"),
    ("layers.1.self_attn.k_proj.weight", "layer 1, key head 0"),
    ("layers.0.mlp.down_proj.weight", "layer 1, ")])
def test_weights_that_are_not_numbers(qkscope, tmp_path, tensor, head):
    model, texts = tmp_path / "m", write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    write_model(model)
    words = ["capture", "-m", model, "-t", texts, "-o", tmp_path / "c", "--sampler", "all"]
    good = (model / "model.safetensors").read_bytes()
    spoil(model, tensor)
    says = qkscope(*words, expect=1).err
    assert head in says and "not finite" in says and "damaged" in says, says
    assert not (tmp_path / "c").exists()
    (model / "model.safetensors").write_bytes(good)
    qkscope(*words)


def test_only_heads_that_are_kept_are_looked_at(qkscope, tmp_path):
    """The last row of the last query head's weights: the head is named, and the others are good."""
    model, texts = tmp_path / "m", write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    config, weights = write_model(model)
    heads, last = config["num_attention_heads"], config["num_hidden_layers"] - 1
    name = f"layers.{last}.self_attn.q_proj.weight"
    size = next(w.size for n, w in weights.items() if n.endswith(name))
    path = next(model.glob("*.safetensors"))
    header = json.loads(path.read_bytes()[8:8 + int.from_bytes(path.read_bytes()[:8], "little")])
    begin, end = next(v["data_offsets"] for n, v in header.items() if n.endswith(name))
    width = (end - begin) // size
    spoil(model, name, begin=end - begin - width, count=width)
    words = ["capture", "-m", model, "-t", texts, "--sampler", "all", "-o"]
    assert f"layer {last}, query head {heads - 1}:" in qkscope(*words, tmp_path / "c", expect=1).err
    qkscope(*words, tmp_path / "d", "--heads", f"0-{heads - 2}")


def test_the_size_leaves_out_captures_further_in(qkscope, tmp_path):
    model, texts = tmp_path / "m", write_jsonl(tmp_path / "t.jsonl", some_texts(30))
    write_model(model)
    words = ["capture", "-m", model, "-t", texts, "--sampler", "all", "--json", "-o"]
    alone = json.loads(qkscope(*words, tmp_path / "c").out)["bytes"]
    qkscope(*words, tmp_path / "c" / "inner" / "one")
    assert json.loads(qkscope(*words, tmp_path / "c", "--force").out)["bytes"] == alone > 0
