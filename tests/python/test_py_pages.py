# SPDX-License-Identifier: Apache-2.0
"""The example of the sink, and what docs/python.md shows of captures, do what they say."""
import os
import re
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.test_all
qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from conftest import BUILD, ROOT  # noqa: E402
from py_feeding import files_of  # noqa: E402


def run_example(folder, *arguments):
    done = subprocess.run([sys.executable, ROOT / "examples" / "sink.py", folder, *arguments], capture_output=True,
                          text=True, timeout=300, env={**os.environ, "PYTHONPATH": str(BUILD / "python")})
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout


def test_the_example(tmp_path):
    said = run_example(tmp_path / "a")
    capture = qk.open(tmp_path / "a")
    rows = sum(head.rows for head in capture.heads)
    assert said == f"12 heads, {rows} rows, {rows} of them summed\n"
    assert rows / (12 * 6 * 400) == pytest.approx(48 / 64, rel=0.05)
    before = files_of(tmp_path / "a")
    assert run_example(tmp_path / "a") == said and files_of(tmp_path / "a") == before  # nothing was to be done
    for head in capture.heads:  # queries and keys drift apart
        block = head.read()
        drift = np.corrcoef(block.position, block.vectors[:, head.head])[0, 1]
        assert drift > 0.5 if head.kind == "q" else drift < -0.5
    assert capture.rope_frequencies(1)[:2] == pytest.approx((1, 10000 ** -0.125)) and capture.info.has_moments
    assert len((ROOT / "examples" / "sink.py").read_text().splitlines()) < 40
    assert run_example(tmp_path / "b", "moments") == "12 heads, 0 rows, " + said.split(", ")[2]


def test_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page = re.search(r"^## Reading a capture$.*?(?=^## Progress)", (ROOT / "docs" / "python.md").read_text(), re.M | re.S)[0]
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 4
    x = np.random.default_rng(0).normal(size=(2, 4, 1000, 64)).astype(np.float32)
    space = {"texts": ["In the beginning", "Now these are the names"]}
    for code in blocks[:3]:
        exec(code, space)
    assert space["capture"].path == "mine" and len(capsys.readouterr().out.splitlines()) == 30
    assert np.allclose(space["total"], space["qkscope"].open("examples/kjv-tiny-capture").head(0, 1, "k").read()
                       .vectors.sum(0), rtol=1e-3, atol=1e-2)
    assert [head.name for head in qk.open("keys").heads] == ["l00h00k"] and qk.open("keys").heads[0].rows == 1000
    exec(blocks[3], {**space, "queries": x, "keys": x[:, :2]})
    assert qk.open("capture").info.reservoir == 8
    for heading in re.findall(r"\(#([\w-]+)\)", page):
        assert re.search(rf"^## {heading.replace('-', ' ')}$", page, re.M | re.I), heading
    for link in re.findall(r"\]\(([\w./-]+)", page):
        assert (ROOT / "docs" / link).exists(), link
