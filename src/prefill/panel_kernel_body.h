/* SPDX-License-Identifier: Apache-2.0 */
/* The prefill kernels, for the file of each instruction set to include after it has defined
 *
 * - vec, a vector of WIDTH floats; TILE_ROWS x TILE_VECS of them, the sums held in registers
 * - ALL(x): x in every lane
 * - FMA(a, b, c): a b + c, rounded once
 * - LARGER(x, y): x > y ? x : y, so y where one is not a number
 * - SMALLER(x, y): x < y ? x : y
 * - KEEP_FROM(y, x, low): 0 where x < low, else y
 * - POWER(t): the float whose bits are those of t shifted left by 23
 * - mask: for each lane, yes or no; ANY(m): for one at least
 * - SAME(x, b): where x has the bits of the int32_t b; BELOW(x, y): where x < y
 * - ADD_WHERE(sum, x, m): sum + x where m, else sum */
#ifndef QK_PREFILL_PANEL_KERNEL_BODY_H
#define QK_PREFILL_PANEL_KERNEL_BODY_H

#include <math.h>
#include <string.h>

#include "prefill/panel_kernel.h"

enum { VECS = QK_LANES / WIDTH };

#define INLINE static inline __attribute__((always_inline))

/* Sanitized builds check its addresses alone: all the other checks, and loops that are not
 * unrolled, make them four times as slow. */
#define INNERMOST __attribute__((no_sanitize("undefined"))) INLINE

static const float lane_numbers[QK_LANES] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                             11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                             22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

/* Macros, since what passes a vector through a call depends on the instruction set. */
typedef vec unaligned_vec __attribute__((aligned(4), may_alias));
#define LOAD(y, x)  ((y) = *(const unaligned_vec *)(const void *)(x))
#define STORE(x, y) (*(unaligned_vec *)(void *)(x) = (y))

/* Some rows and lanes of a tile: a and y point to the first of them, b to the first lane. */
INNERMOST void sub_tile(const float *a, size_t row_step, size_t step, size_t length,
                        size_t parts, size_t part_step, const float *b, bool add, float *y)
{
    vec sum[TILE_ROWS][TILE_VECS];
#pragma GCC unroll 8
    for (size_t r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 8
        for (size_t v = 0; v < TILE_VECS; v++)
            sum[r][v] = ALL(0.0f);
    for (size_t part = 0; part < parts; part++) {
        const float *from = a + part * part_step;
        for (size_t k = 0; k < length; k++, from += step, b += QK_LANES) {
            vec x[TILE_VECS];
#pragma GCC unroll 8
            for (size_t v = 0; v < TILE_VECS; v++)
                LOAD(x[v], b + v * WIDTH);
#pragma GCC unroll 8
            for (size_t r = 0; r < TILE_ROWS; r++) {
                vec w = ALL(from[r * row_step]);
#pragma GCC unroll 8
                for (size_t v = 0; v < TILE_VECS; v++)
                    sum[r][v] = FMA(w, x[v], sum[r][v]);
            }
        }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < TILE_ROWS; r++)
#pragma GCC unroll 8
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

/* y = 2^x to 7e-8 of its value, 0 below 2^-126, 2^127 above it; in_range is x, or the nearer of the two. Adding 1.5 2^23
 * rounds to a whole number n, which then stands in the last bits, 127 more for the exponent of
 * a float; the polynomial is 2^r for |r| <= 1/2 to 2e-9. */
#define EXP2_IN_RANGE(y, x, in_range)                                                          \
    do {                                                                                       \
        const vec shift_ = ALL(0x1.8p23f + 127);                                               \
        vec t_ = (in_range) + shift_;                                                          \
        vec r_ = (in_range) - (t_ - shift_);                                                   \
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
#define EXP2(y, x)                                                                             \
    do {                                                                                       \
        vec in_range_ = LARGER(ALL(-126.0f), SMALLER(ALL(127.0f), x));                         \
        EXP2_IN_RANGE(y, x, in_range_);                                                        \
    } while (0)

/* ---- a running softmax; of WIDTH lanes, whose pointers are to the first of them ------------ */

enum { CHAINS = 4 }; /* sums and maxima side by side, since each waits for the one before */

INLINE void raise_top(const float *scores, size_t keys, vec *top)
{
    vec most[CHAINS] = {*top, *top, *top, *top}, x;
    for (size_t k = 0; k < keys; k += CHAINS)
#pragma GCC unroll 4
        for (size_t c = 0; c < CHAINS; c++) {
            LOAD(x, scores + (k + c) * QK_LANES);
            most[c] = LARGER(x, most[c]);
        }
    most[0] = LARGER(most[0], most[1]);
    most[2] = LARGER(most[2], most[3]);
    *top = LARGER(most[0], most[2]);
}

/* What is tallied of a block. It takes one chain of each: a power of two takes longer. */
typedef struct tallied {
    const int32_t *key_tokens;
    vec tokens, steps, logs, duplicate, induction;
    mask copy_before; /* where the key before is a copy of the query's token */
    bool apart;       /* the total has other keys, too: these have sums of their own */
    vec sum[CHAINS];
} tallied;

/* Scores of the keys from .. to-1 become weights. A tally is NULL, or apart, as a constant. */
INLINE void to_weights(float *scores, size_t from, size_t to, const vec *top, vec *sum,
                       tallied *tally)
{
    for (size_t k = from; k < to; k += CHAINS)
#pragma GCC unroll 4
        for (size_t c = 0; c < CHAINS; c++) {
            vec x, weight;
            LOAD(x, scores + (k + c) * QK_LANES);
            x = x - *top;
            vec log = LARGER(ALL(-126.0f), x); /* none is above 0 */
            EXP2_IN_RANGE(weight, x, log);
            STORE(scores + (k + c) * QK_LANES, weight);
            sum[c] = sum[c] + weight;
            if (!tally)
                continue;
            if (tally->apart)
                tally->sum[c] = tally->sum[c] + weight;
            /* A weight is added in each step from its own to the last. */
            tally->steps = tally->steps + (tally->apart ? tally->sum[c] : sum[c]);
            tally->logs = FMA(weight, log, tally->logs);
            mask copy = SAME(tally->tokens, tally->key_tokens[k + c]);
            tally->duplicate = ADD_WHERE(tally->duplicate, weight, copy);
            tally->induction = ADD_WHERE(tally->induction, weight, tally->copy_before);
            tally->copy_before = copy;
        }
}

INLINE void rescale(float *sums, size_t width, const vec *back)
{
    for (size_t i = 0; i < width; i++) {
        vec x;
        LOAD(x, sums + i * QK_LANES);
        x = x * *back;
        STORE(sums + i * QK_LANES, x);
    }
}

INLINE vec all_chains(const vec *sum)
{
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

INLINE void add_to_total(float *total, const vec *back, const vec *sum)
{
    vec x;
    LOAD(x, total);
    x = x * *back + all_chains(sum);
    STORE(total, x);
}

static void softmax(float *scores, size_t keys, float *top, float *total, float *sums,
                    size_t width)
{
    for (size_t lane = 0; lane < QK_LANES; lane += WIDTH) {
        vec old_top, new_top, back, sum[CHAINS] = {ALL(0.0f), ALL(0.0f), ALL(0.0f), ALL(0.0f)};
        LOAD(old_top, top + lane);
        new_top = old_top;
        raise_top(scores + lane, keys, &new_top);
        STORE(top + lane, new_top);
        vec x = old_top - new_top;
        EXP2(back, x);
        to_weights(scores + lane, 0, keys, &new_top, sum, NULL);
        add_to_total(total + lane, &back, sum);
        rescale(sums + lane, width, &back);
    }
}

/* ---- the same with a tally ---------------------------------------------------------------- */

/* Brings a tally to the new top: of sums of w log2 w, each weight has a logarithm larger by `lift`. */
INLINE void rescale_tally(qk__head_tally *tally, size_t num_sums, size_t lane, const vec *back,
                          const vec *lift)
{
    vec logs, weight;
    LOAD(logs, tally->logs + lane);
    LOAD(weight, tally->sums[QK_TALLY_WEIGHT] + lane);
    logs = FMA(weight, *lift, logs) * *back;
    STORE(tally->logs + lane, logs);
    rescale(tally->sums[0] + lane, num_sums, back);
}

#define ADD_TO(x, y)                                                                           \
    do {                                                                                       \
        vec before_;                                                                           \
        LOAD(before_, x);                                                                      \
        before_ = before_ + (y);                                                               \
        STORE(x, before_);                                                                     \
    } while (0)

/* Of the keys behind those passed over, whose number is a constant. */
INLINE void tally_panels(const qk__tally_block *block, size_t passed, size_t lane,
                         const vec *top, vec *sum, qk__head_tally *tally)
{
    const vec none = ALL(0.0f);
    tallied t = {.key_tokens = block->key_tokens, .apart = passed > 0};
    t.steps = t.logs = t.duplicate = t.induction = none;
    for (size_t c = 0; c < CHAINS; c++)
        t.sum[c] = none;
    vec *chains = t.apart ? t.sum : sum, before = none, lanes;
    LOAD(t.tokens, block->query_tokens + lane);
    LOAD(lanes, lane_numbers + lane);
    t.copy_before = SAME(t.tokens, block->key_tokens[(ptrdiff_t)passed - 1]);
    to_weights(block->scores + lane, 0, passed, top, sum, NULL);
    for (size_t from = passed, to = QK_LANES; to <= block->keys; from = to, to += QK_LANES) {
        to_weights(block->scores + lane, from, to, top, sum, &t);
        vec so_far = all_chains(chains), panel = so_far - before;
        float *bin = block->bins[to / QK_LANES - 1];
        if (bin)
            ADD_TO(bin + lane, panel);
        before = so_far;
    }
    /* From a key to the next of its chain behind the block are CHAINS for each step. */
    vec distance = none;
    for (size_t c = 0; c < CHAINS; c++) {
        vec behind = lanes + ALL(block->ahead - (float)(block->keys + c));
        distance = FMA(chains[c], behind, distance);
    }
    distance = FMA(t.steps, ALL((float)CHAINS), distance);
    ADD_TO(tally->sums[QK_TALLY_WEIGHT] + lane, before);
    ADD_TO(tally->sums[QK_TALLY_DISTANCE] + lane, distance);
    ADD_TO(tally->sums[QK_TALLY_DUPLICATE] + lane, t.duplicate);
    ADD_TO(tally->sums[QK_TALLY_INDUCTION] + lane, t.induction);
    ADD_TO(tally->logs + lane, t.logs);
}

static void tally(const qk__tally_block *block, float *top, float *total, float *sums,
                  size_t width, qk__head_tally *tally)
{
    for (size_t lane = 0; lane < QK_LANES; lane += WIDTH) {
        vec old_top, new_top, back, sum[CHAINS] = {ALL(0.0f), ALL(0.0f), ALL(0.0f), ALL(0.0f)};
        LOAD(old_top, top + lane);
        new_top = old_top;
        raise_top(block->scores + lane, block->keys, &new_top);
        STORE(top + lane, new_top);
        vec x = old_top - new_top, lift = LARGER(ALL(-126.0f), x);
        EXP2_IN_RANGE(back, x, lift);
        if (ANY(BELOW(old_top, new_top))) { /* else back is 1 */
            rescale_tally(tally, block->num_sums, lane, &back, &lift);
            rescale(sums + lane, width, &back);
        }
        if (block->passed > 0)
            tally_panels(block, QK_SINK_KEYS, lane, &new_top, sum, tally);
        else
            tally_panels(block, 0, lane, &new_top, sum, tally);
        add_to_total(total + lane, &back, sum);
    }
}

static void band(const float *weights, size_t passed, float least, float past, float *sum)
{
    vec lanes[VECS], total[VECS];
    vec low = ALL(least + (float)passed), high = ALL(past + (float)passed);
    for (size_t v = 0; v < VECS; v++) {
        LOAD(lanes[v], lane_numbers + v * WIDTH);
        LOAD(total[v], sum + v * WIDTH);
    }
    for (size_t key = passed; key < QK_LANES; key++) {
        for (size_t v = 0; v < VECS; v++) {
            vec weight, beyond;
            LOAD(weight, weights + key * QK_LANES + v * WIDTH);
            beyond = KEEP_FROM(weight, lanes[v], high);
            weight = KEEP_FROM(weight, lanes[v], low);
            total[v] = total[v] + (weight - beyond);
        }
        low = low + ALL(1.0f);
        high = high + ALL(1.0f);
    }
    for (size_t v = 0; v < VECS; v++)
        STORE(sum + v * WIDTH, total[v]);
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

/* The members of a qk__panel_kernel. */
#define PANEL_KERNEL rows, columns, softmax, tally, band, activate, norm, turn

#endif
