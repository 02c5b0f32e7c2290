# SPDX-License-Identifier: Apache-2.0
"""What is asked of hf, which a script stands for here, and what is made of its answer. tests/hub/test_hub.py has the
real one."""
import json
import os
import re

import pytest
from conftest import EXAMPLE, ROOT

MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
COMMIT = "c" * 40
HF = """#!/bin/sh
printf '%s\\n' "$@" >> "$QK_LOG"
printf '\\033[1m\\033[31mError: all is lost.\\nAsk again.\\033[0m\\n\\033[90mHint: set HF_DEBUG=1 as ...\\033[0m\\n' >&2
exit ${QK_EXIT-7}
"""


@pytest.fixture
def hf(qkscope, tmp_path):
    """Runs qkscope in a folder with this hf on the path, which always fails: (what it says, words that hf was given)."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "hf").write_text(HF)
    (tmp_path / "bin" / "hf").chmod(0o755)
    (tmp_path / "work").mkdir()
    log = tmp_path / "log"

    def ask(*words, expect=1, **env):
        log.unlink(missing_ok=True)
        env |= {"PATH": f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}", "QK_LOG": log, "HF_HUB_CACHE": tmp_path / "cache",
               "HF_HUB_OFFLINE": "0"}
        said = qkscope(*words, expect=expect, env=env, cwd=tmp_path / "work").err
        return said, log.read_text().splitlines() if log.exists() else []
    return ask


def build(cache, sizes, here=(), kind="datasets"):
    """A commit whose list of files hf has left, some of which are here."""
    repo = cache / f"{kind}--org--name"
    for folder in ("refs", "trees", f"snapshots/{COMMIT}"):
        (repo / folder).mkdir(parents=True)
    (repo / "refs" / "main").write_text(COMMIT)
    (repo / "trees" / f"{COMMIT}.json").write_text(json.dumps({"format_version": 1, "files": {
        name: {"size": 130, "blob_id": "0" * 40, "lfs_sha256": "0" * 64, "lfs_size": size} for name, size in sizes.items()}}))
    for name in here:
        (repo / "snapshots" / COMMIT / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / "snapshots" / COMMIT / name).write_bytes(bytes(sizes[name]))


def heads(layers=3, queries=4, keys=2):
    names = [f"l{layer:02}h{head:02}{kind}/data.parquet" for layer in range(layers)
             for kind, count in (("q", queries), ("k", keys)) for head in range(count)]
    return dict.fromkeys([*names, "capture.json", "README.md", "notes/l.txt"], 5)


def test_what_hf_says_where_it_fails(hf):
    """By its exit status and its last words. Where there is no list of files, usual names are asked for."""
    said, words = hf("pca", "org/name", "--revision", "v1", "-o", "out")
    assert said == ("qkscope pca: org/name: hf download failed (exit status 7): all is lost. Ask again; nor is there a folder of "
                    "this name\n")
    front = ["download", "org/name", "--repo-type", "dataset", "--revision", "v1"]
    assert words[:6] == front and set(words[6::2]) == {"--include"} and "capture.json" in words[7::2]
    assert hf("pca", "org/name", "--split", "a/b", "--layers", "1", "--revision", "v1", "-o", "out")[1] == [
        *front, "--include", "a/b/capture.json"]
    assert hf("tokenize", "org/name", "x")[1][2:8] == ["--repo-type", "model", "--revision", "main", "--include", "tokenizer.json"]


@pytest.mark.cases(3)
@pytest.mark.parametrize("options, here, wanted", [
    ([], [], r"capture.json|l.*q/.*|l.*k/.*"), ([], ["capture.json"], "l0.*"), (["--layers", "1"], ["capture.json"], "l01.*"),
    (["--layers", "0-1"], ["capture.json", "l00h00k/data.parquet"], "l0[01].*"),
    (["--heads", "1:2-3"], ["capture.json"], "l01(h01k|h02q|h03q)/.*"), (["--heads", "*:3"], ["capture.json"], "l0.(h01k|h03q)/.*"),
    (["--heads", "1:2-3", "--q-per-kv-group", "4"], ["capture.json", "l01h02q/data.parquet"], "l01(h00k|h02q|h03q)/.*")])
def test_which_files_are_asked_for(hf, tmp_path, options, here, wanted):
    """Of a list of files those that are needed and not here."""
    build(tmp_path / "cache", heads(), here)
    said, words = hf("pca", "org/name", "-o", "out", *options)
    should = sorted(name for name in heads() if re.fullmatch(wanted, name) and name not in here)
    assert words == ["download", "org/name", "--repo-type", "dataset", "--revision", COMMIT,
                     *(word for name in should for word in ("--include", name))]
    assert f"{len(should)} of " in said


def test_files_of_another_size_are_asked_for_again(hf, tmp_path):
    build(tmp_path / "cache", heads(1, 1, 1), heads(1, 1, 1))
    head = next((tmp_path / "cache").glob("*/snapshots/*/l00h00q/data.parquet"))
    head.write_bytes(b"")
    assert hf("pca", "org/name", "-o", "out")[1][6:] == ["--include", "l00h00q/data.parquet"]
    said, words = hf("pca", "org/name", "-o", "out", "--offline")
    assert "1 of 3 files of revision main are not in the cache, or not whole, l00h00q/data.parquet for one" in said and not words


def test_a_list_of_other_form_is_no_list(hf, tmp_path):
    """Of a snapshot without one nobody knows whether it is whole: hf is asked, and it is used where hf fails."""
    for text in ("", "{}", '{"format_version": 2, "files": {}}', '{"format_version": 1, "files": {"a": {"size": "1"}}}'):
        (tmp_path / "cache").exists() or build(tmp_path / "cache", {})
        (tmp_path / "cache" / "datasets--org--name" / "trees" / f"{COMMIT}.json").write_text(text)
        said, words = hf("pca", "org/name", "-o", "out")
        assert words[6:8] == ["--include", "capture.json"] and "whether it is whole is not known: hf download failed" in said
    assert "is not known: hf keeps no list of files" in hf("pca", "org/name", "-o", "out", QK_EXIT="0")[0]
    said, words = hf("pca", "org/name", "-o", "out", "--offline")
    assert "whether it is whole is not known: nothing may be asked" in said and not words


def test_a_ref_without_a_commit(hf, tmp_path):
    """hf writes it anew."""
    build(tmp_path / "cache", heads())
    (tmp_path / "cache" / "datasets--org--name" / "refs" / "main").write_text("x" * 5000)
    said, words = hf("pca", "org/name", "-o", "out", "--offline")
    assert "revision main of a dataset of this name is not in the Hugging Face cache" in said and not words
    assert hf("pca", "org/name", "-o", "out")[1][4:6] == ["--revision", "main"]


@pytest.mark.cases(9)
@pytest.mark.parametrize("words, path, said", [
    (["analyze", "PATH", "-o", "out"], "models/llama.gguf", "no such file"), (["analyze", "PATH", "-o", "out"], "captur", "no such folder"),
    (["analyze", "PATH", "-o", "out"], "org/name/", "no such folder"), (["inspect", "PATH"], "a/b/c", "a/b/c"),
    (["scatter", "PATH", "-o", "out"], "./nowhere", "./nowhere"), (["tokenize", "PATH", "x"], "a/b/c", "a/b/c"),
    (["capture", "--model", "PATH", "x", "-o", "out"], "a/b/c", "a/b/c"),
    (["capture", "--model", str(MODEL), "PATH", "-o", "out"], "./nowhere", "./nowhere")])
def test_mistyped_paths_ask_nobody(hf, tmp_path, words, path, said):
    """And nothing is said of downloads."""
    (tmp_path / "work" / "x").write_text("text")
    told, asked = hf(*(path if word == "PATH" else word for word in words))
    assert said in told and "download" not in told and not asked


@pytest.mark.cases(6)
@pytest.mark.parametrize("words", [
    ["analyze", "cap/post", "-o", "out"], ["inspect", "cap/post"], ["capture", "--model", "cap/post", "x", "-o", "out"],
    ["capture", "--model", str(MODEL), "cap/post", "-o", "out"], ["capture", "--model", str(MODEL), "texts/x.txt", "-o", "out"],
    ["tokenize", "cap/post", "x"]])
def test_paths_in_a_folder_that_is_here_ask_nobody(hf, tmp_path, words):
    (tmp_path / "work" / "x").write_text("text")
    (tmp_path / "work" / "cap" / "pre").mkdir(parents=True)
    path = next(word for word in words if word.startswith(("cap/", "texts/")))
    told, asked = hf(*words)
    assert f"{path}: " in told and "No such file" in told or f"{path}: no such " in told
    assert not asked
    if words[0] in ("analyze", "inspect"):
        assert "folder here" in told and "beside it: pre" in told


@pytest.mark.cases(4)
@pytest.mark.parametrize("name, said", [
    ("x.gguf", "make a capture of it with: qkscope capture --model "), ("x.npz", "expected the folder of a capture"),
    ("x.safetensors", "a file of a model, not a capture; "), ("x.parquet", "expected the folder of a capture")])
def test_files_that_are_no_captures(hf, tmp_path, name, said):
    (tmp_path / "work" / name).write_bytes(b"x")
    told, asked = hf("analyze", name, "-o", "out")
    assert said in told and not asked


def test_commands_and_options_that_have_left(qkscope):
    for words, instead in ((["get", "org/name"], "hf download"), (["put", "x", "org/name"], "qkscope-push"),
                           (["study", "x.yaml", "--jobs", "4"], "hf"), (["study", "x.yaml", "--keep-downloads", "no"], "hf cache"),
                           (["inspect", EXAMPLE, "--offline"], "fetches nothing")):
        said = qkscope(*words, expect=2).err
        assert "has left: use" in said.splitlines()[0] and instead in said
