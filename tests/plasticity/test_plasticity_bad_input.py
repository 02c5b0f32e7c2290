# SPDX-License-Identifier: Apache-2.0
"""Plasticity of heads that have little to say, or contradict themselves: documented fields are
empty, no CSV says nan or inf, other heads are whole."""

import numpy as np
import pytest
from conftest import check_tables, head_name, last_run, read_csv, read_rows, write_rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TABLES = ("head_metrics.csv", "head_profile.csv", "head_bucket_plasticity.csv",
          "head_distance.csv", "head_component_weights.csv", "model_report.csv")
AP = ("ap_overall", "ap_first_20pct", "ap_last_20pct", "ap_drop")
NORMALITY = ("q_resid0_skew", "q_resid0_kurt", "q_resid0_ks_p", "q_noise_med_abs_skew",
             "q_noise_med_abs_kurt", "q_noise_med_ks_p", "q_noise_frac_ks_p_lt_alpha")


def rows_of(n_texts=5, rows=30, d=6, seed=0, span=640):
    rng = np.random.default_rng(seed)
    n = n_texts * rows
    position = rng.integers(0, span, n)
    x = rng.standard_normal((n, d)) + np.outer(position / span, np.arange(d) + 1)
    return {"vector": x.astype(np.float32), "position": position, "bucket": position // 64,
            "example_id": np.repeat(np.arange(n_texts), rows)}


def write_pair(folder, q, k, head=0):
    write_rows(folder, head_name(0, head, "q"), q)
    write_rows(folder, head_name(0, head, "k"), k)


def analyse(qkscope, capture, out, *options, expect=0, command="plasticity", timeout=900):
    result = qkscope(command, capture, "-o", out, *options, expect=expect, timeout=timeout)
    check_tables(out)
    return result, {name: read_csv(out / name) for name in TABLES}


def metrics_of(qkscope, tmp_path, q, k):
    """The metrics of a head of these rows; it survives repetitions, too."""
    write_pair(tmp_path / "c", q, k)
    analyse(qkscope, tmp_path / "c", tmp_path / "intervals", "--ci", 95)
    tables = analyse(qkscope, tmp_path / "c", tmp_path / "out")[1]
    return tables["head_metrics.csv"][0], tables


# ---- little to say ---------------------------------------------------------------------------

def test_one_key_a_text(qkscope, tmp_path):
    """No two keys of a text: no pair, no plasticity; the queries have their numbers."""
    q, k = rows_of(), rows_of(n_texts=20, rows=1, seed=1)
    row, tables = metrics_of(qkscope, tmp_path, q, k)
    assert all(row[c] is None for c in AP)
    assert all(row[c] is not None for c in NORMALITY) and row["q_R2_pos"] > 0
    profile = tables["head_profile.csv"]
    assert len(profile) == len(set(q["bucket"]) - {0})
    assert all((r["n_pairs"], r["ap"]) == (0, None) for r in profile)
    assert tables["head_distance.csv"] == []
    assert all((r["n_pairs"], r["ap_bucket"]) == (0, None)
               for r in tables["head_bucket_plasticity.csv"])
    report, = tables["model_report.csv"]
    assert report["heads"] == 1
    assert all(value is None for c, value in report.items() if c not in ("heads", "model"))


def test_buckets_of_one_key(qkscope, tmp_path):
    """A text has no two keys in one bucket: pairs across buckets only."""
    q, k = rows_of(), rows_of(n_texts=4, rows=10, seed=1)
    k["position"] = np.tile(np.arange(10) * 64 + 7, 4)
    k["bucket"] = k["position"] // 64
    row, tables = metrics_of(qkscope, tmp_path, q, k)
    assert all((r["n_pairs"], r["ap_bucket"]) == (0, None)
               for r in tables["head_bucket_plasticity.csv"])
    assert row["ap_overall"] is not None
    first, second = tables["head_profile.csv"][:2]
    assert (first["n_pairs"], first["ap"]) == (0, None)
    assert second["n_pairs"] == 4 and second["ap"] is not None


def test_nothing_to_compare(qkscope, tmp_path):
    """Only bucket zero, or keys behind all queries: no plasticity; the queries have their numbers."""
    behind = rows_of(seed=1)
    behind["position"] += 1000
    behind["bucket"] = behind["position"] // 64
    for i, (q, k) in enumerate(((rows_of(span=64), rows_of(seed=1, span=64)), (rows_of(span=300), behind))):
        row, tables = metrics_of(qkscope, tmp_path / str(i), q, k)
        assert all(row[c] is None for c in AP) and tables["head_distance.csv"] == []
        assert row["bucket_width"] is not None and row["q_R2_scalar"] is not None


def constant_positions(columns, at=100):
    n = len(columns["position"])
    return {**columns, "position": np.full(n, at), "bucket": np.full(n, at // 64)}


def test_queries_at_one_position(qkscope, tmp_path):
    """No drift to speak of: numbers about it are empty, plasticity is that of the mean."""
    q, k = constant_positions(rows_of(), 300), rows_of(seed=1)
    row, tables = metrics_of(qkscope, tmp_path, q, k)
    assert row["q_R2_pos"] == 0 and row["q_R2_scalar"] is None and row["q_mae_ratio"] is None
    assert row["beta_norm"] == 0 and row["ap_overall"] is not None
    weights = tables["head_component_weights.csv"]
    assert all((r["component_r2"], r["component_weight"]) == (0, None) for r in weights)


def test_all_vectors_equal(qkscope, tmp_path):
    """Every comparison is a draw."""
    q, k = rows_of(), rows_of(seed=1)
    q["vector"][:], k["vector"][:] = 0.7, 0.3
    row, tables = metrics_of(qkscope, tmp_path, q, k)
    assert row["ap_overall"] == 1 and row["ap_drop"] == 0
    assert all(row[c] is None for c in NORMALITY)
    assert (row["q_R2_pos"], row["q_R2_scalar"]) == (0, 0)
    assert row["q_mae_proj"] == row["q_mae_baseline"] > 0 and row["q_mae_ratio"] == 1
    assert all(r["ap"] == 1 for r in tables["head_profile.csv"] if r["n_pairs"])


def test_equal_queries_decide_everything(qkscope, tmp_path):
    """Queries without any variance: the key that wins, wins always."""
    q, k = rows_of(), rows_of(seed=1)
    q["vector"][:] = 0.7
    row, _ = metrics_of(qkscope, tmp_path, q, k)
    assert row["ap_overall"] == 0


@pytest.mark.cases(4)
@pytest.mark.parametrize("kind, n", [("q", 1), ("k", 1), ("both", 2), ("both", 4)])
def test_few_rows(qkscope, tmp_path, kind, n):
    """Exit code 0 or 3, nothing worse; skewness needs three rows, kurtosis four."""
    rows = {side: rows_of(seed=i) for i, side in enumerate("qk")}
    for side in rows:
        if kind in (side, "both"):
            rows[side] = {c: v[40:40 + n] for c, v in rows[side].items()}
    rows["q"]["bucket"] = rows["q"]["position"] // 64 + 1
    write_pair(tmp_path / "c", rows["q"], rows["k"])
    write_pair(tmp_path / "c", rows_of(seed=5), rows_of(seed=6), head=1)
    for options in ([], ["--ci", 95]):
        result = qkscope("plasticity", tmp_path / "c", "-o", tmp_path / "out",
                         "--q-per-kv-group", 1, *options)
        assert result.code in (0, 3), result.err
        check_tables(tmp_path / "out")
        table = read_csv(tmp_path / "out" / "head_metrics.csv")
        assert table[-1]["ap_overall"] is not None
        if result.code == 3:
            assert n == 1 and len(table) == 1 and "l00h00" in result.err
            continue
        row = table[0]
        if kind != "k":
            assert (row["q_resid0_skew"] is None) == (n < 3)
            assert (row["q_resid0_kurt"] is None) == (n < 4)


def test_a_window_smaller_than_a_bucket(qkscope, tmp_path):
    """The bucket before is always seen."""
    q, k = rows_of(), rows_of(seed=1)
    q["sliding_window"] = np.full(len(q["position"]), 3)
    tables = metrics_of(qkscope, tmp_path, q, k)[1]
    cells = {(r["q_bucket"], r["k_bucket"]) for r in tables["head_bucket_plasticity.csv"]}
    assert cells == {(j, j - 1) for j in range(1, 10)}
    for row in tables["head_profile.csv"]:
        cell, = [c for c in tables["head_bucket_plasticity.csv"]
                 if c["q_bucket"] == row["q_bucket"]]
        assert (row["n_pairs"], row["ap"]) == (cell["n_pairs"], cell["ap_bucket"])


def test_far_buckets(qkscope, tmp_path):
    """Bucket ids at the ends of their type are numbers like others."""
    q, k = rows_of(), rows_of(seed=1)
    q["bucket"] = np.where(q["bucket"] > 5, 2 ** 31 - 1, 1)
    k["bucket"] = np.where(k["bucket"] > 5, 2 ** 31 - 2, -2 ** 31)
    _, tables = metrics_of(qkscope, tmp_path, q, k)
    assert {r["q_bucket"] for r in tables["head_profile.csv"]} == {1, 2 ** 31 - 1}
    assert all(r["ap"] is not None for r in tables["head_profile.csv"])


def test_positions_all_negative(qkscope, tmp_path):
    """The context ends before it begins: no fifths, and no logarithms of positions."""
    q, k = rows_of(), rows_of(seed=1)
    q["position"], k["position"] = q["position"] - 5000, k["position"] - 5000
    row, _ = metrics_of(qkscope, tmp_path, q, k)
    assert row["ap_overall"] is not None and row["ap_first_20pct"] is None
    assert all(row[c] is None for c in ("q_R2_scalar", "q_mae_baseline", "q_mae_proj", "q_mae_ratio"))


def test_far_positions(qkscope, tmp_path):
    q, k = rows_of(), rows_of(seed=1)
    for side in (q, k):
        side["position"] = side["position"] + (2 ** 62 - 640)
    row, _ = metrics_of(qkscope, tmp_path, q, k)
    assert row["ap_overall"] is not None and 0 <= row["ap_overall"] <= 1


def test_positions_that_span_everything(qkscope, tmp_path):
    q, k = rows_of(), rows_of(seed=1)
    for side in (q, k):
        side["position"] = side["position"].copy()
        side["position"][:2] = [-2 ** 62, 2 ** 62]
    row, _ = metrics_of(qkscope, tmp_path, q, k)
    assert row["bucket_width"] > 2 ** 50


def test_huge_and_tiny_values(qkscope, tmp_path):
    """Plasticity has no unit: it is the same in any, as far as float32 reaches."""
    aps = []
    for scale in (1, 1e36, 1e-36):
        q, k = rows_of(), rows_of(seed=1)
        for side in (q, k):
            side["vector"] = side["vector"].astype(np.float64) * scale
        write_pair(tmp_path / str(scale), q, k)
        tables = analyse(qkscope, tmp_path / str(scale), tmp_path / f"out{scale}")[1]
        aps.append(tables["head_metrics.csv"][0]["ap_overall"])
    assert aps[1:] == pytest.approx([aps[0]] * 2, rel=1e-9)


@pytest.mark.test_all
def test_many_texts_of_one_row(qkscope, tmp_path):
    """100,000 texts: none has a pair, and finding that out takes no quadratic time, which would be hours."""
    n = 100000
    rng = np.random.default_rng(0)
    for kind in "qk":
        position = rng.integers(0, 6400, n)
        write_rows(tmp_path / "c", head_name(0, 0, kind),
                   {"vector": rng.standard_normal((n, 4)).astype(np.float32),
                    "position": position, "bucket": position // 64,
                    "example_id": rng.permutation(n) * 1000})
    for i, options in enumerate((["--max-pairs", 0], ["--ci", 95])):
        _, tables = analyse(qkscope, tmp_path / "c", tmp_path / str(i), *options, timeout=1800)
        assert tables["head_metrics.csv"][0]["ap_overall"] is None


def test_many_buckets(qkscope, tmp_path):
    """Every position its own bucket: W is widened for the table of distances."""
    q, k = rows_of(3, 60, span=5000, d=3), rows_of(3, 60, span=5000, d=3, seed=1)
    q["bucket"], k["bucket"] = q["position"], k["position"]
    write_pair(tmp_path / "c", q, k)
    _, tables = analyse(qkscope, tmp_path / "c", tmp_path / "out", "--buckets", "capture")
    tau = [row["position"] for row in tables["head_profile.csv"]]
    reach = np.ptp(tau) + np.ptp(k["position"])
    assert tables["head_metrics.csv"][0]["bucket_width"] == pytest.approx(reach / 510)


# ---- contradictions --------------------------------------------------------------------------

@pytest.fixture
def three_heads(tmp_path):
    for head in range(3):
        q, k = rows_of(seed=head), rows_of(seed=head + 3)
        q["sliding_window"] = np.full(len(q["position"]), 300)
        write_pair(tmp_path / "c", q, k, head)
    return tmp_path / "c"


def others_of(out):
    return {name: [row for row in read_csv(out / name) if row["q_head"] != 1]
            for name in TABLES if name != "model_report.csv"}


@pytest.mark.parametrize("options", [[], ["--ci", 95]])
def test_windows_that_differ(qkscope, three_heads, tmp_path, options):
    """One head has two windows: it fails, with the file and the column; the others do not."""
    clean = tmp_path / "clean"
    qkscope("plasticity", three_heads, "-o", clean, *options, expect=0)
    columns = read_rows(three_heads, "l00h01q")
    columns["sliding_window"][100] = 128
    write_rows(three_heads, "l00h01q", columns)
    result, _ = analyse(qkscope, three_heads, tmp_path / "out", *options, expect=3)
    assert "l00h01q/data.parquet" in result.err and "sliding_window" in result.err
    assert others_of(tmp_path / "out") == others_of(clean)
    assert [row["q_head"] for row in read_csv(tmp_path / "out" / "head_metrics.csv")] == [0, 2]
    failure, = last_run(tmp_path / "out")["failures"]
    assert failure["head"] == "l00h01q" and "sliding_window" in failure["message"]
    assert read_csv(tmp_path / "out" / "model_report.csv")[0]["heads"] == 2


def test_windows_of_keys_do_not_matter(qkscope, three_heads, tmp_path):
    qkscope("plasticity", three_heads, "-o", tmp_path / "clean", expect=0)
    columns = read_rows(three_heads, "l00h01k")
    columns["sliding_window"] = np.arange(len(columns["position"]))
    write_rows(three_heads, "l00h01k", columns)
    tables = analyse(qkscope, three_heads, tmp_path / "out")[1]
    assert tables == {name: read_csv(tmp_path / "clean" / name) for name in TABLES}


@pytest.mark.cases(3)
@pytest.mark.parametrize("name, column", [("l00h01q", "bucket"), ("l00h01k", "example_id"), ("l00h01q", "example_id")])
def test_missing_column(qkscope, three_heads, tmp_path, name, column):
    """pca does without buckets and texts, plasticity not without texts. Buckets it then cuts, unless
    told to use those of the capture."""
    path = three_heads / name / "data.parquet"
    pq.write_table(pq.read_table(path).drop_columns(column), path)
    qkscope("pca", three_heads, "-o", tmp_path / "pca", "--q-per-kv-group", 1, expect=0)
    if (name, column) == ("l00h01q", "example_id"):
        return  # which text a query comes from matters to intervals alone
    result, _ = analyse(qkscope, three_heads, tmp_path / "out", "--buckets", "capture", expect=3)
    assert f"{name}/data.parquet" in result.err and column in result.err
    assert [row["q_head"] for row in read_csv(tmp_path / "out" / "head_metrics.csv")] == [0, 2]


@pytest.mark.parametrize("column", ["bucket", "example_id"])
def test_null_in_a_column(qkscope, three_heads, tmp_path, column):
    path = three_heads / "l00h01k" / "data.parquet"
    table = pq.read_table(path)
    values = table[column].to_pylist()
    values[17] = None
    at = table.column_names.index(column)
    pq.write_table(table.set_column(at, column, pa.array(values, pa.int32())), path)
    result, _ = analyse(qkscope, three_heads, tmp_path / "out", expect=3)
    assert column in result.err and "17" in result.err


def test_every_head_fails(qkscope, three_heads, tmp_path):
    for head in range(3):
        columns = read_rows(three_heads, f"l00h0{head}q")
        columns["sliding_window"][0] = 7
        write_rows(three_heads, f"l00h0{head}q", columns)
    result = qkscope("plasticity", three_heads, "-o", tmp_path / "out", expect=1)
    assert "sliding_window" in result.err and not (tmp_path / "out").exists()
