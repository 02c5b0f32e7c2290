# SPDX-License-Identifier: Apache-2.0
"""The same rows give the same bytes: on any number of threads, however they are laid out."""
import os

import numpy as np
import pytest
from conftest import EXAMPLE, capture_table, head_name, read_bytes, write_head

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COMBINED = ("qk.csv", "heads.csv")
SINGLE = ("correlations.csv",)
HEADS = [head_name(layer, head, kind) for layer in range(2)
         for kind, count in (("q", 2), ("k", 1)) for head in range(count)]


def analyse(qkscope, capture, out, *options):
    qkscope("pca", capture, "-o", out, "--force", "--lda", *options, expect=0)
    qkscope("pca", capture, "-o", out, "--kinds", "q,k", *options, expect=0)
    return read_bytes(out, *COMBINED, *SINGLE)


def test_threads(qkscope, tmp_path):
    one = analyse(qkscope, EXAMPLE, tmp_path / "1", "--layers", 0, "--threads", 1)
    for threads in (2, 64):
        assert analyse(qkscope, EXAMPLE, tmp_path / "n", "--layers", 0, "--threads", threads) == one


def test_summary_is_the_same_too(qkscope, tmp_path):
    """But for the time, unless that is given."""
    texts = set()
    for threads in (1, 7):
        qkscope("pca", EXAMPLE, "-o", tmp_path, "--kinds", "q,k", "--threads", threads, "--layers", 1,
                env={"SOURCE_DATE_EPOCH": 1770000000}, expect=0)
        texts.add((tmp_path / "summary.json").read_bytes())
    assert len(texts) == 1 and b'"2026-02-02T02:40:00+00:00"' in texts.pop()


# ---- the same rows, laid out differently -----------------------------------------------------

@pytest.fixture(scope="module")
def rows():
    """Values of a bfloat16 model: few enough for dictionaries, more than one tile of rows."""
    rng = np.random.default_rng(8)
    made = {}
    for name in HEADS:
        n = int(rng.integers(300, 600))
        x = (rng.standard_normal((n, 24)) * 2 + 1).astype(np.float32)
        x = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
        made[name] = x, np.sort(rng.integers(0, 5000, n))
    return made


def write_all(folder, rows, **options):
    for name, (x, t) in rows.items():
        write_head(folder, name, x, t, **options)
    return folder


@pytest.fixture(scope="module")
def reference(qkscope, rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    return analyse(qkscope, write_all(folder / "c", rows), folder / "out")


VECTOR, POSITION = "vector.list.element", "position"
LAYOUTS = {
    "small pages, version 2": dict(data_page_size=300, write_batch_size=7,
                                   data_page_version="2.0"),
    "one row a group": dict(row_group_size=1),
    "plain": dict(use_dictionary=False, compression="none"),
    "snappy": dict(compression="snappy"),
    "dictionary that falls back": dict(dictionary_pagesize_limit=64, data_page_size=2000),
    "split bytes": dict(use_dictionary=False,
                        column_encoding={VECTOR: "BYTE_STREAM_SPLIT", POSITION: "PLAIN"}),
    "delta": dict(use_dictionary=False, column_encoding={POSITION: "DELTA_BINARY_PACKED"}),
    "no statistics": dict(write_statistics=False, store_schema=False),
    "int64 positions": dict(position_type=pa.int64()),
    "3 shards": dict(shards=3),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pyarrow(qkscope, rows, reference, tmp_path, layout):
    options = LAYOUTS[layout]
    write_all(tmp_path / "c", rows, **options)
    assert analyse(qkscope, tmp_path / "c", tmp_path / "out") == reference


def rewrite(folder, rows, write):
    for name, (x, t) in rows.items():
        (folder / name).mkdir(parents=True)
        write(capture_table(x, t), folder / name / "data.parquet")
    return folder


def test_columns_in_another_order(qkscope, rows, reference, tmp_path):
    def write(table, path):
        table = table.select(["vector", "sliding_window", "position", "bucket", "example_id"])
        table = table.append_column("notes", pa.array([{"a": [i]} for i in range(len(table))]))
        pq.write_table(table.append_column("vectors", table["position"]), path)
    folder = rewrite(tmp_path / "c", rows, write)
    assert analyse(qkscope, folder, tmp_path / "out") == reference


def test_variable_length_lists(qkscope, rows, reference, tmp_path):
    def write(table, path, kind):
        vector = table["vector"].cast(kind(pa.float32()))
        pq.write_table(table.set_column(3, "vector", vector), path)
    for kind in (pa.list_, pa.large_list):
        folder = rewrite(tmp_path / kind.__name__, rows, lambda t, p: write(t, p, kind))
        assert analyse(qkscope, folder, tmp_path / "out") == reference


def test_wider_types_hold_the_same_values(qkscope, tmp_path):
    """float64 that came from float16: other bytes on disk, the same numbers."""
    rng = np.random.default_rng(4)
    folders = []
    narrow = {name: ((rng.standard_normal((400, 16))).astype(np.float16), np.arange(400))
              for name in HEADS}
    for kind in (np.float16, np.float32, np.float64):
        folder = tmp_path / kind.__name__
        write_all(folder, {name: (x.astype(kind), t) for name, (x, t) in narrow.items()})
        folders.append(analyse(qkscope, folder, tmp_path / "out"))
    assert folders[0] == folders[1]
    assert folders[0] == folders[2]


def test_dataset_layouts(qkscope, rows, reference, tmp_path):
    """Below a prefix, and through links as the Hugging Face cache has them."""
    write_all(tmp_path / "root" / "some" / "prefix", rows)
    assert analyse(qkscope, tmp_path / "root", tmp_path / "out") == reference
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    for i, path in enumerate(sorted((tmp_path / "root").rglob("*.parquet"))):
        path.rename(blobs / str(i))
        link = snapshot / path.parent.name / path.name
        link.parent.mkdir(parents=True)
        link.symlink_to(os.path.relpath(blobs / str(i), link.parent))
    assert analyse(qkscope, snapshot, tmp_path / "out") == reference
