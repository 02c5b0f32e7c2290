# SPDX-License-Identifier: Apache-2.0
"""What is said to somebody who mistyped: one line, with what was meant, and one with where to read on. And help."""
import json
import re
import shlex
import subprocess

import pytest
from conftest import BUILD, EXAMPLE, ROOT, on_terminal

pytestmark = pytest.mark.skipif(not (BUILD / "qkscope").exists(), reason="qkscope is not built")
ABOUT = (json.loads(subprocess.run([BUILD / "qkscope", "describe"], capture_output=True, check=True).stdout)
         if (BUILD / "qkscope").exists() else {"commands": []})
COMMANDS = [command["name"] for command in ABOUT["commands"]]

MISSPELT = {  # words: what is meant
    "anlayze": "analyze", "analyse": "analyze", "Report": "report", "plot": "plot-plasticity", "stud": "study",
    "compare-stage": "compare-stages", "sniffqk": "sniff-qk", "help anlayze": "analyze", "help pac": "pca",
    "pca --thraeds 3": "--threads", "pca --treads=3": "--threads", "pca --Threads 3": "--threads",
    "report r --theme drak": "dark", "report r --theme Paper": "paper", "report r --format pgn,svg": "png",
    "scatter c -o d --basis pac": "pca", "capture -m a -t b -o c --sampler unifrom": "uniform",
    "explain bias_strenght": "bias_strength", "get o/n --revison main": "--revision"}
UNLIKE_ANY = ["xyzzy", "pca --colour-of-money", "report r --theme mauve", "scatter c -o d --basis 7", "help qqqq",
              "a", "pca --z", "explain zzz"]


@pytest.mark.parametrize("words", MISSPELT)
def test_what_was_meant(qkscope, words):
    said = qkscope(*shlex.split(words), expect=2)
    first, *rest = said.err.splitlines()
    assert first.endswith(f"(did you mean {MISSPELT[words]}?)") and len(rest) <= 1 and said.out == "", said.err


@pytest.mark.parametrize("words", UNLIKE_ANY)
def test_nothing_is_like_it(qkscope, words):
    said = qkscope(*shlex.split(words), expect=2)
    assert "did you mean" not in said.err and len(said.err.splitlines()) <= 2, said.err


@pytest.mark.parametrize("words, line", [
    ("-q pca", "qkscope: -q: expected a command first, and options behind it"),
    ("--threads 3", "qkscope: --threads: expected a command first, and options behind it"),
    ("pca -Zq c", "qkscope pca: there is no option -Z"),
    ("pca -qZ c", "qkscope pca: there is no option -Z"),
    ("pca -qo", "qkscope pca: option -o needs a value"),
    ("pca c --layers", "qkscope pca: option --layers needs a value"),
    ("pca --quiet=3", "qkscope pca: option --quiet takes no value"),
    ("pca --taxonomy 3", "qkscope pca: --taxonomy may be --taxonomy-low or --taxonomy-high"),
    ("pca -\u00e9", r"qkscope pca: there is no option -\xc3"),
    ("scatter c -o x.jpg", "qkscope scatter: --output x.jpg: expected a picture that ends in .png, .svg or .pdf"),
    ("help pca rotate", "qkscope: unexpected argument 'rotate': help is for one command")])
def test_first_lines(qkscope, tmp_path, words, line):
    said = qkscope(*shlex.split(words), cwd=tmp_path, expect=2)
    first, *rest = said.err.splitlines()
    assert first == line and len(rest) <= 1 and not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_missing_takes_one_line(qkscope, tmp_path, command):
    said = qkscope(command, cwd=tmp_path)
    if command == "explain":  # needs nothing
        assert said.code == 0
    else:
        assert said.code == 2 and len(said.err.splitlines()) == 1 and said.err.endswith("\n"), said.err


# ---- help ------------------------------------------------------------------------------------------

def test_help_of_all(qkscope):
    said = qkscope("help", expect=0).out
    assert all(f"\n  {command} " in said for command in COMMANDS)
    assert said == qkscope("--help", expect=0).out == qkscope("-h", expect=0).out == qkscope("help", "help").out
    assert "\nExamples:\n  qkscope " in said
    without = qkscope(expect=2)
    assert without.err == said and without.out == ""


@pytest.mark.parametrize("command", [*COMMANDS, "pca-analyze", "sniff-qk"])
def test_help_of_a_command(qkscope, command):
    said = qkscope("help", command, expect=0).out
    assert said == qkscope(command, "--help", expect=0).out == qkscope(command, "-h").out
    assert len(re.findall(r"^  (?:echo .*)?qkscope ", said.split("\nExamples:\n")[1], re.M)) >= 1


def test_version(qkscope):
    said = {qkscope(*words.split(), expect=0).out for words in ("-V", "--version", "version", "pca -V", "get -V")}
    assert len(said) == 1 and re.fullmatch(r"qkscope \d+\.\d+\.\d+\n", said.pop())


@pytest.mark.parametrize("command", ["capture", "analyze"])
def test_help_fits_the_terminal(program, command):
    """Sixty columns; a line of its own is what cannot be broken: options and examples."""
    words = ["sh", "-c", f"stty cols 60 <&1; exec {program} {command} --help"]
    said = on_terminal(words, "stdout", {"TERM": "xterm"})
    for line in said.split("\nExamples:")[0].splitlines():
        assert len(line) <= 60 or "--" in line[:10] or line.startswith(("Usage", "Lists")), line


def test_examples_on_bundled_data_run(qkscope, sanitized, tmp_path):
    """Those of the examples that need nothing that is not there, in their order: a capture, then its analysis. Under
    sanitizers a model runs over a few texts: its kernels take twenty times as long there."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "results").mkdir()
    qkscope("analyze", EXAMPLE, "-o", tmp_path / "results", "--quiet", expect=0)
    ran = []
    for command in ABOUT["commands"]:
        for line in command["examples"].splitlines():
            words = shlex.split(line)
            paths = [word for word in words if word.startswith("examples/")]
            if words[0] == "qkscope" and (paths or words[1] in ("explain", "synth")) and "genesis.txt" not in line:
                words += ["--quiet"]
                if words[1] == "synth":
                    words[words.index("-o") + 1] += f"-{len(ran)}"
                if words[1] in ("pca", "rotate", "plasticity", "analyze"):
                    words[words.index("-o") + 1] += f"-{words[1]}"
                if words[1] in ("capture", "loss", "ablate") and sanitized:
                    words += ["--max-texts", "4"]
                qkscope(*words[1:], cwd=tmp_path, expect=0)
                ran.append(words[1])
    assert set(ran) >= {"pca", "rotate", "plasticity", "analyze", "capture", "scatter", "explain", "synth"}, ran
