# SPDX-License-Identifier: Apache-2.0
"""Figures and reports from Python are those of the command, and show themselves in a notebook."""
import re
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest

from conftest import EXAMPLE

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

NAME = "pca-02-rq-rk-scatter"


@pytest.fixture(scope="module")
def results():
    return qk.analyze(EXAMPLE, layers="0,1", ci=95, progress=False)


def test_rows_of_heads(qkscope, results, tmp_path):
    """scatter draws what the command draws; project has all rows, whose correlations are those of the table."""
    qkscope("scatter", EXAMPLE, "--heads", "1:2", "-o", tmp_path, expect=0)
    [figure] = results.scatter("1:2")
    assert figure.svg == (tmp_path / f"{figure.name}.svg").read_text()
    rows = results.project(1, 2, (0, 1, 2))
    table = {int(pc): r for layer, head, pc, r in zip(*(results.qk[n] for n in ("layer", "q_head", "pc", "r_q")), strict=True)
             if (layer, head) == (1, 2)}
    found = [np.corrcoef(rows.query_positions, rows.queries[:, i])[0, 1] for i in range(3)]
    np.testing.assert_allclose(found, [table[i] for i in range(3)], rtol=1e-9)
    keys = qk.open(EXAMPLE).head(1, 1, "k").read()
    assert rows.keys.shape == (len(keys.position), 3) and sorted(rows.key_positions) == sorted(keys.position)
    assert results.project(1, 2, [3], max_samples=50).queries.shape == (50, 1)
    assert results.project(1, 2, basis="ab").queries.shape[1] == 2
    with pytest.raises(TypeError, match="no option 'nonsense'"):
        results.scatter("1:2", nonsense=1)


@pytest.fixture(scope="module")
def drawn(qkscope, results, tmp_path_factory):
    """What `qkscope report` makes of the same tables."""
    if not shutil.which("rsvg-convert"):
        pytest.skip("rsvg-convert makes the pictures")
    folder = results.save(tmp_path_factory.mktemp("command") / "saved")
    qkscope("report", folder, "--title", "Drift of <heads>", "--format", "png,pdf", expect=0)
    qkscope("report", folder, "-o", folder / "page", "--title", "Drift of <heads>", "--alone", expect=0)
    return folder


def elements(page):
    """The names of the elements of a fragment, which are all closed."""
    return [element.tag for element in ElementTree.fromstring(f"<all>{page}</all>").iter()][1:]


# ---- figures ------------------------------------------------------------------------------

@pytest.mark.test_all
def test_names_are_those_that_the_command_draws(results, drawn):
    there = {path.stem for path in (drawn / "figures").glob("*.svg")}
    assert set(results.figures) == there and NAME in there and len(there) == len(results.figures)


@pytest.mark.test_all
@pytest.mark.parametrize("which", [-1, NAME])
def test_pictures_are_those_of_the_command(results, drawn, which):
    name = which if isinstance(which, str) else results.figures[which]
    figure = results.figure(name)
    assert figure.name == name and repr(figure) == f"<Figure {name}>"
    for kind, ours in (("svg", figure.svg.encode()), ("png", figure.png)):
        assert ours == (drawn / "figures" / f"{name}.{kind}").read_bytes(), kind
    assert figure.pdf.startswith(b"%PDF-") and figure.png.startswith(b"\x89PNG")
    note, theirs = figure.note, (drawn / "figures" / f"{name}.md").read_text()
    assert note.split("In this folder")[0].split("`results")[0] == theirs.split("In this folder")[0]
    assert f'`results.figure("{name}")` draws it again.\n' in note
    assert note.partition("## What")[2] == theirs.partition("## What")[2]
    assert note == results.figure(name).note, "no folder of this run is in it"


def test_a_figure_shows_itself(results, tmp_path):
    figure = results.figure(NAME)
    assert ElementTree.fromstring(figure._repr_svg_()).tag == "{http://www.w3.org/2000/svg}svg"
    for end in ("svg", "csv", "md"):
        figure.save(tmp_path / f"figure.{end}")
        assert (tmp_path / f"figure.{end}").stat().st_size > 300
    with pytest.raises(ValueError, match="figure.jpg: a figure is saved as .svg, .png, .pdf, .csv or .md"):
        figure.save(tmp_path / "figure.jpg")
    with pytest.raises(FileNotFoundError):
        figure.save(tmp_path / "nowhere" / "figure.svg")
    assert len(list(tmp_path.iterdir())) == 3
    assert 'width="85mm"' in results.figure(NAME, width=85).svg
    with pytest.raises(qk.ArgumentError, match="width=5: expected a whole number of mm from 60 to 400"):
        results.figure(NAME, width=5)
    assert results.figure(NAME, theme="dark").svg != figure.svg


def test_figures_that_there_are_not(results):
    with pytest.raises(ValueError, match="figure pca-99: of these results there are map-01-r-q, .*, pca-02-rq-rk-scatter, "):
        results.figure("pca-99")
    with pytest.raises(qk.ArgumentError, match="theme='neon': expected paper, screen or dark"):
        results.figure(NAME, theme="neon")


def test_closed_results():
    with qk.pca(EXAMPLE, layers=0, progress=False) as closed:
        kept = closed.heads
    assert len(kept) == 4
    for use in (lambda: closed.figure(NAME), lambda: closed.figures, closed.report, lambda: closed.manifest,
                lambda: closed.save("nowhere")):
        with pytest.raises(FileNotFoundError, match="are not there any more; save before close"):
            use()


def test_without_rsvg_convert(results, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    figure = results.figure(NAME)
    with pytest.raises(qk.Error, match="rsvg-convert was not found"):
        figure.save(tmp_path / "f.pdf")
    assert figure.csv.startswith("panel,series,") and not list(tmp_path.iterdir())


# ---- the report ---------------------------------------------------------------------------

@pytest.mark.test_all
def test_the_page_is_the_one_of_the_command(results, drawn, tmp_path):
    report = results.report(tmp_path / "page.html", title="Drift of <heads>", progress=False)
    page = (tmp_path / "page.html").read_bytes()
    assert report.html.encode() == page
    assert page == (drawn / "page" / "report.html").read_bytes()
    assert "<code>figures/" not in report.html and "<code>figures/" in (drawn / "report.html").read_text()
    assert "Drift of &lt;heads&gt;" in report.html
    assert elements(report._repr_html_()) == ["iframe"] and len(report._repr_html_()) > len(page)
    report.save(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "report.html"]
    assert not (results.folder / "report.html").exists()  # nothing is added to the run's own files


# ---- tables and results -------------------------------------------------------------------

def test_results_and_tables_show_themselves(results):
    seen = elements(results._repr_html_())
    assert seen.count("tr") == len(results.tables) + 1
    for name in results:
        page = results[name]._repr_html_()
        seen = elements(page)
        assert seen.count("th") == len(results[name].names) and seen.count("tr") == 1 + min(len(results[name]), 10)
        assert ">nan<" not in page and (bool(re.search("<td[^>]*></td>", page))) == (None in sum(
            (results[name].column(column)[:10] for column in results[name].names), []))
    assert repr(results).startswith("<Results of kjv-tiny step-2004: 8 heads; qk, heads, ")
    assert {"heads", "qk", "save", "report"} <= set(dir(results))


def test_what_is_shown_is_escaped(tmp_path):
    results = qk.pca(EXAMPLE, layers=0, model_name="<b>&\"'", progress=False)
    for page in (results._repr_html_(), results.qk._repr_html_()):
        assert "&lt;b&gt;&amp;&quot;&#x27;" in page and "&\"'" not in page
        assert elements(page)
