# SPDX-License-Identifier: Apache-2.0
"""docs/dev/pictures.md shows every figure, and everything it names is there. The pictures are made by
tools/make_gallery.sh."""
import re
import subprocess

import pytest

from conftest import ROOT
from figure_files import helper, read_svg

PAGE = ROOT / "docs" / "dev" / "pictures.md"
PICTURES = ROOT / "docs" / "gallery"


@pytest.fixture(scope="module")
def page():
    return PAGE.read_text()


def shown(page):
    """The pictures of the page, by their paths below docs/; of the site alone, too."""
    return [(a or b).removeprefix("../") for a, b in re.findall(r"!\[[^]]+\]\(([^)]+)\)|<!-- picture: .+: (\S+) -->", page)]


def test_every_figure_is_shown(page):
    listed = subprocess.run([helper("list_figures")], check=True, capture_output=True, text=True).stdout
    names = [line.split("\t")[0] for line in listed.splitlines()]
    assert len(names) == len(set(names)) >= 20
    missing = [n for n in names if f"`{n}`" not in page or f"gallery/{n}.svg" not in shown(page)]
    assert not missing


def test_every_basis_of_scatter_is_shown(page):
    commands = [line for line in page.splitlines() if line.startswith("    qkscope scatter")]
    for basis in ("ab", "complement", "attention"):
        assert any(f"--basis {basis}" in c for c in commands), basis
    assert any("--basis" not in c and "--example-id" not in c for c in commands)
    assert any("--example-id" in c for c in commands)
    assert {"gallery/scatter-pca.png", "gallery/scatter-ab.png", "gallery/scatter-complement.png"} <= set(shown(page))


def test_every_picture_has_a_command(page):
    for section in page.split("\n### ")[1:]:
        assert re.search(r"^    (qkscope (study|report|scatter|compare) |make demo)", section, re.M), section
        assert len(shown(section)) == 1, section


def test_pictures_that_are_kept(page):
    """Those that another page shows; the others are made by make site, which shows what stands in a comment."""
    elsewhere = " ".join(p.read_text() for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")] if p != PAGE)
    kept = shown(re.sub("<!--.*?-->", "", page))
    assert 0 < len(kept) <= 15 and all((PICTURES.parent / path).is_file() for path in kept)
    assert {path for path in shown(page) if path in elsewhere} == set(kept)
    assert {f"gallery/{p.name}" for p in PICTURES.iterdir()} <= set(shown(page))


def test_drawings_are_whole():
    for path in PICTURES.glob("*.svg"):
        read_svg(path)
        assert not re.search(r"/(home|root|tmp|work)/", path.read_text()), path


def test_files_named_in_commands_exist(page):
    named = set(re.findall(r"(?:examples|tools)/[\w./-]+", page))
    assert named and all((ROOT / name.rstrip(".")).exists() for name in named), named


def test_commands_are_those_that_made_the_pictures(page):
    """tools/make_gallery.sh runs what the page says, if under names of files of its own."""
    script = (ROOT / "tools" / "make_gallery.sh").read_text()
    script = re.sub(r"\\\n\s*", "", script).replace('"', "")
    script = (script.replace("$out", "results/gallery").replace("$real", "results/real"))
    for command in re.findall(r"^    qkscope (.*)$", page, re.M):
        words = command.split()
        assert any(all(word in line.split() for word in words)
                   for line in script.splitlines() if line.strip().startswith("run ")), command
