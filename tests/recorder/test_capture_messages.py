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


@pytest.mark.parametrize("output", ["c", "results", "results/", "deep/results"])
def test_what_comes_next_can_be_run(qkscope, model, tmp_path, output):
    """Twice: the second capture is not told to replace the first one's results."""
    write_jsonl(tmp_path / "t.jsonl", some_texts(3, 200, 300))
    for name in (output, "other"):
        said = qkscope("capture", "-m", model, "-t", "t.jsonl", "-o", name, expect=0, cwd=tmp_path).out
        line = next(line for line in said.splitlines() if line.startswith("Next: "))
        qkscope(*shlex.split(line.removeprefix("Next: "))[1:], expect=0, cwd=tmp_path)


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
    (tmp_path / "m.gguf").write_text(POINTER)
    (tmp_path / "t.parquet").write_text(POINTER)
    text = write_jsonl(tmp_path / "t.jsonl", some_texts(20))
    errors = [qkscope("inspect", tmp_path / "m.gguf", expect=1).err,
              qkscope("capture", "-m", tmp_path / "m.gguf", "-t", text, "-o", tmp_path / "o", expect=1).err,
              capture("-t", tmp_path / "t.parquet", expect=1).err]
    capture("-t", text, expect=0)
    (tmp_path / "c" / "l00h00q" / "data.parquet").write_text(POINTER)
    errors += [qkscope("inspect", tmp_path / "c", expect=3).err,
               qkscope("analyze", tmp_path / "c", "-o", tmp_path / "out", expect=3).err]
    for err in errors:
        assert "pointer" in err and "git lfs pull" in err, err
    # a longer text that begins so is a text
    (tmp_path / "long.txt").write_text(POINTER + "and so on " * 200)
    capture("-t", tmp_path / "long.txt", output="d", expect=0)


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
    assert told("d", "--groups", 4, "-q") == []


@pytest.mark.parametrize("fault, why", [
    ("not JSON", "byte 2"), ("link to garbage", "byte 2"), ("link to nothing", "No such file"),
    ("no right", "Permission denied")])
def test_a_capture_json_that_cannot_be_read(capture, tmp_path, fault, why):
    """The capture may be a good one: what is wrong is its file, and nothing is said of replacing it."""
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(2))
    capture("-t", source, expect=0)
    path = tmp_path / "c" / "capture.json"
    good = path.read_bytes()
    if fault == "no right":
        path.chmod(0)
        if os.access(path, os.R_OK):
            pytest.skip("who may read everything")
    else:
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


def test_one_of_two_that_cannot_be_read(capture, tmp_path):
    """The other one is good, and of the same texts."""
    source = write_jsonl(tmp_path / "t.jsonl", some_texts(2))
    capture("-t", source, "--stage", "both", expect=0)
    (tmp_path / "c" / "pre" / "capture.json").write_text("{garbage")
    err = capture("-t", source, "--stage", "both", expect=1).err
    assert "c/pre/capture.json: byte 2" in err and "--force" not in err, err


def test_an_unfinished_capture_is_called_that(qkscope, tmp_path):
    (tmp_path / "c" / ".partial").mkdir(parents=True)
    (tmp_path / "c" / ".partial" / "run.json").write_text("{}")
    for words in (["inspect", tmp_path / "c"], ["analyze", tmp_path / "c", "-o", tmp_path / "o"]):
        err = qkscope(*words, expect=1).err
        assert "not finished" in err and "run the command that began it again" in err, err


@pytest.mark.parametrize("options, word", [
    (["--max-length", "50"], "texts"), (["--layers", "0"], "selection"), (["--stage", "pre"], "stage"),
    (["--stage", "both"], "stage"), (["--token-strings"], "token_strings")])
def test_a_finished_capture_of_other_settings(capture, tmp_path, options, word):
    text = write_jsonl(tmp_path / "t.jsonl", some_texts(4))
    capture("-t", text, expect=0)
    assert "complete already" in capture("-t", text, expect=0).out
    assert f"({word} differs)" in capture("-t", text, *options, expect=1).err


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


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_line_that_ends_too_soon(capture, tmp_path, end):
    (tmp_path / "t.jsonl").write_bytes(b'{"text": "a"}\n{"text": "b"' + end.encode())
    err = capture("-t", tmp_path / "t.jsonl", expect=1).err
    assert err.count("line 2") == 1 and "line 2: byte " in err, err


@pytest.mark.parametrize("name", ["plain", "two words", "it's $HOME"])
def test_the_next_command_is_for_a_shell(capture, tmp_path, name):
    text = write_jsonl(tmp_path / "t.jsonl", some_texts(4))
    for stage, end in (("post", ""), ("both", "/post")):
        folder = f"{name} {stage}" if " " in name else name + stage
        out = capture("-t", text, "--stage", stage, output=folder, expect=0).out
        line = next(x for x in out.splitlines() if x.startswith("Next: "))
        assert shlex.split(line[6:]) == ["qkscope", "analyze", os.fspath(tmp_path / folder) + end, "-o", "results"]
