# SPDX-License-Identifier: Apache-2.0
"""The GGUF file of mean keys: its bytes, the order of channels that llama.cpp has, keys that it turns before it rounds them."""
import json
import struct
import sys

import numpy as np
import pytest
from conftest import ROOT, VERSION, head_name
from export_oracle import DIM, KEYS, LAYERS, TEXTS, make_heads, rows_from, write_capture
from scipy.linalg import hadamard

sys.path.append(str(ROOT / "tests" / "model"))
from gguf_files import BOOL, TEXT, raw, side_by_side  # noqa: E402

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

OF = {"run": {"model": {"architecture": "qwen3", "fingerprint": "0123"}}}


@pytest.fixture(scope="module")
def heads():
    return make_heads()


def export(folder, heads, of=OF, stage="post-rope", **keywords):
    qk.export("key-means", write_capture(folder / "in", heads, stage, **of), folder / "out", **keywords)
    return (folder / "out" / "key-means.gguf").read_bytes()


def means_of(heads):
    """[L][Hk, d], of rows, in float64."""
    return [np.array([rows_from(heads[head_name(layer, head, "k")], 0).mean(0) for head in range(KEYS)]) for layer in range(LAYERS)]


def data_of(content):
    """{name: numbers}, of tensors of one dimension."""
    count, keys = struct.unpack_from("<QQ", content, 8)
    at = 24

    def text():
        nonlocal at
        (length,) = struct.unpack_from("<Q", content, at)
        at += 8 + length
        return content[at - length:at].decode()

    told, found = {}, []
    for _ in range(keys):
        name, (kind,) = text(), struct.unpack_from("<I", content, at)
        at += 4
        if kind == BOOL:
            told[name], at = content[at] == 1, at + 1
        else:
            assert kind == TEXT
            told[name] = text()
    for _ in range(count):
        name = text()
        dims, size, kind, offset = struct.unpack_from("<IQIQ", content, at)
        at += 24
        assert (dims, kind, offset % 32) == (1, 0, 0)
        found.append((name, size, offset))
    start = at + -at % 32
    return told, {name: np.frombuffer(content, "<f4", size, start + offset) for name, size, offset in found}


def same(found, wanted):
    assert found.shape == wanted.shape and np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()


def test_its_bytes(tmp_path):
    """Of two layers: keys of 3 and 5 each."""
    rows = {f"l{layer:02d}h00{kind}": {"vector": np.array([[3, 4], [5, 4 + layer]], np.float32), "position": np.arange(2), "example_id": np.zeros(2, int),
                                       "bucket": np.zeros(2, int)} for layer in (0, 1) for kind in "qk"}
    content = export(tmp_path, rows, {**OF, "q_per_kv_group": 1})
    made_from = {"program": f"qkscope {VERSION}", "model": "org/made", "texts": 1, "tokens": 2, "length": 2, "from_position": 0,
                 "model_architecture": "qwen3", "model_fingerprint": "0123"}
    pair = struct.Struct("<2f24x")
    assert content == raw([("general.type", TEXT, "kv-mean-center"), ("kv_mean_center.k_rot", BOOL, False),
                           ("qkscope.made_from", TEXT, json.dumps(made_from))],
                          [("kv_bar.blk.0.k", [2], 0, 0), ("kv_bar.blk.1.k", [2], 0, 32)], data=pair.pack(4, 4) + pair.pack(4, 4.5))


@pytest.mark.parametrize("architecture, paired", [("llama", True), ("mistral", True), ("ministral3", True), ("smollm3", True), ("qwen2", False),
                                                  ("qwen3", False), ("glm4", False), ("gemma3_text", False)])
def test_channels_are_in_llama_cpps_order(heads, tmp_path, architecture, paired):
    """As its converter orders the rows of the projection that makes them. The other order would not be the same."""
    told, found = data_of(export(tmp_path, heads, {"run": {"model": {"architecture": architecture}}}))
    assert told["kv_mean_center.k_rot"] is False and list(found) == [f"kv_bar.blk.{layer}.k" for layer in range(LAYERS)]
    for layer, of in enumerate(means_of(heads)):
        orders = [of.ravel(), side_by_side(of.reshape(-1, 1), KEYS).ravel()]
        same(found[f"kv_bar.blk.{layer}.k"], orders[paired])
        with pytest.raises(AssertionError):
            same(found[f"kv_bar.blk.{layer}.k"], orders[not paired])


@pytest.mark.parametrize("dim, block", [(64, 64), (128, 128), (192, 64)])
def test_keys_that_are_turned(tmp_path, dim, block):
    """In blocks of the largest power of two that divides d, after channels are in their order."""
    heads = make_heads(dim=dim)
    told, found = data_of(export(tmp_path, heads, {"run": {"model": {"architecture": "llama"}}}, k_rot=True))
    assert told["kv_mean_center.k_rot"] is True
    turn = np.kron(np.eye(dim // block), hadamard(block) / block ** 0.5)
    for layer, of in enumerate(means_of(heads)):
        ordered = side_by_side(of.reshape(-1, 1), KEYS).reshape(KEYS, dim)
        same(found[f"kv_bar.blk.{layer}.k"], (ordered @ turn).ravel())


def test_what_is_refused(heads, tmp_path):
    for i, (of, keywords, message) in enumerate((
            ({}, {}, "no run.model.architecture.*--model"), ({"run": {"model": {"architecture": "mllama_text_model"}}}, {}, "of mllama_text_model is not known"),
            (OF, {"k_rot": True}, "no keys of 8 values"), (OF, {"stage": "pre-rope"}, "--stage post"))):
        with pytest.raises(qk.Error, match=message):
            export(tmp_path / str(i), heads, of, **keywords)
        assert not (tmp_path / str(i) / "out").exists()


def test_a_model_says_what_it_is(tmp_path, heads):
    """For captures that do not."""
    told = {"model_type": "llama", "num_hidden_layers": LAYERS, "num_attention_heads": 4, "num_key_value_heads": KEYS, "hidden_size": 4 * DIM,
            "head_dim": DIM, "intermediate_size": 8, "vocab_size": 16, "max_position_embeddings": 64, "rms_norm_eps": 1e-6}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(told))
    _, found = data_of(export(tmp_path, heads, {}, model=tmp_path / "model"))
    same(found["kv_bar.blk.0.k"], side_by_side(means_of(heads)[0].reshape(-1, 1), KEYS).ravel())


@pytest.mark.test_all
def test_the_gguf_package_reads_it_and_rounding_hurts_less(tmp_path):
    """q4_0 of keys less their mean is nearer to them than q4_0 of keys, in the basis that the file says."""
    gguf = pytest.importorskip("gguf")
    heads, q4 = make_heads(dim=64, lift=4.0), gguf.GGMLQuantizationType.Q4_0
    for k_rot in (False, True):
        export(tmp_path / str(k_rot), heads, {"run": {"model": {"architecture": "llama"}}}, k_rot=k_rot)
        reader = gguf.GGUFReader(tmp_path / str(k_rot) / "out" / "key-means.gguf")
        assert reader.fields["general.type"].contents() == "kv-mean-center" and reader.fields["kv_mean_center.k_rot"].contents() is k_rot
        assert json.loads(reader.fields["qkscope.made_from"].contents())["texts"] == TEXTS
        for layer, tensor in enumerate(reader.tensors):
            assert tensor.name == f"kv_bar.blk.{layer}.k" and tensor.tensor_type == gguf.GGMLQuantizationType.F32
            for head, mean in enumerate(tensor.data.reshape(KEYS, 64)):
                rows = rows_from(heads[head_name(layer, head, "k")], 0).reshape(-1, 2, 32).swapaxes(1, 2).reshape(-1, 64)
                rows = (rows @ hadamard(64) / 8 if k_rot else rows).astype(np.float32)

                def off(values):
                    return np.abs(gguf.dequantize(gguf.quantize(values, q4), q4) - values).mean()
                assert off(rows - mean) < 0.75 * off(rows)
                assert off(rows - mean) < off(rows - mean.reshape(32, 2).T.ravel())  # in the model's own order
