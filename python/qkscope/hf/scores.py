# SPDX-License-Identifier: Apache-2.0
"""What the softmax of a call of an attention function is over: scaled scores, with all that the model adds to them."""
from __future__ import annotations

from typing import Any

from .._call import DataError
from .facts import Facts, _rounding, model_type, some_tokens, window_of
from .hooks import Call, Watch, layer_of

LOW = -1e30  # the score of a key that is not seen; a finite one, so that nothing becomes 0 times infinity
PROBE = 24  # tokens


class Scores:
    """Of the query heads `heads` (None: all) in one call. `start` is the position of the first query; the last key is
    that of the last query."""

    def __init__(self, call: Call, start: int, heads: list[int] | None = None) -> None:
        import torch
        q, k, o = call.query, call.key, call.options
        self.call, self.start = call, start
        self.heads = None if heads is None or len(heads) == q.shape[1] else torch.as_tensor(heads, device=q.device)
        self.texts, self.num_heads = q.shape[0], q.shape[1] if self.heads is None else len(heads or ())
        self.exact = torch.float64 if q.dtype == torch.float64 else torch.float32
        self.scale = q.shape[-1] ** -0.5 if o.get("scaling") is None else float(o["scaling"])
        self.softcap = float(o.get("softcap") or 0)
        self.first = start + q.shape[2] - k.shape[2]  # position of the first key that a cache has left
        self.end = start + q.shape[2]
        self.group = q.shape[1] // k.shape[1]
        mask = call.mask
        self.mask = mask if torch.is_tensor(mask) and mask.dim() == 4 else None
        self.added = [x for x in (o.get("position_bias"), self.mask)
                      if x is not None and x.dtype.is_floating_point]
        sinks = o.get("s_aux", o.get("sinks"))
        self.sinks = None if sinks is None else sinks.detach()

    def _of_heads(self, x: Any) -> Any:
        """Of what is [texts or 1, heads or 1, rows, keys]."""
        return x if self.heads is None or x.shape[1] == 1 else x.index_select(1, self.heads)

    def _of_rows(self, x: Any, at: Any) -> Any:
        """Rows at[texts, rows] of [texts or 1, heads, tokens, ...]."""
        import torch
        texts = torch.arange(self.texts, device=at.device)[:, None]
        return x.expand(self.texts, *x.shape[1:])[texts, :, at].transpose(1, 2)

    def lowest(self, positions: Any) -> Any:
        """The first key that each query sees, of positions [texts, rows] in NumPy; it sees all from there to itself."""
        import numpy
        import torch
        window = window_of(self.call)
        if self.mask is None:
            return numpy.maximum(positions - (window or self.end) + 1, self.first)
        at = torch.from_numpy(positions - self.start).to(self.mask.device)
        seen = self._of_rows(self.mask[:, :1, :, :self.end - self.first], at)[:, 0]
        seen = seen if seen.dtype == torch.bool else seen > torch.finfo(seen.dtype).min / 2
        count = seen.sum(-1)
        own = at + self.call.key.shape[2] - self.call.query.shape[2]
        ends = torch.stack((own, (own - count + 1).clamp(min=0)), -1)
        if not bool(seen.gather(-1, ends).all()):
            raise DataError("queries see keys that are not one after the other, with themselves the last")
        return positions - count.cpu().numpy() + 1

    def queries(self, at: Any) -> Any:
        """[texts, key heads, rows of its queries, d], scaled."""
        q = self._of_heads(self._of_rows(self.call.query, at)).to(self.exact).mul(self.scale)
        groups = self.num_heads if self.heads is not None else self.call.key.shape[1]
        return q.reshape(self.texts, groups, -1, q.shape[-1])

    def tile(self, queries: Any, at: Any, begin: int, room: int) -> Any:
        """[texts, heads, rows, room] of the keys from position `begin` on; of those that there are not, anything."""
        import torch
        missing = max(0, self.first - begin)
        first, end = begin - self.first + missing, min(begin - self.first + room, self.call.key.shape[2])
        behind = room - missing - (end - first)
        keys = self.call.key[:, :, first:end]
        if self.heads is not None:
            keys = keys.index_select(1, self.heads // self.group)
        keys = torch.nn.functional.pad(keys.to(self.exact), (0, 0, missing, behind))
        s = (queries @ keys.mT).view(self.texts, self.num_heads, -1, room)
        if self.softcap:
            s = s.div_(self.softcap).tanh_().mul_(self.softcap)
        for x in self.added:
            part = self._of_rows(self._of_heads(x[..., first:end]), at).to(self.exact)
            s[..., missing:room - behind] += part.clamp(min=LOW)
        return s

    def sink(self, at: Any) -> Any:
        """What the softmax counts beside the keys, [texts, heads, rows]; None: nothing."""
        if self.sinks is None:
            return None
        if self.sinks.dim() == 4:
            return self._of_rows(self._of_heads(self.sinks), at)[..., 0].to(self.exact)
        return self._of_heads(self.sinks.reshape(1, -1, 1, 1))[..., 0].to(self.exact)


def _outputs(call: Call) -> Any:
    """What attention gives by these rules, [texts, tokens, heads, d]."""
    import numpy
    import torch
    scores, tokens = Scores(call, 0), call.query.shape[2]
    positions = numpy.broadcast_to(numpy.arange(tokens), (scores.texts, tokens)).copy()
    at = torch.from_numpy(positions).to(call.query.device)
    low = torch.from_numpy(scores.lowest(positions)).to(at.device)
    s = scores.tile(scores.queries(at), at, 0, tokens)
    key = torch.arange(tokens, device=at.device)
    s = s.masked_fill(((key > at[..., None]) | (key < low[..., None]))[:, None], LOW)
    sink = scores.sink(at)
    if sink is not None:
        s = torch.cat((s, sink.expand(s.shape[:3])[..., None]), -1)
    a = s.softmax(-1)[..., :tokens]
    values = call.value.to(a.dtype).repeat_interleave(a.shape[1] // call.value.shape[1], dim=1)
    return (a @ values).transpose(1, 2)


def why_not(model: Any, decoder: Any, facts: Facts) -> str:
    """Why a model's attention cannot be told from its queries and keys, "" where it can: whatever function computes it,
    its output has to be the values, weighted by that attention."""
    import torch
    if not facts.causal:
        return "a query meets later keys, too"
    found: dict[int, Any] = {}
    wrong: list[str] = []

    def see(call: Call) -> None:  # before the model changes them
        if layer_of(call, watch.name(call)) in facts.layers:
            found[id(call)] = _outputs(call)

    def compare(call: Call) -> None:
        mine, theirs = found.pop(id(call), None), call.output
        if mine is None:
            return
        layer = layer_of(call, watch.name(call)) or 0
        if not torch.is_tensor(theirs) or theirs.numel() != mine.numel():
            wrong.append(f"the output of layer {layer} is not that of attention to the values")
            return
        error = (theirs.double().reshape(mine.shape) - mine.double()).abs().max() / mine.abs().max().clamp(min=1e-30)
        if not error <= 10 * _rounding(facts.layers[layer].dtype):
            wrong.append(f"in layer {layer} its output differs by {100 * float(error):.2g} % from the values, weighted by the "
                         "softmax of scores: something enters them that is not known here")

    try:
        with torch.no_grad(), Watch(decoder, see, after=compare) as watch:
            decoder(input_ids=some_tokens(decoder, PROBE, model), use_cache=False)
    except DataError as error:
        return str(error)
    return wrong[0] if wrong else ""


def refuse_attention(model: Any, why: str) -> str:
    return f"model type {model_type(model)!r}: attention is not measured: {why}. Queries and keys are captured"
