/* SPDX-License-Identifier: Apache-2.0 */
/* The columns that rows are read from. */
#ifndef QK_CAPTURE_ROW_COLUMNS_H
#define QK_CAPTURE_ROW_COLUMNS_H

#include <stdbool.h>

#include <qkscope/capture.h>

/* TOKEN is only for callers that ask for strings. HEAD is for packed files: it checks their statistics. */
enum {
    QK__VECTOR,
    QK__POSITION,
    QK__BUCKET,
    QK__EXAMPLE,
    QK__WINDOW,
    QK__TOKEN,
    QK__HEAD,
    QK__ROW_COLUMNS
};

const char *qk__row_column_name(int c);

/* Finds column c in a file and checks its type. *index is -1 without the column, or without values in it, which is
 * fine for windows and strings, and with `optional` also for a column that holds no integers. */
QK_MUST_CHECK qk_status qk__row_column_find(const qk_parquet *file, int c, bool optional,
                                            int *index, qk_error *err);

#endif
