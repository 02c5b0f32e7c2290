# SPDX-License-Identifier: Apache-2.0
"""What is made from the tables of settings: man pages, completion for shells, the reference. The build
has made all of them."""
import json
import re
import shutil
import subprocess

import pytest
from conftest import BUILD, ROOT


@pytest.fixture(scope="module")
def about(program):
    return json.loads(subprocess.run([program, "describe"], check=True,
                                     capture_output=True).stdout)


def names(command):
    return {option["name"] for option in command["options"]}


def of(about, name):
    return next(c for c in about["commands"] if c["name"] == name)


# ---- reference and help ----------------------------------------------------------------------------

def test_reference_is_up_to_date():
    made = subprocess.run(["python3", ROOT / "tools" / "generate.py", BUILD / "description.json", "options.md"],
                          check=True, capture_output=True, text=True).stdout
    assert made == (ROOT / "docs" / "reference" / "options.md").read_text(), "run make reference"


def test_help_shows_what_is_described(about, qkscope):
    for command in about["commands"]:
        out = qkscope(command["name"], "--help", expect=0).out
        shown = set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", out, re.M))
        assert shown == names(command)
        assert out.rstrip().splitlines()[-1].strip() == command["examples"].splitlines()[-1]
        for option in command["options"]:
            assert f"\n{option['section']}:\n" in out


def test_examples_are_commands_that_parse(about, qkscope):
    """With --help behind it, an example is parsed, and nothing is run."""
    for command in about["commands"]:
        for line in command["examples"].splitlines():
            words = line.split("| ")[-1].replace('"', "").split()
            assert words[:2] == ["qkscope", command["name"]]
            qkscope(*words[1:], "--help", expect=0)


def test_release_day(about):
    assert f"date-released: {about['released']}" in (ROOT / "CITATION.cff").read_text()


# ---- man pages -------------------------------------------------------------------------------------

def test_man_pages(about):
    pages = ["qkscope.1", *(f"qkscope-{c['name']}.1" for c in about["commands"])]
    assert sorted(p.name for p in BUILD.glob("*.1")) == sorted(pages)
    overview = (BUILD / "qkscope.1").read_text()
    for command in about["commands"]:
        text = (BUILD / f"qkscope-{command['name']}.1").read_text().replace("\\-", "-")
        assert f"qkscope-{command['name']}" in overview.replace("\\-", "-")
        for option in command["options"]:
            assert f"--{option['name']}\\fR" in text


def test_man_pages_are_clean():
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    pages = sorted(BUILD.glob("*.1"))
    done = subprocess.run(["mandoc", "-T", "lint", *pages], capture_output=True, text=True)
    assert len(pages) > 10 and done.stdout == "" and done.returncode == 0, done.stdout


# ---- completion ------------------------------------------------------------------------------------

def complete(words, folder):
    """What bash offers for the last of these words."""
    script = (f"source {BUILD}/qkscope.bash; COMP_WORDS=({' '.join(map(repr, words))}); "
              f"COMP_CWORD={len(words) - 1}; _qkscope; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    return subprocess.run(["bash", "-c", script], cwd=folder, check=True, capture_output=True,
                          text=True).stdout.split()


def test_bash_completes_commands_and_options(about, tmp_path):
    assert complete(["qkscope", "pla"], tmp_path) == ["plasticity"]
    assert set(complete(["qkscope", ""], tmp_path)) == {
        *(c["name"] for c in about["commands"]), "help", "--help", "--version"}
    for command in about["commands"]:
        offered = complete(["qkscope", command["name"], "--"], tmp_path)
        assert set(offered) == {f"--{name}" for name in names(command)}
    assert complete(["qkscope", "pca", "--tax"], tmp_path) == ["--taxonomy-low", "--taxonomy-high"]


def test_bash_completes_values(tmp_path):
    (tmp_path / "capture").mkdir()
    (tmp_path / "notes.txt").touch()
    assert complete(["qkscope", "rotate", "--b-axis", ""], tmp_path) == ["pairs", "centroid"]
    assert complete(["qkscope", "rotate", "--b-axis", "=", "c"], tmp_path) == ["centroid"]
    assert complete(["qkscope", "pca", "-o", ""], tmp_path) == ["capture"]
    assert sorted(complete(["qkscope", "pca", ""], tmp_path)) == ["capture", "notes.txt"]
    assert complete(["qkscope", "pca", "--config", "no"], tmp_path) == ["notes.txt"]
    assert complete(["qkscope", "pca", "--components", ""], tmp_path) == []


def test_bash_completes_names_of_commands_columns_and_formats(about, tmp_path):
    (tmp_path / "results").mkdir()
    assert complete(["qkscope", "help", "abl"], tmp_path) == ["ablate"]
    assert set(complete(["qkscope", "help", ""], tmp_path)) == {c["name"] for c in about["commands"]}
    assert complete(["qkscope", "explain", "bias_st"], tmp_path)[0] == "bias_strength"
    assert "rotated.csv" in complete(["qkscope", "explain", "rot"], tmp_path)
    assert complete(["qkscope", "export", "duo"], tmp_path) == ["duo-attention"]
    assert complete(["qkscope", "export", "duo-attention", "re"], tmp_path) == ["results"]


@pytest.mark.parametrize("shell, file", [("zsh", "_qkscope"), ("fish", "qkscope.fish"),
                                         ("bash", "qkscope.bash")])
def test_shells_read_their_file(about, shell, file):
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    subprocess.run([shell, "-n", BUILD / file], check=True)
    text = (BUILD / file).read_text()
    for command in about["commands"]:
        assert all(name in text for name in names(command))


def test_fish_completes(tmp_path):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")

    def offered(line):
        done = subprocess.run(["fish", "-c", f"source {BUILD}/qkscope.fish; complete -C '{line}'"],
                              env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, cwd=tmp_path,
                              check=True, capture_output=True, text=True).stdout
        return {word.split("\t")[0] for word in done.splitlines()}
    assert offered("qkscope synt") == {"synth"}
    assert offered("qkscope help abl") == {"ablate"}
    assert offered("qkscope export duo") == {"duo-attention"}
    assert offered("qkscope rotate --b-axis ") == {"pairs", "centroid"}
    assert offered("qkscope pca --taxonomy-l") == {"--taxonomy-low"}
