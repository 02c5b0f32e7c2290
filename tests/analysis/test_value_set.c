/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of integers against a table of what was seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "analysis/value_set.h"

static void check_range(int range, int count)
{
    qk__value_set set = {0};
    unsigned char seen[5000] = {0};
    unsigned random = 1;
    for (int i = 0; i < count; i++) {
        random = random * 1664525u + 1013904223u;
        int64_t value = (int64_t)(random >> 8) % range;
        seen[value] = 1;
        value -= range / 2;
        int64_t run[3] = {value, value, value};
        assert_int_equal(qk__value_set_add(&set, run, 3, NULL), QK_OK);
    }
    qk_values values;
    size_t next = 0;
    qk__value_set_take(&set, &values);
    for (int i = 0; i < range; i++)
        if (seen[i])
            assert_int_equal(values.items[next++], i - range / 2);
    assert_int_equal(next, values.count);
    free(values.items);
}

static void test_ranges(void **state)
{
    (void)state;
    for (int range = 1; range <= 5000; range = range * 3 + 1)
        for (int count = 0; count <= 20000; count = count * 5 + 1)
            check_range(range, count);
}

static void test_extremes(void **state)
{
    (void)state;
    qk__value_set set = {0};
    const int64_t values[] = {INT64_MAX, INT64_MIN, 0, INT64_MIN};
    qk_values taken;
    assert_int_equal(qk__value_set_add(&set, values, 4, NULL), QK_OK);
    qk__value_set_take(&set, &taken);
    assert_int_equal(taken.count, 3);
    assert_true(taken.items[0] == INT64_MIN && taken.items[2] == INT64_MAX);
    free(taken.items);
    qk__value_set_take(&set, &taken);
    assert_int_equal(taken.count, 0);
    qk__value_set_free(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
