/* SPDX-License-Identifier: Apache-2.0 */
/* Moments about the means. accumulator.c leads: it takes rows. pilot_sums.c adds them up; text_moments.c keeps sums
 * apart by groups of texts; moments.c has the results; multiple_correlation.c predicts positions from them. */
#ifndef QK_STATS_MOMENTS_H
#define QK_STATS_MOMENTS_H

#include <qkscope/stats.h>

#include "stats/pilot_sums.h"
#include "stats/text_groups.h"

/* What a jackknife over texts needs of one set of rows: their sums, kept apart by groups of
 * texts. Up to 16 texts each have a group of their own; of more texts, those share one whose
 * ids agree in their last bits, in as many as leave no more than 16 groups (fewer above 800
 * dimensions, for the memory). The groups depend on the ids alone, not on their order: text_groups.h. */
typedef struct qk__text_moments {
    const qk__gram_kernel *kernel;
    size_t dim, panels;
    bool has_octaves;      /* the sums include octaves */
    double pilot_t, trace; /* trace: sum of all squared distances from the mean */
    double *pilot;         /* whole panels */
    qk__text_groups groups;
    qk__sums sums[QK_TEXT_GROUPS]; /* [groups.count] */
    double *memory;                /* of these sums */
} qk__text_moments;

/* Sums over the positions and projections of some rows, both about a pilot. */
typedef struct qk__line_sums {
    double n, t, tt, x, xt, xx;
} qk__line_sums;

/* Without groups and sums: for texts whose rows have the moments `all`. */
QK_MUST_CHECK qk_status qk__text_moments_create(qk__text_moments **texts, const qk_moments *all,
                                                const double *pilot, double pilot_t,
                                                qk_error *err);

/* Groups of texts from moments that were kept for each group: parts[i] is of the texts whose ids have label labels[i]
 * in the bits of mask, `all` of all rows, which come from num_texts texts. Groups join until there are no more than an
 * accumulator would keep. */
QK_MUST_CHECK qk_status qk__text_moments_join(qk__text_moments **texts, const qk_moments *all,
                                              const qk_moments *const *parts,
                                              const uint64_t *labels, size_t count,
                                              uint64_t mask, size_t num_texts, qk_error *err);

/* The sums of each group along an axis; axis has whole panels, padded with zeros. */
void qk__text_moments_along(const qk__text_moments *texts, const double *axis,
                            qk__line_sums lines[QK_TEXT_GROUPS]);

/* qk_accumulator_add for rows that are known to be sound. With `last`, these rows need not wait for a full batch, and
 * are not copied. */
QK_MUST_CHECK qk_status qk__accumulator_add_block(qk_accumulator *acc, const qk_block *rows,
                                                  bool last, qk_error *err);

/* Adds one row, without its text. */
QK_MUST_CHECK qk_status qk__accumulator_add_row(qk_accumulator *acc, const qk_block *rows,
                                                size_t row, qk_error *err);

/* The memory of sums that are no longer needed, for the next head: new memory from the system takes longer than the
 * sums. */
typedef struct qk__spare_sums {
    double *memory; /* NULL: there is none */
    size_t panels;
} qk__spare_sums;

/* Frees texts, except the memory that is returned; and gives that to an accumulator without rows, or frees it where it
 * does not fit. */
qk__spare_sums qk__text_moments_end(qk__text_moments **texts);
void qk__accumulator_reuse(qk_accumulator *acc, qk__spare_sums spare);

/* The number of rows with texts in a batch: blocks of that size are not copied either. */
size_t qk__accumulator_batch(size_t dim);

/* Correlations multiply a sum of squares by that of the positions: QK_ERR_INCONSISTENT where
 * this overflows, or where squares are so small that they lose digits. */
QK_MUST_CHECK qk_status qk__moments_check(const qk_moments *moments, qk_error *err);

/* The most groups of texts that are kept, for vectors of so many panels. */
uint32_t qk__most_text_groups(size_t panels);

/* All zeros. One allocation; NULL without memory. */
qk_moments *qk__moments_create(size_t dim);

/* As qk_accumulator_finish; *texts is allocated, release it with qk__text_moments_free, or NULL
 * where no rows or no texts were added. */
QK_MUST_CHECK qk_status qk__accumulator_finish_texts(qk_accumulator **acc, qk_moments **moments,
                                                     qk__text_moments **texts, qk_error *err);

void qk__text_moments_free(qk__text_moments **texts);

/* The number of texts, 0 for NULL. Counted up to 65,535: there may be more. */
size_t qk__text_moments_count(const qk__text_moments *texts);

/* Moments of the union of two sets of rows of the same dimension. */
QK_MUST_CHECK qk_status qk__moments_merge(const qk_moments *a, const qk_moments *b,
                                          qk_moments **merged, qk_error *err);

/* The reverse: moments of the rows of `all` that are not in `part`, a subset of them. A few
 * digits are lost when `part` holds nearly all of the variance.
 * Errors: QK_ERR_INCONSISTENT (dimensions differ, or part has more rows than all). */
QK_MUST_CHECK qk_status qk__moments_without(const qk_moments *all, const qk_moments *part,
                                            qk_moments **rest, qk_error *err);

/* NaN where texts is NULL or has one group, where the remaining groups have fewer than two rows a dimension, where all
 * positions or all vectors are equal; `octave` also where the sums come from kept moments. */
QK_MUST_CHECK qk_status qk__text_moments_correlate(const qk__text_moments *texts,
                                                   qk_multiple_correlation *r, qk_error *err);

#endif
