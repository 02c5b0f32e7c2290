# SPDX-License-Identifier: Apache-2.0
"""Whatever the order, the pieces, the threads, the types and the shards in which vectors come: the same bytes;
and they are the rows and the moments of what was put."""
import json
import random
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from conftest import ROOT, read_csv, read_rows
from feeding import (CAPTURED, FEED, HEADS, LAYERS, end, example_of, feed, files_of, start, tokens_of, vectors_at,
                     vectors_of)

sys.path += [str(ROOT / "tests" / "state"), str(ROOT / "tests" / "recorder")]
import make_state  # noqa: E402
from recording import killed  # noqa: E402

KEPT = {
    "rows": dict(keep="rows"),
    "some rows": dict(keep="rows", sampler="uniform", rate=20, strings=1, stage="both", tokens=1),
    "packed rows": dict(keep="rows", layout="packed", sampler="uniform", rate=20, max_rows=9),
    "moments": dict(keep="moments", texts=11, ids=1),
    "rows and moments": dict(keep="rows,moments", stage="both", max_rows=600, ids=1),
    "reservoir": dict(keep="moments,reservoir=3", groups=0, stage="pre", seed=7, tokens=1),
    "first": dict(keep="moments,first=4", texts=11, groups=3),
    "first and reservoir": dict(keep="moments,reservoir=2,first=1", stage="both", sampler="uniform", rate=20, texts=13, ids=1),
    "attention": dict(keep="rows,attention", texts=11, ids=1),
    "attention and moments": dict(keep="moments,attention", stage="both", groups=0, texts=5),
    "packed reservoir": dict(keep="moments,reservoir=2", layout="packed", groups=2, texts=19, ids=1, stage="both"),
}
WAYS = (dict(order=1, threads=1), dict(order=2, threads=4, type="bfloat16"), dict(order=3, threads=3, type="float16"),
        dict(order=4, threads=2, kept=1), dict(order=0, threads=2, type="float16", kept=1))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """whole(name) -> the capture of one process, text after text."""
    made = {}

    def make(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("whole") / "capture"
            assert feed(made[name], **KEPT[name])["complete"]
        return made[name]
    return make


# ---- the same bytes ----------------------------------------------------------------------------

@pytest.mark.cases(4)
@pytest.mark.parametrize("name", KEPT)
def test_any_order(whole, tmp_path, name):
    right = files_of(whole(name))
    for i, way in enumerate(WAYS):
        outcome = feed(tmp_path / str(i), **KEPT[name], **way)
        assert outcome["complete"] and files_of(tmp_path / str(i)) == right, way


@pytest.mark.parametrize("name", ["some rows", "moments", "first", "packed reservoir", "attention"])
@pytest.mark.parametrize("count", [2, 7])
def test_shards_in_any_order_and_at_once(whole, tmp_path, name, count):
    right = files_of(whole(name))
    order = random.Random(count).sample(range(count), count)
    one_by_one = [feed(tmp_path / "a", **KEPT[name], shard=f"{i}/{count}", order=i + 1, threads=2) for i in order]
    complete = [o["complete"] for o in one_by_one]
    assert complete[-1] and complete == sorted(complete)
    assert one_by_one[0]["blocks"] < count or complete == [False] * (count - 1) + [True]
    assert files_of(tmp_path / "a") == right
    runs = [start(tmp_path / "b", **KEPT[name], shard=f"{i}/{count}", order=i) for i in order]
    assert any([end(run)["complete"] for run in runs])
    assert files_of(tmp_path / "b") == right


def test_stopped_and_gone_on(whole, tmp_path):
    for name in ("rows and moments", "reservoir", "attention"):
        right = files_of(whole(name))
        for stop in (1, 5):
            folder = tmp_path / f"{name}{stop}"
            assert not feed(folder, **KEPT[name], stop=stop, order=stop)["complete"]
            assert not (folder / "capture.json").exists()
            assert feed(folder, **KEPT[name], order=9)["complete"]
            assert files_of(folder) == right


def test_a_block_is_made_again(whole, tmp_path):
    for gone in ("b000000", "b000001"):
        folder = tmp_path / gone
        feed(folder, **KEPT["moments"], stop=8)
        (folder / ".partial" / "units" / gone).unlink()
        assert feed(folder, **KEPT["moments"])["complete"]
        assert files_of(folder) == files_of(whole("moments"))


@pytest.mark.test_all
def test_killed_at_any_call(whole, tmp_path):
    """One of three shards; then the three again."""
    name, kills = "packed reservoir", 0
    words, right = [f"{key}={value}" for key, value in KEPT[name].items()], files_of(whole(name))
    for n in range(1, 999, 3):
        folder = tmp_path / str(n)
        others = [start(folder, **KEPT[name], shard=f"{k}/3", order=k + 1, threads=2) for k in (0, 2)]
        ended = killed(FEED, n, folder, *words, "shard=1/3", "order=2", "threads=2") is None
        for run in others:
            end(run)
        assert [feed(folder, **KEPT[name], shard=f"{k}/3")["complete"] for k in (2, 0, 1)][-1] and files_of(folder) == right
        if ended:
            break
        kills += 1
    assert kills > 3


# ---- what it is --------------------------------------------------------------------------------

def columns_of(layer, kind, head, before, texts=8):
    rows = {"vector": [], "position": [], "example_id": []}
    for text in range(texts):
        rows["vector"].append(vectors_of(text, layer, kind, head, before))
        rows["position"].append(np.arange(tokens_of(text)))
        rows["example_id"].append(np.full(tokens_of(text), example_of(text)))
    rows = {key: np.concatenate(values) for key, values in rows.items()}
    return {**rows, "bucket": rows["position"] // 64}


def check_rows(folder, before, choose=None):
    found = 0
    for kind in "qk":
        for layer in range(LAYERS):
            for head in range(HEADS[kind]):
                name = f"l{layer:02d}h{head:02d}{kind}"
                assert (folder / name).is_dir() == (head in CAPTURED[kind][layer])
                if not (folder / name).is_dir():
                    continue
                rows, right = read_rows(folder, name), columns_of(layer, kind, head, before)
                keep = slice(None) if choose is None else choose(right, kind)
                for column, values in right.items():
                    assert np.array_equal(rows[column], values[keep]), (name, column)
                assert set(rows["sliding_window"]) == {512 if layer == 1 else 0}
                found += len(rows["position"])
    return found


def test_rows_are_those_that_were_put(whole):
    found = check_rows(whole("rows"), before=False)
    manifest = json.loads((whole("rows") / "capture.json").read_text())
    assert manifest["model"] == "made up" and manifest["stage"] == "post-rope"
    assert manifest["keep"] == {"rows": "all", "reservoir": 0, "moments": False, "groups": 0}
    assert set(manifest["rope_frequencies"]) == {"0", "2"} and manifest["num_layers"] == LAYERS
    assert found == sum(map(tokens_of, range(8))) * 11
    lines = (whole("rows and moments") / "post" / "examples.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in lines[1:]] == [f"text {i}" for i in range(8)]
    lines = (whole("rows") / "examples.csv").read_text().splitlines()
    assert lines[1] == "-4000,text 0,,300,1,0,0,-4000," and len(lines) == 9


def test_a_reservoir_is_those_of_the_smallest_hashes(whole):
    def choose(rows, kind):
        h = make_state.hashes(rows["example_id"], kind, rows["position"], seed=7)
        keys = list(zip(rows["example_id"], rows["bucket"]))
        groups = {key: [i for i, k in enumerate(keys) if k == key] for key in set(keys)}
        return sorted(i for rows_of in groups.values() for i in sorted(rows_of, key=lambda i: h[i])[:3])
    found = check_rows(whole("reservoir"), before=True, choose=choose)
    assert found == 11 * sum(min(3, tokens_of(t) - at) for t in range(8) for at in range(0, tokens_of(t), 64))


def check_moments(folder, groups, columns, before=False):
    for layer in range(LAYERS):
        arrays, right = load_file(folder / "moments" / f"l{layer:02d}.safetensors"), {}
        for kind in "qk":
            if CAPTURED[kind][layer]:
                heads = {h: columns(layer, kind, h) for h in CAPTURED[kind][layer]}
                right |= make_state.layer_arrays(heads, kind, groups, pairs=6 if before and layer != 1 else 0)
        assert set(arrays) == set(right)
        for name, values in right.items():
            assert arrays[name].shape == values.shape and arrays[name].dtype == values.dtype, name
            if values.dtype == np.int64:
                assert np.array_equal(arrays[name], values), name
            else:  # sums cancel: compare with what was summed
                scale = np.abs(values).max(initial=0) + np.abs(values)
                assert (np.abs(arrays[name] - values) <= 1e-12 * scale).all(), name


def test_moments_are_those_of_the_rows(whole):
    def made(before, texts=8):
        return lambda layer, kind, head: columns_of(layer, kind, head, before, texts)
    check_moments(whole("moments"), 4, made(False, 11))
    check_moments(whole("reservoir"), 0, made(True), before=True)
    check_moments(whole("packed reservoir") / "pre", 2, made(True, 19), before=True)
    for stage in ("post", "pre"):  # its sampler keeps some rows
        folder = whole("rows and moments") / stage
        check_moments(folder, 4, lambda *head: read_rows(folder, "l{:02d}h{:02d}{}".format(head[0], head[2], head[1])),
                      before=stage == "pre")


def mean_of(rows):
    """The last of the sums is a maximum."""
    return np.append(rows.mean(0)[:-1], rows[:, -1].max())


def check_attention(folder, texts, groups):
    """Sums are the feeder's: by group of texts the mean over rows, by bin of positions that of the bin."""
    bins = [np.array([int(t).bit_length() for t in range(tokens_of(text))], int) for text in range(texts)]
    some = [text for text in range(texts) if len(bins[text])]
    assert sorted(p.name for p in (folder / "attention").iterdir()) == ["l00.safetensors", "l01.safetensors",
                                                                         "l02.safetensors"]
    for layer in range(LAYERS):
        arrays = load_file(folder / "attention" / f"l{layer:02d}.safetensors")
        heads = CAPTURED["q"][layer]
        assert list(arrays["q.heads"]) == heads and set(arrays["q.texts"]) == {len(some)}
        mask = int(arrays["q.mask"])
        label = {text: 0 if groups == 0 else example_of(text) & mask for text in some}
        assert [int(g) for g in arrays["q.group"]] == sorted(set(label.values()), key=lambda x: x % 2**64)
        assert 1 <= len(arrays["q.group"]) <= max(groups, 1)
        for i, head in enumerate(heads):
            # the value of a bin is the vector at the position of its number
            values = {text: np.stack([row_value(text, layer, head, b) for b in range(bins[text].max() + 1)])[bins[text]]
                      for text in some}
            for g, name in enumerate(arrays["q.group"]):
                rows = np.concatenate([values[t] for t in some if label[t] == int(name)])
                assert arrays["q.count"][g, i] == len(rows)
                assert np.abs(arrays["q.mean"][g, i] - mean_of(rows)).max() < 1e-12
            for b, number in enumerate(arrays["q.bucket"]):
                rows = np.concatenate([values[t][bins[t] == number] for t in some])
                assert arrays["q.bucket_count"][b, i] == len(rows)
                assert np.abs(arrays["q.bucket_mean"][b, i] - mean_of(rows)).max() < 1e-12


def row_value(text, layer, head, number):
    """What the feeder makes of 65 sums: those of a vector, over and over."""
    vector = vectors_at(text, layer, head, number)
    return np.tile(vector, 9)[:65]


def test_attention_is_summed_beside_moments(whole):
    check_attention(whole("attention"), 11, 4)
    check_attention(whole("attention and moments") / "post", 5, 0)
    assert not (whole("attention and moments") / "pre" / "attention").exists()
    manifest = json.loads((whole("attention") / "capture.json").read_text())
    assert manifest["keep"] == {"rows": "all", "reservoir": 0, "moments": False, "groups": 4, "attention": True}


def test_how_many_were_summed(whole):
    for name, texts in (("moments", 11), ("reservoir", 8)):
        manifest = json.loads((whole(name) / "capture.json").read_text())
        summed = sum(map(tokens_of, range(texts)))
        assert [head["summed"] for head in manifest["heads"]] == 11 * [summed]
        kept = manifest["keep"]
        assert kept["moments"] and kept["rows"] == ("none" if name == "moments" else "reservoir")


@pytest.mark.parametrize("name", ["some rows", "moments", "packed reservoir"])
def test_it_is_a_capture_like_any_other(whole, qkscope, tmp_path, name):
    folder = whole(name) / "post" if KEPT[name].get("stage") == "both" else whole(name)
    qkscope("inspect", folder, expect=0)
    said = qkscope("pca", folder, "-o", tmp_path / "out", expect=3).err
    assert "4 of 8 heads have no numbers" in said  # their keys are not captured
    assert {row["q_head"] for row in read_csv(tmp_path / "out" / "qk.csv")} == {0, 1, 2, 3}
