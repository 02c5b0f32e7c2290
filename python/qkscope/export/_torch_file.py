# SPDX-License-Identifier: Apache-2.0
"""What torch.save writes, without torch: a zip of a pickle and of one storage of float32, of which each tensor is a view."""
from __future__ import annotations

import io
import struct
import zipfile
from typing import Any, NamedTuple

_ALIGNMENT = 64  # of the storage, as torch has it: readers may map the file
_STORED = (1980, 1, 1, 0, 0, 0)  # zip's first day: same numbers, same bytes


class View(NamedTuple):
    """A tensor of one dimension: numbers of the storage."""

    first: int
    size: int


def _word(value: str) -> bytes:
    told = value.encode("utf-8", "replace")
    return b"X" + struct.pack("<I", len(told)) + told


def _whole(value: int) -> bytes:
    if -2**31 <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def _tensor(view: View, stored: int) -> bytes:
    """_rebuild_tensor_v2(storage, first, (count,), (1,), requires_grad=False, backward_hooks=OrderedDict())"""
    storage = b"(" + _word("storage") + b"ctorch\nFloatStorage\n" + _word("0") + _word("cpu") + _whole(stored) + b"tQ"
    return (b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + _whole(view.first) + _whole(view.size) + b"\x85"
            + _whole(1) + b"\x85" + b"\x89" + b"ccollections\nOrderedDict\n)R" + b"tR")


def _pickled(value: Any, stored: int) -> bytes:
    """Of nothing but what torch.load(weights_only=True) takes."""
    if isinstance(value, View):
        return _tensor(value, stored)
    if isinstance(value, dict):
        return b"}(" + b"".join(_pickled(part, stored) for pair in value.items() for part in pair) + b"u"
    if isinstance(value, (list, tuple)):
        return b"](" + b"".join(_pickled(part, stored) for part in value) + b"e"
    if isinstance(value, bool):
        return b"\x88" if value else b"\x89"
    if isinstance(value, int):
        return _whole(value)
    return _word(value) if isinstance(value, str) else b"G" + struct.pack(">d", value)


def torch_file(name: str, value: Any, storage: Any) -> list[Any]:
    """value: dicts, lists, texts, numbers, and views of `storage`, which is a little-endian array of float32."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for entry, content in (("data.pkl", b"\x80\x02" + _pickled(value, storage.size) + b"."), ("byteorder", b"little"),
                               ("data/0", storage.tobytes()), ("version", b"3\n")):
            info = zipfile.ZipInfo(f"{name}/{entry}", _STORED)
            info.create_system = 3  # not of the system that it is made on
            gap = -(made.tell() + 30 + len(info.filename) + 4) % _ALIGNMENT  # behind the entry's header, its name and 4 bytes
            info.extra = b"FB" + struct.pack("<H", gap) + b"Z" * gap
            file.writestr(info, content)
    return [made.getvalue()]
