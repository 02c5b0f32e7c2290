/* SPDX-License-Identifier: Apache-2.0 */
/* An ablation when memory runs out at any moment: it is reported as such, its tables are all there or, as the manifest
 * says, not; and the same run goes on afterwards. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <jansson.h>

#include <qkscope/ablate.h>
#include <qkscope/analysis.h>
#include <qkscope/capture.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"
#include "tests/made_capture.h"

static const char *model_path;

/* Results of five layers, four heads each, as the model has them. */
static void make_results(void)
{
    char capture[512], results[512];
    qk_error err = {0};
    const made_capture made = {.layers = 5, .query_heads = 4};
    qk_analysis_settings a;
    qk_analysis_results *run;
    snprintf(capture, sizeof capture, "%s", tree_path("capture"));
    snprintf(results, sizeof results, "%s", tree_path("results"));
    assert_int_equal(make_made_capture(made, capture, &err), QK_OK);
    qk_analysis_settings_default(&a);
    a.capture = capture;
    a.output = results;
    a.context.threads = 1;
    a.model_name = "step-20";
    assert_int_equal(qk_analysis_run(&a, &run, &err), QK_OK);
    qk_analysis_results_free(&run);
}

static qk_status ablate(const char *output, qk_error *err)
{
    static int head[] = {1, 2};
    char to[512], results[512];
    qk_ablation_settings s;
    qk_ablation_outcome outcome;
    qk_settings_default(&qk_ablation_settings_table, &s);
    snprintf(to, sizeof to, "%s", tree_path(output));
    snprintf(results, sizeof results, "%s", tree_path("results"));
    s.recorder.model = model_path;
    s.recorder.texts = (const char *const[]){"repeat:4x2:2"};
    s.recorder.num_texts = 1;
    s.recorder.output = to;
    s.recorder.layers = (qk_index_list){head, 2};
    s.recorder.context.threads = 1;
    s.results = results;
    s.groups = (const char *const[]){"top 9 by -r_q", "layer", "each"};
    s.num_groups = 3;
    s.what = "remove,shuffle:4,freeze:slow,profile,mean";
    s.draws = 1;
    qk_status status = qk_ablation_run(&s, &outcome, err);
    assert_true(status != QK_OK || (outcome.complete && outcome.num_effects > 0));
    qk_ablation_outcome_free(&outcome);
    return status;
}

static void check(qk_status status, const qk_error *err, const char *right, long n)
{
    char *manifest = tree_text("out/manifest.json"),
         *table = tree_text("out/ablation_groups.csv");
    if (status == QK_OK && strcmp(table, right) != 0)
        fail_msg("allocation %ld: another table", n);
    if (status != QK_OK && !strstr(err->message, "memory"))
        fail_msg("allocation %ld: status %d, %s", n, (int)status, err->message);
    if (status != QK_OK && *manifest && !strstr(manifest, "\"complete\": false") &&
        strcmp(table, right) != 0)
        fail_msg("allocation %ld: failed, and the folder looks whole", n);
    free(manifest);
    free(table);
}

static void right_or_said(void **state)
{
    (void)state;
    qk_error err = {0};
    if (under_valgrind()) /* it takes a function call for each fused multiplication of the model */
        skip();
    make_results();
    if (ablate("whole", &err) != QK_OK)
        fail_msg("%s", err.message);
    char *right = tree_text("whole/ablation_groups.csv");
    assert_non_null(strstr(right, "top 9 by -r_q"));
    bool more = true;
    long failed = 0;
    for (long n = 0; more; n = next_failure(n, 3)) {
        remaining = n;
        qk_status status = ablate("out", &err);
        more = remaining < 0;
        remaining = -1;
        failed += status != QK_OK;
        check(status, &err, right, n);
        if (n % 2) /* else what is there is gone on with */
            tree_remove(tree_path("out"));
    }
    assert_true(failed > 50);
    assert_int_equal(ablate("out", &err), QK_OK);
    check(QK_OK, &err, right, -1);
    free(right);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    model_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(right_or_said)};
    json_set_alloc_funcs(__wrap_malloc, free); /* jansson is not linked with --wrap */
    return cmocka_run_group_tests_name("ablation_memory", tests, tree_setup_in_memory,
                                       tree_teardown);
}
