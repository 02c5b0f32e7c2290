# SPDX-License-Identifier: Apache-2.0
"""Writing a capture of rows that are in memory."""
from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from . import _arrays
from ._call import ArgumentError, DataError, ExistsError, call, ffi, lib
from ._checks import path_of, reals, refuse, whole, words
from .captures import Block, Capture, head_id, head_name
from .sampler import KINDS, Sampler
from .sink import LAYOUTS, TYPES, as_json, choice

_AT_ONCE = 65536  # rows
_STAGES = {"pre": "pre-rope", "post": "post-rope"}
# Keys of capture.json that the writer sets itself, and those of keywords.
_OWN = ("format", "format_version", "tool", "model", "q_per_kv_group", "source", "complete", "changing", "heads", "layout")
_LIMITS = {"position": 2**31, "bucket": 2**31, "window": 2**31}  # int32 in the files
_FORMATS = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}


# ---- which head, which rows ----------------------------------------------------------------

def _id_of(key: Any) -> tuple[int, str, int]:
    """(layer, kind, head): heads of a packed file one after the other."""
    if isinstance(key, str):
        found = ffi.new("qk_head_id *")
        if not lib.qk_head_parse(words(key, "heads").encode(), found):
            raise ArgumentError(f"heads: {key!r} is no head; wanted is (layer, head, kind) or a name such as 'l00h02q'")
        return found.layer, "qk"[found.kind], found.head
    try:
        layer, head, kind = key
        if kind not in KINDS:
            raise ValueError
        return whole(layer, "layer", 0, 65535), kind, whole(head, "head", 0, 65535)
    except (TypeError, ValueError):
        raise ArgumentError(f"heads: {key!r} is no head; wanted is (layer, head, kind), kind being 'q' or 'k', or a "
                            "name such as 'l00h02q'") from None


def _is_array(value: Any) -> bool:
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        return True
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _blocks(name: str, rows: Any) -> Iterator[Block]:
    if isinstance(rows, Block):
        yield rows
    elif isinstance(rows, Mapping):
        wanted = [field.name for field in dataclasses.fields(Block)]
        if unknown := [key for key in rows if key not in wanted]:
            raise ArgumentError(f"{name}: unexpected keyword argument {unknown[0]!r}; wanted are {', '.join(wanted)}")
        yield Block(**rows)
    elif _is_array(rows):
        yield Block(rows)
    elif hasattr(rows, "to_numpy") or hasattr(rows, "to_pandas"):  # its parts would be names of columns
        raise refuse(name, f"a {type(rows).__name__}", "an array [rows, d], a Block, or several",
                     "x.to_numpy(dtype='float32')")
    elif isinstance(rows, Iterable) and not isinstance(rows, str):
        for block in rows:
            yield from _blocks(name, block)
    else:
        raise refuse(name, f"a {type(rows).__name__}", "an array [rows, d], a Block, or several",
                             "numpy.asarray(x, dtype='float32')")


# ---- their columns -------------------------------------------------------------------------

class _Told:
    """A View for NumPy."""

    def __init__(self, view: _arrays.View) -> None:
        size = _arrays.SIZES[view.dtype]
        self.view = view
        self.__array_interface__ = {"version": 3, "data": (view.address, True), "shape": view.shape,
                                    "strides": tuple(size * step for step in view.strides),
                                    "typestr": _FORMATS[view.dtype]}


def _as_floats(rows: Any, dtype: str) -> Any:
    """Rows of an array as dense float32: itself, where it is that."""
    numpy = _arrays.need_numpy()
    if dtype == "bfloat16":
        return (rows.astype("uint32") << 16).view("float32")
    return numpy.ascontiguousarray(rows, dtype="float32")


def _integers(value: Any, column: str, head: str, count: int, default: Callable[[], Any] | int) -> tuple[object, Any]:
    """What to keep, and a pointer to int64."""
    name = f"{column} of {head}"
    if value is None:
        value = default() if callable(default) else default
    if isinstance(value, int) or (hasattr(value, "__index__") and not getattr(value, "shape", ())):
        value = [value.__index__()] * count
    keep, pointer, found = _arrays.int64s(value, name)
    if found != count:
        raise refuse(name, f"{found} numbers for {count} vectors", "one each", "leave it out, or give one a row")
    if column in _LIMITS:
        numbers = _arrays.need_numpy().frombuffer(ffi.buffer(pointer, 8 * count), "int64")
        for row, number in ((int(i), int(numbers[i])) for i in (numbers.argmin(), numbers.argmax())):
            if not 0 <= number < _LIMITS[column]:
                raise refuse(name, f"{number} in row {row} of those given, which is " +
                             ("below 0" if number < 0 else "too large"), "0 to 2^31 - 1",
                             "count tokens from the beginning of the text" if column == "position" else "leave it out")
    return keep, pointer


class _Shape:
    """What a capture's heads have to agree in."""

    def __init__(self, told: Mapping[str, Any]) -> None:
        self.layers, self.rotation = told.get("num_layers"), told.get("rope_frequencies")
        self.dims: dict[int, tuple[str, int]] = {}  # by layer: the first head's

    def check(self, name: str, layer: int, dim: int) -> None:
        if self.layers is not None and layer >= self.layers:
            raise refuse("num_layers", str(self.layers), f"at least {layer + 1}, for {name}",
                         "leave it out, or count layers from 0")
        first, wanted = self.dims.setdefault(layer, (name, dim))
        if dim != wanted:
            raise refuse(f"vectors of {name}", f"of {dim} numbers", f"{wanted}, as those of {first} have",
                         "queries and keys of a layer meet in a product")
        by_layer = isinstance(self.rotation, Mapping)
        values = self.rotation.get(str(layer)) if isinstance(self.rotation, Mapping) else self.rotation
        if isinstance(values, list) and len(values) > dim // 2:
            raise refuse(f"rope_frequencies[{layer}]" if by_layer else "rope_frequencies", f"{len(values)} numbers",
                         f"{dim // 2} at most: {name} has vectors of {dim} numbers", "one for each two that turn together")


class _HeadWriter:
    """One head on its way into a capture."""

    def __init__(self, capture: Any, key: tuple[int, str, int], sampler: Sampler, shape: _Shape) -> None:
        self.shape = shape
        self.layer, self.kind, self.head = key
        self.name = head_name(self.layer, self.head, self.kind)
        self.capture, self.sampler = capture, sampler
        self.writer = ffi.new("qk_head_writer **")
        self.rows = 0
        self.dim: int | None = None

    def add(self, block: Block) -> None:
        view = _arrays.vectors(block.vectors, f"vectors of {self.name}", "rows head_dim", (None, self.dim),
                               tuple(TYPES))
        if self.dim is None:
            self._open(view.shape[1])
        if view.shape[0] > 0:
            self._add(block, view, view.shape[0])

    def _open(self, dim: int) -> None:
        if dim < 1:
            raise ArgumentError(f"vectors of {self.name} have no numbers: wanted is [rows, head_dim]")
        self.shape.check(self.name, self.layer, dim)
        call(lib.qk_head_writer_open, self.writer, self.capture, head_id(self.layer, self.head, self.kind)[0], dim,
             False, 0)
        self.dim = dim

    def _add(self, block: Block, view: _arrays.View, count: int) -> None:
        first, sampler = self.rows, self.sampler
        keep, position = _integers(block.position, "position", self.name, count, lambda: range(first, first + count))
        columns = {"position": (keep, position)}
        columns["bucket"] = _integers(block.bucket, "bucket", self.name, count,
                                      lambda: sampler.buckets(ffi.unpack(position, count)))
        columns["example"] = _integers(block.example, "example", self.name, count, 0)
        columns["window"] = _integers(block.window, "window", self.name, count, 0)
        numpy = _arrays.need_numpy()
        vectors = numpy.asarray(_Told(view))
        made = ffi.new("qk_block *", {"dim": self.dim})
        for at in range(0, count, _AT_ONCE):
            part = _as_floats(vectors[at:at + _AT_ONCE], view.dtype)
            self._check(part, at + first)
            made.rows, made.first_row = len(part), at + first
            made.f32 = ffi.from_buffer("float[]", part.reshape(-1))
            for name, (_, pointer) in columns.items():
                setattr(made, name, pointer + at)
            call(lib.qk_head_writer_add, self.writer[0], made, ffi.NULL)
        self.rows += count

    def _check(self, part: Any, first: int) -> None:
        finite = _arrays.need_numpy().isfinite(part).all(axis=1)
        if not finite.all():
            raise _degenerate(f"vectors of {self.name}: row {first + int(finite.argmin())} has a number that is not "
                              "finite: leave the row out, or look for an overflow in half precision")

    def finish(self) -> None:
        if self.dim is None:
            raise ArgumentError(f"{self.name} has no rows: leave it out")
        call(lib.qk_head_writer_finish, self.writer)

    def abort(self) -> None:
        lib.qk_head_writer_abort(self.writer)


def _degenerate(words: str) -> DataError:
    error = DataError(words)
    error.status = "QK_ERR_DEGENERATE"
    return error


# ---- the capture ---------------------------------------------------------------------------

def _write_heads(writer: Any, heads: Any, sampler: Sampler, shape: _Shape) -> None:
    """Files that heads share end with their layer, lest all layers' rows wait in memory."""
    pairs: Iterable[tuple[Any, Any]] = heads
    if isinstance(heads, Mapping):
        pairs = ((key, rows) for _, key, rows in sorted(((_id_of(key), key, rows) for key, rows in heads.items()),
                                                        key=lambda one: one[0]))
    before: int | None = None
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise refuse("heads", f"an iterable with a {type(pair).__name__}", "a dict, or pairs (head, rows)",
                         "{(layer, head, 'q'): x}")
        key, rows = pair
        head = _HeadWriter(writer, _id_of(key), sampler, shape)
        if before is not None and before != head.layer:
            _end_layer(writer, before)
        before = head.layer
        try:
            for block in _blocks(head.name, rows):
                head.add(block)
            head.finish()
        except BaseException:
            head.abort()
            raise
    if before is None:
        raise ArgumentError("heads is empty: a capture needs at least one")


def _end_layer(writer: Any, layer: int) -> None:
    for number in KINDS.values():
        call(lib.qk_capture_writer_end_layer, writer, layer, number)


def _meta(texts: Mapping[str, str | None], layout: str, q_per_kv_group: int | None) -> tuple[Any, list[Any]]:
    meta, keep = ffi.new("qk_capture_meta *"), []
    for name, value in texts.items():
        if value is not None:
            keep.append(ffi.new("char[]", words(value, name).encode(errors="surrogatepass")))
            setattr(meta, name, keep[-1])
    meta.q_per_kv_group = whole(q_per_kv_group or 0, "q_per_kv_group", 0, 65535)
    meta.layout = choice(LAYOUTS, layout, "layout")
    return meta, keep


def _taken(folder: str, force: bool) -> ExistsError:
    remedy = "no capture, which is all that force replaces" if force else "force=True replaces a capture"
    error = ExistsError(f"{folder}: something is there already ({remedy}): give another folder")
    error.status = "QK_ERR_EXISTS"
    return error


def _is_replaced(folder: str, force: bool) -> bool:
    """Whether a capture is there that is to go. ExistsError: there is something that is not."""
    if not os.path.lexists(folder) or (os.path.isdir(folder) and not os.listdir(folder)):
        return False
    if not force or not os.path.isfile(os.path.join(folder, "capture.json")):
        raise _taken(folder, force)
    return True


def _publish(made: str, folder: str, aside: str, force: bool) -> None:
    """Moves a whole capture to its place."""
    if _is_replaced(folder, force):
        os.rename(folder, aside)
    try:
        os.rename(made, folder)
    except OSError as error:
        if os.path.isdir(aside):
            os.rename(aside, folder)
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # came meanwhile
            raise _taken(folder, force) from None
        raise


def _tell(extra: Mapping[str, Any], stage: str | None, num_layers: int | None,
          rope_frequencies: Sequence[float] | Mapping[int, Sequence[float]] | None, interleaved: bool) -> dict[str, Any]:
    """Keys of capture.json beside the writer's own."""
    told: dict[str, Any] = {}
    if stage is not None:
        if stage not in _STAGES:
            raise ArgumentError(f"stage is {stage!r}; wanted is 'pre', 'post' or None")
        told["stage"] = _STAGES[stage]
    if num_layers is not None:
        told["num_layers"] = whole(num_layers, "num_layers", 0, 65535)
    if isinstance(rope_frequencies, Mapping):
        told["rope_frequencies"] = {str(layer): reals(values, f"rope_frequencies[{layer}]")
                                    for layer, values in rope_frequencies.items()}
    elif rope_frequencies is not None:
        told["rope_frequencies"] = reals(rope_frequencies, "rope_frequencies")
    if rope_frequencies is not None or interleaved:
        told["rope"] = {"pairing": "interleaved" if interleaved else "half"}
    for key in extra:
        if key in _OWN or key in told:
            raise refuse("extra", f"a dict with {key!r}", "one of further keys", "there is a keyword for it"
                         if key in (*told, "model", "q_per_kv_group", "source", "layout") else "it is set by the writer")
    return {**extra, **told}


def write_capture(folder: str | os.PathLike[str], heads: Mapping[Any, Any] | Iterable[tuple[Any, Any]], *,
                  model: str = "", q_per_kv_group: int | None = None, num_layers: int | None = None, stage: str | None = None,
                  rope_frequencies: Sequence[float] | Mapping[int, Sequence[float]] | None = None,
                  rope_interleaved: bool = False, sampler: Sampler | None = None, layout: str = "heads",
                  source: str = "qkscope.write_capture", card: str | None = None,
                  extra: Mapping[str, Any] | None = None, force: bool = False) -> Capture:
    """Writes a capture of rows that are in memory, or that come block by block. Returns it, open.

    heads             a dict from (layer, head, kind), or a name such as "l00h02q", to the head's rows; or pairs of
                      these, such as a generator makes them, layer by layer: then one head at a time is in memory
    model             its name, for tables and figures
    q_per_kv_group    query heads per key head; None or 0: not known
    num_layers        of the model; None: up to the largest layer of a head
    stage             "pre" or "post": vectors of before or after RoPE; None: not known
    rope_frequencies  radians per token, a list for all layers, or a dict of lists by layer
    rope_interleaved  dimensions 2j and 2j + 1 turn together, not j and j + pairs
    sampler           whose buckets rows are in that bring none: a Sampler; None: of 128 positions
    layout            "heads" (a file a head) or "packed" (a file a layer and kind)
    source, card      what made it; further lines for the card
    extra             dict of further keys for capture.json
    force             replace a capture that is there; it stays until the new one is complete

    Rows are an array [rows, d], a Block or a dict of its columns, or several of these one after the other. Vectors are
    float32, float16 or bfloat16: NumPy arrays, torch tensors of the CPU, anything with DLPack or the buffer protocol.
    Without positions they are 0, 1, ...; without examples all rows are of text 0. Needs NumPy.

        qkscope.write_capture("mine", {(0, 0, "q"): queries, (0, 0, "k"): dict(vectors=keys, position=at, example=ids)})
        part = qkscope.open("mine")
        qkscope.write_capture("keys", ((h.name, h.blocks(dtype="float32")) for h in part.heads if h.kind == "k"))

    The capture appears in `folder` when it is whole; after an exception there is nothing. For vectors that a model
    makes text by text, also sampled, from many threads or processes, and for moments, there is qkscope.Sink.

    Raises ArgumentError for an array of another shape, dtype or device, for masked numbers, for heads that cannot
    share a file or differ in dimension within a layer, and for what no reader would take; DataError for a number that
    is not finite; ExistsError where something is there; InputOutputError when the disk is full.
    """
    as_json(extra or {}, "extra")
    told = _tell(extra or {}, stage, num_layers, rope_frequencies, rope_interleaved)
    meta, keep = _meta({"model": model, "source": source, "card": card,
                        "extra_json": as_json(told, "capture.json") if told else None}, layout, q_per_kv_group)
    if not os.fspath(folder):
        raise refuse("folder", "empty", "a folder's name", "'mine' is made in the one that you are in")
    if not isinstance(sampler, Sampler | None):
        raise refuse("sampler", f"{sampler!r:.60}", "a qkscope.Sampler", "Sampler('uniform', base_rate=8)")
    where = os.path.realpath(os.fsdecode(folder))
    if os.path.commonpath([where, os.getcwd()]) == where:  # it would be in a folder that is gone
        raise refuse("folder", f"{os.fspath(folder)!r}, which this process works in", "another one",
                     "give a folder in it, or os.chdir() elsewhere")
    _is_replaced(where, force)  # before the work
    os.makedirs(os.path.dirname(where), exist_ok=True)
    beside = tempfile.mkdtemp(prefix=f".{os.path.basename(where)}.", dir=os.path.dirname(where))
    made = os.path.join(beside, "capture")
    writer = ffi.new("qk_capture_writer **")
    try:
        call(lib.qk_capture_writer_open, writer, path_of(made, "folder"), meta)
        _write_heads(writer[0], heads, sampler or Sampler(), _Shape(told))
        call(lib.qk_capture_writer_finish, writer)
        Capture(made)  # before it takes another's place: it can be read
        _publish(made, where, os.path.join(beside, "before"), force)
    finally:
        lib.qk_capture_writer_abort(writer)
        shutil.rmtree(beside, ignore_errors=True)
        del keep
    return Capture(folder)
