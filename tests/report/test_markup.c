/* SPDX-License-Identifier: Apache-2.0 */
/* What gets into the page and how: elements, text, links, JSON, numbers, pictures, whatever they hold. */
#include "tests/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "report/picture.h"
#include "stats/significance.h"

static void expect(qk__page *page, const char *text)
{
    assert_int_equal(page->status, QK_OK);
    qk__page_bytes(page, "", 1);
    assert_string_equal((const char *)page->out.data, text);
    qk__page_free(page);
    *page = (qk__page){.status = QK_OK};
}

static void text_is_text(void **state)
{
    (void)state;
    qk__page page = {.status = QK_OK};
    qk__say(&page, "%s", "a\"><script>alert('1')</script>&amp;");
    expect(&page, "a&quot;&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;amp;");
    qk__say(&page, "%s", "tab\tnew\nline\x01\x7F\xC2\x9Fz");
    expect(&page, "tab new line   z");
    /* stray, cut short, overlong, surrogate, beyond U+10FFFF */
    qk__say(&page, "%s", "\x80|\xE2\x82|\xC0\xAF|\xED\xA0\x80|\xF4\x90\x80\x80|\xE2\x82");
    const char *bad = "\xEF\xBF\xBD";
    char expected[200] = "";
    static const int counts[] = {1, 2, 2, 3, 4, 2};
    for (size_t i = 0; i < 6; i++) {
        strcat(expected, i ? "|" : "");
        for (int n = 0; n < counts[i]; n++)
            strcat(expected, bad);
    }
    expect(&page, expected);
    qk__say(&page, "%s", "π\xF0\x9F\x98\x80");
    expect(&page, "π\xF0\x9F\x98\x80");
}

/* Marks and conversions count in formats, never in what is put into them. */
static void marks_are_those_of_formats(void **state)
{
    (void)state;
    qk__page page = {.status = QK_OK};
    qk__say(&page, "*a* `b` ^c^ r~q~ < %s", "*d* `e` {f} [g|h] %s ~");
    expect(&page, "<strong>a</strong> <code>b</code> <small>c</small> r<sub>q</sub> &lt; "
                  "*d* `e` {f} [g|h] %s ~");
    qk__put(&page, "li", "[#at-%s|to %s], %zu of %d", "x\"|]", "]*", (size_t)12345, 1000);
    expect(&page, "<li><a href=\"#at-x&quot;|]\">to ]*</a>, 12,345 of 1,000</li>\n");
    qk__say(&page, "%.3g %g%% %.2g 5 %% %e %.*s %lld", -0.5, 0.123, 1e-7, 0.0, 2, "abc",
            12345LL);
    expect(&page, "−0.500 12.3\xC2\xA0% 1.0×10⁻⁷ 5 % below 10⁻³⁰⁰ ab 12345");
}

/* An element that stays open, or closes where another is open, is an error, and nothing is written. */
static void elements_close(void **state)
{
    (void)state;
    qk__outfile *file = NULL;
    qk_error err = {0};
    qk__page page = {.status = QK_OK};
    qk__open(&page, "ul");
    qk__open(&page, "li");
    qk__close(&page, "ul");
    assert_int_equal(page.status, QK_ERR_ARGUMENT);
    assert_string_equal(page.err.message, "the page closes <ul>, but <li> is open");
    qk__page_free(&page);
    page = (qk__page){.status = QK_OK};
    qk__say(&page, "*strong");
    assert_int_equal(qk__page_write(&page, "never", &file, &err), QK_ERR_ARGUMENT);
    assert_null(file);
    qk__page_free(&page);
}

static void names_are_cut_and_isolated(void **state)
{
    (void)state;
    char longest[10001], expected[200];
    qk__page page = {.status = QK_OK};
    memset(longest, 'x', 10000);
    longest[10000] = 0;
    qk__say(&page, "{%s}", longest);
    snprintf(expected, sizeof expected, "<bdi>%.*s…</bdi>", QK__NAME_POINTS, longest);
    expect(&page, expected);
    qk__short_name name = qk__short_name_of("a\xFF");
    assert_string_equal(name.text, "\xE2\x81\xA8"
                                   "a\xEF\xBF\xBD\xE2\x81\xA9");
    for (size_t i = 0; i < 10000; i += 4)
        memcpy(longest + i, "\xF0\x9F\x98\x80", 4);
    assert_true(strlen(qk__short_name_of(longest).text) < sizeof name.text);
}

static void json_and_links(void **state)
{
    (void)state;
    qk__page page = {.status = QK_OK};
    json_t *text = qk__clean_text("</script>\"\\&\n\xFF");
    qk__page_json(&page, "x", json_pack("[o,f,n,f]", text, -0.1234567, 1e-300), 5);
    expect(&page, "<script type=\"application/json\" id=\"x\">[\"\\u003c/script\\u003e\\\"\\\\"
                  "\\u0026 \xEF\xBF\xBD\",-0.12346,null,1e-300]</script>\n");
    qk__page_json(&page, "x", NULL, 5);
    assert_int_equal(page.status, QK_ERR_NOMEM);
    qk__page_free(&page);
    char *link = qk__percent("a b/../\"x'?#%.png");
    assert_string_equal(link, "a%20b%2F..%2F%22x%27%3F%23%25.png");
    free(link);
    static const char *const expected[] = {"", "/w==", "/wA=", "/wAQ", "/wAQQA=="};
    for (size_t size = 0; size <= 4; size++) {
        char *base64 = qk__base64("\xFF\x00\x10@", size);
        assert_string_equal(base64, expected[size]);
        free(base64);
    }
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        double value;
        int digits;
        const char *text;
    } cases[] = {
        {0, 3, "0.00"},           {0.8126, 2, "0.81"},   {-0.67, 2, "−0.67"},
        {0.9996, 3, "1.00"},      {12345.6, 3, "12346"}, {1.234e-5, 3, "1.23×10⁻⁵"},
        {4.34e-4, 3, "0.000434"}, {2e7, 2, "2.0×10⁷"},   {NAN, 3, "–"},
        {INFINITY, 2, "–"},       {9.99e-4, 1, "0.001"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(qk__show(cases[i].value, cases[i].digits).text, cases[i].text);
    assert_string_equal(qk__show_percent(0.1234).text, "12.3\xC2\xA0%");
    assert_string_equal(qk__show_percent(0.01234).text, "1.23\xC2\xA0%");
    assert_string_equal(qk__show_percent(1).text, "100\xC2\xA0%");
    assert_string_equal(qk__show_count(0).text, "0");
    assert_string_equal(qk__show_count(3239).text, "3,239");
    assert_string_equal(qk__show_count(1234567).text, "1,234,567");
    qk__page page = {.status = QK_OK};
    qk__open(&page, "img[a=%.9g][b=%.5g][c=%.5g][d=%.0f]", NAN, -0.1234567, 1e-300, 12345.6);
    expect(&page, "<img a=\"null\" b=\"-0.12346\" c=\"1e-300\" d=\"12346\">");
    /* what is too long for a phrase is cut */
    char many[2000];
    memset(many, 'x', sizeof many);
    many[sizeof many - 1] = 0;
    qk__phrase phrase = qk__phrase_of("%d %s", 7, many);
    assert_int_equal(strlen(phrase.text), sizeof phrase.text - 1);
}

/* ---- pictures --------------------------------------------------------------------------- */

static void a_file_of_a_drawing_is_an_image(void **state)
{
    (void)state;
    static const char svg[] = "<svg viewBox=\"0 0 80 40\"><script>\"'&#</script>\xc3\xbc</svg>";
    const qk__buffer file = {(uint8_t *)strdup(svg), sizeof svg - 1, sizeof svg};
    qk__page page = {.status = QK_OK};
    qk__put_svg_file(&page, &file, 80, 40, true, "L<");
    expect(&page,
           "<div class=\"plate\" style=\"--wide:80px\"><div class=\"sheet\" "
           "style=\"aspect-ratio:80/40\"><img class=\"dark\" alt=\"L&lt;\" "
           "src=\"data:image/svg+xml,%3Csvg%20viewBox=%220%200%2080%2040%22%3E%3Cscript%3E"
           "%22%27%26%23%3C/script%3E%C3%BC%3C/svg%3E\"></div>\n</div>\n");
    free(file.data);
}

static void what_is_no_svg(void **state)
{
    (void)state;
    static const char *const files[] = {"",
                                        "PNG",
                                        "<svg",
                                        "<svg viewBox=\"0 0 0 0\">",
                                        "<svg viewBox=\"0 0 1e9 5\">",
                                        "<svg viewBox=\"a b c d\">",
                                        " <svg viewBox=\"0 0 5 5\">"};
    double width, height;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const qk__buffer file = {(uint8_t *)strdup(files[i]), strlen(files[i]), 0};
        assert_false(qk__svg_size(&file, &width, &height));
        free(file.data);
    }
    assert_false(qk__svg_size(&(qk__buffer){0}, &width, &height));
}

/* ---- intervals: values of scipy.stats --------------------------------------------------- */

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9))
        fail_msg("%.17g, not %.17g", value, expected);
}

static void intervals(void **state)
{
    (void)state;
    const double values[] = {1, 2, NAN, 3, 7};
    qk__estimate e = qk__estimate_mean(values, 5, 0.95);
    assert_int_equal(e.count, 4);
    assert_near(e.value, 3.25);
    assert_near(e.low, -0.9348463042743971);
    assert_near(e.high, 7.434846304274397);
    e = qk__estimate_mean(values, 2, 0.95);
    assert_true(isnan(e.low));
    const double all[] = {1, 1, 1, 1};
    e = qk__estimate_share(all, 4);
    assert_near(e.low, 0.5101091635454027);
    assert_near(e.high, 1);
    const qk__test at_level = {0.05, 1}, unsure = {0.25, 1}, against = {1, 1}, sure = {1e-6, 1},
                   none = {NAN, 0};
    assert_true(fabs(qk__widen_to_test(e, &at_level).low - 0.5) < 1e-7);
    assert_true(fabs(qk__widen_to_test(e, &unsure).low - 0.25621772393512) < 1e-7);
    assert_near(qk__widen_to_test(e, &against).low, 0);
    assert_near(qk__widen_to_test(e, &sure).low, e.low);
    assert_near(qk__widen_to_test(e, &none).low, e.low);
    e.value = 0.5;
    assert_near(qk__widen_to_test(e, &unsure).low, e.low);
    e = qk__estimate_correlation(-0.67, 7);
    assert_near(e.low, -0.9458370398550333);
    assert_near(e.high, 0.1676413977979934);
    e = qk__estimate_correlation(1, 3);
    assert_true(isnan(e.low));
    assert_true(isfinite(qk__estimate_correlation(1, 10).low));
    const double z[] = {qk__fisher_z(0.1), qk__fisher_z(0.5), qk__fisher_z(0.7), NAN};
    e = qk__estimate_correlations(z, 4);
    assert_int_equal(e.count, 3);
    assert_near(e.value, 0.46654688743406747);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_text),
        cmocka_unit_test(marks_are_those_of_formats),
        cmocka_unit_test(elements_close),
        cmocka_unit_test(names_are_cut_and_isolated),
        cmocka_unit_test(json_and_links),
        cmocka_unit_test(numbers),
        cmocka_unit_test(a_file_of_a_drawing_is_an_image),
        cmocka_unit_test(what_is_no_svg),
        cmocka_unit_test(intervals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
