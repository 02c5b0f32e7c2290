# SPDX-License-Identifier: Apache-2.0
"""One word, one meaning: words that have a usual twin are in no page, and in no text of the program. How many pages and words there are."""
import re

import pytest
from conftest import ROOT

# What is not written: what is.
TWINS = {
    r"foret(ell|old)\w*": "predict",
    r"texts without end": "infinitely many texts",
    r"(is|are|carry|carries|nearly|as) (a )?clocks?\b": "tracks position",
    r"tells? (the )?(time|positions?)\b": "tracks position",
    r"at home": "close to the query",
    r"cannot tell": "too few, or not decided",
    r"told (by|apart)": "predicted from, distinguished",
    r"of another kind in": "of another category",
    r"kinds? of (the |each )?heads?\b": "category",
    r"beside each other": "side by side",
    r"unlike lengths": "different lengths",
    r"anew\b": "again",
    r"by lot\b": "at random",
    r"which of them|of whom": "the noun",
    r"attention sinks?\b": "sink",
    r"context windows?\b": "context, or length; a window is what a head sees",
    r"raw scores?\b|logits? of attention": "score",
    r"posits?\b|positionality": "position",
    r"r_Q\b|rho_q\b": "r_q",
}
USERS = [ROOT / "README.md", *sorted(path for folder in ("", "howto", "reference") for path in (ROOT / "docs" / folder).glob("*.md"))]
MADE = [ROOT / "docs" / "reference" / f"{name}.md" for name in ("options", "tables", "python-api")]  # of what the program says
ENGINEERS = sorted((ROOT / "docs" / "dev").glob("*.md"))
TEXTS = [path for folder in ("src/schema", "src/settings", "src/cli", "src/compare", "src/figure", "src/report") for path in sorted((ROOT / folder).rglob("*"))
         if path.suffix in (".c", ".h", ".def", ".js")]


def shown(path):
    """What users read of a file: pages but for their code, and texts of the program but for its comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return re.sub(r"<!--.*?-->|`[^`]*`", "", text, flags=re.S)
    return re.sub(r"/\*.*?\*/", "", text, flags=re.S)


@pytest.mark.parametrize("twin", TWINS)
def test_words_with_a_usual_twin(twin):
    pages = USERS if TWINS[twin] in ("category", "again") else USERS + ENGINEERS
    used = [(path.relative_to(ROOT).as_posix(), found[0]) for path in pages + TEXTS for found in re.finditer(rf"\b(?:{twin})", shown(path))]
    assert not used, f"write: {TWINS[twin]}"


def test_the_glossary_has_each_word_once():
    words = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8"), re.M)[2:]
    assert len(words) > 40 and len(set(words)) == len(words) and words == sorted(words, key=lambda word: word.strip("`").lower())


def test_pages_and_words_for_users():
    """At most thirty pages, and 45,000 words with those that are made; a word has a letter or a digit."""
    assert len(USERS) <= 30 and len(ENGINEERS) <= 10
    words = {path: sum(1 for word in path.read_text(encoding="utf-8").split() if re.search(r"\w", word)) for path in USERS}
    assert sum(words.values()) <= 45_000 and max(count for path, count in words.items() if path not in MADE) <= 4_000, words
