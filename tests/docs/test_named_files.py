# SPDX-License-Identifier: Apache-2.0
"""What the documents say of the tree: every file that they name is there, and sizes are those of today."""
import itertools
import re
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT
from documented_commands import add_programs, commands_of

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FOLDERS = "src|include|tests|tools|bench|python|configs|studies|packaging|docs|examples"
NAMED = re.compile(rf"`((?:{FOLDERS})/[\w./*-]+)`")


def test_files_that_are_named():
    gone = [(page.name, name) for page in PAGES for name in NAMED.findall(page.read_text())
            if not list(ROOT.glob(name.rstrip("/"))) and not list(ROOT.glob(f"{name}.*"))]
    assert gone == []


def test_links_lead_somewhere():
    gone = [(page.name, link) for page in PAGES for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text())
            if not (page.parent / link).exists()]
    assert gone == []


def test_names_that_follow_a_path():
    """`src/sink/sums.c`, `node_tree.c`: in the same folder."""
    gone = [(page.name, first, name) for page in PAGES
            for first, rest in re.findall(rf"`((?:{FOLDERS})/[\w./-]+\.[ch])`((?:,\s+`\w+\.[ch]`)+)", page.read_text())
            for name in re.findall(r"`(.+?)`", rest) if not (ROOT / first).with_name(name).is_file()]
    assert gone == []


def test_commands_have_options_that_there_are(qkscope, tmp_path):
    """With --help behind it a command is parsed, and nothing is run (those of some pages run in test_documented_commands.py)."""
    commands = {command for page in PAGES for command in commands_of(page.read_text()) if re.match(r"qkscope (?!push |export |calibrate )[a-z]", command)}  # these are Python's
    assert len(commands) > 100
    wrong, path = {}, add_programs(tmp_path / "bin")
    for command in commands:
        words = list(itertools.takewhile(lambda word: word not in (">", "|"), shlex.split(command)))
        said = qkscope(*words[1:], "--help", env={"PATH": path})
        if said.code:
            wrong[command] = said.err
    assert not wrong


def test_short_names_in_the_architecture():
    """`tree.c`, where a sentence has said the folder already: a file of that name is somewhere."""
    names = {path.name for folder in ("src", "python", "include", "tests", "tools") for path in (ROOT / folder).rglob("*")}
    for page in ("docs/dev/architecture.md", "CONTRIBUTING.md"):
        for name in re.findall(r"`(\w+\.(?:c|h|py|def))`", (ROOT / page).read_text()):
            assert name in names or name == "analyses.pyi", (page, name)


@pytest.mark.test_all
def test_sizes_of_rooms():
    """Within a twentieth; tools/room_sizes.py writes them anew."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "room_sizes.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
