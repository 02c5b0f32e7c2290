# SPDX-License-Identifier: Apache-2.0
"""What is used again and again leaves nothing behind, whether it was closed or not: counted by malloc and by Python."""
import ctypes
import gc
import os
import sys

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from py_feeding import about, all_vectors, sink  # noqa: E402

TIMES = 40
X = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32)


class Counts(ctypes.Structure):
    """mallinfo2 of the GNU C library; `used`: bytes of what is allocated, in all arenas."""
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks used free keep".split()]


def held():
    """(bytes that C holds, blocks that Python holds, open files)"""
    gc.collect()
    ask = ctypes.CDLL(None).mallinfo2
    ask.restype = Counts
    now = ask()
    return now.used + now.hblkhd, sys.getallocatedblocks(), len(os.listdir("/proc/self/fd"))


def a_sink(made, i):
    s = sink(qk, made / "many", keep="rows,moments")
    s.begin(0, **about(0))
    s.put(0, 0, "q", all_vectors(0, 0, "q"))
    if i % 2:
        s.close()


def a_capture(made, i):
    capture = qk.open(made / "c")
    head = capture.heads[i % 2]
    head.read("vectors")
    next(head.blocks(10))  # left in the middle
    with pytest.raises(qk.NotFoundError):
        capture.head(9, 9, "q")


def a_capture_written(made, i):
    qk.write_capture(made / "w", {(0, 0, "q"): X, (0, 0, "k"): X.astype(np.float16)}, force=True)
    with pytest.raises(qk.DataError):
        qk.write_capture(made / "x", {(0, 0, "q"): X, (0, 0, "k"): np.where(X > 0, np.inf, X).astype("f4")})


def an_analysis(made, i):
    results = qk.analyze(made / "c", threads=1, progress=False)
    results.heads.column("category"), results.sql("select r_q from heads").column("r_q")


@pytest.mark.cases(4)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("use", [a_sink, a_capture, a_capture_written, an_analysis])
def test_flat_memory(tmp_path, monkeypatch, use):
    if not hasattr(ctypes.CDLL(None), "mallinfo2"):
        pytest.skip("malloc does not tell what it holds")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    qk.write_capture(tmp_path / "c", {(0, 0, "q"): X, (0, 0, "k"): X})
    for i in range(8):
        use(tmp_path, i)
    before = held()
    for i in range(TIMES):
        use(tmp_path, i)
    bytes_more, blocks_more, files_more = (now - then for now, then in zip(held(), before))
    assert bytes_more < 400 * TIMES and blocks_more < TIMES and files_more <= 0
