/* SPDX-License-Identifier: Apache-2.0 */
/* The statistic from a histogram equals the one from sorting; the shapes of reflected queries
 * equal those computed row by row; the corner cases. */
#include "unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "stats/kolmogorov.h"
#include "stats/ks_statistic.h"
#include "stats/normality.h"

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double naive_ks(const double *x, size_t n, double centre, double scale)
{
    double *sorted = malloc((n + 1) * sizeof *sorted), d = 0;
    assert_non_null(sorted);
    memcpy(sorted, x, n * sizeof *x);
    qsort(sorted, n, sizeof *sorted, ascending);
    for (size_t i = 0; i < n; i++) {
        double p = erfc(-(sorted[i] - centre) * scale / sqrt(2)) / 2;
        d = fmax(d, fmax((double)(i + 1) / (double)n - p, p - (double)i / (double)n));
    }
    free(sorted);
    return d;
}

enum { KINDS = 9 };

static double draw(qk__rng *rng, int kind)
{
    double z = qk__rng_gaussian(rng);
    switch (kind) {
    case 0:
        return z;
    case 1:
        return z * z * z * z * z;
    case 2: /* eight bits, as bfloat16 */
        return rint(z * 32) / 32;
    case 3: /* without a mean */
        return tan(1.5707 * (2 * qk__rng_uniform(rng) - 1));
    case 4:
        return qk__rng_uniform(rng);
    case 5: /* all in one bin, many of them */
        return 1e-5 * rint(z * 8) + 1e-7 * qk__rng_uniform(rng);
    case 6:
        return 3;
    case 7: /* two points far out */
        return z > 0 ? 7 : -7;
    default:
        return z + (qk__rng_uniform(rng) < 0.3 ? 6 : 0);
    }
}

static void statistic_as_by_sorting(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,  1,   2,   3,   5,    16,   31,   32,
                                   33, 255, 256, 300, 1999, 8000, 20000};
    static const double scales[] = {1, 0.1, 5};
    qk__rng rng;
    qk__rng_init(&rng, 1, NULL, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        double *x = malloc((n + 1) * sizeof *x);
        qk__ks *ks;
        qk_error err;
        assert_non_null(x);
        assert_int_equal(qk__ks_create(&ks, n, &err), QK_OK);
        for (int kind = 0; kind < KINDS; kind++) {
            for (size_t j = 0; j < n; j++)
                x[j] = draw(&rng, kind);
            for (int j = 0; j < 3; j++) {
                double centre = j == 2 ? 0.7 : 0;
                double found = qk__ks_normal(ks, x, centre, scales[j]);
                /* half of the 2.6e-15 of normal_table.h, and the rounding of both */
                assert_true(fabs(found - naive_ks(x, n, centre, scales[j])) < 2e-15);
            }
        }
        qk__ks_free(&ks);
        free(x);
    }
}

static void statistic_of_extreme_values(void **state)
{
    (void)state;
    double x[] = {-DBL_MAX, -1e300, -4, -4, 0, 0, DBL_MIN, 3.9999, 4, 4.0001, 1e300, DBL_MAX};
    size_t n = sizeof x / sizeof *x;
    qk__ks *ks;
    qk_error err;
    assert_int_equal(qk__ks_create(&ks, n, &err), QK_OK);
    assert_true(fabs(qk__ks_normal(ks, x, 0, 1) - naive_ks(x, n, 0, 1)) < 1e-15);
    qk__ks_free(&ks);
    assert_null(ks);
}

typedef struct head {
    qk_block sample;
    qk_moments *moments;
    qk__query_model *model;
    double *rows;
    float *floats;
    int64_t *position;
} head;

/* Rows with drift along a direction of their own, of different spreads and shapes. */
static void make_head(head *h, size_t rows, size_t dim, double drift, bool floats)
{
    *h = (head){.rows = malloc((rows * dim + 1) * sizeof *h->rows),
                .floats = malloc((rows * dim + 1) * sizeof *h->floats),
                .position = malloc((rows + 1) * sizeof *h->position)};
    assert_true(h->rows && h->floats && h->position);
    qk__rng rng;
    qk__rng_init(&rng, rows * 1000 + dim, NULL, 0);
    for (size_t r = 0; r < rows; r++) {
        int64_t t = (int64_t)qk__rng_below(&rng, 4096);
        h->position[r] = t;
        for (size_t c = 0; c < dim; c++) {
            double x = draw(&rng, (int)(c % 3)) * (double)(1 + c % 5) + 10 * (double)(c % 4) +
                       drift * (double)t * (double)((c * 7) % 5);
            h->floats[r * dim + c] = (float)x;
            h->rows[r * dim + c] = floats ? (double)(float)x : x;
        }
    }
    h->sample = (qk_block){.rows = rows, .dim = dim, .position = h->position};
    if (floats)
        h->sample.f32 = h->floats;
    else
        h->sample.f64 = h->rows;
}

static void fit_head(head *h)
{
    qk_accumulator *acc;
    qk_error err;
    assert_int_equal(qk_accumulator_create(&acc, h->sample.dim, &err), QK_OK);
    assert_int_equal(qk_accumulator_add(acc, &h->sample, &err), QK_OK);
    assert_int_equal(qk_accumulator_finish(&acc, &h->moments, &err), QK_OK);
    assert_int_equal(qk__query_model_create(&h->model, h->moments, NULL, 1, &err), QK_OK);
}

static void free_head(head *h)
{
    qk__query_model_free(&h->model);
    qk_moments_free(&h->moments);
    free(h->rows);
    free(h->floats);
    free(h->position);
}

static qk_plasticity describe(const head *h, double ks_alpha)
{
    qk_plasticity out;
    qk_error err;
    memset(&out, 0, sizeof out);
    const qk_plasticity_settings settings = {.ks_alpha = ks_alpha};
    assert_int_equal(qk__describe_queries(h->model, &h->sample, &settings, &out, &err), QK_OK);
    return out;
}

/* Coordinate c of the reflected rows, long double; of the first the residual. */
static void naive_coordinate(const head *h, size_t c, long double *y)
{
    const qk__query_model *m = h->model;
    for (size_t r = 0; r < h->sample.rows; r++) {
        const double *x = h->rows + r * m->dim;
        long double along = 0;
        for (size_t i = 0; i < m->dim; i++)
            along += (long double)m->mirror[i] * ((long double)x[i] - m->mean[i]);
        y[r] = (long double)x[c] - m->mean[c] - 2 * along * m->mirror[c];
        if (c == 0)
            y[r] -= m->beta_norm * ((long double)h->position[r] - m->mean_t);
    }
}

typedef struct naive {
    double skew, kurt, p;
} naive;

static naive naive_shape(const long double *y, size_t rows)
{
    long double n = (long double)rows, mean = 0, m2 = 0, m3 = 0, m4 = 0;
    double *z = malloc(rows * sizeof *z);
    assert_non_null(z);
    for (size_t r = 0; r < rows; r++)
        mean += y[r] / n;
    for (size_t r = 0; r < rows; r++) {
        long double e = y[r] - mean;
        m2 += e * e / n;
        m3 += e * e * e / n;
        m4 += e * e * e * e / n;
    }
    for (size_t r = 0; r < rows; r++)
        z[r] = (double)((y[r] - mean) / sqrtl(m2 * n / (n - 1)));
    naive s = {
        .skew = (double)(sqrtl(n * (n - 1)) / (n - 2) * m3 / powl(m2, 1.5L)),
        .kurt = (double)((n - 1) / ((n - 2) * (n - 3)) * ((n + 1) * (m4 / (m2 * m2) - 3) + 6)),
        .p = qk__kolmogorov_p((int64_t)rows, naive_ks(z, rows, 0, 1))};
    free(z);
    return s;
}

static double naive_median(double *x, size_t n)
{
    qsort(x, n, sizeof *x, ascending);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

static bool close_to(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance * fmax(1, fabs(b));
}

static void check_shapes(size_t rows, size_t dim, double drift, bool floats)
{
    head h;
    make_head(&h, rows, dim, drift, floats);
    fit_head(&h);
    double skew[200], kurt[200], p[200], below = 0;
    long double *y = malloc(rows * sizeof *y);
    assert_non_null(y);
    for (size_t c = 0; c < dim; c++) {
        naive_coordinate(&h, c, y);
        naive s = naive_shape(y, rows);
        skew[c] = c == 0 ? s.skew : fabs(s.skew);
        kurt[c] = c == 0 ? s.kurt : fabs(s.kurt);
        p[c] = s.p;
        below += c > 0 && s.p < 0.3;
    }
    qk_plasticity out = describe(&h, 0.3);
    assert_true(close_to(out.resid0_skew, skew[0], 1e-12));
    assert_true(close_to(out.resid0_kurt, kurt[0], 1e-12));
    assert_true(close_to(out.resid0_ks_p, p[0], 1e-11));
    if (dim > 1) {
        assert_true(close_to(out.noise_med_abs_skew, naive_median(skew + 1, dim - 1), 1e-12));
        assert_true(close_to(out.noise_med_abs_kurt, naive_median(kurt + 1, dim - 1), 1e-12));
        assert_true(close_to(out.noise_med_ks_p, naive_median(p + 1, dim - 1), 1e-11));
        assert_true(close_to(out.noise_frac_ks_p_lt_alpha, below / (double)(dim - 1), 1e-15));
    } else {
        assert_true(isnan(out.noise_med_abs_skew) && isnan(out.noise_med_abs_kurt));
        assert_true(isnan(out.noise_med_ks_p) && isnan(out.noise_frac_ks_p_lt_alpha));
    }
    free(y);
    free_head(&h);
}

static void shapes_as_row_by_row(void **state)
{
    (void)state;
    check_shapes(4, 3, 0.01, true);
    check_shapes(50, 1, 0.01, false);
    check_shapes(50, 7, 0.01, true);
    check_shapes(333, 16, 0, false);
    check_shapes(1000, 17, 1e-3, true);
    check_shapes(1003, 64, 1e-2, false);
    check_shapes(2000, 130, 1e-3, true);
    check_shapes(16400, 21, 1e-3, true); /* narrow panels */
}

/* log2(t + 1) by the drift coordinate, whose scale and origin do not matter. */
static void position_as_row_by_row(void **state)
{
    (void)state;
    head h;
    make_head(&h, 500, 12, 0.02, true);
    fit_head(&h);
    double s[500], y[500], ms = 0, my = 0, ss = 0, sy = 0, yy = 0, baseline = 0, left = 0;
    for (size_t r = 0; r < 500; r++) {
        s[r] = 0;
        for (size_t c = 0; c < 12; c++)
            s[r] += h.model->beta[c] / h.model->beta_norm * h.rows[r * 12 + c];
        y[r] = log2((double)h.position[r] + 1);
        ms += s[r] / 500;
        my += y[r] / 500;
    }
    for (size_t r = 0; r < 500; r++) {
        ss += (s[r] - ms) * (s[r] - ms);
        sy += (s[r] - ms) * (y[r] - my);
        yy += (y[r] - my) * (y[r] - my);
    }
    for (size_t r = 0; r < 500; r++) {
        baseline += fabs(y[r] - my) / 500;
        left += fabs(y[r] - my - sy / ss * (s[r] - ms)) / 500;
    }
    qk_plasticity out = describe(&h, 0.01);
    assert_true(close_to(out.q_r2_scalar, sy * sy / (ss * yy), 1e-12));
    assert_true(close_to(out.q_mae_baseline, baseline, 1e-12));
    assert_true(close_to(out.q_mae_proj, left, 1e-12));
    assert_true(close_to(out.q_mae_ratio, left / baseline, 1e-12));
    assert_true(out.q_r2_scalar > 0.1);

    h.position[7] = -1;
    out = describe(&h, 0.01);
    assert_true(isnan(out.q_r2_scalar) && isnan(out.q_mae_baseline));
    assert_true(isnan(out.q_mae_proj) && isnan(out.q_mae_ratio));
    assert_false(isnan(out.resid0_skew));
    free_head(&h);
}

static void few_rows(void **state)
{
    (void)state;
    for (size_t rows = 0; rows < 5; rows++) {
        head h;
        make_head(&h, rows, 6, 0.01, true);
        fit_head(&h);
        qk_plasticity out = describe(&h, 0.01);
        /* two rows with a line through them leave nothing, and nothing off the line either */
        assert_int_equal(isnan(out.resid0_skew), rows < 3);
        assert_int_equal(isnan(out.noise_med_abs_skew), rows < 3);
        assert_int_equal(isnan(out.resid0_kurt), rows < 4);
        assert_int_equal(isnan(out.noise_med_abs_kurt), rows < 4);
        assert_int_equal(isnan(out.noise_med_ks_p), rows < 3);
        assert_int_equal(isnan(out.q_r2_scalar), rows < 2);
        assert_int_equal(isnan(out.q_mae_baseline), rows < 1);
        free_head(&h);
    }
}

static void without_variance_or_drift(void **state)
{
    (void)state;
    head h;
    make_head(&h, 60, 5, 0, false);
    for (size_t r = 0; r < 60; r++) { /* equal positions; two dimensions constant */
        h.position[r] = 17;
        h.rows[r * 5] = 0.1;
        h.rows[r * 5 + 3] = -1e6;
    }
    fit_head(&h);
    qk_plasticity out = describe(&h, 1);
    assert_true(h.model->variance[0] == 0 && h.model->variance[3] == 0);
    assert_true(isnan(out.resid0_skew) && isnan(out.resid0_kurt) && isnan(out.resid0_ks_p));
    assert_true(out.noise_frac_ks_p_lt_alpha == 1 && out.noise_med_abs_skew > 0);
    assert_true(isnan(out.q_r2_scalar) && isnan(out.q_mae_ratio));
    assert_true(out.q_mae_baseline == 0 && out.q_mae_proj == 0);
    free_head(&h);

    make_head(&h, 60, 5, 0, false);
    for (size_t r = 0; r < 60; r++) { /* the same row at every position */
        for (size_t c = 0; c < 5; c++)
            h.rows[r * 5 + c] = 0.3;
    }
    fit_head(&h);
    out = describe(&h, 0.01);
    assert_true(out.q_r2_scalar == 0 && out.q_mae_ratio == 1);
    assert_true(out.q_mae_proj == out.q_mae_baseline && out.q_mae_baseline > 0);
    assert_true(isnan(out.noise_med_abs_skew) && isnan(out.noise_med_ks_p));
    assert_true(isnan(out.noise_frac_ks_p_lt_alpha));
    free_head(&h);
}

static void values_of_any_size(void **state)
{
    (void)state;
    static const double factors[] = {1e-140, 1e-30, 1e30, 1e140};
    head h;
    make_head(&h, 200, 9, 1e-3, false);
    fit_head(&h);
    qk_plasticity expected = describe(&h, 0.5);
    free_head(&h);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        make_head(&h, 200, 9, 1e-3, false);
        for (size_t j = 0; j < 200 * 9; j++)
            h.rows[j] *= factors[i];
        fit_head(&h);
        qk_plasticity out = describe(&h, 0.5);
        assert_true(close_to(out.resid0_kurt, expected.resid0_kurt, 1e-11));
        assert_true(close_to(out.noise_med_abs_skew, expected.noise_med_abs_skew, 1e-11));
        assert_true(close_to(out.noise_med_ks_p, expected.noise_med_ks_p, 1e-11));
        assert_true(close_to(out.q_r2_scalar, expected.q_r2_scalar, 1e-11));
        free_head(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistic_as_by_sorting),
        cmocka_unit_test(statistic_of_extreme_values),
        cmocka_unit_test(shapes_as_row_by_row),
        cmocka_unit_test(position_as_row_by_row),
        cmocka_unit_test(few_rows),
        cmocka_unit_test(without_variance_or_drift),
        cmocka_unit_test(values_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
