# SPDX-License-Identifier: Apache-2.0
"""Captures of Hugging Face transformers models, on whatever device they are.

    from qkscope.hf import capture
    with qkscope.Sink("out", keep="moments,reservoir=8") as sink:
        capture(model, tokenizer, texts, sink)

`ablate` says what such a model loses without a head.
"""
from .ablate import ablate
from .bridge import capture

__all__ = ["ablate", "capture"]
