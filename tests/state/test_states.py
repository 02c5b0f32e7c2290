# SPDX-License-Identifier: Apache-2.0
"""Analyses of captures of moments beside those of the rows that these were made from (make_state.py, without the
library). `pytest -s` prints the worst deviation of every column."""
import csv
import json
import math
import re
import shutil
import sys

import numpy as np
import pytest
from conftest import EXAMPLE, ROOT, head_name, read_bytes, read_csv, read_json, synth, write_rows

sys.path.append(str(ROOT / "tests" / "report"))
from report_pages import failing_gnuplot, findings, headlines, page_of, plain  # noqa: E402

make_state = pytest.importorskip("make_state")

EVERYTHING = 10 ** 6  # rows of a bucket and text: all there are
EXACT = 1e-10
# Rounding is all there is of one, and p-values turn a deviation of r into a relative one of many orders.
LOOSE = {"residual_pos_r": None, "p_q": 1e-6, "p_k": 1e-6, "q_resid0_ks_p": 1e-6, "q_noise_med_ks_p": 1e-6}
EMPTY = {"rotated.csv": ["omega", "omega_r_squared"], "heads.csv": ["lda_accuracy"]}
MOMENTS = ["qk.csv", "heads.csv", "rotated.csv"]
PLASTICITY = ["head_metrics.csv", "head_profile.csv", "head_bucket_plasticity.csv", "head_distance.csv",
              "head_component_weights.csv", "model_report.csv"]
SYNTHETIC = 40


def synthetic(qkscope, folder, number):
    """A small capture whose every property is drawn."""
    rng = np.random.default_rng(number)
    draw = {"examples": int(rng.integers(2, 40)), "rows": int(rng.integers(12, 120)),
            "buckets": int(rng.choice([2, 4, 8, 16])), "dim": int(rng.choice([2, 3, 8, 12, 33])),
            "layers": int(rng.integers(1, 3)), "q_per_kv_group": int(rng.choice([1, 2])), "seed": number,
            "query_heads": 2, "position_offset": int(rng.choice([0, 100000])),
            "mean_offset": float(rng.choice([0, 3, 1000])), "sliding_window": int(rng.choice([0, 300]))}
    draw["rope_planes"] = 0 if draw["dim"] < 8 else 1
    if draw["sliding_window"] == 0:
        del draw["sliding_window"]
    synth(qkscope, folder, **draw)
    return folder


def compare(title, table, rows, expected, limit=EXACT, skip=()):
    """Every column of every row; deviations are relative to the number, or to a thousandth of the largest of its
    column where that is more: a mean along an axis may be what is left of large numbers."""
    assert len(rows) == len(expected), (title, table)
    worst = {}
    for column in expected[0] if expected else []:
        numbers = [abs(r[column]) for r in expected if isinstance(r[column], float)]
        # Far out, a probability of 1e-20 follows r by many orders.
        scale = 1 if column.startswith("probability_") else 1e-3 * max(numbers, default=0)
        most = LOOSE.get(column, limit)
        for i, (row, want) in enumerate(zip(rows, expected)):
            place = (title, table, column, i, row[column], want[column])
            if column in EMPTY.get(table, []):
                assert row[column] is None, place
            elif column in skip or most is None:
                continue
            elif not isinstance(want[column], float) or row[column] is None:
                assert row[column] == want[column], place
            else:
                deviation = abs(row[column] - want[column]) / max(abs(want[column]), scale, 1e-300)
                assert deviation <= most or row[column] == want[column], place
                worst[column] = max(worst.get(column, 0), deviation)
    return worst


def show(title, worst):
    print(f"\n{title}: " + ", ".join(f"{c} {w:.0e}" for c, w in sorted(worst.items(), key=lambda x: -x[1])[:4]))


def analyze(qkscope, capture, out, *more, command="analyze"):
    return qkscope(command, capture, "-o", out, *more, expect=0)


def compare_all(qkscope, capture, folder, title, *more):
    """Moments alone, and with a reservoir that holds everything, with intervals. Many texts: 32 groups."""
    more = ("--ci", 95, "--pairs", 2, *more)
    analyze(qkscope, capture, folder / "rows", *more)
    for kept, reservoir, tables in (("moments", 0, MOMENTS),
                                    ("everything", EVERYTHING, MOMENTS + PLASTICITY)):
        state = make_state.make_state(capture, folder / kept, groups=32, reservoir=reservoir)
        analyze(qkscope, state, folder / f"of {kept}", *more)
        worst = {}
        for table in tables:
            rows, want = (read_csv(folder / f / table) for f in (f"of {kept}", "rows"))
            worst |= compare(title, table, rows, want)
        show(f"{title}, {kept}", worst)
        planes = read_csv(folder / f"of {kept}" / "complement.csv")
        want = read_csv(folder / "rows" / "complement.csv")
        assert [p["variance_share"] for p in planes] == pytest.approx([p["variance_share"] for p in want], rel=1e-9)
        assert all(p[c] is None for p in planes for c in ("angle_r", "omega", "resultant"))
        if reservoir:
            assert all(r["ap_overall_se"] == 0 for r in read_csv(folder / f"of {kept}" / "head_metrics.csv"))
        else:
            assert not (folder / f"of {kept}" / "head_metrics.csv").exists()


# ---- the same numbers ------------------------------------------------------------------------

def test_example(qkscope, tmp_path):
    compare_all(qkscope, EXAMPLE, tmp_path, "example")


def test_real(qkscope, shared_data, tmp_path):
    compare_all(qkscope, shared_data("kjv-tiny-capture") / "arrow-rs", tmp_path, "kjv-tiny-capture",
                "--q-per-kv-group", 2)


@pytest.mark.parametrize("number", range(SYNTHETIC))
def test_synthetic(qkscope, tmp_path, number):
    compare_all(qkscope, synthetic(qkscope, tmp_path / "c", number), tmp_path, f"synthetic {number}")


@pytest.mark.parametrize("more", [["--buckets", 5], ["--variance", "full"], ["--max-pairs", 200]],
                         ids=lambda m: m[0])
def test_options(qkscope, tmp_path, more):
    capture = synthetic(qkscope, tmp_path / "c", 7)
    compare_all(qkscope, capture, tmp_path, " ".join(map(str, more)), *more)


def test_each_kind(qkscope, tmp_path):
    """--kinds fits queries and keys by themselves."""
    state = make_state.make_state(EXAMPLE, tmp_path / "s")
    for capture, out in ((EXAMPLE, "rows"), (state, "moments")):
        analyze(qkscope, capture, tmp_path / out, "--kinds", "q,k", command="pca")
    compare("kinds", "correlations.csv", *(read_csv(tmp_path / out / "correlations.csv")
                                           for out in ("moments", "rows")))


@pytest.mark.parametrize("groups", [0, 2, 16, 64])
def test_groups(qkscope, tmp_path, groups):
    """Intervals from moments in G groups are those of rows whose texts are these groups."""
    rng = np.random.default_rng(groups)
    ids = np.repeat(np.arange(100), 20)
    bits = {0: 0, 2: 1, 16: 15, 64: 31}[groups]  # of 64 groups, intervals take 32
    for kind in "qk":
        t = rng.integers(0, 2000, len(ids))
        x = rng.standard_normal((len(ids), 5)) + rng.standard_normal((100, 5))[ids] + np.outer(t / 500, np.arange(5))
        rows = {"vector": x, "position": t, "example_id": ids, "bucket": t // 200}
        write_rows(tmp_path / "c", head_name(0, 0, kind), rows)
        write_rows(tmp_path / "joined", head_name(0, 0, kind), rows | {"example_id": ids & bits})
    state = make_state.make_state(tmp_path / "c", tmp_path / "s", groups=groups)
    more = ["--ci", 90]
    for command, table in (("pca", "qk.csv"), ("rotate", "rotated.csv")):
        analyze(qkscope, state, tmp_path / command, *more, command=command)
        analyze(qkscope, tmp_path / "joined", tmp_path / f"{command} rows", *more, command=command)
        rows, want = (read_csv(tmp_path / f / table) for f in (command, f"{command} rows"))
        ends = [c for c in want[0] if c.endswith(("_lo", "_hi"))]
        assert ends
        for column in ends:
            # along a an interval takes three groups
            none = groups == 0 or groups == 2 and column.startswith(("r_q_a", "r_k_a", "alpha", "bias"))
            assert (rows[0][column] is None) == none, column
            if not none:
                assert rows[0][column] == pytest.approx(want[0][column], rel=1e-9), column
    heads = read_csv(tmp_path / "pca" / "heads.csv")[0]
    want = read_csv(tmp_path / "pca rows" / "heads.csv")[0]
    assert heads["texts"] == 100
    if groups in (0, 2, 16):
        assert heads["r_q_width"] == (pytest.approx(want["r_q_width"], rel=1e-9) if groups else None)
        assert (heads["category_probability"] is None) == (groups < 8)


def test_rows_and_moments(qkscope, tmp_path):
    """A capture that keeps all rows besides is analysed from them: the same bytes."""
    state = make_state.make_state(EXAMPLE, tmp_path / "s", rows="all")
    for capture, out in ((EXAMPLE, "a"), (state, "b")):
        analyze(qkscope, capture, tmp_path / out, "--ci", 95, "--lda")
    a, b = (read_bytes(tmp_path / out, *MOMENTS, *PLASTICITY) for out in "ab")
    assert a == b and "kept" not in read_json(tmp_path / "b" / "manifest.json")["runs"][0]


def test_threads(qkscope, tmp_path):
    state = make_state.make_state(EXAMPLE, tmp_path / "s", reservoir=2)
    tables = []
    for threads in (1, 4):
        out = tmp_path / str(threads)
        analyze(qkscope, state, out, "--ci", 95, "--threads", threads)
        tables.append(read_bytes(out, *MOMENTS, *PLASTICITY))
    assert tables[0] == tables[1]


# ---- a reservoir -----------------------------------------------------------------------------

def test_reservoir_of_the_example(qkscope, tmp_path):
    """What queries' and keys' moments say stays exact, whatever rows are held."""
    analyze(qkscope, EXAMPLE, tmp_path / "rows")
    state = make_state.make_state(EXAMPLE, tmp_path / "s", reservoir=2)
    analyze(qkscope, state, tmp_path / "out")
    for table in MOMENTS:
        skip = []
        compare("reservoir", table, *(read_csv(tmp_path / f / table) for f in ("out", "rows")), skip=skip)
    rows, want = (read_csv(tmp_path / f / "head_metrics.csv") for f in ("out", "rows"))
    exact = ["n_q", "n_k", "d", "q_R2_pos", "beta_norm", "bucket_width"]
    compare("reservoir", "head_metrics.csv", [{c: r[c] for c in exact} for r in rows],
            [{c: r[c] for c in exact} for r in want])
    rows, want = (read_csv(tmp_path / f / "head_profile.csv") for f in ("out", "rows"))
    compare("reservoir", "head_profile.csv", rows, want, skip=["n_pairs", "ap"])


def test_sampling_error(qkscope, tmp_path):
    """ap_overall of all rows is within 4 standard errors of that of a reservoir, about as often as it should be; of
    40 captures, and reservoirs of 2 to 8."""
    ratios = []
    for number in range(SYNTHETIC):
        capture = synthetic(qkscope, tmp_path / f"c{number}", number)
        more = ["--max-pairs", 0]
        analyze(qkscope, capture, tmp_path / "rows", "--force", *more, command="plasticity")
        want = [r["ap_overall"] for r in read_csv(tmp_path / "rows" / "head_metrics.csv")]
        size = 2 + number % 3 * 3
        state = make_state.make_state(capture, tmp_path / f"s{number}", reservoir=size)
        analyze(qkscope, state, tmp_path / "out", "--force", *more, command="plasticity")
        for row, ap in zip(read_csv(tmp_path / "out" / "head_metrics.csv"), want, strict=True):
            if ap is None or row["ap_overall_se"] is None:
                continue
            if row["ap_overall_se"] < 1e-12:
                assert row["ap_overall"] == pytest.approx(ap, rel=1e-10)
            else:
                ratios.append((row["ap_overall"] - ap) / row["ap_overall_se"])
        shutil.rmtree(capture)
    ratios = np.array(ratios)
    print(f"\n{len(ratios)} heads: rms {np.sqrt((ratios ** 2).mean()):.2f}, mean {ratios.mean():+.2f}, most "
          f"{abs(ratios).max():.2f}, above 4: {(abs(ratios) > 4).mean():.3f}")
    assert len(ratios) > 60
    assert (abs(ratios) > 4).mean() <= 0.02 and (abs(ratios) > 2).mean() <= 0.12
    assert 0.5 < np.sqrt((ratios ** 2).mean()) < 1.5


def test_buckets_cut_anew(qkscope, tmp_path):
    """They are cut from the positions of all rows, though the last one is not held."""
    state = make_state.make_state(EXAMPLE, tmp_path / "s", reservoir=2)
    cut = []
    for capture, out in ((EXAMPLE, "rows"), (state, "out")):
        analyze(qkscope, capture, tmp_path / out, "--buckets", 7, command="plasticity")
        cut.append(read_json(tmp_path / out / "manifest.json")["runs"][0]["buckets"])
    assert cut[0] == cut[1] and cut[0]["last_position"] == 1023
    inputs = read_json(tmp_path / "out" / "manifest.json")["runs"][0]["inputs"]
    assert len([i for i in inputs if i["file"].startswith("moments/") and i["xxh3_128"]]) == 5
    for row in read_csv(tmp_path / "out" / "head_metrics.csv"):
        assert row["ap_overall_se"] > 0


def test_one_row_of_a_bucket(qkscope, tmp_path):
    state = make_state.make_state(EXAMPLE, tmp_path / "s", reservoir=1)
    assert "no two keys of one bucket" in analyze(qkscope, state, tmp_path / "out").err


def test_hash():
    """The rule in whole numbers of any size, as the documentation has it."""
    def mix(z):
        z = (z + 0x9E3779B97F4A7C15) % 2 ** 64
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2 ** 64
        z = (z ^ z >> 27) * 0x94D049BB133111EB % 2 ** 64
        return z ^ z >> 31
    for example, kind, position in ((0, "q", 0), (-5, "k", 17), (2 ** 40 + 3, "q", 99)):
        want = mix((mix((mix(example % 2 ** 64) + (kind == "k")) % 2 ** 64) + position) % 2 ** 64)
        got = make_state.hashes(np.array([example]), kind, np.array([position]))
        assert int(got[0]) == want
    assert mix(0) == 0xE220A8397B1DCDAF  # the first number of SplitMix64 from 0


# ---- what is empty, and what is refused ------------------------------------------------------

@pytest.fixture
def state(tmp_path):
    return make_state.make_state(EXAMPLE, tmp_path / "state")


@pytest.fixture
def reservoir(tmp_path):
    return make_state.make_state(EXAMPLE, tmp_path / "reservoir", reservoir=2)


def test_manifest(qkscope, tmp_path, state):
    done = analyze(qkscope, state, tmp_path / "out", "--lda")
    assert "plasticity is left out; capture with --keep moments,reservoir=8" in done.err
    assert "lda_accuracy needs all rows and stays empty" in done.err
    run, = read_json(tmp_path / "out" / "manifest.json")["runs"]
    assert run["kept"]["rows"] == "none" and run["kept"]["groups"] == 16
    named = [e["columns"] for e in run["kept"]["empty"]]
    assert named == ["heads.csv: lda_accuracy", "rotated.csv: omega, omega_r_squared"]
    assert all(e["reason"] for e in run["kept"]["empty"])
    files = {i["file"]: i for i in run["inputs"]}
    assert sorted(files) == [f"moments/l{i:02d}.safetensors" for i in range(5)]
    assert all(i["xxh3_128"] and i["bytes"] == (state / f).stat().st_size for f, i in files.items())
    assert run["settings"]["analyses"] == ["pca", "rotation"]
    schema = read_json(tmp_path / "out" / "schema.json")
    assert "head_metrics.csv" not in schema


def test_results_of_one_folder(qkscope, tmp_path, reservoir):
    """A second command adds its tables; those of another capture are refused."""
    out = tmp_path / "out"
    for command in ("pca", "plasticity", "rotate"):
        analyze(qkscope, reservoir, out, command=command)
    runs = read_json(out / "manifest.json")["runs"]
    assert [len([i for i in r["inputs"] if i["file"].endswith(".parquet")]) for r in runs] == [0, 30, 0]
    columns = {c["name"] for c in read_json(out / "schema.json")["head_metrics.csv"]["columns"]}
    assert "ap_overall_se" in columns
    other = make_state.make_state(EXAMPLE, tmp_path / "other", groups=8)
    done = qkscope("pca", other, "-o", out, expect=1)
    assert "holds results of another capture" in done.err


def test_rows_are_needed(qkscope, tmp_path, reservoir):
    done = qkscope("pca", reservoir, "-o", tmp_path / "out", "--max-samples", 10, expect=1)
    assert "--max-samples" in done.err and "--keep rows" in done.err and not (tmp_path / "out").exists()


def test_commands_that_need_rows(qkscope, tmp_path, state, reservoir):
    done = qkscope("plasticity", state, "-o", tmp_path / "out", expect=1)
    assert "reservoir=8" in done.err
    done = qkscope("compare-stages", reservoir, reservoir, "-o", tmp_path / "out", expect=1)
    assert "needs all rows" in done.err
    done = qkscope("scatter", state, "-o", tmp_path / "out", expect=1)
    assert "moments/l00.safetensors: this capture keeps moments and no rows" in done.err
    assert not (tmp_path / "out").exists()


def test_the_original_tools_front_end(qkscope, tmp_path, reservoir):
    """It draws rows, which a reservoir has done already; told not to, it takes what is there."""
    config = tmp_path / "h.yaml"
    files = "".join(f"{key}: {tmp_path / key}\n" for key in ("output_csv", "bucket_csv", "component_csv"))
    facts = f"model_dir: {reservoir}\nnum_layers: 5\nnum_q_heads: 8\nnum_k_heads: 4\n{files}"
    config.write_text(facts)
    done = qkscope("analyze-heads", "--config", config, expect=2)
    assert "max_tokens_per_head" in done.err and "--keep rows" in done.err
    config.write_text(facts + "max_tokens_per_head: null\n")
    qkscope("analyze-heads", "--config", config, expect=0)
    assert len(read_csv(tmp_path / "output_csv")) == 20


def test_scatter_of_a_reservoir(qkscope, tmp_path, reservoir):
    for basis in ("pca", "ab"):
        qkscope("scatter", reservoir, "-o", tmp_path / f"{basis}.png", "--heads", "0:1", "--basis", basis, expect=0)
        assert (tmp_path / f"{basis}.png").stat().st_size > 1000


# ---- inspect, report, study ------------------------------------------------------------------

def test_inspect(qkscope, state, reservoir):
    said = qkscope("inspect", state, "--heads", expect=0).out
    assert "kept        no rows; moments of 27902 rows, in up to 16 groups of texts" in said
    assert "dimension   32" in said and "examples    60" in said and "positions   0 to 1023" in said
    told = json.loads(qkscope("inspect", state, "--json", expect=0).out)
    bytes_ = sum(f.stat().st_size for f in (state / "moments").iterdir())
    assert told["kept"] == {"rows": "none", "reservoir": 0, "moments": True, "groups": 16, "summed": 27902,
                            "files": 5, "bytes": bytes_}
    assert told["rows"] == 0 and told["heads"][0]["summed"] == 949
    told = json.loads(qkscope("inspect", reservoir, "--json", expect=0).out)
    assert told["kept"]["reservoir"] == 2 and told["rows"] == 25094 and told["kept"]["summed"] == 27902
    assert "kept" not in json.loads(qkscope("inspect", EXAMPLE, "--json", expect=0).out)


@pytest.mark.parametrize("name", ["state", "reservoir"])
def test_report(qkscope, tmp_path, name, request):
    out = tmp_path / "out"
    analyze(qkscope, request.getfixturevalue(name), out, "--pairs", 2)
    done = qkscope("report", out, "--format", "svg", expect=0)
    assert "failed" not in done.err
    page = (out / "report.html").read_text()
    assert "moments of all rows, and " + ("no rows" if name == "state" else "up to 2 rows") in page
    assert "omega, omega_r_squared" in page


HELD = "at most 2 keys of each bucket and text, which alone "


def test_where_plasticity_is_from(qkscope, tmp_path, reservoir, state):
    """Terminal, JSON, model_report.csv, page and findings say how few keys plasticity is from, and what that costs; of a
    capture of rows none does."""
    errors, said = {}, {}
    for name, capture in (("rows", EXAMPLE), ("of", reservoir)):
        out = tmp_path / name
        said[name] = qkscope("analyze", capture, "-o", out, "--pairs", 2, expect=0).out
        errors[name] = [float(r["ap_overall_se"]) for r in read_csv(out / "head_metrics.csv") if "ap_overall_se" in r]
    mean = sum(errors["of"]) / len(errors["of"])
    assert len(errors["of"]) == 20 and not errors["rows"] and 0 < mean < 0.1
    assert f"standard error, at most   {mean:.3f} (from choosing 2 keys of each bucket and text)" in said["of"]
    assert "standard error" not in said["rows"]
    (report,), (without,) = (read_csv(tmp_path / name / "model_report.csv") for name in ("of", "rows"))
    assert report["ap_overall_se"] == pytest.approx(mean, rel=1e-12) and report["reservoir"] == 2
    assert not {"reservoir", "ap_overall_se"} & set(without)
    told = json.loads(qkscope("plasticity", reservoir, "-o", tmp_path / "json", "--json", expect=0).out)["plasticity"]
    assert told["reservoir"] == 2 and told["ap_overall_se"] == pytest.approx(mean, rel=1e-12)
    (tmp_path / "none").mkdir()
    path = failing_gnuplot(tmp_path / "none")
    page = page_of(qkscope, tmp_path / "of", path)
    lead = plain(re.search(r'<p class="lead">(.*?)</p>', page, re.S)[1])
    assert f"Plasticity is from {HELD}gives it a standard error of up to {mean:.2g}." in lead
    assert headlines(page)[0]["ap_overall_se"] == pytest.approx(mean, rel=1e-6)
    for name in ("plasticity-falls", "depth-ap_overall"):
        line = findings(page)[name].evidence[-1]
        assert line.startswith(f"From {HELD}gives the plasticity of a head a standard error of {mean:.3g} (mean of 20 heads"), line
        assert f"{max(errors['of']):.3g})" in line
    assert "keys of each bucket and text" not in page_of(qkscope, tmp_path / "rows", path).split('id="methods"')[0]


def test_study(qkscope, tmp_path, state, reservoir):
    """Rows, moments and a reservoir side by side: tables that some do not have, a column that one has."""
    study = tmp_path / "study.yaml"
    study.write_text(f"""models:
  - {{name: rows, source: {EXAMPLE}}}
  - {{name: moments, source: {state}}}
  - {{name: reservoir, source: {reservoir}}}
""")
    out = tmp_path / "out"
    done = qkscope("study", study, "-o", out, "--format", "svg", expect=0, timeout=300)
    assert "failed" not in done.err
    assert [r["model"] for r in read_csv(out / "heads.csv")] == ["rows"] * 20 + ["moments"] * 20 + ["reservoir"] * 20
    with open(out / "head_metrics.csv", newline="") as file:
        metrics = list(csv.DictReader(file))
    assert [r["model"] for r in metrics] == ["rows"] * 20 + ["reservoir"] * 20
    assert all(r["ap_overall_se"] == "" for r in metrics[:20]) and all(float(r["ap_overall_se"]) for r in metrics[20:])
    assert [r["reservoir"] for r in metrics] == [""] * 20 + ["2"] * 20
    with open(out / "models" / "rows" / "head_metrics.csv", newline="") as file:
        for own, joint in zip(csv.DictReader(file), metrics):
            assert own == {c: v for c, v in joint.items() if c not in ("reservoir", "ap_overall_se")}
    with open(out / "model_report.csv", newline="") as file:
        assert [r["reservoir"] for r in csv.DictReader(file)] == ["", "2"]
    again = qkscope("study", study, "-o", out, "--format", "svg", expect=0, timeout=300)
    assert again.out.count(" kept ") == 3
    file = state / "moments" / "l02.safetensors"
    file.write_bytes(file.read_bytes()[:-8] + bytes(8))
    again = qkscope("study", study, "-o", out, "--dry-run", expect=0)
    assert "moments/l02.safetensors has changed" in again.out + again.err


# ---- broken states ---------------------------------------------------------------------------

def rewrite(path, change, metadata=None):
    """The file with its arrays changed by change(arrays)."""
    from safetensors import safe_open
    from safetensors.numpy import save_file
    with safe_open(path, "np") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}
        facts = file.metadata()
    save_file(change(arrays) or arrays, path, metadata=facts | (metadata or {}))


def without_head(arrays):
    """Without query head 1."""
    for name, value in arrays.items():
        if name.startswith("q.") and value.ndim and name[2:] not in ("group", "mask", "bucket"):
            axis = 0 if name[2:] in ("heads", "texts", "positions") else 1
            arrays[name] = np.delete(value, 1, axis=axis)


def count_more(arrays):
    arrays["k.count"][0, 1] += 1


def not_finite(arrays):
    arrays["q.sum_xx"][3, 1, 0] = math.nan


def negative(arrays):
    arrays["k.sum_xx"][0, 0, 0] = -1.0


BROKEN = {
    "missing": (lambda f: f.unlink(), 4, "6 of the 30 heads that capture.json lists are not there: l01h00q, l01h00k"),
    "empty": (lambda f: f.write_bytes(b""), 4, "l01.safetensors"),
    "header cut": (lambda f: f.write_bytes(f.read_bytes()[:100]), 4, "l01.safetensors"),
    "truncated": (lambda f: f.write_bytes(f.read_bytes()[:-1]), 4, "l01.safetensors"),
    "foreign": (lambda f: f.write_bytes((EXAMPLE / "l00h00q" / "data.parquet").read_bytes()), 4, "l01.safetensors"),
    "no moments": (lambda f: rewrite(f, lambda a: None, {"format": "pt"}), 4, "l01.safetensors"),
    "newer": (lambda f: rewrite(f, lambda a: None, {"format": "qkscope moments 3"}), 4, "l01.safetensors"),
    "other layer": (lambda f: shutil.copy(f.with_name("l00.safetensors"), f), 4, "holds the moments of layer 0"),
    "without a head": (lambda f: rewrite(f, without_head), 1, "has no moments of l01h01q, which capture.json lists"),
    "other count": (lambda f: rewrite(f, count_more), 2, "rows of l01h01k, and capture.json lists"),
    "not finite": (lambda f: rewrite(f, not_finite), 1, "l01.safetensors"),
    "negative": (lambda f: rewrite(f, negative), 2, "l01.safetensors"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken(qkscope, tmp_path, state, name):
    """The heads of which nothing is wrong have their numbers."""
    break_it, heads, message = BROKEN[name]
    break_it(state / "moments" / "l01.safetensors")
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=3)
    assert message in done.err
    run, = read_json(tmp_path / "out" / "manifest.json")["runs"]
    failed = {f["head"] for f in run["failures"]}
    assert failed and all(name.startswith("l01") for name in failed)
    assert len(failed) == min(heads, 4)
    rows = read_csv(tmp_path / "out" / "heads.csv")
    assert len(rows) == 20 - len(failed) and {r["layer"] for r in rows} >= {0, 2, 3, 4}
    done = qkscope("inspect", state)
    assert done.code == 3


def test_all_layers_missing(qkscope, tmp_path, state):
    for file in (state / "moments").iterdir():
        file.unlink()
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=1)
    assert str(state) in done.err and "moments/l00.safetensors" in done.err


@pytest.mark.parametrize("cut", range(0, 3000, 71))
def test_every_prefix(qkscope, tmp_path, state, cut):
    file = state / "moments" / "l04.safetensors"
    file.write_bytes(file.read_bytes()[:cut])
    done = qkscope("pca", state, "-o", tmp_path / "out", expect=3)
    assert "l04.safetensors" in done.err


def edit(state, change):
    path = state / "capture.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


MANIFESTS = {
    "nothing kept": (lambda m: m["keep"].update(moments=False), 'keep: rows are "none", and there are no moments: '
                     "fetch the file again"),
    "an empty reservoir": (lambda m: m["keep"].update(rows="reservoir"), 'keep: rows are "reservoir", and the reservoir has 0 '),
    "a reservoir of nothing": (lambda m: m["keep"].update(reservoir=4), 'keep: rows are "none", and the reservoir has 4 '),
    "a reservoir alone": (lambda m: m["keep"].update(rows="reservoir", reservoir=2, moments=False),
                          'keep: rows are "reservoir", and there are no moments'),
    "an unknown word": (lambda m: m["keep"].update(rows="some"), "keep.rows"),
    "no object": (lambda m: m.update(keep="moments"), "keep"),
    "unfinished": (lambda m: m.update(complete=False), "of a finished capture"),
    "no heads": (lambda m: m.pop("heads"), "that lists its heads"),
    "newer": (lambda m: m.update(format_version=9), "format_version is 9"),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifest_that_contradicts(qkscope, tmp_path, state, name):
    change, message = MANIFESTS[name]
    edit(state, change)
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=1)
    assert message in done.err and "capture.json" in done.err and not (tmp_path / "out").exists()


@pytest.mark.parametrize("which", ["state", "reservoir"])
def test_moments_that_are_not_there(qkscope, tmp_path, request, which):
    """One layer's file, then all of them: named, with the remedy."""
    copy = shutil.copytree(request.getfixturevalue(which), tmp_path / "copy")
    (copy / "moments" / "l02.safetensors").unlink()
    done = qkscope("pca", copy, "-o", tmp_path / "out")
    assert done.code == 3 and "l02h00k" in done.err
    for command in (["inspect", copy], ["pca", copy, "-o", tmp_path / "other"] if which == "reservoir" else ["inspect", copy]):
        err = qkscope(*command, expect=3).err
        assert re.search(r"copy/moments/l02\.safetensors: not there, but capture\.json .*: fetch it again, or capture again", err)
    shutil.rmtree(copy / "moments")
    err = qkscope("pca", copy, "-o", tmp_path / "none", expect=1).err
    assert ("l00.safetensors: not there, but capture.json says that moments are kept: fetch it again" if which == "reservoir"
            else "and no moments/l00.safetensors, though there is a capture.json: fetch what it lists") in err


def test_rows_of_another_dimension(qkscope, tmp_path, reservoir):
    copy = shutil.copytree(reservoir, tmp_path / "copy")
    rows = {h["name"]: h["rows"] for h in read_json(copy / "capture.json")["heads"]}
    synth(qkscope, tmp_path / "other", layers=1, dim=16, examples=1, rows=rows["l02h01k"])
    shutil.copy(tmp_path / "other" / "l00h00k" / "data.parquet", copy / "l02h01k" / "data.parquet")
    for command in (["plasticity", copy, "-o", tmp_path / "out"], ["inspect", copy]):
        err = qkscope(*command, expect=3).err
        assert re.search(r"l02h01k/data\.parquet: \d+ rows of dimension 16 are no part of the \d+ of dimension 32 that "
                         r".*moments/l02\.safetensors has moments of: fetch both again, or capture again", err), err


def test_a_reservoir_that_is_said_to_be_larger(qkscope, tmp_path, reservoir):
    """Its buckets would all count as whole, and the sampling error as none."""
    copy = shutil.copytree(reservoir, tmp_path / "copy")
    edit(copy, lambda m: m["keep"].update(reservoir=3))
    err = qkscope("plasticity", copy, "-o", tmp_path / "out", expect=1).err
    assert re.search(r"l00h00k/data\.parquet: \d+ keys of text -?\d+ and its group are not here, though none of their buckets "
                     r"has 3, as many as keep\.reservoir in capture\.json says: fetch capture\.json again", err), err


def test_moments_that_capture_json_does_not_tell_of(qkscope, tmp_path, reservoir):
    copy = shutil.copytree(reservoir, tmp_path / "copy")
    edit(copy, lambda m: m.pop("keep"))
    err = qkscope("plasticity", copy, "-o", tmp_path / "out", expect=1).err
    assert 'there are moments beside the rows, and no capture.json that says so ("keep")' in err


def test_without_capture_json(qkscope, tmp_path, state):
    (state / "capture.json").unlink()
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=1)
    assert "no capture.json" in done.err


def test_rows_that_should_not_be_there(qkscope, tmp_path, state):
    shutil.copytree(EXAMPLE / "l00h00q", state / "l00h00q")
    done = qkscope("analyze", state, "-o", tmp_path / "out", expect=1)
    assert "capture.json says that none are kept" in done.err


def swap_rows(reservoir, change):
    """Changes the Parquet file of keys of one head, by a function of its table."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    path = reservoir / "l02h01k" / "data.parquet"
    table = pq.read_table(path)
    changed = change(table, pa)
    pq.write_table(changed, path)
    edit(reservoir, lambda m: next(h for h in m["heads"] if h["name"] == "l02h01k").update(rows=len(changed)))


def set_column(table, pa, name, value):
    i = table.column_names.index(name)
    return table.set_column(i, name, pa.array([value] * len(table), table.schema.field(i).type))


RESERVOIRS = {
    "more than there were": (lambda t, pa: pa.concat_tables([t] * 2), "are no part of the"),
    "another text": (lambda t, pa: set_column(t, pa, "example_id", 60).slice(0, 700),
                     "there are more rows of text 60 and its group than moments say"),
}


@pytest.mark.parametrize("name", RESERVOIRS)
def test_reservoir_that_contradicts(qkscope, tmp_path, reservoir, name):
    change, message = RESERVOIRS[name]
    swap_rows(reservoir, change)
    done = qkscope("analyze", reservoir, "-o", tmp_path / "out", expect=3)
    assert message in done.err and "l02h01k" in done.err
    assert len(read_csv(tmp_path / "out" / "head_metrics.csv")) == 18


def test_queries_that_contradict(qkscope, tmp_path, reservoir):
    """A bucket of which the moments know queries has none in the reservoir."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    path = reservoir / "l03h02q" / "data.parquet"
    table = pq.read_table(path)
    table = table.filter(pc.not_equal(table.column("bucket"), 5))
    pq.write_table(table, path)
    edit(reservoir, lambda m: next(h for h in m["heads"] if h["name"] == "l03h02q").update(rows=len(table)))
    done = qkscope("analyze", reservoir, "-o", tmp_path / "out", expect=3)
    assert "other queries in bucket 5" in done.err and "l03h02q" in done.err
    assert len(read_csv(tmp_path / "out" / "heads.csv")) == 20
    assert len(read_csv(tmp_path / "out" / "head_metrics.csv")) == 19
