# SPDX-License-Identifier: Apache-2.0
"""What rotate, plasticity and analyze share with pca on the command line, and what they do not."""
import json
import os

import pytest
from conftest import EXAMPLE, last_run, read_bytes, read_csv

TABLES = {
    "rotate": ["rotated.csv"],
    "plasticity": ["head_metrics.csv", "head_profile.csv", "head_bucket_plasticity.csv",
                   "head_distance.csv", "head_component_weights.csv", "model_report.csv"],
}
TABLES["analyze"] = ["qk.csv", "heads.csv"] + TABLES["rotate"] + TABLES["plasticity"]

USAGE = {
    ("rotate", "--b-axis", "c"): "expected pairs or centroid",
    ("rotate", "--pairs", "0"): "from 1 to 2048",
    ("rotate", "--ci", "100"): "--ci 100",
    ("rotate", "--ci", "nan"): "--ci nan",
    ("rotate", "--ci", "0.95"): "did you mean 95?",
    ("plasticity", "--max-pairs", "-1"): "--max-pairs -1",
    ("plasticity", "--bucket-width", "0"): "--bucket-width 0",
    ("plasticity", "--ks-alpha", "2"): "from 0 to 1",
    ("plasticity", "--b-axis", "pairs"): "no option --b-axis",
    ("pca", "--kinds", "q", "--ci", "95"): "--ci needs queries and keys together",
}


@pytest.mark.cases(10)
@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_usage_errors(qkscope, tmp_path, arguments):
    command, *options = arguments
    result = qkscope(command, EXAMPLE, "-o", tmp_path / "out", *options, expect=2)
    assert USAGE[arguments] in result.err and result.out == ""
    assert result.err.startswith(f"qkscope {command}: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cases(3)
@pytest.mark.parametrize("command", TABLES)
def test_what_is_written_and_said(qkscope, tmp_path, command):
    run = [command, EXAMPLE, "--layers", 0, "--heads", "0-1", "-o"]
    said = qkscope(*run, tmp_path / "text", expect=0)
    files = TABLES[command] + ["schema.json", "manifest.json"]
    assert said.err == ""
    written, next_one = said.out.splitlines(), [f"Next: qkscope report {tmp_path / 'text'}"] if command == "analyze" else []
    assert written[-len(files + next_one):] == [f"{tmp_path / 'text'}/{f}" for f in files] + next_one
    assert sorted(p.name for p in (tmp_path / "text").iterdir()) == sorted(files)
    quiet = qkscope(*run, tmp_path / "quiet", "--quiet", expect=0)
    assert (quiet.out, quiet.err) == ("", "")
    outcome = json.loads(qkscope(*run, tmp_path / "json", "--json", expect=0).out)
    assert outcome["files"] == files and outcome["heads"] == 2 and outcome["failures"] == []
    assert (read_bytes(tmp_path / "text", *TABLES[command]) == read_bytes(tmp_path / "quiet", *TABLES[command])
            == read_bytes(tmp_path / "json", *TABLES[command]))


def test_json_agrees_with_the_tables(qkscope, tmp_path):
    said = json.loads(qkscope("analyze", EXAMPLE, "-o", tmp_path, "--json", "--layers", 1, expect=0).out)
    rotated, report = read_csv(tmp_path / "rotated.csv"), read_csv(tmp_path / "model_report.csv")[0]
    assert said["rotation"]["heads"] == 4 and said["rotation"]["degenerate"] == 0
    assert said["rotation"]["bias_positive"] == sum(r["bias_strength"] > 0 for r in rotated)
    assert said["rotation"]["mean_abs_r_k_a"] == pytest.approx(
        sum(abs(r["r_k_a"]) for r in rotated) / 4)
    assert said["plasticity"]["ap_overall"] == report["ap_overall"]
    assert said["plasticity"]["fifths"] == [report[f"q{i}"] for i in range(1, 6)]
    assert sum(said["categories"].values()) == 4


def test_biases_that_are_certain(qkscope, tmp_path):
    """Are counted where there are intervals, beside those that are above 0 by sign."""
    words = ["rotate", EXAMPLE, "--ci", "95", "-o"]
    told = json.loads(qkscope(*words, tmp_path / "a", "--json", expect=0).out)["rotation"]
    rotated = read_csv(tmp_path / "a" / "rotated.csv")
    certain = sum(r["bias_strength_lo"] > 0 for r in rotated)
    assert told["bias_told"] == len(rotated) and told["bias_certain"] == certain
    line = f"{told['bias_positive']} of {len(rotated)} heads"
    assert f"{line}, certain {certain}\n" in qkscope(*words, tmp_path / "b", expect=0).out
    assert f"{line}\n" in qkscope("rotate", EXAMPLE, "-o", tmp_path / "c", expect=0).out


def test_manifest_has_the_settings_of_what_was_run(qkscope, tmp_path):
    qkscope("plasticity", EXAMPLE, "-o", tmp_path / "p", "--max-pairs", 99, "--ks-alpha", 0.2,
            "--layers", 0, "--seed", 3, expect=0)
    settings = last_run(tmp_path / "p")["settings"]
    assert settings["analyses"] == ["plasticity"] and settings["seed"] == 3
    assert settings["plasticity"] == {"max_pairs": 99, "bucket_width": None, "max_distance": None,
                                      "convention": "exact", "ks_alpha": 0.2, "buckets": None}
    assert "pca" not in settings and "rotation" not in settings
    qkscope("analyze", EXAMPLE, "-o", tmp_path / "a", "--complement", "--ci", 90, "--layers", 0, "--heads", 0, expect=0)
    settings = last_run(tmp_path / "a")["settings"]
    assert settings["analyses"] == ["pca", "rotation", "plasticity"] and settings["ci"] == 90
    assert settings["rotation"] == {"b_axis": "pairs", "complement_pairs": 30}


@pytest.mark.parametrize("executable", ["rotate-analyze", "pca-analyze"])
def test_one_config_serves_the_aliases(qkscope, program, tmp_path, executable):
    """pca-analyze and rotate-analyze take the same file; a single-kind PCA in it is the PCA's."""
    alias = tmp_path / executable
    alias.symlink_to(program)
    config = tmp_path / "config.yaml"
    config.write_text(f"data: {{dataset_name: {json.dumps(str(EXAMPLE))}}}\n"
                      "rotation: {b_axis: centroid, complement_pairs: 2}\n"
                      f"output: {{results_dir: {json.dumps(str(tmp_path / 'out'))}}}\n")
    qkscope("--config", config, executable=alias, expect=0)
    files = set(os.listdir(tmp_path / "out"))
    if executable == "pca-analyze":
        assert files == {"correlations.csv", "summary.json", "schema.json", "manifest.json"}
        return
    assert files == {"rotated.csv", "complement.csv", "schema.json", "manifest.json"}
    assert len(read_csv(tmp_path / "out" / "complement.csv")) == 40
    plain = tmp_path / "plain"
    qkscope("rotate", EXAMPLE, "-o", plain, "--b-axis", "centroid", expect=0)
    assert (plain / "rotated.csv").read_bytes() == (tmp_path / "out" /
                                                    "rotated.csv").read_bytes()


def test_a_part_of_the_heads_has_the_same_rows(qkscope, tmp_path):
    qkscope("analyze", EXAMPLE, "-o", tmp_path / "all", "--layers", "2,3", "--heads", "1,2", expect=0)
    qkscope("analyze", EXAMPLE, "-o", tmp_path / "part", "--layers", "3", "--heads", "2",
            expect=0)
    for name in TABLES["analyze"][:-1]:
        wanted = [row for row in read_csv(tmp_path / "all" / name)
                  if row["layer"] == 3 and row["q_head"] == 2]
        assert read_csv(tmp_path / "part" / name) == wanted and wanted
