/* SPDX-License-Identifier: Apache-2.0 */
/* Moments to a file and back: every bit, whatever allocation fails. test_moments_file.py has the
 * file read by others, and reads theirs. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include <qkscope/stats.h>

#include "failing_memory.h"

enum { DIM = 7, ROWS = 50 };

static char path[] = "/tmp/qkscope-moments-XXXXXX";

static qk_moments *make(size_t rows)
{
    float x[ROWS * DIM];
    int64_t t[ROWS];
    uint64_t seed = 3;
    qk_accumulator *acc;
    qk_moments *m;
    const qk_block some = {.rows = rows, .dim = DIM, .f32 = x, .position = t};
    for (size_t i = 0; i < ROWS * DIM; i++)
        x[i] = (float)random_unit(&seed);
    for (size_t i = 0; i < ROWS; i++)
        t[i] = (int64_t)(i * i);
    assert_int_equal(qk_accumulator_create(&acc, DIM, NULL), QK_OK);
    assert_int_equal(qk_accumulator_add(acc, &some, NULL), QK_OK);
    assert_int_equal(qk_accumulator_finish(&acc, &m, NULL), QK_OK);
    return m;
}

static void assert_same(const qk_moments *a, const qk_moments *b)
{
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->count, b->count);
    assert_memory_equal(&a->mean_t, &b->mean_t, sizeof a->mean_t);
    assert_memory_equal(&a->sum_tt, &b->sum_tt, sizeof a->sum_tt);
    assert_memory_equal(a->mean, b->mean, DIM * sizeof(double));
    assert_memory_equal(a->sum_xt, b->sum_xt, DIM * sizeof(double));
    assert_memory_equal(a->sum_xx, b->sum_xx, DIM * DIM * sizeof(double));
}

static void test_every_bit_comes_back(void **state)
{
    (void)state;
    const size_t counts[] = {0, 1, ROWS};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        qk_moments *saved = make(counts[i]), *loaded;
        qk_error err;
        assert_int_equal(qk_moments_save(saved, path, &err), QK_OK);
        assert_int_equal(qk_moments_load(path, &loaded, &err), QK_OK);
        assert_same(saved, loaded);
        qk_moments_free(&saved);
        qk_moments_free(&loaded);
    }
}

static void test_memory_that_fails(void **state)
{
    (void)state;
    qk_moments *saved = make(ROWS), *loaded;
    qk_status status = QK_ERR_NOMEM;
    long failures = 0;
    for (; status != QK_OK; failures++) {
        remaining = failures;
        status = qk_moments_save(saved, path, NULL);
        remaining = -1;
        assert_true(status == QK_OK || status == QK_ERR_NOMEM);
    }
    assert_true(failures > 20);
    status = QK_ERR_NOMEM;
    for (failures = 0; status != QK_OK; failures++) {
        remaining = failures;
        status = qk_moments_load(path, &loaded, NULL);
        remaining = -1;
        assert_true(status == QK_OK || (status == QK_ERR_NOMEM && !loaded));
    }
    assert_true(failures > 20);
    assert_same(saved, loaded);
    qk_moments_free(&saved);
    qk_moments_free(&loaded);
}

static void test_a_folder_that_is_not_there(void **state)
{
    (void)state;
    qk_moments *saved = make(2), *loaded = saved;
    qk_error err;
    assert_int_equal(qk_moments_save(saved, "/nonexistent/moments", &err), QK_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nonexistent/moments"));
    qk_moments_free(&saved);
    assert_int_equal(qk_moments_load("/nonexistent/moments", &loaded, &err), QK_ERR_NOT_FOUND);
    assert_null(loaded);
}

static int set_up(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    json_set_alloc_funcs(malloc, free); /* those that fail */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bit_comes_back),
        cmocka_unit_test(test_memory_that_fails),
        cmocka_unit_test(test_a_folder_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
