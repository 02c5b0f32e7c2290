# SPDX-License-Identifier: Apache-2.0
"""Small Parquet files that claim much, put together page by page: no writer makes such files."""
import struct

import pyarrow as pa

# Thrift's compact protocol: type numbers, and values as (type, value).
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
CODECS = {"zstd": 6, "brotli": 4, None: 0}
INT32, INT64, FLOAT, BYTE_ARRAY = 1, 2, 4, 6
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def zigzag(n):
    return varint(n << 1 if n >= 0 else (-n << 1) - 1)


def encode(kind, value):
    if kind in (I32, I64):
        return zigzag(value)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == LIST:
        element, items = value
        size = len(items)
        head = bytes([size << 4 | element]) if size < 15 else bytes([0xF0 | element]) + varint(size)
        return head + b"".join(encode(element, item) for item in items)
    last, out = 0, b""
    for field, (kind, item) in sorted(value.items()):
        assert 0 < field - last < 16
        out += bytes([field - last << 4 | kind]) + encode(kind, item)
        last = field
    return out + b"\0"


def runs(value, count, width):
    """`count` equal values as one run of RLE."""
    return varint(count << 1) + value.to_bytes((width + 7) // 8, "little")


def page(plain, values, codec, dictionary=False, encoding=PLAIN):
    stored = pa.Codec(codec).compress(plain, asbytes=True) if codec else plain
    details = {1: (I32, values), 2: (I32, encoding)}
    if not dictionary:
        details |= {3: (I32, RLE), 4: (I32, RLE)}
    header = {1: (I32, 2 if dictionary else 0), 2: (I32, len(plain)), 3: (I32, len(stored)),
              7 if dictionary else 5: (STRUCT, details)}
    return encode(STRUCT, header) + stored


def levels(data):
    return struct.pack("<I", len(data)) + data


class File:
    """Columns (name, type, list) and row groups of [(offset, size, values)] for each of them."""

    def __init__(self, columns, codec):
        self.columns, self.codec, self.data, self.groups = columns, codec, b"PAR1", []

    def chunk(self, pages, values):
        at = len(self.data)
        self.data += pages
        return at, len(pages), values

    def group(self, rows, chunks):
        self.groups.append((rows, chunks))

    def schema(self):
        nodes = [{4: (BINARY, b"schema"), 5: (I32, len(self.columns))}]
        for name, kind, repeated in self.columns:
            if repeated:  # three levels, of which only the middle one adds to the values'
                nodes += [{3: (I32, 0), 4: (BINARY, name.encode()), 5: (I32, 1), 6: (I32, 3)},
                          {3: (I32, 2), 4: (BINARY, b"list"), 5: (I32, 1)},
                          {1: (I32, kind), 3: (I32, 0), 4: (BINARY, b"element")}]
            else:
                nodes.append({1: (I32, kind), 3: (I32, 0), 4: (BINARY, name.encode())})
        return nodes

    def write(self, path):
        groups = []
        for rows, chunks in self.groups:
            listed = []
            for (name, kind, repeated), (at, size, values) in zip(self.columns, chunks):
                names = [name, "list", "element"] if repeated else [name]
                meta = {1: (I32, kind), 2: (LIST, (I32, [PLAIN, RLE, RLE_DICTIONARY])),
                        3: (LIST, (BINARY, [n.encode() for n in names])),
                        4: (I32, CODECS[self.codec]), 5: (I64, values), 6: (I64, size),
                        7: (I64, size), 9: (I64, at)}
                listed.append({2: (I64, 0), 3: (STRUCT, meta)})
            groups.append({1: (LIST, (STRUCT, listed)), 2: (I64, 0), 3: (I64, rows)})
        footer = encode(STRUCT, {1: (I32, 2), 2: (LIST, (STRUCT, self.schema())),
                                 3: (I64, sum(rows for rows, _ in self.groups)),
                                 4: (LIST, (STRUCT, groups))})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data + footer + struct.pack("<I", len(footer)) + b"PAR1")
        return path


CAPTURE = [("bucket", INT32, False), ("example_id", INT64, False), ("position", INT32, False),
           ("vector", FLOAT, True)]


def head_of_long_pages(path, page_bytes, pages, values=None, codec="brotli"):
    """One row, whose vector of zeros fills some pages; or they have `values` each, and padding."""
    f = File(CAPTURE, codec)
    chunks = [f.chunk(page(bytes(8 if kind == INT64 else 4), 1, codec), 1)
              for _, kind, _ in CAPTURE[:3]]
    count = values or page_bytes // 4
    first = runs(0, 1, 1) + (runs(1, count - 1, 1) if count > 1 else b"")
    defined = levels(runs(1, count, 1))
    zeros = bytes(page_bytes)
    data = page(levels(first) + defined + zeros, count, codec)
    data += (pages - 1) * page(levels(runs(1, count, 1)) + defined + zeros, count, codec)
    f.group(1, [*chunks, f.chunk(data, pages * count)])
    return f.write(path)


def head_of_groups(path, rows, groups, shared, dim=4):
    """Row groups of equal rows, each column a dictionary of one value; `shared` lets all of them
    point to the same bytes."""
    f = File(CAPTURE, "zstd")
    repetition = b"".join(runs(0, 1, 1) + runs(1, dim - 1, 1) for _ in range(rows))
    columns = []
    for _, kind, repeated in CAPTURE:
        count = rows * dim if repeated else rows
        body = b"\0" + runs(0, count, 0)
        if repeated:
            body = levels(repetition) + levels(runs(1, count, 1)) + body
        columns.append((page(bytes(8 if kind == INT64 else 4), 1, "zstd", dictionary=True) +
                        page(body, count, "zstd", encoding=RLE_DICTIONARY), count))
    for g in range(groups):
        if g == 0 or not shared:
            chunks = [f.chunk(*column) for column in columns]
        f.group(rows, chunks)
    return f.write(path)


def long_string(path, size):
    """One string of zeros in a dictionary."""
    f = File([("text", BYTE_ARRAY, False)], "brotli")
    f.group(1, [f.chunk(page(struct.pack("<I", size) + bytes(size), 1, "brotli", dictionary=True)
                        + page(b"\0" + runs(0, 1, 0), 1, "brotli", encoding=RLE_DICTIONARY), 1)])
    return f.write(path)
