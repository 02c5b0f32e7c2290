/* SPDX-License-Identifier: Apache-2.0 */
/* How well a line in the plane of the first two components separates Q from K. */
#include <qkscope/stats.h>

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "stats/block_rows.h"
#include "stats/lda.h"
#include "stats/length.h"

void qk__lda_free(qk__lda **lda)
{
    assert(lda);
    free(*lda);
    *lda = NULL;
}

/* Element (a, b) of the pooled within-class covariance, up to a common factor. */
static double within(const qk_moments *q, const qk_moments *k, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < q->dim; i++)
        for (size_t j = 0; j < q->dim; j++)
            sum += a[i] * (q->sum_xx[i * q->dim + j] + k->sum_xx[i * q->dim + j]) * b[j];
    return sum;
}

/* A direction with less than this share of the within-class variance of the other (a millionth
 * of its standard deviation: what float32 vectors cannot hold) carries no weight. */
static const double NO_VARIANCE = 1e-12;

/* x = pseudo-inverse of the symmetric [[a, b], [b, c]] times (u, v). */
static void solve_2x2(double a, double b, double c, double u, double v, double x[2])
{
    double mid = (a + c) / 2, radius = qk__length((a - c) / 2, b);
    double angle = 0.5 * atan2(2 * b, a - c);
    double cosine = cos(angle), sine = sin(angle);
    double large = mid + radius, small = mid - radius;
    double on_large = u * cosine + v * sine, on_small = v * cosine - u * sine;
    on_large = large > 0 ? on_large / large : 0;
    on_small = small > large * NO_VARIANCE ? on_small / small : 0;
    x[0] = on_large * cosine - on_small * sine;
    x[1] = on_large * sine + on_small * cosine;
}

qk_status qk__pca_lda(const qk_pca *pca, const qk_moments *q, const qk_moments *k,
                      qk__lda **lda, qk_error *err)
{
    *lda = NULL;
    size_t d = pca->dim;
    qk__lda *l = calloc(1, sizeof *l + d * sizeof(double));
    *lda = l;
    if (!l)
        return qk__nomem(err);
    l->dim = d;
    l->weight = (double *)(l + 1);
    const double *first = pca->axes, *second = pca->axes + d;
    const qk_component *c = pca->components;
    double x[2] = {0, 0};
    double u = c[0].mu_q - c[0].mu_k;
    if (pca->num_components > 1)
        solve_2x2(within(q, k, first, first), within(q, k, first, second),
                  within(q, k, second, second), u, c[1].mu_q - c[1].mu_k, x);
    else
        x[0] = u; /* on one axis only the sign matters */
    /* Only the direction counts: scale it to unit length so that nothing over- or underflows. */
    double length = qk__length(x[0], x[1]);
    if (length > 0) {
        x[0] /= length;
        x[1] /= length;
    }
    l->bias = -x[0] * (c[0].mu_q + c[0].mu_k) / 2;
    for (size_t i = 0; i < d; i++)
        l->weight[i] = x[0] * first[i];
    if (pca->num_components > 1) {
        l->bias -= x[1] * (c[1].mu_q + c[1].mu_k) / 2;
        for (size_t i = 0; i < d; i++)
            l->weight[i] += x[1] * second[i];
    }
    return QK_OK;
}

int64_t qk__lda_count_q(const qk__lda *lda, const qk_block *rows)
{
    assert(lda && rows);
    int64_t count = 0;
    for (size_t r = 0; r < rows->rows; r++) {
        double score = lda->bias;
        for (size_t i = 0; i < lda->dim; i++)
            score += lda->weight[i] * qk__number_at(rows, r * lda->dim + i);
        count += score > 0;
    }
    return count;
}
