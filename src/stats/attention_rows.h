/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of attention of one head and text from queries and keys, and the sums over them
 * (qkscope/attention.h): in double, the plain way. */
#ifndef QK_STATS_ATTENTION_ROWS_H
#define QK_STATS_ATTENTION_ROWS_H

#include <stdbool.h>

#include "stats/attention_numbers.h"

/* Row i: weights a[low .. i] of the keys that it sees, which add up to 1, and their logarithms. */
typedef struct qk__attention_row {
    int64_t i, low;
    double *a, *ln;
    double largest; /* score */
} qk__attention_row;

/* Softmax of scale q.k; keys: [row->i + 1][dim] by position. False: a score is not finite. */
bool qk__attention_weights(const double *q, const double *keys, size_t dim, double scale,
                           qk__attention_row *row);

/* One text of one head. Row i, of position i, is query i with keys 0 to i. */
typedef struct qk__attention_text {
    size_t rows, dim;
    const double *q, *k;   /* [rows][dim] as they meet in the scores, after RoPE */
    double scale;          /* factor on scores */
    int64_t window;        /* the most keys that a row sees; <= 0: all */
    const int32_t *tokens; /* [rows]; NULL: not known */
} qk__attention_text;

/* Adds its rows to sums[bin of the row's position][QK_ATTENTION_SUMS]; the last bin is that of position
 * rows - 1. QK_ERR_MALFORMED: a score is not finite. */
QK_MUST_CHECK qk_status qk__attention_add_text(const qk__attention_text *text, double *sums,
                                               qk_error *err);

/* Whether the rows, in any order, are whole texts, each from position 0 on, with the same texts on both sides; and
 * some text reaches rows that say something about distance. */
QK_MUST_CHECK qk_status qk__are_whole_texts(const qk_block *queries, const qk_block *keys,
                                            bool *whole, qk_error *err);

/* Sums over all rows of a head and its key head, which are whole texts without known tokens: by groups of texts, like
 * moments, and by row buckets. texts: of each query's example. The caller frees the arrays of *head. */
QK_MUST_CHECK qk_status qk__attention_of_rows(const qk_block *queries, const qk_block *keys,
                                              const int64_t *texts, double scale,
                                              qk__attention_head *head, qk_error *err);

#endif
