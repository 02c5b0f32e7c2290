# SPDX-License-Identifier: Apache-2.0
"""Position and content in the query-key space of attention heads."""
from typing import TYPE_CHECKING

from ._call import (ArgumentError, Cancelled, DataError, Error, ExistsError, InputOutputError, NotFoundError,
                    PartialError, ffi, lib)
from ._compare import compare
from ._run import PartialWarning, QkscopeWarning
from .analyses import analyze, attention, compare_stages, comparison, pca, plasticity, rotate, study
from .captures import Block, Capture, CaptureInfo, Head, open
from .figures import Figure, Report
from .inspection import HeadInspection, Inspection, inspect
from .making import repack, synth
from .merging import Outcome, find_shard, merge
from .results import Results
from .sampler import Sampler, example_id
from .sink import Model, Sink
from .tables import Table
from .writing import write_capture

if TYPE_CHECKING:
    from . import hf as hf
    from . import ray as ray
else:
    def __getattr__(name):
        """What needs libraries of others is imported when it is asked for, such as on a worker of Ray, where a
        function comes without the imports of the program it is from."""
        if name in ("hf", "ray"):
            import importlib
            return importlib.import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

__version__ = ffi.string(lib.qk_version()).decode()
__all__ = ["ArgumentError", "Block", "Cancelled", "Capture", "CaptureInfo", "DataError", "Error", "ExistsError",
           "Figure", "Head", "HeadInspection", "InputOutputError", "Inspection", "Model", "NotFoundError",
           "Outcome", "PartialError", "PartialWarning", "QkscopeWarning", "Report", "Results", "Sampler", "Sink",
           "Table", "analyze", "attention", "compare", "compare_stages", "comparison", "example_id", "find_shard", "inspect", "merge", "open",
           "pca", "plasticity", "repack", "rotate", "study", "synth", "write_capture"]
