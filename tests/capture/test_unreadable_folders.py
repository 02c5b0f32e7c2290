# SPDX-License-Identifier: Apache-2.0
"""A folder of a head that cannot be listed costs that head, as a file that cannot be read does; one beside the heads
costs nothing."""
import json
import os
import shutil

import pytest
from conftest import last_run, read_csv, synth

BAD = "l00h02q"
WAYS = ("closed", "link to a file", "link to itself")


@pytest.fixture(scope="module")
def made(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    synth(folder / "c", layers=2, query_heads=4, dim=8, examples=6, rows=40, seed=1, q_per_kv_group=4)
    qkscope("analyze", folder / "c", "-o", folder / "of-c", expect=0)
    synth(folder / "packed", layers=2, query_heads=4, dim=8, examples=6, rows=40, seed=1, q_per_kv_group=4, layout="packed")
    return folder


@pytest.fixture
def capture(made, tmp_path):
    return shutil.copytree(made / "c", tmp_path / "c")


@pytest.fixture
def spoil(request):
    def spoil(folder, way):
        if way == "closed":
            folder.chmod(0)
            request.addfinalizer(lambda: folder.chmod(0o755))
            return
        shutil.rmtree(folder)
        if way == "link to a file":
            folder.with_name("some.txt").write_text("text")
        folder.symlink_to({"link to itself": folder.name, "link to a file": "some.txt"}[way])
    return spoil


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_one_head_fails(unprivileged, made, capture, tmp_path, spoil, way, listed):
    """Every analysis goes on with the others, whose rows are those of the whole capture. A link to a file is no folder
    and no head, unless capture.json has it."""
    spoil(capture / BAD, way)
    if not listed:
        (capture / "capture.json").unlink()
    lost = listed or way != "link to a file"
    for command in ("rotate", "plasticity", "pca"):
        out = tmp_path / command
        done = unprivileged(command, capture, "-o", out, "--q-per-kv-group", 4, expect=3 if lost else 0)
        assert not lost or any(f"/{BAD}" in line for line in done.err.splitlines()), done.err
        failures = last_run(out)["failures"]
        assert [f["head"] for f in failures] == [BAD] * lost
        table = {"pca": "qk.csv", "rotate": "rotated.csv"}.get(command, "head_metrics.csv")
        want = [r for r in read_csv(made / "of-c" / table) if (r["layer"], r["q_head"]) != (0, 2)]
        names = ("layer", "q_head", *(set(want[0]) & {"r_q", "r_k", "position_r", "ap_overall"}))
        assert [[r[n] for n in names] for r in read_csv(out / table)] == [[r[n] for n in names] for r in want]
    found = unprivileged("inspect", capture, "--json", expect=3 if lost else 0)
    assert [h["name"] for h in json.loads(found.out)["heads"] if h.get("error")] == [BAD] * lost
    inspected = unprivileged("inspect", capture, expect=3 if lost else 0)
    assert inspected.err.count(BAD) == lost


def test_all_heads_fail(unprivileged, capture, tmp_path, spoil):
    for path in capture.iterdir():
        if path.is_dir():
            spoil(path, "closed")
    done = unprivileged("pca", capture, "-o", tmp_path / "out", expect=1)
    assert "Permission denied" in done.err and not (tmp_path / "out" / "qk.csv").exists()


def test_a_packed_folder(unprivileged, made, tmp_path, spoil, way="closed"):
    """Its heads fail, where capture.json says which they are; else nothing does, and the run ends."""
    capture = shutil.copytree(made / "packed", tmp_path / "c")
    spoil(capture / "l01q", way)
    unprivileged("pca", capture, "-o", tmp_path / "out", expect=3)
    assert {r["layer"] for r in read_csv(tmp_path / "out" / "heads.csv")} == {0}
    assert [f["head"] for f in last_run(tmp_path / "out")["failures"]] == [f"l01h{h:02}q" for h in range(4)]
    (capture / "capture.json").unlink()
    assert "l01q" in unprivileged("pca", capture, "-o", tmp_path / "out2", expect=1).err


def test_a_folder_beside_the_heads(unprivileged, made, capture, tmp_path, spoil):
    """As a disk has its lost+found; alone, it is what is told."""
    (capture / "lost+found").mkdir()
    spoil(capture / "lost+found", "closed")
    unprivileged("pca", capture, "-o", tmp_path / "out", expect=0)
    assert (tmp_path / "out" / "heads.csv").read_bytes() == (made / "of-c" / "heads.csv").read_bytes()
    (tmp_path / "disk" / "closed").mkdir(parents=True)
    spoil(tmp_path / "disk" / "closed", "closed")
    said = unprivileged("pca", tmp_path / "disk", "-o", tmp_path / "out2", expect=1).err
    assert f"{tmp_path / 'disk' / 'closed'}: cannot open folder: Permission denied" in said
    assert os.access(tmp_path / "out", os.R_OK) and not (tmp_path / "out2").exists()
