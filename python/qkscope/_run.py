# SPDX-License-Identifier: Apache-2.0
"""Long calls. The library works in a thread of its own, and the caller waits in Python: so Ctrl-C is seen at
once, warnings and progress reach the user on the caller's thread, and nobody holds the GIL meanwhile."""
from __future__ import annotations

import collections
import importlib.util
import logging
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

from ._call import Cancelled, PartialError, exception, ffi, lib, text

Progress = bool | Callable[[str, int, int | None], Any] | None
"""`None`: a bar of tqdm, where that is installed and stderr is a terminal or a notebook. `True`: a bar anyway.
`False`: none. A function is called with what is counted ("heads"), how many are done and how many there are (None:
not known); if it returns False, the call stops with Cancelled."""

_DELAY = 0.5  # a bar that is gone at once is a flicker

logger = logging.getLogger("qkscope")


class QkscopeWarning(UserWarning):
    """Something to know about results that are there."""


class PartialWarning(QkscopeWarning):
    """Some heads failed; the results have the others."""


class Watch:
    """What the library says while a call is on its way; it comes from any thread."""

    def __init__(self) -> None:
        self.handle = ffi.new_handle(self)
        self.notices: collections.deque[tuple[int, str]] = collections.deque()
        self.state: tuple[str, int, int] | None = None
        self.stop = False
        self.changed = threading.Event()

    def listen(self, context: Any) -> None:
        """Makes this the user of a call with this qk_context, as long as it lasts."""
        context.notice, context.progress, context.user = lib.qkpy_notice, lib.qkpy_progress, self.handle


@ffi.def_extern()  # type: ignore[untyped-decorator]
def qkpy_notice(user: Any, level: int, message: Any) -> None:
    watch = ffi.from_handle(user)
    watch.notices.append((level, text(message)))
    watch.changed.set()


@ffi.def_extern(error=False)  # type: ignore[untyped-decorator]
def qkpy_progress(user: Any, progress: Any) -> bool:
    watch = ffi.from_handle(user)
    if progress.what[0] != b"\0":  # else nothing is counted
        watch.state = (text(progress.what), progress.done, progress.total)
        watch.changed.set()
    return not watch.stop


# ---- what the user sees -------------------------------------------------------------------

def warn(message: str, category: type[Warning] = QkscopeWarning) -> None:
    """On the line of the user's that called the package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "qkscope":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, level)


def _is_watched() -> bool:
    shell = sys.modules.get("IPython")
    if shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell":
        return True
    return bool(sys.stderr is not None and sys.stderr.isatty())


def _tqdm() -> Any:
    """tqdm's class for where we are; None where it is not installed. tqdm.auto warns in notebooks without widgets."""
    try:
        if importlib.util.find_spec("ipywidgets"):
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ImportError:
        return None
    return tqdm


class _Bar:
    """A bar of tqdm; a new one when something else is counted. Unless it was asked for, it waits for _DELAY seconds."""

    def __init__(self, progress: Progress) -> None:
        wanted = progress is True or (progress is None and _is_watched())
        self.make = _tqdm() if wanted else None
        self.delay = 0.0 if progress is True else _DELAY
        self.bar: Any = None
        self.what, self.done = "", 0  # a bar that TQDM_DISABLE has switched off knows neither

    def show(self, what: str, done: int, total: int) -> None:
        if self.make is None:
            return
        if self.bar is not None and (self.what != what or done < self.done):
            self.close()
        if self.bar is None:
            self.bar = self.make(total=total or None, desc=what, leave=False, delay=self.delay)
            self.what, self.done = what, 0
        self.bar.total = total or None
        self.bar.update(done - self.done)
        self.done = done

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None


class _Display:
    def __init__(self, watch: Watch, progress: Progress) -> None:
        self.watch = watch
        self.own = progress if callable(progress) else None
        self.bar = _Bar(progress)

    def update(self) -> None:
        while self.watch.notices:
            level, message = self.watch.notices.popleft()
            if level == lib.QK_NOTICE_WARNING:
                warn(message)
            else:  # a head that failed is named once more at the end
                logger.info("%s", message)
        state, self.watch.state = self.watch.state, None
        if state is None:
            return
        if self.own is None:
            self.bar.show(*state)
        elif self.own(state[0], state[1], state[2] or None) is False:
            self.watch.stop = True


# ---- the call -----------------------------------------------------------------------------

class Work:
    """A call in its thread. It owns what the library works on, also when nobody waits for it any more."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], out: Any, free: Any, watch: Watch,
                 keep: Any) -> None:
        self.function, self.arguments, self.out, self.free = function, arguments, out, free
        self.watch, self.keep = watch, keep
        self.err = ffi.new("qk_error *")
        self.status = lib.QK_OK
        self.failed: BaseException | None = None
        self.ended = self.abandoned = False
        self.lock = threading.Lock()
        self.thread = threading.Thread(target=self.work, name="qkscope")

    def work(self) -> None:
        try:
            self.status = self.function(*self.arguments, self.err)
        except BaseException as error:
            self.failed = error
        with self.lock:
            self.ended = True
            drop = self.abandoned
        if drop:
            self.drop()
        self.watch.changed.set()

    def drop(self) -> None:
        if self.out is not None and self.out[0] != ffi.NULL:
            self.free(self.out)

    def abandon(self) -> None:
        """Stops the call, waits for its end (a second Ctrl-C does not), and frees what it made."""
        self.watch.stop = True
        try:
            if self.thread.ident is not None:
                self.thread.join()
        finally:
            with self.lock:
                self.abandoned = True
                drop = self.ended
            if drop:
                self.drop()


def run(function: Any, *arguments: Any, context: Any, out: Any = None, free: Any = None, keep: Any = None,
        progress: Progress = None) -> tuple[Any, PartialError | None]:
    """Calls function(*arguments, err).

    context is that of the settings: what it tells reaches the user from here. out is the argument that takes the
    handle, such as ffi.new("qk_analysis_results **"), and free the library's function for it. keep is whatever
    has to live as long as the call. Returns the handle, which frees itself, and where the library says
    QK_ERR_PARTIAL and there is a handle, that as an exception that was not raised. Raises what else the library
    fails with; KeyboardInterrupt after Ctrl-C, when the call has ended.
    """
    watch = Watch()
    watch.listen(context)
    display = _Display(watch, progress)
    work = Work(function, arguments, out, free, watch, keep)
    try:
        work.thread.start()
        while not work.ended:
            watch.changed.wait()
            watch.changed.clear()
            display.update()
        display.update()
        work.thread.join()
        return outcome(work)
    except BaseException:
        work.abandon()
        raise
    finally:
        display.bar.close()


def outcome(work: Work) -> tuple[Any, PartialError | None]:
    if work.failed is not None:
        raise work.failed
    handle = work.out[0] if work.out is not None else ffi.NULL
    partial = None
    if work.status != lib.QK_OK:
        error = exception(work.status, work.err)
        if not isinstance(error, PartialError) or handle == ffi.NULL:
            raise error
        partial = error
    if handle == ffi.NULL:
        return None, partial
    pointer, free, work.out = ffi.typeof(work.out), work.free, None  # no longer the call's
    return ffi.gc(handle, lambda one: free(ffi.new(pointer, one))), partial


__all__ = ["Cancelled", "PartialWarning", "Progress", "QkscopeWarning", "run", "warn"]
