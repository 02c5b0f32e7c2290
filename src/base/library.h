/* SPDX-License-Identifier: Apache-2.0 */
/* Shared libraries that few runs need: loaded when they are. */
#ifndef QK_BASE_LIBRARY_H
#define QK_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>

typedef struct qk__library {
    const char *name, *versions[3]; /* "fontconfig" of "1"; the first that is there */
    const char *purpose, *remedy;   /* for who lacks it */
} qk__library;

/* It stays loaded until the program ends. QK_ERR_UNSUPPORTED: it is not there. */
QK_MUST_CHECK qk_status qk__library_load(const qk__library *library, void **handle,
                                         qk_error *err);

/* Fills a pointer to a function of `size` bytes; false: there is none, or no memory. */
bool qk__library_find(void *handle, const char *name, void *function, size_t size);

#endif
