# SPDX-License-Identifier: Apache-2.0
"""Memory does not follow the number of rows: one row group of 800,000 rows takes no more than
8,000 rows do."""
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
sys.path.insert(0, str(ROOT / "bench"))

import make_capture
from timed import timed


def test_peak_memory_is_bounded(tmp_path):
    if b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes():
        pytest.skip("sanitizers keep freed memory")
    peaks = {}
    for rows in (8_000, 800_000):
        capture = tmp_path / str(rows)
        for name in ("l00h00q", "l00h00k"):
            make_capture.write_head(capture / name / "data.parquet", rows, 128, rows,
                                    big_table=True)
        peaks[rows] = timed(BUILD, [BUILD / "qkscope", "pca", capture, "-o", tmp_path / "out",
                             "--threads", "2", "--quiet"])[1]
    print(peaks)
    assert max(peaks.values()) < 200
    assert peaks[800_000] < 1.2 * peaks[8_000]
