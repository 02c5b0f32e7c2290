# SPDX-License-Identifier: Apache-2.0
"""Profiles of measured attention show what attention_profile.csv says, of which heads and over which bins."""
import numpy as np
import pytest

from drawn_studies import ATTENTION, SIZES, change
from figure_files import draw, drawn, numbers, panels, svg_texts, told
from made_tables import IDS, make_heads, write_csv, write_results

BINS = [0, 1, 2, 4, 8, 16, 32]
NUMBERS = ["mass", "uniform", "predicted_rotation", "predicted_means"]
ALONE, BY_DEPTH = "attention-11-profiles-alone", "attention-12-profiles-by-depth-alone"


def make_profiles(folder, numbers=None, means_r2=True):
    """Three ranges of rows; the first head has none, heads of layer 1 a window of 8 keys. numbers: of every row."""
    rng = np.random.default_rng(2)
    heads = make_heads("alone", 7, 5, 1, change=change)
    profile = []
    for i, head in enumerate(heads):
        head["distance_share"] = None if i == len(heads) - 1 else rng.uniform()
        head["means_r2"] = rng.uniform(-1, 1) if means_r2 else None
        for row in (8, 16, 32) if i else ():
            for first in [b for b in BINS if b <= (min(row, 4) if head["layer"] == 1 else row)]:
                profile.append({**{c: head[c] for c in IDS}, "row_first": row, "row_last": 2 * row - 1, "distance_first": first,
                                "distance_last": max(0, 2 * first - 1), **dict(zip(NUMBERS, rng.lognormal(-3, 1, 4).tolist())), **(numbers or {})})
    write_results(folder, heads, **SIZES)
    write_csv(folder / "attention.csv", IDS + ATTENTION + ["means_r2"], heads)
    for at, row in enumerate(profile):
        row["cell"] = at
    write_csv(folder / "attention_profile.csv", list(profile[0]), profile)
    return heads, profile


def ratios_of(profile, head):
    """Of the latest rows: the middle of each bin, and what is measured and predicted as a share of uniform attention."""
    return np.array([[(row["distance_first"] + row["distance_last"]) / 2 + 1,
                      *(row[name] / row["uniform"] for name in ("mass", "predicted_means", "predicted_rotation"))]
                     for row in profile if row["row_first"] == 32 and all(row[c] == head[c] for c in IDS)])


def six_heads(heads):
    """Of each fifth of the depth the head in the middle by distance_share, and the worst prediction of the others."""
    chosen = []
    for fifth in range(5):
        own = [h for h in heads[1:] if h["distance_share"] is not None and min(4, 5 * h["layer"] // 6) == fifth]
        share = np.array([h["distance_share"] for h in own])
        balance = np.abs((share[:, None] > share).sum(1) - (share[:, None] < share).sum(1))
        chosen.append(own[balance.argmin()])
    return [*chosen, min((h for h in heads[1:] if h not in chosen), key=lambda h: h["means_r2"])]


def test_profiles_of_six_heads(qkscope, tmp_path):
    heads, profile = make_profiles(tmp_path)
    figure = draw(qkscope, tmp_path) / ALONE
    chosen = six_heads(heads)
    for head, panel in zip(chosen, panels(figure), strict=True):
        series = {row["series"]: [] for row in panel}
        for row in panel:
            series[row["series"]].append(row)
        found = [numbers(series[name], "x", "y") for name in ("measured", "predicted by mean vectors", "predicted by bias strength")]
        assert np.column_stack([found[0], found[1][:, 1], found[2][:, 1]]) == pytest.approx(ratios_of(profile, head), rel=1e-9)
    labels = [text.replace("\N{MINUS SIGN}", "-") for text in svg_texts(figure)]
    assert [text for text in labels if text.startswith("layer")] == [
        f"layer {h['layer']}, head {h['q_head']}: R² = {h['means_r2']:.2f}" for h in chosen]
    assert {"measured", "predicted by mean vectors", "predicted by bias strength"} <= set(labels)


def test_profiles_by_layer(qkscope, tmp_path):
    heads, profile = make_profiles(tmp_path)
    figure = draw(qkscope, tmp_path) / BY_DEPTH
    parts = {}
    for head in heads[1:]:
        for first, row in zip(BINS, ratios_of(profile, head)):
            parts.setdefault((head["layer"], first), []).append(row[1])
    found = {(int(row["y"]), int(row["x"])): row["value"] for row in told(figure)}
    assert found == pytest.approx({place: np.log2(np.mean(part)) for place, part in parts.items()}, rel=1e-5, abs=1e-5)
    assert 7 * 7 - len(found) == 3, "layer 1 has no keys beyond its window"


def test_profiles_without_predictions(qkscope, tmp_path):
    """No line, no name in the legend and no R²; a line that leaves what was measured does not set the axis."""
    make_profiles(tmp_path, {"predicted_means": None, "predicted_rotation": 1e-40}, means_r2=False)
    figure = draw(qkscope, tmp_path) / ALONE
    labels = svg_texts(figure)
    assert "predicted by bias strength" in labels and "predicted by mean vectors" not in labels
    assert not any("R²" in text for text in labels) and len(panels(figure)) == 5
    assert not any("e" in text and "−" in text for text in labels), "1e-40 is on no axis"


@pytest.mark.parametrize("value", [0, -1, None])
def test_profiles_of_nothing(qkscope, tmp_path, value):
    make_profiles(tmp_path, {"mass": value})
    assert {ALONE, BY_DEPTH} <= set(drawn(draw(qkscope, tmp_path), "attention"))
