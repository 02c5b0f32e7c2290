# SPDX-License-Identifier: Apache-2.0
"""Queries, keys and losses by transformers, for test_hf_configs.py:

    python tests/hf/hf_configs.py FOLDER

Each FOLDER/*/config.json is a model. Its out.npz holds `LAYER.q_pre`, `q_post`, `k_pre`, `k_post` and `losses` of the ids in
FOLDER/tokens.json, in float32; its type.txt the class, or why there is none."""
import json
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))
from hf_losses import losses
from make_model_golden import watch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, logging


def main(folder):
    folder = Path(folder)
    tokens = json.loads((folder / "tokens.json").read_text())
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    for config in sorted(folder.glob("*/config.json")):
        try:
            kind = AutoModelForImageTextToText if "text_config" in json.loads(config.read_text()) else AutoModelForCausalLM
            model = kind.from_pretrained(config.parent, dtype=torch.float32, attn_implementation="eager").eval()
            seen, restore = watch(model)
            found = losses(model, tokens)
            restore()
        except (ValueError, KeyError, TypeError, RuntimeError, AssertionError) as fault:
            (config.parent / "type.txt").write_text(f"{type(fault).__name__}: {fault}")
            continue
        np.savez(config.parent / "out.npz", losses=found, **{name: rows.numpy() for name, rows in seen.items()})
        (config.parent / "type.txt").write_text(type(model).__name__)


if __name__ == "__main__":
    main(sys.argv[1])
