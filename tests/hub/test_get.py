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


def get(hub, home, *arguments, expect=0, timeout=100, **extra):
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
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


# ---- the cache -------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, revision", [("datasets", "main"), ("datasets", "refs/pr/1"), ("datasets", "v1.0"),
                                            ("models", "main")])
def test_same_cache_as_huggingface_hub(hub, tmp_path, kind, revision):
    files = capture_files() if kind == "datasets" else {
        "config.json": b"{}", "tokenizer.json": b"{ }", "model.safetensors": noise(1, 70000)}
    commit = hub.add(kind, NAME, files, revision=revision, tag=revision == "v1.0")
    options = ["--revision", revision] if revision != "main" else []
    path, said = get(hub, tmp_path / "ours", *(["--model"] if kind == "models" else []), NAME, *options)
    assert path == str(tmp_path / "ours" / "hub" / f"{kind}--org--name" / "snapshots" / commit)
    assert f"{NAME} at {revision}: fetching {len(files)} files, " in said
    requests = hub.requests()
    asked = [name for name, data in files.items() if data]  # of no bytes all is known
    small = sum(not name.endswith((".parquet", ".safetensors")) for name in asked)  # redirected on the Hub itself
    assert len(requests) == 2 + len(asked) + small and all(r.method == "GET" for r in requests)
    hf(hub, tmp_path / "theirs", *(["--repo-type", "dataset"] if kind == "datasets" else []), NAME, *options)
    assert cache_tree(tmp_path / "ours") == cache_tree(tmp_path / "theirs")


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
    for offline in ("1", "0"):
        other(HF_HUB_OFFLINE=offline)
        assert cache_tree(tmp_path) == before
        assert len(hub.requests(path="/resolve/|/blob/")) == len([r for r in hub.log[:sent] if "/resolve/" in r.path])
        assert not hub.requests("cdn", "") or len(hub.requests("cdn")) == len([r for r in hub.log[:sent]
                                                                              if r.origin == "cdn"])
        if offline == "1":
            assert len(hub.log) == sent


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_half_a_snapshot_is_completed_by_either(hub, tmp_path, first):
    files = capture_files()
    hub.add("datasets", NAME, files)

    def ours(*more, **extra):
        return get(hub, tmp_path / "both", NAME, *more, **extra)

    def theirs(*more, **extra):
        return hf(hub, tmp_path / "both", "--repo-type", "dataset", NAME, *more, **extra)
    if first == "ours":
        ours("--layers", "0")
        said = theirs(HF_HUB_OFFLINE="1", expect=1)
        assert "ncomplete" in said
        theirs()
    else:
        theirs("--include", "l00*")
        said = ours(HF_HUB_OFFLINE="1", expect=1)[1]
        missing = [name for name in files if not name.startswith("l00")]
        assert f"{len(missing)} of {len(files)} files" in said and "qkscope get" in said, said
        said = ours()[1]
        assert "(the others are in the cache)" in said
    hf(hub, tmp_path / "whole", "--repo-type", "dataset", NAME)
    assert cache_tree(tmp_path / "both") == cache_tree(tmp_path / "whole")


def test_new_commit_fetches_what_changed(hub, tmp_path):
    files = capture_files()
    old = hub.add("datasets", NAME, files)
    get(hub, tmp_path / "ours", NAME)
    hf(hub, tmp_path / "theirs", "--repo-type", "dataset", NAME)
    new = hub.add("datasets", NAME, files | {"l00h00q/data.parquet": noise("new", 5000)})
    before = len(hub.requests("cdn"))
    path, said = get(hub, tmp_path / "ours", NAME)
    assert path.endswith(new) and "fetching" in said and len(hub.requests("cdn")) == before + 1
    hf(hub, tmp_path / "theirs", "--repo-type", "dataset", NAME)
    ours, theirs = cache_tree(tmp_path / "ours"), cache_tree(tmp_path / "theirs")
    assert ours == theirs and any(old in name for name in ours)
    hub.repos.clear()  # it is gone: what is here stays good
    for revision, commit in (("main", new), (old, old), (old[:9], old)):
        assert get(hub, tmp_path / "ours", NAME, "--revision", revision, "--offline")[0].endswith(commit)


def test_shared_store(hub, tmp_path):
    """Bytes that another repository has, in the store of huggingface_hub 2, are linked, not fetched."""
    pytest.importorskip("hf_xet")
    hub.add("datasets", NAME, capture_files(layers=1), xet=True)
    made = hub.repos["datasets", NAME].commits[hub.repos["datasets", NAME].refs["main"]]
    trees = {}
    for who in ("ours", "theirs"):
        store = tmp_path / who / "hub" / "blobs"
        store.mkdir(parents=True)
        (store / ".huggingface-shared-blobs").write_text("1\n")
        for file in made.values():
            if file.xet:
                place = store / file.xet[:2] / file.xet
                place.parent.mkdir(exist_ok=True)
                place.write_bytes(file.data)
    before = len(hub.requests("cdn"))
    get(hub, tmp_path / "ours", NAME)
    assert len(hub.requests("cdn")) == before
    hf(hub, tmp_path / "theirs", "--repo-type", "dataset", NAME, HF_HUB_DISABLE_XET="0")
    for who in ("ours", "theirs"):
        trees[who] = {name: entry for name, entry in cache_tree(tmp_path / who).items() if not name.endswith(".lock")}
    assert trees["ours"] == trees["theirs"]
    assert any(entry[0] == "link" and entry[1].startswith("../../blobs/") for entry in trees["ours"].values())
    hf(hub, tmp_path / "ours", "--repo-type", "dataset", NAME, HF_HUB_OFFLINE="1")
    assert get(hub, tmp_path / "theirs", NAME, "--offline")


def test_files_that_somebody_knows_not_to_exist(hub, tmp_path):
    """.no_exist of huggingface_hub stays, and is no snapshot."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    commit = hub.add("datasets", NAME, capture_files(layers=1))
    code = ("import huggingface_hub as h\ntry:\n    h.hf_hub_download('org/name', 'config.json', repo_type='dataset')\n"
            "except h.errors.EntryNotFoundError: print('none')\n")
    done = subprocess.run([sys.executable, "-c", code], env=hub.environment(tmp_path), capture_output=True, text=True)
    assert done.stdout == "none\n", done.stderr
    mark = tmp_path / "hub" / DATASET / ".no_exist" / commit / "config.json"
    assert mark.is_file()
    get(hub, tmp_path, NAME)
    assert mark.is_file() and get(hub, tmp_path, NAME, "--offline")[0].endswith(commit)
    assert not huggingface_hub.scan_cache_dir(tmp_path / "hub").warnings


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


@pytest.mark.parametrize("options, wanted", [
    (["--layers", "1"], {"l01h00q", "l01h01q", "l01h02q", "l01h03q", "l01h00k", "l01h01k"}),
    (["--layers", "0", "--heads", "3"], {"l00h03q", "l00h01k", "l00h03k"} - {"l00h03k"}),
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
    assert "none of the 8 files of revision main is wanted: there are no folders of heads" in said


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
    assert not list(tmp_path.rglob("*.gguf"))
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
    one = json.loads(get(hub, tmp_path, "--list", NAME, "--json", "--revision", "qwen3")[0])
    assert one["branches"] == [first]
    assert len(hub.requests("cdn")) == before
    assert "--revision" in get(hub, tmp_path, "--list", NAME, "--offline", expect=1)[1]


# ---- who asks --------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["variable", "old variable", "file", "path", "none", "not implied"])
def test_token_goes_to_the_hub_alone(hub, tmp_path, how):
    hub.add("datasets", NAME, capture_files(layers=1))
    extra = {"variable": {"HF_TOKEN": " hf_good\n"}, "old variable": {"HUGGING_FACE_HUB_TOKEN": "hf_good"},
             "path": {"HF_TOKEN_PATH": tmp_path / "mine"},
             "not implied": {"HF_TOKEN": "hf_good", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}}.get(how, {})
    (tmp_path / "token").write_text("hf_good\n" if how == "file" else "")
    (tmp_path / "mine").write_text("hf_good")
    hub.repos["datasets", NAME].private = how not in ("none", "not implied")
    _, said = get(hub, tmp_path, NAME, **extra)
    sent = {r.origin: {r2.headers.get("authorization") for r2 in hub.requests(r.origin)} for r in hub.log}
    assert sent == {"hub": {None if how in ("none", "not implied") else "Bearer hf_good"}, "cdn": {None}}
    assert "hf_good" not in said and "secret" not in said


@pytest.mark.parametrize("change, token, remedy", [
    ("gone", None, "or it is private: then log in (hf auth login) or set HF_TOKEN"),
    ("gone", "hf_good", "or your token may not see it"),
    ("private", None, "hf auth login"),
    ("gated", None, "/datasets/org/name, then log in"),
    ("gated", "hf_good", "with the account of your token"),
    ("disabled", None, "has disabled this dataset"),
    ("bad token", "hf_wrong", "does not accept the token"),
    ("revision", None, "no revision v9; see what there is with: qkscope get --list org/name")])
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
    assert not any(path.is_file() for path in (tmp_path / "hub").rglob("l00*"))


def test_names(hub, tmp_path):
    for name in ("./x", "a/b/c", "org/..", "-a/b", "a b/c", "org/na--me"):
        said = get(hub, tmp_path, "--", name, expect=2)[1]
        assert f"{name}: not the name of a Hub dataset" in said
    for revision in ("../x", "/etc", "a/../../b", ""):
        assert "not a revision" in get(hub, tmp_path, NAME, "--revision", revision, expect=2)[1]
    assert not hub.log


@pytest.mark.parametrize("path", ["/revision/", "/tree/"])
def test_a_web_page_in_place_of_the_hub(hub, tmp_path, path):
    """As a log-in page of a hotel."""
    hub.add("datasets", NAME, {"README.md": b"x"})
    hub.fault(path=path, times=9, status=200, body=b"\n <!DOCTYPE html><html></html>")
    said = get(hub, tmp_path, NAME, expect=1)[1]
    assert f"{hub.url} answered with a web page, not the Hub: a proxy, a log-in page, or HF_ENDPOINT?" in said


def test_nothing_listens(tmp_path):
    with FakeHub() as gone:
        pass
    said = get(gone, tmp_path, NAME, expect=1)[1]
    assert "tried 3 times" in said and "onnect" in said


@pytest.mark.parametrize("name", ["libcurl.so.4", "libcrypto.so.3"])
def test_without_its_libraries(hub, tmp_path, name):
    """They are loaded when something is fetched; what is here can be used without them."""
    hub.add("datasets", NAME, {"README.md": b"x"})
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / name).write_text("no library")
    (tmp_path / "bad" / "libcrypto.so.1.1").write_text("no library")
    said = get(hub, tmp_path, NAME, expect=1, LD_LIBRARY_PATH=tmp_path / "bad")[1]
    if name == "libcurl.so.4":
        assert "libcurl.so.4, which is needed for fetching, cannot be loaded (" in said and "): install libcurl" in said
    else:
        assert "which is needed for fetching, cannot be loaded" in said
    assert not hub.log
    get(hub, tmp_path, NAME)
    get(hub, tmp_path, NAME, "--offline", LD_LIBRARY_PATH=tmp_path / "bad")


def test_many_small_files_by_one_request_each(tmp_path):
    """5,760 heads, and a listing of 6,001 files, in pages of 1,000."""
    files = {f"l{layer:02}h{head:02}{kind}/data.parquet": b"%d %d %s" % (layer, head, kind.encode())
             for layer in range(80) for kind, count in (("q", 64), ("k", 8)) for head in range(count)}
    files |= {f"more/{i}.txt": b"%d" % i for i in range(6001 - len(files))}
    with FakeHub() as hub:
        hub.add("datasets", NAME, files)
        _, said = get(hub, tmp_path, NAME, "--layers", "0-79", "--jobs", "8")
        folders = 80 * 72 + 1
        assert "fetching 5760 files" in said
        assert len(hub.requests()) == 1 + -(-(6001 + folders) // 1000) + 5760 <= 6000
        assert all(r.method == "GET" for r in hub.log)
        listed = json.loads(next((tmp_path / "hub" / DATASET / "trees").iterdir()).read_text())
        assert set(listed["files"]) == set(files)
        assert os.path.exists(tmp_path / "hub" / DATASET / "refs" / "main")
