# SPDX-License-Identifier: Apache-2.0
"""Sums over rows of attention from queries and keys, against NumPy."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
from attention_rows import AT, BINS, SUMS, attention, scores_of, sums_of_text

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build"))


def ask(q, k, scale, window=0, tokens=None):
    parts = [f"rows {len(q)} {q.shape[1]} {scale!r} {window} {int(tokens is not None)}",
             *(repr(float(x)) for x in [*q.ravel(), *k.ravel()]),
             *(str(t) for t in (tokens if tokens is not None else []))]
    found = subprocess.run([BUILD / "tests" / "attention" / "attention_values"], input=" ".join(parts),
                           capture_output=True, text=True)
    if found.returncode:
        return found.stdout.strip()
    return np.array([float(x) for x in found.stdout.split()]).reshape(BINS, SUMS)


@pytest.mark.parametrize("window", [0, 1, 2, 5, 23, 1000])
@pytest.mark.parametrize("scale", [0.0, 0.3, 4.0])
def test_rows(window, scale):
    rng = np.random.default_rng([window, int(10 * scale)])
    q, k = rng.normal(size=(2, 140, 6)).astype(np.float32)
    tokens = rng.integers(0, 9, 140)
    found = ask(q, k, scale, window, tokens)
    want = sums_of_text(attention(q, k, scale, window), tokens, window, scores_of(q, k, scale, window))
    np.testing.assert_allclose(found[:len(want)], want, rtol=1e-9, atol=1e-9)
    assert not found[len(want):].any()
    unknown = ask(q, k, scale, window)
    assert not unknown[:, AT["duplicate_rows"]:AT["far_rows"]].any()
    found[:, AT["duplicate_rows"]:AT["far_rows"]] = 0
    assert (unknown == found).all()


@pytest.mark.parametrize("rows", [1, 2, 4, 8, 9])
def test_short_texts(rows):
    rng = np.random.default_rng(rows)
    q, k = rng.normal(size=(2, rows, 3))
    want = sums_of_text(attention(q, k, 1), np.zeros(rows), scores=scores_of(q, k, 1))
    np.testing.assert_allclose(ask(q, k, 1.0, 0, np.zeros(rows, int))[:len(want)], want, rtol=1e-9, atol=1e-12)
    assert want.sum(0)[AT["far_rows"]] == max(0, rows - 8)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_refuses_what_is_no_number(value):
    q, k = np.ones((2, 20, 2))
    k[7, 1] = value
    assert ask(q, k, 1.0) == "a score of position 7 is not finite"
