# SPDX-License-Identifier: Apache-2.0
"""Runs that are killed at any moment and resumed end in the bytes of an undisturbed run, and
memory does not grow with the number of texts."""
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import TIER, ROOT, environment
from recording import files_of, some_texts, write_jsonl, write_model

sys.path.append(str(ROOT / "bench"))
from timed import timed  # noqa: E402


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_model(folder)
    return folder


def command(program, model, texts, folder, *options):
    return [program, "capture", "-m", model, "-t", texts, "-o", folder, "--sampler", "uniform",
            "--bucket", "4", "--tokens-at-once", "2000", "--quiet", *options]


def kill_after(words, seconds):
    """True when it was killed, False when it had ended."""
    run = subprocess.Popen(words, env=environment())
    try:
        assert run.wait(timeout=seconds) == 0
        return False
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()
        return True


@pytest.mark.parametrize("options", [["--token-strings"], ["--stage", "both", "--max-rows", "9"]])
def test_killed_and_resumed(program, model, tmp_path, options):
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(100, 300, 400), [f"t{i}" for i in range(100)])
    options = [*options, "--id-column", "id"]
    start = time.monotonic()
    subprocess.run(command(program, model, texts, tmp_path / "whole", *options), check=True,
                   env=environment())
    duration = time.monotonic() - start
    whole = files_of(tmp_path / "whole")
    moments, killed = random.Random(len(options)), 0
    for i in range(60):  # many more than ten where the machine is faster than it was the first time
        if i >= 10 and killed >= 5:
            break
        folder = tmp_path / f"c{i}"
        words = command(program, model, texts, folder, *options, "--threads", str(i % 3 + 1))
        while kill_after(words, moments.uniform(0, duration)):
            killed += 1
            if killed % 4 == 0:
                subprocess.run(words, check=True, env=environment())
                break
        assert files_of(folder) == whole
    print(f"\n{killed} kills")
    assert killed >= 5


def own_files(folder):
    """What lies in a folder besides an unfinished run and files not named yet."""
    return {k: v for k, v in files_of(folder).items()
            if not k.startswith(".partial") and ".tmp-" not in k}


def strace(program, call, fault, n, words):
    run = subprocess.run(["strace", "-f", "-o", os.devnull, "-e", "trace=rename,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir",
                          "-e", f"inject={call}:signal=SIGKILL:when={n}", *fault, program, *words],
                         env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if n == 1 and b"ptrace" in run.stderr:
        pytest.skip("strace may not trace here")
    return run.returncode == 0


OTHER, BOTH = ["--bucket", "7"], ["--stage", "both"]
WAYS = [([], [], "exchange"), ([], OTHER, "exchange"), ([], OTHER + BOTH, "no exchange"),
        ([], [], "no exchange"), ([], OTHER, "other files"), (BOTH, BOTH, "exchange"),
        (BOTH, OTHER + BOTH, "exchange"), (BOTH, OTHER, "no exchange"), (BOTH, OTHER + BOTH, "other files")]
SMALL = ["--sampler", "all", "--threads", "1", "--layers", "1", "--heads", "0"]


def capture_small(qkscope, model, texts, folder, *options, expect=0):
    return qkscope("capture", "-m", model, "-t", texts, "-o", folder, *SMALL, *options, expect=expect)


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("options", [[], ["--stage", "both"]])
@pytest.mark.parametrize("call", ["rename", "unlinkat", "mkdir", "mkdirat"])
def test_killed_at_every_change_of_the_folder(program, qkscope, model, tmp_path, sanitized, call,
                                              options):
    """By strace, at the first, the second, ... call that changes the output folder. At no time is
    anything there that says it is complete and is not."""
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    capture_small(qkscope, model, texts, tmp_path / "whole", *options)
    whole = files_of(tmp_path / "whole")
    for n in range(1, 100):
        folder = tmp_path / f"c{n}"
        if strace(program, call, [], n, ["capture", "-m", model, "-t", texts, *SMALL, *options, "-o", folder]):
            break
        there = own_files(folder)
        if "capture.json" in there and b'"complete": true' in there["capture.json"]:
            assert there == whole
        capture_small(qkscope, model, texts, folder, *options)
        assert files_of(folder) == whole
    print(f"\n{n - 1} kills")
    assert 2 < n < 100 and files_of(folder) == whole


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("options, old_options, way", WAYS)
def test_replacing_killed_at_every_change(program, qkscope, model, tmp_path, sanitized, options,
                                          old_options, way):
    """With --force there is the old capture or the new one. Where the two cannot change places in one
    step, there may be one that no reader takes and the next run completes. Never a mixture. After the first calls of
    a kind every second is a moment, of neighbours in the list the other ones; in `make test-long` each is."""
    at = WAYS.index((options, old_options, way)) % 2
    calls = range(1, 200) if TIER == "long" else [*range(1, 5), *range(5 + at, 200, 2)]
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(3))
    capture_small(qkscope, model, texts, tmp_path / "whole", *options)
    capture_small(qkscope, model, texts, tmp_path / "old", *old_options)
    other = {}
    if way == "other files":
        other = {"notes.txt": b"mine"} | ({"post/mine": b"too"} if "--stage" in old_options else {})
        for name, contents in other.items():
            (tmp_path / "old" / name).write_bytes(contents)
    whole, old = {**files_of(tmp_path / "whole"), **other}, files_of(tmp_path / "old")
    assert (whole == old) == (old_options == options)
    fault = ["-e", "inject=renameat2:error=EINVAL"] if way == "no exchange" else []
    kills = refused = 0
    for call in ("rename", "unlink", "unlinkat", "rmdir") + (("renameat2",) if not fault else ()):
        for n in calls:
            folder = tmp_path / f"{call}{n}" / "c"
            shutil.copytree(tmp_path / "old", folder)
            words = ["capture", "-m", model, "-t", texts, *SMALL, *options, "--force", "-o", folder]
            if strace(program, call, fault, n, words):
                assert files_of(folder) == whole and os.listdir(folder.parent) == ["c"]
                break
            kills += 1
            there = own_files(folder)
            if there not in (old, whole):
                assert way != "exchange", sorted(there)
                refused += 1
                for place in [folder, folder / "post", folder / "pre"]:
                    if (place / "capture.json").exists() and b'"complete": true' in (
                            place / "capture.json").read_bytes():
                        assert place != folder  # one of two that is old or new
                        files = {(f"{place.name}/{k}", v) for k, v in own_files(place).items()}
                        assert old.items() >= files or whole.items() >= files
                    elif place.is_dir():
                        assert qkscope("pca", place, "-o", tmp_path / "results").code != 0
            again = qkscope(*[w for w in words if w != "--force"])
            if again.code != 0:  # it had not begun
                assert there == old != whole and "--force" in again.err
                qkscope(*words, expect=0)
            assert files_of(folder) == whole
            assert os.listdir(folder.parent) == ["c"]
            shutil.rmtree(folder.parent)
    print(f"\n{kills} kills, {refused} times there was neither the old nor the new capture")
    assert kills > 10 and (way == "exchange") == (refused == 0)


@pytest.mark.parametrize("signal_name", ["SIGKILL", "SIGINT"])
@pytest.mark.parametrize("options", [[], ["--stage", "both"]])
def test_replacing_stopped_at_any_time(program, qkscope, model, tmp_path, options, signal_name):
    texts = write_jsonl(tmp_path / "t.jsonl", some_texts(200))
    folder = tmp_path / "c"
    alike = {}
    duration = 9
    for bucket in ("7", "5"):
        start = time.monotonic()
        capture_small(qkscope, model, texts, tmp_path / bucket, *options, "--bucket", bucket)
        duration = min(duration, time.monotonic() - start)
        alike[bucket] = files_of(tmp_path / bucket)
    shutil.copytree(tmp_path / "7", folder)
    moments, stopped = random.Random(len(options)), 0
    runs, wanted = 0, int(os.environ.get("QKSCOPE_KILLS", 6))
    while stopped < wanted and runs < 50 * wanted:
        bucket = "75"[runs // 2 % 2]
        runs += 1
        run = subprocess.Popen([program, "capture", "-m", model, "-t", texts, "-o", folder, *SMALL, *options,
                                "--bucket", bucket, "--force", "--quiet"], env=environment(),
                               stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(0, duration))
        run.send_signal(getattr(signal, signal_name))
        code = run.wait(timeout=60)
        stopped += code != 0
        there = own_files(folder)
        assert there in alike.values()
        assert code != 0 or there == alike[bucket]
    print(f"\n{stopped} of {runs} runs were stopped")
    assert stopped == wanted
    capture_small(qkscope, model, texts, folder, *options, "--bucket", "5", "--force")
    assert files_of(folder) == alike["5"] and sorted(os.listdir(tmp_path)) == ["5", "7", "c", "t.jsonl"]


def test_memory_does_not_grow_with_texts(program, model, tmp_path, sanitized):
    if sanitized:
        pytest.skip("a sanitizer has memory of its own")
    peak = {}
    for count in (400, 4000):
        texts = write_jsonl(tmp_path / f"{count}.jsonl", some_texts(count, 300, 400))
        peak[count] = timed(program.parent, command(program, model, texts, tmp_path / f"c{count}",
                                                    "--threads", "2"))[1]
    print(f"\npeak memory in MiB by number of texts: {peak}")
    assert peak[4000] < 1.25 * peak[400] + 8
