# SPDX-License-Identifier: Apache-2.0
"""Models in GGUF files: what is computed from them is what is computed from the same weights in Hugging
Face's form, to the bit; blocks against the format's own package; what is refused."""
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from checkpoints import (random_tensors, small_config, text_config, write_checkpoint)
from test_model_files import corners, dump

gguf = pytest.importorskip("gguf")
import gguf_files as files  # noqa: E402
from gguf import GGMLQuantizationType as Type  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "prefill"))
from prefill_runs import CASES, GOLDEN, prefill, read_tensors, same, text as tokens_of  # noqa: E402

BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
ARGUMENT, IO, NOT_FOUND, MALFORMED, UNSUPPORTED, INCONSISTENT = 2, 3, 4, 6, 7, 8
BLOCKS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
          "IQ4_XS"]


def refused(path, code, *words, overrides=""):
    found, message = dump(path, overrides)
    assert found == code, message
    for word in (path.name, *words):
        assert word in message, message


def accepted(path):
    code, model = dump(path)
    assert code == 0, model
    return model


# ---- blocks --------------------------------------------------------------------------------------

def random_blocks(kind, count, rng):
    """Any bits, but with scales that are finite numbers of every size."""
    _, size = gguf.GGML_QUANT_SIZES[Type[kind]]
    data = rng.integers(0, 256, (count, size), dtype=np.uint8)
    places = {"Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
              "Q4_1": [0, 2], "Q5_1": [0, 2]}.get(kind, [0])
    for place in places:
        scales = rng.integers(0, 0x7c00, count).astype(np.uint16) | \
            (rng.integers(0, 2, count) << 15).astype(np.uint16)
        data[:, place:place + 2] = scales.view(np.uint8).reshape(count, 2)
    return data


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks(kind, tmp_path):
    """2,000 random blocks, every value to the bit."""
    values, _ = gguf.GGML_QUANT_SIZES[Type[kind]]
    data = random_blocks(kind, 2000, np.random.default_rng(len(kind) + values))
    (tmp_path / "blocks").write_bytes(data.tobytes())
    run = subprocess.run([BUILD / "tests" / "model" / "expand_blocks", str(int(Type[kind])),
                          tmp_path / "blocks", tmp_path / "values"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    ours = np.fromfile(tmp_path / "values", np.float32)
    theirs = gguf.dequantize(data, Type[kind]).ravel()
    assert theirs.dtype == np.float32 and len(ours) == 2000 * values
    assert ours.tobytes() == theirs.tobytes()
    assert np.isfinite(ours).all() and (ours != 0).mean() > 0.8


# ---- every architecture ----------------------------------------------------------------------------

# What the format can express: layers without rotation are each fourth, layers without a window
# each sixth (or as sliding_window_pattern says), scores are scaled by the size of a head.
SMALL = {
    "llama": [{}, {"attention_bias": True, "mlp_bias": True}],
    "mistral": [{}, {"sliding_window": 8}],
    "ministral3": [{"sliding_window": None}],
    "qwen2": [{}],
    "qwen3": [{}, {"attention_bias": False}],
    "smollm3": [{}],
    "glm": [{}, {"attention_bias": False}],
    "glm4": [{}],
    "gemma3_text": [{"query_pre_attn_scalar": 12, "num_hidden_layers": 7, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
        {"query_pre_attn_scalar": 12, "sliding_window_pattern": 2}],
}
MODELS = [(name, i) for name, changes in SMALL.items() for i in range(len(changes))]


def make(folder, architecture, which=0, **options):
    """A model in both forms."""
    changes = {**SMALL[architecture][which], **options.pop("changes", {})}
    config = small_config(architecture, **changes)
    tensors = random_tensors(config)
    write_checkpoint(folder / "hf", config, tensors=tensors)
    path = folder / "model.gguf"
    read = files.write_gguf(path, config, tensors, **options)
    return config, path, read


@pytest.mark.parametrize("architecture,which", MODELS)
def test_the_same_bits(architecture, which, tmp_path):
    """Queries and keys of all layers, before and after rotation."""
    _, path, _ = make(tmp_path, architecture, which)
    sequences = [tokens_of(60, 96), tokens_of(7, 96, 1)]
    expected = prefill(tmp_path / "hf", sequences, tmp_path)
    same(prefill(path, sequences, tmp_path), expected)
    assert len(expected) >= 2 * 4 * 2


@pytest.mark.parametrize("architecture", ["llama", "gemma3_text", "glm4", "ministral3"])
def test_bf16_is_simulated_alike(architecture, tmp_path):
    config = small_config(architecture, **SMALL[architecture][0])
    tensors = write_checkpoint(tmp_path / "hf", config, dtype="BF16")
    files.write_gguf(tmp_path / "m.gguf", config, tensors, kind="BF16")
    sequences = [tokens_of(40, 96)]
    same(prefill(tmp_path / "m.gguf", sequences, tmp_path, "bf16"),
         prefill(tmp_path / "hf", sequences, tmp_path, "bf16"))


def expressible(case):
    """What of the golden models a GGUF file can say."""
    return not re.search("dynamic|mllama|^ministral$|smollm3|gemma3", case)


@pytest.mark.parametrize("case", [case for case in CASES if expressible(case)])
def test_golden(case, tmp_path):
    """Against transformers on the same weights, every kind of rotation among them."""
    config = json.loads((GOLDEN / case / "config.json").read_text())
    config = text_config(config)
    golden = read_tensors(GOLDEN / case / "golden.safetensors")
    tensors = {re.sub(r"^(language_model\.)?(model\.)?", "", name): values
               for name, values in read_tensors(GOLDEN / case / "model.safetensors").items()
               if "layers." in name or "embed_tokens" in name}
    files.write_gguf(tmp_path / "m.gguf", config, tensors)
    values = prefill(tmp_path / "m.gguf", [golden["input_ids"]], tmp_path)
    exact = prefill(GOLDEN / case, [golden["input_ids"]], tmp_path)
    if case not in ("llama-llama3", "llama-proportional"):
        same(values, exact)
    for (layer, kind, rotated, _), (_, rows) in values.items():
        expected = golden[f"{layer}.{kind}_{'post' if rotated else 'pre'}"]
        difference = abs(rows[golden["rows"]] - expected.astype(float)).max()
        assert difference < 2e-5 * abs(expected).max(), (layer, kind, rotated)


def test_fused_projections(tmp_path):
    """GLM's in one tensor, with biases and without."""
    for which in (0, 1):
        folder = tmp_path / str(which)
        folder.mkdir()
        _, path, read = make(folder, "glm", which, fused=True)
        assert ("blk.0.attn_qkv.weight" in read) and ("blk.0.attn_qkv.bias" in read) == (which == 0)
        sequences = [tokens_of(30, 96)]
        same(prefill(path, sequences, folder), prefill(folder / "hf", sequences, folder))


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"])
@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_types(kind, architecture, tmp_path):
    """A quantised model is the model whose weights are what the package makes of the blocks; rows of
    permuted projections are blocks, too."""
    changes = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16}
    config = small_config(architecture, **changes)
    tensors = random_tensors(config)
    read = files.write_gguf(tmp_path / "m.gguf", config, tensors, kind=kind)
    plain = {name: files.stored(values, kind)[2] for name, values in tensors.items()}
    write_checkpoint(tmp_path / "hf", config, tensors=plain)
    model = accepted(tmp_path / "m.gguf")
    names = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
    assert model["dtype"] == names.get(kind, kind)
    values, size = gguf.GGML_QUANT_SIZES[Type[kind]]
    vectors = sum(v.size for v in read.values() if v.ndim == 1)
    assert model["parameters"] == sum(v.size for v in read.values())
    assert model["weight_bytes"] == 4 * vectors + (model["parameters"] - vectors) // values * size
    sequences = [tokens_of(25, 96)]
    same(prefill(tmp_path / "m.gguf", sequences, tmp_path), prefill(tmp_path / "hf", sequences, tmp_path))


@pytest.mark.parametrize("kind", BLOCKS[5:])
def test_large_blocks_in_a_model(kind, tmp_path):
    """Rows of 256 values, random bits in every block of one layer's projections."""
    config = small_config("llama", hidden_size=256, intermediate_size=256, num_hidden_layers=1,
                          num_attention_heads=4, num_key_value_heads=4)
    tensors = random_tensors(config)
    rng = np.random.default_rng(3)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    mapped = files.converted(config, tensors)
    files.add_keys(writer, config, mapped)
    per_block, _ = gguf.GGML_QUANT_SIZES[Type[kind]]
    for name, values in mapped.items():
        if values.ndim == 1 or name.startswith("token"):
            writer.add_tensor(name, values)
            continue
        data = random_blocks(kind, values.size // per_block, rng).reshape(len(values), -1)
        writer.add_tensor(name, data, raw_dtype=Type[kind])
        mapped[name] = gguf.dequantize(data, Type[kind]).reshape(values.shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    layer = accepted(tmp_path / "m.gguf")["layers"][0]
    heads = {"q": 4, "k": 4}
    for place, name in (("q", "attn_q"), ("k", "attn_k"), ("v", "attn_v"), ("o", "attn_output"),
                        ("gate", "ffn_gate"), ("down", "ffn_down")):
        values = mapped[f"blk.0.{name}.weight"]
        if place in heads:
            values = values.reshape(4, 32, 2, 256).swapaxes(1, 2).reshape(256, 256)
        assert layer[place] == corners(values)


# ---- several files -----------------------------------------------------------------------------------

def test_split_files(tmp_path):
    config, path, _ = make(tmp_path, "llama")
    tensors = random_tensors(config)
    files.write_gguf(tmp_path / "part.gguf", config, tensors, split=9)
    parts = sorted(tmp_path.glob("part-*.gguf"))
    assert len(parts) > 3 and parts[0].name == f"part-00001-of-{len(parts):05}.gguf"
    sequences = [tokens_of(20, 96)]
    same(prefill(parts[0], sequences, tmp_path), prefill(path, sequences, tmp_path))
    one = accepted(path)
    assert accepted(parts[0])["fingerprint"] != one["fingerprint"]
    refused(parts[1], INCONSISTENT, "split.no", "file 2 of", "the first")
    alone = tmp_path / "alone.gguf"
    parts[0].rename(alone)
    refused(alone, INCONSISTENT, "split.count", f"-00001-of-{len(parts):05}.gguf")
    alone.rename(parts[0])
    third = parts[2].read_bytes()
    parts[2].write_bytes(parts[1].read_bytes())
    code, message = dump(parts[0])
    assert code == INCONSISTENT and parts[2].name in message and "split.no" in message
    parts[2].unlink()
    code, message = dump(parts[0])
    assert code == NOT_FOUND and parts[2].name in message
    parts[2].write_bytes(third)
    accepted(parts[0])


def test_fingerprints(tmp_path):
    config, path, _ = make(tmp_path, "qwen3")
    tensors = random_tensors(config)
    first = accepted(path)["fingerprint"]
    assert accepted(path)["fingerprint"] == first
    assert dump(path, '{"rope_theta": 5e5}')[1]["fingerprint"] != first
    tensors["layers.2.mlp.up_proj.weight"][-1, -1] += 1
    files.write_gguf(tmp_path / "other.gguf", config, tensors)
    assert accepted(tmp_path / "other.gguf")["fingerprint"] != first


def test_overrides(tmp_path):
    config, path, _ = make(tmp_path, "llama")
    config["rope_scaling"] = {"rope_type": "linear", "factor": 2.0}
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
    changed = dump(path, json.dumps({"rope_scaling": config["rope_scaling"]}))[1]
    assert changed["rope_type"] == "linear"
    assert changed["layers"] == accepted(tmp_path / "hf")["layers"]
    refused(path, ARGUMENT, "model_type", overrides='{"model_type": "qwen2"}')


# ---- metadata -----------------------------------------------------------------------------------------

MISSING = ["general.architecture", "llama.block_count", "llama.embedding_length",
           "llama.feed_forward_length", "llama.context_length", "llama.attention.head_count",
           "llama.attention.layer_norm_rms_epsilon"]
TEXT, WHOLE, REAL = "add_string", "add_uint32", "add_float32"


@pytest.mark.parametrize("key", MISSING)
def test_missing_keys(key, tmp_path):
    _, path, _ = make(tmp_path, "llama", change={key: None})
    refused(path, MALFORMED, key, "missing")


@pytest.mark.parametrize("key,method,value,code", [
    *[(key, TEXT, "4", MALFORMED) for key in MISSING[1:]],
    *[(key, REAL, 4.5, MALFORMED) for key in MISSING[1:6]],
    *[(key, WHOLE, 0, MALFORMED) for key in MISSING[1:6]],
    *[(key, "add_uint64", 1 << 60, MALFORMED) for key in MISSING[1:6]],
    *[(key, "add_array", [2, 2], MALFORMED) for key in MISSING[1:]],
    ("general.architecture", WHOLE, 1, MALFORMED),
    ("general.architecture", TEXT, "bloom", UNSUPPORTED),
    ("general.type", TEXT, "adapter", UNSUPPORTED),
    ("llama.attention.head_count_kv", "add_array", [2, 1, 2, 2], MALFORMED),
    ("llama.attention.layer_norm_rms_epsilon", REAL, float("nan"), MALFORMED),
    ("llama.attention.layer_norm_rms_epsilon", REAL, -1.0, MALFORMED),
    ("llama.rope.freq_base", REAL, float("inf"), MALFORMED),
    ("llama.rope.freq_base", TEXT, "10000", MALFORMED),
    ("llama.rope.dimension_count", WHOLE, 7, INCONSISTENT),
    ("llama.rope.dimension_count", WHOLE, 64, INCONSISTENT),
    ("llama.rope.scaling.type", TEXT, "su", UNSUPPORTED),
    ("llama.rope.scaling.type", WHOLE, 1, MALFORMED),
    ("llama.attention.value_length", WHOLE, 4, UNSUPPORTED),
    ("llama.attention.causal", "add_bool", False, UNSUPPORTED),
    ("llama.attention.causal", WHOLE, 1, MALFORMED),
    ("llama.expert_count", WHOLE, 8, UNSUPPORTED),
    ("llama.attention.scale", REAL, 0.5, UNSUPPORTED),
    ("llama.embedding_scale", REAL, 12.0, UNSUPPORTED),
    ("llama.residual_scale", REAL, 0.2, UNSUPPORTED),
    ("llama.attention.clamp_kqv", REAL, 8.0, UNSUPPORTED),
    ("llama.attn_logit_softcapping", REAL, 50.0, UNSUPPORTED),
    ("llama.rope.dimension_sections", "add_array", [2, 2, 0, 0], UNSUPPORTED),
    ("general.alignment", WHOLE, 3, MALFORMED),
    ("general.alignment", TEXT, "32", MALFORMED),
    ("split.count", TEXT, "1", MALFORMED),
    ("split.count", WHOLE, 2, INCONSISTENT),
    ("split.no", WHOLE, 1, INCONSISTENT),
    ("split.tensors.count", WHOLE, 7, INCONSISTENT),
])
def test_wrong_values(key, method, value, code, tmp_path):
    _, path, _ = make(tmp_path, "llama", change={key: (method, value)})
    refused(path, code, key)


@pytest.mark.parametrize("key,method,value", [
    ("llama.expert_count", WHOLE, 0), ("llama.attention.causal", "add_bool", True),
    ("llama.rope.scaling.type", TEXT, "none"), ("llama.attention.sliding_window", WHOLE, 0),
    ("llama.attention.sliding_window", WHOLE, 512), ("general.type", TEXT, "model"),
    ("split.count", WHOLE, 0), ("split.count", WHOLE, 1), ("anything.else", TEXT, "\0")])
def test_values_that_change_nothing(key, method, value, tmp_path):
    _, path, _ = make(tmp_path, "llama", change={key: (method, value)})
    sequences = [tokens_of(9, 96)]
    same(prefill(path, sequences, tmp_path), prefill(tmp_path / "hf", sequences, tmp_path))


def test_scaling_in_old_files(tmp_path):
    for key in ("llama.rope.scale_linear", "llama.rope.scaling.factor"):
        _, path, _ = make(tmp_path, "llama", change={key: (REAL, 4.0)})
        model = accepted(path)
        assert model["rope_type"] == "linear"
        assert model["layers"][0]["frequency_1"] == pytest.approx(0.25 * 10000 ** (-2 / 8), rel=1e-6)


def test_windows_that_are_not_told(tmp_path):
    _, path, _ = make(tmp_path, "qwen3", change={"qwen3.attention.sliding_window": (WHOLE, 64)})
    refused(path, UNSUPPORTED, "qwen3.attention.sliding_window")


def test_tensors_that_do_not_fit(tmp_path):
    config, path, _ = make(tmp_path, "llama")
    tensors = random_tensors(config)

    def write(**changes):
        changed = {**tensors, **changes}
        files.write_gguf(path, config, {k: v for k, v in changed.items() if v is not None})

    for name, code, words in (
            ("embed_tokens.weight", NOT_FOUND, ["token_embd.weight"]),
            ("layers.1.self_attn.k_proj.weight", NOT_FOUND, ["blk.1.attn_k.weight"]),
            ("layers.3.post_attention_layernorm.weight", NOT_FOUND, ["blk.3.ffn_norm.weight"])):
        write(**{name: None})
        refused(path, code, *words)
    write(**{"layers.2.mlp.up_proj.weight": tensors["layers.2.mlp.up_proj.weight"][:-1]})
    refused(path, INCONSISTENT, "blk.2.ffn_up.weight", "[47, 32]", "the metadata", "[48, 32]")
    write(**{"layers.2.self_attn.q_proj.bias": np.zeros(32, np.float32)})
    refused(path, INCONSISTENT, "blk.2.attn_q.bias")


# ---- the container ---------------------------------------------------------------------------------------

F32_TENSOR = ("a", [2, 2], 0, 0)


@pytest.mark.parametrize("data,code,words", [
    (b"GGU", MALFORMED, ["no GGUF file"]),
    (b"", MALFORMED, ["0 bytes"]),
    (b"GGUF", MALFORMED, ["ends at byte 4"]),
    (b"GGUF\3\0\0\0" + bytes(12), MALFORMED, ["ends at byte 20"]),
    (files.raw(magic=b"GGML"), MALFORMED, ["no GGUF file"]),
    (files.raw(version=1), UNSUPPORTED, ["version 1"]),
    (files.raw(version=4), UNSUPPORTED, ["version 4"]),
    (files.raw(version=3 << 24), UNSUPPORTED, ["big-endian"]),
    (files.raw(counts=(0, 1 << 60)), MALFORMED, [f"{1 << 60} keys"]),
    (files.raw(counts=(1 << 60, 0)), MALFORMED, [f"{1 << 60} tensors"]),
    (files.raw(counts=(0, 1)), MALFORMED, ["keys"]),
    (files.raw([("k", files.U32, b"\1")], counts=(0, 1), alignment=1), MALFORMED, ["key k", "ends"]),
    (files.raw([("k", 13, b"\0\0\0\0")]), MALFORMED, ["key k", "type of value 13"]),
    (files.raw([("k", files.BOOL, b"\2")]), MALFORMED, ["key k", "boolean"]),
    (files.raw([("k", files.TEXT, b"\xff")]), MALFORMED, ["key k", "UTF-8"]),
    (files.raw([("k", files.LIST, files.struct.pack("<IQ", 4, 1 << 60))]), MALFORMED,
     ["key k", f"{1 << 60} values"]),
    (files.raw(counts=(0, 1), data=files.text("k") + files.struct.pack("<IQ", 8, 1 << 60), alignment=1),
     MALFORMED, ["key k", f"{1 << 60} bytes"]),
    (files.raw([("k", files.LIST, files.struct.pack("<IQ", 9, 1) * 6 + b"\0" * 80)]), MALFORMED,
     ["key k", "arrays"]),
    (files.raw([("", files.U32, 1)]), MALFORMED, ["name"]),
    (files.raw([("a\0b", files.U32, 1)]), MALFORMED, ["name"]),
    (files.raw([("k", files.U32, 1), ("k", files.U32, 1)]), MALFORMED, ["key k", "twice"]),
    (files.raw([(b"\xff", files.U32, 1)]), MALFORMED, ["UTF-8"]),
    (files.raw(tensors=[("a", [], 0, 0)], data=b"\0" * 64), MALFORMED, ["tensor a", "0 dimensions"]),
    (files.raw(tensors=[("a", [1] * 5, 0, 0)], data=b"\0" * 64), MALFORMED, ["tensor a", "5 dimensions"]),
    (files.raw(tensors=[("a", [1 << 63], 0, 0)], data=b"\0" * 64), MALFORMED, ["tensor a"]),
    (files.raw(tensors=[("a", [1 << 40, 1 << 40], 0, 0)], data=b"\0" * 64), MALFORMED, ["tensor a"]),
    (files.raw(tensors=[("a", [1 << 61, 2], 0, 0)], data=b"\0" * 64), MALFORMED, ["tensor a", "63 bits"]),
    (files.raw(tensors=[("a", [33], 2, 0)], data=b"\0" * 64), MALFORMED, ["tensor a", "33", "Q4_0"]),
    (files.raw(tensors=[F32_TENSOR], data=b"\0" * 15), MALFORMED, ["tensor a", "cut short"]),
    (files.raw(tensors=[("a", [1], 0, (1 << 64) - 32)], data=b"\0" * 64), MALFORMED,
     ["tensor a", "cut short"]),
    (files.raw(tensors=[("a", [1], 0, 4)], data=b"\0" * 64), MALFORMED, ["tensor a", "multiple of 32"]),
    (files.raw(tensors=[("a", [16], 0, 0), ("b", [4], 0, 32)], data=b"\0" * 64), MALFORMED,
     ["a and b", "overlap"]),
    (files.raw(tensors=[F32_TENSOR, F32_TENSOR[:3] + (32,)], data=b"\0" * 64), INCONSISTENT, ["tensor a"]),
])
def test_bad_containers(data, code, words, tmp_path):
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    refused(path, code, *words)


@pytest.mark.parametrize("kind,name", [(Type.IQ2_XXS, "IQ2_XXS"), (Type.MXFP4, "MXFP4"), (40, "NVFP4"),
                                       (41, "Q1_0"), (Type.I8, "I8"), (99, "type 99")])
def test_other_types_are_named(kind, name, tmp_path):
    """Where they are needed; elsewhere they may be."""
    config, path, _ = make(tmp_path, "llama")
    data = path.read_bytes()
    for tensor, needed in (("output.weight", False), ("blk.1.ffn_up.weight", True)):
        tensors = random_tensors(config)
        writer = gguf.GGUFWriter(path, "llama")
        mapped = files.converted(config, tensors)
        files.add_keys(writer, config, mapped)
        if not needed:
            mapped[tensor] = np.zeros((4, 32), np.float32)
        for key, values in mapped.items():
            writer.add_tensor(key, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        data = bytearray(path.read_bytes())
        at = data.index(files.text(tensor)) + len(files.text(tensor)) + 4 + 16
        assert data[at:at + 4] == b"\0\0\0\0"
        data[at:at + 4] = files.struct.pack("<I", kind)
        path.write_bytes(data)
        if needed:
            refused(path, UNSUPPORTED, tensor, name, "Q2_K to Q6_K")
        else:
            accepted(path)


def test_every_prefix_of_a_file(tmp_path):
    """Cut anywhere, a file is refused, and nothing beyond its end is read."""
    _, path, _ = make(tmp_path, "qwen2", changes={"num_hidden_layers": 1, "vocab_size": 8})
    data = path.read_bytes()
    header = data.index(b"token_embd") + 64
    for size in [*range(1, header, 41), *range(header, len(data), 1999), len(data) - 1]:
        (tmp_path / "cut.gguf").write_bytes(data[:size])
        code, message = dump(tmp_path / "cut.gguf")
        assert code in (MALFORMED, NOT_FOUND), (size, message)


def test_names_of_all_types():
    """The package may have learnt new ones."""
    known = set(re.findall(r'"(\w+)"', (ROOT / "src" / "model" / "quants.c").read_text()))
    assert {kind.name for kind in Type} <= known
