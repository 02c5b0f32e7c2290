# SPDX-License-Identifier: Apache-2.0
"""Memory and time follow what a file can prove: small files that claim much are refused at once, and
honest ones that compress well are read."""
import json
import resource
import shutil

import pytest

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq

import bombs
import oracle

OVER = "over the limit"


MOST = 200 << 20


@pytest.fixture
def frugal(sanitized):
    """Options of a process that may write to 200 MiB of memory and take 20 processor seconds: at the first it says that
    memory is short, at the second it dies."""
    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (MOST, MOST))
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    return {} if sanitized else {"preexec_fn": limit}


BOMBS = {
    "one-row-of-1-GiB": (lambda p: bombs.head_of_long_pages(p, 1 << 26, 16), OVER),
    "pages-under-the-limit": (lambda p: bombs.head_of_long_pages(p, (1 << 24) - 64, 15, None, "zstd"),
                              "expected 1 to 4096"),
    "padded-pages": (lambda p: bombs.head_of_long_pages(p, (1 << 24) - 64, 100, 1, "zstd"), OVER),
    "shared-chunks": (lambda p: bombs.head_of_groups(p, 1 << 17, 250, True), "share the bytes"),
    "many-groups": (lambda p: bombs.head_of_groups(p, 1 << 17, 250, False), OVER),
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("name", BOMBS)
def test_head_that_claims_much_is_refused(tmp_path, qkscope, frugal, name):
    bomb, message = BOMBS[name]
    capture = tmp_path / "c"
    print(bomb(capture / "l00h00q" / "data.parquet").stat().st_size, "bytes")
    shutil.copytree(capture / "l00h00q", capture / "l00h00k")
    done = qkscope("analyze", capture, "-o", tmp_path / "o", "--threads", 2, expect=1, **frugal)
    assert message in done.err
    assert "MALFORMED" not in done.err and "damaged" not in done.err
    qkscope("inspect", capture, "--threads", 2, **frugal)


def test_long_string_is_refused(tmp_path, frugal):
    path = bombs.long_string(tmp_path / "text.parquet", 1 << 26)
    print(path.stat().st_size, "bytes")
    text, = oracle.read_columns(path, **frugal)
    assert OVER in text.error and not text.rows


def test_bombs_are_sound(tmp_path):
    """pyarrow reads them: it is their size alone that is refused."""
    small = bombs.head_of_groups(tmp_path / "a.parquet", 100, 3, False)
    assert pq.read_table(small)["vector"].to_pylist() == 300 * [[0.0] * 4]
    text = bombs.long_string(tmp_path / "b.parquet", 100)
    assert pq.read_table(text)["text"].to_pylist() == [bytes(100)]
    assert oracle.read_columns(text)[0].rows == ["x" + 100 * "00"]
    row = bombs.head_of_long_pages(tmp_path / "c.parquet", 400, 3)
    assert pq.read_table(row)["vector"].to_pylist() == [[0.0] * 300]


# ---- honest files ------------------------------------------------------------------------------

ROWS, DIM = 1_000_000, 16


def honest_columns(vectors):
    """A million rows of texts of 2,048 tokens, as regular as can be: next to nothing is stored."""
    at = np.arange(ROWS)
    return pa.table({
        "bucket": pa.array(np.zeros(ROWS), pa.int32()),
        "example_id": pa.array(at // 2048, pa.int32()),
        "position": pa.array(at % 2048, pa.int32()),
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
        "sliding_window": pa.array(np.full(ROWS, 4096), pa.int64()),
    })


def write_duckdb(rows, path):
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql("SELECT * REPLACE (vector::FLOAT[] AS vector) FROM rows") \
        .write_parquet(str(path), compression="zstd")


def write_polars(table, path):
    polars = pytest.importorskip("polars")
    polars.from_arrow(table).write_parquet(path, compression="zstd", row_group_size=ROWS)


WRITERS = {"pyarrow": {"compression": "zstd"}, "brotli": {"compression": "brotli", "data_page_version": "2.0"},
           "plain": {"compression": "zstd", "use_dictionary": False, "data_page_size": 1 << 24, "row_group_size": ROWS},
           "duckdb": write_duckdb, "polars": write_polars}


@pytest.mark.test_all
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("vectors", ["zeros", "periodic"])
def test_honest_file_is_read(qkscope, tmp_path, writer, vectors):
    values = np.zeros((ROWS, DIM), np.float32)
    if vectors == "periodic":
        values += (np.arange(ROWS) % 2048 / 2048)[:, None].astype(np.float32)
    table = honest_columns(values)
    for head in ("l00h00q", "l00h00k"):
        (tmp_path / "c" / head).mkdir(parents=True)
    write, path = WRITERS[writer], tmp_path / "c/l00h00q/data.parquet"
    write(table, path) if callable(write) else pq.write_table(table, path, **write)
    shutil.copy(tmp_path / "c/l00h00q/data.parquet", tmp_path / "c/l00h00k")
    print((tmp_path / "c/l00h00q/data.parquet").stat().st_size, "bytes")
    said = qkscope("inspect", tmp_path / "c", "--json", expect=0).out
    assert json.loads(said)["rows"] == 2 * ROWS
    done = qkscope("analyze", tmp_path / "c", "-o", tmp_path / "o",
                   expect=1 if vectors == "zeros" else 0)
    assert OVER not in done.err
    assert ("no variance" in done.err) == (vectors == "zeros")
