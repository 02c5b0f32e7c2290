# SPDX-License-Identifier: Apache-2.0
"""qk__py_sample against the running Python's random.sample."""
import hashlib
import math
import os
import pathlib
import random
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))

# (population, digest of the draws, digest of the sorted draws) for 300 draws, seed 0
DIGESTS = [
    (512, "20c396c222d926d0", "0f95c7e443b058fa"),
    (672, "449df154c353c01d", "5263169798d62847"),
    (1024, "c89912ae3a7548d5", "9061bd8af5c3777b"),
    (1280, "d04514564e0cf38a", "24b8f65118acade4"),
    (832, "8f09f60c21e26804", "353e4fecbdddcad4"),
    (1088, "9be759f562252a9b", "19acf84392846e35"),
    (448, "7f9a16ce2f2ec64b", "3d309ddad2f465ba"),
    (1152, "9c8b9f1ff0551bda", "51ba16a76bb9e696"),
    (1600, "ea9d42736ee608bd", "784bb03dc13f4925"),
    (576, "317c9635c43df1c9", "98565a6eaf276441"),
]


def sample(cases):
    text = "".join(f"{seed} {n} {k}\n" for seed, n, k in cases)
    result = subprocess.run([BUILD / "tests" / "base" / "py_sample"], input=text,
                            capture_output=True, text=True, check=True)
    return [[int(x) for x in line.split()] for line in result.stdout.splitlines()]


def digest(numbers):
    return hashlib.blake2b(struct.pack(f"<{len(numbers)}I", *numbers), digest_size=8).hexdigest()


def test_published_selections():
    drawn = sample([(0, n, 300) for n, _, _ in DIGESTS])
    for numbers, (n, order, ordered) in zip(drawn, DIGESTS, strict=True):
        assert (digest(numbers), digest(sorted(numbers))) == (order, ordered), n


def test_random_cases():
    rng = random.Random(1)
    cases = []
    for _ in range(2000):
        seed = rng.choice([0, 1, -5, 2**32 - 1, 2**32, -2**63, 2**63 - 1, rng.randrange(1000),
                           rng.randrange(-2**63, 2**63)])
        n = rng.choice([1, 2, 21, 22, 64, 1045, 1046, 2**32, 2**33 - 1, 2**40, 2**63 - 1,
                        rng.randrange(1, 5000)])
        cases.append((seed, n, rng.randrange(min(n, 400) + 1)))
    for numbers, (seed, n, k) in zip(sample(cases), cases, strict=True):
        assert numbers == random.Random(seed).sample(range(n), k), (seed, n, k)


def test_on_both_sides_of_the_pool_limit():
    cases = []
    for k in range(1, 600):
        limit = 21 + (4 ** math.ceil(math.log(k * 3, 4)) if k > 5 else 0)
        cases += [(k, limit, k), (k, limit + 1, k)]
    for numbers, (seed, n, k) in zip(sample(cases), cases, strict=True):
        assert numbers == random.Random(seed).sample(range(n), k), (seed, n, k)
