# SPDX-License-Identifier: Apache-2.0
"""One capture made by several processes: the bytes of one process, for any number and order of shards, under
mpirun and Slurm, and after any of them was killed."""
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest
from conftest import ROOT, stop
from sharded import JOB, need, quiet_environment, run_shard, slurm

sys.path.append(str(ROOT / "tests" / "recorder"))
from recording import files_of, some_texts, write_jsonl, write_model  # noqa: E402

KEPT = {"rows": ["--rows", "100"], "moments": ["--keep", "moments"],
        "reservoir": ["--keep", "moments,reservoir=2", "--layout", "packed", "--stage", "both", "--bucket", "32"],
        "both": ["--keep", "rows,moments", "--stage", "both", "--groups", "3"]}


@pytest.fixture(scope="module")
def made(program, tmp_path_factory):
    """made(name) -> (words of the command, files of the capture that one process makes)"""
    folder = tmp_path_factory.mktemp("made")
    write_model(folder / "tiny")
    texts = write_jsonl(folder / "t.jsonl", some_texts(150, 150, 400))
    found = {}

    def make(name):
        if name not in found:
            words = ["capture", "-m", folder / "tiny", "-t", texts, "--max-length", "300", "--threads", "1",
                     "--tokens-at-once", "1500", "--quiet", *KEPT[name]]
            run_shard(program, 0, 1, *words, "-o", folder / name)
            found[name] = words, files_of(folder / name)
        return found[name]
    return make


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("count", [2, 3, 7])
def test_one_after_another(program, made, tmp_path, name, count):
    words, whole = made(name)
    for i in random.Random(count).sample(range(count), count):
        assert not (tmp_path / "out" / "capture.json").exists()
        run_shard(program, i, count, *words, "-o", tmp_path / "out")
    assert files_of(tmp_path / "out") == whole


@pytest.mark.parametrize("name", ["rows", "reservoir"])
def test_at_once(program, made, tmp_path, name):
    words, whole = made(name)
    for count in (2, 7):
        out = tmp_path / str(count)
        runs = [subprocess.Popen([program, *words, "-o", out, "--shard", f"{i}/{count}"], env=quiet_environment(),
                                 stderr=subprocess.PIPE, text=True) for i in range(count)]
        said = [run.communicate(timeout=120)[1] for run in runs]
        assert [run.returncode for run in runs] == [0] * count, said
        assert files_of(out) == whole


def test_some_shards_then_all_by_one(program, made, tmp_path):
    words, whole = made("both")
    run_shard(program, 1, 3, *words, "-o", tmp_path / "out")
    run_shard(program, 0, 1, *words, "-o", tmp_path / "out")
    assert files_of(tmp_path / "out") == whole


def test_merge_interrupted(program, made, tmp_path):
    """No capture that is not whole, and the same command goes on."""
    words, whole = made("both")
    parts = [tmp_path / str(i) for i in range(3)]
    for i, part in enumerate(parts):
        run_shard(program, i, 3, *words, "-o", part)
    merge = [program, "merge", *parts, "-o", tmp_path / "out"]
    for after in (0.02, 0.05, 0.1, 0.2, 0.4):
        run = subprocess.Popen(merge, env=quiet_environment(), stdout=subprocess.PIPE)
        time.sleep(after)
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=120)
        assert run.returncode in (0, -signal.SIGINT)
        assert run.returncode == 0 or not (tmp_path / "out" / "capture.json").exists()
    assert subprocess.run(merge, env=quiet_environment(), timeout=120, capture_output=True).returncode == 0
    assert files_of(tmp_path / "out") == whole


@pytest.mark.parametrize("name", ["both", "reservoir"])
def test_mpirun(program, made, tmp_path, name):
    need("mpirun")
    words, whole = made(name)
    subprocess.run(["mpirun", "-n", "3", program, *words, "-o", tmp_path / "out"], check=True, capture_output=True,
                   env=quiet_environment(), timeout=120)
    assert files_of(tmp_path / "out") == whole


def runs(pid, program):
    try:
        return os.path.samefile(f"/proc/{pid}/exe", program)
    except OSError:
        return False  # it has ended


def ranks_of(parent, program):
    """Process ids of the ranks below a launcher."""
    found, below = [], [parent]
    while below:
        pid = below.pop()
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                below += [int(child) for child in file.read().split()]
        except OSError:
            continue  # it has ended
        if runs(pid, program):
            found.append(pid)
    return found


def test_a_rank_of_mpirun_is_killed(program, made, tmp_path):
    """At any moment, by kill -9; mpirun ends the others. The same command computes what is missing."""
    need("mpirun")
    words, whole = made("reservoir")
    chance, killed, begin = random.Random(3), 0, time.monotonic()
    command = ["mpirun", "-n", "3", program, *words, "-o"]
    subprocess.run([*command, tmp_path / "once"], check=True, capture_output=True, env=quiet_environment(), timeout=120)
    duration = time.monotonic() - begin
    for turn in range(6):
        out = tmp_path / str(turn)
        run = subprocess.Popen([*command, out], env=quiet_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not (ranks := ranks_of(run.pid, program)) and run.poll() is None:
            time.sleep(0.002)
        time.sleep(chance.uniform(0, 0.7 * duration))
        ranks = ranks_of(run.pid, program)
        if ranks:
            os.kill(chance.choice(ranks), signal.SIGKILL)
        run.communicate(timeout=120)
        killed += run.returncode != 0
        while any(runs(rank, program) for rank in ranks):  # on a busy machine they outlive their launcher
            time.sleep(0.01)
        again = subprocess.run([*command, out], capture_output=True, text=True, env=quiet_environment(), timeout=120)
        assert again.returncode == 0, again.stderr
        assert files_of(out) == whole
    assert killed >= 2


def test_slurm_array(program, made, tmp_path):
    need("sbatch", "srun", "munged")
    words, whole = made("reservoir")
    job = tmp_path / "job"
    command = " ".join(shlex.quote(os.fspath(w)) for w in [program, *words, "-o", tmp_path / "array"])
    job.write_text(JOB.format(at=tmp_path, words=command))
    slurm(f"sbatch --wait --array=0-3 --job-name=array {job}")
    assert files_of(tmp_path / "array") == whole


def test_shards_say_which_they_are(program, made, tmp_path):
    """And who said so, before the hours of work."""
    words = [w for w in made("moments")[0] if w != "--quiet"]

    def said(*more, **variables):
        run = subprocess.run([program, *words, "-o", tmp_path / "out", *more], env=quiet_environment(**variables),
                             capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        return run.stderr

    share = r"shard 1 of 3 \(%s\): (\d+) of (\d+) blocks of texts, (\d+) of them are there\n"
    first = re.findall(share % "--shard", said("--shard", "1/3"))
    again = re.findall(share % "SLURM_PROCID", said(SLURM_PROCID="1", SLURM_NTASKS="3", SLURM_STEP_ID="0"))
    (mine, of, none), = first
    assert 0 < int(mine) < int(of) and none == "0" and again == [(mine, of, mine)]
    assert "shard" not in said("--shard", "none").split("resum")[0]


def test_two_with_one_number(program, made, tmp_path):
    words, _ = made("moments")
    first = subprocess.Popen([program, *words, "-o", tmp_path / "out", "--shard", "1/2"], env=quiet_environment())
    while first.poll() is None and not any((tmp_path / "out").glob(".partial/.units/*/ranks/1-of-2")):
        time.sleep(0.001)
    assert stop(first)
    said = run_shard(program, 1, 2, *words, "-o", tmp_path / "out", code=1).stderr
    assert "two processes have one number: shard 1 of 2" in said
    first.send_signal(signal.SIGCONT)
    assert first.wait(timeout=120) == 0


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
    done = subprocess.run([program, "merge", *words], env=quiet_environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("name", ["rows", "both"])
@pytest.mark.parametrize("kind", ["b", "post-n"])
def test_units_under_other_names(program, made, tmp_path, name, kind):
    """A block, or sums, of other texts: whole in themselves, but not what belongs there."""
    words, whole = made(name)
    parts = shard_folders(program, words, tmp_path, 3)
    units = [sorted(part.glob(f".partial/.units/*/{kind}*")) for part in parts]
    if name == "rows" and kind == "post-n":
        assert not any(units)
        return
    for victim, other in ((units[0][0], units[1][0]), (units[1][-1], units[1][0] if len(units[1]) > 1 else units[2][0])):
        shutil.copytree(victim, tmp_path / "right")
        shutil.rmtree(victim)
        shutil.copytree(other, victim)
        said = run_merge(program, *parts, "-o", tmp_path / "bad", code=1).stderr
        assert str(victim) in said and f"it was made as {other.parent.name}/{other.name}" in said
        assert not list((tmp_path / "bad").rglob("capture.json"))
        shutil.rmtree(victim)
        (tmp_path / "right").rename(victim)
    run_merge(program, *parts, "-o", tmp_path / "bad", code=0)
    assert files_of(tmp_path / "bad") == whole


@pytest.mark.parametrize("name", ["rows", "both"])
def test_units_without_a_seal_are_made_again(program, made, tmp_path, name):
    """As an older version left them: nothing says that they are what was made for their place."""
    words, whole = made(name)
    out = tmp_path / "out"
    run_shard(program, 0, 2, *words, "-o", out)
    blocks = sorted(out.glob(".partial/.units/*/b*"))
    assert len(blocks) >= 2
    for unit in out.glob(".partial/.units/*/*/"):
        if (unit / "seal").exists():
            (unit / "seal").unlink()
            for path in unit.glob("rows.*"):
                path.write_bytes(bytes(path.stat().st_size))
    said = run_merge(program, out, code=3).stderr
    assert re.search(r": 0 of \d+ blocks of texts are there", said)
    for i in range(2):
        run_shard(program, i, 2, *words, "-o", out)
    assert files_of(out) == whole


@pytest.mark.parametrize("name", ["rows", "reservoir"])
def test_a_shard_that_had_all_texts(program, made, tmp_path, name):
    """Of few texts one shard has all and makes the capture, the others have none: merging gives the same."""
    words = [*made(name)[0], "--max-texts", "2"]
    run_shard(program, 0, 1, *words, "-o", tmp_path / "whole")
    whole = files_of(tmp_path / "whole")
    parts = shard_folders(program, words, tmp_path, 3)
    assert sorted((part / "README.md").exists() or (part / "post").exists() for part in parts) == [False, False, True]
    merged = run_merge(program, *parts, "-o", tmp_path / "merged", code=0).stdout
    assert "is complete" in merged and files_of(tmp_path / "merged") == whole
    parts.sort(key=lambda part: not (part / ".partial").exists())
    assert files_of(parts[-1]) == whole
    run_merge(program, *parts, "-o", parts[-1], code=0)  # into the one that is whole
    assert files_of(parts[-1]) == whole
    assert "0 of 1 blocks of texts are there" in run_merge(program, *parts[:2], "-o", tmp_path / "two", code=3).stderr
    assert "a finished capture, and nothing waits" in run_merge(program, parts[-1], code=0).stdout
    other = tmp_path / "other"
    run_shard(program, 0, 1, *words, "--bucket", "7", "-o", other)
    said = run_merge(program, *parts[:2], other, "-o", tmp_path / "three", code=1).stderr
    assert "are not of one run: they differ in" in said and not (tmp_path / "three").exists()


def test_one_number_ends_while_another_waits(program, made, tmp_path):
    """The second is told which number and which process, though the run's folder has gone by then."""
    words = [*made("rows")[0], "--max-texts", "2"]
    run_shard(program, 0, 1, *words, "-o", tmp_path / "whole")
    refused = 0
    for turn in range(6):
        runs = [subprocess.Popen([program, *words, "-o", tmp_path / str(turn), "--shard", "2/3"], env=quiet_environment(),
                                 stderr=subprocess.PIPE, text=True) for _ in range(3)]
        said = [run.communicate(timeout=120)[1] for run in runs]
        assert any(run.returncode == 0 for run in runs), said
        for run, text in zip(runs, said):
            if run.returncode != 0:
                refused += 1
                others = [str(other.pid) for other in runs if other is not run]
                which = re.search(r"two processes have one number: shard 2 of 3 is being computed by process (\d+) of ", text)
                assert which and which[1] in others and "give each its own" in text, text
        assert files_of(tmp_path / str(turn)) == files_of(tmp_path / "whole")
    print(f"\n{refused} refused")
