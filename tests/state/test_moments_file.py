# SPDX-License-Identifier: Apache-2.0
"""Files of moments as others see them: the safetensors package reads what qk_moments_save wrote, the numbers are
NumPy's; and what the package writes is loaded, or refused with a reason."""
import ctypes
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from conftest import BUILD

DIM, ROWS = 6, 400


class Moments(ctypes.Structure):
    _fields_ = [("dim", ctypes.c_size_t), ("count", ctypes.c_int64), ("mean_t", ctypes.c_double),
                ("sum_tt", ctypes.c_double), *((name, ctypes.POINTER(ctypes.c_double))
                                               for name in ("mean", "sum_xt", "sum_xx"))]


class Block(ctypes.Structure):
    _fields_ = [("rows", ctypes.c_size_t), ("dim", ctypes.c_size_t), ("first_row", ctypes.c_int64),
                *((name, ctypes.c_void_p) for name in ("f32", "f64", "position", "bucket", "example", "window",
                                                       "group")), ("left_out", ctypes.c_uint32)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 1024)]


@pytest.fixture(scope="module")
def library():
    if b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes():
        pytest.skip("Python cannot load an instrumented library")
    return ctypes.CDLL(next(BUILD.rglob("libqkscope.so")))


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(5)
    return random.normal(3, 2, (ROWS, DIM)), np.sort(random.integers(0, 10**6, ROWS))


@pytest.fixture
def saved(library, rows, tmp_path):
    x, t = rows
    acc, moments = ctypes.c_void_p(), ctypes.POINTER(Moments)()
    assert library.qk_accumulator_create(ctypes.byref(acc), ctypes.c_size_t(DIM), None) == 0
    block = Block(rows=ROWS, dim=DIM, f64=x.ctypes.data, position=t.ctypes.data)
    assert library.qk_accumulator_add(acc, ctypes.byref(block), None) == 0
    assert library.qk_accumulator_finish(ctypes.byref(acc), ctypes.byref(moments), None) == 0
    path = tmp_path / "moments.safetensors"
    assert library.qk_moments_save(moments, str(path).encode(), None) == 0
    library.qk_moments_free(ctypes.byref(moments))
    return path


def load(library, path):
    """(status, message, copy of the numbers)"""
    moments, err = ctypes.POINTER(Moments)(), Error()
    status = library.qk_moments_load(str(path).encode(), ctypes.byref(moments), ctypes.byref(err))
    if status:
        assert not moments
        return status, err.message.decode(), None
    m = moments.contents
    d = m.dim
    numbers = {"count": m.count, "mean_t": m.mean_t, "sum_tt": m.sum_tt,
               "mean": np.array(m.mean[:d]), "sum_xt": np.array(m.sum_xt[:d]),
               "sum_xx": np.array(m.sum_xx[:d * d]).reshape(d, d)}
    library.qk_moments_free(ctypes.byref(moments))
    return status, "", numbers


def test_others_read_numpys_numbers(saved, rows):
    x, t = rows
    arrays = load_file(saved)
    centred, off = x - x.mean(0), t - t.mean()
    assert arrays["count"] == ROWS and arrays["count"].dtype == np.int64
    for name, expected in (("mean_t", t.mean()), ("sum_tt", off @ off), ("mean", x.mean(0)),
                           ("sum_xt", off @ centred), ("sum_xx", centred.T @ centred)):
        np.testing.assert_allclose(arrays[name], expected, rtol=1e-9, atol=1e-7)


def test_what_others_write_is_loaded(library, saved, tmp_path):
    arrays = load_file(saved)
    save_file(dict(reversed(arrays.items())), tmp_path / "theirs")
    status, _, numbers = load(library, tmp_path / "theirs")
    assert status == 0
    for name, array in arrays.items():
        assert np.array_equal(numbers[name], array)


def test_the_arrays_are_aligned(saved):
    assert struct.unpack("<Q", saved.read_bytes()[:8])[0] % 8 == 0


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
def test_what_are_no_moments_is_refused(library, saved, tmp_path, change, reason):
    arrays = load_file(saved)
    change(arrays)
    save_file(arrays, tmp_path / "wrong")
    status, message, _ = load(library, tmp_path / "wrong")
    assert status and str(tmp_path / "wrong") in message and reason in message


def test_a_file_cut_short_anywhere_is_refused(library, saved, tmp_path):
    whole = saved.read_bytes()
    for size in [*range(0, 40), *range(40, len(whole), 37), len(whole) - 1]:
        (tmp_path / "short").write_bytes(whole[:size])
        status, message, _ = load(library, tmp_path / "short")
        assert status and "short" in message
