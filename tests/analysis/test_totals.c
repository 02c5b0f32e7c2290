/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and means by depth over the heads of a run. */
#include "stats/pca.h"
#include "tests/unit.h"

#include <math.h>

#include <qkscope/analysis.h>

enum { MAX_HEADS = 24 };

/* A report whose heads have what a test gives them. */
typedef struct made_up {
    qk_head_results heads[MAX_HEADS];
    qk_pca pca[MAX_HEADS];
    qk_component components[MAX_HEADS];
    qk_rotation rotations[MAX_HEADS];
    qk_plasticity plasticities[MAX_HEADS];
    qk_analysis_results report;
} made_up;

static size_t add_head(made_up *m, int layer)
{
    size_t i = m->report.num_heads++;
    m->heads[i].id = (qk_head_id){layer, (int)i, QK_QUERY};
    m->report.heads = m->heads;
    return i;
}

static void give_pca(made_up *m, size_t i, double r_q, double r_k)
{
    m->components[i] = (qk_component){.r_q = r_q, .r_k = r_k};
    m->pca[i] = (qk_pca){.num_components = 1,
                         .components = &m->components[i],
                         .category = qk__classify(r_q, r_k, 0.3, 0.7)};
    m->heads[i].pca = &m->pca[i];
}

static void test_nothing(void **state)
{
    (void)state;
    made_up m = {0};
    qk_analysis_totals totals;
    qk_analysis_totals_of(&m.report, &totals);
    add_head(&m, 3); /* a head that failed */
    for (int pass = 0; pass < 2; pass++) {
        for (int c = 0; c < QK_NUM_CATEGORIES; c++)
            assert_int_equal(totals.categories[c], 0);
        for (int i = 0; i < QK_DEPTHS; i++)
            assert_true(isnan(totals.r_q[i]) && isnan(totals.r_k[i]) && isnan(totals.ap[i]));
        assert_int_equal(totals.rotated, 0);
        assert_true(isnan(totals.abs_r_q_a) && isnan(totals.plane_var_fraction));
        qk_analysis_totals_of(&m.report, &totals);
    }
}

static void test_depths(void **state)
{
    (void)state;
    made_up m = {0};
    static const int tenth[] = {0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9}; /* of layers 0..13 */
    qk_analysis_totals totals;
    for (int layer = 0; layer <= 13; layer++)
        give_pca(&m, add_head(&m, layer), 0.01 * layer, -0.02 * layer);
    qk_analysis_totals_of(&m.report, &totals);
    for (int bin = 0; bin < QK_DEPTHS; bin++) {
        double sum = 0;
        int count = 0;
        for (int layer = 0; layer <= 13; layer++)
            if (tenth[layer] == bin) {
                sum += 0.01 * layer;
                count++;
            }
        assert_true(fabs(totals.r_q[bin] - sum / count) < 1e-15);
        assert_true(fabs(totals.r_k[bin] + 2 * sum / count) < 1e-15);
        assert_true(fabs(totals.abs_r_k[bin] - 2 * sum / count) < 1e-15);
    }
    assert_int_equal(totals.categories[QK_CONTENT_FOCUSED], 14);
}

static void test_one_layer_and_gaps(void **state)
{
    (void)state;
    made_up m = {0};
    qk_analysis_totals totals;
    give_pca(&m, add_head(&m, 0), 0.9, 0.8);
    give_pca(&m, add_head(&m, 0), 0.5, NAN);
    qk_analysis_totals_of(&m.report, &totals);
    assert_true(totals.r_q[0] == 0.7 && totals.r_k[0] == 0.8); /* without the NaN */
    add_head(&m, 4); /* without numbers, but it says where the last layer is */
    give_pca(&m, add_head(&m, 1), 0.1, 0.1);
    qk_analysis_totals_of(&m.report, &totals);
    assert_true(totals.r_q[2] == 0.1 && isnan(totals.r_q[1]) && isnan(totals.r_q[9]));
    assert_int_equal(totals.categories[QK_POSITION_DOMINATED], 1);
    assert_int_equal(totals.categories[QK_MIXED], 1);
    assert_int_equal(totals.categories[QK_CONTENT_FOCUSED], 1);
}

/* A selection of layers does not change where in the model they are. */
static void test_depth_in_the_model(void **state)
{
    (void)state;
    made_up m = {.report.num_layers = 5};
    qk_analysis_totals totals;
    give_pca(&m, add_head(&m, 2), 0.5, 0.5);
    qk_analysis_totals_of(&m.report, &totals);
    for (int i = 0; i < QK_DEPTHS; i++)
        assert_true(i == 5 ? totals.r_q[i] == 0.5 : isnan(totals.r_q[i]));
    m.report.num_layers = 1; /* less than there is: the heads are right */
    qk_analysis_totals_of(&m.report, &totals);
    assert_true(totals.r_q[9] == 0.5);
}

static void test_rotation_and_plasticity(void **state)
{
    (void)state;
    made_up m = {0};
    qk_analysis_totals totals;
    static const double bias[] = {0.5, -0.25, 0};
    qk_head_intervals intervals[2] = {{.bias_strength = {0.25, 0.75, 0}},
                                      {.bias_strength = {-0.5, 0, 0}}};
    for (size_t i = 0; i < 4; i++) {
        add_head(&m, i < 2 ? 0 : 1);
        m.heads[i].rotation = &m.rotations[i];
        m.rotations[i].degenerate = i == 3;
        m.rotations[i].r_q_a = i == 3 ? NAN : -0.25 * (double)(i + 1);
        m.rotations[i].r_k_a = i == 3 ? NAN : 0.5;
        m.rotations[i].bias_strength = i == 3 ? NAN : bias[i];
        m.rotations[i].plane_var_fraction = i == 0 ? NAN : 0.125;
        m.heads[i].plasticity = &m.plasticities[i];
        m.plasticities[i].ap_overall = i == 1 ? NAN : 0.25 * (double)i;
    }
    m.heads[0].intervals = &intervals[0]; /* the third head has none */
    m.heads[1].intervals = &intervals[1];
    qk_analysis_totals_of(&m.report, &totals);
    assert_int_equal(totals.bias_told, 2);
    assert_int_equal(totals.bias_certain, 1);
    assert_int_equal(totals.rotated, 3);
    assert_int_equal(totals.degenerate, 1);
    assert_int_equal(totals.bias_positive, 1);
    assert_true(totals.abs_r_q_a == 0.5 && totals.abs_r_k_a == 0.5);
    assert_true(totals.plane_var_fraction == 0.125);
    assert_true(totals.abs_r_q_a_by_depth[0] == 0.375 && totals.abs_r_q_a_by_depth[9] == 0.75);
    assert_true(totals.ap[0] == 0 && totals.ap[9] == 0.625 && isnan(totals.ap[5]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_depths),
        cmocka_unit_test(test_one_layer_and_gaps),
        cmocka_unit_test(test_depth_in_the_model),
        cmocka_unit_test(test_rotation_and_plasticity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
