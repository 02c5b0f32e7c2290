# SPDX-License-Identifier: Apache-2.0
"""What a reader sees first: what was analysed, how far it can be trusted, what stands out; from the tables
and the manifests of their runs, and from nothing else, so that the same tables give the same page."""
import csv
import html
import json
import platform
import re
import shlex
import shutil

import pytest

from conftest import EXAMPLE, VERSION
from findings_dump import findings_in
from made_tables import make_heads, write_results
from report_pages import block, drawn, findings, page_drawn, page_of, plain

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def analysed(qkscope, tmp_path_factory):
    """Results of a capture that lies where a dataset of the Hub lies, made on 9 September 2001."""
    root = tmp_path_factory.mktemp("first-screen")
    capture = root / "datasets--someone--kjv" / "snapshots" / COMMIT
    shutil.copytree(EXAMPLE, capture)
    out = root / "results"
    qkscope("analyze", capture, "-o", out, "--ci", 95, "--layers", "0-1", "--model-name", "tiny", expect=0,
            env={"SOURCE_DATE_EPOCH": "1000000000"})
    return out


def facts(page):
    found = re.search(r'<dl class="facts">(.*?)</dl>', page, re.S)[1]
    return {name: plain(text) for name, text in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", found, re.S)}


def card(page, name):
    return re.search(rf'<div class="card" id="{name}">(.*?)</div>', page, re.S)[1]


def heads_of(folder):
    with open(folder / "heads.csv", newline="") as file:
        return list(csv.DictReader(file))


def test_what_was_analysed(qkscope, analysed):
    out = analysed
    shown = facts(page_drawn(qkscope, out))
    heads = heads_of(out)
    rows = [int(h[c]) for h in heads for c in ("n_q", "n_k")]
    texts = {int(h["texts"]) for h in heads}
    layers = json.loads((out / "manifest.json").read_text())["runs"][0]["num_layers"]
    span = lambda values: f"{min(values):,}" + (f" to {max(values):,}" if len(set(values)) > 1 else "")
    assert shown == {"Model": "tiny", "Heads": f"{len(heads)} query heads in {layers} layers",
                     "Rows a head": f"{span(rows)} queries or keys", "Texts": f"{span(texts)} a head; texts of 989.5 tokens (407 to 1024), positions 0 to 1023 (mean 494.147)",
                     "Captures": f"someone/kjv at {COMMIT[:12]}", "Made": "2001-09-09",
                     "Host": platform.node(), "qkscope": VERSION}
    assert f'<code title="{COMMIT}">' in drawn(out / "report.html")


def test_the_same_page_at_any_time(qkscope, analysed):
    out = analysed
    page = page_of(qkscope, out)
    qkscope("report", out, env={"SOURCE_DATE_EPOCH": "1700000000"})
    assert (out / "report.html").read_text() == page and "2023-" not in page


@pytest.mark.release
def test_how_far_it_can_be_trusted(qkscope, analysed, tmp_path):
    out = analysed
    trusted = card(page_drawn(qkscope, out), "trusted")
    shares = [float(h["category_probability"]) for h in heads_of(out) if h["category_probability"]]
    below = sum(share < 0.95 for share in shares)
    assert f"{below} of {len(shares)} heads" in plain(trusted)
    run = json.loads((out / "manifest.json").read_text())["runs"][0]
    for warning in run["warnings"]:
        assert html.escape(warning, quote=False) in trusted or warning in plain(trusted)
    again = tmp_path / "again"
    shutil.copytree(out, again)
    manifest = json.loads((again / "manifest.json").read_text())
    manifest["runs"][0].update(warnings=[f"<b>odd</b> {i}" for i in range(5)], heads_without_numbers=3)
    (again / "manifest.json").write_text(json.dumps(manifest))
    trusted = card(page_drawn(qkscope, again), "trusted")
    assert "warned of 5 things" in plain(trusted) and "<summary>2 more</summary>" in trusted
    assert "&lt;b&gt;odd&lt;/b&gt; 4 <small>(<bdi>tiny</bdi>)" in trusted
    assert f"3 of {run['heads']} heads could not be analysed" in plain(trusted)
    (again / "manifest.json").unlink()
    page = page_drawn(qkscope, again)
    assert "have no manifest" in card(page, "trusted") and "Made" not in facts(page)


def test_a_study_tells_of_all_its_runs(qkscope, tmp_path):
    """Days from the first to the last, hosts, versions, and a warning once for all models that have it."""
    rows, models = [], []
    names = [f"m{i}" for i in range(8)]
    for i, name in enumerate(names):
        rows += make_heads(name, 3, 2, 2, seed=i)
        models.append({"model": name, "label": f"Model {i}", "family": "F"})
        folder = tmp_path / "study" / "models" / name
        folder.mkdir(parents=True)
        run = {"qkscope": VERSION, "model": name, "capture": f"/data/{name}", "heads": 6, "heads_without_numbers": 0,
               "date": f"2026-11-{20 + i % 3}T10:00:00+00:00", "host": "alpha" if i else "<beta>",
               "warnings": ["few texts"] if i % 2 else [], "tables": ["heads.csv"]}
        (folder / "manifest.json").write_text(json.dumps({"kind": "results", "runs": [run]}))
    study = write_results(tmp_path / "study", rows, models, buckets=4, bins=2, dim=4)
    listed = [{"model": n, "label": f"Model {i}", "folder": f"models/{n}", "state": "ok", "message": None}
              for i, n in enumerate(names)]
    listed.append({"model": "m9", "label": "Model 9", "folder": None, "state": "failed", "message": "m9: no such folder"})
    listed.append({"model": "m8", "label": "Model 8", "folder": "models/../../elsewhere", "state": "ok", "message": None})
    (study / "manifest.json").write_text(json.dumps({"kind": "study", "complete": True, "models": listed}))
    page = page_drawn(qkscope, study)
    shown = facts(page)
    assert shown["Made"] == "2026-11-20 to 2026-11-22" and shown["Host"] == "<beta>, alpha"
    assert shown["Models"] == "8: " + ", ".join(f"Model {i}" for i in range(6)) + " and 2 more"
    assert shown["Captures"].startswith("data/m0data/m1") and "and 2 more" in shown["Captures"]
    trusted = card(page, "trusted")
    assert "few texts <small>(4 models)</small>" in trusted and "m9: no such folder <small>(<bdi>Model 9</bdi>)" in trusted


def test_what_stands_out_is_a_finding(qkscope, analysed):
    out = analysed
    page = page_drawn(qkscope, out)
    found = {name: f.verdict for name, f in findings((out / "report.html").read_text()).items()}
    links = re.findall(r'<a href="#finding-([^"]*)">', card(page, "standing"))
    answers = [name for name, verdict in found.items() if verdict in ("supported", "opposite", "divided")]
    assert len(links) == min(5, len(answers)) and set(links) <= set(answers) and len(set(links)) == len(links)
    effects = [float(e) for e in re.findall(r'data-effect="([^"]*)"', card(page, "standing"))]
    assert len(effects) == len(links) and effects == sorted(effects, reverse=True)
    assert all(f'id="finding-{name}"' in page for name in found)
    assert f"All {len(found)} findings" in card(page, "standing") or not found


def commands(page):
    return [html.unescape(c) for c in re.findall(r"<code>(.*?)</code>", card(page, "next"))]


@pytest.mark.release
def test_what_to_do_next(qkscope, analysed, tmp_path):
    """What is missing, in order, with the capture of the manifest."""
    out = analysed
    page = page_drawn(qkscope, out)
    run = json.loads((out / "manifest.json").read_text())["runs"][0]
    assert commands(page) == [f"qkscope attention {run['capture']} -o RESULTS",
                              "qkscope ablate --model MODEL --text TEXT -o RESULTS/ablation",
                              "qkscope compare-stages PRE POST -o RESULTS"]
    rows = make_heads("m", 3, 2, 2, change=lambda row, _: row.update(texts=7 if row["layer"] else 9))
    tables = write_results(tmp_path / "tables", rows, tables=("pca",), buckets=4, bins=2, dim=4)
    assert commands(page_drawn(qkscope, tables)) == [
        "qkscope analyze CAPTURE -o RESULTS --ci 95", "qkscope capture --model MODEL --text TEXTS -o LARGER",
        "qkscope rotate CAPTURE -o RESULTS"]
    run = {"qkscope": VERSION, "model": "m", "tables": ["qk.csv", "heads.csv", "rotated.csv"], "settings": {"ci": 95}}
    (tables / "manifest.json").write_text(json.dumps({"kind": "results", "runs": [run]}))
    assert commands(page_drawn(qkscope, tables))[:2] == [
        "qkscope capture --model MODEL --text TEXTS -o LARGER", "qkscope plasticity CAPTURE -o RESULTS"], "rotate ran without numbers"
    (tables / "manifest.json").unlink()
    heads = ["m,{},{},0,0.1,0.05,0.15".format(row["layer"], row["q_head"]) for row in rows]
    (tables / "ablation").mkdir()
    (tables / "ablation" / "ablation_heads.csv").write_text("\n".join(
        ["model,layer,q_head,k_head,remove_loss,remove_loss_lo,remove_loss_hi", *heads]) + "\n")
    again = page_drawn(qkscope, tables)
    assert "0.15" in json.dumps(block((tables / "report.html").read_text(), "qk-heads")), "the ablation was read"
    assert commands(again)[0] == "qkscope analyze CAPTURE -o RESULTS --ci 95", "its intervals are its own"


def test_a_capture_is_quoted_for_a_shell(qkscope, analysed, tmp_path):
    out = analysed
    copy = shutil.copytree(out, tmp_path / "copy")
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["runs"][0]["capture"] = "/a <b>'s"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    assert shlex.split(commands(page_drawn(qkscope, copy))[0])[2] == "/a <b>'s"


def test_the_largest_effects_stand_first(qkscope, tmp_path):
    """Whatever their order on the page: PC0 leads in three of four heads, and is its first finding."""
    def change(row, rng):
        row["others"] = row["r_q"] + (0.1 if row["q_head"] == 0 else -0.3) + rng.uniform(-0.05, 0.05)
        row["ap_drop"] = 0.2 + rng.gauss(0, 0.01) if row["layer"] else -0.2
    rows = [row for i in range(6) for row in make_heads(f"m{i}", 12, 4, 1, seed=i, change=change)]
    folder = write_results(tmp_path / "results", rows, buckets=4, bins=2, dim=4)
    found = findings_in(folder)[0]
    assert found["pc0-positional"].effect == pytest.approx(0.5)
    assert found["plasticity-falls"].effect == pytest.approx(10 / 12)
    answers = {n: f.effect for n, f in found.items() if f.verdict in ("supported", "opposite", "divided")}
    expected = sorted(answers, key=lambda name: -answers[name])[:5]
    shown = card(page_drawn(qkscope, folder), "standing")
    assert re.findall(r'<a href="#finding-([^"]*)">', shown) == expected
    assert len(answers) > 5 and list(answers)[0] == "pc0-positional" and "pc0-positional" not in expected


def test_no_verdict_reads_as_false(qkscope, tmp_path):
    """Keys that follow position more than queries: true, and so the badge says."""
    def keys_first(row, rng):
        row["r_q"], row["r_k"] = rng.uniform(0.2, 0.4), rng.uniform(0.8, 0.9)
    rows = [r for i in range(6) for r in make_heads(f"m{i}", 4, 4, 2, seed=i, change=keys_first)]
    models = [{"model": f"m{i}", "label": f"M{i}", "family": f"F{i}"} for i in range(6)]
    write_results(tmp_path, rows, models, buckets=6, bins=4, dim=8)
    page = page_drawn(qkscope, tmp_path)
    badge = re.search(r'id="finding-queries-over-keys"[^>]*><span class="badge (\S+)">(.*?)</span>', page)
    assert badge.groups() == ("opposite", "supported, against expectation")


@pytest.mark.release
def test_heads_without_numbers_have_names(qkscope, analysed, tmp_path):
    out = analysed
    shutil.copytree(out, tmp_path / "out")
    manifest = json.loads((out / "manifest.json").read_text())
    heads = [f"l00h{i:02d}q" for i in range(7)]
    heads[1] = "<b>"
    for count, said in ((1, ": l00h00q."), (7, ": l00h00q, <b>, l00h02q, l00h03q, l00h04q and 2 more.")):
        manifest["runs"][0].update(heads_without_numbers=count,
                                   failures=[{"head": h, "reason": "r", "message": "m"} for h in heads[:count]])
        (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
        page = page_drawn(qkscope, tmp_path / "out")
        warning = re.search(r'<p class="warning" data-warning="failed">(.*?)</p>', page, re.S)[1]
        assert plain(warning).endswith("heads could not be analysed" + said)
