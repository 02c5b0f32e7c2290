# SPDX-License-Identifier: Apache-2.0
"""Reading captures: which heads there are, what capture.json says, rows in blocks of NumPy arrays."""
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ._arrays import need_numpy
from ._call import ArgumentError, NotFoundError, call, ffi, lib, text
from ._checks import path_of, whole, words
from ._run import Progress, run
from ._settings import Settings
from .sampler import KINDS, kind_of

COLUMNS = {"vectors": lib.QK_COLUMN_VECTOR, "position": lib.QK_COLUMN_POSITION, "bucket": lib.QK_COLUMN_BUCKET,
           "example": lib.QK_OPTIONAL_EXAMPLE, "window": lib.QK_COLUMN_WINDOW}
_LETTERS = {number: kind for kind, number in KINDS.items()}
_STAGES = {lib.QK_STAGE_UNKNOWN: None, lib.QK_STAGE_PRE_ROPE: "pre", lib.QK_STAGE_POST_ROPE: "post"}
KEPT = {lib.QK_ROWS_ALL: "all", lib.QK_ROWS_NONE: "none", lib.QK_ROWS_RESERVOIR: "reservoir"}


def head_id(layer: int, head: int, kind: str) -> Any:
    """A qk_head_id *."""
    made = ffi.new("qk_head_id *")
    made.layer, made.head, made.kind = layer, head, kind_of(kind)
    return made


def letter_of(kind: int) -> str:
    """The letter of a qk_kind: "q" or "k"."""
    return _LETTERS[kind]


def head_name(layer: int, head: int, kind: str) -> str:
    """Such as "l00h02q"."""
    name = ffi.new("char[32]")
    lib.qk_head_name(head_id(layer, head, kind)[0], name)
    return str(text(name))


# ---- rows ----------------------------------------------------------------------------------

@dataclass(eq=False, repr=False)
class Block:
    """Rows of one head, side by side.

    vectors    [rows, d], float32; float64 where the capture holds doubles
    position   [rows], int64: token positions in the text, from 0
    bucket     [rows], int64: position buckets
    example    [rows], int64: ids of the texts; -2^63 where there is none; None: the capture has no such integers
    window     [rows], int64: sliding window in tokens; 0 = full attention
    first_row  of the first of them within the head

    What was not asked for is None. NumPy arrays of a block that was read view memory that the library has filled, and
    that nobody else has: it goes with the last array, and they may be written to. For write_capture any of
    them may be anything with DLPack or the buffer protocol, and all but the vectors may be left out, or, but for
    positions, be one number for all rows.
    """

    vectors: Any = None
    position: Any = None
    bucket: Any = None
    example: Any = None
    window: Any = None
    first_row: int = 0

    def _arrays(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in COLUMNS if getattr(self, name) is not None}

    def __len__(self) -> int:
        return next((len(array) for array in self._arrays().values() if hasattr(array, "__len__")), 0)

    def __repr__(self) -> str:
        return f"<Block: {len(self)} rows from {self.first_row}, {', '.join(self._arrays())}>"

    def copy(self) -> Block:
        """The same rows in arrays of NumPy's own."""
        numpy = need_numpy()
        return Block(**{name: numpy.array(array) for name, array in self._arrays().items()}, first_row=self.first_row)


def _array(pointer: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Memory of the library's as an array, which frees it."""
    numpy = need_numpy()
    size = numpy.dtype(dtype).itemsize
    for count in shape:
        size *= count
    owned = ffi.gc(pointer, lib.free, size)
    return numpy.frombuffer(ffi.buffer(owned, size), dtype).reshape(shape)


def _take(rows: Any, block: Any) -> Block:
    """The block that was read last."""
    lib.qk_rows_detach(rows)
    made = Block(first_row=block.first_row)
    for name in COLUMNS:
        if name == "vectors":
            continue
        if (pointer := getattr(block, name)) != ffi.NULL:
            setattr(made, name, _array(pointer, (block.rows,), "int64"))
    for pointer, dtype in ((block.f32, "float32"), (block.f64, "float64")):
        if pointer != ffi.NULL:
            made.vectors = _array(pointer, (block.rows, block.dim), dtype)
    return made


def _flags(columns: str | Iterable[str] | None) -> int:
    if columns is None:
        return sum(COLUMNS.values())
    names = columns.replace(",", " ").split() if isinstance(columns, str) else list(columns)
    for name in names:
        if name not in COLUMNS:
            raise ArgumentError(f"columns: {name!r} is none of {', '.join(COLUMNS)}")
    if not names:
        raise ArgumentError("columns is empty; leave it out for all of them")
    return sum({COLUMNS[name] for name in names})


def _dtype(given: str | None) -> str | None:
    if given not in (None, "float32", "float64"):
        raise ArgumentError(f"dtype is {given!r}; wanted is 'float32', 'float64' or None")
    return given


class Head:
    """One head of a capture. It is made by Capture.

    layer, head, kind   kind is "q" or "k"; key heads and query heads are counted separately
    name                such as "l00h02q"
    files               paths of its Parquet files, which heads share where the capture is packed
    moments             path of the file with its moments; None: the capture keeps none
    summed              rows behind the moments, as capture.json lists them
    missing             capture.json lists the head, but it is not there: reading it is an error
    """

    def __init__(self, capture: Capture, head: Any) -> None:
        self._capture, self._head = capture, head
        self.layer, self.head, self.kind = head.id.layer, head.id.head, letter_of(head.id.kind)
        self.name = head_name(self.layer, self.head, self.kind)
        self.files = tuple(os.fsdecode(ffi.string(head.files[i])) for i in range(head.num_files))
        self.moments = None if head.moments == ffi.NULL else os.fsdecode(ffi.string(head.moments))
        self.summed, self.missing = head.summed, head.missing
        self._shape: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"<Head {self.name} of {self._capture.path}>"

    def _open(self, columns: int, limit: int | None) -> Any:
        if limit is not None and limit < 1:
            raise ArgumentError(f"limit is {limit}; wanted is a number of rows above 0, or None for all")
        made = ffi.new("qk_rows **")
        call(lib.qk_rows_open, made, self._head, columns, limit or 0)
        return ffi.gc(made[0], lambda rows: lib.qk_rows_close(ffi.new("qk_rows **", rows)))

    def _measure(self) -> tuple[int, int]:
        if self._shape is None:
            rows = self._open(lib.QK_COLUMN_VECTOR, None)
            self._shape = lib.qk_rows_total(rows), lib.qk_rows_dim(rows)
        return self._shape

    @property
    def rows(self) -> int:
        """How many there are, from the footers of its files; 0 where only moments are kept."""
        return 0 if not self.files and self.moments else self._measure()[0]

    @property
    def dim(self) -> int:
        """Numbers in a vector; 0 without rows."""
        return 0 if not self.files and self.moments else self._measure()[1]

    def blocks(self, rows: int = 8192, columns: str | Iterable[str] | None = None,
               limit: int | None = None, dtype: str | None = None) -> Iterator[Block]:
        """The head's rows in their order, block by block; the last block has fewer.

        rows     of a block; fewer where it would pass 1 GiB
        columns  which to read, such as "vectors position"; None: all. The others are not touched
        limit    stop after so many rows; None: all
        dtype    of the vectors: "float32" or "float64"; None: as the capture holds them

        Nothing is copied: a block has the memory that the library has read it into. Arrays stay valid for as long as
        somebody holds them, also behind the next block and the end. Needs NumPy. Several threads may read at once, each
        with blocks() of its own.

            for block in qkscope.open("my-capture").head(0, 1, "k").blocks(columns="vectors position"):
                total += block.vectors.sum(0)

        Raises DataError for a file that is damaged, whose columns are of other types, or that has other rows than
        capture.json lists; NotFoundError for one that is gone, and where the capture keeps moments alone.
        """
        if rows < 1:
            raise ArgumentError(f"rows is {rows}; wanted is a number above 0")
        need_numpy()
        return self._read(self._open(_flags(columns), limit), rows, _dtype(dtype))

    def _read(self, rows: Any, count: int, dtype: str | None) -> Iterator[Block]:
        block = ffi.new("qk_block *")
        while True:
            call(lib.qk_rows_next, rows, count, block)
            if block.rows == 0:
                return
            made = _take(rows, block)
            if dtype is not None and made.vectors is not None:
                made.vectors = made.vectors.astype(dtype, copy=False)
            yield made

    def read(self, columns: str | Iterable[str] | None = None, limit: int | None = None,
             dtype: str | None = None) -> Block:
        """All rows at once, as `blocks` reads them. More than 1 GiB of vectors are copied together.

            keys = qkscope.open("my-capture").head(0, 1, "k").read()
            numpy.corrcoef(keys.position, keys.vectors[:, 0])
        """
        numpy, flags, dtype = need_numpy(), _flags(columns), _dtype(dtype)
        rows = self._open(flags, limit)
        parts = list(self._read(rows, max(lib.qk_rows_total(rows), 1), dtype))
        if not parts:
            empty = {name: numpy.empty(0, "int64") for name, flag in COLUMNS.items() if flags & flag}
            if "vectors" in empty:
                empty["vectors"] = numpy.empty((0, lib.qk_rows_dim(rows)), dtype or "float32")
            return Block(**empty)
        if len(parts) == 1:
            return parts[0]
        return Block(**{name: numpy.concatenate([getattr(part, name) for part in parts])
                        for name in parts[0]._arrays()})


# ---- where it is ---------------------------------------------------------------------------

def find(capture: bytes, split: str | None, revision: str | None, offline: bool, progress: Progress,
         part: int = lib.QK_HUB_CAPTURE) -> bytes:
    """A folder; of a dataset, or a model, on the Hub what is not in the cache is fetched."""
    wanted, place = ffi.new("qk_hub_wanted *"), ffi.new("qk_hub_place *")
    keep = [ffi.new("char[]", capture)]
    wanted.name = keep[0]
    for name, value in (("prefix", split), ("revision", revision)):
        if value is not None:
            keep.append(ffi.new("char[]", words(value, name).encode()))
            setattr(wanted, name, keep[-1])
    wanted.part, wanted.hides_progress = part, progress is False
    wanted.context.offline = bool(offline)
    run(lib.qk_hub_get, wanted, place, context=wanted.context, keep=(wanted, place, keep), progress=progress)
    try:
        return bytes(ffi.string(place.path))
    finally:
        lib.free(place.path)


# ---- a capture -----------------------------------------------------------------------------

@dataclass(frozen=True)
class CaptureInfo:
    """What capture.json says: "", 0, None or False where it is silent or there is none."""

    model: str
    q_per_kv_group: int
    num_layers: int  # of the model
    complete: bool  # False only where it says that the capture was not finished
    has_manifest: bool  # there is a capture.json
    num_texts: int
    num_windows: int  # that long texts were split into
    stage: str | None  # of RoPE: "pre" or "post"
    rope_interleaved: bool  # dimensions 2j and 2j + 1 turn together
    attention_scale: float  # of the model, on q.k before the softmax; 0: not told
    kept: str  # which rows: "all", "none" or "reservoir"
    reservoir: int  # rows of a bucket and text in it, at most
    has_moments: bool
    groups: int  # of texts that moments are apart by, at most
    first: int  # rows of positions below it have moments of their own; 0: none
    has_attention: bool  # there are sums of attention


class Capture:
    """A capture on disk. `qkscope.open` makes it.

    path      the folder that holds the heads
    prefix    of it below the folder that was given; "" where it is that
    heads     a Head each, by layer, head, and q before k
    info      what capture.json says
    """

    def __init__(self, capture: str | os.PathLike[str], split: str | None = None, revision: str | None = None,
                 offline: bool = False, progress: Progress = None) -> None:
        made = ffi.new("qk_capture **")
        folder = find(path_of(capture, "capture"), split, revision, offline, progress)
        call(lib.qk_capture_open, made, folder, ffi.NULL if split is None else path_of(split, "split"))
        self._capture = ffi.gc(made[0], lambda one: lib.qk_capture_close(ffi.new("qk_capture **", one)))
        self.path = os.fsdecode(ffi.string(lib.qk_capture_path(self._capture)))
        self.prefix = os.fsdecode(ffi.string(lib.qk_capture_prefix(self._capture)))
        self.info = self._info()
        self.heads = tuple(Head(self, lib.qk_capture_head(self._capture, i))
                           for i in range(lib.qk_capture_num_heads(self._capture)))
        self._by_id = {(head.layer, head.head, head.kind): head for head in self.heads}

    def _info(self) -> CaptureInfo:
        told = lib.qk_capture_get_info(self._capture)
        same = {name: getattr(told, name) for name in
                ("q_per_kv_group", "complete", "has_manifest", "num_texts", "num_windows", "rope_interleaved",
                 "attention_scale",                 "reservoir", "has_moments", "groups", "first", "has_attention")}
        return CaptureInfo(**same, model=text(told.model), stage=_STAGES[told.stage], kept=KEPT[told.kept],
                           num_layers=lib.qk_capture_num_layers(self._capture))

    def __repr__(self) -> str:
        return f"<Capture {self.path}: {len(self.heads)} heads>"

    def __fspath__(self) -> str:
        return self.path

    def __enter__(self) -> Capture:
        """For `with`, which is not needed: no file stays open between calls."""
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def head(self, layer: int, head: int, kind: str) -> Head:
        """One of the heads; kind is "q" or "k". NotFoundError: the capture does not have it."""
        kind_of(kind)
        layer, head = whole(layer, "layer"), whole(head, "head")
        found = self._by_id.get((layer, head, kind))
        if found is None:
            raise NotFoundError(f"{self.path}: there is no head {layer} {head} {kind!r} (layer, head, kind); "
                                f"{self._say_heads(layer, kind)}")
        return found

    def _say_heads(self, layer: int, kind: str) -> str:
        beside = [str(one.head) for one in self.heads if (one.layer, one.kind) == (layer, kind)]
        if beside:
            return f"those of this layer and kind are {', '.join(beside)}"
        layers = dict.fromkeys(str(one.layer) for one in self.heads if one.kind == kind)
        return f"layers with heads of this kind are {', '.join(layers) or 'none'}"

    @property
    def group_size(self) -> int:
        """Query heads per key head: of capture.json, else the smallest number that the heads present allow.
        DataError: none does; NotFoundError: there are no heads of one kind."""
        group = ffi.new("qk_group *")
        call(lib.qk_capture_group, self._capture, 0, group)
        return int(group.size)

    def rope_frequencies(self, layer: int) -> tuple[float, ...]:
        """Of the layer's rotation, radians per token, one a plane; empty where capture.json has none."""
        count = ffi.new("size_t *")
        values = lib.qk_capture_rope_frequencies(self._capture, layer, count)
        return tuple(ffi.unpack(values, count[0])) if count[0] else ()


def open(capture: str | os.PathLike[str], *, split: str | None = None, revision: str | None = None,
         offline: bool = False, progress: Progress = None) -> Capture:
    """Opens a capture to read its rows.

    capture   a folder as the commands take it: with folders l00h00q ... of heads, or l00q ... of packed ones, in it or
              below it; one such folder; or "org/name" of a dataset on the Hugging Face Hub, of which what is not in
              the cache is fetched
    split     sub-folder, when there are several captures
    revision  branch, tag or commit of a dataset on the Hub; None: main
    offline   fetch nothing: take what is in the cache, as with HF_HUB_OFFLINE=1
    progress  of fetching, as in qkscope.analyze

        capture = qkscope.open("examples/kjv-tiny-capture")
        for head in capture.heads:
            print(head.name, head.rows, head.dim)

    Raises NotFoundError (a FileNotFoundError) where there is no such folder or no head in it, and where the Hub has no
    such dataset or may not be asked; InputOutputError where it does not answer; DataError for a capture.json that cannot be read, and where there are several captures (the text names them). A capture whose
    files are gone or damaged can be opened: reading those heads fails.
    """
    return Capture(capture, split, revision, offline, progress)
