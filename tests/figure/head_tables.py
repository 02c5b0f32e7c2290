# SPDX-License-Identifier: Apache-2.0
"""Tables of made-up heads, in a folder that `qkscope report` reads: some heads of each model, as captures have."""
import numpy as np
import pandas as pd

from figure_files import write_models

CATEGORIES = ["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"]
ELEVEN = [(f"model-{i}", 40, 64, 8) for i in range(11)]


def make_heads(folder, models, sample=None, seed=0, phases=None, title=None):
    """models: rows (name, layers, query heads, query heads per key head). Returns a table of all numbers."""
    rng = np.random.default_rng(seed)
    rows = []
    for name, layers, heads, group in models:
        places = [(layer, head) for layer in range(layers) for head in range(heads)]
        count = min(sample or len(places), len(places))
        chosen = sorted(rng.choice(len(places), count, replace=False))
        rows += [(name, *places[i], places[i][1] // group) for i in chosen]
    made = pd.DataFrame(rows, columns=["model", "layer", "q_head", "k_head"])
    n = len(made)
    made["r_q"] = rng.beta(3, 1.5, n)
    made["r_k"] = rng.uniform(-1, 1, n)
    made["category"] = rng.choice(CATEGORIES, n)
    made["bias_strength"] = rng.lognormal(-9, 1, n) * rng.choice([1, 1, 1, -1], n)
    for column in ("r_q_a", "r_k_a", "var_frac_a", "var_frac_b", "plane_var_fraction", "ap_overall",
                   "ap_first_20pct", "ap_last_20pct", "separation_strength"):
        made[column] = rng.uniform(0, 0.5, n)
    for column in ("alpha_q", "alpha_k", "mu_q_a"):
        made[column] = rng.normal(0, 1e-3, n)
    write_heads(folder, made, models, phases, title)
    return made


def write_heads(folder, made, models, phases=None, title=None):
    folder.mkdir(parents=True, exist_ok=True)
    keys = ["model", "layer", "q_head", "k_head"]
    made[[*keys, "r_q", "r_k"]].assign(pc=0, explained_variance=0.3).to_csv(folder / "qk.csv", index=False)
    made[[*keys, "category"]].to_csv(folder / "heads.csv", index=False)
    made[[*keys, "r_q_a", "r_k_a", "alpha_q", "alpha_k", "mu_q_a", "bias_strength", "separation_strength",
          "var_frac_a", "var_frac_b", "plane_var_fraction"]].to_csv(folder / "rotated.csv", index=False)
    made[[*keys, "ap_overall", "ap_first_20pct", "ap_last_20pct"]].to_csv(folder / "head_metrics.csv", index=False)
    names = [model[0] for model in models]
    write_models(folder, names, [(n, n.split("-")[0], phases[i] if phases else "") for i, n in enumerate(names)], title)
