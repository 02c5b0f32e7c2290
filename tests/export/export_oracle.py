# SPDX-License-Identifier: Apache-2.0
"""Captures of a few heads whose rows are known, and what each format makes of them, in NumPy: by rows, not by moments."""
import json

import numpy as np
from conftest import head_name, write_rows

LAYERS, QUERIES, GROUP, DIM, TEXTS, LENGTH = 2, 4, 2, 8, 3, 40
KEYS = QUERIES // GROUP
FREQUENCIES = [1.0, 0.3, 0.05, 0.004]


def make_rows(rng, dim=DIM, lift=1.0):
    """Every position of each text, in float32, with a mean."""
    scale = 1 + rng.random(dim)
    x = rng.standard_normal((TEXTS * LENGTH, dim)) * scale + lift * rng.standard_normal(dim)
    position = np.tile(np.arange(LENGTH), TEXTS)
    return {"vector": x.astype(np.float32), "position": position, "example_id": np.repeat(np.arange(TEXTS), LENGTH),
            "bucket": position // 16}


def make_heads(seed=7, dim=DIM, lift=1.0):
    rng = np.random.default_rng(seed)
    return {head_name(layer, head, kind): make_rows(rng, dim, lift) for layer in range(LAYERS)
            for kind, count in (("q", QUERIES), ("k", KEYS)) for head in range(count)}


def write_capture(folder, heads, stage="pre-rope", rope=None, **more):
    for name, rows in heads.items():
        write_rows(folder, name, rows)
    told = {"format": "qkscope-capture", "format_version": 1, "model": "org/made", "q_per_kv_group": GROUP, "num_layers": LAYERS,
            "complete": True, "stage": stage, "rope": rope if rope is not None else
            {"type": "default", "pairing": "half", "frequencies": {str(layer): FREQUENCIES for layer in range(LAYERS)}}, **more}
    (folder / "capture.json").write_text(json.dumps({k: v for k, v in told.items() if v is not None}))
    return folder


def rows_from(columns, first):
    return columns["vector"][columns["position"] >= first].astype(np.float64)


def kvpress_stats(heads, first=4):
    """(mean [L][Hq][d], covariance [L][Hq][d][d])"""
    rows = [[rows_from(heads[head_name(layer, head, "q")], first) for head in range(QUERIES)] for layer in range(LAYERS)]
    return (np.array([[x.mean(0) for x in layer] for layer in rows]),
            np.array([[np.cov(x, rowvar=False, ddof=1) for x in layer] for layer in rows]))


def turn(x, angles, interleaved):
    """Vectors [n][d] by angles [n][pairs]."""
    pairs, out = angles.shape[1], x.copy()
    a, b = (slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)) if interleaved else (slice(0, pairs), slice(pairs, 2 * pairs))
    out[:, a] = x[:, a] * np.cos(angles) - x[:, b] * np.sin(angles)
    out[:, b] = x[:, b] * np.cos(angles) + x[:, a] * np.sin(angles)
    return out


def duo_scores(heads, frequencies, scale, factor=1.0, length=500, interleaved=False, first=0):
    """kvpress's duo_attention_on_the_fly, of means over all texts: [L][Hk]. frequencies: by layer."""
    def repeated(name, layer):
        mean = rows_from(heads[name], first).mean(0)
        return factor * turn(np.tile(mean, (length, 1)), np.arange(length)[:, None] * np.asarray(frequencies[layer])[None, :], interleaved)
    scores = np.zeros((LAYERS, KEYS))
    for layer in range(LAYERS):
        for head in range(QUERIES):
            q = repeated(head_name(layer, head, "q"), layer)[-1]
            k = repeated(head_name(layer, head // GROUP, "k"), layer)
            logits = scale * (k @ q)
            weights = np.exp(logits - logits.max())
            scores[layer, head // GROUP] += np.cumsum(weights / weights.sum()).mean() / GROUP
    return scores


def q_filters(heads):
    """(filters [L][Hk][d], share of rows of each query head on the majority's side [L][Hq])"""
    filters, majority = np.zeros((LAYERS, KEYS, DIM)), np.zeros((LAYERS, QUERIES))
    for layer in range(LAYERS):
        for head in range(QUERIES):
            x = rows_from(heads[head_name(layer, head, "q")], 0)
            axis = np.linalg.svd(x, full_matrices=False)[2][0]
            side = x @ axis
            axis *= 1 if side.mean() > 0 else -1
            majority[layer, head] = max((side > 0).mean(), (side < 0).mean())
            filters[layer, head // GROUP] -= axis / GROUP
    return filters, majority


def write_ablation(folder, deltas, change="window:256:128", told=True, reach="", **more):
    """What qkscope ablate leaves, as far as an export looks at it. deltas: [L][Hq]; reach: "changed,changed_texts", where the version
    knows them."""
    folder.mkdir(parents=True, exist_ok=True)
    reach = f",{reach}" if reach else ""
    rows = ["layer,q_head,what,loss,delta" + (",changed,changed_texts" if reach else "")] + [f"{layer},{head},{what},2.5,{float(value + offset)!r}{reach}"
            for what, offset in (("remove", 1.0), (change, 0.0)) for (layer, head), value in np.ndenumerate(deltas)]
    (folder / "ablation.csv").write_text("\n".join(rows) + "\n")
    shape = {"num_layers": LAYERS, "num_q_heads": QUERIES, "num_k_heads": KEYS} if told else {}
    (folder / "manifest.json").write_text(json.dumps({"kind": "ablation", "model": "org/made", **shape, **more}))
    return folder
