/* SPDX-License-Identifier: Apache-2.0 */
/* Every prefill kernel against the portable one, bit for bit, and that one's exponentials and activations
 * in double precision; test_prefill.py and test_attention.py hold its sums and tallies against NumPy. */
#include "tests/unit.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/simd.h"
#include "prefill/panel_kernel.h"

enum { LENGTH = 77, PARTS = 3, STEP = 128, PANEL = QK_TILE * QK_LANES };

/* Ordinary values with a few enormous, tiny, zero and (if asked for) infinite ones among them. */
static float sample(uint64_t *seed, bool wild)
{
    float u = (float)random_unit(seed);
    switch ((int)(fabs(random_unit(seed)) * 40)) {
    case 0:
        return wild ? u * 1e30f : u;
    case 1:
        return u * 1e-30f;
    case 2:
        return 0;
    case 3:
        return wild ? (u > 0.5f ? NAN : u > 0 ? INFINITY : -INFINITY) : u;
    default:
        return u;
    }
}

static void fill(float *x, size_t n, uint64_t *seed, bool wild)
{
    for (size_t i = 0; i < n; i++)
        x[i] = sample(seed, wild);
}

/* Not-a-number has many bit patterns; which one comes out is not promised. */
static void assert_same(const float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(isnan(x[i]) && isnan(y[i])))
            assert_memory_equal(&x[i], &y[i], sizeof *x);
}

static void products_agree(void **state)
{
    (void)state;
    static float a[QK_TILE * STEP * PARTS], b[LENGTH * PARTS * QK_LANES];
    qk__each_version (k, qk__panel_kernels) {
        const qk__panel_kernel *kernel = qk__panel_kernels[k];
        uint64_t seed = 1;
        for (size_t round = 0; round < 40; round++) {
            float expected[PANEL], y[PANEL];
            size_t length = 1 + round * 2 % LENGTH, parts = 1 + round % PARTS;
            fill(a, sizeof a / sizeof *a, &seed, round % 4 == 3);
            fill(b, sizeof b / sizeof *b, &seed, round % 4 == 3);
            fill(expected, PANEL, &seed, false);
            memcpy(y, expected, sizeof y);
            qk__panel_portable.rows(a, STEP, length, parts, STEP * QK_TILE, b, round % 2,
                                    expected);
            kernel->rows(a, STEP, length, parts, STEP * QK_TILE, b, round % 2, y);
            assert_same(y, expected, PANEL);
            qk__panel_portable.columns(a, length, b, expected);
            kernel->columns(a, length, b, y);
            assert_same(y, expected, PANEL);
        }
    }
}

typedef struct softmax_state {
    float scores[32 * QK_LANES], top[QK_LANES], total[QK_LANES], sums[10 * QK_LANES];
} softmax_state;

static void softmax_start(softmax_state *s, uint64_t *seed, bool wild)
{
    fill(s->scores, 32 * QK_LANES, seed, wild);
    for (size_t i = 0; i < 32 * QK_LANES; i++)
        s->scores[i] = i % 7 == 0 ? -INFINITY : s->scores[i] * 200;
    fill(s->top, QK_LANES, seed, wild);
    fill(s->total, QK_LANES, seed, wild);
    fill(s->sums, 10 * QK_LANES, seed, wild);
    s->top[3] = s->top[20] = -FLT_MAX;
    for (size_t i = 0; i < 32; i++) /* a query that sees none of these keys */
        s->scores[i * QK_LANES + 3] = -INFINITY;
}

static void softmax_agrees(void **state)
{
    (void)state;
    qk__each_version (k, qk__panel_kernels) {
        uint64_t seed = 3;
        for (size_t round = 0; round < 50; round++) {
            softmax_state x, y;
            softmax_start(&x, &seed, round % 3 == 2);
            y = x;
            size_t keys = 4 + round % 8 * 4;
            qk__panel_portable.softmax(x.scores, keys, x.top, x.total, x.sums, 10);
            qk__panel_kernels[k]->softmax(y.scores, keys, y.top, y.total, y.sums, 10);
            assert_same((float *)&x, (float *)&y, sizeof x / sizeof(float));
        }
    }
}

/* ---- tallies ----------------------------------------------------------------------------- */

enum { TALLY_KEYS = QK_KEY_PANELS * QK_LANES, FEATURES = 10 };

typedef struct tally_state {
    float scores[TALLY_KEYS * QK_LANES], top[QK_LANES], total[QK_LANES],
        sums[FEATURES * QK_LANES];
    qk__head_tally tally;
} tally_state;

/* Queries' tokens are 0 .. 6, keys' as well. */
static const int32_t *tokens_of_test(void)
{
    static int32_t tokens[1 + 3 * TALLY_KEYS];
    for (size_t i = 0; i <= 3 * TALLY_KEYS; i++)
        tokens[i] = (int32_t)(i * i % 11) % 7;
    tokens[0] = -1;
    return tokens + 1;
}

/* The first block of a text where first_key is 0. Bins 3 and 4 get two panels. */
static void tally_block(const qk__panel_kernel *kernel, tally_state *s, size_t panels,
                        size_t first_key)
{
    qk__tally_block block = {
        .scores = s->scores,
        .keys = panels * QK_LANES,
        .passed = first_key == 0 ? QK_SINK_KEYS : 0,
        .ahead = (float)(2 * TALLY_KEYS) - (float)first_key,
        .num_sums = QK_TALLY_SUMS,
        .query_tokens = tokens_of_test() + 2 * TALLY_KEYS,
        .key_tokens = tokens_of_test() + first_key,
        .bins = {s->tally.sums[QK_TALLY_BINS + 3], NULL, s->tally.sums[QK_TALLY_BINS + 4]},
    };
    kernel->tally(&block, s->top, s->total, s->sums, FEATURES, &s->tally);
    kernel->band(s->scores, block.passed, -7, 4, s->tally.sums[QK_TALLY_BINS]);
}

static void fill_scores(tally_state *s, uint64_t *seed, bool wild)
{
    fill(s->scores, TALLY_KEYS * QK_LANES, seed, wild);
    for (size_t i = 0; i < TALLY_KEYS * QK_LANES; i++)
        s->scores[i] = i % 7 == 0 ? -INFINITY : s->scores[i] * 8;
    for (size_t i = 0; i < TALLY_KEYS; i++) /* a query that sees none of these keys */
        s->scores[i * QK_LANES + 3] = -INFINITY;
}

/* And the softmax is the one without a tally. */
static void tallies_agree(void **state)
{
    (void)state;
    qk__each_version (k, qk__panel_kernels) {
        uint64_t seed = 8;
        for (size_t round = 0; round < 30; round++) {
            static tally_state x, y, plain;
            bool wild = round % 3 == 2;
            size_t panels = 1 + round % QK_KEY_PANELS;
            fill((float *)&x, sizeof x / sizeof(float), &seed, false);
            for (size_t lane = 0; lane < QK_LANES; lane++)
                x.top[lane] = lane % 5 == 0 ? -FLT_MAX : x.top[lane] * 8;
            fill_scores(&x, &seed, wild);
            y = plain = x;
            tally_block(&qk__panel_portable, &x, panels, round % 2 * TALLY_KEYS);
            tally_block(qk__panel_kernels[k], &y, panels, round % 2 * TALLY_KEYS);
            assert_same((float *)&x, (float *)&y, sizeof x / sizeof(float));
            qk__panel_portable.softmax(plain.scores, panels * QK_LANES, plain.top, plain.total,
                                       plain.sums, FEATURES);
            assert_same(x.scores, plain.scores, TALLY_KEYS * QK_LANES);
            assert_same(x.top, plain.top, QK_LANES);
            assert_same(x.total, plain.total, QK_LANES);
            assert_same(x.sums, plain.sums, FEATURES * QK_LANES);
        }
    }
}

/* 2^x by itself: the weight of a score x beside a score 0. */
static void exponential_is_right(void **state)
{
    (void)state;
    double worst = 0;
    for (int from = 0; from < 125; from++) {
        softmax_state s;
        memset(&s, 0, sizeof s);
        for (size_t i = 1; i < 32; i++)
            for (size_t lane = 0; lane < QK_LANES; lane++)
                s.scores[i * QK_LANES + lane] =
                    -((float)from + (float)(i * QK_LANES + lane) / 1024);
        float x[32 * QK_LANES];
        memcpy(x, s.scores, sizeof x);
        qk__panel_portable.softmax(s.scores, 32, s.top, s.total, s.sums, 1);
        for (size_t i = 0; i < 32 * QK_LANES; i++)
            worst = fmax(worst, fabs(s.scores[i] / exp2(x[i]) - 1));
    }
    print_message("# largest relative error of 2^x: %.3g\n", worst);
    assert_true(worst < 1.2e-7);
}

static double activation_of(qk__activation activation, double x)
{
    if (activation == QK_SILU)
        return x / (1 + exp(-x));
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}

static void activations_are_right(void **state)
{
    (void)state;
    static float x[QK_LANES * 400], y[QK_LANES * 400];
    enum { N = QK_LANES * 400 };
    for (int activation = QK_SILU; activation <= QK_GELU_TANH; activation++)
        qk__each_version (k, qk__panel_kernels) {
            double worst = 0;
            for (size_t i = 0; i < N; i++)
                x[i] = y[i] = ((float)i - N / 2) / 400;
            qk__panel_kernels[k]->activate((qk__activation)activation, y, N);
            for (size_t i = 0; i < N; i++) {
                double error = fabs(y[i] - activation_of((qk__activation)activation, x[i]));
                worst = fmax(worst, error / fmax(0.1, fabs(x[i])));
            }
            assert_true(worst < 3e-7);
        }
}

static void activations_agree(void **state)
{
    (void)state;
    float x[QK_LANES * 8], y[QK_LANES * 8], start[QK_LANES * 8];
    uint64_t seed = 5;
    qk__each_version (k, qk__panel_kernels)
        for (size_t round = 0; round < 50; round++) {
            fill(start, QK_LANES * 8, &seed, round % 2);
            for (size_t i = 0; i < QK_LANES * 8; i++)
                start[i] *= 50;
            for (int a = QK_SILU; a <= QK_GELU_TANH; a++) {
                memcpy(x, start, sizeof x);
                memcpy(y, start, sizeof y);
                qk__panel_portable.activate((qk__activation)a, x, QK_LANES * 8);
                qk__panel_kernels[k]->activate((qk__activation)a, y, QK_LANES * 8);
                assert_same(x, y, QK_LANES * 8);
            }
        }
}

static void norms_agree(void **state)
{
    (void)state;
    enum { WIDTH = 77 }; /* more than a stretch of squares */
    static float x[WIDTH * QK_LANES], expected[WIDTH * QK_LANES], y[WIDTH * QK_LANES];
    float weight[WIDTH];
    uint64_t seed = 6;
    qk__each_version (k, qk__panel_kernels)
        for (int round = 0; round < 36; round++) {
            qk__norm norm = {(qk__norm_kind)(round / 3 % 3), 1e-5f, (qk__rounding)(round % 3),
                             1 + (size_t)round * 29 % WIDTH, weight};
            fill(x, WIDTH * QK_LANES, &seed, round % 5 == 4);
            fill(weight, WIDTH, &seed, false);
            qk__panel_portable.norm(&norm, x, expected);
            qk__panel_kernels[k]->norm(&norm, x, y);
            assert_same(y, expected, norm.width * QK_LANES);
            qk__panel_kernels[k]->norm(&norm, x, x);
            assert_same(x, expected, norm.width * QK_LANES);
        }
}

static void turns_agree(void **state)
{
    (void)state;
    uint64_t seed = 7;
    qk__each_version (k, qk__panel_kernels)
        for (int round = 0; round < 60; round++) {
            float a[2][QK_LANES], b[2][QK_LANES], c[QK_LANES], s[QK_LANES];
            fill(a[0], QK_LANES, &seed, round % 5 == 4);
            fill(b[0], QK_LANES, &seed, round % 5 == 4);
            fill(c, QK_LANES, &seed, false);
            fill(s, QK_LANES, &seed, false);
            memcpy(a[1], a[0], sizeof c);
            memcpy(b[1], b[0], sizeof c);
            qk__rounding rounding = (qk__rounding)(round % 3);
            qk__panel_portable.turn(rounding, a[0], b[0], c, s);
            qk__panel_kernels[k]->turn(rounding, a[1], b[1], c, s);
            assert_same(a[1], a[0], QK_LANES);
            assert_same(b[1], b[0], QK_LANES);
            if (rounding == QK__BF16 && !isnan(a[0][5]))
                assert_true(a[0][5] == qk__bf16(a[0][5]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_agree),       cmocka_unit_test(softmax_agrees),
        cmocka_unit_test(exponential_is_right), cmocka_unit_test(activations_are_right),
        cmocka_unit_test(activations_agree),    cmocka_unit_test(norms_agree),
        cmocka_unit_test(turns_agree),          cmocka_unit_test(tallies_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
