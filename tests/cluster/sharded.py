# SPDX-License-Identifier: Apache-2.0
"""What the tests of several processes share: comparing results folders, starting processes."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from conftest import environment

# What manifest.json says of one run alone.
UNTOLD = ("seconds", "command_line", "threads", "date")
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


def results(folder):
    """Every file of a finished folder, the manifest without what is one run's; nothing else is
    there."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name == "manifest.json":
            manifest = json.loads(path.read_text())
            for part in (manifest, *manifest["runs"]):
                for key in UNTOLD:
                    part.pop(key, None)
                part.get("contents", {}).pop("summary.json", None)  # holds a time of day
            found[path.name] = manifest
        elif path.name == "summary.json":
            found[path.name] = {**json.loads(path.read_text()), "timestamp": None}
        else:
            found[str(path.relative_to(folder))] = path.read_bytes() if path.is_file() else "folder"
    assert found["manifest.json"]["complete"]
    return found


def units(folder):
    """{name: inode of its results} of the units that are there."""
    places = [path for path in folder.glob(".units/*/*/results") if ".tmp-" not in path.parent.name]  # those take other names
    return {path.parent.name.split("-")[0]: path.stat().st_ino for path in places}


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
