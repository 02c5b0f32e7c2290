# SPDX-License-Identifier: Apache-2.0
"""A disk that is full, at any size: what is there in the end is all of it, or nothing that says it is complete, or what
was there before."""
import json
import os
import resource
import shutil
import subprocess

import pytest
from conftest import EXAMPLE, ROOT, environment

TINY = ROOT / "examples" / "kjv-tiny"
LAYER = ["--layers", "0", "--heads", "0"]
ROWS = ["--max-length", "64", "--max-texts", "30", "--sampler", "all"]
COMMANDS = {"study": ["study", "s.yaml"], "compare": ["compare", EXAMPLE, EXAMPLE, *LAYER], "report": ["report", "results"],
            "analyze": ["analyze", EXAMPLE, *LAYER], "scatter": ["scatter", EXAMPLE, "--layer", "0", "--head", "0"],
            "synth": ["synth", "--layers", "1", "--dim", "16", "--rows", "500"], "repack": ["repack", EXAMPLE],
            "capture": ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", *LAYER, *ROWS]}


@pytest.fixture(scope="module")
def here(qkscope, tmp_path_factory):
    """The folder in which the commands run, and what each of them makes where there is room."""
    folder = tmp_path_factory.mktemp("here")
    (folder / "s.yaml").write_text(f"models:\n  - {{name: a, source: {EXAMPLE}}}\nanalyses: [pca]\ndata: {{layers: [0], heads: [0]}}\n")
    qkscope("pca", EXAMPLE, *LAYER, "-o", folder / "results", "-q", expect=0)
    if not shutil.which("gnuplot"):
        pytest.skip("gnuplot is not installed")
    made = {}
    for name, words in COMMANDS.items():
        qkscope(*words, "-o", folder / name, "-q", cwd=folder, expect=0)
        made[name] = names_of(folder / name)
    return folder, made


def names_of(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def check(name, folder, run, made):
    """Whether it found room."""
    there = names_of(folder) if folder.exists() else []
    if run.returncode == 0:
        assert there == made
        return True
    assert run.returncode == 1, run.stderr
    assert any(word in run.stderr for word in ("No space", "too large", "disk", "may not become")), run.stderr
    for manifest in (folder / "manifest.json", folder / "capture.json", folder / ".partial/new/capture.json"):
        if manifest.exists():
            assert not json.loads(manifest.read_text())["complete"]
    assert not [n for n in there if ".tmp-" in n and not n.startswith(".partial")]
    assert "report.html" not in there and "compare.html" not in there
    return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_small_disk(program, here, tmp_path, name):
    folder, made = here
    disk = tmp_path / "disk"
    disk.mkdir()
    rooms = []
    for kilobytes in (24, 120, 400, 20000):
        if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", disk], capture_output=True).returncode:
            pytest.skip("no file system may be mounted here")
        try:
            run = subprocess.run([program, *COMMANDS[name], "-o", disk / "o", "-q"], cwd=folder, env=environment(),
                                 capture_output=True, text=True, timeout=120)
            rooms.append(check(name, disk / "o", run, made[name]))
            if not rooms[-1] and kilobytes == 120:
                again = subprocess.run(["mount", "-o", "remount,size=50m", disk], capture_output=True)
                assert again.returncode == 0
                run = subprocess.run([program, *COMMANDS[name], "-o", disk / "o", "-q"], cwd=folder, env=environment(),
                                     capture_output=True, text=True, timeout=120)
                assert run.returncode == 0 and names_of(disk / "o") == made[name], run.stderr
        finally:
            subprocess.run(["umount", disk], check=True)
        if rooms[-1]:
            break
    assert rooms[0] is False and rooms[-1] is True


@pytest.mark.parametrize("name", COMMANDS)
def test_files_that_may_not_grow(program, here, sanitized, tmp_path, name):
    """The same for everyone: no file may be larger than so many bytes."""
    if sanitized:
        pytest.skip("gnuplot would be the only program to notice")
    folder, made = here
    failed = 0
    for limit in (1500, 12000, 70000, 10 ** 8):
        run = subprocess.run([program, *COMMANDS[name], "-o", tmp_path / str(limit), "-q"], cwd=folder, env=environment(),
                             capture_output=True, text=True, timeout=120, restore_signals=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        failed += not check(name, tmp_path / str(limit), run, made[name])
        if run.returncode == 0:
            break
    assert failed > 1 and run.returncode == 0
