# SPDX-License-Identifier: Apache-2.0
"""Small checkpoints of every architecture, with random weights, written by NumPy alone:

    config = small_config("qwen3", num_hidden_layers=2)
    tensors = write_checkpoint(folder, config, dtype="BF16", shards=2)

`tensors` are the weights as float32, by their names without the prefix, rounded as they were stored."""
import json
import pathlib
import struct

import numpy as np

ARCHITECTURES = ["llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "smollm3", "glm",
                 "glm4", "gemma3_text", "mllama_text_model"]
COMPOSITES = {"gemma3": "gemma3_text", "mistral3": "ministral3", "mllama": "mllama_text_model"}

COMMON = {"vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 4,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "beta_fast": 32.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
        "original_max_position_embeddings": 64}
SPECIAL = {
    "ministral": {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 2},
    "mistral": {"sliding_window": None},
    "ministral3": {"head_dim": 12, "rope_parameters": YARN},
    "qwen3": {"head_dim": 12},
    "glm": {"head_dim": 12},
    "glm4": {"head_dim": 12},
    "gemma3_text": {"head_dim": 12, "query_pre_attn_scalar": 10, "sliding_window": 8},
    "mllama_text_model": {"cross_attention_layers": [1, 3], "rope_theta": 500000.0},
}


def small_config(architecture, **changes):
    """A config.json of the architecture; of one of several parts with the text model inside."""
    if architecture in COMPOSITES:
        return {"model_type": architecture, "text_config":
                small_config(COMPOSITES[architecture], **changes)}
    config = {"model_type": architecture, **COMMON, **SPECIAL.get(architecture, {}), **changes}
    return {key: value for key, value in config.items() if value is not ...}


def text_config(config):
    return config.get("text_config", config)


def head_dim(text):
    derived = text["hidden_size"] // text["num_attention_heads"]
    return derived if text["model_type"].startswith("mllama") else text.get("head_dim") or derived


def layer_shapes(text):
    """Names within a layer and their shapes."""
    kind, hidden, wide = text["model_type"], text["hidden_size"], text["intermediate_size"]
    dim = head_dim(text)
    q, k = text["num_attention_heads"] * dim, text["num_key_value_heads"] * dim
    attention_bias = text.get("attention_bias", kind in ("glm", "glm4"))
    shapes = {"input_layernorm.weight": [hidden], "post_attention_layernorm.weight": [hidden],
              "mlp.down_proj.weight": [hidden, wide]}
    for name, rows, columns in (("q", q, hidden), ("k", k, hidden), ("v", k, hidden), ("o", hidden, q)):
        shapes[f"self_attn.{name}_proj.weight"] = [rows, columns]
        if name == "o":
            bias = attention_bias and kind in ("llama", "qwen3", "smollm3", "gemma3_text")
        else:
            bias = kind == "qwen2" or (attention_bias and not kind.startswith("mi"))
        if bias:
            shapes[f"self_attn.{name}_proj.bias"] = [rows]
    if kind in ("glm", "glm4"):
        shapes["mlp.gate_up_proj.weight"] = [2 * wide, hidden]
    else:
        shapes["mlp.gate_proj.weight"] = shapes["mlp.up_proj.weight"] = [wide, hidden]
    if text.get("mlp_bias"):
        shapes |= {"mlp.gate_proj.bias": [wide], "mlp.up_proj.bias": [wide],
                   "mlp.down_proj.bias": [hidden]}
    if kind in ("qwen3", "gemma3_text"):
        shapes["self_attn.q_norm.weight"] = shapes["self_attn.k_norm.weight"] = [dim]
    if kind == "glm4":
        shapes["post_self_attn_layernorm.weight"] = shapes["post_mlp_layernorm.weight"] = [hidden]
    if kind == "gemma3_text":
        shapes["pre_feedforward_layernorm.weight"] = [hidden]
        shapes["post_feedforward_layernorm.weight"] = [hidden]
    return shapes


def tensor_shapes(config):
    """Names without the prefix, and shapes, of all that the text model needs."""
    text = text_config(config)
    rows = text["vocab_size"] + (8 if text["model_type"].startswith("mllama") else 0)
    shapes = {"embed_tokens.weight": [rows, text["hidden_size"]]}
    crossed = text.get("cross_attention_layers", [])
    for layer in range(text["num_hidden_layers"]):
        if layer not in crossed:
            for name, shape in layer_shapes(text).items():
                shapes[f"layers.{layer}.{name}"] = shape
    return shapes


def random_tensors(config, seed=0):
    """float32 weights of a size that keeps activations near one."""
    rng = np.random.default_rng(seed)
    gemma = text_config(config)["model_type"].startswith("gemma")
    tensors = {}
    for name, shape in tensor_shapes(config).items():
        values = rng.standard_normal(shape)
        if name.endswith("norm.weight"):
            values = values * 0.2 + (0 if gemma else 1)
        elif len(shape) == 2 and not name.startswith("embed"):
            values /= np.sqrt(shape[1])
        tensors[name] = values.astype(np.float32)
    return tensors


# ---- files -----------------------------------------------------------------------------------

def to_bf16(values):
    """The upper halves of float32 numbers, rounded to nearest even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def stored(values, dtype):
    """(bytes, values as read back) of float32 values in a format of safetensors."""
    if dtype == "F32":
        return values.tobytes(), values
    if dtype == "F16":
        half = values.astype(np.float16)
        return half.tobytes(), half.astype(np.float32)
    upper = to_bf16(values)
    return upper.tobytes(), (upper.astype(np.uint32) << 16).view(np.float32)


def safetensors_bytes(entries, metadata=None, padding=0):
    """entries: {name: (dtype, shape, bytes)}; padding bytes part the header's end from alignment."""
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, data) in entries.items():
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8 + padding)
    return struct.pack("<Q", len(text)) + text + b"".join(e[2] for e in entries.values())


def write_safetensors(path, entries, **options):
    pathlib.Path(path).write_bytes(safetensors_bytes(entries, **options))


def write_checkpoint(folder, config, dtype="F32", shards=1, prefix="model.", seed=0, tensors=None,
                     extra=None, padding=0):
    """Writes config.json and the weights; `extra` entries are written under their full names."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    read, entries = {}, dict(extra or {})
    for name, values in (tensors or random_tensors(config, seed)).items():
        data, read[name] = stored(values, dtype)
        entries[prefix + name] = (dtype, values.shape, data)
    if shards == 1:
        write_safetensors(folder / "model.safetensors", entries, padding=padding)
        return read
    names, weight_map = list(entries), {}
    for i in range(shards):
        part = names[len(names) * i // shards:len(names) * (i + 1) // shards]
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        write_safetensors(folder / file, {n: entries[n] for n in part}, padding=padding)
        weight_map |= {n: file for n in part}
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map}))
    return read
