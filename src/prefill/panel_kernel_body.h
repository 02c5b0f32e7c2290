/* SPDX-License-Identifier: Apache-2.0 */
/* The prefill kernels, for the file of each instruction set to include after it has defined
 *
 * - vec, a vector of WIDTH floats; TILE_ROWS x TILE_VECS of them, the sums held in registers
 * - ALL(x): x in every lane
 * - FMA(a, b, c): a b + c, rounded once
 * - LARGER(x, y): x > y ? x : y, so y where one is not a number
 * - SMALLER(x, y): x < y ? x : y
 * - KEEP_FROM(y, x, low): 0 where x < low, else y
 * - POWER(t): the float whose bits are those of t shifted left by 23 */
#ifndef QK_PREFILL_PANEL_KERNEL_BODY_H
#define QK_PREFILL_PANEL_KERNEL_BODY_H

#include <math.h>
#include <string.h>

#include "prefill/panel_kernel.h"

enum { VECS = QK_LANES / WIDTH };

#define INLINE static inline __attribute__((always_inline))

/* Macros, since what passes a vector through a call depends on the instruction set. */
#define LOAD(y, x)  memcpy(&(y), x, sizeof(vec))
#define STORE(x, y) memcpy(x, &(y), sizeof(vec))

/* Some rows and lanes of a tile: a and y point to the first of them, b to the first lane. */
INLINE void sub_tile(const float *a, size_t row_step, size_t step, size_t length, size_t parts,
                     size_t part_step, const float *b, bool add, float *y)
{
    vec sum[TILE_ROWS][TILE_VECS];
    for (size_t r = 0; r < TILE_ROWS; r++)
        for (size_t v = 0; v < TILE_VECS; v++)
            sum[r][v] = ALL(0.0f);
    for (size_t part = 0; part < parts; part++) {
        const float *from = a + part * part_step;
        for (size_t k = 0; k < length; k++, from += step, b += QK_LANES) {
            vec x[TILE_VECS];
            for (size_t v = 0; v < TILE_VECS; v++)
                LOAD(x[v], b + v * WIDTH);
#pragma GCC unroll 8
            for (size_t r = 0; r < TILE_ROWS; r++) {
                vec w = ALL(from[r * row_step]);
                for (size_t v = 0; v < TILE_VECS; v++)
                    sum[r][v] = FMA(w, x[v], sum[r][v]);
            }
        }
    }
    for (size_t r = 0; r < TILE_ROWS; r++)
        for (size_t v = 0; v < TILE_VECS; v++) {
            float *out = y + r * QK_LANES + v * WIDTH;
            if (add) {
                vec before;
                LOAD(before, out);
                sum[r][v] = before + sum[r][v];
            }
            STORE(out, sum[r][v]);
        }
}

INLINE void tile(const float *a, size_t row_step, size_t step, size_t length, size_t parts,
                 size_t part_step, const float *b, bool add, float *y)
{
    for (size_t r = 0; r < QK_TILE; r += TILE_ROWS)
        for (size_t lane = 0; lane < QK_LANES; lane += TILE_VECS * WIDTH)
            sub_tile(a + r * row_step, row_step, step, length, parts, part_step, b + lane, add,
                     y + r * QK_LANES + lane);
}

static void rows(const float *a, size_t row_step, size_t length, size_t parts, size_t part_step,
                 const float *b, bool add, float *y)
{
    tile(a, row_step, 1, length, parts, part_step, b, add, y);
}

static void columns(const float *a, size_t length, const float *b, float *y)
{
    tile(a, 1, QK_LANES, length, 1, 0, b, false, y);
}

/* y = 2^x to 7e-8 of its value, 0 below 2^-126, 2^127 above it. Adding 1.5 2^23
 * rounds to a whole number n, which then stands in the last bits, 127 more for the exponent of
 * a float; the polynomial is 2^r for |r| <= 1/2 to 2e-9. */
#define EXP2(y, x)                                                                             \
    do {                                                                                       \
        const vec shift_ = ALL(0x1.8p23f + 127);                                               \
        vec x_ = LARGER(ALL(-126.0f), SMALLER(ALL(127.0f), x));                                \
        vec t_ = x_ + shift_;                                                                  \
        vec r_ = x_ - (t_ - shift_);                                                           \
        vec p_ = ALL(0x1.41fbbcp-13f);                                                         \
        p_ = FMA(p_, r_, ALL(0x1.5f3e54p-10f));                                                \
        p_ = FMA(p_, r_, ALL(0x1.3b2d4cp-7f));                                                 \
        p_ = FMA(p_, r_, ALL(0x1.c6aee8p-5f));                                                 \
        p_ = FMA(p_, r_, ALL(0x1.ebfbdcp-3f));                                                 \
        p_ = FMA(p_, r_, ALL(0x1.62e43p-1f));                                                  \
        p_ = FMA(p_, r_, ALL(1.0f));                                                           \
        p_ = p_ * POWER(t_);                                                                   \
        (y) = KEEP_FROM(p_, x, ALL(-126.0f));                                                  \
    } while (0)

enum { CHAINS = 4 }; /* sums and maxima side by side, since each waits for the one before */

/* WIDTH lanes of a running softmax; pointers are to the first of them. */
INLINE void softmax_lanes(float *scores, size_t keys, float *top, float *total, float *sums,
                          size_t width)
{
    vec most[CHAINS], sum[CHAINS], old_top, new_top, back, x;
    LOAD(old_top, top);
    for (size_t c = 0; c < CHAINS; c++) {
        most[c] = old_top;
        sum[c] = ALL(0.0f);
    }
    for (size_t k = 0; k < keys; k += CHAINS)
#pragma GCC unroll 4
        for (size_t c = 0; c < CHAINS; c++) {
            LOAD(x, scores + (k + c) * QK_LANES);
            most[c] = LARGER(x, most[c]);
        }
    most[0] = LARGER(most[0], most[1]);
    most[2] = LARGER(most[2], most[3]);
    new_top = LARGER(most[0], most[2]);
    x = old_top - new_top;
    EXP2(back, x);
    for (size_t k = 0; k < keys; k += CHAINS)
#pragma GCC unroll 4
        for (size_t c = 0; c < CHAINS; c++) {
            LOAD(x, scores + (k + c) * QK_LANES);
            x = x - new_top;
            EXP2(x, x);
            STORE(scores + (k + c) * QK_LANES, x);
            sum[c] = sum[c] + x;
        }
    STORE(top, new_top);
    LOAD(x, total);
    x = x * back + ((sum[0] + sum[1]) + (sum[2] + sum[3]));
    STORE(total, x);
    for (size_t i = 0; i < width; i++) {
        LOAD(x, sums + i * QK_LANES);
        x = x * back;
        STORE(sums + i * QK_LANES, x);
    }
}

static void softmax(float *scores, size_t keys, float *top, float *total, float *sums,
                    size_t width)
{
    for (size_t lane = 0; lane < QK_LANES; lane += WIDTH)
        softmax_lanes(scores + lane, keys, top + lane, total + lane, sums + lane, width);
}

/* Both activations are x / (1 + 2^-u): u is x / ln 2 for silu, and for gelu's tanh, twice its
 * argument / ln 2, since (1 + tanh(v)) / 2 = 1 / (1 + e^-2v). */
static void activate(qk__activation activation, float *values, size_t n)
{
    const float log2e = 0x1.715476p+0f;
    const float a = 0x1.26aec2p+1f; /* 2 sqrt(2 / pi) log2(e) */
    const float b = 0x1.a5a7dp-4f;  /* the same times 0.044715 */
    for (size_t i = 0; i < n; i += WIDTH) {
        vec x, u, e;
        LOAD(x, values + i);
        if (activation == QK_SILU)
            u = x * ALL(-log2e);
        else
            u = x * FMA(x * x, ALL(-b), ALL(-a));
        EXP2(e, u);
        x = x / (ALL(1.0f) + e);
        STORE(values + i, x);
    }
}

/* ---- plain loops over lanes, as wide as the instruction set ------------------------------ */

/* Inlined for each rounding. */
INLINE void turn_rounded(qk__rounding r, float *a, float *b, const float *cosines,
                         const float *sines)
{
    for (size_t lane = 0; lane < QK_LANES; lane++) {
        float x = a[lane], y = b[lane], c = cosines[lane], s = sines[lane];
        a[lane] = qk__rounded(r, qk__rounded(r, x * c) - qk__rounded(r, y * s));
        b[lane] = qk__rounded(r, qk__rounded(r, y * c) + qk__rounded(r, x * s));
    }
}

static void turn(qk__rounding rounding, float *a, float *b, const float *cosines,
                 const float *sines)
{
    if (rounding == QK__UNROUNDED)
        turn_rounded(QK__UNROUNDED, a, b, cosines, sines);
    else if (rounding == QK__BF16)
        turn_rounded(QK__BF16, a, b, cosines, sines);
    else
        turn_rounded(QK__F16, a, b, cosines, sines);
}

/* Squares are summed in stretches, so that the error grows with the root of their number. */
enum { STRETCH = 64 };

static void sum_of_squares(const float *x, size_t width, float total[QK_LANES])
{
    memset(total, 0, QK_LANES * sizeof *total);
    for (size_t start = 0; start < width; start += STRETCH) {
        size_t end = width - start < STRETCH ? width : start + STRETCH;
        float sum[QK_LANES] = {0};
        for (size_t i = start; i < end; i++)
            for (size_t lane = 0; lane < QK_LANES; lane++)
                sum[lane] += x[i * QK_LANES + lane] * x[i * QK_LANES + lane];
        for (size_t lane = 0; lane < QK_LANES; lane++)
            total[lane] += sum[lane];
    }
}

static void norm(const qk__norm *n, const float *x, float *y)
{
    float scale[QK_LANES];
    sum_of_squares(x, n->width, scale);
    for (size_t lane = 0; lane < QK_LANES; lane++)
        scale[lane] = 1 / sqrtf(scale[lane] / (float)n->width + n->eps);
    bool llama = n->kind == QK_NORM_LLAMA;
    for (size_t i = 0; i < n->width; i++) {
        const float *in = x + i * QK_LANES;
        float *out = y + i * QK_LANES;
        float weight = n->weight[i];
        if (n->kind == QK_NORM_GEMMA)
            weight = 1 + weight;
        for (size_t lane = 0; lane < QK_LANES; lane++)
            out[lane] = in[lane] * scale[lane];
        if (llama)
            qk__round_values(n->rounding, out, QK_LANES);
        for (size_t lane = 0; lane < QK_LANES; lane++)
            out[lane] *= weight;
        qk__round_values(n->rounding, out, QK_LANES);
    }
}

#endif
