# SPDX-License-Identifier: Apache-2.0
"""The model and texts of tests/sink/made.h put into the sink from Python: as feed.c does, the same bytes."""
import ctypes
import sys

import numpy as np

from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "sink"))
from feeding import CAPTURED, DIM, HEADS, LAYERS, example_of, feed, files_of, tokens_of, vectors_of  # noqa: E402

__all__ = ["CAPTURED", "DIM", "HEADS", "LAYERS", "example_of", "feed", "files_of", "tokens_of", "vectors_of"]
FREQUENCIES = [1, 0.5, 0.25, 0.125, 0.0625, 0]


def model(qk, **changes):
    heads = {f"{kind}_heads": [[h in layer for h in range(HEADS[kind])] for layer in CAPTURED[kind]] for kind in "qk"}
    return qk.Model(**{**dict(name="made up", num_layers=LAYERS, num_q_heads=4, num_k_heads=2, head_dim=DIM, **heads,
                              windows=[0, 512, 0], frequencies=[FREQUENCIES, None, FREQUENCIES]), **changes})


def sink(qk, folder, texts=8, sampler="all", rate=1.0, max_rows=0, seed=0, strings=0, tokens=0, **options):
    """As feed.c's words have it."""
    options = {"groups": 4, **options}
    return qk.Sink(folder, sampler=qk.Sampler(sampler, rate, 64, max_rows), reservoir_seed=seed, threads=1,
                   token_strings=(lambda token: chr(97 + token)) if strings else None, model=model(qk), texts=texts,
                   tokens=sum(map(tokens_of, range(texts))) if tokens else 0, **options)


def about(text):
    count = tokens_of(text)
    return dict(tokens=count, example_id=example_of(text), ids=np.arange(count, dtype=np.int32) % 26,
                source=f"text {text}", truncated=text % 5 == 0)


def all_vectors(text, layer, kind, before=False):
    """[heads, tokens, DIM]"""
    return np.array([vectors_of(text, layer, kind, head, before) for head in range(HEADS[kind])], dtype=np.float32)


def parts(stage="post"):
    """(layer, kind, before) of all that is put of a text."""
    return [(layer, kind, before) for layer in range(LAYERS) for kind in "qk"
            for before in {"post": [False], "pre": [True], "both": [False, True]}[stage]]


def put_text(s, number, stage="post", change=lambda x: x):
    for layer, kind, before in parts(stage):
        s.put(number, layer, kind, change(all_vectors(number, layer, kind, before)), before_rope=before)


def put_texts(s, numbers=range(8), stage="post", change=lambda x: x):
    for number in numbers:
        with s.text(number, **about(number)):
            put_text(s, number, stage, change)


def sums_of(sampler, positions, x, kind, centred=True, pairs=0):
    """What put_sums takes, of rows x [heads, rows, dim] at these positions; with lengths of rotary pairs, in halves."""
    x, t = x.astype(np.float64), np.asarray(positions, dtype=np.float64)
    about = {"sum_abs": np.hypot(x[..., :pairs], x[..., pairs:2 * pairs]).sum(1)} if pairs else {}
    if centred:
        about |= dict(origin=np.ascontiguousarray(x[:, :9].mean(1)), origin_t=float(np.floor(t.mean())))
        x, t = x - about["origin"][:, None], t - about["origin_t"]
    sums = dict(rows=len(t), sum_x=x.sum(1), sum_xt=(x * t[:, None]).sum(1), sum_xx=np.einsum("hri,hrj->hij", x, x))
    if kind == "q":
        numbers = np.asarray(sampler.buckets(positions))
        each = [numbers == b for b in np.unique(numbers)]
        for name, values in (("x", x), ("xt", x * t[:, None]), ("xx", x * x)):
            sums["bucket_sum_" + name] = np.stack([values[:, rows].sum(1) for rows in each], axis=1)
    return {**sums, **about}


def pairs_of(layer, kind, before):
    """Rotary pairs whose lengths are summed."""
    return len(FREQUENCIES) if before and kind == "q" and layer != 1 else 0


def put_text_sums(s, number, sampler, stage="post", centred=True):
    """All of a text by sums, and then the rows that are stored."""
    for layer, kind, before in parts(stage):
        at, stored = (np.asarray(f(number, layer, kind)) for f in (s.positions, s.stored_positions))
        x = all_vectors(number, layer, kind, before)
        if len(at):
            s.put_sums(number, layer, kind, before_rope=before,
                       **sums_of(sampler, at, x[:, at], kind, centred, pairs_of(layer, kind, before)))
            s.put(number, layer, kind, x[:, stored], positions=stored, before_rope=before)


def py_feed(qk, folder, texts=8, **options):
    """All texts, one after the other; the outcome."""
    with sink(qk, folder, texts, **options) as s:
        put_texts(s, filter(s.wants, range(texts)), options.get("stage", "post"))
    return s.outcome


# ---- arrays of others ----------------------------------------------------------------------

class Tensor:
    """What torch or JAX hand out by DLPack, bfloat16 included; or something that lies. x is a NumPy array of the bits
    (uint16 of bfloat16); steps are strides in numbers, None: not told."""

    def __init__(self, x, code=2, bits=None, steps="own", device=(1, 0), lanes=1, versioned=True):
        from qkscope import _arrays
        self.x, self.device, self.versioned = x, device, versioned
        bits = bits or 8 * x.itemsize
        shape = (ctypes.c_int64 * x.ndim)(*x.shape)
        strides = (ctypes.c_int64 * x.ndim)(*([s // x.itemsize for s in x.strides] if steps == "own" else steps or []))
        tensor = _arrays._Tensor(x.ctypes.data, *device, x.ndim, code, bits, lanes, shape,
                                 strides if steps is not None else None, 0)
        self.kept = _arrays._Versioned(1, 0, None, None, 0, tensor) if versioned else tensor, shape, strides

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **given):
        if given and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.kept[0]), b"dltensor_versioned" if self.versioned else b"dltensor", None)


def bfloat16(x):
    """The bits of numbers that bfloat16 has."""
    bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    assert not (bits & 0xffff).any()
    return (bits >> 16).astype(np.uint16)
