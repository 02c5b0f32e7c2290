/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bfloat16 numbers without an instruction for them, to the same bits as with it: fused
 * multiplications in float32, of each pair the second first, and what is smaller than 2^-126 is 0.
 * For the file of each instruction set to include behind panel_kernel_body.h. The processor takes
 * small numbers for 0 by itself during WHILE_FLUSHING(sums, ...), which is sums(..., false); a file that defines
 * it otherwise defines FLUSHED(x), too: x, or 0 with its sign where it is small; sums(..., true) uses that. */
#ifndef QK_PREFILL_BF16_KERNEL_BODY_H
#define QK_PREFILL_BF16_KERNEL_BODY_H

#include <math.h>

#include "prefill/bf16_kernel.h"
#include "prefill/rounding.h"

#ifndef FLUSHED
#include <immintrin.h>

enum { DENORMALS_ARE_ZERO = 0x40 }; /* a bit of the control register */

#define FLUSHED(x) (x)
#define WHILE_FLUSHING(sums, ...)                                                              \
    do {                                                                                       \
        unsigned control_ = _mm_getcsr();                                                      \
        _mm_setcsr(control_ | _MM_FLUSH_ZERO_ON | DENORMALS_ARE_ZERO);                         \
        sums(__VA_ARGS__, false);                                                              \
        _mm_setcsr(control_);                                                                  \
    } while (0)
#endif

/* Adds the products of one number of each row. */
#define ADD_PRODUCTS(from, row)                                                                \
    do {                                                                                       \
        vec x_[TILE_VECS];                                                                     \
        for (size_t v_ = 0; v_ < TILE_VECS; v_++)                                              \
            LOAD(x_[v_], (row) + v_ * WIDTH);                                                  \
        _Pragma("GCC unroll 8") for (size_t r_ = 0; r_ < TILE_ROWS; r_++)                      \
        {                                                                                      \
            vec w_ = ALL((from)[r_ * row_step]);                                               \
            for (size_t v_ = 0; v_ < TILE_VECS; v_++) {                                        \
                sum[r_][v_] = FMA(w_, x_[v_], sum[r_][v_]);                                    \
                if (flush)                                                                     \
                    sum[r_][v_] = FLUSHED(sum[r_][v_]);                                        \
            }                                                                                  \
        }                                                                                      \
    } while (0)

/* Some rows and lanes of a tile's sums, as sub_tile; flush is a constant at each call. */
INNERMOST void sub_tile_of_pairs(const float *a, size_t row_step, size_t step, size_t length,
                                 size_t parts, size_t part_step, const float *b, float *y,
                                 bool flush)
{
    vec sum[TILE_ROWS][TILE_VECS];
    for (size_t r = 0; r < TILE_ROWS; r++)
        for (size_t v = 0; v < TILE_VECS; v++)
            sum[r][v] = ALL(0.0f);
    for (size_t part = 0; part < parts; part++) {
        const float *from = a + part * part_step;
        for (size_t k = 0; k + 1 < length; k += 2, from += 2 * step, b += 2 * QK_LANES) {
            ADD_PRODUCTS(from + step, b + QK_LANES);
            ADD_PRODUCTS(from, b);
        }
        if (length % 2 == 0)
            continue;
        for (size_t r = 0; r < TILE_ROWS; r++) /* the second is 0: -0 becomes 0 */
            for (size_t v = 0; v < TILE_VECS; v++)
                sum[r][v] = sum[r][v] + ALL(0.0f);
        ADD_PRODUCTS(from, b);
        b += QK_LANES;
    }
    for (size_t r = 0; r < TILE_ROWS; r++)
        for (size_t v = 0; v < TILE_VECS; v++)
            STORE(y + r * QK_LANES + v * WIDTH, sum[r][v]);
}

/* Not inlined: nothing of it may move to where the control register is another. */
static __attribute__((noinline)) void sums_of_pairs(const float *a, size_t row_step,
                                                    size_t step, size_t length, size_t parts,
                                                    size_t part_step, const float *b, float *y,
                                                    bool flush)
{
    for (size_t r = 0; r < QK_TILE; r += TILE_ROWS)
        for (size_t lane = 0; lane < QK_LANES; lane += TILE_VECS * WIDTH) {
            const float *from = a + r * row_step;
            float *to = y + r * QK_LANES + lane;
            if (flush)
                sub_tile_of_pairs(from, row_step, step, length, parts, part_step, b + lane, to,
                                  true);
            else
                sub_tile_of_pairs(from, row_step, step, length, parts, part_step, b + lane, to,
                                  false);
        }
}

static void tile_of_pairs(const float *a, size_t row_step, size_t step, size_t length,
                          size_t parts, size_t part_step, const float *b, bool add, float scale,
                          float *y)
{
    float sums[QK_TILE * QK_LANES];
    WHILE_FLUSHING(sums_of_pairs, a, row_step, step, length, parts, part_step, b, sums);
    for (size_t i = 0; i < QK_TILE * QK_LANES; i++) {
        float value = sums[i] * scale;
        y[i] = add ? y[i] + value : value;
    }
}

static void rows_of_pairs(const float *a, size_t row_step, size_t length, size_t parts,
                          size_t part_step, const float *b, bool add, float *y)
{
    tile_of_pairs(a, row_step, 1, length, parts, part_step, b, add, 1, y);
}

static void columns_of_pairs(const float *a, size_t length, const float *b, float scale,
                             float *y)
{
    tile_of_pairs(a, 1, QK_LANES, length, 1, 0, b, false, scale, y);
}

static void round_all(float *x, size_t n)
{
    qk__round_values(QK__BF16, x, n);
}

static void pair_lanes(float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] =
            fabsf(values[i]) < 0x1p-126f ? copysignf(0, values[i]) : qk__bf16(values[i]);
}

static void pair_features(const float *from, size_t features, float *to)
{
    if (to != from)
        memmove(to, from, features * QK_LANES * sizeof *to);
    pair_lanes(to, features * QK_LANES);
}

/* The members of a qk__bf16_kernel. */
#define BF16_KERNEL false, rows_of_pairs, columns_of_pairs, round_all, pair_features, pair_lanes

#endif
