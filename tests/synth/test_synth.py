# SPDX-License-Identifier: Apache-2.0
"""What `qkscope synth` writes down as truth is what its rows show."""
import csv
import json
import math
import os
import pathlib
import resource
import subprocess

import numpy as np
import pytest

pq = pytest.importorskip("pyarrow.parquet")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")) / "qkscope"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def synth(folder, **options):
    words = []
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    subprocess.run([PROGRAM, "synth", "-o", folder, "--quiet"] + words, check=True)
    return folder


def load(folder, name):
    tables = [pq.read_table(f) for f in sorted((folder / name).glob("*.parquet"))]
    table = {c: np.concatenate([t[c].to_numpy(zero_copy_only=False) for t in tables])
             for c in ("bucket", "example_id", "position")}
    vectors = [t["vector"].combine_chunks().flatten().to_numpy().reshape(len(t), -1)
               for t in tables]
    table["vector"] = np.concatenate(vectors).astype(np.float64)
    return table


def truth_of(folder):
    truth = json.loads((folder / "truth.json").read_text())
    truth["heads"] = {head["name"]: head for head in truth["heads"]}
    return truth


def covariance(head):
    basis = np.array(head["basis"])
    return basis.T @ np.diag(head["eigenvalues"]) @ basis


@pytest.fixture(scope="module")
def capture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synth") / "c"
    return synth(folder, layers=2, query_heads=4, q_per_kv_group=2, dim=24, examples=40,
                 rows=1000, float32=True, truth_matrices=True, seed=11)


def test_parameters_obey_the_model(capture):
    truth = truth_of(capture)
    assert len(truth["heads"]) == 12
    for head in truth["heads"].values():
        basis = np.array(head["basis"])
        assert np.allclose(basis @ basis.T, np.eye(24), atol=1e-12)
        assert np.mean(head["eigenvalues"]) == pytest.approx(head["scale"] ** 2)
        assert head["eigenvalues"] == sorted(head["eigenvalues"], reverse=True)
        a = np.array(head["a"])
        assert np.linalg.norm(a) == pytest.approx(1)
        for plane in head["planes"]:
            x, y = plane["coordinates"]
            assert y == x + 12 and a[x] == 0 and a[y] == 0
            assert plane["omega"] == pytest.approx(10000 ** (-2 * x / 24))
        content = a @ covariance(head) @ a
        drift = head["alpha"] ** 2 * truth["position_variance"]
        r = math.copysign(math.sqrt(drift / (drift + content)), head["alpha"])
        assert head["r"] == pytest.approx(r)
        assert abs(head["r"]) <= math.tanh(3)


def test_pairs(capture):
    truth = truth_of(capture)["heads"]
    for name, head in truth.items():
        if name.endswith("k"):
            assert "pair" not in head
            continue
        pair = head["pair"]
        key = truth[pair["key_head"]]
        assert pair["key_head"] == f"{name[:3]}h{int(name[4:6]) // 2:02d}k"
        assert head["a"] == key["a"]
        a, q, k = np.array(head["a"]), np.array(head["mean"]), np.array(key["mean"])
        assert pair["separation"] == pytest.approx(np.linalg.norm(q - k))
        assert 1 <= pair["separation"] / head["scale"] <= 16
        assert pair["mu_q_a"] == pytest.approx(q @ a)
        assert pair["mu_k_a"] == pytest.approx(k @ a)
        assert pair["bias_strength"] == pytest.approx(q @ a * key["alpha"])
        assert pair["alpha_product"] == pytest.approx(head["alpha"] * key["alpha"])


def test_rows_show_the_expected_values(capture):
    """Means, slopes, correlation and covariance within 5 standard errors."""
    truth = truth_of(capture)
    worst = {"mean": 0.0, "slope": 0.0, "r": 0.0, "covariance": 0.0}
    for name, head in truth["heads"].items():
        rows = load(capture, name)
        x, t, n = rows["vector"], rows["position"].astype(float), len(rows["position"])
        sd_x, var_t = x.std(axis=0), t.var()
        expected = head["expected"]
        z = (x.mean(axis=0) - expected["mean"]) / (sd_x / math.sqrt(n))
        worst["mean"] = max(worst["mean"], np.abs(z).max())
        slope = (x - x.mean(axis=0)).T @ (t - t.mean()) / n / var_t
        z = (slope - expected["slope"]) / (sd_x / math.sqrt(n * var_t))
        worst["slope"] = max(worst["slope"], np.abs(z).max())
        r = np.corrcoef(x @ head["a"], t)[0, 1]
        z = (np.arctanh(r) - np.arctanh(head["r"])) * math.sqrt(n - 3)
        worst["r"] = max(worst["r"], abs(z))
        total = x.var(axis=0).sum()
        assert total == pytest.approx(expected["total_variance"], rel=0.03)
        linear = var_t * (slope @ slope) / total
        assert linear == pytest.approx(expected["linear_variance_fraction"], rel=0.1, abs=0.01)
        # What is left when everything deterministic is taken away is pure content.
        u = t - truth["position_center"]
        rest = x - np.array(head["mean"]) - np.outer(head["alpha"] * u, head["a"])
        for plane in head["planes"]:
            angle = plane["omega"] * t + plane["phase"]
            i, j = plane["coordinates"]
            rest[:, i] -= plane["amplitude"] * np.cos(angle)
            rest[:, j] -= plane["amplitude"] * np.sin(angle)
        want = covariance(head)
        error = np.sqrt((np.outer(np.diag(want), np.diag(want)) + want ** 2) / n)
        worst["covariance"] = max(worst["covariance"],
                                  np.abs((rest.T @ rest / n - want) / error).max())
    print(worst)
    assert max(worst.values()) < 5


def test_frequencies_are_found_in_the_rows(tmp_path):
    """The periodogram of a plane's coordinates peaks at its frequency."""
    wanted = [1.3, 0.21, 0.013]
    folder = synth(tmp_path / "c", layers=1, query_heads=1, q_per_kv_group=1, dim=16, rows=2048,
                   frequencies=",".join(map(str, wanted)), rope_amplitude=1.5, seed=3)
    for name, head in truth_of(folder)["heads"].items():
        assert [plane["omega"] for plane in head["planes"]] == wanted
        rows = load(folder, name)
        for plane in head["planes"]:
            i, j = plane["coordinates"]
            signal = rows["vector"][:, i] + 1j * rows["vector"][:, j]
            signal -= signal.mean()
            grid = plane["omega"] + np.linspace(-0.003, 0.003, 121)
            power = np.abs(np.exp(-1j * np.outer(grid, rows["position"])) @ signal)
            assert abs(grid[power.argmax()] - plane["omega"]) < 2e-4
            phase = np.angle((np.exp(-1j * plane["omega"] * rows["position"]) * signal).mean())
            assert abs(np.angle(np.exp(1j * (phase - plane["phase"])))) < 0.1


def test_positions(tmp_path):
    """Ascending without repeats in each example, even over the buckets, apart for q and k."""
    folder = synth(tmp_path / "c", layers=1, query_heads=1, q_per_kv_group=1, dim=4, examples=3,
                   rows=130, buckets=6, bucket_width=32, position_offset=1000000,
                   sliding_window=512, rope_planes=1)
    seen = {}
    for name in ("l00h00q", "l00h00k"):
        rows = load(folder, name)
        assert np.array_equal(rows["example_id"], np.repeat(np.arange(3), 130))
        assert np.array_equal(rows["bucket"], (rows["position"] - 1000000) // 32)
        for example in range(3):
            mine = rows["example_id"] == example
            assert (np.diff(rows["position"][mine]) > 0).all()
            counts = np.bincount(rows["bucket"][mine], minlength=6)
            assert sorted(counts) == [21, 21, 22, 22, 22, 22]
        seen[name] = rows["position"].tolist()
        window = pq.read_table(folder / name / "data.parquet")["sliding_window"]
        assert set(window.to_pylist()) == {512}
    assert seen["l00h00q"] != seen["l00h00k"]


def test_all_positions(tmp_path):
    folder = synth(tmp_path / "c", layers=1, query_heads=1, q_per_kv_group=1, dim=4, examples=1,
                   rows=192, buckets=6, bucket_width=32, rope_planes=1)
    assert load(folder, "l00h00q")["position"].tolist() == list(range(192))


def test_overrides(tmp_path):
    folder = synth(tmp_path / "c", layers=1, dim=8, r_q=0.5, r_k=-0.25, separation=3, scale=2,
                   mean_offset=1000, exponent=0, rope_planes=0, examples=1)
    for name, head in truth_of(folder)["heads"].items():
        assert head["r"] == pytest.approx(0.5 if name.endswith("q") else -0.25)
        assert np.allclose(head["eigenvalues"], 4)
        if name.endswith("k"):
            assert np.linalg.norm(head["mean"]) == pytest.approx(2000)
        else:
            assert head["pair"]["separation"] == pytest.approx(6)
    folder = synth(tmp_path / "s", layers=1, dim=8, slope_q=0.001, slope_k=-0.002, examples=1)
    for name, head in truth_of(folder)["heads"].items():
        assert head["alpha"] == (0.001 if name.endswith("q") else -0.002)


def test_an_override_leaves_the_rest_alone(tmp_path):
    one = truth_of(synth(tmp_path / "1", layers=1, dim=8, examples=1))["heads"]
    two = truth_of(synth(tmp_path / "2", layers=1, dim=8, examples=1, r_k=0.1))["heads"]
    for name in one:
        assert one[name]["mean"] == two[name]["mean"]
        assert one[name]["planes"] == two[name]["planes"]


def test_bfloat16(tmp_path):
    options = dict(layers=1, query_heads=1, q_per_kv_group=1, dim=8, examples=1)
    rounded = load(synth(tmp_path / "b", **options), "l00h00q")["vector"].astype(np.float32)
    exact = load(synth(tmp_path / "f", float32=True, **options), "l00h00q")["vector"]
    assert (rounded.view(np.uint32) & 0xFFFF == 0).all()
    assert np.abs(rounded - exact).max() <= np.abs(exact).max() * 2 ** -8
    bits = exact.astype(np.float32).view(np.uint32).astype(np.uint64)
    nearest = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    assert np.array_equal(nearest.astype(np.uint32), rounded.view(np.uint32))


def read_all(folder):
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*")) if p.is_file()}


def test_threads_do_not_change_bytes(tmp_path):
    options = dict(layers=2, dim=16, examples=2, token_strings=True, seed=5)
    one = read_all(synth(tmp_path / "1", threads=1, **options))
    for threads in (2, 7):
        assert read_all(synth(tmp_path / str(threads), threads=threads, **options)) == one
    again = read_all(synth(tmp_path / "other", threads=1, **dict(options, seed=6)))
    assert again["l00h00q/data.parquet"] != one["l00h00q/data.parquet"]


def test_shards_hold_the_same_rows(tmp_path):
    options = dict(layers=1, query_heads=1, q_per_kv_group=1, dim=8, examples=3, rows=333)
    one = load(synth(tmp_path / "1", **options), "l00h00k")
    folder = synth(tmp_path / "4", shards=4, **options)
    files = sorted(p.name for p in (folder / "l00h00k").iterdir())
    assert files == [f"data-{i:05d}-of-00004.parquet" for i in range(4)]
    many = load(folder, "l00h00k")
    for column in one:
        assert np.array_equal(one[column], many[column])
    assert "path: l00h00k/*.parquet" in (folder / "README.md").read_text()


def test_token_strings_belong_to_the_token(tmp_path):
    folder = synth(tmp_path / "c", layers=1, query_heads=1, q_per_kv_group=1, dim=4, rows=500,
                   buckets=4, rope_planes=0, token_strings=True)
    words = {}
    for name in ("l00h00q", "l00h00k"):
        table = pq.read_table(folder / name / "data.parquet").to_pydict()
        for place in zip(table["example_id"], table["position"], table["token_str"]):
            assert words.setdefault(place[:2], place[2]) == place[2]


@pytest.mark.parametrize("options,word", [
    (["--layers", "1", "--query-heads", "3", "--q-per-kv-group", "2"], "multiple"),
    (["--rows", "3000"], "rows_per_example"),
    (["--dim", "4", "--rope-planes", "2"], "rope_planes"),
    (["--r-q", "1"], "--r-q"),
    (["--position-offset", "2000000000", "--buckets", "2000000"], "last position"),
    (["--frequencies", "0.1,,2"], "frequencies"),
    (["--codec", "lzo"], "--codec"),
    (["--codec", "gzip", "--level", "15"], "level 15"),
])
def test_bad_settings(tmp_path, options, word):
    result = subprocess.run([PROGRAM, "synth", "-o", tmp_path / "c"] + options,
                            capture_output=True, text=True)
    assert result.returncode == 2
    assert word in result.stderr
    assert not (tmp_path / "c").exists()


def test_a_full_folder_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    result = subprocess.run([PROGRAM, "synth", "-o", tmp_path], capture_output=True, text=True)
    assert result.returncode == 1
    assert "not empty" in result.stderr and "choose another" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("options", [[], ["--layout", "packed"], ["--shards", "2"]])
def test_a_full_disk_leaves_nothing(tmp_path, options):
    command = [PROGRAM, "synth", "-o", tmp_path / "c", "--layers", "2", "--rows", "300", *options]

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
    result = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, restore_signals=False)
    assert result.returncode == 1 and "File too large" in result.stderr, result
    assert not (tmp_path / "c").exists()
    subprocess.run(command, check=True, capture_output=True)


def test_no_rows(tmp_path):
    folder = synth(tmp_path / "c", layers=1, query_heads=1, q_per_kv_group=1, examples=0)
    assert pq.read_table(folder / "l00h00q" / "data.parquet").num_rows == 0


def test_pca_finds_the_truth(capture, tmp_path):
    """The whole way: rows written, read and analysed agree with what they were drawn from."""
    subprocess.run([PROGRAM, "pca", capture, "-o", tmp_path, "--quiet"], check=True)
    truth = truth_of(capture)["heads"]
    with open(tmp_path / "heads.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    for row in rows:
        query = truth[f"l{int(row['layer']):02d}h{int(row['q_head']):02d}q"]
        key = truth[query["pair"]["key_head"]]
        assert int(row["k_head"]) == int(key["name"][4:6])
        for column, head in (("lin_var_q", query), ("lin_var_k", key)):
            wanted = head["expected"]["linear_variance_fraction"]
            assert float(row[column]) == pytest.approx(wanted, rel=0.05, abs=0.003)


def test_what_it_says(qkscope, tmp_path):
    words = ["synth", tmp_path / "c", "--layers", "1", "--query-heads", "4", "--q-per-kv-group", "2", "--dim", "8",
             "--examples", "3", "--rows", "5", "--json"]
    assert json.loads(qkscope(*words, expect=0).out) == {
        "output": str(tmp_path / "c"), "query_heads": 4, "key_heads": 2, "rows_per_head": 15, "dim": 8}
    assert "Give -o DIR" in qkscope("synth", "--rows", "5", expect=2).err
