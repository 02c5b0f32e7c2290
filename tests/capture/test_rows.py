# SPDX-License-Identifier: Apache-2.0
"""Rows of a head, block by block, against pyarrow: bit for bit, whatever the block size."""
import os
import pathlib
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import TIER

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))
SHARED = pathlib.Path(os.environ.get("QKSCOPE_SHARED", ROOT.parent / "shared"))
CAPTURES = SHARED / "data" / "kjv-tiny-capture"
DUMP = BUILD / "tests" / "capture" / "dump_rows"

VECTOR, POSITION, BUCKET, EXAMPLE, WINDOW = 1, 2, 4, 8, 16
ALL = 31
OPTIONAL_EXAMPLE, REFUSE_REPEATS, TOKENS = 32, 64, 512
NAMES = {POSITION: "position", BUCKET: "bucket", EXAMPLE: "example_id", WINDOW: "sliding_window"}


def run(root, head="l00h00q", columns=ALL, max_rows=0, block=100, prefix=None):
    command = [DUMP, root, head, str(columns), str(max_rows), str(block)]
    return subprocess.run(command + ([prefix] if prefix else []), capture_output=True)


def read(root, head="l00h00q", columns=ALL, **options):
    """dim, total and a dict of whole columns; checks that blocks have the size asked for."""
    result = run(root, head, columns, **options)
    assert result.returncode == 0 and result.stderr == b"", result.stderr
    data = result.stdout
    line, data = data.split(b"\n", 1)
    dim, total = map(int, line.split())
    parts = {}
    sizes = []
    while data:
        line, data = data.split(b"\n", 1)
        if line.startswith(b"strings"):
            *strings, rest = data.split(b"\0")
            assert len(strings) == int(line.split()[1]) == len(set(strings)) and rest == b""
            break
        rows, kind = line.split()
        rows = int(rows)
        sizes.append(rows)
        if columns & VECTOR:
            dtype = np.float64 if kind == b"f64" else np.float32
            size = rows * dim * dtype().itemsize
            parts.setdefault("vector", []).append(
                np.frombuffer(data[:size], dtype).reshape(rows, dim))
            data = data[size:]
        for flag, name in NAMES.items():
            if columns & flag:
                parts.setdefault(name, []).append(np.frombuffer(data[:rows * 8], np.int64))
                data = data[rows * 8:]
        if columns & TOKENS:
            parts.setdefault("token", []).append(np.frombuffer(data[:rows * 8], np.int64))
            data = data[rows * 8:]
    block = options.get("block", 100)
    assert sizes == [block] * (total // block) + ([total % block] if total % block else [])
    columns = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    if "token" in columns:
        columns["token"] = [strings[i].decode() if i >= 0 else None for i in columns["token"]]
    return dim, total, columns


def message(root, head="l00h00q", **options):
    result = run(root, head, **options)
    assert result.returncode == 1, result.stdout[:100]
    return result.stderr.decode()


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def expect(table):
    """What qkscope should hand out for a pyarrow table."""
    columns = {}
    vector = table["vector"].combine_chunks()
    values = vector.flatten().to_numpy(zero_copy_only=False)
    if values.dtype == np.float16:
        values = values.astype(np.float32)
    columns["vector"] = values.reshape(len(vector), -1)
    for name in ("position", "bucket", "example_id"):
        columns[name] = table[name].to_numpy().astype(np.int64)
    windows = table["sliding_window"].to_pylist() if "sliding_window" in table.column_names \
        else [None] * len(table)
    columns["sliding_window"] = np.array([max(w or 0, 0) for w in windows], np.int64)
    return columns


@pytest.mark.parametrize("writer", ["arrow-rs", "duckdb"])
def test_real_captures(writer):
    if not CAPTURES.is_dir():
        pytest.skip(f"no {CAPTURES} (QKSCOPE_SHARED)")
    heads = sorted(p.name for p in (CAPTURES / writer).iterdir())[::7 if TIER == "test" else 1]
    for i, head in enumerate(heads):
        wanted = expect(pq.read_table(CAPTURES / writer / head / "data.parquet"))
        for block in (1, 7, 100, 1024, 10**9) if i == 0 else (333,):
            dim, total, columns = read(CAPTURES, head, prefix=writer, block=block)
            assert dim == wanted["vector"].shape[1] and total == len(wanted["vector"])
            for name, array in wanted.items():
                assert same_bits(columns[name], array), (head, name, block)


def make_table(rows, dim, seed=0, vector_type=pa.float32(), window=None, int_type=pa.int32(),
               fixed=False):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(rows * dim).astype(np.float32)
    if vector_type == pa.float16():
        values = values.astype(np.float16)
    flat = pa.array(values.astype(np.float64) if vector_type == pa.float64() else values,
                    vector_type)
    vector = pa.FixedSizeListArray.from_arrays(flat, dim) if fixed else \
        pa.ListArray.from_arrays(pa.array(np.arange(rows + 1) * dim, pa.int32()), flat)
    columns = {
        "bucket": pa.array(rng.integers(0, 9, rows), pa.int32()),
        "example_id": pa.array(rng.integers(-2**31, 2**31, rows), int_type),
        "position": pa.array(np.sort(rng.integers(0, 10**6, rows)), int_type),
        "vector": vector,
        "token_str": pa.array([f"t{i}" for i in range(rows)]),
    }
    if window is not None:
        columns["sliding_window"] = window(rows)
    return pa.table(columns)


def write_head(root, tables, head="l00h00q", **options):
    folder = root / head
    folder.mkdir(parents=True)
    for i, table in enumerate(tables):
        pq.write_table(table, folder / f"part-{i:03d}.parquet", **options)


WINDOWS = {
    "absent": None,
    "null type": lambda n: pa.nulls(n),
    "nullable": lambda n: pa.array([None if i % 3 else 64 for i in range(n)], pa.int32()),
    "int64, negative": lambda n: pa.array([i - 5 for i in range(n)], pa.int64()),
    "all null": lambda n: pa.nulls(n, pa.int64()),
}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("vector_type", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_shards_and_types(tmp_path, window, vector_type):
    tables = [make_table(rows, 12, seed, vector_type, WINDOWS[window], int_type, fixed)
              for seed, (rows, int_type, fixed) in enumerate([
                  (100, pa.int32(), False), (0, pa.int64(), True), (1, pa.int64(), True),
                  (257, pa.int64(), False)])]
    write_head(tmp_path, tables, row_group_size=37)
    parts = [expect(t) for t in tables if len(t)]
    wanted = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
    for block in (1, 100, 10000):
        dim, total, columns = read(tmp_path, block=block)
        assert (dim, total) == (12, 358)
        for name, array in wanted.items():
            assert same_bits(columns[name], array), (name, block)
    for limit in (1, 101, 5000):
        _, total, columns = read(tmp_path, max_rows=limit, block=40)
        assert total == min(limit, 358)
        for name, array in wanted.items():
            assert same_bits(columns[name], array[:limit]), (name, limit)


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()], ids=str)
def test_windows_of_floating_point(tmp_path, width):
    """NaN is null; the rows of 600 cross the batches of the reader."""
    values = [(None, np.nan, 64.0, 4096.0, -1.0, 0.0)[i % 6] for i in range(600)]
    table = make_table(600, 3, window=lambda n: pa.array(values, width, from_pandas=False))
    write_head(tmp_path, [table], row_group_size=350)
    wanted = [v if v and v > 0 else 0 for v in values]
    assert read(tmp_path, block=47)[2]["sliding_window"].tolist() == wanted


@pytest.mark.test_all
def test_a_round_trip_through_pandas(tmp_path):
    pytest.importorskip("pandas")
    for name, window in WINDOWS.items():
        write_head(tmp_path, [make_table(20, 4, window=window)], head="l00h00q")
        file = tmp_path / "l00h00q" / "part-000.parquet"
        wanted = expect(pq.read_table(file))
        pq.read_table(file).to_pandas().to_parquet(file)
        found = read(tmp_path)[2]
        for column, array in wanted.items():
            assert (found[column] == array).all(), (name, column)
        file.unlink()
        file.parent.rmdir()


def test_one_shard_of_float64_widens_all(tmp_path):
    tables = [make_table(10, 4, 1), make_table(10, 4, 2, pa.float64())]
    write_head(tmp_path, tables)
    wanted = np.concatenate([expect(t)["vector"].astype(np.float64) for t in tables])
    assert same_bits(read(tmp_path)[2]["vector"], wanted)


def test_columns_in_any_order_and_number(tmp_path):
    table = make_table(50, 3)
    write_head(tmp_path, [table.select(["vector", "token_str", "position"])])
    dim, _, columns = read(tmp_path, columns=VECTOR | POSITION | WINDOW, block=8)
    wanted = expect(table)
    assert dim == 3
    for name in ("vector", "position", "sliding_window"):
        assert same_bits(columns[name], wanted[name])
    assert read(tmp_path, columns=POSITION)[0] == 0
    assert "no column 'bucket'" in message(tmp_path)


def test_empty_head(tmp_path):
    write_head(tmp_path, [make_table(0, 8), make_table(0, 8)])
    assert read(tmp_path)[:2] == (0, 0)


def changed(name, values):
    table = make_table(20, 4)
    return table.set_column(table.column_names.index(name), name, values)


LISTS = pa.list_(pa.float32())
BAD = {
    "float position": ("position", pa.array(np.arange(20.0)), "INT32 or INT64, found DOUBLE: cast it"),
    "string vector": ("vector", pa.array(["x"] * 20), "FLOAT16, found STRING"),
    "string list": ("vector", pa.array([["x"]] * 20), "found a list of STRING"),
    "int list": ("vector", pa.array([[1, 2]] * 20), "found a list of INT64"),
    "flat vector": ("vector", pa.array(np.arange(20.0)), "found DOUBLE"),
    "nested": ("vector", pa.array([[[1.0]]] * 20), "found a list of DOUBLE"),
    "struct": ("vector", pa.array([[{"x": 1.0, "y": 2.0}]] * 20), "structure of 2 columns"),
    "list position": ("position", pa.array([[1]] * 20), "found a list of INT64"),
    "null position": ("position", pa.array([1] * 19 + [None], pa.int32()), "position"),
    "null-type bucket": ("bucket", pa.nulls(20), "found nulls only"),
    "half window": ("sliding_window", pa.array([64.5] + [64.0] * 19), "row 0 is 64.5, expected a"),
    "infinite window": ("sliding_window", pa.array([1.0] * 19 + [np.inf]), "row 19 is inf"),
    "huge window": ("sliding_window", pa.array([2.0**63] * 20), "expected a whole number"),
    "text window": ("sliding_window", pa.array(["x"] * 20), "DOUBLE, found STRING"),
    "text ids": ("example_id", pa.array(["x"] * 20), "STRING; number the texts"),
    "categories": ("example_id", pa.array(["x"] * 20).dictionary_encode(), "capture' hashes"),
    "ragged": ("vector", pa.array([[1.0, 2.0]] * 19 + [[1.0]], LISTS), "vector"),
    "empty vectors": ("vector", pa.array([[]] * 20, LISTS), "expected 1 to 4096"),
    "null vector": ("vector", pa.array([[1.0]] * 19 + [None], LISTS), "vector"),
    "null value": ("vector", pa.array([[1.0]] * 19 + [[None]], LISTS), "vector"),
    "huge": ("vector", pa.array([[0.0] * 4097] * 20, LISTS), "4097 values, expected 1 to 4096"),
}


@pytest.mark.cases(len(BAD))
@pytest.mark.parametrize("case", BAD)
def test_bad_columns(tmp_path, case):
    name, values, text = BAD[case]
    table = make_table(20, 4, window=WINDOWS["nullable"])
    table = table.set_column(table.column_names.index(name), name, values)
    write_head(tmp_path, [table])
    found = message(tmp_path, block=3)
    assert text in found and name in found and "l00h00q/part-000.parquet" in found, found


@pytest.mark.parametrize("name", [*NAMES.values(), "vector"])
def test_two_columns_of_one_name(tmp_path, name):
    """Whichever is first, as a join leaves them; of a name that is not looked up they do no harm."""
    table = make_table(20, 4, window=WINDOWS["nullable"])
    other = pa.array([[1.0]] * 20) if name == "vector" else pa.array(range(20), pa.int64())
    for at in (0, len(table.column_names)):
        write_head(tmp_path / str(at), [table.append_column("token_str", other).add_column(at, name, other)])
        found = message(tmp_path / str(at))
        assert f"part-000.parquet: column '{name}' is there more than once" in found, found
    write_head(tmp_path / "harmless", [table.append_column("token_str", other)])
    assert same_bits(read(tmp_path / "harmless")[2]["position"], expect(table)["position"])


def long_string(text):
    """As the reader hands it out: its beginning, and U+FFFD for what is no text."""
    text = text if isinstance(text, bytes) else text.encode()
    while len(text) > 256:
        text = text[:256] if text[256] & 0xc0 != 0x80 else text[:max(i for i in range(257) if text[i] & 0xc0 != 0x80)]
    return text.replace(b"\0", b"\xff").decode(errors="replace")


STRINGS = {
    "dictionary": lambda s: pa.array(s).dictionary_encode(),
    "plain": pa.array,
    "large": lambda s: pa.array(s, pa.large_string()),
    "not null": pa.array,
    "binary": lambda s: pa.array([t and t.encode() for t in s], pa.binary()),
    "delta length": pa.array,
}


@pytest.mark.cases(6)
@pytest.mark.parametrize("kind", STRINGS)
def test_token_strings(tmp_path, kind):
    """As pyarrow reads them: over shards and blocks, some of which have none."""
    tables, wanted = [], []
    for shard, rows in enumerate((150, 70, 1, 333)):
        table = make_table(rows, 4, shard).drop_columns("token_str")
        strings = [f" \u0120w{i * i % 37}" if i % 5 or kind == "not null" else None for i in range(rows)]
        if shard == 2:
            strings = [None]
        else:
            column = STRINGS[kind](strings)
            table = table.append_column(pa.field("token_str", column.type, kind != "not null"), column)
        tables.append(table)
        wanted += strings
    options = {"use_dictionary": kind != "plain"}
    if kind == "delta length":
        options = {"use_dictionary": False, "column_encoding": {"token_str": "DELTA_LENGTH_BYTE_ARRAY"}}
    for i, table in enumerate(tables):
        has = options if "token_str" in table.column_names else {}
        write_head(tmp_path / str(i), [table], **has)
        (tmp_path / "l00h00q").mkdir(exist_ok=True)
        (tmp_path / str(i) / "l00h00q" / "part-000.parquet").rename(tmp_path / "l00h00q" / f"part-{i:03d}.parquet")
    for block, most in ((7, 0), (1000, 0), (64, 200)):
        total, columns = read(tmp_path, columns=POSITION | TOKENS, block=block, max_rows=most)[1:]
        assert columns["token"] == wanted[:total]


def test_other_writers_strings(tmp_path):
    """DuckDB's and Polars' defaults; and a column that is none of strings, or in an encoding that is not read."""
    duckdb, pl = pytest.importorskip("duckdb"), pytest.importorskip("polars")  # as they write by default
    table = make_table(500, 4).set_column(4, "token_str", pa.array([f"t{i % 90}" if i % 7 else None for i in range(500)]))
    wanted = table["token_str"].to_pylist()
    for name in ("duckdb", "polars", "numbers", "delta"):
        (tmp_path / name / "l00h00q").mkdir(parents=True)
    file = "l00h00q/part-000.parquet"
    duckdb.from_arrow(table).write_parquet(str(tmp_path / "duckdb" / file))
    frame = pl.from_arrow(table)
    frame.with_columns(pl.col("token_str").cast(pl.Categorical)).write_parquet(tmp_path / "polars" / file)
    pq.write_table(table.set_column(4, "token_str", pa.array(range(500))), tmp_path / "numbers" / file)
    pq.write_table(table, tmp_path / "delta" / file, use_dictionary=False, column_encoding={"token_str": "DELTA_BYTE_ARRAY"})
    for name in ("duckdb", "polars", "numbers", "delta"):
        found = read(tmp_path / name, columns=POSITION | TOKENS)[2]["token"]
        assert found == (wanted if name in ("duckdb", "polars") else [None] * 500), name


def test_hostile_token_strings(tmp_path):
    """What is no text is replaced, what is long is known by its beginning, and very many are not kept."""
    strings = [b"\xff\xfe", b"a\0b", b"", b"x" * 256, b"x" * 257, b"x" * 10**6, "\u00e9".encode() * 200, b"</script>",
               b"\x1b[2J", b"\n", b"\xed\xa0\x80", b"\0", b"\xff" * 300]
    table = make_table(len(strings), 4).drop_columns("token_str").append_column("token_str", pa.array(strings, pa.binary()))
    write_head(tmp_path, [table])
    assert read(tmp_path, columns=POSITION | TOKENS)[2]["token"] == [long_string(s) for s in strings]
    many = 2**20 + 50
    table = pa.table({"position": pa.array(range(many)), "token_str": pa.array([f"{i:x}" for i in range(many)])})
    write_head(tmp_path / "many", [table])
    found = read(tmp_path / "many", columns=POSITION | TOKENS, block=10**6)[2]["token"]
    assert found == [f"{i:x}" for i in range(2**20)] + [None] * 50


def places(rng, order):
    """Texts and positions, none of them twice."""
    texts = rng.choice(2**40, 150 if order == "many texts" else 6, replace=False) - 2**39
    pairs = np.array([(t, p) for t in texts for p in np.sort(rng.choice(90, 2 if order == "many texts" else 40, replace=False))])
    return pairs[{"by bucket": np.argsort(pairs[:, 1] // 16, kind="stable"), "shuffled": rng.permutation(len(pairs))}
                 .get(order, np.arange(len(pairs)))]


@pytest.mark.cases(4)
@pytest.mark.parametrize("order", ["by text", "by bucket", "shuffled", "many texts"])
def test_a_row_that_is_there_twice(tmp_path, order):
    """In any order and over files, where it was added last; who does not ask is not told."""
    for seed in range(6):
        rng = np.random.default_rng([seed, len(order)])
        once = places(rng, order)
        for name, pairs in {"once": once, "again": np.insert(once, rng.integers(len(once), size=seed % 3 + 1),
                                                             once[rng.integers(len(once))], axis=0)}.items():
            table = make_table(len(pairs), 2)
            for i, column in enumerate(("example_id", "position")):
                at = table.column_names.index(column)
                table = table.set_column(at, column, pa.array(pairs[:, i]))
            cut = int(rng.integers(len(pairs)))
            write_head(tmp_path / f"{seed}{name}", [table[:cut], table[cut:]], row_group_size=50)
        refuse = {"columns": ALL | REFUSE_REPEATS, "block": 7}
        assert read(tmp_path / f"{seed}once", **refuse)[1] == len(once)
        assert read(tmp_path / f"{seed}again", block=7)[1] == len(pairs)
        found = message(tmp_path / f"{seed}again", **refuse)
        unique, counts = np.unique(pairs, axis=0, return_counts=True)
        (text, position), times = unique[counts > 1][0], counts.max()
        files = [f"part-{int(i >= cut):03d}" for i in np.flatnonzero((pairs == (text, position)).all(axis=1))[:2]]
        assert (f"text {text} has position {position} {times} times; "
                f"{len(pairs) - len(unique)} of the head's {len(pairs)} rows repeat") in found, found
        assert all(file in found for file in files) and found.count("part-") == len(set(files)), (found, files)


def test_repeats_are_those_of_rows_that_are_read(tmp_path):
    table = changed("position", pa.array([3, *range(19)], pa.int64()))
    table = table.set_column(1, "example_id", pa.array([7] * 20))
    write_head(tmp_path, [table])
    refuse = ALL | REFUSE_REPEATS
    assert "has position 3 2 times; 1 of the head's 20 rows" in message(tmp_path, columns=refuse)
    assert read(tmp_path, columns=refuse, max_rows=4)[1] == 4
    table = table.set_column(1, "example_id", pa.nulls(20, pa.int64()))
    pq.write_table(table, tmp_path / "l00h00q" / "part-000.parquet")
    assert run(tmp_path, columns=(refuse & ~EXAMPLE) | OPTIONAL_EXAMPLE).returncode == 0  # of no text


def test_shards_that_differ(tmp_path):
    write_head(tmp_path, [make_table(20, 4), make_table(20, 5)])
    found = message(tmp_path, block=7)
    assert "part-001.parquet" in found and "5 values a row, but 4" in found


def test_a_shard_that_is_not_parquet(tmp_path):
    write_head(tmp_path, [make_table(20, 4)])
    (tmp_path / "l00h00q" / "part-001.parquet").write_bytes(b"not parquet at all")
    assert "part-001.parquet" in message(tmp_path)
    (tmp_path / "l00h00q" / "part-001.parquet").unlink()
    (tmp_path / "l00h00q" / "part-001.parquet").symlink_to("nowhere")
    assert "part-001.parquet" in message(tmp_path)
