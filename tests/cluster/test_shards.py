# SPDX-License-Identifier: Apache-2.0
"""An analysis that several processes share: the bytes of one process, whatever their number and
order, and what each of them says."""
import json
import random
import re
import shutil
import subprocess

import pytest
from conftest import EXAMPLE, ROOT, synth
from sharded import left_over, quiet_environment, results, run_shard, units


@pytest.fixture(scope="module")
def grouped(qkscope, tmp_path_factory):
    """3 layers of 6 query heads, 3 a key head: 6 groups of several sizes."""
    root = tmp_path_factory.mktemp("grouped") / "c"
    synth(qkscope, root, layers=3, query_heads=6, q_per_kv_group=3, dim=16, examples=12, rows=40, buckets=8,
          bucket_width=16, r_q=0.4, r_k=-0.5, seed=3)
    return root


COMMANDS = {
    "analyze": ["analyze", "--ci", "95", "--complement", "--lda"],
    "analyze, some heads": ["analyze", "--layers", "0,2", "--heads", "1-3", "--buckets", "5"],
    "pca": ["pca", "--components", "3"],
    "pca of kinds": ["pca", "--kinds", "q,k"],
    "rotate": ["rotate", "--b-axis", "centroid"],
    "plasticity": ["plasticity", "--variance", "full", "--max-pairs", "50", "--seed", "4"],
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("capture", ["example", "grouped"])
def test_same_bytes_for_any_number_of_shards(program, grouped, tmp_path, name, capture):
    capture = EXAMPLE if capture == "example" else grouped
    command, *options = COMMANDS[name]
    words = [command, capture, *options, "--threads", "2"]
    run_shard(program, 0, 1, *words, "-o", tmp_path / "one")
    expected = results(tmp_path / "one")
    assert len(expected) > 2 and not any(name.startswith(".units") for name in expected)
    for count in (2, 3, 7):
        order = list(range(count))
        random.Random(count).shuffle(order)
        outs = [run_shard(program, i, count, *words, "-o", tmp_path / str(count)) for i in order]
        assert results(tmp_path / str(count)) == expected
        ended = [i for i, done in enumerate(outs) if "qk.csv" in done.stdout or ".csv\n" in done.stdout]
        assert len(ended) == 1, [done.stdout for done in outs]
        for done in outs[:ended[0]]:
            assert ("units are there; the last process to end" in done.stdout
                    or "units is this process's" in done.stdout)
            assert done.stdout.count("\n") == 1 and not done.stderr


@pytest.fixture(scope="module")
def states(qkscope, tmp_path_factory):
    """Captures of one model: moments alone, moments and chosen rows, rows of many heads in a file."""
    root = tmp_path_factory.mktemp("states")
    for name, options in {"moments": ["--keep", "moments"], "reservoir": ["--keep", "moments,reservoir=8"],
                          "packed": ["--layout", "packed"]}.items():
        qkscope("capture", "-m", ROOT / "examples/kjv-tiny/step-2004", "-t", ROOT / "examples/kjv-tiny/passages.jsonl",
                "--max-texts", "8", "-o", root / name, *options, expect=0)
    return root


@pytest.mark.parametrize("name", ["moments", "reservoir", "packed"])
def test_same_bytes_of_states_and_packed_captures(program, states, tmp_path, name):
    words = ["analyze", states / name, "--ci", "95"]
    run_shard(program, 0, 1, *words, "-o", tmp_path / "one")
    for i in (2, 0, 1):
        run_shard(program, i, 3, *words, "-o", tmp_path / "three")
    assert results(tmp_path / "three") == results(tmp_path / "one")


@pytest.mark.parametrize("name", ["moments", "packed"])
def test_units_of_states_and_packed_captures_are_of_their_files(program, states, tmp_path, name):
    root = shutil.copytree(states / name, tmp_path / "c")
    words = ["pca", root, "-o", tmp_path / "out"]
    run_shard(program, 0, 2, *words)
    for file in [*root.glob("moments/*"), *root.glob("l0*/*.parquet")]:
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)
    run_shard(program, 1, 2, *words)
    done = subprocess.run([program, "merge", tmp_path / "out"], capture_output=True, text=True)
    assert done.returncode == 3 and "(5 of 10 are there)" in done.stderr


def test_all_at_once(program, grouped, tmp_path):
    """Seven at a time, several times: exactly one folder comes of it, and nobody fails."""
    words = [program, "analyze", grouped, "--threads", "1"]
    subprocess.run([*words, "-o", tmp_path / "one"], check=True, capture_output=True, env=quiet_environment())
    for turn in range(6):
        out = tmp_path / str(turn)
        children = [subprocess.Popen([*words, "-o", out, "--shard", f"{i}/7"], env=quiet_environment(),
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    for i in range(7)]
        said = [child.communicate(timeout=120) for child in children]
        assert [child.returncode for child in children] == [0] * 7, said
        assert results(out) == results(tmp_path / "one")
        assert any("schema.json" in out for out, _ in said)


LYING_LOCK = """
#include <stdarg.h>
int flock(int fd, int how) { (void)fd; (void)how; return 0; }
"""


def test_locks_that_do_not_hold(program, grouped, tmp_path, sanitized):
    """As network file systems may have it: flock() says yes to everybody."""
    if sanitized:
        pytest.skip("a sanitizer wants to be loaded first")
    (tmp_path / "lock.c").write_text(LYING_LOCK)
    subprocess.run(["cc", "-shared", "-fPIC", tmp_path / "lock.c", "-o", tmp_path / "lock.so"], check=True)
    words = [program, "analyze", grouped, "--threads", "1"]
    subprocess.run([*words, "-o", tmp_path / "one"], check=True, capture_output=True, env=quiet_environment())
    for turn in range(6):
        out = tmp_path / str(turn)
        children = [subprocess.Popen([*words, "-o", out, "--shard", f"{i}/6"], stderr=subprocess.PIPE,
                                     stdout=subprocess.DEVNULL, text=True,
                                     env=quiet_environment(LD_PRELOAD=tmp_path / "lock.so"))
                    for i in range(6)]
        said = [child.communicate(timeout=120)[1] for child in children]
        assert [child.returncode for child in children] == [0] * 6, said
        assert results(out) == results(tmp_path / "one")


@pytest.fixture
def damaged(grouped, tmp_path):
    """A query head and a key head that cannot be read."""
    root = shutil.copytree(grouped, tmp_path / "damaged")
    for name in ("l00h01q", "l02h01k"):
        file, = (root / name).glob("*.parquet")
        file.write_bytes(file.read_bytes()[:500])
    return root


def test_heads_that_fail(program, damaged, tmp_path):
    """They are results like others: the last process says what one process says, and has its exit code."""
    words = ["analyze", damaged, "--threads", "1"]
    one = run_shard(program, 0, 1, *words, "-o", tmp_path / "one", code=3)
    expected = results(tmp_path / "one")
    assert len(expected["manifest.json"]["runs"][0]["failures"]) == 4
    said = [run_shard(program, i, 3, *words, "-o", tmp_path / "three", code=0 if i < 2 else 3)
            for i in range(3)]
    assert results(tmp_path / "three") == expected
    errors = {line.split(": ", 1)[1] for line in one.stderr.splitlines() 
              if re.search(r": l\d\dh\d\dq: ", line)}
    assert len(errors) == 4
    assert errors <= {line.split(": ", 1)[1] for line in said[-1].stderr.splitlines()}


def test_keys_that_are_not_there(program, grouped, tmp_path):
    root = shutil.copytree(grouped, tmp_path / "c")
    shutil.rmtree(root / "l01h01k")
    for options, code in (([], 3), (["--allow-missing"], 0)):
        out = tmp_path / f"out{code}"
        words = ["analyze", root, *options]
        run_shard(program, 0, 1, *words, "-o", out / "one", code=code)
        for i in range(3):
            run_shard(program, i, 3, *words, "-o", out / "three", code=code if i == 2 else 0)
        assert results(out / "three") == results(out / "one")


def test_no_head_has_numbers(program, grouped, tmp_path):
    root = shutil.copytree(grouped, tmp_path / "c")
    for file in root.glob("l*/*.parquet"):
        file.write_bytes(b"PAR1")
    words = ["pca", root, "-o", tmp_path / "out", "--shard"]
    first = subprocess.run([program, *words, "0/2"], capture_output=True, text=True, env=quiet_environment())
    last = subprocess.run([program, *words, "1/2"], capture_output=True, text=True, env=quiet_environment())
    assert first.returncode == 0 and last.returncode == 1
    assert "18 of 18 heads have no numbers" in last.stderr
    assert not list((tmp_path / "out").iterdir())


def test_more_processes_than_units(program, grouped, tmp_path):
    words = ["rotate", grouped, "--layers", "1", "-o", tmp_path / "out"]
    last = run_shard(program, 4, 5, *words)  # has nothing to do, and leaves no trace
    assert "none of the 2 units is this process's" in last.stdout and not (tmp_path / "out").exists()
    for i in range(2):
        run_shard(program, i, 5, *words)
    assert "manifest.json" in results(tmp_path / "out")
    run_shard(program, 3, 5, *words)
    assert not (tmp_path / "out" / ".units").exists()


def test_results_of_other_analyses_stay(program, grouped, tmp_path):
    """Two runs share a folder one after the other, and at the same time."""
    out = tmp_path / "out"
    for i in range(2):
        run_shard(program, i, 2, "pca", grouped, "-o", out)
    before = results(out)
    run_shard(program, 0, 2, "rotate", grouped, "-o", out)
    run_shard(program, 1, 2, "plasticity", grouped, "-o", out)
    assert len(list((out / ".units").iterdir())) == 2
    run_shard(program, 1, 2, "rotate", grouped, "-o", out)
    run_shard(program, 0, 2, "plasticity", grouped, "-o", out)
    after = results(out)
    assert {"heads.csv", "rotated.csv", "head_metrics.csv"} <= set(after)
    assert after["heads.csv"] == before["heads.csv"] and len(after["manifest.json"]["runs"]) == 3


def test_a_folder_of_another_capture_is_refused_at_once(program, grouped, tmp_path):
    words = ["pca", grouped, "-o", tmp_path / "out"]
    run_shard(program, 0, 1, "pca", EXAMPLE, "-o", tmp_path / "out")
    for i in range(2):
        done = run_shard(program, i, 2, *words, code=1)
        assert "holds results of another capture" in done.stderr and "--force" in done.stderr
    assert not (tmp_path / "out" / ".units").exists()
    for i in range(2):
        run_shard(program, i, 2, *words, "--force")
    run_shard(program, 0, 1, "pca", grouped, "-o", tmp_path / "one", "--force")
    assert results(tmp_path / "out") == results(tmp_path / "one")


def test_json(program, grouped, tmp_path):
    words = ["pca", grouped, "-o", tmp_path / "out", "--json"]
    first, last = [json.loads(run_shard(program, i, 2, *words).stdout) for i in range(2)]
    assert first == {"output": str(tmp_path / "out"), "units": 6, "units_there": 3}
    assert last["heads"] == 18 and "heads.csv" in last["files"]


@pytest.mark.parametrize("shard", ["2/2", "-1/2", "1/0", "0", "x/y", "", "0/2/3"])
def test_wrong_shards(qkscope, tmp_path, shard):
    done = qkscope("pca", EXAMPLE, "-o", tmp_path / "out", f"--shard={shard}", expect=2)
    assert "--shard" in done.err and "0/3, 1/3 and 2/3" in done.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("variables, shard", [
    ({"SLURM_PROCID": 1, "SLURM_STEP_ID": 0, "SLURM_NTASKS": 3}, "1 of 3 (SLURM_PROCID)"),
    ({"OMPI_COMM_WORLD_RANK": 0, "OMPI_COMM_WORLD_SIZE": 2}, "0 of 2 (OMPI_COMM_WORLD_RANK)"),
    ({"PMI_RANK": 1, "PMI_SIZE": 2}, "1 of 2 (PMI_RANK)"),
    ({"SLURM_ARRAY_TASK_ID": 4, "SLURM_ARRAY_TASK_MIN": 3, "SLURM_ARRAY_TASK_COUNT": 2},
     "1 of 2 (SLURM_ARRAY_TASK_ID)"),
    ({"RANK": 1, "WORLD_SIZE": 4}, "1 of 4 (RANK)"),
])
def test_the_launcher_says_which(program, grouped, tmp_path, variables, shard):
    words = [program, "pca", grouped, "-o", tmp_path / "out", "-v"]
    done = subprocess.run(words, env=quiet_environment(**variables), capture_output=True, text=True)
    assert done.returncode == 0 and f"shard {shard}:" in done.stderr
    index, count = shard.split()[0], shard.split()[2]
    assert all(line.startswith(f"qkscope pca {index}/{count}: ") for line in done.stderr.splitlines())
    assert 0 < len(units(tmp_path / "out")) < 6
    done = subprocess.run([*words, "--shard", "none"], env=quiet_environment(**variables),
                          capture_output=True, text=True)
    assert done.returncode == 0 and "manifest.json" in results(tmp_path / "out")


def test_launchers_that_disagree(program, tmp_path):
    env = quiet_environment(PMI_RANK=1, PMI_SIZE=3, RANK=2, WORLD_SIZE=3)
    done = subprocess.run([program, "pca", EXAMPLE, "-o", tmp_path / "out"], env=env, capture_output=True,
                          text=True)
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    for word in ("PMI_RANK=1", "PMI_SIZE=3", "RANK=2", "WORLD_SIZE=3", "--shard"):
        assert word in done.stderr


def test_what_all_find_out_the_first_one_tells(program, grouped, tmp_path):
    said = [run_shard(program, i, 3, "pca", grouped, "-o", tmp_path / "out", "--layers", "0-2,9").stderr
            for i in (2, 1, 0)]
    assert [("--layers: the capture has no layer 9" in text) for text in said] == [False, False, True]
    assert not left_over(tmp_path)


def test_units_of_other_settings(program, qkscope, grouped, tmp_path):
    """Nothing ever comes together of shards that were given different options: whoever comes second says so."""
    out = tmp_path / "out"
    assert run_shard(program, 0, 2, "pca", grouped, "-o", out).stderr == ""
    said = run_shard(program, 1, 2, "pca", grouped, "-o", out, "--ci", "95", "--layers", "0,1").stderr
    runs = sorted(out.glob(".units/*"))
    other = next(path for path in runs if path.name in said)
    assert said.count("warning: ") == 1 and "ci (the default there, 95 here)" in said and str(out / ".units") in said
    assert "layers (the default there, 0-1 here)" in said or "layers (the default there, 0,1 here)" in said
    assert "seed" not in said and "output" not in said and "threads" not in said
    assert json.loads((other / "plan.json").read_text())["settings"].get("ci") is None
    merged = qkscope("merge", out, expect=3).err
    assert merged.count("ci (95 there, the default here)") == merged.count("ci (the default there, 95 here)") == 1
    shutil.rmtree(other)
    run_shard(program, 0, 2, "pca", grouped, "-o", out, "--ci", "95", "--layers", "0,1")
    assert not (out / ".units").exists() and (out / "qk.csv").exists()


def test_units_of_another_capture_or_version(program, grouped, tmp_path):
    out, copy = tmp_path / "out", shutil.copytree(grouped, tmp_path / "c")
    run_shard(program, 0, 2, "pca", copy, "-o", out)
    facts = json.loads((copy / "capture.json").read_text())
    (copy / "capture.json").write_text(json.dumps({**facts, "num_texts": 12}))
    said = run_shard(program, 1, 2, "pca", copy, "-o", out).stderr
    assert "they differ in the capture: its files, capture.json or the model's name. " in said
    for plan in out.glob(".units/*/plan.json"):
        if not said.rstrip().endswith(plan.parent.name):
            shutil.rmtree(plan.parent)
        else:
            plan.write_text(plan.read_text().replace('"qkscope": "', '"qkscope": "9.'))
    assert "they differ in the version of qkscope. " in run_shard(program, 1, 2, "pca", copy, "-o", out).stderr


def test_units_of_another_command_are_nobodys_mistake(program, grouped, tmp_path):
    run_shard(program, 0, 2, "pca", grouped, "-o", tmp_path / "out", "--components", "3")
    assert run_shard(program, 1, 2, "rotate", grouped, "-o", tmp_path / "out").stderr == ""
