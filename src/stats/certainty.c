/* SPDX-License-Identifier: Apache-2.0 */
/* How far a head's category and r_q depend on single texts. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/stats.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/certainty.h"
#include "stats/jackknife.h"

static const double LEVEL = 0.95;
/* Up to this share of PC0's variance in PC1, PC0 may turn a little, but stays the first. */
static const double ALONE = 0.5;

/* ---- along an axis ---------------------------------------------------------------------- */

static void add_sums(qk__line_sums *to, const qk__line_sums *more)
{
    to->n += more->n;
    to->t += more->t;
    to->tt += more->tt;
    to->x += more->x;
    to->xt += more->xt;
    to->xx += more->xx;
}

/* Projects the sums of each united group; axis has whole panels. */
static void project(const qk__text_moments *texts, const qk__text_labels *l, const double *axis,
                    qk__line_sums lines[QK_TEXT_GROUPS])
{
    qk__line_sums own[QK_TEXT_GROUPS];
    qk__text_moments_along(texts, axis, own);
    memset(lines, 0, QK_TEXT_GROUPS * sizeof *lines);
    for (uint32_t g = 0; g < texts->groups.count; g++)
        add_sums(&lines[qk__text_labels_find(l, texts->groups.label[g])], &own[g]);
}

/* The correlation of the rows outside group `out`; NaN without such rows. */
static double r_without(const qk__line_sums *lines, uint32_t count, uint32_t out,
                        const qk__text_moments *texts)
{
    qk__line_sums rest = {0};
    for (uint32_t g = 0; g < count; g++)
        if (g != out)
            add_sums(&rest, &lines[g]);
    if (rest.n == 0)
        return NAN;
    double tt = rest.tt - rest.t * rest.t / rest.n;
    double xx = rest.xx - rest.x * rest.x / rest.n;
    double xt = rest.xt - rest.x * rest.t / rest.n;
    /* What is left of equal numbers is rounding; no variance is no correlation. */
    if (tt <= 64 * DBL_EPSILON * rest.tt ||
        xx <= (double)texts->dim * DBL_EPSILON * texts->trace)
        return 0;
    double r = xt / sqrt(tt * xx);
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

/* ---- the answer ------------------------------------------------------------------------- */

/* The groups' shares of the spread of positions, by which they affect r. */
static void weigh_groups(const qk__line_sums *lines, uint32_t count,
                         double weight[QK_TEXT_GROUPS])
{
    qk__line_sums all = {0};
    for (uint32_t g = 0; g < count; g++)
        add_sums(&all, &lines[g]);
    for (uint32_t g = 0; g < count; g++)
        weight[g] = lines[g].tt + all.t / all.n * (lines[g].n * all.t / all.n - 2 * lines[g].t);
}

/* Only over groups with queries: the others say nothing about r_q. */
static void find_interval(double r_q, const qk__line_sums *lines, const double *weight,
                          const double *without, uint32_t count, qk_certainty *certainty)
{
    double values[QK_TEXT_GROUPS];
    uint32_t used = 0;
    for (uint32_t g = 0; g < count; g++)
        if (lines[g].n > 0)
            values[used++] = without[g];
    qk__jackknife_interval(r_q, values, used, qk__jackknife_degrees(weight, count), LEVEL, true,
                           &certainty->r_q_lo, &certainty->r_q_hi);
}

/* The sampling distribution of both correlations by the jackknife; false: a repetition has none. */
static bool find_spread(const qk_component *first, const double *r_q, const double *r_k,
                        uint32_t count, double effective, qk__sampling_spread *s)
{
    double mean_q = 0, mean_k = 0, share = (double)(count - 1) / count;
    *s = (qk__sampling_spread){
        .z_q = atanh(first->r_q), .z_k = atanh(first->r_k), .degrees = effective - 1};
    for (uint32_t g = 0; g < count; g++) {
        mean_q += atanh(r_q[g]) / count;
        mean_k += atanh(r_k[g]) / count;
    }
    for (uint32_t g = 0; g < count; g++) {
        double q = atanh(r_q[g]) - mean_q, k = atanh(r_k[g]) - mean_k;
        s->var_q += share * q * q;
        s->var_k += share * k * k;
        s->cov += share * q * k;
    }
    return isfinite(s->z_q) && isfinite(s->z_k) && isfinite(s->var_q) && isfinite(s->var_k);
}

static qk_status find_probability(const qk_pca *pca, const qk_pca_settings *settings,
                                  const qk__text_moments *q_texts,
                                  const qk__text_moments *k_texts, const qk__text_labels *l,
                                  double *r_q, double *r_k, qk_certainty *certainty,
                                  qk_error *err)
{
    qk__sampling_spread spread;
    qk__tie tie;
    const qk_component *first = &pca->components[0];
    bool several = pca->num_components > 1;
    if (!find_spread(first, r_q, r_k, l->count, certainty->effective, &spread))
        return QK_OK;
    if (!several || !(first[1].explained_variance > ALONE * first->explained_variance)) {
        if (several)
            QK_TRY(qk__category_refits(pca, q_texts, k_texts, l, r_q, r_k, err));
        if (!find_spread(first, r_q, r_k, l->count, certainty->effective, &spread))
            return QK_OK;
        qk__category_shares(&spread, settings, certainty->probability);
        return QK_OK;
    }
    QK_TRY(qk__category_draws(pca, settings, q_texts, k_texts, l, certainty->effective, &tie,
                              err));
    memcpy(certainty->probability, tie.probability, sizeof tie.probability);
    certainty->near_tie = tie.near;
    return QK_OK;
}

qk_status qk__pca_certainty(const qk_pca *pca, const qk_pca_settings *settings,
                            const qk__text_moments *q_texts, const qk__text_moments *k_texts,
                            qk_certainty *certainty, qk_error *err)
{
    *certainty = (qk_certainty){
        .effective = NAN, .category_probability = NAN, .r_q_lo = NAN, .r_q_hi = NAN};
    for (int i = 0; i < QK_NUM_CATEGORIES; i++)
        certainty->probability[i] = NAN;
    if (!q_texts || !k_texts)
        return QK_OK;
    if (q_texts->dim != pca->dim || k_texts->dim != pca->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "dimensions differ: %zu of the axes, %zu and %zu of the texts",
                        pca->dim, q_texts->dim, k_texts->dim);
    /* Without any variance r is 0, whichever texts are left out: that is no certainty. */
    const qk_component *first = &pca->components[0];
    if ((first->r_q == 0 && first->p_q == 1) || (first->r_k == 0 && first->p_k == 1))
        return QK_OK;
    const qk__text_groups *of_q = &q_texts->groups, *of_k = &k_texts->groups;
    qk__text_labels l;
    qk__text_labels_unite(&l, of_q->label, of_q->count, of_q->mask, of_k->label, of_k->count,
                          of_k->mask, of_q->limit < of_k->limit ? of_q->limit : of_k->limit);
    certainty->groups = l.count;
    if (l.count < 2)
        return QK_OK;
    double *axis = qk__calloc(q_texts->panels * PANEL, sizeof *axis);
    if (!axis)
        return qk__nomem(err);
    memcpy(axis, pca->axes, pca->dim * sizeof *axis);
    qk__line_sums q[QK_TEXT_GROUPS], k[QK_TEXT_GROUPS];
    project(q_texts, &l, axis, q);
    project(k_texts, &l, axis, k);
    free(axis);
    double r_q[QK_TEXT_GROUPS], r_k[QK_TEXT_GROUPS];
    for (uint32_t g = 0; g < l.count; g++) {
        r_q[g] = r_without(q, l.count, g, q_texts);
        r_k[g] = r_without(k, l.count, g, k_texts);
    }
    double weight_q[QK_TEXT_GROUPS], weight_k[QK_TEXT_GROUPS];
    weigh_groups(q, l.count, weight_q);
    weigh_groups(k, l.count, weight_k);
    certainty->effective =
        fmin(qk__effective_groups(weight_q, l.count), qk__effective_groups(weight_k, l.count));
    find_interval(first->r_q, q, weight_q, r_q, l.count, certainty);
    if (certainty->effective >= QK_FEW_TEXTS && qk__jackknife_degrees(weight_q, l.count) > 0 &&
        qk__jackknife_degrees(weight_k, l.count) > 0)
        QK_TRY(find_probability(pca, settings, q_texts, k_texts, &l, r_q, r_k, certainty, err));
    certainty->category_probability = certainty->probability[pca->category];
    return QK_OK;
}
