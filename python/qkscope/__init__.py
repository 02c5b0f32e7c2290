# SPDX-License-Identifier: Apache-2.0
"""Position and content in the query-key space of attention heads."""
from ._call import (ArgumentError, Cancelled, DataError, Error, ExistsError, InputOutputError, NotFoundError,
                    PartialError, ffi, lib)
from ._compare import compare
from ._run import PartialWarning, QkscopeWarning
from .analyses import analyze, compare_stages, pca, plasticity, rotate, study
from .figures import Figure, Report
from .results import Results
from .tables import Table

__version__ = ffi.string(lib.qk_version()).decode()
__all__ = ["ArgumentError", "Cancelled", "DataError", "Error", "ExistsError", "Figure", "InputOutputError", "NotFoundError",
           "PartialError", "PartialWarning", "QkscopeWarning", "Report", "Results", "Table", "analyze", "compare",
           "compare_stages", "pca", "plasticity", "rotate", "study"]
