# SPDX-License-Identifier: Apache-2.0
"""The interpreter that has torch and transformers, and runs scripts for the tests, which have neither. `make hf-env`
makes its environment; QKSCOPE_HF_PYTHON names another."""
import fcntl
import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, environment

HOME = Path.home() / ".cache" / "qkscope" / "hf"


@functools.cache
def hf_python():
    """Its path, or skips the test."""
    path = Path(os.environ.get("QKSCOPE_HF_PYTHON") or HOME / "bin" / "python")
    if not path.exists():
        pytest.skip(f"no torch and transformers: {path} is absent (make hf-env, or QKSCOPE_HF_PYTHON)")
    if not (BUILD / "python" / "qkscope" / "_library.abi3.so").exists():
        pytest.skip("the Python package is not in this build")
    if b"__asan_init" in (BUILD / "qkscope").read_bytes():
        pytest.skip("torch does not run below AddressSanitizer")
    return path


def hf_run(script, *words, timeout=1500, expect=0):
    """What a script says on its standard output."""
    env = environment({"PYTHONPATH": BUILD / "python", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
                       "OMP_NUM_THREADS": "1"})
    done = subprocess.run([hf_python(), script, *map(str, words)], env=env, capture_output=True, text=True,
                          timeout=timeout, stdin=subprocess.DEVNULL)
    assert done.returncode == expect, f"exit code {done.returncode}\n{done.stderr[-6000:]}"
    return done.stdout


def once(tmp_path_factory, name, make):
    """A folder that one process of the test run makes by make(folder), and all of them read."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = root / name
    with open(root / f"{name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (root / f"{name}.made").exists():  # nor where another process skipped or failed
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            (root / f"{name}.made").touch()
    return folder
