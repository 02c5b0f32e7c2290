/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bfloat16 numbers with AVX512_BF16. */
#include "prefill/bf16_kernel.h"

#include <immintrin.h>
#include <string.h>

#include "prefill/panel_kernel.h"
#include "prefill/rounding.h"

enum { WIDTH = 16, VECS = QK_LANES / WIDTH };

/* Words lie where floats lay: only memcpy may look at them as what they are. */
static inline __m512bh load_words(const float *at)
{
    __m512bh words;
    memcpy(&words, at, sizeof words);
    return words;
}

static inline __m512bh every_word(const float *at)
{
    int word;
    memcpy(&word, at, sizeof word);
    return (__m512bh)_mm512_set1_epi32(word);
}

static inline __attribute__((always_inline)) void tile(const float *a, size_t row_step,
                                                       size_t step, size_t length, size_t parts,
                                                       size_t part_step, const float *b,
                                                       bool add, float scale, float *y)
{
    __m512 sum[QK_TILE][VECS];
#pragma GCC unroll 8
    for (size_t r = 0; r < QK_TILE; r++)
        for (size_t v = 0; v < VECS; v++)
            sum[r][v] = _mm512_setzero_ps();
    for (size_t part = 0; part < parts; part++) {
        const float *from = a + part * part_step;
        for (size_t k = 0; k < length; k++, from += step, b += QK_LANES) {
            __m512bh x[VECS];
            for (size_t v = 0; v < VECS; v++)
                x[v] = load_words(b + v * WIDTH);
#pragma GCC unroll 8
            for (size_t r = 0; r < QK_TILE; r++) {
                __m512bh w = every_word(from + r * row_step);
                for (size_t v = 0; v < VECS; v++)
                    sum[r][v] = _mm512_dpbf16_ps(sum[r][v], w, x[v]);
            }
        }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < QK_TILE; r++)
        for (size_t v = 0; v < VECS; v++) {
            float *out = y + r * QK_LANES + v * WIDTH;
            __m512 value = _mm512_mul_ps(sum[r][v], _mm512_set1_ps(scale));
            if (add)
                value = _mm512_add_ps(_mm512_loadu_ps(out), value);
            _mm512_storeu_ps(out, value);
        }
}

static void rows(const float *a, size_t row_step, size_t length, size_t parts, size_t part_step,
                 const float *b, bool add, float *y)
{
    tile(a, row_step, 1, (length + 1) / 2, parts, part_step, b, add, 1, y);
}

static void columns(const float *a, size_t length, const float *b, float scale, float *y)
{
    tile(a, 1, QK_LANES, (length + 1) / 2, 1, 0, b, false, scale, y);
}

static void round_all(float *x, size_t n)
{
    qk__round_values(QK__BF16, x, n);
}

/* Sixteen numbers, rounded, in the lower halves of words. */
static inline __m512i lower_halves(const float *values)
{
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(values)));
}

static void pair_features(const float *panel, size_t features, float *to)
{
    static const float zeros[QK_LANES];
    for (size_t i = 0; i < features; i += 2) {
        const float *first = panel + i * QK_LANES;
        const float *second = i + 1 < features ? first + QK_LANES : zeros;
        for (size_t v = 0; v < QK_LANES; v += WIDTH) {
            __m512i low = lower_halves(first + v), high = lower_halves(second + v);
            __m512i words = _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
            memcpy(to + i / 2 * QK_LANES + v, &words, sizeof words);
        }
    }
}

static void pair_lanes(float *values, size_t n)
{
    size_t i = 0;
    for (; i + WIDTH <= n; i += WIDTH) {
        __m256bh halves = _mm512_cvtneps_pbh(_mm512_loadu_ps(values + i));
        memcpy(values + i / 2, &halves, sizeof halves);
    }
    if (i < n) {
        __m512 x = _mm512_maskz_loadu_ps((__mmask16)((1u << (n - i)) - 1), values + i);
        __m256bh halves = _mm512_cvtneps_pbh(x);
        memcpy(values + i / 2, &halves, (n - i + 1) / 2 * sizeof(float));
    }
}

const qk__bf16_kernel qk__bf16_words = {true,      rows,          columns,
                                        round_all, pair_features, pair_lanes};
