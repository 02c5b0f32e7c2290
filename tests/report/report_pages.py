# SPDX-License-Identifier: Apache-2.0
"""Reading a report without a browser: its findings, its summary numbers, its heads."""
import html
import json
import os
import re
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path


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
