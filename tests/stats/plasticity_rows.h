/* SPDX-License-Identifier: Apache-2.0 */
/* Rows to analyse, and their analysis, for the tests of attention plasticity. */
#ifndef QK_TESTS_PLASTICITY_ROWS_H
#define QK_TESTS_PLASTICITY_ROWS_H

#include "unit.h"

#include <math.h>
#include <string.h>

#include <qkscope/stats.h>

#include "blocks.h"
#include "settings/settings.h"
#include "stats/plasticity_core.h"
#include "stats/stats_settings.h"

static const uint64_t STREAM[2] = {3, 7};

typedef struct rows {
    size_t dim, examples, buckets, each; /* rows of one example and bucket */
    int64_t width, window;
    int64_t origin; /* position of the first bucket's begin */
    bool wide;      /* float64 */
    double offset;  /* mean of the keys */
} rows;

static inline int64_t whole(double x)
{
    return (int64_t)floor(x);
}

static inline void make_sample(qk_block *s, const rows *shape, double offset, uint64_t seed)
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
    *s = (qk_block){.rows = n,
                    .dim = d,
                    .f32 = shape->wide ? NULL : f32,
                    .f64 = shape->wide ? f64 : NULL,
                    .position = columns,
                    .bucket = columns + n,
                    .example = columns + 2 * n,
                    .window = shape->window ? columns + 3 * n : NULL};
    test_free(shape->wide ? (void *)f32 : (void *)f64);
}

static inline void free_sample(qk_block *s)
{
    test_free((void *)(uintptr_t)s->f32);
    test_free((void *)(uintptr_t)s->f64);
    test_free((void *)(uintptr_t)s->position);
}

static inline void make(qk_block *q, qk_block *k, const rows *shape)
{
    make_sample(q, shape, 0, 11);
    make_sample(k, shape, shape->offset, 22);
}

static inline qk_moments *moments_of(const qk_block *s)
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
        const qk_block row =
            s->f32 ? floats(s->f32 + i * d, t, 1, d) : doubles(s->f64 + i * d, t, 1, d);
        assert_int_equal(qk_accumulator_add(acc, &row, &err), QK_OK);
    }
    assert_int_equal(qk_accumulator_finish(&acc, &m, &err), QK_OK);
    return m;
}

static inline qk_status fit_to(const qk_moments *m, const qk_block *q, const qk_block *k,
                               const qk_plasticity_settings *settings, qk_plasticity **p,
                               qk_error *err)
{
    const qk__plasticity_input in = {
        .queries = q, .keys = k, .settings = settings, .stream = STREAM};
    return qk__plasticity_fit(m, &in, 1, p, err);
}

static inline qk_plasticity *fit(const qk_block *q, const qk_block *k,
                                 const qk_plasticity_settings *settings)
{
    qk_moments *m = moments_of(q);
    qk_plasticity *p;
    qk_error err;
    assert_int_equal(fit_to(m, q, k, settings, &p, &err), QK_OK);
    qk_moments_free(&m);
    return p;
}

static inline qk_plasticity_settings exactly(void)
{
    qk_plasticity_settings s;
    qk_settings_default(&qk__plasticity_settings_table, &s);
    s.max_pairs = 0;
    return s;
}

static inline void assert_near(double a, double b, double tolerance)
{
    if (isnan(a) && isnan(b))
        return;
    if (!(fabs(a - b) <= tolerance))
        print_message("# %.17g is not %.17g\n", a, b);
    assert_true(fabs(a - b) <= tolerance);
}

#endif
