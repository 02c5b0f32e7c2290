# SPDX-License-Identifier: Apache-2.0
"""Writes config_golden.json: what transformers (5.1.0, without PyTorch) makes of configurations like
those of published models and of awkward ones.

    python tests/model/make_config_golden.py"""
import copy
import json
import pathlib

import transformers
from transformers import AutoConfig
from transformers.models.mllama.configuration_mllama import MllamaTextConfig

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {"vocab_size": 256, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8,
         "num_attention_heads": 4, "num_key_value_heads": 2}
LLAMA3 = {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
          "original_max_position_embeddings": 8192, "rope_type": "llama3"}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
MINISTRAL3 = {"rope_type": "yarn", "type": "yarn", "rope_theta": 1000000.0, "factor": 16.0,
              "original_max_position_embeddings": 16384, "beta_fast": 32.0, "beta_slow": 1.0,
              "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
STRETCH = {"short_factor": [1.0 + i / 8 for i in range(8)],
           "long_factor": [2.0 + i for i in range(8)]}

CASES = {
    "llama, all by default": {"model_type": "llama"},
    "llama, sizes": {"model_type": "llama", **SIZES},
    "llama, key heads null": {"model_type": "llama", **SIZES, "num_key_value_heads": None},
    "llama, biases": {"model_type": "llama", **SIZES, "attention_bias": True, "mlp_bias": True},
    "llama, head_dim null": {"model_type": "llama", **SIZES, "head_dim": None},
    "llama, head_dim": {"model_type": "llama", **SIZES, "head_dim": 24},
    "llama, layer_types": {"model_type": "llama", **SIZES, "sliding_window": 16,
                           "layer_types": ["sliding_attention", "full_attention"] * 4},
    "llama 3.2": {"model_type": "llama", **SIZES, "rope_theta": 500000.0, "rope_scaling": LLAMA3,
                  "max_position_embeddings": 131072},
    "llama, rope_parameters": {"model_type": "llama", **SIZES,
                               "rope_parameters": {"rope_theta": 7e5, "rope_type": "default"}},
    "llama, theta inside and outside": {"model_type": "llama", **SIZES, "rope_theta": 1e5,
                                        "rope_scaling": {"rope_type": "linear", "factor": 2.0,
                                                         "rope_theta": 3e5}},
    "llama, type of old": {"model_type": "llama", **SIZES, "max_position_embeddings": 512,
                           "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "llama, both types": {"model_type": "llama", **SIZES,
                          "rope_scaling": {"type": "dynamic", "rope_type": "linear", "factor": 2.0}},
    "llama, rope_scaling null": {"model_type": "llama", **SIZES, "rope_scaling": None,
                                 "rope_theta": 2e4},
    "llama, rope_scaling empty": {"model_type": "llama", **SIZES, "rope_scaling": {},
                                  "rope_parameters": {"rope_type": "linear", "factor": 3.0,
                                                      "rope_theta": 5e4}},
    "llama, longrope": {"model_type": "llama", **SIZES, "max_position_embeddings": 4096,
                        "rope_scaling": {"rope_type": "longrope", **STRETCH,
                                         "original_max_position_embeddings": 1024}},
    "llama, longrope, original outside": {
        "model_type": "llama", **SIZES, "max_position_embeddings": 4096,
        "original_max_position_embeddings": 512,
        "rope_scaling": {"rope_type": "longrope", **STRETCH, "attention_factor": 1.5,
                         "original_max_position_embeddings": 1024}},
    "llama, yarn without original": {"model_type": "llama", **SIZES, "max_position_embeddings": 8192,
                                     "rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
    "llama, yarn with all": {"model_type": "llama", **SIZES, "rope_scaling": {
        **YARN, "mscale": 0.7, "mscale_all_dim": 0.9, "beta_fast": 16, "beta_slow": 2,
        "truncate": False}},
    "mistral, all by default": {"model_type": "mistral"},
    "mistral, no window": {"model_type": "mistral", **SIZES, "sliding_window": None},
    "mistral, window": {"model_type": "mistral", **SIZES, "sliding_window": 32},
    "mistral, window absent": {"model_type": "mistral", **SIZES},
    "ministral, all by default": {"model_type": "ministral"},
    "ministral, no window": {"model_type": "ministral", **SIZES, "sliding_window": None},
    "ministral, layer_types": {"model_type": "ministral", **SIZES, "sliding_window": 32,
                               "layer_types": ["full_attention", "sliding_attention"] * 4},
    "ministral3, all by default": {"model_type": "ministral3"},
    "ministral3, theta outside": {"model_type": "ministral3", **SIZES, "rope_theta": 5e6},
    "ministral3, rope_parameters": {"model_type": "ministral3", **SIZES, "head_dim": 32,
                                    "rope_parameters": MINISTRAL3},
    "mistral3 of ministral3": {"model_type": "mistral3", "text_config": {
        "model_type": "ministral3", **SIZES, "rope_parameters": MINISTRAL3}},
    "mistral3 of mistral": {"model_type": "mistral3", "text_config": {
        "model_type": "mistral", **SIZES, "sliding_window": None}},
    "mistral3 without type": {"model_type": "mistral3", "text_config": {**SIZES}},
    "qwen2, all by default": {"model_type": "qwen2"},
    "qwen2, window unused": {"model_type": "qwen2", **SIZES, "sliding_window": 32,
                             "max_window_layers": 4},
    "qwen2, window": {"model_type": "qwen2", **SIZES, "sliding_window": 32, "max_window_layers": 4,
                      "use_sliding_window": True},
    "qwen2, layer_types unused": {"model_type": "qwen2", **SIZES, "sliding_window": 32,
                                  "layer_types": ["sliding_attention"] * 8},
    "qwen3, all by default": {"model_type": "qwen3"},
    "qwen3, yarn": {"model_type": "qwen3", **SIZES, "rope_theta": 1e6, "rope_scaling": YARN,
                    "max_position_embeddings": 40960},
    "qwen3, window": {"model_type": "qwen3", **SIZES, "use_sliding_window": True,
                      "max_window_layers": 2, "head_dim": 32, "attention_bias": True},
    "smollm3, all by default": {"model_type": "smollm3"},
    "smollm3, interval": {"model_type": "smollm3", **SIZES, "no_rope_layer_interval": 3},
    "smollm3, list": {"model_type": "smollm3", **SIZES,
                      "no_rope_layers": [1, 0, 0, 1, 1, 1, 0, 1]},
    "smollm3, window": {"model_type": "smollm3", **SIZES, "use_sliding_window": True,
                        "sliding_window": 16},
    "smollm3, layer_types unused": {"model_type": "smollm3", **SIZES, "sliding_window": 16,
                                    "layer_types": ["sliding_attention", "full_attention"] * 4},
    "glm, all by default": {"model_type": "glm"},
    "glm, whole rotation": {"model_type": "glm", **SIZES, "partial_rotary_factor": 1.0},
    "glm4, all by default": {"model_type": "glm4"},
    "glm4, no biases": {"model_type": "glm4", **SIZES, "attention_bias": False, "head_dim": 16,
                        "rope_parameters": {"rope_theta": 1e4, "rope_type": "default",
                                            "partial_rotary_factor": 0.5}},
    "gemma3_text, all by default": {"model_type": "gemma3_text"},
    "gemma3_text, old keys": {"model_type": "gemma3_text", **SIZES, "rope_theta": 2e6,
                              "rope_local_base_freq": 2e4, "sliding_window_pattern": 3,
                              "sliding_window": 512},
    "gemma3_text, scaled": {"model_type": "gemma3_text", **SIZES, "query_pre_attn_scalar": 168,
                            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}},
    "gemma3_text, new keys": {"model_type": "gemma3_text", **SIZES, "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 3e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 3e4}},
        "layer_types": ["full_attention", "sliding_attention"] * 4},
    "gemma3, part": {"model_type": "gemma3", "text_config": {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text",
        "num_hidden_layers": 34, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024}},
    "mllama, all by default": {"model_type": "mllama_text_model"},
    "mllama, part": {"model_type": "mllama", "text_config": {
        "model_type": "mllama_text_model", **SIZES, "cross_attention_layers": [1, 4],
        "rope_theta": 500000.0, "rope_scaling": LLAMA3}},
}


def load(case):
    case = copy.deepcopy(case)
    if case["model_type"] == "mllama_text_model":
        return MllamaTextConfig(**case)
    return AutoConfig.for_model(case.pop("model_type"), **case)


def window_of(text, layer):
    """What the attention layer of the architecture passes on as its window."""
    kind = text.model_type
    if kind in ("mistral", "ministral3"):
        return text.sliding_window
    sliding = getattr(text, "layer_types", None) and text.layer_types[layer] == "sliding_attention"
    if kind in ("ministral", "qwen2", "qwen3", "gemma3_text"):
        return text.sliding_window if sliding else None
    if kind == "smollm3":
        return text.sliding_window if text.use_sliding_window and sliding else None
    return None


def facts(config):
    text = getattr(config, "text_config", config)
    types = getattr(text, "layer_types", None)
    rope = getattr(text, "rope_parameters")
    layers = range(text.num_hidden_layers)
    no_rope = getattr(text, "no_rope_layers", None)
    crossed = getattr(text, "cross_attention_layers", [])
    width = text.hidden_size // text.num_attention_heads
    return {
        "architecture": text.model_type, "num_layers": text.num_hidden_layers,
        "num_q_heads": text.num_attention_heads, "num_k_heads": text.num_key_value_heads,
        "head_dim": getattr(text, "head_dim", None) or width, "hidden_size": text.hidden_size,
        "intermediate_size": text.intermediate_size, "vocab_size": text.vocab_size,
        "max_positions": text.max_position_embeddings, "norm_eps": text.rms_norm_eps,
        "score_scale": getattr(text, "query_pre_attn_scalar", None),
        "activation": getattr(text, "hidden_act", None) or text.hidden_activation,
        "attention_bias": getattr(text, "attention_bias", None),
        "mlp_bias": getattr(text, "mlp_bias", None),
        "windows": [window_of(text, i) or 0 for i in layers],
        "sliding": [bool(types) and types[i] == "sliding_attention" for i in layers],
        "nope": [i for i in layers if no_rope and not no_rope[i]],
        "crossed": [i for i in layers if i in crossed],
        "rope": [rope[t] for t in ("full_attention", "sliding_attention")]
        if "full_attention" in rope else [rope],
    }


def main():
    golden = [{"name": name, "config": case, "facts": facts(load(case))}
              for name, case in CASES.items()]
    text = ",\n".join(json.dumps(entry) for entry in golden)
    (HERE / "config_golden.json").write_text(
        f'{{"transformers": "{transformers.__version__}", "cases": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
