# SPDX-License-Identifier: Apache-2.0
"""org/name in place of a folder: commands fetch what they need, and give what they give of a folder."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD, ROOT, check_survived, on_terminal, synth
from fake_hub import FakeHub
from test_get import NAME, get, hf

PROGRAM = BUILD / "qkscope"
MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


def files_of(folder, *leave):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(pathlib.Path(folder).rglob("*"))
            if p.is_file() and p.name not in leave}


def run(hub, home, *arguments, expect=0, cwd=None, **extra):
    done = subprocess.run([PROGRAM, *map(str, arguments)], env=hub.environment(home, **extra), cwd=cwd,
                          capture_output=True, text=True, timeout=300)
    check_survived(done.returncode, done.stderr)
    assert done.returncode == expect, done.stderr
    return done.stdout, done.stderr


def tables(folder):
    return {p.name: p.read_bytes() for p in sorted(pathlib.Path(folder).glob("*.csv"))}


def manifest(folder):
    return json.loads((pathlib.Path(folder) / "manifest.json").read_text())["runs"][0]


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """3 layers of 4 query heads and 2 key heads, of few rows."""
    folder = tmp_path_factory.mktemp("hub") / "capture"
    synth(folder, layers=3, query_heads=4, q_per_kv_group=2, dim=8, examples=2, rows=60, buckets=4, bucket_width=32, rope_planes=1)
    return folder


# ---- captures --------------------------------------------------------------------------------

def test_pca_fetches_once(hub, tmp_path, capture):
    hub.add("datasets", NAME, files_of(capture), revision="v1")
    commit = hub.repos["datasets", NAME].refs["v1"]
    _, said = run(hub, tmp_path, "pca", NAME, "--revision", "v1", "-o", tmp_path / "a")
    assert f"qkscope pca: {NAME} at v1: fetching " in said and commit not in said
    run(hub, tmp_path, "pca", capture, "-o", tmp_path / "b")
    assert tables(tmp_path / "a") == tables(tmp_path / "b") and tables(tmp_path / "a")
    assert manifest(tmp_path / "a")["settings"] == manifest(tmp_path / "b")["settings"]
    sent = len(hub.log)
    _, said = run(hub, tmp_path, "pca", NAME, "--revision", "v1", "-o", tmp_path / "c")
    assert len(hub.log) == sent and "fetching" not in said  # all is here: nobody is asked
    assert tables(tmp_path / "c") == tables(tmp_path / "b")


@pytest.mark.parametrize("options", [["--layers", "0"], ["--heads", "3"], ["--heads", "0:0,1:2-3"]])
def test_part_of_a_capture_gives_what_the_whole_gives(hub, tmp_path, capture, options):
    """Group size and number of layers follow from what the Hub lists, not from what was fetched of it."""
    bare = shutil.copytree(capture, tmp_path / "bare", ignore=shutil.ignore_patterns("capture.json"))
    hub.add("datasets", NAME, files_of(bare))
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", "--model-name", "m", *options)
    assert "are not there" not in said  # of heads that nobody wants
    run(hub, tmp_path, "pca", bare, "-o", tmp_path / "b", "--model-name", "m", *options)
    assert tables(tmp_path / "a") == tables(tmp_path / "b") and tables(tmp_path / "a")
    for key in ("group", "num_layers"):
        mine, whole = manifest(tmp_path / "a")[key], manifest(tmp_path / "b")[key]
        assert mine == whole or (mine["size"], mine["source"]) == (whole["size"], whole["source"])
    assert len(hub.requests("cdn")) < sum(p.endswith(".parquet") for p in files_of(bare))
    (tmp_path / "c").mkdir()
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "c" / "r", "--model-name", "m", *options, "--offline")
    assert tables(tmp_path / "c" / "r") == tables(tmp_path / "b")


@pytest.mark.parametrize("who", ["get", pytest.param("hf", marks=pytest.mark.test_all)])
def test_half_a_snapshot(hub, tmp_path, capture, who):
    """Completed, or refused where nothing may be fetched; it never looks whole."""
    hub.add("datasets", NAME, files_of(capture))
    if who == "get":
        get(hub, tmp_path, NAME, "--files", "l00*")
    else:
        hf(hub, tmp_path, "--repo-type", "dataset", NAME, "--include", "l00*")
    for extra, option in (({"HF_HUB_OFFLINE": "1"}, []), ({}, ["--offline"]), ({"TRANSFORMERS_OFFLINE": "yes"}, [])):
        _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", *option, expect=1, **extra)
        assert "files (" in said and "are not in the cache" in said and "--layers" in said
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "b", "--layers", "0", "--offline", expect=1)  # no capture.json
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "c")
    assert "(the others are in the cache)" in said
    run(hub, tmp_path, "pca", capture, "-o", tmp_path / "d")
    assert tables(tmp_path / "c") == tables(tmp_path / "d")


def test_snapshot_of_an_older_client(hub, tmp_path, capture):
    """It has no list of files: the Hub is asked once; where it cannot be, what is there is taken."""
    hub.add("datasets", NAME, files_of(capture))
    run(hub, tmp_path, "get", NAME)
    trees = tmp_path / "hub" / "datasets--org--name" / "trees"
    shutil.rmtree(trees)
    sent = len(hub.log)
    hub.fault("hub", times=9, status=503)
    _, said = run(hub, tmp_path, "inspect", NAME)
    assert "warning: org/name: taken as it is in the cache; whether it is whole is not known" in said
    assert len(hub.log) == sent + 1
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "b", "--offline")
    assert said.count("whether it is whole is not known: nothing may be asked") == 1 and len(hub.log) == sent + 1
    hub.faults.clear()
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "c")
    assert len(hub.log) == sent + 2 and trees.exists()
    assert tables(tmp_path / "b") == tables(tmp_path / "c")


def test_a_file_of_another_size(hub, tmp_path, capture):
    """As a power failure leaves it: refused offline by name, else fetched again."""
    hub.add("datasets", NAME, files_of(capture))
    path = pathlib.Path(run(hub, tmp_path, "get", NAME)[0].strip())
    head = sorted(path.glob("l*/data.parquet"))[3]
    os.truncate(head.resolve(), 100)
    for words in (["get", NAME], ["pca", NAME, "-o", tmp_path / "a"]):
        _, said = run(hub, tmp_path, *words, "--offline", expect=1)
        assert f"{head.relative_to(path)} is in the cache and not whole" in said
    listed = json.loads(run(hub, tmp_path, "get", "--list", NAME, "--json")[0])["branches"][0]
    assert listed["cached_files"] == listed["files"] - 1
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", "--layers", "0")
    run(hub, tmp_path, "get", NAME)
    assert files_of(path) == files_of(capture)


def test_several_captures_are_not_fetched(hub, tmp_path, capture):
    files = {f"{part}/{name}": data for part in ("a", "b/c", ".old") for name, data in files_of(capture).items()}
    hub.add("datasets", NAME, files)
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", expect=1)
    assert "it holds several captures: a, b/c; choose one, with --split a" in said
    assert not hub.requests(path="/resolve/") and not hub.requests("cdn")
    run(hub, tmp_path, "pca", NAME, "--split", "b/c", "--layers", "0", "-o", tmp_path / "b")


@pytest.mark.parametrize("text", ["", "x" * 5000])
def test_a_ref_without_a_commit(hub, tmp_path, capture, text):
    commit = hub.add("datasets", NAME, files_of(capture))
    run(hub, tmp_path, "get", NAME)
    ref = tmp_path / "hub" / "datasets--org--name" / "refs" / "main"
    ref.write_text(text)
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", "--offline", expect=1)
    assert "no commit hash in it: mend it with qkscope get" in said
    run(hub, tmp_path, "inspect", NAME)
    assert ref.read_text() == text
    run(hub, tmp_path, "pca", NAME, "--layers", "0", "-o", tmp_path / "a")
    assert ref.read_text() == commit


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_cache_that_nobody_may_write_to(hub, tmp_path, capture):
    hub.add("datasets", NAME, files_of(capture))
    run(hub, tmp_path / "home", "get", NAME)
    for folder, _, _ in os.walk(tmp_path / "home"):
        os.chmod(folder, 0o555)
    try:
        run(hub, tmp_path / "home", "pca", NAME, "-o", tmp_path / "a")
    finally:
        for folder, _, _ in os.walk(tmp_path / "home"):
            os.chmod(folder, 0o755)


def test_folders_win(hub, tmp_path, capture):
    (tmp_path / "org").mkdir()
    shutil.copytree(capture, tmp_path / "org" / "name")
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", "--layers", "0", cwd=tmp_path)
    config = tmp_path / "c.yaml"
    (tmp_path / "elsewhere").mkdir()
    config.write_text(f"data: {{dataset_name: org/name, local_root: {tmp_path}, layers: [0]}}\n")
    run(hub, tmp_path, "pca", "--config", config, "-o", tmp_path / "b", cwd=tmp_path / "elsewhere")
    assert not hub.log


@pytest.mark.cases(9)
@pytest.mark.parametrize("words, path, said", [
    (["analyze", "PATH", "-o", "out"], "models/llama.gguf", "no such file"), (["analyze", "PATH", "-o", "out"], "captur", "no such folder"),
    (["analyze", "PATH", "-o", "out"], "org/name/", "no such folder"), (["inspect", "PATH"], "a/b/c", "a/b/c"),
    (["scatter", "PATH", "-o", "out"], "./nowhere", "./nowhere"), (["tokenize", "PATH", "x"], "a/b/c", "a/b/c"),
    (["capture", "--model", "PATH", "x", "-o", "out"], "a/b/c", "a/b/c"),
    (["capture", "--model", str(MODEL), "PATH", "-o", "out"], "./nowhere", "./nowhere")])
def test_mistyped_paths_ask_nobody(hub, tmp_path, words, path, said):
    """And nothing is said of downloads."""
    (tmp_path / "x").write_text("text")
    told = run(hub, tmp_path, *(path if word == "PATH" else word for word in words), expect=1, cwd=tmp_path)[1]
    assert said in told and "qkscope get" not in told and "fetch" not in told and not hub.log


@pytest.mark.cases(6)
@pytest.mark.parametrize("words", [
    ["analyze", "cap/post", "-o", "out"], ["inspect", "cap/post"], ["capture", "--model", "cap/post", "x", "-o", "out"],
    ["capture", "--model", str(MODEL), "cap/post", "-o", "out"], ["capture", "--model", str(MODEL), "texts/x.txt", "-o", "out"],
    ["tokenize", "cap/post", "x"]])
def test_paths_in_a_folder_that_is_here_ask_nobody(hub, tmp_path, words):
    """Though a dataset and a model of the name are on the Hub."""
    for kind in ("datasets", "models"):
        hub.add(kind, "cap/post", {"config.json": b"{}", "l00h00q/data.parquet": b"x", "train.jsonl": b"{}"})
    (tmp_path / "x").write_text("text")
    (tmp_path / "cap" / "pre").mkdir(parents=True)
    path = next(word for word in words if word.startswith(("cap/", "texts/")))
    told = run(hub, tmp_path, *words, expect=1, cwd=tmp_path)[1]
    assert f"{path}: " in told and "No such file" in told or f"{path}: no such " in told
    assert not hub.log
    if words[0] in ("analyze", "inspect"):
        assert "folder here" in told and "beside it: pre" in told


def test_what_is_cached_is_found_beside_a_folder_of_its_owner(hub, tmp_path, capture):
    hub.add("datasets", NAME, files_of(capture))
    run(hub, tmp_path, "get", NAME)
    (tmp_path / "org").mkdir()
    asked = len(hub.log)
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", "--layers", "0", cwd=tmp_path)
    assert len(hub.log) == asked


@pytest.mark.cases(5)
@pytest.mark.parametrize("name, said", [
    ("x.gguf", "make a capture of it with: qkscope capture --model "), ("x.npz", "arrays of NumPy"), ("x.pt", "tensors of PyTorch"),
    ("x.safetensors", "a file of a model, not a capture; "), ("x.parquet", "one head of a capture")])
def test_files_that_are_no_captures(hub, tmp_path, capture, name, said):
    (tmp_path / name).write_bytes(b"x")
    assert said in run(hub, tmp_path, "analyze", name, "-o", tmp_path / "a", expect=1, cwd=tmp_path)[1]


def test_names_that_the_hub_does_not_have(hub, tmp_path):
    said = run(hub, tmp_path, "analyze", "org/nmae", "-o", tmp_path / "a", expect=1)[1]
    assert "the Hub has no dataset of this name" in said and "nor is there a folder of this name" in said
    assert len(hub.log) == 1 and not (tmp_path / "a").exists()


@pytest.mark.parametrize("words", [["scatter", "--heads", "0:0"], ["rotate", "--layers", "0", "--heads", "0"]])
def test_other_commands_on_captures(hub, tmp_path, capture, words):
    hub.add("datasets", NAME, files_of(capture))
    _, said = run(hub, tmp_path, words[0], NAME, "-o", tmp_path / "out", *words[1:])
    assert f"{NAME} at main: fetching 3 files, " in said  # queries, keys and capture.json
    assert len(hub.requests("cdn")) == 2


@pytest.mark.test_all
def test_progress_on_a_terminal(hub, tmp_path, capture):
    hub.add("datasets", NAME, files_of(capture) | {"l09h00q/data.parquet": bytes(3 << 20)})
    hub.fault("cdn", times=99, piece=300000, pause=0.05)
    said = on_terminal([PROGRAM, "get", NAME], "stderr", env=hub.environment(tmp_path) | {"HF_HUB_OFFLINE": None})
    assert "/3 MB, org/name, " in said and "MB/s" in said


# ---- models and texts ------------------------------------------------------------------------

def test_capture_of_a_model_on_the_hub(hub, tmp_path):
    hub.add("models", NAME, files_of(MODEL) | {"pytorch_model.bin": b"x" * 100000, "README.md": b"x"}, revision="v2")
    texts = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
    words = [texts, "--layers", "0", "--model-name", "m", "--sampler", "all", "--max-texts", "1"]
    _, said = run(hub, tmp_path, "capture", "--model", NAME, "--revision", "v2", "-o", tmp_path / "a", *words)
    assert f"{NAME} at v2: fetching 3 files" in said
    run(hub, tmp_path, "capture", "--model", MODEL, "-o", tmp_path / "b", *words)
    a, b = (files_of(tmp_path / name, "capture.json", "README.md") for name in "ab")
    assert a == b and a
    run(hub, tmp_path, "capture", "--model", NAME, "--revision", "v2", "-o", tmp_path / "c", *words, "--offline")
    assert run(hub, tmp_path / "other", "capture", "--model", NAME, "--offline", "-o", tmp_path / "d", *words,
               expect=1)[1].count("qkscope get --model org/name --revision main") == 1


def text_files():
    lines = (ROOT / "examples" / "kjv-tiny" / "passages.jsonl").read_bytes().splitlines(True)
    return {"data/train-00000.jsonl": b"".join(lines[:2]), "data/train-00001.jsonl": lines[2], "data/test.jsonl": lines[3],
            "en/train.jsonl": lines[4], "train.zip": b"x" * 1000, ".hidden/train.jsonl": b"{", "README.md": b"train"}


@pytest.mark.parametrize("options, wanted", [
    ({}, ["data/train-00000.jsonl", "data/train-00001.jsonl", "en/train.jsonl"]),
    ({"name": "en"}, ["en/train.jsonl"]), ({"split": "test"}, ["data/test.jsonl"]),
    ({"name": "data", "split": "validation"},
     ["data/test.jsonl", "data/train-00000.jsonl", "data/train-00001.jsonl"])])
def test_texts_on_the_hub(hub, tmp_path, options, wanted):
    """Only the files of the split, and of the name, come; they give what a folder of them gives."""
    files = text_files()
    hub.add("datasets", "org/texts", files)
    for name in wanted:
        (tmp_path / "texts" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / name).write_bytes(files[name])
    words = ["--layers", "0", "--sampler", "all", "--model-name", "m"]
    for text, out in (("org/texts", "a"), (str(tmp_path / "texts"), "b")):
        config = tmp_path / f"{out}.yaml"
        config.write_text(json.dumps({
            "dataset": {"path": text} | options, "model": {"name": str(MODEL)}, "tokenizer": {},
            "inference": {}, "capture": {}, "output": {"data_root": str(tmp_path / out)}}))
        _, said = run(hub, tmp_path, "capture", "--config", config, *words)
        assert out == "b" or f"org/texts at main: fetching {len(wanted)} file" in said
    asked = sorted(r.path.split("/", 6)[6] for r in hub.requests(path="^/datasets/org/texts/resolve/"))
    assert asked == wanted
    a, b = (files_of(tmp_path / name, "capture.json", "README.md", "examples.csv") for name in "ab")
    assert a == b and a


def test_texts_that_cannot_be_had(hub, tmp_path):
    words = ["capture", "--model", MODEL, "-o", tmp_path / "a"]
    assert "no dataset of this name" in run(hub, tmp_path, *words, "org/texts", expect=1)[1]
    hub.add("datasets", "org/texts", {"a.zip": b"x"})
    assert "no Parquet or JSONL files" in run(hub, tmp_path, *words, "org/texts", expect=1)[1]
    assert "qkscope get org/other" in run(hub, tmp_path, *words, "org/other", "--offline", expect=1)[1]


def test_tokenizer_of_a_model_on_the_hub(hub, tmp_path):
    hub.add("models", NAME, files_of(MODEL))
    (tmp_path / "text").write_text("In the beginning")
    out, said = run(hub, tmp_path, "tokenize", NAME, tmp_path / "text")
    assert out == run(hub, tmp_path, "tokenize", MODEL, tmp_path / "text")[0]
    assert f"{NAME} at main: fetching 1 file, " in said
    assert run(hub, tmp_path, "tokenize", NAME, tmp_path / "text", "--offline")[0] == out
    assert not hub.requests("cdn")
