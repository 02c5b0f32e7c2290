# SPDX-License-Identifier: Apache-2.0
"""ablate: what a transformers model loses without a head, or without a part of it, by whole forwards in which the output of
its attention function is another one for one query head. docs/ablate.md has the definitions."""
from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._call import ArgumentError, DataError, call as _call, ffi, lib
from .._run import _Bar
from .attention_sums import FAR_POSITION, SINK_KEYS, bin_of
from .facts import Facts, before_of, check_before, check_model, decoder_of, find_facts, input_device, model_type
from .guard import _as_written, refuse_kinds
from .hooks import Call, Watch
from .rotation import INTERLEAVED, Rope, angles
from .scores import LOW, Scores, why_not
from .tokens import Encoder

WORDS = "remove, freeze[:BAND], profile, window:TOKENS[:KEPT], no-sink or uniform; freeze[:BAND]+first leaves the first keys as they are"
THIRDS = {"fast": 0, "middle": 1, "slow": 2}
ROWS = 1024  # whose scores are held together
BINS, GROUPS = int(lib.QK_DISTANCE_BINS), 32  # of texts, as the engine has them


@dataclass
class Change:
    """One change of a head, from words."""

    name: str
    kind: str
    band: str = "all"
    window: int = 0
    kept: int = 0
    keep_first: bool = False

    def freezes(self, frequencies: Sequence[float]) -> list[int]:
        """Which pairs of a rotation."""
        turning = [i for i, f in enumerate(frequencies) if f > 0]
        if self.band in THIRDS:
            return [i for n, i in enumerate(turning) if 3 * n // len(turning) == THIRDS[self.band]]
        least, most = _band(self.band)
        return [i for i in turning if least <= math.tau / frequencies[i] < most]


def _band(band: str) -> tuple[float, float]:
    if band == "all":
        return 0.0, math.inf
    if band[:1] in ("<", ">"):
        edge = float(band[1:])
        return (0.0, edge) if band[0] == "<" else (edge, math.inf)
    least, most = band.split("-")
    return float(least), float(most)


def parse_change(word: str) -> Change:
    body, plus, first = str(word).partition("+")
    kind, colon, rest = body.partition(":")
    try:
        if kind == "freeze" and (not plus or first == "first") and (rest or not colon):
            made = Change(word, kind, band=rest or "all", keep_first=bool(plus))
            made.freezes([1.0])
            return made
        if kind == "window" and not plus:
            numbers = [int(part) for part in rest.split(":")]
            if len(numbers) <= 2 and numbers[0] >= 1 and min(numbers) >= 0:
                return Change(word, kind, window=numbers[0], kept=numbers[1] if numbers[1:] else 0)
        if word in ("remove", "profile", "no-sink", "uniform"):
            return Change(word, kind)
    except ValueError:
        pass
    raise ArgumentError(f"what: {word!r}: give {WORDS}")


# ---- one head ------------------------------------------------------------------------------------

def _groups(i: Any, j: Any) -> Any:
    """Which share of a profile each key has part in, [rows, keys]."""
    import torch
    far = 2 + bin_of((i - j).clamp(min=0))
    return torch.where(j == 0, 0, torch.where(j < SINK_KEYS, 1, far))


def _softmax(s: Any, seen: Any, sink: Any) -> Any:
    import torch
    s = s.masked_fill(~seen, LOW)
    if sink is None:
        return s.softmax(-1)
    return torch.cat((s, sink[0, 0, :, None].expand(len(s), 1)), -1).softmax(-1)[:, :-1]


class Head:
    """One query head in one call, of one text: its scores and weights, by rows."""

    def __init__(self, call: Call, head: int) -> None:
        import torch
        self.call, self.head, self.tokens = call, head, call.query.shape[2]
        self.scores = Scores(call, 0, [head])
        self.j = torch.arange(self.tokens, device=call.query.device)
        self.low = torch.from_numpy(self.scores.lowest(self.j.cpu().numpy()[None])).to(self.j.device)[0]

    def blocks(self) -> Iterable[Any]:
        """Positions of some rows."""
        return self.j.split(ROWS)

    def of(self, i: Any) -> Any:
        """Scores [rows, keys]."""
        return self.scores.tile(self.scores.queries(i[None]), i[None], 0, self.tokens)[0, 0]

    def seen(self, i: Any) -> Any:
        return (self.j <= i[:, None]) & (self.j >= self.low[i][:, None])

    def weights(self, i: Any) -> Any:
        return _softmax(self.of(i), self.seen(i), self.scores.sink(i[None]))

    def frozen(self, change: Change, rope: Rope, kind: str) -> Head:
        """The same with pairs of queries and keys at position 0."""
        import torch
        pairs = torch.tensor(change.freezes(rope.frequencies), dtype=torch.long, device=self.j.device)
        made = []
        for side, piece, whole, h in (("q", rope.q, self.call.query, self.head),
                                      ("k", rope.k, self.call.key, self.head // self.scores.group)):
            turned = piece and angles(self.call.rotations[piece.rotation], self.tokens)
            if piece is None or turned is None:
                raise DataError(f"model type {kind!r}: freeze: it cannot be told how {side} is rotated")
            both = (2 * pairs, 2 * pairs + 1) if rope.pairing == INTERLEAVED else (pairs, pairs + len(rope.frequencies))
            dims = piece.start + torch.cat(both)
            before = before_of(self.call, side, rope)[0, h] * turned[1] * self._factor(piece, whole[0, h], h, f"{kind!r}: freeze: {side}")
            new = whole.clone()
            new[0, h, :, dims] = before[:, dims].to(new.dtype)
            made.append(new)
        return Head(replace(self.call, query=made[0], key=made[1]), self.head)

    def _factor(self, piece: Any, after: Any, h: int, what: str) -> Any:
        """What each row was multiplied by after the rotation: probes of few tokens do not show it."""
        out = self.call.rotations[piece.rotation].outputs[piece.tensor]
        out = (out.transpose(1, 2) if piece.transposed else out)[0]
        out, after = out[min(h, len(out) - 1)], after[:, piece.start:piece.start + piece.width]
        if bool((out == after).all()):
            return 1
        size = (after * out).sum(-1, keepdim=True) / (out * out).sum(-1, keepdim=True).clamp(min=1e-30)
        if not bool((after - size * out).abs().max() <= 1e-2 * after.abs().max()):
            raise DataError(f"model type {what} is changed after RoPE by more than a factor")
        return size


def apply(call: Call, head: int, change: Change, rope: Rope | None, shares: Any, kind: str) -> None:
    """Changes the output of a head, in place: by what its new weights less its own make of the values, so that a change that
    changes nothing leaves it as it is. shares [bins of rows][shares of keys]: of a profile."""
    import torch
    output = call.output.view(1, call.query.shape[2], call.query.shape[1], -1)[0, :, head]
    if change.kind == "remove":
        output.zero_()
        return
    own = Head(call, head)
    if change.kind == "freeze" and rope is None:
        return  # the layer has no positions
    other = own.frozen(change, rope, kind) if change.kind == "freeze" and rope is not None else own
    values = call.value[0, head // (call.query.shape[1] // call.value.shape[1])].to(own.scores.exact)
    j = own.j
    for i in own.blocks():
        s, seen, sink, at = own.of(i), own.seen(i), own.scores.sink(i[None]), i[:, None]
        weights = _softmax(s, seen, sink)
        if change.kind == "profile":
            new = _by_profile(i, j, seen, shares.to(j.device, s.dtype)) * weights.sum(-1, keepdim=True)
            new = torch.where(at >= FAR_POSITION, new, weights)
        elif change.kind == "uniform":
            new = seen * (weights.sum(-1, keepdim=True) / seen.sum(-1, keepdim=True))
        else:
            if change.kind == "window":
                seen = seen & ((at - j < change.window) | (j < change.kept))
            elif change.kind == "no-sink":
                seen = seen & ((j >= SINK_KEYS) | (at == j))
            elif other is not own:
                s = torch.where(j < SINK_KEYS, s, other.of(i)) if change.keep_first else other.of(i)
            new = _softmax(s, seen, sink)
        output[i] += ((new - weights) @ values).to(output.dtype)


def _by_profile(i: Any, j: Any, seen: Any, shares: Any) -> Any:
    """Weights [rows, keys] that add up to 1: a share is divided evenly among the keys that have part in it."""
    group = _groups(i[:, None], j)
    count = seen.new_zeros(len(i), shares.shape[1], dtype=shares.dtype).scatter_add_(1, group, seen.to(shares.dtype))
    each = (shares[bin_of(i)].clamp(min=1e-30) / count.clamp(min=1)).gather(1, group) * seen
    return each / each.sum(-1, keepdim=True)


# ---- whole texts ---------------------------------------------------------------------------------

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
        for i in head.blocks():
            weights = head.weights(i).to(self.double)
            bins = bin_of(i)
            flat = bins[:, None] * (BINS + 3) + _groups(i[:, None], head.j)
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
                apply(call, head[1], change, self.facts.layers[head[0]].rope, shares, self.kind)
                ran.append(head)
        made = self.logits(ids, None, after)
        if len(ran) != 1:
            raise DataError(f"model type {self.kind!r}: layer {head[0]} called its attention function {len(ran)} times")
        return made

    def losses(self, logits: Any, ids: Any, clean: Any = None) -> tuple[float, float]:
        """Sums over tokens: of losses, and of the divergence from what `clean` gives."""
        loss = drift = 0.0
        for start in range(0, len(logits), ROWS):
            p = logits[start:start + ROWS].to(self.double).log_softmax(-1)
            words = ids[0, 1 + start:1 + start + len(p)].to(p.device)
            loss -= float(p.gather(1, words[:, None]).sum())
            if clean is not None:
                q = clean[start:start + ROWS].to(self.double).log_softmax(-1)
                drift += float((q.exp() * (q - p)).sum())
        return loss, drift


def _row(texts: list[dict[str, Any]]) -> dict[str, float]:
    """Over texts, each token once."""
    tokens = sum(text["tokens"] for text in texts)
    return {"tokens": tokens, **{name: sum(text[name] * text["tokens"] for text in texts) / tokens
                                 for name in ("loss", "delta", "drift")}}


def ablate(model: Any, tokenizer: Any, texts: Iterable[Any], what: Sequence[str] | str = ("remove", "freeze", "profile"), *,
           heads: Any = None, max_length: int | None = None, progress: Any = None) -> list[dict[str, Any]]:
    """Runs each text as it is, and once more for each change of each query head; says what the loss rises by.

        rows = ablate(model, tokenizer, texts, what="remove,freeze,profile", heads="2:1,5:*")

    model       any text decoder of transformers with its output layer whose attention can be told (docs/transformers.md)
    tokenizer   its tokenizer; None: texts are sequences of ids
    texts       each is one forward; those of fewer than two tokens are left out
    what        changes: remove, freeze[:BAND], profile, window:TOKENS[:KEPT], no-sink, uniform (docs/ablate.md);
                freeze[:BAND]+first is the control in which the first keys keep their scores
    heads       "2:1,14-23:*", or [(2, 1), ...]; None: all
    max_length  tokens of a text, longer ones are cut; None: what the model was made for

    Returns a row for each head and change: layer, q_head, what, tokens, loss (as it is), delta, drift, in nats a token, and
    `texts`, the same numbers for each text, with its number. Errors: ArgumentError, DataError (a model whose heads cannot be
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
    group_of = {n: place % GROUPS for place, n in enumerate(with_tokens)}
    if any(change.kind == "profile" for change in changes):
        if len(with_tokens) < 2:
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
                    other, drift = one.losses(one.changed(ids, head, change, group_of[n]), ids, clean)
                    found.setdefault((*head, change.name), []).append(
                        {"text": n, "tokens": tokens, "loss": loss, "delta": other / tokens - loss, "drift": drift / tokens})
                    done += 1
                    bar.show("branches", done, len(kept) * len(chosen) * len(changes))
    finally:
        bar.close()
    return [{"layer": layer, "q_head": h, "what": name, **_row(rows), "texts": rows}
            for (layer, h, name), rows in found.items()]
