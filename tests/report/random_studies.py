# SPDX-License-Identifier: Apache-2.0
"""Studies drawn at random of which the truth is known: nothing goes on in them but what `effect` adds. Heads
that share keys resemble each other, and so do heads of one model."""
import numpy as np

CATEGORIES = np.array(["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"])
DRAWS = (lambda rng, n: rng.normal(size=n), lambda rng, n: rng.standard_t(4, n) / np.sqrt(2),
         lambda rng, n: rng.uniform(-np.sqrt(3), np.sqrt(3), n))  # mean 0, variance 1


class Study:
    """number() is of all heads of one model: mean 0 and variance 1, of which of_layers is what the heads of a layer have
    in common; what neighbouring layers have correlates by `neighbours`. of_models is the standard deviation of what all
    heads have in common. With kept, heads keep that share of their variance from model to model, in the order of the
    calls since next_model()."""

    def __init__(self, seed, layers, heads, group, of_models=0.0, kept=0.0, of_layers=0.0, neighbours=0.0):
        self.rng = np.random.default_rng(seed)
        self.draw = DRAWS[seed % len(DRAWS)]
        self.group, self.size = group, layers * heads
        self.layer = np.repeat(np.arange(layers), heads)
        self.head = np.tile(np.arange(heads), layers)
        self.of_models, self.kept, self.of_layers = of_models, kept, of_layers
        self.neighbours = neighbours
        self.first, self.calls = [], 0

    def next_model(self):
        self.calls = 0

    def fresh(self):
        own = self.draw(self.rng, self.size)
        shared = np.repeat(self.draw(self.rng, self.size // self.group), self.group)
        layers = self.draw(self.rng, self.layer[-1] + 1)
        for i in range(1, layers.size if self.neighbours else 0):
            layers[i] = self.neighbours * layers[i - 1] + np.sqrt(1 - self.neighbours ** 2) * layers[i]
        layers = np.repeat(layers, self.head[-1] + 1)
        return np.sqrt(self.of_layers) * layers + np.sqrt((1 - self.of_layers) / 2) * (own + shared)

    def number(self):
        value = self.fresh()
        self.calls += 1
        if self.kept and self.calls > len(self.first):
            self.first.append(value)
        if self.kept:
            value = np.sqrt(self.kept) * self.first[self.calls - 1] + np.sqrt(1 - self.kept) * (
                self.fresh() if self.of_layers else self.draw(self.rng, self.size))
        return value + self.of_models * self.rng.normal()


def write(folder, name, tables):
    """tables: a list per model of dicts of columns."""
    columns = list(tables[0])
    with open(folder / name, "w", encoding="utf-8") as file:
        file.write(",".join(columns) + "\n")
        for table in tables:
            cells = [v.tolist() if isinstance(v, np.ndarray) else [v] * len(table["layer"])
                     for v in table.values()]
            file.writelines(",".join(map(str, row)) + "\n" for row in zip(*cells))


def near_half(study):
    """Shares about 0.5, of which the median is as well."""
    return 0.5 + 0.4 * np.tanh(study.number())


def kinds(study):
    """Categories, which go with the layer as numbers do."""
    if not study.of_layers:
        return study.rng.choice(CATEGORIES, study.size)
    return CATEGORIES[np.argsort(np.argsort(study.number())) * len(CATEGORIES) // study.size]


def numbers_of_model(study):
    """Numbers of one model's heads without any effect."""
    out = {f"r_q{pc}": 0.5 + 0.1 * study.number() for pc in range(4)}
    out["r_k0"] = 0.5 + 0.1 * study.number()
    for name in ("mu_q_beta", "bias_strength", "ap_drop"):
        out[name] = study.number()
    for name in ("separation", "alpha_q", "alpha_k"):
        out[name] = np.exp(study.number())
    for name in ("positional_overhead", "plane_var_fraction", "separation_strength", "ev0",
                 "ap_overall", "r_squared_predicted", "slow_score_share"):
        out[name] = near_half(study)
    for name in ("category", "category_before", "category_after"):
        out[name] = kinds(study)
    return out


def tables_of_model(study, model, v):
    ids = {"model": model, "layer": study.layer, "q_head": study.head,
           "k_head": study.head // study.group}
    rows = {"n_q": 8000, "n_k": 8000}
    pick = lambda *names: {name: v[name] for name in names}
    qk = {name: np.repeat(column, 4) if isinstance(column, np.ndarray) else column
          for name, column in ids.items()}
    qk["pc"] = np.tile(np.arange(4), study.size)
    qk["explained_variance"] = 0.2
    qk["r_q"] = np.stack([v[f"r_q{pc}"] for pc in range(4)], 1).ravel()
    qk["r_k"] = np.stack([v["r_k0"]] * 4, 1).ravel()
    return {
        "qk.csv": qk | rows,
        "heads.csv": ids | pick("category", "ev0", "positional_overhead", "separation",
                                "mu_q_beta") | rows,
        "rotated.csv": ids | pick("alpha_q", "alpha_k", "bias_strength", "separation_strength",
                                  "plane_var_fraction") | rows,
        "head_metrics.csv": ids | pick("ap_overall", "ap_drop") | rows,
        "stages.csv": ids | pick("category_before", "category_after", "r_squared_predicted",
                                 "slow_score_share") | rows,
    }


def write_study(folder, seed, models=1, layers=12, heads=8, group=2, phases=(), of_layers=0.0, neighbours=0.0,
                effect=None):
    """A results folder. With phases models are checkpoints, whose heads keep most of their numbers; else
    three models make a family, and each has something of its own. effect(v, i, study) changes the numbers
    of model i."""
    study = Study(seed, layers, heads, group, 0.3 if models > 1 and not phases else 0.0,
                  0.9 if phases else 0.0, of_layers, neighbours)
    tables, listed, scores = [], [], []
    for i in range(models):
        study.next_model()
        v = numbers_of_model(study)
        if effect:
            effect(v, i, study)
        tables.append(tables_of_model(study, f"m{i}", v))
        listed.append((f"m{i}", f"Model {i}", f"F{i // 3}", phases[i] if phases else ""))
        scores.append((f"m{i}", 50 + 10 * study.rng.normal()))
    folder.mkdir(parents=True)
    for name in tables[0]:
        write(folder, name, [table[name] for table in tables])
    csv = lambda head, rows: "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"
    (folder / "models.csv").write_text(csv("model,label,family,phase", listed))
    if models >= 5 and not phases:
        (folder / "scores.csv").write_text(csv("model,score", scores))
    return folder
