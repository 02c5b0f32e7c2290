/* SPDX-License-Identifier: Apache-2.0 */
/* Moments about the means. accumulator.c leads: it takes in rows. pilot_sums.c adds them up;
 * text_moments.c keeps sums apart by groups of texts; moments.c is what they end in. */
#ifndef QK_STATS_MOMENTS_H
#define QK_STATS_MOMENTS_H

#include <qkscope/stats.h>

#include "stats/pilot_sums.h"
#include "stats/text_groups.h"

/* Groups of texts: see text_groups.h. */
struct qk_text_moments {
    const qk__gram_kernel *kernel;
    size_t dim, panels;
    bool has_octaves;      /* the sums know those of the rows */
    double pilot_t, trace; /* trace: sum of all squared distances from the mean */
    double *pilot;         /* whole panels */
    qk__text_groups groups;
    qk__sums sums[QK_TEXT_GROUPS]; /* [groups.count] */
    double *memory;                /* theirs */
};

/* Sums over the positions and projections of some rows, both about a pilot. */
typedef struct qk__line_sums {
    double n, t, tt, x, xt, xx;
} qk__line_sums;

/* Without groups and sums: of texts whose rows have the moments `all`. */
QK_MUST_CHECK qk_status qk__text_moments_create(qk_text_moments **texts, const qk_moments *all,
                                                const double *pilot, double pilot_t,
                                                qk_error *err);

/* Texts in groups, made of moments that were kept for each group: parts[i] is of the texts whose ids have
 * label labels[i] in the bits of mask, `all` of all rows, which come from num_texts texts. Groups join
 * until there are no more than an accumulator would keep. */
QK_MUST_CHECK qk_status qk__text_moments_join(qk_text_moments **texts, const qk_moments *all,
                                              const qk_moments *const *parts,
                                              const uint64_t *labels, size_t count,
                                              uint64_t mask, size_t num_texts, qk_error *err);

/* What each group does along an axis; axis has whole panels, padded with zeros. */
void qk__text_moments_along(const qk_text_moments *texts, const double *axis,
                            qk__line_sums lines[QK_TEXT_GROUPS]);

/* qk_accumulator_add of rows that are known to be sound. Where no more come (last), these need not
 * wait to make up a batch, and are not copied. */
QK_MUST_CHECK qk_status qk__accumulator_add_block(qk_accumulator *acc, const qk_block *rows,
                                                  bool last, qk_error *err);

/* Adds one of them, without its text. */
QK_MUST_CHECK qk_status qk__accumulator_add_row(qk_accumulator *acc, const qk_block *rows,
                                                size_t row, qk_error *err);

/* The memory of sums that are no longer needed, for those of the next head: having so much from
 * the system anew takes longer than the sums. */
typedef struct qk__spare_sums {
    double *memory; /* NULL: there is none */
    size_t panels;
} qk__spare_sums;

/* Frees texts, but for what is returned; and gives it to an accumulator without rows, or frees
 * it where it does not fit. */
qk__spare_sums qk__text_moments_end(qk_text_moments **texts);
void qk__accumulator_reuse(qk_accumulator *acc, qk__spare_sums spare);

/* Rows with texts are looked at in batches of so many: what comes in blocks of that size is not
 * copied either. */
size_t qk__accumulator_batch(size_t dim);

/* Correlations multiply a sum of squares by that of the positions: QK_ERR_INCONSISTENT where
 * this overflows, or where squares are so small that they lose digits. */
QK_MUST_CHECK qk_status qk__moments_check(const qk_moments *moments, qk_error *err);

/* Groups of texts that are kept of vectors of so many panels, at most. */
uint32_t qk__most_text_groups(size_t panels);

/* All zeros. One allocation; NULL without memory. */
qk_moments *qk__moments_create(size_t dim);

#endif
