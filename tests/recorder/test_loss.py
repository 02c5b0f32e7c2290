# SPDX-License-Identifier: Apache-2.0
"""qkscope loss: sums of the losses that the engine tells of each token (tests/prefill, tests/hf), over texts and positions."""
import json
import shutil
import sys

import numpy as np
import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "tests" / "prefill"))
from prefill_runs import start  # noqa: E402
from test_losses import read_losses, with_output  # noqa: E402

TINY = ROOT / "examples" / "kjv-tiny"
STEP = TINY / "step-2004"


def write_texts(folder, texts):
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def loss(qkscope, *words, model=STEP):
    return json.loads(qkscope("loss", "-m", model, *words, "--json", expect=0).out)


def by_token(texts, tmp_path):
    """Of texts whose tokens are their bytes."""
    run, _ = start(STEP, [list(text.encode()) for text in texts], tmp_path, f"loss={tmp_path / 'losses'}", "none")
    assert run.returncode == 0, run.stderr
    return [values.astype(float) for values in read_losses(tmp_path / "losses").values()]


TEXTS = [json.loads(line)["text"][:n] for line, n in zip((TINY / "passages.jsonl").read_text().splitlines(),
                                                         (5, 40, 200, 333), strict=False)]


def test_another_output_layer_than_the_tied_one(qkscope, tmp_path):
    """The file's goes before what config.json says, and that is told: by loss, ablate, inspect and in capture.json."""
    head = np.random.default_rng(3).standard_normal((256, 128))
    texts = write_texts(tmp_path, TEXTS[:2])
    for tied in (True, False):
        shutil.copy(STEP / "tokenizer.json", with_output(tmp_path / f"{tied}", tied, head))
    told = "True: tie_word_embeddings is true, and the weights have a lm_head.weight that is not the embedding: losses come from lm_head.weight"
    said = {tied: qkscope("loss", "-m", tmp_path / f"{tied}", "-t", texts, "--json", expect=0) for tied in (True, False)}
    assert json.loads(said[True].out)["loss"] == json.loads(said[False].out)["loss"]
    assert told in said[True].err and "tie" not in said[False].err
    ablated = qkscope("ablate", "-m", tmp_path / "True", "-t", texts, "-o", tmp_path / "a", "--layers", 0, "--heads", 0, expect=0)
    assert told in ablated.err and told[6:] in qkscope("inspect", tmp_path / "True", expect=0).out
    qkscope("capture", "-m", tmp_path / "True", "-t", texts, "-o", tmp_path / "c", expect=0)
    assert json.loads((tmp_path / "c" / "capture.json").read_text())["warnings"] == [told[6:]]


def test_sums(qkscope, tmp_path):
    found = loss(qkscope, "-t", write_texts(tmp_path, TEXTS))
    tokens = by_token(TEXTS, tmp_path)
    every = np.concatenate(tokens)
    assert found["model"] == "step-2004" and found["tokens"] == len(every)
    assert found["loss"] == pytest.approx(every.mean(), rel=1e-12)
    assert found["perplexity"] == pytest.approx(np.exp(every.mean()), rel=1e-12)
    assert [(t["source"], t["window"], t["tokens"]) for t in found["texts"]] == [
        (f"{tmp_path / 'texts.jsonl'}:{i + 1}", 0, len(values)) for i, values in enumerate(tokens)]
    for text, values in zip(found["texts"], tokens, strict=True):
        assert text["loss"] == pytest.approx(values.mean(), rel=1e-12)
    places = np.concatenate([np.arange(1, len(values) + 1) for values in tokens])
    for part in found["positions"]:
        own = every[(places >= part["first"]) & (places <= part["last"])]
        assert part["tokens"] == len(own) > 0 and part["loss"] == pytest.approx(own.mean(), rel=1e-12)
    assert [p["first"] for p in found["positions"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert sum(p["tokens"] for p in found["positions"]) == len(every)


def test_windows_of_long_texts(qkscope, tmp_path):
    """Each begins anew; cut and skipped ones are told."""
    path = write_texts(tmp_path, TEXTS)
    pieces = [text[i:i + 100] for text in TEXTS for i in range(0, len(text), 100)]
    tokens = [values.mean() for values in by_token(pieces, tmp_path)]
    found = loss(qkscope, "-t", path, "--max-length", "100")
    assert [t["loss"] for t in found["texts"]] == pytest.approx(tokens, rel=1e-12)
    assert [t["window"] for t in found["texts"]] == [0, 0, 0, 1, 0, 1, 2, 3]
    assert found["positions"][-1]["last"] == 99
    found = loss(qkscope, "-t", path, "--max-length", "100", "--long", "cut")
    assert found["truncated"] == 2 and [t["tokens"] for t in found["texts"]] == [4, 39, 99, 99]
    found = loss(qkscope, "-t", path, "--max-length", "100", "--long", "skip")
    assert found["skipped"] == 2 and len(found["texts"]) == 2


def test_what_does_not_change_it(qkscope, tmp_path):
    path, first = write_texts(tmp_path, TEXTS), None
    for words in (["--threads", "1"], ["--threads", "3"], ["--tokens-at-once", "1"], ["--tokens-at-once", "250"]):
        found = loss(qkscope, "-t", path, *words)
        del found["seconds"]
        first = first or found
        assert found == first, words


def test_nothing_to_predict(qkscope, tmp_path):
    """Texts of a token, and none, stand beside others without a number; alone they are refused."""
    found = loss(qkscope, "-t", write_texts(tmp_path, ["a", "", "abc"]))
    assert [(t["tokens"], t["loss"] is None) for t in found["texts"]] == [(0, True), (2, False)] and found["empty"] == 1
    said = qkscope("loss", "-m", STEP, "-t", write_texts(tmp_path, ["a", "b"]))
    assert said.code == 1 and "none has two tokens" in said.err


def test_as_text(qkscope, tmp_path):
    said = qkscope("loss", "-m", STEP, "-t", write_texts(tmp_path, ["In the beginning"] * 25), expect=0).out
    assert "nats a token, perplexity" in said and "and 5 more: --json has all of them" in said
    assert said.count("texts.jsonl:") == 20
    assert qkscope("loss", "-m", STEP, "-t", tmp_path / "texts.jsonl", "-q", expect=0).out == ""


@pytest.mark.parametrize("words, code, said", [
    (["-t", "x"], 2, "which model? --model DIR"), (["-m", STEP], 2, "which texts? --text FILE"),
    (["-m", STEP, "-t", "nothing.txt"], 1, "nothing.txt"), (["-m", STEP, "-t", "repeat:9x2", "--rows", "9"], 2, "--rows"),
    (["-m", STEP, "-t", "repeat:9x2", "--heads", "0:1"], 2, "--heads")])
def test_messages(qkscope, words, code, said):
    found = qkscope("loss", *words)
    assert found.code == code and said in found.err
