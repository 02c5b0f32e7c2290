# SPDX-License-Identifier: Apache-2.0
"""An unfinished run whose files are damaged, or of another run: refused, with the name of what is wrong, or made
again; never a capture that says it is complete and is not what was put."""
import json
import shutil
import struct

import pytest

from conftest import write_unit
from feeding import feed, files_of, start

KEPT = {"rows": dict(keep="rows", sampler="uniform", rate=20, strings=1),
        "moments": dict(keep="moments,reservoir=3", stage="both", groups=8, ids=1)}


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


BLOCK = "b000003: this block of the unfinished run is damaged: remove it"


def check(runs, tmp_path, name, path, change, says=None):
    """path: below .partial; change(its file) damages it."""
    right, stopped = runs[name]
    folder = tmp_path / "c"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(stopped, folder)
    change(folder / ".partial" / path)
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


PLACES = {"texts": 2, "at": 5, "rows": 6, "stored": 6}  # numbers in the head of a block: of its places, and of three layers of two kinds


def split(unit):
    """(what is before the head, the head)"""
    whole, _, last = unit.read_bytes()[:-1].rpartition(b"\n")
    size = int(last.split(b" ")[5])
    return whole[:-size], whole[-size:]


def writing(damage):
    return lambda path: path.write_bytes(damage(path.read_bytes()))


def cut(size):
    return lambda data: data[:size]


# ---- run.json ----------------------------------------------------------------------------------

@pytest.mark.parametrize("text", ["", '{"run": 1}', '{"run": {}, "capture": {}}', "[" * 100000])
def test_run_file_damaged(runs, tmp_path, text):
    check(runs, tmp_path, "moments", "run.json", writing(lambda data: text.encode()), "run.json: damaged, or of another version: remove its folder")


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
    check(runs, tmp_path, "rows", "run.json", writing(damage))


# ---- blocks: bytes that a disk or a copy has changed -------------------------------------------

@pytest.mark.cases(5)
@pytest.mark.parametrize("damage", [cut(0), cut(20), cut(-1), cut(-40), lambda data: data + b"x", lambda data: data * 2,
                                    lambda data: data[8:], lambda data: b"{}\n"])
@pytest.mark.parametrize("name", KEPT)
def test_a_block_that_is_not_whole_is_made_again(runs, tmp_path, name, damage):
    whole, stopped = runs[name]
    folder = tmp_path / "c"
    shutil.copytree(stopped, folder)
    block = folder / ".partial" / "units" / "b000003"
    block.write_bytes(damage(block.read_bytes()))
    if b"qkscope unit" in block.read_bytes()[-200:] and block.read_bytes().endswith(b"\n"):
        assert BLOCK in feed(folder, **KEPT[name], refused=True)
        block.unlink()
    assert feed(folder, **KEPT[name])["complete"] and files_of(folder) == whole


@pytest.mark.parametrize("at", [0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", KEPT)
def test_a_bit_that_flipped(runs, tmp_path, name, at):
    """Numbers like any others: the block is named, and made again once it is removed."""
    folder = tmp_path / "again"
    shutil.copytree(runs[name][1], folder)
    target = folder / ".partial" / "units" / "b000003"
    changed = bytearray(target.read_bytes())
    changed[int(at * len(split(target)[0]))] ^= 64
    target.write_bytes(changed)
    assert BLOCK in feed(folder, **KEPT[name], refused=True)
    target.unlink()
    assert feed(folder, **KEPT[name])["complete"] and files_of(folder) == runs[name][0]


@pytest.mark.parametrize("name, victim, other", [("rows", "b000003", "b000001"), ("rows", "b000000", "b000004"),
                                                 ("moments", "b000003", "b000001")])
def test_a_unit_under_another_name(runs, tmp_path, name, victim, other):
    """Whole in itself, with a checksum that fits: not believed, and made again. So is one of another run."""
    whole, stopped = runs[name]
    folder = tmp_path / "c"
    shutil.copytree(stopped, folder)
    units = folder / ".partial" / "units"
    shutil.copyfile(units / other, units / victim)
    assert not feed(tmp_path / "other", **KEPT[name], texts=9, stop=8 if name == "rows" else 6)["complete"]
    shutil.copyfile(tmp_path / "other" / ".partial" / "units" / "b000001", units / "b000001")
    assert feed(folder, **KEPT[name])["complete"] and files_of(folder) == whole


# ---- blocks: what does harm on purpose, with a checksum that fits ------------------------------

def forging(change):
    """change(bytes before the head, its values) -> bytes"""
    def forge(path):
        data, line = split(path)
        words, head = line.split(b" "), {}
        for key, count in PLACES.items():
            head[key], words = [int(word) for word in words[:count]], words[count:]
        assert not words
        data = bytearray(data)
        data = change(data, head) or data
        write_unit(path, bytes(data), b" ".join(str(value).encode() for values in head.values() for value in values))
    return forge


def numbers(key, *values, at=0):
    def change(data, head):
        head[key][at:at + len(values)] = values
    return forging(change)


@pytest.mark.cases(6)
@pytest.mark.parametrize("key, value", [
    ("texts", []), ("texts", [-1, 0]), ("texts", [1 << 62, 0]), ("texts", ["x", 0]), ("texts", [2, 0]), ("texts", [1, -5]),
    ("rows", []), ("rows", [1 << 62] * 6), ("rows", [-1] * 6), ("rows", [0] * 6), ("stored", [1, 2]),
    ("stored", [1 << 62] * 6), ("stored", ["1x"] * 6), ("stored", [1 << 40] * 6), ("at", [0] * 5), ("at", [1 << 40] * 5), ("at", [8] * 5),
    ("at", [1 << 62] * 5), ("at", [-8] * 5), ("at", []), ("rows", [0] * 7)])
@pytest.mark.parametrize("name", KEPT)
def test_heads_that_contradict(runs, tmp_path, name, key, value):
    def change(data, head):
        head[key] = value
    check(runs, tmp_path, name, "units/b000003", forging(change))


def in_place(key, offset, layout, *values):
    """Other numbers at an offset from a place that the head names."""
    def change(data, head):
        at = head["at"][{"examples": 0, "index": 2, "sums": 4}[key]] + offset
        data[at:at + struct.calcsize(layout)] = struct.pack(layout, *values)
    return forging(change)


STARTS = 7 * 8  # then regions: text, example, part, rows, offset, block


@pytest.mark.cases(6)
@pytest.mark.parametrize("values", [
    (0, "<q", -1), (0, "<q", 1 << 62), (8, "<2q", 3, 1), (48, "<q", 1 << 60), (STARTS + 24, "<q", 1 << 60), (STARTS + 24, "<q", -1),
    (STARTS + 24, "<q", 1), (STARTS + 32, "<q", 1 << 62), (STARTS + 32, "<q", -8), (STARTS + 32, "<q", 3),
    (STARTS + 24, "<2q", (1 << 63) - 1, (1 << 63) - 1)])
@pytest.mark.parametrize("name", KEPT)
def test_index_forged(runs, tmp_path, name, values):
    check(runs, tmp_path, name, "units/b000003", in_place("index", *values))


@pytest.mark.parametrize("offset, layout, value", [(0, "<q", -5), (0, "<q", 1 << 62)])
@pytest.mark.parametrize("name", KEPT)
def test_rows_forged(runs, tmp_path, name, offset, layout, value):
    check(runs, tmp_path, name, "units/b000003", forging(lambda data, head: data.__setitem__(
        slice(offset, offset + 8), struct.pack(layout, value))))


@pytest.mark.parametrize("text", [b"{}", b"7", b"\xff\xfe", b"{", b"\n\n\n", b"[" * 90])
def test_examples_forged(runs, tmp_path, text):
    def change(data, head):
        at, length = head["at"][:2]
        data[at:at + length] = text.ljust(length)[:length]
    check(runs, tmp_path, "rows", "units/b000003", forging(change))
    check(runs, tmp_path, "rows", "units/b000003", numbers("at", 3, at=1))
    check(runs, tmp_path, "rows", "units/b000003", numbers("at", 1 << 40, at=1))


@pytest.mark.cases(5)
@pytest.mark.parametrize("value", [-1, 0, 8, 24, 1 << 40, (1 << 63) - 1])
@pytest.mark.parametrize("place", [0, 8])
def test_list_of_sums_forged(runs, tmp_path, place, value):
    check(runs, tmp_path, "moments", "units/b000003", in_place("sums", place, "<q", value))


@pytest.mark.cases(3)
@pytest.mark.parametrize("offset", [0, 8])
@pytest.mark.parametrize("value", [-1, 65, 1 << 40, (1 << 63) - 1])
def test_sums_forged(runs, tmp_path, offset, value):
    """How many groups and buckets there are."""
    def change(data, head):
        at = struct.unpack_from("<q", data, head["at"][4])[0] + offset
        data[at:at + 8] = struct.pack("<q", value)
    check(runs, tmp_path, "moments", "units/b000003", forging(change), BLOCK)


def test_sums_of_other_rows(runs, tmp_path):
    """Of another block, in the place of its own."""
    def change(data, head):
        at = head["at"][4]
        first, second = struct.unpack_from("<2q", data, at), struct.unpack_from("<2q", data, at + 32)
        struct.pack_into("<2q", data, at, *second)
        struct.pack_into("<2q", data, at + 32, *first)
    check(runs, tmp_path, "moments", "units/b000003", forging(change), BLOCK)


def test_what_a_stopped_run_was_building_is_not_believed(runs, tmp_path):
    """It left moments of another layer in the capture that is being built."""
    whole, _ = runs["moments"]
    folder = tmp_path / "c"
    shutil.copytree(runs["moments"][1], folder)
    for stage in ("post", "pre"):
        target = folder / ".partial" / "new" / stage / "moments"
        target.mkdir(parents=True)
        (target / "l00.safetensors").write_bytes(whole[f"{stage}/moments/l02.safetensors"])
    assert feed(folder, **KEPT["moments"])["complete"] and files_of(folder) == whole
