# SPDX-License-Identifier: Apache-2.0
"""Files of moments as others see them: the safetensors package reads what qk_moments_save wrote, the numbers are
NumPy's; and what the package writes is loaded, or refused with a reason."""
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

pytest.importorskip("qkscope", reason="the Python package is not in this build")
from qkscope._call import DataError, call, ffi, lib  # noqa: E402

DIM, ROWS = 6, 400


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(5)
    return random.normal(3, 2, (ROWS, DIM)), np.sort(random.integers(0, 10**6, ROWS))


def save(x, t, path):
    acc, moments = ffi.new("qk_accumulator **"), ffi.new("qk_moments **")
    block = {"rows": len(t), "dim": DIM, "f64": ffi.cast("double *", x.ctypes.data),
             "position": ffi.cast("int64_t *", t.ctypes.data)}
    call(lib.qk_accumulator_create, acc, DIM)
    call(lib.qk_accumulator_add, acc[0], ffi.new("qk_block *", block))
    call(lib.qk_accumulator_finish, acc, moments)
    call(lib.qk_moments_save, moments[0], str(path).encode())
    lib.qk_moments_free(moments)
    return path


@pytest.fixture(scope="module")
def saved(rows, tmp_path_factory):
    return save(*rows, tmp_path_factory.mktemp("moments") / "moments.safetensors")


def load(path):
    """A copy of the numbers."""
    moments = ffi.new("qk_moments **")
    call(lib.qk_moments_load, str(path).encode(), moments)
    m = moments[0]
    d = m.dim
    numbers = {"count": m.count, "mean_t": m.mean_t, "sum_tt": m.sum_tt,
               **{name: np.array(list(getattr(m, name)[0:d])) for name in ("mean", "sum_xt")},
               "sum_xx": np.array(list(m.sum_xx[0:d * d])).reshape(d, d)}
    lib.qk_moments_free(moments)
    return numbers


def test_others_read_numpys_numbers(saved, rows):
    x, t = rows
    arrays = load_file(saved)
    assert int.from_bytes(saved.read_bytes()[:8], "little") % 8 == 0  # arrays are aligned
    centred, off = x - x.mean(0), t - t.mean()
    assert arrays["count"] == ROWS and arrays["count"].dtype == np.int64
    for name, expected in (("mean_t", t.mean()), ("sum_tt", off @ off), ("mean", x.mean(0)),
                           ("sum_xt", off @ centred), ("sum_xx", centred.T @ centred)):
        np.testing.assert_allclose(arrays[name], expected, rtol=1e-9, atol=1e-7)


def test_what_others_write_is_loaded(saved, tmp_path):
    arrays = load_file(saved)
    save_file(dict(reversed(arrays.items())), tmp_path / "theirs")
    numbers = load(tmp_path / "theirs")
    assert all(np.array_equal(numbers[name], array) for name, array in arrays.items())


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(rows, tmp_path, count):
    x, t = rows
    numbers = load(save(x[:count], t[:count], tmp_path / "few"))
    assert numbers["count"] == count and not numbers["sum_xx"].any()
    assert np.array_equal(numbers["mean"], x[0] if count else np.zeros(DIM))


@pytest.mark.cases(11)
@pytest.mark.parametrize("change, reason", [
    (lambda a: a.pop("sum_xt"), '"sum_xt"'),
    (lambda a: a.pop("mean"), '"mean"'),
    (lambda a: a.update(mean=a["mean"].astype(np.float32)), "mean"),
    (lambda a: a.update(mean=np.zeros(0)), '"mean"'),
    (lambda a: a.update(mean=np.zeros(4097)), '"mean"'),
    (lambda a: a.update(sum_xx=a["sum_xx"][:2]), "sum_xx"),
    (lambda a: a.update(count=np.array(-1)), "not moments"),
    (lambda a: a.update(sum_tt=np.array(-1.0)), "not moments"),
    (lambda a: a["sum_xx"].__setitem__((0, 1), 7.0), "not moments"),
    (lambda a: a["sum_xx"].__setitem__((2, 2), np.nan), "not moments"),
    (lambda a: a["mean"].__setitem__(3, np.inf), "not moments"),
])
def test_what_are_no_moments_is_refused(saved, tmp_path, change, reason):
    arrays = load_file(saved)
    change(arrays)
    save_file(arrays, tmp_path / "wrong")
    with pytest.raises(DataError) as refused:
        load(tmp_path / "wrong")
    assert str(tmp_path / "wrong") in str(refused.value) and reason in str(refused.value)


def test_a_file_cut_short_anywhere_is_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for size in [*range(0, 40), *range(40, len(whole), 37), len(whole) - 1]:
        (tmp_path / "short").write_bytes(whole[:size])
        with pytest.raises(DataError, match="short"):
            load(tmp_path / "short")
