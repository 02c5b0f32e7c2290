/* SPDX-License-Identifier: Apache-2.0 */
/* The axes of the planar rotation model and all numbers that follow from moments. */
#include <qkscope/stats.h>

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/eigen.h"
#include "stats/moments.h"
#include "stats/project.h"
#include "stats/rotation.h"

/* The state of a fit. */
typedef struct fitting {
    const qk_moments *q, *k;
    qk_moments *pooled;
    size_t d;
    double total;    /* trace of the pooled moments */
    double rounding; /* a smaller share of a total is no variance */
    double *matrix;  /* [d][d] scratch */
    double *vector;  /* [d] scratch */
    qk_rotation *r;
} fitting;

void qk__rotation_free(qk_rotation **rotation)
{
    assert(rotation);
    if (!*rotation)
        return;
    free((*rotation)->planes);
    free((*rotation)->a);
    free((*rotation)->b);
    free((*rotation)->axes);
    free((*rotation)->mean_q);
    free((*rotation)->mean_k);
    free(*rotation);
    *rotation = NULL;
}

/* Every number undefined, no axes. NULL when out of memory. */
static qk_rotation *rotation_create(const qk_moments *q, const qk_moments *k)
{
    size_t d = q->dim;
    qk_rotation *r = malloc(sizeof *r);
    if (!r)
        return NULL;
    *r = (qk_rotation){
        .dim = d,
        .n_q = q->count,
        .n_k = k->count,
        .degenerate = true,
        .position_r = NAN,
        .r_q_a = NAN,
        .r_k_a = NAN,
        .alpha_q = NAN,
        .alpha_k = NAN,
        .mu_q_a = NAN,
        .mu_k_a = NAN,
        .mu_q_b = NAN,
        .mu_k_b = NAN,
        .bias_strength = NAN,
        .separation_strength = NAN,
        .var_frac_a = NAN,
        .var_frac_b = NAN,
        .plane_var_fraction = NAN,
        .content_var_b = NAN,
        .residual_pos_r = NAN,
        .omega = NAN,
        .omega_r_squared = NAN,
        .bias_over_context = NAN,
        .mean_q = qk__calloc(d, sizeof(double)),
        .mean_k = qk__calloc(d, sizeof(double)),
    };
    if (!r->mean_q || !r->mean_k) {
        qk__rotation_free(&r);
        return NULL;
    }
    memcpy(r->mean_q, q->mean, d * sizeof(double));
    memcpy(r->mean_k, k->mean, d * sizeof(double));
    return r;
}

/* ---- axes ------------------------------------------------------------------------------- */

/* Euclidean length, also where squares would over- or underflow. */
static double length(const double *v, size_t d)
{
    double largest = 0, sum = 0;
    for (size_t i = 0; i < d; i++)
        largest = fmax(largest, fabs(v[i]));
    if (largest == 0)
        return 0;
    for (size_t i = 0; i < d; i++)
        sum += v[i] / largest * (v[i] / largest);
    return largest * sqrt(sum);
}

static void divide(double *v, size_t d, double by)
{
    for (size_t i = 0; i < d; i++)
        v[i] /= by;
}

/* Takes the part along a unit vector out of v. */
static void remove_part(double *v, const double *axis, size_t d)
{
    double part = qk__dot(v, axis, d);
    for (size_t i = 0; i < d; i++)
        v[i] -= part * axis[i];
}

/* (I - uu^T) matrix (I - uu^T) of a symmetric matrix, which stays so to the last bit. */
static void remove_axis(double *matrix, const double *u, size_t d, double *scratch)
{
    double along = qk__quadratic_form(u, matrix, d, scratch);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            matrix[i * d + j] -= u[i] * scratch[j] + scratch[i] * u[j] - along * (u[i] * u[j]);
}

/* a = c / |c|, left NULL when c is what rounding leaves of zero. */
static qk_status set_a(fitting *f, qk_error *err)
{
    const qk_moments *pooled = f->pooled;
    double drift = length(pooled->sum_xt, f->d);
    if (!(drift > f->rounding * sqrt(f->total) * sqrt(pooled->sum_tt)))
        return QK_OK;
    f->r->a = qk__calloc(f->d, sizeof(double));
    if (!f->r->a)
        return qk__nomem(err);
    memcpy(f->r->a, pooled->sum_xt, f->d * sizeof(double));
    divide(f->r->a, f->d, drift);
    divide(f->r->a, f->d, length(f->r->a, f->d));
    return QK_OK;
}

/* b of the pairs into f->r->b; whether there is one. */
static qk_status largest_difference(fitting *f, bool *found, qk_error *err)
{
    size_t d = f->d;
    double total = 0, value, *m = f->matrix, *b = f->r->b;
    for (size_t i = 0; i < d; i++) {
        double gap = f->q->mean[i] - f->k->mean[i];
        for (size_t j = 0; j < d; j++)
            m[i * d + j] = f->q->sum_xx[i * d + j] / (double)f->q->count +
                           f->k->sum_xx[i * d + j] / (double)f->k->count +
                           gap * (f->q->mean[j] - f->k->mean[j]);
        total += m[i * d + i];
    }
    remove_axis(m, f->r->a, d, f->vector);
    QK_TRY(qk__eigen_largest(m, d, 1, &value, b, err));
    *found = value > f->rounding * total;
    return QK_OK;
}

/* b of the means into f->r->b; whether they differ off a by more than rounding. */
static bool difference_of_means(fitting *f)
{
    size_t d = f->d;
    double *b = f->r->b;
    for (size_t i = 0; i < d; i++)
        b[i] = f->q->mean[i] - f->k->mean[i];
    remove_part(b, f->r->a, d);
    double off = length(b, d);
    divide(b, d, off > 0 ? off : 1);
    return off > f->rounding * (length(f->q->mean, d) + length(f->k->mean, d));
}

static qk_status set_b(fitting *f, qk_b_axis kind, qk_error *err)
{
    qk_rotation *r = f->r;
    bool found = false;
    if (f->d < 2)
        return QK_OK;
    r->b = qk__calloc(f->d, sizeof(double));
    if (!r->b)
        return qk__nomem(err);
    if (kind == QK_B_CENTROID)
        found = difference_of_means(f);
    else
        QK_TRY(largest_difference(f, &found, err));
    if (!found) {
        free(r->b);
        r->b = NULL;
        return QK_OK;
    }
    /* The rest of a after one pass is small beside the unit vector b: a second pass is enough. */
    for (int pass = 0; pass < 2; pass++) {
        remove_part(r->b, r->a, f->d);
        divide(r->b, f->d, length(r->b, f->d));
    }
    r->mu_q_b = qk__dot(r->b, f->q->mean, f->d);
    r->mu_k_b = qk__dot(r->b, f->k->mean, f->d);
    if (r->mu_q_b < r->mu_k_b ||
        (r->mu_q_b == r->mu_k_b && qk__largest_entry_is_negative(r->b, f->d))) {
        qk__negate(r->b, f->d);
        r->mu_q_b = -r->mu_q_b;
        r->mu_k_b = -r->mu_k_b;
    }
    return QK_OK;
}

/* ---- numbers ---------------------------------------------------------------------------- */

static void describe_a(fitting *f, double trace_q, double trace_k)
{
    qk_rotation *r = f->r;
    qk__axis_view on_q = qk__project(f->q, trace_q, r->a, f->vector);
    qk__axis_view on_k = qk__project(f->k, trace_k, r->a, f->vector);
    qk__axis_view on = qk__project(f->pooled, f->total, r->a, f->vector);
    r->position_r = fabs(on.r);
    r->r_q_a = on_q.r;
    r->r_k_a = on_k.r;
    r->alpha_q = on_q.slope;
    r->alpha_k = on_k.slope;
    r->mu_q_a = on_q.mu;
    r->mu_k_a = on_k.mu;
    r->bias_strength = on_q.mu * on_k.slope;
    r->var_frac_a = on.spread / f->total;
}

static void describe_b(fitting *f, double trace_q, double trace_k)
{
    qk_rotation *r = f->r;
    if (!r->b)
        return;
    double n_q = (double)f->q->count, n_k = (double)f->k->count, gap_total = 0;
    for (size_t i = 0; i < f->d; i++) {
        double gap = f->q->mean[i] - f->k->mean[i];
        gap_total += gap * gap;
    }
    double within = qk__project(f->q, trace_q, r->b, f->vector).spread / n_q +
                    qk__project(f->k, trace_k, r->b, f->vector).spread / n_k;
    double gap = r->mu_q_b - r->mu_k_b;
    r->content_var_b = within / 2;
    r->separation_strength = (within + gap * gap) / (trace_q / n_q + trace_k / n_k + gap_total);
    r->var_frac_b = qk__project(f->pooled, f->total, r->b, f->vector).spread / f->total;
    r->plane_var_fraction = r->var_frac_a + r->var_frac_b;
}

/* Largest |corr| with position over columns 2..d of the reflection H = I - 2 m m^T that takes
 * e1 to a. The variances on them are the diagonal of H C H: C_ii - 4 m_i (Cm)_i +
 * 4 m_i^2 m^T C m. */
static void set_residual(fitting *f)
{
    size_t d = f->d;
    const qk_moments *p = f->pooled;
    double *mirror = f->matrix, largest = 0;
    memcpy(mirror, f->r->a, d * sizeof(double));
    qk__mirror(mirror, d);
    double all = qk__quadratic_form(mirror, p->sum_xx, d, f->vector);
    double drift = qk__dot(mirror, p->sum_xt, d);
    for (size_t i = 1; i < d; i++) {
        double m = mirror[i];
        double spread = p->sum_xx[i * d + i] - 4 * m * f->vector[i] + 4 * m * m * all;
        if (spread > f->rounding * f->total)
            largest = fmax(largest, fabs(p->sum_xt[i] - 2 * m * drift) /
                                        (sqrt(spread) * sqrt(p->sum_tt)));
    }
    f->r->residual_pos_r = largest;
}

/* ---- the complement --------------------------------------------------------------------- */

/* The pooled moments off a and b. These two get a negative eigenvalue: where the others are
 * zero, too, none of the largest can then mix with them. */
static void fill_complement(fitting *f)
{
    size_t d = f->d;
    double *m = f->matrix, rest = 0;
    const double *a = f->r->a, *b = f->r->b;
    memcpy(m, f->pooled->sum_xx, d * d * sizeof(double));
    remove_axis(m, a, d, f->vector);
    if (b)
        remove_axis(m, b, d, f->vector);
    for (size_t i = 0; i < d; i++)
        rest += m[i * d + i];
    double down = fmax(rest, 0) / (double)d + f->rounding * f->total;
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            m[i * d + j] -= down * (a[i] * a[j] + (b ? b[i] * b[j] : 0));
}

/* Makes axis i orthogonal to a, b and those before it, to rounding. */
static void orthogonalise(qk_rotation *r, size_t i)
{
    size_t d = r->dim;
    double *axis = r->axes + i * d;
    for (int pass = 0; pass < 2; pass++) {
        remove_part(axis, r->a, d);
        if (r->b)
            remove_part(axis, r->b, d);
        for (size_t j = 0; j < i; j++)
            remove_part(axis, r->axes + j * d, d);
        divide(axis, d, length(axis, d));
    }
    if (qk__largest_entry_is_negative(axis, d))
        qk__negate(axis, d);
}

static qk_status set_planes(fitting *f, int wanted, qk_error *err)
{
    qk_rotation *r = f->r;
    size_t d = f->d, planes = d < 4 || wanted < 1 ? 0 : (d - 2) / 2;
    if (planes > 0 && planes > (size_t)wanted)
        planes = (size_t)wanted;
    if (planes == 0)
        return QK_OK;
    double *values = qk__calloc(2 * planes, sizeof(double));
    r->planes = qk__calloc(planes, sizeof *r->planes);
    r->axes = qk__calloc(2 * planes * d, sizeof(double));
    qk_status status = values && r->planes && r->axes ? QK_OK : qk__nomem(err);
    if (status == QK_OK) {
        fill_complement(f);
        status = qk__eigen_largest(f->matrix, d, 2 * planes, values, r->axes, err);
    }
    if (status == QK_OK) {
        r->num_planes = planes;
        for (size_t i = 0; i < 2 * planes; i++)
            orthogonalise(r, i);
        for (size_t i = 0; i < planes; i++) {
            bool plane = values[2 * i + 1] > f->rounding * f->total;
            double share = (values[2 * i] + values[2 * i + 1]) / f->total;
            r->planes[i] = (qk_plane){.variance_share = plane ? share : NAN,
                                      .omega = NAN,
                                      .resultant = NAN,
                                      .angle_r = NAN,
                                      .rope_frequency = NAN};
        }
    }
    free(values);
    return status;
}

/* ---- all of it -------------------------------------------------------------------------- */

static qk_status fit(fitting *f, const qk_rotation_settings *settings, qk_error *err)
{
    QK_TRY(set_a(f, err));
    if (!f->r->a)
        return QK_OK;
    f->r->degenerate = false;
    QK_TRY(set_b(f, settings->b_axis, err));
    double trace_q = qk__trace(f->q), trace_k = qk__trace(f->k);
    describe_a(f, trace_q, trace_k);
    describe_b(f, trace_q, trace_k);
    set_residual(f);
    return set_planes(f, settings->planes, err);
}

qk_status qk__rotation_fit(const qk_moments *q, const qk_moments *k,
                           const qk_rotation_settings *settings, qk_rotation **rotation,
                           qk_error *err)
{
    *rotation = NULL;
    if (q->dim != k->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "queries have dimension %zu but their keys have %zu", q->dim, k->dim);
    size_t d = q->dim;
    fitting f = {.q = q, .k = k, .d = d, .rounding = (double)d * DBL_EPSILON};
    f.r = rotation_create(q, k);
    f.matrix = qk__calloc(d * d, sizeof(double));
    f.vector = qk__calloc(d, sizeof(double));
    qk_status status = f.r && f.matrix && f.vector ? QK_OK : qk__nomem(err);
    if (status == QK_OK && q->count >= 3 && k->count >= 3) {
        status = qk__moments_merge(q, k, &f.pooled, err);
        if (status == QK_OK) {
            f.total = qk__trace(f.pooled);
            status = isfinite(f.total) ? fit(&f, settings, err)
                                       : qk__fail(err, QK_ERR_INCONSISTENT,
                                                  "the vectors are too large to square");
        }
    }
    qk_moments_free(&f.pooled);
    free(f.matrix);
    free(f.vector);
    if (status != QK_OK)
        qk__rotation_free(&f.r);
    *rotation = f.r;
    return status;
}
