/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity of input that invites mistakes. */
#include "unit.h"

#include <math.h>
#include <string.h>

#include <qkscope/stats.h>

#include "plasticity_rows.h"
#include "stats/bucket_width.h"
#include "stats/plasticity_core.h"

enum { FEW = 8 };

/* A handful of rows of dimension 2, edited by each test. */
typedef struct few {
    double x[2][FEW][2];
    int64_t position[2][FEW], bucket[2][FEW], example[2][FEW], window[FEW];
    qk_block q, k;
} few;

static void make_few(few *f)
{
    uint64_t seed = 3;
    memset(f, 0, sizeof *f);
    for (int kind = 0; kind < 2; kind++)
        for (size_t i = 0; i < FEW; i++) {
            f->x[kind][i][0] = random_unit(&seed);
            f->x[kind][i][1] = random_unit(&seed);
            f->position[kind][i] = (int64_t)i * 10;
            f->bucket[kind][i] = (int64_t)i / 2;
            f->example[kind][i] = 0;
        }
    f->q = (qk_block){.rows = FEW,
                      .dim = 2,
                      .f64 = f->x[0][0],
                      .position = f->position[0],
                      .bucket = f->bucket[0],
                      .example = f->example[0]};
    f->k = f->q;
    f->k.f64 = f->x[1][0];
    f->k.position = f->position[1];
    f->k.bucket = f->bucket[1];
    f->k.example = f->example[1];
}

static qk_plasticity *fit_few(const few *f)
{
    qk_plasticity_settings settings = exactly();
    return fit(&f->q, &f->k, &settings);
}

static void one_key_an_example_has_no_pairs(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.example[1][i] = (int64_t)i;
    qk_plasticity *p = fit_few(&f);
    assert_int_equal(p->num_profile, 3);
    assert_int_equal(p->num_cells, 6);
    assert_int_equal(p->num_distances, 0);
    assert_true(isnan(p->ap_overall) && isnan(p->ap_drop) && isnan(p->fifths[0]));
    for (size_t j = 0; j < 3; j++)
        assert_true(p->profile[j].pairs == 0 && isnan(p->profile[j].ap));
    for (size_t c = 0; c < 6; c++)
        assert_true(p->cells[c].pairs == 0 && isnan(p->cells[c].ap));
    qk__plasticity_free(&p);
}

static void buckets_below_one_ask_nothing(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.bucket[0][i] = -(int64_t)i;
    qk_plasticity *p = fit_few(&f);
    assert_int_equal(p->num_profile + p->num_cells + p->num_distances, 0);
    assert_true(isnan(p->ap_overall) && isnan(p->tenths[9]));
    assert_int_equal(p->pairs_evaluated, 0);
    qk__plasticity_free(&p);
}

static void huge_numbers_do_not_overflow(void **state)
{
    (void)state;
    static const int64_t extremes[FEW] = {INT64_MIN, INT64_MIN + 1, -1,       0, 1,
                                          2,         INT64_MAX - 1, INT64_MAX};
    for (int variant = 0; variant < 16; variant++) {
        few f;
        make_few(&f);
        for (size_t i = 0; i < FEW; i++)
            for (int kind = 0; kind < 2; kind++) {
                if (variant & 1)
                    f.position[kind][i] = extremes[i];
                if (variant & 2)
                    f.bucket[kind][i] = extremes[i];
                if (variant & 4)
                    f.example[kind][i] = extremes[i / 4];
                f.window[i] = INT64_MAX;
            }
        f.q.window = variant & 8 ? f.window : NULL;
        qk_plasticity_settings settings = exactly();
        settings.bucket_width = variant % 3 == 1 ? 1e-300 : 0;
        qk_plasticity *p = fit(&f.q, &f.k, &settings);
        int64_t binned = 0, profiled = 0;
        for (size_t i = 0; i < p->num_distances; i++)
            binned += p->distances[i].pairs;
        for (size_t j = 0; j < p->num_profile; j++)
            profiled += p->profile[j].pairs;
        assert_int_equal(binned, profiled);
        assert_true(p->bucket_width > 0);
        for (size_t i = 0; i < p->num_distances; i++)
            assert_in_range(p->distances[i].distance_bin, 0, 511);
        qk__plasticity_free(&p);
    }
}

static void equal_keys_are_a_coin_toss(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 1; i < FEW; i++)
        memcpy(f.x[1][i], f.x[1][0], sizeof f.x[1][0]);
    qk_plasticity *p = fit_few(&f);
    assert_true(p->ap_overall == 1 && p->fifths[4] == 1 && isnan(p->fifths[0]));
    qk__plasticity_free(&p);
}

static void constant_queries_decide(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 1; i < FEW; i++)
        memcpy(f.x[0][i], f.x[0][0], sizeof f.x[0][0]);
    qk_plasticity *p = fit_few(&f);
    assert_true(p->ap_overall == 0);
    assert_true(p->q_r2_pos == 0 && p->beta_norm == 0 && isnan(p->component_weight[0]));
    qk__plasticity_free(&p);
}

static void constant_positions_have_no_drift(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.position[0][i] = f.position[1][i] = 5;
    qk_plasticity *p = fit_few(&f);
    assert_true(p->beta_norm == 0 && isnan(p->component_weight[1]));
    assert_true(p->ap_overall > 0 && p->ap_overall < 1);
    assert_int_equal(p->num_distances, 1);
    assert_int_equal(p->distances[0].lag_bin, 0);
    qk__plasticity_free(&p);
}

static void one_query_has_no_variance(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    f.q.rows = 1;
    f.bucket[0][0] = 3;
    qk_plasticity *p = fit_few(&f);
    assert_true(p->ap_overall == 0); /* all decided */
    qk__plasticity_free(&p);
}

static void window_below_a_bucket_leaves_the_last(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.window[i] = 1;
    f.q.window = f.window;
    qk_plasticity *p = fit_few(&f);
    assert_int_equal(p->window, 1);
    assert_int_equal(p->num_cells, 3);
    for (size_t j = 0; j < 3; j++)
        assert_true(p->cells[j].k_bucket == p->cells[j].q_bucket - 1 &&
                    p->profile[j].pairs == 1);
    qk__plasticity_free(&p);
    for (size_t i = 0; i < FEW; i++)
        f.window[i] = -(int64_t)i; /* all of them: none */
    p = fit_few(&f);
    assert_int_equal(p->window, 0);
    assert_int_equal(p->num_cells, 6);
    qk__plasticity_free(&p);
}

static void refuses_what_it_cannot_analyse(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    qk_plasticity_settings settings = exactly();
    qk_plasticity *p;
    qk_error err;
    qk_moments *m = moments_of(&f.q);
    f.window[3] = 5;
    f.q.window = f.window;
    assert_int_equal(fit_to(m, &f.q, &f.k, &settings, &p, &err), QK_ERR_INCONSISTENT);
    assert_null(p);
    assert_non_null(strstr(err.message, "sliding_window"));
    f.q.window = NULL;
    f.k.dim = 1;
    assert_int_equal(fit_to(m, &f.q, &f.k, &settings, &p, &err), QK_ERR_INCONSISTENT);
    f.k.dim = 2;
    f.k.rows = 0;
    assert_int_equal(fit_to(m, &f.q, &f.k, &settings, &p, &err), QK_ERR_DEGENERATE);
    f.k.rows = FEW;
    static const uint32_t group[FEW] = {1, 1, 1, 1, 1, 1, 1, 1};
    f.q.group = group;
    f.q.left_out = 1;
    assert_int_equal(fit_to(m, &f.q, &f.k, &settings, &p, &err), QK_ERR_DEGENERATE);
    assert_null(p);
    qk_moments_free(&m);
}

static void width_follows_the_rows(void **state)
{
    (void)state;
    static const struct {
        int64_t position[4], bucket[4];
        double width;
    } cases[] = {
        {{0, 511, 512, 1024}, {0, 0, 1, 2}, 512},
        {{0, 70, 110, 230}, {0, 0, 1, 2}, 96}, /* 77..110: 80 and 96 have factors, 96 more */
        {{0, 600, 700, 1900}, {0, 0, 0, 1}, 1024},
        {{0, 10, 20, 1000}, {0, 1, 2, 9}, 100.1}, /* not equally wide */
        {{-1024, -1, 0, 511}, {-2, -1, 0, 0}, 512},
        {{-5, 3, 4, 5}, {0, 0, 0, 1}, 5.5},
        {{0, 1, 2, 3}, {0, 0, 0, 0}, 4}, /* no upper end */
        {{7, 7, 7, 7}, {7, 7, 7, 7}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qk_block s = {.rows = 2, .position = cases[i].position, .bucket = cases[i].bucket};
        qk_block t = s;
        t.position += 2;
        t.bucket += 2;
        double width = qk__bucket_width(&s, &t);
        if (fabs(width - cases[i].width) > 1e-12)
            print_message("# case %zu: %g\n", i, width);
        assert_true(fabs(width - cases[i].width) <= 1e-12);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_an_example_has_no_pairs),
        cmocka_unit_test(buckets_below_one_ask_nothing),
        cmocka_unit_test(huge_numbers_do_not_overflow),
        cmocka_unit_test(equal_keys_are_a_coin_toss),
        cmocka_unit_test(constant_queries_decide),
        cmocka_unit_test(constant_positions_have_no_drift),
        cmocka_unit_test(one_query_has_no_variance),
        cmocka_unit_test(window_below_a_bucket_leaves_the_last),
        cmocka_unit_test(refuses_what_it_cannot_analyse),
        cmocka_unit_test(width_follows_the_rows),
    };
    return cmocka_run_group_tests_name("plasticity edges", tests, NULL, NULL);
}
