# SPDX-License-Identifier: Apache-2.0
"""The command line: usage errors, JSON, names, the manifest, standard output, and configurations of the original
tool."""
import csv
import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest
from conftest import (BUILD, EXAMPLE, Outcome, environment, head_name, last_run, read_bytes,
                      read_csv, read_json, write_head)

pytest.importorskip("pyarrow")

TABLES = ("qk.csv", "heads.csv")
LAYER = ["--layers", 0]


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    out = tmp_path_factory.mktemp("results")
    qkscope("pca", EXAMPLE, *LAYER, "-o", out, expect=0)
    return out


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One query and one key head."""
    root = tmp_path_factory.mktemp("small")
    rng = np.random.default_rng(1)
    for kind in "qk":
        x = rng.standard_normal((50, 4)).astype(np.float32)
        write_head(root, head_name(0, 0, kind), x, np.arange(50))
    return root


# ---- usage errors ----------------------------------------------------------------------------

C, O = str(EXAMPLE), "-o"
USAGE = {
    "no capture": (["-o", "out"], "CAPTURE|capture"),
    "no output": ([C], "-o DIR"),
    "unknown option": ([C, O, "out", "--colour"], "--colour"),
    "missing value": ([C, O, "out", "--layers"], "--layers needs a value"),
    "two captures": ([C, C, O, "out"], "unexpected argument"),
    "flag with a value": ([C, O, "out", "--lda=yes"], "--lda"),
    "list of words": ([C, O, "out", "--layers", "one"], "--layers one"),
    "kinds": ([C, O, "out", "--kinds", "v"], "q or k, or several with commas"),
    "no components": ([C, O, "out", "--components", "0"], "from 1 to 4096"),
    "huge seed": ([C, O, "out", "--seed", "9" * 30], "--seed"),
    "threshold nan": ([C, O, "out", "--threshold", "nan"], "--threshold nan"),
    "thresholds crossed": ([C, O, "out", "--taxonomy-low", "0.8"], "taxonomy-low: 0.8 is above 0.7"),
    "an option as folder": ([C, O, "--json"], r"--output --json: .* \./--json"),
    "an option as file": ([C, O, "out", "--config", "--json"], r"--config --json: .* \./--json"),
    "a share": ([C, O, "out", "--ci", "0.95"], "did you mean 95"),
}


@pytest.mark.cases(20)
@pytest.mark.parametrize("case", USAGE)
def test_usage_errors(qkscope, tmp_path, case):
    arguments, words = USAGE[case]
    result = qkscope("pca", *arguments, cwd=tmp_path, expect=2)
    assert result.out == ""
    assert re.search(words, result.err) and result.err.startswith("qkscope pca: "), result.err
    assert list(tmp_path.iterdir()) == []


def test_folders_named_like_options(qkscope, tmp_path):
    qkscope("pca", EXAMPLE, *LAYER, "-o", "./--json", cwd=tmp_path, expect=0)
    assert (tmp_path / "--json" / "qk.csv").exists()


CHOSEN = [  # of a model with 16 query and 4 key heads: as keys follow from queries, and with all keys
    ["l00h00q", "l00h03q", "l00h05q", "l00h00k", "l00h01k"],
    ["l00h03q", "l00h05q", "l01h09q", "l02h07q", *(f"l{layer:02d}h{key:02d}k" for layer in range(3) for key in range(4))]]


def write_chosen(capture, heads):
    random = np.random.default_rng(3)
    for head in heads:
        write_head(capture, head, random.standard_normal((80, 4)).astype("f4"), np.tile(np.arange(20), 4))
    return capture


def test_a_group_size_that_contradicts_the_capture(qkscope, tmp_path):
    """Also where it fits the heads that are there."""
    capture = write_chosen(tmp_path / "c", CHOSEN[0])
    (capture / "capture.json").write_text('{"q_per_kv_group": 4}')
    for given, words in ((3, "group size 3 contradicts capture.json, which says 4"), (2, "group size 2 does not fit the heads")):
        arguments = ["pca", capture, "-o", tmp_path / "out", "--q-per-kv-group", given, "--force"]
        assert words in qkscope(*arguments, "--allow-missing").err
        assert words in qkscope(*arguments, "--strict", expect=1).err
    for more in ([], ["--q-per-kv-group", 4]):
        assert "group size" not in qkscope("pca", capture, "-o", tmp_path / "out", "--strict", "--force", *more, expect=0).err


@pytest.mark.cases(2)
@pytest.mark.parametrize("heads", CHOSEN)
def test_a_group_size_that_is_a_guess(qkscope, tmp_path, heads):
    """Chosen heads without capture.json do not tell it: that is said, in the manifest and on the page too, and --strict refuses."""
    capture = write_chosen(tmp_path / "c", heads)
    guess = qkscope("pca", capture, "-o", tmp_path / "guess", expect=0).err
    assert "group size 3 is a guess" in guess and ", 4 among them" in guess and "--q-per-kv-group" in guess
    run = last_run(tmp_path / "guess")
    assert run["group"]["source"] == "inferred" and run["group"]["num_consistent"] > 1
    assert any("group size 3 is a guess" in warning for warning in run["warnings"])
    assert "group size 3 is a guess" in qkscope("pca", capture, "-o", tmp_path / "no", "--strict", expect=1).err
    assert not (tmp_path / "no").exists()
    assert "a guess: 4 fits too" in qkscope("inspect", capture, expect=0).out
    given = qkscope("pca", capture, "-o", tmp_path / "out", "--q-per-kv-group", 4, "--strict", expect=0).err
    assert "group size" not in given
    assert {int(r["k_head"]) == int(r["q_head"]) // 4 for r in read_csv(tmp_path / "out" / "qk.csv")} == {True}


@pytest.mark.cases(2)
@pytest.mark.parametrize("queries, keys", [(14, 2), (28, 4)])
def test_all_heads_tell_the_group_size(qkscope, tmp_path, queries, keys):
    """As in published captures without capture.json: 14 to 2 is 7, though of 8 to 13 the last head would have the last key, too."""
    write_chosen(tmp_path / "c", [f"l00h{h:02d}q" for h in range(queries)] + [f"l00h{h:02d}k" for h in range(keys)])
    qkscope("pca", tmp_path / "c", "-o", tmp_path / "out", "--strict", expect=0)
    group = last_run(tmp_path / "out")["group"]
    assert group == {"q_per_kv_group": 7, "source": "inferred", "consistent": True, "num_consistent": 1}


def test_pairs_ask_for_the_complement(qkscope, tmp_path):
    qkscope("rotate", EXAMPLE, "-o", tmp_path, "--pairs", 3, *LAYER, expect=0)
    assert {row["pair"] for row in read_csv(tmp_path / "complement.csv")} == {0, 1, 2}


def test_shortened_option_is_no_trap(qkscope, tmp_path):
    """A unique beginning of an option means that option, in full."""
    config = tmp_path / "c.yaml"
    config.write_text(f"data: {{dataset_name: {json.dumps(C)}}}\npca: {{n_components: 2}}\n")
    result = qkscope("pca", EXAMPLE, "--conf", config, "-o", tmp_path / "out", "--combined",
                     *LAYER, expect=0)
    assert result.err == ""
    assert {row["pc"] for row in read_csv(tmp_path / "out" / "qk.csv")} == {0, 1}
    twice = qkscope("pca", "--conf", config, "-o", tmp_path / "out", "--config", config, expect=2)
    assert "give --config once" in twice.err


def test_no_match(qkscope, tmp_path):
    result = qkscope("pca", EXAMPLE, "-o", tmp_path / "out", "--layers", "17", expect=1)
    assert "layer" in result.err and "up to 4" in result.err
    assert not (tmp_path / "out").exists()


# ---- JSON and text ---------------------------------------------------------------------------

def test_json_agrees_with_the_tables(qkscope, results, tmp_path):
    result = qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path, "--json", expect=0)
    assert result.err == ""
    said, heads = json.loads(result.out), read_csv(tmp_path / "heads.csv")
    assert said["output"] == str(tmp_path) and said["model"] == heads[0]["model"]
    assert said["heads"] == len(heads) == 4 and said["failures"] == []
    counts = {}
    for head in heads:
        counts[head["category"]] = counts.get(head["category"], 0) + 1
    assert {c: n for c, n in said["categories"].items() if n} == counts
    assert sum(said["categories"].values()) == 4 and len(said["categories"]) == 5
    assert (said["q_per_kv_group"], said["q_per_kv_group_source"]) == (2, "from capture.json")
    assert said["rows"] == last_run(tmp_path)["rows"]
    assert read_bytes(tmp_path, *TABLES) == read_bytes(results, *TABLES)


def test_json_of_failures(qkscope, small, tmp_path):
    capture = shutil.copytree(small, tmp_path / "c")
    write_head(capture, "l00h01q", np.ones((5, 3), np.float32), np.arange(5))
    result = qkscope("pca", capture, "-o", tmp_path / "out", "--json", expect=3)
    said = json.loads(result.out)
    assert [f["head"] for f in said["failures"]] == ["l00h01q"]
    assert "l00h01q" in said["failures"][0]["message"]
    assert said["heads"] == 2 and sum(said["categories"].values()) == 1


def test_json_of_single_kinds(qkscope, tmp_path):
    said = json.loads(qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path, "--kinds", "q", "--json",
                              expect=0).out)
    assert said["combined"] is False and said["heads"] == 4 and "categories" not in said


# ---- tables ----------------------------------------------------------------------------------

QK = ("model,layer,q_head,k_head,pc,explained_variance,r_q,r_k,p_q,p_k,mu_q,mu_k,alpha,beta,"
      "sd_q,sd_k,n_q,n_k")
HEADS = ("model", "layer", "q_head", "k_head", "category", "ev0", "pos_var_q", "pos_var_k",
         "pos_var_q_pc0_share", "lin_var_q", "lin_var_k", "positional_overhead", "separation",
         "fisher", "lda_accuracy", "mu_q_beta", "alpha_beta")


def test_headers_and_numbers(results):
    assert (results / "qk.csv").read_text().startswith(QK + "\n")
    heads = (results / "heads.csv").read_text().splitlines()
    assert set(HEADS) <= set(heads[0].split(","))
    for name in TABLES:
        text = (results / name).read_text()
        assert text.endswith("\n") and "\r" not in text and "nan" not in text
        for row in csv.reader(text.splitlines()[1:]):
            for field in row[4:]:
                try:
                    value = float(field)
                except ValueError:
                    continue
                # as few digits as give the same number back
                assert len(field.strip("-").replace(".", "").split("e")[0].strip("0")) <= 17
                assert len(field) <= len(repr(value)) + 2


def test_lda_only_when_asked_for(qkscope, results, tmp_path):
    assert {row["lda_accuracy"] for row in read_csv(results / "heads.csv")} == {None}
    qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path, "--lda", expect=0)
    assert all(0 <= row["lda_accuracy"] <= 1 for row in read_csv(tmp_path / "heads.csv"))
    assert (tmp_path / "qk.csv").read_bytes() == (results / "qk.csv").read_bytes()


def test_taxonomy_thresholds(qkscope, tmp_path):
    oracle = pytest.importorskip("pca_oracle")
    for low, high in ((0.05, 0.1), (0.2, 0.2)):
        qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path, "--taxonomy-low", low, "--taxonomy-high", high,
                expect=0)
        first = {(r["layer"], r["q_head"]): r for r in read_csv(tmp_path / "qk.csv")
                 if r["pc"] == 0}
        for head in read_csv(tmp_path / "heads.csv"):
            row = first[head["layer"], head["q_head"]]
            assert head["category"] == oracle.category(row["r_q"], row["r_k"], low, high)


# ---- names -----------------------------------------------------------------------------------

NAMES = ['a "quoted" one, with %s', "naïve-模型-🙂", "back\\slash;$HOME", "-dash", "it's a line\nbreak"]


@pytest.mark.parametrize("name", NAMES)
def test_folder_names(qkscope, small, tmp_path, name):
    capture = shutil.copytree(small, tmp_path / name / "capture")
    out = tmp_path / name / f"results {name}"
    said = json.loads(qkscope("pca", capture, "-o", out, "--json", expect=0).out)
    assert said["output"] == str(out) and said["capture"] == str(capture)
    assert sorted(p.name for p in out.iterdir()) == ["heads.csv", "manifest.json", "qk.csv",
                                                     "schema.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == [name]
    assert sorted(p.name for p in (tmp_path / name).iterdir()) == ["capture", out.name]
    assert last_run(out)["capture"] == str(capture)


def test_folder_name_that_is_no_utf8(qkscope, small, tmp_path):
    name = os.fsencode(tmp_path) + b"/latin1-\xe9"
    shutil.copytree(os.fsencode(small), name)
    result = qkscope("pca", name, "-o", name + b"-out", "--json", expect=0)
    assert json.loads(result.out)["heads"] == 1
    assert json.loads(open(name + b"-out/manifest.json").read())["runs"][0]["heads"] == 1


@pytest.mark.parametrize("name", [*NAMES, "", '"', " carriage\rreturn"])
def test_model_names(qkscope, small, tmp_path, name):
    """What csv reads back is what was given."""
    said = qkscope("pca", small, "-o", tmp_path, "--model-name", name, "--json", expect=0)
    assert json.loads(said.out)["model"] == name
    for table in TABLES:
        with open(tmp_path / table, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert rows and all(row["model"] == name for row in rows)
    assert last_run(tmp_path)["model"] == name


# ---- the manifest ----------------------------------------------------------------------------

def test_manifest(qkscope, tmp_path):
    version = qkscope("--version", expect=0).out.split()[1]
    out = tmp_path / "it's here"
    qkscope("pca", EXAMPLE, "-o", out, "--threads", 2, "--layers", "1-2", "--heads", "0,3",
            "--seed", 5, expect=0)
    manifest = last_run(out)
    assert manifest["qkscope"] == version
    words = subprocess.run(["sh", "-c", f"printf '%s\\n' {manifest['command_line']}"],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    assert words == ["qkscope", "pca", str(EXAMPLE), "-o", str(out), "--threads", "2",
                     "--layers", "1-2", "--heads", "0,3", "--seed", "5"]
    assert manifest["capture"] == str(EXAMPLE) and manifest["model"] == "kjv-tiny step-2004"
    assert manifest["threads"] == 2 and manifest["settings"]["seed"] == 5
    assert manifest["settings"]["layers"] == [1, 2] and manifest["settings"]["heads"] == [0, 3]
    assert manifest["group"] == {"q_per_kv_group": 2, "source": "capture.json",
                                 "consistent": True, "num_consistent": 1}
    assert manifest["heads"] == 4 and manifest["heads_without_numbers"] == 0
    assert all(seconds >= 0 for seconds in manifest["seconds"].values())
    inputs = {f"l{layer:02d}h{head:02d}{kind}/data.parquet" for layer in (1, 2)
              for head, kind in ((0, "q"), (3, "q"), (0, "k"), (1, "k"))}
    assert {i["file"] for i in manifest["inputs"]} == inputs
    for entry in manifest["inputs"]:
        assert entry["bytes"] == (EXAMPLE / entry["file"]).stat().st_size
        assert re.fullmatch(r"[0-9a-f]{32}", entry["xxh3_128"])


def test_hashes(results):
    xxhash = pytest.importorskip("xxhash")
    for entry in last_run(results)["inputs"]:
        content = (EXAMPLE / entry["file"]).read_bytes()
        assert entry["xxh3_128"] == xxhash.xxh3_128_hexdigest(content)


# ---- where things go -------------------------------------------------------------------------

def test_files_only_in_dir(qkscope, small, tmp_path):
    capture = shutil.copytree(small, tmp_path / "c")
    work, home, temporary = (tmp_path / name for name in ("work", "home", "temporary"))
    for folder in (work, home, temporary):
        folder.mkdir()
    before = sorted(capture.rglob("*"))
    for kinds in ([], ["--kinds", "q,k"]):
        qkscope("pca", capture, "-o", work / "a" / "b", "--lda", *kinds, cwd=work, expect=0,
                env={"HOME": home, "TMPDIR": temporary, "XDG_CACHE_HOME": home})
    assert sorted(p.name for p in (work / "a" / "b").iterdir()) == [
        "correlations.csv", "heads.csv", "manifest.json", "qk.csv", "schema.json", "summary.json"]
    assert list(home.iterdir()) == list(temporary.iterdir()) == []
    assert [p.name for p in work.iterdir()] == ["a"] and sorted(capture.rglob("*")) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c", "home", "temporary", "work"]


def test_results_follow_umask(qkscope, small, tmp_path):
    qkscope("pca", small, "-o", tmp_path / "out", expect=0, preexec_fn=lambda: os.umask(0o027))
    for path in [tmp_path / "out", *(tmp_path / "out").iterdir()]:
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640)


# ---- standard output -------------------------------------------------------------------------

def shell(program, tail, *arguments):
    done = subprocess.run(["sh", "-c", f'"$@" {tail}', "sh", program, *map(str, arguments)],
                          capture_output=True, text=True, env=environment(), timeout=600)
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("arguments", [["--help"], ["pca", "--version"], ["inspect", EXAMPLE, "--json"]])
def test_no_standard_output(program, arguments):
    for tail in (">&-", "> /dev/full"):
        result = shell(program, tail, *arguments)
        assert result.code == 1 and "standard output" in result.err, result


@pytest.mark.parametrize("tail, more", [(">&-", []), (">&-", ["--json"]), ("> /dev/full", ["--kinds", "q"])])
def test_no_standard_output_of_pca(program, small, tmp_path, more, tail):
    """Also: file descriptor 1, free, is not taken for a table."""
    result = shell(program, tail, "pca", small, "-o", tmp_path, *more)
    assert result.code == 1 and "standard output" in result.err, result
    assert (tmp_path / "manifest.json").exists()
    assert "heads, " not in "".join(p.read_text() for p in tmp_path.glob("*.csv"))


def test_closed_descriptors_do_not_mix_output(program, small, results, tmp_path):
    """Messages must not end up in a file that got the number of a closed standard stream."""
    shell(program, "<&- >&- 2>&-", "pca", small, "-o", tmp_path / "a", "--verbose")
    shell(program, "", "pca", small, "-o", tmp_path / "b")
    assert read_bytes(tmp_path / "a", *TABLES) == read_bytes(tmp_path / "b", *TABLES)
    read_json(tmp_path / "a" / "manifest.json")


def test_reader_goes_away(program, tmp_path):
    result = shell(program, "| head -n 1", "pca", "--help")
    assert result.out.startswith("Usage:") and result.err == ""


# ---- configurations of the original tool -----------------------------------------------------

CONFIG = """\
# as published, one model of a collection
data:
  dataset_name: {dataset}
  split: null
  kinds: [q, k]
  layers: [0]
  heads: null
  max_samples: {rows}
  sample_heads: {heads}
  seed: 0
  q_per_kv_group: 2
pca:
  n_components: 5
  backend: sklearn
analysis:
  correlation_threshold: 0.25
  combined: {combined}
  parallel:
    enabled: true
    max_workers: 2
    backend: process
output:
  results_dir: {out}
device: cuda
"""


def write_config(folder, combined, rows="null", heads="null"):
    out = folder / "from config"
    text = CONFIG.format(dataset=json.dumps(str(EXAMPLE)), out=json.dumps(str(out)), rows=rows,
                         heads=heads, combined=str(combined).lower())
    (folder / "config.yaml").write_text(text)
    return folder / "config.yaml", out


@pytest.fixture(scope="module")
def pca_analyze(tmp_path_factory):
    link = tmp_path_factory.mktemp("bin") / "pca-analyze"
    link.symlink_to(BUILD / "qkscope")
    return link


def test_an_alias_calls_itself_by_its_name(qkscope, pca_analyze):
    assert qkscope("--help", executable=pca_analyze, expect=0).out.startswith("Usage: pca-analyze CAPTURE")
    said = qkscope("pca-analyze", "--colour", expect=2).err
    assert said.startswith("qkscope pca-analyze: there is no") and "Try 'qkscope pca-analyze --help'" in said


@pytest.mark.parametrize("form, combined", [("link", True), ("command", True), ("pca", False)])
def test_config(qkscope, pca_analyze, tmp_path, form, combined):
    config, out = write_config(tmp_path, combined)
    if form == "link":
        result = qkscope("--config", config, executable=pca_analyze, expect=0)
    else:
        result = qkscope({"command": "pca-analyze", "pca": "pca"}[form], f"--config={config}",
                         expect=0)
    assert "sklearn" in result.err and "cuda" in result.err  # notes: no effect here
    options = ["--q-per-kv-group", 2, "--components", 5, "--threshold", 0.25]
    options += [] if combined else ["--kinds", "q,k"]
    qkscope("pca", EXAMPLE, *LAYER, "-o", tmp_path / "options", *options, expect=0)
    names = TABLES if combined else ("correlations.csv", "summary.json")
    for name in names:
        if name == "summary.json":  # says what the file asked for, and when
            here, there = (read_json(folder / name) for folder in (out, tmp_path / "options"))
            assert (here.pop("device"), there.pop("device")) == ("cuda", "auto")
            assert here.pop("timestamp") <= there.pop("timestamp") and here == there
        else:
            assert (out / name).read_bytes() == (tmp_path / "options" / name).read_bytes()
    assert sorted(p.name for p in out.iterdir()) == sorted([*names, "manifest.json", "schema.json"])


def test_options_override_the_config(qkscope, tmp_path):
    config, out = write_config(tmp_path, combined=False, rows=50, heads=3)
    qkscope("pca", "--config", config, "-o", tmp_path / "o", "--combined", "--components", 2,
            "--max-samples", 70, "--sample-heads", 2, expect=0)
    rows = read_csv(tmp_path / "o" / "qk.csv")
    assert {row["n_q"] for row in rows} == {70} and {row["pc"] for row in rows} == {0, 1}
    assert len({(row["layer"], row["q_head"]) for row in rows}) == 2
    assert not out.exists()


def test_config_variables(qkscope, tmp_path):
    config, out = write_config(tmp_path, combined=True)
    config.write_text(config.read_text().replace(json.dumps(str(EXAMPLE)), "${CAPTURES}/here"))
    (tmp_path / "here").symlink_to(EXAMPLE)
    qkscope("pca", "--config", config, env={"CAPTURES": tmp_path}, expect=0)
    assert (out / "qk.csv").exists()


@pytest.mark.cases(7)
@pytest.mark.parametrize("line,words", [
    ("pca: {n_component: 5}", "n_component"), ("pca: {n_components: many}", "n_components"),
    ("data: [", "line"), ("output: results", "output"), ("data: {kinds: [v]}", "kinds"), ("\0\1\2", ""),
    ("- a\n- b", "keys and values"),
])
def test_bad_config(qkscope, tmp_path, line, words):
    config = tmp_path / "config.yaml"
    config.write_text(line + "\n")
    result = qkscope("pca", "--config", config, "-o", tmp_path / "out")
    assert result.code in (1, 2) and str(config) in result.err and words in result.err, result
    assert not (tmp_path / "out").exists()
