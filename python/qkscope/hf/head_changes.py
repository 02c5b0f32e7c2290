# SPDX-License-Identifier: Apache-2.0
"""Changes of one query head in one call of an attention function, by its scores: the output is another one, in place."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .._call import ArgumentError, DataError
from .attention_sums import FAR_POSITION, SINK_KEYS, bin_of
from .facts import before_of
from .hooks import Call
from .rotation import INTERLEAVED, Rope, angles
from .scores import LOW, Scores

WORDS = "remove, freeze[:BAND][+first], profile, window:TOKENS[:KEPT], no-sink or uniform"
THIRDS = ("fast", "middle", "slow")
ROWS = 1024  # whose scores are held together


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
            return [i for n, i in enumerate(turning) if 3 * n // len(turning) == THIRDS.index(self.band)]
        told = ("0-inf" if self.band == "all" else "0-" + self.band[1:] if self.band[0] == "<" else
                self.band[1:] + "-inf" if self.band[0] == ">" else self.band)
        least, most = map(float, told.split("-"))
        if not least < most:
            raise ValueError(self.band)
        return [i for i in turning if least <= math.tau / frequencies[i] < most]


def parse_change(word: str) -> Change:
    body, plus, first = word.partition("+")
    kind, colon, rest = body.partition(":")
    try:
        if kind == "freeze" and first == plus.replace("+", "first") and bool(rest) == bool(colon):
            made = Change(word, kind, band=rest or "all", keep_first=bool(plus))
            made.freezes([1.0])
            return made
        if kind == "window" and not plus:
            window, kept = map(int, (rest if ":" in rest else rest + ":0").split(":"))
            if window >= 1 and kept >= 0:
                return Change(word, kind, window=window, kept=kept)
        if word in ("remove", "profile", "no-sink", "uniform"):
            return Change(word, kind)
    except ValueError:
        pass
    raise ArgumentError(f"what: {word!r}: give {WORDS}")


# ---- one head ------------------------------------------------------------------------------------

def share_of(i: Any, j: Any) -> Any:
    """Which share of a profile each key has part in, [rows, keys]."""
    import torch
    far = 2 + bin_of((i - j).clamp(min=0))
    return torch.where(j == 0, 0, torch.where(j < SINK_KEYS, 1, far))


def softmax(s: Any, seen: Any, sink: Any) -> Any:
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

    def of(self, i: Any) -> Any:
        """Scores [rows, keys]."""
        return self.scores.tile(self.scores.queries(i[None]), i[None], 0, self.tokens)[0, 0]

    def seen(self, i: Any) -> Any:
        return (self.j <= i[:, None]) & (self.j >= self.low[i][:, None])

    def frozen(self, change: Change, rope: Rope, kind: str) -> Head:
        """The same with pairs of queries and keys at position 0."""
        import torch
        pairs = torch.tensor(change.freezes(rope.frequencies), dtype=torch.long, device=self.j.device)
        made = []
        for side, piece, whole, h in (("q", rope.q, self.call.query, self.head),
                                      ("k", rope.k, self.call.key, self.head // self.scores.group)):
            turned = None if piece is None else angles(self.call.rotations[piece.rotation], self.tokens)
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


def change_output(call: Call, head: int, change: Change, rope: Rope | None, shares: Any, kind: str) -> None:
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
    for i in j.split(ROWS):
        s, seen, sink, at = own.of(i), own.seen(i), own.scores.sink(i[None]), i[:, None]
        weights = softmax(s, seen, sink)
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
            new = softmax(s, seen, sink)
        output[i] += ((new - weights) @ values).to(output.dtype)


def _by_profile(i: Any, j: Any, seen: Any, shares: Any) -> Any:
    """Weights [rows, keys] that add up to 1: a share is divided evenly among the keys that have part in it."""
    group = share_of(i[:, None], j)
    count = seen.new_zeros(len(i), shares.shape[1], dtype=shares.dtype).scatter_add_(1, group, seen.to(shares.dtype))
    each = (shares[bin_of(i)].clamp(min=1e-30) / count.clamp(min=1)).gather(1, group) * seen
    return each / each.sum(-1, keepdim=True)
