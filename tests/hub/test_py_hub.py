# SPDX-License-Identifier: Apache-2.0
"""org/name in Python: what the library does, through the package."""
import json
import subprocess
import sys

import pytest
from conftest import BUILD, EXAMPLE
from fake_hub import FakeHub
from test_fetch_commands import files_of
from test_get import NAME

PRELUDE = f"""
import json, sys, warnings
sys.path.insert(0, {str(BUILD / 'python')!r})
import qkscope
"""


@pytest.fixture
def hub():
    pytest.importorskip("cffi")
    if not list((BUILD / "python" / "qkscope").glob("_library*.so")):
        pytest.skip("the package is not built")
    with FakeHub() as server:
        yield server


def python(hub, home, code, expect=0, **extra):
    done = subprocess.run([sys.executable, "-c", PRELUDE + code], env=hub.environment(home, **extra),
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == expect, done.stderr
    return (json.loads(done.stdout) if done.stdout else None), done.stderr


def test_open_fetches(hub, tmp_path):
    commit = hub.add("datasets", NAME, files_of(EXAMPLE), revision="v1")
    code = f"""
seen = []
a = qkscope.open("{NAME}", revision="v1", progress=lambda what, done, total: seen.append(what))
b = qkscope.open({str(EXAMPLE)!r})
same = all((x.read().vectors == y.read().vectors).all() for x, y in zip(a.heads, b.heads, strict=True))
print(json.dumps([a.path, same, len(a.heads)]))
"""
    (path, same, count), _ = python(hub, tmp_path, code)
    assert path.endswith(commit) and path.startswith(str(tmp_path)) and same and count == 30
    sent = len(hub.log)
    python(hub, tmp_path, code)
    python(hub, tmp_path, code.replace('revision="v1"', 'revision="v1", offline=True'))
    assert len(hub.log) == sent


def test_open_says_what_is_wrong(hub, tmp_path):
    said = python(hub, tmp_path, f'qkscope.open("{NAME}", offline=True)', expect=1)[1]
    assert "NotFoundError" in said and "not in the cache" in said and not hub.log
    said = python(hub, tmp_path, f'qkscope.open("{NAME}")', expect=1)[1]
    assert "NotFoundError" in said and "no dataset of this name" in said
    said = python(hub, tmp_path, 'qkscope.open("a/b/c")', expect=1)[1]
    assert "no such folder" in said and len(hub.log) == 1


def test_analyze_and_inspect(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    (inspection, files), _ = python(hub, tmp_path, f"""
i = qkscope.inspect("{NAME}", jobs=2)
full = qkscope.inspect({str(EXAMPLE)!r})
assert i.footers and not full.footers and full.commit is None
assert (i.rows, i.dim, i.positions, i.bytes) == (full.rows, full.dim, full.positions, full.bytes)
assert i.buckets == (min(full.buckets), max(full.buckets)) and i.heads[0].examples is None
print(json.dumps([i.requests, i.wanted_files]))
""")
    assert inspection == files + 3 and not (tmp_path / "hub").exists()  # commit, list, a redirect
    python(hub, tmp_path, f"""
a = qkscope.pca("{NAME}", layers=0)
b = qkscope.pca({str(EXAMPLE)!r}, layers=0)
assert [str(x) for x in a.heads["category"]] == [str(x) for x in b.heads["category"]]
""")


def test_progress_of_both_captures(hub, tmp_path):
    """What the second one tells reaches the same user."""
    for name in ("org/pre", "org/post"):
        hub.add("datasets", name, files_of(EXAMPLE))
    (seen, said), _ = python(hub, tmp_path, """
seen = []
try:
    qkscope.compare_stages("org/pre", "org/post", progress=lambda what, done, total: seen.append(what))
except qkscope.DataError as error:
    print(json.dumps([seen, str(error)]))
""")
    assert "MB" in seen and "as it should be after RoPE" in said
