# SPDX-License-Identifier: Apache-2.0
"""Private folders, which hold the files of results in memory, and go with them.

A process that is killed leaves its folders. Their names say whose they are, so the next one removes them."""
from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
import weakref
from pathlib import Path

_NAME = re.compile(r"qkscope-(\d+)-(\d+)-([0-9a-f]{12})-[^/]*")  # process, its start, machine


class TemporaryFolder:
    """A private folder that goes with this object, or at the end of the process that made it: a process that was
    forked leaves it alone."""

    def __init__(self) -> None:
        _remove_left_ones_once()
        self.path = Path(tempfile.mkdtemp(prefix=prefix()))
        self.remove = weakref.finalize(self, _remove, self.path, os.getpid())
        processes = sys.modules.get("multiprocessing.process")
        if processes is not None and processes.parent_process() is not None:  # its children end without atexit
            from multiprocessing.util import Finalize
            Finalize(self, self.remove, exitpriority=10)


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


# ---- of processes that were killed ----------------------------------------------------------

def prefix() -> str:
    """Of the names of this process's private folders."""
    me = os.getpid()
    started, machine = _started(me), _machine()
    return f"qkscope-{me}-{started}-{machine}-" if started and machine else "qkscope-"


@functools.cache
def _machine() -> str | None:
    """Where numbers of processes mean the same: this boot of the kernel and this namespace. A folder for temporary files
    may be shared by containers and machines."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        return hashlib.sha256((boot + os.readlink("/proc/self/ns/pid")).encode()).hexdigest()[:12]
    except OSError:
        return None


def _is_gone(process: int, started: str) -> bool:
    now = _started(process)
    if now is not None:
        return now != started
    try:
        os.kill(process, 0)  # is it there, only hidden?
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass
    return False


def _started(process: int) -> str | None:
    """When a process began, in ticks of the kernel: another one may get its number. None: there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return None


@functools.cache
def _remove_left_ones_once() -> None:
    _remove_left_ones()
    atexit.register(_remove_left_ones)  # those of children, which a pool kills at its end


def _remove_left_ones() -> None:
    if _machine() is None or _started(os.getpid()) is None:
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            parts = _NAME.fullmatch(entry.name)
            if (parts and parts[3] == _machine() and _is_gone(int(parts[1]), parts[2])
                    and entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_uid == os.getuid()):
                shutil.rmtree(entry.path, ignore_errors=True)
