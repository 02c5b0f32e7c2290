# SPDX-License-Identifier: Apache-2.0
"""What is said of inputs that are not what they seem, and of folders that hold something else."""
import json
import os
import shlex
import shutil

import pytest

from recording import some_texts, write_jsonl, write_model

POINTER = ("version https://git-lfs.github.com/spec/v1\n"
           f"oid sha256:{'0' * 64}\nsize 988097824\n")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_model(folder)
    return folder


@pytest.fixture
def capture(qkscope, model, tmp_path):
    def run(*words, output="c", **options):
        return qkscope("capture", "-m", model, "-o", tmp_path / output, "--sampler", "all", *words, **options)
    return run


@pytest.mark.parametrize("ids, shared, texts, first", [
    (["a", "b", "c", "b", "a", "b"], 2, 5, "a"), ([7, 8, 8, 9], 1, 2, "8"), (["x", "y", "z"], 0, 0, "")])
def test_ids_that_several_texts_have(capture, tmp_path, ids, shared, texts, first):
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(len(ids)), ids)
    err = capture("-t", source, "--id-column", "id", expect=0).err
    said = f"{texts} of {len(ids)} texts have an id that other texts have, too ({shared} such"
    assert (said in err and f'the first is "{first}"' in err) if shared else "other texts" not in err, err
    assert "other texts" not in capture("-t", source, output="d", expect=0).err


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_pointer_for_a_part_of_the_model(qkscope, model, tmp_path, name):
    shutil.copytree(model, tmp_path / "m")
    (tmp_path / "m" / name).write_text(POINTER)
    err = qkscope("capture", "-m", tmp_path / "m", "-t", model / "config.json", "-o", tmp_path / "c", expect=1).err
    assert name in err and "pointer" in err and "git lfs pull" in err and "hf download" in err, err


def test_a_pointer_for_other_files(qkscope, capture, model, tmp_path):
    (tmp_path / "t.parquet").write_text(POINTER)
    errors = [capture("-t", tmp_path / "t.parquet", expect=1).err]
    # a longer text that begins so is a text
    (tmp_path / "long.txt").write_text(POINTER + "and so on " * 200)
    capture("-t", tmp_path / "long.txt", expect=0)
    (tmp_path / "c" / "l00h00q" / "data.parquet").write_text(POINTER)
    errors.append(qkscope("analyze", tmp_path / "c", "-o", tmp_path / "out", expect=3).err)
    for err in errors:
        assert "pointer" in err and "git lfs pull" in err, err


def test_options_of_what_is_not_kept(capture, tmp_path):
    """Each is told once, and does nothing; -q is silent, and options that count are not told."""
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(2, 20, 30))

    def told(output, *words):
        err = capture("-t", texts, *words, output=output, expect=0).err
        return [line.split("note: ")[1] for line in err.splitlines() if "note: " in line]

    rows = "does nothing without rows (--keep rows, or moments,reservoir=N)"
    assert told("a", "--keep", "rows", "--groups", 4) == ["--groups does nothing without sums (--keep moments, or attention)"]
    assert told("b", "--keep", "moments", "--token-strings", "--layout", "packed") == [f"--token-strings {rows}", f"--layout {rows}"]
    assert told("c", "--keep", "moments,reservoir=2", "--token-strings", "--layout", "packed", "--groups", 4) == []


@pytest.mark.parametrize("fault, why", [
    ("not JSON", "byte 2"), ("link to garbage", "byte 2"), ("link to nothing", "No such file")])
def test_a_capture_json_that_cannot_be_read(capture, tmp_path, fault, why):
    """The capture may be a good one: what is wrong is its file, and nothing is said of replacing it."""
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(2))
    capture("-t", source, expect=0)
    path = tmp_path / "c" / "capture.json"
    good = path.read_bytes()
    path.unlink()
    garbage = path if fault == "not JSON" else tmp_path / "garbage"
    if fault != "link to nothing":
        garbage.write_text("{garbage")
    if garbage != path:
        path.symlink_to(garbage)
    err = capture("-t", source, expect=1).err
    assert "which capture it holds cannot be read" in err and f"{path}: " in err and why.lower() in err.lower(), err
    assert "--force" not in err and "other texts" not in err, err
    path.unlink()
    path.write_bytes(good)
    capture("-t", source, expect=0)


def test_an_unfinished_capture_is_called_that(qkscope, tmp_path):
    (tmp_path / "c" / ".partial").mkdir(parents=True)
    (tmp_path / "c" / ".partial" / "run.json").write_text("{}")
    for words in (["inspect", tmp_path / "c"], ["analyze", tmp_path / "c", "-o", tmp_path / "o"]):
        err = qkscope(*words, expect=1).err
        assert f"{tmp_path / 'c'}: an unfinished capture; the command that began it, run again, completes" in err, err


def test_a_line_without_the_key(capture, tmp_path):
    source = tmp_path / "t.jsonl"
    source.write_text('{"body": "a", "title": "b"}\n')
    err = capture("-t", source, expect=1).err
    assert 'line 1: there is no "text", but "body", "title": name one with --text-column' in err, err
    err = capture("-t", source, "--text-column", "body", "--id-column", "id", expect=1).err
    assert 'there is no "id"' in err and "--id-column" in err
    source.write_text(json.dumps({f"k{i}": i for i in range(20)}))
    err = capture("-t", source, expect=1).err
    assert '"k7" and others' in err and "k8" not in err
    source.write_text("{}\n")
    assert "empty" in capture("-t", source, expect=1).err


@pytest.mark.parametrize("stage, end", [("post", ""), ("both", "/post")])
def test_the_next_command_can_be_run(qkscope, capture, tmp_path, stage, end):
    """It is for a shell, whatever the folder is called."""
    text = write_jsonl(tmp_path / "t.jsonl", some_texts(4))
    out = capture("-t", text, "--stage", stage, output="it's $HOME", cwd=tmp_path, expect=0).out
    words = shlex.split(next(x for x in out.splitlines() if x.startswith("Next: "))[6:])
    assert words == ["qkscope", "analyze", os.fspath(tmp_path / "it's $HOME") + end, "-o", "results"]
    qkscope(*words[1:], expect=0, cwd=tmp_path)
