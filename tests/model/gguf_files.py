# SPDX-License-Identifier: Apache-2.0
"""Tiny GGUF files, made of models in Hugging Face's form by the conventions of llama.cpp's converter: names, keys, the
order of rows, what is added to norms; and the raw bytes of files that nobody should write. Quantised types alone need the
`gguf` package."""
import functools
import re
import struct

import numpy as np

from checkpoints import head_dim, to_bf16

NAMES = {"llama": "llama", "mistral": "llama", "ministral3": "mistral3", "qwen2": "qwen2",
         "qwen3": "qwen3", "smollm3": "smollm3", "glm": "chatglm", "glm4": "glm4", "gemma3_text": "gemma3"}
PAIRED = ("llama", "mistral3", "smollm3")
TENSORS = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
           "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
           "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
           "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
           "post_attention_layernorm": "ffn_norm", "pre_feedforward_layernorm": "ffn_norm",
           "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm",
           "post_feedforward_layernorm": "post_ffw_norm"}


def name_of(architecture, key):
    """In the file, of a tensor named as in Hugging Face's files, without prefix."""
    layer, name, end = re.fullmatch(r"(?:layers\.(\d+)\.)?(.+)\.(weight|bias)", key).groups()
    mapped = TENSORS[name]
    if architecture == "gemma3" and name == "post_attention_layernorm":
        mapped = "post_attention_norm"
    return f"{f'blk.{layer}.' if layer else ''}{mapped}.{end}"


def side_by_side(values, heads):
    """Rows as files have them whose readers rotate neighbours: half a head apart before."""
    return values.reshape(heads, 2, len(values) // heads // 2, -1).swapaxes(1, 2).reshape(values.shape)


def converted(config, tensors):
    """{name in the file: values} of tensors named as in Hugging Face's files, without prefix."""
    name, out = NAMES[config["model_type"]], {}
    for key, values in tensors.items():
        if name in PAIRED and ".q_proj." in key:
            values = side_by_side(values, config["num_attention_heads"])
        if name in PAIRED and ".k_proj." in key:
            values = side_by_side(values, config["num_key_value_heads"])
        if name == "gemma3" and key.endswith("norm.weight"):
            values = values + np.float32(1)
        out[name_of(name, key)] = values
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
    """Keys and tensors of the rotation; returns which part of a head turns."""
    both = config.get("rope_parameters") or {
        **(config.get("rope_scaling") or {}), "rope_theta": config.get("rope_theta", 10000.0)}
    rope = both.get("full_attention", both)
    kind = rope.get("rope_type", rope.get("type", "default"))

    def put(**keys):
        for key, value in keys.items():
            writer.own(f"rope.scaling.{key}", value)

    writer.own("rope.freq_base", float(rope["rope_theta"]))
    if "sliding_attention" in both:
        writer.own("rope.freq_base_swa", float(both["sliding_attention"]["rope_theta"]))
    if kind == "linear":
        put(type="linear", factor=rope["factor"])
    elif kind == "yarn":
        put(type="yarn", factor=rope["factor"], original_context_length=rope["original_max_position_embeddings"])
        if "beta_fast" in rope:
            put(yarn_beta_fast=float(rope["beta_fast"]), yarn_beta_slow=float(rope["beta_slow"]))
        if "mscale_all_dim" in rope:
            put(yarn_log_multiplier=rope["mscale_all_dim"])
        if "llama_4_scaling_beta" in rope:
            writer.own("attention.temperature_scale", rope["llama_4_scaling_beta"])
    elif kind == "longrope":
        put(type="longrope", original_context_length=rope["original_max_position_embeddings"])
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
    for key, name in (("block_count", "num_hidden_layers"), ("context_length", "max_position_embeddings"),
                      ("embedding_length", "hidden_size"), ("feed_forward_length", "intermediate_size"),
                      ("attention.head_count", "num_attention_heads"), ("attention.head_count_kv", "num_key_value_heads"),
                      ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
                      *((f"attention.{part}_length", "head_dim") for part in ("key", "value") if "head_dim" in config)):
        writer.own(key, config[name])
    part = add_rope(writer, config, tensors)
    if config["model_type"].startswith("glm"):
        part = 0.5
    if config["model_type"] not in ("qwen2", "qwen3", "gemma3_text"):
        writer.own("rope.dimension_count", int(dim * part))
    if config["model_type"] in ("gemma3_text", "mistral") and config.get("sliding_window"):
        writer.own("attention.sliding_window", config["sliding_window"])
    if "sliding_window_pattern" in config:
        writer.own("attention.sliding_window_pattern", config["sliding_window_pattern"])


def stored(values, kind):
    """(bytes, the number of the type, their values as float32) in a type of the format; vectors stay as they are."""
    if values.ndim == 1 or kind == "F32":
        return values.tobytes(), 0, values
    if kind == "F16":
        half = values.astype(np.float16)
        return half.tobytes(), 1, half.astype(np.float32)
    if kind == "BF16":
        upper = to_bf16(values)
        return upper.tobytes(), 30, (upper.astype(np.uint32) << 16).view(np.float32)
    import gguf
    number = gguf.GGMLQuantizationType[kind]
    data = gguf.quantize(values, number)
    return data.tobytes(), int(number), gguf.dequantize(data, number).reshape(values.shape)


class Writer:
    """A file's keys and tensors; add_...(value) as the `gguf` package's writer has them."""
    KEYS = {"tokenizer_model": "model", "tokenizer_pre": "pre", "token_list": "tokens", "token_types": "token_type",
            "token_scores": "scores", "token_merges": "merges", "unk_token_id": "unknown_token_id"}

    def __init__(self, architecture):
        self.keys, self.tensors, self.architecture = {"general.architecture": architecture}, [], architecture

    def own(self, key, value):
        self.keys[f"{self.architecture}.{key}"] = value

    def __getattr__(self, name):
        name = name.removeprefix("add_")
        if name == "vocab_size":
            return functools.partial(self.own, name)
        return functools.partial(self.keys.__setitem__, f"tokenizer.ggml.{self.KEYS.get(name, name)}")

    def add_tensor(self, name, values, number=0, shape=None):
        """values: an array of float32, or bytes of a type with this number."""
        data = values if isinstance(values, bytes) else np.ascontiguousarray(values, np.float32).tobytes()
        self.tensors.append((name, shape or values.shape, number, data))

    def write(self, path, parts=1):
        """In several files, as the package splits them, where there are several parts."""
        for part in range(parts):
            tensors, entries, data = self.tensors[part::parts], [], b""
            for name, shape, number, own in tensors:
                entries.append((name, shape[::-1], number, len(data)))
                data += own + b"\0" * (-len(own) % 32)
            keys = dict(self.keys) if part == 0 else {}
            if parts > 1:
                keys |= {"split.no": part, "split.count": parts, "split.tensors.count": len(self.tensors)}
            own = path if parts == 1 else path.with_name(f"{path.stem}-{part + 1:05}-of-{parts:05}.gguf")
            own.write_bytes(raw([(key, *typed(item)) for key, item in keys.items()], entries, data=data))


def write_gguf(path, config, tensors, kind="F32", change=None, fused=False, parts=1, add=None):
    """Returns {name in the file: float32 values}. change: {key: value}, None to leave the key out; add(writer) adds others."""
    writer = Writer(NAMES[config["model_type"]])
    mapped = converted(config, tensors)
    mapped = fuse(mapped) if fused else mapped
    add_keys(writer, config, mapped)
    writer.keys |= change or {}
    if add:
        add(writer)
    read = {}
    for key, values in mapped.items():
        data, number, read[key] = stored(np.ascontiguousarray(values, np.float32), kind)
        writer.add_tensor(key, data, number, values.shape)
    writer.keys = {key: value for key, value in writer.keys.items() if value is not None}
    writer.write(path, parts)
    return read


# ---- raw bytes ---------------------------------------------------------------------------------

U32, I32, F32, BOOL, TEXT, LIST, U64 = 4, 5, 6, 7, 8, 9, 10


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def typed(item):
    """(type, value) of what Python has."""
    if isinstance(item, list):
        items = [typed(i) for i in item]
        return LIST, (items[0][0] if items else U32, [value for _, value in items])
    if isinstance(item, int) and not isinstance(item, bool):
        return (I32 if item < 0 else U64 if item >> 32 else U32), item
    return {bool: BOOL, float: F32, str: TEXT}[type(item)], item


def value(kind, item):
    if kind == LIST:
        inner, items = item
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, i) for i in items)
    return text(item) if kind == TEXT else struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], item)


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
