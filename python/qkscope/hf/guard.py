# SPDX-License-Identifier: Apache-2.0
"""What is captured is the text decoder, run alone. Here the whole model is run once beside it, as its user would run
it: whatever takes part from outside (a prefix, a hook, an encoder) shows in the queries and keys, and the model is
refused. Kinds of models of which this is known beforehand are refused by name."""
from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from .._call import DataError
from .facts import TYPES, Facts, model_type, some_tokens, text_config
from .hooks import Call, Watch, layer_of

# Modules that meet what an encoder made; those of mllama's `cross_attn` are layers of their own, which text passes by.
CROSS = re.compile(r"(^|\.)(encoder_attn|crossattention|cross_attention|EncDecAttention|encoder_decoder_attention)$")
PASSED = re.compile(r"norm|mlp|dropout|feed|ffn|expert|moe|activation", re.I)
# Of a head's largest number; of the short types its last bit. Both runs do the same with the same kernels, and of all
# types of docs/dev/models.md they give the same bits.
LOOSE = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 8e-3}
NOISE = 4  # times what two runs of the same differ by: kernels that add up in no order of their own


def refuse_kinds(model: Any, decoder: Any) -> None:
    """Encoder-decoder models, and those before whose texts something learned is put."""
    refuse_encoders(model.config, any(CROSS.search(name) for name, _ in decoder.named_modules()))
    configs = getattr(model, "peft_config", None)
    if not isinstance(configs, dict):
        return
    active = getattr(model, "active_adapter", None)
    active = [active] if isinstance(active, str) else active if isinstance(active, (list, tuple)) else list(configs)
    for name in active:
        config = configs.get(name)
        if getattr(config, "is_prompt_learning", False):
            kind = getattr(config, "peft_type", type(config).__name__)
            raise DataError(f"the model has the adapter {name!r} ({getattr(kind, 'value', kind)}), which puts learned "
                            "vectors before every text; the text decoder that is captured has none of them. Capture "
                            "what it was made from: model.get_base_model()")


def refuse_encoders(config: Any, crosses: bool = False) -> None:
    """crosses: there is attention to an encoder, whatever the configuration says."""
    if crosses or getattr(config, "is_encoder_decoder", False):
        raise DataError(f"model type {str(getattr(config, 'model_type', ''))!r} is an encoder-decoder: its decoder attends "
                        "to what the encoder made of another text, and alone it would give queries and keys that the "
                        f"model never has. {TYPES}")


@dataclass
class Vectors:
    """Queries and keys of one call of an attention function."""

    name: str
    layer: int | None
    q: Any
    k: Any


@contextmanager
def _as_written(model: Any) -> Iterator[None]:
    """Runs the code from before torch.compile, where some of the model was compiled: the other cannot be looked into."""
    import torch
    compiled = any(getattr(m, "_compiled_call_impl", None) is not None or "_orig_mod" in m._modules for m in model.modules())
    if not compiled:
        yield
        return
    with torch.compiler.set_stance("force_eager"):
        yield


def _run(module: Any, ids: Any, **options: Any) -> dict[int, list[Vectors]]:
    """What the attention functions of a module and those in it are given, by which of them calls."""
    import torch
    seen: dict[int, list[Vectors]] = {}

    def see(call: Call) -> None:  # some models change them later
        name = watch.name(call)
        seen.setdefault(id(call.module), []).append(
            Vectors(name, layer_of(call, name), call.query.detach().clone(), call.key.detach().clone()))

    with torch.no_grad(), _as_written(module), Watch(module, see) as watch:
        module(input_ids=ids, **options)
    return seen


def difference(a: Any, b: Any) -> tuple[float, int]:
    """Of [texts, heads, tokens, d]: the largest, over the largest number of its head, and which head that is. What is
    no number on both sides is no difference: the sink tells of it."""
    a, b = (x.double().nan_to_num(0.0, 0.0, 0.0).cpu() for x in (a, b))
    over = (a - b).abs().amax(dim=(0, 2, 3)) / b.abs().amax(dim=(0, 2, 3)).clamp(min=1e-30)
    head = int(over.argmax())
    return float(over[head]), head


@dataclass
class Compared:
    """The whole model beside its decoder."""

    worst: float = 0.0
    where: str = ""  # a layer, a kind and a head
    refusal: str = ""  # what is not the same
    outside: tuple[str, ...] = ()  # modules outside the decoder that call attention functions, too
    failed: str = ""  # why the whole model could not be run


def compare(model: Any, decoder: Any, facts: Facts) -> Compared:
    """Runs both over a few tokens."""
    model = getattr(model, "_orig_mod", model)
    ids = some_tokens(decoder, model=model)
    alone = _run(decoder, ids, use_cache=False)
    try:
        whole = _run(model, ids)
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError, NotImplementedError) as error:
        return Compared(failed=f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
    inside = {id(module) for module in decoder.modules()}
    outside = tuple(sorted({v.name for key, calls in whole.items() if key not in inside for v in calls}))
    whole = {key: calls for key, calls in whole.items() if key in inside}
    found = _compare(whole, alone, facts, 0.0)
    if found.worst and found.refusal:  # or is it that no two runs are the same?
        noise = _compare(_run(decoder, ids, use_cache=False), alone, facts, 0.0).worst
        found = _compare(whole, alone, facts, NOISE * noise)
    return replace(found, outside=outside)


def _compare(whole: dict[int, list[Vectors]], alone: dict[int, list[Vectors]], facts: Facts, noise: float) -> Compared:
    found = Compared()
    for key in dict.fromkeys((*alone, *whole)):
        mine, theirs = alone.get(key, []), whole.get(key, [])
        one = (mine or theirs)[0]
        if one.layer not in facts.layers:
            continue
        if len(mine) != len(theirs):
            found.refusal = found.refusal or (f"{one.name} (layer {one.layer}) calls its attention function {len(theirs)} times "
                                              f"in the whole model, and {len(mine)} times in the decoder")
            continue
        for a, b in zip(theirs, mine):
            _compare_call(found, a, b, max(LOOSE[facts.layers[one.layer].dtype], noise))
    return found


def _compare_call(found: Compared, whole: Vectors, alone: Vectors, loose: float) -> None:
    for kind, a, b in (("q", whole.q, alone.q), ("k", whole.k, alone.k)):
        if a.shape != b.shape:
            found.refusal = found.refusal or (f"in layer {alone.layer} {kind} is {list(a.shape)} in the whole model and "
                                              f"{list(b.shape)} in the decoder (texts, heads, tokens, d)")
            return
        worst, head = difference(a, b)
        where = f"layer {alone.layer}, {kind} of head {head}"
        if worst > loose:
            found.refusal = found.refusal or f"{where} differs by {100 * worst:.2g} % of its largest number"
        if worst > found.worst:
            found.worst, found.where = worst, where


def check_whole(model: Any, decoder: Any, facts: Facts) -> list[str]:
    """Raises DataError where the whole model has other queries and keys. Returns what else there is to say."""
    found = compare(model, decoder, facts)
    if found.refusal:
        raise DataError(f"model type {model_type(model)!r}: the whole model gives other queries and keys than its text "
                        f"decoder alone, which is what is captured: {found.refusal}. Something outside of the decoder "
                        "takes part (a hook, a prefix, an adapter, an encoder): take it away, or put it into the "
                        "decoder")
    told = []
    if found.failed:
        told.append(f"model type {model_type(model)!r} could not be run as a whole on text alone ({found.failed}): that "
                    "its queries and keys are those of its text decoder was not checked")
    if found.outside:
        told.append(f"attention outside of the text decoder is not captured: {', '.join(found.outside[:4])}"
                    + (f" and {len(found.outside) - 4} more" if len(found.outside) > 4 else ""))
    return told


# ---- layers of which nothing is seen -------------------------------------------------------------

def unseen_layers(decoder: Any, facts: Facts, wanted: Collection[int] | None) -> tuple[str, bool]:
    """What to say of layers without queries and keys, "" if there are none; and whether the configuration says that they
    have attention, as where one's own was put in its place."""
    layers = [layer for layer in range(facts.num_layers) if layer not in facts.layers and layer not in facts.left_out
              and (wanted is None or layer in wanted)]
    if not layers:
        return "", False
    kinds = list(getattr(text_config(decoder), "layer_types", None) or ())
    blocks = _blocks(decoder, facts.num_layers)
    by_name: dict[str, list[int]] = {}
    for layer in layers:
        children = blocks[layer].named_children() if layer < len(blocks) else ()
        inside = [f"{name}: {type(child).__name__}" for name, child in children if not PASSED.search(name)]
        by_name.setdefault(", ".join(inside[:2]), []).append(layer)
    told = "; ".join(",".join(map(str, numbers)) + (f" ({name})" if name else "") for name, numbers in by_name.items())
    attends = (any("attention" in kinds[i] and "linear" not in kinds[i] for i in layers if i < len(kinds)) if kinds
               else not all("cross" in name for name in by_name))
    return (f"{len(layers)} of {facts.num_layers} layers call no attention function of transformers, and nothing of them is "
            f"captured: {told}"), attends


def _blocks(decoder: Any, count: int) -> Any:
    """The list of a decoder's layers; none where it has no such list."""
    import torch
    lists = [module for module in decoder.modules() if isinstance(module, torch.nn.ModuleList)]
    return next((module for module in lists if len(module) == count), ())
