# SPDX-License-Identifier: Apache-2.0
"""The PCA figures show what the tables say: their data files, texts and shapes against pandas."""
import re
import subprocess

import numpy as np
import pandas as pd
import pytest

from conftest import check_survived, environment
from figure_files import (HOSTILE, SVG, blocks, check_pictures, helper, needs_gnuplot, numbers, read_svg, script_of,
                          svg_texts, write_models)

ALWAYS = ["pca-01-pc-roles", "pca-02-rq-rk-scatter", "pca-03-layer-heatmap-rq",
          "pca-04-layer-heatmap-rk", "pca-05-explained-variance"]
TRAINING = ["pca-07-position-signal", "pca-08-taxonomy", "pca-09-pc0-variance",
            "pca-12-phase-portraits"]
CATEGORIES = ["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"]

pytestmark = needs_gnuplot


# ---- studies of made-up numbers --------------------------------------------------------------

def category(r_q, r_k):
    def level(r):
        return "high" if r > 0.7 else "low" if r < 0.3 else "middle"
    pairs = [("high", "high"), ("high", "low"), ("low", "high"), ("low", "low")]
    return dict(zip(pairs, CATEGORIES)).get((level(r_q), level(abs(r_k))), "mixed")


def make_study(folder, models, title=None, layers=6, heads=4, pcs=10, seed=1):
    """models: rows (label, family, phase). Returns the tables as they were written."""
    rng = np.random.default_rng(seed)
    rows = []
    for m, _ in enumerate(models):
        for layer in range(layers):
            for head in range(heads):
                share = np.sort(rng.dirichlet(np.ones(pcs)))[::-1] * 0.8
                for pc in range(pcs):
                    r_q = rng.beta(3, 1) if pc == 0 else rng.beta(1, 4)
                    rows.append((f"name{m}", layer, head, head // 2, pc, share[pc], r_q,
                                 rng.uniform(-0.4, 1) if pc == 0 else rng.normal(0, 0.1)))
    qk = pd.DataFrame(rows, columns=["model", "layer", "q_head", "k_head", "pc",
                                     "explained_variance", "r_q", "r_k"])
    write_study(folder, qk, models, title)
    return qk


def write_study(folder, qk, models, title=None):
    folder.mkdir(parents=True, exist_ok=True)
    first = qk[qk.pc == 0]
    heads = first[["model", "layer", "q_head", "k_head"]].copy()
    heads["category"] = [category(a, b) for a, b in zip(first.r_q, first.r_k)]
    heads["ev0"] = first.explained_variance
    qk.to_csv(folder / "qk.csv", index=False)
    heads.to_csv(folder / "heads.csv", index=False)
    write_models(folder, [f"name{m}" for m in range(len(models))], models, title)


PHASES = [("warm", 1), ("main", 4), ("decay", 2), ("long context", 3)]


def checkpoints(phases=PHASES):
    return [(f"{phase}-{i}", "tiny", phase) for phase, count in phases for i in range(count)]


CROSS = [(f"model-{m}", f"Family {'ABC'[m % 3]}", "") for m in range(7)]


def draw(results, folder, theme="paper", formats="svg"):
    """Names of the PCA figures that were drawn; all must succeed."""
    done = subprocess.run([helper("draw_figures"), results, folder, theme, formats],
                          capture_output=True, text=True, env=environment(), timeout=300)
    check_survived(done.returncode, done.stderr)
    assert done.returncode == 0, done.stderr
    names = [line.split()[0] for line in done.stdout.splitlines()]
    return [name for name in names if name.startswith("pca-")]


@pytest.fixture(scope="module")
def cross(tmp_path_factory):
    """(figures, qk) of seven models in three families."""
    folder = tmp_path_factory.mktemp("cross")
    qk = make_study(folder, CROSS)
    assert draw(folder, folder / "figures") == ALWAYS
    return folder / "figures", qk


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """(figures, qk) of ten checkpoints in four phases, which have a title."""
    folder = tmp_path_factory.mktemp("training")
    qk = make_study(folder, checkpoints(), title="Tiny-3B", layers=12, seed=2)
    assert draw(folder, folder / "figures") == ALWAYS + TRAINING
    return folder / "figures", qk


# ---- reading figures -------------------------------------------------------------------------

def close(found, expected):
    np.testing.assert_allclose(found, np.asarray(expected, float), rtol=1e-5, atol=1e-5)


def has(path, *texts):
    shown = svg_texts(path)
    for text in texts:
        assert text in shown, (text, shown)


def polygons(path):
    """Corners of the filled shapes, in order."""
    return [np.array([p.split(",") for p in e.get("points").split()], float)
            for e in read_svg(path).iter(SVG + "polygon")]


def points(path):
    """Places of the markers, in order."""
    places = [re.match(r"translate\((.*?),(.*?)\)", e.get("transform") or "")
              for e in read_svg(path).iter(SVG + "use")]
    return np.array([[float(p[1]), float(p[2])] for p in places if p])


def dashed_lines(path):
    """(x1, y1, x2, y2) of dashed straight lines."""
    found = []
    for e in read_svg(path).iter(SVG + "path"):
        if e.get("stroke-dasharray"):
            places = re.findall(r"[ML]([-\d.]+),([-\d.]+)", e.get("d"))
            found.append(tuple(map(float, [*places[0], *places[-1]])))
    return found


def first_component(qk):
    return qk[qk.pc == 0]


def depth_means(qk, column):
    """[model][tenth] means, or [model][layer] where no model has ten, NaN where there is no layer."""
    first = first_component(qk).copy()
    last = first.groupby("model").layer.transform("max")
    tenths = np.minimum(9, np.floor(10 * first.layer / last.where(last > 0, 1))).astype(int)
    first["bin"] = tenths if last.max() > 8 else first.layer
    order = list(dict.fromkeys(first.model))
    table = first.pivot_table(index="model", columns="bin", values=column, aggfunc="mean")
    return table.reindex(index=order, columns=range(10)).to_numpy()


def sizes(qk):
    """Keys without their sign."""
    return qk.assign(r_k=qk.r_k.abs())


# ---- by component ----------------------------------------------------------------------------

def test_pc_roles(cross):
    path, qk = cross[0] / "pca-01-pc-roles", cross[1]
    close(numbers(blocks(path)[0]), sizes(qk).groupby("pc")[["r_q", "r_k"]].mean().reset_index())
    has(path, "Position correlation by component (combined QK PCA)", "Principal component",
        "Mean Pearson r with position", "rq", "|rk|", *(f"PC{i}" for i in range(10)))


def test_explained_variance(cross):
    path, qk = cross[0] / "pca-05-explained-variance", cross[1]
    means = qk.groupby("pc").explained_variance.mean()
    close(numbers(blocks(path)[0]), means.reset_index())
    has(path, "Mean share of variance", *(f"{100 * share:.1f}%" for share in means))
    heights = np.array([np.ptp(p[:, 1]) for p in polygons(path)[-10:]])
    np.testing.assert_allclose(heights / heights[0], means / means[0], atol=0.01)


# ---- r_q against r_k -------------------------------------------------------------------------

def test_scatter_shows_every_head(cross):
    path, qk = cross[0] / "pca-02-rq-rk-scatter", cross[1]
    first = first_component(qk)
    rows = blocks(path)[0]
    found = np.array([row[:2] for row in rows], float)
    expected = first[["r_q", "r_k"]].to_numpy()
    close(found[np.lexsort(found.T)], expected[np.lexsort(expected.T)])
    has(path, "rq against rk on PC0, all heads",)
    family = first.model.map({f"name{m}": row[1] for m, row in enumerate(CROSS)})
    has(path, *(f"{name} ({count})" for name, count in family.value_counts().items()))
    looks = pd.Series([tuple(row[2:]) for row in rows]).value_counts()
    assert sorted(looks) == sorted(family.value_counts())
    assert len({look[0] for look in looks.index}) == len({look[1] for look in looks.index}) == 3


def test_scatter_is_to_scale(cross):
    path = cross[0] / "pca-02-rq-rk-scatter"
    data, places = numbers_of_points(path)
    x, y = (np.polyfit(data[:, i], places[:, i], 1) for i in range(2))
    np.testing.assert_allclose(places[:, 0], np.polyval(x, data[:, 0]), atol=0.6)
    np.testing.assert_allclose(places[:, 1], np.polyval(y, data[:, 1]), atol=0.6)
    lines = dashed_lines(path)
    upright = sorted((a - x[1]) / x[0] for a, _, b, _ in lines if a == b)
    level = sorted((a - y[1]) / y[0] for _, a, _, b in lines if a == b)
    np.testing.assert_allclose(upright, [0.3, 0.7], atol=2e-3)
    low = data[:, 1].min()
    np.testing.assert_allclose(level, [g for g in (-0.7, -0.3, 0.3, 0.7) if g > low - 0.15], atol=2e-3)
    [bottom] = re.findall(r"set yrange \[(\S+):1.05\]", script_of(path))
    assert low - 0.151 <= float(bottom) < low, "the plot ends where the heads do"
    left, right = ((edge - x[1]) / x[0] for edge in (min(a for a, _, _, _ in lines),
                                                     max(c for _, _, c, _ in lines)))
    np.testing.assert_allclose([left, right], [-0.1, 1.05], atol=2e-3)


def numbers_of_points(path):
    data = np.array([row[:2] for row in blocks(path)[0]], float)
    return data, points(path)[-len(data):]  # after those of the legend


def test_scatter_of_many_families(tmp_path):
    make_study(tmp_path, [(f"m{i}", f"f{i}", "") for i in range(40)], layers=2, heads=1)
    draw(tmp_path, tmp_path / "figures")
    path = tmp_path / "figures" / "pca-02-rq-rk-scatter"
    has(path, *(f"f{i} (2)" for i in range(40)))
    assert len({tuple(row[2:]) for row in blocks(path)[0]}) == 40


# ---- by depth --------------------------------------------------------------------------------

@pytest.mark.parametrize("study, name, column", [
    ("cross", ALWAYS[2], "r_q"), ("cross", ALWAYS[3], "r_k"),
    ("training", ALWAYS[2], "r_q"), ("training", ALWAYS[3], "r_k")])
def test_depth(request, study, name, column):
    folder, qk = request.getfixturevalue(study)
    path, expected = folder / name, depth_means(sizes(qk), column)
    rows = blocks(path)[0]
    assert len(rows) == np.isfinite(expected).sum()
    for column_index, row_index, value, _, color, text in rows:
        mean = expected[int(row_index), int(column_index)]
        close(float(value), mean)
        assert text == f"{mean:.2f}".replace("-", "−")
        assert color in ("0xfefefe", "0x101010")
    models = CROSS if study == "cross" else checkpoints()
    tenths = qk.layer.max() > 8
    assert ("Layer" in svg_texts(path)) != tenths
    has(path, *(row[0] for row in models), *{row[5] for row in rows},
        *(f"{i / 10:.1f}" if tenths else f"{i}" for i in range(10 if tenths else qk.layer.max() + 1)))
    colors = {row[5]: row[4] for row in rows}
    assert colors[max(colors, key=lambda text: float(text.replace("−", "-")))] == "0xfefefe"


def test_negative_means_have_their_own_side_of_the_scale(tmp_path):
    qk = pd.DataFrame([("name0", layer, 0, 0, 0, 0.5, 0.5, value)
                       for layer, value in enumerate([-0.4, 0.0, 0.9])],
                      columns=["model", "layer", "q_head", "k_head", "pc",
                               "explained_variance", "r_k", "r_q"])
    write_study(tmp_path, pd.concat([qk, qk.assign(model="name1")]), [("m", "m", ""), ("n", "n", "")])
    draw(tmp_path, tmp_path / "figures")
    path = tmp_path / "figures" / ALWAYS[2]
    has(path, "−0.40", "0.00", "0.90", "Layer", "2")
    fills = [[int(c) for c in re.findall(r"\d+", e.get("fill"))] for e in read_svg(path).iter(SVG + "polygon")]
    below, zero, high = fills[:3]
    assert below[0] > below[2] + 50, "orange"
    assert high[2] > high[0] + 50 and min(zero) > 230, "blue, and next to white"


# ---- over checkpoints ------------------------------------------------------------------------

def spread(qk, column, low, high):
    first = first_component(qk)
    order = list(dict.fromkeys(first.model))
    stats = first.groupby("model")[column].agg(["mean", "std"]).reindex(order)
    return np.column_stack([stats["mean"], np.maximum(low, stats["mean"] - stats["std"]),
                            np.minimum(high, stats["mean"] + stats["std"])])


def test_position_signal(training):
    path, qk = training[0] / "pca-07-position-signal", training[1]
    close(numbers(blocks(path)[0]), np.column_stack([np.arange(10), spread(qk, "r_q", -1, 1),
                                          spread(sizes(qk), "r_k", -1, 1)]))
    has(path, "Position correlation on PC0 during training", "Tiny-3B", "Training checkpoint",
        "rq, mean ± 1 sd", "|rk|, mean ± 1 sd")


def test_bands_end_at_one(tmp_path):
    qk = make_study(tmp_path, checkpoints([("a", 2)]))
    qk.loc[qk.pc == 0, "r_q"] = np.where(qk[qk.pc == 0].q_head == 0, 0.2, 0.99)
    qk.loc[qk.pc == 0, "r_k"] = np.where(qk[qk.pc == 0].q_head == 0, -0.2, -0.99)
    write_study(tmp_path, qk, checkpoints([("a", 2)]))
    draw(tmp_path, tmp_path / "figures")
    found = numbers(blocks(tmp_path / "figures" / TRAINING[0])[0])
    close(found[:, 1:], np.hstack([spread(qk, "r_q", -1, 1), spread(sizes(qk), "r_k", -1, 1)]))
    assert (found[:, 3] == 1).all() and (found[:, 6] == 1).all()


def test_variance(training):
    path, qk = training[0] / "pca-09-pc0-variance", training[1]
    close(numbers(blocks(path)[0]),
          np.column_stack([np.arange(10), spread(qk, "explained_variance", 0, 1)]))
    has(path, "Explained variance of PC0 during training", "Tiny-3B", "Share of variance", "Training checkpoint")


def test_taxonomy(training):
    path, qk = training[0] / "pca-08-taxonomy", training[1]
    first = first_component(qk).copy()
    first["category"] = [category(a, b) for a, b in zip(first.r_q, first.r_k)]
    shares = (first.groupby("model").category.value_counts(normalize=True).unstack(fill_value=0)
              .reindex(index=list(dict.fromkeys(first.model)), columns=CATEGORIES, fill_value=0))
    close(numbers(blocks(path)[0])[:, 1:], shares)
    has(path, "Share of heads", *CATEGORIES)
    # Boxes from zero, highest first: the plot's height is 1.
    boxes = [p for p in polygons(path) if len(p) == 4]
    tops = np.array([np.ptp(p[:, 1]) for p in boxes])
    whole = tops.max()
    cumulated = shares.to_numpy().cumsum(axis=1)
    assert sum(abs(tops / whole - 1) < 1e-3) >= 10
    for value in cumulated[:, 0]:
        assert np.abs(tops / whole - value).min() < 5e-3


@pytest.mark.parametrize("name", TRAINING[:3])
def test_phases_are_named_and_parted(training, name):
    path = training[0] / name
    has(path, *(row[0] for row in checkpoints()), *(phase for phase, _ in PHASES))
    upright = [a for a, _, b, _ in dashed_lines(path) if a == b]
    assert len(upright) == len(PHASES) - 1
    steps = np.diff(sorted(upright))
    np.testing.assert_allclose(steps / steps[0], [1, 0.5], rtol=0.01)  # 4 and 2 checkpoints


@pytest.mark.parametrize("phases, expected", [
    (PHASES, [0, 2, 4, 6, 7, 9]),  # filled up where there is most room
    ([("a", 1), ("b", 1)], [0, 1]),
    ([("only", 12)], [0, 2, 3, 5, 8, 11]),
    ([("a", 2), ("b", 1), ("a", 2)], [0, 1, 2, 3, 4]),  # a phase that comes back
    ([(f"p{i}", 2) for i in range(11)], [0, 3, 7, 13, 17, 21])])  # more phases than panels
def test_portraits(tmp_path, phases, expected):
    models = checkpoints(phases)
    qk = make_study(tmp_path, models, layers=5, heads=2)
    draw(tmp_path, tmp_path / "figures")
    path = tmp_path / "figures" / "pca-12-phase-portraits"
    first = first_component(qk)
    tables = {m: part[["r_q", "r_k"]].to_numpy() for m, part in first.groupby("model")}
    found = []
    for block in blocks(path):
        heads = np.array([row[:2] for row in block], float)
        match = [m for m, table in tables.items()
                 if len(table) == len(heads) and np.abs(table - heads).max() < 1e-5]
        assert len(match) == 1
        found.append(int(match[0][4:]))
    assert found == expected
    has(path, *(models[m][0] for m in found))
    low = min(numbers(block)[:, 1].min() for block in ([row[:2] for row in b] for b in blocks(path)))
    assert len(dashed_lines(path)) == (4 + sum(low - 0.05 < g for g in (-0.3, -0.7))) * len(found)
    assert len(points(path)) == 10 * len(found) + len({phase for phase, _ in phases}), "with the legend"


# ---- all of them -----------------------------------------------------------------------------

@pytest.mark.parametrize("theme", ["paper", "screen", "dark"])
def test_pictures(tmp_path, theme):
    make_study(tmp_path, checkpoints(), title="Tiny-3B", layers=12)
    names = draw(tmp_path, tmp_path / "figures", theme, formats="png,svg")
    assert names == ALWAYS + TRAINING
    check_pictures(tmp_path / "figures", names)


def test_pdf(tmp_path):
    make_study(tmp_path, checkpoints([("a", 2), ("b", 1)]))
    names = draw(tmp_path, tmp_path / "figures", "paper", "pdf")
    for name in names:
        assert (tmp_path / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("phase", [False, True])
def test_hostile_names_are_text(tmp_path, phase):
    models = [(name, name, name if phase else "") for name in HOSTILE]
    make_study(tmp_path, models, title=HOSTILE[1] * 3)
    names = draw(tmp_path, tmp_path / "figures", formats="png,svg")
    assert names == (ALWAYS + TRAINING if phase else ALWAYS)
    shown = svg_texts(tmp_path / "figures" / "pca-03-layer-heatmap-rq")
    for name in HOSTILE:
        plain = name.replace("\n", " ")
        assert (plain if len(plain) <= 32 else plain[:32] + "…") in shown
    check_pictures(tmp_path / "figures", names)
    left = {p.name for p in (tmp_path / "figures").iterdir()} | {p.name for p in tmp_path.iterdir()}
    assert not left & {"x", "y"}


@pytest.mark.parametrize("layers, heads, pcs, count", [
    (1, 1, 1, 1), (1, 1, 2, 3), (3, 1, 10, 1), (2, 2, 3, 200)])
def test_small_and_large(tmp_path, layers, heads, pcs, count):
    models = [(f"m{i}", "f", f"p{i // 50}") for i in range(count)]
    make_study(tmp_path, models, layers=layers, heads=heads, pcs=pcs)
    names = draw(tmp_path, tmp_path / "figures", formats="png,svg")
    assert names == (ALWAYS + TRAINING if count > 1 else [n for n in ALWAYS if "heatmap" not in n])
    check_pictures(tmp_path / "figures", names)


def test_heads_without_numbers_are_left_out(tmp_path):
    qk = make_study(tmp_path, checkpoints([("a", 3), ("b", 2)]))
    qk.loc[qk.q_head == 1, ["r_q", "r_k", "explained_variance"]] = np.nan
    qk.loc[qk.model == "name1", "r_k"] = np.nan
    qk.loc[qk.model == "name3", ["r_q", "r_k", "explained_variance"]] = np.nan
    write_study(tmp_path, qk, checkpoints([("a", 3), ("b", 2)]))
    figures = tmp_path / "figures"
    assert draw(tmp_path, figures) == ALWAYS + TRAINING
    first = first_component(qk)
    assert len(blocks(figures / ALWAYS[1])[0]) == len(first[["r_q", "r_k"]].dropna())
    close(numbers(blocks(figures / ALWAYS[0])[0]), sizes(qk).groupby("pc")[["r_q", "r_k"]].mean().reset_index())
    assert np.isnan(numbers(blocks(figures / TRAINING[0])[0])[3, 1:]).all()
    assert len(blocks(figures / TRAINING[3])) == 3


def test_nothing_but_empty_fields(tmp_path):
    qk = make_study(tmp_path, checkpoints([("a", 3)]))
    qk[["r_q", "r_k", "explained_variance"]] = np.nan
    write_study(tmp_path, qk, checkpoints([("a", 3)]))
    heads = pd.read_csv(tmp_path / "heads.csv")
    heads.assign(category="").to_csv(tmp_path / "heads.csv", index=False)
    draw(tmp_path, tmp_path / "figures")


def test_real_capture(qkscope, shared_data, tmp_path):
    """Five training steps of a small model, as the program itself analyses them."""
    root = shared_data("kjv-tiny-steps")
    steps = sorted((int(p.name[5:]) for p in root.iterdir()))
    tables = {"qk.csv": [], "heads.csv": []}
    for m, step in enumerate(steps):
        out = tmp_path / str(step)
        qkscope("pca", root / f"step-{step}", "-o", out, "--model-name", f"name{m}",
                "--quiet", expect=0)
        for name, parts in tables.items():
            parts.append(pd.read_csv(out / name))
    for name, parts in tables.items():
        tables[name] = pd.concat(parts)
    models = [(f"step {step}", "kjv-tiny", "early" if step < 500 else "late") for step in steps]
    write_study(tmp_path / "results", tables["qk.csv"], models, "kjv-tiny")
    tables["heads.csv"].to_csv(tmp_path / "results" / "heads.csv", index=False)
    figures = tmp_path / "figures"
    assert draw(tmp_path / "results", figures, formats="png,svg") == ALWAYS + TRAINING
    qk = tables["qk.csv"]
    close(numbers(blocks(figures / ALWAYS[0])[0]), sizes(qk).groupby("pc")[["r_q", "r_k"]].mean().reset_index())
    expected = depth_means(qk, "r_q")
    assert len(blocks(figures / ALWAYS[2])[0]) == np.isfinite(expected).sum()
    check_pictures(figures, ALWAYS + TRAINING)
