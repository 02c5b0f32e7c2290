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
TABLES = "qk.csv", "heads.csv", "rotated.csv", "head_metrics.csv", "head_profile.csv"


def read(folder):
    """The models of a folder, as figures and the page have them."""
    if not DUMP.exists():
        pytest.skip(f"{DUMP} is not built")
    done = subprocess.run([DUMP, os.fspath(folder)], capture_output=True, env=environment(), timeout=300)
    err = done.stderr.decode(errors="surrogateescape")
    check_survived(done.returncode, err)
    assert done.returncode == 0, err
    return json.loads(done.stdout)


def ask(qkscope, folder, statement):
    return json.loads(qkscope("sql", folder, statement, "--format", "json", expect=0).out)


def refuse(qkscope, folder, table, *words):
    """Whatever asks for the table, it says the same."""
    err = qkscope("sql", folder, f"select * from {table.removesuffix('.csv')}", expect=1).err
    for word in words:
        assert word in err, err


def write(folder, name, *rows):
    """A table of rows that are lists, quoted where it must be."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / name, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def write_heads(folder, *ids, name="heads.csv", columns=("ev0",), values=(0.5,)):
    write(folder, name, [*IDS, *columns], *[[*row, *values] for row in ids])


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


def head_of(row):
    return row["model"], row["layer"], row["q_head"]


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
    assert [m["heads"] for m in results["models"]] == [8, 0, 12, 8] and results["heads"] == 28
    assert [m["last_layer"] for m in results["models"]] == [3, 0, 4, 4]
    assert len({m["slug"] for m in results["models"]}) == 4


def numbers(qkscope, folder):
    return ask(qkscope, folder, "select * from head_numbers order by head_id")


def test_numbers_are_those_of_the_tables(qkscope, study):
    tables = {name: {head_of(row): row for row in read_csv(study / name) if row.get("pc", 0) == 0} for name in TABLES[:4]}
    models = [m["name"] for m in read(study)["models"]]
    heads = numbers(qkscope, study)
    assert [head_of(head) for head in heads] == sorted(tables["heads.csv"], key=lambda key: (models.index(key[0]), *key[1:]))
    for head in heads:
        for rows in tables.values():
            for column, value in rows.get(head_of(head), {}).items():
                if column not in ("pc", "n_q", "n_k"):
                    assert head[column] == value, (head_of(head), column)


def test_order_of_rows_does_not_matter(qkscope, study, tmp_path):
    shutil.copytree(study, tmp_path / "shuffled")
    rng = np.random.default_rng(1)
    for name in TABLES:
        with open(study / name, newline="") as file:
            header, *rows = csv.reader(file)
        write(tmp_path / "shuffled", name, header, *(rows[i] for i in rng.permutation(len(rows))))
    assert numbers(qkscope, tmp_path / "shuffled") == numbers(qkscope, study)
    assert read(tmp_path / "shuffled") == read(study)


def test_without_a_list_of_models(qkscope, study, results, tmp_path):
    folder = tmp_path / "no list"
    shutil.copytree(study, folder)
    (folder / "models.csv").unlink()
    (folder / "manifest.json").unlink()
    found = read(folder)
    assert found["title"] == "" and not found["checkpoints"] and found["phases"] == []
    assert [m["name"] for m in found["models"]] == ["b, \"second\"", "a\nfirst", "c"]
    for model in found["models"]:
        assert model["label"] == model["family"] == model["name"]
        assert model["phase"] == "" and model["phase_index"] == -1
        listed = next(m for m in results["models"] if m["name"] == model["name"])
        assert model["heads"] == listed["heads"] and model["last_layer"] == listed["last_layer"]


@pytest.mark.parametrize("present", TABLES)
def test_one_table_alone(qkscope, study, tmp_path, present):
    """Its models are there; its heads, where it has a row a head; nothing else."""
    shutil.copy(study / present, tmp_path / present)
    rows = read_csv(study / present)
    assert {m["name"] for m in read(tmp_path)["models"]} == {row["model"] for row in rows}
    heads = {head_of(head): head for head in numbers(qkscope, tmp_path)}
    assert heads.keys() == ({head_of(row) for row in rows} if present != "head_profile.csv" else set())
    own = {*rows[0], "label", "family", "depth", "tenth", "head_id", "probability"}
    assert not {column for head in heads.values() for column, value in head.items() if value is not None} - own


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
    assert [m["heads"] for m in found["models"]] == [0, 0]


# ---- depth -----------------------------------------------------------------------------------

def test_depth_counts_from_the_last_layer_that_is_known(qkscope, tmp_path):
    """models.csv says how many layers a model has, or manifest.json; else the largest here is the
    last."""
    heads = ["a", 5, 0, 0], ["a", 5, 1, 0], ["b", 2, 0, 0], ["b", 4, 0, 0], ["c", 0, 0, 0]

    def depths():
        last = [m["last_layer"] for m in read(tmp_path)["models"]]
        rows = ask(qkscope, tmp_path, "select model, layer, depth from head_numbers order by head_id")
        for row in rows:
            assert row["depth"] == (row["layer"] / last["abc".index(row["model"])] if row["layer"] else 0)
        return last
    write_heads(tmp_path, *heads)
    assert depths() == [5, 4, 0]
    runs = [{"model": "a", "num_layers": n, "tables": ["heads.csv"]} for n in (3, 11)]
    runs.append({"model": "b", "num_layers": "x", "tables": []})
    (tmp_path / "manifest.json").write_text(json.dumps({"complete": True, "runs": runs}))
    assert depths() == [10, 4, 0]
    write(tmp_path, "models.csv", ["model", "layers"], ["a", 21], ["b", 3], ["c", ""])
    assert depths() == [20, 4, 0]


# ---- wrong tables ----------------------------------------------------------------------------

def test_nothing_there(qkscope, tmp_path):
    refuse(qkscope, tmp_path, "heads", "no tables")
    refuse(qkscope, tmp_path / "gone", "heads", "gone")


COLUMNS = [
    ("qk.csv", [*IDS, "pc"], ["r_q", "mu_k"]), ("heads.csv", IDS, ["ev0"]), ("rotated.csv", IDS, ["omega"]),
    ("head_metrics.csv", IDS, ["ap_drop"]), ("head_profile.csv", [*IDS, "q_bucket"], ["position", "ap"]),
    ("models.csv", ["model"], ["other"]), ("scores.csv", ["model"], ["other"])]


@pytest.mark.cases(9)
@pytest.mark.parametrize("table, needed, more", COLUMNS)
def test_columns(qkscope, tmp_path, table, needed, more):
    """Those that are missing, there twice, or hold no numbers, are named; a table of a header alone is read."""
    columns = needed + more
    row = ["m" if column == "model" else 0 for column in columns]
    for rows in ([row], []):
        write(tmp_path, table, columns, *rows)
        ask(qkscope, tmp_path, f"select * from {table[:-4]}")
    write(tmp_path, table)
    refuse(qkscope, tmp_path, table, f"{table}: empty")
    last = needed[-1]
    i = columns.index(last)
    write(tmp_path, table, columns[:i] + columns[i + 1:], row[:i] + row[i + 1:])
    refuse(qkscope, tmp_path, table, f"{table}: there is no column '{last}'")
    write(tmp_path, table, [*columns, last], [*row, row[i]])
    refuse(qkscope, tmp_path, table, f"{table}: columns {i + 1} and {len(columns) + 1}", last)
    for column in columns[1:] if table[0] not in "ms" else []:
        whole = column in [*IDS, "pc", "q_bucket", "component"]
        for value in ["x", "", "1.0"] if whole else ["nan"]:
            second = [*row[:1], 1, *row[2:]]
            second[columns.index(column)] = value
            write(tmp_path, table, columns, row, second)
            refuse(qkscope, tmp_path, table, f"{table}: row 3, column '{column}'", f"'{value}'")


@pytest.mark.parametrize("value", ["-1", "2147483648", "99999999999999999999"])
def test_ids_out_of_range(qkscope, tmp_path, value):
    write_heads(tmp_path, ["m", 0, 0, 0], ["m", 1, value, 0])
    refuse(qkscope, tmp_path, "heads", "heads.csv: row 3, column 'q_head'", f"'{value}'")


HEAD = "model,layer,q_head,k_head"
WRONG = [
    ({"heads.csv": [f"{HEAD},category", "m,0,0,0,Mixed"]}, "heads.csv: row 2, column 'category': 'Mixed'"),
    ({"heads.csv": [HEAD, "m,0,7,0", "n,0,7,0", "m,0,7,0"]}, "rows 2 and 4", "'m', layer 0, query head 7"),
    ({"rotated.csv": [HEAD, "m,0,7,0", "n,0,7,0", "m,0,7,0"]}, "rotated.csv: rows 2 and 4"),
    ({"head_metrics.csv": [HEAD, "m,0,7,0", "n,0,7,0", "m,0,7,0"]}, "head_metrics.csv: rows 2 and 4"),
    ({"qk.csv": [f"{HEAD},pc", "m,0,7,0,0", "m,0,7,0,1", "m,0,7,0,0"]}, "qk.csv: rows 2 and 4", "query head 7"),
    ({"qk.csv": [f"{HEAD},pc", "m,0,7,0,0", "m,0,7,0,2"]}, "qk.csv: row 3 is of component 2, but no row is of 1"),
    ({"head_profile.csv": [f"{HEAD},q_bucket,position,ap", "m,0,7,0,1,1,1", "m,0,7,0,1,1,1"]}, "head_profile.csv: rows 2 and 3"),
    ({"heads.csv": [HEAD, "m,0,3,1"], "rotated.csv": [HEAD, "m,0,3,0"]}, "rotated.csv: key head 0", "is 1 in another"),
    ({"heads.csv": [HEAD, "m,0,0,0"], "models.csv": ["model", "n"]}, "heads.csv: row 2, column 'model': 'm' is not in"),
    ({"models.csv": ["model", "n", "m", "n"]}, "models.csv: row 4", "'n'"),
    ({"scores.csv": ["model,s", "m,1", "n,2", "m,3"]}, "scores.csv: rows 2 and 4", "'m'"),
    ({"heads.csv": [HEAD, "m,0,0,0", "m,1,0"]}, "heads.csv: row 3: 3 fields, but the header has 4"),
]


@pytest.mark.cases(len(WRONG))
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong[1])
def test_what_contradicts_itself(qkscope, tmp_path, wrong):
    tables, *words = wrong
    for name, lines in tables.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    (tmp_path / "heads.csv").touch()
    if not (tmp_path / "heads.csv").stat().st_size:
        (tmp_path / "heads.csv").write_text(HEAD + "\n")
    refuse(qkscope, tmp_path, "head_numbers" if len(tables) > 1 else next(iter(tables)), *words)


def test_messages_have_no_control_characters(qkscope, tmp_path):
    write_heads(tmp_path, ["\x1b[31m\x07", 0, 0, 0], ["\x1b[31m\x07", 0, 0, 0])
    err = qkscope("sql", tmp_path, "select * from heads", expect=1).err
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
    found = read(tmp_path)
    assert len(found["models"]) == models and found["heads"] == count
