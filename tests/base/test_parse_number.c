/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers in text: what counts as one, that it is rounded as strtod rounds, in any locale. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse_number.h"
#include "tests/unit.h"

#define OTHER_POINT "\xd9\xab"
static bool other_locale;

/* The linker puts these in the place of the C library's (see meson.build). */
struct lconv *__real_localeconv(void);
struct lconv *__wrap_localeconv(void);
double __real_strtod(const char *text, char **end);
double __wrap_strtod(const char *text, char **end);

struct lconv *__wrap_localeconv(void)
{
    static char point[] = OTHER_POINT;
    static struct lconv changed;
    if (!other_locale)
        return __real_localeconv();
    changed = *__real_localeconv();
    changed.decimal_point = point;
    return &changed;
}

double __wrap_strtod(const char *text, char **end)
{
    const char *point = other_locale ? strstr(text, OTHER_POINT) : NULL;
    char plain[128], *plain_end;
    if (!point) {
        double value = __real_strtod(text, end);
        if (other_locale && memchr(text, '.', (size_t)(*end - text)))
            fail_msg("strtod got a '.' in '%s'", text);
        return value;
    }
    snprintf(plain, sizeof plain, "%.*s.%s", (int)(point - text), text, point + 2);
    double value = __real_strtod(plain, &plain_end);
    size_t used = (size_t)(plain_end - plain);
    *end = (char *)(uintptr_t)(text + used + (used > (size_t)(point - text)));
    return value;
}

static void check_value(const char *text, double expected)
{
    double value;
    if (!qk__parse_number(text, &value))
        fail_msg("'%s' is a number", text);
    if (memcmp(&value, &expected, sizeof value) != 0)
        fail_msg("'%s' is %.17g, not %.17g", text, value, expected);
}

static void numbers(void **state)
{
    (void)state;
    char texts[] =
        "0 -0 +0 1 -1 +2 00012 .5 5. -.5e1 1e5 1E+5 1e-5 0.1 0.30000000000000004 "
        "9007199254740992 "
        "9007199254740993 9007199254740993e0 18446744073709551615 18446744073709551616 "
        "123456789012345678901234567890 0.000000000000000000000000000001234 1e22 1e23 1e-22 "
        "1e-23 "
        "4.9e-324 2.4e-324 1e-400 -1e-99999999999999999999 1.7976931348623157e308 "
        "2.2250738585072011e-308 0e99999 0.0000 -0.0 3.00e-4 8.442911401350195e-05";
    for (char *text = strtok(texts, " "); text; text = strtok(NULL, " "))
        check_value(text, strtod(text, NULL));
}

static void not_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"",         " ",
                                        "-",        "+",
                                        ".",        "-.",
                                        "e5",       "1e",
                                        "1e+",      "1 ",
                                        " 1",       "1,5",
                                        "1.2.3",    "--1",
                                        "nan",      "NaN",
                                        "inf",      "-Infinity",
                                        "0x10",     "0x1p3",
                                        "1e5.0",    "1_000",
                                        "1d5",      "1e400",
                                        "-1e400",   "1.7976931348623159e308",
                                        "\xd9\xa1", "1\t",
                                        "1\n",      "1f",
                                        "(1)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double value = 7;
        if (qk__parse_number(texts[i], &value))
            fail_msg("'%s' is no number", texts[i]);
        assert_true(value == 7);
    }
    char text[2001];
    double value;
    memset(text, '1', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_false(qk__parse_number(text, &value));
    text[300] = 0;
    check_value(text, strtod(text, NULL));
}

static void integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"-0", 0},
                {"+7", 7},
                {"007", 7},
                {"-12", -12},
                {"9007199254740993", (INT64_C(1) << 53) + 1},
                {"9223372036854775807", INT64_MAX},
                {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"",
                                      "-",
                                      "+",
                                      "1.0",
                                      "1e3",
                                      " 1",
                                      "1 ",
                                      "1-",
                                      "0x1",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "18446744073709551617",
                                      "99999999999999999999999999999999"};
    int64_t value;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(qk__parse_integer(good[i].text, &value));
        assert_int_equal(value, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (qk__parse_integer(bad[i], &value))
            fail_msg("'%s' is no integer", bad[i]);
}

static void number_at_the_start(void **state)
{
    (void)state;
    double value;
    assert_string_equal(qk__read_number("0.25\" y=", &value), "\" y=");
    assert_true(value == 0.25);
    assert_string_equal(qk__read_number("-1e3 2", &value), " 2");
    assert_true(value == -1000);
    const char *none[] = {
        "",      " 1",  "x",
        "1.2.3", "1-2", "1111111111111111111111111111111111111111111111111111111111111111"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_null(qk__read_number(none[i], &value));
}

/* Any double, in as many digits as random chance gives it. */
static void rounding(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int i = 0; i < (tier_is("test") ? 20000 : 100000); i++) {
        char text[64];
        double exponent = random_unit(&seed) * (i % 2 ? 12 : 300);
        int digits = 1 + (int)((random_unit(&seed) + 1) * 9.5);
        double value = random_unit(&seed) * pow(10, exponent);
        const char *formats[] = {"%.*g", "%.*e", "%.*f"};
        int format = i % 2 ? i / 2 % 3 : i / 2 % 2;
        snprintf(text, sizeof text, formats[format], digits, value);
        double expected, parsed;
        char *end;
        expected = strtod(text, &end);
        assert_true(*end == 0 && qk__parse_number(text, &parsed));
        if (memcmp(&parsed, &expected, sizeof parsed) != 0)
            fail_msg("'%s' is %.17g, not %.17g", text, parsed, expected);
    }
}

/* Where the decimal point is "\xd9\xab", as in Pashto; no such locale need be installed. */
static void other_decimal_point(void **state)
{
    (void)state;
    double value;
    other_locale = true;
    check_value("0.5", 0.5);
    assert_string_equal(qk__read_number("0.5 ", &value), " ");
    check_value("-0.30000000000000004", -0x1.3333333333334p-2);
    check_value("1e-300", 1e-300);
    check_value(".12345678901234567890e5", 12345.678901234567890);
    check_value("12345678901234567890.", 12345678901234567890.0);
    assert_false(qk__parse_number("0" OTHER_POINT "5", &value));
    assert_false(qk__parse_number("0" OTHER_POINT "30000000000000004", &value));
    other_locale = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers),  cmocka_unit_test(not_numbers),
        cmocka_unit_test(integers), cmocka_unit_test(number_at_the_start),
        cmocka_unit_test(rounding), cmocka_unit_test(other_decimal_point),
    };
    return cmocka_run_group_tests_name("parse_number", tests, NULL, NULL);
}
