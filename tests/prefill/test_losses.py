# SPDX-License-Identifier: Apache-2.0
"""Losses of tokens as a run has them: against NumPy, of models whose losses are known, and output layers that are not
there. test_prefill.py has what must not change them; tests/hf/test_hf_losses.py holds them against transformers."""
import json
import shutil

import numpy as np
import pytest

from branch_reference import Llama
from prefill_runs import GOLDEN, STEP, read_losses, read_tensors, start, text, write_tensors


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


def test_many_words(tmp_path):
    """Several chunks of the vocabulary, the last not whole; some words are far likelier than others."""
    vocab, random = 5003, np.random.default_rng(1)
    folder = tmp_path / "model"
    folder.mkdir()
    tensors = dict(read_tensors(STEP / "model.safetensors"))
    tensors["model.embed_tokens.weight"] = (random.standard_normal((vocab, 128)) * random.choice([0.1, 2], (vocab, 1))).astype("f4")
    write_tensors(folder / "model.safetensors", tensors)
    config = json.loads((STEP / "config.json").read_text()) | {"vocab_size": vocab, "tie_word_embeddings": True}
    (folder / "config.json").write_text(json.dumps(config))
    tokens = [*text(100, vocab), 5002, 5001, 4095, 4096, 0]
    expected = -Llama(folder).log_probabilities(tokens)[np.arange(len(tokens) - 1), tokens[1:]]
    np.testing.assert_allclose(losses(folder, [tokens], tmp_path)[0], expected, rtol=2e-5)
    assert expected.std() > 1


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

def test_what_comes_before_is_all_that_counts(tmp_path):
    tokens = text(200, 256)
    whole, half = (losses(STEP, [tokens[:n]], tmp_path)[0] for n in (200, 90))
    assert (whole[:89] == half).all()


# ---- output layers -------------------------------------------------------------------------------

def test_whose_weights(tmp_path):
    """Those of the file's output layer, else the embedding's; also where config.json says that they are the same."""
    embedding = np.asarray(read_tensors(STEP / "model.safetensors")["model.embed_tokens.weight"])
    tokens = [text(50, 256)]
    tied = losses(STEP, tokens, tmp_path)[0]

    def of(name, *how):
        return losses(with_output(tmp_path / name, *how), tokens, tmp_path)[0]

    assert (of("unsaid", None) == tied).all()
    np.testing.assert_allclose(of("said", True, np.zeros((256, 128))), np.log(256), rtol=1e-6)
    assert (of("said so", True, embedding) == tied).all()
    assert (of("said and absent", True) == tied).all()
    assert (of("same", False, embedding) == tied).all()
    assert (of("own", None, embedding[::-1]) != tied).any()


@pytest.mark.parametrize("said", [True, None, False])
def test_the_output_layer_alone(said, tmp_path):
    """Of two matrices that are tied, a file may have kept the output layer and not the embedding."""
    model = with_output(tmp_path / "model", said)
    tensors = dict(read_tensors(model / "model.safetensors"))
    tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    write_tensors(model / "model.safetensors", tensors)
    if said is False:
        run, _ = start(model, [text(9, 256)], tmp_path)
        assert run.returncode == 1 and "no tensor model.embed_tokens.weight" in run.stderr
    else:
        assert (losses(model, [text(50, 256)], tmp_path)[0] == losses(STEP, [text(50, 256)], tmp_path)[0]).all()


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
