# SPDX-License-Identifier: Apache-2.0
"""Folders of results that are damaged, not complete, or cannot be written: an error of the package's, with the remedy."""
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest

from conftest import BUILD, EXAMPLE

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")


@pytest.fixture(scope="module")
def results():
    return qk.analyze(EXAMPLE, layers=0, progress=False)


@pytest.fixture
def saved(results, tmp_path):
    return results.save(tmp_path / "saved")


# ---- reading --------------------------------------------------------------------------------

def cut(file):
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:3]))


def test_tables_that_changed_are_not_read(saved, results):
    assert qk.Results.read(saved).qk.column("r_q") == results.qk.column("r_q")
    cut(saved / "qk.csv")
    for read in (qk.Results.read, lambda folder: qk.side_by_side(results, folder), lambda folder: qk.side_by_side(folder, results)):
        with pytest.raises(qk.DataError, match=r"saved/qk.csv is not as it was written; run the analysis again"):
            read(saved)
    (saved / "qk.csv").unlink()
    with pytest.raises(qk.DataError, match="saved/qk.csv is missing; run the analysis again"):
        qk.Results.read(saved)


@pytest.mark.cases(5)
@pytest.mark.parametrize("content", ["", "{", "17", '{"kind": "capture"}', "\xff"])
def test_what_is_no_manifest(saved, content):
    (saved / "manifest.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(qk.DataError, match="saved/manifest.json: is no manifest of results; run the analysis again"):
        qk.Results.read(saved)


@pytest.mark.cases(6)
@pytest.mark.parametrize("content", [
    {"runs": [1]}, {"runs": [{"failures": [1]}]}, {"runs": [{"failures": 1}]}, {"runs": [{"heads": "x"}, {"heads": 1}]},
    {"runs": [{"tables": ["qk.csv"], "settings": 1}]}, {"runs": [{"tables": [[]], "settings": {"ci": 95}}]}])
def test_manifests_of_other_shapes(saved, content):
    (saved / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(qk.DataError, match="saved/manifest.json: is damaged .*; run the analysis again"):
        qk.Results.read(saved)


def test_a_run_that_was_stopped(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    with pytest.raises(qk.DataError, match="saved: the results are not complete: .*run it again"):
        qk.Results.read(saved)


@pytest.mark.cases(5)
@pytest.mark.parametrize("change", [
    lambda text: text.replace("0.", "zero", 1), lambda text: text + "1,2\n", lambda text: "", lambda text: "\udcff",
    lambda text: text.replace("0", "\"" + "x" * 200000, 1)])
def test_tables_that_changed_under_results(saved, change):
    """Between `read` and the first look at a table."""
    read = qk.Results.read(saved)
    (saved / "qk.csv").write_text(change((saved / "qk.csv").read_text()), errors="surrogateescape")
    with pytest.raises(qk.DataError, match="saved/qk.csv: is damaged .*; run the analysis again"):
        read.qk
    os.unlink(saved / "qk.csv")
    with pytest.raises(qk.NotFoundError, match="saved/qk.csv: No such file or directory; run the analysis again"):
        read.qk


def test_no_results_there(tmp_path, results):
    for read in (qk.Results.read, lambda folder: qk.side_by_side(results, folder)):
        with pytest.raises(qk.NotFoundError, match="nope/manifest.json: .*; give a folder with results") as raised:
            read(tmp_path / "nope")
        assert raised.value.status == "QK_ERR_NOT_FOUND" and raised.value.errno == 2


# ---- of a shard -----------------------------------------------------------------------------

def test_results_of_a_shard_say_that_they_are_not_complete(tmp_path):
    out = tmp_path / "out"
    ablate = functools.partial(qk.ablate, EXAMPLE.parent / "kjv-tiny/step-20", "repeat:8x2:2", heads="0:0", output=out, progress=False)
    first = ablate(shard=(1, 2))
    missing = r"\d+ of \d+ parts of this ablation are there: once the other shards have ended, qkscope.Results.read"
    assert not first.complete and "not complete" in repr(first) and first.tables == []
    assert not hasattr(first, "heads") and not hasattr(first, "_nothing")
    with pytest.raises(AttributeError, match=f"results have no 'heads'; {missing}"):
        first.heads
    with pytest.raises(KeyError, match=f"there is no table 'heads'; {missing}"):
        first["heads"]
    for use in (lambda: first.save(tmp_path / "saved"), first.check, lambda: first.figures, lambda: first.figure("x"),
                first.report, lambda: first.manifest):
        with pytest.raises(qk.PartialError, match=missing) as raised:
            use()
        assert raised.value.results is first
    assert not (tmp_path / "saved").exists()
    with pytest.raises(qk.NotFoundError, match="out/manifest.json: .*; run the shards that are missing"):
        qk.Results.read(out)
    second = ablate(shard=(0, 2)).check()
    assert second.complete and qk.Results.read(out).ablation.column("delta") == second.ablation.column("delta")
    second.save(tmp_path / "saved")


def test_a_table_that_there_is_none_of(results):
    with pytest.raises(AttributeError, match="results have no 'haeds'; there are qk.csv, heads.csv"):
        results.haeds


# ---- writing --------------------------------------------------------------------------------

def test_what_cannot_be_written(results, tmp_path):
    figure = qk.figures.Figure.__new__(qk.figures.Figure)
    figure.svg, figure.csv, figure.note = "<svg/>", "", ""
    page = qk.figures.Report("<html/>")
    (tmp_path / "file").write_text("")
    with pytest.raises(qk.ExistsError, match="file/a: exists and is not a folder|file: exists and is not a folder"):
        results.save(tmp_path / "file" / "a")
    for save, name in ((figure.save, "a.svg"), (page.save, "a.html")):
        with pytest.raises(qk.InputOutputError, match=f"file/{name}: Not a directory; save .*") as raised:
            save(tmp_path / "file" / name)
        assert raised.value.status == "QK_ERR_IO" and ".tmp-" not in str(raised.value)
    for save in (figure.save, page.save):
        with pytest.raises(qk.NotFoundError, match="nope/a.svg: No such file or directory; save it elsewhere"):
            save(tmp_path / "nope" / "a.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_capture_is_no_place_for_results(tmp_path):
    capture = shutil.copytree(EXAMPLE, tmp_path / "capture")
    for analysis in (qk.pca, qk.analyze):
        with pytest.raises(qk.ArgumentError, match=f"^{capture}: is the folder of the capture; choose another"):
            analysis(capture, output=capture, force=True)
    assert not list(capture.glob("*.csv")) and not (capture / "manifest.json").exists()


@pytest.mark.parametrize("capture", ["", b""])
def test_no_capture(capture):
    with pytest.raises(qk.ArgumentError, match="^capture=b?'': expected a folder"):
        qk.pca(capture)


# ---- private folders of processes that end in other ways -----------------------------------

PROGRAM = """
    import multiprocessing, os, sys
    import qkscope
    results = qkscope.pca({capture!r}, layers=0, progress=False)  # in each child of spawn, too

    def work(i):
        return os.getpid()

    if __name__ == "__main__":
        what = sys.argv[1]
        if what == "pool":
            with multiprocessing.get_context("spawn").Pool(2) as pool:
                pool.map(work, range(2))
            pool = multiprocessing.get_context("spawn").Pool(2)
            pool.map(work, range(2))
            pool.close()
            pool.join()
        elif what == "wait":
            print(results.folder, flush=True)
            sys.stdin.read()
        else:
            os.kill(os.getpid(), int(what))
"""


def start(tmp_path, what):
    script, folder = tmp_path / "program.py", tmp_path / "tmp"
    folder.mkdir(exist_ok=True)
    script.write_text(textwrap.dedent(PROGRAM.format(capture=str(EXAMPLE))))
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python"), "TMPDIR": str(folder)}
    return folder, subprocess.Popen([sys.executable, script, str(what)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    text=True, env=env)


@pytest.mark.test_all
def test_pools_of_spawn_leave_no_folder(tmp_path):
    folder, running = start(tmp_path, "pool")
    with running:
        assert running.wait(600) == 0
    assert not list(folder.iterdir())


@pytest.mark.test_all
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="the system does not tell which process is which")
def test_folders_of_killed_processes_go_with_the_next(tmp_path):
    folder, alive = start(tmp_path, "wait")
    try:
        kept = alive.stdout.readline().strip()
        for number in (signal.SIGKILL, signal.SIGTERM):
            with start(tmp_path, int(number))[1] as killed:
                assert killed.wait(600) == -number
        left = {str(path) for path in folder.iterdir()} - {kept}
        assert left and os.path.isdir(kept)
        others = ["qkscope-mine", f"qkscope-4194305-1-{'0' * 12}-of_another_machine", "qkscope-1-2-x"]
        for other in others:
            (folder / other).mkdir()
        with start(tmp_path, "wait")[1] as next_one:
            own = next_one.stdout.readline().strip()
            assert {str(path) for path in folder.iterdir()} == {kept, own, *(str(folder / other) for other in others)}
            next_one.kill()
    finally:
        alive.kill()
        alive.communicate()


def test_a_folder_has_no_revisions():
    with pytest.warns(qk.QkscopeWarning, match="revision='main': .*kjv-tiny-capture is a folder, which has no") as seen:
        qk.pca(EXAMPLE, layers=0, revision="main", progress=False)
    assert {one.filename for one in seen if "revision" in str(one.message)} == {__file__}
