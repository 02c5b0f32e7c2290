# SPDX-License-Identifier: Apache-2.0
"""What a reader sees in the figures: measured in the pictures themselves, of studies of one, four and eleven models and
of ten checkpoints, in the three themes. That the numbers are right is the business of the other tests."""
import re
from collections import Counter

import pytest

from drawn_studies import make_heads, write_results
from figure_files import blocks, check_pictures, draw, needs_gnuplot, numbers
from made_tables import CROSS_MODEL
from svg_pictures import overlap, read_picture

pytestmark = [pytest.mark.test_all, needs_gnuplot]

PHASES = ["stage 1: web"] * 4 + ["stage 2: code and mathematics"] * 2 + ["stage 3"] + ["long context extension 64k"] * 2 + ["SFT"]
STUDIES = ["one", "four", "eleven", "ten"]
TITLES = {"one": "", "four": "Four models", "eleven": "Eleven models, from three families, before they learn long contexts",
          "ten": "SmolLM3-3B in training: how plasticity changes"}
FAMILIES = {"four": ["Alpha", "Beta"], "eleven": ["Qwen3", "Llama 3.2", "Ministral3"]}
LABELS = {"one": ["SmolLM2-135M-Instruct"],
          "four": ["Alpha-1B", "Alpha-3B", "Beta-2B", "Beta-7B-Instruct-v0.3"],
          "eleven": [label for _, label, _ in CROSS_MODEL],
          "ten": [f"step-{40000 * (i + 1):06d}" for i in range(7)] + ["LC-32k", "LC-64k", "SFT-final"]}
EVERY = [(study, theme) for study in STUDIES for theme in ("paper", "screen", "dark")]


def change_of(study, i):
    """Some models have queries or keys that point the other way, some a bias towards early keys."""
    def change(row, rng):
        if study == "four" and i == 2:
            weight = 0.02 if row["layer"] == 0 else 1
            row |= {"r_q": -abs(row["r_q"]) * weight, "r_k": -abs(row["r_k"]) * weight}
        if study == "ten":
            row |= {"r_k": row["r_k"] - (1 if i < 2 else 0), "ap_first_20pct": 0.75 - 0.01 * i}
        if study in ("four", "ten") and i % 3 == 1:
            row["bias_strength"] *= -0.4
    return change


def make_study(folder, study):
    layers = {"one": 24, "four": 6, "eleven": 12, "ten": 8}[study]
    labels, rows, models, scores = LABELS[study], [], [], []
    family = {"one": ["SmolLM2"], "four": ["Alpha", "Alpha", "Beta", "Beta"],
              "eleven": [f for _, _, f in CROSS_MODEL], "ten": ["SmolLM3"] * 10}[study]
    for i, label in enumerate(labels):
        rows += make_heads(label.lower(), layers, 4, 2, seed=i, change=change_of(study, i))
        models.append({"model": label.lower(), "label": label, "family": family[i],
                       "phase": PHASES[i] if study == "ten" else ""})
        scores.append({"model": label.lower(), "family": family[i], "longbench_pro": 40 - 2 * i})
    write_results(folder, rows, models, scores if study in FAMILIES else None, pcs=10, buckets=5, bins=6, dim=16)
    if TITLES[study]:
        (folder / "manifest.json").write_text(f'{{"title": "{TITLES[study]}"}}')
    if study in ("eleven", "ten"):  # the figures of single models are looked at in the others
        for table in ("head_profile", "head_distance", "head_component_weights"):
            (folder / f"{table}.csv").unlink()


def draw_study(qkscope, tables, theme="paper", formats="svg"):
    return {path.stem: read_picture(path) for path in sorted(draw(qkscope, tables, "--theme", theme, formats=formats).glob("*.svg"))}


@pytest.fixture(scope="module")
def drawn(qkscope, tmp_path_factory):
    """drawn(study, theme) -> {name: Picture}; drawn.folder(study, theme)."""
    root, made = tmp_path_factory.mktemp("pictures"), {}

    def get(study, theme="paper"):
        if (study, theme) not in made:
            make_study(root / f"{study}-{theme}", study)
            made[study, theme] = draw_study(qkscope, root / f"{study}-{theme}", theme, "png,svg" if study == "four" else "svg")
        return made[study, theme]
    get.folder = lambda study, theme="paper": root / f"{study}-{theme}" / "figures"
    return get


def texts_at(picture, words, size=0):
    """The words are shown whole, in one line or below one another about the same middle."""
    lines = [t for t in picture.texts if t.turn == 0 and t.text and t.text in words]
    for text in lines:
        column = sorted((t for t in lines if abs(t.x - text.x) < 1 and t.size == text.size), key=lambda t: t.y)
        for first in range(len(column)):
            for end in range(first + 1, len(column) + 1):
                if " ".join(t.text for t in column[first:end]).replace("- ", "-") == words:
                    return True
    return False


def numbers_of(picture):
    return [t.text for t in picture.texts if re.fullmatch(r"[-−]?\d[\d.]*%?", t.text.strip())]


# ---- all figures -----------------------------------------------------------------------------

@pytest.mark.sample(5)
@pytest.mark.parametrize("study, theme", EVERY)
def test_texts_are_whole_and_apart(drawn, study, theme):
    """No text leaves the picture, is cut short, or runs into another: long titles, names of phases, numbers of the
    colour bar, labels of axes."""
    faults = []
    for name, picture in drawn(study, theme).items():
        shown = [t for t in picture.texts if t.box and t.text.strip()]
        for i, text in enumerate(shown):
            left, top, right, bottom = text.box
            if left < 0 or top < 0 or right > picture.width or bottom > picture.height:
                faults.append((name, "leaves the picture", text.text, text.box))
            if "…" in text.text:
                faults.append((name, "is cut", text.text))
            for other in shown[i + 1:]:
                twice = (text.text, text.x, text.y) == (other.text, other.x, other.y)  # gnuplot draws boxed ones twice
                if not twice and overlap(text.box, other.box) > 1.5:
                    faults.append((name, "run into one another", text.text, other.text))
    assert not faults


@pytest.mark.sample(5)
@pytest.mark.parametrize("study, theme", EVERY)
def test_numbers_stand_below_their_tics(drawn, study, theme):
    found = 0
    for name, picture in drawn(study, theme).items():
        tics = [m for m in picture.marks if m[0] == m[2] and 2.5 < m[3] - m[1] < 6]
        for text in (t for t in picture.texts if t.anchor == "middle" and t.turn == 0):
            below = [m for m in tics if abs(m[0] - text.x) < 10 and 5 < text.y - m[3] < 30]
            if below:
                assert text.text == text.text.strip(), (name, text.text)  # a space would move it
                assert min(abs(m[0] - text.x) for m in below) < 0.1, (name, text.text)
                found += 1
    assert found > 30


@pytest.mark.sample(5)
@pytest.mark.parametrize("study, theme", EVERY)
def test_samples_of_legends_stand_on_the_line_of_their_texts(drawn, study, theme):
    found = 0
    for name, picture in drawn(study, theme).items():
        for sample, text in picture.legend():
            assert abs(text.middle - sample.y) < 0.12 * text.size, (name, text.text, text.middle - sample.y)
            found += 1
    assert found >= 4


@pytest.mark.sample(5)
@pytest.mark.parametrize("study, theme", EVERY)
def test_minus_signs(drawn, study, theme):
    shown = [n for picture in drawn(study, theme).values() for n in numbers_of(picture)]
    assert any(n.startswith("−") for n in shown)
    assert not [n for n in shown if "-" in n or re.fullmatch(r"−0(\.0*)?%?", n)]


@pytest.mark.sample(5)
@pytest.mark.parametrize("study, theme", EVERY)
def test_headings(drawn, study, theme):
    """The figure first, then of which study and model; the words of the study's title are all there."""
    for name, picture in drawn(study, theme).items():
        heading = [t for t in picture.texts if t.anchor == "middle" and abs(t.x - picture.width / 2) < 1]
        largest = max(t.size for t in heading)
        title = [t.text for t in heading if t.size == largest]
        assert 1 <= len(title) <= 2 and not any(":" in t for t in title), title
        assert "external score" not in " ".join(title) and len(" ".join(title)) > 10
        labels = [label for label in LABELS[study] if name.endswith("-" + label.lower().replace(".", "_"))
                  or name.endswith("-" + label.lower())] if name.startswith("plasticity-0") else []
        label = LABELS["one"][0] if study == "one" else labels[0] if labels else ""
        pooled = len(LABELS[study]) > 1 and name in ("pca-01-pc-roles", "pca-05-explained-variance")
        word = "models" if study in FAMILIES else "checkpoints"
        subject = " · ".join(filter(None, [TITLES[study], label,
                                           f"heads of all {len(LABELS[study])} {word}" if pooled else ""]))
        assert texts_at(picture, subject), (name, subject, picture.words()[:5])
    if study == "four":
        assert texts_at(drawn(study, theme)["plasticity-05-score"],
                        "Attention plasticity drop, first to last 20% of context against LongBench Pro")


@pytest.mark.parametrize("theme", ["paper", "screen", "dark"])
def test_pngs_are_whole(drawn, theme):
    check_pictures(drawn.folder("four", theme), drawn("four", theme))


@pytest.mark.parametrize("name", ["pca-07-position-signal", "pca-08-taxonomy", "pca-09-pc0-variance",
                                  "rotation-02-drift-correlation", "plasticity-04-trajectory"])
@pytest.mark.parametrize("theme", ["paper", "screen", "dark"])
def test_phases_are_named_whole(drawn, name, theme):
    picture = drawn("ten", theme)[name]
    for phase in set(PHASES):
        assert texts_at(picture, phase), (phase, picture.words())


# ---- colours and legends ---------------------------------------------------------------------

LEGENDS = {  # study, figure: names of the legend
    ("ten", "pca-02-rq-rk-scatter"): [f"{p} ({4 * 8 * PHASES.count(p)})" for p in dict.fromkeys(PHASES)],
    ("ten", "pca-12-phase-portraits"): list(dict.fromkeys(PHASES)),
    ("ten", "rotation-04-bias-histograms"): list(dict.fromkeys(PHASES)),
    ("ten", "rotation-05-slope-ratio"): list(dict.fromkeys(PHASES)),
    ("ten", "rotation-07-bias-vs-separation"): list(dict.fromkeys(PHASES)),
    ("ten", "rotation-10-bias-decomposition"): list(dict.fromkeys(PHASES)),
    ("eleven", "pca-02-rq-rk-scatter"): ["Qwen3 (240)", "Llama 3.2 (144)", "Ministral3 (144)"],
    ("eleven", "rotation-05-slope-ratio"): FAMILIES["eleven"],
    ("eleven", "plasticity-05-score"): FAMILIES["eleven"],
    ("four", "rotation-07-bias-vs-separation"): LABELS["four"],
}


@pytest.mark.parametrize("study, name", LEGENDS)
@pytest.mark.parametrize("theme", ["paper", "dark"])
def test_legends_are_complete(drawn, study, name, theme):
    picture = drawn(study, theme)[name]
    points = LABELS[study] if name == "plasticity-05-score" else []  # they have their names beside them
    marks = ["quartiles", "median"]  # both in the colour of texts
    legend = [(sample, text) for sample, text in picture.legend() if text.text not in points + marks]
    assert sorted(re.sub(r" \(r = .*\)$", "", text.text) for _, text in legend) == sorted(LEGENDS[study, name])
    colors = [sample.color for sample, _ in legend]
    assert len(set(colors)) == len(colors), "each entry has a colour of its own"
    entries = {id(sample) for sample, _ in legend}
    used = {s.color for s in picture.samples if id(s) not in entries} | {a.color for a in picture.areas}
    assert set(colors) <= used, "each colour of the legend is drawn"


def colors_of(picture, names):
    """name: colour of its sample in the legend, whatever follows the name there."""
    return {name: sample.color for name in names for sample, text in picture.legend()
            if text.text.split(" (")[0] == name}


@pytest.mark.parametrize("study, groups", [("eleven", FAMILIES["eleven"]), ("ten", list(dict.fromkeys(PHASES)))])
@pytest.mark.parametrize("theme", ["paper", "dark"])
def test_a_colour_means_one_thing(drawn, study, groups, theme):
    """That of a family (in training: of a phase) is the same in every figure, and is not that of a model."""
    pictures = drawn(study, theme)
    expected = colors_of(pictures["rotation-05-slope-ratio"], groups)
    assert len(set(expected.values())) == len(groups)
    assert colors_of(pictures["pca-02-rq-rk-scatter"], groups) == expected
    assert colors_of(pictures["rotation-07-bias-vs-separation"], groups) == expected
    hills = [color for color, points in pictures["rotation-04-bias-histograms"].lines if len(points) > 8 and color in expected.values()]
    assert set(hills) == set(expected.values()) and len(hills) == len(LABELS[study])
    shares = {sample.color for sample, _ in pictures["rotation-03-variance-shares"].legend()}
    assert not shares & set(expected.values()), "parts of the variance are no families"


def test_many_families_have_as_many_colours(qkscope, tmp_path):
    rows = [row for i in range(30) for row in make_heads(f"m{i}", 2, 2, seed=i)]
    models = [{"model": f"m{i}", "label": f"M{i}", "family": f"Family {i}"} for i in range(30)]
    write_results(tmp_path / "tables", rows, models, tables=("rotation", "pca"), pcs=1)
    pictures = draw_study(qkscope, tmp_path / "tables")
    legend = pictures["pca-02-rq-rk-scatter"].legend()
    assert [text.text for _, text in legend] == [f"Family {i} (4)" for i in range(30)]
    assert len({sample.color for sample, _ in legend}) == 30
    bars = [a.color for a in pictures["rotation-05-slope-ratio"].areas]
    assert len(set(bars)) == 30


# ---- figures one by one ----------------------------------------------------------------------

@pytest.mark.parametrize("study", ["eleven", "ten"])
def test_a_row_per_model(drawn, study):
    """Ten outlines over one another cannot be read: each has a line of its own, with its name."""
    picture = drawn(study)["rotation-04-bias-histograms"]
    rows = {label: picture.find(label)[0] for label in LABELS[study]}
    for group in ([LABELS[study]] if study == "ten" else
                  [[label for _, label, f in CROSS_MODEL if f == family] for family in FAMILIES[study]]):
        places = [rows[label].y for label in group]
        assert all(b - a > 20 for a, b in zip(places, places[1:], strict=False))
    feet = {round(max(y for _, y in points)) for _, points in picture.lines if len(points) > 8}
    for text in rows.values():
        assert min(abs(foot - text.middle) for foot in feet) < 3, text.text


def test_at_most_four_models_share_a_panel(drawn):
    for study in ("eleven", "ten"):
        picture = drawn(study)["rotation-07-bias-vs-separation"]
        assert all(len(picture.find(label)) == 1 for label in LABELS[study])
    words = drawn("four")["rotation-07-bias-vs-separation"].words()
    assert words.count("Separation strength") == 2 and {"Alpha", "Beta"} <= set(words)
    titles = drawn("eleven")["rotation-07-bias-vs-separation"].words()
    assert sum(bool(re.fullmatch(r"(Qwen3|Llama 3.2|Ministral3) \(r = −?\d\.\d\d\)", t)) for t in titles) == 3


def cells_of(picture):
    """Boxes of a heatmap: four corners, larger than those of the colour scale."""
    widest = Counter(round(a.box[2] - a.box[0]) for a in picture.areas if len(a.points) == 4).most_common()
    width = max(w for w, count in widest if count > 4 and w > 40)
    return [a for a in picture.areas if len(a.points) == 4 and abs(a.box[2] - a.box[0] - width) < 2]


@pytest.mark.sample(5)
@pytest.mark.parametrize("study, theme", EVERY)
def test_few_layers_have_a_column_each(drawn, study, theme):
    layers = {"one": None, "four": 6, "eleven": None, "ten": 8}[study]
    for name in ("pca-03-layer-heatmap-rq", "pca-04-layer-heatmap-rk"):
        assert (name in drawn(study, theme)) == (study != "one"), "one model has head maps instead"
        if study == "one":
            continue
        picture = drawn(study, theme)[name]
        cells = cells_of(picture)
        assert len(cells) == len(LABELS[study]) * (layers or 10)
        assert not any(a.pattern for a in cells) and picture.background not in {a.color for a in cells}
        words = picture.words()
        assert ("Layer" in words) == (layers is not None)
        assert ("Depth (layer / last layer)" in words) == (layers is None)


@pytest.mark.parametrize("theme", ["paper", "dark"])
def test_what_is_missing_is_hatched(qkscope, tmp_path, theme):
    rows = [r for r in make_heads("gappy", 24, 3, 1, seed=3) if r["layer"] in (0, 3, 9, 15, 16, 23)]
    write_results(tmp_path / "tables", rows + make_heads("full", 24, 3, 1, seed=4), tables=("pca", "rotation"), pcs=1)
    pictures = draw_study(qkscope, tmp_path / "tables", theme)
    missing = 10 - len({min(9, 10 * r["layer"] // 23) for r in rows})
    assert missing == 5
    for name, maps in ("pca-03-layer-heatmap-rq", 1), ("pca-04-layer-heatmap-rk", 1), ("rotation-06-layer-heatmaps", 2):
        cells, picture = cells_of(pictures[name]), pictures[name]
        assert len(cells) == maps * (20 - missing)
        hatched = [a for a in picture.areas if a.pattern]
        assert len(hatched) == maps + 1, "behind each map, and in the line that says what it means"
        for cell in cells:
            assert any(h.box[0] <= cell.box[0] + 1 and cell.box[2] <= h.box[2] + 1 for h in hatched)
        assert picture.background not in {a.color for a in cells}
        assert {"Depth (layer / last layer)", "no layer there"} <= set(picture.words())


def test_the_scale_of_low_maps_has_room_for_its_numbers(drawn):
    picture = drawn("four")["rotation-06-layer-heatmaps"]
    right = max(a.box[2] for a in picture.areas)
    scale = [t for t in picture.texts if t.anchor == "start" and t.x > right]
    assert len(scale) >= 4
    for one in scale:
        for other in scale:
            assert one is other or abs(one.y - other.y) > one.size, (one.text, other.text)


@pytest.mark.parametrize("theme", ["paper", "dark"])
def test_whiskers_are_whole(drawn, theme):
    """One line from the first to the third quartile, with the median's dot on it and no gap around that."""
    picture, name = drawn("ten", theme)["rotation-09-training-metrics"], "rotation-09-training-metrics"
    legend = picture.legend()
    ink = next(sample.color for sample, text in legend if text.text == "median")
    assert {"quartiles", *PHASES} <= set(picture.words())
    dots = [s for s in picture.samples if s.color == ink and s.point == "gpPt6"]
    assert len(dots) == 4 * 10 + 1
    assert not [s for s in picture.samples if s.color == picture.background]
    rows = [numbers([row[:5] for row in block]) for block in blocks(drawn.folder("ten", theme) / name)]
    lines = [m for m in picture.marks if m[0] == m[2] and m[3] != m[1]]
    heights = []
    for dot in dots[1:] if legend else dots:
        at = [m for m in lines if abs(m[0] - dot.x) < 0.1 and min(m[1], m[3]) - 0.1 <= dot.y <= max(m[1], m[3]) + 0.1]
        if at:
            heights.append(max(abs(m[3] - m[1]) for m in at))
    assert len(heights) == 40
    for panel, block in enumerate(rows):
        lengths = block[:, 3] - block[:, 2]
        found = [h / length for h, length in zip(heights[10 * panel:10 * panel + 10], lengths, strict=True)]
        assert max(found) / min(found) == pytest.approx(1, rel=0.02), "as long as the quartiles are apart"
