# SPDX-License-Identifier: Apache-2.0
"""The sink from Python gives the bytes that the same vectors give in C."""
import multiprocessing
import os

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from py_feeding import (CAPTURED, Tensor, about, all_vectors, bfloat16, feed, files_of, parts,  # noqa: E402
                        put_text, put_texts, py_feed, sink, tokens_of)

KEPT = {
    "rows": dict(keep="rows"),
    "some rows": dict(keep="rows", sampler="uniform", rate=20, strings=1, stage="both", tokens=1),
    "packed rows": dict(keep="rows", layout="packed", sampler="uniform", rate=20, max_rows=9),
    "rows and moments": dict(keep="rows,moments", stage="both", max_rows=600),
    "reservoir": dict(keep="moments,reservoir=3", groups=0, stage="pre", seed=7, tokens=1),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """whole(name) -> the files of the capture that feed.c makes."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("whole") / "capture"
            assert feed(folder, **KEPT[name])["complete"]
            made[name] = files_of(folder)
        return made[name]
    return make


@pytest.mark.cases(len(KEPT))
@pytest.mark.parametrize("name", KEPT)
def test_the_bytes_of_a_program_in_c(whole, tmp_path, name):
    outcome = py_feed(qk, tmp_path / "a", **KEPT[name])
    assert outcome.complete and outcome.blocks == outcome.blocks_there and outcome.texts_there == 8
    assert files_of(tmp_path / "a") == whole(name)
    assert outcome.bytes == sum(len(data) for file, data in whole(name).items()
                                if file.endswith((".parquet", ".safetensors")))


# ---- however the vectors come --------------------------------------------------------------

def fields(x):
    """Part of records."""
    records = np.zeros(x.shape[:2], dtype=[("other", "f4", 3), ("x", "f4", x.shape[2])])
    records["x"] = x
    return records["x"]


WAYS = {
    "rows first": lambda x: np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2),
    "backwards": lambda x: np.ascontiguousarray(np.repeat(x, 3, 1)[::-1, ::-1])[::-1, ::-3],
    "records": fields,
    "read-only": lambda x: np.frombuffer(x.tobytes(), np.float32).reshape(x.shape),
    "memoryview": lambda x: memoryview(x.tobytes()).cast("f", x.shape) if x.size else x,
    "float16": lambda x: x.astype(np.float16),
    "DLPack": Tensor,
    "old DLPack": lambda x: Tensor(x, versioned=False, steps=None),
    "pinned": lambda x: Tensor(x, device=(3, 0)),
    "bfloat16": lambda x: Tensor(bfloat16(x), code=4),
    "bfloat16, rows first": lambda x: Tensor(bfloat16(x.transpose(1, 0, 2)).transpose(1, 0, 2), code=4),
}


@pytest.mark.cases(4)
@pytest.mark.parametrize("way", WAYS)
def test_the_same_bytes_of_whatever_array(whole, tmp_path, way):
    with sink(qk, tmp_path / "a", **KEPT["rows and moments"]) as s:
        put_texts(s, stage="both", change=WAYS[way])
    assert files_of(tmp_path / "a") == whole("rows and moments")


def test_only_positions_that_are_kept(whole, tmp_path):
    """What a device sends: known beforehand, nothing else."""
    options, sent = KEPT["some rows"], 0
    sampler = qk.Sampler("uniform", 20, 64)
    with sink(qk, tmp_path / "a", **options) as s:
        assert s.is_open and not s.complete and s.texts_before() == (0, 0) and 0 <= s.block(7) <= 7
        for number in range(8):
            with s.text(number, **about(number)):
                for layer, kind, before in parts("both"):
                    at = s.positions(number, layer, kind)
                    right = sampler.positions(about(number)["example_id"], layer, kind, tokens_of(number))
                    assert at.tolist() == (right.tolist() if CAPTURED[kind][layer] else [])
                    s.put(number, layer, kind, all_vectors(number, layer, kind, before)[:, at], positions=at,
                          before_rope=before)
                    sent += len(at)
    assert 0 < sent < 0.5 * sum(tokens_of(n) for n in range(8)) * len(parts("both"))
    assert files_of(tmp_path / "a") == whole("some rows")


# ---- several processes ---------------------------------------------------------------------

def shard_alone(folder, i, count, name):
    py_feed(qk, folder, shard=f"{i}/{count}", **KEPT[name])


@pytest.mark.test_all
def test_processes_of_spawn_and_one_folder(whole, tmp_path):
    context = multiprocessing.get_context("spawn")
    runs = [context.Process(target=shard_alone, args=(tmp_path / "a", i, 3, "packed rows")) for i in range(3)]
    for run in runs:
        run.start()
    for run in runs:
        run.join(600)
    assert [run.exitcode for run in runs] == [0, 0, 0]
    assert files_of(tmp_path / "a") == whole("packed rows")


def test_shards_in_folders_of_their_own_are_merged(whole, tmp_path):
    for i in (2, 0, 1):
        outcome = py_feed(qk, tmp_path / str(i), shard=(i, 3), **KEPT["rows and moments"])
        assert not outcome.complete and outcome.blocks_there < outcome.blocks == 4
    with pytest.warns(qk.QkscopeWarning, match="all: [1-3] of 4 blocks of texts are there: run the shards that are"):
        some = qk.merge([tmp_path / "2", tmp_path / "0"], tmp_path / "all", threads=None)
    assert not some.complete and not (tmp_path / "all" / "capture.json").exists()
    outcome = qk.merge(tmp_path / "1", tmp_path / "all")
    assert outcome.complete and outcome.blocks_there == 4 and files_of(tmp_path / "all") == whole("rows and moments")
    for inputs, words in (([], "nothing to merge"), (tmp_path / "nowhere", "no such folder")):
        with pytest.raises(qk.Error, match=words):
            qk.merge(inputs, tmp_path / "b")
    with pytest.raises(TypeError):
        qk.merge([3], tmp_path / "b")


def test_which_shard(monkeypatch):
    for variable in list(os.environ):
        if variable.startswith(("SLURM_", "OMPI_", "PMI", "RANK", "WORLD")):
            monkeypatch.delenv(variable)
    assert qk.find_shard() is None and qk.find_shard("none") is None and qk.find_shard("1/3") == (1, 3)
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert qk.find_shard() == (2, 4)
    with pytest.raises(qk.ArgumentError, match="4/4"):
        qk.find_shard("4/4")


def test_a_fork_does_not_write(tmp_path):
    s = sink(qk, tmp_path / "a")
    s.begin(0, **about(0))
    child = os.fork()
    if child == 0:
        try:
            s.put(0, 0, "q", all_vectors(0, 0, "q"))
        except qk.ArgumentError as error:
            os._exit(0 if "forked from it" in str(error) else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    put_text(s, 0)  # nothing happened to it
    s.text_done(0)
    s.close()
