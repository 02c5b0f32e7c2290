# SPDX-License-Identifier: Apache-2.0
"""The rotation figures show what the tables say: their data files, texts and pictures against
pandas."""
import re

import numpy as np
import pandas as pd
import pytest

from figure_files import (HOSTILE, SVG, TOLERANCE, blocks, check_pictures, draw, drawn, needs_gnuplot, read_svg,
                          script_of, svg_texts, texts_of, write_models)

CROSS = ["rotation-02-drift-correlation", "rotation-03-variance-shares",
         "rotation-04-bias-histograms", "rotation-05-slope-ratio",
         "rotation-06-layer-heatmaps", "rotation-07-bias-vs-separation"]
TRAINING = ["rotation-09-training-metrics", "rotation-10-bias-decomposition"]
METRICS = ["r_k_a", "separation_strength", "bias_strength", "plane_var_fraction"]
NUMBERS = ["position_r", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "mu_q_a", "mu_k_a", "mu_q_b",
           "mu_k_b", "bias_strength", "separation_strength", "var_frac_a", "var_frac_b",
           "plane_var_fraction", "content_var_b", "residual_pos_r", "omega", "omega_r_squared"]

pytestmark = needs_gnuplot


# ---- studies of made-up numbers --------------------------------------------------------------

def made_model(name, layers=6, heads=4, seed=1, bias=1e-3):
    """A rotated.csv of one model; some heads point down, one in twenty is degenerate."""
    rng = np.random.default_rng(seed)
    n = layers * heads
    table = pd.DataFrame({"model": name, "layer": np.repeat(np.arange(layers), heads),
                          "q_head": np.tile(np.arange(heads), layers)})
    table["k_head"] = table.q_head // 2
    for column in NUMBERS:
        table[column] = rng.beta(3, 2, n) * (rng.choice([1, 1, 1, -1], n)
                                             if column.startswith(("r_", "alpha")) else 1)
    table["alpha_k"] *= 1e-4
    table["var_frac_b"] *= 1 - table.var_frac_a
    table["plane_var_fraction"] = table.var_frac_a + table.var_frac_b
    table["bias_strength"] = bias * (rng.gamma(2, 1, n) - 0.3 - 1.5 * (table.layer == 2))
    table["n_q"] = table["n_k"] = 100
    table.loc[rng.random(n) < 0.05, NUMBERS] = np.nan
    return table


def write_study(folder, tables, models=None, title=None):
    """models: rows (label, family, phase)."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pd.concat(tables, ignore_index=True)
    table.to_csv(folder / "rotated.csv", index=False)
    write_models(folder, [t.model.iloc[0] for t in tables], models, title)
    return table


class Study:
    def __init__(self, figures, table, models):
        self.figures, self.models = figures, models
        self.names = list(dict.fromkeys(table.model))
        self.by_model = [table[table.model == name] for name in self.names]
        self.labels = [m[0] for m in models]
        self.families = list(dict.fromkeys(m[1] for m in models))

    def of_family(self, family):
        return [t for t, m in zip(self.by_model, self.models) if m[1] == family]

    def blocks(self, name):
        return blocks(self.figures / name)

    def column(self, name, column, block=0):
        return np.array([float(row[column]) for row in self.blocks(name)[block]])

    def texts(self, name):
        return svg_texts(self.figures / name)

    def script(self, name):
        return script_of(self.figures / name)


@pytest.fixture(scope="module")
def cross(qkscope, tmp_path_factory):
    """Seven models of three families, of unlike sizes."""
    folder = tmp_path_factory.mktemp("cross")
    models = [(f"model-{m}", f"Family {'AABBBCC'[m]}", "") for m in range(7)]
    tables = [made_model(f"name{m}", 4 + m, 8, m, 1e-3 * (1 + m)) for m in range(7)]
    table = write_study(folder, tables, models, "Seven models")
    return Study(draw(qkscope, folder), table, models)


@pytest.fixture(scope="module")
def training(qkscope, tmp_path_factory):
    """Seven checkpoints of three phases."""
    folder = tmp_path_factory.mktemp("training")
    models = [(f"step-{m}", "tiny", ("warm", "main", "decay")[m // 3]) for m in range(7)]
    tables = [made_model(f"name{m}", 5, 8, m, 1e-3 * (1 + m)) for m in range(7)]
    table = write_study(folder, tables, models)
    return Study(draw(qkscope, folder), table, models)


# ---- the numbers -----------------------------------------------------------------------------

def test_which_figures(cross, training):
    assert drawn(cross.figures, "rotation") == CROSS
    assert drawn(training.figures, "rotation") == CROSS + TRAINING


def test_drift_correlation(cross):
    for column, field in (1, "r_q_a"), (2, "r_k_a"):
        expected = [t[field].abs().mean() for t in cross.by_model]
        np.testing.assert_allclose(cross.column(CROSS[0], column), expected, **TOLERANCE)
    texts = cross.texts(CROSS[0])
    assert {"queries", "keys", "Mean |r| with position", *cross.labels} <= set(texts)
    assert {"Position correlation on the drift axis a", "Seven models", "Model"} <= set(texts)
    script = cross.script(CROSS[0])
    assert "set yrange [0:1]" in script
    assert re.findall(r"graph 0, first ([\d.]+) to graph 1", script) == ["0.3", "0.7"]


def test_variance_shares(cross):
    shares = [cross.column(CROSS[1], c) for c in (1, 2, 3)]
    for share, field in zip(shares, ("var_frac_a", "var_frac_b")):
        expected = [t[field].mean() for t in cross.by_model]
        np.testing.assert_allclose(share, expected, **TOLERANCE)
    np.testing.assert_allclose(sum(shares), 1, rtol=1e-5)
    assert {"axis a (drift)", "axis b (separation)", "complement"} <= set(cross.texts(CROSS[1]))


def test_slope_ratio(cross):
    expected = [(t.alpha_k / t.alpha_q).abs().median() for t in cross.by_model]
    np.testing.assert_allclose(cross.column(CROSS[3], 1), expected, **TOLERANCE)
    colors = [row[2] for row in cross.blocks(CROSS[3])[0]]
    by_family = {m[1]: color for m, color in zip(cross.models, colors)}
    assert colors == [by_family[m[1]] for m in cross.models]
    assert len(set(by_family.values())) == 3
    assert set(cross.families) <= set(cross.texts(CROSS[3]))


def test_bias_histograms(cross):
    blocks = iter(cross.blocks(CROSS[2]))
    texts = cross.texts(CROSS[2])
    for family in cross.families:
        tables = cross.of_family(family)
        pooled = pd.concat(tables).bias_strength.dropna()
        assert f"{100 * (pooled > 0).mean():.3g}% of heads above 0" in texts
        assert family in texts
        for table in tables:
            rows = np.array(next(blocks), float)
            edges, before, after = rows[::2, 0], rows[::2, 1], rows[1::2, 1]
            np.testing.assert_array_equal(rows[1::2, 0], edges)
            np.testing.assert_array_equal(before[1:], after[:-1])
            assert before[0] == 0 and after[-1] == 0
            values = table.bias_strength.dropna() * 1000
            width = (edges[-1] - edges[0]) / (len(edges) - 1)
            np.testing.assert_allclose(edges / width, np.round(edges / width), atol=1e-3)
            counts, _ = np.histogram(values, edges)
            assert counts.sum() == len(values)
            np.testing.assert_allclose(after[:-1], counts / len(values) / width, rtol=1e-4)
    assert next(blocks, None) is None
    assert "Bias strength × 103" in texts  # 3 is raised


def test_a_far_head_does_not_squeeze_the_histogram(qkscope, tmp_path):
    table = made_model("one")
    table.loc[3, "bias_strength"] = 5.0
    write_study(tmp_path, [table])
    study = Study(draw(qkscope, tmp_path), table, [("one", "one", "")])
    assert any(t.endswith("% of heads above 0, 1 beyond the range")
               for t in study.texts(CROSS[2]))
    edges = study.column(CROSS[2], 0)
    assert edges[-1] < 2000 * table.bias_strength.drop(3).max()


def test_layer_heatmaps(cross):
    correlations, biases, *_ = cross.blocks(CROSS[4])
    assert len(correlations) < 10 * len(cross.labels), "a cell without a layer is hatched"
    expected = {}, {}
    for row, table in enumerate(cross.by_model):
        depth = np.minimum(9, np.floor(10 * table.layer / table.layer.max())).astype(int)
        for cells, values in zip(expected, (table.r_k_a.abs(), table.bias_strength)):
            for column, mean in values.groupby(depth).mean().dropna().items():
                cells[column, row] = mean
    texts = cross.texts(CROSS[4])
    for block, cells, factor in zip((correlations, biases), expected, (1, 1000)):
        assert {(int(x), int(y)) for x, y, *_ in block} == set(cells)
        for x, y, value, *_, shown in block:
            mean = cells[int(x), int(y)]
            assert float(value) == pytest.approx(mean, rel=1e-5, abs=1e-9)
            decimals = len(shown.partition(".")[2])
            assert decimals == (2 if factor * max(abs(m) for m in cells.values()) < 10 else 1)
            assert abs(float(shown.replace("−", "-")) - factor * mean) <= 0.501 * 10.0 ** -decimals
            assert "-" not in shown and shown in texts
    assert {"|rk| on the drift axis a", "Depth (layer / last layer)", "no layer there", *cross.labels} <= set(texts)
    assert min(float(row[2]) for row in biases) < 0


def test_only_negative_bias_is_blue(cross):
    cells = cross.blocks(CROSS[4])[1]
    most = max(abs(float(row[2])) for row in cells)
    assert any(float(row[2]) < -most / 10 for row in cells)
    for _, _, value, color, *_ in cells:
        if abs(float(value)) > most / 10:  # nearer to 0 both sides are pale
            red, blue = int(color[2:4], 16), int(color[6:8], 16)
            assert (blue > red) == (float(value) < 0), value


def test_bias_against_separation(cross):
    blocks = cross.blocks(CROSS[5])
    texts = cross.texts(CROSS[5])
    assert len(blocks) == len(cross.families)
    for family, block in zip(cross.families, blocks):
        tables = cross.of_family(family)
        pooled = pd.concat(tables)[["separation_strength", "bias_strength"]].dropna()
        r = np.corrcoef(pooled.T)[0, 1]
        assert family in texts and f"r = {r:.2f}".replace("-", "−") in texts
        points = np.array([[float(x), float(y)] for x, y, *_ in block])
        order = np.lexsort(points.T)
        expected = pooled.to_numpy()
        np.testing.assert_allclose(points[order], expected[np.lexsort(expected.T)], rtol=1e-5)
        kinds = pd.Series([(color, kind) for _, _, color, kind, _ in block]).value_counts()
        assert sorted(kinds) == sorted(
            t[["separation_strength", "bias_strength"]].dropna().shape[0] for t in tables)
    assert not any("all heads" in t for t in texts), "r of several families at once"
    for label, table in zip(cross.labels, cross.by_model):
        known = table[["separation_strength", "bias_strength"]].dropna()
        r = f"{np.corrcoef(known.T)[0, 1]:.2f}".replace("-", "−")
        assert label in cross.families or f"{label} (r = {r})" in texts, label


def test_each_checkpoint_has_its_own_r(qkscope, tmp_path):
    """Two checkpoints whose trends are opposite: both are told, and none of their heads together."""
    tables = [made_model("early"), made_model("late")]
    tables[0]["bias_strength"] = tables[0].separation_strength
    tables[1]["bias_strength"] = -tables[1].separation_strength
    write_study(tmp_path, tables, [("early", "one", "warm"), ("late", "one", "main")])
    texts = texts_of(draw(qkscope, tmp_path) / CROSS[5])
    assert {"early (r = 1.00)", "late (r = −1.00)"} <= set(texts) and not any(t.startswith("r = ") for t in texts)


def test_training_metrics(training):
    blocks = training.blocks(TRAINING[0])
    for block, field in zip(blocks, METRICS, strict=True):
        values = [t[field].abs() if field == "r_k_a" else t[field] for t in training.by_model]
        expected = [[m, v.mean(), v.quantile(0.25), v.quantile(0.75), v.median()]
                    for m, v in enumerate(values)]
        shown = np.array([row[:5] for row in block], float)
        np.testing.assert_allclose(shown, expected, **TOLERANCE)
        colors = [row[5] for row in block]
        assert [colors.index(c) for c in colors] == [0, 0, 0, 3, 3, 3, 6]
    texts = training.texts(TRAINING[0])
    assert {"|rk| on axis a", "Separation strength", "Bias strength × 103",
            "Share of variance in the plane (a, b)", "warm", "main", "decay"} <= set(texts)
    assert all(texts.count(label) == 4 for label in training.labels)
    # lines between three phases in each panel
    assert re.findall(r"first (\S+), graph 0 to", training.script(TRAINING[0])) == \
        ["2.5", "5.5"] * 4


def test_bias_decomposition(training):
    fields = ["mu_q_a", "alpha_k", "bias_strength"]
    for block, field in zip(training.blocks(TRAINING[1]), fields, strict=True):
        expected = np.array([t[field].mean() for t in training.by_model])
        shown = np.array([float(row[1]) for row in block])
        np.testing.assert_allclose(shown, expected, **TOLERANCE)
    texts = training.texts(TRAINING[1])
    assert any(t.startswith("Bias strength") and t.endswith("× 103") for t in texts)


def test_phases_over_bars(training):
    for name in CROSS[0], CROSS[1], CROSS[3]:
        assert {"warm", "main", "decay"} <= set(training.texts(name))
    colors = [row[2] for row in training.blocks(CROSS[3])[0]]
    assert [colors.index(c) for c in colors] == [0, 0, 0, 3, 3, 3, 6]


# ---- the pictures ----------------------------------------------------------------------------

@pytest.mark.parametrize("theme", ["paper", "screen", "dark"])
def test_pictures(qkscope, tmp_path, theme):
    models = [(f"model-{m}", f"Family {m % 3}", ["early", "late"][m // 3]) for m in range(6)]
    write_study(tmp_path, [made_model(f"name{m}", seed=m) for m in range(6)], models)
    figures = draw(qkscope, tmp_path, "--theme", theme, formats="png,svg")
    check_pictures(figures, CROSS + TRAINING)


@pytest.mark.parametrize("count", [11, 40])
def test_many_models(qkscope, tmp_path, count):
    """Every family has its panel and every model its place."""
    models = [(f"a-model-{m}", f"Family {m // 5}", "") for m in range(count)]
    tables = [made_model(f"name{m}", seed=m) for m in range(count)]
    study = Study(None, write_study(tmp_path, tables, models), models)
    study.figures = draw(qkscope, tmp_path, formats="png,svg")
    check_pictures(study.figures, CROSS)
    for name in CROSS[2], CROSS[5]:
        texts = study.texts(name)
        assert set(study.labels) <= set(texts)
        assert all(any(t.startswith(family) for t in texts) for family in study.families)
    assert set(study.labels) <= set(study.texts(CROSS[4]))


def test_forty_checkpoints(qkscope, tmp_path):
    models = [(f"step-{500 * m}", "tiny", f"phase {m // 10}") for m in range(40)]
    study = Study(None, write_study(tmp_path, [made_model(f"name{m}", seed=m, layers=2)
                                               for m in range(40)], models), models)
    study.figures = draw(qkscope, tmp_path, formats="png,svg")
    check_pictures(study.figures, CROSS + TRAINING)
    for name in TRAINING:
        assert len(study.blocks(name)[0]) == 40
        assert {"step-0", "phase 3"} <= set(study.texts(name))


def test_one_model(qkscope, tmp_path):
    table = write_study(tmp_path, [made_model("alone")])
    figures = draw(qkscope, tmp_path, formats="png,svg")
    assert drawn(figures, "rotation") == [CROSS[2], CROSS[5]], "the others compare models"
    check_pictures(figures, drawn(figures, "rotation"))
    study = Study(figures, table, [("alone", "alone", "")])
    assert "alone" in study.texts(CROSS[2])


def constant(value, **shape):
    table = made_model("constant", **shape)
    table[NUMBERS] = float(value)
    return table


DEGENERATE = {
    "one head": (made_model("one", 1, 1, 3), CROSS),
    "one layer": (made_model("one", 1, 8), CROSS),
    "equal": (constant(0.25), CROSS),
    "zero": (constant(0), [n for n in CROSS if n != CROSS[3]]),
    "negative": (constant(-0.25), CROSS),
    "huge": (constant(1e200), CROSS),
    "tiny": (constant(1e-200), CROSS),
    "without numbers": (constant(np.nan), []),
}


@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_studies(qkscope, tmp_path, case):
    table, expected = DEGENERATE[case]
    write_study(tmp_path, [table, table.assign(model="another")])
    outcome = qkscope("report", tmp_path, "--no-html")
    assert outcome.code == 0, outcome.err
    assert drawn(tmp_path / "figures", "rotation") == expected
    if case not in ("huge", "tiny"):  # there, numbers on axes are wider than any margin
        check_pictures(tmp_path / "figures", expected)


def test_models_without_numbers_keep_their_place(qkscope, tmp_path):
    tables = [made_model("a"), constant(np.nan).assign(model="b"), made_model("c", seed=2)]
    models = [("a", "F", "p"), ("b", "G", "p"), ("c", "F", "q")]
    study = Study(None, write_study(tmp_path, tables, models), models)
    study.figures = draw(qkscope, tmp_path)
    assert [row[1] == "NaN" for row in study.blocks(CROSS[0])[0]] == [False, True, False]
    assert [row[1] == "NaN" for row in study.blocks(TRAINING[0])[0]] == [False, True, False]
    assert not any(t.startswith("G ") for t in study.texts(CROSS[5]))


def test_hostile_labels(qkscope, tmp_path):
    """Text is text, wherever it stands; long text is cut and stays inside."""
    models = [(name, HOSTILE[m // 2], HOSTILE[m // 3]) for m, name in enumerate(HOSTILE)]
    tables = [made_model(f"name{m}", seed=m) for m in range(len(HOSTILE))]
    write_study(tmp_path, tables, models, HOSTILE[1])
    figures = draw(qkscope, tmp_path, formats="png,svg")
    check_pictures(figures, CROSS + TRAINING)
    assert not list(tmp_path.rglob("[xy]"))
    for name in CROSS[0], CROSS[3], CROSS[4], TRAINING[0]:
        texts = texts_of(figures / name)
        for label in HOSTILE:
            assert any(t.startswith(label[:28].replace("\n", " ")) for t in texts), (name, label, texts)
    assert all(el.tag.startswith(SVG) and "script" not in el.tag
               for el in read_svg(figures / CROSS[0]).iter())


# ---- real captures ---------------------------------------------------------------------------

def test_steps_of_a_real_model(qkscope, shared_data, tmp_path):
    root = shared_data("kjv-tiny-steps")
    steps = sorted(root.glob("step-*"), key=lambda p: int(p.name.split("-")[1]))
    tables = []
    for step in steps:
        qkscope("rotate", step, "-o", tmp_path / step.name, "--model-name", step.name, expect=0)
        tables.append(pd.read_csv(tmp_path / step.name / "rotated.csv"))
    models = [(s.name, "kjv-tiny", "early" if i < 2 else "late") for i, s in enumerate(steps)]
    folder = tmp_path / "all"
    study = Study(None, write_study(folder, tables, models), models)
    study.figures = draw(qkscope, folder, formats="png,svg")
    check_pictures(study.figures, CROSS + TRAINING)
    expected = [t.bias_strength.mean() for t in study.by_model]
    shown = study.column(TRAINING[1], 1, block=2)
    assert shown / shown[-1] == pytest.approx(np.array(expected) / expected[-1], rel=1e-4)
