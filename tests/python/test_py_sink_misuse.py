# SPDX-License-Identifier: Apache-2.0
"""What a sink refuses, what it says, and that nothing half-written looks whole."""
import copy
import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from py_feeding import Tensor, about, all_vectors, files_of, model, py_feed, put_text, put_texts, sink  # noqa: E402

X = all_vectors(0, 0, "q")  # [4, 300, 12] of float32


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "capture"
    py_feed(qk, folder)
    return files_of(folder)


def check_begun(folder):
    """Nothing is there that a reader would take for a capture."""
    assert sorted(p.name for p in folder.iterdir()) in ([], [".partial"])
    for read in (qk.open, qk.pca):
        with pytest.raises((qk.NotFoundError, qk.DataError)):
            read(folder)


# ---- arrays --------------------------------------------------------------------------------

class OfCuda:
    """A tensor on a device, which must not be asked for its memory."""

    def __dlpack_device__(self):
        return 2, 1

    def __dlpack__(self, **_):
        raise RuntimeError("the device was read")


def used_before():
    tensor = Tensor(X)
    capsule = tensor.__dlpack__()

    class Once:
        def __dlpack__(self, **_):
            import ctypes
            rename = ctypes.pythonapi.PyCapsule_SetName
            rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
            rename(capsule, b"used_dltensor")
            return capsule
    once = Once()
    once.tensor = tensor
    return once


ARRAYS = [
    (X[0], r"of shape \[300, 12\]; wanted is \[heads, rows, head_dim=12\]"),
    (X[..., :11], r"of shape \[4, 300, 11\]; wanted is \[heads, rows, head_dim=12\]: transpose or reshape it"),
    (X.astype(np.float64), r"of dtype float64; wanted is float32, float16 or bfloat16: convert it.*x\.float\(\)"),
    (X.astype(np.complex64), "of dtype complex64;"),
    (X.astype(object), "of dtype object;"),
    (X.astype(">f4"), "a big-endian array of float32; .*byteorder"),
    (np.repeat(X, 2, axis=2)[..., ::2], "of strides .*numpy.ascontiguousarray.*contiguous"),
    (np.ascontiguousarray(X.transpose(0, 2, 1)).transpose(0, 2, 1), "of strides"),
    (np.broadcast_to(X[0, 0], X.shape), "one vector repeated"),
    (np.frombuffer(b"." + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(X.shape), "at address .* 4 divides"),
    (np.zeros((4, 300), dtype=[("a", "u1"), ("x", "f4", 12)])["x"], "strides .* part of records"),
    (X.tolist(), "is a list; wanted is an array"),
    (None, "is a NoneType; wanted is an array"),
    (memoryview(X.tobytes()), r"of dtype uint8"),
    (OfCuda(), r"vectors \(text 0, layer 0, q\) is on device CUDA 1; wanted is memory of the CPU: .*x\.cpu\(\)"),
    (Tensor(X, device=(2, 0)), "is on device CUDA 0"),
    (Tensor(X, code=0), "of dtype int32"),
    (Tensor(X, lanes=4), "of dtype float32 x 4"),
    (used_before(), "a capsule of DLPack that was used before"),
]


def test_arrays_that_do_not_fit(whole, tmp_path):
    """The sink has not seen them, and goes on."""
    with sink(qk, tmp_path / "a") as s:
        with s.text(0, **about(0)):
            for array, words in ARRAYS:
                with pytest.raises(qk.ArgumentError, match=words) as raised:
                    s.put(0, 0, "q", array)
                assert raised.value.status == "QK_ERR_ARGUMENT" and isinstance(raised.value, ValueError)
            put_text(s, 0)
        put_texts(s, range(1, 8))
    assert files_of(tmp_path / "a") == whole


def test_a_tensor_that_needs_its_gradient(whole, tmp_path):
    class Parameter(Tensor):
        requires_grad = True

        def detach(self):
            return Tensor(self.x)

        def __dlpack__(self, **_):
            raise RuntimeError("Can't export tensors that require gradient, use tensor.detach()")

    with sink(qk, tmp_path / "a") as s:
        put_texts(s, change=Parameter)
    assert files_of(tmp_path / "a") == whole


# ---- arguments -----------------------------------------------------------------------------

def put(*place, x=X, **options):
    return lambda s: s.put(*place, x, **options)


BEFORE = [  # that Python refuses: the sink goes on
    (put(0, 0.5, "q"), "layer is 0.5; wanted is a whole number"),
    (put(0, -1, "q"), "layer is -1; wanted is a number of at least 0"),
    (put(0, 0, "v"), r"kind is 'v'; wanted is 'q' \(queries\) or 'k' \(keys\)"),
    (put(0, 0, "q", positions=range(299)), r"of shape \[4, 300, 12\] with 299 positions; wanted is \[heads, rows=299"),
    (put(0, 0, "q", positions=np.arange(300.0)), "positions is an array .* of float64; wanted is a list of integers"),
    (put(0, 0, "q", positions=[2**63] * 300), "positions is not a list of integers"),
    (put(0, 0, "q", heads=[0, 1]), r"of shape \[4, 300, 12\] with 2 heads; wanted is \[heads=2, rows, head_dim\]"),
    (put(0, 0, "q", heads=[0, 1, 2, 2.5]), r"heads\[3\] is 2.5"),
    (put(0, 0, "q", first_position=-1), "first_position is -1"),
    (lambda s: s.begin(1, -1), "tokens is -1; wanted is a number of at least 0"),
    (lambda s: s.begin(1, 5, example_id="Genesis 1"), "example_id is 'Genesis 1'; wanted is a whole number"),
    (lambda s: s.begin(1, 5, example_id=2**63), "example_id is 9223372036854775808; wanted is a number of at most"),
    (lambda s: s.begin(1, 5, source=7), r"source is a int; wanted is a text \(str\): str\(x\)"),
    (lambda s: s.positions(0, 0, 1), "kind is 1"),
    (lambda s: s.open(model(qk), 3), "is open already"),
]
BEHIND = [  # that the library refuses, as in tests/sink/test_sink_misused.c: the sink can only be closed
    (put(2, 0, "q"), "text 2 is not open: begin it before"),
    (put(0, 0, "q", positions=np.arange(300)[::-1]), "positions do not ascend: 298 after 299"),
    (put(0, 0, "q", x=X * np.float32("nan")), "head 0.*not finite|not finite.*head 0"),
    (lambda s: s.text_done(0), "layer 0: 0 of 1200 vectors of its queries in text 0 came"),
    (lambda s: [s.put(0, 0, "q", X, before_rope=True), s.text_done(0)],
     "0 of 1200 vectors of its queries in text 0 came; those before RoPE are passed over here"),
]


def test_arguments_that_are_refused_by_name(whole, tmp_path):
    with sink(qk, tmp_path / "a") as s:
        with s.text(0, **about(0)):
            for function, words in BEFORE:
                with pytest.raises(qk.ArgumentError, match=words):
                    function(s)
            put_text(s, 0)
        put_texts(s, range(1, 8))
    assert files_of(tmp_path / "a") == whole


@pytest.mark.cases(len(BEHIND))
@pytest.mark.parametrize("function, words", BEHIND)
def test_what_the_library_refuses_it_does_not_forget(tmp_path, function, words):
    with pytest.raises((qk.ArgumentError, qk.DataError), match=words) as raised:
        with sink(qk, tmp_path / "a") as s:
            put_texts(s, [1])
            s.begin(0, **about(0))
            function(s)
    assert "%" not in str(raised.value) and raised.value.status.startswith("QK_ERR_")
    with pytest.raises(qk.ArgumentError, match="is not open: it was finished or closed; make a new one"):
        s.put(0, 0, "q", X)
    check_begun(tmp_path / "a")
    again = sink(qk, tmp_path / "a")
    assert not again.wants(1) and again.wants(0) and again.texts_before()[0] == 1
    again.close()


MAKING = [
    (dict(keep="all"), "'all': give rows, moments"),
    (dict(groups=1, keep="moments"), "1 groups of texts"),
    (dict(layout="flat"), "layout is 'flat'; wanted is one of heads, packed"),
    (dict(stage="during"), "stage is 'during'; wanted is one of post, pre, both"),
    (dict(sampler="uniform"), "sampler is 'uniform'; wanted is a qkscope.Sampler"),
    (dict(shard=(3, 3)), "no shard: 3 of 3"),
    (dict(shard=(1, 2, 3)), r"shard is \(1, 2, 3\); wanted is \(i, n\)"),
    (dict(run={"a": {3}}), "run is not JSON .*set is not JSON serializable"),
    (dict(source=3), "source is a int"),
    (dict(texts="8"), "texts is '8'; wanted is a whole number"),
    (dict(model="llama"), "model is a str; wanted is a qkscope.Model"),
    (dict(model=dict(head_dim=0)), "model.head_dim is 0; wanted is a number of at least 1"),
    (dict(model=dict(q_heads=[[True] * 4] * 2)),
     r"q_heads is 2 lists of \[4\]; wanted is \[num_layers=3\]\[4\] of bool"),
    (dict(model=dict(frequencies=[["a"], None, None])),
     r"model.frequencies\[0\] is \['a'\]; wanted is a list of numbers"),
    (dict(model=dict(frequencies=[[1, -2], None, None])), "layer 0: frequency 1 is -2; it has to be a finite number from 0"),
    (dict(model=dict(frequencies=[[1] * 7, None, None])), "layer 0 has 7 frequencies: .* room for 6 rotary pairs"),
    (dict(extra={"rope_frequencies": "x"}), "capture.json would not be readable: rope_frequencies: expected a list"),
    (dict(model=dict(windows=[0, 512])), "windows has 2 layers, the model 3"),
    (dict(model=dict(windows=[0, 512, -1])), r"model.windows\[2\] is -1"),
]


@pytest.mark.cases(len(MAKING))
@pytest.mark.parametrize("options, words", MAKING)
def test_sinks_that_are_not_made(tmp_path, options, words):
    given = options.get("model", {})
    options = {"texts": 8, **options, "model": model(qk, **given) if isinstance(given, dict) else given}
    with pytest.raises(qk.ArgumentError, match=words):
        qk.Sink(tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_a_sink_that_is_not_open(tmp_path):
    with pytest.raises(TypeError):
        qk.Sink(3)
    with qk.Sink(tmp_path / "a") as s:
        assert not s.is_open
        with pytest.raises(qk.ArgumentError, match=r"is not open: call open\(model, texts\)"):
            s.begin(0, 5)
    assert not (tmp_path / "a").exists()
    for options, words in ((dict(type="some"), "'some' is none of"), (dict(type="uniform", base_rate=0), "base rate"),
                           (dict(type="uniform", min_bucket_size=0), "bucket size is 0")):
        with pytest.raises(qk.ArgumentError, match=words):
            qk.Sampler(**options)


# ---- what is left off ----------------------------------------------------------------------

@pytest.mark.parametrize("fault", [RuntimeError("out of patience"), KeyboardInterrupt()])
def test_an_exception_in_the_middle_of_a_text(whole, tmp_path, fault):
    with pytest.raises(type(fault)):
        with sink(qk, tmp_path / "a") as s:
            for number in range(8):
                with s.text(number, **about(number)):
                    put_text(s, number)
                    if number == 3:
                        raise fault
    check_begun(tmp_path / "a")
    with sink(qk, tmp_path / "a") as s:
        assert [number for number in range(8) if s.wants(number)] == [3, 4, 5, 6, 7]
        put_texts(s, range(3, 8))
    assert s.outcome.complete and files_of(tmp_path / "a") == whole


def interrupting(after):
    """Has Ctrl-C come when the library has told for the `after`-th time how far it is."""
    from qkscope._notices import Notices

    class Interrupting(Notices):
        told = 0

        @property
        def state(self):
            return None

        @state.setter
        def state(self, value):
            if value is None:
                return
            self.told += 1
            if self.told == after:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(30000):
                    if self.stop:
                        break
                    time.sleep(0.01)
    return Interrupting


@pytest.mark.parametrize("options", [{}, dict(layout="packed", stage="both"), dict(keep="moments,reservoir=8")])
def test_ctrl_c_while_a_sink_finishes(tmp_path, monkeypatch, options):
    py_feed(qk, tmp_path / "whole", **options)
    for after in (1, 3):
        folder = tmp_path / str(after)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("qkscope.sink.Notices", interrupting(after))
            py_feed(qk, folder, **options)
        check_begun(folder)
        with sink(qk, folder, **options) as s:
            assert not any(s.wants(number) for number in range(8))
        assert s.outcome.complete and files_of(folder) == files_of(tmp_path / "whole")


def test_ctrl_c_while_a_merge_runs(whole, tmp_path, monkeypatch):
    for i in range(2):
        py_feed(qk, tmp_path / str(i), shard=(i, 2))
    pieces = [tmp_path / "0", tmp_path / "1"]
    before = [files_of(piece) for piece in pieces]
    for after in (1, 12):  # a block, and a file behind them
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr("qkscope.merging.Notices", interrupting(after))
            qk.merge(pieces, tmp_path / f"a{after}")
        check_begun(tmp_path / f"a{after}")
        assert qk.merge(pieces, tmp_path / f"a{after}", threads=None).complete
        assert files_of(tmp_path / f"a{after}") == whole
    assert [files_of(piece) for piece in pieces] == before


def test_a_sink_is_not_copied(whole, tmp_path):
    with sink(qk, tmp_path / "a") as s:
        for copies in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                copies(s)
        put_texts(s)
    assert files_of(tmp_path / "a") == whole


def test_a_text_that_was_left_is_not_forgotten(tmp_path):
    s = sink(qk, tmp_path / "a")
    for number in range(8):
        try:
            with s.text(number, **about(number)):
                put_text(s, number)
                if number == 3:
                    raise RuntimeError("swallowed")
        except RuntimeError:
            pass
    with pytest.raises(qk.ArgumentError, match="not complete: text 3 was left by RuntimeError: swallowed. What was"):
        s.finish()
    check_begun(tmp_path / "a")
    with pytest.raises(qk.ArgumentError, match="not open"):
        s.finish()
    s.close()  # again: nothing


def test_texts_that_are_missing(whole, tmp_path):
    missing = "7 texts from number 0 on were not put into the sink"
    with pytest.raises(qk.DataError, match=missing):
        with sink(qk, tmp_path / "a") as s:
            put_texts(s, [2])
    check_begun(tmp_path / "a")
    py_feed(qk, tmp_path / "a")
    assert files_of(tmp_path / "a") == whole


def test_two_sinks_of_one_folder(whole, tmp_path):
    one = sink(qk, tmp_path / "a")
    with pytest.raises(FileExistsError, match=f"^{tmp_path / 'a'}: another run is at work in this folder"):
        sink(qk, tmp_path / "a")
    assert one.wants(0)
    del one  # without close
    with pytest.raises(qk.ExistsError, match="head_dim|settings|other|differ"):
        qk.Sink(tmp_path / "a", model=model(qk, name="another"), texts=8)
    rows = py_feed(qk, tmp_path / "a").rows
    with sink(qk, tmp_path / "a") as s:
        assert s.complete and not any(map(s.wants, range(8)))
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert s.outcome == qk.Outcome(True, 8, 8, 8, 11, rows, 0, size)
    assert files_of(tmp_path / "a") == whole
    with pytest.raises(qk.ExistsError):
        sink(qk, tmp_path / "a", texts=9)
    with sink(qk, tmp_path / "a", texts=9, force=True) as s:
        assert files_of(tmp_path / "a").items() >= whole.items()  # until the new one is complete
        put_texts(s, range(9))
    assert len(qk.open(tmp_path / "a").heads) == 11 and files_of(tmp_path / "a").keys() == whole.keys()
    assert files_of(tmp_path / "a") != whole


def test_closing_waits_for_calls(tmp_path):
    """From another thread, in the middle of puts: an exception there, and no crash."""
    s, said = sink(qk, tmp_path / "a"), []
    s.begin(3, **about(3))
    x = all_vectors(3, 0, "q")

    def puts():
        try:
            for at in range(700):
                s.put(3, 0, "q", x[:, at:at + 1], first_position=at)
                started.set()
        except qk.ArgumentError as error:
            said.append(str(error))
            started.set()
    for _ in range(2):
        started = threading.Event()
        runner = threading.Thread(target=puts)
        runner.start()
        started.wait(300)
        s.close()
        runner.join(300)
        assert not runner.is_alive()
    assert said and all("is not open" in words for words in said)
