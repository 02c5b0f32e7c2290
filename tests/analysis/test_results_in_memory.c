/* SPDX-License-Identifier: Apache-2.0 */
/* Results taken from a run in memory are, bit by bit, those read from the tables it wrote. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include "tests/unit.h"

#include <math.h>

#include <qkscope/analysis.h>
#include <qkscope/capture.h>

#include "results/read_results.h"
#include "tests/base/tree.h"
#include "tests/made_capture.h"

/* Equal bits; what is not there is NaN on both sides, whichever NaN. */
static void expect_equal(double a, double b)
{
    if (isnan(a) && isnan(b))
        return;
    assert_memory_equal(&a, &b, sizeof a);
}

static void expect_equal_list(const double *a, const double *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect_equal(a[i], b[i]);
}

static void expect_same_head(const qk__result_head *a, const qk__result_head *b)
{
    assert_int_equal(a->layer, b->layer);
    assert_int_equal(a->q_head, b->q_head);
    assert_int_equal(a->k_head, b->k_head);
    assert_int_equal(a->category, b->category);
    expect_equal(a->depth, b->depth);
    expect_equal(a->n_q, b->n_q);
    expect_equal(a->n_k, b->n_k);
    for (size_t i = 0; i < qk__num_fields; i++)
        expect_equal(qk__field_value(&qk__fields[i], &a->v),
                     qk__field_value(&qk__fields[i], &b->v));
    assert_int_equal(a->num_pcs, b->num_pcs);
    expect_equal_list(a->pc_ev, b->pc_ev, a->num_pcs);
    expect_equal_list(a->pc_r_q, b->pc_r_q, a->num_pcs);
    expect_equal_list(a->pc_r_k, b->pc_r_k, a->num_pcs);
    assert_int_equal(a->num_profile, b->num_profile);
    expect_equal_list(a->profile_position, b->profile_position, a->num_profile);
    expect_equal_list(a->profile_ap, b->profile_ap, a->num_profile);
    for (size_t i = 0; i < a->num_profile; i++)
        assert_int_equal(a->profile_bucket[i], b->profile_bucket[i]);
}

static void expect_same_model(const qk__result_model *a, const qk__result_model *b)
{
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->last_layer, b->last_layer);
    assert_int_equal(a->num_heads, b->num_heads);
    for (size_t h = 0; h < a->num_heads; h++)
        expect_same_head(&a->heads[h], &b->heads[h]);
    const qk__distance_map *m = &a->distances, *n = &b->distances;
    assert_int_equal(m->columns, n->columns);
    assert_int_equal(m->rows, n->rows);
    expect_equal(m->bucket_width, n->bucket_width);
    expect_equal_list(m->ap, n->ap, m->columns * m->rows);
    expect_equal_list(m->pairs, n->pairs, m->columns * m->rows);
    assert_int_equal(a->num_components, b->num_components);
    expect_equal_list(a->component_weights, b->component_weights, a->num_components);
}

static void make_capture(const char *folder)
{
    qk_error err;
    const made_capture made = {.layers = 2,
                               .dim = 8,
                               .rows = 24,
                               .texts = 12,
                               .buckets = 4,
                               .extra = "{\"rope_frequencies\": [1, 0.1]}"};
    assert_int_equal(make_made_capture(made, folder, &err), QK_OK);
}

static qk_analysis_results *analyse(const char *capture, const char *output)
{
    qk_error err;
    qk_analysis_settings s;
    qk_analysis_results *run;
    qk_analysis_settings_default(&s);
    s.capture = capture;
    s.output = output;
    s.model_name = "a, \"b\"";
    s.analyses = QK_ANALYSE_PCA | QK_ANALYSE_ROTATION | QK_ANALYSE_PLASTICITY;
    s.rotation.planes = 2;
    s.lda = true;
    s.ci = 95;
    assert_int_equal(qk_analysis_run(&s, &run, &err), QK_OK);
    return run;
}

/* As a study of two models gathers them: one from a run in memory or from the folder, and one
 * without results. */
static qk__results *gather(const qk_analysis_results *run, const char *folder, bool from_folder)
{
    qk_error err;
    qk__builder *builder;
    qk__results *results;
    const qk__listed_model models[] = {
        {.name = run->model,
         .label = "",
         .family = "f",
         .phase = "",
         .source = "",
         .layers = 2},
        {.name = "none", .label = "", .family = "f", .phase = "", .source = ""}};
    const char *tables = from_folder ? folder : NULL;
    assert_int_equal(qk__results_begin(&builder, folder, &err), QK_OK);
    assert_int_equal(qk__results_add(builder, &models[0], from_folder ? NULL : run, tables,
                                     run->contents, &err),
                     QK_OK);
    assert_int_equal(qk__results_add(builder, &models[1], NULL, NULL, run->contents, &err),
                     QK_OK);
    assert_int_equal(qk__results_finish(&builder, &results, &err), QK_OK);
    assert_null(builder);
    return results;
}

static void test_in_memory(void **state)
{
    (void)state;
    char capture[512], folder[512];
    qk_error err;
    qk__results *read;
    snprintf(capture, sizeof capture, "%s", tree_path("capture"));
    snprintf(folder, sizeof folder, "%s", tree_path("results"));
    make_capture(capture);
    qk_analysis_results *run = analyse(capture, folder);
    assert_int_equal(qk__results_read(&read, folder, NULL, &err), QK_OK);
    assert_int_equal(read->num_models, 1);
    assert_int_equal(read->models[0].num_heads, 4);
    assert_true(isfinite(read->models[0].heads[3].v.bias_strength));
    for (int from_folder = 0; from_folder < 2; from_folder++) {
        qk__results *gathered = gather(run, folder, from_folder);
        assert_int_equal(gathered->num_models, 2);
        expect_same_model(&read->models[0], &gathered->models[0]);
        assert_string_equal(gathered->models[1].name, "none");
        assert_int_equal(gathered->models[1].num_heads, 0);
        qk__results_free(&gathered);
    }
    qk__results_free(&read);
    qk_analysis_results_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_memory, tree_setup, tree_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
