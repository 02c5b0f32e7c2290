# SPDX-License-Identifier: Apache-2.0
"""Makes tests/prefill/golden/: a tiny random checkpoint of every architecture, and the queries and
keys that Hugging Face transformers computes from it in float32 with eager attention.

    pip install torch==2.9.1 transformers==5.1.0 safetensors
    python tools/make_model_golden.py [CASE ...]

Each case is a folder as a checkpoint lies on disk (config.json, model.safetensors) and
golden.safetensors: input_ids, the rows that were kept, and for every layer l and kind q or k
`l.q_pre`, `l.q_post`, ...: [rows, heads, head_dim] before and after RoPE (and query scaling).
Weights are drawn large enough for attention to matter, biases and norms away from 0 and 1."""
import json
import shutil
import sys
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.mllama.configuration_mllama import MllamaTextConfig

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "prefill" / "golden"
TOKENS, KEPT = 100, [0, 1, 15, 19, 20, 31, 32, 47, 63, 64, 80, 99]
SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=56, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, head_dim=16,
             max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def rope(kind="default", theta=10000.0, **parameters):
    return {"rope_type": kind, "rope_theta": theta, **parameters}


YARN = rope("yarn", 1e6, factor=4.0, original_max_position_embeddings=32)
LLAMA3 = rope("llama3", 5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
LONG = rope("longrope", 1e4, factor=4.0, original_max_position_embeddings=64,
            short_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 2.0, 2.5],
            long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 12.0])
PROPORTIONAL = rope("proportional", 1e4, partial_rotary_factor=0.25)
FULL, SLIDING = "full_attention", "sliding_attention"

# name: class, what differs from SMALL, how the weights are stored, length of the text
CASES = {
    "llama": ("Llama", dict(rope_parameters=rope(), num_hidden_layers=3), torch.float32, TOKENS),
    "llama-bias": ("Llama", dict(rope_parameters=rope(), attention_bias=True, mlp_bias=True,
                                 num_key_value_heads=4, hidden_size=28, intermediate_size=270,
                                 head_dim=10), torch.bfloat16, TOKENS),
    "llama-linear": ("Llama", dict(rope_parameters=rope("linear", factor=4.0)), torch.float16,
                     TOKENS),
    "llama-dynamic": ("Llama", dict(rope_parameters=rope("dynamic", factor=2.0),
                                    max_position_embeddings=48), torch.bfloat16, TOKENS),
    "llama-llama3": ("Llama", dict(rope_parameters=LLAMA3), torch.bfloat16, TOKENS),
    "llama-yarn": ("Llama", dict(rope_parameters=YARN), torch.bfloat16, TOKENS),
    "llama-longrope": ("Llama", dict(rope_parameters=LONG), torch.bfloat16, TOKENS),
    "llama-longrope-short": ("Llama", dict(rope_parameters=LONG), torch.bfloat16, 60),
    "llama-proportional": ("Llama", dict(rope_parameters=PROPORTIONAL), torch.bfloat16, TOKENS),
    "mistral": ("Mistral", dict(rope_parameters=rope(theta=1e6), sliding_window=20,
                                num_hidden_layers=3), torch.bfloat16, TOKENS),
    "ministral": ("Ministral", dict(rope_parameters=rope(theta=1e6), sliding_window=20, num_hidden_layers=3,
                                    layer_types=[SLIDING, FULL, SLIDING]), torch.bfloat16,
                  TOKENS),
    "ministral3": ("Ministral3", dict(rope_parameters=rope(
        "yarn", 1e6, factor=16.0, original_max_position_embeddings=32, beta_fast=32.0,
        beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
        torch.bfloat16, TOKENS),
    "qwen2": ("Qwen2", dict(rope_parameters=rope(theta=1e6), head_dim=None,
                            num_hidden_layers=3), torch.bfloat16, TOKENS),
    "qwen3": ("Qwen3", dict(rope_parameters=YARN, num_hidden_layers=3), torch.bfloat16, TOKENS),
    "smollm3": ("SmolLM3", dict(rope_parameters=rope(theta=2e6), num_hidden_layers=4,
                                no_rope_layers=[1, 0, 1, 0], use_sliding_window=True,
                                sliding_window=20,
                                layer_types=[FULL, FULL, SLIDING, FULL]), torch.bfloat16,
                TOKENS),
    "glm": ("Glm", dict(rope_parameters={**rope(), "partial_rotary_factor": 0.5},
                        attention_bias=True, num_hidden_layers=3), torch.bfloat16, TOKENS),
    "glm4": ("Glm4", dict(rope_parameters={**rope(), "partial_rotary_factor": 0.5},
                          num_hidden_layers=3),
             torch.bfloat16, TOKENS),
    "gemma3": ("Gemma3", dict(num_hidden_layers=4, sliding_window=20, query_pre_attn_scalar=24,
                              layer_types=[SLIDING, FULL, SLIDING, FULL],
                              rope_parameters={
                                  FULL: rope("linear", 1e6, factor=8.0),
                                  SLIDING: rope()}), torch.bfloat16, TOKENS),
    "mllama": ("Mllama", dict(rope_parameters=LLAMA3, num_hidden_layers=5, head_dim=None,
                              num_attention_heads=2, num_key_value_heads=1,
                              cross_attention_layers=[1, 3]), torch.bfloat16, TOKENS),
}
TEXT_CONFIG = {"Gemma3": transformers.Gemma3TextConfig, "Mllama": MllamaTextConfig}
# Multimodal checkpoints as they lie on the Hub: the text model's part of config.json, the names
# of its tensors.
NESTED = {"mllama": "mllama", "ministral3": "mistral3"}
# Also computed in bfloat16, with scaled dot product attention: `bf16.l.q_pre`, ...
BF16 = ("llama-yarn", "ministral3", "qwen3", "glm4", "gemma3")


def draw_weights(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.ndim == 1:
            around = 0.0 if name.endswith("bias") or "Gemma3" in type(model).__name__ else 1.0
            weight.data = around + 0.3 * noise
        elif "embed_tokens" in name:
            weight.data = noise
        else:
            weight.data = 1.5 * noise / weight.shape[1] ** 0.5


def watch(model):
    """Queries and keys of each layer, as they enter rotation and as they enter attention."""
    module = sys.modules[type(model.get_decoder()).__module__]
    rotate, eager = module.apply_rotary_pos_emb, module.eager_attention_forward
    sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]
    pending, seen = [], {}

    def watched_rotate(q, k, *rest, **named):
        pending.append((q.clone(), k.clone()))
        return rotate(q, k, *rest, **named)

    def watched(attend):
        def call(layer, q, k, *rest, **named):
            before = pending.pop() if pending else (q, k)  # a layer without rotation
            for kind, pre, post in (("q", before[0], q), ("k", before[1], k)):
                seen[f"{layer.layer_idx}.{kind}_pre"] = pre[0].transpose(0, 1)
                seen[f"{layer.layer_idx}.{kind}_post"] = post[0].transpose(0, 1)
            return attend(layer, q, k, *rest, **named)
        return call

    module.apply_rotary_pos_emb = watched_rotate
    module.eager_attention_forward = watched(eager)
    ALL_ATTENTION_FUNCTIONS["sdpa"] = watched(sdpa)

    def restore():
        module.apply_rotary_pos_emb, module.eager_attention_forward = rotate, eager
        ALL_ATTENTION_FUNCTIONS["sdpa"] = sdpa

    return seen, restore


def run(model_class, folder, tokens, dtype, attention):
    model = model_class.from_pretrained(folder, dtype=dtype, attn_implementation=attention).eval()
    seen, restore = watch(model)
    with torch.no_grad():
        model.model(input_ids=tokens, use_cache=False)
    restore()
    return seen


def nest(folder, model_type):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(
        {"architectures": config.pop("architectures"), "model_type": model_type,
         "text_config": config}, indent=1, sort_keys=True) + "\n")
    tensors = load_file(folder / "model.safetensors")
    save_file({f"language_model.{name}": value for name, value in tensors.items()},
              folder / "model.safetensors", metadata={"format": "pt"})


def old_form(folder):
    """Rotation as configs before transformers 5 give it."""
    config = json.loads((folder / "config.json").read_text())
    parameters = config.pop("rope_parameters")
    config["rope_theta"] = parameters.pop("rope_theta")
    config["rope_scaling"] = {"type": parameters.pop("rope_type"), **parameters}
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def make(name):
    family, changes, dtype, length = CASES[name]
    settings = {k: v for k, v in {**SMALL, **changes}.items() if v is not None}
    config_class = TEXT_CONFIG.get(family) or getattr(transformers, family + "Config")
    model_class = getattr(transformers, family + "ForCausalLM")
    model = model_class(config_class(**settings))
    draw_weights(model, sum(map(ord, name)))
    folder = GOLDEN / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as saved:
        model.to(dtype).save_pretrained(saved)
        (folder / "config.json").write_bytes((Path(saved) / "config.json").read_bytes())
        tensors = load_file(Path(saved) / "model.safetensors")
        skip = ("lm_head.", "cross_attn")
        save_file({k: v for k, v in tensors.items() if not any(s in k for s in skip)},
                  folder / "model.safetensors", metadata={"format": "pt"})
        if name == "llama-linear":
            old_form(folder)
            shutil.copy(folder / "config.json", saved)
        tokens = torch.randint(3, settings["vocab_size"], (1, length),
                               generator=torch.Generator().manual_seed(1))
        seen = run(model_class, saved, tokens, torch.float32, "eager")
        if name in BF16:
            half = run(model_class, saved, tokens, torch.bfloat16, "sdpa")
            seen.update({f"bf16.{key}": value for key, value in half.items()})
    rows = [row for row in KEPT if row < length] + ([length - 1] if length < TOKENS else [])
    golden = {key: value[rows].contiguous() for key, value in seen.items()}
    golden["input_ids"] = tokens[0].to(torch.int32)
    golden["rows"] = torch.tensor(rows, dtype=torch.int32)
    versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    save_file(golden, folder / "golden.safetensors", metadata=versions)
    if name in NESTED:
        nest(folder, NESTED[name])
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{name}: {size / 1024:.0f} KiB")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for case in sys.argv[1:] or CASES:
        make(case)
