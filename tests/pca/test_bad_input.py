# SPDX-License-Identifier: Apache-2.0
"""Damaged, inconsistent and degenerate heads: the program says which file, column and why, goes
on with the other heads, and never leaves half a result."""
import os
import random
import shutil

import numpy as np
import pytest
from conftest import EXAMPLE, head_name, last_run, read_csv, read_json, write_head

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

TABLES = ("qk.csv", "heads.csv")
ROWS = 600
BAD = "l00h02q"  # the head to be damaged; its key head serves h02 and h03


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """4 query heads, 2 key heads, 600 rows of 8 values."""
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

def cut(keep):
    return lambda path: path.write_bytes(path.read_bytes()[:keep])


def content(data):
    return lambda path: path.write_bytes(data)


def instead(make):
    def change(path):
        path.unlink()
        make(path)
    return change


DAMAGE = {
    "empty": (cut(0), []),
    "the beginning": (cut(100), []),
    "without its last byte": (cut(-1), []),
    "without its last row group": (cut(-4000), []),
    "two magic numbers": (content(b"PAR1PAR1"), []),
    "a footer of nothing": (content(b"PAR1\0\0\0\0PAR1"), []),
    "a footer longer than the file": (content(b"PAR1" + b"\xff" * 500 + b"PAR1"), []),
    "an encrypted footer": (content(b"PARE" * 100), []),
    "a pointer of Git LFS": (content(b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64), []),
    "a page of HTML": (content(b"<!DOCTYPE html>" * 40), []),
    "a link to nothing": (instead(lambda path: path.symlink_to("../../blobs/not-there")), ["No such file"]),
    "a link to itself": (instead(lambda path: path.symlink_to("data.parquet")), []),
    "a folder": (instead(lambda path: path.mkdir()), ["is a folder"]),
    "a pipe into which nobody writes": (instead(os.mkfifo), []),
}


@pytest.mark.cases(14)
@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_file(qkscope, capture, clean, tmp_path, name):
    change, words = DAMAGE[name]
    change(data_file(capture))
    check_failure(qkscope, capture, tmp_path / "out", clean, words)


def test_damaged_key_head_fails_the_group(qkscope, capture, clean, tmp_path):
    data_file(capture, "l00h01k").write_bytes(b"PAR1 no PAR1")
    check_failure(qkscope, capture, tmp_path / "out", clean, [], "l00h01k", (2, 3))


def test_unreadable(unprivileged, capture, clean, tmp_path):
    data_file(capture).chmod(0)
    check_failure(unprivileged, capture, tmp_path / "out", clean, ["Permission denied"])


def test_damage_in_a_later_shard(qkscope, capture, clean, tmp_path):
    rng = np.random.default_rng(3)
    data_file(capture).unlink()
    write_head(capture, BAD, rng.standard_normal((90, 8)).astype(np.float32), np.arange(90),
               shards=3)
    path = sorted((capture / BAD).iterdir())[1]
    path.write_bytes(path.read_bytes()[:-20])
    check_failure(qkscope, capture, tmp_path / "out", clean, [path.name])


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
    "positions as text": (lambda t: with_position(t, t["position"].cast(pa.string())),
                          ["position", "STRING"]),
    "positions as list": (lambda t: with_position(
        t, pa.array([[p] for p in t["position"].to_pylist()])), ["position"]),
    "null position": (null_position, ["position", "333"]),
    "vectors as bytes": (lambda t: with_vectors(t, [b"abcdefgh"] * ROWS), ["vector"]),
    "a number for a vector": (lambda t: with_vectors(t, [0.5] * ROWS), ["vector", "list"]),
    "vectors of vectors": (lambda t: with_vectors(t, [[[1.0]] * 8] * ROWS), ["vector"]),
    "all nulls": (lambda t: with_vectors(t, pa.nulls(ROWS, LIST)), ["vector"]),
    "empty vectors": (lambda t: with_vectors(t, [[]] * ROWS, LIST), ["vector"]),
    "first vector null": (change_row(0, lambda v: None), ["vector", "null"]),
    "a vector null": (change_row(400, lambda v: None), ["vector", "400"]),
    "a null in a vector": (change_element(301, 5, None), ["vector", "301"]),
    "a vector shorter": (change_row(256, lambda v: v[:-1]), ["vector", "256", "7", "8"]),
    "a vector empty": (change_row(255, lambda v: []), ["vector", "255"]),
    "no rows": (lambda t: t.slice(0, 0), ["no rows"]),
    "one row": (lambda t: t.slice(0, 1), ["row"]),
    "NaN in the middle": (change_element(300, 7, float("nan")), ["vector", "row 300"]),
    "infinity": (change_element(511, 2, float("inf")), ["vector", "row 511"]),
    "squares overflow": (lambda t: with_vectors(
        t, [[1e200 * (-1) ** i] * 8 for i in range(ROWS)], pa.list_(pa.float64())), ["vector"]),
}


@pytest.mark.cases(20)
@pytest.mark.parametrize("name", COLUMNS)
def test_column(qkscope, capture, clean, tmp_path, name):
    """Row numbers count through row groups and pages."""
    change, words = COLUMNS[name]
    pq.write_table(change(table_of(capture)), data_file(capture), row_group_size=100, data_page_size=200)
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
    result = qkscope("pca", capture, "-o", out, "--allow-repeats", expect=0)
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

@pytest.mark.cases(6)
@pytest.mark.parametrize("command", [["pca"], ["rotate"], ["plasticity"], ["analyze"], ["scatter", "--heads", "0:2"], ["pca", "--kinds", "q"]])
def test_rows_that_are_there_twice(qkscope, capture, tmp_path, command):
    """A file copied beside itself: all of its rows. Other heads are analysed."""
    shutil.copy(data_file(capture), data_file(capture).with_name("data (1).parquet"))
    done = qkscope(*command, capture, "-o", tmp_path / "out", expect=1 if "scatter" in command else 3)
    assert f"/{BAD}/data (1).parquet and " in done.err and f"{ROWS} of the head's {2 * ROWS} rows repeat" in done.err
    qkscope(*command, capture, "-o", tmp_path / "all", "--allow-repeats", expect=0)
    if "scatter" not in command:
        assert last_run(tmp_path / "all")["settings"]["allow_repeats"] is True


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


def test_allowing_missing_key_heads_excuses_no_other_failure(qkscope, capture, clean, tmp_path):
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


def test_broken_manifest(qkscope, capture, tmp_path):
    for text in ("{", "[]", '{"q_per_kv_group": "two"}', '{"q_per_kv_group": -1}', "\0" * 100,
                 "[" * 100000):
        (capture / "capture.json").write_text(text)
        result = qkscope("pca", capture, "-o", tmp_path / "out")
        assert result.code in (0, 1)
        assert result.code == 0 or "capture.json" in result.err
    (capture / "capture.json").write_text('{"q_per_kv_group": 2.0}')
    qkscope("pca", capture, "-o", tmp_path / "out", "--force", expect=0)
    assert last_run(tmp_path / "out")["group"] == {"q_per_kv_group": 2, "source": "capture.json", "consistent": True, "num_consistent": 1}


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

def test_output_is_a_file(qkscope, healthy, tmp_path):
    (tmp_path / "out").write_text("mine")
    for out in (tmp_path / "out", tmp_path / "out" / "below"):
        result = qkscope("pca", healthy, "-o", out, expect=1)
        assert str(tmp_path / "out") in result.err
    assert (tmp_path / "out").read_text() == "mine"


def test_output_in_a_folder_that_takes_no_files(qkscope, healthy):
    result = qkscope("pca", healthy, "-o", "/proc/qkscope-results", expect=1)
    assert "/proc/qkscope-results" in result.err


def test_a_folder_in_the_place_of_a_table(qkscope, healthy, tmp_path):
    out = tmp_path / "out"
    (out / "heads.csv").mkdir(parents=True)
    result = qkscope("pca", healthy, "-o", out, expect=1)
    assert "heads.csv" in result.err
    assert not [p for p in out.iterdir() if "tmp" in p.name]


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


@pytest.mark.test_all
@pytest.mark.sample(3)
@pytest.mark.parametrize("batch", range(6))
def test_random_damage(qkscope, healthy, clean, tmp_path, batch):
    """20 damaged copies of one head, among healthy ones. Pages carry checksums: either the
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
    for _ in range(20):
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
    assert codes.count(3) > 4


def test_example_capture_is_untouched(qkscope, tmp_path):
    """Reading does not change what is read."""
    before = {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in EXAMPLE.rglob("*.parquet")}
    qkscope("pca", EXAMPLE, "-o", tmp_path, "--layers", 0, expect=0)
    assert before == {p: (p.stat().st_mtime_ns, p.read_bytes())
                      for p in EXAMPLE.rglob("*.parquet")}
    assert not [p for p in EXAMPLE.rglob("*") if "tmp" in p.name]
