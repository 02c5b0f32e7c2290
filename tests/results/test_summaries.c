/* SPDX-License-Identifier: Apache-2.0 */
/* The table of fields, and summaries of a few heads whose answers are known. */
#include <math.h>
#include <string.h>

#include "results/results.h"
#include "tests/unit.h"

static void field_table(void **state)
{
    (void)state;
    qk__head_numbers numbers;
    bool seen[sizeof numbers / sizeof(double)] = {false};
    assert_int_equal(qk__num_fields, sizeof numbers / sizeof(double));
    for (size_t i = 0; i < qk__num_fields; i++) {
        const qk__field *field = &qk__fields[i];
        assert_int_equal(field->number % sizeof(double), 0);
        assert_false(seen[field->number / sizeof(double)]);
        seen[field->number / sizeof(double)] = true;
        assert_ptr_equal(qk__find_field(field->info.name), field);
        if (field->use != QK__LISTED)
            assert_in_range(strlen(field->info.label), 5, 70);
    }
    assert_null(qk__find_field(""));
    assert_null(qk__find_field("R_Q"));
    numbers.ap_drop = 0.25;
    assert_true(qk__field_value(qk__find_field("ap_drop"), &numbers) == 0.25);
}

static qk__result_model make_model(qk__result_head *heads, const double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        heads[i] = (qk__result_head){.layer = (int)i, .depth = (double)i / (double)(count - 1)};
        heads[i].v.r_k = values[i];
    }
    return (qk__result_model){.num_heads = count, .heads = heads};
}

static void spreads(void **state)
{
    (void)state;
    qk__result_head heads[6];
    const qk__field *field = qk__find_field("r_k");
    const double values[] = {-4, 1, NAN, 3, INFINITY, 2};
    qk__result_model model = make_model(heads, values, 6);
    qk__spread s;
    assert_int_equal(qk__spread_of(&model, field, false, &s, NULL), QK_OK);
    assert_int_equal(s.count, 4);
    assert_true(s.mean == 0.5 && fabs(s.sd - sqrt(29.0 / 3)) < 1e-15);
    assert_true(s.quartile1 == -0.25 && s.median == 1.5 && s.quartile3 == 2.25);
    assert_int_equal(qk__spread_of(&model, field, true, &s, NULL), QK_OK);
    assert_true(s.mean == 2.5 && s.quartile1 == 1.75 && s.median == 2.5 && s.quartile3 == 3.25);
    model.num_heads = 1;
    assert_int_equal(qk__spread_of(&model, field, false, &s, NULL), QK_OK);
    assert_true(s.count == 1 && s.mean == -4 && isnan(s.sd) && s.quartile1 == -4 &&
                s.median == -4 && s.quartile3 == -4);
    model.num_heads = 0;
    assert_int_equal(qk__spread_of(&model, field, false, &s, NULL), QK_OK);
    assert_true(s.count == 0 && isnan(s.mean) && isnan(s.sd) && isnan(s.median));
}

/* A mean of 10^9 and differences of 10^-3: the textbook formula would lose them. */
static void far_from_zero(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    static qk__result_head heads[COUNT];
    double values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = 1e9 + (i % 2 ? 0x1p-10 : -0x1p-10);
    qk__result_model model = make_model(heads, values, COUNT);
    qk__spread s;
    assert_int_equal(qk__spread_of(&model, qk__find_field("r_k"), false, &s, NULL), QK_OK);
    assert_true(s.mean == 1e9);
    assert_true(fabs(s.sd / (0x1p-10 * sqrt(COUNT / (COUNT - 1.0))) - 1) < 1e-15);
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
        cmocka_unit_test(field_table),
        cmocka_unit_test(spreads),
        cmocka_unit_test(far_from_zero),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests_name("summaries", tests, NULL, NULL);
}
