# SPDX-License-Identifier: Apache-2.0
"""Calls of the C library: texts there and back, statuses as exceptions."""
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ._library import ffi as ffi
from ._library import lib as lib


class Error(Exception):
    """What the library says went wrong; `status` is the name of its code, such as "QK_ERR_IO"."""

    status: str | None = None


class ArgumentError(Error, ValueError):
    pass


class DataError(Error, ValueError):
    """Input that is malformed, inconsistent, or too little to compute from."""


class InputOutputError(Error, OSError):
    pass


class NotFoundError(InputOutputError, FileNotFoundError):
    pass


class ExistsError(InputOutputError, FileExistsError):
    pass


class PartialError(Error):
    """Some heads failed. `results` has the others."""

    results: Any = None


class Cancelled(Error):
    pass


EXCEPTIONS: dict[str, type[Exception]] = {
    "QK_ERR_NOMEM": MemoryError,
    "QK_ERR_ARGUMENT": ArgumentError,
    "QK_ERR_IO": InputOutputError,
    "QK_ERR_NOT_FOUND": NotFoundError,
    "QK_ERR_EXISTS": ExistsError,
    "QK_ERR_MALFORMED": DataError,
    "QK_ERR_UNSUPPORTED": DataError,
    "QK_ERR_INCONSISTENT": DataError,
    "QK_ERR_DEGENERATE": DataError,
    "QK_ERR_PARTIAL": PartialError,
    "QK_ERR_CANCELLED": Cancelled,
}


def text(pointer: Any) -> Any:
    """A C string as str; None for NULL."""
    return None if pointer == ffi.NULL else ffi.string(pointer).decode("utf-8", "replace")


def exception(status: int, err: Any) -> Exception:
    name = ffi.string(ffi.cast("qk_status", status))
    kind = EXCEPTIONS.get(name, Error)
    made = kind(ffi.string(err.message).decode("utf-8", "replace"))
    if isinstance(made, Error):
        made.status = name
    return made


def call(function: Any, *arguments: Any) -> None:
    """Calls a function that returns a qk_status and takes a qk_error last; raises what it fails with."""
    err = ffi.new("qk_error *")
    status = function(*arguments, err)
    if status != lib.QK_OK:
        raise exception(status, err)


@contextlib.contextmanager
def files_of(place: Any, remedy: str) -> Iterator[None]:
    """What goes wrong with files in here is one of the package's errors, about `place`."""
    try:
        yield
    except Error:
        raise
    except OSError as error:
        kind, status = {FileNotFoundError: (NotFoundError, "QK_ERR_NOT_FOUND"),
                        FileExistsError: (ExistsError, "QK_ERR_EXISTS")}.get(
                            type(error), (InputOutputError, "QK_ERR_IO"))
        made = kind(f"{place}: {error.strerror or error}; {remedy}")
        made.status, made.errno = status, error.errno
        raise made from error


def damaged(place: Any, why: object) -> DataError:
    """Of a file of results."""
    error = DataError(f"{place}: is damaged ({why}); run the analysis again")
    error.status = "QK_ERR_MALFORMED"
    return error
