/* SPDX-License-Identifier: Apache-2.0 */
/* Shared libraries that few runs need: loaded when they are. */
#ifndef QK_BASE_LIBRARY_H
#define QK_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

/* "fontconfig" of version "1", which stays loaded until the program ends. NULL: it cannot be loaded. */
void *qk__library_load(const char *name, const char *version);

/* Fills a pointer to a function of `size` bytes; false: there is none. */
bool qk__library_find(void *handle, const char *name, void *function, size_t size);

#endif
