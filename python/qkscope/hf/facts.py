# SPDX-License-Identifier: Apache-2.0
"""What a model is, told by running it over a few tokens and looking: layers, heads, windows, scaling, sinks, RoPE.
Models of which it cannot be said which queries and keys are a layer's are refused by name."""
from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from .._call import ArgumentError, DataError
from .hooks import Call, Watch, layer_of, version
from .rotation import Rope, find_rope, held_frequencies

TOKENS = 7
TURNS = ("rope_parameters", "rope_scaling", "rope_theta", "rotary_dim", "rotary_pct", "rotary_emb_base")
TERMS = ("position_bias", "sinks", "alibi")
DTYPES = ("float32", "bfloat16", "float16")
TYPES = "docs/dev/models.md says which model types can be captured"


@dataclass
class LayerFacts:
    """What one layer does; heads, shapes and options as its attention function was called."""

    module: str
    q_heads: int
    k_heads: int
    head_dim: int
    dtype: str
    window: int  # tokens a query sees, itself included; 0: all before it
    scaling: float | None
    softcap: float | None
    sinks: list[float] | None  # one a query head: what the softmax counts beside the scores
    rope: Rope | None
    terms: list[str]  # what else enters its scores, told by the text: "position_bias", "sinks"


@dataclass
class Facts:
    """Of layers without attention that can be captured nothing is known: they are not among `layers`."""

    model_type: str
    num_layers: int
    layers: dict[int, LayerFacts]
    max_positions: int
    vocabulary: int
    causal: bool
    rope_type: str
    rope_theta: float
    q_heads: int = 0
    k_heads: int = 0
    head_dim: int = 0
    changes: bool = False  # queries or keys in place, after the attention function was called
    left_out: dict[int, str] = field(default_factory=dict)


def check_model(model: Any) -> None:
    """That it is one of transformers, with weights."""
    import torch
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        inner = getattr(model, "model", None)
        raise ArgumentError(f"model is a {type(model).__name__}; wanted is a model of transformers, as " + (
            "pipeline.model is" if isinstance(inner, torch.nn.Module) else
            "AutoModelForCausalLM.from_pretrained(name) gives"))
    # accelerate has weights on "meta", too, until a module is run
    offloaded = any(hasattr(module, "_hf_hook") for module in model.modules())
    if not offloaded and any(weight.device.type == "meta" for weight in model.parameters()):
        raise ArgumentError("the model is on the device \"meta\", where weights have no numbers: load it with "
                            "from_pretrained, outside of a `with torch.device(\"meta\")`")


def decoder_of(model: Any) -> Any:
    """The text decoder, without output layer, and without what torch.compile has put round it."""
    model = getattr(model, "_orig_mod", model)
    try:
        decoder = model.get_decoder()
    except (AttributeError, NotImplementedError):
        decoder = None
    if decoder is None or decoder is model or not hasattr(decoder, "config"):  # a layer of that name
        decoder = getattr(model, "base_model", model)
    decoder = getattr(decoder, "_orig_mod", decoder)
    for module in decoder.modules():
        if getattr(module, "_compiled_call_impl", None) is not None or "_orig_mod" in module._modules:
            raise ArgumentError("the model was compiled, and compiled code cannot be looked into: load it again, and "
                                "call capture before model.compile()")
    return decoder


def text_config(decoder: Any) -> Any:
    config = decoder.config
    return config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config


def model_type(model: Any) -> str:
    return str(getattr(getattr(model, "config", None), "model_type", type(model).__name__))


def input_device(decoder: Any) -> Any:
    embedding = decoder.get_input_embeddings()
    weight = getattr(embedding, "weight", None)
    device = getattr(weight, "device", None)
    return decoder.device if device is None or device.type == "meta" else device


def vocabulary_of(decoder: Any) -> int:
    embedding = decoder.get_input_embeddings()
    count = getattr(embedding, "num_embeddings", None) or len(getattr(embedding, "weight", ()))
    return int(count or text_config(decoder).vocab_size)


def _positions_of(config: Any, tokenizer: Any) -> int:
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    value = getattr(tokenizer, "model_max_length", None)
    return int(value) if isinstance(value, int) and 0 < value < 2**30 else 2**30


def _special_tokens(config: Any) -> set[int]:
    """Of padding, of the place of an image, ..., as a configuration and its parts name them."""
    found: set[int] = set()
    parts = [config.to_dict() if hasattr(config, "to_dict") else {}]
    for part in parts:
        parts += [value for value in part.values() if isinstance(value, dict)]
        found |= {value for name, value in part.items()
                  if isinstance(value, int) and name.endswith(("token_id", "token_index"))}
    return found


def some_tokens(decoder: Any, count: int = TOKENS, model: Any = None) -> Any:
    """Tokens that differ, none of them padding, or with another meaning than text to the decoder or the whole model."""
    import torch
    size = vocabulary_of(decoder)
    special = _special_tokens(decoder.config) | (_special_tokens(model.config) if model is not None else set())
    ids = [(i + 1) * max(size // (count + 2), 1) % size for i in range(count)]
    for at, i in enumerate(ids):
        ids[at] = next((other % size for other in range(i, i + size) if other % size not in special), i)
    return torch.tensor([ids], dtype=torch.long, device=input_device(decoder))


def observe(model: Any, decoder: Any, ids: Any, *, rotations: bool = False, **kwargs: Any) -> list[tuple[str, Call]]:
    """The calls of attention functions of one forward pass, with the names of their modules."""
    import torch
    calls: list[tuple[str, Call]] = []
    with torch.no_grad(), Watch(decoder, lambda call: calls.append((watch.name(call), call)),
                                rotations=rotations) as watch:
        decoder(input_ids=ids, **{"use_cache": False, **kwargs})
    return calls


def _by_layer(model: Any, decoder: Any, calls: list[tuple[str, Call]]) -> dict[int, tuple[str, Call]]:
    kind = model_type(model)
    if not calls:
        has = any("attention" in type(module).__name__.lower() for module in decoder.modules())
        raise DataError(f"model type {kind!r} " + ("computes attention by itself, not by the attention functions of "
                        f"transformers: its queries and keys cannot be seen. {TYPES}; `qkscope capture` runs some by "
                        "itself" if has else f"has no attention: there are no queries and keys. {TYPES}"))
    found: dict[int, tuple[str, Call]] = {}
    for name, call in calls:
        layer = layer_of(call, name)
        if layer is None:
            raise DataError(f"model type {kind!r}: {name} says not which layer it is of. {TYPES}")
        if layer in found:
            raise DataError(f"model type {kind!r} calls its attention function more than once in layer {layer} "
                            f"({found[layer][0]}, {name}): it has no single queries and keys. {TYPES}")
        found[layer] = (name, call)
    return dict(sorted(found.items()))


def _number(value: Any) -> float | None:
    if value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def window_of(call: Call) -> int:
    window = call.options.get("sliding_window", getattr(call.module, "sliding_window", None))
    return int(window) if isinstance(window, int) and not isinstance(window, bool) and window > 0 else 0


def _sinks(call: Call, heads: int) -> list[float] | None:
    sinks = call.options.get("s_aux")
    if sinks is None or getattr(sinks, "numel", lambda: 0)() != heads:
        return None
    return [float(x) for x in sinks.detach().double().cpu().flatten()]


def _check_shape(model: Any, name: str, call: Call, tokens: int) -> None:
    q, k = call.query, call.key
    kind = model_type(model)
    if q.dim() != 4 or k.dim() != 4 or q.shape[2] != tokens or k.shape[2] != tokens or q.shape[-1] != k.shape[-1]:
        raise DataError(f"model type {kind!r}: {name} has queries {list(q.shape)} and keys {list(k.shape)}; wanted "
                        f"are [texts, heads, tokens, d] of one d, a key a token. {TYPES}")
    if q.shape[1] % k.shape[1] != 0:
        raise DataError(f"model type {kind!r}: {name} has {q.shape[1]} query heads and {k.shape[1]} key heads, which "
                        f"do not divide. {TYPES}")
    dtype = str(q.dtype).removeprefix("torch.")
    if dtype not in DTYPES or k.dtype != q.dtype:
        raise ArgumentError(f"{name}: queries are {q.dtype} and keys {k.dtype}; wanted is one of "
                            f"{', '.join(DTYPES)}: load the model with dtype=torch.float32 or torch.bfloat16")


def _layer_facts(name: str, call: Call, exact: list[Any]) -> LayerFacts:
    q, k = call.query, call.key[:, :, -call.query.shape[2]:]
    return LayerFacts(module=name, q_heads=q.shape[1], k_heads=k.shape[1], head_dim=q.shape[-1],
                      dtype=str(q.dtype).removeprefix("torch."), window=window_of(call),
                      scaling=_number(call.options.get("scaling")),
                      softcap=_number(call.options.get("softcap")), sinks=_sinks(call, q.shape[1]),
                      rope=find_rope(call, q, k, exact),
                      terms=[name for name in TERMS if call.options.get(name) is not None])


def _same(a: Any, b: Any, loose: float) -> bool:
    """Up to rounding of their type."""
    return bool((a.double() - b.double()).abs().max() <= loose * b.double().abs().max() + 1e-6)


def _rounding(dtype: str) -> float:
    return {"float32": 1e-4, "float16": 2e-2, "bfloat16": 5e-2}[dtype]


def _is_causal(model: Any, decoder: Any, ids: Any, calls: dict[int, tuple[str, Call]]) -> bool:
    """Whether what comes later changes nothing of what was before."""
    import torch
    other = ids.clone()
    other[0, -1] = (other[0, -1] + 1) % vocabulary_of(decoder)
    again = _by_layer(model, decoder, observe(model, decoder, other))
    return all(layer in again and torch.equal(call.query[:, :, :-1], again[layer][1].query[:, :, :-1])
               or layer in again and _same(again[layer][1].query[:, :, :-1], call.query[:, :, :-1], 1e-6)
               for layer, (_, call) in calls.items())


def check_before(model: Any, decoder: Any, facts: Facts, wanted: Collection[int]) -> None:
    """That vectors from before RoPE are those: text at other positions leaves them as they are."""
    kind = model_type(model)
    loose = {layer for layer in wanted if (rope := facts.layers[layer].rope) and (rope.q is None or rope.k is None)}
    if loose:
        raise DataError(f"model type {kind!r}: in layer {min(loose)} it cannot be seen what comes before RoPE: capture "
                        "after it (stage=\"post\")")
    if facts.rope_type == "none":
        config = text_config(decoder)
        turns = held_frequencies(decoder) or any(getattr(config, name, None) for name in TURNS)
        if turns:
            raise DataError(f"model type {kind!r} has RoPE, but not where it can be seen: capture after it "
                            "(stage=\"post\")")
        return
    ids = some_tokens(decoder)
    import torch
    position = torch.arange(TOKENS, device=ids.device)[None]
    try:
        runs = [_by_layer(model, decoder, observe(model, decoder, ids, rotations=True, position_ids=position + shift))
                for shift in (0, 3)]
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        raise DataError(f"model type {kind!r} does not take positions ({error}), so it cannot be checked what comes "
                        "before RoPE: capture after it (stage=\"post\")") from None
    for layer in wanted:
        rope, rounding = facts.layers[layer].rope, _rounding(facts.layers[layer].dtype)
        for side in ("q", "k"):
            a, b = (before_of(run[layer][1], side, rope) for run in runs)
            if not _same(a, b, 10 * rounding):
                raise DataError(f"model type {kind!r}: what comes before RoPE in layer {layer} changes with the "
                                "positions, so it is not seen where it is taken: capture after it (stage=\"post\")")


def before_of(call: Call, side: str, rope: Rope | None) -> Any:
    """Queries or new keys from before the rotation; those from after it where a layer does not rotate."""
    after = call.query if side == "q" else call.key[:, :, -call.query.shape[2]:]
    piece = rope and (rope.q if side == "q" else rope.k)
    return piece.before(call, after) if piece else after


def find_facts(model: Any, tokenizer: Any = None) -> Facts:
    """Runs a few tokens. Errors name the model type: DataError, or ArgumentError with what to do."""
    decoder = decoder_of(model)
    config = text_config(decoder)
    if model.training:
        raise ArgumentError("the model is in training mode, in which dropout changes queries and keys: call "
                            "model.eval()")
    attention = str(getattr(decoder.config, "_attn_implementation", ""))
    if attention.startswith("paged"):
        raise ArgumentError(f"the model's attention is {attention!r}, of continuous batching, whose keys lie in pages: call "
                            f"model.set_attn_implementation({attention.split('|')[-1]!r})")
    ids = some_tokens(decoder)
    calls = _by_layer(model, decoder, observe(model, decoder, ids, rotations=True))
    exact = held_frequencies(decoder)
    layers = {}
    for layer, (name, call) in calls.items():
        _check_shape(model, name, call, TOKENS)
        layers[layer] = _layer_facts(name, call, exact)
    rope_type, theta = _rope_of(config, layers)
    return Facts(model_type=str(getattr(config, "model_type", model_type(model))),
                 num_layers=max(int(getattr(config, "num_hidden_layers", 0) or 0), max(layers) + 1), layers=layers,
                 max_positions=_positions_of(config, tokenizer), vocabulary=vocabulary_of(decoder),
                 causal=_is_causal(model, decoder, ids, calls), rope_type=rope_type, rope_theta=theta,
                 changes=any(call.was_changed() for _, call in calls.values()))


def _rope_of(config: Any, layers: dict[int, LayerFacts]) -> tuple[str, float]:
    """Type and base, as the configuration has them; of full attention where there are several."""
    if not any(layer.rope for layer in layers.values()):
        return "none", 0.0
    told = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if isinstance(told, dict) and any(isinstance(value, dict) for value in told.values()):
        told = told.get("full_attention") or next(value for value in told.values() if isinstance(value, dict))
    told = told if isinstance(told, dict) else {}
    theta = told.get("rope_theta", getattr(config, "rope_theta", None)) or getattr(config, "rotary_emb_base", 0.0)
    return str(told.get("rope_type", told.get("type", "default")) or "default"), float(theta or 0.0)


def choose_shape(facts: Facts, wanted: Collection[int] | None) -> None:
    """Sets the shape of the layers that are wanted, which has to be one; layers of another are left out where
    others were asked for."""
    chosen = {layer: facts.layers[layer] for layer in facts.layers if wanted is None or layer in wanted}
    shapes: dict[tuple[int, int, int], list[int]] = {}
    for layer, f in chosen.items():
        shapes.setdefault((f.q_heads, f.k_heads, f.head_dim), []).append(layer)
    if not shapes:
        raise DataError(f"no heads are left: of the layers asked for none has attention; {facts.model_type} has it in "
                        f"layers {', '.join(map(str, facts.layers))}")
    if len(shapes) > 1:
        told = "; ".join(f"layers {','.join(map(str, layers))}: {q} query and {k} key heads of {d} dimensions"
                         for (q, k, d), layers in shapes.items())
        raise DataError(f"model type {facts.model_type!r} has layers of different shapes, and a capture has one: "
                        f"choose layers of one shape with `layers` ({told})")
    (facts.q_heads, facts.k_heads, facts.head_dim), = shapes
    for layer, f in list(facts.layers.items()):  # of those that nobody asked for
        if (f.q_heads, f.k_heads, f.head_dim) != (facts.q_heads, facts.k_heads, facts.head_dim):
            facts.left_out[layer] = "of another shape"
            del facts.layers[layer]


def fingerprint(model: Any) -> int:
    """Of the configuration, and of names, shapes, types and a few numbers of all weights."""
    import torch
    config = model.config.to_dict()
    for name in ("transformers_version", "_name_or_path", "_attn_implementation", "torch_dtype", "dtype"):
        config.pop(name, None)
    state = hashlib.blake2b(json.dumps(config, sort_keys=True, default=str).encode(), digest_size=8)
    for name, weight in sorted(_weights(decoder_of(model)), key=lambda item: item[0]):
        state.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
        if weight.device.type == "meta" or weight.numel() == 0:
            continue
        flat = weight.detach().reshape(-1)
        middle = len(flat) // 2
        parts = [part.view(torch.uint8) for part in (flat[:8], flat[middle:middle + 8], flat[-8:])]
        state.update(torch.cat(parts).cpu().numpy().tobytes())
    return int.from_bytes(state.digest(), "little")


def _plain(name: str, weight: Any) -> Iterator[tuple[str, Any]]:
    """The tensors that a quantised one is made of."""
    if hasattr(weight, "__tensor_flatten__"):
        for part in weight.__tensor_flatten__()[0]:
            yield from _plain(f"{name}.{part}", getattr(weight, part))
    else:
        yield name, weight


def _weights(decoder: Any) -> Iterator[tuple[str, Any]]:
    """Parameters, and buffers that belong to a checkpoint: quantised weights are among them."""
    for name, module in decoder.named_modules():
        kept = {n: b for n, b in module._buffers.items() if b is not None and n not in module._non_persistent_buffers_set}
        for own, weight in (*module._parameters.items(), *kept.items()):
            if weight is not None:
                yield from _plain(f"{name}.{own}" if name else own, weight)


def generation(decoder: Any) -> tuple[Any, ...]:
    """Differs where weights were replaced or changed in place, modules exchanged, or modes switched."""
    return (getattr(decoder.config, "_attn_implementation", None), decoder.training,
            tuple((id(p), p.data_ptr() if p.device.type != "meta" else 0, version(p), p.dtype)
                  for whole in decoder.parameters() for _, p in _plain("", whole)))
