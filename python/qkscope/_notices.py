# SPDX-License-Identifier: Apache-2.0
"""What the library has to say, as Python's warnings and log."""
from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

from ._call import ffi, lib, text

LEVELS = {lib.QK_NOTICE_INFO: "info", lib.QK_NOTICE_WARNING: "warning", lib.QK_NOTICE_ERROR: "error"}


class QkscopeWarning(UserWarning):
    """Something the user should know of a call that goes on."""


class Notices:
    """Collects what C says on any thread; `tell` passes it on from the thread of the caller."""

    def __init__(self, on_notice: Callable[[str, str], Any] | None = None) -> None:
        self.on_notice = on_notice
        self.waiting: list[tuple[str, str]] = []
        self.strings: Callable[[int], Any] | None = None  # of tokens, for a sink
        self.handle = ffi.new_handle(self)

    def tell(self, stacklevel: int = 3) -> None:
        while self.waiting:
            level, message = self.waiting.pop(0)
            if self.on_notice is not None:
                self.on_notice(level, message)
            elif level == "info":
                logging.getLogger("qkscope").info(message)
            else:
                warnings.warn(message, QkscopeWarning, stacklevel)


@ffi.def_extern()
def qkpy_notice(user: Any, level: int, message: Any) -> None:
    ffi.from_handle(user).waiting.append((LEVELS.get(level, "error"), text(message) or ""))


@ffi.def_extern(error=ffi.NULL)
def qkpy_token_string(user: Any, token: int) -> Any:
    return ffi.from_handle(user).strings(token)
