/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity against plain loops over all pairs, its invariances, and sampling of
 * pairs. */
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/stats.h>

#include "plasticity_loops.h"
#include "plasticity_rows.h"
#include "stats/pair_sets.h"
#include "stats/pairs.h"
#include "stats/plasticity_core.h"

/* ---- against the loops ------------------------------------------------------------------ */

static void assert_same_tables(const qk_plasticity *p, const loops *l, double tolerance)
{
    size_t at = 0, cell = 0, bin = 0;
    for (size_t j = 0; j < LOOP_BUCKETS; j++) {
        if (l->queries[j] > 0) {
            const qk_ap_profile *row = &p->profile[at++];
            assert_int_equal(row->q_bucket, j);
            assert_int_equal(row->queries, l->queries[j]);
            assert_int_equal(row->pairs, l->profile[j].pairs);
            assert_near(row->position, l->tau[j], 1e-9);
            assert_near(row->ap, l->profile[j].ap, tolerance);
        }
        for (size_t b = 0; b < LOOP_BUCKETS; b++)
            if (l->cells[j][b].seen) {
                assert_true(cell < p->num_cells);
                assert_int_equal(p->cells[cell].q_bucket, j);
                assert_int_equal(p->cells[cell].k_bucket, b);
                assert_int_equal(p->cells[cell].pairs, l->cells[j][b].pairs);
                assert_near(p->cells[cell++].ap, l->cells[j][b].ap, tolerance);
            }
    }
    assert_int_equal(p->num_profile, at);
    assert_int_equal(p->num_cells, cell);
    for (size_t a = 0; a < LOOP_BINS; a++)
        for (size_t b = 0; b < LOOP_BINS; b++)
            if (l->bins[a][b].pairs > 0) {
                assert_true(bin < p->num_distances);
                assert_int_equal(p->distances[bin].distance_bin, a);
                assert_int_equal(p->distances[bin].lag_bin, (int64_t)b - LOOP_BINS / 2);
                assert_int_equal(p->distances[bin].pairs, l->bins[a][b].pairs);
                assert_near(p->distances[bin++].ap, l->bins[a][b].ap, tolerance);
            }
    assert_int_equal(p->num_distances, bin);
}

static void assert_matches_loops(const qk_block *q, const qk_block *k)
{
    qk_plasticity_settings settings = exactly();
    qk_plasticity *p = fit(q, k, &settings);
    loops *l = loop_over(q, k, p->bucket_width);
    assert_same_tables(p, l, 1e-12);
    assert_near(p->ap_overall, l->overall, 1e-12);
    for (size_t i = 0; i < QK_FIFTHS; i++)
        assert_near(p->fifths[i], l->fifths[i], 1e-12);
    for (size_t i = 0; i < QK_TENTHS; i++)
        assert_near(p->tenths[i], l->tenths[i], 1e-12);
    free(l);
    qk__plasticity_free(&p);
}

static void equals_plain_loops(void **state)
{
    (void)state;
    static const rows shapes[] = {
        {.dim = 1, .examples = 4, .buckets = 5, .each = 2, .width = 16},
        {.dim = 3, .examples = 9, .buckets = 4, .each = 1, .width = 32},
        {.dim = 8, .examples = 30, .buckets = 6, .each = 2, .width = 100},
        {.dim = 13, .examples = 3, .buckets = 9, .each = 9, .width = 64},
        {.dim = 16, .examples = 1, .buckets = 8, .each = 45, .width = 50},
        {.dim = 24, .examples = 2, .buckets = 20, .each = 7, .width = 12, .origin = 1000000},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int variant = 0; variant < 4; variant += tier_is("test") && i > 2 ? 3 : 1) {
            rows shape = shapes[i];
            qk_block q, k;
            shape.wide = variant & 1;
            shape.window = variant & 2 ? shape.width * 5 / 2 : 0;
            make(&q, &k, &shape);
            assert_matches_loops(&q, &k);
            free_sample(&q);
            free_sample(&k);
        }
}

/* Buckets and positions that have nothing to do with one another, examples of all sizes: what
 * a window lets through then has gaps. */
static void takes_inconsistent_buckets(void **state)
{
    (void)state;
    uint64_t seed = 5;
    for (int variant = 0; variant < 12; variant++) {
        rows shape = {.dim = 5, .examples = 1, .buckets = 12, .each = 60, .width = 20};
        qk_block q, k;
        shape.window = variant % 3 * 70 - 20;
        make(&q, &k, &shape);
        for (int kind = 0; kind < 2; kind++) {
            const qk_block *s = kind ? &k : &q;
            int64_t *position = (int64_t *)(uintptr_t)s->position;
            int64_t *bucket = (int64_t *)(uintptr_t)s->bucket;
            int64_t *example = (int64_t *)(uintptr_t)s->example;
            for (size_t i = 0; i < s->rows; i++) {
                double u = fabs(random_unit(&seed));
                position[i] = whole(240 * fabs(random_unit(&seed))) - (variant & 1 ? 9 : 0);
                bucket[i] = whole(12 * fabs(random_unit(&seed)));
                example[i] = whole(variant < 6 ? 40 * u * u * u : 3 * u * u);
            }
        }
        assert_matches_loops(&q, &k);
        free_sample(&q);
        free_sample(&k);
    }
}

static const rows MEDIUM = {.dim = 12, .examples = 25, .buckets = 8, .each = 3, .width = 64};

static void order_of_keys_does_not_matter(void **state)
{
    (void)state;
    rows shape = MEDIUM;
    qk_block q, k;
    shape.width = 1000000; /* no two keys at one position */
    make(&q, &k, &shape);
    qk_block turned = k;
    float *x = test_calloc(k.rows * k.dim, sizeof *x);
    int64_t *columns = test_calloc(3 * k.rows, sizeof *columns);
    for (size_t i = 0; i < k.rows; i++) {
        size_t to = k.rows - 1 - i;
        memcpy(x + to * k.dim, k.f32 + i * k.dim, k.dim * sizeof *x);
        columns[to] = k.position[i];
        columns[k.rows + to] = k.bucket[i];
        columns[2 * k.rows + to] = k.example[i];
    }
    turned.f32 = x;
    turned.position = columns;
    turned.bucket = columns + k.rows;
    turned.example = columns + 2 * k.rows;
    qk_plasticity_settings settings = exactly();
    qk_plasticity *a = fit(&q, &k, &settings), *b = fit(&q, &turned, &settings);
    assert_memory_equal(a->profile, b->profile, a->num_profile * sizeof *a->profile);
    assert_memory_equal(a->cells, b->cells, a->num_cells * sizeof *a->cells);
    assert_memory_equal(a->distances, b->distances, a->num_distances * sizeof *a->distances);
    qk__plasticity_free(&a);
    qk__plasticity_free(&b);
    test_free(x);
    test_free(columns);
    free_sample(&q);
    free_sample(&k);
}

/* ---- invariances ------------------------------------------------------------------------ */

static void keys_may_be_moved(void **state)
{
    (void)state;
    rows shape = MEDIUM;
    qk_block q, k, moved;
    shape.wide = true;
    make(&q, &k, &shape);
    double *x = test_calloc(k.rows * k.dim, sizeof *x);
    for (size_t i = 0; i < k.rows * k.dim; i++) {
        double near = ldexp(round(ldexp(k.f64[i], 20)), -20); /* sums are exact */
        ((double *)(uintptr_t)k.f64)[i] = near;
        x[i] = near + 4096 * (double)(1 + i % k.dim);
    }
    moved = k;
    moved.f64 = x;
    qk_plasticity_settings settings = exactly();
    qk_plasticity *a = fit(&q, &k, &settings), *b = fit(&q, &moved, &settings);
    assert_memory_equal(a->profile, b->profile, a->num_profile * sizeof *a->profile);
    assert_memory_equal(a->fifths, b->fifths, sizeof a->fifths);
    qk__plasticity_free(&a);
    qk__plasticity_free(&b);
    test_free(x);
    free_sample(&q);
    free_sample(&k);
}

/* ---- sampling --------------------------------------------------------------------------- */

static void drawn_pairs_estimate_all_pairs(void **state)
{
    (void)state;
    for (int64_t window = 0; window <= 150; window += 150) {
        rows shape = {.dim = 6, .examples = 5, .buckets = 6, .each = 40, .width = 64};
        qk_block q, k;
        shape.window = window;
        make(&q, &k, &shape);
        qk_plasticity_settings settings = exactly();
        qk_plasticity *exact = fit(&q, &k, &settings);
        settings.max_pairs = 1000000;
        qk_plasticity *same = fit(&q, &k, &settings);
        assert_int_equal(same->cells_sampled, 0);
        assert_memory_equal(same->profile, exact->profile,
                            exact->num_profile * sizeof *exact->profile);
        assert_memory_equal(same->cells, exact->cells, exact->num_cells * sizeof *exact->cells);
        static const int64_t limits[] = {2500, 5000}; /* cells have 3900 pairs */
        for (size_t l = 0; l < 2; l++) {
            settings.max_pairs = limits[l];
            settings.seed = 17;
            qk_plasticity *some = fit(&q, &k, &settings), *again = fit(&q, &k, &settings);
            assert_memory_equal(some->profile, again->profile,
                                some->num_profile * sizeof *some->profile);
            assert_true(some->cells_sampled >= 4);
            for (size_t j = 0; j < exact->num_profile; j++) {
                int64_t pairs = exact->profile[j].pairs;
                pairs = pairs < limits[l] ? pairs : limits[l];
                assert_int_equal(some->profile[j].pairs, pairs);
                assert_near(some->profile[j].ap, exact->profile[j].ap,
                            4 * 0.4 / sqrt((double)limits[l]));
            }
            assert_int_equal(some->num_cells, exact->num_cells);
            for (size_t c = 0; c < exact->num_cells; c++) {
                bool all = exact->cells[c].pairs <= limits[l];
                assert_int_equal(some->cells[c].pairs, all ? exact->cells[c].pairs : limits[l]);
                assert_near(some->cells[c].ap, exact->cells[c].ap, all ? 1e-13 : 0.03);
            }
            int64_t binned = 0, profiled = 0;
            for (size_t i = 0; i < some->num_distances; i++)
                binned += some->distances[i].pairs;
            for (size_t j = 0; j < some->num_profile; j++)
                profiled += some->profile[j].pairs;
            assert_int_equal(binned, profiled);
            qk__plasticity_free(&some);
            qk__plasticity_free(&again);
        }
        qk__plasticity_free(&same);
        qk__plasticity_free(&exact);
        free_sample(&q);
        free_sample(&k);
    }
}

/* ---- repetitions ------------------------------------------------------------------------ */

static void profile_equals_fit(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        rows shape = MEDIUM;
        qk_block q, k;
        shape.window = variant & 1 ? 200 : 0;
        make(&q, &k, &shape);
        uint32_t *group = test_calloc(2 * q.rows, sizeof *group);
        for (size_t i = 0; i < q.rows; i++)
            group[i] = group[q.rows + i] = (uint32_t)(q.example[i] + 4) % 5;
        q.group = group;
        k.group = group + q.rows;
        q.left_out = k.left_out = 2;
        qk_plasticity_settings settings = exactly();
        settings.max_pairs = variant & 2 ? 500 : 0;
        qk_plasticity *p = fit(&q, &k, &settings);
        assert_int_equal(p->n_q, q.rows * 4 / 5);
        qk_moments *m = moments_of(&q);
        qk__query_model *model;
        qk__key_index *index;
        assert_int_equal(qk__query_model_create(&model, m, NULL, 1, NULL), QK_OK);
        assert_int_equal(qk__key_index_create(&index, &k, NULL), QK_OK);
        for (int shared = 0; shared < 2; shared++) {
            double overall, fifths[QK_FIFTHS];
            const qk__plasticity_input in = {.queries = &q,
                                             .keys = &k,
                                             .index = shared ? index : NULL,
                                             .settings = &settings,
                                             .stream = STREAM};
            assert_int_equal(qk__plasticity_profile(model, &in, &overall, fifths, NULL), QK_OK);
            assert_memory_equal(&overall, &p->ap_overall, sizeof overall);
            assert_memory_equal(fifths, p->fifths, sizeof fifths);
        }
        if (!(variant & 2)) {
            loops *l = loop_over(&q, &k, p->bucket_width);
            assert_same_tables(p, l, 1e-12);
            free(l);
        }
        qk__key_index_free(&index);
        qk__query_model_free(&model);
        qk_moments_free(&m);
        qk__plasticity_free(&p);
        test_free(group);
        free_sample(&q);
        free_sample(&k);
    }
}

/* ---- components ------------------------------------------------------------------------- */

static void components_are_shares_of_drift(void **state)
{
    (void)state;
    rows shape = MEDIUM;
    qk_block q, k;
    make(&q, &k, &shape);
    qk_plasticity_settings settings = exactly();
    qk_plasticity *p = fit(&q, &k, &settings);
    loops *l = loop_over(&q, &k, p->bucket_width);
    double r2 = 0, weight = 0, beta = 0;
    for (size_t c = 0; c < q.dim; c++) {
        double xx = 0, tt = 0;
        for (size_t i = 0; i < q.rows; i++) {
            double x = loop_value(&q, i, c) - l->mean[c];
            double t = (double)q.position[i] - l->mean_t;
            xx += x * x;
            tt += t * t;
        }
        assert_near(p->component_r2[c], l->beta[c] * l->beta[c] * tt / xx, 1e-12);
        r2 += p->component_r2[c] / (double)q.dim;
        weight += p->component_weight[c];
        beta += l->beta[c] * l->beta[c];
    }
    assert_near(p->q_r2_pos, r2, 1e-14);
    assert_near(weight, 1, 1e-14);
    assert_near(p->beta_norm, sqrt(beta), 1e-14);
    free(l);
    qk__plasticity_free(&p);
    free_sample(&q);
    free_sample(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_plain_loops),
        cmocka_unit_test(takes_inconsistent_buckets),
        cmocka_unit_test(order_of_keys_does_not_matter),
        cmocka_unit_test(keys_may_be_moved),
        cmocka_unit_test(drawn_pairs_estimate_all_pairs),
        cmocka_unit_test(profile_equals_fit),
        cmocka_unit_test(components_are_shares_of_drift),
    };
    return cmocka_run_group_tests_name("plasticity", tests, NULL, NULL);
}
