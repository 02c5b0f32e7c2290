# SPDX-License-Identifier: Apache-2.0
"""position_r_q and its sisters in heads.csv against least squares by NumPy, where they are empty, and what they say
where there is nothing to tell."""
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import head_name, read_csv, write_rows

pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).parent))
from test_certainty import group_labels  # noqa: E402

COLUMNS = ["position_r_q", "position_r_k", "octave_r_q", "octave_r_k"]


def told(x, y, groups):
    """Each group by a least-squares fit to the others, with an intercept that is taken off again."""
    said, order = [], []
    for g in np.unique(groups):
        rest = groups != g
        center = x[rest].mean(0)
        weights = np.linalg.lstsq(np.c_[np.ones(rest.sum()), x[rest] - center], y[rest], rcond=None)[0]
        said.append((x[~rest] - center) @ weights[1:])
        order.append(y[~rest])
    return np.corrcoef(np.concatenate(said), np.concatenate(order))[0, 1]


def capture(path, rng, texts=20, rows=60, dim=8, offset=0.0, dtype=np.float64, line=True, flat=False):
    """One layer, one query head and one key head; keys follow the octave in one direction."""
    of = {}
    for kind in "qk":
        position = np.concatenate([np.sort(rng.choice(500, rows, replace=False)) for _ in range(texts)])
        x = rng.normal(size=(len(position), dim)) * np.geomspace(5, 0.2, dim)
        if line:
            x[:, -1] += position / 800
            x[:, -2] += 0.1 * np.floor(np.log2(position + 1)) * (kind == "k")
        if flat:
            position[:] = 3
        text = np.repeat(np.arange(texts), rows)
        columns = {"vector": (x + offset).astype(dtype), "position": position, "example_id": text}
        write_rows(path, head_name(0, 0, kind), columns)
        of[kind] = columns
    return of


def heads_csv(qkscope, path):
    out = path / "out"
    qkscope("pca", path / "capture", "-o", out, "--quiet", expect=0)
    return read_csv(out / "heads.csv")[0]


def close(text, expected):
    assert float(text) == pytest.approx(expected, rel=0, abs=1e-9)


@pytest.mark.parametrize("texts, dtype, offset", [(2, np.float32, 0), (40, np.float64, 1000)])
def test_against_least_squares(qkscope, tmp_path, texts, dtype, offset):
    of = capture(tmp_path / "capture", np.random.default_rng(texts), texts=texts, dtype=dtype, offset=offset)
    row = heads_csv(qkscope, tmp_path)
    for kind in "qk":
        x, t = of[kind]["vector"].astype(float), of[kind]["position"].astype(float)
        groups = group_labels(of[kind]["example_id"])
        close(row[f"position_r_{kind}"], told(x, t, groups))
        close(row[f"octave_r_{kind}"], told(x, np.floor(np.log2(t + 1)), groups))


def test_something_and_nothing_to_tell(qkscope, tmp_path):
    capture(tmp_path / "a" / "capture", np.random.default_rng(1))
    row = heads_csv(qkscope, tmp_path / "a")
    assert row["category"] == "content-focused" and row["position_r_q"] > 0.5 and row["octave_r_k"] > 0.3
    capture(tmp_path / "b" / "capture", np.random.default_rng(2), line=False)
    row = heads_csv(qkscope, tmp_path / "b")
    assert all(abs(row[name]) < 0.1 for name in COLUMNS)


def test_a_dimension_that_repeats_another(qkscope, tmp_path):
    """The covariance is singular: the fitted function is still one of least squares."""
    of = capture(tmp_path / "capture", np.random.default_rng(3), dim=4)
    for kind in "qk":
        x = np.c_[of[kind]["vector"], of[kind]["vector"][:, 0] * 2]
        of[kind]["vector"] = x
        write_rows(tmp_path / "capture", head_name(0, 0, kind), of[kind])
    row = heads_csv(qkscope, tmp_path)
    for kind in "qk":
        x, t = of[kind]["vector"], of[kind]["position"].astype(float)
        close(row[f"position_r_{kind}"], told(x, t, group_labels(of[kind]["example_id"])))


def test_keys_that_are_all_the_same(qkscope, tmp_path):
    of = capture(tmp_path / "capture", np.random.default_rng(5))
    of["k"]["vector"][:] = of["k"]["vector"][0]
    write_rows(tmp_path / "capture", head_name(0, 0, "k"), of["k"])
    row = heads_csv(qkscope, tmp_path)
    assert row["position_r_k"] is row["octave_r_k"] is None
    assert row["position_r_q"] > 0.5


@pytest.mark.cases(3)
@pytest.mark.parametrize("change", [dict(texts=1), dict(texts=2, rows=15), dict(flat=True)],
                         ids=["one text", "few rows", "one position"])
def test_empty(qkscope, tmp_path, change):
    capture(tmp_path / "capture", np.random.default_rng(4), **change)
    row = heads_csv(qkscope, tmp_path)
    assert [row[name] for name in COLUMNS] == [None] * 4
