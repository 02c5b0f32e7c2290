# SPDX-License-Identifier: Apache-2.0
"""Captures written from Python: of arrays, block by block, in another layout, made up; whole or not at all."""
import array
import threading

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from conftest import EXAMPLE, read_json, read_rows  # noqa: E402
from py_feeding import Tensor, bfloat16, files_of, py_feed  # noqa: E402

CHANCE = np.random.default_rng(5)
X = (CHANCE.integers(-127, 127, (700, 12)) / 64).astype(np.float32)  # that bfloat16 and float16 have


def parquet(folder):
    return {name: data for name, data in files_of(folder).items() if name.endswith(".parquet")}


def copied(capture, blocks=True):
    """Pairs that write_capture takes."""
    return ((head.name, head.blocks(100) if blocks else head.read()) for head in capture.heads)


# ---- the bytes of others -------------------------------------------------------------------

@pytest.mark.parametrize("layout", ["heads", "packed"])
def test_the_bytes_of_the_sink(tmp_path, layout):
    """Rows that were read, written again, as dicts, blocks, or one after the other."""
    py_feed(qk, tmp_path / "sink", layout=layout, sampler="uniform", rate=30)
    capture = qk.open(tmp_path / "sink")
    told = read_json(tmp_path / "sink" / "capture.json")
    options = dict(model="made up", q_per_kv_group=2, num_layers=3, stage="post", layout=layout,
                   rope_frequencies={0: [1, 0], 2: [0.25]}, extra={"keep": told["keep"], "mine": [1, {"a": None}]})
    whole = {(h.layer, h.head, h.kind): vars(h.read()) for h in capture.heads}
    for rows in whole.values():
        rows.pop("first_row")
    ways = {"dicts": dict(reversed(whole.items())), "blocks": copied(capture), "at once": copied(capture, False),
            "names": {h.name: list(h.blocks(17)) for h in capture.heads}}
    right = parquet(tmp_path / "sink")
    for name, heads in ways.items():
        made = qk.write_capture(tmp_path / name, heads, **options)
        assert parquet(tmp_path / name) == right, name
        assert made.path == str(tmp_path / name) and len(made.heads) == len(capture.heads)
    written = read_json(tmp_path / "dicts" / "capture.json")
    same = ("format", "format_version", "model", "q_per_kv_group", "num_layers", "stage", "heads", "complete", "keep")
    assert {key: written[key] for key in same} == {key: told[key] for key in same}
    assert written["mine"] == [1, {"a": None}] and written.get("layout") == told.get("layout")
    assert (made.info.stage, made.info.num_layers, made.rope_frequencies(0)) == ("post", 3, (1.0, 0.0))
    assert [files_of(tmp_path / name) for name in ways] == [files_of(tmp_path / "dicts")] * len(ways)


def test_rows_of_what_was_copied(tmp_path):
    """A capture of another tool, of which Python has seen every number."""
    capture = qk.open(EXAMPLE)
    made = qk.write_capture(tmp_path / "copy", ((head.name, head.blocks(100)) for head in capture.heads[::7]))
    for head in made.heads:
        right, block = read_rows(EXAMPLE, head.name), read_rows(tmp_path / "copy", head.name)
        assert all(np.array_equal(block[name], right[name]) for name in right)


def test_into_the_other_layout(tmp_path):
    capture = qk.open(EXAMPLE)
    for name, layout in ("p", "packed"), ("b", "heads"):
        capture = qk.write_capture(tmp_path / name, ((head.name, head.blocks()) for head in capture.heads), layout=layout)
        assert len({head.files for head in capture.heads}) == (2 * capture.info.num_layers if layout == "packed" else len(capture.heads))
    assert all(np.array_equal(x.read().vectors, y.read().vectors)
               for x, y in zip(qk.open(EXAMPLE).heads, capture.heads, strict=True))


# ---- arrays --------------------------------------------------------------------------------

WAYS = {
    "float16": X.astype(np.float16),
    "bfloat16": Tensor(bfloat16(X), code=4),
    "a part of more": np.hstack([X, X])[:, :12],
    "two parts": [X[:123], dict(vectors=X[123:])],
    "a block": qk.Block(X, position=range(700), example=0, window=0),
    "all told": dict(vectors=X, position=array.array("q", range(700)), bucket=np.arange(700, dtype=np.int32) // 128,
                     example=[0] * 700, window=np.int16(0)),
}


@pytest.mark.cases(len(WAYS))
@pytest.mark.parametrize("way", WAYS)
def test_the_same_bytes_of_whatever_array(tmp_path, way):
    qk.write_capture(tmp_path / "right", {(0, 0, "k"): X})
    qk.write_capture(tmp_path / "a", {"l00h00k": WAYS[way]})
    assert files_of(tmp_path / "a") == files_of(tmp_path / "right")
    block = qk.open(tmp_path / "a").head(0, 0, "k").read()
    assert np.array_equal(block.vectors, X) and block.position.tolist() == list(range(700))
    assert block.bucket.tolist() == [t // 128 for t in range(700)]
    assert not block.example.any() and not block.window.any()


def test_columns_and_more_rows_than_are_taken_at_once(tmp_path):
    x = np.arange(150000 * 2, dtype=np.float32).reshape(-1, 2)
    at = CHANCE.integers(0, 10**9, len(x))
    rows = dict(vectors=Tensor(x.view(np.uint32).__rshift__(16).astype(np.uint16), code=4), position=at,
                example=-at, window=512)
    made = qk.write_capture(tmp_path / "a", {(1, 2, "q"): rows}, sampler=qk.Sampler("log_uniform", 1, 64))
    block = made.head(1, 2, "q").read()
    cut = (x.view(np.uint32) & 0xffff0000).view(np.float32)
    assert np.array_equal(block.vectors, cut) and np.array_equal(block.position, at)
    assert np.array_equal(block.example, -at) and (block.window == 512).all()
    assert np.array_equal(block.bucket, np.maximum(np.floor(np.log2(at + 1.0)), 6))


def test_a_head_without_rows(tmp_path):
    made = qk.write_capture(tmp_path / "a", {(0, 0, "q"): X[:0], (0, 0, "k"): X})
    block = made.head(0, 0, "q").read()
    assert (made.head(0, 0, "q").rows, len(block)) == (0, 0) and block.vectors.shape[0] == 0
    assert list(made.head(0, 0, "q").blocks()) == []


# ---- what is refused -----------------------------------------------------------------------

class Broken:
    """Rows whose source fails in the middle."""

    def __iter__(self):
        yield X
        raise RuntimeError("the source has gone")


class Frame:
    """Whose parts are names of columns, as those of pandas."""

    def __iter__(self):
        return iter(range(12))

    def to_numpy(self, dtype):
        return X.astype(dtype)


def one(rows, key=(0, 0, "q")):
    return {key: rows}


REFUSED = [
    ({}, qk.ArgumentError, "heads is empty"),
    ([X, X], qk.ArgumentError, r"heads is an iterable with a ndarray; wanted is a dict, or pairs \(head, rows\)"),
    (one(X, (0, 0, "v")), qk.ArgumentError, r"\(0, 0, 'v'\) is no head; wanted is \(layer, head, kind\)"),
    (one(X, "layer 3"), qk.ArgumentError, "'layer 3' is no head"),
    (one(X, (-1, 0, "q")), qk.ArgumentError, r"\(-1, 0, 'q'\) is no head"),
    ([((0, 0, "q"), X), ("l00h00q", X)], qk.ExistsError, "l00h00q is written already"),
    (one([]), qk.ArgumentError, "l00h00q has no rows: leave it out"),
    (one(7), qk.ArgumentError, r"l00h00q is a int; wanted is an array \[rows, d\]"),
    (one(dict(vector=X)), qk.ArgumentError, "unexpected keyword argument 'vector'; wanted are vectors, position"),
    (one(dict(position=[1])), qk.ArgumentError, "vectors of l00h00q is a NoneType"),
    (one([X, X[:, :11]]), qk.ArgumentError, r"of shape \[700, 11\]; wanted is \[rows, head_dim=12\]"),
    (one(X.astype(float)), qk.ArgumentError, "of dtype float64; wanted is float32, float16 or bfloat16"),
    (one(np.where(X == X[33, 3], np.nan, X).astype("f4")), qk.DataError, r"row \d+ has a number that is not finite"),
    (one(np.full((9, 12), np.inf, np.float16)), qk.DataError, "row 0 has a number that is not finite.*half precision"),
    (one(dict(vectors=X, position=range(699))), qk.ArgumentError, "position of l00h00q is 699 numbers for 700 vectors"),
    (one(dict(vectors=X, position=np.arange(700.0))), qk.ArgumentError, "position of l00h00q is an array .* float64"),
    (one(dict(vectors=X, position=range(-1, 699))), qk.ArgumentError,
     r"^position of l00h00q is -1 in row 0 of those given, which is below 0; wanted is 0 to 2\^31 - 1: count tokens"),
    (one(dict(vectors=X, position=range(2**31, 2**31 + 700), bucket=0)), qk.ArgumentError,
     "^position of l00h00q is 2147483648 in row 0 .* too large; wanted"),
    (one(dict(vectors=X, bucket=np.arange(700) - 1)), qk.ArgumentError, "bucket of l00h00q is -1 in row 0"),
    (one(np.ma.masked_array(X, mask=X > 1)), qk.ArgumentError,
     r"vectors of l00h00q is an array with masked numbers; wanted is one without a mask: .*filled\(0\)"),
    (one(dict(vectors=X, position=np.ma.masked_array(np.arange(700), mask=np.arange(700) == 5))), qk.ArgumentError,
     "position of l00h00q is an array with masked"),
    (one(Frame()), qk.ArgumentError, r"l00h00q is a Frame; wanted is .*: x\.to_numpy\(dtype='float32'\)"),
    ({(0, 0, "q"): X, (0, 0, "k"): X[:, :10]}, qk.ArgumentError,
     "vectors of l00h00(q is of 12 numbers; wanted is 10|k is of 10 numbers; wanted is 12), as those of l00h00[kq] have"),
    (one(Broken()), RuntimeError, "the source has gone"),
]


@pytest.mark.cases(len(REFUSED))
@pytest.mark.parametrize("heads, error, words", REFUSED)
def test_refused_and_nothing_is_left(tmp_path, heads, error, words):
    for layout in ("heads", "packed"):
        with pytest.raises(error, match=words) as raised:
            qk.write_capture(tmp_path / "a", heads, layout=layout)
        assert list(tmp_path.iterdir()) == [] and "%" not in str(raised.value)


NO_READER = [
    (dict(rope_frequencies=[1, 0, -1, 0]), r"not be readable: rope_frequencies\[2\]: expected a number from 0"),
    (dict(rope_frequencies={0: [-1.0]}), "expected a number from 0"),
    (dict(rope_frequencies=[1] * 7), "rope_frequencies is 7 numbers; wanted is 6 at most"),
    (dict(rope_frequencies={0: [1] * 7}), r"rope_frequencies\[0\] is 7 numbers; wanted is 6 at most"),
    (dict(extra={"rope_frequencies": "x"}), "capture.json would not be readable: rope_frequencies: expected a list"),
]


@pytest.mark.parametrize("options, words", NO_READER)
def test_what_no_reader_takes_replaces_nothing(tmp_path, options, words):
    qk.write_capture(tmp_path / "a", {(0, 0, "q"): X})
    before = files_of(tmp_path)
    with pytest.raises(qk.ArgumentError, match=words):
        qk.write_capture(tmp_path / "a", {(0, 0, "q"): X}, force=True, **options)
    assert files_of(tmp_path) == before and len(qk.open(tmp_path / "a").heads) == 1


def test_no_folder_is_not_the_current_one(tmp_path, monkeypatch):
    qk.write_capture(tmp_path, {(0, 0, "q"): X}, q_per_kv_group=None)
    before = files_of(tmp_path)
    monkeypatch.chdir(tmp_path)
    for make, words in ((lambda: qk.write_capture("", {(0, 0, "q"): X[:9]}, force=True), "folder is empty; wanted is"),
                        (lambda: qk.write_capture(".", {(0, 0, "q"): X[:9]}, force=True), "which this process works in"),
                        (lambda: qk.Sink("", model=qk.Model("m", 1, 1, 1, 12), texts=1, force=True), "no output folder")):
        with pytest.raises(qk.ArgumentError, match=words):
            make()
    assert files_of(tmp_path) == before
    assert qk.write_capture(b"b", {(0, 0, "q"): X}).path == "b"
    assert qk.write_capture("b", {(0, 0, "q"): X[:9]}, force=True).head(0, 0, "q").rows == 9


def test_keywords_that_are_refused(tmp_path):
    for options, words in ((dict(layout="flat"), "layout is 'flat'"), (dict(stage="both"), "stage is 'both'"),
                           (dict(model=3), "model is a int"), (dict(extra=[1]), "extra is a list"),
                           (dict(rope_frequencies=[float("nan")]), "capture.json is not JSON .*not JSON compliant"),
                           (dict(model="\ud800"), "model name is not valid UTF-8"),
                           (dict(extra={"model": "evil"}, model="good"), "extra is a dict with 'model'.*a keyword"),
                           (dict(extra={"stage": "pre-rope"}, stage="post"), "with 'stage'.*a keyword"),
                           (dict(num_layers=0), "num_layers is 0; wanted is at least 1, for l00h00q"),
                           (dict(sampler="uniform"), "sampler is 'uniform'; wanted is a qkscope.Sampler"),
                           *NO_READER):
        with pytest.raises(qk.ArgumentError, match=words):
            qk.write_capture(tmp_path / "a", {(0, 0, "q"): X}, **options)
    assert list(tmp_path.iterdir()) == []


def test_packed_heads_have_an_order(tmp_path):
    with pytest.raises(qk.ArgumentError, match="l00h00q|head 0|turn|order"):
        qk.write_capture(tmp_path / "a", [((0, 1, "q"), X), ((0, 0, "q"), X)], layout="packed")
    with pytest.raises(qk.ArgumentError):
        qk.write_capture(tmp_path / "a", [((0, 0, "q"), X), ((1, 0, "q"), X), ((0, 1, "q"), X)], layout="packed")
    assert list(tmp_path.iterdir()) == []
    qk.write_capture(tmp_path / "a", {(0, 1, "q"): X, (1, 0, "q"): X, (0, 0, "q"): X}, layout="packed")
    qk.write_capture(tmp_path / "b", [((0, 1, "q"), X), ((1, 0, "q"), X), ((0, 0, "q"), X)])


def test_a_place_that_is_taken(tmp_path):
    heads = {(0, 0, "q"): X}
    (tmp_path / "empty").mkdir()
    qk.write_capture(tmp_path / "empty", heads)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name, options, words in (("empty", {}, "force=True replaces a capture"), ("other", {}, "something is there"),
                                 ("other", dict(force=True), "no capture, which is all that force replaces"),
                                 ("file", dict(force=True), "something is there already")):
        with pytest.raises(FileExistsError, match=words):
            qk.write_capture(tmp_path / name, heads, **options)
    assert (tmp_path / "other" / "notes.txt").read_text() == (tmp_path / "file").read_text() == "mine"
    before = files_of(tmp_path / "empty")
    with pytest.raises(RuntimeError):
        qk.write_capture(tmp_path / "empty", {(0, 0, "q"): Broken()}, force=True)
    assert files_of(tmp_path / "empty") == before
    # its own rows, while it is read
    made = qk.write_capture(tmp_path / "empty", copied(qk.open(tmp_path / "empty")), layout="packed", force=True)
    assert np.array_equal(made.head(0, 0, "q").read().vectors, X)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "file", "other"]
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    qk.write_capture(tmp_path / "link", heads, force=True)
    assert (tmp_path / "link").is_symlink() and files_of(tmp_path / "empty") == before


def test_two_at_once_and_one_is_there(tmp_path):
    both, said = threading.Barrier(2), []

    def rows():
        yield X
        both.wait(300)

    def write(model):
        try:
            said.append(qk.write_capture(tmp_path / "a", {(0, 0, "q"): rows()}, model=model).info.model)
        except qk.ExistsError as error:
            said.append(error)
    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    [won] = [name for name in said if isinstance(name, str)]
    assert len(said) == 2 and qk.open(tmp_path / "a").info.model == won
    assert np.array_equal(qk.open(tmp_path / "a").head(0, 0, "q").read().vectors, X)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
