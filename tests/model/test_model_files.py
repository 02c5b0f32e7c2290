# SPDX-License-Identifier: Apache-2.0
"""Opening checkpoints: each architecture's tensors come to their places; damaged ones are refused."""
import json
import os
import pathlib
import struct
import subprocess

import numpy as np
import pytest

from checkpoints import (ARCHITECTURES, COMPOSITES, head_dim, random_tensors, small_config,
                         text_config, write_checkpoint, write_safetensors)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
ARGUMENT, IO, NOT_FOUND, MALFORMED, UNSUPPORTED, INCONSISTENT = 2, 3, 4, 6, 7, 8


def dump(folder, overrides=""):
    run = subprocess.run([BUILD / "tests" / "model" / "dump_model", folder, overrides],
                         capture_output=True, text=True, timeout=300)
    assert run.returncode >= 0, run.stderr
    assert "Sanitizer" not in run.stderr and "runtime error" not in run.stderr, run.stderr
    return run.returncode, json.loads(run.stdout) if run.returncode == 0 else run.stderr.strip()


def open_model(folder, overrides=""):
    code, model = dump(folder, overrides)
    assert code == 0, model
    return model


def refused(folder, code, *words, overrides=""):
    found, message = dump(folder, overrides)
    assert found == code, message
    for word in words:
        assert word in message, message


def corners(values):
    rows, columns = (1, *values.shape)[-2:]
    flat = values.ravel()
    return [rows, columns, float(flat[0]), float(flat[-1])]


# ---- what belongs where -----------------------------------------------------------------------

LINEAR = {"q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
          "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj",
          "down": "mlp.down_proj"}
NORMS = {
    "glm4": {"attention_norm": "input_layernorm", "attention_out_norm": "post_self_attn_layernorm",
             "mlp_norm": "post_attention_layernorm", "mlp_out_norm": "post_mlp_layernorm"},
    "gemma3_text": {"attention_norm": "input_layernorm",
                    "attention_out_norm": "post_attention_layernorm",
                    "mlp_norm": "pre_feedforward_layernorm",
                    "mlp_out_norm": "post_feedforward_layernorm"},
}
USUAL_NORMS = {"attention_norm": "input_layernorm", "mlp_norm": "post_attention_layernorm"}


def check_layers(model, config, read):
    text = text_config(config)
    kind, wide = text["model_type"], text["intermediate_size"]
    for i, layer in enumerate(model["layers"]):
        tensors = {name.removeprefix(f"layers.{i}."): values for name, values in read.items()
                   if name.startswith(f"layers.{i}.")}
        assert layer["attends"] == bool(tensors)
        if not tensors:
            assert all(layer[place] is None for place in (*LINEAR, *USUAL_NORMS))
            continue
        if kind in ("glm", "glm4"):
            both = tensors["mlp.gate_up_proj.weight"]
            tensors["mlp.gate_proj.weight"], tensors["mlp.up_proj.weight"] = both[:wide], both[wide:]
        for place, name in LINEAR.items():
            assert layer[place] == corners(tensors[name + ".weight"]), (kind, place)
            bias = tensors.get(name + ".bias")
            assert layer[place + "_bias"] == (None if bias is None else corners(bias))
        norms = NORMS.get(kind, USUAL_NORMS)
        for place in ("attention_norm", "attention_out_norm", "mlp_norm", "mlp_out_norm"):
            wanted = corners(tensors[norms[place] + ".weight"]) if place in norms else None
            assert layer[place] == wanted, (kind, place)
        for place in ("q_norm", "k_norm"):
            norm = tensors.get(f"self_attn.{place}.weight")
            assert layer[place] == (None if norm is None else corners(norm))


@pytest.mark.cases(14)
@pytest.mark.parametrize("architecture", [*ARCHITECTURES, *COMPOSITES])
def test_every_tensor_in_its_place(tmp_path, architecture):
    config = small_config(architecture)
    read = write_checkpoint(tmp_path, config)
    model = open_model(tmp_path)
    text = text_config(config)
    assert model["architecture"] == text["model_type"]
    assert model["head_dim"] == head_dim(text)
    assert (model["num_q_heads"], model["num_k_heads"]) == (4, 2)
    assert model["embedding"] == corners(read["embed_tokens.weight"])
    assert model["parameters"] == sum(v.size for v in read.values())
    assert model["weight_bytes"] == 4 * model["parameters"]
    check_layers(model, config, read)


@pytest.mark.cases(12)
@pytest.mark.parametrize("architecture", ["llama", "qwen3", "smollm3", "glm", "glm4", "gemma3_text"])
@pytest.mark.parametrize("bias", [False, True])
def test_biases(tmp_path, architecture, bias):
    config = small_config(architecture, attention_bias=bias)
    if architecture in ("llama", "smollm3"):
        config["mlp_bias"] = bias
    read = write_checkpoint(tmp_path, config)
    check_layers(open_model(tmp_path), config, read)
    config["attention_bias"] = not bias
    (tmp_path / "config.json").write_text(json.dumps(config))
    refused(tmp_path, NOT_FOUND if not bias else INCONSISTENT, "q_proj.bias")


@pytest.mark.cases(5)
@pytest.mark.parametrize("prefix", ["model.", "language_model.model.", "model.language_model.",
                                    "language_model.", "_orig_mod.model.", ""])
def test_prefixes(tmp_path, prefix):
    """_orig_mod: saved from what torch.compile gave."""
    config = small_config("gemma3")
    extra = {"vision_tower.x": ("F64", [2], b"\0" * 16), "lm_head.weight": ("F8_E4M3", [3], b"abc")}
    read = write_checkpoint(tmp_path, config, prefix=prefix, extra=extra)
    check_layers(open_model(tmp_path), config, read)


@pytest.mark.cases(4)
@pytest.mark.parametrize("dtype", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("padding", [0, 1])
def test_formats_shards_and_alignment(tmp_path, dtype, shards, padding):
    config = small_config("llama")
    read = write_checkpoint(tmp_path, config, dtype=dtype, shards=shards, padding=padding)
    model = open_model(tmp_path)
    assert model["dtype"] == {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}[dtype]
    assert model["weight_bytes"] == (4 if dtype == "F32" else 2) * model["parameters"]
    check_layers(model, config, read)


def test_frequencies_of_layers(tmp_path):
    write_checkpoint(tmp_path, small_config("gemma3_text", num_hidden_layers=6, rope_theta=1e6))
    layers = open_model(tmp_path)["layers"]
    for layer in layers:
        theta = 1e4 if layer["sliding"] else 1e6
        assert layer["frequency_1"] == pytest.approx(theta ** (-2 / 12), rel=1e-6)
        assert (layer["num_frequencies"], layer["window"]) == (6, 8 if layer["sliding"] else 0)
    assert [layer["sliding"] for layer in layers] == [True] * 5 + [False]
    write_checkpoint(tmp_path, small_config("smollm3"))
    layers = open_model(tmp_path)["layers"]
    assert [layer["num_frequencies"] for layer in layers] == [4, 4, 4, 0]
    assert [layer["rope"] for layer in layers] == [True] * 3 + [False]


def test_single_file_goes_before_an_index(tmp_path):
    config = small_config("llama")
    write_checkpoint(tmp_path, config, shards=2, seed=1)
    read = write_checkpoint(tmp_path, config)
    check_layers(open_model(tmp_path), config, read)


def test_files_may_be_links_as_in_a_cache(tmp_path):
    config = small_config("llama")
    read = write_checkpoint(tmp_path / "blobs", config, shards=2)
    (tmp_path / "model").mkdir()
    for file in (tmp_path / "blobs").iterdir():
        (tmp_path / "model" / file.name).symlink_to(file)
    check_layers(open_model(tmp_path / "model"), config, read)


def test_fingerprints(tmp_path):
    config = small_config("llama")
    tensors = random_tensors(config)
    seen = set()
    for name, change in (("a", 0), ("b", 0), ("c", 1e-3)):
        tensors["layers.3.mlp.down_proj.weight"][-1, -1] += change
        write_checkpoint(tmp_path / name, config, tensors=tensors)
        seen.add(open_model(tmp_path / name)["fingerprint"])
    assert len(seen) == 2
    seen.add(open_model(tmp_path / "a", '{"rope_theta": 5000.0}')["fingerprint"])
    assert len(seen) == 3


# ---- what is refused --------------------------------------------------------------------------

@pytest.fixture
def llama(tmp_path):
    config = small_config("llama")
    return tmp_path, config, write_checkpoint(tmp_path, config)


def entries_of(tensors):
    return {"model." + name: ("F32", v.shape, v.tobytes()) for name, v in tensors.items()}


def rewrite(folder, entries):
    write_safetensors(folder / "model.safetensors", entries)


def test_every_prefix_of_a_file(llama):
    folder, _, _ = llama
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    for size in [0, 1, 7, 8, 9, header - 1, header, header + 1, len(whole) - 1]:
        file.write_bytes(whole[:size])
        refused(folder, MALFORMED, "model.safetensors")


def test_truncated_shard(tmp_path):
    write_checkpoint(tmp_path, small_config("llama"), shards=3)
    file = tmp_path / "model-00002-of-00003.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    refused(tmp_path, MALFORMED, file.name, "cut short")
    file.unlink()
    refused(tmp_path, NOT_FOUND, file.name)


def test_missing_tensor_and_wrong_shape(llama):
    folder, _, read = llama
    entries = entries_of(read)
    name = "model.layers.2.self_attn.k_proj.weight"
    lost = entries.pop(name)
    rewrite(folder, entries)
    refused(folder, NOT_FOUND, name)
    rewrite(folder, {**entries, name: (lost[0], lost[1][::-1], lost[2])})
    refused(folder, INCONSISTENT, name, "[32, 16]", "[16, 32]")
    rewrite(folder, {**entries, name: (lost[0], [16 * 32], lost[2])})
    refused(folder, INCONSISTENT, name, "[512]")
    del entries["model.embed_tokens.weight"]
    rewrite(folder, entries)
    refused(folder, NOT_FOUND, "embed_tokens")


@pytest.mark.parametrize("dtype,width", [("F8_E4M3", 1), ("F8_E5M2", 1), ("I8", 1), ("F64", 8),
                                         ("F4", 1)])
def test_other_number_formats_are_named(llama, dtype, width):
    folder, _, read = llama
    entries = entries_of(read)
    name = "model.layers.1.mlp.up_proj.weight"
    shape = entries[name][1]
    entries[name] = (dtype, shape, b"\0" * (shape[0] * shape[1] * width))
    rewrite(folder, entries)
    refused(folder, UNSUPPORTED, name, dtype)


@pytest.mark.cases(4)
@pytest.mark.parametrize("length", [2**64 - 1, 2**63, 100 << 20, 5000])
def test_header_longer_than_the_file(llama, length):
    """Or longer than any: it is not parsed."""
    folder, _, _ = llama
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", length) + b"{}" + b" " * 100)
    refused(folder, MALFORMED, str(length), "header")
    if length == 100 << 20:
        os.truncate(folder / "model.safetensors", 8 + length)
        refused(folder, MALFORMED, "header", "allowed")


def header_only(folder, text, data=b""):
    text = text if isinstance(text, bytes) else text.encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.cases(26)
@pytest.mark.parametrize("text,word", [
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},'
     ' "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}}', "overlap"),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},'
     ' "a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}', "duplicate"),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 7]}}', "do not fit"),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}', "data_offsets"),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0]}}', "data_offsets"),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [9223372036854775800,'
     ' 9223372036854775807]}}', "cut short"),
    ('{"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 9223372036854775808]}}', "header"),
    ('{"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}', "shape"),
    ('{"a": {"dtype": "F32", "shape": [4611686018427387904], "data_offsets": [0, 0]}}',
     "do not fit"),
    ('{"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}', "shape"),
    ('{"a": {"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,1], "data_offsets": [0, 4]}}', "shape"),
    ('{"a": {"dtype": "a name that is too long", "shape": [1], "data_offsets": [0, 4]}}', "dtype"),
    ('{"a": 5}', "object"), ('[1, 2]', "object"), ('{"a": ', "header"), ("", "header"),
    ('{"__metadata__": {"format": "pt"}}', "no tensors"), ("{}", "no tensors"),
    (b'{"\xff": 1}', "decode"), ('{"a\\u0000b": 1}', "header"), ("[" * 100000, "depth"),
])
def test_bad_headers(llama, text, word):
    folder, _, _ = llama
    header_only(folder, text, b"\0" * 16)
    refused(folder, MALFORMED, word)


@pytest.mark.cases(4)
@pytest.mark.parametrize("file", ["../x.safetensors", "/etc/x.safetensors", "a/b.safetensors",
                                  "..", "", ".safetensors", ".x.safetensors",
                                  "model.safetensors.index.json", "a\\b.safetensors", 5, None])
def test_index_names_files_of_the_folder_only(tmp_path, file):
    write_checkpoint(tmp_path, small_config("llama"), shards=2)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    content["weight_map"]["model.embed_tokens.weight"] = file
    index.write_text(json.dumps(content))
    refused(tmp_path, MALFORMED, "weight_map", "embed_tokens")


def test_bad_indexes(tmp_path):
    config = small_config("llama")
    write_checkpoint(tmp_path, config, shards=2)
    index = tmp_path / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    first, second = sorted(set(content["weight_map"].values()))
    moved = {**content["weight_map"], "model.embed_tokens.weight": second}
    for text, code, word in [
            (json.dumps({"weight_map": moved}), INCONSISTENT, second),
            (json.dumps({"weight_map": {**content["weight_map"], "x": first}}), INCONSISTENT, "x"),
            (json.dumps({"weight_map": {}}), MALFORMED, "weight_map"),
            (json.dumps({"weight_map": [first]}), MALFORMED, "weight_map"),
            ("[]", MALFORMED, "weight_map"), ("{", MALFORMED, "byte 2"),
            ('{"weight_map": {"a": "b.safetensors", "a": "c.safetensors"}}', MALFORMED, "duplicate")]:
        index.write_text(text)
        refused(tmp_path, code, word)
    index.unlink()
    refused(tmp_path, NOT_FOUND, "model.safetensors")
    index.symlink_to(index.name)  # a circle
    refused(tmp_path, NOT_FOUND, "model.safetensors")
    (tmp_path / "model.safetensors").mkdir()
    refused(tmp_path, IO, "is a folder")


def test_a_part_of_the_weights_is_missing(tmp_path):
    write_checkpoint(tmp_path, small_config("llama"), shards=3)
    second = sorted(tmp_path.glob("model-*.safetensors"))[1]
    second.rename(tmp_path / "away")
    refused(tmp_path, NOT_FOUND, second.name)
    (tmp_path / "away").rename(second)
    (tmp_path / "model.safetensors.index.json").unlink()
    refused(tmp_path, NOT_FOUND, "model.safetensors.index.json")


def test_a_tensor_in_two_files(tmp_path):
    read = write_checkpoint(tmp_path, small_config("llama"), shards=2)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    second = max(index.values())
    twice = "model.embed_tokens.weight"
    entries = {name: entry for name, entry in entries_of(read).items()
               if index[name] == second or name == twice}
    assert index[twice] != second
    write_safetensors(tmp_path / second, entries)
    refused(tmp_path, INCONSISTENT, twice, second)


def test_pipes_and_folders_do_not_hold_up(llama):
    folder, _, _ = llama
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    refused(folder, IO, "config.json")
    refused(folder / "none", NOT_FOUND, "config.json")
