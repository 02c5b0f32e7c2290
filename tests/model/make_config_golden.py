# SPDX-License-Identifier: Apache-2.0
"""Writes into config_golden.json what transformers makes of the configurations that stand there, like those of published models
and awkward ones, and the keys that its classes have. A new one is a name and a config.

    python tests/model/make_config_golden.py"""
import copy
import dataclasses
import json
import pathlib

import transformers
from transformers import AutoConfig
from transformers.models.mllama.configuration_mllama import MllamaTextConfig

KINDS = {"mllama_text_model": MllamaTextConfig}
NAMES = ["llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "smollm3", "glm", "glm4", "gemma3_text", *KINDS]
HERE = pathlib.Path(__file__).resolve().parent


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
    file = HERE / "config_golden.json"
    keys = {name: sorted(field.name for field in dataclasses.fields(KINDS.get(name) or AutoConfig.for_model(name)))
            for name in NAMES}
    golden = [{**case, "facts": facts(load(case["config"]))} for case in json.loads(file.read_text())["cases"]]
    text = ",\n".join(json.dumps(entry) for entry in golden)
    file.write_text(
        f'{{"transformers": "{transformers.__version__}", "keys": {json.dumps(keys)}, "cases": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
