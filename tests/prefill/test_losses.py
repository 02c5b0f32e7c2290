# SPDX-License-Identifier: Apache-2.0
"""Losses of tokens as a run has them: of models whose losses are known, what must not change them, and output layers
that are not there. tests/hf/test_hf_losses.py holds them against transformers."""
import json
import shutil

import numpy as np
import pytest

from prefill_runs import CASES, GOLDEN, ROOT, prefill, read_tensors, same, start, text, write_tensors

STEP = ROOT / "examples" / "kjv-tiny" / "step-2004"


def read_losses(path, branches=None):
    """Those of each sequence; branches is filled with (first row, losses, drifts) of each branch."""
    data, at, found = path.read_bytes(), 0, {}
    while at < len(data):
        sequence, branch, first, count = map(int, np.frombuffer(data, "<i8", 4, at))
        values = np.frombuffer(data, "<f4", count, at + 32)
        at += 32 + 4 * count
        if branch < 0:
            found[sequence] = values
        else:
            branches[branch] = first, values, np.frombuffer(data, "<f4", count, at)
            at += 4 * count
    assert list(found) == sorted(found)
    return found


def losses(model, sequences, folder, *options):
    run, _ = start(model, sequences, folder, f"loss={folder / 'loss.bin'}", *(options or ["none"]))
    assert run.returncode == 0, run.stderr
    found = read_losses(folder / "loss.bin")
    assert {s: len(values) for s, values in found.items()} == {
        s: len(tokens) - 1 for s, tokens in enumerate(sequences) if len(tokens) > 1}
    return found


def with_output(folder, tied=None, output=None, norm=True, **config):
    """The bundled model, with an output layer of its own, or none."""
    folder.mkdir()
    tensors = dict(read_tensors(STEP / "model.safetensors"))
    if output is not None:
        tensors["lm_head.weight"] = output
    if not norm:
        del tensors["model.norm.weight"]
    write_tensors(folder / "model.safetensors", tensors)
    known = json.loads((STEP / "config.json").read_text()) | config
    known.pop("tie_word_embeddings")
    if tied is not None:
        known["tie_word_embeddings"] = tied
    (folder / "config.json").write_text(json.dumps(known))
    return folder


# ---- what is known -------------------------------------------------------------------------------

@pytest.mark.parametrize("arithmetic", [[], ["bf16"], ["bf16-products"], ["f16"]], ids=str)
def test_logits_that_are_equal(arithmetic, tmp_path):
    """Of 256 words each has the same probability."""
    model = with_output(tmp_path / "model", False, np.zeros((256, 128)))
    for values in losses(model, [text(70, 256), text(2, 256)], tmp_path, "none", *arithmetic).values():
        np.testing.assert_allclose(values, np.log(256), rtol=1e-6)


def test_one_word_of_many(tmp_path):
    """Several chunks of the vocabulary, the last not whole; all words alike but one."""
    vocab = 5003
    random = np.random.default_rng(1)
    folder = tmp_path / "model"
    folder.mkdir()
    tensors = dict(read_tensors(STEP / "model.safetensors"))
    tensors["model.embed_tokens.weight"] = random.standard_normal((vocab, 128))
    tensors["model.norm.weight"] = np.zeros(128)
    tensors["model.norm.weight"][3] = 1
    output = np.zeros((vocab, 128))
    output[4999, 3] = 16
    tensors["lm_head.weight"] = output
    write_tensors(folder / "model.safetensors", tensors)
    config = json.loads((STEP / "config.json").read_text()) | {"vocab_size": vocab, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    tokens = [4999 if i % 3 == 0 else int(t) for i, t in enumerate(text(100, vocab))]
    found = losses(folder, [tokens], tmp_path)[0]
    # of another word exp(loss) is the sum of exp(logits), and with it the logit of the one is known
    rest = np.array([i for i, t in enumerate(tokens[1:]) if t != 4999])
    logit = np.log(np.maximum(np.exp(found[rest].astype(float)) - (vocab - 1), 1e-9))
    sure = rest[(logit > 4) & (logit < 10)]
    assert len(sure) > 3 and (found[rest] > np.log(vocab - 1) - 1e-5).all()
    again = losses(folder, [tokens[:i + 1] + [4999] for i in sure], tmp_path)
    for s, i in enumerate(sure):
        one = logit[list(rest).index(i)]
        assert again[s][-1] == pytest.approx(np.log1p((vocab - 1) / np.exp(one)), rel=1e-3)


def test_capped_logits(tmp_path):
    """Gemma's cap: a cap that is far off changes next to nothing, a small one brings all words together."""
    model = shutil.copytree(GOLDEN / "gemma3", tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    vocab = config["vocab_size"]
    found = {}
    for cap in (None, 1e4, 1e-3):
        (model / "config.json").write_text(json.dumps(config | {"final_logit_softcapping": cap, "tie_word_embeddings": True}))
        found[cap] = losses(model, [text(60, vocab)], tmp_path)[0]
    assert found[None].std() > 0.01
    np.testing.assert_allclose(found[1e4], found[None], atol=5e-4)
    np.testing.assert_allclose(found[1e-3], np.log(vocab), atol=2e-3)


# ---- what does not change them -------------------------------------------------------------------

SEQUENCES = [text(n, 256, n) for n in (1, 2, 31, 32, 33, 250, 5)]


@pytest.mark.parametrize("arithmetic", [[], ["bf16-products"]], ids=str)
def test_threads_and_company(arithmetic, tmp_path):
    together = losses(STEP, SEQUENCES, tmp_path, "none", "threads=1", *arithmetic)
    for threads in (2, 3, 7):
        found = losses(STEP, SEQUENCES, tmp_path, "none", f"threads={threads}", *arithmetic)
        assert all((found[s] == values).all() for s, values in together.items())
    for s, tokens in enumerate(SEQUENCES[1:], 1):
        assert (losses(STEP, [tokens], tmp_path, "none", *arithmetic)[0] == together[s]).all()


def test_bf16_products_of_every_processor(tmp_path):
    fastest = losses(STEP, SEQUENCES, tmp_path, "none", "bf16-products")
    for kernel in range(5):
        found = losses(STEP, SEQUENCES, tmp_path, "none", f"bf16-kernel={kernel}")
        assert all((found[s] == values).all() for s, values in fastest.items())


def test_what_comes_before_is_all_that_counts(tmp_path):
    tokens = text(200, 256)
    whole, half = (losses(STEP, [tokens[:n]], tmp_path)[0] for n in (200, 90))
    assert (whole[:89] == half).all()


@pytest.mark.parametrize("options", [[], ["heads=3"], ["after"]], ids=str)
def test_beside_rows_and_attention(options, tmp_path):
    """All of them are those of runs without the others."""
    alone = losses(STEP, SEQUENCES, tmp_path)
    run, out = start(STEP, SEQUENCES, tmp_path, f"loss={tmp_path / 'both'}", f"attention={tmp_path / 'a'}", *options)
    assert run.returncode == 0, run.stderr
    assert all((values == alone[s]).all() for s, values in read_losses(tmp_path / "both").items())
    sums = (tmp_path / "a").read_bytes()
    rows = prefill(STEP, SEQUENCES, tmp_path, f"loss={tmp_path / 'both'}", f"attention={tmp_path / 'b'}", *options)
    same(rows, prefill(STEP, SEQUENCES, tmp_path, f"attention={tmp_path / 'c'}", *options))
    assert sums == (tmp_path / "b").read_bytes() == (tmp_path / "c").read_bytes()


# ---- output layers -------------------------------------------------------------------------------

def test_whose_weights(tmp_path):
    """The embedding's where config.json says so, or says nothing and there are no others."""
    embedding = np.asarray(read_tensors(STEP / "model.safetensors")["model.embed_tokens.weight"])
    tokens = [text(50, 256)]
    tied = losses(STEP, tokens, tmp_path)[0]

    def of(name, *how):
        return losses(with_output(tmp_path / name, *how), tokens, tmp_path)[0]

    assert (of("unsaid", None) == tied).all()
    assert (of("said", True, np.zeros((256, 128))) == tied).all()
    assert (of("same", False, embedding) == tied).all()
    assert (of("own", None, embedding[::-1]) != tied).any()


@pytest.mark.parametrize("how, said", [
    ({"tied": False}, "no tensor lm_head.weight, and config.json says that it is not the embedding"),
    ({"tied": True, "norm": False}, "model.norm.weight"),
    ({"tied": False, "output": np.zeros((255, 128))}, "lm_head.weight"),
    ({"tied": "yes"}, "tie_word_embeddings")])
def test_what_is_refused(how, said, tmp_path):
    """By name; and where rows alone are asked for only what config.json says that is no answer."""
    model = with_output(tmp_path / "model", **how)
    run, _ = start(model, [text(9, 256)], tmp_path, f"loss={tmp_path / 'l'}", "none")
    assert run.returncode == 1 and said in run.stderr
    run, _ = start(model, [text(9, 256)], tmp_path)
    assert run.returncode == (how["tied"] == "yes")


@pytest.mark.parametrize("case", CASES)
def test_every_architecture_runs_to_its_end(case, tmp_path):
    """Losses of random weights are near that of words alike."""
    model = shutil.copytree(GOLDEN / case, tmp_path / "model")
    config = json.loads((model / "config.json").read_text())
    vocab = (config.get("text_config") or config)["vocab_size"]
    (model / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": True}))
    found = losses(model, [text(40, vocab), text(3, vocab)], tmp_path)
    assert all(np.isfinite(values).all() and (values > 0).all() for values in found.values())


def test_estimates(tmp_path):
    def costs(*options):
        run, _ = start(STEP, [text(10, 256)], tmp_path, "threads=1", *options)
        return tuple(map(float, run.stdout.split()))
    (flops, size), (flops_too, size_too) = costs(), costs(f"loss={tmp_path / 'l'}")
    n, hidden, inner, heads, d = 1000, 128, 344, 6, 32
    last = 2 * n * hidden * (2 * d * heads + 3 * inner) + 4 * d * 4 * n * (n + 1) / 2 - 2 * n * hidden * d * heads
    assert flops_too - flops == last + 2 * n * hidden * 256
    assert 16 * n < size_too - size - 4 * 256 * hidden < 64 * n + 4 * 256 * 32
