# SPDX-License-Identifier: Apache-2.0
"""One word, one meaning: words that have a usual twin are in no page, and in no text of the program."""
import re

import pytest
from conftest import ROOT

# What is not written: what is.
TWINS = {
    r"foret(ell|old)\w*": "predict",
    r"texts without end": "infinitely many texts",
    r"(is|are|carry|carries|nearly|as) (a )?clocks?\b": "tracks position",
    r"tells? (the )?time": "tracks position",
    r"at home": "close to the query",
    r"cannot tell, and says so": "too few",
}
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
TEXTS = [path for folder in ("src/schema", "src/cli", "src/figure", "src/report") for path in sorted((ROOT / folder).rglob("*"))
         if path.suffix in (".c", ".h", ".def", ".js")]


@pytest.mark.parametrize("twin", TWINS)
def test_words_with_a_usual_twin(twin):
    used = [(path.relative_to(ROOT).as_posix(), found[0]) for path in PAGES + TEXTS
            for found in re.finditer(rf"\b{twin}", path.read_text(encoding="utf-8"))]
    assert not used, f"write: {TWINS[twin]}"


def test_the_glossary_has_each_word_once():
    words = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M)[2:]
    assert len(words) > 40 and len(set(words)) == len(words) and words == sorted(words, key=lambda word: word.strip("`").lower())
