# SPDX-License-Identifier: Apache-2.0
"""What qkscope compare prints in its tables."""
import json
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import head_names, read_csv, read_json, read_rows, synth, write_rows

pytest.importorskip("pyarrow")
ROOT = Path(__file__).resolve().parents[2]


def number(text):
    return None if text == "-" else float(text.rstrip("*"))


def rows_below(lines, start):
    """The rows of a table, by the words of its header; up to a line that is none."""
    first = next(i for i, line in enumerate(lines) if line.strip().startswith(start))
    head = re.split(r"\s{2,}", lines[first].strip())
    rows = {}
    for line in lines[first + 1:]:
        cells = line.strip().split(None, len(head) - 1)
        if len(cells) != len(head) or line.lstrip().startswith(("*", "lo,", "changed:")):
            break
        rows[cells[0]] = dict(zip(head, cells))
    return rows


@pytest.fixture(scope="module")
def turned(qkscope, tmp_path_factory):
    """b is a with the queries of two heads turned round, so that PC0 points the other way there."""
    folder = tmp_path_factory.mktemp("turned")
    synth(qkscope, folder / "a", layers=2, query_heads=4, dim=8, examples=10, rows=60, seed=1, r_q=0.6, r_k=0.6)
    for name in head_names(folder / "a"):
        columns = read_rows(folder / "a", name)
        if name in ("l01h02q", "l01h03q"):
            columns["vector"] = columns["vector"] * np.float32(-1)
        write_rows(folder / "b", name, columns)
    return folder


def test_differences_that_are_not_b_less_a_are_marked(qkscope, turned, tmp_path):
    out = tmp_path / "out"
    done = qkscope("compare", turned / "a", turned / "b", "-o", out, "--no-html", expect=0)
    heads = sum(r["turned"] == 1 for r in read_csv(out / "compare_heads.csv"))
    assert heads > 0
    means = {m["metric"]: m for m in read_json(out / "compare_summary.json")["metrics"]}
    shown = rows_below(done.out.splitlines(), "mean over heads")
    assert {"r_q", "r_k", "r_q_a"} <= set(shown)
    for name, row in shown.items():
        marked = row["b - a"].endswith("*")
        assert marked == (name in ("r_q", "r_k")) == (means[name]["heads_turned"] > 0), name
        assert means[name]["heads_turned"] == (heads if marked else 0)
        adds_up = number(row["b"]) - number(row["a"]) == pytest.approx(number(row["b - a"]), abs=2e-3)
        assert marked or adds_up, name
    assert f"* in {heads} head{'s' * (heads != 1)} with the sign that PC0 has in a (-b - a)" in done.out


def test_intervals_and_the_corrected_p(qkscope, turned, tmp_path):
    out = tmp_path / "out"
    said = qkscope("compare", turned / "a", turned / "b", "-o", out, "--no-html", "--ci", 90, expect=0).out
    means = {m["metric"]: m for m in read_json(out / "compare_summary.json")["metrics"]}
    shown = rows_below(said.splitlines(), "mean over heads")
    assert list(next(iter(shown.values()))) == ["mean over heads", "a", "b", "b - a", "lo", "hi", "corrected p", "changed"]
    assert len(shown) == 13 and "lo, hi: the 90 % interval of b - a, over key heads" in said
    for name, row in shown.items():
        for column, key in (("lo", "low"), ("hi", "high"), ("corrected p", "p_corrected")):
            assert number(row[column]) == pytest.approx(means[name][key], rel=0.06, abs=1e-9), (name, column)
    assert max(len(line) for line in said.splitlines() if not line.startswith(str(out))) <= 100


def test_movers_have_their_intervals(qkscope, turned, tmp_path):
    """Those of the table; "-" of a metric that has none there."""
    out = tmp_path / "out"
    synth(qkscope, tmp_path / "c", layers=2, query_heads=4, dim=8, examples=10, rows=60, seed=2, r_q=0.5, r_k=0.7)
    said = qkscope("compare", turned / "a", tmp_path / "c", "-o", out, "--no-html", "--ci", 90, expect=0).out
    rows = {(f"{r['layer']}:{r['q_head']}", r["metric"]): r for r in read_csv(out / "compare.csv")}
    shown = rows_below(said.splitlines(), "head  ")
    assert len(shown) == 8 and "lo, hi: the 90 % interval of b - a, over texts" in said
    for head, cells in shown.items():
        row = rows[head, cells["metric"]]
        for column, key in (("a", "a"), ("b", "b"), ("b - a", "difference"), ("lo", "difference_lo"), ("hi", "difference_hi"),
                            ("spreads", "size"), ("corrected p", "p_corrected")):
            value = number(cells[column])
            assert (value is None) == (row[key] is None) and (value is None or value == pytest.approx(row[key], rel=0.06)), column
    assert {cells["lo"] == "-" for cells in shown.values()} == {False}
    for side, capture in (("pa", turned / "a"), ("pc", tmp_path / "c")):
        qkscope("pca", capture, "-o", tmp_path / side, expect=0)
    said = qkscope("compare", tmp_path / "pa", tmp_path / "pc", "-o", tmp_path / "tables", "--no-html", expect=0).out
    shown = rows_below(said.splitlines(), "head  ")
    assert len(shown) == 8 and {cells[end] for cells in shown.values() for end in ("lo", "hi", "corrected p")} == {"-"}
    assert "over texts" not in said


def test_no_intervals_of_two_key_heads(qkscope, turned, tmp_path):
    said = qkscope("compare", turned / "a", turned / "b", "-o", tmp_path / "out", "--no-html", "--layers", 0, expect=0).out
    shown = rows_below(said.splitlines(), "mean over heads")
    assert len(shown) == 13 and {row[end] for row in shown.values() for end in ("lo", "hi", "corrected p")} == {"-"}
    assert "lo, hi:" not in said


def test_attention_of_captures(qkscope, tmp_path):
    """It is not compared, and that is said where they hold it; of results it is, with p-values."""
    passages = (ROOT / "examples/kjv-tiny/passages.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "texts.jsonl").write_text("".join(passages[:8]))
    for step in (20, 100):
        for keep in ("rows", "rows,attention"):
            qkscope("capture", "-m", ROOT / f"examples/kjv-tiny/step-{step}", "-t", tmp_path / "texts.jsonl", "--layers", "0,1",
                    "--rows", 200, "--keep", keep, "-o", tmp_path / f"{keep}-{step}", expect=0)
        qkscope("analyze", tmp_path / f"rows,attention-{step}", "-o", tmp_path / f"results-{step}", "--ci", 95, expect=0)
    line = "attention of captures is not compared: analyze both with --ci 95 and compare the results"
    for kind in ("rows", "rows,attention", "results"):
        out = tmp_path / f"out-{kind}"
        said = qkscope("compare", tmp_path / f"{kind}-20", tmp_path / f"{kind}-100", "-o", out, "--no-html", expect=0).out
        assert (line in said) == (kind == "rows,attention") == read_json(out / "compare_summary.json")["attention_left_out"]
        tested = {r["metric"] for r in read_csv(out / "compare.csv") if r["p"] is not None}
        assert ("entropy" in tested) == (kind == "results")
        assert kind == "results" or tested == {"r_q", "r_k", "r_q_a", "r_k_a", "alpha_q", "alpha_k", "bias_strength",
                                               "separation_strength", "ap_overall", "ap_drop"}


def test_a_comparison_that_is_replaced_is_told_of(qkscope, turned, tmp_path):
    out = tmp_path / "out"

    def compared(*more):
        return qkscope("compare", turned / "a", turned / "b", "-o", out, "--no-html", "--no-plasticity", *more, expect=0).out
    assert "replaced" not in compared()
    assert "\nreplaced a comparison of 8 heads\n" in compared("--heads", "1:2")
    assert "\nreplaced a comparison of 1 head\n" in compared()
    assert [json.loads(compared(*more, "--json"))["heads_replaced"] for more in ((), ("--heads", "0"), ())] == [8, 8, 2]
