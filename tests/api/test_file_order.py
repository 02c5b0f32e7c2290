# SPDX-License-Identifier: Apache-2.0
"""The files of a room use each other in one direction, as rooms do: whoever reads one from the top need
not know what calls it. The edges are those that the linker sees, and, of a file with its header taken as one,
those of the preprocessor."""
import collections
import re

from conftest import ROOT
from source_tree import declarations, names, private_headers, rooms, symbols


def uses(room):
    """{file: {file that defines what it uses: {names}}}"""
    defined = {symbol: file for file, (symbols_of, _) in symbols()[room].items() for symbol in symbols_of}
    edges = {file: collections.defaultdict(set) for file in symbols()[room]}
    for file, (_, used) in symbols()[room].items():
        for symbol in used & defined.keys():
            edges[file][defined[symbol]].add(symbol)
    return edges


def circles(edges):
    """Groups of files each of which can be reached from the others."""
    def reached(name):
        seen, waiting = set(), [name]
        while waiting:
            for other in edges[waiting.pop()]:
                if other not in seen:
                    seen.add(other)
                    waiting.append(other)
        return seen
    reach = {name: reached(name) for name in edges}
    return {frozenset(other for other in reach[name] if name in reach[other])
            for name in edges if name in reach[name]}


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}) == set()
    assert circles({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}) == \
        {frozenset("abc"), frozenset("de")}


def test_files_of_a_room_form_no_circle():
    told = []
    for edges in map(uses, rooms()):
        told += [f"{a} uses {', '.join(edges[a][b])} of {b}" for circle in circles(edges)
                 for a in sorted(circle) for b in sorted(edges[a].keys() & circle)]
    assert not told, "\n" + "\n".join(told)


def includes():
    """{a file with its header, as "room/name": {those that it includes}}; the code of a kernel is none."""
    edges = collections.defaultdict(set)
    for path in sorted((ROOT / "src").glob("*/*.[ch]")):
        if not path.stem.endswith(("_body", "_pack")):
            name = f"{path.parent.name}/{path.stem}"
            edges[name] |= set(re.findall(r'#include "(\w+/\w+)\.h"', path.read_text())) - {name}
    return edges


def test_no_file_includes_what_includes_it():
    edges = includes()
    edges = {name: {other for other in others if other in edges} for name, others in edges.items()}
    assert len(edges) > 300
    assert not [sorted(circle) for circle in circles(edges)]


def test_a_header_of_many_files_stands_below_them_all():
    """Where a header is that of several files, the one that leads has another name: with both kinds of edges at once."""
    included = includes()
    for room in rooms().keys() & {"analysis", "capture", "place", "recorder", "scatter", "sink", "study", "units"}:
        edges = collections.defaultdict(set)
        for name, used in uses(room).items():
            edges[name.removesuffix(".c")] |= {other.removesuffix(".c") for other in used}
        for name, others in included.items():
            if name.startswith(room + "/"):
                edges[name.split("/")[1]] |= {other.split("/")[1] for other in others if other.startswith(room + "/")}
        assert not [sorted(circle) for circle in circles(edges)], room


def test_no_file_is_longer_than_a_reader_stays_with():
    assert not {path.relative_to(ROOT).as_posix(): lines for folder in ("src", "include", "tests")
                for path in (ROOT / folder).rglob("*.[ch]") if (lines := path.read_text().count("\n")) > 500}


def test_a_header_names_the_files_behind_it():
    """Where it is the header of several, the reader learns which leads."""
    unnamed = []
    for room in rooms():
        bodies = {path.name: set(re.findall(r"^(?!static )[a-z].*?\b(\w+)\((?![^)]*\);)", path.read_text(), re.M))
                  for path in (ROOT / "src" / room).glob("*.c")}
        for header in private_headers(room):
            text = header.read_text()
            declared = {name for declaration in declarations(header) for name in names(declaration)}
            behind = {file for file, defined in bodies.items() if declared & defined}
            unnamed += [(header.name, file) for file in behind if len(behind) > 1 and file not in text]
    assert not unnamed


def test_comments_name_files_that_are_there():
    """A name that a comment gives a file is one that it still has."""
    there = {path.name for path in ROOT.glob("*/**/*.[ch]")}
    gone = []
    for path in [*(ROOT / "src").glob("*/*.[ch]"), *(ROOT / "include").glob("*/*.h")]:
        for comment in re.findall(r"/\*.*?\*/", path.read_text(), re.S):
            for name in re.findall(r"(?<![\w.*<{-])(?:[\w-]+/)*([\w-]+\.[ch])\b(?!\()", comment):
                if name not in there:
                    gone.append(f"{path.relative_to(ROOT)}: {name}")
    assert not gone, "\n".join(gone)
