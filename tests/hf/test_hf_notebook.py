# SPDX-License-Identifier: Apache-2.0
"""The notebook from a transformers model to figures runs from top to bottom, where torch is."""
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "python"))
import notebooks  # noqa: E402

from hf_environment import hf_python  # noqa: E402

pytestmark = pytest.mark.test_all

PASSAGES = notebooks.ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
PATH = notebooks.NOTEBOOKS / "transformers.ipynb"


def test_transformers(tmp_path):
    python = hf_python()
    if not shutil.which("rsvg-convert"):
        pytest.skip("rsvg-convert makes PNG and PDF")
    made = notebooks.execute(PATH, tmp_path, python=python, needs=["pandas", "pyarrow", "torch", "transformers"],
                             environment={"HF_HUB_OFFLINE": "1", "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"})
    shown = notebooks.outputs(made)
    svg, = shown["image/svg+xml"]
    said = notebooks.errors(made).replace(str(python.parents[1]), "")  # other packages' warnings show where they lie
    assert "<svg" in svg and "qkscope" not in said, said
    pages = "".join(shown["text/html"])
    assert "position-dominated" in pages and "r_q_before" in pages
    summed, = re.findall(r"summed=(\d+)", "".join(shown["text/plain"]))
    assert int(summed) == 30 * sum(len(json.loads(line)["text"].encode()[:1024]) for line in open(PASSAGES, encoding="utf-8"))
    assert all(cell.execution_count for cell in made.cells if cell.cell_type == "code")
    for cell, kept in zip(made.cells, notebooks.read(PATH).cells, strict=True):  # stored with what it prints
        assert notebooks.told(cell) == notebooks.told(kept), cell.source
    assert list(tmp_path.rglob("capture-rows/pre/capture.json"))


def test_nothing_of_a_machine_is_kept():
    text = PATH.read_text()
    assert not notebooks.errors(notebooks.read(PATH)) and "/root" not in text and "/home" not in text and "/tmp/tmp" not in text
