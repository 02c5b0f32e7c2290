# SPDX-License-Identifier: Apache-2.0
"""qkscope sql against the tables, read here: values, joins, aggregates; what it refuses; the page's questions."""
import csv
import io
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from conftest import EXAMPLE, ROOT, environment, on_terminal, read_csv

HEAD = "model,layer,q_head,k_head"


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sql") / "results"
    qkscope("analyze", EXAMPLE, "-o", folder, "--ci", 50, "--max-samples", 600, expect=0)
    return folder


def ask(qkscope, *words):
    """The rows, numbers as such; an empty field is None."""
    return json.loads(qkscope("sql", *words, "--json", expect=0).out)


def one(qkscope, *words):
    row, = ask(qkscope, *words)
    value, = row.values()
    return value


def write(folder, name, *lines):
    folder.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text("\n".join(lines) + "\n")


# ---- values ----------------------------------------------------------------------------------

def test_a_table_is_its_file(qkscope, results):
    for path in sorted(results.glob("*.csv")):
        columns = path.read_text().split("\n", 1)[0]
        found = list(csv.reader(io.StringIO(qkscope("sql", results, f"select {columns} from {path.stem}", "--format", "csv", expect=0).out)))
        wanted = list(csv.reader(open(path, newline="")))
        assert found[0] == wanted[0] and len(found) == len(wanted)
        for row, expected in zip(found[1:], wanted[1:], strict=True):
            assert row == [repr(float(v)).removesuffix(".0") if "." in v and float(v) == float(f) and v != f else v
                           for v, f in zip(expected, row, strict=True)], path.name


def test_head_numbers_are_those_of_the_tables(qkscope, results):
    tables = {name: read_csv(results / f"{name}.csv") for name in ("heads", "qk", "rotated", "head_metrics")}
    tables["qk"] = [row for row in tables["qk"] if row["pc"] == 0]
    found = ask(qkscope, results, "select * from head_numbers")
    assert len(found) == 20
    for name, rows in tables.items():
        for row, head in zip(rows, found, strict=True):
            assert all(head[column] == value for column, value in row.items() if column != "pc"), name
    assert [head["depth"] for head in found] == [head["layer"] / 4 for head in found]
    assert [head["tenth"] for head in found] == [min(9, int(10 * head["depth"])) for head in found]
    joined = ask(qkscope, results, "select h.r_q, r.bias_strength as bias from heads h join rotated r using (head_id)")
    assert joined == [{"r_q": h["r_q"], "bias": r["bias_strength"]} for h, r in zip(tables["heads"], tables["rotated"], strict=True)]


def test_columns_of_one_name(qkscope, results):
    row, = ask(qkscope, results, "select 'a' as x, 2.5 as x, 3 as x, null as x from heads limit 1")
    assert row == {"x": "a", "x:1": 2.5, "x:2": 3, "x:3": None}
    row = ask(qkscope, results, "select h.*, r.* from heads h join rotated r using (head_id) limit 1")[0]
    assert row["layer"] == row["layer:1"] == 0 and row["position_r"] > 0


def test_aggregates(qkscope, tmp_path):
    rng = np.random.default_rng(1)
    x, y = rng.normal(1e6, 1, 101), rng.normal(size=101)
    write(tmp_path, "heads.csv", f"{HEAD},ev0,fisher", "m,9,9,0,,", *(f"m,{i},0,0,{a!r},{b!r}" for i, (a, b) in enumerate(zip(x.tolist(), y.tolist()))))
    found, = ask(qkscope, tmp_path, "select median(ev0) m, quantile(ev0, 0.3) q, corr(ev0, fisher) c, slope(ev0, fisher) s, "
                                    "sd(ev0) d, avg(ev0) a, count(ev0) n, count(*) heads from heads")
    wanted = [np.median(x), np.quantile(x, 0.3), np.corrcoef(x, y)[0, 1], np.polyfit(x - x.mean(), y, 1)[0], x.std(ddof=1), x.mean(), 101, 102]
    np.testing.assert_allclose(list(found.values()), wanted, rtol=1e-12)
    assert ask(qkscope, tmp_path, "select median(ev0) m, sd(ev0) d, avg(ev0) a, corr(ev0, 1) c from heads where layer > 999") == [
        {"m": None, "d": None, "a": None, "c": None}]
    means = [row["m"] for row in ask(qkscope, tmp_path, "select avg(ev0) over (order by layer rows 1 preceding) m from heads where layer < 100 order by layer")]
    inside = x[:100].copy()
    np.testing.assert_allclose(means[1:9], [inside[i - 1:i + 1].mean() for i in range(1, 9)], rtol=1e-12)
    for share in ("2", "null", "'abc'", "layer / 999.0"):
        assert "from 0 to 1" in qkscope("sql", tmp_path, f"select quantile(ev0, {share}) from heads", expect=2).err
    for call in ("median(model)", "sd(model)", "corr(ev0, model)", "avg(model)"):
        assert "this is a text" in qkscope("sql", tmp_path, f"select {call} from heads", expect=2).err
    assert one(qkscope, tmp_path, "select sd(ev0 * 1e200) from heads") is None  # its square is no number


def test_models_in_the_order_of_their_list(qkscope, tmp_path):
    write(tmp_path, "heads.csv", HEAD, "b,0,0,0", "a,3,0,0")
    assert ask(qkscope, tmp_path, "select model, label, family from models") == [dict(model=m, label=m, family=m) for m in "ba"]
    write(tmp_path, "models.csv", "model,label,family,layers", "a,A,F,13", "b,,,", "c,C,,")
    assert ask(qkscope, tmp_path, "select model, label, family from models") == [
        {"model": "a", "label": "A", "family": "F"}, {"model": "b", "label": "b", "family": "b"}, {"model": "c", "label": "C", "family": "C"}]
    assert ask(qkscope, tmp_path, "select label, depth from head_numbers") == [{"label": "A", "depth": 0.25}, {"label": "b", "depth": 0}]


WEIGHTS = f"{HEAD},component,component_weight"
DISTANCES = f"{HEAD},distance_bin,lag_bin,n_pairs,ap"


def test_distances_are_summed_while_they_are_read(qkscope, tmp_path):
    rng = np.random.default_rng(3)
    rows = [(m, head, int(d), int(lag), int(rng.integers(0, 9)), float(rng.uniform())) for m in "ab" for head in range(3)
            for d, lag in rng.integers((0, -3), (40, 70), (50, 2))]
    write(tmp_path, "head_distance.csv", DISTANCES, *(f"{m},0,{h},0,{d},{lag},{n},{ap!r}" for m, h, d, lag, n, ap in rows))
    write(tmp_path, "head_metrics.csv", f"{HEAD},bucket_width", *(f"a,0,{h},0,16" for h in range(3)), "b,0,0,0,16", "b,0,1,0,8")
    wanted = {}
    for m, _, d, lag, n, ap in rows:
        if lag >= 0:
            old = wanted.get((m, d, lag), (0, 0))
            wanted[m, d, lag] = old[0] + n, old[1] + n * ap
    found = {(r["model"], r["distance_bin"], r["lag_bin"]): (r["n_pairs"], r["n_pairs"] and r["n_pairs"] * r["ap"])
             for r in ask(qkscope, tmp_path, "select * from distance_map") if r["n_pairs"]}
    assert found == {key: (n, pytest.approx(total, rel=1e-12)) for key, (n, total) in wanted.items() if n}
    assert ask(qkscope, tmp_path, "select model, width, max(distance_bin) d, max(lag_bin) l from distance_map group by 1") == [
        dict(model=m, width={"a": 16}.get(m), d=max(r[2] for r in rows if r[0] == m and r[3] >= 0), l=max(r[3] for r in rows if r[0] == m))
        for m in "ab"]


def test_weights_are_summed_while_they_are_read(qkscope, tmp_path):
    rng = np.random.default_rng(5)
    weights = {(m, head): [None if rng.uniform() < 0.2 else float(rng.uniform()) for _ in range(1100)] for m in "ab" for head in range(3)}
    write(tmp_path, "head_component_weights.csv", WEIGHTS, *(f"{m},0,{head},0,{i},{'' if w is None else repr(w)}"
                                                             for (m, head), ws in weights.items() for i, w in enumerate(ws)))
    wanted = {(m, i): np.mean(ws) for m in "ab" for i in range(1100) if (ws := [weights[m, h][i] for h in range(3) if weights[m, h][i] is not None])}
    found = {(r["model"], r["component"]): r["component_weight"] for r in ask(qkscope, tmp_path, "select * from dimension_weights")}
    assert found == {key: pytest.approx(mean, rel=1e-12) for key, mean in wanted.items()}


def test_of_more_bins_two_or_more_are_one(qkscope, tmp_path):
    write(tmp_path, "head_distance.csv", DISTANCES, "m,0,0,0,0,0,1,0.5", "m,0,0,0,3,3,3,0.1", f"m,0,0,0,{2**53},{2**52},1,0.25")
    write(tmp_path, "head_metrics.csv", f"{HEAD},bucket_width", "m,0,0,0,1.5")
    shift = 53 - 9
    assert ask(qkscope, tmp_path, "select distance_bin d, lag_bin l, n_pairs n, ap, width from distance_map") == [
        {"d": 0, "l": 0, "n": 4, "ap": pytest.approx(0.2), "width": 1.5 * 2**shift}, {"d": 512, "l": 256, "n": 1, "ap": 0.25, "width": 1.5 * 2**shift}]


def test_scores_are_of_the_models_here(qkscope, tmp_path):
    write(tmp_path, "heads.csv", HEAD, "m,0,0,0", "n,0,0,0")
    write(tmp_path, "models.csv", "model,label", "m,M one", "n,N two")
    write(tmp_path, "scores.csv", "model,family,rank,about,other", "N two,F,2,x,", "m,,1,y,-.5", "else,,,,7")
    assert ask(qkscope, tmp_path, "select model, score, value, scored from scores") == [
        {"model": m, "score": score, "value": value, "scored": scored} for score, values in (("rank", (2, 1, None)), ("other", (None, -0.5, 7)))
        for m, value, scored in zip(("N two", "m", "else"), values, ("n", "m", None), strict=True)]


@pytest.mark.cases(99)
@pytest.mark.parametrize("table, lines, words", [
    ("distance_map", [DISTANCES, *["m,0,0,0,0,0,1,1", "m,0,1,0,0,0,1,1"] * 2], "head_distance.csv: row 4 is of a head that has rows before"),
    ("distance_map", [DISTANCES, *(f"{m},0,0,0,1023,1023,1,0.5" for m in range(70))], "row 66: distance_map of all models has more than"),
    ("distance_map", [DISTANCES, "m,0,0,0,-1,0,1,1"], "row 2, column 'distance_bin'"), ("distance_map", [HEAD, "m,0,0,0"], "no column 'distance_bin'"),
    ("distance_map", [DISTANCES, "m,0,0,0,1,0,1,x"], "row 2, column 'ap'"),
    ("dimension_weights", [WEIGHTS, "m,0,0,0,0,1", "m,0,0,0,0,1"], "head_component_weights.csv: row 3 is of component 0, and 1 is next of model 'm', layer 0, query head 0"),
    ("dimension_weights", [WEIGHTS, "m,0,1,0,0,1", f"m,0,0,0,{2**60},1"], f"row 3 is of component {2**60}, and 0 is next"),
    ("dimension_weights", [WEIGHTS, *["m,0,0,0,0,1", "m,0,1,0,0,1"] * 2], "row 4 is of a head that has rows before"),
    ("head_component_weights", [WEIGHTS, "m,0,0,0,0,1", "m,0,0,0,1,1", "m,0,0,0,0,1"], "rows 2 and 4 are both of component 0: model 'm', layer 0, query head 0"),
    ("head_component_weights", [WEIGHTS, "m,0,1,0,0,1", "m,0,0,0,0,1", "m,0,0,0,2,1"], "row 4 is of component 2, but no row is of 1"),
    ("head_component_weights", [WEIGHTS, "m,0,0,0,-1,1"], "row 2, column 'component'"), ("head_component_weights", [HEAD], "no column 'component'"),
    ("scores", ["model,x", "m,1", "n,2", "m,3"], "rows 2 and 4 are both of model 'm'"), ("scores", ["name,x", "m,1"], "no column 'model'"),
    ("scores", ["model,x", "m,1", "n,2 of 3"], "row 3, column 'x': '2 of 3' is not a number: leave the field empty"),
    ("scores", ["model,x,x", "m,1,2"], "columns 2 and 3 are both 'x'")])
def test_wrong_tables(qkscope, tmp_path, table, lines, words):
    write(tmp_path, "heads.csv", HEAD)
    write(tmp_path, {"distance_map": "head_distance", "dimension_weights": "head_component_weights"}.get(table, table) + ".csv", *lines)
    assert words in qkscope("sql", tmp_path, f"select * from {table}", expect=1).err


def test_several_folders(qkscope, tmp_path):
    write(tmp_path / "x", "heads.csv", f"{HEAD},ev0", "m,0,0,0,1", "m,0,1,0,2")
    write(tmp_path / "y", "heads.csv", f"{HEAD},ev0", "n,0,1,0,5")
    both = tmp_path / "x", tmp_path / "y"
    assert ask(qkscope, *both, "select model, sum(ev0) s from heads group by 1") == [{"model": "m", "s": 3}, {"model": "n", "s": 5}]
    assert one(qkscope, *both, "select b.heads.ev0 - a.heads.ev0 from a.heads join b.heads using (layer, q_head)") == 3
    same = tmp_path / "x", tmp_path / "x"
    assert one(qkscope, *same, "select count(*) from a.heads join b.heads using (head_id)") == 2
    assert "in another folder, too: where these are two models, make the results again with --model-name" in qkscope("sql", *same, "select * from heads", expect=1).err


def test_columns_of_using_are_read(qkscope, tmp_path):
    """SQLite does not say that it reads them."""
    for folder in "xy":
        write(tmp_path / folder, "head_profile.csv", f"{HEAD},q_bucket,ap", "m,0,0,0,1,0.5", "m,0,0,0,2,0.25")
    for a, b in (("a.head_profile", "b.head_profile"), ('"a"."head_profile"', "[b] . `head_profile`")):
        assert one(qkscope, tmp_path / "x", tmp_path / "y", f"select count(*) from {a} join {b} using (head_id, q_bucket)") == 2


def test_the_list_of_what_there_is(qkscope, results):
    found = {(row["table"], row["column"]) for row in ask(qkscope, results)}
    for path in results.glob("*.csv"):
        for column in path.read_text().split("\n", 1)[0].split(","):
            assert (path.stem, column) in found
    assert ("heads", "head_id") not in found and ("stages", "layer") not in found


def test_formats(qkscope, results):
    statement = "select category, count(*) as heads from heads group by 1 order by 1 limit 1"
    (row,) = ask(qkscope, results, statement)
    said = {form: qkscope("sql", results, statement, "--format", form, expect=0).out for form in ("table", "csv", "markdown", "latex")}
    assert said["csv"].splitlines() == ["category,heads", f"{row['category']},{row['heads']}"]
    assert said["table"].split() == ["category", "heads", row["category"], str(row["heads"])]
    assert said["markdown"].splitlines()[2] == f"| {row['category']} | {row['heads']} |" and "\\toprule" in said["latex"]
    assert qkscope("sql", results, "select 1 from heads where 0", expect=0).out == "no rows\n"
    # numbers among texts, whole ones with empty ones among them
    mixed = ask(qkscope, results, "select 1 as a, 'x' as b union all select null, 2.5 union all select 3, 4")
    assert mixed == [{"a": 1, "b": "x"}, {"a": None, "b": "2.5"}, {"a": 3, "b": "4"}]


def test_texts_in_csv(program, tmp_path):
    """A program reads back what a table has; a terminal is shown what it would obey."""
    tokens = ["\t", "\x0b", "\x1b[2J", "\x7f", "\u202e", "\n", "\r", 'a,"b"', "\\t", " "]
    with open(tmp_path / "tokens.csv", "w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([[*HEAD.split(","), "token"], *(["m", 0, 0, 0, t] for t in tokens)])
    command = [program, "sql", tmp_path, "select token from tokens", "--format", "csv"]
    said = subprocess.run(command, stdout=subprocess.PIPE, env=environment(), check=True).stdout
    assert list(csv.reader(io.StringIO(said.decode(), newline=""))) == [["token"], *([t] for t in tokens)]
    shown = on_terminal(command, "stdout")
    assert "\\t" in shown and "\\u001b[2J" in shown and "\x1b" not in shown


def test_the_questions_of_the_page(qkscope, results):
    """Each SELECT of docs/sql.md has rows, and what the first ones say is so."""
    page = (ROOT / "docs" / "sql.md").read_text().split("## Ten questions")[1]
    questions = re.findall(r"^.*\?\n\n((?:    .*\n)+)", page, re.M)
    assert len(questions) == 10
    found = [ask(qkscope, results, " ".join(q.split())) for q in questions]
    assert all(rows and not all(v is None for v in rows[0].values()) for rows in found)
    heads, rotated = read_csv(results / "heads.csv"), read_csv(results / "rotated.csv")
    assert sum(row["heads"] for row in found[0]) == len(heads)
    assert {row["tenth"] for row in found[1]} == {0, 2, 5, 7, 9}
    np.testing.assert_allclose(found[2][0]["r"], np.corrcoef([abs(h["r_k"]) for h in heads], [r["bias_strength"] for r in rotated])[0, 1])


# ---- what is wrong ---------------------------------------------------------------------------

@pytest.mark.cases(99)
@pytest.mark.parametrize("lines, words", [
    ([HEAD + ",ev0", "m,0,0,0,x"], "heads.csv: row 2, column 'ev0': 'x' is not a number"),
    ([HEAD + ",ev0", "m,0,0,0,nan"], "heads.csv: row 2, column 'ev0'"),
    ([HEAD + ",category", "m,0,0,0,Mixed"], "row 2, column 'category': 'Mixed' is no category"),
    ([HEAD, "m,0,0,0", "m,1,x,0"], "heads.csv: row 3, column 'q_head': 'x'"),
    ([HEAD, "m,-1,0,0"], "row 2, column 'layer'"),
    ([HEAD, "m,2097152,0,0"], "row 2, column 'layer'"),
    ([HEAD, "m,0,7,0", "n,0,7,0", "m,0,7,0"], "rows 2 and 4 are of the same head: model 'm', layer 0, query head 7"),
    (["model,layer,k_head", "m,0,0"], "heads.csv: there is no column 'q_head'"),
    ([HEAD + ",ev0,ev0", "m,0,0,0,1,1"], "heads.csv: columns 5 and 6 are both 'ev0'"),
    ([HEAD, "m,0,0"], "heads.csv: row 2: 3 fields, but the header has 4"),
    ([HEAD, 'm,0,"0,0'], "heads.csv: row 2: a quoted field does not end"),
    ([HEAD, "m,0,0\0,0"], "heads.csv: row 2: a zero byte"),
    ([""], "heads.csv: empty")])
def test_wrong_tables_are_named(qkscope, tmp_path, lines, words):
    write(tmp_path, "heads.csv", *lines)
    said = qkscope("sql", tmp_path, "select * from head_numbers", expect=1)
    assert said.out == "" and words in said.err


def test_tables_that_contradict_each_other(qkscope, tmp_path):
    write(tmp_path, "heads.csv", HEAD, "m,0,3,1")
    write(tmp_path, "rotated.csv", HEAD, "m,0,3,0")
    assert "rotated.csv: key head 0 of layer 0, query head 3 is 1 in another" in qkscope("sql", tmp_path, "select * from head_numbers", expect=1).err
    (tmp_path / "rotated.csv").unlink()
    write(tmp_path, "models.csv", "model", "n")
    assert "heads.csv: row 2, column 'model': 'm' is not in models.csv" in qkscope("sql", tmp_path, "select * from heads", expect=1).err
    write(tmp_path, "models.csv", "model", "m", "n", "m")
    assert "models.csv: row 4, column 'model': 'm' is in an earlier row" in qkscope("sql", tmp_path, "select * from models", expect=1).err
    (tmp_path / "models.csv").unlink()
    write(tmp_path, "ablation_heads.csv", HEAD, "other,0,3,1")
    assert "is of the model 'other'" in qkscope("sql", tmp_path, "select * from head_numbers", expect=1).err


def test_tables_that_were_changed(qkscope, results, tmp_path):
    """Those that a statement asks for."""
    shutil.copytree(results, tmp_path / "changed")
    path = tmp_path / "changed" / "head_profile.csv"
    path.write_text(path.read_text().replace("0.", "1.", 1))
    assert one(qkscope, tmp_path / "changed", "select count(*) from heads") == 20
    assert "head_profile.csv is not as it was written" in qkscope("sql", tmp_path / "changed", "select * from head_profile", expect=1).err
    assert one(qkscope, tmp_path / "changed", "select count(distinct head_id) from head_profile", "--force") == 20
    write(tmp_path / "changed", "stages.csv", HEAD, "m,0,0,0")
    assert "no run in manifest.json wrote this table" in qkscope("sql", tmp_path / "changed", "select * from stages", expect=1).err
    assert "no tables of results" in qkscope("sql", tmp_path, "select 1 from heads", expect=1).err


ENDLESS = "with recursive t(x) as (select 1 union all select x + 1 from t)"


@pytest.mark.cases(99)
@pytest.mark.parametrize("statement, code, words", [
    ("select 'ü' as u, nix from heads", 2, "character 18: no such column: nix"),
    ("select avg(h.first_mass) from heads h", 2, "the column h.first_mass has left: use sink_mass"),
    ("select nix from heads", 2, "character 8: no such column: nix; a text stands in single quotes"),
    ("select \"mixed\" from heads", 2, "no such column: mixed"),
    ("select layer from heads where", 2, "incomplete input: something is missing after 'where'"),
    ("select 1; select 2", 2, "one statement"), ("/* nothing at all */", 2, "no statement"), ("select ? from heads", 2, "parameter"),
    ("attach 'new.db' as new", 2, "only SELECT"), ("delete from heads", 2, "only SELECT"), ("create table t (x)", 2, "only SELECT"),
    ("create temp table t (x)", 2, "only SELECT"), ("pragma temp_store = 1", 2, "only SELECT"), ("begin immediate", 2, "only SELECT"),
    ("vacuum into 'new.db'", 2, "only SELECT"), ("select load_extension('x.so')", 2, "only SELECT"),
    ("select * from pragma_table_info('heads')", 2, "only SELECT"), ("insert into heads (layer) values (1)", 2, "only SELECT"),
    ("select length(zeroblob(1000000000))", 1, "more than 1048576 bytes"),
    ("select zeroblob(3)", 1, "bytes that are no text"),
    (f"{ENDLESS} select count(*) from t", 1, "not done after 0.5 s"),
    ("with recursive t(x) as (select zeroblob(800000) union all select x from t) select count(*) from t", 1, "not done after 0.5 s"),
    (f"{ENDLESS} select median(x) from t", 1, "not done after 0.5 s"),
    ("select count(*) from qk a, qk b, qk c, qk d, qk e", 1, "not done after 0.5 s"),
    ("select " + "(" * 5000 + "1", 2, ""), ("select " + "1+" * 3000 + "1", 2, "")])
def test_hostile_statements(qkscope, results, tmp_path, statement, code, words):
    before = sorted(path.name for path in results.iterdir())
    said = qkscope("sql", results, statement, "--seconds", 0.5, expect=code, cwd=tmp_path)
    assert said.out == "" and words in said.err and said.err.startswith("qkscope sql: ")
    assert sorted(path.name for path in results.iterdir()) == before and not list(tmp_path.iterdir())


@pytest.mark.test_all
@pytest.mark.release
def test_memory_of_a_statement_is_bounded(qkscope, results):
    said = qkscope("sql", results, "with recursive t(x, n) as (select hex(zeroblob(400000)), 1 union all select x || n, n + 1 from t) "
                                   "select * from t order by 1", "--seconds", 100, expect=1)
    assert "more than a gigabyte" in said.err
    said = qkscope("sql", results, f"{ENDLESS} select x, {', '.join('x' for _ in range(99))} from t", "--seconds", 100, expect=1)
    assert "more than a gigabyte of rows" in said.err


# ---- damaged files ---------------------------------------------------------------------------

@pytest.mark.test_all
def test_damaged_files(qkscope, tmp_path):
    """700 mutants: an answer or an error of ours, no crash."""
    rng = np.random.default_rng(5)
    lines = [f"{HEAD},ev0,category,n_q"] + [f"m{i % 2},{i // 4},{i % 4},{i % 2},0.{i}25,mixed,{i}" for i in range(12)]
    whole = ("\n".join(lines) + "\n").encode()
    refused = 0
    for _ in range(600):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            kind = rng.integers(3)
            if kind == 0:
                damaged[place:place + 1] = bytes([rng.choice(list(b"\0\",\n\r-9e.\xff"))])
            elif kind == 1:
                del damaged[place:place + int(rng.integers(1, 9))]
            else:
                damaged[place:place] = damaged[place:place + int(rng.integers(1, 60))]
        (tmp_path / "heads.csv").write_bytes(damaged)
        said = qkscope("sql", tmp_path, "select * from head_numbers", "--format", "csv")
        assert said.code in (0, 1) and (said.code == 0 or "heads.csv" in said.err)
        refused += said.code
    assert 300 < refused < 600
    whole = (DISTANCES + "\n" + "".join(f"m,{i // 4},{i % 4},0,{b},{b * 7 % 5},{b + 1},0.{b}25\n" for i in range(6) for b in range(8))).encode()
    for _ in range(100):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            damaged[place] = rng.choice(list(b"\0\",\n\r-9e.\xff"))
        (tmp_path / "head_distance.csv").write_bytes(damaged)
        assert qkscope("sql", tmp_path, "select count(*) from distance_map", "--force").code in (0, 1)
