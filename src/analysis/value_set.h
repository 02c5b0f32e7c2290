/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the different values of an integer column. To be zero-initialised. */
#ifndef QK_ANALYSIS_VALUE_SET_H
#define QK_ANALYSIS_VALUE_SET_H

#include <qkscope/capture.h>

typedef struct qk__value_set {
    int64_t *items;
    size_t count;   /* with repeats, until settled */
    size_t settled; /* different values when it was last settled */
    size_t capacity;
} qk__value_set;

QK_MUST_CHECK qk_status qk__value_set_add(qk__value_set *set, const int64_t *values,
                                          size_t count, qk_error *err);

/* Moves the different values, ascending, into `values` and empties the set. */
void qk__value_set_take(qk__value_set *set, qk_values *values);
void qk__value_set_free(qk__value_set *set);

#endif
