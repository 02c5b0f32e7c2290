/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out at any moment while a file of settings is read: it is said, and nothing
 * is left behind. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <jansson.h>

#include <qkscope/analysis.h>
#include <qkscope/recorder.h>
#include <qkscope/study.h>

#include "tests/base/tree.h"
#include "tests/failing_memory.h"

typedef qk_status load_fn(const char *path, qk_error *err);

static qk_status load_config(const char *path, qk_error *err)
{
    qk_config *config;
    qk_status status = qk_config_load(&config, path, err);
    qk_config_free(&config);
    return status;
}

static qk_status load_plan(const char *path, qk_error *err)
{
    qk_study *plan;
    qk_status status = qk_study_load(&plan, path, err);
    qk_study_free(&plan);
    return status;
}

static qk_status load_record(const char *path, qk_error *err)
{
    qk_recorder_config *config;
    qk_status status = qk_recorder_config_load(&config, path, err);
    qk_recorder_config_free(&config);
    return status;
}

static void try_all(load_fn *load, const char *text)
{
    long tried = 0;
    tree_add("c.yaml", text);
    for (bool more = true; more; tried++) {
        qk_error err = {0};
        remaining = tried;
        qk_status status = load(tree_path("c.yaml"), &err);
        more = remaining < 0;
        remaining = -1;
        assert_int_equal(status, more ? QK_ERR_NOMEM : QK_OK);
        if (more && !strstr(err.message, "out of memory"))
            fail_msg("allocation %ld: %s", tried, err.message);
    }
    assert_true(tried > 20);
}

static void test_config(void **state)
{
    (void)state;
    try_all(load_config,
            "data: {dataset_name: &n x, layers: [1, 2], heads: \"0,5-7\", kinds: [q]}\n"
            "pca: {backend: torch}\ndevice: cuda\nanalysis: {combined: yes}\n");
}

static void test_study(void **state)
{
    (void)state;
    try_all(load_plan, "title: x\nmodels:\n- {name: a, source: a}\n"
                       "- {name: b, source: {dataset: x/y, revision: z}}\n"
                       "analyses: [pca]\ndata: {local_root: d, layers: [1]}\nscores: s.csv\n"
                       "figures: {formats: [svg], collage: {heads: '0:1'}}\n");
}

static void test_record(void **state)
{
    (void)state;
    try_all(load_record, "dataset: {path: x, streaming: yes}\ntokenizer:\noutput:\n"
                         "model: {name: y, config_overrides: {rope_theta: 1e4, a: [b, 2]}}\n"
                         "inference: {batch_size: 4}\ncapture: {layers: [], heads: [3, 4]}\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup_in_memory, tree_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_config),
        TEST(test_study),
        TEST(test_record),
    };
    json_set_alloc_funcs(__wrap_malloc, free); /* jansson is not linked with --wrap */
    return cmocka_run_group_tests_name("settings_memory", tests, NULL, NULL);
}
