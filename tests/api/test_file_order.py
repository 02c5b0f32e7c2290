# SPDX-License-Identifier: Apache-2.0
"""The files of a room use each other in one direction, as rooms do: whoever reads one from the top need
not know what calls it. The edges are those that the linker sees."""
import collections
import subprocess

import pytest

from conftest import BUILD
from test_api import rooms

UNFINISHED = {"study": 4}  # circles that are left


def object_files(room):
    found = sorted((BUILD / "qkscope.p").glob("*.o") if room == "cli" else (BUILD / "src" / room).rglob("*.o"))
    assert found, f"no object files of {room} under {BUILD}"
    return found


def uses(objects):
    """{file: {file that defines what it uses: [names]}}"""
    defined, used = {}, collections.defaultdict(set)
    out = subprocess.run(["nm", "-A", *objects], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        path, rest = line.split(".o:", 1)
        name = path.rsplit("/", 1)[1]
        kind, symbol = rest.split()[-2:]
        if kind == "U":
            used[name].add(symbol)
        elif kind.isupper() and not symbol.startswith("__"):
            defined[symbol] = name
    edges = {path.name.removesuffix(".o"): collections.defaultdict(list) for path in objects}
    for name, symbols in used.items():
        for symbol in sorted(symbols):
            if defined.get(symbol, name) != name:
                edges[name][defined[symbol]].append(symbol)
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


@pytest.mark.parametrize("room", sorted(rooms()))
def test_files_of_a_room_form_no_circle(room):
    edges = uses(object_files(room))
    found = circles(edges)
    told = [f"{a} uses {', '.join(edges[a][b])} of {b}" for circle in found
            for a in sorted(circle) for b in sorted(edges[a].keys() & circle)]
    assert len(found) == UNFINISHED.get(room, 0), "\n" + "\n".join(told)
