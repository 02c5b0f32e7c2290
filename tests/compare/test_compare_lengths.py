# SPDX-License-Identifier: Apache-2.0
"""One model, the same texts, cut at two lengths: most numbers differ, and that is no change of the model."""
import csv
import re
import sys
from pathlib import Path

import pytest
from conftest import read_csv, read_json

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pca"))

import test_lengths

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def captures(qkscope, tmp_path_factory):
    """Texts in full, cut at 40 tokens, cut by less than a tenth, and with a few longer ones; of-NAME: their results."""
    folder = tmp_path_factory.mktemp("lengths")
    for name, cut, last in (("long", 1000, 93), ("short", 40, 93), ("near", 85, 93), ("tail", 1000, 300)):
        test_lengths.write_capture(folder / name, cut=cut, texts=[90] * 9 + [last] * 3)
        qkscope("analyze", folder / name, "-o", folder / f"of-{name}", "--ci", 95, expect=0)
    return folder


def compare(qkscope, captures, out, a, b, *more):
    done = qkscope("compare", captures / f"of-{a}", captures / f"of-{b}", "-o", out, "--no-html", *more, expect=0)
    return done, read_json(out / "compare_summary.json"), read_csv(out / "compare.csv")


def test_unlike_lengths_claim_nothing(qkscope, captures, tmp_path):
    done, summary, rows = compare(qkscope, captures, tmp_path / "out", "short", "long")
    first, second, a, b, *_ = done.out.splitlines()
    assert first.startswith("texts of different lengths") and "--any-length" in second
    assert (a, b) == ("a: of-short (40 tokens)", "b: of-long (90 tokens)")
    assert "a is of texts of 40 tokens" in summary["warnings"][0] and summary["warnings"][0] in done.err
    assert summary["unlike_lengths"] is True and summary["categories"] is None
    assert summary["tested"] == summary["supported"] == 0 and all(m["p_corrected"] is None for m in summary["metrics"])
    for word in ("more than texts explain", "of another category", "changed by more"):
        assert word not in done.out
    assert re.search(r"mean over heads +a \(40\) +b \(90\) ", done.out) and re.search(r"metric +a \(40\) +b \(90\) ", done.out)
    assert {r["p"] for r in rows} == {None}
    heads = read_csv(tmp_path / "out" / "compare_heads.csv")
    assert {(h["text_tokens_a"], h["text_tokens_b"]) for h in heads} == {(40, 90)}


def test_any_length_claims_all_the_same(qkscope, captures, tmp_path):
    done, summary, rows = compare(qkscope, captures, tmp_path / "out", "short", "long", "--any-length")
    assert done.out.startswith("texts of different lengths") and "a (40)" in done.out and "more than texts explain" in done.out
    assert summary["unlike_lengths"] is True and summary["tested"] == sum(r["p"] is not None for r in rows) > 0
    assert sum(sum(row.values()) for row in summary["categories"].values()) == 2


def test_like_lengths_are_as_ever(qkscope, captures, tmp_path):
    done, summary, _ = compare(qkscope, captures, tmp_path / "out", "near", "long")
    assert done.out.startswith("a: of-near\nb: of-long\n") and "\na: texts of 85 tokens, positions 0 to 84" in done.out
    assert summary["unlike_lengths"] is False and summary["tested"] > 0


def test_the_longest_texts_count(qkscope, captures, tmp_path):
    """They decide r, whatever the median."""
    done, summary, rows = compare(qkscope, captures, tmp_path / "out", "long", "tail")
    assert summary["lengths_a"]["text_tokens"] == summary["lengths_b"]["text_tokens"] == 90
    assert summary["unlike_lengths"] is True and summary["tested"] == 0 and {r["p"] for r in rows} == {None}
    assert "a: of-long (93 tokens)\nb: of-tail (300 tokens)\n" in done.out and re.search(r"mean over heads +a \(93\) +b \(300\) ", done.out)


def test_results_know_their_lengths(qkscope, captures, tmp_path):
    """Also those that have no categories, and those of a study."""
    for name in ("short", "long"):
        qkscope("rotate", captures / name, "-o", tmp_path / name, "--ci", 95, expect=0)
    said = qkscope("compare", tmp_path / "short", tmp_path / "long", "-o", tmp_path / "out", "--no-html", expect=0).out
    assert said.startswith("texts of different lengths") and "more than texts explain" not in said


def test_study_of_unlike_lengths(qkscope, captures, tmp_path):
    """It is not refused: the table, the terminal, the page and every finding say it; results that stand know it, too."""
    (tmp_path / "study.yaml").write_text("analyses: [pca]\npca: {lda: false}\nmodels:\n" + "".join(
        f"  - {{name: {name}, source: {captures / name}}}\n" for name in ("short", "near", "long")))
    for _ in range(2):
        said = qkscope("study", tmp_path / "study.yaml", "-o", tmp_path / "out", "--no-figures", expect=0).out
        with open(tmp_path / "out" / "models.csv", newline="") as file:
            assert [float(row["text_tokens"]) for row in csv.DictReader(file)] == [40, 85, 90]
        assert re.search(r"texts +tokens +uncertain\n", said) and re.search(r"^short .* 40 +\S+$", said, re.M)
    out = tmp_path / "out"
    qkscope("report", out, "--no-points", "--alone", expect=0)
    page = (out / "report.html").read_text()
    assert "texts of 40 to 93 tokens" in page and "unlike among models" in page
    assert page.count("Texts of the models have different lengths") == page.count('class="finding"') > 0
    said = qkscope("compare", f"{out}:short", f"{out}:long", "-o", tmp_path / "two", "--no-html", expect=0).out
    assert "a: short (40 tokens)\nb: long (90 tokens)\n" in said
