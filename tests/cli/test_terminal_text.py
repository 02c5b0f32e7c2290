# SPDX-License-Identifier: Apache-2.0
"""Nothing that comes from a file reaches the terminal as it is: not on stderr, not on stdout, not in
JSON, whose values stay exact all the same."""
import json
import re
import shutil
import subprocess
import unicodedata

import pytest

from conftest import EXAMPLE, ROOT

STEP = ROOT / "examples" / "kjv-tiny" / "step-20"
# Title of the window, colours by one byte, a line of its own, text that runs backwards.
HOSTILE = "\x1b]0;x\x07\u009b31m\u202e\nqkscope: all is well\r\x7f"
SHOWN = r"\u001b]0;x\u0007\u009b31m\u202e\nqkscope: all is well\r\u007f"


def check(outcome):
    for text in (outcome.out, outcome.err):
        for c in text.replace("\n", ""):
            assert unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp", "Cs"), (ascii(c),
                                                                                   text[:2000])
        assert "\nqkscope: all is well" not in text
    return outcome


@pytest.fixture
def capture(tmp_path):
    """The example under a name, and by a model, that speak to the terminal."""
    folder = tmp_path / f"c{HOSTILE}"
    shutil.copytree(EXAMPLE, folder)
    manifest = folder / "capture.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "model": HOSTILE}))
    return folder


def test_columns_of_a_file(qkscope, tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq
    path = tmp_path / f"{HOSTILE}.parquet"
    pq.write_table(pa.table({HOSTILE: [1, 2], "é": [1, 2]}), path)
    out = check(qkscope("inspect", path, expect=0)).out
    assert SHOWN in out and "\né  " in out
    columns = json.loads(check(qkscope("inspect", path, "--json", expect=0)).out)["columns"]
    assert [c["path"] for c in columns] == [HOSTILE, "é"]


def test_damaged_file(qkscope, capture):
    head = next(capture.glob("l00h00q/*.parquet"))
    head.write_bytes(head.read_bytes()[:-3])
    for command in (["inspect", capture], ["pca", capture, "-o", capture.parent / "o", "--layers", 0]):
        assert check(qkscope(*command, expect=3)).err


def test_model_and_folders(qkscope, capture):
    folder, out = capture.parent, capture.parent / f"o{HOSTILE}"
    said = check(qkscope("inspect", capture, expect=0)).out
    assert f"model       {SHOWN}" in said
    assert json.loads(check(qkscope("inspect", capture, "--json")).out)["model"] == HOSTILE
    pca = ["pca", capture, "--layers", 0, "-o"]
    assert f"o{SHOWN}/qk.csv" in check(qkscope(*pca, out, "-v", expect=0)).out
    assert json.loads(check(qkscope(*pca, folder / "p", "--json")).out)["model"] == HOSTILE
    check(qkscope("pca", folder / HOSTILE, "-o", out, expect=1))
    check(qkscope(HOSTILE, expect=2))
    check(qkscope("pca", f"--{HOSTILE}", expect=2))


@pytest.mark.test_all
def test_report(qkscope, capture):
    out = capture.parent / f"o{HOSTILE}"
    qkscope("pca", capture, "-o", out, expect=0)
    check(qkscope("report", out, "--format", "svg", expect=0))


def test_tokens(qkscope, tmp_path):
    """Each token is one line, and shows what it is."""
    tokenizer = json.loads((STEP / "tokenizer.json").read_text())
    names = [HOSTILE, "\t", "\u2066x"]
    first = 1 + max(tokenizer["model"]["vocab"].values())
    tokenizer["added_tokens"] += [
        {"id": first + i, "content": name, "special": False, "single_word": False, "lstrip": False,
         "rstrip": False, "normalized": False} for i, name in enumerate(names)]
    (tmp_path / "m").mkdir()
    (tmp_path / "m/tokenizer.json").write_text(json.dumps(tokenizer))
    (tmp_path / "text").write_text("".join(names), newline="")
    lines = check_tokens(qkscope("tokenize", tmp_path / "m", tmp_path / "text", expect=0))
    assert [line.split("\t", 1)[1] for line in lines][-3:] == [SHOWN, r"\t", r"\u2066x"]
    out = check(qkscope("tokenize", tmp_path / "m", tmp_path / "text", "--json", expect=0)).out
    assert [t["piece"] for t in json.loads(out)["tokens"]][-3:] == names


def check_tokens(outcome):
    outcome.out = outcome.out.replace("\t", " \t ")
    lines = outcome.out.splitlines()
    outcome.out = outcome.out.replace("\t", "")
    check(outcome)
    return [line.replace(" \t ", "\t") for line in lines]


def test_a_command_can_be_pasted(qkscope, tmp_path):
    """A shell reads the words again that were given, of a folder with a line break as well."""
    out = tmp_path / "a 'b\n\\c"
    qkscope("pca", EXAMPLE, "--layers", "0", "-o", out, expect=0)
    line = json.loads((out / "manifest.json").read_text())["runs"][0]["command_line"]
    words = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True).stdout.split("\0")
    assert words[-2] == str(out) and "\n" not in line


def test_one_function_prints():
    """Only help and what is generated, whose texts are the program's own, is printed otherwise. `text` is a stream in memory,
    which is printed by that function at its end."""
    for path in (ROOT / "src" / "cli").glob("*.c"):
        if path.name in ("print.c", "main.c", "call.c", "help.c", "describe_options.c"):
            continue
        found = re.findall(r"(?<![a-z_])(?:v?f?printf|puts|fputs|fwrite)\(.*", path.read_text())
        assert all(re.match(r'fputs\("|fprintf\(text, ', call) for call in found), (path.name, found)
