# SPDX-License-Identifier: Apache-2.0
"""Packed captures: what other programs see in them, that every command takes them for what they
are, and files that are not what they should be."""
import json
import re
import shutil

import numpy as np
import pytest

from conftest import EXAMPLE, TIER, last_run, read_csv, synth

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SMALL = {"layers": 2, "query_heads": 6, "q_per_kv_group": 3, "dim": 16, "examples": 10, "rows": 120, "bucket_width": 16}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same capture in both layouts, each head in two row groups and a part of one."""
    folder = tmp_path_factory.mktemp("packed")
    for layout in ("heads", "packed"):
        synth(folder / layout, layout=layout, row_group_rows=500, token_strings=True, **SMALL)
    return folder / "heads", folder / "packed"


def tables(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".csv"}


def pack(source, target, edit=None, **options):
    """A layer's heads as pyarrow packs them: one call of write_table a head. edit(tables by head)
    changes them before."""
    kinds = sorted({(name[:3], name[-1]) for name in (p.name for p in source.iterdir() if p.is_dir())})
    for layer, kind in kinds:
        heads = {int(p.name[4:6]): pq.read_table(p / "data.parquet")
                 for p in sorted(source.glob(f"{layer}h*{kind}"))}
        heads = {head: table.append_column("head", pa.array([head] * len(table), pa.int32()))
                 for head, table in heads.items()}
        if edit:
            heads = edit(layer + kind, heads)
        folder = target / (layer + kind)
        folder.mkdir(parents=True)
        items = list(heads.items() if isinstance(heads, dict) else heads)
        with pq.ParquetWriter(folder / "data.parquet", items[0][1].schema, **options) as writer:
            for _, table in items:
                writer.write_table(table)
    return target


# ---- as others see them ----------------------------------------------------------------------

def test_statistics_tell_whose_a_row_group_is(pair):
    heads, packed = pair
    for folder, kind, count in (("l00q", "q", 6), ("l01k", "k", 2)):
        meta = pq.read_metadata(packed / folder / "data.parquet")
        assert meta.num_row_groups == 3 * count and meta.schema.column(0).name == "head"
        seen = []
        for g in range(meta.num_row_groups):
            stats = meta.row_group(g).column(0).statistics
            assert stats.min == stats.max and stats.null_count == 0
            seen.append((stats.min, meta.row_group(g).num_rows))
        assert seen == [(h, rows) for h in range(count) for rows in (500, 500, 200)]


def test_pyarrow_reads_the_same_rows(pair):
    heads, packed = pair
    for name in sorted(p.name for p in heads.iterdir() if p.is_dir()):
        own = pq.read_table(heads / name / "data.parquet")
        part = pq.read_table(packed / (name[:3] + name[-1]) / "data.parquet",
                             filters=[("head", "==", int(name[4:6]))])
        assert part.column_names == ["head", *own.column_names]
        assert part.drop_columns("head").equals(own)


@pytest.fixture(scope="module")
def written(pair, tmp_path_factory):
    """Of the same rows, by the library."""
    qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
    folder, heads = tmp_path_factory.mktemp("written"), qk.open(pair[0]).heads
    for layout in ("heads", "packed"):
        qk.write_capture(folder / layout, ((head.name, head.blocks()) for head in heads), layout=layout)
    return folder / "heads", folder / "packed"


def test_the_card_has_a_configuration_a_file(written):
    heads, packed = written
    text = (packed / "README.md").read_text()
    assert re.findall("config_name: (.*)", text) == ["l00q", "l00k", "l01q", "l01k"]
    assert re.findall("path: (.*)", text) == [f"l0{i}{k}/data.parquet" for i in (0, 1) for k in "qk"]
    manifest = json.loads((packed / "capture.json").read_text())
    plain = json.loads((heads / "capture.json").read_text())
    assert manifest.pop("layout") == "packed" and manifest == plain


@pytest.mark.test_all
def test_datasets_loads_it(written, tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = datasets.load_dataset(str(written[1]), "l01k", split="train", cache_dir=str(tmp_path))
    assert len(rows) == 2400 and sorted(set(rows["head"])) == [0, 1]


# ---- every command ---------------------------------------------------------------------------

@pytest.mark.parametrize("words", [
    ["pca", "--layers", "1", "--heads", "1,4"], ["plasticity", "--buckets", "5"], ["analyze", "--ci", "95"],
    ["analyze", "--max-samples", "700", "--threads", "5"]])
def test_tables_are_those_of_heads(qkscope, pair, tmp_path, words):
    outputs = []
    for i, capture in enumerate(pair):
        qkscope(words[0], capture, "-o", tmp_path / str(i), *words[1:], "--quiet", expect=0)
        outputs.append(tables(tmp_path / str(i)))
    assert outputs[0] and outputs[0] == outputs[1]


def test_shards(qkscope, tmp_path, shards=3):
    for layout in ("heads", "packed"):
        synth(tmp_path / layout, layout=layout, shards=shards, float32=True, **SMALL)
        qkscope("pca", tmp_path / layout, "-o", tmp_path / f"{layout}-out", "-q", expect=0)
    assert len(list((tmp_path / "packed" / "l00q").iterdir())) == shards
    assert tables(tmp_path / "heads-out") == tables(tmp_path / "packed-out")
    names = [i["file"] for i in last_run(tmp_path / "packed-out")["inputs"]]
    assert len(names) == len(set(names)) == 16 * shards


def test_the_example_packed_by_pyarrow(qkscope, tmp_path):
    """Vectors, integers and row groups as another program writes them, heads out of order."""
    def reverse(_, heads):
        return dict(reversed(heads.items()))
    pack(EXAMPLE, tmp_path / "c", reverse, compression="snappy", data_page_version="2.0")
    (tmp_path / "c" / "capture.json").write_bytes((EXAMPLE / "capture.json").read_bytes())
    for name, capture in (("own", EXAMPLE), ("packed", tmp_path / "c")):
        qkscope("analyze", capture, "-o", tmp_path / name, "-q", "--layers", "0", expect=0)
    assert tables(tmp_path / "own") == tables(tmp_path / "packed")


def test_inspect(qkscope, pair):
    seen = [json.loads(qkscope("inspect", c, "--json", expect=0).out) for c in pair]
    assert [(s["files"], s["packed"]) for s in seen] == [(16, False), (4, True)]
    for heads, packed in zip(*(s["heads"] for s in seen)):
        assert packed["row_groups"] == heads["row_groups"] == 3
        size = (heads.pop("bytes"), packed.pop("bytes"))
        assert 0.7 < size[1] / size[0] < 1.1 and heads == packed
    assert "4 files (packed)" in qkscope("inspect", pair[1], expect=0).out
    alone = json.loads(qkscope("inspect", pair[1] / "l01k", "--json", expect=0).out)
    assert [h["name"] for h in alone["heads"]] == ["l01h00k", "l01h01k"]


# ---- fingerprints ----------------------------------------------------------------------------

def test_inputs_are_parts_of_files(qkscope, pair, tmp_path):
    xxhash = pytest.importorskip("xxhash")
    packed = pair[1]
    qkscope("pca", packed, "-o", tmp_path, "--layers", "1", "--heads", "4", "-q", expect=0)
    inputs = {i["file"]: i for i in last_run(tmp_path)["inputs"]}
    assert list(inputs) == ["l01k/data.parquet#1", "l01q/data.parquet#4"]
    for name, entry in inputs.items():
        path, head = name.split("#")
        data = (packed / path).read_bytes()
        meta = pq.read_metadata(packed / path)
        spans = [(c.dictionary_page_offset or c.data_page_offset, c.total_compressed_size)
                 for g in range(meta.num_row_groups) for c in map(meta.row_group(g).column, range(meta.num_columns))
                 if meta.row_group(g).column(0).statistics.min == int(head)]
        begin, end = min(a for a, _ in spans), max(a + n for a, n in spans)
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        assert entry["bytes"] == end - begin
        assert entry["xxh3_128"] == xxhash.xxh3_128_hexdigest(data[begin:end] + data[footer:])


def test_results_of_another_capture_are_refused(qkscope, pair, tmp_path):
    _, packed = pair
    qkscope("pca", packed, "-o", tmp_path / "out", "-q", expect=0)
    qkscope("rotate", packed, "-o", tmp_path / "out", "-q", expect=0)
    synth(tmp_path / "other", layout="packed", seed=2, row_group_rows=500, **SMALL)
    refused = qkscope("rotate", tmp_path / "other", "-o", tmp_path / "out", "-q")
    assert refused.code == 1 and "l00k/data.parquet#0" in refused.err or "l00q/data.parquet#0" in refused.err


# ---- files that are not what they should be --------------------------------------------------

@pytest.fixture
def copy(pair, tmp_path):
    return shutil.copytree(pair[1], tmp_path / "copy")


def edited(pair, tmp_path, edit, manifest=True, **options):
    """The packed capture with l01q written by pyarrow from tables that were changed."""
    heads, packed = pair
    target = shutil.copytree(packed, tmp_path / "edited")
    for name in ("l00q", "l00k", "l01k", "l01q"):
        shutil.rmtree(target / name)
    pack(heads, target, lambda name, t: edit(t) if name == "l01q" else t, **options)
    if not manifest:
        (target / "capture.json").unlink()
    return target


def expect_failing_layer(qkscope, capture, *words):
    """The six heads of l01q fail, each for this reason; the rest is analysed."""
    outcome = qkscope("pca", capture, "-o", capture.parent / "out", expect=3)
    assert "6 of 12 heads have no numbers" in outcome.err
    for word in words:
        assert word in outcome.err, outcome.err
    assert {row["layer"] for row in read_csv(capture.parent / "out" / "heads.csv")} == {0}
    inspected = qkscope("inspect", capture, expect=3)
    assert inspected.err.count(words[0]) == 1 and "6 of 16 heads cannot be read" in inspected.err
    (capture / "capture.json").unlink()
    alone = qkscope("pca", capture, "-o", capture.parent / "out2")
    assert alone.code == 1 and words[0] in alone.err


def with_heads(table, heads, type=pa.int32()):
    return table.set_column(table.column_names.index("head"), "head", pa.array(heads, type))


def test_statistics_may_be_missing(qkscope, pair, tmp_path):
    """Then the column is read, of 64 bits, too."""
    capture = edited(pair, tmp_path, lambda heads: {h: with_heads(t, [h] * len(t), pa.int64()) for h, t in heads.items()},
                     write_statistics=False)
    for i, c in enumerate((pair[1], capture)):
        qkscope("pca", c, "-o", tmp_path / str(i), "-q", expect=0)
    assert tables(tmp_path / "0") == tables(tmp_path / "1")


@pytest.mark.cases(3)
@pytest.mark.parametrize("heads, type, word", [
    ([None], pa.int32(), "rows are null"), ([-3], pa.int32(), "-3 is no number of a head"),
    ([70000], pa.int32(), "70000 is no number of a head"), ([2.0], pa.float32(), "expected INT32 or INT64, found FLOAT"),
    (["2"], pa.string(), "expected INT32 or INT64, found BYTE_ARRAY"),
    ([[2]], pa.list_(pa.int32()), "column 'head'")])
def test_wrong_numbers_of_heads(qkscope, pair, tmp_path, heads, type, word):
    def spoil(tables):
        return {h: with_heads(t, heads * len(t) if h == 2 or type != pa.int32() else [h] * len(t), type)
                for h, t in tables.items()}
    expect_failing_layer(qkscope, edited(pair, tmp_path, spoil), "l01q/data.parquet", word)


def test_a_head_in_two_folders(qkscope, pair, copy):
    shutil.copytree(pair[0] / "l01h03q", copy / "l01h03q")
    outcome = qkscope("pca", copy, "-o", copy.parent / "out", expect=1)
    assert "two places hold the same head" in outcome.err
    assert "l01q/data.parquet" in outcome.err and "l01h03q/data.parquet" in outcome.err


def test_heads_beside_packed_ones(qkscope, pair, copy, tmp_path):
    shutil.rmtree(copy / "l01q")
    for head in range(6):
        shutil.copytree(pair[0] / f"l01h{head:02d}q", copy / f"l01h{head:02d}q")
    for i, c in enumerate((pair[0], copy)):
        qkscope("pca", c, "-o", tmp_path / str(i), "-q", expect=0)
    assert tables(tmp_path / "0") == tables(tmp_path / "1")


MIXED = {
    "two heads": (lambda heads: {0: pa.concat_tables(heads.values())}, {}, ["heads 0 and 5 in one row group", "row groups of their own"]),
    "two, no statistics": (lambda heads: {0: pa.concat_tables(heads.values())}, {"write_statistics": False}, ["heads 0 and 1 in one row group"]),
    "some nulls": (lambda heads: {h: with_heads(t, [h if i % 7 else None for i in range(len(t))]) for h, t in heads.items()}, {}, ["are null"]),
    "no column": (lambda heads: {h: t.drop_columns("head") for h, t in heads.items()}, {}, ["no column 'head'"]),
    "two places": (lambda heads: [*heads.items(), (0, heads[0])], {}, ["row groups 0 and 6 hold head 0"])}


@pytest.mark.cases(5)
@pytest.mark.parametrize("kind", MIXED)
def test_heads_that_are_mixed(qkscope, pair, tmp_path, kind):
    edit, options, words = MIXED[kind]
    expect_failing_layer(qkscope, edited(pair, tmp_path, edit, **options), "l01q/data.parquet", *words)


@pytest.mark.parametrize("keep", [0.0, 0.999])
def test_truncated(qkscope, copy, keep):
    file = copy / "l01q" / "data.parquet"
    data = file.read_bytes()
    file.write_bytes(data[:int(len(data) * keep)])
    expect_failing_layer(qkscope, copy, "l01q/data.parquet", "not a Parquet file")


def test_damaged_rows_fail_one_head(qkscope, copy):
    file = copy / "l01q" / "data.parquet"
    data = bytearray(file.read_bytes())
    chunk = pq.read_metadata(file).row_group(3 * 4 + 1).column(4)  # head 4, vectors
    at = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[at:at + 8] = b"\xff" * 8
    file.write_bytes(data)
    outcome = qkscope("pca", copy, "-o", copy.parent / "out", expect=3)
    assert "l01h04q" in outcome.err and "row group 13" in outcome.err and "1 of 12 heads" in outcome.err


def test_statistics_that_lie(qkscope, pair, tmp_path):
    """The bytes of a footer changed: min and max of head 3 say 4, which is not there."""
    capture = edited(pair, tmp_path, lambda heads: {h: t for h, t in heads.items() if h != 4})
    file = capture / "l01q" / "data.parquet"
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    stats = b"\x03\x00\x00\x00"
    assert data.count(stats, footer) >= 2
    file.write_bytes(data[:footer] + data[footer:].replace(stats, b"\x04\x00\x00\x00"))
    outcome = qkscope("pca", capture, "-o", tmp_path / "out", expect=3)
    assert "l01h04q" in outcome.err and "a row of head 3 among those of head 4" in outcome.err


def test_a_missing_head_and_a_missing_file(qkscope, pair, tmp_path):
    capture = edited(pair, tmp_path, lambda heads: {h: t for h, t in heads.items() if h != 4})
    outcome = qkscope("pca", capture, "-o", tmp_path / "out", expect=3)
    assert "1 of the 16 heads that capture.json lists are not there: l01h04q" in outcome.err
    assert "l01q/data.parquet: there are no rows of head 4, but capture.json lists them" in outcome.err
    shutil.rmtree(capture / "l01q")
    outcome = qkscope("pca", capture, "-o", tmp_path / "out2", expect=3)
    assert "6 of the 16 heads" in outcome.err and "l01q/data.parquet" in outcome.err


def test_fewer_rows_than_listed(qkscope, pair, tmp_path):
    capture = edited(pair, tmp_path, lambda heads: {h: t.slice(0, 1000 if h == 1 else 1200) for h, t in heads.items()})
    outcome = qkscope("pca", capture, "-o", tmp_path / "out", expect=3)
    assert "1000 rows, but capture.json lists 1200" in outcome.err


def test_an_empty_head(qkscope, pair, tmp_path):
    """It has no row group; that capture.json lists it without rows makes it one that is there."""
    capture = edited(pair, tmp_path, lambda heads: {h: t for h, t in heads.items() if h != 4})
    manifest = json.loads((capture / "capture.json").read_text())
    for head in manifest["heads"]:
        if head["name"] == "l01h04q":
            head["rows"] = 0
    (capture / "capture.json").write_text(json.dumps(manifest))
    outcome = qkscope("pca", capture, "-o", tmp_path / "out", expect=3)
    assert "l01h04q" in outcome.err and "no rows" in outcome.err and "not there" not in outcome.err
    assert qkscope("inspect", capture).code == 0


def test_no_rows_at_all(qkscope, pair, tmp_path):
    (tmp_path / "c" / "l00q").mkdir(parents=True)
    table = pq.read_table(pair[1] / "l00q" / "data.parquet").slice(0, 0)
    pq.write_table(table, tmp_path / "c" / "l00q" / "data.parquet")
    outcome = qkscope("inspect", tmp_path / "c", expect=1)
    assert "no rows in its packed files" in outcome.err


def test_changed_bytes_of_a_footer(qkscope, copy):
    """Whatever it says then, the program goes on: heads are read, or fail."""
    rng = np.random.default_rng(8)
    file = copy / "l01q" / "data.parquet"
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for i in range(20 if TIER == "test" else 60):
        spoilt = bytearray(data)
        for at in rng.integers(footer, len(data) - 8, 1 + i % 3):
            spoilt[at] = rng.integers(256)
        file.write_bytes(spoilt)
        outcome = qkscope("inspect", copy)
        assert outcome.code in (0, 3), outcome.err
        assert (outcome.code == 0) == (not outcome.err)
