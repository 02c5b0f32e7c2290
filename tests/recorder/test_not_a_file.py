# SPDX-License-Identifier: Apache-2.0
"""Folders, pipes and devices where a file is expected: refused by name, at once, whoever reads it."""
import os
import shutil
import subprocess

import pytest

from conftest import EXAMPLE, environment
from recording import table_of, write_jsonl, write_model

KINDS = {"folder": "is a folder", "pipe": "is a pipe", "/dev/zero": "is a device"}


@pytest.fixture(params=KINDS)
def odd(request, tmp_path):
    """put(path) puts something that is no file there and returns what must be said of it."""
    def put(path):
        if path.is_file():
            path.unlink()
        if request.param == "folder":
            path.mkdir()
        elif request.param == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(request.param)
        return KINDS[request.param]
    return put


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_parts_of_a_model(qkscope, tmp_path, odd, name):
    write_model(tmp_path / "m")
    (tmp_path / "t.txt").write_text("some words")
    says = odd(tmp_path / "m" / name)
    outcome = qkscope("capture", "-m", tmp_path / "m", "-t", tmp_path / "t.txt", "-o", tmp_path / "c",
                      expect=1)
    assert f"{name}: {says}, not a file" in outcome.err and outcome.err.count(name) == 1
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("name", ["t.txt", "t.jsonl", "t.parquet"])
def test_texts(qkscope, tmp_path, odd, name):
    write_model(tmp_path / "m")
    says = odd(tmp_path / name)
    outcome = qkscope("tokenize", tmp_path / "m", tmp_path / name, "--count", expect=1)
    assert f"{name}: {says}, not a file" in outcome.err
    outcome = qkscope("capture", "-m", tmp_path / "m", "-t", tmp_path / name, "-o", tmp_path / "c")
    assert outcome.code in (1, 2) and name in outcome.err and not (tmp_path / "c").exists()


def test_settings(qkscope, tmp_path, odd):
    says = odd(tmp_path / "s.yaml")
    for words in (["capture", "--config"], ["study", "-o", tmp_path / "s"],
                  ["analyze", EXAMPLE, "-o", tmp_path / "r", "--config"]):
        assert f"s.yaml: {says}" in qkscope(*words, tmp_path / "s.yaml", expect=1).err


@pytest.mark.parametrize("name", ["capture.json", "l00h00q/data.parquet"])
def test_parts_of_a_capture(qkscope, tmp_path, odd, name):
    shutil.copytree(EXAMPLE, tmp_path / "c")
    says = odd(tmp_path / "c" / name)
    outcome = qkscope("pca", tmp_path / "c", "-o", tmp_path / "r", "--layers", 0, "--heads", 0)
    assert outcome.code in (1, 3) and f"{name}: {says}, not a file" in outcome.err


# ---- how much is read ------------------------------------------------------------------------------

LIMIT = 256 << 20


def limited(program, words, stdin, megabytes):
    """In so much address space."""
    return subprocess.run(["bash", "-c", f'ulimit -v {megabytes << 10} && exec "$@"', "-", program, *words],
                          stdin=stdin, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=300, check=False)


def test_an_input_without_end(program, tmp_path, sanitized):
    if sanitized:
        pytest.skip("a sanitizer needs terabytes of address space")
    write_model(tmp_path / "m")
    with open("/dev/zero", "rb") as zeros:
        done = limited(program, ["tokenize", tmp_path / "m", "-", "--count"], zeros, 1000)
    assert done.returncode == 1 and f"more than {LIMIT} bytes".encode() in done.stderr
    done = subprocess.run([program, "tokenize", tmp_path / "m", "-", "--count"], input=b"words",
                          env=environment(), stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"5\n"


@pytest.mark.test_all
def test_files_beyond_the_limit(program, tmp_path, sanitized):
    """Sparse files of 2 GiB, and lines of that length, in less memory."""
    if sanitized:
        pytest.skip("a sanitizer needs terabytes of address space")
    write_model(tmp_path / "m")
    for name in ("t.txt", "t.jsonl"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(2 << 30)
        done = limited(program, ["capture", "-m", tmp_path / "m", "-t", tmp_path / name, "-o", tmp_path / "c"],
                       subprocess.DEVNULL, 2000)
        assert done.returncode == 1 and name.encode() in done.stderr
        assert b"more than" in done.stderr or b"longer than" in done.stderr or b"memory" in done.stderr
        assert not (tmp_path / "c").exists()
    done = limited(program, ["tokenize", tmp_path / "m", tmp_path / "t.txt"], subprocess.DEVNULL, 1000)
    assert done.returncode == 1 and str(LIMIT).encode() in done.stderr


def test_lines_of_every_length(qkscope, tmp_path):
    """Around the size of the blocks in which lines are read."""
    write_model(tmp_path / "m", num_hidden_layers=1)
    lengths = [1, 2 ** 18 - 20, 2 ** 18 - 13, 2 ** 18 - 12, 2 ** 18 - 11, 7, 3 * 2 ** 18 + 5, 2 ** 19 - 12, 3]
    texts = [chr(97 + i) * n for i, n in enumerate(lengths)]
    for name, end in (("none.jsonl", "cut"), ("blank.jsonl", "\n \n\n")):
        path = write_jsonl(tmp_path / name, texts)
        if end == "cut":
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.write_text(path.read_text() + end)
        qkscope("capture", "-m", tmp_path / "m", "-t", path, "-o", tmp_path / name[:4], "--sampler", "all",
                "--max-length", "8", "--long", "cut", "--token-strings", "--quiet", expect=0)
        lines = (tmp_path / name[:4] / "examples.csv").read_text().splitlines()[1:]
        assert [line.split(",")[3] for line in lines] == [str(min(n, 8)) for n in lengths]
        strings = table_of(tmp_path / name[:4], "l00h00k")["token_str"]
        assert "".join(strings) == "".join(t[:8] for t in texts)
