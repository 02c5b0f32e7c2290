# SPDX-License-Identifier: Apache-2.0
"""Trains a small Llama-style model on a text file, byte by byte, and saves checkpoints in Hugging Face
form: how the models of examples/kjv-tiny came about, so that nobody has to take them on faith.

    pip install torch safetensors
    python tools/train_example.py bible.txt -o kjv-tiny --save 20 100 700 1400 2004

The last 5 % of the text are kept back and measured at each checkpoint. About 20 minutes on two cores."""
import argparse
import json
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128,
    "intermediate_size": 344, "num_hidden_layers": 5, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 256,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "rope_scaling": None, "attention_bias": False, "mlp_bias": False, "hidden_act": "silu",
    "tie_word_embeddings": True,
}
SEQUENCES, WARM_UP, PEAK_RATE, LAST_SHARE = 4, 50, 1.5e-3, 0.1


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, x.shape[-1:], self.weight, CONFIG["rms_norm_eps"])


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        size, self.d = CONFIG["hidden_size"], CONFIG["head_dim"]
        self.q_heads, self.k_heads = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
        self.q_proj = nn.Linear(size, self.q_heads * self.d, bias=False)
        self.k_proj = nn.Linear(size, self.k_heads * self.d, bias=False)
        self.v_proj = nn.Linear(size, self.k_heads * self.d, bias=False)
        self.o_proj = nn.Linear(self.q_heads * self.d, size, bias=False)

    def heads(self, x, projection, count):
        return projection(x).view(*x.shape[:2], count, self.d).transpose(1, 2)

    def forward(self, x, cos, sin):
        q = rotate(self.heads(x, self.q_proj, self.q_heads), cos, sin)
        k = rotate(self.heads(x, self.k_proj, self.k_heads), cos, sin)
        v = self.heads(x, self.v_proj, self.k_heads)
        group = self.q_heads // self.k_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(seen.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        size, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.self_attn = Norm(CONFIG["hidden_size"]), Attention()
        self.post_attention_layernorm, self.mlp = Norm(CONFIG["hidden_size"]), Mlp()

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    """Its parameters have the names of a Hugging Face checkpoint, behind "model."."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = Norm(CONFIG["hidden_size"])
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, 0, 0.02 / (math.sqrt(2 * len(self.layers)) if deep else 1))

    def forward(self, tokens):
        cos, sin = angles(tokens.shape[1])
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.embed_tokens.weight)


def angles(length):
    d = CONFIG["head_dim"]
    frequencies = CONFIG["rope_theta"] ** (-torch.arange(0, d, 2).float() / d)
    a = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
    return a.cos(), a.sin()


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def loss_of(model, batch):
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def measure(model, text, length):
    pieces = text[:len(text) // (length + 1) * (length + 1)].view(-1, length + 1)[:32]
    return sum(loss_of(model, piece[None]).item() for piece in pieces) / len(pieces)


def rate(step, steps):
    if step < WARM_UP:
        return PEAK_RATE * (step + 1) / WARM_UP
    done = (step - WARM_UP) / max(1, steps - WARM_UP)
    return PEAK_RATE * (LAST_SHARE + (1 - LAST_SHARE) * 0.5 * (1 + math.cos(math.pi * done)))


def tokenizer():
    """One token a byte: byte-level BPE without merges, in the alphabet of GPT-2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(b if b in plain else next(others)) for b in range(256)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": level, "post_processor": None,
            "decoder": {**level, "add_prefix_space": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": None,
                      "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {letter: i for i, letter in enumerate(letters)}, "merges": []}}


def save(model, folder, dtype):
    folder.mkdir(parents=True)
    weights = {f"model.{name}": weight.detach().to(dtype).contiguous()
               for name, weight in model.named_parameters()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**CONFIG, "torch_dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(), ensure_ascii=False) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2004)
    parser.add_argument("--save", type=int, nargs="+", default=[20, 100, 700, 2004])
    parser.add_argument("--length", type=int, default=CONFIG["max_position_embeddings"])
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.manual_seed(given.seed)
    text = torch.frombuffer(bytearray(given.text.read_bytes()), dtype=torch.uint8).long()
    kept_back = text[len(text) * 19 // 20:]
    text = text[:len(text) * 19 // 20]
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.95), weight_decay=0.05)
    for step in range(given.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, given.steps)
        starts = torch.randint(len(text) - given.length - 1, (SEQUENCES,))
        loss = loss_of(model, torch.stack([text[s:s + given.length + 1] for s in starts]))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step + 1 in given.save:
            save(model, given.output / f"step-{step + 1}", getattr(torch, given.dtype))
            print(f"step {step + 1}: loss {loss.item():.3f}, on the text kept back "
                  f"{measure(model, kept_back, given.length):.3f} nats a byte", flush=True)


if __name__ == "__main__":
    main()
