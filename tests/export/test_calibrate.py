# SPDX-License-Identifier: Apache-2.0
"""qkscope.calibrate and qkscope-calibrate: the file is that of a capture and its export; how good it is, against NumPy on the rows, turned
as real vectors; what is refused, before the model runs."""
import json
import shutil
import sys

import numpy as np
import pytest
from conftest import ROOT
from export_oracle import turn

qk = pytest.importorskip("qkscope", reason="the Python package is not in this build")

from qkscope.export._check import correlations  # noqa: E402
from qkscope.export._rotary import rotary  # noqa: E402
from qkscope.export.calibrate import main  # noqa: E402
from test_export_rotary import request_of  # noqa: E402

MODEL = ROOT / "examples" / "kjv-tiny" / "step-2004"
TEXT = ROOT / "examples" / "kjv-tiny" / "passages.jsonl"
QUERIES, KEYS, DIM, FREQUENCIES = 4, 2, 8, [1.0, 0.2, 0.03, 0.0]


def listing(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


# ---- how good the file is --------------------------------------------------------------------

def put(folder, lengths, seed, keep, pairing="half", frequencies=(FREQUENCIES, None), extra=None):
    """Captures of the same heads, whose vectors have a mean that sticks out. Returns the rows."""
    same, noise, layers = np.random.default_rng(1), np.random.default_rng(seed), len(frequencies)
    center = {kind: same.normal(0, 1, (layers, count, DIM)) for kind, count in (("q", QUERIES), ("k", KEYS))}
    rows = {}
    model = qk.Model("made", layers, QUERIES, KEYS, DIM, frequencies=list(frequencies), rope_interleaved=pairing == "interleaved")
    with qk.Sink(folder, keep=keep, model=model, texts=len(lengths), stage="pre", extra=extra or {}) as s:
        for text, length in enumerate(lengths):
            with s.text(text, length):
                for layer in range(layers):
                    for kind, of in center.items():
                        x = of[layer][:, None] + noise.normal(0, 0.7, (of.shape[1], length, DIM))
                        rows[text, layer, kind] = x.astype(np.float32)
                        s.put(text, layer, kind, rows[text, layer, kind], before_rope=True)
    return rows


def correlation(rows, means, lengths, head, interleaved):
    """Of layer 0: mean over rows 128, 192, ... of all texts of Pearson's r over keys 4 .. t."""
    found = []
    for text, length in enumerate(lengths):
        def turned(x):
            angles = np.outer(np.arange(length), FREQUENCIES)
            return turn(x.astype(float), angles, interleaved)
        q, k = turned(rows[text, 0, "q"][head]), turned(rows[text, 0, "k"][head // 2])
        mean = turned(np.tile(means[head], (length, 1)))
        for t in range(128, length, 64):
            found.append(np.corrcoef(k[4:t + 1] @ q[t], k[4:t + 1] @ mean[t])[0, 1])
    return np.mean(found)


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_held_out_correlations_are_those_of_the_rows(tmp_path, pairing):
    seen, lengths = put(tmp_path / "seen", [300, 200], 2, "moments", pairing), [400, 129]
    held = put(tmp_path / "held", lengths, 3, "rows", pairing)
    means = np.concatenate([seen[text, 0, "q"] for text in range(2)], axis=1).astype(float).mean(1)
    expected = [correlation(held, means, lengths, head, pairing == "interleaved") for head in range(QUERIES)]
    found = correlations(rotary(request_of(tmp_path / "seen")), tmp_path / "held")
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)
    assert np.isnan(found[1]).all()  # it has no RoPE


def test_held_out_rows_that_say_nothing_are_refused(tmp_path):
    turning = dict(frequencies=[[10000.0 ** (-p / 4) for p in range(4)]] * 2, extra={"rope": {
        "type": "default", "theta": 10000.0, "pairing": "half"}})
    put(tmp_path / "seen", [300], 2, "moments", **turning)
    put(tmp_path / "short", [128], 3, "rows", **turning)
    with pytest.raises(qk.DataError, match="no query at a position of 128, 192, .*: held-out texts need more than 128 tokens"):
        qk.export("triattention-ggml", tmp_path / "seen", tmp_path / "out", held_out=tmp_path / "short")
    assert not (tmp_path / "out").exists()
    with pytest.warns(qk.QkscopeWarning, match="held_out=.* does nothing for kvpress-stats"):
        qk.export("kvpress-stats", tmp_path / "short", tmp_path / "stats", held_out="x")


# ---- the step --------------------------------------------------------------------------------

def book(count):
    return "\n".join(json.loads(line)["text"] for line in TEXT.read_text().splitlines()[:count])


def test_the_file_is_that_of_a_capture_and_its_export(qkscope, tmp_path, capsys, monkeypatch):
    """Of a plain text the last quarter is held out."""
    monkeypatch.chdir(tmp_path)
    words = book(3)
    (tmp_path / "book.txt").write_text(words)
    assert main([str(MODEL), "book.txt", "--for", "triattention-ggml", "-o", "out", "--max-length", "512"]) == 0
    said = capsys.readouterr().out
    cut = words.rfind(" ", 0, len(words) * 3 // 4) + 1
    assert "512 to check it: book.txt, of which the last quarter is held out\nabout " in said
    assert "20 heads for triattention-ggml: held-out correlation of scores 0." in said and "\nlayer   4: median  " in said
    files = listing(tmp_path / "out")
    assert set(files) == {"triattention.bin", "triattention-made-from.json", "held-out.json"}
    for name, text, more in (("seen", words[:cut], ["--keep", "moments"]), ("held", words[cut:], ["--keep", "rows", "--long", "cut"])):
        (tmp_path / f"{name}.txt").write_text(text)
        qkscope("capture", "-m", MODEL, "-t", f"{name}.txt", "--max-length", "512", "--stage", "pre", "--sampler", "all",
                "-o", name, *more, expect=0)
    qk.export("triattention-ggml", "seen", "by-hand", held_out="held")
    by_hand = listing(tmp_path / "by-hand")
    assert all(files[name] == by_hand[name] for name in ("triattention.bin", "held-out.json"))
    found = json.loads(files["held-out.json"])
    heads = np.array([layer["heads"] for layer in found["layers"]])
    assert heads.shape == (5, 4) and found["median"] == pytest.approx(np.median(heads), abs=1e-6)
    assert [layer["worst_head"] for layer in found["layers"]] == list(heads.argmin(1))
    assert [layer["median"] for layer in found["layers"]] == pytest.approx(list(np.median(heads, 1)), abs=1e-6)


def test_without_a_text_and_without_a_check(tmp_path, capsys):
    """Bundled passages; the same call gives the same bytes, here after RoPE."""
    made = qk.calibrate(MODEL, format="key-means", output=tmp_path / "out", max_length=256, long="cut")
    assert made.files == ("key-means.gguf",) and made.heads == 10
    files = listing(tmp_path / "out")
    made = qk.calibrate(MODEL, format="key-means", output=tmp_path / "out", force=True, max_length=256, long="cut")
    assert listing(tmp_path / "out") == files
    assert main([str(MODEL), "--for", "triattention", "-o", str(tmp_path / "plain"), "--no-check", "--max-length", "200", "--long", "cut",
                 "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"] == ["triattention.pt"] and set(listing(tmp_path / "plain")) == {"triattention.pt"}


def test_a_dry_run_says_what_it_takes_and_writes_nothing(tmp_path, capsys):
    command = [str(MODEL), "--for", "triattention", "-o", str(tmp_path / "out"), "--dry-run"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tokens"] > 10_000 and told["windows"] == -(-told["tokens"] // 1024) and told["held_out"] == 1024
    weights = (MODEL / "model.safetensors").stat().st_size
    assert told["seconds"] > 0 and weights < told["memory_bytes"] < weights + 1e8
    assert main(command) == 0
    assert capsys.readouterr().out.startswith(f"{told['tokens']} tokens in {told['windows']} windows, and 1024 to check it: passages of the "
                                              "King James Bible, which come with qkscope\nabout ")
    assert not (tmp_path / "out").exists()


def test_a_text_that_is_too_short_to_check(tmp_path):
    (tmp_path / "short.txt").write_text(book(1)[:400])
    with pytest.warns(qk.QkscopeWarning, match="the held-out text has 1.. tokens, and more than 128 are needed: the file is not checked"):
        made = qk.calibrate(MODEL, tmp_path / "short.txt", format="triattention", output=tmp_path / "out")
    assert made.files == ("triattention.pt",) and set(listing(tmp_path / "out")) == {"triattention.pt"}


def test_a_model_that_the_format_cannot_tell_is_refused_before_it_runs(tmp_path, monkeypatch):
    shutil.copytree(MODEL, tmp_path / "model")
    told = json.loads((tmp_path / "model" / "config.json").read_text())
    told["rope_scaling"] = {"rope_type": "linear", "factor": 2.0}
    (tmp_path / "model" / "config.json").write_text(json.dumps(told))
    monkeypatch.setattr(sys.modules[main.__module__], "run_recorder", lambda *_: pytest.fail("it runs"))
    with pytest.raises(qk.DataError, match="model: frequencies are not those of theta 10000 alone .RoPE of type linear"):
        qk.calibrate(tmp_path / "model", format="triattention-ggml", output=tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("given, error, why", [
    (dict(format="layer-types"), qk.ArgumentError, "is made of an ablation: qkscope ablate"),
    (dict(format="triatt"), qk.ArgumentError, "format='triatt': expected kvpress-stats, "),
    (dict(format="triattention", max_lenght=3), TypeError, "Did you mean 'max_length'"),
    (dict(format="triattention", output="taken"), qk.ExistsError, "held-out.json: is there already: .* --force"),
    (dict(format="triattention", output="busy"), qk.ExistsError, "busy/.qkscope-calibrate: .*; remove it, where no other"),
    (dict(format="triattention", text="nowhere.txt"), qk.NotFoundError, "nowhere.txt"),
])
def test_what_is_refused_leaves_nothing(tmp_path, monkeypatch, given, error, why):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "held-out.json").write_text("mine")
    (tmp_path / "busy" / ".qkscope-calibrate").mkdir(parents=True)
    with pytest.raises(error, match=why):
        qk.calibrate(MODEL, given.pop("text", None), **{"output": "out", **given})
    assert not (tmp_path / "out").exists() and set(listing(tmp_path / "taken")) == {"held-out.json"}
