/* SPDX-License-Identifier: Apache-2.0 */
/* Conditions on heads, such as "category == mixed and not abs(r_k) < 0.2" (docs/heads.md):
 *
 *     condition:  part {"or" part}         part:       term {"and" term}
 *     term:       "not" term | "(" condition ")" | value operator value
 *     operator:   == != < <= > >=          value:      column | abs(column) | number | text
 *
 * One of the two values is a column. A text is a word or stands in quotes. A comparison with an
 * empty field is false. */
#ifndef QK_RESULTS_HEAD_FILTER_H
#define QK_RESULTS_HEAD_FILTER_H

#include "results/head_columns.h"

/* A value of a comparison. A sort key is one, too. */
typedef struct qk__head_value {
    bool is_column, magnitude; /* magnitude: its absolute value */
    qk__head_column column;
    const char *text; /* of no column: as it was written */
    double number;    /* likewise; NaN: it is none */
} qk__head_value;

/* abs(column) or column. */
QK_MUST_CHECK qk_status qk__parse_head_value(const char *text, qk__head_value *value,
                                             qk_error *err);
double qk__head_value_number(const qk__head_value *value, const qk__head_row *row);
const char *qk__head_value_text(const qk__head_value *value, const qk__head_row *row);

typedef struct qk__head_filter qk__head_filter;

/* QK_ERR_ARGUMENT says at which character of the text something is wrong. *filter is NULL on
 * failure. */
QK_MUST_CHECK qk_status qk__parse_head_filter(qk__head_filter **filter, const char *text,
                                              qk_error *err);
bool qk__filter_keeps_head(const qk__head_filter *filter, const qk__head_row *row);
/* Column i of those that it compares; NULL beyond the last. */
const qk__head_column *qk__filter_column(const qk__head_filter *filter, size_t i);
void qk__head_filter_free(qk__head_filter **filter);

#endif
