# SPDX-License-Identifier: Apache-2.0
"""Arrays of others, as the library takes them: an address, a shape, strides. Nothing is copied, and nothing is
imported for it: NumPy arrays tell it by __array_interface__, others (torch) by DLPack or the buffer protocol.
"""
from __future__ import annotations

import array
import ctypes
import re
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._call import ffi
from ._checks import refuse

WANTED = "float32, float16 or bfloat16"
REMEDY = "convert it, as with numpy.asarray(x, dtype='float32') or x.float()"
SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8, "int64": 8}
# Devices of DLPack whose memory the processor reads as its own: plain, and pinned by CUDA or ROCm.
HOST = (1, 3, 11)
DEVICES = {1: "CPU", 2: "CUDA", 3: "CPU (pinned)", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 11: "CPU (pinned)",
           13: "CUDA managed", 14: "oneAPI", 15: "WebGPU", 16: "Hexagon", 17: "MAIA"}


class View(NamedTuple):
    """Where an array lies. Good for as long as `owner` is kept."""

    owner: object
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in numbers, not bytes
    dtype: str


def need_numpy() -> Any:
    """NumPy, for functions that hand out its arrays."""
    try:
        import numpy
    except ImportError:
        raise ImportError("rows are NumPy arrays here, and there is no NumPy: pip install numpy") from None
    return numpy


# ---- NumPy ---------------------------------------------------------------------------------

def _of_interface(value: Any, name: str, told: dict[str, Any]) -> View:
    typestr, shape = told["typestr"], tuple(told["shape"])
    order, kind, size = typestr[0], typestr[1], int(typestr[2:] or 1)
    dtype = {"f": "float", "i": "int", "u": "uint"}.get(kind, "") + str(8 * size)
    if kind not in "fiu":  # dtypes of ml_dtypes, such as bfloat16, have no letter of their own
        dtype = str(getattr(value, "dtype", typestr))
    if order == (">" if sys.byteorder == "little" else "<") and size > 1:
        raise refuse(name, f"a big-endian array of {dtype}", WANTED + " in the machine's byte order",
                     "x.astype(x.dtype.newbyteorder('='))")
    strides = told.get("strides") or _dense(shape, size)
    return View(value, told["data"][0], shape, _in_numbers(strides, shape, size, name), dtype)


def _dense(shape: Sequence[int], step: int = 1) -> tuple[int, ...]:
    strides = []
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _in_numbers(strides: Sequence[int], shape: Sequence[int], size: int, name: str) -> tuple[int, ...]:
    if any(stride % size for stride, count in zip(strides, shape) if count > 1):
        raise refuse(name, f"an array whose strides {tuple(strides)} are no whole numbers of {size} bytes",
                     "one that is not part of records", "numpy.ascontiguousarray(x)")
    return tuple(stride // size for stride in strides)


# ---- DLPack --------------------------------------------------------------------------------

class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p),
                ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", _Tensor)]


_capsule_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_pointer.restype = ctypes.c_void_p


def _device(value: Any, name: str) -> None:
    kind, number = value.__dlpack_device__() if hasattr(value, "__dlpack_device__") else (1, 0)
    if int(kind) not in HOST:
        raise refuse(name, f"on device {DEVICES.get(int(kind), int(kind))} {number}", "memory of the CPU",
                     "copy it there, as with x.cpu()")


def _of_dlpack(value: Any, name: str) -> View:
    _device(value, name)
    if getattr(value, "requires_grad", False):
        value = value.detach()
    try:
        capsule = value.__dlpack__(max_version=(1, 0))
    except TypeError:  # written before there were versions
        capsule = value.__dlpack__()
    if _capsule_valid(capsule, b"dltensor_versioned"):
        whole = _Versioned.from_address(_capsule_pointer(capsule, b"dltensor_versioned"))
        if whole.major != 1:
            raise refuse(name, f"a DLPack tensor of version {whole.major}.{whole.minor}", "version 1", REMEDY)
        tensor = whole.tensor
    elif _capsule_valid(capsule, b"dltensor"):
        tensor = _Tensor.from_address(_capsule_pointer(capsule, b"dltensor"))
    else:
        raise refuse(name, "a capsule of DLPack that was used before", "a new one", "give the tensor itself")
    if tensor.device not in HOST:
        raise refuse(name, f"on device {DEVICES.get(tensor.device, tensor.device)}", "memory of the CPU",
                     "copy it there, as with x.cpu()")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else _dense(shape)
    letters = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
    dtype = letters.get(tensor.code, f"DLPack type {tensor.code} of bits ") + str(tensor.bits)
    if tensor.lanes != 1:
        dtype += f" x {tensor.lanes}"
    # The capsule was not taken over, so it frees the tensor when it goes.
    return View(capsule, (tensor.data or 0) + tensor.byte_offset, shape, strides, dtype)


# ---- the buffer protocol -------------------------------------------------------------------

class _Buffer(ctypes.Structure):
    _fields_ = [("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t),
                ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
                ("format", ctypes.c_char_p), ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
                ("strides", ctypes.POINTER(ctypes.c_ssize_t)), ("suboffsets", ctypes.c_void_p),
                ("internal", ctypes.c_void_p)]


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release_buffer = ctypes.pythonapi.PyBuffer_Release
_release_buffer.argtypes = [ctypes.POINTER(_Buffer)]
_release_buffer.restype = None
_STRIDED, _FORMAT = 0x18, 0x04
_LETTERS = {"f": "float32", "e": "float16", "d": "float64", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16",
            "i": "int32", "I": "uint32", "q": "int64", "Q": "uint64", "?": "bool"}


class _Held:
    """A buffer that is released when this goes."""

    def __init__(self, value: Any) -> None:
        self.buffer = _Buffer()
        _get_buffer(value, ctypes.byref(self.buffer), _STRIDED | _FORMAT)

    def __del__(self) -> None:
        if self.buffer.buf is not None or self.buffer.ndim:
            _release_buffer(ctypes.byref(self.buffer))


def _of_buffer(value: Any, name: str) -> View:
    held = _Held(value)
    b = held.buffer
    shape = tuple(b.shape[i] for i in range(b.ndim))
    letters = (b.format or b"B").decode()
    found = re.fullmatch(r"([@=<>!]?)(\w|\?)", letters)
    order, letter = found.groups() if found else ("", letters)
    dtype = _LETTERS.get(letter, letters)
    if letter in "lLnN":  # of the machine with @, of the standard with =
        dtype = ("int" if letter in "ln" else "uint") + str(8 * b.itemsize)
    foreign = "<" if sys.byteorder == "big" else ">"
    if order in (foreign, "!" if foreign == ">" else "") and order and b.itemsize > 1:
        raise refuse(name, f"a big-endian buffer of {dtype}", WANTED + " in the machine's byte order",
                     "numpy.asarray(x).astype('float32')")
    strides = tuple(b.strides[i] for i in range(b.ndim)) if b.strides else _dense(shape, b.itemsize)
    return View(held, b.buf or 0, shape, _in_numbers(strides, shape, b.itemsize, name), dtype)


# ---- any of them ---------------------------------------------------------------------------

def view(value: Any, name: str) -> View:
    """Where an array lies; ArgumentError, with `name` in it, for what is none, or lies on a device."""
    told = getattr(value, "__array_interface__", None)
    masked = sys.modules.get("numpy.ma")
    if masked is not None and masked.is_masked(value):
        raise refuse(name, "an array with masked numbers", "one without a mask", "leave their rows out, as with "
                     "x[~numpy.ma.getmaskarray(x).any(1)], or say what they are with x.filled(0)")
    if isinstance(told, dict):
        return _of_interface(value, name, told)
    if hasattr(value, "__dlpack__"):
        return _of_dlpack(value, name)
    try:
        return _of_buffer(value, name)
    except TypeError:
        pass
    raise refuse(name, f"a {type(value).__name__}", "an array: NumPy's, a torch tensor, anything with DLPack or the "
                 "buffer protocol", "numpy.asarray(x, dtype='float32')")


def vectors(value: Any, name: str, dims: str, shape: Sequence[int | None], dtypes: Sequence[str]) -> View:
    """An array of one of some dtypes, whose shape is known (None: any number) and whose last dimension is dense."""
    v = view(value, name)
    want = "[" + ", ".join(f"{d}={n}" if n is not None else d for d, n in zip(dims.split(), shape)) + "]"
    if v.dtype not in dtypes:
        raise refuse(name, f"of dtype {v.dtype}", " or ".join(", ".join(dtypes).rsplit(", ", 1)), REMEDY if
                     "float32" in dtypes else f"convert it, as with numpy.asarray(x, dtype='{dtypes[0]}')")
    if len(v.shape) != len(shape) or any(n is not None and n != m for n, m in zip(shape, v.shape)):
        raise refuse(name, f"of shape {list(v.shape)}", want, "transpose or reshape it")
    if v.shape[-1] > 1 and 0 not in v.shape and v.strides[-1] != 1:
        raise refuse(name, f"of strides {list(v.strides)}", "1 for the last dimension: a vector's numbers side by side",
                     "numpy.ascontiguousarray(x) or x.contiguous()")
    if v.address % SIZES[v.dtype]:
        raise refuse(name, f"at address {v.address:#x}", f"one that {SIZES[v.dtype]} divides", "numpy.array(x)")
    return v


def dense(value: Any, name: str, dims: str, shape: Sequence[int | None], dtype: str) -> View:
    """The same of one dtype, with all its numbers one after the other."""
    v = vectors(value, name, dims, shape, (dtype,))
    if 0 not in v.shape and any(n > 1 and s != t for n, s, t in zip(v.shape, v.strides, _dense(v.shape))):
        raise refuse(name, f"of strides {list(v.strides)}", f"{list(_dense(v.shape))}: all numbers one after the other",
                     "numpy.ascontiguousarray(x) or x.contiguous()")
    return v


def pointer(v: View, ctype: str) -> Any:
    return ffi.cast(ctype, v.address)


def int64s(value: Any, name: str) -> tuple[object, Any, int]:
    """Integers: what to keep, a pointer (int64_t *) and their number. Dense int64 is not copied."""
    if not isinstance(value, (list, tuple, range)):
        v = view(value, name)
        if len(v.shape) != 1 or not re.fullmatch(r"u?int\d+", v.dtype):
            raise refuse(name, f"an array {list(v.shape)} of {v.dtype}", "a list of integers",
                         "numpy.asarray(x, dtype='int64')")
        if v.dtype == "int64" and (v.strides[0] == 1 or v.shape[0] < 2) and v.address % 8 == 0:
            return v.owner, pointer(v, "int64_t *"), v.shape[0]
        value = value.tolist() if hasattr(value, "tolist") else list(value)
    try:
        whole = array.array("q", value)
    except (TypeError, OverflowError):
        raise refuse(name, "not a list of integers", "whole numbers of 64 bits", "[int(i) for i in x]") from None
    where = ffi.from_buffer("int64_t[]", whole)
    return (whole, where), where, len(whole)
