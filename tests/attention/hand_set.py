# SPDX-License-Identifier: Apache-2.0
"""Llamas whose weights are set by hand, without MLPs: it is known what each head does."""
import json
import shutil

import numpy as np
from conftest import ROOT
from safetensors.numpy import save_file

TOKENIZER = ROOT / "examples" / "kjv-tiny" / "step-2004" / "tokenizer.json"  # of bytes


def vocabulary():
    """{letter: id}"""
    return json.loads(TOKENIZER.read_text())["model"]["vocab"]


def write_llama(folder, layers, embedding, base, output=None):
    """layers: of each its heads' (q, k, v), [dim][hidden], and what becomes of all heads' outputs, [hidden][heads * dim]. The
    norms before them keep a vector's direction. output: rows of words; without, the embedding's."""
    hidden, heads = embedding.shape[1], len(layers[0][0])
    tensors = {"model.embed_tokens.weight": embedding, "model.norm.weight": np.ones(hidden)}
    for number, (of_heads, out) in enumerate(layers):
        name = f"model.layers.{number}."
        q, k, v = (np.vstack(parts) for parts in zip(*of_heads, strict=True))
        tensors |= {name + "self_attn.q_proj.weight": q, name + "self_attn.k_proj.weight": k, name + "self_attn.v_proj.weight": v,
                    name + "self_attn.o_proj.weight": out,
                    name + "input_layernorm.weight": np.ones(hidden), name + "post_attention_layernorm.weight": np.ones(hidden),
                    name + "mlp.gate_proj.weight": np.zeros((8, hidden)), name + "mlp.up_proj.weight": np.zeros((8, hidden)),
                    name + "mlp.down_proj.weight": np.zeros((hidden, 8))}
    if output is not None:
        tensors["lm_head.weight"] = output
    folder.mkdir()
    shutil.copy(TOKENIZER, folder)
    save_file({name: np.ascontiguousarray(t, np.float32) for name, t in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": 8,
         "num_hidden_layers": len(layers), "num_attention_heads": heads, "num_key_value_heads": heads,
         "head_dim": len(layers[0][0][0][0]), "vocab_size": len(embedding), "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
         "rope_theta": base, "hidden_act": "silu", "tie_word_embeddings": output is None, "torch_dtype": "float32"}))
