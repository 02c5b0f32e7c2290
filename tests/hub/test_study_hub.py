# SPDX-License-Identifier: Apache-2.0
"""A study of captures on the Hub: the next one comes while this one is analysed; what was fetched can go again."""
import json
import re
import signal
import subprocess
import time

import pytest
from conftest import synth
from fake_hub import FakeHub, cache_tree
from test_fetch_commands import PROGRAM, files_of, run, tables
from test_get import NAME, get



@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


@pytest.fixture(scope="module")
def heads(tmp_path_factory):
    """Files of 2 layers of 4 query heads and 2 key heads."""
    folder = tmp_path_factory.mktemp("study") / "capture"
    synth(folder, layers=2, query_heads=4, q_per_kv_group=2, dim=8, examples=2, rows=60, buckets=4, bucket_width=32, rope_planes=1)
    return {name: data for name, data in files_of(folder).items() if name.endswith(".parquet")}


def add(hub, heads, *revisions):
    """A capture in each revision, no two the same."""
    for revision in revisions:
        files = {name: data for name, data in heads.items() if name.startswith("l00") or revision != "a"}
        hub.add("datasets", NAME, files | {"README.md": revision.encode()}, revision=revision)


def write_study(folder, *revisions):
    (folder / "study.yaml").write_text("models:\n" + "".join(
        f"  - {{name: {r}, q_per_kv_group: 2, source: {{dataset: org/name, revision: {r}}}}}\n" for r in revisions) + "analyses: [pca]\n")
    return ["study", folder / "study.yaml", "-o", folder / "out", "--no-figures", "--json"]


def blobs(home):
    return {p.name for p in (home / "hub" / "datasets--org--name" / "blobs").iterdir()}


def etags(hub, revision):
    repo = hub.repos["datasets", NAME]
    return {file.etag for path, file in repo.commits[repo.refs[revision]].items() if path.endswith(".parquet")}


def states(out):
    return {m["model"]: m["state"] for m in json.loads(out)["models"]}


def test_a_study_fetches(hub, heads, tmp_path):
    """What a folder gives; a model that cannot be had does not stop the others, and is computed when it can."""
    add(hub, heads, "a", "c")
    words = write_study(tmp_path, "a", "b", "c")
    out, said = run(hub, tmp_path, *words, expect=3)
    assert states(out) == {"a": "computed", "b": "failed", "c": "computed"}
    assert said.count("b: org/name: the dataset has no revision b") == 1 and len(hub.requests(path="/revision/b")) == 1
    assert "a: org/name at a: fetching " in said and "c: org/name at c: fetching " in said
    add(hub, heads, "b")
    assert states(run(hub, tmp_path, *words)[0]) == {"a": "kept", "b": "computed", "c": "kept"}
    folder = get(hub, tmp_path, NAME, "--revision", "b")[0]
    run(hub, tmp_path, "pca", folder, "--q-per-kv-group", 2, "--model-name", "b", "-o", tmp_path / "one", "--lda")
    assert tables(tmp_path / "one") == tables(tmp_path / "out" / "models" / "b")
    sent = len(hub.log)
    run(hub, tmp_path, *words, "--force")  # all is here
    assert len(hub.log) == sent


@pytest.mark.test_all
@pytest.mark.parametrize("at", ["a", "b"])
def test_interrupted(hub, heads, tmp_path, at):
    """While the first is waited for, and while the second one is, which is asked for meanwhile."""
    add(hub, heads, "a", "b")
    words = write_study(tmp_path, "a", "b")
    hub.fault("hub", path=f"/revision/{at}$", times=99, delay=3600)
    process = subprocess.Popen([PROGRAM, *words], env=hub.environment(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    manifest = tmp_path / "out" / "models" / "a" / "manifest.json"
    while process.poll() is None and not (hub.requests(path=f"/revision/{at}$") and manifest.exists() == (at == "b")):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == -signal.SIGINT and manifest.exists() == (at == "b"), said


def test_drop_what_was_fetched_and_nothing_else(hub, heads, tmp_path):
    add(hub, heads, "a", "b")
    words = write_study(tmp_path, "a", "b")
    get(hub, tmp_path, NAME, "--revision", "b", "--files", "l00*")
    before, kept = cache_tree(tmp_path), blobs(tmp_path)
    out, said = run(hub, tmp_path, *words, "--keep-downloads", "no")
    gone = etags(hub, "b") - kept
    assert gone and json.loads(out)["freed_bytes"] == sum(hub.blobs[etag].size for etag in gone)
    assert "b: dropped from the cache what was fetched for it" in said
    after = cache_tree(tmp_path)
    assert all(after[name] == data for name, data in before.items()) and blobs(tmp_path) == kept
    # results of a commit stand without its files
    sent = len(hub.log)
    assert states(run(hub, tmp_path, *words, "--keep-downloads", "no")[0]) == {"a": "kept", "b": "kept"} and len(hub.log) == sent
    # and the snapshot is known not to be whole
    said = run(hub, tmp_path, "pca", NAME, "--revision", "b", "-o", tmp_path / "x", "--offline", expect=1)[1]
    assert "files (" in said and "are not in the cache" in said
    get(hub, tmp_path, NAME, "--revision", "b")
    assert gone <= blobs(tmp_path)


def test_dry_run_of_what_is_not_here(hub, heads, tmp_path):
    add(hub, heads, "a", "b")
    words = [*write_study(tmp_path, "a", "b")[:-1], "--dry-run"]
    get(hub, tmp_path, NAME, "--revision", "b", "--files", "l00*")
    sent = len(hub.log)
    out, said = run(hub, tmp_path, *words)
    assert re.findall(r"^([ab]) +to do +would be fetched$", out, re.M) == ["a", "b"] and "offline" not in out + said
    assert "would be fetched" not in run(hub, tmp_path, *words, "--offline", expect=1)[0] and len(hub.log) == sent


def test_local_root_that_is_a_cache(hub, heads, tmp_path):
    """What is missing of it is recognised, and goes there."""
    add(hub, heads, "a")
    run(hub, tmp_path / "other", "get", NAME, "--revision", "a", "--files", "l00h00q*", "--cache", tmp_path / "root")
    words = [*write_study(tmp_path, "a"), "--local-root", tmp_path / "root"]
    assert "are not in the cache" in run(hub, tmp_path, *words, "--offline", expect=1)[1]
    run(hub, tmp_path, *words)
    assert not (tmp_path / "hub").exists()
