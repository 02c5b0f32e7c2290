# SPDX-License-Identifier: Apache-2.0
"""Finding datasets in a Hugging Face cache, against huggingface_hub where it is installed."""
import contextlib
import json
import os
import shutil
import subprocess
import sys
from unittest import mock

import pytest
from conftest import EXAMPLE

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
from qkscope._call import call, ffi, lib  # noqa: E402

ONE = "1234567" + "a" * 33
TWO = "1234567" + "b" * 33
THREE = "c" * 40
VARIABLES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")


def environment(home, **extra):
    env = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    return {**env, "HOME": str(home), **{k: str(v) for k, v in extra.items()}}


def find(env, name, revision=None, local_root=None, cwd="."):
    """(where the cache has the dataset, None), or (None, what is said); nothing is fetched."""
    wanted, place = ffi.new("qk_hub_wanted *"), ffi.new("qk_hub_place *")
    wanted.part, wanted.as_it_is = lib.QK_HUB_CAPTURE, True
    keep = {key: ffi.new("char[]", str(word).encode()) for key, word in
            (("name", name), ("revision", revision), ("local_root", local_root)) if word is not None}
    for key, word in keep.items():
        setattr(wanted, key, word)
    with mock.patch.dict(os.environ, env, clear=True), contextlib.chdir(cwd):
        try:
            call(lib.qk_hub_get, wanted, place)
        except qk.Error as error:
            return None, str(error)
    try:
        return ffi.string(place.path).decode(), None
    finally:
        lib.free(place.path)


def build_cache(cache, name="org/name", refs=None, commits=(ONE, TWO, THREE), links=True):
    """The layout huggingface_hub leaves: snapshots hold links into blobs, or files where there are no links."""
    repo = cache / ("datasets--" + name.replace("/", "--"))
    (repo / "blobs").mkdir(parents=True)
    (repo / "blobs" / "0a0a").write_text("data")
    for ref, commit in (refs or {"main": ONE, "v1.0": THREE, "refs/pr/2": TWO}).items():
        (repo / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (repo / "refs" / ref).write_text(commit)
    for commit in commits:
        head = repo / "snapshots" / commit / "l00h00q"
        head.mkdir(parents=True)
        if links:
            (head / "data.parquet").symlink_to("../../../blobs/0a0a")
        else:
            (head / "data.parquet").write_text("data")
    return repo / "snapshots"


@pytest.mark.cases(5)
@pytest.mark.parametrize("place", [
    ("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", ""), ("HF_HOME", "hub"),
    ("XDG_CACHE_HOME", "huggingface/hub"), (None, ".cache/huggingface/hub")])
def test_places(tmp_path, place):
    variable, tail = place
    snapshots = build_cache(tmp_path / "x" / tail)
    extra = {variable: tmp_path / "x"} if variable else {}
    env = environment(tmp_path if variable else tmp_path / "x", **extra)
    assert find(env, "org/name")[0] == str(snapshots / ONE)
    if variable:
        env[variable] = "~/x"
        assert find(env, "org/name")[0] == str(snapshots / ONE)
        env[variable] = "$QK_WHERE/x"
        env["QK_WHERE"] = str(tmp_path)
        assert find(env, "org/name")[0] == str(snapshots / ONE)


def test_more_specific_place_wins(tmp_path):
    build_cache(tmp_path / "a" / "hub")
    wanted = build_cache(tmp_path / "b")
    env = environment(tmp_path, HF_HOME=tmp_path / "a", HF_HUB_CACHE=tmp_path / "b")
    assert find(env, "org/name")[0] == str(wanted / ONE)
    env["HF_HUB_CACHE"] = ""
    assert find(env, "org/name")[0] == str(tmp_path / "a/hub/datasets--org--name/snapshots" / ONE)


@pytest.mark.parametrize("links", [True, False])
def test_revisions(tmp_path, links):
    snapshots = build_cache(tmp_path, links=links)
    env = environment(tmp_path, HF_HUB_CACHE=tmp_path)
    for revision, commit in {"": ONE, "main": ONE, "v1.0": THREE, "refs/pr/2": TWO, ONE: ONE, TWO: TWO}.items():
        assert find(env, "org/name", revision)[0] == str(snapshots / commit), revision


def test_revisions_that_are_not_there(tmp_path):
    build_cache(tmp_path)
    build_cache(tmp_path, "org/partial", refs={"main": "d" * 40})
    build_cache(tmp_path, "org/broken", refs={"main": "../../.."})
    env = environment(tmp_path, HF_HUB_CACHE=tmp_path)
    for args in (["org/name", "v2"], ["org/name", "1234567"], ["org/name", "d" * 40],
                 ["org/other"], ["org/partial"], ["org/broken"], ["org/name", "../../x"]):
        path, message = find(env, *args)
        revision = args[1] if len(args) > 1 else "main"
        assert path is None
        assert f"hf download {args[0]} --repo-type dataset --revision {revision}" in message
        assert str(tmp_path) in message and "HF_HUB_CACHE" in message


def test_names_that_are_no_datasets(tmp_path):
    for name in ("./x", "squad", "/no/such", "a/b/c", "a--b/c", "a/..", "-a/b", "a b/c"):
        message = find(environment(tmp_path), name)[1]
        assert "no such folder" in message and "hf download" not in message


def test_folders(tmp_path):
    squad = build_cache(tmp_path / "cache", "squad")
    build_cache(tmp_path / "cache")
    env = environment(tmp_path, HF_HUB_CACHE=tmp_path / "cache")
    assert find(env, "squad")[0] == str(squad / ONE)
    (tmp_path / "org" / "name").mkdir(parents=True)
    assert find(env, tmp_path / "org")[0] == str(tmp_path / "org")
    assert find(env, "org/name", cwd=tmp_path)[0] == "org/name"
    assert find(env, "org/name", cwd=tmp_path / "cache")[0].endswith(ONE)


def test_local_root(tmp_path):
    snapshots = build_cache(tmp_path / "cache")
    env = environment(tmp_path, HF_HUB_CACHE=tmp_path / "cache")
    roots = tmp_path / "roots"
    (roots / "a" / "org" / "name").mkdir(parents=True)
    (roots / "name" / "train").mkdir(parents=True)
    (roots / "heads" / "l00h00q").mkdir(parents=True)
    (roots / "others" / "tiny" / "l00h00q").mkdir(parents=True)

    def with_root(root):
        return find(env, "org/name", "", root)[0]
    assert with_root(roots / "a") == str(roots / "a/org/name")
    for root in ("name", "heads"):
        assert with_root(roots / root) == str(roots / root)
    assert with_root(f"{roots / 'name'}/") == f"{roots / 'name'}/"
    # a folder of other captures, or none at all, does not hide the cache
    assert with_root(roots / "others") == str(snapshots / ONE)
    assert with_root(roots / "nowhere") == str(snapshots / ONE)


@pytest.mark.test_all
def test_agrees_with_huggingface_hub(tmp_path):
    pytest.importorskip("huggingface_hub")
    script = ("import sys; from huggingface_hub import try_to_load_from_cache as f\n"
              "print(f('org/name', 'l00h00q/data.parquet', repo_type='dataset',"
              " revision=sys.argv[1] or None))")
    for variable, tail in (("HF_HUB_CACHE", ""), ("HF_HOME", "hub"),
                           ("XDG_CACHE_HOME", "huggingface/hub")):
        build_cache(tmp_path / variable / tail)
        env = environment(tmp_path, **{variable: tmp_path / variable})
        for revision in ("", "main", "v1.0", "refs/pr/2", ONE, "v2"):
            result = subprocess.run([sys.executable, "-c", script, revision], env=env,
                                    capture_output=True, text=True, check=True)
            theirs = result.stdout.strip()
            ours = find(env, "org/name", revision)[0]
            assert theirs == (f"{ours}/l00h00q/data.parquet" if ours else "None"), revision


def test_inspect_names_both_kinds_of_download(qkscope, tmp_path):
    """The name alone does not tell a model from a dataset."""
    said = qkscope("inspect", "org/name", "--revision", "v1", expect=1, env={"HF_HUB_CACHE": tmp_path}).err
    assert "hf download org/name --repo-type dataset --revision v1\n" in said
    assert "hf download org/name config.json --revision v1\n" in said


def test_a_folder_that_hf_download_has_filled(qkscope, tmp_path):
    """By --local-dir: what it keeps beside the files is none of the capture."""
    shutil.copytree(EXAMPLE, tmp_path / "c")
    for name in ("l00h00q/data.parquet.metadata", "l00h00q/data.parquet.lock", "README.md.metadata"):
        (tmp_path / "c/.cache/huggingface/download" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "c/.cache/huggingface/download" / name).write_text("0a0a\n")
    found, wanted = (json.loads(qkscope("inspect", folder, "--json", expect=0).out) for folder in (tmp_path / "c", EXAMPLE))
    assert found | {"capture": ""} == wanted | {"capture": ""}
