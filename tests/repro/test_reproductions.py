# SPDX-License-Identifier: Apache-2.0
"""Defects that users met in version 0.1.0, each by the command that showed it (tests/data/repro has
the files). More about each is tested where it belongs."""
import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ROOT, check_survived, environment, read_csv, write_rows

BUILD = Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
REPRO = ROOT / "tests" / "data" / "repro"
EXAMPLES = ROOT / "examples"
MODEL = EXAMPLES / "kjv-tiny" / "step-20"
TEXTS = EXAMPLES / "kjv-tiny" / "passages.jsonl"
PLAIN = {"compression": "none", "use_dictionary": False}

sys.path.insert(0, str(ROOT / "bench"))
from timed import timed

sanitized = b"b_sanitize" in (BUILD / "meson-private" / "cmd_line.txt").read_bytes()


def limited(program, *arguments, kilobytes):
    """Runs in an address space of so many kB."""
    if sanitized:
        pytest.skip("sanitizers need an address space of terabytes")
    size = kilobytes * 1000
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=20, stdin=subprocess.DEVNULL, env=environment(None),
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)))


def test_query_head_that_fails_while_its_keys_are_read(qkscope, tmp_path):
    rng = np.random.default_rng(1)
    for name, rows in (("l00h00k", 30000), ("l00h00q", 20000)):
        x = rng.standard_normal((rows, 64)).astype(np.float32)
        if name.endswith("q"):
            x[6000, 0] = np.nan
        at = np.arange(rows)
        write_rows(tmp_path / "c", name, {"vector": x, "position": at, "bucket": at // 1000,
                                          "example_id": at % 5}, **PLAIN)
    for i in range(10):
        failed = qkscope("analyze", tmp_path / "c", "-o", tmp_path / f"o{i}", "--threads", "2",
                         expect=1)
        assert "l00h00q" in failed.err and "NaN" in failed.err


@pytest.mark.parametrize("stage, files", [("both", 60), ("post", 30)])
def test_force_with_unchanged_settings(qkscope, tmp_path, stage, files):
    command = ["capture", "--model", MODEL, "--text", TEXTS, "-q", "--max-length", "300", "--stage",
               stage, "-o", tmp_path / "b"]
    contents = []
    for more in ([], ["--force"]):
        qkscope(*command, *more, expect=0)
        contents.append({path.relative_to(tmp_path): path.read_bytes()
                         for path in (tmp_path / "b").rglob("*.parquet")})
    assert len(contents[0]) == files and contents[0] == contents[1]


def test_default_limit_of_a_tokenizer(qkscope, tmp_path):
    shutil.copytree(MODEL, tmp_path / "m")
    (tmp_path / "m" / "tokenizer_config.json").write_text(
        '{"model_max_length": 1000000000000000019884624838656}')
    (tmp_path / "x.txt").write_text("In the beginning")
    out = qkscope("tokenize", tmp_path / "m", tmp_path / "x.txt", "--count", expect=0).out
    assert out == qkscope("tokenize", MODEL, tmp_path / "x.txt", "--count", expect=0).out


def test_small_address_space(program, tmp_path):
    run = limited(program, "pca", EXAMPLES / "kjv-tiny-capture", "-o", tmp_path / "o",
                  kilobytes=100000)
    assert run.returncode == 0, run


def test_text_without_end(program, tmp_path):
    run = limited(program, "tokenize", MODEL, "/dev/zero", "--count", kilobytes=2000000)
    assert run.returncode == 1 and "/dev/zero" in run.stderr, run


@pytest.mark.parametrize("path, words", [
    ("brotli_2kB_1.4GB_rss", "over the limit"), ("brotli_4kB_1GiB_7s.parquet", ""),
    ("overlapping_groups_1e9rows", "share")])
@pytest.mark.parametrize("command", ["inspect", "analyze"])
def test_small_files_that_claim_much(program, tmp_path, path, words, command):
    """Under 200 MB and 2 s."""
    if command == "analyze" and path.endswith(".parquet"):
        pytest.skip("a file, not a capture")
    more = ["-o", tmp_path / "o"] if command == "analyze" else []
    arguments = [program, command, REPRO / "parquet" / path, *more]
    run = subprocess.run(arguments, capture_output=True, text=True, timeout=60)
    check_survived(run.returncode, run.stderr)
    if command == "analyze":
        assert run.returncode == 1 and words in run.stderr, run
    if not sanitized:
        seconds, peak = timed(BUILD, arguments, check=False)[:2]
        assert peak < 200 and seconds < 2, (seconds, peak)


def test_names_of_columns_on_a_terminal(qkscope):
    out = qkscope("inspect", REPRO / "esc.parquet", expect=0).out
    assert "\x1b" not in out and "\\u001b" in out


@pytest.mark.parametrize("name", ["bucket_sparse", "pos_neg"])
def test_report_of_what_analyze_wrote(qkscope, tmp_path, name):
    qkscope("analyze", REPRO / name, "-o", tmp_path / "o", expect=0)
    qkscope("report", tmp_path / "o", expect=0)
    assert (tmp_path / "o" / "report.html").exists()


def test_chain_of_replacements(program, tmp_path):
    (tmp_path / "x.txt").write_text("a")
    run = limited(program, "tokenize", REPRO / "replace_grow.json", tmp_path / "x.txt",
                  kilobytes=500000)
    assert run.returncode == 1 and "x.txt" in run.stderr, run


def test_large_number_in_a_key_that_nobody_reads(qkscope, tmp_path):
    qkscope("capture", "--model", MODEL, "--text", REPRO / "bigid.jsonl", "-o", tmp_path / "c",
            expect=0)
    assert json.loads((tmp_path / "c" / "capture.json").read_text())["complete"]


def test_defaults_on_the_bundled_texts(qkscope, tmp_path):
    """Enough rows for the numbers to be those of all rows (tests/recorder/test_row_counts.py)."""
    step = EXAMPLES / "kjv-tiny" / "step-2004"
    qkscope("capture", "--model", step, "--text", TEXTS, "-o", tmp_path / "c", expect=0)
    out = qkscope("analyze", tmp_path / "c", "-o", tmp_path / "r", expect=0)
    assert "nan" not in out.out.lower() and "warning" not in out.err
    assert min(row["n_q"] for row in read_csv(tmp_path / "r" / "heads.csv")) > 7000
    few = qkscope("capture", "--model", step, "--text", TEXTS, "-o", tmp_path / "few", "--rows",
                  "160", expect=0)
    warned = qkscope("analyze", tmp_path / "few", "-o", tmp_path / "r2", expect=0)
    assert "wider than 0.2" in warned.err and "nan" not in warned.out.lower()
