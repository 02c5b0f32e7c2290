# SPDX-License-Identifier: Apache-2.0
"""Queries and keys on the page: pictures of a head's rows from its capture, and why there are none."""
import base64
import json
import shutil
import struct
import zlib

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


def picture(entry):
    """RGBA of a PNG with a palette, as libpng writes it: without filters, in as few bits as its colours need."""
    data, chunks, at = base64.b64decode(entry[4]), {}, 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        chunks[kind] = chunks.get(kind, b"") + data[at + 8:at + 8 + size]
        at += size + 12
    width, height, depth, kind = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert kind == 3 and (rows[:, 0] == 0).all()
    bits = np.unpackbits(rows[:, 1:], axis=1).reshape(height, -1, depth)
    index = (bits @ (1 << np.arange(depth)[::-1]))[:, :width]
    alpha = np.full(1 << depth, 255)
    alpha[:len(chunks.get(b"tRNS", b""))] = list(chunks.get(b"tRNS", b""))
    colors = np.zeros((1 << depth, 3), int)
    palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
    colors[:len(palette)] = palette
    return np.dstack([colors[index], alpha[index]])


def components(q, k):
    """PC0 and PC1 of both kinds together, up to their signs: an eigendecomposition of the covariance."""
    both = np.concatenate([q["vector"], k["vector"]])
    _, vectors = np.linalg.eigh(np.cov(both.T))
    return vectors[:, [-1, -2]]


def check_pictures(of, capture):
    """Each edge is that of the projections, with 4 % of room; where a row lies alone the picture has the colour of
    its kind, and far from all rows it has none. Fewer than 1,000 rows of a kind are all drawn."""
    checked = 0
    for layer, head, q, k in [pair for pair in head_pairs(capture, GROUP) if f"{pair[0]}:{pair[1]}" in of]:
        axes = components(q, k)
        entry = of[f"{layer}:{head}"]
        places = [rows["vector"] @ axes for rows in (q, k)]
        both = np.concatenate(places)
        pixels = picture(entry)
        height, width = pixels.shape[:2]
        spots = np.empty_like(both)
        for a in range(2):
            low, high = both[:, a].min(), both[:, a].max()
            room = 0.04 * (high - low)
            edges = np.array(entry[2 * a:2 * a + 2])
            turned = not np.allclose(edges, [low - room, high + room], atol=1e-3)
            assert np.allclose(edges, [-high - room, -low + room] if turned else [low - room, high + room], atol=1e-3)
            spots[:, a] = ((-both[:, a] if turned else both[:, a]) - edges[0]) / (edges[1] - edges[0])
        spots = spots * [width, -height] + [0, height]
        some = np.argsort(np.hypot(*(spots - spots.mean(axis=0)).T))[-300:]  # far out some lie alone
        distance = np.hypot(*(spots[:, None] - spots[some]).transpose(2, 0, 1))
        distance[some, np.arange(len(some))] = np.inf
        for row in some[distance.min(0) > 12]:
            x, y = np.minimum(spots[row].astype(int), [width - 1, height - 1])
            red, _, blue, alpha = pixels[y, x]
            assert alpha == 255 and (blue > red) == (row < len(q["vector"])), (layer, head, row)
            checked += 1
        empty = np.hypot(*(np.indices((height, width)).reshape(2, -1).T[::197, None, ::-1] - spots[None]).transpose(2, 0, 1))
        away = np.indices((height, width)).reshape(2, -1)[:, ::197][:, empty.min(1) > 8]
        assert away.size > 20 and (pixels[away[0], away[1], 3] == 0).all()
    assert checked > len(of) / 2


def test_pictures_show_the_rows_where_they_are(results):
    made = points(page_text(results))[0]
    check_pictures(made["pca"], EXAMPLE)
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
    check_pictures(made["pca"], tmp_path / "both" / "post")
    check_pictures(made["pre_pca"], tmp_path / "both" / "pre")
    assert made["pre_pca"].keys() == made["pre_ab"].keys() == made["ab"].keys() and made["shown"] == 5
    shutil.rmtree(tmp_path / "both" / "pre")
    report(qkscope, "results", "--heads", "0:1,1:2,2:0,3:2,4:3", cwd=tmp_path)
    made = points(page_text(tmp_path / "results"))[0]
    assert made["pre_pca"] == {} and "both/pre was not there" in made["pre_why"] and len(made["pca"]) == 5


def test_late_rows_are_darker(results):
    """Along axis a, which points towards late queries: the half of the blue points that is late is the darker one."""
    for entry in points(page_text(results))[0]["ab"].values():
        pixels = picture(entry)
        blue, half = (pixels[..., 2] > pixels[..., 0]) & (pixels[..., 3] == 255), pixels.shape[1] // 2
        early, late = (pixels[:, side][blue[:, side]].mean() for side in (slice(0, half), slice(half, None)))
        assert late < early


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
    """Its pictures are missing, and it says what brings them."""
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
