# SPDX-License-Identifier: Apache-2.0
"""qkscope report as a command: what it writes and prints, mistakes, figures that fail, collages that
lie in the folder."""
import base64
import io
import json
import os
import re

import pytest

from figure_files import NO_PICTURES, needs_gnuplot
from made_tables import make_heads, write_results
from report_pages import failing_gnuplot, findings, page_of, plain_png, png


@pytest.fixture
def results(tmp_path):
    rows = make_heads("m", 4, 4, 2)
    return write_results(tmp_path / "results", rows, buckets=4, bins=2, dim=4)


def noise(side):
    return png([os.urandom(3 * side) for _ in range(side)])


def test_what_it_says(qkscope, results, tmp_path):
    out = tmp_path / "elsewhere with space"
    said = qkscope("report", results, "-o", out, "--json", env=NO_PICTURES, expect=0)
    outcome = json.loads(said.out)
    page = out / "report.html"
    assert outcome["models"] == 1 and outcome["heads"] == 16 and outcome["failures"] == []
    assert outcome["html"] == str(page) and outcome["html_bytes"] == page.stat().st_size
    drawn = sorted(f.stem for f in (out / "figures").glob("*.gp"))
    assert outcome["figures"] == len(drawn) > 0
    for name in drawn:
        for ending in ("dat", "png", "svg"):
            assert (out / "figures" / f"{name}.{ending}").stat().st_size > 0
    assert not (results / "report.html").exists()
    text = qkscope("report", results, "-o", out, env=NO_PICTURES, expect=0).out
    assert re.match(rf"1 model, 16 heads, {len(drawn)} figures in [\d.]+ s\n", text)
    assert f"{page} (" in text
    assert qkscope("report", results, "-o", out, "--quiet", env=NO_PICTURES, expect=0).out == ""


def test_figures_alone(qkscope, results):
    qkscope("report", results, "--no-html", "--format", "pdf", env=NO_PICTURES, expect=0)
    assert not (results / "report.html").exists()
    kinds = {f.suffix for f in (results / "figures").iterdir()}
    assert kinds == {".gp", ".dat", ".md", ".pdf"}


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
        qkscope("report", results, "--alone", "-o", name, env=NO_PICTURES, expect=0, cwd=tmp_path)
        assert [path.name for path in (tmp_path / name).iterdir()] == ["report.html"]


def test_the_page_alone(qkscope, results, tmp_path):
    """Without figures beside it, nothing on it speaks of them; all else is the same, and nothing leads out."""
    qkscope("report", results, "-o", tmp_path / "both", env=NO_PICTURES, expect=0)
    text = qkscope("report", results, "-o", tmp_path / "alone", "--alone", env=NO_PICTURES, expect=0).out
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["report.html"] and "/figures" not in text
    both, alone = ((tmp_path / name / "report.html").read_text() for name in ("both", "alone"))
    assert "<code>figures/" in both and "<code>figures/" not in alone
    assert re.sub(r"<span>In the folder of the results: .*?</span>", "", both) == alone
    assert set(re.findall(r'(?:href|src)="([^"]{0,5})', both.split("<script>")[0])) <= {"data:", *re.findall(r'href="(#[^"]{0,4})', both)}
    for other in (["--no-html"], ["--figure", "pca-02-rq-rk-scatter"]):
        done = qkscope("report", results, "-o", tmp_path / "none", "--alone", *other)
        assert done.code == 2 and "without the page" in done.err and not (tmp_path / "none").exists()


@pytest.mark.test_all
@needs_gnuplot
@pytest.mark.parametrize("theme", ["screen", "dark"])
def test_themes(qkscope, results, theme):
    """Whatever the files look like, on the page they take its colours."""
    qkscope("report", results, "--theme", theme, expect=0)
    page = (results / "report.html").read_text()
    assert page.count("var(--fig-ink)") > 20 and 'fill="var(--fig-bg)"' in page


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
    path = failing_gnuplot(tmp_path / "bin")
    outcome = qkscope("report", results, env={"PATH": path}, expect=3)
    assert "no pictures today" in outcome.err and "0 figures" in outcome.out
    page = (results / "report.html").read_text()
    assert "Figures that could not be drawn" in page and "no pictures today" in page
    assert "<code>pca-01-pc-roles</code>" in page and findings(page)


def test_no_gnuplot(qkscope, results, tmp_path):
    (tmp_path / "nothing").mkdir()
    outcome = qkscope("report", results, env={"PATH": tmp_path / "nothing"}, expect=3)
    assert outcome.err.count("gnuplot-nox") == 1, "one remedy for all figures"
    assert "Figures that could not be drawn" in (results / "report.html").read_text()


def test_collages_in_the_folder(qkscope, results, tmp_path):
    figures = results / "figures"
    figures.mkdir()
    (figures / "pca-06-collage-a.png").write_bytes(plain_png(40, 20))
    (figures / "pca-06-collage-m.png").write_bytes(plain_png(40, 20))  # the model's: first
    (figures / "rotation-01-plane-a b'\"<x>.png").write_bytes(plain_png(60, 30))
    (figures / "rotation-01-plane-broken.png").write_bytes(b"not a picture")
    (figures / "other.png").write_bytes(plain_png(10, 10))
    page = page_of(qkscope, results, failing_gnuplot(tmp_path / "bin"))
    assert page.count('src="data:image/png;base64,') == 3
    assert page.index("fig-pca-06-collage-m") < page.index("fig-pca-06-collage-a")
    assert "<figcaption><bdi>m</bdi>" in page and "<bdi>pca-06-collage-a</bdi>" in page
    assert 'style="aspect-ratio:20/10"' in page
    assert page.index("fig-pca-06-collage-m") < page.index("fig-rotation-01-plane-a")
    assert "<code>figures/rotation-01-plane-a b&#39;&quot;&lt;x&gt;.*</code>" in page
    assert "<code><bdi>rotation-01-plane-broken</bdi>.png</code>" in page and 'href="figures/' not in page
    assert "other.png" not in page
    qkscope("report", results, env=NO_PICTURES, expect=0)  # now among the others, in their order
    page = (results / "report.html").read_text()
    order = re.findall(r'<figure(?: class="\w+")? id="fig-((?:pca|rotation)-\d\d)', page)
    pca = [name for name in order if name.startswith("pca")]
    assert "pca-06" in pca and pca == sorted(pca)
    assert page.index("fig-pca-06") < page.index("fig-rotation-01")


def collages(page):
    """Size, in pixels, and colours of each picture of the page."""
    image = pytest.importorskip("PIL.Image")
    found = [image.open(io.BytesIO(base64.b64decode(data)))
             for data in re.findall(r'src="data:image/png;base64,([^"]*)"', page)]
    return [(picture.size, len(picture.getcolors())) for picture in found]


@pytest.mark.test_all
def test_many_collages_are_smaller(qkscope, results, tmp_path):
    """All have room, in fewer colours or at a fourth of the size; where even that is too much, each kind has its
    turn, and the others are named."""
    figures = results / "figures"
    figures.mkdir()
    kinds = ("pca-06-collage", "rotation-01-plane", "rotation-08-complement")
    seen = []
    for side, count in ((600, 2), (1200, 9), (1440, 60)):
        picture = noise(side)
        for kind in kinds:
            for i in range(count):
                (figures / f"{kind}-{i:02}.png").write_bytes(picture)
        page = page_of(qkscope, results, failing_gnuplot(tmp_path / "bin"))
        assert len(page.encode()) < 12_000_000
        seen.append(collages(page))
    assert set(seen[0]) == {((300, 300), 256)} and len(seen[0]) == 6
    assert set(seen[1]) == {((600, 600), 48)} and len(seen[1]) == 27
    assert set(seen[2]) == {((360, 360), 16)} and 60 <= len(seen[2]) < 180
    shown = re.findall(r'id="fig-(pca-06|rotation-01|rotation-08)-\w+-(\d\d)"', page)
    assert {kind for kind, i in shown if i == "01"} == {"pca-06", "rotation-01", "rotation-08"}
    assert page.count("</bdi>.png</code>") == 180 - len(shown) and 'href="figures/' not in page
    alone = page_of(qkscope, results, failing_gnuplot(tmp_path / "bin"), "--alone")
    assert "<code>figures/" not in alone and "Too many for one page, and not shown, are" in alone


@pytest.mark.test_all
def test_pictures_are_halved(qkscope, results, tmp_path):
    """Against Pillow: the same means, in the nearest of 256 colours."""
    image = pytest.importorskip("PIL.Image")
    numpy = pytest.importorskip("numpy")
    y, x = numpy.mgrid[0:201, 0:301]
    full = numpy.stack([x * 255 // 300, y * 255 // 200, (x + y) % 256], axis=2).astype("uint8")
    full[50:100, 50:100] = [200, 30, 30]
    (results / "figures").mkdir()
    for name, mode in (("a", "RGB"), ("b", "RGBA")):
        image.fromarray(full).convert(mode).save(
            results / "figures" / f"pca-06-collage-{name}.png", optimize=True)
    page = page_of(qkscope, results, failing_gnuplot(tmp_path / "bin"))
    found = re.findall(r'src="data:image/png;base64,([^"]*)"', page)
    assert len(found) == 2
    for data in found:
        small = image.open(io.BytesIO(base64.b64decode(data)))
        small.verify()
        small = image.open(io.BytesIO(base64.b64decode(data)))
        assert small.size == (150, 100) and small.mode == "P"
        exact = full[:200, :300].reshape(100, 2, 150, 2, 3).mean(axis=(1, 3))
        off = numpy.abs(numpy.asarray(small.convert("RGB"), float) - exact)
        assert off.mean() < 12 and off[26:49, 26:49].max() <= 8


def test_a_long_manifest_is_shortened(qkscope, results, tmp_path):
    inputs = [{"file": f"l{i:02d}h00q/data.parquet", "bytes": i} for i in range(5000)]
    (results / "manifest.json").write_text(json.dumps(
        {"version": "1", "command_line": "qkscope pca '<x>'", "inputs": inputs, "seed": 7}))
    page = page_of(qkscope, results, failing_gnuplot(tmp_path / "bin"))
    assert "... 4997 more" in page and "l02h00q" in page and "l03h00q" not in page
    assert "qkscope pca &#39;&lt;x&gt;&#39;" in page
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
