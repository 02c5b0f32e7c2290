# SPDX-License-Identifier: Apache-2.0
"""plot-plasticity: its curves are those of the table, its settings come from the line and a file, and it refuses what it
cannot draw."""
import csv

import numpy as np
import pytest

from figure_files import NO_PICTURES, blocks, curves, labels_of

TREND = {"rising": 0x2ca02c, "falling": 0xd62728}


@pytest.fixture
def table(tmp_path):
    """Three heads in two layers: one rises, one falls, one is flat; a cell without a value. Rows in no order."""
    rows = [(layer, head, head // 2, q, k, "" if (layer, head, q, k) == (0, 0, 3, 0) else 0.5 + slope * q * 64 + 0.01 * k)
            for layer, head, slope in ((0, 0, 1e-3), (0, 1, -1e-3), (3, 0, 0.0)) for q in range(1, 6) for k in range(q)]
    with open(tmp_path / "buckets.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["layer", "q_head", "k_head", "q_bucket", "k_bucket", "ap_bucket"])
        writer.writerows(rows[i] for i in np.random.default_rng(1).permutation(len(rows)))
    return rows


def of_head(table, layer, head):
    """Buckets of queries, and the mean of the values of each."""
    values = {q: [row[5] for row in table if row[:2] == (layer, head) and row[3] == q and row[5] != ""] for q in range(1, 6)}
    return np.array([[q, np.mean(own)] for q, own in values.items()])


def colors(folder):
    return [int(curve[0, 2]) for curve in curves(blocks(folder / "p")[0])]


@pytest.mark.parametrize("kind", ["uniform", "log"])
def test_curves(qkscope, tmp_path, table, kind):
    outcome = qkscope("plot-plasticity", "--bucket_csv", tmp_path / "buckets.csv", "--output", tmp_path / "o" / "p.svg",
                      "--bucket_type", kind, "--bucket_min_size", 64, env=NO_PICTURES, expect=0)
    assert outcome.out.split() == ["3", "heads", str(tmp_path / "o" / "p.svg")]
    place = (lambda b: (b + 0.5) * 64) if kind == "uniform" else (lambda b: 2 ** (b + 0.5) * 64)
    single, (average,) = map(curves, blocks(tmp_path / "o" / "p"))
    expected = [of_head(table, *head) for head in ((0, 0), (0, 1), (3, 0))]
    for curve, own in zip([*single, average], [*expected, np.mean(expected, axis=0)], strict=True):
        np.testing.assert_allclose(curve[:, :2], np.column_stack([place(own[:, 0]), own[:, 1]]), rtol=5e-6)
    assert ("Bucket" if kind == "log" else "Position") in " ".join(labels_of(tmp_path / "o" / "p"))


def test_file_and_flags(qkscope, tmp_path, table):
    """Colours by trend from a file, by layer from the line, over what the file says."""
    config = tmp_path / "c.yaml"
    config.write_text(f"bucket_csv: {tmp_path}/buckets.csv\noutput: {tmp_path}/p.png\nalpha: 0.6\nbucket_min_size: 64\n"
                      "model_name: Model_1 & <b>\ncolor_trend: true\ntrend_threshold: 5.0e-4\n")
    qkscope("plot-plasticity", "--config", config, env=NO_PICTURES, expect=0)
    up, down, flat = colors(tmp_path)
    assert (up & 0xffffff, down & 0xffffff) == (TREND["rising"], TREND["falling"]) and flat & 0xffffff not in TREND.values()
    assert {c >> 24 for c in (up, down, flat)} == {102}  # 255 (1 - alpha): how clear it is
    assert "Model_1 & <b>" in "".join(labels_of(tmp_path / "p"))
    qkscope("plot-plasticity", "--config", config, "--no-color_trend", "--color_by_layer", env=NO_PICTURES, expect=0)
    first, second, last = colors(tmp_path)
    assert first == second != last and last & 0xffffff == 0xfde725  # the upper end of viridis


@pytest.mark.cases(7)
@pytest.mark.parametrize("options,code,said", [
    (["--color_by_layer", "--color_trend"], 2, "exclude each other"), (["--output", "p.jpg"], 2, ".png, .svg or .pdf"),
    (["--output", "a b.png"], 2, "letters"), (["--color_by_layer", "--cmap", "plasma"], 2, "viridis, magma"),
    (["--alpha", "1.5"], 2, "alpha"), (["--bucket_csv", "nowhere.csv"], 1, "nowhere.csv"), (["--bucket_csv", "bad.csv"], 1, "row 2")])
def test_refusals(qkscope, tmp_path, table, options, code, said):
    (tmp_path / "bad.csv").write_text("layer,q_head,k_head,q_bucket,ap_bucket\n0,0,0,1.5,1\n")
    outcome = qkscope("plot-plasticity", "--bucket_csv", "buckets.csv", *options, cwd=tmp_path, expect=code)
    assert said in outcome.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv", "buckets.csv"]
