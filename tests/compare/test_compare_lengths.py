# SPDX-License-Identifier: Apache-2.0
"""One model, the same texts, cut at two lengths: most numbers differ, and that is no change of the model."""
import csv
import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from conftest import ROOT, read_csv, read_json

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


def staged(capture, target, stage, sampler):
    shutil.copytree(capture, target)
    (target / "capture.json").write_text(json.dumps({"stage": stage, "run": {"sink": {"sampler": {"type": sampler}}}}))
    return target


def warnings_of_settings(summary):
    return [w.split("too: ")[1] for w in summary["warnings"] if "computed differently" in w]


def test_settings_have_the_names_of_the_manifest(captures):
    """A setting that is called otherwise would be compared with nothing."""
    listed = re.findall(r'\{"(\w*)", "(\w+)", "[\w.]*"\}', (ROOT / "src/tables/run_differences.c").read_text())
    settings = read_json(captures / "of-long" / "manifest.json")["runs"][0]["settings"]
    assert {section for section, _ in listed} - set(settings) <= {"", "attention"}  # which these captures do not keep
    for section, name in listed:
        assert name in (settings.get(section, {name}) if section else settings), (section, name)


def test_settings_that_decide_numbers_are_named(qkscope, captures, tmp_path):
    """Of tables in both; those of draws and intervals are not among them."""
    def against(folder, *options):
        qkscope("analyze", captures / "long", "-o", captures / f"of-{folder}", "--ci", 95, *options, expect=0)
        return warnings_of_settings(compare(qkscope, captures, tmp_path / folder, "long", folder)[1])

    assert against("seed", "--seed", 7, "--lda", "--heads", "0:0,0:1") == []
    assert against("told", "--from-position", 1, "--taxonomy-high", 0.6, "--b-axis", "centroid", "--max-distance", 8) == [
        "from_position (0 in a, 1 in b), taxonomy_high (0.7 in a, 0.6 in b), b_axis (pairs in a, centroid in b), "
        "max_distance (not given in a, 8 in b)"]


def test_stage_and_sampler_are_named(qkscope, captures, tmp_path):
    """By compare, also of models of a study, and by the study."""
    sides = {"pre": ("pre-rope", "all"), "post": ("post-rope", "uniform"), "log": ("post-rope", "log_uniform")}
    for name, facts in sides.items():
        staged(captures / "near", tmp_path / name, *facts)
    (tmp_path / "study.yaml").write_text("analyses: [pca]\nmodels:\n" + "".join(
        f"  - {{name: {name}, source: {tmp_path / name}}}\n" for name in sides))
    out = tmp_path / "out"
    done = qkscope("study", tmp_path / "study.yaml", "-o", out, "--no-figures", expect=0)
    ropes = "; numbers before and after RoPE differ by what RoPE does, whatever the models"
    assert ("2 models were computed otherwise than pre, and differences are of that, too: stage (pre-rope in pre, post-rope in "
            f"post){ropes}") in done.err and "tokens" not in done.err
    for a, b, said in (("pre", "post", f"stage (pre-rope in a, post-rope in b){ropes}"),
                       ("post", "log", "sampler (uniform in a, log_uniform in b)")):
        qkscope("compare", f"{out}:{a}", f"{out}:{b}", "-o", tmp_path / b / "changes", "--no-html", expect=0)
        assert warnings_of_settings(read_json(tmp_path / b / "changes" / "compare_summary.json")) == [said]


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
        done = qkscope("study", tmp_path / "study.yaml", "-o", tmp_path / "out", "--no-figures", expect=0)
        said = done.out
        assert done.err.count("short is of texts of 40 tokens") == 1 and "near is of texts of 85 tokens" in done.err
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
