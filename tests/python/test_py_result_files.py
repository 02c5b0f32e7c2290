# SPDX-License-Identifier: Apache-2.0
"""Folders of results that are damaged, not complete, or cannot be written: an error of the package's, with the remedy."""
import json
import os

import pytest

from conftest import EXAMPLE

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")


@pytest.fixture(scope="module")
def results():
    return qk.analyze(EXAMPLE, layers=0, progress=False)


@pytest.fixture
def saved(results, tmp_path):
    return results.save(tmp_path / "saved")


# ---- reading --------------------------------------------------------------------------------

def cut(file):
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:3]))


def test_tables_that_changed_are_not_read(saved, results):
    assert qk.Results.read(saved).qk.column("r_q") == results.qk.column("r_q")
    cut(saved / "qk.csv")
    for read in (qk.Results.read, lambda folder: qk.compare(results, folder), lambda folder: qk.compare(folder, results)):
        with pytest.raises(qk.DataError, match=r"saved/qk.csv is not as it was written; run the analysis again"):
            read(saved)
    (saved / "qk.csv").unlink()
    with pytest.raises(qk.DataError, match="saved/qk.csv is missing; run the analysis again"):
        qk.Results.read(saved)


@pytest.mark.parametrize("content", ["", "{", "[]", "17", "{}", '{"runs": {}}', '{"kind": "capture"}', "\0", "\xff"])
def test_what_is_no_manifest(saved, content):
    (saved / "manifest.json").write_bytes(content.encode("latin-1"))
    with pytest.raises(qk.DataError, match="saved/manifest.json: is no manifest of results; run the analysis again"):
        qk.Results.read(saved)


@pytest.mark.parametrize("content", [
    {"runs": [1]}, {"runs": [{"failures": [1]}]}, {"runs": [{"failures": 1}]}, {"runs": [{"heads": "x"}, {"heads": 1}]},
    {"runs": [{"tables": ["qk.csv"], "settings": 1}]}, {"runs": [{"tables": [[]], "settings": {"ci": 95}}]}])
def test_manifests_of_other_shapes(saved, content):
    (saved / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(qk.DataError, match="saved/manifest.json: is damaged .*; run the analysis again"):
        qk.Results.read(saved)


def test_a_run_that_was_stopped(saved):
    manifest = json.loads((saved / "manifest.json").read_text())
    (saved / "manifest.json").write_text(json.dumps({**manifest, "complete": False}))
    with pytest.raises(qk.DataError, match="saved: the results are not complete: .*run it again"):
        qk.Results.read(saved)


@pytest.mark.parametrize("change", [
    lambda text: text.replace("0.", "zero", 1), lambda text: text + "1,2\n", lambda text: "", lambda text: "\udcff",
    lambda text: text.replace("0", "\"" + "x" * 200000, 1)])
def test_tables_that_changed_under_results(saved, change):
    """Between `read` and the first look at a table."""
    read = qk.Results.read(saved)
    (saved / "qk.csv").write_text(change((saved / "qk.csv").read_text()), errors="surrogateescape")
    with pytest.raises(qk.DataError, match="saved/qk.csv: is damaged .*; run the analysis again"):
        read.qk
    os.unlink(saved / "qk.csv")
    with pytest.raises(qk.NotFoundError, match="saved/qk.csv: No such file or directory; run the analysis again"):
        read.qk


def test_no_results_there(tmp_path, results):
    for read in (qk.Results.read, lambda folder: qk.compare(results, folder)):
        with pytest.raises(qk.NotFoundError, match="nope/manifest.json: .*; give a folder with results") as raised:
            read(tmp_path / "nope")
        assert raised.value.status == "QK_ERR_NOT_FOUND" and raised.value.errno == 2


# ---- of a shard -----------------------------------------------------------------------------

def test_results_of_a_shard_say_that_they_are_not_complete(tmp_path):
    out = tmp_path / "out"
    first = qk.pca(EXAMPLE, layers=0, output=out, shard=(1, 2), progress=False)
    missing = r"\d+ of \d+ parts of this analysis are there: once the other shards have ended, qkscope.Results.read"
    assert not first.complete and "not complete" in repr(first) and first.tables == []
    assert not hasattr(first, "heads") and not hasattr(first, "_nothing")
    with pytest.raises(AttributeError, match=f"results have no 'heads'; {missing}"):
        first.heads
    with pytest.raises(KeyError, match=f"there is no table 'heads'; {missing}"):
        first["heads"]
    for use in (lambda: first.save(tmp_path / "saved"), first.check, lambda: first.figures, lambda: first.figure("x"),
                first.report, lambda: first.manifest):
        with pytest.raises(qk.PartialError, match=missing) as raised:
            use()
        assert raised.value.results is first
    assert not (tmp_path / "saved").exists()
    with pytest.raises(qk.NotFoundError, match="out/manifest.json: .*; run the shards that are missing"):
        qk.Results.read(out)
    second = qk.pca(EXAMPLE, layers=0, output=out, shard=(0, 2), progress=False).check()
    assert second.complete and qk.Results.read(out).heads.column("ev0") == second.heads.column("ev0")
    second.save(tmp_path / "saved")


def test_a_table_that_there_is_none_of(results):
    with pytest.raises(AttributeError, match="results have no 'haeds'; there are qk.csv, heads.csv"):
        results.haeds
