/* SPDX-License-Identifier: Apache-2.0 */
/* What other texts make of PC0, in the space of the first components of all rows: the others have too little
 * variance to turn it by much. Where PC0 stays the first, it is found without each group of texts, for the
 * jackknife of certainty.c: an axis that turns a little moves r along it more than the rows do.
 *
 * Categories where PC1 has nearly the variance of PC0: in other texts the first may be the second, or
 * lie between them. So groups of texts are drawn anew, as often as there are of them, and each draw
 * finds its own PC0.
 *
 * A plain bootstrap would be sure too often. Its draws spread too little where groups are few, so each
 * draw's distance from all rows is stretched as Student's t is against the normal distribution. And
 * eigenvalues of a sample lie farther apart than the true ones, so that their gap is first freed of
 * the bias that the jackknife finds, or closed where its 95 % interval holds 0.
 * docs/dev/validation.md has what that gives. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/rng.h"
#include "stats/certainty.h"
#include "stats/eigen.h"
#include "stats/jackknife.h"
#include "stats/pca.h"
#include "stats/project.h"
#include "stats/student.h"

enum { SPACE = 8, DRAWS = 1000, SEED = 95 };
static const double NEAR = 0.9, LEVEL = 0.95;

/* Sums of some rows of a kind, in the space of the first components. */
typedef struct space_sums {
    double n, t, tt, x[SPACE], xt[SPACE], xx[SPACE][SPACE];
} space_sums;
enum { NUMBERS = sizeof(space_sums) / sizeof(double) };

/* Both kinds, apart by groups; vectors of both about one pilot. */
typedef struct drawing {
    size_t space; /* dimension, at most SPACE */
    uint32_t groups,
        effective; /* effective: the number of groups of equal weight that know as much */
    space_sums q[QK_TEXT_GROUPS], k[QK_TEXT_GROUPS], all_q, all_k;
    double shift; /* added to the second variance and taken off the first before PC0 is found */
} drawing;

/* ---- sums ------------------------------------------------------------------------------- */

static void add_sums(space_sums *to, const space_sums *from, double factor)
{
    double *sum = &to->n;
    const double *more = &from->n;
    for (size_t i = 0; i < NUMBERS; i++)
        sum[i] += factor * more[i];
}

/* The same rows about a pilot that is `step` before theirs. */
static void move_pilot(space_sums *s, const double *step, size_t space)
{
    for (size_t i = 0; i < space; i++)
        for (size_t j = 0; j < space; j++)
            s->xx[i][j] += step[i] * s->x[j] + s->x[i] * step[j] + s->n * step[i] * step[j];
    for (size_t i = 0; i < space; i++) {
        s->x[i] += s->n * step[i];
        s->xt[i] += s->t * step[i];
    }
}

/* gram v; both have whole panels. */
static void multiply(const double *gram, size_t panels, const double *v, double *product)
{
    size_t width = panels * PANEL;
    memset(product, 0, width * sizeof *product);
    for (size_t i = 0; i < width; i++) {
        const double *row = gram + qk__gram_row(panels, i);
        size_t own = i / PANEL * PANEL; /* panel, of which all columns are there */
        double sum = 0;
        for (size_t j = own; j < width; j++)
            sum += row[j] * v[j];
        for (size_t j = own + PANEL; j < width; j++)
            product[j] += row[j] * v[i];
        product[i] += sum;
    }
}

/* Projects the sums of one group. axes[i] have whole panels; product has room for one. */
static void project_sums(const qk__sums *s, size_t panels, const double *axes, double *product,
                         size_t space, space_sums *own)
{
    size_t width = panels * PANEL;
    *own = (space_sums){.n = (double)s->count, .t = s->sum_t, .tt = s->sum_tt};
    for (size_t i = 0; i < space; i++) {
        own->x[i] = qk__dot(axes + i * width, s->sum, width);
        own->xt[i] = qk__dot(axes + i * width, s->sum_xt, width);
        multiply(s->gram, panels, axes + i * width, product);
        for (size_t j = 0; j <= i; j++)
            own->xx[i][j] = own->xx[j][i] = qk__dot(axes + j * width, product, width);
    }
}

/* Projects the sums of each united group, about a pilot `step` before the texts' own. */
static void project_texts(const qk__text_moments *texts, const qk__text_labels *l,
                          const double *axes, double *product, const double *step, size_t space,
                          space_sums sums[QK_TEXT_GROUPS])
{
    memset(sums, 0, QK_TEXT_GROUPS * sizeof *sums);
    for (uint32_t g = 0; g < texts->groups.count; g++) {
        space_sums own;
        project_sums(&texts->sums[g], texts->panels, axes, product, space, &own);
        move_pilot(&own, step, space);
        add_sums(&sums[qk__text_labels_find(l, texts->groups.label[g])], &own, 1);
    }
}

static int compare_labels(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static qk_status gather_sums(drawing *d, const qk_pca *pca, const qk__text_moments *q_texts,
                             const qk__text_moments *k_texts, const qk__text_labels *l,
                             qk_error *err)
{
    size_t width = q_texts->panels * PANEL;
    double *axes = qk__calloc(d->space + 1, width * sizeof *axes);
    double none[SPACE] = {0}, step[SPACE] = {0};
    if (!axes)
        return qk__nomem(err);
    for (size_t i = 0; i < d->space; i++) {
        memcpy(axes + i * width, pca->axes + i * pca->dim, pca->dim * sizeof *axes);
        for (size_t c = 0; c < pca->dim; c++)
            step[i] += axes[i * width + c] * (k_texts->pilot[c] - q_texts->pilot[c]);
    }
    double *product = axes + d->space * width;
    project_texts(q_texts, l, axes, product, none, d->space, d->q);
    project_texts(k_texts, l, axes, product, step, d->space, d->k);
    free(axes);
    for (uint32_t g = 0; g < d->groups; g++) {
        add_sums(&d->all_q, &d->q[g], 1);
        add_sums(&d->all_k, &d->k[g], 1);
    }
    return QK_OK;
}

/* ---- PC0 of sums ------------------------------------------------------------------------ */

/* The two largest variances of both kinds together and the axis of the first; QK_ERR_INCONSISTENT where
 * numbers are not finite. */
static qk_status find_axis(const drawing *d, const space_sums *q, const space_sums *k,
                           double values[2], double axis[SPACE], qk_error *err)
{
    double matrix[SPACE * SPACE] = {0}, vectors[2 * SPACE], n = q->n + k->n;
    for (size_t i = 0; i < d->space; i++)
        for (size_t j = 0; j < d->space; j++)
            matrix[i * d->space + j] = (q->xx[i][j] + k->xx[i][j]) / n -
                                       (q->x[i] + k->x[i]) / n * ((q->x[j] + k->x[j]) / n);
    matrix[0] -= d->shift;
    matrix[d->space + 1] += d->shift;
    QK_TRY(qk__eigen_largest(matrix, d->space, 2, values, vectors, err));
    memcpy(axis, vectors, d->space * sizeof *axis);
    return QK_OK;
}

static double r_along(const space_sums *s, const double *axis, size_t space)
{
    double x = 0, xt = 0, xx = 0;
    for (size_t i = 0; i < space; i++) {
        x += axis[i] * s->x[i];
        xt += axis[i] * s->xt[i];
        for (size_t j = 0; j < space; j++)
            xx += axis[i] * axis[j] * s->xx[i][j];
    }
    return (xt - x * s->t / s->n) / sqrt((s->tt - s->t * s->t / s->n) * (xx - x * x / s->n));
}

/* ---- the gap ---------------------------------------------------------------------------- */

/* log(first variance / second) of all rows, freed of its bias, and whether its interval includes 0. */
static qk_status judge_gap(drawing *d, qk__tie *tie, qk_error *err)
{
    double values[2], axis[SPACE], without[QK_TEXT_GROUPS], mean = 0;
    double g = (double)d->groups;
    for (uint32_t out = 0; out < d->groups; out++) {
        space_sums q = d->all_q, k = d->all_k;
        add_sums(&q, &d->q[out], -1);
        add_sums(&k, &d->k[out], -1);
        QK_TRY(find_axis(d, &q, &k, values, axis, err));
        without[out] = log(values[0] / values[1]);
        mean += without[out] / g;
    }
    QK_TRY(find_axis(d, &d->all_q, &d->all_k, values, axis, err));
    double gap = log(values[0] / values[1]), honest = gap - (g - 1) * (mean - gap);
    double reach = qk__jackknife_error(without, d->groups, false) *
                   qk__student_quantile((1 + LEVEL) / 2, d->effective - 1.0);
    bool closed = !(honest - reach > 0);
    double left = closed ? 0 : fmin(honest / gap, 1);
    tie->near = closed && values[1] > NEAR * values[0];
    d->shift = (values[0] - values[1]) / 2 * (1 - left);
    return QK_OK;
}

/* ---- drawing ---------------------------------------------------------------------------- */

/* A draw, counted under its category; under none where the stretch left no variance. */
static qk_status draw_category(const drawing *d, const qk_pca_settings *settings, qk__rng *rng,
                               double counted[QK_NUM_CATEGORIES], qk_error *err)
{
    uint32_t count[QK_TEXT_GROUPS] = {0};
    double values[2], axis[SPACE], square = 0;
    space_sums q = d->all_q, k = d->all_k;
    for (uint32_t i = 0; i < d->groups; i++)
        count[qk__rng_below(rng, d->groups)]++;
    for (uint32_t i = 1; i < d->effective; i++) {
        double normal = qk__rng_gaussian(rng);
        square += normal * normal;
    }
    double stretch = sqrt(d->effective / square);
    for (uint32_t g = 0; g < d->groups; g++) {
        add_sums(&q, &d->q[g], stretch * ((double)count[g] - 1));
        add_sums(&k, &d->k[g], stretch * ((double)count[g] - 1));
    }
    if (q.n <= 0 || k.n <= 0)
        return QK_OK;
    qk_status status = find_axis(d, &q, &k, values, axis, err);
    if (status != QK_OK) /* only lack of memory is a failure, not numbers that are not finite */
        return status == QK_ERR_INCONSISTENT ? QK_OK : status;
    double r_q = r_along(&q, axis, d->space), r_k = r_along(&k, axis, d->space);
    if (isfinite(r_q) && isfinite(r_k))
        counted[qk__classify(fabs(r_q), r_k, settings->low, settings->high)]++;
    return QK_OK;
}

/* ---- the two answers -------------------------------------------------------------------- */

/* Opens the sums of both kinds, by groups in the order of their labels, whatever the order of rows was. */
static qk_status open_drawing(const qk_pca *pca, const qk__text_moments *q_texts,
                              const qk__text_moments *k_texts, qk__text_labels *labels,
                              drawing **opened, qk_error *err)
{
    drawing *d = calloc(1, sizeof *d);
    if (!d)
        return qk__nomem(err);
    d->space = pca->num_components < SPACE ? pca->num_components : SPACE;
    d->groups = labels->count;
    qsort(labels->label, labels->count, sizeof *labels->label, compare_labels);
    qk_status status = gather_sums(d, pca, q_texts, k_texts, labels, err);
    if (status != QK_OK)
        free(d);
    else
        *opened = d;
    return status;
}

qk_status qk__category_refits(const qk_pca *pca, const qk__text_moments *q_texts,
                              const qk__text_moments *k_texts, const qk__text_labels *labels,
                              double *r_q, double *r_k, qk_error *err)
{
    drawing *d;
    qk__text_labels sorted = *labels;
    qk_status status = QK_OK;
    QK_TRY(open_drawing(pca, q_texts, k_texts, &sorted, &d, err));
    for (uint32_t i = 0; i < d->groups && status == QK_OK; i++) {
        uint32_t g = qk__text_labels_find(labels, sorted.label[i]);
        double values[2], axis[SPACE];
        space_sums q = d->all_q, k = d->all_k;
        add_sums(&q, &d->q[i], -1);
        add_sums(&k, &d->k[i], -1);
        /* Without variance it is 0 along any axis. */
        if (r_q[g] == 0 || r_k[g] == 0 || q.n <= 0 || k.n <= 0)
            continue;
        status = find_axis(d, &q, &k, values, axis, err);
        if (status == QK_ERR_INCONSISTENT) { /* numbers that are not finite are no failure */
            r_q[g] = r_k[g] = NAN;
            status = QK_OK;
        } else if (status == QK_OK) {
            double sign = axis[0] < 0 ? -1 : 1;
            r_q[g] = sign * r_along(&q, axis, d->space);
            r_k[g] = sign * r_along(&k, axis, d->space);
        }
    }
    free(d);
    return status;
}

qk_status qk__category_draws(const qk_pca *pca, const qk_pca_settings *settings,
                             const qk__text_moments *q_texts, const qk__text_moments *k_texts,
                             const qk__text_labels *labels, double effective, qk__tie *tie,
                             qk_error *err)
{
    qk__rng rng;
    double all = 0;
    *tie = (qk__tie){0};
    drawing *d;
    qk__text_labels sorted = *labels;
    QK_TRY(open_drawing(pca, q_texts, k_texts, &sorted, &d, err));
    d->effective = (uint32_t)lround(effective);
    qk_status status = judge_gap(d, tie, err);
    qk__rng_init(&rng, SEED, NULL, 0);
    for (int i = 0; i < DRAWS && status == QK_OK; i++)
        status = draw_category(d, settings, &rng, tie->probability, err);
    for (int i = 0; i < QK_NUM_CATEGORIES; i++)
        all += tie->probability[i];
    for (int i = 0; i < QK_NUM_CATEGORIES; i++)
        tie->probability[i] /= all;
    free(d);
    return status;
}
