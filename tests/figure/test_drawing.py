# SPDX-License-Identifier: Apache-2.0
"""The gnuplot driver: odd folders, gnuplot missing or failing, what is left behind, and the same picture whoever draws it."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from conftest import environment
from figure_files import NO_PICTURES, draw_texts, helper, needs_gnuplot

TEXTS = ["first", "second", "r² > 0.9", "it's", "漢字"]
NOT_FOUND, IO = 4, 3  # of qk_status
PARTS = ["sample.dat", "sample.gp", "sample.png", "sample.svg"]


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def contents(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def fake_gnuplot(path, body):
    """A gnuplot of shell: $FORMAT is what it is asked to draw, $PICTURE its file."""
    path.write_text("#!/bin/sh\nFORMAT=${3#*\\'}; FORMAT=${FORMAT%\\'}\n"
                    "PICTURE=$(basename \"$4\" .gp).$FORMAT\n" + body)
    path.chmod(0o755)
    return path


WHOLE = "printf '%s' '<svg>a whole picture, of a kind</svg>IEND%%EOF' > $PICTURE\n"


# ---- folders ---------------------------------------------------------------------------------

@pytest.mark.cases(20)
@pytest.mark.parametrize("name", [
    "a b", "it's", 'a "quoted" one', "new\nline", "漢字 é", "-e", "--version", "$HOME", "`touch x`", "a;b",
    "#", "back\\slash", "{}", "%d", " ", "x" * 200, "deep/er/and/deeper", "./.", "a/../b"])
def test_folder_names(tmp_path, name):
    """What gnuplot is told is a name in its folder, never a path: so that these are no text that it may read otherwise."""
    helper("draw_texts")
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", '[ -f "$4" ] || exit 9\n' + WHOLE)
    (tmp_path / "in").mkdir()
    done = draw_texts(name, TEXTS, cwd=tmp_path / "in", formats="png,svg,pdf", gnuplot=gnuplot)
    assert done.code == 0, done.err
    assert names(tmp_path / "in" / name) == sorted(PARTS + ["sample.pdf"])


@needs_gnuplot
def test_a_folder_whose_name_is_not_text(tmp_path):
    folder = os.fsencode(tmp_path) + b"/it's\xff\xfe"
    assert draw_texts(folder, TEXTS, formats="svg").code == 0
    assert len(os.listdir(folder)) == 3


def test_existing_files_are_left_alone(tmp_path):
    """What is written has the usual permissions."""
    for name in ("other.png", ".hidden", "sample"):
        (tmp_path / name).write_text(name)
    old = os.umask(0o027)
    try:
        assert draw_texts(tmp_path, TEXTS, env=NO_PICTURES).code == 0
    finally:
        os.umask(old)
    assert names(tmp_path) == sorted(PARTS + ["other.png", ".hidden", "sample"])
    assert (tmp_path / "other.png").read_text() == "other.png"
    assert {(tmp_path / p).stat().st_mode & 0o777 for p in PARTS} == {0o640}


def unprivileged():
    """A wrapper that may not write everywhere; none is needed without root."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("as root, and there is no setpriv")
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_folder_that_is_read_only():
    wrapper = unprivileged()
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        folder = pathlib.Path(parent) / "locked"
        folder.mkdir(mode=0o555)
        done = draw_texts(folder, TEXTS, wrapper=wrapper)
        if "draw_texts" in done.err:
            pytest.skip("the build folder is out of reach without root")
        assert done.code == IO, done.err
        assert "figure sample" in done.err and str(folder) in done.err
        assert names(folder) == []


def test_what_is_in_the_way(tmp_path):
    """A file where the folder should be, a folder where a picture should be."""
    (tmp_path / "file").write_text("text")
    done = draw_texts(tmp_path / "file", TEXTS, env=NO_PICTURES)
    assert done.code != 0 and str(tmp_path / "file") in done.err and (tmp_path / "file").read_text() == "text"
    (tmp_path / "f" / "sample.svg").mkdir(parents=True)
    done = draw_texts(tmp_path / "f", TEXTS, env=NO_PICTURES)
    assert done.code == IO and "sample.svg" in done.err
    assert not any(n.startswith(".") for n in names(tmp_path / "f"))


# ---- gnuplot that is missing or fails --------------------------------------------------------

def test_no_gnuplot(tmp_path):
    for options in ({"gnuplot": "no-such-gnuplot"}, {"gnuplot": "./no/gnuplot"}, {"env": {"PATH": str(tmp_path)}}):
        done = draw_texts(tmp_path, TEXTS, **options)
        assert done.code == NOT_FOUND and names(tmp_path) == []
        assert "figure sample" in done.err and options.get("gnuplot", "gnuplot") in done.err and "gnuplot-nox" in done.err


def test_gnuplot_by_path(tmp_path):
    (tmp_path / "tools").mkdir()
    fake_gnuplot(tmp_path / "tools" / "my gnuplot", WHOLE)
    done = draw_texts("figures", TEXTS, cwd=tmp_path, gnuplot="tools/my gnuplot")
    assert done.code == 0, done.err


FAILURES = {
    "exit code": ("exit 3", "gnuplot ended with 3"),
    "last line of what it says": ("echo first >&2; echo '   ^' >&2; echo 'x: unknown command' >&2; echo >&2; exit 1",
                                  "x: unknown command"),
    "words without an exit code": (WHOLE + "echo 'something else' >&2", "something else"),
    "no picture": ("exit 0", "made no png"),
    "killed": ("kill -KILL $$", "gnuplot ended with 137"),
    "part of a picture": ("printf 'PNG' > $PICTURE", "only a part"),
    "empty picture": (": > $PICTURE", "only a part"),
    "control characters": ("printf 'a\\033[31mb\\a\\n' >&2; exit 1", "a?[31mb?"),
    "much": ("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1", "xxx"),
    "zero bytes": ("printf 'a\\000b\\n' >&2; exit 1", "gnuplot ended with 1"),
    "other files": ("echo x > junk; echo x > .junk; exit 1", "gnuplot ended with 1"),
    "one format of several": ("[ $FORMAT = svg ] && exit 9\n" + WHOLE, "gnuplot ended with 9"),
}


@pytest.mark.cases(12)
@pytest.mark.parametrize("failure", FAILURES)
def test_failures(tmp_path, failure):
    """The files of an earlier run stay, and none of this one."""
    body, expected = FAILURES[failure]
    figures = tmp_path / "figures"
    assert draw_texts(figures, TEXTS, env=NO_PICTURES).code == 0
    before = contents(figures)
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", body)
    for folder in (figures, tmp_path / "new"):
        done = draw_texts(folder, ["changed"], gnuplot=gnuplot)
        assert done.code == IO, done.err
        assert "figure sample" in done.err and expected in done.err, done.err
        assert len(done.err.encode()) < 1100 and "\x1b" not in done.err
    assert contents(figures) == before
    assert names(tmp_path / "new") == []


@pytest.mark.parametrize("words", [
    "Fontconfig error: No writable cache directories",
    "gnuplot: line 3: warning: difficulty making room for xtic labels",
    "Warning: empty y range [0:0], adjusting to [-1:1]",
    "(process:12): Pango-WARNING **: 10:00:00.000: something"])
def test_warnings_are_no_failures(tmp_path, words):
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", f"printf '%s\\n' '{words}' >&2\n{WHOLE}")
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot)
    assert done.code == 0, done.err


def test_one_figure_of_many_fails(tmp_path):
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", "case $4 in *-2.gp) exit 5;; esac\n" + WHOLE)
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot, formats="svg", times=5, threads=2)
    assert done.code == IO and "figure sample-2: gnuplot ended with 5" in done.err
    assert names(tmp_path / "figures") == sorted(f"sample-{i}.{e}" for i in (0, 1, 3, 4)
                                                 for e in ("dat", "gp", "svg"))


@needs_gnuplot
def test_files_may_not_grow(tmp_path):
    """As on a full disk: gnuplot itself says nothing of it, and its exit code is 0."""
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", "ulimit -f 4; exec gnuplot \"$@\"\n")
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot, formats="svg")
    assert done.code == IO, done.err
    assert names(tmp_path / "figures") == []


# ---- the same picture ------------------------------------------------------------------------

@needs_gnuplot
def test_drawn_again_by_hand(tmp_path):
    """What a user may type in the folder draws the same, and gnuplot has nothing to say of it."""
    assert draw_texts(tmp_path, TEXTS, formats="svg").code == 0
    (tmp_path / "sample.svg").rename(tmp_path / "drawn.svg")
    done = subprocess.run(["gnuplot", "-e", "format='svg'", "sample.gp"], cwd=tmp_path, capture_output=True, text=True,
                          env=environment({"LC_ALL": "C.UTF-8"}), stdin=subprocess.DEVNULL, timeout=900)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert (tmp_path / "sample.svg").read_bytes() == (tmp_path / "drawn.svg").read_bytes()


def test_any_number_of_threads(tmp_path):
    for threads in (1, 4):
        assert draw_texts(tmp_path / str(threads), TEXTS, times=8, threads=threads, env=NO_PICTURES).code == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "4")
    assert len(names(tmp_path / "1")) == 8 * len(PARTS)


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """Settings for a program to write 0,5: a locale made for the test."""
    folder = tmp_path_factory.mktemp("locales")
    if not shutil.which("localedef"):
        pytest.skip("there is no localedef")
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", folder / "de_DE.UTF-8"],
                          capture_output=True)
    if not (folder / "de_DE.UTF-8" / "LC_NUMERIC").exists():
        pytest.skip(f"localedef cannot make de_DE: {made.stderr.decode()}")
    env = {"LOCPATH": folder, "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LANGUAGE": "de"}
    probe = subprocess.run(["bash", "-c", "printf %.1f 0,5"], capture_output=True, text=True, env=environment(env))
    assert probe.stdout == "0,5"  # the locale works
    return env


def same(folder, *environments):
    made = []
    for i, changes in enumerate(({}, *environments)):
        done = draw_texts(folder / str(i), TEXTS, env=changes, formats="svg")
        assert done.code == 0, done.err
        made.append(contents(folder / str(i)))
    assert all(one == made[0] for one in made)


@needs_gnuplot
def test_what_a_user_has_set_does_not_matter(tmp_path):
    home = tmp_path / "home"
    (home / ".config" / "gnuplot").mkdir(parents=True)
    for file in (".gnuplot", ".config/gnuplot/gnuplotrc"):
        (home / file).write_text("set title 'mine'\nset xrange [5:6]\nset terminal dumb\nformat='pdf'\n")
    same(tmp_path, {"HOME": home, "XDG_CONFIG_HOME": home / ".config", "GNUTERM": "dumb", "GNUPLOT_LIB": home,
                    "GNUPLOT_DEFAULT_GDFONT": "none", "TERM": "xterm", "DISPLAY": ":9", "COLUMNS": "20", "TZ": "Asia/Tokyo",
                    "LC_ALL": "xx_YY.UTF-8"})


@pytest.mark.test_all
@needs_gnuplot
def test_other_locales(tmp_path, german):
    same(tmp_path, german, {"LC_ALL": "POSIX"}, {"LC_ALL": "C.UTF-8"}, {"LC_ALL": ""})
