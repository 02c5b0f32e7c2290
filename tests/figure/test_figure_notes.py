# SPDX-License-Identifier: Apache-2.0
"""NAME.md beside every figure: what it says is so, its command makes the same bytes, it goes with its figure, and
README.md lists them all."""
import json
import re
import shlex

import pytest
from conftest import EXAMPLE
from drawn_studies import SIZES, cross, training  # noqa: F401
from figure_files import HOSTILE, draw
from made_tables import make_heads, write_results

MARK = "<!-- Written by qkscope beside its figures. -->\n"
ENDINGS = (".csv", ".md", ".pdf", ".png", ".svg")


def notes_of(figures):
    return {path.stem: path.read_text() for path in sorted(figures.glob("*.md")) if path.name != "README.md"}


def field(note, name):
    return re.search(rf"^\* {name}: (.*)$", note, re.M).group(1)


def command_of(note):
    return shlex.split(re.search(r"^    qkscope (.*)$", note, re.M).group(1))


def contents(figures, stem):
    return {path.name: path.read_bytes() for path in figures.iterdir()
            if path.suffix in ENDINGS and path.stem == stem}


def two_models(folder, names=("m", "n")):
    rows = [row for i, _ in enumerate(names) for row in make_heads(f"m{i}", 4, 4, 2, seed=i)]
    return write_results(folder, rows, [{"model": f"m{i}", "label": name, "family": "f"} for i, name in enumerate(names)], **SIZES)


@pytest.fixture(params=["cross", "training"])
def study(request):
    return request.getfixturevalue(request.param)


def test_every_figure_has_one(study):
    """Words before a colon are columns of the tables that a note names; README.md lists them all."""
    figures, notes = study.figures, notes_of(study.figures)
    columns = {path.name: set(path.open().readline().strip().split(",")) for path in study.folder.glob("*.csv")}
    assert sorted(notes) == study.names()
    for name, note in notes.items():
        assert note.startswith(MARK) and f"]({name}.svg)" in note and f"`{name}.csv`" in note
        tables = field(note, "from").split(", ")
        named = set(re.findall(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", field(note, "numbers").replace("\\", "")))
        assert set(tables) <= columns.keys() and named <= set().union(*(columns[t] for t in tables)), name
    listed = re.findall(r"^\* \[([^]]+)\]\(([^)]+)\): (.+)$", (figures / "README.md").read_text(), re.M)
    assert [name for name, _, _ in listed] == sorted(notes)
    for name, link, title in listed:
        assert link == f"{name}.md" and f"# {title}\n" in notes[name]


def test_the_command_draws_the_same(qkscope, tmp_path):
    """Anywhere, by any number of threads. It names the results as they are seen from the figures, not where they lie."""
    two_models(tmp_path / "it's here")
    qkscope("report", "it's here", "-o", "page", "--no-html", "--theme", "dark", "--width", "170mm",
            "--threads", 1, cwd=tmp_path, expect=0)
    figures = tmp_path / "page" / "figures"
    notes = notes_of(figures)
    for name in ("map-01-r-q", "pca-03-layer-heatmap-rq", "rotation-04-bias-histograms", "plasticity-02-profiles-m0"):
        before = contents(figures, name)
        assert command_of(notes[name])[1] == "../../it's here" and str(tmp_path) not in notes[name]
        for path in figures.glob(f"{name}.*"):
            path.unlink()
        qkscope(*command_of(notes[name]), "--threads", 2, cwd=figures, expect=0)
        assert {n: text for n, text in contents(figures, name).items() if not n.endswith(".md")} == {
            n: text for n, text in before.items() if not n.endswith(".md")}
        qkscope(*command_of(notes[name]), cwd=figures, expect=0)
        assert contents(figures, name) == before


def test_findings_are_told(qkscope, training, tmp_path):
    qkscope("report", training.folder, "-o", tmp_path, "--alone", expect=0)
    told = [line[2:] for note in notes_of(training.figures).values() if "What these data say" in note
            for line in note.split("## What these data say")[1].splitlines() if line.startswith("* ")]
    assert len(told) > 5
    plain = re.sub(r"<[^>]+>|[\u2066-\u2069]", "", (tmp_path / "report.html").read_text()).replace("&#39;", "'")
    for line in told:
        claim, verdict = re.fullmatch(r"(.*) \((.*)\)", line).groups()
        assert verdict in ("supported", "supported, against expectation", "divided", "not supported", "too few to tell")
        words = re.sub(r"\\(.)", r"\1", re.sub("[\u2066-\u2069]", "", claim)).replace("&", "&amp;")
        assert words.rstrip(".") in plain, words


def test_they_go_with_their_figures(qkscope, tmp_path):
    figures = draw(qkscope, two_models(tmp_path))
    assert "rotation-02-drift-correlation" in notes_of(figures)
    (figures / "pca-03-layer-heatmap-rq.md").write_text("mine\n")
    (figures / "README.md").write_text("mine, too\n")
    for name in ("pca-10-checkpoint-heatmap-rq.png", "pca-10-checkpoint-heatmap-rq.gp", "pca-10-mine.png"):
        (figures / name).write_text("of an earlier version, and another's")
    (tmp_path / "rotated.csv").unlink()
    draw(qkscope, tmp_path, "--figure", "pca-03-layer-heatmap-rq")
    assert "rotation-02-drift-correlation" in notes_of(figures), "of one figure, the others stay"
    draw(qkscope, tmp_path)
    assert "rotation-02-drift-correlation" not in notes_of(figures)
    assert (figures / "pca-03-layer-heatmap-rq.md").read_text() == "mine\n"
    assert (figures / "README.md").read_text() == "mine, too\n"
    assert [path.name for path in figures.glob("pca-10*")] == ["pca-10-mine.png"]


def test_hostile_names(qkscope, tmp_path):
    names = [name.replace("\n", " ") for name in HOSTILE] + ["[x](javascript:1)", "*a* _b_ `c`"]
    for note in notes_of(draw(qkscope, two_models(tmp_path, names))).values():
        said = note.split("## What these data say")[1] if "these data say" in note else ""
        for line in [*said.splitlines(), *re.findall(r"^\* model: (.*)$", note, re.M)]:
            assert not re.search(r"(?<!\\)[<`\[\]*](?! )", line), line
        assert not re.search(r"(?<!\\)\]\(javascript", note)


def test_json_lists_the_files(qkscope, tmp_path):
    two_models(tmp_path)
    outcome = json.loads(qkscope("report", tmp_path, "--json", expect=0).out)
    there = {f"figures/{path.name}" for path in (tmp_path / "figures").iterdir()}
    assert set(outcome["files"]) == there and len(there) == 3 * outcome["figures"] + 1


# ---- scatter ---------------------------------------------------------------------------------

@pytest.mark.cases(4)
@pytest.mark.parametrize("options", [
    ["--random", "--collage", "--seed", 7, "--theme", "dark"],
    ["--heads", "2:1", "--basis", "complement", "--max-points", 200, "--title", "it's <b>"],
    ["--kind", "k", "--heads", "1:0", "--pc-x", 2, "--width", "85mm"],
    ["--heads", "1:1,0:2", "--example-id", 0, "--centred"]])
def test_of_a_scatter(qkscope, tmp_path, options):
    qkscope("scatter", EXAMPLE, "-o", tmp_path / "out", *options, expect=0)
    for name, note in notes_of(tmp_path / "out").items():
        before = contents(tmp_path / "out", name)
        qkscope(*command_of(note), cwd=tmp_path / "out", expect=0)
        assert contents(tmp_path / "out", name) == before
        assert "--title" not in note or "it's \\<b\\>" in note


def test_a_scatter_leaves_the_files_of_others(qkscope, tmp_path):
    for name in ("README", "f"):
        (tmp_path / f"{name}.md").write_text("mine\n")
        qkscope("scatter", EXAMPLE, "-o", tmp_path / f"{name}.svg", "--max-points", 50, expect=0)
        assert (tmp_path / f"{name}.md").read_text() == "mine\n"
