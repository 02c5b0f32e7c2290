# SPDX-License-Identifier: Apache-2.0
"""An analysis that several processes share: the bytes of one process, whatever their number and order, what each of them
says, and what is done about units that do not belong there."""
import random
import re
import shutil
import subprocess

import pytest
from conftest import ROOT, check_survived, seal, synth
from sharded import quiet_environment, results, run_shard, units


@pytest.fixture(scope="module")
def grouped(qkscope, tmp_path_factory):
    """3 layers of 6 query heads, 3 a key head: 6 groups of several sizes."""
    root = tmp_path_factory.mktemp("grouped") / "c"
    synth(qkscope, root, layers=3, query_heads=6, q_per_kv_group=3, dim=16, examples=12, rows=40, buckets=8,
          bucket_width=16, r_q=0.4, r_k=-0.5, seed=3)
    return root


@pytest.fixture(scope="module")
def whole(program, grouped, tmp_path_factory):
    """(words of an analysis, what one process makes of it)"""
    out, words = tmp_path_factory.mktemp("whole") / "out", ["analyze", grouped, "--ci", "95", "--complement", "--lda", "--threads", "1"]
    run_shard(program, 0, 1, *words, "-o", out)
    return words, results(out)


def merge(program, out, code=0):
    done = subprocess.run([program, "merge", out], capture_output=True, text=True, env=quiet_environment())
    check_survived(done.returncode, done.stderr)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("count", [3, 7])
def test_same_bytes_for_any_number_of_shards(program, whole, tmp_path, count):
    words, expected = whole
    order = random.Random(count).sample(range(count), count)
    outs = [run_shard(program, i, count, *words, "-o", tmp_path / "out") for i in order]
    assert results(tmp_path / "out") == expected
    ended = [i for i, done in enumerate(outs) if ".csv\n" in done.stdout]
    assert len(ended) == 1, [done.stdout for done in outs]
    for done in outs[:ended[0]]:
        assert re.search("units are there; the last process to end|units is this process's", done.stdout)
        assert done.stdout.count("\n") == 1 and not done.stderr


@pytest.mark.test_all
@pytest.mark.parametrize("name, options", [("moments", ["--keep", "moments"]), ("packed", ["--layout", "packed"])])
def test_same_bytes_of_states_and_packed_captures(program, qkscope, tmp_path, name, options):
    qkscope("capture", "-m", ROOT / "examples/kjv-tiny/step-2004", "-t", ROOT / "examples/kjv-tiny/passages.jsonl",
            "--max-texts", "4", "-o", tmp_path / "c", *options, expect=0)
    words = ["analyze", tmp_path / "c", "--ci", "95"]
    run_shard(program, 0, 1, *words, "-o", tmp_path / "one")
    for i in (2, 0, 1):
        run_shard(program, i, 3, *words, "-o", tmp_path / "three")
    assert results(tmp_path / "three") == results(tmp_path / "one")


@pytest.mark.test_all
def test_all_at_once(program, whole, tmp_path):
    """Exactly one folder comes of it, and nobody fails."""
    words, expected = whole
    children = [subprocess.Popen([program, *words, "-o", tmp_path / "out", "--shard", f"{i}/7"], env=quiet_environment(),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for i in range(7)]
    said = [child.communicate(timeout=300) for child in children]
    assert [child.returncode for child in children] == [0] * 7, said
    assert results(tmp_path / "out") == expected


@pytest.mark.test_all
def test_heads_that_fail(program, grouped, tmp_path):
    """They are results like others: the last process says what one process says, and has its exit code."""
    root = shutil.copytree(grouped, tmp_path / "damaged")
    for name in ("l00h01q", "l02h01k"):
        (root / name / "data.parquet").write_bytes((root / name / "data.parquet").read_bytes()[:500])
    words = ["analyze", root, "--threads", "1"]
    run_shard(program, 0, 1, *words, "-o", tmp_path / "one", code=3)
    for i in range(3):
        run_shard(program, i, 3, *words, "-o", tmp_path / "three", code=0 if i < 2 else 3)
    assert results(tmp_path / "three") == results(tmp_path / "one")


def test_merge(program, whole, tmp_path):
    """What is missing is told; where the last process could not write, merging puts together."""
    (words, expected), out = whole, tmp_path / "out"
    assert "no analysis of several processes waits here" in merge(program, tmp_path, code=1).stderr
    run_shard(program, 0, 2, *words, "-o", out)
    said = merge(program, out, code=3).stderr
    missing = said.split("unit ")[1].split()[0]
    assert "(3 of 6 are there)" in said and missing not in units(out)
    (out / "qk.csv").mkdir()
    assert "qk.csv" in run_shard(program, 1, 2, *words, "-o", out, "--force", code=1).stderr and len(units(out)) == 6
    (out / "qk.csv").rmdir()
    merge(program, out)
    assert results(out) == expected


def test_one_process_uses_what_is_there(program, whole, tmp_path):
    """But no units of other settings, and says whom it waits for in vain."""
    (words, expected), out = whole, tmp_path / "out"
    run_shard(program, 0, 3, *words, "-o", out)
    said = run_shard(program, 1, 3, *words, "--layers", "0,1", "-o", out).stderr
    assert said.count("warning: ") == 1 and "layers (the default there, " in said and str(out / ".units") in said
    assert "2 of 6 units are there already" in run_shard(program, 0, 1, *words, "-o", out, "-v").stderr
    shutil.rmtree(out / ".units")
    assert results(out) == expected


def spoil_truncated(data):
    return data[:-100]


def spoil_foreign(data):
    return b"PAR1" + bytes(len(data))


@pytest.mark.parametrize("spoil, words_of_it", [(spoil_truncated, "its bytes are not those that were written"),
                                                (spoil_foreign, "no unit of qkscope")])
def test_spoiled_units(program, whole, tmp_path, spoil, words_of_it):
    (words, expected), out = whole, tmp_path / "out"
    run_shard(program, 0, 2, *words, "-o", out)
    victim = sorted(out.glob(".units/*/*/results"))[1]
    victim.write_bytes(spoil(victim.read_bytes()))
    if spoil is spoil_foreign:
        seal(victim.parent)
    said = run_shard(program, 1, 2, *words, "-o", out, code=1).stderr
    assert str(victim) in said and words_of_it in said and not list(out.glob("*.csv"))
    shutil.rmtree(victim.parent)
    run_shard(program, 0, 2, *words, "-o", out)
    assert results(out) == expected


@pytest.mark.test_all
def test_units_made_to_do_harm(program, whole, tmp_path):
    """Any number in a unit, the hash being right: no crash, no memory that is not there."""
    ready, words = tmp_path / "ready", [*whole[0], "--layers", "0"]
    (ready / "qk.csv").mkdir(parents=True)
    for i in range(2):
        run_shard(program, i, 2, *words, "-o", ready, "--force", code=i)
    (ready / "qk.csv").rmdir()
    name = sorted(ready.glob(".units/*/*/results"))[0].relative_to(ready)
    data, chance, refused = (ready / name).read_bytes(), random.Random(2), 0
    for turn in range(100):
        spoiled, out = bytearray(data), shutil.copytree(ready, tmp_path / str(turn))
        at, size = chance.randrange(20, 260 if turn % 2 else len(data) - 8), chance.choice((1, 4, 8))  # the first head's sizes
        spoiled[at:at + size] = chance.choice((0, 1, 2**31, 2**32, 2**63, 2**64 - 1, 2**40)).to_bytes(8, "little")[:size]
        (out / name).write_bytes(spoiled)
        seal((out / name).parent)
        done = subprocess.run([program, "merge", out], capture_output=True, text=True, env=quiet_environment())
        check_survived(done.returncode, done.stderr)
        if done.returncode == 1:
            refused += 1
            assert str(name) in done.stderr and not (out / "qk.csv").exists()
    assert refused
