# SPDX-License-Identifier: Apache-2.0
"""What is counted on the terminal: one head, two heads."""
import re

from conftest import EXAMPLE, ROOT

STEP = ROOT / "examples" / "kjv-tiny" / "step-20"
ONE_OF_MANY = re.compile(r"(?<![\d.,:/-])\b1 (heads|rows|texts|windows|tokens|threads|layers|files|"
                         r"figures|models|points|query heads|key heads)\b")


def check(outcome):
    assert not ONE_OF_MANY.search(outcome.out), outcome.out
    return outcome.out


def test_one_of_each(qkscope, tmp_path):
    (tmp_path / "t.txt").write_text("In the beginning God created the heaven and the earth. ")
    said = check(qkscope("capture", "--model", STEP, "--text", tmp_path / "t.txt", "--rows", "1",
                         "-o", tmp_path / "c", expect=0))
    assert said.startswith("1 text, ")
    check(qkscope("inspect", tmp_path / "c", expect=0))
    said = check(qkscope("synth", "-o", tmp_path / "s", "--layers", 1, "--query-heads", 1,
                         "--q-per-kv-group", 1, "--rows", "1e2", expect=0))
    assert said.startswith("1 query head, 1 key head, 400 rows of ")
    said = check(qkscope("inspect", tmp_path / "s", expect=0))
    assert "in 1 layer: " in said and "group size  1 query head per key head" in said
    said = check(qkscope("analyze", tmp_path / "s", "-o", tmp_path / "o", "--threads", 1, expect=0))
    assert said.startswith("1 head, 800 rows in ") and "(1 thread, " in said


def test_more_than_one(qkscope, tmp_path):
    said = qkscope("pca", EXAMPLE, "-o", tmp_path, "--threads", 2, expect=0).out
    assert said.startswith("20 heads, 27902 rows in ") and "(2 threads, " in said


def test_one_block_for_two_shards(qkscope, tmp_path):
    """What is said to the process for which there is nothing, on stderr."""
    words = ["capture", "--model", STEP, "--text", ROOT / "examples" / "kjv-tiny" / "passages.jsonl", "--max-texts", "1",
             "--layers", "0", "-o", tmp_path / "c"]
    said = qkscope(*words, "--shard", "0/2").err
    assert "shard 0 of 2 has nothing to do: the texts make 1 block\n" in said, said


def test_numbers_have_as_many_digits_as_they_need(qkscope, tmp_path):
    """In JSON, on standard output and in files; 0.3 is not 0.29999999999999999."""
    said = qkscope("pca", EXAMPLE, "-o", tmp_path, "--json", expect=0).out
    for text in (said, (tmp_path / "manifest.json").read_text()):
        numbers = re.findall(r"(?<=[ \[])-?\d+\.[\de+-]+(?=[,\n\]])", text)
        assert len(numbers) > 3 and all(len(number) <= len(repr(float(number))) for number in numbers), numbers
    assert '"taxonomy_low": 0.3,' in (tmp_path / "manifest.json").read_text()
