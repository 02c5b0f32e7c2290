#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a C file of text files: embed.py OUT.c HEADER NAME=FILE[,FILE...] ...

Each NAME becomes a `const qk__asset NAME` with the bytes of its files joined, and their SHA-256 as a
content security policy names it. Scripts that would end the element they stand in are refused, and a
NAME that ends in "chart" must be the self-contained Chart.js 3 with its licence."""
import base64
import hashlib
import re
import sys

PER_LINE = 24


def refuse(file, why):
    sys.exit(f"{file}: {why}")


def check(name, files, data):
    if any(file.endswith(".js") for file in files):
        if re.search(rb"</script|<!--", data, re.IGNORECASE):
            refuse(files[0], "has </script or <!--, which cannot stand inside a page")
    if name.endswith("chart"):
        if not re.match(rb"/\*!\s*\* Chart\.js v3\.", data):
            refuse(files[0], "does not begin with the licence of Chart.js 3")
        if b"function" not in data[:400] or re.search(rb"\b(import|require)\s*\(", data):
            refuse(files[0], "is not a build that stands alone (UMD)")


def content(name, files):
    parts = []
    for file in files:
        with open(file, "rb") as source:
            parts.append(source.read().replace(b"\r\n", b"\n"))
    data = b"".join(parts)
    if len(files) > 1:  # scripts that share what they declare with one another, not with the page
        data = b'(() => {\n"use strict";\n' + data + b"})();\n"
    check(name, files, data)
    return data


def definition(name, data):
    digest = base64.b64encode(hashlib.sha256(data).digest()).decode()
    rows = (",".join(map(str, data[i:i + PER_LINE])) for i in range(0, len(data), PER_LINE))
    body = ",\n".join(rows)
    return (f"static const unsigned char {name}_data[] = {{\n{body},\n}};\n"
            f"const qk__asset {name} = {{{name}_data, {len(data)}, \"sha256-{digest}\"}};\n")


def main(out, header, *assets):
    text = [f'/* Made by tools/embed.py. */\n#include "{header}"\n']
    for asset in assets:
        name, files = asset.split("=", 1)
        text.append(definition(name, content(name, files.split(","))))
    with open(out, "w", encoding="ascii") as target:
        target.write("\n".join(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
