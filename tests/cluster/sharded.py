# SPDX-License-Identifier: Apache-2.0
"""What the tests of several processes share: starting them."""
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import environment

# Of launchers that may have started the tests.
LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "RANK", "WORLD_SIZE")

SLURM = pathlib.Path(__file__).with_name("slurm_one_node.sh")
JOB = """#!/bin/sh
#SBATCH --output={at}/%x-%a.out
exec {words} "$@"
"""


def quiet_environment(**changes):
    """Without what a launcher says."""
    env = {k: v for k, v in environment(changes).items() if k in changes or not k.startswith(LAUNCHERS)}
    return {**env, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_btl": "self", "OMPI_MCA_rmaps_base_oversubscribe": "1",  # Open MPI 4
            "PRTE_MCA_rmaps_default_mapping_policy": ":OVERSUBSCRIBE"}  # 5


def run_shard(program, i, count, *words, code=0, **options):
    done = subprocess.run([program, *map(os.fspath, words), "--shard", f"{i}/{count}"],
                          capture_output=True, text=True, env=quiet_environment(), timeout=300, **options)
    assert done.returncode == code, done.stderr
    return done


def need(*programs):
    for name in programs:
        if not shutil.which(name):
            pytest.skip(f"{name} is not installed (Debian: openmpi-bin, slurm-wlm, munge, parallel)")


def slurm(script, *options):
    """Runs lines of a shell under Slurm; skips where there is none, and says why."""
    done = subprocess.run([SLURM, *options, "bash", "-euc", script], capture_output=True, text=True, timeout=300,
                          env=quiet_environment())
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    return done
