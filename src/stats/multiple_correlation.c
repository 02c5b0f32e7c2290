/* SPDX-License-Identifier: Apache-2.0 */
/* Multiple correlations of position with all dimensions; each group of texts is predicted from the others. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/moments.h"
#include "stats/project.h"

/* What is predicted of a row. */
typedef enum target { POSITION, OCTAVE, NUM_TARGETS } target;

typedef struct correlating {
    const qk__text_moments *texts;
    qk__sums all;
    double least;              /* of a variance; less is rounding */
    size_t ld;                 /* d in whole panels */
    double *covariance, *mean; /* [d][ld], [ld]: of the rows that are fitted */
    double *weight;            /* [ld] */
    qk__line_sums told[NUM_TARGETS];
} correlating;

static const double *products(const qk__sums *s, target y)
{
    return y == POSITION ? s->sum_xt : s->sum_xo;
}

static double sum_of(const qk__sums *s, target y)
{
    return y == POSITION ? s->sum_t : s->sum_o;
}

static double squares_of(const qk__sums *s, target y)
{
    return y == POSITION ? s->sum_tt : s->sum_oo;
}

/* Means, and the factor of the covariances times rows, of all groups but one. */
static void factor_rest(correlating *c, const qk__sums *out)
{
    const size_t d = c->texts->dim, panels = c->texts->panels;
    const double n = (double)(c->all.count - out->count);
    for (size_t i = 0; i < d; i++)
        c->mean[i] = (c->all.sum[i] - out->sum[i]) / n;
    for (size_t i = 0; i < d; i++) {
        size_t row = qk__gram_row(panels, i);
        for (size_t j = i; j < d; j++)
            c->covariance[j * c->ld + i] =
                c->all.gram[row + j] - out->gram[row + j] - n * c->mean[i] * c->mean[j];
    }
    qk__cholesky(c->covariance, d, c->ld, c->least);
}

/* The weights of the least squares, from the factor L: L L^T w = b. A column of zeros has none. */
static void solve_weights(correlating *c, const qk__sums *out, target y)
{
    const size_t d = c->texts->dim, ld = c->ld;
    const double *L = c->covariance, *xy = products(&c->all, y), *out_xy = products(out, y);
    const double sum = sum_of(&c->all, y) - sum_of(out, y);
    double *w = c->weight;
    for (size_t i = 0; i < d; i++) {
        double b = xy[i] - out_xy[i] - c->mean[i] * sum - qk__dot(L + i * ld, w, i);
        w[i] = L[i * ld + i] > 0 ? b / L[i * ld + i] : 0;
    }
    for (size_t i = d; i-- > 0;) {
        double b = w[i];
        for (size_t j = i + 1; j < d; j++)
            b -= L[j * ld + i] * w[j];
        w[i] = L[i * ld + i] > 0 ? b / L[i * ld + i] : 0;
    }
}

/* Predicts the rows of one group with the weights of the others, as steps from the others' mean: their mean position
 * is not predicted, since the group's would move it the other way. */
static void tell_group(correlating *c, const qk__sums *group, target y)
{
    const size_t d = c->texts->dim;
    const double n = (double)group->count, from = qk__dot(c->weight, c->mean, d),
                 sum = qk__dot(c->weight, group->sum, d);
    qk__line_sums *told = &c->told[y];
    told->n += n;
    told->t += sum_of(group, y);
    told->tt += squares_of(group, y);
    told->x += sum - n * from;
    told->xt += qk__dot(c->weight, products(group, y), d) - from * sum_of(group, y);
    told->xx += c->texts->kernel->form(group->gram, c->texts->panels, c->weight) -
                from * (2 * sum - n * from);
}

static double correlation_of(const qk__line_sums *told)
{
    double tt = told->tt - told->t * told->t / told->n;
    double xx = told->xx - told->x * told->x / told->n;
    if (!(tt > 64 * DBL_EPSILON * told->tt) || !(xx > 0))
        return NAN;
    double r = (told->xt - told->x * told->t / told->n) / sqrt(tt * xx);
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

/* false: too few rows are left. */
static bool tell_all(correlating *c)
{
    const qk__text_moments *texts = c->texts;
    const int targets = texts->has_octaves ? NUM_TARGETS : OCTAVE;
    for (uint32_t g = 0; g < texts->groups.count; g++) {
        const qk__sums *group = &texts->sums[g];
        if (c->all.count - group->count < 2 * (int64_t)texts->dim)
            return false;
        factor_rest(c, group);
        for (int y = 0; y < targets; y++) {
            solve_weights(c, group, (target)y);
            tell_group(c, group, (target)y);
        }
    }
    return true;
}

qk_status qk__text_moments_correlate(const qk__text_moments *texts, qk_multiple_correlation *r,
                                     qk_error *err)
{
    *r = (qk_multiple_correlation){NAN, NAN};
    if (!texts || texts->groups.count < 2)
        return QK_OK;
    const size_t d = texts->dim, ld = texts->panels * PANEL;
    double *sums = qk__sums_memory(1, texts->panels);
    double *numbers = qk__alloc_aligned((d + 2) * ld, sizeof *numbers);
    if (!sums || !numbers) {
        free(sums);
        free(numbers);
        return qk__nomem(err);
    }
    correlating c = {.texts = texts,
                     .all = qk__sums_at(sums, texts->panels),
                     .least = 64 * (double)d * DBL_EPSILON * texts->trace,
                     .ld = ld,
                     .covariance = numbers,
                     .mean = numbers + d * ld,
                     .weight = numbers + (d + 1) * ld};
    memset(c.weight, 0, ld * sizeof *c.weight);
    for (uint32_t g = 0; g < texts->groups.count; g++)
        qk__sums_add(texts->kernel, &c.all, &texts->sums[g], texts->panels);
    if (tell_all(&c)) {
        r->position = correlation_of(&c.told[POSITION]);
        r->octave = texts->has_octaves ? correlation_of(&c.told[OCTAVE]) : NAN;
    }
    free(sums);
    free(numbers);
    return QK_OK;
}
