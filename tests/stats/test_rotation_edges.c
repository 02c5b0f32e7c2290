/* SPDX-License-Identifier: Apache-2.0 */
/* The rotation model of heads that leave numbers undefined, and misuse. */
#include "rotation_rows.h"
#include "stats/rotation.h"

static void assert_degenerate(const head *h)
{
    qk_rotation *r = fit(h, QK_B_PAIRS, 4);
    assert_true(r->degenerate && all_are_nan(r) && r->num_planes == 0);
    assert_true(!r->a && !r->b && !r->axes && !r->planes);
    assert_true(r->n_q == (int64_t)h->q.count && r->n_k == (int64_t)h->k.count);
    scan_planes(h, r, 0, 0, 7);
    assert_true(all_are_nan(r));
    qk__rotation_free(&r);
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
        qk__rotation_free(&r);
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
    qk__rotation_free(&r);
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
        qk__rotation_free(&r);
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
    qk__rotation_free(&r);
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
    qk__rotation_free(&r);
    free_head(&h);
}

static void misuse_is_refused(void **state)
{
    (void)state;
    head h = make_head(50, 8, 60), other = make_head(50, 9, 60);
    qk_moments *q = moments_of(&h.q), *k = moments_of(&other.k);
    qk_rotation_settings settings;
    qk_rotation *r;
    qk__rotation_scan *scan;
    qk_error err = {0};
    qk_settings_default(&qk__rotation_settings_table, &settings);
    assert_int_equal(qk__rotation_fit(q, k, &settings, &r, &err), QK_ERR_INCONSISTENT);
    assert_null(r);
    assert_non_null(strstr(err.message, "9"));
    r = fit(&h, QK_B_PAIRS, -3);
    assert_int_equal(r->num_planes, 0);
    assert_int_equal(qk__rotation_scan_create(&scan, r, 0, 1, NULL, 0, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__rotation_scan_create(&scan, r, SIZE_MAX, 2, NULL, 0, &err),
                     QK_ERR_ARGUMENT);
    assert_null(scan);
    qk__rotation_scan_free(&scan);
    assert_int_equal(qk__rotation_scan_create(&scan, r, 0, 0, NULL, 0, &err), QK_OK);
    const qk_block query = doubles(h.q.x, h.q.t, 1, h.q.dim);
    const qk_block key = doubles(h.k.x, h.k.t, 1, h.k.dim);
    const qk_block keys = doubles(h.k.x, h.k.t, 2, h.k.dim);
    assert_int_equal(qk__rotation_scan_add(scan, false, &key, &err), QK_ERR_ARGUMENT);
    add(scan, &h.q, true, 9);
    assert_int_equal(qk__rotation_scan_add(scan, true, &query, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__rotation_scan_add(scan, false, &keys, &err), QK_OK);
    assert_int_equal(qk__rotation_scan_finish(&scan, r, &err), QK_ERR_ARGUMENT);
    assert_true(!scan && isnan(r->omega));
    qk__rotation_free(&r);
    qk__rotation_free(&r);
    qk_moments_free(&q);
    qk_moments_free(&k);
    free_head(&h);
    free_head(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degenerate_heads_have_no_numbers),
        cmocka_unit_test(few_dimensions_have_few_axes),
        cmocka_unit_test(variance_on_a_alone_has_no_b),
        cmocka_unit_test(few_positions_have_no_omega),
        cmocka_unit_test(far_positions_are_harmless),
        cmocka_unit_test(rows_that_are_not_finite_end),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests_name("rotation edges", tests, NULL, NULL);
}
