# SPDX-License-Identifier: Apache-2.0
"""An output folder that was there keeps its owner, its rights and the link that leads to it, in all commands."""
import os
import shutil

import pytest
from conftest import EXAMPLE, ROOT

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--max-texts", "4",
           "--layers", "0", "--heads", "0", "--sampler", "all"]
LAYER = ["--layers", "0", "--heads", "0"]
# What is there before, and the command.
CASES = {"capture": ([], CAPTURE), "capture both": (CAPTURE, [*CAPTURE, "--stage", "both", "--force"]),
         "pca": ([], ["pca", EXAMPLE, *LAYER]), "compare": ([], ["compare", "results", "results", "--no-html"]),
         "study": ([], ["study", "s.yaml", "--no-figures"]), "capture force": (CAPTURE, [*CAPTURE, "--force"])}


@pytest.mark.usefixtures("exchange")
@pytest.mark.parametrize("name", CASES)
def test_it_stays_as_it_was(qkscope, tmp_path, name):
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {EXAMPLE}}}\nanalyses: [pca]\ndata: {{layers: [0]}}\n")
    out, link = tmp_path / "real", tmp_path / "link"
    out.mkdir()
    link.symlink_to("real")
    before, command = CASES[name]
    results = []
    if name == "compare":
        results = ["results"]
        qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path / "results", "-q", expect=0)
    if before:
        qkscope(*before, "-o", out, "-q", expect=0)
    if os.geteuid() == 0:
        os.chown(out, 1234, 5678)
    out.chmod(0o2700)
    was = out.stat()
    qkscope(*command, "-o", link, "-q", cwd=tmp_path, expect=0)
    now = out.stat()
    assert (oct(now.st_mode), now.st_uid, now.st_gid) == (oct(was.st_mode), was.st_uid, was.st_gid)
    assert link.is_symlink() and sorted(os.listdir(tmp_path)) == ["link", "real", *results, "s.yaml"]
    assert any((out / name).exists() for name in ("capture.json", "post/capture.json", "manifest.json"))


@pytest.mark.test_all
def test_a_list_of_figures_that_cannot_be_read(unprivileged, qkscope, tmp_path):
    qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path, "-q", expect=0)
    words = ["report", tmp_path, "--no-html", "-q"]
    qkscope(*words, expect=0)
    listed = tmp_path / "figures" / "README.md"
    before = listed.read_bytes()
    listed.chmod(0)
    assert "figures/README.md: cannot open" in unprivileged(*words, expect=1).err
    listed.chmod(0o644)
    assert listed.read_bytes() == before
