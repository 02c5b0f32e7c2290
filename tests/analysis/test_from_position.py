# SPDX-License-Identifier: Apache-2.0
"""--from-position: every table is that of a capture which never had the rows of the first positions."""
import json

import numpy as np
import pytest

from conftest import last_run, read_csv, synth, write_rows, write_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

HEADS = ("l00h00q", "l00h01q", "l00h00k")
FROM = 5
TEXTS, LENGTH, DIM = 9, 60, 12


def columns_of(name, dtype):
    """Texts whose first tokens lie far out, one after the other but for the last, whose rows are in disorder: so that
    the rows that are left out stand at the end of the file, too."""
    rng = np.random.default_rng([ord(c) for c in name])
    disorder = [rng.permutation(np.arange(3, LENGTH)), [0, 1, 2]]
    position = np.concatenate([np.arange(LENGTH)] * (TEXTS - 1) + disorder)
    vector = rng.normal(size=(len(position), DIM)) + 0.02 * position[:, None] * rng.normal(size=DIM)
    vector[position < 4] += 12 * rng.normal(size=DIM)
    return {"vector": vector.astype(dtype), "position": position, "bucket": position // 16,
            "example_id": np.repeat(np.arange(TEXTS), LENGTH)}


def write(folder, dtype=np.float32, start=0, limit=None, **options):
    for name in HEADS:
        columns = columns_of(name, dtype)
        kept = np.flatnonzero(columns["position"] >= start)[:limit]
        write_rows(folder, name, {c: v[kept] for c, v in columns.items()}, **options)
    return folder


def tables(folder):
    found = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    assert found
    return found


def run(qkscope, folder, capture, command, *words, expect=0):
    outcome = qkscope(command, capture, "-o", folder, "--model-name", "m", *words, "--quiet", expect=expect)
    return tables(folder) if expect == 0 else outcome.err


@pytest.mark.cases(4)
@pytest.mark.parametrize("command, words", [
    ("pca", ["--lda"]), ("pca", ["--kinds", "q,k"]), ("plasticity", ["--buckets", "3"]),
    ("analyze", ["--ci", "95", "--complement", "--threads", "3"])])
def test_tables_are_those_of_the_other_rows(qkscope, tmp_path, command, words):
    all_rows, rest = write(tmp_path / "a"), write(tmp_path / "b", start=FROM)
    expected = run(qkscope, tmp_path / "of-rest", rest, command, *words)
    assert run(qkscope, tmp_path / "left-out", all_rows, command, *words, "--from-position", FROM) == expected
    assert run(qkscope, tmp_path / "all", all_rows, command, *words) != expected


@pytest.mark.parametrize("options", [{"dtype": np.float64, "shards": 4}, {"row_group_size": 7}])
def test_however_rows_are_stored(qkscope, tmp_path, options):
    all_rows, rest = write(tmp_path / "a", **options), write(tmp_path / "b", start=FROM, **options)
    assert run(qkscope, tmp_path / "x", all_rows, "analyze", "--from-position", FROM) == \
        run(qkscope, tmp_path / "y", rest, "analyze")


def test_packed(qkscope, tmp_path):
    for layout in ("heads", "packed"):
        synth(tmp_path / layout, layout=layout, shards=2, layers=1, query_heads=4, q_per_kv_group=2, dim=16,
              examples=3, rows=90, buckets=4, bucket_width=32, row_group_rows=50)
    for name in sorted(p.name for p in (tmp_path / "heads").iterdir() if p.is_dir()):
        shards = [pq.read_table(p) for p in sorted((tmp_path / "heads" / name).iterdir())]
        table = pa.concat_tables(shards)
        write_table(tmp_path / "rest", name, table.filter(pa.compute.greater_equal(table["position"], 20)))
    expected = run(qkscope, tmp_path / "of-rest", tmp_path / "rest", "analyze")
    for layout in ("heads", "packed"):
        assert run(qkscope, tmp_path / f"of-{layout}", tmp_path / layout, "analyze", "--from-position", 20) == expected


def test_max_samples_counts_the_rows_that_are_left(qkscope, tmp_path):
    all_rows, rest = write(tmp_path / "a"), write(tmp_path / "b", start=FROM, limit=200)
    assert run(qkscope, tmp_path / "x", all_rows, "analyze", "--from-position", FROM, "--max-samples", 200) == \
        run(qkscope, tmp_path / "y", rest, "analyze")


def test_numbers_are_those_of_numpy(qkscope, tmp_path):
    run(qkscope, tmp_path / "out", write(tmp_path / "c"), "pca", "--from-position", FROM)
    q, k = ({c: v[columns["position"] >= FROM] for c, v in columns.items()}
            for columns in (columns_of(name, np.float32) for name in ("l00h01q", "l00h00k")))
    vectors = np.concatenate([q["vector"], k["vector"]]).astype(float)
    axis = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)[2][0]
    r = np.corrcoef(q["vector"].astype(float) @ axis, q["position"])[0, 1]
    row = next(r for r in read_csv(tmp_path / "out" / "qk.csv") if r["q_head"] == 1 and r["pc"] == 0)
    assert row["n_q"] == len(q["position"]) == (LENGTH - FROM) * TEXTS and abs(row["r_q"]) == pytest.approx(abs(r), 1e-9)
    assert last_run(tmp_path / "out")["settings"]["from_position"] == FROM


def test_0_is_what_it_was(qkscope, tmp_path):
    """Positions below 0 are rows like others, unless they are left out."""
    columns = columns_of("l00h00q", np.float32)
    columns["position"] -= 10
    for name in HEADS:
        write_rows(tmp_path / "c", name, columns)
    run(qkscope, tmp_path / "out", tmp_path / "c", "pca", "--from-position", 0)
    assert read_csv(tmp_path / "out" / "qk.csv")[0]["n_q"] == TEXTS * LENGTH
    assert last_run(tmp_path / "out")["settings"]["from_position"] == 0


def test_no_rows_are_left(qkscope, tmp_path):
    write(tmp_path / "c")
    columns = columns_of("l00h01q", np.float32)
    write_rows(tmp_path / "c", "l00h01q", {c: v[columns["position"] < 30] for c, v in columns.items()})
    err = run(qkscope, tmp_path / "out", tmp_path / "c", "pca", "--from-position", 30, expect=3)
    assert "l00h01q" in err and "no rows from position 30 on: choose a smaller --from-position" in err
    assert [row["q_head"] for row in read_csv(tmp_path / "out" / "heads.csv")] == [0]
    err = run(qkscope, tmp_path / "none", tmp_path / "c", "rotate", "--from-position", 99, expect=1)
    assert "no rows from position 99 on" in err


def test_bad_rows(qkscope, tmp_path):
    """NaN among rows that are left out is nobody's; a message about another one says how it counts."""
    columns = {name: columns_of(name, np.float32) for name in HEADS}
    columns["l00h00q"]["vector"][0, 3] = np.nan
    for name in HEADS:
        write_rows(tmp_path / "c", name, columns[name])
    run(qkscope, tmp_path / "fine", tmp_path / "c", "pca", "--from-position", 1)
    err = run(qkscope, tmp_path / "out", tmp_path / "c", "pca", expect=3)
    assert "NaN or infinity in row 0, dimension 3" in err and "counting" not in err
    columns["l00h00q"]["vector"][LENGTH + FROM, 7] = np.inf
    write_rows(tmp_path / "c", "l00h00q", columns["l00h00q"])
    err = run(qkscope, tmp_path / "bad", tmp_path / "c", "pca", "--from-position", FROM, expect=3)
    assert (f"counting rows from position {FROM} on: column 'vector': NaN or infinity in row {LENGTH - FROM}, "
            "dimension 7") in err


def test_stages(qkscope, tmp_path):
    """Both captures are of the same rows again."""
    omega = 1 / 50 ** (np.arange(DIM // 2) / (DIM // 2))
    for stage in ("pre", "post"):
        for start, folder in ((0, "all"), (FROM, "rest")):
            root = tmp_path / folder / stage
            for name in HEADS:
                columns = columns_of(name, np.float64)
                if stage == "post":
                    angle = columns["position"][:, None] * omega
                    x, y = np.split(columns["vector"], 2, axis=1)
                    columns["vector"] = np.concatenate([x * np.cos(angle) - y * np.sin(angle),
                                                        x * np.sin(angle) + y * np.cos(angle)], axis=1)
                kept = columns["position"] >= start
                write_rows(root, name, {c: v[kept] for c, v in columns.items()})
            (root / "capture.json").write_text(json.dumps({
                "kind": "capture", "version": 1, "complete": True, "model": "m", "q_per_kv_group": 2, "stage":
                f"{stage}-rope", "rope_frequencies": omega.tolist()}))
    got, expected = (run(qkscope, tmp_path / f"of-{folder}", tmp_path / folder, "compare-stages", *words)
                     for folder, words in (("all", ["--from-position", FROM]), ("rest", [])))
    assert got == expected and got != run(qkscope, tmp_path / "whole", tmp_path / "all", "compare-stages")
    err = run(qkscope, tmp_path / "all" / "pre", tmp_path / "all", "compare-stages", expect=1)
    assert "is the folder of the capture" in err


def test_scatter(qkscope, tmp_path):
    all_rows, rest = write(tmp_path / "a"), write(tmp_path / "b", start=FROM)
    for capture, name, words in ((all_rows, "x", ["--from-position", FROM]), (rest, "y", [])):
        qkscope("scatter", capture, "--heads", "0:1", "-o", tmp_path / f"{name}.svg", "--max-points", 100, "--title", "t",
                *words, "--quiet", expect=0)
    assert (tmp_path / "x.svg").read_bytes() == (tmp_path / "y.svg").read_bytes()


def test_another_start_is_told(qkscope, tmp_path):
    """Of other tables in the folder that stay (that tables of all rows are not lost: test_result_folder.py)."""
    capture = write(tmp_path / "c")
    run(qkscope, tmp_path / "out", capture, "pca")
    err = qkscope("rotate", capture, "-o", tmp_path / "out", "--model-name", "m", "--from-position", FROM, expect=0).err
    assert "was made with other from_position" in err
