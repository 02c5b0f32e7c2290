/* SPDX-License-Identifier: Apache-2.0 */
/* Moments about the means: merged with those of other rows, and without some rows. */
#include "stats/moments.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"

/* One allocation: the struct, then mean, sum_xt and sum_xx. */
qk_moments *qk__moments_create(size_t dim)
{
    qk_moments *m = calloc(1, sizeof *m + (2 * dim + dim * dim) * sizeof(double));
    if (!m)
        return NULL;
    m->dim = dim;
    m->mean = (double *)(m + 1);
    m->sum_xt = m->mean + dim;
    m->sum_xx = m->sum_xt + dim;
    return m;
}

void qk_moments_free(qk_moments **moments)
{
    assert(moments);
    free(*moments);
    *moments = NULL;
}

/* Whether vectors differ by so little that squares lose digits or vanish: everything computed from them would be
 * noise. Rounding of the means does not count as a difference. */
static bool squares_vanish(const qk_moments *m)
{
    const double smallest = DBL_MIN / DBL_EPSILON * (double)m->count;
    bool differ = false;
    for (size_t i = 0; i < m->dim; i++) {
        double square = m->sum_xx[i * m->dim + i];
        double noise = 64 * DBL_EPSILON * fabs(m->mean[i]) * sqrt((double)m->count);
        if (square >= smallest)
            return false;
        differ = differ || sqrt(square) > noise || fabs(m->sum_xt[i]) > noise * sqrt(m->sum_tt);
    }
    return differ;
}

/* The sum of squares is one over all dimensions of queries and keys. Where the product
 * overflows correlations would be 0, though each sum is finite. */
qk_status qk__moments_check(const qk_moments *m, qk_error *err)
{
    const double largest = DBL_MAX / 0x1p20 / (double)m->dim / (1 + m->sum_tt);
    for (size_t i = 0; i < m->dim; i++)
        if (!(m->sum_xx[i * m->dim + i] <= largest) || !isfinite(m->sum_xt[i]))
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "values of dimension %zu are too large to square", i);
    if (squares_vanish(m))
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "the vectors differ by too little to square it");
    return QK_OK;
}

qk_status qk__moments_merge(const qk_moments *a, const qk_moments *b, qk_moments **merged,
                            qk_error *err)
{
    *merged = NULL;
    if (a->dim != b->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT, "dimensions differ: %zu and %zu", a->dim,
                        b->dim);
    size_t d = a->dim;
    qk_moments *m = qk__moments_create(d);
    if (!m)
        return qk__nomem(err);
    *merged = m;
    m->count = a->count + b->count;
    if (m->count == 0)
        return QK_OK;
    /* Sums about the common mean: those about the two means, plus the spread between
     * the means (Chan, Golub and LeVeque, 1979). */
    double share = (double)b->count / (double)m->count;
    double weight = (double)a->count * share;
    double step_t = b->mean_t - a->mean_t;
    m->mean_t = a->mean_t + step_t * share;
    m->sum_tt = a->sum_tt + b->sum_tt + weight * step_t * step_t;
    for (size_t i = 0; i < d; i++) {
        double step = b->mean[i] - a->mean[i];
        m->mean[i] = a->mean[i] + step * share;
        m->sum_xt[i] = a->sum_xt[i] + b->sum_xt[i] + weight * step * step_t;
        for (size_t j = 0; j < d; j++)
            m->sum_xx[i * d + j] = a->sum_xx[i * d + j] + b->sum_xx[i * d + j] +
                                   weight * (step * (b->mean[j] - a->mean[j]));
    }
    return QK_OK;
}

/* from - part - weight step^2, unless that is what rounding leaves of nothing: the step is a
 * difference of means, whose own rounding counts weight times. */
static double spread_left(double from, double part, double weight, double step, double mean)
{
    double left = from - part - weight * step * step;
    double noise = 64 * DBL_EPSILON * (from + weight * fabs(step) * fabs(mean));
    return left > noise ? left : 0;
}

/* Dimensions without variance have no covariance either. */
static void forget_constants(qk_moments *m)
{
    size_t d = m->dim;
    for (size_t i = 0; i < d; i++) {
        bool constant = m->sum_xx[i * d + i] == 0;
        if (constant || m->sum_tt == 0)
            m->sum_xt[i] = 0;
        for (size_t j = 0; j < d && constant; j++)
            m->sum_xx[i * d + j] = m->sum_xx[j * d + i] = 0;
    }
}

qk_status qk__moments_without(const qk_moments *all, const qk_moments *part, qk_moments **rest,
                              qk_error *err)
{
    *rest = NULL;
    if (all->dim != part->dim || part->count > all->count)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%lld rows of dimension %zu cannot be taken out of %lld of dimension "
                        "%zu",
                        (long long)part->count, part->dim, (long long)all->count, all->dim);
    size_t d = all->dim;
    qk_moments *m = qk__moments_create(d);
    if (!m)
        return qk__nomem(err);
    *rest = m;
    m->count = all->count - part->count;
    if (m->count == 0)
        return QK_OK;
    /* The merge of part and rest, solved for rest. */
    double share = (double)part->count / (double)m->count;
    double weight = (double)all->count * share;
    double step_t = all->mean_t - part->mean_t;
    m->mean_t = all->mean_t + step_t * share;
    m->sum_tt = spread_left(all->sum_tt, part->sum_tt, weight, step_t, all->mean_t);
    for (size_t i = 0; i < d; i++) {
        double step = all->mean[i] - part->mean[i];
        m->mean[i] = all->mean[i] + step * share;
        m->sum_xt[i] = all->sum_xt[i] - part->sum_xt[i] - weight * step * step_t;
        for (size_t j = 0; j < d; j++)
            m->sum_xx[i * d + j] = all->sum_xx[i * d + j] - part->sum_xx[i * d + j] -
                                   weight * (step * (all->mean[j] - part->mean[j]));
        m->sum_xx[i * d + i] = spread_left(all->sum_xx[i * d + i], part->sum_xx[i * d + i],
                                           weight, step, all->mean[i]);
    }
    forget_constants(m);
    return QK_OK;
}
