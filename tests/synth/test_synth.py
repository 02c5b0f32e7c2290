# SPDX-License-Identifier: Apache-2.0
"""What `qkscope synth` writes down as truth is what its rows show."""
import json
import math

import numpy as np
import pytest

from conftest import read_json, read_rows, synth

pytestmark = pytest.mark.test_all
pq = pytest.importorskip("pyarrow.parquet")


def truth_of(folder):
    truth = read_json(folder / "truth.json")
    truth["heads"] = {head["name"]: head for head in truth["heads"]}
    return truth


def covariance(head):
    basis = np.array(head["basis"])
    return basis.T @ np.diag(head["eigenvalues"]) @ basis


@pytest.fixture(scope="module")
def capture(qkscope, tmp_path_factory):
    folder = tmp_path_factory.mktemp("synth") / "c"
    synth(qkscope, folder, layers=2, query_heads=4, q_per_kv_group=2, dim=24, examples=40, rows=1000, float32=True,
          truth_matrices=True, seed=11)
    return folder


def test_parameters_obey_the_model(capture):
    truth = truth_of(capture)
    assert len(truth["heads"]) == 12
    for name, head in truth["heads"].items():
        basis, a = np.array(head["basis"]), np.array(head["a"])
        assert np.allclose(basis @ basis.T, np.eye(24), atol=1e-12)
        assert np.mean(head["eigenvalues"]) == pytest.approx(head["scale"] ** 2)
        assert np.linalg.norm(a) == pytest.approx(1)
        for plane in head["planes"]:
            x, y = plane["coordinates"]
            assert y == x + 12 and a[x] == 0 and a[y] == 0
            assert plane["omega"] == pytest.approx(10000 ** (-2 * x / 24))
        drift = head["alpha"] ** 2 * truth["position_variance"]
        r = math.copysign(math.sqrt(drift / (drift + a @ covariance(head) @ a)), head["alpha"])
        assert head["r"] == pytest.approx(r) and abs(r) <= math.tanh(3)
        if name.endswith("q"):
            pair, key = head["pair"], truth["heads"][head["pair"]["key_head"]]
            assert pair["key_head"] == f"{name[:3]}h{int(name[4:6]) // 2:02d}k" and head["a"] == key["a"]
            q, k = np.array(head["mean"]), np.array(key["mean"])
            assert pair["separation"] == pytest.approx(np.linalg.norm(q - k))
            assert (pair["mu_q_a"], pair["mu_k_a"]) == pytest.approx((q @ a, k @ a))
            assert pair["bias_strength"] == pytest.approx(q @ a * key["alpha"])


def test_rows_show_the_expected_values(capture):
    """Means, slopes, correlation and covariance within 5 standard errors."""
    worst = {"mean": 0.0, "slope": 0.0, "r": 0.0, "covariance": 0.0}

    def see(name, z):
        worst[name] = max(worst[name], np.abs(z).max())
    for name, head in truth_of(capture)["heads"].items():
        rows = read_rows(capture, name)
        x, t, n = rows["vector"], rows["position"].astype(float), len(rows["position"])
        sd_x, var_t, expected = x.std(axis=0), t.var(), head["expected"]
        see("mean", (x.mean(axis=0) - expected["mean"]) / (sd_x / math.sqrt(n)))
        slope = (x - x.mean(axis=0)).T @ (t - t.mean()) / n / var_t
        see("slope", (slope - expected["slope"]) / (sd_x / math.sqrt(n * var_t)))
        see("r", (np.arctanh(np.corrcoef(x @ head["a"], t)[0, 1]) - np.arctanh(head["r"])) * math.sqrt(n - 3))
        assert x.var(axis=0).sum() == pytest.approx(expected["total_variance"], rel=0.03)
        # What is left when everything deterministic is taken away is pure content.
        rest = x - np.array(head["mean"]) - np.outer(head["alpha"] * (t - truth_of(capture)["position_center"]), head["a"])
        for plane in head["planes"]:
            i, j = plane["coordinates"]
            rest[:, i] -= plane["amplitude"] * np.cos(plane["omega"] * t + plane["phase"])
            rest[:, j] -= plane["amplitude"] * np.sin(plane["omega"] * t + plane["phase"])
        want = covariance(head)
        see("covariance", (rest.T @ rest / n - want) / np.sqrt((np.outer(np.diag(want), np.diag(want)) + want ** 2) / n))
    assert max(worst.values()) < 5, worst


def test_positions(qkscope, tmp_path):
    """Ascending without repeats in each example, even over the buckets, apart for q and k."""
    synth(qkscope, tmp_path / "c", layers=1, query_heads=1, q_per_kv_group=1, dim=4, examples=3, rows=130, buckets=6,
          bucket_width=32, position_offset=1000000, sliding_window=512, rope_planes=1)
    q, k = (read_rows(tmp_path / "c", f"l00h00{kind}") for kind in "qk")
    for rows in (q, k):
        assert np.array_equal(rows["example_id"], np.repeat(np.arange(3), 130)) and set(rows["sliding_window"]) == {512}
        assert np.array_equal(rows["bucket"], (rows["position"] - 1000000) // 32)
        for example in range(3):
            mine = rows["example_id"] == example
            assert (np.diff(rows["position"][mine]) > 0).all()
            assert sorted(np.bincount(rows["bucket"][mine], minlength=6)) == [21, 21, 22, 22, 22, 22]
    assert q["position"].tolist() != k["position"].tolist()


def test_what_is_given_holds(qkscope, tmp_path):
    synth(qkscope, tmp_path / "c", layers=1, dim=8, r_q=0.5, r_k=-0.25, separation=3, scale=2, mean_offset=1000, exponent=0,
          rope_planes=0, examples=1)
    for name, head in truth_of(tmp_path / "c")["heads"].items():
        assert head["r"] == pytest.approx(0.5 if name.endswith("q") else -0.25)
        assert np.allclose(head["eigenvalues"], 4)
        far = np.linalg.norm(head["mean"]) / 2000 if name.endswith("k") else head["pair"]["separation"] / 6
        assert far == pytest.approx(1)


def test_threads_and_shards_do_not_change_rows(qkscope, tmp_path):
    for folder, more in (("1", dict(threads=1)), ("7", dict(threads=7)), ("shards", dict(shards=4)), ("seed", dict(seed=6))):
        synth(qkscope, tmp_path / folder, **{**dict(layers=2, dim=16, examples=2, rows=333, seed=5), **more})

    def contents(folder):
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert contents(tmp_path / "1") == contents(tmp_path / "7") != contents(tmp_path / "seed")
    one, four = (read_rows(tmp_path / folder, "l01h00k") for folder in ("1", "shards"))
    assert len(list((tmp_path / "shards" / "l01h00k").iterdir())) == 4
    assert all(np.array_equal(one[column], four[column]) for column in one)


@pytest.mark.parametrize("options, word", [
    (["--layers", "1", "--query-heads", "3", "--q-per-kv-group", "2"], "multiple"), (["--rows", "3000"], "rows_per_example"),
    (["--r-q", "1"], "--r-q"), (["--codec", "gzip", "--level", "15"], "level 15")])
def test_bad_settings(qkscope, tmp_path, options, word):
    assert word in qkscope("synth", "-o", tmp_path / "c", *options, expect=2).err
    assert not (tmp_path / "c").exists()


def test_what_it_says(qkscope, tmp_path):
    words = ["synth", "-o", tmp_path / "c", "--layers", 1, "--query-heads", 4, "--dim", 8, "--examples", 3, "--rows", 5, "--json"]
    assert json.loads(qkscope(*words, expect=0).out) == {
        "output": str(tmp_path / "c"), "query_heads": 4, "key_heads": 2, "rows_per_head": 15, "dim": 8}
    assert "not empty" in qkscope(*words, expect=1).err
