/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bfloat16 numbers: the portable kernel against the definition of the instruction; every
 * other that the processor has against the portable one, bit for bit, with odd numbers of features,
 * infinities, tiny numbers and zeros of both signs. */
#include "tests/unit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "prefill/bf16_kernel.h"
#include "prefill/panel_kernel.h"
#include "prefill/rounding.h"

enum { LONGEST = 77, PARTS = 3, STEP = 80, PANEL = QK_TILE * QK_LANES };

/* Values whose products and sums are around 1, or around 2^-126, some of them zero; wild: also
 * infinite, no number, or so large that products are. */
static float sample(uint64_t *seed, int round)
{
    float u = (float)random_unit(seed);
    bool wild = round % 4 == 3, tiny = round % 4 == 2;
    switch ((int)(fabs(random_unit(seed)) * 40)) {
    case 0:
        return wild ? u * 0x1p126f : u;
    case 1:
        return u * 0x1p-130f;
    case 2:
        return copysignf(0, u);
    case 3:
        return wild ? (u > 0.5f ? NAN : u > 0 ? INFINITY : -INFINITY) : u;
    default:
        return tiny ? u * 0x1p-62f : u;
    }
}

static void fill(float *x, size_t n, uint64_t *seed, int round)
{
    for (size_t i = 0; i < n; i++)
        x[i] = sample(seed, round);
}

static void assert_same(const float *x, const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(isnan(x[i]) && isnan(y[i])))
            assert_memory_equal(&x[i], &y[i], sizeof *x);
}

/* What a number is before it is multiplied. */
static float taken(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : qk__bf16(x);
}

/* ---- one product by each kernel --------------------------------------------------------- */

typedef struct problem {
    float rows[PARTS][QK_TILE][STEP];               /* a of rows */
    float columns[LONGEST][QK_LANES];               /* a of columns, of one tile */
    float features[PARTS][(LONGEST + 1)][QK_LANES]; /* b */
    float before[PANEL];
    size_t length, parts;
    bool add;
} problem;

static void draw(problem *p, uint64_t *seed, int round)
{
    fill(p->rows[0][0], sizeof p->rows / sizeof(float), seed, round);
    fill(p->columns[0], sizeof p->columns / sizeof(float), seed, round);
    fill(p->features[0][0], sizeof p->features / sizeof(float), seed, round);
    fill(p->before, PANEL, seed, 0);
    p->length = 1 + (size_t)(round * 5 % LONGEST);
    p->parts = 1 + (size_t)round % PARTS;
    p->add = round % 2;
}

static void by_rows(const qk__bf16_kernel *kernel, const problem *given, float y[PANEL])
{
    static problem p;
    static float b[PARTS * (LONGEST + 1) * QK_LANES];
    p = *given;
    for (size_t part = 0; part < p.parts; part++) {
        for (size_t r = 0; r < QK_TILE; r++)
            kernel->pair_lanes(p.rows[part][r], p.length);
        kernel->pair_features(p.features[part][0], p.length, p.features[part][0]);
        memcpy(b + part * qk__paired(kernel, p.length) * QK_LANES, p.features[part],
               qk__paired(kernel, p.length) * QK_LANES * sizeof(float));
    }
    memcpy(y, p.before, sizeof p.before);
    kernel->rows(p.rows[0][0], STEP, p.length, p.parts, QK_TILE * STEP, b, p.add, y);
}

static void by_columns(const qk__bf16_kernel *kernel, const problem *given, float y[PANEL])
{
    static problem p;
    p = *given;
    kernel->pair_features(p.columns[0], p.length, p.columns[0]);
    kernel->pair_features(p.features[0][0], p.length, p.features[0][0]);
    kernel->columns(p.columns[0], p.length, p.features[0][0], 0.37f, y);
}

static void kernels_agree(void **state)
{
    (void)state;
    static problem p;
    if (under_valgrind())
        skip();
    if (!qk__simd_has(QK_AVX512_BF16))
        print_message("# no AVX512_BF16 here: only the kernels without it are compared\n");
    qk__each_version (k, qk__bf16_kernels) {
        uint64_t seed = 1;
        for (int round = 0; round < 200; round++) {
            float expected[PANEL], y[PANEL];
            draw(&p, &seed, round);
            by_rows(&qk__bf16_portable, &p, expected);
            by_rows(qk__bf16_kernels[k], &p, y);
            assert_same(y, expected, PANEL);
            by_columns(&qk__bf16_portable, &p, expected);
            by_columns(qk__bf16_kernels[k], &p, y);
            assert_same(y, expected, PANEL);
        }
    }
}

/* 2^-126 stays what it is where a product is too small to be seen, though the exact sum is below it. */
static void what_rounds_up_is_kept(void **state)
{
    (void)state;
    static const float factors[] = {0x1p-80f, 0x1p-63f}, sums[] = {0x1p-126f, 0};
    static problem p;
    qk__each_version (k, qk__bf16_kernels)
        for (int i = 0; i < 2; i++) {
            float y[PANEL];
            memset(&p, 0, sizeof p);
            p.length = 4;
            p.parts = 1;
            for (size_t lane = 0; lane < QK_LANES; lane++) {
                p.features[0][1][lane] = 1;
                p.features[0][2][lane] = -factors[i];
            }
            for (size_t r = 0; r < QK_TILE; r++) {
                p.rows[0][r][1] = 0x1p-126f;
                p.rows[0][r][2] = factors[i];
            }
            by_rows(qk__bf16_kernels[k], &p, y);
            for (size_t j = 0; j < PANEL; j++)
                assert_true(y[j] == sums[i]);
        }
}

/* ---- what they should be ---------------------------------------------------------------- */

/* One number's product joins a sum, by the instruction's definition: fused, small ones are 0. */
static float joined(float sum, float a, float b)
{
    float x = fmaf(taken(a), taken(b), sum);
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

static float define_columns(const problem *p, size_t r, size_t lane)
{
    float sum = 0;
    for (size_t k = 0; k < p->length; k += 2) {
        bool pair = k + 1 < p->length;
        sum = joined(sum, pair ? p->columns[k + 1][r] : 0,
                     pair ? p->features[0][k + 1][lane] : 0);
        sum = joined(sum, p->columns[k][r], p->features[0][k][lane]);
    }
    return sum * 0.37f;
}

static float define_rows(const problem *p, size_t r, size_t lane)
{
    float sum = 0;
    for (size_t part = 0; part < p->parts; part++)
        for (size_t k = 0; k < p->length; k += 2) {
            bool pair = k + 1 < p->length;
            sum = joined(sum, pair ? p->rows[part][r][k + 1] : 0,
                         pair ? p->features[part][k + 1][lane] : 0);
            sum = joined(sum, p->rows[part][r][k], p->features[part][k][lane]);
        }
    return p->add ? p->before[r * QK_LANES + lane] + sum : sum;
}

static void portable_is_the_definition(void **state)
{
    (void)state;
    static problem p;
    uint64_t seed = 2;
    size_t zeros = 0;
    for (int round = 0; round < 100; round++) {
        float y[PANEL], expected[PANEL];
        draw(&p, &seed, round);
        by_rows(&qk__bf16_portable, &p, y);
        for (size_t i = 0; i < PANEL; i++) {
            expected[i] = define_rows(&p, i / QK_LANES, i % QK_LANES);
            zeros += !p.add && expected[i] == 0;
        }
        assert_same(y, expected, PANEL);
        by_columns(&qk__bf16_portable, &p, y);
        for (size_t i = 0; i < PANEL; i++)
            expected[i] = define_columns(&p, i / QK_LANES, i % QK_LANES);
        assert_same(y, expected, PANEL);
    }
    assert_true(zeros > 20); /* sums that were too small were among them */
}

/* ---- pairing ---------------------------------------------------------------------------- */

static void pairing_is_rounding(void **state)
{
    (void)state;
    qk__each_version (k, qk__bf16_kernels) {
        const qk__bf16_kernel *kernel = qk__bf16_kernels[k];
        uint64_t seed = 4;
        for (size_t n = 1; n < 70; n++) {
            float x[72], y[72];
            fill(x, 72, &seed, (int)n);
            x[0] = 0x1.fep-127f; /* would round up to 2^-126 */
            memcpy(y, x, sizeof y);
            kernel->pair_lanes(y, n);
            for (size_t i = 0; i < n; i++) {
                float found = y[i], expected = taken(x[i]);
                uint32_t word;
                memcpy(&word, &y[i / 2], sizeof word);
                word = i % 2 ? word & 0xffff0000u : word << 16;
                if (kernel->words)
                    memcpy(&found, &word, sizeof found);
                assert_same(&found, &expected, 1);
            }
            if (kernel->words && n % 2) {
                uint32_t word;
                memcpy(&word, &y[n / 2], sizeof word);
                assert_int_equal(word >> 16, 0);
            }
            memcpy(y, x, sizeof y);
            kernel->round(y, n);
            for (size_t i = 0; i < n; i++)
                x[i] = qk__bf16(x[i]);
            assert_same(y, x, n);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_agree),
        cmocka_unit_test(what_rounds_up_is_kept),
        cmocka_unit_test(portable_is_the_definition),
        cmocka_unit_test(pairing_is_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
