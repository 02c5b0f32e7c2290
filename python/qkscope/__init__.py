# SPDX-License-Identifier: Apache-2.0
"""Position and content in the query-key space of attention heads."""
from typing import TYPE_CHECKING

from ._call import (ArgumentError, Cancelled, DataError, Error, ExistsError, InputOutputError, NotFoundError,
                    PartialError, ffi, lib)
from ._compare import side_by_side
from ._run import PartialWarning, QkscopeWarning
from .analyses import ablate, analyze, attention, compare, compare_stages, loss, pca, plasticity, rotate, study
from .captures import Block, Capture, CaptureInfo, Head, open
from .export import export
from .export.calibrate import Calibration, calibrate
from .figures import Figure, Report
from .inspection import HeadInspection, Inspection, inspect
from .merging import Outcome, find_shard, merge
from .outcomes import Export, Losses, PositionLoss, TextLoss
from .push import Push, push
from .results import Forecast, Results
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


def __dir__() -> list[str]:
    return sorted([*__all__, "hf", "ray", "__version__"])


__version__ = ffi.string(lib.qk_version()).decode()
__all__ = ["ArgumentError", "Block", "Calibration", "Cancelled", "Capture", "CaptureInfo", "DataError", "Error", "ExistsError",
           "Export", "Figure", "Forecast", "Head", "HeadInspection", "InputOutputError", "Inspection", "Losses", "Model",
           "NotFoundError", "Outcome", "PartialError", "PartialWarning", "PositionLoss", "Push", "QkscopeWarning", "Report",
           "Results", "Sampler", "Sink", "Table", "TextLoss", "ablate", "analyze", "attention", "calibrate", "compare",
           "compare_stages", "example_id", "export", "find_shard", "inspect", "loss", "merge", "open", "pca",
           "plasticity", "push", "rotate", "side_by_side", "study", "write_capture"]
