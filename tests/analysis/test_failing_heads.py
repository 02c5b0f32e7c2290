# SPDX-License-Identifier: Apache-2.0
"""Heads that fail while others read: no crash, and all others as if they had been alone."""
import numpy as np
import pytest
from conftest import head_name, write_head

pytest.importorskip("pyarrow")
PLAIN = {"compression": "none", "use_dictionary": False}
FAILING = {"l00h00q": 300, "l00h03q": 3000, "l01h00q": 3000, "l01h01q": 20}
# The crash that these are about came in one of ten runs.
TURNS = [(turn, threads) for turn in range(6) for threads in (2, 3, 7)]


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


@pytest.fixture(scope="module")
def alone(qkscope, capture, tmp_path_factory):
    """alone("--ci 95"): the tables of one thread."""
    made = {}

    def tables(options):
        if options not in made:
            folder = tmp_path_factory.mktemp("alone")
            qkscope("analyze", capture, "--max-pairs", "64", *options.split(), "-o", folder, "--threads", "1", expect=3)
            made[options] = tables_of(folder)
        return made[options]
    return tables


def tables_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


@pytest.mark.sample(5)
@pytest.mark.parametrize("options", ["", "--ci 95"])
@pytest.mark.parametrize("turn, threads", TURNS)
def test_failing_queries_leave_their_keys_alone(qkscope, capture, alone, tmp_path, turn, threads, options):
    """A query head gives up while its keys are being read."""
    said = qkscope("analyze", capture, "--max-pairs", "64", *options.split(), "-o", tmp_path, "--threads", threads, expect=3)
    assert all(f"{name}: " in said.err for name in FAILING)
    assert tables_of(tmp_path) == alone(options)


@pytest.mark.sample(5)
@pytest.mark.parametrize("turn, threads", TURNS)
def test_all_queries_of_a_key_head_fail(qkscope, tmp_path, turn, threads):
    """Then nobody but its own reader holds the keys."""
    for name, rows in (("l00h00k", 30000), ("l00h00q", 20000)):
        x = np.random.default_rng(1).standard_normal((rows, 64), np.float32)
        if name.endswith("q"):
            x[6000, 0] = np.nan
        write_head(tmp_path / "c", name, x, np.arange(rows), **PLAIN)
    said = qkscope("analyze", tmp_path / "c", "-o", tmp_path / "o", "--threads", threads, expect=1)
    assert "row 6000" in said.err and not (tmp_path / "o").exists()


def test_lists_and_comparisons_say_that_heads_failed(qkscope, capture, tmp_path):
    """They have no rows, and a list of the others looks whole."""
    for name, words in (("a", ""), ("b", "--from-position 1")):
        qkscope("pca", capture, *words.split(), "-o", tmp_path / name, expect=3)
    said = f"warning: %s{tmp_path}/a/manifest.json: 4 heads have no numbers; the first is l00h00q\n"
    assert said % "" in qkscope("heads", tmp_path / "a", "--format", "list", expect=0).err
    assert qkscope("heads", tmp_path / "a", tmp_path / "b", expect=0).err.count("4 heads have no numbers") == 2
    assert said % "a: " in qkscope("compare", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c", expect=0).err
