/* SPDX-License-Identifier: Apache-2.0 */
/* Rows along an axis, from their moments. */
#include "stats/project.h"

#include <float.h>
#include <math.h>

#include <qkscope/stats.h>

#include "stats/matrix_kernel.h"
#include "stats/pair_kernel.h"
#include "stats/student.h"

double qk__dot(const double *a, const double *b, size_t d)
{
    return qk__best_matrix_kernel()->dot(a, b, d);
}

double qk__trace(const qk_moments *m)
{
    double sum = 0;
    for (size_t i = 0; i < m->dim; i++)
        sum += m->sum_xx[i * m->dim + i];
    return sum;
}

double qk__quadratic_form(const double *v, const double *matrix, size_t d, double *scratch)
{
    const qk__matrix_kernel *kernel = qk__best_matrix_kernel();
    for (size_t i = 0; i < d; i++)
        scratch[i] = kernel->dot(matrix + i * d, v, d);
    return kernel->dot(v, scratch, d);
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

qk__axis_view qk__project(const qk_moments *m, double total, const double *axis,
                          double *scratch)
{
    double spread = qk__quadratic_form(axis, m->sum_xx, m->dim, scratch);
    double drift = qk__dot(axis, m->sum_xt, m->dim);
    /* Less than the rounding of the quadratic form is no variance at all. */
    if (spread <= (double)m->dim * DBL_EPSILON * total)
        spread = 0;
    qk__axis_view out = {
        .mu = qk__dot(axis, m->mean, m->dim), .spread = spread, .r = 0, .p = 1};
    out.sd = m->count > 1 ? sqrt(spread / (double)(m->count - 1)) : NAN;
    out.slope = m->sum_tt > 0 ? drift / m->sum_tt : NAN;
    if (spread > 0 && m->sum_tt > 0) {
        out.r = drift / sqrt(spread * m->sum_tt);
        out.r = out.r > 1 ? 1 : out.r < -1 ? -1 : out.r;
        out.p = qk__correlation_p_value(out.r, m->count);
    }
    return out;
}

bool qk__largest_entry_is_negative(const double *axis, size_t d)
{
    size_t largest = 0;
    for (size_t i = 1; i < d; i++)
        if (fabs(axis[i]) > fabs(axis[largest]))
            largest = i;
    return axis[largest] < 0;
}

void qk__negate(double *axis, size_t d)
{
    for (size_t i = 0; i < d; i++)
        axis[i] = -axis[i];
}

/* unit - e1, normalised. Its first entry is written such that it does not cancel when unit is
 * near e1. */
void qk__mirror(double *unit, size_t d)
{
    double first = unit[0];
    double rest = qk__dot(unit + 1, unit + 1, d - 1);
    if (first > 0 && rest == 0) {
        unit[0] = 0;
        return;
    }
    unit[0] = first > 0 ? -rest / (1 + first) : first - 1;
    double length = sqrt(qk__dot(unit, unit, d));
    for (size_t i = 0; i < d; i++)
        unit[i] /= length;
}
