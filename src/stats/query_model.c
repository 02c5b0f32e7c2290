/* SPDX-License-Identifier: Apache-2.0 */
/* The query model from moments. */
#include "stats/query_model.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stats/project.h"

/* beta, and its length; zero when the covariance with position is what rounding leaves of 0. */
static void set_slope(qk__query_model *model, const qk_moments *q, double total)
{
    size_t d = q->dim;
    double drift = sqrt(qk__dot(q->sum_xt, q->sum_xt, d));
    if (!(drift > (double)d * DBL_EPSILON * sqrt(total * q->sum_tt)))
        return;
    for (size_t i = 0; i < d; i++)
        model->beta[i] = q->sum_xt[i] / q->sum_tt;
    model->beta_norm = drift / q->sum_tt;
}

/* The mirror lies between u = beta / |beta| and sign e1: the one that takes -u to e1, too. */
static void set_mirror(qk__query_model *model)
{
    if (model->beta_norm == 0)
        return;
    for (size_t i = 0; i < model->dim; i++)
        model->mirror[i] = model->sign * model->beta[i] / model->beta_norm;
    qk__mirror(model->mirror, model->dim);
}

/* Diagonal of H R H with R the residual sums of squares, R = sum_xx - beta beta^T sum_tt. With
 * m the mirror: R_ii - 4 m_i (Rm)_i + 4 m_i^2 m^T R m. */
static void set_variances(qk__query_model *model, const qk_moments *q, double total)
{
    size_t d = q->dim;
    double *rm = model->variance; /* R m first, overwritten entry by entry */
    double along = qk__dot(model->beta, model->mirror, d) * q->sum_tt;
    for (size_t i = 0; i < d; i++)
        rm[i] = qk__dot(q->sum_xx + i * d, model->mirror, d) - model->beta[i] * along;
    double mrm = qk__dot(model->mirror, rm, d);
    double least = (double)d * DBL_EPSILON * total;
    for (size_t i = 0; i < d; i++) {
        double m = model->mirror[i];
        double rest = q->sum_xx[i * d + i] - model->beta[i] * model->beta[i] * q->sum_tt;
        double sum = rest - 4 * m * rm[i] + 4 * m * m * mrm;
        model->variance[i] = sum > least ? sum / (double)(q->count - 1) : 0;
    }
}

qk_status qk__query_model_create(qk__query_model **model, const qk_moments *q,
                                 const qk__query_model *mirror_from, int sign, qk_error *err)
{
    size_t d = q->dim;
    qk__query_model *m = calloc(1, sizeof *m + 4 * d * sizeof(double));
    *model = m;
    if (!m)
        return qk__nomem(err);
    m->dim = d;
    m->count = q->count;
    m->mean_t = q->mean_t;
    m->sign = mirror_from ? mirror_from->sign : sign;
    m->mean = (double *)(m + 1);
    m->beta = m->mean + d;
    m->mirror = m->beta + d;
    m->variance = m->mirror + d;
    memcpy(m->mean, q->mean, d * sizeof(double));
    if (q->count < 2)
        return QK_OK;
    double total = qk__trace(q);
    set_slope(m, q, total);
    if (mirror_from)
        memcpy(m->mirror, mirror_from->mirror, d * sizeof(double));
    else
        set_mirror(m);
    set_variances(m, q, total);
    return QK_OK;
}

void qk__query_model_free(qk__query_model **model)
{
    free(*model);
    *model = NULL;
}
