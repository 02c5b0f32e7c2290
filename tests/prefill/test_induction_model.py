# SPDX-License-Identifier: Apache-2.0
"""A model that copies, set by hand: a head of layer 0 tells each token which one came before it, and one of layer 1 looks
for the token whose predecessor is the one in hand, and foretells it. So it is known what each change of either must do."""
import csv
import json
import sys

import numpy as np
import pytest
from conftest import ROOT

from branch_reference import NO_SINK, OUTPUT, PROFILE, ROTATION, UNIFORM, WINDOW, change
from test_branches import run

sys.path.append(str(ROOT / "tests" / "attention"))
from hand_set import vocabulary, write_llama  # noqa: E402

WORDS, CODES, DIM, PAIRS = 256, 64, 128, 64
BASE = 1e12  # pairs from 32 on turn by less than 0.001 in a text
CHANCE = np.log(WORDS)
# places in the hidden vector: the token, what is always there, the token before it, and the one that is foretold
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


REPEATS = slice(COPY + 1, COPY * TIMES)  # losses of tokens that can be foretold


def shares(**values):
    """A profile, whatever the row is."""
    made = np.zeros((22, 24))
    for name, value in values.items():
        distance = {"before": 1, "copy": COPY - 1, "copies": 2 * COPY - 1}[name]
        made[:, 2 + distance.bit_length()] = value
    return made


EVERY = np.ones(PAIRS)


@pytest.fixture(scope="module")
def losses(model, tmp_path_factory):
    """{(head, change): (losses, drifts) of tokens that can be foretold}; (): without a change."""
    # where it attends to: the copy before, or both
    profiles = {PREVIOUS: shares(before=1), INDUCTION: shares(copy=0.6, copies=0.4)}
    trials = [(head, name, made) for head in (PREVIOUS, INDUCTION) for name, made in {
        "remove": dict(kind=OUTPUT), "freeze": dict(kind=ROTATION, frozen=EVERY),
        "freeze-fast": dict(kind=ROTATION, frozen=np.arange(PAIRS) < 22),
        "freeze-slow": dict(kind=ROTATION, frozen=np.arange(PAIRS) >= 22), "uniform": dict(kind=UNIFORM),
        "no-sink": dict(kind=NO_SINK),
        "near": dict(kind=WINDOW, window=2), "far": dict(kind=WINDOW, window=COPY), "nearer": dict(kind=WINDOW, window=COPY - 1),
        "profile": dict(kind=PROFILE, values=profiles[head])}.items()]
    folder = tmp_path_factory.mktemp("losses")
    texts, changed = run(model, [made_text(5)], [(0, 0, [change(*head, **made)]) for head, _, made in trials], folder)
    found = {(head, name): tuple(values[REPEATS].astype(float) for values in changed[i][1:])
             for i, (head, name, _) in enumerate(trials)}
    return found | {(): (texts[0][REPEATS].astype(float), None)}


def test_it_copies(losses):
    assert len(losses[()][0]) == COPY * (TIMES - 1) - 1
    assert losses[()][0].max() < 0.02 and losses[()][0].mean() < 0.002


def test_without_the_head_nothing_is_foretold(losses):
    """Without the second head's output all words are alike; without the first's it looks everywhere."""
    np.testing.assert_allclose(losses[INDUCTION, "remove"][0], CHANCE, atol=1e-5)
    assert losses[PREVIOUS, "remove"][0].mean() > CHANCE - 0.5


def test_the_previous_token_head_needs_position_alone(losses):
    """Its profile is all that there is to it."""
    clean = losses[()][0]
    for name in ("freeze", "freeze-fast", "uniform"):
        assert losses[PREVIOUS, name][0].mean() > CHANCE - 0.5, name
    for name in ("profile", "freeze-slow", "near", "far"):
        other, drift = losses[PREVIOUS, name]
        assert np.abs(other - clean).max() < 2e-5 and drift.max() < 2e-5, name


def test_the_induction_head_needs_content_alone(losses):
    """It finds the copy before wherever it stands, and is lost where it must look at places."""
    clean = losses[()][0]
    for name in ("freeze", "freeze-fast", "freeze-slow", "far"):
        other, drift = losses[INDUCTION, name]
        assert np.abs(other - clean).max() < 1e-4 and drift.max() < 1e-6, name
    for name in ("profile", "uniform", "near", "nearer"):
        assert losses[INDUCTION, name][0].mean() > CHANCE - 1, name


def test_without_the_first_keys(losses):
    """Keys 2 and 3 follow the first two tokens of the copy; from the third copy on others do too."""
    more = losses[INDUCTION, "no-sink"][0] - losses[()][0]
    assert more[:2].min() > 1 and np.abs(more[2:]).max() < 1e-4


def test_heads_that_nothing_reads(model, tmp_path):
    """Exactly as it was, whatever is done to them."""
    tokens = made_text(6)
    kinds = [dict(kind=OUTPUT), dict(kind=OUTPUT, values=np.ones(22 * DIM)), dict(kind=ROTATION, frozen=EVERY),
             dict(kind=UNIFORM), dict(kind=ROTATION, positions=np.random.default_rng(1).permutation(len(tokens))), dict(kind=WINDOW, window=3),
             dict(kind=PROFILE, values=shares(before=1)), dict(kind=NO_SINK)]
    branches = [(0, suffix, [change(*head, **made)]) for head in INERT for suffix in (0, 9) for made in kinds]
    texts, changed = run(model, [tokens], branches, tmp_path)
    assert len(changed) == 2 * 2 * len(kinds)
    for first, other, drift in changed.values():
        assert other.tobytes() == texts[0][first:].tobytes() and not drift.any()


# ---- by the command ------------------------------------------------------------------------------

def test_what_ablate_says(qkscope, model, tmp_path):
    """With profiles of the other texts: both sides of both heads. Only tokens that repeat tell."""
    words = vocabulary()
    letters = [chr(code) for code in range(32, 127) if chr(code) in words]
    with open(tmp_path / "texts.jsonl", "w", encoding="utf-8") as file:
        for seed in range(6):
            file.write(json.dumps({"text": "".join(made_text(seed, letters))}) + "\n")
    qkscope("ablate", "-m", model, "-t", tmp_path / "texts.jsonl", "-w", "remove,freeze,profile,uniform,window:2",
            "--no-controls", "-o", tmp_path / "out", "-q", expect=0)
    with open(tmp_path / "out" / "ablation.csv", newline="") as file:
        found = {((int(r["layer"]), int(r["q_head"])), r["what"]): r for r in csv.DictReader(file)}
    assert len(found) == 4 * 5

    def repeated(head, what):
        return float(found[head, what]["repeated"])

    assert repeated(PREVIOUS, "freeze") > CHANCE - 1 and repeated(PREVIOUS, "uniform") > CHANCE - 1
    assert abs(repeated(PREVIOUS, "profile")) < 2e-5 and abs(repeated(PREVIOUS, "window:2")) < 2e-5
    assert repeated(INDUCTION, "remove") == pytest.approx(CHANCE, abs=0.01)
    assert abs(repeated(INDUCTION, "freeze")) < 1e-5
    assert repeated(INDUCTION, "profile") > CHANCE - 1 and repeated(INDUCTION, "window:2") > CHANCE - 1
    for head in INERT:
        for what in ("remove", "freeze", "profile", "uniform", "window:2"):
            row = found[head, what]
            assert row["delta"] == row["drift"] == row["repeated"] == row["novel"] == "0" and row["share"] == ""
