# SPDX-License-Identifier: Apache-2.0
"""plot-plasticity: what its figure shows against pandas, its options, and what it refuses."""
import numpy as np
import pytest

from conftest import EXAMPLE
from figure_files import blocks, curves, needs_gnuplot, numbers, texts_of

pd = pytest.importorskip("pandas")
pytestmark = needs_gnuplot

TOLERANCE = {"rtol": 5e-6}  # data files have six digits
TREND = {"rising": 0x2ca02c, "falling": 0xd62728}


@pytest.fixture
def table(tmp_path):
    """Three heads in two layers: one rises, one falls, one is flat; a cell without a value."""
    rows = []
    for layer, head, slope in ((0, 0, 1e-3), (0, 1, -1e-3), (3, 0, 0.0)):
        for q in range(1, 6):
            for k in range(q):
                rows.append((layer, head, head // 2, q, k, 0.5 + slope * q * 64 + 0.01 * k))
    frame = pd.DataFrame(rows, columns=["layer", "q_head", "k_head", "q_bucket", "k_bucket",
                                        "ap_bucket"])
    frame.loc[3, "ap_bucket"] = np.nan
    frame = frame.sample(frac=1, random_state=1)
    frame.to_csv(tmp_path / "buckets.csv", index=False)
    return frame


def means(table):
    rows = table.dropna(subset=["ap_bucket"])
    heads = rows.groupby(["layer", "q_head", "k_head", "q_bucket"])["ap_bucket"].mean()
    return heads, heads.groupby("q_bucket").mean()


@pytest.mark.parametrize("kind", ["uniform", "log"])
def test_curves(qkscope, tmp_path, table, kind):
    outcome = qkscope("plot-plasticity", "--bucket_csv", tmp_path / "buckets.csv", "--output",
                      tmp_path / "o" / "p.svg", "--bucket_type", kind, "--bucket_min_size", 64,
                      expect=0)
    assert outcome.out.split() == ["3", "heads", str(tmp_path / "o" / "p.svg")]
    place = (lambda b: (b + 0.5) * 64) if kind == "uniform" else (lambda b: 2 ** (b + 0.5) * 64)
    heads, mean = means(table)
    single, (average,) = map(curves, blocks(tmp_path / "o" / "p"))
    assert len(single) == 3
    for curve, (_, want) in zip(single, heads.groupby(["layer", "q_head", "k_head"])):
        buckets = want.index.get_level_values("q_bucket")
        np.testing.assert_allclose(curve[:, :2], np.column_stack([place(buckets), want]), **TOLERANCE)
    np.testing.assert_allclose(average[:, :2], np.column_stack([place(mean.index), mean]), **TOLERANCE)
    assert ("Bucket" if kind == "log" else "Position") in " ".join(texts_of(tmp_path / "o" / "p"))


def colors(folder):
    return [int(curve[0, 2]) for curve in curves(blocks(folder / "p")[0])]


def test_colors(qkscope, tmp_path, table):
    draw = ["plot-plasticity", "--bucket_csv", tmp_path / "buckets.csv", "--output",
            tmp_path / "p.png", "--bucket_min_size", 64, "--alpha", 0.6]
    qkscope(*draw, "--color_trend", "--trend_threshold", 5e-4, expect=0)
    up, down, flat = colors(tmp_path)
    assert (up & 0xffffff, down & 0xffffff) == (TREND["rising"], TREND["falling"])
    assert flat & 0xffffff not in TREND.values()
    assert {c >> 24 for c in (up, down, flat)} == {102}  # 255 (1 - alpha): how clear it is
    qkscope(*draw, "--color_trend", "--trend_threshold", 1, expect=0)
    assert len(set(colors(tmp_path))) == 1
    qkscope(*draw, "--color_by_layer", expect=0)
    first, second, last = colors(tmp_path)
    assert first == second != last
    assert last & 0xffffff == 0xfde725  # the upper end of viridis
    qkscope(*draw, expect=0)
    assert len(set(colors(tmp_path))) == 1


def test_file_and_flags(qkscope, tmp_path, table):
    config = tmp_path / "c.yaml"
    config.write_text(f"bucket_csv: {tmp_path}/buckets.csv\noutput: {tmp_path}/p.png\nalpha: 0.2\n"
                      "model_name: Model_1 & <b>\nbucket_type: log\nbucket_min_size: 2048\n"
                      "line_width: 0.8\ncolor_trend: true\ntrend_threshold: 1.25e-6\n"
                      "color_by_layer: false\ncmap: viridis\n")
    qkscope("plot-plasticity", "--config", config, expect=0)
    by_file = (tmp_path / "p.dat").read_bytes()
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    qkscope("plot-plasticity", "--config", config, "--no-color_trend", "--color_by_layer",
            "--bucket_type", "uniform", "--output", tmp_path / "q.pdf", expect=0)
    assert (tmp_path / "q.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "q.dat").read_bytes() != by_file
    qkscope("plot-plasticity", "--config", config, "--output", tmp_path / "p.svg", expect=0)
    assert (tmp_path / "p.dat").read_bytes() == by_file
    assert "Model_1 & <b>" in "".join(texts_of(tmp_path / "p"))


def test_without_output(qkscope, tmp_path, table):
    qkscope("plot-plasticity", "--bucket_csv", "buckets.csv", cwd=tmp_path, expect=0)
    assert (tmp_path / "plasticity.png").exists()


def test_older_tables(qkscope, tmp_path):
    """One value a bucket, in a column `bucket`."""
    pd.DataFrame({"layer": 0, "q_head": 0, "k_head": 0, "bucket": [1, 2], "ap_bucket": [0.5, 0.25]}
                 ).to_csv(tmp_path / "buckets.csv", index=False)
    qkscope("plot-plasticity", "--bucket_csv", tmp_path / "buckets.csv", "--output",
            tmp_path / "p.png", expect=0)
    assert numbers(blocks(tmp_path / "p")[0])[:, :2].tolist() == [[1.5, 0.5], [2.5, 0.25]]


def test_our_own_tables(qkscope, tmp_path):
    qkscope("plasticity", EXAMPLE, "-o", tmp_path / "r", expect=0)
    qkscope("plot-plasticity", "--bucket_csv", tmp_path / "r" / "head_bucket_plasticity.csv",
            "--output", tmp_path / "p.png", expect=0)
    heads, _ = means(pd.read_csv(tmp_path / "r" / "head_bucket_plasticity.csv"))
    np.testing.assert_allclose(numbers(blocks(tmp_path / "p")[0])[:, 1], heads, **TOLERANCE)


@pytest.mark.parametrize("options,code,said", [
    (["--color_by_layer", "--color_trend"], 2, "exclude each other"),
    (["--output", "p.jpg"], 2, ".png, .svg or .pdf"),
    (["--output", "a b.png"], 2, "letters"),
    (["--output", ".png"], 2, "letters"),
    (["--bucket_type", "square"], 2, "uniform or log"),
    (["--color_by_layer", "--cmap", "plasma"], 2, "viridis, magma"),
    (["--alpha", "1.5"], 2, "alpha"),
    (["--bucket_min_size", "0"], 2, "bucket_min_size"),
    (["--trend_threshold", "-1"], 2, "trend_threshold"),
    (["--bucket_csv", "nowhere.csv"], 1, "nowhere.csv"),
])
def test_refusals(qkscope, tmp_path, table, options, code, said):
    outcome = qkscope("plot-plasticity", "--bucket_csv", "buckets.csv", *options, cwd=tmp_path,
                      expect=code)
    assert said in outcome.err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["buckets.csv"]


@pytest.mark.parametrize("text,said", [
    ("layer,q_head,k_head,q_bucket,ap_bucket\n0,0,0,1,\n", "no row has a value"),
    ("layer,q_head,k_head,ap_bucket\n0,0,0,1\n", "'bucket'"),
    ("layer,q_head,k_head,q_bucket,ap_bucket\n0,0,0,1,x\n", "row 2"),
    ("layer,q_head,k_head,q_bucket,ap_bucket\n0,0,0,1.5,1\n", "row 2"),
])
def test_bad_tables(qkscope, tmp_path, text, said):
    (tmp_path / "b.csv").write_text(text)
    outcome = qkscope("plot-plasticity", "--bucket_csv", tmp_path / "b.csv", "--output",
                      tmp_path / "p.png", expect=1)
    assert said in outcome.err


@pytest.mark.parametrize("line,said", [("alpha: 2", "alpha"), ("colour: red", "unknown key colour"),
                                       ("bucket_type: square", "uniform or log"),
                                       ("alpha: 0.1\nalpha: 0.2", "given twice")])
def test_wrong_files(qkscope, tmp_path, line, said):
    (tmp_path / "c.yaml").write_text(f"bucket_csv: b.csv\n{line}\n")
    assert said in qkscope("plot-plasticity", "--config", tmp_path / "c.yaml", expect=2).err
