# SPDX-License-Identifier: Apache-2.0
"""The table of keys of config.json (src/model/config_keys.c): it has every key of the classes of transformers, a key that is used
changes what is understood, one that is refused is named, one without effect changes nothing, and an unknown one is told."""
import functools
import json
import subprocess

import pytest

from checkpoints import ARCHITECTURES, COMPOSITES, small_config
from test_model_config import BUILD, HERE, UNSUPPORTED, parse, refused

KEYS = json.loads((HERE / "config_golden.json").read_text())["keys"]
FULL, SLIDING = "full_attention", "sliding_attention"
OTHER = {"hidden_size": 48, "intermediate_size": 64, "vocab_size": 90, "num_hidden_layers": 3, "num_attention_heads": 2,
         "num_key_value_heads": 1, "max_position_embeddings": 50, "rms_norm_eps": 0.5, "original_max_position_embeddings": 4,
         "rope_parameters": {"rope_type": "default", "rope_theta": 77.0}, "layer_types": [FULL, SLIDING, SLIDING, FULL],
         "tie_word_embeddings": True, "head_dim": 20, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "silu",
         "mlp_bias": True, "sliding_window": 5, "use_sliding_window": False, "max_window_layers": 1, "no_rope_layers": [0, 1, 1, 1],
         "no_rope_layer_interval": 3, "rope_local_base_freq": 99.0, "query_pre_attn_scalar": 3, "sliding_window_pattern": 3,
         "final_logit_softcapping": 9.0, "cross_attention_layers": [2], "attention_bias": True, "partial_rotary_factor": 0.5}
REFUSED = {"quantization_config": {"quant_method": "fp8"}, "per_layer_config": {"0": {"head_dim": 8}},
           "use_bidirectional_attention": True, "is_causal": False}


@functools.cache
def rules():
    out = subprocess.run([BUILD / "tests" / "model" / "dump_config", "--rules"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def keys_of(kind, *uses):
    return [key for use, keys, of in rules() if use in uses and (of is None or kind in of.split()) for key in keys.split()]


def base(kind, key=None):
    """A configuration in which the key matters."""
    changes = {"pad_token_id": 0}
    if kind in ("qwen2", "qwen3", "smollm3"):
        changes |= {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2}
    if kind == "mistral":
        changes |= {"sliding_window": 8}
    if kind == "ministral":  # the window, where the layers are not listed
        changes |= {"layer_types": ...} if key == "sliding_window" else {}
    if kind in ("glm", "glm4") and key == "attention_bias":
        changes |= {key: False}
    if key == "original_max_position_embeddings":
        scaling = {"rope_type": "yarn", "factor": 4.0} | ({"llama_4_scaling_beta": 0.1, key: 64} if kind == "ministral3" else {})
        changes |= {"rope_parameters": ..., "rope_scaling": scaling}
    return small_config(kind, **changes)


def other(kind, key):
    value = OTHER[key]
    if key == "partial_rotary_factor" and kind.startswith("glm"):
        return 1.0
    if key == "rope_parameters" and kind == "gemma3_text":
        return {FULL: value, SLIDING: value}
    return value | {"llama_4_scaling_beta": 0.2, "original_max_position_embeddings": 64} if key == "rope_parameters" else value


@pytest.mark.cases(11)
@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_every_key_of_the_class_is_in_the_table(tmp_path, kind):
    known = keys_of(kind, "used", "refused", "refused if false", "without effect")
    assert set(KEYS[kind]) <= set(known) and len(known) == len(set(known))
    config = base(kind)
    before = parse(tmp_path, config)
    assert before["notice"] == ""
    with_all = {key: [1, "x"] for key in keys_of(kind, "without effect")} | config
    assert parse(tmp_path, with_all) == before


@pytest.mark.cases(40)
@pytest.mark.parametrize("kind, key", [(kind, key) for kind in ARCHITECTURES for key in keys_of(kind, "used")])
def test_a_key_that_is_used(tmp_path, kind, key):
    config = base(kind, key)
    changed = {**config, key: other(kind, key)}
    if key == "rope_parameters":
        changed.pop("rope_scaling", None)
    if key == "partial_rotary_factor" and not kind.startswith("glm"):
        return refused(tmp_path, changed, UNSUPPORTED, key)
    if key == "num_hidden_layers":
        config.pop("layer_types", None), changed.pop("layer_types", None)
    assert parse(tmp_path, changed) != parse(tmp_path, config)


@pytest.mark.parametrize("key", REFUSED)
def test_a_key_that_is_refused(tmp_path, key):
    assert key in keys_of("llama", "refused", "refused if false")
    for kind in ("llama", "qwen3", "gemma3"):
        refused(tmp_path, small_config(kind, **{key: REFUSED[key]}), UNSUPPORTED, key)
    assert parse(tmp_path, small_config("llama", **{key: key == "is_causal"}))["notice"] == ""


def test_the_rules_refuse_nothing_else():
    assert sorted(keys_of("llama", "refused", "refused if false")) == sorted(REFUSED)


@pytest.mark.parametrize("kind, changes, told", [
    ("llama", {"sliding_window": 8}, "llama does not use sliding_window"),
    ("mistral", {"no_rope_layers": [1, 0, 1, 0]}, "mistral does not use no_rope_layers"),
    ("qwen2", {"rope_local_base_freq": 50.0, "logit_scale": 0.1, "my_cap": 3, "x_norm": "rms"},
     "qwen2 does not use rope_local_base_freq; qwen2 does not use logit_scale; qwen2 does not use my_cap; qwen2 does not use x_norm"),
    ("gemma3", {"skipped_layers": [1]}, "gemma3_text does not use text_config.skipped_layers"),
    ("llama", {"rope_scaling": {"rope_type": "linear", "factor": 2.0, "wave": 3}}, "llama does not use rope_parameters.wave"),
    ("llama", {"logit_scale": None, "qk_norm": False, "sliding_window": 0, "skip_layers": [], "surprise": 1}, "")])
def test_an_unknown_key_that_looks_used(tmp_path, kind, changes, told):
    found = parse(tmp_path, small_config(kind, **changes))
    assert found["notice"] == told
    if "rope_scaling" not in changes:
        assert {**found, "notice": ""} == parse(tmp_path, small_config(kind))


def test_many_unknown_keys(tmp_path):
    """The notice ends where there is no more room, with a whole name."""
    found = parse(tmp_path, small_config("llama", **{f"{'ü' * 20}{i}_scale": 2.0 for i in range(40)}))
    assert found["notice"] == "; ".join(f"llama does not use {'ü' * 20}{i}_scale" for i in range(5))
    assert parse(tmp_path, small_config("llama", **{"ü" * 45 + "_scale": 2.0}))["notice"] == ""


def test_a_key_of_the_whole(tmp_path):
    config = {**small_config("gemma3"), "sliding_window": 3, "mm_tokens_per_image": 4}
    found = parse(tmp_path, config)
    assert found["notice"] == "gemma3_text does not use sliding_window"
    assert {**found, "notice": ""} == parse(tmp_path, small_config("gemma3"))


@pytest.mark.parametrize("kind, windows, taken_for", [
    ("mistral", [0, 8, 0, 8], "ministral"), ("ministral", [0, 8, 0, 8], "ministral"), ("qwen2", [0, 8, 0, 8], "qwen2"),
    ("gemma3_text", [0, 8, 0, 8], "gemma3_text"), ("ministral3", [8] * 4, "ministral3"), ("llama", [0] * 4, "llama")])
def test_layer_types(tmp_path, kind, windows, taken_for):
    """transformers takes mistral with layer_types for ministral; ministral3 and llama do not look at them."""
    config = small_config(kind, sliding_window=8, layer_types=[FULL, SLIDING] * 2, use_sliding_window=True)
    found = parse(tmp_path, config)
    assert ([layer["window"] for layer in found["layers"]], found["architecture"]) == (windows, taken_for)
    assert [layer["sliding"] for layer in found["layers"]] == [False, True] * 2


def test_layer_types_in_a_part(tmp_path):
    """There mistral stays mistral: all layers have the window."""
    part = small_config("mistral", sliding_window=8, layer_types=[FULL, SLIDING] * 2)
    found = parse(tmp_path, {"model_type": "mistral3", "text_config": part})
    assert ([layer["window"] for layer in found["layers"]], found["architecture"]) == ([8] * 4, "mistral")


@pytest.mark.parametrize("kind", COMPOSITES)
@pytest.mark.parametrize("whole, part, tie", [(True, False, 2), (False, True, 1), (None, True, 0), (None, False, 0), (None, None, 0)])
def test_who_says_that_it_is_tied(tmp_path, kind, whole, part, tie):
    """The whole alone: the classes of transformers do not ask its text model."""
    config = small_config(kind)
    for target, said in ((config, whole), (config["text_config"], part)):
        if said is not None:
            target["tie_word_embeddings"] = said
    assert parse(tmp_path, config)["tie"] == tie
