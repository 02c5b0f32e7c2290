# SPDX-License-Identifier: Apache-2.0
"""The report in a browser: nothing is fetched, nothing complains, and what one points at, filters,
sorts, marks and exports is right. Names from outside are text wherever they show."""
import re

import pytest

from report_browser import (DESKTOP, PHONE, Watched, browser, explorer, exported, lonely, made,  # noqa: F401
                            marked, open_page, pixel, shown_heads, wait_for_all_charts, wait_for_count,
                            wait_for_selection)
from report_pages import HOSTILE, hostile  # noqa: F401

pytestmark = pytest.mark.test_all


# ---- the page as a whole -----------------------------------------------------------------------

def test_it_opens_whole(made, open_page, tmp_path):
    path, rows = made
    page = open_page(path)
    assert page.title() == "Four models" and page.inner_text("h1") == "Four models"
    assert "120 query heads of 4 models in 2 families" in page.inner_text(".lead")
    assert page.locator("table.numbers").count() == 4
    assert page.locator("#figures figure").count() >= 1
    for svg in page.locator("figure svg[role=img]").all():
        assert svg.locator("text").count() > 0
    ids = page.eval_on_selector_all("[id]", "es => es.map(e => e.id)")
    assert len(ids) == len(set(ids))
    targets = page.eval_on_selector_all("use", "es => es.map(e => e.getAttribute('href').slice(1))")
    assert set(targets) <= set(ids)
    explorer(page)
    page.screenshot(path=tmp_path / "desktop.png")
    assert (tmp_path / "desktop.png").stat().st_size > 10_000


def test_ticks_are_round(made, open_page):
    """Equal steps from 0 on; the ends of an axis, which data give, are no ticks."""
    page = open_page(made[0])
    explorer(page)
    axes = page.evaluate("""() => [...document.querySelectorAll('.chart canvas[role=img]')].flatMap(canvas =>
        Object.values(Chart.getChart(canvas).scales).map(scale => scale.ticks.map(tick => tick.value)))""")
    for ticks in axes:
        step = ticks[1] - ticks[0]
        assert all(abs(tick / step - round(tick / step)) < 1e-6 for tick in ticks), ticks
    assert len(axes) == 6


def test_only_its_own_scripts_run(made, browser):
    """The content security policy: a script that is not the report's does not run."""
    watched = Watched(browser, made[0])
    policy = watched.page.get_attribute("meta[http-equiv=Content-Security-Policy]", "content")
    assert policy.startswith("default-src 'none';")
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    watched.page.evaluate("""() => {
        const script = document.createElement('script');
        script.textContent = 'window.ran = true';
        document.body.append(script);
        const picture = document.createElement('img');
        picture.src = 'https://example.org/a.png';
        document.body.append(picture);
    }""")
    assert watched.page.evaluate("window.ran") is None
    assert all("Content Security Policy" in text for _, text in watched.complaints)
    watched.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark(made, open_page, tmp_path, scheme):
    page = open_page(made[0], color_scheme=scheme)

    def brightness(selector, what):
        color = page.eval_on_selector(selector, f"e => getComputedStyle(e).{what}")
        return sum(map(float, re.findall(r"[\d.]+", color)[:3])) / 3
    dark = scheme == "dark"
    assert (brightness("body", "backgroundColor") < 60) == dark
    assert (brightness("h1", "color") > 200) == dark
    label = "#fig-pca-01-pc-roles svg text"
    assert (brightness(label, "fill") > 200) == dark
    explorer(page)
    page.screenshot(path=tmp_path / f"{scheme}.png")
    page.click("#theme")  # system -> light -> dark -> system
    assert brightness("body", "backgroundColor") > 200
    page.click("#theme")
    assert brightness("body", "backgroundColor") < 60
    assert page.inner_text("#theme") == "Theme: dark"


@pytest.mark.parametrize("viewport", [PHONE, {"width": 320, "height": 640}, DESKTOP])
def test_nothing_sticks_out(made, open_page, tmp_path, viewport):
    page = open_page(made[0], viewport=viewport)
    explorer(page)
    for _ in range(2):
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
        page.eval_on_selector_all("details", "ds => ds.forEach(d => d.open = true)")
    page.screenshot(path=tmp_path / f"{viewport['width']}.png")


def test_print(made, open_page, tmp_path):
    page = open_page(made[0], color_scheme="dark")
    page.emulate_media(media="print")
    assert not page.is_visible("#explorer") and not page.is_visible("#contents")
    assert page.eval_on_selector("h1", "e => getComputedStyle(e).color") == "rgb(0, 0, 0)"
    assert page.eval_on_selector("figure", "e => getComputedStyle(e).breakInside") == "avoid"
    page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True)
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


# ---- the explorer ------------------------------------------------------------------------------

def test_hover_names_the_head(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    head = lonely(rows)
    page.mouse.move(*pixel(page, head))
    tip = page.wait_for_function("""() => {
        const tip = Chart.getChart(document.querySelector('.chart canvas[role=img]')).tooltip;
        return tip.opacity && tip.title.length ? [tip.title[0], ...tip.body[0].lines] : null;
    }""").json_value()
    row = rows[head]
    assert tip[0] == row["model"].replace("m", "Model ")
    assert tip[1] == (f"layer {row['layer']}, query head {row['q_head']}, "
                      f"key head {row['k_head']}")
    assert tip[2] == row["category"]
    for line, name in zip(tip[3:], ("r_q", "r_k")):
        label, value = line.split(": ")
        assert label == name and float(value.replace("−", "-")) == pytest.approx(row[name], rel=1e-3)


def test_filters(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    expect = lambda keep: wait_for_count(page, f"{sum(map(keep, rows))} of 120")
    page.select_option("#only-family", label="Beta")
    expect(lambda r: r["model"] in ("m2", "m3"))
    page.fill("#layer-low", "2")
    page.fill("#layer-high", "3")
    expect(lambda r: r["model"] in ("m2", "m3") and 2 <= r["layer"] <= 3)
    page.select_option("#range-field", "r_q")
    page.fill("#range-low", "0.6")
    page.click("#range-add")
    keep = lambda r: r["model"] in ("m2", "m3") and 2 <= r["layer"] <= 3 and r["r_q"] >= 0.6
    expect(keep)
    assert shown_heads(page) == [i for i, r in enumerate(rows) if keep(r)]
    in_chart = page.evaluate("""() => Chart.getChart(document.querySelector('.chart canvas[role=img]'))
        .data.datasets.filter((d) => !d.away).flatMap((d) => d.data.map((p) => p.head)).sort((a, b) => a - b)""")
    assert in_chart == shown_heads(page)
    away = page.evaluate("""() => Chart.getChart(document.querySelector('.chart canvas[role=img]'))
        .data.datasets.filter((d) => d.away).flatMap((d) => d.data.map((p) => p.head))""")
    assert sorted(away + in_chart) == list(range(120)), "the others stay, in grey"
    page.click("#ranges button")
    expect(lambda r: r["model"] in ("m2", "m3") and 2 <= r["layer"] <= 3)
    page.click("#reset-all")
    wait_for_count(page, "All 120 heads")
    page.fill("#search", "m1 L3H")
    expect(lambda r: r["model"] == "m1" and r["layer"] == 3)
    page.fill("#search", "")
    wait_for_count(page, "All 120 heads")
    page.click("#legend button >> nth=0")  # Alpha
    expect(lambda r: r["model"] in ("m2", "m3"))


def test_sorting_by_mouse_and_keyboard(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    by = lambda name, down: sorted(range(120), key=lambda i: (
        rows[i][name] is None, -rows[i][name] if down and rows[i][name] is not None
        else rows[i][name] or 0, i))
    page.click("#table th[data-name=r_q] button")
    assert page.get_attribute("#table th[data-name=r_q]", "aria-sort") == "descending"
    first = shown_heads(page)
    assert first == by("r_q", True)[:len(first)]
    page.keyboard.press("Enter")  # the focus stays on the header
    assert page.get_attribute("#table th[data-name=r_q]", "aria-sort") == "ascending"
    assert shown_heads(page)[:10] == by("r_q", False)[:10]
    page.focus("#table th[data-name=ap_drop] button")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert shown_heads(page)[-1] == 7  # without a number: last, whichever the order
    page.focus("#table th[data-name=ap_drop] button")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert shown_heads(page)[-1] == 7
    page.click("#table th[data-name=model] button")
    assert shown_heads(page)[:5] == [0, 1, 2, 3, 4]


def test_keys_walk_through_the_table(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    page.focus("#table tbody tr[data-head]")
    for key in ("ArrowDown", "ArrowDown", "PageDown", "ArrowUp"):
        page.keyboard.press(key)
    at = page.evaluate("+document.activeElement.dataset.head")
    assert at > 2
    assert page.evaluate("""() => Chart.getChart(document.querySelector('.chart canvas[role=img]'))
        .qkOwner.marked().pointed""") == [at]
    page.keyboard.press("Enter")
    wait_for_selection(page, "1 selected")
    assert marked(page)[0] == [at]
    page.keyboard.press("End")
    assert page.evaluate("+document.activeElement.dataset.head") == len(rows) - 1
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none"
    page.keyboard.press("Enter")
    wait_for_selection(page, "2 selected")


def test_a_click_marks_everywhere(made, open_page):
    path, rows = made
    page = explorer(open_page(path, viewport={"width": 1280, "height": 1400}))
    head = lonely(rows)
    wait_for_all_charts(page)
    page.mouse.click(*pixel(page, head))
    wait_for_selection(page, "1 selected")
    assert len(marked(page)) == 3 and all(heads == [head] for heads in marked(page))
    rings = page.eval_on_selector_all(".chart canvas.over", """(cs) => cs.map((c) => c.getContext('2d')
        .getImageData(0, 0, c.width, c.height).data.some((v) => v > 0))""")
    assert rings == [True] * 3
    row = page.locator(f"#table tr[data-head='{head}']")
    assert row.get_attribute("aria-selected") == "true" and row.is_visible()
    other_head = next(h for h in shown_heads(page)[10:] if h != head)
    page.locator(f"#table tr[data-head='{other_head}']").click(modifiers=["Shift"])
    wait_for_selection(page, "2 selected")
    assert sorted(marked(page)[0]) == sorted([head, other_head])
    page.click("#clear")
    wait_for_selection(page, "none selected")
    assert marked(page)[0] == []


def test_a_box_selects(made, open_page):
    path, rows = made
    page = explorer(open_page(path, viewport={"width": 1280, "height": 1400}))
    box = page.evaluate("""() => {
        const canvas = document.querySelector('.chart canvas[role=img]'), chart = Chart.getChart(canvas);
        const frame = canvas.getBoundingClientRect(), { x, y } = chart.scales;
        return [frame.left + x.getPixelForValue(0.5), frame.top + y.getPixelForValue(0.4),
                frame.left + x.getPixelForValue(0.8), frame.top + y.getPixelForValue(0.7)];
    }""")
    page.mouse.move(box[0], box[1])
    page.mouse.down()
    page.mouse.move(box[2], box[3], steps=5)
    page.mouse.up()
    inside = [i for i, r in enumerate(rows) if 0.5 <= r["r_q"] <= 0.8 and 0.4 <= r["r_k"] <= 0.7]
    assert sorted(marked(page)[0]) == inside
    wait_for_selection(page, f"{len(inside)} selected")


def test_any_two_columns(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    page.select_option(".chart >> nth=0 >> [data-axis=x]", "ap_drop")
    page.select_option(".chart >> nth=0 >> [data-axis=y]", "depth")
    points = page.evaluate("""() => Object.fromEntries(Chart.getChart(document.querySelector('.chart canvas[role=img]'))
        .data.datasets.flatMap((d) => d.data.map((p) => [p.head, [p.x, p.y]])))""")
    assert len(points) == 119  # one head has no ap_drop
    for head, (x, y) in points.items():
        row = rows[int(head)]
        assert x == pytest.approx(row["ap_drop"], rel=1e-4)
        assert y == pytest.approx(row["layer"] / 4)
    for group in ("model", "category", "layer", "family"):
        page.select_option("#color-by", group)
    assert page.locator("#legend button").count() == 2


def test_export(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    page.locator("#table tbody tr[data-head]").nth(3).click()
    page.locator("#table tbody tr[data-head]").nth(5).click(modifiers=["Shift"])
    table = exported(page, "#save-heads")
    assert table[0][:4] == ["model", "label", "family", "layer"]
    assert [line[0] for line in table[1:]] == [rows[3]["model"], rows[5]["model"]]
    for line, row in zip(table[1:], (rows[3], rows[5])):
        record = dict(zip(table[0], line))
        assert int(record["q_head"]) == row["q_head"] and record["category"] == row["category"]
        assert float(record["bias_strength"]) == pytest.approx(row["bias_strength"], rel=1e-4)
    page.click("#clear")
    assert len(exported(page, "#save-heads")) == 121
    summary = exported(page, "#save-headlines")
    assert [line[0] for line in summary] == ["kind", *["model"] * 4, *["family"] * 2, "all"]


# ---- names from outside ------------------------------------------------------------------------

def test_names_are_text(hostile, open_page, tmp_path):
    page = explorer(open_page(hostile))
    assert page.inner_text("h1") == HOSTILE[3] + HOSTILE[0]
    assert page.locator("script").count() == 7
    assert page.locator("[onerror], [onload], img[src=x], main b > script").count() == 0
    for name in (HOSTILE[0], HOSTILE[1], HOSTILE[3], HOSTILE[4]):
        assert page.locator("table.numbers th bdi", has_text=name).count() >= 1
    cells = page.eval_on_selector_all("#table tbody td:first-child", "es => es.map(e => e.textContent)")
    assert HOSTILE[0] in cells and HOSTILE[4] in cells
    assert max(map(len, cells)) < 50  # ten thousand letters are cut on the screen
    assert page.evaluate("document.documentElement.scrollWidth") <= DESKTOP["width"]
    page.fill("#search", HOSTILE[0])
    wait_for_count(page, "16 of")  # of its family
    page.screenshot(path=tmp_path / "hostile.png")
    assert not list(hostile.parent.rglob("x"))


def test_names_are_text_in_exports(hostile, open_page):
    page = explorer(open_page(hostile))
    for button in ("#save-heads", "#save-headlines"):
        table = exported(page, button)
        columns = [table[0].index(c) for c in ("model", "label", "family") if c in table[0]]
        names = {line[c] for line in table[1:] for c in columns}
        assert {"'=cmd()", "'@SUM(1+1)*cmd|' /C calc'!A0", "'-2+3", HOSTILE[0], HOSTILE[3]} <= names
        assert "x" * 10_000 in names
        assert {"-5e-1", "' =1+1"} <= names  # a number is no formula
        assert not any(name.startswith(("=", "+", "-", "@", "\t", "\r"))
                       for name in names - {"-5e-1"})
    numbers = [cell for line in exported(page, "#save-heads")[1:] for cell in line[7:]]
    assert any(re.fullmatch(r"-\d.*", cell) for cell in numbers)  # numbers keep their sign
    assert not any(re.fullmatch(r"'-?\d.*", cell) for cell in numbers)
