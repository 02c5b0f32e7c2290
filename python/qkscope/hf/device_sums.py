# SPDX-License-Identifier: Apache-2.0
"""Sums of rows, made on the device where the rows are, for keep="moments": a matrix a head leaves it, not the rows.

Every number is summed in float64, in an order that depends on the texts alone: the same bytes on one kind of device.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .transfer import Batch, DeviceRows, Row, Workers

AT_ONCE = 1 << 23  # numbers of float64 that are worked on together: 64 MiB


def sums_on(device: Any) -> bool:
    """Whether a device counts in float64."""
    import torch
    try:
        torch.zeros(1, dtype=torch.float64, device=device)
        return True
    except (TypeError, RuntimeError):
        return False


@dataclass
class Part:
    """Rows of one text, layer and kind that are in one batch."""

    row: Row
    b: int  # place in the batch
    kept: Any  # positions, ascending
    buckets: list[int]  # of queries: where the buckets that are in here stand among all of the text
    lengths: list[int]  # rows of each
    num_buckets: int  # of the text
    stored: Any  # which of `kept` are stored as rows, too
    last: bool  # no later batch has rows of this text
    rows: int  # of the text
    middle: float  # position that is counted from
    on_device: dict[Any, tuple[Any, ...]] = field(default_factory=dict)


@dataclass
class Total:
    """What came of one text, layer and kind so far, on the processor."""

    sums: dict[str, Any] = field(default_factory=dict)
    stored: list[tuple[Any, Any]] = field(default_factory=list)  # positions, [rows, heads, d]


def sums_of(x: Any, t: Any, lengths: Any) -> list[Any]:
    """Of x [rows, heads, d] and t [rows], both float64: sums of x, x t [heads, d] and x x^T [heads, d, d], and with
    lengths of buckets of x, x t, x^2 [heads, buckets, d]."""
    import torch
    heads = x.permute(1, 0, 2)
    xt, gram = x * t[:, None, None], heads.mT @ heads
    if lengths is None:
        return [x.sum(0), xt.sum(0), gram]
    by_bucket = [torch.segment_reduce(v, "sum", lengths=lengths, axis=0, unsafe=True).transpose(0, 1)
                 for v in (x, xt, x * x)]
    return [by_bucket[0].sum(1), by_bucket[1].sum(1), gram, *by_bucket]


def lengths_of(x: Any, pairs: int, interleaved: bool) -> Any:
    """Of x [rows, heads, d] sums of the lengths of the pairs of dimensions that turn: [heads, pairs]."""
    import torch
    step, apart = (2, 1) if interleaved else (1, pairs)
    ends = step * (pairs - 1) + 1
    return torch.hypot(x[..., :ends:step], x[..., apart:apart + ends:step]).sum(0)


NAMES = ("sum_x", "sum_xt", "sum_xx", "bucket_sum_x", "bucket_sum_xt", "bucket_sum_xx", "sum_abs")


class DeviceSums(DeviceRows):
    """Of a model on a device, into a sink that keeps moments, and no rows or a reservoir of them. What a text has fewer
    rows of than a vector has dimensions goes as rows, which are less then."""

    def __init__(self, sink: Any, workers: Workers, heads: dict[tuple[int, str], list[int]], sampler: Any,
                 model: Any, stores: bool) -> None:
        super().__init__(sink, workers, heads)
        self.sampler, self.model, self.dim, self.stores = sampler, model, model.head_dim, stores
        self.all = sampler.type == "all" and sampler.max_rows == 0
        self.every: Any = ()  # positions from 0 on, and their buckets
        self.buckets: Any = ()
        self.parts: dict[tuple[int, str], list[Part]] = {}
        self.origins: dict[tuple[int, int, str, bool], Any] = {}
        self.totals: dict[tuple[int, int, str, bool], Total] = {}

    def prepare(self, batch: Batch) -> None:
        if batch.start > 0:
            self.workers.drain()  # parts of a text are added up in their order
        else:
            self.origins.clear()
        self.parts.clear()
        super().prepare(batch)

    def positions(self, row: Row, layer: int, kind: str) -> Any:
        if not self.all:
            return super().positions(row, layer, kind)
        self._table(row.length)
        return self.every[:row.length]

    def _table(self, tokens: int) -> Any:
        """Buckets of the positions from 0 on."""
        import numpy
        if len(self.every) < tokens:
            self.every = numpy.arange(tokens)
            self.buckets = numpy.asarray(self.sampler.buckets(self.every))
        return self.buckets

    def is_summed(self, layer: int, kind: str, b: int, row: Row, kept: Any, low: int, high: int) -> bool:
        import numpy
        if len(kept) < self.dim:
            return False
        buckets, lengths, count = [], [], 0
        part = kept[low:high]
        if kind == "q" and high > low:  # positions ascend, and so do their buckets
            numbers = self._table(row.length)[kept]
            begins = numpy.flatnonzero(numpy.diff(numbers, prepend=-1))
            count, first = len(begins), int(numpy.searchsorted(begins, low, "right")) - 1
            edges = numpy.clip(numpy.append(begins[first:], len(kept)), low, high)
            lengths = numpy.diff(edges[:numpy.searchsorted(edges, high) + 1]).tolist()
            buckets = list(range(first, first + len(lengths)))
        if high > low:
            stored = numpy.asarray(self.sink.stored_positions(row.number, layer, kind)) if self.stores else part[:0]
            self.parts.setdefault((layer, kind), []).append(Part(
                row, b, part, buckets, lengths, count, numpy.flatnonzero(numpy.isin(part, stored)), high == len(kept),
                len(kept), float(kept[len(kept) // 2])))
        return True

    def take(self, batch: Batch, layer: int, kind: str, vectors: Any, before_rope: bool) -> None:
        super().take(batch, layer, kind, vectors, before_rope)
        for part in self.parts.get((layer, kind), ()):
            self._sum(batch, layer, kind, part, vectors[part.b], before_rope)

    def _indices_of(self, part: Part, start: int, device: Any) -> tuple[Any, ...]:
        """Tokens of the rows (None: all of a slice), their positions, lengths of buckets, rows that are stored."""
        import torch
        if device not in part.on_device:
            whole = len(part.kept) == part.kept[-1] - part.kept[0] + 1
            lists = [torch.from_numpy(part.kept), torch.tensor(part.lengths, dtype=torch.long),
                     torch.from_numpy(part.stored)]
            sent = [(x.pin_memory() if device.type == "cuda" else x).to(device, non_blocking=True) for x in lists]
            part.on_device[device] = (None if whole else sent[0] - start, sent[0].double() - part.middle, sent[1],
                                      sent[2])
        return part.on_device[device]

    def _sum(self, batch: Batch, layer: int, kind: str, part: Part, vectors: Any, before_rope: bool) -> None:
        import torch
        tokens, t, lengths, stored = self._indices_of(part, batch.start, vectors.device)
        first = int(part.kept[0]) - batch.start
        x = vectors[:, first:first + len(part.kept)] if tokens is None else vectors.index_select(1, tokens)
        heads = self.heads[layer, kind]
        if len(heads) < len(x):
            x = x.index_select(0, torch.as_tensor(heads, device=x.device))
        x = x.transpose(0, 1)  # [rows, heads, d]
        key = (part.row.number, layer, kind, before_rope)
        origin = self.origins.get(key)
        if origin is None:
            origin = x.double().mean(0)
            if not part.last:
                self.origins[key] = origin
        step = max(1, AT_ONCE // (len(x) * x.shape[2]))
        some = [slice(h, h + step) for h in range(0, len(heads), step)]
        pieces = [sums_of(x[:, h].double() - origin[h], t, lengths if kind == "q" else None) for h in some]
        frequencies = self.model.frequencies[layer] if self.model.frequencies and before_rope and kind == "q" else None
        if frequencies:
            for h, piece in zip(some, pieces):
                piece.append(lengths_of(x[:, h].double(), len(frequencies), self.model.rope_interleaved))
        found = [origin, *(torch.cat(same) for same in zip(*pieces))]
        found.append(x.index_select(0, stored).double())
        put = self._put(key, heads, part, [tuple(v.shape) for v in found], x.dtype)
        self.send(torch.cat([v.reshape(-1) for v in found]), put)

    def _put(self, key: tuple[int, int, str, bool], heads: list[int], part: Part, shapes: list[tuple[int, ...]],
             dtype: Any) -> Callable[[Any], None]:
        """What is done with the sums of a part, and the rows that are stored, once they are on the processor."""
        def put(flat: Any) -> None:
            sizes = [math.prod(shape) for shape in shapes]
            origin, *found, rows = [v.view(shape) for v, shape in zip(flat.split(sizes), shapes)]
            total = self.totals.setdefault(key, Total())
            self._add(total, part, [v.numpy() for v in found])
            if len(part.stored):
                total.stored.append((part.kept[part.stored], rows.to(dtype, copy=True)))
            if part.last:
                number, layer, kind, before_rope = key
                self.sink.put_sums(number, layer, kind, rows=part.rows, origin=origin, origin_t=part.middle,
                                   heads=heads, before_rope=before_rope, **total.sums)
                del self.totals[key]
                for kept, rows in total.stored:
                    self.sink.put(number, layer, kind, rows.transpose(0, 1), positions=kept, heads=heads,
                                  before_rope=before_rope)
        return put

    @staticmethod
    def _add(total: Total, part: Part, found: list[Any]) -> None:
        import numpy
        for name, value in zip(NAMES, found):
            if name.startswith("bucket") and value.shape[1] < part.num_buckets:
                whole = total.sums.setdefault(name, numpy.zeros((len(value), part.num_buckets, value.shape[2])))
                whole[:, part.buckets] += value
            elif name in total.sums:
                total.sums[name] += value
            else:
                total.sums[name] = value if part.last else value.copy()
