# SPDX-License-Identifier: Apache-2.0
"""tools/real_model.sh, with the bundled model in place of the one that it fetches: nothing here needs a
network. And its passages."""
import csv
import json
import os
import shutil
import subprocess
import sys

import pytest

from conftest import ROOT, environment, read_csv

SCRIPT = ROOT / "tools" / "real_model.sh"
CUT = ROOT / "tools" / "real_passages.py"
MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
PASSAGES = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"


def made_text(path, characters):
    """Verses of the bundled passages, again and again, with names of their own."""
    verses = [line.partition(" ")[2].strip() for passage in PASSAGES.read_text().splitlines()
              for line in json.loads(passage)["text"].splitlines() if line.partition(" ")[2].strip()]
    lines, length = [], 0
    while length < characters:
        words = verses[len(lines) % len(verses)]
        lines.append(f"V{len(lines)}:1 {words}\n")
        length += len(words) + 1
    path.write_text("".join(lines))
    return lines


# ---- passages ----------------------------------------------------------------------------

def cut(text, output, *options):
    return subprocess.run([sys.executable, CUT, text, output, *map(str, options)], capture_output=True,
                          text=True)


def test_passages_are_spread_and_have_no_names_of_verses(tmp_path):
    verses = made_text(tmp_path / "text", 50_000)
    assert cut(tmp_path / "text", tmp_path / "out.jsonl", "--passages", 7, "--characters", 4000).returncode == 0
    passages = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    starts = [int(p["id"].removeprefix("V").removesuffix(":1")) for p in passages]
    assert starts == [len(verses) * k // 7 for k in range(7)]
    for passage, start, following in zip(passages, starts, [*starts[1:], len(verses)]):
        words = passage["text"].splitlines()
        assert words == [v.split(" ", 1)[1].rstrip("\n") for v in verses[start:start + len(words)]]
        assert start + len(words) <= following
        assert len(passage["text"]) >= 4000 > len("\n".join(words[:-1]))


def test_a_text_that_is_too_short_is_refused(tmp_path):
    made_text(tmp_path / "text", 20_000)
    done = cut(tmp_path / "text", tmp_path / "out.jsonl", "--passages", 7, "--characters", 4000)
    assert done.returncode == 1 and "too short for 7 passages of 4000 characters" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["text"]


def test_a_line_without_words_is_named(tmp_path):
    (tmp_path / "text").write_text("Ge1:1 In the beginning\nGe1:2\n")
    done = cut(tmp_path / "text", tmp_path / "out.jsonl")
    assert done.returncode == 1 and "line 2: a verse has a name and words, not 'Ge1:2'" in done.stderr


def test_passages_of_the_published_text_fill_the_context(qkscope, tmp_path):
    """Each of them has the 8,192 tokens that the model can read."""
    model, text = os.environ.get("QKSCOPE_SMOLLM2"), os.environ.get("QKSCOPE_KJV")
    if not model or not text:
        pytest.skip("QKSCOPE_SMOLLM2 and QKSCOPE_KJV name no model and text")
    assert cut(text, tmp_path / "out.jsonl").returncode == 0
    passages = (tmp_path / "out.jsonl").read_text().splitlines()
    assert len(passages) == 10
    for passage in passages:
        (tmp_path / "one").write_text(json.loads(passage)["text"])
        assert int(qkscope("tokenize", model, tmp_path / "one", "--count", expect=0).out) >= 8192


# ---- the whole of it -----------------------------------------------------------------------

class Demo:
    """Runs the script; the program that it finds notes its commands, and stops everything at one."""

    def __init__(self, folder, program):
        self.folder, self.out, self.log = folder, folder / "out", folder / "log"
        made_text(folder / "text", 480_000)
        (folder / "build").mkdir()
        wrapper = folder / "build" / "qkscope"
        wrapper.write_text(f"""#!/bin/sh
            case $1 in --*) ;; *) echo "$*" >>"{self.log}" ;; esac
            case "$*" in "${{STOP_AT:-none}}"*) kill -9 $PPID; exit 1 ;; esac
            exec "{program}" "$@"
        """)
        wrapper.chmod(0o755)

    def run(self, stop_at="none"):
        self.log.write_text("")
        return subprocess.run(
            [SCRIPT, self.out], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL,
            env=environment({"QKSCOPE_BUILD": self.folder / "build", "QKSCOPE_SMOLLM2": MODEL,
                             "QKSCOPE_KJV": self.folder / "text", "STOP_AT": stop_at}))

    def commands(self):
        return [" ".join(line.split()[:2]) for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="module")
def demo(tmp_path_factory, program):
    """A run that was stopped while the second analysis began, and the run after it."""
    demo = Demo(tmp_path_factory.mktemp("real"), program)
    demo.stopped = demo.run(stop_at="analyze capture/pre")
    demo.was_done = demo.commands()
    demo.kept = {path: path.stat().st_mtime_ns for folder in ("capture", "post") for path in
                 (demo.out / folder).rglob("*.*") if path.is_file()}
    demo.finished = demo.run()
    demo.done = demo.commands()
    return demo


def test_what_was_complete_when_it_was_stopped_is_not_done_again(demo):
    assert demo.stopped.returncode == -9
    assert demo.was_done == ["capture --model", "analyze capture/post", "analyze capture/pre"]
    assert demo.finished.returncode == 0, demo.finished.stderr
    assert demo.done[0] == "analyze capture/pre" and "analyze capture/post" not in demo.done
    tables = [path for path in demo.kept if path.name not in ("manifest.json", "report.html")]
    assert len(tables) > 60
    assert all(path.stat().st_mtime_ns == demo.kept[path] for path in tables)
    assert "Run the model, keep queries and keys before and after RoPE: complete" in demo.finished.stdout


def test_it_ends_with_two_pages(demo):
    out = demo.finished.stdout
    assert out.endswith(f"Open {demo.out}/post/report.html\n and {demo.out}/pre/report.html\n")
    for stage, title in ("post", "step-2004, after RoPE"), ("pre", "step-2004, before RoPE"):
        page = (demo.out / stage / "report.html").read_text()
        assert f"<title>{title}" in page
        for collage in "pca-06-collage", "rotation-01-plane", "rotation-08-complement":
            assert (demo.out / stage / "figures" / f"{collage}-step-2004.png").exists()
            assert collage in page
        rotated = read_csv(demo.out / stage / "rotated.csv")
        assert len(rotated) == 20 and all(row["bias_strength_lo"] for row in rotated)
        assert all(row["lda_accuracy"] for row in read_csv(demo.out / stage / "heads.csv"))
        assert len(read_csv(demo.out / stage / "complement.csv")) == 20 * 15
    with open(demo.out / "capture" / "post" / "examples.csv", newline="") as file:
        examples = list(csv.DictReader(file))
    assert [row["tokens"] for row in examples] == ["1024"] * 10
    assert all(row["source_id"].startswith("V") for row in examples)


def test_it_says_beforehand_what_it_will_do(demo):
    begin, _, steps = demo.stopped.stdout.partition("It will take about ")
    assert "step-2004 reads ten long passages" in begin and str(demo.out) in begin
    assert "Fetched" not in begin, "model and text are there"
    assert steps.split("\n")[0].removesuffix(".").split()[1] in ("s", "min")
    assert steps.count(" left in all)") == steps.count("\n$ qkscope ") + 1, "each step but the first runs a command"


def test_again_there_is_nothing_to_do(demo):
    again = demo.run()
    assert again.returncode == 0 and demo.commands() == []
    steps = [line for line in again.stdout.splitlines() if line.startswith("[")]
    assert "It will take" not in again.stdout and len(steps) >= 8
    assert all(": complete, took " in line for line in steps)


def test_a_table_that_was_cut_short_is_made_again(demo):
    table = demo.out / "pre" / "qk.csv"
    whole = table.read_bytes()
    table.write_bytes(whole[:100])
    assert demo.run().returncode == 0
    assert table.read_bytes() == whole
    assert "analyze capture/pre" in demo.commands() and "analyze capture/post" not in demo.commands()


def test_a_step_that_fails_ends_it(demo):
    shutil.copytree(demo.out / "capture", demo.folder / "kept")
    head = next((demo.out / "capture" / "pre").glob("l00h00q/*.parquet"))
    head.write_bytes(b"")
    (demo.out / "pre" / "qk.csv").unlink()
    failed = demo.run()
    assert failed.returncode != 0 and "l00h00q" in failed.stderr
    assert "Open " not in failed.stdout and "report pre --title step-2004, before RoPE" not in failed.stdout


def test_shellcheck_has_nothing_to_say():
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed")
    done = subprocess.run(["shellcheck", SCRIPT, ROOT / "tools" / "make_gallery.sh"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout
