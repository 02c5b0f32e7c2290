/* SPDX-License-Identifier: Apache-2.0 */
/* What is measured of attention (qkscope/attention.h): a tally of one head's panel of queries, on its way
 * through the keys, and its rows' numbers at the end.
 *
 * Each weight is added where the kernel has it in a register, and a panel's weights together to their bin
 * of distances. Only where a power of two lies between the distances of a panel, it takes bands of
 * diagonals:
 *
 *     panels ahead      0      1      2       3       4        5        6        7        8
 *     distances       0-31   1-63  33-95  65-127  97-159  129-191  161-223  193-255  225-287
 *                    bands  bands  bands           bands                               bands */
#ifndef QK_PREFILL_TALLY_H
#define QK_PREFILL_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "prefill/panel_kernel.h"

/* The text whose rows are measured. */
typedef struct qk__tally_text {
    const int32_t *tokens;  /* in whole panels; one that is none stands before the first */
    const int32_t *repeats; /* [count] earlier copies of a query's token, of those it sees */
    const double *logs;     /* [count + 1] ln of 0, 1, 2 .. */
    int64_t count;          /* of tokens */
    int64_t window;         /* keys that a query sees, its own included; 0 = all */
} qk__tally_text;

/* Where a panel of queries of one head stands in its softmax. */
typedef struct qk__softmax {
    float *top, *total; /* [lanes] */
    float *sums;        /* [width][lanes] */
    size_t width;
} qk__softmax;

void qk__tally_start(qk__head_tally *tally);

/* kernel->softmax of the scores of the key panels from .. to-1, with a tally. */
void qk__tally_scores(const qk__panel_kernel *kernel, const qk__tally_text *text,
                      size_t query_panel, size_t from, size_t to, float *scores,
                      const qk__softmax *softmax, qk__head_tally *tally);

/* Adds the rows of a panel that has met all its keys to the sums of their buckets, the first of which is
 * first_bucket: [buckets][QK_ATTENTION_SUMS]. */
void qk__tally_add_rows(const qk__tally_text *text, size_t query_panel,
                        const qk__softmax *softmax, const qk__head_tally *tally,
                        int first_bucket, float *sums);

#endif
