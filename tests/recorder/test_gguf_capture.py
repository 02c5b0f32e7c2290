# SPDX-License-Identifier: Apache-2.0
"""The commands on GGUF files: a capture is the one of the same model as a folder."""
import json
import sys

import numpy as np
import pytest

from conftest import ROOT
from recording import byte_letters, table_of, write_model

sys.path += [str(ROOT / "tests" / "model"), str(ROOT / "tests" / "prefill")]
pytestmark = pytest.mark.test_all  # tests/model has what `make test` says of GGUF
pytest.importorskip("gguf")
from gguf_files import write_gguf  # noqa: E402
from prefill_runs import read_tensors  # noqa: E402

TEXT = "In the beginning God created the heaven and the earth."


def add_bytes(writer):
    """The tokenizer of recording.write_tokenizer: every byte is a token; and one of two that no text
    has, since the package writes no empty lists."""
    letters = byte_letters()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([letters[b] for b in range(256)] + [letters[0] + letters[1]])
    writer.add_token_merges([f"{letters[0]} {letters[1]}"])
    writer.add_add_bos_token(False)


@pytest.fixture
def both(tmp_path):
    """(folder, GGUF file) of one model."""
    config, weights = write_model(tmp_path / "tiny", num_hidden_layers=2)
    (tmp_path / "files").mkdir()
    path = tmp_path / "files" / "tiny.F32.gguf"
    write_gguf(path, config, weights, add=add_bytes)
    (tmp_path / "t.txt").write_text(TEXT)
    return tmp_path / "tiny", path


def capture(qkscope, model, out, *options, expect=0):
    return qkscope("capture", "--model", model, "--text", out.parent / "t.txt", "-o", out, "--sampler",
                   "all", *options, expect=expect)


def test_capture(qkscope, both, tmp_path):
    for model, out in zip(both, ("a", "b")):
        capture(qkscope, model, tmp_path / out)
    heads = sorted(p.parent.name for p in (tmp_path / "a").rglob("data.parquet"))
    assert len(heads) == 12
    for head in heads:
        a, b = (table_of(tmp_path / out, head) for out in "ab")
        assert (a["vector"] == b["vector"]).all() and len(a["vector"]) == len(TEXT)
    manifests = [json.loads(next((tmp_path / out).rglob("capture.json")).read_text()) for out in "ab"]
    names = [json.dumps(m) for m in manifests]
    assert '"tiny.F32"' in names[1] and ".gguf" not in names[1] and '"tiny"' in names[0]
    assert '"float32"' in names[1]


def test_quantised_capture(qkscope, tmp_path):
    config, weights = write_model(tmp_path / "tiny", hidden_size=64, intermediate_size=64)
    path = tmp_path / "m.Q4_1.gguf"
    write_gguf(path, config, weights, kind="Q4_1", add=add_bytes)
    (tmp_path / "t.txt").write_text(TEXT)
    capture(qkscope, path, tmp_path / "c")
    assert '"Q4_1"' in next((tmp_path / "c").rglob("capture.json")).read_text()
    facts = json.loads(qkscope("inspect", path, "--json", expect=0).out)
    assert facts["dtype"] == "Q4_1" and facts["architecture"] == "llama"
    assert facts["weight_bytes"] < 0.8 * facts["parameters"]
    shown = qkscope("inspect", path, expect=0).out
    assert "million in Q4_1, " in shown and str(path) in shown


def test_tokenizers(qkscope, both, tmp_path):
    """A file's own, another's, one beside it."""
    folder, path = both
    lines = [qkscope("tokenize", model, tmp_path / "t.txt", expect=0).out for model in both]
    assert lines[0] == lines[1] and len(lines[0].splitlines()) == len(TEXT)
    bare = tmp_path / "bare.gguf"
    config, weights = write_model(tmp_path / "tiny", num_hidden_layers=2)
    write_gguf(bare, config, weights)
    err = capture(qkscope, bare, tmp_path / "c", expect=1).err
    assert "bare.gguf" in err and "tokenizer.ggml.model" in err and "--tokenizer" in err
    capture(qkscope, bare, tmp_path / "c", "--tokenizer", path)
    capture(qkscope, bare, tmp_path / "d", "--tokenizer", folder)
    capture(qkscope, folder, tmp_path / "e", "--tokenizer", path)
    a, b, c = (table_of(tmp_path / out, "l01h00q") for out in "cde")
    assert (a["vector"] == b["vector"]).all() and (a["vector"] == c["vector"]).all()


def test_refusals_name_file_and_key(qkscope, both, tmp_path):
    path = both[1]
    data = path.read_bytes().replace(b"llama.block_count", b"llama.block_cnumt")
    path.write_bytes(data)
    for command in (["inspect", path], ["capture", "-m", path, "-t", tmp_path / "t.txt", "-o", tmp_path / "c"]):
        err = qkscope(*command, expect=1).err
        assert str(path) in err and "llama.block_count: missing" in err
    for command in (["inspect", path.parent], ["capture", "-m", path.parent, "-t", tmp_path / "t.txt",
                                               "-o", tmp_path / "c"]):
        err = qkscope(*command, expect=1).err
        assert str(path.parent) in err and "FOLDER/NAME.gguf" in err
    for command in (["inspect", tmp_path / "no.gguf"], ["tokenize", tmp_path / "no.gguf", tmp_path / "t.txt"],
                    ["capture", "-m", tmp_path / "no.gguf", "-t", tmp_path / "t.txt", "-o", tmp_path / "c"]):
        assert "no.gguf" in qkscope(*command, expect=1).err
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("own", [False, True])
def test_losses(qkscope, tmp_path, own):
    """The last norm, and an output layer of its own or the embedding."""
    step = ROOT / "examples" / "kjv-tiny" / "step-2004"
    config = json.loads((step / "config.json").read_text())
    tensors = {name.removeprefix("model."): values for name, values in read_tensors(step / "model.safetensors").items()}
    path = tmp_path / "tiny.gguf"

    def add(writer):
        add_bytes(writer)
        if own:  # as the file has it, whatever the embedding is
            writer.add_tensor("output.weight", np.ascontiguousarray(tensors["embed_tokens.weight"][::-1], np.float32))

    write_gguf(path, config, tensors, add=add)
    found = [json.loads(qkscope("loss", "-m", model, "-t", step.parent / "passages.jsonl", "--max-texts", "3", "--json",
                                expect=0).out) for model in (step, path)]
    assert found[0]["tokens"] == found[1]["tokens"] == 3 * 1023
    if own:
        assert found[1]["loss"] > np.log(256)
    else:
        assert found[0]["texts"] == found[1]["texts"]
