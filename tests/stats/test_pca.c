/* SPDX-License-Identifier: Apache-2.0 */
/* PCA by algebraic identities, the sign rule, the taxonomy, p-values in closed form, and the
 * same bits from concurrent callers. */
#include "unit.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/stats.h>

#include "blocks.h"
#include "stats/moments.h"
#include "stats/pca.h"
#include "stats/student.h"

enum { DIM = 64, ROWS = 400 };

/* Rows with a drift along the first axis and falling variances. */
static qk_moments *make(uint64_t seed, double drift, size_t rows, size_t dim)
{
    qk_accumulator *acc;
    qk_moments *m;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, dim, &err), QK_OK);
    for (size_t r = 0; r < rows; r++) {
        float x[DIM];
        int64_t t = (int64_t)r;
        for (size_t c = 0; c < dim; c++)
            x[c] = (float)(random_unit(&seed) / (double)(c + 1) + (double)c);
        x[0] += (float)(drift * (double)t / (double)rows);
        const qk_block row = floats(x, &t, 1, dim);
        assert_int_equal(qk_accumulator_add(acc, &row, &err), QK_OK);
    }
    assert_int_equal(qk_accumulator_finish(&acc, &m, &err), QK_OK);
    return m;
}

static qk_pca *fit(const qk_moments *q, const qk_moments *k, int components)
{
    qk_pca_settings settings;
    qk_pca *pca;
    qk_error err = {0};
    qk_pca_settings_default(&settings);
    settings.components = components;
    assert_int_equal(qk_pca_combined(q, k, &settings, &pca, &err), QK_OK);
    return pca;
}

static void identities_hold(void **state)
{
    (void)state;
    qk_moments *q = make(1, 2, ROWS, DIM), *k = make(2, -1, ROWS + 77, DIM), *pooled;
    qk_error err;
    qk_pca *pca = fit(q, k, DIM);
    assert_int_equal(pca->num_components, DIM);
    assert_int_equal(qk__moments_merge(q, k, &pooled, &err), QK_OK);
    double total = 0, trace = 0, worst = 0;
    for (size_t i = 0; i < DIM; i++) {
        total += pca->components[i].explained_variance;
        trace += pooled->sum_xx[i * DIM + i];
        if (i > 0)
            assert_true(pca->components[i].explained_variance <=
                        pca->components[i - 1].explained_variance);
    }
    assert_true(fabs(total - 1) < 1e-13);
    for (size_t i = 0; i < DIM; i++) {
        const double *v = pca->axes + i * DIM;
        double eigenvalue = pca->components[i].explained_variance * trace;
        for (size_t j = 0; j <= i; j++) { /* orthonormal */
            double product = 0;
            for (size_t c = 0; c < DIM; c++)
                product += v[c] * pca->axes[j * DIM + c];
            worst = fmax(worst, fabs(product - (i == j)));
        }
        for (size_t r = 0; r < DIM; r++) { /* C v = lambda v */
            double image = 0;
            for (size_t c = 0; c < DIM; c++)
                image += pooled->sum_xx[r * DIM + c] * v[c];
            worst = fmax(worst, fabs(image - eigenvalue * v[r]) / trace);
        }
    }
    print_message("# largest residual of the eigenproblem: %.2g\n", worst);
    assert_true(worst < 1e-13);
    /* law of total variance on each axis: pooled = within + between */
    for (size_t i = 0; i < DIM; i++) {
        const qk_component *c = &pca->components[i];
        double nq = (double)q->count, nk = (double)k->count;
        double within = (nq - 1) * c->sd_q * c->sd_q + (nk - 1) * c->sd_k * c->sd_k;
        double between = nq * nk / (nq + nk) * (c->mu_q - c->mu_k) * (c->mu_q - c->mu_k);
        assert_true(fabs(within + between - c->explained_variance * trace) < 1e-12 * trace);
    }
    /* all components together hold the linear share: sum of (v.c)^2 = |c|^2 */
    double linear = 0, tr_q = 0;
    for (size_t i = 0; i < DIM; i++) {
        const qk_component *c = &pca->components[i];
        linear += c->alpha * c->alpha * q->sum_tt;
        tr_q += q->sum_xx[i * DIM + i];
    }
    assert_true(fabs(linear / tr_q - pca->lin_var_q) < 1e-13);
    qk_moments_free(&pooled);
    qk_moments_free(&q);
    qk_moments_free(&k);
    qk_pca_free(&pca);
    assert_null(pca);
}

static void signs_follow_the_rule(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        qk_moments *q = make(10 + (uint64_t)i, i % 4 - 1.5, 50, 12);
        qk_moments *k = make(90 + (uint64_t)i, i % 3 - 1, 60, 12);
        qk_pca *pca = fit(q, k, 10);
        for (size_t c = 0; c < pca->num_components; c++) {
            double r_q = pca->components[c].r_q, r_k = pca->components[c].r_k;
            assert_true(r_q >= 0.05 || (fabs(r_q) < 0.05 && r_k >= 0));
        }
        qk_moments_free(&q);
        qk_moments_free(&k);
        qk_pca_free(&pca);
    }
}

static void constant_positions_have_no_correlation(void **state)
{
    (void)state;
    qk_moments *q = make(3, 0, 20, 6), *k = make(4, 0, 20, 6);
    memset(q->sum_xt, 0, 6 * sizeof(double));
    memset(k->sum_xt, 0, 6 * sizeof(double));
    q->sum_tt = k->sum_tt = 0;
    qk_pca *pca = fit(q, k, 6);
    for (size_t i = 0; i < 6; i++) {
        const qk_component *c = &pca->components[i];
        const double *v = pca->axes + i * 6;
        double largest = 0;
        for (size_t j = 0; j < 6; j++)
            largest = fabs(v[j]) > fabs(largest) ? v[j] : largest;
        assert_true(c->r_q == 0 && c->r_k == 0 && c->p_q == 1 && c->p_k == 1);
        assert_true(isnan(c->alpha) && isnan(c->beta));
        assert_true(largest > 0);
    }
    assert_true(isnan(pca->lin_var_q) && isnan(pca->pos_var_q_pc0_share));
    qk_moments_free(&q);
    qk_moments_free(&k);
    qk_pca_free(&pca);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    qk_moments *q = make(3, 0, 20, 6), *k = make(4, 0, 1, 6), *other = make(4, 0, 20, 7);
    qk_pca_settings settings;
    qk_pca *pca;
    qk_error err;
    qk_pca_settings_default(&settings);
    assert_int_equal(qk_pca_combined(q, k, &settings, &pca, &err), QK_ERR_DEGENERATE);
    assert_null(pca);
    assert_int_equal(qk_pca_combined(q, other, &settings, &pca, &err), QK_ERR_INCONSISTENT);
    assert_non_null(strstr(err.message, "6"));
    memset(q->sum_xx, 0, 36 * sizeof(double));
    assert_int_equal(qk__pca_single(q, &settings, &pca, &err), QK_ERR_DEGENERATE);
    settings.components = 0;
    assert_int_equal(qk__pca_single(other, &settings, &pca, &err), QK_ERR_ARGUMENT);
    qk_moments_free(&q);
    qk_moments_free(&k);
    qk_moments_free(&other);
}

static void p_values_match_closed_forms(void **state)
{
    (void)state;
    for (int i = 1; i < 1000; i++) {
        double r = i / 1000.0, pi = acos(-1);
        assert_true(fabs(qk__correlation_p_value(r, 3) - 2 / pi * acos(r)) < 1e-14);
        assert_true(fabs(qk__correlation_p_value(-r, 4) - (1 - r)) < 1e-14);
        /* 4 degrees of freedom: 1 - (3r - r^3)/2 = (1 - r)^2 (2 + r) / 2 */
        double exact = (1 - r) * (1 - r) * (2 + r) / 2;
        assert_true(fabs(qk__correlation_p_value(r, 6) / exact - 1) < 1e-12);
    }
    assert_true(qk__correlation_p_value(0, 100) == 1 && qk__correlation_p_value(1, 100) == 0);
    assert_true(qk__correlation_p_value(0.9, 2) == 1 && qk__correlation_p_value(NAN, 9) == 1);
    assert_true(qk__correlation_p_value(0.999, 100000) == 0);
}

static void categories_are_strict(void **state)
{
    (void)state;
    assert_int_equal(qk__classify(0.71, -0.71, 0.3, 0.7), QK_POSITION_DOMINATED);
    assert_int_equal(qk__classify(0.71, 0.29, 0.3, 0.7), QK_Q_POSITIONAL);
    assert_int_equal(qk__classify(0.29, -0.71, 0.3, 0.7), QK_K_POSITIONAL);
    assert_int_equal(qk__classify(-0.04, 0.1, 0.3, 0.7), QK_CONTENT_FOCUSED);
    assert_int_equal(qk__classify(0.7, 0.9, 0.3, 0.7), QK_MIXED);
    assert_int_equal(qk__classify(0.3, 0.1, 0.3, 0.7), QK_MIXED);
    assert_int_equal(qk__classify(0.9, 0.3, 0.3, 0.7), QK_MIXED);
    for (int c = 0; c < QK_NUM_CATEGORIES; c++)
        assert_true(strlen(qk_category_name((qk_category)c)) > 0);
}

typedef struct caller {
    pthread_t thread;
    const qk_moments *q, *k;
    const qk_pca *expected;
    int rounds, differences;
} caller;

static void *fit_many(void *argument)
{
    caller *c = argument;
    qk_pca_settings settings;
    qk_pca_settings_default(&settings);
    for (int i = 0; i < c->rounds; i++) {
        qk_pca *pca;
        size_t bytes = c->expected->num_components * sizeof *c->expected->components;
        if (qk_pca_combined(c->q, c->k, &settings, &pca, NULL) != QK_OK) {
            c->differences++;
            continue;
        }
        c->differences += memcmp(pca->components, c->expected->components, bytes) != 0;
        qk_pca_free(&pca);
    }
    return NULL;
}

static void concurrent_callers_get_the_same_bits(void **state)
{
    (void)state;
    enum { CALLERS = 4, ROUNDS = 50 };
    caller callers[CALLERS];
    qk_moments *q = make(5, 1, ROWS, DIM), *k = make(6, 1, ROWS, DIM);
    qk_pca *pca = fit(q, k, 10);
    for (int i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.q = q, .k = k, .expected = pca};
        callers[i].rounds = ROUNDS;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, fit_many, &callers[i]), 0);
    }
    int differences = 0;
    for (int i = 0; i < CALLERS; i++) {
        pthread_join(callers[i].thread, NULL);
        differences += callers[i].differences;
    }
    assert_int_equal(differences, 0);
    qk_moments_free(&q);
    qk_moments_free(&k);
    qk_pca_free(&pca);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identities_hold),
        cmocka_unit_test(signs_follow_the_rule),
        cmocka_unit_test(constant_positions_have_no_correlation),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(p_values_match_closed_forms),
        cmocka_unit_test(categories_are_strict),
        cmocka_unit_test(concurrent_callers_get_the_same_bits),
    };
    return cmocka_run_group_tests_name("pca", tests, NULL, NULL);
}
