# SPDX-License-Identifier: Apache-2.0
"""Tiny GGUF files, written with the `gguf` package from models in Hugging Face's form by the conventions of
llama.cpp's converter: names, keys, the order of rows, what is added to norms; and the raw bytes of
files that nobody should write."""
import struct

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type, GGUFWriter, RopeScalingType as Scaling

from checkpoints import head_dim

NAMES = {"llama": "llama", "mistral": "llama", "ministral3": "mistral3", "qwen2": "qwen2",
         "qwen3": "qwen3", "smollm3": "smollm3", "glm": "chatglm", "glm4": "glm4", "gemma3_text": "gemma3"}
PAIRED = ("llama", "mistral3", "smollm3")
ARCHITECTURES = {name: arch for arch, name in gguf.MODEL_ARCH_NAMES.items()}


def side_by_side(values, heads):
    """Rows as files have them whose readers rotate neighbours: half a head apart before."""
    return values.reshape(heads, 2, len(values) // heads // 2, -1).swapaxes(1, 2).reshape(values.shape)


def converted(config, tensors):
    """{name in the file: values} of tensors named as in Hugging Face's files, without prefix."""
    name = NAMES[config["model_type"]]
    names = gguf.get_tensor_name_map(ARCHITECTURES[name], config["num_hidden_layers"])
    out = {}
    for key, values in tensors.items():
        if name in PAIRED and ".q_proj." in key:
            values = side_by_side(values, config["num_attention_heads"])
        if name in PAIRED and ".k_proj." in key:
            values = side_by_side(values, config["num_key_value_heads"])
        if name == "gemma3" and key.endswith("norm.weight"):
            values = values + np.float32(1)
        mapped = names.get_name("model." + key, try_suffixes=(".weight", ".bias"))
        assert mapped, key
        out[mapped] = values
    return out


def fuse(tensors):
    """Queries, keys and values in one tensor, as in files made from the first form of GLM-4."""
    out = dict(tensors)
    for key in list(tensors):
        if ".attn_q." in key:
            parts = [out.pop(key.replace("attn_q", "attn_" + part)) for part in "qkv"]
            out[key.replace("attn_q", "attn_qkv")] = np.concatenate(parts)
    return out


def llama3_factors(rope, dim):
    """What the converter makes of Llama 3's parameters: numbers to divide frequencies by."""
    waves = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    original, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    smooth = np.clip((original / waves - low) / (high - low), 0, 1)
    return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)


def add_rope(writer, config, tensors):
    both = config.get("rope_parameters") or {
        **(config.get("rope_scaling") or {}), "rope_theta": config.get("rope_theta", 10000.0)}
    rope = both.get("full_attention", both)
    kind = rope.get("rope_type", rope.get("type", "default"))
    writer.add_rope_freq_base(rope["rope_theta"])
    if "sliding_attention" in both:
        writer.add_rope_freq_base_swa(both["sliding_attention"]["rope_theta"])
    if kind == "linear":
        writer.add_rope_scaling_type(Scaling.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    elif kind == "yarn":
        writer.add_rope_scaling_type(Scaling.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
            writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        if "mscale_all_dim" in rope:
            writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        if "llama_4_scaling_beta" in rope:
            writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    elif kind == "longrope":
        writer.add_rope_scaling_type(Scaling.LONGROPE)
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        tensors["rope_factors_long.weight"] = np.array(rope["long_factor"], np.float32)
        tensors["rope_factors_short.weight"] = np.array(rope["short_factor"], np.float32)
    elif kind == "llama3":
        tensors["rope_freqs.weight"] = llama3_factors(rope, head_dim(config))
    elif kind == "proportional":  # pairs that do not turn are divided by a number for infinity
        turned = int(head_dim(config) * rope["partial_rotary_factor"] // 2)
        tensors["rope_freqs.weight"] = np.array([1] * turned + [1e30] * (head_dim(config) // 2 - turned), np.float32)
        return 1
    else:
        assert kind == "default", kind
    return rope.get("partial_rotary_factor", 1)


def add_keys(writer, config, tensors):
    dim = head_dim(config)
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    if "head_dim" in config:
        writer.add_key_length(dim)
        writer.add_value_length(dim)
    part = add_rope(writer, config, tensors)
    if config["model_type"].startswith("glm"):
        part = 0.5
    if config["model_type"] not in ("qwen2", "qwen3", "gemma3_text"):
        writer.add_rope_dimension_count(int(dim * part))
    if config["model_type"] in ("gemma3_text", "mistral") and config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if "sliding_window_pattern" in config:
        writer.add_uint32("gemma3.attention.sliding_window_pattern", config["sliding_window_pattern"])


def stored(values, kind):
    """(bytes to hand to the writer, their values as float32) in a type of the format; vectors stay
    as they are."""
    kind = Type[kind]
    if values.ndim == 1 or kind == Type.F32:
        return values, Type.F32, values
    if kind == Type.F16:
        return values.astype(np.float16), kind, values.astype(np.float16).astype(np.float32)
    data = gguf.quantize(values, kind)
    return data, kind, gguf.dequantize(data, kind).reshape(values.shape)


def write_gguf(path, config, tensors, kind="F32", change=None, fused=False, split=0, add=None):
    """Returns {name in the file: float32 values}. change: {key: (method of the writer, value)}, or
    None to leave the key out; add(writer) adds others."""
    name = NAMES[config["model_type"]]
    writer = GGUFWriter(path, name, split_max_tensors=split)
    mapped = converted(config, tensors)
    mapped = fuse(mapped) if fused else mapped
    add_keys(writer, config, mapped)
    for key, value in (change or {}).items():
        writer.kv_data[0].pop(key, None)
        if value is not None:
            getattr(writer, value[0])(key, value[1])
    if add:
        add(writer)
    read = {}
    for key, values in mapped.items():
        data, raw, read[key] = stored(np.ascontiguousarray(values, np.float32), kind)
        writer.add_tensor(key, data, raw_dtype=raw)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return read


# ---- raw bytes ---------------------------------------------------------------------------------

U32, F32, BOOL, TEXT, LIST, U64 = 4, 6, 7, 8, 9, 10


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def value(kind, item):
    if kind == LIST:
        inner, items = item
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, i) for i in items)
    return text(item) if kind == TEXT else struct.pack({U32: "<I", F32: "<f", BOOL: "<?", U64: "<Q"}[kind],
                                                       item)


def raw(keys=(), tensors=(), version=3, counts=None, magic=b"GGUF", alignment=32, data=b""):
    """keys: (name, type, value or bytes); tensors: (name, shape fastest first, type, offset)."""
    out = magic + struct.pack("<I", version) + struct.pack("<QQ", *(counts or (len(tensors), len(keys))))
    for name, kind, item in keys:
        out += text(name) + struct.pack("<I", kind) + (item if isinstance(item, bytes) and kind != TEXT
                                                       else value(kind, item))
    for name, shape, kind, offset in tensors:
        out += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        out += struct.pack("<IQ", kind, offset)
    return out + b"\0" * (-len(out) % alignment) + data
