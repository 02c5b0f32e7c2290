# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of the extension module qkscope._library from the public headers.

What Python may call is what the headers declare: nothing is declared twice, and the compiler compares every
struct with its header once more.

    make_binding.py OUTPUT.c INCLUDE_FOLDER
"""
import re
import sys
from pathlib import Path

from cffi import FFI

INCLUDE = re.compile(r"#include <(qkscope/\w+\.h)>")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*\n", re.M)
MARKS = re.compile(r"\bQK_(API|MUST_CHECK|BEGIN_DECLS|END_DECLS)\b|__attribute__\(\([^)]*\([^)]*\)\)\)")
WHOLE = re.compile(r"#define (QK_\w+)[ \t]+(-?\d+)\s")

# Called from C, on any thread, one call at a time.
CALLBACKS = """
    extern "Python" void qkpy_notice(void *, qk_notice_level, const char *);
    extern "Python" _Bool qkpy_progress(void *, const qk_progress *);
    extern "Python" const char *qkpy_token_string(void *, int32_t);
    extern "Python" _Bool qkpy_text_rewind(void *);
    extern "Python" _Bool qkpy_text_next(void *, qk_recorder_text *, _Bool *);
    extern "Python" _Bool qkpy_encode(void *, const char *, size_t, size_t, qk_tokens *);
    extern "Python" _Bool qkpy_open_sink(void *, const qk_sink_settings *, qk_sink **);
    extern "Python" _Bool qkpy_run_model(void *, const qk_sequence *, const int64_t *, size_t);
    void free(void *);
"""

SOURCE = """
#include <stdlib.h>
#include <qkscope/qkscope.h>
"""


def headers(folder, name, seen):
    """The texts of a header and of those that it includes, each once, the lower ones first."""
    if name in seen:
        return []
    seen.add(name)
    text = (folder / name).read_text(encoding="utf-8")
    below = [part for other in INCLUDE.findall(text) for part in headers(folder, other, seen)]
    return [*below, text]


def declarations(text):
    """A header as cffi reads it: without comments, macros and attributes, statuses as an enum."""
    rows = re.findall(r"^ *X\((\w+), \"", text, re.M)
    text = DIRECTIVE.sub("", COMMENT.sub("", text) + "\n")
    text = re.sub(r"QK_STATUS_LIST\(\w+\)", ", ".join(rows), text)
    return MARKS.sub("", text)


def main(output, include):
    texts = headers(Path(include), "qkscope/qkscope.h", set())
    source = "\n".join(declarations(text) for text in texts)
    for name, value in [found for text in texts for found in WHOLE.findall(text)]:
        source = re.sub(rf"\b{name}\b", value, source)
    ffi = FFI()
    ffi.cdef(source)
    ffi.cdef(CALLBACKS)
    ffi.set_source("qkscope._library", SOURCE)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
