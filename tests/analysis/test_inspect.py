# SPDX-License-Identifier: Apache-2.0
"""qkscope inspect against what pyarrow sees in the same files."""
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import EXAMPLE, head_names


@pytest.fixture
def inspect(qkscope):
    def run(*words, code=0):
        return json.loads(qkscope("inspect", *words, "--json", expect=code).out)
    return run


def write_head(root, head, rows=50, dim=4, seed=0, drop=(), **columns):
    rng = np.random.default_rng(seed)
    table = {
        "bucket": pa.array(rng.integers(0, 5, rows), pa.int32()),
        "example_id": pa.array(rng.integers(-9, 9, rows), pa.int64()),
        "position": pa.array(rng.integers(0, 1000, rows), pa.int32()),
        "vector": pa.array(rng.standard_normal((rows, dim)).tolist(), pa.list_(pa.float32())),
        "sliding_window": pa.nulls(rows),
        **columns,
    }
    (root / head).mkdir(parents=True)
    table = pa.table({k: v for k, v in table.items() if k not in drop})
    pq.write_table(table, root / head / "data.parquet", compression="zstd")
    return table


def check(found, root):
    names, examples, buckets = head_names(root), set(), set()
    assert sorted(head["name"] for head in found["heads"]) == names
    assert (found["num_failed"], found["num_heads"], found["group"]["size"]) == (0, len(names), 2)
    for head in found["heads"]:
        path = root / head["name"] / "data.parquet"
        table, metadata = pq.read_table(path), pq.ParquetFile(path).metadata
        position = table["position"].to_numpy()
        assert head["rows"] == len(table) and head["bytes"] == path.stat().st_size
        assert head["positions"] == [position.min(), position.max()]
        assert head["buckets"] == sorted(set(table["bucket"].to_pylist()))
        assert head["examples"] == len(set(table["example_id"].to_pylist()))
        assert head["dim"] == len(table["vector"][0])
        assert (head["row_groups"], head["created_by"]) == (metadata.num_row_groups, metadata.created_by)
        examples |= set(table["example_id"].to_pylist())
        buckets |= set(table["bucket"].to_pylist())
    assert found["examples"] == len(examples) and found["buckets"] == sorted(buckets)
    assert found["rows"] == sum(head["rows"] for head in found["heads"])


def test_the_example(inspect):
    found = inspect(EXAMPLE)
    check(found, EXAMPLE)
    assert found["group"]["source"] == "from capture.json" and inspect(EXAMPLE, "--threads", 1) == found


@pytest.mark.test_all
@pytest.mark.parametrize("writer", ["arrow-rs", "duckdb"])
def test_real_captures(inspect, shared_data, writer):
    folder = shared_data("kjv-tiny-capture")
    found = inspect(folder, "--split", writer)
    check(found, folder / writer)
    assert found["group"]["source"] == "inferred"


def test_windows_and_text(qkscope, inspect, tmp_path):
    write_head(tmp_path, "l00h00q", sliding_window=pa.array([None, 64] * 25, pa.int64()))
    write_head(tmp_path, "l00h01q", drop=["sliding_window"])
    write_head(tmp_path, "l00h00k")
    (tmp_path / "capture.json").write_text(
        '{"model": "tiny\\u001b[31m", "q_per_kv_group": 2, "complete": false}')
    found = inspect(tmp_path)
    assert found["windows"] == [0, 64] and found["complete"] is False
    assert [h["windows"] for h in found["heads"]] == [[0, 64], [0], [0]]
    assert found["group"] == {"size": 2, "source": "from capture.json", "consistent": True,
                              "num_consistent": 1}
    done = qkscope("inspect", tmp_path, "--heads", expect=0)
    out = done.out
    assert done.err == ""
    for text in (r"tiny\u001b[31m", "not finished", "in 1 of 3 heads", "3 in 1 layer", "l00h01q"):
        assert text in out
    assert "does not fit" in qkscope("inspect", tmp_path, "--q-per-kv-group", 1).out


def test_optional_columns(inspect, tmp_path):
    write_head(tmp_path, "l00h00q", drop=["bucket", "example_id"])
    head = inspect(tmp_path)["heads"][0]
    assert head["buckets"] is None and head["examples"] is None and head["rows"] == 50


def test_unreadable_heads(qkscope, inspect, tmp_path):
    write_head(tmp_path, "l00h00q")
    write_head(tmp_path, "l00h00k", drop=["vector"])
    write_head(tmp_path, "l01h00k")
    (tmp_path / "l01h00k" / "data.parquet").write_bytes(b"PAR1 and no more")
    found = inspect(tmp_path, code=3)
    assert found["num_failed"] == 2 and found["rows"] == 50
    assert "no column 'vector'" in found["heads"][1]["error"]
    err = qkscope("inspect", tmp_path, expect=3).err
    assert "2 of 3 heads" in err and "l00h00k/data.parquet" in err and "l01h00k/data.parquet" in err
    (tmp_path / "l00h00q" / "data.parquet").write_bytes(b"")
    qkscope("inspect", tmp_path, expect=1)


def test_dimensions_that_differ_and_no_rows(qkscope, inspect, tmp_path):
    write_head(tmp_path / "a", "l00h00q")
    write_head(tmp_path / "a", "l00h00k", dim=5)
    assert inspect(tmp_path / "a")["dim"] is None
    write_head(tmp_path / "b", "l00h00q", rows=0)
    found = inspect(tmp_path / "b")
    assert found["rows"] == 0 and found["positions"] is None and found["group"] is None
    assert "unknown" in qkscope("inspect", tmp_path / "b", expect=0).out


def test_one_file(qkscope, inspect, tmp_path):
    table = write_head(tmp_path, "l00h00q", token_str=pa.array(["a"] * 50))
    path = tmp_path / "l00h00q" / "data.parquet"
    found = inspect(path)
    metadata = pq.ParquetFile(path).metadata
    assert found["rows"] == 50 and found["bytes"] == path.stat().st_size
    assert found["created_by"] == metadata.created_by
    assert found["row_groups"] == metadata.num_row_groups
    group = metadata.row_group(0)
    for i, column in enumerate(found["columns"]):
        theirs = group.column(i)
        assert column["path"] == theirs.path_in_schema
        assert column["codec"] == theirs.compression
        assert column["compressed_bytes"] == theirs.total_compressed_size
        assert column["uncompressed_bytes"] == theirs.total_uncompressed_size
        assert column["values"] == theirs.num_values
        assert sorted(column["encodings"]) == sorted(set(theirs.encodings))
    assert [c["type"] for c in found["columns"]] == ["INT32", "INT64", "INT32", "FLOAT", "NULL",
                                                     "STRING"]
    position = table["position"].to_numpy()
    assert found["columns"][2]["range"] == [position.min(), position.max()]
    out = qkscope("inspect", path, expect=0).out
    assert "vector.list.element" in out and metadata.created_by in out


def test_errors(qkscope, tmp_path):
    for words in ((), ("a", "b"), (tmp_path, "--q-per-kv-group", "0")):
        qkscope("inspect", *words, expect=2)
    assert "hf download" in qkscope("inspect", "org/certainly-not-cached", expect=1).err
    (tmp_path / "x.parquet").write_text("no")
    qkscope("inspect", tmp_path / "x.parquet", expect=1)
