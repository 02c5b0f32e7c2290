# SPDX-License-Identifier: Apache-2.0
"""Long calls from Python: errors, warnings, progress, Ctrl-C, threads, processes, memory."""
import fcntl
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import BUILD, EXAMPLE, synth

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    synth(folder / "capture", layers=1, query_heads=2, dim=8, rows=40, examples=9)
    return folder / "capture"


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    synth(folder / "capture", layers=8, query_heads=8, dim=48, rows=1000)
    return folder / "capture"


# An analysis that takes seconds if nobody stops it, so that whoever is to stop it has a turn.
LONG = {"ci": 95, "complement": True, "threads": 1}


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where private folders are made in this test."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


# ---- errors -------------------------------------------------------------------------------

@pytest.mark.cases(20)
@pytest.mark.parametrize("keywords, text", [
    ({"ci": "much"}, "ci='much': expected a percentage from 1 to below 100, e.g. 95"),
    ({"ci": 0.95}, "ci=0.95: is a percentage; did you mean 95?"),
    ({"components": 0}, "components=0: expected a whole number from 1 to 4096"),
    ({"components": 2.5}, "components=2.5: expected a whole number"),
    ({"components": True}, "components=True: expected a number, not a truth value"),
    ({"layers": [0, "x"]}, r"layers=\[0, 'x'\]: "),
    ({"layers": []}, r"layers=\[\]: is empty"),
    ({"heads": "2:x"}, r"heads='2:x': "),
    ({"heads": (2, 1)}, r"heads=\(2, 1\): \[\(2, 1\)\] is head 1 of layer 2, \[2, 1\] are these heads of every layer"),
    ({"heads": [(1, 2, 3)]}, r"is neither a whole number nor a text"),
    ({"lda": 1}, "lda=1: expected True or False, not int"),
    ({"b_axis": "x"}, "b_axis='x': expected pairs or centroid"),
    ({"output": ""}, "output='': expected a path"),
    ({"model_name": "a\0b"}, "has a zero byte"),
    ({"taxonomy_low": 0.9}, "^taxonomy-low: 0.9 is above 0.7, which is taxonomy-high"),
    ({"layers": 77}, "no query head|77"),
])
def test_wrong_values(keywords, text):
    with pytest.raises(qk.Error, match=text) as raised:
        qk.analyze(EXAMPLE, progress=False, **keywords)
    assert isinstance(raised.value, (ValueError, FileNotFoundError)) and raised.value.status.startswith("QK_ERR_")


def test_statuses_are_exceptions_that_python_knows():
    from qkscope._call import call, ffi, lib
    assert qk.__version__ == ffi.string(lib.qk_version()).decode()
    settings = ffi.new("qk_settings **")
    call(lib.qk_settings_new, settings, ffi.addressof(lib.qk_analysis_settings_table), b"analyze")
    with pytest.raises(ValueError, match="percentage from 1 to below 100") as raised:
        call(lib.qk_settings_set, settings[0], b"ci", b"much")
    assert raised.value.status == "QK_ERR_ARGUMENT"
    with pytest.raises(FileNotFoundError, match="there is no setting 'much'"):
        call(lib.qk_settings_set, settings[0], b"much", b"1")
    lib.qk_settings_free(settings)


def test_values_of_many_types(tiny):
    numpy = pytest.importorskip("numpy")
    expected = qk.pca(tiny, layers="0", components=2, taxonomy_low=0.25, seed=3, progress=False).heads.column("ev0")
    for layers in (0, [0], (0,), range(1), {0}, numpy.array([0]), "0-0"):
        results = qk.pca(tiny, layers=layers, components=numpy.int64(2), taxonomy_low=numpy.float64(0.25),
                         lda=numpy.bool_(False), seed=3.0, ci=None, progress=False)
        assert results.heads.column("ev0") == expected


def test_unknown_keywords_and_captures():
    with pytest.raises(TypeError, match=r"analyze\(\) got an unexpected keyword argument 'layer'. Did you mean 'layers"):
        qk.analyze(EXAMPLE, layer=3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'buckets'"):
        qk.pca(EXAMPLE, buckets=3)
    with pytest.raises(TypeError, match="a capture is a folder"):
        qk.analyze(17)
    with pytest.raises(FileNotFoundError, match="/nowhere: no such folder"):
        qk.analyze("/nowhere")
    with pytest.raises(FileNotFoundError, match="no-such-org/name"):
        qk.analyze("no-such-org/name")


def test_a_capture_object_has_a_path(tiny):
    class Capture:
        path = tiny
    assert qk.pca(Capture(), progress=False).heads.column("ev0") == qk.pca(str(tiny)).heads.column("ev0")


def test_output_of_another_capture_is_refused(tiny, tmp_path):
    first = qk.pca(tiny, output=tmp_path / "out", progress=False)
    assert first.folder == tmp_path / "out" and (tmp_path / "out" / "heads.csv").is_file()
    with pytest.raises(FileExistsError, match="force"):
        qk.pca(EXAMPLE, layers=0, output=tmp_path / "out", progress=False)
    assert qk.pca(EXAMPLE, layers=0, output=tmp_path / "out", force=True, progress=False).num_heads == 4


@pytest.fixture
def damaged(tiny, tmp_path):
    """One query head of two cannot be read."""
    import shutil
    shutil.copytree(tiny, tmp_path / "damaged")
    file = tmp_path / "damaged" / "l00h01q" / "data.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    return tmp_path / "damaged"


def test_some_heads_fail(damaged):
    with pytest.warns(qk.PartialWarning, match="1 of 2 failed: l00h01q: .*; the results have the others") as seen:
        results = qk.analyze(damaged, progress=False)
    assert [one.filename for one in seen if one.category is qk.PartialWarning] == [__file__]
    assert [failure.name for failure in results.failed] == ["l00h01q"] and results.heads["q_head"].tolist() == [0]
    with pytest.raises(qk.PartialError, match="1 of 2 failed: l00h01q") as raised:
        results.check()
    assert raised.value.results is results and raised.value.status == "QK_ERR_PARTIAL"
    assert "l00h01q" in results._repr_html_()


def test_all_heads_fail(damaged, temporary):
    with pytest.raises(qk.DataError, match="the first is l00h01q"):
        qk.analyze(damaged, heads=1, progress=False)
    assert [path.name for path in temporary.iterdir()] == ["damaged"]


# ---- what the library says ----------------------------------------------------------------

def test_warnings_are_on_the_callers_line(tiny):
    with pytest.warns(qk.QkscopeWarning) as seen:
        qk.pca(EXAMPLE, layers=0, max_samples=50, progress=False)
    assert {one.filename for one in seen if issubclass(one.category, qk.QkscopeWarning)} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(qk.QkscopeWarning):
            qk.pca(EXAMPLE, layers=0, max_samples=50, progress=False)


def test_notes_go_to_the_log(damaged, caplog, capfd):
    with caplog.at_level(logging.INFO, logger="qkscope"), pytest.warns(qk.PartialWarning):
        qk.pca(damaged, progress=False)
    assert {record.levelname for record in caplog.records} == {"INFO"} and "l00h01q" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_progress_is_called_by_the_caller(tiny):
    seen = []
    qk.pca(EXAMPLE, layers="0,1", threads=2, progress=lambda *state: seen.append((*state, threading.get_ident())))
    assert seen
    me = threading.get_ident()
    assert all(what == "heads" and 0 <= done <= total and who == me for what, done, total, who in seen)
    assert [done for _, done, _, _ in seen] == sorted(done for _, done, _, _ in seen)


def test_progress_may_stop(large, temporary):
    with pytest.raises(qk.Cancelled):
        qk.analyze(large, **LONG, progress=lambda *_: False)
    with pytest.raises(ZeroDivisionError):
        qk.analyze(large, **LONG, progress=lambda *_: 1 / 0)
    assert not list(temporary.iterdir())


@pytest.mark.test_all
def test_stops_within_a_head(temporary, monkeypatch):
    """Which takes its time where all pairs count: the library asks between the texts that an interval leaves out. What it
    had done is not taken for results."""
    from qkscope._run import Watch
    asked = []

    class Stopping(Watch):
        """Stops the call when it is asked for the first time, before the answer: a caller's function is called later."""
        state = property(lambda self: None, lambda self, state: (asked.append(state), setattr(self, "stop", state is not None)))

    capture, long = temporary / "capture", {"ci": 95, "max_pairs": 0, "threads": 1, "progress": False}
    synth(capture, layers=1, query_heads=1, q_per_kv_group=1, dim=64, rows=800, examples=20)
    for where in ({}, {"output": temporary / "out"}):
        asked.clear()
        with monkeypatch.context() as patch, pytest.raises(qk.Cancelled):
            patch.setattr("qkscope._run.Watch", Stopping)
            qk.analyze(capture, **long, **where)
        assert {state[1] for state in asked if state} == {0} and {p.name for p in temporary.iterdir()} <= {"capture", "out"}
    qk.analyze(capture, **long, output=temporary / "out").check()


@pytest.mark.test_all
def test_tqdm_shows_a_bar(tiny, capfd, monkeypatch):
    """Where it was asked for, or stderr is a terminal; TQDM_DISABLE switches it off."""
    pytest.importorskip("tqdm")
    qk.pca(EXAMPLE, progress=True)
    assert "heads" in capfd.readouterr().err
    qk.pca(EXAMPLE)
    assert capfd.readouterr().err == ""
    program = "import sys, qkscope; print(len(qkscope.pca(sys.argv[1], progress=True).heads))"
    off = python(program, tiny, env={"TQDM_DISABLE": "1"})
    assert off.returncode == 0 and off.stdout == "2\n" and "Traceback" not in off.stderr, off.stderr


# ---- Ctrl-C -------------------------------------------------------------------------------

PROGRAM = f"""
    LONG = {LONG}
    import os, signal, sys, threading, qkscope
    sent = []
    def progress(what, done, total):
        if done >= 3 and not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)
    try:
        qkscope.analyze(sys.argv[1], output=sys.argv[2] or None, **LONG, progress=progress)
    except KeyboardInterrupt:
        print("interrupted", threading.active_count(), flush=True)
    else:
        print("done")
    print(len(qkscope.pca(sys.argv[1], layers=0, progress=False).heads))
"""


def python(program, *arguments, **options):
    env = {**os.environ, "PYTHONPATH": str(BUILD / "python")}
    return subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), *map(str, arguments)],
                          capture_output=True, text=True, timeout=300, env={**env, **options.pop("env", {})}, **options)


@pytest.mark.cases(1)
@pytest.mark.parametrize("output", ["out", ""])
def test_ctrl_c(large, tmp_path, output):
    (tmp_path / "tmp").mkdir()
    done = python(PROGRAM, large, output and tmp_path / output, env={"TMPDIR": str(tmp_path / "tmp")})
    assert done.stdout == "interrupted 1\n8\n", done.stderr
    assert not list((tmp_path / "tmp").iterdir())
    assert not output or not list((tmp_path / output).glob("*"))


@pytest.mark.test_all
def test_sigint_from_outside_without_progress(large, tmp_path):
    program = """
        import sys, qkscope
        try:
            while True:
                qkscope.analyze(sys.argv[1], ci=95)
        except KeyboardInterrupt:
            print("interrupted")
    """
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), large],
                          stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "PYTHONPATH": str(BUILD / "python"), "TMPDIR": str(tmp_path)}) as running:
        while not list(tmp_path.iterdir()) and running.poll() is None:
            time.sleep(0.01)  # the folder of the first call
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=600)
        assert out == "interrupted\n" and running.returncode == 0
    assert not list(tmp_path.iterdir())


# ---- folders ------------------------------------------------------------------------------

def test_private_folders_go(tiny, temporary):
    results = qk.pca(tiny, progress=False)
    table, folder = results.heads, results.folder
    assert folder.parent == temporary and folder.is_dir()
    del results
    assert not folder.exists() and len(table) == 2
    with qk.pca(tiny, progress=False) as results:
        folder = results.folder
    assert not folder.exists()


def test_private_folders_go_at_exit(tiny, tmp_path):
    done = python("import sys, qkscope; results = qkscope.pca(sys.argv[1]); print(results.folder)", tiny,
                  env={"TMPDIR": str(tmp_path)})
    assert done.returncode == 0 and str(tmp_path) in done.stdout and not list(tmp_path.iterdir())


def test_save(qkscope, tiny, tmp_path):
    """A folder as the command makes it, for the command."""
    results = qk.analyze(tiny, progress=False)
    assert results.save(tmp_path / "a" / "saved") == tmp_path / "a" / "saved"
    assert results.manifest["command_line"] == f"qkscope.analyze({str(tiny)!r})" and results.manifest["complete"] is True
    assert qkscope("heads", tmp_path / "a" / "saved", "--format", "list", expect=0).out
    qkscope("pca", tiny, "-o", tmp_path / "command", expect=0)
    assert (tmp_path / "a" / "saved").stat().st_mode == (tmp_path / "command").stat().st_mode


def test_save_refuses_and_replaces(tiny, tmp_path):
    """As `--force` of the command does: results there give way, and what is none of them stays."""
    results = qk.pca(tiny, progress=False)
    target = tmp_path / "there"
    target.mkdir()
    results.save(target)  # it was empty
    with pytest.raises(FileExistsError, match="is not empty; choose another folder, or force"):
        results.save(target)
    mine = [target / "figures" / "notes.txt", target / "thesis.tex", target / ".hidden" / "a"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    for name in ("correlations.csv", "rotated.csv"):
        (target / name).write_text("of a run that nobody knows")
    was = target.stat().st_ino
    results.save(target, force=True)
    assert {path.name for path in target.iterdir()} == {*results.files, "figures", "thesis.tex", ".hidden"}
    assert all(path.read_text() == "mine" for path in mine) and target.stat().st_ino == was
    assert all((target / name).read_bytes() == (results.folder / name).read_bytes() for name in results.files)
    (target / "report.html").write_text("old")
    with pytest.warns(qk.QkscopeWarning, match="report.html shows the tables from before"):
        results.save(target, force=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="not a folder"):
        results.save(tmp_path / "file", force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there"]


def test_save_over_a_run_at_work(tiny, tmp_path):
    """It has the lock that each command has."""
    results = qk.pca(tiny, progress=False)
    target = results.save(tmp_path / "there")
    before = {path.name: path.read_bytes() for path in target.iterdir()}
    held = os.open(target, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(FileExistsError, match="another run is at work in this folder"):
        results.save(target, force=True)
    os.close(held)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == before
    results.save(target, force=True)
    results.save(results.folder, force=True)  # onto themselves
    assert {path.name: path.read_bytes() for path in results.folder.iterdir()} == before


@pytest.mark.parametrize("force", [False, True])
def test_a_save_that_fails_changes_nothing(tiny, tmp_path, force):
    results = qk.pca(tiny, progress=False)
    if force:
        results.save(tmp_path / "saved")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    (results.folder / results.files[-1]).unlink()
    with pytest.raises(FileNotFoundError):
        results.save(tmp_path / "saved", force=force)
    (results.folder / results.files[0]).unlink()
    with pytest.raises(FileNotFoundError):
        results.save(tmp_path / "saved", force=force)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    assert force or not list(tmp_path.iterdir())


def test_a_save_whose_renaming_fails(tiny, tmp_path):
    """The folder stays with what is no result of it, and says that it is not complete."""
    results = qk.pca(tiny, progress=False)
    target = results.save(tmp_path / "saved")
    (target / "thesis.tex").write_text("mine")
    (target / "qk.csv").unlink()
    (target / "qk.csv").mkdir()
    with pytest.raises(qk.InputOutputError, match="qk.csv"):
        results.save(target, force=True)
    assert (target / "thesis.tex").read_text() == "mine" and [path.name for path in tmp_path.iterdir()] == ["saved"]
    with pytest.raises(qk.DataError, match="not complete"):
        qk.Results.read(target)
    (target / "qk.csv").rmdir()
    assert len(qk.Results.read(results.save(target, force=True)).qk) == len(results.qk)


# ---- threads, processes, memory -----------------------------------------------------------

def test_two_at_once():
    def one(layer):
        return qk.pca(EXAMPLE, layers=layer, progress=False).qk.column("r_q")
    alone = [one(0), one(1)]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(one, (0, 1, 0, 1))) == alone * 2


def heads_of(layer):
    return qk.pca(EXAMPLE, layers=layer, progress=False)


@pytest.mark.test_all
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(BUILD / "python"), *sys.path]))
    kept = heads_of(2)
    kept.heads
    with multiprocessing.get_context(method).Pool(2) as pool:
        made = pool.map(heads_of, [0, 1])
    assert [results.heads["layer"][0] for results in made] == [0, 1]
    for layer, results in enumerate(made):
        assert results.qk.column("r_k") == heads_of(layer).qk.column("r_k")
        assert results.folder.is_dir()
    assert kept.folder.is_dir() and len(kept.qk) > 0  # the children left it alone


def test_a_forked_child_leaves_the_folder(tiny):
    results = qk.pca(tiny, progress=False)
    child = os.fork()
    if child == 0:
        results.close()
        del results
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert results.folder.is_dir() and (results.folder / "heads.csv").is_file()
