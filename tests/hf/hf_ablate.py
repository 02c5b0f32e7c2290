# SPDX-License-Identifier: Apache-2.0
"""What qkscope.hf.ablate says of models, and what it refuses, for test_hf_ablate.py:

    python tests/hf/hf_ablate.py FOLDER MODEL ...

FOLDER/jobs.json: {"texts": [...], "what": "...", "max_length": N}. FOLDER/rows.json: {implementation: {MODEL: rows}};
FOLDER/checks.json: {name: what was raised or found}."""
import json
import sys
from pathlib import Path

import torch
import transformers
from hf_losses import load

from qkscope.hf import ablate

TINY = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64)
IDS = [[(7 * i + i * i) % 64 for i in range(n)] for n in (30, 41, 25)]

# Part of a head is rotated; pairs side by side; sinks that are no keys, and windows; queries and keys of two parts.
KINDS = {"gpt_neox": {}, "phi": {}, "cohere": dict(num_key_value_heads=2, logit_scale=1.0),
         "gpt_oss": dict(num_key_value_heads=2, head_dim=8, num_local_experts=2, num_experts_per_tok=1, sliding_window=9),
         "deepseek_v3": dict(q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=5, first_k_dense_replace=9)}


def made(kind, base=False, **more):
    """A model of random numbers, large ones, so that heads matter."""
    torch.manual_seed(3)
    config = transformers.AutoConfig.for_model(kind, **{**TINY, **more})
    model = (transformers.AutoModel if base else transformers.AutoModelForCausalLM).from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4 if weight.dim() > 1 else 1)
    return model


def raised(function):
    try:
        function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def nothing(kind, **more):
    """The largest effect of changes that change nothing, and the smallest of those that do."""
    model = made(kind, **more)
    rows = ablate(model, None, IDS, "window:64,freeze:>1e9,remove,uniform,profile,window:3:1,no-sink,freeze")
    least = [min(abs(t["drift"]) for t in row["texts"]) for row in rows if row["what"] not in ("window:64", "freeze:>1e9")]
    return [max(abs(row["delta"]) + abs(row["drift"]) for row in rows if row["what"] in ("window:64", "freeze:>1e9")), min(least)]


def positions(kind, **more):
    """Losses of a model of one head: without its rotation, and where all tokens stand at position 0."""
    model = made(kind, **{**more, "num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1})
    row, = ablate(model, None, IDS[:1], "freeze")
    ids = torch.tensor(IDS[:1])
    with torch.no_grad():
        logits = model(input_ids=ids, position_ids=0 * ids, attention_mask=ids >= 0, use_cache=False).logits[0, :-1]
    return [row["loss"], row["loss"] + row["delta"], float(torch.nn.functional.cross_entropy(logits.double(), ids[0, 1:]))]


def checks():
    bert, llama = made("bert", is_decoder=False), made("llama")
    return {
        "bidirectional": raised(lambda: ablate(bert, None, IDS)),
        "encoder-decoder": raised(lambda: ablate(transformers.T5ForConditionalGeneration(transformers.T5Config(
            vocab_size=64, d_model=32, d_kv=8, d_ff=32, num_layers=1, num_heads=4)).eval(), None, IDS)),
        "own attention": raised(lambda: ablate(transformers.AutoModelForCausalLM.from_config(transformers.BloomConfig(
            vocab_size=64, hidden_size=32, n_layer=2, n_head=4)).eval(), None, IDS)),
        "no logits": raised(lambda: ablate(made("llama", base=True), None, IDS)),
        "word": raised(lambda: ablate(llama, None, IDS, "melt")),
        "band": raised(lambda: ablate(llama, None, IDS, "freeze:9-x")),
        "heads": raised(lambda: ablate(llama, None, IDS, heads="0:1,7:*")),
        "one text": raised(lambda: ablate(llama, None, IDS[:1], "profile")),
        "training": raised(lambda: ablate(made("llama").train(), None, IDS)),
        "one head": [[row["layer"], row["q_head"], row["what"], row["tokens"], len(row["texts"])] for row in
                     ablate(llama, None, [*IDS, [1], []], "remove,no-sink", heads=[(1, 2), (0, 3)])],
        "nothing": {kind: nothing(kind, **more) for kind, more in KINDS.items()},
        "positions": {kind: positions(kind, **more) for kind, more in KINDS.items()}}


def main(folder, *models):
    folder = Path(folder)
    given, found = json.loads((folder / "jobs.json").read_text()), {}
    for name in ("eager", "sdpa"):
        found[name] = {}
        for path in models:
            model = load(path)
            model.set_attn_implementation(name)
            tokenizer = transformers.AutoTokenizer.from_pretrained(path)
            found[name][path] = ablate(model, tokenizer, given["texts"], given["what"], max_length=given["max_length"])
    (folder / "rows.json").write_text(json.dumps(found))
    (folder / "checks.json").write_text(json.dumps(checks()))


if __name__ == "__main__":
    main(*sys.argv[1:])
