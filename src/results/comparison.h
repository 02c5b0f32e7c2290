/* SPDX-License-Identifier: Apache-2.0 */
/* Two models beside each other, head by head: what figures, page and tables of a comparison are
 * made of. comparison.c, which leads, pairs heads and takes differences; compared_means.c sums up.
 * docs/compare.md */
#ifndef QK_RESULTS_COMPARISON_H
#define QK_RESULTS_COMPARISON_H

#include <qkscope/results.h>

#include "results/results.h"

/* One of the two. */
typedef struct qk__side {
    const char *label; /* what figures call it */
    const qk__result_model *model;
    /* The level of the intervals of a table, 0..1; NaN: it has none. */
    double (*level)(const struct qk__side *side, const char *table);
    const void *context;       /* of level */
    const qk_columns *repeats; /* repeats.csv by head; NULL: there is none */
} qk__side;

/* A metric over all heads that both have. */
typedef struct qk__compared_metric {
    const qk__field *field;
    size_t heads;              /* with both numbers */
    double mean_a, mean_b;     /* of these heads */
    double spread;             /* standard deviation over heads, of a and b together */
    size_t groups;             /* key heads whose query heads these are */
    double mean, low, high, p; /* mean over groups of the mean difference of each */
    double p_corrected;        /* for all metrics */
    size_t tested, supported;  /* heads with a p-value; those with a corrected one below 0.05 */
    size_t first; /* index of its change of the first paired head; one follows for each */
} qk__compared_metric;

typedef struct qk__comparison {
    qk__side sides[2];
    bool unlike;      /* lengths of the texts differ */
    bool silent;      /* and so nothing is tested, and categories are not compared */
    double level;     /* of the intervals of differences */
    size_t num_heads; /* of either */
    qk__compared_head *heads;
    size_t num_paired, only[2];
    const qk__result_head **pairs[2]; /* [num_paired] */
    size_t num_metrics;
    qk__compared_metric *metrics;
    size_t num_changes;  /* num_metrics * num_paired */
    qk__change *changes; /* by metric and head; NaN where neither has the number */
    size_t categories[QK_NUM_CATEGORIES][QK_NUM_CATEGORIES]; /* heads of a (rows) and b */
    size_t num_top;
    size_t *top; /* heads by |top_size|, the largest first; supported ones before the others */
} qk__comparison;

/* The sides are copied, what they point to must stay. any_length: never silent. QK_ERR_INCONSISTENT: no head is in both, or
 * heads that are in both have other key heads. */
QK_MUST_CHECK qk_status qk__compare(const qk__side sides[2], double level, bool any_length,
                                    qk__comparison *comparison, qk_error *err);
void qk__comparison_free(qk__comparison *comparison);

/* Whether PC0 and PC1 of a pair of heads have nearly the same variance in a or in b: PC0 may be another axis
 * with other texts then. */
bool qk__pair_has_tie(const qk__comparison *c, size_t i);

/* Whether tables leave open which way PC0 of a pair of heads points: r_k has another sign in b,
 * and (r_q, r_k) of b is nearer to that of a with both signs turned. So it may be r_k that changed, or r_q, or
 * the convention of PC0 alone. */
bool qk__sign_is_open(const qk__comparison *c, size_t i);

/* A change below this is called supported. */
#define QK__CHANGE_LEVEL 0.05

/* ---- between the files ------------------------------------------------------------------ */

QK_MUST_CHECK qk_status qk__compare_means(qk__comparison *c, qk_error *err);

#endif
