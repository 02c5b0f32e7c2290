# SPDX-License-Identifier: Apache-2.0
"""Reads a file of torch.save without torch, by the format alone: three globals and nothing else, one storage of float32."""
import io
import pickle
import zipfile
from collections import OrderedDict

import numpy as np


def rebuild(storage, first, size, stride, requires_grad, hooks):
    assert len(size) == 1 and stride == (1,) and requires_grad is False and hooks == OrderedDict()
    assert first >= 0 and first + size[0] <= len(storage)
    return storage[first:first + size[0]]


class Reader(pickle.Unpickler):
    GLOBALS = {("torch._utils", "_rebuild_tensor_v2"): rebuild, ("torch", "FloatStorage"): "float32", ("collections", "OrderedDict"): OrderedDict}

    def __init__(self, file, numbers):
        super().__init__(file)
        self.numbers = numbers

    def find_class(self, module, name):
        return self.GLOBALS[module, name]

    def persistent_load(self, pid):
        kind, dtype, key, device, count = pid
        assert (kind, dtype, key, device, count) == ("storage", "float32", "0", "cpu", len(self.numbers))
        return self.numbers


def read_torch(path, name="triattention"):
    """What the file holds; every entry is stored as it is, the numbers at a multiple of 64 bytes."""
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None and file.namelist() == [f"{name}/{entry}" for entry in ("data.pkl", "byteorder", "data/0", "version")]
        assert {info.compress_type for info in file.infolist()} == {zipfile.ZIP_STORED}
        assert file.read(f"{name}/byteorder") == b"little" and file.read(f"{name}/version") == b"3\n"
        numbers = file.read(f"{name}/data/0")
        assert path.read_bytes().index(numbers) % 64 == 0
        program = file.read(f"{name}/data.pkl")
    assert program[:2] == b"\x80\x02"  # pickle's protocol 2
    return Reader(io.BytesIO(program), np.frombuffer(numbers, "<f4")).load()
