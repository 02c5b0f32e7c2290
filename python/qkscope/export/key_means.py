# SPDX-License-Identifier: Apache-2.0
"""Mean keys after RoPE, as a fork of llama.cpp takes them out of its cache before it rounds: a GGUF file of a vector a layer."""
from __future__ import annotations

import json
import struct
from typing import Any

from .._arrays import need_numpy
from .._call import DataError, NotFoundError
from ._files import float32
from ._heads import Heads
from ._request import Made, Request
from ._rotary import other_model

ABOUT = "mean keys (GGUF), for PrismML's llama.cpp (--kv-mean-center); of a capture after RoPE"
MEANS = "key-means.gguf"
FILES = (MEANS,)
KEYWORDS = ("model", "k_rot")
STAGE = "post"
_ALIGNMENT = 32
_TEXT, _BOOL, _F32 = 8, 7, 0  # types of values; of tensors
# model_type: whether llama.cpp has what RoPE turns together side by side, where the vectors have it in two halves.
_SIDE_BY_SIDE = {"llama": True, "mistral": True, "ministral3": True, "smollm3": True, "qwen2": False, "qwen3": False, "glm": False,
                 "glm4": False, "gemma3_text": False}
_LEAST_BLOCK = 64  # of the rotation


# ---- GGUF ---------------------------------------------------------------------------------

def _text(value: str) -> bytes:
    told = value.encode("utf-8", "replace")
    return struct.pack("<Q", len(told)) + told


def _fill(size: int) -> bytes:
    return b"\0" * (-size % _ALIGNMENT)


def gguf(values: dict[str, str | bool], vectors: dict[str, Any]) -> list[Any]:
    """Version 3. values: texts and truth values. vectors: of float32, with one dimension."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(vectors), len(values))
    for name, value in values.items():
        told = struct.pack("<I?", _BOOL, value) if isinstance(value, bool) else struct.pack("<I", _TEXT) + _text(value)
        head += _text(name) + told
    at = 0
    for name, vector in vectors.items():
        head += _text(name) + struct.pack("<IQIQ", 1, vector.size, _F32, at)
        at += vector.nbytes + len(_fill(vector.nbytes))
    data = (vector.tobytes() + _fill(vector.nbytes) for vector in vectors.values())
    return [head + _fill(len(head)), *data]


# ---- vectors as the cache has them --------------------------------------------------------

def _in_order(means: Any, architecture: str, where: str) -> Any:
    """[..., d] as llama.cpp has the channels of a head."""
    if not architecture:
        raise NotFoundError(f"{where}: capture.json has no run.model.architecture, on which the order of channels in llama.cpp "
                            "hangs: give --model MODEL")
    if architecture not in _SIDE_BY_SIDE:
        raise DataError(f"{where}: in which order llama.cpp has the channels of {architecture} is not known; it is of "
                        f"{', '.join(_SIDE_BY_SIDE)}")
    if not _SIDE_BY_SIDE[architecture]:
        return means
    half = means.shape[-1] // 2
    return need_numpy().stack([means[..., :half], means[..., half:]], -1).reshape(means.shape)


def _turned(means: Any, where: str) -> Any:
    """By the Hadamard matrix by which llama.cpp turns keys before it rounds them: of Sylvester, orthonormal, in blocks of the
    largest power of two that divides d."""
    numpy = need_numpy()
    dim = means.shape[-1]
    if dim % _LEAST_BLOCK:
        raise DataError(f"{where}: llama.cpp turns no keys of {dim} values, which {_LEAST_BLOCK} does not divide: leave out --k-rot")
    block = dim & -dim
    matrix = numpy.ones((1, 1))
    while len(matrix) < block:
        matrix = numpy.block([[matrix, matrix], [matrix, -matrix]])
    return (means.reshape(*means.shape[:-1], -1, block) @ (matrix / block**0.5)).reshape(means.shape)


def make(request: Request) -> Made:
    heads = Heads(request, "post", "k", groups=True)
    architecture = heads.told("run", "model", "architecture", kind=str)
    if request.model is not None:
        architecture = other_model(heads, request.model).architecture
    means = _in_order(heads.means("k"), architecture, heads.where)
    if request.k_rot:
        means = _turned(means, heads.where)
    vectors = {f"kv_bar.blk.{layer}.k": float32(of.ravel(), f"layer {layer}") for layer, of in enumerate(means)}
    values: dict[str, str | bool] = {
        "general.type": "kv-mean-center", "kv_mean_center.k_rot": request.k_rot,
        "qkscope.made_from": json.dumps(heads.origin())}
    return Made({MEANS: gguf(values, vectors)}, heads.layers * heads.count["k"])
