# SPDX-License-Identifier: Apache-2.0
"""Reading a report without a browser: its findings, its summary numbers, its heads."""
import html
import json
import os
import re
import shutil
import stat
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from figure_files import NO_PICTURES
from made_tables import make_heads, write_results


@dataclass
class Finding:
    verdict: str
    claim: str
    evidence: list


def block(page, name):
    """A JSON block of the page."""
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.S)
    return json.loads(found.group(1))


def plain(markup):
    return html.unescape(re.sub(r"<[^>]*>", "", markup)).strip()


def findings(page):
    out = {}
    for name, verdict, body in re.findall(
            r'<li class="finding" data-finding="([^"]*)" data-verdict="([^"]*)">(.*?)</ul>\s*(?:<p class="shown">.*?</p>\s*)?</li>',
            page, re.S):
        claim, evidence = body.split('<ul class="evidence">')
        claim = re.sub(r'<span class="badge.*?</span>', "", claim)
        lines = [plain(line) for line in re.findall(r"<li>(.*?)</li>", evidence, re.S)]
        assert name not in out
        out[name] = Finding(verdict, plain(claim), lines)
    return out


def headlines(page):
    """Rows of the summary as dicts."""
    table = block(page, "qk-headlines")
    return [dict(zip(table["columns"], row)) for row in table["rows"]]


# ---- the page of four models -------------------------------------------------------------------

def report_of_four(qkscope, folder, env=None):
    """Of two families; its heads in the order of the page."""
    rows, models = [], []
    for i, family in enumerate(("Alpha", "Alpha", "Beta", "Beta")):
        rows += make_heads(f"m{i}", 5, 6, 2, seed=i)
        models.append({"model": f"m{i}", "label": f"Model {i}", "family": family})
    rows[7]["ap_drop"] = None
    write_results(folder, rows, models, [{"model": f"m{i}", "bench": 10 * i} for i in range(4)], buckets=6, bins=4, dim=8)
    qkscope("report", folder, "--title", "Four models", env=env, expect=0)
    return folder / "report.html", rows


@pytest.fixture(scope="module")
def four(qkscope, tmp_path_factory):
    """Its path and its heads, without what gnuplot draws."""
    return report_of_four(qkscope, tmp_path_factory.mktemp("four"), NO_PICTURES)


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
    qkscope("report", folder, "--title", HOSTILE[3] + HOSTILE[0], env=NO_PICTURES, expect=0)
    return folder / "report.html"


# ---- pictures ---------------------------------------------------------------------------------

def png(pixels):
    """An RGB picture of rows of bytes."""
    def chunk(kind, data):
        crc = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)
    header = struct.pack(">IIBBBBB", len(pixels[0]) // 3, len(pixels), 8, 2, 0, 0, 0)
    raw = b"".join(b"\0" + row for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
            + chunk(b"IDAT", zlib.compress(raw, 1)) + chunk(b"IEND", b""))


def plain_png(width, height):
    return png([b"\x20\x60\xa0" * width] * height)


# ---- pages without figures ---------------------------------------------------------------------

def failing_gnuplot(folder):
    """A PATH on which gnuplot fails at once: a page without figures takes no time."""
    folder.mkdir(exist_ok=True)
    script = folder / "gnuplot"
    script.write_text("#!/bin/sh\necho 'no pictures today' >&2\nexit 1\n")
    script.chmod(script.stat().st_mode | stat.S_IEXEC)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


def page_of(qkscope, folder, path, *options):
    """The page of a results folder, its figures left out."""
    outcome = qkscope("report", folder, *options, env={"PATH": path})
    assert outcome.code in (0, 3), outcome.err  # 0: no figure applies
    return (Path(folder) / "report.html").read_text(encoding="utf-8")


def find_chromium():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)
