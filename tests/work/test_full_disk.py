# SPDX-License-Identifier: Apache-2.0
"""A disk that is full, at any size: what is there in the end is all of it, or nothing that says it is complete."""
import json
import resource
import shutil
import subprocess

import pytest
from conftest import EXAMPLE, ROOT, environment

TINY = ROOT / "examples" / "kjv-tiny"
LAYER = ["--layers", "0", "--heads", "0"]
ROWS = ["--max-length", "64", "--max-texts", "12", "--sampler", "all"]
COMMANDS = {"capture": ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", *LAYER, *ROWS],
            "study": ["study", "s.yaml", "--no-figures"], "compare": ["compare", "results", "results"], "report": ["report", "results"],
            "scatter": ["scatter", EXAMPLE, "--heads", "0:0"], "analyze": ["analyze", EXAMPLE, *LAYER]}


def names_of(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def files_of(folder):
    """The bytes of each file; not of those that have times in them."""
    return {name: name if name.endswith((".html", "manifest.json")) else (folder / name).read_bytes() for name in names_of(folder)}


def check_partial(folder, run):
    assert run.returncode == 1, run.stderr
    assert any(word in run.stderr for word in ("No space", "too large", "disk", "may not become")), run.stderr
    for manifest in (folder / "manifest.json", folder / "capture.json", folder / ".partial/new/capture.json"):
        if manifest.exists():
            assert not json.loads(manifest.read_text())["complete"]
    there = names_of(folder) if folder.exists() else []
    assert not [n for n in there if ".tmp-" in n and not n.startswith(".partial")]
    assert "report.html" not in there and "compare.html" not in there


@pytest.mark.parametrize("name", COMMANDS)
def test_files_that_may_not_grow(program, qkscope, sanitized, tmp_path, name):
    """No file may be larger than so many bytes; where one may be again the same command makes all."""
    if sanitized:
        pytest.skip("what a sanitizer does at the limit is its own")
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {EXAMPLE}}}\nanalyses: [pca]\ndata: {{layers: [0], heads: [0]}}\n")
    if name in ("compare", "report"):
        qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path / "results", "-q", expect=0)
    words = [*COMMANDS[name], "-q", "-o"]
    qkscope(*words, "out", cwd=tmp_path, expect=0)
    out = tmp_path / "out"
    made, failed = files_of(out), 0
    for limit in (1500, 12000, 70000, 10 ** 8):
        shutil.rmtree(out)
        run = subprocess.run([program, *words, "out"], cwd=tmp_path, env=environment(), capture_output=True, text=True, restore_signals=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        if run.returncode == 0:
            break
        failed += 1
        check_partial(out, run)
        qkscope(*words, "out", cwd=tmp_path, expect=0)
        assert files_of(out) == made
    assert failed > 1 and run.returncode == 0 and files_of(out) == made
