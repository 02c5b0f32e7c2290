# SPDX-License-Identifier: Apache-2.0
"""qkscope heads against the tables, joined here: what it selects, how it sorts and prints it, what it refuses."""
import csv
import io
import json
import random
import shutil

import pytest
from conftest import EXAMPLE, on_terminal

IDS = ["layer", "q_head", "k_head"]
# Of numbers that stand in several tables, the one that counts.
ELSEWHERE = {"heads": ("r_q", "r_k", "n_q", "n_k")}


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def join(folder, tables=("qk", "heads", "rotated", "head_metrics")):
    """{(layer, q_head): its cells of all tables}, in their order; of qk.csv the first component."""
    heads = {}
    for name in tables:
        for row in read(folder / f"{name}.csv"):
            if row.get("pc", "0") == "0":
                heads.setdefault((int(row["layer"]), int(row["q_head"])), {}).update(
                    {c: v for c, v in row.items() if c not in ELSEWHERE.get(name, ())})
    return dict(sorted(heads.items()))


def number(head, column):
    return float(head[column] or "nan")


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("heads") / "results"
    qkscope("analyze", EXAMPLE, "-o", folder, "--ci", 50, "--max-samples", 600)
    return folder


@pytest.fixture(scope="module")
def tables(results):
    return join(results)


@pytest.fixture(scope="module")
def later(qkscope, tmp_path_factory):
    """Other numbers, another model, without layer 0 and with other categories."""
    folder = tmp_path_factory.mktemp("heads") / "later"
    qkscope("pca", EXAMPLE, "-o", folder, "--heads", "1-3:*,4:0-2", "--max-samples", 500, "--model-name", "org/later",
            "--taxonomy-high", "0.75")
    return folder


@pytest.fixture(scope="module")
def study(results, tmp_path_factory):
    """The same heads as of two models."""
    folder = tmp_path_factory.mktemp("heads") / "study"
    folder.mkdir()
    for name in ("qk.csv", "heads.csv", "rotated.csv"):
        head, *lines = (results / name).read_text().splitlines()
        model = lines[0].split(",")[0]
        assert head.startswith("model,")
        twice = [other + line.removeprefix(model) for other in ("a", "org/b") for line in lines]
        (folder / name).write_text("\n".join([head, *twice]))
    return folder


def rows(qkscope, *words):
    return list(csv.DictReader(io.StringIO(qkscope("heads", *words, "--format", "csv", expect=0).out)))


def ids(found):
    return [(int(row["layer"]), int(row["q_head"])) for row in found]


def test_numbers_are_those_of_the_tables(qkscope, results, tables):
    found = rows(qkscope, results)
    assert list(found[0]) == [*IDS, "category", "category_probability", "r_q", "r_q_lo", "r_q_hi", "r_k", "r_k_lo", "r_k_hi",
                              "plane_var_fraction", "bias_strength", "bias_strength_lo", "bias_strength_hi", "ap_overall",
                              "ap_drop", "position_r_q", "position_r_k"]
    assert found == [{c: head[c] for c in found[0]} for head in tables.values()]
    names = ["model", "near_tie", "probability_mixed", "n_q", "n_k", "texts", "r_q_cv", "ev0", "omega", "q_R2_pos"]
    assert rows(qkscope, results, "--columns", ",".join(names)) == [{c: head[c] for c in names} for head in tables.values()]


@pytest.mark.cases(5)
@pytest.mark.parametrize("condition, holds", [
    ("category == 'position-dominated' and probability >= 0.95",
     lambda h: h["category"] == "position-dominated" and number(h, "category_probability") >= 0.95),
    ("abs(r_k) > 0.8 or not layer >= 2", lambda h: abs(number(h, "r_k")) > 0.8 or not number(h, "layer") >= 2),
    ("r_q > r_k", lambda h: number(h, "r_q") > number(h, "r_k")),
    ("layer == 1 or layer == 2 and q_head == 0", lambda h: h["layer"] == "1" or h["layer"] == "2" and h["q_head"] == "0"),
    ("abs(r_k_lo) > 0.3 and (category == 'mixed' or category == 'content-focused')",
     lambda h: abs(number(h, "r_k_lo")) > 0.3 and h["category"] in ("mixed", "content-focused"))])
def test_conditions(qkscope, results, tables, condition, holds):
    expected = [at for at, head in tables.items() if holds(head)]
    assert 0 < len(expected) < len(tables)
    assert ids(rows(qkscope, results, "--where", condition)) == expected


def test_rows_of_key_heads(qkscope, results, tables):
    """Least, mean and largest of the query heads that the condition keeps, in the order of the first of them."""
    kept, groups = {}, {}
    for at, head in tables.items():
        group = (at[0], int(head["k_head"]))
        groups[group] = groups.get(group, 0) + 1
        if number(head, "r_q") > 0.7:
            kept.setdefault(group, []).append(head)
    found = rows(qkscope, results, "--by", "key", "--where", "r_q > 0.7", "--sort", "-r_q", "--columns", "r_q,category,q_head")
    assert list(found[0]) == ["layer", "k_head", "q_heads", "group_size", "r_q_min", "r_q_mean", "r_q_max", "category"]
    order = sorted(kept, key=lambda group: -max(number(head, "r_q") for head in kept[group]))
    assert [(int(row["layer"]), int(row["k_head"])) for row in found] == order and len(order) > 1
    assert any(len(kept[group]) < groups[group] for group in order) and max(groups.values()) > 1
    for row, group in zip(found, order, strict=True):
        values = [number(head, "r_q") for head in kept[group]]
        assert (int(row["q_heads"]), int(row["group_size"])) == (len(values), groups[group])
        assert [float(row[f"r_q_{name}"]) for name in ("min", "mean", "max")] == pytest.approx(
            [min(values), sum(values) / len(values), max(values)], rel=1e-12)
        assert set(row["category"].split(" / ")) == {head["category"] for head in kept[group]}
    said = qkscope("heads", results, "--by", "key", "--top", 2, expect=0).out
    assert said.endswith(f"2 key heads, of {len(tables)} query heads\n")


def test_rows_of_key_heads_are_of_one_folder(qkscope, results, study):
    """And no list for --heads; key heads of two models stay apart."""
    assert "of one folder of results: give one" in qkscope("heads", results, results, "--by", "key", expect=2).err
    assert "is of query heads" in qkscope("heads", results, "--by", "key", "--format", "list", expect=2).err
    found = rows(qkscope, study, "--by", "key", "--columns", "model,r_q")
    assert {row["model"] for row in found} == {"a", "org/b"} and len({tuple(row.values())[:3] for row in found}) == len(found)


@pytest.mark.cases(3)
@pytest.mark.parametrize("key, by, down", [("r_q", lambda h: number(h, "r_q"), False),
                                           ("-abs(mu_q_beta)", lambda h: abs(number(h, "mu_q_beta")), True),
                                           ("category", lambda h: h["category"], False)])
def test_order(qkscope, results, tables, key, by, down):
    """Of equal ones that of the table."""
    expected = sorted(tables, key=lambda at: by(tables[at]), reverse=down)
    assert ids(rows(qkscope, results, "--sort", key, "--top", 7)) == expected[:7]


def test_empty_values_come_last_and_hold_nothing(qkscope, tmp_path):
    (tmp_path / "heads.csv").write_text("model,layer,q_head,k_head,ev0,fisher\nm,0,0,0,,1\nm,0,1,0,2,1\nm,0,2,0,1,1\n")
    for key, order in (("ev0", "210"), ("-ev0", "120")):
        assert "".join(row["q_head"] for row in rows(qkscope, tmp_path, "--sort", key, "--columns", "q_head")) == order
    any_number = rows(qkscope, tmp_path, "--where", "ev0 <= 9 or ev0 > 9", "--columns", "q_head")
    assert [row["q_head"] for row in any_number] == ["1", "2"]
    said = qkscope("heads", tmp_path, "--columns", "q_head,ev0").out
    assert said.splitlines() == ["q_head  ev0", "     0    -", "     1    2", "     2    1", "", "3 of 3 heads"]
    said = json.loads(qkscope("heads", tmp_path, "--columns", "ev0", "--json").out)
    assert said["heads"] == [{"ev0": None}, {"ev0": 2}, {"ev0": 1}]


def test_forms(qkscope, results, tables):
    """JSON, Markdown, LaTeX and a list that --heads takes: the same heads."""
    at, first = next((at, head) for at, head in tables.items() if head["category"] == "mixed")
    options = ["--columns", "layer,category,r_q", "--top", "1", "--where", "category == 'mixed'", "--format"]
    said = {form: qkscope("heads", results, *options, form).out for form in ("json", "markdown", "latex", "longtable", "list")}
    found = json.loads(said["json"])
    assert found["heads"] == [{"layer": at[0], "category": "mixed", "r_q": number(first, "r_q")}]
    assert found["heads_in_results"] == len(tables) and found["results"] == str(results)
    r_q = f"{number(first, 'r_q'):.3f}"
    assert said["markdown"].splitlines() == ["| layer | category | r_q |", "|--:|---|--:|", f"| {at[0]} | mixed | {r_q} |"]
    comment, needs, length, *lines = said["latex"].splitlines()
    assert length.startswith("% texts of 991.5 tokens (424 to 1024)")
    of = f"% 1 of {len(tables)} heads; "
    assert comment.startswith("% qkscope heads ") and needs == of + "needs \\usepackage{booktabs}"
    assert lines == ["\\begin{tabular}{rlr}", "\\toprule", "layer & category & $r_q$ \\\\", "\\midrule",
                     f"${at[0]}$ & mixed & ${r_q}$ \\\\", "\\bottomrule", "\\end{tabular}"]
    _, needs, _, *pages = said["longtable"].splitlines()
    assert needs == of + "needs \\usepackage{booktabs,longtable}"
    assert pages == ["\\begin{longtable}{rlr}", *lines[1:4], "\\endhead", *lines[4:6], "\\end{longtable}"]
    assert said["list"] == f"{at[0]}:{at[1]}\n"
    none = qkscope("heads", results, "--where", "layer > 99", "--format", "list", expect=1)
    assert none.out == "" and "no such head" in none.err


def test_headers_of_latex_are_symbols(qkscope, results):
    """The schema's; a name where there is none, and where two columns would look the same."""
    def headers(*columns):
        return qkscope("heads", results, "--columns", ",".join(columns), "--format", "latex", expect=0).out.splitlines()[5].removesuffix(r" \\").split(" & ")
    assert headers("layer", "r_q", "r_q_lo", "r_k", "ev0", "bias_strength", "ap_overall", "omega", "alpha_beta", "omega_r_squared") == [
        "layer", "$r_q$", r"r\_q\_lo", "$r_k$", r"$\mathrm{EV}_0$", r"$\mu_q \alpha_k$", r"$\mathrm{AP}$", r"$\omega$", r"$\alpha \beta$", "$R^2$"]
    assert headers("mu_q", "mu_q_a", "mu_k") == [r"mu\_q", r"mu\_q\_a", r"$\mu_k$"]


def test_an_interval_is_rounded_as_its_number_is(qkscope, tmp_path):
    (tmp_path / "rotated.csv").write_text("model,layer,q_head,k_head,bias_strength,bias_strength_lo,bias_strength_hi\n"
                                          "m,0,0,0,.123456,.0123456,.0012345\n")
    said = qkscope("heads", tmp_path, "--columns", "bias_strength,bias_strength_lo,bias_strength_hi", "--format", "markdown", expect=0).out
    assert said.splitlines()[-1] == "| 0.123 | 0.012 | 0.001 |"


def test_text_from_outside_is_escaped(qkscope, tmp_path):
    name = "a_b&c\\d|e^f{g}%\x1b[1m\newcommand*é"
    (tmp_path / "heads.csv").write_text(f'model,layer,q_head,k_head,ev0\n"{name}",0,0,0,.00002\n', newline="")
    said = {form: qkscope("heads", tmp_path, "--columns", "model,ev0", "--format", form).out
            for form in ("table", "csv", "markdown", "latex")}
    assert [form for form, text in said.items() if "\x1b" in text] == ["csv"]  # for programs
    assert r"a\_b\&c\textbackslash{}d|e\textasciicircum{}f\{g\}\%\textbackslash{}u001b[1m\textbackslash{}newcommand*é & $2.00\times10^{-5}$" in said["latex"]
    assert r"| a_b&c\\d\|e^f{g}%\\u001b\[1m\\newcommand\*é | 2.00e-05 |" in said["markdown"]


def test_a_column_that_is_named_twice_is_listed_once(qkscope, results):
    """Two of a name could not be told apart; and twenty thousand names are as quick as their columns."""
    many = ",".join(["layer,q_head,r_q,r_k"] * 5000)
    for where in ([results], [results, results]):
        once = qkscope("heads", *where, "--format", "csv", "--columns", "layer,q_head,r_q,r_k", expect=0).out
        assert qkscope("heads", *where, "--format", "csv", "--columns", many, expect=0).out == once


def test_named_heads(qkscope, results, tables):
    """In the order of the table, whatever the order of the names; with a condition, both count."""
    few = {at: head for at, head in tables.items() if at[0] == 2 or at == (4, 1)}
    assert ids(rows(qkscope, results, "--heads", "4:1,2:*,4:1")) == list(few)
    above = sorted(number(head, "r_k") for head in few.values())[1]
    found = rows(qkscope, results, "--heads", "4:1,2:*", "--where", f"r_k > {above}")
    assert ids(found) == [at for at, head in few.items() if number(head, "r_k") > above] and len(found) == 3
    assert qkscope("heads", results, "--heads", "4:1").out.endswith("\n1 of 20 heads\n")


def test_the_sentence_of_a_head(qkscope, results, later, study, tables, tmp_path):
    """Before the table of few heads, and in JSON: what is known of it, by the thresholds of names and categories."""
    def follow(value, high=0.7):
        return f"follow position{'' if abs(value) >= high else ' in part'}" if abs(value) >= 0.3 else "do not follow position"
    for folder, high in ((results, 0.7), (later, 0.75)):
        listed = json.loads(qkscope("heads", folder, "--json", expect=0).out)
        lengths = listed["lengths"].split(", positions")[0]
        for head in listed["heads"]:
            sure = f"probability {head['category_probability']:.2f}" if head.get("category_probability") is not None else "its probability is not known"
            assert head["sentence"] == (
                f"L{head['layer']}H{head['q_head']}: along PC0 its keys {follow(head['r_k'], high)} (r_k {head['r_k']:.2f}), its queries "
                f"{follow(head['r_q'], high)} (r_q {head['r_q']:.2f}); category {head['category']}, {sure}, {lengths}.")
    folder = shutil.copytree(results, tmp_path / "results", ignore=shutil.ignore_patterns("manifest.json"))
    numbers = {"2:1": (12.34, 0.36, 0.1, 0.8, 1.0), "0:3": (1234, 0.0123, 0.7, 0.9, 1.0), "1:0": (31, 0.2, 0.1, 0.2, 0.05), "1:1": (0.5, 0.2, 0.1, 0.2, 1)}
    model = read(results / "heads.csv")[0]["model"]
    lines = [f"{model},{at.replace(':', ',')},{tables[tuple(map(int, at.split(':')))]['k_head']},{','.join(map(str, row))}"
             for at, row in numbers.items()]
    (folder / "attention.csv").write_text("\n".join(
        ["model,layer,q_head,k_head,mean_distance,sink_mass,previous_mass,near_mass,information", *lines]))
    said = qkscope("heads", folder, "--heads", ",".join(numbers), expect=0).out.split("\n")
    ways = {"0:3": "to the previous token (mean distance 1230 tokens), leaves 0.01", "1:0": "evenly (mean distance 31 tokens), leaves 0.20",
            "1:1": "widely (mean distance 0.5 tokens), leaves 0.20", "2:1": "locally (mean distance 12.3 tokens), leaves 0.36"}
    for line, (at, way) in zip(said, ways.items()):
        assert line.startswith(f"L{at.replace(':', 'H')} attends {way} on the first token; along PC0 its keys ") and line.endswith(", texts of unknown length.")
    assert said[4] == "" and said[5].startswith("layer  q_head") and "sentence" not in said[5]
    for options in (["--top", 7], ["--heads", "2:1", "-q"], ["--heads", "2:1", "--columns", "r_q"], ["--heads", "2:1", "--format", "csv"]):
        assert "follow position" not in qkscope("heads", folder, *options, expect=0).out
    assert {line.partition(" L2H1: ")[0] for line in qkscope("heads", study, "--heads", "2:1").out.split("\n")[:2]} == {"a", "org/b"}
    (tmp_path / "results" / "heads.csv").unlink()
    (tmp_path / "results" / "qk.csv").unlink()
    assert qkscope("heads", folder, "--heads", "2:2", expect=0).out.startswith("layer") # nothing of it is known


def test_many_models(qkscope, study, tables):
    mixed = [at for at, head in tables.items() if head["category"] == "mixed"]
    found = rows(qkscope, study, "--where", "category == 'mixed'")
    assert [(row["model"], *at) for row, at in zip(found, ids(found))] == [(m, *at) for m in ("a", "org/b") for at in mixed]
    best, = rows(qkscope, study, "--where", "model == 'org/b'", "--sort", "-r_q", "--top", 1)
    assert number(best, "r_q") == max(number(head, "r_q") for head in tables.values())
    assert "more than one model" in qkscope("heads", study, "--format", "list", expect=2).err
    assert qkscope("heads", study, "--format", "list", "--where", "model == 'a' and layer == 0").out == "0:0,0:1,0:2,0:3\n"


# A condition at random, as text and as what Python makes of a head; None is neither true nor false.

def compared(sign, a, b):
    return None if a is None or b is None else {"=": a == b, "==": a == b, "!=": a != b, "<>": a != b, "<": a < b,
                                                "<=": a <= b, ">": a > b, ">=": a >= b}[sign]


def both(a, b):
    return False if a is False or b is False else None if a is None or b is None else True


def opposite(a):
    return None if a is None else not a


def random_number(draw, tables):
    column = draw.choice(["r_q", "r_k", "layer", "q_head", "ap_overall", "bias_strength", "category_probability"])
    kind = draw.randrange(7)
    if kind == 0:
        value = draw.choice([number(head, column) for head in tables.values() if head[column]])
        return repr(value), lambda head: value
    if kind == 1:
        return f"abs({column})", lambda head: abs(number(head, column)) if head[column] else None
    if kind == 2:
        return f"nullif({column}, 2)", lambda head: float(head[column]) if head[column] and float(head[column]) != 2 else None
    if kind == 3:
        (a, of_a), (b, of_b) = random_number(draw, tables), random_number(draw, tables)
        sign = draw.choice("+-*")
        return f"({a} {sign} {b})", lambda head: (None if of_a(head) is None or of_b(head) is None else
                                                  {"+": of_a(head) + of_b(head), "-": of_a(head) - of_b(head), "*": of_a(head) * of_b(head)}[sign])
    return column, lambda head: float(head[column]) if head[column] else None


def random_condition(draw, tables, depth=3):
    kind = draw.randrange(8 if depth else 5)
    if kind == 0:
        word = draw.choice(["mixed", "position-dominated", "content-focused"])
        sign = draw.choice(["=", "!="])
        return f"category {sign} '{word}'", lambda head: compared(sign, head["category"], word)
    (a, of_a), (b, of_b), (c, of_c) = (random_number(draw, tables) for _ in range(3))
    if kind == 1:
        return f"{a} between {b} and {c}", lambda head: both(compared(">=", of_a(head), of_b(head)), compared("<=", of_a(head), of_c(head)))
    if kind == 2:
        return f"{a} is null", lambda head: of_a(head) is None
    if kind < 5:
        sign = draw.choice(["=", "==", "!=", "<>", "<", "<=", ">", ">="])
        return f"{a} {sign} {b}", lambda head: compared(sign, of_a(head), of_b(head))
    x, of_x = random_condition(draw, tables, depth - 1)
    if kind == 5:
        return f"not ({x})", lambda head: opposite(of_x(head))
    y, of_y = random_condition(draw, tables, depth - 1)
    if kind == 6:
        return f"({x}) and ({y})", lambda head: both(of_x(head), of_y(head))
    return f"(({x}) or ({y}))", lambda head: opposite(both(opposite(of_x(head)), opposite(of_y(head))))


@pytest.mark.parametrize("seed", range(8))
def test_random_conditions(qkscope, results, tables, seed):
    draw, sizes = random.Random(seed), set()
    for _ in range(12):
        text, holds = random_condition(draw, tables)
        wanted = [at for at, head in tables.items() if holds(head)]
        assert ids(rows(qkscope, results, "--where", text, "--columns", "layer,q_head")) == wanted, text
        sizes.add(len(wanted))
    assert len(sizes) > 3


@pytest.mark.cases(3)
@pytest.mark.parametrize("columns", [40, 80, 400])
def test_a_terminal_has_what_fits(program, qkscope, results, columns):
    """Other columns are named; a file, and a list with --columns, have all."""
    whole = qkscope("heads", results, expect=0).out.splitlines()
    said = on_terminal([program, "heads", results], "stdout", {"COLUMNS": str(columns)}).replace("\r", "").splitlines()
    names = whole[0].split()
    shown = said[0].split()
    assert shown == [name for name in names if name in shown] and shown[:2] == ["layer", "q_head"]
    assert all(len(line) <= columns for line in said[:21])
    at = said.index(next((line for line in said if line.startswith("no room for:")), said[-1]))
    hidden = " ".join(said[at:]).removeprefix("no room for:").split(" a wider terminal")[0].split() if columns < 400 else []
    assert sorted(shown + hidden) == sorted(names)
    assert not any(name.endswith(("_lo", "_hi")) for name in shown) or columns == 400
    chosen = on_terminal([program, "heads", results, "--columns", ",".join(names)], "stdout", {"COLUMNS": str(columns)})
    assert chosen.replace("\r", "").splitlines() == whole


def test_columns_that_are_empty(qkscope, results, later):
    """Of every head: empty fields and a note, for the other columns have numbers."""
    words = ["heads", results, "--columns", "layer,q_head,category_before,r_q,freeze_loss", "--format", "csv"]
    said = qkscope(*words, expect=0)
    rows = list(csv.DictReader(said.out.splitlines()))
    assert all(row["category_before"] == row["freeze_loss"] == "" and row["r_q"] for row in rows) and rows
    assert said.err == ("qkscope heads: note: no head has category_before, freeze_loss here: the fields are empty; 'qkscope explain "
                        "COLUMN' says where a column comes from\n")
    assert qkscope(*words, "--quiet", expect=0).err == qkscope("heads", results, expect=0).err == ""
    beside = qkscope("heads", results, later, "--columns", "b.r_q,b.bias_strength", "--format", "csv", expect=0)
    assert "no head has b.bias_strength here" in beside.err and beside.out.splitlines()[1].endswith(",")


@pytest.mark.cases(99)
@pytest.mark.parametrize("options, code, words", [
    (["--where", "catgory == 'mixed'"], 2, "where: character 1: there is no column 'catgory' (did you mean category?)"),
    (["--where", "category = 'position_dominated' and r_q < 2"], 2, "no category 'position_dominated' (did you mean position-dominated?)"),
    (["--where", "category = 'Mixd'"], 2, "no category 'Mixd' (did you mean mixed?)"),
    (["--where", "layer ="], 2, "syntax error"), (["--where", "r_q > 0; select 1"], 2, "syntax error"),
    (["--where", "category = '>>' or r_q >> 3"], 2, "where: character 24: >> moves the bits of a number; write > to compare"),
    (["--where", "r_q > ?"], 2, "no expression"), (["--sort", "r_q, r_k"], 2, "row value"),
    (["--where", "category == mixed"], 2, "where: character 13: a text stands in single quotes: 'mixed'"),
    (["--where", "label == 'ü' and category == position-dominated"], 2, "where: character 30: a text stands in single quotes: 'position-dominated'"),
    (["--where", "label == 'ü' and median(r_q) > 0"], 2, "where: character 18: misuse of aggregate function median()"),
    (["--sort", "-median(r_q)"], 2, "sort: character 2: misuse of aggregate function median()"),
    (["--columns", "layer,r_p"], 2, "columns: there is no column 'r_p' (did you mean"),
    (["--sort", "effective_keys"], 2, "sort: character 1: the column 'effective_keys' has left: use information"),
    (["--columns", "layer,local_mass"], 2, "columns: the column 'local_mass' has left: use window_99, near_mass and far_mass"),
    (["--columns", "layer r_q"], 2, "expected a comma behind 'layer'"),
    (["--heads", "2:1,9:*"], 1, "heads 9:*: these results have none of them"),
    (["--where", "category_before == 'mixed'"], 1, "no head has a category_before here"),
    (["--where", "a.r_q > 0"], 2, "one is given"),
    (["later", "--where", "r_q > 0"], 2, "r_q: of which? Write a.r_q or b.r_q, or of both diff.r_q"),
    (["later", "--sort", "diff.category"], 2, "category is a text"),
    (["later", "--columns", "a.layer"], 2, "layer is the same in a and b"),
    (["later", "--columns", "b.r_q", "--sort", "b.bias_strength"], 1, "later: no head has a b.bias_strength here"),
    (["--columns", "layer,category_before", "--where", "category_before == 'mixed'"], 1, "no head has a category_before here"),
    (["study"], 2, "tables of 2 models")])
def test_mistakes(qkscope, results, later, study, options, code, words):
    folders = {"later": later, "study": study}
    said = qkscope("heads", results, *(folders.get(word, word) for word in options), expect=code)
    assert said.out == "" and said.err.startswith("qkscope heads: ") and words in said.err


def test_tables_that_were_changed(qkscope, results, tmp_path):
    folder = tmp_path / "changed"
    shutil.copytree(results, folder)
    text = (folder / "heads.csv").read_text()
    (folder / "heads.csv").write_text(text.replace(",mixed,", ",content-focused,", 1))
    said = qkscope("heads", folder, expect=1)
    assert "heads.csv" in said.err and said.out == ""
    assert qkscope("heads", folder, "--force").out != qkscope("heads", results).out
    assert "no tables of results" in qkscope("heads", results, tmp_path, expect=1).err


# ---- two folders -----------------------------------------------------------------------------

def test_two_folders(qkscope, results, tables, later):
    b = join(later, ("qk", "heads"))
    alone = tables.keys() - b.keys()
    assert len(alone) == 5
    found = rows(qkscope, results, later)
    assert list(found[0]) == ["layer", "q_head", "a.category", "b.category", "a.category_probability", "b.category_probability",
                              "a.r_q", "b.r_q", "diff.r_q", "a.bias_strength"]
    for at, row in zip(tables, found, strict=True):
        one, other = tables[at], b.get(at, {})
        assert ids([row]) == [at]
        assert all(row[f"a.{c}"] == one[c] for c in ("category", "category_probability", "r_q", "bias_strength"))
        assert all(row[f"b.{c}"] == other.get(c, "") for c in ("category", "category_probability", "r_q"))
        assert row["diff.r_q"] == "" if at in alone else float(row["diff.r_q"]) == number(other, "r_q") - number(one, "r_q")
    turned = rows(qkscope, later, results)
    assert all((row["a.r_q"], row["b.r_q"]) == (was["b.r_q"], was["a.r_q"]) for row, was in zip(turned, found, strict=True))
    named = "0:1"  # a head that only one of them has is there, too
    assert ids(rows(qkscope, later, results, "--heads", named)) == [(0, 1)]
    assert "none of them" in qkscope("heads", later, "--heads", named, expect=1).err

    def chosen(condition):
        return ids(rows(qkscope, results, later, "--where", condition, "--columns", "layer,q_head"))
    assert chosen("a.category != b.category") == [at for at in b if b[at]["category"] != tables[at]["category"]]
    assert chosen("abs(diff.r_q) > 0.01 and layer <= 2") == [
        at for at in b if at[0] <= 2 and abs(number(b[at], "r_q") - number(tables[at], "r_q")) > 0.01]
    assert chosen("b.model == 'org/later'") == list(b)


def test_order_and_forms_of_two(qkscope, results, tables, later):
    b = join(later, ("qk", "heads"))
    wanted = sorted(b, key=lambda at: -abs(number(b[at], "r_q") - number(tables[at], "r_q")))[:3]
    options = ["--sort", "-abs(diff.r_q)", "--top", 3]
    found = rows(qkscope, results, later, *options, "--columns", "layer,q_head,r_k,diff.r_k")
    assert list(found[0]) == ["layer", "q_head", "a.r_k", "b.r_k", "diff.r_k"] and ids(found) == wanted
    assert qkscope("heads", results, later, *options, "--format", "list").out == ",".join(f"{x}:{h}" for x, h in wanted) + "\n"
    said = json.loads(qkscope("heads", results, later, *options, "--json").out)
    assert (said["results"], said["beside"], said["heads_in_results"]) == (str(results), str(later), 20)
    assert (said["in_a_alone"], said["in_b_alone"]) == (5, 0)
    assert [(h["layer"], h["q_head"]) for h in said["heads"]] == wanted
    first, second, *_, count, alone = qkscope("heads", results, later).out.splitlines()
    of = "texts of 991.5 tokens (424 to 1024), positions 0 to 1023 (mean 496.3)"
    assert first == f"a: {results} (kjv-tiny step-2004, {EXAMPLE}), {of}" and second == (
        f"b: {later} (org/later, {EXAMPLE}), texts of 991 tokens (424 to 1024), positions 0 to 1023 (mean 496.803)")
    assert (count, alone) == ("20 of 20 heads", "in a alone: 5, in b alone: 0")
