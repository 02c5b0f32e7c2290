/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a head, by the names of the tables' columns: where in a qk__result_head the
 * value of each is. */
#ifndef QK_RESULTS_HEAD_COLUMNS_H
#define QK_RESULTS_HEAD_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>

#include "results/results.h"

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

/* By name; `probability` stands for category_probability. QK_ERR_ARGUMENT says which was meant,
 * or what there is. */
QK_MUST_CHECK qk_status qk__find_head_column(const char *name, qk__head_column *column,
                                             qk_error *err);

bool qk__is_head_text(const qk__head_column *column);
/* NaN, "": empty. Of a column of the other type, likewise. */
double qk__head_number(const qk__head_column *column, const qk__result_head *head);
const char *qk__head_word(const qk__head_column *column, const qk__result_model *model,
                          const qk__result_head *head);

#endif
