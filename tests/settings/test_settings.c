/* SPDX-License-Identifier: Apache-2.0 */
/* Settings by name, as a program of another language has them. */
#include "tests/unit.h"

#include <stdio.h>
#include <string.h>

#include <qkscope/qkscope.h>

static qk_settings *make(const qk_settings_table *table, const char *command)
{
    qk_settings *s;
    assert_int_equal(qk_settings_new(&s, table, command, NULL), QK_OK);
    return s;
}

static void has_text(const qk_settings *s, const char *name, const char *expected)
{
    char text[100];
    assert_int_equal(qk_settings_get(s, name, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
}

static void set(qk_settings *s, const char *name, const char *text)
{
    qk_error err = {0};
    if (qk_settings_set(s, name, text, &err) != QK_OK)
        fail_msg("%s %s: %s", name, text, err.message);
}

static void refuse(qk_settings *s, const char *name, const char *text, const char *words)
{
    qk_error err = {0};
    assert_int_equal(qk_settings_set(s, name, text, &err), QK_ERR_ARGUMENT);
    if (!strstr(err.message, words))
        fail_msg("no \"%s\" in: %s", words, err.message);
    assert_false(qk_settings_given(s, name));
}

static void test_set_and_get(void **state)
{
    (void)state;
    qk_settings *s = make(&qk_analysis_settings_table, "analyze");
    qk_analysis_settings *v = qk_settings_values(s);
    set(s, "components", "20");
    set(s, "max-pairs", "1e6");
    set(s, "taxonomy-low", "0.25");
    set(s, "b-axis", "centroid");
    set(s, "layers", "0,2,5-7");
    set(s, "layers", "1,3");
    set(s, "lda", "true");
    set(s, "buckets", "capture");
    set(s, "model-name", "Model 1B");
    set(s, "ci", "95");
    assert_int_equal(v->pca.components, 20);
    assert_int_equal(v->plasticity.max_pairs, 1000000);
    assert_true(v->pca.low == 0.25);
    assert_int_equal(v->rotation.b_axis, QK_B_CENTROID);
    assert_int_equal(v->layers.count, 2);
    assert_int_equal(v->buckets, QK_BUCKETS_CAPTURE);
    assert_string_equal(v->model_name, "Model 1B");
    has_text(s, "components", "20");
    has_text(s, "taxonomy-low", "0.25");
    has_text(s, "b-axis", "centroid");
    has_text(s, "layers", "1,3");
    has_text(s, "lda", "true");
    has_text(s, "buckets", "capture");
    has_text(s, "ci", "95");
    assert_int_equal(qk_settings_set(s, "lda", "maybe", NULL), QK_ERR_ARGUMENT);
    has_text(s, "lda", "true"); /* what is refused changes nothing */
    has_text(s, "bucket-width", "");
    has_text(s, "heads", "");
    assert_true(qk_settings_given(s, "ci"));
    assert_false(qk_settings_given(s, "heads"));
    qk_settings_free(&s);
    assert_null(s);
    qk_settings_free(&s);
}

static void test_refused(void **state)
{
    (void)state;
    qk_settings *s = make(&qk_analysis_settings_table, "analyze");
    refuse(s, "components", "0", "from 1 to 4096");
    refuse(s, "components", "ten", "from 1 to 4096");
    refuse(s, "b-axis", "both", "pairs or centroid");
    refuse(s, "buckets", "1", "2 to 1024, or capture");
    refuse(s, "ci", "0.95", "did you mean 95");
    refuse(s, "lda", "yes", "true or false");
    refuse(s, "layers", "1,,2", "1,,2");
    refuse(s, "output", "--json", "./--json");
    refuse(s, "output", "", "expected a path");
    assert_int_equal(qk_settings_set(s, "colour", "red", NULL), QK_ERR_NOT_FOUND);
    assert_int_equal(qk_settings_set(s, "threshold", "0.5", NULL), QK_ERR_NOT_FOUND);
    qk_settings_free(&s);
}

/* A command's own rows hide those of the structs in its struct. */
static void test_rows_of_a_command(void **state)
{
    (void)state;
    qk_settings *s = make(&qk_scatter_settings_table, "scatter");
    const qk_scatter_settings *v = qk_settings_values(s);
    set(s, "output", "figures");
    set(s, "format", "svg,pdf");
    set(s, "seed", "7");
    assert_string_equal(v->output, "figures");
    assert_null(v->input.output);
    assert_int_equal(v->figures.formats, QK_FIGURE_SVG | QK_FIGURE_PDF);
    assert_int_equal(v->input.seed, 7);
    refuse(s, "theme", "light", "paper, screen or dark");
    for (size_t i = 0; i < qk_settings_count(s); i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(qk_settings_row(s, i)->name, qk_settings_row(s, k)->name);
    qk_settings_free(&s);
}

static void test_paths(void **state)
{
    (void)state;
    qk_settings *s = make(&qk_recorder_settings_table, "capture");
    const qk_recorder_settings *v = qk_settings_values(s);
    char name[8];
    for (int i = 0; i < 10; i++) {
        snprintf(name, sizeof name, "%d.txt", i);
        set(s, "text", name);
    }
    assert_int_equal(v->num_texts, 10);
    assert_string_equal(v->texts[9], "9.txt");
    set(s, "sampler", "ALL");
    has_text(s, "sampler", "all");
    qk_settings_free(&s);
}

/* Every table: each row has what help needs, its default is allowed, and reads back as itself. */
static void check_table(const qk_settings_table *table)
{
    qk_settings *s = make(table, NULL), *again = make(table, NULL);
    for (size_t i = 0; i < qk_settings_count(s); i++) {
        const qk_setting *row = qk_settings_row(s, i);
        char text[200], after[200];
        assert_non_null(row->section);
        assert_true(row->help || row->off_help);
        assert_true(row->type == QK_SETTING_FLAG || row->type == QK_SETTING_CHOICE ||
                    row->value);
        qk_settings_get(s, row->name, text, sizeof text);
        if (!*text || row->number < row->min)
            continue;
        set(again, row->name, text);
        qk_settings_get(again, row->name, after, sizeof after);
        assert_string_equal(after, text);
    }
    qk_settings_free(&again);
    qk_settings_free(&s);
}

static void test_all_tables(void **state)
{
    (void)state;
    const qk_settings_table *const tables[] = {
        &qk_analysis_settings_table, &qk_recorder_settings_table, &qk_scatter_settings_table,
        &qk_report_settings_table,   &qk_study_settings_table,    &qk_inspect_settings_table,
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        check_table(tables[i]);
}

static void test_text_is_cut_off(void **state)
{
    (void)state;
    qk_settings *s = make(&qk_analysis_settings_table, NULL);
    char text[4];
    set(s, "layers", "10-12");
    assert_int_equal(qk_settings_get(s, "layers", text, sizeof text), strlen("10,11,12"));
    assert_string_equal(text, "10,");
    assert_int_equal(qk_settings_get(s, "layers", NULL, 0), strlen("10,11,12"));
    assert_int_equal(qk_settings_get(s, "colour", text, sizeof text), 0);
    assert_string_equal(text, "");
    qk_settings_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_and_get),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_rows_of_a_command), cmocka_unit_test(test_paths),
        cmocka_unit_test(test_all_tables),        cmocka_unit_test(test_text_is_cut_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
