# SPDX-License-Identifier: Apache-2.0
"""qkscope repack: what stays of a capture in another layout, and what becomes of its folders."""
import json
import shutil

import numpy as np
import pytest

from conftest import synth, write_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def csv_tables(folder):
    return {p.name: p.read_bytes() for p in folder.glob("*.csv")}


@pytest.fixture(scope="module")
def made(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("repack") / "made"
    synth(qkscope, folder, layers=2, query_heads=4, q_per_kv_group=2, dim=8, examples=9, rows=100, token_strings=True)
    return folder


def rich(folder, rng, vector_type=pa.float32()):
    """A capture with everything that one may have: names of texts, facts, windows, tokens with nulls."""
    for layer in range(2):
        for head, kind in ((0, "q"), (1, "q"), (0, "k")):
            rows = 300
            table = pa.table({
                "token_str": pa.array([None if i % 50 == 7 else f"t{i}\u00e9\n" for i in range(rows)]),
                "vector": pa.array(list(rng.normal(size=(rows, 6)).astype(vector_type.to_pandas_dtype())), pa.list_(vector_type)),
                "position": pa.array(np.arange(rows), pa.int64()),
                "example_id": pa.array([None if i < 3 else (1 << 40) + i // 30 for i in range(rows)], pa.int64()),
                "bucket": pa.array(np.arange(rows) // 32, pa.int32()),
                "sliding_window": pa.array([None if layer == 0 else 128] * rows, pa.float64()),
                "other": pa.array(["x"] * rows)})
            write_table(folder, f"l{layer:02d}h{head:02d}{kind}", table, shards=1 + head, row_group_size=90)
    (folder / "examples.csv").write_text("example_id,id\n5,a\n")
    (folder / "notes.txt").write_text("not a part")
    (folder / "capture.json").write_text(json.dumps({
        "format": "qkscope-capture", "format_version": 1, "model": "rich", "q_per_kv_group": 2, "source": "somebody",
        "complete": True, "rope_frequencies": [1.0, 0.5623413251903491, 0.1], "stage": "post-rope",
        "texts": {"count": 10, "windows": 12}, "own": {"deep": [1, 2.5, None]}}))
    return folder


# ---- rows and facts --------------------------------------------------------------------------

def test_there_and_back(qkscope, made, tmp_path):
    done = json.loads(qkscope("repack", made, "-o", tmp_path / "p", "--json", expect=0).out)
    assert done == {"output": str(tmp_path / "p"), "layout": "packed", "heads": 12, "files": 4, "rows": 10800}
    qkscope("repack", tmp_path / "p", "-o", tmp_path / "h", "--layout", "heads", "--threads", "3", expect=0)
    qkscope("repack", tmp_path / "h", "-o", tmp_path / "again", "--threads", "1", expect=0)
    assert contents(tmp_path / "h") == contents(made)
    assert contents(tmp_path / "again") == contents(tmp_path / "p")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again", "h", "p"]


@pytest.mark.parametrize("vector_type", [pa.float32(), pa.float16()])
def test_everything_stays(qkscope, tmp_path, vector_type):
    source = rich(tmp_path / "c", np.random.default_rng(1), vector_type)
    qkscope("repack", source, "-o", tmp_path / "p", "-q", expect=0)
    kept = pa.float32() if vector_type == pa.float16() else vector_type
    for layer, head, kind in ((0, 1, "q"), (1, 0, "q"), (1, 0, "k")):
        files = sorted((source / f"l{layer:02d}h{head:02d}{kind}").glob("*.parquet"))
        own = pa.concat_tables(pq.read_table(f) for f in files)
        part = pq.read_table(tmp_path / "p" / f"l{layer:02d}{kind}", filters=[("head", "==", head)])
        assert str(part.schema.field("vector").type) == f"list<element: {kept}>"
        assert part.schema.field("example_id").type == pa.int64()
        assert set(part.column_names) == {"head", *own.column_names} - {"other"}
        for column in ("token_str", "position", "example_id", "bucket"):
            assert part[column].to_pylist() == own[column].to_pylist()
        assert part["vector"].to_pylist() == own["vector"].to_pylist()
        assert part["sliding_window"].to_pylist() == [w and int(w) for w in own["sliding_window"].to_pylist()]
    was, now = (json.loads((folder / "capture.json").read_text()) for folder in (source, tmp_path / "p"))
    for key, value in was.items():
        assert now[key] == value
    assert now["layout"] == "packed" and now["heads"][0] == {"name": "l00h00q", "rows": 300, "dim": 6}
    assert (tmp_path / "p" / "examples.csv").read_bytes() == (source / "examples.csv").read_bytes()
    assert not (tmp_path / "p" / "notes.txt").exists()
    for i, capture in enumerate((source, tmp_path / "p")):
        qkscope("pca", capture, "-o", tmp_path / str(i), "-q", expect=0)
    assert csv_tables(tmp_path / "0") and csv_tables(tmp_path / "0") == csv_tables(tmp_path / "1")
    qkscope("repack", tmp_path / "p", "-o", tmp_path / "h", "--layout", "heads", "-q", expect=0)
    qkscope("repack", tmp_path / "h", "-o", tmp_path / "p2", "-q", expect=0)
    assert contents(tmp_path / "p2") == contents(tmp_path / "p")


# ---- refusals --------------------------------------------------------------------------------

def refused(qkscope, *words, says, code=1, env=None):
    outcome = qkscope("repack", *words, expect=code, env=env)
    for word in says:
        assert word in outcome.err, outcome.err


@pytest.mark.test_all
def test_places(qkscope, made, tmp_path):
    source = shutil.copytree(made, tmp_path / "c")
    refused(qkscope, source, "-o", source / "p", says=["lies in the capture"])
    refused(qkscope, source, "-o", tmp_path, "--force", says=["around it"])
    assert not (source / "p").exists()
    refused(qkscope, source, says=["Give -o DIR"], code=2)
    refused(qkscope, says=["which capture"], code=2)
    refused(qkscope, source, "-o", tmp_path / "p", "--layout", "flat", says=["heads", "packed"], code=2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    refused(qkscope, source, "-o", tmp_path / "full", says=["not empty", "--force"])
    refused(qkscope, source, "-o", tmp_path / "full", "--force", says=["holds other files"])
    assert contents(tmp_path / "full") == {"letter.txt": b"dear"}
    (tmp_path / "file").write_text("x")
    refused(qkscope, source, "-o", tmp_path / "file", says=["file"])


@pytest.mark.test_all
def test_a_failure_leaves_what_was_there(qkscope, made, tmp_path):
    qkscope("repack", made, "-o", tmp_path / "p", "-q", expect=0)
    before = contents(tmp_path / "p")
    source = shutil.copytree(made, tmp_path / "c")
    file = source / "l01h01q" / "data.parquet"
    data = bytearray(file.read_bytes())
    chunk = pq.read_metadata(file).row_group(0).column(3)
    at = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[at:at + 8] = b"\xff" * 8
    file.write_bytes(data)
    refused(qkscope, source, "-o", tmp_path / "p", "--force", says=["l01h01q/data.parquet", "column 'vector."])
    assert contents(tmp_path / "p") == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "p"]
