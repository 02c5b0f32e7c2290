/* SPDX-License-Identifier: Apache-2.0 */
/* The heads that the row groups of a packed file belong to. */
#ifndef QK_CAPTURE_PACKED_FILE_H
#define QK_CAPTURE_PACKED_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/capture.h>

#include "base/fingerprint.h"
#include "parquet/reader.h"

/* The rows of one head in a file. */
typedef struct qk__packed_part {
    int head;
    size_t file; /* free for the caller */
    qk_head_part part;
} qk__packed_part;

/* Reads the footer of a packed file, and column `head` of row groups whose statistics are not enough; *parts, to be
 * released with free(), are in the order of heads. Errors: those of qk_parquet_open; QK_ERR_INCONSISTENT: a row group
 * of two heads, a head in two places of the file, numbers of no heads, no such column. */
QK_MUST_CHECK qk_status qk__packed_file_parts(const char *path, qk__packed_part **parts,
                                              size_t *count, qk_error *err);

/* Refuses a part that the file does not have: it was replaced since. */
QK_MUST_CHECK qk_status qk__packed_check(const qk_parquet *file, const qk_head_part *part,
                                         qk_error *err);

/* Size and, with `hash`, fingerprint of a file of a head. file: open, or NULL. */
QK_MUST_CHECK qk_status qk__head_file_print(const qk_head *head, size_t i,
                                            const qk_parquet *file, bool hash,
                                            qk__file_print *print, qk_error *err);

#endif
