# SPDX-License-Identifier: Apache-2.0
"""Queries and keys of a run: against float64 activations of a trained model, against Hugging
Face transformers on tiny checkpoints of every architecture (tests/prefill/golden/, made by
tools/make_model_golden.py), and what must not depend on how a run is done."""
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from prefill_runs import (CASES, GOLDEN, ROOT, prefill, read_tensors, same, start, text,
                          write_tensors)

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
def test_bf16_simulation(case, tmp_path):
    """The first layer is the original's to the bit; behind its attention sums in another order
    round differently now and then, and more so in every layer."""
    golden = read_tensors(GOLDEN / case / "golden.safetensors")
    simulated = prefill(GOLDEN / case, [golden["input_ids"]], tmp_path, "bf16")
    exact = prefill(GOLDEN / case, [golden["input_ids"]], tmp_path)
    rows = golden["rows"]
    for (layer, kind, rotated, _), (_, values) in simulated.items():
        expected = golden[f"bf16.{layer}.{kind}_{'post' if rotated else 'pre'}"]
        if layer == 0:
            assert (values[rows] == expected).all()
        if layer == 1:
            assert (values[rows] == expected).mean() > 0.6
            other = exact[layer, kind, rotated, 0][1][rows]
            assert np.linalg.norm(values[rows] - expected) < \
                0.6 * np.linalg.norm(other - expected)


@pytest.mark.parametrize("case", ["llama-yarn", "ministral3", "qwen3", "glm4", "gemma3"])
def test_bf16_products(case, tmp_path):
    """As close to the original's bfloat16 run as the simulation, and far closer than float32 is."""
    golden = read_tensors(GOLDEN / case / "golden.safetensors")
    products, simulated, exact = (prefill(GOLDEN / case, [golden["input_ids"]], tmp_path, *options)
                                  for options in (["bf16-products"], ["bf16"], []))
    rows, compared = golden["rows"], 0
    for key, (_, values) in products.items():
        layer, kind, rotated, _ = key
        expected = golden[f"bf16.{layer}.{kind}_{'post' if rotated else 'pre'}"]
        ours, sims, floats = (np.linalg.norm(found[rows] - expected)
                              for found in (values, simulated[key][1], exact[key][1]))
        assert (values == (values.view(np.uint32) & 0xffff0000).view(np.float32)).all()
        if layer == 0:
            assert (values[rows] == expected).mean() > 0.99
        assert ours < 1.25 * sims + 1e-3 * np.linalg.norm(expected), key
        compared += ours < floats
    assert compared > 0.8 * len(products)


def odd_heads(folder):
    """A copy of glm whose heads have an odd number of dimensions, three less."""
    config = json.loads((GOLDEN / "glm" / "config.json").read_text())
    d = config["head_dim"]

    def cut(tensors):
        for name in list(tensors):
            part = next((p for p in ("q_proj", "k_proj", "v_proj", "o_proj") if p in name), None)
            values = tensors[name].T if part == "o_proj" else tensors[name]
            if part:
                values = values.reshape(-1, d, *values.shape[1:])[:, :-3]
                values = values.reshape(-1, *values.shape[2:])
                tensors[name] = values.T.copy() if part == "o_proj" else values
    return copy_with("glm", folder, {"head_dim": d - 3}, cut), d - 3


def test_bf16_products_of_every_processor(tmp_path):
    """To the same bits with each kernel that there is, of even and odd dimensions; the latter as close to
    float32 as the simulation is."""
    model, d = odd_heads(tmp_path)
    assert d % 2 == 1
    for folder in (GOLDEN / "qwen3", GOLDEN / "gemma3", model):
        fastest, simulated, exact = (prefill(folder, [text(150), text(33)], tmp_path, *options)
                                     for options in (["bf16-products"], ["bf16"], []))
        for kernel in range(5):
            found = prefill(folder, [text(150), text(33)], tmp_path, f"bf16-kernel={kernel}")
            assert found.keys() == fastest.keys()
            for key, (_, rows) in found.items():
                assert rows.tobytes() == fastest[key][1].tobytes(), (folder, kernel, key)
        for key, (_, rows) in fastest.items():
            assert np.linalg.norm(rows - exact[key][1]) < \
                1.25 * np.linalg.norm(simulated[key][1] - exact[key][1]), key


def half_llama(folder, tokens):
    """{"layer.q_pre": [tokens][heads][d]} of a Llama whose every step ends in NumPy's float16."""
    config = json.loads((folder / "config.json").read_text())
    d, n, scale = config["head_dim"], len(tokens), 1 / np.sqrt(config["head_dim"])

    def half(values):
        return np.asarray(values).astype(np.float16).astype(np.float64)

    def norm(x, weight):
        scaled = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + config["rms_norm_eps"])
        return half(half(scaled) * weight)

    def rotate(x):
        a, b = x[..., :d // 2], x[..., d // 2:]
        return np.concatenate([half(half(a * cos) - half(b * sin)), half(half(b * cos) + half(a * sin))], -1)

    w = {name: half(values) for name, values in read_tensors(folder / "model.safetensors").items()}
    angle = (np.arange(n)[:, None] / config["rope_parameters"]["rope_theta"] ** (np.arange(d // 2) * 2 / d))[:, None]
    cos, sin = half(np.cos(angle)), half(np.sin(angle))
    x, found = w["model.embed_tokens.weight"][tokens], {}
    for layer in range(config["num_hidden_layers"]):
        def of(name, values, part=f"model.layers.{layer}."):
            return half(values @ w[part + name + ".weight"].T)
        p = f"model.layers.{layer}."
        y = norm(x, w[p + "input_layernorm.weight"])
        q, k, v = (of(f"self_attn.{m}_proj", y).reshape(n, -1, d) for m in "qkv")
        found |= {f"{layer}.q_pre": q, f"{layer}.k_pre": k}
        q, k = rotate(q), rotate(k)
        found |= {f"{layer}.q_post": q, f"{layer}.k_post": k}
        k, v = (np.repeat(t, q.shape[1] // t.shape[1], 1) for t in (k, v))
        scores = np.einsum("ihd,jhd->hij", q, k) * scale
        scores[:, *np.triu_indices(n, 1)] = -np.inf
        share = np.exp(scores - scores.max(-1, keepdims=True))
        out = half(np.einsum("hij,jhd->ihd", half(share), v) / share.sum(-1).T[..., None])
        x = half(x + of("self_attn.o_proj", out.reshape(n, -1)))
        y = norm(x, w[p + "post_attention_layernorm.weight"])
        gate = of("mlp.gate_proj", y)
        x = half(x + of("mlp.down_proj", half(half(gate / (1 + np.exp(-gate))) * of("mlp.up_proj", y))))
    return found


def test_f16_simulation(tmp_path):
    """Sums in another precision round differently now and then; nothing but float16 comes out."""
    tokens = text(40)
    expected = half_llama(GOLDEN / "llama", tokens)
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

@pytest.mark.parametrize("case", ["llama", "llama-bias", "gemma3", "smollm3", "llama-longrope"])
def test_threads_and_company(case, tmp_path):
    """1 and 7 threads, and several sequences together or each alone, give the same bytes."""
    sequences = [text(n, seed=n) for n in (1, 31, 32, 33, 255, 256, 257, 700, 5)]
    together = prefill(GOLDEN / case, sequences, tmp_path, "threads=1")
    same(together, prefill(GOLDEN / case, sequences, tmp_path, "threads=7"))
    for i, sequence in enumerate(sequences):
        alone = prefill(GOLDEN / case, [sequence], tmp_path, "threads=2")
        same({key[:3]: value for key, value in alone.items()},
             {key[:3]: value for key, value in together.items() if key[3] == i})


@pytest.mark.parametrize("case", ["llama", "mistral", "glm", "ministral3"])
def test_later_tokens_change_nothing(case, tmp_path):
    whole = prefill(GOLDEN / case, [text(700)], tmp_path)
    for n in (1, 32, 191, 192, 193, 255, 256, 257):
        for key, (_, rows) in prefill(GOLDEN / case, [text(700)[:n]], tmp_path).items():
            assert rows.tobytes() == whole[key][1][:n].tobytes(), (n, key)


@pytest.mark.parametrize("case", ["llama", "qwen2", "gemma3", "mllama"])
@pytest.mark.parametrize("seed", range(4))
def test_chosen_heads(case, seed, tmp_path):
    """Rows of chosen heads are those of a full run; layers behind the last are not run."""
    full = prefill(GOLDEN / case, [text(150)], tmp_path)
    chosen = prefill(GOLDEN / case, [text(150)], tmp_path, f"heads={seed}", "threads=3")
    for key, (heads, rows) in chosen.items():
        assert rows.tobytes() == full[key][1][:, list(heads)].tobytes(), key
        assert list(heads) == sorted(heads)


def test_before_and_after(tmp_path):
    both = prefill(GOLDEN / "llama", [text(100)], tmp_path)
    same({k: v for k, v in both.items() if not k[2]},
         prefill(GOLDEN / "llama", [text(100)], tmp_path, "before"))
    same({k: v for k, v in both.items() if k[2]},
         prefill(GOLDEN / "llama", [text(100)], tmp_path, "after"))


def test_estimates(tmp_path):
    """Operations and bytes of 1,000 tokens, counted from the shapes."""
    n, hidden, inner, q, k, dim = 1000, 32, 56, 4, 2, 16
    for case, window in (("llama", 1000), ("mistral", 20)):
        run, _ = start(GOLDEN / case, [text(10)], tmp_path, "threads=1")
        flops, size = map(float, run.stdout.split())
        seen = sum(min(i + 1, window) for i in range(n))
        layer = 2 * n * hidden * (2 * (q + k) * dim + 3 * inner) + 4 * dim * q * seen
        assert flops == 2 * layer + 2 * n * hidden * (q + k) * dim
        tokens = 4 * n * (hidden + 2 * k * dim + dim)
        weights = 4 * hidden * (2 * (q + k) * dim + 3 * inner)
        assert tokens + weights < size < tokens + 2 * weights + 2**20
        one, _ = start(GOLDEN / case, [text(10)], tmp_path, "heads=1", "threads=1")
        assert 0 < float(one.stdout.split()[0]) < flops


# ---- windows, against attention written out ------------------------------------------------------

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


def second_layer_queries(model, tokens, values, window):
    """What the second layer's queries before RoPE must be, from the first one's queries and keys
    and the weights, in float64."""
    weights = {name: values.astype(float) for name, values in
               read_tensors(model / "model.safetensors").items()}
    config = json.loads((model / "config.json").read_text())
    dim = config["head_dim"]
    group = config["num_attention_heads"] // config["num_key_value_heads"]

    def norm(x, name):
        scale = np.sqrt((x * x).mean(1, keepdims=True) + config["rms_norm_eps"])
        return x / scale * weights[name]

    def product(x, name):
        return x @ weights[f"model.layers.0.{name}.weight"].T

    x = weights["model.embed_tokens.weight"][tokens]
    hidden = norm(x, "model.layers.0.input_layernorm.weight")
    v = product(hidden, "self_attn.v_proj").reshape(len(tokens), -1, dim)
    q, k = (values[0, kind, 1, 0][1].astype(float) for kind in "qk")
    back = np.subtract.outer(np.arange(len(tokens)), np.arange(len(tokens)))
    outside = (back < 0) | (back >= window)
    attended = np.empty_like(q)
    for head in range(q.shape[1]):
        scores = q[:, head] @ k[:, head // group].T / dim ** 0.5
        weight = np.where(outside, 0, np.exp(scores - scores.max(1, keepdims=True)))
        attended[:, head] = weight / weight.sum(1, keepdims=True) @ v[:, head // group]
    x = x + product(attended.reshape(len(tokens), -1), "self_attn.o_proj")
    y = norm(x, "model.layers.0.post_attention_layernorm.weight")
    gate, up = product(y, "mlp.gate_proj"), product(y, "mlp.up_proj")
    x = x + product(gate / (1 + np.exp(-gate)) * up, "mlp.down_proj")
    hidden = norm(x, "model.layers.1.input_layernorm.weight")
    return hidden @ weights["model.layers.1.self_attn.q_proj.weight"].T


def check_second_layer(model, tokens, folder, window):
    values = prefill(model, [tokens], folder)
    expected = second_layer_queries(model, tokens, values, window)
    rows = values[1, "q", 0, 0][1].reshape(len(tokens), -1)
    assert abs(rows - expected).max() < 1e-5 * abs(expected).max()


@pytest.mark.parametrize("window", [1, 31, 32, 33, 100, 300, 699])
def test_window_is_a_mask(window, tmp_path):
    model = copy_with("mistral", tmp_path, {"sliding_window": window})
    check_second_layer(model, text(700), tmp_path, window)


@pytest.mark.parametrize("hidden, inner, heads, key_heads, dim", [
    (640, 900, 6, 2, 128), (520, 300, 3, 1, 256), (264, 257, 8, 8, 64), (20, 8, 5, 5, 2)])
def test_sizes(hidden, inner, heads, key_heads, dim, tmp_path):
    """Sums longer than one chain of the kernels, heads of every common width."""
    shapes = {"model.embed_tokens.weight": (64, hidden)}
    for i in range(2):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (heads * dim, hidden),
            "self_attn.k_proj": (key_heads * dim, hidden),
            "self_attn.v_proj": (key_heads * dim, hidden),
            "self_attn.o_proj": (hidden, heads * dim), "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner)}.items()}
    random = np.random.default_rng(0)
    write_tensors(tmp_path / "model.safetensors", {
        name: random.standard_normal(shape) / shape[-1] ** (0.5 * (len(shape) > 1))
        for name, shape in shapes.items()})
    (tmp_path / "config.json").write_text(json.dumps(dict(
        model_type="llama", hidden_size=hidden, intermediate_size=inner, num_hidden_layers=2,
        num_attention_heads=heads, num_key_value_heads=key_heads, head_dim=dim, vocab_size=64,
        rms_norm_eps=1e-5, max_position_embeddings=1024)))
    check_second_layer(tmp_path, text(200), tmp_path, 200)


def test_wide_window_is_none(tmp_path):
    narrow = copy_with("mistral", tmp_path / "a", {"sliding_window": 700})
    full = copy_with("mistral", tmp_path / "b", {"sliding_window": None})
    same(prefill(narrow, [text(700)], tmp_path), prefill(full, [text(700)], tmp_path))


# ---- failures ----------------------------------------------------------------------------------

def test_tokens_that_are_none(tmp_path):
    for tokens, word in (([1, 64], "64"), ([-1], "-1")):
        run, _ = start(GOLDEN / "llama", [[5, 6], tokens], tmp_path)
        assert run.returncode == 1 and word in run.stderr and "sequence 1" in run.stderr


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("call", [1, 2, 20, 60])
def test_sink_that_fails(threads, call, tmp_path):
    run, _ = start(GOLDEN / "llama", [text(300), text(500)], tmp_path, f"stop={call}",
                   f"threads={threads}")
    assert (run.returncode, run.stderr) == (1, "cannot write block\n")


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
        values = prefill(model, [text(300)], tmp_path, *options)
        assert np.isfinite(values[0, "q", 1, 0][1]).all()
        assert len(values) == 12


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
