#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A capture of made-up heads, and truth.json beside it: the means, drifts, covariances and frequencies that the vectors
were drawn from. What no option gives is drawn for every head from the seed. docs/dev/synth.md derives what an analysis
should find. Needs NumPy and pyarrow.

    python3 tools/make_capture.py made-up --layers 4 --dim 128 --r-k 0.9
"""
import argparse
import inspect
import json
import math
import pathlib
import sys
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HELP = {
    "layers": "layers", "query_heads": "query heads per layer", "q_per_kv_group": "query heads per key head",
    "dim": "head dimension", "examples": "texts", "rows": "rows per text and head", "buckets": "position buckets",
    "bucket_width": "tokens in a bucket", "position_offset": "position of the first token",
    "sliding_window": "window in tokens; 0: none", "seed": "seed of everything drawn",
    "float32": "do not round to bfloat16", "token_strings": "add the column token_str",
    "r_q": "correlation of queries with position along the drift", "r_k": "the same of keys",
    "slope_q": "drift of queries per token, in place of --r-q", "slope_k": "the same of keys",
    "separation": "distance of the means of queries and keys, in standard deviations of content",
    "mean_offset": "distance of the mean key from zero, in standard deviations of content",
    "scale": "standard deviation of content per dimension", "exponent": "decay of the eigenvalues, j^-E",
    "rope_planes": "planes that turn with position", "rope_theta": "base of their frequencies",
    "rope_amplitude": "their radius, in standard deviations of content",
    "frequencies": "radians per token, one plane each: 0.5,0.01", "truth_matrices": "add the bases to truth.json",
    "layout": "heads (a file a head) or packed (a file a layer and kind)", "shards": "files in place of each one",
    "row_group_rows": "rows of a row group", "codec": "of the files, as pyarrow names them",
    "model_name": "name in capture.json",
}


@dataclass
class Head:
    """One head's parameters, by the names of docs/dev/synth.md."""
    name: str
    scale: float
    exponent: float
    eigenvalues: np.ndarray
    basis: np.ndarray  # row j is b_j
    planes: list[dict]
    number: int
    key: str | None = None  # of a query head
    a: np.ndarray = field(default=None)
    mean: np.ndarray = field(default=None)
    alpha: float = 0.0
    r: float = 0.0


class Maker:
    def __init__(self, **settings):
        self.__dict__.update(settings)
        if self.frequencies is not None:
            self.rope_planes = len(self.frequencies)
        self.span = self.buckets * self.bucket_width
        self.center = self.position_offset + (self.span - 1) / 2
        self.variance = (self.span ** 2 - 1) / 12
        self.keys = {}
        if self.query_heads % self.q_per_kv_group:
            raise ValueError(f"query_heads ({self.query_heads}) is no multiple of q_per_kv_group ({self.q_per_kv_group})")
        if not 1 <= self.rows <= self.span:
            raise ValueError(f"rows is {self.rows}: give 1 to {self.span}, one a token")
        if not 0 <= 2 * self.rope_planes < self.dim:
            raise ValueError(f"rope_planes is {self.rope_planes}: give 0 to {(self.dim - 1) // 2}")

    def stream(self, name, purpose):
        """What a head gets does not depend on which others are made."""
        return np.random.default_rng([self.seed, int(name[1:3]), int(name[4:6]), "qk".index(name[6]), purpose])

    # ---- parameters ---------------------------------------------------------------------------

    def omegas(self):
        if self.frequencies is not None:
            return list(self.frequencies)
        return [self.rope_theta ** (-2 * x / self.dim) for x in self.plane_coordinates()]

    def plane_coordinates(self):
        return [p * (self.dim // 2) // self.rope_planes for p in range(self.rope_planes)]

    def alone(self, name, rng):
        """A head without its mean and drift, and numbers for them: all are drawn, whatever is given."""
        def given(value, drawn):
            return drawn if value is None else value

        def away(length):
            x = rng.standard_normal(self.dim)
            return length * x / np.linalg.norm(x)
        sign, r = rng.choice([-1, 1]), math.tanh(rng.uniform(0, 3))  # weak and overwhelming drifts alike
        r = given(self.r_q, r) if name.endswith("q") else given(self.r_k, sign * r)
        separation, offset = given(self.separation, rng.uniform(1, 16)), given(self.mean_offset, rng.uniform(0, 2))
        scale, exponent = given(self.scale, rng.uniform(0.5, 2)), given(self.exponent, rng.uniform(0.5, 1.5))
        eigenvalues = np.arange(1, self.dim + 1) ** -float(exponent)
        eigenvalues *= scale ** 2 / eigenvalues.mean()
        basis, triangle = np.linalg.qr(self.stream(name, 1).standard_normal((self.dim, self.dim)))
        basis = (basis * np.sign(np.diag(triangle))).T  # uniformly random
        planes = [{"coordinates": [x, x + self.dim // 2], "omega": omega,
                   "amplitude": scale * given(self.rope_amplitude, amplitude), "phase": phase}
                  for x, omega, amplitude, phase in zip(self.plane_coordinates(), self.omegas(),
                                                        rng.uniform(0.5, 2, self.rope_planes),
                                                        rng.uniform(0, 2 * math.pi, self.rope_planes))]
        return Head(name, scale, exponent, eigenvalues, basis, planes, int(name[4:6])), r, away, separation, offset

    def set_slope(self, head, slope, r):
        """With content variance v along a, r = alpha sd(t) / sqrt(alpha^2 var(t) + v)."""
        content = float(head.eigenvalues @ (head.basis @ head.a) ** 2)
        if slope is None:
            slope = r * math.sqrt(content / ((1 - r * r) * self.variance)) if self.variance else 0.0
        head.alpha, drift = slope, slope ** 2 * self.variance
        head.r = math.copysign(math.sqrt(drift / (drift + content)), slope) if drift else 0.0

    def head(self, name):
        if name in self.keys:
            return self.keys[name]
        rng = self.stream(name, 0)
        head, r, away, separation, offset = self.alone(name, rng)
        if name.endswith("q"):
            head.key = f"{name[:4]}{head.number // self.q_per_kv_group:02d}k"
            key = self.head(head.key)
            head.a, head.mean = key.a, key.mean + away(separation * head.scale)
            self.set_slope(head, self.slope_q, r)
        else:
            head.a = rng.standard_normal(self.dim)
            for plane in head.planes:  # the drift stays out of them: each can be measured alone
                head.a[plane["coordinates"]] = 0
            head.a /= np.linalg.norm(head.a)
            head.mean = away(offset * head.scale)
            self.set_slope(head, self.slope_k, r)
            self.keys[name] = head
        return head

    # ---- rows ---------------------------------------------------------------------------------

    def positions(self, name):
        """[examples, rows], ascending and without repeats in each text, even over the buckets give or take one."""
        rng, positions = self.stream(name, 2), []
        first = self.position_offset + self.bucket_width * np.arange(self.buckets)
        for _ in range(self.examples):
            counts = np.full(self.buckets, self.rows // self.buckets)
            counts[rng.choice(self.buckets, self.rows % self.buckets, replace=False)] += 1
            positions += [start + np.sort(rng.choice(self.bucket_width, count, replace=False, shuffle=False))
                          for start, count in zip(first, counts)]
        return np.concatenate([np.zeros(0, np.int64), *positions])

    def vectors(self, head, t):
        z = self.stream(head.name, 3).standard_normal((len(t), self.dim), dtype=np.float32)
        content = z @ (np.sqrt(head.eigenvalues)[:, None] * head.basis).astype(np.float32)
        x = head.mean + np.outer(head.alpha * (t - self.center), head.a) + content
        for plane in head.planes:
            angle = plane["omega"] * t + plane["phase"]
            x[:, plane["coordinates"]] += plane["amplitude"] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        x = x.astype(np.float32)
        if not self.float32:  # to the nearest, ties to even
            bits = x.view(np.uint32)
            x = ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)
        return x

    def table(self, head):
        t = self.positions(head.name)
        example = np.repeat(np.arange(self.examples), self.rows)
        window = [self.sliding_window or None] * len(t)
        columns = {"bucket": pa.array((t - self.position_offset) // self.bucket_width, pa.int32()),
                   "example_id": pa.array(example, pa.int32()), "position": pa.array(t, pa.int32()),
                   "vector": pa.ListArray.from_arrays(np.arange(len(t) + 1, dtype=np.int32) * self.dim,
                                                      self.vectors(head, t).ravel()),
                   "sliding_window": pa.array(window, pa.int32())}
        if self.layout == "packed":
            columns = {"head": pa.array([head.number] * len(t), pa.int32()), **columns}
        if self.token_strings:  # a token of a text has one string in all heads
            columns["token_str"] = [f" w{(p * 2654435761 + e * 40503 + self.seed) % 5000}" for e, p in zip(example.tolist(), t.tolist())]
        return pa.table(columns)

    # ---- files --------------------------------------------------------------------------------

    def names(self):
        return [f"l{layer:02d}h{head:02d}{kind}" for layer in range(self.layers) for head in range(self.query_heads)
                for kind in ("qk" if head < self.query_heads // self.q_per_kv_group else "q")]

    def write_files(self, folder, names):
        """Of one head, or of all that share files."""
        folder.mkdir()
        ends = [f"-{shard:05d}-of-{self.shards:05d}" if self.shards > 1 else "" for shard in range(self.shards)]
        writers, truths = {}, []
        for name in names:
            head = self.head(name)
            table, start = self.table(head), 0
            for shard, end in enumerate(ends):
                if end not in writers:
                    writers[end] = pq.ParquetWriter(folder / f"data{end}.parquet", table.schema, compression=self.codec,
                                                    write_page_checksum=True)
                rows = len(table) // self.shards + (shard < len(table) % self.shards)
                writers[end].write_table(table.slice(start, rows), self.row_group_rows)
                start += rows
            truths.append(self.truth(head))
        for writer in writers.values():
            writer.close()
        return truths

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise FileExistsError(f"{folder}: folder is not empty: choose another one")
        names = self.names()
        folders = {name: [] for name in (n[:3] + n[6] if self.layout == "packed" else n for n in names)}
        for name in names:
            folders[name if name in folders else name[:3] + name[6]].append(name)
        truths = {truth["name"]: truth for one, inside in folders.items() for truth in self.write_files(folder / one, inside)}
        settings = {key: value for key, value in self.__dict__.items() if key in HELP}
        truth = {"format": "qkscope-truth", "format_version": 1, "settings": settings, "position_center": self.center,
                 "position_variance": self.variance, "heads": [truths[name] for name in names]}
        manifest = {"format": "qkscope-capture", "format_version": 1, "model": self.model_name,
                    "q_per_kv_group": self.q_per_kv_group, "source": "make_capture.py", "complete": True,
                    **({"layout": "packed"} if self.layout == "packed" else {}),
                    "heads": [{"name": name, "rows": self.examples * self.rows, "dim": self.dim} for name in names],
                    "truth": "truth.json"}
        if self.rope_planes and all(omega > 0 for omega in self.omegas()):
            manifest["rope_frequencies"] = self.omegas()
        for name, content in ("truth.json", truth), ("capture.json", manifest):
            (folder / name).write_text(json.dumps(content, default=np.ndarray.tolist) + "\n")

    # ---- what an analysis should find ---------------------------------------------------------

    def kernel(self, omega):
        """Mean of cos(omega u), and of u sin(omega u), over the positions about their middle: the Dirichlet kernel and
        its slope; near 0 the first terms of the series."""
        n, s = self.span, math.sin(omega / 2)
        if abs(n * omega) < 1e-3 or s == 0:
            return 1 - omega ** 2 * self.variance / 2, omega * self.variance
        half = n * omega / 2
        return math.sin(half) / (n * s), (math.sin(half) * math.cos(omega / 2) / s - n * math.cos(half)) / (2 * n * s)

    def truth(self, head):
        mean, slope = head.mean.copy(), head.alpha * head.a
        variance = head.eigenvalues.sum() + head.alpha ** 2 * self.variance
        for plane in head.planes:
            mean_cos, mean_u_sin = self.kernel(plane["omega"])
            psi, size = plane["omega"] * self.center + plane["phase"], plane["amplitude"]
            turn = np.array([math.cos(psi), math.sin(psi)])
            mean[plane["coordinates"]] += size * mean_cos * turn
            if self.variance:
                slope[plane["coordinates"]] += size * mean_u_sin / self.variance * np.array([-turn[1], turn[0]])
            variance += size ** 2 * (1 - mean_cos ** 2)
        told = {"name": head.name, "scale": head.scale, "exponent": head.exponent, "r": head.r, "alpha": head.alpha,
                "mean": head.mean, "a": head.a, "eigenvalues": head.eigenvalues, "planes": head.planes,
                "expected": {"mean": mean, "slope": slope, "total_variance": variance,
                             "linear_variance_fraction": slope @ slope * self.variance / variance if variance else 0.0}}
        if self.truth_matrices:
            told["basis"] = head.basis
        if head.key:
            key, mu = self.head(head.key), float(head.mean @ head.a)
            told["pair"] = {"key_head": key.name, "separation": float(np.linalg.norm(head.mean - key.mean)), "mu_q_a": mu,
                            "mu_k_a": float(key.mean @ head.a), "bias_strength": mu * key.alpha,
                            "alpha_product": head.alpha * key.alpha}
        return told


def make_capture(folder, *, layers=2, query_heads=4, q_per_kv_group=2, dim=64, examples=4, rows=1000, buckets=16,
                 bucket_width=128, position_offset=0, sliding_window=0, seed=0, float32=False, token_strings=False, r_q=None,
                 r_k=None, slope_q=None, slope_k=None, separation=None, mean_offset=None, scale=None, exponent=None,
                 rope_planes=2, rope_theta=10000.0, rope_amplitude=None, frequencies=None, truth_matrices=False,
                 layout="heads", shards=1, row_group_rows=65536, codec="zstd", model_name="synth"):
    """Writes the capture into a folder that is new or empty. None: drawn. The same seed gives the same bytes."""
    Maker(**{name: value for name, value in locals().items() if name != "folder"}).write(pathlib.Path(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", help="for the capture; new or empty")
    for name, parameter in list(inspect.signature(make_capture).parameters.items())[1:]:
        default, option = parameter.default, "--" + name.replace("_", "-")
        if default is False:
            parser.add_argument(option, action="store_true", help=HELP[name])
        elif name == "frequencies":
            parser.add_argument(option, type=lambda text: [float(word) for word in text.split(",")], help=HELP[name])
        else:
            shown = "drawn" if default is None else default
            parser.add_argument(option, type=float if default is None else type(default), default=default,
                                help=f"{HELP[name]} ({shown})")
    options = vars(parser.parse_args())
    try:
        make_capture(**options)
    except (OSError, ValueError) as error:
        sys.exit(f"make_capture.py: {error}")


if __name__ == "__main__":
    main()
