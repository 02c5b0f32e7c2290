# SPDX-License-Identifier: Apache-2.0
"""What a reader sees in the figures: measured in the pictures themselves, of studies of one, four and eleven models and
of ten checkpoints, in the three themes. That the numbers are right is the business of the other tests."""
import re

import pytest

from drawn_studies import make_heads, write_results
from figure_files import draw
from made_tables import CROSS_MODEL
from svg_pictures import Picture

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


def draw_study(qkscope, tables, *options):
    return {path.stem: Picture(path) for path in sorted(draw(qkscope, tables, *options).glob("*.svg"))}


@pytest.fixture(scope="module")
def drawn(qkscope, tmp_path_factory):
    """drawn(study, option, value) -> {name: Picture}"""
    root, made = tmp_path_factory.mktemp("pictures"), {}

    def get(study, *options):
        if (study, *options) not in made:
            folder = root / "-".join([study, *options])
            make_study(folder, study)
            made[study, *options] = draw_study(qkscope, folder, *options)
        return made[study, *options]
    return get


PAGES = [(), ("--theme", "screen"), ("--theme", "dark"), ("--width", "85mm"), ("--width", "180mm")]


@pytest.mark.cases(8)
@pytest.mark.parametrize("study", STUDIES)
@pytest.mark.parametrize("page", PAGES, ids=" ".join)
def test_texts_are_whole_and_apart(drawn, study, page):
    """No text leaves the picture or runs into another, and minus signs are such."""
    pictures = drawn(study, *page)
    faults = {name: picture.faults() for name, picture in pictures.items()}
    assert not {name: fault for name, fault in faults.items() if fault}
    numbers = [text for picture in pictures.values() for text in picture.words() if re.fullmatch(r"[-−]?\d[\d.]*%?", text.strip())]
    assert study == "eleven" or any(n.startswith("−") for n in numbers)
    assert not [n for n in numbers if "-" in n or re.fullmatch(r"−0(\.0*)?%?", n)]


@pytest.mark.parametrize("study", STUDIES)
def test_headings(drawn, study):
    """The figure first, then of which study and model; the words of the study's title are all there."""
    for name, picture in drawn(study).items():
        largest = max(t.size for t in picture.texts)
        title = [t.text for t in picture.texts if t.size == largest]
        assert 1 <= len(title) <= 2 and len(" ".join(title)) > 7, (name, title)
        assert not TITLES[study] or TITLES[study] in " ".join(picture.words()), name


LEGENDS = {  # study, figure: names of the legend
    ("ten", "pca-02-rq-rk-scatter"): [f"{p} ({4 * 8 * PHASES.count(p)})" for p in dict.fromkeys(PHASES)],
    ("ten", "pca-12-phase-portraits"): list(dict.fromkeys(PHASES)),
    ("ten", "rotation-04-bias-histograms"): list(dict.fromkeys(PHASES)),
    ("ten", "rotation-05-slope-ratio"): list(dict.fromkeys(PHASES)),
    ("eleven", "pca-02-rq-rk-scatter"): ["Qwen3 (240)", "Llama 3.2 (144)", "Ministral3 (144)"],
    ("eleven", "rotation-05-slope-ratio"): FAMILIES["eleven"],
    ("eleven", "plasticity-05-score"): FAMILIES["eleven"],
}


@pytest.mark.parametrize("study, name", LEGENDS)
@pytest.mark.parametrize("page", [(), ("--theme", "dark")], ids=" ".join)
def test_legends_are_complete(drawn, study, name, page):
    """Each name has a colour of its own, which is drawn besides; a family or phase has one colour in every figure."""
    picture = drawn(study, *page)[name]
    legend = picture.legend()
    colors = [legend[entry] for entry in LEGENDS[study, name]]
    assert len(set(colors)) == len(colors)
    used = [color for tag in ("rect", "circle", "path") for color in picture.colors(tag)]
    assert all(used.count(color) > 1 for color in colors)
    of_slopes = drawn(study, *page)["rotation-05-slope-ratio"].legend()
    assert {entry.split(" (")[0]: legend[entry] for entry in LEGENDS[study, name]} == {
        entry.split(" (")[0]: of_slopes[entry.split(" (")[0]] for entry in LEGENDS[study, name]}


def test_many_families_have_as_many_colours(qkscope, tmp_path):
    rows = [row for i in range(30) for row in make_heads(f"m{i}", 2, 2, seed=i)]
    models = [{"model": f"m{i}", "label": f"M{i}", "family": f"Family {i}"} for i in range(30)]
    write_results(tmp_path / "tables", rows, models, tables=("rotation", "pca"), pcs=1)
    legend = draw_study(qkscope, tmp_path / "tables")["pca-02-rq-rk-scatter"].legend()
    assert [legend[f"Family {i} (4)"] for i in range(30)] and len(set(legend.values())) == 30


@pytest.mark.parametrize("study", ["eleven", "ten"])
def test_a_row_per_model(drawn, study):
    """Ten outlines over one another cannot be read: each has a line of its own, with its name."""
    picture = drawn(study)["rotation-04-bias-histograms"]
    rows = {text.text: text for text in picture.texts if text.text in LABELS[study]}
    assert set(rows) == set(LABELS[study])
    for group in ([LABELS[study]] if study == "ten" else
                  [[label for _, label, f in CROSS_MODEL if f == family] for family in FAMILIES[study]]):
        places = [rows[label].y for label in group]
        assert all(b - a > 20 for a, b in zip(places, places[1:], strict=False))
