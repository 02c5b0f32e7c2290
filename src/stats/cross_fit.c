/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers along fitted axes, cross-fitted over groups of texts.
 *
 * How far other texts move them: a jackknife that fits the axes anew. Along a it is not enough. With c_g the
 * covariance of group g with position, what group g has along the axis of the others is c_g . sum of the
 * c_h, h != g: two groups share the product c_g . c_h. Where there is drift, this hardly matters. Where there is
 * none, it is all there is: the jackknife of the fitted number finds half of that variance, and leaving a group
 * out of the cross-fitted one, of its rows and of all axes, finds twice of it (Efron and Stein, Annals of Statistics
 * 9(3), 1981: a jackknife counts products of two groups twice). A third of the second and two thirds of the
 * first have the right expectation in both cases. */
#include "stats/cross_fit.h"

#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/jackknife.h"
#include "stats/project.h"

/* ---- lines ------------------------------------------------------------------------------ */

static void merge_line(qk__axis_sums *to, const qk__axis_sums *more)
{
    if (more->n == 0)
        return;
    double n = to->n + more->n, step_t = more->t - to->t, step_x = more->x - to->x;
    double weight = to->n * more->n / n;
    to->tt += more->tt + weight * step_t * step_t;
    to->xt += more->xt + weight * step_t * step_x;
    to->xx += more->xx + weight * step_x * step_x;
    to->t += step_t * more->n / n;
    to->x += step_x * more->n / n;
    to->n = n;
}

static qk__axis_sums line_along(const qk_moments *m, const double *axis, double sign,
                                double *scratch)
{
    if (!m)
        return (qk__axis_sums){0};
    return (qk__axis_sums){.n = (double)m->count,
                           .t = m->mean_t,
                           .x = sign * qk__dot(axis, m->mean, m->dim),
                           .tt = m->sum_tt,
                           .xt = sign * qk__dot(axis, m->sum_xt, m->dim),
                           .xx = qk__quadratic_form(axis, m->sum_xx, m->dim, scratch)};
}

void qk__cross_fit_see(qk__cross_fit *c, qk__fitted which, uint32_t group, const double *axis,
                       const double *like, double *scratch)
{
    const qk_moments *any = c->q[group] ? c->q[group] : c->k[group];
    if (!any)
        return;
    double sign = qk__dot(axis, like, any->dim) < 0 ? -1 : 1;
    c->fitted[which][group] = true;
    c->on_q[which][group] = line_along(c->q[group], axis, sign, scratch);
    c->on_k[which][group] = line_along(c->k[group], axis, sign, scratch);
}

/* ---- numbers ---------------------------------------------------------------------------- */

static double correlation(const qk__axis_sums *line)
{
    double r = line->xt / sqrt(line->tt * line->xx);
    return r > 1 ? 1 : r < -1 ? -1 : r;
}

/* total: the mean squared distance of a query from a key, in all dimensions. */
static double number_of(qk__repeated which, const qk__axis_sums *q, const qk__axis_sums *k,
                        double total)
{
    switch (which) {
    case QK__R_Q:
    case QK__R_Q_A:
        return correlation(q);
    case QK__R_K:
    case QK__R_K_A:
        return correlation(k);
    case QK__ALPHA_Q:
        return q->xt / q->tt;
    case QK__ALPHA_K:
        return k->xt / k->tt;
    case QK__BIAS:
        return q->x * (k->xt / k->tt);
    case QK__SEPARATION:
        return (q->xx / q->n + k->xx / k->n + (q->x - k->x) * (q->x - k->x)) / total;
    default:
        return NAN;
    }
}

static const qk__fitted AXIS_OF[QK__NUM_CROSSED] = {
    [QK__R_Q] = QK__ON_PC0, [QK__R_K] = QK__ON_PC0,      [QK__R_Q_A] = QK__ON_A,
    [QK__R_K_A] = QK__ON_A, [QK__ALPHA_Q] = QK__ON_A,    [QK__ALPHA_K] = QK__ON_A,
    [QK__BIAS] = QK__ON_A,  [QK__SEPARATION] = QK__ON_B,
};

static bool is_correlation(qk__repeated which)
{
    return which <= QK__R_K_A;
}

/* ---- without a group -------------------------------------------------------------------- */

/* What `end` works on. Arrays are [count][dim] of both kinds of a group, about the means of all rows. */
typedef struct ending {
    const qk__cross_fit *c;
    size_t dim;
    double mean_t, n[QK_INTERVAL_GROUPS], t[QK_INTERVAL_GROUPS];
    double *x, *xt, *all_x, *all_xt, *axis;
    double total; /* mean squared distance of a query from a key, in all dimensions */
} ending;

/* Each group along the axis of the other groups. */
static double crossed_value(const ending *e, qk__repeated which)
{
    qk__axis_sums q = {0}, k = {0};
    for (uint32_t g = 0; g < e->c->count; g++) {
        if (!e->c->fitted[AXIS_OF[which]][g])
            return NAN;
        merge_line(&q, &e->c->on_q[AXIS_OF[which]][g]);
        merge_line(&k, &e->c->on_k[AXIS_OF[which]][g]);
    }
    return number_of(which, &q, &k, e->total);
}

/* a of the rows in neither of two groups, on the side of `like`. */
static void find_a(const ending *e, uint32_t g, uint32_t out, const double *like)
{
    double n = 0, t = 0;
    for (uint32_t i = 0; i < e->c->count; i++)
        if (i != g && i != out) {
            n += e->n[i];
            t += e->t[i];
        }
    const double *x = e->x + g * e->dim, *xt = e->xt + g * e->dim;
    const double *out_x = e->x + out * e->dim, *out_xt = e->xt + out * e->dim;
    for (size_t i = 0; i < e->dim; i++)
        e->axis[i] =
            e->all_xt[i] - xt[i] - out_xt[i] - (e->all_x[i] - x[i] - out_x[i]) * (t / n);
    double length = sqrt(qk__dot(e->axis, e->axis, e->dim));
    if (qk__dot(e->axis, like, e->dim) < 0)
        length = -length;
    for (size_t i = 0; i < e->dim; i++)
        e->axis[i] /= length;
}

/* The variance along an axis changes little when another group does not choose it, so it is kept. */
static void move_line(const qk_moments *m, const double *axis, const qk__axis_sums *seen,
                      qk__axis_sums *to)
{
    qk__axis_sums moved = *seen;
    if (m) {
        moved.x = qk__dot(axis, m->mean, m->dim);
        moved.xt = qk__dot(axis, m->sum_xt, m->dim);
    }
    merge_line(to, &moved);
}

/* Both kinds along a without a group, which no axis uses either. */
static void lines_without(const ending *e, uint32_t out, const double *a, qk__axis_sums *q,
                          qk__axis_sums *k)
{
    *q = *k = (qk__axis_sums){0};
    for (uint32_t g = 0; g < e->c->count; g++) {
        if (g == out)
            continue;
        find_a(e, g, out, a);
        move_line(e->c->q[g], e->axis, &e->c->on_q[QK__ON_A][g], q);
        move_line(e->c->k[g], e->axis, &e->c->on_k[QK__ON_A][g], k);
    }
}

/* ---- sums of groups --------------------------------------------------------------------- */

static void add_group(ending *e, uint32_t g, const qk_moments *m, const double *mean)
{
    if (!m)
        return;
    double n = (double)m->count, step_t = m->mean_t - e->mean_t;
    e->n[g] += n;
    e->t[g] += n * step_t;
    for (size_t i = 0; i < e->dim; i++) {
        double step = m->mean[i] - mean[i];
        e->x[g * e->dim + i] += n * step;
        e->xt[g * e->dim + i] += m->sum_xt[i] + n * step * step_t;
    }
}

/* One kind: rows, sum of squared distances from their mean, which goes to mean[dim]. */
static void add_kind(const qk_moments *const *parts, const ending *e, double *n, double *spread,
                     double *mean)
{
    *n = *spread = 0;
    for (size_t i = 0; i < e->dim; i++)
        mean[i] = 0;
    for (uint32_t g = 0; g < e->c->count; g++) {
        if (!parts[g])
            continue;
        double own = (double)parts[g]->count, weight = *n * own / (*n + own), step = 0;
        for (size_t i = 0; i < e->dim; i++) {
            double gap = parts[g]->mean[i] - mean[i];
            step += gap * gap;
            mean[i] += gap * own / (*n + own);
        }
        *spread += qk__trace(parts[g]) + weight * step;
        *n += own;
    }
}

static void find_total(ending *e, double *mean_q, double *mean_k)
{
    double n_q, n_k, q, k, gap = 0;
    add_kind(e->c->q, e, &n_q, &q, mean_q);
    add_kind(e->c->k, e, &n_k, &k, mean_k);
    for (size_t i = 0; i < e->dim; i++)
        gap += (mean_q[i] - mean_k[i]) * (mean_q[i] - mean_k[i]);
    e->total = q / n_q + k / n_k + gap;
}

static void sum_groups(ending *e, double *mean_q, double *mean_k)
{
    qk__axis_sums all = {0};
    find_total(e, mean_q, mean_k);
    for (uint32_t g = 0; g < e->c->count; g++)
        for (int kind = 0; kind < 2; kind++) {
            const qk_moments *m = kind ? e->c->k[g] : e->c->q[g];
            if (m)
                merge_line(&all, &(qk__axis_sums){.n = (double)m->count, .t = m->mean_t});
        }
    e->mean_t = all.t;
    for (uint32_t g = 0; g < e->c->count; g++) {
        add_group(e, g, e->c->q[g], mean_q);
        add_group(e, g, e->c->k[g], mean_q);
        for (size_t i = 0; i < e->dim; i++) {
            e->all_x[i] += e->x[g * e->dim + i];
            e->all_xt[i] += e->xt[g * e->dim + i];
        }
    }
}

/* ---- intervals -------------------------------------------------------------------------- */

double qk__joined_error(double refitted, double nested)
{
    double larger = fmax(refitted, nested), a = refitted / larger, b = nested / larger;
    return larger > 0 ? larger * sqrt((2 * a * a + b * b) / 3) : larger;
}

static qk__crossed_number end_number(const ending *e, qk__repeated which, double level,
                                     const double *refitted, const double *nested)
{
    uint32_t count = e->c->count;
    bool through = is_correlation(which);
    double value = crossed_value(e, which),
           error = qk__jackknife_error(refitted, count, through);
    if (qk__is_nested(which))
        error = qk__joined_error(error, qk__jackknife_error(nested, count, through));
    qk__crossed_number number = {.value = isfinite(value) ? value : NAN};
    qk__interval_about(value, error, e->c->degrees, level, through, &number.lo, &number.hi);
    return number;
}

qk_status qk__cross_fit_end(const qk__cross_fit *c, const double *a,
                            const double *const refitted[QK__NUM_CROSSED], double level,
                            double nested[QK__NUM_CROSSED][QK_INTERVAL_GROUPS],
                            qk__crossed_number numbers[QK__NUM_CROSSED], qk_error *err)
{
    for (int i = 0; i < QK__NUM_CROSSED; i++)
        numbers[i] = (qk__crossed_number){NAN, NAN, NAN};
    for (int i = 0; i < QK__NUM_CROSSED * QK_INTERVAL_GROUPS; i++)
        nested[i / QK_INTERVAL_GROUPS][i % QK_INTERVAL_GROUPS] = NAN;
    if (c->count < 2)
        return QK_OK;
    ending e = {.c = c, .dim = c->q[0] ? c->q[0]->dim : c->k[0]->dim};
    double *memory = qk__calloc((2 * c->count + 5) * e.dim, sizeof *memory);
    if (!memory)
        return qk__nomem(err);
    e.x = memory;
    e.xt = e.x + c->count * e.dim;
    e.all_x = e.xt + c->count * e.dim;
    e.all_xt = e.all_x + e.dim;
    e.axis = e.all_xt + e.dim;
    sum_groups(&e, e.axis + e.dim, e.axis + 2 * e.dim);
    for (uint32_t g = 0; a && g < c->count; g++) {
        qk__axis_sums q, k;
        lines_without(&e, g, a, &q, &k);
        for (int i = 0; i < QK__NUM_CROSSED; i++)
            nested[i][g] = number_of((qk__repeated)i, &q, &k, 1);
    }
    for (int i = 0; i < QK__NUM_CROSSED; i++)
        if (a || AXIS_OF[i] == QK__ON_PC0)
            numbers[i] = end_number(&e, (qk__repeated)i, level, refitted[i], nested[i]);
    free(memory);
    return QK_OK;
}
