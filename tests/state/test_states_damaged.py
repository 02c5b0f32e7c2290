# SPDX-License-Identifier: Apache-2.0
"""Captures of moments that are damaged, or contradict themselves: refused by name."""
import json
import math
import re
import shutil

import numpy as np
import pytest
from conftest import EXAMPLE, read_csv, read_json

make_state = pytest.importorskip("make_state")
from test_states import synthetic  # noqa: E402

# Three layers of two queries and a key; 20 texts in 4 buckets.
LAYERS, DIM, TEXTS, ROWS = 3, 8, 20, 50


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    capture = synthetic(folder / "capture", 1, layers=LAYERS, group=2, dim=DIM, texts=TEXTS, rows=ROWS, buckets=4, window=0,
                        mean=0)
    make_state.make_state(capture, folder / "state")
    make_state.make_state(capture, folder / "reservoir", reservoir=4)
    return folder


@pytest.fixture
def state(made, tmp_path):
    return shutil.copytree(made / "state", tmp_path / "copy")


@pytest.fixture
def reservoir(made, tmp_path):
    return shutil.copytree(made / "reservoir", tmp_path / "copy")


def rewrite(path, change, metadata=None):
    """The file with its arrays changed by change(arrays)."""
    from safetensors import safe_open
    from safetensors.numpy import save_file
    with safe_open(path, "np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        facts = file.metadata()
    save_file(change(arrays) or arrays, path, metadata=facts | (metadata or {}))


def without_head(arrays):
    """Without query head 1."""
    for name, value in arrays.items():
        if name.startswith("q.") and value.ndim and name[2:] not in ("group", "mask", "bucket"):
            axis = 0 if name[2:] in ("heads", "texts", "positions") else 1
            arrays[name] = np.delete(value, 1, axis=axis)


def count_more(arrays):
    arrays["k.count"][0, 0] += 1


def not_finite(arrays):
    arrays["q.sum_xx"][3, 1, 0] = math.nan


BROKEN = {
    "missing": (lambda f: f.unlink(), 2, "3 of the 9 heads that capture.json lists are not there: l01h00q, l01h00k"),
    "empty": (lambda f: f.write_bytes(b""), 2, "l01.safetensors"),
    "truncated": (lambda f: f.write_bytes(f.read_bytes()[:-1]), 2, "l01.safetensors"),
    "foreign": (lambda f: f.write_bytes((EXAMPLE / "l00h00q" / "data.parquet").read_bytes()), 2, "l01.safetensors"),
    "newer": (lambda f: rewrite(f, lambda a: None, {"format": "qkscope moments 3"}), 2, "l01.safetensors"),
    "other layer": (lambda f: shutil.copy(f.with_name("l00.safetensors"), f), 2, "holds the moments of layer 0"),
    "without a head": (lambda f: rewrite(f, without_head), 1, "has no moments of l01h01q, which capture.json lists"),
    "other count": (lambda f: rewrite(f, count_more), 2, "rows of l01h00k, and capture.json lists"),
    "not finite": (lambda f: rewrite(f, not_finite), 1, "l01.safetensors"),
}


@pytest.mark.cases(9)
@pytest.mark.parametrize("name", BROKEN)
def test_broken(qkscope, tmp_path, state, name):
    """The heads of which nothing is wrong have their numbers."""
    break_it, heads, message = BROKEN[name]
    break_it(state / "moments" / "l01.safetensors")
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=3)
    assert message in done.err
    run, = read_json(tmp_path / "out" / "manifest.json")["runs"]
    failed = {f["head"] for f in run["failures"]}
    assert len(failed) == heads and all(name.startswith("l01") for name in failed)
    rows = read_csv(tmp_path / "out" / "heads.csv")
    assert len(rows) == 2 * LAYERS - heads and {r["layer"] for r in rows} >= {0, 2}
    assert qkscope("inspect", state).code == 3


def edit(state, change):
    path = state / "capture.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


MANIFESTS = {
    "nothing kept": (lambda m: m["keep"].update(moments=False), 'rows are "none", and there are no moments'),
    "an empty reservoir": (lambda m: m["keep"].update(rows="reservoir"), 'rows are "reservoir", and the reservoir has 0 '),
    "a reservoir of nothing": (lambda m: m["keep"].update(reservoir=4), 'rows are "none", and the reservoir has 4 '),
    "a reservoir alone": (lambda m: m["keep"].update(rows="reservoir", reservoir=2, moments=False),
                          'rows are "reservoir", and there are no moments'),
    "an unknown word": (lambda m: m["keep"].update(rows="some"), "keep.rows"),
    "no object": (lambda m: m.update(keep="moments"), "keep"),
    "unfinished": (lambda m: m.update(complete=False), "of a finished capture"),
    "no heads": (lambda m: m.pop("heads"), "that lists its heads"),
    "newer": (lambda m: m.update(format_version=9), "format_version is 9"),
}


@pytest.mark.cases(9)
@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_that_contradicts(qkscope, tmp_path, state, name):
    change, message = MANIFESTS[name]
    edit(state, change)
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=1)
    assert message in done.err and "capture.json" in done.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("which", ["state", "reservoir"])
def test_moments_that_are_not_there(qkscope, tmp_path, request, which):
    """One layer's file, then all of them: named, with the remedy."""
    copy = request.getfixturevalue(which)
    (copy / "moments" / "l02.safetensors").unlink()
    done = qkscope("pca", copy, "-o", tmp_path / "out")
    assert done.code == 3 and "l02h00k" in done.err
    for command in (["inspect", copy], ["pca", copy, "-o", tmp_path / "other"] if which == "reservoir" else ["inspect", copy]):
        err = qkscope(*command, expect=3).err
        assert re.search(r"copy/moments/l02\.safetensors: not there, but capture\.json .*: fetch it again, or capture again", err)
    shutil.rmtree(copy / "moments")
    err = qkscope("pca", copy, "-o", tmp_path / "none", expect=1).err
    assert ("l00.safetensors: not there, but capture.json says that it is kept: fetch it again" if which == "reservoir"
            else "and no moments/l00.safetensors, though there is a capture.json: fetch what it lists") in err


def test_rows_of_another_dimension(qkscope, tmp_path, reservoir):
    rows = {h["name"]: h["rows"] for h in read_json(reservoir / "capture.json")["heads"]}
    other = synthetic(tmp_path / "other", 1, dim=16, texts=1, rows=rows["l02h00k"], group=2, window=0)
    shutil.copy(other / "l00h00k" / "data.parquet", reservoir / "l02h00k" / "data.parquet")
    for command in (["plasticity", reservoir, "-o", tmp_path / "out"], ["inspect", reservoir]):
        err = qkscope(*command, expect=3).err
        assert re.search(r"l02h00k/data\.parquet: \d+ rows of dimension 16 are no part of the \d+ of dimension 8 that "
                         r".*moments/l02\.safetensors has moments of: fetch both again, or capture again", err), err


def test_a_reservoir_that_is_said_to_be_larger(qkscope, tmp_path, reservoir):
    """Its buckets would all count as whole, and the sampling error as none."""
    edit(reservoir, lambda m: m["keep"].update(reservoir=5))
    err = qkscope("plasticity", reservoir, "-o", tmp_path / "out", expect=1).err
    assert re.search(r"l00h00k/data\.parquet: \d+ keys of text -?\d+ and its group are not here, though none of their buckets "
                     r"has 5, as many as keep\.reservoir in capture\.json says: fetch capture\.json again", err), err


def test_moments_that_capture_json_does_not_tell_of(qkscope, tmp_path, reservoir):
    edit(reservoir, lambda m: m.pop("keep"))
    err = qkscope("plasticity", reservoir, "-o", tmp_path / "out", expect=1).err
    assert 'there are moments beside the rows, and no capture.json that says so ("keep")' in err


def test_without_capture_json(qkscope, tmp_path, state):
    (state / "capture.json").unlink()
    assert "no capture.json" in qkscope("analyze", state, "-o", tmp_path / "out", expect=1).err


def test_rows_that_should_not_be_there(qkscope, tmp_path, made, state):
    shutil.copytree(made / "capture" / "l00h00q", state / "l00h00q")
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=1)
    assert "capture.json says that none are kept" in done.err


def swap_rows(reservoir, name, change):
    """Changes the Parquet file of a head by a function of its table."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    path = reservoir / name / "data.parquet"
    changed = change(pq.read_table(path), pa)
    pq.write_table(changed, path)
    edit(reservoir, lambda m: next(h for h in m["heads"] if h["name"] == name).update(rows=len(changed)))


def of_text(table, pa, text):
    i = table.column_names.index("example_id")
    return table.set_column(i, "example_id", pa.array([text] * len(table), table.schema.field(i).type))


@pytest.mark.cases(3)
@pytest.mark.parametrize("name, change, message, metrics", [
    ("l02h00k", lambda t, pa: pa.concat_tables([t] * 5), "are no part of the", 4),
    ("l02h00k", lambda t, pa: of_text(t, pa, TEXTS).slice(0, 100), f"more rows of text {TEXTS} and its group than", 4),
    ("l02h01q", lambda t, pa: t.filter(pa.array([b != 1 for b in t["bucket"].to_pylist()])), "other queries in bucket 1", 5),
], ids=["more than there were", "another text", "a bucket without its queries"])
def test_reservoir_that_contradicts(qkscope, tmp_path, reservoir, name, change, message, metrics):
    swap_rows(reservoir, name, change)
    done = qkscope("analyze", reservoir, "-o", tmp_path / "out", "--allow-repeats", expect=3)
    assert message in done.err and name in done.err
    assert len(read_csv(tmp_path / "out" / "head_metrics.csv")) == metrics


def test_intervals_of_rows_of_an_unknown_text(qkscope, tmp_path):
    """With buckets of its own a run does not ask how many keys of a text there were: these rows are of no group."""
    capture = synthetic(tmp_path / "capture", 1, layers=1, group=2, dim=DIM, texts=5, rows=200, buckets=8, window=0,
                        offset=0)
    made = make_state.make_state(capture, tmp_path / "made", reservoir=20)
    swap_rows(made, "l00h00k", lambda t, pa: of_text(t, pa, 77))
    done = qkscope("analyze", made, "-o", tmp_path / "out", "--ci", "95", "--buckets", "4", "--max-pairs", "500",
                   "--allow-repeats")
    assert done.code in (0, 3), done.err
    assert all(r["ap_overall"] for r in read_csv(tmp_path / "out" / "head_metrics.csv"))
