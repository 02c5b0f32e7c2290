/* SPDX-License-Identifier: Apache-2.0 */
/* Causal attention of a block of queries to the keys of its sequence, never more than a block
 * of scores at a time. */
#ifndef QK_PREFILL_ATTENTION_H
#define QK_PREFILL_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "prefill/bf16_kernel.h"
#include "prefill/linear.h"
#include "prefill/panel_kernel.h"
#include "prefill/rounding.h"
#include "prefill/tally.h"

/* Which heads are measured, and where their rows are added up. */
typedef struct qk__measured_heads {
    qk__tally_text text;
    const int *heads; /* [count] query heads, ascending */
    size_t count;
    float *sums; /* [count][num_buckets][QK_ATTENTION_SUMS] */
    int first_bucket;
    size_t num_buckets;
} qk__measured_heads;

/* One head whose scores are changed, a panel at a time. */
typedef struct qk__changed_scores {
    const float *(*keys)(void *context,
                         size_t panel); /* instead of the keys that there are; may be NULL */
    void (*scores)(void *context, size_t query_panel, size_t key_panel,
                   float *scores); /* may be NULL */
    void *context;
} qk__changed_scores;

typedef struct qk__attention {
    const qk__panel_kernel *kernel;
    /* Keys are paired by features, head by head, values by lanes; NULL: float32. */
    const qk__bf16_kernel *bf16;
    size_t num_k_heads, group, head_dim; /* query head h looks at key head h / group */
    int64_t window;                      /* keys that a query sees, its own included; 0 = all */
    float scale;                         /* on scores */
    qk__rounding rounding;               /* rounds weights, as flash attention does */
    /* Panels of the sequence from its first token on, `step` apart: the features of key heads
     * one after the other. Values of tokens past the end are finite; NULL: only measured heads
     * attend, to no purpose but that. */
    const float *keys, *values;
    /* The panels before this one are those of another sequence: of keys_before and values_before. A multiple of
     * QK_KEY_PANELS. */
    size_t own_from;
    const float *keys_before, *values_before;
    size_t step;
    const qk__measured_heads *measured; /* NULL: none */
    const qk__changed_scores *changed;  /* NULL: none; of the only head */
} qk__attention;

/* Floats that qk__attend needs for so many panels of queries. */
size_t qk__attention_scratch(const qk__attention *attention, size_t panels);

/* Queries are the panels from first_panel of the sequence on; out gets as many features, if there are
 * values. */
void qk__attend(const qk__attention *attention, size_t first_panel, const qk__panels *queries,
                const qk__panels *out, float *scratch);

/* Scores of a panel of keys, in units of ln 2, as qk__attend has them. query: of one head, [head_dim][lanes]; scratch: as many
 * floats. */
void qk__attention_scores(const qk__attention *attention, size_t head, const float *query,
                          size_t query_panel, const float *keys, size_t key_panel,
                          float *scratch, float *scores);

#endif
