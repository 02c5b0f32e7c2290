# SPDX-License-Identifier: Apache-2.0
"""Captures of moments, made from captures of rows with NumPy and pyarrow: the layout and the numbers of docs/formats.md#moments,
written without the library."""
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors.numpy import save_file

HEAD = re.compile(r"l(\d+)h(\d+)([qk])$")
ALL_BITS = 2 ** 64 - 1


# ---- the capture -----------------------------------------------------------------------------

def heads_of(capture):
    """{(layer, head, kind): folder}"""
    found = {}
    for folder in sorted(Path(capture).iterdir()):
        match = HEAD.match(folder.name)
        if match and folder.is_dir():
            found[int(match[1]), int(match[2]), match[3]] = folder
    return found


def read_table(folder):
    return pa.concat_tables(pq.read_table(file) for file in sorted(folder.glob("*.parquet")))


def columns_of(table):
    vector = table.column("vector").combine_chunks()
    rows = {name: table.column(name).to_numpy().astype(np.int64)
            for name in ("position", "bucket", "example_id")}
    rows["vector"] = np.asarray(vector.flatten(), dtype=np.float64).reshape(len(table), -1)
    return rows


# ---- groups of texts -------------------------------------------------------------------------

def mask_of(ids, limit):
    """The bits of an id that tell its group: as many of the last as leave `limit` groups."""
    ids = {int(i) % 2 ** 64 for i in ids}
    if limit == 0:
        return 0
    if len(ids) <= limit:
        return ALL_BITS
    return next(2 ** b - 1 for b in range(63, -1, -1) if len({i % 2 ** b for i in ids}) <= limit)


def signed(values):
    return np.array(values, dtype=np.uint64).astype(np.int64)


# ---- moments ---------------------------------------------------------------------------------

def moments_of(x, t):
    """count, mean_t, sum_tt, mean, sum_xt, sum_xx about the means."""
    if len(t) == 0:
        d = x.shape[1]
        return 0, 0.0, 0.0, np.zeros(d), np.zeros(d), np.zeros((d, d))
    t = t.astype(np.float64)
    dt, dx = t - t.mean(), x - x.mean(axis=0)
    return len(t), t.mean(), (dt ** 2).sum(), x.mean(axis=0), dx.T @ dt, dx.T @ dx


def stack(cells, matrix):
    """[rows][heads] moments as arrays of docs/formats.md#moments."""
    rows, heads, d = len(cells), len(cells[0]), len(cells[0][0][3])
    upper = np.triu_indices(d)
    names = ("count", "mean_t", "sum_tt", "mean", "sum_xt", "sum_xx")
    shapes = ((), (), (), (d,), (d,), (len(upper[0]),) if matrix else (d,))
    arrays = {}
    for i, (name, shape) in enumerate(zip(names, shapes)):
        out = np.zeros((rows, heads, *shape), dtype=np.int64 if name == "count" else np.float64)
        for r in range(rows):
            for h in range(heads):
                value = cells[r][h][i]
                if name == "sum_xx":
                    value = value[upper] if matrix else np.diag(value)
                out[r, h] = value
        arrays[name] = out
    return arrays


def lengths_of(x, pairs, interleaved=False):
    """Of rows x [n][d], the sum of the lengths of rotary pairs."""
    ends = [(2 * p, 2 * p + 1) if interleaved else (p, p + pairs) for p in range(pairs)]
    return np.array([np.sqrt(x[:, a] ** 2 + x[:, b] ** 2).sum() for a, b in ends])


def layer_arrays(heads, kind, groups, pairs=0):
    """heads: {number: columns} of one kind in a layer. pairs: of rotary pairs of queries the lengths, too."""
    numbers = sorted(heads)
    all_ids = np.unique(np.concatenate([heads[h]["example_id"] for h in numbers]))
    mask = mask_of(all_ids, groups)
    labels = sorted({int(i) % 2 ** 64 & mask for i in all_ids})
    of_row = {h: np.array([int(i) % 2 ** 64 & mask for i in heads[h]["example_id"]],
                          dtype=np.uint64) for h in numbers}
    arrays = {"heads": np.array(numbers, dtype=np.int64),
              "texts": np.array([len(np.unique(heads[h]["example_id"])) for h in numbers],
                                dtype=np.int64),
              "positions": np.array([[heads[h]["position"].min(), heads[h]["position"].max()]
                                     if len(heads[h]["position"]) else [0, -1]
                                     for h in numbers], dtype=np.int64),
              "group": signed(labels), "mask": signed(mask)}
    arrays |= stack([[moments_of(heads[h]["vector"][of_row[h] == np.uint64(label)],
                                 heads[h]["position"][of_row[h] == np.uint64(label)])
                      for h in numbers] for label in labels], True)
    if kind == "q" and pairs:
        arrays["sum_abs"] = np.array([[lengths_of(heads[h]["vector"][of_row[h] == np.uint64(label)], pairs) for h in numbers]
                                      for label in labels]).reshape(len(labels), len(numbers), pairs)
    if kind == "q":
        buckets = np.unique(np.concatenate([heads[h]["bucket"] for h in numbers]))
        arrays["bucket"] = buckets
        sums = stack([[moments_of(heads[h]["vector"][heads[h]["bucket"] == b],
                                  heads[h]["position"][heads[h]["bucket"] == b])
                       for h in numbers] for b in buckets], False)
        arrays |= {f"bucket_{name}": value for name, value in sums.items()}
    return {f"{kind}.{name}": np.array(value, order="C") for name, value in arrays.items()}


# ---- the reservoir ---------------------------------------------------------------------------

def mix(z):
    z = z + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hashes(example, kind, position, seed=0):
    with np.errstate(over="ignore"):
        z = mix(np.uint64(seed) + example.astype(np.int64).astype(np.uint64))
        z = mix(z + np.uint64(kind == "k"))
        return mix(z + position.astype(np.int64).astype(np.uint64))


def reservoir_rows(columns, kind, size):
    """Numbers of the rows that stay, ascending: of each text and bucket those of the smallest hash."""
    h = hashes(columns["example_id"], kind, columns["position"])
    order = np.lexsort((columns["position"], h, columns["bucket"], columns["example_id"]))
    stratum = np.stack([columns["example_id"], columns["bucket"]])[:, order]
    start = np.ones(len(order), dtype=bool)
    start[1:] = (stratum[:, 1:] != stratum[:, :-1]).any(axis=0)
    first = np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))
    return np.sort(order[np.arange(len(order)) - first < size])


# ---- writing ---------------------------------------------------------------------------------

def first_rows(columns, first):
    return {name: values[columns["position"] < first] for name, values in columns.items()}


def make_state(capture, state, groups=16, reservoir=0, rows=None, facts=None, first=0):
    """rows: "none", "reservoir" or "all"; facts: more keys of capture.json; first: rows of positions below it once
    more, apart."""
    capture, state = Path(capture), Path(state)
    rows = rows or ("reservoir" if reservoir else "none")
    heads = heads_of(capture)
    (state / "moments").mkdir(parents=True)
    old = capture / "capture.json"
    manifest = json.loads(old.read_text()) if old.exists() else {}
    listed = []
    for layer in sorted({layer for layer, _, _ in heads}):
        arrays = {}
        for kind in "qk":
            own = {head: columns_of(read_table(folder)) for (i, head, k), folder in heads.items()
                   if i == layer and k == kind}
            if own:
                arrays |= layer_arrays(own, kind, groups)
            if own and first:
                of_first = {head: first_rows(columns, first) for head, columns in own.items()}
                arrays |= {"first." + name: values for name, values in layer_arrays(of_first, kind, groups).items()
                           if ".bucket" not in name}
        save_file(arrays, state / "moments" / f"l{layer:02d}.safetensors",
                  metadata={"format": "qkscope moments 2", "layer": str(layer),
                            "groups": str(groups)})
    for (layer, head, kind), folder in sorted(heads.items()):
        table = read_table(folder)
        columns = columns_of(table)
        kept = 0
        if rows == "all":
            shutil.copytree(folder, state / folder.name)
            kept = len(table)
        elif rows == "reservoir":
            chosen = reservoir_rows(columns, kind, reservoir)
            kept = len(chosen)
            (state / folder.name).mkdir()
            pq.write_table(table.take(pa.array(chosen)), state / folder.name / "data.parquet")
        listed.append({"name": folder.name, "rows": kept, "dim": columns["vector"].shape[1],
                       "summed": len(table)})
    manifest |= {"format": "qkscope-capture", "format_version": 1, "complete": True,
                 "keep": {"rows": rows, "reservoir": reservoir if rows == "reservoir" else 0,
                          "moments": True, "groups": groups, **({"first": first} if first else {})},
                 "heads": listed, **(facts or {})}
    (state / "capture.json").write_text(json.dumps(manifest, indent=1))
    return state
