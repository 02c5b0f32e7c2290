/* SPDX-License-Identifier: Apache-2.0 */
/* The columns that rows are read from. */
#ifndef QK_CAPTURE_ROW_COLUMNS_H
#define QK_CAPTURE_ROW_COLUMNS_H

#include <stdbool.h>

#include <qkscope/capture.h>

/* TOKEN is for who asks for strings alone. HEAD is for packed files: what their statistics say is checked. */
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

/* Finds column c in a file and checks its type: *index is -1 where there is none, or nothing in
 * it, and that is fine: of windows and strings, and with `optional` also of a column that holds no integers. */
QK_MUST_CHECK qk_status qk__row_column_find(const qk_parquet *file, int c, bool optional,
                                            int *index, qk_error *err);

#endif
