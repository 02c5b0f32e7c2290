# SPDX-License-Identifier: Apache-2.0
"""--force replaces a capture. What somebody put into its folders is not removed with it."""
import shutil

import pytest
from conftest import ROOT

TINY = ROOT / "examples" / "kjv-tiny"
CAPTURE = ["capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-length", "64", "--layers", "0",
           "--sampler", "all", "-q", "--threads", "1", "--keep", "rows,moments"]


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def small(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    qkscope(*CAPTURE, "--max-texts", "2", "-o", folder / "c", expect=0)
    qkscope(*CAPTURE, "--max-texts", "2", "-o", folder / "1", "--shard", "1/2", expect=0)  # which has none of the blocks
    return folder


@pytest.mark.parametrize("name", ["l00h00q/notes.txt", "l00h00q/mine/a.parquet", "l00h00q/x.parquet/a", "l07h03k", "moments/notes.txt",
                                  "examples.csv/a"])
@pytest.mark.parametrize("command", ["capture", "merge"])
def test_force_refuses_files_of_others(qkscope, small, tmp_path, command, name):
    out = tmp_path / "c"
    shutil.copytree(small / "c", out)
    path = out / name
    if path.parent.is_file():
        path.parent.unlink()
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    words = {"capture": CAPTURE, "merge": ["merge", small / "1"]}[command]
    before = files(out)
    said = qkscope(*words, "-o", out, "--force", "-q", expect=1).err
    assert "is no file of a capture" in said and str(out / name.split("/")[0]) in said
    assert files(out) == before and sorted(p.name for p in tmp_path.iterdir()) == ["c"]


def test_what_a_killed_run_left_is_replaced(qkscope, small, tmp_path):
    out = tmp_path / "c"
    shutil.copytree(small / "c", out)
    (out / "l00h00q" / "data.parquet.tmp-qkscope-123-0").write_text("")
    (out / "moments" / "l00q.safetensors.tmp-qkscope-123-0").write_text("")
    (out / "notes.txt").write_text("mine")
    qkscope(*CAPTURE, "--max-texts", "1", "-o", out, "--force", expect=0)
    assert (out / "notes.txt").read_text() == "mine"
    assert not [p for p in files(out) if ".tmp-" in p]
