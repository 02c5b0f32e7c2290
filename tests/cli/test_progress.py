# SPDX-License-Identifier: Apache-2.0
"""The line of progress on terminals of several widths, and what Ctrl-C says was written."""
import fcntl
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import unicodedata

import pytest
from conftest import EXAMPLE, ROOT, environment, synth

MODEL = ROOT / "examples" / "kjv-tiny" / "step-20"
TEXTS = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
WIDTHS = [40, 60, 80, 200]
BAR = re.compile(r"\[(#*\.*)\] ")


STUDY = """
title: two
models:
  - name: "{long} one"
    source: {folder}
  - name: "{long} two"
    source: {other}
"""


@pytest.fixture(scope="module")
def slow(qkscope, tmp_path_factory):
    """A capture whose analysis takes a second or two, with a name as long as a line."""
    folder = tmp_path_factory.mktemp("progress") / ("a-rather-long-name-of-a-capture-" * 2 + "模型")
    synth(qkscope, folder, layers=3, query_heads=6, examples=60, rows=300, seed=5)
    return folder


@pytest.fixture(scope="module")
def study(qkscope, slow, tmp_path_factory):
    """study("A name") -> a file of two models, of 18 and 12 heads."""
    folder = tmp_path_factory.mktemp("study")
    synth(qkscope, folder / "other", layers=2, query_heads=6, examples=60, rows=300, seed=4)

    def write(name):
        path = folder / "study.yaml"
        path.write_text(STUDY.format(long=name, folder=slow, other=folder / "other"))
        return path
    return write


def resize(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def watch(words, columns, env=None, during=None, at=None):
    """(exit code, what it said on a terminal of so many columns). `during`: is called with its process and the
    terminal when what it said first holds `at`."""
    try:
        leader, follower = os.openpty()
    except OSError as error:
        pytest.skip(f"no terminal can be had: {error}")
    resize(follower, columns)
    child = subprocess.Popen([os.fspath(w) if isinstance(w, os.PathLike) else str(w) for w in words],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=follower,
                             env=environment({"TERM": "xterm"} | (env or {})))
    said, end = b"", time.monotonic() + 120
    while time.monotonic() < end:
        if select.select([leader], [], [], 0.05)[0]:
            said += os.read(leader, 4096)
        elif child.poll() is not None:
            break
        if during and re.search(at.encode(), said):
            during(child, follower)
            during = None
    os.close(follower)
    os.close(leader)
    assert during is None, said
    return child.wait(timeout=60), said.decode().replace("\r\n", "\n")


def columns_of(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def lines_of(said):
    """The lines of progress, each as it was drawn; whatever is drawn begins by clearing the line."""
    drawn = [part for part in said.split("\r\033[K") if part]
    return [part for part in drawn if not part.endswith("\n")]


def heads_of(lines):
    return {int(total) for line in lines for total in re.findall(r"\b\d+/(\d+) heads", line)}


# ---- width -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("columns", WIDTHS)
def test_analysis_fits(program, slow, tmp_path, columns):
    code, said = watch([program, "analyze", slow, "-o", tmp_path / "o", "--threads", 1], columns)
    lines = lines_of(said)
    assert code == 0 and len(lines) > 3, said
    assert all(columns_of(line) < columns for line in lines), lines
    assert heads_of(lines) == {18}  # query heads, as in the summary
    assert all(BAR.match(line) for line in lines), lines
    assert any(line.endswith(" left") for line in lines), lines
    assert columns < 60 or any("MB/s" in line for line in lines), lines


@pytest.mark.parametrize("columns", [1, 5, 12])
def test_narrow_terminals(program, slow, tmp_path, columns):
    code, said = watch([program, "pca", slow, "-o", tmp_path / "o", "--threads", 1], columns)
    assert code == 0 and all(columns_of(line) < max(columns, 1) or not line for line in lines_of(said))


def test_a_terminal_that_shrinks(program, slow, tmp_path):
    words = [program, "analyze", slow, "-o", tmp_path / "o", "--threads", 1]
    code, said = watch(words, 120, at=r"[2-4]/18 heads", during=lambda child, terminal: resize(terminal, 40))
    lines = lines_of(said)
    assert code == 0 and columns_of(lines[0]) >= 40 > columns_of(lines[-1])


@pytest.mark.parametrize("columns", WIDTHS)
def test_capture_fits(program, tmp_path, columns):
    code, said = watch([program, "capture", "-m", MODEL, "-t", TEXTS, "-o", tmp_path / "c", "--threads", 1,
                        "--tokens-at-once", 600, "--verbose"], columns)
    lines = lines_of(said)
    assert code == 0 and all(columns_of(line) < columns for line in lines), lines
    told = [line for line in lines if re.search(r"\d+/\d+ tokens", line)]
    assert told and BAR.match(told[-1]), lines
    assert columns < 80 or any(re.search(r", \d+ texts?, \d+ tokens/s, \d+ s left$", line) for line in told), told


@pytest.mark.parametrize("columns", [40, 80])
def test_study_fits(program, study, tmp_path, columns):
    code, said = watch([program, "study", study("A model with a name of many words"), "-o", tmp_path / "o",
                        "--no-figures", "--threads", 1], columns)
    lines = lines_of(said)
    assert code == 0 and all(columns_of(line) < columns for line in lines), lines
    assert heads_of(lines) == {18, 12}
    assert columns < 80 or any(", 2 of 2: A model with" in line for line in lines), lines


def test_scatter_counts_heads_then_figures(program, slow, tmp_path):
    code, said = watch([program, "scatter", slow, "-o", tmp_path / "o", "--heads", "0:0,0:1,1:0,1:1,2:0", "--threads",
                        1], 60)
    lines = lines_of(said)
    assert code == 0 and heads_of(lines) <= {5}
    assert {int(n) for line in lines for n in re.findall(r"/(\d+) figures", line)} == {5}
    assert all(columns_of(line) < 60 for line in lines)


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": "dumb", "COLUMNS": "200"}])
def test_a_dumb_terminal_gets_no_line(program, slow, tmp_path, env):
    assert watch([program, "pca", slow, "-o", tmp_path / "o"], 80, env) == (0, "")


def test_no_terminal_gets_no_line(qkscope, slow, tmp_path):
    assert qkscope("pca", slow, "-o", tmp_path / "o", expect=0).err == ""
    assert qkscope("analyze", slow, "-o", tmp_path / "o", expect=0, env={"COLUMNS": "40"}).err == ""


def test_a_terminal_without_a_size(program, slow, tmp_path):
    """Then COLUMNS, else 80."""
    words = [program, "analyze", slow, "-o", tmp_path / "o", "--threads", 1]
    for env, columns in ({"COLUMNS": "50"}, 50), ({"COLUMNS": None}, 80), ({"COLUMNS": "x"}, 80):
        code, said = watch(words, 0, env)
        lines = lines_of(said)
        assert code == 0 and columns - 22 < max(map(columns_of, lines)) < columns, lines


# ---- Ctrl-C ----------------------------------------------------------------------------------------

def interrupted(program, words, at):
    code, said = watch([program, *words], 100, at=at, during=lambda child, _: child.send_signal(signal.SIGINT))
    assert code == -signal.SIGINT, said
    return said.split("\r\033[K")[-1]


def test_interrupted_analysis(program, slow, tmp_path):
    said = interrupted(program, ["analyze", slow, "-o", tmp_path / "o", "--threads", 1], "[2-5]/18 heads")
    assert said == "qkscope analyze: stopped before the end; nothing was written\n"
    assert not (tmp_path / "o").exists()


def test_interrupted_study(program, study, tmp_path):
    words = ["study", study("A"), "-o", tmp_path / "o", "--no-figures", "--threads", 1]
    said = interrupted(program, words, "/12 heads")
    assert said == (f"qkscope study: stopped with 1 of 2 models computed, in {tmp_path}/o; the same command "
                    "goes on\n")
    assert (tmp_path / "o" / "models" / "a-one" / "qk.csv").exists()


def test_interrupted_scatter(program, slow, tmp_path):
    heads = ",".join(f"{layer}:{head}" for layer in range(3) for head in range(6))
    said = interrupted(program, ["scatter", slow, "-o", tmp_path / "o", "--heads", heads, "--threads", 1],
                       "[3-9]/18 figures")
    number = int(re.fullmatch(rf"qkscope scatter: stopped after (\d+) of 18 figures, which are in {tmp_path}/o\n",
                              said)[1])
    assert len(list((tmp_path / "o").glob("*.png"))) == number


@pytest.mark.parametrize("command, output", [
    (["synth", "--layers", 4, "--query-heads", 8, "--examples", 200], "made-up"),
    (["repack", None], "packed")])
def test_interrupted_makers(program, slow, tmp_path, command, output):
    words = [slow if word is None else word for word in command]
    at = r"[1-9]\d*/\d+ heads" if command[0] == "synth" else r"[1-9]/\d+ heads"
    said = interrupted(program, [*words, "-o", tmp_path / output, "--threads", 1], at)
    assert re.fullmatch(rf"qkscope {command[0]}: stopped after \d+ of \d+ heads; nothing was written\n", said), said
    assert not list((tmp_path / output).glob("*")) if (tmp_path / output).exists() else True


def test_interrupted_report(program, qkscope, tmp_path):
    qkscope("analyze", EXAMPLE, "-o", tmp_path, "--quiet", expect=0)
    before = sorted(tmp_path.rglob("*"))
    said = interrupted(program, ["report", tmp_path, "--threads", 1], r"[2-9]/\d+ figures")
    assert re.fullmatch(r"qkscope report: stopped after \d+ of \d+ figures; nothing was written\n", said), said
    assert sorted(tmp_path.rglob("*")) == before


# Seconds pass as minutes for a program that is asked after the time.
CLOCK = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_MONOTONIC)
        now->tv_sec = now->tv_sec * 1000 + now->tv_nsec / 1000000;
    return result;
}
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_log_has_a_line_a_minute(qkscope, slow, sanitized, tmp_path, quiet):
    if sanitized or not shutil.which("cc"):
        pytest.skip("nothing can be put in front of the C library here")
    (tmp_path / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c", "-ldl"], check=True)
    done = qkscope("analyze", slow, "-o", tmp_path / "out", *["-q"] * quiet, env={"LD_PRELOAD": tmp_path / "clock.so"}, expect=0)
    lines = [line for line in done.err.splitlines() if "left" in line]
    assert bool(lines) is not quiet, done.err
    assert all(re.fullmatch(r"qkscope analyze: \d+/18 heads(, [^,]+)*, [\d.]+ (s|min|h) left", line) for line in lines), lines
