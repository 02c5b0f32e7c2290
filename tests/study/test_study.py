# SPDX-License-Identifier: Apache-2.0
"""`qkscope study` on small captures of its own: combined tables, what is kept and what is computed
again, folders, names, and what happens when something is missing."""
import csv
import json
import os
import shutil
import statistics

import pytest

from conftest import ROOT, read_bytes, read_json, synth

TABLES = ("qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv", "head_profile.csv",
          "head_bucket_plasticity.csv", "head_distance.csv", "head_component_weights.csv",
          "model_report.csv")
SMALL = dict(layers=1, query_heads=4, q_per_kv_group=2, dim=16, examples=2, rows=80, buckets=4,
             bucket_width=32, rope_planes=1)
CELLS = ("__proto__", "a\"><script>alert(1)</script>", "'; system \"touch x\"; '", "=cmd()",
         "x" * 300, "Modèle Ω 模型", "../../up", ".", "a\tb\x07c", "%s%n", "a,b\nc")


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """Folders a, b and c with different captures."""
    root = tmp_path_factory.mktemp("captures")
    for seed, name in enumerate("abc"):
        synth(root / name, seed=seed, **SMALL)
    return root


@pytest.fixture
def here(captures, tmp_path):
    """An own copy of the captures, in the folder where a test writes its study."""
    for name in "abc":
        shutil.copytree(captures / name, tmp_path / name)
    return tmp_path


def write_study(folder, models="abc", more=""):
    """A study of some of the captures, or of (name, source) pairs."""
    pairs = [(m, m) if isinstance(m, str) else m for m in models]
    rows = [f"  - {{name: {json.dumps(n)}, source: {json.dumps(s)}}}\n" for n, s in pairs]
    (folder / "study.yaml").write_text("models:\n" + "".join(rows) + more, encoding="utf-8")
    return folder / "study.yaml"


@pytest.fixture
def study(qkscope, here):
    """study(...) runs here/study.yaml without figures and returns its JSON."""
    def run(*arguments, expect=0, out="out", **options):
        outcome = qkscope("study", here / "study.yaml", "-o", here / out, "--no-figures",
                          "--json", *arguments, expect=expect, **options)
        run.err = outcome.err
        return json.loads(outcome.out) if outcome.out else None
    return run


def states(outcome):
    return {m["model"]: m["state"] for m in outcome["models"]}


def reasons(outcome):
    return {m["model"]: m["message"] for m in outcome["models"]}


def snapshot(folder):
    """Every file of a study by name; of manifests what does not tell of this very run."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_dir():
            continue
        if path.name == "manifest.json":
            manifest = read_json(path)
            for part in (manifest, *manifest.get("runs", [])):
                for key in ("seconds", "timings", "command_line", "threads", "date"):
                    part.pop(key, None)
            files[name] = manifest
        else:
            files[name] = path.read_bytes()
    return files


# ---- tables ----------------------------------------------------------------------------------

def test_combined_tables_are_those_of_the_models(qkscope, here, study):
    write_study(here)
    study()
    for name in "abc":
        qkscope("analyze", here / name, "-o", here / "own" / name, "--model-name", name, "--lda",
                expect=0)
    for table in TABLES:
        parts = [(here / "own" / name / table).read_text().split("\n", 1) for name in "abc"]
        combined = (here / "out" / table).read_text()
        assert combined == parts[0][0] + "\n" + "".join(rows for _, rows in parts), table
        for name in "abc":
            assert ((here / "out" / "models" / name / table).read_bytes()
                    == (here / "own" / name / table).read_bytes())


def test_models_table_and_manifest(here, study):
    (here / "study.yaml").write_text(
        "title: 'A \"title\"'\n"
        "models:\n"
        "  - {name: b, label: Bee, family: F1, phase: early, source: b, q_per_kv_group: 2}\n"
        "  - {name: a, source: {folder: a}, phase: late}\n"
        "analyses: [pca]\n")
    outcome = study()
    rows = list(csv.reader((here / "out" / "models.csv").open()))
    assert [row[:8] for row in rows] == [["model", "label", "family", "phase", "source", "layers", "heads",
                                          "folder"],
                                         ["b", "Bee", "F1", "early", "b", "1", "4", "models/b"],
                                         ["a", "a", "", "late", "a", "1", "4", "models/a"]]
    assert rows[0][8:] == ["text_tokens", "text_tokens_least", "text_tokens_most", "position_least", "position_mean",
                           "position_most", "same_as"]
    manifest = read_json(here / "out" / "manifest.json")
    assert manifest["title"] == outcome["title"] == 'A "title"'
    assert manifest["kind"] == "study" and manifest["complete"] is True
    assert [m["state"] for m in manifest["models"]] == ["ok", "ok"]
    assert manifest["models"][0]["label"] == "Bee"
    assert manifest["study_file"]["file"] == "study.yaml"
    assert manifest["study_file"]["bytes"] == (here / "study.yaml").stat().st_size
    assert manifest["settings"]["analyses"] == ["pca"]
    assert manifest["tables"] == ["qk.csv", "heads.csv", "models.csv"]
    assert manifest["command_line"].startswith("qkscope study ")
    assert sorted(p.name for p in (here / "out").iterdir()) == [
        "heads.csv", "manifest.json", "models", "models.csv", "qk.csv", "schema.json"]


def test_means_on_the_way_out(here, study):
    write_study(here, "ab")
    outcome = study()
    rows = list(csv.DictReader((here / "out" / "qk.csv").open()))
    bias = list(csv.DictReader((here / "out" / "rotated.csv").open()))
    for model in outcome["models"]:
        r_q = [float(r["r_q"]) for r in rows if r["model"] == model["model"] and r["pc"] == "0"]
        assert model["mean_r_q"] == pytest.approx(sum(r_q) / len(r_q), rel=1e-12)
        r_k = [float(r["r_k"]) for r in rows if r["model"] == model["model"] and r["pc"] == "0"]
        assert model["mean_r_k"] == pytest.approx(sum(r_k) / len(r_k), rel=1e-12)
        assert model["mean_abs_r_k"] == pytest.approx(sum(map(abs, r_k)) / len(r_k), rel=1e-12)
        values = [float(r["bias_strength"]) for r in bias if r["model"] == model["model"]]
        assert model["bias_positive_share"] == sum(v > 0 for v in values) / len(values)
        assert model["heads"] == 4


def test_rows_and_texts_of_each_model(qkscope, here, study):
    """The fewest and the median rows, the fewest texts, and how many categories are uncertain."""
    write_study(here, "ab")
    models = study()["models"]
    table = qkscope("study", here / "study.yaml", "-o", here / "out", "--no-figures", expect=0)
    assert "warning: a: 4 of 4 heads have fewer than 8 texts" in table.err, "results that stand are no surer"
    rows = list(csv.DictReader((here / "out" / "heads.csv").open()))
    for model, line in zip(models, table.out.splitlines()[1:]):
        own = [r for r in rows if r["model"] == model["model"]]
        both = [int(r[name]) for r in own for name in ("n_q", "n_k")]
        expected = {"rows_least": min(both), "rows_median": statistics.median(both),
                    "texts_least": min(int(r["texts"]) for r in own),
                    "uncertain": None}  # of so few texts no category has a probability
        assert {r["category_probability"] for r in own} == {""}
        assert {name: model[name] for name in expected} == expected
        assert line.split()[-5:-2] + line.split()[-1:] == ["-" if value is None else f"{value:g}" for value in expected.values()]
        assert line.split()[-2] == f"{model['text_tokens']:g}" == "128"


def test_settings_reach_the_analyses(qkscope, here, study):
    write_study(here, "a", "data: {layers: [0], heads: '1,3', max_samples: 100, seed: 7}\n"
                "pca: {n_components: 3, lda: false}\n"
                "analysis: {ci: 90}\n"
                "rotation: {b_axis: centroid, complement_pairs: 4}\n"
                "plasticity: {max_pairs: 50, ks_alpha: 0.05}\n")
    study()
    (here / "c.yaml").write_text(
        f"data: {{dataset_name: {here / 'a'}, layers: [0], heads: '1,3', max_samples: 100, seed: 7}}\n"
        "pca: {n_components: 3}\nanalysis: {combined: true, ci: 90}\n"
        "rotation: {b_axis: centroid, complement_pairs: 4}\n"
        "plasticity: {max_pairs: 50, ks_alpha: 0.05}\n"
        f"output: {{results_dir: {here / 'own'}, model_name: a}}\n")
    qkscope("analyze", "--config", here / "c.yaml", expect=0)
    for table in (*TABLES, "complement.csv"):
        assert (here / "out" / table).read_bytes() == (here / "own" / table).read_bytes()


def test_scores_are_copied(here, study):
    (here / "my scores.csv").write_text("model,bench\na,1.5\n")
    write_study(here, "a", "scores: my scores.csv\nanalyses: pca\n")
    study()
    assert (here / "out" / "scores.csv").read_text() == "model,bench\na,1.5\n"
    write_study(here, "a", "analyses: pca\n")
    study()
    assert not (here / "out" / "scores.csv").exists()
    write_study(here, "a", "scores: nowhere.csv\n")
    study(expect=1)
    assert "nowhere.csv" in study.err


def test_paths_count_from_the_study_file(qkscope, here):
    write_study(here, "a", "analyses: pca\n")
    folder = here / "elsewhere"
    folder.mkdir()
    for path, cwd in (("study.yaml", here), ("../study.yaml", folder), ("./study.yaml", here)):
        qkscope("study", path, "-o", "out", "--no-figures", cwd=cwd, expect=0)
        assert (cwd / "out" / "qk.csv").exists()
    assert read_json(folder / "out" / "manifest.json")["models"][0]["source"] == "a"


def test_threads_change_nothing(here, study):
    write_study(here)
    study("--threads", 1, out="one")
    study("--threads", 3, out="two")
    assert snapshot(here / "one") == snapshot(here / "two")


# ---- keeping and computing again -------------------------------------------------------------

def test_nothing_changed(here, study):
    write_study(here)
    assert set(states(study()).values()) == {"computed"}
    before = snapshot(here / "out")
    times = {p: p.stat().st_mtime_ns for p in (here / "out" / "models").rglob("*.csv")}
    assert set(states(study()).values()) == {"kept"}
    assert snapshot(here / "out") == before
    assert times == {p: p.stat().st_mtime_ns for p in times}
    outcome = study("--force")
    assert set(reasons(outcome).values()) == {"forced"}
    assert snapshot(here / "out") == before


def test_labels_do_not_compute_again(here, study):
    write_study(here, "ab", "analyses: [pca]\n")
    study()
    (here / "study.yaml").write_text(
        "models:\n"
        "  - {name: a, label: Other, family: F, phase: P, source: a}\n"
        "  - {name: b, source: {folder: b}}\n"
        "analyses: [pca]\n")
    assert set(states(study()).values()) == {"kept"}
    assert "a,Other,F,P," in (here / "out" / "models.csv").read_text()


@pytest.mark.cases(3)
@pytest.mark.parametrize("change, reason", [
    ("pca: {n_components: 3}", "components"), ("data: {max_samples: 60}", "max_samples"), ("rotation: {complement_pairs: 2}", ""),
    ("plasticity: {max_pairs: 9}", "max_pairs"), ("analysis: {ci: 95}", "ci"), ("data: {heads: [0, 1]}", "heads")])
def test_changed_settings(here, study, change, reason):
    write_study(here, "a")
    study()
    write_study(here, "a", change + "\n")
    outcome = study("--dry-run")
    assert states(outcome) == {"a": "to do"}
    assert "other settings" in reasons(outcome)["a"] and reason in reasons(outcome)["a"]
    assert states(study()) == {"a": "computed"}
    assert states(study()) == {"a": "kept"}
    study(out="fresh")
    assert snapshot(here / "out") == snapshot(here / "fresh")


def test_fewer_analyses_leave_no_old_tables(here, study):
    write_study(here, "ab")
    study()
    write_study(here, "ab", "analyses: [rotation]\n")
    study()
    assert [p.name for p in sorted((here / "out").glob("*.csv"))] == ["models.csv", "rotated.csv"]
    assert [p.name for p in sorted((here / "out" / "models" / "a").iterdir())] == [
        "manifest.json", "rotated.csv", "schema.json"]


def head_file(here, name, head="l00h01q"):
    return here / name / head / "data.parquet"


def test_changed_inputs(here, study):
    write_study(here)
    study()
    shutil.copy(head_file(here, "a", "l00h02q"), head_file(here, "a"))  # of the same size
    data = bytearray(head_file(here, "b").read_bytes())
    data[data.rindex(b"parquet-cpp")] ^= 1  # who wrote it, a byte without meaning
    head_file(here, "b").write_bytes(data)
    os.utime(head_file(here, "c"), (1, 1))  # touched, but the same
    outcome = study()
    assert states(outcome) == {"a": "computed", "b": "computed", "c": "kept"}
    assert "l00h01q/data.parquet has changed" in reasons(outcome)["a"]
    # a shard more, a head less: capture.json lists other rows, and the head
    shutil.copy(head_file(here, "c"), here / "c" / "l00h01q" / "more.parquet")
    assert states(study(expect=3))["c"] == "partial"
    shutil.rmtree(here / "c" / "l00h01q")
    outcome = study(expect=3)
    assert states(outcome)["c"] == "partial" and outcome["models"][2]["heads"] == 3


def test_a_moved_capture_is_the_same(here, study):
    write_study(here, "a")
    study()
    (here / "a").rename(here / "elsewhere")
    write_study(here, [("a", "elsewhere")])
    assert states(study()) == {"a": "kept"}


def test_changed_group_and_manifest_of_the_capture(here, study):
    write_study(here, "a", "analyses: [rotation]\nrotation: {complement_pairs: 2}\n")
    study()
    info = read_json(here / "a" / "capture.json")
    info["rope_frequencies"] = [0.25]
    (here / "a" / "capture.json").write_text(json.dumps(info))
    outcome = study()
    assert reasons(outcome)["a"] == "capture.json has changed"
    (here / "study.yaml").write_text(
        "models: [{name: a, source: a, q_per_kv_group: 4}]\nanalyses: [rotation]\n"
        "rotation: {complement_pairs: 2}\n")
    outcome = study()
    assert "settings: q_per_kv_group" in reasons(outcome)["a"]
    assert "a: group size 4 does not fit" in study.err
    assert states(study()) == {"a": "kept"}
    assert "a: group size 4 does not fit" in study.err, "kept results are no less wrong"


def test_kept_results_warn_as_they_did(qkscope, here, study):
    """Few texts, few rows, and what a capture of moments cannot give: as true of results that stand."""
    model = ROOT / "examples/kjv-tiny"
    for name, keep in (("moments", "moments"), ("reservoir", "moments,reservoir=1")):
        qkscope("capture", "-m", model / "step-2004", "-t", model / "passages.jsonl", "--max-texts", "1", "--keep", keep,
                "-o", here / name, expect=0)
    write_study(here, ["a", "moments", "reservoir"])

    def warned():
        return [line for line in study.err.splitlines() if "warning: " in line]

    study()
    first = warned()
    assert states(study()) == {"a": "kept", "moments": "kept", "reservoir": "kept"}
    assert warned() == first
    for text in ("heads have fewer than", "moments: 20 of 20 heads have fewer than 8 texts",
                 "plasticity is left out", "keeps one row of each bucket and text", "lda_accuracy needs all rows"):
        assert any(text in line for line in first), text
    manifest = read_json(here / "out" / "models" / "a" / "manifest.json")
    assert "warning: a: " + manifest["runs"][0]["warnings"][0] in first[0]


@pytest.mark.cases(4)
@pytest.mark.parametrize("damage", ["table", "manifest", "version", "garbage"])
def test_damaged_results(here, study, damage):
    write_study(here, "a")
    study()
    before = snapshot(here / "out")
    folder = here / "out" / "models" / "a"
    if damage == "table":
        (folder / "heads.csv").unlink()
    elif damage == "manifest":
        (folder / "manifest.json").unlink()
    elif damage == "garbage":
        (folder / "manifest.json").write_text('{"qkscope": 3, "settings": [], "inputs": {}}')
    else:
        manifest = read_json(folder / "manifest.json")
        manifest["runs"][0]["qkscope"] = "0.0.1"
        (folder / "manifest.json").write_text(json.dumps(manifest))
    assert states(study()) == {"a": "computed"}
    assert snapshot(here / "out") == before


def test_models_come_and_go(here, study):
    write_study(here, "ab")
    study()
    write_study(here, "cb")
    assert states(study()) == {"c": "computed", "b": "kept"}
    models = [r["model"] for r in csv.DictReader((here / "out" / "heads.csv").open())]
    assert models == ["c"] * 4 + ["b"] * 4
    write_study(here, "ab")
    assert states(study()) == {"a": "kept", "b": "kept"}, "what was computed stays there"


def test_dry_run_writes_nothing(qkscope, here, study):
    write_study(here, "ab")
    outcome = study("--dry-run")
    assert states(outcome) == {"a": "to do", "b": "to do"} and not (here / "out").exists()
    assert set(reasons(outcome).values()) == {"no results yet"}
    study()
    before = snapshot(here / "out")
    shutil.rmtree(here / "b" / "l00h00k")
    said = qkscope("study", here / "study.yaml", "-o", here / "out", "--dry-run", expect=0).out
    assert said.splitlines()[0].split() == ["a", "stands"]
    assert said.splitlines()[1].split()[:3] == ["b", "to", "do"]
    assert snapshot(here / "out") == before


# ---- what goes wrong -------------------------------------------------------------------------

def test_broken_models_do_not_stop_the_others(here, study):
    head_file(here, "b", "l00h00k").write_bytes(b"PAR1 no")
    shutil.rmtree(here / "c")
    (here / "empty").mkdir()
    write_study(here, ["a", "b", "c", ("e", "empty")])
    outcome = study(expect=3)
    assert states(outcome) == {"a": "computed", "b": "partial", "c": "failed", "e": "failed"}
    assert "c: " in study.err and "no such folder" in study.err
    assert "l00h00k" in reasons(outcome)["b"]
    manifest = read_json(here / "out" / "manifest.json")
    assert [m["state"] for m in manifest["models"]] == ["ok", "partial", "failed", "failed"]
    assert manifest["models"][2]["message"] and manifest["models"][2]["folder"] is None
    rows = list(csv.DictReader((here / "out" / "models.csv").open()))
    assert [(r["model"], r["heads"]) for r in rows] == [
        ("a", "4"), ("b", "2"), ("c", "0"), ("e", "0")]
    heads = [r["model"] for r in csv.DictReader((here / "out" / "heads.csv").open())]
    assert heads == ["a"] * 4 + ["b"] * 2
    # mended, only what was missing is computed
    shutil.copytree(here / "a", here / "c")
    outcome = study(expect=3)
    assert states(outcome) == {"a": "kept", "b": "partial", "c": "computed", "e": "failed"}


def test_a_lost_capture_leaves_its_results_alone(here, study):
    write_study(here, "ab", "analyses: [pca]\n")
    study()
    (here / "b").rename(here / "away")
    assert states(study(expect=3)) == {"a": "kept", "b": "failed"}
    (here / "away").rename(here / "b")
    assert states(study()) == {"a": "kept", "b": "kept"}


def test_no_model_has_results(here, study):
    write_study(here, [("a", "nowhere"), ("b", "nowhere either")])
    study(expect=1)
    assert "none of 2 models has results" in study.err and study.err.count("nowhere either") == 1
    write_study(here, "a")
    assert states(study()) == {"a": "computed"}, "the folder is the study's own"


def test_missing_dataset_says_how_to_get_it(here, study):
    (here / "study.yaml").write_text(
        "models:\n  - {name: m, source: {dataset: org/name, revision: v7}}\n")
    study(expect=1, env={"HF_HOME": here / "hf"})
    assert "hf download org/name --repo-type dataset --revision v7" in study.err
    write_study(here, [("m", "org/name")])
    study(expect=1)
    assert "dataset: org/name" in study.err


def test_revisions_below_a_local_root(here, study):
    (here / "study.yaml").write_text(
        "models:\n"
        "  - {name: x, source: {dataset: org/name, revision: a}}\n"
        "  - {name: y, source: {dataset: org/name, revision: b}}\n"
        "data: {local_root: roots}\nanalyses: [pca]\n")
    (here / "roots" / "org").mkdir(parents=True)
    (here / "roots" / "org" / "name").mkdir()
    for name in "ab":
        (here / name).rename(here / "roots" / "org" / "name" / name)
    study()
    tables = [(here / "out" / "models" / m / "qk.csv").read_text() for m in "xy"]
    assert tables[0].replace("\nx,", "\ny,") != tables[1]
    assert "the same weights as" not in study.err
    (here / "roots").rename(here / "other")
    study(expect=1, env={"HF_HOME": here / "hf"})
    assert states(study("--local-root", here / "other")) == {"x": "kept", "y": "kept"}


def test_two_models_of_one_capture(here, study):
    write_study(here, [("x", "a"), ("y", "a")], "analyses: [pca]\n")
    study()
    assert study.err.count("y: the same weights as x (sources a and a): findings count them as one model, by the numbers of x") == 1
    with open(here / "out" / "models.csv", newline="") as file:
        assert [row["same_as"] for row in csv.DictReader(file)] == ["", "x"]


def test_the_same_weights_are_one_model(here, study):
    """Whatever texts they ran on: capture.json has the fingerprint of the weights."""
    for name, weights in (("a", "0a"), ("b", "0b"), ("c", "0a")):
        facts = read_json(here / name / "capture.json") | {"run": {"model": {"fingerprint": weights}}}
        (here / name / "capture.json").write_text(json.dumps(facts))
    write_study(here, "abc", "analyses: [pca]\n")
    study()
    assert "c: the same weights as a (sources c and a)" in study.err and "b: the same weights" not in study.err
    models = {m["model"]: m["related"] for m in read_json(here / "out" / "manifest.json")["models"]}
    assert "the same weights as a" in models["c"] and "the same weights" not in models["b"]
    said = study.err
    study()
    assert study.err.count("the same weights") == said.count("the same weights") == 1


def related(here, study, *rows):
    (here / "study.yaml").write_text("models:\n" + "".join(f"  - {{name: {n}, source: {n}{more}}}\n" for n, more in zip("abc", rows)) +
                                     "analyses: [pca]\n")
    study()
    lines = [line for line in study.err.splitlines() if "`phase`" in line]
    assert len(lines) <= 1
    return [line.split(": ")[2] for line in lines]


def test_models_of_one_shape(here, study):
    """May be checkpoints of one run, unless the study file says what they are."""
    assert related(here, study, "", "", "") == ["a, b, c"]
    assert related(here, study, ", phase: x", ", phase: y", ", phase: z") == []
    assert related(here, study, ", family: F", ", family: F") == ["a, b"]
    shutil.rmtree(here / "c")
    synth(here / "c", **(SMALL | {"layers": 2}))
    assert related(here, study, "", "", "") == ["a, b"]
    assert related(here, study, ", family: F", ", family: F", "") == []


def test_whose_folder(here, study):
    write_study(here, "a", "analyses: [pca]\n")
    out = here / "out"
    out.mkdir()
    study()  # empty: fine
    foreign = here / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("precious")
    study(expect=1, out="foreign")
    assert "thesis.txt" in study.err and "--force" in study.err
    assert [p.name for p in foreign.iterdir()] == ["thesis.txt"]
    study("--force", out="foreign")
    assert (foreign / "thesis.txt").read_text() == "precious"
    assert (foreign / "qk.csv").exists()


def test_results_of_another_command_are_not_overwritten(qkscope, here, study):
    write_study(here, "a")
    qkscope("pca", here / "a", "-o", here / "out", expect=0)
    before = read_bytes(here / "out", "qk.csv", "manifest.json")
    study(expect=1)
    assert read_bytes(here / "out", "qk.csv", "manifest.json") == before


# ---- names -----------------------------------------------------------------------------------

def test_names_that_may_hold_anything(here, study):
    models = [(name, "abc"[i % 3]) for i, name in enumerate(CELLS)]
    (here / "study.yaml").write_text("models:\n" + "".join(
        f"  - {{name: {json.dumps(n)}, label: {json.dumps(n)}, family: {json.dumps(n)},"
        f" phase: {json.dumps(n)}, source: {s}}}\n" for n, s in models)
        + "analyses: [pca]\n", encoding="utf-8")
    outcome = study()
    rows = list(csv.DictReader((here / "out" / "models.csv").open(newline="", encoding="utf-8")))
    assert [r["model"] for r in rows] == list(CELLS)
    assert [r["phase"] for r in rows] == list(CELLS)
    heads = csv.DictReader((here / "out" / "heads.csv").open(newline="", encoding="utf-8"))
    assert [r["model"] for r in heads] == [n for n in CELLS for _ in range(4)]
    assert [m["model"] for m in read_json(here / "out" / "manifest.json")["models"]] == list(CELLS)
    folders = [r["folder"] for r in rows]
    assert len(set(folders)) == len(CELLS)
    for folder in folders:
        assert set(folder.removeprefix("models/")) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
        assert (here / "out" / folder / "qk.csv").is_file()
    assert {p.name for p in here.iterdir()} == {"a", "b", "c", "study.yaml", "out"}
    assert set(states(study()).values()) == {"kept"}
    assert [m["model"] for m in outcome["models"]] == list(CELLS)


def test_nothing_steers_the_terminal(qkscope, here):
    write_study(here, [("\x1b]0;x\x07a\nb\u009bc", "a"), ("d", "no\x1b[2Jwhere")],
                "analyses: [pca]\n")
    outcome = qkscope("study", here / "study.yaml", "-o", here / "out", "--no-figures", "-v",
                      expect=3)
    assert "\x1b" not in outcome.out + outcome.err and "\u009b" not in outcome.out + outcome.err
    assert r"\u001b]0;x\u0007a\nb\u009bc" in outcome.out


# ---- study files that are refused ------------------------------------------------------------

A = "  - {name: a, source: a}\n"


@pytest.mark.cases(17)
@pytest.mark.parametrize("text, words", [
    ("", ["nothing in it"]),
    ("title: x\n", ["models is missing"]),
    ("models: []\n", ["line 1", "expected a list of models"]),
    ("models:\n" + A + "  - {name: a, source: b}\n", ["line 3", "models.name", '"a"']),
    ("models:\n  - {source: a}\n", ["line 2", "models.name"]),
    ("models:\n  - {name: a, source: a, lable: x}\n", ["did you mean models.label?"]),
    ("models:\n  - {name: a, source: a, q_per_kv_group: 0}\n", ["line 2", "q_per_kv_group"]),
    ("models:\n  - {name: a, source: a, name: b}\n", ["models.name is given twice"]),
    ("models:\n  - name: a\n    source: {dataset: x/y, folder: z}\n", ["line 3", "not both"]),
    ("models:\n" + A + "titel: x\n", ["line 3", "did you mean title?"]),
    ("models:\n" + A + "analyses: [pca, rot]\n", ["line 3: analyses", "rotation", "rot"]),
    ("models:\n" + A + "data: {dataset_name: x}\n", ["line 3", "unknown key data.dataset_name"]),
    ("models:\n" + A + "pca:\n  n_components: no\n", ["line 4: pca.n_components"]),
    ("models:\n" + A + "analysis: {combined: false}\n", ["analysis.combined"]),
    ("models:\n" + A + "figures: {formats: [png, gif]}\n", ["line 3: figures.formats", "gif"]),
    ("models:\n" + A + "figures:\n  collage: {heads: '1:'}\n", ["line 4: figures.collage.heads"]),
    ("models:\n" + A + "figures: {collage: {random: 2, heads: '0:1'}}\n", ["not both"]),
])
def test_refused_files(qkscope, tmp_path, text, words):
    (tmp_path / "s.yaml").write_text(text)
    outcome = qkscope("study", tmp_path / "s.yaml", "-o", tmp_path / "out", expect=2)
    for word in ("s.yaml", *words):
        assert word in outcome.err, outcome.err
    assert not (tmp_path / "out").exists()


def test_usage(qkscope, here):
    write_study(here, "a")
    assert "which study" in qkscope("study", "-o", here / "out", expect=2).err
    assert "-o DIR" in qkscope("study", here / "study.yaml", expect=2).err
    qkscope("study", here / "no.yaml", "-o", here / "out", expect=1)
    assert not (here / "out").exists()


# ---- checkpoints of a real model -------------------------------------------------------------

@pytest.mark.test_all
def test_real_checkpoints(qkscope, shared_data, tmp_path):
    steps = shared_data("kjv-tiny-steps")
    phases = {20: "warm-up", 100: "warm-up", 700: "main", 1400: "main", 2004: "decay"}
    (tmp_path / "s.yaml").write_text("title: kjv-tiny\nmodels:\n" + "".join(
        f"  - {{name: step-{n}, phase: {p}, source: {steps / f'step-{n}'}}}\n"
        for n, p in phases.items()))
    run = qkscope("study", tmp_path / "s.yaml", "-o", tmp_path / "out", "--no-figures", "--json",
                  expect=0)
    outcome = json.loads(run.out)
    assert [m["heads"] for m in outcome["models"]] == [20] * 5
    drops = [m["mean_ap_drop"] for m in outcome["models"]]
    assert drops[-1] > drops[0]
