/* SPDX-License-Identifier: Apache-2.0 */
/* Means, medians and lines whose answers are known. */
#include "stats/means.h"
#include "unit.h"

static void means(void **state)
{
    (void)state;
    const double values[] = {1e16, 1, NAN, INFINITY, -1e16, 1};
    qk__mean mean = {0};
    assert_true(isnan(qk__mean_of(&mean)) && isnan(qk__mean_plain(&mean)));
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        qk__mean_add(&mean, values[i]);
    assert_int_equal(mean.count, 4);
    assert_true(qk__mean_of(&mean) == 0.5); /* a plain sum has lost the 1 before it goes back */
    qk__depth_means depth = {0};
    double tenths[QK__DEPTH_BINS];
    qk__depth_add(&depth, 0, 2);
    qk__depth_add(&depth, 1, 3);
    qk__depth_add(&depth, 0.95, 4);
    qk__depth_values(&depth, tenths);
    assert_true(tenths[0] == 2 && isnan(tenths[5]) && tenths[9] == 3.5);
}

static void medians(void **state)
{
    (void)state;
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2}, least, median;
    assert_true(qk__median(odd, 3) == 2 && odd[0] == 1 && odd[2] == 3);
    qk__least_and_median(even, 4, &least, &median);
    assert_true(least == 1 && median == 2.5);
    assert_true(isnan(qk__median(NULL, 0)));
}

static void lines(void **state)
{
    (void)state;
    const double x[] = {1, 2, NAN, 3, 4, INFINITY}, y[] = {5, 3, 9, 1, NAN, 0};
    qk__line line = qk__fit_line(x, y, 6);
    assert_int_equal(line.count, 3);
    assert_true(line.r == -1 && line.slope == -2 && line.start == 7);
    line = qk__fit_line(x, y, 3);
    assert_true(line.count == 2 && isnan(line.r) && isnan(line.slope) && isnan(line.start));
    line = qk__fit_line(NULL, NULL, 0);
    assert_true(line.count == 0 && isnan(line.r));
    const double same[] = {0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, step[] = {1, 2, 3, 4, 5, 6};
    line = qk__fit_line(step, same, 6);
    assert_true(line.count == 6 && isnan(line.r) && isnan(line.slope));
    line = qk__fit_line(same, step, 6);
    assert_true(isnan(line.r) && isnan(line.slope) && isnan(line.start));
    const double tiny[] = {1e-200, 2e-200, 4e-200};
    line = qk__fit_line(tiny, step, 3);
    assert_true(isnan(line.r));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means),
        cmocka_unit_test(medians),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests_name("means", tests, NULL, NULL);
}
