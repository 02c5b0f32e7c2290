/* SPDX-License-Identifier: Apache-2.0 */
/* Query models as the pair kernels take them. */
#include "stats/whitening.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/moments.h"

void qk__whitening_free(qk__whitening **whitening)
{
    if (!*whitening)
        return;
    free((*whitening)->mean);
    free((*whitening)->factor);
    free(*whitening);
    *whitening = NULL;
}

/* z does not change when mean, slope and standard deviations are all multiplied by one number.
 * A power of two brings the largest deviation near 1, without rounding: products with keys
 * then overflow or vanish only where the keys' own squares do. */
static void normalise(qk__whitening *p, double *deviations, size_t count, double largest)
{
    int exponent;
    frexp(largest, &exponent);
    for (size_t i = 0; i < p->dim; i++) {
        p->mean[i] = ldexp(p->mean[i], -exponent);
        p->slope[i] = ldexp(p->slope[i], -exponent);
    }
    for (size_t i = 0; i < count; i++)
        deviations[i] = ldexp(deviations[i], -exponent);
}

qk_status qk__whitening_create(qk__whitening **whitening, const qk__query_model *model,
                               bool with_factor, qk_error *err)
{
    size_t d = model->dim, ld = (d + LANES - 1) / LANES * LANES;
    *whitening = NULL;
    qk__whitening *p = calloc(1, sizeof *p);
    if (!p)
        return qk__nomem(err);
    *p = (qk__whitening){.kernel = qk__best_pair_kernel(),
                         .dim = d,
                         .ld = ld,
                         .mean = qk__alloc_aligned(4 * ld, sizeof(double))};
    if (with_factor)
        p->factor = qk__alloc_aligned(ld * ld, sizeof(double));
    if (!p->mean || (with_factor && !p->factor)) {
        qk__whitening_free(&p);
        return qk__nomem(err);
    }
    p->slope = p->mean + ld;
    p->mirror = p->slope + ld;
    p->scale = p->mirror + ld;
    memset(p->mean, 0, 4 * ld * sizeof(double));
    memcpy(p->mean, model->mean, d * sizeof(double));
    memcpy(p->slope, model->beta, d * sizeof(double));
    memcpy(p->mirror, model->mirror, d * sizeof(double));
    double largest = 0;
    for (size_t i = 0; i < d; i++) {
        p->scale[i] = sqrt(model->variance[i]);
        largest = fmax(largest, p->scale[i]);
    }
    normalise(p, p->scale, d, largest);
    *whitening = p;
    return QK_OK;
}

static qk_status gather_bucket(qk_moments **m, const qk_block *queries,
                               const qk__query_grid *grid, const qk__query_bucket *bucket,
                               qk_error *err)
{
    qk_accumulator *acc;
    QK_TRY(qk_accumulator_create(&acc, queries->dim, err));
    qk_status status = QK_OK;
    for (size_t i = 0; i < bucket->queries && status == QK_OK; i++)
        status = qk__accumulator_add_row(acc, queries, grid->order[bucket->first + i], err);
    if (status == QK_OK)
        return qk_accumulator_finish(&acc, m, err);
    qk_accumulator_free(&acc);
    return status;
}

/* factor = H C H with C the covariance of the bucket, m the mirror:
 * C - 2 m (Cm)^T - 2 (Cm) m^T + 4 (m^T C m) m m^T; in coordinate 1 the model's own variance. */
static void set_covariance(qk__whitening *p, const qk__query_model *model, const qk_moments *m,
                           double *cm)
{
    const qk__pair_kernel *kernel = p->kernel;
    size_t d = p->dim;
    const double *mirror = p->mirror;
    for (size_t i = 0; i < d; i++)
        cm[i] = kernel->dot(m->sum_xx + i * d, mirror, d);
    double mcm = kernel->dot(cm, mirror, d);
    memset(p->factor, 0, p->ld * p->ld * sizeof(double));
    for (size_t i = 1; i < d; i++)
        for (size_t j = 1; j <= i; j++)
            p->factor[i * p->ld + j] =
                (m->sum_xx[i * d + j] - 2 * (mirror[i] * cm[j] + cm[i] * mirror[j]) +
                 4 * mcm * mirror[i] * mirror[j]) /
                (double)(m->count - 1);
    p->factor[0] = model->variance[0];
}

/* mean = the bucket's own, but mu(tau) along the drift, h = H e1. There is no slope left: mu is
 * the same for all queries of the bucket. */
static void set_mean(qk__whitening *p, const qk__query_model *model, const qk_moments *m,
                     double tau)
{
    size_t d = p->dim;
    double along = 0;
    for (int set = 0; set < 2; set++)
        for (size_t i = 0; i < d; i++) {
            double h = (i == 0) - 2 * p->mirror[0] * p->mirror[i];
            double mu = model->mean[i] + model->beta[i] * (tau - model->mean_t);
            if (set)
                p->mean[i] = m->mean[i] + h * along;
            else
                along += h * (mu - m->mean[i]);
        }
    memset(p->slope, 0, d * sizeof(double));
}

void qk__cholesky(double *matrix, size_t n, size_t ld, double least)
{
    const qk__pair_kernel *kernel = qk__best_pair_kernel();
    for (size_t i = 0; i < n; i++) {
        double *row = matrix + i * ld;
        for (size_t j = 0; j < i; j++) {
            const double *above = matrix + j * ld;
            double rest = row[j] - kernel->dot(row, above, j);
            row[j] = above[j] > 0 ? rest / above[j] : 0;
        }
        double rest = row[i] - kernel->dot(row, row, i);
        row[i] = rest > least ? sqrt(rest) : 0;
        for (size_t j = i + 1; j < n; j++)
            row[j] = 0;
    }
}

qk_status qk__whitening_set_bucket(qk__whitening *p, const qk__query_model *model,
                                   const qk_block *queries, const qk__query_grid *grid,
                                   const qk__query_bucket *bucket, qk_error *err)
{
    qk_moments *m;
    QK_TRY(gather_bucket(&m, queries, grid, bucket, err));
    set_mean(p, model, m, bucket->tau);
    set_covariance(p, model, m, p->scale); /* overwritten below */
    double total = 0;
    for (size_t i = 0; i < p->dim; i++)
        total += p->factor[i * p->ld + i];
    qk__cholesky(p->factor, p->dim, p->ld, (double)p->dim * DBL_EPSILON * total);
    double largest = 0;
    for (size_t i = 0; i < p->dim; i++) {
        largest = fmax(largest, p->factor[i * (p->ld + 1)]);
        p->scale[i] = 1;
    }
    normalise(p, p->factor, p->ld * p->ld, largest);
    qk_moments_free(&m);
    return QK_OK;
}
