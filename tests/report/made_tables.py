# SPDX-License-Identifier: Apache-2.0
"""Results folders made up for tests and benchmarks of the report: plausible numbers, all tables, the
truth known."""
import csv
import math
import random
from pathlib import Path

CATEGORIES = ("position-dominated", "Q-positional", "K-positional", "content-focused", "mixed")
IDS = ["model", "layer", "q_head", "k_head"]


def classify(r_q, r_k, low=0.3, high=0.7):
    r_k = abs(r_k)
    if r_q > high and r_k > high:
        return CATEGORIES[0]
    if r_q > high and r_k < low:
        return CATEGORIES[1]
    if r_q < low and r_k > high:
        return CATEGORIES[2]
    return CATEGORIES[3] if r_q < low and r_k < low else CATEGORIES[4]


def head_numbers(rng, depth, scale=1.0):
    """One head; `scale` shifts a model's bias and slopes."""
    r_q = min(0.99, max(-0.04, rng.betavariate(5, 1.6) - 0.2 * depth))
    r_k = min(0.99, max(-0.99, r_q - 0.12 + rng.gauss(0, 0.15)))
    drop = 0.12 + rng.gauss(0, 0.08)
    separation = rng.betavariate(3, 5)
    numbers = {
        "r_q": r_q, "r_k": r_k, "p_q": 10 ** rng.uniform(-300, -2), "p_k": 0.0,
        "mu_q": rng.gauss(4, 2), "mu_k": rng.gauss(-4, 2), "alpha": rng.gauss(2e-3, 5e-4),
        "beta": rng.gauss(3e-3, 5e-4), "ev0": rng.betavariate(3, 9),
        "pos_var_q": rng.betavariate(2, 9), "pos_var_k": rng.betavariate(2, 12),
        "pos_var_q_pc0_share": rng.betavariate(9, 2), "lin_var_q": rng.betavariate(2, 8),
        "lin_var_k": rng.betavariate(2, 9), "positional_overhead": rng.betavariate(2, 9),
        "separation": rng.lognormvariate(1.5, 0.7), "fisher": rng.lognormvariate(0, 1),
        "position_r": abs(r_q), "r_q_a": r_q, "r_k_a": r_k,
        "alpha_q": rng.gauss(2e-3, 6e-4), "alpha_k": rng.gauss(3e-3, 7e-4),
        "mu_q_a": rng.gauss(1, 0.4), "mu_k_a": rng.gauss(1, 0.4), "mu_q_b": rng.gauss(2, 1),
        "mu_k_b": rng.gauss(-2, 1), "bias_strength": scale * rng.gauss(8e-4, 4e-4),
        "separation_strength": separation, "var_frac_a": rng.betavariate(2, 12),
        "var_frac_b": rng.betavariate(3, 12), "content_var_b": rng.lognormvariate(0, 0.5),
        "residual_pos_r": 1e-14, "omega": rng.uniform(1e-5, 1e-3),
        "omega_r_squared": rng.betavariate(4, 3), "q_R2_pos": rng.betavariate(2, 9),
        "beta_norm": rng.lognormvariate(-6, 0.5), "q_R2_scalar": rng.betavariate(5, 3),
        "q_mae_ratio": rng.betavariate(5, 4), "ap_overall": 0.62 - drop / 2,
        "ap_first_20pct": 0.7, "ap_last_20pct": 0.7 - drop, "ap_drop": drop,
    }
    numbers["mu_q_beta"] = numbers["mu_q"] * numbers["beta"]
    numbers["alpha_beta"] = numbers["alpha"] * numbers["beta"]
    numbers["plane_var_fraction"] = numbers["var_frac_a"] + numbers["var_frac_b"]
    return numbers


def make_heads(model, layers, heads, group=4, seed=0, change=None):
    """Rows of one model as dicts with every number; change(numbers, row, rng) may alter them."""
    rng = random.Random(repr((model, seed)))
    rows = []
    for layer in range(layers):
        for head in range(heads):
            row = {"model": model, "layer": layer, "q_head": head, "k_head": head // group}
            row |= head_numbers(rng, layer / max(layers - 1, 1))
            if change:
                change(row, rng)
            if "category" not in row:
                row["category"] = classify(row["r_q"], row["r_k"])
            rows.append(row)
    return rows


def number(value):
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return value if isinstance(value, str) else repr(value)


def write_csv(path, columns, rows):
    with open(path, "w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows([number(row.get(column)) for column in columns] for row in rows)


QK = ["pc", "explained_variance", "r_q", "r_k", "p_q", "p_k", "mu_q", "mu_k", "alpha", "beta",
      "sd_q", "sd_k", "n_q", "n_k"]
HEADS = ["category", "category_probability", "ev0", "pos_var_q", "pos_var_k", "pos_var_q_pc0_share", "lin_var_q",
         "lin_var_k", "positional_overhead", "separation", "fisher", "lda_accuracy", "mu_q_beta",
         "alpha_beta", "n_q", "n_k", "d", "texts", "effective_texts", "r_q_width"]
ROTATED = ["position_r", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "mu_q_a", "mu_k_a", "mu_q_b",
           "mu_k_b", "bias_strength", "separation_strength", "var_frac_a", "var_frac_b",
           "plane_var_fraction", "content_var_b", "residual_pos_r", "omega", "omega_r_squared",
           "n_q", "n_k"]
METRICS = ["n_q", "n_k", "d", "sliding_window", "bucket_width", "q_R2_pos", "beta_norm",
           "q_R2_scalar", "q_mae_baseline", "q_mae_proj", "q_mae_ratio", "q_resid0_skew",
           "q_resid0_kurt", "q_resid0_ks_p", "q_noise_med_abs_skew", "q_noise_med_abs_kurt",
           "q_noise_med_ks_p", "q_noise_frac_ks_p_lt_alpha", "ap_overall", "ap_first_20pct",
           "ap_last_20pct", "ap_drop"]
COUNTS = {"n_q": 8000, "n_k": 8000, "d": 128, "sd_q": 1.0, "sd_k": 1.0, "bucket_width": 8192}


def components(row, count):
    """Rows of qk.csv: PC0 as in the head, the others fainter. A list row["others"] sets r_q."""
    rng = random.Random(repr([row[c] for c in IDS]))
    out = []
    for pc in range(count):
        one = {**{c: row[c] for c in IDS}, **COUNTS, "pc": pc, **{c: row[c] for c in QK[4:10]}}
        one["explained_variance"] = None if row["ev0"] is None else row["ev0"] * 0.7 ** pc
        one["r_q"] = row["r_q"] if pc == 0 else rng.betavariate(2, 6)
        if pc > 0 and "others" in row:
            one["r_q"] = row["others"]
        one["r_k"] = row["r_k"] if pc == 0 else rng.uniform(-0.4, 0.4)
        out.append(one)
    return out


def profile(row, buckets):
    """Of heads 1 a bucket is missing; queries of heads are at places of their own."""
    rng = random.Random(repr([row[c] for c in IDS]))
    for bucket in [b for b in range(1, buckets) if b != 3 or row["q_head"] != 1]:
        yield {**{c: row[c] for c in IDS}, "q_bucket": bucket, "position": (bucket + 0.5 + 0.1 * rng.random()) * 8192.0,
               "n_queries": 500, "n_pairs": 4000,
               "ap": 0.7 - (row["ap_drop"] or 0) * bucket / buckets}


def distances(row, bins):
    rng = random.Random(row["layer"] * 1000 + row["q_head"])
    for lag in range(bins):
        for distance in range(bins - lag):
            yield {**{c: row[c] for c in IDS}, "distance_bin": distance, "lag_bin": lag,
                   "n_pairs": rng.randint(1, 1000), "ap": min(1, max(0, 0.75 - 0.02 * distance - 0.01 * lag
                                                    + rng.gauss(0, 0.02)))}


def weights(row, dim):
    rng = random.Random(row["layer"] * 77 + row["q_head"])
    raw = [rng.random() ** 3 for _ in range(dim)]
    for component, value in enumerate(raw):
        yield {**{c: row[c] for c in IDS}, "component": component, "component_r2": value,
               "component_weight": value / sum(raw)}


def write_results(folder, rows, models=None, scores=None, tables=("pca", "rotation", "plasticity"),
                  pcs=10, buckets=16, bins=16, dim=128):
    """All tables of the heads `rows`; models: rows of models.csv; scores: rows of scores.csv."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{**COUNTS, **row} for row in rows]
    many = lambda make, *args: (one for row in rows for one in make(row, *args))
    if "pca" in tables:
        write_csv(folder / "qk.csv", IDS + QK, many(components, pcs))
        write_csv(folder / "heads.csv", IDS + HEADS, rows)
    if "rotation" in tables:
        write_csv(folder / "rotated.csv", IDS + ROTATED + ["bias_over_context"] * ("bias_over_context" in rows[0]), rows)
    if "plasticity" in tables:
        write_csv(folder / "head_metrics.csv", IDS + METRICS, rows)
        write_csv(folder / "head_profile.csv",
                  IDS + ["q_bucket", "position", "n_queries", "n_pairs", "ap"],
                  many(profile, buckets))
        write_csv(folder / "head_distance.csv",
                  IDS + ["distance_bin", "lag_bin", "n_pairs", "ap"], many(distances, bins))
        write_csv(folder / "head_component_weights.csv",
                  IDS + ["component", "component_r2", "component_weight"], many(weights, dim))
    if models:
        write_csv(folder / "models.csv", ["model", "label", "family", "phase", "source"]
                  + [more for more in ("same_as", "text_tokens") if more in models[0]], models)
    if scores:
        write_csv(folder / "scores.csv", list(scores[0]), scores)
    return folder


CROSS_MODEL = [
    ("qwen3-0.6b", "Qwen3-0.6B", "Qwen3"), ("qwen3-1.7b", "Qwen3-1.7B", "Qwen3"),
    ("qwen3-4b", "Qwen3-4B", "Qwen3"), ("qwen3-8b", "Qwen3-8B", "Qwen3"),
    ("qwen3-14b", "Qwen3-14B", "Qwen3"), ("llama3.2-1b", "Llama-3.2-1B", "Llama 3.2"),
    ("llama3.2-3b", "Llama-3.2-3B", "Llama 3.2"), ("llama3.2-11b", "Llama-3.2-11B", "Llama 3.2"),
    ("ministral3-3b", "Ministral3-3B", "Ministral3"),
    ("ministral3-8b", "Ministral3-8B", "Ministral3"),
    ("ministral3-14b", "Ministral3-14B", "Ministral3"),
]


def write_cross_model(folder, heads=300, **options):
    """Eleven models of about `heads` heads (3,239 in all for 295) in three families, with scores."""
    rows, scores = [], []
    for i, (name, label, family) in enumerate(CROSS_MODEL):
        sign = {"Qwen3": 1, "Llama 3.2": -1, "Ministral3": 0}[family]

        def change(row, rng, sign=sign):
            row["bias_strength"] += sign * 1.2e-3 * (row["separation_strength"] - 0.375)

        layers = 20
        rows += make_heads(name, layers, -(-heads // layers), 5, seed=i, change=change)[:heads]
        scores.append({"model": name, "family": family, "longbench_pro_overall": 40 - 2 * i})
    models = [{"model": n, "label": lab, "family": f} for n, lab, f in CROSS_MODEL]
    return write_results(folder, rows, models, scores, **options)
