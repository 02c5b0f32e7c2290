# SPDX-License-Identifier: Apache-2.0
"""Probabilities of categories are right as often as they say, where truth is known (clustered_texts.py).
bench/calibration.py has more heads, and the table of docs/dev/validation.md."""
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import head_name, read_csv, write_rows

pytestmark = pytest.mark.test_all
pytest.importorskip("pyarrow")
sys.path.insert(0, str(Path(__file__).parent))
import clustered_texts  # noqa: E402


@pytest.mark.parametrize("kind", clustered_texts.KINDS)
def test_probabilities_are_right_as_often_as_they_say(qkscope, tmp_path, kind):
    rng, truth, texts = np.random.default_rng(20), [], 20
    for head, (category, q, k) in enumerate(clustered_texts.heads(rng, kind, 120, texts)):
        truth.append(category)
        for name, x in ("q", q), ("k", k):
            write_rows(tmp_path / "c", head_name(0, head, name), clustered_texts.columns(x, texts))
    qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", "--q-per-kv-group", 1, expect=0)
    table = read_csv(tmp_path / "out" / "heads.csv")
    for heads, said, right in clustered_texts.judge(table, truth):
        assert heads >= 10
        # three standard errors of a share of so many heads
        assert abs(right - said) < 3 * np.sqrt(max(said * (1 - said), 0.01) / heads)
