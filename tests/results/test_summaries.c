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

static void depths(void **state)
{
    (void)state;
    enum { COUNT = 21 };
    qk__result_head heads[COUNT];
    double values[COUNT], means[QK__DEPTH_BINS];
    for (int i = 0; i < COUNT; i++)
        values[i] = i == 4 || i == 5 || i == 7 ? NAN : -i;
    qk__result_model model = make_model(heads, values, COUNT);
    qk__by_depth(&model, qk__find_field("r_k"), false, means);
    assert_true(means[0] == -0.5 && means[1] == -2.5 && isnan(means[2]) && means[3] == -6);
    assert_true(means[8] == -16.5 && means[9] == -19);
    qk__by_depth(&model, qk__find_field("r_k"), true, means);
    assert_true(means[0] == 0.5 && isnan(means[2]) && means[9] == 19);
    model.num_heads = 0;
    qk__by_depth(&model, qk__find_field("r_k"), true, means);
    assert_true(isnan(means[0]) && isnan(means[9]));
}

static void components(void **state)
{
    (void)state;
    const double one[] = {0.5, NAN}, two[] = {0.25}, minus[] = {-0.25}, none[] = {NAN, NAN};
    qk__result_head heads[] = {
        {.num_pcs = 2, .pc_ev = one, .pc_r_q = one, .pc_r_k = none},
        {.num_pcs = 1, .pc_ev = two, .pc_r_q = two, .pc_r_k = minus},
        {.num_pcs = 0},
    };
    qk__result_model models[] = {{.num_heads = 1, .heads = heads},
                                 {.num_heads = 2, .heads = heads + 1}};
    qk__results results = {.num_models = 2, .models = models};
    qk__pc_means m = qk__mean_of_pc(&results, 0);
    assert_true(m.ev == 0.375 && m.r_q == 0.375 && m.abs_r_k == 0.25);
    m = qk__mean_of_pc(&results, 1);
    assert_true(isnan(m.ev) && isnan(m.r_q) && isnan(m.abs_r_k));
    m = qk__mean_of_pc(&results, SIZE_MAX);
    assert_true(isnan(m.ev));
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
        cmocka_unit_test(field_table),   cmocka_unit_test(spreads),
        cmocka_unit_test(far_from_zero), cmocka_unit_test(depths),
        cmocka_unit_test(components),    cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests_name("summaries", tests, NULL, NULL);
}
