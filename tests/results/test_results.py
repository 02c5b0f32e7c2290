# SPDX-License-Identifier: Apache-2.0
"""A results folder as the library reads it against its tables, row by row; and tables that are wrong."""
import csv
import itertools
import json
import os
import shutil
import subprocess

import numpy as np
import pytest

from conftest import BUILD, EXAMPLE, check_survived, environment, read_csv

DUMP = BUILD / "tests" / "results" / "dump_results"
IDS = ["model", "layer", "q_head", "k_head"]
CATEGORIES = ["position-dominated", "Q-positional", "K-positional", "content-focused", "mixed"]
TABLES = {
    "heads.csv": "ev0 pos_var_q pos_var_k pos_var_q_pc0_share lin_var_q lin_var_k "
                 "positional_overhead separation fisher lda_accuracy mu_q_beta alpha_beta "
                 "category_probability texts effective_texts r_q_width near_tie probability_position_dominated "
                 "probability_q_positional probability_k_positional probability_content_focused "
                 "probability_mixed position_r_q position_r_k octave_r_q octave_r_k "
                 "pc0_first_share pc0_first_cosine key_share score_rank",
    "rotated.csv": "position_r r_q_a r_k_a alpha_q alpha_k mu_q_a mu_k_a mu_q_b mu_k_b "
                   "bias_strength separation_strength var_frac_a var_frac_b plane_var_fraction "
                   "content_var_b omega omega_r_squared bias_over_context",
    "head_metrics.csv": "q_R2_pos beta_norm q_R2_scalar q_mae_ratio ap_overall ap_first_20pct "
                        "ap_last_20pct ap_drop",
}
COMPONENT = "r_q r_k p_q p_k mu_q mu_k alpha beta"


def run_dump(*arguments):
    if not DUMP.exists():
        pytest.skip(f"{DUMP} is not built")
    done = subprocess.run([DUMP, *map(os.fspath, arguments)], capture_output=True, env=environment(), timeout=300)
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


def same(value, expected, tolerance=1e-12):
    """Numbers, or arrays of them; None is NaN."""
    value, expected = (np.array(x, float) for x in (value, expected))
    assert value.shape == expected.shape
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance * 1e-3)


def head_of(row):
    return row["model"], row["layer"], row["q_head"]


def by_head(path):
    """{head: its rows}"""
    rows = sorted(read_csv(path), key=head_of)
    return {head: list(some) for head, some in itertools.groupby(rows, head_of)}


# ---- real tables -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def study(qkscope, tmp_path_factory):
    """Three models: the tables of two settings with all analyses, of one with PCA alone."""
    root = tmp_path_factory.mktemp("study")
    folder = root / "study"
    folder.mkdir()
    runs = [("b, \"second\"", ["analyze", "--lda", "--layers", "0,2,4"]), ("a\nfirst", ["analyze", "--layers", "1,3"]),
            ("c", ["pca", "--components", "3", "--layers", "2,4"])]
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


def heads_in(results):
    return [((model["name"], head["layer"], head["q_head"]), head) for model in results["models"] for head in model["heads"]]


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
    assert [len(m["heads"]) for m in results["models"]] == [8, 0, 12, 8]
    assert len({m["slug"] for m in results["models"]}) == 4


def test_numbers_are_those_of_the_tables(study, results):
    tables = {name: by_head(study / name) for name in [*TABLES, "qk.csv"]}
    for key, head in heads_in(results):
        for name, columns in [("qk.csv", COMPONENT), *TABLES.items()]:
            rows = [row for row in tables[name].get(key, []) if row.get("pc", 0) == 0]
            for column in columns.split():
                assert head["v"][column] == (rows[0][column] if rows else None), (key, column)
            if rows:
                (row,) = rows
                assert head["k_head"] == row["k_head"]
        assert CATEGORIES[head["category"]] == tables["heads.csv"][key][0]["category"]


def test_heads_are_in_order(results):
    for model in results["models"]:
        ids = [(h["layer"], h["q_head"]) for h in model["heads"]]
        assert ids == sorted(ids)
        last = max([h["layer"] for h in model["heads"]], default=0)
        for head in model["heads"]:
            same(head["depth"], head["layer"] / last, 0)


def test_components_and_profiles(study, results):
    qk, profile = (by_head(study / f"{name}.csv") for name in ("qk", "head_profile"))
    for key, head in heads_in(results):
        for table, pairs in ((qk, {"pc_ev": "explained_variance", "pc_r_q": "r_q", "pc_r_k": "r_k"}), (
                profile, {"profile_position": "position", "profile_ap": "ap"})):
            for name, column in pairs.items():
                assert head[name] == [row[column] for row in table.get(key, [])]


def test_attention_of_the_latest_rows(tmp_path):
    """In whatever order, also of a head whose window ends before others, and with gaps."""
    rng, header = np.random.default_rng(4), [*IDS, "cell", "row_first", "row_last", "distance_first", "distance_last", "mass",
                                             "uniform", "predicted_rotation", "predicted_means"]
    rows = []
    for head, reach in [(0, 40), (1, 4)]:
        places = [(last, first) for last in (8, 16, 32) for first in (0, 1, 2, 4, 8, 16, 32) if first <= min(last, reach)]
        rows += [["m", 0, head, 0, cell, last, 2 * last - 1, first, max(0, 2 * first - 1), *rng.uniform(0.1, 1, 4)]
                 for cell, (last, first) in enumerate(places)]
    rows[-1][10] = 0
    write(tmp_path, "attention_profile.csv", header, *(rows[i] for i in rng.permutation(len(rows))))
    heads = read(tmp_path)["models"][0]["heads"]
    for head in heads:
        last = np.array([row[5:] for row in rows if row[2] == head["q_head"] and row[5] == 32], float)
        uniform = np.where(last[:, 5] > 0, last[:, 5], np.nan)
        wanted = [last[:, 2:4].mean(1), *(last[:, i] / uniform for i in (4, 7, 6))]
        for found, expected in zip(head["attention"], wanted, strict=True):
            same(found, expected)
    assert [len(head["attention"][0]) for head in heads] == [7, 4]
    write(tmp_path, "attention_profile.csv", header, *rows, rows[3])
    refuse(tmp_path, "attention_profile.csv", "both of cell 3")
    write(tmp_path, "attention_profile.csv", [name for name in header if name != "uniform"], rows[0][1:])
    refuse(tmp_path, "attention_profile.csv", "there is no column 'uniform'")



def test_order_of_rows_does_not_matter(study, results, tmp_path):
    shutil.copytree(study, tmp_path / "shuffled")
    rng = np.random.default_rng(1)
    for name in ["qk.csv", "head_profile.csv", *TABLES]:
        with open(study / name, newline="") as file:
            header, *rows = csv.reader(file)
        write(tmp_path / "shuffled", name, header, *(rows[i] for i in rng.permutation(len(rows))))
    for a, b in zip(read(tmp_path / "shuffled")["models"], results["models"], strict=True):
        assert a == {key: value for key, value in b.items() if key in a}


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


@pytest.mark.parametrize("present", ["qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv", "head_profile.csv"])
def test_one_table_alone(study, results, tmp_path, present):
    shutil.copy(study / present, tmp_path / present)
    found = read(tmp_path)
    columns = TABLES.get(present, COMPONENT if present == "qk.csv" else "").split()
    for model in found["models"]:
        listed = next(m for m in results["models"] if m["name"] == model["name"])
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


def test_title(tmp_path):
    write_heads(tmp_path, ["m", 0, 0, 0])
    for manifest, title in [("{}", ""), ('{"title": 3}', ""), ('{"title": "x', ""), ("[]", ""), ('{"title": "<b>"}', "<b>")]:
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






def test_profile_is_in_order_of_position(tmp_path):
    write(tmp_path, "head_profile.csv", [*IDS, "q_bucket", "position", "ap"],
          ["m", 0, 0, 0, 2, 5, 0.2], ["m", 0, 0, 0, -1, 7, 0.3], ["m", 0, 0, 0, 9, 5, ""],
          ["m", 0, 0, 0, 3, "", 0.1])
    head = read(tmp_path)["models"][0]["heads"][0]
    assert head["profile_position"] == [5, 5, 7, None]
    assert head["profile_ap"] == [0.2, None, 0.3, 0.1]



# ---- scores ----------------------------------------------------------------------------------

def test_scores(tmp_path):
    write(tmp_path, "scores.csv", ["score", "model", "note", "family", "few", "none", "", "size"],
          [1.5, "m", "x", "F", "", "", 1, "v7B"], [2, "n", "", "", "-1e3", "", 2, "x"],
          ["", "o", "z", "G", ".5", "", 3, ""])
    found = read(tmp_path)
    assert found["models"] == [] and not found["checkpoints"]
    assert found["scores"]["columns"] == ["score", "few"]
    assert found["scores"]["rows"] == [
        {"model": "m", "family": "F", "values": [1.5, None]},
        {"model": "n", "family": "", "values": [2, -1000]},
        {"model": "o", "family": "G", "values": [None, 0.5]}]


@pytest.mark.cases(6)
@pytest.mark.parametrize("field", ["N/A", "0,5", "5%", " 5", "7B", "1e999"])
def test_scores_with_a_field_that_is_no_number(tmp_path, field):
    """The next column would be the score."""
    write(tmp_path, "scores.csv", ["model", "bench", "params"], ["m", 1, 7], ["n", field, 8])
    refuse(tmp_path, "malformed", f"scores.csv: row 3, column 'bench': '{field}' is not a number", "leave the field empty")


def test_scores_of_another_file(tmp_path):
    write_heads(tmp_path, ["m", 0, 0, 0])
    write(tmp_path, "scores.csv", ["model", "own"], ["m", 1])
    write(tmp_path, "other.csv", ["model", "other"], ["m", 1])
    assert read(tmp_path)["scores"]["columns"] == ["own"]
    assert read(tmp_path, tmp_path / "other.csv")["scores"]["columns"] == ["other"]
    refuse(tmp_path, "not found", "gone.csv", scores=[tmp_path / "gone.csv"])


# ---- wrong tables ----------------------------------------------------------------------------

def test_nothing_there(tmp_path):
    refuse(tmp_path, "not found", "no tables")
    refuse(tmp_path / "gone", "not found")


COLUMNS = [
    ("qk.csv", [*IDS, "pc"], ["r_q", "mu_k"]), ("heads.csv", IDS, ["ev0"]), ("rotated.csv", IDS, ["omega"]),
    ("head_metrics.csv", IDS, ["ap_drop"]), ("head_profile.csv", [*IDS, "q_bucket", "position", "ap"], []),
    ("models.csv", ["model"], ["other"]), ("scores.csv", ["model"], ["other"])]


@pytest.mark.cases(9)
@pytest.mark.parametrize("table, needed, more", COLUMNS)
def test_columns(tmp_path, table, needed, more):
    """Those that are missing, there twice, or hold no numbers, are named; a table of a header alone is read."""
    columns = needed + more
    row = ["m" if column == "model" else 0 for column in columns]
    for rows in ([row], []):
        write(tmp_path, table, columns, *rows)
        read(tmp_path)
    write(tmp_path, table)
    refuse(tmp_path, f"{table}: empty")
    last = needed[-1]
    i = columns.index(last)
    write(tmp_path, table, columns[:i] + columns[i + 1:], row[:i] + row[i + 1:])
    refuse(tmp_path, "malformed", f"{table}: there is no column '{last}'")
    write(tmp_path, table, [*columns, last], [*row, row[i]])
    refuse(tmp_path, "malformed", f"{table}: columns {i + 1} and {len(columns) + 1}", last)
    for column in columns[1:] if table[0] not in "ms" else []:
        whole = column in [*IDS, "pc", "q_bucket", "component"]
        for value in ["x", "", "1.0"] if whole else ["nan"]:
            second = [*row[:1], 1, *row[2:]]
            second[columns.index(column)] = value
            write(tmp_path, table, columns, row, second)
            refuse(tmp_path, "malformed", f"{table}: row 3, column '{column}'", f"'{value}'")


@pytest.mark.parametrize("value", ["-1", "2147483648", "99999999999999999999"])
def test_ids_out_of_range(tmp_path, value):
    write_heads(tmp_path, ["m", 0, 0, 0], ["m", 1, value, 0])
    refuse(tmp_path, "malformed", "heads.csv: row 3, column 'q_head'", f"'{value}'")


HEAD = "model,layer,q_head,k_head"
WRONG = [
    ({"heads.csv": [f"{HEAD},category", "m,0,0,0,Mixed"]}, "heads.csv: row 2, column 'category': 'Mixed'", "malformed"),
    ({"heads.csv": [HEAD, "m,0,7,0", "n,0,7,0", "m,0,7,0"]}, "rows 2 and 4", "'m', layer 0, query head 7", "inconsistent"),
    ({"rotated.csv": [HEAD, "m,0,7,0", "n,0,7,0", "m,0,7,0"]}, "rotated.csv: rows 2 and 4"),
    ({"head_metrics.csv": [HEAD, "m,0,7,0", "n,0,7,0", "m,0,7,0"]}, "head_metrics.csv: rows 2 and 4"),
    ({"qk.csv": [f"{HEAD},pc", "m,0,7,0,0", "m,0,7,0,1", "m,0,7,0,0"]}, "qk.csv: rows 2 and 4", "query head 7"),
    ({"qk.csv": [f"{HEAD},pc", "m,0,7,0,0", "m,0,7,0,2"]}, "qk.csv: row 3 is of component 2, but no row is of 1"),
    ({"head_profile.csv": [f"{HEAD},q_bucket,position,ap", "m,0,7,0,1,1,1", "m,0,7,0,1,1,1"]}, "head_profile.csv: rows 2 and 3"),
    ({"heads.csv": [HEAD, "m,0,3,1"], "rotated.csv": [HEAD, "m,0,3,0"]}, "rotated.csv: row 2: key head 0", "is 1 in another"),
    ({"heads.csv": [HEAD, "m,0,0,0"], "models.csv": ["model", "n"]}, "heads.csv: row 2, column 'model': 'm' is not in"),
    ({"models.csv": ["model", "n", "m", "n"]}, "models.csv: row 4", "'n'"),
    ({"scores.csv": ["model,s", "m,1", "n,2", "m,3"]}, "scores.csv: rows 2 and 4", "'m'"),
    ({"heads.csv": [HEAD, "m,0,0,0", "m,1,0"]}, "heads.csv: row 3: 3 fields, but the header has 4", "malformed"),
]


@pytest.mark.cases(len(WRONG))
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong[1])
def test_what_contradicts_itself(tmp_path, wrong):
    tables, *words = wrong
    for name, lines in tables.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    refuse(tmp_path, *words)


def test_messages_have_no_control_characters(tmp_path):
    write_heads(tmp_path, ["\x1b[31m\x07", 0, 0, 0], ["\x1b[31m\x07", 0, 0, 0])
    _, _, err = run_dump(tmp_path)
    assert "heads.csv: rows 2 and 3" in err and "\x1b" not in err and "\x07" not in err


@pytest.mark.test_all
def test_many_heads_and_models(tmp_path, sanitized):
    """Neither heads out of order nor many models: what takes time by the square would take many minutes."""
    count, models = (20_000, 500) if sanitized else (200_000, 2_000)
    with open(tmp_path / "heads.csv", "w") as file:
        file.write("model,layer,q_head,k_head,ev0\n")
        file.writelines(f"m{i % models},{i // models // 64},{i // models % 64},0,0.5\n"
                        for i in np.random.default_rng(1).permutation(count))
    write(tmp_path, "scores.csv", ["model", "s"], *[[f"m{i}", i] for i in range(models)])
    _, out, _ = run_dump("--brief", tmp_path)
    assert out == f"{models} models\n".encode()
