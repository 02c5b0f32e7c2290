/* SPDX-License-Identifier: Apache-2.0 */
/* What one set of rows does along one axis, and the small vector arithmetic around it. */
#ifndef QK_STATS_PROJECT_H
#define QK_STATS_PROJECT_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/stats.h>

double qk__dot(const double *a, const double *b, size_t d);

/* Sum of all squared distances from the mean. */
double qk__trace(const qk_moments *m);

/* v^T matrix v of a symmetric matrix; scratch has d values and is left with matrix v. */
double qk__quadratic_form(const double *v, const double *matrix, size_t d, double *scratch);

/* The square root of a covariance matrix, which may be singular: overwrites a symmetric positive
 * semidefinite n x n matrix (leading dimension ld), of which only the lower triangle is read, by the
 * lower triangular L with L L^T = matrix; the upper triangle becomes zero. Where no more than `least` of
 * a diagonal entry is left, the column is zero. */
void qk__cholesky(double *matrix, size_t n, size_t ld, double least);

/* One set of rows seen along one axis; not centred. */
typedef struct qk__axis_view {
    double mu, spread, sd; /* spread: sum of squares about mu */
    double slope, r, p;    /* on position; p is that of r */
} qk__axis_view;

/* total is qk__trace(m); a spread that is only rounding of it counts as 0. */
qk__axis_view qk__project(const qk_moments *m, double total, const double *axis,
                          double *scratch);

bool qk__largest_entry_is_negative(const double *axis, size_t d);
void qk__negate(double *axis, size_t d);

/* Turns a unit vector into the unit normal of the mirror between it and e1: the reflection
 * I - 2 m m^T swaps the two. e1 itself becomes zero, no reflection. */
void qk__mirror(double *unit, size_t d);

#endif
