# SPDX-License-Identifier: Apache-2.0
"""Losses of tokens by transformers, for test_hf_losses.py:

    python tests/hf/hf_losses.py FOLDER MODEL ...

FOLDER/tokens.json: sequences of ids for each MODEL. FOLDER/losses.json: {MODEL: [sequence][token but the first]}, in float32."""
import json
import sys
from pathlib import Path

import torch
import transformers


def load(path):
    config = transformers.AutoConfig.from_pretrained(path)
    kind = getattr(transformers, (config.architectures or ["AutoModelForCausalLM"])[0])
    return kind.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()


def losses(model, tokens):
    ids = torch.tensor([tokens])
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits[0, :-1].double()
    return torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none").tolist()


def main(folder, *models):
    folder, found = Path(folder), {}
    given = json.loads((folder / "tokens.json").read_text())
    for path in models:
        model = load(path)
        found[path] = [losses(model, tokens) for tokens in given[path]]
    (folder / "losses.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
