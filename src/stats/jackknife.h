/* SPDX-License-Identifier: Apache-2.0 */
/* Delete-a-group jackknife over examples: who is in which group, the moments of each group,
 * and the interval that repetitions without one group each give. docs/intervals.md */
#ifndef QK_STATS_JACKKNIFE_H
#define QK_STATS_JACKKNIFE_H

#include <stdbool.h>

#include <qkscope/stats.h>

enum { QK_MAX_GROUPS = 32 };

/* Examples dealt in turn, in order of their ids, into groups. */
typedef struct qk__example_groups {
    uint32_t count;     /* of groups, at most QK_MAX_GROUPS */
    size_t num_ids;     /* examples */
    const int64_t *ids; /* ascending */
} qk__example_groups;

/* Groups of the examples found in the sample. */
QK_MUST_CHECK qk_status qk__example_groups_create(qk__example_groups **groups,
                                                  const qk_block *sample, qk_error *err);
void qk__example_groups_free(qk__example_groups **groups);

/* The group of each row: that of its example, or where the groups do not know it, of the next
 * id that they know. */
QK_MUST_CHECK qk_status qk__example_groups_assign(const qk__example_groups *groups,
                                                  const qk_block *sample, uint32_t **group,
                                                  qk_error *err);

/* Moments of the rows of each group, sample->group being set; those of no rows have count 0.
 * Release each with qk_moments_free. On failure all of parts is NULL. */
QK_MUST_CHECK qk_status qk__group_moments(const qk_block *sample, uint32_t groups,
                                          qk_moments *parts[QK_MAX_GROUPS], qk_error *err);

/* Estimate and the values of the repetitions to an interval at `level` (0..1). Correlations
 * go through atanh. NaN bounds with fewer than two groups or where a value is undefined. */
void qk__jackknife_interval(double estimate, const double *values, uint32_t groups,
                            double level, bool is_correlation, double *lo, double *hi);

#endif
