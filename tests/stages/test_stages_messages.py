# SPDX-License-Identifier: Apache-2.0
"""compare-stages: what it says of captures that do not belong together, are damaged or small, and what the
report says of its tables."""
import json
import re
import shutil
import sys

import numpy as np
import pytest
from conftest import ROOT, read_json, read_rows, write_rows
from stages_oracle import made_heads, write_stages

sys.path.append(str(ROOT / "tests" / "report"))
from report_pages import drawn, findings  # noqa: E402

pytest.importorskip("pyarrow")

OMEGA = 10000.0 ** (-np.arange(8) / 8)


@pytest.fixture
def stages(tmp_path):
    """8 query heads, 4 key heads in 2 layers."""
    return write_stages(tmp_path / "c", made_heads(np.random.default_rng(6), 16, layers=2, each=60), list(OMEGA))


def compare(qkscope, out, *arguments, expect=0):
    return qkscope("compare-stages", *arguments, "-o", out, expect=expect)


def lines_of(result):
    return [line for line in result.err.splitlines() if "warning" not in line]


# ---- captures that do not belong together ----------------------------------------------------

def test_no_capture_json(qkscope, stages, tmp_path):
    pre, post = stages / "pre", stages / "post"
    (pre / "capture.json").unlink()
    err = compare(qkscope, tmp_path / "o", stages, expect=1).err
    assert f"{pre} has no capture.json" in err and "--model-name 'made'" in err
    compare(qkscope, tmp_path / "named", stages, "--model-name", "made")
    (post / "capture.json").unlink()
    assert f"{post} has no capture.json" in compare(qkscope, tmp_path / "o", stages, expect=1).err


def test_wrong_folders(qkscope, stages, tmp_path):
    """Only options that this command has."""
    err = compare(qkscope, tmp_path / "r", stages, stages, expect=1).err
    assert "several captures: post, pre" in err and str(stages / "post") in err and "--split" not in err
    (tmp_path / "nothing").mkdir()
    err = compare(qkscope, tmp_path / "r", tmp_path / "nothing", expect=1).err
    assert "no folder post in it" in err and "--split" not in err


def test_no_keys(qkscope, stages, tmp_path):
    for side in ("pre", "post"):
        for folder in (stages / side).glob("*k"):
            shutil.rmtree(folder)
        manifest = read_json(stages / side / "capture.json")
        manifest.pop("heads", None), manifest.pop("q_per_kv_group", None)
        (stages / side / "capture.json").write_text(json.dumps(manifest))
    err = compare(qkscope, tmp_path / "o", stages, expect=1).err
    assert "no key heads" in err and "pre and post" not in err


# ---- damaged heads ---------------------------------------------------------------------------

def damage(folder, name, row=10):
    rows = read_rows(folder, name)
    rows["vector"][row] *= -1
    rows["vector"][row, 0] += 10
    write_rows(folder, name, rows)


def test_a_bad_key_head_costs_its_group(qkscope, stages, tmp_path):
    key = "l00h01k"
    damage(stages / "post", key)
    shown = json.loads(compare(qkscope, tmp_path / "o", stages, "--json", expect=3).out)
    assert shown["heads"] == 6 and len(shown["failures"]) == 2
    assert all(f"its key head {key}" in f["message"] for f in shown["failures"])


def test_bad_key_heads_stop_the_run(qkscope, stages, tmp_path):
    for key in ("l00h00k", "l00h01k", "l01h00k", "l01h01k"):
        damage(stages / "post", key)
    result = compare(qkscope, tmp_path / "o", stages, expect=1)
    assert "stopped, since none of the 3 key heads tried" in result.err and "l00h00k" in result.err
    off = float(re.search(r"row 10 is off by (\S+) % of its length", result.err).group(1))
    assert 10 < off < 1000
    assert len(lines_of(result)) == 1 and not (tmp_path / "o").exists()


def test_other_texts_are_one_line(qkscope, stages, tmp_path):
    for path in (stages / "pre").glob("l*"):
        rows = read_rows(stages / "pre", path.name)
        rows["example_id"] = rows["example_id"] + np.arange(len(rows["example_id"])) % 7 + int(path.name[2])
        write_rows(stages / "pre", path.name, rows)
    result = compare(qkscope, tmp_path / "o", stages, expect=1)
    assert len(lines_of(result)) == 1 and "8 of 8 heads have no numbers" in result.err, result.err


def test_a_missing_head_is_told_once(qkscope, stages, tmp_path):
    shutil.rmtree(stages / "pre" / "l00h01q")
    err = compare(qkscope, tmp_path / "o", stages, expect=3).err
    assert "l00h01q" in err
    assert len([line for line in err.splitlines() if "l00h01q" in line]) == 1, err


# ---- what is printed -------------------------------------------------------------------------

def test_too_few_bins(qkscope, stages, tmp_path):
    result = compare(qkscope, tmp_path / "o", stages, "--max-samples", "3")
    assert "nan" not in result.out and "R2 -: no head has 3 bins" in result.out


def test_difference_in_percent(qkscope, stages, tmp_path):
    shown = json.loads(compare(qkscope, tmp_path / "o", stages, "--json").out)
    out = compare(qkscope, tmp_path / "o", stages).out
    percent = float(re.search(r"largest difference: (\S+) % of the length of a row", out).group(1))
    assert percent == pytest.approx(100 * shown["rotation_deviation"], rel=0.06)


# ---- the report ------------------------------------------------------------------------------

def test_report(qkscope, stages, tmp_path):
    out = tmp_path / "o"
    qkscope("pca", stages / "post", "-o", out, expect=0)
    compare(qkscope, out, stages, "--layers", "0", "--heads", "0-2")
    qkscope("report", out, expect=0)
    page = drawn(out / "report.html")
    lead = page.split('class="lead"')[1].split("</p>")[0]
    assert "RoPE" in lead and "median R²" in lead and "first component of queries and keys together" in lead
    rows = {m[0]: m[1] for m in re.findall(r"<caption>([^<]*)</caption>.*?</th><td>(\d+)</td>", page, re.S)}
    assert rows["Before and after RoPE"] == "3" and rows["Combined QK PCA"] == "8"
    found = findings((out / "report.html").read_text())
    assert {"rope-position", "rope-predicts-score", "rope-slow-score"} <= set(found)
