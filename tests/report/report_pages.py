# SPDX-License-Identifier: Apache-2.0
"""Reading a report without a browser: its findings, its summary numbers, its heads."""
import base64
import html
import json
import math
import os
import re
import shutil
import stat
import struct
import subprocess
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from made_tables import make_heads, write_results


@dataclass
class Finding:
    verdict: str
    claim: str
    evidence: list


def block(page, name):
    """A JSON block of the page, with its packed columns unpacked."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    out = json.loads(found.group(1))
    for field in out.get("fields", []) if isinstance(out, dict) else []:
        for part in ("values", "lo", "hi", "cv"):
            if isinstance(field.get(part), str):
                field[part] = [None if math.isnan(v) else float(f"{v:.7g}")
                               for (v,) in struct.iter_unpack("<f", base64.b64decode(field[part]))]
    return out


def plain(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).strip()


def findings(page):
    out = {f["id"]: Finding(f["verdict"], f["claim"], f["evidence"]) for f in block(page, "qk-said")["findings"]}
    assert len(out) == len(block(page, "qk-said")["findings"])
    return out


def headlines(page):
    """Rows of the summary as dicts."""
    table = block(page, "qk-headlines")
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


# ---- the page of four models -------------------------------------------------------------------

def report_of_four(qkscope, folder):
    """Of two families; its heads in the order of the page."""
    rows, models = [], []
    for i, family in enumerate(("Alpha", "Alpha", "Beta", "Beta")):
        rows += make_heads(f"m{i}", 5, 6, 2, seed=i)
        models.append({"model": f"m{i}", "label": f"Model {i}", "family": family})
    rows[7]["ap_drop"] = None
    write_results(folder, rows, models, [{"model": f"m{i}", "bench": 10 * i} for i in range(4)], buckets=6, bins=4, dim=8)
    qkscope("report", folder, "--title", "Four models", expect=0)
    return folder / "report.html", rows


@pytest.fixture(scope="module")
def four(qkscope, tmp_path_factory):
    """Its path and its heads."""
    return report_of_four(qkscope, tmp_path_factory.mktemp("four"))


HOSTILE = ['a"><script>alert(1)</script>', "'; system \"touch x\"; '", "=cmd()",
           "</script><script>alert(2)</script>", "<img src=x onerror=alert(3)>",
           "@SUM(1+1)*cmd|' /C calc'!A0", "+1, \"two\"\nthree", "-2+3", "-5e-1", "\n=1+1", "שלום\u202eevil", "x" * 10_000,
           "&lt;b&gt; ${1+1} {{7*7}}", "__proto__", "name with, comma"]


@pytest.fixture(scope="module")
def hostile(qkscope, tmp_path_factory):
    """The path of a page on which every name is one of HOSTILE."""
    folder = tmp_path_factory.mktemp("hostile")
    rows, models = [], []
    for i, name in enumerate(HOSTILE):
        rows += make_heads(name, 2, 2, 2, seed=i)
        models.append({"model": name, "label": f"{name}", "family": HOSTILE[i % 4], "source": name})
    scores = [{"model": name, "=1+1": i} for i, name in enumerate(HOSTILE)]
    write_results(folder, rows, models, scores, buckets=4, bins=2, dim=4)
    (folder / "manifest.json").write_text(json.dumps({"command_line": HOSTILE[0], "x": HOSTILE}))
    qkscope("report", folder, "--title", HOSTILE[3] + HOSTILE[0], expect=0)
    return folder / "report.html"


# ---- pages --------------------------------------------------------------------------------------

def page_of(qkscope, folder, *options):
    """The page of a results folder."""
    qkscope("report", folder, *options, expect=0)
    return (Path(folder) / "report.html").read_text(encoding="utf-8")


def drawn(page):
    """What its scripts make of a page, its path: the markup that a reader's browser has."""
    program = find_chromium()
    if not program:
        pytest.skip("needs Chromium")
    done = subprocess.run([program, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", Path(page).resolve().as_uri()],
                          capture_output=True, text=True, timeout=120, check=True)
    return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.S)


def page_drawn(qkscope, folder, *options):
    page_of(qkscope, folder, *options)
    return drawn(Path(folder) / "report.html")


def find_chromium():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)
