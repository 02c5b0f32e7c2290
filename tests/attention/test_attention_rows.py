# SPDX-License-Identifier: Apache-2.0
"""Sums over rows of attention from queries and keys, against NumPy."""
import os
import pathlib
import subprocess

import numpy as np
import pytest
from attention_rows import AT, BINS, SUMS, TOP_OFFSETS, attention, sums_of_text

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
    want = sums_of_text(attention(q, k, scale, window), tokens, window)
    np.testing.assert_allclose(found[:len(want)], want, rtol=1e-9, atol=1e-9)
    assert not found[len(want):].any()
    unknown = ask(q, k, scale, window)
    assert not unknown[:, AT["tokens"]:AT["far_rows"]].any()
    found[:, AT["tokens"]:AT["far_rows"]] = 0
    assert (unknown == found).all()


@pytest.mark.parametrize("rows", [1, 2, 4, 8, 9])
def test_short_texts(rows):
    rng = np.random.default_rng(rows)
    q, k = rng.normal(size=(2, rows, 3))
    want = sums_of_text(attention(q, k, 1), np.zeros(rows))
    np.testing.assert_allclose(ask(q, k, 1.0, 0, np.zeros(rows, int))[:len(want)], want, rtol=1e-9, atol=1e-12)
    assert want.sum(0)[AT["far_rows"]] == max(0, rows - 8)


def test_constant_query_and_key_under_rope():
    """A constant on the 8 fastest of 32 rotary pairs, one token ahead, is a previous-token head: 0.925 to
    0.926 in every row. No turning at all is uniform."""
    theta = 10000 ** (-np.arange(8) / 32)
    t = np.arange(200)[:, None]
    q = 3 * np.hstack([np.cos(theta * (t - 1)), np.sin(theta * (t - 1))])
    k = np.hstack([np.cos(theta * t), np.sin(theta * t)])
    # the query of row t is that of t - 1: its score is largest one token back
    sums = ask(q, k, 1.0)
    score = 3 * np.cos(theta * (1 - np.arange(200)[:, None])).sum(1)
    masses = np.array([np.exp(score[1]) / np.exp(score[:i + 1]).sum() for i in range(1, 200)])
    rows = sums.sum(0)
    assert rows[AT["previous"]] == pytest.approx(masses.sum(), rel=1e-9)
    assert np.abs(masses[4:] - 0.9255).max() < 5e-4
    assert rows[TOP_OFFSETS + 1] + rows[AT["top_sink"]] == 199
    frozen = ask(np.ones((50, 2)), np.ones((50, 2)), 1.0).sum(0)
    assert frozen[AT["entropy"]] == pytest.approx(frozen[AT["visible"]], rel=1e-12)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_refuses_what_is_no_number(value):
    q, k = np.ones((2, 20, 2))
    k[7, 1] = value
    assert ask(q, k, 1.0) == "a score of position 7 is not finite"
