/* SPDX-License-Identifier: Apache-2.0 */
/* What the footers of a head's files say of its rows, without a look at the rows. */
#ifndef QK_CAPTURE_HEAD_FOOTER_H
#define QK_CAPTURE_HEAD_FOOTER_H

#include <qkscope/capture.h>

typedef struct qk__footer_range {
    bool known; /* all statistics are there */
    int64_t min, max;
} qk__footer_range;

typedef struct qk__head_footer {
    int64_t rows;
    size_t dim;                                /* 0: not told */
    qk__footer_range position, bucket, window; /* windows: 0 = full attention */
    bool begun;                                /* a file was added */
} qk__head_footer;

/* Adds file i of a head, which is open. sum is zero at first.
 * Errors: QK_ERR_INCONSISTENT: a column is missing or has another type, or a packed file was
 * replaced. */
QK_MUST_CHECK qk_status qk__head_footer_add(qk__head_footer *sum, const qk_head *head, size_t i,
                                            const qk_parquet *file, qk_error *err);

#endif
