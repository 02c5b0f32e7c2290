/* SPDX-License-Identifier: Apache-2.0 */
/* The rotation model by algebraic identities, planted waves and planes, invariances, and the
 * heads that leave numbers undefined. */
#include "unit.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/rotation.h>

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
static rows make_rows(uint64_t seed, size_t count, size_t dim, int64_t range, double drift)
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

static head make_head(size_t count, size_t dim, int64_t range)
{
    head h = {make_rows(11, count, dim, range, 1), make_rows(12, count + 9, dim, range, -0.4)};
    for (size_t i = 0; i < h.k.count; i++)
        h.k.x[i * dim + dim - 1] -= 1.5;
    return h;
}

static void free_head(head *h)
{
    free(h->q.x);
    free(h->q.t);
    free(h->k.x);
    free(h->k.t);
}

static qk_moments *moments_of(const rows *r)
{
    qk_accumulator *acc;
    qk_moments *m;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, r->dim, &err), QK_OK);
    assert_int_equal(qk_accumulator_add_f64(acc, r->x, r->t, r->count, &err), QK_OK);
    assert_int_equal(qk_accumulator_finish(&acc, &m, &err), QK_OK);
    return m;
}

static qk_rotation *fit(const head *h, qk_b_axis b, int planes)
{
    qk_moments *q = moments_of(&h->q), *k = moments_of(&h->k);
    qk_rotation_settings settings;
    qk_rotation *r;
    qk_error err = {0};
    qk_rotation_settings_default(&settings);
    assert_true(settings.b_axis == QK_B_PAIRS && settings.planes == 0);
    settings.b_axis = b;
    settings.planes = planes;
    assert_int_equal(qk_rotation_fit(q, k, &settings, &r, &err), QK_OK);
    qk_moments_free(&q);
    qk_moments_free(&k);
    return r;
}

static void add(qk_rotation_scan *scan, const rows *r, bool queries, size_t block)
{
    qk_error err = {0};
    for (size_t i = 0; i < r->count; i += block) {
        size_t take = r->count - i < block ? r->count - i : block;
        assert_int_equal(
            qk_rotation_scan_add_f64(scan, queries, r->x + i * r->dim, r->t + i, take, &err),
            QK_OK);
    }
}

static void scan_planes(const head *h, qk_rotation *r, size_t first, size_t planes,
                        size_t block)
{
    qk_rotation_scan *scan;
    qk_error err = {0};
    assert_int_equal(qk_rotation_scan_create(&scan, r, first, planes, &err), QK_OK);
    add(scan, &h->q, true, block);
    add(scan, &h->k, false, block);
    assert_int_equal(qk_rotation_scan_finish(&scan, r, &err), QK_OK);
    assert_null(scan);
}

static qk_rotation *fit_and_scan(const head *h, int planes)
{
    qk_rotation *r = fit(h, QK_B_PAIRS, planes);
    scan_planes(h, r, 0, r->num_planes, 1000);
    return r;
}

static double product(const double *a, const double *b, size_t d)
{
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

/* sum of squares of the rows on v about their mean, and the mean */
static double spread_on(const rows *r, const double *v, double *mean)
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

static bool all_are_nan(const qk_rotation *r)
{
    return isnan(r->position_r) && isnan(r->r_q_a) && isnan(r->r_k_a) && isnan(r->alpha_q) &&
           isnan(r->alpha_k) && isnan(r->mu_q_a) && isnan(r->mu_k_a) && isnan(r->mu_q_b) &&
           isnan(r->mu_k_b) && isnan(r->bias_strength) && isnan(r->separation_strength) &&
           isnan(r->var_frac_a) && isnan(r->var_frac_b) && isnan(r->plane_var_fraction) &&
           isnan(r->content_var_b) && isnan(r->residual_pos_r) && isnan(r->omega) &&
           isnan(r->omega_r_squared);
}

/* ---- the axes ------------------------------------------------------------------------- */

static void identities_hold(void **state)
{
    (void)state;
    enum { DIM = 24 };
    head h = make_head(700, DIM, 2000);
    qk_rotation *r = fit(&h, QK_B_PAIRS, 30);
    qk_moments *q = moments_of(&h.q), *k = moments_of(&h.k), *pooled;
    qk_error err;
    assert_int_equal(qk_moments_merge(q, k, &pooled, &err), QK_OK);
    assert_false(r->degenerate);
    double length = sqrt(product(pooled->sum_xt, pooled->sum_xt, DIM));
    assert_true(fabs(product(r->a, pooled->sum_xt, DIM) / length - 1) < 1e-14);
    assert_true(fabs(product(r->a, r->b, DIM)) < 1e-15);
    assert_true(r->residual_pos_r >= 0 && r->residual_pos_r < 1e-10);
    assert_true(r->mu_q_b >= r->mu_k_b);

    double mean_q, mean_k;
    double within = spread_on(&h.q, r->b, &mean_q) / (double)h.q.count +
                    spread_on(&h.k, r->b, &mean_k) / (double)h.k.count;
    assert_true(fabs(mean_q - r->mu_q_b) < 1e-13 && fabs(mean_k - r->mu_k_b) < 1e-13);
    assert_true(fabs(within / 2 - r->content_var_b) < 1e-13);
    double pairs = 0, all = 0; /* b^T C_delta b and its trace, from all pairs */
    for (size_t i = 0; i < h.q.count; i++)
        for (size_t j = 0; j < h.k.count; j++) {
            double delta[DIM];
            for (size_t c = 0; c < DIM; c++)
                delta[c] = h.q.x[i * DIM + c] - h.k.x[j * DIM + c];
            double on = product(delta, r->b, DIM);
            pairs += on * on;
            all += product(delta, delta, DIM);
        }
    double count = (double)h.q.count * (double)h.k.count, gap = r->mu_q_b - r->mu_k_b;
    assert_true(fabs(pairs / count / (2 * r->content_var_b + gap * gap) - 1) < 1e-11);
    assert_true(fabs(pairs / all - r->separation_strength) < 1e-12);
    assert_true(fabs(r->bias_strength - r->mu_q_a * r->alpha_k) < 1e-16);
    assert_true(r->plane_var_fraction == r->var_frac_a + r->var_frac_b);

    /* every axis orthonormal; with d even, a, b and the planes hold all variance */
    assert_int_equal(r->num_planes, DIM / 2 - 1);
    double worst = 0, share = r->plane_var_fraction;
    for (size_t i = 0; i < 2 * r->num_planes; i++) {
        const double *axis = r->axes + i * DIM;
        worst = fmax(worst, fabs(product(axis, r->a, DIM)));
        worst = fmax(worst, fabs(product(axis, r->b, DIM)));
        for (size_t j = 0; j <= i; j++)
            worst = fmax(worst, fabs(product(axis, r->axes + j * DIM, DIM) - (i == j)));
    }
    for (size_t i = 0; i < r->num_planes; i++) {
        share += r->planes[i].variance_share;
        assert_true(i == 0 || r->planes[i].variance_share <= r->planes[i - 1].variance_share);
        assert_true(isnan(r->planes[i].omega) && isnan(r->planes[i].resultant));
    }
    print_message("# residual r %.2g, axes orthonormal to %.2g\n", r->residual_pos_r, worst);
    assert_true(worst < 2e-15);
    assert_true(fabs(share - 1) < 1e-13);
    qk_moments_free(&pooled);
    qk_moments_free(&q);
    qk_moments_free(&k);
    qk_rotation_free(&r);
    assert_null(r);
    free_head(&h);
}

static void centroid_follows_the_means(void **state)
{
    (void)state;
    enum { DIM = 9 };
    head h = make_head(300, DIM, 500);
    qk_rotation *r = fit(&h, QK_B_CENTROID, 0);
    double gap[DIM];
    for (size_t i = 0; i < DIM; i++)
        gap[i] = r->mean_q[i] - r->mean_k[i];
    double on_a = product(gap, r->a, DIM), on_b = product(gap, r->b, DIM);
    assert_true(fabs(on_a * on_a + on_b * on_b - product(gap, gap, DIM)) < 1e-13);
    assert_true(on_b > 0 && fabs(product(r->a, r->b, DIM)) < 1e-15);
    qk_rotation_free(&r);
    memcpy(h.k.x, h.q.x, h.q.count * DIM * sizeof(double));
    memcpy(h.k.t, h.q.t, h.q.count * sizeof(int64_t));
    h.k.count = h.q.count;
    r = fit(&h, QK_B_CENTROID, 3);
    assert_false(r->degenerate);
    assert_null(r->b);
    assert_true(isnan(r->mu_q_b) && isnan(r->separation_strength) && isnan(r->var_frac_b));
    assert_true(isnan(r->content_var_b) && isnan(r->plane_var_fraction));
    assert_true(r->position_r > 0 && r->var_frac_a > 0 && r->num_planes == 3);
    qk_rotation_free(&r);
    r = fit(&h, QK_B_PAIRS, 0); /* equal means: b by its largest entry */
    size_t largest = 0;
    for (size_t i = 1; i < DIM; i++)
        largest = fabs(r->b[i]) > fabs(r->b[largest]) ? i : largest;
    assert_true(r->mu_q_b == r->mu_k_b && r->b[largest] > 0);
    qk_rotation_free(&r);
    free_head(&h);
}

/* ---- invariance ----------------------------------------------------------------------- */

static void assert_same(const qk_rotation *a, const qk_rotation *b, double tolerance)
{
    const double pairs[][2] = {
        {a->position_r, b->position_r},
        {a->r_q_a, b->r_q_a},
        {a->r_k_a, b->r_k_a},
        {a->alpha_q * 1000, b->alpha_q * 1000},
        {a->alpha_k * 1000, b->alpha_k * 1000},
        {a->mu_q_a, b->mu_q_a},
        {a->mu_k_a, b->mu_k_a},
        {a->mu_q_b, b->mu_q_b},
        {a->mu_k_b, b->mu_k_b},
        {a->separation_strength, b->separation_strength},
        {a->plane_var_fraction, b->plane_var_fraction},
        {a->content_var_b, b->content_var_b},
        {a->omega * 1000, b->omega * 1000},
        {a->omega_r_squared, b->omega_r_squared},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_true(fabs(pairs[i][0] - pairs[i][1]) <= tolerance);
    assert_int_equal(a->num_planes, b->num_planes);
    for (size_t i = 0; i < a->num_planes; i++) {
        const qk_plane *p = &a->planes[i], *o = &b->planes[i];
        assert_true(fabs(p->variance_share - o->variance_share) <= tolerance);
        assert_true(fabs(p->omega - o->omega) <= 100 * tolerance);
        assert_true(fabs(p->resultant - o->resultant) <= 100 * tolerance);
        assert_true(p->omega > 0 && p->resultant > 0 && p->resultant <= 1);
        assert_true(fabs(p->angle_r) <= 1);
    }
}

static void shift_positions(rows *r, int64_t by)
{
    for (size_t i = 0; i < r->count; i++)
        r->t[i] += by;
}

/* A reflection of the space along (1, 2, ..., d). */
static void reflect(rows *r)
{
    double norm = 0;
    for (size_t c = 0; c < r->dim; c++)
        norm += (double)(c + 1) * (double)(c + 1);
    for (size_t i = 0; i < r->count; i++) {
        double *x = r->x + i * r->dim, on = 0;
        for (size_t c = 0; c < r->dim; c++)
            on += x[c] * (double)(c + 1);
        for (size_t c = 0; c < r->dim; c++)
            x[c] -= 2 * on / norm * (double)(c + 1);
    }
}

static void coordinates_do_not_matter(void **state)
{
    (void)state;
    head h = make_head(500, 12, 900);
    qk_rotation *plain = fit_and_scan(&h, 5);
    shift_positions(&h.q, 1000000);
    shift_positions(&h.k, 1000000);
    qk_rotation *shifted = fit_and_scan(&h, 5);
    assert_same(plain, shifted, 1e-10);
    reflect(&h.q);
    reflect(&h.k);
    qk_rotation *reflected = fit_and_scan(&h, 5);
    assert_same(plain, reflected, 1e-10);
    qk_rotation_free(&plain);
    qk_rotation_free(&shifted);
    qk_rotation_free(&reflected);
    free_head(&h);
}

static void assert_same_bits(const qk_rotation *a, const qk_rotation *b)
{
    assert_memory_equal(&a->omega, &b->omega, sizeof a->omega);
    assert_memory_equal(&a->omega_r_squared, &b->omega_r_squared, sizeof a->omega_r_squared);
    assert_memory_equal(a->planes, b->planes, a->num_planes * sizeof *a->planes);
    assert_memory_equal(a->axes, b->axes, 2 * a->num_planes * a->dim * sizeof(double));
}

static void blocks_and_goes_do_not_matter(void **state)
{
    (void)state;
    head h = make_head(403, 19, 700);
    qk_rotation *once = fit_and_scan(&h, 8);
    assert_int_equal(once->num_planes, 8);
    static const size_t blocks[] = {1, 2, 3, 5, 127};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        qk_rotation *r = fit(&h, QK_B_PAIRS, 8);
        scan_planes(&h, r, 3, 2, blocks[i]);
        assert_true(isnan(r->omega) && isnan(r->planes[2].omega));
        scan_planes(&h, r, 5, 3, blocks[i]);
        scan_planes(&h, r, 0, 3, blocks[i]);
        assert_same_bits(once, r);
        qk_rotation_free(&r);
    }
    qk_rotation_free(&once);
    free_head(&h);
}

static void float_rows_are_the_same_rows(void **state)
{
    (void)state;
    head h = make_head(200, 7, 300);
    rows *kinds[2] = {&h.q, &h.k};
    float *single[2];
    for (size_t i = 0; i < 2; i++) {
        size_t values = kinds[i]->count * 7;
        single[i] = malloc(values * sizeof(float));
        assert_non_null(single[i]);
        for (size_t j = 0; j < values; j++) {
            single[i][j] = (float)kinds[i]->x[j];
            kinds[i]->x[j] = (double)single[i][j];
        }
    }
    qk_rotation *wide = fit_and_scan(&h, 2), *narrow = fit(&h, QK_B_PAIRS, 2);
    qk_rotation_scan *scan;
    qk_error err;
    assert_int_equal(qk_rotation_scan_create(&scan, narrow, 0, 2, &err), QK_OK);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(qk_rotation_scan_add_f32(scan, i == 0, single[i], kinds[i]->t,
                                                  kinds[i]->count, &err),
                         QK_OK);
    assert_int_equal(qk_rotation_scan_finish(&scan, narrow, &err), QK_OK);
    assert_same_bits(wide, narrow);
    qk_rotation_free(&wide);
    qk_rotation_free(&narrow);
    free(single[0]);
    free(single[1]);
    free_head(&h);
}

/* ---- planted waves and planes --------------------------------------------------------- */

/* Adds a wave with `turns` turns over range to the first dimension. */
static void plant_wave(rows *r, double turns, double range, double amplitude)
{
    for (size_t i = 0; i < r->count; i++)
        r->x[i * r->dim] += amplitude * sin(TURN * turns * (double)r->t[i] / range + 0.4);
}

static void wave_is_recovered(double turns, int64_t range, int64_t stride)
{
    head h = {make_rows(3, 3000, 6, range / stride, 0.5),
              make_rows(4, 2000, 6, range / stride, 0.5)};
    rows *kinds[2] = {&h.q, &h.k};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < kinds[k]->count; i++)
            kinds[k]->t[i] *= stride;
        for (size_t i = 0; i < kinds[k]->count * 6; i++)
            kinds[k]->x[i] *= 0.002;
        plant_wave(kinds[k], turns, (double)range, 1);
    }
    qk_rotation *r = fit_and_scan(&h, 0);
    double expected = TURN * turns / (double)range;
    print_message("# %g turns over %lld: off by %.2g, R^2 %.6f\n", turns, (long long)range,
                  r->omega / expected - 1, r->omega_r_squared);
    assert_true(fabs(r->omega / expected - 1) < 1e-3);
    assert_true(r->omega_r_squared > 0.99 && r->omega_r_squared <= 1);
    qk_rotation_free(&r);
    free_head(&h);
}

static void planted_waves_are_recovered(void **state)
{
    (void)state;
    wave_is_recovered(0.7, 1000, 1);
    wave_is_recovered(3.37, 4000, 1);
    wave_is_recovered(15.6, 30000, 1); /* more positions than the grid has cells */
    wave_is_recovered(4.4, 12, 1);     /* close to half a turn a token */
    wave_is_recovered(7.2, 16000, 1000);
    wave_is_recovered(9.1, INT64_C(1) << 50, INT64_C(1) << 37);
}

/* The ends of the interval come out as they are. */
static void ends_are_exact(void **state)
{
    (void)state;
    head h = {make_rows(5, 900, 3, 777, 0), make_rows(6, 800, 3, 777, 0)};
    rows *kinds[2] = {&h.q, &h.k};
    const double lower = TURN / (8 * 777.0), upper = TURN * 16 / 777.0;
    static const double turns[] = {0.05, 16.3};
    for (size_t end = 0; end < 2; end++) {
        for (size_t k = 0; k < 2; k++) {
            memset(kinds[k]->x, 0, kinds[k]->count * 3 * sizeof(double));
            plant_wave(kinds[k], turns[end], 777, 1);
        }
        qk_rotation *r = fit_and_scan(&h, 0);
        assert_true(r->omega == (end == 0 ? lower : upper));
        qk_rotation_free(&r);
    }
    free_head(&h);
    /* (-1)^t (1 + t / 8): half a turn a token, which is the end of a short text */
    head s = {make_rows(5, 60, 3, 9, 0), make_rows(6, 60, 3, 9, 0)};
    kinds[0] = &s.q;
    kinds[1] = &s.k;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < 60; i++) {
            double t = (double)kinds[k]->t[i];
            memset(kinds[k]->x + 3 * i, 0, 3 * sizeof(double));
            kinds[k]->x[3 * i] = (kinds[k]->t[i] % 2 ? -1 : 1) * (1 + t / 8);
        }
    qk_rotation *r = fit_and_scan(&s, 0);
    assert_true(r->omega == TURN / 2);
    assert_true(fabs(r->omega_r_squared - 1) < 1e-12);
    qk_rotation_free(&r);
    free_head(&s);
}

/* A plane of dimensions c and c + 1 that turns by omega a token. */
static void plant_plane(rows *r, size_t c, double omega, double phase, double amplitude)
{
    for (size_t i = 0; i < r->count; i++) {
        double angle = omega * (double)r->t[i] + phase;
        r->x[i * r->dim + c] += amplitude * cos(angle);
        r->x[i * r->dim + c + 1] += amplitude * sin(angle);
    }
}

static void planes_are_recovered(double first, double second, int64_t offset)
{
    head h = {make_rows(7, 1500, 12, 1200, 4), make_rows(8, 1400, 12, 1200, 4)};
    shift_positions(&h.q, offset);
    shift_positions(&h.k, offset);
    for (size_t i = 0; i < h.k.count; i++)
        h.k.x[i * 12 + 11] += 20; /* b */
    plant_plane(&h.q, 2, first, 0.3, 6);
    plant_plane(&h.k, 2, first, 0.3 + TURN / 2, 6); /* half a turn apart */
    plant_plane(&h.q, 5, second, 1, 4);
    plant_plane(&h.k, 5, second, 2, 4);
    qk_rotation *r = fit_and_scan(&h, 2);
    const double expected[2] = {fabs(first), fabs(second)};
    for (size_t i = 0; i < 2; i++) {
        const qk_plane *p = &r->planes[i];
        print_message("# plane %zu: off by %.2g, resultant %.4f, angle_r %.6f\n", i,
                      p->omega / expected[i] - 1, p->resultant, p->angle_r);
        assert_true(fabs(p->omega / expected[i] - 1) < 1e-3);
        assert_true(p->resultant > 0.97 && p->resultant <= 1);
        /* the direction of the second axis makes angles grow */
        assert_true(p->angle_r > 0.99);
    }
    qk_rotation_free(&r);
    free_head(&h);
}

static void planted_planes_are_recovered(void **state)
{
    (void)state;
    planes_are_recovered(1, 0.0317, 0);
    planes_are_recovered(-1, 0.0317, 12345);
    planes_are_recovered(0.0707, -2.9, 1000000);
    planes_are_recovered(-0.31, -0.053, 0);
}

/* ---- degenerate heads ----------------------------------------------------------------- */

static void assert_degenerate(const head *h)
{
    qk_rotation *r = fit(h, QK_B_PAIRS, 4);
    assert_true(r->degenerate && all_are_nan(r) && r->num_planes == 0);
    assert_true(!r->a && !r->b && !r->axes && !r->planes);
    assert_true(r->n_q == (int64_t)h->q.count && r->n_k == (int64_t)h->k.count);
    scan_planes(h, r, 0, 0, 7);
    assert_true(all_are_nan(r));
    qk_rotation_free(&r);
}

static void degenerate_heads_have_no_numbers(void **state)
{
    (void)state;
    head h = make_head(40, 8, 100);
    h.q.count = 2;
    assert_degenerate(&h);
    h.q.count = 40;
    h.k.count = 2;
    assert_degenerate(&h);
    h.k.count = 0;
    assert_degenerate(&h);
    h.k.count = 49;
    for (size_t i = 0; i < 49; i++) /* constant positions */
        h.k.t[i] = h.q.t[i < 40 ? i : 0] = 1000003;
    assert_degenerate(&h);
    free_head(&h);
    h = make_head(40, 8, 100);
    for (size_t i = 0; i < 49; i++) /* all vectors equal */
        for (size_t c = 0; c < 8; c++)
            h.k.x[i * 8 + c] = h.q.x[(i < 40 ? i : 0) * 8 + c] = 1e6 / 3 + (double)c;
    assert_degenerate(&h);
    free_head(&h);
    /* every vector at t = 0 and again at t = 1: rounding, no drift */
    h = make_head(40, 8, 100);
    for (size_t i = 0; i < 40; i++)
        h.q.t[i] = (int64_t)(i % 2);
    for (size_t i = 0; i < 40; i += 2)
        memcpy(h.q.x + (i + 1) * 8, h.q.x + i * 8, 8 * sizeof(double));
    memcpy(h.k.x, h.q.x, 40 * 8 * sizeof(double));
    memcpy(h.k.t, h.q.t, 40 * sizeof(int64_t));
    h.k.count = 40;
    assert_degenerate(&h);
    free_head(&h);
}

static void few_dimensions_have_few_axes(void **state)
{
    (void)state;
    for (size_t dim = 1; dim <= 6; dim++) {
        head h = make_head(60, dim, 50);
        qk_rotation *r = fit_and_scan(&h, 30);
        assert_false(r->degenerate);
        assert_true(r->position_r >= 0 && r->position_r <= 1 && r->residual_pos_r < 1e-10);
        assert_true(r->omega > 0 && r->omega_r_squared >= 0 && r->omega_r_squared <= 1);
        assert_int_equal(r->num_planes, dim < 4 ? 0 : (dim - 2) / 2);
        assert_int_equal(r->b != NULL, dim > 1);
        if (dim == 1) {
            assert_true(fabs(r->var_frac_a - 1) < 1e-14 && fabs(r->a[0]) == 1);
            assert_true(isnan(r->mu_q_b) && isnan(r->plane_var_fraction));
        } else if (dim == 2) {
            assert_true(fabs(r->plane_var_fraction - 1) < 1e-13);
        }
        qk_rotation_free(&r);
        free_head(&h);
    }
}

/* All variance on a line: there is no b, and no plane has variance. */
static void variance_on_a_alone_has_no_b(void **state)
{
    (void)state;
    head h = make_head(60, 7, 50);
    rows *kinds[2] = {&h.q, &h.k};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < kinds[k]->count; i++)
            for (size_t c = 0; c < 7; c++)
                kinds[k]->x[i * 7 + c] = (double)(kinds[k]->t[i] * (int64_t)(c + 1));
    qk_rotation *r = fit_and_scan(&h, 9);
    assert_false(r->degenerate);
    assert_null(r->b);
    assert_true(fabs(r->position_r - 1) < 1e-14 && isnan(r->separation_strength));
    assert_true(isnan(r->plane_var_fraction) && r->omega > 0);
    assert_int_equal(r->num_planes, 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(isnan(r->planes[i].variance_share) && isnan(r->planes[i].omega) &&
                    isnan(r->planes[i].resultant) && isnan(r->planes[i].angle_r));
    qk_rotation_free(&r);
    free_head(&h);
}

static void few_positions_have_no_omega(void **state)
{
    (void)state;
    for (int64_t range = 1; range < 5; range++) {
        head h = make_head(80, 6, range);
        for (size_t i = 0; i < 5; i++)
            h.q.t[i] = (int64_t)i <= range ? (int64_t)i : 0;
        qk_rotation *r = fit_and_scan(&h, 2);
        assert_false(r->degenerate);
        assert_int_equal(isnan(r->omega), range < 3);
        assert_int_equal(isnan(r->omega_r_squared), range < 3);
        assert_int_equal(isnan(r->planes[0].omega), range < 3);
        assert_int_equal(isnan(r->planes[1].angle_r), range < 3);
        assert_true(r->planes[0].variance_share > 0);
        qk_rotation_free(&r);
        free_head(&h);
    }
}

/* Positions from one end of 64 bits to the other; a span that no FFT could hold. */
static void far_positions_are_harmless(void **state)
{
    (void)state;
    head h = make_head(80, 6, 70);
    h.q.t[3] = INT64_MAX;
    h.k.t[5] = INT64_MIN;
    qk_rotation *r = fit_and_scan(&h, 2);
    assert_false(r->degenerate);
    assert_true(r->omega > 0 && r->omega_r_squared <= 1);
    assert_true(isnan(r->planes[0].omega) && r->planes[0].variance_share > 0);
    qk_rotation_free(&r);
    free_head(&h);
}

/* The fit refused such rows, but nothing may hang on them. */
static void rows_that_are_not_finite_end(void **state)
{
    (void)state;
    head h = make_head(300, 6, 200);
    qk_rotation *r = fit(&h, QK_B_PAIRS, 2);
    h.q.x[7] = NAN;
    h.k.x[50] = INFINITY;
    scan_planes(&h, r, 0, 2, 50);
    assert_true(isnan(r->omega));
    qk_rotation_free(&r);
    free_head(&h);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    head h = make_head(50, 8, 60), other = make_head(50, 9, 60);
    qk_moments *q = moments_of(&h.q), *k = moments_of(&other.k);
    qk_rotation_settings settings;
    qk_rotation *r;
    qk_rotation_scan *scan;
    qk_error err = {0};
    qk_rotation_settings_default(&settings);
    assert_int_equal(qk_rotation_fit(q, k, &settings, &r, &err), QK_ERR_INCONSISTENT);
    assert_null(r);
    assert_non_null(strstr(err.message, "9"));
    r = fit(&h, QK_B_PAIRS, -3);
    assert_int_equal(r->num_planes, 0);
    assert_int_equal(qk_rotation_scan_create(&scan, r, 0, 1, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk_rotation_scan_create(&scan, r, SIZE_MAX, 2, &err), QK_ERR_ARGUMENT);
    assert_null(scan);
    qk_rotation_scan_free(&scan);
    assert_int_equal(qk_rotation_scan_create(&scan, r, 0, 0, &err), QK_OK);
    assert_int_equal(qk_rotation_scan_add_f64(scan, false, h.k.x, h.k.t, 1, &err),
                     QK_ERR_ARGUMENT);
    add(scan, &h.q, true, 9);
    assert_int_equal(qk_rotation_scan_add_f64(scan, true, h.q.x, h.q.t, 1, &err),
                     QK_ERR_ARGUMENT);
    assert_int_equal(qk_rotation_scan_add_f64(scan, false, h.k.x, h.k.t, 2, &err), QK_OK);
    assert_int_equal(qk_rotation_scan_finish(&scan, r, &err), QK_ERR_ARGUMENT);
    assert_true(!scan && isnan(r->omega));
    qk_rotation_free(&r);
    qk_rotation_free(&r);
    qk_moments_free(&q);
    qk_moments_free(&k);
    free_head(&h);
    free_head(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identities_hold),
        cmocka_unit_test(centroid_follows_the_means),
        cmocka_unit_test(coordinates_do_not_matter),
        cmocka_unit_test(blocks_and_goes_do_not_matter),
        cmocka_unit_test(float_rows_are_the_same_rows),
        cmocka_unit_test(planted_waves_are_recovered),
        cmocka_unit_test(ends_are_exact),
        cmocka_unit_test(planted_planes_are_recovered),
        cmocka_unit_test(degenerate_heads_have_no_numbers),
        cmocka_unit_test(few_dimensions_have_few_axes),
        cmocka_unit_test(variance_on_a_alone_has_no_b),
        cmocka_unit_test(few_positions_have_no_omega),
        cmocka_unit_test(far_positions_are_harmless),
        cmocka_unit_test(rows_that_are_not_finite_end),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests_name("rotation", tests, NULL, NULL);
}
