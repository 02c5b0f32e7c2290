# SPDX-License-Identifier: Apache-2.0
"""The plasticity figures that are like no other show what the tables say: maps of distances, profiles, scores."""
import pathlib
import re

import numpy as np
import pytest

from drawn_studies import SIZES, Study, close, cross, training, values  # noqa: F401
from figure_files import blocks, curves, draw, labels_of, needs_gnuplot, numbers, script_of, sketch, svg_texts
from made_tables import IDS, distances, make_heads, profile, write_csv, write_results

DISTANCES, PROFILES = "plasticity-01-distance-heatmap", "plasticity-02-profiles"
SCORE, BY_MODEL = "plasticity-05-score", "plasticity-06-by-model"
RAMPS = pathlib.Path(__file__).parent / "ramps.txt"


# ---- distances ---------------------------------------------------------------------------------

def mean_distances(rows, merge=1):
    """Plasticity and pairs by (distance, lag), weighted by pairs."""
    cells = {}
    for row in rows:
        total = cells.setdefault((row["distance_bin"] // merge, row["lag_bin"] // merge), [0, 0])
        total[0] += row["ap"] * row["n_pairs"]
        total[1] += row["n_pairs"]
    return {place: (total / pairs, pairs) for place, (total, pairs) in cells.items()}


def magma(x):
    """matplotlib's, of a share."""
    text = next(line.split()[1] for line in RAMPS.read_text().splitlines() if line.startswith("magma"))
    at = 6 * round(255 * min(1, max(0, x)))
    return [int(text[at + i:at + i + 2], 16) for i in (0, 2, 4)]


def colors_range(figure):
    """What the bar beside the map stands for."""
    return numbers([row[:2] for row in blocks(figure)[1]])[0]


def check_distances(figure, expected):
    """Cells; the range of the colours, from the 2nd to the 98th percentile of those that are sure enough; those of few
    pairs are hatched, and said to be."""
    cells = blocks(figure)[0]
    assert {(int(d), int(lag)): (float(ap), float(pairs)) for d, lag, ap, _, pairs in cells} == {
        place: pytest.approx(both, rel=1e-5) for place, both in expected.items()}
    found = np.array(list(expected.values()))
    enough = np.ceil(min(np.median(found[:, 1]) / 10, max(100, np.median(found[:, 1]) / 10000)))
    sure = np.sort(found[found[:, 1] >= enough, 0])
    cut = (len(sure) - 1) // 50
    low, high = colors_range(figure)
    close([low, high], [sure[cut], sure[-1 - cut]])
    for row in cells:
        color = [int(row[3][i:i + 2], 16) for i in (2, 4, 6)]
        np.testing.assert_allclose(color, magma((float(row[2]) - low) / (high - low)), atol=5, err_msg=str(row))
    hatched = re.findall(r"from first (\S+),(\S+) to .* pattern 4", script_of(figure))
    few = {place for place, (_, pairs) in expected.items() if pairs < enough}
    assert {(float(x) + 0.5, float(y) + 0.5) for x, y in hatched} == few
    assert (f"fewer than {enough:.0f} pairs" in labels_of(figure)) == bool(few)


def cell_width(figure):
    """Tokens of a cell, from the labels between cells."""
    tics = re.findall(r"'(\d+)' (-?[\d.]+)", re.search(r"set xtics .*", script_of(figure))[0])
    widths = {int(label) / (float(place) + 0.5) for label, place in tics[1:]}
    assert tics[0] == ("0", "-0.5") and len(widths) == 1
    return widths.pop()


def test_distances(cross):
    figure = cross.figures / f"{DISTANCES}-name2"
    check_distances(figure, mean_distances(row for head in cross.by_model[2] for row in distances(head, SIZES["bins"])))
    assert {"Inter-key distance (tokens)", "Key-to-query distance (tokens)", "Attention plasticity",
            "Attention plasticity over distances", "Seven models · model-2", "8192"} <= set(labels_of(figure))
    assert cell_width(figure) == 8192


def of_bins(folder, bins, pairs, ap):
    """A model of two heads, whose table of distances has these bins; pairs(rng, bin) and ap(rng, bin)."""
    rng = np.random.default_rng(0)
    heads = make_heads("wide", 1, 2)
    write_results(folder, heads, **SIZES)
    rows = [{**{c: head[c] for c in IDS}, "distance_bin": d, "lag_bin": lag, "n_pairs": pairs(rng, d), "ap": ap(rng, d)}
            for head in heads for d, lag in bins]
    write_csv(folder / "head_distance.csv", IDS + ["distance_bin", "lag_bin", "n_pairs", "ap"], rows)
    return rows


def test_wide_maps_are_merged(qkscope, tmp_path):
    rng = np.random.default_rng(1)
    bins = sorted({(int(d), int(lag)) for d, lag in rng.integers(0, (150, 90), (3000, 2))})
    rows = of_bins(tmp_path, bins, lambda r, d: int(r.integers(1, 100)), lambda r, d: r.uniform())
    figure = sketch(qkscope, tmp_path, "--figure", f"{DISTANCES}-wide") / f"{DISTANCES}-wide"
    expected = mean_distances(rows, merge=3)
    check_distances(figure, expected)
    assert max(d for d, _ in expected) == 49 and cell_width(figure) == 3 * 8192


def test_a_handful_of_pairs_does_not_stretch_the_colours(qkscope, tmp_path):
    """At the rim a cell has a few pairs of a few heads, and may say anything."""
    of_bins(tmp_path, [(d, lag) for lag in range(9) for d in range(9 - lag)], lambda r, d: 15 if d == 8 else 1_000_000,
            lambda r, d: 0.05 if d == 8 else 0.5 + 0.01 * d)
    figure = sketch(qkscope, tmp_path, "--figure", f"{DISTANCES}-wide") / f"{DISTANCES}-wide"
    assert min(float(row[2]) for row in blocks(figure)[0]) == pytest.approx(0.05), "the number is kept"
    assert any(text.startswith("fewer than ") for text in labels_of(figure))
    assert colors_range(figure) == pytest.approx([0.5, 0.57])


def test_distances_in_buckets_where_the_width_is_not_known(qkscope, tmp_path):
    rows = make_heads("m", 2, 4)
    write_results(tmp_path, [row | {"bucket_width": 64.0 + (i == 3)} for i, row in enumerate(rows)], **SIZES)
    figure = sketch(qkscope, tmp_path, "--figure", f"{DISTANCES}-m") / f"{DISTANCES}-m"
    assert "Inter-key distance (buckets)" in labels_of(figure) and cell_width(figure) == 1


def test_checkpoints_have_one_scale(training, cross):
    """Of distances: so that training is seen."""
    ranges = {tuple(colors_range(training.figures / f"{DISTANCES}-name{i}")) for i in range(10)}
    assert len(ranges) == 1
    assert len({tuple(colors_range(cross.figures / f"{DISTANCES}-name{i}")) for i in range(7)}) > 1


# ---- profiles ----------------------------------------------------------------------------------

def check_mean_profile(rows, table):
    """Over the heads that have a value in the bucket: place, plasticity, number of heads."""
    buckets = sorted({row["q_bucket"] for row in table})
    own = [[row for row in table if row["q_bucket"] == bucket] for bucket in buckets]
    close(numbers(rows), [[values(part, "position").mean(), values(part, "ap").mean(), len(part)] for part in own])


def test_profiles(cross):
    table = [row for head in cross.by_model[0] for row in profile(head, SIZES["buckets"])]
    heads, mean = cross.blocks(f"{PROFILES}-name0")
    close(numbers(heads), [[row["position"], row["ap"]] for row in table])
    assert heads.count([]) == len(cross.by_model[0]) - 1
    check_mean_profile(mean, table)
    assert {f"single heads ({len(cross.by_model[0])})", "mean over all heads",
            "Position of the query (tokens)"} <= set(cross.labels(f"{PROFILES}-name0"))
    assert "set yrange [0:1]" in script_of(cross.figures / f"{PROFILES}-name0")


@pytest.mark.parametrize("count, buckets, shown", [(1000, 4, 400), pytest.param(300, 130, 186, marks=pytest.mark.test_all)])
def test_no_more_profiles_than_show(qkscope, tmp_path, count, buckets, shown):
    made = make_heads("many", count // 10, 10)
    write_results(tmp_path, made, tables=("plasticity",), buckets=buckets, bins=1, dim=1)
    figure = sketch(qkscope, tmp_path, "--figure", f"{PROFILES}-many") / f"{PROFILES}-many"
    heads, mean = blocks(figure)
    assert len(curves(heads)) == shown and f"{shown} of {count} heads" in labels_of(figure)
    tables = [list(profile(head, buckets)) for head in made]
    firsts = np.array([[table[0]["position"], table[0]["ap"]] for table in tables])
    chosen = [int(np.abs((firsts - curve[0, :2]) / [8192, 1]).sum(axis=1).argmin()) for curve in curves(heads)]
    assert chosen == sorted(chosen) and np.diff(chosen).max() <= 3  # evenly
    check_mean_profile(mean, sum(tables, []))  # of all of them


# ---- models side by side -----------------------------------------------------------------------

def means(study, column):
    return [np.nanmean(values(rows, column)) for rows in study.by_model]


def test_by_model(cross):
    rows, labels = numbers(cross.blocks(BY_MODEL)[0]), set(cross.labels(BY_MODEL))
    close(rows[:, 1:3], np.column_stack([means(cross, "ap_first_20pct"), means(cross, "ap_last_20pct")]))
    assert {*cross.labels_of_models, "first 20 % of the context", "last 20 %", "Attention plasticity by model"} <= labels
    assert {f"{drop:.3f}" for drop in means(cross, "ap_drop")} <= labels


@pytest.mark.parametrize("columns, options", [(("ap_drop", "longbench_pro_overall"), []), (
    ("bias_strength", "ap_overall"), ["--score-metric", "bias_strength", "--score-column", "ap_overall"])])
def test_the_published_scores(qkscope, shared_data, tmp_path, columns, options):
    """Numbers of a score file alone: ap_drop against the benchmark has r = -0.67."""
    import csv
    from scipy import stats
    write_results(tmp_path, make_heads("other", 2, 4), **SIZES)
    published = shared_data("published") / "scores.csv"
    figure = sketch(qkscope, tmp_path, "--figure", SCORE, "--scores", published, *options) / SCORE
    with published.open() as file:
        table = list(csv.DictReader(file))
    x, y = (np.array([float(row[column]) for row in table]) for column in columns)
    fit = stats.linregress(x, y)
    points, line = blocks(figure)
    close(numbers(points)[:, :2], np.column_stack([x, y]))
    close(numbers(line), [[end, fit.intercept + fit.slope * end] for end in (x.min(), x.max())])
    families = list(dict.fromkeys(row["family"] for row in table))
    places = [next(i for i, other in enumerate(table) if other["family"] == row["family"]) for row in table]
    assert [float(point[2]) for point in points] == [float(points[i][2]) for i in places]
    labels = [re.sub(" +", " ", text) for text in labels_of(figure)]
    assert {f"r = {fit.rvalue:.2f}, n = 7".replace("-", "−"), *families, *(row["model"] for row in table)} <= set(labels)
    assert options or (round(fit.rvalue, 2) == -0.67 and "LongBench Pro Overall" in labels
                       and "Attention plasticity drop, first to last 20% of context (from the score file)" in labels)


def test_a_metric_of_the_study(qkscope, tmp_path):
    """Where the score file has no such column: means over heads, matched by name or label."""
    scores = [{"model": name, "note": note, "quality": quality} for name, note, quality in zip(
        ("name0", "Label 1", "name2", "name3", "stranger"), "abcde", (5, 3, 4, None, 1))]
    models = [(f"Label {i}", f"F{i % 2}", "") for i in range(5)]
    made = Study(qkscope, tmp_path, models, [3], 4, scores=scores)
    close(made.blocks(SCORE)[0], np.column_stack([means(made, "ap_drop")[:3], [5, 3, 4], [0, 1, 0]]))
    labels = made.labels(SCORE)
    assert {"Label 0", "Label 1", "Label 2", "Quality", "F0", "F1"} <= set(labels)
    assert any(t.endswith("(mean over heads)") for t in labels) and any("n = 3" in t for t in labels)
    assert SCORE not in Study(qkscope, tmp_path / "few", models, [3], 4, scores=scores[:2]).names()


NO_NUMBER = r"scores.csv: row 3, column 'bench': '{}' is not a number: leave the field empty where there is no score, or leave out"


@pytest.mark.parametrize("field, options, said", [
    ("", [], ""), ("N/A", [], NO_NUMBER.format("N/A")), ("0,31", [], NO_NUMBER.format("0,31")), ("31%", [], NO_NUMBER.format("31%")),
    (" 31", [], NO_NUMBER.format(" 31")), ("N/A", ["--score-column", "params"], NO_NUMBER.format("N/A")),
    ("31", ["--score-column", "bnch"], "score-column: there is no column of scores 'bnch'; there are: bench, params"),
    ("31", ["--score-column", "note"], "score-column: there is no column of scores 'note'; there are: bench, params"),
    ("31", ["--score-metric", "plasticty"], "score-metric: there is no column of scores, nor number of a head, 'plasticty'; there are: bench"),
    ("31", ["--score-metric", "r_q", "--score-column", "params"], "")])
def test_a_column_is_of_scores_or_an_error(qkscope, tmp_path, field, options, said):
    """What is no number does not make the next column the score, and no wrong name leaves the figure out without a word."""
    write_results(tmp_path, [row for m in range(4) for row in make_heads(f"m{m}", 2, 4, seed=m)], **SIZES)
    rows = [f'm{m},of {m},{40 + m},{m}' for m in range(4)]
    (tmp_path / "scores.csv").write_text("\n".join(["model,note,bench,params", rows[0], f'm1,of 1,"{field}",1', *rows[2:]]) + "\n")
    done = qkscope("report", tmp_path, "--list", *options)
    assert (said in done.err and done.code) if said else (SCORE in done.out and not done.code), done
    if not said and not field:  # three models have a score
        close(numbers(blocks(sketch(qkscope, tmp_path, "--figure", SCORE) / SCORE)[0])[:, 1], [40, 42, 43])


def test_models_and_scores_without_the_other_are_named(qkscope, tmp_path):
    write_results(tmp_path, [row for m in range(4) for row in make_heads(f"m{m}", 2, 4, seed=m)], **SIZES)
    (tmp_path / "scores.csv").write_text("model,bench\nm0,1\nM1,2\nm2,\nelse,3\n")
    said = qkscope("report", tmp_path, "--list", expect=0).err
    assert "models without a score in column bench: m1, m2, m3\n" in said and "scores of models that are not here: M1, else\n" in said
    (tmp_path / "scores.csv").write_text("model,bench\nm0,1\nm1,2\nm2,3\nm3,4\n")
    assert qkscope("report", tmp_path, "--list", expect=0).err == ""


LONG = "HuggingFaceTB/SmolLM3-3B-checkpoints-stage{}-step-{}"


def test_labels_that_begin_alike_are_told_apart(qkscope, tmp_path):
    """Wherever a figure shows labels of models, in whatever room: as tics, in legends, beside points."""
    labels = [LONG.format(*which) for which in ((1, 40000), (1, 80000), (2, 40000))] + ["short", "meta-llama/Llama-3.2-3B-Instruct"]
    made = Study(qkscope, tmp_path, [(label, "", "") for label in labels], [3], 4,
                 scores=[{"model": f"name{m}", "bench": m} for m in range(5)])
    shown = ["1…ts-stage1-step-40000", "2…ts-stage1-step-80000", "3…ts-stage2-step-40000", "short"]
    found = 0
    for name in made.names():
        texts = [text.removesuffix(" (mean)") for text in made.labels(name)]
        assert not any(text.startswith("HuggingFaceTB") for text in texts), (name, texts)
        found += set(shown) <= set(texts)
    assert found > 10


def test_scores_without_a_line(qkscope, tmp_path):
    scores = [{"model": name, "score": 1, "ap_drop": 2} for name in "abc"]
    write_results(tmp_path, make_heads("other", 2, 4), scores=scores, **SIZES)
    assert any(t.startswith("r undefined") for t in labels_of(sketch(qkscope, tmp_path, "--figure", SCORE) / SCORE))


@pytest.mark.test_all
@needs_gnuplot
@pytest.mark.parametrize("count, theme", [(3, "paper"), (11, "screen"), (40, "paper")])
def test_names_of_points_are_apart(qkscope, tmp_path, count, theme):
    from svg_pictures import overlap, read_picture
    rng = np.random.default_rng(count)
    scores = [{"model": f"model-{i}-instruct", "family": f"family {i % 4}", "score": rng.normal(), "ap_drop": rng.normal()}
              for i in range(count)]
    write_results(tmp_path, make_heads("other", 2, 4), scores=scores, **SIZES)
    figure = draw(qkscope, tmp_path, "--figure", SCORE, "--theme", theme) / SCORE
    assert len(blocks(figure)[0]) == count and len(svg_texts(figure)) > count / 2
    names = [text for text in read_picture(figure).texts if text.text.endswith("-instruct")]
    assert len(names) >= (count if count <= 11 else count // 2)
    assert not [(a.text, b.text) for i, a in enumerate(names) for b in names[i + 1:] if overlap(a.box, b.box) > 1.5]
