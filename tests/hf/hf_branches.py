# SPDX-License-Identifier: Apache-2.0
"""Losses of tokens by transformers, in float64, of whole forwards in which the attention function of a layer is another one for
one head, or two; for test_hf_branches.py:

    python tests/hf/hf_branches.py FOLDER MODEL ...

FOLDER/tokens.json: a sequence of ids for each MODEL. FOLDER/MODEL's number/branches.txt: what prefill_values reads, losses.json:
of the text as it is, then of each branch: losses of tokens but the first, drifts, what it is."""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from hf_losses import load

sys.path.append(str(Path(__file__).parents[1] / "prefill"))
from branch_reference import (DIRECTION, NO_SINK, OUTPUT, PROFILE, ROTATION, UNIFORM, WINDOW, change, distance_bin,  # noqa: E402
                              write_branches)

FAR, SINK = 8, 4


def other_scores(c, scores, seen, turned):
    """Of a changed head [rows][keys], and which keys its rows see; turned(frozen, positions): scores of other rotations."""
    i, j = torch.arange(len(scores))[:, None], torch.arange(len(scores))
    clean, kind = scores, c["kind"]
    if kind == ROTATION:
        scores = turned(c["frozen"], c["positions"])
    if kind == WINDOW:
        seen = seen & ((i - j < c["window"]) | (j < c["kept"]))
    if kind == NO_SINK:
        seen = seen & ((j >= SINK) | (i == j))
    if kind == UNIFORM:
        scores = torch.zeros_like(scores)
    if c["keep_first"]:
        scores = torch.where(j < SINK, clean, scores)
    return scores, seen


def by_profile(c, weights, seen):
    shares = torch.from_numpy(c["values"].reshape(22, 24))
    weights = weights.clone()
    for row in range(FAR, len(weights)):
        keys = seen[row].nonzero()[:, 0]
        group = torch.tensor([0 if j == 0 else 1 if j < SINK else 2 + distance_bin(row - j) for j in keys.tolist()])
        new = shares[distance_bin(row)][group] / torch.bincount(group, minlength=24)[group]
        weights[row] = 0
        weights[row, keys] = new / new.sum()
    return weights


class Changed:
    """A model whose heads are changed while it is inside; functions of its own files are replaced."""

    def __init__(self, model):
        of = {type(m).__module__ for m in model.modules() if hasattr(m, "q_proj") and hasattr(m, "layer_idx")}
        self.files = [sys.modules[name] for name in of if hasattr(sys.modules[name], "eager_attention_forward")]
        self.changes, self.first, self.turned = [], 0, None
        self.pairs = {}  # of layers that attended: those that turn

    def __enter__(self):
        self.own = [(f.apply_rotary_pos_emb, f.eager_attention_forward) for f in self.files]
        for file, (rotate, attend) in zip(self.files, self.own):
            file.apply_rotary_pos_emb = self.rotating(rotate)
            file.eager_attention_forward = self.attending(attend)
        return self

    def __exit__(self, *_):
        for file, (rotate, attend) in zip(self.files, self.own):
            file.apply_rotary_pos_emb, file.eager_attention_forward = rotate, attend

    def rotating(self, rotate):
        def call(q, k, cos, sin, *more, **options):
            def again(frozen, places):
                """Queries and keys with pairs that stand at position 0, and keys at other places."""
                here = torch.arange(q.shape[2])
                places = torch.from_numpy(places) if len(places) else here
                stays = torch.from_numpy(np.tile(frozen, 2)) if len(frozen) else torch.zeros(cos.shape[-1], dtype=torch.bool)
                made = []
                for at in (here, places):
                    tables = [torch.where(stays, t[:, :1], t[:, at]) for t in (cos, sin)]
                    made.append(rotate(q, k, *tables, *more, **options))
                return made[0][0], made[1][1]

            done = rotate(q, k, cos, sin, *more, **options)
            self.turned = again, done[0], cos.shape[-1] // 2
            return done
        return call

    def attending(self, attend):
        def call(module, q, k, v, mask, scaling, **options):
            out, weights = attend(module, q, k, v, mask, scaling=scaling, **options)
            turned, self.turned = self.turned, None
            self.pairs[module.layer_idx] = turned[2] if turned else 0
            seen = mask[0, 0, :, :k.shape[2]]
            seen = seen if seen.dtype == torch.bool else seen > -1e30
            for c in self.changes:
                if c["layer"] == module.layer_idx:
                    out = out.clone()
                    out[0, self.first:, c["head"]] = self.head(c, q, k, v, seen, scaling, turned)[self.first:]
            return out, weights
        return call

    def head(self, c, q, k, v, seen, scaling, turned):
        h, group = c["head"], q.shape[1] // k.shape[1]
        rows, keys, values = q[0, h], k[0, h // group], v[0, h // group]
        if c["kind"] == OUTPUT:
            means = torch.from_numpy(c["values"].reshape(22, -1)) if c["values"].size else torch.zeros(22, v.shape[-1])
            return means[[distance_bin(i) for i in range(len(rows))]].to(values.dtype)

        def other_places(frozen, places):
            if not turned:
                return rows @ keys.T * scaling
            again, before, _ = turned
            size = (q[0, h].norm(dim=-1) / before[0, h].norm(dim=-1))[:, None]  # of a scale by position
            new_q, new_k = again(frozen, places)
            return new_q[0, h] * size @ new_k[0, h // group].T * scaling

        if c["kind"] == DIRECTION:
            u = torch.from_numpy(c["values"])
            scores = (rows - c["part"] * torch.outer(rows @ u, u)) @ keys.T * scaling
            if c["keep_first"]:
                scores[:, :SINK] = (rows @ keys.T * scaling)[:, :SINK]
        else:
            scores, seen = other_scores(c, rows @ keys.T * scaling, seen, other_places)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        if c["kind"] == PROFILE:
            weights = by_profile(c, weights, seen)
        return weights @ values


def log_probabilities(model, tokens):
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, :-1].double().log_softmax(-1)


def each_kind(layer, head, pairs, dim, n, random):
    """{name: change}"""
    third = np.arange(pairs) * 3 // max(pairs, 1)
    unit = random.standard_normal(dim)
    unit /= np.linalg.norm(unit)
    blocks = np.concatenate([at + random.permutation(min(16, n - at)) for at in range(0, n, 16)])
    at = layer, head
    turning = {
        "freeze": change(*at, ROTATION, frozen=np.ones(pairs)), "freeze:fast": change(*at, ROTATION, frozen=third == 0),
        "freeze:middle": change(*at, ROTATION, frozen=third == 1), "freeze:slow": change(*at, ROTATION, frozen=third == 2),
        "freeze+first": change(*at, ROTATION, frozen=np.ones(pairs), keep_first=1),
        "shuffle": change(*at, ROTATION, positions=blocks),
        "shuffle+first": change(*at, ROTATION, positions=blocks, keep_first=1)}
    return (turning if pairs else {}) | {
        "remove": change(*at, OUTPUT), "mean": change(*at, OUTPUT, values=random.standard_normal(22 * dim) / 8),
        "profile": change(*at, PROFILE, values=random.random((22, 24)) ** 3), "window": change(*at, WINDOW, window=5),
        "window:kept": change(*at, WINDOW, window=3, kept=2), "no-sink": change(*at, NO_SINK), "uniform": change(*at, UNIFORM),
        "direction": change(*at, DIRECTION, part=1, values=unit)}


def check(path, tokens, folder):
    """Of all kinds in the first and the last layer that attends; of the last rows alone; of heads of two layers together."""
    model = load(path).double()
    random, n = np.random.default_rng(11), len(tokens)
    ids = torch.tensor(tokens)[1:]
    with Changed(model) as of:
        clean = log_probabilities(model, tokens)
        layers = sorted(of.pairs)
        text = model.config.get_text_config()
        heads = text.num_attention_heads
        dim = getattr(text, "head_dim", None) or text.hidden_size // heads
        trials = []
        for layer, head, suffix in ((layers[0], heads - 1, 0), (layers[0], 0, 25), (layers[-1], 1 % heads, 0)):
            trials += [(f"{name} in layer {layer}, last {suffix}", suffix, [c]) for name, c in
                       each_kind(layer, head, of.pairs[layer], dim, n, random).items()]
            if layer == layers[0] and not suffix:
                last = each_kind(layers[-1], 0, of.pairs[layers[-1]], dim, n, random)
                trials += [("two", suffix, [trials[0][2][0], last[name]]) for name in ("remove", "uniform")]
        trials.sort(key=lambda trial: trial[2][0]["layer"])
        rows = [[(-clean[torch.arange(n - 1), ids]).tolist(), None, None]]
        for name, suffix, of.changes in trials:
            of.first = n - suffix if suffix else 0
            own = log_probabilities(model, tokens)
            drift = (clean.exp() * (clean - own)).sum(1)
            rows.append([(-own[torch.arange(n - 1), ids])[of.first:].tolist(), drift[of.first:].tolist(), name])
    folder.mkdir()
    write_branches(folder / "branches.txt", [(0, suffix, changes) for _, suffix, changes in trials])
    assert all(math.isfinite(x) for row in rows for x in row[0])
    (folder / "losses.json").write_text(json.dumps(rows))


def main(folder, *models):
    folder = Path(folder)
    given = json.loads((folder / "tokens.json").read_text())
    for number, path in enumerate(models):
        check(path, given[path], folder / str(number))


if __name__ == "__main__":
    main(*sys.argv[1:])
