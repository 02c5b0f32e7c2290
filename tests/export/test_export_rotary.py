# SPDX-License-Identifier: Apache-2.0
"""Mean queries by rotary pair, and the mean of their lengths: against NumPy on the rows, from rows and from moments."""
from pathlib import Path

import numpy as np
import pytest
from conftest import head_name
from export_oracle import FREQUENCIES, LAYERS, QUERIES, make_heads, rows_from, write_capture

pytest.importorskip("qkscope", reason="the Python package is not in this build")

from qkscope.export._request import Request  # noqa: E402
from qkscope.export._rotary import rotary  # noqa: E402


def request_of(source, **of_capture):
    return Request(source, Path("nowhere"), "", None, 128, 256, 500, of_capture, False)


def pairs_of(rows, count, interleaved):
    """[n][d] to [n][count][2]: real, imaginary."""
    if interleaved:
        return rows[:, :2 * count].reshape(len(rows), count, 2)
    return np.stack([rows[:, :count], rows[:, count:2 * count]], 2)


@pytest.mark.parametrize("first", [None, 9])
@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_from_rows(tmp_path, pairing, first):
    heads = make_heads()
    frequencies = {0: FREQUENCIES, 1: FREQUENCIES[:3]}
    write_capture(tmp_path, heads, rope={"type": "yarn", "theta": 5e5, "pairing": pairing, "frequencies": {
        str(layer): values for layer, values in frequencies.items()}}, run={"model": {"architecture": "qwen3"}})
    found = rotary(request_of(tmp_path, **{"from-position": first}))
    assert (found.rope.architecture, found.rope.type, found.rope.theta, found.heads.texts) == ("qwen3", "yarn", 5e5, 3)
    for layer in range(LAYERS):
        of = found.layers[layer]
        assert of.rotation.frequencies == tuple(frequencies[layer])
        for head in range(QUERIES):
            z = pairs_of(rows_from(heads[head_name(layer, head, "q")], first or 0), len(frequencies[layer]), pairing == "interleaved")
            mean = z.mean(0)
            np.testing.assert_allclose(of.mean[head], mean[:, 0] + 1j * mean[:, 1], rtol=1e-12)
            np.testing.assert_allclose(of.length[head], np.hypot(z[..., 0], z[..., 1]).mean(0), rtol=1e-12)
