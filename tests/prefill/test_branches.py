# SPDX-License-Identifier: Apache-2.0
"""Branches of a run: heads that are changed, against whole forwards in NumPy; changes that change nothing; what must
not change the bytes."""
import json
import shutil

import numpy as np
import pytest

from branch_reference import (DIRECTION, NO_SINK, OUTPUT, PROFILE, ROTATION, UNIFORM, WINDOW, Llama, change,
                              write_branches)
from prefill_runs import CASES, GOLDEN, STEP, read_losses, start, text

RANDOM = np.random.default_rng(7)
UNIT = RANDOM.standard_normal(32)
UNIT /= np.linalg.norm(UNIT)
PROFILES = RANDOM.random((22, 24)) ** 3


def run(model, sequences, branches, folder, *options):
    write_branches(folder / "branches.txt", branches)
    done, _ = start(model, sequences, folder, "none", f"loss={folder / 'loss.bin'}",
                    f"branches={folder / 'branches.txt'}", *options)
    assert done.returncode == 0, done.stderr
    changed = {}
    return read_losses(folder / "loss.bin", changed), changed


def permuted(n, block, seed=3):
    random = np.random.default_rng(seed)
    return np.concatenate([at + random.permutation(min(block, n - at)) for at in range(0, n, block)])


def each_kind(n, layer, head):
    at = layer, head
    return {
        "remove": change(*at, OUTPUT),
        "mean": change(*at, OUTPUT, values=np.linspace(-1, 1, 22 * 32)),
        "freeze": change(*at, ROTATION, frozen=np.ones(16)),
        "freeze-slow": change(*at, ROTATION, frozen=np.arange(16) >= 11),
        "freeze-keeping-first": change(*at, ROTATION, frozen=np.ones(16), keep_first=1),
        "shuffle": change(*at, ROTATION, positions=permuted(n, 64)),
        "profile": change(*at, PROFILE, values=PROFILES),
        "window": change(*at, WINDOW, window=20),
        "window-sinks": change(*at, WINDOW, window=20, kept=4),
        "no-sink": change(*at, NO_SINK),
        "uniform": change(*at, UNIFORM),
        "direction": change(*at, DIRECTION, part=1, values=UNIT),
        "half": change(*at, DIRECTION, part=0.5, values=UNIT, keep_first=1),
    }


# ---- against NumPy ------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def llama():
    return Llama(STEP)


@pytest.mark.parametrize("suffix, turn", [(0, 0), (37, 1), (0, 1), (37, 2)])
def test_each_change(llama, suffix, turn, tmp_path):
    """Each kind in the first, a middle or the last layer; and several heads at once, in three layers."""
    tokens, places = text(203, 256), [(0, 3), (2, 0), (4, 1)]
    kinds = [[list(each_kind(203, *place).values()) for place in places][(i + turn) % 3][i] for i in range(13)]
    sets = [[c] for c in sorted(kinds, key=lambda c: c["layer"])]
    sets.insert(4, [each_kind(203, 0, 1)["freeze"], each_kind(203, 2, 3)["shuffle"], each_kind(203, 2, 0)["window"],
                    each_kind(203, 4, 2)["freeze-keeping-first"]])
    texts, changed = run(STEP, [text(90, 256, 5), tokens], [(1, suffix, c) for c in sets], tmp_path)
    clean = llama.log_probabilities(tokens)
    rows = np.arange(203 - suffix if suffix else 0, 202)
    np.testing.assert_allclose(texts[1], -clean[np.arange(202), tokens[1:]], atol=3e-5)
    for i, changes in enumerate(sets):
        first, losses, drift = changed[i]
        assert first == rows[0] and len(losses) == len(rows)
        own = llama.log_probabilities(tokens, changes, suffix)
        expected = -own[rows, np.asarray(tokens)[rows + 1]]
        np.testing.assert_allclose(losses, expected, atol=5e-5, err_msg=str(changes))
        assert abs(losses.mean(dtype=float) - expected.mean()) < 1e-6 * expected.mean()
        far = (np.exp(clean) * (clean - own)).sum(axis=1)[rows]
        np.testing.assert_allclose(drift, far, atol=2e-5, err_msg=str(changes))
        assert np.abs(losses - texts[1][rows]).max() > 1e-4, "the change changes nothing"


# ---- nothing changes ----------------------------------------------------------------------------

@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("options", [[], ["bf16-products"], ["f16"]], ids=str)
def test_changes_that_change_nothing(case, options, tmp_path):
    """To the last bit, whatever the model is: with windows, biases, rotations of many kinds; and losses that are finite."""
    config = json.loads((GOLDEN / case / "config.json").read_text())
    known = config.get("text_config", config)
    config["tie_word_embeddings"] = known["tie_word_embeddings"] = True
    model = tmp_path / "model"
    shutil.copytree(GOLDEN / case, model)
    (model / "config.json").write_text(json.dumps(config))
    heads = known["num_attention_heads"]
    width = known.get("head_dim") or known["hidden_size"] // heads
    n, layers = 145, known["num_hidden_layers"]
    skipped = known.get("cross_attention_layers", [])
    sequences, branches = [text(n, 40), text(33, 40, 2)], []
    for layer in (i for i in range(layers) if i not in skipped):
        for suffix in (0, 10):
            at = layer, heads - 1
            branches += [(0, suffix, [c]) for c in (
                change(*at, ROTATION), change(*at, ROTATION, frozen=np.zeros(width)),
                change(*at, ROTATION, positions=np.arange(n), keep_first=1), change(*at, WINDOW, window=n),
                change(*at, WINDOW, window=1, kept=n),
                change(*at, DIRECTION, part=0, values=np.ones(width)))]
            branches.append((1, suffix, [change(*at, ROTATION, positions=np.arange(33))]))
    texts, changed = run(model, sequences, branches, tmp_path, *options)
    assert len(changed) == len(branches)
    for i, (first, losses, drift) in changed.items():
        assert losses.tobytes() == texts[branches[i][0]][first:].tobytes(), branches[i]
        assert np.isfinite(losses).all() and (losses > 0).all()
        assert not drift.any(), branches[i]


@pytest.mark.release
@pytest.mark.parametrize("arithmetic", [[], ["bf16-products"], ["bf16"]], ids=str)
def test_the_same_bytes(arithmetic, tmp_path):
    """Whatever the number of threads, and whichever branches and texts are beside one."""
    sequences = [text(260, 256), text(70, 256, 1)]
    branches = [(s, suffix, [c]) for s in (0, 1) for suffix in (0, 50)
                for c in each_kind(len(sequences[s]), 2, 2).values()]
    _, together = run(STEP, sequences, branches, tmp_path, "threads=1", *arithmetic)
    _, threads = run(STEP, sequences, branches, tmp_path, "threads=5", *arithmetic)
    assert together.keys() == threads.keys()
    for i in together:
        assert all(a.tobytes() == b.tobytes() for a, b in zip(together[i][1:], threads[i][1:]))
    for i in (0, 17, 30, 51):
        sequence, suffix, changes = branches[i]
        _, alone = run(STEP, [sequences[sequence]], [(0, suffix, changes)], tmp_path, *arithmetic)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(together[i][1:], alone[0][1:]))


# ---- what is refused ----------------------------------------------------------------------------

@pytest.mark.cases(14)
@pytest.mark.parametrize("branches, message", [
    ([(1, 0, [change(0, 0, OUTPUT)])], "no sequence"),
    ([(0, 0, [])], "no changes"),
    ([(0, 0, [change(5, 0, OUTPUT)])], "of no head"),
    ([(0, 0, [change(0, 4, OUTPUT)])], "of no head"),
    ([(0, 0, [change(-1, 0, OUTPUT)])], "of no head"),
    ([(0, 0, [change(2, 0, OUTPUT), change(1, 0, OUTPUT)])], "of a layer before"),
    ([(0, 0, [change(2, 0, OUTPUT)]), (0, 0, [change(1, 0, OUTPUT)])], "begins before"),
    ([(0, 0, [change(0, 1, OUTPUT), change(2, 1, OUTPUT), change(2, 1, OUTPUT)])], "change 2 of branch 0 is of a head that has"),
    ([(0, 0, [change(2, 3, ROTATION), change(2, 1, OUTPUT), change(2, 3, UNIFORM)])], "a head is changed once"),
    ([(0, 0, [change(0, 0, PROFILE)])], "no values"),
    ([(0, 0, [change(0, 0, DIRECTION)])], "no values"),
    ([(0, 0, [change(0, 0, WINDOW)])], "no window"),
    ([(0, 0, [change(0, 0, ROTATION, positions=[0] * 19 + [20])])], "outside its sequence"),
    ([(0, 0, [change(0, 0, 7)])], "of no kind"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_branches_that_make_no_sense(branches, message, tmp_path):
    write_branches(tmp_path / "branches.txt", branches)
    options = [f"loss={tmp_path / 'loss.bin'}", f"branches={tmp_path / 'branches.txt'}"]
    done, _ = start(STEP, [text(20, 256)], tmp_path, "none", *options)
    assert done.returncode == 1 and message in done.stderr
    done, _ = start(STEP, [text(20, 256)], tmp_path, "after", *options)
    assert done.returncode == 1 and "nothing beside them" in done.stderr


def test_a_text_of_one_token(tmp_path):
    texts, changed = run(STEP, [text(1, 256), text(2, 256)],
                         [(0, 0, [change(0, 0, UNIFORM)]), (1, 9, [change(1, 0, UNIFORM)])], tmp_path)
    assert list(texts) == [1] and list(changed) == [1]
