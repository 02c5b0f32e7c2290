# SPDX-License-Identifier: Apache-2.0
"""The library as its users get it: exported symbols and headers agree, and a program builds
against an installed copy through pkg-config alone."""
import collections
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from source_tree import HEADERS, rooms

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
CATEGORIES = {"position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"}


def shared_library():
    libraries = sorted(BUILD.rglob("libqkscope.so"))
    assert libraries, f"no libqkscope.so under {BUILD}"
    return libraries[0]


def declared_functions():
    text = "\n".join(header.read_text() for header in HEADERS)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return set(re.findall(r"QK_API\b[^;]*?\b(qk_\w+)\(", text))


def test_exported_symbols_are_the_declared_ones():
    out = subprocess.run(["nm", "-D", "--defined-only", shared_library()], check=True,
                         capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in out.splitlines() if " T " in line}
    assert exported == declared_functions()


def test_every_header_says_what_it_is():
    for header in HEADERS:
        first, second = header.read_text().splitlines()[:2]
        assert first == "/* SPDX-License-Identifier: Apache-2.0 */", header
        assert second.startswith("/* "), header


def test_every_room_keeps_to_its_place():
    """A room includes only itself and rooms that its row names, which are below it."""
    below = rooms()
    assert sorted(below) == sorted(path.name for path in (ROOT / "src").iterdir() if path.is_dir())
    order = list(below)
    for room, allowed in below.items():
        assert all(order.index(other) > order.index(room) for other in allowed), room
        for source in (ROOT / "src" / room).glob("*.[ch]"):
            for included in re.findall(r'#include "(\w+)/', source.read_text()):
                assert included in [room, *allowed], f"{source} includes {included}/"


def test_base_names_are_unique():
    """So that a name in a listing, a profile or a message of the compiler is one file."""
    names = collections.Counter(path.name for path in (ROOT / "src").glob("*/*.[ch]"))
    shared = {name for name, count in names.items() if count > 1}
    assert not shared


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes():
        pytest.skip("an instrumented library is not installed")
    destination = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                    destination], check=True, capture_output=True)
    return destination


def pkg_config(destination, *arguments):
    directory = next(destination.rglob("qkscope.pc")).parent
    env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(destination),
           "PKG_CONFIG_PATH": str(directory)}
    return subprocess.run(["pkg-config", *arguments, "qkscope"], check=True, env=env,
                          capture_output=True, text=True).stdout.split()


def test_example_builds_against_an_installed_copy(installed, tmp_path):
    program = tmp_path / "head_drift"
    library = next(installed.rglob("libqkscope.so")).parent
    flags = [flag if not flag.startswith("-L/usr/local") else f"-L{library}"
             for flag in pkg_config(installed, "--cflags", "--libs")]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", ROOT / "examples" / "head_drift.c",
                    "-o", program, *flags, f"-Wl,-rpath,{library}"], check=True)
    run = subprocess.run([program, ROOT / "examples" / "kjv-tiny-capture"], check=True,
                         capture_output=True, text=True)
    lines = run.stdout.splitlines()
    assert len(lines) == 1 + 20
    layer, head, r_q, r_k = lines[1].split()
    assert (layer, head) == ("0", "0") and 0 <= float(r_q) <= 1 and -1 <= float(r_k) <= 1


def test_the_umbrella_header_teaches_with_a_program_that_runs(installed, tmp_path):
    """The example at its top, word by word."""
    text = (ROOT / "include/qkscope/qkscope.h").read_text()
    example = re.findall(r"^ \*     (.*)$", text.split("The headers, in the order")[0], re.M)
    assert 10 <= len(example) <= 15
    source = tmp_path / "example.c"
    source.write_text("#include <stdio.h>\n#include <qkscope/qkscope.h>\nint main(void)\n{\n"
                      + "\n".join(example) + "\nreturn 0;\n}\n")
    library = next(installed.rglob("libqkscope.so")).parent
    flags = [flag if not flag.startswith("-L/usr/local") else f"-L{library}"
             for flag in pkg_config(installed, "--cflags", "--libs")]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", source, "-o", tmp_path / "example", *flags,
                    f"-Wl,-rpath,{library}"], check=True)
    run = subprocess.run([tmp_path / "example"], check=True, capture_output=True, text=True, cwd=ROOT)
    lines = run.stdout.splitlines()
    assert len(lines) == 20 and set(lines) <= CATEGORIES


def test_every_header_is_in_the_umbrella():
    text = (ROOT / "include/qkscope/qkscope.h").read_text()
    for header in HEADERS:
        if header.name != "qkscope.h":
            assert f"#include <qkscope/{header.name}>" in text
            assert re.search(rf"^ \*     {re.escape(header.name)} +\S", text, re.M)


def test_installed_aliases_point_to_the_program(installed):
    alias = next(installed.rglob("bin/pca-analyze"))
    assert alias.is_symlink() and os.readlink(alias) == "qkscope"
    assert shutil.which(str(alias.parent / "qkscope"))


def test_man_pages_and_completions_are_installed(installed):
    found = {path.relative_to(installed).as_posix() for path in installed.rglob("*")}
    for name in ("man/man1/qkscope.1", "man/man1/qkscope-pca.1",
                 "bash-completion/completions/qkscope.bash", "zsh/site-functions/_qkscope",
                 "fish/vendor_completions.d/qkscope.fish"):
        assert any(path.endswith("share/" + name) for path in found), name
