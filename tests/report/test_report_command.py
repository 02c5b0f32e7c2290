# SPDX-License-Identifier: Apache-2.0
"""qkscope report as a command: what it writes and prints, mistakes, figures that fail, collages that
lie in the folder."""
import json
import re
import signal
import subprocess

import pytest
from conftest import environment

from made_tables import make_heads, write_results
from figure_files import fake_converter
from report_pages import drawn, findings, page_drawn, page_of


@pytest.fixture
def results(tmp_path):
    rows = make_heads("m", 4, 4, 2)
    return write_results(tmp_path / "results", rows, buckets=4, bins=2, dim=4)


def test_what_it_says(qkscope, results, tmp_path):
    out = tmp_path / "elsewhere with space"
    said = qkscope("report", results, "-o", out, "--json", expect=0)
    outcome = json.loads(said.out)
    page = out / "report.html"
    assert outcome["models"] == 1 and outcome["heads"] == 16 and outcome["failures"] == []
    assert outcome["html"] == str(page) and outcome["html_bytes"] == page.stat().st_size
    drawn = sorted(f.stem for f in (out / "figures").glob("*.svg"))
    assert outcome["figures"] == len(drawn) > 0
    for name in drawn:
        for ending in ("csv", "md", "svg"):
            assert (out / "figures" / f"{name}.{ending}").stat().st_size > 0
    assert not (results / "report.html").exists()
    text = qkscope("report", results, "-o", out, expect=0).out
    assert re.match(rf"1 model, 16 heads, {len(drawn)} figures in [\d.]+ s\n", text)
    assert f"{page} (" in text
    assert qkscope("report", results, "-o", out, "--quiet", expect=0).out == ""


def test_a_page_of_something_else_stays(qkscope, results, tmp_path):
    """Unless --force is given; its own earlier page is replaced, as above."""
    page = tmp_path / "out" / "report.html"
    page.parent.mkdir()
    page.write_text("mine")
    done = qkscope("report", results, "-o", page.parent, expect=1)
    assert "report.html: is there and is no page of qkscope; choose another folder, or --force" in done.err
    assert [file.name for file in page.parent.iterdir()] == ["report.html"] and page.read_text() == "mine"
    qkscope("report", results, "-o", page.parent, "--no-html", expect=0)
    assert page.read_text() == "mine"
    qkscope("report", results, "-o", page.parent, "--force", expect=0)
    assert "qkscope" in page.read_text(encoding="utf-8")


def test_figures_alone(qkscope, results):
    qkscope("report", results, "--no-html", expect=0)
    assert not (results / "report.html").exists()
    kinds = {f.suffix for f in (results / "figures").iterdir()}
    assert kinds == {".csv", ".md", ".svg"}


@pytest.mark.cases(5)
@pytest.mark.parametrize("words", [["report", "RESULTS", "--alone", "-o", "x.html"], ["report", "RESULTS", "-o", "x.HTML"],
                                   ["analyze", "c", "-o", "x.csv"], ["compare", "a", "b", "-o", "x.html"],
                                   ["study", "x.yaml", "-o", "x.json"]])
def test_a_folder_is_not_called_like_a_file(qkscope, results, tmp_path, words):
    done = qkscope(*[results if word == "RESULTS" else word for word in words], expect=2, cwd=tmp_path)
    assert f"output {words[-1]}: the name of a file, but a folder is wanted" in done.err
    assert not (tmp_path / words[-1]).exists()


def test_a_folder_that_is_there_may_be_called_so(qkscope, results, tmp_path):
    (tmp_path / "x.html").mkdir()
    for name in ("x.html", "y.html/"):
        qkscope("report", results, "--alone", "-o", name, expect=0, cwd=tmp_path)
        assert [path.name for path in (tmp_path / name).iterdir()] == ["report.html"]


def test_the_page_alone(qkscope, results, tmp_path):
    """Without figures beside it, nothing on it speaks of them; all else is the same, and nothing leads out."""
    qkscope("report", results, "-o", tmp_path / "both", expect=0)
    text = qkscope("report", results, "-o", tmp_path / "alone", "--alone", expect=0).out
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["report.html"] and "/figures" not in text
    both, alone = ((tmp_path / name / "report.html").read_text() for name in ("both", "alone"))
    assert "<code>figures/" in both and "<code>figures/" not in alone
    assert re.sub(r"<span>In the folder of the results: .*?</span>", "", both) == alone
    assert set(re.findall(r'(?:href|src)="([^"]{0,5})', both.split("<script>")[0])) <= {"data:", *re.findall(r'href="(#[^"]{0,4})', both)}
    for other in (["--no-html"], ["--figure", "pca-02-rq-rk-scatter"]):
        done = qkscope("report", results, "-o", tmp_path / "none", "--alone", *other)
        assert done.code == 2 and "without the page" in done.err and not (tmp_path / "none").exists()


@pytest.mark.test_all
@pytest.mark.parametrize("theme", ["screen", "dark"])
def test_themes(qkscope, results, theme):
    """Whatever the files look like, on the page they take its colours."""
    qkscope("report", results, "--theme", theme, expect=0)
    page = (results / "report.html").read_text()
    assert page.count("var(--fig-ink)") > 10 and 'fill="var(--fig-bg)"' in page


@pytest.mark.cases(5)
@pytest.mark.parametrize("arguments, message", [
    ([], "which results?"), (["--format", "gif"], "gif"), (["--theme", "blue"], "blue"),
    (["--threads", "0"], "--threads"), (["--title"], "needs a value")])
def test_mistakes(qkscope, results, arguments, message):
    folder = [] if message == "which results?" else [results]
    outcome = qkscope("report", *folder, *arguments, expect=2)
    assert message in outcome.err and outcome.out == ""


def test_no_results(qkscope, tmp_path):
    outcome = qkscope("report", tmp_path / "nowhere", expect=1)
    assert "nowhere" in outcome.err
    (tmp_path / "empty").mkdir()
    assert "empty" in qkscope("report", tmp_path / "empty", expect=1).err
    (tmp_path / "empty" / "qk.csv").write_text("model,layer,q_head,pc,r_q\nm,0,0,0,high\n")
    assert "qk.csv" in qkscope("report", tmp_path / "empty", expect=1).err
    assert not (tmp_path / "empty" / "report.html").exists()


def test_figures_that_fail(qkscope, results, tmp_path):
    qkscope("report", results, expect=0)
    before = {path.name: path.read_bytes() for path in (results / "figures").iterdir()}
    path = fake_converter(tmp_path / "bin", "echo 'no pictures today' >&2\nexit 1\n")
    outcome = qkscope("report", results, "--format", "png", env=path, expect=3)
    assert {path.name: path.read_bytes() for path in (results / "figures").iterdir()} == before, "the older figures stay"
    assert "no pictures today" in outcome.err and "0 figures" in outcome.out
    assert findings((results / "report.html").read_text())
    page = drawn(results / "report.html")
    assert "Figures that could not be drawn" in page and "no pictures today" in page
    assert "<code>pca-01-pc-roles</code>" in page


def test_no_rsvg_convert(qkscope, results, tmp_path):
    (tmp_path / "nothing").mkdir()
    outcome = qkscope("report", results, "--format", "png", env={"PATH": tmp_path / "nothing"}, expect=3)
    assert outcome.err.count("librsvg2-bin") == 1, "one remedy for all figures"
    assert "Figures that could not be drawn" in drawn(results / "report.html")
    qkscope("report", results, env={"PATH": tmp_path / "nothing"}, expect=0)


def test_killed_while_rsvg_convert_writes(program, qkscope, results, tmp_path):
    """The page and the figures are the old ones, each whole; the same command ends in what an undisturbed one makes."""
    qkscope("report", results, expect=0)
    page = results / "report.html"
    before = page.read_bytes()
    path = fake_converter(tmp_path / "path", f'count=$(cat {tmp_path}/n 2>/dev/null); echo $((count + 1)) >{tmp_path}/n\n'
                          'printf "\\211PNG" >"$OUT"; [ "$count" = 3 ] && kill -9 $PPID; exec true\n')
    done = subprocess.run([program, "report", results, "--format", "png", "--title", "another"], env=environment(path), capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert page.read_bytes() == before
    for figure in (results / "figures").glob("*.svg"):
        assert figure.read_text().rstrip().endswith("</svg>")
    qkscope("report", results, "--title", "another", expect=0)
    again = results.parent / "undisturbed"
    qkscope("report", results, "--title", "another", "-o", again, expect=0)
    names = {path.name for path in (again / "figures").iterdir()}
    assert names <= {path.name for path in (results / "figures").iterdir()}
    assert not [path for path in (results / "figures").iterdir() if path.name.startswith(".")]
    assert page.read_bytes() != before


def svg(width, height, more=""):
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">{more}</svg>'


def test_collages_in_the_folder(qkscope, results, tmp_path):
    figures = results / "figures"
    figures.mkdir()
    (figures / "pca-06-collage-a.svg").write_text(svg(20, 10, "<script>alert(1)</script>"))
    (figures / "pca-06-collage-m.svg").write_text(svg(20, 10))  # the model's: first
    (figures / "rotation-01-plane-a b'\"<x>.svg").write_text(svg(30, 15, '<rect fill="#0d1117"/>'))
    (figures / "rotation-01-plane-broken.svg").write_text("not a picture")
    (figures / "other.svg").write_text(svg(10, 10))
    page = page_of(qkscope, results)
    assert page.count('src="data:image/svg+xml,') == 3 and page.count('<img class="dark"') == 1 and "<script>alert" not in page
    assert page.index("fig-pca-06-collage-m") < page.index("fig-pca-06-collage-a")
    assert "<figcaption><bdi>m</bdi>" in page and "<bdi>pca-06-collage-a</bdi>" in page
    assert 'style="aspect-ratio:20/10"' in page
    assert page.index("fig-pca-06-collage-m") < page.index("fig-rotation-01-plane-a")
    assert "<code>figures/rotation-01-plane-a b&#39;&quot;&lt;x&gt;.*</code>" in page
    assert "<code><bdi>rotation-01-plane-broken</bdi>.svg</code>" in page and 'href="figures/' not in page
    assert "other.svg" not in page
    qkscope("report", results, expect=0)  # now among the others, in their order
    page = (results / "report.html").read_text()
    order = re.findall(r'<figure(?: class="\w+")? id="fig-((?:pca|rotation)-\d\d)', page)
    pca = [name for name in order if name.startswith("pca")]
    assert "pca-06" in pca and pca == sorted(pca)
    assert page.index("fig-pca-06") < page.index("fig-rotation-01")


@pytest.mark.test_all
def test_collages_that_have_no_room_are_named(qkscope, results, tmp_path):
    """Each kind has its turn until the page is full, and the others are named."""
    figures = results / "figures"
    figures.mkdir()
    for kind in ("pca-06-collage", "rotation-01-plane", "rotation-08-complement"):
        for i in range(60):
            (figures / f"{kind}-{i:02}.svg").write_text(svg(600, 400, "A" * 100_000))
    page = page_of(qkscope, results)
    shown = re.findall(r'id="fig-(pca-06|rotation-01|rotation-08)-\w+-(\d\d)"', page)
    assert 10_000_000 < len(page.encode()) < 12_000_000 and 90 < len(shown) < 120
    assert {kind for kind, i in shown if i == "25"} == {"pca-06", "rotation-01", "rotation-08"}
    assert page.count("</bdi>.svg</code>") == 180 - len(shown) and 'href="figures/' not in page
    alone = page_of(qkscope, results, "--alone")
    assert "<code>figures/" not in alone and "Too many for one page, and not shown, are" in alone


def test_a_long_manifest_is_shortened(qkscope, results, tmp_path):
    inputs = [{"file": f"l{i:02d}h00q/data.parquet", "bytes": i} for i in range(5000)]
    (results / "manifest.json").write_text(json.dumps(
        {"version": "1", "command_line": "qkscope pca '<x>'", "inputs": inputs, "seed": 7}))
    page = page_drawn(qkscope, results)
    assert "... 4997 more" in page and "l02h00q" in page and "l03h00q" not in page
    assert "qkscope pca '&lt;x&gt;'" in page
    (results / "manifest.json").write_text("{broken")
    for force in ([], ["--force"]):
        said = qkscope("report", results, *force, expect=1)
        assert "manifest.json: byte 2: expected a key" in said.err and "remove this file" in said.err


@pytest.mark.test_all
def test_a_manifest_of_nothing_but_small_values_is_refused(qkscope, results):
    """Ten million empty objects are 30 MB on disk, and would take 2 GB of memory, twice."""
    (results / "manifest.json").write_bytes(b'{"x":[' + b"{}," * 10_000_000 + b"{}]}")
    said = qkscope("report", results, expect=1)
    assert re.search(r"results\S*/manifest.json: byte \d+: more values than manifest.json may have: they would take over "
                     "256 MB of memory", said.err) and "remove this file" in said.err
