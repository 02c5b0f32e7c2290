# SPDX-License-Identifier: Apache-2.0
"""Position and content in the query-key space of attention heads."""
from ._call import (ArgumentError, Cancelled, DataError, Error, ExistsError, InputOutputError, NotFoundError,
                    PartialError, ffi, lib)

__version__ = ffi.string(lib.qk_version()).decode()
__all__ = ["ArgumentError", "Cancelled", "DataError", "Error", "ExistsError", "InputOutputError", "NotFoundError",
           "PartialError"]
