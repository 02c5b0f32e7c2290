# SPDX-License-Identifier: Apache-2.0
"""`qkscope get` against a server that answers as the Hub does; what it leaves in the cache is what the real
huggingface_hub leaves there, name for name, link for link, byte for byte."""
import json
import os
import pathlib
import random
import subprocess
import sys

import pytest
from conftest import BUILD, check_survived
from fake_hub import FakeHub, cache_tree

PROGRAM = BUILD / "qkscope"
NAME = "org/name"
DATASET = "datasets--org--name"


def noise(seed, size):
    return random.Random(seed).randbytes(size)


def capture_files(layers=2, queries=4, keys=2, size=3000):
    files = {f"l{layer:02}h{head:02}{kind}/data.parquet": noise(f"{layer} {head} {kind}", size + layer)
             for layer in range(layers) for kind, count in (("q", queries), ("k", keys)) for head in range(count)}
    return files | {"README.md": b"# a card\n", ".gitattributes": b"*.parquet filter=lfs\n", "empty.txt": b"",
                    "n\u00e4me with spaces.txt": b"x", "capture.json": b"{}"}


def get(hub, home, *arguments, expect=0, timeout=300, **extra):
    """`qkscope get` with a cache of its own; what it prints, and what it says."""
    done = subprocess.run([PROGRAM, "get", *map(str, arguments)], env=hub.environment(home, **extra),
                          capture_output=True, text=True, timeout=timeout)
    check_survived(done.returncode, done.stderr)
    assert done.returncode == expect, done.stderr
    return done.stdout.strip(), done.stderr.strip()


def hf(hub, home, *arguments, expect=0, **extra):
    """The same by the real client."""
    pytest.importorskip("huggingface_hub")
    tool = pathlib.Path(sys.executable).with_name("hf")
    if not tool.exists():
        pytest.skip("hf is not installed")
    done = subprocess.run([tool, "download", *map(str, arguments)], env=hub.environment(home, **extra),
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


# ---- the cache -------------------------------------------------------------------------------

def test_what_lies_in_the_cache(hub, tmp_path):
    """Links into blobs, a ref; by one request a file, one a page of the list, and one for the commit."""
    hub.page = 7
    files = capture_files()
    commit = hub.add("datasets", NAME, files, revision="refs/pr/1")
    path, said = get(hub, tmp_path, NAME, "--revision", "refs/pr/1")
    repo = tmp_path / "hub" / DATASET
    assert path == str(repo / "snapshots" / commit) and (repo / "refs" / "refs" / "pr" / "1").read_text() == commit
    assert f"{NAME} at refs/pr/1: fetching {len(files)} files, " in said
    for name, data in files.items():
        link = repo / "snapshots" / commit / name
        etag = hub.repos["datasets", NAME].commits[commit][name].etag
        assert link.read_bytes() == data and os.readlink(link) == f"{'../' * name.count('/')}../../blobs/{etag}"
    asked = [name for name, data in files.items() if data]  # of no bytes all is known
    small = sum(not name.endswith(".parquet") for name in asked)  # redirected on the Hub itself
    pages = -(-(len(files) + 12) // 7)  # of files and folders
    assert len(hub.requests()) == 1 + pages + len(asked) + small and all(r.method == "GET" for r in hub.log)


@pytest.mark.test_all
@pytest.mark.parametrize("kind, revision", [("datasets", "refs/pr/1"), ("datasets", "v1.0"), ("models", "main")])
def test_same_cache_as_huggingface_hub(hub, tmp_path, kind, revision):
    hub.add(kind, NAME, capture_files() if kind == "datasets" else {
        "config.json": b"{}", "tokenizer.json": b"{ }", "model.safetensors": noise(1, 70000)}, revision=revision, tag=revision == "v1.0")
    options = ["--revision", revision] if revision != "main" else []
    get(hub, tmp_path / "ours", *(["--model"] if kind == "models" else []), NAME, *options)
    hf(hub, tmp_path / "theirs", *(["--repo-type", "dataset"] if kind == "datasets" else []), NAME, *options)
    assert cache_tree(tmp_path / "ours") == cache_tree(tmp_path / "theirs")


@pytest.mark.test_all
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_each_finds_what_the_other_fetched(hub, tmp_path, first):
    hub.add("datasets", NAME, capture_files())

    def ours(**extra):
        return get(hub, tmp_path, NAME, **extra)[0]

    def theirs(**extra):
        return hf(hub, tmp_path, "--repo-type", "dataset", NAME, **extra)
    one, other = (ours, theirs) if first == "ours" else (theirs, ours)
    one()
    before, sent = cache_tree(tmp_path), len(hub.log)
    other(HF_HUB_OFFLINE="1")
    assert cache_tree(tmp_path) == before and len(hub.log) == sent
    other()
    assert cache_tree(tmp_path) == before and not any("/resolve/" in r.path or r.origin == "cdn" for r in hub.log[sent:])


def test_new_commit_fetches_what_changed(hub, tmp_path):
    files = capture_files()
    old = hub.add("datasets", NAME, files)
    get(hub, tmp_path, NAME)
    new = hub.add("datasets", NAME, files | {"l00h00q/data.parquet": noise("new", 5000)})
    before = len(hub.requests("cdn"))
    path, said = get(hub, tmp_path, NAME)
    assert path.endswith(new) and "fetching" in said and len(hub.requests("cdn")) == before + 1
    hub.repos.clear()  # it is gone: what is here stays good
    for revision, commit in (("main", new), (old, old), (old[:9], old)):
        assert get(hub, tmp_path, NAME, "--revision", revision, "--offline")[0].endswith(commit)


def test_what_get_says_as_json(hub, tmp_path):
    files = {f"l00h0{head}q/data.parquet": noise(head, 1000) for head in range(5)}
    commit = hub.add("datasets", NAME, files)
    said = json.loads(get(hub, tmp_path, NAME, "--files", "l00h0[0-3]*", "--json")[0])
    path = said.pop("path")
    assert said == {"name": NAME, "commit": commit, "files": 4, "bytes": 4000, "fetched_files": 4,
                    "fetched_bytes": 4000, "requests": 6}
    again = json.loads(get(hub, tmp_path, NAME, "--json")[0])
    assert again["path"] == path and again["files"] == 5 and again["fetched_files"] == 1
    assert again["fetched_bytes"] == 1000 and again["requests"] == 2  # commit and file: the list is here


# ---- which files -----------------------------------------------------------------------------

def fetched(cache, folder=DATASET):
    snapshots = pathlib.Path(cache) / "hub" / folder / "snapshots"
    return {str(p.relative_to(next(snapshots.iterdir()))) for p in snapshots.rglob("*") if p.is_file()}


@pytest.mark.cases(3)
@pytest.mark.parametrize("options, wanted", [
    (["--layers", "1"], {"l01h00q", "l01h01q", "l01h02q", "l01h03q", "l01h00k", "l01h01k"}),
    (["--heads", "0"], {"l00h00q", "l00h00k", "l01h00q", "l01h00k"}),
    (["--heads", "1:2-3,0:0"], {"l00h00q", "l00h00k", "l01h02q", "l01h03q", "l01h01k"}),
    (["--heads", "3", "--q-per-kv-group", "4"], {"l00h03q", "l00h00k", "l01h03q", "l01h00k"})])
def test_chosen_heads_with_their_keys(hub, tmp_path, options, wanted):
    hub.add("datasets", NAME, capture_files())
    get(hub, tmp_path, NAME, *options)
    assert fetched(tmp_path) == {f"{head}/data.parquet" for head in wanted} | {"capture.json"}


def test_packed_states_and_prefixes(hub, tmp_path):
    names = ["a/l00q/data.parquet", "a/l00k/data.parquet", "a/l01q/data.parquet", "b/l00q/data.parquet",
             "a/moments/l00.safetensors", "a/moments/l01.safetensors", "a/capture.json", "README.md"]
    hub.add("datasets", NAME, {name: noise(name, 100) for name in names})
    get(hub, tmp_path, NAME, "--layers", "0", "--split", "a")
    assert fetched(tmp_path) == {"a/l00q/data.parquet", "a/l00k/data.parquet", "a/moments/l00.safetensors",
                                 "a/capture.json"}
    said = get(hub, tmp_path, NAME, "--layers", "7", expect=1)[1]
    assert "none of the 8 files of revision main is wanted" in said


@pytest.mark.parametrize("names, wanted", [
    (["config.json", "model.safetensors", "pytorch_model.bin", "tokenizer.json", "vocab.json", "onnx/model.onnx",
      "model.fp16.safetensors", "README.md"], ["config.json", "model.safetensors", "tokenizer.json"]),
    (["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
      "model.safetensors.index.json", "tokenizer.model"],
     ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
      "model.safetensors.index.json", "tokenizer.model"]),
    (["a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "README.md"],
     ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"])])
def test_files_of_models(hub, tmp_path, names, wanted):
    hub.add("models", NAME, {name: noise(name, 50) for name in names})
    path = get(hub, tmp_path, "--model", NAME)[0]
    assert fetched(tmp_path, "models--org--name") == set(wanted)
    assert path.endswith(wanted[0] if wanted[0].endswith("gguf") else hub.repos["models", NAME].refs["main"])


def test_models_that_cannot_be_read(hub, tmp_path):
    hub.add("models", "org/bin", {"config.json": b"{}", "pytorch_model.bin": b"x"})
    hub.add("models", "org/many", {"a-Q4.gguf": b"a", "a-Q8.gguf": b"b"})
    assert "save_pretrained" in get(hub, tmp_path, "--model", "org/bin", expect=1)[1]
    assert "2 GGUF files, a-Q4.gguf for one" in get(hub, tmp_path, "--model", "org/many", expect=1)[1]
    path = get(hub, tmp_path, "--model", "org/many", "--files", "*Q8.gguf")[0]
    assert path.endswith("a-Q8.gguf") and pathlib.Path(path).read_bytes() == b"b"


# ---- looking ---------------------------------------------------------------------------------

def test_list(hub, tmp_path):
    hub.add("datasets", NAME, capture_files(), revision="qwen3")
    hub.add("datasets", NAME, capture_files(layers=3, size=10000), revision="main")
    hub.add("datasets", NAME, {"l00q/data.parquet": b"1", "l00k/data.parquet": b"2"}, revision="v1", tag=True)
    get(hub, tmp_path, NAME, "--revision", "qwen3", "--layers", "0")
    before = len(hub.requests("cdn"))
    said = get(hub, tmp_path, "--list", NAME)[0]
    assert [line.split()[:5] for line in said.splitlines()[1:]] == [
        ["qwen3", "2", "8", "4", "17"], ["main", "3", "12", "6", "23"], ["v1", "1", "0", "0", "2"]]
    found = json.loads(get(hub, tmp_path, "--list", NAME, "--json")[0])
    first = found["branches"][0]
    assert first["cached_files"] == 7 and first["commit"] == hub.repos["datasets", NAME].refs["qwen3"]
    assert first["bytes"] == sum(map(len, capture_files().values()))
    assert found["branches"][2]["kind"] == "tag" and found["branches"][2]["packed_files"] == 2
    assert len(hub.requests("cdn")) == before


# ---- who asks --------------------------------------------------------------------------------

@pytest.mark.cases(3)
@pytest.mark.parametrize("how", ["variable", "old variable", "file", "path", "not implied"])
def test_token_goes_to_the_hub_alone(hub, tmp_path, how):
    hub.add("datasets", NAME, capture_files(layers=1))
    extra = {"variable": {"HF_TOKEN": " hf_good\n"}, "old variable": {"HUGGING_FACE_HUB_TOKEN": "hf_good"},
             "path": {"HF_TOKEN_PATH": tmp_path / "mine"},
             "not implied": {"HF_TOKEN": "hf_good", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}}.get(how, {})
    (tmp_path / "token").write_text("hf_good\n" if how == "file" else "")
    (tmp_path / "mine").write_text("hf_good")
    hub.repos["datasets", NAME].private = how != "not implied"
    _, said = get(hub, tmp_path, NAME, **extra)
    sent = {r.origin: {r2.headers.get("authorization") for r2 in hub.requests(r.origin)} for r in hub.log}
    assert sent == {"hub": {None if how == "not implied" else "Bearer hf_good"}, "cdn": {None}}
    assert "hf_good" not in said and "secret" not in said


@pytest.mark.cases(4)
@pytest.mark.parametrize("change, token, remedy", [
    ("gone", None, "hf auth login"), ("gone", "hf_good", "your token may not see it"),
    ("private", None, "hf auth login"), ("gated", None, "/datasets/org/name"), ("disabled", None, "has disabled this dataset"),
    ("bad token", "hf_wrong", "does not accept the token"), ("revision", None, "qkscope get --list org/name")])
def test_refusals_name_the_remedy(hub, tmp_path, change, token, remedy):
    hub.add("datasets", NAME, capture_files(layers=1))
    repo = hub.repos["datasets", NAME]
    if change == "gone":
        hub.repos.clear()
    repo.private, repo.disabled = change == "private", change == "disabled"
    repo.gated = "hf_other" if change == "gated" else None
    extra = {"HF_TOKEN": token} if token else {}
    said = get(hub, tmp_path, NAME, *(["--revision", "v9"] if change == "revision" else []), expect=1, **extra)[1]
    assert said.splitlines()[-1].startswith("qkscope get: org/name: ") and remedy in said, said
    assert not token or token not in said
    assert len(hub.requests()) <= (6 if change == "gated" else 1)  # nothing of this gets better by trying again


def test_names_and_revisions_that_are_none(hub, tmp_path):
    """A revision becomes the name of a file below refs/."""
    for name in ("./x", "a/b/c", "org/..", "-a/b", "a b/c", "org/na--me"):
        said = get(hub, tmp_path, "--", name, expect=2)[1]
        assert f"{name}: not the name of a Hub dataset" in said
    for revision in ("../x", "/etc", "a/../../b", "", "a//b", ".main", "ma\x1b[31min", "a.lock", "a@{b", "x" * 201):
        said = get(hub, tmp_path, NAME, "--revision", revision, expect=2)[1]
        assert "not a revision" in said and "\x1b" not in said
    assert not hub.log and not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert "no dataset" in get(hub, tmp_path, NAME, "--revision", "refs/pr/1@\u00fcnic\u00f6de", expect=1)[1]


@pytest.mark.parametrize("words", [["get", NAME], ["put", "{}", "me/x", "--dry-run"]])
def test_an_address_with_a_password_is_not_shown(hub, tmp_path, words):
    words = [word.format(tmp_path) for word in words]
    for address in ("http://me:PASSWORD@127.0.0.1:1", "https:me:PASSWORD@x", "http://x/?token=PASSWORD"):
        done = subprocess.run([PROGRAM, *words], env=hub.environment(tmp_path, HF_ENDPOINT=address, HF_TOKEN="hf_good"),
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 2 and "it is not shown" in done.stderr and "PASSWORD" not in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["libcurl.so.4", "libcrypto.so.3"])
def test_without_its_libraries(hub, tmp_path, name):
    """They are loaded when something is fetched; what is here can be used without them."""
    hub.add("datasets", NAME, {"README.md": b"x"})
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / name).write_text("no library")
    (tmp_path / "bad" / "libcrypto.so.1.1").write_text("no library")
    said = get(hub, tmp_path, NAME, expect=1, LD_LIBRARY_PATH=tmp_path / "bad")[1]
    assert "which is needed for fetching, cannot be loaded" in said and not hub.log
    get(hub, tmp_path, NAME)
    get(hub, tmp_path, NAME, "--offline", LD_LIBRARY_PATH=tmp_path / "bad")
