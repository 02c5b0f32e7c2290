# SPDX-License-Identifier: Apache-2.0
"""`analyze` is the three analyses at once: the same bytes as from each alone, on any number of
threads, from any layout of the same rows."""
import shutil

import numpy as np
import pytest
from conftest import EXAMPLE, head_name, head_names, read_bytes, read_rows, write_rows

pytest.importorskip("pyarrow")

TABLES = {"pca": ["qk.csv", "heads.csv"], "rotate": ["rotated.csv", "complement.csv"],
          "plasticity": ["head_metrics.csv", "head_profile.csv", "head_bucket_plasticity.csv",
                         "head_distance.csv", "head_component_weights.csv", "model_report.csv"]}
EVERY = [name for names in TABLES.values() for name in names]
OPTIONS = {
    "intervals": {"all": ["--ci", 95], "rotate": ["--complement", "--pairs", 3],
                  "pca": ["--lda", "--components", 3]},
    "centroid": {"all": ["--ci", 80], "rotate": ["--complement", "--b-axis", "centroid"]},
    "sampled": {"rotate": ["--complement"],
                "plasticity": ["--max-pairs", 50, "--seed", 7, "--bucket-width", 40]},
}


@pytest.fixture(scope="module")
def several(qkscope, tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("several") / "c", np.random.default_rng(1)
    for layer in range(2):
        for kind, heads in (("q", 4), ("k", 2)):
            for head in range(heads):
                position = np.concatenate([np.sort(rng.choice(2000, 40, replace=False)) for _ in range(9)])
                x = rng.standard_normal((len(position), 20)) + np.outer(position / 1000, rng.standard_normal(20))
                write_rows(folder, head_name(layer, head, kind), {
                    "vector": x.astype(np.float32), "position": position, "bucket": position // 128,
                    "example_id": np.arange(len(position)) // 40,
                    "sliding_window": np.full(len(position), 900)})
    (folder / "capture.json").write_text('{"q_per_kv_group": 2}')
    return folder


def analyze(qkscope, capture, out, options, threads=2):
    flat = [o for some in options.values() for o in some]
    qkscope("analyze", capture, "-o", out, *flat, "--threads", threads, expect=0)
    every = [*EVERY, "repeats.csv"] if "--ci" in flat else EVERY
    assert sorted(p.name for p in out.iterdir()) == sorted([*every, "manifest.json", "schema.json"])
    return read_bytes(out, *every)


@pytest.mark.parametrize("name", OPTIONS)
def test_threads(qkscope, several, tmp_path, name):
    one = analyze(qkscope, several, tmp_path / "1", OPTIONS[name], 1)
    assert analyze(qkscope, several, tmp_path / "n", OPTIONS[name], 7) == one


@pytest.mark.test_all
def test_threads_on_the_example(qkscope, tmp_path):
    results = {threads: analyze(qkscope, EXAMPLE, tmp_path / "out", OPTIONS["intervals"],
                                threads) for threads in (1, 2, 7)}
    assert results[1] == results[2] == results[7]


@pytest.mark.parametrize("name", OPTIONS)
def test_each_alone(qkscope, several, tmp_path, name):
    options = OPTIONS[name]
    together = analyze(qkscope, several, tmp_path / "together", options)
    for command, tables in TABLES.items():
        out = tmp_path / command
        more = [*options.get("all", []), *options.get(command, [])]
        qkscope(command, several, "-o", out, *more, expect=0)
        assert read_bytes(out, *tables) == {name: together[name] for name in tables}
        repeats = ["repeats.csv"] if command == "pca" and "--ci" in more else []  # of its own numbers alone
        assert sorted(p.name for p in out.iterdir()) == sorted([*tables, *repeats, "manifest.json", "schema.json"])


@pytest.mark.parametrize("layout", [dict(row_group_size=7, use_dictionary=False, compression="none"), dict(shards=5)])
def test_layouts(qkscope, several, tmp_path, layout):
    """The same rows in the same order."""
    (tmp_path / "c").mkdir()
    shutil.copy(several / "capture.json", tmp_path / "c")
    for name in head_names(several):
        columns = read_rows(several, name)
        columns["vector"] = columns["vector"].astype(np.float32)
        write_rows(tmp_path / "c", name, columns, **layout)
    results = [analyze(qkscope, capture, tmp_path / f"out{i}", OPTIONS["intervals"])
               for i, capture in enumerate((several, tmp_path / "c"))]
    assert results[0] == results[1]


def test_failures_are_those_of_each(qkscope, several, tmp_path):
    """A head that cannot be read is missing in every table, one whose windows differ only in
    those of plasticity."""
    capture = shutil.copytree(several, tmp_path / "c")
    (capture / "l00h00q" / "data.parquet").write_bytes(b"PAR1")
    columns = read_rows(capture, "l01h03q")
    columns["sliding_window"][3] = 1
    write_rows(capture, "l01h03q", columns)
    results = {}
    for command in (*TABLES, "analyze"):
        more = ["--complement"] if command in ("rotate", "analyze") else []
        result = qkscope(command, capture, "-o", tmp_path / command, *more, expect=3)
        results[command] = result.err
        assert "/l00h00q/" in result.err
    for command, tables in TABLES.items():
        assert read_bytes(tmp_path / "analyze", *tables) == read_bytes(tmp_path / command,
                                                                      *tables)
    assert "sliding_window" in results["plasticity"] and "sliding_window" in results["analyze"]
    assert "sliding_window" not in results["pca"] + results["rotate"]
