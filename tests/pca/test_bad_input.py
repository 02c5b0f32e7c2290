# SPDX-License-Identifier: Apache-2.0
"""Damaged, inconsistent and degenerate heads: the program says which file, column and why, goes
on with the other heads, and never leaves half a result."""
import os
import random
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from conftest import (EXAMPLE, check_survived, environment, head_name, last_run, read_bytes,
                      read_csv, read_json, write_head)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TABLES = ("qk.csv", "heads.csv")
ROWS = 600
BAD = "l00h02q"  # the head to be damaged; its key head serves h02 and h03


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """4 query heads, 2 key heads, 600 rows of 8 values, uncompressed pages of a few rows."""
    root = tmp_path_factory.mktemp("healthy")
    rng = np.random.default_rng(1)
    for kind, heads in (("q", 4), ("k", 2)):
        for head in range(heads):
            x = rng.standard_normal((ROWS, 8)).astype(np.float32)
            write_head(root, head_name(0, head, kind), x, np.arange(ROWS), row_group_size=250)
    return root


@pytest.fixture(scope="module")
def clean(qkscope, healthy, tmp_path_factory):
    """What the program says of the healthy capture."""
    out = tmp_path_factory.mktemp("clean")
    qkscope("pca", healthy, "-o", out, expect=0)
    return {name: (out / name).read_text().splitlines() for name in TABLES}


@pytest.fixture
def capture(healthy, tmp_path):
    """A copy to be damaged."""
    return shutil.copytree(healthy, tmp_path / "capture")


def lines_without(lines, q_heads):
    return [line for line in lines if line.split(",")[2] not in map(str, q_heads)]


def check_others(out, clean, failed):
    for name in TABLES:
        got = (out / name).read_text().splitlines()
        assert got == lines_without(clean[name], failed), name


def check_failure(qkscope, capture, out, clean, words, bad=BAD, failed=(2,)):
    """Exit code 3; stderr and manifest name the file and say why; the others are whole."""
    result = qkscope("pca", capture, "-o", out, expect=3)
    lines = [line for line in result.err.splitlines() if f"/{bad}/" in line]
    assert lines, result.err
    for word in words:
        assert word in lines[0], (word, result.err)
    check_others(out, clean, failed)
    manifest = last_run(out)
    assert manifest["heads_without_numbers"] == len(failed)
    assert [f["head"] for f in manifest["failures"]] == [head_name(0, h, "q") for h in failed]
    assert f"/{bad}/" in manifest["failures"][0]["message"]
    assert sorted(p.name for p in out.iterdir()) == ["heads.csv", "manifest.json", "qk.csv",
                                                     "schema.json"]
    return result


def data_file(capture, head=BAD):
    return capture / head / "data.parquet"


# ---- damaged files ---------------------------------------------------------------------------

@pytest.mark.parametrize("keep", [0, 1, 3, 4, 7, 8, 11, 12, 100, 0.25, 0.5, 0.9, -1000, -100,
                                  -9, -8, -5, -4, -1])
def test_truncated(qkscope, capture, clean, tmp_path, keep):
    path = data_file(capture)
    content = path.read_bytes()
    path.write_bytes(content[:int(keep * len(content)) if isinstance(keep, float) else keep])
    check_failure(qkscope, capture, tmp_path / "out", clean, [])


@pytest.mark.parametrize("content", [b"\n" * 4096, b"PAR1", b"PAR1PAR1", b"PAR1\0\0\0\0PAR1",
                                     b"PAR1" + b"\xff" * 500 + b"PAR1", b"PARE" * 100,
                                     b"version https://git-lfs.github.com/spec/v1\noid sha256:"
                                     + b"0" * 64 + b"\nsize 123\n", b"<!DOCTYPE html>" * 40])
def test_not_parquet(qkscope, capture, clean, tmp_path, content):
    data_file(capture).write_bytes(content)
    check_failure(qkscope, capture, tmp_path / "out", clean, [])


def test_damaged_key_head_fails_the_group(qkscope, capture, clean, tmp_path):
    data_file(capture, "l00h01k").write_bytes(b"PAR1 no PAR1")
    result = check_failure(qkscope, capture, tmp_path / "out", clean, [], "l00h01k", (2, 3))
    assert "l00h01k" in result.err


def test_dangling_link(qkscope, capture, clean, tmp_path):
    data_file(capture).unlink()
    data_file(capture).symlink_to("../../blobs/not-there")
    check_failure(qkscope, capture, tmp_path / "out", clean, ["No such file"])


def test_allowing_missing_key_heads_excuses_no_other_failure(qkscope, capture, tmp_path):
    data_file(capture).unlink()
    data_file(capture).symlink_to("../../blobs/not-there")
    for kinds in ([], ["--kinds", "q,k"]):
        result = qkscope("pca", capture, "-o", tmp_path / "out", "--allow-missing", *kinds,
                         expect=3)
        assert BAD in result.err


def test_link_to_itself(qkscope, capture, clean, tmp_path):
    data_file(capture).unlink()
    data_file(capture).symlink_to("data.parquet")
    check_failure(qkscope, capture, tmp_path / "out", clean, [])


def test_unreadable(unprivileged, capture, clean, tmp_path):
    data_file(capture).chmod(0)
    check_failure(unprivileged, capture, tmp_path / "out", clean, ["Permission denied"])


def test_folder_for_a_file(qkscope, capture, clean, tmp_path):
    data_file(capture).unlink()
    data_file(capture).mkdir()
    check_failure(qkscope, capture, tmp_path / "out", clean, ["is a folder"])


def test_pipe_for_a_file(qkscope, capture, clean, tmp_path):
    """Does not wait for somebody to write."""
    data_file(capture).unlink()
    os.mkfifo(data_file(capture))
    check_failure(qkscope, capture, tmp_path / "out", clean, [])


def test_damage_in_a_later_shard(qkscope, capture, clean, tmp_path):
    rng = np.random.default_rng(3)
    data_file(capture).unlink()
    write_head(capture, BAD, rng.standard_normal((90, 8)).astype(np.float32), np.arange(90),
               shards=3)
    path = sorted((capture / BAD).iterdir())[1]
    path.write_bytes(path.read_bytes()[:-20])
    check_failure(qkscope, capture, tmp_path / "out", clean, [path.name])


# ---- a footer that lies ----------------------------------------------------------------------

def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def zigzag(value):
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def rewrite_struct(data, at, path, changes):
    """Copies a Thrift struct (compact protocol) from `at`, with integers replaced: changes maps
    a path of field numbers, list members left out, to the new value. Returns copy and end."""
    out, field = bytearray(), 0
    while True:
        head = data[at]
        out.append(head)
        at += 1
        if head == 0:
            return bytes(out), at
        if head >> 4:
            field += head >> 4
        else:
            value, end = read_varint(data, at)
            field = (value >> 1) ^ -(value & 1)
            out += data[at:end]
            at = end
        copy, at = rewrite_value(data, at, head & 15, path + (field,), changes)
        out += copy


def rewrite_value(data, at, kind, path, changes):
    if kind in (1, 2):  # booleans lie in the field header
        return b"", at
    if kind == 3:
        return data[at:at + 1], at + 1
    if kind in (4, 5, 6):
        end = read_varint(data, at)[1]
        return zigzag(changes[path]) if path in changes else data[at:end], end
    if kind == 7:
        return data[at:at + 8], at + 8
    if kind == 8:
        length, end = read_varint(data, at)
        return data[at:end + length], end + length
    if kind in (9, 10):
        member, count, end = data[at] & 15, data[at] >> 4, at + 1
        if count == 15:
            count, end = read_varint(data, end)
        out, at = bytearray(data[at:end]), end
        for _ in range(count):
            copy, at = rewrite_value(data, at, member, path, changes)
            out += copy
        return bytes(out), at
    assert kind == 12, kind
    return rewrite_struct(data, at, path, changes)


def patch_footer(path, changes):
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer, end = rewrite_struct(data, len(data) - 8 - length, (), changes)
    assert end == len(data) - 8
    path.write_bytes(data[:-8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def test_the_patcher_itself(capture):
    path = data_file(capture)
    before = path.read_bytes()
    patch_footer(path, {})
    assert path.read_bytes() == before
    patch_footer(path, {(3,): 10 ** 12})
    assert pq.read_metadata(path).num_rows == 10 ** 12


FILE_ROWS, GROUP_ROWS, VALUES = (3,), (4, 3), (4, 1, 3, 5)
UNCOMPRESSED, COMPRESSED = (4, 1, 3, 6), (4, 1, 3, 7)
DATA, DICTIONARY = (4, 1, 3, 9), (4, 1, 3, 11)
HUGE = [10 ** 12, 2 ** 31 - 1, 2 ** 31, 2 ** 40, 2 ** 62, 2 ** 63 - 1]


@pytest.mark.parametrize("value", [*HUGE, -1, -2 ** 63, 0, 1, 249])
@pytest.mark.parametrize("fields", [[FILE_ROWS], [GROUP_ROWS], [VALUES],
                                    [FILE_ROWS, GROUP_ROWS, VALUES], [DATA], [DICTIONARY],
                                    [COMPRESSED], [COMPRESSED, UNCOMPRESSED]])
def test_header_lies(qkscope, sanitized, capture, clean, tmp_path, fields, value):
    """No such number is believed: not by allocating it, not by waiting for it. Some can be told
    from elsewhere in the file; then nothing is lost."""
    patch_footer(data_file(capture), {field: value for field in fields})
    start = time.monotonic()
    result = qkscope("pca", capture, "-o", tmp_path / "out",
                     preexec_fn=None if sanitized else limit_memory)
    assert time.monotonic() - start < 20
    if result.code == 0:
        check_others(tmp_path / "out", clean, ())
        assert fields in ([FILE_ROWS], [DATA])
        return
    assert result.code == 3
    assert f"/{BAD}/" in result.err
    check_others(tmp_path / "out", clean, (2,))


def limit_memory():
    resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, 2 << 30))


# ---- columns that are not what they should be ------------------------------------------------

def table_of(capture):
    return pq.read_table(data_file(capture))


def with_vectors(table, vectors, kind=None):
    vectors = vectors if isinstance(vectors, pa.Array) else pa.array(vectors, kind)
    at = table.column_names.index("vector")
    return table.set_column(at, "vector", vectors)


def with_position(table, position):
    return table.set_column(table.column_names.index("position"), "position", position)


def lists(table):
    return table["vector"].to_pylist()


def change_row(row, value):
    def change(table):
        rows = lists(table)
        rows[row] = value(rows[row])
        return with_vectors(table, rows, pa.list_(pa.float32()))
    return change


def change_element(row, element, value):
    def change(table):
        rows = lists(table)
        rows[row][element] = value
        return with_vectors(table, rows, pa.list_(pa.float32()))
    return change


def null_position(table):
    position = table["position"].to_pylist()
    position[333] = None
    return with_position(table, pa.array(position, pa.int32()))


LIST = pa.list_(pa.float32())
COLUMNS = {
    "no vector": (lambda t: t.drop_columns("vector"), ["vector"]),
    "no position": (lambda t: t.drop_columns("position"), ["position"]),
    "no columns it knows": (lambda t: t.select(["bucket"]), ["column"]),
    "positions as text": (lambda t: with_position(t, t["position"].cast(pa.string())),
                          ["position", "STRING"]),
    "positions as double": (lambda t: with_position(t, t["position"].cast(pa.float64())),
                            ["position", "DOUBLE"]),
    "positions as list": (lambda t: with_position(
        t, pa.array([[p] for p in t["position"].to_pylist()])), ["position"]),
    "null position": (null_position, ["position", "333"]),
    "vectors as text": (lambda t: with_vectors(t, [list("abcdefgh")] * ROWS), ["vector"]),
    "vectors as bytes": (lambda t: with_vectors(t, [b"abcdefgh"] * ROWS), ["vector"]),
    "vectors of integers": (lambda t: with_vectors(t, [list(range(8))] * ROWS), ["vector"]),
    "a number for a vector": (lambda t: with_vectors(t, [0.5] * ROWS), ["vector", "list"]),
    "vectors of vectors": (lambda t: with_vectors(t, [[[1.0]] * 8] * ROWS), ["vector"]),
    "vectors of structs": (lambda t: with_vectors(t, [[{"a": 1.0, "b": 2.0}]] * ROWS),
                           ["vector"]),
    "all nulls": (lambda t: with_vectors(t, pa.nulls(ROWS, LIST)), ["vector"]),
    "null type": (lambda t: with_vectors(t, pa.nulls(ROWS)), ["vector"]),
    "empty vectors": (lambda t: with_vectors(t, [[]] * ROWS, LIST), ["vector"]),
    "first vector null": (change_row(0, lambda v: None), ["vector", "null"]),
    "a vector null": (change_row(400, lambda v: None), ["vector", "400"]),
    "last vector null": (change_row(ROWS - 1, lambda v: None), ["vector", "599"]),
    "a null in a vector": (change_element(301, 5, None), ["vector", "301"]),
    "first vector shorter": (change_row(0, lambda v: v[:-1]), ["vector"]),
    "a vector shorter": (change_row(256, lambda v: v[:-1]), ["vector", "256", "7", "8"]),
    "a vector longer": (change_row(257, lambda v: v + [1.0]), ["vector", "257", "8"]),
    "a vector empty": (change_row(255, lambda v: []), ["vector", "255"]),
    "last vector longer": (change_row(ROWS - 1, lambda v: v + [1.0]), ["vector", "599"]),
    "other dimension": (lambda t: with_vectors(t, [v[:7] for v in lists(t)], LIST),
                        ["vector", "7", "8"]),
    "no rows": (lambda t: t.slice(0, 0), ["no rows"]),
    "one row": (lambda t: t.slice(0, 1), ["row"]),
    "NaN first": (change_element(0, 0, float("nan")), ["vector", "row 0"]),
    "NaN in the middle": (change_element(300, 7, float("nan")), ["vector", "row 300"]),
    "NaN last": (change_element(ROWS - 1, 3, float("nan")), ["vector", "row 599"]),
    "infinity": (change_element(511, 2, float("inf")), ["vector", "row 511"]),
    "minus infinity": (change_element(512, 2, float("-inf")), ["vector", "row 512"]),
    "squares overflow": (lambda t: with_vectors(
        t, [[1e200 * (-1) ** i] * 8 for i in range(ROWS)], pa.list_(pa.float64())), ["vector"]),
}


@pytest.mark.parametrize("writing", [{}, {"row_group_size": 100, "compression": "none",
                                          "use_dictionary": False, "data_page_size": 200}],
                         ids=["zstd", "plain"])
@pytest.mark.parametrize("name", COLUMNS)
def test_column(qkscope, capture, clean, tmp_path, name, writing):
    change, words = COLUMNS[name]
    pq.write_table(change(table_of(capture)), data_file(capture), **writing)
    check_failure(qkscope, capture, tmp_path / "out", clean, words)


def test_no_variance_anywhere(qkscope, capture, clean, tmp_path):
    """Constant queries with the same constant keys: nothing to fit."""
    for head in ("l00h02q", "l00h03q", "l00h01k"):
        write_head(capture, head, np.full((ROWS, 8), 0.1, np.float32), np.arange(ROWS))
    check_failure(qkscope, capture, tmp_path / "out", clean, ["varia"], "l00h02q", (2, 3))


def test_constant_queries_only(qkscope, capture, tmp_path):
    """Defined: r = 0, p = 1, slope 0."""
    write_head(capture, BAD, np.full((ROWS, 8), 0.1, np.float32), np.arange(ROWS))
    qkscope("pca", capture, "-o", tmp_path / "out", expect=0)
    rows = [r for r in read_csv(tmp_path / "out" / "qk.csv") if r["q_head"] == 2]
    assert len(rows) == 8
    for row in rows:
        assert (row["r_q"], row["p_q"]) == (0, 1)
        assert row["sd_q"] == pytest.approx(0, abs=1e-12)
        assert row["alpha"] == pytest.approx(0, abs=1e-12)


def test_row_numbers_through_shards(qkscope, capture, clean, tmp_path):
    data_file(capture).unlink()
    x = np.ones((90, 8), np.float32)
    x[50, 1] = np.nan
    write_head(capture, BAD, x, np.arange(90), shards=3)
    check_failure(qkscope, capture, tmp_path / "out", clean, ["row 50"])


def test_shards_of_different_dimension(qkscope, capture, clean, tmp_path):
    x = np.ones((90, 7), np.float32)
    other = write_head(tmp_path, BAD, x, np.arange(90)) / "data.parquet"
    other.rename(capture / BAD / "more.parquet")
    words = ["more.parquet", "vector", "7", "8"]
    check_failure(qkscope, capture, tmp_path / "out", clean, words)


def test_all_positions_equal(qkscope, capture, clean, tmp_path):
    """Not an error: correlations are 0, slopes undefined, and a warning says so."""
    table = table_of(capture)
    pq.write_table(with_position(table, pa.array([7] * ROWS, pa.int32())), data_file(capture))
    out = tmp_path / "out"
    result = qkscope("pca", capture, "-o", out, expect=0)
    assert "warning" in result.err and f"/{BAD}/" in result.err and "position" in result.err
    for row in read_csv(out / "qk.csv"):
        if row["q_head"] == 2:
            assert (row["r_q"], row["p_q"], row["alpha"]) == (0, 1, None)
            assert row["beta"] is not None and abs(row["r_k"]) > 0
    head = next(r for r in read_csv(out / "heads.csv") if r["q_head"] == 2)
    assert head["pos_var_q"] == 0 and head["alpha_beta"] is None and head["lin_var_q"] is None
    assert "nan" not in (out / "qk.csv").read_text() + (out / "heads.csv").read_text()
    for name in TABLES:
        assert lines_without((out / name).read_text().splitlines(), [2]) == lines_without(
            clean[name], [2])


# ---- the capture as a whole ------------------------------------------------------------------

def test_missing_key_head(qkscope, capture, clean, tmp_path):
    shutil.rmtree(capture / "l00h01k")
    arguments = ["pca", capture, "-o", tmp_path / "out", "--q-per-kv-group", 2]
    result = qkscope(*arguments, expect=3)
    assert "l00h01k" in result.err and "l00h02q" in result.err and "l00h03q" in result.err
    check_others(tmp_path / "out", clean, (2, 3))
    qkscope(*arguments, "--allow-missing", expect=0)
    check_others(tmp_path / "out", clean, (2, 3))
    manifest = last_run(tmp_path / "out")
    assert [f["head"] for f in manifest["failures"]] == ["l00h02q", "l00h03q"]


def test_missing_and_broken(qkscope, capture, clean, tmp_path):
    """--allow-missing forgives the missing, not the broken."""
    shutil.rmtree(capture / "l00h01k")
    data_file(capture, "l00h00q").write_bytes(b"")
    qkscope("pca", capture, "-o", tmp_path / "out", "--q-per-kv-group", 2, "--allow-missing",
            expect=3)
    check_others(tmp_path / "out", clean, (0, 2, 3))


@pytest.mark.parametrize("kinds", [[], ["--kinds", "q,k"]])
def test_every_head_broken(qkscope, capture, tmp_path, kinds):
    for path in capture.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:50])
    result = qkscope("pca", capture, "-o", tmp_path / "out", *kinds, expect=1)
    assert "data.parquet" in result.err
    assert not (tmp_path / "out").exists()


def test_every_key_head_missing(qkscope, capture, tmp_path):
    for path in capture.glob("*k"):
        shutil.rmtree(path)
    for more in ([], ["--q-per-kv-group", 2], ["--allow-missing"]):
        result = qkscope("pca", capture, "-o", tmp_path / "out", *more, expect=1)
        assert "key heads" in result.err
        assert not (tmp_path / "out").exists()


def test_wrong_group_size(qkscope, capture, tmp_path):
    arguments = ["pca", capture, "-o", tmp_path / "out", "--q-per-kv-group", 4]
    result = qkscope(*arguments, expect=0)
    assert "warning" in result.err and "4" in result.err and "2" in result.err
    shutil.rmtree(tmp_path / "out")
    result = qkscope(*arguments, "--strict", expect=1)
    assert "--q-per-kv-group 2" in result.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("make", ["nothing", "empty", "file", "no heads"])
def test_no_capture(qkscope, tmp_path, make):
    path = tmp_path / "here"
    if make == "file":
        path.write_text("not a folder")
    elif make != "nothing":
        path.mkdir()
    if make == "no heads":
        (path / "l00h00x").mkdir()
    result = qkscope("pca", path, "-o", tmp_path / "out", expect=1)
    assert str(path) in result.err
    assert not (tmp_path / "out").exists()


def test_broken_manifest(qkscope, capture, tmp_path):
    for text in ("{", "[]", '{"q_per_kv_group": "two"}', '{"q_per_kv_group": -1}', "\0" * 100,
                 "[" * 100000):
        (capture / "capture.json").write_text(text)
        result = qkscope("pca", capture, "-o", tmp_path / "out")
        assert result.code in (0, 1)
        assert result.code == 0 or "capture.json" in result.err


def test_single_kind(qkscope, capture, tmp_path):
    """The other table fails head by head, too."""
    qkscope("pca", capture, "-o", tmp_path / "clean", "--kinds", "q,k", expect=0)
    data_file(capture).write_bytes(b"")
    data_file(capture, "l00h01k").write_bytes(b"PAR1")
    result = qkscope("pca", capture, "-o", tmp_path / "out", "--kinds", "q,k", expect=3)
    assert f"/{BAD}/" in result.err and "/l00h01k/" in result.err
    want = [line for line in (tmp_path / "clean/correlations.csv").read_text().splitlines()
            if not line.startswith(("0,2,q", "0,1,k"))]
    assert (tmp_path / "out/correlations.csv").read_text().splitlines() == want
    assert read_json(tmp_path / "out/summary.json")["heads_analyzed"] == 4


# ---- output that cannot be written -----------------------------------------------------------

OLD = {"qk.csv": "old\n", "heads.csv": "old heads\n", "manifest.json": "{}\n",
       "correlations.csv": "old\n", "summary.json": "{}\n"}


def old_results(folder):
    folder.mkdir(exist_ok=True)
    for name, content in OLD.items():
        (folder / name).write_text(content)
    return folder


def check_old_results(folder):
    assert {p.name: p.read_text() for p in folder.iterdir()} == OLD


def test_output_is_a_file(qkscope, healthy, tmp_path):
    (tmp_path / "out").write_text("mine")
    for out in (tmp_path / "out", tmp_path / "out" / "below"):
        result = qkscope("pca", healthy, "-o", out, expect=1)
        assert str(tmp_path / "out") in result.err
    assert (tmp_path / "out").read_text() == "mine"


def test_output_in_a_folder_that_takes_no_files(qkscope, healthy):
    result = qkscope("pca", healthy, "-o", "/proc/qkscope-results", expect=1)
    assert "/proc/qkscope-results" in result.err


def test_output_not_writable(unprivileged, healthy, tmp_path):
    out = old_results(tmp_path / "out")
    out.chmod(0o500)
    result = unprivileged("pca", healthy, "-o", out, expect=1)
    out.chmod(0o700)
    assert str(out) in result.err
    check_old_results(out)


def test_a_folder_in_the_place_of_a_table(qkscope, healthy, tmp_path):
    out = tmp_path / "out"
    (out / "heads.csv").mkdir(parents=True)
    result = qkscope("pca", healthy, "-o", out, expect=1)
    assert "heads.csv" in result.err
    assert not [p for p in out.iterdir() if "tmp" in p.name]


@pytest.mark.parametrize("kinds,limit", [([], 0), ([], 1), ([], 500), ([], 1200), ([], 2000),
                                         (["--kinds", "q,k"], 100), (["--kinds", "q,k"], 4500)])
def test_disk_full(qkscope, healthy, tmp_path, kinds, limit):
    """Files may not grow beyond `limit` bytes, as on a full disk: the old results stay, all of
    them, and nothing else."""
    out = old_results(tmp_path / "out")

    def restrict():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    result = qkscope("pca", healthy, "-o", out, "--force", *kinds, preexec_fn=restrict,
                     expect=1)
    assert str(out) in result.err and "File too large" in result.err
    check_old_results(out)


def test_disk_full_on_a_small_file_system(program, healthy, tmp_path):
    """A real full disk, where mounting one is allowed."""
    out = tmp_path / "disk"
    out.mkdir()
    script = (f'mount -t tmpfs -o size=16k tmpfs "{out}" || exit 77\n'
              f'echo old > "{out}/qk.csv"\nhead -c 8k /dev/zero > "{out}/ballast"\n'
              f'"$@"; code=$?\nls -A "{out}"; cat "{out}/qk.csv"\nexit $code')
    command = ["unshare", "-rm", "sh", "-c", script, "sh", program, "pca", healthy, "-o", out,
               "--force"]
    done = subprocess.run([*command, "--quiet"], capture_output=True, text=True,
                          env=environment())
    if done.returncode in (77, 127) or "unshare" in done.stderr:
        pytest.skip("no file system may be mounted here")
    check_survived(done.returncode, done.stderr)
    assert done.returncode == 1, done
    assert "No space left" in done.stderr and "qk.csv" in done.stderr
    assert done.stdout.split() == ["ballast", "qk.csv", "old"]


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(program, tmp_path, name):
    """Stopped in the middle: it ends by the signal, and the old results stay."""
    capture, out = tmp_path / "c", old_results(tmp_path / "out")
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40000, 64)).astype(np.float32)
    first = write_head(capture, "l00h00q", x, np.arange(len(x)), use_dictionary=False)
    for layer in range(20):
        for kind, heads in (("q", 2), ("k", 1)):
            for head in range(heads):
                path = capture / head_name(layer, head, kind)
                path.mkdir(exist_ok=True)
                if path != first:
                    os.link(first / "data.parquet", path / "data.parquet")
    process = subprocess.Popen([program, "pca", capture, "-o", out, "--threads", "1", "--force"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment())
    time.sleep(0.15)
    process.send_signal(name)
    _, err = process.communicate(timeout=60)
    if process.returncode == 0:
        pytest.skip("done before the signal came")
    assert process.returncode == -name and "stopped" in err and "Sanitizer" not in err
    check_old_results(out)


# ---- random damage ---------------------------------------------------------------------------

def mutate(data, rng):
    data = bytearray(data)
    kind = rng.choice(["flip", "flip", "truncate", "zero", "noise", "move"])
    at = rng.randrange(len(data)) if rng.random() < 0.5 else -1 - rng.randrange(
        min(len(data), 1500))
    at %= len(data)
    length = rng.choice([1, 2, 8, 100])
    if kind == "flip":
        for _ in range(rng.choice([1, 1, 3])):
            data[(at + rng.randrange(length)) % len(data)] ^= 1 << rng.randrange(8)
    elif kind == "truncate":
        del data[at:]
    elif kind == "zero":
        data[at:at + length] = bytes(len(data[at:at + length]))
    elif kind == "noise":
        data[at:at + length] = rng.randbytes(len(data[at:at + length]))
    else:
        del data[at:at + length]
    return bytes(data)


def same_rows(path, original):
    """pyarrow sees the same vectors and positions."""
    try:
        return pq.read_table(path, columns=["position", "vector"]).equals(original)
    except Exception:  # whatever it makes of the bytes, they are not the same rows
        return False


@pytest.mark.parametrize("batch", range(6))
def test_random_damage(qkscope, healthy, clean, tmp_path, batch):
    """50 damaged copies of one head, among healthy ones. Pages carry checksums: either the
    head's numbers are the clean ones or it fails, and the others do not notice."""
    rng = random.Random(batch)
    capture, out = tmp_path / "c", tmp_path / "out"
    shutil.copytree(healthy, capture)
    path = data_file(capture)
    pq.write_table(table_of(capture), path, compression=["zstd", "none", "snappy"][batch % 3],
                   use_dictionary=batch % 2 == 0, write_page_checksum=True, row_group_size=250,
                   data_page_size=2000, data_page_version=["1.0", "2.0"][batch // 3])
    data, codes = path.read_bytes(), []
    original = pq.read_table(path, columns=["position", "vector"])
    for _ in range(50):
        path.write_bytes(mutate(data, rng))
        result = qkscope("pca", capture, "-o", out, "--threads", 1, "--force")
        codes.append(result.code)
        if result.code == 3:
            assert f"/{BAD}/" in result.err
            check_others(out, clean, (2,))
            continue
        assert result.code == 0, result
        tables = {name: (out / name).read_text().splitlines() for name in TABLES}
        for name in TABLES:
            assert lines_without(tables[name], [2]) == lines_without(clean[name], [2])
        # Bytes outside of pages have no checksum; what they say may be false yet possible.
        assert tables == clean or not same_rows(path, original)
    assert codes.count(3) > 10


def test_example_capture_is_untouched(qkscope, tmp_path):
    """Reading does not change what is read."""
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in EXAMPLE.rglob("*.parquet")}
    qkscope("pca", EXAMPLE, "-o", tmp_path, expect=0)
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes())
                      for p in EXAMPLE.rglob("*.parquet")}
    assert not [p for p in EXAMPLE.rglob("*") if "tmp" in p.name]
