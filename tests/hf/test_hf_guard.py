# SPDX-License-Identifier: Apache-2.0
"""Models that do more than their text decoder alone: refused, or told of. hf_guards.py runs them, in an environment with
torch."""
import json
import re
from pathlib import Path

import pytest

from hf_environment import hf_run, once

pytestmark = pytest.mark.test_all

SCRIPT = Path(__file__).with_name("hf_guards.py")


@pytest.fixture(scope="session")
def ran(tmp_path_factory):
    return once(tmp_path_factory, "hf_guards", lambda folder: hf_run(SCRIPT, folder))


@pytest.mark.parametrize("check", re.findall(r"^def check_(\w+)", SCRIPT.read_text(), re.M))
def test_check(ran, check):
    found = json.loads((ran / "found.json").read_text())[check]
    assert found["error"] is None, found["error"]


def test_pairs_that_do_not_turn(ran, qkscope, tmp_path):
    """Of 8 pairs two turn; rows after RoPE are those before it, turned by the manifest."""
    capture = ran / "proportional" / "c"
    rope = json.loads((capture / "post" / "capture.json").read_text())["rope_frequencies"]
    assert min(rope["0"]) > 0 and rope["1"][2:] == [0] * 6 and min(rope["1"][:2]) > 0
    shown = json.loads(qkscope("compare-stages", capture, "-o", tmp_path / "o", "--json", expect=0).out)
    assert shown["heads"] == 4 and shown["rotation_deviation"] < 1e-5 and shown["failures"] == []
