# SPDX-License-Identifier: Apache-2.0
"""The gnuplot driver: odd folders, gnuplot missing or failing, what is left behind, and the same
picture whoever draws it."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest

from conftest import environment
from figure_files import draw_texts, needs_gnuplot, read_svg, svg_texts
from svg_pictures import pdf_objects, pdf_page

TEXTS = ["first", "second", "r² > 0.9", "it's", "漢字"]
NOT_FOUND, IO = 4, 3  # of qk_status
PARTS = ["sample.dat", "sample.gp", "sample.png", "sample.svg"]

pytestmark = needs_gnuplot


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


# ---- folders ---------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [
    "a b", "it's", 'a "quoted" one', "new\nline", "漢字 é", "-e", "--version", "$HOME", "`touch x`", "a;b",
    "#", "back\\slash", "{}", "%d", " ", "x" * 200, "deep/er/and/deeper", "./.", "a/../b"])
def test_folder_names(tmp_path, name):
    done = draw_texts(name, TEXTS, cwd=tmp_path, formats="png,svg,pdf")
    assert done.code == 0, done.err
    assert names(tmp_path / name) == sorted(PARTS + ["sample.pdf"])


def test_folder_name_that_is_not_text(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    assert draw_texts(folder, TEXTS).code == 0
    assert len(os.listdir(folder)) == len(PARTS)


def test_existing_files_are_left_alone(tmp_path):
    for name in ("other.png", ".hidden", "sample"):
        (tmp_path / name).write_text(name)
    assert draw_texts(tmp_path, TEXTS).code == 0
    assert names(tmp_path) == sorted(PARTS + ["other.png", ".hidden", "sample"])
    assert (tmp_path / "other.png").read_text() == "other.png"


def test_files_get_the_usual_permissions(tmp_path):
    old = os.umask(0o027)
    try:
        assert draw_texts(tmp_path, TEXTS).code == 0
    finally:
        os.umask(old)
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


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("text")
    done = draw_texts(tmp_path / "file", TEXTS)
    assert done.code != 0 and str(tmp_path / "file") in done.err
    assert (tmp_path / "file").read_text() == "text"


def test_picture_that_is_a_folder(tmp_path):
    (tmp_path / "sample.svg").mkdir()
    done = draw_texts(tmp_path, TEXTS)
    assert done.code == IO
    assert "sample.svg" in done.err
    assert not any(n.startswith(".") for n in names(tmp_path))


# ---- gnuplot that is missing or fails --------------------------------------------------------

def test_no_gnuplot(tmp_path):
    for gnuplot in ("no-such-gnuplot", "./no/gnuplot"):
        done = draw_texts(tmp_path, TEXTS, gnuplot=gnuplot)
        assert done.code == NOT_FOUND
        assert "figure sample" in done.err and gnuplot in done.err and "gnuplot-nox" in done.err
        assert names(tmp_path) == []
    done = draw_texts(tmp_path, TEXTS, env={"PATH": str(tmp_path)})
    assert done.code == NOT_FOUND
    assert "gnuplot-nox" in done.err


def test_gnuplot_by_path(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "my gnuplot").symlink_to(shutil.which("gnuplot"))
    done = draw_texts("figures", TEXTS, cwd=tmp_path, gnuplot="tools/my gnuplot")
    assert done.code == 0, done.err


FAILURES = {
    "exit code": ("exit 3", "gnuplot ended with 3"),
    "last line of what it says": ("echo first >&2; echo '   ^' >&2; echo 'x: unknown command' >&2; echo >&2; exit 1",
                                  "x: unknown command"),
    "words without an exit code": ("printf '%s' '</svg>IEND%%EOF' > $PICTURE; echo 'something else' >&2", "something else"),
    "no picture": ("exit 0", "made no png"),
    "killed": ("kill -KILL $$", "gnuplot ended with 137"),
    "part of a picture": ("printf 'PNG' > $PICTURE", "only a part"),
    "empty picture": (": > $PICTURE", "only a part"),
    "control characters": ("printf 'a\\033[31mb\\a\\n' >&2; exit 1", "a?[31mb?"),
    "much": ("head -c 5000000 /dev/zero | tr '\\0' x >&2; exit 1", "xxx"),
    "zero bytes": ("printf 'a\\000b\\n' >&2; exit 1", "gnuplot ended with 1"),
    "other files": ("echo x > junk; echo x > .junk; exit 1", "gnuplot ended with 1"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failures(tmp_path, failure):
    body, expected = FAILURES[failure]
    figures = tmp_path / "figures"
    assert draw_texts(figures, TEXTS).code == 0
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
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", f"printf '%s\\n' '{words}' >&2; exec gnuplot \"$@\"\n")
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot)
    assert done.code == 0, done.err


def test_one_format_of_three_fails(tmp_path):
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", "[ $FORMAT = pdf ] && exit 9\nexec gnuplot \"$@\"\n")
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot, formats="png,svg,pdf")
    assert done.code == IO and "ended with 9" in done.err
    assert names(tmp_path / "figures") == []


def test_slow_gnuplot(tmp_path):
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", "sleep 1; exec gnuplot \"$@\"\n")
    start = time.monotonic()
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot, formats="svg", times=4, threads=4)
    assert done.code == 0, done.err
    assert time.monotonic() - start > 1
    assert len(names(tmp_path / "figures")) == 4 * 3


def test_one_figure_of_many_fails(tmp_path):
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", "case $4 in *-2.gp) exit 5;; esac; exec gnuplot \"$@\"\n")
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot, formats="svg", times=5, threads=2)
    assert done.code == IO and "figure sample-2: gnuplot ended with 5" in done.err
    assert names(tmp_path / "figures") == sorted(f"sample-{i}.{e}" for i in (0, 1, 3, 4)
                                                 for e in ("dat", "gp", "svg"))


# ---- a disk that is full ---------------------------------------------------------------------

@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder],
                      capture_output=True).returncode != 0:
        pytest.skip("no permission to mount a file system")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk(tiny_disk):
    """gnuplot itself says nothing of it, and its exit code is 0."""
    assert draw_texts(tiny_disk, TEXTS, formats="svg").code == 0
    before = contents(tiny_disk)
    free = os.statvfs(tiny_disk).f_bavail * os.statvfs(tiny_disk).f_frsize
    for left in range(0, free, 4096):
        (tiny_disk / "fill").write_bytes(b"x" * (free - left))
        done = draw_texts(tiny_disk, ["changed " * 20], formats="svg,png")
        (tiny_disk / "fill").unlink()
        if done.code == 0:
            assert "sample.png" in names(tiny_disk)
            break
        assert done.code == IO and "figure sample" in done.err, done.err
        assert contents(tiny_disk) == before
    assert left > 0


def test_files_may_not_grow(tmp_path):
    """The same where no file system can be made: a limit on the size of files."""
    gnuplot = fake_gnuplot(tmp_path / "gnuplot", "ulimit -f 4; exec gnuplot \"$@\"\n")
    done = draw_texts(tmp_path / "figures", TEXTS, gnuplot=gnuplot)
    assert done.code == IO, done.err
    assert names(tmp_path / "figures") == []


# ---- the same picture ------------------------------------------------------------------------

def run_gnuplot(folder, *arguments):
    """What a user may type in the folder; gnuplot has nothing to say of it."""
    done = subprocess.run(["gnuplot", *arguments], cwd=folder, capture_output=True, text=True,
                          env=environment({"LC_ALL": "C.UTF-8"}), stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.parametrize("theme", ["paper", "screen", "dark"])
def test_drawn_again_by_hand(tmp_path, theme):
    from PIL import Image, ImageChops
    assert draw_texts(tmp_path, TEXTS, theme=theme, formats="png,svg,pdf").code == 0
    drawn = tmp_path / "drawn"
    drawn.mkdir()
    for picture in ("sample.png", "sample.svg", "sample.pdf"):
        (tmp_path / picture).rename(drawn / picture)
    run_gnuplot(tmp_path, "sample.gp")
    assert names(tmp_path) == ["drawn", "sample.dat", "sample.gp", "sample.png"]
    for picture in ("svg", "pdf"):
        run_gnuplot(tmp_path, "-e", f"format='{picture}'", "sample.gp")
    assert (tmp_path / "sample.svg").read_bytes() == (drawn / "sample.svg").read_bytes()
    with Image.open(tmp_path / "sample.png") as one, Image.open(drawn / "sample.png") as two:
        assert one.size == two.size == (1280, 800)
        assert ImageChops.difference(one.convert("RGB"), two.convert("RGB")).getbbox() is None
    assert without_date(tmp_path / "sample.pdf") == without_date(drawn / "sample.pdf")


def without_date(path):
    """A PDF holds the second in which it was made, and how long what holds it is."""
    return {number: body for number, body in pdf_objects(path).items()
            if b"/CreationDate" not in body and b"/Type /XRef" not in body}


@pytest.mark.parametrize("scale", [1, 3])
def test_drawn_at_another_size(tmp_path, scale):
    """The same picture, finer or coarser: shrunk to one size they are alike."""
    from PIL import Image, ImageChops, ImageStat
    assert draw_texts(tmp_path, TEXTS, formats="png").code == 0
    with Image.open(tmp_path / "sample.png") as image:
        drawn = image.convert("L").resize((320, 200), Image.Resampling.BOX)
    run_gnuplot(tmp_path, "-e", f"scale={scale}", "sample.gp")
    with Image.open(tmp_path / "sample.png") as image:
        assert image.size == (640 * scale, 400 * scale)
        again = image.convert("L").resize((320, 200), Image.Resampling.BOX)
    assert ImageStat.Stat(ImageChops.difference(drawn, again)).mean[0] < 4


@pytest.mark.parametrize("theme, page", [("paper", (255, 255, 255)), ("screen", (255, 255, 255)),
                                         ("dark", (13, 17, 23))])
def test_sizes_and_pages(tmp_path, theme, page):
    from PIL import Image
    assert draw_texts(tmp_path, TEXTS, theme=theme, formats="png,svg,pdf").code == 0
    with Image.open(tmp_path / "sample.png") as image:
        assert image.size == (1280, 800)
        assert image.convert("RGB").getpixel((2, 2)) == page
        assert len(image.convert("RGB").getcolors(1 << 20)) > 20
    assert read_svg(tmp_path / "sample.svg").get("viewBox") == "0 0 640 400"
    assert (tmp_path / "sample.pdf").read_bytes().startswith(b"%PDF-")
    shown = svg_texts(tmp_path / "sample.svg")
    assert all(shown.count(text) >= 1 for text in TEXTS) and shown.count("first") == 4


def sizes_of_pdf(path):
    """The page in points, and the sizes of type on it."""
    page, content = pdf_page(pdf_objects(path))
    sizes = {round(float(size), 1) for size in re.findall(rb"BT\s+([\d.]+) 0 0 -?[\d.]+ ", content)}
    return page, sizes


@pytest.mark.parametrize("theme, font", [("paper", 13), ("screen", 16), ("dark", 13)])
def test_type_has_one_size_in_all_formats(tmp_path, theme, font):
    """In pixels of the nominal size, which are points of 1/100 inch in a PDF."""
    assert draw_texts(tmp_path, [" ", "n" * 30], theme=theme, formats="png,svg,pdf", role="label").code == 0
    assert set(re.findall(r'font-size="([\d.]+)"', (tmp_path / "sample.svg").read_text())) == {f"{font}.00"}
    page, sizes = sizes_of_pdf(tmp_path / "sample.pdf")
    assert page == pytest.approx((460.8, 288), abs=1)
    assert len(sizes) == 1 and sizes.pop() == pytest.approx(0.72 * font, rel=0.03)
    wide = {}
    for scale in (1, 2):
        run_gnuplot(tmp_path, "-e", f"scale={scale}", "sample.gp")
        wide[scale] = width_of_ink(tmp_path / "sample.png", theme) / scale
    assert 30 * 0.5 * font < wide[1] < 30 * 0.75 * font
    assert wide[1] == pytest.approx(wide[2], rel=0.03)


def width_of_ink(path, theme):
    """Of the text that begins in the middle of the picture."""
    from PIL import Image, ImageChops
    with Image.open(path) as image:
        image = image.convert("L")
        box = (int(0.4 * image.width), int(0.3 * image.height), image.width, int(0.7 * image.height))
        page = Image.new("L", image.size, image.getpixel((2, 2)))
        left, _, right, _ = ImageChops.difference(image, page).crop(box).point(lambda v: 255 * (v > 90)).getbbox()
        return right - left


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    assert draw_texts(folder, TEXTS).code == 0
    return contents(folder)


def test_two_runs(tmp_path, reference):
    for _ in range(2):
        assert draw_texts(tmp_path, TEXTS).code == 0
        assert contents(tmp_path) == reference


def test_any_number_of_threads(tmp_path):
    for threads in (1, 4):
        assert draw_texts(tmp_path / str(threads), TEXTS, times=8, threads=threads).code == 0
    assert contents(tmp_path / "1") == contents(tmp_path / "4")
    assert len(names(tmp_path / "1")) == 8 * len(PARTS)


def test_what_a_user_has_set_does_not_matter(tmp_path, reference):
    home = tmp_path / "home"
    (home / ".config" / "gnuplot").mkdir(parents=True)
    for file in (".gnuplot", ".config/gnuplot/gnuplotrc"):
        (home / file).write_text("set title 'mine'\nset xrange [5:6]\nset terminal dumb\nformat='pdf'\n")
    env = {"HOME": home, "XDG_CONFIG_HOME": home / ".config", "GNUTERM": "dumb", "GNUPLOT_LIB": home,
           "GNUPLOT_DEFAULT_GDFONT": "none", "TERM": "xterm", "DISPLAY": ":9", "COLUMNS": "20", "TZ": "Asia/Tokyo"}
    done = draw_texts(tmp_path / "figures", TEXTS, env=env)
    assert done.code == 0, done.err
    assert contents(tmp_path / "figures") == reference


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
    return {"LOCPATH": folder, "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "LANGUAGE": "de"}


def test_decimal_commas(tmp_path, reference, german):
    probe = subprocess.run(["bash", "-c", "printf %.1f 0,5"], capture_output=True, text=True,
                           env=environment(german))
    assert probe.stdout == "0,5"  # the locale works
    done = draw_texts(tmp_path, TEXTS, env=german)
    assert done.code == 0, done.err
    assert contents(tmp_path) == reference


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8", "xx_YY.UTF-8", ""])
def test_other_locales(tmp_path, reference, locale):
    done = draw_texts(tmp_path, TEXTS, env={"LC_ALL": locale})
    assert done.code == 0, done.err
    assert contents(tmp_path) == reference
