# SPDX-License-Identifier: Apache-2.0
"""Models of a few kilobytes to capture from, and what a capture of them should hold, computed with
NumPy from the capture contract alone."""
import csv
import hashlib
import json
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from conftest import BUILD, ROOT, environment

sys.path.append(str(ROOT / "tests" / "model"))
from checkpoints import small_config, write_checkpoint  # noqa: E402

TEXT = (ROOT / "README.md").read_bytes()


# ---- models ------------------------------------------------------------------------------------

def byte_letters():
    """The letter by which byte-level tokenizers write each byte."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in printable]
    return {**{b: chr(b) for b in printable}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def write_tokenizer(folder):
    """Every byte is a token, its own id."""
    vocabulary = {letter: byte for byte, letter in byte_letters().items()}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
        "normalizer": None, "post_processor": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocabulary, "merges": []}}))


def write_model(folder, architecture="llama", seed=0, **changes):
    """Returns the model's configuration and weights."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    config = small_config(architecture, **{"vocab_size": 256, **changes})
    weights = write_checkpoint(folder, config, seed=seed)
    write_tokenizer(folder)
    return config, weights


def forward(config, weights, tokens):
    """(pre, post) queries and keys of every layer of a Llama in float64, [heads][tokens][d]."""
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    d = config["hidden_size"] // heads
    n = len(tokens)
    w = {name: values.astype(np.float64) for name, values in weights.items()}
    x = w["embed_tokens.weight"][tokens]
    angle = np.arange(n)[:, None] / config["rope_theta"] ** (np.arange(d // 2) * 2 / d)
    cos, sin = np.cos(angle), np.sin(angle)

    def norm(values, weight):
        return values / np.sqrt((values ** 2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weight

    def split(values, count):
        return values.reshape(n, count, d).transpose(1, 0, 2)

    def rotate(values):
        a, b = values[..., :d // 2], values[..., d // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    layers = []
    for i in range(config["num_hidden_layers"]):
        p = f"layers.{i}."
        h = norm(x, w[p + "input_layernorm.weight"])
        q, k, v = (split(h @ w[p + f"self_attn.{m}_proj.weight"].T, c)
                   for m, c in (("q", heads), ("k", groups), ("v", groups)))
        layers.append(((q, k), (rotate(q), rotate(k))))
        out = np.empty((heads, n, d))
        for j in range(heads):
            scores = rotate(q)[j] @ rotate(k)[j * groups // heads].T / np.sqrt(d)
            scores[np.triu_indices(n, 1)] = -np.inf
            share = np.exp(scores - scores.max(1, keepdims=True))
            out[j] = share / share.sum(1, keepdims=True) @ v[j * groups // heads]
        x = x + out.transpose(1, 0, 2).reshape(n, -1) @ w[p + "self_attn.o_proj.weight"].T
        h = norm(x, w[p + "post_attention_layernorm.weight"])
        gate = h @ w[p + "mlp.gate_proj.weight"].T
        x = x + gate / (1 + np.exp(-gate)) * (h @ w[p + "mlp.up_proj.weight"].T) @ w[p + "mlp.down_proj.weight"].T
    return layers


# ---- which rows ------------------------------------------------------------------------------------

M64 = 2 ** 64 - 1


def stream_seed(example, layer, kind):
    def mix(v):
        v &= M64
        v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9 & M64
        v = (v ^ v >> 27) * 0x94D049BB133111EB & M64
        return v ^ v >> 31

    seed = 0x243F6A8885A308D3
    for value in (example, layer, ord(kind)):
        seed = (seed ^ mix(value)) * 0x9E3779B97F4A7C15 & M64
        seed ^= seed >> 32
    return seed


def kept_positions(example, layer, kind, count, sampler="uniform", rate=1.0, bucket=16):
    if sampler == "all":
        return np.arange(count)
    twister = np.random.RandomState(stream_seed(example, layer, kind) & 0xffffffff)._bit_generator
    drawn = (twister.random_raw(count) & 0xffffff) * np.float32(2.0 ** -24)
    return np.flatnonzero(drawn < threshold(np.arange(count), sampler, rate, bucket))


def threshold(position, sampler, rate, bucket):
    if sampler == "uniform":
        return np.float32(min(1.0, rate / bucket))
    return np.minimum(1, np.float32(rate) / np.float32(2.0) ** buckets(position, sampler, bucket))


def buckets(position, sampler, bucket):
    if sampler != "log_uniform":
        return position // bucket
    return np.maximum(int(np.ceil(np.log2(bucket))), np.floor(np.log2(position + 1)).astype(int))


def text_id(text):
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


# ---- captures --------------------------------------------------------------------------------------

def write_jsonl(path, texts, ids=None):
    with open(path, "w", encoding="utf-8") as file:
        for i, text in enumerate(texts):
            row = {"text": text} if ids is None else {"text": text, "id": ids[i]}
            file.write(json.dumps(row) + "\n")
    return path


def some_texts(count, shortest=40, longest=300):
    """Pieces of one text, of different lengths; only ASCII, so that bytes are characters."""
    source = "".join(chr(b) for b in TEXT if b < 128)
    rng = np.random.default_rng(count)
    begins = rng.integers(0, len(source) - longest, count)
    return [source[b:b + n] for b, n in zip(begins, rng.integers(shortest, longest, count))]


def files_of(folder):
    """{name: bytes} of everything below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(pathlib.Path(folder).rglob("*")) if p.is_file()}


def manifest_of(folder):
    return json.loads((pathlib.Path(folder) / "capture.json").read_text())


def examples_of(folder):
    with open(pathlib.Path(folder) / "examples.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table_of(folder, head):
    """Columns of a head; vector as an array."""
    import pyarrow.parquet as pq
    table = pq.read_table(pathlib.Path(folder) / head / "data.parquet")
    columns = {name: table[name].to_pylist() for name in table.column_names if name != "vector"}
    flat = table["vector"].combine_chunks().flatten().to_numpy(zero_copy_only=False)
    columns["vector"] = flat.reshape(len(table), -1)
    return columns


# ---- runs that are killed ----------------------------------------------------------------------------

def killed(program, n, *words, by=signal.SIGKILL, exchange=True):
    """What is said of a run that a signal ended at the n-th call that changes a folder; None: it had ended well, with fewer."""
    library = BUILD / "tests" / "recorder" / "libkill_at.so"
    if not library.exists() or b"__asan_init" in program.read_bytes():
        pytest.skip("nothing can be put in front of the C library here")
    faults = {"LD_PRELOAD": library, "KILL_AT": n, "KILL_BY": int(by), "NO_EXCHANGE": None if exchange else 1}
    done = subprocess.run([program, *map(str, words)], env=environment(faults), capture_output=True, text=True)
    assert done.returncode in (0, -by), done.stderr
    return done.stderr if done.returncode else None
