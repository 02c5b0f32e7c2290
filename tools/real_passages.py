# SPDX-License-Identifier: Apache-2.0
"""Cuts a text into long passages for tools/real_model.sh.

The text has a verse a line, its name in front (`Ge1:1 In the beginning ...`), as the program bible prints
it. Passages begin at verses spread evenly over the text, end with a verse, and do not overlap. What is
written has a passage a line, as qkscope capture reads it: the name of the first verse as `id`, the verses
without their names as `text`."""
import argparse
import json
import sys
from pathlib import Path

PASSAGES = 10
# At about 4.2 characters a token, somewhat more than the 8,192 tokens that a passage is to have.
CHARACTERS = 45_000


def read_verses(text):
    """(name, words) of every line."""
    verses = []
    for number, line in enumerate(text.splitlines(), 1):
        name, _, words = line.strip().partition(" ")
        if not words:
            sys.exit(f"line {number}: a verse has a name and words, not '{line.strip()}'")
        verses.append((name, words))
    return verses


def cut(verses, passages, characters):
    """Yields {"id", "text"}; exits where the text is too short for that many."""
    for number in range(passages):
        start, end = (len(verses) * k // passages for k in (number, number + 1))
        words, length = [], 0
        while length < characters and start + len(words) < end:
            words.append(verses[start + len(words)][1])
            length += len(words[-1]) + 1
        if length < characters:
            sys.exit(f"the text is too short for {passages} passages of {characters} characters: "
                     f"passage {number + 1} has {length}")
        yield {"id": verses[start][0], "text": "\n".join(words) + "\n"}


def main():
    parser = argparse.ArgumentParser(description="Cuts a text into passages.")
    parser.add_argument("text", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--passages", type=int, default=PASSAGES)
    parser.add_argument("--characters", type=int, default=CHARACTERS)
    options = parser.parse_args()
    verses = read_verses(options.text.read_text(encoding="utf-8", errors="replace"))
    lines = [json.dumps(p, ensure_ascii=False) + "\n"
             for p in cut(verses, options.passages, options.characters)]
    unfinished = options.output.with_suffix(".partial")
    unfinished.write_text("".join(lines), encoding="utf-8")
    unfinished.replace(options.output)


if __name__ == "__main__":
    main()
