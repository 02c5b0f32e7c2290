# SPDX-License-Identifier: Apache-2.0
"""The schema against the tables themselves, the documentation, the page and what `explain` prints."""
import csv
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import EXAMPLE, read_json

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
EVERY = ["--layers", "0,2", "--ci", 95, "--lda", "--complement", "--pairs", 3]


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module")
def schema(qkscope):
    return json.loads(qkscope("explain", "--json", expect=0).out)


@pytest.fixture(scope="module")
def tables(qkscope, tmp_path_factory):
    out = tmp_path_factory.mktemp("tables") / "out"
    qkscope("analyze", EXAMPLE, "-o", out, *EVERY, "--model-name", "a, b", expect=0)
    return out


def names(table):
    return [column["name"] for column in table["columns"]]


# ---- against the tables ----------------------------------------------------------------------

def check_folder(out, schema):
    """schema.json names the tables that are there, and their headers."""
    own = read_json(out / "schema.json")
    files = {p.name for p in out.glob("*.csv")} | {p.name for p in out.glob("summary.json")}
    assert set(own) == files and files
    for name, table in own.items():
        if name.endswith(".csv"):
            assert rows_of(out / name)[0] == names(table)
        whole = schema[name]
        assert {k: v for k, v in table.items() if k != "columns"} == {
            k: v for k, v in whole.items() if k != "columns"}
        assert [c for c in whole["columns"] if c["name"] in names(table)] == table["columns"]
    return own


RESERVOIR = "capture --keep moments,reservoir=N"


def test_every_table_of_analyze(schema, tables):
    """Of a capture of rows: all but what only others have."""
    own = check_folder(tables, schema)
    assert own == {name: schema[name] | {"columns": [c for c in schema[name].get("columns", [])
                                                     if c.get("option") != RESERVOIR]}
                   for name in own} and len(own) == 11


def test_columns_that_need_an_option(qkscope, schema, tmp_path):
    out = tmp_path / "out"
    qkscope("analyze", EXAMPLE, "-o", out, "--layers", 1, expect=0)
    own = check_folder(out, schema)
    assert "complement.csv" not in own
    left_out = [c for t in own for c in schema[t]["columns"] if c["name"] not in names(own[t])]
    assert {c["option"] for c in left_out} == {"--ci", RESERVOIR}
    assert {c["name"] for c in left_out} >= {"r_q_lo", "bias_strength_hi", "ap_drop_lo"}


def test_a_folder_of_several_runs(qkscope, schema, tmp_path):
    """Tables that stay are described as the run before wrote them."""
    out = tmp_path / "out"
    qkscope("rotate", EXAMPLE, "-o", out, "--layers", 1, "--ci", 90, "--complement", expect=0)
    qkscope("pca", EXAMPLE, "-o", out, "--layers", 1, expect=0)
    own = check_folder(out, schema)
    assert set(own) == {"qk.csv", "heads.csv", "rotated.csv", "complement.csv"}
    assert "r_q_a_lo" in names(own["rotated.csv"]) and "r_q_lo" not in names(own["qk.csv"])
    qkscope("rotate", EXAMPLE, "-o", out, "--layers", 1, expect=0)
    own = check_folder(out, schema)
    assert set(own) == {"qk.csv", "heads.csv", "rotated.csv"}
    qkscope("pca", EXAMPLE, "-o", out, "--layers", 1, "--kinds", "q,k", expect=0)
    assert set(check_folder(out, schema)) == {"qk.csv", "heads.csv", "rotated.csv",
                                              "correlations.csv", "summary.json"}
    runs = read_json(out / "manifest.json")["runs"]
    assert ["schema.json" in run["contents"] for run in runs] == [False] * (len(runs) - 1) + [True]
    qkscope("plasticity", EXAMPLE, "-o", out, "--layers", 1, "--force", expect=0)
    assert not any("q_layer" in names(t) for t in check_folder(out, schema).values())


def test_a_study(qkscope, schema, tmp_path):
    (tmp_path / "s.yaml").write_text(f"models: [{{name: a, source: {EXAMPLE}}}]\n"
                                     "analyses: [rotation]\n")
    qkscope("study", tmp_path / "s.yaml", "-o", tmp_path / "out", "--no-figures", expect=0)
    assert set(check_folder(tmp_path / "out", schema)) == {"rotated.csv", "models.csv"}
    check_folder(tmp_path / "out" / "models" / "a", schema)


def check_values(folder, schema, *, of_every_column):
    for name in (p.name for p in folder.glob("*.csv")):
        header, *rows = rows_of(folder / name)
        for column in (c for c in schema[name]["columns"] if c["name"] in header):
            i = header.index(column["name"])
            values = [row[i] for row in rows if row[i] != ""]
            if not values:
                assert not of_every_column or column["name"] in ("rope_frequency", "sliding_window"), (name, column["name"])
                continue
            if column["type"] == "text":
                allowed = column.get("range", "").split(", ")
                assert "range" not in column or set(values) <= set(allowed)
                continue
            numbers = [int(v) if column["type"] == "integer" else float(v) for v in values]
            low, _, high = (end.strip() for end in column.get("range", "").partition(".."))
            assert min(numbers) >= float(low or -math.inf) - 1e-9, (name, column["name"])
            assert max(numbers) <= float(high or math.inf) + 1e-9, (name, column["name"])


def test_types_and_ranges(schema, tables):
    """Every value is of its type and in its range; every column has values somewhere."""
    for name in (p.name for p in tables.glob("*.csv")):
        assert {c["name"] for c in schema[name]["columns"] if c.get("option") != RESERVOIR} == set(rows_of(tables / name)[0])
    check_values(tables, schema, of_every_column=True)


def test_ranges_of_a_model(qkscope, schema, tmp_path):
    """Of tables that a capture of rows alone does not have: attention, sums, ablations."""
    model = ["--model", ROOT / "examples" / "kjv-tiny" / "step-2004", "--layers", "0,3"]
    qkscope("capture", *model, "--text", ROOT / "examples" / "kjv-tiny" / "passages.jsonl", "--max-texts", 6, "--sampler", "all",
            "--keep", "rows,attention", "-o", tmp_path / "capture", expect=0)
    qkscope("analyze", tmp_path / "capture", "-o", tmp_path / "out", "--ci", 95, expect=0)
    qkscope("ablate", *model, "--text", "repeat:24x2:6", "-o", tmp_path / "out" / "ablation", expect=0)
    for folder, table in ((tmp_path / "out", "attention.csv"), (tmp_path / "out" / "ablation", "ablation_heads.csv")):
        assert (folder / table).is_file()
        check_values(folder, schema, of_every_column=False)


# ---- against the documentation ---------------------------------------------------------------

def anchors(page):
    """Of the headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_method_is_there(schema):
    methods = {m for t in schema.values() for m in
               [t["method"], *(c["method"] for c in t["columns"] if "method" in c)]}
    assert len(methods) > 8
    for method in methods:
        page, _, anchor = method.partition("#")
        assert (DOCS / page).is_file(), method
        assert not anchor or anchor in anchors(DOCS / page), method


def test_the_page_of_tables_is_up_to_date(qkscope):
    made = subprocess.run([sys.executable, ROOT / "tools" / "tables_page.py"], check=True,
                          input=qkscope("explain", "--json", expect=0).out, text=True,
                          capture_output=True).stdout
    assert made == (DOCS / "reference" / "tables.md").read_text(), "run make reference"


# ---- explain ---------------------------------------------------------------------------------

def test_explain(qkscope, schema):
    """A column with its table, unit and page, a table with its columns, all of them; a wrong name with what is meant."""
    said = qkscope("explain", "bias_strength", expect=0).out
    for words in ("bias_strength (rotated.csv)", "score per token", "docs/methods.md"):
        assert words in said
    said = qkscope("explain", "head_profile", expect=0).out
    assert all(f"  {column} " in said for column in names(schema["head_profile.csv"]))
    said = qkscope("explain", expect=0).out
    assert set(said.split()) >= {column for t in schema.values() for column in names(t)}
    one = json.loads(qkscope("explain", "r_k_a", "--json", expect=0).out)
    assert {t: names(table) for t, table in one.items()} == {"rotated.csv": ["r_k_a"], "repeats.csv": ["r_k_a"]}
    for wrong, meant in (("rotated.cvs", "rotated.csv"), ("r_qq", "r_q"), ("plastcity", "plasticity"), ("x" * 5000, None)):
        said = qkscope("explain", wrong, expect=2)
        assert said.out == "" and f"'{wrong[:100]}" in said.err
        assert ("did you mean" in said.err) == bool(meant) and (meant or "") in said.err


WORDS = """position-dominated, Q-positional, K-positional, content-focused, mixed, uncertain, certain, probability, key head, key heads, group size,
rows per head, texts, bias, drift, plane, plasticity, standard error, fifths of the context, drop, buckets, head, heads, depth, position off PC0, PC0, a, b,
separation, sink, previous-token, local head, induction, duplicate-token heads, uniform, loss, share, beyond, harmless, needed, undecided, window, RoPE,
near tie, moments, reservoir, capture, stage, sampler, interval"""


def test_words_of_the_terminal(qkscope):
    """Each is explained as the glossary has it; numbers have typical values, as docs/typical.md has them."""
    glossary, typical = ((ROOT / "docs" / f"{name}.md").read_text() for name in ("glossary", "typical"))
    for word in WORDS.replace("\n", " ").split(", "):
        if word != "plane":
            assert qkscope("explain", word, expect=0).out, word
    said = qkscope("explain", "plasticity", expect=0).out
    assert "averaged over pairs of keys" in said and "method   docs/methods.md" in said
    assert "SmolLM2-135M, 8,192 tokens: 0.62\n" in said and "| plasticity (`ap_overall`) | 0.84 | 0.62 |" in typical
    assert "published models, 131,072 tokens: 0.07 to 0.23" in qkscope("explain", "ap_drop", expect=0).out
    found = json.loads(qkscope("explain", "probability", "--json", expect=0).out)
    assert found["about"] in glossary and found["word"] == "category probability, probability"


@pytest.mark.test_all
def test_the_page_shows_the_schema(qkscope, schema, tables, tmp_path):
    qkscope("report", tables, "-o", tmp_path, "--format", "svg", expect=0)
    page = (tmp_path / "report.html").read_text()
    block = re.search(r'id="qk-heads">(.*?)</script>', page, re.S)[1]
    fields = json.loads(block)["fields"]
    assert len(fields) > 40
    for field in fields:
        column = next(c for c in schema[field["table"]]["columns"] if c["name"] == field["name"])
        assert (field["label"], field["about"]) == (column["label"], column["about"])
    labelled = {c["name"] for name, t in schema.items() for c in t["columns"] if "label" in c
                # not those of lists alone, and what analyze does not write, or not of a capture of some rows
                and c["name"] not in ("p_q", "p_k") and name not in ("stages.csv", "attention.csv", "ablation_heads.csv") and not c.get("option", "").startswith("capture ")}
    assert labelled == {field["name"] for field in fields}
