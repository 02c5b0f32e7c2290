# SPDX-License-Identifier: Apache-2.0
"""Tokens on the page: the lists of a head and the token of each point, of captures with token strings."""
import base64
import collections
import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import synth
from report_browser import open_page, browser  # noqa: F401
from report_pages import block, page_of

HOSTILE = {3: "</script><img src=x onerror=alert(1)>", 4: "\x1b[2J", 5: " ", 9: "\n", 10: "\t", 6: "\u202etxt", 7: "\u00e9" * 300, 8: ""}


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    """Some tokens have hostile strings. The results of the same capture without them, too."""
    folder = tmp_path_factory.mktemp("tokens")
    synth(folder / "capture", layers=1, query_heads=2, examples=6, rows=400, dim=16, token_strings=True, seed=4)
    for file in sorted((folder / "capture").glob("*/data.parquet")):
        table = pq.read_table(file)
        strings = [HOSTILE.get(int(s[2:]) % 12, s[:3]) for s in table["token_str"].to_pylist()]
        at = table.column_names.index("token_str")
        (folder / "plain" / file.parent.name).mkdir(parents=True)
        pq.write_table(table.drop_columns("token_str"), folder / "plain" / file.parent.name / file.name)
        pq.write_table(table.set_column(at, "token_str", pa.array(strings)), file)
    (folder / "capture" / "capture.json").unlink(missing_ok=True)
    for name in "capture", "plain":
        qkscope("analyze", folder / name, "-o", folder / f"results {name}", "--q-per-kv-group", 2, "--ci", 95, expect=0)
    return folder


def test_the_json(qkscope, results):
    """Lists as the table has them; the tokens of points are those of the file's rows where these are. Nothing without the column."""
    data = block(page_of(qkscope, results / "results capture"), "qk-views")
    with open(results / "results capture" / "tokens.csv", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["q_head"] == "1"]
    names = ["list", "token", "share", "lift", "keys", "texts", "distance", "position", "example", "queries", "first_key", "nearest", "share_lo", "share_hi"]
    for name, values in zip(names, data["curves"][1]["tokens"], strict=True):
        wanted = [r[name] for r in rows]
        if name in ("list", "token", "first_key"):
            assert [v or "" for v in values] == wanted
            continue
        assert [v for v, w in zip(values, wanted) if w] == pytest.approx([float(w) for w in wanted if w], rel=1e-4)
    model, = data["points"]
    strings = model["tokens"]["strings"]
    found = tokens_of(model, "0:1")
    every = pq.read_table(results / "capture" / "l00h00k" / "data.parquet")["token_str"].to_pylist()
    assert {t for t in found if t} <= {s.encode()[:256].decode() for s in every} and len(set(strings)) == len(strings)
    for plane in "pca", "ab":
        assert len(found) == len(base64.b64decode(model[plane]["0:1"][4])) / (2 * data["bytes"] + 1)
    counts = collections.Counter(t for head in ("0:0", "0:1") for t in tokens_of(model, head))
    assert [counts[s] for s in strings] == sorted((counts[s] for s in strings), reverse=True)
    plain = block(page_of(qkscope, results / "results plain"), "qk-views")
    assert "tokens" not in plain["points"][0] and not any("tokens" in c for c in plain["curves"])
    assert plain["points"][0]["pca"] == model["pca"] and plain["points"][0]["ab"] == model["ab"]


def tokens_of(model, head):
    out, number, shift = [], 0, 0
    for byte in base64.b64decode(model["tokens"]["heads"][head]):
        number, shift = number | (byte & 127) << shift, shift + 7
        if byte < 128:
            out.append(model["tokens"]["strings"][number - 1] if number else None)
            number = shift = 0
    return out


@pytest.mark.test_all
def test_in_a_browser(results, open_page):
    """Both tables, readable and as text alone; a point under the pointer has its token."""
    page = open_page(results / "results capture" / "report.html")
    page.goto(page.url + "#heads=0:1")
    page.wait_for_selector("#head-card[open] .plot .cloud >> nth=1")
    titles = page.locator("#head-view h3").all_inner_texts()
    assert {"Tokens it attends to", "Tokens whose keys lie far out"} <= set(titles)
    ends = page.locator("#head-view td small").all_inner_texts()
    assert [" to " in text for text in ends].count(True) >= 10 and "queries and 6 texts" in page.locator("#head-view").inner_text()
    shown = page.locator("bdi.token").all_inner_texts()
    assert len(shown) == 20 and page.locator("#head-view img").count() == 0
    assert any(s.startswith("</script>") for s in shown) and {"␛[2J", "␊", "␉", "␠"} <= set(shown) and "<U+202E>txt" in shown and "(empty)" in shown
    cloud = page.locator(".plot .cloud").first
    box = cloud.bounding_box()
    for x, y in np.stack(np.meshgrid(np.linspace(0.2, 0.8, 9), np.linspace(0.2, 0.8, 9)), -1).reshape(-1, 2):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if page.locator(".plot .tip:visible").count():
            break
    tip = page.locator(".plot .tip:visible").inner_text()
    assert tip.split(" ")[0] in ("key", "query") and len(tip.split(" ", 1)[1]) > 0
