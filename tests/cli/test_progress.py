# SPDX-License-Identifier: Apache-2.0
"""The line of progress on terminals of several widths, and what Ctrl-C says was written. A clock of which each look takes
200 ms (ticks.c) makes both the same on any machine."""
import re
import shutil
import signal
import subprocess
import unicodedata

import pytest
from conftest import BUILD, EXAMPLE, ROOT, environment, on_terminal

MODEL = ROOT / "examples" / "kjv-tiny" / "step-20"
TEXTS = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
TICKS = BUILD / "tests" / "cli" / "libticks.so"
ROTATE = ["rotate", EXAMPLE, "--max-samples", 100, "-o"]
BAR = re.compile(r"\[(#*\.*)\] ")


@pytest.fixture(autouse=True)
def clock(sanitized):
    if sanitized or not TICKS.exists():
        pytest.skip("nothing can be put in front of the C library here")


@pytest.fixture
def study(tmp_path):
    """study(name) -> a file of two models, of 20 and 8 heads."""
    shutil.copytree(EXAMPLE, tmp_path / "few", ignore=lambda _, names: [n for n in names if n.startswith(("l02", "l03", "l04"))])

    def write(name):
        models = "".join(f'  - {{name: "{name} {which}", source: {folder}}}\n'
                         for which, folder in (("one", EXAMPLE), ("two", tmp_path / "few")))
        (tmp_path / "study.yaml").write_text(f"models:\n{models}analyses: [pca]\ndata: {{max_samples: 100}}\n")
        return tmp_path / "study.yaml"
    return write


def told(program, words, columns, **env):
    """The lines of progress on a terminal of so many columns, each as it was drawn: what is drawn begins by clearing the line."""
    said = on_terminal(["sh", "-c", f"stty cols {columns} <&2; exec \"$@\"", "sh", program, *words, "--threads", 1], "stderr",
                       {"TERM": "xterm", "LD_PRELOAD": TICKS, **env})
    lines = [part for part in said.split("\r\033[K") if part and not part.endswith("\n")]
    assert all(columns_of(line) < max(columns or 80, 2) for line in lines), lines
    return lines


def columns_of(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


# ---- the line --------------------------------------------------------------------------------------

@pytest.mark.cases(4)
@pytest.mark.parametrize("columns", [1, 12, 40, 200])
def test_an_analysis_fits(program, tmp_path, columns):
    lines = told(program, [*ROTATE, tmp_path / "o"], columns)
    if columns >= 40:
        # query heads, as in the summary
        assert all(BAR.match(line) and "/20 heads" in line for line in lines) and len(lines) > 20
        assert re.search(r" 20/20 heads", lines[-1]) and any(line.endswith(" s left") for line in lines)
        assert columns < 60 or "MB/s" in lines[-1]


@pytest.mark.parametrize("columns", [40, 90])
def test_a_capture_counts_tokens_and_texts(program, tmp_path, columns):
    lines = told(program, ["capture", "-m", MODEL, "-t", TEXTS, "-o", tmp_path / "c", "--max-texts", 3, "--layers", 0,
                           "--tokens-at-once", 300], columns)
    lines = [line for line in lines if re.search(r"\d+/\d+ tokens", line)]
    assert BAR.match(lines[-1])
    assert columns < 80 or any(re.search(r", \d+ texts?, \d+ tokens/s, \d+ s left$", line) for line in lines), lines


@pytest.mark.parametrize("columns", [40, 80])
def test_a_study_names_its_model(program, study, tmp_path, columns):
    lines = told(program, ["study", study("模型 with a name of many words"), "-o", tmp_path / "o", "--no-figures"], columns)
    assert {total for line in lines for total in re.findall(r"\b\d+/(\d+) heads", line)} == {"20", "8"}
    assert columns < 80 or any(", 2 of 2: 模型 with a" in line for line in lines), lines


def test_scatter_counts_heads_then_figures(program, tmp_path):
    lines = told(program, ["scatter", EXAMPLE, "-o", tmp_path / "o", "--heads", "0:0,1:1", "--max-points", 30], 60)
    assert [re.search(r"\d/2 \w+", line)[0] for line in lines] == ["1/2 heads", "2/2 heads", "1/2 figures", "2/2 figures"]


def test_a_terminal_without_a_size(program, tmp_path):
    """Then COLUMNS, else 80."""
    for given, columns in ("50", 50), (None, 80), ("x", 80):
        lines = told(program, [*ROTATE, tmp_path / "o"], 0, COLUMNS=given)
        assert columns - 22 < max(map(columns_of, lines)) < columns, lines


def test_no_line_where_none_can_be_drawn(program, qkscope, tmp_path):
    assert told(program, [*ROTATE, tmp_path / "o"], 80, TERM="dumb") == []
    said = qkscope(*ROTATE, tmp_path / "o", env={"LD_PRELOAD": TICKS, "COLUMNS": "40"}, expect=0).err
    assert all("warning: " in line for line in said.splitlines())


def test_a_log_has_a_line_a_minute(qkscope, tmp_path):
    def said(*more):
        env = {"LD_PRELOAD": TICKS, "TICK": 20000}
        lines = qkscope(*ROTATE, tmp_path / "o", "--threads", 1, *more, env=env, expect=0).err.splitlines()
        return [line for line in lines if "warning: " not in line]
    lines = said()
    assert len(lines) > 5 and all(re.fullmatch(r"qkscope rotate: \d+/20 heads(, \d+ MB/s)?(, [\d.]+ (s|min|h) left)?", line)
                                  for line in lines), lines
    assert said("-q") == []


# ---- Ctrl-C ----------------------------------------------------------------------------------------

def run(program, words, **env):
    return subprocess.run([program, *map(str, words), "--threads", "1"], capture_output=True, text=True, timeout=600,
                          stdin=subprocess.DEVNULL, env=environment({"LD_PRELOAD": TICKS, **env}))


def interrupted(program, words, at):
    """What it says that gets SIGINT at that look at the clock."""
    done = run(program, words, AT_LOOK=at, SIGNALS=signal.SIGINT.value)
    assert done.returncode == -signal.SIGINT, done
    return done.stderr


def test_interrupted_analysis(program, tmp_path):
    said = interrupted(program, [*ROTATE, tmp_path / "o"], 20)
    assert said == "qkscope rotate: stopped before the end; nothing was written\n" and not (tmp_path / "o").exists()


@pytest.mark.test_all
def test_interrupted_study(program, study, tmp_path):
    words = ["study", study("A"), "-o"]
    assert run(program, [*words, tmp_path / "whole", "--no-figures"], COUNTED=tmp_path / "counted").returncode == 0
    looks = int((tmp_path / "counted").read_text())
    said = interrupted(program, [*words, tmp_path / "o", "--no-figures"], looks * 4 // 5)  # of 28 heads 20 are of the first model
    assert said.endswith(f"qkscope study: stopped with 1 of 2 models computed, in {tmp_path}/o; the same command goes on\n")
    assert (tmp_path / "o" / "models" / "a-one" / "qk.csv").exists()


def test_interrupted_while_collages_are_drawn(program, study, tmp_path):
    """Between heads of the first one, not once it is drawn."""
    words = ["study", study("A"), "-o", tmp_path / "o"]
    for _ in range(2):  # once more, with tables that stand
        assert run(program, [*words, "--no-figures"], COUNTED=tmp_path / "counted").returncode == 0
    said = interrupted(program, words, int((tmp_path / "counted").read_text()) + 6)
    assert "qkscope study: stopped with 2 of 2 models" in said and not list((tmp_path / "o" / "figures").glob("*.svg"))


@pytest.mark.test_all
def test_interrupted_scatter(program, tmp_path):
    said = interrupted(program, ["scatter", EXAMPLE, "-o", tmp_path / "o", "--heads", "0:*", "--max-points", 30], 15)
    number = int(re.fullmatch(rf"qkscope scatter: stopped after (\d+) of 4 figures, which are in {tmp_path}/o\n", said)[1])
    assert len(list((tmp_path / "o").glob("*.svg"))) == number


@pytest.mark.test_all
def test_interrupted_report(program, qkscope, tmp_path):
    qkscope(*ROTATE, tmp_path / "o", "--quiet", expect=0)
    before = sorted((tmp_path / "o").rglob("*"))
    assert run(program, ["report", tmp_path / "o", "-o", tmp_path / "whole", "--no-points"], COUNTED=tmp_path / "counted").returncode == 0
    for part in (0.2, 0.8):  # of its looks at the clock: tables are read, figures drawn
        said = interrupted(program, ["report", tmp_path / "o", "--no-points"], max(1, int(part * int((tmp_path / "counted").read_text()))))
        assert re.fullmatch(r"qkscope report: stopped (after \d+ of \d+ figures|before the first figure|before the page); nothing was written\n", said), said
        assert sorted((tmp_path / "o").rglob("*")) == before


@pytest.mark.parametrize("first, second", [(2, 2), (2, 15), (15, 2), (15, 15)])
def test_a_second_signal_ends_it_at_once(program, tmp_path, first, second):
    done = run(program, [*ROTATE, tmp_path / "o"], AT_LOOK=20, SIGNALS=f"{first},{second}")
    assert (done.returncode, done.stderr) == (-second, "") and not list((tmp_path / "o").glob("*"))


@pytest.mark.test_all
def test_first_process_of_a_container(program, tmp_path):
    """The kernel does not let it die by a signal that it does not catch: its exit code says it."""
    alone = [shutil.which("unshare") or "unshare", "--map-root-user", "--pid", "--fork"]
    try:
        able = subprocess.run([*alone, "true"], capture_output=True, timeout=900).returncode == 0
    except OSError:
        able = False
    if not able:
        pytest.skip("no process may be the first of its own here")
    done = subprocess.run([*alone, program, *map(str, ROTATE), tmp_path / "o"], capture_output=True, text=True,
                          env=environment({"LD_PRELOAD": TICKS, "AT_LOOK": 20, "SIGNALS": 2}))
    assert done.returncode == 130 and "stopped before the end" in done.stderr and not (tmp_path / "o").exists()
