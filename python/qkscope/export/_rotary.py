# SPDX-License-Identifier: Apache-2.0
"""Heads as RoPE sees them: vectors before it as complex numbers, one for each pair of dimensions that turns; and how they turn."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from .._arrays import need_numpy
from .._call import DataError, Error, NotFoundError, call, ffi, lib, text
from .._checks import path_of
from .._run import warn
from .._settings import StrPath
from ._heads import Heads
from ._request import Request


# ---- how a model turns --------------------------------------------------------------------

class Rotation(NamedTuple):
    """How a layer turns."""

    frequencies: tuple[float, ...]  # of each pair, radians a token; 0: it does not turn. Empty: the layer has no RoPE
    interleaved: bool  # pair p: dimensions 2p and 2p + 1; else p and p + the number of pairs
    factor: float  # RoPE multiplies queries and keys by it; 0: not told
    scale: float  # of scores
    window: int | None  # tokens that a query sees; 0: all before it; None: not told (a capture does not, a model does)


class Rope(NamedTuple):
    """How a model turns."""

    architecture: str  # model_type, such as "qwen3"; "": not told
    type: str  # "default", "llama3", "yarn", ...; "": not told
    theta: float  # 0: not told
    theta_sliding: float  # of layers with a window, where it is another one; else 0
    layers: list[Rotation]


def _values(pointer: Any, count: int) -> tuple[float, ...]:
    return tuple(ffi.unpack(pointer, count)) if count else ()


def _of_capture(heads: Heads) -> Rope:
    made, count = ffi.new("qk_capture **"), ffi.new("size_t *")
    call(lib.qk_capture_open, made, heads.capture, ffi.NULL)
    try:
        info = lib.qk_capture_get_info(made[0])
        layers = [Rotation(_values(lib.qk_capture_frequencies_to_come(made[0], layer, count), count[0]),
                           bool(info.rope_interleaved), info.rope_factor, info.attention_scale, None)
                  for layer in range(heads.layers)]
    finally:
        lib.qk_capture_close(made)

    return Rope(heads.told("run", "model", "architecture", kind=str), heads.told("rope", "type", kind=str),
                heads.told("rope", "theta", kind=float), heads.told("rope", "theta_sliding", kind=float), layers)


@contextlib.contextmanager
def _facts(model: StrPath, open_model: Any) -> Iterator[Any]:
    """By qk_model_open or qk_model_open_shape, while the model is open."""
    hub, place, made = ffi.new("qk_hub_wanted *"), ffi.new("qk_hub_place *"), ffi.new("qk_model **")
    name = ffi.new("char[]", path_of(model, "model"))
    hub.name, hub.part, hub.as_it_is = name, lib.QK_HUB_MODEL, True
    call(lib.qk_hub_get, hub, place)
    try:
        call(open_model, made, place.path, ffi.NULL)
        yield lib.qk_model_get_facts(made[0])
    finally:
        lib.qk_model_close(made)
        lib.free(place.path)


def model_rope(model: StrPath, where: str, *shape: int) -> Rope:
    """By its config.json; weights need not be there. shape: layers, query heads and key heads of a layer, values of a head, of
    `where`, which the model has to have; 0: not known."""
    with _facts(model, lib.qk_model_open_shape) as f:
        has = (f.num_layers, f.num_q_heads, f.num_k_heads, f.head_dim)
        wanted = tuple(a or b for a, b in zip(shape, has, strict=True))
        if has != wanted:
            raise DataError(f"{where}: {wanted[0]} layers of {wanted[1]} query and {wanted[2]} key heads of {wanted[3]} "
                            f"values, and the model has {has[0]} of {has[1]} and {has[2]} of {has[3]}")
        return Rope(text(f.architecture) or "", text(f.rope_type) or "", f.rope_theta, f.rope_theta_sliding,
                    [Rotation(_values(one.frequencies, one.num_frequencies), bool(f.rope_interleaved), one.attention_factor,
                              f.attention_scale, one.window) for one in (f.layers[i] for i in range(f.num_layers))])


def _fingerprint(model: StrPath) -> str:
    """"": its weights are not there, or are none that this library reads."""
    try:
        with _facts(model, lib.qk_model_open) as f:
            return f"{f.fingerprint:016x}"
    except Error:
        return ""


def _difference(a: Rope, b: Rope) -> tuple[str, str] | None:
    """What a and b have in the first place where both tell of something else."""
    for what, one, other in (("model_type", a.architecture, b.architecture), ("RoPE of type", a.type, b.type),
                             ("rope.theta", f"{a.theta:g}", f"{b.theta:g}"), ("rope.theta_sliding", f"{a.theta_sliding:g}", f"{b.theta_sliding:g}")):
        if one != other and not {one, other} & {"", "0"}:
            return f"{what} {one}", other
    for layer, (x, y) in enumerate(zip(a.layers, b.layers, strict=True)):
        if x.frequencies and x.interleaved != y.interleaved:
            return ("interleaved pairs", "pairs of halves") if x.interleaved else ("pairs of halves", "interleaved pairs")
        if x.frequencies and (len(x.frequencies) != len(y.frequencies)
                              or not need_numpy().allclose(x.frequencies, y.frequencies, rtol=1e-5, atol=0)):
            return f"other frequencies in layer {layer}", "its own"
    return None


def other_model(heads: Heads, model: StrPath) -> Rope:
    """That of a model given beside a capture. What differs is told: heads of one model with RoPE of another look right."""
    found = model_rope(model, heads.where, heads.layers, heads.count["q"], heads.count["k"], heads.dim)
    if difference := _difference(_of_capture(heads), found):
        warn(f"{heads.where} is of a model with {difference[0]}, and {model} has {difference[1]}: the file follows {model}")
    elif heads.fingerprint and (own := _fingerprint(model)) not in ("", heads.fingerprint):
        warn(f"{heads.where} is of {heads.model or 'a model'} (fingerprint {heads.fingerprint}), and {model} has other weights or settings "
             f"({own}), as the same model in another format does: is it the same?")
    return found


def rope_of(request: Request, heads: Heads, factor: bool) -> Rope:
    """As capture.json tells it, or as the model does that is given. factor: what RoPE multiplies by has to be told, too."""
    of_capture = _of_capture(heads)
    found = of_capture if request.model is None else other_model(heads, request.model)
    if request.model is None and not any(one.frequencies for one in found.layers):
        raise NotFoundError(f"{heads.where}: capture.json has no rope.frequencies, by which the model turns these vectors: "
                            "give --model MODEL")
    if first := heads.told("rope", "first_dimension", kind=int):
        raise DataError(f"{heads.where}: RoPE turns dimensions from {first} on, as in latent attention (MLA), and no reader knows that")
    for layer, one in enumerate(found.layers):
        if factor and one.frequencies and not one.factor > 0:
            raise NotFoundError(f"{heads.where}: capture.json has no rope.attention_factor, by which this kind of RoPE "
                                "multiplies: give --model MODEL")
        if 2 * len(one.frequencies) > heads.dim:
            raise DataError(f"{heads.where}: vectors of {heads.dim} values have no room for the {len(one.frequencies)} rotary "
                            f"pairs of layer {layer}")
    scale = of_capture.layers[0].scale or heads.dim**-0.5
    return found._replace(layers=[one._replace(scale=one.scale if one.scale > 0 else scale) for one in found.layers])


# ---- pairs --------------------------------------------------------------------------------

def pairs(vectors: Any, rotation: Rotation) -> Any:
    """The planes that turn, as complex numbers: [..., d] to [..., pairs]. RoPE turns z_p at position t to
    factor z_p e^(i frequency_p t)."""
    count = len(rotation.frequencies)
    if rotation.interleaved:
        return vectors[..., 0:2 * count:2] + 1j * vectors[..., 1:2 * count:2]
    return vectors[..., :count] + 1j * vectors[..., count:2 * count]


class Layer(NamedTuple):
    """Queries of a layer's heads before RoPE, over all rows of all texts, in float64."""

    rotation: Rotation
    mean: Any  # [query heads][pairs] complex: mean of z_p
    length: Any  # [query heads][pairs] mean of |z_p|, which is at least |mean|


class Rotary(NamedTuple):
    """What `rotary` returns."""

    heads: Heads  # layers, count["q"], count["k"], group, dim, texts, length, first, model, where, told() of capture.json
    rope: Rope
    layers: list[Layer]


def rotary(request: Request) -> Rotary:
    """Mean queries before RoPE of every head of every layer, and how the model turns them.

    request.source is a capture before RoPE, of rows or of moments; one after RoPE is refused, as is one with heads missing.
    `heads.means("q")` and `heads.means("k")` are the same means as vectors [layers, heads, d]. Of a layer without RoPE the
    arrays have no pairs. Moments that do not have sums of |z_p|, as older versions made them, are refused with a remedy.
    """
    heads = Heads(request, "pre", "qk", groups=True)
    rope = rope_of(request, heads, factor=False)
    if heads.sum_abs(0) is not None and request.model is not None:
        summed = [(len(one.frequencies), one.interleaved) for one in _of_capture(heads).layers]
        if summed != [(len(one.frequencies), one.interleaved) for one in rope.layers]:
            raise DataError(f"{heads.where}: lengths of rotary pairs were summed as capture.json tells the pairs, and the model that is "
                            "given pairs dimensions otherwise: capture again, or leave --model out")
    means = heads.means("q")
    return Rotary(heads, rope, [Layer(one, pairs(means[layer], one), _lengths(heads, layer, one))
                                for layer, one in enumerate(rope.layers)])


def _lengths(heads: Heads, layer: int, rotation: Rotation) -> Any:
    numpy = need_numpy()
    count = len(rotation.frequencies)
    kept = heads.sum_abs(layer)
    if kept is None:  # rows
        kept = numpy.array([sum(abs(pairs(vectors, rotation)).sum(0) for vectors in heads.rows(layer, head, "q"))
                            for head in range(heads.count["q"])])
    elif not numpy.isfinite(kept[:, :count]).all():
        raise DataError(f"{heads.where}: layer {layer}: its moments lack the sums of lengths of rotary pairs (q.sum_abs), which an "
                        "older qkscope did not keep, nor whoever put sums without them: capture again")
    return kept[:, :count] / heads.rows_of("q")[layer][:, None]
