# SPDX-License-Identifier: Apache-2.0
"""The view of a head in a browser, and of several side by side: numbers with intervals, curves, what is missing and what
brings it."""
import csv
import re
import shlex
import shutil
import subprocess

import numpy as np
import pytest

from conftest import BUILD, EXAMPLE
from report_browser import PHONE, browser, exported, explorer, open_page  # noqa: F401
from test_report_points import page_text, points

pytestmark = pytest.mark.test_all


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    """An analysis with intervals, its capture beside it, and its page."""
    folder = tmp_path_factory.mktemp("heads")
    shutil.copytree(EXAMPLE, folder / "capture")
    qkscope("analyze", folder / "capture", "-o", folder / "results", "--ci", 95, expect=0)
    qkscope("report", folder / "results", expect=0)
    return folder / "results"


def table_of(results, name):
    with open(results / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


# ---- the view ----------------------------------------------------------------------------------

def test_one_head(results, open_page):
    page = open_page(results / "report.html")
    page.goto(page.url + "#heads=2:1")
    page.wait_for_selector("#head-card[open] .plot .cloud >> nth=1")
    titles = page.locator("#head-view h3").all_inner_texts()
    assert titles == ["Queries and keys on PC0 and PC1", "Queries and keys on axes a and b", "All components",
                      "Plasticity over the context", "Mean score by distance", "Attention by distance", "Among the others", "Numbers"]
    rows = {row["code"]: row for row in page.eval_on_selector_all("#head-numbers tr:has(td.value)", """rs => rs.map((r) => ({
        code: r.querySelector('code').textContent, name: r.cells[0].textContent, cells: [...r.cells].map((c) => c.innerText)}))""")}
    for name, table, number in (("r_q", "qk", "r_q"), ("bias_strength", "rotated", "bias_strength")):
        row = next(r for r in table_of(results, table) if (r["layer"], r["q_head"]) == ("2", "1"))
        said = re.findall(r"−?\d[\d.]*(?:e−?\d+)?", rows[name]["cells"][1].split("\n")[1])
        assert [float(v.replace("−", "-")) for v in said] == pytest.approx(
            [float(row[f"{number}_{end}"]) for end in ("cv", "lo", "hi")], rel=1e-3)
    assert rows["r_q"]["name"].startswith("query-position correlation r_q on PC0")
    assert rows["texts"]["cells"][2] == "–"  # the same in all heads
    qk, = [r for r in table_of(results, "qk") if (r["layer"], r["q_head"], r["pc"]) == ("2", "1", "0")]
    head, = [r for r in table_of(results, "heads") if (r["layer"], r["q_head"]) == ("2", "1")]
    said = page.inner_text("#head-what")
    assert re.match(rf"L2H1: along PC0 its keys .*follow position.* \(r_k {float(qk['r_k']):.2f}\), its queries .* \(r_q ".replace("-", "−"), said)
    sure = f"probability {float(head['category_probability']):.2f}" if head["category_probability"] else "its probability is not known"
    assert f"; category {head['category']}, {sure}, texts of " in said
    missing = page.locator("#head-view .empty").all_inner_texts()
    commands = [shlex.split(text)[:2] for text in page.locator("#head-view .empty code").all_inner_texts()]
    assert len(missing) == len(commands) == 5
    assert {tuple(c) for c in commands} == {("qkscope", name) for name in ("compare-stages", "attention", "ablate")}


def test_the_sentence_of_a_head(results, open_page, tmp_path):
    """Where it attends, by the thresholds of the names; how its keys and queries follow position; how sure; at which length."""
    numbers = {"2:1": (12.34, 0.36, 0.1, 0.8, 1.0), "0:3": (700, 0.0123, 0.7, 0.9, 1.0), "1:0": (31, 0.2, 0.1, 0.2, 0.05), "1:1": (31, 0.2, 0.1, 0.2, 1)}
    ways = {"2:1": "locally (mean distance 12.3 tokens), leaves 0.36", "0:3": "to the previous token (mean distance 700 tokens), leaves 0.01",
            "1:0": "evenly (mean distance 31 tokens), leaves 0.20", "1:1": "widely (mean distance 31 tokens), leaves 0.20"}
    shutil.copytree(results, tmp_path / "results", ignore=shutil.ignore_patterns("manifest.json", "report.html", "figures"))
    names = ["mean_distance", "sink_mass", "previous_mass", "near_mass", "information"]
    rows = [[r["model"], r["layer"], r["q_head"], r["k_head"], *numbers.get(f"{r['layer']}:{r['q_head']}", [1] * 5)]
            for r in table_of(results, "heads")]
    with open(tmp_path / "results" / "attention.csv", "w", newline="") as file:
        csv.writer(file).writerows([["model", "layer", "q_head", "k_head", *names], *rows])
    subprocess.run([BUILD / "qkscope", "report", tmp_path / "results", "-q"], check=True, capture_output=True)
    page = open_page(tmp_path / "results" / "report.html")
    page.goto(page.url + "#heads=" + ",".join(ways))
    page.wait_for_selector("#head-card[open] #head-what li >> nth=3")
    for line, (name, way) in zip(page.locator("#head-what li").all_inner_texts(), ways.items(), strict=True):
        assert f"L{name.replace(':', 'H')} attends {way} on the first token; along PC0 its keys " in line


def test_components_are_those_of_the_table(results, open_page):
    page = open_page(results / "report.html")
    page.goto(page.url + "#heads=3:2")
    part = page.locator(".view-part", has=page.locator("h3", has_text="All components"))
    part.locator("summary").click()
    shown = [[float(text.replace("−", "-")) for text in row.split("\t")] for row in part.locator("tbody tr").all_inner_texts()]
    rows = [r for r in table_of(results, "qk") if (r["layer"], r["q_head"]) == ("3", "2")]
    expected = [[int(r["pc"]), float(r["explained_variance"]), float(r["r_q"]), float(r["r_k"])] for r in rows]
    assert len(shown) == 10 and np.allclose(shown, expected, rtol=1e-3, atol=1e-6)


def test_tables_of_a_head_sort(results, open_page):
    """Components by their numbers and back; numbers of a head within their groups, headings in their place."""
    page = open_page(results / "report.html")
    page.goto(page.url + "#heads=3:2")
    part = page.locator(".view-part", has=page.locator("h3", has_text="All components"))
    part.locator("summary").click()
    column = lambda i: [float(t.replace("−", "-")) for t in part.locator(f"tbody tr > :nth-child({i})").all_inner_texts()]
    header = part.locator("th", has_text="r_k, keys")
    before = column(4)
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending" and column(4) == sorted(before, reverse=True) != before
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending" and column(4) == sorted(before)
    part.locator("th button").first.click()
    assert column(1) == list(range(10)) and part.locator("th[aria-sort]:not([aria-sort=none])").count() == 1
    rows = "() => [...document.querySelectorAll('#head-numbers tr')].map((r) => r.matches(':has(.grouphead, .missing)') " \
           "? r.innerText : r.cells[2].dataset.value)"
    was = page.evaluate(rows)
    page.locator("th", has_text="Heads of its model below it").locator("button").click()
    now = page.evaluate(rows)
    groups = lambda values: [sorted(g.split("|")) for g in re.split(r"[^|]*[A-Za-z][^|]*", "|".join(values))]
    assert [v for v in now if re.search("[A-Za-z]{2}", v)] == [v for v in was if re.search("[A-Za-z]{2}", v)]
    assert now != was and groups(now) == groups(was)
    first = [float(v) for v in now[1:next(i for i, v in enumerate(now) if i and re.search("[A-Za-z]{2}", v))] if v]
    assert first == sorted(first, reverse=True)


RANGES = """() => [...document.querySelectorAll('#head-card .plot')].map((box) => {
    const image = box.querySelector('.cloud');
    return image ? ['left', 'top', 'width', 'height'].map((side) => parseFloat(image.style[side])) : null;
}).filter(Boolean)"""


def test_several_heads_have_the_same_axes(results, open_page):
    """The size of a picture on the screen is that of its ranges, by one factor for all heads."""
    page = open_page(results / "report.html")
    names = ["2:1", "0:3", "3:2"]
    page.goto(page.url + "#heads=" + ",".join(names))
    page.wait_for_selector("#head-card[open] .plot .cloud >> nth=5")
    page.wait_for_function("() => document.querySelectorAll('#head-card .plot .cloud')[5].style.width")
    assert page.inner_text("#head-title") == "3 heads side by side"
    of = points(page_text(results))[0]
    sizes = page.evaluate(RANGES)
    for p, plane in enumerate(("pca", "ab")):
        ranges = [of[plane][name] for name in names]
        for low, extent in ((0, 2), (2, 3)):
            factors = [(r[low + 1] - r[low]) / size[extent] for r, size in zip(ranges, sizes[3 * p:3 * p + 3])]
            assert factors == pytest.approx([factors[0]] * 3, rel=1e-3)
    page.locator("#head-what button").nth(1).click()
    page.wait_for_function("() => location.hash === '#heads=2:1,3:2'")
    page.fill("#head-other", "1:0")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash === '#heads=2:1,3:2,1:0'")
    page.fill("#head-other", "77:0")
    page.keyboard.press("Enter")
    assert "There is no head 77:0" in page.inner_text("#head-said")


def test_heads_are_chosen_in_the_map(results, open_page):
    page = open_page(results / "report.html")
    page.focus("#map-grid canvas")
    for key in ("Shift+Enter", "ArrowRight", "ArrowDown", "Shift+Enter"):
        page.keyboard.press(key)
    assert page.inner_text("#map-open") == "Open the 2 marked heads side by side"
    page.focus("#map-open")
    page.keyboard.press("Enter")
    page.wait_for_function("() => location.hash === '#heads=0:0,1:1'")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.activeElement.id === 'map-open'")


def test_heads_are_chosen_in_the_explorer(results, open_page):
    page = explorer(open_page(results / "report.html"))
    for head in (1, 4, 7):
        page.locator(f"#table tr[data-head='{head}']").click(modifiers=["Shift"])
    page.click("#open-head")
    page.wait_for_function("() => location.hash.includes('heads=0:1,1:0,1:3')")
    assert page.locator("#head-card[open] .plot .cloud").count() == 6
    page.click("#head-close")
    page.click("#select-all")
    assert page.is_disabled("#open-head")  # more than six


def test_on_a_phone_and_for_everybody(results, open_page):
    """Nothing leaves the screen but what scrolls by itself, which the keyboard reaches; axe finds nothing serious."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe (tests/requirements.txt)").Axe()
    page = open_page(results / "report.html", viewport=PHONE)
    for heads in ("2:1", "2:1,0:3,3:2,1:1"):
        page.goto("about:blank")
        page.goto((results / "report.html").as_uri() + "#heads=" + heads)
        page.wait_for_selector("#head-card[open] .plot .cloud")
        page.wait_for_timeout(200)
        assert page.evaluate("""() => { const d = document.querySelector('#head-card'); return d.scrollWidth <= d.clientWidth; }""")
        assert page.evaluate("""() => [...document.querySelectorAll('#head-card *')].filter((e) => e.scrollWidth > e.clientWidth + 1
            && ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.tabIndex < 0).length""") == 0
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = axe.run(page, context="#head-card", options={"resultTypes": ["violations"]}).response
            assert len(found["passes"]) > 0
            assert [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"] if v["impact"] in ("serious", "critical")] == []


def test_ends_of_intervals_are_columns(results, open_page):
    page = explorer(open_page(results / "report.html"))
    rows = exported(page, "#save-heads")
    heads = [r for r in table_of(results, "qk") if r["pc"] == "0"]
    for name in ("r_q_lo", "r_q_hi"):
        column = rows[0].index(name)
        assert [float(row[column]) for row in rows[1:]] == pytest.approx([float(h[name]) for h in heads], rel=1e-4)
    assert page.locator("#columns label", has_text="r_q_lo").count() == 1


@pytest.fixture(scope="module")
def whole(qkscope, tmp_path_factory):
    """All that there can be of a head: before and after RoPE, attention, an ablation."""
    folder = tmp_path_factory.mktemp("whole")
    model = EXAMPLE.parent / "kjv-tiny" / "step-2004"
    texts = folder / "texts.jsonl"
    lines = (EXAMPLE.parent / "kjv-tiny" / "passages.jsonl").read_text().splitlines(keepends=True)
    texts.write_text("".join(lines[:4]))
    qkscope("capture", "--model", model, "--text", texts, "--id-column", "id", "--stage", "both", "--keep", "rows,attention",
            "-o", folder / "capture", expect=0)
    qkscope("analyze", folder / "capture" / "post", "-o", folder / "results", expect=0)
    qkscope("compare-stages", folder / "capture", "-o", folder / "results", expect=0)
    texts.write_text("".join(lines[:2]))
    qkscope("ablate", "-m", model, "-t", texts, "-o", folder / "results" / "ablation", "--max-length", 128, expect=0)
    qkscope("report", folder / "results", expect=0)
    return folder / "results"


def test_curves_and_ablation_are_those_of_the_tables(whole, open_page):
    page = open_page(whole / "report.html")
    page.goto(page.url + "#heads=3:1")
    page.wait_for_selector("#head-card[open]")
    own = lambda name: [r for r in table_of(whole, name) if (r["layer"], r["q_head"]) == ("3", "1")]
    shown = {}
    for title in ("Mean score by distance", "Attention by distance"):
        part = page.locator(".view-part", has=page.locator("h3", has_text=title))
        part.locator("summary").click()
        shown[title] = np.array([[float(text.replace("−", "-").replace("–", "nan")) for text in row.split("\t")]
                                 for row in part.locator("tbody tr").all_inner_texts()])
        assert part.locator(".plot canvas").evaluate("c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0)")
    expected = [[float(r[c]) for c in ("distance", "measured", "predicted")] for r in own("score_by_distance")]
    assert np.allclose(shown["Mean score by distance"], expected, rtol=2e-3, atol=1e-6) and len(expected) > 5
    rows = own("attention_profile")
    latest = [r for r in rows if r["row_last"] == max((r["row_last"] for r in rows), key=int)]
    attention = shown["Attention by distance"]
    assert attention.shape[1] == 4 and 3 < len(attention) <= len(latest)
    ratios = [float(r["mass"]) / float(r["uniform"]) for r in latest]
    assert np.allclose(attention[:, 1], ratios[:len(attention)], rtol=2e-3)
    numbers = {row[0]: row[1] for row in page.eval_on_selector_all("#head-numbers tr:has(td.value)",
               "rs => rs.map(r => [r.querySelector('code').textContent, r.cells[1].firstChild.textContent])")}
    with open(whole / "ablation" / "ablation_heads.csv", newline="") as file:
        lost = next(r for r in csv.DictReader(file) if (r["layer"], r["q_head"]) == ("3", "1"))
    for name, row in (("remove_loss", lost), ("r_q_before", own("stages")[0]), ("sink_mass", own("attention")[0])):
        assert float(numbers[name].replace("−", "-")) == pytest.approx(float(row[name]), rel=1e-3)
    assert page.locator("#head-view .empty").count() == 0
