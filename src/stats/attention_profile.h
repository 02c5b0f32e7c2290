/* SPDX-License-Identifier: Apache-2.0 */
/* Attention over distance: as measured, and as predicted by scores that depend only on distance (attention_profile.c);
 * such scores (attention_scores.c). */
#ifndef QK_STATS_ATTENTION_PROFILE_H
#define QK_STATS_ATTENTION_PROFILE_H

#include "stats/attention_sums.h"
#include "stats/rope_pairs.h"

/* Fills the profile of `numbers`, which have none. Row buckets without far rows have no cells. */
QK_MUST_CHECK qk_status qk__attention_profile(const qk__attention_head *head,
                                              qk_attention *numbers, qk_error *err);

/* Frees numbers that were allocated with malloc, and their profile; *numbers may be NULL. */
void qk__attention_free(qk_attention **numbers);

/* The number of scores that a prediction needs, for distances 0, 1, ... 0: there is no profile. */
size_t qk__attention_reach(const qk_attention *numbers);

/* Such scores: by the drift of keys that the mean query sees, scale * bias per token of distance; and by the mean
 * query and the mean key before RoPE, turned by the distance. The second takes rows after RoPE: queries from position
 * 8 on, keys from 4 on. */
void qk__scores_of_drift(double bias_strength, double scale, size_t reach, double *scores);
QK_MUST_CHECK qk_status qk__scores_of_means(const qk_block *queries, const qk_block *keys,
                                            const qk__pairing *pairing, double scale,
                                            size_t reach, double *scores, qk_error *err);

typedef enum qk__prediction { QK__BY_ROTATION, QK__BY_MEANS } qk__prediction;

/* Sets what a prediction says of each cell, and how well it fits, from scores[qk__attention_reach] by distance, as
 * softmax takes them. They become scratch. */
void qk__attention_predict(qk_attention *numbers, qk__prediction which, double *scores);

#endif
