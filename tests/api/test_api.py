# SPDX-License-Identifier: Apache-2.0
"""The libraries as their users get them: exported symbols, lists and headers agree (programs of an installed copy:
test_examples.py)."""
import collections
import os
import re
import subprocess
from pathlib import Path

import pytest

from source_tree import HEADERS, code, declarations, names, rooms

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
# What each exports: the core's names are in the whole library, too.
LISTS = {"libqkscope-core": ["qkscope-core"], "libqkscope": ["qkscope-core", "qkscope"]}
NOT_IN_CORE = re.compile(r"\blib(yaml|sqlite3|gfortran|lapack|blas|openblas|qkscope\.)")


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def shared_library(name="libqkscope"):
    libraries = sorted(BUILD.rglob(f"{name}.so"))
    assert libraries, f"no {name}.so under {BUILD}"
    return libraries[0]


def listed(name):
    """(version, names) of a list of exported names."""
    text = (ROOT / "src" / f"{name}.map").read_text()
    return re.search(r"^(\w+) \{$", text, re.M)[1], re.findall(r"^    (\w+);$", text, re.M)


def test_the_lists_of_exported_names_are_what_the_headers_declare():
    declared = [name for header in HEADERS for declaration in declarations(header)
                if "QK_API" in declaration.split() for name in names(declaration)]
    lists = [listed(name)[1] for name in LISTS["libqkscope"]]
    assert all(found == sorted(set(found)) for found in lists)
    assert sorted(lists[0] + lists[1]) == sorted(declared)
    assert len(declared) == sum(len(re.findall(r"^(?:extern )?QK_API\b", code(header), re.M))
                                for header in HEADERS) > 150


@pytest.mark.parametrize("library", LISTS)
def test_a_library_exports_its_list(library):
    symbols = map(str.split, output("nm", "-D", "--defined-only", shared_library(library)).splitlines())
    exported = sorted(name.replace("@@", "@") for _, kind, name in symbols if kind != "A")
    lists = map(listed, LISTS[library])
    assert exported == sorted(f"{name}@{version}" for version, found in lists for name in found)


def test_the_core_needs_no_library_for_figures_and_files_of_settings():
    assert not NOT_IN_CORE.search(output("ldd", shared_library("libqkscope-core")))
    assert set(NOT_IN_CORE.findall(output("ldd", shared_library()))) == {"sqlite3", "yaml"}


def test_numbers_do_not_come_from_functions_whose_last_digit_depends_on_the_processor():
    """glibc computes these with fused operations on arm64, and without on x86-64: src/stats/length.h."""
    imported = {line.split()[-1].split("@")[0] for line in output("nm", "-D", "--undefined-only", shared_library("libqkscope-core")).splitlines()}
    assert "sin" in imported
    assert not imported & {"hypot", "hypotf", "cbrt", "cbrtf", "erf", "erfc", "erff", "erfcf", "tgamma", "tgammaf", "lgamma", "lgammaf"}


def test_versions_agree():
    header = (ROOT / "include/qkscope/common.h").read_text()
    version, released, api = (re.search(rf'#define {name} +"?([^" ]+)', header)[1]
                              for name in ("QK_VERSION", "QK_RELEASED", "QK_API_VERSION"))
    assert f"version: '{version}'" in (ROOT / "meson.build").read_text()
    assert f"api_version = '{api}'" in (ROOT / "src/meson.build").read_text()
    assert f"version: {version}\ndate-released: {released}\n" in (ROOT / "CITATION.cff").read_text()
    assert f'version: "{version}"' in (ROOT / "packaging/conda/recipe.yaml").read_text()
    assert (ROOT / "packaging/debian/changelog").read_text().startswith(f"qkscope ({version}-")
    assert f"\nPackage: libqkscope{api}\n" in (ROOT / "packaging/debian/control").read_text()
    assert re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(), re.M)[1] == version  # below what is not released
    for name, node in (("qkscope", "QKSCOPE"), ("qkscope-core", "QKSCOPE_CORE")):
        assert f"\n{node}_{api} {{" in (ROOT / f"src/{name}.map").read_text()


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


def test_the_twenty_questions_reach_every_room():
    """The reader's test of CONTRIBUTING.md: its answers are files, and every room is asked about."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("### Twenty questions")[1].split("\n## ")[0]
    answers = re.findall(r"^\| [^|`]*(?:`[^|]*`[^|]*)*\| `(src/(\w+)/\S+)` \|$", text, re.M)
    assert len(answers) >= 20
    assert not [path for path, _ in answers if not (ROOT / path).is_file()]
    assert {room for _, room in answers} == set(rooms())


def test_base_names_are_unique():
    """So that a name in a listing, a profile or a message of the compiler is one file."""
    found = collections.Counter(path.name for path in (ROOT / "src").glob("*/*.[ch]"))
    shared = {name for name, count in found.items() if count > 1}
    assert not shared


def test_moments_and_pca_load_the_core_alone(sanitized, tmp_path):
    if sanitized:
        pytest.skip("a program without the sanitizers loads no library with them")
    program, library = tmp_path / "axis", shared_library("libqkscope-core").parent
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", "-I", ROOT / "include", ROOT / "tests/api/axis.c", "-o", program,
                    "-L", library, "-lqkscope-core", f"-Wl,-rpath,{library}"], check=True)
    assert [float(number) for number in output(program).split()] == pytest.approx([1, 1], abs=1e-12)
    loaded = output("ldd", program)
    assert "libqkscope-core.so" in loaded and not NOT_IN_CORE.search(loaded)


def test_every_header_is_in_the_umbrella():
    text = (ROOT / "include/qkscope/qkscope.h").read_text()
    for header in HEADERS:
        if header.name != "qkscope.h":
            assert f"#include <qkscope/{header.name}>" in text
            assert re.search(rf"^ \*     {re.escape(header.name)} +\S", text, re.M)
