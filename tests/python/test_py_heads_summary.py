# SPDX-License-Identifier: Apache-2.0
"""results.heads_summary against what qkscope heads prints for the same question, and against the tables."""
import csv
import json

import pytest

from conftest import EXAMPLE

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")


@pytest.fixture(scope="module")
def results():
    return qk.analyze(EXAMPLE, progress=False)


def check(qkscope, found, *arguments):
    """What the command lists: names, and values as they are written."""
    names, *rows = csv.reader(qkscope("heads", *arguments, "--format", "csv").out.splitlines())
    assert found.names == names and len(found) == len(rows)
    for name, texts in zip(names, zip(*rows)):
        text = found.schema[name].type == "text"
        assert found.column(name) == [value if text else float(value) if value else None for value in texts], name


@pytest.mark.cases(5)
@pytest.mark.parametrize("asked, options", [
    ({}, []),
    ({"where": "category == 'mixed'", "sort": "-r_q", "top": 3}, ["--where", "category == 'mixed'", "--sort", "-r_q", "--top", 3]),
    ({"columns": ["layer", "q_head", "near_tie", "p_q"]}, ["--columns", "layer,q_head,near_tie,p_q"]),
    ({"heads": [(4, 1), "2:*"], "where": "q_head < 3"}, ["--heads", "4:1,2:*", "--where", "q_head < 3"]),
    ({"columns": "model,ap_drop", "where": "layer > 99"}, ["--columns", "model,ap_drop", "--where", "layer > 99"]),
])
def test_rows_of_the_command(qkscope, results, asked, options):
    check(qkscope, results.heads_summary(**asked), results.folder, *options)


def test_beside_other_results(qkscope, results, tmp_path):
    other = qk.pca(EXAMPLE, layers="1-3", max_samples=400, progress=False)
    where, sort = "a.category != b.category or layer == 0", "-abs(diff.r_q)"
    found = results.heads_summary(where, sort=sort, beside=other)
    check(qkscope, found, results.folder, other.folder, "--where", where, "--sort", sort)
    assert found["b.category"][-1] == "" and found.column("b.r_q")[-1] is None and 4 <= len(found) < 20
    assert len(results.heads_summary(beside=other.save(tmp_path / "saved"))) == 20


@pytest.mark.cases(10)
@pytest.mark.parametrize("asked, error, words", [
    ({"where": "catgory == 'mixed'"}, qk.ArgumentError, "did you mean category"),
    ({"where": "a.r_q > 0"}, qk.ArgumentError, "one is given"),
    ({"columns": []}, qk.ArgumentError, "there is no column ''"),
    ({"columns": "r_q\0"}, qk.ArgumentError, "zero byte"),
    ({"sort": "-r_p"}, qk.ArgumentError, "sort: "),
    ({"heads": "2:x"}, qk.ArgumentError, "2:x"),
    ({"heads": "9:*"}, qk.NotFoundError, "heads 9:\\*: these results have none"),
    ({"top": 0}, qk.ArgumentError, "top is 0"),
    ({"where": "r_q_lo > 0"}, qk.NotFoundError, "needs --ci"),
    ({"beside": "/nowhere"}, qk.NotFoundError, "/nowhere"),
])
def test_mistakes(results, asked, error, words):
    with pytest.raises(error, match=words):
        results.heads_summary(**asked)


def test_sql(qkscope, results, tmp_path):
    """The rows of the command; of several results, too."""
    statement = "select category, count(*) as heads, avg(r_k) as r_k, null as none from head_numbers group by 1"
    table, said = results.sql(statement), json.loads(qkscope("sql", results.folder, statement, "--json", expect=0).out)
    assert [row._asdict() for row in table] == said and table.schema["r_k"].unit == "correlation"
    assert results.sql("select count(*) as n from a.heads join b.heads using (head_id)", results).column("n") == [20]
    with pytest.raises(qk.ArgumentError, match="character 8: no such column: r_p"):
        results.sql("select r_p from heads")
