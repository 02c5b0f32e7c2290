# SPDX-License-Identifier: Apache-2.0
"""The same ids as Hugging Face's tokenizers, on mixed text and for tokenizers of many shapes."""
import json
import random

import pytest

import tokenizer_cases as cases

pytestmark = pytest.mark.test_all
tokenizers = pytest.importorskip("tokenizers")

MEGABYTES = {"llama3": 1.5, "qwen2": 1.5, "tekken": 1.5, "gemma": 1.5, "glm4": 1, "smollm": 1,
             "qwen3.5": 0.5, "mistral0.2": 0.5, "llama2": 0.5, "flags": 0.5}


@pytest.fixture(scope="module")
def shapes():
    return cases.shapes()


def compare(folder, tokenizer, texts):
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    cases.compare(folder, path, tokenizers.Tokenizer.from_str(json.dumps(tokenizer)), texts)


# ---- whole tokenizers ----------------------------------------------------------------------------

@pytest.mark.parametrize("name", MEGABYTES)
def test_ids_of_mixed_text(name, shapes, tmp_path):
    """10 MB over all shapes."""
    size = int(MEGABYTES[name] * 1e6)
    texts = cases.texts(sorted(MEGABYTES).index(name), size, inserted=cases.INSERTED)
    compare(tmp_path, shapes[name], [b"", b" ", b"\n", b"\xff", b"a", *texts])


# Capitals of Unicode 16 and 17, and numbers of 17, as Rust has them and utf8proc has not.
LATER = dict.fromkeys([0x1c89, *range(0xa7cb, 0xa7dd), *range(0x10d50, 0x10d66), *range(0x16ea0, 0x16eb9),
                       *range(0x11de0, 0x11dea), *range(0x16ff4, 0x16ff7)])


def nasty(rng):
    """A short text of what tokenizers stumble over: random characters, sequences of emoji, controls, runs, mixed scripts."""
    emoji = "\U0001f468\U0001f469\U0001f467\U0001f3fd\u200d\ufe0f\u2764\U0001f1e9\U0001f1ea\U0001fae8\U0001fae9\U0001f6dc\u20e3" "1#"
    kinds = [lambda: chr(rng.choice([*range(1, 0xd800, 997), rng.randrange(0xe000, 0x110000), rng.randrange(0xd800)])),
             lambda: "".join(rng.choices(emoji, k=rng.randint(1, 7))),
             lambda: chr(rng.choice([*range(32), *range(0x7f, 0xa0), *range(0x200b, 0x2010), 0xfeff, 0xfffd])),
             lambda: rng.choice(" \n\r\t\v0123456789'._-") * rng.choice([1, 2, 3, 4, 50, 300]),
             lambda: "".join(rng.choices(" \n\r\t", k=rng.randint(1, 9))),
             lambda: "".join(rng.choices("0123456789\u0660\u0969\u00b2\u2167\u1369\U0001e4f0", k=rng.randint(1, 9))),
             lambda: "".join(rng.choices("aZ\u00df\u0130\u01c5\u03c3\u0416\u05d0\u0627\u0915\u093f\u0e33\u4e2d\uac01\u3042\U00031350\u0301", k=rng.randint(1, 9))),
             lambda: chr(rng.randrange(0x1cc00, 0x1ceb4)), lambda: chr(rng.randrange(0x1f000, 0x20000)),
             lambda: rng.choice(cases.INSERTED), lambda: rng.choice(["'s", "'LL", "'\u017f", "\u2581", "  x", "://", "\u2019re"])]
    return "".join(rng.choice(kinds)() for _ in range(rng.randint(1, 20))).translate(LATER)


@pytest.mark.parametrize("name", MEGABYTES)
def test_ids_of_nasty_texts(name, shapes, tmp_path):
    rng = random.Random(name)
    compare(tmp_path, shapes[name], [nasty(rng).encode() for _ in range(5000)])


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("fallback", [False, True])
def test_unknown_characters(shapes, tmp_path, fuse, fallback):
    """A vocabulary that lacks characters, and some of the byte tokens."""
    tokenizer = json.loads(json.dumps(shapes["llama2"]))
    tokenizer["model"].update(fuse_unk=fuse, byte_fallback=fallback)
    vocabulary = tokenizer["model"]["vocab"]
    for byte in (0xe4, 0xd8, 0x9f):
        vocabulary[f"lost{byte}"] = vocabulary.pop(f"<0x{byte:02X}>")
    compare(tmp_path, tokenizer, cases.texts(77, 200_000))


# ---- parts ---------------------------------------------------------------------------------------

BYTES = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": False}


@pytest.fixture(scope="module")
def plain():
    """Bytes as tokens; every piece gets a space in front, so that cuts are seen."""
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": BYTES, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {c: i for i, c in enumerate(alphabet)}, "merges": []}}


@pytest.fixture(scope="module")
def characters():
    """All characters and places for them, outside of private planes; of the large blocks of ideographs and syllables every
    sixteenth."""
    large = [(0x3400, 0x9fff), (0xac00, 0xd7a3), (0x12000, 0x13000), (0x14000, 0x16800), (0x17000, 0x18aff),
             (0x20000, 0x31340), (0x32400, 0xdffff)]
    return "".join(chr(c) for c in range(1, 0xe0200) if not 0xd800 <= c < 0xe000 and
                   (c % 16 == 0 or not any(low <= c <= high for low, high in large)))


CLASSES = [r"\s", r"\S+", r"\w+", r"\W", r"\d", r"\h", r"\v", r".", r"a.", r"\p{L}+", r"\p{N}{1,3}",
            r"\p{P}", r"\p{S}", r"\p{M}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}",
            r"\p{Nl}", r"\p{No}", r"\p{Zs}", r"\p{Cf}", r"\p{Han}", r"\p{Hiragana}", r"\p{Greek}",
            r"\p{Common}", r"\p{^Latin}", r"\p{Emoji}", r"[[:space:]]", r"[[:word:]]+",
            r"(?i:'s|k|s)", r"(?i:[a-z])+", r"(?i:\u00e5)", r"(?i:\u03c3)", r"[^\s\p{L}\p{N}]+", r"\R",
            r"[a-z[0-9]]+", r"[\s-]", r"[\u4e00-\u9fff]", r"(?m:a.)", r"(?<=a)b", r"\bA\B|\b\d",
            r"\p{N}{1,3}+", r"\p{Sm}", r"\p{Sc}", r"\p{Sk}", r"\p{So}", r"\p{Mn}", r"\p{Mc}", r"\p{Nd}", r"\p{Pd}", r"\p{Po}", r"\p{Cn}",
            r"\p{Arabic}", r"\p{Extended_Pictographic}", r"[\p{L}&&[^\p{Lo}a-z]]+", r"[^\s[^\p{S}\p{P}]]", r"\P{L}{2}"]
PATTERNS = [r"\s+$", r"^\s*", r"\s+(?!\S)", r"\n?\Z", r"x*", r"(?=b)", r"[^\r\n]{,2}",
            cases.LLAMA3, cases.TEKKEN, cases.POSSESSIVE]


# Of Unicode 15 to 16; older characters of four bytes that are in a category are not always of the script.
STRANGERS = {r"\p{Common}": range(0x10d8e, 0x10d90), r"\p{Arabic}": range(0x10efc, 0x10f00), r"\p{^Latin}": range(0x1e030, 0x1e090)}


def test_patterns_mean_what_they_mean_to_oniguruma(plain, characters, tmp_path):
    mixed = "".join(t.decode(errors="replace") for t in cases.texts(11, 30_000))
    for pattern in CLASSES + PATTERNS:
        split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
                 "invert": False}
        tokenizer = {**plain, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, BYTES]}}
        known = characters.translate(dict.fromkeys(STRANGERS.get(pattern, ())))
        texts = [mixed.encode()] + [known.encode()] * (pattern in CLASSES)
        compare(tmp_path, tokenizer, texts)


def test_normal_forms_of_all_characters(plain, characters, tmp_path):
    text = "\n".join(before + c + after for c in characters.translate(LATER) if c not in "\n\r"
                     for before, after in (("a", "\u0315\u0323"), ("\u0301\u0323", "\u093c")))
    marks = "a" + "\u0301\u0323\u0345\u05b0" * 500
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase"):
        compare(tmp_path, {**plain, "normalizer": {"type": form}}, [text.encode(), marks.encode()])


def splits():
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            for pattern in ({"Regex": r"\s+|,"}, {"String": "a"}, {"String": ""}, {"Regex": "x*"},
                            {"Regex": "(?=b)"}, {"String": "+"}):
                yield {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


OTHERS = [{"type": "Digits", "individual_digits": True}, {"type": "Digits", "individual_digits": False},
          {"type": "Whitespace"}, {"type": "WhitespaceSplit"},
          {"type": "Punctuation", "behavior": "Contiguous"},
          {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always", "split": True},
          {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True},
          {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": False}]
NORMALIZERS = [{"type": "Strip", "strip_left": True, "strip_right": True},
               {"type": "Strip", "strip_left": False, "strip_right": True},
               {"type": "Replace", "pattern": {"Regex": "[aeiou]+"}, "content": "XY"},
               {"type": "Replace", "pattern": {"String": "a"}, "content": ""},
               {"type": "Prepend", "prepend": "ab"}]


def test_every_part(plain, tmp_path):
    texts = [t for t in cases.texts(12, 20_000, typical=300)]
    texts += [b"", b" ", b"ab a+b,x1 b\n a", b"  a", b"a  ", b"aaa", b" \t x \n"]
    for part in [*splits(), *OTHERS]:
        parts = {"type": "Sequence", "pretokenizers": [part, BYTES]}
        compare(tmp_path, {**plain, "pre_tokenizer": parts}, texts)
    for part in NORMALIZERS:
        for first in ([], [OTHERS[6]]):
            parts = {"type": "Sequence", "pretokenizers": [*first, BYTES]}
            compare(tmp_path, {**plain, "normalizer": part, "pre_tokenizer": parts}, texts)
