# SPDX-License-Identifier: Apache-2.0
"""qkscope repack: what stays of a capture in another layout, and what becomes of its folders."""
import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from conftest import EXAMPLE, synth, write_head, write_table

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


@pytest.mark.parametrize("vector_type", [pa.float32(), pa.float64(), pa.float16()])
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


def test_the_example(qkscope, tmp_path):
    qkscope("repack", EXAMPLE, "-o", tmp_path / "p", "-q", expect=0)
    assert len(list((tmp_path / "p").glob("l*/data.parquet"))) == 10
    for command in ("analyze", "pca", "plasticity", "rotate"):
        for i, capture in enumerate((EXAMPLE, tmp_path / "p")):
            qkscope(command, capture, "-o", tmp_path / f"{command}{i}", "-q", expect=0)
        assert csv_tables(tmp_path / f"{command}0") == csv_tables(tmp_path / f"{command}1")


@pytest.mark.parametrize("writer", ["arrow-rs", "duckdb"])
def test_captures_of_other_programs(qkscope, shared_data, tmp_path, writer):
    source = shared_data("kjv-tiny-capture") / writer
    qkscope("repack", source, "-o", tmp_path / "p", "-q", expect=0)
    for i, capture in enumerate((source, tmp_path / "p")):
        qkscope("analyze", capture, "-o", tmp_path / str(i), "-q", expect=0)
    assert csv_tables(tmp_path / "0") == csv_tables(tmp_path / "1")


def test_columns_that_are_missing(qkscope, tmp_path):
    rng = np.random.default_rng(5)
    for name in ("l00h00q", "l00h00k"):
        table = pa.table({"vector": pa.array(list(rng.normal(size=(50, 4)).astype(np.float32)), pa.list_(pa.float32())),
                          "position": pa.array(np.arange(50), pa.int32())})
        write_table(tmp_path / "c", name, table)
    qkscope("repack", tmp_path / "c", "-o", tmp_path / "p", "-q", expect=0)
    assert pq.read_schema(tmp_path / "p" / "l00q" / "data.parquet").names == ["head", "position", "vector", "sliding_window"]


def test_facts_of_the_card_stay(qkscope, made, tmp_path):
    source = shutil.copytree(made, tmp_path / "c")
    card = (source / "README.md").read_text()
    line = next(x for x in card.splitlines() if x.startswith("- written by: "))
    (source / "README.md").write_text(card.replace(line, line + "\n- corpus: Genesis\n- kept: 3 of 5"))
    qkscope("repack", source, "-o", tmp_path / "p", "-q", expect=0)
    packed = (tmp_path / "p" / "README.md").read_text()
    assert line + "\n- corpus: Genesis\n- kept: 3 of 5\n\nOne configuration per layer" in packed
    qkscope("repack", tmp_path / "p", "-o", tmp_path / "h", "--layout", "heads", "-q", expect=0)
    assert contents(tmp_path / "h") == contents(source)


def test_an_empty_head_stays(qkscope, made, tmp_path):
    source = shutil.copytree(made, tmp_path / "c")
    file = source / "l01h02q" / "data.parquet"
    pq.write_table(pq.read_table(file).slice(0, 0), file)
    manifest = json.loads((source / "capture.json").read_text())
    manifest["heads"] = [{**h, "rows": 0} if h["name"] == "l01h02q" else h for h in manifest["heads"]]
    (source / "capture.json").write_text(json.dumps(manifest))
    qkscope("repack", source, "-o", tmp_path / "p", "-q", expect=0)
    qkscope("repack", tmp_path / "p", "-o", tmp_path / "h", "--layout", "heads", "-q", expect=0)
    assert pq.read_metadata(tmp_path / "h" / "l01h02q" / "data.parquet").num_rows == 0
    qkscope("repack", tmp_path / "h", "-o", tmp_path / "p2", "-q", expect=0)
    assert contents(tmp_path / "p2") == contents(tmp_path / "p")


# ---- refusals --------------------------------------------------------------------------------

def refused(qkscope, *words, says, code=1, env=None):
    outcome = qkscope("repack", *words, expect=code, env=env)
    for word in says:
        assert word in outcome.err, outcome.err


def test_heads_that_cannot_share_a_file(qkscope, tmp_path):
    rng = np.random.default_rng(0)
    for head, dim in ((0, 4), (1, 6)):
        write_head(tmp_path / "c", f"l00h{head:02d}k", rng.normal(size=(40, dim)), np.arange(40))
    refused(qkscope, tmp_path / "c", "-o", tmp_path / "p", says=["l00h01k/data.parquet", "6 values, but 4"])
    assert [p.name for p in tmp_path.iterdir()] == ["c"]
    qkscope("repack", tmp_path / "c", "-o", tmp_path / "h", "--layout", "heads", "-q", expect=0)


def test_a_head_that_cannot_be_read(qkscope, made, tmp_path):
    source = shutil.copytree(made, tmp_path / "c")
    file = source / "l01h01q" / "data.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    refused(qkscope, source, "-o", tmp_path / "p", says=["l01h01q/data.parquet", "cut short"])
    shutil.rmtree(source / "l01h01q")
    refused(qkscope, source, "-o", tmp_path / "p", says=["l01h01q/data.parquet", "not there"])
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_an_unfinished_capture(qkscope, made, tmp_path):
    source = shutil.copytree(made, tmp_path / "c")
    text = (source / "capture.json").read_text()
    (source / "capture.json").write_text(text.replace('"complete": true', '"complete": false'))
    refused(qkscope, source, "-o", tmp_path / "p", says=["not finished"])


def test_numbers_that_do_not_fit(qkscope, tmp_path):
    write_head(tmp_path / "c", "l00h00q", np.ones((40, 4)), np.arange(40) + (1 << 33), position_type=pa.int64())
    refused(qkscope, tmp_path / "c", "-o", tmp_path / "p", says=["l00h00q/data.parquet", "position", "does not fit int32"])


def test_zero_bytes_in_tokens(qkscope, tmp_path):
    table = pa.table({"vector": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32())), "position": pa.array([0, 1, 2], pa.int32()),
                      "token_str": pa.array(["a", "b\0c", "d"])})
    write_table(tmp_path / "c", "l00h00q", table)
    refused(qkscope, tmp_path / "c", "-o", tmp_path / "p", says=["l00h00q/data.parquet", "token_str", "zero byte"])


def test_places(program, qkscope, made, tmp_path):
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
    here = subprocess.run([program, "repack", source, "-o", "."], cwd=tmp_path / "full", capture_output=True, text=True)
    assert here.returncode == 1 and "this command runs in that folder" in here.stderr


def test_force_replaces_a_capture(qkscope, made, tmp_path):
    source = shutil.copytree(made, tmp_path / "c")
    qkscope("repack", source, "-o", tmp_path / "p", "-q", expect=0)
    packed = contents(tmp_path / "p")
    refused(qkscope, source, "-o", tmp_path / "p", says=["not empty"])
    qkscope("repack", source, "-o", tmp_path / "p", "--force", "--layout", "heads", "-q", expect=0)
    assert contents(tmp_path / "p") == contents(made)
    qkscope("repack", source, "-o", source, "--force", "-q", expect=0)  # in place
    assert contents(source) == packed
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "p"]


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


@pytest.mark.parametrize("force", [False, True])
def test_killed(program, qkscope, tmp_path, force):
    """Nothing is in the folder but what was there; the next run sweeps."""
    synth(qkscope, tmp_path / "c", layers=4, query_heads=16, q_per_kv_group=4, dim=64, rows=400, examples=8)
    before = {}
    if force:
        synth(qkscope, tmp_path / "p", layers=1, dim=8, rows=50)
        before = contents(tmp_path / "p")
    words = [program, "repack", tmp_path / "c", "-o", tmp_path / "p", "--threads", "1", *(["--force"] if force else [])]
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    staging = tmp_path / ".p.repack"
    for _ in range(2000):
        if list(staging.glob("l00q/data.parquet")) or child.poll() is not None:
            break
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    if child.returncode != -signal.SIGKILL:
        pytest.skip("it was done before it could be killed")
    assert (contents(tmp_path / "p") if (tmp_path / "p").exists() else {}) == before
    assert staging.is_dir()
    qkscope(*words[1:], expect=0)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "p"]
    qkscope("repack", tmp_path / "c", "-o", tmp_path / "other", "-q", expect=0)
    assert contents(tmp_path / "other") == contents(tmp_path / "p")


def test_interrupted(program, qkscope, tmp_path):
    synth(qkscope, tmp_path / "c", layers=4, query_heads=16, q_per_kv_group=4, dim=64, rows=400, examples=8)
    child = subprocess.Popen([program, "repack", tmp_path / "c", "-o", tmp_path / "p", "--threads", "1"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for _ in range(2000):
        if list((tmp_path / ".p.repack").glob("l00q/data.parquet")) or child.poll() is not None:
            break
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    err = child.communicate()[1]
    if child.returncode == 0:
        pytest.skip("it was done before it could be interrupted")
    assert child.returncode == -signal.SIGINT and "stopped" in err
    assert [p.name for p in tmp_path.iterdir()] == ["c"]


def test_capture_replaces_a_packed_one(qkscope, made, tmp_path):
    """The folder is a capture's alone to every command that asks."""
    qkscope("repack", made, "-o", tmp_path / "p", "-q", expect=0)
    outcome = qkscope("synth", "-o", tmp_path / "p", "-q")
    assert outcome.code == 1 and "not empty" in outcome.err
