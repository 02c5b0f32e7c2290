# SPDX-License-Identifier: Apache-2.0
"""The sink: makes a capture of vectors that are put into it, text by text, whoever runs the model."""
from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from . import _arrays
from ._call import ArgumentError, call, ffi, lib
from ._checks import path_of, reals, refuse, whole, wholes, words
from ._notices import Notices
from .merging import Outcome, shard_of
from .sampler import Sampler, kind_of, list_of_positions

STAGES = {"post": "QK_ROPE_AFTER", "pre": "QK_ROPE_BEFORE", "both": "QK_ROPE_BOTH"}
LAYOUTS = {"heads": "QK_LAYOUT_HEADS", "packed": "QK_LAYOUT_PACKED"}
TYPES = {"float32": lib.QK_FLOAT32, "float16": lib.QK_FLOAT16, "bfloat16": lib.QK_BFLOAT16}


@dataclass
class Model:
    """The model whose vectors come: its name and shape.

    q_heads, k_heads      which heads are captured, [num_layers][heads] of bool; None: all
    windows               sliding window of each layer in tokens, 0 = none; None: no windows
    frequencies           of RoPE, a list for each layer, radians per token; None: not known
    rope_interleaved      dimensions 2j and 2j + 1 turn together, not j and j + pairs
    """

    name: str
    num_layers: int
    num_q_heads: int
    num_k_heads: int
    head_dim: int
    q_heads: Sequence[Sequence[bool]] | None = None
    k_heads: Sequence[Sequence[bool]] | None = None
    windows: Sequence[int] | None = None
    frequencies: Sequence[Sequence[float] | None] | None = None
    rope_interleaved: bool = False


class _Calls:
    """Calls that are under way: a sink is closed when the last of them is back."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.count = 0

    def __enter__(self) -> None:
        with self.condition:
            self.count += 1

    def __exit__(self, *_: object) -> None:
        with self.condition:
            self.count -= 1
            self.condition.notify_all()


class Sink:
    """Makes a capture of vectors that are put into it, from any thread: the bytes are the same. Texts of a block begin in the
    order of `wanted`; blocks, and vectors of texts that are open, come in any.

        model = qkscope.Model("mine", num_layers=2, num_q_heads=4, num_k_heads=2, head_dim=64)
        with qkscope.Sink("capture", model=model, texts=10, keep="moments,reservoir=8") as sink:
            for i in sink.wanted():  # those that were run before are left out
                with sink.text(i, tokens=1000):
                    for layer in range(2):
                        sink.put(i, layer, "q", queries[layer])  # [heads, rows, head_dim]
                        sink.put(i, layer, "k", keys[layer])

    output          folder of the capture
    keep            "rows", "moments", "rows,moments", "moments,reservoir=N" or "moments,first=K"; docs/formats.md#moments. Each with
                    ",attention": also sums over rows of attention, which come by `put_attention`
    groups          of texts, whose moments are apart, for intervals: 2 to 64; 0 = none
    layout          "heads" (a file a head) or "packed" (a file a layer and kind)
    sampler         which positions are kept, a Sampler; None: all
    stage           of RoPE: "post", "pre", or "both" for two captures, output/post and output/pre
    reservoir_seed  of the choice of the reservoir's rows
    shard           (i, n) or "i/n": this process is i, from 0, of n that make one capture; None: it is alone
    force           replace a capture or an unfinished run that is there; it stays until the new one is complete
    threads         for putting files together at the end; None or 0: all processors
    model, texts    with both the sink is open at once, else by `open`; texts: number of sequences of all shards
    tokens          in all texts; 0: not known, and a block may be as short as a text
    text_ids        of each sequence, which text it is a window of, or equal to (whole numbers): groups of texts are by these,
                    and of each block fewer sums are kept. None: not known, and the example_id of each is taken
    run             what else decides the bytes, such as names of the texts: a dict that JSON can hold. A run goes on
                    only where it and the settings above are the same. It is "run" in capture.json.
    extra           dict of further keys for capture.json
    source, card    what made it; further lines for the card
    token_strings   a function that gives the string of a token: a column token_str, of `ids` of texts. It is called by
                    `finish`, from other threads; what it raises, that raises, and the capture is not complete
    on_notice       called with ("info" | "warning" | "error", text); None: warnings and the log "qkscope"

    At the end of the `with` the capture is put together; after an exception it is not, but blocks of texts that are
    finished stay: the same call goes on behind them, also after the process was killed. While it runs, everything
    lies in output/.partial, where no reader of captures looks. A sink belongs to the process that opened it.
    """

    def __init__(self, output: str | os.PathLike[str], *, keep: str = "rows", groups: int = 16, layout: str = "heads",
                 sampler: Sampler | None = None, stage: str = "post", reservoir_seed: int = 0,
                 shard: tuple[int, int] | str | None = None, force: bool = False, threads: int | None = None,
                 model: Model | None = None, texts: int | None = None, tokens: int = 0, text_ids: Any = None,
                 run: Mapping[str, Any] | None = None, extra: Mapping[str, Any] | None = None,
                 source: str | None = None, card: str | None = None,
                 token_strings: Callable[[int], str] | None = None,
                 on_notice: Callable[[str, str], Any] | None = None) -> None:
        self._sink: Any = ffi.NULL
        self._handle: Any = None
        self._calls = _Calls()
        self._process = os.getpid()
        self._ids: dict[int, object] = {}
        self._left: str | None = None
        self._notices = Notices(on_notice)
        self.output = os.fspath(output)
        self.model: Model | None = None
        self.outcome: Outcome | None = None
        self._token_strings = token_strings
        self._settings = s = ffi.new("qk_sink_settings *")
        self._kept: list[Any] = []  # what the settings point to
        lib.qk_sink_settings_default(s)
        call(lib.qk_keep_parse, self._text(words(keep, "keep")), ffi.addressof(s.keep))
        s.keep.groups = whole(groups, "groups", 0, 2**31 - 1)
        s.output, s.force = self._text(path_of(output, "output")), force
        s.context.threads = whole(threads or 0, "threads", 0, 4096)
        s.layout, s.stage = choice(LAYOUTS, layout, "layout"), choice(STAGES, stage, "stage")
        if not isinstance(sampler, Sampler | None):
            raise refuse("sampler", f"{sampler!r:.60}", "a qkscope.Sampler", "Sampler('uniform', base_rate=8)")
        s.sampler = (sampler or Sampler())._struct()[0]
        s.reservoir_seed = whole(reservoir_seed, "reservoir_seed", 0, 2**64 - 1)
        s.shard = shard_of(shard)
        self._notices.listen(s.context)
        s.user = self._notices.handle  # of token_string
        self._describe(run, extra, source, card)
        if model is not None and texts is not None:
            self.open(model, texts, tokens, text_ids=text_ids)

    def _text(self, value: str | bytes) -> Any:
        made = ffi.new("char[]", value.encode() if isinstance(value, str) else value)
        self._kept.append(made)
        return made

    def _describe(self, run: Mapping[str, Any] | None, extra: Mapping[str, Any] | None, source: str | None,
                  card: str | None) -> None:
        s = self._settings
        if run is not None:
            s.run = self._text(as_json(run, "run"))
        if extra is not None:
            s.extra_json = self._text(as_json(extra, "extra"))
        if source is not None:
            s.source = self._text(words(source, "source"))
        if card is not None:
            s.card = self._text(words(card, "card"))

    def _table(self, name: str, ctype: str, table: Sequence[Sequence[Any]] | None, heads: int) -> None:
        if table is None:
            return
        rows = [list(row) for row in table]
        layers = self._settings.num_layers
        if len(rows) != layers or any(len(row) != heads for row in rows):
            raise ArgumentError(f"{name} is {len(rows)} lists of {sorted({len(row) for row in rows})}; wanted is "
                                f"[num_layers={layers}][{heads}] of bool")
        made = ffi.new(ctype, [bool(item) for row in rows for item in row])
        self._kept.append(made)
        setattr(self._settings, name, made)

    def _set_model(self, model: Model) -> None:
        if not isinstance(model, Model):
            raise refuse("model", f"a {type(model).__name__}", "a qkscope.Model", "Model(name, num_layers, ...)")
        s = self._settings
        s.model_name = self._text(words(model.name, "model.name"))
        for name in ("num_layers", "num_q_heads", "num_k_heads", "head_dim"):
            setattr(s, name, whole(getattr(model, name), f"model.{name}", 1, 65536))
        s.rope_interleaved = model.rope_interleaved
        self._table("q_heads", "bool[]", model.q_heads, model.num_q_heads)
        self._table("k_heads", "bool[]", model.k_heads, model.num_k_heads)
        for name, given in (("windows", model.windows), ("frequencies", model.frequencies)):
            if given is not None and len(given) != model.num_layers:
                raise ArgumentError(f"{name} has {len(given)} layers, the model {model.num_layers}")
        if model.windows is not None:
            s.windows = windows = ffi.new("int64_t[]", wholes(model.windows, "model.windows", most=2**62))
            self._kept.append(windows)
        if model.frequencies is not None:
            lists = [ffi.new("double[]", reals(() if layer is None else layer, f"model.frequencies[{i}]"))
                     for i, layer in enumerate(model.frequencies)]
            table = ffi.new("qk_frequencies[]", [{"values": v, "count": len(v)} for v in lists])
            s.frequencies = table
            self._kept += [*lists, table]

    # ---- opening ---------------------------------------------------------------------------

    def open(self, model: Model, texts: int, tokens: int = 0, *, text_ids: Any = None, run: Mapping[str, Any] | None = None,
             extra: Mapping[str, Any] | None = None, card: str | None = None, source: str | None = None) -> None:
        """Begins the capture, or goes on with one. ExistsError: there is something else in the output folder, or
        another process writes there; ArgumentError: a setting, named."""
        self._mine()
        if self._sink != ffi.NULL or self.outcome is not None:
            raise ArgumentError(f"the sink {self.output} is open already: one sink, one capture")
        self._set_model(model)
        self._describe(run, extra, source, card)
        self._settings.num_texts = whole(texts, "texts", 0)
        self._settings.num_tokens = whole(tokens, "tokens", 0)
        if text_ids is not None:
            _, found, count = _arrays.int64s(text_ids, "text_ids")
            if count != texts:
                raise ArgumentError(f"{texts} texts, and {count} text_ids")
            self._settings.text_ids = ids = ffi.new("int64_t[]", max(count, 1))
            ffi.memmove(ids, found, count * ffi.sizeof("int64_t"))
            self._kept.append(ids)
        if self._token_strings is not None:
            self._settings.token_strings = True
            self._settings.token_string = lib.qkpy_token_string
            self._notices.strings = _strings(self._token_strings)
        made = ffi.new("qk_sink **")
        try:
            call(lib.qk_sink_open, made, self._settings)
        finally:
            self._notices.tell()
        self._sink, self._handle, self.model = made[0], made, model

    @property
    def is_open(self) -> bool:
        """Whether it takes texts: after `open`, until it is finished or closed."""
        return bool(self._sink != ffi.NULL)

    @property
    def complete(self) -> bool:
        """Whether the capture was there when the sink was opened: then no text is wanted."""
        return bool(lib.qk_sink_is_complete(self._open()))

    def block(self, number: int) -> int:
        """The number of a text's block: of the texts that are finished and kept at once."""
        found = int(lib.qk_sink_block(self._open(), whole(number, "number", 0)))
        if found < 0:
            raise ArgumentError(f"text {number}: the sink {self.output} has {self._settings.num_texts} texts")
        return found

    def texts_before(self) -> tuple[int, int]:
        """Texts that were finished when the sink was opened, by this shard or others, and tokens of them."""
        tokens = ffi.new("int64_t *")
        return lib.qk_sink_texts_before(self._open(), tokens), tokens[0]

    def _mine(self) -> None:
        if os.getpid() != self._process:
            raise ArgumentError(f"the sink {self.output} was opened by process {self._process}, and this is "
                                f"{os.getpid()}, forked from it: both would write the same files. Open a sink in each "
                                "process, with a shard")

    def _open(self) -> Any:
        self._mine()
        if self._sink == ffi.NULL:
            raise ArgumentError(f"the sink {self.output} is not open: " + (
                "it was finished or closed; make a new one, which goes on where it left off"
                if self._handle is not None else "call open(model, texts), or give model and texts to Sink"))
        return self._sink

    def _call(self, function: Any, *arguments: Any) -> None:
        with self._calls:
            try:
                call(function, self._open(), *arguments)
            finally:
                if self._notices.notices:
                    self._notices.tell()

    # ---- a text ----------------------------------------------------------------------------

    def wanted(self) -> Iterator[int]:
        """The numbers of the texts that this process is to run, in the order in which they begin."""
        number = -1
        while True:
            with self._calls:
                number = int(lib.qk_sink_next(self._open(), number))
            if number < 0:
                return
            yield number

    def wants(self, number: int) -> bool:
        """Whether this process is to run a text: it is of its shard, and not finished."""
        with self._calls:
            return bool(lib.qk_sink_wants(self._open(), whole(number, "number")))

    def begin(self, number: int, tokens: int, *, example_id: int | None = None, ids: Any = None, source: str = "",
              source_id: str = "", truncated: bool = False, window: int = 0, first_token: int = 0) -> None:
        """A text that is about to be run, behind those of its block that `wanted` gives before it. Its positions are 0 .. tokens - 1.

        example_id: of its rows, a whole number (qkscope.example_id makes one of a text); None: its number.
        ids: its tokens, for token_strings. source, source_id: in examples.csv, where it comes from and what it is
        called there. window, first_token: of a text that was split, which part it is and where that begins."""
        told = ffi.new("qk_sink_text *")
        keep = [ffi.new("char[]", words(value, name).encode("utf-8", "replace"))
                for name, value in (("source", source), ("source_id", source_id))]
        told.number, told.tokens = whole(number, "number", 0), whole(tokens, "tokens", 0)
        told.example_id = told.number if example_id is None else whole(example_id, "example_id")
        told.source, told.source_id = keep
        told.truncated = truncated
        told.window, told.first_token = whole(window, "window", 0), whole(first_token, "first_token", 0)
        if ids is not None and self._token_strings is not None:
            _, found, count = _arrays.int64s(ids, "ids")
            if count != tokens:
                raise ArgumentError(f"text {number} has {tokens} tokens, and {count} ids")
            told.ids = self._ids[number] = ffi.new("int32_t[]", ffi.unpack(found, count))
        self._call(lib.qk_sink_begin, told)

    def positions(self, number: int, layer: int, kind: str) -> memoryview:
        """Positions of a begun text that are kept, ascending: a memoryview of int64, which numpy.asarray takes, and
        torch.frombuffer where it is not empty. Empty also where the layer has no head of that kind to capture."""
        found, count = ffi.new("int64_t **"), ffi.new("size_t *")
        self._call(lib.qk_sink_positions, *_place(number, layer), kind_of(kind), found, count)
        return list_of_positions(found[0], count[0])

    def put(self, number: int, layer: int, kind: str, vectors: Any, *, positions: Any = None, first_position: int = 0,
            heads: Iterable[int] | None = None, before_rope: bool = False) -> None:
        """Takes vectors of one text, layer and kind ("q" or "k"): some heads at some positions.

        vectors     [heads, rows, head_dim] of float32, float16 or bfloat16: a NumPy array, a torch tensor of the CPU,
                    anything with DLPack or the buffer protocol. Any strides whose last dimension is dense; nothing
                    is copied.
        positions   ascending, one a row; None: first_position, first_position + 1, ... Those that are not kept are
                    passed over.
        heads       one each; None: 0, 1, ... Those that are not captured are passed over.

        Every row that is kept has to come exactly once. ArgumentError: an array that does not fit, a text that is
        not begun, a vector that came before; DataError: a number that is not finite. What the sink has refused for
        its own reasons it does not forget: then it can only be closed."""
        kind_number = kind_of(kind)
        self._open()
        v = _arrays.vectors(vectors, f"vectors (text {number}, layer {layer}, {kind})", "heads rows head_dim",
                            (None, None, self._settings.head_dim), tuple(TYPES))
        rows = ffi.new("qk_sink_rows *")
        (rows.text, rows.layer), rows.kind, rows.before_rope = _place(number, layer), kind_number, before_rope
        rows.num_heads, rows.rows = v.shape[:2]
        rows.first_position = whole(first_position, "first_position", 0)
        rows.type, rows.data = TYPES[v.dtype], _arrays.pointer(v, "void *")
        rows.head_stride, rows.row_stride = _strides(v)
        keep: list[Any] = [v]
        if positions is not None:
            owner, rows.positions, count = _arrays.int64s(positions, "positions")
            keep.append(owner)
            if count != v.shape[1]:
                raise refuse("vectors", f"of shape {list(v.shape)} with {count} positions",
                                     f"[heads, rows={count}, head_dim]", "give one position a row")
        if heads is not None:
            rows.heads = listed = ffi.new("int[]", wholes(heads, "heads"))
            keep.append(listed)
            if len(listed) != v.shape[0]:
                raise refuse("vectors", f"of shape {list(v.shape)} with {len(listed)} heads",
                                     f"[heads={len(listed)}, rows, head_dim]", "name each head of the array")
        self._call(lib.qk_sink_put, rows)

    def stored_positions(self, number: int, layer: int, kind: str) -> memoryview:
        """As `positions`, those whose rows are stored: all, those of the reservoir, or none. After `put_sums` their
        vectors are what is still to be put."""
        found, count = ffi.new("int64_t **"), ffi.new("size_t *")
        self._call(lib.qk_sink_stored_positions, *_place(number, layer), kind_of(kind), found, count)
        return list_of_positions(found[0], count[0])

    def put_sums(self, number: int, layer: int, kind: str, *, rows: int, sum_x: Any, sum_xt: Any, sum_xx: Any,
                 bucket_sum_x: Any = None, bucket_sum_xt: Any = None, bucket_sum_xx: Any = None, origin: Any = None,
                 origin_t: float = 0.0, sum_abs: Any = None, heads: Iterable[int] | None = None,
                 before_rope: bool = False) -> None:
        """Takes, with keep="moments" or "moments,reservoir=N", sums over the rows of one text, layer and kind in place
        of the rows: made where they are, such as on a GPU. They are over the rows at all positions of `positions`.

        With x the vectors less `origin` ([heads, head_dim]; None: 0) and t the positions less `origin_t`, float64:

        rows            how many: as many as there are positions
        sum_x, sum_xt   [heads, head_dim]: sums of x and of x t
        sum_xx          [heads, head_dim, head_dim]: sums of x_i x_j, of which i <= j are read
        bucket_sum_x, bucket_sum_xt, bucket_sum_xx
                        of queries: [heads, buckets, head_dim], sums of x, x t and x^2 by bucket; buckets are those of
                        Sampler.buckets(positions) that occur, ascending
        sum_abs         of queries before RoPE: [heads, pairs], sums of the lengths of the pairs of dimensions that it turns,
                        of the vectors themselves, not less the origin; None: the moments do not have it

        Without an origin digits are lost where means are far larger than spreads: a vector and a position near the
        middle are good ones. All captured heads have to come, once, in one call or several; then, with a reservoir,
        by `put` the rows at `stored_positions`. A text's layer and kind comes by sums or by rows, not both. In torch,
        of x [heads, rows, head_dim] (float64), t [rows] and b [rows] (which of `buckets` buckets):

            zeros = x.new_zeros(len(x), buckets, x.shape[2])
            dict(rows=x.shape[1], sum_x=x.sum(1), sum_xt=t @ x, sum_xx=x.mT @ x,
                 bucket_sum_x=zeros.index_add(1, b, x), bucket_sum_xt=zeros.index_add(1, b, x * t[:, None]),
                 bucket_sum_xx=zeros.index_add(1, b, x * x))
        """
        kind_number, dim = kind_of(kind), self._settings.head_dim
        self._open()
        told = ffi.new("qk_sink_sums *")
        listed = None if heads is None else ffi.new("int[]", wholes(heads, "heads"))
        count = None if listed is None else len(listed)
        (told.text, told.layer), told.kind, told.before_rope = _place(number, layer), kind_number, before_rope
        told.rows, told.origin_t = whole(rows, "rows", 0), origin_t
        keep: list[Any] = []

        def take(name: str, value: Any, dims: str, shape: tuple[int | None, ...]) -> tuple[int, ...]:
            v = _arrays.dense(value, f"{name} (text {number}, layer {layer}, {kind})", dims, shape, "float64")
            keep.append(v)
            setattr(told, name, _arrays.pointer(v, "double *"))
            return v.shape

        count = take("sum_x", sum_x, "heads head_dim", (count, dim))[0]
        take("sum_xt", sum_xt, "heads head_dim", (count, dim))
        take("sum_xx", sum_xx, "heads head_dim head_dim", (count, dim, dim))
        if origin is not None:
            take("origin", origin, "heads head_dim", (count, dim))
        if kind == "q":
            buckets: int | None = None
            for name, value in (("bucket_sum_x", bucket_sum_x), ("bucket_sum_xt", bucket_sum_xt),
                                ("bucket_sum_xx", bucket_sum_xx)):
                if value is None:
                    raise refuse(name, "not given", "an array [heads, buckets, head_dim]",
                                         "sums of queries come by bucket, too")
                buckets = take(name, value, "heads buckets head_dim", (count, buckets, dim))[1]
            told.num_buckets = buckets
        if sum_abs is not None:
            told.num_pairs = take("sum_abs", sum_abs, "heads pairs", (count, None))[1]
        told.num_heads = count
        if listed is not None:
            told.heads = listed
        self._call(lib.qk_sink_put_sums, told)

    def put_attention(self, number: int, layer: int, sums: Any, *, rows: Sequence[int],
                      heads: Iterable[int] | None = None) -> None:
        """Takes, with keep="rows,attention" or "moments,attention", sums over rows of the attention of one text and layer
        (docs/behaviour.md#attention): of all captured query heads, once.

        sums   [heads, row buckets, QK_ATTENTION_SUMS] of float64; rows of positions 0, 1, 2-3, 4-7, ... are a bucket
        rows   how many are summed in each bucket
        heads  as in `put`"""
        self._open()
        told = ffi.new("qk_sink_attention *")
        told.text, told.layer = _place(number, layer)
        counts = ffi.new("int64_t[]", wholes(rows, "rows", 0))
        listed = None if heads is None else ffi.new("int[]", wholes(heads, "heads"))
        v = _arrays.dense(sums, f"sums (text {number}, layer {layer})", "heads buckets sums",
                          (None if listed is None else len(listed), len(counts), int(lib.QK_ATTENTION_SUMS)), "float64")
        told.num_heads, told.num_buckets = v.shape[:2]
        told.bucket_rows, told.sums = counts, _arrays.pointer(v, "double *")
        if listed is not None:
            told.heads = listed
        self._call(lib.qk_sink_put_attention, told)

    def text_done(self, number: int) -> None:
        """All rows of a text were put. DataError: some that are kept were not."""
        self._call(lib.qk_sink_text_done, whole(number, "number"))
        self._ids.pop(number, None)

    @contextmanager
    def text(self, number: int, tokens: int, **about: Any) -> Iterator[None]:
        """`begin` before, `text_done` after. After an exception the text counts as not run, and the sink cannot
        finish: the same call, made again, runs it."""
        self.begin(number, tokens, **about)
        try:
            yield
        except BaseException as error:
            self._left = f"text {number} was left by {type(error).__name__}: {error}"
            raise
        self.text_done(number)

    # ---- the end ---------------------------------------------------------------------------

    def _take(self) -> Any:
        """The handle, when no call is under way; nobody has it afterwards."""
        with self._calls.condition:
            self._calls.condition.wait_for(lambda: self._calls.count == 0)
            self._sink = ffi.NULL
            return self._handle

    def finish(self) -> Outcome:
        """Puts the capture together where all its blocks are there, and closes the sink in any case. DataError: texts
        of this shard are missing, or no position was kept; the same sink, opened again, goes on, also after Ctrl-C."""
        self._open()
        if self._left is not None:
            self.close()
            raise ArgumentError(f"the capture {self.output} is not complete: {self._left}. What was finished before "
                                "stays: make the sink again and run what it wants")
        made = ffi.new("qk_sink_outcome *")
        try:
            self._notices.wait(lib.qk_sink_finish, self._take(), made, keep=self)
        finally:
            self._ids.clear()
        self.outcome = Outcome.of(made)
        return self.outcome

    def close(self) -> None:
        """Leaves off: blocks that are finished stay, and the same sink, made again, goes on with them."""
        if self._sink != ffi.NULL and os.getpid() == self._process:
            lib.qk_sink_close(self._take())
            self._ids.clear()

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        if kind is not None:
            self.close()
        elif self._sink != ffi.NULL:
            self.finish()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"the sink {self.output} cannot be copied or pickled: both would write the same files. Open one "
                        "in each process, with a shard")

    def __del__(self) -> None:
        if getattr(self, "_sink", ffi.NULL) != ffi.NULL:
            self.close()


def choice(choices: Mapping[str, str], given: str, name: str) -> int:
    """The number of a word."""
    if given not in choices:
        raise ArgumentError(f"{name} is {given!r}; wanted is one of {', '.join(choices)}")
    return int(getattr(lib, choices[given]))


def as_json(value: Mapping[str, Any], name: str) -> str:
    """A dict as a text that the library reads."""
    if not isinstance(value, Mapping):
        raise refuse(name, f"a {type(value).__name__}", "a dict", "{'key': x}")
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise refuse(name, f"not JSON ({error})", "a dict of texts, numbers, lists and dicts", "str(x) of what is "
                     "none of these") from None


def _place(number: int, layer: int) -> tuple[int, int]:
    return whole(number, "number"), whole(layer, "layer", 0, 2**31 - 1)


def _strides(v: _arrays.View) -> tuple[int, int]:
    """Of heads and rows. Both 0 would mean dense to the library."""
    heads, rows, dim = v.shape
    head, row = (v.strides[0] if heads > 1 else rows * dim), (v.strides[1] if rows > 1 else dim)
    if head == 0 and row == 0:
        raise refuse("vectors", f"one vector repeated (strides {list(v.strides)})", "an array of vectors",
                             "numpy.ascontiguousarray(x)")
    return head, row


def _strings(function: Callable[[int], str]) -> Callable[[int], Any]:
    known: dict[int, Any] = {}  # a string lasts as long as the sink

    def string(token: int) -> Any:
        if token not in known:
            text = str(function(token)).replace("\0", "\N{REPLACEMENT CHARACTER}")  # C would end it there
            known[token] = ffi.new("char[]", text.encode("utf-8", "replace"))
        return known[token]

    return string
