# SPDX-License-Identifier: Apache-2.0
"""Sums that whoever runs the model has made: the moments of the rows, whatever the order in which they come."""
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from safetensors.numpy import load_file  # noqa: E402

from py_feeding import (CAPTURED, DIM, HEADS, about, all_vectors, files_of, pairs_of, parts,  # noqa: E402
                        put_text_sums, py_feed, sink, sums_of, tokens_of)

KEPT = {
    "moments": dict(keep="moments", texts=11),
    "reservoir": dict(keep="moments,reservoir=3", groups=0, stage="both", seed=7, tokens=1),
    "sampled": dict(keep="moments,reservoir=2", sampler="log_uniform", rate=30, max_rows=300, groups=2, texts=19),
}


def sampler_of(options):
    return qk.Sampler(options.get("sampler", "all"), options.get("rate", 1.0), 64, options.get("max_rows", 0))


def feed_sums(folder, options, centred=True):
    sampler, stage = sampler_of(options), options.get("stage", "post")
    with sink(qk, folder, **options) as s:
        for number in filter(s.wants, range(options.get("texts", 8))):
            with s.text(number, **about(number)):
                put_text_sums(s, number, sampler, stage, centred)
    return s.outcome


def check_close(arrays, right, tolerance=1e-12):
    assert arrays.keys() == right.keys()
    for name, values in right.items():
        assert arrays[name].dtype == values.dtype and arrays[name].shape == values.shape
        scale = np.abs(values).max(initial=0)
        assert (np.abs(arrays[name] - values) <= (tolerance * scale if values.dtype == float else 0)).all(), name


@pytest.mark.cases(3)
@pytest.mark.parametrize("name, centred", [("moments", False), ("reservoir", True), ("sampled", True)])
def test_sums_are_those_of_the_rows(tmp_path, name, centred):
    rows, sums = py_feed(qk, tmp_path / "rows", **KEPT[name]), feed_sums(tmp_path / "sums", KEPT[name], centred)
    assert sums.complete and (sums.summed, sums.rows, sums.heads) == (rows.summed, rows.rows, rows.heads)
    left, right = files_of(tmp_path / "sums"), files_of(tmp_path / "rows")
    assert left.keys() == right.keys()
    moments = [file for file in left if file.endswith(".safetensors")]
    assert moments
    for file in left.keys() - moments:
        assert left[file] == right[file] or file.endswith((".json", ".md")), file
    for file in moments:
        check_close(load_file(tmp_path / "sums" / file), load_file(tmp_path / "rows" / file))


def test_far_from_zero(tmp_path):
    """Means a thousand times the spread, positions near a million: an origin saves the digits."""
    model = qk.Model("far", 1, 1, 1, 8)
    chance = np.random.default_rng(3)
    x = (1000 * chance.normal(size=8) + chance.normal(size=(1, 500, 8))).astype(np.float32)
    at, sampler = np.arange(500), qk.Sampler("all")
    for folder, centred in (("rows", None), ("sums", True), ("zero", False)):
        with qk.Sink(tmp_path / folder, keep="moments", model=model, texts=1) as s, s.text(0, 500):
            for kind in "qk":
                if centred is None:
                    s.put(0, 0, kind, x)
                else:
                    s.put_sums(0, 0, kind, **sums_of(sampler, at, x, kind, centred))
    rows, sums, zero = (load_file(tmp_path / f / "moments" / "l00.safetensors") for f in ("rows", "sums", "zero"))
    exact = x[0].astype(np.longdouble) - x[0].astype(np.longdouble).mean(0)
    for name, right in (("sum_xx", (exact.T @ exact)[np.triu_indices(8)]), ("sum_xt", exact.T @ (at - at.mean()))):
        errors = [float(np.abs(arrays["k." + name][0, 0] - right).max() / np.abs(right).max())
                  for arrays in (sums, rows, zero)]
        assert errors[0] < 1e-13 and errors[1] < 1e-11 and errors[2] < 1e-7, (name, errors)
        assert name == "sum_xt" or errors[0] < errors[2] / 100, errors


def pieces_of(number, options, chance):
    """(layer, kind, before, heads) in any order."""
    pieces = []
    for layer, kind, before in parts(options.get("stage", "post")):
        heads = chance.sample(range(HEADS[kind]), HEADS[kind])
        cut = chance.randint(0, len(heads))
        pieces += [(layer, kind, before, some) for some in (heads[:cut], heads[cut:]) if some]
    chance.shuffle(pieces)
    return pieces


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", ["reservoir", "sampled"])
def test_any_order_threads_and_shards(tmp_path, name):
    options, texts = KEPT[name], KEPT[name].get("texts", 8)
    feed_sums(tmp_path / "whole", options)
    chance, sampler = random.Random(4), sampler_of(options)

    def put(s, number, layer, kind, before, heads):
        at, stored = (np.asarray(f(number, layer, kind)) for f in (s.positions, s.stored_positions))
        x = all_vectors(number, layer, kind, before)[heads]
        if len(at):
            s.put_sums(number, layer, kind, heads=heads, before_rope=before,
                       **sums_of(sampler, at, x[:, at], kind, pairs=pairs_of(layer, kind, before)))
            s.put(number, layer, kind, x[:, stored], positions=stored, heads=heads, before_rope=before)

    def run(s, number):
        with ThreadPoolExecutor(3) as pool:
            for done in [pool.submit(put, s, number, *piece) for piece in pieces_of(number, options, chance)]:
                done.result()
        s.text_done(number)

    for i in (2, 0, 1):
        with sink(qk, tmp_path / "shards", shard=(i, 3), **options) as s, ThreadPoolExecutor(4) as pool:
            numbers = sorted(s.wanted(), key=lambda n: random.Random(s.block(n)).random())
            for number in numbers:  # texts of a block in their order
                s.begin(number, **about(number))
            for done in [pool.submit(run, s, n) for n in chance.sample(numbers, len(numbers))]:
                done.result()
    assert s.outcome.complete and files_of(tmp_path / "shards") == files_of(tmp_path / "whole")


def test_more_buckets_than_a_chunk_holds(tmp_path):
    """600 buckets: three chunks of the text."""
    model, x = qk.Model("long", 1, 2, 1, 4), np.random.default_rng(0).normal(size=(2, 1800, 4)).astype(np.float32)
    sampler = qk.Sampler("uniform", 3, 3)
    for by_sums in (False, True):
        with qk.Sink(tmp_path / f"{by_sums}", keep="moments", sampler=sampler, model=model, texts=2) as s:
            for number in range(2):
                with s.text(number, 1800 - number):
                    for kind, vectors in (("q", x + number), ("k", x[:1] - number)):
                        at = np.asarray(s.positions(number, 0, kind))
                        if by_sums:
                            s.put_sums(number, 0, kind, **sums_of(sampler, at, vectors[:, at], kind))
                        else:
                            s.put(number, 0, kind, vectors[:, :1800 - number])
    sums, rows = (load_file(tmp_path / name / "moments" / "l00.safetensors") for name in ("True", "False"))
    assert len(rows["q.bucket"]) == 600
    check_close(sums, rows)


# ---- misuse --------------------------------------------------------------------------------

def misuse(**changes):
    def put(s, x, sums):
        s.put_sums(0, 0, "q", **{**sums, **changes})
    return put


def of(sums, *heads):
    some = {name: value[list(heads)] if isinstance(value, np.ndarray) else value for name, value in sums.items()}
    return {"heads": heads, **some}


def twice(s, x, sums):
    s.put_sums(0, 0, "q", **sums)
    s.put_sums(0, 0, "q", **sums)


def head_twice(s, x, sums):
    s.put_sums(0, 0, "q", **of(sums, 2))
    s.put_sums(0, 0, "q", **of(sums, 2))


def rows_then_sums(s, x, sums):
    s.put(0, 0, "q", x[:, 17:18], first_position=17)
    s.put_sums(0, 0, "q", **sums)


def sums_then_rows(s, x, sums):
    s.put_sums(0, 0, "q", **sums)
    s.put(0, 0, "q", x)


def rows_between(s, x, sums):
    s.put_sums(0, 0, "q", **of(sums, 1))
    s.put(0, 0, "q", x[:, 7:8], first_position=7)


def heads_missing(s, x, sums):
    s.put_sums(0, 0, "q", **of(sums, 0, 3))
    s.text_done(0)


def too_small_squares(s, x, sums):
    s.put_sums(0, 0, "q", **{**sums, "sum_xx": sums["sum_xx"] * 0.5, "bucket_sum_xx": sums["bucket_sum_xx"] * 0.5,
                             "sum_x": sums["sum_x"] + 500, "bucket_sum_x": sums["bucket_sum_x"] + 100})


MISUSES = [
    (misuse(rows=299), "sums over 299 rows of text 0, of which 300 positions are kept"),
    (misuse(sum_x=np.zeros((4, DIM), np.float32)), "sum_x .* is of dtype float32; wanted is float64"),
    (misuse(sum_xx=np.zeros((4, DIM))), r"sum_xx .* is of shape \[4, 12\]; wanted is \[heads=4, head_dim=12, head_dim=12"),
    (misuse(bucket_sum_x=None), "bucket_sum_x is not given"),
    (misuse(bucket_sum_xt=np.zeros((4, 6, DIM))), r"bucket_sum_xt .* wanted is \[heads=4, buckets=5, head_dim=12\]"),
    (misuse(sum_x=np.zeros((DIM, 4)).T), "sum_x .* strides"),
    (misuse(sum_x=np.full((4, DIM), np.nan)), "layer 0, query head 0, text 0: its numbers are not the sums of any rows"),
    (misuse(sum_x=np.ones((4, DIM))), "query head 0, text 0: its sums by bucket do not add up"),
    (too_small_squares, "query head 0, text 0: its numbers are not the sums of any rows"),
    (twice, "layer 0: all query heads of text 0 came before"),
    (head_twice, "layer 0, query head 2: its sums of text 0 came twice"),
    (rows_between, "layer 0: the rows at position 7 of text 0 are in its sums"),
    (rows_then_sums, "rows of text 0 came before its sums"),
    (sums_then_rows, "layer 0, query head 0: the vector at position 0 of text 0 came twice"),
    (heads_missing, "layer 0: the sums of 2 of 4 heads of its queries in text 0 came"),
    (misuse(heads=[0, 1, 2, 4]), "head 4: the model has 4 of that kind"),
    (misuse(origin_t=np.inf), "origin_t is not finite"),
]


@pytest.mark.cases(len(MISUSES))
@pytest.mark.parametrize("function, words", MISUSES)
def test_misuse_is_named(tmp_path, function, words):
    options, sampler = KEPT["moments"], sampler_of({})
    x, at = all_vectors(0, 0, "q"), np.arange(tokens_of(0))
    with pytest.raises((qk.ArgumentError, qk.DataError), match=words):
        with sink(qk, tmp_path / "a", **options) as s:
            s.begin(0, **about(0))
            function(s, x, sums_of(sampler, at, x, "q", centred=False))
    assert not (tmp_path / "a" / "capture.json").exists()


@pytest.mark.parametrize("keep, words", [
    ("rows", "keeps rows"), ("rows,moments", "keeps both"),
    ("moments,first=4", "do not tell rows of positions below 4 apart, .* keep moments without first=4")])
def test_sums_where_rows_are_kept(tmp_path, keep, words):
    x, at = all_vectors(0, 0, "k"), np.arange(tokens_of(0))
    with pytest.raises(qk.ArgumentError, match=words), sink(qk, tmp_path / "a", keep=keep) as s:
        s.begin(0, **about(0))
        s.put_sums(0, 0, "k", **sums_of(qk.Sampler(), at, x, "k"))


def test_what_is_not_captured_is_passed_over(tmp_path):
    """Keys of layer 1, and two query heads of layer 2; a text without tokens."""
    with sink(qk, tmp_path / "a", keep="moments") as s:
        for number in range(8):
            with s.text(number, **about(number)):
                for layer, kind, _ in parts():
                    x = all_vectors(number, layer, kind)
                    at = np.arange(tokens_of(number))
                    if len(at) or not CAPTURED[kind][layer]:
                        sums = sums_of(qk.Sampler(min_bucket_size=64), at, x, kind) if len(at) else \
                            dict(rows=5, sum_x=np.zeros((2, DIM)), sum_xt=np.zeros((2, DIM)),
                                 sum_xx=np.zeros((2, DIM, DIM)))
                        s.put_sums(number, layer, kind, **sums)
    py_feed(qk, tmp_path / "b", keep="moments")
    for layer in range(3):
        name = f"moments/l{layer:02d}.safetensors"
        check_close(load_file(tmp_path / "a" / name), load_file(tmp_path / "b" / name))
