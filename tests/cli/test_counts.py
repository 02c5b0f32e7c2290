# SPDX-License-Identifier: Apache-2.0
"""What is counted on the terminal: one head, two heads."""
import re
import shutil

from conftest import EXAMPLE, ROOT

STEP = ROOT / "examples" / "kjv-tiny" / "step-20"
ONE_OF_MANY = re.compile(r"(?<![\d.,:/-])\b1 (heads|rows|texts|windows|tokens|threads|layers|files|"
                         r"figures|models|points|query heads|key heads)\b")


def said(qkscope, *words):
    out = qkscope(*words, expect=0).out
    assert not ONE_OF_MANY.search(out), out
    return out


def test_one_of_each(qkscope, tmp_path):
    (tmp_path / "t.txt").write_text("In the beginning God created the heaven and the earth. ")
    made = said(qkscope, "capture", "--model", STEP, "--text", tmp_path / "t.txt", "--rows", "1", "-o", tmp_path / "c")
    assert made.startswith("1 text, ")
    said(qkscope, "inspect", tmp_path / "c")
    for kind in "qk":
        shutil.copytree(EXAMPLE / f"l00h00{kind}", tmp_path / "one" / f"l00h00{kind}")
    found = said(qkscope, "inspect", tmp_path / "one")
    assert "in 1 layer: " in found and "group size  1 query head per key head" in found
    done = said(qkscope, "analyze", tmp_path / "one", "-o", tmp_path / "o", "--threads", 1)
    assert re.match(r"1 head, \d+ rows in ", done) and "(1 thread, " in done


def test_numbers_have_as_many_digits_as_they_need(qkscope, tmp_path):
    """In JSON, on standard output and in files; 0.3 is not 0.29999999999999999."""
    out = qkscope("pca", EXAMPLE, "-o", tmp_path, "--layers", 0, "--json", expect=0).out
    for text in (out, (tmp_path / "manifest.json").read_text()):
        numbers = re.findall(r"(?<=[ \[])-?\d+\.[\de+-]+(?=[,\n\]])", text)
        assert len(numbers) > 3 and all(len(number) <= len(repr(float(number))) for number in numbers), numbers
    assert '"taxonomy_low": 0.3,' in (tmp_path / "manifest.json").read_text()
