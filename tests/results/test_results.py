# SPDX-License-Identifier: Apache-2.0
"""A results folder as the library reads it against pandas and NumPy; and tables that are wrong."""
import csv
import json
import os
import pathlib
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest

from conftest import EXAMPLE, INTEGERS, check_survived, environment

BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", "build")).resolve()
DUMP = BUILD / "tests" / "results" / "dump_results"
IDS = ["model", "layer", "q_head", "k_head"]
CATEGORIES = ["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"]
TABLES = {
    "heads.csv": "ev0 pos_var_q pos_var_k pos_var_q_pc0_share lin_var_q lin_var_k "
                 "positional_overhead separation fisher lda_accuracy mu_q_beta alpha_beta "
                 "category_probability texts r_q_width near_tie probability_position_dominated "
                 "probability_q_positional probability_k_positional probability_content_focused "
                 "probability_mixed position_r_q position_r_k octave_r_q octave_r_k "
                 "pc0_first_share pc0_first_cosine",
    "rotated.csv": "position_r r_q_a r_k_a alpha_q alpha_k mu_q_a mu_k_a mu_q_b mu_k_b "
                   "bias_strength separation_strength var_frac_a var_frac_b plane_var_fraction "
                   "content_var_b omega omega_r_squared",
    "head_metrics.csv": "q_R2_pos beta_norm q_R2_scalar q_mae_ratio ap_overall ap_first_20pct "
                        "ap_last_20pct ap_drop",
}
COMPONENT = "r_q r_k p_q p_k mu_q mu_k alpha beta"


def run_dump(*arguments, timeout=60):
    if not DUMP.exists():
        pytest.skip(f"{DUMP} is not built")
    done = subprocess.run([DUMP, *map(os.fspath, arguments)], capture_output=True,
                          env=environment(), timeout=timeout)
    err = done.stderr.decode(errors="surrogateescape")
    check_survived(done.returncode, err)
    assert done.returncode in (0, 1), (done.returncode, err)
    return done.returncode, done.stdout, err


def read(folder, *scores):
    code, out, err = run_dump(folder, *scores)
    assert code == 0, err
    return json.loads(out)


def refuse(folder, *words, scores=()):
    code, _, err = run_dump(folder, *scores)
    assert code == 1, "it was read"
    for word in words:
        assert word in err, err


def write(folder, name, *rows):
    """A table of rows that are lists, quoted where it must be."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def write_heads(folder, *ids, name="heads.csv", columns=("ev0",), values=(0.5,)):
    write(folder, name, [*IDS, *columns], *[[*row, *values] for row in ids])


def frame(path):
    """Numbers as Python reads them, empty ones NaN; ids are integers."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column in table.columns:
        if column not in ("model", "category", "category_without_first"):
            table[column] = [float(v) if v else np.nan for v in table[column]]
            if column in INTEGERS - {"sliding_window"}:
                table[column] = table[column].astype(int)
    return table


def same(value, expected, tolerance=1e-12):
    """Numbers, or arrays of them; None is NaN."""
    value = np.array(value, float)
    expected = np.array(expected, float)
    assert value.shape == expected.shape
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance * 1e-3)


# ---- real tables -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def study(qkscope, tmp_path_factory):
    """Three models: the tables of two settings with all analyses, of one with PCA alone."""
    root = tmp_path_factory.mktemp("study")
    folder = root / "study"
    folder.mkdir()
    runs = [("b, \"second\"", ["analyze", "--lda"]),
            ("a\nfirst", ["analyze", "--layers", "1,3", "--variance", "full"]),
            ("c", ["pca", "--components", "3"])]
    for i, (model, command) in enumerate(runs):
        qkscope(*command, EXAMPLE, "-o", root / str(i), "--model-name", model, expect=0)
        for table in sorted((root / str(i)).glob("*.csv")):
            header, rows = table.read_bytes().split(b"\n", 1)
            target = folder / table.name
            if not target.exists():
                target.write_bytes(header + b"\n")
            with open(target, "ab") as file:
                file.write(rows)
    write(folder, "models.csv", ["model", "label", "family", "phase", "source", "extra"],
          ["a\nfirst", "A", "F1", "p2", "s", "x"], ["d", "", "", "p1", "", ""],
          ["b, \"second\"", "B", "F2", "p2", "", ""], ["c", "C", "F1", "p1", "", ""])
    (folder / "manifest.json").write_text(json.dumps({"title": "Tïtle", "x": [1]}))
    return folder


@pytest.fixture(scope="module")
def results(study):
    return read(study)


def of_model(table, model):
    return table[table["model"] == model["name"]]


def test_models(results):
    assert results["title"] == "Tïtle"
    names = ["a\nfirst", "d", "b, \"second\"", "c"]
    assert [m["name"] for m in results["models"]] == names
    assert [m["label"] for m in results["models"]] == ["A", "d", "B", "C"]
    assert [m["family"] for m in results["models"]] == ["F1", "d", "F2", "F1"]
    assert results["families"] == ["F1", "d", "F2"] and results["phases"] == ["p2", "p1"]
    assert [m["family_index"] for m in results["models"]] == [0, 1, 2, 0]
    assert [m["phase_index"] for m in results["models"]] == [0, 1, 0, 1]
    assert results["checkpoints"]
    assert [m["source"] for m in results["models"]] == ["s", "", "", ""]
    assert [len(m["heads"]) for m in results["models"]] == [8, 0, 20, 20]
    assert len({m["slug"] for m in results["models"]}) == 4


def test_numbers_are_those_of_the_tables(study, results):
    tables = {name: frame(study / name) for name in [*TABLES, "qk.csv"]}
    first = tables["qk.csv"][tables["qk.csv"]["pc"] == 0]
    for model in results["models"]:
        for head in model["heads"]:
            def row_of(table):
                rows = of_model(table, model)
                rows = rows[(rows["layer"] == head["layer"]) & (rows["q_head"] == head["q_head"])]
                assert len(rows) <= 1
                return rows.iloc[0] if len(rows) else None
            for table, columns in [(first, COMPONENT),
                                   *[(tables[n], c) for n, c in TABLES.items()]]:
                row = row_of(table)
                for column in columns.split():
                    expected = np.nan if row is None else row[column]
                    same(head["v"][column], expected, 0)
                if row is not None:
                    assert head["k_head"] == row["k_head"]
            assert CATEGORIES[head["category"]] == row_of(tables["heads.csv"])["category"]


def test_heads_are_in_order(results):
    for model in results["models"]:
        ids = [(h["layer"], h["q_head"]) for h in model["heads"]]
        assert ids == sorted(ids)
        last = max([h["layer"] for h in model["heads"]], default=0)
        for head in model["heads"]:
            same(head["depth"], head["layer"] / last, 0)


def test_components_and_profiles(study, results):
    qk, profile = frame(study / "qk.csv"), frame(study / "head_profile.csv")
    weights = frame(study / "head_component_weights.csv")
    for model in results["models"]:
        for head in model["heads"]:
            def rows_of(table):
                rows = of_model(table, model)
                return rows[(rows["layer"] == head["layer"]) & (rows["q_head"] == head["q_head"])]
            rows = rows_of(qk)
            for key, column in [("pc_ev", "explained_variance"), ("pc_r_q", "r_q"),
                                ("pc_r_k", "r_k")]:
                same(head[key], rows[column], 0)
            rows = rows_of(profile)
            same(head["profile_position"], rows["position"], 0)
            same(head["profile_ap"], rows["ap"], 0)
            assert head["profile_bucket"] == list(rows["q_bucket"])
        same(model["component_weights"],
             of_model(weights, model).groupby("component")["component_weight"].mean())


def test_attention_of_the_latest_rows(tmp_path):
    """In whatever order, also of a head whose window ends before others, and with gaps."""
    rng = np.random.default_rng(4)
    rows = [("m", 0, head, 0, rows, 2 * rows - 1, first, max(0, 2 * first - 1), *rng.uniform(0.1, 1, 4))
            for head, reach in [(0, 40), (1, 4)] for rows in (8, 16, 32)
            for first in (0, 1, 2, 4, 8, 16, 32) if first <= min(rows, reach)]
    made = pd.DataFrame(rows, columns=[*IDS, "row_first", "row_last", "distance_first", "distance_last", "mass",
                                       "uniform", "predicted_rotation", "predicted_means"])
    made.insert(4, "cell", made.groupby("q_head").cumcount())
    made.loc[made.index[-1], "uniform"] = 0
    made.sample(frac=1, random_state=2).to_csv(tmp_path / "attention_profile.csv", index=False)
    heads = read(tmp_path)["models"][0]["heads"]
    for head in heads:
        last = made[(made.q_head == head["q_head"]) & (made.row_first == 32)]
        over = last[["mass", "predicted_means", "predicted_rotation"]].div(last.uniform.where(last.uniform > 0), axis=0)
        for found, expected in zip(head["attention"], [(last.distance_first + last.distance_last) / 2, *over.T.values],
                                   strict=True):
            same(found, expected)
    assert [len(head["attention"][0]) for head in heads] == [7, 4]
    pd.concat([made, made[3:4]]).to_csv(tmp_path / "attention_profile.csv", index=False)
    refuse(tmp_path, "attention_profile.csv", "both of cell 3")
    made.drop(columns="uniform").to_csv(tmp_path / "attention_profile.csv", index=False)
    refuse(tmp_path, "attention_profile.csv", "there is no column 'uniform'")


def test_distances(study, results):
    table, metrics = frame(study / "head_distance.csv"), frame(study / "head_metrics.csv")
    for model in results["models"]:
        rows, found = of_model(table, model), model["distances"]
        widths = of_model(metrics, model)["bucket_width"].unique()
        same(found["bucket_width"], widths[0] if len(widths) == 1 else np.nan, 0)
        if rows.empty:
            assert found["rows"] == found["columns"] == 0
            continue
        sums = np.zeros((rows["lag_bin"].max() + 1, rows["distance_bin"].max() + 1))
        pairs = np.zeros_like(sums)
        at = (rows["lag_bin"], rows["distance_bin"])
        np.add.at(sums, at, rows["ap"] * rows["n_pairs"])
        np.add.at(pairs, at, rows["n_pairs"])
        with np.errstate(invalid="ignore"):
            same(found["ap"], sums / pairs)
        same(found["pairs"], pairs, 0)


def test_summaries(results):
    for model in results["models"]:
        depth = np.array([h["depth"] for h in model["heads"]])
        bins = np.minimum(9, np.floor(10 * depth))
        for name, summaries in model["summaries"].items():
            raw = np.array([h["v"][name] for h in model["heads"]], float)
            for found, values in zip(summaries, [raw, np.abs(raw)]):
                here = np.isfinite(values)
                finite = values[here]
                assert found["count"] == len(finite)
                if len(finite) == 0:
                    assert all(found[k] is None for k in ("mean", "sd", "q1", "median", "q3"))
                    continue
                same(found["mean"], finite.mean())
                same(found["sd"], finite.std(ddof=1))
                same([found["q1"], found["median"], found["q3"]],
                     np.quantile(finite, [0.25, 0.5, 0.75]))
                same(found["depth"], [values[here & (bins == b)].mean()
                                      if (here & (bins == b)).any() else np.nan
                                      for b in range(10)])


def test_means_of_components(study, results):
    qk = frame(study / "qk.csv")
    for pc, found in enumerate(results["pc_means"]):
        rows = qk[qk["pc"] == pc]
        same(found, [rows["explained_variance"].mean(), rows["r_q"].mean(), rows["r_k"].abs().mean()])


def test_order_of_rows_does_not_matter(study, results, tmp_path):
    folder = tmp_path / "shuffled"
    shutil.copytree(study, folder)
    for name in ["qk.csv", "head_profile.csv", "head_component_weights.csv", *TABLES]:
        table = pd.read_csv(study / name, dtype=str, keep_default_na=False)
        table.sample(frac=1, random_state=1).to_csv(folder / name, index=False)
    shuffled = read(folder)
    for a, b in zip(shuffled["models"], results["models"]):
        same(a.pop("component_weights"), b["component_weights"])
        a.pop("summaries")
        for key, value in a.items():
            assert value == b[key], key


def test_without_a_list_of_models(study, results, tmp_path):
    folder = tmp_path / "no list"
    shutil.copytree(study, folder)
    (folder / "models.csv").unlink()
    (folder / "manifest.json").unlink()
    found = read(folder)
    assert found["title"] == "" and not found["checkpoints"] and found["phases"] == []
    names = ["b, \"second\"", "a\nfirst", "c"]
    assert [m["name"] for m in found["models"]] == names
    for model in found["models"]:
        assert model["label"] == model["family"] == model["name"]
        assert model["phase"] == model["source"] == "" and model["phase_index"] == -1
        listed = next(m for m in results["models"] if m["name"] == model["name"])
        assert model["heads"] == listed["heads"]


@pytest.mark.parametrize("present", ["qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv",
                                     "head_profile.csv", "head_distance.csv",
                                     "head_component_weights.csv"])
def test_one_table_alone(study, results, tmp_path, present):
    shutil.copy(study / present, tmp_path / present)
    found = read(tmp_path)
    columns = TABLES.get(present, COMPONENT if present == "qk.csv" else "").split()
    for model in found["models"]:
        listed = next(m for m in results["models"] if m["name"] == model["name"])
        assert bool(model["component_weights"]) == (present == "head_component_weights.csv")
        assert bool(model["distances"]["rows"]) == (present == "head_distance.csv")
        for head in model["heads"]:
            full = next(h for h in listed["heads"] if (h["layer"], h["q_head"]) ==
                        (head["layer"], head["q_head"]))
            for name, value in head["v"].items():
                assert value == (full["v"][name] if name in columns else None)
            assert head["category"] == (full["category"] if present == "heads.csv" else -1)
            assert bool(head["pc_ev"]) == (present == "qk.csv")
            assert bool(head["profile_ap"]) == (present == "head_profile.csv")


# ---- names -----------------------------------------------------------------------------------

HOSTILE = ['a"><script>', "'; system \"touch x\"; '", "=cmd()", "x" * 3000, "日本 é", "a\r\nb",
           " a ", "\t", ".hidden", "../up", "-", "a,b", "%s%n", "\\"]


def test_hostile_names(tmp_path):
    write_heads(tmp_path, *[[name, 0, 0, 0] for name in HOSTILE])
    found = read(tmp_path)
    assert [m["name"] for m in found["models"]] == HOSTILE
    slugs = [m["slug"] for m in found["models"]]
    assert len(set(slugs)) == len(slugs)
    for slug in slugs:
        assert set(slug) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")
        assert slug and not slug.startswith(".") and len(slug) <= 60


def test_bytes_that_are_not_utf8(tmp_path):
    (tmp_path / "heads.csv").write_bytes(b"model,layer,q_head,k_head\n\xff\xfe,0,0,0\n")
    assert read(tmp_path)["models"][0]["name"] == [0xFF, 0xFE]


def test_model_without_a_name_is_called_like_the_folder(tmp_path):
    write_heads(tmp_path / "My run", ["", 0, 0, 0])
    for path in [tmp_path / "My run", f"{tmp_path}/My run///", tmp_path / "My run" / "."]:
        model = read(path)["models"][0]
        assert model["name"] == "" and model["label"] == model["family"] == "My run"
    write(tmp_path / "My run", "models.csv", ["model", "family"], ["", "F"])
    model = read(tmp_path / "My run")["models"][0]
    assert model["label"] == "My run" and model["family"] == "F"


def test_crlf_and_byte_order_mark(tmp_path):
    rows = b"model,layer,q_head,k_head,ev0\nm,0,0,0,0.25\nm,1,0,0,\n"
    for name, text in [("plain", rows), ("crlf", rows.replace(b"\n", b"\r\n")),
                       ("bom", b"\xef\xbb\xbf" + rows), ("end", rows[:-1])]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "heads.csv").write_bytes(text)
        heads = read(tmp_path / name)["models"][0]["heads"]
        assert [h["v"]["ev0"] for h in heads] == [0.25, None]
        assert [h["depth"] for h in heads] == [0, 1]


def test_title(tmp_path):
    write_heads(tmp_path, ["m", 0, 0, 0])
    for manifest, title in [("{}", ""), ('{"title": 3}', ""), ('{"title": "x', ""), ("[]", ""),
                            ("", ""), ('{"title": ""}', ""), ('{"title": "<b>"}', "<b>")]:
        (tmp_path / "manifest.json").write_text(manifest)
        assert read(tmp_path)["title"] == title


def test_phases_of_some(tmp_path):
    write(tmp_path, "models.csv", ["phase", "model"], ["p", "a"], ["", "b"])
    found = read(tmp_path)
    assert not found["checkpoints"] and found["phases"] == ["p"]
    assert [m["phase_index"] for m in found["models"]] == [0, -1]
    assert [m["heads"] for m in found["models"]] == [[], []]


# ---- depth, bins, buckets --------------------------------------------------------------------

def test_depth_counts_from_the_last_layer_that_is_known(tmp_path):
    """models.csv says how many layers a model has, or manifest.json; else the largest here is the
    last."""
    heads = ["a", 5, 0, 0], ["a", 5, 1, 0], ["b", 2, 0, 0], ["b", 4, 0, 0], ["c", 0, 0, 0]

    def depths():
        return [[h["depth"] for h in model["heads"]] for model in read(tmp_path)["models"]]
    write_heads(tmp_path, *heads)
    assert depths() == [[1, 1], [0.5, 1], [0]]
    runs = [{"model": "a", "num_layers": n, "tables": ["heads.csv"]} for n in (3, 11)]
    runs.append({"model": "b", "num_layers": "x", "tables": []})
    (tmp_path / "manifest.json").write_text(json.dumps({"complete": True, "runs": runs}))
    assert depths() == [[0.5, 0.5], [0.5, 1], [0]]
    write(tmp_path, "models.csv", ["model", "layers"], ["a", 21], ["b", 3], ["c", ""])
    assert depths() == [[0.25, 0.25], [0.5, 1], [0]]


def distance_rows(folder, *rows):
    write(folder, "head_distance.csv", [*IDS, "distance_bin", "lag_bin", "n_pairs", "ap"], *rows)


def test_many_bins_are_merged(tmp_path):
    distance_rows(tmp_path, ["m", 0, 0, 0, 0, 0, 1, 0.5], ["m", 0, 0, 0, 5, 3, 3, 0.1],
                  ["m", 0, 0, 0, 6, 5, 1, 0.3], ["m", 0, 0, 0, 7, 4, 1, 0.9],
                  ["m", 0, 0, 0, 1, 4095, 2, 1])
    write_heads(tmp_path, ["m", 0, 0, 0], name="head_metrics.csv", columns=["bucket_width"],
                values=[8])
    found = read(tmp_path)["models"][0]["distances"]
    assert (found["columns"], found["rows"], found["bucket_width"]) == (2, 1024, 32)
    same(found["ap"][0], [0.5, 0.1])
    same(found["ap"][1], [None, 0.6])
    same(found["ap"][1023], [1, None])
    assert sum(map(sum, found["pairs"])) == 8


def test_huge_and_negative_bins(tmp_path):
    distance_rows(tmp_path, ["m", 0, 0, 0, 0, -3, 1, 0.5], ["m", 0, 0, 0, 2**53, 2**52, 1, 0.5],
                  ["m", 0, 0, 0, 1, 1, 0, ""])
    found = read(tmp_path)["models"][0]["distances"]
    assert found["columns"] <= 1024 and found["rows"] <= 1024
    assert sum(map(sum, found["pairs"])) == 1 and found["bucket_width"] is None


def test_many_large_maps_are_refused(tmp_path):
    distance_rows(tmp_path, *[[m, 0, 0, 0, 1023, 1023, 1, 0.5] for m in range(70)])
    refuse(tmp_path, "unsupported", "head_distance.csv: row 66", "cells")


def test_bucket_widths_that_differ(tmp_path):
    distance_rows(tmp_path, ["m", 0, 0, 0, 0, 0, 1, 0.5])
    ids = [*IDS, "bucket_width"]
    for widths, expected in [((8, 8), 8), ((8, ""), 8), ((8, 9), None), (("", ""), None)]:
        write(tmp_path, "head_metrics.csv", ids, ["m", 0, 0, 0, widths[0]],
              ["m", 0, 1, 0, widths[1]])
        assert read(tmp_path)["models"][0]["distances"]["bucket_width"] == expected


def test_profile_is_in_order_of_position(tmp_path):
    write(tmp_path, "head_profile.csv", [*IDS, "q_bucket", "position", "ap"],
          ["m", 0, 0, 0, 2, 5, 0.2], ["m", 0, 0, 0, -1, 7, 0.3], ["m", 0, 0, 0, 9, 5, ""],
          ["m", 0, 0, 0, 3, "", 0.1])
    head = read(tmp_path)["models"][0]["heads"][0]
    assert head["profile_bucket"] == [2, 9, -1, 3]
    assert head["profile_position"] == [5, 5, 7, None]
    assert head["profile_ap"] == [0.2, None, 0.3, 0.1]


def test_heads_of_different_dimension(tmp_path):
    write(tmp_path, "head_component_weights.csv", [*IDS, "component", "component_weight"],
          ["m", 0, 0, 0, 0, 1], ["m", 0, 1, 0, 0, 0.5], ["m", 0, 1, 0, 1, 0.5],
          ["m", 0, 2, 0, 0, ""], ["m", 0, 2, 0, 1, ""], ["m", 0, 2, 0, 2, ""], ["z", 0, 0, 0, 0, 2])
    m, z = read(tmp_path)["models"]
    assert m["component_weights"] == [0.75, 0.5, None] and z["component_weights"] == [2]


# ---- scores ----------------------------------------------------------------------------------

def test_scores(tmp_path):
    write(tmp_path, "scores.csv", ["score", "model", "note", "family", "few", "none", "", "mixed"],
          [1.5, "m", "x", "F", "", "", 1, 1], [2, "n", "", "", "-1e3", "", 2, "x"],
          ["", "o", "z", "G", ".5", "", 3, 3])
    found = read(tmp_path)
    assert found["models"] == [] and not found["checkpoints"]
    assert found["scores"]["columns"] == ["score", "few"]
    assert found["scores"]["rows"] == [
        {"model": "m", "family": "F", "values": [1.5, None]},
        {"model": "n", "family": "", "values": [2, -1000]},
        {"model": "o", "family": "G", "values": [None, 0.5]}]


def test_scores_of_another_file(tmp_path):
    write_heads(tmp_path, ["m", 0, 0, 0])
    write(tmp_path, "scores.csv", ["model", "own"], ["m", 1])
    write(tmp_path, "other.csv", ["model", "other"], ["m", 1])
    assert read(tmp_path)["scores"]["columns"] == ["own"]
    assert read(tmp_path, tmp_path / "other.csv")["scores"]["columns"] == ["other"]
    refuse(tmp_path, "not found", "gone.csv", scores=[tmp_path / "gone.csv"])


def test_lines_of_published_scores(shared_data, tmp_path):
    file = shared_data("published") / "scores.csv"
    tmp_path.mkdir(exist_ok=True)
    scores, table = read(tmp_path, file)["scores"], pd.read_csv(file)
    assert scores["columns"] == list(table.columns[2:])
    assert [r["model"] for r in scores["rows"]] == list(table["model"])
    y = table[scores["columns"][-1]]
    for column, line in zip(scores["columns"], scores["lines"]):
        slope, start = np.polyfit(table[column], y, 1)
        same(line["r"], np.corrcoef(table[column], y)[0, 1])
        same([line["slope"], line["start"]], [slope, start], 1e-9)
        assert line["count"] == len(table)


# ---- wrong tables ----------------------------------------------------------------------------

def test_nothing_there(tmp_path):
    refuse(tmp_path, "not found", "no tables")
    refuse(tmp_path / "gone", "not found")


@pytest.mark.parametrize("table,columns", [
    ("qk.csv", [*IDS, "pc"]), ("heads.csv", IDS), ("rotated.csv", IDS),
    ("head_metrics.csv", IDS), ("head_profile.csv", [*IDS, "q_bucket", "position", "ap"]),
    ("head_distance.csv", [*IDS, "distance_bin", "lag_bin", "n_pairs", "ap"]),
    ("head_component_weights.csv", [*IDS, "component", "component_weight"]),
    ("models.csv", ["model", "other"]), ("scores.csv", ["model", "other"])])
def test_missing_columns(tmp_path, table, columns):
    row = ["m" if c == "model" else 0 for c in columns]
    write(tmp_path, table, columns, row)
    read(tmp_path)
    write(tmp_path, table, columns)
    read(tmp_path)
    for i, column in enumerate(c for c in columns if c != "other"):
        write(tmp_path, table, columns[:i] + columns[i + 1:], row[1:])
        refuse(tmp_path, "malformed", f"{table}: there is no column '{column}'")
        write(tmp_path, table, [*columns, column], [*row, row[i]])
        refuse(tmp_path, "malformed", f"{table}: columns {i + 1} and {len(columns) + 1}", column)
    write(tmp_path, table)
    refuse(tmp_path, f"{table}: empty")


@pytest.mark.parametrize("table,columns,index", [
    ("heads.csv", ["ev0"], None), ("rotated.csv", ["omega"], None),
    ("head_metrics.csv", ["ap_drop", "bucket_width"], None),
    ("qk.csv", ["r_q", "mu_k", "explained_variance"], "pc"),
    ("head_profile.csv", ["position", "ap"], "q_bucket"),
    ("head_component_weights.csv", ["component_weight"], "component")])
def test_fields_that_are_no_numbers(tmp_path, table, columns, index):
    header = [*IDS, *([index] if index else []), *columns]

    def check(column, value):
        rows = [["m", layer, 0, 0, *([0] if index else []), *[0.5] * len(columns)]
                for layer in (0, 1)]
        rows[1][header.index(column)] = value
        write(tmp_path, table, header, *rows)
        refuse(tmp_path, "malformed", f"{table}: row 3, column '{column}'", f"'{value}'")

    for column in columns:
        for value in ["x", "nan", "NaN", "inf", "-Infinity", "1,5", " 1", "0x10", "1e999", "NA"]:
            check(column, value)
    for column in [*IDS[1:], *([index] if index else [])]:
        for value in ["", "1.0", "x", "1e3", "99999999999999999999"]:
            check(column, value)
    for column in IDS[1:]:
        check(column, "-1")
        check(column, "2147483648")


def test_unknown_category(tmp_path):
    write_heads(tmp_path, ["m", 0, 0, 0], ["m", 1, 0, 0], columns=["category"], values=["Mixed"])
    refuse(tmp_path, "malformed", "heads.csv: row 2, column 'category': 'Mixed' is no category")
    write_heads(tmp_path, ["m", 0, 0, 0], columns=["category"], values=[""])
    assert read(tmp_path)["models"][0]["heads"][0]["category"] == -1


@pytest.mark.parametrize("table", ["heads.csv", "rotated.csv", "head_metrics.csv"])
def test_the_same_head_twice(tmp_path, table):
    write_heads(tmp_path, ["m", 0, 7, 0], ["n", 0, 7, 0], ["m", 0, 7, 0], name=table)
    refuse(tmp_path, "inconsistent", f"{table}: rows 2 and 4", "'m', layer 0, query head 7")


@pytest.mark.parametrize("table,index,columns", [
    ("qk.csv", "pc", []), ("head_profile.csv", "q_bucket", ["position", "ap"]),
    ("head_component_weights.csv", "component", ["component_weight"])])
def test_the_same_row_of_a_head_twice(tmp_path, table, index, columns):
    values = [1 for _ in columns]
    for twice in (0, 2):
        rows = [["m", 0, 7, 0, i, *values] for i in (0, 1, 2, twice)]
        write(tmp_path, table, [*IDS, index, *columns], *rows)
        refuse(tmp_path, "inconsistent", f"{table}: rows {twice + 2} and 5", "query head 7")
    write(tmp_path, table, [*IDS, index, *columns], *rows[::2])
    if index == "q_bucket":
        read(tmp_path)
    else:
        write(tmp_path, table, [*IDS, index, *columns], rows[0], rows[2])
        refuse(tmp_path, "inconsistent", f"{table}: row 3 is of component 2, but no row is of 1")


def test_distances_of_a_head_twice(tmp_path):
    rows = [["m", 0, 0, 0, 0, 0, 1, 1], ["m", 0, 1, 0, 0, 0, 1, 1]]
    distance_rows(tmp_path, *rows, *rows)
    refuse(tmp_path, "inconsistent", "head_distance.csv: rows 2 and 4", "query head 0")


def test_another_key_head(tmp_path):
    write_heads(tmp_path, ["m", 0, 3, 1])
    write_heads(tmp_path, ["m", 0, 3, 0], name="rotated.csv")
    refuse(tmp_path, "inconsistent", "rotated.csv: row 2: key head 0", "is 1 in another")


def test_models_and_the_list(tmp_path):
    write_heads(tmp_path, ["m", 0, 0, 0], ["n", 0, 0, 0])
    write(tmp_path, "models.csv", ["model"], ["n"])
    refuse(tmp_path, "inconsistent", "heads.csv: row 2, column 'model': 'm' is not in models.csv")
    write(tmp_path, "models.csv", ["model"], ["n"], ["m"], ["n"])
    refuse(tmp_path, "inconsistent", "models.csv: row 4", "'n'")


def test_scores_twice(tmp_path):
    write(tmp_path, "scores.csv", ["model", "s"], ["m", 1], ["n", 2], ["m", 3])
    refuse(tmp_path, "inconsistent", "scores.csv: rows 2 and 4", "'m'")


def test_ragged_rows(tmp_path):
    (tmp_path / "heads.csv").write_text("model,layer,q_head,k_head\nm,0,0,0\nm,1,0\n")
    refuse(tmp_path, "malformed", "heads.csv: row 3: 3 fields, but the header has 4")


def test_messages_have_no_control_characters(tmp_path):
    write_heads(tmp_path, ["\x1b[31m\x07", 0, 0, 0], ["\x1b[31m\x07", 0, 0, 0])
    _, _, err = run_dump(tmp_path)
    assert "heads.csv: rows 2 and 3" in err and "\x1b" not in err and "\x07" not in err


def test_every_truncation(tmp_path):
    """Of each table, every beginning is read or refused with its name."""
    texts = {
        "models.csv": "model,label,family,phase,source\n\"m\"\"\",L,F,p,s\nn,,,,\n",
        "qk.csv": "model,layer,q_head,k_head,pc,r_q\n\"m\"\"\",0,0,0,0,0.5\nn,1,0,0,0,-1e-3\n",
        "heads.csv": "model,layer,q_head,k_head,category,ev0\nn,0,0,0,mixed,0.5\n",
        "head_distance.csv": "model,layer,q_head,k_head,distance_bin,lag_bin,n_pairs,ap\r\n"
                             "n,0,0,0,1,1,10,0.5\r\n",
        "scores.csv": "\ufeffmodel,s\nn,1.5\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, newline="")
    read(tmp_path)
    for name, text in texts.items():
        whole = (tmp_path / name).read_bytes()
        for size in range(len(whole)):
            (tmp_path / name).write_bytes(whole[:size])
            code, _, err = run_dump(tmp_path)
            assert code == 0 or name in err or name == "models.csv", err
        (tmp_path / name).write_bytes(whole)


def test_random_damage(tmp_path):
    rng = np.random.default_rng(1)
    whole = ("model,layer,q_head,k_head,distance_bin,lag_bin,n_pairs,ap\n" +
             "".join(f"m,{i // 4},{i % 4},0,{b},{b * 7 % 5},{b + 1},0.{b}25\n"
                     for i in range(6) for b in range(8))).encode()
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            damaged[place] = rng.choice(list(b"\0\",\n\r-9e.\xff"))
        (tmp_path / "head_distance.csv").write_bytes(damaged)
        run_dump("--brief", tmp_path)


# ---- size ------------------------------------------------------------------------------------

def test_many_heads(tmp_path, sanitized):
    """Neither heads out of order nor many models take more than their share of time."""
    count = 20_000 if sanitized else 200_000
    order = np.random.default_rng(1).permutation(count)
    with open(tmp_path / "heads.csv", "w") as file:
        file.write("model,layer,q_head,k_head,ev0\n")
        file.writelines(f"m{i % 100},{i // 100 // 64},{i // 100 % 64},0,0.5\n" for i in order)
    run_dump("--brief", tmp_path, timeout=20)


def test_many_models(tmp_path, sanitized):
    count = 500 if sanitized else 2_000
    write_heads(tmp_path, *[[f"org/m{i}", 0, 0, 0] for i in range(count)])
    write(tmp_path, "scores.csv", ["model", "s"], *[[f"org/m{i}", i] for i in range(count)])
    _, out, _ = run_dump("--brief", tmp_path, timeout=20)
    assert out == f"{count} models\n".encode()
