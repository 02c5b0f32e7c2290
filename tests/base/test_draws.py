# SPDX-License-Identifier: Apache-2.0
"""qk__py_sample against the running Python's random.sample."""
import hashlib
import math
import random
import struct
import subprocess

from conftest import BUILD, TIER

MANY = {"test": 1, "all": 4, "long": 20}[TIER]
# Published selections: (population, digest of the draws) for 300 draws, seed 0.
DIGESTS = [(512, "20c396c222d926d0"), (672, "449df154c353c01d"), (1024, "c89912ae3a7548d5"), (1280, "d04514564e0cf38a"),
           (832, "8f09f60c21e26804"), (1088, "9be759f562252a9b"), (448, "7f9a16ce2f2ec64b"), (1152, "9c8b9f1ff0551bda"),
           (1600, "ea9d42736ee608bd"), (576, "317c9635c43df1c9")]


def draw(cases):
    text = "".join(f"{seed} {n} {k}\n" for seed, n, k in cases)
    done = subprocess.run([BUILD / "tests" / "base" / "draws"], input=text, capture_output=True, text=True, check=True)
    return [line if line == "refused" else [int(x) for x in line.split()] for line in done.stdout.splitlines()]


def check(cases):
    for numbers, (seed, n, k) in zip(draw(cases), cases, strict=True):
        assert numbers == random.Random(seed).sample(range(n), k), (seed, n, k)


def test_published_selections():
    for numbers, (n, digest) in zip(draw([(0, n, 300) for n, _ in DIGESTS]), DIGESTS, strict=True):
        assert hashlib.blake2b(struct.pack("<300I", *numbers), digest_size=8).hexdigest() == digest, n


def test_samples_of_python():
    rng = random.Random(1)
    cases = [(-2**63, 2, 2), (0, 0, 0), (0, 1, 1)]
    for _ in range(150 * MANY):
        seed = rng.choice([0, 1, -5, 2**32 - 1, 2**32, -2**63, 2**63 - 1, rng.randrange(1000), rng.randrange(-2**63, 2**63)])
        n = rng.choice([1, 2, 21, 22, 64, 1045, 1046, 2**32, 2**33 - 1, 2**40, 2**63 - 1, rng.randrange(1, 5000)])
        cases.append((seed, n, rng.randrange(min(n, 400) + 1)))
    check(cases)
    assert draw([(0, 1, 2)]) == ["refused"]


def test_samples_on_both_sides_of_the_pool_limit():
    cases = []
    for k in range(1, 600, 20 // MANY):
        limit = 21 + (4 ** math.ceil(math.log(k * 3, 4)) if k > 5 else 0)
        cases += [(k, limit, k), (k, limit + 1, k)]
    check(cases)
