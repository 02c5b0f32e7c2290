# SPDX-License-Identifier: Apache-2.0
"""qkscope inspect against what pyarrow sees in the same files."""
import json
import os
import pathlib
import subprocess

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))
SHARED = pathlib.Path(os.environ.get("QKSCOPE_SHARED", ROOT.parent / "shared"))
CAPTURES = SHARED / "data" / "kjv-tiny-capture"


def run(*args):
    result = subprocess.run([BUILD / "qkscope", "inspect", *map(str, args)],
                            capture_output=True, text=True)
    return result.returncode, result.stdout, result.stderr


def inspect(*args, code=0):
    found, out, err = run(*args, "--json")
    assert found == code, err
    return json.loads(out)


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


def test_real_captures():
    if not CAPTURES.is_dir():
        pytest.skip(f"no {CAPTURES} (QKSCOPE_SHARED)")
    for writer in ("arrow-rs", "duckdb"):
        found = inspect(CAPTURES, "--split", writer)
        examples, buckets = set(), set()
        assert found["num_heads"] == len(found["heads"]) == 30 and found["num_failed"] == 0
        assert found["group"]["size"] == 2 and found["group"]["source"] == "inferred"
        for head in found["heads"]:
            path = CAPTURES / writer / head["name"] / "data.parquet"
            table = pq.read_table(path)
            position = table["position"].to_numpy()
            assert head["rows"] == len(table) and head["bytes"] == path.stat().st_size
            assert head["positions"] == [position.min(), position.max()]
            assert head["buckets"] == sorted(set(table["bucket"].to_pylist()))
            assert head["examples"] == len(set(table["example_id"].to_pylist()))
            assert head["dim"] == len(table["vector"][0])
            assert head["row_groups"] == pq.ParquetFile(path).num_row_groups
            assert head["created_by"] == pq.ParquetFile(path).metadata.created_by
            examples |= set(table["example_id"].to_pylist())
            buckets |= set(table["bucket"].to_pylist())
        assert found["examples"] == len(examples) and found["buckets"] == sorted(buckets)
        assert found["rows"] == sum(head["rows"] for head in found["heads"])
        one = inspect(CAPTURES, "--split", writer, "--threads", 1)
        assert one == found


def test_windows_and_text(tmp_path):
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
    code, out, err = run(tmp_path, "--heads")
    assert code == 0 and err == ""
    for text in (r"tiny\u001b[31m", "not finished", "in 1 of 3 heads", "3 in 1 layer", "l00h01q"):
        assert text in out
    assert "does not fit" in run(tmp_path, "--q-per-kv-group", 1)[1]


def test_optional_columns(tmp_path):
    write_head(tmp_path, "l00h00q", drop=["bucket", "example_id"])
    head = inspect(tmp_path)["heads"][0]
    assert head["buckets"] is None and head["examples"] is None and head["rows"] == 50


def test_unreadable_heads(tmp_path):
    write_head(tmp_path, "l00h00q")
    write_head(tmp_path, "l00h00k", drop=["vector"])
    write_head(tmp_path, "l01h00k")
    (tmp_path / "l01h00k" / "data.parquet").write_bytes(b"PAR1 and no more")
    found = inspect(tmp_path, code=3)
    assert found["num_failed"] == 2 and found["rows"] == 50
    assert "no column 'vector'" in found["heads"][1]["error"]
    code, out, err = run(tmp_path)
    assert code == 3 and "2 of 3 heads cannot be read" in err
    assert "l00h00k/data.parquet" in err and "l01h00k/data.parquet" in err
    (tmp_path / "l00h00q" / "data.parquet").write_bytes(b"")
    assert run(tmp_path)[0] == 1


def test_dimensions_that_differ_and_no_rows(tmp_path):
    write_head(tmp_path / "a", "l00h00q")
    write_head(tmp_path / "a", "l00h00k", dim=5)
    assert inspect(tmp_path / "a")["dim"] is None
    write_head(tmp_path / "b", "l00h00q", rows=0)
    found = inspect(tmp_path / "b")
    assert found["rows"] == 0 and found["positions"] is None and found["group"] is None
    assert "unknown" in run(tmp_path / "b")[1]


def test_one_file(tmp_path):
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
    code, out, _ = run(path)
    assert code == 0 and "vector.list.element" in out and metadata.created_by in out


def test_errors(tmp_path):
    assert run()[0] == 2
    assert run("a", "b")[0] == 2
    assert run(tmp_path, "--q-per-kv-group", "0")[0] == 2
    code, out, err = run(tmp_path)
    assert code == 1 and out == "" and "no head folders" in err
    code, _, err = run("org/certainly-not-cached")
    assert code == 1 and "qkscope get" in err
    (tmp_path / "x.parquet").write_text("no")
    assert run(tmp_path / "x.parquet")[0] == 1
    assert run("--help")[0] == 0
