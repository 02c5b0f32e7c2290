# SPDX-License-Identifier: Apache-2.0
"""Every table from Python is the command's CSV, number for number, also in pandas, polars, pyarrow and DuckDB."""
import csv
import gc
import math
import pickle

import pytest

from conftest import EXAMPLE, synth

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")


def fields(path):
    """{column: texts} of a CSV, read without the package."""
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    return {name: [row[i] for row in rows] for i, name in enumerate(header)}


def check(table, path):
    """Values, types and nulls against the fields; how many of them were empty."""
    expected = fields(path)
    assert table.names == list(expected)
    empty = 0
    for name, texts in expected.items():
        kind = table.schema[name].type
        values = table.column(name)
        assert len(values) == len(texts) == len(table)
        empty += sum(text == "" for text in texts)
        if kind == "text":
            assert values == texts == table[name]
        elif kind == "integer":
            assert values == [int(text) if text else None for text in texts]
            assert table[name].tolist() == [int(text) if text else 0 for text in texts]
        else:
            assert [value is None for value in values] == [text == "" for text in texts]
            assert [v for v in values if v is not None] == [float(t) for t in texts if t]
            assert [math.isnan(v) for v in table[name].tolist()] == [text == "" for text in texts]
    return empty


def both(qkscope, tmp_path, command, function, capture, options=(), **keywords):
    """Results from Python beside the folder of the same command, file for file and table for table."""
    folder = tmp_path / "command"
    qkscope(command, capture, "-o", folder, *options, expect=0)
    results = function(capture, progress=False, **keywords)
    assert sorted(results.tables) == sorted(path.name for path in folder.glob("*.csv"))
    saved = results.save(tmp_path / "saved")
    assert {path.name for path in saved.iterdir()} == {path.name for path in folder.iterdir()} == set(results.files)
    for name in set(results.files) - {"manifest.json", "summary.json"}:  # which say when
        assert (saved / name).read_bytes() == (folder / name).read_bytes()
    return results, sum(check(results[name], folder / name) for name in results.tables)


def test_tokens(qkscope, tmp_path):
    """Of a capture with token strings, with empty integers and texts of all kinds."""
    synth(tmp_path / "capture", layers=1, examples=9, rows=200, dim=16, token_strings=True)
    results, empty = both(qkscope, tmp_path, "analyze", qk.analyze, tmp_path / "capture")
    assert {*results.tokens["list"]} == {"attended", "far"} and empty > 0


@pytest.fixture(scope="module")
def windows(tmp_path_factory):
    """Heads with a sliding window, and such without."""
    folder = tmp_path_factory.mktemp("windows")
    synth(folder / "capture", layers=2, dim=16, rows=150, sliding_window=300)
    return folder / "capture"


def test_analyze(qkscope, tmp_path):
    options = ["--layers", "0-1", "--ci", "95", "--lda", "--complement", "--heads", "1:1,0:*,2"]
    results, empty = both(qkscope, tmp_path, "analyze", qk.analyze, EXAMPLE, options, layers="0-1", ci=95, lda=True,
                          complement=True, heads=[(1, 1), "0:*", 2])
    assert "complement.csv" in results.tables and empty > 0
    assert "r_q_lo" in results.qk.names and results.num_heads == 6
    again = qk.pca(EXAMPLE, layers="0-1", heads="1:1,0:*,2", progress=False)
    assert again.qk.column("r_q") == results.qk.column("r_q")


@pytest.mark.cases(4)
@pytest.mark.parametrize("command, options, keywords", [
    ("plasticity", ["--buckets", "4"], {"buckets": 4}),
    ("rotate", ["--b-axis", "centroid", "--pairs", "4", "--heads", "0,1"], {"b_axis": "centroid", "pairs": 4, "heads": [0, 1]}),
    ("pca", ["--kinds", "q,k", "--components", "3"], {"kinds": ["q", "k"], "components": 3}),
    ("pca", ["--layers", "1"], {"layers": 1})])
def test_other_analyses(qkscope, tmp_path, windows, command, options, keywords):
    results, _ = both(qkscope, tmp_path, command, getattr(qk, command), windows, options, **keywords)
    if command == "plasticity":
        column = results.head_metrics.column("sliding_window")
        assert set(column) <= {None, 300} and 300 in column


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore::qkscope.QkscopeWarning")
def test_moments_and_stages(qkscope, tmp_path):
    model = EXAMPLE.parent / "kjv-tiny"
    for keep in ("rows", "moments,reservoir=3"):
        qkscope("capture", "-m", model / "step-2004", "-t", model / "passages.jsonl", "--max-texts", "9", "--rows", "300",
                "--stage", "both", "--layers", "0,3", "--keep", keep, "--groups", "8", "-o", tmp_path / keep, expect=0)
    results, _ = both(qkscope, tmp_path / "moments,reservoir=3", "analyze", qk.analyze, tmp_path / "moments,reservoir=3" / "post",
                      options=["--ci", "90"], ci=90)
    assert results.manifest["runs"][0]["kept"]["rows"] == "reservoir" and "ap_overall_se" in results.head_metrics.names
    results, _ = both(qkscope, tmp_path / "rows", "compare-stages", qk.compare_stages, tmp_path / "rows", ["--layers", "0,3"],
                      layers=[0, 3])
    assert results.tables == ["stages.csv", "rope_pairs.csv", "score_by_distance.csv"]
    again = qk.compare_stages(tmp_path / "rows" / "pre", tmp_path / "rows" / "post", layers=[0, 3])
    assert again.stages.column("r_squared_predicted") == results.stages.column("r_squared_predicted")


# ---- others take them ---------------------------------------------------------------------

@pytest.fixture(scope="module")
def results(windows):
    return qk.analyze(windows, ci=95, progress=False)


def columns_of(table):
    return {name: table.column(name) for name in table.names}


def test_pyarrow(results):
    """Types, nulls and metadata; numbers where they lie."""
    pyarrow = pytest.importorskip("pyarrow")
    for name in ("qk", "heads", "head_metrics", "model_report"):
        table = results[name]
        taken = pyarrow.table(table)
        taken.validate(full=True)
        assert taken.to_pydict() == columns_of(table)
        assert pyarrow.schema(table) == taken.schema
        for column in table.schema.values():
            metadata = {key.decode(): value.decode() for key, value in taken.schema.field(column.name).metadata.items()}
            assert metadata == {key: value for key, value in column._asdict().items()
                                if value is not None and key not in ("name", "type")}
    taken = results.qk.to_arrow()["r_q"].chunk(0)
    assert taken.buffers()[1].address == results.qk["r_q"].__array_interface__["data"][0]


@pytest.mark.test_all
def test_pandas_and_polars(results):
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    for table in (results[name] for name in results):
        frame = polars.DataFrame(table)
        assert frame.to_dict(as_series=False) == columns_of(table) and frame.equals(table.to_polars())
        frame = table.to_pandas()
        assert list(frame.columns) == table.names and len(frame) == len(table)
        assert {key: [None if pandas.isna(v) else v for v in frame[key]] for key in frame} == columns_of(table)
    assert pandas.DataFrame.from_arrow(results.qk)["r_q"].tolist() == results.qk["r_q"].tolist()
    assert pandas.DataFrame(results.qk).equals(results.qk.to_pandas())


@pytest.mark.test_all
def test_duckdb(results):
    duckdb = pytest.importorskip("duckdb")
    rows = results.qk
    expected = sum(rows["r_q"].tolist()) / len(rows)
    (mean, count), = duckdb.sql("select avg(r_q), count(*) from rows").fetchall()
    assert mean == pytest.approx(expected, abs=1e-12) and count == len(rows)
    windows = results.head_metrics
    (there, all_of_them), = duckdb.sql("select count(sliding_window), count(*) from windows").fetchall()
    assert there == sum(value is not None for value in windows.column("sliding_window")) and all_of_them == len(windows)


def test_arrays_are_views_that_outlive_the_results(windows):
    numpy = pytest.importorskip("numpy")
    table = qk.pca(windows, progress=False).qk
    one, two = table["r_q"], table["r_q"]
    assert numpy.shares_memory(one, two) and not one.flags.writeable and one.dtype == numpy.float64
    kept, arrow = one.tolist(), table.to_arrow()
    del table, two
    gc.collect()
    assert one.tolist() == kept
    del arrow
    gc.collect()
    assert one.tolist() == kept


def test_what_is_public():
    assert {"analyze", "compare", "side_by_side", "hf", "ray"} <= set(dir(qk)) and "annotations" not in dir(qk)
    assert all(name.startswith("__") or name in {"hf", "ray"} or name in qk.__all__ for name in dir(qk))


# ---- tables of one's own ------------------------------------------------------------------

def test_rows_schema_and_shows(results):
    table = results.heads
    row = next(iter(table))
    assert row.layer == 0 and row.category == table["category"][0] and len(list(table)) == len(table)
    column = table.schema["category_probability"]
    assert column.unit == "probability" and column.range == "0 .. 1" and "texts" in column.about
    assert "omega" not in table and "category" in table and "r_q" in table
    with pytest.raises(KeyError, match="heads.csv has no column 'r_qq'"):
        table["r_qq"]
    with pytest.raises(KeyError, match="no column 'ap_drop', but repeats.csv and head_metrics.csv and model_report.csv may; this has model, "):
        table["ap_drop"]
    assert repr(column).startswith("<Column category_probability: real, probability, 0 .. 1; ")
    assert str(results.folder) not in repr(results)
    assert repr(table) == f"<Table heads.csv: {len(table)} rows, {len(table.names)} columns>"


def test_pickled(results):
    for table in (results.head_metrics, results.qk):
        again = pickle.loads(pickle.dumps(table))
        assert columns_of(again) == columns_of(table) and again.schema == table.schema and again.name == table.name
    whole = pickle.loads(pickle.dumps(results))
    assert whole.folder != results.folder and whole.tables == results.tables and whole.model == results.model
    assert all(columns_of(whole[name]) == columns_of(results[name]) for name in results)


def test_made_of_values():
    Column = qk.tables.Column
    schema = [Column("n", "integer", about="a number"), Column("x", "real", unit="m", about="how far"),
              Column("t", "text", about="which")]
    values = {"n": [1, None, -3], "x": [0.5, None, -0.0], "t": ["a\u00e9", None, ""]}
    table = qk.Table.make("mine.csv", schema, values)
    assert columns_of(table) == values and table["n"].tolist() == [1, 0, -3]
    assert columns_of(qk.Table.make("none.csv", schema, {"n": [], "x": [], "t": []})) == {"n": [], "x": [], "t": []}
    pyarrow = pytest.importorskip("pyarrow")
    taken = pyarrow.table(table)
    taken.validate(full=True)
    assert taken.to_pydict() == values
    with pytest.raises(ValueError, match="columns of 1 and 2 rows"):
        qk.Table.make("bad.csv", schema[:2], {"n": [1], "x": [1.0, 2.0]})


def test_compare(tmp_path, windows):
    numpy = pytest.importorskip("numpy")
    a = qk.analyze(windows, ci=95, progress=False)
    b = qk.analyze(windows, ci=95, max_samples=300, layers=[1], progress=False)
    table = qk.side_by_side(a, b, "qk")
    assert table.names[:4] == ["layer", "q_head", "k_head", "pc"]
    assert len(table) == len(a.qk) and table.column("r_q_a") == a.qk.column("r_q")
    second = table["layer"] == 1
    assert numpy.isnan(table["r_q_diff"][~second]).all()
    difference = b.qk["r_q"] - a.qk["r_q"][a.qk["layer"] == 1]
    assert numpy.array_equal(table["r_q_diff"][second], difference, equal_nan=True)
    first = second & (table["pc"] == 0)  # the components with intervals
    lo, hi, mid = (table[name][first] for name in ("r_q_diff_lo", "r_q_diff_hi", "r_q_diff"))
    assert (lo < mid).all() and (mid < hi).all()
    half = {side: (table[f"r_q_hi_{side}"] - table[f"r_q_lo_{side}"])[first] for side in "ab"}
    assert (hi - lo >= numpy.maximum(half["a"], half["b"]) * 0.999).all()
    assert (hi - lo <= half["a"] + half["b"]).all()
    assert qk.side_by_side(a, b)["category_a"] == a.heads["category"]
    a.save(tmp_path / "a")
    assert qk.side_by_side(tmp_path / "a", b, "qk.csv").column("r_q_diff") == table.column("r_q_diff")
    with pytest.raises(ValueError, match="model_report.csv: has no rows of heads"):
        qk.side_by_side(a, a, "model_report")
    with pytest.raises(KeyError, match="no table 'stages'"):
        qk.side_by_side(a, b, "stages")


@pytest.mark.filterwarnings("ignore::qkscope.QkscopeWarning")
def test_compare_matches_rows_by_what_they_are_of(tmp_path, windows):
    """In every table: counts and positions are no part of that, though they are whole numbers."""
    synth(tmp_path / "other", layers=2, dim=16, rows=170, sliding_window=300, seed=5)
    a, b = (qk.analyze(folder, complement=True, progress=False) for folder in (windows, tmp_path / "other"))
    for name in set(a.tables) - {"model_report.csv"}:
        table = qk.side_by_side(a, b, name)
        keys = [column for column in table.names if column in a[name].names]
        assert keys[:3] == ["layer", "q_head", "k_head"]
        found = {}
        for side, results in (("_a", a), ("_b", b)):
            rows = list(zip(*(results[name].column(key) for key in keys)))
            assert len(set(rows)) == len(rows)
            for column in set(results[name].names) - {*keys, "model"}:
                found.update({(row, column + side): v for row, v in zip(rows, results[name].column(column))})
        for column in [n for n in table.names if n.endswith(("_a", "_b")) and n not in a[name].names]:
            for row, value in zip(zip(*(table.column(key) for key in keys)), table.column(column)):
                assert value == found.get((row, column))
    assert all(value is not None for value in qk.side_by_side(a, b, "head_metrics").column("ap_overall_diff"))
    assert set(qk.side_by_side(a, b, "head_metrics")["n_q_diff"].tolist()) == {80.0}  # 20 of each of 4 texts


def test_intervals_of_differences(windows):
    """By the formula of Zou and Donner, about the cross-fitted numbers. Turned round, the interval is, too."""
    numpy = pytest.importorskip("numpy")
    a, b = (qk.pca(windows, ci=95, max_samples=most, progress=False) for most in (None, 300))
    there, back = qk.side_by_side(a, b, "qk"), qk.side_by_side(b, a, "qk")
    x, lo, hi = ({side: there[f"r_q_{end}_{side}"] for side in "ab"} for end in ("cv", "lo", "hi"))
    middle = x["b"] - x["a"]
    assert numpy.isfinite(middle).sum() == len(a.heads)
    numpy.testing.assert_allclose(there["r_q_diff_lo"], middle - numpy.hypot(x["b"] - lo["b"], hi["a"] - x["a"]), rtol=1e-12)
    numpy.testing.assert_allclose(there["r_q_diff_hi"], middle + numpy.hypot(hi["b"] - x["b"], x["a"] - lo["a"]), rtol=1e-12)
    numpy.testing.assert_allclose(back["r_q_diff_hi"], -there["r_q_diff_lo"], rtol=1e-12)
    assert not {"r_q_lo_diff", "r_q_hi_diff", "r_q_cv_diff"} & set(there.names)


@pytest.mark.filterwarnings("ignore:.*texts:qkscope.QkscopeWarning")
def test_intervals_of_two_levels_have_none(windows, tmp_path):
    a, b = (qk.pca(windows, ci=ci, progress=False) for ci in (95, 80))
    a.save(tmp_path / "a")
    for first in (a, tmp_path / "a"):
        with pytest.warns(qk.QkscopeWarning, match="qk.csv: with intervals of 80 % and of 95 %") as seen:
            table = qk.side_by_side(first, b, "qk")
        assert {one.filename for one in seen if one.category is qk.QkscopeWarning} == {__file__}
        assert "r_q_diff" in table.names and "r_q_diff_lo" not in table.names
    assert (a.confidence("qk"), b.confidence("qk"), a.confidence("heads")) == (95, 80, 95)
    assert qk.Results.read(tmp_path / "a").confidence("qk") == pickle.loads(pickle.dumps(a)).confidence("qk") == 95
