# SPDX-License-Identifier: Apache-2.0
"""A model of two layers whose weights are set by hand, so that it is known what each head attends to: the names
are found, from sums that the prefill forms."""
import csv
import json

import numpy as np
import pytest
from hand_set import vocabulary, write_llama

LETTERS = "abcdefghijkl"  # of which texts are, after a first '#'
TEXTS, LENGTH = 10, 120
DIM, PAIRS, HEADS = 64, 32, 5
BASE = 1e8  # pairs from 16 on turn by less than 0.02 in a text
HIDDEN = DIM * HEADS
# places in the hidden vector: the token's letter, its mark as the first one, what is always there, and the
# letter of the token before it
CODE, FIRST, ALWAYS, BEFORE = slice(0, 12), 12, 13, slice(14, 26)
FROZEN = slice(16, 28)  # pairs that hold letters


def always(values):
    """A vector of the head that comes from what is always there."""
    w = np.zeros((DIM, HIDDEN), np.float32)
    w[:, ALWAYS] = values
    return w


def letters(place, size):
    """The letter at that place of the hidden vector, in pairs that do not turn."""
    w = np.zeros((DIM, HIDDEN), np.float32)
    w[FROZEN, place] = size * np.eye(12)
    return w


def write_model(folder):
    theta = BASE ** (-np.arange(PAIRS) / PAIRS)
    ahead, back = np.zeros(DIM), np.zeros(DIM)
    fast = np.arange(5)  # turns by 1 to 0.1 a token
    # turned at position i, the query is as the key at i - 1
    ahead[fast], ahead[PAIRS + fast] = np.cos(theta[fast]), -np.sin(theta[fast])
    back[fast] = 1
    sink, always_on = np.zeros((DIM, HIDDEN), np.float32), np.zeros(DIM)
    sink[PAIRS - 1, FIRST], always_on[PAIRS - 1] = 8, 8
    nothing = np.zeros((DIM, HIDDEN), np.float32)
    mover = np.zeros((DIM, HIDDEN), np.float32)  # values: the letter
    mover[:12, CODE] = np.eye(12)
    layers = [[(always(12 * ahead), always(12 * back), mover), (letters(CODE, 8), letters(CODE, 8), nothing),
               (always(always_on), sink, nothing), (nothing, nothing, nothing), (nothing, nothing, nothing)],
              [(nothing, nothing, nothing)] * 3 + [(letters(CODE, 10), letters(BEFORE, 10), nothing), (nothing, nothing, nothing)]]
    embedding, words = np.zeros((256, HIDDEN)), vocabulary()
    for i, letter in enumerate(LETTERS):
        embedding[words[letter], i] = 1
    embedding[words["#"], FIRST] = 1
    embedding[:, ALWAYS] = 1
    out = np.zeros((HIDDEN, HIDDEN))
    out[BEFORE, :12] = np.eye(12)  # of the first head
    layers = [([tuple(w / np.sqrt(HIDDEN / 2) for w in head) for head in heads], out) for heads in layers]
    write_llama(folder, layers, embedding, BASE)


@pytest.fixture(scope="module")
def heads(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("constructed")
    write_model(folder / "model")
    rng = np.random.default_rng(8)
    texts = ["#" + "".join(rng.choice(list(LETTERS), LENGTH)) for _ in range(TEXTS)]
    (folder / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    qkscope("capture", "-m", folder / "model", "-t", folder / "texts.jsonl", "-o", folder / "capture", "--keep",
            "rows,attention", "-q", expect=0)
    qkscope("attention", folder / "capture", "-o", folder / "results", "--ci", "95", "-q", expect=0)
    with open(folder / "results" / "attention.csv", newline="") as file:
        return texts, {(int(r["layer"]), int(r["q_head"])): r for r in csv.DictReader(file)}


def test_names(heads):
    _, rows = heads
    assert {place: row["names"] for place, row in rows.items()} == {
        (0, 0): "previous-token local", (0, 1): "duplicate-token", (0, 2): "sink", (0, 3): "uniform", (0, 4): "uniform",
        (1, 0): "uniform", (1, 1): "uniform", (1, 2): "uniform", (1, 3): "induction", (1, 4): "uniform"}


def test_masses(heads):
    """Of the uniform head to rounding; of the others what their weights say, where a row has what they look for."""
    texts, rows = heads
    keys = np.arange(1, LENGTH + 2)
    uniform = rows[0, 3]
    assert float(uniform["sink_mass"]) == pytest.approx((1 / keys).mean(), abs=1e-7)
    assert abs(float(uniform["information"])) < 1e-6
    assert float(rows[0, 2]["sink_mass"]) > 0.97
    assert float(rows[0, 0]["previous_mass"]) > 0.97
    # a row shares its weight among the copies, itself among them
    copies = [text[:i].count(letter) / text[:i + 1].count(letter) for text in texts for i, letter in enumerate(text)
              if letter in text[:i]]
    assert float(rows[0, 1]["duplicate_mass"]) == pytest.approx(np.mean(copies), abs=0.01)
    assert float(rows[1, 3]["induction_mass"]) > 0.95
    # the mean query and key, turned by the distance, are all that there is to a head that attends by position
    assert float(rows[0, 0]["means_r2"]) > 1 - 1e-6
    assert float(rows[0, 0]["distance_share"]) > 0.999
    assert abs(float(rows[1, 3]["distance_share"])) < 0.1
