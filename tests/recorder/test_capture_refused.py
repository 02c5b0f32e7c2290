# SPDX-License-Identifier: Apache-2.0
"""Texts, folders and settings that no capture can be made of: what is said, and that nothing is left
that looks like a capture."""
import json
import os
import shutil

import pytest

from conftest import head_names
from recording import examples_of, files_of, killed, manifest_of, some_texts, write_jsonl, write_model


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_model(folder)
    return folder


@pytest.fixture
def capture(qkscope, model, tmp_path):
    """capture(words..., code, words of the message) into c; returns its outcome."""
    def run(*words, expect=0, says=(), model=model, output="c"):
        outcome = qkscope("capture", "-m", model, "-o", tmp_path / output, "--sampler", "all", *words,
                          expect=expect)
        for word in says:
            assert word in outcome.err, outcome.err
        if expect != 0:
            assert not (tmp_path / output / "capture.json").exists()
            assert qkscope("inspect", tmp_path / output).code != 0
        return outcome
    return run


def test_parts_of_texts(capture, tmp_path):
    """A folder of texts is whole; a file that is named is all that was meant."""
    texts = tmp_path / "t"
    texts.mkdir()
    for i in (0, 2):
        write_jsonl(texts / f"train-0000{i}-of-00003.jsonl", some_texts(2))
    write_jsonl(texts / "test-00000-of-00001.jsonl", some_texts(1))
    capture(texts, expect=1, says=[str(texts / "train-00001-of-00003.jsonl"), "not there"])
    capture(texts / "train-00002-of-00003.jsonl", output="one")
    write_jsonl(texts / "train-00001-of-00003.jsonl", some_texts(2))
    capture(texts, output="all")
    assert [len(examples_of(tmp_path / name)) for name in ("one", "all")] == [2, 7]
    write_jsonl(texts / "train-00000-of-00002.jsonl", some_texts(2))
    capture(texts, output="two", expect=1, says=["train-00000-of-00002.jsonl", "two sets"])


@pytest.mark.cases(11)
@pytest.mark.parametrize("line, word", [
    ('{"text": "a"', "line 3"), ("[1]", "object"), ('{"txt": "a"}', '"text"'), ('{"text": 7}', "string"),
    ('{"text": "\\ud800"}', "line 3"), ('{"text": "a", "text": "b"}', "line 3"), ("nan", "line 3"),
    (b'{"text": "\xff"}', "line 3"), ('{"text": NaN}', "string"), ('{"text": 1e999}', "string"),
    ('{"text": 99999999999999999999}', "string")])
def test_bad_lines(capture, tmp_path, line, word):
    line = line if isinstance(line, bytes) else line.encode()
    (tmp_path / "t.jsonl").write_bytes(b'{"text": "good"}\n\n' + line + b'\n{"text": "good"}\n')
    capture("-t", tmp_path / "t.jsonl", expect=1, says=["t.jsonl", "line 3", word])
    assert not (tmp_path / "c").exists()


def test_ids_that_are_none(capture, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"text": "good", "id": [1]}\n')
    capture("-t", tmp_path / "t.jsonl", "--id-column", "id", expect=1, says=["line 1", "id"])
    capture("-t", tmp_path / "t.jsonl", "--id-column", "no", expect=1, says=["line 1", '"no"'])


def test_bad_parquet(capture, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"text": ["a", None, "b"], "n": [1, 2, 3], "l": [["a"]] * 3}), path)
    capture("-t", path, expect=1, says=["t.parquet", "row 2", "null"])
    capture("-t", path, "--text-column", "n", expect=1, says=["strings"])
    capture("-t", path, "--text-column", "l", expect=1, says=["lists"])
    capture("-t", path, "--text-column", "none", expect=1, says=['"none"'])
    pq.write_table(pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), path)
    capture("-t", path, expect=1, says=["column 'text' is there more than once"])
    path.write_bytes(path.read_bytes()[:-20])
    capture("-t", path, expect=1, says=["t.parquet"])


def test_no_texts(capture, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "e.jsonl").write_text("\n")
    os.mkfifo(tmp_path / "pipe")
    capture("-t", tmp_path / "empty", expect=1, says=["no files"])
    capture("-t", tmp_path / "e.jsonl", expect=1, says=["no texts"])
    capture("-t", write_jsonl(tmp_path / "f.jsonl", ["", ""]), expect=1, says=["no position was kept"])
    capture("-t", tmp_path / "none.txt", expect=1, says=["none.txt"])
    capture("-t", tmp_path / "pipe", expect=1, says=["pipe"])


def test_texts_without_tokens_and_long_ones(capture, tmp_path):
    write_jsonl(tmp_path / "t.jsonl", ["", "x" * 600, "y"])
    err = capture("-t", tmp_path / "t.jsonl", "--long", "cut").err
    assert "t.jsonl:1: no tokens" in err and err.count("cut after") == 1 and "cut after 512 tokens: 1 of 3 texts" in err
    assert [(r["tokens"], r["truncated"]) for r in examples_of(tmp_path / "c")] == [
        ("0", "0"), ("512", "1"), ("1", "0")]
    manifest = manifest_of(tmp_path / "c")
    assert manifest["warnings"] == ["1 text was longer than max_length and was cut",
                                    "1 text had no tokens and was passed over"]
    assert manifest["heads"][0]["rows"] == 513
    capture("-t", tmp_path / "t.jsonl", "--max-length", 600, output="long")
    assert manifest_of(tmp_path / "long")["heads"][0]["rows"] == 601


def with_specials(folder):
    """A model whose tokenizer puts <s> before a text and </s> behind it."""
    write_model(folder)
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    names = {letter: byte for letter, byte in tokenizer["model"]["vocab"].items() if byte not in (1, 2)}
    tokenizer["model"]["vocab"] = {**names, "<s>": 1, "</s>": 2}
    tokenizer["added_tokens"] = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False,
                                  "normalized": False, "special": True} for i, name in ((1, "<s>"), (2, "</s>"))]
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "pair": [],
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                   {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for i, name in ((1, "<s>"), (2, "</s>"))}}
    path.write_text(json.dumps(tokenizer))
    return folder


def test_special_tokens_that_texts_have(capture, tmp_path):
    """They have them twice, which is said; in the middle, or where nothing is added, they are tokens like others."""
    model = with_specials(tmp_path / "model")
    write_jsonl(tmp_path / "t.jsonl", ["<s>a", "b</s>", "c<s>d", "e", "", "<s>" + "x" * 600])
    err = capture("-t", tmp_path / "t.jsonl", model=model).err
    assert "3 of 6 texts begin or end with the special token" in err, err
    assert "3 texts have the special token that the tokenizer adds of their own, and so twice" in manifest_of(
        tmp_path / "c")["warnings"]
    write_jsonl(tmp_path / "t.jsonl", ["c<s>d", "e", ""])
    assert "special token" not in capture("-t", tmp_path / "t.jsonl", model=model, output="d").err
    assert not [warning for warning in manifest_of(tmp_path / "d")["warnings"] if "special" in warning]


def test_a_link_to_nothing(capture, tmp_path):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a").write_text("text")
    (tmp_path / "t" / "b").symlink_to("gone")
    capture("-t", tmp_path / "t", expect=1, says=["t/b"])


def test_bytes_that_are_no_utf8(capture, tmp_path):
    (tmp_path / "t.txt").write_bytes(b"a" * 19 + b"\xff\xfeb")
    capture("-t", tmp_path / "t.txt")
    assert manifest_of(tmp_path / "c")["heads"][0]["rows"] == 20 + 2 * 3  # U+FFFD is three bytes


def test_a_name_that_is_no_utf8(capture, tmp_path):
    (tmp_path / "t.txt").write_text("text")
    capture("-t", tmp_path / "t.txt", "--model-name", b"caf\xe9", expect=2, says=["model-name", "is not UTF-8"])


def test_no_heads(capture, tmp_path):
    (tmp_path / "t.txt").write_text("text")
    text = ["-t", tmp_path / "t.txt"]
    capture(*text, "--layers", 4, expect=1, says=["layers", "0 to 3"])
    capture(*text, "--heads", 9, expect=1, says=["heads"])
    write_model(tmp_path / "windowed", "mistral", sliding_window=8)
    for drawn in ([], ["--sample-heads", 3]):
        capture(*text, "--full-attention-only", *drawn, model=tmp_path / "windowed", expect=1,
                says=["no heads", "sliding window"])
    write_model(tmp_path / "crossed", "mllama_text_model")
    capture(*text, "--layers", "1,3", model=tmp_path / "crossed", expect=1, says=["no heads"])


def test_another_models_tokenizer(capture, tmp_path):
    write_model(tmp_path / "small", num_hidden_layers=1, vocab_size=100)
    write_jsonl(tmp_path / "t.jsonl", ["(1)", "zzz"])
    outcome = capture("-t", tmp_path / "t.jsonl", model=tmp_path / "small", expect=1)
    assert "t.jsonl:2" in outcome.err and "tokenizer" in outcome.err


@pytest.mark.parametrize("words, says", [
    (["--sampler", "some"], "log_uniform"), (["--stage", "during"], "post"), (["--dtype", "f8"], "bf16-sim"), (["--bucket", "0"], "bucket")])
def test_options(capture, tmp_path, words, says):
    (tmp_path / "t.txt").write_text("text")
    capture("-t", tmp_path / "t.txt", *words, expect=2, says=[says])


# ---- the output folder -----------------------------------------------------------------------------

def test_a_folder_with_something_else(capture, tmp_path, qkscope, model):
    (tmp_path / "t.txt").write_text("text")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine.txt").write_text("keep me")
    for words in ([], ["--layers", "0"]):
        outcome = qkscope("capture", "-m", model, "-t", tmp_path / "t.txt", "-o", tmp_path / "c", *words,
                          expect=1)
        assert "not empty" in outcome.err
    assert files_of(tmp_path / "c") == {"mine.txt": b"keep me"}
    capture("-t", tmp_path / "t.txt", "--force")
    assert (tmp_path / "c" / "mine.txt").read_text() == "keep me"
    assert len(head_names(tmp_path / "c")) == 24


def test_a_finished_capture(capture, tmp_path):
    (tmp_path / "t.txt").write_text("text")
    text = ["-t", tmp_path / "t.txt"]
    capture(*text)
    before = files_of(tmp_path / "c")
    assert "complete already" in capture(*text, "--threads", 1).out
    for changed in (["--layers", 0], ["--bucket", 64], ["--stage", "pre"], ["--stage", "both"]):
        assert "another" in capture_fails(capture, *text, *changed)
    (tmp_path / "t.txt").write_text("tent")
    assert "--force" in capture_fails(capture, *text)
    assert files_of(tmp_path / "c") == before
    capture(*text, "--layers", 0, "--force")
    assert len(head_names(tmp_path / "c")) == 6 and files_of(tmp_path / "c") != before
    capture(*text, "--stage", "both", "--force")
    assert sorted(p.name for p in (tmp_path / "c").iterdir()) == ["post", "pre"]
    capture(*text, "--force")
    assert not (tmp_path / "c" / "post").exists() and len(head_names(tmp_path / "c")) == 24


def capture_fails(capture, *words):
    """A failure that leaves the capture that is there."""
    with pytest.raises(AssertionError) as failure:
        capture(*words)
    return str(failure.value)


def test_an_unfinished_capture(program, qkscope, model, tmp_path):
    """It goes on with the same settings alone; what lies there is looked at first."""
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(240, 300, 400))
    folder = tmp_path / "c"
    base = ["capture", "-m", model, "-t", texts, "-o", folder, "--sampler", "all", "--layers", 0, "--tokens-at-once", 500]
    assert killed(program, 20, *base) is not None
    assert [p.name for p in folder.iterdir()] == [".partial"]
    assert qkscope("inspect", folder).code != 0
    assert "not the same: sampler" in qkscope(*base, "--bucket", 7, expect=1).err
    assert "not the same: selection" in qkscope(*base, "--layers", 1, expect=1).err
    shutil.copytree(folder, tmp_path / "damaged")
    (tmp_path / "damaged" / ".partial" / "run.json").write_text('{"rows": []}')
    again = ["capture", "-m", model, "-t", texts, "-o", tmp_path / "damaged", "--sampler", "all", "--layers", 0]
    assert "run.json" in qkscope(*again, expect=1).err
    qkscope(*again, "--force", expect=0)
    outcome = json.loads(qkscope(*base, "--json", expect=0).out)
    assert 0 < outcome["texts_before"] < 240 and outcome["texts"] == 240
    assert files_of(folder) == files_of(tmp_path / "damaged")


# ---- replacing a capture ---------------------------------------------------------------------------

def test_force_leaves_what_belongs_to_no_capture(capture, qkscope, tmp_path):
    text = ["-t", tmp_path / "t.txt", "--layers", "0"]
    (tmp_path / "t.txt").write_text("some words")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "README.md").write_text("about my project")
    outcome = qkscope("capture", "-m", tmp_path, "-o", tmp_path / "c", *text, "--force", expect=1)
    assert "c/README.md: is in the way" in outcome.err
    assert files_of(tmp_path / "c") == {"README.md": b"about my project"}
    (tmp_path / "c" / "README.md").unlink()
    capture(*text, "--stage", "both")
    (tmp_path / "c" / "README.md").write_text("about my project")
    (tmp_path / "c" / "post" / "notes.txt").write_text("notes")
    capture(*text, "--stage", "both", "--bucket", "5", "--force")
    assert (tmp_path / "c" / "README.md").read_text() == "about my project"
    assert (tmp_path / "c" / "post" / "notes.txt").read_text() == "notes"
    assert manifest_of(tmp_path / "c" / "post")["run"]["sampler"]["bucket_size"] == 5
    assert len(head_names(tmp_path / "c" / "pre")) == len(head_names(tmp_path / "c" / "post")) > 0


def test_force_replaces_a_capture_without_manifest(capture, tmp_path):
    """As the original tool leaves them."""
    (tmp_path / "t.txt").write_text("some words")
    capture("-t", tmp_path / "t.txt")
    (tmp_path / "c" / "capture.json").unlink()
    (tmp_path / "c" / "l90h00q").mkdir()
    (tmp_path / "c" / "l90h00q" / "data.parquet").write_bytes(b"old")
    assert "--force" in capture("-t", tmp_path / "t.txt", expect=None).err
    capture("-t", tmp_path / "t.txt", "--layers", "0", "--force")
    assert all(name.startswith("l00") for name in head_names(tmp_path / "c"))


def test_force_within_the_folder_that_is_replaced(capture, qkscope, model, tmp_path):
    """A folder that somebody is in does not go away; its rights stay."""
    (tmp_path / "t.txt").write_text("some words")
    capture("-t", tmp_path / "t.txt")
    before = (tmp_path / "c").stat().st_ino
    qkscope("capture", "-m", model, "-t", tmp_path / "t.txt", "-o", ".", "--sampler", "all", "--bucket", "5",
            "--force", cwd=tmp_path / "c", expect=0)
    assert (tmp_path / "c").stat().st_ino == before
    (tmp_path / "c").chmod(0o2750)
    (tmp_path / "link").symlink_to("c")
    capture("-t", tmp_path / "t.txt", "--force", output="link/")
    assert (tmp_path / "c").stat().st_ino != before and (tmp_path / "c").stat().st_mode & 0o7777 == 0o2750
    assert (tmp_path / "link").is_symlink() and manifest_of(tmp_path / "c")["run"]["sampler"]["bucket_size"] == 1
    assert sorted(os.listdir(tmp_path)) == ["c", "link", "t.txt"]
