# SPDX-License-Identifier: Apache-2.0
"""Mixed texts, small tokenizers of the shapes that known models have, and what ours makes of them, for
the comparison with Hugging Face's tokenizers, which only those that are trained here need."""
import array
import collections
import json
import random
import struct
import subprocess

from conftest import BUILD, check_survived

# ---- texts -------------------------------------------------------------------------------------

COMMON = ("the of and to in a is that for it as was with be by on not he his but at are this have "
          "from or had an they which one you were her all she there would their we him been has "
          "when who will more no if out so said what up its about into than them can only other "
          "new some could time these two may then do first any my now such like our over man me "
          "even most made after also did many before must through back years where much your way "
          "well down should because each just those people how too little state good very make "
          "world still own see men work long get here between both life being under never day "
          "same another know while last might us great old year off come since against go came "
          "right used take three").split()
CODE = ("def f(x):\n    return x**2 + 1\n", "for (int i = 0; i < n; i++) {\n\t\ta[i] += b[i];\n}\n",
        "#include <stdio.h>\r\n", "if (x != NULL && *x >= 0x1F) goto end;\n", "λ x → x\n",
        "SELECT * FROM t WHERE id = 42;\n", "{\"key\": [1, 2.5e-3, null]}\n", "// TODO: fix\n\n\n",
        "class Foo(Bar):\n    \"\"\"Doc.\"\"\"\n\n    def __init__(self):\n        pass\n",
        "https://example.org/a?b=c&d=%20#e", "$ ls -la | grep '^d' > out.txt\n", "\\frac{a}{b}",
        "camelCaseName", "snake_case_name", "SHOUTING_CASE", "XMLHttpRequest2", "a->b::c<d>()")
SPACES = [" ", "  ", "\t", "\n", "\r\n", "\n\n", " \n", "\n ", "\r", "\v", "\f", "\x85", "\xa0",
          "\u1680", "\u180e", "\u2000", "\u2003", "\u200a", "\u200b", "\u2028", "\u2029", "\u202f",
          "\u205f", "\u3000", "\ufeff"]
ODD = ("'s 't 're 've 'm 'll 'd 'S 'T 'RE 'VE 'M 'LL 'D '\u017f \u212a \u212b \u0130 \u0131 \u1e9e "
       "\u01c5 \u01c4 \ufb01 \ufb06 \u00bd \u00b2 \u2167 \u2460 \u24b6 \U0001f130 \u3007 \uff11\uff12 "
       "\uff21 \u0e33 \ufdfa \u1100\u1161\u11a8 \uac01 \u00aa \u02b0 \u0345 \u05f3 \u200c \u200d "
       "\u2581 \u2581\u2581a \u00b7 _ __a \u203f \ufe33 \u0660\u0661 \u0966 \u0bf0 \U00010140 "
       "\u2126 \u1e0b\u0323 q\u0307\u0323 \u1100\u1161 \u11a8 \U0001d15e \u0958 \u2add").split(" ")
EMOJI = ["\U0001f600", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
         "\u2764\ufe0f", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3", "\U0001f3f4\u200d\u2620\ufe0f",
         "\u00a9\ufe0f", "\U0001f9d1\U0001f3ff\u200d\U0001f680"]


def _word(rng, letters, marks="", low=1, high=8):
    word = ""
    for _ in range(rng.randint(low, high)):
        word += rng.choice(letters)
        if marks and rng.random() < 0.35:
            word += rng.choice(marks)
    return word


def _letters(first, last):
    return "".join(map(chr, range(first, last + 1)))


def _pools(rng):
    """Lists of fragments, each of a kind of its own."""
    latin = [_word(rng, "etaoinshrdlucmfwypvbgkqjxz", low=3, high=9) for _ in range(2000)]
    han = _letters(0x4e00, 0x4fff) + _letters(0x6211, 0x62ff)
    words = COMMON * 8 + latin
    pools = {
        "english": [rng.choice([w, w.capitalize(), w.upper()] if rng.random() < .2 else [w]) +
                    rng.choice([" "] * 12 + [", ", ". ", "; ", "? ", "!\n", " (", ") ", "\u2014",
                                             "\u2019s ", "'s ", "n't ", "'LL "]) for w in words],
        "chinese": [_word(rng, han, high=12) + rng.choice("\u3002\uff0c\u3001 \n\uff1f")
                    for _ in range(500)],
        "japanese": [_word(rng, _letters(0x3041, 0x3093) + _letters(0x30a1, 0x30f4))
                     for _ in range(300)],
        "korean": [_word(rng, _letters(0xac00, 0xaf00), high=5) + " " for _ in range(300)],
        "arabic": [_word(rng, _letters(0x0627, 0x063a), _letters(0x064b, 0x0652)) + " "
                   for _ in range(300)],
        "hebrew": ["\u202b" + _word(rng, _letters(0x05d0, 0x05ea), "\u05b0\u05b7\u05bc") + "\u202c "
                   for _ in range(200)],
        "hindi": [_word(rng, _letters(0x0915, 0x0939), "\u093e\u093f\u0940\u094d\u0902\u093c") + " "
                  for _ in range(300)],
        "thai": [_word(rng, _letters(0x0e01, 0x0e2e), "\u0e31\u0e34\u0e48\u0e49\u0e33", high=14)
                 for _ in range(300)],
        "cyrillic": [_word(rng, _letters(0x0430, 0x044f)).title() + " " for _ in range(300)],
        "greek": [_word(rng, _letters(0x03b1, 0x03c9), "\u0301\u0308") + " " for _ in range(200)],
        "vietnamese": [_word(rng, "aeiouydnth\u0103\u00e2\u00ea\u00f4\u01a1\u01b0\u0111",
                             "\u0300\u0301\u0303\u0309\u0323") + " " for _ in range(300)],
        "code": list(CODE),
        "digits": [str(rng.randrange(10 ** rng.randint(1, 12))) + rng.choice(" ,.%\n")
                   for _ in range(300)],
        "spaces": [rng.choice(SPACES) * rng.choice([1, 1, 2, 3, 7, 40]) for _ in range(300)],
        "emoji": EMOJI,
        "odd": ODD,
        "marks": [rng.choice("ae\u4e2d ") + _word(rng, _letters(0x0300, 0x036f), high=20)
                  for _ in range(100)],
        "private": [_word(rng, _letters(0xe000, 0xe0ff) + "\U000f0000\U00100001") for _ in range(50)],
        "signs": [_word(rng, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~\u00a7\u20ac\u2192\u2260", high=6)
                  for _ in range(300)],
        "control": [_word(rng, _letters(1, 31) + "\x7f\x80\x9f", high=3) for _ in range(100)],
        "nul": ["\0"],
    }
    weights = {"english": 400, "code": 30, "chinese": 30, "spaces": 30, "nul": 1, "private": 2,
               "control": 3, "marks": 2}
    return [(pool, weights.get(name, 10)) for name, pool in pools.items()]


def _broken(rng, data):
    """Some bytes of the text replaced by others, which need not be UTF-8."""
    data = bytearray(data)
    for _ in range(max(1, len(data) // 200)):
        data[rng.randrange(len(data))] = rng.randrange(128, 256)
    return bytes(data)


def texts(seed, size, typical=4000, inserted=()):
    """Texts as bytes, `size` in all; `inserted` are mixed in now and then."""
    rng = random.Random(seed)
    pools = _pools(rng)
    kinds, weights = zip(*pools)
    out, total = [], 0
    while total < size:
        wanted = min(typical * rng.choice([0, 1, 1, 1, 5]), size - total) + rng.randint(0, 50)
        text, length = [], 0
        while length < wanted:
            if inserted and rng.random() < 0.02:
                text.append(rng.choice(inserted))
            pool = rng.choices(kinds, weights)[0]
            run = rng.choices(pool, k=rng.randint(1, 30))
            text += run
            length += sum(map(len, run))
        data = "".join(text).encode()
        if data and rng.random() < 0.1:
            data = _broken(rng, data)
        out.append(data)
        total += len(data)
    return out


# ---- tokenizers --------------------------------------------------------------------------------

PRINTABLE = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
OTHERS = [b for b in range(256) if b not in PRINTABLE]
LETTERS = [chr(b if b in PRINTABLE else 256 + OTHERS.index(b)) for b in range(256)]  # by which byte-level tokenizers write bytes
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
          r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
POSSESSIVE = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
              r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s")


def added(content, id, special=True, normalized=None, **flags):
    normalized = not special if normalized is None else normalized
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": normalized, "special": special, **flags}


def template(tokens):
    """A TemplateProcessing that puts the (content, id) of tokens before the text."""
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": t, "type_id": 0}} for t, _ in tokens] +
                      [{"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {t: {"id": t, "ids": [i], "tokens": [t]} for t, i in tokens}}


def byte_level():
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def split_bytes(pattern):
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [split, {**byte_level(), "use_regex": False}]}


def trained_bytes(corpus, pattern, vocab=3000):
    """A byte-level vocabulary with merges, as the dictionary of its tokenizer.json."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=vocab, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(corpus, trainer)
    return json.loads(tokenizer.to_str())


def trained_pieces(corpus, vocab=3000, alphabet=600):
    """A vocabulary with marked spaces and byte tokens, of the commonest characters and U+0000."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    counts = collections.Counter(c for text in corpus for c in text)
    kept = sorted(counts, key=lambda c: (-counts[c], c))[:alphabet]
    rare = {ord(c): None for c in counts if c not in set(kept) | {"\0"}}
    corpus = [text.translate(rare) for text in corpus]
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=vocab, show_progress=False,
                                  special_tokens=["<pad>", "<eos>", "<bos>", "<unk>", *bytes_])
    tokenizer.train_from_iterator(corpus, trainer)
    made = json.loads(tokenizer.to_str())
    made["added_tokens"] = made["added_tokens"][:4]
    made["model"].update(byte_fallback=True, fuse_unk=True)
    made["pre_tokenizer"] = None
    return made


def shapes(seed=5, size=400_000):
    """{name: tokenizer.json as a dictionary}"""
    corpus = [t.decode(errors="replace") for t in texts(seed, size)]
    made, bytes3 = {}, trained_bytes(corpus, LLAMA3)
    n = len(bytes3["model"]["vocab"])

    def variant(base, **changes):
        copy = json.loads(json.dumps(base))
        model = changes.pop("model", {})
        copy.update(changes)
        copy["model"].update(model)
        return copy

    bos, end = "<|begin_of_text|>", "<|end_of_text|>"
    made["llama3"] = variant(
        bytes3, model={"ignore_merges": True}, added_tokens=[added(bos, n), added(end, n + 1)],
        post_processor={"type": "Sequence", "processors": [byte_level(), template([(bos, n)])]})
    made["qwen2"] = variant(
        bytes3, normalizer={"type": "NFC"}, pre_tokenizer=split_bytes(QWEN2),
        added_tokens=[added("<|endoftext|>", n), added("<|im_start|>", n + 1),
                      added("<think>", n + 2, special=False, normalized=False)],
        post_processor=byte_level(),
        model={"continuing_subword_prefix": "", "end_of_word_suffix": ""})
    made["qwen3.5"] = variant(bytes3, normalizer={"type": "NFC"}, pre_tokenizer=split_bytes(QWEN35))
    made["smollm"] = variant(
        bytes3, pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level()]},
        added_tokens=[added("<|endoftext|>", n), added("<repo_name>", n + 1)])
    tekken = trained_bytes(corpus, TEKKEN)
    made["tekken"] = variant(
        tekken, model={"ignore_merges": True},
        post_processor=template([("the", tekken["model"]["vocab"]["the"])]))
    made["glm4"] = variant(
        bytes3, pre_tokenizer=split_bytes(POSSESSIVE),
        added_tokens=[added("[gMASK]", n), added("<sop>", n + 1), added("<|user|>", n + 2)],
        post_processor={"type": "Sequence", "processors": [
            byte_level(), template([("[gMASK]", n), ("<sop>", n + 1)])]})
    pieces = trained_pieces(corpus)
    m = len(pieces["model"]["vocab"])
    marked = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    made["gemma"] = variant(
        pieces, normalizer=marked, post_processor=template([("<bos>", 2)]),
        pre_tokenizer={"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                       "invert": False},
        added_tokens=pieces["added_tokens"] + [added("\n\n", m, False, False),
                                               added("<image>", m + 1),
                                               added("\u2581\u2581", m + 2, False, False)])
    made["gemma"]["model"]["vocab"].update({"\n\n": m, "<image>": m + 1, "\u2581\u2581": m + 2})
    made["mistral0.2"] = variant(
        pieces, post_processor=template([("<bos>", 2)]),
        normalizer={"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"},
                                                        marked]})
    made["llama2"] = variant(
        pieces, pre_tokenizer={"type": "Metaspace", "replacement": "\u2581",
                               "prepend_scheme": "first", "split": False})
    made["flags"] = variant(
        bytes3, normalizer={"type": "Sequence", "normalizers": [{"type": "Lowercase"},
                                                                {"type": "NFKC"}]},
        added_tokens=[added("<l>", n, lstrip=True), added("<r>", n + 1, rstrip=True),
                      added("<lr>", n + 2, lstrip=True, rstrip=True),
                      added("zebra", n + 3, single_word=True),
                      added("WORLD", n + 4, special=False), added("Abx", n + 5, special=False),
                      added("ab cd", n + 6, special=False), added("<lr><l>", n + 7)])
    return made


INSERTED = ["<|begin_of_text|>", "<|end_of_text|>", "<|endoftext|>", "<|im_start|>", "<think>",
            "<repo_name>", "[gMASK]", "<sop>", "<|user|>", "<bos>", "<unk>", "<image>", " <l> ",
            "  <r>  ", " \n<lr>\u3000 ", "<lr><l>", "<lr> <l>", "zebra", "azebra", "zebra.", "\u0301zebra",
            "World", "wORLD", "aBX", "AB CD", "ab cd", "Zebra", "<|im_start|", "<0x41>", "\n\n", "\n\n\n"]


# ---- ours --------------------------------------------------------------------------------------

def ids_of(folder, path, texts, *options):
    """What the tokenizer at `path` makes of each text (bytes); a message instead when that fails."""
    packed, out = folder / "texts", folder / "ids"
    packed.write_bytes(b"".join(struct.pack("<I", len(t)) + t for t in texts))
    run = subprocess.run([BUILD / "tests" / "tokenizer" / "tokenize_texts", path, packed, out,
                          *map(str, options)], capture_output=True, text=True)
    check_survived(run.returncode, run.stderr)
    if run.returncode != 0:
        return run.stderr
    numbers = array.array("i", out.read_bytes())
    ids, at = [], 0
    while at < len(numbers):
        ids.append(list(numbers[at + 1:at + 1 + numbers[at]]))
        at += 1 + numbers[at]
    return ids


def compare(folder, path, theirs, texts):
    """The ids of the tokenizer at `path` are those of one of the package."""
    wanted = theirs.encode_batch_fast([t.decode(errors="replace") for t in texts])
    got = ids_of(folder, path, texts)
    assert not isinstance(got, str), got
    for text, mine, yours in zip(texts, got, wanted, strict=True):
        at = next((i for i, (a, b) in enumerate(zip(mine, yours.ids)) if a != b), 0)
        assert mine == yours.ids, f"{text[:200]!r}...: token {at}: {mine[at - 3:at + 5]}, not {yours.ids[at - 3:at + 5]}"
