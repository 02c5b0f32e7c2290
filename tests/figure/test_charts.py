# SPDX-License-Identifier: Apache-2.0
"""Figures that are charts show means, shares and quartiles of the tables: over models, checkpoints, layers, components."""
import numpy as np
import pytest

from drawn_studies import Study, alone, close, cross, known, training, values  # noqa: F401
from figure_files import drawn
from svg_pictures import Picture
from made_tables import CATEGORIES, weights

APART = "plasticity-06-by-model"  # never of checkpoints
MODELS = [APART, "rotation-02-drift-correlation", "rotation-03-variance-shares", "rotation-05-slope-ratio"]


# ---- a number or a few of each model, by hand --------------------------------------------------

def mean(name, size=False):
    return lambda rows: [np.nanmean(values(rows, name, size))]


def deviation(name, low, high, size=False):
    def of(rows):
        v = values(rows, name, size)
        middle, spread = np.nanmean(v), np.nanstd(v, ddof=1)
        return [middle, max(low, middle - spread), min(high, middle + spread)]
    return of


def quartiles(name, size=False):
    def of(rows):
        v = values(rows, name, size)
        return [np.nanmean(v), *np.nanpercentile(v, [25, 75, 50])]
    return of


def shares(rows):
    a, b = known(rows, "var_frac_a", "var_frac_b").mean(axis=0)
    return [a, b, 1 - a - b]


def slope_ratio(rows):
    return [np.nanmedian(np.abs(values(rows, "alpha_k") / values(rows, "alpha_q")))]


def kinds(rows):
    of_heads = [row["category"] for row in rows if row["category"]]
    return [of_heads.count(kind) / len(of_heads) for kind in CATEGORIES]


FIRST_AND_LAST = [mean("ap_first_20pct"), mean("ap_last_20pct")]
CHARTS = {  # the numbers of each panel, and its labels
    "rotation-02-drift-correlation": ([[mean("r_q_a", True), mean("r_k_a", True)]], ["queries", "keys", "Mean |r| with position"]),
    "rotation-03-variance-shares": ([[shares]], ["axis a (drift)", "axis b (separation)", "complement", "Mean share of variance"]),
    "rotation-05-slope-ratio": ([[slope_ratio]], ["Median |αk| / |αq|"]),
    "plasticity-04-trajectory": ([FIRST_AND_LAST, [mean("bias_strength")]],
                                 ["first 20 % of the context", "last 20 %", "drop", "bias strength"]),
    APART: ([FIRST_AND_LAST, [mean("ap_drop")]], ["first 20 % of the context", "last 20 %", "drop", "Attention plasticity"]),
    "pca-07-position-signal": ([[deviation("r_q", -1, 1), deviation("r_k", -1, 1, True)]],
                               ["rq, mean ± 1 sd", "|rk|, mean ± 1 sd", "Pearson r with position"]),
    "pca-08-taxonomy": ([[kinds]], [*CATEGORIES, "Share of heads"]),
    "pca-09-pc0-variance": ([[deviation("ev0", 0, 1)]], ["mean ± 1 sd", "Share of variance"]),
    "rotation-09-training-metrics": ([[quartiles("r_k_a", True)], [quartiles("separation_strength")], [quartiles("bias_strength")],
                                      [quartiles("plane_var_fraction")]],
                                     ["|rk| on axis a", "Separation strength", "Mean over heads", "quartiles", "median"]),
    "rotation-10-bias-decomposition": ([[quartiles("mu_q_a")], [quartiles("alpha_k")], [quartiles("bias_strength")]],
                                       ["Mean of queries on axis a, μaq", "Drift of keys, αk × 103", "Bias strength μaq αk × 103"]),
}


@pytest.mark.cases(12)
@pytest.mark.parametrize("study, name", [("training", name) for name in CHARTS if name != APART] + [("cross", name) for name in MODELS])
def test_numbers_of_models(request, study, name):
    study = request.getfixturevalue(study)
    panels, said = CHARTS[name]
    for block, parts in zip(study.chart(name), panels, strict=True):
        close(block, [[number for part in parts for number in part(rows)] for rows in study.by_model])
    assert list(dict.fromkeys(row["x"] for row in study.told(name))) == study.labels_of_models
    labels, phases = study.labels(name), list(dict.fromkeys(phase for *_, phase in study.models if phase))
    assert {*said, *study.labels_of_models, *phases, "Training checkpoint" if phases else "Model"} <= set(labels)
    if phases and name != "rotation-05-slope-ratio":
        lines = [(x0, y0) for x0, y0, x1, y1 in Picture(study.figures / name).dashed() if x0 == x1 and y0 != y1]
        assert len(lines) == 3 * len(panels), "upright lines part four phases"


def test_colours_are_those_of_families_or_phases(cross, training):
    for study, group in (cross, 1), (training, 2):
        picture = Picture(study.figures / "rotation-05-slope-ratio")
        bars = [bar["fill"] for bar in picture.shapes("rect") if float(bar["width"]) > 14 and float(bar["height"]) < picture.height]
        colors = bars[-len(study.models):]
        of_group = {model[group]: color for model, color in zip(study.models, colors)}
        assert colors == [of_group[model[group]] for model in study.models] and len(set(colors)) == len(of_group)


def test_numbers_of_components(cross):
    by_component = [[part for part in cross.components() if part["pc"] == pc] for pc in range(10)]
    for name, columns, said in (("pca-01-pc-roles", [mean("r_q"), mean("r_k", True)], ["rq", "|rk|", "Mean Pearson r with position"]),
                                ("pca-05-explained-variance", [mean("explained_variance")], ["Mean share of variance"])):
        close(cross.chart(name)[0], [[number for of in columns for number in of(parts)] for parts in by_component])
        assert {*said, "Principal component", "PC0", "PC9"} <= set(cross.labels(name))


def test_numbers_of_dimensions(cross):
    table = [row for head in cross.by_model[1] for row in weights(head, 16)]
    expected = [[np.mean([row["component_weight"] for row in table if row["component"] == i])] for i in range(16)]
    close(cross.chart("plasticity-03-component-weights-name1")[0], expected)
    assert {"Query dimension", "Share of positional information"} <= set(cross.labels("plasticity-03-component-weights-name1"))


def test_curves_over_layers(alone):
    """Of one model: mean, quartiles and median of each layer."""
    shown = ["r_q", "r_k", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "var_frac_a", "var_frac_b", "bias_strength",
             "ap_first_20pct", "ap_last_20pct"]
    curves = [part[:, range(i, i + 4)] for part in alone.chart("map-07-layer-curves") for i in range(0, part.shape[1], 4)]
    layers = sorted({row["layer"] for row in alone.heads})
    for name, found in zip(shown, curves, strict=True):
        size = name.startswith(("alpha", "r_q_a", "r_k"))
        close(found, [quartiles(name, size)([row for row in alone.heads if row["layer"] == layer]) for layer in layers])
    [means, *_] = alone.chart("attention-13-layer-curves")
    close(means[:, 0], [np.nanmean(values([r for r in alone.heads if r["layer"] == layer], "sink_mass"))
                                      for layer in layers])


def test_map_of_layers(alone):
    """Of one model: a row for each number, a column for each layer."""
    shown = ["r_q", "r_k", "r_k_a", "plane_var_fraction", "ap_overall", "sink_mass", "distance_share"]
    cells = alone.told("map-08-layers")
    layers = sorted({row["layer"] for row in alone.heads})
    for name, label in zip(shown, dict.fromkeys(cell["y"] for cell in cells), strict=True):
        found = {int(cell["x"]): float(cell["value"]) for cell in cells if cell["y"] == label}
        of = [values([row for row in alone.heads if row["layer"] == layer], name) for layer in layers]
        close([found[layer] for layer in layers], [np.nanmean(np.abs(v) if name.startswith("r_k") else v) for v in of])


# ---- which figures there are -------------------------------------------------------------------

def test_which_figures(cross, training, alone):
    """What compares models is not drawn of one, nor what is over checkpoints of models side by side."""
    of_training = {"pca-07-position-signal", "pca-08-taxonomy", "pca-09-pc0-variance", "pca-12-phase-portraits",
                   "plasticity-04-trajectory", "rotation-09-training-metrics", "rotation-10-bias-decomposition"}
    comparing = {"pca-03-layer-heatmap-rq", "pca-04-layer-heatmap-rk", "rotation-02-drift-correlation",
                 "rotation-03-variance-shares", "rotation-05-slope-ratio", "rotation-06-layer-heatmaps",
                 "attention-14-layer-heatmaps"}
    everywhere = {f"map-0{i}-{name}" for i, name in enumerate(("r-q", "r-k", "bias", "plane-variance", "plasticity", "category"), 1)}
    shared = set(cross.names()) & set(training.names()) & set(alone.names())
    assert everywhere | {"pca-01-pc-roles", "pca-02-rq-rk-scatter", "rotation-04-bias-histograms"} <= shared
    assert set(training.names()) - {*cross.names(), *training_models(training)} == of_training
    assert comparing <= set(cross.names()) and not comparing & set(alone.names())
    assert {"map-07-layer-curves", "map-08-layers", "attention-13-layer-curves"} <= set(alone.names()) - set(cross.names())
    assert "plasticity-06-by-model" in cross.names() and "plasticity-06-by-model" not in training.names()


def training_models(training):
    return {name for name in training.names() if name.startswith(("plasticity-01", "plasticity-02", "plasticity-03"))}


def degenerate(value):
    def change(row, rng):
        row |= {name: value for name, number in row.items() if isinstance(number, float)} | {"category": "mixed" if value else ""}
    return change


@pytest.mark.cases(3)
@pytest.mark.parametrize("value", [None, 0.0, 0.25, -2.0, 1e200, 1e-200])
@pytest.mark.parametrize("phase", ["", "p"])
def test_degenerate_studies(qkscope, tmp_path, value, phase):
    """Numbers that are all missing, zero, equal, or of odd sizes: no figure fails, and none says nan."""
    made = Study(qkscope, tmp_path, [("m", "F", phase), ("n", "F", phase)], [2], 2, change=degenerate(value))
    assert (len(made.names()) > 20) == (value is not None)
    for name in made.names():
        assert "nan" not in " ".join(made.labels(name)).lower() and "nan" not in (made.figures / f"{name}.csv").read_text()


@pytest.mark.parametrize("layers, heads, count", [(1, 2, 1), (1, 2, 3), (2, 2, 60)])
def test_small_and_large_studies(qkscope, tmp_path, layers, heads, count):
    models = [(f"m{i}", f"f{i % 40}", f"p{i // 15}") for i in range(count)]
    made = Study(qkscope, tmp_path, models, [layers], heads, tables=("pca", "rotation"), change=None)
    assert {"map-01-r-q", "pca-02-rq-rk-scatter", "rotation-07-bias-vs-separation"} <= set(made.names())
    assert len(made.told("pca-02-rq-rk-scatter")) == count * layers * heads
    if count == 60:
        assert len(Picture(made.figures / "pca-02-rq-rk-scatter").legend()) == 4, "a colour a phase"
        assert len(made.chart("pca-07-position-signal")[0]) == 60


def test_models_without_numbers_keep_their_place(qkscope, tmp_path):
    """There is a gap, and no panel for a family of nothing."""
    def change(row, rng):
        if row["model"] == "name1":
            degenerate(None)(row, rng)
    made = Study(qkscope, tmp_path, [("a", "F", "p"), ("b", "G", "p"), ("c", "F", "q")], [6], 4, change=change)
    for name in ("rotation-02-drift-correlation", "rotation-09-training-metrics", "pca-07-position-signal", "plasticity-04-trajectory"):
        assert np.isnan(made.chart(name)[0][:, 0]).tolist() == [False, True, False], name
        assert {"a", "b", "c"} <= set(made.labels(name))
    assert len(made.told("pca-02-rq-rk-scatter")) == 2 * 24 and len(made.panels("rotation-07-bias-vs-separation")) == 1


def test_a_table_alone_has_its_figures(qkscope, tmp_path):
    made = Study(qkscope, tmp_path, [("m", "f", ""), ("n", "f", "")], [3], 4, tables=("rotation",), change=None)
    assert {name.split("-")[0] for name in made.names()} == {"map", "rotation"}
    assert not drawn(made.figures, "pca") and not drawn(made.figures, "attention")
    made = Study(qkscope, tmp_path / "p", [("m", "f", "p"), ("n", "f", "p")], [3], 4, tables=("plasticity",), change=None)
    assert len(made.chart("plasticity-04-trajectory")) == 1 and "bias strength" not in made.labels("plasticity-04-trajectory")
