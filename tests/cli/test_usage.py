# SPDX-License-Identifier: Apache-2.0
"""Help, man pages, completion for shells and the reference: all are made from the tables of settings (what is said of
mistakes: test_said.py). The build has made the files."""
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest
from conftest import BUILD, EXAMPLE, ROOT, on_terminal


@pytest.fixture(scope="module")
def about(program):
    return json.loads(subprocess.run([program, "describe"], check=True, capture_output=True).stdout)


def names(command):
    return {option["name"] for option in command["options"]}


# ---- help ------------------------------------------------------------------------------------------

def test_help_of_all(qkscope, about):
    said, every = qkscope("help", expect=0).out, qkscope("help", "--all", expect=0).out
    assert all(f"\n  {command['name']} " in every for command in about["commands"])
    later = {"pca", "rotate", "plasticity", "attention", "merge", "loss", "tokenize"}
    assert {command["name"] for command in about["commands"] if f"\n  {command['name']} " not in said} == later
    assert len(said.splitlines()) <= 32 and "help --all" in said
    assert said == qkscope("--help", expect=0).out == qkscope("-h", expect=0).out == qkscope("help", "help").out
    assert "\nExamples:\n  qkscope " in said
    without = qkscope(expect=2)
    assert without.err == said and without.out == ""


def test_help_shows_what_is_described(qkscope, about):
    """Every option in its section, and examples that parse: with --help behind it nothing of one is run."""
    for command in about["commands"]:
        said = qkscope("help", command["name"], expect=0).out
        assert set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", said, re.M)) == names(command)
        assert all(f"\n{option['section']}:\n" in said for option in command["options"])
        assert said.rstrip().splitlines()[-1].strip() == command["examples"].splitlines()[-1]
        for line in command["examples"].splitlines():
            words = shlex.split(line.split("| ")[-1])
            assert words[:2] == ["qkscope", command["name"]]
            qkscope(*words[1:], "--help", expect=0)
    for alias in ("pca-analyze", "sniff-qk"):
        assert qkscope("help", alias, expect=0).out == qkscope(alias, "--help", expect=0).out


def test_short_help(qkscope, about):
    """-h has usage, the options that one needs in 25 lines, and three examples; all of it is in the whole help."""
    for command in about["commands"]:
        said = qkscope(command["name"], "-h", expect=0).out
        usage, rest = said.split("\n\n", 1)
        assert usage.startswith(f"Usage: qkscope {command['name']} ")
        options = re.search(r"(?:^  (?:-\w,|   ) --.*\n(?: {20,}.*\n)*)+", rest, re.M)[0]
        shown = re.findall(r"^  (?:-\w,|   ) --([\w-]+)", options, re.M)
        assert options.count("\n") <= 25 and len(shown) >= min(8, len(names(command))), options
        assert set(shown) <= names(command) and "help" in shown
        needed = re.findall(r"--([\w-]+) [A-Z]|-o DIR", command["usage"])
        assert {name or "output" for name in needed} <= set(shown)
        assert 1 <= len(re.findall("^  qkscope ", rest, re.M)) <= 3
        assert f"has all {len(names(command))} options" in rest
        assert len(said) < len(qkscope(command["name"], "--help", expect=0).out)
    assert qkscope("pca", "-qh", expect=0).out == qkscope("pca", "-h", expect=0).out
    assert qkscope("pca", "--hel", expect=0).out == qkscope("pca", "--help", expect=0).out


def test_a_command_alone_says_in_a_line_what_is_missing(qkscope, about, tmp_path):
    for command in about["commands"]:
        said = qkscope(command["name"], cwd=tmp_path, expect=0 if command["name"] == "explain" else 2)
        assert said.code == 0 or len(said.err.splitlines()) == 1 and said.err.endswith("\n"), said.err
    assert not list(tmp_path.iterdir())


def test_version(qkscope):
    said = {qkscope(*words.split(), expect=0).out for words in ("-V", "--version", "version", "pca -V")}
    assert len(said) == 1 and re.fullmatch(r"qkscope \d+\.\d+\.\d+\n", said.pop())


def test_help_fits_the_terminal(program):
    """Sixty columns; a line of its own is what cannot be broken: options and examples."""
    words = ["sh", "-c", f"stty cols 60 <&1; exec {program} capture --help"]
    said = on_terminal(words, "stdout", {"TERM": "xterm"})
    for line in said.split("\nExamples:")[0].splitlines():
        assert len(line) <= 60 or "--" in line[:10] or line.startswith(("Usage", "Lists")), line


@pytest.mark.test_all
def test_examples_on_bundled_data_run(qkscope, sanitized, about, tmp_path):
    """Those of the examples that need nothing that is not there, in their order: a capture, then its analysis. Under
    sanitizers a model runs over a few texts: its kernels take twenty times as long there."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    qkscope("analyze", EXAMPLE, "-o", tmp_path / "results", "--quiet", expect=0)
    ran = set()
    for command in about["commands"]:
        for line in command["examples"].splitlines():
            words = shlex.split(line)
            paths = [word for word in words if word.startswith("examples/")]
            if words[0] == "qkscope" and (paths or words[1] == "explain") and "genesis.txt" not in line:
                if words[1] in ("pca", "rotate", "plasticity", "analyze"):
                    words[words.index("-o") + 1] += f"-{words[1]}"
                few = ["--max-texts", "4"] if words[1] in ("capture", "loss", "ablate") and sanitized else []
                qkscope(*words[1:], "--quiet", *few, cwd=tmp_path, expect=0, timeout=600)
                ran.add(words[1])
    assert ran >= {"pca", "rotate", "plasticity", "analyze", "capture", "scatter", "explain"}, ran


# ---- files that the build makes ----------------------------------------------------------------------

def test_reference_is_up_to_date():
    made = subprocess.run(["python3", ROOT / "tools" / "generate.py", BUILD / "description.json", "options.md"],
                          check=True, capture_output=True, text=True).stdout
    assert made == (ROOT / "docs" / "reference" / "options.md").read_text(), "run make reference"


def test_man_pages(about):
    pages = {path.name: path.read_text().replace("\\-", "-") for path in BUILD.glob("*.1")}
    assert sorted(pages) == sorted(["qkscope.1", *(f"qkscope-{c['name']}.1" for c in about["commands"])])
    for command in about["commands"]:
        assert f"qkscope-{command['name']}" in pages["qkscope.1"]
        assert all(f"--{name}\\fR" in pages[f"qkscope-{command['name']}.1"] for name in names(command))


@pytest.mark.test_all
@pytest.mark.skipif(not shutil.which("mandoc"), reason="mandoc is not installed")
def test_man_pages_are_clean():
    done = subprocess.run(["mandoc", "-T", "lint", *sorted(BUILD.glob("*.1"))], capture_output=True, text=True)
    assert done.stdout == "" and done.returncode == 0, done.stdout


# ---- completion ------------------------------------------------------------------------------------

def complete(lines, folder):
    """What bash offers for the last word of each of these lists of words."""
    asked = "".join(f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; COMPREPLY=(); _qkscope; "
                    "echo \"${COMPREPLY[@]}\"\n" for words in lines)
    said = subprocess.run(["bash", "-c", f"source {BUILD}/qkscope.bash\n{asked}"], cwd=folder, check=True, capture_output=True,
                          text=True).stdout
    return [line.split() for line in said.splitlines()]


def test_bash_completes_commands_and_options(about, tmp_path):
    commands = [command["name"] for command in about["commands"]]
    first, *rest = complete([["qkscope", ""], *(["qkscope", name, "--"] for name in commands)], tmp_path)
    assert set(first) == {*commands, "help", "--help", "--version"}
    assert [set(offered) for offered in rest] == [{f"--{name}" for name in names(c)} for c in about["commands"]]


def test_bash_completes_words_files_and_values(tmp_path):
    (tmp_path / "capture").mkdir()
    (tmp_path / "notes.txt").touch()
    offered = {("pla",): "plasticity", ("pca", "--tax"): "--taxonomy-low --taxonomy-high",
               ("rotate", "--b-axis", ""): "pairs centroid", ("rotate", "--b-axis", "=", "c"): "centroid",
               ("pca", "-o", ""): "capture", ("pca", ""): "capture notes.txt", ("pca", "--config", "no"): "notes.txt",
               ("pca", "--components", ""): "", ("help", "abl"): "ablate",
               ("explain", "bias_strength_l"): "bias_strength_lo", ("heads", "results", "--where", "bias_strength_l"): "bias_strength_lo",
               ("heads", "results", "--sort", "-bias_strength_l"): "-bias_strength_lo",
               ("heads", "results", "--columns", "layer,q_h"): "layer,q_head",
               ("ablate", "--what", "mean,win"): "mean,window:", ("report", "results", "--figure", "map-08"): "map-08-layers"}
    found = complete([["qkscope", *words] for words in offered], tmp_path)
    assert [sorted(some) for some in found] == [sorted(wanted.split()) for wanted in offered.values()]


@pytest.mark.parametrize("shell, file", [("zsh", "_qkscope"), ("fish", "qkscope.fish"), ("bash", "qkscope.bash")])
def test_shells_read_their_file(about, shell, file):
    text = (BUILD / file).read_text()
    assert all(name in text for command in about["commands"] for name in names(command))
    if shutil.which(shell):
        subprocess.run([shell, "-n", BUILD / file], check=True)


@pytest.mark.test_all
@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes(tmp_path):
    for line, word in {"qkscope help abl": "ablate", "qkscope rotate --b-axis c": "centroid", "qkscope pca --taxonomy-l":
                       "--taxonomy-low"}.items():
        done = subprocess.run(["fish", "-c", f"source {BUILD}/qkscope.fish; complete -C '{line}'"], cwd=tmp_path, check=True,
                              env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True)
        assert {offered.split("\t")[0] for offered in done.stdout.splitlines()} == {word}


def test_programs_on_the_path(qkscope, tmp_path):
    """qkscope NAME runs qkscope-NAME with the words behind it; help lists such programs."""
    program = tmp_path / "qkscope-hello"
    program.write_text('#!/bin/sh\nprintf "%s." "$@"\nexit 7\n')
    program.chmod(0o755)
    (tmp_path / "qkscope-data").write_text("no program")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = qkscope("hello", "a b", "--help", env=path, expect=7)
    assert done.out == "a b.--help."
    assert qkscope("help", "hello", env=path, expect=7).out == "--help."
    said = qkscope("help", env=path, expect=0).out
    assert "\nPrograms on the path:\n" in said and "  hello\n" in said and "  data\n" not in said
    assert "there is no command 'data'" in qkscope("data", env=path, expect=2).err
    for name in ("calibrate", "export"):
        assert f"{name} is a program of the Python package: in a checkout, pip install . numpy" in qkscope(name, "x", env=path, expect=2).err
    program.rename(tmp_path / "qkscope-export")
    assert qkscope("export", "kvpress-stats", env=path, expect=7).out == "kvpress-stats."


def test_programs_that_cannot_run(qkscope, tmp_path):
    """Folders, files without the right, a folder that is none: as if they were not there. A program whose interpreter
    has gone is told as such, and not as a command that is not there."""
    first, second = tmp_path / "first", tmp_path / "second"
    (first / "qkscope-tool").mkdir(parents=True)
    (second / "qkscope-dir").mkdir(parents=True)
    for name, line in {"tool": "#!/bin/sh\necho it runs\n", "moved": "#!/nowhere/python\n", "..": "#!/bin/sh\n", "plain": ""}.items():
        (second / f"qkscope-{name}").write_text(line)
        (second / f"qkscope-{name}").chmod(0o644 if name == "plain" else 0o755)
    (tmp_path / "qkscope-here").symlink_to(second / "qkscope-tool")
    path = {"PATH": f"/nowhere:{second}/qkscope-tool:{first}:{second}:{'x' * 5000}:"}
    assert qkscope("tool", env=path, expect=0).out == "it runs\n"
    said = qkscope("moved", env=path, expect=1).err
    assert said == (f"qkscope: cannot run {second}/qkscope-moved: No such file or directory "
                    "(the program that its first line names)\n")
    for name in ("plain", "dir", "here", "../second/qkscope-tool", "x" * 100, ""):
        assert f"there is no command '{name}'" in qkscope(name, env=path, cwd=tmp_path, expect=2).err
    listed = qkscope("help", env=path, cwd=tmp_path, expect=0).out.split("Programs on the path:\n")[1]
    assert listed.split() == ["..", "moved", "tool"]
    for empty in ("", None):
        assert "on the path" not in qkscope("help", env={"PATH": empty}, cwd=tmp_path, expect=0).out


def test_what_has_left(qkscope):
    for command, instead in (("analyze-heads", "qkscope plasticity --convention published"),
                             ("plot-plasticity", "qkscope report --figure plasticity-02-profiles")):
        assert f"{command} has left: use {instead}" in qkscope(command, "--config", "x.yaml", expect=2).err
    for words, instead in ((["--layer", "2"], "--heads LAYER:HEAD"), (["--head=1"], "--heads LAYER:HEAD"),
                           (["--complement"], "--basis complement")):
        assert f"has left: use {instead}" in qkscope("scatter", "capture", *words, expect=2).err
    assert "--compat has left: use --config FILE" in qkscope("capture", "--compat", expect=2).err
    assert "--variance has left: use the command without it" in qkscope("plasticity", "capture", "--variance", "diag", expect=2).err


def test_commands_that_have_left(qkscope):
    for words, instead in (("repack", "qkscope capture --layout"), ("synth", "tools/make_capture.py")):
        assert f"has left: use {instead}" in qkscope(words, expect=2).err
