/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints of files, to see whether one changed: XXH3-128 as 32 hexadecimal digits. Not
 * made to resist forgery. */
#ifndef QK_BASE_FINGERPRINT_H
#define QK_BASE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

enum { QK__FINGERPRINT_SIZE = 33 };

typedef struct qk__file_print {
    int64_t bytes;
    char hash[QK__FINGERPRINT_SIZE];
} qk__file_print;

void qk__fingerprint_bytes(const void *data, size_t size, char hash[QK__FINGERPRINT_SIZE]);

/* Pieces of memory, one behind the other. */
typedef struct qk__memory_piece {
    const void *data;
    size_t size;
} qk__memory_piece;
QK_MUST_CHECK qk_status qk__fingerprint_pieces(const qk__memory_piece *pieces, size_t count,
                                               char hash[QK__FINGERPRINT_SIZE], qk_error *err);

/* The first size bytes of an open file. Messages do not name it. */
QK_MUST_CHECK qk_status qk__fingerprint_fd(int fd, int64_t size,
                                           char hash[QK__FINGERPRINT_SIZE], qk_error *err);

/* Parts of an open file, as if they stood one after the other. Messages do not name it. */
typedef struct qk__span {
    int64_t offset, size;
} qk__span;
QK_MUST_CHECK qk_status qk__fingerprint_spans(int fd, const qk__span *spans, size_t count,
                                              char hash[QK__FINGERPRINT_SIZE], qk_error *err);

/* A whole file, and its size. */
QK_MUST_CHECK qk_status qk__fingerprint_file(const char *path, int64_t *size,
                                             char hash[QK__FINGERPRINT_SIZE], qk_error *err);

#endif
