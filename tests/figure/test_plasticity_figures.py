# SPDX-License-Identifier: Apache-2.0
"""The plasticity figures show what the tables say: their data files, texts and pictures against
pandas and SciPy."""
import pathlib
import re
import shutil

import numpy as np
import pandas as pd
import pytest

from conftest import EXAMPLE
from figure_files import (HOSTILE, SVG, TOLERANCE, blocks, check_pictures, curves, draw, drawn, needs_gnuplot, numbers, read_svg,
                          script_of, texts_of, write_models)

DISTANCES, PROFILES, WEIGHTS = ("plasticity-01-distance-heatmap", "plasticity-02-profiles",
                                "plasticity-03-component-weights")
TRAJECTORY, SCORE, BY_MODEL = ("plasticity-04-trajectory", "plasticity-05-score",
                               "plasticity-06-by-model")
RAMPS = pathlib.Path(__file__).parent / "ramps.txt"
PER_MODEL = [DISTANCES, PROFILES, WEIGHTS]
PER_MODEL_TABLES = ["head_distance", "head_profile", "head_component_weights"]
IDS = ["model", "layer", "q_head", "k_head"]

pytestmark = needs_gnuplot


# ---- studies of made-up numbers --------------------------------------------------------------

def made_model(name, heads=8, buckets=9, width=64, dims=16, seed=1):
    """The tables of a model. Query positions differ between heads, some heads lack buckets."""
    rng = np.random.default_rng(seed)
    of_head = pd.DataFrame({"model": name, "layer": np.arange(heads) // 4,
                            "q_head": np.arange(heads) % 4, "k_head": np.arange(heads) % 4 // 2})
    metrics = of_head.assign(bucket_width=float(width))
    metrics["ap_first_20pct"] = rng.uniform(0.5, 0.8, heads)
    metrics["ap_last_20pct"] = rng.uniform(0.3, 0.6, heads)
    metrics["ap_drop"] = metrics.ap_first_20pct - metrics.ap_last_20pct
    metrics["ap_overall"] = (metrics.ap_first_20pct + metrics.ap_last_20pct) / 2
    metrics.loc[0, ["ap_first_20pct", "ap_drop"]] = np.nan

    profile = of_head.merge(pd.DataFrame({"q_bucket": np.arange(1, buckets)}), how="cross")
    profile["position"] = (profile.q_bucket + 0.5) * width + rng.uniform(-9, 9, len(profile))
    profile["n_queries"] = profile["n_pairs"] = 10
    profile["ap"] = rng.uniform(0.2, 0.9, len(profile))
    profile = profile[(profile.q_head != 1) | (profile.q_bucket != 3)]
    profile.loc[profile.index[-1], "ap"] = np.nan

    bins = [(d, g) for g in range(buckets) for d in range(buckets) if d <= 2 * g and d + g < buckets]
    distance = of_head.merge(pd.DataFrame(bins, columns=["distance_bin", "lag_bin"]), how="cross")
    distance["n_pairs"] = rng.integers(1, 1000, len(distance))
    distance["ap"] = rng.uniform(0, 1, len(distance))

    weights = of_head.merge(pd.DataFrame({"component": np.arange(dims)}), how="cross")
    weights["component_r2"] = rng.uniform(0, 1, len(weights))
    weights["component_weight"] = rng.dirichlet(np.ones(dims), heads).ravel()

    rotated = of_head.assign(bias_strength=1e-4 * rng.normal(1, 1, heads))
    return {"head_metrics": metrics, "head_profile": profile, "head_distance": distance,
            "head_component_weights": weights, "rotated": rotated}


def without(parts, *tables):
    return [{k: v for k, v in part.items() if k not in tables} for part in parts]


def write_study(folder, parts, models=None, title=None):
    """models: rows (label, family, phase)."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {name: pd.concat([p[name] for p in parts], ignore_index=True) for name in parts[0]}
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    write_models(folder, [p["head_metrics"].model.iloc[0] for p in parts], models, title)
    return tables


def names_of(models, kinds=PER_MODEL):
    return [f"{kind}-{model}" for kind in kinds for model in models]


@pytest.fixture(scope="module")
def cross(qkscope, tmp_path_factory):
    """Three models of two families."""
    folder = tmp_path_factory.mktemp("cross")
    models = [("Alpha 1", "Alpha", ""), ("Alpha 2", "Alpha", ""), ("Beta", "Beta", "")]
    tables = write_study(folder, [made_model(f"m{i}", 8 + 4 * i, 9 + i, seed=i)
                                  for i in range(3)], models, "Three models")
    return draw(qkscope, folder), tables


@pytest.fixture(scope="module")
def training(qkscope, tmp_path_factory):
    """Seven checkpoints of three phases."""
    folder = tmp_path_factory.mktemp("training")
    models = [(f"step {i}", "tiny", ("warm", "main", "decay")[i // 3]) for i in range(7)]
    tables = write_study(folder, [made_model(f"m{i}", seed=i) for i in range(7)], models)
    return draw(qkscope, folder), tables


# ---- a model ---------------------------------------------------------------------------------

def test_which_figures(cross, training):
    assert drawn(cross[0], "plasticity") == sorted([*names_of(["m0", "m1", "m2"]), BY_MODEL])
    assert drawn(training[0], "plasticity") == sorted([*names_of([f"m{i}" for i in range(7)]), TRAJECTORY])


def mean_distances(table, merge=1):
    """Plasticity by (distance, lag), weighted by pairs."""
    table = table.assign(total=table.ap * table.n_pairs, distance_bin=table.distance_bin // merge,
                         lag_bin=table.lag_bin // merge)
    sums = table.groupby(["distance_bin", "lag_bin"])[["total", "n_pairs"]].sum()
    return (sums.total / sums.n_pairs).to_dict()


def magma(x):
    """matplotlib's, of a share."""
    text = next(line.split()[1] for line in RAMPS.read_text().splitlines() if line.startswith("magma"))
    at = 6 * round(255 * min(1, max(0, x)))
    return np.array([int(text[at + i:at + i + 2], 16) for i in (0, 2, 4)])


def colors_range(figures, name):
    """What the bar beside the map stands for."""
    bar = numbers([row[:2] for row in blocks(figures / name)[1]])
    return bar[0]


def check_distances(figures, name, expected, table):
    """Cells; the range of the colours, from the 2nd to the 98th percentile of those that are sure enough; those of few
    pairs are hatched, and said to be."""
    cells = blocks(figures / name)[0]
    assert len(cells) == len(expected)
    for distance, lag, ap, *_ in cells:
        assert float(ap) == pytest.approx(expected[int(distance), int(lag)], rel=1e-5)
    found = numbers([row[:3] + row[4:] for row in cells])
    assert found[:, 3].sum() == pytest.approx(table.dropna(subset="ap").n_pairs.sum(), rel=1e-4)
    median = np.median(found[:, 3])
    enough = np.ceil(min(median / 10, max(100, median / 10000)))
    values = np.sort(found[found[:, 3] >= enough, 2])
    cut = (len(values) - 1) // 50
    low, high = colors_range(figures, name)
    np.testing.assert_allclose([low, high], [values[cut], values[-1 - cut]], rtol=1e-5)
    for row in cells:
        color = [int(row[3][i:i + 2], 16) for i in (2, 4, 6)]
        np.testing.assert_allclose(color, magma((float(row[2]) - low) / (high - low)), atol=5, err_msg=str(row))
    hatched = re.findall(r"from first (\S+),(\S+) to .* pattern 4", script_of(figures / name))
    few = found[found[:, 3] < enough]
    assert {(float(x) + 0.5, float(y) + 0.5) for x, y in hatched} == {(d, lag) for d, lag in few[:, :2]}
    assert (f"fewer than {enough:.0f} pairs" in texts_of(figures / name)) == (len(few) > 0)
    assert f"($5 < {enough:.0f} ? NaN : $1)" in script_of(figures / name), "no colour under a hatch"


def cell_width(figures, name):
    """Tokens of a cell, from the labels between cells."""
    tics = re.findall(r"'(\d+)' (-?[\d.]+)", re.search(r"set xtics .*", script_of(figures / name))[0])
    widths = {int(label) / (float(place) + 0.5) for label, place in tics[1:]}
    assert tics[0] == ("0", "-0.5") and len(widths) == 1
    return widths.pop()


@pytest.mark.parametrize("model", ["m0", "m2"])
def test_distances(cross, model):
    figures, tables = cross
    table = tables["head_distance"]
    name = f"{DISTANCES}-{model}"
    table = table[table.model == model]
    check_distances(figures, name, mean_distances(table), table)
    texts = texts_of(figures / name)
    assert {"Inter-key distance (tokens)", "Key-to-query distance (tokens)",
            "Attention plasticity"} <= set(texts)
    assert {"Attention plasticity over distances",
            f"Three models · {'Alpha 1' if model == 'm0' else 'Beta'}"} <= set(texts)
    assert cell_width(figures, name) == 64
    assert {"0", "128", "512"} <= set(texts)


def test_wide_maps_are_merged(qkscope, tmp_path):
    model = made_model("wide", 2, 3)
    rng = np.random.default_rng(0)
    bins = pd.DataFrame({"distance_bin": rng.integers(0, 150, 3000),
                         "lag_bin": rng.integers(0, 90, 3000)}).drop_duplicates()
    table = model["head_metrics"][IDS].head(2).merge(bins, how="cross")
    table["n_pairs"] = rng.integers(1, 100, len(table))
    table["ap"] = rng.uniform(0, 1, len(table))
    tables = write_study(tmp_path, [{**model, "head_distance": table}])
    figures = draw(qkscope, tmp_path, "--figure", f"{DISTANCES}-wide")
    expected = mean_distances(tables["head_distance"], merge=3)
    check_distances(figures, f"{DISTANCES}-wide", expected, tables["head_distance"])
    assert max(d for d, _ in expected) == 49
    assert cell_width(figures, f"{DISTANCES}-wide") == 192


def test_a_handful_of_pairs_does_not_stretch_the_colours(qkscope, tmp_path):
    """At the rim a cell has a few pairs of a few heads, and may say anything."""
    tables = made_model("m0", seed=5)
    table = tables["head_distance"]
    table["n_pairs"] = 1_000_000
    table["ap"] = 0.5 + 0.01 * table.distance_bin
    table.loc[table.distance_bin == table.distance_bin.max(), ["n_pairs", "ap"]] = 15, 0.05
    write_study(tmp_path, [tables], [("m0", "", "")])
    figures = draw(qkscope, tmp_path)
    cells = numbers([row[:3] for row in blocks(figures / f"{DISTANCES}-m0")[0]])
    assert cells[:, 2].min() == pytest.approx(0.05), "the number is kept"
    assert any(t.startswith("fewer than ") for t in texts_of(figures / f"{DISTANCES}-m0"))
    low, high = colors_range(figures, f"{DISTANCES}-m0")
    assert [low, high] == pytest.approx([0.5, 0.5 + 0.01 * (table.distance_bin.max() - 1)])


def test_distances_in_buckets_where_the_width_is_not_known(qkscope, tmp_path):
    model = made_model("m")
    model["head_metrics"].loc[3, "bucket_width"] = 65
    write_study(tmp_path, [model])
    figures = draw(qkscope, tmp_path)
    assert "Inter-key distance (buckets)" in texts_of(figures / f"{DISTANCES}-m")
    assert cell_width(figures, f"{DISTANCES}-m") == 1


def test_checkpoints_have_one_scale(training, cross):
    """Of distances: so that training is seen."""
    ranges = [tuple(colors_range(training[0], f"{DISTANCES}-m{i}")) for i in range(7)]
    assert len(set(ranges)) == 1
    low, high = ranges[0]
    values = [numbers([row[:3] for row in blocks(training[0] / f"{DISTANCES}-m{i}")[0]])[:, 2] for i in range(7)]
    assert all(np.mean((v >= low) & (v <= high)) > 0.9 for v in values)
    assert tuple(colors_range(cross[0], f"{DISTANCES}-m0")) != tuple(colors_range(cross[0], f"{DISTANCES}-m1"))


def check_mean_profile(rows, table):
    """Over the heads that have a value in the bucket."""
    means = table.dropna(subset="ap").groupby("q_bucket").agg(
        position=("position", "mean"), ap=("ap", "mean"), heads=("ap", "size"))
    np.testing.assert_allclose(numbers(rows), means.sort_values("position"), **TOLERANCE)


@pytest.mark.parametrize("model", ["m0", "m2"])
def test_profiles(cross, model):
    figures, tables = cross
    table = tables["head_profile"]
    table = table[table.model == model]
    name = f"{PROFILES}-{model}"
    heads, mean = blocks(figures / name)
    np.testing.assert_allclose(numbers(heads), table[["position", "ap"]], **TOLERANCE)
    assert heads.count([]) == table.groupby(["layer", "q_head"]).ngroups - 1
    check_mean_profile(mean, table)
    texts = texts_of(figures / name)
    assert {f"single heads ({heads.count([]) + 1})", "mean over all heads",
            "Position of the query (tokens)"} <= set(texts)
    assert "set yrange [0:1]" in script_of(figures / name)


@pytest.mark.parametrize("count, buckets, shown", [(1000, 4, 400), (300, 130, 186)])
def test_no_more_profiles_than_show(qkscope, tmp_path, count, buckets, shown):
    model = made_model("many", count, buckets)
    del model["head_distance"]
    tables = write_study(tmp_path, [model])
    figures = draw(qkscope, tmp_path, "--figure", f"{PROFILES}-many")
    heads, mean = blocks(figures / f"{PROFILES}-many")
    assert len(curves(heads)) == shown
    assert f"{shown} of {count} heads" in texts_of(figures / f"{PROFILES}-many")
    table = tables["head_profile"]
    firsts = table.groupby(["layer", "q_head"])[["position", "ap"]].first().to_numpy()
    chosen = [int(np.abs(firsts - curve[0, :2]).sum(axis=1).argmin()) for curve in curves(heads)]
    assert chosen == sorted(chosen) and np.diff(chosen).max() <= 3  # evenly
    check_mean_profile(mean, table)  # of all of them


def test_weights(cross):
    figures, tables = cross
    table = tables["head_component_weights"]
    expected = table[table.model == "m1"].groupby("component").component_weight.mean()
    name = f"{WEIGHTS}-m1"
    np.testing.assert_allclose(numbers(blocks(figures / name)[0]),
                               np.column_stack([expected.index, expected]), **TOLERANCE)
    assert {"Query dimension", "Share of positional information"} <= set(texts_of(figures / name))
    bars = [el for el in read_svg(figures / name).iter(SVG + "polygon")]
    assert len(bars) >= 16


# ---- models side by side ---------------------------------------------------------------------

def means(tables, column, table="head_metrics"):
    """Over the heads of each model that have the number."""
    return tables[table].groupby("model", sort=False)[column].mean()


def test_by_model(cross):
    figures, tables = cross
    rows = numbers(blocks(figures / BY_MODEL)[0])
    np.testing.assert_allclose(rows[:, 1], means(tables, "ap_first_20pct"), **TOLERANCE)
    np.testing.assert_allclose(rows[:, 2], means(tables, "ap_last_20pct"), **TOLERANCE)
    texts = texts_of(figures / BY_MODEL)
    assert {"Alpha 1", "Alpha 2", "Beta", "first 20 % of the context", "last 20 %",
            "Attention plasticity by model", "Three models"} <= set(texts)
    assert {f"{drop:.3f}" for drop in means(tables, "ap_drop")} <= set(texts)


def test_trajectory(training):
    figures, tables = training
    ends, biases = map(numbers, blocks(figures / TRAJECTORY))
    expected = np.column_stack([range(7), means(tables, "ap_first_20pct"),
                                means(tables, "ap_last_20pct")])
    np.testing.assert_allclose(ends, expected, **TOLERANCE)
    np.testing.assert_allclose(biases[:, 1], means(tables, "bias_strength", "rotated"),
                               **TOLERANCE)
    texts = texts_of(figures / TRAJECTORY)
    assert {"first 20 % of the context", "last 20 %", "drop", "Attention plasticity",
            "Training checkpoint", "warm", "main", "decay"} <= set(texts)
    assert all(texts.count(f"step {i}") == 1 for i in range(7))
    # between the phases, in both panels
    assert re.findall(r"first (\S+), graph 0 to", script_of(figures / TRAJECTORY)) == \
        ["2.5", "5.5"] * 2


def test_trajectory_without_the_rotation_model(qkscope, tmp_path):
    models = [(f"s{i}", "f", "p") for i in range(3)]
    parts = [made_model(f"m{i}", seed=i) for i in range(3)]
    write_study(tmp_path, without(parts, "rotated"), models)
    figures = draw(qkscope, tmp_path, "--figure", TRAJECTORY, formats="png,svg")
    assert len(blocks(figures / TRAJECTORY)) == 1
    texts = texts_of(figures / TRAJECTORY)
    assert "Bias strength" not in texts and {"s0", "s1", "s2"} <= set(texts)
    check_pictures(figures, [TRAJECTORY])


def test_a_checkpoint_without_numbers_leaves_a_gap(qkscope, tmp_path):
    parts = [made_model(f"m{i}", seed=i) for i in range(4)]
    for table in parts[2].values():
        table.loc[:, [c for c in table if c.startswith(("ap", "bias"))]] = np.nan
    write_study(tmp_path, parts, [(f"s{i}", "f", "p") for i in range(4)])
    figures = draw(qkscope, tmp_path, "--figure", TRAJECTORY, formats="png,svg")
    ends = blocks(figures / TRAJECTORY)[0]
    assert [row[1] == "NaN" for row in ends] == [False, False, True, False]
    check_pictures(figures, [TRAJECTORY])


# ---- against scores --------------------------------------------------------------------------

def boxes_of_names(figures, names, size=0.8 * 13):
    """About where the names stand in the SVG: left, top, right, bottom."""
    boxes = {}
    root = read_svg(figures / SCORE)
    for group in root.iter(SVG + "g"):
        for text in group.findall(SVG + "text"):
            word = "".join(text.itertext()).strip()
            place = re.search(r"translate\(([\d.]+),([\d.]+)\)", group.get("transform", ""))
            if word in names and place:
                x, y = map(float, place.groups())
                width = 0.5 * size * len(word)
                left = x - {"end": width, "middle": width / 2}.get(group.get("text-anchor"), 0)
                boxes[word] = (left, y - 0.7 * size, left + width, y)
    return boxes


def check_names_are_apart(boxes, frame=(0, 0, 800, 600)):
    items = list(boxes.items())
    for i, (word, a) in enumerate(items):
        assert a[0] >= frame[0] and a[1] >= frame[1] and a[2] <= frame[2] and a[3] <= frame[3]
        for other, b in items[i + 1:]:
            assert (min(a[2], b[2]) <= max(a[0], b[0]) or
                    min(a[3], b[3]) <= max(a[1], b[1])), (word, other)


def test_the_published_scores(qkscope, shared_data, tmp_path):
    """Numbers of a score file alone: ap_drop against the benchmark has r = -0.67."""
    from scipy import stats
    published = shared_data("published") / "scores.csv"
    write_study(tmp_path, without([made_model("other")], *PER_MODEL_TABLES))
    figures = draw(qkscope, tmp_path, "--figure", SCORE, "--scores", published, formats="png,svg")
    table = pd.read_csv(published)
    points, line = blocks(figures / SCORE)
    np.testing.assert_allclose(numbers(points)[:, :2],
                               table[["ap_drop", "longbench_pro_overall"]], **TOLERANCE)
    fit = stats.linregress(table.ap_drop, table.longbench_pro_overall)
    assert round(fit.rvalue, 2) == -0.67
    ends = np.array([table.ap_drop.min(), table.ap_drop.max()])
    np.testing.assert_allclose(numbers(line), np.column_stack(
        [ends, fit.intercept + fit.slope * ends]), rtol=1e-5)
    families = numbers(points)[:, 2]
    assert [list(families).index(f) for f in families] == [0, 0, 2, 2, 2, 0, 6]
    texts = texts_of(figures / SCORE)
    assert {"r = −0.67, n = 7", *table.family} <= {re.sub(" +", " ", t) for t in texts}
    assert {"Attention plasticity drop, first to last 20% of context (from the score file)", "LongBench Pro Overall"} <= set(texts)
    names = boxes_of_names(figures, set(table.model))
    assert set(names) == set(table.model)
    check_names_are_apart(names)
    check_pictures(figures, [SCORE])


def test_metric_and_score_by_name(qkscope, shared_data, tmp_path):
    published = shared_data("published") / "scores.csv"
    write_study(tmp_path, without([made_model("other")], *PER_MODEL_TABLES))
    figures = draw(qkscope, tmp_path, "--figure", SCORE, "--scores", published, "--score-metric", "bias_strength",
                   "--score-column", "ap_overall")
    table = pd.read_csv(published)
    np.testing.assert_allclose(numbers(blocks(figures / SCORE)[0])[:, :2],
                               table[["bias_strength", "ap_overall"]], **TOLERANCE)
    r = np.corrcoef(table.bias_strength, table.ap_overall)[0, 1]
    assert any(f"r = {r:.2f}".replace("-", "−") in t for t in texts_of(figures / SCORE))


def test_a_metric_of_the_study(qkscope, tmp_path):
    """Where the score file has no such column: means over heads, matched by name or label."""
    parts = [made_model(f"m{i}", seed=i) for i in range(5)]
    tables = write_study(tmp_path, without(parts, *PER_MODEL_TABLES),
                         [(f"Label {i}", f"F{i % 2}", "") for i in range(5)])
    scores = pd.DataFrame({"model": ["m0", "Label 1", "m2", "m3", "stranger"],
                           "note": list("abcde"), "quality": [5, 3, 4, None, 1]})
    scores.to_csv(tmp_path / "scores.csv", index=False)
    figures = draw(qkscope, tmp_path)
    points = numbers(blocks(figures / SCORE)[0])
    drops = means(tables, "ap_drop")[["m0", "m1", "m2"]]
    np.testing.assert_allclose(points, np.column_stack([drops, [5, 3, 4], [0, 1, 0]]),
                               **TOLERANCE)
    texts = texts_of(figures / SCORE)
    assert {"Label 0", "Label 1", "Label 2", "Quality", "F0", "F1"} <= set(texts)
    assert any(t.endswith("(mean over heads)") for t in texts)
    assert any("n = 3" in t for t in texts)
    scores.head(2).to_csv(tmp_path / "scores.csv", index=False)  # too few
    shutil.rmtree(figures)
    assert SCORE not in drawn(draw(qkscope, tmp_path), "plasticity")


@pytest.mark.parametrize("count, theme", [(3, "paper"), (11, "dark"), (11, "screen"),
                                          (40, "screen"), (40, "paper")])
def test_names_of_points_are_apart(qkscope, tmp_path, count, theme):
    rng = np.random.default_rng(count)
    write_study(tmp_path, without([made_model("other")], *PER_MODEL_TABLES))
    scores = pd.DataFrame({"model": [f"model-{i}-instruct" for i in range(count)],
                           "family": [f"family {i % 4}" for i in range(count)],
                           "score": rng.normal(0, 1, count), "ap_drop": rng.normal(0, 1, count)})
    scores.to_csv(tmp_path / "scores.csv", index=False)
    figures = draw(qkscope, tmp_path, "--figure", SCORE, "--theme", theme, formats="png,svg")
    assert len(numbers(blocks(figures / SCORE)[0])) == count
    size = 0.8 * (16 if theme == "screen" else 13)
    height = float(read_svg(figures / SCORE).get("height"))
    names = boxes_of_names(figures, set(scores.model), size)
    assert len(names) >= (count if count <= 11 else count // 2)
    check_names_are_apart(names, (size, size, 800 - size / 2, height))
    check_pictures(figures, [SCORE])


def test_scores_without_a_line(qkscope, tmp_path):
    write_study(tmp_path, without([made_model("other")], *PER_MODEL_TABLES))
    pd.DataFrame({"model": list("abc"), "score": [1, 1, 1], "ap_drop": [2, 2, 2]}).to_csv(
        tmp_path / "scores.csv", index=False)
    figures = draw(qkscope, tmp_path, "--figure", SCORE, formats="png,svg")
    assert any(t.startswith("r undefined") for t in texts_of(figures / SCORE))
    check_pictures(figures, [SCORE])


# ---- the pictures ----------------------------------------------------------------------------

@pytest.mark.parametrize("theme", ["paper", "screen", "dark"])
def test_pictures(qkscope, tmp_path, theme):
    models = [(f"model {i}", f"F{i % 3}", "") for i in range(4)]
    write_study(tmp_path, [made_model(f"m{i}", seed=i, width=8192, buckets=17)
                           for i in range(4)], models)
    figures = draw(qkscope, tmp_path, "--theme", theme, formats="png,svg")
    check_pictures(figures, drawn(figures, "plasticity"))
    assert len(drawn(figures, "plasticity")) == 3 * 4 + 1


@pytest.mark.parametrize("theme", ["paper", "screen"])
def test_forty_checkpoints(qkscope, tmp_path, theme):
    models = [(f"checkpoint-{500 * i:06d}", "tiny", f"phase {i // 10}") for i in range(40)]
    parts = [made_model(f"m{i}", 2, 3, seed=i) for i in range(40)]
    write_study(tmp_path, without(parts, *PER_MODEL_TABLES), models)
    figures = draw(qkscope, tmp_path, "--figure", TRAJECTORY, "--theme", theme, formats="png,svg")
    assert len(numbers(blocks(figures / TRAJECTORY)[0])) == 40
    assert {"phase 0", "phase 3", "checkpoint-000000"} <= set(texts_of(figures / TRAJECTORY))
    check_pictures(figures, [TRAJECTORY])


def changed(value, **shape):
    model = made_model("m", **shape)
    for table in model.values():
        table.loc[:, [c for c in table if c.startswith(("ap", "bias_", "component_w"))]] = value
    return model


DEGENERATE = {"one head": made_model("m", 1), "two buckets": made_model("m", 4, 2),
              "one dimension": made_model("m", dims=1), "zero": changed(0.0),
              "huge": changed(1e200), "tiny": changed(1e-200), "negative": changed(-2.0),
              "nothing": changed(np.nan)}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("phase", ["", "p"])
def test_degenerate_studies(qkscope, tmp_path, case, phase):
    one = DEGENERATE[case]
    two = {name: table.assign(model="n") for name, table in one.items()}
    write_study(tmp_path, [one, two], [("m", "F", phase), ("n", "F", phase)])
    figures = draw(qkscope, tmp_path, formats="png,svg")
    expected = [] if case == "nothing" else names_of(["m", "n"])
    if case not in ("nothing", "one head"):
        expected.append(TRAJECTORY if phase else BY_MODEL)
    assert drawn(figures, "plasticity") == sorted(expected)
    if case != "huge":  # its numbers have no room
        check_pictures(figures, expected)


@pytest.mark.parametrize("phases", [False, True])
def test_hostile_labels(qkscope, tmp_path, phases):
    """Text is text, wherever it stands; long text is cut and stays inside."""
    models = [(name, HOSTILE[i // 2], HOSTILE[i // 3] if phases else "")
              for i, name in enumerate(HOSTILE)]
    write_study(tmp_path, [made_model(name, 4, 3, seed=i) for i, name in enumerate(HOSTILE)],
                models, HOSTILE[1])
    pd.DataFrame({"model": HOSTILE, HOSTILE[0]: np.arange(len(HOSTILE)) ** 2}).to_csv(
        tmp_path / "scores.csv", index=False)
    figures = draw(qkscope, tmp_path, formats="png,svg")
    names = drawn(figures, "plasticity")
    assert len(names) == 3 * len(HOSTILE) + 2
    check_pictures(figures, names)
    assert not list(tmp_path.rglob("[xy]"))
    shared = [SCORE, TRAJECTORY if phases else BY_MODEL]
    for name in shared:
        texts = texts_of(figures / name)
        for label in HOSTILE:
            assert any(t.startswith(label[:24].strip().replace("\n", " ")) for t in texts), (name, label, texts)
        assert all(el.tag.startswith(SVG) and "script" not in el.tag
                   for el in read_svg(figures / name).iter())
    for label in HOSTILE:
        assert any(label[:24].strip().replace("\n", " ") in " ".join(texts_of(figures / n))
                   for n in names if n.startswith(PROFILES))


# ---- real captures ---------------------------------------------------------------------------

def test_a_real_capture(qkscope, tmp_path):
    qkscope("plasticity", EXAMPLE, "-o", tmp_path, "--model-name", "kjv", expect=0)
    figures = draw(qkscope, tmp_path, formats="png,svg")
    assert drawn(figures, "plasticity") == names_of(["kjv"])
    check_pictures(figures, names_of(["kjv"]))
    table = pd.read_csv(tmp_path / "head_distance.csv")
    check_distances(figures, f"{DISTANCES}-kjv", mean_distances(table), table)
    check_mean_profile(blocks(figures / f"{PROFILES}-kjv")[1],
                       pd.read_csv(tmp_path / "head_profile.csv"))


def test_steps_of_a_real_model(qkscope, shared_data, tmp_path):
    root = shared_data("kjv-tiny-steps")
    steps = sorted(root.glob("step-*"), key=lambda p: int(p.name.split("-")[1]))
    folder = tmp_path / "all"
    parts = []
    for step in steps:
        out = tmp_path / step.name
        qkscope("analyze", step, "-o", out, "--model-name", step.name, expect=0)
        parts.append({p.stem: pd.read_csv(p) for p in out.glob("*.csv")
                      if p.stem.startswith(("head_", "rotated"))})
    models = [(s.name, "kjv-tiny", "early" if i < 2 else "late") for i, s in enumerate(steps)]
    tables = write_study(folder, parts, models)
    figures = draw(qkscope, folder, formats="png,svg")
    assert drawn(figures, "plasticity") == sorted([*names_of([s.name for s in steps]), TRAJECTORY])
    ends, biases = map(numbers, blocks(figures / TRAJECTORY))
    np.testing.assert_allclose(ends[:, 1], means(tables, "ap_first_20pct"), **TOLERANCE)
    np.testing.assert_allclose(biases[:, 1], means(tables, "bias_strength", "rotated"),
                               **TOLERANCE)
    check_pictures(figures, drawn(figures, "plasticity"))
