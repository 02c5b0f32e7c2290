# SPDX-License-Identifier: Apache-2.0
"""One capture made by several processes: the bytes of one process, for any number and order of shards, and after any of
them was killed."""
import os
import random
import re
import shutil
import signal
import subprocess
import sys

import pytest
from conftest import BUILD, ROOT
from sharded import quiet_environment, run_shard

sys.path.append(str(ROOT / "tests" / "recorder"))
from recording import files_of, killed, some_texts, write_jsonl, write_model  # noqa: E402

KEPT = {"rows": ["--rows", "100"], "moments": ["--keep", "moments"],
        "reservoir": ["--keep", "moments,reservoir=2", "--layout", "packed", "--stage", "both", "--bucket", "32"],
        "both": ["--keep", "rows,moments", "--stage", "both", "--groups", "3"]}


@pytest.fixture(scope="module")
def made(program, tmp_path_factory):
    """made(name) -> (words of the command, files of the capture that one process makes)"""
    folder = tmp_path_factory.mktemp("made")
    write_model(folder / "tiny", num_hidden_layers=2)
    texts = write_jsonl(folder / "t.jsonl", some_texts(180, 200, 300))
    found = {}

    def make(name):
        if name not in found:
            words = ["capture", "-m", folder / "tiny", "-t", texts, "--max-length", "300", "--threads", "1",
                     "--tokens-at-once", "1500", "--quiet", *KEPT[name]]
            run_shard(program, 0, 1, *words, "-o", folder / name)
            found[name] = words, files_of(folder / name)
        return found[name]
    return make


@pytest.mark.release
@pytest.mark.cases(3)
@pytest.mark.parametrize("count, name", [(2, "rows"), (3, "moments"), (7, "both"), (3, "reservoir")])
def test_one_after_another(program, made, tmp_path, name, count):
    words, whole = made(name)
    for i in random.Random(count).sample(range(count), count):
        assert not (tmp_path / "out" / "capture.json").exists()
        run_shard(program, i, count, *words, "-o", tmp_path / "out")
    assert files_of(tmp_path / "out") == whole


@pytest.mark.test_all
@pytest.mark.parametrize("name", ["rows", "reservoir"])
def test_at_once(program, made, tmp_path, name):
    words, whole = made(name)
    runs = [subprocess.Popen([program, *words, "-o", tmp_path / "out", "--shard", f"{i}/7"], env=quiet_environment(),
                             stderr=subprocess.PIPE, text=True) for i in range(7)]
    said = [run.communicate(timeout=300)[1] for run in runs]
    assert [run.returncode for run in runs] == [0] * 7, said
    assert files_of(tmp_path / "out") == whole


def test_some_shards_then_all_by_one(program, made, tmp_path):
    words, whole = made("reservoir")
    run_shard(program, 1, 3, *words, "-o", tmp_path / "out")
    run_shard(program, 0, 1, *words, "-o", tmp_path / "out")
    assert files_of(tmp_path / "out") == whole


def test_a_capture_that_came_meanwhile_stays(program, made, tmp_path):
    """Between two shards, in the folder or where one of its stages would lie: nobody gave leave to replace it."""
    words, whole = made("rows")
    run_shard(program, 0, 2, *words, "-o", tmp_path / "out")
    run_shard(program, 0, 1, *words, "-o", tmp_path / "out" / "post")
    said = subprocess.run([program, *map(str, words), "-o", tmp_path / "out", "--shard", "1/2"], env=quiet_environment(),
                          capture_output=True, text=True)
    assert said.returncode == 1 and "another capture came here" in said.stderr and str(tmp_path / "out" / "post") in said.stderr
    assert files_of(tmp_path / "out" / "post") == whole
    (tmp_path / "out" / "post").rename(tmp_path / "elsewhere")
    run_shard(program, 1, 2, *words, "-o", tmp_path / "out")
    assert files_of(tmp_path / "out") == whole


@pytest.mark.test_all
def test_killed(program, made, tmp_path):
    """A shard, and merging: no capture that is not whole, and the same command goes on."""
    words, whole = made("both")
    for n in (1, 3, 6):
        parts = [tmp_path / f"{n}-{i}" for i in range(3)]
        assert killed(program, n, *words, "-o", parts[0], "--shard", "0/3") is not None
        for i, part in enumerate(parts):
            run_shard(program, i, 3, *words, "-o", part)
        out = tmp_path / f"{n}-merged"
        assert killed(program, n, "merge", *parts, "-o", out, by=signal.SIGINT) is not None
        assert not (out / "capture.json").exists() and not (out / "post" / "capture.json").exists()
        run_merge(program, *parts, "-o", out, code=0)
        assert files_of(out) == whole


def test_shards_say_which_they_are(program, made, tmp_path):
    """And who said so, before the hours of work."""
    words = [w for w in made("moments")[0] if w != "--quiet"]

    def said(*more, **variables):
        run = subprocess.run([program, *words, "-o", tmp_path / "out", *more], env=quiet_environment(**variables),
                             capture_output=True, text=True, timeout=900)
        assert run.returncode == 0, run.stderr
        return run.stderr

    share = r"shard 1 of 3 \(%s\): (\d+) of (\d+) blocks of texts, (\d+) of them are there\n"
    first = re.findall(share % "--shard", said("--shard", "1/3"))
    again = re.findall(share % "SLURM_PROCID", said(SLURM_PROCID="1", SLURM_NTASKS="3", SLURM_STEP_ID="0"))
    (mine, of, none), = first
    assert 0 < int(mine) < int(of) and none == "0" and again == [(mine, of, mine)]
    assert "shard" not in said("--shard", "none").split("resum")[0]


def test_two_with_one_number(program, made, tmp_path, sanitized):
    """A mistake of many a job script: they make the same, and what is missing is found."""
    if sanitized:
        pytest.skip("nothing can be put in front of the C library here")
    words, whole = made("moments")
    first = subprocess.Popen([program, *words, "-o", tmp_path / "out", "--shard", "1/2"],
                             env=quiet_environment(LD_PRELOAD=BUILD / "tests/recorder/libkill_at.so", KILL_AT=6,
                                                   KILL_BY=int(signal.SIGSTOP)))
    os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    run_shard(program, 1, 2, *words, "-o", tmp_path / "out")
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=300) == 0
    assert not (tmp_path / "out" / "capture.json").exists()
    run_shard(program, 0, 2, *words, "-o", tmp_path / "out")
    assert files_of(tmp_path / "out") == whole


def test_other_settings_beside_it(program, made, tmp_path):
    words, _ = made("moments")
    run_shard(program, 0, 2, *words, "-o", tmp_path / "out")
    for other in (["--groups", "0"], ["--stage", "pre"], ["--max-texts", "100"], ["--layers", "1"]):
        said = run_shard(program, 1, 2, *words, *other, "-o", tmp_path / "out", code=1).stderr
        assert "holds an unfinished capture of another run (not the same: " in said


def shard_folders(program, words, tmp_path, count):
    """Shards in folders of their own."""
    parts = [tmp_path / f"part-{i}" for i in range(count)]
    for i, part in enumerate(parts):
        run_shard(program, i, count, *words, "-o", part)
    return parts


def run_merge(program, *words, code):
    done = subprocess.run([program, "merge", *words], env=quiet_environment(), capture_output=True, text=True, timeout=900)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("name", ["rows", "both"])
def test_units_under_other_names(program, made, tmp_path, name):
    """A block of other texts: whole in itself, but not what belongs there. One whose bytes were changed is named."""
    words, whole = made(name)
    parts = shard_folders(program, words, tmp_path, 3)
    victim, other = (min(part.glob(".partial/units/b*")) for part in parts[:2])
    right = victim.read_bytes()
    victim.write_bytes(other.read_bytes())
    said = run_merge(program, *parts, "-o", tmp_path / "bad", code=3).stderr
    assert re.search(r": (\d+) of (\d+) blocks of texts are there", said)
    victim.write_bytes(bytes([right[0] ^ 1]) + right[1:])
    said = run_merge(program, *parts, "-o", tmp_path / "bad", code=1).stderr
    assert f"{victim}: remove it and run the shard that made it again" in said
    assert not list((tmp_path / "bad").rglob("capture.json"))
    victim.write_bytes(right)
    run_merge(program, *parts, "-o", tmp_path / "bad", code=0)
    assert files_of(tmp_path / "bad") == whole


def test_blocks_that_several_folders_have(program, made, tmp_path):
    """They are the same; also where the output folder is one of the inputs, by another name. --force replaces a capture, not
    what is being merged."""
    words, whole = made("moments")
    parts = shard_folders(program, words, tmp_path, 3)
    run_merge(program, *parts[:2], "-o", tmp_path / "two", code=3)
    run_merge(program, tmp_path / "two", *parts, "-o", tmp_path / "all", code=0)
    assert files_of(tmp_path / "all") == whole
    run_merge(program, *parts, "-o", f"{tmp_path}/./part-1", "--force", code=0)
    assert files_of(parts[1]) == whole


@pytest.mark.parametrize("name", ["reservoir", "rows"])
def test_a_shard_that_had_all_texts(program, made, tmp_path, name):
    """Of few texts one shard has all and makes the capture, the others have none: nothing is left to merge."""
    words = [*made(name)[0], "--max-texts", "2"]
    run_shard(program, 0, 1, *words, "-o", tmp_path / "whole")
    parts = shard_folders(program, words, tmp_path, 3)
    parts.sort(key=lambda part: not (part / ".partial").exists())
    assert files_of(parts[-1]) == files_of(tmp_path / "whole")
    said = run_merge(program, *parts, "-o", tmp_path / "merged", code=1).stderr
    assert f"{parts[-1]}: a finished capture" in said and not (tmp_path / "merged").exists()
    assert "0 of 1 blocks of texts are there" in run_merge(program, *parts[:2], "-o", tmp_path / "two", code=3).stderr
    assert "a finished capture, and nothing waits" in run_merge(program, parts[-1], code=0).stdout


@pytest.mark.test_all
def test_shards_of_different_runs(program, made, tmp_path):
    words = made("rows")[0]
    parts = shard_folders(program, words, tmp_path, 2)
    run_shard(program, 1, 2, *words, "--bucket", "7", "-o", tmp_path / "other")
    said = run_merge(program, parts[0], tmp_path / "other", "-o", tmp_path / "three", code=1).stderr
    assert "are not of one run: they differ in" in said and not (tmp_path / "three").exists()
