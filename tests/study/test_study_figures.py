# SPDX-License-Identifier: Apache-2.0
"""The figures and the page of a study: which there are, when they are drawn again, what happens
when drawing fails."""
import csv
import json
import re
import shutil
import statistics

import pytest

from conftest import read_json, synth
from figure_files import needs_rsvg, svg_texts
from fake_cache import CROSS_MODEL, STUDIES, add_capture, group_of

PANELS = ("pca-06-collage", "rotation-01-plane", "rotation-08-complement", "pca-13-extreme-heads")


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    root = tmp_path_factory.mktemp("captures")
    for seed, name in enumerate("abc"):
        synth(root / name, seed=seed, layers=2, query_heads=4, q_per_kv_group=2, dim=16,
              examples=2, rows=60, buckets=6, bucket_width=16, rope_planes=1)
    return root


@pytest.fixture
def study(qkscope, captures, tmp_path):
    """study("a", phase=True) writes and runs a study of these captures with figures."""
    def run(names, *arguments, more="", phase=False, expect=0, env=None):
        rows = [f"  - {{name: {n}, source: {captures / n}"
                + (f", phase: p{i // 2}" if phase else "") + "}\n" for i, n in enumerate(names)]
        (tmp_path / "s.yaml").write_text("models:\n" + "".join(rows) + more)
        outcome = qkscope("study", tmp_path / "s.yaml", "-o", tmp_path / "out", "--json",
                          *arguments, expect=expect, env=env)
        run.err = outcome.err
        return json.loads(outcome.out)
    run.out, run.captures = tmp_path / "out", captures
    run.figures = lambda: {p.stem for p in (tmp_path / "out" / "figures").glob("*.svg")}
    return run


@pytest.mark.test_all
def test_a_single_model(study):
    outcome = study("a")
    names = study.figures()
    assert {f"{p}-a" for p in PANELS} <= names
    assert not any("trajectory" in n or "training" in n for n in names), names
    assert outcome["report"]["failed"] == [] and (study.out / "report.html").stat().st_size > 0
    assert outcome["report"]["figures"] >= len(names)
    for panel in PANELS:
        assert (study.out / "figures" / f"{panel}-a.csv").stat().st_size > 100
    assert read_json(study.out / "manifest.json")["figures"]["failed"] == []


def test_a_warning_comes_once(qkscope, captures, tmp_path):
    """The analysis and each collage open the capture."""
    shutil.copytree(captures / "a", tmp_path / "a")
    (tmp_path / "a" / "examples.csv").write_text("example_id,text_id\n0,0\n1,0\n")
    (tmp_path / "s.yaml").write_text("models: [{name: a, source: a}]\nanalyses: [pca, rotation]\n")
    for _ in range(2):  # computed, and kept
        said = qkscope("study", tmp_path / "s.yaml", "-o", tmp_path / "out", "--no-html", expect=0).err
        assert said.count("a: examples.csv: 2 examples are 1 text ") == 1


@pytest.mark.test_all
def test_the_heads_that_stand_out(study):
    """Those of the tables with the highest and the lowest r_q, r_k, bias and plasticity; each panel says which it is."""
    study("a", "--no-html")
    rows = {}
    for name, columns in (("qk.csv", ("r_q", "r_k")), ("rotated.csv", ("bias_strength",)),
                          ("head_metrics.csv", ("ap_overall",))):
        with open(study.out / name, newline="") as file:
            for row in csv.DictReader(file):
                if row.get("pc", "0") == "0":
                    found = rows.setdefault((int(row["layer"]), int(row["q_head"])), {})
                    found |= {c: float(row[c]) for c in columns if row[c]}
    expected, medians = {}, []
    for column, word in (("r_q", "r_q"), ("r_k", "r_k"), ("bias_strength", "bias"), ("ap_overall", "plasticity")):
        known = sorted((head for head in rows if column in rows[head]), key=lambda head: rows[head][column])
        for head, side in ((known[-1], "max"), (known[0], "min")):
            expected.setdefault(head, []).append(f"{side} {word}")
        middle = statistics.median(rows[head][column] for head in known)
        medians.append((min(sorted(known), key=lambda head: abs(rows[head][column] - middle)), f"median {word}"))
    for head, what in medians:
        if len(expected) < 6:
            expected.setdefault(head, []).append(what)
    text = "\n".join(svg_texts(study.out / "figures" / "pca-13-extreme-heads-a")).replace("rq", "r_q").replace("rk", "r_k")
    drawn = [((int(a), int(b)), what.split(", ")) for a, b, what in re.findall(r"L(\d+) H(\d+): ([\w, ]+)", text)]
    assert drawn == list(expected.items())[:6] and len(drawn) > 2


@pytest.mark.test_all
def test_phases_bring_the_figures_of_training(study):
    """And a collage of a checkpoint names its model, since the label alone, "20", says nothing."""
    few = "analyses: [pca]\n"
    study("ab", "--no-html", more=few)
    without = study.figures()
    assert not (study.out / "report.html").exists()
    study("ab", "--no-html", phase=True, more=few)
    assert study.figures() - without
    figure = study.out / "figures" / f"{PANELS[0]}-a"
    assert "a" in svg_texts(figure)
    rows = "".join(f"  - {{name: {n}, family: Tiny, phase: p, source: {study.captures / n}}}\n" for n in "ab")
    study("", "--no-html", more=rows + few)
    assert "Tiny · a" in svg_texts(figure), "drawn again"
    study("ab", "--no-html", more=few)
    assert study.figures() == without, "figures that no longer apply are gone"


@pytest.mark.test_all
def test_collages_stand(study):
    times = {}

    def redrawn():
        """Models whose collage was drawn since the last call."""
        now = {n: (study.out / "figures" / f"{PANELS[0]}-{n}.svg").stat().st_mtime_ns
               for n in "ab"}
        new = {n for n in now if times.get(n) != now[n]}
        times.update(now)
        return new

    few = "analyses: [pca]\n"
    study("ab", "--no-html", more=few)
    assert redrawn() == {"a", "b"}
    study("ab", "--no-html", more=few)
    assert redrawn() == set()
    study("ab", "--no-html", "--theme", "dark", more=few)
    assert redrawn() == {"a", "b"}
    more = few + "figures: {theme: dark, collage: {rows: 1, columns: 1, heads: '1:2', max_points: 9}}\n"
    study("ab", "--no-html", more=more)
    assert redrawn() == {"a", "b"}
    (study.out / "figures" / f"{PANELS[0]}-b.svg").unlink()
    study("ab", "--no-html", more=more)
    assert redrawn() == {"b"}
    study("ab", "--no-html", "--force", more=more)
    assert redrawn() == {"a", "b"}


@needs_rsvg
def test_pdf_of_collages(study):
    """Without headings and legends, by options of the run, as figures of the study are."""
    study("a", "--no-html", "--format", "pdf", "--no-title", "--no-legend", more="analyses: [pca]\n")
    texts = [svg_texts(study.out / "figures" / name) for name in (f"{PANELS[0]}-a", "pca-01-pc-roles")]
    assert "a" not in texts[0] and "combined QK PCA" not in " ".join(texts[1])
    assert (study.out / "figures" / f"{PANELS[0]}-a.pdf").read_bytes()[:4] == b"%PDF"


def test_a_figure_that_fails(study):
    """A head that is not there: its collage is missing, everything else is there."""
    outcome = study("a", "--no-html", expect=3, more="analyses: [pca]\n"
                    "figures: {collage: {heads: '9:9'}}\n")
    assert len(outcome["report"]["failed"]) == 1
    assert f"{PANELS[0]}-a" in outcome["report"]["failed"][0] and f"{PANELS[0]}-a" in study.err
    assert (study.out / "qk.csv").exists()
    assert "combined QK PCA" in " ".join(svg_texts(study.out / "figures" / "pca-01-pc-roles"))
    manifest = read_json(study.out / "manifest.json")
    assert manifest["complete"] and manifest["figures"]["failed"] == outcome["report"]["failed"]


@pytest.mark.test_long
def test_the_published_study(qkscope, tmp_path):
    """All thirteen models with figures and page."""
    for seed, name in enumerate(CROSS_MODEL):
        group = group_of(name)
        synth(tmp_path / name, seed=seed, layers=2, query_heads=2 * group,
              q_per_kv_group=group, dim=16, examples=2, rows=60, buckets=6, bucket_width=16,
              rope_planes=1)
        add_capture(tmp_path / "hf", name, tmp_path / name)
    outcome = qkscope("study", STUDIES / "cross-model.yaml", "-o", tmp_path / "out", "--json",
                      env={"HF_HOME": tmp_path / "hf"}, expect=0)
    assert json.loads(outcome.out)["report"]["failed"] == []
    names = {p.stem for p in (tmp_path / "out" / "figures").glob("*.svg")}
    assert {f"{panel}-{name}" for panel in PANELS for name in CROSS_MODEL} <= names
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Position and content in thirteen models" in page
    assert all(name in page for name in CROSS_MODEL)
