# SPDX-License-Identifier: Apache-2.0
"""Sums of attention through the package: what may come, and what is refused."""
import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from safetensors.numpy import load_file  # noqa: E402

SUMS = 65  # the last is a maximum


def open_sink(folder, keep="rows,attention"):
    model = qk.Model("m", num_layers=1, num_q_heads=2, num_k_heads=1, head_dim=4)
    return qk.Sink(folder, keep=keep, model=model, texts=2, groups=2)


def begin(sink, number=0, tokens=5):
    rng = np.random.default_rng(number)
    sink.begin(number, tokens=tokens)
    for kind, heads in (("q", 2), ("k", 1)):
        sink.put(number, 0, kind, rng.standard_normal((heads, tokens, 4), dtype="float32"))


def sums_of(buckets=3, heads=2, seed=0):
    return np.random.default_rng(seed).random((heads, buckets, SUMS))


def test_sums_come_back_as_means(tmp_path):
    given = [sums_of(seed=i) for i in range(2)]
    with open_sink(tmp_path / "c") as sink:
        for number in range(2):
            begin(sink, number)
            sink.put_attention(number, 0, given[number], rows=[1, 1, 2 + number])
            sink.text_done(number)
    arrays = load_file(tmp_path / "c" / "attention" / "l00.safetensors")
    assert arrays["q.count"].tolist() == [[4, 4], [5, 5]]
    summed = np.s_[:, :, :-1]
    assert np.allclose((arrays["q.mean"] * arrays["q.count"][:, :, None])[summed], np.stack([g.sum(1) for g in given])[summed],
                       rtol=1e-14)
    assert (arrays["q.mean"][:, :, -1] == np.stack([g.max(1) for g in given])[:, :, -1]).all()
    both = (given[0] + given[1]).transpose(1, 0, 2)
    assert np.allclose((arrays["q.bucket_mean"] * arrays["q.bucket_count"][:, :, None])[summed], both[summed])
    assert (arrays["q.bucket_mean"][:, :, -1] == np.maximum(*given).transpose(1, 0, 2)[:, :, -1]).all()
    assert qk.open(tmp_path / "c").info.has_attention


@pytest.mark.parametrize("change, message", [
    (dict(sums=sums_of(heads=1)), "query head 1: its attention in text 0 is missing"),
    (dict(sums=np.where(np.arange(SUMS) == 7, np.nan, sums_of())), "query head 0, text 0: sums of attention that are"),
    (dict(rows=[0, 0, 0]), "attention over no rows"),
    (dict(rows=[1, -1, 1]), "rows"),
    (dict(sums=sums_of(buckets=23), rows=[1] * 23), "in 23 buckets of rows: 1 to 22"),
    (dict(heads=[0, 5]), "head"),
    (dict(number=1), "text 1"),
    (dict(layer=3), "layer 3"),
])
def test_what_is_refused(tmp_path, change, message):
    sink = open_sink(tmp_path / "c")
    begin(sink)
    with pytest.raises(qk.Error, match=message):
        sink.put_attention(**{**dict(number=0, layer=0, sums=sums_of(), rows=[1, 2, 2]), **change})
    sink.close()


def test_it_comes_once_and_has_to_come(tmp_path):
    sink = open_sink(tmp_path / "a")
    begin(sink)
    sink.put_attention(0, 0, sums_of(), rows=[1, 2, 2])
    with pytest.raises(qk.Error, match="came twice"):
        sink.put_attention(0, 0, sums_of(), rows=[1, 2, 2])
    sink.close()
    sink = open_sink(tmp_path / "b")
    begin(sink)
    with pytest.raises(qk.Error, match="layer 0: sums of the attention in text 0 did not come"):
        sink.text_done(0)
    sink.close()


def test_where_it_is_not_kept_it_is_passed_over(tmp_path):
    sink = open_sink(tmp_path / "c", keep="rows")
    begin(sink)
    sink.put_attention(0, 0, sums_of(), rows=[1, 2, 2])
    sink.text_done(0)
    sink.close()
    assert not (tmp_path / "c" / "attention").exists()


@pytest.mark.parametrize("keep", ["attention", "attention,reservoir=2"])
def test_it_goes_with_rows_or_moments(tmp_path, keep):
    with pytest.raises(qk.Error, match="rows"):
        open_sink(tmp_path / "c", keep=keep)
