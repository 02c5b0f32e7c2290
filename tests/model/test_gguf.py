# SPDX-License-Identifier: Apache-2.0
"""Models in GGUF files: what is computed from them is what is computed from the same weights in Hugging
Face's form, to the bit; blocks against the format's own package; what is refused."""
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import gguf_files as files
from checkpoints import random_tensors, small_config, text_config, write_checkpoint
from test_model_files import corners, dump

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "prefill"))
from prefill_runs import CASES, GOLDEN, prefill, read_tensors, same, start, text as tokens_of  # noqa: E402

BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
ARGUMENT, IO, NOT_FOUND, MALFORMED, UNSUPPORTED, INCONSISTENT = 2, 3, 4, 6, 7, 8


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

# Number of the type; values and bytes of a block; where its scales are; and what the format's package makes of random
# blocks: a digest, that it need not be installed.
BLOCKS = {
    "Q4_0": (2, 32, 18, [0], "f4b0792b4bfb6812"), "Q4_1": (3, 32, 20, [0, 2], "bfa33e415bd308ad"),
    "Q5_0": (6, 32, 22, [0], "7d7cfe72e69178c6"), "Q5_1": (7, 32, 24, [0, 2], "b19b6155bbe10ee8"),
    "Q8_0": (8, 32, 34, [0], "324194c6255ca8f0"), "Q2_K": (10, 256, 84, [80, 82], "8b90d5d7b4e88c6d"),
    "Q3_K": (11, 256, 110, [108], "5cd2cbeb564b06ec"), "Q4_K": (12, 256, 144, [0, 2], "7b1813a73d949925"),
    "Q5_K": (13, 256, 176, [0, 2], "2d8ccf3bdc93c92a"), "Q6_K": (14, 256, 210, [208], "917720881a6c371a"),
    "IQ4_NL": (20, 32, 18, [0], "b9af5eed3f1d9540"), "IQ4_XS": (23, 256, 136, [0], "86feb1b57f416000"),
}


def random_blocks(kind, count):
    """Any bits, but with scales that are finite numbers of every size."""
    _, _, size, places, _ = BLOCKS[kind]
    data = np.frombuffer(hashlib.shake_256(kind.encode()).digest(count * size), np.uint8).reshape(count, size).copy()
    for place in places:
        data[:, place + 1] &= 0xfb
    return data


def expanded(kind, data, folder):
    (folder / "blocks").write_bytes(data.tobytes())
    run = subprocess.run([BUILD / "tests" / "model" / "expand_blocks", str(BLOCKS[kind][0]), folder / "blocks",
                          folder / "values"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return np.fromfile(folder / "values", np.float32)


def digest(values):
    return hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()[:16]


@pytest.mark.cases(12)
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks(kind, tmp_path):
    """2,000 random blocks, every value to the bit."""
    values = expanded(kind, random_blocks(kind, 2000), tmp_path)
    assert len(values) == 2000 * BLOCKS[kind][1]
    assert np.isfinite(values).all() and (values != 0).mean() > 0.8
    assert digest(values) == BLOCKS[kind][-1]


@pytest.mark.test_all
def test_what_the_package_says():
    """The tables here and in the library are the package's, which may have learnt new types."""
    gguf = pytest.importorskip("gguf")
    known = set(re.findall(r'"(\w+)"', (ROOT / "src" / "model" / "quants.c").read_text()))
    assert {kind.name for kind in gguf.GGMLQuantizationType} <= known
    for kind, (number, values, size, _, wanted) in BLOCKS.items():
        raw = gguf.GGMLQuantizationType[kind]
        assert (number, values, size) == (raw, *gguf.GGML_QUANT_SIZES[raw])
        assert digest(gguf.dequantize(random_blocks(kind, 2000), raw)) == wanted, kind
    by_name = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    for name, architecture in files.NAMES.items():
        names = gguf.get_tensor_name_map(by_name[architecture], 4)
        for key in random_tensors(small_config(name)):
            assert files.name_of(architecture, key) == names.get_name("model." + key, try_suffixes=(".weight", ".bias")), key


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


@pytest.mark.cases(12)
@pytest.mark.parametrize("architecture,which", MODELS)
def test_the_same_bits(architecture, which, tmp_path):
    """Queries and keys of all layers, before and after rotation."""
    _, path, _ = make(tmp_path, architecture, which)
    sequences = [tokens_of(60, 96), tokens_of(7, 96, 1)]
    expected = prefill(tmp_path / "hf", sequences, tmp_path)
    same(prefill(path, sequences, tmp_path), expected)
    assert len(expected) >= 2 * 4 * 2


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


@pytest.mark.cases(15)
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", *BLOCKS])
def test_types(kind, tmp_path):
    """A quantised model is the model whose weights are what its blocks expand to; rows of permuted projections are blocks, too."""
    config = small_config("llama", hidden_size=256, intermediate_size=256, num_hidden_layers=1)
    writer, read = files.Writer("llama"), {}
    mapped = files.converted(config, random_tensors(config))
    files.add_keys(writer, config, mapped)
    size = {"F32": 4, "F16": 2, "BF16": 2}.get(kind) or BLOCKS[kind][2] / BLOCKS[kind][1]
    for name, values in mapped.items():
        if kind in BLOCKS and values.ndim == 2:
            data = random_blocks(kind, values.size // BLOCKS[kind][1])
            read[name] = expanded(kind, data, tmp_path).reshape(values.shape)
            writer.add_tensor(name, data.tobytes(), BLOCKS[kind][0], values.shape)
        else:
            data, number, read[name] = files.stored(values, kind)
            writer.add_tensor(name, data, number, values.shape)
    writer.write(tmp_path / "m.gguf")
    model = accepted(tmp_path / "m.gguf")
    assert model["dtype"] == {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}.get(kind, kind)
    assert model["parameters"] == sum(v.size for v in read.values())
    assert model["weight_bytes"] == sum(v.size * (size if v.ndim == 2 else 4) for v in read.values())
    for place, name in (("q", "attn_q"), ("k", "attn_k"), ("v", "attn_v"), ("o", "attn_output"), ("gate", "ffn_gate"),
                        ("down", "ffn_down")):
        values = read[f"blk.0.{name}.weight"]
        if place in "qk":  # rows that are neighbours here are half a head apart there
            values = values.reshape(-1, 32, 2, 256).swapaxes(1, 2).reshape(-1, 256)
        assert model["layers"][0][place] == corners(values)


# ---- several files -----------------------------------------------------------------------------------

def test_split_files(tmp_path):
    config, path, _ = make(tmp_path, "llama")
    tensors = random_tensors(config)
    files.write_gguf(tmp_path / "part.gguf", config, tensors, parts=5)
    parts = sorted(tmp_path.glob("part-*.gguf"))
    assert len(parts) == 5
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


@pytest.mark.cases(12)
@pytest.mark.parametrize("key,value,code", [
    *[(key, None, MALFORMED) for key in MISSING],
    *[(key, value, MALFORMED) for key in MISSING[1:] for value in ("4", [2, 2])],
    *[(key, value, MALFORMED) for key in MISSING[1:6] for value in (4.5, 0, 1 << 60)],
    ("general.architecture", 1, MALFORMED),
    ("general.architecture", "bloom", UNSUPPORTED),
    ("general.type", "adapter", UNSUPPORTED),
    ("llama.attention.head_count_kv", [2, 1, 2, 2], MALFORMED),
    ("llama.attention.layer_norm_rms_epsilon", float("nan"), MALFORMED),
    ("llama.attention.layer_norm_rms_epsilon", -1.0, MALFORMED),
    ("llama.rope.freq_base", float("inf"), MALFORMED),
    ("llama.rope.dimension_count", 7, INCONSISTENT),
    ("llama.rope.dimension_count", 64, INCONSISTENT),
    ("llama.rope.scaling.type", "su", UNSUPPORTED),
    ("llama.attention.value_length", 4, UNSUPPORTED),
    ("llama.attention.causal", False, UNSUPPORTED),
    ("llama.expert_count", 8, UNSUPPORTED),
    *[("llama." + key, 0.5, UNSUPPORTED) for key in ("attention.scale", "embedding_scale", "residual_scale",
                                                     "attention.clamp_kqv", "attn_logit_softcapping")],
    ("llama.rope.dimension_sections", [2, 2, 0, 0], UNSUPPORTED),
    ("general.alignment", 3, MALFORMED),
    ("split.count", 2, INCONSISTENT),
    ("split.no", 1, INCONSISTENT),
    ("split.tensors.count", 7, INCONSISTENT),
    ("qwen3.attention.sliding_window", 64, UNSUPPORTED),
])
def test_wrong_values(key, value, code, tmp_path):
    architecture = key.split(".")[0] if key.startswith("qwen3") else "llama"
    _, path, _ = make(tmp_path, architecture, change={key: value})
    refused(path, code, key, *["missing"] * (value is None))


@pytest.mark.cases(9)
@pytest.mark.parametrize("key,value", [
    ("llama.expert_count", 0), ("llama.attention.causal", True), ("llama.rope.scaling.type", "none"),
    ("llama.attention.sliding_window", 0), ("llama.attention.sliding_window", 512), ("general.type", "model"),
    ("split.count", 0), ("split.count", 1), ("anything.else", "\0")])
def test_values_that_change_nothing(key, value, tmp_path):
    _, path, _ = make(tmp_path, "llama", change={key: value})
    assert accepted(path)["layers"] == accepted(tmp_path / "hf")["layers"]


# ---- every key of the format -------------------------------------------------------------------------

# Behind the name of the architecture, of gguf 0.19.0 and those that llama.cpp has added since. What is read: a value that
# changes something, and the keys without which it would not.
YARN = {"rope.freq_base": 10.0, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 64}
READ = {
    "block_count": (1, {}), "context_length": (100, {}), "embedding_length": (16, {}), "feed_forward_length": (16, {}),
    "attention.head_count": (2, {}), "attention.head_count_kv": (1, {}), "attention.key_length": (16, {}),
    "attention.value_length": (16, {}), "attention.layer_norm_rms_epsilon": (0.25, {}),
    "rope.dimension_count": (2, {}), "rope.freq_base": (77.0, {}), "rope.scale_linear": (3.0, {"rope.scaling.factor": None}),
    "rope.scaling.type": ("yarn", {**YARN, "rope.scaling.type": "linear"}), "rope.scaling.factor": (3.0, YARN),
    "rope.scaling.original_context_length": (4096, YARN), "rope.scaling.yarn_attn_factor": (2.0, YARN),
    "rope.scaling.yarn_beta_fast": (2.0, YARN), "rope.scaling.yarn_beta_slow": (8.0, YARN),
    "rope.scaling.yarn_log_multiplier": (0.5, YARN)}
# Of some architectures; of others, what the value comes to is said below.
READ_BY = {
    "rope.freq_base_swa": ("gemma3", 77.0), "attention.sliding_window_pattern": ("gemma3", 3),
    "final_logit_softcapping": ("gemma3", 5.0), "attention.temperature_scale": ("mistral3", 0.5)}
WITHOUT_EFFECT = ["vocab_size", "pooling_type", "tensor_data_layout", "rope.scaling.finetuned", "attention.layer_norm_epsilon",
                  "classifier.output_labels", "dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"]
REFUSED = """
    embedding_length_out features_length leading_dense_block_count expert_feed_forward_length expert_shared_feed_forward_length
    expert_chunk_feed_forward_length use_parallel_residual expert_count expert_used_count expert_shared_count
    expert_group_count expert_group_used_count expert_weights_scale expert_weights_norm expert_gating_func
    expert_group_scale experts_per_group moe_every_n_layers moe_latent_size nextn_predict_layers n_deepstack_layers
    logit_scale decoder_start_token_id decoder_block_count attn_logit_softcapping router_logit_softcapping swin_norm
    rescale_every_n_layers time_mix_extra_dim time_decay_extra_dim residual_scale embedding_scale token_shift_count
    interleave_moe_layer_step full_attention_interval activation_sparsity_scale altup.active_idx altup.num_inputs
    embedding_length_per_layer_input swiglu_clamp_exp swiglu_clamp_shexp
    attention.max_alibi_bias attention.clamp_kqv attention.group_norm_epsilon attention.group_norm_groups
    attention.q_lora_rank attention.kv_lora_rank attention.decay_lora_rank attention.iclr_lora_rank
    attention.value_residual_mix_lora_rank attention.gate_lora_rank attention.relative_buckets_count attention.scale
    attention.output_scale attention.temperature_length attention.key_length_mla attention.value_length_mla
    attention.key_length_swa attention.value_length_swa attention.shared_kv_layers attention.indexer.head_count
    attention.indexer.key_length attention.indexer.top_k rope.dimension_count_swa rope.dimension_sections
    rope.scaling.alpha ssm.conv_kernel ssm.inner_size ssm.state_size ssm.time_step_rank ssm.group_count ssm.dt_b_c_rms
    kda.head_dim wkv.head_size posnet.embedding_length posnet.block_count convnext.embedding_length convnext.block_count
    shortconv.l_cache
    hidden_activation deepstack_mapping attention.value_scale attention.output_group_count attention.output_lora_rank
    attention.compress_rope_freq_base attention.compress_ratios attention.recurrent_layers hyper_connection.count
    hyper_connection.sinkhorn_iterations hyper_connection.epsilon hash_layer_count
    """.split()
SOMETIMES = {"attention.causal": False, "attention.sliding_window": 8, "rope.scaling.attn_factor": 0.5,
             "rope.scaling.yarn_ext_factor": 0.5}


@functools.cache
def small_model(architecture):
    config = small_config(architecture, **{**SMALL[architecture][-1], "num_hidden_layers": 2})
    return config, random_tensors(config)


def answer(folder, architecture, keys):
    """(code, what is said) of a model with these keys; (0, the model) without what depends on the file alone."""
    files.write_gguf(folder / "m.gguf", *small_model(architecture),
                     change={f"{files.NAMES[architecture]}.{key}": value for key, value in keys.items()})
    code, said = dump(folder / "m.gguf")
    if code == 0:
        del said["fingerprint"]
    return code, said


@pytest.mark.cases(3)
@pytest.mark.parametrize("architecture", ["llama", "ministral3", "qwen2", "qwen3", "smollm3", "glm", "glm4", "gemma3_text"])
def test_each_key(architecture, tmp_path):
    """Read, without effect, or refused by name; of nothing, none is refused."""
    name = files.NAMES[architecture]
    bare = answer(tmp_path, architecture, {})
    assert bare[0] == 0, bare
    own = {key: (value, {}) for key, (reader, value) in READ_BY.items() if reader == name}
    if name == "mistral3":
        own["attention.temperature_scale"] = (0.5, YARN)
    for key, (value, others) in {**READ, **own}.items():
        found = answer(tmp_path, architecture, {**others, key: value})
        assert found[0] in (0, INCONSISTENT, UNSUPPORTED, NOT_FOUND) and found != answer(tmp_path, architecture, others), key
        assert found[0] != UNSUPPORTED or "must be equal" in found[1] or "not known" in found[1], found
    for key in WITHOUT_EFFECT:
        assert answer(tmp_path, architecture, {key: 7}) == bare, key
    others = [key for key, (reader, _) in READ_BY.items() if reader != name]
    for key in [*REFUSED, *others]:
        code, said = answer(tmp_path, architecture, {key: 7})
        assert code == UNSUPPORTED and f"{name}.{key}: " in said, (key, said)
    nothing = {key: value for i, key in enumerate([*REFUSED, *others]) for value in [[0, 0.0, False, "", []][i % 5]]}
    assert answer(tmp_path, architecture, nothing) == bare


def test_the_keys_are_those_of_the_format():
    """The lists above, held against the package."""
    keys = pytest.importorskip("gguf").constants.Keys

    def names(group):
        for value in vars(group).values():
            if isinstance(value, type):
                yield from names(value)
            elif isinstance(value, str) and value.startswith("{arch}."):
                yield value.removeprefix("{arch}.")
    known = {*READ, *READ_BY, *WITHOUT_EFFECT, *REFUSED, *SOMETIMES}
    theirs = {name.format(arch="", dense=dense) for name in names(keys) for dense in ("dense_2", "dense_3")}
    assert len(theirs) > 100 and theirs <= known
    assert len(known) == sum(map(len, (READ, READ_BY, WITHOUT_EFFECT, REFUSED, SOMETIMES)))


def test_keys_that_nobody_knows(qkscope, tmp_path):
    """One that looks like a rule is told, as of config.json."""
    keys = {"llama.attention.new_scale": 0.5, "llama.rope.new_window": 0, "llama.colour": 3, "other.scale": 2.0}
    files.write_gguf(tmp_path / "m.gguf", *small_model("llama"), change=keys)
    shown = json.loads(qkscope("inspect", tmp_path / "m.gguf", "--json", expect=0).out)
    assert shown["notice"] == "llama does not use llama.attention.new_scale"


def test_keys_that_depend_on_others(tmp_path):
    """A scale that the scaling does not know of is refused; below 0 the mix of YaRN is the usual one, and 0 is none."""
    usual = answer(tmp_path, "llama", YARN)
    assert usual[0] == 0
    for keys, said in (({"rope.scaling.attn_factor": 0.5}, "attn_factor: 0.5; only 1"),
                       ({**YARN, "rope.scaling.attn_factor": 0.5}, "attn_factor: 0.5; only 1"),
                       ({**YARN, "rope.scaling.yarn_ext_factor": 0.0}, "yarn_ext_factor: 0; only 1"),
                       ({**YARN, "rope.scaling.yarn_ext_factor": 0.5}, "yarn_ext_factor: 0.5; only 1")):
        found = answer(tmp_path, "llama", keys)
        assert found[0] == UNSUPPORTED and "llama.rope.scaling." + said in found[1], found
    for factor in (-1.0, 1.0):
        keys = {**YARN, "rope.scaling.yarn_ext_factor": factor, "rope.scaling.attn_factor": 1.0}
        assert answer(tmp_path, "llama", keys) == usual
    found = answer(tmp_path, "llama", {"rope.scaling.type": "linear"})
    assert found[0] == MALFORMED and found[1].endswith("llama.rope.scaling.factor: missing"), found
    found = answer(tmp_path, "llama", {"attention.head_count_kv": 3})
    assert "as config.json would have it: num_attention_heads" in found[1]


def test_capped_logits(tmp_path):
    """Losses of Gemma's cap are those of the folder."""
    def losses(model):
        run, _ = start(model, [tokens_of(30, 96)], tmp_path, f"loss={tmp_path / 'losses'}", "none")
        assert run.returncode == 0, run.stderr
        return (tmp_path / "losses").read_bytes()

    config = small_config("gemma3_text", **SMALL["gemma3_text"][0], final_logit_softcapping=2.0)
    tensors = {**random_tensors(config), "norm.weight": np.full(config["hidden_size"], 0.25, np.float32)}
    write_checkpoint(tmp_path / "hf", config, tensors=tensors)
    found = []
    for cap in (2.0, 0.0, None):
        files.write_gguf(tmp_path / "m.gguf", config, tensors, change={"gemma3.final_logit_softcapping": cap})
        found.append(losses(tmp_path / "m.gguf"))
    assert found[0] == losses(tmp_path / "hf") != found[1] == found[2]


def test_several_types(tmp_path):
    """The matrices' types, that of most weights first; vectors are float32 in all files."""
    config, writer = small_config("llama", hidden_size=256, intermediate_size=256, num_hidden_layers=1,
                                  vocab_size=300), files.Writer("llama")
    mapped = files.converted(config, random_tensors(config))
    files.add_keys(writer, config, mapped)
    for name, values in mapped.items():
        kind = "Q8_0" if "token_embd" in name else "Q6_K" if "attn_v" in name else "Q4_K"
        if values.ndim == 2:
            data = random_blocks(kind, values.size // BLOCKS[kind][1])
            writer.add_tensor(name, data.tobytes(), BLOCKS[kind][0], values.shape)
        else:
            writer.add_tensor(name, values)
    writer.write(tmp_path / "m.gguf")
    sizes = {"Q8_0": mapped["token_embd.weight"].size, "Q6_K": mapped["blk.0.attn_v.weight"].size}
    assert sizes["Q8_0"] > sizes["Q6_K"]
    assert accepted(tmp_path / "m.gguf")["dtype"] == "Q4_K+Q8_0+Q6_K"


def test_scaling_in_old_files(tmp_path):
    for key in ("llama.rope.scale_linear", "llama.rope.scaling.factor"):
        _, path, _ = make(tmp_path, "llama", change={key: 4.0})
        model = accepted(path)
        assert model["rope_type"] == "linear"
        assert model["layers"][0]["frequency_1"] == pytest.approx(0.25 * 10000 ** (-2 / 8), rel=1e-6)


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


@pytest.mark.cases(40)
@pytest.mark.parametrize("data,code,words", [
    (b"GGU", MALFORMED, ["no GGUF file"]),
    (b"", MALFORMED, ["0 bytes"]),
    (b"GGUF", MALFORMED, ["ends at byte 4"]),
    (files.raw(magic=b"GGML"), MALFORMED, ["no GGUF file"]),
    (files.raw(version=1), UNSUPPORTED, ["version 1"]),
    (files.raw(version=3 << 24), UNSUPPORTED, ["big-endian"]),
    (files.raw(counts=(0, 1 << 60)), MALFORMED, [f"{1 << 60} keys"]),
    (files.raw(counts=(1 << 60, 0)), MALFORMED, [f"{1 << 60} tensors"]),
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
    (files.raw([("k", files.U32, 1), ("k", files.U32, 1)]), MALFORMED, ["key k", "twice"]),
    (files.raw([(b"\xff", files.U32, 1)]), MALFORMED, ["UTF-8"]),
    (files.raw(tensors=[("a", [], 0, 0)], data=b"\0" * 64), MALFORMED, ["tensor a", "0 dimensions"]),
    (files.raw(tensors=[("a", [1] * 5, 0, 0)], data=b"\0" * 64), MALFORMED, ["tensor a", "5 dimensions"]),
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


@pytest.mark.cases(6)
@pytest.mark.parametrize("number,name", [(16, "IQ2_XXS"), (39, "MXFP4"), (40, "NVFP4"), (41, "Q1_0"), (24, "I8"), (99, "type 99")])
def test_other_types_are_named(number, name, tmp_path):
    """Where they are needed; elsewhere they may be."""
    config, path, _ = make(tmp_path, "llama")
    tensors = files.converted(config, random_tensors(config))
    for tensor, needed in (("output.weight", False), ("blk.1.ffn_up.weight", True)):
        writer = files.Writer("llama")
        files.add_keys(writer, config, tensors)
        for key, values in {tensor: np.zeros((4, 32), np.float32), **tensors}.items():
            writer.add_tensor(key, values, number if key == tensor else 0)
        writer.write(path)
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
