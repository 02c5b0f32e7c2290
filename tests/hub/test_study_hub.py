# SPDX-License-Identifier: Apache-2.0
"""A study of captures on the Hub: the next one comes while this one is analysed; what was fetched can go again."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest
from conftest import EXAMPLE, ROOT, on_terminal
from fake_hub import FakeHub, cache_tree
from test_fetch_commands import MODEL, PROGRAM, files_of, run, tables
from test_get import NAME, get

HEADS = {name: data for name, data in files_of(EXAMPLE).items() if name.startswith(("l00", "l01")) or "/" not in name}


@pytest.fixture
def hub():
    with FakeHub() as server:
        yield server


def add(hub, *revisions, **more):
    """A capture in each revision, no two the same; capture.json would list all heads."""
    for revision in revisions:
        files = {name: data for name, data in HEADS.items() if name != "capture.json"}
        files = {name: data for name, data in files.items() if name.startswith("l00") or revision != "a"}
        hub.add("datasets", NAME, files | {"README.md": revision.encode()} | more.get(revision, {}), revision=revision)


def write_study(folder, *revisions, extra=""):
    (folder / "study.yaml").write_text("models:\n" + "".join(
        f"  - {{name: {r}, q_per_kv_group: 2, source: {{dataset: org/name, revision: {r}}}}}\n" for r in revisions) +
        extra)
    return ["study", folder / "study.yaml", "-o", folder / "out"]


def blobs(home):
    return {p.name for p in (home / "hub" / "datasets--org--name" / "blobs").iterdir()}


def etags(hub, revision):
    repo = hub.repos["datasets", NAME]
    return {file.etag for path, file in repo.commits[repo.refs[revision]].items() if path.endswith(".parquet")}


def states(out):
    return {m["model"]: m["state"] for m in json.loads(out)["models"]}


# ---- ahead -----------------------------------------------------------------------------------

def test_the_next_one_is_fetched_meanwhile(hub, tmp_path):
    add(hub, "a", "b", "c")
    words = write_study(tmp_path, "a", "b", "c")
    done = []

    def look(handler):
        done.append((tmp_path / "out" / "models" / "a" / "manifest.json").exists())
        handler.how = {}
        handler.serve_hub()
    hub.fault(path="/revision/b$", act=look)
    _, said = run(hub, tmp_path, *words, "--no-figures")
    assert done == [False]
    for name in "abc":
        assert f"{name}: org/name at {name}: fetching " in said
    shutil.rmtree(tmp_path / "out")
    sent = len(hub.log)
    run(hub, tmp_path, *words, "--no-figures")  # all is here
    assert len(hub.log) == sent


def test_a_model_that_cannot_be_fetched(hub, tmp_path):
    add(hub, "a", "c")
    words = write_study(tmp_path, "a", "b", "c")
    out, said = run(hub, tmp_path, *words, "--no-figures", "--json", expect=3)
    assert states(out) == {"a": "computed", "b": "failed", "c": "computed"}
    assert "b: org/name: the dataset has no revision b" in said and said.count("has no revision b") == 1
    assert len(hub.requests(path="/revision/b")) == 1
    add(hub, "b")
    out, _ = run(hub, tmp_path, *words, "--no-figures", "--json")
    assert states(out) == {"a": "kept", "b": "computed", "c": "kept"}


@pytest.mark.parametrize("at", ["a", "b"])
def test_interrupted(hub, tmp_path, at):
    """While the first is waited for, and while the second one comes."""
    add(hub, "a", "b")
    words = write_study(tmp_path, "a", "b")
    hub.fault("hub", path=f"/revision/{at}$", times=99, delay=60)
    process = subprocess.Popen([PROGRAM, *words, "--no-figures"], env=hub.environment(tmp_path),
                               stderr=subprocess.PIPE, text=True)
    manifest = tmp_path / "out" / "models" / "a" / "manifest.json"
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (hub.requests(path=f"/revision/{at}$") and
                                               manifest.exists() == (at == "b")):
        time.sleep(0.02)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=10)[1]
    assert process.returncode == -signal.SIGINT, said
    assert manifest.exists() == (at == "b")


# ---- dropping --------------------------------------------------------------------------------

def test_drop_what_was_fetched_and_nothing_else(hub, tmp_path):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    add(hub, "a", "b")
    words = write_study(tmp_path, "a", "b")
    get(hub, tmp_path, NAME, "--revision", "b", "--files", "l00*")
    before, kept = cache_tree(tmp_path), blobs(tmp_path)
    out, said = run(hub, tmp_path, *words, "--no-figures", "--json", "--keep-downloads", "no")
    gone = etags(hub, "b") - kept
    sizes = sum(hub.blobs[etag].size for etag in gone)
    assert gone and json.loads(out)["freed_bytes"] == sizes
    assert f"b: dropped from the cache what was fetched for it: {sizes / 1e6:.1f} MB freed" in said
    after = cache_tree(tmp_path)
    assert all(after[name] == data for name, data in before.items()) and blobs(tmp_path) == kept
    report = huggingface_hub.scan_cache_dir(tmp_path / "hub")
    assert not report.warnings and len(report.repos) == 1
    # results of a commit stand without its files
    sent = len(hub.log)
    out, said = run(hub, tmp_path, *words, "--no-figures", "--json", "--keep-downloads", "no")
    assert states(out) == {"a": "kept", "b": "kept"} and len(hub.log) == sent and "fetching" not in said
    out, _ = run(hub, tmp_path, *words, "--no-figures", "--dry-run", "--json")
    assert states(out) == {"a": "stands", "b": "stands"}
    # and the snapshot is known not to be whole
    said = run(hub, tmp_path, "analyze", NAME, "--revision", "b", "-o", tmp_path / "x", "--offline", expect=1)[1]
    assert "files (" in said and "are not in the cache" in said
    get(hub, tmp_path, NAME, "--revision", "b")
    assert gone <= blobs(tmp_path)


def test_dry_run_of_what_is_not_here(hub, tmp_path):
    add(hub, "a", "b")
    words = [*write_study(tmp_path, "a", "b"), "--no-figures", "--dry-run"]
    get(hub, tmp_path, NAME, "--revision", "b", "--files", "l00*")
    sent = len(hub.log)
    out, said = run(hub, tmp_path, *words)
    assert re.findall(r"^([ab]) +to do +would be fetched$", out, re.M) == ["a", "b"] and "offline" not in out + said
    assert len(hub.log) == sent
    for extra, option in (({"HF_HUB_OFFLINE": "1"}, []), ({}, ["--offline"])):
        out, _ = run(hub, tmp_path, *words, *option, expect=1, **extra)
        assert "would be fetched" not in out


def test_same_numbers_either_way(hub, tmp_path):
    add(hub, "a", "b", "c")
    words = write_study(tmp_path, "a", "b", "c")
    run(hub, tmp_path / "1", *words, "--no-figures")
    kept = tables(tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    run(hub, tmp_path / "2", *words, "--no-figures", "--keep-downloads", "no")
    assert tables(tmp_path / "out") == kept
    assert not blobs(tmp_path / "2") and blobs(tmp_path / "1")


def test_files_that_another_snapshot_has(hub, tmp_path):
    """What the study has fetched and somebody takes up meanwhile stays."""
    add(hub, "a", "b")
    hub.add("datasets", NAME, {"l00h00q/data.parquet": HEADS["l01h00q/data.parquet"]}, revision="other")

    def take(handler):
        get(hub, tmp_path, NAME, "--revision", "other")
        handler.how = {}
        handler.serve_hub()
    words = write_study(tmp_path, "b", "a")
    hub.fault(path="/revision/a$", act=take)
    run(hub, tmp_path, *words, "--no-figures", "--keep-downloads", "no")
    assert blobs(tmp_path) == etags(hub, "other")
    assert get(hub, tmp_path, NAME, "--revision", "other", HF_HUB_OFFLINE="1")[0]


@pytest.mark.parametrize("keep", ["moments", "moments,attention", "rows,attention"])
def test_sums_stand_without_their_files(hub, tmp_path, keep):
    """A capture of moments changes the settings of its run, which the manifest has."""
    texts = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
    run(hub, tmp_path, "capture", "--model", MODEL, texts, "-o", tmp_path / "c", "--keep", keep, "--max-texts", "6",
        "--layers", "0-1")
    hub.add("datasets", NAME, files_of(tmp_path / "c"), revision="a")
    words = [*write_study(tmp_path, "a"), "--no-figures", "--keep-downloads", "no", "--json"]
    assert states(run(hub, tmp_path, *words)[0]) == {"a": "computed"} and not blobs(tmp_path)
    sent, made = len(hub.log), tables(tmp_path / "out")
    assert ("attention.csv" in made) == ("attention" in keep)
    assert states(run(hub, tmp_path, *words)[0]) == {"a": "kept"}
    assert len(hub.log) == sent and tables(tmp_path / "out") == made


def test_one_snapshot_of_two_models(hub, tmp_path):
    files = {f"{part}/{name}": data for part in "xy" for name, data in HEADS.items()
             if name.endswith(".parquet") and name.startswith("l00" if part == "x" else "l01")}
    hub.add("datasets", NAME, files, revision="a")
    (tmp_path / "study.yaml").write_text("models:\n" + "".join(
        f"  - {{name: {p}, q_per_kv_group: 2, source: {{dataset: org/name, revision: a, prefix: {p}}}}}\n" for p in "xy"))
    words = ["study", tmp_path / "study.yaml", "-o", tmp_path / "out", "--no-figures", "--keep-downloads", "no"]
    _, said = run(hub, tmp_path, *words)
    assert "y: dropped" in said and "x: dropped" not in said and not blobs(tmp_path)
    assert len(hub.requests("cdn")) == len(etags(hub, "a"))
    sent = len(hub.log)
    run(hub, tmp_path, *words)
    assert len(hub.log) == sent


def test_a_new_commit_is_computed(hub, tmp_path):
    add(hub, "a", "b")
    words = write_study(tmp_path, "a", "b")
    run(hub, tmp_path, *words, "--no-figures", "--keep-downloads", "no")
    hub.add("datasets", NAME, {name: data for name, data in HEADS.items() if name.startswith("l01")}, revision="b")
    out, _ = run(hub, tmp_path, *words, "--no-figures", "--keep-downloads", "no", "--json")
    assert states(out) == {"a": "kept", "b": "kept"}  # the cache knows the revision
    get(hub, tmp_path, NAME, "--revision", "b", "--files", "l01h00q*")
    out, _ = run(hub, tmp_path, *words, "--no-figures", "--keep-downloads", "no", "--json")
    assert states(out) == {"a": "kept", "b": "computed"}
    assert len(blobs(tmp_path)) == 1  # what get has fetched


def test_collages_are_drawn_before(hub, tmp_path):
    add(hub, "a", "b")
    words = write_study(tmp_path, "a", "b", extra="analyses: [pca]\nfigures: {collage: {rows: 1, columns: 1}}\n")
    words += ["--format", "svg", "--no-html"]
    run(hub, tmp_path / "1", *words)
    kept = {p.name for p in (tmp_path / "out" / "figures").iterdir()}
    extremes = (tmp_path / "out" / "figures" / "pca-13-extreme-heads-a.gp").read_text()
    shutil.rmtree(tmp_path / "out")
    out, _ = run(hub, tmp_path / "2", *words, "--keep-downloads", "no", "--json")
    assert {p.name for p in (tmp_path / "out" / "figures").iterdir()} == kept and "pca-06-collage-a.png" in kept
    assert (tmp_path / "out" / "figures" / "pca-13-extreme-heads-a.gp").read_text() == extremes
    assert not json.loads(out)["report"]["failed"] and not blobs(tmp_path / "2")
    sent = len(hub.log)
    run(hub, tmp_path / "2", *words, "--keep-downloads", "no")
    assert len(hub.log) == sent
    (tmp_path / "out" / "models" / "a" / "figures.json").unlink()  # its capture is needed again
    out, _ = run(hub, tmp_path / "2", *words, "--keep-downloads", "no", "--json")
    assert states(out) == {"a": "kept", "b": "kept"} and len(hub.log) > sent and not blobs(tmp_path / "2")


def test_killed_again_and_again(hub, tmp_path):
    """Whenever it is killed: what was there before stays, and in the end what it has fetched is gone."""
    add(hub, "a", "b", "c")
    get(hub, tmp_path, NAME, "--revision", "c", "--files", "l00h00*")
    before = cache_tree(tmp_path)
    words = [*write_study(tmp_path, "a", "b", "c"), "--no-figures", "--keep-downloads", "no"]
    hub.fault("cdn", times=10**6, piece=40000, pause=0.01)
    for i in range(25):
        process = subprocess.Popen([PROGRAM, *map(str, words)], env=hub.environment(tmp_path),
                                   stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            process.wait(0.02 + 0.02 * i)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        for name, data in before.items():
            assert cache_tree(tmp_path)[name] == data
    hub.faults.clear()
    run(hub, tmp_path, *words)
    run(hub, tmp_path, *words)
    left = {name for name in blobs(tmp_path) if not name.endswith(".incomplete")}
    kept = {p.name for p in (tmp_path / "hub" / "datasets--org--name" / "blobs").iterdir()} & \
        {hub.repos["datasets", NAME].commits[hub.repos["datasets", NAME].refs["c"]][f"l00h00{k}/data.parquet"].etag
         for k in "qk"}
    # a kill between a file's name and its line in the record leaves it: that is the safe side
    assert kept <= left and len(left - kept) <= 6


def test_a_model_that_misses_heads_stays(hub, tmp_path):
    """It is computed again next time, for which its files are needed."""
    add(hub, "a", "b", b={"l01h00q/data.parquet": b"no Parquet file"})
    words = [*write_study(tmp_path, "a", "b"), "--no-figures", "--keep-downloads", "no", "--json"]
    out, _ = run(hub, tmp_path, *words, expect=3)
    assert states(out) == {"a": "computed", "b": "partial"} and blobs(tmp_path) == etags(hub, "b")
    sent = len(hub.log)
    run(hub, tmp_path, *words, expect=3)
    assert len(hub.log) == sent


def test_progress_of_what_is_waited_for(hub, tmp_path):
    add(hub, "a", "b")
    words = write_study(tmp_path, "a", "b")
    hub.fault("cdn", times=99, piece=60000, pause=0.4)  # b has to come later than a is analysed, however slow that is
    said = on_terminal([PROGRAM, *words, "--no-figures"], "stderr",
                       env=hub.environment(tmp_path) | {"HF_HUB_OFFLINE": None})
    assert re.search(r"\] 1/2 MB", said), said
    assert "b: org/name at b: fetching" in said
