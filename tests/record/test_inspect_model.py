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
                  "A text of 512 tokens"):
        assert words in out, out
    shown = json.loads(qkscope("inspect", tmp_path / "m", "--json", "--length", 1000, expect=0).out)
    assert (shown["num_layers"], shown["q_per_kv_group"], shown["head_dim"]) == (3, 2, 12)
    assert [layer["window"] for layer in shown["layers"]] == [8, None, 8]
    assert len(shown["layers"][0]["rope_frequencies"]) == 6
    capture = shown["capture"]
    # 255 positions of the first bucket, one in 128; then 256 and 489, one in 256 and 512
    assert capture["rows_per_head"] == pytest.approx(255 / 128 + 256 / 256 + 489 / 512)
    assert capture["vector_bytes"] == int(capture["rows_per_head"] * 18 * 12 * 4)
    assert capture["length"] == 1000 and capture["flops"] > 2 * 1000 * 1e4
    assert capture["memory_bytes"] > 1000 * 32 * 4


def test_more_tokens_cost_more(qkscope, tmp_path):
    write_model(tmp_path / "m")
    cost = [json.loads(qkscope("inspect", tmp_path / "m", "--json", "--length", n, expect=0).out)["capture"]
            for n in (1000, 2000)]
    assert cost[1]["flops"] > 2 * cost[0]["flops"]
    assert cost[1]["memory_bytes"] > cost[0]["memory_bytes"]


def test_layers_without_attention(qkscope, tmp_path):
    write_model(tmp_path / "m", "mllama_text_model")
    out = qkscope("inspect", tmp_path / "m", expect=0).out
    assert "8 query heads and 4 key heads in 2 layers" in out and "none: full attention" in out


def test_damaged_model(qkscope, tmp_path):
    write_model(tmp_path / "m")
    (tmp_path / "m" / "model.safetensors").unlink()
    assert "model.safetensors" in qkscope("inspect", tmp_path / "m", expect=1).err
