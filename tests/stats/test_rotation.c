/* SPDX-License-Identifier: Apache-2.0 */
/* The rotation model by algebraic identities, planted waves and planes, and invariances. */
#include "rotation_rows.h"
#include "stats/moments.h"
#include "stats/rotation.h"

/* ---- the axes --------------------------------------------------------------------------- */

static void identities_hold(void **state)
{
    (void)state;
    enum { DIM = 24 };
    head h = make_head(700, DIM, 2000);
    qk_rotation *r = fit(&h, QK_B_PAIRS, 30);
    qk_moments *q = moments_of(&h.q), *k = moments_of(&h.k), *pooled;
    qk_error err;
    assert_int_equal(qk__moments_merge(q, k, &pooled, &err), QK_OK);
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
    qk__rotation_free(&r);
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
    qk__rotation_free(&r);
    memcpy(h.k.x, h.q.x, h.q.count * DIM * sizeof(double));
    memcpy(h.k.t, h.q.t, h.q.count * sizeof(int64_t));
    h.k.count = h.q.count;
    r = fit(&h, QK_B_CENTROID, 3);
    assert_false(r->degenerate);
    assert_null(r->b);
    assert_true(isnan(r->mu_q_b) && isnan(r->separation_strength) && isnan(r->var_frac_b));
    assert_true(isnan(r->content_var_b) && isnan(r->plane_var_fraction));
    assert_true(r->position_r > 0 && r->var_frac_a > 0 && r->num_planes == 3);
    qk__rotation_free(&r);
    r = fit(&h, QK_B_PAIRS, 0); /* equal means: b by its largest entry */
    size_t largest = 0;
    for (size_t i = 1; i < DIM; i++)
        largest = fabs(r->b[i]) > fabs(r->b[largest]) ? i : largest;
    assert_true(r->mu_q_b == r->mu_k_b && r->b[largest] > 0);
    qk__rotation_free(&r);
    free_head(&h);
}

/* ---- invariance ------------------------------------------------------------------------- */

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
    qk__rotation_free(&plain);
    qk__rotation_free(&shifted);
    qk__rotation_free(&reflected);
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
        qk__rotation_free(&r);
    }
    qk__rotation_free(&once);
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
    qk__rotation_scan *scan;
    qk_error err;
    assert_int_equal(qk__rotation_scan_create(&scan, narrow, 0, 2, NULL, 0, &err), QK_OK);
    for (size_t i = 0; i < 2; i++) {
        const qk_block block = floats(single[i], kinds[i]->t, kinds[i]->count, kinds[i]->dim);
        assert_int_equal(qk__rotation_scan_add(scan, i == 0, &block, &err), QK_OK);
    }
    assert_int_equal(qk__rotation_scan_finish(&scan, narrow, &err), QK_OK);
    assert_same_bits(wide, narrow);
    qk__rotation_free(&wide);
    qk__rotation_free(&narrow);
    free(single[0]);
    free(single[1]);
    free_head(&h);
}

/* ---- planted waves and planes ----------------------------------------------------------- */

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
    qk__rotation_free(&r);
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
        qk__rotation_free(&r);
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
    qk__rotation_free(&r);
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
    const double expected[2] = {fabs(first), fabs(second)};
    const double known[] = {0, 1.7 * expected[0], expected[1], 1.7 * expected[1], expected[0]};
    qk_rotation *r = fit(&h, QK_B_PAIRS, 2);
    scan_known(&h, r, 0, 2, 1000, known, sizeof known / sizeof *known);
    for (size_t i = 0; i < 2; i++) {
        const qk_plane *p = &r->planes[i];
        print_message("# plane %zu: off by %.2g, resultant %.4f, angle_r %.6f\n", i,
                      p->omega / expected[i] - 1, p->resultant, p->angle_r);
        assert_true(p->omega == expected[i] && p->rope_frequency == p->omega);
        assert_true(p->resultant > 0.97 && p->resultant <= 1);
        /* the direction of the second axis makes angles grow */
        assert_true(p->angle_r > 0.99);
    }
    qk__rotation_free(&r);
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
    };
    return cmocka_run_group_tests_name("rotation", tests, NULL, NULL);
}
