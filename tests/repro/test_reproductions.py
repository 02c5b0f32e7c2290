# SPDX-License-Identifier: Apache-2.0
"""Defects that users met in version 0.1.0, each by the command that showed it (tests/data/repro has
the files). More about each is tested where it belongs."""
import json
import resource
import shutil
import subprocess

import pytest
from conftest import EXAMPLE, ROOT, check_survived, environment, read_csv

REPRO = ROOT / "tests" / "data" / "repro"
MODEL = ROOT / "examples" / "kjv-tiny" / "step-20"
TEXTS = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
@pytest.fixture
def limited(program, sanitized):
    """limited("pca", folder, ..., megabytes=100): in an address space of that size, by 2 threads."""
    if sanitized:
        pytest.skip("sanitizers need an address space of terabytes")

    def run(*words, megabytes):
        size = megabytes * 1000000
        done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL,
                              env=environment(), preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))
        check_survived(done.returncode, done.stderr)
        return done
    return run


def test_force_with_unchanged_settings(qkscope, tmp_path):
    command = ["capture", "--model", MODEL, "--text", TEXTS, "-q", "--max-length", "100", "--max-texts", "2", "--layers", "0",
               "--stage", "both", "-o", tmp_path / "b"]
    contents = []
    for more in ([], ["--force"]):
        qkscope(*command, *more, expect=0)
        contents.append({path.relative_to(tmp_path): path.read_bytes()
                         for path in (tmp_path / "b").rglob("*.parquet")})
    assert len(contents[0]) == 12 and contents[0] == contents[1]


def test_default_limit_of_a_tokenizer(qkscope, tmp_path):
    shutil.copytree(MODEL, tmp_path / "m")
    (tmp_path / "m" / "tokenizer_config.json").write_text(
        '{"model_max_length": 1000000000000000019884624838656}')
    (tmp_path / "x.txt").write_text("In the beginning")
    out = qkscope("tokenize", tmp_path / "m", tmp_path / "x.txt", "--count", expect=0).out
    assert out == qkscope("tokenize", MODEL, tmp_path / "x.txt", "--count", expect=0).out


def test_small_address_space(limited, tmp_path):
    done = limited("pca", EXAMPLE, "-o", tmp_path / "o", "--threads", 2, megabytes=150)
    assert done.returncode == 0, done


@pytest.mark.test_all
def test_text_without_end(limited):
    done = limited("tokenize", MODEL, "/dev/zero", "--count", megabytes=2000)
    assert done.returncode == 1 and "/dev/zero" in done.stderr, done


@pytest.mark.cases(4)
@pytest.mark.parametrize("command, path, words", [
    ("analyze", "brotli_2kB_1.4GB_rss", "over the limit"), ("inspect", "brotli_2kB_1.4GB_rss", ""),
    ("inspect", "brotli_4kB_1GiB_7s.parquet", ""), ("analyze", "overlapping_groups_1e9rows", "share")])
def test_small_files_that_claim_much(limited, tmp_path, command, path, words):
    """They are refused before a tenth of the memory is taken that they ask for."""
    more = ["-o", tmp_path / "o"] if command == "analyze" else []
    done = limited(command, REPRO / "parquet" / path, *more, "--threads", 2, megabytes=400)
    assert words in done.stderr and "out of memory" not in done.stderr, done
    assert command == "inspect" or done.returncode == 1, done


@pytest.mark.test_all
@pytest.mark.parametrize("name", ["bucket_sparse", "pos_neg"])
def test_report_of_what_analyze_wrote(qkscope, tmp_path, name):
    qkscope("analyze", REPRO / name, "-o", tmp_path / "o", expect=0)
    qkscope("report", tmp_path / "o", expect=0)
    assert (tmp_path / "o" / "report.html").exists()


def test_chain_of_replacements(limited, tmp_path):
    (tmp_path / "x.txt").write_text("a")
    done = limited("tokenize", REPRO / "replace_grow.json", tmp_path / "x.txt", megabytes=500)
    assert done.returncode == 1 and "x.txt" in done.stderr, done


def test_large_number_in_a_key_that_nobody_reads(qkscope, tmp_path):
    qkscope("capture", "--model", MODEL, "--text", REPRO / "bigid.jsonl", "-o", tmp_path / "c", "--layers", 0,
            expect=0)
    assert json.loads((tmp_path / "c" / "capture.json").read_text())["complete"]


@pytest.mark.test_all
def test_defaults_on_the_bundled_texts(qkscope, tmp_path):
    """Enough rows for the numbers to be those of all rows (tests/recorder/test_row_counts.py)."""
    step = MODEL.parent / "step-2004"
    qkscope("capture", "--model", step, "--text", TEXTS, "-o", tmp_path / "c", expect=0)
    out = qkscope("analyze", tmp_path / "c", "-o", tmp_path / "r", expect=0)
    assert "nan" not in out.out.lower() and "warning" not in out.err
    assert min(row["n_q"] for row in read_csv(tmp_path / "r" / "heads.csv")) > 7000
    few = qkscope("capture", "--model", step, "--text", TEXTS, "-o", tmp_path / "few", "--rows",
                  "160", expect=0)
    warned = qkscope("analyze", tmp_path / "few", "-o", tmp_path / "r2", expect=0)
    assert "wider than 0.2" in warned.err and "nan" not in warned.out.lower()
