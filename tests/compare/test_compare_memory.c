/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison when memory runs out at any moment: it is reported as such, and its files are all
 * there or, as the manifest says, not. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <jansson.h>

#include <qkscope/analysis.h>
#include <qkscope/capture.h>
#include <qkscope/compare.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"
#include "tests/made_capture.h"

static void make_capture(const char *folder, uint64_t seed)
{
    qk_error err = {0};
    assert_int_equal(make_made_capture((made_capture){.seed = seed}, tree_path(folder), &err),
                     QK_OK);
}

static qk_status compare(const char *a, const char *b, bool force, qk_error *err)
{
    char from[512], with[512], to[512];
    qk_compare_settings s;
    qk_compare_outcome *outcome;
    qk_settings_default(&qk_compare_settings_table, &s);
    snprintf(from, sizeof from, "%s", tree_path(a));
    snprintf(with, sizeof with, "%s", tree_path(b));
    snprintf(to, sizeof to, "%s", tree_path("out"));
    s.a = from;
    s.b = with;
    s.html = false;
    s.output = to;
    s.context.threads = 1;
    s.force = force;
    qk_status status = qk_compare_run(&s, &outcome, err);
    assert_true((outcome != NULL) == (status == QK_OK || status == QK_ERR_PARTIAL));
    qk_compare_outcome_free(&outcome);
    return status;
}

static void check(qk_status status, const qk_error *err, const char *table, long n)
{
    char *manifest = tree_text("out/manifest.json"), *now = tree_text("out/compare.csv");
    if (status == QK_OK && strcmp(now, table) != 0)
        fail_msg("allocation %ld: another table", n);
    if (status == QK_ERR_PARTIAL && !strstr(manifest, "memory"))
        fail_msg("allocation %ld: heads are missing without a word", n);
    if (status != QK_OK && status != QK_ERR_PARTIAL && !strstr(err->message, "memory"))
        fail_msg("allocation %ld: status %d, %s", n, (int)status, err->message);
    if (status != QK_OK && status != QK_ERR_PARTIAL && *manifest &&
        !strstr(manifest, "\"complete\": false"))
        fail_msg("allocation %ld: failed, and the folder looks whole", n);
    free(manifest);
    free(now);
}

static void comparing(const char *a, const char *b, const char *earlier)
{
    qk_error err = {0};
    assert_int_equal(compare(a, b, false, &err), QK_OK);
    char *table = tree_text("out/compare.csv");
    assert_non_null(strstr(table, "r_q"));
    tree_remove(tree_path("out"));
    bool more = true;
    /* where a comparison is there already, each time costs a whole comparison more */
    for (long n = 0; more; n = next_failure(n, tier_is("test") ? 9 : 3) + (earlier ? 4 : 0)) {
        if (earlier)
            assert_int_equal(compare(earlier, earlier, true, &err), QK_OK);
        remaining = n;
        qk_status status = compare(a, b, true, &err);
        more = remaining < 0;
        remaining = -1;
        if (!earlier || status == QK_OK)
            check(status, &err, table, n);
        tree_remove(tree_path("out"));
    }
    free(table);
}

static void results(void **state)
{
    (void)state;
    make_capture("a", 1);
    make_capture("b", 2);
    for (int i = 0; i < 2; i++) {
        char from[512], to[512];
        qk_error err = {0};
        qk_analysis_settings s;
        qk_analysis_results *run;
        qk_analysis_settings_default(&s);
        snprintf(from, sizeof from, "%s", tree_path(i ? "b" : "a"));
        snprintf(to, sizeof to, "%s", tree_path(i ? "of-b" : "of-a"));
        s.capture = from;
        s.output = to;
        s.ci = 95;
        s.context.threads = 1;
        assert_int_equal(qk_analysis_run(&s, &run, &err), QK_OK);
        qk_analysis_results_free(&run);
    }
    comparing("of-a", "of-b", NULL);
    comparing("of-a", "of-b", "of-b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results)};
    json_set_alloc_funcs(__wrap_malloc, free); /* jansson is not linked with --wrap */
    return cmocka_run_group_tests_name("compare_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
