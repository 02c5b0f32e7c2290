# SPDX-License-Identifier: Apache-2.0
"""Texts as tokens, by the tokenizer of a model."""
from __future__ import annotations

import array
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from .._call import ArgumentError, DataError


REMEMBERED = 1 << 24  # tokens: 64 MiB


class Encoder:
    """Ids of a text, with the special ones that the tokenizer adds. Texts are gone through twice, to count and to run:
    of the first ones the ids are kept."""

    def __init__(self, tokenizer: Any) -> None:
        tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # of a processor
        if not callable(tokenizer):
            raise ArgumentError(f"tokenizer is a {type(tokenizer).__name__}; wanted is a tokenizer of transformers, as "
                                "AutoTokenizer.from_pretrained(name) gives")
        self.tokenizer = tokenizer
        self._known: dict[tuple[bytes, int], array.array[int]] = {}
        self._room = REMEMBERED

    def __call__(self, text: str, max_length: int = 0) -> Sequence[int]:
        key = (hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), max_length)
        known = self._known.get(key)
        if known is None:
            known = array.array("i", self.encode(text, max_length))
            if len(known) <= self._room:
                self._room -= len(known)
                self._known[key] = known
        return known

    def encode(self, text: str, max_length: int = 0, special: bool = True) -> list[int]:
        options: dict[str, Any] = {"add_special_tokens": special, "return_attention_mask": False, "verbose": False}
        if max_length > 0:
            options.update(truncation=True, max_length=max_length)
        try:
            return [int(i) for i in self.tokenizer(text, **options)["input_ids"]]
        except Exception as error:  # of a library in Rust, or of the tokenizer's own file
            raise DataError(f"{type(self.tokenizer).__name__} cannot encode a text of {len(text)} characters: "
                            f"{type(error).__name__}: {error}: give another tokenizer (--tokenizer)") from error

    def specials(self) -> tuple[int, int]:
        """How many ids stand before a text, and behind it."""
        whole, own = self.encode("a b"), self.encode("a b", special=False)
        for before in range(len(whole) - len(own) + 1):
            if whole[before:before + len(own)] == own:
                return before, len(whole) - len(own) - before
        raise DataError(f"{type(self.tokenizer).__name__} puts special tokens into a text, not round it: texts cannot "
                        "be split into windows. Give long_texts=\"cut\"")

    def ordinary(self) -> set[int]:
        """Ids that texts are made of: all but special tokens."""
        tokenizer = self.tokenizer
        added = getattr(tokenizer, "added_tokens_decoder", {})
        special = {i for i, token in added.items() if token.special} | set(getattr(tokenizer, "all_special_ids", ()))
        return {int(i) for i in tokenizer.get_vocab().values()} - special

    def fingerprint(self) -> int:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is not None and hasattr(backend, "to_str"):
            told = json.loads(backend.to_str())
            told["truncation"] = told["padding"] = None  # of the last call
            told = json.dumps(told, sort_keys=True)
        else:
            vocabulary = self.tokenizer.get_vocab() if hasattr(self.tokenizer, "get_vocab") else {}
            told = json.dumps([type(self.tokenizer).__name__, sorted(vocabulary.items()),
                               str(getattr(self.tokenizer, "special_tokens_map", ""))])
        side = getattr(self.tokenizer, "truncation_side", "right")
        return int.from_bytes(hashlib.blake2b((told + side).encode(), digest_size=8).digest(), "little")
