/* SPDX-License-Identifier: Apache-2.0 */
/* Texts are measured, cut and escaped; tics of any axis stand apart; a PNG has what was drawn. */
#include "tests/unit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <zlib.h>

#include "base/utf8.h"
#include "draw/plot.h"
#include "draw/png.h"
#include "draw/text.h"

static void test_width_is_that_of_what_is_shown(void **state)
{
    (void)state;
    const double a = qk__measure("a", 10);
    assert_true(a > 5 && a < 7);
    assert_true(fabs(qk__measure("aaaa", 10) - 4 * a) < 1e-9);
    assert_true(fabs(qk__measure("<i>a</i>", 10) - a) < 1e-9);
    assert_true(fabs(qk__measure("&lt;", 10) - qk__measure("&gt;", 10)) < 1e-9);
    assert_true(qk__measure("&amp;", 10) < 9);
    assert_true(fabs(qk__measure("a<sub>a</sub>", 10) - (1 + QK__SMALLER) * a) < 1e-9);
    /* one above the other */
    assert_true(fabs(qk__measure("a<sup>a</sup><sub>a</sub>", 10) - (1 + QK__SMALLER) * a) <
                1e-9);
    assert_true(fabs(qk__measure("a<sup>aaa</sup><sub>a</sub>", 10) -
                     (1 + 3 * QK__SMALLER) * a) < 1e-9);
    assert_true(qk__measure("日本", 10) >= 20);
    assert_true(qk__measure("e\xcc\x81", 10) == qk__measure("e", 10));
}

static void check_escaped(const char *text, const char *expected)
{
    char *markup = qk__escape(text);
    assert_non_null(markup);
    assert_string_equal(markup, expected);
    char *back = qk__unmarked(markup);
    assert_non_null(back);
    if (strpbrk(text, "\n\x01\xff") == NULL)
        assert_string_equal(back, text);
    free(markup);
    free(back);
}

static void test_text_from_outside_is_no_markup(void **state)
{
    (void)state;
    check_escaped("a<b>&\"c\"", "a&lt;b&gt;&amp;&quot;c&quot;");
    check_escaped("]]>", "]]&gt;");
    check_escaped("a\nb\x01", "a b ");
    check_escaped("\xff", "\xef\xbf\xbd");
    check_escaped("日本語", "日本語");
    check_escaped("", "");
}

static void test_names_that_differ_look_different(void **state)
{
    (void)state;
    static const char *const STEPS[] = {
        "HuggingFaceTB/SmolLM3-3B-checkpoints-stage1-step-40000",
        "HuggingFaceTB/SmolLM3-3B-checkpoints-stage1-step-80000",
        "HuggingFaceTB/SmolLM3-3B-checkpoints-stage2-step-40000"};
    static const char *const MIDDLES[] = {
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa1bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa2bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"};
    for (double width = 3; width < 60; width += 0.5) {
        char **cut = qk__cut_alike(STEPS, 3, width);
        assert_non_null(cut);
        for (int i = 0; i < 3; i++) {
            assert_true(qk__measure(cut[i], 1) <= width + 1e-9 || width < 5);
            for (int j = 0; j < i; j++)
                assert_string_not_equal(cut[i], cut[j]);
        }
        free(cut);
        cut = qk__cut_alike(MIDDLES, 2, width);
        assert_non_null(cut);
        assert_string_not_equal(cut[0], cut[1]);
        free(cut);
    }
}

static void test_a_name_is_cut_in_the_middle(void **state)
{
    char out[256];
    (void)state;
    qk__cut_in_middle("abcdefghijklmnop", 100, 0.5, out, sizeof out);
    assert_string_equal(out, "abcdefghijklmnop");
    qk__cut_in_middle("abcdefghijklmnop", 6, 0.5, out, sizeof out);
    assert_true(out[0] == 'a' && out[strlen(out) - 1] == 'p' && strstr(out, "…"));
    qk__cut_in_middle("日本語日本語日本語", 5, 0.5, out, sizeof out);
    assert_true(strncmp(out, "日", 3) == 0 && strcmp(out + strlen(out) - 3, "語") == 0);
    char huge[4000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    qk__cut_in_middle(huge, 1e9, 0.5, out, sizeof out);
    assert_true(strlen(out) < sizeof out && strstr(out, "…"));
}

/* Bytes as they come, and among them what begins characters, entities and elements. */
static void random_text(uint64_t *seed, char *text, size_t size)
{
    static const char *const PIECES[] = {
        "<i>",          "&amp;", "&", "\xe6\x97", "日", "🙂", "e\xcc\x81", "\xf4\x90\x80\x80",
        "\xed\xa0\x80", "]]>",   "\n"};
    const size_t count = sizeof PIECES / sizeof *PIECES;
    const size_t length = (size_t)((random_unit(seed) + 1) * 0.5 * (double)(size - 8));
    for (*text = 0; strlen(text) < length;) {
        const size_t which = (size_t)((random_unit(seed) + 1) * (double)count);
        const char byte[] = {(char)(1 + (int)((random_unit(seed) + 1) * 127.4)), 0};
        strcat(text, which < count ? PIECES[which] : byte);
    }
}

static bool is_valid(const char *text)
{
    return qk__utf8_valid((const uint8_t *)text, strlen(text)) == strlen(text);
}

static void check_random_text(const char *text, double width)
{
    char out[256], whole[512];
    char *markup = qk__escape(text);
    assert_non_null(markup);
    assert_true(is_valid(markup) && !strpbrk(markup, "<>\"\n\x01\x1f"));
    for (const char *p = markup; (p = strchr(p, '&')); p++)
        assert_non_null(qk__entity(p));
    char *back = qk__unmarked(markup), *again = back ? qk__escape(back) : NULL;
    assert_non_null(again);
    assert_string_equal(again, markup);
    free(again);
    free(back);
    free(markup);
    qk__cut_in_middle(text, width, 0.5, out, sizeof out);
    assert_true(strlen(out) < sizeof out);
    assert_true(is_valid(out) || !is_valid(text));
    char *cut = qk__escape(out);
    assert_non_null(cut);
    if (qk__measure(cut, 1) > width + 1e-9)
        fail_msg("'%s' is %g wide, not %g", cut, qk__measure(cut, 1), width);
    free(cut);
    qk__utf8_print(whole, sizeof whole, "%s", text);
    assert_string_equal(whole, text);
    for (size_t size = 1; size < 40; size++) {
        qk__utf8_print(out, size, "%s", text);
        assert_true(strlen(out) < size && (is_valid(out) || !is_valid(text)));
        if (strcmp(out, text) != 0 && size > 4)
            assert_string_equal(out + strlen(out) - 3, "…");
    }
}

static void test_any_bytes(void **state)
{
    (void)state;
    uint64_t seed = 1;
    char text[300];
    for (int i = 0; i < (tier_is("test") ? 2000 : 20000); i++) {
        random_text(&seed, text, i % 2 ? 12 : sizeof text);
        check_random_text(text, 3 + 20 * (random_unit(&seed) + 1));
    }
}

/* Where the texts of a canvas stand: x or y, and half of what they take. */
static size_t read_texts(const qk__canvas *canvas, bool across, double (*found)[2], size_t most)
{
    size_t count = 0;
    for (const char *p = (const char *)canvas->body.data;
         p && (p = strstr(p, "<text")) && count < most; p++) {
        double x, y, size;
        const char *text = strchr(p, '>') + 1;
        char label[200];
        assert_int_equal(
            sscanf(p, "<text x=\"%lf\" y=\"%lf\" font-size=\"%lf\"", &x, &y, &size), 3);
        snprintf(label, sizeof label, "%.*s", (int)(strstr(text, "</text>") - text), text);
        found[count][0] = across ? x : y;
        found[count++][1] = across ? qk__measure(label, size) / 2 : size / 2;
    }
    return count;
}

static void check_axis(double low, double high, double length, bool across, bool logarithmic)
{
    qk__canvas canvas;
    double found[200][2];
    const qk__axis axis = {low, high, logarithmic};
    qk__canvas_init(&canvas, qk__theme_of(QK_THEME_PAPER));
    const qk__plot plot = {&canvas, 50, 50, length, length, axis, axis, 10.4};
    qk__number_tics(&plot, across ? QK__BELOW : QK__LEFT, across ? 50 : 30, 0,
                    (qk__tic_style){.length = 4});
    assert_int_equal(canvas.status, QK_OK);
    assert_int_equal(qk__buffer_append(&canvas.body, "", 1, NULL), QK_OK);
    size_t count = read_texts(&canvas, across, found, 200);
    if (!logarithmic && length > 150)
        assert_in_range(count, 1, 100);
    for (size_t i = 1; i < count; i++)
        if (fabs(found[i][0] - found[i - 1][0]) < found[i][1] + found[i - 1][1])
            fail_msg("%g to %g in %g pixels: tics %zu and %zu touch", low, high, length, i - 1,
                     i);
    qk__canvas_free(&canvas);
}

static void test_tics_never_touch(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int i = 0; i < 3000; i++) {
        double size = pow(10, 8 * random_unit(&seed)), low = size * random_unit(&seed);
        double high = low + size * fabs(random_unit(&seed)) + 1e-9 * size;
        double length = 30 + 400 * fabs(random_unit(&seed));
        check_axis(low, high, length, i % 2, false);
        check_axis(high, low, length, i % 2, false);
        check_axis(fabs(low) + 1e-12,
                   (fabs(low) + 1e-12) * pow(10, 1 + 8 * fabs(random_unit(&seed))), length,
                   i % 2, true);
    }
    check_axis(0, 0, 100, true, false);
    check_axis(-HUGE_VAL, HUGE_VAL, 100, true, false);
    check_axis(NAN, NAN, 100, true, false);
    check_axis(1, 1 + DBL_EPSILON, 100, true, false); /* no loop that never ends */
    check_axis(1e17, 1e17 + 16, 100, false, false);
    check_axis(0.5, 0.5000005, 400, true, false);
    check_axis(1e6, 1000005, 400, true, false);
}

static void test_numbers_have_a_proper_minus(void **state)
{
    char text[QK__NUMBER_TEXT];
    (void)state;
    assert_string_equal(qk__number_text(text, "%.2f", -0.25), "\xe2\x88\x92"
                                                              "0.25");
    assert_string_equal(qk__number_text(text, "%.2f", -0.001), "0.00");
    assert_string_equal(qk__number_text(text, "%g", -1e-7), "\xe2\x88\x92"
                                                            "1e"
                                                            "\xe2\x88\x92"
                                                            "07");
}

/* The pixels of a PNG as png.c writes it: one IDAT, no filters. */
static void test_a_png_has_what_was_drawn(void **state)
{
    (void)state;
    static const size_t COUNTS[] = {2, 4, 16, 200};
    for (int k = 0; k < 4; k++) {
        qk__bitmap bitmap;
        qk__buffer png = {0};
        assert_int_equal(qk__bitmap_make(&bitmap, 37, 21, NULL), QK_OK);
        bitmap.count = COUNTS[k];
        qk__bitmap_sign(&bitmap, QK__DISC, 10, 10, 4, 1);
        qk__bitmap_sign(&bitmap, QK__UP, 30, 10, 5, (uint8_t)(COUNTS[k] - 1));
        qk__bitmap_sign(&bitmap, QK__DISC, -1000, NAN, 5, 1);
        qk__bitmap_sign(&bitmap, QK__DISC, 1e300, 1e300, 5, 1);
        qk__bitmap_sign(&bitmap, QK__DISC, 20.5, 19.5, 0.2, 1);
        size_t drawn = 0;
        for (size_t i = 0; i < 37 * 21; i++)
            drawn += bitmap.pixels[i] == 1 && i % 37 < 16;
        assert_true(fabs((double)drawn - acos(-1) * 16) < 6);
        assert_int_equal(bitmap.pixels[19 * 37 + 20], 1);
        assert_int_equal(qk__png_write(&bitmap, &png, NULL), QK_OK);
        const size_t bits = png.data[24], row = (37 * bits + 7) / 8 + 1;
        const uint8_t *at = png.data + 8;
        while (memcmp(at + 4, "IDAT", 4) != 0)
            at += 12 + (size_t)(at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3]);
        uint8_t rows[21 * 40];
        uLongf size = sizeof rows;
        assert_int_equal(uncompress(rows, &size, at + 8, (uLong)(at[2] << 8 | at[3])), Z_OK);
        assert_int_equal(size, 21 * row);
        for (size_t y = 0; y < 21; y++)
            for (size_t x = 0; x < 37; x++)
                assert_int_equal(rows[y * row + 1 + x * bits / 8] >> (8 - bits - x * bits % 8) &
                                     ((1 << bits) - 1),
                                 bitmap.pixels[y * 37 + x]);
        qk__buffer_free(&png);
        qk__bitmap_free(&bitmap);
    }
    qk__bitmap huge;
    assert_int_equal(qk__bitmap_make(&huge, SIZE_MAX, 2, NULL), QK_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_width_is_that_of_what_is_shown),
        cmocka_unit_test(test_text_from_outside_is_no_markup),
        cmocka_unit_test(test_names_that_differ_look_different),
        cmocka_unit_test(test_a_name_is_cut_in_the_middle),
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_tics_never_touch),
        cmocka_unit_test(test_numbers_have_a_proper_minus),
        cmocka_unit_test(test_a_png_has_what_was_drawn),
    };
    return cmocka_run_group_tests_name("draw", tests, NULL, NULL);
}
