/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints of input files, to see whether they changed (not to resist forgery). */
#ifndef QK_BASE_HASH_H
#define QK_BASE_HASH_H

#include <stdint.h>

#include <qkscope/status.h>

enum { QK_HASH_SIZE = 33 };

/* XXH3-128 of a whole file as 32 hexadecimal digits, and its size in bytes. */
QK_MUST_CHECK qk_status qk__hash_file(const char *path, char hash[QK_HASH_SIZE], int64_t *bytes,
                                      qk_error *err);

#endif
