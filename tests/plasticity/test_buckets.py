# SPDX-License-Identifier: Apache-2.0
"""Which buckets plasticity uses: the capture's where they are few, else equal ones cut from
positions, the same for every head."""
import shutil

import numpy as np
import pytest
from conftest import head_pairs, last_run, read_bytes, read_csv, read_rows, write_rows

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
oracle = pytest.importorskip("plasticity_oracle")

TABLES = ("head_metrics.csv", "head_profile.csv", "head_bucket_plasticity.csv",
          "head_distance.csv", "head_component_weights.csv", "model_report.csv")


def cut(position, first, last, count):
    """In whole numbers: bucket b begins at first + b / count of the range."""
    return np.array([(int(t) - first) * count // (last - first + 1) for t in position])


def write_capture(folder, buckets, rng, heads=2, positions=(0, 1000), rows=240, change=None):
    """Heads of random rows whose largest positions differ; `buckets` of their own."""
    for head in range(heads):
        for kind in "qk":
            low, high = positions
            position = np.sort(rng.integers(low, high - 90 * head, rows))
            columns = {"vector": rng.standard_normal((rows, 6)).astype(np.float32),
                       "position": position, "example_id": np.arange(rows) * 4 // rows,
                       "bucket": (position - low) * buckets // (high - low)}
            write_rows(folder, f"l00h{head:02d}{kind}", columns)
    return folder


def run(qkscope, folder, out, *options):
    qkscope("plasticity", folder, "-o", out, "--force", "--max-pairs", 0, "--q-per-kv-group", 1, *options,
            expect=0)
    return {name: read_csv(out / name) for name in TABLES}, last_run(out)


def check_cut(tables, folder, first, last, count):
    """Against the oracle, of rows whose buckets were cut in Python."""
    width = (last - first + 1) / count
    for layer, head, q, k in head_pairs(folder, 1):
        for rows in (q, k):
            rows["bucket"] = cut(rows["position"], first, last, count)
        truth = oracle.Plasticity(q, k, bucket_width=width)
        metrics, = [r for r in tables["head_metrics.csv"] if r["q_head"] == head]
        for column in ("ap_overall", "ap_drop"):
            assert metrics[column] == pytest.approx(truth.metrics[column], abs=1e-9)
        assert metrics["bucket_width"] == width
        for name, want, column in (("head_profile.csv", truth.profile, "ap"),
                                   ("head_bucket_plasticity.csv", truth.buckets, "ap_bucket")):
            rows = [r for r in tables[name] if r["q_head"] == head]
            assert [(r["q_bucket"], r.get("k_bucket"), r["n_pairs"]) for r in rows] == [
                (w["q_bucket"], w.get("k_bucket"), w["n_pairs"]) for w in want]
            assert [r[column] for r in rows] == pytest.approx([w[column] for w in want],
                                                              abs=1e-9, nan_ok=True)


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def extent(folder):
    positions = np.concatenate([read_rows(folder, head.name)["position"]
                                for head in sorted(folder.iterdir())])
    return min(0, int(positions.min())), int(positions.max())


def test_few_are_the_captures_own(qkscope, tmp_path, rng):
    folder = write_capture(tmp_path / "c", 32, rng)
    tables, manifest = run(qkscope, folder, tmp_path / "o")
    assert manifest["buckets"] == {"from": "capture"}
    assert manifest["settings"]["plasticity"]["buckets"] is None
    own = {b for head in folder.iterdir() for b in read_rows(folder, head.name)["bucket"]}
    assert {r["q_bucket"] for r in tables["head_profile.csv"]} <= own
    same, _ = run(qkscope, folder, tmp_path / "p", "--buckets", "capture")
    assert same == tables


@pytest.mark.parametrize("positions", [(-700, 300), (-900, -100), (2**40, 2**40 + 999)])
def test_many_become_32(qkscope, tmp_path, rng, positions):
    folder = write_capture(tmp_path / "c", 100, rng, positions=positions)
    tables, manifest = run(qkscope, folder, tmp_path / "o")
    first, last = extent(folder)
    assert manifest["buckets"] == {"from": "positions", "count": 32, "first_position": first,
                                   "last_position": last, "width": (last - first + 1) / 32}
    check_cut(tables, folder, first, last, 32)


def test_extreme_positions(qkscope, tmp_path, rng):
    """The range of positions needs more than 64 bits."""
    for kind in "qk":
        position = np.array([-2**63, -2**62, 0, 2**62, 2**63 - 1] * 8)
        write_rows(tmp_path / "c", f"l00h00{kind}", {
            "vector": rng.standard_normal((40, 4)).astype(np.float32), "position": position,
            "bucket": np.arange(40), "example_id": np.zeros(40, int)})
    tables, manifest = run(qkscope, tmp_path / "c", tmp_path / "o")
    assert manifest["buckets"]["width"] == 2**59
    assert [r["q_bucket"] for r in tables["head_profile.csv"]] == [8, 16, 24, 31]


@pytest.mark.parametrize("count", [7, 50])
def test_as_many_as_wished(qkscope, tmp_path, rng, count):
    folder = write_capture(tmp_path / "c", 9, rng)
    tables, manifest = run(qkscope, folder, tmp_path / "o", "--buckets", count)
    assert manifest["settings"]["plasticity"]["buckets"] == count
    check_cut(tables, folder, *extent(folder), count)


def drop_column(folder, heads=None):
    for head in heads or sorted(folder.iterdir()):
        file = head / "data.parquet"
        pq.write_table(pq.read_table(file).drop_columns(["bucket"]), file)


def test_without_the_column(qkscope, tmp_path, rng):
    """Of all heads or of one: all use the same."""
    folder = write_capture(tmp_path / "c", 8, rng)
    drop_column(folder, [folder / "l00h01k"])
    one, manifest = run(qkscope, folder, tmp_path / "o")
    assert manifest["buckets"]["from"] == "positions"
    check_cut(one, folder_with_buckets(folder, tmp_path / "d"), *extent(tmp_path / "d"), 32)
    drop_column(folder, [h for h in folder.iterdir() if h.name != "l00h01k"])
    none, _ = run(qkscope, folder, tmp_path / "p")
    assert one == none
    outcome = qkscope("plasticity", folder, "-o", tmp_path / "x", "--buckets", "capture",
                      expect=1)
    assert "no column 'bucket'" in outcome.err


def folder_with_buckets(folder, copy):
    """The oracle's reader wants the column."""
    shutil.copytree(folder, copy)
    for file in copy.rglob("*.parquet"):
        table = pq.read_table(file)
        if "bucket" not in table.column_names:
            pq.write_table(table.append_column("bucket", pa.array([0] * len(table))), file)
    return copy


def test_intervals_do_not_need_the_column(qkscope, tmp_path, rng):
    folder = write_capture(tmp_path / "c", 8, rng)
    drop_column(folder)
    qkscope("analyze", folder, "-o", tmp_path / "o", "--ci", 95, expect=0)


def test_heads_do_not_depend_on_the_selection(qkscope, tmp_path, rng):
    """Only the first head has the largest position, only the last more than 32 buckets."""
    folder = write_capture(tmp_path / "c", 8, rng, heads=3)
    file = folder / "l00h02q" / "data.parquet"
    table = pq.read_table(file)
    many = pa.array(table["position"].to_numpy() // 3, pa.int64())
    pq.write_table(table.set_column(table.column_names.index("bucket"), "bucket", many), file)
    whole, manifest = run(qkscope, folder, tmp_path / "o")
    assert manifest["buckets"]["from"] == "positions"
    part, again = run(qkscope, folder, tmp_path / "p", "--heads", 1)
    assert again["buckets"] == manifest["buckets"]
    for name in TABLES[:-1]:
        assert part[name] == [r for r in whole[name] if r["q_head"] == 1], name
    # The whole capture is judged, not as many of its rows as are analysed.
    _, few = run(qkscope, folder, tmp_path / "q", "--max-samples", 20)
    assert few["buckets"] == manifest["buckets"]


def test_footers_without_statistics_say_the_same(qkscope, tmp_path, rng):
    for count in (20, 33):
        folder = write_capture(tmp_path / f"c{count}", count, rng)
        run(qkscope, folder, tmp_path / "with")
        for file in folder.rglob("*.parquet"):
            pq.write_table(pq.read_table(file), file, write_statistics=False)
        run(qkscope, folder, tmp_path / "without")
        assert read_bytes(tmp_path / "with", *TABLES) == read_bytes(tmp_path / "without", *TABLES)


def test_footers_that_lie_are_not_believed(qkscope, tmp_path, rng):
    """A footer with 5 as the largest bucket of 40."""
    folder = write_capture(tmp_path / "c", 40, rng)
    for file in folder.rglob("*.parquet"):
        table = pq.read_table(file)
        far = pa.array([1234567 if b == table["bucket"][-1].as_py() else b for b in table["bucket"].to_pylist()], pa.int64())
        pq.write_table(table.set_column(table.column_names.index("bucket"), "bucket", far), file, use_dictionary=False)
    run(qkscope, folder, tmp_path / "told")
    for file in folder.rglob("*.parquet"):
        data = file.read_bytes()
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        most = (1234567).to_bytes(8, "little")
        assert data.count(most, footer) >= 1
        file.write_bytes(data[:footer] + data[footer:].replace(most, (5).to_bytes(8, "little")))
        assert pq.ParquetFile(file).metadata.row_group(0).column(0).statistics.max == 5
    _, manifest = run(qkscope, folder, tmp_path / "lied")
    assert manifest["buckets"]["from"] != "capture"
    assert read_bytes(tmp_path / "told", *TABLES) == read_bytes(tmp_path / "lied", *TABLES)


def test_few_but_far_apart(qkscope, tmp_path, rng):
    """Footers alone cannot tell: 0, 1000, 2000, ... are few."""
    folder = write_capture(tmp_path / "c", 8, rng)
    for file in folder.rglob("*.parquet"):
        table = pq.read_table(file)
        far = pa.array(table["bucket"].to_numpy() * 1000, pa.int64())
        pq.write_table(table.set_column(table.column_names.index("bucket"), "bucket", far), file)
    tables, manifest = run(qkscope, folder, tmp_path / "o")
    assert manifest["buckets"] == {"from": "capture"}
    assert {r["q_bucket"] for r in tables["head_profile.csv"]} == set(range(1000, 8000, 1000))


def test_a_broken_head_has_no_say(qkscope, tmp_path, rng):
    folder = write_capture(tmp_path / "c", 100, rng)
    _, manifest = run(qkscope, folder, tmp_path / "o", "--heads", 0)
    (folder / "l00h05q").mkdir()
    (folder / "l00h05q" / "data.parquet").write_bytes(b"PAR1 this is none")
    _, broken = run(qkscope, folder, tmp_path / "p", "--heads", 0)
    assert broken["buckets"] == manifest["buckets"]


def test_wrong_numbers(qkscope, tmp_path):
    for text in ("1", "1025", "two"):
        outcome = qkscope("plasticity", "c", "-o", tmp_path / "o", f"--buckets={text}", expect=2)
        assert "expected 2 to 1024, or capture" in outcome.err


def test_configuration(qkscope, tmp_path, rng):
    folder = write_capture(tmp_path / "c", 9, rng)
    config = tmp_path / "config.yaml"
    for value, want in ((5, 5), ("capture", "capture"), ("null", None)):
        config.write_text(f"data: {{dataset_name: {folder}}}\nplasticity: {{buckets: {value}}}\n")
        _, manifest = run(qkscope, folder, tmp_path / "o", "--config", config)
        assert manifest["settings"]["plasticity"]["buckets"] == want
    for value in (1, 1025, "many"):
        config.write_text(f"data: {{dataset_name: {folder}}}\nplasticity: {{buckets: {value}}}\n")
        outcome = qkscope("plasticity", "--config", config, "-o", tmp_path / "o", expect=2)
        assert "plasticity.buckets" in outcome.err
