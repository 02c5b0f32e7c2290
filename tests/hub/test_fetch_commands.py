# SPDX-License-Identifier: Apache-2.0
"""org/name in place of a folder: commands fetch what they need, and give what they give of a folder."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import BUILD, EXAMPLE, ROOT, check_survived, on_terminal
from fake_hub import FakeHub
from test_get import NAME, hf

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
                          capture_output=True, text=True, timeout=100)
    check_survived(done.returncode, done.stderr)
    assert done.returncode == expect, done.stderr
    return done.stdout, done.stderr


def tables(folder):
    return {p.name: p.read_bytes() for p in sorted(pathlib.Path(folder).glob("*.csv"))}


def manifest(folder):
    return json.loads((pathlib.Path(folder) / "manifest.json").read_text())["runs"][0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The example without capture.json: what is fetched tells neither group size nor number of layers."""
    folder = tmp_path_factory.mktemp("bare") / "capture"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("capture.json"))
    return folder


# ---- captures --------------------------------------------------------------------------------

def test_analyze_fetches_once(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE), revision="v1")
    commit = hub.repos["datasets", NAME].refs["v1"]
    _, said = run(hub, tmp_path, "analyze", NAME, "--revision", "v1", "-o", tmp_path / "a")
    assert f"qkscope analyze: {NAME} at v1: fetching " in said and commit not in said
    run(hub, tmp_path, "analyze", EXAMPLE, "-o", tmp_path / "b")
    assert tables(tmp_path / "a") == tables(tmp_path / "b") and tables(tmp_path / "a")
    assert manifest(tmp_path / "a")["settings"] == manifest(tmp_path / "b")["settings"]
    sent = len(hub.log)
    _, said = run(hub, tmp_path, "analyze", NAME, "--revision", "v1", "-o", tmp_path / "c")
    assert len(hub.log) == sent and "fetching" not in said  # all is here: nobody is asked
    assert tables(tmp_path / "c") == tables(tmp_path / "b")
    assert "fetching" not in run(hub, tmp_path / "quiet", "pca", NAME, "--revision", "v1", "-o", tmp_path / "d",
                                 "--quiet")[1]


def test_two_branches_are_compared_as_folders(hub, tmp_path):
    """One --revision holds for both, which is said; the folders that `get` prints are two."""
    branches = {"main": EXAMPLE, "partial": tmp_path / "partial"}
    run(hub, tmp_path, "synth", "-o", branches["partial"], "--layers", 1, "--query-heads", 4, "--dim", 16, "--rows", 20)
    for name, folder in branches.items():
        hub.add("datasets", NAME, files_of(folder), revision=name)
    words = ["compare", NAME, NAME, "--revision", "partial", "-o", tmp_path / "same", "--no-html"]
    _, said = run(hub, tmp_path, *words)
    assert "a and b are the same: every difference is 0; --revision holds for both" in said
    assert "give the folders that qkscope get ORG/NAME --revision BRANCH prints" in said
    folders = [run(hub, tmp_path, "get", NAME, "--revision", name)[0].strip() for name in branches]
    out, said = run(hub, tmp_path, "compare", folders[1], folders[1], "-o", tmp_path / "one", "--no-html")
    assert "are the same" in said and "--revision" not in said
    assert folders[0] != folders[1]
    out, said = run(hub, tmp_path, "compare", *folders, "-o", tmp_path / "two", "--no-html")
    assert "are the same" not in said and "heads in both" in out


@pytest.mark.parametrize("options", [["--layers", "0"], ["--heads", "3"], ["--heads", "0,2", "--layers", "1"], ["--heads", "0:0,1:2-3"]])
def test_part_of_a_capture_gives_what_the_whole_gives(hub, tmp_path, bare, options):
    """Group size and number of layers follow from what the Hub lists, not from what was fetched of it."""
    hub.add("datasets", NAME, files_of(bare))
    _, said = run(hub, tmp_path, "analyze", NAME, "-o", tmp_path / "a", "--model-name", "m", *options)
    run(hub, tmp_path, "analyze", bare, "-o", tmp_path / "b", "--model-name", "m", *options)
    assert tables(tmp_path / "a") == tables(tmp_path / "b") and tables(tmp_path / "a")
    for key in ("group", "num_layers"):
        mine, whole = manifest(tmp_path / "a")[key], manifest(tmp_path / "b")[key]
        assert mine == whole or (mine["size"], mine["source"]) == (whole["size"], whole["source"])
    heads = [p for p in files_of(bare) if p.endswith(".parquet")]
    assert len(hub.requests("cdn")) < len(heads)
    (tmp_path / "c").mkdir()
    run(hub, tmp_path, "analyze", NAME, "-o", tmp_path / "c" / "r", "--model-name", "m", *options, "--offline")
    assert tables(tmp_path / "c" / "r") == tables(tmp_path / "b")


def test_no_warning_of_heads_that_nobody_wants(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", "--layers", "0")
    assert "are not there" not in said


def test_half_a_snapshot(hub, tmp_path):
    """Completed, or refused where nothing may be fetched; it never looks whole."""
    hub.add("datasets", NAME, files_of(EXAMPLE))
    hf(hub, tmp_path, "--repo-type", "dataset", NAME, "--include", "l00*")
    for extra, option in (({"HF_HUB_OFFLINE": "1"}, []), ({}, ["--offline"]), ({"TRANSFORMERS_OFFLINE": "yes"}, [])):
        _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", *option, expect=1, **extra)
        assert "files (" in said and "are not in the cache" in said and "--layers" in said
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "b", "--layers", "0", "--offline", expect=1)  # no capture.json
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "c")
    assert "(the others are in the cache)" in said
    run(hub, tmp_path, "pca", EXAMPLE, "-o", tmp_path / "d")
    assert tables(tmp_path / "c") == tables(tmp_path / "d")


def test_snapshot_of_an_older_client(hub, tmp_path):
    """It has no list of files: the Hub is asked once; where it cannot be, what is there is taken."""
    hub.add("datasets", NAME, files_of(EXAMPLE))
    run(hub, tmp_path, "get", NAME)
    trees = tmp_path / "hub" / "datasets--org--name" / "trees"
    shutil.rmtree(trees)
    sent = len(hub.log)
    hub.fault("hub", times=9, status=503)
    _, said = run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a")
    assert "warning: org/name: taken as it is in the cache; whether it is whole is not known" in said
    assert len(hub.log) == sent + 1
    for words in (["pca", NAME, "-o", tmp_path / "b"], ["get", NAME], ["inspect", NAME],
                  ["repack", NAME, "-o", tmp_path / "r"]):
        _, said = run(hub, tmp_path, *words, "--offline")
        assert said.count("warning: org/name: taken as it is in the cache; whether it is whole is not known: nothing "
                          "may be asked") == 1, words
    assert len(hub.log) == sent + 1
    hub.faults.clear()
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "c")
    assert len(hub.log) == sent + 2 and trees.exists()
    assert tables(tmp_path / "a") == tables(tmp_path / "b") == tables(tmp_path / "c")


@pytest.mark.parametrize("size", [0, 100])
def test_a_file_of_another_size(hub, tmp_path, size):
    """As a power failure leaves it: refused offline by name, else fetched again."""
    hub.add("datasets", NAME, files_of(EXAMPLE))
    path = pathlib.Path(run(hub, tmp_path, "get", NAME)[0].strip())
    head = sorted(path.glob("l*/data.parquet"))[3]
    name = str(head.relative_to(path))
    os.truncate(head.resolve(), size)
    for words in (["get", NAME], ["inspect", NAME], ["pca", NAME, "-o", tmp_path / "a"]):
        _, said = run(hub, tmp_path, *words, "--offline", expect=1)
        assert f"{name} is in the cache and not whole" in said and "qkscope get org/name --revision main" in said
    listed = json.loads(run(hub, tmp_path, "get", "--list", NAME, "--json")[0])["branches"][0]
    assert listed["cached_files"] == listed["files"] - 1
    run(hub, tmp_path, "inspect", NAME)
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a")
    assert files_of(path) == files_of(EXAMPLE)
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "b", "--offline")


def test_several_captures_are_not_fetched(hub, tmp_path):
    files = {f"{part}/{name}": data for part in ("a", "b/c", ".old") for name, data in files_of(EXAMPLE).items()}
    hub.add("datasets", NAME, files)
    for words in (["pca", NAME, "-o", tmp_path / "a"], ["repack", NAME, "-o", tmp_path / "r"]):
        _, said = run(hub, tmp_path, *words, expect=1)
        assert "org/name: it holds several captures: a, b/c; choose one, with --split a, say" in said
    assert not hub.requests(path="/resolve/") and not hub.requests("cdn")
    run(hub, tmp_path, "pca", NAME, "--split", "b/c", "-o", tmp_path / "b")


@pytest.mark.parametrize("text", ["", "garbage\n", "x" * 5000])
def test_a_ref_without_a_commit(hub, tmp_path, text):
    commit = hub.add("datasets", NAME, files_of(EXAMPLE))
    run(hub, tmp_path, "get", NAME)
    ref = tmp_path / "hub" / "datasets--org--name" / "refs" / "main"
    ref.write_text(text)
    for words in (["inspect", NAME], ["pca", NAME, "-o", tmp_path / "a"]):
        _, said = run(hub, tmp_path, *words, "--offline", expect=1)
        assert "no commit hash in it: mend it with qkscope get" in said
    run(hub, tmp_path, "inspect", NAME)
    assert ref.read_text() == text
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a")
    assert ref.read_text() == commit
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "b", "--offline")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_cache_that_nobody_may_write_to(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    run(hub, tmp_path / "home", "get", NAME)
    for folder, _, _ in os.walk(tmp_path / "home"):
        os.chmod(folder, 0o555)
    try:
        run(hub, tmp_path / "home", "pca", NAME, "-o", tmp_path / "a")
    finally:
        for folder, _, _ in os.walk(tmp_path / "home"):
            os.chmod(folder, 0o755)


def test_folders_win(hub, tmp_path):
    (tmp_path / "org").mkdir()
    shutil.copytree(EXAMPLE, tmp_path / "org" / "name")
    run(hub, tmp_path, "pca", NAME, "-o", tmp_path / "a", cwd=tmp_path)
    shutil.copytree(EXAMPLE, tmp_path / "root" / "org" / "name")
    config = tmp_path / "c.yaml"
    (tmp_path / "elsewhere").mkdir()
    config.write_text(f"data: {{dataset_name: org/name, local_root: {tmp_path / 'root'}}}\n")
    run(hub, tmp_path, "pca", "--config", config, "-o", tmp_path / "b", cwd=tmp_path / "elsewhere")
    assert not hub.log


@pytest.mark.parametrize("path, said", [
    ("models/llama.gguf", "no such file"), ("data/heads.npz", "no such file"), ("data/x.pt", "no such file"),
    ("results/capture.json", "no such file"), ("a/b/c", "no such folder"), ("./org/name", "no such folder"),
    ("captur", "no such folder"), ("org/name/", "no such folder")])
def test_mistyped_paths_ask_nobody(hub, tmp_path, path, said):
    told = run(hub, tmp_path, "analyze", path, "-o", tmp_path / "a", expect=1, cwd=tmp_path)[1]
    assert said in told and "qkscope get" not in told and not hub.log


@pytest.mark.parametrize("name, said", [
    ("x.gguf", "a model, not a capture; make a capture of it with: qkscope capture --model "), ("x.npz", "arrays of NumPy"),
    ("x.pt", "tensors of PyTorch"), ("x.safetensors", "a file of a model, not a capture; "), ("x.parquet", "one head of a capture")])
def test_files_that_are_no_captures(hub, tmp_path, name, said):
    (tmp_path / name).write_bytes(b"x")
    for path in (name, tmp_path / name):
        told = run(hub, tmp_path, "analyze", path, "-o", tmp_path / "a", expect=1, cwd=tmp_path)[1]
        assert said in told, told


@pytest.mark.parametrize("words", [
    ["inspect", "PATH"], ["scatter", "PATH", "-o", "out"], ["repack", "PATH", "-o", "out"], ["tokenize", "PATH", "x"],
    ["capture", "--model", "PATH", "EXAMPLE", "-o", "out"], ["capture", "--model", "MODEL", "PATH", "-o", "out"],
    ["compare-stages", "PATH", "PATH", "-o", "out"]])
def test_mistyped_paths_of_every_command(hub, tmp_path, words):
    """Nobody is asked, and nothing is said of downloads."""
    (tmp_path / "x").write_text("text")
    for path in ("./nowhere", "captures/of/mine", "/no/where", "../no/where", "nowhere"):
        known = {"PATH": path, "EXAMPLE": str(tmp_path / "x"), "MODEL": str(MODEL)}
        _, said = run(hub, tmp_path, *(known.get(word, word) for word in words), expect=1, cwd=tmp_path)
        assert path in said and "qkscope get" not in said and "fetch" not in said, said
    assert not hub.log


def test_names_that_the_hub_does_not_have(hub, tmp_path):
    said = run(hub, tmp_path, "analyze", "org/nmae", "-o", tmp_path / "a", expect=1)[1]
    assert "the Hub has no dataset of this name" in said and "nor is there a folder of this name" in said
    assert len(hub.log) == 1 and not (tmp_path / "a").exists()


def test_other_commands_on_captures(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE))
    head = ["--layers", "0", "--heads", "0"]
    for name, words in (("scatter", ["--heads", "0:0"]), ("rotate", head), ("plasticity", head)):
        _, said = run(hub, tmp_path / name, name, NAME, "-o", tmp_path / f"{name}-out", *words)
        assert f"{NAME} at main: fetching 3 files, " in said  # queries, keys and capture.json
        assert len(hub.requests("cdn")) == 2
        hub.log.clear()
    run(hub, tmp_path / "repack", "repack", NAME, "-o", tmp_path / "packed")
    run(hub, tmp_path, "repack", EXAMPLE, "-o", tmp_path / "packed too")
    assert files_of(tmp_path / "packed") == files_of(tmp_path / "packed too")


def test_study(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE), revision="a")
    hub.add("datasets", NAME, files_of(EXAMPLE) | {"README.md": b"another"}, revision="b")
    (tmp_path / "study.yaml").write_text(
        "models:\n" + "".join(f"  - {{name: {r}, source: {{dataset: org/name, revision: {r}}}}}\n" for r in "ab"))
    words = ["study", tmp_path / "study.yaml", "-o", tmp_path / "out", "--no-figures"]
    out, _ = run(hub, tmp_path, *words, "--dry-run")
    assert not hub.log and out.count("would be fetched") == 2
    run(hub, tmp_path, *words, "--offline", expect=1)
    assert not hub.log
    _, said = run(hub, tmp_path, *words)
    assert "a: org/name at a: fetching" in said and "b: org/name at b: fetching" in said
    (tmp_path / "local.yaml").write_text(
        "models:\n" + "".join(f"  - {{name: {r}, source: {{folder: {EXAMPLE}}}}}\n" for r in "ab"))
    run(hub, tmp_path, "study", tmp_path / "local.yaml", "-o", tmp_path / "same", "--no-figures")
    for name in "ab":
        assert tables(tmp_path / "out" / "models" / name) == tables(tmp_path / "same" / "models" / name)
    sent = len(hub.log)
    run(hub, tmp_path, *words)
    assert len(hub.log) == sent


def test_progress_on_a_terminal(hub, tmp_path):
    hub.add("datasets", NAME, files_of(EXAMPLE) | {"l09h00q/data.parquet": bytes(3 << 20)})
    hub.fault("cdn", times=99, piece=300000, pause=0.05)
    said = on_terminal([PROGRAM, "get", NAME], "stderr", env=hub.environment(tmp_path) | {"HF_HUB_OFFLINE": None})
    assert "/8 MB, org/name, " in said and "MB/s" in said


# ---- models ----------------------------------------------------------------------------------

def test_capture_of_a_model_on_the_hub(hub, tmp_path):
    hub.add("models", NAME, files_of(MODEL) | {"pytorch_model.bin": b"x" * 100000, "README.md": b"x"}, revision="v2")
    texts = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
    words = [texts, "--layers", "0", "--model-name", "m", "--sampler", "all", "--max-texts", "4"]
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
    return {"data/train-00000.jsonl": b"".join(lines[:3]), "data/train-00001.jsonl": b"".join(lines[3:5]),
            "data/test.jsonl": b"".join(lines[5:7]), "en/train.jsonl": lines[7], "train.zip": b"x" * 1000,
            ".hidden/train.jsonl": b"{", "README.md": b"train"}


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
    run(hub, tmp_path, "capture", "org/texts", "-o", tmp_path / "c", *words, "--model", MODEL, "--offline",
        expect=1 if options else 0)


def test_texts_that_cannot_be_had(hub, tmp_path):
    words = ["capture", "--model", MODEL, "-o", tmp_path / "a"]
    assert "no dataset of this name" in run(hub, tmp_path, *words, "org/texts", expect=1)[1]
    hub.add("datasets", "org/texts", {"a.zip": b"x"})
    assert "no Parquet or JSONL files" in run(hub, tmp_path, *words, "org/texts", expect=1)[1]
    said = run(hub, tmp_path, *words, "no/such/folder", expect=1)[1]
    assert "no such file or folder" in said and "qkscope get" not in said
    assert "qkscope get org/other" in run(hub, tmp_path, *words, "org/other", "--offline", expect=1)[1]


def test_the_original_configuration_fetches_into_its_cache(hub, tmp_path):
    files = {f"some_model/{name}": data for name, data in files_of(EXAMPLE).items()}
    hub.add("datasets", NAME, files | {"other/l00h00q/data.parquet": b"x" * 1000})
    (tmp_path / "heads.yaml").write_text(
        f"model_dir: some_model\ndataset_name: {NAME}\ndataset_cache_dir: {tmp_path}/cache\nnum_layers: 1\n"
        f"num_q_heads: 4\nnum_k_heads: 2\noutput_csv: {tmp_path}/a/h.csv\nbucket_csv: {tmp_path}/a/b.csv\n"
        f"component_csv: {tmp_path}/a/c.csv\n")
    words = ["analyze-heads", "--config", tmp_path / "heads.yaml"]
    _, said = run(hub, tmp_path, *words, "--download_max_workers", "2")
    assert f"{NAME} at main: fetching 7 files" in said and not (tmp_path / "hub").exists()
    assert (tmp_path / "cache" / "datasets--org--name" / "refs" / "main").exists()
    made = files_of(tmp_path / "a", "manifest.json")
    sent = len(hub.log)
    run(hub, tmp_path, *words)
    assert len(hub.log) == sent and files_of(tmp_path / "a", "manifest.json") == made
    missing = next((tmp_path / "cache").glob("*/snapshots/*/some_model/l00h00q/data.parquet"))
    missing.unlink()  # half a snapshot is completed
    run(hub, tmp_path, *words)
    assert files_of(tmp_path / "a", "manifest.json") == made


def test_local_root_that_is_a_cache(hub, tmp_path):
    """What is missing of it is recognised, and goes there."""
    hub.add("datasets", NAME, files_of(EXAMPLE))
    run(hub, tmp_path / "other", "get", NAME, "--layers", "0", "--cache", tmp_path / "root")
    (tmp_path / "s.yaml").write_text(f"models:\n  - {{name: a, source: {{dataset: {NAME}}}}}\n")
    words = ["study", tmp_path / "s.yaml", "--local-root", tmp_path / "root", "-o", tmp_path / "a", "--no-figures"]
    assert "are not in the cache" in run(hub, tmp_path, *words, "--offline", expect=1)[1]
    run(hub, tmp_path, *words)
    assert not (tmp_path / "hub").exists()


def test_tokenizer_of_a_model_on_the_hub(hub, tmp_path):
    hub.add("models", NAME, files_of(MODEL))
    (tmp_path / "text").write_text("In the beginning")
    out, said = run(hub, tmp_path, "tokenize", NAME, tmp_path / "text")
    assert out == run(hub, tmp_path, "tokenize", MODEL, tmp_path / "text")[0]
    assert f"{NAME} at main: fetching 1 file, " in said
    assert run(hub, tmp_path, "tokenize", NAME, tmp_path / "text", "--offline")[0] == out
    assert not hub.requests("cdn")
