# SPDX-License-Identifier: Apache-2.0
"""A Llama in NumPy, in float64, with changed heads: whole forwards, nothing shared with the engine."""
import json
import math

import numpy as np

from prefill_runs import read_tensors

OUTPUT, DIRECTION, ROTATION, PROFILE, WINDOW, NO_SINK, UNIFORM = range(7)


def change(layer, head, kind, keep_first=0, part=0.0, window=0, kept=0, values=(), frozen=(), positions=()):
    return dict(layer=layer, head=head, kind=kind, keep_first=keep_first, part=part, window=window, kept=kept,
                values=np.asarray(values, float), frozen=np.asarray(frozen, bool),
                positions=np.asarray(positions, int))


def write_branches(path, branches):
    """branches: (sequence, suffix, changes)."""
    lines = []
    for sequence, suffix, changes in branches:
        lines.append(f"branch {sequence} {suffix} {len(changes)}")
        for c in changes:
            lists = [np.ravel(c[name]).astype(float) for name in ("values", "frozen", "positions")]
            lines.append(" ".join(
                [str(c[name]) for name in ("layer", "head", "kind", "keep_first", "part", "window", "kept")]
                + [" ".join([str(len(one)), *(repr(float(v)) for v in one)]) for one in lists]))
    path.write_text("\n".join(lines) + "\n")


def distance_bin(distance):
    return min(int(distance).bit_length(), 21)


class Llama:
    def __init__(self, folder):
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = {name: values.astype(float)
                        for name, values in read_tensors(folder / "model.safetensors").items()}
        c = self.config
        self.width = c["head_dim"]
        self.frequencies = c["rope_theta"] ** (-np.arange(0, self.width, 2) / self.width)

    def norm(self, x, name):
        scale = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.config["rms_norm_eps"])
        return x / scale * self.tensors[name]

    def rotate(self, x, positions, frozen=None):
        """[n][width]; pairs are (i, i + width/2)."""
        angles = positions[:, None] * self.frequencies
        if frozen is not None and len(frozen):
            angles = np.where(frozen, 0, angles)
        half = self.width // 2
        a, b = x[:, :half], x[:, half:]
        return np.concatenate([a * np.cos(angles) - b * np.sin(angles),
                               b * np.cos(angles) + a * np.sin(angles)], axis=1)

    def scores(self, q, k):
        n = len(q)
        scores = q @ k.T / math.sqrt(self.width)
        return np.where(np.arange(n)[:, None] >= np.arange(n), scores, -np.inf)

    def head(self, q0, k0, v, c):
        """Output of a head from q, k before rotation."""
        n, i, j = len(q0), *np.ogrid[:len(q0), :len(q0)]
        here = np.arange(n)
        q, k = self.rotate(q0, here), self.rotate(k0, here)
        scores = clean = self.scores(q, k)
        kind = c["kind"] if c else None
        if kind == OUTPUT:
            values = c["values"].reshape(22, -1) if c["values"].size else np.zeros((22, self.width))
            return values[[distance_bin(row) for row in here]]
        if kind == DIRECTION:
            u = c["values"]
            scores = self.scores(q - c["part"] * np.outer(q @ u, u), k)
        if kind == ROTATION:
            places = c["positions"] if c["positions"].size else here
            scores = self.scores(self.rotate(q0, here, c["frozen"]), self.rotate(k0, places, c["frozen"]))
        if kind == WINDOW:
            scores = np.where((i - j >= c["window"]) & (j >= c["kept"]), -np.inf, scores)
        if kind == NO_SINK:
            scores = np.where((j < 4) & (i != j), -np.inf, scores)
        if kind == UNIFORM:
            scores = np.where(j <= i, 0.0, -np.inf)
        if c and c["keep_first"]:
            scores = np.where(j < 4, clean, scores)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        if kind == PROFILE:
            shares = c["values"].reshape(22, 24)
            for row in range(8, n):
                groups = np.array([0 if key == 0 else 1 if key < 4 else 2 + distance_bin(row - key)
                                   for key in range(row + 1)])
                counts = np.bincount(groups, minlength=24)
                new = shares[distance_bin(row)][groups] / counts[groups]
                weights[row, :row + 1] = new / new.sum()
        return weights @ v

    def logits(self, tokens, changes=(), suffix=0):
        """Of every position, and the outputs of heads. With a suffix, earlier rows are not changed."""
        c, t = self.config, self.tensors
        n, group = len(tokens), c["num_attention_heads"] // c["num_key_value_heads"]
        first = n - suffix if 0 < suffix < n else 0
        x, w = t["model.embed_tokens.weight"][np.asarray(tokens)], self.width
        for layer in range(c["num_hidden_layers"]):
            at = f"model.layers.{layer}."
            h = self.norm(x, at + "input_layernorm.weight")
            q, k, v = (h @ t[f"{at}self_attn.{name}_proj.weight"].T for name in "qkv")
            heads = []
            for head in range(c["num_attention_heads"]):
                part = slice(head // group * w, head // group * w + w)
                of = lambda change: self.head(q[:, head * w:head * w + w], k[:, part], v[:, part], change)
                out = of(None)
                for one in changes:
                    if (one["layer"], one["head"]) == (layer, head):
                        out = np.concatenate([out[:first], of(one)[first:]])
                heads.append(out)
            x = x + np.concatenate(heads, axis=1) @ t[at + "self_attn.o_proj.weight"].T
            h = self.norm(x, at + "post_attention_layernorm.weight")
            gate = h @ t[at + "mlp.gate_proj.weight"].T
            h = gate / (1 + np.exp(-gate)) * (h @ t[at + "mlp.up_proj.weight"].T)
            x = x + h @ t[at + "mlp.down_proj.weight"].T
        return self.norm(x, "model.norm.weight") @ t["model.embed_tokens.weight"].T

    def log_probabilities(self, *args, **kwargs):
        logits = self.logits(*args, **kwargs)
        top = logits.max(axis=1, keepdims=True)
        return logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True))
