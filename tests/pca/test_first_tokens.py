# SPDX-License-Identifier: Apache-2.0
"""How much PC0 is the way to the first tokens of texts: pc0_first_share, pc0_first_cosine and category_without_first of
heads.csv, from the rows by NumPy, and against a run with --from-position 4."""
import numpy as np
import pytest
from conftest import EXAMPLE, head_pairs, last_run, read_csv, write_rows

import pca_oracle

pytest.importorskip("pyarrow")

COLUMNS = ["pc0_first_share", "pc0_first_cosine", "category_without_first"]
DIM = 10


def write_made_head(root, name, seed, dtype, sink=20.0, texts=12, length=40, start=0, shuffle=False):
    rng = np.random.default_rng(seed)
    position = np.tile(np.arange(length), texts) + start
    example = np.repeat(np.arange(texts), length)
    order = rng.permutation(len(position)) if shuffle else np.arange(len(position))
    drift = np.random.default_rng(9).normal(size=DIM)
    vector = rng.normal(size=(len(position), DIM)) + 5 + 0.03 * position[:, None] * drift
    vector[position == 0] += sink * np.random.default_rng(8).normal(size=DIM) / 3
    write_rows(root, name, {"vector": vector[order].astype(dtype), "position": position[order],
                            "example_id": example[order], "bucket": position[order] // 8})


def write_capture(root, dtype=np.float32, **options):
    for seed, name in enumerate(("l00h00q", "l00h01q", "l00h00k")):
        write_made_head(root, name, seed, dtype, **options)
    return root


def expected(q, k):
    """Share, cosine and category by their definitions."""
    first = [(rows["position"] >= 0) & (rows["position"] < 4) for rows in (q, k)]
    pooled = np.concatenate([q["vector"], k["vector"]])
    axis = np.linalg.svd(pooled - pooled.mean(axis=0), full_matrices=False)[2][0]
    squares = ((pooled - pooled.mean(axis=0)) @ axis) ** 2
    share = squares[np.concatenate(first)].sum() / squares.sum()
    rest = pca_oracle.Combined(*(part for rows, out in zip((q, k), first)
                                 for part in (rows["vector"][~out], rows["position"][~out])), components=1)
    row = rest.rows[0]
    return share, abs(axis @ rest.axes[0]), pca_oracle.category(row["r_q"], row["r_k"])


def check(qkscope, capture, out, group, *options):
    qkscope("pca", capture, "-o", out, *options, "--quiet", expect=0)
    heads = {(row["layer"], row["q_head"]): row for row in read_csv(out / "heads.csv")}
    assert [column for column in next(iter(heads.values())) if column in COLUMNS] == COLUMNS
    for (layer, head, q, k), _ in zip(head_pairs(capture, group), heads):
        share, cosine, category = expected(q, k)
        row = heads[layer, head]
        assert row["pc0_first_share"] == pytest.approx(share, rel=1e-9, abs=1e-12)
        assert row["pc0_first_cosine"] == pytest.approx(cosine, rel=1e-9)
        assert row["category_without_first"] == category
    return heads


@pytest.mark.cases(3)
@pytest.mark.parametrize("options", [{"shuffle": True}, {"dtype": np.float64, "start": 2}, {"start": -3, "sink": 0}])
def test_numbers_are_those_of_numpy(qkscope, tmp_path, options):
    check(qkscope, write_capture(tmp_path / "c", **options), tmp_path / "out", 2)


def test_example(qkscope, tmp_path):
    heads = check(qkscope, EXAMPLE, tmp_path, 2, "--layers", "0", "--heads", "0-1")
    assert all(0 < row["pc0_first_share"] < 0.01 and row["pc0_first_cosine"] > 0.99 for row in heads.values())


def test_it_is_what_leaving_them_out_gives(qkscope, tmp_path):
    """The warning tells of the option, which then gives that category."""
    capture = write_capture(tmp_path / "c")
    run = qkscope("pca", capture, "-o", tmp_path / "all", expect=0)
    heads = read_csv(tmp_path / "all" / "heads.csv")
    assert all(row["pc0_first_share"] > 0.5 and row["pc0_first_cosine"] < 0.9 for row in heads)
    other = sum(row["category"] != row["category_without_first"] for row in heads)
    warning = (f"{other} of 2 heads have another category without positions 0 to 3: see category_without_first in "
               "heads.csv, and --from-position 4")
    assert other > 0 and warning in run.err and warning in last_run(tmp_path / "all")["warnings"]
    run = qkscope("pca", capture, "-o", tmp_path / "rest", "--from-position", 4, expect=0)
    rest = read_csv(tmp_path / "rest" / "heads.csv")
    assert [row["category"] for row in rest] == [row["category_without_first"] for row in heads]
    assert all([row[c] for c in COLUMNS] == [0, 1, row["category"]] for row in rest)
    assert "without positions" not in run.err and not any("without positions" in w for w in
                                                          last_run(tmp_path / "rest")["warnings"])


def test_no_such_rows(qkscope, tmp_path):
    qkscope("pca", write_capture(tmp_path / "c", start=100), "-o", tmp_path / "out", "-q", expect=0)
    for row in read_csv(tmp_path / "out" / "heads.csv"):
        assert [row[c] for c in COLUMNS] == [0, 1, row["category"]]


def test_no_other_rows(qkscope, tmp_path):
    """All rows, or all but one of a kind, are first tokens: there is nothing beside them."""
    root = tmp_path / "c"
    for name, length in (("l00h00q", 4), ("l00h01q", 30), ("l00h00k", 4)):
        write_made_head(root, name, 1, np.float32, length=length)
    qkscope("pca", root, "-o", tmp_path / "out", "-q", expect=0)
    both, keys = read_csv(tmp_path / "out" / "heads.csv")
    assert both["pc0_first_share"] == pytest.approx(1, abs=1e-12) and 0 < keys["pc0_first_share"] < 1
    for row in (both, keys):
        assert row["pc0_first_cosine"] is None and row["category_without_first"] == ""


@pytest.mark.parametrize("place, message", [(1, "row 1, dimension 3"), (39 * 12, "row 468")])
def test_bad_rows_are_told_once(qkscope, tmp_path, place, message):
    """A first token that is no number is told of among all rows."""
    from conftest import read_rows
    write_capture(tmp_path / "c")
    columns = read_rows(tmp_path / "c", "l00h00q")
    columns["vector"][place, 3] = np.nan
    write_rows(tmp_path / "c", "l00h00q", columns)
    assert message in qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", expect=3).err
