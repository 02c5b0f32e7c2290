# SPDX-License-Identifier: Apache-2.0
"""What qkscope inspect says of models."""
import json

import pytest

from recording import write_model


def test_numbers(qkscope, tmp_path):
    write_model(tmp_path / "m", "gemma3_text", num_hidden_layers=3,
                layer_types=["sliding_attention", "full_attention", "sliding_attention"])
    out = qkscope("inspect", tmp_path / "m", expect=0).out
    for words in ("gemma3_text, 3 layers of 4 query heads and 2 key heads, d = 12",
                  "8 tokens in 2 of 3 layers", "12 query heads and 6 key heads in 3 layers",
                  "Texts of 512 tokens:"):
        assert words in out, out
    shown = json.loads(qkscope("inspect", tmp_path / "m", "--json", "--length", 1000, expect=0).out)
    assert (shown["num_layers"], shown["q_per_kv_group"], shown["head_dim"]) == (3, 2, 12)
    assert [layer["window"] for layer in shown["layers"]] == [8, None, 8]
    assert len(shown["layers"][0]["rope_frequencies"]) == 6
    capture = shown["capture"]
    assert (capture["window"], capture["windows"], capture["rows_per_head"]) == (512, 2, 1000)
    assert capture["vector_bytes"] == 1000 * 18 * 12 * 4
    assert capture["length"] == 1000 and capture["flops"] > 2 * 1000 * 1e4
    assert capture["memory_bytes"] > 512 * 32 * 4


def costs(qkscope, model, *words):
    return json.loads(qkscope("inspect", model, "--json", *words, expect=0).out)["capture"]


def test_more_tokens_cost_more(qkscope, tmp_path):
    write_model(tmp_path / "m")
    few, more = (costs(qkscope, tmp_path / "m", "--length", n) for n in (200, 400))
    assert more["flops"] > 2 * few["flops"] and more["memory_bytes"] > few["memory_bytes"]


def test_long_texts_cost_what_their_windows_cost(qkscope, tmp_path):
    write_model(tmp_path / "m")
    parts = [costs(qkscope, tmp_path / "m", "--length", n) for n in (300, 120)]
    whole = costs(qkscope, tmp_path / "m", "--length", 2 * 300 + 120, "--max-length", 300)
    assert whole["windows"] == 3 and whole["memory_bytes"] == parts[0]["memory_bytes"]
    assert whole["flops"] == pytest.approx(2 * parts[0]["flops"] + parts[1]["flops"])
    assert "in 2 windows of at most 512" in qkscope("inspect", tmp_path / "m", "--length", 513, expect=0).out


def test_rows_are_those_of_a_capture(qkscope, tmp_path):
    """By default and with --rows; all of them where there are fewer."""
    write_model(tmp_path / "m")
    found = [costs(qkscope, tmp_path / "m", *words)["rows_per_head"] for words in (
        ["--length", 9000], ["--length", 500], ["--length", 500, "--rows", 70])]
    assert found == [8000, 500, 70]


def test_layers_without_attention(qkscope, tmp_path):
    write_model(tmp_path / "m", "mllama_text_model")
    out = qkscope("inspect", tmp_path / "m", expect=0).out
    assert "8 query heads and 4 key heads in 2 layers" in out and "none: full attention" in out


def test_damaged_model(qkscope, tmp_path):
    write_model(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    assert "model.safetensors" in qkscope("inspect", tmp_path / "m", expect=1).err
