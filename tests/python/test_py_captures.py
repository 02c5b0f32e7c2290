# SPDX-License-Identifier: Apache-2.0
"""Reading captures from Python: what pyarrow reads of the same files, in memory that nobody copies."""
import gc
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from qkscope import captures  # noqa: E402

from conftest import BUILD, EXAMPLE, read_rows, synth, write_head, write_rows  # noqa: E402

SMALL = dict(layers=2, query_heads=4, dim=24, examples=7, rows=90, bucket_width=8, sliding_window=64, seed=3)
NAMES = dict(position="position", bucket="bucket", example="example_id", window="sliding_window")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The same capture in three ways."""
    folder = tmp_path_factory.mktemp("captures")
    ways = {"heads": dict(row_group_rows=256), "shards": dict(shards=3), "packed": dict(layout="packed", row_group_rows=256)}
    for way, options in ways.items():
        synth(folder / way, **options, **SMALL)
    return {way: qk.open(folder / way) for way in ways}


def by_pyarrow(head):
    filters = [("head", "==", head.head)] if "head" in pq.read_schema(head.files[0]).names else None
    table = pa.concat_tables([pq.read_table(file, filters=filters) for file in head.files])
    columns = {name: table[column].fill_null(0).to_numpy().astype(np.int64) for name, column in NAMES.items()}
    vectors = table["vector"].combine_chunks().flatten().to_numpy().reshape(len(table), -1)
    return dict(vectors=vectors, **columns)


def check(block, right, rows=slice(None)):
    for name, values in right.items():
        array = getattr(block, name)
        assert isinstance(array, np.ndarray) and array.dtype == values.dtype, name
        assert np.array_equal(array, values[rows]), name


# ---- rows ----------------------------------------------------------------------------------

@pytest.mark.cases(3)
@pytest.mark.parametrize("way", ["heads", "shards", "packed"])
def test_rows_are_those_that_pyarrow_reads(made, way):
    assert len(made[way].heads) == 12
    for head in made[way].heads:
        right = by_pyarrow(head)
        assert (head.rows, head.dim) == right["vectors"].shape == (630, 24)
        check(head.read(), right)
        for size in (629, 100) if head.head else (1,):
            blocks = list(head.blocks(size))
            assert [len(b) for b in blocks] == [size] * (630 // size) + [630 % size] * (630 % size > 0)
            for block in blocks:
                assert block.first_row % size == 0
                check(block, right, slice(block.first_row, block.first_row + len(block)))


def test_the_original_tool_s_files():
    capture = qk.open(EXAMPLE)
    assert capture.path == str(EXAMPLE) and len(capture.heads) == 30 and capture.group_size == 2
    for head in capture.heads[::7]:
        right, block = read_rows(EXAMPLE, head.name), head.read()
        assert np.array_equal(block.vectors.astype(float), right["vector"])
        for name, column in NAMES.items():
            assert np.array_equal(getattr(block, name), right[column]), name


def test_doubles_and_texts_without_integers(tmp_path):
    x = np.random.default_rng(0).normal(size=(50, 4))
    write_head(tmp_path, "l00h00q", x, np.arange(50))
    folder = write_head(tmp_path, "l00h00k", x.astype(np.float16), np.arange(50))
    table = pq.read_table(folder / "data.parquet")
    table = table.set_column(1, "example_id", pa.array([f"text {i}" for i in range(50)]))
    pq.write_table(table, folder / "data.parquet")
    write_rows(tmp_path, "l00h01q", dict(vector=x, position=np.arange(50), example_id=[None, 7] * 25))
    capture = qk.open(tmp_path)
    wide, half, nulls = capture.head(0, 0, "q").read(), capture.head(0, 0, "k").read(), capture.head(0, 1, "q").read()
    assert wide.vectors.dtype == np.float64 and np.array_equal(wide.vectors, x)
    assert half.vectors.dtype == np.float32 and np.array_equal(half.vectors, x.astype(np.float16).astype(np.float32))
    assert half.example is None and half.position is not None
    assert nulls.example.tolist() == [-2**63, 7] * 25
    wide, half = capture.head(0, 0, "q"), capture.head(0, 0, "k")
    assert np.array_equal(wide.read(dtype="float32").vectors, x.astype(np.float32))
    assert half.read(dtype="float64").vectors.dtype == np.float64 and wide.read("position", dtype="float32").vectors is None
    with pytest.raises(qk.ArgumentError, match="dtype is 'float16'; wanted is 'float32', 'float64' or None"):
        wide.blocks(dtype="float16")
    made = qk.write_capture(tmp_path / "copy", ((h.name, h.blocks(20, dtype="float32")) for h in [wide]))
    assert np.array_equal(made.heads[0].read().vectors, x.astype(np.float32))


def test_a_capture_by_with_and_heads_by_whole_numbers(made):
    with qk.open(made["heads"]) as capture:
        head = capture.heads[0]
        for wrong in ((float(head.layer), head.head), (head.layer, float(head.head)), (str(head.layer), head.head)):
            with pytest.raises(qk.ArgumentError, match="(layer|head) is .*; wanted is a whole number"):
                capture.head(*wrong, head.kind)
        assert capture.head(np.int64(head.layer), np.int32(head.head), head.kind) is head
    assert len(head.read()) == head.rows


def test_nothing_is_copied_and_nothing_is_reused(made, monkeypatch):
    """Arrays lie where the library has put the numbers, and stay as they are behind the next block and the end."""
    seen = []

    def spy(rows, block, take=captures._take):
        addresses = {name: int(captures.ffi.cast("uintptr_t", getattr(block, "f32" if name == "vectors" else name)))
                     for name in captures.COLUMNS}
        seen.append((addresses, take(rows, block)))
        return seen[-1][1]
    monkeypatch.setattr(captures, "_take", spy)
    head = qk.open(made["packed"].path).head(1, 2, "q")
    right = by_pyarrow(head)
    kept = [{name: getattr(block, name) for name in captures.COLUMNS} for block in head.blocks(50)]
    assert len(seen) == len(kept) == 13
    for (addresses, _), arrays in zip(seen, kept):
        for name, array in arrays.items():
            assert array.__array_interface__["data"][0] == addresses[name] and not array.flags.owndata
            assert array.flags.writeable and array.flags.c_contiguous
    columns = [arrays["vectors"][:, 3] for arrays in kept]  # a view of a view
    del head, seen, kept, arrays, array
    gc.collect()
    junk = [np.full((50, 24), np.nan, np.float32) for _ in range(100)]
    assert np.array_equal(np.concatenate(columns), right["vectors"][:, 3]) and len(junk) == 100


def test_a_copy_is_numpy_s_own(made):
    block = made["heads"].heads[0].read()
    copied = block.copy()
    assert copied.vectors.flags.owndata and copied.window.flags.owndata and len(copied) == 630
    block.vectors[:] = 0
    assert not np.array_equal(copied.vectors, block.vectors)
    assert repr(copied) == "<Block: 630 rows from 0, vectors, position, bucket, example, window>"


def test_columns_and_limits(made):
    head = made["packed"].head(0, 3, "q")
    right = by_pyarrow(head)
    for columns in ("position, vectors", ["position", "vectors", "position"]):
        block = head.read(columns, limit=70)
        check(block, {name: right[name] for name in ("position", "vectors")}, slice(70))
        assert (block.bucket, block.example, block.window) == (None, None, None)
    assert [len(b) for b in head.blocks(40, "window", 100)] == [40, 40, 20]
    assert len(head.read("bucket").bucket) == 630 and head.read("bucket").vectors is None
    for options, words in ((dict(columns="vector"), "'vector' is none of vectors, position"),
                           (dict(columns=[]), "empty"),
                           (dict(rows=0), "rows is 0"), (dict(limit=0), "limit is 0"), (dict(limit=-3), "limit is -3")):
        with pytest.raises(qk.ArgumentError, match=words):
            head.blocks(**options)


def test_threads_read_side_by_side(made):
    heads = [head for capture in made.values() for head in capture.heads]
    right = [by_pyarrow(head) for head in heads]
    with ThreadPoolExecutor(4) as pool:
        for block, columns in zip(pool.map(lambda head: head.read(), heads * 4), right * 4):
            check(block, columns)


# ---- captures ------------------------------------------------------------------------------

def test_which_of_several(made, tmp_path):
    for name in ("step-1", "step-2"):
        shutil.copytree(made["heads"].path, tmp_path / "run" / name)
    with pytest.raises(qk.DataError, match="run/step-1, run/step-2"):
        qk.open(tmp_path)
    capture = qk.open(tmp_path, split="run/step-2")
    assert (capture.path, capture.prefix) == (str(tmp_path / "run" / "step-2"), "run/step-2")
    assert qk.open(capture).path == capture.path and os.fspath(capture) == capture.path
    assert [head.name for head in qk.open(tmp_path / "run" / "step-1" / "l00h01k").heads] == ["l00h01k"]
    with pytest.raises(FileNotFoundError, match="step-3"):
        qk.open(tmp_path, split="run/step-3")
    with pytest.raises(FileNotFoundError, match="nothing here"):
        qk.open(tmp_path / "nothing here")
    with pytest.raises(TypeError):
        qk.open(3)


def test_what_capture_json_says(made, tmp_path):
    model = qk.Model("a model", 3, 4, 2, 8, frequencies=[[1.0, 0.5], None, [1.0, 0.25]], rope_interleaved=True,
                     q_heads=[[True] * 4, [False] * 4, [True] * 4], k_heads=[[True] * 2, [False] * 2, [True] * 2])
    with qk.Sink(tmp_path / "both", stage="both", keep="moments,reservoir=2", model=model, texts=2) as sink:
        for number in range(2):
            with sink.text(number, 30):
                for layer, kind, heads in ((0, "q", 4), (0, "k", 2), (2, "q", 4), (2, "k", 2)):
                    for before in (False, True):
                        sink.put(number, layer, kind, np.random.default_rng(layer).normal(size=(heads, 30, 8))
                                 .astype(np.float32), before_rope=before)
    with pytest.raises(qk.DataError, match="post, pre"):
        qk.open(tmp_path / "both")
    capture = qk.open(tmp_path / "both" / "pre")
    told = json.loads((tmp_path / "both" / "pre" / "capture.json").read_text())
    assert capture.info == qk.CaptureInfo(
        model="a model", q_per_kv_group=2, num_layers=3, complete=True, has_manifest=True,
        num_texts=capture.info.num_texts, num_windows=capture.info.num_windows, stage="pre", rope_interleaved=True,
        kept="reservoir", reservoir=2, has_moments=True, groups=told["keep"]["groups"], first=0,
        has_attention=False, attention_scale=0)
    after = qk.open(tmp_path / "both" / "post")
    assert after.info.stage == "post" and after.rope_frequencies(2) == (1.0, 0.25) and after.rope_frequencies(1) == ()
    head = capture.head(2, 3, "q")
    assert (head.summed, head.rows, head.missing) == (60, 2 * 2, False)
    assert head.moments.endswith("moments/l02.safetensors")
    shutil.copytree(EXAMPLE / "l00h00q", tmp_path / "bare" / "l00h00q")
    bare = qk.open(tmp_path / "bare").info
    assert not bare.has_manifest and bare.complete and bare.model == "" and bare.stage is None


def test_moments_without_rows(tmp_path):
    with qk.Sink(tmp_path / "a", keep="moments", model=qk.Model("m", 1, 1, 1, 4), texts=1) as sink, sink.text(0, 9):
        for kind in "qk":
            sink.put(0, 0, kind, np.ones((1, 9, 4), np.float32))
    head = qk.open(tmp_path / "a").head(0, 0, "k")
    assert (head.rows, head.dim, head.summed, head.files) == (0, 0, 9, ())
    with pytest.raises(qk.NotFoundError, match="keeps moments and no rows"):
        head.blocks()


def test_heads_that_are_gone_or_damaged(made, tmp_path):
    shutil.copytree(made["heads"].path, tmp_path / "a")
    shutil.rmtree(tmp_path / "a" / "l00h01q")
    path = tmp_path / "a" / "l01h00k" / "data.parquet"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0x40
    path.write_bytes(data)
    capture = qk.open(tmp_path / "a")
    assert [head.name for head in capture.heads if head.missing] == ["l00h01q"]
    with pytest.raises(FileNotFoundError, match="l00h01q.*capture.json lists"):
        capture.head(0, 1, "q").read()
    with pytest.raises(qk.DataError, match="l01h00k/data.parquet"):
        capture.head(1, 0, "k").read()
    check(capture.head(1, 1, "k").read(), by_pyarrow(made["heads"].head(1, 1, "k")))
    with pytest.raises(qk.NotFoundError, match="those of this layer and kind are 0, 1$"):
        capture.head(1, 2, "k")
    with pytest.raises(qk.NotFoundError, match="layers with heads of this kind are 0, 1$"):
        capture.head(2, 0, "k")
    with pytest.raises(qk.ArgumentError, match="kind is 'v'"):
        capture.head(0, 0, "v")
    found = qk.inspect(tmp_path / "a")
    assert found.num_missing == 1 and "l00h01q" in [head.name for head in found.heads if head.error]
    (tmp_path / "a" / "capture.json").write_text('{"heads": ')
    with pytest.raises(qk.DataError, match="capture.json"):
        qk.open(tmp_path / "a")


@pytest.mark.parametrize("way", ["heads", "packed"])
def test_inspect_says_what_the_command_says(qkscope, made, way):
    right = qkscope("inspect", made[way].path, "--json", expect=0)
    right = json.loads(right.out)
    found = qk.inspect(made[way], q_per_kv_group=None)
    assert (found.rows, found.bytes, found.num_files, found.packed) == tuple(
        right[name] for name in ("rows", "bytes", "files", "packed"))
    assert (found.model, found.dim, found.num_examples) == tuple(right[name] for name in ("model", "dim", "examples"))
    for name in ("buckets", "windows", "positions"):
        assert list(getattr(found, name)) == right[name]
    assert (found.group_size, found.group_source, found.group_consistent) == (2, "capture.json", True)
    for head, one in zip(found.heads, right["heads"], strict=True):
        same = ("name", "layer", "head", "kind", "files", "bytes", "rows", "dim", "row_groups", "codec", "float64",
                "created_by")
        assert {name: getattr(head, name) for name in same} == {name: one[name] for name in same}
        for name in ("positions", "buckets", "windows", "encodings"):
            assert list(getattr(head, name)) == one[name]
        assert len(head.examples) == one["examples"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        qk.inspect("nowhere")


def test_without_numpy(made):
    """The package needs none, but to hand out rows, and says so."""
    code = f"""
import sys
sys.modules["numpy"] = None
import qkscope
capture = qkscope.open({made["heads"].path!r})
print(len(capture.heads), capture.heads[0].rows)
for read in (capture.heads[0].blocks, capture.heads[0].read):
    try:
        read()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(BUILD / "python")},
                          capture_output=True, text=True, timeout=300)
    words = "rows are NumPy arrays here, and there is no NumPy: pip install numpy\n"
    assert done.stdout == "12 630\n" + 2 * words, done
