# SPDX-License-Identifier: Apache-2.0
"""NAME.md beside every figure: what it says is so, its command draws the same bytes, it goes with its figure, and
README.md lists them all."""
import json
import re
import shlex

import pytest
from conftest import EXAMPLE, ROOT
from figure_files import HOSTILE, draw, needs_gnuplot
from head_tables import make_heads, write_heads

TABLES = ROOT / "tests" / "data" / "figures"
MARK = "<!-- Written by qkscope beside its figures. -->\n"
ENDINGS = (".dat", ".gp", ".md", ".pdf", ".png", ".svg")

pytestmark = needs_gnuplot


def notes_of(figures):
    return {path.stem: path.read_text() for path in sorted(figures.glob("*.md")) if path.name != "README.md"}


def field(note, name):
    return re.search(rf"^\* {name}: (.*)$", note, re.M).group(1)


def command_of(note):
    return shlex.split(re.search(r"^    qkscope (.*)$", note, re.M).group(1))


def contents(figures, stem):
    return {path.name: path.read_bytes() for path in figures.iterdir()
            if path.suffix in ENDINGS and path.stem == stem}


@pytest.fixture(scope="module", params=["cross", "training"])
def study(qkscope, tmp_path_factory, request):
    import shutil
    folder = tmp_path_factory.mktemp("study")
    shutil.copytree(TABLES / request.param, folder / "results")
    qkscope("report", folder / "results", "--format", "svg", expect=0)
    return folder / "results"


def test_every_figure_has_one(study):
    figures = study / "figures"
    drawn = {path.stem for path in figures.glob("*.gp")}
    assert notes_of(figures).keys() == drawn and len(drawn) > 20
    for name, note in notes_of(figures).items():
        assert note.startswith(MARK) and f"]({name}.png)" in note and f"`{name}.dat`" in note


def test_tables_and_columns_are_there(study):
    """Words before a colon that are columns of the tables which a note names."""
    columns = {path.name: set(path.open().readline().strip().split(",")) for path in study.glob("*.csv")}
    everywhere = set().union(*columns.values()) | {"weight", "plasticity", "measured", "predicted"}
    for name, note in notes_of(study / "figures").items():
        tables = field(note, "from").split(", ")
        assert set(tables) <= columns.keys() | {"stages.csv"}, name
        named = set(re.findall(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+", field(note, "numbers").replace("\\", "")))
        assert named <= everywhere, (name, named - everywhere)
        assert named <= set().union(*(columns[t] for t in tables)), name


def test_the_command_draws_the_same(qkscope, study):
    figures = study / "figures"
    notes = notes_of(figures)
    for name in ("map-02-r-k", "pca-03-layer-heatmap-rq", "rotation-04-bias-histograms",
                 next(n for n in notes if n.startswith("plasticity-02"))):
        before = contents(figures, name)
        for path in figures.glob(f"{name}.*"):
            path.unlink()
        qkscope(*command_of(notes[name]), cwd=figures, expect=0)
        after = contents(figures, name)
        assert before.keys() == after.keys()
        assert [n for n in before if before[n] != after[n]] == []


def test_findings_are_told(study):
    page = (study / "report.html").read_text()
    told = [line[2:] for note in notes_of(study / "figures").values() if "What these data say" in note
            for line in note.split("## What these data say")[1].splitlines() if line.startswith("* ")]
    assert len(told) > 5
    plain = re.sub(r"<[^>]+>|[\u2066-\u2069]", "", page)
    for line in told:
        claim, verdict = re.fullmatch(r"(.*) \((.*)\)", line).groups()
        assert verdict in ("supported", "supported, against expectation", "divided", "not supported", "too few to tell", "measured")
        words = re.sub(r"\\(.)", r"\1", re.sub("[\u2066-\u2069]", "", claim)).replace("&", "&amp;")
        assert words.rstrip(".") in plain.replace("&#39;", "'"), words


def test_the_list(study):
    listed = re.findall(r"^\* \[([^]]+)\]\(([^)]+)\): (.+)$", (study / "figures" / "README.md").read_text(), re.M)
    assert [name for name, _, _ in listed] == sorted(notes_of(study / "figures"))
    for name, link, title in listed:
        assert link == f"{name}.md" and f"# {title}\n" in (study / "figures" / link).read_text()


def test_the_same_every_time(qkscope, tmp_path):
    made = {}
    for name, threads in (("a", 1), ("b", 2)):
        make_heads(tmp_path / name, [("m", 4, 4, 2), ("n", 4, 4, 2)])
        draw(qkscope, tmp_path / name, "--threads", threads)
        made[name] = notes_of(tmp_path / name / "figures")
    assert made["a"] == made["b"]


def test_they_go_with_their_figures(qkscope, tmp_path):
    make_heads(tmp_path, [("m", 4, 4, 2), ("n", 4, 4, 2)])
    figures = draw(qkscope, tmp_path)
    assert "rotation-02-drift-correlation" in notes_of(figures)
    (figures / "pca-03-layer-heatmap-rq.md").write_text("mine\n")
    (figures / "README.md").write_text("mine, too\n")
    (tmp_path / "rotated.csv").unlink()
    draw(qkscope, tmp_path, "--figure", "pca-03-layer-heatmap-rq")
    assert "rotation-02-drift-correlation" in notes_of(figures), "of one figure, the others stay"
    draw(qkscope, tmp_path)
    assert "rotation-02-drift-correlation" not in notes_of(figures)
    assert (figures / "pca-03-layer-heatmap-rq.md").read_text() == "mine\n"
    assert (figures / "README.md").read_text() == "mine, too\n"


def test_results_elsewhere(qkscope, tmp_path):
    """The command names the results as they are seen from the figures, not where they lie on this machine."""
    make_heads(tmp_path / "it's here", [("m", 4, 4, 2)])
    qkscope("report", "it's here", "-o", "page", "--no-html", "--theme", "dark", "--width", "170mm", "--format", "svg",
            cwd=tmp_path, expect=0)
    figures = tmp_path / "page" / "figures"
    note = notes_of(figures)["map-01-r-q"]
    assert command_of(note)[1] == "../../it's here" and str(tmp_path) not in note
    before = contents(figures, "map-01-r-q")
    qkscope(*command_of(note), cwd=figures, expect=0)
    assert contents(figures, "map-01-r-q") == before


def test_hostile_names(qkscope, tmp_path):
    names = [name.replace("\n", " ") for name in HOSTILE] + ["[x](javascript:1)", "*a* _b_ `c`"]
    made = make_heads(tmp_path, [(f"m{i}", 3, 4, 2) for i in range(len(names))])
    write_heads(tmp_path, made, [(f"m{i}", 3, 4, 2) for i in range(len(names))])
    import pandas as pd
    listed = pd.read_csv(tmp_path / "models.csv")
    listed["label"] = names
    listed.to_csv(tmp_path / "models.csv", index=False)
    figures = draw(qkscope, tmp_path)
    for note in notes_of(figures).values():
        said = note.split("## What these data say")[1] if "these data say" in note else ""
        for line in [*said.splitlines(), *re.findall(r"^\* model: (.*)$", note, re.M)]:
            assert not re.search(r"(?<!\\)[<`\[\]*](?! )", line), line
        assert "](javascript" not in note


def test_json_lists_the_files(qkscope, tmp_path):
    make_heads(tmp_path, [("m", 4, 4, 2)])
    outcome = json.loads(qkscope("report", tmp_path, "--json", expect=0).out)
    there = {f"figures/{path.name}" for path in (tmp_path / "figures").iterdir()}
    assert set(outcome["files"]) == there and len(there) == 5 * outcome["figures"] + 1


# ---- scatter ---------------------------------------------------------------------------------

@pytest.mark.parametrize("options", [
    ["--random", "--collage", "--seed", 7, "--theme", "dark"],
    ["--heads", "2:1", "--basis", "complement", "--max-points", 200, "--title", "it's <b>"],
    ["--kind", "k", "--layer", 1, "--head", 0, "--pc-x", 2, "--width", "85mm"],
    ["--heads", "1:1,0:2", "--example-id", 0, "--centred"]])
def test_of_a_scatter(qkscope, tmp_path, options):
    qkscope("scatter", EXAMPLE, "-o", tmp_path / "out", "--format", "svg,png", *options, expect=0)
    for name, note in notes_of(tmp_path / "out").items():
        before = contents(tmp_path / "out", name)
        qkscope(*command_of(note), cwd=tmp_path / "out", expect=0)
        assert contents(tmp_path / "out", name) == before
        assert "--title" not in note or "it's \\<b\\>" in note


def test_a_scatter_leaves_the_files_of_others(qkscope, tmp_path):
    (tmp_path / "README.md").write_text("mine\n")
    (tmp_path / "f.md").write_text("mine\n")
    for name in ("README", "f"):
        qkscope("scatter", EXAMPLE, "-o", tmp_path / f"{name}.png", "--max-points", 50, expect=0)
        assert (tmp_path / f"{name}.md").read_text() == "mine\n"


def test_collages_are_listed(qkscope, tmp_path):
    qkscope("analyze", EXAMPLE, "-o", tmp_path, expect=0)
    qkscope("scatter", EXAMPLE, "-o", tmp_path / "figures", "--name", "pca-06-collage-mine", "--max-points", 50,
            expect=0)
    qkscope("report", tmp_path, "--no-html", expect=0)
    assert "[pca-06-collage-mine](pca-06-collage-mine.md): Queries and keys on two components" in (
        tmp_path / "figures" / "README.md").read_text()
