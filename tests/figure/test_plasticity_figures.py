# SPDX-License-Identifier: Apache-2.0
"""The plasticity figures that are like no other show what the tables say: maps of distances, profiles, scores."""
import pathlib
import re

import numpy as np
import pytest

from drawn_studies import SIZES, Study, close, cross, training, values  # noqa: F401
from figure_files import draw, numbers, panels, svg_texts, told, whole_texts
from made_tables import IDS, distances, make_heads, profile, write_csv, write_results
from svg_pictures import Picture

DISTANCES, PROFILES = "plasticity-01-distance-heatmap", "plasticity-02-profiles"
SCORE = "plasticity-05-score"
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
    """What the bar beside the map stands for, from its numbers: they lie along its edge, the lowest end at its foot."""
    picture = Picture(figure)
    bars = [box for box in picture.shapes("rect") if box["width"] == "12" and box["fill"] != "#d8dee4"]
    top, bottom = min(float(b["y"]) for b in bars), max(float(b["y"]) + float(b["height"]) for b in bars)
    left = max(float(b["x"]) for b in bars)
    tics = [(t.y - 0.35 * t.size, float(t.text)) for t in picture.texts if t.anchor == "start" and t.x > left and re.fullmatch(r"[\d.]+", t.text)]
    slope, start = np.polyfit(*np.array(tics).T, 1)
    return start + slope * bottom, start + slope * top


def check_distances(figure, expected, width):
    """Cells; the range of the colours, from the 2nd to the 98th percentile of those that are sure enough; those of few
    pairs are hatched, and said to be."""
    cells = {(row["x"] / width, row["y"] / width): row["value"] for row in told(figure)}
    assert cells == pytest.approx({place: ap for place, (ap, _) in expected.items()}, rel=1e-9)
    found = np.array(list(expected.values()))
    enough = np.ceil(min(np.median(found[:, 1]) / 10, max(100, np.median(found[:, 1]) / 10000)))
    sure = np.sort(found[found[:, 1] >= enough, 0])
    cut = (len(sure) - 1) // 50
    low, high = colors_range(figure)
    np.testing.assert_allclose([low, high], [sure[cut], sure[-1 - cut]], atol=0.003)
    few = sum(pairs < enough for _, pairs in expected.values())
    boxes = [box for box in Picture(figure).shapes("rect") if box["fill"] == "#d8dee4"]
    assert len(boxes) == few + (few > 0), "each cell, and the line that says what it means"
    assert (f"fewer than {enough:.0f} pairs" in svg_texts(figure)) == bool(few)
    shades = [box["fill"] for box in Picture(figure).shapes("rect")[1:] if box["fill"] not in ("#d8dee4", "#f6f8fa")]
    certain = [ap for ap, pairs in (expected[place] for place in cells) if pairs >= enough]
    for ap, fill in zip(certain, shades):
        np.testing.assert_allclose([int(fill[i:i + 2], 16) for i in (1, 3, 5)], magma((ap - low) / (high - low)), atol=8)


def test_distances(cross):
    figure = cross.figures / f"{DISTANCES}-name2"
    check_distances(figure, mean_distances(row for head in cross.by_model[2] for row in distances(head, SIZES["bins"])), 8192)
    assert {"Inter-key distance (tokens)", "Key-to-query distance (tokens)", "Attention plasticity",
            "Attention plasticity over distances", "Seven models · model-2", "8192"} <= set(svg_texts(figure))


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
    figure = draw(qkscope, tmp_path, "--figure", f"{DISTANCES}-wide") / f"{DISTANCES}-wide"
    expected = mean_distances(rows, merge=3)
    check_distances(figure, expected, 3 * 8192)
    assert max(d for d, _ in expected) == 49


def test_a_handful_of_pairs_does_not_stretch_the_colours(qkscope, tmp_path):
    """At the rim a cell has a few pairs of a few heads, and may say anything."""
    of_bins(tmp_path, [(d, lag) for lag in range(9) for d in range(9 - lag)], lambda r, d: 15 if d == 8 else 1_000_000,
            lambda r, d: 0.05 if d == 8 else 0.5 + 0.01 * d)
    figure = draw(qkscope, tmp_path, "--figure", f"{DISTANCES}-wide") / f"{DISTANCES}-wide"
    assert min(row["value"] for row in told(figure)) == pytest.approx(0.05), "the number is kept"
    assert any(text.startswith("fewer than ") for text in svg_texts(figure))
    assert colors_range(figure) == pytest.approx((0.5, 0.57), abs=0.001)


def test_distances_in_buckets_where_the_width_is_not_known(qkscope, tmp_path):
    rows = make_heads("m", 2, 4)
    write_results(tmp_path, [row | {"bucket_width": 64.0 + (i == 3)} for i, row in enumerate(rows)], **SIZES)
    figure = draw(qkscope, tmp_path, "--figure", f"{DISTANCES}-m") / f"{DISTANCES}-m"
    assert "Inter-key distance (buckets)" in svg_texts(figure) and max(row["x"] for row in told(figure)) < SIZES["bins"]


def test_checkpoints_have_one_scale(training, cross):
    """Of distances: so that training is seen."""
    ranges = {tuple(np.round(colors_range(training.figures / f"{DISTANCES}-name{i}"), 3)) for i in range(10)}
    assert len(ranges) == 1
    assert len({tuple(np.round(colors_range(cross.figures / f"{DISTANCES}-name{i}"), 3)) for i in range(7)}) > 1


# ---- profiles ----------------------------------------------------------------------------------

def check_profiles(figure, table_of, heads):
    """Curves of these heads, and the mean over all heads that have a value in the bucket."""
    *curves, mean = panels(figure, "series")
    for head, curve in zip(heads, curves, strict=True):
        assert curve[0]["series"] == f"layer {head['layer']}, head {head['q_head']}"
        close(numbers(curve, "x", "y"), [[row["position"], row["ap"]] for row in table_of(head)])
    return mean


def check_mean_profile(mean, table):
    buckets = sorted({row["q_bucket"] for row in table})
    own = [[row for row in table if row["q_bucket"] == bucket] for bucket in buckets]
    close(numbers(mean, "x", "y"), [[values(part, "position").mean(), values(part, "ap").mean()] for part in own])


def test_profiles(cross):
    figure, heads = cross.figures / f"{PROFILES}-name0", cross.by_model[0]
    mean = check_profiles(figure, lambda head: list(profile(head, SIZES["buckets"])), heads)
    check_mean_profile(mean, [row for head in heads for row in profile(head, SIZES["buckets"])])
    assert {f"single heads ({len(heads)})", "mean over all heads", "Position of the query (tokens)", "0.0", "1.0"} <= set(svg_texts(figure))


@pytest.mark.parametrize("count, buckets, shown", [(1000, 4, 400), pytest.param(300, 130, 186, marks=pytest.mark.test_all)])
def test_no_more_profiles_than_show(qkscope, tmp_path, count, buckets, shown):
    made = make_heads("many", count // 10, 10)
    write_results(tmp_path, made, tables=("plasticity",), buckets=buckets, bins=1, dim=1)
    figure = draw(qkscope, tmp_path, "--figure", f"{PROFILES}-many") / f"{PROFILES}-many"
    names = [curve[0]["series"] for curve in panels(figure, "series")[:-1]]
    chosen = [i for i, head in enumerate(made) if f"layer {head['layer']}, head {head['q_head']}" in names]
    assert len(chosen) == shown and f"{shown} of {count} heads" in svg_texts(figure) and np.diff(chosen).max() <= 3  # evenly
    mean = check_profiles(figure, lambda head: list(profile(head, buckets)), [made[i] for i in chosen])
    check_mean_profile(mean, sum((list(profile(head, buckets)) for head in made), []))  # of all of them


@pytest.mark.test_all
def test_heads_of_many_models_are_told_apart(qkscope, tmp_path):
    """Ids of heads have more digits than a double where there are more than 2,048 models."""
    made = [make_heads(f"m{i}", 1, 3, 1) for i in range(2060)]
    write_results(tmp_path, sum(made, []), tables=("plasticity",), buckets=3, bins=1, dim=1)
    figure = draw(qkscope, tmp_path, "--figure", f"{PROFILES}-m2059") / f"{PROFILES}-m2059"
    check_profiles(figure, lambda head: list(profile(head, 3)), made[-1])


# ---- models beside a score ----------------------------------------------------------------------

@pytest.mark.parametrize("columns, options", [(("ap_drop", "longbench_pro_overall"), []), (
    ("bias_strength", "ap_overall"), ["--score-metric", "bias_strength", "--score-column", "ap_overall"])])
def test_the_published_scores(qkscope, shared_data, tmp_path, columns, options):
    """Numbers of a score file alone: ap_drop against the benchmark has r = -0.67."""
    import csv
    from scipy import stats
    write_results(tmp_path, make_heads("other", 2, 4), **SIZES)
    published = shared_data("published") / "scores.csv"
    figure = draw(qkscope, tmp_path, "--figure", SCORE, "--scores", published, *options) / SCORE
    with published.open() as file:
        table = list(csv.DictReader(file))
    x, y = (np.array([float(row[column]) for row in table]) for column in columns)
    fit = stats.linregress(x, y)
    close(numbers(told(figure), "x", "y"), np.column_stack([x, y]))
    families = list(dict.fromkeys(row["family"] for row in table))
    legend = Picture(figure).legend()
    assert len({legend[family] for family in families}) == len(families)
    labels = [re.sub(" +", " ", text) for text in svg_texts(figure)]
    assert {f"r = {fit.rvalue:.2f}, n = 7".replace("-", "−"), *families, *(row["model"] for row in table)} <= set(labels)
    assert options or (round(fit.rvalue, 2) == -0.67 and "LongBench Pro Overall" in labels
                       and "Attention plasticity drop, first to last 20% of context (from the score file)" in labels)


def test_a_metric_of_the_study(qkscope, tmp_path):
    """Where the score file has no such column: means over heads, matched by name or label."""
    scores = [{"model": name, "note": note, "quality": quality} for name, note, quality in zip(
        ("name0", "Label 1", "name2", "name3", "stranger"), "abcde", (5, 3, 4, None, 1))]
    models = [(f"Label {i}", f"F{i % 2}", "") for i in range(5)]
    made = Study(qkscope, tmp_path, models, [3], 4, scores=scores)
    close(numbers(made.told(SCORE), "x", "y"), np.column_stack([[np.nanmean(values(rows, "ap_drop")) for rows in made.by_model[:3]], [5, 3, 4]]))
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
        close([row["y"] for row in told(draw(qkscope, tmp_path, "--figure", SCORE) / SCORE)], [40, 42, 43])


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
    found = 0
    for name in made.names():
        cut = [text for text in made.labels(name) if "…" in text and "step-" in text]
        assert len(set(cut)) in (0, 3), (name, cut)
        assert not cut or "(" in cut[0] or set(labels[:3]) <= set(whole_texts(made.figures / name)), "the whole is there, too"
        found += len(set(cut)) == 3
    assert found > 8


def test_scores_without_a_line(qkscope, tmp_path):
    scores = [{"model": name, "score": 1, "ap_drop": 2} for name in "abc"]
    write_results(tmp_path, make_heads("other", 2, 4), scores=scores, **SIZES)
    assert any(t.startswith("r undefined") for t in svg_texts(draw(qkscope, tmp_path, "--figure", SCORE) / SCORE))


@pytest.mark.test_all
@pytest.mark.parametrize("count, theme", [(3, "paper"), (11, "screen"), (40, "paper")])
def test_names_of_points_are_apart(qkscope, tmp_path, count, theme):
    rng = np.random.default_rng(count)
    scores = [{"model": f"model-{i}-instruct", "family": f"family {i % 4}", "score": rng.normal(), "ap_drop": rng.normal()}
              for i in range(count)]
    write_results(tmp_path, make_heads("other", 2, 4), scores=scores, **SIZES)
    figure = draw(qkscope, tmp_path, "--figure", SCORE, "--theme", theme) / SCORE
    names = [text for text in svg_texts(figure) if text.endswith("-instruct")]
    assert len(told(figure)) == count and len(names) >= (count if count <= 11 else count // 2)
    assert not Picture(figure).faults()
