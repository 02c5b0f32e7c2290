# SPDX-License-Identifier: Apache-2.0
"""Heads as they are named on the command line, in files and in Python: the same everywhere."""
import json

import pandas as pd
import pytest
from conftest import EXAMPLE

ALL = [(layer, head) for layer in range(5) for head in range(4)]
NAMED = {
    "2:1": {(2, 1)},
    "2:*": {(2, h) for h in range(4)},
    "1-2:*": {(x, h) for x in (1, 2) for h in range(4)},
    "2:0-2": {(2, h) for h in range(3)},
    "3": {(x, 3) for x in range(5)},
    "*:3": {(x, 3) for x in range(5)},
    "0,2-3": {(x, h) for x in range(5) for h in (0, 2, 3)},
    "*": set(ALL),
    "4:2,0:1,4:2": {(4, 2), (0, 1)},
    "0-1:1-2, 4 : 0": {(0, 1), (0, 2), (1, 1), (1, 2), (4, 0)},
}
WRONG = ["", ",", ":1", "1:", "1:2,", "a:1", "1:2:3", "9-2:*", "2:3-1", "99999999999:1", "2:99999999999", "-1:0", "@",
         "@/nowhere", "1:1,@x"]


def heads_of(folder):
    table = pd.read_csv(folder / "heads.csv")
    return set(zip(table.layer, table.q_head, strict=True))


@pytest.mark.parametrize("named", NAMED)
def test_analyses(qkscope, tmp_path, named):
    qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--heads", named)
    assert heads_of(tmp_path / "out") == NAMED[named]


@pytest.mark.parametrize("wrong", WRONG)
def test_mistakes(qkscope, tmp_path, wrong):
    for command in ("pca", "scatter"):
        said = qkscope(command, EXAMPLE, "-o", tmp_path / "out", "--heads", wrong, expect=2)
        assert said.err.startswith(f"qkscope {command}: --heads") and wrong.split(",")[-1][:9] in said.err
        assert not (tmp_path / "out").exists()


def test_scatter_keeps_the_order(qkscope, tmp_path):
    said = qkscope("scatter", EXAMPLE, "-o", tmp_path / "h.png", "--collage", "3x3", "--heads", "4:1,2:*,0:3", "--json").out
    assert [(h["layer"], h["head"]) for h in json.loads(said)["heads"]] == [(4, 1), *((2, h) for h in range(4)), (0, 3)]
    said = qkscope("scatter", EXAMPLE, "-o", tmp_path / "k.png", "--collage", "3x3", "--kind", "k", "--heads", "2:*", "--json")
    assert [(h["layer"], h["head"]) for h in json.loads(said.out)["heads"]] == [(2, 0), (2, 1)]


def test_a_list_is_read_back(qkscope, tmp_path):
    qkscope("pca", EXAMPLE, "-o", tmp_path / "all")
    listed = qkscope("heads", tmp_path / "all", "--where", "category == mixed", "--format", "list").out
    table = pd.read_csv(tmp_path / "all" / "heads.csv").query("category == 'mixed'")
    wanted = set(zip(table.layer, table.q_head, strict=True))
    assert 1 < len(wanted) < 20
    (tmp_path / "list.txt").write_text("# mixed\n\n" + listed)
    for i, named in enumerate((listed.strip(), f"@{tmp_path}/list.txt")):
        qkscope("pca", EXAMPLE, "-o", tmp_path / f"{i}", "--heads", named)
        assert heads_of(tmp_path / f"{i}") == wanted


def test_files_that_are_wrong(qkscope, tmp_path):
    path = tmp_path / "list.txt"
    for text, words in ((b"2:1\n2:x # y\n", 'line 2: "2:x'), (b"2:1\0", "zero byte"), (b"\n# none\n", "names no heads"),
                        (b"#" * (5 << 20), "more than"), (b"@other\n", 'line 1: "@other"')):
        path.write_bytes(text)
        said = qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--heads", f"@{path}", expect=2)
        assert words in said.err and str(path) in said.err
    assert "folder" in qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--heads", f"@{tmp_path}", expect=2).err


def test_heads_that_are_not_there(qkscope, tmp_path):
    said = qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--heads", "2:1,2:7-8,9:*,3:0")
    assert "warning: --heads: the capture has no head 2:7, 2:8, 9:*\n" in said.err
    assert heads_of(tmp_path / "out") == {(2, 1), (3, 0)}
    said = qkscope("pca", EXAMPLE, "-o", tmp_path / "none", "--heads", "2:7", expect=1)
    assert "up to 4" in said.err and not (tmp_path / "none").exists()


def test_configuration_files(qkscope, tmp_path):
    for i, (heads, wanted) in enumerate((("2:1", {(2, 1)}), ("'2:*'", NAMED["2:*"]), ("[3, '2:1']", NAMED["3"] | {(2, 1)}),
                                         ("[0, 2]", {(x, h) for x in range(5) for h in (0, 2)}))):
        (tmp_path / "c.yaml").write_text(f"data:\n  dataset_name: {EXAMPLE}\n  heads: {heads}\n")
        qkscope("pca", "--config", tmp_path / "c.yaml", "-o", tmp_path / f"{i}", "--combined")
        assert heads_of(tmp_path / f"{i}") == wanted
    (tmp_path / "c.yaml").write_text(f"data:\n  dataset_name: {EXAMPLE}\n  heads: [3, '2:x']\n")
    said = qkscope("analyze", "--config", tmp_path / "c.yaml", "-o", tmp_path / "out", expect=2)
    assert "line 3: data.heads" in said.err and '"2:x"' in said.err


def test_what_a_manifest_says(qkscope, tmp_path):
    for i, (heads, wanted) in enumerate((("3,0-1", [0, 1, 3]), ("2:1,14-23:*,3", ["2:1", "14-23:*", "3"]))):
        qkscope("pca", EXAMPLE, "-o", tmp_path / f"{i}", "--heads", heads)
        assert json.loads((tmp_path / f"{i}" / "manifest.json").read_text())["runs"][0]["settings"]["heads"] == wanted
