# SPDX-License-Identifier: Apache-2.0
"""Whose the tables in a results folder are: runs in manifest.json, other captures, folders that cannot be written."""
import json
import os
import re
import shutil
import subprocess

import pytest

from conftest import EXAMPLE, ROOT, environment, last_run, read_bytes, read_csv, read_json, synth

PCA = ["qk.csv", "heads.csv"]
PLASTICITY = ["head_metrics.csv", "head_profile.csv", "head_bucket_plasticity.csv",
              "head_distance.csv", "head_component_weights.csv", "model_report.csv"]


@pytest.fixture(scope="module")
def captures(tmp_path_factory):
    """Two captures of the same shape: files of the same names, most of the same sizes."""
    root = tmp_path_factory.mktemp("captures")
    for i, name in enumerate("ab"):
        synth(root / name, seed=i, layers=3, query_heads=2, q_per_kv_group=2, dim=8,
              examples=2, rows=200, buckets=4, bucket_width=64)
    return root


def runs_of(folder):
    manifest = read_json(folder / "manifest.json")
    assert manifest["kind"] == "results" and manifest["complete"] is True
    return [(run["settings"]["analyses"], run["tables"]) for run in manifest["runs"]]


def tables_of(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()
            if p.suffix == ".csv" or p.name == "summary.json"}


# ---- runs ------------------------------------------------------------------------------------

@pytest.mark.cases(9)
@pytest.mark.parametrize("first, second, refused", [
    (["--layers", "0-1"], ["--layers", "1"], "layers"), (["--layers", "0"], ["--layers", "1"], "layers"),
    ([], ["--heads", "1"], "heads"), ([], ["--sample-heads", "2"], "sample_heads"), ([], ["--max-samples", "50"], "max_samples"),
    ([], ["--from-position", "5"], "from_position"), (["--layers", "0"], ["--layers", "0-1"], None), (["--heads", "0"], [], None),
    (["--max-samples", "50"], ["--max-samples", "60"], None)])
def test_less_does_not_replace_more(qkscope, captures, tmp_path, first, second, refused):
    """Of the same capture; another analysis is added whatever it takes."""
    out = tmp_path / "out"
    qkscope("pca", captures / "a", "-o", out, *first, expect=0)
    before = read_bytes(out, *PCA)
    said = qkscope("pca", captures / "a", "-o", out, *second, expect=1 if refused else 0).err
    if not refused:
        return
    assert f"of more of this capture ({refused}) than this run takes; choose another folder, or --force" in said
    assert read_bytes(out, *PCA) == before
    qkscope("rotate", captures / "a", "-o", out, *second, expect=0)
    qkscope("pca", captures / "a", "-o", out, *second, "--force", expect=0)
    assert read_bytes(out, *PCA) != before


def test_more_components_than_dimensions_are_told(qkscope, captures, tmp_path):
    said = qkscope("pca", captures / "a", "-o", tmp_path / "x", "--components", 1000, expect=0).err
    assert "--components 1000: vectors have 8 dimensions" in said
    assert len([r for r in read_csv(tmp_path / "x" / "qk.csv") if (r["layer"], r["q_head"]) == (0, 0)]) == 8
    assert "dimensions" not in qkscope("pca", captures / "a", "-o", tmp_path / "y", expect=0).err  # 10 by default


def test_a_second_command_adds_its_tables(qkscope, captures, tmp_path):
    out = tmp_path / "out"
    qkscope("pca", captures / "a", "-o", out, expect=0)
    first = read_bytes(out, *PCA)
    qkscope("plasticity", captures / "a", "-o", out, expect=0)
    assert runs_of(out) == [(["pca"], PCA), (["plasticity"], PLASTICITY)]
    assert read_bytes(out, *PCA) == first
    commands = [run["command_line"] for run in read_json(out / "manifest.json")["runs"]]
    assert commands[0].startswith("qkscope pca ") and commands[1].startswith("qkscope plasticity ")


def test_who_writes_a_table_again_owns_it(qkscope, captures, tmp_path):
    out = tmp_path / "out"
    qkscope("analyze", captures / "a", "-o", out, "--complement", "--pairs", 2, expect=0)
    before = tables_of(out)
    qkscope("pca", captures / "a", "-o", out, "--components", 2, expect=0)
    assert runs_of(out) == [(["pca", "rotation", "plasticity"],
                             ["rotated.csv", "complement.csv", *PLASTICITY]), (["pca"], PCA)]
    after = tables_of(out)
    assert {n for n in after if after[n] != before[n]} == set(PCA)
    # the tables of an analysis go together
    qkscope("rotate", captures / "a", "-o", out, expect=0)
    assert runs_of(out)[0][1] == PLASTICITY and runs_of(out)[2] == (["rotation"], ["rotated.csv"])
    assert not (out / "complement.csv").exists()
    # a run without tables is gone; fits of single kinds stand beside the combined one
    qkscope("pca", captures / "a", "-o", out, "--kinds", "q", expect=0)
    qkscope("plasticity", captures / "a", "-o", out, expect=0)
    assert [tables for _, tables in runs_of(out)] == [
        PCA, ["rotated.csv"], ["correlations.csv", "summary.json"], PLASTICITY]


def test_another_selection_is_told(qkscope, captures, tmp_path):
    out = tmp_path / "out"
    qkscope("pca", captures / "a", "-o", out, expect=0)
    said = qkscope("rotate", captures / "a", "-o", out, "--layers", 1, expect=0)
    assert "qk.csv there, which stays, was made with other layers" in said.err
    assert len(read_csv(out / "heads.csv")) == 6 and len(read_csv(out / "rotated.csv")) == 2
    said = qkscope("analyze", captures / "a", "-o", out, "--layers", 1, "--force", expect=0)
    assert "stays" not in said.err


@pytest.mark.parametrize("options, words", [
    (["--model-name", "x"], "has the model name 'synth', and this run 'x'"),
    (["--q-per-kv-group", "1"], "group size 2, and this run 1")])
def test_what_tables_must_share(qkscope, captures, tmp_path, options, words):
    out = tmp_path / "out"
    qkscope("pca", captures / "a", "-o", out, "--model-name", "synth", expect=0)
    before = tables_of(out), read_json(out / "manifest.json")
    options = ["--model-name", "synth", *options]
    said = qkscope("rotate", captures / "a", "-o", out, *options, expect=1)
    assert words in said.err and "--force" in said.err
    assert (tables_of(out), read_json(out / "manifest.json")) == before
    assert qkscope("pca", captures / "a", "-o", out, *options).code in (0, 3)  # nothing stays


# ---- captures --------------------------------------------------------------------------------

@pytest.mark.parametrize("command", ["pca", "plasticity"])
def test_another_capture_is_refused(qkscope, captures, tmp_path, command):
    out = tmp_path / "out"
    qkscope("pca", captures / "a", "-o", out, expect=0)
    before = tables_of(out), read_json(out / "manifest.json")
    said = qkscope(command, captures / "b", "-o", out, expect=1)
    assert "another capture" in said.err and "--force" in said.err
    assert str(captures / "a") in said.err
    assert (tables_of(out), read_json(out / "manifest.json")) == before
    qkscope(command, captures / "b", "-o", out, "--force", expect=0)
    assert runs_of(out) == [([command], PCA if command == "pca" else PLASTICITY)]
    assert set(tables_of(out)) == set(runs_of(out)[0][1])


def test_what_the_same_capture_is(qkscope, captures, tmp_path):
    """Its files, not its place: a copy is the same, the same path with other files is not; one with
    more heads is; heads that were not read before do not matter."""
    out, first = tmp_path / "out", shutil.copytree(captures / "a", tmp_path / "a")
    (first / "capture.json").write_text(json.dumps(read_json(first / "capture.json") | {"heads": []}))  # more may come
    capture = shutil.copytree(first, tmp_path / "c")
    qkscope("pca", first, "-o", out, "--layers", "0", expect=0)
    qkscope("rotate", capture, "-o", out, "--layers", "1", expect=0)
    for kind in "qk":
        shutil.copytree(capture / f"l00h00{kind}", capture / f"l09h00{kind}")
    qkscope("rotate", capture, "-o", out, expect=0)
    other = capture / "l00h01q" / "data.parquet"
    shutil.copy(captures / "b" / "l00h01q" / "data.parquet", other)
    said = qkscope("plasticity", capture, "-o", out, expect=1)
    assert "l00h01q/data.parquet" in said.err
    other.unlink()
    other.parent.rmdir()
    qkscope("plasticity", capture, "-o", out, expect=1)


def test_same_sizes_other_bytes(qkscope, captures, tmp_path):
    """Found when the file is read, and nothing is written."""
    out, capture = tmp_path / "out", shutil.copytree(captures / "a", tmp_path / "c")
    qkscope("pca", capture, "-o", out, expect=0)
    before = tables_of(out), read_json(out / "manifest.json")
    changed = 0
    for head in ("l00h00k", "l02h01q"):  # the first of all files, and the last
        path = capture / head / "data.parquet"
        data = bytearray(path.read_bytes())
        at = data.rindex(b"parquet-cpp")  # "created by" in the footer
        data[at] ^= 1
        path.write_bytes(data)
        said = qkscope("plasticity", capture, "-o", out, expect=1)
        assert f"{head}/data.parquet" in said.err and "another capture" in said.err
        assert (tables_of(out), read_json(out / "manifest.json")) == before
        data[at] ^= 1
        path.write_bytes(data)
        changed += 1
    assert changed == 2


def test_tables_of_unknown_origin(qkscope, captures, tmp_path):
    out = tmp_path / "out"
    qkscope("pca", captures / "a", "-o", out, expect=0)
    (out / "manifest.json").unlink()
    said = qkscope("rotate", captures / "a", "-o", out, expect=1)
    assert "qk.csv" in said.err and "--force" in said.err
    qkscope("heads", out, expect=0)  # tables are enough to read
    qkscope("rotate", captures / "a", "-o", out, "--force", expect=0)
    assert set(tables_of(out)) == {"rotated.csv"}
    (out / "rotated.csv").unlink()
    (out / "manifest.json").write_text("mine")
    qkscope("rotate", captures / "a", "-o", out, expect=1)
    assert (out / "manifest.json").read_text() == "mine"


def test_a_manifest_of_one_run(qkscope, captures, tmp_path):
    """As version 0.1.0 wrote it: all tables there are its."""
    out = tmp_path / "out"
    qkscope("pca", captures / "a", "-o", out, expect=0)
    run = last_run(out)
    del run["tables"], run["contents"], run["num_layers"]
    (out / "manifest.json").write_text(json.dumps(run))
    qkscope("heads", out, expect=0)
    qkscope("pca", captures / "b", "-o", out, expect=1)
    qkscope("rotate", captures / "a", "-o", out, expect=0)
    assert [set(tables) for _, tables in runs_of(out)] == [set(PCA), {"rotated.csv"}]


def test_report_never_merges_two_captures(qkscope, captures, tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    qkscope("pca", captures / "a", "-o", a, expect=0)
    qkscope("rotate", captures / "b", "-o", b, expect=0)
    shutil.copy(b / "rotated.csv", a)
    said = qkscope("report", a, expect=1)
    assert "rotated.csv: no run in manifest.json wrote this table" in said.err
    manifest = read_json(a / "manifest.json")
    manifest["runs"].append(last_run(b))
    (a / "manifest.json").write_text(json.dumps(manifest))
    said = qkscope("report", a, expect=1)
    assert "two captures" in said.err and "l00h00" in said.err
    assert not (a / "report.html").exists() and not (a / "figures").exists()


# ---- tables that changed ---------------------------------------------------------------------

def cut(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(True)[:-1]))


def keep_header(path):
    path.write_bytes(path.read_bytes().splitlines(True)[0])


def rename_column(path):
    path.write_bytes(path.read_bytes().replace(b"k_head", b"k_haed", 1))  # as long as before


def change_digit(path):
    path.write_bytes(path.read_bytes()[:-2] + b"%d\n" % (path.read_bytes()[-2] % 2))


def print_of(path):
    data = path.read_bytes()
    return {"bytes": len(data), "xxh3_128": pytest.importorskip("xxhash").xxh3_128_hexdigest(data)}


def test_the_manifest_tells_what_is_in_tables(qkscope, captures, tmp_path):
    """Of those that each run owns; xxhash for Python counts the same."""
    out = tmp_path / "out"
    qkscope("analyze", captures / "a", "-o", out, expect=0)
    qkscope("pca", captures / "a", "-o", out, "--components", 2, expect=0)
    first, last = read_json(out / "manifest.json")["runs"]
    assert first["contents"] == {name: print_of(out / name) for name in first["tables"]}
    files = [*last["tables"], "schema.json"]
    assert last["contents"] == {name: print_of(out / name) for name in files}


@pytest.mark.cases(5)
@pytest.mark.parametrize("table, change", [("heads.csv", cut), ("rotated.csv", keep_header), ("heads.csv", rename_column),
                                           ("head_metrics.csv", change_digit), ("model_report.csv", os.unlink)])
def test_tables_that_changed_are_refused(qkscope, captures, tmp_path, table, change):
    out = tmp_path / "out"
    qkscope("analyze", captures / "a", "-o", out, expect=0)
    change(out / table)
    said = qkscope("report", out, expect=1)
    words = "is missing" if change is os.unlink else "is not as it was written"
    assert f"{out}/{table} {words}; run the analysis again" in said.err
    assert "--force" in said.err and not (out / "report.html").exists() and not (out / "figures").exists()


@pytest.mark.test_all
def test_a_report_of_changed_tables_says_so(qkscope, captures, tmp_path):
    out, words = tmp_path / "out", "qk.csv is not as it was written"
    qkscope("analyze", captures / "a", "-o", out, expect=0)
    cut(out / "qk.csv")
    said = qkscope("report", out, "--format", "svg", "--force", "--json", expect=0)
    assert f"warning: {out}/{words}" in said.err and json.loads(said.out)["changed"] == [words]
    changed = lambda: json.loads(re.search(r'id="qk-said">(.*?)</script>', (out / "report.html").read_text(), re.S)[1])["changed"]
    assert changed() == [words]
    qkscope("analyze", captures / "a", "-o", out, expect=0)  # the remedy
    said = qkscope("report", out, "--format", "svg", "--json", expect=0)
    assert said.err == "" and json.loads(said.out)["changed"] == []
    assert changed() == []


def test_a_manifest_that_cannot_be_read(qkscope, unprivileged, captures, tmp_path):
    """It is not taken for none, by whoever would read the tables or replace them; not with --force either."""
    out, capture = tmp_path / "out", captures / "a"
    qkscope("pca", capture, "-o", out, expect=0)
    shutil.copytree(out, tmp_path / "other")
    cut(out / "heads.csv")
    (out / "manifest.json").chmod(0)
    model, page = ROOT / "examples/kjv-tiny/step-20", tmp_path / "page"
    for words in (["heads", out], ["heads", out, "--force"], ["report", out, "-o", page], ["report", out, "--force", "-o", page],
                  ["compare", out, tmp_path / "other", "-o", tmp_path / "c"], ["compare", tmp_path / "other", out, "--force", "-o",
                  tmp_path / "c"], ["pca", capture, "-o", out], ["pca", capture, "--force", "-o", out],
                  ["ablate", "-m", model, "-t", "repeat:8x2:2", "--heads", "0:0", "--force", "-o", out],
                  ["merge", out, tmp_path / "other", "-o", tmp_path / "c"]):
        said = unprivileged(*words, expect=1).err
        assert f"{out}/manifest.json: cannot open" in said and "make it readable" in said, words
    assert not page.exists()
    (out / "manifest.json").unlink()
    (out / "manifest.json").mkdir()
    assert "manifest.json: is a folder" in qkscope("heads", out, expect=1).err


def test_tables_of_a_study_that_changed(qkscope, captures, tmp_path):
    (tmp_path / "s.yaml").write_text(f"models: [{{name: a, source: {captures / 'a'}}}]\n"
                                     "analyses: [pca]\n")
    out = tmp_path / "out"
    study = ["study", tmp_path / "s.yaml", "-o", out, "--no-figures", "--json"]
    qkscope(*study, expect=0)
    manifest = read_json(out / "manifest.json")
    files = [*manifest["tables"], "schema.json"]
    assert manifest["contents"] == {name: print_of(out / name) for name in files}
    whole = tables_of(out)
    for table in ("qk.csv", "models.csv"):
        cut(out / table)
        said = qkscope("report", out, "--no-html", "--format", "svg", expect=1)
        assert f"{out}/{table} is not as it was written" in said.err
        said = qkscope(*study, expect=0)  # written again, from kept results
        assert json.loads(said.out)["models"][0]["state"] == "kept" and tables_of(out) == whole
    cut(out / "models" / "a" / "qk.csv")
    model = json.loads(qkscope(*study, expect=0).out)["models"][0]
    assert model["state"] == "computed" and model["message"] == "qk.csv is not as it was written"
    assert tables_of(out) == whole


def test_the_folder_of_a_study(qkscope, captures, tmp_path):
    (tmp_path / "s.yaml").write_text(f"models: [{{name: a, source: {captures / 'a'}}}]\n"
                                     "analyses: [pca]\n")
    out = tmp_path / "out"
    qkscope("study", tmp_path / "s.yaml", "-o", out, "--no-figures", expect=0)
    for force in ([], ["--force"]):
        said = qkscope("pca", captures / "a", "-o", out, *force, expect=1)
        assert "folder of a study" in said.err
    # another command in a model's folder: the study makes it anew
    qkscope("rotate", captures / "a", "-o", out / "models" / "a", "--model-name", "a", expect=0)
    said = qkscope("study", tmp_path / "s.yaml", "-o", out, "--no-figures", "--json", expect=0)
    assert "another command wrote" in json.loads(said.out)["models"][0]["message"]
    assert set(tables_of(out / "models" / "a")) == set(PCA)


# ---- depth -----------------------------------------------------------------------------------

def test_depth_is_of_the_model(qkscope, tmp_path):
    """Layer 2 of 5 is half way, however few layers are looked at."""
    said = qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--layers", 2, "--json", expect=0)
    by_depth = json.loads(said.out)["mean_r_q_by_depth"]
    assert [i for i, r in enumerate(by_depth) if r is not None] == [5]
    assert last_run(tmp_path / "out")["num_layers"] == 5
    capture = shutil.copytree(EXAMPLE, tmp_path / "c")
    info = read_json(capture / "capture.json")
    (capture / "capture.json").write_text(json.dumps(info | {"num_layers": 21}))
    said = qkscope("pca", capture, "-o", tmp_path / "out", "--layers", "2,4", "--json", expect=0)
    by_depth = json.loads(said.out)["mean_r_q_by_depth"]
    assert [i for i, r in enumerate(by_depth) if r is not None] == [1, 2]


# ---- what lies in the folder (one run at a time, full disks: tests/work) --------------------------

COMMANDS = ["analyze", "report", "pca"]  # in `make test` the first and the last


def arguments(command, captures, out):
    return [command, out] if command == "report" else [command, captures / "a", "-o", out]


@pytest.mark.parametrize("command", COMMANDS)
def test_leftovers_are_swept(qkscope, captures, tmp_path, command):
    """Of killed runs; not what only looks like it, as an editor's swap files do, and not where links lead."""
    out = tmp_path / "out"
    qkscope("analyze", captures / "a", "-o", out, expect=0)
    (out / "figures" / ".pca-01.qkscope-ab12CD").mkdir(parents=True)
    (out / "figures" / ".pca-01.qkscope-ab12CD" / "pca-01.gp").write_text("x")
    (out / "figures" / ".report.qkscope-ab12CD" / ".pca-02.qkscope-12345x").mkdir(parents=True)
    (out / "figures" / ".report.qkscope-ab12CD" / ".pca-02.qkscope-12345x" / "pca-02.png").write_text("x")
    (out / "qk.csv.tmp-qkscope-12-0").write_text("x")
    (out / "figures" / "pca-01.dat.tmp-qkscope-12-0").write_text("x")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("x")
    kept = [out / "notes.tmp-x-1", out / "plots.tmp-2026-11" / "a", out / ".hidden.qkscope-abcdef", tmp_path / "mine" / "a",
            *(out / "figures" / name for name in ("mine.png", ".rotation.gp.swp", ".README.md.swp", ".my.backup/thesis.tex", ".x.123456",
                                                  "a.tmp-2026-11/b", ".qkscope-abcdef"))]
    for path in kept:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (out / "figures" / ".link.qkscope-abcdef").symlink_to(tmp_path / "mine")
    qkscope(*arguments(command, captures, out), expect=0)
    assert all(path.read_text() == "x" for path in kept)
    left = [p.name for p in out.rglob("*")
            if ".tmp-qk" in p.name or p.name.startswith((".pca", ".report"))]
    assert left == []


# ---- folders that cannot be written ----------------------------------------------------------

def test_nothing_is_left_of_a_run_that_fails(qkscope, captures, tmp_path):
    qkscope("pca", captures / "a", "-o", tmp_path / "x" / "y" / "out", "--layers", 99, expect=1)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "results").mkdir()
    qkscope("report", tmp_path / "results", "-o", tmp_path / "page", expect=1)
    assert [p.name for p in tmp_path.iterdir()] == ["results"]


READ_ONLY = """
mount -t tmpfs tmpfs "$0" || exit 77
cp -r "$1" "$0/out"
mount -o remount,ro "$0" || exit 77
shift
"$@"
code=$?
ls -A "$3" > /dev/null
exit $code
"""


@pytest.mark.test_all
@pytest.mark.parametrize("command", ["analyze", "report"])
def test_read_only(program, qkscope, captures, tmp_path, command):
    """Refused before the work; root, too. A report into another folder is fine."""
    qkscope("analyze", captures / "a", "-o", tmp_path / "old", expect=0)
    disk = tmp_path / "disk"
    disk.mkdir()
    words = list(map(str, arguments(command, captures, disk / "out")))
    start = ["unshare", "-rm", "sh", "-c", READ_ONLY, disk, tmp_path / "old", program]
    done = subprocess.run([*start, *words], capture_output=True, text=True, env=environment())
    if done.returncode in (77, 127) or "unshare" in done.stderr:
        pytest.skip("no file system may be mounted here")
    assert done.returncode == 1 and "Read-only file system" in done.stderr
    assert str(disk / "out") in done.stderr
    if command == "report":
        done = subprocess.run([*start, *words, "-o", tmp_path / "page", "--quiet"],
                              capture_output=True, text=True, env=environment())
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "page" / "report.html").exists()
