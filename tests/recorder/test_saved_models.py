# SPDX-License-Identifier: Apache-2.0
"""Folders as the world writes them: those that `save_pretrained` of transformers makes by default
(tools/make_saved_models.py), with whatever else lies beside; and those of other forms, which are
refused with what to do."""
import json
import pathlib
import shutil
import struct

import numpy as np
import pytest

from conftest import EXAMPLE, ROOT
from recording import examples_of, table_of, text_id, write_tokenizer

SAVED = ROOT / "tests" / "data" / "saved"
MADE = json.loads((SAVED / "versions.json").read_text())
ARCHITECTURES = sorted(p.name for p in SAVED.iterdir() if p.is_dir())


def read_golden(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    types = {"F32": np.float32, "I32": np.int32}
    return {name: np.frombuffer(data[8 + size:][slice(*t["data_offsets"])],
                                types[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "t.txt"
    path.write_text(MADE["text"])
    return path


def ids_of(qkscope, folder, text):
    return [int(line.split("\t")[0])
            for line in qkscope("tokenize", folder, text, expect=0).out.splitlines()]


def test_no_architecture_is_left_out():
    from checkpoints import ARCHITECTURES as PLAIN, COMPOSITES
    assert ARCHITECTURES == sorted([*PLAIN, *COMPOSITES])
    for folder in ARCHITECTURES:
        assert json.loads((SAVED / folder / "config.json").read_text())["model_type"] == folder
        config = (SAVED / folder / "tokenizer_config.json").read_text()
        assert "1000000000000000019884624838656" in config


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_saved_folder(qkscope, text, tmp_path, name):
    golden = read_golden(SAVED / f"{name}.golden")
    facts = json.loads(qkscope("inspect", SAVED / name, "--json", expect=0).out)
    config = json.loads((SAVED / name / "config.json").read_text())
    assert facts["architecture"] == config.get("text_config", config)["model_type"]
    assert ids_of(qkscope, SAVED / name, text) == golden["input_ids"].tolist()
    qkscope("capture", "--model", SAVED / name, "--text", text, "-o", tmp_path / "c", "--sampler",
            "all", expect=0)
    layers = sorted({int(key.split(".")[0]) for key in golden if "_post" in key})
    heads = 0
    for layer in layers:
        for kind in "qk":
            wanted = golden[f"{layer}.{kind}_post"]
            for head in range(wanted.shape[1]):
                table = table_of(tmp_path / "c", f"l{layer:02}h{head:02}{kind}")
                assert table["position"] == list(range(len(golden["input_ids"])))
                got = table["vector"][MADE["rows"]]
                assert np.abs(got - wanted[:, head]).max() <= 1e-5 * np.abs(wanted).max()
                heads += 1
    assert heads == len(list((tmp_path / "c").rglob("data.parquet"))) == 6 * len(layers)


# ---- what lies beside ----------------------------------------------------------------------------

def test_numbers_that_are_read(qkscope, text, tmp_path):
    """A number too large is no default, and no other number, where it counts."""
    for key in ("hidden_size", "rms_norm_eps", "num_key_value_heads"):
        for number in ("NaN", "99999999999999999999"):
            folder = shutil.copytree(SAVED / "llama", tmp_path / f"{key}{number}")
            content = json.loads((folder / "config.json").read_text())
            content[key] = "HERE"
            (folder / "config.json").write_text(json.dumps(content).replace('"HERE"', number))
            err = qkscope("inspect", folder, expect=1).err
            assert key in err and "config.json" in err


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_one_setting_that_is_read(qkscope, text, tmp_path, side):
    folder = shutil.copytree(SAVED / "llama", tmp_path / "m")
    whole = ids_of(qkscope, folder, text)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "truncation_side": side}))
    lines = qkscope("tokenize", folder, text, "--max-length", 5, expect=0).out.splitlines()
    kept = whole[1:5] if side == "right" else whole[-4:]
    assert [int(line.split("\t")[0]) for line in lines] == [whole[0], *kept]


# ---- texts ---------------------------------------------------------------------------------------

def test_numbers_in_texts(qkscope, tmp_path):
    """In keys that nobody asks for any number will do; ids follow the rules of the original."""
    numbers = ["99999999999999999999999", "9223372036854775808", "-9223372036854775809", "1e999",
               "-1e999", "NaN", "Infinity", "-Infinity", "1e22"]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(f'{{"text": "aa bb", "id": {n}, "more": [{n}, {{"x": {n}}}]}}\n'
                            for n in numbers))
    qkscope("capture", "-m", SAVED / "llama", "-t", path, "-o", tmp_path / "a", "--sampler", "all",
            expect=0)
    assert [int(r["example_id"]) for r in examples_of(tmp_path / "a")] == list(range(len(numbers)))
    qkscope("capture", "-m", SAVED / "llama", "-t", path, "-o", tmp_path / "b", "--id-column", "id",
            expect=0)  # 1e999 and Infinity are one id, as in the original
    lines = [line for line in path.read_text().splitlines() if "Infinity" not in line]
    path.write_text("\n".join(lines))
    qkscope("capture", "-m", SAVED / "llama", "-t", path, "-o", tmp_path / "c", "--id-column", "id",
            "--sampler", "all", expect=0)
    rows = examples_of(tmp_path / "c")
    assert [int(r["example_id"]) for r in rows] == [
        text_id(n) for n in ("99999999999999999999999", "9223372036854775808",
                             "-9223372036854775809", "inf", "-inf", "nan",
                             "10000000000000000000000")]
    assert text_id("9223372036854775808") == -4436916390290898806
    assert rows[0]["source_id"] == "99999999999999999999999"


# ---- other forms ---------------------------------------------------------------------------------

def other_forms(folder):
    """name: the files of a folder, what is said of it as a model"""
    weights = (SAVED / "llama" / "model.safetensors").read_bytes()
    config = (SAVED / "llama" / "config.json").read_bytes()
    return {
        "bin": ({"config.json": config, "pytorch_model.bin": b""},
                ["pytorch_model*.bin", "save_pretrained"]),
        "bins": ({"config.json": config, "pytorch_model-00001-of-00002.bin": b"",
                  "pytorch_model.bin.index.json": b"{}"}, ["pytorch_model*.bin", "save_pretrained"]),
        "gguf": ({"x.Q4_K_M.gguf": b"GGUF"}, ["GGUF", "FOLDER/NAME.gguf", "config.json"]),
        "gguf-beside": ({"config.json": config, "x.gguf": b"GGUF"}, ["GGUF", "FOLDER/NAME.gguf"]),
        "adapter": ({"adapter_config.json": b"{}", "adapter_model.safetensors": weights,
                     "README.md": b""}, ["adapter", "merge_and_unload", "config.json"]),
        "adapter-beside": ({"adapter_config.json": b"{}", "adapter_model.safetensors": weights,
                            "config.json": config}, ["adapter", "merge_and_unload"]),
        "makers": ({"params.json": b"{}", "consolidated.safetensors": weights},
                   ["publish", "config.json"]),
        "tensorflow": ({"config.json": config, "tf_model.h5": b""}, ["TensorFlow"]),
        "bin-alone": ({"pytorch_model.bin": b""}, ["there is no config.json", "pytorch_model*.bin", "save_pretrained"]),
        "makers-alone": ({"consolidated.00.pth": b""}, ["there is no config.json", "publish"]),
        "flax-alone": ({"flax_model.msgpack": b""}, ["there is no config.json", "Flax"]),
        "tensorflow-alone": ({"tf_model.h5": b""}, ["there is no config.json", "TensorFlow"]),
        "nothing": ({"config.json": config, "README.md": b""}, ["there is no model.safetensors"]),
    }


@pytest.mark.cases(4)
@pytest.mark.parametrize("form", other_forms(None))
def test_other_forms_of_models(qkscope, text, tmp_path, form):
    files, words = other_forms(tmp_path)[form]
    folder = tmp_path / "m"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    write_tokenizer(folder)
    shape = "config.json" in files  # is enough to inspect: a note tells the rest
    for command, code in ((["inspect", folder], 0 if shape else 1),
                          (["capture", "-m", folder, "-t", text, "-o", tmp_path / "c"], 1)):
        err = qkscope(*command, expect=code).err
        for word in [str(folder), *words]:
            assert word in err, err
    assert not (tmp_path / "c").exists()
    said = qkscope("pca", folder, "-o", tmp_path / "r", expect=1).err
    assert form == "nothing" or "a model, not a capture" in said


@pytest.mark.parametrize("file", ["tokenizer.model", "tekken.json", "merges.txt", "vocab.txt"])
def test_other_forms_of_tokenizers(qkscope, text, tmp_path, file):
    folder = shutil.copytree(SAVED / "llama", tmp_path / "m")
    (folder / "tokenizer.json").rename(folder / file)
    for command in (["tokenize", folder, text],
                    ["capture", "-m", folder, "-t", text, "-o", tmp_path / "c"]):
        err = qkscope(*command, expect=1).err
        assert "tokenizer.json" in err and file.removesuffix("txt") in err and "AutoTokenizer" in err
