# SPDX-License-Identifier: Apache-2.0
"""Files as other libraries read them: arrays as safetensors, JSON, numbers as text; all of them appear or none."""
from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .._arrays import need_numpy
from .._call import DataError, ExistsError, ffi, files_of, lib
from ..outcomes import Export
from .._checks import path_of
from ._request import Made, Request

TENSORS, CONFIG = "model.safetensors", "config.json"  # as PyTorchModelHubMixin names them


# ---- contents -----------------------------------------------------------------------------

def float32(values: Any, head: str) -> Any:
    """Numbers of a head as they are written."""
    numpy = need_numpy()
    with numpy.errstate(over="ignore"):
        made = numpy.asarray(values).astype("<f4")
    wrong = numpy.flatnonzero(~numpy.isfinite(made))
    if wrong.size:
        raise DataError(f"{head}: {numpy.ravel(values)[wrong[0]]:g} is no number that float32 has: scale the vectors")
    return made


def tensors(arrays: dict[str, Any], made_from: dict[str, Any]) -> list[Any]:
    """Of float32. Safetensors: eight bytes of length, a JSON object that spaces bring to a multiple of 8, the arrays."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt", "qkscope": json.dumps(made_from)}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, end]}
    told = json.dumps(header, separators=(",", ":")).encode()
    told += b" " * (-len(told) % 8)
    return [len(told).to_bytes(8, "little"), told, *(memoryview(array).cast("B") for array in arrays.values())]


def config(values: dict[str, Any]) -> list[Any]:
    return [(json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "replace")]


def origin(**facts: Any) -> dict[str, Any]:
    """What a file was made from, for whoever finds it; what is not known is left out."""
    return {"program": f"qkscope {ffi.string(lib.qk_version()).decode()}", **{name: fact for name, fact in facts.items() if fact != ""}}


def number(value: float) -> str:
    """The shortest text that is read back as the number."""
    return str(int(value)) if value == int(value) else repr(float(value))


# ---- places -------------------------------------------------------------------------------

def _refuse(place: Path) -> ExistsError:
    error = ExistsError(f"{place}: is there already: give another folder, or --force to replace it")
    error.status = "QK_ERR_EXISTS"
    return error


def check_place(folder: Path, names: tuple[str, ...], force: bool) -> None:
    """config.json and model.safetensors may be those of a model."""
    for name in names:
        if not force and os.path.lexists(folder / name):
            raise _refuse(folder / name)


def _take(file: Path, place: Path) -> None:
    """Moves a file to where nothing is: FileExistsError."""
    try:
        os.link(file, place)
    except FileExistsError:
        raise
    except OSError:  # there are file systems without links
        place.open("xb").close()
        os.replace(file, place)


def _take_all(beside: Path, folder: Path, names: Iterable[str]) -> None:
    """Where another program has made a file since they were looked for, none of these stays."""
    made: list[Path] = []
    try:
        for name in names:
            try:
                _take(beside / name, folder / name)
            except FileExistsError:
                raise _refuse(folder / name) from None
            made.append(folder / name)
    except BaseException:
        for place in made:
            place.unlink(missing_ok=True)
        raise


def _write(folder: Path, files: dict[str, list[Any]], force: bool) -> None:
    """Beside their places first: a link that stands in one is replaced, not followed."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".qkscope-", dir=folder) as beside:
        for name, pieces in files.items():
            with open(Path(beside) / name, "xb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
        if not force:
            _take_all(Path(beside), folder, files)
        else:
            for name in files:
                os.replace(Path(beside) / name, folder / name)


def install(format: str, writer: Any, request: Request, force: bool) -> Export:
    """Has a format's module make its files, and puts them into the folder."""
    path_of(request.output, "output")
    check_place(request.output, writer.FILES, force)
    made: Made = writer.make(request)
    new = not request.output.exists()
    try:
        with files_of(request.output, "give another folder"):
            _write(request.output, made.files, force)
    except BaseException:
        if new:
            with contextlib.suppress(OSError):
                request.output.rmdir()
        raise
    return Export(format, request.output, tuple(made.files), made.heads, made.unsure, made.says)
