/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over rows to moments about their means. */
#include <qkscope/moments.h>

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/gram.h"

struct qk_accumulator {
    const qk_gram_kernel *kernel;
    size_t dim, panels;
    int64_t count; /* rows gathered; the tile holds `filled` more */
    size_t filled;
    bool has_pilot;
    double pilot_t, sum_t, sum_tt;
    double t[TILE_ROWS]; /* positions in the tile, about pilot_t */
    double *pilot;       /* the arrays below have panels * PANEL columns */
    double *sum, *sum_xt;
    double *tile_sum, *tile_sum_xt; /* of the rows in the tile */
    double *gram;
    double *tile;
};

qk_status qk_accumulator_create(qk_accumulator **acc, size_t dim, qk_error *err)
{
    QK_NEED(err, acc);
    *acc = NULL;
    if (dim < 1 || dim > QK_MAX_DIM)
        return qk__fail(err, QK_ERR_ARGUMENT, "vector dimension %zu is not in 1..%d", dim,
                        QK_MAX_DIM);
    qk_accumulator *a = calloc(1, sizeof *a);
    if (!a)
        return qk__nomem(err);
    a->kernel = qk__gram_kernel();
    a->dim = dim;
    a->panels = (dim + PANEL - 1) / PANEL;
    size_t columns = a->panels * PANEL;
    a->pilot = qk__calloc(columns, sizeof(double));
    a->sum = qk__calloc(columns, sizeof(double));
    a->sum_xt = qk__calloc(columns, sizeof(double));
    a->tile_sum = qk__calloc(columns, sizeof(double));
    a->tile_sum_xt = qk__calloc(columns, sizeof(double));
    a->gram = qk__calloc(columns * columns, sizeof(double));
    a->tile = qk__alloc_aligned(columns * TILE_ROWS, sizeof(double));
    if (!a->pilot || !a->sum || !a->sum_xt || !a->tile_sum || !a->tile_sum_xt || !a->gram ||
        !a->tile) {
        qk_accumulator_free(&a);
        return qk__nomem(err);
    }
    memset(a->tile, 0, columns * TILE_ROWS * sizeof(double)); /* the padding stays zero */
    *acc = a;
    return QK_OK;
}

void qk_accumulator_free(qk_accumulator **acc)
{
    assert(acc);
    if (!*acc)
        return;
    free((*acc)->pilot);
    free((*acc)->sum);
    free((*acc)->sum_xt);
    free((*acc)->tile_sum);
    free((*acc)->tile_sum_xt);
    free((*acc)->gram);
    free((*acc)->tile);
    free(*acc);
    *acc = NULL;
}

static double *tile_at(qk_accumulator *acc, size_t row, size_t column)
{
    return acc->tile + (column / PANEL * TILE_ROWS + row) * PANEL + column % PANEL;
}

/* A NaN or infinity in a column shows in its sum: find the row it came from. */
static qk_status check_finite(qk_accumulator *acc, qk_error *err)
{
    bool finite = true;
    for (size_t c = 0; c < acc->dim; c++)
        finite = finite && isfinite(acc->tile_sum[c]);
    if (finite)
        return QK_OK;
    for (size_t r = 0; r < acc->filled; r++)
        for (size_t c = 0; c < acc->dim; c++)
            if (!isfinite(*tile_at(acc, r, c)))
                return qk__fail(err, QK_ERR_INCONSISTENT,
                                "NaN or infinity in row %lld, dimension %zu",
                                (long long)acc->count + (long long)r, c);
    return qk__fail(err, QK_ERR_INCONSISTENT, "values up to row %lld are too large to sum",
                    (long long)acc->count + (long long)acc->filled - 1);
}

/* The first tile is packed about zero. Moves it to its means, where all that follows stays. */
static void set_pilot(qk_accumulator *acc)
{
    double n = (double)acc->filled, total = 0;
    for (size_t r = 0; r < acc->filled; r++)
        total += acc->t[r];
    acc->pilot_t = floor(total / n); /* an integer keeps t - pilot_t exact */
    for (size_t r = 0; r < acc->filled; r++)
        acc->t[r] -= acc->pilot_t;
    for (size_t c = 0; c < acc->dim; c++) {
        double pilot = acc->tile_sum[c] / n, sum = 0, sum_xt = 0;
        for (size_t r = 0; r < acc->filled; r++) {
            double *x = tile_at(acc, r, c);
            *x -= pilot;
            sum += *x;
            sum_xt += *x * acc->t[r];
        }
        acc->pilot[c] = pilot;
        acc->tile_sum[c] = sum;
        acc->tile_sum_xt[c] = sum_xt;
    }
    acc->has_pilot = true;
}

static qk_status flush_tile(qk_accumulator *acc, qk_error *err)
{
    if (acc->filled == 0)
        return QK_OK;
    QK_TRY(check_finite(acc, err));
    if (!acc->has_pilot)
        set_pilot(acc);
    double sum_t = 0, sum_tt = 0;
    for (size_t r = 0; r < acc->filled; r++) {
        sum_t += acc->t[r];
        sum_tt += acc->t[r] * acc->t[r];
    }
    acc->sum_t += sum_t;
    acc->sum_tt += sum_tt;
    for (size_t c = 0; c < acc->dim; c++) {
        acc->sum[c] += acc->tile_sum[c];
        acc->sum_xt[c] += acc->tile_sum_xt[c];
        acc->tile_sum[c] = acc->tile_sum_xt[c] = 0;
    }
    acc->kernel->gram(acc->tile, acc->filled, acc->panels, acc->gram);
    acc->count += (int64_t)acc->filled;
    acc->filled = 0;
    return QK_OK;
}

/* Adds rows through one of the kernel's pack functions, chosen by element type. */
#define ADD_ROWS(pack)                                                                         \
    QK_NEED(err, acc);                                                                         \
    if (rows > 0)                                                                              \
        QK_NEED(err, x, t);                                                                    \
    while (rows > 0) {                                                                         \
        size_t take = TILE_ROWS - acc->filled < rows ? TILE_ROWS - acc->filled : rows;         \
        double *tile_t = acc->t + acc->filled;                                                 \
        for (size_t r = 0; r < take; r++)                                                      \
            tile_t[r] = (double)t[r] - acc->pilot_t;                                           \
        acc->kernel->pack(x, acc->dim, acc->pilot, tile_t, take,                               \
                          acc->tile + acc->filled * PANEL, acc->tile_sum, acc->tile_sum_xt);   \
        acc->filled += take;                                                                   \
        x += take * acc->dim;                                                                  \
        t += take;                                                                             \
        rows -= take;                                                                          \
        if (acc->filled == TILE_ROWS)                                                          \
            QK_TRY(flush_tile(acc, err));                                                      \
    }                                                                                          \
    return QK_OK;

qk_status qk_accumulator_add_f32(qk_accumulator *acc, const float *x, const int64_t *t,
                                 size_t rows, qk_error *err){ADD_ROWS(pack_f32)}

qk_status qk_accumulator_add_f64(qk_accumulator *acc, const double *x, const int64_t *t,
                                 size_t rows, qk_error *err)
{
    ADD_ROWS(pack_f64)
}

/* One allocation: the struct, then mean, sum_xt and sum_xx. */
static qk_moments *moments_create(size_t dim)
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

/* Moves the sums from the pilot to the means. */
static void centre(const qk_accumulator *acc, qk_moments *m)
{
    double n = (double)acc->count;
    size_t ld = acc->panels * PANEL;
    m->count = acc->count;
    m->mean_t = acc->pilot_t + acc->sum_t / n;
    m->sum_tt = acc->sum_tt - acc->sum_t * acc->sum_t / n;
    if (m->sum_tt < 0)
        m->sum_tt = 0;
    for (size_t i = 0; i < acc->dim; i++) {
        m->mean[i] = acc->pilot[i] + acc->sum[i] / n;
        m->sum_xt[i] = acc->sum_xt[i] - acc->sum[i] * acc->sum_t / n;
        for (size_t j = i; j < acc->dim; j++) {
            double s = acc->gram[i * ld + j] - acc->sum[i] * acc->sum[j] / n;
            m->sum_xx[i * acc->dim + j] = s;
            m->sum_xx[j * acc->dim + i] = s;
        }
        if (m->sum_xx[i * acc->dim + i] < 0)
            m->sum_xx[i * acc->dim + i] = 0;
    }
}

/* Whether vectors differ by so little that the squares of it lose digits, or vanish: everything
 * computed from them would be noise. Rounding of the means is not taken for a difference. */
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

/* Correlations multiply a sum of squares, over all dimensions of queries and keys, by that of
 * the positions. Where this overflows they would be 0, though each sum is finite. */
static qk_status check_squares(const qk_moments *m, qk_error *err)
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

qk_status qk_accumulator_finish(qk_accumulator **acc, qk_moments **moments, qk_error *err)
{
    QK_NEED(err, acc);
    QK_NEED(err, *acc);
    if (!moments)
        qk_accumulator_free(acc);
    QK_NEED(err, moments);
    *moments = NULL;
    qk_moments *m = NULL;
    qk_status status = flush_tile(*acc, err);
    if (status == QK_OK && !(m = moments_create((*acc)->dim)))
        status = qk__nomem(err);
    if (status == QK_OK && (*acc)->count > 0) {
        centre(*acc, m);
        status = check_squares(m, err);
    }
    if (status != QK_OK)
        qk_moments_free(&m);
    qk_accumulator_free(acc);
    *moments = m;
    return status;
}

qk_status qk_moments_merge(const qk_moments *a, const qk_moments *b, qk_moments **merged,
                           qk_error *err)
{
    QK_NEED(err, merged);
    *merged = NULL;
    QK_NEED(err, a, b);
    if (a->dim != b->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT, "dimensions differ: %zu and %zu", a->dim,
                        b->dim);
    size_t d = a->dim;
    qk_moments *m = moments_create(d);
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

/* What has no variance has no covariance either. */
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

qk_status qk_moments_without(const qk_moments *all, const qk_moments *part, qk_moments **rest,
                             qk_error *err)
{
    QK_NEED(err, rest);
    *rest = NULL;
    QK_NEED(err, all, part);
    if (all->dim != part->dim || part->count > all->count)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%lld rows of dimension %zu cannot be taken out of %lld of dimension "
                        "%zu",
                        (long long)part->count, part->dim, (long long)all->count, all->dim);
    size_t d = all->dim;
    qk_moments *m = moments_create(d);
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

const char *qk_moments_kernel(void)
{
    return qk__gram_kernel()->name;
}
