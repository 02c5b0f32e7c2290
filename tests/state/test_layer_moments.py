# SPDX-License-Identifier: Apache-2.0
"""Moments of a layer: the numbers are NumPy's, the safetensors package reads the file, the bytes do not depend on who
summed which block, and what is no such file is refused with a reason."""
import struct
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from conftest import BUILD

make_state = pytest.importorskip("make_state")

TOOL = BUILD / "tests" / "state" / "layer_moments"


@dataclass
class Sequence:
    id: int
    t: np.ndarray
    q: np.ndarray  # [heads][rows][d]
    k: np.ndarray
    first: bool = True

    @property
    def bucket(self):
        return self.t // 50 - 3


def sequences(ids, heads=3, d=5, seed=0, mean=0.0, rows=(1, 700), t=None):
    random = np.random.default_rng(seed)
    made = []
    for i in ids:
        n = int(random.integers(*rows))
        position = np.sort(random.choice(1500, n, replace=False)) if t is None else np.full(n, t)
        x = random.normal(mean, 1, (2, heads, n, d)) * np.arange(1, d + 1)
        x += 0.003 * position[:, None]
        made.append(Sequence(i, position.astype(np.int64), *x.astype(np.float32)))
    return made


def tool(*args, fails=False):
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True, timeout=300)
    assert (done.returncode == 1) == fails and done.returncode in (0, 1), done.stderr
    return done.stderr if fails else done.stdout


def write_rows(path, made):
    with open(path, "wb") as file:
        heads, _, d = made[0].q.shape
        file.write(struct.pack("<3q", heads, d, len(made)))
        for s in made:
            file.write(struct.pack("<q", s.id if s.id < 2**63 else s.id - 2**64))
            file.write(struct.pack("<2q", s.first, len(s.t)))
            for array in (s.t, s.bucket, s.q, s.k):
                file.write(array.tobytes())
    return path


def make(tmp_path, made, name="l07", groups=16, chunk=256, block=4, first=0, last=None):
    rows = tmp_path / "rows"
    if not rows.exists():
        write_rows(rows, made)
    tool("make", tmp_path / name, rows, groups, chunk, block, first, len(made) if last is None else last)
    return tmp_path / name


def check_numbers(path, made, groups, texts=None):
    """The arrays of make_state.py, of the same rows; sums may be off by the rounding of what the rows vary by."""
    found, expected = load_file(path), {}
    position, bucket = (np.concatenate([getattr(s, name) for s in made]) for name in ("t", "bucket"))
    ids = np.concatenate([np.full(len(s.t), s.id) for s in made])
    for kind in "qk":
        heads = {2 * h + 1: {"position": position, "bucket": bucket, "example_id": ids,
                             "vector": np.concatenate([getattr(s, kind)[h] for s in made]).astype(float)}
                 for h in range(len(made[0].q))}
        expected |= make_state.layer_arrays(heads, kind, groups, made[0].q.shape[2] // 2)
    assert set(found) == set(expected)
    for name, want in expected.items():
        assert found[name].shape == want.shape and found[name].dtype == want.dtype, name
        if want.dtype.kind == "i":
            assert np.array_equal(found[name], want), name
            continue
        scale = np.abs(want)
        if name.endswith("sum_xt") or name.endswith("sum_xx"):
            scale = scale.max(axis=-1, keepdims=True) if scale.size else scale
        assert np.all(np.abs(found[name] - want) <= 1e-11 * scale + 1e-9), name


# ---- numbers -------------------------------------------------------------------------------

CASES = {
    "few texts": dict(ids=range(5)),
    "more texts than groups": dict(ids=range(40), rows=(1, 90)),
    "ids of all sizes": dict(ids=[-1, -2**63, 2**63 - 1, 0, -7, 2**40, 2**40 + 1, 2**62], rows=(1, 90)),
    "ids that differ in high bits": dict(ids=[i * 2**57 for i in range(100)], rows=(1, 20)),
    "one row": dict(ids=[3], rows=(1, 2)),
    "equal positions": dict(ids=range(3), t=77),
    "means far from zero": dict(ids=range(6), mean=1e3),
    "a dimension of whole panels": dict(ids=range(3), d=16, rows=(250, 600)),
    "one dimension": dict(ids=range(3), d=1),
}


@pytest.mark.cases(9)
@pytest.mark.parametrize("case", CASES)
def test_numbers_are_numpys(tmp_path, case):
    made = sequences(**CASES[case])
    for groups in (16, 0, 64):
        check_numbers(make(tmp_path, made, groups=groups), made, groups)


def test_rows_of_a_text_may_come_in_windows(tmp_path):
    made = sequences([4, 4, 4, 9, 9])
    for i in (1, 2, 4):
        made[i].first = False
    check_numbers(make(tmp_path, made), made, 16)


def test_chunks_of_any_size_give_the_same_sums(tmp_path):
    made = sequences(range(4))
    for chunk in (1, 7, 128, 129, 255):
        check_numbers(make(tmp_path, made, f"chunk{chunk}", chunk=chunk), made, 16)


def test_others_read_the_file(tmp_path):
    made = sequences(range(20), d=4, rows=(1, 60))
    path = make(tmp_path, made)
    with safe_open(path, "np") as file:
        facts = file.metadata()
    data = path.read_bytes()
    data = data[8 + int.from_bytes(data[:8], "little"):]
    assert facts == {"format": "qkscope moments 2", "layer": "7", "groups": "16",
                     "xxh3_128": pytest.importorskip("xxhash").xxh3_128_hexdigest(data)}
    arrays = load_file(path)
    assert list(arrays["q.heads"]) == [1, 3, 5] and {array.dtype.str for array in arrays.values()} == {"<i8", "<f8"}
    assert struct.unpack("<Q", path.read_bytes()[:8])[0] % 8 == 0



# ---- what is no such file ------------------------------------------------------------------

METADATA = {"format": "qkscope moments 2", "layer": "7", "groups": "16"}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return make(tmp_path_factory.mktemp("sound"), sequences(range(20), d=4, rows=(1, 60)))


@pytest.fixture
def arrays(sound):
    return load_file(sound)


def put(name, at, value):
    return lambda a: a[name].__setitem__(at, value)


@pytest.mark.cases(40)
@pytest.mark.parametrize("change, reason", [
    (lambda a: a.pop("q.sum_xt"), "queries: there is no array q.sum_xt"),
    (lambda a: a.pop("q.heads"), "there is no array q.heads"),
    (lambda a: a.pop("q.bucket_mean"), "there is no array q.bucket_mean"),
    (lambda a: a.update({"k.mean": a["k.mean"].astype(np.float32)}), "keys: k.mean"),
    (lambda a: a.update({"q.mean": a["q.mean"][:, :, :0]}), "q.mean: expected 3 axes"),
    (lambda a: a.update({"q.sum_xx": a["q.sum_xx"][:, :, :9]}), "q.sum_xx: its type or shape"),
    (lambda a: a.update({"q.mask": np.array([15])}), "q.mask"),
    (lambda a: a.update({"q.mask": np.array(14)}), "mask e"),
    (lambda a: a.update({"q.mask": np.array(0)}), "mask 0"),
    (lambda a: a.update({"q.mask": np.array(7)}), "group 8"),
    (put("q.group", 1, 0), "group 1: labels ascend"),
    (put("q.heads", 1, 1), "head 1: numbers of heads ascend"),
    (put("q.heads", 0, -1), "head -1"),
    (put("q.heads", 2, 2**40), "head 1099511627776"),
    (put("q.bucket", 1, -3), "bucket -3 follows"),
    (put("k.count", (0, 1), -1), "keys: head 3: its counts"),
    (put("k.count", (0, 1), 2**62), "its counts"),
    (put("q.count", (0, 1), 1), "head 3: its groups have"),
    (put("k.texts", 0, -1), "its counts"),
    (put("k.texts", 0, 10**6), "its counts"),
    (put("k.positions", (0, 0), 5000), "positions 5000 to"),
    (put("k.sum_tt", (3, 0), -1.0), "head 1: its numbers are not moments"),
    (put("k.mean_t", (3, 0), np.nan), "not moments"),
    (put("k.mean", (3, 0, 1), np.inf), "not moments"),
    (put("k.sum_xx", (3, 0, 4), -1.0), "not moments"),
    (put("k.sum_xx", (3, 0, 1), np.nan), "not moments"),
    (put("k.sum_xx", (3, 0, 4), 1e300), "too large to square"),
    (put("q.bucket_sum_xx", (0, 0, 0), -1.0), "not moments"),
    (lambda a: [a.pop(name) for name in [*a]], "no array of queries"),
    (lambda a: a.update({name: a[name][..., :3] for name in ("k.mean", "k.sum_xt")}
                        | {"k.sum_xx": a["k.sum_xx"][:, :, :6]}), "queries of dimension 4, keys of 3"),
])
def test_what_are_no_moments_is_refused(tmp_path, arrays, change, reason):
    change(arrays)
    save_file(arrays, tmp_path / "wrong", METADATA)
    done = [subprocess.run([TOOL, "head", tmp_path / "wrong", kind, "0"], capture_output=True, text=True) for kind in "qk"]
    assert all(d.returncode in (0, 1) for d in done)
    assert any(reason in d.stderr and str(tmp_path / "wrong") in d.stderr for d in done), done


@pytest.mark.cases(11)
@pytest.mark.parametrize("metadata, reason", [
    (None, 'format ""'),
    ({}, 'format ""'),
    ({"format": "pt"}, 'format "pt"'),
    ({"format": "qkscope moments 1"}, "no moments of a layer"),
    (METADATA | {"format": "qkscope moments 3"}, "a later qkscope wrote it"),
    (METADATA | {"layer": "-1"}, '"layer" is not'),
    (METADATA | {"groups": "65"}, '"groups" is not'),
    (METADATA | {"groups": "1"}, '"groups" is 1'),
    (METADATA | {"groups": "0"}, "does not fit groups = 0"),
    (METADATA | {"groups": "8"}, "16 groups of texts, more than groups = 8"),
    ({"format": METADATA["format"], "groups": "16"}, '"layer" is not'),
])
def test_metadata_that_say_something_else_are_refused(tmp_path, arrays, metadata, reason):
    save_file(arrays, tmp_path / "wrong", metadata)
    error = tool("head", tmp_path / "wrong", "q", 0, fails=True)
    assert reason in error and str(tmp_path / "wrong") in error


def test_a_bit_that_flipped(tmp_path, sound):
    """A number like any other, which the fingerprint tells."""
    whole = sound.read_bytes()
    begin = 8 + int.from_bytes(whole[:8], "little")
    for share in (0, 0.3, 0.6, 1):
        data = bytearray(whole)
        data[begin + int(share * (len(data) - begin - 1))] ^= 1
        (tmp_path / "flipped").write_bytes(data)
        assert "not those that were written" in tool("head", tmp_path / "flipped", "q", 0, fails=True)


def test_what_others_write_is_read(tmp_path, arrays):
    save_file(dict(reversed(arrays.items())), tmp_path / "theirs", METADATA | {"note": "mine"})
    for kind in "qk":
        tool("head", tmp_path / "theirs", kind, 0)
