# SPDX-License-Identifier: Apache-2.0
"""Figures in which heads are points, and densities of heads: every head is there, where and as what the tables say."""
from collections import Counter

import numpy as np
import pytest

from drawn_studies import PHASES, Study, close, cross, known, values  # noqa: F401
from figure_files import draw, numbers, svg_texts, told
from made_tables import make_heads, write_results
from svg_pictures import Picture

POINTS = {"pca-02-rq-rk-scatter": ("r_q", "r_k"), "attention-07-r-q": ("r_q", "distance_share"),
          "attention-08-r-k": ("r_k", "distance_share"), "attention-09-plasticity": ("ap_overall", "distance_share"),
          "attention-10-slopes": ("bias_strength", "distance_slope")}


@pytest.mark.cases(5)
@pytest.mark.parametrize("name, columns", POINTS.items())
def test_every_head_is_a_point_of_its_group(cross, name, columns):
    """Of its family, or of its category, with a colour and a shape of its own."""
    expected, places = Counter(), set()
    for (_, family, _), heads in zip(cross.models, cross.by_model, strict=True):
        for head in heads:
            if all(head[column] is not None for column in columns):
                expected[family if name.startswith("pca") else head["category"] or "no category"] += 1
                places.add((head[columns[0]], head[columns[1]]))
    assert {(row["x"], row["y"]) for row in cross.told(name)} == places
    picture, drawn = Picture(cross.figures / name), Counter()
    legend = picture.legend()
    for shape, color in zip(picture.shapes("path"), picture.colors("path"), strict=True):
        if shape.get("opacity") == "0.5":
            drawn[color] += shape["d"].count("M")
    assert {group: drawn[legend[f"{group} ({count})"]] for group, count in expected.items()} == dict(expected) and len(expected) >= 3
    assert {f"{group} ({count})" for group, count in expected.items()} <= set(cross.labels(name))


def test_thresholds_and_ends_of_the_scatter(cross):
    picture, rows = Picture(cross.figures / "pca-02-rq-rk-scatter"), cross.told("pca-02-rq-rk-scatter")
    across = sum(y0 == y1 for _, y0, _, y1 in picture.dashed())
    assert across == 2 + sum(min(row["y"] for row in rows) < at + 0.15 for at in (-0.3, -0.7))
    assert sum(x0 == x1 for x0, _, x1, _ in picture.dashed()) >= 2
    assert {"rq against rk on PC0, all heads", "Correlation of keys with position, rk"} <= set(cross.labels("pca-02-rq-rk-scatter"))


@pytest.mark.cases(5)
@pytest.mark.parametrize("phases, expected", [
    (Counter(PHASES).items(), [0, 2, 4, 6, 7, 9]),  # filled up where there is most room
    ([("a", 1), ("b", 1)], [0, 1]),
    ([("only", 12)], [0, 2, 3, 5, 8, 11]),
    ([("a", 2), ("b", 1), ("a", 2)], [0, 1, 2, 3, 4]),  # a phase that comes back
    ([(f"p{i}", 2) for i in range(11)], [0, 3, 7, 13, 17, 21])])  # more phases than panels
def test_portraits(qkscope, tmp_path, phases, expected):
    models = [(f"{part}-{phase}-{i}", "tiny", phase) for part, (phase, count) in enumerate(phases) for i in range(count)]
    made = Study(qkscope, tmp_path, models, [5], 2, tables=("pca",), options=["--figure", "pca-12-phase-portraits"], change=None)
    for m, panel in zip(expected, made.panels("pca-12-phase-portraits"), strict=True):
        close(numbers(panel, "x", "y"), known(made.by_model[m], "r_q", "r_k"))
    assert {*(models[m][0] for m in expected), *(phase for phase, _ in phases)} <= set(made.labels("pca-12-phase-portraits"))


def r_of(rows):
    return f"{np.corrcoef(known(rows, 'separation_strength', 'bias_strength').T)[0, 1]:.2f}".replace("-", "−")


def test_bias_against_separation(cross):
    """A panel a family, in which models differ, with Pearson's r of each; none of all families at once."""
    labels = cross.labels("rotation-07-bias-vs-separation")
    for family, block in zip(cross.families, cross.panels("rotation-07-bias-vs-separation"), strict=True):
        own = [rows for (_, f, _), rows in zip(cross.models, cross.by_model) if f == family]
        close(sorted([row["x"], row["y"]] for row in block),
              sorted(known(sum(own, []), "separation_strength", "bias_strength").tolist()))
        assert sorted(Counter(row["series"] for row in block).values()) == sorted(len(known(rows, "separation_strength", "bias_strength")) for rows in own)
        assert family in labels and f"r = {r_of(sum(own, []))}" in labels
    assert {f"{label} (r = {r_of(rows)})" for (label, *_), rows in zip(cross.models, cross.by_model)} <= set(labels)
    assert not any("all heads" in text for text in labels)


def test_each_checkpoint_has_its_own_r(qkscope, tmp_path):
    """Two checkpoints whose trends are opposite: both are told, and none of their heads together."""
    def change(row, rng):
        row["bias_strength"] = row["separation_strength"] * (1 if row["model"] == "name0" else -1)
    labels = Study(qkscope, tmp_path, [("early", "one", "warm"), ("late", "one", "main")], [6], 4, tables=("rotation",),
                   change=change).labels("rotation-07-bias-vs-separation")
    assert {"early (r = 1.00)", "late (r = −1.00)"} <= set(labels) and not any(t.startswith("r = ") for t in labels)


def test_densities_of_bias(cross):
    """Histograms of equal bins, which begin at multiples of their width; a panel a family."""
    found, labels = iter(cross.panels("rotation-04-bias-histograms", "series")), cross.labels("rotation-04-bias-histograms")
    for family in cross.families:
        own = [rows for (_, f, _), rows in zip(cross.models, cross.by_model) if f == family]
        pooled = known(sum(own, []), "bias_strength")
        assert family in labels and f"{100 * (pooled > 0).mean():.3g}% of heads above 0" in labels
        for heads in own:
            rows = numbers(next(found), "x", "y")
            edges, before, after = rows[::2, 0], rows[::2, 1], rows[1::2, 1]
            np.testing.assert_array_equal(rows[1::2, 0], edges)
            np.testing.assert_array_equal(before[1:], after[:-1])
            width = (edges[-1] - edges[0]) / (len(edges) - 1)
            np.testing.assert_allclose(edges / width, np.round(edges / width), atol=1e-3)
            counts, _ = np.histogram(known(heads, "bias_strength"), edges)
            assert before[0] == 0 and after[-1] == 0 and counts.sum() == len(known(heads, "bias_strength"))
            np.testing.assert_allclose(after[:-1], counts / counts.sum() / width, rtol=1e-4)
    assert next(found, None) is None and "Bias strength × 103" in labels  # 3 is raised


@pytest.mark.parametrize("value", [0.0805, -0.0805])
def test_the_histogram_of_one_value_is_about_it(qkscope, tmp_path, value):
    write_results(tmp_path, make_heads("one", 1, 1, 1, change=lambda row, rng: row.update(bias_strength=value)), tables=("rotation",))
    figure = draw(qkscope, tmp_path) / "rotation-04-bias-histograms"
    edges = sorted({row["x"] for row in told(figure)})
    assert sum(edges) / 2 == pytest.approx(value) and edges[1] - edges[0] == pytest.approx(abs(value) / 1.5) and "0" in svg_texts(figure)


def test_a_far_head_does_not_squeeze_the_histogram(qkscope, tmp_path):
    def far(row, rng):
        if row["layer"] == row["q_head"] == 0:
            row["bias_strength"] = 5.0
    rows = make_heads("one", 6, 4, 2, change=far)
    write_results(tmp_path, rows, tables=("rotation",))
    figure = draw(qkscope, tmp_path) / "rotation-04-bias-histograms"
    assert any(text.endswith("% of heads above 0, 1 beyond the range") for text in svg_texts(figure))
    assert told(figure)[-1]["x"] < 2 * np.sort(values(rows, "bias_strength"))[-2]
