# SPDX-License-Identifier: Apache-2.0
"""The published studies, on small captures in a cache under the names they use: with the real ones
there, the same commands give the published tables."""
import csv
import json
import re

import pytest

from conftest import last_run, read_csv, synth
from fake_cache import (CONFIGS, CROSS_MODEL, DATASET, MODELS, SMOLLM3, STUDIES, add_capture,
                        group_of, revision_of)

ALIASES = (("pca-analyze", "qk.csv", "pca"), ("rotate-analyze", "rotated.csv", "rotate"),
           (None, "head_metrics.csv", "plasticity"))


@pytest.fixture(scope="module")
def home(qkscope, tmp_path_factory):
    """HF_HOME with a small capture of each model: two layers, the heads of two groups."""
    root = tmp_path_factory.mktemp("hub")
    for seed, name in enumerate(MODELS):
        group = group_of(name)
        synth(qkscope, root / name, seed=seed, layers=2, query_heads=2 * group,
              q_per_kv_group=group, dim=16, examples=2, rows=60, buckets=6, bucket_width=16,
              rope_planes=1)
        add_capture(root / "hf", name, root / name)
    return root / "hf"


def expect_no_warning(outcome):
    """Other than that the captures are small, and lie in a cache without lists of files."""
    others = [line for line in outcome.err.splitlines() if "warning" in line
              and not re.search("fewer than 8 texts|interval of r_q|without positions 0 to 3|taken as it is in the cache", line)]
    assert not others, outcome.err


def run_study(qkscope, home, name, out, *arguments):
    outcome = qkscope("study", STUDIES / f"{name}.yaml", "-o", out, "--json", *arguments,
                      expect=0, env={"HF_HOME": home})
    expect_no_warning(outcome)
    return json.loads(outcome.out)


@pytest.mark.parametrize("study, models", [("cross-model", CROSS_MODEL), ("smollm3", SMOLLM3)])
def test_tables(qkscope, home, tmp_path, study, models):
    outcome = run_study(qkscope, home, study, tmp_path / "out", "--no-figures")
    assert [m["model"] for m in outcome["models"]] == list(models)
    for model in outcome["models"]:
        name = model["model"]
        assert model["source"] == f"{DATASET}@{revision_of(name)}"
        assert model["heads"] == 2 * 2 * group_of(name) and model["state"] == "computed"
        manifest = last_run(tmp_path / "out" / "models" / name.lower())
        assert manifest["group"] == {"q_per_kv_group": group_of(name), "source": "given",
                                     "consistent": True}
    for row in read_csv(tmp_path / "out" / "heads.csv"):
        assert row["k_head"] == row["q_head"] // group_of(row["model"])
    # each as it is by itself
    name = list(models)[4]
    qkscope("analyze", DATASET, "--revision", revision_of(name), "--q-per-kv-group",
            group_of(name), "--model-name", name, "--lda", "-o", tmp_path / "own", expect=0,
            env={"HF_HOME": home})
    for table in ("qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv", "head_profile.csv"):
        own = (tmp_path / "own" / table).read_text().split("\n", 1)[1]
        assert own in (tmp_path / "out" / table).read_text(), table
    again = run_study(qkscope, home, study, tmp_path / "out", "--no-figures")
    assert {m["state"] for m in again["models"]} == {"kept"}


def test_families_and_phases(qkscope, home, tmp_path):
    run_study(qkscope, home, "cross-model", tmp_path / "c", "--no-figures")
    run_study(qkscope, home, "smollm3", tmp_path / "s", "--no-figures")
    rows = list(csv.DictReader((tmp_path / "c" / "models.csv").open()))
    families = [r["family"] for r in rows]
    assert [families.count(f) for f in ("Qwen3", "Llama 3.2", "Ministral3")] == [5, 3, 3]
    assert {r["phase"] for r in rows} == {""}
    assert (tmp_path / "c" / "scores.csv").read_bytes() == (
        STUDIES / "longbench-pro.csv").read_bytes()
    rows = list(csv.DictReader((tmp_path / "s" / "models.csv").open()))
    phases = [r["phase"] for r in rows]
    assert list(dict.fromkeys(phases)) == ["Stage 1", "Stage 2", "Stage 3", "LC 4K-32K",
                                           "LC 32K-64K"]
    assert [phases.count(p) for p in dict.fromkeys(phases)] == [4, 1, 1, 2, 2]
    assert {r["label"] for r in rows} == set(SMOLLM3)


def test_published_group_sizes():
    assert {n: group_of(n) for n in MODELS if group_of(n) not in (2, 4)} == {
        "llama3.2-3b": 3, "qwen3-14b": 5}


def test_one_configuration_file_a_model():
    assert sorted(p.name for p in CONFIGS.iterdir()) == sorted(f"{n}.yaml" for n in MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_configurations(qkscope, home, program, tmp_path, name):
    config = CONFIGS / f"{name}.yaml"
    for alias, table, command in ALIASES:
        executable = None
        if alias:
            executable = tmp_path / alias
            executable.symlink_to(program)
        first = () if alias else (command,)
        outcome = qkscope(*first, "--config", config, executable=executable, cwd=tmp_path,
                          env={"HF_HOME": home}, expect=0)
        expect_no_warning(outcome)
        assert "note" not in outcome.err, outcome.err
        rows = read_csv(tmp_path / "results" / name / table)
        assert {r["model"] for r in rows} == {name}
        assert all(r["k_head"] == r["q_head"] // group_of(name) for r in rows)


def test_not_downloaded(qkscope, tmp_path):
    outcome = qkscope("study", STUDIES / "smollm3.yaml", "-o", tmp_path / "out",
                      env={"HF_HOME": tmp_path / "hf"}, expect=1)
    for name in SMOLLM3:
        assert (f"{name}: " in outcome.err and f"qkscope get {DATASET} "
                f"--revision {revision_of(name)}" in outcome.err)


def test_some_downloaded(qkscope, home, tmp_path):
    """Those that are there are computed; the others later."""
    hub = home / "hub" / ("datasets--" + DATASET.replace("/", "--"))
    some = tmp_path / "hf" / "hub" / hub.name
    (some / "refs").mkdir(parents=True)
    (some / "snapshots").symlink_to(hub / "snapshots")
    names = list(CROSS_MODEL)
    for name in names[:3]:
        (some / "refs" / revision_of(name)).symlink_to(hub / "refs" / revision_of(name))
    outcome = qkscope("study", STUDIES / "cross-model.yaml", "-o", tmp_path / "out", "--json",
                      "--no-figures", env={"HF_HOME": tmp_path / "hf"}, expect=3)
    states = [m["state"] for m in json.loads(outcome.out)["models"]]
    assert states == ["computed"] * 3 + ["failed"] * 8
    again = run_study(qkscope, home, "cross-model", tmp_path / "out", "--no-figures")
    assert [m["state"] for m in again["models"]] == ["kept"] * 3 + ["computed"] * 8
