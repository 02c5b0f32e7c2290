# SPDX-License-Identifier: Apache-2.0
"""Analyses of captures of moments beside those of the rows that these were made from (make_state.py, without the
library). `pytest -s` prints the worst deviation of every column."""
import csv
import json
import re
import shutil
import sys

import numpy as np
import pytest
from conftest import EXAMPLE, ROOT, head_name, read_bytes, read_csv, read_json, write_rows

sys.path.append(str(ROOT / "tests" / "report"))
from report_pages import headlines, page_drawn, page_of, plain  # noqa: E402

make_state = pytest.importorskip("make_state")

EVERYTHING = 10 ** 6  # rows of a bucket and text: all there are
EXACT = 1e-10
# Rounding is all there is of one, and p-values turn a deviation of r into a relative one of many orders.
LOOSE = {"residual_pos_r": None, "p_q": 1e-6, "p_k": 1e-6, "q_resid0_ks_p": 1e-6, "q_noise_med_ks_p": 1e-6}
FIRST = ["pc0_first_share", "pc0_first_cosine", "category_without_first"]
EMPTY = {"rotated.csv": ["omega", "omega_r_squared"], "heads.csv": ["lda_accuracy", "octave_r_q", "octave_r_k", *FIRST]}
MOMENTS = ["qk.csv", "heads.csv", "rotated.csv"]
PLASTICITY = ["head_metrics.csv", "head_profile.csv", "head_bucket_plasticity.csv", "head_distance.csv",
              "head_component_weights.csv", "model_report.csv"]
SYNTHETIC = 40


def synthetic(folder, number, **given):
    """A small capture whose every property is drawn, or given."""
    rng = np.random.default_rng(number)
    drawn = {"texts": int(rng.integers(2, 40)), "rows": int(rng.integers(12, 120)), "buckets": int(rng.choice([2, 4, 8, 16])),
             "dim": int(rng.choice([2, 3, 8, 12, 33])), "layers": int(rng.integers(1, 3)), "group": int(rng.choice([1, 2])),
             "offset": int(rng.choice([0, 100000])), "mean": float(rng.choice([0, 3, 300])),
             "window": int(rng.choice([0, 300])), **given}
    texts, rows, dim = drawn["texts"], drawn["rows"], drawn["dim"]
    for layer in range(drawn["layers"]):
        for kind, heads in (("q", 2), ("k", 2 // drawn["group"])):
            for head in range(heads):
                at = np.concatenate([np.sort(rng.choice(1024, rows, replace=False)) for _ in range(texts)])
                drift = np.outer(at / 1024, rng.normal(size=dim)) * rng.uniform(0, 1)
                x = rng.normal(size=(len(at), dim)) * rng.uniform(0.3, 2, dim) + drift + drawn["mean"]
                write_rows(folder, head_name(layer, head, kind), {
                    "vector": x.astype(np.float32), "position": at + drawn["offset"], "bucket": at * drawn["buckets"] // 1024,
                    "example_id": np.repeat(np.arange(texts), rows), "sliding_window": [drawn["window"] or None] * len(at)})
    return folder


def compare(title, table, rows, expected, limit=EXACT, skip=(), first=False):
    """Every column of every row, with `first` those of first tokens, too; deviations are relative to the number, or to a
    thousandth of the largest of its column where that is more: a mean along an axis may be what is left of large numbers."""
    assert len(rows) == len(expected), (title, table)
    worst = {}
    for column in expected[0] if expected else []:
        numbers = [abs(r[column]) for r in expected if isinstance(r[column], float)]
        # Far out, a probability of 1e-20 follows r by many orders.
        scale = 1 if column.startswith("probability_") else 1e-3 * max(numbers, default=0)
        most = LOOSE.get(column, limit)
        for i, (row, want) in enumerate(zip(rows, expected)):
            place = (title, table, column, i, row[column], want[column])
            if column in EMPTY.get(table, []) and not (first and column in FIRST):
                assert row[column] in (None, ""), place
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


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    return make_state.make_state(EXAMPLE, tmp_path_factory.mktemp("moments") / "state")


@pytest.fixture(scope="module")
def reservoir(tmp_path_factory):
    return make_state.make_state(EXAMPLE, tmp_path_factory.mktemp("moments") / "reservoir", reservoir=2)


@pytest.fixture(scope="module")
def of_rows(qkscope, tmp_path_factory):
    """Results of the example's rows."""
    out = tmp_path_factory.mktemp("of rows") / "rows"
    analyze(qkscope, EXAMPLE, out, "--pairs", 2)
    return out


@pytest.fixture(scope="module")
def of_reservoir(qkscope, reservoir, tmp_path_factory):
    out = tmp_path_factory.mktemp("of reservoir") / "of"
    analyze(qkscope, reservoir, out, "--pairs", 2)
    return out


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

@pytest.mark.test_all
@pytest.mark.parametrize("real", [False, True], ids=["example", "real"])
def test_captured(qkscope, request, tmp_path, real):
    capture = request.getfixturevalue("shared_data")("kjv-tiny-capture") / "arrow-rs" if real else EXAMPLE
    compare_all(qkscope, capture, tmp_path, "captured", *(["--q-per-kv-group", 2] if real else []))


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", range(SYNTHETIC))
def test_synthetic(qkscope, tmp_path, number):
    compare_all(qkscope, synthetic(tmp_path / "c", number), tmp_path, f"synthetic {number}")


@pytest.mark.cases(1)
@pytest.mark.parametrize("more", [["--max-pairs", 200], ["--buckets", 5]], ids=lambda m: m[0])
def test_options(qkscope, tmp_path, more):
    compare_all(qkscope, synthetic(tmp_path / "c", 7, layers=1), tmp_path, " ".join(map(str, more)), *more)


# ---- first positions --------------------------------------------------------------------------

def compare_first(qkscope, capture, folder, first, *words, more=("--ci", 95, "--pairs", 2), limit=1e-9):
    """Moments of which rows of first positions are apart, with and without these."""
    folder.mkdir()
    state = make_state.make_state(capture, folder / "state", groups=32, first=first)
    for i, start in enumerate(([], ["--from-position", first])):
        analyze(qkscope, capture, folder / f"rows{i}", *more, *words, *start)
        analyze(qkscope, state, folder / f"moments{i}", *more, *words, *start)
        tells = first == 4 if i == 0 else first >= 4
        for table in MOMENTS:
            rows, want = (read_csv(folder / f / table) for f in (f"moments{i}", f"rows{i}"))
            compare(f"first {first}", table, rows, want, limit=limit, first=tells)
        named = [e["columns"] for e in read_json(folder / f"moments{i}" / "manifest.json")["runs"][0]["kept"]["empty"]]
        assert any("pc0_first_share" in columns for columns in named) == (not tells)


def far_first_tokens(folder, texts=24, length=40):
    """First tokens lie far out; only some texts have them, so that their groups are finer than those of all."""
    rng = np.random.default_rng(5)
    for name in ("l00h00q", "l00h01q", "l00h00k"):
        position = np.concatenate([np.arange(length) + (t % 3 == 0) * 20 for t in range(texts)])
        vector = rng.normal(size=(len(position), 6)) + 0.05 * position[:, None] * rng.normal(size=6)
        vector[position < 3] += 20 * rng.normal(size=6)
        write_rows(folder, name, {"vector": vector.astype(np.float32), "position": position, "bucket": position // 16,
                                  "example_id": np.repeat(np.arange(texts) * 7919, length)})
    return folder


@pytest.mark.parametrize("first", [4, 9, 16])
def test_first_positions(qkscope, tmp_path, first):
    compare_first(qkscope, far_first_tokens(tmp_path / "far"), tmp_path / "c", first)


@pytest.mark.parametrize("groups", [0, 4, 32])
def test_first_tokens_far_out(qkscope, tmp_path, groups):
    capture = far_first_tokens(tmp_path / "c")
    state = make_state.make_state(capture, tmp_path / "s", groups=groups, first=4)
    for i, start in enumerate(([], ["--from-position", 4])):
        analyze(qkscope, capture, tmp_path / f"rows{i}", *start, command="pca")
        done = analyze(qkscope, state, tmp_path / f"moments{i}", *start, command="pca")
        assert ("another category without positions 0 to 3" in done.err) == (i == 0)
        rows, want = (read_csv(tmp_path / f / "heads.csv") for f in (f"moments{i}", f"rows{i}"))
        compare(f"groups {groups}", "heads.csv", rows, want, limit=1e-9, first=True,
                skip=["r_q_width", "effective_texts", "near_tie", "position_r_q", "position_r_k", *(c for c in want[0] if "probability" in c)])


def test_from_another_position(qkscope, tmp_path, state, reservoir):
    apart = make_state.make_state(synthetic(tmp_path / "c", 2), tmp_path / "apart", first=4, reservoir=2)
    for capture, command, start, words in (
            (state, "pca", 4, "left out (--from-position 4): capture again with --keep moments,first=K"), (state, "rotate", 99, "again with --keep rows"),
            (reservoir, "pca", 4, "moments,first=K"), (apart, "pca", 3, "give --from-position 4"),
            (apart, "analyze", 4, "plasticity without first positions (--from-position) needs all rows")):
        err = qkscope(command, capture, "-o", tmp_path / "out", "--from-position", start, expect=1).err
        assert words in err, err


def test_no_rows_behind_first_positions(qkscope, tmp_path):
    for name in ("l00h00q", "l00h00k"):
        position = np.tile(np.arange(4), 9)
        write_rows(tmp_path / "c", name, {"vector": np.random.default_rng(1).normal(size=(36, 5)).astype(np.float32),
                                          "position": position, "example_id": np.arange(36) // 4, "bucket": position * 0})
    state = make_state.make_state(tmp_path / "c", tmp_path / "s", first=4)
    err = qkscope("pca", state, "-o", tmp_path / "out", "--from-position", 4, expect=1).err
    assert "no rows from position 4 on" in err
    analyze(qkscope, state, tmp_path / "all", command="pca")
    assert [r["category_without_first"] for r in read_csv(tmp_path / "all" / "heads.csv")] == [""]


def test_damaged_first_positions(qkscope, tmp_path):
    """Rows of first positions are some of the rows of the same heads."""
    from safetensors.numpy import load_file, save_file
    state = make_state.make_state(synthetic(tmp_path / "c", 2, offset=0), tmp_path / "state", first=4)
    path = state / "moments" / "l00.safetensors"
    good, meta = load_file(path), {"format": "qkscope moments 2", "layer": "0", "groups": "16"}
    changes = {"more rows": {"first.q.count": good["q.count"] + 1}, "other heads": {"first.k.heads": good["first.k.heads"] + 1},
               "an array is missing": {"first.q.mean": None}, "no numbers": {"first.q.mean": good["first.q.mean"] * np.nan}}
    for name, change in changes.items():
        save_file({k: v for k, v in {**good, **change}.items() if v is not None}, path, metadata=meta)
        err = qkscope("pca", state, "-o", tmp_path / name, "--from-position", 4, "--layers", "0", expect=1).err
        assert "l00.safetensors" in err and ("first" in err or "moments of any rows" in err), err
    save_file({k: v for k, v in good.items() if not k.startswith("first.q.")}, path, metadata=meta)
    for start in ([], ["--from-position", 4]):
        err = qkscope("pca", state, "-o", tmp_path / "none", *start, "--layers", "0", expect=1).err
        assert "l00.safetensors: has no moments of first positions, which capture.json lists" in err


def test_each_kind(qkscope, tmp_path):
    """--kinds fits queries and keys by themselves."""
    capture = synthetic(tmp_path / "c", 1)
    state = make_state.make_state(capture, tmp_path / "s")
    for folder, out in ((capture, "rows"), (state, "moments")):
        analyze(qkscope, folder, tmp_path / out, "--kinds", "q,k", command="pca")
    compare("kinds", "correlations.csv", *(read_csv(tmp_path / out / "correlations.csv") for out in ("moments", "rows")))


@pytest.mark.cases(4)
@pytest.mark.parametrize("groups", [0, 2, 16, 64])
def test_groups(qkscope, tmp_path, groups):
    """Intervals from moments in G groups are those of rows whose texts are these groups."""
    rng = np.random.default_rng(groups)
    ids = np.repeat(np.arange(100), 20)
    bits = {0: 0, 2: 1, 16: 15, 64: 31}[groups]  # of 64 groups, intervals take 32
    for kind in "qk":
        t = rng.permutation(2000)
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
    capture = synthetic(tmp_path / "c", 1)
    state = make_state.make_state(capture, tmp_path / "s", rows="all")
    for folder, out in ((capture, "a"), (state, "b")):
        analyze(qkscope, folder, tmp_path / out, "--ci", 95, "--lda")
    a, b = (read_bytes(tmp_path / out, *MOMENTS, *PLASTICITY) for out in "ab")
    assert a == b and "kept" not in read_json(tmp_path / "b" / "manifest.json")["runs"][0]


@pytest.mark.test_all
def test_threads(qkscope, tmp_path):
    state = make_state.make_state(synthetic(tmp_path / "c", 1), tmp_path / "s", reservoir=2)
    for threads in (1, 4):
        analyze(qkscope, state, tmp_path / str(threads), "--ci", 95, "--threads", threads)
    one, four = (read_bytes(tmp_path / threads, *MOMENTS, *PLASTICITY) for threads in "14")
    assert one == four


# ---- a reservoir -----------------------------------------------------------------------------

def test_reservoir_of_the_example(of_rows, of_reservoir):
    """What queries' and keys' moments say stays exact, whatever rows are held."""
    for table in MOMENTS:
        compare("reservoir", table, *(read_csv(folder / table) for folder in (of_reservoir, of_rows)))
    exact = ["n_q", "n_k", "d", "q_R2_pos", "beta_norm", "bucket_width"]
    compare("reservoir", "head_metrics.csv", *([{c: r[c] for c in exact} for r in read_csv(folder / "head_metrics.csv")]
                                               for folder in (of_reservoir, of_rows)))
    compare("reservoir", "head_profile.csv", *(read_csv(folder / "head_profile.csv") for folder in (of_reservoir, of_rows)),
            skip=["n_pairs", "ap"])


@pytest.mark.test_all
def test_sampling_error(qkscope, tmp_path):
    """ap_overall of all rows is within 4 standard errors of that of a reservoir, about as often as it should be; of
    40 captures, and reservoirs of 2 to 8. Near 0 few pairs make all of it, and a reservoir that lacks them knows no better."""
    ratios, near_zero = [], []
    for number in range(SYNTHETIC):
        capture = synthetic(tmp_path / f"c{number}", number)
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
                (near_zero if ap < 0.01 else ratios).append((row["ap_overall"] - ap) / row["ap_overall_se"])
        shutil.rmtree(capture)
    ratios = np.array(ratios)
    print(f"\n{len(ratios)} heads: rms {np.sqrt((ratios ** 2).mean()):.2f}, mean {ratios.mean():+.2f}, most "
          f"{abs(ratios).max():.2f}, above 4: {(abs(ratios) > 4).mean():.3f}")
    assert len(ratios) > 60
    assert (abs(ratios) > 4).mean() <= 0.02 and (abs(ratios) > 2).mean() <= 0.12
    assert 0.5 < np.sqrt((ratios ** 2).mean()) < 1.5


def test_buckets_cut_anew(qkscope, tmp_path, reservoir):
    """They are cut from the positions of all rows, though the last one is not held."""
    cut = []
    for capture, out in ((EXAMPLE, "rows"), (reservoir, "out")):
        analyze(qkscope, capture, tmp_path / out, "--buckets", 7, "--layers", 1, command="plasticity")
        cut.append(read_json(tmp_path / out / "manifest.json")["runs"][0]["buckets"])
    assert cut[0] == cut[1] and cut[0]["last_position"] == 1023
    inputs = read_json(tmp_path / "out" / "manifest.json")["runs"][0]["inputs"]
    assert any(i["file"].startswith("moments/") and i["xxh3_128"] for i in inputs)
    assert all(row["ap_overall_se"] > 0 for row in read_csv(tmp_path / "out" / "head_metrics.csv"))


def test_one_row_of_a_bucket(qkscope, tmp_path):
    state = make_state.make_state(synthetic(tmp_path / "c", 1), tmp_path / "s", reservoir=1)
    assert "no two keys of one bucket" in analyze(qkscope, state, tmp_path / "out").err


# ---- what is empty, and what is refused ------------------------------------------------------

def test_manifest(qkscope, tmp_path, state):
    done = analyze(qkscope, state, tmp_path / "out", "--lda")
    assert "plasticity is left out; capture with --keep moments,reservoir=8" in done.err
    assert "lda_accuracy needs all rows and stays empty" in done.err
    run, = read_json(tmp_path / "out" / "manifest.json")["runs"]
    assert run["kept"]["rows"] == "none" and run["kept"]["groups"] == 16
    named = [e["columns"] for e in run["kept"]["empty"]]
    assert named == ["heads.csv: lda_accuracy", "heads.csv: octave_r_q, octave_r_k", f"heads.csv: {', '.join(FIRST)}",
                     "rotated.csv: omega, omega_r_squared"]
    assert all(e["reason"] for e in run["kept"]["empty"])
    files = {i["file"]: i for i in run["inputs"]}
    assert sorted(files) == [f"moments/l{i:02d}.safetensors" for i in range(5)]
    assert all(i["xxh3_128"] and i["bytes"] == (state / f).stat().st_size for f, i in files.items())
    assert run["settings"]["analyses"] == ["pca", "rotation"]
    schema = read_json(tmp_path / "out" / "schema.json")
    assert "head_metrics.csv" not in schema


def test_results_of_one_folder(qkscope, tmp_path, reservoir):
    """A second command adds its tables, and only plasticity reads rows; those of another capture are refused."""
    out = tmp_path / "out"
    for command in ("pca", "plasticity", "rotate"):
        analyze(qkscope, reservoir, out, "--layers", 0, command=command)
    runs = read_json(out / "manifest.json")["runs"]
    assert [len([i for i in r["inputs"] if i["file"].endswith(".parquet")]) for r in runs] == [0, 6, 0]
    columns = {c["name"] for c in read_json(out / "schema.json")["head_metrics.csv"]["columns"]}
    assert "ap_overall_se" in columns
    other = make_state.make_state(synthetic(tmp_path / "c", 1), tmp_path / "other")
    assert "holds results of another capture" in qkscope("pca", other, "-o", out, expect=1).err


@pytest.mark.cases(4)
@pytest.mark.parametrize("command, of, words", [
    ("pca --max-samples 10", "reservoir", ["--max-samples", "--keep rows"]), ("plasticity", "state", ["reservoir=8"]),
    ("compare-stages", "reservoir", ["needs all rows"]), ("scatter", "state", ["l00.safetensors", "moments and no rows"]),
])
def test_commands_that_need_rows(qkscope, tmp_path, request, command, of, words):
    capture, (name, *options) = request.getfixturevalue(of), command.split()
    captures = [capture] * (2 if name == "compare-stages" else 1)
    err = qkscope(name, *captures, "-o", tmp_path / "out", *options, expect=1).err
    assert all(word in err for word in words) and not (tmp_path / "out").exists()


@pytest.mark.test_all
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
    assert told["kept"] == {"rows": "none", "reservoir": 0, "moments": True, "attention": False, "groups": 16, "summed": 27902,
                            "files": 5, "bytes": bytes_}
    assert told["rows"] == 0 and told["heads"][0]["summed"] == 949
    told = json.loads(qkscope("inspect", reservoir, "--json", expect=0).out)
    assert told["kept"]["reservoir"] == 2 and told["rows"] == 25094 and told["kept"]["summed"] == 27902
    assert "kept" not in json.loads(qkscope("inspect", EXAMPLE, "--json", expect=0).out)


HELD = "at most 2 keys of each bucket and text, which alone "


def test_where_plasticity_is_from(qkscope, tmp_path, of_rows, of_reservoir):
    """model_report.csv, terminal, JSON, page and findings say how few keys plasticity is from, and what that costs; of a
    capture of rows none does."""
    errors = [r["ap_overall_se"] for r in read_csv(of_reservoir / "head_metrics.csv")]
    mean = sum(errors) / len(errors)
    assert len(errors) == 20 and 0 < mean < 0.1
    assert not any("ap_overall_se" in r for r in read_csv(of_rows / "head_metrics.csv"))
    (report,), (without,) = (read_csv(folder / "model_report.csv") for folder in (of_reservoir, of_rows))
    assert report["ap_overall_se"] == pytest.approx(mean, rel=1e-12) and report["reservoir"] == 2
    assert not {"reservoir", "ap_overall_se"} & set(without)
    state = make_state.make_state(synthetic(tmp_path / "c", 1), tmp_path / "s", reservoir=2)
    said = qkscope("plasticity", state, "-o", tmp_path / "out", expect=0).out
    told = json.loads(qkscope("plasticity", state, "-o", tmp_path / "json", "--json", expect=0).out)["plasticity"]
    (report,) = read_csv(tmp_path / "out" / "model_report.csv")
    assert told["reservoir"] == 2 and told["ap_overall_se"] == pytest.approx(report["ap_overall_se"], rel=1e-12)
    assert f"at most   {told['ap_overall_se']:.3f} (from choosing 2 keys of each bucket and text)" in said
    page = page_drawn(qkscope, of_reservoir)
    assert "moments of all rows, and up to 2 rows" in page and "omega, omega_r_squared" in page
    lead = plain(re.search(r'<p class="lead"[^>]*>(.*?)</p>', page, re.S)[1])
    assert f"Plasticity is from {HELD}gives it a standard error of up to {mean:.2g}." in lead
    assert headlines((of_reservoir / "report.html").read_text())[0]["ap_overall_se"] == pytest.approx(mean, rel=1e-6)
    assert "keys of each bucket and text" not in page_drawn(qkscope, of_rows).split('id="methods"')[0]
    analyze(qkscope, make_state.make_state(tmp_path / "c", tmp_path / "m"), tmp_path / "moments", "--pairs", 2)
    assert "moments of all rows, and no rows" in page_drawn(qkscope, tmp_path / "moments")


@pytest.mark.test_all
def test_study(qkscope, tmp_path):
    """Rows, moments and a reservoir side by side: tables that some do not have, a column that one has."""
    capture = synthetic(tmp_path / "c", 1)
    state = make_state.make_state(capture, tmp_path / "state")
    reservoir = make_state.make_state(capture, tmp_path / "reservoir", reservoir=2)
    study, out = tmp_path / "study.yaml", tmp_path / "out"
    study.write_text("models:\n" + "".join(f"  - {{name: {name}, source: {source}}}\n" for name, source in (
        ("rows", capture), ("moments", state), ("reservoir", reservoir))))
    assert "failed" not in qkscope("study", study, "-o", out, "--format", "svg", expect=0, timeout=600).err
    assert list(dict.fromkeys(r["model"] for r in read_csv(out / "heads.csv"))) == ["rows", "moments", "reservoir"]
    with open(out / "head_metrics.csv", newline="") as file:
        metrics = list(csv.DictReader(file))
    assert {r["model"]: (r["reservoir"], r["ap_overall_se"] != "") for r in metrics} == {
        "rows": ("", False), "reservoir": ("2", True)}
    with open(out / "models" / "rows" / "head_metrics.csv", newline="") as file:
        for own, joint in zip(csv.DictReader(file), metrics):
            assert own == {c: v for c, v in joint.items() if c not in ("reservoir", "ap_overall_se")}
    with open(out / "model_report.csv", newline="") as file:
        assert [r["reservoir"] for r in csv.DictReader(file)] == ["", "2"]
    again = qkscope("study", study, "-o", out, "--format", "svg", expect=0, timeout=600)
    assert again.out.count(" kept ") == 3
    file = state / "moments" / "l00.safetensors"
    file.write_bytes(file.read_bytes()[:-8] + bytes(8))
    again = qkscope("study", study, "-o", out, "--dry-run", expect=0)
    assert "moments/l00.safetensors has changed" in again.out + again.err
