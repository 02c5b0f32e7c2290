# SPDX-License-Identifier: Apache-2.0
"""qkscope compare as a command: what it takes, refuses, writes and leaves; its page and figures; Python."""
import json
import re
import shlex
import shutil

import pytest
from conftest import ROOT, check_tables, head_names, read_bytes, read_csv, read_json, read_rows, synth, write_rows
from figure_files import told
from strict_page import StrictPage
from svg_pictures import Picture

TABLES = ("compare.csv", "compare_heads.csv", "compare_summary.json", "schema.json")


@pytest.fixture(scope="module")
def made(qkscope, tmp_path_factory):
    """Captures a and b of one shape, of-a and of-b, their results, those of more heads, and a study of a and b."""
    folder = tmp_path_factory.mktemp("compared")
    synth(folder / "a", layers=2, query_heads=4, dim=8, examples=10, rows=30, seed=7, model_name="first")
    synth(folder / "b", layers=2, query_heads=4, dim=8, examples=10, rows=30, seed=8, model_name="second")
    synth(folder / "more", layers=3, query_heads=6, dim=8, examples=10, rows=30, seed=8)
    for name in ("a", "b", "more"):
        qkscope("analyze", folder / name, "-o", folder / f"of-{name}", "--ci", 95, expect=0)
    (folder / "study.yaml").write_text(
        "models:\n" + "".join(f"  - {{name: {n}, label: {n.upper()}-label, source: {n}}}\n" for n in "ab")
        + "pca: {lda: false}\nanalysis: {ci: 95}\n")
    return folder


def compare(qkscope, a, b, out, *more, expect=0):
    done = qkscope("compare", a, b, "-o", out, "--no-html", *more, expect=expect)
    return done.out if expect == 0 else done.err


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---- what it writes -------------------------------------------------------------------------------

def test_files_and_schema(qkscope, made, tmp_path):
    out = tmp_path / "out"
    said = compare(qkscope, made / "of-a", made / "of-b", out)
    assert files(out) == sorted([*TABLES, "manifest.json"])
    assert "8 heads in both, 0 in a alone, 0 in b alone" in said and "a: first\nb: second\n" in said
    check_tables(out)
    manifest = read_json(out / "manifest.json")
    assert manifest["kind"] == "comparison" and manifest["complete"] is True
    run, = manifest["runs"]
    assert run["tables"] == ["compare.csv", "compare_heads.csv", "compare_summary.json"]
    assert run["a"]["model"] == "first" and set(run["contents"]) == {*run["tables"], "schema.json"}


def test_json(qkscope, made, tmp_path):
    printed = json.loads(compare(qkscope, made / "of-a", made / "of-b", tmp_path / "out", "--json"))
    summary = read_json(tmp_path / "out" / "compare_summary.json")
    assert {key: printed[key] for key in summary} == summary
    run, = read_json(tmp_path / "out" / "manifest.json")["runs"]
    assert printed["files"] == [*run["tables"], "schema.json", "manifest.json"]
    assert sum(sum(row.values()) for row in summary["categories"].values()) == summary["heads_in_both"] == 8


def test_kinds_of_heads(qkscope, made, tmp_path):
    compare(qkscope, made / "of-a", made / "of-b", tmp_path / "out")
    kinds = [{(r["layer"], r["q_head"]): r["category"] for r in read_csv(made / f"of-{side}" / "heads.csv")} for side in "ab"]
    heads = read_csv(tmp_path / "out" / "compare_heads.csv")
    assert [(r["category_a"], r["category_b"]) for r in heads] == [
        (kinds[0][r["layer"], r["q_head"]], kinds[1][r["layer"], r["q_head"]]) for r in heads]
    counted = read_json(tmp_path / "out" / "compare_summary.json")["categories"]
    for one, row in counted.items():
        for other, count in row.items():
            assert count == sum((r["category_a"], r["category_b"]) == (one, other) for r in heads)


def test_the_biggest_movers_come_first(qkscope, made, tmp_path):
    compare(qkscope, made / "of-a", made / "of-b", tmp_path / "out")
    rows = read_csv(tmp_path / "out" / "compare.csv")
    heads = {(r["layer"], r["q_head"]): r for r in read_csv(tmp_path / "out" / "compare_heads.csv")}

    def rank(size, p):
        return (p is None or p >= 0.05, -abs(size))
    for key, head in heads.items():
        own = [r for r in rows if (r["layer"], r["q_head"]) == key and r["size"]]
        best = min(own, key=lambda r: rank(r["size"], r["p_corrected"]))
        assert (head["top_metric"], head["top_size"]) == (best["metric"], best["size"])
    movers = read_json(tmp_path / "out" / "compare_summary.json")["movers"]
    ranks = [rank(m["size"], m["p_corrected"]) for m in movers]
    assert ranks == sorted(ranks) and len(movers) == 8


def test_the_same_twice(qkscope, made, tmp_path):
    """However it is spelt; zeros are no finding."""
    done = qkscope("compare", made / "of-a", made / "b" / ".." / "of-a", "-o", tmp_path / "out", "--no-html", expect=0)
    assert done.err.count("a and b are the same: every difference is 0") == 1
    assert {r["difference"] for r in read_csv(tmp_path / "out" / "compare.csv")} <= {0, None}
    assert "no number of any head changed" in done.out and read_json(tmp_path / "out" / "compare_summary.json")["movers"] == []


# ---- heads that do not pair ----------------------------------------------------------------------

def test_heads_of_one_side(qkscope, made, tmp_path):
    qkscope("analyze", made / "b", "-o", tmp_path / "fewer", "--heads", "0:0,0:1,0:2,1:1,1:2,1:3", "--ci", 95, expect=0)
    done = qkscope("compare", made / "of-a", tmp_path / "fewer", "-o", tmp_path / "out", "--no-html", expect=0)
    assert "6 heads in both, 2 in a alone, 0 in b alone" in done.out
    assert "2 heads are in a alone and 0 in b alone: these are not compared" in done.err
    heads = read_csv(tmp_path / "out" / "compare_heads.csv")
    assert [(r["layer"], r["q_head"]) for r in heads if r["in"] == "a"] == [(0, 3), (1, 0)]
    assert {(r["layer"], r["q_head"]) for r in read_csv(tmp_path / "out" / "compare.csv")} == {
        (r["layer"], r["q_head"]) for r in heads if r["in"] == "both"}


def test_other_architectures_are_refused(qkscope, made, tmp_path):
    synth(tmp_path / "mha", layers=2, query_heads=4, q_per_kv_group=1, dim=8, examples=10, rows=30)
    qkscope("pca", tmp_path / "mha", "-o", tmp_path / "of-mha", expect=0)
    said = compare(qkscope, made / "of-a", tmp_path / "of-mha", tmp_path / "out", expect=1)
    assert "layer 0, query head 1 has key head 0 in a and 1 in b: these are of different architectures" in said
    qkscope("pca", made / "more", "-o", tmp_path / "two", "--layers", 2, expect=0)
    said = compare(qkscope, made / "of-a", tmp_path / "two", tmp_path / "out", expect=1)
    assert "no head is in both: a has 8, b has 6" in said and not (tmp_path / "out").exists()


# ---- what a and b may be -----------------------------------------------------------------------

def test_models_of_a_study(qkscope, made, tmp_path):
    qkscope("study", made / "study.yaml", "-o", tmp_path / "study", "--no-figures", expect=0)
    compare(qkscope, f"{tmp_path}/study:a", f"{tmp_path}/study:B-label", tmp_path / "study-out")
    compare(qkscope, made / "of-a", made / "of-b", tmp_path / "out")
    assert read_bytes(tmp_path / "out", "compare.csv") == read_bytes(tmp_path / "study-out", "compare.csv")
    said = compare(qkscope, tmp_path / "study", made / "of-b", tmp_path / "no", expect=1)
    assert f"has 2 models: say which, as {tmp_path}/study:MODEL; it has 'a', 'b'" in said
    said = compare(qkscope, f"{tmp_path}/study:c", made / "of-b", tmp_path / "no", expect=1)
    assert "has no model 'c'; it has 'a', 'b'" in said
    assert not (tmp_path / "no").exists()
    qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
    with pytest.raises(ValueError, match="several rows of one head"):
        qk.side_by_side(tmp_path / "study", made / "of-a")


def test_intervals_that_cannot_be_used(qkscope, made, tmp_path):
    """Of another level, along axes that stay, or none: said, with the remedy."""
    for name, options in {"none": [], "fixed": ["--ci", 95], "ninety": ["--ci", 90]}.items():
        qkscope("analyze", made / "a", "-o", tmp_path / name, *options, expect=0)
    # as version 0.2 wrote it
    manifest = read_json(tmp_path / "fixed" / "manifest.json")
    for run in manifest["runs"]:
        run["settings"]["ci_refit"] = False
    (tmp_path / "fixed" / "manifest.json").write_text(json.dumps(manifest))

    def warned(side, *more):
        done = qkscope("compare", tmp_path / side, made / "of-b", "-o", tmp_path / f"out-{side}", "--no-html", *more, expect=0)
        rows = read_csv(tmp_path / f"out-{side}" / "compare.csv")
        return done.err, {r["metric"] for r in rows if r["p"] is not None}
    said, tested = warned("none")
    assert "a has no intervals that could be used" in said and "--ci 95" in said and tested == set()
    said, tested = warned("fixed")
    assert "along fixed axes, which makes differences look surer than they are" in said
    assert tested == {"ap_overall", "ap_drop"}
    said, tested = warned("ninety")
    assert "has intervals of 90 %, not of 95 %: give --ci 90" in said and tested == set()
    assert read_json(tmp_path / "out-ninety" / "compare_summary.json")["warnings"]


def test_what_is_refused(qkscope, made, tmp_path):
    compare(qkscope, made / "of-a", made / "of-b", tmp_path / "out")
    said = compare(qkscope, tmp_path / "out", made / "of-b", tmp_path / "no", expect=1)
    assert "is a comparison itself; give the results that it was made of" in said
    said = compare(qkscope, made / "a", made / "of-b", tmp_path / "no", expect=1)
    assert "captures are not compared" in said and f"first qkscope analyze {made / 'a'} -o DIR --ci 95" in said
    for name in (str(made / "gone"), "org/name", f"{made / 'a'}:first"):
        said = compare(qkscope, made / "of-a", name, tmp_path / "no", expect=1)
        assert f"{name}: no folder of results; for a capture, first qkscope analyze" in said
    shutil.copytree(made / "of-a", tmp_path / "edited")
    text = (tmp_path / "edited" / "heads.csv").read_text()
    (tmp_path / "edited" / "heads.csv").write_text(text.replace("mixed", "Q-positional", 1) if "mixed" in text
                                                   else text.replace("position-dominated", "mixed", 1))
    said = compare(qkscope, tmp_path / "edited", made / "of-b", tmp_path / "no", expect=1)
    assert "heads.csv is not as it was written; run the analysis again, or give --force" in said
    assert "compared all the same" in qkscope("compare", tmp_path / "edited", made / "of-b", "-o", tmp_path / "forced",
                                              "--no-html", "--force", expect=0).err
    for broken, message in {"layer,q_head\n1,x\n": "heads.csv", "": "heads.csv"}.items():
        (tmp_path / "edited" / "heads.csv").write_text(broken)
        assert message in compare(qkscope, tmp_path / "edited", made / "of-b", tmp_path / "no", "--force", expect=1)
    (tmp_path / "file").write_text("")
    assert "file" in compare(qkscope, made / "of-a", made / "of-b", tmp_path / "file" / "out", expect=1)
    assert not (tmp_path / "no").exists()


@pytest.mark.cases(5)
@pytest.mark.parametrize("arguments, message", [
    ([], "which two? Give A and B"), (["a", "b"], "where to? Give -o DIR"), (["a", "b", "-o", "x", "--ci", "0"], "ci"),
    (["a", "b", "c", "-o", "x"], "c"), (["a", "b", "-o", "x", "--layers", "0"], "--layers has left: use the options of qkscope analyze")])
def test_usage(qkscope, tmp_path, arguments, message):
    assert message in qkscope("compare", *arguments, expect=2, cwd=tmp_path).err
    assert not list(tmp_path.iterdir())


# ---- the folder -----------------------------------------------------------------------------------

def test_the_folder_is_the_comparisons_alone(qkscope, made, tmp_path):
    out, a, b = tmp_path / "out", made / "of-a", made / "of-b"
    compare(qkscope, a, b, out)
    before = read_bytes(out, *TABLES)
    assert "replaced a comparison of 8 heads\n" in compare(qkscope, a, b, out)  # the same again
    assert read_bytes(out, *TABLES) == before
    said = compare(qkscope, b, a, out, expect=1)
    assert "holds a comparison of" in said and "--force to replace it" in said and read_bytes(out, *TABLES) == before
    assert json.loads(compare(qkscope, b, a, out, "--force", "--json"))["heads_replaced"] == 8
    for folder in (a, made / "a", ROOT / "examples"):
        listed = files(folder)
        said = compare(qkscope, a, b, folder, "--force", expect=1)
        assert "holds other things than a comparison" in said and files(folder) == listed
    assert "is the folder of a comparison" in qkscope("analyze", made / "a", "-o", out, expect=1).err
    assert "no tables of results here" in qkscope("report", out, expect=1).err
    assert files(out) == sorted([*TABLES, "manifest.json"])


# ---- page and figures ------------------------------------------------------------------------------

def test_page(qkscope, made, tmp_path):
    """One file, which fetches nothing; names from outside are text."""
    hostile = "</script><b>\"&'\u202e$(x)"
    synth(tmp_path / "a", layers=2, query_heads=4, dim=8, examples=10, rows=30, seed=1, model_name=hostile)
    qkscope("analyze", tmp_path / "a", "-o", tmp_path / "of-a", expect=0)
    out = tmp_path / "out"
    qkscope("compare", tmp_path / "of-a", made / "of-b", "-o", out, expect=0)
    names = ["compare-01-heads", "compare-02-map"]
    assert sorted(p.name for p in (out / "figures").iterdir()) == sorted(
        f"{name}.{end}" for name in names for end in ("csv", "md", "svg"))
    text = (out / "compare.html").read_text()
    assert {f"fig-{name}" for name in names} <= StrictPage(text).ids
    shown = re.sub(r"<(style|script)\b.*?</\1>", "", text, flags=re.S)
    assert all(link.startswith(("#", "data:")) for link in re.findall(r'\b(?:src|href)="([^"]+)"', shown))
    assert "&lt;/script&gt;&lt;b&gt;" in shown and not re.search(r">[^<]*(\bnan\b|\binf\b|-0\.0\b)", shown, re.I)
    assert len(text) < 1_500_000
    qkscope("compare", tmp_path / "of-a", made / "of-b", "-o", out, "--no-html", expect=0)  # the page would be old
    assert not (out / "compare.html").exists() and not list(out.glob("figures/*"))


@pytest.mark.test_all
def test_page_and_figures_hold_the_tables(qkscope, made, tmp_path):
    """The heads that both have, with a, b and the difference of compare.csv; in words."""
    out = tmp_path / "out"
    qkscope("compare", made / "of-a", made / "of-more", "-o", out, "--theme", "dark", expect=0)
    heads = json.loads(re.search(r'id="qk-heads">(.*?)</script>', (out / "compare.html").read_text(), re.S)[1])
    rows = {(r["layer"], r["q_head"]): r for r in read_csv(out / "compare.csv") if r["metric"] == "r_q"}
    both = list(zip(heads["layer"], heads["q_head"]))
    assert len(both) == len(set(both)) == 8 and [m["label"] for m in heads["models"]] == ["\u2068first\u2069 → \u2068synth\u2069"]
    fields = {f["name"]: f for f in heads["fields"]}
    for name, column in (("diff", "difference"), ("a", "a"), ("b", "b"), ("p", "p_corrected")):
        shown, want = ([float("nan") if v is None else v for v in values]  # no p where the sign of PC0 is open
                       for values in (fields[f"r_q.{name}"]["values"], [rows[head][column] for head in both]))
        assert shown == pytest.approx(want, rel=1e-4, nan_ok=True)
    assert fields["r_q.diff"]["label"] == "query-position correlation r_q on PC0, b − a" and fields["r_q.diff"]["first"]
    low, high = (fields["r_q.diff"]["scale"][end] for end in ("low", "high"))
    assert -low == high == pytest.approx(max(abs(v) for v in fields["r_q.diff"]["values"]), rel=1e-4)
    cells = told(out / "figures" / "compare-02-map")
    first = {(r["y"], r["x"]): r["value"] for r in cells if r["panel"] == cells[0]["panel"]}
    assert first == pytest.approx({head: r["difference"] for head, r in rows.items()})
    points = told(out / "figures" / "compare-01-heads")
    assert sorted((r["x"], r["y"]) for r in points if r["panel"] == "r_q") == sorted((r["a"], r["b"]) for r in rows.values())


@pytest.mark.test_all
def test_axes_of_other_ranges(qkscope, made, tmp_path):
    """Keys ten times as long: the bias of b would make one line of all points, so each axis has its range; r_q, which
    does not change, keeps one for both. Layer 0 of the map is at the top, as in every map."""
    for name in head_names(made / "a"):
        columns = read_rows(made / "a", name)
        columns["vector"] = columns["vector"] * 10
        write_rows(tmp_path / "long", name, columns)
    qkscope("analyze", tmp_path / "long", "-o", tmp_path / "of-long", expect=0)
    qkscope("compare", made / "of-a", tmp_path / "of-long", "-o", tmp_path / "out", expect=0)
    picture = Picture(tmp_path / "out" / "figures" / "compare-01-heads")
    slanting = [line for line in picture.dashed() if line[0] != line[2] and line[1] != line[3]]
    assert len(slanting) == 5, "but that of the bias, which would lie flat: lines at 0 in its place"
    assert not picture.faults()


@pytest.mark.test_all
@pytest.mark.parametrize("a, b", [("of-a", "of-b"), ("study:a", "study:b")])
def test_the_command_of_a_note(qkscope, made, tmp_path, a, b):
    """Run in the folder of the figures, as the note says, it replaces them by the same bytes; how a path is spelt
    does not matter, what lies there does."""
    for name in ("a", "b", "of-a", "of-b"):
        (tmp_path / name).symlink_to(made / name)
    if ":" in a:
        qkscope("study", made / "study.yaml", "-o", tmp_path / "study", "--no-figures", expect=0)
    out = tmp_path / "out"
    qkscope("compare", a, b, "-o", "out", "--width", "85mm", expect=0, cwd=tmp_path)

    def contents():
        """Of all files but those that tell the command as it was typed."""
        return {name: (out / name).read_bytes() for name in files(out) if name not in ("manifest.json", "compare.html")}
    before = contents()
    note = (out / "figures" / "compare-01-heads.md").read_text()
    command = shlex.split(next(line for line in note.splitlines() if line.startswith("    qkscope compare ")))[1:]
    assert str(tmp_path) not in note
    qkscope(*command, cwd=out / "figures", expect=0)
    assert contents() == before
    (tmp_path / "x").mkdir()
    for name in {a.split(":")[0], b.split(":")[0]}:
        shutil.copytree(tmp_path / name, tmp_path / "x" / name)
    said = qkscope("compare", a, b, "-o", "../out", "--no-html", expect=1, cwd=tmp_path / "x").err
    assert "holds a comparison of" in said


def test_without_rsvg_convert(qkscope, made, tmp_path):
    """Tables and page are there; the exit code says that something is missing."""
    out = tmp_path / "out"
    done = qkscope("compare", made / "of-a", made / "of-b", "-o", out, "--format", "png", expect=3, env={"PATH": str(tmp_path)})
    assert "rsvg-convert" in done.err
    assert (out / "compare.csv").is_file() and "could not be drawn" in (out / "compare.html").read_text()


# ---- Python ------------------------------------------------------------------------------------------

@pytest.mark.filterwarnings("ignore::UserWarning")
def test_python(qkscope, made, tmp_path):
    qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
    compare(qkscope, made / "of-a", made / "of-b", tmp_path / "command")
    changes = qk.compare(made / "of-a", made / "of-b", progress=False)
    assert changes.tables == ["compare.csv", "compare_heads.csv"] and changes.num_heads == 8
    for name in changes.tables:
        assert (changes.folder / name).read_bytes() == (tmp_path / "command" / name).read_bytes()
    assert changes.compare.schema["p_corrected"].unit == "probability"
    saved = changes.save(tmp_path / "saved")
    assert qk.Results.read(saved).compare.column("difference") == changes.compare.column("difference")
    changes.close()
    assert not changes.folder.exists()
    pair = [qk.Results.read(made / f"of-{name}") for name in "ab"]
    tables = qk.compare(*pair, output=tmp_path / "kept", html=False, progress=False)
    side = qk.side_by_side(*pair, "rotated")
    rows = [r for r in tables.compare if r.metric == "bias_strength"]
    assert [r.difference for r in rows] == side.column("bias_strength_diff")
    with pytest.raises(qk.ArgumentError, match="first qkscope analyze"):
        qk.compare(made / "a", made / "of-b", progress=False)
    with pytest.raises(qk.DataError, match="no head is in both"):
        qk.compare(made / "of-a", qk.pca(made / "more", layers=2, progress=False), progress=False)
