# SPDX-License-Identifier: Apache-2.0
"""config.json: the same numbers as transformers makes of it (config_golden.json), the frequencies of
each RoPE type by their formulas in double precision, overrides, and what is refused."""
import json
import math
import os
import pathlib
import subprocess

import pytest

from checkpoints import small_config

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", HERE.parents[1] / "build")).resolve()
GOLDEN = json.loads((HERE / "config_golden.json").read_text())["cases"]
LENGTH = 20000  # longer than any context of the cases with RoPE that depends on it
ARGUMENT, MALFORMED, UNSUPPORTED, INCONSISTENT = 2, 6, 7, 8


def run(tmp_path, config, overrides=None, length=LENGTH):
    file = tmp_path / "config.json"
    text = config if isinstance(config, (str, bytes)) else json.dumps(config)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    overrides = "" if overrides is None else (
        overrides if isinstance(overrides, str) else json.dumps(overrides))
    done = subprocess.run([BUILD / "tests" / "model" / "dump_config", file, overrides, str(length)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode >= 0 and "Sanitizer" not in done.stderr, done.stderr
    assert "runtime error" not in done.stderr, done.stderr
    return done.returncode, (done.stderr.strip() if done.returncode else json.loads(done.stdout))


def parse(tmp_path, config, overrides=None, length=LENGTH):
    code, found = run(tmp_path, config, overrides, length)
    assert code == 0, found
    return found


def refused(tmp_path, config, code, *words, overrides=None):
    found, message = run(tmp_path, config, overrides)
    assert found == code, message
    for word in words:
        assert word in message, message


# ---- RoPE, by its formulas ----------------------------------------------------------------------

def mscale(factor, weight=1.0):
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1


def yarn(r, theta, width, positions):
    original = r["original_max_position_embeddings"]
    factor = r.get("factor") or positions / original

    def index(turns):
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))
    low, high = index(r.get("beta_fast") or 32), index(r.get("beta_slow") or 1)
    if r.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high += 0.001 if low == high else 0
    found = []
    for i in range(width // 2):
        keep = 1 - min(max((i - low) / (high - low), 0), 1)
        wave = theta ** (2 * i / width)
        found.append((1 - keep) / (factor * wave) + keep / wave)
    one, both = r.get("mscale"), r.get("mscale_all_dim")
    scale = mscale(factor, one) / mscale(factor, both) if one and both else mscale(factor)
    return found, r.get("attention_factor") or scale


def llama3(r, plain):
    original, factor = r["original_max_position_embeddings"], r["factor"]
    low, high = r["low_freq_factor"], r["high_freq_factor"]
    found = []
    for f in plain:
        turns = original * f / (2 * math.pi)
        blend = min(max((turns - low) / (high - low), 0), 1)
        found.append((1 - blend) * f / factor + blend * f)
    return found


def longrope(r, theta, width, positions, length):
    original = r["original_max_position_embeddings"]
    stretch = r["long_factor"] if length > original else r["short_factor"]
    factor = r.get("factor") or positions / original
    usual = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return ([1 / (s * theta ** (2 * i / width)) for i, s in enumerate(stretch)],
            r.get("attention_factor") or usual)


def frequencies(r, width, positions, length):
    theta, kind = r["rope_theta"], r["rope_type"]
    plain = [theta ** (-2 * i / width) for i in range(width // 2)]
    if kind == "linear":
        return [f / r["factor"] for f in plain], 1.0
    if kind == "dynamic":
        stretch = r["factor"] * max(length, positions) / positions - (r["factor"] - 1)
        theta *= stretch ** (width / (width - 2))
        return [theta ** (-2 * i / width) for i in range(width // 2)], 1.0
    if kind == "llama3":
        return llama3(r, plain), 1.0
    if kind == "yarn":
        return yarn(r, theta, width, positions)
    if kind == "longrope":
        return longrope(r, theta, width, positions, length)
    assert kind == "default"
    return plain, 1.0


def check_rope(found, wanted, facts):
    assert (found["type"], found["theta"]) == (wanted["rope_type"], wanted["rope_theta"])
    width = int(facts["head_dim"] * wanted.get("partial_rotary_factor", 1.0))
    assert found["width"] == width
    for length, name in ((0, "short"), (LENGTH, "long")):
        values, factor = frequencies(wanted, width, facts["max_positions"], length)
        assert found[name] == pytest.approx(values, rel=2e-6)
        assert found["attention_factor"] == pytest.approx(factor, rel=1e-7)


# ---- the same as transformers -------------------------------------------------------------------

ALWAYS_BIAS, IF_SAID = {"qwen2"}, {"llama", "qwen3", "smollm3", "glm", "glm4", "gemma3_text"}
SAME = ["architecture", "num_layers", "num_q_heads", "num_k_heads", "head_dim", "hidden_size",
        "intermediate_size", "vocab_size", "max_positions"]


@pytest.mark.cases(60)
@pytest.mark.parametrize("case", GOLDEN, ids=[case["name"] for case in GOLDEN])
def test_as_transformers_has_it(tmp_path, case):
    found, facts = parse(tmp_path, case["config"]), case["facts"]
    assert {key: found[key] for key in SAME} == {key: facts[key] for key in SAME}
    assert found["norm_eps"] == pytest.approx(facts["norm_eps"], rel=1e-7)
    kind, bias = facts["architecture"], bool(facts["attention_bias"])
    assert found["qkv_bias"] == (kind in ALWAYS_BIAS or (kind in IF_SAID and bias))
    assert found["o_bias"] == (kind in IF_SAID - {"glm", "glm4"} and bias)
    assert found["mlp_bias"] == (kind in {"llama", "smollm3"} and bool(facts["mlp_bias"]))
    assert found["qk_norm"] == (kind in {"qwen3", "gemma3_text"})
    assert found["norm"] == (kind == "gemma3_text")
    assert found["interleaved"] == (kind in {"glm", "glm4"})
    assert found["activation"] == ["silu", "gelu_pytorch_tanh"].index(facts["activation"])
    scale = facts["score_scale"] or facts["head_dim"]
    assert found["attention_scale"] == pytest.approx(scale ** -0.5, rel=1e-7)
    embedding = facts["hidden_size"] ** 0.5 if kind == "gemma3_text" else 1
    assert found["embedding_scale"] == pytest.approx(embedding, rel=1e-7)

    layers = found["layers"]
    assert [layer["window"] for layer in layers] == facts["windows"]
    assert [layer["sliding"] for layer in layers] == facts["sliding"]
    assert [i for i, layer in enumerate(layers) if layer["rope"] < 0] == facts["nope"]
    assert [i for i, layer in enumerate(layers) if not layer["attends"]] == facts["crossed"]
    if len(facts["rope"]) == 2:
        assert [layer["rope"] == 1 for layer in layers] == facts["sliding"]
    assert len(found["ropes"]) == len(facts["rope"])
    for rope, wanted in zip(found["ropes"], facts["rope"], strict=True):
        check_rope(rope, wanted, facts)
    if kind == "ministral3":
        rope = facts["rope"][0]
        assert found["query_scale_beta"] == rope["llama_4_scaling_beta"]
        assert found["query_scale_original"] == rope["original_max_position_embeddings"]
    else:
        assert found["query_scale_beta"] == 0


# ---- overrides ----------------------------------------------------------------------------------

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


def test_the_published_override(tmp_path):
    config = small_config("qwen3", rope_theta=1e6, head_dim=128, max_position_embeddings=40960)
    found = parse(tmp_path, config, {"rope_scaling": YARN})["ropes"][0]
    assert (found["type"], found["theta"]) == ("yarn", 1e6)
    assert found["attention_factor"] == pytest.approx(1.1386294, rel=1e-7)
    assert found["short"][23] == pytest.approx(6.9783060e-3, rel=1e-7)
    old = {**YARN, "type": YARN["rope_type"]}
    del old["rope_type"]
    assert parse(tmp_path, config, {"rope_scaling": old})["ropes"][0] == found
    assert parse(tmp_path, config, {"rope_parameters": YARN})["ropes"][0] == found


def test_overrides_reach_the_text_model_in_a_part(tmp_path):
    config = small_config("mistral3", rope_theta=1e6)
    found = parse(tmp_path, config, {"rope_scaling": {"factor": 2.0}, "sliding_window": 16})
    assert found["ropes"][0]["short"][-1] != parse(tmp_path, config)["ropes"][0]["short"][-1]
    assert {layer["window"] for layer in found["layers"]} == {16}


def test_flat_overrides_of_gemma_are_for_full_attention(tmp_path):
    config = small_config("gemma3")
    before = parse(tmp_path, config)["ropes"]
    for override in ({"rope_type": "linear", "factor": 8.0},
                     {"full_attention": {"rope_type": "linear", "factor": 8.0}}):
        after = parse(tmp_path, config, {"rope_scaling": override})["ropes"]
        assert after[1] == before[1]
        assert (after[0]["type"], after[0]["theta"]) == ("linear", before[0]["theta"])
    after = parse(tmp_path, config, {"rope_theta": 5e5})["ropes"]
    assert (after[0]["theta"], after[1]) == (5e5, before[1])


def test_other_overrides(tmp_path):
    config = small_config("mistral", sliding_window=8)
    found = parse(tmp_path, config, {"sliding_window": None, "num_hidden_layers": 1})
    assert [layer["window"] for layer in found["layers"]] == [0]
    scaled = small_config("llama", rope_scaling={"rope_type": "linear", "factor": 2.0})
    found = parse(tmp_path, scaled, {"rope_scaling": None})["ropes"][0]
    assert (found["type"], found["theta"]) == ("default", 10000.0)
    for overrides, word in [("[1]", "overrides"), ("{", "overrides"), ({"text_config": {}}, "text"),
                            ({"model_type": "glm"}, "model_type"), ({"rope_scaling": 3}, "rope")]:
        refused(tmp_path, config, ARGUMENT, word, overrides=overrides)
    refused(tmp_path, config, MALFORMED, "hidden_size", overrides={"hidden_size": "many"})


@pytest.mark.cases(12)
@pytest.mark.parametrize("kind", ["llama", "gemma3", "glm"])
@pytest.mark.parametrize("part, turned", [(0.25, 2), (0.7, 5), (1.0, 8), (None, None)])
def test_proportional(tmp_path, kind, part, turned):
    """All pairs of a head, the slow ones at 0, of types that are else turned as a whole or in part. For Gemma only in
    full attention."""
    given = {"rope_type": "proportional", "rope_theta": 1e6, "factor": 4.0}
    if part:
        given["partial_rotary_factor"] = part
    else:
        turned = 4 if kind == "glm" else 8
    config = small_config(kind, head_dim=16)
    key = {"rope_parameters": {"full_attention": given, "sliding_attention": {"rope_theta": 1e4}}
           if kind == "gemma3" else given}
    target = config.get("text_config", config)
    target.pop("rope_scaling", None)
    target.pop("partial_rotary_factor", None)
    target.update(key)
    ropes = parse(tmp_path, config)["ropes"]
    wanted = [1e6 ** (-2 * i / 16) / 4 if i < turned else 0.0 for i in range(8)]
    assert (ropes[0]["type"], ropes[0]["width"], ropes[0]["attention_factor"]) == ("proportional", 16, 1)
    assert ropes[0]["short"] == ropes[0]["long"] == pytest.approx(wanted, rel=2e-6)
    assert ropes[0]["short"][turned:] == [0.0] * (8 - turned)
    if kind == "gemma3":
        assert ropes[1]["type"] == "default" and min(ropes[1]["short"]) > 0


# ---- what is refused ----------------------------------------------------------------------------

@pytest.mark.cases(40)
@pytest.mark.parametrize("config,code,words", [
    *((small_config("llama", **changes), code, words) for changes, code, words in [
        ({"model_type": "mixtral"}, UNSUPPORTED, ["mixtral", "qwen3"]),
        ({"model_type": ...}, MALFORMED, ["model_type"]),
        ({"hidden_act": "relu"}, UNSUPPORTED, ["hidden_act", "relu"]),
        ({"rope_scaling": {"rope_type": "su", "factor": 2.0}}, UNSUPPORTED, ["rope_type", "su"]),
        ({"rope_scaling": {"rope_type": "linear"}}, MALFORMED, ["factor", "missing"]),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0}}, MALFORMED, ["factor"]),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                           "high_freq_factor": 1.0}}, INCONSISTENT, ["high_freq_factor"]),
        ({"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0]}}, MALFORMED,
         ["short_factor", "4"]),
        ({"rope_scaling": {"rope_type": "longrope", "short_factor": [1.0] * 4,
                           "long_factor": [1, 2, 3, -1]}}, MALFORMED, ["long_factor"]),
        ({"rope_scaling": [1]}, MALFORMED, ["rope_scaling"]),
        ({"rope_scaling": {"full_attention": {}}}, UNSUPPORTED, ["rope_parameters"]),
        ({"rope_scaling": {"rope_type": "proportional", "partial_rotary_factor": 1.5}}, UNSUPPORTED,
         ["partial_rotary_factor", "1.5"]),
        ({"rope_scaling": {"rope_type": "proportional", "factor": 0}}, MALFORMED, ["factor"]),
        ({"rope_theta": -1}, MALFORMED, ["rope_theta"]),
        ({"partial_rotary_factor": 0.5}, UNSUPPORTED, ["partial_rotary_factor"]),
        ({"num_attention_heads": 0}, MALFORMED, ["num_attention_heads"]),
        ({"num_key_value_heads": 3}, INCONSISTENT, ["num_attention_heads", "3"]),
        ({"num_hidden_layers": 10**9}, MALFORMED, ["num_hidden_layers"]),
        ({"hidden_size": -32}, MALFORMED, ["hidden_size"]),
        ({"vocab_size": 2**31}, MALFORMED, ["vocab_size"]),
        ({"head_dim": 7}, UNSUPPORTED, ["rotating"]),
        ({"rms_norm_eps": 0}, MALFORMED, ["rms_norm_eps"]),
        ({"attention_bias": "yes"}, MALFORMED, ["attention_bias"]),
        ({"layer_types": ["full_attention"]}, MALFORMED, ["layer_types", "4"]),
        ({"layer_types": ["linear_attention"] * 4}, UNSUPPORTED, ["layer_types", "linear_attention"]),
        ({"quantization_config": {"quant_method": "fp8"}}, UNSUPPORTED, ["quantization_config", "fp8"]),
    ]),
    (small_config("mistral", sliding_window=0), MALFORMED, ["sliding_window"]),
    (small_config("smollm3", no_rope_layers=[1]), MALFORMED, ["no_rope_layers"]),
    (small_config("smollm3", no_rope_layer_interval=0), MALFORMED, ["no_rope_layer_interval"]),
    (small_config("gemma3", use_bidirectional_attention=True), UNSUPPORTED,
     ["text_config.use_bidirectional_attention"]),
    (small_config("gemma3", rope_parameters={"rope_type": "default"}), UNSUPPORTED,
     ["text_config.rope_parameters"]),
    (small_config("gemma3", hidden_size="x"), MALFORMED, ["text_config.hidden_size"]),
    (small_config("ministral3", rope_parameters={"rope_theta": 1e4}), MALFORMED,
     ["llama_4_scaling_beta"]),
    (small_config("mllama", cross_attention_layers=[-1]), MALFORMED, ["cross_attention_layers"]),
    ({"model_type": "gemma3"}, MALFORMED, ["text_config"]),
    ({"model_type": "gemma3", "text_config": {"model_type": "siglip"}}, UNSUPPORTED,
     ["text_config.model_type", "siglip"]),
    ({"model_type": "llava", "text_config": small_config("llama")}, UNSUPPORTED, ["llava"]),
    ('{"model_type": "llama", "model_type": "glm"}', MALFORMED, ["duplicate"]),
    ('{"model_type": "llama"', MALFORMED, ["byte 23"]),
    ('{\n "model_type": llama}', MALFORMED, ["line 2, byte 16"]),
    ("[]", MALFORMED, ["object"]), ("", MALFORMED, ["byte 1"]), (b"\xff", MALFORMED, ["byte 1"]),
    ("[" * 100000, MALFORMED, ["depth"]),
    ('{"model_type": "gemma3", "text_config": ' * 40 + "{}" + "}" * 40, MALFORMED, ["deep"]),
])
def test_refused(tmp_path, config, code, words):
    refused(tmp_path, config, code, *words)
