/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files: what is read, and what is refused with which words. */
#define _XOPEN_SOURCE 700 /* mkdtemp, setenv */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <qkscope/analysis.h>

#include "tests/base/tree.h"

static qk_config *load(const char *text)
{
    qk_config *config;
    qk_error err = {0};
    tree_add("c.yaml", text);
    if (qk_config_load(&config, tree_path("c.yaml"), &err) != QK_OK)
        fail_msg("%s", err.message);
    return config;
}

/* The file is refused, and the message names the file and says these words. */
static void refuse_file(qk_status status, const char *const *words)
{
    qk_config *config;
    qk_error err = {0};
    assert_int_equal(qk_config_load(&config, tree_path("c.yaml"), &err), status);
    assert_null(config);
    assert_non_null(strstr(err.message, "c.yaml"));
    for (; *words; words++)
        if (!strstr(err.message, *words))
            fail_msg("no \"%s\" in: %s", *words, err.message);
}

static void refuse(const char *text, const char *const *words)
{
    tree_add("c.yaml", text);
    refuse_file(QK_ERR_ARGUMENT, words);
}
#define WORDS(...)        ((const char *const[]){__VA_ARGS__, NULL})
#define REFUSE(text, ...) refuse(text, WORDS(__VA_ARGS__))
#define NAME              "data: {dataset_name: org/name}\n"

static bool has_note(const qk_config *config, const char *word)
{
    for (size_t i = 0; i < qk_config_num_notes(config); i++)
        if (strstr(qk_config_note(config, i), word))
            return true;
    return false;
}

static void test_minimal(void **state)
{
    (void)state;
    qk_config *config = load(NAME);
    const qk_analysis_settings *s = qk_config_settings(config);
    qk_analysis_settings defaults;
    qk_analysis_settings_default(&defaults);
    assert_string_equal(s->capture, "org/name");
    assert_string_equal(s->output, "results");
    assert_false(s->combined);
    assert_int_equal(s->kinds, QK_KINDS_BOTH);
    assert_int_equal(s->context.threads, 0);
    assert_int_equal(s->pca.components, defaults.pca.components);
    assert_null(s->prefix);
    assert_null(s->revision);
    assert_null(s->model_name);
    assert_int_equal(qk_config_num_notes(config), 0);
    qk_config_free(&config);
    assert_null(config);
    qk_config_free(&config);
}

static void test_everything(void **state)
{
    (void)state;
    qk_config *config = load("# a comment\n"
                             "data:\n"
                             "  dataset_name: 'org/name'\n"
                             "  revision: v1\n"
                             "  local_root: /data\n"
                             "  split: train\n"
                             "  kinds: [k]\n"
                             "  layers: [3, 1, 3, 0]\n"
                             "  heads: \"0,5-7\"\n"
                             "  max_samples: 5000000000\n"
                             "  sample_heads: 300\n"
                             "  seed: -7\n"
                             "  q_per_kv_group: 4\n"
                             "pca:\n"
                             "  n_components: 5\n"
                             "  backend: torch\n"
                             "analysis:\n"
                             "  correlation_threshold: 0.25\n"
                             "  combined: false\n"
                             "  parallel:\n"
                             "    enabled: true\n"
                             "    max_workers: 6\n"
                             "    backend: process\n"
                             "output:\n"
                             "  results_dir: out\n"
                             "  model_name: Model 1B\n"
                             "device: cuda\n");
    const qk_analysis_settings *s = qk_config_settings(config);
    assert_string_equal(s->revision, "v1");
    assert_string_equal(s->local_root, "/data");
    assert_string_equal(s->prefix, "train");
    assert_int_equal(s->kinds, QK_KINDS_K);
    assert_int_equal(s->layers.count, 3);
    assert_int_equal(s->layers.items[2], 3);
    assert_int_equal(s->heads.count, 2);
    assert_int_equal(s->heads.items[1].last_head, 7);
    assert_true(s->max_samples == 5000000000);
    assert_int_equal(s->sample_heads, 300);
    assert_int_equal(s->seed, -7);
    assert_int_equal(s->q_per_kv_group, 4);
    assert_int_equal(s->pca.components, 5);
    assert_true(s->correlation_threshold == 0.25);
    assert_int_equal(s->context.threads, 6);
    assert_string_equal(s->output, "out");
    assert_string_equal(s->model_name, "Model 1B");
    assert_int_equal(qk_config_num_notes(config), 3);
    assert_true(has_note(config, "pca.backend: torch"));
    assert_true(has_note(config, "analysis.parallel.backend: process"));
    assert_true(has_note(config, "device: cuda"));
    qk_config_free(&config);
}

/* As published files have it: null is "not given". */
static void test_nulls(void **state)
{
    (void)state;
    qk_config *config = load("data:\n  dataset_name: x\n  split: null\n  layers: ~\n  heads:\n"
                             "  max_samples: Null\n  seed: NULL\npca: null\nanalysis:\n"
                             "  parallel: {enabled: null, max_workers: null}\n"
                             "  correlation_threshold: null\n"
                             "output:\n  results_dir: null\ndevice: null\n");
    const qk_analysis_settings *s = qk_config_settings(config);
    assert_null(s->prefix);
    assert_int_equal(s->layers.count, 0);
    assert_int_equal(s->context.threads, 0);
    assert_true(s->correlation_threshold == 0.3);
    assert_string_equal(s->output, "results");
    assert_int_equal(qk_config_num_notes(config), 0);
    qk_config_free(&config);
    config = load("data: {dataset_name: x, split: 'null'}\n");
    assert_string_equal(qk_config_settings(config)->prefix, "null");
    qk_config_free(&config);
    REFUSE("data: {dataset_name: null}\n", "data.dataset_name is missing");
}

static void test_combined_and_parallel(void **state)
{
    (void)state;
    qk_config *config = load("data: {dataset_name: x, kinds: [q]}\n"
                             "analysis: {combined: yes, parallel: {max_workers: 8, "
                             "enabled: off}}\n");
    const qk_analysis_settings *s = qk_config_settings(config);
    assert_true(s->combined);
    assert_int_equal(s->context.threads, 1);
    assert_true(has_note(config, "data.kinds has no effect"));
    qk_config_free(&config);
    config = load("data: {dataset_name: x, kinds: [q, k]}\nanalysis: {parallel: {enabled: "
                  "true}}\n");
    s = qk_config_settings(config);
    assert_int_equal(s->kinds, QK_KINDS_BOTH);
    assert_int_equal(s->context.threads, 0);
    qk_config_free(&config);
}

static void test_variables(void **state)
{
    (void)state;
    setenv("QK_T_ROOT", "/data/x", 1);
    setenv("QK_T_N", "12", 1);
    unsetenv("QK_T_UNSET");
    qk_config *config = load("data:\n  dataset_name: ${QK_T_ROOT}/cap\n  seed: $QK_T_N\n"
                             "  revision: $QK_T_UNSET\n");
    const qk_analysis_settings *s = qk_config_settings(config);
    assert_string_equal(s->capture, "/data/x/cap");
    assert_string_equal(s->revision, "$QK_T_UNSET");
    assert_int_equal(s->seed, 12);
    qk_config_free(&config);
}

static void test_other_analyses(void **state)
{
    (void)state;
    qk_config *config = load(NAME "analysis: {ci: 90}\n"
                                  "rotation: {b_axis: centroid, complement_pairs: 12}\n"
                                  "plasticity: {max_pairs: 0, bucket_width: 64.5}\n");
    const qk_analysis_settings *s = qk_config_settings(config);
    assert_true(s->ci == 90);
    assert_true(s->rotation.b_axis == QK_B_CENTROID && s->rotation.planes == 12);
    assert_true(s->plasticity.bucket_width == 64.5 && s->plasticity.max_pairs == 0);
    qk_config_free(&config);
}

/* What any file of keys and values may have wrong is in tests/yaml/test_tree.c. */
static void test_refused(void **state)
{
    (void)state;
    REFUSE(NAME "analysis:\n  combine: true\n", "line 3", "did you mean analysis.combined?");
    REFUSE(NAME "n_components: 3\n", "line 2: unknown key n_components", "pca.n_components");
    REFUSE(NAME "<<: {device: x}\n", "unknown key <<");
    REFUSE(NAME NAME, "line 2: data is given twice");
    REFUSE("data: org/name\n", "line 1: data: expected keys and values");
    REFUSE("just text\n", "the file: expected");
    REFUSE("data: {dataset_name: [x]}\n", "data.dataset_name: expected a text, found a list");
    REFUSE(NAME "pca: {n_components: ten}\n", "line 2: pca.n_components: expected a whole",
           "from 1 to 4096", "found \"ten\"");
    REFUSE(NAME "pca: {n_components: 5000}\n", "n_components");
    REFUSE(NAME "pca: {n_components: 99999999999999999999999}\n", "n_components");
    REFUSE(NAME "pca: {backend: numpy}\n", "sklearn or torch", "numpy");
    REFUSE("data: {dataset_name: x, seed: 9223372036854775808}\n", "data.seed");
    REFUSE("data: {dataset_name: x, kinds: [v]}\n", "data.kinds: expected q or k, found \"v\"");
    REFUSE("data: {dataset_name: x, kinds: []}\n", "data.kinds: an empty list");
    REFUSE("data: {dataset_name: x, layers: [1, -2]}\n", "data.layers", "\"-2\"");
    REFUSE("data: {dataset_name: x, layers: 5-3}\n", "data.layers", "backwards");
    REFUSE(NAME "rotation:\n  b_axis: b\n", "line 3", "expected pairs or centroid", "\"b\"");
    REFUSE(NAME "analysis: {combined: maybe}\n", "analysis.combined: expected true or false");
    REFUSE(NAME "analysis: {correlation_threshold: nan}\n", "number from 0 to 1");
    REFUSE(NAME "analysis: {ci: 100}\n", "analysis.ci");
    REFUSE(NAME "analysis: {parallel: {max_workers: -1}}\n", "max_workers");
}

static void test_not_yaml(void **state)
{
    (void)state;
    REFUSE("# only a comment\n", "nothing in it");
    REFUSE("data: {dataset_name: x\n", "line ");
    REFUSE("data:\n\tdataset_name: x\n", "line 2");
    REFUSE(NAME "---\n" NAME, "second YAML document");
    REFUSE("\x01\x02\x03", "c.yaml");
    REFUSE("data: \xff\xfe\n", "byte");
}

/* Aliases are links, so a "bomb" is as small as its text; a list in itself ends. */
static void test_aliases(void **state)
{
    (void)state;
    qk_config *config = load("data: {dataset_name: &n x, revision: *n, layers: &l [2, 1],\n"
                             "       heads: *l}\n");
    assert_string_equal(qk_config_settings(config)->revision, "x");
    assert_int_equal(qk_config_settings(config)->heads.count, 2);
    qk_config_free(&config);
    char bomb[4000] = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
    for (int i = 1; i < 30; i++) {
        char line[120];
        snprintf(line, sizeof line, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i,
                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
        strcat(bomb, line);
    }
    REFUSE(bomb, "unknown key a0");
    REFUSE("data: {dataset_name: x, layers: &l [1, *l]}\n", "data.layers");
    REFUSE("data: &d {dataset_name: x, kinds: *d}\n", "data.kinds");
}

static void write_many(const char *head, const char *unit, size_t count, const char *tail)
{
    FILE *file = fopen(tree_path("c.yaml"), "w");
    assert_non_null(file);
    fputs(head, file);
    for (size_t i = 0; i < count; i++)
        fputs(unit, file);
    fputs(tail, file);
    fclose(file);
}

static void test_large(void **state)
{
    (void)state;
    write_many("", "# 32 bytes of nothing at all....\n", 320000, NAME);
    refuse_file(QK_ERR_MALFORMED, WORDS("more than the 262144 allowed"));
    write_many("data: ", "[", 200000, "\n");
    refuse_file(QK_ERR_ARGUMENT, WORDS("nested more than"));
    write_many("data: ", "{a: ", 60000, "\n");
    refuse_file(QK_ERR_ARGUMENT, WORDS("nested more than"));
    write_many("data: [", "&a 1,", 50000, "1]\n");
    refuse_file(QK_ERR_ARGUMENT, WORDS("more than 1000 anchors"));
    write_many("data: {dataset_name: x, layers: [", "1,", 100000, "2]}\n");
    qk_config *config;
    assert_int_equal(qk_config_load(&config, tree_path("c.yaml"), NULL), QK_OK);
    assert_int_equal(qk_config_settings(config)->layers.count, 2);
    qk_config_free(&config);
    char value[30000];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = 0;
    setenv("QK_T_LONG", value, 1);
    write_many("data: {dataset_name: x}\n# ", "$QK_T_LONG", 10, "\n");
    refuse_file(QK_ERR_MALFORMED, WORDS("variables"));
    unlink(tree_path("c.yaml"));
    refuse_file(QK_ERR_NOT_FOUND, WORDS("c.yaml"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, tree_setup, tree_teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_minimal),   TEST(test_everything),
        TEST(test_nulls),     TEST(test_combined_and_parallel),
        TEST(test_variables), TEST(test_other_analyses),
        TEST(test_refused),   TEST(test_not_yaml),
        TEST(test_aliases),   TEST(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
