# SPDX-License-Identifier: Apache-2.0
"""The libraries as their users get them: exported symbols, lists and headers agree, and a program
builds against an installed copy through pkg-config alone."""
import collections
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import read_csv, read_json
from source_tree import HEADERS, code, declarations, names, rooms

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
CATEGORIES = {"position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"}


# What each exports: the core's names are in the whole library, too.
LISTS = {"libqkscope-core": ["qkscope-core"], "libqkscope": ["qkscope-core", "qkscope"]}
NOT_IN_CORE = re.compile(r"\blib(yaml|fontconfig|png|curl|crypto|gfortran|lapack|blas|openblas|qkscope\.)")


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
                                for header in HEADERS) > 200


@pytest.mark.parametrize("library", LISTS)
def test_a_library_exports_its_list(library):
    symbols = map(str.split, output("nm", "-D", "--defined-only", shared_library(library)).splitlines())
    exported = sorted(name.replace("@@", "@") for _, kind, name in symbols if kind != "A")
    lists = map(listed, LISTS[library])
    assert exported == sorted(f"{name}@{version}" for version, found in lists for name in found)


def test_the_core_needs_no_library_for_figures_and_files_of_settings():
    assert not NOT_IN_CORE.search(output("ldd", shared_library("libqkscope-core")))
    assert set(NOT_IN_CORE.findall(output("ldd", shared_library()))) == {"png", "yaml"}


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


def test_the_page_of_coverage_is_of_this_tree():
    """`make coverage-page` writes it; rooms and files that came or went since are a reason to do so again."""
    names = re.findall(r"^\| `(.*?)` \|", (ROOT / "docs/coverage.md").read_text(), re.M)
    files = {name for name in names if "/" in name}
    assert not [name for name in files if not (ROOT / name).is_file()]
    assert set(names) - files == {*rooms(), "src"}


def test_base_names_are_unique():
    """So that a name in a listing, a profile or a message of the compiler is one file."""
    found = collections.Counter(path.name for path in (ROOT / "src").glob("*/*.[ch]"))
    shared = {name for name, count in found.items() if count > 1}
    assert not shared


def test_units_have_every_array_of_results():
    """Structs go into a unit's file as they lie: what they point to needs a row of src/analysis/unit_file.c."""
    rows = set(re.findall(r"\((qk_\w+, \w+)", (ROOT / "src/analysis/unit_file.c").read_text()))
    text = "\n".join(map(code, HEADERS))
    for struct in ("qk_pca", "qk_rotation", "qk_plasticity", "qk_head_intervals", "qk_head_results", "qk_component",
                   "qk_plane", "qk_ap_profile", "qk_ap_cell", "qk_ap_distance"):
        members = re.search(rf"struct {struct} \{{(.*?)\}}", text, re.S)[1]
        assert {f"{struct}, {name}" for name in re.findall(r"\*\s*(\w+)", members)} <= rows


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes():
        pytest.skip("an instrumented library is not installed")
    destination = tmp_path_factory.mktemp("installed")
    subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
                    destination], check=True, capture_output=True)
    return destination


def compiled(destination, package, source, program, *more):
    """A program that pkg-config tells where headers and library are."""
    library = next(destination.rglob(f"lib{package}.so")).parent
    env = {**os.environ, "PKG_CONFIG_SYSROOT_DIR": str(destination),
           "PKG_CONFIG_PATH": str(library / "pkgconfig")}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", package], check=True, env=env,
                           capture_output=True, text=True).stdout.split()
    flags = [f"-L{library}" if flag.startswith("-L") else flag for flag in flags]
    subprocess.run(["cc", "-std=c11", "-Wall", "-Werror", source, "-o", program, *flags, *more,
                    f"-Wl,-rpath,{library}"], check=True)
    return program


def test_example_builds_against_an_installed_copy(installed, tmp_path):
    program = compiled(installed, "qkscope-core", ROOT / "examples" / "head_drift.c", tmp_path / "head_drift")
    lines = output(program, ROOT / "examples" / "kjv-tiny-capture").splitlines()
    assert len(lines) == 1 + 20
    layer, head, r_q, r_k = lines[1].split()
    assert (layer, head) == ("0", "0") and 0 <= float(r_q) <= 1 and -1 <= float(r_k) <= 1


@pytest.mark.parametrize("keep", ["rows,moments", "moments", "moments,reservoir=4"])
def test_example_of_a_sink_makes_a_capture(installed, qkscope, tmp_path, keep):
    program = compiled(installed, "qkscope-core", ROOT / "examples" / "sink.c", tmp_path / "sink", "-lm")
    said = output(program, tmp_path / "capture", keep)
    heads, rows, summed = re.fullmatch(r"(\d+) heads, (\d+) rows, (\d+) of them summed\n", said).groups()
    assert heads == "12" and 12 * 6 * 250 < int(summed) < 12 * 6 * 350
    assert int(rows) == (int(summed) if "rows" in keep else 12 * 6 * 7 * 4 if "reservoir" in keep else 0)
    qkscope("analyze", tmp_path / "capture", "-o", tmp_path / "out", expect=0)
    first = [row for row in read_csv(tmp_path / "out" / "qk.csv") if row["pc"] == 0]
    assert len(first) == 8  # queries drift one way, keys the other
    assert all(row["r_q"] > 0.1 and row["r_k"] < -0.1 or row["r_q"] < -0.1 and row["r_k"] > 0.1 for row in first)
    frequencies = read_json(tmp_path / "capture" / "capture.json")["rope_frequencies"]["1"]
    assert frequencies == [10000 ** (-j / 8) for j in range(8)]
    assert output(program, tmp_path / "capture", keep) == said  # it is there


def test_the_umbrella_header_teaches_with_a_program_that_runs(installed, tmp_path):
    """The example at its top, word by word."""
    text = (ROOT / "include/qkscope/qkscope.h").read_text()
    example = re.findall(r"^ \*     (.*)$", text.split("The headers, in the order")[0], re.M)
    assert 10 <= len(example) <= 15
    source = tmp_path / "example.c"
    source.write_text("#include <stdio.h>\n#include <qkscope/qkscope.h>\nint main(void)\n{\n"
                      + "\n".join(example) + "\nreturn 0;\n}\n")
    lines = output(compiled(installed, "qkscope", source, tmp_path / "example")).splitlines()
    assert len(lines) == 20 and set(lines) <= CATEGORIES


def test_moments_and_pca_load_the_core_alone(installed, tmp_path):
    program = compiled(installed, "qkscope-core", ROOT / "tests" / "api" / "axis.c", tmp_path / "axis")
    assert [float(number) for number in output(program).split()] == pytest.approx([1, 1], abs=1e-12)
    loaded = output("ldd", program)
    assert "libqkscope-core.so" in loaded and not NOT_IN_CORE.search(loaded)


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
