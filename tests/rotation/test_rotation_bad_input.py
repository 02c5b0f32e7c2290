# SPDX-License-Identifier: Apache-2.0
"""The rotation model of heads that have little to say: what is undefined is an empty field, no
CSV says nan or inf, other heads are whole."""

import numpy as np
import pytest
from conftest import check_tables, last_run, read_csv, write_rows

pytest.importorskip("pyarrow")
oracle = pytest.importorskip("rotation_oracle")

ALL = ["--complement", "--ci", "95"]
WAYS = [ALL, [*ALL, "--b-axis", "centroid"]]
TURN = ("angle_r", "omega", "resultant")


def rows_of(n=120, d=8, seed=0, span=900, drift=1.0, texts=6):
    rng = np.random.default_rng(seed)
    position = np.sort(rng.choice(span, n, replace=False))
    x = rng.standard_normal((n, d)) + drift * np.outer(position / span, np.arange(d) + 1)
    return {"vector": x + rng.standard_normal(d), "position": position,
            "bucket": position // 64, "example_id": np.arange(n) % texts}


def rotate(qkscope, tmp_path, q, k, expect=0):
    """Analyses a head of these rows in every way; (rotated.csv's row, complement.csv)."""
    write_rows(tmp_path / "c", "l00h00q", q)
    write_rows(tmp_path / "c", "l00h00k", k)
    for i, options in enumerate(WAYS):
        out = tmp_path / f"out {i}"
        qkscope("rotate", tmp_path / "c", "-o", out, *options, expect=expect)
        check_tables(out)
    out = tmp_path / "out 0"
    return read_csv(out / "rotated.csv")[0], read_csv(out / "complement.csv")


def is_degenerate(row, q, k):
    """Only ids and numbers of rows."""
    assert (row["n_q"], row["n_k"]) == (len(q["position"]), len(k["position"]))
    ids = ("model", "layer", "q_head", "k_head", "n_q", "n_k")
    return all(value is None for column, value in row.items() if column not in ids)


@pytest.mark.parametrize("n_q, n_k", [(1, 50), (50, 2), (2, 2)])
def test_fewer_than_three_rows(qkscope, tmp_path, n_q, n_k):
    q, k = rows_of(n_q), rows_of(n_k, seed=1)
    row, complement = rotate(qkscope, tmp_path, q, k)
    assert is_degenerate(row, q, k) and complement == []


def test_three_rows(qkscope, tmp_path):
    row, complement = rotate(qkscope, tmp_path, rows_of(3), rows_of(3, seed=1))
    assert all(row[c] is not None for c in oracle.COLUMNS) and len(complement) == 3


def test_constant_positions(qkscope, tmp_path):
    """No position to follow."""
    q, k = rows_of(), rows_of(seed=1)
    q["position"][:] = k["position"][:] = 77
    row, complement = rotate(qkscope, tmp_path, q, k)
    assert is_degenerate(row, q, k) and complement == []


def test_queries_at_one_position(qkscope, tmp_path):
    """Their slope is undefined and their correlation 0; the keys carry the drift."""
    q, k = rows_of(), rows_of(seed=1)
    q["position"][:] = 450
    row, _ = rotate(qkscope, tmp_path, q, k)
    assert (row["r_q_a"], row["alpha_q"]) == (0, None)
    assert row["alpha_k"] > 0 and row["bias_strength"] is not None


def test_keys_at_one_position(qkscope, tmp_path):
    q, k = rows_of(), rows_of(seed=1)
    k["position"][:] = 450
    row, _ = rotate(qkscope, tmp_path, q, k)
    assert (row["r_k_a"], row["alpha_k"], row["bias_strength"]) == (0, None, None)
    assert row["alpha_q"] > 0
    assert row["alpha_k_lo"] is None and row["bias_strength_hi"] is None


def test_all_vectors_equal(qkscope, tmp_path):
    q, k = rows_of(), rows_of(seed=1)
    q["vector"][:] = k["vector"][:] = 0.1
    row, complement = rotate(qkscope, tmp_path, q, k)
    assert is_degenerate(row, q, k) and complement == []


def test_two_points(qkscope, tmp_path):
    """All queries alike, all keys alike: no drift within either kind, and where queries and
    keys have the same positions, none between them."""
    q, k = rows_of(), rows_of()
    q["vector"][:], k["vector"][:] = 1.0, 0.25
    row, complement = rotate(qkscope, tmp_path, q, k)
    assert is_degenerate(row, q, k) and complement == []


def test_one_dimension(qkscope, tmp_path):
    """a is all there is: no b, no complement."""
    row, complement = rotate(qkscope, tmp_path, rows_of(d=1), rows_of(d=1, seed=1))
    assert complement == []
    for column in oracle.COLUMNS:
        assert (row[column] is None) == (column in oracle.B_COLUMNS), (column, row[column])
    assert row["var_frac_a"] == pytest.approx(1)


def test_two_dimensions(qkscope, tmp_path):
    row, complement = rotate(qkscope, tmp_path, rows_of(d=2), rows_of(d=2, seed=1))
    assert complement == [] and all(row[c] is not None for c in oracle.COLUMNS)
    assert row["plane_var_fraction"] == pytest.approx(1)


def test_rows_on_a_line(qkscope, tmp_path):
    """No variance off a, so no b."""
    q, k = rows_of(), rows_of(seed=1)
    for side in (q, k):
        side["vector"] = np.outer(side["position"], [1.0, 2, -1, 4, 0, 0, 1, 1])
    row, _ = rotate(qkscope, tmp_path, q, k)
    assert row["position_r"] == pytest.approx(1) and row["var_frac_a"] == pytest.approx(1)
    assert all(row[c] is None for c in oracle.B_COLUMNS), row
    assert 0 <= row["residual_pos_r"] < 1e-10


def test_three_positions(qkscope, tmp_path):
    """Fewer than four distinct ones: three numbers fit any sinusoid."""
    q, k = rows_of(), rows_of(seed=1)
    for side in (q, k):
        side["position"] = side["position"] % 3
    row, complement = rotate(qkscope, tmp_path, q, k)
    assert (row["omega"], row["omega_r_squared"]) == (None, None)
    assert row["alpha_k"] is not None and row["mu_q_b"] is not None
    assert all(pair[c] is None for pair in complement for c in TURN)
    assert all(pair["variance_share"] > 0 for pair in complement)


@pytest.mark.parametrize("span", [1, 3])
def test_short_contexts(qkscope, tmp_path, span):
    q, k = rows_of(), rows_of(seed=1)
    for side in (q, k):
        side["position"] = side["position"] % (span + 1)
    row, complement = rotate(qkscope, tmp_path, q, k)
    assert row["alpha_k"] is not None
    for pair in complement if span > 2 else []:
        assert 0 < pair["omega"] <= 3.1415926535897936 and 0 <= pair["resultant"] <= 1


def test_nothing_in_the_complement(qkscope, tmp_path):
    """Variance in five dimensions of eight: a pair without it has its number only, also where
    one of the two has some."""
    q, k = rows_of(), rows_of(seed=1)
    for side in (q, k):
        side["vector"][:, 5:] = 0.5
    _, complement = rotate(qkscope, tmp_path, q, k)
    assert [pair["pair"] for pair in complement] == [0, 1, 2]
    assert all(complement[0][c] is not None for c in TURN)
    for pair in complement[1:]:
        assert pair["variance_share"] is None and all(pair[c] is None for c in TURN), pair


@pytest.mark.parametrize("end", [2 ** 31, 2 ** 62])
def test_far_positions(qkscope, tmp_path, end):
    """Numbers do not depend on where the text begins, but for the length of the context; beyond 32 bits they only survive."""
    rows = []
    for i, offset in enumerate((0, end - 900)):
        q, k = rows_of(), rows_of(seed=1)
        for side in (q, k):
            side["position"] = side["position"] + offset
        rows.append(rotate(qkscope, tmp_path / str(i), q, k)[0])
    for column, value in rows[0].items() if end <= 2 ** 31 else []:
        if isinstance(value, float) and not column.startswith(("residual_pos_r", "bias_over_context")):
            assert rows[1][column] == pytest.approx(value, rel=1e-8, abs=1e-10), column


def test_positions_that_span_everything(qkscope, tmp_path):
    """Takes neither the time nor the memory that a context of 2^63 tokens would."""
    q, k = rows_of(), rows_of(seed=1)
    for side in (q, k):
        side["position"][:2] = [-2 ** 62, 2 ** 62]
    write_rows(tmp_path / "c", "l00h00q", q)
    write_rows(tmp_path / "c", "l00h00k", k)
    qkscope("rotate", tmp_path / "c", "-o", tmp_path / "out", "--complement", expect=0)
    check_tables(tmp_path / "out")
    for pair in read_csv(tmp_path / "out" / "complement.csv"):
        assert pair["variance_share"] > 0 and all(pair[c] is None for c in TURN), pair


def test_huge_and_tiny_values(qkscope, tmp_path):
    """Numbers without a unit do not depend on it."""
    rows = []
    for scale in (1.0, 1e100, 1e-100):
        q, k = rows_of(), rows_of(seed=1)
        for side in (q, k):
            side["vector"] = side["vector"] * scale
        rows.append(rotate(qkscope, tmp_path / str(scale), q, k)[0])
    for column in ("position_r", "r_q_a", "separation_strength", "plane_var_fraction", "omega"):
        for row in rows[1:]:
            assert row[column] == pytest.approx(rows[0][column], rel=1e-8), column


def three_heads(folder):
    for head in range(3):
        write_rows(folder, f"l00h0{head}q", rows_of(d=6, seed=head))
        write_rows(folder, f"l00h0{head}k", rows_of(d=6, seed=head + 3))
    return folder


def test_a_broken_head_among_others(qkscope, tmp_path):
    folder = three_heads(tmp_path / "c")
    qkscope("rotate", folder, "-o", tmp_path / "clean", *ALL, expect=0)
    (folder / "l00h01k" / "data.parquet").write_bytes(b"PAR1 no PAR1")
    result = qkscope("rotate", folder, "-o", tmp_path / "out", *ALL, "--q-per-kv-group", 1, expect=3)
    assert "/l00h01k/" in result.err
    for table in ("rotated.csv", "complement.csv"):
        clean = [r for r in read_csv(tmp_path / "clean" / table) if r["q_head"] != 1]
        assert read_csv(tmp_path / "out" / table) == clean
    manifest = last_run(tmp_path / "out")
    assert [f["head"] for f in manifest["failures"]] == ["l00h01q"]


def test_a_degenerate_head_among_others(qkscope, tmp_path):
    """It has its row, and is no failure."""
    folder = three_heads(tmp_path / "c")
    write_rows(folder, "l00h01q", rows_of(2, d=6))
    qkscope("rotate", folder, "-o", tmp_path / "out", "--complement", "--q-per-kv-group", "1",
            expect=0)
    rows = read_csv(tmp_path / "out" / "rotated.csv")
    assert [row["q_head"] for row in rows] == [0, 1, 2]
    assert rows[1]["position_r"] is None and rows[1]["n_q"] == 2
    assert {row["q_head"] for row in read_csv(tmp_path / "out" / "complement.csv")} == {0, 2}


@pytest.mark.parametrize("frequencies", ["1", "[]", '["a"]', '{"0": 3}', '{"0": []}', "[-1.0]", "[1e999]"])
def test_odd_frequencies(qkscope, tmp_path, frequencies):
    """Either an error that names the file, or the columns stay empty."""
    folder = three_heads(tmp_path / "c")
    (folder / "capture.json").write_text(
        '{"format": "qkscope-capture", "rope_frequencies": %s}' % frequencies)
    result = qkscope("rotate", folder, "-o", tmp_path / "out", "--complement")
    assert result.code in (0, 1), result.err
    if result.code == 1:
        assert "capture.json" in result.err
        assert "rope_frequencies" in result.err or "1e999" in frequencies
        return
    check_tables(tmp_path / "out")
    assert all(row["rope_frequency"] is None
               for row in read_csv(tmp_path / "out" / "complement.csv"))
