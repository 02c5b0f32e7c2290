/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as text: what printf and strtod agree on. */
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/* The fewest of 17 digits that read back, found by trying. */
static void expect(double value)
{
    char expected[64], text[QK_NUMBER_SIZE];
    int digits = 17;
    while (digits > 1) {
        snprintf(expected, sizeof expected, "%.*g", digits - 1, value);
        if (strtod(expected, NULL) != value)
            break;
        digits--;
    }
    if (fabs(value) < 1e15 && value == floor(value))
        snprintf(expected, sizeof expected, "%.0f", value == 0 ? 0 : value);
    else
        snprintf(expected, sizeof expected, "%.*g", digits, value);
    assert_int_equal(qk__format_number(value, text), strlen(expected));
    assert_string_equal(text, expected);
}

static void expect_both_and_neighbours(double value)
{
    expect(value);
    expect(-value);
    expect(nextafter(value, INFINITY));
    expect(nextafter(value, -INFINITY));
}

static void any_bits(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < (tier_is("test") ? 20000 : 300000); i++) {
        double size = pow(10, 12 * random_unit(&seed) + 5); /* from 1e-7 to 1e17 */
        expect(random_unit(&seed) * size);
        expect(random_unit(&seed)); /* what most columns hold */
    }
}

/* Few digits, and what lies next to them. */
static void short_decimals(void **state)
{
    (void)state;
    uint64_t seed = 2;
    for (int i = 0; i < (tier_is("test") ? 5000 : 30000); i++) {
        int digits = 1 + i % 17;
        double whole = floor(fabs(random_unit(&seed)) * pow(10, digits));
        expect_both_and_neighbours(whole / pow(10, 1 + (i / 17) % 20));
    }
}

static void powers(void **state)
{
    (void)state;
    for (int i = -30; i < 60; i++) {
        expect_both_and_neighbours(ldexp(1, i));
        expect_both_and_neighbours(ldexp(3, i));
        expect_both_and_neighbours(pow(10, i - 15));
        expect_both_and_neighbours(5 * pow(10, i - 15));
    }
    /* with 16 digits a tie, or next to one */
    for (uint64_t i = 0; i < 4000; i++)
        expect((double)((UINT64_C(1) << 52) + i) / 4);
}

static void what_is_not_a_number(void **state)
{
    (void)state;
    const double values[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        char text[QK_NUMBER_SIZE] = "x";
        assert_int_equal(qk__format_number(values[i], text), 0);
        assert_string_equal(text, "");
    }
    expect(0);
    expect(-0.0);
}

static void fields(void **state)
{
    (void)state;
    qk__buffer row = {0};
    assert_int_equal(qk__csv_integer(&row, INT64_MIN, ',', NULL), QK_OK);
    assert_int_equal(qk__csv_integer(&row, INT64_MAX, ',', NULL), QK_OK);
    assert_int_equal(qk__csv_integer(&row, 0, ',', NULL), QK_OK);
    assert_int_equal(qk__csv_number(&row, -0.25, ',', NULL), QK_OK);
    assert_int_equal(qk__csv_text(&row, "a,\"b", '\n', NULL), QK_OK);
    const char *expected = "-9223372036854775808,9223372036854775807,0,-0.25,\"a,\"\"b\"\n";
    assert_int_equal(row.size, strlen(expected));
    assert_memory_equal(row.data, expected, row.size);
    qk__buffer_free(&row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bits), cmocka_unit_test(short_decimals),
        cmocka_unit_test(powers),   cmocka_unit_test(what_is_not_a_number),
        cmocka_unit_test(fields),
    };
    return cmocka_run_group_tests_name("numbers as text", tests, NULL, NULL);
}
