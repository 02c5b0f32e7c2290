# SPDX-License-Identifier: Apache-2.0
"""The launchers themselves, of processes that share a capture: Open MPI's mpirun, GNU parallel, and a Slurm on this machine."""
import os
import shlex
import subprocess

import pytest
from sharded import JOB, need, quiet_environment, slurm
from test_capture_shards import files_of, made  # noqa: F401 - a fixture

pytestmark = pytest.mark.test_all


@pytest.fixture
def one(program, made):  # noqa: F811
    """(words of the command, files of the capture that one process makes)"""
    words, whole = made("reservoir")
    return [program, *words], whole


def line(words, *more):
    return " ".join(shlex.quote(os.fspath(w)) for w in [*words, *more])


@pytest.mark.parametrize("count", [2, 7])
def test_mpirun(one, tmp_path, count):
    need("mpirun")
    words, whole = one
    done = subprocess.run(["mpirun", "-n", str(count), *words, "-o", tmp_path / "out"], capture_output=True, text=True,
                          env=quiet_environment(), timeout=300)
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "out") == whole


def test_gnu_parallel(one, tmp_path):
    need("parallel")
    words, whole = one
    subprocess.run(["sh", "-c", f"seq 0 6 | parallel -j 3 {line(words, '-o', tmp_path / 'out')} --shard {{}}/7"], check=True,
                   capture_output=True, env=quiet_environment(), timeout=300)
    assert files_of(tmp_path / "out") == whole


def test_slurm(one, tmp_path):
    """An array of 4, ranks of srun, one srun a task of an array, and mpirun in a job."""
    need("sbatch", "srun", "munged")
    words, whole = one
    job, step = tmp_path / "job", tmp_path / "step"
    job.write_text(JOB.format(at=tmp_path, words=line(words)))
    step.write_text(JOB.format(at=tmp_path, words=f"srun {line(words)}"))
    slurm(f"""
        sbatch --wait --array=0-3 --job-name=array {job} -o {tmp_path}/array
        sbatch --wait --array=5-7 --job-name=steps {step} -o {tmp_path}/steps
        srun -n 3 {line(words)} -o {tmp_path}/srun
        srun --mpi=pmi2 -n 2 {line(words)} -o {tmp_path}/pmi2
        sbatch --wait -n 2 --array=0-1 --job-name=both {step} -o {tmp_path}/both || echo failed >{tmp_path}/code
    """)
    for name in ("array", "steps", "srun", "pmi2"):
        assert files_of(tmp_path / name) == whole, name
    # ranks in each task of an array: nobody can know which is meant
    assert (tmp_path / "code").exists() and not (tmp_path / "both").exists()
    said = (tmp_path / "both-0.out").read_text()
    assert "SLURM_PROCID=" in said and "SLURM_ARRAY_TASK_ID=0" in said and "--shard SLURM_PROCID" in said


def test_mpirun_over_nodes_of_slurm(one, tmp_path):
    """mpirun starts its daemons by srun, one a node; what runs under them sees the daemon's number in
    SLURM_PROCID beside its own."""
    need("mpirun", "sbatch", "munged")
    words, whole = one
    words = [word for word in words if word != "--quiet"]
    job = tmp_path / "job"
    job.write_text(JOB.format(at=tmp_path, words=f"mpirun -n 6 sh -c 'env | grep SLURM_STEP_NUM; exec {line(words, '-o', tmp_path / 'out')}'"))
    slurm(f"sbatch --wait --nodes=3 --ntasks-per-node=2 --job-name=mpi {job}", "--nodes", "3")
    said = next(tmp_path.glob("mpi-*.out")).read_text()
    if "SLURM_STEP_NUM_NODES=3" not in said:
        pytest.skip("this mpirun does not start its daemons by srun")
    assert all(f"shard {i} of 6 (OMPI_COMM_WORLD_RANK)" in said for i in range(6))
    assert files_of(tmp_path / "out") == whole
