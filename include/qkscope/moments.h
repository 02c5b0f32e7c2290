/* SPDX-License-Identifier: Apache-2.0 */
/* First and second moments of a set of vectors and their token positions: all
 * that PCA, correlations, drift slopes and the rotation model need. One pass.
 *
 * Rows are gathered about a pilot (the mean of the first rows), in float64, in tiles of a fixed
 * number of rows that ignores how the caller cuts its blocks: the same rows in the
 * same order give the same bits, whatever the block size, and means a thousand
 * standard deviations from zero or positions near 10^6 cost no digits. */
#ifndef QKSCOPE_MOMENTS_H
#define QKSCOPE_MOMENTS_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/status.h>

QK_BEGIN_DECLS

/* Moments about the means: n rows x_i of d values with positions t_i.
 * Divide the sums by n - 1 (or n) for (co)variances. */
typedef struct qk_moments {
    size_t dim;
    int64_t count;
    double mean_t;
    double sum_tt;  /* sum of (t - mean_t)^2 */
    double *mean;   /* [d] mean of x */
    double *sum_xt; /* [d] sum of (x - mean)(t - mean_t) */
    double *sum_xx; /* [d][d] sum of (x - mean)(x - mean)^T, both triangles */
} qk_moments;

enum { QK_MAX_DIM = 4096 };

typedef struct qk_accumulator qk_accumulator;

/* Starts with no rows. dim from 1 to QK_MAX_DIM. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_create(qk_accumulator **acc, size_t dim,
                                                     qk_error *err);
QK_API void qk_accumulator_free(qk_accumulator **acc);

/* Adds `rows` rows: x row-major rows x dim, t their positions. A NaN or infinity in
 * x is QK_ERR_INCONSISTENT and names the row (counted from the first one added) and
 * dimension; the accumulator is then of no further use. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_add_f32(qk_accumulator *acc, const float *x,
                                                      const int64_t *t, size_t rows,
                                                      qk_error *err);
QK_API QK_MUST_CHECK qk_status qk_accumulator_add_f64(qk_accumulator *acc, const double *x,
                                                      const int64_t *t, size_t rows,
                                                      qk_error *err);

/* Moments of all rows added. Frees the accumulator and sets *acc to NULL, on failure too;
 * *moments is allocated, release it with qk_moments_free. With no rows, count is 0 and so
 * is every number. Vectors so large that squares overflow (by themselves, or times those of the
 * positions: from 1e140 on), or that differ in every dimension by so little that squares lose
 * digits (below 1e-146), are QK_ERR_INCONSISTENT: scale them. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_finish(qk_accumulator **acc, qk_moments **moments,
                                                     qk_error *err);

/* ---- by groups of texts ----------------------------------------------------------------- */

/* What a jackknife over texts needs of one set of rows: their sums, kept apart by groups of
 * texts. Up to 16 texts each have a group of their own; of more texts, those share one whose
 * ids agree in their last bits, in as many as leave no more than 16 groups (fewer above 800
 * dimensions, for the memory). The groups depend on the ids alone, not on their order. */
typedef struct qk_text_moments qk_text_moments;

/* The same with the id of each row's text; rows may come in any order. Either all rows of an
 * accumulator come with texts or none, else QK_ERR_ARGUMENT. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_add_texts_f32(qk_accumulator *acc, const float *x,
                                                            const int64_t *t,
                                                            const int64_t *text, size_t rows,
                                                            qk_error *err);
QK_API QK_MUST_CHECK qk_status qk_accumulator_add_texts_f64(qk_accumulator *acc,
                                                            const double *x, const int64_t *t,
                                                            const int64_t *text, size_t rows,
                                                            qk_error *err);

/* As qk_accumulator_finish; *texts is allocated, release it with qk_text_moments_free, or NULL
 * where no rows or no texts were added. */
QK_API QK_MUST_CHECK qk_status qk_accumulator_finish_texts(qk_accumulator **acc,
                                                           qk_moments **moments,
                                                           qk_text_moments **texts,
                                                           qk_error *err);
QK_API void qk_text_moments_free(qk_text_moments **texts);

/* How many texts there are, 0 for NULL. They are counted up to 65,535: it may be more. */
QK_API size_t qk_text_moments_count(const qk_text_moments *texts);

/* ---- together and apart ----------------------------------------------------------------- */

/* Moments of the union of two sets of rows of the same dimension. */
QK_API QK_MUST_CHECK qk_status qk_moments_merge(const qk_moments *a, const qk_moments *b,
                                                qk_moments **merged, qk_error *err);

/* The reverse: moments of the rows of `all` that are not in `part`, a subset of them. A few
 * digits are lost when `part` holds nearly all of the variance.
 * Errors: QK_ERR_INCONSISTENT (dimensions differ, or part has more rows than all). */
QK_API QK_MUST_CHECK qk_status qk_moments_without(const qk_moments *all, const qk_moments *part,
                                                  qk_moments **rest, qk_error *err);
QK_API void qk_moments_free(qk_moments **moments);

/* Name of the Gram kernel this processor runs: "avx512", "avx2" or "portable".
 * All give the same bits. */
QK_API const char *qk_moments_kernel(void);

QK_END_DECLS

#endif
