# SPDX-License-Identifier: Apache-2.0
"""An ablation in the folder of results: its numbers are those of ablation.csv, and lists and the report have them beside
the others."""
import csv
import json
import shutil

import pytest

from conftest import EXAMPLE, ROOT

MODEL = ROOT / "examples/kjv-tiny/step-2004"


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("beside") / "results"
    model = json.loads((EXAMPLE / "capture.json").read_text())["model"]
    qkscope("pca", EXAMPLE, "-o", folder, "--quiet", expect=0)
    qkscope("ablate", "--model", MODEL, "--text", "repeat:24x2:6", "--layers", "0,3", "--no-controls", "--model-name", model,
            "-o", folder / "ablation", "--quiet", expect=0)
    return folder


def test_numbers_are_those_of_the_other_table(results):
    effects = {(r["layer"], r["q_head"], r["what"]): r for r in rows(results / "ablation/ablation.csv")}
    heads = rows(results / "ablation/ablation_heads.csv")
    assert [(h["layer"], h["q_head"], h["k_head"]) for h in heads] == [
        (layer, str(q), str(q // 2)) for layer in "03" for q in range(4)]
    for head in heads:
        for what in ("remove", "freeze", "profile"):
            effect = effects[head["layer"], head["q_head"], what]
            for end in ("", "_lo", "_hi"):
                assert head[f"{what}_loss{end}"] == effect[f"delta{end}"]
                assert what == "remove" or head[f"{what}_share{end}"] == effect[f"share{end}"]
            assert what != "remove" or head["remove_drift"] == effect["drift"]


def test_lists_have_them_beside_the_others(qkscope, results):
    listed = json.loads(qkscope("heads", results, "--where", "remove_loss > -9", "--columns", "layer,q_head,category,remove_loss",
                                "--json", expect=0).out)["heads"]
    of = {(int(h["layer"]), int(h["q_head"])): float(h["remove_loss"]) for h in rows(results / "ablation/ablation_heads.csv")}
    category = {(int(h["layer"]), int(h["q_head"])): h["category"] for h in rows(results / "heads.csv")}
    assert len(listed) == 8
    for layer, head, kind, loss in ([r[c] for c in ("layer", "q_head", "category", "remove_loss")] for r in listed):
        assert kind == category[layer, head] and loss == pytest.approx(of[layer, head], rel=1e-12)


def test_an_ablation_alone_has_heads_too(qkscope, results):
    out = qkscope("heads", results / "ablation", "--sort", "-remove_loss", "--format", "csv", expect=0).out
    losses = [float(r["remove_loss"]) for r in csv.DictReader(out.splitlines())]
    assert len(losses) == 8 and losses == sorted(losses, reverse=True)


def test_texts_of_other_lengths(qkscope, results):
    """Are told where a number of the ablation is listed, or read by a condition."""
    own, others = "ablation: texts of 48 tokens", ["--columns", "layer,q_head,r_q"]
    plain = json.loads(qkscope("heads", results, "--json", *others, expect=0).out)["lengths"]
    assert plain.startswith("texts of ") and "ablation" not in plain
    for words in ([], ["--columns", "layer,remove_loss"], [*others, "--where", "remove_loss < 9"], [*others, "--sort", "-freeze_loss"]):
        assert json.loads(qkscope("heads", results, *words, "--json", expect=0).out)["lengths"] == f"{plain}; {own}"
        assert f"{plain}; {own}\n" in qkscope("heads", results, *words, expect=0).out
        assert f"\n% {plain}; {own}\n" in qkscope("heads", results, *words, "--format", "latex", expect=0).out
    assert json.loads(qkscope("heads", results / "ablation", "--json", expect=0).out)["lengths"] == own
    said = qkscope("sql", results, "select text_tokens, text_tokens_most from ablated", "--format", "csv", expect=0).out
    assert said.split() == ["text_tokens,text_tokens_most", "48,48"]


def test_sql_joins_them_with_other_tables(qkscope, results, tmp_path):
    """By head_id, beside the results and alone; of two ablations, each has its own model."""
    query = "select h.model, a.layer, a.q_head, r_q, delta from ablation a join {} h using (head_id) where what = 'remove'"
    asked = ["select a.model, count(*) from ablation a group by 1 order by 1", "--format", "csv"]
    effects = {(r["layer"], r["q_head"]): r["delta"] for r in rows(results / "ablation/ablation.csv") if r["what"] == "remove"}
    signals = {(r["layer"], r["q_head"]): r["r_q"] for r in rows(results / "qk.csv") if r["pc"] == "0"}
    joined = list(csv.DictReader(qkscope("sql", results, query.format("head_numbers"), "--format", "csv", expect=0).out.splitlines()))
    model, = {r["model"] for r in rows(results / "heads.csv")}
    assert len(joined) == len(effects) == 8 and {r["model"] for r in joined} == {model}
    for row in joined:
        head = row["layer"], row["q_head"]
        assert float(row["delta"]) == pytest.approx(float(effects[head])) and float(row["r_q"]) == pytest.approx(float(signals[head]))
    alone = "select count(*) as n from ablation join ablation_heads using (head_id)"
    assert qkscope("sql", results / "ablation", alone, "--format", "csv", expect=0).out.split() == ["n", str(8 * 3)]
    qkscope("ablate", "--model", MODEL, "--text", "repeat:24x2:2", "--heads", "0:1", "--what", "remove", "--model-name", "other", "-o",
            tmp_path / "other", "-q", expect=0)
    said = qkscope("sql", results / "ablation", tmp_path / "other", *asked, expect=0).out.splitlines()
    assert sorted(said[1:]) == sorted([f"{model},24", "other,1"])


@pytest.mark.test_all
def test_the_report_shows_them(qkscope, results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    qkscope("report", tmp_path / "results", "--quiet", expect=0)
    page = (tmp_path / "results/report.html").read_text()
    assert '"table":"ablation_heads.csv"' in page and '"ablation":"texts of 48 tokens"' in page
    assert "The ablation is of texts of 48 tokens." in page
    assert {f.name for f in (tmp_path / "results/figures").glob("ablation-*.svg")} >= {"ablation-01-remove.svg", "ablation-03-r-q.svg"}


def rewrite(folder, old, new):
    (folder / "ablation_heads.csv").write_text((folder / "ablation_heads.csv").read_text().replace(old, new, 1))


def rewrite_unseen(folder, old, new):
    """As in a folder of version 0.2.0, which tells nothing of contents."""
    rewrite(folder, old, new)
    told = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({key: value for key, value in told.items() if key != "contents"}))


@pytest.mark.cases(6)
@pytest.mark.parametrize("change, says", [
    (lambda f: rewrite_unseen(f, "\n", "\nx"), "give ablate --model-name, or another folder"),
    (lambda f: (f / "manifest.json").write_text('{"kind": "ablation", "complete": false, "command_line": "qkscope ablate a"}'),
     "not complete"),
    (lambda f: rewrite_unseen(f, "0,", "zero,"), "is not a whole number"),
    (lambda f: rewrite(f, "1", "2"), "ablation_heads.csv is not as it was written"),
    (lambda f: (f / "ablation_heads.csv").write_bytes((f / "ablation_heads.csv").read_bytes()[:-90]), "is not as it was written"),
    (lambda f: (f / "ablation_heads.csv").unlink(), "ablation_heads.csv is missing"),
], ids=["of another model", "stopped in between", "damaged", "changed", "cut short", "missing"])
def test_what_cannot_be_told_is_refused_by_name(qkscope, results, tmp_path, change, says):
    """In lists, on the page, and beside other results."""
    shutil.copytree(results, tmp_path / "results")
    change(tmp_path / "results/ablation")
    for words in (["heads", tmp_path / "results"], ["report", tmp_path / "results", "--no-html"],
                  ["compare", tmp_path / "results", results, "-o", tmp_path / "c"]):
        outcome = qkscope(*words, expect=1)
        assert says in outcome.err and "ablation" in outcome.err
    if "written" in says or "missing" in says:
        for words in (["heads", tmp_path / "results/ablation"], ["report", tmp_path / "results/ablation", "--no-html"]):
            assert says in qkscope(*words, expect=1).err
