/* SPDX-License-Identifier: Apache-2.0 */
/* Draws that CPython is known to make, from its pool and its set of drawn numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/py_random.h"

static void expect(int64_t seed, size_t n, size_t k, size_t count, const size_t *wanted)
{
    size_t out[300];
    assert_int_equal(qk__py_sample(seed, n, k, out, NULL), QK_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(out[i], wanted[i]);
}
#define EXPECT(seed, n, k, ...)                                                                \
    expect(seed, n, k, sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t),                       \
           (const size_t[]){__VA_ARGS__})

static void test_small(void **state)
{
    (void)state;
    EXPECT(9, 9, 3, 7, 5, 2);
    EXPECT(9, 12, 3, 7, 9, 5);
    EXPECT(1, 50, 5, 8, 36, 48, 4, 16);
    EXPECT(7, 50, 6, 20, 9, 25, 41, 3, 4);
    EXPECT(0, 1, 1, 0);
}

static void test_large(void **state)
{
    (void)state;
    EXPECT(0, 512, 300, 394, 388, 455, 215, 20, 132, 494, 261);
    EXPECT(0, 1024, 300, 788, 776, 911, 430, 41, 265, 988, 523);
    EXPECT(0, 1280, 300, 788, 861, 82, 530, 1047, 995, 829, 621);
    EXPECT(0, 1600, 300, 788, 1552, 861, 82, 530, 1047, 995, 829);
    EXPECT(5, 1024, 300, 523, 759, 367, 814, 707, 965);
    EXPECT(-5, 1024, 300, 523, 759, 367, 814, 707, 965);
}

static void test_different(void **state)
{
    (void)state;
    size_t out[300];
    unsigned char seen[1100];
    for (int64_t seed = 0; seed < 20; seed++)
        for (size_t n = 300; n <= 1100; n += 800) {
            for (size_t i = 0; i < n; i++)
                seen[i] = 0;
            assert_int_equal(qk__py_sample(seed, n, 300, out, NULL), QK_OK);
            for (size_t i = 0; i < 300; i++) {
                assert_true(out[i] < n && !seen[out[i]]);
                seen[out[i]] = 1;
            }
        }
}

static void test_limits(void **state)
{
    (void)state;
    qk_error err;
    size_t out[2];
    assert_int_equal(qk__py_sample(0, 1, 2, out, &err), QK_ERR_ARGUMENT);
    assert_int_equal(qk__py_sample(0, 0, 0, out, &err), QK_OK);
    assert_int_equal(qk__py_sample(INT64_MIN, 2, 2, out, &err), QK_OK);
    assert_int_equal(out[0] + out[1], 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_different),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
