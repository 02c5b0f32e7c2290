/* SPDX-License-Identifier: Apache-2.0 */
/* Rows to fit, and their fit, for the tests of the rotation model. */
#ifndef QK_TESTS_ROTATION_ROWS_H
#define QK_TESTS_ROTATION_ROWS_H

#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/stats.h>

#include "blocks.h"
#include "stats/rotation.h"
#include "stats/stats_settings.h"

static const double TURN = 6.283185307179586476925;

/* Rows of one kind. */
typedef struct rows {
    size_t count, dim;
    double *x;
    int64_t *t;
} rows;

typedef struct head {
    rows q, k;
} head;

/* Positions 0 .. range, mean and spread different in every dimension, drift along the first. */
static inline rows make_rows(uint64_t seed, size_t count, size_t dim, int64_t range,
                             double drift)
{
    rows r = {count, dim, calloc(count * dim, sizeof(double)), calloc(count, sizeof(int64_t))};
    assert_true(r.x && r.t);
    for (size_t i = 0; i < count; i++) {
        r.t[i] = (int64_t)((random_unit(&seed) + 1) / 2 * (double)(range + 1));
        for (size_t c = 0; c < dim; c++)
            r.x[i * dim + c] =
                random_unit(&seed) / (1 + 0.3 * (double)c) + 0.5 * (double)(c % 3);
        r.x[i * dim] += drift * (double)r.t[i] / (double)range;
    }
    if (count > 1) {
        r.t[0] = 0;
        r.t[1] = range;
    }
    return r;
}

static inline head make_head(size_t count, size_t dim, int64_t range)
{
    head h = {make_rows(11, count, dim, range, 1), make_rows(12, count + 9, dim, range, -0.4)};
    for (size_t i = 0; i < h.k.count; i++)
        h.k.x[i * dim + dim - 1] -= 1.5;
    return h;
}

static inline void free_head(head *h)
{
    free(h->q.x);
    free(h->q.t);
    free(h->k.x);
    free(h->k.t);
}

static inline qk_moments *moments_of(const rows *r)
{
    qk_accumulator *acc;
    qk_moments *m;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, r->dim, &err), QK_OK);
    const qk_block block = doubles(r->x, r->t, r->count, r->dim);
    assert_int_equal(qk_accumulator_add(acc, &block, &err), QK_OK);
    assert_int_equal(qk_accumulator_finish(&acc, &m, &err), QK_OK);
    return m;
}

static inline qk_rotation *fit(const head *h, qk_b_axis b, int planes)
{
    qk_moments *q = moments_of(&h->q), *k = moments_of(&h->k);
    qk_rotation_settings settings;
    qk_rotation *r;
    qk_error err = {0};
    qk_settings_default(&qk__rotation_settings_table, &settings);
    assert_true(settings.b_axis == QK_B_PAIRS && settings.planes == 0);
    settings.b_axis = b;
    settings.planes = planes;
    assert_int_equal(qk__rotation_fit(q, k, &settings, &r, &err), QK_OK);
    qk_moments_free(&q);
    qk_moments_free(&k);
    return r;
}

static inline void add(qk__rotation_scan *scan, const rows *r, bool queries, size_t block)
{
    qk_error err = {0};
    for (size_t i = 0; i < r->count; i += block) {
        size_t take = r->count - i < block ? r->count - i : block;
        const qk_block some = doubles(r->x + i * r->dim, r->t + i, take, r->dim);
        assert_int_equal(qk__rotation_scan_add(scan, queries, &some, &err), QK_OK);
    }
}

static inline void scan_known(const head *h, qk_rotation *r, size_t first, size_t planes,
                              size_t block, const double *known, size_t count)
{
    qk__rotation_scan *scan;
    qk_error err = {0};
    assert_int_equal(qk__rotation_scan_create(&scan, r, first, planes, known, count, &err),
                     QK_OK);
    add(scan, &h->q, true, block);
    add(scan, &h->k, false, block);
    assert_int_equal(qk__rotation_scan_finish(&scan, r, &err), QK_OK);
    assert_null(scan);
}

static inline void scan_planes(const head *h, qk_rotation *r, size_t first, size_t planes,
                               size_t block)
{
    scan_known(h, r, first, planes, block, NULL, 0);
}

static inline qk_rotation *fit_and_scan(const head *h, int planes)
{
    qk_rotation *r = fit(h, QK_B_PAIRS, planes);
    scan_planes(h, r, 0, r->num_planes, 1000);
    return r;
}

static inline double product(const double *a, const double *b, size_t d)
{
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

/* sum of squares of the rows on v about their mean, and the mean */
static inline double spread_on(const rows *r, const double *v, double *mean)
{
    double sum = 0;
    *mean = 0;
    for (size_t i = 0; i < r->count; i++)
        *mean += product(r->x + i * r->dim, v, r->dim) / (double)r->count;
    for (size_t i = 0; i < r->count; i++) {
        double y = product(r->x + i * r->dim, v, r->dim) - *mean;
        sum += y * y;
    }
    return sum;
}

static inline bool all_are_nan(const qk_rotation *r)
{
    return isnan(r->position_r) && isnan(r->r_q_a) && isnan(r->r_k_a) && isnan(r->alpha_q) &&
           isnan(r->alpha_k) && isnan(r->mu_q_a) && isnan(r->mu_k_a) && isnan(r->mu_q_b) &&
           isnan(r->mu_k_b) && isnan(r->bias_strength) && isnan(r->separation_strength) &&
           isnan(r->var_frac_a) && isnan(r->var_frac_b) && isnan(r->plane_var_fraction) &&
           isnan(r->content_var_b) && isnan(r->residual_pos_r) && isnan(r->omega) &&
           isnan(r->omega_r_squared);
}

#endif
