# SPDX-License-Identifier: Apache-2.0
"""Files of a head that are parts of several: a part that is missing, parts of two sets, rows in folders below."""
import shutil

import numpy as np
import pyarrow.parquet as pq
import pytest

from conftest import capture_table, last_run, read_csv, write_head

HEAD = "l00h00q"


def name(i, n, more=""):
    return f"data-{i:05d}-of-{n:05d}{more}.parquet"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two query heads on one key head, each in one file."""
    folder, random = tmp_path_factory.mktemp("whole") / "c", np.random.default_rng(7)
    for head in ("l00h00q", "l00h01q", "l00h00k"):
        position = np.tile(np.arange(60), 4)
        vectors = random.standard_normal((240, 4)) + position[:, None] * random.standard_normal(4) / 30
        write_head(folder, head, vectors.astype("f4"), position)
    return folder


@pytest.fixture
def split(whole, tmp_path):
    """split(names) -> a capture whose head HEAD has its rows in such files."""
    def split(names):
        folder = shutil.copytree(whole, tmp_path / "c")
        table = pq.ParquetFile(folder / HEAD / "data.parquet").read()
        (folder / HEAD / "data.parquet").unlink()
        bounds = np.linspace(0, len(table), len(names) + 1).astype(int)
        for file, begin, end in zip(names, bounds, bounds[1:]):
            pq.write_table(table.slice(begin, end - begin), folder / HEAD / file)
        return folder
    return split


@pytest.mark.cases(6)
@pytest.mark.parametrize("names", [
    [name(i, 3) for i in range(3)], [name(i, 3) for i in (1, 2, 3)], [name(0, 1)],
    [name(0, 2, "-0a9f"), name(1, 2, "-b74c")], ["a.parquet", "data-1.parquet", "x-of-3.parquet"],
    [name(i, 2) for i in range(2)] + [f"more-{i}-of-2.parquet" for i in (1, 2)] + ["z-1-of-12.parquet"]])
def test_whole_sets(qkscope, whole, split, tmp_path, names):
    qkscope("pca", whole, "-o", tmp_path / "a", expect=0)
    qkscope("pca", split(names), "-o", tmp_path / "b", expect=0)
    assert (tmp_path / "a" / "qk.csv").read_bytes() == (tmp_path / "b" / "qk.csv").read_bytes()


@pytest.mark.cases(9)
@pytest.mark.parametrize("names, said", [
    ([name(0, 3), name(2, 3)], name(1, 3)), ([name(0, 3), name(1, 3)], name(2, 3)), ([name(1, 3), name(2, 3)], name(0, 3)),
    ([name(2, 3), name(3, 3)], name(1, 3)), ([name(1, 3), name(3, 3)], name(2, 3)), ([name(7, 8, "-0a9f")], name(1, 8)),
    ([name(i, 3) for i in range(3)] + [name(i, 2) for i in range(2)], "two sets"),
    ([name(i, 3) for i in range(4)], "two sets"), ([name(1, 3, "-0a"), name(1, 3, "-b7")], "two sets")])
def test_a_head_whose_parts_are_not_whole_fails(qkscope, split, tmp_path, names, said):
    """And the other has its numbers."""
    capture = split(names)
    told = qkscope("pca", capture, "-o", tmp_path / "r", expect=3).err
    assert f"{capture}/{HEAD}/" in told and said in told
    assert [f["head"] for f in last_run(tmp_path / "r")["failures"]] == [HEAD]
    assert {row["q_head"] for row in read_csv(tmp_path / "r" / "qk.csv")} == {1}
    assert said in qkscope("inspect", capture, expect=3).err
    assert said in qkscope("inspect", capture / HEAD, expect=1).err


@pytest.mark.cases(4)
@pytest.mark.parametrize("below, lost", [("old", True), ("a/b", True), ("split=train", True), (".cache", False)])
def test_rows_in_folders_of_a_head(qkscope, whole, tmp_path, below, lost):
    capture = shutil.copytree(whole, tmp_path / "c")
    (capture / HEAD / "notes").mkdir()
    (capture / HEAD / "notes" / "x.txt").write_text("text")
    qkscope("pca", capture, "-o", tmp_path / "a", expect=0)
    (capture / HEAD / below).mkdir(parents=True)
    shutil.copy(capture / HEAD / "data.parquet", capture / HEAD / below)
    if below == "split=train":  # there and nowhere else
        (capture / HEAD / "data.parquet").unlink()
    told = qkscope("pca", capture, "-o", tmp_path / "r", expect=3 if lost else 0).err
    assert (f"{capture}/{HEAD}/{below}/data.parquet: " in told) == lost


def test_parts_of_packed_files(qkscope, tmp_path):
    """Rows of all heads lie in each part, so that all of the layer fail."""
    import pyarrow as pa
    random, capture = np.random.default_rng(1), tmp_path / "c"
    for kind in "qk":
        table = capture_table(random.standard_normal((80, 4)).astype("f4"), np.arange(80))
        table = table.add_column(0, "head", pa.array(np.zeros(80), pa.int32()))
        (capture / f"l00{kind}").mkdir(parents=True)
        for i in range(2):
            pq.write_table(table.slice(40 * i, 40), capture / f"l00{kind}" / name(i, 2))
    qkscope("pca", capture, "-o", tmp_path / "a", expect=0)
    (capture / "l00q" / name(1, 2)).unlink()
    assert f"l00q/{name(1, 2)}" in qkscope("pca", capture, "-o", tmp_path / "b", expect=1).err
