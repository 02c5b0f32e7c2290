# SPDX-License-Identifier: Apache-2.0
"""Which positions are kept, and what texts are called, from Python: against the rules of the original in NumPy."""
import hashlib
import random
import sys

import numpy as np
import pytest

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from conftest import ROOT  # noqa: E402

sys.path.append(str(ROOT / "tests" / "sampler"))
import test_sampler_oracle as oracle  # noqa: E402


def test_positions_and_buckets():
    chance = random.Random(11)
    for _ in range(300):
        kind = chance.choice(["log_uniform", "uniform", "all"])
        rate = chance.choice([1.0, 0.5, 4.0, 1 / 3, 0.1, 1000.0])
        size, rows = chance.choice([1, 2, 32, 128, 130, 257]), chance.choice([0, 0, 1, 5, 100])
        example, layer = chance.choice([0, -1, -2**63, 2**63 - 1, chance.randrange(2**62)]), chance.randrange(100)
        letter, head, tokens = chance.choice("qk"), chance.choice([0, 1, 31]), chance.choice([0, 1, 128, 625, 3000])
        sampler = qk.Sampler(kind, rate, size, rows)
        found = sampler.positions(example, layer, letter, tokens, head)
        right = oracle.kept(kind, rate, size, rows, example, layer, letter, head, tokens)
        assert isinstance(found, memoryview) and np.asarray(found).dtype == np.int64
        assert found.tolist() == right.tolist(), (sampler, example, layer, letter, head, tokens)
        buckets = oracle.buckets(kind, size, right)
        assert sampler.buckets(found).tolist() == buckets.tolist() == [sampler.bucket(t) for t in right.tolist()]
        assert sampler.bucket_size == (2 ** int(np.ceil(np.log2(size))) if kind == "log_uniform" else size)


def test_what_buckets_take():
    sampler = qk.Sampler("uniform", 1, 10)
    for positions in ([5, 25, 5], (5, 25, 5), np.array([5, 25, 5]), np.array([5, 9, 25, 9, 5], np.int16)[::2]):
        assert sampler.buckets(positions).tolist() == [0, 2, 0]
    assert sampler.buckets([]).tolist() == [] and sampler.buckets(range(0, 30, 10)).tolist() == [0, 1, 2]
    for positions, words in (([-1], "positions is an array with -1; wanted is numbers of at least 0"), ([0.5], "not a list of integers"), ([[1]], "not a list of integers"),
                             (np.ones((2, 2), int), "is an array"), (3, "is a int")):
        with pytest.raises(qk.ArgumentError, match=words):
            sampler.buckets(positions)


def test_samplers_are_values():
    assert qk.Sampler("uniform", 2) == qk.Sampler("uniform", 2.0) != qk.Sampler("uniform", 3)
    assert len({qk.Sampler(), qk.Sampler("all")}) == 1
    assert str(qk.Sampler("log_uniform", 0.5, 130)) == "log_uniform, 0.5 of 256"
    for arguments, words in ((("some",), "'some' is none of log_uniform, uniform, all"),
                             (("uniform", -1), "base rate of -1"), (("uniform", float("nan")), "base rate of nan"),
                             (("uniform", 1, 0), "minimum bucket size is 0"), (("all", 1, 2**41), "bucket size is")):
        with pytest.raises(qk.ArgumentError, match=words):
            qk.Sampler(*arguments)
    for arguments, words in (((0, 0, "x", 5), "kind is 'x'"), ((0, 0, "q", -5), "tokens is -5"),
                             (("a", 0, "q", 5), "example_id is 'a'"),
                             ((2**63, 0, "q", 5), "example_id is 9223372036854775808"),
                             ((0, 0.5, "q", 5), "layer is 0.5")):
        with pytest.raises(qk.ArgumentError, match=words):
            qk.Sampler().positions(*arguments)


def test_ids_of_texts():
    """An integer of 64 bits is itself; what else there is is hashed as Python writes it."""
    def hashed(text):
        return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little",
                              signed=True)
    for value in (0, -5, 2**63 - 1, -2**63):
        assert qk.example_id(value) == value
    assert qk.example_id(True) == 1 and qk.example_id(np.int32(7)) == 7 and qk.example_id(np.uint64(8)) == 8
    assert qk.example_id(3.0) == 3 and qk.example_id(-2.0) == -2
    for value in ("", "17", "Genesis 1", "naïve \U0001f600", 0.5, 2**63, 2**70, -2**63 - 1, None, float("nan"),
                  float("-inf"), (1, "a"), np.float64(0.25).item()):
        assert qk.example_id(value) == hashed(str(value)), value
    assert qk.example_id(1e300) == hashed(str(int(1e300)))  # whole, and too large
