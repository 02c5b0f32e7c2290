# SPDX-License-Identifier: Apache-2.0
"""Tokenizers from the metadata of GGUF files: the ids that `tokenizers` gives with the published
pre-tokenizers, and those of SentencePiece's own rule."""
import json
import random
import sys

import numpy as np
import pytest

import tokenizer_cases as cases
from conftest import ROOT

sys.path += [str(ROOT / "tests" / "prefill"), str(ROOT / "tests" / "model")]
from gguf_files import Writer  # noqa: E402
from prefill_runs import GOLDEN, prefill, read_tensors  # noqa: E402

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
MARK = "\u2581"


def write_vocabulary(path, model, tokens, types, arch="llama", change=None, **keys):
    """A file with nothing but a tokenizer."""
    writer = Writer(arch)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    if types:
        writer.add_token_types(types)
    for name, value in keys.items():
        getattr(writer, "add_" + name)(value)
    writer.keys = {key: value for key, value in (writer.keys | (change or {})).items() if value is not None}
    writer.write(path)
    return path


def by_id(shape):
    """Tokens and kinds of a tokenizer.json, places between them filled as the converter does."""
    vocabulary = {**shape["model"]["vocab"], **{t["content"]: t["id"] for t in shape["added_tokens"]}}
    kinds = {t["content"]: CONTROL if t["special"] else USER for t in shape["added_tokens"]}
    names = {i: text for text, i in vocabulary.items()}
    tokens = [names.get(i, f"[PAD{i}]") for i in range(max(names) + 5)]
    return tokens, [kinds.get(text, NORMAL) if i in names else UNUSED for i, text in enumerate(tokens)]


def theirs_of(shape):
    return pytest.importorskip("tokenizers").Tokenizer.from_str(json.dumps(shape))


@pytest.fixture(scope="module")
def shapes():
    pytest.importorskip("tokenizers")
    made = cases.shapes()
    plain = json.loads(json.dumps(made["smollm"]))
    plain["pre_tokenizer"] = cases.byte_level()
    made["gpt2"] = plain
    made["glm4"]["pre_tokenizer"] = cases.split_bytes(cases.LLAMA3)
    made["glm4"]["post_processor"] = None
    made["tekken"]["post_processor"] = None
    return made


# ---- byte-level BPE --------------------------------------------------------------------------------

PRE = {"llama-bpe": "llama3", "llama-v3": "llama3", "qwen2": "qwen2", "smollm": "smollm",
       "starcoder": "smollm", "refact": "smollm", "tekken": "tekken", "chatglm-bpe": "glm4",
       "glm4": "glm4", "gpt-2": "gpt2"}


@pytest.mark.test_all
@pytest.mark.parametrize("pre", PRE)
def test_byte_level(pre, shapes, tmp_path):
    shape = json.loads(json.dumps(shapes[PRE[pre]]))
    for token in shape["added_tokens"]:
        token["normalized"] = False
    tokens, types = by_id(shape)
    bos = shape["added_tokens"][0]["id"] if PRE[pre] == "llama3" else None
    keys = {"bos_token_id": bos} if bos else {"add_bos_token": False}
    path = write_vocabulary(tmp_path / "v.gguf", "gpt2", tokens, types, tokenizer_pre=pre,
                            token_merges=[m if isinstance(m, str) else " ".join(m)
                                          for m in shape["model"]["merges"]], **keys)
    theirs = theirs_of(shape)
    texts = cases.texts(len(pre), 300_000, inserted=cases.INSERTED)
    cases.compare(tmp_path, path, theirs, [b"", b" ", b"\n", *texts])


def small_vocabulary(path, **changes):
    """Bytes alone."""
    tokens = sorted(cases.LETTERS) + ["ab", "<s>", "</s>"]
    keys = dict(tokenizer_pre="gpt-2", token_merges=["a b"], bos_token_id=257, eos_token_id=258)
    types = [NORMAL] * 257 + [CONTROL] * 2
    change = changes.pop("change", None)
    return write_vocabulary(path, "gpt2", tokens, types, change=change, **{**keys, **changes})


@pytest.mark.cases(4)
@pytest.mark.parametrize("bos,eos", [(False, False), (True, False), (False, True), (True, True)])
def test_special_tokens(bos, eos, tmp_path):
    path = small_vocabulary(tmp_path / "v.gguf", add_bos_token=bos, add_eos_token=eos)
    assert cases.ids_of(tmp_path, path, [b"ab"]) == [[257] * bos + [256] + [258] * eos]


@pytest.mark.cases(21)
@pytest.mark.parametrize("key,change,words", [
    ("tokenizer.ggml.model", None, ["missing", "--tokenizer"]),
    ("tokenizer.ggml.model", "t5", ['"t5"', "gpt2 and llama", "--tokenizer"]),
    ("tokenizer.ggml.pre", None, ["--tokenizer"]),
    ("tokenizer.ggml.pre", "default", ['"default"', "--tokenizer"]),
    ("tokenizer.ggml.pre", 1, ["expected a text, found 1"]),
    ("tokenizer.ggml.tokens", None, ["missing", "--tokenizer"]),
    ("tokenizer.ggml.tokens", "a", ["list"]),
    ("tokenizer.ggml.tokens", ["a", "a"], ["item 1", "twice"]),
    ("tokenizer.ggml.tokens", [1, 2], ["item 0", "string"]),
    ("tokenizer.ggml.token_type", [1, 2], ["list of at least 259"]),
    ("tokenizer.ggml.merges", None, ["missing"]),
    ("tokenizer.ggml.merges", "a b", ["list"]),
    ("tokenizer.ggml.merges", ["a b c"], ["merges[0]"]),
    ("tokenizer.ggml.merges", ["a zzz"], ["merges[0]", "zzz"]),
    ("tokenizer.ggml.bos_token_id", None, ["missing"]),
    ("tokenizer.ggml.bos_token_id", 259, ["0 to 258"]),
    ("tokenizer.ggml.add_bos_token", 1, ["true or false"]),
])
def test_refused(key, change, words, tmp_path):
    path = small_vocabulary(tmp_path / "v.gguf", add_bos_token=True, change={key: change})
    message = cases.ids_of(tmp_path, path, [b"a"])
    assert isinstance(message, str), message
    for word in ("v.gguf", key.removeprefix("tokenizer.ggml.").split("_")[0], *words):
        assert word in message, message
    assert message.count("--tokenizer") == ("merges[0]" not in message), message  # they are of the tokenizer that it became


# ---- pieces with scores ------------------------------------------------------------------------------

def merges_of(vocabulary, rank):
    """As transformers makes them of a vocabulary: best union first, then the longest left half."""
    found = []
    for i, piece in enumerate(vocabulary):
        pairs = [(piece[:n], piece[n:]) for n in range(1, len(piece))]
        found += [(rank[piece], len(a), len(b), -i, a, b) for a, b in pairs
                  if a in vocabulary and b in vocabulary]
    return [list(item[4:]) for item in sorted(found, key=lambda item: item[:4], reverse=True)]


def join(text, tokens, scores):
    """SentencePiece: the two neighbours whose union has the best score, the first of equals."""
    ids = dict(zip(tokens, range(len(tokens))))
    parts = list(text)
    while True:
        found = [(-scores[ids[a + b]], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ids]
        if not found:
            break
        i = min(found)[1]
        parts[i:i + 2] = [parts[i] + parts[i + 1]]
    return [i for part in parts
            for i in ([ids[part]] if part in ids else [ids[f"<0x{b:02X}>"] for b in part.encode()])]


@pytest.mark.parametrize("prefix", [True, False])
def test_pieces_by_the_rule_itself(prefix, tmp_path):
    """Of letters and 200 unions of pieces before them; other characters are bytes."""
    rng = random.Random(2)
    pieces = [*"abcd", MARK]
    while len(pieces) < 205:
        union = rng.choice(pieces) + rng.choice(pieces)
        pieces += [union] * (union not in pieces and len(union) < 10)
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{b:02X}>" for b in range(256)], *rng.sample(pieces, len(pieces))]
    scores = [0.0] * 259 + [-float(i) for i in range(len(tokens) - 259)]
    path = write_vocabulary(tmp_path / "v.gguf", "llama", tokens, [UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * 205,
                            token_scores=scores, bos_token_id=1, unk_token_id=0, add_space_prefix=prefix)
    texts = ["".join(rng.choices("abcd \u00e9\u4e2d", (9, 6, 4, 3, 3, 1, 1), k=rng.randrange(1, 60))) for _ in range(300)]
    for text, ids in zip(texts, cases.ids_of(tmp_path, path, [t.encode() for t in texts]), strict=True):
        assert ids == [1, *join(MARK * prefix + text.replace(" ", MARK), tokens, scores)], text


@pytest.mark.test_all
def test_gemma(shapes, tmp_path):
    """Ranked by their order, runs of blanks among the pieces; no blank in front."""
    shape = json.loads(json.dumps(shapes["gemma"]))
    base = sorted(shape["model"]["vocab"], key=shape["model"]["vocab"].get)
    tokens = base[:260] + ["\n\n", MARK * 2, MARK * 3] + [t for t in base[260:] if t not in
                                                          ("\n\n", MARK * 2, MARK * 3)]
    stored = [" " * len(t) if t and not t.strip(MARK) and len(t) > 1 else t for t in tokens]
    types = [CONTROL] * 3 + [UNKNOWN] + [BYTE] * 256 + [USER] * 3 + [NORMAL] * (len(tokens) - 263)
    path = write_vocabulary(tmp_path / "v.gguf", "llama", stored, types, arch="gemma3", bos_token_id=2,
                            token_scores=[-1000.0] * len(tokens), unk_token_id=3, add_space_prefix=False)
    ids = dict(zip(tokens, range(len(tokens))))
    shape["model"].update(vocab=ids, merges=merges_of(ids, {t: -i for t, i in ids.items()}))
    shape["added_tokens"] = [cases.added(t, ids[t], special=t != "\n\n", normalized=False)
                             for t in (*base[:4], "\n\n")]
    theirs = theirs_of(shape)
    cases.compare(tmp_path, path, theirs, [b"", b" ", b"a   b\n\n\nc", *cases.texts(3, 300_000, inserted=cases.INSERTED)])


@pytest.mark.cases(8)
@pytest.mark.parametrize("key,change,words", [
    ("tokenizer.ggml.scores", None, ["missing"]),
    ("tokenizer.ggml.scores", [1.0], ["list of at least"]),
    ("tokenizer.ggml.scores", [float("nan")] * 262, ["item 0", "finite"]),
    ("tokenizer.ggml.unknown_token_id", 262, ["0 to 261"]),
    ("tokenizer.ggml.remove_extra_whitespaces", True, ["not known"]),
    ("tokenizer.ggml.precompiled_charsmap", [1, 2], ["not known"]),
    ("tokenizer.ggml.add_space_prefix", "yes", ["true or false"]),
])
def test_pieces_refused(key, change, words, tmp_path):
    tokens = ["<unk>", "<s>", "</s>", *[f"<0x{b:02X}>" for b in range(256)], "a", "b", "ab"]
    path = write_vocabulary(tmp_path / "v.gguf", "llama", tokens, [CONTROL] * 3 + [BYTE] * 256 + [NORMAL] * 3,
                            token_scores=[0.0] * 262, change={key: change})
    message = cases.ids_of(tmp_path, path, [b"a"])
    assert isinstance(message, str), message
    for word in ("v.gguf", key, *words):
        assert word in message, message


# ---- a published file ----------------------------------------------------------------------------------

@pytest.mark.test_all
def test_published_tokenizer(smollm, tmp_path):
    """1 MB of text."""
    gguf, tokenizers = pytest.importorskip("gguf"), pytest.importorskip("tokenizers")
    fields = gguf.GGUFReader(smollm).fields
    tokens, merges, types = (fields["tokenizer.ggml." + key].contents() for key in
                             ("tokens", "merges", "token_type"))
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(
        dict(zip(tokens, range(len(tokens)))), [tuple(m.split(" ")) for m in merges]))
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    special = [token for token, kind in zip(tokens, types) if kind == CONTROL]
    theirs.add_special_tokens([tokenizers.AddedToken(t, normalized=False) for t in special])
    cases.compare(tmp_path, smollm, theirs, cases.texts(42, 1_000_000, inserted=special))


@pytest.mark.test_all
def test_published_model(smollm, tmp_path):
    """Queries and keys of five layers against transformers (tools/make_gguf_golden.py)."""
    golden = read_tensors(GOLDEN.parent / "smollm2.golden")
    values = prefill(smollm, [golden["input_ids"]], tmp_path)
    compared = 0
    for name, expected in golden.items():
        if name in ("input_ids", "rows"):
            continue
        layer, kind = name.split(".")
        rows = values[int(layer), kind, True, 0][1][golden["rows"]]
        difference = np.abs(rows - expected.astype(float)).max()
        assert difference < 5e-6 * np.abs(expected).max(), (name, difference)
        compared += 1
    assert compared == 10
