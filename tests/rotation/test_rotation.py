# SPDX-License-Identifier: Apache-2.0
"""rotated.csv and complement.csv against the NumPy oracle, on real and made-up captures.
`pytest -s` prints the worst deviation of every column."""
import csv
import json
import math
import shutil

import numpy as np
import pytest
from conftest import EXAMPLE, Agreement, head_name, head_pairs, read_bytes, read_csv, read_json, write_head

pytest.importorskip("pyarrow")
oracle = pytest.importorskip("rotation_oracle")

IDS = ["model", "layer", "q_head", "k_head"]
CONTEXT = "bias_over_context"
HEADER = [*IDS, *(c for c in oracle.COLUMNS if c != CONTEXT), "n_q", "n_k", CONTEXT]
COMPLEMENT = [*IDS, "pair", "variance_share", "angle_r", "omega", "resultant", "rope_frequency"]
SHAKE = 1e-10
# Relative size of the rounding errors of a matrix of moments, with some room.
ROUNDING = 1e-14
OVERALL = Agreement()


@pytest.fixture(scope="module", autouse=True)
def report_overall():
    yield
    OVERALL.check("worst of all captures")


def header_of(path):
    with open(path, newline="") as file:
        return next(csv.reader(file))


# ---- comparing -------------------------------------------------------------------------------

def scales(truth):
    """A number may be small because large ones cancel, or because an axis is nearly at a right
    angle to what it measures: what it is then compared with."""
    sizes = {}
    for kind, side in (("q", truth.q), ("k", truth.k)):
        sd, sd_t = math.sqrt(side.trace), math.sqrt(side.var_t) or 1.0
        sizes[f"mu_{kind}_a"] = sizes[f"mu_{kind}_b"] = math.hypot(
            np.linalg.norm(side.mean), sd)
        sizes[f"alpha_{kind}"] = sd / sd_t
        sizes[f"r_{kind}_a"] = 1.0
    sizes["bias_strength"] = sizes["mu_q_a"] * sizes["alpha_k"]
    sizes["bias_over_context"] = sizes["bias_strength"] * (max(map(max, truth.raw_t)) + 1)
    return {name: 1e-3 * size for name, size in sizes.items()}


def compare_head(row, truth, shaken, seen, place):
    assert (row["n_q"], row["n_k"]) == (truth.n_q, truth.n_k)
    if truth.a is None:
        assert all(row[c] is None for c in oracle.COLUMNS), (place, row)
        return
    size = scales(truth)
    turned = truth.b is not None and b_sign_is_open(truth)
    for column in oracle.COLUMNS:
        want, got = truth.numbers[column], row[column]
        if column == "residual_pos_r":
            assert got is None if want is None else 0 <= got < 1e-10, (place, got)
            continue
        if column in ("omega", "omega_r_squared"):
            continue
        if turned and column in ("mu_q_b", "mu_k_b"):
            got, want = abs(got), abs(want)
        moved = 0.0 if want is None else abs(shaken.numbers[column] - want) / SHAKE
        seen.add(column, got, want, place, size.get(column), ROUNDING * moved)
    compare_wave(row, truth, shaken, seen, place)


def b_sign_is_open(truth):
    reach = np.linalg.norm(truth.q.mean) + np.linalg.norm(truth.k.mean)
    return abs(truth.b_side) < 1e-12 * (reach + math.sqrt(truth.pooled.trace))


def compare_wave(row, truth, shaken, seen, place):
    """omega is the maximum that refining the best of the coarse grid leads to; where two
    maxima are that nearly equal, either one."""
    if truth.numbers["omega"] is None:
        assert row["omega"] is None and row["omega_r_squared"] is None, place
        return
    wave = truth.wave
    moved = abs(shaken.wave.coarse - wave.coarse) / SHAKE
    if abs(row["omega"] - wave.coarse) > 1e-6 * wave.coarse:
        seen.notes["sinusoid: another maximum, as high"] += 1
        got, want = (wave.r_squared_at(w) for w in (row["omega"], wave.coarse))
        assert abs(got - want) < 1e-9, (place, row["omega"])
        assert abs(wave.derivative(row["omega"] * wave.stride)) < 1e-9 * np.ptp(wave.t), place
    else:
        seen.add("omega", row["omega"], wave.coarse, place, rounding=ROUNDING * moved)
    seen.add("omega_r_squared", row["omega_r_squared"], wave.r_squared_at(row["omega"]),
             place)
    lost = wave.r_squared - row["omega_r_squared"]
    if lost > 1e-9:
        seen.notes[f"sinusoid: maximum missed by more than 1e-9 (worst here {lost:.1e})"] += 1


def gap_around(truth, p):
    """Distance of a pair's eigenvalues from the others, relative to the largest."""
    v, gaps = truth.values, [1.0]
    if p > 0:
        gaps.append((v[2 * p - 1] - v[2 * p]) / v[0])
    if 2 * p + 2 < len(v):
        gaps.append((v[2 * p + 1] - v[2 * p + 2]) / v[0])
    return min(gaps)


def compare_pairs(rows, truth, shaken, seen, place):
    assert [row["pair"] for row in rows] == list(range(len(truth.pairs))), place
    for p, (row, want, moved) in enumerate(zip(rows, truth.pairs, shaken.pairs)):
        where = f"{place} pair {p}"
        seen.add("variance_share", row["variance_share"], want["variance_share"], where,
                 scale=1e-5)
        if want["omega"] is None:
            assert row["angle_r"] is None and row["omega"] is None, (where, row)
            assert row["resultant"] is None and row["rope_frequency"] is None, (where, row)
        elif gap_around(truth, p) < 1e-9:
            seen.notes["pairs that mix with others"] += 1
        else:
            compare_turn(row, want, moved, seen, where)


def compare_turn(row, want, moved, seen, where):
    turn = want["turn"]
    assert row["rope_frequency"] == (row["omega"] if turn.is_known else None), (where, row)
    others = [abs(w) / turn.stride for w, r in turn.maxima if r > want["resultant"] - 1e-9]
    if len(others) > 1:
        seen.notes["pairs with several highest maxima"] += 1
    omega = min(others, key=lambda w: abs(w - row["omega"]))
    shift = {c: ROUNDING * abs(moved[c] - want[c]) / SHAKE for c in ("resultant", "angle_r")}
    shift["omega"] = ROUNDING * abs(moved["omega"] - want["omega"]) / SHAKE
    seen.add("complement omega", row["omega"], omega, where, rounding=shift["omega"])
    seen.add("resultant", row["resultant"], want["resultant"], where,
             rounding=shift["resultant"])
    if len(others) > 1 or turn.margin < 1e-6 or moved["turn"].margin < 1e-6:
        seen.notes["unwrapped angles with a step of half a turn"] += 1
    else:
        seen.add("angle_r", row["angle_r"], want["angle_r"], where, scale=1e-2,
                 rounding=shift["angle_r"])


def frequencies_of(capture, layer):
    """`rope_frequencies` of capture.json: one list, or one for each layer."""
    path = capture / "capture.json"
    known = read_json(path).get("rope_frequencies") if path.exists() else None
    return known.get(str(layer)) if isinstance(known, dict) else known


def check_capture(qkscope, capture, out, group, title, options=(), complement=True,
                  b_axis="pairs", pairs=30):
    arguments = ["rotate", capture, "-o", out, *options]
    if complement:
        arguments += ["--complement", "--pairs", pairs]
    qkscope(*arguments, "--b-axis", b_axis, expect=0)
    assert header_of(out / "rotated.csv") == HEADER
    table, seen = read_csv(out / "rotated.csv"), Agreement()
    complements = {}
    if complement:
        assert header_of(out / "complement.csv") == COMPLEMENT
        for row in read_csv(out / "complement.csv"):
            complements.setdefault((row["layer"], row["q_head"]), []).append(row)
    for (layer, head, q, k), row in zip(head_pairs(capture, group), table):
        place = f"{title} {head_name(layer, head, 'q')}"
        assert (row["layer"], row["q_head"], row["k_head"]) == (layer, head, head // group)
        rows = q["vector"], q["position"], k["vector"], k["position"]
        known = frequencies_of(capture, layer) or ()
        truth, shaken = (oracle.Rotation(*rows, b_axis=b_axis, pairs=pairs * complement,
                                         shake=shake, known=known) for shake in (0, SHAKE))
        compare_head(row, truth, shaken, seen, place)
        if complement:
            compare_pairs(complements.pop((layer, head), []), truth, shaken, seen, place)
    assert not complements
    OVERALL.merge(seen)
    seen.check(title)
    return table


# ---- the oracle itself -----------------------------------------------------------------------

def small_head(seed=1, n_q=40, n_k=30, d=6):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.choice(400, n_q, replace=False)), np.sort(rng.choice(400, n_k, replace=False))
    x = [rng.standard_normal((len(s), d)) + 0.01 * np.outer(s, rng.standard_normal(d)) + i
         for i, s in enumerate(t)]
    return x[0], t[0], x[1], t[1]


def test_oracle_mean_over_all_pairs():
    xq, tq, xk, tk = small_head()
    truth = oracle.Rotation(xq, tq, xk, tk)
    apart = (xq[:, None] - xk[None]).reshape(-1, xq.shape[1])
    assert np.allclose(truth.between(), apart.T @ apart / len(apart), rtol=1e-12, atol=1e-13)
    b, n = truth.b, truth.numbers
    parts = 2 * n["content_var_b"] + (n["mu_q_b"] - n["mu_k_b"]) ** 2
    assert math.isclose(b @ truth.between() @ b, parts, rel_tol=1e-12)
    assert abs(truth.a @ b) < 1e-14


def test_oracle_nothing_off_a_follows_position():
    xq, tq, xk, tk = small_head()
    a = oracle.Rotation(xq, tq, xk, tk).a
    x, t = np.concatenate([xq, xk]), np.concatenate([tq, tk])
    slope = np.linalg.lstsq(np.stack([t, np.ones(len(t))], axis=1), x, rcond=None)[0][0]
    assert np.allclose(a, slope / np.linalg.norm(slope), atol=1e-13)


def test_oracle_finds_a_sinusoid():
    t = np.arange(0, 900, 7)
    wave = oracle.Sinusoid(3 * np.cos(0.05 * t) - np.sin(0.05 * t) + 2, t)
    assert math.isclose(wave.omega, 0.05, rel_tol=1e-11)
    assert math.isclose(wave.r_squared, 1, rel_tol=1e-12)
    assert math.isclose(wave.coarse, 0.05, rel_tol=1e-11)


@pytest.mark.parametrize("omega", [0.003, 0.5, 3.0, -0.02, -3.1])
def test_oracle_finds_a_turn(omega):
    """Queries and keys half a turn apart; among known frequencies, and without any within an eighth of a turn."""
    t = np.arange(1000), np.arange(0, 1000, 3)
    planes = [np.stack([np.cos(omega * s + p), np.sin(omega * s + p)], axis=1)
              for s, p in zip(t, (0, math.pi))]
    turn = oracle.Turn(planes[0], t[0], planes[1], t[1], [0, 0.1, abs(omega), 1.0])
    assert turn.omega == abs(omega) and turn.is_known
    assert math.isclose(turn.resultant, 1) and math.isclose(turn.angle_r(), 1)
    turn = oracle.Turn(planes[0], t[0], planes[1], t[1])
    assert abs(turn.omega - abs(omega)) <= 2 * math.pi / 8 / 999 and 0.92 < turn.resultant <= 1


# ---- real captures ---------------------------------------------------------------------------

def test_heads_of_the_example(qkscope, tmp_path):
    table = check_capture(qkscope, EXAMPLE, tmp_path / "out", 2, "heads of the example", ["--layers", 0, "--heads", "0-1"], pairs=2)
    assert len(table) == 2


@pytest.mark.test_all
def test_example_capture(qkscope, tmp_path):
    table = check_capture(qkscope, EXAMPLE, tmp_path / "out", 2, "examples/kjv-tiny-capture", b_axis="centroid")
    assert len(table) == 20


@pytest.mark.test_all
def test_real_capture(qkscope, shared_data, tmp_path):
    """The same rows by two writers: the same bytes, so one of them is compared."""
    tables = []
    for writer in ("duckdb", "arrow-rs"):
        folder = shared_data("kjv-tiny-capture") / writer
        out = tmp_path / f"bytes {writer}"
        qkscope("rotate", folder, "-o", out, "--complement", "--model-name", "m", expect=0)
        tables.append(read_bytes(out, "rotated.csv", "complement.csv"))
    assert tables[0] == tables[1]
    check_capture(qkscope, folder, tmp_path / "out", 2, "kjv-tiny-capture")


@pytest.mark.test_all
def test_frequencies_of_the_example(qkscope, tmp_path):
    """Of the planes that turn best, by a grid, most turn at about a frequency of the model's RoPE: at that, then."""
    capture = tmp_path / "c"
    shutil.copytree(EXAMPLE, capture)
    known = [10000.0 ** (-2 * i / 32) for i in range(16)]
    path = capture / "capture.json"
    told = read_json(path)
    rows = {}
    for name, frequencies in ("grid", None), ("known", known):
        path.write_text(json.dumps({**told, "rope_frequencies": frequencies}))
        qkscope("rotate", capture, "-o", tmp_path / name, "--complement", expect=0)
        rows[name] = read_csv(tmp_path / name / "complement.csv")
    assert all(row["rope_frequency"] in known for row in rows["known"])
    pairs = sorted(zip(rows["grid"], rows["known"]), key=lambda pair: -pair[0]["resultant"])[:40]
    found = [abs(a["omega"] / b["omega"] - 1) < 0.05 for a, b in pairs if a["omega"] > 0.02]
    assert len(found) > 10 and np.mean(found) > 0.8


# ---- made-up rows ----------------------------------------------------------------------------

def draw(rng, n, d, first=0, spacing=3, offset=1.0, drift=1.0, stride=1, turns=()):
    """Around a mean, with a spectrum that falls, a drift, and planes that turn with position."""
    t = first + stride * np.sort(rng.choice(n * spacing, n, replace=False))
    u = (t - t.mean()) / (t.std() or 1)
    x = rng.standard_normal((n, d)) * np.exp(-np.arange(d) / d)
    x += drift * np.outer(u, rng.standard_normal(d))
    for i, omega in enumerate(turns):
        x[:, 2 * i] += (5 - i) * np.cos(omega * t)
        x[:, 2 * i + 1] += (5 - i) * np.sin(omega * t)
    basis = np.linalg.qr(np.random.default_rng(d).standard_normal((d, d)))[0]  # the same of queries and keys
    return x @ basis + offset * rng.standard_normal(d), t


ROWS = {
    "three rows": dict(n_q=3, n_k=3, d=4),
    "three and many": dict(n_q=3, n_k=500, d=5),
    "many rows": dict(n_q=20000, n_k=15000, d=8),
    "fewer rows than dimensions": dict(n_q=32, n_k=30, d=64),
    "d 128": dict(n_q=300, n_k=200, d=128),
    "int64 positions": dict(n_q=40, n_k=40, d=6, first=5 * 10 ** 12, spacing=1),
    "means of 1e4": dict(n_q=300, n_k=200, d=12, dtype=np.float64, offset=1e4),
    "no drift": dict(n_q=300, n_k=200, d=12, drift=0),
    "strong drift": dict(n_q=300, n_k=200, d=12, drift=30),
    "planes that turn": dict(n_q=300, n_k=200, d=12, turns=(0.9, 0.047)),
    "a stride": dict(n_q=50, n_k=60, d=6, stride=5),
    "a stride in a short context": dict(n_q=30, n_k=20, d=6, spacing=1, stride=7),
    "d 1": dict(n_q=50, n_k=60, d=1),
    "d 3": dict(n_q=50, n_k=60, d=3),
    "d 2": dict(n_q=50, n_k=60, d=2),
}


def write_pair(folder, name, n_q, n_k, d, dtype=np.float32, **drawing):
    import pyarrow as pa
    rng = np.random.default_rng(list(name.encode()))
    for kind, n in (("q", n_q), ("k", n_k)):
        x, t = draw(rng, n, d, **drawing)
        write_head(folder, head_name(0, 0, kind), x.astype(dtype), t,
                   position_type=pa.int64() if t.max() > 2 ** 31 else None)


@pytest.mark.cases(4)
@pytest.mark.parametrize("b_axis", ["pairs", "centroid"])
@pytest.mark.parametrize("name", ROWS)
def test_made_up(qkscope, tmp_path, name, b_axis):
    write_pair(tmp_path / "c", name, **ROWS[name])
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, name, b_axis=b_axis,
                  complement=ROWS[name]["n_q"] < 10000)


def test_known_frequencies(qkscope, tmp_path):
    """Planes drawn to turn are found to turn, at the frequencies that capture.json lists, layer by layer or for all; the
    number of pairs is what is asked for and there is."""
    for given, pairs in ((1.0, 0.9, 0.21, 0.047, 0.011), 3), ({"0": [0, 0.21, 0.9], "1": [1.0]}, 100):
        folder = tmp_path / str(pairs)
        write_pair(folder, "known frequencies", n_q=200, n_k=150, d=11, turns=(0.9, 0.21), drift=20)
        (folder / "capture.json").write_text(json.dumps({"format": "qkscope-capture", "rope_frequencies": given}))
        check_capture(qkscope, folder, folder / "out", 1, f"frequencies {given}", pairs=pairs)
        rows = read_csv(folder / "out" / "complement.csv")
        assert len(rows) == min(pairs, 4)
        assert [row["rope_frequency"] for row in rows[:2]] == [0.9, 0.21]
        assert all(row["resultant"] > 0.6 for row in rows[:2])


def test_without_complement(qkscope, tmp_path):
    write_pair(tmp_path / "c", "plain", n_q=60, n_k=50, d=6)
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, "without complement", complement=False)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["manifest.json", "rotated.csv",
                                                                    "schema.json"]


def test_equal_eigenvalues_in_the_complement(qkscope, tmp_path):
    """Planes with exactly the same variance: only the shares mean something."""
    rng = np.random.default_rng(2)
    n, d = 64, 8
    t = np.arange(n)
    basis = np.linalg.qr(np.stack([np.ones(n), t - t.mean(), *rng.standard_normal((d, n))],
                                  axis=1))[0][:, 1:]
    for kind in "qk":
        x = basis[:, :d] * np.array([5, *[1] * (d - 1)]) * 8
        write_head(tmp_path / "c", head_name(0, 0, kind), x + (kind == "q") * np.eye(d)[1], t)
    check_capture(qkscope, tmp_path / "c", tmp_path / "out", 1, "equal eigenvalues")


def test_means_that_agree(qkscope, tmp_path):
    """Equal means: the sign of b is that of its largest entry, and there is no centroid axis."""
    rng = np.random.default_rng(3)
    x = np.round(rng.standard_normal((32, 4)) * 64)
    x = np.concatenate([x, -x])
    t = np.arange(64)
    x[:, 0] = np.where(t < 32, -1.0, 1.0) * np.abs(x[:, 0])
    for kind in "qk":
        write_head(tmp_path / "c", head_name(0, 0, kind), x.astype(np.float64), t)
    rows = []
    for b_axis in ("pairs", "centroid"):
        rows += check_capture(qkscope, tmp_path / "c", tmp_path / b_axis, 1, "equal means",
                              b_axis=b_axis)
    assert rows[0]["separation_strength"] is not None
    assert all(rows[1][c] is None for c in oracle.B_COLUMNS)
