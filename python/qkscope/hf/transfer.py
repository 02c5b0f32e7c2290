# SPDX-License-Identifier: Apache-2.0
"""Rows on their way from the model into the sink.

On the processor the sink reads the model's tensors where they lie. On a device the rows that are kept are gathered
there, by positions that were sent beforehand, and copied to pinned memory on a stream of its own, so that nothing
waits in the model's forward pass; threads put them into the sink.
"""
from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

SLOTS = 6  # pinned buffers: rows that are under way


@dataclass
class Row:
    """A text in a batch."""

    number: int
    length: int  # tokens in all


@dataclass
class Batch:
    """Texts side by side, of each the tokens from `start` on."""

    rows: list[Row]
    start: int
    tokens: int  # of each, padding included

    def count(self, row: Row) -> int:
        return max(0, min(row.length - self.start, self.tokens))


class Workers:
    """Calls functions on threads, at most so many waiting; `drain` waits for all and raises what one of them raised.
    Without threads it calls them at once."""

    def __init__(self, threads: int) -> None:
        self._queue: queue.Queue[tuple[Callable[[], Any], Callable[[], Any]] | None] = queue.Queue(2 * threads)
        self._failed: BaseException | None = None
        self._threads = [threading.Thread(target=self._work, name="qkscope-hf", daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            function, after = job
            try:
                if self._failed is None:
                    function()
            except BaseException as error:  # raised on the caller's thread
                self._failed = error
            after()
            self._queue.task_done()
        self._queue.task_done()

    def submit(self, function: Callable[[], Any], after: Callable[[], Any] = lambda: None) -> None:
        """after: called in any case, also where the function is passed over because another has failed."""
        if not self._threads:
            try:
                function()
            finally:
                after()
            return
        if self._failed is not None:
            self.drain()
        self._queue.put((function, after))

    def drain(self) -> None:
        self._queue.join()
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    def close(self) -> None:
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads = []


class HostRows:
    """Of a model on the processor."""

    def __init__(self, sink: Any, workers: Workers) -> None:
        self.sink, self.workers = sink, workers

    def prepare(self, batch: Batch) -> None:
        pass

    def take(self, batch: Batch, layer: int, kind: str, vectors: Any, before_rope: bool) -> None:
        for b, row in enumerate(batch.rows):
            count = batch.count(row)
            if count > 0:
                self._send(row.number, layer, kind, vectors[b, :, :count], batch.start, before_rope)

    def _send(self, number: int, layer: int, kind: str, vectors: Any, first: int, before_rope: bool) -> None:
        vectors = vectors if vectors.stride(-1) == 1 else vectors.contiguous()
        self.workers.submit(lambda: self.sink.put(number, layer, kind, vectors, first_position=first,
                                                  before_rope=before_rope))

    def send(self, values: Any, function: Callable[[Any], None]) -> None:
        """As DeviceRows does, which has to copy."""
        self.workers.submit(lambda: function(values))

    def drain(self) -> None:
        self.workers.drain()


class _Slot:
    """A piece of pinned memory, as large as was ever needed."""

    def __init__(self, pinned: bool) -> None:
        self.pinned = pinned
        self.memory: Any = None

    def room(self, size: int, dtype: Any) -> Any:
        import torch
        bytes_ = size * dtype.itemsize
        if self.memory is None or self.memory.numel() < bytes_:
            self.memory = torch.empty(bytes_, dtype=torch.uint8, pin_memory=self.pinned)
        return self.memory[:bytes_].view(dtype)


class DeviceRows:
    """Of a model on a device, or on several. heads: of each layer and kind, which are captured."""

    def __init__(self, sink: Any, workers: Workers, heads: dict[tuple[int, str], list[int]]) -> None:
        import torch
        self.sink, self.workers, self.heads = sink, workers, heads
        self.cuda = torch.cuda.is_available()
        self.slots: queue.Queue[_Slot] = queue.Queue()
        for _ in range(SLOTS):
            self.slots.put(_Slot(self.cuda))
        self.index: dict[tuple[int, str, str], tuple[Any, Any, list[tuple[Row, Any]]]] = {}
        self.streams: dict[Any, Any] = {}

    def prepare(self, batch: Batch) -> None:
        """Which rows are kept of each layer and kind, before the forward pass."""
        import numpy
        self.index.clear()
        for (layer, kind), heads in self.heads.items():
            if not heads:
                continue
            parts, texts, tokens = [], [], []
            for b, row in enumerate(batch.rows):
                kept = self.positions(row, layer, kind)
                low = int(numpy.searchsorted(kept, batch.start))
                high = int(numpy.searchsorted(kept, batch.start + batch.count(row)))
                if self.is_summed(layer, kind, b, row, kept, low, high) or low == high:
                    continue
                kept = numpy.ascontiguousarray(kept[low:high])
                parts.append((row, kept))
                texts.append(numpy.full(len(kept), b))
                tokens.append(kept - batch.start)
            if parts:
                self.index[layer, kind, ""] = (numpy.concatenate(texts), numpy.concatenate(tokens), parts)

    def positions(self, row: Row, layer: int, kind: str) -> Any:
        """Of the rows of a text that are kept."""
        import numpy
        return numpy.asarray(self.sink.positions(row.number, layer, kind))

    def is_summed(self, layer: int, kind: str, b: int, row: Row, kept: Any, low: int, high: int) -> bool:
        """Whether the rows of a text, of which kept[low:high] are in this batch, are no business of `take` here."""
        return False

    def _indices(self, layer: int, kind: str, device: Any) -> tuple[Any, Any, list[tuple[Row, Any]]] | None:
        """On the device; the copy goes ahead of the rows in the same stream, from pinned memory."""
        import torch
        key = (layer, kind, str(device))
        if key not in self.index:
            if (layer, kind, "") not in self.index:
                return None
            texts, tokens, parts = self.index[layer, kind, ""]
            both = torch.stack((torch.from_numpy(texts), torch.from_numpy(tokens)))
            both = (both.pin_memory() if device.type == "cuda" else both).to(device, non_blocking=True)
            self.index[key] = (both[0], both[1], parts)
        return self.index[key]

    def take(self, batch: Batch, layer: int, kind: str, vectors: Any, before_rope: bool) -> None:
        import torch
        found = self._indices(layer, kind, vectors.device)
        if found is None:
            return
        texts, tokens, parts = found
        heads = self.heads[layer, kind]
        whole = len(heads) == vectors.shape[1]
        if whole:
            rows = vectors[texts, :, tokens]  # [rows, heads, d]
        else:
            chosen = torch.as_tensor(heads, device=vectors.device)
            rows = vectors[texts[:, None], chosen[None, :], tokens[:, None]]

        def put(copied: Any) -> None:
            at = 0
            for row, kept in parts:
                part = copied[at:at + len(kept)].transpose(0, 1)
                self.sink.put(row.number, layer, kind, part, positions=kept, heads=heads, before_rope=before_rope)
                at += len(kept)

        self.send(rows, put)

    def send(self, values: Any, function: Callable[[Any], None]) -> None:
        """Calls a function on another thread with a copy of dense values, on the processor, once it is there."""
        slot = self.slots.get()
        room = slot.room(values.numel(), values.dtype).view(values.shape)
        event = self._copy(values, room)

        def take() -> None:
            if event is not None:
                event.synchronize()
            function(room)

        self.workers.submit(take, lambda: self.slots.put(slot))

    def _copy(self, rows: Any, room: Any) -> Any:
        """Begins the copy and returns what tells when it is there."""
        import torch
        if rows.device.type != "cuda":
            room.copy_(rows)
            return None
        stream = self.streams.get(rows.device)
        if stream is None:
            stream = self.streams[rows.device] = torch.cuda.Stream(rows.device)
        stream.wait_stream(torch.cuda.current_stream(rows.device))
        with torch.cuda.stream(stream):
            room.copy_(rows, non_blocking=True)
            rows.record_stream(stream)
            event = torch.cuda.Event()
            event.record(stream)
        return event

    def drain(self) -> None:
        self.workers.drain()


def captured_heads(table: Sequence[Sequence[bool]], kind: str) -> dict[tuple[int, str], list[int]]:
    return {(layer, kind): [h for h, yes in enumerate(heads) if yes] for layer, heads in enumerate(table)}
