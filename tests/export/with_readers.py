# SPDX-License-Identifier: Apache-2.0
"""Loads exports for TriAttention with the readers' own functions, and looks at the files that they ship; run by test_export_readers.py in
an environment with torch and transformers.

    with_readers.py READERS FOLDER     FOLDER holds triattention.pt and triattention.bin; FOLDER/read.npz: what readers make of them
"""
import ctypes
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

OURS = ("q_mean_real", "q_mean_imag", "q_abs_mean")


def module(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made  # dataclasses look there
    spec.loader.exec_module(made)
    return made


def of_transformers(root, file):
    metadata, stats = module(root / "methods" / "pruning_utils.py").load_head_frequency_stats(file, torch.device("cpu"))
    shape = metadata["num_layers"], metadata["num_attention_heads"], -1
    heads = [stats[tuple(place)] for place in metadata["sampled_heads"]]
    return {"transformers_mean": torch.stack([head.q_mean_complex for head in heads]).reshape(shape).numpy(),
            "transformers_length": torch.stack([head.q_abs_mean for head in heads]).reshape(shape).numpy()}


def of_vllm(root, file, keys):
    metadata, layers = module(root / "vllm" / "core" / "utils.py").load_frequency_stats(file, torch.device("cpu"), torch.float32, keys)
    return {"vllm_mean": torch.view_as_complex(torch.stack([layers[i]["q_mean_complex"] for i in range(len(layers))])).numpy(),
            "vllm_length": torch.stack([layers[i]["q_abs_mean"] for i in range(len(layers))]).numpy(), "vllm_omega": metadata["inv_freq"].numpy(),
            "vllm_style": metadata["rope_style"], "vllm_heads": [metadata[name] for name in ("num_layers", "num_attention_heads", "num_kv_heads")]}


def of_sglang(root, file, keys):
    loader = module(root / "sglang" / "stats_loader.py")
    found = loader.load_stats(str(file), num_kv_heads=keys)
    loader.validate_stats_against_model(found, found.num_layers, keys, found.head_dim)
    layers = [found.head_stats[i] for i in range(found.num_layers)]
    return {"sglang_mean": torch.view_as_complex(torch.stack([one["q_mean_complex"] for one in layers])).numpy(),
            "sglang_length": torch.stack([one["q_abs_mean"] for one in layers]).numpy(), "sglang_omega": found.omega.numpy()}


class Head(ctypes.Structure):
    _fields_ = [(name, ctypes.POINTER(ctypes.c_float)) for name in ("real", "imag", "length", "of_mean")]


class Stats(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_uint32) for name in ("layers", "queries", "keys", "dim", "count")), ("theta", ctypes.c_float),
                ("scale", ctypes.c_float), ("scales", ctypes.POINTER(ctypes.c_float)), ("omega", ctypes.POINTER(ctypes.c_float)),
                ("heads", ctypes.POINTER(Head))]


def of_ggml(root, file, folder):
    """By its C function."""
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-w", "-o", folder / "tria.so", root / "triattention.c", "-lm"], check=True)
    load = ctypes.CDLL(str(folder / "tria.so")).tria_load
    load.restype, load.argtypes = ctypes.POINTER(Stats), [ctypes.c_char_p]
    s = load(str(file).encode())[0]
    parts = [np.array([getattr(s.heads[i], part)[:s.count] for i in range(s.layers * s.queries)]).reshape(s.layers, s.queries, -1)
             for part in ("real", "imag", "length")]
    return {"ggml_mean": parts[0] + 1j * parts[1], "ggml_length": parts[2], "ggml_omega": s.omega[:s.count], "ggml_keys": s.keys,
            "ggml_scales": s.scales[:s.layers]}


def shipped(root):
    """Files of the project's: whether their layout is the one that is written here."""
    told = []
    for file in sorted((root / "calibration").glob("*/*.pt")):
        payload = torch.load(file, weights_only=True)
        metadata, stats = payload["metadata"], payload["stats"]
        heads = [f"layer{layer:02d}_head{head:02d}" for layer, head in metadata["sampled_heads"]]
        pairs = metadata["head_dim"] // 2
        told.append({"file": "/".join(file.parts[-2:]), "layout": list(payload) == ["metadata", "stats"] and list(stats) == heads and
                     metadata["sampled_heads"] == sorted(metadata["sampled_heads"]) and all(
                         tuple(head) == OURS and all(part.dtype == torch.float32 and part.shape == (pairs,) for part in head.values())
                         for head in stats.values()),
                     "lengths": all(bool((torch.hypot(head[OURS[0]], head[OURS[1]]) <= head[OURS[2]] * 1.00001).all()) for head in stats.values())})
    return told


def main(readers, folder):
    readers, folder = Path(readers), Path(folder)
    root, file = readers / "triattention" / "triattention", folder / "triattention.pt"
    sys.path.insert(0, str(readers / "triattention"))
    keys = torch.load(file, weights_only=True)["metadata"]["num_kv_heads"]
    np.savez(folder / "read.npz", **of_transformers(root, file), **of_vllm(root, file, keys), **of_sglang(root, file, keys),
             **of_ggml(readers / "triattention-ggml", folder / "triattention.bin", folder))
    print(json.dumps(shipped(root)))


main(*sys.argv[1:])
