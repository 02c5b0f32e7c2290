# SPDX-License-Identifier: Apache-2.0
"""`merge` joins tables of runs of other layers or heads: the bytes of one run, and what is refused."""
import csv
import json
import math
import shutil

import pytest
from conftest import EXAMPLE

LAYERS = ("0", "1", "2-4")


def tables(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*") if path.suffix == ".csv" or path.name == "schema.json"}


@pytest.fixture(scope="module")
def apart(qkscope, tmp_path_factory):
    """(folders of layers apart, the folder of one run): all tables, with intervals."""
    root = tmp_path_factory.mktemp("apart")
    words = ["analyze", EXAMPLE, "--ci", "95", "--complement", "--lda", "--lengths", "64,256", "-q"]
    for layers in LAYERS:
        qkscope(*words, "--layers", layers, "-o", root / layers, expect=0)
    qkscope(*words, "-o", root / "one", expect=0)
    return [root / layers for layers in LAYERS], root / "one"


def model_report(folder):
    (row,) = csv.DictReader((folder / "model_report.csv").open())
    return row


def test_layers_apart_are_one_run(qkscope, apart, tmp_path):
    """In any order. Means over all heads may end in other digits."""
    folders, one = apart
    for folder in folders:
        rows = list(csv.DictReader((folder / "heads.csv").open()))
        assert 0 < len(rows) < 20
    out = tmp_path / "out"
    said = qkscope("merge", folders[2], folders[0], folders[1], "-o", out, expect=0).out
    assert said == f"{out}: the tables of 3 folders\n"
    expected, found = tables(one), tables(out)
    assert len(expected) == 13 and set(found) == set(expected)
    for name in set(expected) - {"model_report.csv"}:
        assert found[name] == expected[name], name
    for name, value in model_report(one).items():
        other = model_report(out)[name]
        assert other == value if name in ("model", "heads") else math.isclose(float(other), float(value), rel_tol=1e-14), name


def test_the_manifest_is_of_all_runs(qkscope, apart, tmp_path):
    folders, one = apart
    qkscope("merge", *folders, "-o", tmp_path / "out", expect=0)
    (run,), (whole,) = (json.loads((folder / "manifest.json").read_text())["runs"] for folder in (tmp_path / "out", one))
    for name in ("model", "capture", "num_layers", "group", "buckets", "heads", "heads_without_numbers", "rows", "inputs", "tables"):
        assert run[name] == whole[name], name
    assert run["settings"] == {**whole["settings"], "layers": [0, 1, 2, 3, 4]}
    assert [part["folder"] for part in run["joined"]] == [str(folder) for folder in folders]
    assert all("--layers" in part["command_line"] for part in run["joined"])
    assert qkscope("heads", tmp_path / "out", "--format", "list", expect=0).out == qkscope("heads", one, "--format", "list", expect=0).out


def test_heads_of_a_layer_and_tables_of_two_commands(qkscope, tmp_path):
    for place, heads in (("a", ["--heads", "1:0,1:2"]), ("b", ["--heads", "1:1,1:3"]), ("one", ["--layers", "1"])):
        for command in ("pca", "rotate"):
            qkscope(command, EXAMPLE, *heads, "-o", tmp_path / place, "-q", expect=0)
    qkscope("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "out", expect=0)
    assert tables(tmp_path / "out") == tables(tmp_path / "one")
    runs = json.loads((tmp_path / "out" / "manifest.json").read_text())["runs"]
    assert [run["tables"] for run in runs] == [["qk.csv", "heads.csv"], ["rotated.csv"]]


def test_kinds_apart(qkscope, tmp_path):
    for name, layers in (("a", "0,2"), ("b", "1"), ("one", "0-2")):
        qkscope("pca", EXAMPLE, "--kinds", "q,k", "--layers", layers, "-o", tmp_path / name, "-q", expect=0)
    qkscope("merge", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "out", expect=0)
    assert tables(tmp_path / "out") == tables(tmp_path / "one") and not (tmp_path / "out" / "summary.json").exists()


def spoil_table(folder):
    (folder / "qk.csv").write_text((folder / "qk.csv").read_text()[:-2])


def spoil_manifest(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["complete"] = False
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_what_is_refused(qkscope, apart, tmp_path):
    """By name, and nothing is left."""
    first, second, third = apart[0]
    out = tmp_path / "out"
    options = {"seed": ["--seed", "3"], "components": ["--components", "2"], "tables": ["--lda"]}
    for name, words in options.items():
        more = [] if name == "tables" else ["--lda"]
        qkscope("analyze", EXAMPLE, "--ci", "95", "--lengths", "64,256", *([] if name == "tables" else ["--complement"]), *more, *words,
                "--layers", "1", "-o", tmp_path / name, "-q", expect=0)
    refused = [([first, tmp_path / "seed"], f"{first} and {tmp_path / 'seed'} differ in seed: join runs of one capture"),
               ([first, tmp_path / "components"], "differ in components"), ([first, tmp_path / "tables"], "differ in complement_pairs"),
               ([first, second, apart[1]], f"{first} and {apart[1]} both have head 0 of layer 0: join runs of different layers"),
               ([first, EXAMPLE], "manifest.json: cannot be read; give a folder with results"),
               ([first, tmp_path / "nowhere"], "nowhere")]
    for spoil, words in ((spoil_table, "qk.csv"), (spoil_manifest, "not complete")):
        place = shutil.copytree(third, tmp_path / spoil.__name__)
        spoil(place)
        refused.append(([first, place], words))
    for folders, words in refused:
        assert words in qkscope("merge", *folders, "-o", out, expect=1).err, words
        assert not out.exists()
    assert "where to? -o DIR" in qkscope("merge", first, second, expect=2).err
    assert "its tables are there, and nothing waits" in qkscope("merge", first, expect=0).out
    assert "with which other results?" in qkscope("merge", first, "-o", out, expect=2).err


def test_results_of_two_captures(qkscope, apart, tmp_path):
    changed = shutil.copytree(EXAMPLE, tmp_path / "changed")
    (changed / "capture.json").write_text((changed / "capture.json").read_text() + "\n")
    for capture, layer in ((EXAMPLE, "0"), (changed, "1")):
        qkscope("pca", capture, "--layers", layer, "-o", tmp_path / layer, "-q", expect=0)
    assert "differ in bytes" in qkscope("merge", tmp_path / "0", tmp_path / "1", "-o", tmp_path / "out", expect=1).err
    for i in (0, 1):
        silent = shutil.copytree(EXAMPLE, tmp_path / f"silent{i}", ignore=shutil.ignore_patterns("capture.json"))
        qkscope("pca", silent, "--layers", i, "-o", tmp_path / f"r{i}", "-q", expect=0)
    assert "differ in capture" in qkscope("merge", tmp_path / "r0", tmp_path / "r1", "-o", tmp_path / "out", expect=1).err


def test_a_folder_is_replaced_with_force_alone(qkscope, apart, tmp_path):
    (first, second, third), one = apart
    out = shutil.copytree(one, tmp_path / "out")
    before = tables(out)
    assert "out: is not empty; choose another folder" in qkscope("merge", first, second, "-o", out, expect=1).err
    assert tables(out) == before
    done = qkscope("merge", first, second, "-o", out, "--force", "--json", expect=0)
    assert json.loads(done.out) == {"output": str(out), "folders": 2}
    assert {row["layer"] for row in csv.DictReader((out / "heads.csv").open())} == {"0", "1"}
    qkscope("merge", out, third, "-o", out, "--force", expect=0)  # into one of them
    assert tables(out)["heads.csv"] == before["heads.csv"]


@pytest.mark.parametrize("command", ["analyze", "attention", "pca", "plasticity", "rotate"])
def test_shards_of_analyses_have_left(qkscope, tmp_path, command):
    said = qkscope(command, EXAMPLE, "-o", tmp_path / "out", "--shard", "0/2", expect=2).err
    assert "--shard has left: use --layers, and join the tables with qkscope merge" in said and not (tmp_path / "out").exists()


def test_from_python(apart, tmp_path):
    qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")
    folders, one = apart
    results = qk.Results.join(folders, tmp_path / "out")
    assert tables(tmp_path / "out")["qk.csv"] == tables(one)["qk.csv"] and results.num_heads == 20
    assert qk.Results.join([qk.Results.read(f).folder for f in folders], tmp_path / "out", force=True).complete
    with pytest.raises(qk.DataError, match="both have head 0 of layer 0"):
        qk.Results.join([folders[0], one], tmp_path / "b")
    with pytest.raises(qk.ExistsError, match="is not empty"):
        qk.Results.join(folders, tmp_path / "out")
