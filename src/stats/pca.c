/* SPDX-License-Identifier: Apache-2.0 */
/* Principal components from moments, and what Q and K do along them. */
#include <qkscope/stats.h>

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "stats/eigen.h"
#include "stats/interaction.h"
#include "stats/moments.h"
#include "stats/pca.h"
#include "stats/project.h"

/* Below this |r_q| the sign of a component is left to r_k. */
static const double SIGN_THRESHOLD = 0.05;

static bool should_flip(double r_q, double r_k, const double *axis, size_t d)
{
    if (fabs(r_q) >= SIGN_THRESHOLD)
        return r_q < 0;
    if (r_k != 0)
        return r_k < 0;
    if (r_q != 0)
        return r_q < 0;
    return qk__largest_entry_is_negative(axis, d);
}

void qk_pca_free(qk_pca **pca)
{
    assert(pca);
    if (!*pca)
        return;
    free((*pca)->components);
    free((*pca)->axes);
    free((*pca)->mean);
    free(*pca);
    *pca = NULL;
}

/* Axes and explained variances of the rows behind m. */
static qk_status fit(const qk_moments *m, const qk_pca_settings *settings, qk_pca **pca,
                     qk_error *err)
{
    *pca = NULL;
    if (settings->components < 1)
        return qk__fail(err, QK_ERR_ARGUMENT, "number of components %d is less than 1",
                        settings->components);
    double total = qk__trace(m);
    if (!(total > 0))
        return qk__fail(err, QK_ERR_DEGENERATE, "all %lld vectors are equal: no variance",
                        (long long)m->count);
    size_t d = m->dim, count = (size_t)settings->components;
    if (count > d)
        count = d;
    if ((int64_t)count > m->count - 1)
        count = (size_t)(m->count - 1);

    qk_pca *p = calloc(1, sizeof *p);
    double *values = malloc(count * sizeof(double));
    qk_status status = QK_OK;
    if (p) {
        p->dim = d;
        p->num_components = count;
        p->components = calloc(count, sizeof *p->components);
        p->axes = malloc(count * d * sizeof(double));
        p->mean = malloc(d * sizeof(double));
    }
    if (!p || !values || !p->components || !p->axes || !p->mean) {
        status = qk__nomem(err);
        goto done;
    }
    memcpy(p->mean, m->mean, d * sizeof(double));
    status = qk__eigen_largest(m->sum_xx, d, count, values, p->axes, err);
    for (size_t i = 0; i < count && status == QK_OK; i++)
        p->components[i].explained_variance = values[i] > 0 ? values[i] / total : 0;
done:
    free(values);
    if (status != QK_OK)
        qk_pca_free(&p);
    *pca = p;
    return status;
}

static void flip(qk__axis_view *on)
{
    on->mu = -on->mu;
    on->slope = -on->slope;
    on->r = -on->r;
}

static void describe_component(const qk_moments *q, const qk_moments *k, double trace_q,
                               double trace_k, double *axis, double *scratch, qk_component *out)
{
    qk__axis_view on_q = qk__project(q, trace_q, axis, scratch);
    qk__axis_view on_k = qk__project(k, trace_k, axis, scratch);
    if (should_flip(on_q.r, on_k.r, axis, q->dim)) {
        qk__negate(axis, q->dim);
        flip(&on_q);
        flip(&on_k);
    }
    out->r_q = on_q.r;
    out->r_k = on_k.r;
    out->p_q = on_q.p;
    out->p_k = on_k.p;
    out->mu_q = on_q.mu;
    out->mu_k = on_k.mu;
    out->alpha = on_q.slope;
    out->beta = on_k.slope;
    out->sd_q = on_q.sd;
    out->sd_k = on_k.sd;
}

/* |Cov(x, t)|^2 / (var t * tr Cov(x)); undefined without variance. */
static double linear_share(double drift_squared, double sum_tt, double total)
{
    return sum_tt > 0 && total > 0 ? drift_squared / (sum_tt * total) : NAN;
}

/* linear_share of the pooled rows once each kind's vectors are centred on their own mean.
 * Their positions are not: t has its pooled mean. */
static double overhead(const qk_moments *q, const qk_moments *k, double pooled_tt, double total)
{
    double squared = 0;
    for (size_t i = 0; i < q->dim; i++) {
        double drift = q->sum_xt[i] + k->sum_xt[i];
        squared += drift * drift;
    }
    return linear_share(squared, pooled_tt, total);
}

static void describe_head(const qk_moments *q, const qk_moments *k, double pooled_tt,
                          const qk_pca_settings *settings, qk_pca *p)
{
    const qk_component *first = &p->components[0];
    double trace_q = qk__trace(q), trace_k = qk__trace(k);
    p->pos_var_q = p->pos_var_k = 0;
    for (size_t i = 0; i < p->num_components; i++) {
        const qk_component *c = &p->components[i];
        p->pos_var_q += c->explained_variance * c->r_q * c->r_q;
        p->pos_var_k += c->explained_variance * c->r_k * c->r_k;
    }
    p->category = qk__classify(first->r_q, first->r_k, settings->low, settings->high);
    p->pos_var_q_pc0_share =
        p->pos_var_q > 0 ? first->explained_variance * first->r_q * first->r_q / p->pos_var_q
                         : NAN;
    p->lin_var_q = linear_share(qk__dot(q->sum_xt, q->sum_xt, q->dim), q->sum_tt, trace_q);
    p->lin_var_k = linear_share(qk__dot(k->sum_xt, k->sum_xt, k->dim), k->sum_tt, trace_k);
    p->positional_overhead = overhead(q, k, pooled_tt, trace_q + trace_k);
    double gap = first->mu_q - first->mu_k;
    double noise = first->sd_q * first->sd_q + first->sd_k * first->sd_k;
    p->separation = fabs(gap);
    p->fisher = noise > 0 ? gap * gap / noise : NAN;
    p->lda_accuracy = NAN;
    p->mu_q_beta = first->mu_q * first->beta;
    p->alpha_beta = first->alpha * first->beta;
    p->key_share = qk__key_share(q, k);
    p->score_rank = NAN;
}

qk_status qk_pca_combined(const qk_moments *q, const qk_moments *k,
                          const qk_pca_settings *settings, qk_pca **pca, qk_error *err)
{
    QK_NEED(err, pca);
    *pca = NULL;
    QK_NEED(err, q, k, settings);
    if (q->dim != k->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "queries have dimension %zu but their keys have %zu", q->dim, k->dim);
    if (q->count < 2 || k->count < 2)
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "%lld query and %lld key rows: at least 2 of each are needed",
                        (long long)q->count, (long long)k->count);
    double *scratch = malloc(q->dim * sizeof *scratch);
    qk_moments *pooled = NULL;
    qk_pca *p = NULL;
    qk_status status = scratch ? qk__moments_merge(q, k, &pooled, err) : qk__nomem(err);
    if (status == QK_OK)
        status = fit(pooled, settings, &p, err);
    if (status == QK_OK) {
        double trace_q = qk__trace(q), trace_k = qk__trace(k);
        p->n_q = q->count;
        p->n_k = k->count;
        for (size_t i = 0; i < p->num_components; i++)
            describe_component(q, k, trace_q, trace_k, p->axes + i * p->dim, scratch,
                               &p->components[i]);
        describe_head(q, k, pooled->sum_tt, settings, p);
        *pca = p;
    }
    qk_moments_free(&pooled);
    free(scratch);
    return status;
}

qk_status qk__pca_single(const qk_moments *moments, const qk_pca_settings *settings,
                         qk_pca **pca, qk_error *err)
{
    *pca = NULL;
    if (moments->count < 2)
        return qk__fail(err, QK_ERR_DEGENERATE, "%lld rows: at least 2 are needed",
                        (long long)moments->count);
    qk_pca *p;
    QK_TRY(fit(moments, settings, &p, err));
    double *scratch = malloc(p->dim * sizeof *scratch);
    if (!scratch) {
        qk_pca_free(&p);
        return qk__nomem(err);
    }
    double total = qk__trace(moments);
    p->n_q = moments->count;
    for (size_t i = 0; i < p->num_components; i++) {
        double *axis = p->axes + i * p->dim;
        if (qk__largest_entry_is_negative(axis, p->dim))
            qk__negate(axis, p->dim);
        qk__axis_view on = qk__project(moments, total, axis, scratch);
        qk_component *c = &p->components[i];
        c->r_q = on.r;
        c->p_q = on.p;
        c->mu_q = on.mu;
        c->sd_q = on.sd;
        c->alpha = on.slope;
        c->r_k = c->p_k = c->mu_k = c->sd_k = c->beta = NAN;
    }
    free(scratch);
    p->category = QK_MIXED;
    p->pos_var_q = p->pos_var_k = p->pos_var_q_pc0_share = NAN;
    p->lin_var_q = p->lin_var_k = p->positional_overhead = NAN;
    p->separation = p->fisher = p->lda_accuracy = p->mu_q_beta = p->alpha_beta = NAN;
    p->key_share = p->score_rank = NAN;
    *pca = p;
    return QK_OK;
}
