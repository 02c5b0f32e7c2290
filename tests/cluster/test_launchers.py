# SPDX-License-Identifier: Apache-2.0
"""The launchers themselves: Open MPI's mpirun, GNU parallel, and a Slurm on this machine."""
import os
import shlex
import subprocess

import pytest
from conftest import EXAMPLE, synth
from sharded import JOB, need, quiet_environment, results, run_shard, slurm

ANALYZE = ["analyze", EXAMPLE, "--ci", "95", "--threads", "1"]


@pytest.fixture(scope="module")
def one(program, tmp_path_factory):
    out = tmp_path_factory.mktemp("one") / "out"
    run_shard(program, 0, 1, *ANALYZE, "-o", out)
    return results(out)


@pytest.mark.parametrize("count", [2, 3, 7])
def test_mpirun(program, one, tmp_path, count):
    need("mpirun")
    done = subprocess.run(["mpirun", "-n", str(count), program, *ANALYZE, "-o", tmp_path / "out"],
                          capture_output=True, text=True, env=quiet_environment(), timeout=120)
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "out") == one
    assert 1 <= done.stdout.count("20 heads, 27902 rows in") and "units are there" in done.stdout


def test_mpirun_with_one_number_for_all(program, qkscope, tmp_path):
    need("mpirun")
    synth(qkscope, tmp_path / "c", layers=4, query_heads=6, dim=64, examples=20, rows=200, buckets=16)
    words = ["analyze", tmp_path / "c", "--threads", "1", "--variance", "full"]  # takes its time
    done = subprocess.run(["mpirun", "-n", "3", program, *words, "-o", tmp_path / "out", "--shard", "1/3"],
                          capture_output=True, text=True, env=quiet_environment(), timeout=120)
    assert done.returncode != 0 and "two processes have one number: shard 1 of 3" in done.stderr


def test_gnu_parallel(program, one, tmp_path):
    need("parallel")
    words = " ".join(shlex.quote(os.fspath(w)) for w in [program, *ANALYZE, "-o", tmp_path / "out"])
    subprocess.run(["sh", "-c", f"seq 0 6 | parallel -j 3 {words} --shard {{}}/7"], check=True,
                   capture_output=True, env=quiet_environment(), timeout=120)
    assert results(tmp_path / "out") == one


def test_slurm(program, one, tmp_path):
    """An array of 4, ranks of srun, one srun a task of an array, and mpirun in a job."""
    need("sbatch", "srun", "munged")
    words = " ".join(shlex.quote(os.fspath(w)) for w in [program, *ANALYZE])
    job, step = tmp_path / "job", tmp_path / "step"
    job.write_text(JOB.format(at=tmp_path, words=words))
    step.write_text(JOB.format(at=tmp_path, words=f"srun {words}"))
    slurm(f"""
        sbatch --wait --array=0-3 --job-name=array {job} -o {tmp_path}/array
        sbatch --wait --array=5-7 --job-name=steps {step} -o {tmp_path}/steps
        srun -n 3 {words} -o {tmp_path}/srun >{tmp_path}/srun.out
        srun --mpi=pmi2 -n 2 {words} -o {tmp_path}/pmi2 >{tmp_path}/pmi2.out
        sbatch --wait -n 2 --array=0-1 --job-name=both {step} -o {tmp_path}/both || echo failed >{tmp_path}/code
    """)
    for name in ("array", "steps", "srun", "pmi2"):
        assert results(tmp_path / name) == one, name
    said = [(tmp_path / f"array-{i}.out").read_text() for i in range(4)]
    assert sum("20 heads, 27902 rows in" in text for text in said) >= 1
    # ranks in each task of an array: nobody can know which is meant
    assert (tmp_path / "code").exists() and not (tmp_path / "both").exists()
    said = (tmp_path / "both-0.out").read_text()
    assert "SLURM_PROCID=" in said and "SLURM_ARRAY_TASK_ID=0" in said and "--shard SLURM_PROCID" in said


def test_mpirun_over_nodes_of_slurm(program, one, tmp_path):
    """mpirun starts its daemons by srun, one a node; what runs under them sees the daemon's number in
    SLURM_PROCID beside its own."""
    need("mpirun", "sbatch", "munged")
    words = " ".join(shlex.quote(os.fspath(w)) for w in [program, *ANALYZE, "-v", "-o", tmp_path / "out"])
    job = tmp_path / "job"
    job.write_text(JOB.format(at=tmp_path, words=f"mpirun -n 6 sh -c 'env | grep SLURM_STEP_NUM; exec {words}'"))
    slurm(f"sbatch --wait --nodes=3 --ntasks-per-node=2 --job-name=mpi {job}", "--nodes", "3")
    said = next(tmp_path.glob("mpi-*.out")).read_text()
    if "SLURM_STEP_NUM_NODES=3" not in said:
        pytest.skip("this mpirun does not start its daemons by srun")
    assert all(f"shard {i} of 6 (OMPI_COMM_WORLD_RANK)" in said for i in range(6))
    assert results(tmp_path / "out") == one
