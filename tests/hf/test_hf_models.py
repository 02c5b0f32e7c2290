# SPDX-License-Identifier: Apache-2.0
"""Some model types, by the script that writes the table of all (hf_models.py, which takes two minutes;
QKSCOPE_HF_MODELS=all runs it on all)."""
import json
import os
import re
from pathlib import Path

import pytest
from conftest import ROOT

from hf_environment import hf_run, once

pytestmark = pytest.mark.test_all

PAGE = (ROOT / "docs" / "dev" / "models.md").read_text()
# Windows, soft caps, sinks; queries and keys of two parts; pairs side by side; layers without attention; masks that
# come by name; no RoPE; pairs that do not turn; more calls than one a layer; attention of their own, and none; to an
# encoder.
CAPTURED = ["llama", "gemma2", "gpt_oss", "deepseek_v3", "glm4", "qwen3_next", "afmoe", "gpt2", "cohere2", "gemma3",
            "gemma4_text"]
REFUSED = ["bloom", "mamba", "diffllama", "bart"]


def listed(section):
    return re.findall(r"^\| ([\w-]+) \|", PAGE.split(f"## {section}\n")[1].split("\n## ")[0], re.M)[1:]


@pytest.fixture(scope="session")
def rows(tmp_path_factory):
    def make(folder):
        types = [] if os.environ.get("QKSCOPE_HF_MODELS") == "all" else [*CAPTURED, *REFUSED]
        hf_run(Path(__file__).with_name("hf_models.py"), *types, "--json", folder / "rows.json")
    return {row["type"]: row for row in json.loads((once(tmp_path_factory, "hf_models", make) / "rows.json").read_text())}


def test_states(rows):
    """hf_models.py ends with an error where one that counts as captured is not sound; and they are as the page says."""
    for section, state in (("Captured", "captured"), ("Refused", "refused")):
        assert {kind for kind, row in rows.items() if row["state"] == state} == {k for k in listed(section) if k in rows}


@pytest.mark.parametrize("kind", CAPTURED)
def test_captured(rows, kind):
    row = rows[kind]
    assert row["state"] == "captured" and row["logits"] and row["restored"], row["why"]
    assert row["whole"] < 1e-5 and row["attention"] < 1e-5 and row["chunked"] < 1e-4 and row["padded"] < 1e-4
    assert row["attends"] == {"qwen3_next": 1}.get(kind, 4)


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_by_name(rows, kind):
    assert rows[kind]["state"] == "refused" and f"'{kind}'" in rows[kind]["why"]
    assert "docs/dev/models.md" in rows[kind]["why"]


def test_special_ones(rows):
    """Facts that the manifest has."""
    assert rows["gemma2"]["windows"] == 2 and rows["gemma2"]["softcap"] and rows["gpt_oss"]["sinks"]
    assert rows["deepseek_v3"]["first"] == 16 and rows["deepseek_v3"]["rotated"] == 8
    assert rows["glm4"]["rope"] == "interleaved" and rows["llama"]["rope"] == "half" and rows["gpt2"]["rope"] == ""
    assert rows["gemma4_text"]["still"] > 0 and rows["gemma4_text"]["shapes"] == 2 and rows["llama"]["still"] == 0


def test_page():
    """All types, each once."""
    found = listed("Captured"), listed("Refused"), listed("Not built")
    assert len(set().union(*found)) == sum(map(len, found))
    assert len(found[0]) >= 130 and len(found[1]) >= 25 and len(found[2]) <= 15
    told = re.search(r"(\d+) types are captured, (\d+) are refused\s+by name, and of (\d+)", PAGE)
    assert [int(n) for n in told.groups()] == [len(part) for part in found]
