/* SPDX-License-Identifier: Apache-2.0 */
/* File names made from names that may hold anything. */
#ifndef QK_BASE_SLUG_H
#define QK_BASE_SLUG_H

#include <stddef.h>

/* A file name for each of the names, in an array of strings; NULL when out of memory (or count is 0). Each consists of
 * a-z, 0-9, '.', '_' and '-', begins with a letter, a digit or '_', has at most 48 characters and differs from the
 * others: a second "name" becomes "name-2". It depends only on the names and their order. Release with
 * qk__strings_free. */
char **qk__slugs(const char *const *names, size_t count);

#endif
