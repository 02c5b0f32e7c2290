# SPDX-License-Identifier: Apache-2.0
"""Directions of queries, from a capture of other texts: axes and changes beside NumPy, controls, refusals."""
import json
import shutil
import sys

import numpy as np
import pytest

from conftest import ROOT, read_head

sys.path.insert(0, str(ROOT / "tests/prefill"))
from branch_reference import DIRECTION, Llama, change  # noqa: E402
from test_ablate_command import PASSAGES, STEP, rows_of, write_texts  # noqa: E402

HEADS = [(0, 3), (2, 1)]
TEXTS = [passage.encode()[:40].decode() for passage in PASSAGES[:3]]


@pytest.fixture(scope="module")
def capture(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("directions")
    others = write_texts(folder, [passage[:300] for passage in PASSAGES[5:9]])
    qkscope("capture", "-m", STEP, "-t", others, "--sampler", "all", "--stage", "both", "-o", folder / "capture", "-q", expect=0)
    return folder / "capture"


def ablate(qkscope, folder, *words, expect=0, out="out"):
    return qkscope("ablate", "-m", STEP, "-t", write_texts(folder, TEXTS), "--heads", "0:3,2:1", "-o", folder / out, *words,
                   expect=expect)


def axis_of(name, folder, layer, head):
    """Of the rows of queries and keys together; a: where they go with their positions."""
    (q, t_q), (k, t_k) = (read_head(folder, f"l{layer:02d}h{number:02d}{kind}") for number, kind in ((head, "q"), (head // 2, "k")))
    x, t = np.concatenate([q, k]), np.concatenate([t_q, t_k]).astype(float)
    x -= x.mean(axis=0)
    drift = x.T @ (t - t.mean())
    return drift / np.linalg.norm(drift) if name == "a" else np.linalg.eigh(x.T @ x)[1][:, -1 - int(name[2:])]


def delta_of(changes):
    llama, deltas = Llama(STEP), []
    for text in TEXTS:
        tokens = list(text.encode())
        here = np.arange(len(tokens) - 1)
        clean, changed = llama.log_probabilities(tokens), llama.log_probabilities(tokens, changes)
        deltas.append((clean - changed)[here, tokens[1:]])
    return np.concatenate(deltas).mean()


@pytest.mark.parametrize("word, part", [("pc0", 1), ("pc1", 1), ("pc0", 0.5), ("a", 1)])
def test_axes(qkscope, capture, tmp_path, word, part):
    what = f"direction:{word}" + ("" if part == 1 else f":{part}")
    ablate(qkscope, tmp_path, "-w", what, "--capture", capture / "post", "--no-controls")
    for row, at in zip(rows_of(tmp_path / "out"), HEADS, strict=True):
        u = axis_of(word, capture / "post", *at)
        assert float(row["delta"]) == pytest.approx(delta_of([change(*at, DIRECTION, values=u, part=part)]), abs=5e-6)
        assert row["draws"] == "0"


def test_controls(qkscope, capture, tmp_path):
    """Random directions of the same heads: as many as asked for, others by the seed, and nothing where nothing is taken."""
    words = ["-w", "direction:pc0,direction:pc0:0", "--capture", capture / "post", "--draws", "3"]
    ablate(qkscope, tmp_path, *words)
    ablate(qkscope, tmp_path, *words, "--threads", "1", "--memory", "1", out="again")
    ablate(qkscope, tmp_path, *words, "--seed", "5", out="seed")
    assert (tmp_path / "out/ablation.csv").read_bytes() == (tmp_path / "again/ablation.csv").read_bytes()
    for row, other in zip(rows_of(tmp_path / "out"), rows_of(tmp_path / "seed"), strict=True):
        if row["what"].endswith("+next"):
            assert row["draws"] == "0" and row["delta"] == other["delta"]
            continue
        random, least, most = (float(row[name]) for name in ("random", "random_least", "random_most"))
        assert row["draws"] == "3" and row["delta"] == other["delta"]
        if row["what"].endswith(":0"):
            assert (float(row["delta"]), least, most) == (0, 0, 0)
        else:
            assert least < random < most and other["random"] != row["random"]
            assert float(row["beyond"]) == pytest.approx(float(row["delta"]) - random, rel=1e-9)
    made = json.loads((tmp_path / "out/manifest.json").read_text())
    assert made["draws"] == 3


def test_a_group_has_random_directions(qkscope, capture, tmp_path):
    """And no random groups, which are neither drawn nor missed where there are few other heads."""
    words = ["ablate", "-m", STEP, "-t", write_texts(tmp_path, TEXTS), "--capture", capture / "post", "--draws", "3", "-o"]
    found = qkscope(*words, tmp_path / "out", "-w", "direction:pc0", "--groups", "0:2-3", expect=0)
    made = json.loads((tmp_path / "out/manifest.json").read_text())
    assert "random groups" not in found.err and [group["draw"] for group in made["groups"]] == [0]
    row, = [row for row in rows_of(tmp_path / "out", "ablation_groups.csv") if row["what"] == "direction:pc0"]
    assert row["draws"] == "3" and row["beyond"]
    assert "beyond: the loss less that of random directions\n" in found.out
    for group, warned, said in ("0:2-3", True, "less that of random directions\n"), ("0:3", False, "same layers, or of random directions\n"):
        both = qkscope(*words, tmp_path / group, "-w", "direction:pc0,remove", "--groups", group, expect=0)
        assert ("fewer than 3 different random groups" in both.err) == warned and said in both.out



def next_of(folder, layer, head):
    """Of the five behind PC0 the one whose correlation with position is least, and how much of it takes as much out of scores."""
    (q, t_q), (k, t_k) = (read_head(folder, f"l{layer:02d}h{number:02d}{kind}") for number, kind in ((head, "q"), (head // 2, "k")))

    def most(u):
        return max(abs(np.corrcoef(x @ u, t)[0, 1]) for x, t in ((q, t_q), (k, t_k)))

    def taken(u):
        return np.mean((q @ u) ** 2) * np.var(k @ u)

    axes = [axis_of(f"pc{i}", folder, layer, head) for i in range(6)]
    u = min(axes[1:], key=most)
    return u, np.sqrt(taken(axes[0]) / taken(u))


def test_next_component(qkscope, capture, tmp_path):
    said = ablate(qkscope, tmp_path, "-w", "direction:pc0,direction:a", "--capture", capture / "post", "--draws", "1")
    rows = rows_of(tmp_path / "out")
    assert "fewer than 3 random directions stand beside each direction, and beyond is empty" in said.err
    assert {row["beyond"] for row in rows} == {""}
    assert [row["what"] for row in rows] == 2 * ["direction:pc0", "direction:pc0+next", "direction:a"]
    for row, at in zip(rows[1::3], HEADS, strict=True):
        u, part = next_of(capture / "post", *at)
        assert float(row["delta"]) == pytest.approx(delta_of([change(*at, DIRECTION, values=u, part=part)]), abs=2e-5)
        assert row["draws"] == "0"


@pytest.mark.cases(9)
@pytest.mark.parametrize("words, code, said", [
    (["-w", "direction:pc31", "--capture", "{}/post"], 1, "has no axis for direction:pc31+next: --no-controls"),
    (["-w", "direction:pc0"], 2, "give --capture"),
    (["-w", "direction"], 2, "direction:pcN|a[:PART]"),
    (["-w", "direction:pc"], 2, "direction:pcN|a[:PART]"),
    (["-w", "direction:b"], 2, "direction:pcN|a[:PART]"),
    (["-w", "direction:pc0:x"], 2, "direction:pcN|a[:PART]"),
    (["-w", "direction:pc99", "--capture", "{}/post"], 1, "has no axis for direction:pc99"),
    (["-w", "direction:pc0", "--capture", "{}/pre"], 1, "before RoPE"),
    (["-w", "direction:pc0", "--capture", "{}/none"], 1, "none"),
])
def test_refused(qkscope, capture, tmp_path, words, code, said):
    found = ablate(qkscope, tmp_path, *(word.format(capture) for word in words), expect=code)
    assert said in found.err, found.err
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def elsewhere(qkscope, capture):
    """Of an earlier checkpoint, which has the same shape."""
    qkscope("capture", "-m", STEP.parent / "step-20", "-t", capture.parent / "texts.jsonl", "--sampler", "all", "-o",
            capture.parent / "other", "-q", expect=0)
    return capture.parent / "other"


def retold(folder, to, **keys):
    """The capture with other words in its capture.json."""
    shutil.copytree(folder, to)
    told = json.loads((folder / "capture.json").read_text()) | keys
    (to / "capture.json").write_text(json.dumps({key: value for key, value in told.items() if value is not None}))
    return to


def test_a_capture_of_another_model(qkscope, capture, elsewhere, tmp_path):
    """By its fingerprint, whatever it is called; without one by its name."""
    words = ["-w", "direction:a", "--no-controls", "--capture"]
    told = ablate(qkscope, tmp_path, *words, elsewhere, expect=1).err
    assert f"{elsewhere} is of step-20 with other weights or settings than step-2004 has" in told
    named = retold(elsewhere, tmp_path / "named", model="step-2004")
    assert "other weights or settings" in ablate(qkscope, tmp_path, *words, named, expect=1).err
    run = json.loads((capture / "post/capture.json").read_text())["run"]
    engine = retold(capture / "post", tmp_path / "engine", run=run | {"engine": {}, "model": {"fingerprint": "0123456789abcdef"}})
    ablate(qkscope, tmp_path, *words, engine)
    unknown = retold(elsewhere, tmp_path / "unknown", run=None)
    lines = (unknown / "examples.csv").read_text().splitlines()
    (unknown / "examples.csv").write_text("".join(line.rpartition(",")[0] + "\n" for line in lines))
    assert "is of step-20, not of step-2004" in ablate(qkscope, tmp_path, *words, unknown, expect=1).err
    assert "does not name its texts" in ablate(qkscope, tmp_path, *words, unknown, "--model-name", "step-20", out="2").err
    nameless = retold(elsewhere, tmp_path / "nameless", run=None, model=None)
    assert "does not name its model" in ablate(qkscope, tmp_path, *words, nameless, out="3").err
    assert not any((tmp_path / out / "ablation.csv").exists() for out in ("named", "unknown"))


@pytest.mark.parametrize("own, shared", [([], 4), (TEXTS[:2], 1)])
def test_a_capture_of_texts_that_are_tested(qkscope, capture, tmp_path, own, shared):
    """By their tokens: other files, ids and places do not matter."""
    others = [passage[:300] for passage in PASSAGES[5:9]]
    texts = write_texts(tmp_path, own + others[-shared:] + ["and one that is in neither"])
    found = qkscope("ablate", "-m", STEP, "-t", texts, "--heads", "0:3", "-w", "direction:a", "--capture", capture / "post",
                    "-o", tmp_path / "out", expect=1)
    count = len(own) + shared + 1
    assert f"is of {shared} of the {count} texts that are tested (the first is text {len(own)}, counted" in found.err
    assert not (tmp_path / "out").exists()
