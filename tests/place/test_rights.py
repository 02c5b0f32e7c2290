# SPDX-License-Identifier: Apache-2.0
"""An output folder that was there keeps its owner, its rights and the link that leads to it, in all commands."""
import os
import shutil
import subprocess

import pytest
from conftest import EXAMPLE, ROOT, environment

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--max-texts", "4",
           "--layers", "0", "--heads", "0", "--sampler", "all"]
LAYER = ["--layers", "0", "--heads", "0"]
REPACK = ["repack", EXAMPLE]
# What is there before, and the command.
CASES = {"capture": ([], CAPTURE), "capture force": (CAPTURE, [*CAPTURE, "--force"]),
         "capture both": (CAPTURE, [*CAPTURE, "--stage", "both", "--force"]), "repack": ([], REPACK),
         "repack force": (REPACK, [*REPACK, "--force"]), "repack over capture": (CAPTURE, [*REPACK, "--force"]),
         "capture over repack": (REPACK, [*CAPTURE, "--force"]), "pca": ([], ["pca", EXAMPLE, *LAYER]),
         "synth": ([], ["synth", "--layers", "1", "--dim", "8", "--rows", "50"]),
         "compare": ([], ["compare", EXAMPLE, EXAMPLE, *LAYER, "--no-html"]),
         "study": ([], ["study", "s.yaml", "--no-figures"])}


@pytest.mark.usefixtures("exchange")
@pytest.mark.parametrize("owner", [None, (1234, 5678)])
@pytest.mark.parametrize("name", CASES)
def test_it_stays_as_it_was(qkscope, tmp_path, name, owner):
    if owner and os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {EXAMPLE}}}\nanalyses: [pca]\ndata: {{layers: [0]}}\n")
    out, link = tmp_path / "real", tmp_path / "link"
    out.mkdir()
    link.symlink_to("real")
    before, command = CASES[name]
    if before:
        qkscope(*before, "-o", out, "-q", expect=0)
    if owner:
        os.chown(out, *owner)
    out.chmod(0o2700)
    was = out.stat()
    qkscope(*command, "-o", link, "-q", cwd=tmp_path, expect=0)
    now = out.stat()
    assert (oct(now.st_mode), now.st_uid, now.st_gid) == (oct(was.st_mode), was.st_uid, was.st_gid)
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "real", "s.yaml"]
    assert any((out / name).exists() for name in ("capture.json", "post/capture.json", "manifest.json"))


@pytest.mark.usefixtures("exchange")
@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_nobody_looks_in_before_it_is_there(program, qkscope, sanitized, tmp_path):
    """A repack is made beside its place, where the rights of the folder that it replaces do not hold."""
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    qkscope(*REPACK, "-o", tmp_path / "o", "-q", expect=0)
    (tmp_path / "o").chmod(0o700)
    run = subprocess.run(["strace", "-f", "-o", os.devnull, "-e", "trace=renameat2", "-e",
                          "inject=renameat2:signal=SIGKILL:when=1", program, *REPACK, "-o", tmp_path / "o", "--force"],
                         env=environment(), capture_output=True)
    if b"ptrace" in run.stderr:
        pytest.skip("strace may not trace here")
    assert (tmp_path / ".o.repack").stat().st_mode & 0o7777 == 0o700
    qkscope(*REPACK, "-o", tmp_path / "o", "--force", "-q", expect=0)
    assert os.listdir(tmp_path) == ["o"]


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
def test_a_file_system_without_that_step(program, qkscope, sanitized, tmp_path):
    """An empty folder is replaced all the same; a full one stays, and nothing is left beside it."""
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    words = ["strace", "-f", "-o", os.devnull, "-e", "trace=renameat2", "-e", "inject=renameat2:error=EINVAL", program,
             *REPACK, "-q", "-o", tmp_path / "o"]
    (tmp_path / "o").mkdir(0o700)
    run = subprocess.run(words, env=environment(), capture_output=True)
    if b"ptrace" in run.stderr:
        pytest.skip("strace may not trace here")
    assert run.returncode == 0 and (tmp_path / "o").stat().st_mode & 0o777 == 0o700
    run = subprocess.run([*words, "--force"], env=environment(), capture_output=True)
    assert run.returncode == 1 and b"cannot take the place of" in run.stderr
    assert os.listdir(tmp_path) == ["o"]
    qkscope("inspect", tmp_path / "o", expect=0)
