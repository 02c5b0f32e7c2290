# SPDX-License-Identifier: Apache-2.0
"""Queries and keys of a run: against float64 activations of a trained model, against Hugging
Face transformers on tiny checkpoints of every architecture (tests/prefill/golden/, made by
tools/make_model_golden.py), and what must not depend on how a run is done."""
import json
import os
import pathlib
import shutil
import sys

import numpy as np
import pytest

from prefill_runs import (CASES, GOLDEN, ROOT, STEP, SUMS, prefill, read_attention, read_losses, read_tensors, same, same_values,
                          start, text, write_tensors)
sys.path.append(str(ROOT / "tests" / "model"))
from checkpoints import small_config, write_checkpoint  # noqa: E402

SHARED = pathlib.Path(os.environ.get("QKSCOPE_SHARED", ROOT.parent / "shared"))
KJV = SHARED / "data" / "kjv-tiny"


# ---- against references ------------------------------------------------------------------------

@pytest.mark.skipif(not KJV.exists(), reason="no shared data")
@pytest.mark.parametrize("which", "ab")
def test_trained_model_against_float64(which, tmp_path):
    """Before RoPE all values agree to 1e-5 of the largest. The reference turns by angles in
    double precision, models by float32 products: at position 1,000 those differ by up to 3e-5
    radians, so after RoPE the difference is taken over all rows together."""
    reference = read_tensors(KJV / "reference" / f"step-2004-{which}.safetensors")
    values = prefill(KJV / "step-2004", [reference["input_ids"]], tmp_path)
    compared = 0
    for name, expected in reference.items():
        if not name.startswith("layers."):
            continue
        _, layer, what = name.split(".")
        rotated = what.endswith("_post")
        rows = values[int(layer), what[0], rotated, 0][1].transpose(1, 0, 2)
        difference = rows - expected.astype(float)
        assert np.linalg.norm(difference) < 1e-5 * np.linalg.norm(expected), name
        assert abs(difference).max() < (4e-5 if rotated else 1e-5) * abs(expected).max(), name
        compared += 1
    assert compared == (20 if which == "a" else 6)


@pytest.mark.cases(19)
@pytest.mark.parametrize("case", CASES)
def test_golden(case, tmp_path):
    golden = read_tensors(GOLDEN / case / "golden.safetensors")
    values = prefill(GOLDEN / case, [golden["input_ids"]], tmp_path)
    names = {f"{layer}.{kind}_{'post' if rotated else 'pre'}": rows
             for (layer, kind, rotated, _), (_, rows) in values.items()}
    assert names.keys() == {name for name in golden if name[0].isdigit()}
    for name, rows in names.items():
        difference = abs(rows[golden["rows"]] - golden[name].astype(float)).max()
        assert difference < 2e-5 * abs(golden[name]).max(), name


@pytest.mark.parametrize("case", ["llama-yarn", "ministral3", "qwen3", "glm4", "gemma3"])
def test_bf16(case, tmp_path):
    """Simulated, the first layer is the original's to the bit; behind its attention sums in another order round differently now
    and then, and more so in every layer. By products of bfloat16 it is as close to the original's run, and far closer than float32."""
    golden = read_tensors(GOLDEN / case / "golden.safetensors")
    simulated, products, exact = (prefill(GOLDEN / case, [golden["input_ids"]], tmp_path, *options)
                                  for options in (["bf16"], ["bf16-products"], []))
    rows, compared = golden["rows"], 0
    for key, (_, values) in products.items():
        layer, kind, rotated, _ = key
        expected = golden[f"bf16.{layer}.{kind}_{'post' if rotated else 'pre'}"]
        same_here = [(found[rows] == expected).mean() for found in (simulated[key][1], values)]
        sims, ours, floats = (np.linalg.norm(found[rows] - expected) for found in (simulated[key][1], values, exact[key][1]))
        assert (values == (values.view(np.uint32) & 0xffff0000).view(np.float32)).all()
        if layer == 0:
            assert same_here[0] == 1 and same_here[1] > 0.99
        if layer == 1:
            assert same_here[0] > 0.6 and sims < 0.6 * floats
        assert ours < 1.25 * sims + 1e-3 * np.linalg.norm(expected), key
        compared += ours < floats
    assert compared > 0.8 * len(products)


@pytest.mark.parametrize("case", ["gemma3", "an odd number"])
def test_bf16_products_of_every_processor(case, tmp_path):
    """Rows, attention and losses to the same bits with each kernel that there is, of even and odd dimensions; rows as close to
    float32 as the simulation is."""
    model = tmp_path / "model"
    if case == "gemma3":
        copy_with("gemma3", tmp_path, {"tie_word_embeddings": True})
    else:
        write_checkpoint(model, small_config("glm", head_dim=13))
    sequences = [text(150), text(33)]
    more = [f"{what}={tmp_path / what}" for what in ("attention", "loss")] if case == "gemma3" else []

    def run(*options):
        rows = prefill(model, sequences, tmp_path, *options, *more)
        return rows, [(tmp_path / word.split("=")[0]).read_bytes() for word in more]

    fastest, others = run("bf16-products")
    for kernel in range(5):
        found, beside = run(f"bf16-kernel={kernel}")
        same(found, fastest)
        assert beside == others
    simulated, exact = run("bf16")[0], run()[0]
    for key, (_, rows) in fastest.items():
        assert np.linalg.norm(rows - exact[key][1]) < \
            1.25 * np.linalg.norm(simulated[key][1] - exact[key][1]), key


def numpy_llama(folder, tokens, rounded=lambda values: values, window=None):
    """{"layer.q_pre": [tokens][heads][d]} of a Llama in NumPy, each step of which ends in a rounding."""
    config = json.loads((folder / "config.json").read_text())
    d, n, scale = config["head_dim"], len(tokens), 1 / np.sqrt(config["head_dim"])
    theta = config.get("rope_theta") or config.get("rope_parameters", {}).get("rope_theta", 10000.0)
    back = np.subtract.outer(np.arange(n), np.arange(n))

    def norm(x, weight):
        scaled = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + config["rms_norm_eps"])
        return rounded(rounded(scaled) * weight)

    def rotate(x):
        a, b = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate([rounded(rounded(a * cos) - rounded(b * sin)), rounded(rounded(b * cos) + rounded(a * sin))], -1)

    w = {name: rounded(values.astype(float)) for name, values in read_tensors(folder / "model.safetensors").items()}
    frequencies = (1 / theta ** (np.arange(d // 2) * 2 / d)).astype(np.float32)  # angles are products in float32
    angle = (np.arange(n, dtype=np.float32)[:, None] * frequencies)[:, None].astype(float)
    cos, sin = rounded(np.cos(angle)), rounded(np.sin(angle))
    x, found = w["model.embed_tokens.weight"][tokens], {}
    for layer in range(config["num_hidden_layers"]):
        def of(name, values, part=f"model.layers.{layer}."):
            return rounded(values @ w[part + name + ".weight"].T)
        p = f"model.layers.{layer}."
        y = norm(x, w[p + "input_layernorm.weight"])
        q, k, v = (of(f"self_attn.{m}_proj", y).reshape(n, -1, d) for m in "qkv")
        found |= {f"{layer}.q_pre": q, f"{layer}.k_pre": k}
        q, k = rotate(q), rotate(k)
        found |= {f"{layer}.q_post": q, f"{layer}.k_post": k}
        k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k, optimize=True) * scale
        scores[:, (back < 0) | (back >= (window or n))] = -np.inf
        share = np.exp(scores - scores.max(-1, keepdims=True))
        out = np.einsum("hij,jhd->ihd", rounded(share), v, optimize=True)
        x = rounded(x + of("self_attn.o_proj", rounded(out / share.sum(-1).T[..., None]).reshape(n, -1)))
        y = norm(x, w[p + "post_attention_layernorm.weight"])
        gate = of("mlp.gate_proj", y)
        x = rounded(x + of("mlp.down_proj", rounded(rounded(gate / (1 + np.exp(-gate))) * of("mlp.up_proj", y))))
    return found


def test_f16_simulation(tmp_path):
    """Sums in another precision round differently now and then; nothing but float16 comes out."""
    tokens = text(40)
    expected = numpy_llama(GOLDEN / "llama", tokens, lambda values: values.astype(np.float16).astype(float))
    simulated = prefill(GOLDEN / "llama", [tokens], tmp_path, "f16")
    exact = prefill(GOLDEN / "llama", [tokens], tmp_path)
    for (layer, kind, rotated, _), (_, rows) in simulated.items():
        wanted = expected[f"{layer}.{kind}_{'post' if rotated else 'pre'}"]
        assert (rows == rows.astype(np.float16)).all()
        assert (rows == wanted).mean() > (0.98 if layer == 0 else 0.6)
        if layer < 2:
            other = exact[layer, kind, rotated, 0][1]
            assert np.linalg.norm(rows - wanted) < 0.5 * np.linalg.norm(other - wanted)
    assert len(simulated) == len(expected) == 12


# ---- what does not change a number -------------------------------------------------------------

@pytest.mark.cases(3)
@pytest.mark.parametrize("case, options", [("llama", []), ("gemma3", []), ("llama-longrope", ["bf16-products"]), ("smollm3", []),
                                           ("llama-bias", []), ("mllama", ["f16"])], ids=str)
def test_threads_and_company(case, options, tmp_path):
    """1 and 7 threads, and several sequences together or each alone, give the same bytes: rows, attention and losses; each of
    these as without the others."""
    model = copy_with(case, tmp_path)
    config = json.loads((model / "config.json").read_text())
    for part in (config, config.get("text_config", config)):
        part["tie_word_embeddings"] = True
    (model / "config.json").write_text(json.dumps(config))
    sequences = [text(n, seed=n) for n in (1, 31, 32, 33, 255, 256, 257, 700, 5)]

    def run(sequences, *more, what=("attention", "loss")):
        files = {name: tmp_path / name for name in what}
        rows = prefill(model, sequences, tmp_path, *(f"{name}={file}" for name, file in files.items()), *options, *more)
        return rows, *(read(files[name]) for name, read in (("attention", read_attention), ("loss", read_losses)) if name in what)

    rows, attention, losses = run(sequences, "threads=1")
    for one in (run(sequences, "threads=7"), run(sequences, what=()), run(sequences, what=["attention"]), run(sequences, what=["loss"])):
        same(one[0], rows)
        for kept in one[1:]:
            same_values(kept, losses if isinstance(next(iter(kept)), int) else attention)
    for i, sequence in enumerate(sequences):
        alone, sums, lost = run([sequence], "threads=2")
        same({key[:3]: value for key, value in alone.items()},
             {key[:3]: value for key, value in rows.items() if key[3] == i})
        same_values(sums, {(layer, 0): value for (layer, s), value in attention.items() if s == i})
        same_values(lost, {0: losses[i]} if i in losses else {})
    nothing, _ = start(model, sequences, tmp_path, f"attention={tmp_path / 'alone'}", "none", *options)
    assert nothing.returncode == 0 and (tmp_path / "out.bin").stat().st_size == 0
    same_values(read_attention(tmp_path / "alone"), attention)


@pytest.mark.parametrize("case", ["llama", "mistral", "glm", "ministral3"])
def test_later_tokens_change_nothing(case, tmp_path):
    whole = prefill(GOLDEN / case, [text(700)], tmp_path)
    for n in (1, 32, 191, 192, 193, 255, 256, 257):
        for key, (_, rows) in prefill(GOLDEN / case, [text(700)[:n]], tmp_path).items():
            assert rows.tobytes() == whole[key][1][:n].tobytes(), (n, key)


@pytest.mark.parametrize("case", ["llama", "qwen2", "gemma3", "mllama"])
@pytest.mark.parametrize("seed", range(4))
def test_chosen_heads(case, seed, tmp_path):
    """Rows and sums of attention of chosen heads are those of a full run; layers behind the last are not run."""
    sequences, file = [text(150), text(40)], tmp_path / "attention"
    full = prefill(GOLDEN / case, sequences, tmp_path, f"attention={file}")
    sums = read_attention(file)
    chosen = prefill(GOLDEN / case, sequences, tmp_path, f"attention={file}", f"heads={seed}", "threads=3")
    same(chosen, prefill(GOLDEN / case, sequences, tmp_path, f"heads={seed}"))
    for key, (heads, rows) in chosen.items():
        assert rows.tobytes() == full[key][1][:, list(heads)].tobytes(), key
        assert list(heads) == sorted(heads)
    some = read_attention(file)
    assert some.keys() == {(layer, s) for layer, kind, _, s in chosen if kind == "q"}
    for key, (heads, _, own) in some.items():
        assert own.tobytes() == sums[key][2][list(heads)].tobytes(), key


def test_before_and_after(tmp_path):
    both = prefill(GOLDEN / "llama", [text(100)], tmp_path)
    same({k: v for k, v in both.items() if not k[2]},
         prefill(GOLDEN / "llama", [text(100)], tmp_path, "before"))
    same({k: v for k, v in both.items() if k[2]},
         prefill(GOLDEN / "llama", [text(100)], tmp_path, "after"))


def costs(model, folder, *options):
    """Operations and bytes of 1,000 tokens."""
    run, _ = start(model, [text(10)], folder, "threads=1", *options)
    return tuple(map(float, run.stdout.split()))


def test_estimates(tmp_path):
    """Counted from the shapes."""
    n, hidden, inner, q, k, dim = 1000, 32, 56, 4, 2, 16
    for case, window in (("llama", 1000), ("mistral", 20)):
        flops, size = costs(GOLDEN / case, tmp_path)
        seen = sum(min(i + 1, window) for i in range(n))
        layer = 2 * n * hidden * (2 * (q + k) * dim + 3 * inner) + 4 * dim * q * seen
        assert flops == 2 * layer + 2 * n * hidden * (q + k) * dim
        tokens = 4 * n * (hidden + 2 * k * dim + dim)
        weights = 4 * hidden * (2 * (q + k) * dim + 3 * inner)
        assert tokens + weights < size < tokens + 2 * weights + 2**20
        assert 0 < costs(GOLDEN / case, tmp_path, "heads=1")[0] < flops


def test_estimates_of_attention_and_losses(tmp_path):
    """The last layer has all heads' projections and scores; losses need all of it, and the vocabulary. Memory grows by little."""
    flops, size = costs(GOLDEN / "llama", tmp_path)
    more, larger = costs(GOLDEN / "llama", tmp_path, f"attention={tmp_path / 'a'}")
    n, q, dim = 1000, 4, 16
    assert more - flops == 2 * dim * q * n * (n + 1) / 2
    sums = 4 * (32 + 10) * q * SUMS
    assert 0 < larger - size - sums < 4 * (64 + 6 * 2 * 40 * 32) + 20 * n
    assert costs(GOLDEN / "llama", tmp_path, "none", f"attention={tmp_path / 'a'}")[0] == more
    flops, size = costs(STEP, tmp_path)
    more, larger = costs(STEP, tmp_path, f"loss={tmp_path / 'l'}")
    hidden, inner, heads, dim = 128, 344, 6, 32
    last = 2 * n * hidden * (2 * dim * heads + 3 * inner) + 4 * dim * 4 * n * (n + 1) / 2 - 2 * n * hidden * dim * heads
    assert more - flops == last + 2 * n * hidden * 256
    assert 16 * n < larger - size - 4 * 256 * hidden < 64 * n + 4 * 256 * 32


# ---- windows and sizes, against NumPy -----------------------------------------------------------------

def copy_with(case, folder, changes=None, weights=None):
    target = folder / "model"
    shutil.copytree(GOLDEN / case, target)
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps({**config, **(changes or {})}))
    if weights:
        tensors = {name: values.copy() for name, values in
                   read_tensors(target / "model.safetensors").items()}
        weights(tensors)
        write_tensors(target / "model.safetensors", tensors)
    return target


def check_by_numpy(model, tokens, folder, window=None):
    expected = numpy_llama(model, tokens, window=window)
    values = prefill(model, [tokens], folder)
    assert len(values) == len(expected)
    for (layer, kind, rotated, _), (_, rows) in values.items():
        wanted = expected[f"{layer}.{kind}_{'post' if rotated else 'pre'}"]
        assert abs(rows - wanted).max() < (4e-5 if rotated else 1e-5) * abs(wanted).max(), (layer, kind, rotated)


@pytest.mark.parametrize("window", [1, 31, 32, 33, 100, 300, 699, 700])
def test_window_is_a_mask(window, tmp_path):
    model = copy_with("mistral", tmp_path, {"sliding_window": window})
    check_by_numpy(model, text(700), tmp_path, window)


@pytest.mark.parametrize("hidden, inner, heads, key_heads, dim", [
    (640, 900, 6, 2, 128), (520, 300, 3, 1, 256), (264, 257, 8, 8, 64), (20, 8, 5, 5, 2)])
def test_sizes(hidden, inner, heads, key_heads, dim, tmp_path):
    """Sums longer than one chain of the kernels, heads of every common width."""
    write_checkpoint(tmp_path / "model", small_config(
        "llama", hidden_size=hidden, intermediate_size=inner, num_hidden_layers=2, num_attention_heads=heads,
        num_key_value_heads=key_heads, head_dim=dim))
    check_by_numpy(tmp_path / "model", text(200), tmp_path)


# ---- failures ----------------------------------------------------------------------------------

def test_tokens_that_are_none(tmp_path):
    for tokens, word in (([1, 64], "64"), ([-1], "-1")):
        run, _ = start(GOLDEN / "llama", [[5, 6], tokens], tmp_path)
        assert run.returncode == 1 and word in run.stderr and "sequence 1" in run.stderr


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("call", [1, 2, 20, 60])
def test_sink_that_fails(threads, call, tmp_path):
    """Rows come first: of the first layer's attention nothing is told before."""
    run, _ = start(GOLDEN / "llama", [text(300), text(500)], tmp_path, f"stop={call}", f"attention={tmp_path / 'a'}",
                   f"threads={threads}")
    assert (run.returncode, run.stderr) == (1, "cannot write block\n")
    assert call > 2 or (tmp_path / "a").stat().st_size == 0


@pytest.mark.parametrize("layer", [0, 1])
def test_cancelled(layer, tmp_path):
    run, out = start(GOLDEN / "llama", [text(100)], tmp_path, f"cancel={layer}")
    assert (run.returncode, run.stderr) == (1, "cancelled\n")
    assert (out.stat().st_size > 0) == (layer > 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38])
@pytest.mark.parametrize("name", ["self_attn.k_proj", "mlp.up_proj", "input_layernorm"])
def test_weights_that_are_no_numbers(value, name, tmp_path):
    def spoil(tensors):
        tensors[f"model.layers.1.{name}.weight"].flat[::3] = value
    model = copy_with("llama", tmp_path, weights=spoil)
    for options in ([], ["bf16"], ["bf16-products"], ["f16"]):
        values = prefill(model, [text(300)], tmp_path, f"attention={tmp_path / 'a'}", *options)
        assert np.isfinite(values[0, "q", 1, 0][1]).all()
        assert len(values) == 12 and len(read_attention(tmp_path / "a")) == 3


@pytest.mark.parametrize("case", ["llama", "gemma3", "mllama", "llama-longrope"])
def test_a_model_without_weights(case, tmp_path):
    """Costs are told by config.json alone; it is not run."""
    whole, _ = start(GOLDEN / case, [text(20)], tmp_path)
    folder = tmp_path / "m"
    folder.mkdir()
    shutil.copy(GOLDEN / case / "config.json", folder)
    run, out = start(folder, [text(20)], tmp_path, "shape")
    assert run.returncode == 1 and "opened without its weights" in run.stderr
    assert run.stdout == whole.stdout and out.stat().st_size == 0
