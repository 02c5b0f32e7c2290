# SPDX-License-Identifier: Apache-2.0
"""Running a model over texts: batches, long texts in chunks, and the queries and keys of its layers as they pass."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .._call import ArgumentError, DataError
from .facts import Facts, _by_layer, _rounding, _same, before_of, input_device, observe, some_tokens, text_config
from .hooks import Call, Watch, layer_of
from .transfer import Batch, Row

FULL = 0.8  # share of a batch that is no padding, at least


class Enough(BaseException):
    """The last layer that is captured was seen: the rest of the forward pass is not needed."""


@dataclass
class Encoded:
    number: int
    tokens: Any  # of int64, on the processor


def batches(sequences: Sequence[Encoded], batch_tokens: int, pads: bool) -> list[list[Encoded]]:
    """One text each, or texts of about the same length side by side, up to batch_tokens with padding."""
    if not pads:
        return [[sequence] for sequence in sequences]
    made: list[list[Encoded]] = []
    for sequence in sorted(sequences, key=lambda s: (-len(s.tokens), s.number)):
        longest = len(made[-1][0].tokens) if made else 0
        if made and (len(made[-1]) + 1) * longest <= batch_tokens and len(sequence.tokens) >= FULL * longest:
            made[-1].append(sequence)
        else:
            made.append([sequence])
    return made


def pads_safely(model: Any, decoder: Any, facts: Facts) -> bool:
    """Whether a text beside a longer one gives the queries and keys that it gives alone."""
    import torch
    if not facts.causal or facts.rope_type in ("dynamic", "longrope"):
        return False
    ids = some_tokens(decoder)
    alone = _by_layer(model, decoder, observe(model, decoder, ids[:, :4]))
    beside = torch.cat((ids, torch.cat((ids[:, :4], torch.zeros_like(ids[:, 4:])), dim=1)))
    together = _by_layer(model, decoder, observe(model, decoder, beside))
    return all(layer in together and together[layer][1].query.shape[0] == 2 and
               _same(together[layer][1].query[1, :, :4], call.query[0], 10 * _rounding(facts.layers[layer].dtype))
               for layer, (_, call) in alone.items() if layer in facts.layers)


def new_cache(decoder: Any) -> Any:
    from transformers import DynamicCache
    try:
        return DynamicCache(config=text_config(decoder))
    except TypeError:  # of transformers 4
        return DynamicCache()


def chunks_safely(model: Any, decoder: Any, facts: Facts) -> bool:
    """Whether a text in parts, with a cache, gives the queries and keys of the whole."""
    import torch
    if not facts.causal or facts.rope_type in ("dynamic", "longrope"):
        return False
    ids = some_tokens(decoder, 8)
    whole = _by_layer(model, decoder, observe(model, decoder, ids))
    parts = []
    try:
        cache = new_cache(decoder)
        slides = getattr(cache, "is_sliding", None) or []
        if any(layer < len(slides) and slides[layer] and f.window == 0 for layer, f in facts.layers.items()):
            return False  # the cache forgets what the whole text sees
        for part in (ids[:, :4], ids[:, 4:]):
            parts.append(_by_layer(model, decoder, observe(model, decoder, part, past_key_values=cache,
                                                           use_cache=True)))
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError, KeyError, DataError):
        return False
    for layer in facts.layers:
        for side in ("query", "key"):
            found = [getattr(part[layer][1], side)[:, :, -4:] for part in parts if layer in part]
            if len(found) < 2 or found[0].shape[2] < 4:
                return False
            if not _same(torch.cat(found, dim=2), getattr(whole[layer][1], side),
                         10 * _rounding(facts.layers[layer].dtype)):
                return False
    return True


class Runner:
    """Runs sequences; rows go to `take(batch, layer, kind, vectors, before_rope)`.

    heads       of each (layer, kind), which are captured
    stage       "post", "pre" or "both"
    attention   what sums the attention of rows; None: nothing does
    pads        texts may be run side by side
    chunks      a text of more than batch_tokens is run in parts of so many
    """

    def __init__(self, model: Any, decoder: Any, facts: Facts, rows: Any, heads: dict[tuple[int, str], list[int]], *,
                 stage: str, batch_tokens: int, pads: bool, chunks: bool, attention: Any = None) -> None:
        self.attention = attention
        self.ids: Any = None
        self.model, self.decoder, self.facts, self.rows, self.heads = model, decoder, facts, rows, heads
        self.stage, self.batch_tokens, self.pads, self.chunks = stage, batch_tokens, pads, chunks
        self.layers = sorted({layer for (layer, _), chosen in heads.items() if chosen})
        self.batch = Batch([], 0, 0)
        self.seen: set[int] = set()
        self.device = input_device(decoder)
        # Hooks of accelerate move weights back when a module is left, by no exception.
        self.stops = not any(hasattr(module, "_hf_hook") for module in decoder.modules())
        self.watch = Watch(decoder, self._see, rotations=stage != "post")

    def run(self, sequences: Sequence[Encoded]) -> None:
        """All of them; when it returns, all rows are in the sink."""
        import torch
        with torch.no_grad(), self.watch:
            for together in batches(sequences, self.batch_tokens, self.pads):
                self._run_batch(together)
        self.rows.drain()

    def _run_batch(self, together: list[Encoded]) -> None:
        import torch
        rows = [Row(s.number, len(s.tokens)) for s in together]
        longest = max(row.length for row in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        for b, sequence in enumerate(together):
            ids[b, :len(sequence.tokens)] = sequence.tokens
        self.ids = ids = ids.to(self.device, non_blocking=True)
        if longest > self.batch_tokens and self.chunks:
            cache = new_cache(self.decoder)
            for start in range(0, longest, self.batch_tokens):
                self._forward(Batch(rows, start, min(self.batch_tokens, longest - start)),
                              ids[:, start:start + self.batch_tokens], past_key_values=cache, use_cache=True)
        else:
            self._forward(Batch(rows, 0, longest), ids, use_cache=False)

    def _forward(self, batch: Batch, ids: Any, **kwargs: Any) -> None:
        self.batch, self.seen = batch, set()
        self.rows.prepare(batch)
        if self.attention is not None:
            self.attention.prepare(batch, self.ids)
        try:
            self.decoder(input_ids=ids, **kwargs)
        except Enough:
            pass
        missing = [layer for layer in self.layers if layer not in self.seen]
        if missing:
            raise DataError(f"layer {missing[0]} was not run: the model has changed since the capture began. Load it "
                            "again and repeat the call, which goes on behind what is finished")

    def _see(self, call: Call) -> None:
        name = self.watch.name(call)
        layer = layer_of(call, name)
        facts = self.facts.layers.get(layer) if layer is not None else None
        if facts is None or layer is None or layer not in self.layers:
            return
        self._check(call, name, layer, facts)
        self.seen.add(layer)
        keys = call.key[:, :, -call.query.shape[2]:]
        for kind, after in (("q", call.query), ("k", keys)):
            if not self.heads.get((layer, kind)):
                continue
            if self.stage != "post":
                self.rows.take(self.batch, layer, kind, before_of(call, kind, facts.rope), True)
            if self.stage != "pre":
                self.rows.take(self.batch, layer, kind, after, False)
        if self.attention is not None:
            self.attention.take(self.batch, layer, call)
        if self.stops and layer == self.layers[-1] and len(self.seen) == len(self.layers):
            raise Enough

    def _check(self, call: Call, name: str, layer: int, facts: Any) -> None:
        q, k, batch = call.query, call.key, self.batch
        want = [len(batch.rows), facts.q_heads, batch.tokens, facts.head_dim]
        ok = (list(q.shape) == want and k.dim() == 4 and k.shape[1] == facts.k_heads and k.shape[2] >= batch.tokens
              and k.shape[3] == facts.head_dim)
        if not ok:
            raise DataError(f"{name} (layer {layer}): queries are {list(q.shape)} and keys {list(k.shape)}, not "
                            f"{want} with {facts.k_heads} key heads as when the capture began: the model has changed")
        dtype = str(q.dtype).removeprefix("torch.")
        if dtype != facts.dtype or k.dtype != q.dtype or q.device != k.device:
            raise ArgumentError(f"{name} (layer {layer}): queries are {q.dtype} on {q.device} and keys {k.dtype} on "
                                f"{k.device}, not {facts.dtype} as when the capture began: the model has changed")
        if layer in self.seen:
            raise DataError(f"{name}: layer {layer} called its attention function twice")
