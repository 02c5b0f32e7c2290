# SPDX-License-Identifier: Apache-2.0
"""Tiny models with norms of queries far from 1, their own queries, and what torch and transformers make of exports; for
test_hf_exports.py.

    hf_exports.py make FOLDER TOKENS          models NAME, and NAME.npz with what hooks see; TOKENS: lists of ids, as JSON
    hf_exports.py bridge FOLDER TYPE TEXTS    a capture FOLDER/TYPE of a model of that type by the bridge, and FOLDER/TYPE.npz
    hf_exports.py load FILE                   a file of torch's, loaded, mapped and saved again
    hf_exports.py loss MODEL TOKENS TYPES     the loss of a model as it is and with layer_types of a file
"""
import json
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
import numpy as np  # noqa: E402
import torch  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast  # noqa: E402

import qkscope  # noqa: E402
from qkscope.hf import capture  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]

SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": 256, "max_position_embeddings": 256, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "dtype": "float32"}


def theta(value, **more):
    return {"rope_type": "default", "rope_theta": value, **more}


MODELS = {"qwen3": {"rope_parameters": theta(1e6)}, "llama": {"rope_parameters": theta(1e6)},
          "gemma3_text": {"rope_parameters": {"full_attention": theta(1e5), "sliding_attention": theta(1e5)}, "sliding_window": 8},
          "two_thetas": {"rope_parameters": {"full_attention": theta(1e6), "sliding_attention": theta(1e4)}, "sliding_window": 8,
                         "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]},
          "yarn": {"rope_parameters": theta(1e4, rope_type="yarn", factor=4.0, original_max_position_embeddings=64)}}
TYPES = {"two_thetas": "gemma3_text", "yarn": "qwen3"}


def build(name):
    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(TYPES.get(name, name), **SHAPE, **MODELS[name])).eval()
    with torch.no_grad():
        for key, values in model.named_parameters():
            values.copy_(torch.randn_like(values) * (0.5 if values.ndim > 1 else 1))
            if "_norm.weight" in key and values.ndim == 1:
                values.copy_(torch.rand_like(values) * 3 + 0.2)
    return model


def queries_of(model, texts):
    """{"normed", "plain"}: [layers] of [tokens, heads, d], in float64, before RoPE, behind and before the norm of queries."""
    found = {"normed": [[] for _ in model.model.layers], "plain": [[] for _ in model.model.layers]}

    def rows(values):
        values = values[0].double()
        return values.transpose(0, 1) if values.shape[0] == SHAPE["num_attention_heads"] else values  # Gemma's are by head
    for layer, of in enumerate(model.model.layers):
        def see(_, inputs, output, layer=layer):
            found["plain"][layer].append(rows(inputs[0]))
            found["normed"][layer].append(rows(output))
        of.self_attn.q_norm.register_forward_hook(see)
    with torch.no_grad():
        for text in texts:
            model(torch.tensor([text]))
    return {name: [torch.cat(rows) for rows in layers] for name, layers in found.items()}


def make(folder, tokens):
    for name in MODELS:
        model = build(name)
        model.save_pretrained(Path(folder) / name)
        if name == "llama":
            continue
        for kind, layers in queries_of(model, json.loads(Path(tokens).read_text())).items():
            half = SHAPE["head_dim"] // 2
            z = [torch.complex(rows[..., :half], rows[..., half:]) for rows in layers]
            np.savez(Path(folder) / f"{name}-{kind}.npz", mean=torch.stack([of.mean(0) for of in z]).numpy(),
                     length=torch.stack([of.abs().mean(0) for of in z]).numpy())


def bridge(folder, kind, texts):
    """What hooks see of its projection, which has no norm here."""
    torch.manual_seed(7)
    shape = {**SHAPE, **({"head_dim": None, "num_key_value_heads": 4, "q_lora_rank": None, "kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8,
                          "v_head_dim": 16, "first_k_dense_replace": 3} if kind == "deepseek_v3" else {})}
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **{k: v for k, v in shape.items() if v is not None or k == "q_lora_rank"})).eval()
    texts = [json.loads(line)["text"] for line in Path(texts).read_text().splitlines()]
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "examples" / "kjv-tiny" / "step-20" / "tokenizer.json"))
    with qkscope.Sink(f"{folder}/{kind}", keep="moments") as sink:
        capture(model, tokenizer, texts, sink, stage="pre", progress=False)
    seen = [[] for _ in model.model.layers]
    for layer, of in enumerate(model.model.layers):
        of.self_attn.q_proj.register_forward_hook(lambda _, __, output, layer=layer: seen[layer].append(output[0].double().unflatten(-1, (4, -1))))
    with torch.no_grad():
        for text in texts:
            model(torch.tensor([tokenizer(text)["input_ids"]]))
    z = [torch.view_as_complex(torch.cat(rows).unflatten(-1, (-1, 2)).contiguous()) for rows in seen]
    np.savez(f"{folder}/{kind}.npz", mean=torch.stack([of.mean(0) for of in z]).numpy(), length=torch.stack([of.abs().mean(0) for of in z]).numpy())


def equal(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(equal(a[key], b[key]) for key in a)
    return a == b


def load(file):
    first = torch.load(file, weights_only=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.save(first, f"{folder}/again.pt")
        again = torch.load(f"{folder}/again.pt", weights_only=True)
    mapped = torch.load(file, weights_only=True, mmap=True)
    print(json.dumps({"same": equal(first, again) and equal(first, mapped), "heads": len(first["stats"]), "metadata": first["metadata"],
                      "sums": [float(sum(part.double().sum() for part in head.values())) for head in first["stats"].values()]}))


def loss(path, tokens, types):
    texts, told = json.loads(Path(tokens).read_text()), json.loads(Path(types).read_text())
    made = {}
    for name, overrides in (("as it is", {}), ("windows", told)):
        model = AutoModelForCausalLM.from_pretrained(path, config=AutoConfig.from_pretrained(path, **overrides), dtype=torch.float32).eval()
        with torch.no_grad():
            sums = [torch.nn.functional.cross_entropy(model(torch.tensor([text])).logits[0, :-1].double(), torch.tensor(text[1:]), reduction="sum")
                    for text in texts]
        made[name] = float(sum(sums)) / sum(len(text) - 1 for text in texts)
    print(json.dumps(made))


if __name__ == "__main__":
    {"make": make, "bridge": bridge, "load": load, "loss": loss}[sys.argv[1]](*sys.argv[2:])
