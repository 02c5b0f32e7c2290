/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a head, by the names of the tables' columns: where in a qk__result_head the
 * value of each is. */
#ifndef QK_RESULTS_HEAD_COLUMNS_H
#define QK_RESULTS_HEAD_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "results/results.h"

/* Tables with one row a head (qk.csv: one row a head and component), in the order in which they are read and asked for
 * columns. */
typedef enum qk__head_table {
    QK__HEADS,
    QK__QK,
    QK__ROTATED,
    QK__METRICS,
    QK__STAGES,
    QK__ATTENDED,
    QK__ABLATED,
    QK__NUM_HEAD_TABLES,
} qk__head_table;
extern const char *const qk__head_table_files[QK__NUM_HEAD_TABLES];

typedef struct qk__head_column {
    qk_column_info info; /* the schema's; numbers that may be empty are reals */
    enum {
        QK__HEAD_REAL,     /* double; NaN: empty */
        QK__HEAD_ROWS,     /* the same, but any table may tell it */
        QK__HEAD_ID,       /* int, never empty */
        QK__HEAD_CATEGORY, /* int, a qk_category; -1: empty */
        QK__HEAD_MODEL,    /* const char * of the qk__result_model; "": empty */
    } kind;
    size_t offset;
} qk__head_column;

/* Where a result head has this column of a table of heads; false: it keeps it nowhere. */
bool qk__place_head_column(const qk__column *column, qk__head_column *placed);

#endif
