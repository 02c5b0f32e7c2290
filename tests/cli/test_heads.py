# SPDX-License-Identifier: Apache-2.0
"""qkscope heads against pandas: what it selects, how it sorts and prints it, what it refuses."""
import io
import json
import os
import re
import shutil
import subprocess

import pandas as pd
import pytest
from conftest import EXAMPLE, ROOT, environment

IDS = ["layer", "q_head", "k_head"]


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads") / "results"
    qkscope("analyze", EXAMPLE, "-o", folder, "--ci", 50)
    return folder


@pytest.fixture(scope="module")
def tables(results):
    """All tables of heads, joined, by pandas."""
    keys = ["model", *IDS]
    qk = pd.read_csv(results / "qk.csv").query("pc == 0")
    whole = pd.read_csv(results / "heads.csv").drop(columns=["r_q", "r_k", "n_q", "n_k"])
    for other in (qk, *(pd.read_csv(results / f"{name}.csv")
                        for name in ("rotated", "head_metrics"))):
        whole = whole.merge(other.drop(columns=[c for c in other if c in whole and c not in keys]), on=keys)
    return whole


@pytest.fixture(scope="module")
def study(results, tmp_path_factory):
    """The same heads as of two models."""
    folder = tmp_path_factory.mktemp("heads") / "study"
    folder.mkdir()
    for name in ("qk.csv", "heads.csv", "rotated.csv"):
        one = pd.read_csv(results / name, dtype=str, keep_default_na=False)
        pd.concat([one.assign(model="a"), one.assign(model="org/b")]).to_csv(folder / name, index=False)
    return folder


def rows(qkscope, folder, *options):
    return pd.read_csv(io.StringIO(qkscope("heads", folder, "--format", "csv", *options).out))


def test_numbers_are_those_of_the_tables(qkscope, results, tables):
    found = rows(qkscope, results)
    assert list(found) == [*IDS, "category", "category_probability", "r_q", "r_q_lo", "r_q_hi", "r_k", "r_k_lo",
                           "r_k_hi", "plane_var_fraction", "bias_strength", "bias_strength_lo", "bias_strength_hi",
                           "ap_overall", "ap_drop", "position_r_q", "position_r_k"]
    pd.testing.assert_frame_equal(found, tables[list(found)], check_exact=True)


def test_every_number_of_a_head(qkscope, results, tables):
    names = ["model", "near_tie", "probability_mixed", "probability_q_positional", "n_q", "n_k", "texts", "r_q_cv",
             "ev0", "omega", "q_R2_pos"]
    found = rows(qkscope, results, "--columns", ",".join(names))
    pd.testing.assert_frame_equal(found, tables[names], check_exact=True, check_dtype=False)


@pytest.mark.parametrize("condition, query", [
    ("category == position-dominated and probability >= 0.95",
     "category == 'position-dominated' and category_probability >= 0.95"),
    ("abs(r_k) > 0.8 or not layer >= 2", "abs(r_k) > 0.8 or not layer >= 2"),
    ("r_q > r_k", "r_q > r_k"),
    ("layer == 1 or layer == 2 and q_head == 0", "layer == 1 or (layer == 2 and q_head == 0)"),
    ("bias_strength_lo > 0.01 and (category == mixed or category == 'content-focused')",
     "bias_strength_lo > 0.01 and category in ['mixed', 'content-focused']"),
])
def test_conditions(qkscope, results, tables, condition, query):
    expected = tables.query(query)
    assert 0 < len(expected) < len(tables)
    found = rows(qkscope, results, "--where", condition)
    assert found[IDS].values.tolist() == expected[IDS].values.tolist()


@pytest.mark.parametrize("key, by, up", [("r_q", "r_q", True), ("-ap_drop", "ap_drop", False),
                                         ("-abs(mu_q_beta)", "size", False), ("category", "category", True)])
def test_order(qkscope, results, tables, key, by, up):
    whole = tables.copy().assign(size=tables.mu_q_beta.abs())
    expected = whole.sort_values(by, ascending=up, kind="stable").head(7)
    assert rows(qkscope, results, "--sort", key, "--top", 7)[IDS].values.tolist() == expected[IDS].values.tolist()


def test_empty_values_come_last_and_hold_nothing(qkscope, tmp_path):
    (tmp_path / "heads.csv").write_text("model,layer,q_head,k_head,ev0,fisher\nm,0,0,0,,1\nm,0,1,0,2,1\nm,0,2,0,1,1\n")
    for key, order in (("ev0", [2, 1, 0]), ("-ev0", [1, 2, 0])):
        assert rows(qkscope, tmp_path, "--sort", key, "--columns", "q_head").q_head.tolist() == order
    assert rows(qkscope, tmp_path, "--where", "ev0 <= 9 or ev0 > 9", "--columns", "q_head").q_head.tolist() == [1, 2]
    said = qkscope("heads", tmp_path, "--columns", "q_head,ev0").out
    assert said.splitlines() == ["q_head  ev0", "     0    -", "     1    2", "     2    1", "", "3 of 3 heads"]
    said = json.loads(qkscope("heads", tmp_path, "--columns", "ev0", "--json").out)
    assert said["heads"] == [{"ev0": None}, {"ev0": 2}, {"ev0": 1}]


def test_json(qkscope, results, tables):
    for option in (["--json"], ["--format", "json"]):
        said = json.loads(qkscope("heads", results, "--columns", "layer,category,r_q", "--top", 3, *option).out)
        assert said["heads_in_results"] == len(tables) and said["results"] == str(results)
        assert said["heads"] == tables[["layer", "category", "r_q"]].head(3).to_dict("records")


def test_markdown_and_latex(qkscope, results, tables):
    options = ["--columns", "layer,category,r_q", "--top", "1", "--where", "category == mixed"]
    first = tables[tables.category == "mixed"].iloc[0]
    assert qkscope("heads", results, *options, "--format", "markdown").out.splitlines() == [
        "| layer | category | r_q |", "|--:|---|--:|", f"| {first.layer} | mixed | {first.r_q:.3f} |"]
    comment, needs, *lines = qkscope("heads", results, *options, "--format", "latex").out.splitlines()
    of = f"% 1 of {len(tables)} heads; "
    assert comment.startswith("% qkscope heads ") and needs == of + "needs \\usepackage{booktabs}"
    assert lines == ["\\begin{tabular}{rlr}", "\\toprule", "layer & category & r\\_q \\\\", "\\midrule",
                     f"${first.layer}$ & mixed & ${first.r_q:.3f}$ \\\\", "\\bottomrule", "\\end{tabular}"]
    _, needs, *pages = qkscope("heads", results, *options, "--format", "longtable").out.splitlines()
    assert needs == of + "needs \\usepackage{booktabs,longtable}"
    assert pages == ["\\begin{longtable}{rlr}", *lines[1:4], "\\endhead", *lines[4:6], "\\end{longtable}"]


def test_text_from_outside_is_escaped(qkscope, tmp_path):
    name = "a_b&c\\d|e^f{g}%\x1b[1m\n*"
    (tmp_path / "heads.csv").write_text(f'model,layer,q_head,k_head,ev0\n"{name}",0,0,0,.00002\n', newline="")
    said = {form: qkscope("heads", tmp_path, "--columns", "model,ev0", "--format", form).out
            for form in ("table", "csv", "markdown", "latex")}
    assert not any("\x1b" in text for text in said.values())
    assert r"a\_b\&c\textbackslash{}d|e\textasciicircum{}f\{g\}\%\u001b[1m\n* & $2.00\times10^{-5}$" in said["latex"]
    assert r"| a_b&c\\d\|e^f{g}%\u001b\[1m\n\* | 2.00e-05 |" in said["markdown"]


def test_a_list_is_what_scatter_takes(qkscope, results, tables, tmp_path):
    listed = qkscope("heads", results, "--sort", "-r_q", "--top", 3, "--format", "list").out
    best = tables.sort_values("r_q", ascending=False, kind="stable").head(3)
    assert listed == ",".join(f"{h.layer}:{h.q_head}" for h in best.itertuples()) + "\n"
    said = json.loads(qkscope("scatter", EXAMPLE, "-o", tmp_path / "heads.png", "--heads", listed.strip(), "--json").out)
    assert said["heads"] and len(said["heads"]) == 3
    said = qkscope("heads", results, "--where", "layer > 99", "--format", "list", expect=1)
    assert said.out == "" and "no such head" in said.err


def test_named_heads(qkscope, results, tables):
    """In the order of the table, whatever the order of the names; with a condition, both count."""
    few = tables[tables.layer.eq(2) | (tables.layer.eq(4) & tables.q_head.eq(1))]
    for named in ("4:1,2:*", "2:0-3,4:1,4:1"):
        assert rows(qkscope, results, "--heads", named)[IDS].values.tolist() == few[IDS].values.tolist()
    positive = few[few.r_k > few.r_k.median()]
    found = rows(qkscope, results, "--heads", "4:1,2:*", "--where", f"r_k > {few.r_k.median()}")
    assert found[IDS].values.tolist() == positive[IDS].values.tolist() and 0 < len(found) < len(few)
    assert qkscope("heads", results, "--heads", "4:1").out.endswith("\n1 of 20 heads\n")


def test_many_models(qkscope, study, tables):
    found = rows(qkscope, study, "--where", "category == mixed")
    mixed = tables[tables.category == "mixed"]
    assert found.model.tolist() == ["a"] * len(mixed) + ["org/b"] * len(mixed)
    assert rows(qkscope, study, "--where", "model == org/b", "--sort", "-r_q", "--top", 1).r_q[0] == tables.r_q.max()
    assert "ap_drop" not in found
    said = qkscope("heads", study, "--format", "list", expect=2)
    assert "more than one model" in said.err
    assert qkscope("heads", study, "--format", "list", "--where", "model == a and layer == 0").out == "0:0,0:1,0:2,0:3\n"


@pytest.mark.parametrize("options, code, words", [
    (["--where", "catgory == mixed"], 2, "where: character 1: there is no column 'catgory' (did you mean category?)"),
    (["--where", "category == mixd"], 2, "character 13: there is no category 'mixd' (did you mean mixed?)"),
    (["--where", "layer ="], 2, "character 7"),
    (["--columns", "layer,r_p"], 2, "columns: there is no column 'r_p' (did you mean"),
    (["--columns", "layer,,r_q"], 2, "columns: there is no column ''"),
    (["--columns", "layer r_q"], 2, "expected a comma behind 'layer'"),
    (["--sort", "-catgory"], 2, "sort: character 1: there is no column 'catgory'"),
    (["--top", "0"], 2, "--top 0"),
    (["--heads", "2:x"], 2, '--heads 2:x: "2:x"'),
    (["--heads", "2:1,9:*"], 1, "heads 9:*: these results have none of them"),
    (["--format", "tabel"], 2, "(did you mean table?)"),
    (["--where", "category_before == mixed"], 1, "no head has a category_before here"),
    (["--columns", "omega,r_q_before"], 1, "no head has a r_q_before here"),
])
def test_mistakes(qkscope, results, options, code, words):
    said = qkscope("heads", results, *options, expect=code)
    assert said.out == "" and said.err.startswith("qkscope heads: ") and words in said.err


def test_tables_that_were_changed(qkscope, results, tmp_path):
    folder = tmp_path / "changed"
    shutil.copytree(results, folder)
    text = (folder / "heads.csv").read_text()
    (folder / "heads.csv").write_text(text.replace(",mixed,", ",content-focused,", 1))
    said = qkscope("heads", folder, expect=1)
    assert "heads.csv" in said.err and said.out == ""
    assert qkscope("heads", folder, "--force").out != qkscope("heads", results).out
    assert "no tables of results" in qkscope("heads", tmp_path, expect=1).err


# ---- two folders -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def later(qkscope, tmp_path_factory):
    """Other numbers, another model, without layer 0 and with other categories."""
    folder = tmp_path_factory.mktemp("heads") / "later"
    qkscope("pca", EXAMPLE, "-o", folder, "--heads", "1-3:*,4:0-2", "--max-samples", 500, "--model-name", "org/later",
            "--taxonomy-high", "0.75")
    return folder


@pytest.fixture(scope="module")
def joined(tables, later):
    """As pandas joins them, columns as the command names them."""
    qk = pd.read_csv(later / "qk.csv").query("pc == 0")
    heads = pd.read_csv(later / "heads.csv").drop(columns=["r_q", "r_k", "n_q", "n_k"])
    b = heads.merge(qk.drop(columns=["model", "k_head"]), on=["layer", "q_head"])
    both = tables.add_prefix("a.").merge(b.add_prefix("b."), how="outer", left_on=["a.layer", "a.q_head"],
                                         right_on=["b.layer", "b.q_head"]).copy()
    both["layer"], both["q_head"] = both["a.layer"].fillna(both["b.layer"]), both["a.q_head"].fillna(both["b.q_head"])
    both["diff.r_q"] = both["b.r_q"] - both["a.r_q"]
    return both.sort_values(["layer", "q_head"]).reset_index(drop=True)


def test_two_folders(qkscope, results, later, joined):
    found = rows(qkscope, results, later)
    usual = ["layer", "q_head", "a.category", "b.category", "a.category_probability", "b.category_probability", "a.r_q",
             "b.r_q", "diff.r_q", "a.bias_strength"]
    assert list(found) == usual
    assert len(found) == 20 and found["b.r_q"].isna().sum() == 5 and found["a.r_q"].notna().all()
    pd.testing.assert_frame_equal(found, joined[usual], check_exact=True, check_dtype=False)
    turned = rows(qkscope, later, results)
    assert turned["a.r_q"].isna().sum() == 5 and (turned["diff.r_q"].dropna() == -found["diff.r_q"].dropna()).all()


@pytest.mark.parametrize("condition, mask", [
    ("a.category != b.category", lambda t: (t["a.category"] != t["b.category"]) & t["b.category"].notna()),
    ("abs(diff.r_q) > 0.01 and layer <= 2", lambda t: (t["diff.r_q"].abs() > 0.01) & (t.layer <= 2)),
    ("b.probability < a.probability", lambda t: t["b.category_probability"] < t["a.category_probability"]),
    ("b.model == org/later", lambda t: t["b.model"].notna()),
])
def test_conditions_on_two(qkscope, results, later, joined, condition, mask):
    expected = joined[mask(joined)]
    assert 0 < len(expected) < 20
    found = rows(qkscope, results, later, "--where", condition, "--columns", "layer,q_head")
    assert found.values.tolist() == expected[["layer", "q_head"]].values.tolist()


def test_order_and_forms_of_two(qkscope, results, later, joined):
    by = joined.copy().assign(size=joined["diff.r_q"].abs()).sort_values("size", ascending=False, kind="stable")
    options = ["--sort", "-abs(diff.r_q)", "--top", 3]
    found = rows(qkscope, results, later, *options, "--columns", "layer,q_head,r_k,diff.r_k")
    assert list(found) == ["layer", "q_head", "a.r_k", "b.r_k", "diff.r_k"]
    wanted = by.head(3)[["layer", "q_head"]].astype(int).values.tolist()
    assert found[["layer", "q_head"]].values.tolist() == wanted
    assert (qkscope("heads", results, later, *options, "--format", "list").out
            == ",".join(f"{layer}:{head}" for layer, head in wanted) + "\n")
    said = json.loads(qkscope("heads", results, later, *options, "--json").out)
    assert (said["results"], said["beside"], said["heads_in_results"]) == (str(results), str(later), 20)
    assert (said["in_a_alone"], said["in_b_alone"]) == (5, 0)
    assert [[h["layer"], h["q_head"]] for h in said["heads"]] == wanted
    assert qkscope("heads", results, later, *options, "--format", "latex").out.count(" & ") == 4 * 9
    assert qkscope("heads", results, later, *options, "--format", "markdown").out.count("\n") == 5
    first, second, *_, count, alone = qkscope("heads", results, later).out.splitlines()
    assert first == f"a: {results} (kjv-tiny step-2004, {EXAMPLE})" and second == f"b: {later} (org/later, {EXAMPLE})"
    assert (count, alone) == ("20 of 20 heads", "in a alone: 5, in b alone: 0")


def test_named_heads_of_two(qkscope, results, later, joined):
    """A head that only one of them has is there, too."""
    alone = joined[joined["b.category"].isna() & joined["a.category"].notna()].iloc[0]
    named = f"{alone.layer:.0f}:{alone.q_head:.0f}"
    assert rows(qkscope, later, results, "--heads", named)[["layer", "q_head"]].values.tolist() == [[alone.layer, alone.q_head]]
    assert "none of them" in qkscope("heads", later, "--heads", named, expect=1).err


@pytest.mark.parametrize("options, code, words", [
    (["--where", "r_q > 0"], 2, "where: r_q: of which? Write a.r_q or b.r_q, or of both diff.r_q"),
    (["--where", "category == mixed"], 2, "category: of which? Write a.category or b.category\n"),
    (["--sort", "diff.category"], 2, "category is a text, and has no difference"),
    (["--columns", "a.layer"], 2, "layer is the same in a and b"),
    (["--columns", "a.r_p"], 2, "there is no column 'r_p'"),
    (["--columns", "b.bias_strength"], 1, "later: no head has a b.bias_strength here"),
    (["--sort", "diff.ap_drop"], 1, "no head has a diff.ap_drop here"),
])
def test_mistakes_with_two(qkscope, results, later, options, code, words):
    said = qkscope("heads", results, later, *options, expect=code)
    assert said.out == "" and words in said.err


def test_folders_that_cannot_be_put_beside_each_other(qkscope, results, study, tmp_path):
    assert "one is given" in qkscope("heads", results, "--where", "a.r_q > 0", expect=2).err
    for two in ((results, study), (study, results)):
        assert "tables of 2 models" in qkscope("heads", *two, expect=2).err
    assert "no tables of results" in qkscope("heads", results, tmp_path, expect=1).err


# ---- the recipes of docs/heads.md ------------------------------------------------------------

@pytest.mark.skipif(not shutil.which("gnuplot"), reason="needs gnuplot")
def test_the_page_runs_as_it_stands(program, tmp_path):
    """Every command of it, in the order of the page, and what it shows of two of them."""
    page = (ROOT / "docs" / "heads.md").read_text()
    commands = re.findall(r"^    (qkscope (?:.*\\\n)*.*)$", page, re.M)
    shown = re.findall(r"^```\n\$ (qkscope (?:.*\\\n)*.*)\n((?:.*\n)*?)```$", page, re.M)
    assert len(commands) == 10 and len(shown) == 2
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    path = f"{os.path.dirname(program)}:{os.environ['PATH']}"
    for command, wanted in [*((command, None) for command in commands), *shown]:
        done = subprocess.run(command, shell=True, cwd=tmp_path, env={**environment(), "PATH": path}, capture_output=True,
                              text=True, timeout=120)
        assert done.returncode == 0, (command, done.stderr)
        assert wanted in (None, done.stdout)
    assert (tmp_path / "positional.tex").read_text().count("\\\\\n") == 11
