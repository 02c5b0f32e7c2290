# SPDX-License-Identifier: Apache-2.0
"""Attention as it is measured in a run, against the definitions in float64 (tests/attention/attention_rows.py) from the
queries and keys of the same run; test_prefill.py has what must not depend on how a run is done."""
import json
import sys

import numpy as np
import pytest

from prefill_runs import GOLDEN, ROOT, prefill, read_attention, start, text

sys.path += [str(ROOT / "tests" / "attention"), str(ROOT / "tests" / "model")]
from attention_rows import AT, LOGIT, LOGIT_MAX, attention, scores_of, sums_of_text  # noqa: E402
from checkpoints import random_tensors, small_config, write_checkpoint  # noqa: E402


def measure(model, sequences, folder, *options):
    """(rows, attention)"""
    file = folder / "attention.bin"
    rows = prefill(model, sequences, folder, f"attention={file}", *options)
    return rows, read_attention(file)


def make_model(folder, heads=6, key_heads=2, dim=16, window=None, size=1.5):
    """Of two layers with random weights. Scores are about `size` apart."""
    config = small_config("mistral" if window else "llama", hidden_size=48, intermediate_size=64, num_hidden_layers=2,
                          num_attention_heads=heads, num_key_value_heads=key_heads, head_dim=dim, sliding_window=window)
    tensors = random_tensors(config)
    for name, values in tensors.items():
        tensors[name] = np.ones_like(values) if "norm" in name else values * np.float32(size if "q_proj" in name else 1)
    write_checkpoint(folder, config, tensors=tensors)
    return folder


def expected_sums(model, sequences, rows, layer, sequence, heads):
    """From the rows that the run itself gave, all key heads among them."""
    config = json.loads((model / "config.json").read_text())
    which, q = rows[layer, "q", 1, sequence]
    _, k = rows[layer, "k", 1, sequence]
    group = config["num_attention_heads"] // config["num_key_value_heads"]
    assert which == heads
    window, tokens = config.get("sliding_window") or 0, np.array(sequences[sequence])
    of = [(q[:, i], k[:, head // group], config["head_dim"] ** -0.5, window) for i, head in enumerate(heads)]
    return np.array([sums_of_text(attention(*own), tokens, window, scores_of(*own)) for own in of])


def check_sums(found, expected, rows, tolerance=1e-6):
    """Each to 1e-6 of what it may be: its rows, or a larger number that it is. Distances suffer most from scores in
    float32."""
    counts = [AT[name] for name in ("rows", "duplicate_rows", "induction_rows", "far_rows")]
    assert (found[..., counts] == expected[..., counts]).all()
    error = np.abs(found - expected) / np.maximum(np.abs(expected), rows[:, None])
    error[..., AT["far_distance"]] /= 2
    score = max(1, np.abs(expected[..., LOGIT_MAX]).max())  # of one row; in a sum some are above 0 and some below
    error[..., LOGIT] = np.abs(found - expected)[..., LOGIT] / rows / score
    error[..., LOGIT_MAX] = np.abs(found - expected)[..., LOGIT_MAX] / score
    assert error.max() < tolerance
    assert (found[..., :LOGIT] >= 0).all()


LENGTHS = (1, 2, 5, 31, 32, 33, 200)


def texts():
    """Of few different tokens, one of a single one, and one that has its first half twice."""
    random = [list(text(n, 50, n)) for n in LENGTHS]
    return [*random, [7] * 150, [*random[-1][:70], *random[-1][:70]]]


@pytest.mark.parametrize("shape, arithmetic", [
    (dict(), []), (dict(window=20), []), (dict(window=1), []), (dict(heads=3, key_heads=1, dim=10, window=100), []),
    (dict(heads=2, key_heads=2, size=15), []), (dict(heads=4), ["bf16-products"]),
    (dict(heads=2, window=60), ["bf16-products"])], ids=str)
def test_sums(shape, arithmetic, tmp_path):
    model, sequences = make_model(tmp_path / "model", **shape), texts()
    rows, measured = measure(model, sequences, tmp_path, "after", *arithmetic)
    assert measured.keys() == {(layer, s) for layer in range(2) for s in range(len(sequences))}
    for (layer, s), (heads, bucket_rows, sums) in measured.items():
        if layer == s % 2:
            expected = expected_sums(model, sequences, rows, layer, s, heads)
            assert bucket_rows.tolist() == expected[0, :, 0].tolist()
            check_sums(sums, expected, bucket_rows)


@pytest.mark.cases(1)
@pytest.mark.parametrize("window", [300, None])
def test_sums_of_a_long_text(window, tmp_path):
    """Blocks of several panels, and several blocks."""
    model, sequences = make_model(tmp_path / "model", heads=1, key_heads=1, window=window), [text(1100, 50)]
    rows, measured = measure(model, sequences, tmp_path, "after")
    heads, bucket_rows, sums = measured[1, 0]
    check_sums(sums, expected_sums(model, sequences, rows, 1, 0, heads), bucket_rows)


# ---- failures ------------------------------------------------------------------------

@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("call, message", [(1, "stopped by its sink"), (2, "cannot write attention"),
                                           (4, "cannot write attention")])
def test_a_call_that_fails(call, message, threads, tmp_path):
    run, _ = start(GOLDEN / "llama", [text(300), text(50)], tmp_path, f"attention={tmp_path / 'a'}",
                   f"attention-stop={call}", f"threads={threads}")
    assert (run.returncode, run.stderr) == (1, message + "\n")
    assert len(read_attention(tmp_path / "a")) == call


def test_nothing_asked_for(tmp_path):
    run, _ = start(GOLDEN / "llama", [text(30)], tmp_path, "none")
    assert run.returncode == 1 and "without a sink" in run.stderr
