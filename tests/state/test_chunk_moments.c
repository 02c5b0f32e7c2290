/* SPDX-License-Identifier: Apache-2.0 */
/* Moments of a chunk of rows: every kernel and every layout of rows gives the same bits, and rows that
 * are no numbers are refused. */
#include "layer_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void assert_same_chunk(const qk__chunk_moments *a, const qk__chunk_moments *b)
{
    qk__set_shape diagonal = a->shape;
    diagonal.diagonal = true;
    diagonal.pairs = 0;
    size_t numbers_of_sets =
        qk__set_size(&a->shape) + (a->by_bucket ? a->num_runs * qk__set_size(&diagonal) : 0);
    assert_int_equal(a->num_runs, b->num_runs);
    assert_memory_equal(a->sets, b->sets, numbers_of_sets * sizeof(double));
}

static void test_every_kernel_gives_the_same_bits(void **state)
{
    (void)state;
    const qk__chunk_rows rows = some_rows(ROWS);
    qk__chunk_moments *expected = make_chunk(&queries, &rows), *found;
    assert_int_equal(qk__chunk_moments_create(&found, NULL), QK_OK);
    qk__each_version (i, qk__gram_kernels) {
        found->kernel = qk__gram_kernels[i];
        assert_int_equal(qk__chunk_moments_compute(found, &queries, &rows, NULL), QK_OK);
        assert_same_chunk(expected, found);
    }
    qk__chunk_moments_free(&expected);
    qk__chunk_moments_free(&found);
}

static void test_a_chunk_forgets_what_it_held(void **state)
{
    (void)state;
    const qk__part_shape wide = {.dim = 1, .num_heads = 1, .heads = numbers};
    const qk__chunk_rows all = some_rows(ROWS), few = some_rows(3);
    qk__chunk_moments *expected = make_chunk(&queries, &few);
    qk__chunk_moments *used = make_chunk(&queries, &all);
    assert_int_equal(qk__chunk_moments_compute(used, &wide, &all, NULL), QK_OK);
    assert_int_equal(qk__chunk_moments_compute(used, &queries, &few, NULL), QK_OK);
    assert_same_chunk(expected, used);
    qk__chunk_moments_free(&expected);
    qk__chunk_moments_free(&used);
}

static void test_wrong_rows_are_refused(void **state)
{
    (void)state;
    qk_error err;
    qk__chunk_moments *chunk;
    qk__part_moments *part = make_part(&queries, 0, 1);
    assert_int_equal(qk__chunk_moments_create(&chunk, NULL), QK_OK);
    const qk__chunk_rows good = some_rows(ROWS);
    const size_t counts[] = {0, QK__CHUNK_ROWS + 1};
    for (size_t i = 0; i < 2; i++) {
        qk__chunk_rows rows = good;
        rows.rows = counts[i];
        assert_int_equal(qk__chunk_moments_compute(chunk, &queries, &rows, &err),
                         QK_ERR_ARGUMENT);
    }
    qk__chunk_rows rows = good;
    rows.bucket = NULL;
    assert_int_equal(qk__chunk_moments_compute(chunk, &queries, &rows, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__chunk_moments_compute(chunk, &keys, &rows, &err), QK_OK);
    assert_int_equal(qk__part_moments_fold(part, 0, false, chunk, &err), QK_ERR_ARGUMENT);
    int64_t descending[ROWS] = {5, 4};
    rows.position = descending;
    assert_int_equal(qk__chunk_moments_compute(chunk, &keys, &rows, &err), QK_ERR_ARGUMENT);
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const size_t at[] = {0, 100, ROWS - 1}; /* in the first tile, and the second */
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++) {
            char where[80];
            float *value = &x[1][at[j]][DIM - 1], old = *value;
            snprintf(where, sizeof where, "head 4, row %zu (position %lld), dimension %d: NaN",
                     at[j], (long long)position[at[j]], DIM - 1);
            *value = bad[i];
            assert_int_equal(qk__chunk_moments_compute(chunk, &queries, &good, &err),
                             QK_ERR_INCONSISTENT);
            assert_non_null(strstr(err.message, where));
            assert_int_equal(qk__part_moments_fold(part, 0, false, chunk, &err),
                             QK_ERR_ARGUMENT);
            *value = old;
        }
    qk__chunk_moments_free(&chunk);
    qk__part_moments_free(&part);
}

static void test_largest_values_and_positions(void **state)
{
    (void)state;
    float huge[2][DIM];
    const int64_t at[] = {INT64_MIN / 4, INT64_MAX / 4};
    const qk__chunk_rows rows = {.rows = 2, .x = huge[0], .position = at};
    const qk__part_shape one = {.dim = DIM, .num_heads = 1, .heads = numbers};
    for (size_t i = 0; i < DIM; i++) {
        huge[0][i] = -3e38F;
        huge[1][i] = 3e38F;
    }
    qk__chunk_moments *chunk = make_chunk(&one, &rows);
    assert_true(isfinite(chunk->whole.sum_xx[0]) && chunk->whole.sum_xx[0] > 1e77);
    assert_true(isfinite(chunk->whole.sum_tt[0]) && isfinite(chunk->whole.sum_xt[0]));
    qk__chunk_moments_free(&chunk);
}

static int set_up(void **state)
{
    (void)state;
    fill_rows();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kernel_gives_the_same_bits),
        cmocka_unit_test(test_a_chunk_forgets_what_it_held),
        cmocka_unit_test(test_wrong_rows_are_refused),
        cmocka_unit_test(test_largest_values_and_positions),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
