# SPDX-License-Identifier: Apache-2.0
"""Which positions a capture keeps, and what texts are called."""
from __future__ import annotations

import array
import operator
from dataclasses import dataclass
from typing import Any

from . import _arrays
from ._call import ArgumentError, call, ffi, lib, text
from ._checks import refuse, whole, words

KINDS = {"q": 0, "k": 1}


def kind_of(kind: str) -> int:
    """0 of "q", 1 of "k"."""
    try:
        return KINDS[kind]
    except (KeyError, TypeError):
        raise ArgumentError(f"kind is {kind!r}; wanted is 'q' (queries) or 'k' (keys)") from None


def list_of_positions(found: Any, count: int) -> memoryview:
    """What a function of C has allocated, as a memoryview of int64 that frees it."""
    if count == 0:
        return memoryview(array.array("q"))
    owned = ffi.gc(found, lib.free, 8 * count)
    return memoryview(ffi.buffer(owned, 8 * count)).cast("q")


@dataclass(frozen=True)
class Sampler:
    """Which positions of a text are kept: bit for bit those of `qkscope capture`. docs/capture.md#positions

    type             "log_uniform" (buckets double in size), "uniform" (of one size) or "all" (every position)
    base_rate        positions a bucket, more or less; above 0; "all" needs none
    min_bucket_size  in tokens, 1 to 2^40; "log_uniform" rounds up to a power of two
    max_rows         at most so many of a text, layer and kind; 0: no limit

    What is kept depends on the text's id, the layer, the kind and the position alone.

        >>> Sampler("uniform", base_rate=2, min_bucket_size=64).positions(17, 0, "q", 200).tolist()
    """

    type: str = "all"
    base_rate: float = 1.0
    min_bucket_size: int = 128
    max_rows: int = 0

    def __post_init__(self) -> None:
        made = self._struct()
        call(lib.qk_sampler_check, made)

    def _struct(self) -> Any:
        """A qk_sampler *."""
        made = ffi.new("qk_sampler *")
        kind = ffi.new("qk_sampler_type *")
        if not lib.qk_sampler_type_parse(words(str(self.type), "type").encode(), kind):
            raise ArgumentError(f"sampler type {self.type!r} is none of log_uniform, uniform, all")
        made.type, made.base_rate = kind[0], self.base_rate
        made.min_bucket_size, made.max_rows = self.min_bucket_size, self.max_rows
        return made

    @property
    def bucket_size(self) -> int:
        """The size that is used: min_bucket_size, rounded up by "log_uniform"."""
        return int(lib.qk_sampler_bucket_size(self._struct()))

    def bucket(self, position: int) -> int:
        """The bucket of a position."""
        return int(lib.qk_sampler_bucket(self._struct(), whole(position, "position", 0)))

    def buckets(self, positions: Any) -> memoryview:
        """The buckets of many positions, as a memoryview of int64."""
        keep, found, count = _arrays.int64s(positions, "positions")
        least = min(ffi.unpack(found, count), default=0)
        if least < 0:
            raise refuse("positions", f"an array with {least}", "numbers of at least 0", "count tokens from 0")
        made = array.array("q", bytes(8 * count))
        lib.qk_sampler_buckets(self._struct(), found, count, ffi.from_buffer("int64_t[]", made))
        return memoryview(made)

    def positions(self, example_id: int, layer: int, kind: str, tokens: int, first_head: int = 0) -> memoryview:
        """Positions kept of 0 .. tokens - 1, as a memoryview of int64 (numpy.asarray and torch.frombuffer take it).

        They ascend, unless max_rows cut them. first_head: the lowest captured head of the layer and kind, which
        decides what max_rows cuts."""
        at = whole(example_id, "example_id"), whole(layer, "layer", 0, 2**31 - 1), kind_of(kind)
        found, count = ffi.new("int64_t **"), ffi.new("size_t *")
        call(lib.qk_sampler_positions, self._struct(), *at, whole(first_head, "first_head", 0, 2**31 - 1),
             whole(tokens, "tokens", 0), found, count)
        return list_of_positions(found[0], count[0])

    def __str__(self) -> str:
        name = text(lib.qk_sampler_type_name(self._struct().type))
        return f"{name}, {self.base_rate:g} of {self.bucket_size}"


def example_id(value: Any) -> int:
    """The id of a text, as captures have it: an integer of 64 bits is itself, True is 1, a whole float its integer;
    what else a data set may call its texts is hashed (BLAKE2b of 8 bytes), None as "None".

        >>> example_id("a text of its own name")
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is not None and -2**63 <= number < 2**63:
        return number
    if isinstance(value, float):
        return int(lib.qk_example_id_of_number(value))
    data = str(value).encode("utf-8", "surrogatepass")
    return int(lib.qk_example_id_of_text(data, len(data)))
