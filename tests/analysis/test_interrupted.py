# SPDX-License-Identifier: Apache-2.0
"""Heads that fail while others read, interrupts at any moment: no crash, whole files; a second
signal ends a program at once."""
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import check_survived, environment, head_name, synth, write_head

pytest.importorskip("pyarrow")

# How often a run is interrupted in each of the tests below; the crash that they are about came
# in one of ten.
REPETITIONS = int(os.environ.get("QKSCOPE_INTERRUPTS", "12"))
PLAIN = {"compression": "none", "use_dictionary": False}
FAILING = {"l00h00q": 300, "l00h03q": 3000, "l01h00q": 3000, "l01h01q": 20}


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    """Key heads that take longer to read than their query heads, some of which hold a NaN."""
    root = tmp_path_factory.mktemp("failing")
    rng = np.random.default_rng(3)
    for layer in range(2):
        for kind, heads, rows in (("q", 4, 6000), ("k", 2, 12000)):
            for head in range(heads):
                name = head_name(layer, head, kind)
                x = rng.standard_normal((rows, 32)).astype(np.float32)
                if name in FAILING:
                    x[FAILING[name], 7] = np.nan
                write_head(root, name, x, np.arange(rows) % 2000, **PLAIN)
    return root


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*")) if p.is_file()}


def tables_of(folder):
    """All but the manifest, which holds timings."""
    return {k: v for k, v in files_of(folder).items() if k != "manifest.json"}


def start(program, *arguments, env=None, before=()):
    return subprocess.Popen([*before, program, *map(os.fspath, arguments)], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            env=environment(env))


# ---- heads that fail -------------------------------------------------------------------------

@pytest.mark.parametrize("threads", [2, 3, 7])
@pytest.mark.parametrize("options", [[], ["--ci", "95"]], ids=["", "ci"])
def test_failing_queries_leave_their_keys_alone(qkscope, capture, tmp_path, threads, options):
    """A query head gives up while its keys are being read."""
    analyse = ["analyze", capture, "--max-pairs", "64", *options, "-o"]
    qkscope(*analyse, tmp_path / "1", "--threads", "1", expect=3)
    for _ in range(6):
        result = qkscope(*analyse, tmp_path / "n", "--threads", str(threads), expect=3)
        assert all(f"{name}: " in result.err for name in FAILING)
        assert tables_of(tmp_path / "n") == tables_of(tmp_path / "1")


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_all_queries_of_a_key_head_fail(qkscope, tmp_path, threads):
    """Then nobody but its own reader holds the keys."""
    rng = np.random.default_rng(1)
    write_head(tmp_path / "c", "l00h00k", rng.standard_normal((30000, 64)).astype(np.float32),
               np.arange(30000), **PLAIN)
    x = rng.standard_normal((20000, 64)).astype(np.float32)
    x[6000, 0] = np.nan
    write_head(tmp_path / "c", "l00h00q", x, np.arange(20000), **PLAIN)
    for _ in range(6):
        result = qkscope("analyze", tmp_path / "c", "-o", tmp_path / "o", "--threads",
                         str(threads), expect=1)
        assert "row 6000" in result.err and not (tmp_path / "o").exists()


# ---- asked to stop ---------------------------------------------------------------------------

def stop_after(process, seconds, number=signal.SIGINT):
    """Its exit code, and what it said. Before it listens, a signal ends it."""
    time.sleep(seconds)
    process.send_signal(number)
    err = process.communicate(timeout=60)[1].decode()
    assert process.returncode in (0, 3, -number), (process.returncode, err)
    check_survived(max(process.returncode, 0), err)
    return process.returncode, err


def duration(run):
    began = time.monotonic()
    run()
    return time.monotonic() - began


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_analyze_interrupted(qkscope, program, capture, tmp_path, threads):
    """The old tables stay, or the new ones are whole."""
    command = ["analyze", capture, "-o", tmp_path / "o", "--max-pairs", "64", "--threads",
               str(threads)]
    longest = duration(lambda: qkscope(*command, expect=3))
    new = tables_of(tmp_path / "o")
    qkscope(*command, "--components", "2", expect=3)
    old = tables_of(tmp_path / "o")
    assert old != new
    rng = random.Random(threads)
    seen = []
    for _ in range(REPETITIONS):
        code, err = stop_after(start(program, *command), rng.uniform(0, 1.1 * longest))
        now = tables_of(tmp_path / "o")
        if code != 3 and err:
            assert "nothing was written" in err and "has no numbers: \n" not in err
        assert now == (new if code == 3 else old), (code, err)
        seen.append(code)
        if code == 3:
            qkscope(*command, "--components", "2", expect=3)
    print("\nexit codes", {code: seen.count(code) for code in set(seen)})


def test_report_interrupted(qkscope, program, capture, tmp_path):
    """Every figure and the page is the old one or the new one, and nothing lies beside them."""
    qkscope("analyze", capture, "-o", tmp_path / "o", "--max-pairs", "64", expect=3)
    command = ["report", tmp_path / "o"]
    qkscope(*command, "--theme", "dark", expect=0)
    old = files_of(tmp_path / "o")
    longest = duration(lambda: qkscope(*command, expect=0))
    new = files_of(tmp_path / "o")
    assert old.keys() == new.keys()
    rng = random.Random(1)
    seen = []
    for _ in range(REPETITIONS):
        code, err = stop_after(start(program, *command), rng.uniform(0, longest))
        now = files_of(tmp_path / "o")
        assert now.keys() == new.keys()
        assert all(now[name] in (old[name], new[name]) for name in now), err
        assert code != 0 or all(now[name] == new[name] for name in now if name != "report.html")
        seen.append(code)
    print("\nexit codes", {code: seen.count(code) for code in set(seen)})


@pytest.fixture(scope="module")
def many_heads(qkscope, tmp_path_factory):
    """Seconds of work, and each head is soon done: a run looks between two of them whether to stop."""
    folder = tmp_path_factory.mktemp("many") / "c"
    synth(qkscope, folder, layers=30, query_heads=8, dim=32, examples=2, rows=800)
    return folder


def test_shells_end_their_loops(program, many_heads, tmp_path):
    """Ctrl-C goes to the whole group of processes; bash ends a loop only if the program died by the signal."""
    bash = shutil.which("bash")
    loop = 'for i in 1 2 3; do "$1" plasticity "$2" -o "$3/$i" --max-pairs 100000 --threads 1; echo $?; done; echo end'
    for _ in range(5):
        run = subprocess.Popen([bash, "-c", loop, "-", program, many_heads, tmp_path], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment(), start_new_session=True,
                               # of a run in the background it is ignored, and bash then leaves it so
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        time.sleep(0.4)
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=60)
        if "stopped" in err:
            break
    assert "stopped before the end" in err and "end\n" not in out and run.returncode in (-signal.SIGINT, 130)
    once = subprocess.Popen([bash, "-c", '"$1" plasticity "$2" -o "$3" --max-pairs 100000 --threads 1 & trap : INT; '
                             'p=$!; sleep 0.4; kill -TERM $p; wait $p; echo $?', "-", program, many_heads, tmp_path / "o"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    out, err = once.communicate(timeout=60)
    assert out == "143\n" and not (tmp_path / "o").exists(), (out, err)


def test_first_process_of_a_container(program, many_heads, tmp_path):
    """The kernel does not let it die by a signal that it does not catch: its exit code says it."""
    unshare = [shutil.which("unshare") or "unshare", "--map-root-user", "--pid", "--fork"]
    try:
        able = subprocess.run([*unshare, "true"], capture_output=True, timeout=60).returncode == 0
    except OSError:
        able = False
    if not able:
        pytest.skip("no process may be the first of its own here")
    run = start(program, "plasticity", many_heads, "-o", tmp_path / "o", "--max-pairs", "100000", "--threads", "1",
                before=unshare)
    time.sleep(0.4)
    child = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(int(child[0]), signal.SIGINT)
    err = run.communicate(timeout=60)[1].decode()
    assert run.returncode == 130 and "stopped before the end" in err and not (tmp_path / "o").exists()


# ---- told to end -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def endless(qkscope, tmp_path_factory):
    """Arguments of runs that do not come to an end in the time of a test, each in one head or
    figure."""
    root = tmp_path_factory.mktemp("endless")
    synth(qkscope, root / "c", layers=1, query_heads=1, q_per_kv_group=1, dim=64, examples=1,
          rows=60000, buckets=600, bucket_width=128)
    qkscope("pca", root / "c", "-o", root / "pca", expect=0)
    gnuplot = root / "bin" / "gnuplot"
    gnuplot.parent.mkdir()
    gnuplot.write_text("#!/bin/sh\necho begun > begun.txt\nexec sleep 20\n")
    gnuplot.chmod(0o755)
    pairs = [root / "c", "--max-pairs", "0", "--variance", "full", "--ci", "95"]
    path = f"{gnuplot.parent}:{os.environ['PATH']}"
    return {"env": {"PATH": path}, "plasticity": ["plasticity", *pairs],
            "analyze": ["analyze", *pairs],
            "report": ["report", root / "pca"],
            "scatter": ["scatter", root / "c"],
            "synth": ["synth", "--layers", "1", "--query-heads", "1", "--q-per-kv-group", "1",
                      "--examples", "1", "--rows", "2000000", "--buckets", "20000", "--dim",
                      "256"]}


INT, TERM = signal.SIGINT, signal.SIGTERM


def begin_and_ask(program, endless, command, out, number):
    """A run that was asked to stop and is still at work. One that was asked before its long work
    began stops at once: another is asked later."""
    for seconds in (0.6, 1.5, 4, 10):
        process = start(program, *endless[command], "-o", out, env=endless["env"])
        time.sleep(seconds)
        process.send_signal(number)
        time.sleep(0.4)
        if process.poll() is None:
            return process
        error = process.communicate()[1]
    raise AssertionError(error)


@pytest.mark.parametrize("command, first, second", [
    ("plasticity", INT, INT), ("plasticity", INT, TERM), ("plasticity", TERM, INT),
    ("plasticity", TERM, TERM), ("analyze", INT, TERM), ("report", TERM, INT),
    ("scatter", INT, TERM), ("synth", TERM, INT)])
def test_second_signal_ends_it_at_once(program, endless, tmp_path, command, first, second):
    process = begin_and_ask(program, endless, command, tmp_path / "o", first)
    process.send_signal(second)
    process.communicate(timeout=5)
    assert process.returncode == -second
