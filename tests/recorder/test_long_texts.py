# SPDX-License-Identifier: Apache-2.0
"""Texts of more tokens than the model takes: windows, each an example of its own, in every position of
a stop; or cut, or passed over."""
import json
import pathlib
import re

import numpy as np
import pytest

from conftest import on_terminal, read_csv
from recording import (examples_of, files_of, forward, kept_positions, manifest_of, some_texts, table_of,
                       text_id, write_jsonl, write_model)

pytest.importorskip("pyarrow")

WINDOW = 60
LENGTHS = [60, 61, 1, 150, 0, 240]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    return folder, *write_model(folder)


@pytest.fixture
def texts():
    source = some_texts(1, 1000, 1001)[0]
    return [source[i:i + n] for i, n in enumerate(LENGTHS)]


@pytest.fixture
def capture(qkscope, model, tmp_path):
    def run(source, output, *words, expect=0):
        return qkscope("capture", "-m", model[0], "-t", source, "-o", tmp_path / output, "--max-length",
                       WINDOW, "--sampler", "all", *words, expect=expect)
    return run


def windows(texts, room=WINDOW):
    """(number of the text, window, its first token, piece) of every window."""
    return [(i, k, at, text[at:at + room]) for i, text in enumerate(texts)
            for k, at in enumerate(range(0, len(text), room))]


def test_each_window_is_an_example(capture, model, texts, tmp_path):
    source = write_jsonl(tmp_path / "t.jsonl", texts, [f"id {i}" for i in range(len(texts))])
    out = capture(source, "c", "--id-column", "id", "--token-strings").out
    assert "6 texts in 11 windows, 512 tokens" in out
    rows = examples_of(tmp_path / "c")
    expected = windows(texts)
    expected.insert(7, (4, 0, 0, ""))  # the empty text is listed, and is no window
    split = {i for i, text in enumerate(texts) if len(text) > WINDOW}
    names = [f"#{k}" if i in split else "" for i, k, _, _ in expected]
    assert [(r["source"], r["source_id"], int(r["tokens"]), r["truncated"], int(r["window"]),
             int(r["first_token"])) for r in rows] == [
        (f"{source}:{i + 1}{name}", f"id {i}{name}", len(piece), "0", k, at)
        for (i, k, at, piece), name in zip(expected, names)]
    ids = [text_id(f"id {i}") for i, *_ in expected]
    assert [int(r["example_id"]) for r in rows] == [
        text_id(f"{i}{name}") if name else i for i, name in zip(ids, names)]
    assert [int(r["text_id"]) for r in rows] == ids
    counts = manifest_of(tmp_path / "c")["texts"]
    assert counts == {"count": 6, "windows": 11, "tokens": 512, "split": 3, "truncated": 0, "skipped": 0,
                      "empty": 1, "positions_of": "window"}
    assert manifest_of(tmp_path / "c")["run"]["texts"]["long"] == "split"
    card = (tmp_path / "c" / "README.md").read_text()
    assert "6 in 11 windows, 512 tokens" in card and "longer than 60 tokens: 3 split" in card


def test_a_window_is_run_as_a_text_of_its_own(capture, model, texts, tmp_path):
    capture(write_jsonl(tmp_path / "t.jsonl", texts), "c")
    t = table_of(tmp_path / "c", "l03h02q")
    pieces = [piece for *_, piece in windows(texts)]
    assert t["position"] == [p for piece in pieces for p in range(len(piece))]
    ids = [int(r["example_id"]) for r in examples_of(tmp_path / "c") if int(r["tokens"]) > 0]
    assert t["example_id"] == [i for i, piece in zip(ids, pieces) for _ in piece]
    expected = [forward(*model[1:], np.frombuffer(piece.encode(), np.uint8))[3][1][0][2] for piece in pieces]
    assert np.abs(t["vector"] - np.concatenate(expected)).max() < 1e-5


def test_positions_are_drawn_for_each_window(capture, texts, tmp_path):
    capture(write_jsonl(tmp_path / "t.jsonl", texts), "c", "--sampler", "uniform", "--bucket", "4")
    t = table_of(tmp_path / "c", "l01h00k")
    expected = [(int(r["example_id"]), p) for r in examples_of(tmp_path / "c")
                for p in kept_positions(int(r["example_id"]), 1, "k", int(r["tokens"]), bucket=4)]
    assert list(zip(t["example_id"], t["position"])) == expected


@pytest.mark.parametrize("suffix", [[], [254]])
def test_special_tokens_of_each_window(qkscope, model, tmp_path, suffix):
    """As `tokenize` puts them round a text of that piece; they count."""
    folder = tmp_path / "m"
    write_model(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    names = {i: name for name, i in tokenizer["model"]["vocab"].items()}
    special = {names[i]: {"id": names[i], "ids": [i], "tokens": [names[i]]} for i in (255, 254)}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "pair": [], "special_tokens": special,
        "single": [{"SpecialToken": {"id": names[255], "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   *({"SpecialToken": {"id": names[i], "type_id": 0}} for i in suffix)]}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    text = some_texts(1, 100, 101)[0]
    room = 21 - 1 - len(suffix)
    (tmp_path / "t.txt").write_text(text)
    (tmp_path / "p").mkdir()
    for _, k, _, piece in windows([text], room):
        (tmp_path / "p" / f"{k:02d}").write_text(piece)
    for source, output in (("t.txt", "c"), ("p", "d")):
        qkscope("capture", "-m", folder, "-t", tmp_path / source, "-o", tmp_path / output, "--sampler",
                "all", "--token-strings", "--max-length", 21, expect=0)
    whole, pieces = (table_of(tmp_path / c, "l02h01q") for c in "cd")
    assert whole["token_str"] == pieces["token_str"] and whole["position"] == pieces["position"]
    assert (whole["vector"] == pieces["vector"]).all()
    assert whole["token_str"].count(names[255]) == -(-len(text) // room)
    assert [int(r["first_token"]) for r in examples_of(tmp_path / "c")] == list(range(0, len(text), room))
    err = qkscope("capture", "-m", folder, "-t", tmp_path / "t.txt", "-o", tmp_path / "e", "--max-length",
                  1 + len(suffix), expect=2).err
    assert "t.txt" in err and "no room" in err


def test_skipped(capture, texts, tmp_path):
    source = write_jsonl(tmp_path / "t.jsonl", texts)
    err = capture(source, "c", "--long", "skip").err
    assert err.count("more than 60 tokens, passed over") == 3 and "t.jsonl:4: more" in err
    assert [(r["example_id"], r["tokens"]) for r in examples_of(tmp_path / "c")] == [
        ("0", "60"), ("2", "1"), ("4", "0")]
    manifest = manifest_of(tmp_path / "c")
    assert manifest["texts"]["skipped"] == 3 and manifest["texts"]["windows"] == 2
    assert "3 texts were longer than max_length and were passed over" in manifest["warnings"]
    write_jsonl(source, [texts[3]])
    assert "1 of 1 texts have more than 60 tokens" in capture(source, "d", "--long", "skip", expect=1).err
    assert "split, cut" in capture(source, "d", "--long", "wrap", expect=2).err


def test_cut_is_the_first_window(capture, texts, tmp_path):
    source = write_jsonl(tmp_path / "t.jsonl", texts)
    capture(source, "c", "--long", "truncate")  # a synonym, for the same run
    assert "complete" in capture(source, "c", "--long", "cut").out
    capture(source, "d")
    first = [int(r["example_id"]) for r in examples_of(tmp_path / "d")
             if r["window"] == "0" and r["tokens"] != "0"]
    cut, split = (table_of(tmp_path / c, "l00h00q") for c in "cd")
    assert (cut["vector"] == split["vector"][np.isin(split["example_id"], first)]).all()
    assert manifest_of(tmp_path / "c")["texts"]["positions_of"] == "text"


@pytest.mark.parametrize("options", [["--tokens-at-once", 1], ["--tokens-at-once", 100, "--threads", 3]])
def test_groups_may_end_within_a_text(capture, texts, tmp_path, options):
    source = write_jsonl(tmp_path / "t.jsonl", texts)
    capture(source, "c")
    capture(source, "d", *options)
    assert files_of(tmp_path / "c") == files_of(tmp_path / "d")


@pytest.mark.test_all
@pytest.mark.parametrize("options", [["--sampler", "all"], []])
def test_forecast_of_a_text_of_many_windows(program, model, tmp_path, options):
    """The share that is done, with tokens counted before the run and without, in the midst of a text."""
    source = write_jsonl(tmp_path / "t.jsonl", ["".join(some_texts(4000, 225, 226))])
    err = on_terminal([program, "capture", "-m", model[0], "-t", source, "-o", tmp_path / "c", "--layers",
                       0, "--max-length", WINDOW, *options], "stderr")
    told = re.findall(r"(\d+)/(\d+) tokens, \d+ tokens/s", err)
    assert told, err
    for tokens, total in told:
        assert int(tokens) <= int(total) and abs(int(total) - 900_000) < 27_000, told


def numbers_of(qkscope, folder, command, table, *words):
    qkscope(command, folder, "-o", f"{folder}.{command}", "--ci", 95, *words, expect=0)
    return read_csv(pathlib.Path(f"{folder}.{command}") / table)


@pytest.mark.parametrize("keep", ["rows", "rows,attention", "moments,attention"])
def test_windows_of_a_book_are_one_text(capture, qkscope, tmp_path, keep):
    """Nothing is certain of a book, and no interval is over texts."""
    book = some_texts(1, 1000, 1001)[0][:11 * WINDOW]
    capture(write_jsonl(tmp_path / "t.jsonl", [book]), "c", "--keep", keep)
    for command, table in (("pca", "heads.csv"), ("attention", "attention.csv")):
        rows = numbers_of(qkscope, tmp_path / "c", command, table)
        assert {row["texts"] for row in rows} == {1}
        assert all(row[name] is None for row in rows for name in row if name.endswith(("_lo", "_hi")) or "probability" in name)
    assert all(row["r_q_lo"] is None for row in read_csv(tmp_path / "c.pca" / "qk.csv"))


@pytest.mark.parametrize("keep", ["rows", "moments"])
def test_equal_texts_are_one_text(capture, qkscope, tmp_path, keep):
    """Ten texts twice over know what ten texts do."""
    texts = [text[:WINDOW] for text in some_texts(10, WINDOW, WINDOW + 1)]
    for name, times in (("once", 1), ("twice", 2)):
        said = capture(write_jsonl(tmp_path / f"{name}.jsonl", texts * times), name, "--keep", keep).err
        assert ("10 of 20 texts have the tokens of an earlier one (the first is text 10" in said) == (times == 2)
    assert [int(r["text_id"]) for r in examples_of(tmp_path / "twice")] == [*range(10)] * 2
    once, twice = (numbers_of(qkscope, tmp_path / name, "pca", "heads.csv") for name in ("once", "twice"))
    for a, b in zip(once, twice, strict=True):
        assert (a["texts"], b["texts"]) == (10, 10)
        for name in ("category_probability", "r_q_width", "effective_texts"):
            assert b[name] == (a[name] if a[name] is None else pytest.approx(a[name], rel=1e-6, abs=1e-9))
    assert any(row["category_probability"] is not None for row in once)
