# SPDX-License-Identifier: Apache-2.0
"""The published studies, on small captures in a cache under the names they use: with the real ones
there, the same commands give the published tables."""
import csv
import json
import re
from collections import Counter

import pytest

from conftest import last_run, read_csv, synth
from fake_cache import (CONFIGS, CROSS_MODEL, DATASET, MODELS, SMOLLM3, STUDIES, add_capture,
                        group_of, revision_of)

ALIASES = (("pca-analyze", "qk.csv", "pca"), ("rotate-analyze", "rotated.csv", "rotate"),
           (None, "head_metrics.csv", "plasticity"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """home(names) -> HF_HOME with a small capture of each of the models: two layers, the heads of two groups."""
    root = tmp_path_factory.mktemp("hub")

    def home(names):
        for seed, name in enumerate(names):
            if not (root / name).exists():
                group = group_of(name)
                synth(root / name, seed=seed, layers=2, query_heads=2 * group, q_per_kv_group=group, dim=16, examples=2,
                      rows=60, buckets=6, bucket_width=16, rope_planes=1)
                add_capture(root / "hf", name, root / name)
        return root / "hf"
    return home


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


@pytest.mark.test_all
@pytest.mark.parametrize("study, models", [("cross-model", CROSS_MODEL), ("smollm3", SMOLLM3)])
def test_tables(qkscope, home, tmp_path, study, models):
    there, out = home(models), tmp_path / "out"
    outcome = run_study(qkscope, there, study, out, "--no-figures")
    assert [m["model"] for m in outcome["models"]] == list(models)
    for model in outcome["models"]:
        name = model["model"]
        assert model["source"] == f"{DATASET}@{revision_of(name)}"
        assert model["heads"] == 2 * 2 * group_of(name) and model["state"] == "computed"
        manifest = last_run(out / "models" / name.lower())
        assert manifest["group"] == {"q_per_kv_group": group_of(name), "source": "given",
                                     "consistent": True, "num_consistent": 1}
    for row in read_csv(out / "heads.csv"):
        assert row["k_head"] == row["q_head"] // group_of(row["model"])
    # each as it is by itself
    name = list(models)[4]
    qkscope("analyze", DATASET, "--revision", revision_of(name), "--q-per-kv-group",
            group_of(name), "--model-name", name, "--lda", "-o", tmp_path / "own", expect=0,
            env={"HF_HOME": there})
    for table in ("qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv", "head_profile.csv"):
        own = (tmp_path / "own" / table).read_text().split("\n", 1)[1]
        assert own in (out / table).read_text(), table
    rows = list(csv.DictReader((out / "models.csv").open()))
    if study == "cross-model":
        assert Counter(r["family"] for r in rows) == {"Qwen3": 5, "Llama 3.2": 3, "Ministral3": 3, "Llama 3.1": 1, "Mistral": 1} and {r["phase"] for r in rows} == {""}
        assert (out / "scores.csv").read_bytes() == (STUDIES / "longbench-pro.csv").read_bytes()
    else:
        assert [r["phase"] for r in rows] == (["Stage 1"] * 4 + ["Stage 2", "Stage 3"] + ["LC 4K-32K"] * 2 + ["LC 32K-64K"] * 2)
        assert {r["label"] for r in rows} == set(SMOLLM3)


def test_published_group_sizes():
    assert {n: group_of(n) for n in MODELS if group_of(n) not in (2, 4)} == {
        "llama3.2-3b": 3, "qwen3-14b": 5}


def test_one_configuration_file_a_model():
    assert sorted(p.name for p in CONFIGS.iterdir()) == sorted(f"{n}.yaml" for n in MODELS)


@pytest.mark.cases(1)
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
                          env={"HF_HOME": home([name])}, expect=0)
        expect_no_warning(outcome)
        assert "note" not in outcome.err, outcome.err
        rows = read_csv(tmp_path / "results" / name / table)
        assert {r["model"] for r in rows} == {name}
        assert all(r["k_head"] == r["q_head"] // group_of(name) for r in rows)


def test_not_downloaded(qkscope, tmp_path):
    outcome = qkscope("study", STUDIES / "smollm3.yaml", "-o", tmp_path / "out",
                      env={"HF_HOME": tmp_path / "hf"}, expect=1)
    for name in SMOLLM3:
        assert (f"{name}: " in outcome.err and f"hf download {DATASET} "
                f"--repo-type dataset --revision {revision_of(name)}" in outcome.err)


@pytest.mark.test_all
def test_some_downloaded(qkscope, home, tmp_path):
    """Those that are there are computed; the others later."""
    there = home(CROSS_MODEL)
    hub = there / "hub" / ("datasets--" + DATASET.replace("/", "--"))
    some = tmp_path / "hf" / "hub" / hub.name
    (some / "refs").mkdir(parents=True)
    (some / "snapshots").symlink_to(hub / "snapshots")
    for name in list(CROSS_MODEL)[:3]:
        (some / "refs" / revision_of(name)).symlink_to(hub / "refs" / revision_of(name))
    outcome = qkscope("study", STUDIES / "cross-model.yaml", "-o", tmp_path / "out", "--json",
                      "--no-figures", env={"HF_HOME": tmp_path / "hf"}, expect=3)
    states = [m["state"] for m in json.loads(outcome.out)["models"]]
    assert states == ["computed"] * 3 + ["failed"] * 10
    again = run_study(qkscope, there, "cross-model", tmp_path / "out", "--no-figures")
    assert [m["state"] for m in again["models"]] == ["kept"] * 3 + ["computed"] * 10
