# SPDX-License-Identifier: Apache-2.0
"""The view of a head, and of several side by side: queries and keys from the capture, numbers with intervals,
curves, what is missing and what brings it."""
import base64
import csv
import io
import json
import re
import shutil
import shlex

import numpy as np
import pytest

from conftest import ROOT, head_pairs
from report_browser import PHONE, browser, exported, explorer, open_page  # noqa: F401
from report_pages import block
from test_report_reading import EXAMPLE

Image = pytest.importorskip("PIL.Image")
GROUP = 2
TINY = ROOT / "examples" / "kjv-tiny"


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    """An analysis with intervals, its capture beside it, and its page."""
    folder = tmp_path_factory.mktemp("heads")
    shutil.copytree(EXAMPLE, folder / "capture")
    qkscope("analyze", folder / "capture", "-o", folder / "results", "--ci", 95, expect=0)
    qkscope("report", folder / "results", expect=0)
    return folder / "results"


def page_text(results):
    return (results / "report.html").read_text()


def points(text):
    return block(text, "qk-views")["points"]


def picture(entry):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(entry[4]))).convert("RGBA")).astype(int)


def components(q, k):
    """PC0 and PC1 of both kinds together, up to their signs: an eigendecomposition of the covariance."""
    both = np.concatenate([q["vector"], k["vector"]])
    _, vectors = np.linalg.eigh(np.cov(both.T))
    return vectors[:, [-1, -2]]


def table_of(results, name):
    with open(results / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


# ---- queries and keys --------------------------------------------------------------------------

def check_pictures(of, capture):
    """Each edge is that of the projections, with 4 % of room; where a row lies alone the picture has the colour of
    its kind, and far from all rows it has none. Fewer than 1,000 rows of a kind are all drawn."""
    checked = 0
    for layer, head, q, k in head_pairs(capture, GROUP):
        axes = components(q, k)
        entry = of[f"{layer}:{head}"]
        places = [rows["vector"] @ axes for rows in (q, k)]
        both = np.concatenate(places)
        pixels = picture(entry)
        height, width = pixels.shape[:2]
        spots = np.empty_like(both)
        for a in range(2):
            low, high = both[:, a].min(), both[:, a].max()
            room = 0.04 * (high - low)
            edges = np.array(entry[2 * a:2 * a + 2])
            turned = not np.allclose(edges, [low - room, high + room], atol=1e-3)
            assert np.allclose(edges, [-high - room, -low + room] if turned else [low - room, high + room], atol=1e-3)
            spots[:, a] = ((-both[:, a] if turned else both[:, a]) - edges[0]) / (edges[1] - edges[0])
        spots = spots * [width, -height] + [0, height]
        distance = np.hypot(*(spots[:, None] - spots[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(spots))
        for row in np.flatnonzero(distance.min(0) > 12):
            x, y = np.minimum(spots[row].astype(int), [width - 1, height - 1])
            red, _, blue, alpha = pixels[y, x]
            assert alpha == 255 and (blue > red) == (row < len(q["vector"])), (layer, head, row)
            checked += 1
        empty = np.hypot(*(np.indices((height, width)).reshape(2, -1).T[::7, None, ::-1] - spots[None]).transpose(2, 0, 1))
        away = np.indices((height, width)).reshape(2, -1)[:, ::7][:, empty.min(1) > 8]
        assert away.size > 100 and (pixels[away[0], away[1], 3] == 0).all()
    assert checked > 20


def test_pictures_show_the_rows_where_they_are(results):
    check_pictures(points(page_text(results))[0]["pca"], EXAMPLE)


def test_queries_and_keys_before_rope(qkscope, tmp_path, open_page):
    """From the capture that the stages were compared with, where it is there; nothing is said of it where none was."""
    qkscope("capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-texts", "4", "--max-length", "64", "--long", "cut",
            "--sampler", "all", "--stage", "both", "-o", "both", "-q", cwd=tmp_path, expect=0)
    qkscope("pca", "both/post", "-o", "results", cwd=tmp_path, expect=0)
    qkscope("report", "results", cwd=tmp_path, expect=0)
    assert points(page_text(tmp_path / "results"))[0]["pre_pca"] == {}
    view = "#head-card[open] #head-view h3"
    page = open_page(tmp_path / "results" / "report.html")
    page.goto(page.url + "#heads=2:1")
    page.wait_for_selector(view)
    assert not [title for title in page.locator(view).all_inner_texts() if "Before RoPE" in title]
    qkscope("compare-stages", "both", "-o", "results", cwd=tmp_path, expect=0)
    qkscope("report", "results", cwd=tmp_path, expect=0)
    made = points(page_text(tmp_path / "results"))[0]
    check_pictures(made["pca"], tmp_path / "both" / "post")
    check_pictures(made["pre_pca"], tmp_path / "both" / "pre")
    assert made["pre_pca"].keys() == made["pre_ab"].keys() == made["ab"].keys() and made["shown"] == 20
    page = open_page(tmp_path / "results" / "report.html")
    page.goto(page.url + "#heads=2:1")
    page.wait_for_selector("#head-card[open] .plot img >> nth=3")
    assert [title for title in page.locator(view).all_inner_texts() if title.startswith("Before RoPE: on ")] == [
        "Before RoPE: on PC0 and PC1 of its own", "Before RoPE: on axes a and b of its own"]
    shutil.rmtree(tmp_path / "both" / "pre")
    qkscope("report", "results", cwd=tmp_path, expect=0)
    made = points(page_text(tmp_path / "results"))[0]
    assert made["pre_pca"] == {} and "both/pre was not there" in made["pre_why"] and len(made["pca"]) == 20


def test_late_rows_are_darker(results):
    """Along axis a, on which position is: the mean lightness of the blue half that is late is the lower one."""
    of = points(page_text(results))[0]["ab"]
    darker = 0
    for layer, head, q, _ in head_pairs(EXAMPLE, GROUP):
        pixels = picture(of[f"{layer}:{head}"])
        blue = (pixels[..., 2] > pixels[..., 0]) & (pixels[..., 3] == 255)
        half = pixels.shape[1] // 2
        sides = [pixels[:, side][blue[:, side]].mean() for side in (slice(0, half), slice(half, None))]
        darker += sides[1] < sides[0]  # axis a points towards late queries
    assert darker >= 18


def test_the_same_bytes_for_any_number_of_threads(qkscope, results, tmp_path):
    for threads in (1, 3):
        qkscope("report", results, "-o", tmp_path / str(threads), "--threads", threads, expect=0)
    pages = [(tmp_path / str(threads) / "report.html").read_bytes() for threads in (1, 3)]
    assert pages[0] == pages[1] == (results / "report.html").read_bytes()
    assert not [p for p in (tmp_path / "1" / "figures").iterdir() if "points" in p.name]


def test_what_pictures_weigh(results):
    """At most 6 MB for 300 heads, base64 included."""
    text = page_text(results)
    size = len(json.dumps(points(text)))
    assert points(text)[0]["shown"] == 20 and 20 * 4000 < size < 20 * 20500


def test_chosen_heads_alone(qkscope, results, tmp_path):
    qkscope("report", results, "-o", tmp_path, "--heads", "0:1-2,3:0", expect=0)
    text = (tmp_path / "report.html").read_text()
    assert set(points(text)[0]["pca"]) == set(points(text)[0]["ab"]) == {"0:1", "0:2", "3:0"}
    assert "Of <strong>3</strong> of 20 heads the page shows queries and keys as well" in text
    qkscope("report", results, "-o", tmp_path, "--no-points", expect=0)
    text = (tmp_path / "report.html").read_text()
    assert points(text)[0]["pca"] == {} and "It does not show queries and keys of heads: they were not asked for." in text
    failed = qkscope("report", results, "-o", tmp_path, "--heads", "0:1,9:0", expect=1)
    assert "heads 9:0: these results have none of them" in failed.err


@pytest.mark.parametrize("place, folder", [("work", "results"), ("work/results", "."), (".", "work/results"), ("moved", "results")])
def test_a_capture_that_was_named_from_elsewhere(qkscope, results, tmp_path, place, folder):
    """It is found where the report is made from another folder than the analysis, or both have moved."""
    work = tmp_path / "work"
    shutil.copytree(results.parent / "capture", work / "capture")
    qkscope("pca", "capture", "-o", "results", cwd=work, expect=0)
    if place == "moved":
        work.rename(tmp_path / "moved")
    qkscope("report", folder, cwd=tmp_path / place, expect=0)
    assert points(page_text(tmp_path / place / folder))[0]["shown"] == 20


@pytest.mark.parametrize("harm, why", [("gone", "was not there when this page was made"),
                                       ("other", "is not as it was analysed")])
def test_a_capture_that_is_not_there(qkscope, results, tmp_path, open_page, harm, why):
    """Its pictures are missing, and the view says what brings them; all else is as before."""
    shutil.copytree(results.parent / "capture", tmp_path / "capture")
    qkscope("pca", tmp_path / "capture", "-o", tmp_path / "results", expect=0)
    if harm == "gone":
        shutil.rmtree(tmp_path / "capture")
    else:
        with open(next((tmp_path / "capture").glob("l02h01q/*.parquet")), "ab") as file:
            file.write(b"PAR1")
    qkscope("report", tmp_path / "results", expect=0)
    page = open_page(tmp_path / "results" / "report.html")
    page.goto(page.url + "#heads=2:1")
    page.wait_for_selector("#head-card[open]")
    said = page.locator("#head-view .empty", has_text="Not on this page").first.inner_text()
    assert why in said and "brings it" in said
    assert page.locator("#head-view .plot img").count() == 0 and page.locator("#head-view .plot canvas").count() == 1


def test_a_capture_without_rows(qkscope, results, tmp_path, open_page):
    manifest = json.loads((results / "manifest.json").read_text())
    copy = shutil.copytree(results, tmp_path / "results")
    manifest["runs"][0]["kept"] = {"rows": "none"}
    (copy / "manifest.json").write_text(json.dumps(manifest))
    qkscope("report", copy, expect=0)
    entry = points(page_text(copy))[0]
    assert "keeps moments, and no rows" in entry["why"] and entry["command"].startswith("qkscope capture ")


# ---- the view ----------------------------------------------------------------------------------

def test_one_head(results, open_page):
    page = open_page(results / "report.html")
    page.goto(page.url + "#heads=2:1")
    page.wait_for_selector("#head-card[open] .plot img >> nth=1")
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
    missing = page.locator("#head-view .empty").all_inner_texts()
    commands = [shlex.split(text)[:2] for text in page.locator("#head-view .empty code").all_inner_texts()]
    assert len(missing) == len(commands) == 5
    assert {tuple(c) for c in commands} == {("qkscope", name) for name in ("compare-stages", "attention", "ablate")}


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
    const image = box.querySelector('img');
    return image ? ['left', 'top', 'width', 'height'].map((side) => parseFloat(image.style[side])) : null;
}).filter(Boolean)"""


def test_several_heads_have_the_same_axes(results, open_page):
    """The size of a picture on the screen is that of its ranges, by one factor for all heads."""
    page = open_page(results / "report.html")
    names = ["2:1", "0:3", "3:2"]
    page.goto(page.url + "#heads=" + ",".join(names))
    page.wait_for_selector("#head-card[open] .plot img >> nth=5")
    page.wait_for_function("() => document.querySelectorAll('#head-card .plot img')[5].style.width")
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
    assert page.locator("#head-card[open] .plot img").count() == 6
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
        page.wait_for_selector("#head-card[open] .plot img")
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
