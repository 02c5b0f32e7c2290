# SPDX-License-Identifier: Apache-2.0
"""Processes of a shared analysis that die, come late, come twice or meet what does not belong there."""
import json
import os
import pathlib
import random
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest
from conftest import check_survived, seal, stop, synth
from sharded import left_over, need, quiet_environment, results, run_shard, units


@pytest.fixture(scope="module")
def capture(qkscope, tmp_path_factory):
    """24 groups; a process of three takes half a second."""
    root = tmp_path_factory.mktemp("killed") / "c"
    synth(qkscope, root, layers=8, query_heads=6, q_per_kv_group=2, dim=64, examples=20, rows=60, buckets=16,
          bucket_width=8, seed=5)
    return root


@pytest.fixture(scope="module")
def words(capture):
    return ["analyze", capture, "--threads", "1", "--ci", "95"]


@pytest.fixture(scope="module")
def whole(program, words, tmp_path_factory):
    out = tmp_path_factory.mktemp("whole") / "out"
    run_shard(program, 0, 1, *words, "-o", out)
    return results(out)


def start(program, *words):
    return subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=quiet_environment())


def wait_for_units(out, count, child):
    while len(units(out)) < count and child.poll() is None:
        time.sleep(0.002)
    assert child.poll() is None, f"it ended before that: {child.communicate()}"


def test_killed_at_any_moment(program, words, whole, tmp_path):
    """What is there stays; the same command computes the rest, and tells how much that is."""
    chance = random.Random(1)
    for turn in range(4):
        out = tmp_path / str(turn)
        child = start(program, *words, "-o", out, "--shard", "1/3")
        wait_for_units(out, chance.randrange(6), child)
        time.sleep(chance.random() * 0.05)
        child.kill()
        child.communicate()
        before = units(out)
        assert len(before) < 8
        again = run_shard(program, 1, 3, *words, "-o", out, "-v")
        assert f"shard 1 of 3 (--shard): 8 of 24 units, {len(before)} of them there already" in again.stderr
        assert not left_over(out)
        after = units(out)
        assert len(after) == 8 and before.items() <= after.items()
        run_shard(program, 0, 3, *words, "-o", out)
        run_shard(program, 2, 3, *words, "-o", out)
        assert results(out) == whole


def test_one_of_three_ranks_killed(program, words, whole, tmp_path):
    """mpirun ends the others when one is killed; run again, it computes what is missing."""
    need("mpirun")
    out = tmp_path / "out"
    command = ["mpirun", "-n", "3", program, *words, "-o", out]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                           env=quiet_environment())
    wait_for_units(out, 4, run)
    ranks = list(out.glob(".units/*/ranks/1-of-3"))
    assert len(ranks) == 1
    os.kill(int(ranks[0].read_text().split("\n")[0].split("-")[-2]), signal.SIGKILL)
    said = run.communicate(timeout=120)
    assert run.returncode != 0, said
    before = units(out)
    assert 4 <= len(before) < 24 and not list(out.glob("*.csv"))
    done = subprocess.run([*command, "-v"], capture_output=True, text=True, timeout=120, env=quiet_environment())
    assert done.returncode == 0, done.stderr
    there = [int(line.split(" units, ")[1].split()[0]) for line in done.stderr.splitlines() if " of them there" in line]
    assert len(there) == 3 and sum(there) == len(before)
    assert results(out) == whole


def test_stopped_politely(program, words, whole, tmp_path):
    out = tmp_path / "out"
    child = start(program, *words, "-o", out, "--shard", "0/2")
    wait_for_units(out, 2, child)
    child.terminate()
    err = child.communicate(timeout=60)[1]
    assert child.returncode == -signal.SIGTERM and "stopped before the end; the same command goes on" in err
    assert 2 <= len(units(out)) < 12 and not left_over(out)
    run_shard(program, 0, 1, *words, "-o", out)  # a single process goes on as well
    assert results(out) == whole


def test_one_process_uses_what_is_there(program, words, whole, tmp_path):
    out = tmp_path / "out"
    run_shard(program, 0, 3, *words, "-o", out)
    assert "8 of 24 units are there already" in run_shard(program, 0, 1, *words, "-o", out, "-v").stderr
    assert results(out) == whole


def test_another_run_beside_units(program, qkscope, capture, words, whole, tmp_path):
    """Units of other settings are neither used nor touched."""
    out = tmp_path / "out"
    run_shard(program, 0, 2, *words, "-o", out)
    there = units(out)
    run_shard(program, 0, 1, "analyze", capture, "-o", out, "--components", "3", "--threads", "1")
    assert units(out) == there
    run_shard(program, 1, 2, *words, "-o", out)
    assert results(out) == whole


def merge(program, out, *options, code=0):
    done = subprocess.run([program, "merge", out, *options], capture_output=True, text=True,
                          env=quiet_environment(), cwd=options and "/" or None)
    assert done.returncode == code, done.stderr
    return done


def test_merge(program, words, whole, tmp_path):
    out = tmp_path / "out"
    done = merge(program, tmp_path, code=1)
    assert "no analysis of several processes waits here" in done.stderr
    run_shard(program, 0, 2, *words, "-o", out)
    done = merge(program, out, code=3)
    assert "unit l0" in done.stderr and "(12 of 24 are there): run the same command again" in done.stderr
    missing = done.stderr.split("unit ")[1].split()[0]
    assert missing not in units(out) and missing == min({f"l{i:02d}h{j:02d}k" for i in range(8)
                                                         for j in range(3)} - set(units(out)))
    # the last process cannot write: a folder is in the way
    (out / "qk.csv").mkdir()
    failed = run_shard(program, 1, 2, *words, "-o", out, "--force", code=1)
    assert "qk.csv" in failed.stderr and len(units(out)) == 24
    (out / "qk.csv").rmdir()
    done = merge(program, out)
    assert "qk.csv" in done.stdout and "nothing waits" not in done.stdout
    assert results(out) == whole
    assert "its tables are there, and nothing waits" in merge(program, out).stdout


def test_merge_with_heads_that_fail(program, capture, tmp_path):
    """The exit code of one process."""
    root, out = shutil.copytree(capture, tmp_path / "c"), tmp_path / "out"
    file, = (root / "l00h00q").glob("*.parquet")
    file.write_bytes(b"PAR1")
    words = ["pca", root, "-o", out, "--force"]
    run_shard(program, 0, 2, *words)
    (out / "qk.csv").mkdir()
    run_shard(program, 1, 2, *words, code=1)
    (out / "qk.csv").rmdir()
    done = merge(program, out, code=3)
    assert "1 of 48 heads have no numbers" in done.stderr and "nothing waits" not in done.stdout
    assert "manifest.json" in results(out)


def test_merge_from_elsewhere_with_every_setting(program, capture, tmp_path):
    """The settings are those that were recorded, also of a capture that was named from another folder."""
    config = tmp_path / "c.yaml"
    config.write_text("data: {dataset_name: c, layers: [1, 3], kinds: [k]}\n"
                      "pca: {n_components: 4, backend: torch}\ndevice: cuda\n"
                      "analysis: {correlation_threshold: 0.17, combined: false}\n")
    (tmp_path / "c").symlink_to(capture)
    words = ["pca", "--config", config, "--model-name", "a, b", "-o", tmp_path / "out", "--threads", "1"]
    run_shard(program, 0, 1, *words[:-3], tmp_path / "one", "--threads", "1", cwd=tmp_path)
    for i in range(2):
        run_shard(program, i, 2, *words, cwd=tmp_path)
    assert results(tmp_path / "out") == results(tmp_path / "one")
    run_shard(program, 0, 2, *words, cwd=tmp_path)
    (tmp_path / "out" / "summary.json").unlink()
    (tmp_path / "out" / "summary.json").mkdir()
    run_shard(program, 1, 2, *words, cwd=tmp_path, code=1)
    (tmp_path / "out" / "summary.json").rmdir()
    merge(program, tmp_path / "out", "--threads", "2")
    found, expected = results(tmp_path / "out"), results(tmp_path / "one")
    assert found["summary.json"].pop("dataset") == str(tmp_path / "c")  # as it is found from here
    assert expected["summary.json"].pop("dataset") == "c"
    assert found["summary.json"]["pca_backend"] == "torch" and found["summary.json"]["device"] == "cuda"
    assert found.pop("manifest.json")["runs"][-1]["settings"] == expected.pop("manifest.json")["runs"][-1]["settings"]
    assert found == expected


def test_two_runs_wait_and_one_is_whole(program, capture, tmp_path):
    out = tmp_path / "out"
    for i in range(2):
        (out / "qk.csv").mkdir(parents=True, exist_ok=True)
        run_shard(program, i, 2, "pca", capture, "-o", out, "--force", code=i)
    run_shard(program, 0, 2, "rotate", capture, "-o", out, "--force")
    (out / "qk.csv").rmdir()
    done = merge(program, out, code=3)
    assert "is missing" in done.stderr and "qk.csv" in done.stdout and (out / "qk.csv").is_file()
    assert len(list((out / ".units").iterdir())) == 1
    run_shard(program, 1, 2, "rotate", capture, "-o", out)
    assert "rotated.csv" in results(out)


# ---- numbers given twice ---------------------------------------------------------------------

def test_two_processes_with_one_number(program, words, tmp_path):
    out = tmp_path / "out"
    first = start(program, *words, "-o", out, "--shard", "1/3")
    wait_for_units(out, 1, first)
    assert stop(first)
    second = run_shard(program, 1, 3, *words, "-o", out, code=1)
    assert "two processes have one number: shard 1 of 3" in second.stderr and str(first.pid) in second.stderr
    other = run_shard(program, 1, 4, *words, "-o", out)  # another number, also of another count
    assert "units are there" in other.stdout
    first.send_signal(signal.SIGCONT)
    assert first.communicate(timeout=60)[1] == "" and first.returncode == 0
    run_shard(program, 1, 3, *words, "-o", out)


def test_a_late_one(program, words, whole, tmp_path):
    """It computes what others have put together meanwhile: it is told so, and does no harm."""
    out = tmp_path / "out"
    late = start(program, *words, "-o", out, "--shard", "0/2")
    wait_for_units(out, 1, late)
    assert stop(late)
    for i in range(3):
        run_shard(program, i, 3, *words, "-o", out)
    assert results(out) == whole
    late.send_signal(signal.SIGCONT)
    said = late.communicate(timeout=60)
    assert late.returncode == 0, said
    assert "another process" in said[0]
    assert results(out) == whole


def test_rows_that_changed_meanwhile(program, qkscope, tmp_path):
    """Units of what a capture was before are not those of what it is, though all sizes are the same."""
    made = dict(layers=2, query_heads=4, q_per_kv_group=2, dim=8, examples=4, rows=30, buckets=4,
                bucket_width=8, float32=True)
    synth(qkscope, tmp_path / "c", seed=1, **made)
    words = ["pca", tmp_path / "c", "-o", tmp_path / "out"]
    run_shard(program, 0, 2, *words)
    file = tmp_path / "c" / "l00h00q"
    file, = file.glob("*.parquet")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    run_shard(program, 1, 2, *words)
    done = merge(program, tmp_path / "out", code=3)
    assert "unit l00h00k is missing (3 of 4 are there)" in done.stderr


# ---- what does not belong there --------------------------------------------------------------

def spoil_truncated(data):
    return data[:-100]


def spoil_one_bit(data):
    return data[:300] + bytes([data[300] ^ 4]) + data[301:]


def spoil_foreign(data):
    return b"PAR1" + bytes(len(data))


def spoil_newer(data):
    return data[:16] + struct.pack("<I", 99) + data[20:]


def spoil_empty(data):
    return b""


SPOILERS = {spoil_truncated: "its bytes are not those that were written",
            spoil_one_bit: "its bytes are not those that were written", spoil_foreign: "no unit of qkscope",
            spoil_newer: "written by a later qkscope", spoil_empty: "no unit of qkscope"}


@pytest.fixture(scope="module")
def half(program, words, tmp_path_factory):
    out = tmp_path_factory.mktemp("half") / "out"
    run_shard(program, 0, 2, *words, "-o", out)
    return out


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda f: f.__name__)
def test_spoiled_units(program, words, whole, half, tmp_path, spoil):
    out = shutil.copytree(half, tmp_path / "out")
    victim = sorted(out.glob(".units/*/*/results"))[3]
    victim.write_bytes(spoil(victim.read_bytes()))
    if spoil in (spoil_foreign, spoil_newer, spoil_empty):
        seal(victim.parent)
    done = run_shard(program, 1, 2, *words, "-o", out, code=1)
    assert str(victim) in done.stderr and SPOILERS[spoil] in done.stderr and "remove its folder" in done.stderr
    assert not list(out.glob("*.csv"))
    shutil.rmtree(victim.parent)
    run_shard(program, 0, 2, *words, "-o", out)
    assert results(out) == whole


@pytest.fixture(scope="module")
def ready(program, capture, tmp_path_factory):
    """All units, which nobody has put together yet."""
    out = tmp_path_factory.mktemp("ready") / "out"
    few = ["analyze", capture, "--layers", "0", "--threads", "1", "--ci", "95", "--complement", "-o", out]
    run_shard(program, 0, 2, *few)
    (out / "qk.csv").mkdir()
    run_shard(program, 1, 2, *few, "--force", code=1)
    (out / "qk.csv").rmdir()
    return out


def test_units_made_to_do_harm(program, ready, tmp_path):
    """Any number in a unit, the hash being right: no crash, no memory that is not there."""
    name = sorted(ready.glob(".units/*/*/results"))[0].relative_to(ready)
    data = (ready / name).read_bytes()
    chance = random.Random(2)
    refused = 0
    for turn in range(300):
        spoiled, out = bytearray(data), tmp_path / str(turn)
        at = chance.randrange(20, 260 if turn % 2 else len(data) - 8)  # the first head's sizes
        size = chance.choice((1, 4, 8))
        spoiled[at:at + size] = chance.choice((0, 1, 2**31, 2**32, 2**63, 2**64 - 1, 2**40)).to_bytes(8, "little")[:size]
        if turn == 0:
            spoiled = data[:200]
        shutil.copytree(ready, out)
        (out / name).write_bytes(spoiled)
        seal((out / name).parent)
        done = subprocess.run([program, "merge", out], capture_output=True, text=True, env=quiet_environment())
        check_survived(done.returncode, done.stderr)
        assert done.returncode in (0, 1, 3), done.stderr
        if done.returncode == 1:
            refused += 1
            assert str(name) in done.stderr and not (out / "qk.csv").exists()
        shutil.rmtree(out)
    print(f"\n{refused} of 300 refused")
    assert refused > 5


def test_units_under_other_names(program, words, whole, half, tmp_path):
    """Results of other heads, and of the same heads with other settings: whole, but not what belongs there."""
    out, other = shutil.copytree(half, tmp_path / "out"), tmp_path / "other"
    run_shard(program, 0, 2, *words, "--force", "--components", "2", "-o", other)
    victim, neighbour = (path.parent for path in sorted(out.glob(".units/*/*/results"))[:2])
    foreign, = other.glob(f".units/*/{victim.name}")
    for source in (neighbour, foreign):
        shutil.rmtree(victim)
        shutil.copytree(source, victim)
        said = run_shard(program, 1, 2, *words, "-o", out, code=1).stderr
        assert str(victim) in said and f"it was made as {source.parent.name}/{source.name}" in said
        assert not list(out.glob("*.csv"))
    (victim / "seal").unlink()  # as an older version left it
    run_shard(program, 1, 2, *words, "-o", out)
    assert not list(out.glob("*.csv"))
    run_shard(program, 0, 2, *words, "-o", out)
    assert results(out) == whole


def test_units_of_another_version(program, words, half, tmp_path):
    out = shutil.copytree(half, tmp_path / "out")
    plan, = out.glob(".units/*/plan.json")
    plan.write_text(plan.read_text().replace('"qkscope": "', '"qkscope": "9.'))
    done = merge(program, out, code=1)
    assert str(plan) in done.stderr and "its units are of qkscope 9." in done.stderr
    for text in ("", "[]", "{", '{"kind": "analysis"}', '{"kind": "analysis", "version": 1, "qkscope": 3}',
                 '{"kind": "other"}'):
        plan.write_text(text)
        assert merge(program, out, code=1).stderr
    settings = json.loads((half / plan.relative_to(out)).read_text())
    for name, value in (("no-such", "1"), ("components", "x"), ("components", 5)):
        plan.write_text(json.dumps({**settings, "settings": {**settings["settings"], name: value}}))
        assert str(plan) in merge(program, out, code=1).stderr


def test_a_full_disk(program, words, whole, tmp_path):
    """A process that cannot keep a unit stops, and says where; what is there stays."""
    out = tmp_path / "out"

    def restrict():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
    done = run_shard(program, 0, 2, *words, "-o", out, code=1, preexec_fn=restrict)
    assert "File too large" in done.stderr and str(out / ".units") in done.stderr
    assert not units(out) and not left_over(out)
    for i in range(2):
        run_shard(program, i, 2, *words, "-o", out)
    assert results(out) == whole


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("call", ["fsync", "rename", "link", "mkdir"])
def test_every_call_fails_once(program, words, half, whole, tmp_path, sanitized, call):
    if sanitized:
        pytest.skip("a sanitizer does not run under strace")
    few = [words[0], words[1], "--layers", "0,1", "--threads", "1"]
    run_shard(program, 0, 1, *few, "-o", tmp_path / "one")
    failed = 0
    for n in range(1, 60, 2):
        out = tmp_path / f"{call}{n}"
        run_shard(program, 1, 2, *few, "-o", out)
        run = subprocess.run(["strace", "-f", "-o", os.devnull, "-e", f"trace={call}", "-e",
                              f"inject={call}:error=ENOSPC:when={n}", program, *few, "-o", out,
                              "--shard", "0/2"], capture_output=True, text=True, env=quiet_environment())
        if "ptrace" in run.stderr:
            pytest.skip("strace may not trace here")
        if run.returncode == 0:
            assert results(out) == results(tmp_path / "one")
            if failed or n > 8:
                break
            continue
        failed += 1
        assert run.returncode == 1 and "No space left" in run.stderr, run.stderr
        run_shard(program, 0, 2, *few, "-o", out)
        assert results(out) == results(tmp_path / "one")
        shutil.rmtree(out)
    print(f"\n{failed} failures of {call}")
    assert failed > (0 if call == "link" else 1) or call == "link"
