# SPDX-License-Identifier: Apache-2.0
"""TriAttention for forks of llama.cpp: the same numbers in the TRIA format, version 2."""
from __future__ import annotations

import struct

from .._arrays import need_numpy
from .._call import DataError, NotFoundError
from ._files import config, float32
from ._request import Made, Request
from ._rotary import Rotary, Rotation, rotary
from .triattention import BY_LENGTH, one_rotation

ABOUT = "the same (TRIA .bin), for forks of llama.cpp; of a capture before RoPE"
STATS, MADE_FROM = "triattention.bin", "triattention-made-from.json"
FILES = (STATS, MADE_FROM)
KEYWORDS = ("model", "held_out")
_HEADER = 64


def settle(of: Rotary) -> Rotation:
    """As that of triattention."""
    numpy = need_numpy()
    heads = of.heads
    if of.rope.type in BY_LENGTH:
        raise DataError(f"{heads.where}: frequencies of this RoPE ({of.rope.type}) depend on the length of a text, and theta is all that the "
                        "format says of RoPE: triattention has room for those of short texts")
    rotation = one_rotation(of)
    count, theta = len(rotation.frequencies), of.rope.theta
    if rotation.interleaved:
        raise DataError(f"{heads.where}: pairs of dimensions are interleaved, and readers of the format take halves")
    if not theta > 0:
        raise NotFoundError(f"{heads.where}: capture.json has no rope.theta, which is all that the format says of RoPE: give --model "
                            "MODEL")
    if not numpy.allclose(rotation.frequencies, theta ** (-numpy.arange(count) / count), rtol=1e-6, atol=0):
        raise DataError(f"{heads.where}: frequencies are not those of theta {theta:g} alone (RoPE of type {of.rope.type or 'default'}), "
                        "and readers of the format compute them from theta: triattention has room for them")
    return rotation


def make(request: Request) -> Made:
    numpy = need_numpy()
    of = rotary(request)
    heads, count, theta = of.heads, len(settle(of).frequencies), of.rope.theta
    header = struct.pack("<4s6I2f", b"AIRT", 2, heads.layers, heads.count["q"], heads.count["k"], 2 * count, count, theta, 1.0)
    pieces = [header.ljust(_HEADER, b"\0"), numpy.ones(heads.layers, "<f4").tobytes()]
    for layer, found in enumerate(of.layers):
        resultant = numpy.divide(abs(found.mean), found.length, out=numpy.zeros_like(found.length), where=found.length > 0)
        parts = numpy.stack([found.mean.real, found.mean.imag, found.length, resultant], 1)
        pieces.append(float32(parts, f"layer {layer}").tobytes())
    return Made({STATS: pieces, MADE_FROM: config(heads.origin())}, heads.layers * heads.count["q"], of=of)
