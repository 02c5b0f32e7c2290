/* SPDX-License-Identifier: Apache-2.0 */
/* A shared library that is loaded when it is first needed: one that few runs need, and that would take a large part of
 * the time in which the program starts. Its header alone is used to compile. */
#ifndef QK_BASE_LIBRARY_H
#define QK_BASE_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>

/* The first of the names that is there; the list ends with NULL. QK_ERR_UNSUPPORTED: none is, and the message ends
 * with the remedy. It stays loaded until the program ends: a library may leave behind what runs then. */
QK_MUST_CHECK qk_status qk__library_load(const char *const *names, const char *needed_for,
                                         const char *remedy, void **library, qk_error *err);

/* Sets the pointer to a function, of that size; false where the library has none of that name. */
bool qk__library_find(void *library, const char *name, void *function, size_t size);

/* Whether the loader's last failure was one of memory. Its words are kept in why, unless something is there. */
bool qk__library_is_memory_short(char *why, size_t size);

#endif
