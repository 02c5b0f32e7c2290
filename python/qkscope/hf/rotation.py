# SPDX-License-Identifier: Apache-2.0
"""How a layer rotates its queries and keys, told from one call: which dimensions, how they are paired, at which
frequencies, and how vectors from before the rotation are found again."""
from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from .hooks import Call, Rotation

HALF, INTERLEAVED = "half", "interleaved"


@dataclass
class Piece:
    """Where vectors of one kind come out of a rotation: `before` makes those from before it of those from after."""

    rotation: int  # which call of a rotating function since the last attention call
    tensor: int  # which of its tensors
    transposed: bool  # [texts, tokens, heads, d]
    start: int  # its first dimension among those of the vector
    width: int
    unpaired: bool  # pairs lie side by side before it and half a width apart after it
    exact: bool = True  # what came out is what meets in the score; else a norm or a factor lies between

    def before(self, call: Call, after: Any) -> Any:
        import torch
        inside = call.rotations[self.rotation].inputs[self.tensor]
        inside = inside.transpose(1, 2) if self.transposed else inside
        if self.unpaired:
            inside = torch.cat((inside[..., 0::2], inside[..., 1::2]), dim=-1)
        if inside.shape[-1] == after.shape[-1] and inside.shape[1] == after.shape[1]:
            return inside
        whole = after.clone()
        whole[..., self.start:self.start + self.width] = inside.to(after.dtype)
        return whole


@dataclass
class Rope:
    """A layer's rotation. q, k: None where that kind is not rotated, or it cannot be told how."""

    frequencies: list[float]  # radians per token
    pairing: str
    first: int  # dimension
    q: Piece | None
    k: Piece | None


def _matches(out: Any, after: Any, transposed: bool) -> Any:
    """The output in the order of the vectors, or None where it cannot be theirs."""
    if out.dim() != 4 or after.dim() != 4:
        return None
    out = out.transpose(1, 2) if transposed else out
    fits = (out.shape[0] == after.shape[0] and out.shape[2] == after.shape[2] and out.shape[-1] <= after.shape[-1]
            and out.shape[1] in (1, after.shape[1]))
    return out if fits else None


def find_piece(call: Call, after: Any, taken: Piece | None = None) -> Piece | None:
    """Which output of a rotation these vectors are, or have in them, bit for bit. Where a norm or a factor lies
    between, the first output of their shape that is not `taken`."""
    import torch
    loose = None
    for i, rotation in enumerate(call.rotations):
        for j, out in enumerate(rotation.outputs):
            if len(rotation.inputs) != len(rotation.outputs):
                continue
            for transposed in (False, True):
                o = _matches(out, after, transposed)
                if o is None:
                    continue
                width, d = o.shape[-1], after.shape[-1]
                for start in dict.fromkeys((0, d - width)):
                    here = after[..., start:start + width]
                    if here.dtype == o.dtype and torch.equal(here, o.expand_as(here)):
                        return Piece(i, j, transposed, start, width, False)
                free = taken is None or (taken.rotation, taken.tensor) != (i, j)
                if loose is None and free and width == d and o.shape[1] == after.shape[1]:
                    loose = Piece(i, j, transposed, 0, width, False, exact=False)
    return loose


def _table(table: Any, tokens: int) -> Any:
    """[tokens, numbers] of a table of cosines, whatever other dimensions it has; None if it is none."""
    axes = [axis for axis in range(table.dim() - 1) if table.shape[axis] == tokens]
    if not axes or not (table.is_floating_point() or table.is_complex()):
        return None
    table = table.movedim(axes[-1], -2)
    return table.reshape(-1, tokens, table.shape[-1])[0].detach().cpu()


def angles(rotation: Rotation, tokens: int) -> tuple[Any, float] | None:
    """Angles [tokens, numbers] in double, and what multiplies cosine and sine."""
    import torch
    tables = [t for t in (_table(x, tokens) for x in rotation.tables if x.dim() >= 2) if t is not None]
    if len(tables) == 1 and tables[0].is_complex():
        z = tables[0].to(torch.complex128)
    elif len(tables) >= 2 and tables[0].shape == tables[1].shape and not tables[0].is_complex():
        a, b = tables[0].double(), tables[1].double()
        if a[0].abs().sum() < b[0].abs().sum():  # sine first
            a, b = b, a
        z = torch.complex(a, b)
    else:
        return None
    scale = z[0].abs().mean().item()
    if not math.isfinite(scale) or scale == 0:
        return None
    return (z * z[0].conj() / z[0].abs() ** 2).angle(), scale


def _frequencies(angle: Any) -> Any:
    """One a pair: tables have each twice, half their width apart or side by side, or once."""
    import torch
    first, width = angle[1], angle.shape[-1]
    if width % 2 == 0 and torch.equal(first[:width // 2], first[width // 2:]):
        return first[:width // 2]
    if width % 2 == 0 and torch.equal(first[0::2], first[1::2]):
        return first[0::2]
    return first


def _turn(x: Any, turned: Any, interleaved: bool, out_interleaved: bool) -> Any:
    import torch
    pairs = turned.shape[-1]
    part = x[..., :2 * pairs]
    a, b = (part[..., 0::2], part[..., 1::2]) if interleaved else (part[..., :pairs], part[..., pairs:])
    z = torch.complex(a, b) * turned
    both = torch.stack((z.real, z.imag), dim=-1).flatten(-2) if out_interleaved else torch.cat((z.real, z.imag), -1)
    return torch.cat((both, x[..., 2 * pairs:]), dim=-1)


def find_rope(call: Call, query: Any, key: Any, exact: list[Any]) -> Rope | None:
    """The rotation of a layer; None where its call saw none. exact: frequencies that the model holds, as float32,
    among which those found in the tables are looked for, since tables may be rounded."""
    import torch
    q = find_piece(call, query)
    k = find_piece(call, key, q)
    piece = q or k
    if piece is None:
        return None
    rotation = call.rotations[piece.rotation]
    tokens = query.shape[2]
    found = angles(rotation, tokens)
    if found is None:
        return Rope([], HALF, piece.start, q, k)
    angle, scale = found
    values = _frequencies(angle)
    if 2 * len(values) > piece.width:
        return Rope([], HALF, piece.start, q, k)
    before = rotation.inputs[piece.tensor]
    out = rotation.outputs[piece.tensor]
    if piece.transposed:
        before, out = before.transpose(1, 2), out.transpose(1, 2)
    before, out = before.detach().double().cpu(), out.detach().double().cpu()
    t = torch.arange(tokens, dtype=torch.float64)[:, None]
    turned = torch.polar(torch.full((tokens, len(values)), scale, dtype=torch.float64), t * values)
    errors = {(a, b): (_turn(before, turned, a, b) - out).abs().max().item()
              for a, b in ((False, False), (True, True), (True, False))}
    (interleaved, out_interleaved), error = min(errors.items(), key=lambda item: item[1])
    if error > 0.05 * out.abs().max().item():
        return Rope([], HALF, piece.start, q, k)
    if interleaved and not out_interleaved:
        q, k = (p and replace(p, unpaired=True) for p in (q, k))
    for candidate in exact:
        same = candidate.shape == values.shape and torch.allclose(candidate, values, rtol=2e-2, atol=1e-9)
        if same:
            values = candidate
            break
    return Rope(values.tolist(), INTERLEAVED if out_interleaved else HALF, piece.start, q, k)


def held_frequencies(decoder: Any) -> list[Any]:
    """All inverse frequencies that the modules of a model hold, in double."""
    held = [(name, x) for name, x in decoder.named_buffers() if "inv_freq" in name and "original" not in name]
    return [x.detach().double().cpu().flatten() for _, x in held if x.device.type != "meta"]
