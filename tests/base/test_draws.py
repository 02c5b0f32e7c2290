# SPDX-License-Identifier: Apache-2.0
"""qk__py_sample against the running Python's random.sample, qk__numpy_choice against NumPy's default generator."""
import hashlib
import math
import random
import struct
import subprocess

import numpy as np
from conftest import BUILD, TIER

MANY = {"test": 1, "all": 4, "long": 20}[TIER]
# Published selections: (population, digest of the draws) for 300 draws, seed 0.
DIGESTS = [(512, "20c396c222d926d0"), (672, "449df154c353c01d"), (1024, "c89912ae3a7548d5"), (1280, "d04514564e0cf38a"),
           (832, "8f09f60c21e26804"), (1088, "9be759f562252a9b"), (448, "7f9a16ce2f2ec64b"), (1152, "9c8b9f1ff0551bda"),
           (1600, "ea9d42736ee608bd"), (576, "317c9635c43df1c9")]


def draw(whose, cases):
    text = "".join(f"{whose} {seed} {n} {k}\n" for seed, n, k in cases)
    done = subprocess.run([BUILD / "tests" / "base" / "draws"], input=text, capture_output=True, text=True, check=True)
    return [line if line == "refused" else [int(x) for x in line.split()] for line in done.stdout.splitlines()]


def check_python(cases):
    for numbers, (seed, n, k) in zip(draw("python", cases), cases, strict=True):
        assert numbers == random.Random(seed).sample(range(n), k), (seed, n, k)


def test_published_selections():
    for numbers, (n, digest) in zip(draw("python", [(0, n, 300) for n, _ in DIGESTS]), DIGESTS, strict=True):
        assert hashlib.blake2b(struct.pack("<300I", *numbers), digest_size=8).hexdigest() == digest, n


def test_samples_of_python():
    rng = random.Random(1)
    cases = [(-2**63, 2, 2), (0, 0, 0), (0, 1, 1)]
    for _ in range(150 * MANY):
        seed = rng.choice([0, 1, -5, 2**32 - 1, 2**32, -2**63, 2**63 - 1, rng.randrange(1000), rng.randrange(-2**63, 2**63)])
        n = rng.choice([1, 2, 21, 22, 64, 1045, 1046, 2**32, 2**33 - 1, 2**40, 2**63 - 1, rng.randrange(1, 5000)])
        cases.append((seed, n, rng.randrange(min(n, 400) + 1)))
    check_python(cases)
    assert draw("python", [(0, 1, 2)]) == ["refused"]


def test_samples_on_both_sides_of_the_pool_limit():
    cases = []
    for k in range(1, 600, 20 // MANY):
        limit = 21 + (4 ** math.ceil(math.log(k * 3, 4)) if k > 5 else 0)
        cases += [(k, limit, k), (k, limit + 1, k)]
    check_python(cases)


def check_numpy(cases):
    for numbers, (seed, n, k) in zip(draw("numpy", cases), cases, strict=True):
        assert numbers == sorted(np.random.default_rng(seed).choice(n, min(k, n), replace=False).tolist()), (seed, n, k)


def test_choices_of_numpy():
    """Few of few, few of many (Floyd's sampling), many of many (a shuffle), and their borders."""
    rng = np.random.default_rng(1)
    cases = [(0, 1, 1), (0, 2, 1), (5, 10000, 9999), (5, 10001, 200), (5, 10001, 201), (0, 3, 9),
             (1, 10001, 10000), (7, 10050, 201), (7, 10050, 202), (3, 127, 64), (3, 63, 64)]
    for _ in range(30 * MANY):
        seed = int(rng.choice([0, 1, 42, 2**32 - 1, 2**32, 2**63 - 1, rng.integers(2**31)]))
        n = int(rng.integers(1, 40000))
        cases.append((seed, n, int(rng.integers(1, n + 1))))
    check_numpy(cases)


def test_rejected_draws():
    """Ranges so wide that a draw in some hundred is thrown away."""
    check_numpy([(seed, 30_000_000, 1000) for seed in range(1 if TIER == "test" else 3)])
