# SPDX-License-Identifier: Apache-2.0
"""The figure of heads that are changed together shows the groups of ablation_groups.csv that differ in their number alone."""
import json
import random
import re

import numpy as np
import pytest

from drawn_studies import SIZES
from figure_files import draw, drawn, numbers, panels, svg_texts, told
from made_tables import make_heads, write_csv, write_results

NAME = "ablation-05-groups"
LAYERS, HEADS = 6, 8
NUMBERS = ["delta", "delta_lo", "delta_hi", "random", "random_least", "random_most"]
COLUMNS = ["group", "heads", "what", "loss", *NUMBERS[:3], "draws", *NUMBERS[3:]]


def effect(group, heads, what, rng, controls=True):
    delta, random_ = rng.normal(0.02, 0.01) * heads, np.sort(rng.normal(0.005, 0.003, 3)) * heads
    row = {"group": group, "heads": heads, "what": what, "loss": 2.5, "delta": float(delta), "delta_lo": float(delta) - 0.004,
           "delta_hi": float(delta) + 0.004, "draws": 20 if controls else 0}
    return row | (dict(zip(["random_least", "random", "random_most"], map(float, random_))) if controls else {})


def tops(numbers, by, whats, controls=True, seed=1):
    rng = np.random.default_rng(seed)
    return [effect(f"top {n} by {by}", n, what, rng, controls and n < 16) for n in numbers for what in whats]


def others():
    """Groups that are no curves: other names, and one number of heads."""
    rng = np.random.default_rng(2)
    return [effect(group, heads, what, rng) for group, heads, what in [
        ("layer 0", 8, "remove"), ("layer 1", 7, "remove"), ("all", 48, "remove"), ("where r_q > 0", 3, "remove"),
        ("top by r_q", 2, "remove"), ("top 4 by r_k", 4, "remove"), ("top 4 by -r_k", 4, "remove"), ("top 5 by r_k", 5, "profile"),
        ("top 99 by ap_overall", 48, "remove"), ("top 98 by ap_overall", 48, "remove")]]


def make_results(folder, rows, model="m", known=True):
    """Results of one model, and an ablation of its heads in them; the rows of the table in no order."""
    write_results(folder, make_heads("m", LAYERS, HEADS, 2), **SIZES)
    (folder / "ablation").mkdir()
    write_csv(folder / "ablation" / "ablation_groups.csv", COLUMNS, random.Random(3).sample(rows, len(rows)))
    size = {"num_layers": LAYERS, "num_q_heads": HEADS, "num_k_heads": HEADS // 2} if known else {}
    (folder / "ablation" / "manifest.json").write_text(json.dumps({"kind": "ablation", "model": model} | size))


def curves_of(rows):
    """{(column, change): rows by number of heads}."""
    curves = {}
    for row in rows:
        found = re.match(r"top \d+ by (.*)", row["group"])
        if found:
            curves.setdefault((found[1], row["what"]), []).append(row)
    return {key: sorted(curve, key=lambda row: row["heads"]) for key, curve in curves.items() if len({r["heads"] for r in curve}) > 1}


@pytest.mark.parametrize("known", [True, False])
def test_points_are_those_of_the_table(qkscope, tmp_path, known):
    rows = tops([1, 2, 4, 16], "-remove_loss", ["remove", "window:64", "freeze+first"]) + tops([3, 10], "abs(r_q)", ["remove"], seed=5)
    make_results(tmp_path, rows + others(), known=known)
    figure = draw(qkscope, tmp_path, "--figure", NAME) / NAME
    found = {}
    for row in told(figure):
        found.setdefault((row["panel"], row["series"]), []).append(row)
    expected = curves_of(rows + others())
    assert {(column, what) for what, column in found if not column.startswith("random")} == set(expected) and len(expected) == 4
    for (column, what), curve in expected.items():
        measured, controls = found[what, column], found.get((what, f"random ({column})"), [])
        np.testing.assert_allclose(numbers(measured, "x", "y", "low", "high"), [[row[c] for c in ("heads", *NUMBERS[:3])] for row in curve])
        np.testing.assert_allclose(numbers(controls, "x", "y", "low", "high").reshape(-1, 4), np.reshape(
            [[row[c] for c in ("heads", *NUMBERS[3:])] for row in curve if "random" in row], (-1, 4)))
    words = " ".join(" ".join(svg_texts(figure)).split())
    assert all(what in words and f"first by {column}" in words for column, what in expected)
    assert ("Heads changed (% of 48)" in words) == known


def test_without_controls_there_is_a_curve_and_no_grey(qkscope, tmp_path):
    """So has an ablation alone, without results around it."""
    rows = tops([1, 2, 4], "r_q", ["remove"], controls=False)
    make_results(tmp_path, rows)
    figures = draw(qkscope, tmp_path / "ablation")
    assert drawn(figures, "ablation") == [NAME] and "m" in svg_texts(figures / NAME)
    assert [row["y"] for row in told(figures / NAME)] == pytest.approx([row["delta"] for row in rows])
    assert "random" not in " ".join(svg_texts(figures / NAME))


@pytest.mark.parametrize("rows", [others(), tops([4], "r_q", ["remove", "mean"])], ids=["other groups", "one number"])
def test_without_curves_it_is_not_drawn(qkscope, tmp_path, rows):
    make_results(tmp_path, rows)
    assert NAME not in drawn(draw(qkscope, tmp_path), "ablation")
    assert NAME in qkscope("report", tmp_path, "--figure", NAME, expect=1).err


def test_more_curves_than_have_room(qkscope, tmp_path):
    make_results(tmp_path, tops([1, 2], "r_q", [f"window:{w}" for w in range(100, 115)]))
    figure = draw(qkscope, tmp_path, "--figure", NAME) / NAME
    words = " ".join(svg_texts(figure))
    assert "the first 12 of 15 curves" in words and words.count("Heads changed") == len(panels(figure)) == 12


@pytest.mark.parametrize("change, says", [
    (dict(model="other"), "give ablate --model-name, or another folder"),
    (dict(rows=tops([1, 49], "r_q", ["remove"])), "column 'heads'"),
], ids=["of another model", "more heads than the model has"])
def test_what_cannot_be_is_refused(qkscope, tmp_path, change, says):
    make_results(tmp_path, **(dict(rows=tops([1, 2], "r_q", ["remove"])) | change))
    outcome = qkscope("report", tmp_path, "--no-html", expect=1)
    assert says in outcome.err and "ablation_groups.csv" in outcome.err
