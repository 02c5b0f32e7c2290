# SPDX-License-Identifier: Apache-2.0
"""Texts that are made: random tokens, repeated, as a generator that is written here draws them."""
import json

import numpy as np
import pytest

from recording import (M64, byte_letters, examples_of, files_of, forward, manifest_of, table_of, text_id,
                       write_jsonl, write_model)

pytest.importorskip("pyarrow")

BOS, LAST = 7, 9  # letters of the vocabulary that are special tokens here


def splitmix(state):
    state = (state + 0x9e3779b97f4a7c15) & M64
    z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & M64
    z = (z ^ z >> 27) * 0x94d049bb133111eb & M64
    return state, z ^ z >> 31


def drawn(seed, number, count):
    """Endless numbers below `count`: xoshiro256**, of the stream (seed, number)."""
    state, mixed = splitmix(seed)
    state, words = mixed ^ number, []
    for _ in range(4):
        state, word = splitmix(state)
        words.append(word)

    def rotate(x, bits):
        return (x << bits | x >> (64 - bits)) & M64

    while True:
        yield rotate(words[1] * 5 & M64, 7) * 9 % 2 ** 64 % count
        t = words[1] << 17 & M64
        words[2] ^= words[0]
        words[3] ^= words[1]
        words[1] ^= words[2]
        words[0] ^= words[3]
        words[2] ^= t
        words[3] = rotate(words[3], 45)


def text_of(length, times, number, seed=1, vocabulary=range(256)):
    stream = drawn(seed, number, len(vocabulary))
    return [vocabulary[next(stream)] for _ in range(length)] * times


def add_specials(folder):
    """A token before each text and one behind it."""
    path = folder / "tokenizer.json"
    told = json.loads(path.read_text())
    names = {token: name for name, token in told["model"]["vocab"].items()}
    told["added_tokens"] = [{"id": i, "content": names[i], "single_word": False, "lstrip": False, "rstrip": False,
                             "normalized": False, "special": True} for i in (BOS, LAST, 65)]
    told["post_processor"] = {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": "<", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": ">", "type_id": 0}}],
        "special_tokens": {"<": {"id": "<", "ids": [BOS], "tokens": [names[BOS]]},
                           ">": {"id": ">", "ids": [LAST], "tokens": [names[LAST]]}}}
    path.write_text(json.dumps(told))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    return folder, *write_model(folder)


@pytest.fixture(scope="module")
def with_specials(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "special"
    write_model(folder)
    add_specials(folder)
    return folder


@pytest.fixture
def capture(qkscope, tmp_path):
    def run(model, output, *words, expect=0):
        return qkscope("capture", "-m", model, "-o", tmp_path / output, "--sampler", "all", "--token-strings", "-q",
                       *words, expect=expect)
    return run


def tokens_of(folder):
    """Of each example, by its id."""
    ids = {letter: byte for byte, letter in byte_letters().items()}
    rows = table_of(folder, "l00h00q")
    found = {}
    for example, position, string in zip(rows["example_id"], rows["position"], rows["token_str"]):
        found.setdefault(example, {})[position] = ids[string]
    return {example: [by[p] for p in sorted(by)] for example, by in found.items()}


def test_tokens(capture, model, tmp_path):
    folder, config, weights = model
    capture(folder, "c", "-t", "repeat:12x3:5:42")
    examples = examples_of(tmp_path / "c")
    assert [(e["source"], e["source_id"], e["tokens"]) for e in examples] == [
        ("repeat:12x3:5:42", str(i), "36") for i in range(5)]
    assert [int(e["example_id"]) for e in examples] == [text_id(f"repeat:12x3:5:42#{i}") for i in range(5)]
    found = tokens_of(tmp_path / "c")
    for i, example in enumerate(examples):
        assert found[int(example["example_id"])] == text_of(12, 3, i, seed=42)
    rows = table_of(tmp_path / "c", "l01h01k")
    wanted = forward(config, weights, text_of(12, 3, 0, seed=42))[1][1][1][1]
    mine = np.array(rows["example_id"]) == int(examples[0]["example_id"])
    np.testing.assert_allclose(rows["vector"][mine], wanted, atol=1e-4 * np.abs(wanted).max())


def test_usual_count_and_seed(capture, model, tmp_path):
    capture(model[0], "short", "-t", "repeat:8x2")
    capture(model[0], "long", "-t", "repeat:8x2:8:1")
    assert len(examples_of(tmp_path / "short")) == 8
    short, long = files_of(tmp_path / "short"), files_of(tmp_path / "long")
    assert {n: b for n, b in short.items() if n != "README.md"} == {n: b for n, b in long.items() if n != "README.md"}
    capture(model[0], "short", "-t", "repeat:8x2:8:1")  # complete already
    capture(model[0], "short", "-t", "repeat:8x2:8:2", expect=1)
    hashes = {manifest_of(tmp_path / name)["run"]["texts"]["xxh3_128"] for name in ("short", "long")}
    assert len(hashes) == 1


def test_special_tokens(capture, with_specials, tmp_path):
    """They are put round a text, as round any, and are none of its own."""
    capture(with_specials, "c", "-t", "repeat:100x2:1")
    tokens, = tokens_of(tmp_path / "c").values()
    ordinary = [i for i in range(256) if i not in (BOS, LAST, 65)]
    assert tokens == [BOS, *text_of(100, 2, 0, vocabulary=ordinary), LAST]
    assert len(set(tokens)) > 60


def test_long_ones(capture, with_specials, tmp_path):
    ordinary = [i for i in range(256) if i not in (BOS, LAST, 65)]
    own = text_of(20, 2, 1, vocabulary=ordinary)
    capture(with_specials, "split", "-t", "repeat:20x2:2", "--max-length", 32)
    examples = examples_of(tmp_path / "split")
    assert [(e["source"], e["source_id"], e["tokens"]) for e in examples[2:]] == [
        ("repeat:20x2:2:1#0", "1#0", "32"), ("repeat:20x2:2:1#1", "1#1", "12")]
    found = tokens_of(tmp_path / "split")
    assert [found[int(e["example_id"])] for e in examples[2:]] == [[BOS, *own[:30], LAST], [BOS, *own[30:], LAST]]
    capture(with_specials, "cut", "-t", "repeat:20x2:2", "--max-length", 32, "--long", "cut")
    assert list(tokens_of(tmp_path / "cut").values())[1] == [BOS, *own[:30], LAST]


def test_without_tokenizer(capture, tmp_path, model):
    folder = tmp_path / "bare"
    write_model(folder)
    (folder / "tokenizer.json").unlink()
    capture(folder, "c", "-t", "repeat:6x2:2")
    capture(model[0], "whole", "-t", "repeat:6x2:2")
    bare, whole = (table_of(tmp_path / name, "l01h00q")["vector"] for name in ("c", "whole"))
    np.testing.assert_array_equal(bare, whole)
    said = capture(folder, "d", "-t", "repeat:6x2:2", "-t", write_jsonl(tmp_path / "t.jsonl", ["a"]), expect=1).err
    assert "no tokenizer.json" in said


@pytest.mark.cases(13)
@pytest.mark.parametrize("source, said", [
    ("repeat:", "LENGTH is not a whole number from 1 to 16777216"),
    ("repeat:0x2", "LENGTH is not a whole number"),
    ("repeat:-4x2", "LENGTH is not a whole number"),
    ("repeat:4", "there is no TIMES"),
    ("repeat:4y2", '"y2" is not understood'),
    ("repeat:4x", "TIMES is not a whole number"),
    ("repeat:4x2.5", '".5" is not understood'),
    ("repeat:4x2:0", "COUNT is not a whole number from 1 to 1000000"),
    ("repeat:4x2:", "COUNT is not a whole number"),
    ("repeat:4x2:3:-1", "SEED is not a whole number"),
    ("repeat:4x2:3:99999999999999999999", "SEED is not a whole number"),
    ("repeat:4x2:3:1:1", '":1" is not understood'),
    ("repeat:16777216x17", "a text has at most 268435456 tokens"),
])
def test_bad_ones(capture, model, tmp_path, source, said):
    told = capture(model[0], "c", "-t", source, expect=2).err
    assert f"{source}: {said}" in told
    assert "268435456" in told or "repeat:LENGTHxTIMES[:COUNT[:SEED]]" in told
    assert not (tmp_path / "c").exists()
