# SPDX-License-Identifier: Apache-2.0
"""The report's controls: the picture of all heads, a head by itself, figures enlarged and saved, tables
that sort, the address that keeps what is seen; every one of them from the keyboard, and for readers who
do not see."""
import io
import re
import urllib.parse
import xml.etree.ElementTree

import pytest

from report_browser import (browser, explorer, made, marked, open_page, saved, shown_heads,  # noqa: F401
                            wait_for_count, wait_for_selection)

pytestmark = pytest.mark.test_all

WIDE = {"width": 1400, "height": 900}
PHONE = {"width": 390, "height": 844}


def cell(page, model, layer, head):
    """Where the middle of a cell is on the screen: maps have the gutter of map.js at their left."""
    canvas = page.locator("#map-grid canvas").nth(model)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    return box["x"] + 26 + (box["width"] - 27) * (layer + 0.5) / 5, box["y"] + (box["height"] - 18) * (head + 0.5) / 6


def color(page, model, layer, head):
    """Of the middle of a cell, 0 to 1."""
    canvas = page.locator("#map-grid canvas").nth(model)
    return canvas.evaluate("""(c, [layer, head]) => {
        const ratio = devicePixelRatio, wide = c.width / ratio - 27, tall = c.height / ratio - 18;
        return [...c.getContext('2d').getImageData(ratio * (26 + wide * (layer + 0.5) / 5),
            ratio * tall * (head + 0.5) / 6, 1, 1).data].slice(0, 3).map((v) => v / 255);
    }""", [layer, head])


def status(page):
    return page.inner_text("#map-status")


# ---- all heads ---------------------------------------------------------------------------------

def test_the_map_has_the_colours_of_the_numbers(made, open_page):
    """Against matplotlib's magma, as in the figures, between the heads that are left of 98 %."""
    magma = pytest.importorskip("matplotlib").colormaps["magma"]
    path, rows = made
    page = open_page(path, viewport=WIDE)
    assert page.locator("#map-grid canvas").count() == 4
    page.select_option("#map-field", "ap_overall")
    values = sorted(r["ap_overall"] for r in rows)
    low, high = values[len(values) // 100], values[-1 - len(values) // 100]
    for row in rows[::7]:
        found = color(page, int(row["model"][1]), row["layer"], row["q_head"])
        expected = magma((row["ap_overall"] - low) / (high - low))[:3]
        assert max(abs(a - b) for a, b in zip(found, expected)) < 0.06, row
    legend = page.inner_text("#map-legend").replace("\n", " ")
    assert f"{low:.3f}" in legend and f"{high:.3f}" in legend and "no number" in legend


def test_every_column_colours_the_map(made, open_page):
    path, rows = made
    page = open_page(path)
    names = page.eval_on_selector_all("#map-field option", "os => os.map(o => o.value)")
    assert {"category", "r_q", "bias_strength", "ap_drop"} <= set(names) and len(names) > 30
    for name in names:
        page.select_option("#map-field", name)
        assert page.inner_text("#map-legend")
    page.select_option("#map-field", "category")
    seen = {}
    for row in rows:
        seen.setdefault(row["category"], set()).add(tuple(color(page, int(row["model"][1]), row["layer"], row["q_head"])))
    assert all(len(colors) == 1 for colors in seen.values())
    assert len(set.union(*seen.values())) == len(seen)


def test_a_click_on_the_map_opens_the_head(made, open_page):
    path, rows = made
    page = open_page(path, viewport=WIDE)
    page.mouse.move(*cell(page, 2, 3, 4))
    row = next(r for r in rows if (r["model"], r["layer"], r["q_head"]) == ("m2", 3, 4))
    assert status(page).startswith(f"Model 2, layer 3, head 4: r_q {row['r_q']:.4g}"[:34])
    page.mouse.click(*cell(page, 2, 3, 4))
    assert page.inner_text("#head-title") == "Model 2, layer 3, head 4"


def test_the_map_by_keyboard(made, open_page):
    path, _ = made
    page = open_page(path, viewport=WIDE)
    page.focus("#map-grid canvas >> nth=1")
    assert status(page).startswith("Model 1, layer 0, head 0:")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowUp", "End"):
        page.keyboard.press(key)
    assert status(page).startswith("Model 1, layer 4, head 0:")
    page.keyboard.press("Enter")
    assert page.inner_text("#head-title") == "Model 1, layer 4, head 0"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.querySelectorAll('#map-grid canvas')[1]")


# ---- a head by itself --------------------------------------------------------------------------

def card(page):
    """Column: (value, share of the heads of its model below it)."""
    number = lambda text: float(text.replace("−", "-"))
    return {row[0]: (number(row[1]), None if row[2] == "–" else float(row[2].rstrip("\xa0 %")))
            for row in page.eval_on_selector_all("#head-numbers tr:has(td.value)",
                                                 "rs => rs.map(r => [r.querySelector('code').textContent, ...[...r.cells].slice(1).map(c => c.firstChild.textContent)])")}


def test_a_link_to_a_head_opens_it(made, open_page):
    path, rows = made
    row = rows[45]
    page = open_page(path)
    page.goto(f"{path.as_uri()}#head={row['model']}/L{row['layer']}H{row['q_head']}")
    page.wait_for_selector("#head-card[open]")
    assert page.inner_text("#head-title") == f"Model 1, layer {row['layer']}, head {row['q_head']}"
    shown = card(page)
    same = [r for r in rows if r["model"] == row["model"]]
    for name in ("r_q", "bias_strength", "plane_var_fraction", "ap_overall", "ap_drop"):
        assert shown[name][0] == pytest.approx(row[name], rel=1e-3)
        below = sum(r[name] < row[name] for r in same if r[name] is not None)
        known = sum(r[name] is not None for r in same)
        assert shown[name][1] == pytest.approx(100 * below / (known - 1), abs=0.51)
    page.click("#head-next")
    assert page.inner_text("#head-title") == f"Model 1, layer {rows[46]['layer']}, head {rows[46]['q_head']}"
    page.wait_for_function("() => location.hash.includes('heads=m1/')")
    page.keyboard.press("Escape")
    page.wait_for_function("() => location.hash === ''")
    page.goto(f"{path.as_uri()}#head=nobody/L0H0")
    page.wait_for_function("() => document.querySelector('#map-status').textContent.startsWith('There is no head')")


def test_the_most_extreme_heads(made, open_page):
    path, rows = made
    page = open_page(path, viewport=WIDE)
    page.locator("#extremes").scroll_into_view_if_needed()
    page.wait_for_selector(".extreme")
    box = page.locator(".extreme", has=page.locator("code", has_text=re.compile("^bias_strength$")))
    order = sorted(rows, key=lambda r: r["bias_strength"])
    names = box.locator("button bdi").all_inner_texts()
    expected = [f"Model {r['model'][1]} L{r['layer']}H{r['q_head']}" for r in [*order[:-4:-1], *order[:3]]]
    assert names == expected
    page.select_option("#extremes-model", label="Model 3")
    first = box.locator("button").first
    best = max((r for r in rows if r["model"] == "m3"), key=lambda r: r["bias_strength"])
    assert first.locator("bdi").inner_text() == f"Model 3 L{best['layer']}H{best['q_head']}"
    first.click()
    assert page.inner_text("#head-title") == f"Model 3, layer {best['layer']}, head {best['q_head']}"
    page.click("#head-mark")
    wait_for_selection(page, "1 selected")
    assert page.evaluate("document.querySelector('#explorer').getBoundingClientRect().top") < 450


# ---- figures -----------------------------------------------------------------------------------

FIRST = "#fig-pca-01-pc-roles"


def test_a_figure_is_enlarged(made, open_page):
    page = open_page(made[0], viewport=WIDE)
    page.focus(f"{FIRST} .enlarge")
    page.keyboard.press("Enter")
    page.wait_for_selector("#zoom[open] svg")
    width = lambda: page.evaluate("document.querySelector('#zoom svg').getBoundingClientRect().width")
    fit = width()
    assert fit > 800 and page.inner_text("#zoom-title").startswith("Position correlation")
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert width() == pytest.approx(fit * 1.69, rel=0.01)
    page.keyboard.press("-")
    assert width() == pytest.approx(fit * 1.3, rel=0.01)
    page.keyboard.press("0")
    assert width() == pytest.approx(fit, rel=0.01)
    page.keyboard.press("PageDown")
    assert page.inner_text("#zoom-title").startswith("Queries against keys")
    page.keyboard.press("PageUp")
    page.keyboard.press("Escape")
    assert page.locator("#zoom[open]").count() == 0 and page.locator(f"{FIRST} .sheet svg").count() == 1
    assert page.evaluate("document.activeElement.matches('.enlarge')")
    page.locator(f"{FIRST} .sheet").click()
    page.wait_for_selector("#zoom[open] svg")


def test_two_fingers_enlarge(made, open_page):
    page = open_page(made[0], viewport=PHONE, has_touch=True)
    page.locator(f"{FIRST} .enlarge").tap()
    page.wait_for_selector("#zoom[open] svg")
    width = lambda: page.evaluate("document.querySelector('#zoom svg').getBoundingClientRect().width")
    before = width()
    fingers = lambda gap: [{"x": 195 - gap, "y": 420}, {"x": 195 + gap, "y": 420}]
    client = page.context.new_cdp_session(page)
    client.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": fingers(40)})
    for gap in (50, 60, 80):
        client.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": fingers(gap)})
    client.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert width() == pytest.approx(2 * before, rel=0.05)


def test_what_a_figure_saves(made, open_page):
    """What is drawn, as it lies in the folder; the drawing stands alone."""
    path, _ = made
    page = open_page(path, viewport=WIDE)
    name, data = saved(page, f"{FIRST} button[aria-label$='.csv']")
    assert name == "pca-01-pc-roles.csv"
    whole = (path.parent / "figures" / name).read_text()
    for short, full in zip(data.decode().replace("\n", ",").split(","), whole.replace("\n", ",").split(","), strict=True):
        assert short == full or float(short) == pytest.approx(float(full), rel=5e-7)  # seven digits are saved
    name, data = saved(page, f"{FIRST} button[aria-label$='.svg']")
    tree = xml.etree.ElementTree.fromstring(data)
    assert name.endswith(".svg") and tree.tag.endswith("svg") and b"var(" not in data
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}text"))) > 5
    name, data = saved(page, f"{FIRST} button[aria-label$='.png']")
    image = pytest.importorskip("PIL.Image").open(io.BytesIO(data)).convert("RGB")
    assert image.width > 1000 and len(image.getcolors(1 << 20)) > 20
    for files in page.locator(".files").all():
        assert files.locator("button").count() >= 4  # enlarge, and at least three to save


# ---- tables, filters, the address --------------------------------------------------------------

def test_the_summary_sorts(made, open_page):
    page = open_page(made[0])
    table = page.locator("table.numbers").first
    values = lambda index: [float(v) for v in table.locator("tbody tr.model").evaluate_all(
        f"rs => rs.map(r => r.cells[{index}].dataset.value)")]
    kinds = ["model"] * 4 + ["family"] * 2 + ["all"]
    assert table.locator("tbody tr").evaluate_all("rs => rs.map(r => r.className)") == kinds
    header = table.locator("th", has_text="mean r").first
    index = header.evaluate("th => th.cellIndex")
    before = values(index)
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending" and values(index) == sorted(before, reverse=True)
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending" and values(index) == sorted(before)
    assert table.locator("[aria-sort]:not([aria-sort=none])").count() == 1
    table.locator("th button").first.click()
    labels = table.locator("tbody tr.model th").all_inner_texts()
    assert labels == [f"Model {i}" for i in range(4)]
    assert table.locator("tbody tr").evaluate_all("rs => rs.map(r => r.className)") == kinds


def test_the_address_keeps_what_is_seen(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    page.select_option("#only-family", label="Beta")
    page.fill("#layer-low", "2")
    page.select_option("#range-field", "r_q")
    page.fill("#range-low", "0.5")
    page.click("#range-add")
    page.select_option("#color-by", "layer")
    page.select_option(".chart >> nth=0 >> [data-axis=x]", "depth")
    page.click("#table th[data-name=r_q] button")
    page.select_option("#map-field", "ap_drop")
    page.wait_for_function("() => location.hash.includes('ap_drop') && location.hash.includes('sort')")
    heads, address = shown_heads(page), page.url
    expected = [i for i, r in enumerate(rows) if r["model"] in ("m2", "m3") and r["layer"] >= 2 and r["r_q"] >= 0.5]
    assert sorted(heads) == expected and heads != expected
    fields = urllib.parse.parse_qs(urllib.parse.urlsplit(address).fragment)
    assert fields["only-family"] == ["Beta"] and fields["sort"] == ["-r_q"]
    other = open_page(path)
    other.goto("about:blank")
    other.goto(address)
    explorer(other)
    wait_for_count(other, f"{len(expected)} of 120")
    assert shown_heads(other) == heads
    assert other.input_value("#color-by") == "layer" and other.input_value("#map-field") == "ap_drop"
    assert other.input_value(".chart >> nth=0 >> [data-axis=x]") == "depth"
    other.click("#reset-all")
    other.wait_for_function("() => !location.hash.includes('only-family')")


def test_what_is_filtered_out_has_no_ring(made, open_page):
    path, _ = made
    page = explorer(open_page(path, viewport={"width": 1280, "height": 1400}))
    page.locator("#table tbody tr[data-head='3']").click()
    wait_for_selection(page, "1 selected")
    assert marked(page)[0] == [3]
    page.select_option("#only-model", label="Model 2")
    wait_for_selection(page, "1 selected, 1 of them filtered out")
    page.mouse.move(0, 0)  # a row under the pointer has a ring of its own
    assert all(heads == [] for heads in marked(page))
    inked = page.eval_on_selector_all(".chart canvas.over", """(cs) => cs.map((c) => c.getContext('2d')
        .getImageData(0, 0, c.width, c.height).data.some((v) => v > 0))""")
    assert not any(inked)


def test_a_number_filters_while_it_is_typed(made, open_page):
    path, rows = made
    page = explorer(open_page(path))
    page.select_option("#range-field", "r_q")
    axes = "() => { const { x, y } = Chart.getChart(document.querySelector('.chart canvas[role=img]')).scales; return [x.min, x.max, y.min, y.max]; }"
    before = page.evaluate(axes)
    page.fill("#range-low", "0.5")
    expected = {i for i, r in enumerate(rows) if r["r_q"] >= 0.5}
    wait_for_count(page, f"{len(expected)} of {len(rows)}")
    away = page.evaluate("() => Chart.getChart(document.querySelector('.chart canvas[role=img]')).data.datasets.at(-1).data.map((p) => p.head)")
    assert set(away) == set(range(len(rows))) - expected and len(away) > 5
    assert page.evaluate(axes) == before
    assert "−" in page.evaluate("() => Chart.getChart(document.querySelector('.chart canvas[role=img]')).options.scales.x.ticks.callback(-0.5)")
    page.wait_for_function("() => location.hash.includes('range=r_q:0.5:Infinity')")
    page.click("#range-add")
    assert page.input_value("#range-low") == "" and page.locator("#ranges li").count() == 1
    wait_for_count(page, f"{len(expected)} of {len(rows)}")


def test_rings_lie_under_what_is_written(made, open_page):
    """A tooltip is part of the chart's canvas, which stands before that of the rings."""
    page = explorer(open_page(made[0]))
    assert page.evaluate("""() => [...document.querySelectorAll('.canvas')].every((box) => {
        const [over, chart] = box.querySelectorAll('canvas');
        return over.matches('.over') && chart.matches('[role=img]') && getComputedStyle(chart).position === 'relative';
    })""")


def test_nothing_is_blank_on_paper(made, open_page):
    """What is drawn when it comes into view is drawn before printing, too."""
    page = open_page(made[0], viewport=WIDE)
    page.pdf()  # as the browser prints: before and after it the page is told
    boxes = page.locator(".extreme canvas")
    assert boxes.count() == 7
    assert page.evaluate("""() => [...document.querySelectorAll('.extreme canvas, #map-grid canvas')].every((c) =>
        c.width > 50 && c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((v) => v > 0))""")


def test_when_nothing_is_left(made, open_page):
    page = explorer(open_page(made[0]))
    page.fill("#search", "no such head")
    wait_for_count(page, "0 of 120")
    assert page.is_visible("#no-heads") and shown_heads(page) == [] and page.is_disabled("#select-all")
    assert page.is_visible(".chart >> nth=0 >> p.empty")
    page.click("#reset-empty")
    wait_for_count(page, "All 120 heads")
    assert not page.is_visible("#no-heads") and page.input_value("#search") == ""


def test_contents_follow_and_sections_fold(made, open_page):
    page = open_page(made[0], viewport=WIDE)
    current = "document.querySelector('#contents [aria-current]')?.hash"
    part = page.get_attribute("#figures .part >> nth=1", "id")
    for place in ("#findings", f"#{part}", "#explorer"):
        page.click(f"#contents a[href='{place}']")
        page.wait_for_function(f"() => {current} === '{place}'")
        assert 0 <= page.evaluate(f"document.querySelector('{place}').getBoundingClientRect().top") < 300
    page.focus("#figures > details > summary")
    page.keyboard.press("Enter")
    assert not page.is_visible(FIRST)
    page.locator("#findings .shown a").first.click()  # a link to a figure unfolds what it is in
    page.wait_for_function("() => document.querySelector('#figures > details').open")
    phone = open_page(made[0], viewport=PHONE)
    assert not phone.is_visible("#contents-list")
    phone.click("#contents-open")
    assert phone.get_attribute("#contents-open", "aria-expanded") == "true" and phone.is_visible("#contents-list")
    phone.click("#contents a[href='#summary']")
    assert not phone.is_visible("#contents-list")
    assert phone.evaluate("document.querySelector('#summary').getBoundingClientRect().top") < 150


OPEN = """() => [...document.querySelectorAll('main section')].filter((s) => s.querySelector(':scope > details.fold[open]'))
    .map((s) => s.id)"""


def test_after_the_first_screen_all_is_folded(made, open_page):
    page = open_page(made[0], folded=True, viewport=WIDE)
    sections = page.eval_on_selector_all("main section > details.fold", "folds => folds.map((f) => f.parentElement.id)")
    assert sections[:5] == ["findings", "summary", "extremes", "explorer", "figures"] and page.evaluate(OPEN) == []
    assert page.evaluate("document.documentElement.scrollHeight") < 2500
    link = page.locator("#standing a[href^='#finding-']").first
    link.click()
    page.wait_for_function("() => document.activeElement.matches('.claim')")
    assert page.evaluate(OPEN) == ["findings"] and page.is_visible(link.get_attribute("href"))
    page.click("#contents a[href='#explorer']")
    page.wait_for_function("() => document.querySelector('#explorer > details').open")
    assert len(shown_heads(page)) > 10  # as many as have room, though it was drawn while it was folded
    page.focus("#summary summary")
    page.keyboard.press("Enter")
    assert page.evaluate(OPEN) == ["findings", "summary", "explorer"]
    page.click("#unfold")
    assert page.evaluate(OPEN) == sections and page.inner_text("#unfold") == "Close all sections"
    page.click("#unfold")
    assert page.evaluate(OPEN) == []


@pytest.mark.parametrize("address, opened", [
    ("#finding-bias-recent", ["findings"]), ("#figures", ["figures"]), (FIRST, ["figures"]), ("#only-family=Beta", ["explorer"]),
    ("#chart1=depth~r_q", ["explorer"]), ("#map=r_k", []), ("#at=methods&sort=r_q", ["explorer", "methods"])])
def test_an_address_opens_what_it_leads_into(made, open_page, address, opened):
    page = open_page(made[0], folded=True)
    page.evaluate("address => { location.hash = address; }", address)
    page.wait_for_function("count => document.querySelectorAll('main section > details[open]').length >= count", arg=len(opened))
    page.wait_for_timeout(100)
    assert page.evaluate(OPEN) == opened


# Of each section that is folded, and of the folds in it, some words that stand nowhere else.
WORDS_OF_FOLDS = """() => {
    const whole = document.body.textContent, words = [];
    for (const fold of document.querySelectorAll("main details:not([open])")) {
        const walk = document.createTreeWalker(fold, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
            const parent = walk.currentNode.parentElement;
            const text = (walk.currentNode.data.match(/\\b[A-Za-z]+(?: [A-Za-z]+){2,5}\\b/) || [""])[0];
            if (!text || whole.split(text).length > 2 || parent.closest("details:not([open])") !== fold
                || parent.closest("summary, select, button, noscript, .noscript, [hidden], .unseen")) continue;
            words.push([fold.closest("section").id, text]);
            break;
        }
    }
    return words;
}"""


def test_a_search_of_the_browser_opens_what_it_finds(made, open_page):
    """Told by an address that names a text, since nothing else lets a script search as Ctrl-F does; what opens is the same."""
    page = open_page(made[0], folded=True, viewport=WIDE)
    address, words = page.url, page.evaluate(WORDS_OF_FOLDS)
    assert {"findings", "summary", "explorer", "figures", "methods"} <= {section for section, _ in words}
    for section, text in words:
        page.goto("about:blank")
        page.goto(f"{address}#:~:text={urllib.parse.quote(text)}")
        page.wait_for_function("section => document.querySelector(`#${section} > details`).open", arg=section)
        assert page.evaluate(OPEN) == [section], text
        seen = page.get_by_text(text).last.bounding_box()
        assert seen["y"] < WIDE["height"] and seen["y"] + seen["height"] > 0, text


def test_paper_and_no_scripts_have_all(made, open_page):
    page = open_page(made[0], folded=True, viewport=WIDE)
    page.evaluate("addEventListener('beforeprint', () => { window.printed = (" + OPEN + ")(); })")
    page.pdf()
    assert [s for s in page.evaluate("window.printed") if s != "explorer"] == [
        "findings", "summary", "extremes", "figures", "methods", "manifest"]
    assert page.evaluate(OPEN) == []
    plain = open_page(made[0], folded=True, java_script_enabled=False)
    assert not plain.is_visible(FIRST)
    plain.locator("#figures > details > summary").click()
    assert plain.is_visible(FIRST)


# ---- for everybody -----------------------------------------------------------------------------

REACHED = """() => {
    window.reached = new Set();
    addEventListener('focusin', (event) => window.reached.add(event.target), true);
}"""
MISSED = """() => [...document.querySelectorAll('a[href], button, select, input, summary, [tabindex="0"]')]
    .filter((e) => e.tabIndex >= 0 && !e.disabled && e.checkVisibility() && !e.closest('dialog'))
    .filter((e) => !window.reached.has(e)).map((e) => e.outerHTML.slice(0, 120))"""


def test_tab_reaches_every_control(made, open_page):
    """One way through the page, without a trap; what has the focus shows it."""
    page = open_page(made[0], viewport=WIDE)
    page.locator("#extremes").scroll_into_view_if_needed()
    page.wait_for_selector(".extreme")
    page.evaluate("scrollTo(0, 0)")
    page.evaluate(REACHED)
    page.evaluate("document.body.focus()")
    stops = page.evaluate("document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]').length")
    plain = 0
    for press in range(stops + 40):
        page.keyboard.press("Tab")
        if press % 25 == 0:
            plain += page.evaluate("getComputedStyle(document.activeElement).outlineStyle === 'none' "
                                   "&& document.activeElement !== document.body")
    assert page.evaluate(MISSED) == [] and plain == 0


def test_nothing_that_axe_calls_serious(made, open_page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe (tests/requirements.txt)").Axe()
    page = open_page(made[0], viewport=WIDE)

    def serious(context, rules=None):
        options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        found = axe.run(page, context=context, options=options).response
        assert len(found["passes"]) > 0
        return [(v["id"], v["nodes"][0]["html"][:200]) for v in found["violations"]
                if v["impact"] in ("serious", "critical")]
    page.eval_on_selector_all("details", "ds => ds.forEach((d) => (d.open = true))")
    page.locator("#extremes").scroll_into_view_if_needed()
    page.wait_for_selector(".extreme")
    explorer(page)
    whole = {"exclude": [[".sheet"]]}  # drawings of thousands of elements
    assert serious(whole) == []
    page.emulate_media(color_scheme="dark")
    assert serious(whole, ["color-contrast"]) == []
    for opener in ("#map-grid canvas >> nth=0", f"{FIRST} .enlarge"):
        page.focus(opener)
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        assert serious("dialog[open]") == []
        page.keyboard.press("Escape")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    assert serious(whole) == []
