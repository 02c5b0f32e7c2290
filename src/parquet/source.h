/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a Parquet file: a descriptor, and for a small file its contents, read once. */
#ifndef QK_PARQUET_SOURCE_H
#define QK_PARQUET_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

typedef struct qk__contents {
    uint8_t *bytes; /* all of the file, or NULL: not read, or too many */
} qk__contents;

typedef struct qk__source {
    int fd;
    int64_t size;
    qk__contents *contents;
} qk__source;

/* Takes over a descriptor (also on failure: close it with qk__source_close either way). What
 * is not a regular file is QK_ERR_IO. */
QK_MUST_CHECK qk_status qk__source_open(qk__source *source, int fd, qk_error *err);
/* Reads a small file whole, unless that was done. */
QK_MUST_CHECK qk_status qk__source_load(const qk__source *source, qk_error *err);
void qk__source_close(qk__source *source);

/* Bytes that one column, or the rows of a capture, may become once decoded: what a file of this
 * size can stand for. Compression and runs have no bound of their own, so that without this a
 * few bytes could ask for all memory. */
int64_t qk__source_budget(const qk__source *source);

/* Exactly `size` bytes at `offset`. */
QK_MUST_CHECK qk_status qk__source_read(const qk__source *source, void *data, size_t size,
                                        int64_t offset, qk_error *err);

#endif
