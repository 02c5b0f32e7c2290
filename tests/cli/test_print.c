/* SPDX-License-Identifier: Apache-2.0 */
/* Everything printed goes through one function: it must print what printf prints, but for texts
 * that a terminal would obey. */
#include "tests/failing_memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tell.h"

static char *printed;

static void print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void print(const char *fmt, ...)
{
    size_t size;
    va_list args;
    free(printed);
    FILE *out = open_memstream(&printed, &size);
    assert_non_null(out);
    va_start(args, fmt);
    cli_vprint(out, fmt, args);
    va_end(args);
    fclose(out);
}

#define CHECK_SAME(...)                                                                        \
    do {                                                                                       \
        char expected[200];                                                                    \
        snprintf(expected, sizeof expected, __VA_ARGS__);                                      \
        print(__VA_ARGS__);                                                                    \
        assert_string_equal(printed, expected);                                                \
    } while (0)

static void test_same_as_printf(void **state)
{
    (void)state;
    CHECK_SAME("no conversions, 100 %%\n");
    CHECK_SAME("%d|%5d|%-5d|%05d|%+d|%.3d|%*d|%*d", 1, 2, 3, -4, 5, 6, 7, 8, -7, 9);
    CHECK_SAME("%u %x %X %08x %ld %lu", 7u, 255u, 255u, 0xBEEFu, -1L, 2UL);
    CHECK_SAME("%lld %llu %zu %3zu", INT64_MIN + 0LL, UINT64_MAX + 0ULL, SIZE_MAX, (size_t)1);
    CHECK_SAME("%" PRId64 " %10" PRId64 " %016" PRIx64, INT64_MAX, INT64_C(-3), UINT64_C(9));
    CHECK_SAME("%f|%.0f|%7.2f|%-9.3f|%g|%.15g|%.3g|%e|%5.1f %%", 1.5, 2.5, 3.14159, 4.0, 1e30,
               0.1, 1e-7, 1.0, 99.9);
    CHECK_SAME("%s|%10s|%-10s|%.2s|%-*.*s|%*s", "a", "b", "c", "defg", 6, 3, "hijkl", 4, "");
    CHECK_SAME("%d%s%d%s%f", 1, "two", 3, "four", 5.0);
}

static void test_text_is_not_obeyed(void **state)
{
    static const struct {
        const char *text, *shown;
    } CASES[] = {
        {"plain, \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80 \\n", NULL},
        {"\033[31m\a\b\x7F", "\\u001b[31m\\u0007\\u0008\\u007f"},
        {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
        {"\xC2\x9B"
         "31m\xC2\x9F",
         "\\u009b31m\\u009f"},
        {"\xC2\xA0", NULL},
        {"\x9B"
         "31m",
         "\\x9b31m"},
        {"\xE2\x80\xAE"
         "a\xE2\x81\xA6\xD8\x9C\xE2\x80\xA8",
         "\\u202ea\\u2066\\u061c\\u2028"},
        {"\xF3\xA0\x80\x81", "\\U000e0001"},
        {"\xC3", "\\xc3"},
        {"\xE2\x82", "\\xe2\\x82"},
        {"\xC0\x9B\xE0\x80\x9B", "\\xc0\\x9b\\xe0\\x80\\x9b"},
        {"\xED\xA0\x80", "\\xed\\xa0\\x80"},
        {"\xF4\x90\x80\x80\xFF", "\\xf4\\x90\\x80\\x80\\xff"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *shown = CASES[i].shown ? CASES[i].shown : CASES[i].text;
        print("%s", CASES[i].text);
        assert_string_equal(printed, shown);
    }
    print("\033[K\n%s", "\033");
    assert_string_equal(printed, "\033[K\n\\u001b");
}

static void test_columns_are_counted(void **state)
{
    (void)state;
    print("|%-4s|%4s|%.2s|", "\xC3\xA9", "\xE2\x82\xAC", "\xC3\xA9\xC3\xA8\xC3\xAA");
    assert_string_equal(printed, "|\xC3\xA9   |   \xE2\x82\xAC|\xC3\xA9\xC3\xA8|");
    print("|%-4s|%.3s|", "\n", "a\033b");
    assert_string_equal(printed, "|\\n  |a|");
    assert_int_equal(cli_text_columns("\xC3\xA9\n", -1), 3);
    assert_int_equal(cli_text_columns("\xC3\xA9\n", 2), 1);
    assert_int_equal(cli_text_columns("\xE6\xA8\xA1\xE5\x9E\x8B", -1),
                     4); /* two characters of Chinese */
    assert_int_equal(cli_text_columns("\xE6\xA8\xA1\xE5\x9E\x8B", 3), 2);
    assert_int_equal(cli_text_columns("e\xCC\x81\xF0\x9F\x98\x80", -1),
                     3); /* an accent, a face */
}

/* What is printed on stdout from begin_output on. */
static FILE *terminal;

static void begin_output(void)
{
    static size_t size;
    free(printed);
    terminal = stdout;
    stdout = open_memstream(&printed, &size);
    assert_non_null(stdout);
}

static void end_output(void)
{
    fclose(stdout);
    stdout = terminal;
}

/* What a form makes of rows. */
static void check_form(const char *form, const cli_row *rows, const char *expected)
{
    begin_output();
    cli_say(form, rows);
    end_output();
    assert_string_equal(printed, expected);
}

static void test_forms(void **state)
{
    (void)state;
    double list[] = {0.25, NAN};
    json_t *object =
        cli_object(CLI_ROWS(CLI_ROW("size", 4), CLI_ROW("list", cli_json_numbers(list, 2)),
                            CLI_ROW_OR_NULL(false, "none", 1), CLI_ROW_IF(false, "absent", 1),
                            CLI_SAY("unlisted", 1)));
    assert_int_equal(json_object_size(object), 3);
    const cli_row *rows =
        CLI_ROWS(CLI_ROW("one", 1), CLI_ROW("two", 2), CLI_ROW("zero", 0), CLI_ROW("r", 0.125),
                 CLI_ROW("nan", NAN), CLI_ROW("text", "a\nb"), CLI_ROW("yes", true),
                 CLI_ROW("bytes", 1234567), CLI_ROW("of", object));
    check_form("{one} row{s}, {two} row{s} {was|were}\n", rows, "1 row, 2 rows were\n");
    check_form("[{zero} a][{two} b[ {zero}][ {yes?}c]][ d{zero!}]", rows, "2 b c d");
    check_form("[{two} and {zero}][{zero} and {two}][{nan}]", rows, "2 and 0");
    check_form("{r:.2f}|{r:6.1%}|{nan:6.1%}|{nan:.1%}|{nan:4.1f}|{two:3d}", rows,
               "0.12|  12.5 %|       -|-|   -|  2");
    check_form("{text}|{text:.1s}|{text:-6s}|", rows, "a\\nb|a|a\\nb  |");
    check_form("{bytes:MB}, {bytes:.0kB}, {bytes:B}", rows, "1.2 MB, 1235 kB, 1.23 MB");
    check_form("{of.size} {of.list.0:.2f} {of.list.1:.2f}[ {of.none}][ {of.absent}]", rows,
               "4 0.25 -");
    check_form("{missing}", rows, "{missing?}");
    json_decref(object);
}

/* Whichever allocation fails: all of an object, or it is told that something is missing. */
static void test_json_is_whole_or_lost(void **state)
{
    const double list[] = {0.25, NAN};
    char *whole = NULL;
    bool lost = true;
    (void)state;
    for (long n = -1; lost || n < 8; n++) {
        json_set_alloc_funcs(cli_json_take, free);
        cli_json_is_lost = false;
        begin_output();
        remaining = n; /* at first none fails */
        cli_json_print(cli_object(CLI_ROWS(CLI_ROW("text", "a"), CLI_ROW("count", 3),
                                           CLI_ROW("list", cli_json_numbers(list, 2)))));
        remaining = -1;
        end_output();
        lost = cli_json_is_lost;
        if (n < 0)
            whole = strdup(printed);
        assert_true(lost ? n >= 0 : strcmp(whole, printed) == 0);
        assert_true(lost || n < 0 || n > 8);
    }
    assert_true(strstr(whole, "\"list\": [\n    0.25,\n    null") != NULL);
    free(whole);
    json_set_alloc_funcs(malloc, free);
}

static int forget(void **state)
{
    (void)state;
    free(printed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_printf),        cmocka_unit_test(test_text_is_not_obeyed),
        cmocka_unit_test(test_columns_are_counted),   cmocka_unit_test(test_forms),
        cmocka_unit_test(test_json_is_whole_or_lost),
    };
    return cmocka_run_group_tests(tests, NULL, forget);
}
