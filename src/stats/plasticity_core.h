/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity by query bucket (plasticity_core.c), for the analysis itself (plasticity.c,
 * which leads) and for its repetitions. */
#ifndef QK_STATS_PLASTICITY_CORE_H
#define QK_STATS_PLASTICITY_CORE_H

#include <qkscope/stats.h>

#include "stats/key_index.h"
#include "stats/pair_space.h"
#include "stats/query_model.h"

/* What the plasticity of a head is computed from. */
typedef struct qk__plasticity_input {
    const qk_block *queries, *keys;
    /* of all keys, which query heads may share; NULL: one is made */
    const qk__key_index *index;
    /* where rows are some of those behind the moments; or NULL */
    const qk__totals *totals;
    const qk_plasticity_settings *settings;
    const uint64_t *stream; /* [2] */
    qk__ap_parts *parts;    /* with its groups, to be filled by qk__plasticity_fit; or NULL */
} qk__plasticity_input;

/* Whether pairs are limited to keys within some distance. */
static inline bool qk__pairs_are_near(const qk_plasticity_settings *settings)
{
    return settings->max_distance > 0 || settings->max_share > 0;
}

/* The keys that are not left out, the query buckets that see them, and what to free of this. */
typedef struct qk__pair_source {
    qk__pair_space space;
    qk__key_index *own_index, *present;
    qk__query_grid *grid;
    size_t *near;
} qk__pair_source;

/* To be closed even after a failure. */
QK_MUST_CHECK qk_status qk__pair_source_open(qk__pair_source *source,
                                             const qk__plasticity_input *in, qk_error *err);
void qk__pair_source_close(qk__pair_source *source);

/* Sums over all pairs, or over as many as the settings allow. On return tally->ap are means
 * (NaN without pairs) and tally->pairs the pairs in them; so are the numbers of the cells. */
QK_MUST_CHECK qk_status qk__sum_pairs(const qk__pair_source *source,
                                      const qk__query_model *model,
                                      const qk__plasticity_input *in, qk__tally *tally,
                                      qk_error *err);

/* Means over queries of the AP of their buckets: all, and each fifth and tenth of the
 * context. tenths may be NULL. */
void qk__summarise_profile(const qk__query_grid *grid, const double *ap, double *overall,
                           double fifths[QK_FIFTHS], double *tenths);

/* Only the profile, without the rows that the samples leave out: what qk__plasticity_fit finds in ap_overall and
 * fifths. NaN where nothing is left. */
QK_MUST_CHECK qk_status qk__plasticity_profile(const qk__query_model *model,
                                               const qk__plasticity_input *in,
                                               double *ap_overall, double fifths[QK_FIFTHS],
                                               qk_error *err);

/* Analyses the queries of one head, whose moments are q, against the keys of its group, with the sign of the mirror
 * (qk__query_model_create). in->stream names the head for the sampling of pairs: {layer, query head}.
 * Errors: QK_ERR_INCONSISTENT (different dimensions, more than one sliding window in the
 * queries), QK_ERR_DEGENERATE (no queries or no keys), QK_ERR_NOMEM. */
QK_MUST_CHECK qk_status qk__plasticity_fit(const qk_moments *q, const qk__plasticity_input *in,
                                           int sign, qk_plasticity **plasticity, qk_error *err);
void qk__plasticity_free(qk_plasticity **plasticity);

/* How far ap_overall of these keys, a random choice of totals->keys within texts and buckets, may be from that of all
 * keys: the standard error of a jackknife that leaves out some of the keys of every text (sampling_error.c). Needs an
 * index of these keys, weighed where their buckets chose them. 0 where they are all. */
QK_MUST_CHECK qk_status qk__plasticity_sampling_error(const qk__query_model *model,
                                                      const qk__plasticity_input *in,
                                                      double *se, qk_error *err);

#endif
