/* SPDX-License-Identifier: Apache-2.0 */
/* Moments: independence of how rows are cut into blocks, accuracy far from zero, merging, and
 * values that are not finite. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/stats.h>

#include "blocks.h"
#include "stats/moments.h"

enum { DIM = 20, ROWS = 1000 };

typedef struct rows {
    float x[ROWS * DIM];
    double wide[ROWS * DIM];
    int64_t t[ROWS];
} rows;

static int set_up(void **state)
{
    rows *r = malloc(sizeof *r);
    uint64_t seed = 7;
    *state = r;
    if (!r)
        return -1;
    for (size_t i = 0; i < ROWS; i++) {
        r->t[i] = 1000000 + (int64_t)(i * 13);
        for (size_t c = 0; c < DIM; c++) {
            r->x[i * DIM + c] = (float)(random_unit(&seed) + 1000 + 0.001 * (double)i);
            r->wide[i * DIM + c] = r->x[i * DIM + c];
        }
    }
    return 0;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

/* Adds the rows in blocks whose sizes cycle from 1 to step. */
static qk_moments *gather(const rows *r, size_t from, size_t to, size_t step, int wide)
{
    qk_accumulator *acc;
    qk_moments *m;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, DIM, &err), QK_OK);
    for (size_t at = from, size = 1; at < to; at += size, size = size % step + 1) {
        if (size > to - at)
            size = to - at;
        const qk_block block = wide ? doubles(r->wide + at * DIM, r->t + at, size, DIM)
                                    : floats(r->x + at * DIM, r->t + at, size, DIM);
        assert_int_equal(qk_accumulator_add(acc, &block, &err), QK_OK);
    }
    assert_int_equal(qk_accumulator_finish(&acc, &m, &err), QK_OK);
    assert_null(acc);
    return m;
}

static void assert_same_bits(const qk_moments *a, const qk_moments *b)
{
    assert_int_equal(a->count, b->count);
    assert_memory_equal(&a->mean_t, &b->mean_t, sizeof(double));
    assert_memory_equal(&a->sum_tt, &b->sum_tt, sizeof(double));
    assert_memory_equal(a->mean, b->mean, DIM * sizeof(double));
    assert_memory_equal(a->sum_xt, b->sum_xt, DIM * sizeof(double));
    assert_memory_equal(a->sum_xx, b->sum_xx, DIM * DIM * sizeof(double));
}

static void blocks_do_not_matter(void **state)
{
    const rows *r = *state;
    qk_moments *whole = gather(r, 0, ROWS, 1, 0);
    static const size_t steps[] = {2, 7, 100, 128, 129, 600, 1000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        qk_moments *cut = gather(r, 0, ROWS, steps[i], 0);
        assert_same_bits(whole, cut);
        qk_moments_free(&cut);
    }
    qk_moments *wide = gather(r, 0, ROWS, 77, 1);
    assert_same_bits(whole, wide); /* the same values as float and double */
    qk_moments_free(&wide);
    qk_moments_free(&whole);
}

/* Two passes in long double about round numbers near the means (under valgrind a long double
 * has no more digits than a double): the reference for every sum. */
static void assert_close_to_two_pass(const rows *r, const qk_moments *m)
{
    long double mean[DIM] = {0}, mean_t = 0, worst = 0;
    for (size_t i = 0; i < ROWS; i++) {
        mean_t += (long double)(r->t[i] - 1000000);
        for (size_t c = 0; c < DIM; c++)
            mean[c] += r->wide[i * DIM + c] - 1000.0L;
    }
    mean_t = 1000000 + mean_t / ROWS;
    for (size_t c = 0; c < DIM; c++)
        mean[c] = 1000 + mean[c] / ROWS;
    assert_true(fabsl(m->mean_t - mean_t) < 1e-9L);
    for (size_t a = 0; a < DIM; a++) {
        long double sum_xt = 0;
        for (size_t i = 0; i < ROWS; i++)
            sum_xt += (r->wide[i * DIM + a] - mean[a]) * ((long double)r->t[i] - mean_t);
        assert_true(fabsl(m->sum_xt[a] - sum_xt) <= 1e-12L * fabsl(sum_xt));
        assert_true(fabsl(m->mean[a] - mean[a]) < 1e-12L);
        for (size_t b = 0; b < DIM; b++) {
            long double sum = 0, scale = sqrt(m->sum_xx[a * DIM + a] * m->sum_xx[b * DIM + b]);
            for (size_t i = 0; i < ROWS; i++)
                sum += (r->wide[i * DIM + a] - mean[a]) * (r->wide[i * DIM + b] - mean[b]);
            long double error = fabsl(m->sum_xx[a * DIM + b] - sum) / scale;
            worst = error > worst ? error : worst;
        }
    }
    print_message("# largest relative error of sum_xx: %.2Lg\n", worst);
    assert_true(worst < 1e-13L);
}

static void keeps_digits_far_from_zero(void **state)
{
    const rows *r = *state;
    qk_moments *m = gather(r, 0, ROWS, 64, 0);
    assert_close_to_two_pass(r, m);
    qk_moments_free(&m);
}

/* Rows of 40 texts by groups, in blocks of up to `step` rows. */
static qk_moments *gather_texts(const rows *r, size_t step, qk__text_moments **texts)
{
    qk_accumulator *acc;
    qk_moments *m;
    qk_error err;
    int64_t text[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        text[i] = (int64_t)(i * 7919 % 40) - 20;
    assert_int_equal(qk_accumulator_create(&acc, DIM, &err), QK_OK);
    for (size_t at = 0, size = 1; at < ROWS; at += size, size = size % step + 1) {
        if (size > ROWS - at)
            size = ROWS - at;
        qk_block block = floats(r->x + at * DIM, r->t + at, size, DIM);
        block.example = text + at;
        assert_int_equal(qk_accumulator_add(acc, &block, &err), QK_OK);
    }
    assert_int_equal(qk__accumulator_finish_texts(&acc, &m, texts, &err), QK_OK);
    assert_int_equal(qk__text_moments_count(*texts), 40);
    return m;
}

static void texts_are_summed_apart_and_together(void **state)
{
    const rows *r = *state;
    qk__text_moments *texts;
    qk_moments *whole = gather_texts(r, 1, &texts);
    qk__text_moments_free(&texts);
    assert_close_to_two_pass(r, whole);
    static const size_t steps[] = {3, 128, 1000};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        qk_moments *cut = gather_texts(r, steps[i], &texts);
        assert_same_bits(whole, cut);
        qk_moments_free(&cut);
        qk__text_moments_free(&texts);
    }
    qk_moments_free(&whole);
}

static void rows_come_with_texts_or_without(void **state)
{
    const rows *r = *state;
    const int64_t text[] = {1, 2};
    qk_accumulator *acc;
    qk_moments *m;
    qk__text_moments *texts;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, DIM, &err), QK_OK);
    qk_block block = floats(r->x, r->t, 2, DIM);
    assert_int_equal(qk_accumulator_add(acc, &block, &err), QK_OK);
    block.example = text;
    assert_int_equal(qk_accumulator_add(acc, &block, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__accumulator_finish_texts(&acc, &m, &texts, &err), QK_OK);
    assert_int_equal(m->count, 2);
    assert_null(texts);
    assert_int_equal(qk__text_moments_count(texts), 0);
    qk__text_moments_free(&texts);
    qk_moments_free(&m);
}

static void merging_equals_gathering(void **state)
{
    const rows *r = *state;
    qk_moments *a = gather(r, 0, 300, 64, 0), *b = gather(r, 300, ROWS, 64, 0), *merged;
    qk_error err;
    assert_int_equal(qk__moments_merge(a, b, &merged, &err), QK_OK);
    assert_int_equal(merged->count, ROWS);
    assert_close_to_two_pass(r, merged);
    qk_moments_free(&merged);
    b->dim--;
    assert_int_equal(qk__moments_merge(a, b, &merged, &err), QK_ERR_INCONSISTENT);
    assert_null(merged);
    qk_moments_free(&a);
    qk_moments_free(&b);
}

static void names_the_row_that_is_not_finite(void **state)
{
    const rows *r = *state;
    static const size_t bad[] = {0, 5, 127, 128, 500, 999};
    static const double values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qk_accumulator *acc;
        qk_moments *m = NULL;
        qk_error err = {0};
        char expected[64];
        rows *copy = malloc(sizeof *copy);
        assert_non_null(copy);
        memcpy(copy, r, sizeof *copy);
        copy->x[bad[i] * DIM + 3] = (float)values[i % 3];
        assert_int_equal(qk_accumulator_create(&acc, DIM, &err), QK_OK);
        const qk_block block = floats(copy->x, copy->t, ROWS, DIM);
        qk_status status = qk_accumulator_add(acc, &block, &err);
        if (status == QK_OK)
            status = qk_accumulator_finish(&acc, &m, &err);
        assert_int_equal(status, QK_ERR_INCONSISTENT);
        snprintf(expected, sizeof expected, "row %zu, dimension 3", bad[i]);
        assert_non_null(strstr(err.message, expected));
        assert_null(m);
        qk_accumulator_free(&acc);
        free(copy);
    }
}

/* The moments of n rows of one dimension, at positions 0, 1, 2, ... */
static qk_status gather_values(const double *x, size_t n, qk_moments **m, qk_error *err)
{
    int64_t t[8];
    qk_accumulator *acc;
    for (size_t i = 0; i < n; i++)
        t[i] = (int64_t)i;
    assert_int_equal(qk_accumulator_create(&acc, 1, err), QK_OK);
    const qk_block block = doubles(x, t, n, 1);
    assert_int_equal(qk_accumulator_add(acc, &block, err), QK_OK);
    qk_status status = qk_accumulator_finish(&acc, m, err);
    assert_null(acc);
    return status;
}

static void refuses_what_overflows(void **state)
{
    (void)state;
    /* squares; the sum of two values; squares times those of positions */
    const double x[] = {1e200, -1e200, 1e308, 1e308, 1e152, -1e152};
    for (size_t i = 0; i < 3; i++) {
        qk_moments *m;
        qk_error err = {0};
        assert_int_equal(gather_values(x + 2 * i, 2, &m, &err), QK_ERR_INCONSISTENT);
        assert_non_null(strstr(err.message, "too large"));
        assert_null(m);
    }
}

static void refuses_what_underflows(void **state)
{
    (void)state;
    const double shape[] = {1, -2, 4, 3, -7, 5};
    double x[6];
    for (int e = -1074; e < 390; e++) {
        qk_moments *m;
        qk_error err = {0};
        for (size_t i = 0; i < 6; i++)
            x[i] = ldexp(shape[i], e);
        if (gather_values(x, 6, &m, &err) != QK_OK) {
            assert_true(e < -480);
            assert_non_null(strstr(err.message, "too little"));
            assert_null(m);
            continue;
        }
        assert_true(e > -490);
        double sum = ldexp(m->sum_xx[0], -e);
        assert_true(fabs(ldexp(sum, -e) - 304.0 / 3) < 1e-12); /* 104 - 6 (4 / 6)^2 */
        qk_moments_free(&m);
    }
}

/* Whatever the value, its rounded mean is no difference. */
static void equal_vectors_are_not_too_small(void **state)
{
    (void)state;
    const double values[] = {0, 0.1, 1e-100, 1e-146, 1e-160, 3e-200, 1e-308, 5e-324, 0.3e100};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        double v = values[i];
        const double x[] = {v, v, v, v, v, v, v};
        qk_moments *m;
        qk_error err = {0};
        assert_int_equal(gather_values(x, 7, &m, &err), QK_OK);
        qk_moments_free(&m);
    }
}

static void assert_close(const double *a, const double *b, size_t n, double tolerance)
{
    for (size_t i = 0; i < n; i++)
        assert_true(fabs(a[i] - b[i]) <= tolerance * (1 + fabs(b[i])));
}

static void taking_out_undoes_merging(void **state)
{
    const rows *r = *state;
    qk_error err;
    qk_moments *all = gather(r, 0, ROWS, 100, 0), *part = gather(r, ROWS / 4, ROWS, 100, 0);
    qk_moments *rest = gather(r, 0, ROWS / 4, 100, 0), *found;
    assert_int_equal(qk__moments_without(all, part, &found, &err), QK_OK);
    assert_int_equal(found->count, rest->count);
    assert_close(&found->mean_t, &rest->mean_t, 1, 1e-12);
    assert_close(&found->sum_tt, &rest->sum_tt, 1, 1e-9);
    assert_close(found->mean, rest->mean, DIM, 1e-12);
    assert_close(found->sum_xt, rest->sum_xt, DIM, 1e-9);
    assert_close(found->sum_xx, rest->sum_xx, DIM * DIM, 1e-9);
    qk_moments_free(&found);
    /* all of them leave nothing, more than all are refused */
    assert_int_equal(qk__moments_without(all, all, &found, &err), QK_OK);
    assert_true(found->count == 0 && found->sum_tt == 0 && found->sum_xx[0] == 0);
    qk_moments_free(&found);
    assert_int_equal(qk__moments_without(part, all, &found, &err), QK_ERR_INCONSISTENT);
    assert_null(found);
    qk_moments_free(&all);
    qk_moments_free(&part);
    qk_moments_free(&rest);
}

/* One row is left: it has no spread, and no rounding may look like one. */
static void one_row_left_has_no_spread(void **state)
{
    const rows *r = *state;
    qk_error err;
    qk_moments *all = gather(r, 0, ROWS, 100, 0), *part = gather(r, 1, ROWS, 100, 0), *found;
    assert_int_equal(qk__moments_without(all, part, &found, &err), QK_OK);
    assert_int_equal(found->count, 1);
    assert_true(found->sum_tt == 0);
    for (size_t i = 0; i < DIM * DIM; i++)
        assert_true(found->sum_xx[i] == 0);
    for (size_t i = 0; i < DIM; i++)
        assert_true(found->sum_xt[i] == 0);
    qk_moments_free(&found);
    qk_moments_free(&all);
    qk_moments_free(&part);
}

static void no_rows_give_zeros(void **state)
{
    (void)state;
    qk_accumulator *acc;
    qk_moments *m;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, 3, &err), QK_OK);
    assert_int_equal(qk_accumulator_finish(&acc, &m, &err), QK_OK);
    assert_int_equal(m->count, 0);
    assert_true(m->sum_tt == 0 && m->sum_xx[8] == 0);
    qk_moments_free(&m);
    assert_int_equal(qk_accumulator_create(&acc, 0, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk_accumulator_create(&acc, QK_MAX_DIM + 1, &err), QK_ERR_ARGUMENT);
    assert_null(acc);
}

/* What a block may lack, and what not. */
static void refuses_blocks_that_lack_something(void **state)
{
    const rows *r = *state;
    const qk_block sound = floats(r->x, r->t, 2, DIM);
    qk_block wrong[] = {sound, sound, sound, sound};
    wrong[0].position = NULL;
    wrong[1].f32 = NULL;
    wrong[2].f64 = r->wide;
    wrong[3].dim = DIM + 1;
    qk_accumulator *acc;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, DIM, &err), QK_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(qk_accumulator_add(acc, &wrong[i], &err), QK_ERR_ARGUMENT);
        wrong[i].rows = 0;
        assert_int_equal(qk_accumulator_add(acc, &wrong[i], &err), QK_OK);
    }
    qk_accumulator_free(&acc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_do_not_matter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(texts_are_summed_apart_and_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_come_with_texts_or_without, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeps_digits_far_from_zero, set_up, tear_down),
        cmocka_unit_test_setup_teardown(merging_equals_gathering, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_the_row_that_is_not_finite, set_up, tear_down),
        cmocka_unit_test_setup_teardown(taking_out_undoes_merging, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_row_left_has_no_spread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refuses_blocks_that_lack_something, set_up, tear_down),
        cmocka_unit_test(refuses_what_overflows),
        cmocka_unit_test(refuses_what_underflows),
        cmocka_unit_test(equal_vectors_are_not_too_small),
        cmocka_unit_test(no_rows_give_zeros),
    };
    return cmocka_run_group_tests_name("moments", tests, NULL, NULL);
}
