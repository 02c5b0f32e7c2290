# SPDX-License-Identifier: Apache-2.0
"""Position and content in the query-key space of attention heads."""
from ._call import (ArgumentError, Cancelled, DataError, Error, ExistsError, InputOutputError, NotFoundError,
                    PartialError, ffi, lib)

from ._notices import QkscopeWarning
from .sampler import Sampler, example_id
from .sink import Model, Outcome, Sink, find_shard, merge

__version__ = ffi.string(lib.qk_version()).decode()
__all__ = ["ArgumentError", "Cancelled", "DataError", "Error", "ExistsError", "InputOutputError", "Model",
           "NotFoundError", "Outcome", "PartialError", "QkscopeWarning", "Sampler", "Sink", "example_id", "find_shard",
           "merge"]
