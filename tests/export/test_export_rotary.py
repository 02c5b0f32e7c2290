# SPDX-License-Identifier: Apache-2.0
"""Mean queries by rotary pair, and the mean of their lengths: against NumPy on the rows, from rows and from moments."""
import math
from pathlib import Path

import numpy as np
import pytest
from conftest import head_name
from export_oracle import FREQUENCIES, LAYERS, QUERIES, make_heads, rows_from, write_capture
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from qkscope.export._request import Request  # noqa: E402
from qkscope.export._rotary import rotary  # noqa: E402


def request_of(source, **of_capture):
    return Request(source, Path("nowhere"), "", None, 128, 256, 500, of_capture, False)


def pairs_of(rows, count, interleaved):
    """[n][d] to [n][count][2]: real, imaginary."""
    if interleaved:
        return rows[:, :2 * count].reshape(len(rows), count, 2)
    return np.stack([rows[:, :count], rows[:, count:2 * count]], 2)


@pytest.mark.parametrize("first", [None, 9])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_from_rows(tmp_path, pairing, first):
    heads = make_heads()
    frequencies = {0: FREQUENCIES, 1: FREQUENCIES[:3]}
    write_capture(tmp_path, heads, rope={"type": "yarn", "theta": 5e5, "pairing": pairing, "frequencies": {
        str(layer): values for layer, values in frequencies.items()}}, run={"model": {"architecture": "qwen3"}})
    found = rotary(request_of(tmp_path, **{"from-position": first}))
    assert (found.rope.architecture, found.rope.type, found.rope.theta, found.heads.texts) == ("qwen3", "yarn", 5e5, 3)
    for layer in range(LAYERS):
        of = found.layers[layer]
        assert of.rotation.frequencies == tuple(frequencies[layer])
        for head in range(QUERIES):
            z = pairs_of(rows_from(heads[head_name(layer, head, "q")], first or 0), len(frequencies[layer]), pairing == "interleaved")
            mean = z.mean(0)
            np.testing.assert_allclose(of.mean[head], mean[:, 0] + 1j * mean[:, 1], rtol=1e-12)
            np.testing.assert_allclose(of.length[head], np.hypot(z[..., 0], z[..., 1]).mean(0), rtol=1e-12)


# ---- moments ---------------------------------------------------------------------------------

def put_rows(folder, queries, pairing="half", frequencies=FREQUENCIES, sums=None, keep="moments", stage="pre", texts=(7,), **options):
    """A capture by the sink of queries [heads][rows][8], as many texts as lengths are told; keys are the first head's queries.
    sums: put these in place of rows."""
    model = qk.Model("made", 1, len(queries), 1, 8, frequencies=[frequencies], rope_interleaved=pairing == "interleaved")
    ends = np.cumsum([0, *texts])
    with qk.Sink(folder, keep=keep, model=model, texts=len(texts), stage=stage,
                 extra={"q_per_kv_group": len(queries)}, **options) as s:
        for number, (begin, end) in enumerate(zip(ends, ends[1:])):
            if not s.wants(number):
                continue
            with s.text(number, int(end - begin)):
                for kind, rows in (("q", queries[:, begin:end]), ("k", queries[:1, begin:end])):
                    if sums is None:
                        s.put(number, 0, kind, np.ascontiguousarray(rows), before_rope=True)
                    else:
                        s.put_sums(number, 0, kind, before_rope=True, **sums(rows.astype(float), kind))
    return folder


def queries_of(rows, heads=2, seed=3):
    return (np.random.default_rng(seed).normal(0.4, 1, (heads, rows, 8)) * np.arange(1, 9)).astype(np.float32)


def lengths_in(folder):
    return load_file(folder / "moments" / "l00.safetensors")["q.sum_abs"]


@pytest.mark.cases(3)
@pytest.mark.parametrize("pairing, count, first", [("half", 4, 0), ("interleaved", 4, 3), ("interleaved", 3, 0)])
def test_moments_have_the_lengths_of_the_rows(tmp_path, pairing, count, first):
    """Merged shards, too, in groups of texts; rows and moments give the same."""
    x, texts = queries_of(1500), (700, 3, 500, 297)
    put = {"pairing": pairing, "frequencies": FREQUENCIES[:count], "texts": texts}
    put_rows(tmp_path / "rows", x, keep="rows", **put)
    keep = f"moments,first={first}" if first else "moments"
    whole = put_rows(tmp_path / "whole", x, keep=keep, groups=2, **put)
    for i in range(3):
        put_rows(tmp_path / f"shard{i}", x, keep=keep, groups=2, shard=(i, 3), **put)
    qk.merge([tmp_path / f"shard{i}" for i in range(3)], tmp_path / "merged")
    z = [pairs_of(head.astype(float), count, pairing == "interleaved") for head in x]
    lengths = np.array([np.hypot(of[..., 0], of[..., 1]).sum(0) for of in z])
    assert lengths_in(whole).shape == (2, 2, count)
    np.testing.assert_allclose(lengths_in(whole).sum(0), lengths, rtol=1e-13)
    assert (lengths_in(tmp_path / "merged") == lengths_in(whole)).all()
    for options in [{}, {"from-position": first}][:1 + (first > 0)]:
        rows, moments = (rotary(request_of(tmp_path / name, **options)).layers[0] for name in ("rows", "whole"))
        np.testing.assert_allclose(moments.length, rows.length, rtol=1e-12)
        np.testing.assert_allclose(moments.mean, rows.mean, rtol=1e-10, atol=1e-12)


def test_far_from_zero_and_long(tmp_path):
    """10^5 rows of mean 1, deviation 1e3: sums in float32 would be off in the third digit."""
    x = np.random.default_rng(1).normal(1, 1e3, (1, 100_000, 8)).astype(np.float32)
    found = rotary(request_of(put_rows(tmp_path / "c", x, texts=(60_000, 40_000)))).layers[0]
    z = pairs_of(x[0].astype(float), 4, False)
    for p in range(4):
        mean = complex(*(math.fsum(z[:, p, part]) / 1e5 for part in range(2)))
        assert abs(found.mean[0, p] - mean) < 1e-6 * abs(mean)
        assert found.length[0, p] == pytest.approx(math.fsum(np.hypot(*z[:, p].T)) / 1e5, rel=1e-12)


def test_alternating_queries_have_mean_0_and_length_1(tmp_path):
    x = np.zeros((1, 1000, 8), np.float32)
    x[0, :, :4] = (-1.0) ** np.arange(1000)[:, None]
    found = rotary(request_of(put_rows(tmp_path / "c", x, texts=(1000,)))).layers[0]
    assert (found.mean == 0).all() and (found.length == 1).all()


def sums_of(lengths):
    def sums(x, kind):
        t = np.arange(x.shape[1], dtype=float)
        made = dict(rows=x.shape[1], sum_x=x.sum(1), sum_xt=np.einsum("hri,r->hi", x, t), sum_xx=np.einsum("hri,hrj->hij", x, x))
        if kind == "q":  # one bucket
            made |= dict(bucket_sum_x=x.sum(1)[:, None], bucket_sum_xt=made["sum_xt"][:, None], bucket_sum_xx=(x**2).sum(1)[:, None],
                         sum_abs=lengths(x))
        return made
    return sums


def test_sums_in_place_of_rows(tmp_path):
    x = queries_of(100)

    def exact(x):
        return np.hypot(x[..., :4], x[..., 4:]).sum(1)
    put_rows(tmp_path / "sums", x, sums=sums_of(exact), texts=(60, 40))
    put_rows(tmp_path / "rows", x, texts=(60, 40))
    np.testing.assert_allclose(lengths_in(tmp_path / "sums"), lengths_in(tmp_path / "rows"), rtol=1e-13)
    put_rows(tmp_path / "without", x, sums=sums_of(lambda x: None), texts=(60, 40))
    with pytest.raises(qk.DataError, match="layer 0: its moments lack the sums of lengths .*: capture again"):
        rotary(request_of(tmp_path / "without"))
    for wrong, why in ((lambda x: exact(x)[:, :3].copy(), "sum_abs of 3 rotary pairs, and layer 0 has 4"),
                       (lambda x: -exact(x), "its numbers are not the sums of any rows")):
        with pytest.raises(qk.Error, match=why):
            put_rows(tmp_path / "wrong", x, sums=sums_of(wrong), texts=(60, 40), force=True)


def test_moments_of_an_older_version_are_refused(tmp_path):
    folder = put_rows(tmp_path / "c", queries_of(7))
    path = folder / "moments" / "l00.safetensors"
    with safe_open(path, "np") as file:
        facts = {name: value for name, value in file.metadata().items() if name != "xxh3_128"}
    save_file({name: values for name, values in load_file(path).items() if name != "q.sum_abs"}, path, metadata=facts)
    with pytest.raises(qk.DataError, match="lack the sums of lengths of rotary pairs .*: capture again"):
        rotary(request_of(folder))
