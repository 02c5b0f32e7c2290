# SPDX-License-Identifier: Apache-2.0
"""The files of a figure: odd folders, what is in the way, what is left behind, the same bytes for any number of threads; and PNG and
PDF, for which rsvg-convert may be missing or fail."""
import os
import re

import pytest

from drawn_studies import SIZES
from figure_files import WHOLE, fake_converter, needs_rsvg
from made_tables import make_heads, write_results

ONE = "pca-01-pc-roles"


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.fixture
def results(tmp_path):
    return write_results(tmp_path / "tables", make_heads("m", 4, 4, 2), tables=("pca",), **SIZES)


def drawing(qkscope, results, out, *options, **how):
    return qkscope("report", results, "-o", out, "--figure", ONE, *options, **how)


# ---- folders ---------------------------------------------------------------------------------

@pytest.mark.cases(6)
@pytest.mark.parametrize("name", ["a b", "it's", 'a "quoted" one', "new\nline", "漢字 é", "$HOME", "`touch x`", "#", "back\\slash", "x" * 200, "deep/er"])
def test_folder_names(qkscope, results, tmp_path, name):
    """What rsvg-convert is told is a name in its folder, never a path."""
    done = drawing(qkscope, results, tmp_path / "in" / name, "--format", "png,pdf", env=fake_converter(tmp_path / "bin", '[ -f "$word" ] || exit 9\n' + WHOLE))
    assert done.code == 0, done.err
    assert sorted(contents(tmp_path / "in" / name / "figures")) == sorted([f"{ONE}.{e}" for e in ("csv", "md", "pdf", "png", "svg")] + ["README.md"])


def test_existing_files_are_left_alone(qkscope, results, tmp_path):
    """What is written has the usual permissions; scripts of an earlier version go."""
    figures = tmp_path / "out" / "figures"
    figures.mkdir(parents=True)
    for name in ("other.png", ".hidden", f"{ONE}.gp", f"{ONE}.dat", f"{ONE}.png"):
        (figures / name).write_text(name)
    old = os.umask(0o027)
    try:
        drawing(qkscope, results, tmp_path / "out", expect=0)
    finally:
        os.umask(old)
    assert sorted(contents(figures)) == sorted([f"{ONE}.csv", f"{ONE}.md", f"{ONE}.svg", "README.md", "other.png", ".hidden"])
    assert {(figures / f"{ONE}.{e}").stat().st_mode & 0o777 for e in ("csv", "svg", "md")} == {0o640}


def test_what_is_in_the_way(qkscope, results, tmp_path):
    figures = tmp_path / "out" / "figures"
    (figures / f"{ONE}.svg").mkdir(parents=True)
    done = drawing(qkscope, results, tmp_path / "out")
    assert done.code != 0 and f"{ONE}.svg" in done.err
    assert not any(n.startswith(".") for n in os.listdir(figures))


def test_any_number_of_threads(qkscope, results, tmp_path):
    for threads in (1, 4):
        qkscope("report", results, "-o", tmp_path / str(threads), "--no-html", "--threads", threads, expect=0)
    ours, theirs = (contents(tmp_path / name / "figures") for name in ("1", "4"))
    assert ours == theirs and len(ours) > 10


# ---- other pictures ----------------------------------------------------------------------------

def test_no_rsvg_convert(qkscope, results, tmp_path):
    """A drawing needs no other program; a picture says which it needs, and whence."""
    drawing(qkscope, results, tmp_path / "svg", env={"PATH": str(tmp_path)}, expect=0)
    done = drawing(qkscope, results, tmp_path / "png", "--format", "png", env={"PATH": str(tmp_path)})
    assert done.code != 0 and f"figure {ONE}" in done.err and "rsvg-convert" in done.err and "librsvg2-bin" in done.err
    assert not (tmp_path / "png" / "figures" / f"{ONE}.svg").exists()


FAILURES = {
    "exit code": ("exit 3", "rsvg-convert ended with 3"),
    "last line of what it says": ("echo first >&2; echo 'x: cannot' >&2; echo >&2; exit 1", "x: cannot"),
    "no picture": ("exit 0", "made no png"),
    "killed": ("kill -KILL $$", "rsvg-convert ended with 137"),
    "part of a picture": ("printf 'PNG' > $OUT", "only a part"),
    "control characters": ("printf 'a\\033[31mb\\a\\n' >&2; exit 1", "a?[31mb?"),
    "much": ("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1", "xxx"),
    "one format of several": ("[ $FORMAT = pdf ] && exit 9\n" + WHOLE, "rsvg-convert ended with 9"),
}


@pytest.mark.cases(8)
@pytest.mark.parametrize("failure", FAILURES)
def test_failures(qkscope, results, tmp_path, failure):
    """The files of an earlier run stay, and none of this one."""
    body, expected = FAILURES[failure]
    drawing(qkscope, results, tmp_path / "out", "--theme", "dark", expect=0)
    before = contents(tmp_path / "out" / "figures")
    for out in ("out", "new"):
        done = drawing(qkscope, results, tmp_path / out, "--format", "png,pdf", env=fake_converter(tmp_path / "bin", body))
        assert done.code != 0 and f"figure {ONE}" in done.err and expected in done.err, done.err
        assert len(done.err.encode()) < 1500 and "\x1b" not in done.err
    assert contents(tmp_path / "out" / "figures") == before
    assert not list((tmp_path / "new").rglob("*.svg"))


@needs_rsvg
@pytest.mark.parametrize("options, size", [([], (1600, None)), (["--width", "85mm"], (1005, None))])
def test_pictures(qkscope, results, tmp_path, options, size):
    """A PNG at twice the size, or for print; a PDF of the same proportions."""
    drawing(qkscope, results, tmp_path / "out", "--format", "png,pdf", *options, expect=0)
    figure = tmp_path / "out" / "figures" / ONE
    png, pdf = figure.with_suffix(".png").read_bytes(), figure.with_suffix(".pdf").read_bytes()
    width, height = (int.from_bytes(png[i:i + 4], "big") for i in (16, 20))
    box = [float(x) for x in re.search(rb"/MediaBox \[ ?(\S+) (\S+) (\S+) (\S+)", pdf).groups()]
    assert width == size[0] and box[2] / box[3] == pytest.approx(width / height, rel=0.01)
    assert box[2] == pytest.approx(85 / 25.4 * 72 if options else 8 * 72, abs=1)


def test_formats(qkscope, results, tmp_path):
    """svg is what there always is; png and pdf stand beside it."""
    for formats, endings in (("svg", ["csv", "md", "svg"]), ("png", ["csv", "md", "png", "svg"])):
        out = tmp_path / formats
        drawing(qkscope, results, out, "--format", formats, env=fake_converter(tmp_path / "bin", WHOLE), expect=0)
        assert sorted(p.suffix[1:] for p in (out / "figures").glob(f"{ONE}*")) == endings

