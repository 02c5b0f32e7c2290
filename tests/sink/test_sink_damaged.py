# SPDX-License-Identifier: Apache-2.0
"""An unfinished run whose files are damaged, or of another run: refused, with the name of what is wrong, or made
again; never a capture that says it is complete and is not what was put."""
import json
import shutil
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from conftest import seal
from feeding import feed, files_of, start

KEPT = {"rows": dict(keep="rows", sampler="uniform", rate=20, strings=1),
        "moments": dict(keep="moments,reservoir=3", stage="both")}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{name: (the capture's files, a run that was stopped after six of eight texts)}"""
    found = {}
    for name, kept in KEPT.items():
        folder = tmp_path_factory.mktemp("runs")
        assert feed(folder / "whole", **kept)["complete"]
        assert not feed(folder / "stopped", **kept, stop=6)["complete"]
        found[name] = files_of(folder / "whole"), folder / "stopped"
    return found


BLOCK = "b000003: this block of the unfinished run is damaged: remove its folder"


def units_of(folder):
    return next((folder / ".partial" / ".units").iterdir())


def check(runs, tmp_path, name, path, damage, says=None, sealed=False):
    """path: below the run's units. damage(bytes) -> bytes, or None: the file is removed. sealed: the unit's seal is made to fit."""
    right, stopped = runs[name]
    folder = tmp_path / "c"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stopped, folder)
    target = units_of(folder) / path
    changed = damage(target.read_bytes())
    target.unlink() if changed is None else target.write_bytes(changed)
    if sealed:
        seal(target.parent)
    run = start(folder, **KEPT[name])
    out, err = run.communicate(timeout=900)
    assert run.returncode in (0, 2), err
    if run.returncode == 0:
        assert says is None and files_of(folder) == right
        return
    assert says is None or says in err, err
    assert not list(folder.glob("**/capture.json")) or not any(
        json.loads(p.read_text())["complete"] for p in folder.glob("capture.json"))
    # What helps: to start over.
    assert feed(folder, **KEPT[name], force=1)["complete"] and files_of(folder) == right


def cut(size):
    return lambda data: data[:size]


def put(offset, layout, *numbers):
    """Numbers in the place of others."""
    return lambda data: data[:offset] + struct.pack(layout, *numbers) + data[offset + struct.calcsize(layout):]


# ---- run.json ----------------------------------------------------------------------------------

@pytest.mark.parametrize("text", ["", '{"run": 1}', '{"run": {}, "capture": {}}', "[" * 100000])
def test_run_file_damaged(runs, tmp_path, text):
    check(runs, tmp_path, "moments", "../../run.json", lambda data: text.encode(), "run.json: damaged, or of another version: remove its folder")


@pytest.mark.parametrize("path, value", [("sink.layers", 1 << 40), ("sink.texts", -1), ("sink.keep", []), ("sink.head_dim", "x"),
                                         ("sink.q_heads", 0), ("sink", None), ("sink.sampler.type", "odd")])
def test_run_file_contradicts(runs, tmp_path, path, value):
    def damage(data):
        root = json.loads(data)
        *folders, last = path.split(".")
        at = root["run"]
        for folder in folders:
            at = at[folder]
        at[last] = value
        return json.dumps(root).encode()
    check(runs, tmp_path, "rows", "../../run.json", damage)


# ---- blocks ------------------------------------------------------------------------------------

def test_block_file_damaged(runs, tmp_path):
    for text, says in ((b"", BLOCK), (b'{"texts": 1}', BLOCK), (None, "b000003/block.json")):
        check(runs, tmp_path, "rows", "b000003/block.json", lambda data, text=text: text, says)


@pytest.mark.cases(4)
@pytest.mark.parametrize("key, value", [
    ("texts", -1), ("texts", 1 << 62), ("texts", "1"), ("texts", 2), ("tokens", -5), ("rows", []),
    ("rows", [1 << 62] * 6), ("rows", [-1] * 6), ("stored", [1, 2]), ("stored", [1 << 62] * 6), ("stored", ["1"] * 6), ("rows", [0] * 6)])
@pytest.mark.parametrize("name", KEPT)
def test_block_file_contradicts(runs, tmp_path, name, key, value):
    check(runs, tmp_path, name, "b000003/block.json",
          lambda data: json.dumps({**json.loads(data), key: value}).encode(), sealed=True)


STARTS = 7 * 8  # then regions: text, example, part, rows, offset


@pytest.mark.cases(6)
@pytest.mark.parametrize("damage", [
    cut(0), cut(20), cut(STARTS), cut(-1), cut(-40), lambda data: data + bytes(7), put(0, "<q", -1), put(0, "<q", 1 << 62),
    put(8, "<2q", 3, 1), put(48, "<q", 1 << 60), put(STARTS + 24, "<q", 1 << 60), put(STARTS + 24, "<q", -1),
    put(STARTS + 24, "<q", 1), put(STARTS + 32, "<q", 1 << 62), put(STARTS + 32, "<q", -8), put(STARTS + 32, "<q", 3),
    put(STARTS + 24, "<2q", (1 << 63) - 1, (1 << 63) - 1), lambda data: None])
@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("sealed", [False, True])
def test_index_damaged(runs, tmp_path, name, damage, sealed):
    check(runs, tmp_path, name, "b000003/index.post", damage, sealed=sealed)


@pytest.mark.parametrize("damage", [cut(0), cut(100), cut(-1), lambda data: None, put(0, "<q", -5), put(0, "<q", 1 << 62)])
@pytest.mark.parametrize("name", KEPT)
def test_rows_damaged(runs, tmp_path, name, damage):
    check(runs, tmp_path, name, "b000003/rows.post", damage)


@pytest.mark.cases(3)
@pytest.mark.parametrize("at", [0, -1000])
@pytest.mark.parametrize("path", ["rows.post", "index.post", "examples"])
def test_a_bit_that_flipped(runs, tmp_path, path, at):
    """Numbers like any others: the block is named, and made again once its folder is removed."""
    def flip(data):
        changed = bytearray(data)
        changed[at % len(data)] ^= 64
        return bytes(changed)
    check(runs, tmp_path, "rows", f"b000003/{path}", flip, BLOCK)
    folder = tmp_path / "again"
    shutil.copytree(runs["rows"][1], folder)
    target = units_of(folder) / "b000003" / path
    target.write_bytes(flip(target.read_bytes()))
    assert BLOCK in feed(folder, **KEPT["rows"], refused=True)
    shutil.rmtree(target.parent)
    assert feed(folder, **KEPT["rows"])["complete"] and files_of(folder) == runs["rows"][0]


@pytest.mark.parametrize("damage", [cut(0), cut(20), cut(-2), lambda data: None, lambda data: data * 2, lambda data: b"{}\n",
                                    lambda data: b"7\n", lambda data: b"\xff\xfe\n"])
def test_list_of_examples_damaged(runs, tmp_path, damage):
    check(runs, tmp_path, "rows", "b000003/examples", damage)


# ---- sums --------------------------------------------------------------------------------------

def node(folder):
    """A file of sums that is not the last one."""
    return sorted(units_of(folder).glob("post-n*/l00.safetensors"))[0].relative_to(units_of(folder))


@pytest.mark.cases(3)
@pytest.mark.parametrize("damage", [cut(0), cut(7), cut(100), cut(-1), lambda data: data + b"x", lambda data: None,
                                    put(0, "<Q", 1 << 63), put(0, "<Q", 5), lambda data: data.replace(b"moments 2", b"moments 3")])
def test_sums_damaged(runs, tmp_path, damage):
    for sealed in (False, True):
        check(runs, tmp_path, "moments", node(runs["moments"][1]), damage, sealed=sealed)


@pytest.mark.parametrize("change", [
    {"q.heads": np.arange(4) + 1}, {"q.count": -1}, {"q.mean": np.nan}, {"q.sum_xx": -1.0}, {"k.heads": None}, {"q.texts": 10 ** 15},
    {"q.count": 3}])
def test_sums_contradict(runs, tmp_path, change):
    def damage(data):
        path = tmp_path / "x.safetensors"
        path.write_bytes(data)
        arrays = load_file(path)
        size = struct.unpack("<Q", data[:8])[0]
        facts = json.loads(data[8:8 + size])["__metadata__"]
        for name, value in change.items():
            if value is None:
                arrays = {key: a for key, a in arrays.items() if not key.startswith(name[:2])}
            else:
                arrays[name] = np.zeros_like(arrays[name]) + np.array(value, arrays[name].dtype)
        save_file(arrays, path, facts)
        return path.read_bytes()
    check(runs, tmp_path, "moments", node(runs["moments"][1]), damage, sealed=True)


def test_sums_of_another_run(runs, tmp_path):
    """Of as many heads, but other texts."""
    feed(tmp_path / "other", **KEPT["moments"], texts=2, stop=1)
    other = next(units_of(tmp_path / "other").glob("post-n00-000000/l00.safetensors")).read_bytes()
    check(runs, tmp_path, "moments", node(runs["moments"][1]), lambda data: other, sealed=True)


# ---- places ------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, victim, other", [("rows", "b000003", "b000001"), ("rows", "b000000", "b000004"),
                                                 ("moments", "b000003", "b000001"), ("moments", None, None)])
def test_a_unit_under_another_name(runs, tmp_path, name, victim, other):
    """Whole in itself, with a checksum that fits: not believed, and made again once it is removed."""
    whole, stopped = runs[name]
    folder = tmp_path / "c"
    shutil.copytree(stopped, folder)
    units = units_of(folder)
    if not victim:
        sums = sorted(path.name for path in units.glob("post-n*"))
        victim, other = sums[0], sums[-1]
    assert victim != other
    shutil.rmtree(units / victim)
    shutil.copytree(units / other, units / victim)
    said = feed(folder, **KEPT[name], refused=True)
    assert victim in said and f"it was made as {units.name}/{other}" in said and "run the command again" in said
    assert not (folder / "capture.json").exists()
    if victim.startswith("b"):
        shutil.rmtree(units / victim)
        assert feed(folder, **KEPT[name])["complete"] and files_of(folder) == whole


@pytest.mark.parametrize("name", KEPT)
def test_units_without_a_seal(runs, tmp_path, name):
    """Of an older version: made again, whatever they hold."""
    whole, stopped = runs[name]
    folder = tmp_path / "c"
    shutil.copytree(stopped, folder)
    count = 0
    for path in units_of(folder).glob("*/seal"):
        count += 1
        path.unlink()
        for file in path.parent.iterdir():
            file.write_bytes(b"{}")
    assert count > 5
    assert feed(folder, **KEPT[name])["complete"] and files_of(folder) == whole


def test_the_last_sums_are_not_believed_where_they_are_to_go(runs, tmp_path):
    """A stopped run left moments of another layer in the capture that is being built."""
    whole, _ = runs["moments"]
    folder = tmp_path / "c"
    shutil.copytree(runs["moments"][1], folder)
    for stage in ("post", "pre"):
        target = folder / ".partial" / "new" / stage / "moments"
        target.mkdir(parents=True)
        (target / "l00.safetensors").write_bytes(whole[f"{stage}/moments/l02.safetensors"])
    assert feed(folder, **KEPT["moments"])["complete"] and files_of(folder) == whole
