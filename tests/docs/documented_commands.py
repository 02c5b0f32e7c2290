# SPDX-License-Identifier: Apache-2.0
"""The commands that a page shows: lines of its code blocks, and those in its tables."""
import os
import re
import sys

from conftest import BUILD

COMMAND = re.compile(r"(qkscope|qkscope-hf|make|pip|tools/\S+|PATH=\S+)( |$)")


def add_programs(folder):
    """Puts the programs of the package there, as pip does; returns the PATH with them."""
    folder.mkdir()
    for name, module in (("calibrate", "export.calibrate"), ("export", "export.cli"), ("push", "push")):
        program = folder / f"qkscope-{name}"
        program.write_text(f"#!/bin/sh\nPYTHONPATH={BUILD}/python exec {sys.executable} "
                           f"-c 'import sys; from qkscope.{module} import main; sys.exit(main())' \"$@\"\n")
        program.chmod(0o755)
    return f"{BUILD}:{folder}:{os.path.dirname(sys.executable)}:{os.environ['PATH']}"  # hf is beside this Python


def lines_of(page):
    """Lines of code blocks that are no program, a backslash at their end joined with the next."""
    lines, fence = [], None
    for line in page.splitlines():
        mark = re.match(r"```(\w*)", line)
        if mark and fence is None:
            fence = mark[1]
        elif mark:
            fence = None
        elif fence in ("", "sh") or fence is None and line.startswith("    "):
            lines.append(line.strip())
    return re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()


def commands_of(text):
    """In the order of the page; the same one once."""
    found = []
    for line in lines_of(text):
        line = re.sub(r"\s+#.*$", "", line.removeprefix("$ "))
        found += [part.strip() for part in re.split(r" && |; ", line)]
    for line in text.splitlines():
        if line.startswith("|"):
            found += [code.split("; ")[0] for code in re.findall(r"`([^`]+)`", line.split(" | ")[0])]
    found = [re.sub(r"\[([A-Z]+)\]", r"\1", command) for command in found if COMMAND.match(command)]
    return list(dict.fromkeys(found))
