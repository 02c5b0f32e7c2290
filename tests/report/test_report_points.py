# SPDX-License-Identifier: Apache-2.0
"""Queries and keys on the page: a head's rows from its capture as points, and why there are none."""
import base64
import json
import shutil

import numpy as np
import pytest

from conftest import EXAMPLE, ROOT, head_pairs
from report_pages import block, drawn

GROUP = 2
HEADS = "0:1,3:2"
TINY = ROOT / "examples" / "kjv-tiny"


def report(qkscope, folder, *options, **where):
    return qkscope("report", folder, "--alone", *options, expect=0, **where)


@pytest.fixture(scope="module")
def results(qkscope, tmp_path_factory):
    """An analysis, its capture beside it, and its page."""
    folder = tmp_path_factory.mktemp("heads")
    shutil.copytree(EXAMPLE, folder / "capture")
    qkscope("analyze", folder / "capture", "-o", folder / "results", expect=0)
    report(qkscope, folder / "results", "--heads", HEADS)
    return folder / "results"


def page_text(results):
    return (results / "report.html").read_text()


def points(text):
    return block(text, "qk-views")["points"]


def places(text, entry):
    """x and y from 0 to 1, y from the top; where the position is, from 0 to 1; and which are keys."""
    size = block(text, "qk-views")["bytes"]
    bytes_ = np.frombuffer(base64.b64decode(entry[4]), np.uint8).reshape(-1, 2 * size + 1).astype(int)
    number = lambda at: bytes_[:, at:at + size] @ (256 ** np.arange(size)[::-1]) / (256 ** size - 1)
    return number(0), number(size), (bytes_[:, -1] >> 1) / 127, bytes_[:, -1] % 2 == 1


def components(q, k):
    """PC0 and PC1 of both kinds together, up to their signs: an eigendecomposition of the covariance."""
    both = np.concatenate([q["vector"], k["vector"]])
    _, vectors = np.linalg.eigh(np.cov(both.T))
    return vectors[:, [-1, -2]]


def check_points(text, plane, capture):
    """Each edge is that of the projections, with 4 % of room, and the points are those of the rows: all, or 1,000 of a
    kind."""
    of = points(text)[0][plane]
    for layer, head, q, k in [pair for pair in head_pairs(capture, GROUP) if f"{pair[0]}:{pair[1]}" in of]:
        axes = components(q, k)
        entry = of[f"{layer}:{head}"]
        both = np.concatenate([rows["vector"] @ axes for rows in (q, k)])
        x, y, _, is_key = places(text, entry)
        assert is_key.sum() == min(1000, len(k["vector"])) and (~is_key).sum() == min(1000, len(q["vector"]))
        for a, shown in enumerate((x, 1 - y)):
            low, high = both[:, a].min(), both[:, a].max()
            room = 0.04 * (high - low)
            edges = np.array(entry[2 * a:2 * a + 2])
            turned = not np.allclose(edges, [low - room, high + room], atol=1e-3)
            assert np.allclose(edges, [-high - room, -low + room] if turned else [low - room, high + room], atol=1e-3)
            expected = ((-both[:, a] if turned else both[:, a]) - edges[0]) / (edges[1] - edges[0])
            for kind, rows in ((False, expected[:len(q["vector"])]), (True, expected[len(q["vector"]):])):
                own = shown[is_key == kind]
                assert np.abs(own[:, None] - rows).min(1).max() <= 2.1e-3
                if len(own) == len(rows):
                    np.testing.assert_allclose(np.sort(own), np.sort(rows), atol=2.1e-3)


def test_points_are_the_rows(results):
    made = points(page_text(results))[0]
    check_points(page_text(results), "pca", EXAMPLE)
    assert made["shown"] == 2 and 2 * 4000 < len(json.dumps([made])) < 2 * 20500, "at most 6 MB for 300 heads"


@pytest.mark.test_all
def test_queries_and_keys_before_rope(qkscope, tmp_path):
    """From the capture that the stages were compared with, where it is there; nothing is said of it where none was."""
    qkscope("capture", "-m", TINY / "step-20", "-t", TINY / "passages.jsonl", "--max-texts", "4", "--max-length", "64", "--long", "cut",
            "--sampler", "all", "--stage", "both", "-o", "both", "-q", cwd=tmp_path, expect=0)
    qkscope("pca", "both/post", "-o", "results", cwd=tmp_path, expect=0)
    report(qkscope, "results", "--heads", "0:1,1:2,2:0,3:2,4:3", cwd=tmp_path)
    assert points(page_text(tmp_path / "results"))[0]["pre_pca"] == {}
    qkscope("compare-stages", "both", "-o", "results", cwd=tmp_path, expect=0)
    report(qkscope, "results", "--heads", "0:1,1:2,2:0,3:2,4:3", cwd=tmp_path)
    made = points(page_text(tmp_path / "results"))[0]
    check_points(page_text(tmp_path / "results"), "pca", tmp_path / "both" / "post")
    check_points(page_text(tmp_path / "results"), "pre_pca", tmp_path / "both" / "pre")
    assert made["pre_pca"].keys() == made["pre_ab"].keys() == made["ab"].keys() and made["shown"] == 5
    shutil.rmtree(tmp_path / "both" / "pre")
    report(qkscope, "results", "--heads", "0:1,1:2,2:0,3:2,4:3", cwd=tmp_path)
    made = points(page_text(tmp_path / "results"))[0]
    assert made["pre_pca"] == {} and "both/pre was not there" in made["pre_why"] and len(made["pca"]) == 5


def test_late_rows_lie_on_the_late_side(results):
    """Along axis a, which points towards late queries."""
    text = page_text(results)
    for entry in points(text)[0]["ab"].values():
        x, _, late, is_key = places(text, entry)
        assert np.corrcoef(x[~is_key], late[~is_key])[0, 1] > 0


@pytest.mark.test_all
def test_any_number_of_threads(qkscope, results, tmp_path):
    report(qkscope, results, "-o", tmp_path, "--heads", HEADS, "--threads", 1)
    assert page_text(tmp_path) == page_text(results)


def test_chosen_heads_alone(qkscope, results, tmp_path):
    text = page_text(results)
    assert set(points(text)[0]["pca"]) == set(points(text)[0]["ab"]) == set(HEADS.split(","))
    assert "Of <strong>2</strong> of 20 heads the page shows queries and keys as well" in drawn(results / "report.html")
    report(qkscope, results, "-o", tmp_path, "--no-points")
    text = page_text(tmp_path)
    assert points(text)[0]["pca"] == {} and block(text, "qk-said")["why"] == "they were not asked for"
    failed = qkscope("report", results, "-o", tmp_path, "--heads", "0:1,9:0", env={"PATH": "/nowhere"}, expect=1)
    assert "heads 9:0: these results have none of them" in failed.err  # before a figure is drawn


@pytest.mark.parametrize("place, folder", [("work", "results"), ("work/results", "."), (".", "work/results"), ("moved", "results")])
def test_a_capture_that_was_named_from_elsewhere(qkscope, results, tmp_path, place, folder):
    """It is found where the report is made from another folder than the analysis, or both have moved."""
    work = tmp_path / "work"
    shutil.copytree(results.parent / "capture", work / "capture")
    qkscope("pca", "capture", "-o", "results", "--layers", 0, cwd=work, expect=0)
    if place == "moved":
        work.rename(tmp_path / "moved")
    report(qkscope, folder, "--heads", "0:1", cwd=tmp_path / place)
    assert points(page_text(tmp_path / place / folder))[0]["shown"] == 1


@pytest.mark.cases(3)
@pytest.mark.parametrize("harm, why", [("gone", "was not there when this page was made"), ("other", "is not as it was analysed"),
                                       ("no rows", "keeps moments, and no rows")])
def test_a_capture_that_is_not_there(qkscope, results, tmp_path, harm, why):
    """Its points are missing, and it says what brings them."""
    shutil.copytree(results.parent / "capture", tmp_path / "capture")
    qkscope("pca", tmp_path / "capture", "-o", tmp_path / "results", "--layers", 2, expect=0)
    if harm == "gone":
        shutil.rmtree(tmp_path / "capture")
    elif harm == "other":
        with open(next((tmp_path / "capture").glob("l02h01q/*.parquet")), "ab") as file:
            file.write(b"PAR1")
    else:
        manifest = json.loads((tmp_path / "results" / "manifest.json").read_text())
        manifest["runs"][0]["kept"] = {"rows": "none"}
        (tmp_path / "results" / "manifest.json").write_text(json.dumps(manifest))
    report(qkscope, tmp_path / "results")
    made = points(page_text(tmp_path / "results"))[0]
    assert made["pca"] == {} and why in made["why"] and made["command"].startswith("qkscope ")
