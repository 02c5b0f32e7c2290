# SPDX-License-Identifier: Apache-2.0
"""Ids by rules that are written out here or that Python knows: merges one by one, what published patterns cut,
normal forms; and the command. test_tokenizer_live.py has the same of Hugging Face's tokenizers, where they are installed."""
import json
import random
import subprocess
import sys
import unicodedata

import pytest

import tokenizer_cases as cases
from conftest import BUILD, ROOT

MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
BYTES = {**cases.byte_level(), "use_regex": False}


def letters(data):
    return "".join(cases.LETTERS[b] for b in data)


def tokenizer(folder, vocabulary=(), pre=BYTES, post=None, **changes):
    """Of bytes, and of the texts of a vocabulary, written to its file."""
    tokens = [*cases.LETTERS, *vocabulary]
    made = {"version": "1.0", "added_tokens": [], "normalizer": changes.pop("normalizer", None), "pre_tokenizer": pre,
            "post_processor": post, "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [], **changes}}
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(made))
    return path, made["model"]["vocab"]


def merged(text, ranks):
    """The pair of the least rank first, of equals the first, until there is none."""
    parts = list(text)
    while pairs := [(ranks[pair], i) for i, pair in enumerate(zip(parts, parts[1:])) if pair in ranks]:
        i = min(pairs)[1]
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return parts


@pytest.mark.parametrize("merges", [list, lambda pairs: ["#version: 0.2", *map(" ".join, pairs)]], ids=["pairs", "strings"])
def test_merges_one_by_one(merges, tmp_path):
    rng = random.Random(1)
    pieces, ranks = [*"abcd\u0120"], {}
    while len(ranks) < 150:
        pair = rng.choice(pieces), rng.choice(pieces)
        if pair not in ranks and len("".join(pair)) < 12 and "".join(pair) not in pieces:
            ranks[pair] = len(ranks)
            pieces.append("".join(pair))
    path, ids = tokenizer(tmp_path, pieces[5:], merges=merges([list(pair) for pair in ranks]))
    texts = [bytes(rng.choices(b"abcd ", (4, 3, 2, 1, 1), k=rng.randrange(80))) for _ in range(300)]
    for text, found in zip(texts, cases.ids_of(tmp_path, path, texts), strict=True):
        assert found == [ids[part] for part in merged(letters(text), ranks)], text


TEXT = ("I'LL| pay| | |{numbers}|\xbd| dollars|!\n\n| | x|\t| \xdcber|_Stra\xdfe| isn|'t| camelCase| HTTPServer| a|//|b|\r\n|\u4e2d\u6587"
        "| e|\u0301t|\u0660|\u0661| \u200d?|  \n| ok|   ")
DIGITS = TEXT.format(numbers="1|2|3|4|5|,|6|7|8").replace("I'", "I|'")
THREES = TEXT.format(numbers="123|45|,|678").replace("I'", "I|'").replace("\u0660|", "\u0660")
PUBLISHED = {
    "LLAMA3": THREES, "QWEN2": DIGITS, "QWEN35": DIGITS.replace("| e|", "| e"),
    "TEKKEN": DIGITS.replace("| e|", "| e").replace("camelCase", "camel|Case"),
    "POSSESSIVE": THREES.replace("123|45", "12345").replace("678|", "678"),
    None: THREES.replace("|'LL", "|'|LL").replace("| |123|45", "| 12345").replace("678|", "678").replace("!\n\n| |", "!|\n\n |")
    .replace("_", "_|").replace("\r\n", "\r|\n").replace("\u0301", "\u0301|"),
}


@pytest.mark.cases(6)
@pytest.mark.parametrize("name", PUBLISHED)
def test_what_published_patterns_cut(name, tmp_path):
    """Of text in several scripts, with blanks and line ends of all kinds: each piece is a token, and no other is."""
    wanted = [letters(piece.encode()) for piece in PUBLISHED[name].split("|")]
    path, ids = tokenizer(tmp_path, sorted(set(wanted) - set(cases.LETTERS)), ignore_merges=True,
                          pre=cases.split_bytes(getattr(cases, name)) if name else cases.byte_level())
    found = cases.ids_of(tmp_path, path, [PUBLISHED[name].replace("|", "").encode()])[0]
    names = {i: token for token, i in ids.items()}
    assert [names[i] for i in found] == wanted


@pytest.mark.cases(4)
@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_normal_forms(form, tmp_path):
    """Of the characters of Unicode 3.2, whose forms no later version changes, with marks around them; of large blocks
    every sixteenth."""
    path, _ = tokenizer(tmp_path, normalizer={"type": form})
    old = unicodedata.ucd_3_2_0
    known = [c for c in map(chr, [*range(0x20, 0x3400), *range(0x3400, 0xd800, 16), *range(0xf900, 0x10000), *range(0x1d000, 0x1d800),
                                  *range(0x2f800, 0x2fa1e)])
             if old.category(c) not in ("Cn", "Co") and c not in "\uf951\U0002f868\U0002f874\U0002f91f\U0002f95f\U0002f9bf"]
    text = "\n".join(before + c + after for c in known for before, after in (("a", "\u0315\u0323"), ("\u0301\u0323", "\u093c")))
    found = cases.ids_of(tmp_path, path, [text.encode()])[0]
    assert bytes(found).decode() == unicodedata.normalize(form, text)


# ---- the command ---------------------------------------------------------------------------------

def test_command(qkscope, tmp_path):
    """A tokenizer of bytes: alone, as JSON, cut, counted, and of what comes through a pipe."""
    text = tmp_path / "text"
    text.write_bytes("the time\n\n\u00e9".encode())
    ids = list(text.read_bytes())
    out = qkscope("tokenize", MODEL, text, expect=0).out
    assert [int(line.split("\t")[0]) for line in out.splitlines()] == ids and out.startswith("116\tt\n")
    assert qkscope("tokenize", MODEL / "tokenizer.json", text, "--count", expect=0).out == f"{len(ids)}\n"
    found = json.loads(qkscope("tokenize", MODEL, text, "--json", "--max-length", 3, expect=0).out)
    assert [t["id"] for t in found["tokens"]] == ids[:3] and found["count"] == 3
    special, _ = tokenizer(tmp_path, ["<s>"], post=cases.template([("<s>", 256)]))
    for options, first in ([], "256\t<s>\n"), (["--no-special"], "116\tt\n"):
        assert qkscope("tokenize", special, text, "--max-length", 1, *options, expect=0).out == first
    text.write_bytes(b"\xef\xbb\xbf" + text.read_bytes())
    assert qkscope("tokenize", MODEL, text, expect=0).out == out
    piped = subprocess.run([BUILD / "qkscope", "tokenize", MODEL, "-", "--count"], input=b"\xef\xbb\xbfthe", capture_output=True,
                           check=True)
    assert piped.stdout == b"3\n"


def test_command_refuses(qkscope, tmp_path):
    assert "which tokenizer" in qkscope("tokenize", expect=2).err
    assert "which text" in qkscope("tokenize", tmp_path, expect=2).err
    assert "tokenizer.json" in qkscope("tokenize", tmp_path, "-", expect=1).err
    path = tmp_path / "tokenizer.json"
    path.write_text('{"model": {"type": "WordPiece"}}')
    err = qkscope("tokenize", path, "-", expect=1).err
    assert "model.type" in err and "WordPiece" in err and str(path) in err


@pytest.mark.test_all
def test_one_large_id(qkscope, sanitized, tmp_path):
    """It takes no memory for those below it: an int of each would be 64 MiB."""
    if sanitized:
        pytest.skip("sanitizers keep freed memory")
    sys.path.append(str(ROOT / "bench"))
    from timed import timed
    path, _ = tokenizer(tmp_path, pre=None, vocab={"a": 2 ** 24 - 1})
    (tmp_path / "text").write_text("a")
    command = [BUILD / "qkscope", "tokenize", path, tmp_path / "text"]
    assert timed(BUILD, command)[1] < 40
    assert qkscope(*command[1:], expect=0).out == "16777215\ta\n"


# Of Unicode 15, 15.1 and 16, but for the last, whose category Unicode 15 changed.
NEWER = {"\U0001fae8": "So", "\U0001fae9": "So", "\U0001f6dc": "So", "\U0001cc00": "So", "\u31ef": "So", "\U00010d8e": "Sm", "\U00031350": "Lo",
         "\U0002ebf0": "Lo", "\ua7cb": "Lu", "\u1c8a": "Ll", "\U0001e030": "Lm", "\u0897": "Mn", "\u0cf3": "Mc", "\U0001e4f0": "Nd",
         "\U0001d2c0": "No", "\u1b4e": "Po", "\U00010d6e": "Pd", "\U00013439": "Cf", "\U0001171e": "Mc"}


@pytest.mark.cases(19)
@pytest.mark.parametrize("character", NEWER, ids=lambda c: f"U+{ord(c):04X}")
def test_characters_newer_than_oniguruma(character, tmp_path):
    """Patterns take a character of Unicode 15 to 16 for what it is; the ids are those of its own bytes."""
    split = {"type": "Split", "pattern": {"Regex": rf"\p{{{NEWER[character]}}}"}, "behavior": "Isolated", "invert": False}
    pre = {"type": "Sequence", "pretokenizers": [split, {**BYTES, "add_prefix_space": True}]}
    path, ids = tokenizer(tmp_path, pre=pre)
    wanted = letters(f" {character} {character} \u0378".encode())  # what nobody knows is of no such category
    assert cases.ids_of(tmp_path, path, [f"{character}{character}\u0378".encode()]) == [[ids[c] for c in wanted]]
