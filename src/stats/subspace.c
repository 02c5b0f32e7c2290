/* SPDX-License-Identifier: Apache-2.0 */
/* Principal angles. */
#include "stats/subspace.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/length.h"

static double dot(const double *x, const double *y, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* Turns two rows so that they are orthogonal; whether they were not. */
static bool turn(double *x, double *y, size_t n)
{
    double xx = dot(x, x, n), yy = dot(y, y, n), xy = dot(x, y, n);
    if (fabs(xy) <= 1e-16 * sqrt(xx * yy) || xy == 0)
        return false;
    double tau = (yy - xx) / (2 * xy);
    double t = (tau < 0 ? -1 : 1) / (fabs(tau) + qk__length(1, tau));
    double c = 1 / qk__length(1, t), s = c * t;
    for (size_t i = 0; i < n; i++) {
        double left = x[i];
        x[i] = c * left - s * y[i];
        y[i] = s * left + c * y[i];
    }
    return true;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Singular values of rows[count][n], which go: one-sided Jacobi, exact for small ones, too. */
static void singular_values(double *rows, size_t count, size_t n, double *values)
{
    bool turned = true;
    for (int sweep = 0; sweep < 60 && turned; sweep++) {
        turned = false;
        for (size_t i = 0; i < count; i++)
            for (size_t j = i + 1; j < count; j++)
                turned |= turn(rows + i * n, rows + j * n, n);
    }
    for (size_t i = 0; i < count; i++)
        values[i] = sqrt(dot(rows + i * n, rows + i * n, n));
    qsort(values, count, sizeof *values, descending);
}

qk_status qk__subspace_angles(const double *a, const double *b, size_t count, size_t dim,
                              double angles[QK_MOST_SUBSPACE], qk_error *err)
{
    double within[QK_MOST_SUBSPACE * QK_MOST_SUBSPACE]; /* of b's rows along a's */
    double cosines[QK_MOST_SUBSPACE], sines[QK_MOST_SUBSPACE];
    double *rest = qk__calloc(count, dim * sizeof *rest); /* of b's rows, off a */
    if (!rest)
        return qk__nomem(err);
    memcpy(rest, b, count * dim * sizeof *rest);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            double along = within[i * count + j] = dot(b + i * dim, a + j * dim, dim);
            for (size_t k = 0; k < dim; k++)
                rest[i * dim + k] -= along * a[j * dim + k];
        }
    singular_values(within, count, count, cosines);
    singular_values(rest, count, dim, sines);
    for (size_t i = 0; i < count; i++) {
        double sine = sines[count - 1 - i];
        angles[i] =
            cosines[i] * cosines[i] < 0.5 ? acos(fmin(cosines[i], 1)) : asin(fmin(sine, 1));
    }
    free(rest);
    return QK_OK;
}

double qk__subspace_overlap(const double *angles, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += cos(angles[i]) * cos(angles[i]);
    return sum / (double)count;
}
