# SPDX-License-Identifier: Apache-2.0
"""Scores of TransformerLens' head detector for test_hf_lens.py: it loads the model and computes its attention itself.

    python tests/hf/hf_lens.py MODEL FOLDER

FOLDER/tokens.json: texts as lists of ids. FOLDER/scores.json: {name: [text][layer][head]}; null: it is not installed."""
import json
import os
import sys
from pathlib import Path

os.environ |= {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"}
import torch  # noqa: E402

NAMES = ("previous_token_head", "duplicate_token_head", "induction_head")


def scores(model, texts):
    from transformer_lens.head_detector import detect_head
    from transformer_lens.model_bridge import TransformerBridge
    lens = TransformerBridge.boot_transformers(model, device="cpu", dtype=torch.float32)
    found = {name: [] for name in NAMES}
    for text in texts:
        ids = torch.tensor([text])
        object.__setattr__(lens, "to_tokens", lambda *_, ids=ids, **__: ids)  # it is given texts alone
        _, cache = lens.run_with_cache(ids, remove_batch_dim=True)
        for name in NAMES:
            found[name].append(detect_head(lens, "these tokens", name, cache=cache).tolist())
    return found


def main(model, folder):
    folder = Path(folder)
    try:
        import transformer_lens  # noqa: F401
    except ImportError:
        found = None
    else:
        found = scores(model, json.loads((folder / "tokens.json").read_text()))
    (folder / "scores.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
