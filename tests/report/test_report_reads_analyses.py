# SPDX-License-Identifier: Apache-2.0
"""report reads whatever analyze writes: buckets, positions and texts of any 64-bit numbers, and captures
in which there is next to nothing."""
import csv

import numpy as np
import pytest

from conftest import check_tables, head_name, last_run, write_rows

BIG = 2**63 - 1


def head(seed, rows=200, dim=8, texts=4, width=10, **changes):
    """Rows of `texts` texts, whose vectors drift with position, in buckets of `width` tokens."""
    rng = np.random.default_rng(seed)
    at = np.arange(rows) % (rows // texts)
    drift = at[:, None] / at.max() * rng.standard_normal(dim) if rows > texts else 0
    columns = {"vector": (rng.standard_normal((rows, dim)) + drift).astype(np.float32),
               "position": at.astype(np.int64), "bucket": at // width,
               "example_id": np.arange(rows) // (rows // texts)}
    for name, change in changes.items():
        columns[name] = change(columns[name])
    return columns


def spread(low, high):
    """The numbers of a column put into a range, in order, without leaving 64 bits."""
    def change(values):
        values = values.astype(np.float64) / max(values.max(), 1)
        return np.array([low + int(v * 2**40) * (high - low) // 2**40 for v in values], np.int64)
    return change


CASES = {
    "buckets beyond 2^31": {"bucket": lambda b: b * 10**17},
    "buckets of all 64 bits": {"bucket": spread(-BIG - 1, BIG)},
    "one bucket of the largest number": {"bucket": lambda b: np.full_like(b, BIG)},
    "negative buckets": {"bucket": lambda b: b - 100},
    "descending buckets": {"bucket": lambda b: b.max() - b},
    "negative positions": {"position": lambda p: p - 1000},
    "descending positions": {"position": lambda p: -10 * p},
    "positions about 0": {"position": lambda p: p - 25},
    "positions near the end of 64 bits": {"position": lambda p: p + BIG - 1000},
    "positions of all 64 bits": {"position": spread(-BIG - 1, BIG)},
    "positions far apart": {"position": lambda p: p * 10**16},
    "one position": {"position": lambda p: p * 0 + 7},
    "texts of any number": {"example_id": spread(-BIG - 1, BIG)},
    "one text": {"texts": 1},
    "a text a row": {"example_id": lambda e: np.arange(len(e))},
    "one bucket": {"width": 1000},
    "a bucket a row": {"width": 1},
    "two dimensions": {"dim": 2},
    "one dimension": {"dim": 1},
    "few rows": {"rows": 4, "texts": 1, "width": 2},
    "windows": {"sliding_window": None},
    "large numbers": {"vector": lambda v: v * np.float32(1e15)},
    "small numbers": {"vector": lambda v: v * np.float32(1e-18)},
    "float64": {"vector": lambda v: v.astype(np.float64)},
    "equal dimensions": {"vector": lambda v: np.repeat(v[:, :1], v.shape[1], axis=1)},
}

# Neighbours there are one number in double precision.
WITHOUT_DRIFT = {"one position", "positions near the end of 64 bits"}


def check_report(qkscope, capture, folder, *options):
    qkscope("analyze", capture, "-o", folder, *options, expect=0)
    check_tables(folder)
    outcome = qkscope("report", folder, "--json", expect=0)
    assert outcome.err == ""
    drawn = {p.stem for p in (folder / "figures").glob("*.svg")}
    assert len(drawn) >= 5 and (folder / "report.html").stat().st_size > 10_000
    return drawn


@pytest.mark.cases(8)
@pytest.mark.parametrize("case", CASES)
def test_one_head(qkscope, tmp_path, case):
    """One head of queries and one of keys."""
    changes = dict(CASES[case])
    if "sliding_window" in changes:
        changes = {}
    for seed, kind in enumerate("qk"):
        columns = head(seed, **changes)
        if case == "windows":
            columns["sliding_window"] = np.full(200, 2**40)
        write_rows(tmp_path / "c", head_name(0, 0, kind), columns)
    drawn = check_report(qkscope, tmp_path / "c", tmp_path / "o")
    with open(tmp_path / "o" / "head_profile.csv", newline="") as file:
        known = any(row["ap"] for row in csv.DictReader(file))
    assert any("profiles" in name for name in drawn) == known
    with open(tmp_path / "o" / "rotated.csv", newline="") as file:
        drifts = any(row["bias_strength"] for row in csv.DictReader(file))
    assert any(name.startswith("rotation") for name in drawn) == drifts
    assert drifts or case in WITHOUT_DRIFT


def test_many_heads_of_odd_numbers(qkscope, tmp_path):
    """Heads that share no bucket, with intervals, the complement and components cut."""
    for layer in range(3):
        for kind in "qk":
            for number in range(2):
                write_rows(tmp_path / "c", head_name(layer, number, kind), head(
                    layer * 10 + number, bucket=lambda b: b + layer * 2**61,
                    position=lambda p: p - layer * 10**6))
    drawn = check_report(qkscope, tmp_path / "c", tmp_path / "o", "--ci", "95", "--complement",
                         "--components", "2", "--q-per-kv-group", "1")
    assert len(drawn) >= 14
    assert len(last_run(tmp_path / "o")["failures"]) == 0
