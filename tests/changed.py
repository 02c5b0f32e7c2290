# SPDX-License-Identifier: Apache-2.0
"""What was changed of late, and the folders of tests/ that belong to it: that of a room, those of rooms that use it (the
table of docs/dev/architecture.md), and those that are about several rooms. As a program: the commit before the changes."""
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Folders that are called by what they are about, and the rooms that do it.
ABOUT = {
    "attention": ["attention", "stats", "prefill", "scatter"], "cluster": ["work", "recorder", "sink"], "docs": ["cli"], "hf": ["python"],
    "intervals": ["stats", "analysis"], "on_ray": ["python"], "pca": ["stats", "analysis"], "plasticity": ["stats", "analysis"],
    "repro": ["parquet"], "rotation": ["stats", "analysis"], "stages": ["stats", "analysis"], "state": ["analysis"], "sweep": ["work"], "truth": ["stats"],
}
# What is not in a room, and the folders that are about it.
ELSEWHERE = {"python": "python", "include": "api", "docs": "docs", "README.md": "docs", "tools": "docs", "examples": "docs"}


def git(*words, may_fail=False):
    return subprocess.run(["git", *words], cwd=ROOT, check=not may_fail, capture_output=True, text=True).stdout.strip()


def parent():
    """The commit where this branch left the trunk; on the trunk itself the last that is six hours old, or the one before."""
    head = git("rev-parse", "HEAD")
    for trunk in ("origin/HEAD", "origin/main", "main"):
        base = git("merge-base", "HEAD", trunk, may_fail=True)
        if base and base != head:
            return base
    old = git("rev-list", "-1", "--before=6 hours ago", "HEAD")
    return old if old and old != head else git("rev-parse", "--quiet", "--verify", "HEAD~1", may_fail=True)


def users():
    """{room: the rooms that use it}"""
    rows = re.findall(r"^\| `src/(\w+)/` \|[^|]*\|([^|]*)\|", (ROOT / "docs" / "dev" / "architecture.md").read_text(), re.M)
    used = {room: re.findall(r"\w+", uses) for room, uses in rows}
    return {room: {user for user, its in used.items() if room in its} for room in used}


def folders():
    """Names of folders of tests/, in an order that changes with the commit: each is the first of them now and then."""
    there = sorted(path.name for path in (ROOT / "tests").iterdir() if any(path.glob("test_*.py")))
    rooms, named, known = set(), set(), users()
    base = parent()
    for name in (git("diff", "--name-only", base) if base else git("ls-files")).splitlines():
        parts = name.split("/")
        if parts[0] == "src" and len(parts) > 2:
            rooms |= {parts[1], *known.get(parts[1], ())}
        elif parts[0] == "tests" and len(parts) > 2:
            named.add(parts[1])
        elif parts[0] in ELSEWHERE:
            named.add(ELSEWHERE[parts[0]])
    chosen = [folder for folder in there if folder in named or rooms & {folder, *ABOUT.get(folder, ())}]
    first = int(git("rev-list", "--count", "HEAD")) % 10 * len(chosen) // 10
    return chosen[first:] + chosen[:first]


if __name__ == "__main__":
    print(parent())
