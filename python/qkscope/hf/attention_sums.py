# SPDX-License-Identifier: Apache-2.0
"""Sums over rows of attention (qkscope/attention.h), made where queries and keys are, tile by tile: memory does not grow
with the length of a text. A tile has its own softmax; what is summed by it is weighted by its share of all keys."""
from __future__ import annotations

from typing import Any

from .._call import lib
from .scores import LOW, Scores

BLOCK = 32  # keys that are added up together, on which the bins of distance are laid
# Keys of a tile, at most, a multiple of it; and scores that are worked on together: what a processor holds near it.
TILES = {"cpu": (1024, 1 << 19)}
ON_DEVICES = (4096, 1 << 25)
SINK_KEYS, FAR_POSITION, MOST = int(lib.QK_SINK_KEYS), int(lib.QK_FAR_POSITION), int(lib.QK_ATTENTION_LOGIT_MAX)


def bin_of(distance: Any) -> Any:
    """qk_distance_bin of a tensor."""
    import torch
    powers = 2 ** torch.arange(int(lib.QK_DISTANCE_BINS) - 1, device=distance.device)
    return torch.searchsorted(powers, distance.contiguous(), right=True)


class _Rows:
    """Rows of a tile: positions, from `least` to `last`, and lowest keys [texts, rows], and the edges of their bins.
    ids: of the whole texts, or None."""

    def __init__(self, positions: Any, low: Any, least: int, last: int, ids: Any) -> None:
        import torch
        self.i, self.low, self.least, self.last, self.ids = positions, low, least, last, ids
        self.bins = bins = min(last.bit_length() + 1, int(lib.QK_DISTANCE_BINS))
        self.far_low = low.clamp(min=SINK_KEYS)
        before = 2 ** torch.arange(bins, device=low.device)
        self.ends = torch.cat((positions[..., None] + 1, positions[..., None] - before + 1), -1)
        self.ends[..., -1] = 0  # bin b: keys ends[b + 1] .. ends[b] - 1; the last has all that is further

    def pairs(self, key: Any) -> list[Any]:
        """Which keys that are seen are a copy of the row's own token, and which follow one, [texts, rows, keys]."""
        own, i, seen = self.ids.gather(1, self.i)[..., None], self.i[..., None], key >= self.low[..., None]
        tokens, before = (self.ids[:, None, x.clamp(0, self.ids.shape[1] - 1)] for x in (key, key - 1))
        return [(tokens == own) & seen & (key < i), (before == own) & seen & (key >= 1) & (key <= i)]


class _Sums:
    """What is summed of the keys so far, [texts, heads, rows, ...]: `linear` over weights that add up to 1.
    matches: how many keys there are of `pairs`."""

    def __init__(self) -> None:
        self.lse: Any = None
        self.matches: Any = 0

    def add(self, lse: Any, linear: Any, top: Any) -> None:
        import torch
        if self.lse is None:
            self.lse, self.linear, self.top = lse, linear, top
            return
        both = torch.logaddexp(self.lse, lse)
        old, new = (self.lse - both).exp(), (lse - both).exp()
        self.linear = self.linear * old[..., None] + linear * new[..., None]
        self.top = torch.maximum(self.top, top)
        self.lse = both


def _below(a: Any, rows: _Rows, begin: int, wide: Any) -> Any:
    """Weights of the keys of a tile below each edge: whole blocks, and a part of one. a: [texts, heads, rows, keys]. Few
    edges lie in a tile; all of it is below the nearer ones, and nothing below the farther ones."""
    import torch
    end, count = begin + a.shape[-1], rows.ends.shape[-1]
    moved = [-1, *(2 ** b - 1 for b in range(count - 2))]  # edges are that much before the row
    near = sum(rows.least - m >= end for m in moved)
    far = sum(rows.last - m > begin for m in moved)
    found = torch.zeros(*a.shape[:3], count, dtype=wide, device=a.device)
    found[..., :near] = 1
    if far > near:
        edges = rows.ends[..., near:far] - begin
        block = (edges // BLOCK).clamp(0, a.shape[-1] // BLOCK - 1)
        inside = torch.arange(BLOCK, device=a.device)
        at = (block[..., None] * BLOCK + inside).flatten(-2)[:, None].expand(*a.shape[:3], -1)
        part = a.gather(-1, at).unflatten(-1, (-1, BLOCK)) * (inside < (edges - block * BLOCK)[..., None])[:, None].to(a.dtype)
        whole = torch.nn.functional.pad(a.unflatten(-1, (-1, BLOCK)).sum(-1).to(wide).cumsum(-1), (1, 0))
        found[..., near:far] = (whole.gather(-1, block[:, None].expand(*a.shape[:3], -1)) + part.sum(-1).to(wide))
    return found


def _one(a: Any, key: Any, begin: int) -> Any:
    """The weight of one key a row; 0 where it is in another tile."""
    at = key - begin
    found = a.gather(-1, at.clamp(0, a.shape[-1] - 1)[:, None, :, None].expand(*a.shape[:3], 1))[..., 0]
    return found * ((at >= 0) & (at < a.shape[-1]))[:, None]


def _on(a: Any, pair: Any) -> Any:
    """The weights of the keys that are told, which are few. How few is not asked on a device, which would wait for it."""
    if a.device.type != "cpu":
        return (a * pair[:, None].to(a.dtype)).sum(-1)
    texts, rows, keys = pair.nonzero(as_tuple=True)
    found = a.new_zeros(pair.shape[0] * pair.shape[1], a.shape[1])
    found.index_add_(0, texts * pair.shape[1] + rows, a[texts, :, rows, keys])
    return found.view(pair.shape[0], pair.shape[1], -1).transpose(1, 2)


def _add_tile(sums: _Sums, s: Any, rows: _Rows, begin: int, wide: Any) -> None:
    """Scores s of the keys from `begin` on."""
    import torch
    key = torch.arange(begin, begin + s.shape[-1], device=s.device)
    a = s.softmax(-1)
    top = s.amax(-1)
    lse = top.to(wide) - a.amax(-1).to(wide).log()
    first = a[..., :SINK_KEYS] if begin == 0 else torch.zeros_like(a[..., :SINK_KEYS])
    below = torch.maximum(_below(a, rows, begin, wide), first.sum(-1, keepdim=True).to(wide))
    distances = ((rows.last - key) * (key >= SINK_KEYS)).to(a.dtype)
    linear = [first, _one(a, rows.i, begin)[..., None], _one(a, rows.i - 1, begin)[..., None]]
    s.mul_(a)  # in place: scores are not needed any more
    linear += [s.sum(-1, keepdim=True), s[..., :SINK_KEYS].sum(-1, keepdim=True) * (begin == 0), (a @ distances)[..., None]]
    if rows.ids is not None:
        pairs = rows.pairs(key)
        sums.matches = sums.matches + torch.stack([pair.sum(-1) for pair in pairs])
        linear += [_on(a, pair)[..., None] for pair in pairs]
    linear += [below[..., :-1] - below[..., 1:]]
    sums.add(lse, torch.cat([x.to(wide) for x in linear], -1), top)


def _vectors(sums: _Sums, rows: _Rows, sink: Any, wide: Any) -> Any:
    """[texts, heads, rows, QK_ATTENTION_SUMS]."""
    import torch
    lse, share = sums.lse, torch.ones_like(sums.lse)
    if sink is not None:
        lse = torch.logaddexp(lse, sink.to(wide))
        share = (sums.lse - lse).exp()
    linear = sums.linear * share[..., None]
    x = torch.zeros(*lse.shape, int(lib.QK_ATTENTION_SUMS), dtype=wide, device=lse.device)
    i, n = rows.i[:, None], (rows.i - rows.low + 1)[:, None].to(wide)
    first, (own, previous, scores, first_scores, distance) = linear[..., :4], linear[..., 4:9].unbind(-1)
    bins = linear[..., -rows.bins:]
    for name, value in (("ROWS", 1), ("SINK", first[..., 0]), ("FIRST", first.sum(-1)), ("SELF", own),
                        ("PREVIOUS", previous), ("NO_KEY", 1 - share), ("ENTROPY", lse * share - scores),
                        ("VISIBLE", n.log()), ("LOGIT", sums.top.to(wide)),
                        ("LOGIT_MAX", sums.top.to(wide))):
        x[..., getattr(lib, "QK_ATTENTION_" + name)] = value
    if rows.ids is not None:
        for number, at in enumerate((lib.QK_ATTENTION_DUPLICATE_ROWS, lib.QK_ATTENTION_INDUCTION_ROWS)):
            count = sums.matches[number][:, None].to(wide)
            x[..., at], x[..., at + 1], x[..., at + 2] = (count > 0).to(wide), linear[..., 9 + number], count / n
    # Beyond the first keys, of rows that are far enough
    is_far = i >= FAR_POSITION
    bins = bins * is_far[..., None]
    w = bins.sum(-1)
    farthest = (rows.i - rows.far_low).clamp(min=0)
    for name, value in (("ROWS", is_far), ("", w), ("VISIBLE", w * (farthest + 1)[:, None].to(wide).log()),
                        ("ENTROPY", w * lse - (scores - first_scores) * is_far + torch.xlogy(w, w)),
                        ("DISTANCE", distance * is_far - (rows.last - i) * w)):
        x[..., getattr(lib, ("QK_ATTENTION_FAR_" + name).rstrip("_"))] = value
    x[..., lib.QK_ATTENTION_FAR_BINS:lib.QK_ATTENTION_FAR_BINS + rows.bins] = bins
    at = (lib.QK_ATTENTION_LAST_BINS + bin_of(farthest))[:, None].expand(w.shape)
    return x.scatter_add_(-1, at[..., None], w[..., None])


def sums_of(scores: Scores, positions: Any, weights: Any, ids: Any = None, *, keys: int | None = None,
            at_once: int | None = None) -> Any:
    """[texts, heads, row buckets, QK_ATTENTION_SUMS], in float64 where the device has it.

    positions  [texts, rows] in NumPy, ascending, of queries in the call
    weights    [texts, rows, row buckets] on the device, of the type of the sums: in the bucket of each row, how many rows
               of the text it stands for
    ids        [texts, tokens] on the device, of the texts from their first token on; None: not known
    keys, at_once  of a tile
    """
    import torch
    device, wide = scores.call.query.device, weights.dtype
    low = scores.lowest(positions)
    where, lows = (torch.from_numpy(x).to(device, non_blocking=True) for x in (positions, low))
    most, many = TILES.get(device.type, ON_DEVICES)
    most, many = keys or most, at_once or many
    step = max(1, many // (scores.texts * scores.num_heads * min(most, int(positions.max()) + BLOCK)))
    made = torch.zeros(scores.texts, scores.num_heads, weights.shape[2], int(lib.QK_ATTENTION_SUMS), dtype=wide,
                       device=device)
    largest = torch.full_like(made[..., MOST], -torch.inf)
    for r in range(0, positions.shape[1], step):
        part = slice(r, r + step)
        least, last = int(positions[:, part].min()), int(positions[:, part].max())
        lowest, highest = int(low[:, part].min()), int(low[:, part].max())
        rows = _Rows(where[:, part], lows[:, part], least, last, ids)
        at = rows.i - scores.start
        queries, sums = scores.queries(at), _Sums()
        first = lowest - lowest % BLOCK
        room = min(most, -(-(last + 1 - first) // BLOCK) * BLOCK)
        for begin in range(first, last + 1, room):
            s = scores.tile(queries, at, begin, room)
            if begin < highest or begin + room > least + 1:
                key = torch.arange(begin, begin + room, device=device)
                s.masked_fill_(((key > rows.i[..., None]) | (key < rows.low[..., None]))[:, None], LOW)
            _add_tile(sums, s, rows, begin, wide)
        vectors, counted = _vectors(sums, rows, scores.sink(at), wide), (weights[:, part] > 0)[:, None]
        top = torch.where(counted, vectors[..., MOST, None], -torch.inf).amax(2)  # of this one no sum
        largest = torch.maximum(largest, top)
        made += torch.einsum("brk,bhrs->bhks", weights[:, part], vectors)
    made[..., MOST] = largest.nan_to_num(neginf=0)  # a bucket without rows
    return made


def add_sums(a: Any, b: Any) -> Any:
    """Sums of both parts of a text; of the largest score the larger, where a part has rows."""
    import torch
    total, rows = a + b, int(lib.QK_ATTENTION_ROWS)
    larger = torch.maximum(a[..., MOST], b[..., MOST])
    total[..., MOST] = torch.where(a[..., rows] == 0, b[..., MOST], torch.where(b[..., rows] == 0, a[..., MOST], larger))
    return total
