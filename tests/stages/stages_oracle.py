# SPDX-License-Identifier: Apache-2.0
"""compare-stages again, in NumPy: every pair of rows one by one, from the definitions in
docs/methods.md#before-and-after-rope; and captures of rows before and after RoPE."""
import json

import numpy as np
from conftest import head_name, write_rows

LEAST_PAIRS = 30


# ---- rotation --------------------------------------------------------------------------------

def halves(dim, pairs, interleaved):
    """The two coordinates of each pair."""
    if interleaved:
        return np.arange(0, 2 * pairs, 2), np.arange(1, 2 * pairs, 2)
    return np.arange(pairs), np.arange(pairs, 2 * pairs)


def rotate(x, position, frequencies, interleaved=False, scale=1.0):
    first, second = halves(x.shape[1], len(frequencies), interleaved)
    angle = position[:, None] * np.asarray(frequencies)
    out = x.copy()
    out[:, first] = scale * (x[:, first] * np.cos(angle) - x[:, second] * np.sin(angle))
    out[:, second] = scale * (x[:, first] * np.sin(angle) + x[:, second] * np.cos(angle))
    return out


def write_stages(root, heads, frequencies, interleaved=None, scale=1.0, group=2, float64=True,
                 model="made"):
    """heads: name -> columns before RoPE. frequencies: a list, or lists by layer number. Returns
    the folder, which holds pre and post."""
    kind = np.float64 if float64 else np.float32
    for name, columns in heads.items():
        own = frequencies
        if isinstance(frequencies, dict):
            own = frequencies.get(str(int(name[1:3])), [])
        before = columns["vector"].astype(kind)
        after = rotate(before.astype(np.float64), columns["position"], own,
                       bool(interleaved), scale).astype(kind)
        write_rows(root / "pre", name, {**columns, "vector": before})
        write_rows(root / "post", name, {**columns, "vector": after})
    for stage in ("pre", "post"):
        manifest = {"format": "qkscope-capture", "format_version": 1, "model": model,
                    "q_per_kv_group": group, "complete": True, "stage": f"{stage}-rope"}
        if interleaved is not None:
            manifest["rope"] = {"pairing": "interleaved" if interleaved else "half"}
        if stage == "post":
            manifest["rope_frequencies"] = frequencies
        (root / stage / "capture.json").write_text(json.dumps(manifest))
    return root


def made_rows(rng, dim, texts=4, length=300, each=120, lift=1.0, window=None):
    """Some positions of each text, in no order; the coordinates have means of their own."""
    text = np.repeat(rng.choice(10 ** 6, texts, replace=False), each)
    position = np.concatenate([rng.choice(length, each, replace=False) for _ in range(texts)])
    mix = rng.permutation(texts * each)
    x = rng.standard_normal((texts * each, dim)) + lift * rng.standard_normal(dim)
    rows = {"vector": x, "position": position[mix], "example_id": text[mix],
            "bucket": position[mix] // 64}
    if window:
        rows["sliding_window"] = [window] * len(text)
    return rows


def made_heads(rng, dim, layers=1, queries=4, group=2, window=None, **options):
    heads = {}
    for layer in range(layers):
        texts = None
        for head in range(queries // group):
            heads[head_name(layer, head, "k")] = made_rows(rng, dim, **options)
            if texts is None:
                texts = np.unique(heads[head_name(layer, head, "k")]["example_id"])
        for head in range(queries):
            heads[head_name(layer, head, "q")] = made_rows(rng, dim, window=window, **options)
        for name, rows in heads.items():  # the same texts in all
            if name.startswith(f"l{layer:02d}"):
                own = np.unique(rows["example_id"])
                rows["example_id"] = texts[np.searchsorted(own, rows["example_id"])]
    return heads


# ---- the numbers -----------------------------------------------------------------------------

def bin_edges(last):
    edges, width = [0, 1, 2, 3], 4
    while width <= 2 * last + 4:
        edges += [width, width + width // 2]
        width *= 2
    return np.array(edges)


def first_component(q, k, tq, tk, low=0.3, high=0.7):
    pooled = np.concatenate([q, k])
    values, vectors = np.linalg.eigh(np.cov(pooled.T))
    axis = vectors[:, -1]

    def r(x, t):
        return float(np.corrcoef(x @ axis, t)[0, 1])
    r_q, r_k = r(q, tq), r(k, tk)
    sign = -1 if (r_q if abs(r_q) >= 0.05 else r_k) < 0 else 1
    r_q, r_k = sign * r_q, sign * r_k
    category = "mixed"
    if r_q > high:
        category = ("position-dominated" if abs(r_k) > high else
                    "Q-positional" if abs(r_k) < low else category)
    elif r_q < low:
        category = ("K-positional" if abs(r_k) > high else
                    "content-focused" if abs(r_k) < low else category)
    return r_q, r_k, float(values[-1] / values.sum()), category


def pair_rows(q, k):
    """Query and key of every pair that a causal query sees: indices and distances."""
    for text in np.unique(q["example_id"]):
        i, j = (np.flatnonzero(rows["example_id"] == text) for rows in (q, k))
        distance = q["position"][i][:, None] - k["position"][j][None]
        seen = distance >= 0
        window = np.asarray(q["sliding_window"])[i]
        seen &= (window[:, None] <= 0) | (distance < window[:, None])
        a, b = np.nonzero(seen)
        yield text, i[a], j[b], distance[a, b]


def curve_of(q, k, frequencies):
    """Per bin: pairs, mean score, error, mean distance, mean turns; and how many texts."""
    pairs = list(pair_rows(q, k))
    last = max((d.max(initial=0) for *_, d in pairs), default=0)
    edges = bin_edges(last)
    n = len(edges) - 1
    scores, counts = np.zeros((len(pairs), n)), np.zeros((len(pairs), n))
    distances, turns = np.zeros(n), np.zeros((n, len(frequencies)), complex)
    for x, (_, i, j, distance) in enumerate(pairs):
        bins = np.searchsorted(edges, distance, "right") - 1
        score = np.einsum("ij,ij->i", q["after"][i], k["after"][j])
        scores[x] = np.bincount(bins, score, n)[:n]
        counts[x] = np.bincount(bins, minlength=n)[:n]
        distances += np.bincount(bins, distance, n)[:n]
        for p, omega in enumerate(frequencies):
            turns[:, p] += (np.bincount(bins, np.cos(omega * distance), n)
                            + 1j * np.bincount(bins, np.sin(omega * distance), n))[:n]
    if "text_id" in q:  # of examples that are windows of one text
        text_of = dict(zip(q["example_id"], q["text_id"]))
        texts = np.array([text_of[example] for example, *_ in pairs])
        scores, counts = (np.array([of[texts == t].sum(0) for t in np.unique(texts)]) for of in (scores, counts))
    total = counts.sum(0)
    rows = []
    for b in np.flatnonzero(total):
        mean = scores[:, b].sum() / total[b]
        used = int((counts[:, b] > 0).sum())
        error = None
        if used > 1:
            error = np.sqrt(used / (used - 1)
                            * ((scores[:, b] - mean * counts[:, b]) ** 2).sum()) / total[b]
        rows.append({"bin": int(b), "first": int(edges[b]), "last": int(edges[b + 1]) - 1,
                     "distance": distances[b] / total[b], "measured": mean,
                     "standard_error": error, "pairs": int(total[b]), "texts": used,
                     "turns": turns[b] / total[b]})
    return rows, int((counts.sum(1) > 0).sum())


def head_numbers(q, k, frequencies, interleaved=False):
    """(row of stages.csv, rows of rope_pairs.csv, rows of score_by_distance.csv). q and k have
    `vector` before RoPE and `after`."""
    omega = np.asarray(frequencies, float)
    dim = q["vector"].shape[1]
    first, second = halves(dim, len(omega), interleaved)
    z = {side: rows["vector"][:, first] + 1j * rows["vector"][:, second]
         for side, rows in (("q", q), ("k", k))}
    mean = {side: z[side].mean(0) for side in z}
    energy = {side: (np.abs(z[side]) ** 2).mean(0) for side in z}
    total = {side: (rows["vector"] ** 2).sum(1).mean() for side, rows in (("q", q), ("k", k))}
    turned = {side: rotate(rows["vector"], rows["position"], omega, interleaved)
              for side, rows in (("q", q), ("k", k))}
    width = 2 * len(omega)
    scale, deviation = {}, 0.0
    for side, rows in (("q", q), ("k", k)):
        def factors(part):
            a, b = turned[side][:, part], rows["after"][:, part]
            return (a * b).sum(1) / (a * a).sum(1)
        factor = factors(slice(width))
        scale[side] = factor.mean()
        off = np.abs(rows["after"][:, :width] - factor[:, None] * turned[side][:, :width])
        if width < dim:
            rest = factors(slice(width, dim))
            off = np.concatenate([off, np.abs(rows["after"][:, width:] - rest[:, None]
                                              * turned[side][:, width:])], axis=1)
        deviation = max(deviation,
                        (off.max(1) / np.linalg.norm(rows["after"], axis=1)).max())
    amplitude = mean["q"] * np.conj(mean["k"])
    curve, texts = curve_of(q, k, omega)
    constant = float(q["after"][:, width:].mean(0) @ k["after"][:, width:].mean(0))
    parts = np.array([(scale["q"] * scale["k"] * amplitude * row["turns"]).real
                      for row in curve]).reshape(len(curve), len(omega))
    for row, part in zip(curve, parts):
        row["predicted"] = part.sum() + constant
    used = [i for i, row in enumerate(curve) if row["pairs"] >= LEAST_PAIRS]
    m, p = (np.array([curve[i][c] for i in used]) for c in ("measured", "predicted"))
    dm, dp = m - m.mean(), p - p.mean()
    shares = ((parts[used] - parts[used].mean(0)) * dp[:, None]).sum(0) / (dp ** 2).sum()
    errors = [curve[i]["standard_error"] for i in used]
    wavelength = np.array([2 * np.pi / w if w > 0 else np.inf for w in omega])
    context = int(max(q["position"].max(), k["position"].max())) + 1
    slow = wavelength > context
    top = int(np.argmax(shares))
    numbers = {"r_squared_predicted": 1 - ((dm - dp) ** 2).sum() / (dm ** 2).sum(),
               "curve_r": float(np.corrcoef(m, p)[0, 1]),
               "chance_share": None if None in errors
               else float(np.sum(np.square(errors)) / (dm ** 2).sum()),
               "measured_mean": m.mean(), "measured_sd": m.std(), "predicted_mean": p.mean(),
               "predicted_sd": p.std(), "top_pair": top,
               "top_wavelength": wavelength[top], "top_share": shares[top],
               "context": context, "slow_pairs": int(slow.sum()),
               "slow_energy_q": (energy["q"] / total["q"])[slow].sum(),
               "slow_energy_k": (energy["k"] / total["k"])[slow].sum(),
               "slow_score_share": shares[slow].sum(),
               "rotation_deviation": deviation, "scale_q": scale["q"], "scale_k": scale["k"],
               "n_q": len(q["position"]), "n_k": len(k["position"]), "texts": texts,
               "row_pairs": sum(row["pairs"] for row in curve)}
    for when, column in (("before", "vector"), ("after", "after")):
        r_q, r_k, share, category = first_component(q[column], k[column], q["position"],
                                                    k["position"])
        numbers |= {f"r_q_{when}": r_q, f"r_k_{when}": r_k, f"category_{when}": category,
                    f"explained_variance_{when}": share}
    pairs = [{"pair": i, "wavelength": wavelength[i] if omega[i] > 0 else None,
              "energy_q": energy["q"][i] / total["q"], "energy_k": energy["k"][i] / total["k"],
              "concentration_q": abs(mean["q"][i]) ** 2 / energy["q"][i],
              "concentration_k": abs(mean["k"][i]) ** 2 / energy["k"][i],
              "mean_q": abs(mean["q"][i]), "mean_k": abs(mean["k"][i]),
              "phase": float(np.angle(amplitude[i])), "score_share": shares[i]}
             for i in range(len(omega))]
    return numbers, pairs, curve
