# SPDX-License-Identifier: Apache-2.0
"""Rooms, headers and object files, as the tests of the tree look at them."""
import functools
import re
import subprocess

from conftest import BUILD, ROOT

HEADERS = sorted((ROOT / "include" / "qkscope").glob("*.h"))


def rooms():
    """{room: the rooms that it may use}, from the top down, as docs/dev/architecture.md has them."""
    rows = re.findall(r"^\| `src/(\w+)/` \|[^|]*\|([^|]*)\|", (ROOT / "docs" / "dev" / "architecture.md").read_text(),
                      re.M)
    return {room: [] if uses.strip() in ("nothing", "public headers") else uses.strip().split(", ")
            for room, uses in rows}


def private_headers(room):
    """All but those that are the code of kernels, included by a file for each instruction set."""
    return [path for path in sorted((ROOT / "src" / room).glob("*.h"))
            if not path.stem.endswith(("_body", "_pack"))]


def code(path):
    """Without comments, texts and the preprocessor's lines."""
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\n])*"', "", path.read_text(), flags=re.S)
    return re.sub(r"^#(?:.*\\\n)*.*\n", "", text, flags=re.M)


def declarations(path):
    """The declarations of a header, each on its own, what is in braces left out."""
    text = code(path)
    while (shorter := re.sub(r"\{[^{}]*\}", "@", text)) != text:
        text = shorter
    return [" ".join(part.split()) for part in re.split(r";|\)\s*@", text)]


def names(declaration):
    """What a declaration declares: a tag with its members, a type, a function or a variable."""
    found = re.findall(r"\b(?:struct|enum|union) (\w+) @", declaration)
    if declaration.startswith("typedef "):
        pointer = re.search(r"\(\*(\w+)\)", declaration)
        function = re.match(r"typedef [^@(]*\b(\w+)\(", declaration)
        plain = re.search(r"(\w+)(?:\[\w*\])*$", declaration)
        return found + [(pointer or function or plain)[1]]
    function = re.match(r"(?:[A-Z_]+(?:\([\d, ]*\))? )*[\w* ]*?\b(\w+)\(", declaration)
    variable = re.match(r"extern [^(]*?(\w+)(?:\[\w*\])*$", declaration)
    return found + [match[1] for match in (function or variable,) if match]


@functools.cache
def symbols():
    """{room: {file: (what it defines for others, what it uses)}}, as the linker sees it."""
    found = {}
    for room in rooms():
        objects = sorted((BUILD / "qkscope.p").glob("*.o") if room == "cli" else (BUILD / "src" / room).rglob("*.o"))
        assert objects, f"no object files of {room} under {BUILD}"
        found[room] = {path: (set(), set()) for path in map(str, objects)}
    files = {path: both for some in found.values() for path, both in some.items()}
    out = subprocess.run(["nm", "-A", "-g", *files], check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        path, rest = line.rsplit(".o:", 1)
        kind, name = rest.split()[-2:]
        if kind.isupper() and not name.startswith("__"):  # not weak, nor a sanitizer's
            files[f"{path}.o"][kind == "U"].add(name)
    return {room: {path.rsplit("/", 1)[1].removesuffix(".o"): both for path, both in some.items()}
            for room, some in found.items()}
