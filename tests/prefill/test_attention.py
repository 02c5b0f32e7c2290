# SPDX-License-Identifier: Apache-2.0
"""Attention as it is measured in a run, against the definitions in float64 (attention_sums.py) from the queries and keys
of the same run, against heads whose attention is known, and what must not depend on how a run is done."""
import json

import numpy as np
import pytest

from attention_sums import AT, FAR_BINS, SUMS, TOP_OFFSETS, attention_sums
from prefill_runs import GOLDEN, prefill, read_tensors, same, start, text, write_tensors


def read_attention(path):
    """{(layer, sequence): (heads, rows of each bucket, sums)}, after checking the order."""
    data, at, found = path.read_bytes(), 0, {}
    while at < len(data):
        layer, sequence, heads, buckets = np.frombuffer(data, "<i8", 4, at)
        which = np.frombuffer(data, "<i8", heads, at + 32)
        rows = np.frombuffer(data, "<i8", buckets, at + 32 + 8 * heads)
        at += 32 + 8 * (heads + buckets)
        sums = np.frombuffer(data, "<f8", heads * buckets * SUMS, at).reshape(heads, buckets, SUMS)
        at += sums.nbytes
        found[int(layer), int(sequence)] = (tuple(which), rows, sums)
    assert list(found) == sorted(found)
    return found


def measure(model, sequences, folder, *options):
    """(rows, attention)"""
    file = folder / "attention.bin"
    rows = prefill(model, sequences, folder, f"attention={file}", *options)
    return rows, read_attention(file)


def make_model(folder, heads=6, key_heads=2, dim=16, layers=2, window=None, size=1.5, hidden=48, vocab=50):
    """Random weights. Scores are about `size` apart."""
    random = np.random.default_rng(3)
    shapes = {"model.embed_tokens.weight": (vocab, hidden)}
    for i in range(layers):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (heads * dim, hidden), "self_attn.k_proj": (key_heads * dim, hidden),
            "self_attn.v_proj": (key_heads * dim, hidden), "self_attn.o_proj": (hidden, heads * dim),
            "mlp.gate_proj": (64, hidden), "mlp.up_proj": (64, hidden), "mlp.down_proj": (hidden, 64)}.items()}
    tensors = {name: np.ones(shape) if len(shape) == 1 else random.standard_normal(shape) / shape[-1] ** 0.5
               for name, shape in shapes.items()}
    for name in tensors:
        if "q_proj" in name:
            tensors[name] *= size
    folder.mkdir(exist_ok=True)
    write_tensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(dict(
        model_type="mistral" if window else "llama", hidden_size=hidden, intermediate_size=64, num_hidden_layers=layers,
        num_attention_heads=heads, num_key_value_heads=key_heads, head_dim=dim, vocab_size=vocab, rms_norm_eps=1e-5,
        max_position_embeddings=2048, rope_theta=10000.0, sliding_window=window)))
    return folder


def expected_sums(model, sequences, rows, layer, sequence, heads):
    """From the rows that the run itself gave, all key heads among them."""
    config = json.loads((model / "config.json").read_text())
    which, q = rows[layer, "q", 1, sequence]
    _, k = rows[layer, "k", 1, sequence]
    group = config["num_attention_heads"] // config["num_key_value_heads"]
    assert which == heads
    return attention_sums(q, k[:, [head // group for head in heads]], config["head_dim"] ** -0.5,
                          np.array(sequences[sequence]), config.get("sliding_window") or 0)


def check_sums(found, expected, rows, tolerance=1e-6):
    """Each to 1e-6 of what it may be: its rows, or a larger number that it is. Distances suffer most from scores in
    float32."""
    counts = [AT[name] for name in ("rows", "tokens", "duplicate_rows", "induction_rows", "far_rows")]
    counts += [AT["top_sink"], *range(TOP_OFFSETS, SUMS)]
    assert (found[..., counts] == expected[..., counts]).all()
    error = np.abs(found - expected) / np.maximum(np.abs(expected), rows[:, None])
    error[..., AT["far_distance"]] /= 2
    assert error.max() < tolerance
    assert (found >= 0).all()


LENGTHS = (1, 2, 5, 31, 32, 33, 200)


def texts():
    """Of few different tokens, one of a single one, and one that has its first half twice."""
    random = [list(text(n, 50, n)) for n in LENGTHS]
    return [*random, [7] * 150, [*random[-1][:70], *random[-1][:70]]]


@pytest.mark.parametrize("shape, arithmetic", [
    (dict(), []), (dict(window=20), []), (dict(window=1), []), (dict(heads=3, key_heads=1, dim=10, window=100), []),
    (dict(heads=2, key_heads=2, size=15), []), (dict(heads=4), ["bf16-products"]),
    (dict(heads=2, window=60), ["bf16-products"])], ids=str)
def test_sums(shape, arithmetic, tmp_path):
    model, sequences = make_model(tmp_path / "model", **shape), texts()
    rows, attention = measure(model, sequences, tmp_path, "after", *arithmetic)
    assert attention.keys() == {(layer, s) for layer in range(2) for s in range(len(sequences))}
    for (layer, s), (heads, bucket_rows, sums) in attention.items():
        if layer == s % 2:
            expected = expected_sums(model, sequences, rows, layer, s, heads)
            assert bucket_rows.tolist() == expected[0, :, 0].tolist()
            check_sums(sums, expected, bucket_rows)


@pytest.mark.parametrize("window", [None, 300])
def test_sums_of_a_long_text(window, tmp_path):
    """Blocks of several panels, and several blocks."""
    model, sequences = make_model(tmp_path / "model", heads=1, key_heads=1, window=window), [text(1100, 50)]
    rows, attention = measure(model, sequences, tmp_path, "after")
    for layer in range(2):
        heads, bucket_rows, sums = attention[layer, 0]
        check_sums(sums, expected_sums(model, sequences, rows, layer, 0, heads), bucket_rows)


# ---- heads whose attention is known ------------------------------------------------------------

def test_constructed_heads(tmp_path):
    """One that attends to the token before by its 8 fastest pairs, and one whose keys are 0: the same to all."""
    d, pairs, n = 64, 32, 200
    angle = 10000.0 ** (-np.arange(8) / pairs)
    q, k = np.zeros((2, d, 1)), np.zeros((2, d, 1))
    q[:, :8, 0] = 6
    k[0, :8, 0], k[0, pairs:pairs + 8, 0] = 6 * np.cos(angle), 6 * np.sin(angle)
    model = make_model(tmp_path / "model", heads=2, key_heads=2, dim=d, hidden=1)
    tensors = {name: np.ones_like(values) for name, values in read_tensors(model / "model.safetensors").items()}
    tensors |= {f"model.layers.0.self_attn.{name}_proj.weight": values.reshape(-1, 1) for name, values in
                (("q", q), ("k", k))}
    write_tensors(model / "model.safetensors", tensors)
    _, attention = measure(model, [range(n % 50, n % 50 + 1)] + [[i % 50 for i in range(n)]], tmp_path)
    _, rows, (before, same_to_all) = attention[0, 1]

    score = 36 / 8 * np.cos(angle * (np.arange(n)[:, None] - 1)).sum(1)
    mass = np.exp(score)[1] / np.cumsum(np.exp(score))
    assert (mass[1:] > 0.98).all()
    bucket = np.array([int(i).bit_length() for i in range(n)])
    expected = [mass[(bucket == b) & (np.arange(n) > 0)].sum() for b in range(len(rows))]
    assert abs(before[:, AT["previous"]] - expected).max() < 2e-6 * n
    assert before[1:, TOP_OFFSETS + 1].sum() == n - 2 and before[:, AT["top_sink"]].tolist() == [0, 1, *[0] * 7]

    seen = np.arange(n) + 1.0
    for name, value in dict(sink=1 / seen, self=1 / seen, first=np.minimum(4 / seen, 1), entropy=np.log(seen),
                            squares=1 / seen, duplicate=(seen - 1) // 50 / seen).items():
        expected = [value[bucket == b].sum() for b in range(len(rows))]
        assert abs(same_to_all[:, AT[name]] - expected).max() < 1e-6 * n, name
    assert same_to_all[1:, AT["top_sink"]].tolist() == rows[1:].tolist()
    far = same_to_all.sum(0)
    assert abs(far[AT["far_visible"]] - far[AT["far_entropy"]]) < 1e-6 * n
    bins = np.bincount(np.minimum(np.concatenate([[int(j).bit_length() for j in range(i - 3)]
                                                  for i in range(8, n)]), 21),
                       np.concatenate([np.full(i - 3, 1 / (i + 1)) for i in range(8, n)]))
    assert abs(far[FAR_BINS:FAR_BINS + len(bins)] - bins).max() < 1e-6 * n


# ---- what does not change a number -------------------------------------------------------------

def same_sums(a, b):
    assert a.keys() == b.keys()
    for key, (heads, rows, sums) in a.items():
        assert heads == b[key][0] and (rows == b[key][1]).all()
        assert sums.tobytes() == b[key][2].tobytes(), key


@pytest.mark.parametrize("case", ["llama", "gemma3", "mllama", "qwen3"])
@pytest.mark.parametrize("arithmetic", [[], ["bf16"], ["bf16-products"], ["f16"]], ids=str)
def test_rows_stay_the_same(case, arithmetic, tmp_path):
    sequences = [text(n, seed=n) for n in (1, 33, 250, 700)]
    rows, attention = measure(GOLDEN / case, sequences, tmp_path, *arithmetic)
    same(rows, prefill(GOLDEN / case, sequences, tmp_path, *arithmetic))
    nothing, alone = measure_alone(GOLDEN / case, sequences, tmp_path, *arithmetic)
    assert nothing == 0
    same_sums(alone, attention)


def measure_alone(model, sequences, folder, *options):
    """(bytes of rows, attention) of a run that has no sink."""
    file = folder / "attention.bin"
    run, out = start(model, sequences, folder, f"attention={file}", "none", *options)
    assert run.returncode == 0, run.stderr
    return out.stat().st_size, read_attention(file)


@pytest.mark.parametrize("case", ["llama", "gemma3"])
def test_threads_and_company(case, tmp_path):
    sequences = [text(n, seed=n) for n in (1, 31, 32, 33, 700, 5)]
    _, together = measure(GOLDEN / case, sequences, tmp_path, "threads=1")
    for threads in (2, 3, 7):
        same_sums(together, measure(GOLDEN / case, sequences, tmp_path, f"threads={threads}")[1])
    for i, sequence in enumerate(sequences):
        _, alone = measure(GOLDEN / case, [sequence], tmp_path)
        same_sums({(layer, i): sums for (layer, _), sums in alone.items()},
                  {key: sums for key, sums in together.items() if key[1] == i})


def test_bf16_products_of_every_processor(tmp_path):
    _, fastest = measure(GOLDEN / "gemma3", [text(150), text(33)], tmp_path, "bf16-products")
    for kernel in range(5):
        same_sums(measure(GOLDEN / "gemma3", [text(150), text(33)], tmp_path, f"bf16-kernel={kernel}")[1], fastest)


@pytest.mark.parametrize("case", ["llama", "gemma3", "mllama"])
@pytest.mark.parametrize("seed", range(4))
def test_chosen_heads(case, seed, tmp_path):
    """Rows and sums of chosen heads are those of a full run."""
    full, all_sums = measure(GOLDEN / case, [text(150), text(40)], tmp_path)
    chosen, attention = measure(GOLDEN / case, [text(150), text(40)], tmp_path, f"heads={seed}", "threads=3")
    same(chosen, prefill(GOLDEN / case, [text(150), text(40)], tmp_path, f"heads={seed}"))
    for key, (heads, rows) in chosen.items():
        assert rows.tobytes() == full[key][1][:, list(heads)].tobytes(), key
    assert attention.keys() == {(layer, s) for layer, kind, _, s in chosen if kind == "q"}
    for key, (heads, _, sums) in attention.items():
        assert sums.tobytes() == all_sums[key][2][list(heads)].tobytes(), key


# ---- failures and costs ------------------------------------------------------------------------

@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("call, message", [(1, "stopped by its sink"), (2, "cannot write attention"),
                                           (4, "cannot write attention")])
def test_a_call_that_fails(call, message, threads, tmp_path):
    run, _ = start(GOLDEN / "llama", [text(300), text(50)], tmp_path, f"attention={tmp_path / 'a'}",
                   f"attention-stop={call}", f"threads={threads}")
    assert (run.returncode, run.stderr) == (1, message + "\n")
    assert len(read_attention(tmp_path / "a")) == call


def test_rows_that_fail_come_first(tmp_path):
    run, _ = start(GOLDEN / "llama", [text(300)], tmp_path, f"attention={tmp_path / 'a'}", "stop=2")
    assert (run.returncode, run.stderr) == (1, "cannot write block\n")
    assert (tmp_path / "a").stat().st_size == 0


def test_nothing_asked_for(tmp_path):
    run, _ = start(GOLDEN / "llama", [text(30)], tmp_path, "none")
    assert run.returncode == 1 and "without a sink" in run.stderr


def test_estimates(tmp_path):
    """The last layer has all heads' projections and scores; memory grows by little."""
    def costs(*options):
        run, _ = start(GOLDEN / "llama", [text(10)], tmp_path, "threads=1", *options)
        return map(float, run.stdout.split())
    n, hidden, q, k, dim, layers = 1000, 32, 4, 2, 16, 3
    flops, size = costs()
    flops_too, size_too = costs(f"attention={tmp_path / 'a'}")
    assert flops_too - flops == 2 * dim * q * n * (n + 1) / 2
    sums = 4 * (32 + 10) * q * SUMS
    assert 0 < size_too - size - sums < 4 * (64 + 6 * 2 * 40 * 32) + 20 * n
    assert costs("none", f"attention={tmp_path / 'a'}").__next__() == flops_too


def test_weights_that_are_no_numbers(tmp_path):
    """The rows are those without; the sums are what they are."""
    model = make_model(tmp_path / "model")
    tensors = {name: values.copy() for name, values in read_tensors(model / "model.safetensors").items()}
    for value in (np.nan, np.inf, 1e38):
        tensors["model.layers.0.self_attn.k_proj.weight"].flat[::3] = value
        write_tensors(model / "model.safetensors", tensors)
        rows, attention = measure(model, [text(300, 50)], tmp_path)
        assert rows.keys() == prefill(model, [text(300, 50)], tmp_path).keys() and len(attention) == 2
