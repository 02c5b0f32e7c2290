# SPDX-License-Identifier: Apache-2.0
"""Names from outside may hold anything: they are shown as text, wherever they stand. What texts become in a drawing is the
business of tests/draw."""
import re

import pytest

from drawn_studies import SIZES
from figure_files import HOSTILE, draw, drawn, svg_texts, told
from made_tables import make_heads, write_results


def clean(text):
    return re.sub("[\x00-\x1f]", " ", text)


@pytest.mark.parametrize("phases", [False, True])
def test_names_of_models_are_text(qkscope, tmp_path, phases):
    rows = [row for i in range(len(HOSTILE)) for row in make_heads(f"m{i}", 3, 4, 2, seed=i)]
    models = [{"model": f"m{i}", "label": name, "family": HOSTILE[i // 2], "phase": HOSTILE[i // 3] if phases else ""}
              for i, name in enumerate(HOSTILE)]
    write_results(tmp_path, rows, models, [{"model": f"m{i}", HOSTILE[0]: i ** 2} for i in range(len(HOSTILE))], **SIZES)
    figures = draw(qkscope, tmp_path)
    for name in ("pca-03-layer-heatmap-rq", "rotation-02-drift-correlation", "rotation-06-layer-heatmaps", "plasticity-05-score",
                 "plasticity-04-trajectory" if phases else "plasticity-06-by-model", "map-01-r-q"):
        shown = svg_texts(figures / name)
        for label in map(clean, HOSTILE):
            assert any(text.startswith(label[:8]) and text.endswith(label[-6:]) for text in shown), (name, label, shown)
    assert {row["x"] for row in told(figures / "rotation-02-drift-correlation")} == set(map(clean, HOSTILE)), "the file has the whole"
    assert {row["y"] for row in told(figures / "pca-03-layer-heatmap-rq")} == set(map(clean, HOSTILE))
    assert {row["panel"] for row in told(figures / "map-01-r-q")} == set(map(clean, HOSTILE))
    for drawing in figures.glob("*.svg"):
        assert not re.search(r"<script|<foreignObject|\bon\w+=|\bid=|url\(|href=\"(?!data:image/png;base64,)", drawing.read_text()), drawing
    assert len(drawn(figures, "plasticity-02")) == len(HOSTILE) and not list(tmp_path.rglob("[xy]"))
