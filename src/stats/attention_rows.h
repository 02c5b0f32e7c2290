/* SPDX-License-Identifier: Apache-2.0 */
/* The sums over rows of attention (qkscope/attention.h) of one head and text, from all of its queries and
 * keys: in double, the plain way. */
#ifndef QK_STATS_ATTENTION_ROWS_H
#define QK_STATS_ATTENTION_ROWS_H

#include <stdbool.h>

#include "stats/attention_numbers.h"

/* One text of one head. Row i, of position i, is query i with keys 0 to i. */
typedef struct qk__attention_text {
    size_t rows, dim;
    const double *q, *k;   /* [rows][dim] as they meet in the scores, after RoPE */
    double scale;          /* of scores */
    int64_t window;        /* keys that a row sees at most; <= 0: all */
    const int32_t *tokens; /* [rows]; NULL: not known */
} qk__attention_text;

/* Adds its rows to sums[bin of the row's position][QK_ATTENTION_SUMS]; the last bin is that of position
 * rows - 1. QK_ERR_MALFORMED: a score is not finite. */
QK_MUST_CHECK qk_status qk__attention_add_text(const qk__attention_text *text, double *sums,
                                               qk_error *err);

/* Whether rows are whole texts, one after the other, each from position 0 on, and the same ones on both sides;
 * and some text reaches rows that say something about distance. */
bool qk__are_whole_texts(const qk_block *queries, const qk_block *keys);

/* All rows of a head and its key head, which are whole texts, and whose tokens are not known: sums by groups of texts,
 * as moments have them, and row buckets. Arrays of *head are the caller's, to be freed. */
QK_MUST_CHECK qk_status qk__attention_of_rows(const qk_block *queries, const qk_block *keys,
                                              double scale, qk__attention_head *head,
                                              qk_error *err);

#endif
