# SPDX-License-Identifier: Apache-2.0
"""Heads as they are named on the command line, in files and in configurations (how names are read:
tests/settings/test_head_set.c)."""
import json

import pytest
from conftest import EXAMPLE, last_run, read_csv


def heads_of(folder):
    return [(row["layer"], row["q_head"]) for row in read_csv(folder / "heads.csv")]


LAYER_2 = [(2, head) for head in range(4)]


@pytest.mark.parametrize("named, wanted, listed", [("2:1,2:*", LAYER_2, ["2:1", "2:*"]), ("3", [(x, 3) for x in range(5)], [3]),
                                                   ("0:1-2, 4 : 0", [(0, 1), (0, 2), (4, 0)], ["0:1-2", "4:0"])])
def test_analyses(qkscope, tmp_path, named, wanted, listed):
    """A text, a file, and a manifest that says what was asked for."""
    qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--heads", named, expect=0)
    assert heads_of(tmp_path / "out") == wanted and last_run(tmp_path / "out")["settings"]["heads"] == listed
    (tmp_path / "list.txt").write_text(f"\ufeff# these\r\n\r\n{named}\r\n", encoding="utf-8", newline="")
    qkscope("pca", EXAMPLE, "-o", tmp_path / "by-file", "--heads", f"@{tmp_path}/list.txt", expect=0)
    assert heads_of(tmp_path / "by-file") == wanted


def test_mistakes(qkscope, tmp_path):
    path = tmp_path / "list.txt"
    path.write_text("2:1\n2:x # y\n")
    for command, named, words in (("pca", "1:2:3", '"1:2:3"'), ("scatter", "", "--heads"), ("pca", f"@{path}", 'line 2: "2:x'),
                                  ("pca", f"@{tmp_path}", "folder")):
        said = qkscope(command, EXAMPLE, "-o", tmp_path / "out", "--heads", named, expect=2)
        assert said.err.startswith(f"qkscope {command}: --heads") and words in said.err
        assert not (tmp_path / "out").exists()


def test_scatter_keeps_the_order(qkscope, tmp_path):
    said = qkscope("scatter", EXAMPLE, "-o", tmp_path / "h.svg", "--collage", "3x3", "--max-points", 50, "--heads", "4:1,2:*,0:3",
                   "--json").out
    assert [(h["layer"], h["head"]) for h in json.loads(said)["heads"]] == [(4, 1), *LAYER_2, (0, 3)]


def test_heads_that_are_not_there(qkscope, tmp_path):
    said = qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--heads", "2:1,2:7-8,9:*,3:0")
    assert "warning: --heads: the capture has no head 2:7, 2:8, 9:*\n" in said.err
    assert heads_of(tmp_path / "out") == [(2, 1), (3, 0)]
    said = qkscope("pca", EXAMPLE, "-o", tmp_path / "none", "--heads", "2:7", expect=1)
    assert "up to 4" in said.err and not (tmp_path / "none").exists()


def test_configuration_files(qkscope, tmp_path):
    (tmp_path / "c.yaml").write_text(f"data:\n  dataset_name: {EXAMPLE}\n  heads: [3, '2:1']\n")
    qkscope("pca", "--config", tmp_path / "c.yaml", "-o", tmp_path / "out", "--combined", expect=0)
    assert heads_of(tmp_path / "out") == [(0, 3), (1, 3), (2, 1), (2, 3), (3, 3), (4, 3)]
    (tmp_path / "c.yaml").write_text(f"data:\n  dataset_name: {EXAMPLE}\n  heads: [3, '2:x']\n")
    said = qkscope("analyze", "--config", tmp_path / "c.yaml", "-o", tmp_path / "wrong", expect=2)
    assert "line 3: data.heads" in said.err and '"2:x"' in said.err
