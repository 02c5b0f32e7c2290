# SPDX-License-Identifier: Apache-2.0
"""Running prefill_values, and reading and writing tensors."""
import json
import os
import pathlib
import struct
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("QKSCOPE_BUILD", ROOT / "build")).resolve()
GOLDEN = ROOT / "tests" / "prefill" / "golden"
CASES = sorted(folder.name for folder in GOLDEN.iterdir())
STEP = ROOT / "examples" / "kjv-tiny" / "step-2004"
SUMS = 65  # of attention, of each head and bucket (attention_rows.py)
TYPES = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "I32": "<i4", "I64": "<i8"}


def read_tensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[start:end], TYPES[entry["dtype"]])
        if entry["dtype"] == "BF16":
            values = (values.astype("<u4") << 16).view("<f4")
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def write_tensors(path, tensors):
    entries, offset = {}, 0
    for name, values in tensors.items():
        entries[name] = {"dtype": "F32", "shape": list(values.shape),
                         "data_offsets": [offset, offset + 4 * values.size]}
        offset += 4 * values.size
    header = json.dumps(entries).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for values in tensors.values():
            file.write(values.astype("<f4").tobytes())


def start(model, sequences, folder, *options):
    tokens, out = folder / "tokens.txt", folder / "out.bin"
    tokens.write_text("".join(" ".join(map(str, s)) + "\n" for s in sequences))
    run = subprocess.run([BUILD / "tests" / "prefill" / "prefill_values", model, tokens, out,
                          *options], capture_output=True, text=True, timeout=300)
    return run, out


def prefill(model, sequences, folder, *options):
    """{(layer, kind, rotated, sequence): (heads, rows [tokens][heads][head_dim])}, after
    checking the order of the blocks."""
    run, out = start(model, sequences, folder, *options)
    assert run.returncode == 0, run.stderr
    data, at, parts, last_layer = out.read_bytes(), 0, {}, 0
    while at < len(data):
        layer, kind, rotated, sequence, first, tokens, heads, dim = \
            struct.unpack_from("<8i", data, at)
        which = struct.unpack_from(f"<{heads}i", data, at + 32)
        at += 32 + 4 * heads
        rows = np.frombuffer(data, "<f4", tokens * heads * dim, at)
        at += rows.nbytes
        assert layer >= last_layer
        last_layer = layer
        seen, list_of = parts.setdefault((layer, "qk"[kind], rotated, sequence), (which, []))
        assert which == seen and first == sum(len(part) for part in list_of)
        list_of.append(rows.reshape(tokens, heads, dim))
    result = {key: (which, np.concatenate(list_of)) for key, (which, list_of) in parts.items()}
    for (_, _, _, sequence), (_, rows) in result.items():
        assert len(rows) == len(sequences[sequence])
    return result


def same(a, b):
    assert a.keys() == b.keys()
    for key in a:
        assert a[key][0] == b[key][0]
        assert a[key][1].tobytes() == b[key][1].tobytes(), key


def text(length, vocab=64, seed=0):
    return np.random.default_rng(seed).integers(3, vocab, length)


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


def read_losses(path, branches=None):
    """Those of each sequence; branches is filled with (first row, losses, drifts) of each branch."""
    data, at, found = path.read_bytes(), 0, {}
    while at < len(data):
        sequence, branch, first, count = map(int, np.frombuffer(data, "<i8", 4, at))
        values = np.frombuffer(data, "<f4", count, at + 32)
        at += 32 + 4 * count
        if branch < 0:
            found[sequence] = values
        else:
            branches[branch] = first, values, np.frombuffer(data, "<f4", count, at)
            at += 4 * count
    assert list(found) == sorted(found)
    return found


def same_values(a, b):
    """Of what read_attention or read_losses tells, to the bit."""
    assert a.keys() == b.keys()
    for key, value in a.items():
        parts = zip(value, b[key], strict=True) if isinstance(value, tuple) else [(value, b[key])]
        assert all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in parts), key
