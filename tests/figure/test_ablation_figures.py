# SPDX-License-Identifier: Apache-2.0
"""The figure of heads that are changed together shows the groups of ablation_groups.csv that differ in their number alone."""
import json

import numpy as np
import pandas as pd
import pytest
from figure_files import blocks, check_pictures, draw, drawn, needs_gnuplot, script_of
from head_tables import make_heads
from svg_pictures import overlap, read_picture

NAME = "ablation-05-groups"
LAYERS, HEADS = 6, 8
NUMBERS = ["delta", "delta_lo", "delta_hi", "random", "random_least", "random_most"]

pytestmark = needs_gnuplot


def effect(group, heads, what, rng, controls=True):
    delta, random = rng.normal(0.02, 0.01) * heads, np.sort(rng.normal(0.005, 0.003, 3)) * heads
    row = {"group": group, "heads": heads, "what": what, "loss": 2.5, "delta": delta, "delta_lo": delta - 0.004,
           "delta_hi": delta + 0.004, "draws": 20 if controls else 0}
    return row | (dict(zip(["random_least", "random", "random_most"], random, strict=True)) if controls else {})


def make_results(folder, rows, model="m", known=True, seed=3):
    """Results of one model, and an ablation of its heads in them; the rows of the table in no order."""
    make_heads(folder, [("m", LAYERS, HEADS, 2)])
    (folder / "ablation").mkdir()
    table = pd.DataFrame(rows).sample(frac=1, random_state=seed).reindex(
        columns=["group", "heads", "what", "loss", *NUMBERS[:3], "draws", *NUMBERS[3:]])
    table.to_csv(folder / "ablation" / "ablation_groups.csv", index=False)
    size = {"num_layers": LAYERS, "num_q_heads": HEADS, "num_k_heads": HEADS // 2} if known else {}
    (folder / "ablation" / "manifest.json").write_text(json.dumps({"kind": "ablation", "model": model} | size))
    return table


def tops(numbers, by, whats, controls=True, seed=1):
    rng = np.random.default_rng(seed)
    return [effect(f"top {n} by {by}", n, what, rng, controls and n < 16) for n in numbers for what in whats]


def others():
    """Groups that are no curves: other names, and one number of heads."""
    rng = np.random.default_rng(2)
    return [effect("layer 0", 8, "remove", rng), effect("layer 1", 7, "remove", rng), effect("all", 48, "remove", rng),
            effect("where r_q > 0", 3, "remove", rng), effect("top by r_q", 2, "remove", rng),
            effect("top 4 by r_k", 4, "remove", rng), effect("top 4 by -r_k", 4, "remove", rng), effect("top 5 by r_k", 5, "profile", rng),
            effect("top 99 by ap_overall", 48, "remove", rng), effect("top 98 by ap_overall", 48, "remove", rng)]


def curves_of(table):
    """{(column, change): rows by number of heads}, as pandas has them."""
    found = table.group.str.extract(r"^top (\d+) by (.*)$")
    named = table.assign(column=found[1])[found[0].notna()]
    return {key: rows.sort_values("heads") for key, rows in named.groupby(["column", "what"], sort=False)
            if rows.heads.nunique() > 1}


@pytest.mark.parametrize("known", [True, False])
def test_points_are_those_of_the_table(qkscope, tmp_path, known):
    whats = ["remove", "window:64", "freeze+first"]
    table = make_results(tmp_path, tops([1, 2, 4, 16], "-remove_loss", whats) + tops([3, 10], "abs(r_q)", ["remove"], seed=5) +
                         others(), known=known)
    figures = draw(qkscope, tmp_path, "--figure", NAME)
    expected = curves_of(table)
    panels = blocks(figures / NAME)
    assert len(panels) == len(expected) == 4
    unit = 100 / (LAYERS * HEADS) if known else 1
    by_place = {tuple(row[1] for row in panel): panel for panel in panels}
    for (column, what), rows in expected.items():
        panel = by_place[tuple("%.6g" % delta for delta in rows.delta)]
        numbers = np.array(panel, float)
        np.testing.assert_allclose(numbers[:, 0], rows.heads * unit, rtol=1e-5)
        np.testing.assert_allclose(numbers[:, 1:], rows[NUMBERS], rtol=1e-5, err_msg=f"{column} {what}")
    words = " ".join(read_picture(figures / NAME).words())
    for column, what in expected:
        assert what in words and f"first by {column}" in words
    assert ("Heads changed (% of 48)" in words) == known
    assert ("x2tics" in script_of(figures / NAME)) == known, "the number of heads is above, where their share is below"


def test_without_controls_there_is_a_curve_and_no_grey(qkscope, tmp_path):
    make_results(tmp_path, tops([1, 2, 4], "r_q", ["remove"], controls=False))
    figures = draw(qkscope, tmp_path, "--figure", NAME)
    assert len(blocks(figures / NAME)) == 1
    assert not any("random" in word for word in read_picture(figures / NAME).words())
    assert "filledcurves" not in script_of(figures / NAME)


@pytest.mark.parametrize("rows", [others(), tops([4], "r_q", ["remove", "mean"])], ids=["other groups", "one number"])
def test_without_curves_it_is_not_drawn(qkscope, tmp_path, rows):
    make_results(tmp_path, rows)
    assert NAME not in drawn(draw(qkscope, tmp_path), "ablation")
    assert NAME in qkscope("report", tmp_path, "--figure", NAME, expect=1).err


def test_an_ablation_alone_has_it_too(qkscope, tmp_path):
    table = make_results(tmp_path / "results", tops([1, 2, 4], "r_q", ["remove"]))
    figures = draw(qkscope, tmp_path / "results" / "ablation")
    assert drawn(figures, "ablation") == [NAME] and "m" in read_picture(figures / NAME).words()
    assert [float(row[1]) for row in blocks(figures / NAME)[0]] == pytest.approx(table.sort_values("heads").delta.tolist(), rel=1e-5)


def test_more_curves_than_have_room(qkscope, tmp_path):
    make_results(tmp_path, tops([1, 2], "r_q", [f"window:{w}" for w in range(100, 115)]))
    figures = draw(qkscope, tmp_path, "--figure", NAME)
    words = " ".join(read_picture(figures / NAME).words())
    assert "the first 12 of 15 curves" in words and words.count("Heads changed") == len(blocks(figures / NAME)) == 12


@pytest.mark.parametrize("change, says", [
    (dict(model="other"), "give ablate --model-name, or another folder"),
    (dict(rows=tops([1, 49], "r_q", ["remove"])), "column 'heads'"),
], ids=["of another model", "more heads than the model has"])
def test_what_cannot_be_is_refused(qkscope, tmp_path, change, says):
    make_results(tmp_path, **(dict(rows=tops([1, 2], "r_q", ["remove"])) | change))
    outcome = qkscope("report", tmp_path, "--no-html", expect=1)
    assert says in outcome.err and "ablation_groups.csv" in outcome.err


@pytest.mark.parametrize("width", ["85mm", "180mm", None])
def test_texts_are_whole_and_apart(qkscope, tmp_path, width):
    """Also with a long change, and numbers so small that they are shown times a power of ten."""
    rows = tops([1, 2, 4, 16, 48], "-induction_mass", ["freeze:64-4096+first", "remove"])
    for row in rows:
        for number in NUMBERS:
            if row["what"] != "remove" and number in row:
                row[number] *= 1e-3
    make_results(tmp_path, rows)
    figures = draw(qkscope, tmp_path, "--figure", NAME, *(["--width", width] if width else []), formats="png,svg")
    picture = read_picture(figures / NAME)
    texts = [t for t in picture.texts if t.box and t.text.strip()]
    assert "× 10" in " ".join(picture.words()) and len(texts) > 20
    for i, text in enumerate(texts):
        left, top, right, bottom = text.box
        assert left >= 0 and top >= 0 and right <= picture.width and bottom <= picture.height, text
        assert "…" not in text.text
        assert all(overlap(text.box, other.box) <= 1.5 for other in texts[i + 1:]), text
    if not width:
        check_pictures(figures, [NAME])
