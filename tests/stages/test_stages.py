# SPDX-License-Identifier: Apache-2.0
"""compare-stages: its numbers against NumPy, on made-up captures with known pairs and on real
models; what it refuses."""
import csv
import json
import math
import re
import shutil
import sys

import numpy as np
import pytest
from conftest import Agreement, ROOT, head_name, last_run, read_bytes, read_csv, read_json, read_rows, write_rows
from figure_files import cells, numbers, panels, read_svg, texts_of
from stages_oracle import head_numbers, made_heads, made_rows, rotate, write_stages

sys.path.append(str(ROOT / "tests" / "report"))
from report_pages import block, findings  # noqa: E402

pytest.importorskip("pyarrow")

TABLES = ("stages.csv", "rope_pairs.csv", "score_by_distance.csv")
KJV = ROOT / "examples" / "kjv-tiny"
OMEGA = 10000.0 ** (-np.arange(8) / 8)


def compare(qkscope, folder, out, *options, expect=0):
    return qkscope("compare-stages", folder, "-o", out, *options, expect=expect)


def table(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(text):
    return None if text == "" else float(text)


def rows_of(folder, name):
    rows = read_rows(folder / "pre", name)
    rows["after"] = read_rows(folder / "post", name)["vector"]
    if (folder / "post" / "examples.csv").exists():
        text_of = {int(row["example_id"]): int(row["text_id"]) for row in table(folder / "post" / "examples.csv")}
        rows["text_id"] = np.array([text_of[example] for example in rows["example_id"].tolist()])
    return rows


def check_tables(folder, out, frequencies, group, interleaved=False, heads=None):
    """Every column of every row; returns the rows of stages.csv."""
    seen = Agreement()
    stages, pairs, curves = (table(out / name) for name in TABLES)
    for row in stages:
        layer, head, key = (int(row[c]) for c in ("layer", "q_head", "k_head"))
        assert key == head // group
        if heads and (layer, head) not in heads:
            continue
        own = frequencies(layer) if callable(frequencies) else frequencies
        place = f"layer {layer} head {head}"
        q, k = (rows_of(folder, head_name(layer, h, kind)) for h, kind in ((head, "q"), (key, "k")))
        numbers, expected_pairs, expected_curve = head_numbers(q, k, own, interleaved)
        assert set(row) == {"model", "layer", "q_head", "k_head", *numbers}
        for column, value in numbers.items():
            if column.startswith("category"):
                assert row[column] == value, (column, place)
            else:
                # what rounding leaves of the float32 rows, not a number of the head
                scale = 1 if column in ("rotation_deviation", "chance_share") else None
                if column in ("measured_mean", "predicted_mean"):
                    scale = numbers[column.replace("mean", "sd")]
                seen.add(column, number(row[column]), value, place, scale)
        mine = {"layer": str(layer), "q_head": str(head)}
        for got, expected, unit in ((pairs, expected_pairs, 1.0),
                                    (curves, expected_curve, numbers["measured_sd"])):
            got = [r for r in got if all(r[c] == v for c, v in mine.items())]
            assert len(got) == len(expected)
            for have, want in zip(got, expected):
                want.pop("turns", None)
                assert set(have) == {"model", "layer", "q_head", "k_head", *want}
                for column, value in want.items():
                    scale = unit if column in ("measured", "predicted", "standard_error",
                                               "score_share", "phase") else None
                    seen.add(column, number(have[column]), value, place, scale)
    seen.check("compare-stages")
    return stages


# ---- made-up captures ------------------------------------------------------------------------

@pytest.mark.cases(4)
@pytest.mark.parametrize("options", [
    {}, {"dim": 24, "interleaved": True, "scale": 0.8}, {"texts": 1, "lift": 0.0}, {"interleaved": False, "scale": 1.2},
    {"window": 40, "float64": False}, {"length": 9000, "each": 200}, {"layers": 2, "group": 4, "each": 80}],
    ids=lambda o: "-".join(f"{k}={v}" for k, v in o.items()) or "plain")
def test_against_numpy(qkscope, tmp_path, options):
    made = {k: v for k, v in options.items() if k in ("window", "texts", "length", "each",
                                                      "layers", "group", "lift")}
    written = {k: v for k, v in options.items() if k in ("interleaved", "scale", "float64", "group")}
    heads = made_heads(np.random.default_rng(5), options.get("dim", 16), **made)
    write_stages(tmp_path / "c", heads, list(OMEGA), **written)
    compare(qkscope, tmp_path / "c", tmp_path / "o")
    check_tables(tmp_path / "c", tmp_path / "o", OMEGA, options.get("group", 2),
                 bool(options.get("interleaved")))


def test_windows_of_one_text(qkscope, tmp_path):
    """Errors and numbers of texts are over texts, pairs are of windows."""
    heads = made_heads(np.random.default_rng(5), 16, texts=6)
    ids = np.unique(np.concatenate([rows["example_id"] for rows in heads.values()])).tolist()
    write_stages(tmp_path / "c", heads, list(OMEGA))
    lines = [f"{example},{text}\n" for example, text in zip(ids, [7, 3, 7, 3, 3, 9], strict=True)]
    (tmp_path / "c" / "post" / "examples.csv").write_text("".join(["example_id,text_id\n", *lines]))
    compare(qkscope, tmp_path / "c", tmp_path / "o")
    stages = check_tables(tmp_path / "c", tmp_path / "o", OMEGA, 2)
    assert {row["texts"] for row in stages} == {"3"}


def known(rng, means, noise, **options):
    """Rows whose pair p has the mean means[p], a complex number."""
    rows = made_rows(rng, 2 * len(means), lift=0, **options)
    rows["vector"] = noise * rows["vector"] + np.concatenate([np.real(means), np.imag(means)])
    return rows


def test_known_pairs(qkscope, tmp_path):
    """One pair with a mean in queries and keys: all of the score's variance, at its phase, and
    the whole of the measured curve."""
    rng = np.random.default_rng(1)
    q, k = np.zeros(8, complex), np.zeros(8, complex)
    q[3], k[3] = 2 * np.exp(0.9j), 3 * np.exp(-0.4j)
    q[6] = 5  # no partner in keys: energy, but no score
    keys = known(rng, k, 0.05, each=250)
    queries = known(rng, q, 0.05, each=250)
    queries["example_id"] = np.unique(keys["example_id"])[
        np.searchsorted(np.unique(queries["example_id"]), queries["example_id"])]
    write_stages(tmp_path / "c", {"l00h00q": queries, "l00h00k": keys}, list(OMEGA), group=1)
    compare(qkscope, tmp_path / "c", tmp_path / "o")
    pairs = table(tmp_path / "o" / "rope_pairs.csv")
    assert float(pairs[3]["score_share"]) == pytest.approx(1, abs=0.02)
    assert float(pairs[3]["phase"]) == pytest.approx(1.3, abs=0.02)
    assert float(pairs[3]["mean_q"]) == pytest.approx(2, abs=0.01)
    assert float(pairs[3]["concentration_k"]) > 0.99 > 0.2 > float(pairs[0]["concentration_k"])
    assert float(pairs[6]["energy_q"]) == pytest.approx(25 / 29.05, abs=0.01)
    assert float(pairs[6]["score_share"]) == pytest.approx(0, abs=0.02)
    assert sum(float(p["score_share"]) for p in pairs) == pytest.approx(1)
    assert sum(float(p["energy_q"]) for p in pairs) == pytest.approx(1)
    head = table(tmp_path / "o" / "stages.csv")[0]
    assert head["top_pair"] == "3" and float(head["r_squared_predicted"]) > 0.999
    for row in table(tmp_path / "o" / "score_by_distance.csv")[:4]:
        expected = 6 * math.cos(OMEGA[3] * int(row["first"]) + 1.3)
        assert float(row["predicted"]) == pytest.approx(expected, abs=0.05)
        assert float(row["measured"]) == pytest.approx(expected, abs=0.3)


def test_no_pairs_and_few(qkscope, tmp_path):
    """Queries before all keys, then a text with hardly any pair: numbers where there are some."""
    rng = np.random.default_rng(2)
    queries, keys = made_rows(rng, 16, texts=1, length=130), made_rows(rng, 16, texts=1, length=130)
    keys["example_id"][:] = queries["example_id"][0]
    keys["position"] += 200
    write_stages(tmp_path / "c", {"l00h00q": queries, "l00h00k": keys}, list(OMEGA), group=1)
    compare(qkscope, tmp_path / "c", tmp_path / "o")
    row = table(tmp_path / "o" / "stages.csv")[0]
    assert row["row_pairs"] == "0" == row["texts"] and table(tmp_path / "o" / "score_by_distance.csv") == []
    assert row["r_squared_predicted"] == row["top_pair"] == row["slow_score_share"] == row["measured_sd"] == ""
    assert float(row["r_q_before"]) is not None and float(row["slow_energy_q"]) > 0
    keys["position"] -= 100  # a few pairs
    write_stages(tmp_path / "d", {"l00h00q": queries, "l00h00k": keys}, list(OMEGA), group=1)
    compare(qkscope, tmp_path / "d", tmp_path / "p")
    curve = table(tmp_path / "p" / "score_by_distance.csv")
    assert curve and all(int(r["pairs"]) > 0 and r["standard_error"] == "" for r in curve)


def test_threads_and_shards(qkscope, tmp_path):
    heads = made_heads(np.random.default_rng(3), 16, layers=3, each=60)
    write_stages(tmp_path / "c", heads, list(OMEGA))
    found = set()
    for threads in (1, 7):
        out = tmp_path / str(threads)
        compare(qkscope, tmp_path / "c", out, "--threads", threads)
        found.add(tuple(read_bytes(out, *TABLES).values()))
    for name, rows in heads.items():
        shutil.rmtree(tmp_path / "c" / "post" / name)
        after = rotate(rows["vector"], rows["position"], OMEGA)
        write_rows(tmp_path / "c" / "post", name, {**rows, "vector": after}, shards=3)
    compare(qkscope, tmp_path / "c", tmp_path / "s")
    found.add(tuple(read_bytes(tmp_path / "s", *TABLES).values()))
    assert len(found) == 1


def test_selections(qkscope, tmp_path):
    heads = made_heads(np.random.default_rng(4), 16, layers=3)
    write_stages(tmp_path / "c", heads, list(OMEGA))
    compare(qkscope, tmp_path / "c", tmp_path / "o", "--layers", "1-2", "--heads", "0,3",
            "--max-samples", "90")
    rows = table(tmp_path / "o" / "stages.csv")
    assert [(r["layer"], r["q_head"], r["n_q"], r["n_k"]) for r in rows] == [
        (str(a), str(b), "90", "90") for a in (1, 2) for b in (0, 3)]
    two = qkscope("compare-stages", tmp_path / "c" / "pre", tmp_path / "c" / "post", "-o",
                  tmp_path / "p", "--layers", "1-2", "--heads", "0,3", "--max-samples", "90", expect=0)
    assert read_bytes(tmp_path / "o", *TABLES) == read_bytes(tmp_path / "p", *TABLES)
    assert "4 heads" in two.out and "position-dominated" in two.out


# ---- real models -----------------------------------------------------------------------------

@pytest.fixture(scope="module")
def kjv(qkscope, tmp_path_factory):
    place = tmp_path_factory.mktemp("kjv")
    texts = (KJV / "passages.jsonl").read_text().splitlines(keepends=True)
    (place / "texts.jsonl").write_text("".join(texts[:12]))
    qkscope("capture", "-m", KJV / "step-2004", "-t", place / "texts.jsonl", "--stage", "both",
            "-o", place / "c", expect=0)
    return place / "c"


@pytest.mark.test_all
def test_kjv(qkscope, kjv, tmp_path):
    """Also: what pca says of the same rows, and mean vectors explain every head's curve at least
    as well as a constant."""
    compare(qkscope, kjv, tmp_path / "o")
    frequencies = read_json(kjv / "post" / "capture.json")["rope_frequencies"]
    stages = check_tables(kjv, tmp_path / "o", lambda layer: frequencies[str(layer)], 2,
                          heads={(0, 0), (1, 3), (4, 2)})
    assert len(stages) == 20 and all(float(r["r_squared_predicted"]) >= 0 for r in stages)
    assert all(float(r["rotation_deviation"]) < 1e-4 for r in stages)
    for when in ("before", "after"):
        folder = kjv / ("pre" if when == "before" else "post")
        qkscope("pca", folder, "-o", tmp_path / when, expect=0)
        heads = read_csv(tmp_path / when / "heads.csv")
        first = [r for r in read_csv(tmp_path / when / "qk.csv") if r["pc"] == 0]
        assert len(heads) == len(first) == 20
        for ours, head, component in zip(stages, heads, first):
            assert ours[f"category_{when}"] == head["category"]
            for column in ("r_q", "r_k", "explained_variance"):
                assert float(ours[f"{column}_{when}"]) == pytest.approx(component[column], rel=1e-9)


SAVED = ROOT / "tests" / "data" / "saved"


@pytest.mark.test_all
@pytest.mark.parametrize("name", sorted(p.name for p in SAVED.iterdir() if p.is_dir()))
def test_every_architecture(qkscope, tmp_path, name):
    """A capture says all that it takes to turn its rows: pairing, partial RoPE, frequencies of sliding
    layers, layers without RoPE; YaRN and queries that are scaled by position are allowed for."""
    text = tmp_path / "t.txt"
    text.write_text(" ".join(json.loads((SAVED / "versions.json").read_text())["text"].split() * 2))
    qkscope("capture", "--model", SAVED / name, "--text", text, "--stage", "both", "--sampler", "all",
            "-o", tmp_path / "c", expect=0)
    shown = json.loads(compare(qkscope, tmp_path / "c", tmp_path / "o", "--json").out)
    manifest = read_json(tmp_path / "c" / "post" / "capture.json")
    assert manifest["rope"]["pairing"] == ("interleaved" if name in ("glm", "glm4") else "half")
    assert shown["rotation_deviation"] < 2e-6 and shown["failures"] == []
    assert (shown["heads_without_rope"] > 0) == (name == "smollm3")
    group = manifest["q_per_kv_group"]
    stages = check_tables(tmp_path / "c", tmp_path / "o", lambda layer: manifest["rope_frequencies"][str(layer)],
                          group, manifest["rope"]["pairing"] == "interleaved")
    queries = sum(h["name"].endswith("q") for h in manifest["heads"])
    assert len(stages) == shown["heads"] == queries - shown["heads_without_rope"]


# ---- what it refuses -------------------------------------------------------------------------

@pytest.fixture
def stages(tmp_path):
    heads = made_heads(np.random.default_rng(6), 16, layers=2, each=60)
    return write_stages(tmp_path / "c", heads, list(OMEGA))


def change_manifest(folder, **keys):
    path = folder / "capture.json"
    manifest = read_json(path)
    for key, value in keys.items():
        if value is None:
            manifest.pop(key, None)
        else:
            manifest[key] = value
    path.write_text(json.dumps(manifest))


def refused(qkscope, out, *arguments, words, expect=1):
    result = qkscope("compare-stages", *arguments, "-o", out, expect=expect)
    for word in words:
        assert word in result.err, result.err
    assert not (out / "manifest.json").exists() and not (out / "stages.csv").exists()
    return result


def test_swapped(qkscope, stages, tmp_path):
    pre, post = stages / "pre", stages / "post"
    refused(qkscope, tmp_path / "o", post, pre, words=[str(pre), str(post), "swap"])
    refused(qkscope, tmp_path / "o", post, post, words=["after RoPE", "capture.json"])
    change_manifest(pre, stage=None, rope_frequencies=list(OMEGA))
    change_manifest(post, stage=None)
    refused(qkscope, tmp_path / "o", post, pre, words=["l00h00k", "swapped"])
    compare(qkscope, stages, tmp_path / "o")


def test_another_model(qkscope, stages, tmp_path):
    change_manifest(stages / "pre", model="other")
    refused(qkscope, tmp_path / "o", stages, words=["'other'", "'made'"])
    change_manifest(stages / "pre", model="made")
    change_manifest(stages / "post", rope_frequencies=list(OMEGA[:4]))
    refused(qkscope, tmp_path / "o", stages, words=["l00h00k", "frequencies", "row"])
    change_manifest(stages / "post", rope_frequencies=list(OMEGA) * 2)
    refused(qkscope, tmp_path / "o", stages, words=["l00h00k", "8 rotary pairs", "16"])


def test_pairing(qkscope, tmp_path):
    heads = made_heads(np.random.default_rng(6), 16)
    wrong = write_stages(tmp_path / "c", heads, list(OMEGA), interleaved=True)
    change_manifest(wrong / "post", rope={"pairing": "half"})
    refused(qkscope, tmp_path / "o", wrong, words=["interleaved", "2j"])
    change_manifest(wrong / "post", rope={"pairing": "both"})
    refused(qkscope, tmp_path / "o", wrong, words=["rope.pairing", "half or interleaved"])
    right = write_stages(tmp_path / "d", heads, list(OMEGA), interleaved=False)
    change_manifest(right / "post", rope={"pairing": "interleaved"})
    refused(qkscope, tmp_path / "o", right, words=['"half"', "j and j + pairs"])


def test_no_frequencies(qkscope, stages, tmp_path):
    change_manifest(stages / "post", rope_frequencies=None)
    refused(qkscope, tmp_path / "o", stages, words=["rope_frequencies", "--stage both"])
    change_manifest(stages / "post", rope_frequencies={"7": list(OMEGA)})
    refused(qkscope, tmp_path / "o", stages, words=["rope_frequencies", "layers asked for"])


def test_pairs_that_do_not_turn(qkscope, tmp_path):
    """Zeros among the frequencies ("proportional" RoPE): their pairs count as slow ones, with no wavelength. A layer of
    zeros alone has no RoPE."""
    heads = made_heads(np.random.default_rng(8), 16, layers=2)
    still = [1.0, 0.3, 0.0, 0.1, 0.0, 0.0, 0.0, 0.0]
    folder = write_stages(tmp_path / "c", heads, {"0": still, "1": [0.0] * 8})
    shown = json.loads(compare(qkscope, folder, tmp_path / "o", "--json").out)
    assert (shown["heads"], shown["heads_without_rope"], shown["failures"]) == (4, 4, [])
    stages = check_tables(folder, tmp_path / "o", still, 2)
    assert {row["slow_pairs"] for row in stages} == {"5"}
    pairs = table(tmp_path / "o" / "rope_pairs.csv")
    assert [int(row["pair"]) for row in pairs if row["wavelength"] == ""] == [2, 4, 5, 6, 7] * 4
    assert all(abs(float(row["score_share"])) < 1e-12 for row in pairs if row["wavelength"] == "")


def test_layers_without_rope(qkscope, tmp_path):
    """They are said, not failed."""
    heads = made_heads(np.random.default_rng(6), 16, layers=3)
    write_stages(tmp_path / "c", heads, {"0": list(OMEGA), "2": list(OMEGA)})
    result = compare(qkscope, tmp_path / "c", tmp_path / "o", "--verbose")
    assert "4 of 12 heads" in result.err and "NoPE" in result.err
    assert "4 heads in layers without frequencies" in result.out
    assert {r["layer"] for r in table(tmp_path / "o" / "stages.csv")} == {"0", "2"}
    shown = json.loads(compare(qkscope, tmp_path / "c", tmp_path / "o", "--json").out)
    assert (shown["heads"], shown["heads_without_rope"], shown["failures"]) == (8, 4, [])


def test_missing_heads(qkscope, stages, tmp_path):
    shutil.rmtree(stages / "pre" / "l00h01q")
    shutil.rmtree(stages / "post" / "l01h02q")
    shutil.rmtree(stages / "post" / "l01h00k")
    result = compare(qkscope, stages, tmp_path / "o", expect=3)
    assert re.search(r"l00h01q: .*before RoPE", result.err)
    assert re.search(r"l01h02q: .*after RoPE", result.err)
    assert len(re.findall(r"l01h00q: its key head l01h00k .*after RoPE.*likewise l01h01q", result.err)) == 1
    assert [(r["layer"], r["q_head"]) for r in table(tmp_path / "o" / "stages.csv")] == [
        ("0", "0"), ("0", "2"), ("0", "3"), ("1", "3")]
    assert {f["head"] for f in last_run(tmp_path / "o")["failures"]} == {
        "l00h01q", "l01h02q", "l01h00q", "l01h01q"}


def test_other_rows(qkscope, stages, tmp_path):
    """One head has other rows, one is cut, one is no Parquet; the others go on."""
    rows = read_rows(stages / "post", "l00h01q")
    rows["position"][17] += 1
    write_rows(stages / "post", "l00h01q", rows)
    rows = read_rows(stages / "pre", "l01h02q")
    write_rows(stages / "pre", "l01h02q", {k: v[:-5] for k, v in rows.items()})
    file = stages / "pre" / "l01h00k" / "data.parquet"
    file.write_bytes(file.read_bytes()[:-100])
    result = compare(qkscope, stages, tmp_path / "o", expect=3)
    assert re.search(r"l00h01q: .*l00h01q/data.parquet: row 17 is position \d+ of text", result.err)
    assert re.search(r"l01h02q: .*240 rows, and 235 before RoPE", result.err)
    assert re.search(r"l01h0[01]q: its key head l01h00k has no numbers", result.err)
    assert len(table(tmp_path / "o" / "stages.csv")) == 4


def test_strange_positions(qkscope, tmp_path):
    heads = made_heads(np.random.default_rng(6), 16, each=60)
    for position in (-1, 2 ** 62, -2 ** 63):
        heads["l00h00q"]["position"][3] = position
        folder = write_stages(tmp_path / str(position), heads, list(OMEGA))
        result = compare(qkscope, folder, tmp_path / "o", "--force", expect=3)
        assert re.search(rf"l00h00q: .*'position': row 3 is {position}", result.err)
    heads["l00h00q"]["position"][3] = 2 ** 30
    compare(qkscope, write_stages(tmp_path / "far", heads, list(OMEGA)), tmp_path / "p")
    assert table(tmp_path / "p" / "stages.csv")[0]["context"] == str(2 ** 30 + 1)


def test_no_captures(qkscope, stages, tmp_path):
    refused(qkscope, tmp_path / "o", tmp_path / "nowhere", words=["nowhere"])
    refused(qkscope, tmp_path / "o", stages / "pre", words=["pre and post", "--stage both"])
    qkscope("compare-stages", "-o", tmp_path / "o", expect=2)
    qkscope("compare-stages", stages, expect=2)
    shown = qkscope("compare-stages", "--help", expect=0).out
    assert "PRE POST -o DIR" in shown and "qkscope report" in shown


# ---- the folder of the results, the report ---------------------------------------------------

@pytest.mark.test_all
def test_beside_analyze(qkscope, kjv, tmp_path):
    """Results of the capture after RoPE lie in one folder; those of the one before it do not."""
    out = tmp_path / "o"
    qkscope("pca", kjv / "post", "-o", out, expect=0)
    compare(qkscope, kjv, out)
    runs = read_json(out / "manifest.json")["runs"]
    assert [r["settings"]["analyses"] for r in runs] == [["pca"], ["stages"]]
    assert runs[1]["before_rope"]["capture"] == str(kjv / "pre") and runs[1]["tables"] == list(TABLES)
    assert len(runs[1]["before_rope"]["inputs"]) == len(runs[1]["inputs"]) == 30
    result = qkscope("pca", kjv / "pre", "-o", out, expect=1)
    assert "another capture" in result.err
    qkscope("pca", kjv / "post", "-o", out, expect=0)
    assert (out / "stages.csv").exists()
    page = qkscope("report", out, "--json", expect=0)
    assert json.loads(page.out)["models"] == 1
    text = (out / "report.html").read_text()
    for name in ("stages-01-rotary-pairs", "stages-02-score-by-distance", "stages-03-categories"):
        assert (out / "figures" / f"{name}-step-2004.svg").exists()
        assert f'id="fig-{name}-step-2004"' in text
    for name in ("rope-position", "rope-predicts-score", "rope-slow-score"):
        assert name in findings(text)
    (out / "stages.csv").write_text("")
    assert "stages.csv is not as it was written" in qkscope("report", out, expect=1).err


@pytest.mark.test_all
def test_figures_show_the_tables(qkscope, kjv, tmp_path):
    pd = pytest.importorskip("pandas")
    out = tmp_path / "o"
    compare(qkscope, kjv, out)
    qkscope("report", out, expect=0)
    stages, pairs, curve = (pd.read_csv(out / name) for name in TABLES)

    def drawn_in(name):
        return panels(out / "figures" / f"{name}-step-2004")
    names = list(dict.fromkeys(row["x"] for row in drawn_in("stages-01-rotary-pairs")[0]))
    for block, column in zip(drawn_in("stages-01-rotary-pairs"), ("energy_q", "energy_k", "score_share")):
        expected = 100 * pairs.groupby(["layer", "pair"])[column].mean()
        assert len(block) == len(expected) == 5 * 16
        for (pair, layer), value in cells(block).items():
            assert value == pytest.approx(expected[int(layer), names.index(pair)], rel=1e-9)
    counts = stages.groupby(["category_before", "category_after"]).size()
    shown = cells(drawn_in("stages-03-categories")[0])
    assert {(before, after): n for (after, before), n in shown.items() if n > 0} == counts.to_dict()
    curves = drawn_in("stages-02-score-by-distance")
    assert len(curves) == 6
    worst = stages.loc[stages.r_squared_predicted.idxmin()]
    own = curve[(curve.layer == worst.layer) & (curve.q_head == worst.q_head)]
    shift = (own.predicted - own.measured).mean()
    expected = np.stack([own.distance + 1, own.measured, own.measured - own.standard_error, own.predicted - shift], 1)
    [drawn] = [panel for panel in curves if panel[0]["panel"] == f"layer {worst.layer}, head {worst.q_head}"]
    measured, predicted = ([row for row in drawn if row["series"] == name] for name in ("measured", "predicted"))
    np.testing.assert_allclose(np.hstack([numbers(measured, "x", "y", "low"), numbers(predicted, "y")]), expected, rtol=1e-9, atol=1e-12)


# ---- tables of one's own ---------------------------------------------------------------------

COLUMNS = ("r_q_before,r_k_before,r_q_after,r_k_after,category_before,category_after,"
           "r_squared_predicted,measured_sd,slow_energy_q,slow_energy_k,slow_score_share,context").split(",")


def write_tables(folder, layers=4, heads=4, rows=500, pairs=8, change=None, pair=None):
    """stages.csv and the others, made up: every second head gains position."""
    folder.mkdir()
    rng = np.random.default_rng(3)
    with (open(folder / TABLES[0], "w", newline="") as a, open(folder / TABLES[1], "w", newline="") as b,
          open(folder / TABLES[2], "w", newline="") as c):
        out = [csv.writer(f) for f in (a, b, c)]
        ids = ["model", "layer", "q_head", "k_head"]
        out[0].writerow([*ids, *COLUMNS, "n_q", "n_k"])
        out[1].writerow([*ids, "pair", "wavelength", "energy_q", "energy_k", "score_share"])
        out[2].writerow([*ids, "bin", "distance", "measured", "predicted", "standard_error"])
        for layer in range(layers):
            for head in range(heads):
                row = dict(zip(COLUMNS, [0.1, 0.1, 0.8, 0.8, "content-focused",
                                         "position-dominated" if head % 2 else "mixed",
                                         0.9 + 0.01 * rng.random(), 2.0, 0.6, 0.6,
                                         0.7 + 0.05 * rng.random(), 512]))
                if change:
                    change(row, layer, head)
                mine = ["m", layer, head, head // 2]
                out[0].writerow([*mine, *row.values(), rows, rows])
                for p in range(pairs):
                    out[1].writerow([*mine, pair(p) if pair else p, 6.3 * 4.0 ** p, 1 / pairs, 1 / pairs, 1 / pairs])
                for d in range(10):
                    out[2].writerow([*mine, d, d, -d, -d + rng.random(), 0.1])
    return folder


def verdicts(qkscope, folder):
    qkscope("report", folder, expect=0)
    found = findings((folder / "report.html").read_text())
    return {name: f.verdict for name, f in found.items() if name.startswith("rope-")}


def test_findings(qkscope, tmp_path):
    assert verdicts(qkscope, write_tables(tmp_path / "a")) == {
        "rope-position": "supported", "rope-predicts-score": "supported",
        "rope-slow-score": "supported"}

    def other(row, layer, head):
        row["category_before"], row["category_after"] = "position-dominated", "mixed"
        row["r_squared_predicted"], row["slow_score_share"] = -0.5, 0.2 + 0.01 * head + 0.02 * layer
    assert verdicts(qkscope, write_tables(tmp_path / "b", change=other)) == {
        "rope-position": "opposite", "rope-predicts-score": "opposite",
        "rope-slow-score": "opposite"}

    def same(row, layer, head):
        row["category_before"] = row["category_after"]
        row["slow_score_share"], row["r_squared_predicted"] = 0.4 + 0.2 * (layer % 2), head // 2
    found = verdicts(qkscope, write_tables(tmp_path / "c", change=same))
    assert found["rope-position"] == found["rope-slow-score"] == "unsupported"
    assert found["rope-predicts-score"] == "unsupported"
    page = findings((tmp_path / "a" / "report.html").read_text())
    assert "is above 0 in 8 of 16 heads: mean over heads 0.500" in page["rope-position"].evidence[0]


def test_heads_with_few_rows_are_in_no_finding(qkscope, tmp_path):
    folder = write_tables(tmp_path / "a", rows=50)
    assert verdicts(qkscope, folder) == {}
    sums = block((folder / "report.html").read_text(), "qk-said")["sums"]
    assert sums["few_rows"] == sums["heads"] == 16


@pytest.mark.test_all
def test_many_layers_and_pairs(qkscope, tmp_path):
    """Labels thin out; layers without heads stay blank."""
    def gap(row, layer, head):
        row["context"] = 10**9 if layer else 512
    folder = write_tables(tmp_path / "a", layers=90, heads=1, pairs=64, change=gap)
    qkscope("report", folder, expect=0)
    texts = [t for t in texts_of(folder / "figures" / "stages-01-rotary-pairs-m") if t]
    assert "88" in texts and "87" not in texts and len(texts) < 250


@pytest.mark.test_all
@pytest.mark.parametrize("width, columns", [(85, 1), (170, 3)])
def test_three_maps_of_pairs_stand_in_one_row_of_a_page(qkscope, tmp_path, width, columns):
    folder = write_tables(tmp_path / "a")
    name = "stages-01-rotary-pairs"
    qkscope("report", folder, "--no-html", "--figure", name, "--width", f"{width}mm", expect=0)
    titles = [text for text in read_svg(folder / "figures" / f"{name}-m").iter("{http://www.w3.org/2000/svg}text") if "(%)" in (text.text or "")]
    assert len(titles) == 3 and len({text.get("x") for text in titles}) == columns


def test_layers_far_out(qkscope, tmp_path):
    """A map of them would take all memory."""
    table = write_tables(tmp_path / "a") / "rope_pairs.csv"
    rows = [row.split(",") for row in table.read_text().splitlines()[1:]]
    far = [",".join([row[0], "1500000", *row[2:]]) for row in rows if row[1:3] == rows[-1][1:3]]
    table.write_text(table.read_text() + "\n".join(far) + "\n")
    assert "so far out that it would have more than" in qkscope("report", tmp_path / "a", "--no-html", "--force", expect=3).err


def test_damaged_tables(qkscope, tmp_path):
    bad = write_tables(tmp_path / "a", pair=lambda p: p + (p > 3))
    assert "rotary pair 5, but no row is of 4" in qkscope("report", bad, expect=1).err
    twice = write_tables(tmp_path / "b", pair=lambda p: 0)
    assert "rotary pair 0" in qkscope("report", twice, expect=1).err

    def wrong(row, layer, head):
        row["category_after"] = "position"
    assert "is no category" in qkscope("report", write_tables(tmp_path / "c", change=wrong), expect=1).err
