# SPDX-License-Identifier: Apache-2.0
"""What qkscope compare prints in its tables."""
import re

import pytest
from conftest import ROOT, read_csv, read_json, synth


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
def results(qkscope, tmp_path_factory):
    """Of two captures with intervals, a and c; of one layer, a0 and c0."""
    folder = tmp_path_factory.mktemp("results")
    for name, seed in (("a", 1), ("c", 2)):
        synth(folder / f"capture-{name}", layers=3, query_heads=4, dim=8, examples=10, rows=60, seed=seed, r_q=0.6)
        qkscope("analyze", folder / f"capture-{name}", "-o", folder / name, "--ci", 90, expect=0)
        qkscope("pca", folder / f"capture-{name}", "-o", folder / f"{name}0", "--layers", 0, expect=0)
    return folder


def test_intervals_and_the_corrected_p(qkscope, results, tmp_path):
    out = tmp_path / "out"
    said = qkscope("compare", results / "a", results / "c", "-o", out, "--no-html", "--ci", 90, expect=0).out
    means = {m["metric"]: m for m in read_json(out / "compare_summary.json")["metrics"]}
    shown = rows_below(said.splitlines(), "mean over heads")
    assert list(next(iter(shown.values()))) == ["mean over heads", "a", "b", "b - a", "lo", "hi", "corrected p", "changed"]
    assert len(shown) == 13 and "lo, hi: the 90 % interval of b - a, over key heads and layers" in said
    for name, row in shown.items():
        for column, key in (("a", "mean_a"), ("b", "mean_b"), ("b - a", "mean_difference"), ("lo", "low"), ("hi", "high"),
                            ("corrected p", "p_corrected")):
            value, want = number(row[column]), means[name][key]  # none where signs are open in all but two layers
            assert value == want if want is None else value == pytest.approx(want, rel=0.06, abs=6e-4), (name, column)
    assert max(len(line) for line in said.splitlines() if not line.startswith(str(out))) <= 100
    rows = {(f"{r['layer']}:{r['q_head']}", r["metric"]): r for r in read_csv(out / "compare.csv")}
    shown = rows_below(said.splitlines(), "head  ")
    assert len(shown) == 8 and "lo, hi: the 90 % interval of b - a, over texts" in said
    for head, cells in shown.items():
        row = rows[head, cells["metric"]]
        for column, key in (("a", "a"), ("b", "b"), ("b - a", "difference"), ("lo", "difference_lo"), ("hi", "difference_hi"),
                            ("spreads", "size"), ("corrected p", "p_corrected")):
            value = number(cells[column])
            assert (value is None) == (row[key] is None) and (value is None or value == pytest.approx(row[key], rel=0.06)), column


def test_no_intervals_of_one_layer(qkscope, results, tmp_path):
    """And none of texts, where the results have none."""
    said = qkscope("compare", results / "a0", results / "c0", "-o", tmp_path / "out", "--no-html", expect=0).out
    for start in ("mean over heads", "head  "):
        shown = rows_below(said.splitlines(), start)
        assert shown and {row[end] for row in shown.values() for end in ("lo", "hi", "corrected p")} == {"-"}
    assert "lo, hi:" not in said


@pytest.mark.test_all
def test_attention_of_results(qkscope, tmp_path):
    """It is compared, with p-values."""
    passages = (ROOT / "examples/kjv-tiny/passages.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "texts.jsonl").write_text("".join(passages[:8]))
    for step in (20, 100):
        qkscope("capture", "-m", ROOT / f"examples/kjv-tiny/step-{step}", "-t", tmp_path / "texts.jsonl", "--layers", "0,1",
                "--rows", 200, "--keep", "rows,attention", "-o", tmp_path / f"capture-{step}", expect=0)
        qkscope("analyze", tmp_path / f"capture-{step}", "-o", tmp_path / f"results-{step}", "--ci", 95, expect=0)
    qkscope("compare", tmp_path / "results-20", tmp_path / "results-100", "-o", tmp_path / "out", "--no-html", expect=0)
    assert "information" in {r["metric"] for r in read_csv(tmp_path / "out" / "compare.csv") if r["p"] is not None}
