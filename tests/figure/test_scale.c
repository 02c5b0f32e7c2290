/* SPDX-License-Identifier: Apache-2.0 */
/* How numbers look in a figure: their colours on a scale, and as text. */
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>

#include "figure/figure.h"
#include "figure/scale.h"

static int channel(unsigned color, int which)
{
    return (int)(color >> (16 - 8 * which) & 0xff);
}

/* The largest difference of a channel. */
static int apart(unsigned a, unsigned b)
{
    int most = 0;
    for (int c = 0; c < 3; c++)
        most = abs(channel(a, c) - channel(b, c)) > most ? abs(channel(a, c) - channel(b, c))
                                                         : most;
    return most;
}

/* Colours change little by little from one end to the other, through 0 as well, and end far apart. */
static void test_colours_do_not_jump(void **state)
{
    (void)state;
    const qk__hue hues[] = {QK__HUE_NONE, QK__HUE_QUERIES, QK__HUE_KEYS, QK__HUE_BIAS,
                            QK__HUE_PLASTICITY};
    for (size_t i = 0; i < sizeof hues / sizeof *hues; i++) {
        qk__scale scale = qk__scale_between(hues[i], -0.4, 1);
        bool dark;
        unsigned before = qk__scale_color(&scale, -0.4, &dark), first = before;
        for (int at = -399; at <= 1000; at++) {
            unsigned color = qk__scale_color(&scale, at / 1000.0, &dark);
            assert_true(apart(color, before) <= 4);
            before = color;
        }
        assert_true(apart(before, first) > 100);
    }
}

/* A value and its opposite are as deep; at 0 both sides are pale, and their hues differ beyond. */
static void test_two_sides_of_a_scale(void **state)
{
    (void)state;
    bool dark;
    qk__scale r_q = qk__scale_between(QK__HUE_QUERIES, -1, 1), shorter = r_q;
    shorter.low = -0.1; /* of the bar: colours stay */
    assert_true(channel(qk__scale_color(&r_q, 0, &dark), 0) > 230 && !dark);
    assert_true(channel(qk__scale_color(&r_q, 0.8, &dark), 0) >
                channel(qk__scale_color(&r_q, 0.8, &dark), 2) + 80);
    assert_true(channel(qk__scale_color(&r_q, -0.8, &dark), 2) >
                channel(qk__scale_color(&r_q, -0.8, &dark), 0) + 80);
    assert_true(apart(qk__scale_color(&r_q, -0.01, &dark), qk__scale_color(&r_q, 0.01, &dark)) <
                8);
    assert_int_equal(qk__scale_color(&r_q, 0.4, &dark), qk__scale_color(&shorter, 0.4, &dark));
    assert_int_equal(qk__scale_color(&r_q, 7, &dark), qk__scale_color(&r_q, 1, &dark));
    assert_true(dark);
}

static void expect_scale(qk__scale scale, double low, double high)
{
    assert_true(fabs(scale.low - low) <= 1e-9 * fabs(low));
    assert_true(fabs(scale.high - high) <= 1e-9 * fabs(high));
}

static void test_ranges_of_scales(void **state)
{
    (void)state;
    expect_scale(qk__scale_between(QK__HUE_BIAS, 2, 5), 0, 5);
    expect_scale(qk__scale_between(QK__HUE_BIAS, -5, -2), -5, 0);
    expect_scale(qk__scale_between(QK__HUE_PLASTICITY, 0.3, 0.6), 0.3, 0.6);
    expect_scale(qk__scale_between(QK__HUE_PLASTICITY, 0.5, 0.5), 0.45, 0.55);
    expect_scale(qk__scale_between(QK__HUE_NONE, 0, 0), 0, 1);
    expect_scale(qk__scale_between(QK__HUE_NONE, 1e20, 1e20), 0.9e20, 1.1e20);
    expect_scale(qk__scale_of_change(0), -1, 1);
    expect_scale(qk__scale_of_amount(0), 0, 1);
}

static void test_a_number_that_rounds_to_zero_has_no_sign(void **state)
{
    (void)state;
    char text[QK__NUMBER_TEXT];
    assert_string_equal(qk__number_text(text, "%.2f", -0.004), "0.00");
    assert_string_equal(qk__number_text(text, "%.2f", -0.006), "\xe2\x88\x92"
                                                               "0.01");
}

static void test_number_texts(void **state)
{
    (void)state;
    static const struct {
        const char *format, *text;
        double value;
    } CASES[] = {{"%.2f", "0.00", -0.004},  {"%.2f", "−0.01", -0.006}, {"%.0f", "0", -0.0},
                 {"%.1f%%", "0.0%", -0.04}, {"%g", "−1e−05", -1e-5},   {"%.3f", "2.500", 2.5}};
    char text[QK__NUMBER_TEXT];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        assert_string_equal(qk__number_text(text, CASES[i].format, CASES[i].value),
                            CASES[i].text);
}

static void test_ends_of_ramps(void **state)
{
    (void)state;
    static const double beyond[][2] = {
        {-1, 0}, {-INFINITY, 0}, {NAN, 0}, {2, 1}, {INFINITY, 1}};
    for (size_t i = 0; i < sizeof beyond / sizeof *beyond; i++) {
        unsigned char got[3], expected[3];
        qk__colormap_at(&qk__magma, beyond[i][0], got);
        qk__colormap_at(&qk__magma, beyond[i][1], expected);
        assert_memory_equal(got, expected, 3);
    }
    assert_true(qk__is_dark((const unsigned char[]){0, 0, 0}));
    assert_true(qk__is_dark((const unsigned char[]){203, 24, 29}));
    assert_false(qk__is_dark((const unsigned char[]){255, 255, 255}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colours_do_not_jump),
        cmocka_unit_test(test_two_sides_of_a_scale),
        cmocka_unit_test(test_ranges_of_scales),
        cmocka_unit_test(test_a_number_that_rounds_to_zero_has_no_sign),
        cmocka_unit_test(test_number_texts),
        cmocka_unit_test(test_ends_of_ramps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
