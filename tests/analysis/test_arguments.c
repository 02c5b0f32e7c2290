/* SPDX-License-Identifier: Apache-2.0 */
/* Settings out of range are errors before anything is read. */
#include "tests/unit.h"

#include <math.h>
#include <string.h>

#include <qkscope/analysis.h>
#include <qkscope/study.h>

static void refuses(const qk_analysis_settings *settings, const char *words)
{
    qk_analysis_results *report = (void *)1;
    qk_error err = {0};
    assert_int_equal(qk_analysis_run(settings, &report, &err), QK_ERR_ARGUMENT);
    if (!strstr(err.message, words))
        fail_msg("'%s' is not in '%s'", words, err.message);
    assert_null(report);
}

#define REFUSES(field, value, words)                                                           \
    do {                                                                                       \
        qk_analysis_settings s_ = good;                                                        \
        s_.field = (value);                                                                    \
        refuses(&s_, words);                                                                   \
    } while (0)

static void settings_out_of_range(void **state)
{
    (void)state;
    qk_analysis_settings good;
    qk_analysis_settings_default(&good);
    good.capture = "/nonexistent/capture";
    good.output = "/nonexistent/output";
    qk_analysis_results *report;
    qk_error err;
    assert_int_equal(qk_analysis_run(&good, &report, &err), QK_ERR_NOT_FOUND);
    REFUSES(capture, NULL, "no capture");
    REFUSES(analyses, 0, "analysis");
    REFUSES(analyses, 64, "analysis");
    REFUSES(max_samples, -1, "max-samples");
    REFUSES(from_position, -1, "from-position");
    REFUSES(sample_heads, -1, "sample-heads");
    REFUSES(context.threads, -1, "threads");
    REFUSES(kinds, (qk_kinds)0, "kinds");
    REFUSES(kinds, (qk_kinds)4, "kinds");
    REFUSES(ci, -1, "ci -1: expected a percentage");
    REFUSES(ci, NAN, "percentage");
    REFUSES(pca.low, NAN, "taxonomy");
    REFUSES(pca.low, 0.9, "taxonomy");
    REFUSES(pca.high, 1.5, "taxonomy");
    REFUSES(correlation_threshold, NAN, "threshold");
    REFUSES(rotation.planes, -1, "pairs");
    REFUSES(rotation.b_axis, (qk_b_axis)7, "axis");
    REFUSES(plasticity.max_pairs, -1, "pairs");
    REFUSES(plasticity.ks_alpha, NAN, "ks-alpha");
    REFUSES(plasticity.bucket_width, INFINITY, "width");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(settings_out_of_range)};
    return cmocka_run_group_tests_name("arguments", tests, NULL, NULL);
}
