# SPDX-License-Identifier: Apache-2.0
"""qkscope ablate of a model that copies, set by hand: a head of layer 0 tells each token which one came before it, and one of layer 1 looks
for the token whose predecessor is the one in hand, and predicts it. So it is known what each change of either must do."""
import csv
import json
import sys

import numpy as np
import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "attention"))
from hand_set import vocabulary, write_llama  # noqa: E402

WORDS, CODES, DIM, PAIRS = 256, 64, 128, 64
BASE = 1e12  # pairs from 32 on turn by less than 0.001 in a text
CHANCE = np.log(WORDS)
# places in the hidden vector: the token, what is always there, the token before it, and the one that is predicted
TOKEN, ALWAYS, BEFORE, NEXT = slice(0, CODES), CODES, slice(65, 65 + CODES), slice(129, 129 + CODES)
HIDDEN = 200
SLOW = np.r_[32:64, 96:128]  # features of pairs that do not turn, as many as a code has
PREVIOUS, INDUCTION, INERT = (0, 0), (1, 1), [(0, 1), (1, 0)]
COPY, TIMES = 60, 3


def at_place(place, size, features=SLOW):
    """Features of a head that are what stands at a place of the hidden vector."""
    w = np.zeros((DIM, HIDDEN))
    w[features, place] = size * np.eye(CODES)
    return w


def by_place(size):
    """Queries and keys that are the same for all tokens: turned, a query is as the key of the token before."""
    theta, fast = BASE ** (-np.arange(PAIRS) / PAIRS), np.arange(6)
    q, k = np.zeros((2, DIM, HIDDEN))
    q[fast, ALWAYS], q[PAIRS + fast, ALWAYS], k[fast, ALWAYS] = size * np.cos(theta[fast]), -size * np.sin(theta[fast]), size
    return q, k


def write_model(folder):
    random = np.random.default_rng(4)
    codes = random.choice([-1.0, 1.0], (WORDS, CODES)) / np.sqrt(CODES)
    embedding, output = np.zeros((2, WORDS, HIDDEN))
    embedding[:, TOKEN], embedding[:, ALWAYS] = codes, 1
    output[:, NEXT] = codes * 15 / np.sqrt(HIDDEN / 4)
    value = at_place(TOKEN, 1, np.arange(CODES))
    first, second = np.zeros((2, HIDDEN, 2 * DIM))
    first[BEFORE, :CODES] = np.eye(CODES)  # of head 0; nothing reads what head 1 puts out
    second[NEXT, DIM:DIM + CODES] = np.eye(CODES)  # of head 1

    def scaled(head, parts):  # vectors have so many parts of length 1, which the norm makes HIDDEN together
        return tuple(w / np.sqrt(HIDDEN / parts) for w in head)

    inert = tuple(random.standard_normal((3, DIM, HIDDEN)))
    write_llama(folder, [([scaled((*by_place(25), value), 2), inert], first),
                         ([inert, scaled((at_place(TOKEN, 24), at_place(BEFORE, 24), value), 3)], second)],
                embedding, BASE, output)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("induction") / "model"
    write_model(folder)
    return folder


def made_text(seed, words=np.arange(WORDS)):
    """Tokens that are all different, three times, behind another one: the first has none before it but itself."""
    first, *copy = np.random.default_rng(seed).permutation(words)[:COPY + 1]
    return [first, *copy * TIMES]


WHATS = ["remove", "freeze", "freeze:fast", "freeze:slow", "profile", "uniform", "window:2", f"window:{COPY - 1}", f"window:{COPY}"]


def test_what_ablate_says(qkscope, model, tmp_path):
    """With profiles of the other texts: both sides of both heads. Only tokens that repeat tell. The first head needs position
    alone, and its profile is all that there is to it; the second finds the copy before wherever it stands, and is lost where it
    must look at places."""
    words = vocabulary()
    letters = [chr(code) for code in range(32, 127) if chr(code) in words]
    with open(tmp_path / "texts.jsonl", "w", encoding="utf-8") as file:
        for seed in range(6):
            file.write(json.dumps({"text": "".join(made_text(seed, letters))}) + "\n")
    qkscope("ablate", "-m", model, "-t", tmp_path / "texts.jsonl", "-w", ",".join(WHATS), "--no-controls",
            "-o", tmp_path / "out", "-q", expect=0)
    with open(tmp_path / "out" / "ablation.csv", newline="") as file:
        found = {((int(r["layer"]), int(r["q_head"])), r["what"]): r for r in csv.DictReader(file)}
    assert len(found) == 4 * len(WHATS)
    for head, needed, rest in ((PREVIOUS, {"freeze", "freeze:fast", "uniform"}, 2e-5),
                               (INDUCTION, {"profile", "uniform", "window:2", f"window:{COPY - 1}"}, 1e-5)):
        for what in WHATS:
            repeated = float(found[head, what]["repeated"])
            assert repeated > CHANCE - 1 if what in needed | {"remove"} else abs(repeated) < rest, (head, what)
    assert float(found[INDUCTION, "remove"]["repeated"]) == pytest.approx(CHANCE, abs=0.01)
    for head in INERT:
        for what in WHATS:
            row = found[head, what]
            assert row["delta"] == row["drift"] == row["repeated"] == row["novel"] == "0" and row["share"] == ""
