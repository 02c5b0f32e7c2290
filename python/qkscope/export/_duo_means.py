# SPDX-License-Identifier: Apache-2.0
"""DuoAttention's score as kvpress has it "on the fly": a text whose queries all are the mean query, whose keys the mean key;
where the attention of its last row lies."""
from __future__ import annotations

from typing import Any, NamedTuple

from .._arrays import need_numpy
from .._call import DataError, NotFoundError, call, ffi, lib
from .._checks import path_of
from .._settings import StrPath
from ._heads import Heads
from ._request import Request


class Rotation(NamedTuple):
    """How a layer turns."""

    frequencies: tuple[float, ...]
    interleaved: bool
    factor: float  # RoPE multiplies queries and keys by it; 0: not told
    scale: float  # of scores; 0: not told


# ---- RoPE ---------------------------------------------------------------------------------

def _values(pointer: Any, count: int) -> tuple[float, ...]:
    return tuple(ffi.unpack(pointer, count)) if count else ()


def _of_capture(heads: Heads) -> list[Rotation]:
    made, count = ffi.new("qk_capture **"), ffi.new("size_t *")
    call(lib.qk_capture_open, made, heads.capture, ffi.NULL)
    try:
        info = lib.qk_capture_get_info(made[0])
        return [Rotation(_values(lib.qk_capture_frequencies_to_come(made[0], layer, count), count[0]),
                         bool(info.rope_interleaved), info.rope_factor, info.attention_scale) for layer in range(heads.layers)]
    finally:
        lib.qk_capture_close(made)


def _of_model(model: StrPath, heads: Heads) -> list[Rotation]:
    """By its config.json; weights need not be there."""
    path, made = ffi.new("char **"), ffi.new("qk_model **")
    call(lib.qk_hub_find_model, path_of(model, "model"), ffi.NULL, path)
    try:
        call(lib.qk_model_open_shape, made, path[0], ffi.NULL)
        f = lib.qk_model_get_facts(made[0])
        wanted = (heads.layers, heads.count["q"], heads.count["k"], heads.dim)
        shape = (f.num_layers, f.num_q_heads, f.num_k_heads, f.head_dim)
        if shape != wanted:
            raise DataError(f"{heads.where}: {wanted[0]} layers of {wanted[1]} query and {wanted[2]} key heads of {wanted[3]} "
                            f"values, and the model has {shape[0]} of {shape[1]} and {shape[2]} of {shape[3]}")
        return [Rotation(_values(f.layers[i].frequencies, f.layers[i].num_frequencies), bool(f.rope_interleaved),
                         f.layers[i].attention_factor, f.attention_scale) for i in range(heads.layers)]
    finally:
        lib.qk_model_close(made)
        lib.free(path[0])


def _rotations(request: Request, heads: Heads) -> list[Rotation]:
    of_capture = _of_capture(heads)
    if request.model is None and not any(one.frequencies for one in of_capture):
        raise NotFoundError(f"{heads.where}: capture.json has no rope.frequencies, by which the model turns these vectors: "
                            "give --model MODEL")
    found = of_capture if request.model is None else _of_model(request.model, heads)
    for layer, one in enumerate(found):
        if one.frequencies and not one.factor > 0:
            raise NotFoundError(f"{heads.where}: capture.json has no rope.attention_factor, by which this kind of RoPE "
                                "multiplies: give --model MODEL")
        if 2 * len(one.frequencies) > heads.dim:
            raise DataError(f"{heads.where}: vectors of {heads.dim} values have no room for the {len(one.frequencies)} rotary "
                            f"pairs of layer {layer}")
    scale = of_capture[0].scale or heads.dim**-0.5
    return [one._replace(scale=one.scale if one.scale > 0 else scale) for one in found]


# ---- scores -------------------------------------------------------------------------------

def _area(scores: Any) -> Any:
    """By distance, of each head. The mean of the cumulated weights of the last row: a key at distance t counts in t + 1
    sums."""
    numpy = need_numpy()
    length = scores.shape[-1]
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    return weights @ numpy.arange(1.0, length + 1) / weights.sum(-1) / length


def _pairs(vectors: Any, rotation: Rotation) -> Any:
    """The planes that turn, as complex numbers: [heads, pairs]."""
    count = len(rotation.frequencies)
    if rotation.interleaved:
        return vectors[:, 0:2 * count:2] + 1j * vectors[:, 1:2 * count:2]
    return vectors[:, :count] + 1j * vectors[:, count:2 * count]


def scores_by_means(request: Request) -> Any:
    """[layers, key heads]: the means over the query heads of a key head."""
    numpy = need_numpy()
    heads = Heads(request, "pre", "qk", groups=True)
    queries, keys = heads.means("q"), heads.means("k")
    distances, scores = numpy.arange(request.length), numpy.empty((heads.layers, heads.count["q"]))
    for layer, rotation in enumerate(_rotations(request, heads)):
        apart = _pairs(queries[layer], rotation) * _pairs(keys[layer], rotation).conj().repeat(heads.group, 0)
        angles = numpy.outer(numpy.array(rotation.frequencies), distances)
        # of a query that is so many tokens behind a key; what does not turn is the same for all keys
        scores[layer] = _area(rotation.scale * rotation.factor**2 * (apart.real @ numpy.cos(angles) - apart.imag @ numpy.sin(angles)))
    return scores.reshape(heads.layers, heads.count["k"], heads.group).mean(2)
