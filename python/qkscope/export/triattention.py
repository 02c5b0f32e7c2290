# SPDX-License-Identifier: Apache-2.0
"""TriAttention: for each query head, mean queries before RoPE by rotary pair, as its readers take them from a file of torch's."""
from __future__ import annotations

from .._arrays import need_numpy
from .._call import DataError
from .._run import warn
from ._files import float32
from ._request import Made, Request
from ._rotary import Rotary, Rotation, rotary
from ._torch_file import View, torch_file

ABOUT = "mean queries by rotary pair (.pt), for vLLM, SGLang, TensorRT-LLM; of a capture before RoPE"
STATS = "triattention.pt"
FILES = (STATS,)
KEYWORDS = ("model", "held_out")
BY_LENGTH = ("dynamic", "longrope")  # types of RoPE whose frequencies change with the length of a text
_PARTS = ("q_mean_real", "q_mean_imag", "q_abs_mean")


def one_rotation(of: Rotary) -> Rotation:
    """That of all layers: the formats have room for one."""
    first = of.layers[0].rotation
    for layer, one in enumerate(layer.rotation for layer in of.layers):
        if not one.frequencies:
            raise DataError(f"{of.heads.where}: layer {layer} has no RoPE, and the format takes all layers to have it")
        if one.frequencies != first.frequencies:
            raise DataError(f"{of.heads.where}: layer {layer} turns by other frequencies than layer 0, and the format has room for "
                            "those of one layer")
    if of.rope.type in BY_LENGTH:
        warn(f"frequencies of this RoPE ({of.rope.type}) depend on the length of a text: those of short ones are written")
    return first


def settle(of: Rotary) -> Rotation:
    """The rotation, or why the format cannot tell it. Looks at how the model turns alone."""
    rotation = one_rotation(of)
    turned = 2 * len(rotation.frequencies)
    if turned != of.heads.dim:
        raise DataError(f"{of.heads.where}: RoPE turns {turned} of {of.heads.dim} dimensions, and readers of the format turn all"
                        + (": triattention-ggml has room for it" if not rotation.interleaved else ""))
    if rotation.interleaved:
        warn("pairs of dimensions are interleaved: TriAttention's plug-ins of vLLM and SGLang obey that, its code for transformers "
             "refuses the file, and TensorRT-LLM reads the pairs as halves without a word: its scores would be wrong")
    if 0 in rotation.frequencies:
        warn("some pairs do not turn: TriAttention's plug-ins of vLLM and SGLang take that from inv_freq; other readers look at "
             "the model's configuration")
    return rotation


def make(request: Request) -> Made:
    numpy = need_numpy()
    of = rotary(request)
    heads, rotation = of.heads, settle(of)
    shape = heads.layers, heads.count["q"], len(_PARTS), len(rotation.frequencies)
    numbers = numpy.empty(shape, "<f4")
    for layer, found in enumerate(of.layers):
        numbers[layer] = float32(numpy.stack([found.mean.real, found.mean.imag, found.length], 1), f"layer {layer}")
    places = [[layer, head] for layer in range(shape[0]) for head in range(shape[1])]
    stats = {f"layer{layer:02d}_head{head:02d}": {
        part: View((place * shape[2] + i) * shape[3], shape[3]) for i, part in enumerate(_PARTS)}
        for place, (layer, head) in enumerate(places)}
    metadata = {"sampled_heads": places, "head_dim": heads.dim, "rope_style": "interleaved" if rotation.interleaved else "half",
                "rope_type": of.rope.type or "default", **({"rope_theta": of.rope.theta} if of.rope.theta else {}),
                "inv_freq": list(rotation.frequencies),
                "num_layers": shape[0], "num_attention_heads": shape[1], "num_kv_heads": heads.count["k"],
                "num_traces": heads.texts, "qkscope": heads.origin()}
    return Made({STATS: torch_file("triattention", {"metadata": metadata, "stats": stats}, numbers)}, len(places), of=of)
