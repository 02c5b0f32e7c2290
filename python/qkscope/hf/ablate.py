# SPDX-License-Identifier: Apache-2.0
"""ablate: what a transformers model loses without a head, or without a part of it, by whole forwards in which the output of
its attention function is another one for one query head. docs/behaviour.md#ablation has the definitions."""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from .._call import ArgumentError, DataError, call as _call, ffi, lib
from .._run import _Bar
from .attention_sums import bin_of
from .facts import Facts, check_before, check_model, decoder_of, find_facts, input_device, model_type
from .guard import _as_written, refuse_kinds
from .head_changes import ROWS, Change, Head, change_output, parse_change, share_of, softmax
from .hooks import Call, Watch
from .scores import why_not
from .tokens import Encoder

BINS, GROUPS = int(lib.QK_DISTANCE_BINS), 32  # groups of texts, as the engine has them


class _Ablation:
    def __init__(self, model: Any, changes: list[Change]) -> None:
        import torch
        check_model(model)
        if getattr(model, "get_output_embeddings", lambda: None)() is None:
            raise ArgumentError(f"{type(model).__name__} gives no logits: load the model with AutoModelForCausalLM")
        self.model, self.decoder, self.kind = model, decoder_of(model), model_type(model)
        refuse_kinds(model, self.decoder)
        self.facts: Facts = find_facts(model)
        why = why_not(model, self.decoder, self.facts)
        if why:
            raise DataError(f"model type {self.kind!r}: heads cannot be changed: {why}")
        if any(change.kind == "freeze" for change in changes):
            check_before(model, self.decoder, self.facts, list(self.facts.layers))
            blind = [n for n, f in self.facts.layers.items() if f.rope and not f.rope.frequencies]
            if blind:
                raise DataError(f"model type {self.kind!r}: freeze: it cannot be told how layer {blind[0]} rotates")
        self.device = input_device(self.decoder)
        self.double = torch.float32 if self.device.type == "mps" else torch.float64
        modules = dict(self.decoder.named_modules())
        self.layer_of = {id(modules[f.module]): layer for layer, f in self.facts.layers.items()}
        self.profiles: dict[tuple[int, int], Any] = {}  # [groups of texts][bins of rows][shares, then rows]

    def heads(self, given: Any) -> list[tuple[int, int]]:
        every = [(layer, h) for layer, f in self.facts.layers.items() for h in range(f.q_heads)]
        if given is None:
            return every
        told = given if isinstance(given, str) else ",".join(
            item if isinstance(item, str) else "{}:{}".format(*item) for item in given)
        chosen: list[tuple[int, int]] = []
        for item in told.split(","):
            wanted = ffi.new("qk_head_set *")
            _call(lib.qk_head_set_parse, item.encode(), wanted)
            found = [head for head in every if lib.qk_head_set_has(wanted, *head)]
            lib.qk_head_set_free(wanted)
            if not found:
                raise ArgumentError(f"heads: {item}: model type {self.kind!r} has no such head whose attention can be seen; "
                                    f"layers with attention: {', '.join(map(str, self.facts.layers))}")
            chosen += found
        return sorted(set(chosen))

    def logits(self, ids: Any, on_call: Any = None, after: Any = None) -> Any:
        """[tokens but the last, words]"""
        import torch
        with torch.no_grad(), _as_written(self.model), Watch(self.decoder, on_call or (lambda call: None), rotations=True,
                                                             after=after):
            return self.model(input_ids=ids, use_cache=False).logits[0, :-1]

    def fit(self, ids: Any, group: int, heads: list[tuple[int, int]]) -> None:
        """Adds what heads attend to in a text."""
        def see(call: Call) -> None:
            for at, h in heads:
                if at == self.layer_of.get(id(call.module)):
                    self._add(self.profiles[at, h][group], Head(call, h))
        self.logits(ids, see)

    def _add(self, to: Any, head: Head) -> None:
        import torch
        for i in head.j.split(ROWS):
            weights = softmax(head.of(i), head.seen(i), head.scores.sink(i[None])).to(self.double)
            bins = bin_of(i)
            flat = bins[:, None] * (BINS + 3) + share_of(i[:, None], head.j)
            sums = torch.zeros(to.numel(), dtype=self.double, device=weights.device)
            sums.index_add_(0, flat.flatten(), (weights * head.seen(i)).flatten())
            sums.index_add_(0, bins * (BINS + 3) + BINS + 2, torch.ones_like(weights[:, 0]))
            to += sums.cpu().view(to.shape)

    def profile(self, head: tuple[int, int], group: int) -> Any:
        """Of all other groups of texts. Rows later than theirs have the shares of their last ones."""
        sums = self.profiles[head].sum(0) - self.profiles[head][group]
        for b in range(1, BINS):
            if sums[b, -1] < 0.5:
                sums[b] = sums[b - 1]
        return sums[:, :-1] / sums[:, -1:].clamp(min=1)

    def changed(self, ids: Any, head: tuple[int, int], change: Change, group: int) -> Any:
        ran = []

        def after(call: Call) -> None:
            if self.layer_of.get(id(call.module)) == head[0]:
                shares = self.profile(head, group) if change.kind == "profile" else None
                change_output(call, head[1], change, self.facts.layers[head[0]].rope, shares, self.kind)
                ran.append(head)
        made = self.logits(ids, None, after)
        if len(ran) != 1:
            raise DataError(f"model type {self.kind!r}: layer {head[0]} called its attention function {len(ran)} times")
        return made

    def losses(self, logits: Any, ids: Any, clean: Any = None) -> tuple[float, float, int]:
        """Sums over tokens: of losses, and of the divergence from what `clean` gives; how many get something else."""
        loss, drift, changed = 0.0, 0.0, 0
        for start in range(0, len(logits), ROWS):
            p = logits[start:start + ROWS].to(self.double).log_softmax(-1)
            words = ids[0, 1 + start:1 + start + len(p)].to(p.device)
            loss -= float(p.gather(1, words[:, None]).sum())
            if clean is not None:
                q = clean[start:start + ROWS].to(self.double).log_softmax(-1)
                drift += float((q.exp() * (q - p)).sum())
                changed += int((p != q).any(-1).sum())
        return loss, drift, changed


def _row(texts: list[dict[str, Any]]) -> dict[str, float]:
    """Over texts, each token once."""
    tokens = sum(text["tokens"] for text in texts)
    return {"tokens": tokens, **{name: sum(text[name] * text["tokens"] for text in texts) / tokens
                                 for name in ("loss", "delta", "drift", "changed")},
            "changed_texts": sum(text["changed"] > 0 for text in texts)}


def ablate(model: Any, tokenizer: Any, texts: Iterable[Any], what: Sequence[str] | str = ("remove", "freeze", "profile"), *,
           heads: Any = None, max_length: int | None = None, progress: Any = None) -> list[dict[str, Any]]:
    """Runs each text as it is, and once more for each change of each query head; says what the loss rises by.

        rows = ablate(model, tokenizer, texts, what="remove,freeze,profile", heads="2:1,5:*")

    model       any text decoder of transformers with its output layer whose attention can be told (docs/transformers.md)
    tokenizer   its tokenizer; None: texts are sequences of ids
    texts       each is one forward; those of fewer than two tokens are left out
    what        changes: remove, freeze[:BAND], profile, window:TOKENS[:KEPT], no-sink, uniform (docs/behaviour.md#ablation);
                freeze[:BAND]+first is the control in which the first keys keep their scores
    heads       "2:1,14-23:*", or [(2, 1), ...]; None: all
    max_length  tokens of a text, longer ones are cut; None: what the model was made for

    Returns a row for each head and change: layer, q_head, what, tokens, loss (as it is), delta, drift, in nats a token; changed,
    the share of tokens for which the model gives something else at all, changed_texts, how many texts have any; and `texts`, the
    same numbers for each text, with its number. Errors: ArgumentError, DataError (a model whose heads cannot be
    changed, by its type).
    """
    import torch
    changes = [parse_change(word) for word in (what.split(",") if isinstance(what, str) else what)]
    if isinstance(texts, str):
        raise ArgumentError("texts is one string: give a list of texts")
    one = _Ablation(model, changes)
    chosen, most = one.heads(heads), max_length or one.facts.max_positions
    encode = Encoder(tokenizer) if tokenizer is not None else None
    made = [list(encode(text, most) if encode else text)[:most] for text in texts]
    kept = {n: torch.tensor([ids], dtype=torch.long, device=one.device) for n, ids in enumerate(made) if len(ids) > 1}
    if not kept:
        raise DataError("no text has two tokens")
    with_tokens = [n for n, ids in enumerate(made) if ids]
    group_of = dict.fromkeys(with_tokens, 0) | {n: place % GROUPS for place, n in enumerate(kept)}
    if any(change.kind == "profile" for change in changes):
        if len(kept) < 2:
            raise ArgumentError("what: a profile is that of other texts, and there is one: give two or more")
        one.profiles = {head: torch.zeros(GROUPS, BINS, BINS + 3, dtype=torch.float64) for head in chosen}
        for n in with_tokens:
            one.fit(torch.tensor([made[n]], dtype=torch.long, device=one.device), group_of[n], chosen)
    found: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    bar, done = _Bar(progress), 0
    try:
        for n, ids in kept.items():
            clean, tokens = one.logits(ids), ids.shape[1] - 1
            loss = one.losses(clean, ids)[0] / tokens
            if not math.isfinite(loss):
                raise DataError(f"text {n}: the loss of the model as it is is {loss}")
            for head in chosen:
                for change in changes:
                    other, drift, moved = one.losses(one.changed(ids, head, change, group_of[n]), ids, clean)
                    found.setdefault((*head, change.name), []).append(
                        {"text": n, "tokens": tokens, "loss": loss, "delta": other / tokens - loss, "drift": drift / tokens,
                         "changed": moved / tokens})
                    done += 1
                    bar.show("branches", done, len(kept) * len(chosen) * len(changes))
    finally:
        bar.close()
    return [{"layer": layer, "q_head": h, "what": name, **_row(rows), "texts": rows}
            for (layer, h, name), rows in found.items()]
