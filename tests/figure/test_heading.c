/* SPDX-License-Identifier: Apache-2.0 */
/* The heading of a figure: how texts are broken into lines, and the height that these take. */
#include "tests/unit.h"

#include <string.h>

#include "figure/figure_text.h"
#include "figure/heading.h"

/* Each line has room for its text, and together they say all of it. */
static void test_lines_of_a_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines; /* with '|' between them */
        size_t room;
        bool markup;
    } CASES[] = {
        {"one two three", "one two|three", 8, false},
        {"one", "one", 3, false},
        {"", "", 3, false},
        {"step-000400-of-the-run", "step-|000400-|of-the-|run", 8, false},
        {"abcdefghij", "abcd|efgh|ij", 4, false},
        {"日本語のモデル", "日本|語の|モデ|ル", 4, false},
        {"a b c d e f g h i j", "a b|c d|e f|g h|i j", 3, false},
        {"{/:Italic r}_q against {/:Italic r}_k", "{/:Italic r}_q against|{/:Italic r}_k", 10,
         true},
        {"one two three four five six seven", "one|two|three|four|five|six …", 5, false},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        qk__lines lines;
        char all[200] = "";
        qk__break_lines(CASES[i].text, CASES[i].markup, CASES[i].room, QK__MAX_LINES, &lines);
        for (size_t l = 0; l < lines.count; l++) {
            strcat(all, l > 0 ? "|" : "");
            strcat(all, lines.text[l]);
        }
        assert_string_equal(all, CASES[i].lines);
    }
}

static void test_a_heading_takes_the_height_of_its_lines(void **state)
{
    (void)state;
    qk__result_model model = {.label = "model"};
    qk__results results = {.title = "", .num_models = 2};
    qk__figure sample;
    qk__figure_init(&sample, "heading", qk__theme_of(QK_THEME_PAPER), 400, 100);
    qk__set_heading(&sample, &results, NULL, "Short");
    double one = qk__heading_height(&sample);
    qk__set_heading(&sample, &results, &model, "Short");
    double named = qk__heading_height(&sample);
    qk__set_heading(&sample, &results, &model,
                    "A title of so many words that there is no room for it in one line");
    assert_true(one < named && named < qk__heading_height(&sample));
    qk__set_own_heading(&sample, NULL, NULL);
    assert_true(qk__heading_height(&sample) < one);
    qk__set_own_heading(&sample, NULL, "{/:Italic d} = 30");
    assert_float_equal(qk__heading_height(&sample), one, 1e-9);
    qk__set_own_heading(&sample, "Title", "{/:Italic d} = 30");
    assert_float_equal(qk__heading_height(&sample), named, 1e-9);
    qk__figure_free(&sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines_of_a_text),
        cmocka_unit_test(test_a_heading_takes_the_height_of_its_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
