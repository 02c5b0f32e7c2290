# SPDX-License-Identifier: Apache-2.0
"""Kept positions against the rules of the original, written anew in NumPy float32."""
import os
import pathlib
import random
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
MASK = 2**64 - 1


def mix(v):
    v &= MASK
    v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9 & MASK
    v = (v ^ v >> 27) * 0x94D049BB133111EB & MASK
    return v ^ v >> 31


def stream_seed(example_id, layer, kind):
    seed = 0x243F6A8885A308D3
    for value in (example_id, layer, ord(kind)):
        seed = (seed ^ mix(value)) * 0x9E3779B97F4A7C15 & MASK
        seed ^= seed >> 32
    return seed


def words(seed, count):
    """MT19937 seeded by the low half of a number: NumPy's legacy seeding of an integer."""
    return np.random.RandomState(seed & 0xFFFFFFFF).randint(0, 2**32, count, dtype=np.uint32)


def log_bucket(positions, size):
    first = int(np.ceil(np.log2(size)))
    logs = np.floor(np.log2(positions.astype(np.float32) + np.float32(1))).astype(np.int64)
    return np.maximum(logs, first)


def buckets(kind, size, positions):
    if kind == "log_uniform":
        return log_bucket(positions, size)
    return np.floor(positions.astype(np.float32) / np.float32(size)).astype(np.int64)


def kept(kind, rate, size, max_rows, example_id, layer, letter, head, count):
    positions = np.arange(count)
    if kind != "all":
        draws = words(stream_seed(example_id, layer, letter), count)
        r = (draws & 0xFFFFFF).astype(np.float32) * np.float32(2**-24)
        if kind == "uniform":
            threshold = np.float32(min(1.0, rate / size))
        else:
            width = np.exp2(log_bucket(positions, size)).astype(np.float32)
            threshold = np.minimum(np.float32(1), np.float32(rate) / width)
        positions = positions[r < threshold]
    if 0 < max_rows < len(positions):
        seed = (layer & 0xFFFF) ^ (head & 0xFFFF) << 16
        seed ^= ord(letter) << 32 ^ (example_id & 0xFFFFFFFF) << 40
        order = list(positions)
        for i, word in enumerate(words(seed, len(order) - 1).tolist()):
            j = i + word % (len(order) - i)
            order[i], order[j] = order[j], order[i]
        positions = np.array(order[:max_rows])
    return positions


def test_positions_and_buckets():
    rng = random.Random(7)
    cases = []
    for _ in range(1500):
        kind = rng.choice(["log_uniform", "uniform", "all"])
        rate = rng.choice([1.0, 0.5, 4.0, 1 / 3, 0.1, 1e-3, 1000.0, rng.uniform(0.01, 20)])
        size = rng.choice([1, 2, 3, 32, 128, 130, 255, 256, 257, 8192, rng.randrange(1, 5000)])
        example = rng.choice([0, 1, -1, -2**63, 2**63 - 1, rng.randrange(-2**63, 2**63)])
        head = rng.choice([0, 1, 31, 70000])
        count = rng.choice([1, 2, 127, 128, 623, 624, 625, 4096, rng.randrange(1, 3000)])
        cases.append((kind, rate, size, rng.choice([0, 0, 1, 5, 100]), example,
                      rng.randrange(100), rng.choice("qk"), head, count))
    text = "".join(" ".join(map(str, case)) + "\n" for case in cases)
    run = subprocess.run([BUILD / "tests" / "sampler" / "sample_positions"], input=text, text=True,
                         capture_output=True, check=True)
    for line, case in zip(run.stdout.splitlines(), cases, strict=True):
        found = [tuple(map(int, pair.split(":"))) for pair in line.split()]
        wanted = kept(*case)
        assert [p for p, _ in found] == wanted.tolist(), case
        assert [b for _, b in found] == buckets(case[0], case[2], wanted).tolist(), case
