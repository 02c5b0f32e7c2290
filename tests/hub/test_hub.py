# SPDX-License-Identifier: Apache-2.0
"""org/name where a path may stand: hf, the program of huggingface_hub, fetches from a local server what is not in the
cache, and qkscope chooses what of it is needed."""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import BUILD, EXAMPLE, ROOT, check_survived
from hub_server import TOKEN, HubServer

PROGRAM = BUILD / "qkscope"
MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
NAME = "org/name"
FOLDER = "datasets--org--name"
BIN = pathlib.Path(sys.executable).parent
pytestmark = pytest.mark.test_all


def files_of(folder, *without):
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name not in without}


def command(hub, home, *words, **extra):
    path = extra.pop("PATH", f"{BIN}{os.pathsep}{os.environ['PATH']}")
    return {"args": [PROGRAM, *map(str, words)], "env": hub.environment(home, PATH=path, **extra), "cwd": home}


def run(hub, home, *words, expect=0, **extra):
    """A command that fetches into a cache below `home`, where it runs; what it prints, and what it says."""
    done = subprocess.run(**command(hub, home, *words, **extra), capture_output=True, text=True, timeout=300)
    check_survived(done.returncode, done.stderr)
    assert done.returncode == expect, done.stderr
    return done.stdout, done.stderr


def fetched(home, folder=FOLDER):
    """What lies in the snapshots of a repository."""
    return {str(p).split("/snapshots/")[1].split("/", 1)[1]
            for p in (home / "hub" / folder / "snapshots").rglob("*") if p.is_file()}


@pytest.fixture
def hub():
    pytest.importorskip("huggingface_hub")
    if not (BIN / "hf").exists():
        pytest.skip("hf is not installed")
    with HubServer() as server:
        yield server


@pytest.fixture(scope="module")
def capture():
    return files_of(EXAMPLE)


# ---- captures --------------------------------------------------------------------------------

def test_by_name_and_by_revision(hub, tmp_path, capture):
    """The tables of a folder; of what is here nobody is asked again."""
    hub.add("datasets", NAME, capture, revision="v1")
    (tmp_path / "hf").write_text(f'#!/bin/sh\necho >> runs\nexec {BIN}/hf "$@"\n')
    (tmp_path / "hf").chmod(0o755)
    run(hub, tmp_path, "pca", NAME, "--revision", "v1", "-o", "a", PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert (tmp_path / "runs").read_text() == "\n"
    run(hub, tmp_path, "pca", EXAMPLE, "-o", "b")
    assert (tmp_path / "a/qk.csv").read_bytes() == (tmp_path / "b/qk.csv").read_bytes()
    assert fetched(tmp_path) >= {name for name in capture if name.endswith(".parquet")}
    asked = len(hub.log)
    hub.add("datasets", NAME, {"README.md": b"of another commit"}, revision="v1")
    run(hub, tmp_path, "pca", NAME, "--revision", "v1", "-o", "c")
    run(hub, tmp_path, "pca", NAME, "--revision", "v1", "-o", "d", "--offline", PATH="/nowhere")
    assert len(hub.log) == asked


def test_part_of_the_heads(hub, tmp_path, capture):
    """With the key heads that they attend to, which the list tells; and then those that are missing."""
    hub.add("datasets", NAME, capture)
    _, said = run(hub, tmp_path, "pca", NAME, "-o", "a", "--heads", "1:2-3")
    rows = {"l01h01k/data.parquet", "l01h02q/data.parquet", "l01h03q/data.parquet"}
    assert fetched(tmp_path) == rows | {"capture.json"} and "3 of 4 files are to be fetched" in said
    _, said = run(hub, tmp_path, "pca", NAME, "-o", "b", "--offline", expect=1)
    assert "are not in the cache" in said and "--layers and --heads" in said
    run(hub, tmp_path, "pca", NAME, "-o", "c", "--layers", "1")
    assert hub.sent() == sorted({"capture.json"} | {name for name in capture if name.startswith("l01")})


def test_several_captures_are_not_fetched(hub, tmp_path, capture):
    hub.add("datasets", NAME, {f"{part}/{name}": data for part in ("a", "b/c", ".old") for name, data in capture.items()})
    _, said = run(hub, tmp_path, "pca", NAME, "-o", "a", expect=1)
    assert "it holds several captures, such as a and b/c: choose one, with --split FOLDER" in said and not hub.sent()
    run(hub, tmp_path, "pca", NAME, "--split", "b/c", "--layers", "0", "-o", "b")
    assert all(path.startswith("b/c/") for path in fetched(tmp_path))


def test_a_file_that_is_not_whole(hub, tmp_path, capture):
    """As after a power failure: hf takes it for whole."""
    hub.add("datasets", NAME, capture)
    run(hub, tmp_path, "pca", NAME, "-o", "a", "--layers", "0")
    blob = next((tmp_path / "hub" / FOLDER / "snapshots").glob("*/l00h00q/data.parquet")).resolve()
    blob.write_bytes(b"")
    _, said = run(hub, tmp_path, "pca", NAME, "-o", "b", "--layers", "0", expect=1)
    assert "l00h00q/data.parquet is not whole" in said and "--force-download" in said
    words = said.split("mend it: ")[1].split()
    subprocess.run([BIN / words[0], *words[1:]], env=hub.environment(tmp_path), check=True, timeout=300, capture_output=True)
    run(hub, tmp_path, "pca", NAME, "-o", "b", "--layers", "0")


def test_a_study_fetches(hub, tmp_path, capture):
    """A model that cannot be had does not stop the others."""
    for revision in "ac":
        hub.add("datasets", NAME, capture | {"README.md": revision.encode()}, revision=revision)
    (tmp_path / "s.yaml").write_text("models:\n" + "".join(
        f"  - {{name: {r}, source: {{dataset: org/name, revision: {r}}}}}\n" for r in "abc") + "analyses: [pca]\n")
    words = ["study", "s.yaml", "-o", "out", "--no-figures", "--json"]
    said = run(hub, tmp_path, *words, "--dry-run")[0]
    assert said.count("would be fetched") == 3 and not hub.log
    out, said = run(hub, tmp_path, *words, expect=3)
    assert {m["model"]: m["state"] for m in json.loads(out)["models"]} == {"a": "computed", "b": "failed", "c": "computed"}
    assert "b: org/name: hf download failed (exit status 1): Revision not found" in said


# ---- models, tokenizers, texts ---------------------------------------------------------------

@pytest.mark.parametrize("names, wanted", [
    (["config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json", "vocab.json", "onnx/model.onnx",
      "model.fp16.safetensors", "README.md"], ["config.json", "model.safetensors", "tokenizer.json"]),
    (["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
      "consolidated.safetensors", "tokenizer.model"],
     ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json",
      "tokenizer.model"])])
def test_files_of_models(hub, tmp_path, names, wanted):
    hub.add("models", NAME, {name: b"{" + name.encode() for name in names})
    (tmp_path / "x").write_text("text")
    run(hub, tmp_path, "capture", "--model", NAME, "x", "-o", "out", expect=1)  # they are no model
    assert fetched(tmp_path, "models--org--name") == set(wanted)


def test_a_model_that_cannot_be_read_is_not_fetched(hub, tmp_path):
    hub.add("models", NAME, {"config.json": b"{}", "pytorch_model.bin": b"x", "a-Q4_0.gguf": b"GGUF"})
    (tmp_path / "x").write_text("text")
    said = run(hub, tmp_path, "capture", "-m", NAME, "x", "-o", "out", expect=1)[1]
    assert "save_pretrained" in said and "hf download NAME FILE.gguf" in said and hub.sent() == ["config.json"]


def test_a_model_and_its_tokenizer(hub, tmp_path):
    hub.add("models", NAME, files_of(MODEL) | {"README.md": b"x"}, revision="v2")
    (tmp_path / "x").write_text("In the beginning God created the heaven and the earth.")
    words = ["x", "--layers", "0", "--model-name", "m"]
    assert run(hub, tmp_path, "tokenize", NAME, "x", "--revision", "v2")[0] == run(hub, tmp_path, "tokenize", MODEL, "x")[0]
    assert hub.sent() == ["tokenizer.json"]
    run(hub, tmp_path, "capture", "--model", NAME, "--revision", "v2", "-o", "a", *words)
    run(hub, tmp_path, "capture", "--model", MODEL, "-o", "b", *words)
    a, b = (files_of(tmp_path / name, "capture.json", "README.md") for name in "ab")
    assert a == b and a


@pytest.mark.parametrize("options, wanted", [
    ({}, ["data/train-0.jsonl", "data/train-1.jsonl", "en/train.jsonl"]), ({"name": "en"}, ["en/train.jsonl"]),
    ({"split": "test"}, ["data/test.jsonl"])])
def test_texts(hub, tmp_path, options, wanted):
    """Only the files of the split, and of the name, come."""
    lines = (ROOT / "examples" / "kjv-tiny" / "passages.jsonl").read_bytes().splitlines(True)
    hub.add("datasets", "org/texts", {"data/train-0.jsonl": lines[0], "data/train-1.jsonl": lines[1], "train.zip": b"x",
                                      "data/test.jsonl": lines[2], "en/train.jsonl": lines[3], ".hidden/train.jsonl": b"{"})
    (tmp_path / "c.yaml").write_text(json.dumps({
        "dataset": {"path": "org/texts"} | options, "model": {"name": str(MODEL)}, "tokenizer": {}, "inference": {},
        "capture": {}, "output": {"data_root": "out"}}))
    run(hub, tmp_path, "capture", "--config", "c.yaml", "--layers", "0", "--sampler", "all", "--model-name", "m")
    assert [name for name in hub.sent() if name != "README.md"] == wanted


# ---- what goes wrong -------------------------------------------------------------------------

def test_what_the_hub_refuses(hub, tmp_path, capture):
    """hf says it: no such name, no such revision, no token, a token that is none, no server."""
    hub.add("datasets", NAME, capture)
    words = ["pca", NAME, "-o", "a", "--layers", "0"]
    said = run(hub, tmp_path, "pca", "org/nmae", "-o", "a", expect=1)[1]
    assert "org/nmae: hf download failed (exit status 1): Dataset 'org/nmae' not found" in said
    assert "nor is there a folder of this name" in said and "HF_DEBUG" not in said and "\033" not in said
    assert "Revision not found" in run(hub, tmp_path, *words, "--revision", "v9", expect=1)[1]
    assert "Connection refused" in run(hub, tmp_path, *words, expect=1, HF_ENDPOINT="http://127.0.0.1:9")[1]
    hub.repos["datasets", NAME].private = True
    assert "not found" in run(hub, tmp_path, *words, expect=1)[1]  # 401
    assert "not found" in run(hub, tmp_path, *words, expect=1, HF_TOKEN="hf_wrong")[1]
    run(hub, tmp_path, *words, HF_TOKEN=TOKEN)


def test_without_hf(hub, tmp_path, capture):
    """One line that says how to get it, and what fetches by hand; that is no advice where all is here."""
    hub.add("datasets", NAME, capture)
    words = ["pca", NAME, "-o", "a", "--heads", "0:0"]
    said = run(hub, tmp_path, *words, expect=1, PATH="/nowhere")[1]
    assert "pip install -U huggingface_hub, or uv tool install huggingface_hub" in said and said.count("\n") == 1
    assert said.endswith(": hf download org/name --repo-type dataset --revision main\n")
    by_hand = shlex.split(said[said.index("hf download"):])
    subprocess.run([BIN / by_hand[0], *by_hand[1:]], env=hub.environment(tmp_path), check=True, timeout=300, capture_output=True)
    run(hub, tmp_path, *words, "--force", PATH="/nowhere")


@pytest.mark.parametrize("variable", [None, "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_offline(hub, tmp_path, capture, variable):
    hub.add("datasets", NAME, capture)
    how = {"extra": {variable: "1"}, "words": []} if variable else {"extra": {}, "words": ["--offline"]}
    said = run(hub, tmp_path, "pca", NAME, "-o", "a", *how["words"], expect=1, **how["extra"])[1]
    assert "nothing may be fetched" in said and "hf download org/name --repo-type dataset" in said and not hub.log


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_stopped_and_gone_on_with(hub, tmp_path, capture, number):
    """By Ctrl-C, which reaches hf, or killed with it: what came stays, and the next run asks for the rest alone."""
    hub.add("datasets", NAME, capture)
    hub.stalls = "l00h01q/data.parquet"
    rest = {"capture.json", "l00h00k/data.parquet", "l00h00q/data.parquet", "l00h01k/data.parquet"}
    words = ["pca", NAME, "-o", "a", "--heads", "0:0-1"]
    process = subprocess.Popen(**command(hub, tmp_path, *words), stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (fetched(tmp_path) >= rest and hub.stalls in hub.sent()):
        assert process.poll() is None
        hub.end.wait(0.02)
    if number == signal.SIGINT:
        process.send_signal(number)  # to this process alone, as by kill
    else:
        os.killpg(process.pid, number)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == -number, said
    assert number == signal.SIGKILL or "stopped; what was fetched stays in the cache" in said
    before, path, hub.stalls = hub.sent(), hub.stalls, None
    run(hub, tmp_path, *words)
    assert sorted([*before, path]) == hub.sent()


def test_progress_goes_to_the_terminal(hub, tmp_path, capture):
    hub.add("datasets", NAME, capture)
    import pty
    ours, theirs = pty.openpty()
    process = subprocess.Popen(**command(hub, tmp_path, "pca", NAME, "-o", "a", "--layers", "0"), stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    assert process.wait(120) == 0 and b"Reconstruct" in said and b"100%" in said


# ---- Python ----------------------------------------------------------------------------------

def test_open_fetches(hub, tmp_path, capture, monkeypatch):
    qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
    for name, value in hub.environment(tmp_path, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(qk.NotFoundError, match="nothing may be fetched"):
        qk.open(NAME, offline=True)
    commit = hub.add("datasets", NAME, capture, revision="v1")
    found = qk.open(NAME, revision="v1")
    assert found.path.endswith(commit) and len(found.heads) == len(qk.open(str(EXAMPLE)).heads)
    with pytest.raises(qk.InputOutputError, match="Revision not found"):
        qk.open(NAME)
    shutil.rmtree(tmp_path / "hub")
    with pytest.raises(qk.NotFoundError, match="hf download org/name"):
        qk.inspect(NAME, revision="v1")
