# SPDX-License-Identifier: Apache-2.0
"""Configurations that test_hf_configs.py holds against transformers: each a tiny model with keys that change what is
computed, or that do not, or that belong to another architecture.

VARIANTS: {name: (architecture, changes of its config, what of the output layer is in the file, keys of the whole)}"""
FULL, SLIDING = "full_attention", "sliding_attention"
MIXED = [FULL, SLIDING, FULL, SLIDING]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONG = {"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": 64,
        "short_factor": [1.0, 1.1, 1.3, 1.6], "long_factor": [1.0, 2.0, 4.0, 9.0]}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
TWO = {FULL: {"rope_type": "linear", "rope_theta": 1e5, "factor": 2.0}, SLIDING: {"rope_type": "default", "rope_theta": 500.0}}
VISION = {"gemma3": {"model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
                     "num_attention_heads": 2, "image_size": 28, "patch_size": 14},
          "mistral3": {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
                       "num_attention_heads": 2, "head_dim": 8, "image_size": 28, "patch_size": 14},
          "mllama": {"model_type": "mllama_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
                     "num_global_layers": 1, "attention_heads": 2, "vision_output_dim": 32, "image_size": 28, "patch_size": 14,
                     "intermediate_layers_indices": [0]}}

_COMMON = {
    "plain": {}, "rope-yarn": {"rope_scaling": YARN}, "theta-inside": {"rope_parameters": {"rope_type": "default", "rope_theta": 300.0}},
    "eps": {"rms_norm_eps": 0.05}, "not-causal-true": {"is_causal": True}, "kv-heads": {"num_key_value_heads": 4},
}
_OF = {
    "llama": {
        **_COMMON, "bias": {"attention_bias": True, "mlp_bias": True}, "head-dim": {"head_dim": 12}, "window": {"sliding_window": 8},
        "use-window": {"sliding_window": 8, "use_sliding_window": True}, "layer-types": {"layer_types": MIXED, "sliding_window": 8},
        "no-rope": {"no_rope_layers": [1, 0, 1, 0]}, "linear": {"rope_scaling": {"type": "linear", "factor": 4.0}},
        "dynamic": {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}, "max_position_embeddings": 48},
        "llama3": {"rope_scaling": LLAMA3}, "longrope": {"rope_scaling": LONG}, "cap": {"final_logit_softcapping": 3.0},
        "attn-cap": {"attn_logit_softcapping": 2.0}, "scalar": {"query_pre_attn_scalar": 3}, "gelu": {"hidden_act": "gelu_pytorch_tanh"},
        "yarn-mscale": {"rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.3, "beta_fast": 8.0, "truncate": False}},
        "yarn-factor": {"rope_scaling": {**YARN, "attention_factor": 1.7}}, "local-theta": {"rope_local_base_freq": 50.0},
        "scales": {"logit_scale": 0.1, "embedding_multiplier": 3.0, "residual_multiplier": 0.2}, "tp": {"pretraining_tp": 2},
    },
    "mistral": {
        **_COMMON, "window": {"sliding_window": 8}, "absent": {"sliding_window": ...}, "use-window": {"sliding_window": 8, "use_sliding_window": False},
        "layer-types": {"sliding_window": 8, "layer_types": MIXED, "head_dim": 8},
        "layer-types-null": {"sliding_window": 8, "layer_types": None, "head_dim": 8},
        "layer-types-full": {"sliding_window": 8, "layer_types": [FULL] * 4, "head_dim": 12}, "bias": {"attention_bias": True},
    },
    "ministral": {"plain": {"head_dim": 8}, "absent": {"layer_types": ..., "head_dim": 8}},  # head_dim has no default there
    "ministral3": {"plain": {}, "window": {"sliding_window": 8}, "layer-types": {"sliding_window": 8, "layer_types": MIXED}},
    "qwen2": {
        **_COMMON, "window": {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 2},
        "off": {"sliding_window": 8, "use_sliding_window": False, "max_window_layers": 0},
        "layer-types": {"sliding_window": 8, "use_sliding_window": True, "layer_types": MIXED}, "no-rope": {"no_rope_layers": [1, 0, 1, 0]},
    },
    "qwen3": {
        "plain": {}, "bias": {"attention_bias": True}, "window": {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1},
        "layer-types": {"sliding_window": 8, "use_sliding_window": True, "layer_types": MIXED, "max_window_layers": 0},
    },
    "smollm3": {
        "plain": {}, "no-rope": {"no_rope_layers": [0, 1, 1, 0]}, "interval": {"no_rope_layer_interval": 2},
        "window": {"sliding_window": 8, "use_sliding_window": True, "no_rope_layer_interval": 2, "max_window_layers": 1},
        "layer-types": {"sliding_window": 8, "use_sliding_window": True, "layer_types": MIXED},
    },
    "glm": {"plain": {}, "no-bias": {"attention_bias": False}, "part": {"partial_rotary_factor": 1.0}, "window": {"sliding_window": 8}},
    "glm4": {"plain": {}, "part": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.34}}},
    "gemma3_text": {
        "plain": {}, "pattern": {"sliding_window_pattern": 2}, "own-pattern": {"_sliding_window_pattern": 2}, "layer-types": {"layer_types": MIXED},
        "local-theta": {"rope_local_base_freq": 50.0}, "linear": {"rope_scaling": {"rope_type": "linear", "factor": 8.0}, "sliding_window_pattern": 2},
        "two": {"rope_parameters": TWO, "layer_types": MIXED, "rope_theta": ...}, "cap": {"final_logit_softcapping": 2.0},
        "attn-cap": {"attn_logit_softcapping": 0.5}, "scalar": {"query_pre_attn_scalar": 100}, "bias": {"attention_bias": True},
    },
    "gemma3": {"plain": {}, "pattern": {"sliding_window_pattern": 2}},
    "mistral3": {"plain": {}}, "mllama": {"plain": {}, "none-crossed": {"cross_attention_layers": []}},
}

VARIANTS = {f"{kind}.{name}": (kind, changes, "own", {}) for kind, named in _OF.items() for name, changes in named.items()}
VARIANTS |= {
    **{f"{kind}.tied-{head}": (kind, {"tie_word_embeddings": True}, head, {})
       for kind in ("llama", "qwen2", "smollm3", "gemma3_text") for head in ("both", "none", "alone")},
    **{f"{kind}.unsaid-none": (kind, {}, "none", {}) for kind in ("smollm3", "gemma3_text")},
    **{f"{kind}.whole-tied-{head}": (kind, {"tie_word_embeddings": False}, head, {"tie_word_embeddings": True})
       for kind in ("gemma3", "mistral3") for head in ("both", "none", "alone")},
    "gemma3.whole-not-tied": ("gemma3", {"tie_word_embeddings": True}, "own", {"tie_word_embeddings": False}),
    "gemma3.text-not-tied": ("gemma3", {"tie_word_embeddings": False}, "none", {}),
    "mistral3.text-not-tied": ("mistral3", {"tie_word_embeddings": False}, "none", {}),
    "gemma3.whole-window": ("gemma3", {}, "own", {"sliding_window": 3, "rope_theta": 7.0, "num_hidden_layers": 1}),
    "mistral3.mistral": ("mistral3", {"model_type": "mistral", "sliding_window": 8, "layer_types": MIXED}, "own", {}),
    "mllama.tied": ("mllama", {}, "own", {"tie_word_embeddings": True}),
}
