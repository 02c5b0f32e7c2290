# SPDX-License-Identifier: Apache-2.0
"""What the documents say of the tree: every file that they name is there, and sizes are those of today."""
import re
import subprocess
import sys

import pytest
from conftest import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = "src|include|tests|tools|bench|python|configs|studies|packaging|docs|examples"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./*-]+)`")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_files_that_are_named(page):
    gone = [name for name in NAMED.findall(page.read_text())
            if not list(ROOT.glob(name.rstrip("/"))) and not list(ROOT.glob(f"{name}.*"))]
    assert gone == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_names_that_follow_a_path(page):
    """`src/sink/sums.c`, `node_tree.c`: in the same folder."""
    for first, rest in re.findall(rf"`((?:{FOLDERS})/[\w./-]+\.[ch])`((?:,\s+`\w+\.[ch]`)+)", page.read_text()):
        for name in re.findall(r"`(.+?)`", rest):
            assert (ROOT / first).with_name(name).is_file(), (first, name)


def test_short_names_in_the_architecture():
    """`tree.c`, where a sentence has said the folder already: a file of that name is somewhere."""
    names = {path.name for folder in ("src", "python", "include", "tests", "tools") for path in (ROOT / folder).rglob("*")}
    for page in ("docs/architecture.md", "CONTRIBUTING.md"):
        for name in re.findall(r"`(\w+\.(?:c|h|py|def))`", (ROOT / page).read_text()):
            assert name in names or name == "analyses.pyi", (page, name)


def test_sizes_of_rooms():
    """Within a twentieth; tools/room_sizes.py writes them anew."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "room_sizes.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
