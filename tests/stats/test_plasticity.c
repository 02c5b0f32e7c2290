/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity against plain loops over all pairs, its invariances, sampling of pairs,
 * and input that invites mistakes. */
#include "unit.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qkscope/plasticity.h>

#include "plasticity_loops.h"
#include "stats/bucket_width.h"
#include "stats/pairs.h"
#include "stats/plasticity_core.h"

static const uint64_t STREAM[2] = {3, 7};

/* ---- rows ---- */

typedef struct rows {
    size_t dim, examples, buckets, each; /* rows of one example and bucket */
    int64_t width, window;
    int64_t origin; /* position of the first bucket's begin */
    bool wide;      /* float64 */
    double offset;  /* mean of the keys */
} rows;

static int64_t whole(double x)
{
    return (int64_t)floor(x);
}

static void make_sample(qk_sample *s, const rows *shape, double offset, uint64_t seed)
{
    size_t n = shape->examples * shape->buckets * shape->each, d = shape->dim;
    float *f32 = test_calloc(n * d + 1, sizeof *f32);
    double *f64 = test_calloc(n * d + 1, sizeof *f64);
    int64_t *columns = test_calloc(4 * n + 1, sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        int64_t bucket = (int64_t)(i % shape->buckets);
        int64_t within = whole((double)shape->width * fabs(random_unit(&seed)));
        columns[i] = shape->origin + bucket * shape->width + within;
        columns[n + i] = bucket;
        columns[2 * n + i] = (int64_t)(i / shape->buckets % shape->examples) * 3 - 4;
        columns[3 * n + i] = shape->window;
        double drift = (double)(columns[i] - shape->origin) / (double)shape->width;
        for (size_t c = 0; c < d; c++) {
            double x = random_unit(&seed) * (1 + (double)(c % 3)) +
                       drift * 0.1 * (double)(c % 4) + 0.1 * (double)c + offset;
            f64[i * d + c] = x;
            f32[i * d + c] = (float)x;
        }
    }
    *s = (qk_sample){.rows = n,
                     .dim = d,
                     .f32 = shape->wide ? NULL : f32,
                     .f64 = shape->wide ? f64 : NULL,
                     .position = columns,
                     .bucket = columns + n,
                     .example = columns + 2 * n,
                     .window = shape->window ? columns + 3 * n : NULL};
    test_free(shape->wide ? (void *)f32 : (void *)f64);
}

static void free_sample(qk_sample *s)
{
    test_free((void *)(uintptr_t)s->f32);
    test_free((void *)(uintptr_t)s->f64);
    test_free((void *)(uintptr_t)s->position);
}

static void make(qk_sample *q, qk_sample *k, const rows *shape)
{
    make_sample(q, shape, 0, 11);
    make_sample(k, shape, shape->offset, 22);
}

static qk_moments *moments_of(const qk_sample *s)
{
    qk_accumulator *acc;
    qk_moments *m;
    qk_error err;
    size_t d = s->dim;
    assert_int_equal(qk_accumulator_create(&acc, d, &err), QK_OK);
    for (size_t i = 0; i < s->rows; i++) {
        if (s->group && s->group[i] == s->left_out)
            continue;
        const int64_t *t = s->position + i;
        assert_int_equal(s->f32 ? qk_accumulator_add_f32(acc, s->f32 + i * d, t, 1, &err)
                                : qk_accumulator_add_f64(acc, s->f64 + i * d, t, 1, &err),
                         QK_OK);
    }
    assert_int_equal(qk_accumulator_finish(&acc, &m, &err), QK_OK);
    return m;
}

static qk_plasticity *fit(const qk_sample *q, const qk_sample *k,
                          const qk_plasticity_settings *settings)
{
    qk_moments *m = moments_of(q);
    qk_plasticity *p;
    qk_error err;
    assert_int_equal(qk_plasticity_fit(m, q, k, settings, STREAM, &p, &err), QK_OK);
    qk_moments_free(&m);
    return p;
}

static qk_plasticity_settings exactly(qk_query_variance variance)
{
    qk_plasticity_settings s;
    qk_plasticity_settings_default(&s);
    s.variance = variance;
    s.max_pairs = 0;
    return s;
}

/* ---- against the loops ---- */

static void assert_near(double a, double b, double tolerance)
{
    if (isnan(a) && isnan(b))
        return;
    if (!(fabs(a - b) <= tolerance))
        print_message("# %.17g is not %.17g\n", a, b);
    assert_true(fabs(a - b) <= tolerance);
}

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

static void assert_matches_loops(const qk_sample *q, const qk_sample *k,
                                 qk_query_variance variance)
{
    qk_plasticity_settings settings = exactly(variance);
    qk_plasticity *p = fit(q, k, &settings);
    loops *l = loop_over(q, k, variance == QK_VARIANCE_FULL, p->bucket_width);
    assert_same_tables(p, l, 1e-12);
    assert_near(p->ap_overall, l->overall, 1e-12);
    for (size_t i = 0; i < QK_FIFTHS; i++)
        assert_near(p->fifths[i], l->fifths[i], 1e-12);
    for (size_t i = 0; i < QK_TENTHS; i++)
        assert_near(p->tenths[i], l->tenths[i], 1e-12);
    free(l);
    qk_plasticity_free(&p);
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
        for (int variant = 0; variant < 8; variant++) {
            rows shape = shapes[i];
            qk_sample q, k;
            shape.wide = variant & 1;
            shape.window = variant & 2 ? shape.width * 5 / 2 : 0;
            make(&q, &k, &shape);
            assert_matches_loops(&q, &k, variant & 4 ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
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
        qk_sample q, k;
        shape.window = variant % 3 * 70 - 20;
        make(&q, &k, &shape);
        for (int kind = 0; kind < 2; kind++) {
            const qk_sample *s = kind ? &k : &q;
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
        assert_matches_loops(&q, &k, variant % 2 ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
        free_sample(&q);
        free_sample(&k);
    }
}

static const rows MEDIUM = {.dim = 12, .examples = 25, .buckets = 8, .each = 3, .width = 64};

static void order_of_keys_does_not_matter(void **state)
{
    (void)state;
    rows shape = MEDIUM;
    qk_sample q, k;
    shape.width = 1000000; /* no two keys at one position */
    make(&q, &k, &shape);
    qk_sample turned = k;
    float *x = test_calloc(k.rows * k.dim, sizeof *x);
    int64_t *columns = test_calloc(3 * k.rows, sizeof *columns);
    for (size_t i = 0; i < k.rows; i++) {
        size_t to = (i * 7 + 1) % k.rows == 0 ? 0 : k.rows - 1 - i;
        to = k.rows - 1 - i;
        memcpy(x + to * k.dim, k.f32 + i * k.dim, k.dim * sizeof *x);
        columns[to] = k.position[i];
        columns[k.rows + to] = k.bucket[i];
        columns[2 * k.rows + to] = k.example[i];
    }
    turned.f32 = x;
    turned.position = columns;
    turned.bucket = columns + k.rows;
    turned.example = columns + 2 * k.rows;
    qk_plasticity_settings settings = exactly(QK_VARIANCE_DIAG);
    qk_plasticity *a = fit(&q, &k, &settings), *b = fit(&q, &turned, &settings);
    assert_memory_equal(a->profile, b->profile, a->num_profile * sizeof *a->profile);
    assert_memory_equal(a->cells, b->cells, a->num_cells * sizeof *a->cells);
    assert_memory_equal(a->distances, b->distances, a->num_distances * sizeof *a->distances);
    qk_plasticity_free(&a);
    qk_plasticity_free(&b);
    test_free(x);
    test_free(columns);
    free_sample(&q);
    free_sample(&k);
}

/* ---- invariances ---- */

static void keys_may_be_moved(void **state)
{
    (void)state;
    for (int full = 0; full < 2; full++) {
        rows shape = MEDIUM;
        qk_sample q, k, moved;
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
        qk_plasticity_settings settings = exactly(full ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
        qk_plasticity *a = fit(&q, &k, &settings), *b = fit(&q, &moved, &settings);
        assert_memory_equal(a->profile, b->profile, a->num_profile * sizeof *a->profile);
        assert_memory_equal(a->fifths, b->fifths, sizeof a->fifths);
        qk_plasticity_free(&a);
        qk_plasticity_free(&b);
        test_free(x);
        free_sample(&q);
        free_sample(&k);
    }
}

/* A full covariance knows no axes but the drift: turning queries and keys together changes
 * nothing. So for the diagonal one, if the turn is made of mirrored coordinates' signs only;
 * that case is left to the loops. */
static void turn(qk_sample *s, double *out)
{
    size_t d = s->dim;
    for (size_t i = 0; i < s->rows; i++) {
        memcpy(out + i * d, s->f64 + i * d, d * sizeof *out);
        for (size_t c = 0; c + 1 < d; c++) { /* a chain of plane rotations */
            double a = out[i * d + c], b = out[i * d + c + 1];
            double angle = 0.7 + 0.3 * (double)c;
            out[i * d + c] = cos(angle) * a - sin(angle) * b;
            out[i * d + c + 1] = sin(angle) * a + cos(angle) * b;
        }
    }
    test_free((void *)(uintptr_t)s->f64);
    s->f64 = out;
}

static void space_may_be_turned(void **state)
{
    (void)state;
    rows shape = MEDIUM;
    qk_sample q, k;
    shape.wide = true;
    make(&q, &k, &shape);
    qk_plasticity_settings settings = exactly(QK_VARIANCE_FULL);
    qk_plasticity *a = fit(&q, &k, &settings);
    turn(&q, test_calloc(q.rows * q.dim, sizeof(double)));
    turn(&k, test_calloc(k.rows * k.dim, sizeof(double)));
    qk_plasticity *b = fit(&q, &k, &settings);
    assert_near(a->ap_overall, b->ap_overall, 1e-10);
    assert_near(a->beta_norm, b->beta_norm, 1e-12);
    for (size_t j = 0; j < a->num_profile; j++)
        assert_near(a->profile[j].ap, b->profile[j].ap, 1e-10);
    qk_plasticity_free(&a);
    qk_plasticity_free(&b);
    free_sample(&q);
    free_sample(&k);
}

/* ---- sampling ---- */

static void draws_are_distinct(void **state)
{
    (void)state;
    static uint64_t numbers[3000], again[3000];
    const uint64_t words[] = {1, 2, 3}, counts[] = {3000, 3001, 6000, 1000000, INT64_MAX};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        assert_int_equal(qk__draw(numbers, 3000, counts[c], 9, words, 3, NULL), QK_OK);
        assert_int_equal(qk__draw(again, 3000, counts[c], 9, words, 3, NULL), QK_OK);
        assert_memory_equal(numbers, again, sizeof numbers);
        for (size_t i = 0; i < 3000; i++)
            assert_true(numbers[i] < counts[c] && (i == 0 || numbers[i] > numbers[i - 1]));
        double mean = 0;
        for (size_t i = 0; i < 3000; i++)
            mean += (double)numbers[i] / (double)counts[c] / 3000;
        assert_true(fabs(mean - 0.5) < 5 / sqrt(12 * 3000.0));
    }
}

static void drawn_pairs_estimate_all_pairs(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        rows shape = {.dim = 6, .examples = 5, .buckets = 6, .each = 40, .width = 64};
        qk_sample q, k;
        shape.window = variant & 2 ? 150 : 0;
        make(&q, &k, &shape);
        qk_plasticity_settings settings =
            exactly(variant & 1 ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
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
            qk_plasticity_free(&some);
            qk_plasticity_free(&again);
        }
        qk_plasticity_free(&same);
        qk_plasticity_free(&exact);
        free_sample(&q);
        free_sample(&k);
    }
}

/* All pairs but one, drawn: the value of the one that is missing shows in the sum. */
static void drawn_pairs_are_pairs(void **state)
{
    (void)state;
    rows shape = {.dim = 4, .examples = 2, .buckets = 2, .each = 12, .width = 64};
    qk_sample q, k;
    make(&q, &k, &shape);
    qk_plasticity_settings settings = exactly(QK_VARIANCE_DIAG);
    qk_plasticity *all = fit(&q, &k, &settings);
    settings.max_pairs = all->profile[0].pairs - 1;
    qk_plasticity *most = fit(&q, &k, &settings);
    assert_int_equal(all->profile[0].pairs, 2 * 66);
    double missing = all->profile[0].ap * 132 - most->profile[0].ap * 131;
    assert_true(missing > -1e-12 && missing < 1 + 1e-12);
    assert_near(most->cells[0].ap, all->cells[0].ap, 1.0 / 131);
    qk_plasticity_free(&all);
    qk_plasticity_free(&most);
    free_sample(&q);
    free_sample(&k);
}

/* ---- repetitions ---- */

static void profile_equals_fit(void **state)
{
    (void)state;
    for (int variant = 0; variant < 8; variant++) {
        rows shape = MEDIUM;
        qk_sample q, k;
        shape.window = variant & 1 ? 200 : 0;
        make(&q, &k, &shape);
        uint32_t *group = test_calloc(2 * q.rows, sizeof *group);
        for (size_t i = 0; i < q.rows; i++)
            group[i] = group[q.rows + i] = (uint32_t)(q.example[i] + 4) % 5;
        q.group = group;
        k.group = group + q.rows;
        q.left_out = k.left_out = 2;
        qk_plasticity_settings settings =
            exactly(variant & 2 ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
        settings.max_pairs = variant & 4 ? 500 : 0;
        qk_plasticity *p = fit(&q, &k, &settings);
        assert_int_equal(p->n_q, q.rows * 4 / 5);
        qk_moments *m = moments_of(&q);
        qk_query_model *model;
        qk_key_index *index;
        assert_int_equal(qk__query_model_create(&model, m, NULL, NULL), QK_OK);
        assert_int_equal(qk__key_index_create(&index, &k, NULL), QK_OK);
        for (int shared = 0; shared < 2; shared++) {
            double overall, fifths[QK_FIFTHS];
            assert_int_equal(qk__plasticity_profile(model, &q, &k, shared ? index : NULL,
                                                    &settings, STREAM, &overall, fifths, NULL),
                             QK_OK);
            assert_memory_equal(&overall, &p->ap_overall, sizeof overall);
            assert_memory_equal(fifths, p->fifths, sizeof fifths);
        }
        if (!(variant & 4)) {
            loops *l = loop_over(&q, &k, variant & 2, p->bucket_width);
            assert_same_tables(p, l, 1e-12);
            free(l);
        }
        qk__key_index_free(&index);
        qk__query_model_free(&model);
        qk_moments_free(&m);
        qk_plasticity_free(&p);
        test_free(group);
        free_sample(&q);
        free_sample(&k);
    }
}

/* ---- edges ---- */

enum { FEW = 8 };

/* A handful of rows of dimension 2, edited by each test. */
typedef struct few {
    double x[2][FEW][2];
    int64_t position[2][FEW], bucket[2][FEW], example[2][FEW], window[FEW];
    qk_sample q, k;
} few;

static void make_few(few *f)
{
    uint64_t seed = 3;
    memset(f, 0, sizeof *f);
    for (int kind = 0; kind < 2; kind++)
        for (size_t i = 0; i < FEW; i++) {
            f->x[kind][i][0] = random_unit(&seed);
            f->x[kind][i][1] = random_unit(&seed);
            f->position[kind][i] = (int64_t)i * 10;
            f->bucket[kind][i] = (int64_t)i / 2;
            f->example[kind][i] = 0;
        }
    f->q = (qk_sample){.rows = FEW,
                       .dim = 2,
                       .f64 = f->x[0][0],
                       .position = f->position[0],
                       .bucket = f->bucket[0],
                       .example = f->example[0]};
    f->k = f->q;
    f->k.f64 = f->x[1][0];
    f->k.position = f->position[1];
    f->k.bucket = f->bucket[1];
    f->k.example = f->example[1];
}

static qk_plasticity *fit_few(const few *f, qk_query_variance variance)
{
    qk_plasticity_settings settings = exactly(variance);
    return fit(&f->q, &f->k, &settings);
}

static void one_key_an_example_has_no_pairs(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.example[1][i] = (int64_t)i;
    for (int full = 0; full < 2; full++) {
        qk_plasticity *p = fit_few(&f, full ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
        assert_int_equal(p->num_profile, 3);
        assert_int_equal(p->num_cells, 6);
        assert_int_equal(p->num_distances, 0);
        assert_true(isnan(p->ap_overall) && isnan(p->ap_drop) && isnan(p->fifths[0]));
        for (size_t j = 0; j < 3; j++)
            assert_true(p->profile[j].pairs == 0 && isnan(p->profile[j].ap));
        for (size_t c = 0; c < 6; c++)
            assert_true(p->cells[c].pairs == 0 && isnan(p->cells[c].ap));
        qk_plasticity_free(&p);
    }
}

static void buckets_below_one_ask_nothing(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.bucket[0][i] = -(int64_t)i;
    qk_plasticity *p = fit_few(&f, QK_VARIANCE_DIAG);
    assert_int_equal(p->num_profile + p->num_cells + p->num_distances, 0);
    assert_true(isnan(p->ap_overall) && isnan(p->tenths[9]));
    assert_int_equal(p->pairs_evaluated, 0);
    qk_plasticity_free(&p);
}

static void huge_numbers_do_not_overflow(void **state)
{
    (void)state;
    static const int64_t extremes[FEW] = {INT64_MIN, INT64_MIN + 1, -1,       0, 1,
                                          2,         INT64_MAX - 1, INT64_MAX};
    for (int variant = 0; variant < 16; variant++) {
        few f;
        make_few(&f);
        for (size_t i = 0; i < FEW; i++)
            for (int kind = 0; kind < 2; kind++) {
                if (variant & 1)
                    f.position[kind][i] = extremes[i];
                if (variant & 2)
                    f.bucket[kind][i] = extremes[i];
                if (variant & 4)
                    f.example[kind][i] = extremes[i / 4];
                f.window[i] = INT64_MAX;
            }
        f.q.window = variant & 8 ? f.window : NULL;
        qk_plasticity_settings settings = exactly(QK_VARIANCE_DIAG);
        settings.bucket_width = variant % 3 == 1 ? 1e-300 : 0;
        qk_plasticity *p = fit(&f.q, &f.k, &settings);
        int64_t binned = 0, profiled = 0;
        for (size_t i = 0; i < p->num_distances; i++)
            binned += p->distances[i].pairs;
        for (size_t j = 0; j < p->num_profile; j++)
            profiled += p->profile[j].pairs;
        assert_int_equal(binned, profiled);
        assert_true(p->bucket_width > 0);
        for (size_t i = 0; i < p->num_distances; i++)
            assert_in_range(p->distances[i].distance_bin, 0, 511);
        qk_plasticity_free(&p);
    }
}

static void equal_keys_are_a_coin_toss(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 1; i < FEW; i++)
        memcpy(f.x[1][i], f.x[1][0], sizeof f.x[1][0]);
    for (int full = 0; full < 2; full++) {
        qk_plasticity *p = fit_few(&f, full ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
        assert_true(p->ap_overall == 1 && p->fifths[4] == 1 && isnan(p->fifths[0]));
        qk_plasticity_free(&p);
    }
}

static void constant_queries_decide(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 1; i < FEW; i++)
        memcpy(f.x[0][i], f.x[0][0], sizeof f.x[0][0]);
    for (int full = 0; full < 2; full++) {
        qk_plasticity *p = fit_few(&f, full ? QK_VARIANCE_FULL : QK_VARIANCE_DIAG);
        assert_true(p->ap_overall == 0);
        assert_true(p->q_r2_pos == 0 && p->beta_norm == 0 && isnan(p->component_weight[0]));
        qk_plasticity_free(&p);
    }
}

static void constant_positions_have_no_drift(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.position[0][i] = f.position[1][i] = 5;
    qk_plasticity *p = fit_few(&f, QK_VARIANCE_DIAG);
    assert_true(p->beta_norm == 0 && isnan(p->component_weight[1]));
    assert_true(p->ap_overall > 0 && p->ap_overall < 1);
    assert_int_equal(p->num_distances, 1);
    assert_int_equal(p->distances[0].lag_bin, 0);
    qk_plasticity_free(&p);
}

static void one_query_has_no_covariance(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    f.bucket[0][7] = 4;
    qk_plasticity *p = fit_few(&f, QK_VARIANCE_FULL);
    assert_int_equal(p->num_profile, 4);
    assert_true(!isnan(p->profile[1].ap));
    for (size_t j = 2; j < 4; j++)
        assert_true(isnan(p->profile[j].ap) && p->profile[j].pairs == 0);
    assert_true(isnan(p->cells[p->num_cells - 1].ap) && !isnan(p->ap_overall));
    qk_plasticity_free(&p);
    f.q.rows = 1;
    f.bucket[0][0] = 3;
    p = fit_few(&f, QK_VARIANCE_DIAG); /* no variance: all decided */
    assert_true(p->ap_overall == 0);
    qk_plasticity_free(&p);
}

static void window_below_a_bucket_leaves_the_last(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    for (size_t i = 0; i < FEW; i++)
        f.window[i] = 1;
    f.q.window = f.window;
    qk_plasticity *p = fit_few(&f, QK_VARIANCE_DIAG);
    assert_int_equal(p->window, 1);
    assert_int_equal(p->num_cells, 3);
    for (size_t j = 0; j < 3; j++)
        assert_true(p->cells[j].k_bucket == p->cells[j].q_bucket - 1 &&
                    p->profile[j].pairs == 1);
    qk_plasticity_free(&p);
    for (size_t i = 0; i < FEW; i++)
        f.window[i] = -(int64_t)i; /* all of them: none */
    p = fit_few(&f, QK_VARIANCE_DIAG);
    assert_int_equal(p->window, 0);
    assert_int_equal(p->num_cells, 6);
    qk_plasticity_free(&p);
}

static void refuses_what_it_cannot_analyse(void **state)
{
    (void)state;
    few f;
    make_few(&f);
    qk_plasticity_settings settings = exactly(QK_VARIANCE_DIAG);
    qk_plasticity *p;
    qk_error err;
    qk_moments *m = moments_of(&f.q);
    f.window[3] = 5;
    f.q.window = f.window;
    assert_int_equal(qk_plasticity_fit(m, &f.q, &f.k, &settings, STREAM, &p, &err),
                     QK_ERR_INCONSISTENT);
    assert_null(p);
    assert_non_null(strstr(err.message, "sliding window"));
    f.q.window = NULL;
    f.k.dim = 1;
    assert_int_equal(qk_plasticity_fit(m, &f.q, &f.k, &settings, STREAM, &p, &err),
                     QK_ERR_INCONSISTENT);
    f.k.dim = 2;
    f.k.rows = 0;
    assert_int_equal(qk_plasticity_fit(m, &f.q, &f.k, &settings, STREAM, &p, &err),
                     QK_ERR_DEGENERATE);
    f.k.rows = FEW;
    static const uint32_t group[FEW] = {1, 1, 1, 1, 1, 1, 1, 1};
    f.q.group = group;
    f.q.left_out = 1;
    assert_int_equal(qk_plasticity_fit(m, &f.q, &f.k, &settings, STREAM, &p, &err),
                     QK_ERR_DEGENERATE);
    assert_null(p);
    qk_moments_free(&m);
}

static void many_short_examples_are_no_work(void **state)
{
    (void)state;
    rows shape = {.dim = 2, .examples = 100000, .buckets = 2, .each = 1, .width = 8};
    qk_sample q, k;
    make(&q, &k, &shape);
    qk_plasticity_settings settings = exactly(QK_VARIANCE_DIAG);
    qk_plasticity *p = fit(&q, &k, &settings);
    assert_int_equal(p->profile[0].pairs, 0); /* one key below bucket 1 in each */
    qk_plasticity_free(&p);
    free_sample(&q);
    free_sample(&k);
}

/* ---- the rest of the tables ---- */

static void width_follows_the_rows(void **state)
{
    (void)state;
    static const struct {
        int64_t position[4], bucket[4];
        double width;
    } cases[] = {
        {{0, 511, 512, 1024}, {0, 0, 1, 2}, 512},
        {{0, 70, 110, 230}, {0, 0, 1, 2}, 96}, /* 77..110: 80 and 96 have factors, 96 more */
        {{0, 600, 700, 1900}, {0, 0, 0, 1}, 1024},
        {{0, 10, 20, 1000}, {0, 1, 2, 9}, 100.1}, /* not equally wide */
        {{-1024, -1, 0, 511}, {-2, -1, 0, 0}, 512},
        {{-5, 3, 4, 5}, {0, 0, 0, 1}, 5.5},
        {{0, 1, 2, 3}, {0, 0, 0, 0}, 4}, /* no upper end */
        {{7, 7, 7, 7}, {7, 7, 7, 7}, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        qk_sample s = {.rows = 2, .position = cases[i].position, .bucket = cases[i].bucket};
        qk_sample t = s;
        t.position += 2;
        t.bucket += 2;
        double width = qk__bucket_width(&s, &t);
        if (fabs(width - cases[i].width) > 1e-12)
            print_message("# case %zu: %g\n", i, width);
        assert_true(fabs(width - cases[i].width) <= 1e-12);
    }
}

static void components_are_shares_of_drift(void **state)
{
    (void)state;
    rows shape = MEDIUM;
    qk_sample q, k;
    make(&q, &k, &shape);
    qk_plasticity_settings settings = exactly(QK_VARIANCE_DIAG);
    qk_plasticity *p = fit(&q, &k, &settings);
    loops *l = loop_over(&q, &k, false, p->bucket_width);
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
    qk_plasticity_free(&p);
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
        cmocka_unit_test(space_may_be_turned),
        cmocka_unit_test(draws_are_distinct),
        cmocka_unit_test(drawn_pairs_estimate_all_pairs),
        cmocka_unit_test(drawn_pairs_are_pairs),
        cmocka_unit_test(profile_equals_fit),
        cmocka_unit_test(one_key_an_example_has_no_pairs),
        cmocka_unit_test(buckets_below_one_ask_nothing),
        cmocka_unit_test(huge_numbers_do_not_overflow),
        cmocka_unit_test(equal_keys_are_a_coin_toss),
        cmocka_unit_test(constant_queries_decide),
        cmocka_unit_test(constant_positions_have_no_drift),
        cmocka_unit_test(one_query_has_no_covariance),
        cmocka_unit_test(window_below_a_bucket_leaves_the_last),
        cmocka_unit_test(refuses_what_it_cannot_analyse),
        cmocka_unit_test(many_short_examples_are_no_work),
        cmocka_unit_test(width_follows_the_rows),
        cmocka_unit_test(components_are_shares_of_drift),
    };
    return cmocka_run_group_tests_name("plasticity", tests, NULL, NULL);
}
