# SPDX-License-Identifier: Apache-2.0
"""What the library says during short calls, which are made on the caller's own thread."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._call import ffi, lib
from ._run import Watch, Work, logger, outcome, warn

LEVELS = {lib.QK_NOTICE_INFO: "info", lib.QK_NOTICE_WARNING: "warning", lib.QK_NOTICE_ERROR: "error",
          lib.QK_NOTICE_REMARK: "info"}


class Notices(Watch):
    """Collects what C says on any thread; `tell` passes it on from the thread of the caller."""

    def __init__(self, on_notice: Callable[[str, str], Any] | None = None) -> None:
        super().__init__()
        self.on_notice = on_notice
        self.strings: Callable[[int], Any] | None = None  # of tokens, for a sink
        self.failed: BaseException | None = None  # what that raised, for whoever called C, which was told to stop

    def string(self, token: int) -> Any:
        try:
            return self.strings(token) if self.strings else ffi.NULL
        except BaseException as error:
            self.failed = self.failed or error
            return ffi.NULL

    def raise_failed(self) -> None:
        failed, self.failed = self.failed, None
        if failed is not None:
            raise failed from None

    def tell(self) -> None:
        while self.notices:
            level, message = self.notices.popleft()
            if self.on_notice is not None:
                self.on_notice(LEVELS.get(level, "error"), message)
            elif level in (lib.QK_NOTICE_INFO, lib.QK_NOTICE_REMARK):
                logger.info("%s", message)
            else:
                warn(message)

    def wait(self, function: Any, *arguments: Any, keep: object) -> None:
        """Calls a function that may take long, whose settings have this handle, `qkpy_notice` and `qkpy_progress`,
        in a thread of its own: Ctrl-C stops it, and is raised when it has ended. keep: what the settings point to."""
        self.stop = False
        work = Work(function, arguments, None, None, self, keep)
        try:
            work.thread.start()
            while not work.ended:
                self.changed.wait()
                self.changed.clear()
                self.tell()
            work.thread.join()
            outcome(work)
        except BaseException:
            work.abandon()
            self.raise_failed()
            raise
        finally:
            self.tell()


@ffi.def_extern(error=ffi.NULL)  # type: ignore[untyped-decorator]
def qkpy_token_string(user: Any, token: int) -> Any:
    return ffi.from_handle(user).string(token)
