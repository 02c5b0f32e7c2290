/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of a run in memory, by name: those of its files, and nothing is written. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <math.h>
#include <string.h>

#include <qkscope/capture.h>
#include <qkscope/results.h>

#include "base/csv_reader.h"
#include "schema/schema.h"
#include "tests/base/tree.h"
#include "tests/made_capture.h"

static qk_analysis_settings settings_of(const char *output)
{
    static char capture[512], folder[512];
    qk_analysis_settings s;
    snprintf(capture, sizeof capture, "%s", tree_path("capture"));
    qk_analysis_settings_default(&s);
    s.capture = capture;
    s.context.threads = 2;
    s.analyses = QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY;
    s.rotation.planes = 2;
    if (output) {
        snprintf(folder, sizeof folder, "%s", tree_path(output));
        s.output = folder;
    }
    return s;
}

static int make(void **state)
{
    const made_capture made = {.layers = 2,
                               .query_heads = 4,
                               .dim = 8,
                               .rows = 40,
                               .texts = 5,
                               .buckets = 16,
                               .window = 300,
                               .model = "a, \"model\"",
                               .extra = "{\"rope_frequencies\": [1, 0.1]}"};
    if (tree_setup(state) != 0)
        return 1;
    return make_made_capture(made, tree_path("capture"), NULL) == QK_OK ? 0 : 1;
}

static qk_analysis_results *run(const qk_analysis_settings *settings)
{
    qk_analysis_results *report;
    qk_error err;
    if (qk_analysis_run(settings, &report, &err) != QK_OK)
        fail_msg("%s", err.message);
    return report;
}

/* A column against the same one of a file, whose numbers have as many digits as they need. */
static void compare_column(qk__csv_reader *reader, const qk_columns *columns, size_t c)
{
    const qk_column_info *info = qk_columns_info(columns, c);
    assert_non_null(info);
    assert_string_equal(qk__reader_column_name(reader, c), info->name);
    const double *reals = qk_columns_reals(columns, info->name);
    const int64_t *integers = qk_columns_integers(columns, info->name);
    const char *const *texts = qk_columns_texts(columns, info->name);
    assert_int_equal(!!reals + !!integers + !!texts, 1);
    for (size_t i = 0; i < qk_columns_num_rows(columns); i++) {
        qk__reader_go(reader, i);
        const char *text = qk__reader_text(reader, c);
        double number = NAN;
        if (!texts)
            assert_int_equal(qk__reader_number(reader, c, &number, NULL), QK_OK);
        if (texts)
            assert_string_equal(texts[i], text);
        else if (integers)
            assert_true((double)integers[i] == (*text ? number : 0));
        else
            assert_true(reals[i] == number || (isnan(reals[i]) && *text == 0));
    }
}

static size_t compare_table(const qk_analysis_results *report, const char *folder,
                            const char *name)
{
    qk_columns *columns;
    qk__csv_reader *reader;
    size_t loaded;
    char file[100];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    assert_int_equal(qk__reader_open(&reader, tree_path(file), NULL), QK_OK);
    assert_int_equal(qk__reader_load(reader, &loaded, NULL), QK_OK);
    assert_int_equal(qk_results_table(report, name, &columns, NULL), QK_OK);
    size_t rows = qk_columns_num_rows(columns), count = qk__reader_num_columns(reader);
    assert_int_equal(rows, loaded);
    for (size_t c = 0; c < count; c++)
        compare_column(reader, columns, c);
    assert_null(qk_columns_info(columns, count));
    qk_columns_free(&columns);
    assert_null(columns);
    qk_columns_free(&columns);
    qk__reader_close(&reader);
    return rows;
}

/* Every file that the same run writes, without and with intervals. */
static void the_numbers_of_the_files(void **state)
{
    (void)state;
    for (int ci = 0; ci < 2; ci++) {
        const char *folder = ci ? "with" : "without";
        qk_analysis_settings settings = settings_of(folder);
        settings.ci = ci ? 95 : 0;
        qk_analysis_results *written = run(&settings);
        settings.output = NULL;
        qk_analysis_results *report = run(&settings);
        assert_int_equal(report->num_outputs, 0);
        size_t tables = 0;
        for (size_t i = 0; i < written->num_outputs; i++) {
            const char *name = written->outputs[i];
            if (strstr(name, ".json"))
                continue;
            tables++;
            assert_true(compare_table(report, folder, name) > 0);
        }
        assert_int_equal(tables, ci ? 11 : 10);
        qk_analysis_results_free(&written);
        qk_analysis_results_free(&report);
    }
}

static void kinds_by_themselves(void **state)
{
    (void)state;
    qk_analysis_settings settings = settings_of("kinds");
    settings.analyses = QK_ANALYSE_PCA;
    settings.combined = false;
    qk_analysis_results *written = run(&settings);
    settings.output = NULL;
    qk_analysis_results *report = run(&settings);
    assert_true(compare_table(report, "kinds", "correlations.csv") > 0);
    assert_memory_equal(&report->high, &written->high, sizeof report->high);
    assert_true(report->high.heads > 0);
    qk_analysis_results_free(&written);
    qk_analysis_results_free(&report);
}

/* The table's texts are its own. */
static void the_results_may_go(void **state)
{
    (void)state;
    qk_analysis_settings settings = settings_of(NULL);
    qk_columns *columns;
    qk_analysis_results *report = run(&settings);
    assert_int_equal(qk_results_table(report, "qk.csv", &columns, NULL), QK_OK);
    memset(report->model, '?', strlen(report->model));
    qk_analysis_results_free(&report);
    size_t last = qk_columns_num_rows(columns) - 1;
    assert_string_equal(qk_columns_texts(columns, "model")[0], "a, \"model\"");
    assert_string_equal(qk_columns_texts(columns, "model")[last], "a, \"model\"");
    qk_columns_free(&columns);
}

static void what_is_not_there(void **state)
{
    (void)state;
    qk_analysis_settings settings = settings_of(NULL);
    qk_columns *columns;
    qk_error err;
    settings.analyses = QK_ANALYSE_ROTATION;
    settings.rotation.planes = 0;
    qk_analysis_results *report = run(&settings);
    static const char *const none[] = {"qk.csv",       "complement.csv", "correlations.csv",
                                       "summary.json", "models.csv",     "",
                                       "rotated.cs",   "rotate"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        columns = (qk_columns *)&settings;
        assert_int_equal(qk_results_table(report, none[i], &columns, &err), QK_ERR_NOT_FOUND);
        assert_null(columns);
        assert_non_null(strstr(err.message, none[i]));
    }
    assert_int_equal(qk_results_table(report, "rotated", &columns, &err), QK_OK);
    assert_int_equal(qk_columns_num_rows(columns), 8);
    assert_non_null(qk_columns_reals(columns, "bias_strength"));
    assert_null(qk_columns_reals(columns, "bias_strength_lo")); /* no intervals */
    assert_null(qk_columns_reals(columns, "layer"));
    assert_null(qk_columns_integers(columns, "bias_strength"));
    assert_null(qk_columns_texts(columns, "no such"));
    qk_columns_free(&columns);
    qk_analysis_results_free(&report);
}

static void the_schema(void **state)
{
    (void)state;
    const qk_table_info *table = qk_schema_find("heads");
    assert_ptr_equal(table, qk_schema_find("heads.csv"));
    assert_string_equal(table->name, "heads.csv");
    assert_null(qk_schema_find("head"));
    assert_null(qk_schema_table(SIZE_MAX));
    assert_string_equal(qk_table_column(table, 0)->name, "model");
    assert_null(qk_table_column(table, SIZE_MAX));
    assert_null(qk_table_column(qk_schema_find("summary.json"), 0));
    assert_string_equal(qk_schema_suggest("bias_strenght"), "bias_strength");
    assert_string_equal(qk_schema_suggest("rotated.cvs"), "rotated.csv");
    assert_null(qk_schema_suggest("something else"));
    char name[1000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    assert_null(qk_schema_suggest(name));
    char *json = qk_schema_json();
    assert_non_null(strstr(json, "\"bias_strength_hi\""));
    free(json);
}

static void numbers_of_a_head(void **state)
{
    (void)state;
    assert_true(qk__num_fields > 50);
    for (size_t i = 0; i < qk__num_fields; i++) {
        const qk__field *field = &qk__fields[i];
        assert_ptr_equal(qk__find_field(field->info.name), field); /* no two of one name */
        assert_non_null(qk__find_table(field->file));
        if (field->use != QK__LISTED)
            assert_in_range(strlen(field->info.label), 5, 70);
    }
    assert_null(qk__find_field(""));
    assert_null(qk__find_field("R_Q"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_numbers_of_the_files),
        cmocka_unit_test(kinds_by_themselves),
        cmocka_unit_test(the_results_may_go),
        cmocka_unit_test(what_is_not_there),
        cmocka_unit_test(the_schema),
        cmocka_unit_test(numbers_of_a_head),
    };
    return cmocka_run_group_tests_name("columns", tests, make, tree_teardown);
}
