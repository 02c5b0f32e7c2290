# SPDX-License-Identifier: Apache-2.0
"""Findings as the library derives them, without a page."""
import json
import os
import pathlib
import subprocess
from dataclasses import dataclass

import pytest

from conftest import check_survived, environment

DUMP = pathlib.Path(os.environ.get("QKSCOPE_BUILD", "build")).resolve() / "tests/report/dump_findings"


@dataclass
class Finding:
    verdict: str
    claim: str
    evidence: list
    p: float | None
    adjusted: float | None
    effect: float | None
    figures: list


def run_dump(*arguments, text=""):
    if not DUMP.exists():
        pytest.skip(f"{DUMP} is not built")
    done = subprocess.run([DUMP, *map(os.fspath, arguments)], input=text, capture_output=True, text=True,
                          env=environment(), timeout=300)
    check_survived(done.returncode, done.stderr)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def findings_in(*folders):
    """A dict by id for each results folder."""
    return [{f["id"]: Finding(f["verdict"], f["claim"], f["evidence"].split("\n"), f["p"], f["adjusted"],
                              f["effect"], f["figures"])
             for f in json.loads(line)} for line in run_dump(*folders)]
