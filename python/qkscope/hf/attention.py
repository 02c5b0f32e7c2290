# SPDX-License-Identifier: Apache-2.0
"""Which query rows of a text have their attention summed, what each stands for, and the way of the sums into the sink."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._call import DataError, lib
from ..sampler import Sampler
from .attention_sums import add_sums, sums_of
from .device_sums import sums_on
from .hooks import Call
from .scores import Scores
from .transfer import Batch, Row


@dataclass
class Chosen:
    """Rows of one text: positions, ascending, how many rows each stands for, and its row bucket."""

    positions: Any
    weights: Any
    buckets: Any
    num_buckets: int


def choose_rows(positions: Any, tokens: int, sampler: Sampler | None) -> Chosen:
    """positions: of rows that a sampler has kept, or with none all. The rows of a bucket of the sampler stand for all
    that are in it. Where none was kept, the first goes along, for nothing: sums come of every text."""
    import numpy
    kept = numpy.sort(numpy.asarray(positions, dtype=numpy.int64))
    weights = numpy.ones(len(kept))
    if sampler is not None and len(kept):
        buckets = numpy.asarray(sampler.buckets(numpy.arange(tokens)))
        weights = numpy.bincount(buckets)[buckets[kept]] / numpy.bincount(buckets[kept])[buckets[kept]]
    if not len(kept):
        kept, weights = numpy.zeros(1, numpy.int64), numpy.zeros(1)
    most = int(lib.QK_DISTANCE_BINS) - 1
    bins = numpy.minimum(numpy.frexp(kept.astype(float))[1], most)
    return Chosen(kept, weights, bins, min((tokens - 1).bit_length(), most) + 1)


class AttentionRows:
    """Of the layers of a model, as its attention functions are called.

    rows     what brings numbers to the processor, and others to the sink
    heads    query heads of each layer
    sampler  that of the sink; None: every row is summed
    """

    def __init__(self, sink: Any, rows: Any, heads: dict[int, list[int]], sampler: Sampler | None, name: str) -> None:
        self.sink, self.rows, self.heads, self.sampler, self.name = sink, rows, heads, sampler, name
        self.ids: Any = None
        self.chosen: dict[tuple[int, int], Chosen] = {}  # of a text and layer
        self.totals: dict[tuple[int, int], Any] = {}

    def prepare(self, batch: Batch, ids: Any) -> None:
        """ids: of the whole texts, [texts, tokens], on the device."""
        self.ids = ids
        if batch.start == 0:
            self.chosen.clear()

    def _choose(self, row: Row, layer: int) -> Chosen:
        key = (row.number, layer if self.sampler else -1)
        if key not in self.chosen:
            kept = self.sink.positions(row.number, layer, "q") if self.sampler else range(row.length)
            self.chosen[key] = choose_rows(kept, row.length, self.sampler)
        return self.chosen[key]

    def take(self, batch: Batch, layer: int, call: Call) -> None:
        heads = self.heads.get(layer)
        if not heads:
            return
        chosen = [self._choose(row, layer) for row in batch.rows]
        parts = [slice(*c.positions.searchsorted([batch.start, batch.start + batch.count(row)]))
                 for c, row in zip(chosen, batch.rows)]
        made = self._sum(batch, layer, call, heads, chosen, parts)
        ended = [b for b, row in enumerate(batch.rows) if batch.start + batch.count(row) == row.length]
        if len(batch.rows) == 1:  # perhaps in chunks
            key = (batch.rows[0].number, layer)
            before = self.totals.pop(key, None)
            made = made if before is None else before if made is None else add_sums(before, made)
            if not ended:
                self.totals[key] = made
                return
        numbers = [batch.rows[b].number for b in ended]
        counts = [_counts(c) for c in chosen]

        def put(sums: Any) -> None:
            for b, number in zip(ended, numbers):
                self.sink.put_attention(number, layer, sums[b, :, :len(counts[b])].double().contiguous(),
                                        rows=counts[b], heads=heads)

        self.rows.send(made, put)

    def _sum(self, batch: Batch, layer: int, call: Call, heads: list[int], chosen: list[Chosen],
             parts: list[slice]) -> Any:
        """[texts, heads, row buckets, sums]; None: no row is in this batch."""
        import numpy
        import torch
        most = max(part.stop - part.start for part in parts)
        if most == 0:
            return None
        device = call.query.device
        positions = numpy.zeros((len(parts), most), numpy.int64)
        weights = numpy.zeros((len(parts), most, max(c.num_buckets for c in chosen)))
        for b, (c, part) in enumerate(zip(chosen, parts)):
            count = part.stop - part.start
            positions[b, :count] = c.positions[part]
            positions[b, count:] = c.positions[part][-1] if count else batch.start  # again, for nothing
            weights[b, range(count), c.buckets[part]] = c.weights[part]
        wide = torch.float64 if sums_on(device) else torch.float32
        try:
            return sums_of(Scores(call, batch.start, heads), positions,
                           torch.from_numpy(weights).to(wide).to(device, non_blocking=True), self.ids.to(device))
        except DataError as error:
            raise DataError(f"model type {self.name!r}: the attention of layer {layer} cannot be measured: {error}: leave "
                            "it out (keep)") from None


def _counts(chosen: Chosen) -> list[int]:
    """Rows in each row bucket."""
    import numpy
    return [int(n) for n in numpy.bincount(chosen.buckets, minlength=chosen.num_buckets)]
