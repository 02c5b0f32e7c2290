# SPDX-License-Identifier: Apache-2.0
"""Studies of made-up heads whose figures hold what their tables say: data and labels. Some heads have no
numbers, some keys point the other way, some categories are missing."""
import sys

import numpy as np
import pytest

from conftest import ROOT
from figure_files import cells, chart, draw, panels, svg_texts, told

sys.path.insert(0, str(ROOT / "tests" / "report"))
from made_tables import CATEGORIES, IDS, components, make_heads, write_csv, write_results  # noqa: E402

ATTENTION = ["sink_mass", "near_mass", "self_mass", "previous_mass", "induction_mass", "far_information",
             "distance_share", "mean_distance", "distance_slope", "far_mass"]
PHASES = ["warm"] + ["main"] * 4 + ["decay"] * 2 + ["long context"] * 3
SIZES = dict(pcs=10, buckets=9, bins=9, dim=16)


def change(row, rng):
    """Of one head in twelve no numbers of PCA, of another none of the rotation model, of another none of the rest."""
    row["r_k"] *= rng.choice([1, 1, 1, -1])
    row["r_k_a"] *= rng.choice([1, 1, 1, -1])
    row["alpha_k"] *= rng.choice([1, 1, -1])
    row["bias_strength"] -= 2e-3 * (row["layer"] == 2)
    row |= {name: rng.random() for name in ATTENTION}
    row["distance_slope"] *= -1e-4
    row["ap_first_20pct"] = 0.7 - 0.1 * rng.random()
    missing = rng.randrange(12)
    if missing == 0:
        row |= {"r_q": None, "r_k": None, "ev0": None, "category": ""}
    if missing == 1:
        row |= dict.fromkeys(("r_q_a", "r_k_a", "alpha_q", "alpha_k", "mu_q_a", "bias_strength", "separation_strength",
                              "var_frac_a", "var_frac_b", "plane_var_fraction"))
    if missing == 2:
        row |= dict.fromkeys(("ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop", *ATTENTION))


class Study:
    """Rows (label, family, phase) of models with their layers; heads are dicts with all their numbers."""

    def __init__(self, qkscope, folder, models, layers, heads, scores=None, title=None, tables=("pca", "rotation", "plasticity"),
                 change=change, options=()):
        self.models = models
        self.labels_of_models = [label for label, _, _ in models]
        self.families = list(dict.fromkeys(family for _, family, _ in models))
        self.by_model = [make_heads(f"name{m}", layers[m % len(layers)], heads, 2, seed=m, change=change)
                         for m in range(len(models))]
        self.heads = [row for rows in self.by_model for row in rows]
        listed = [dict(model=f"name{m}", label=label, family=family, phase=phase) for m, (label, family, phase) in enumerate(models)]
        write_results(folder, self.heads, listed, scores, tables, **SIZES)
        if ATTENTION[0] in self.heads[0]:
            write_csv(folder / "attention.csv", IDS + ATTENTION, self.heads)
        if title:
            (folder / "manifest.json").write_text(f'{{"title": "{title}"}}')
        self.folder, self.figures = folder, draw(qkscope, folder, *options)

    def components(self):
        return [part for row in self.heads for part in components(row, SIZES["pcs"])]

    def told(self, name):
        return told(self.figures / name)

    def panels(self, name, key="panel"):
        return panels(self.figures / name, key)

    def chart(self, name):
        return chart(self.figures / name)

    def cells(self, name):
        return [cells(panel) for panel in self.panels(name)]

    def labels(self, name):
        return svg_texts(self.figures / name)

    def names(self):
        return sorted(path.stem for path in self.figures.glob("*.svg"))


DRAWN = {}  # by name: several files of tests look at them


def study(name, of_models, *layers, **options):
    """A fixture of a study that is drawn once."""
    @pytest.fixture(scope="module", name=name)
    def made(qkscope, tmp_path_factory):
        if name not in DRAWN:
            DRAWN[name] = Study(qkscope, tmp_path_factory.mktemp(name), of_models, layers, 4, **options)
        return DRAWN[name]
    return made


# Seven models of three families, of unlike sizes; ten checkpoints in four phases; one model.
cross = study("cross", [(f"model-{m}", f"Family {'AABBBCC'[m]}", "") for m in range(7)], 6, 9, 12, 7, title="Seven models")
training = study("training", [(f"step-{m}", "tiny", phase) for m, phase in enumerate(PHASES)], 5)
alone = study("alone", [("alone", "alone", "")], 12)


# ---- what figures should hold ----------------------------------------------------------------

def values(rows, name, size=False):
    """A column, nan where there is no number; without its sign if size."""
    column = np.array([np.nan if row.get(name) is None else row[name] for row in rows], float)
    return np.abs(column) if size else column


def known(rows, *names):
    """The rows of numbers of heads that have all of them."""
    columns = np.column_stack([values(rows, name) for name in names])
    return columns[np.isfinite(columns).all(axis=1)]


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-5, atol=1e-8)
