# SPDX-License-Identifier: Apache-2.0
"""results.heads_summary against what qkscope heads prints for the same question, and against the tables."""
import io

import pandas
import pytest

from conftest import EXAMPLE

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")


@pytest.fixture(scope="module")
def results():
    return qk.analyze(EXAMPLE, progress=False)


def listed(qkscope, *arguments):
    return pandas.read_csv(io.StringIO(qkscope("heads", *arguments, "--format", "csv").out))


@pytest.mark.parametrize("asked, options", [
    ({}, []),
    ({"where": "category == mixed", "sort": "-r_q", "top": 3}, ["--where", "category == mixed", "--sort", "-r_q", "--top", 3]),
    ({"columns": ["layer", "q_head", "near_tie", "p_q"]}, ["--columns", "layer,q_head,near_tie,p_q"]),
    ({"heads": [(4, 1), "2:*"], "where": "q_head < 3"}, ["--heads", "4:1,2:*", "--where", "q_head < 3"]),
    ({"heads": 3, "sort": "r_q"}, ["--heads", "3", "--sort", "r_q"]),
    ({"columns": "model,ap_drop", "where": "layer > 99"}, ["--columns", "model,ap_drop", "--where", "layer > 99"]),
])
def test_rows_of_the_command(qkscope, results, asked, options):
    found = results.heads_summary(**asked)
    wanted = listed(qkscope, results.folder, *options)
    assert found.names == list(wanted) and len(found) == len(wanted)
    for name in found.names:
        assert found.column(name) == [None if pandas.isna(value) else value for value in wanted[name]]


def test_numbers_are_those_of_the_tables(results):
    found = results.heads_summary("layer == 2", columns="layer,q_head,r_q,bias_strength,category")
    heads, rotated = (results[name].to_pandas().query("layer == 2") for name in ("heads", "rotated"))
    assert found["r_q"].tolist() == heads.r_q.tolist() and found["category"] == heads.category.tolist()
    assert found["bias_strength"].tolist() == rotated.bias_strength.tolist()
    assert found.schema["r_q"] == results.qk.schema["r_q"]
    assert [row.q_head for row in found] == [0, 1, 2, 3]


def test_beside_other_results(qkscope, results, tmp_path):
    other = qk.pca(EXAMPLE, layers="1-3", max_samples=400, progress=False)
    found = results.heads_summary("a.category != b.category or layer == 0", sort="-abs(diff.r_q)", beside=other)
    wanted = listed(qkscope, results.folder, other.folder, "--where", "a.category != b.category or layer == 0", "--sort",
                    "-abs(diff.r_q)")
    assert found.names == list(wanted) and 4 <= len(found) == len(wanted) < 20
    pandas.testing.assert_frame_equal(found.to_pandas(), wanted.fillna({"b.category": ""}), check_dtype=False)
    assert found["b.category"][-1] == "" and found.column("b.r_q")[-1] is None
    saved = other.save(tmp_path / "saved")
    assert len(results.heads_summary(beside=saved)) == 20


@pytest.mark.parametrize("asked, error, words", [
    ({"where": "catgory == mixed"}, qk.ArgumentError, "did you mean category"),
    ({"where": "a.r_q > 0"}, qk.ArgumentError, "one is given"),
    ({"columns": []}, qk.ArgumentError, "there is no column ''"),
    ({"columns": "r_q\0"}, qk.ArgumentError, "zero byte"),
    ({"sort": "-r_p"}, qk.ArgumentError, "sort: "),
    ({"heads": "2:x"}, qk.ArgumentError, "2:x"),
    ({"heads": "9:*"}, qk.NotFoundError, "heads 9:\\*: these results have none"),
    ({"top": 0}, qk.ArgumentError, "top is 0"),
    ({"columns": "r_q_lo"}, qk.NotFoundError, "needs --ci"),
    ({"beside": "/nowhere"}, qk.NotFoundError, "/nowhere"),
])
def test_mistakes(results, asked, error, words):
    with pytest.raises(error, match=words):
        results.heads_summary(**asked)
