/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and analyses when memory runs out at any moment: it is reported as such, and every
 * JSON file that is there is whole and right. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <jansson.h>

#include <qkscope/analysis.h>
#include <qkscope/capture.h>

#include "base/json_build.h"
#include "tests/base/tree.h"
#include "tests/failing_memory.h"
#include "tests/made_capture.h"

/* Takes out what follows `from`, up to the next `to`. */
static void cut(char *text, const char *from, char to)
{
    char *start = strstr(text, from), *end = start ? strchr(start, to) : NULL;
    if (end)
        memmove(start, end, strlen(end) + 1);
}

/* What a file holds, without times of day and spans of time; "" if it is not there. */
static char *contents(const char *name)
{
    char *text = tree_text(name);
    cut(text, "\"seconds\": {", '}');
    cut(text, "\"timestamp\": ", '\n');
    cut(text, "\"date\": ", '\n');
    cut(text, "\"summary.json\": {", '}'); /* its hash: it holds a time of day */
    return text;
}

static void expect_same(const char *name, const char *expected, long n)
{
    char *text = contents(name);
    if (strcmp(text, expected) != 0) {
        size_t i = 0;
        while (text[i] && text[i] == expected[i])
            i++;
        i = i > 60 ? i - 60 : 0;
        fail_msg("allocation %ld: %s has\n%.200s\nnot\n%.200s", n, name, text + i,
                 strlen(expected) > i ? expected + i : "");
    }
    free(text);
}

/* So slow that rows before RoPE are those after it: one capture is both. */
static const char SLOW[] = "{\"rope_frequencies\": [1e-12]}";

/* Of the captures that are made, and analysed. */
static qk_layout layout = QK_LAYOUT_HEADS;
static bool whole_texts; /* rows of all positions */

/* Names that are not ASCII: a failure must not turn them into question marks. */
static qk_status make_capture(const char *folder, qk_error *err)
{
    const made_capture made = {.rows = whole_texts ? 12 : 8,
                               .texts = 2,
                               .width = whole_texts ? 6 : 128,
                               .layout = layout,
                               .model = "mod\xc3\xa8le",
                               .extra = SLOW};
    return make_made_capture(made, tree_path(folder), err);
}

static qk_status compare_stages(const char *capture, const char *output, qk_error *err)
{
    char from[512], to[512];
    qk_stages_settings s;
    qk_stages_results *report;
    qk_settings_default(&qk_stages_settings_table, &s);
    snprintf(from, sizeof from, "%s", tree_path(capture));
    snprintf(to, sizeof to, "%s", tree_path(output));
    s.before = s.after = from;
    s.input.output = to;
    s.input.context.threads = 1;
    qk_status status = qk_stages_run(&s, &report, err);
    qk_stages_results_free(&report);
    return status;
}

typedef enum analysis { COMBINED, EACH_KIND, STAGES, MOMENTS, ATTENTION } analysis;

static qk_status analyse(const char *capture, const char *output, analysis what, qk_error *err)
{
    bool combined = what != EACH_KIND;
    if (what == STAGES)
        return compare_stages(capture, output, err);
    char from[512], to[512];
    qk_analysis_settings s;
    qk_analysis_results *report;
    qk_analysis_settings_default(&s);
    snprintf(from, sizeof from, "%s", tree_path(capture));
    snprintf(to, sizeof to, "%s", tree_path(output));
    s.capture = from;
    s.output = to;
    s.combined = combined;
    if (combined)
        s.analyses |=
            QK_ANALYSE_ROTATION | QK_ANALYSE_ATTENTION; /* which there is none of but: */
    if (what == ATTENTION)
        s.analyses = QK_ANALYSE_ATTENTION;
    if (what == MOMENTS) { /* made by tests/state/make_state.py, with a reservoir of 2 */
        s.capture = QK_TEST_DATA "/state-tiny";
        s.analyses |= QK_ANALYSE_PLASTICITY;
        s.ci = 95;
    }
    s.context.threads = 1;
    s.command_line = "\xc3\xa9t\xc3\xa9";
    qk_status status = qk_analysis_run(&s, &report, err);
    qk_analysis_results_free(&report);
    return status;
}

/* Whether the run, in which allocation n fails, came to an end: then it must not have mattered.
 */
static bool ends_well(qk_status status, const qk_error *err, long n)
{
    bool reached = remaining < 0;
    remaining = -1;
    if (status != QK_OK && status != QK_ERR_PARTIAL && !strstr(err->message, "memory"))
        fail_msg("allocation %ld: status %d, %s", n, (int)status, err->message);
    assert_true(status == QK_OK || reached);
    return status == QK_OK;
}

static void making_a_capture(void **state)
{
    (void)state;
    qk_error err = {0};
    assert_int_equal(make_capture("first", &err), QK_OK);
    char *manifest = contents("first/capture.json");
    assert_non_null(strstr(manifest, "\"complete\": true"));
    bool more = true;
    for (long n = 0; more; n = next_failure(n, 1)) {
        remaining = n;
        qk_status status = make_capture("other", &err);
        more = remaining < 0;
        if (ends_well(status, &err, n)) {
            expect_same("other/capture.json", manifest, n);
        } else {
            char *now = contents("other/capture.json");
            if (*now && !strstr(now, "\"complete\": false"))
                fail_msg("allocation %ld: %s", n, now);
            free(now);
        }
        tree_remove(tree_path("other"));
    }
    free(manifest);
    tree_remove(tree_path("first"));
}

static void analysing(analysis what, const char *json)
{
    qk_error err = {0};
    const char *capture = whole_texts                  ? "whole"
                          : layout == QK_LAYOUT_PACKED ? "packed"
                                                       : "capture";
    if (access(tree_path(capture), F_OK) != 0)
        assert_int_equal(make_capture(capture, &err), QK_OK);
    assert_int_equal(analyse(capture, "out", what, &err), QK_OK);
    char other[64];
    snprintf(other, sizeof other, "out/%s", json);
    char *manifest = contents("out/manifest.json"), *second = contents(other);
    assert_non_null(strstr(manifest, "capture_json"));
    tree_remove(tree_path("out"));
    bool more = true;
    for (long n = 0; more; n = next_failure(n, 3)) {
        remaining = n;
        qk_status status = analyse(capture, "out", what, &err);
        more = remaining < 0;
        if (ends_well(status, &err, n)) {
            expect_same("out/manifest.json", manifest, n);
            expect_same(other, second, n);
        } else if (status != QK_ERR_PARTIAL) {
            char *now = contents("out/manifest.json");
            if (*now && !strstr(now, "\"complete\": false"))
                fail_msg("allocation %ld: %s", n, now);
            free(now);
        } else {
            char *now = contents("out/manifest.json");
            assert_non_null(strstr(now, "\"reason\": \"out of memory\""));
            assert_non_null(strstr(now, "out of memory\"\n"));
            free(now);
        }
        tree_remove(tree_path("out"));
    }
    free(manifest);
    free(second);
}

static void analysing_queries_with_keys(void **state)
{
    (void)state;
    analysing(COMBINED, "qk.csv");
}

static void analysing_each_kind(void **state)
{
    (void)state;
    analysing(EACH_KIND, "summary.json");
}

static void analysing_moments(void **state)
{
    (void)state;
    analysing(MOMENTS, "head_metrics.csv");
}

static void analysing_attention(void **state)
{
    (void)state;
    whole_texts = true;
    analysing(ATTENTION, "attention_profile.csv");
    whole_texts = false;
}

static void comparing_stages(void **state)
{
    (void)state;
    analysing(STAGES, "rope_pairs.csv");
}

static void packed(void **state)
{
    (void)state;
    layout = QK_LAYOUT_PACKED;
    analysing(EACH_KIND, "summary.json");
    layout = QK_LAYOUT_HEADS;
}

static void texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82", "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82"},
        {"a\xff", "a?"},
        {"\xc0\x80", "??"},
        {"\xed\xa0\x80", "???"},
        {"\xf4\x90\x80\x80", "????"},
        {"\xe2\x82", "??"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (long n = 0; n < 6; n++) {
            remaining = n;
            json_t *value = qk__json_text(cases[i].text);
            bool failed = remaining < 0;
            remaining = -1;
            assert_true(value || failed);
            if (value)
                assert_string_equal(json_string_value(value), cases[i].expected);
            json_decref(value);
        }
    assert_null(qk__json_text(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts),
                                       cmocka_unit_test(making_a_capture),
                                       cmocka_unit_test(analysing_queries_with_keys),
                                       cmocka_unit_test(analysing_each_kind),
                                       cmocka_unit_test(analysing_moments),
                                       cmocka_unit_test(analysing_attention),
                                       cmocka_unit_test(comparing_stages),
                                       cmocka_unit_test(packed)};
    json_set_alloc_funcs(__wrap_malloc, free); /* jansson is not linked with --wrap */
    return cmocka_run_group_tests_name("out_of_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
