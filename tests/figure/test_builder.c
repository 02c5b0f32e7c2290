/* SPDX-License-Identifier: Apache-2.0 */
/* Putting a figure together: text from outside, numbers, failures that are kept; settings. What
 * gnuplot makes of it is tested in test_hostile_text.py and test_drawing.py. */
#include "tests/unit.h"

#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "figure/figure.h"
#include "figure/figure_settings.h"
#include "tests/base/tree.h"

static qk__figure figure;

static int make_figure(void **state)
{
    (void)state;
    qk__figure_init(&figure, "sample", qk__theme_of(QK_THEME_PAPER), 640, 400);
    return figure.status == QK_OK ? 0 : -1;
}

static int free_figure(void **state)
{
    (void)state;
    qk__figure_free(&figure);
    return 0;
}

static int make_figure_and_folder(void **state)
{
    return make_figure(state) == 0 ? tree_setup(state) : -1;
}

static int free_figure_and_folder(void **state)
{
    return free_figure(state) == 0 ? tree_teardown(state) : -1;
}

/* Where the single-quoted string at text has its last quote; 0: it does not end. */
static size_t literal_length(const char *text)
{
    assert_int_equal(text[0], '\'');
    for (size_t i = 1; text[i]; i++)
        if (text[i] == '\'' && text[++i] != '\'')
            return i - 1;
    return 0;
}

/* What an SVG shows of a text: the literal itself, or, where no font here has some character of
 * it, the first of the two that the variable stands for. It holds until the next call. */
static const char *literal_of(const char *quoted)
{
    static char literal[1000];
    char start[100];
    qk__buffer script = {0};
    if (quoted[0] == '\'')
        return quoted;
    assert_int_equal(qk__figure_define_texts(&figure, &script, NULL), QK_OK);
    assert_int_equal(qk__buffer_append(&script, "", 1, NULL), QK_OK);
    snprintf(start, sizeof start, "%s = format eq 'svg' ? ", quoted);
    const char *definition = strstr((const char *)script.data, start);
    assert_non_null(definition);
    definition += strlen(start);
    snprintf(literal, sizeof literal, "%.*s", (int)literal_length(definition) + 1, definition);
    qk__buffer_free(&script);
    return literal;
}

static void expect_quote(const char *text, const char *expected)
{
    assert_string_equal(literal_of(qk__figure_quote(&figure, text)), expected);
}

/* ---- text ------------------------------------------------------------------------------- */

static void test_every_ascii_character(void **state)
{
    (void)state;
    for (int c = 1; c < 0x80; c++) {
        char text[] = {'a', (char)c, 'b', '\0'}, expected[20];
        const char *shown = text + 1;
        char escaped[] = {'\\', (char)c, '\0'}, plain[] = {(char)c, '\0'};
        if (c < 0x20 || c == 0x7f)
            shown = " ";
        else if (c == '\'')
            shown = "''";
        else if (c == '\\')
            shown = "\\U+005C{}";
        else
            shown = strchr("{}^_@&~", c) ? escaped : plain;
        snprintf(expected, sizeof expected, "'a%sb'", shown);
        expect_quote(text, expected);
        if (c == '%')
            snprintf(expected, sizeof expected, "'a\\U+0025{}b'");
        assert_string_equal(qk__figure_tic(&figure, text), expected);
    }
}

/* "]]>" must not stand in XML, and gnuplot does not escape '>'. */
static void test_quotes_and_line_ends(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "''"},
        {"'", "'{}'''"},
        {"''", "'{}''{}'''"},
        {"'; system \"touch x\"; '", "'{}''; system \"touch x\"; '''"},
        {"\\'", "'\\U+005C{}'''"},
        {"\\U+263A", "'\\U+005C{}\xe2\x80\x8bU+263A'"},
        {"$(x) %d @a", "'$(x) %d \\@a'"},
        {"]]>", "']]\xe2\x80\x8b>'"},
        {"]]]>>", "']]]\xe2\x80\x8b>>'"},
        {"a]>", "'a]>'"},
        {"a\nb\r\tc\x7f\x1b[0m", "'a b  c  [0m'"},
        {"\xc2\x80\xc2\x9f\xc2\xa0", "'  \xc2\xa0'"},                 /* C1; no-break space */
        {"\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xa7", "'  \xe2\x80\xa7'"}, /* separators */
        {"\xf4\x8f\xbf\xbd", "'\xf4\x8f\xbf\xbd'"},
        {"e\xcc\x81\xcc\x82", "'e\xcc\x81\xcc\x82'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_quote(cases[i][0], cases[i][1]);
}

#define BROKEN "\xef\xbf\xbd"

/* Each byte that is not part of a character is shown as one U+FFFD. */
static void test_invalid_utf8(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int broken;
    } cases[] = {{"\x80", 1},
                 {"\xff\xfe", 2},
                 {"\xc1\xbf", 2},                  /* overlong */
                 {"\xe0\x9f\xbf", 3},              /* overlong */
                 {"\xed\xa0\x80", 3},              /* surrogate */
                 {"\xf0\x8f\xbf\xbf", 4},          /* overlong */
                 {"\xf4\x90\x80\x80", 4},          /* too large */
                 {"\xe2\x82", 2},                  /* cut off */
                 {"\xef\xbf\xbe\xef\xbf\xbf", 2}}; /* not characters */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char expected[40] = "'";
        for (int n = 0; n < cases[i].broken; n++)
            strcat(expected, BROKEN);
        expect_quote(cases[i].text, strcat(expected, "'"));
    }
    expect_quote("\xe2\x82'", "'" BROKEN BROKEN "'''");
    expect_quote("\xc3x", "'" BROKEN "x'");
}

static void test_long_text(void **state)
{
    (void)state;
    char text[10001], expected[400];
    memset(text, 'x', sizeof text);
    text[10000] = '\0';
    memset(expected, 'x', sizeof expected);
    memcpy(expected, "'", 1);
    snprintf(expected + 61, 20, "\xe2\x80\xa6'");
    expect_quote(text, expected);
    snprintf(expected + 33, 20, "\xe2\x80\xa6'");
    assert_string_equal(qk__figure_tic(&figure, text), expected);
    text[60] = '\0'; /* what just fits has no ellipsis */
    assert_null(strstr(qk__figure_quote(&figure, text), "\xe2\x80\xa6"));
    text[32] = '\0';
    assert_null(strstr(qk__figure_tic(&figure, text), "\xe2\x80\xa6"));
    memset(text, '\'', 10000); /* those that take the most room */
    assert_int_equal(strlen(qk__figure_quote(&figure, text)), 60 * 4 + 2 + 3);
    memset(text, '\\', 10000);
    assert_int_equal(strlen(qk__figure_quote(&figure, text)), 60 * 9 + 2 + 3);
    for (int i = 0; i < 10000; i++)
        text[i] = "]]>"[i % 3];
    assert_int_equal(strlen(qk__figure_quote(&figure, text)), 20 * (2 + 4) + 2 + 3);
}

/* Whatever the bytes, what comes out is one literal without anything that ends a line. */
static void test_random_bytes(void **state)
{
    uint64_t seed = 1;
    static const char often[] = "''\\\\]>{}%@`$\n";
    const int rounds = tier_is("test") ? 2000 : 20000;
    for (int round = 0; round < rounds; round++) {
        if (round % 1000 == 999) { /* so that the texts it keeps do not slow it down */
            free_figure(state);
            make_figure(state);
        }
        char text[80];
        size_t length = (size_t)(39.5 * (1 + random_unit(&seed)));
        for (size_t i = 0; i < length; i++) {
            int byte = (int)(128 * (1 + random_unit(&seed)));
            bool pick = random_unit(&seed) > 0;
            text[i] = pick ? often[byte % (int)(sizeof often - 1)] : (char)(byte ? byte : 1);
        }
        text[length] = '\0';
        const char *quoted = literal_of(round % 2 ? qk__figure_quote(&figure, text)
                                                  : qk__figure_tic(&figure, text));
        assert_int_equal(literal_length(quoted) + 1, strlen(quoted));
        assert_null(strstr(quoted + 1, "''''"));
        assert_null(strstr(quoted, "]]>"));
        for (const char *c = quoted; *c; c++)
            assert_true((unsigned char)*c >= 0x20);
    }
}

/* ---- numbers and lines ------------------------------------------------------------------ */

static void expect_data(const char *expected)
{
    assert_int_equal(figure.data.size, strlen(expected));
    assert_memory_equal(figure.data.data, expected, figure.data.size);
}

static void test_numbers(void **state)
{
    (void)state;
    static const double values[] = {0, 0.1, -1.5, 1e300, 1.0 / 3, 1234567, 1e-320};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        qk__figure_value(&figure, values[i]);
    qk__figure_end_row(&figure);
    qk__figure_value(&figure, NAN);
    qk__figure_value(&figure, INFINITY);
    qk__figure_value(&figure, -INFINITY);
    qk__figure_words(&figure, "%d %s", 7, "word");
    qk__figure_end_row(&figure);
    assert_int_equal(qk__figure_end_block(&figure), 0);
    expect_data(
        "0 0.1 -1.5 1e+300 0.333333 1.23457e+06 9.99989e-321\nNaN NaN NaN 7 word\n\n\n");
}

/* gnuplot would complain of a block without rows. */
static void test_empty_blocks(void **state)
{
    (void)state;
    assert_int_equal(qk__figure_end_block(&figure), 0);
    qk__figure_value(&figure, 1);
    qk__figure_end_row(&figure);
    assert_int_equal(qk__figure_end_block(&figure), 1);
    assert_int_equal(qk__figure_end_block(&figure), 2);
    expect_data("NaN NaN NaN NaN NaN NaN\n\n\n1\n\n\nNaN NaN NaN NaN NaN NaN\n\n\n");
}

static void test_locale(void **state)
{
    (void)state;
    const char *before = setlocale(LC_ALL, NULL);
    char name[200];
    snprintf(name, sizeof name, "%s", before ? before : "C");
    static const char *const commas[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"};
    bool found = false;
    for (size_t i = 0; i < sizeof commas / sizeof *commas && !found; i++)
        found = setlocale(LC_ALL, commas[i]) != NULL;
    if (!found)
        skip();
    char text[20];
    qk__figure_value(&figure, 0.5);
    qk__figure_print(&figure, "%g %.1f", 0.25, 1.5);
    snprintf(text, sizeof text, "%g", 0.5); /* the user's is as it was */
    setlocale(LC_ALL, name);
    assert_string_equal(text, "0,5");
    expect_data("0.5 ");
    assert_int_equal(figure.script.size, 8);
    assert_memory_equal(figure.script.data, "0.25 1.5", 8);
}

/* ---- failures --------------------------------------------------------------------------- */

static void test_failures_are_kept(void **state)
{
    (void)state;
    qk__figure_print(&figure, "first\n");
    figure.status = qk__nomem(&figure.err);
    qk__figure_print(&figure, "second\n");
    qk__figure_value(&figure, 1);
    qk__figure_end_row(&figure);
    qk__figure_end_block(&figure);
    expect_quote("text", "'text'");
    assert_int_equal(figure.script.size, 6);
    assert_int_equal(figure.data.size, 0);
    qk_figure_settings settings;
    qk__figure_settings_default(&settings);
    qk_error err;
    assert_int_equal(qk__figure_draw(&figure, tree_path("new"), &settings, &err), QK_ERR_NOMEM);
    assert_string_equal(err.message, "figure sample: out of memory");
    assert_false(qk__is_dir(tree_path("new")));
    assert_int_equal(qk__figure_draw(&figure, tree_path("new"), &settings, NULL), QK_ERR_NOMEM);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const bad[] = {"",   "..",  ".x", "a/b", "a b", "a'b",
                                      "$x", "a\n", "é",  "a;b", "a\\b"};
    qk_figure_settings settings;
    qk__figure_settings_default(&settings);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qk__figure named;
        qk__figure_init(&named, bad[i], qk__theme_of(QK_THEME_DARK), 100, 100);
        qk__figure_print(&named, "plot x\n");
        assert_int_equal(qk__figure_draw(&named, tree_path("new"), &settings, NULL),
                         QK_ERR_ARGUMENT);
        assert_false(qk__is_dir(tree_path("new")));
        qk__figure_free(&named);
    }
}

/* ---- settings --------------------------------------------------------------------------- */

static void test_formats(void **state)
{
    (void)state;
    unsigned formats = 0;
    assert_int_equal(qk__figure_formats_parse("svg,png,pdf", &formats, NULL), QK_OK);
    assert_int_equal(formats, QK_FIGURE_PNG | QK_FIGURE_SVG | QK_FIGURE_PDF);
    assert_int_equal(qk__figure_formats_parse("pdf", &formats, NULL), QK_OK);
    assert_int_equal(formats, QK_FIGURE_PDF);
    static const char *const bad[] = {"",        ",",   "png,",    ",png", "png,,svg", "jpg",
                                      "png,png", "PNG", "png svg", "pn",   "pngsvg"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        qk_error err = {0};
        assert_int_equal(qk__figure_formats_parse(bad[i], &formats, &err), QK_ERR_ARGUMENT);
        assert_true(err.message[0] != '\0');
        assert_int_equal(formats, QK_FIGURE_PDF);
    }
}

static void test_themes(void **state)
{
    (void)state;
    qk_figure_theme theme;
    static const char *const names[] = {"paper", "screen", "dark"};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(qk__figure_theme_parse(names[i], &theme, NULL), QK_OK);
        assert_int_equal(theme, i);
        assert_string_equal(qk__theme_of(theme)->name, names[i]);
    }
    qk_error err;
    assert_int_equal(qk__figure_theme_parse("light", &theme, &err), QK_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "light"));
}

#define with_figure(test) cmocka_unit_test_setup_teardown(test, make_figure, free_figure)
#define with_folder(test)                                                                      \
    cmocka_unit_test_setup_teardown(test, make_figure_and_folder, free_figure_and_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_figure(test_every_ascii_character), with_figure(test_quotes_and_line_ends),
        with_figure(test_invalid_utf8),          with_figure(test_long_text),
        with_figure(test_random_bytes),          with_figure(test_numbers),
        with_figure(test_empty_blocks),          with_figure(test_locale),
        with_folder(test_failures_are_kept),     with_folder(test_names),
        cmocka_unit_test(test_formats),          cmocka_unit_test(test_themes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
