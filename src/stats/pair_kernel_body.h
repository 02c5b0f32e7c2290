/* SPDX-License-Identifier: Apache-2.0 */
/* The pair kernels, for the file of each instruction set to include after it has defined
 *
 * - WIDTH: doubles in one of its vectors; BLOCK: rows of keys whose distances are summed side
 *   by side
 * - ALL(x): x in every lane; WIDEN(x): WIDTH floats at x as doubles
 * - FMA(a, b, c): a b + c, rounded once; SQRT(x), FLOOR(x)
 * - KEEP_BELOW(y, x, top): y where x < top, else 0
 * - ADD_LANES(part): sum of 8 lanes in PARTS vectors: lanes four apart are added, then those
 *   two apart, then the last two
 *
 * A logical lane keeps its operations whatever WIDTH is; sums over lanes are a fixed tree. */
#ifndef QK_STATS_PAIR_KERNEL_BODY_H
#define QK_STATS_PAIR_KERNEL_BODY_H

#include <math.h>
#include <string.h>

#include "stats/normal_table.h"
#include "stats/pair_kernel.h"

enum { PARTS = LANES / WIDTH }; /* vectors that make 8 lanes */

#define INLINE static inline __attribute__((always_inline))

/* Values at x, wherever they lie. Macros, since what passes a vector through a call depends on
 * the instruction set. */
#define LOAD(y, x)  memcpy(&(y), x, sizeof(vec))
#define STORE(x, y) memcpy(x, &(y), sizeof(vec))

#define DEFINE_WHITEN(name, type, load)                                                        \
    /* Lanes c.. of row - centre to out, and their products with mean, slope and mirror. */    \
    INLINE void name##_lanes(const qk__whitening *p, size_t c, const type *row,                \
                             const type *centre, double *out, vec *mean, vec *slope,           \
                             vec *mirror)                                                      \
    {                                                                                          \
        for (size_t h = 0; h < PARTS; h++) {                                                   \
            vec x, y;                                                                          \
            load(x, row + h * WIDTH);                                                          \
            load(y, centre + h * WIDTH);                                                       \
            x -= y;                                                                            \
            STORE(out + c + h * WIDTH, x);                                                     \
            LOAD(y, p->mean + c + h * WIDTH);                                                  \
            mean[h] = FMA(x, y, mean[h]);                                                      \
            LOAD(y, p->slope + c + h * WIDTH);                                                 \
            slope[h] = FMA(x, y, slope[h]);                                                    \
            LOAD(y, p->mirror + c + h * WIDTH);                                                \
            mirror[h] = FMA(x, y, mirror[h]);                                                  \
        }                                                                                      \
    }                                                                                          \
                                                                                               \
    static void name(const qk__whitening *p, const type *row, const type *centre, double *out, \
                     double dots[2])                                                           \
    {                                                                                          \
        vec mean[PARTS] = {0}, slope[PARTS] = {0}, mirror[PARTS] = {0};                        \
        size_t c = 0;                                                                          \
        for (; c + LANES <= p->dim; c += LANES)                                                \
            name##_lanes(p, c, row + c, centre + c, out, mean, slope, mirror);                 \
        if (c < p->dim) {                                                                      \
            type last_row[LANES] = {0}, last_centre[LANES] = {0};                              \
            memcpy(last_row, row + c, (p->dim - c) * sizeof(type));                            \
            memcpy(last_centre, centre + c, (p->dim - c) * sizeof(type));                      \
            name##_lanes(p, c, last_row, last_centre, out, mean, slope, mirror);               \
        }                                                                                      \
        dots[0] = ADD_LANES(mean);                                                             \
        dots[1] = ADD_LANES(slope);                                                            \
        mirror_and_scale(p, ADD_LANES(mirror), out);                                           \
    }

/* The difference x in `out`, whose product with the mirror is known, becomes scale H x. */
INLINE void mirror_and_scale(const qk__whitening *p, double product, double *out)
{
    vec back = ALL(-2 * product);
    for (size_t c = 0; c < p->ld; c += WIDTH) {
        vec x, r, scale;
        LOAD(x, out + c);
        LOAD(r, p->mirror + c);
        LOAD(scale, p->scale + c);
        x = FMA(back, r, x) * scale;
        STORE(out + c, x);
    }
}

#define LOAD_F32(y, x) (y) = WIDEN(x)
DEFINE_WHITEN(whiten_f32, float, LOAD_F32)
DEFINE_WHITEN(whiten_f64, double, LOAD)

/* Distances of `left` to `count` rows, their sums side by side; count is a constant at each
 * call. */
INLINE void distance_block(const double *left, const double *const *right, size_t count,
                           size_t ld, double *v)
{
    vec sum[BLOCK][PARTS];
    for (size_t j = 0; j < count; j++)
        for (size_t h = 0; h < PARTS; h++)
            sum[j][h] = ALL(0.0);
    for (size_t c = 0; c < ld; c += LANES)
        for (size_t h = 0; h < PARTS; h++) {
            vec x;
            LOAD(x, left + c + h * WIDTH);
            for (size_t j = 0; j < count; j++) {
                vec y;
                LOAD(y, right[j] + c + h * WIDTH);
                y = x - y;
                sum[j][h] = FMA(y, y, sum[j][h]);
            }
        }
    for (size_t j = count; j < BLOCK; j++) /* summed, too, and thrown away */
        for (size_t h = 0; h < PARTS; h++)
            sum[j][h] = sum[0][h];
    ADD_LANES_EACH(sum, count, v);
}

static void distances(const double *left, const double *right, const uint32_t *which, size_t n,
                      size_t ld, double *v)
{
    const double *row[BLOCK];
    size_t j = 0;
    for (; j + BLOCK <= n; j += BLOCK) {
        for (size_t i = 0; i < BLOCK; i++)
            row[i] = right + (which ? which[j + i] : j + i) * ld;
        distance_block(left, row, BLOCK, ld, v + j);
    }
    for (size_t i = 0; i < n - j; i++)
        row[i] = right + (which ? which[j + i] : j + i) * ld;
    switch (n - j) {
#define DISTANCE_CASE(count)                                                                   \
    case count:                                                                                \
        distance_block(left, row, count, ld, v + j);                                           \
        break
        DISTANCE_CASE(1);
        DISTANCE_CASE(2);
        DISTANCE_CASE(3);
#if BLOCK > 4
        DISTANCE_CASE(4);
        DISTANCE_CASE(5);
        DISTANCE_CASE(6);
        DISTANCE_CASE(7);
#endif
    }
}

#ifndef LOAD_CHOSEN
INLINE vec load_chosen(const double *x, const uint32_t *which)
{
    double chosen[WIDTH];
    vec y;
    for (size_t l = 0; l < WIDTH; l++)
        chosen[l] = x[which[l]];
    LOAD(y, chosen);
    return y;
}
#define LOAD_CHOSEN load_chosen
#endif

/* WIDTH numbers from x + i on, or those of x at which[i] and on. */
INLINE vec load_some(const double *x, const uint32_t *which, size_t i)
{
    vec y;
    if (which)
        return LOAD_CHOSEN(x, which + i);
    LOAD(y, x + i);
    return y;
}

static void differences(const qk__key_scores *scores, size_t left, size_t at,
                        const uint32_t *which, size_t n, double width, double stride,
                        const qk__pair_list *pairs, size_t out)
{
    vec mean = ALL(scores->mean[left]), slope = ALL(scores->slope[left]);
    vec position = ALL(scores->position[left]), half = ALL(0.5);
    for (size_t i = 0; i < n; i += WIDTH) {
        vec a = mean - load_some(scores->mean + at, which, i);
        vec b = slope - load_some(scores->slope + at, which, i);
        STORE(pairs->u + out + i, a);
        STORE(pairs->w + out + i, b);
        if (!pairs->mid)
            continue;
        vec s = load_some(scores->position + at, which, i);
        vec mid = (position + s) * half;
        STORE(pairs->mid + out + i, mid);
        vec far = (vec)((bits)(position - s) & ~SIGN);
        far = FLOOR(far / ALL(width)) * ALL(stride);
        vec_i32 bin = __builtin_convertvector(far, vec_i32);
        memcpy(pairs->bin + out + i, &bin, sizeof bin);
    }
}

/* So large that any other difference of scores than 0 is decided, so small that differences
 * times it stay finite. */
#define UNBOUNDED 0x1p500

static void normalise(const double *v, double *u, double *w, size_t n)
{
    for (size_t i = 0; i < n; i += WIDTH) {
        vec x, a, b;
        LOAD(x, v + i);
        LOAD(a, u + i);
        LOAD(b, w + i);
        vec scale = ALL(1.0) / SQRT(x);
        bits some = (bits)(x > ALL(0.0));
        scale = (vec)(((bits)scale & some) | ((bits)ALL(UNBOUNDED) & ~some));
        a *= scale;
        b *= scale;
        STORE(u + i, a);
        STORE(w + i, b);
    }
}

/* With e = erfc(|z| / sqrt 2), 4 p (1 - p) = e (2 - e). exp(-z^2 / 2) is 2^k exp(-s / 2) with
 * s = z^2 + k 2 ln 2 in twice the digits, since an error in z^2 is an error of e times z^2. */
static void undecided(const double *u, const double *w, double offset, size_t n, double *pp)
{
    static const double above[] = {TAIL_P}, below[] = {TAIL_Q}, half[] = {EXP_HALF};
    const vec round = ALL(0x1.8p52); /* adding it leaves an integer in the last bits */
    const vec top = ALL(NORMAL_TOP), far = ALL(offset);
    for (size_t i = 0; i < n; i += WIDTH) {
        vec a, b;
        LOAD(a, u + i);
        LOAD(b, w + i);
        vec z = FMA(b, far, a);
        z = (vec)((bits)z & ~SIGN);
        vec square = z * z, rest = FMA(z, z, -square);
        vec shifted = FMA(square, ALL(MINUS_HALF_LOG2_E), round), k = shifted - round;
        vec s = FMA(k, ALL(TWO_LN2_HIGH), square) + FMA(k, ALL(TWO_LN2_LOW), rest);
        vec e = ALL(half[0]), p = ALL(above[0]), q = ALL(below[0]);
#pragma GCC unroll 16
        for (size_t c = 1; c < sizeof half / sizeof *half; c++)
            e = FMA(e, s, ALL(half[c]));
#pragma GCC unroll 16
        for (size_t c = 1; c < sizeof above / sizeof *above; c++)
            p = FMA(p, z, ALL(above[c]));
#pragma GCC unroll 16
        for (size_t c = 1; c < sizeof below / sizeof *below; c++)
            q = FMA(q, z, ALL(below[c]));
        e = (vec)((bits)e + ((bits)shifted << 52));
        e = e * p / q;
        e = KEEP_BELOW(e * (ALL(2.0) - e), z, top);
        STORE(pp + i, e);
    }
}

static void lags(const double *mid, const int32_t *bin, double tau, double width, double first,
                 size_t n, int32_t *cell)
{
    for (size_t i = 0; i < n; i += WIDTH) {
        vec s;
        vec_i32 c, lag;
        LOAD(s, mid + i);
        memcpy(&c, bin + i, sizeof c);
        s = FLOOR((ALL(tau) - s) / ALL(width)) - ALL(first);
        vec size = (vec)((bits)s & ~SIGN);
        s = KEEP_BELOW(s, size, ALL(0x1p30)); /* spare lanes may hold anything */
        lag = __builtin_convertvector(s, vec_i32);
        c += lag;
        memcpy(cell + i, &c, sizeof c);
    }
}

/* r = y mod n for y < 2^53: the quotient may be off by one half and the rounding of 1 / n. */
INLINE vec reduce(vec y, vec n, vec inverse)
{
    const vec round = ALL(0x1.8p52);
    vec q = (y * inverse + round) - round;
    vec r = y - q * n;
    return r + (vec)((bits)n & (bits)(r < ALL(0.0)));
}

/* A whole number below 2^52 as a double. */
#define TO_DOUBLE(x) ((vec)((x) | (bits)ALL(0x1p52)) - ALL(0x1p52))

/* x mod n: two or three pieces of x after one another, the highest first. What is left of the
 * higher ones and the next piece fit in 53 bits, so every product and sum is exact. */
INLINE vec remainder_of(bits x, vec n, vec inverse, bool small)
{
    const vec shift = ALL(small ? 0x1p32 : 0x1p21);
    const int size = small ? 32 : 21;
    const bits low = (bits){0} + ((UINT64_C(1) << size) - 1);
    if (small) {
        vec r = reduce(TO_DOUBLE(x >> 32), n, inverse);
        return reduce(r * shift + TO_DOUBLE(x & low), n, inverse);
    }
    vec r = reduce(TO_DOUBLE(x >> 42), n, inverse);
    r = reduce(r * shift + TO_DOUBLE(x >> 21 & low), n, inverse);
    return reduce(r * shift + TO_DOUBLE(x & low), n, inverse);
}

#define ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))

/* xoshiro256**, WIDTH generators from lane l on. small: all n + steps are at most 2^21. Returns
 * zeros where a number was below 2^31. */
INLINE bits draw_lanes(uint64_t state[4][LANES], const uint32_t n[LANES], size_t steps,
                       size_t l, bool small, uint32_t *out)
{
    bits s[4], kept = ~(bits){0};
    double start[WIDTH];
    vec by;
    for (size_t i = 0; i < 4; i++)
        memcpy(&s[i], state[i] + l, sizeof s[i]);
    for (size_t i = 0; i < WIDTH; i++)
        start[i] = (double)n[l + i];
    LOAD(by, start);
    for (size_t i = 0; i < steps; i++, by += ALL(1.0)) {
        bits x = (s[1] << 2) + s[1], t = s[1] << 17;
        x = ROTATE(x, 7);
        x = (x << 3) + x;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = ROTATE(s[3], 45);
        kept &= ~(bits)(x >> 31 == 0);
        vec r = remainder_of(x, by, ALL(1.0) / by, small);
        vec_i32 whole = __builtin_convertvector(r, vec_i32);
        memcpy(out + i * LANES + l, &whole, sizeof whole);
    }
    for (size_t i = 0; i < 4; i++)
        memcpy(state[i] + l, &s[i], sizeof s[i]);
    return kept;
}

static bool draw_below(uint64_t state[4][LANES], const uint32_t n[LANES], size_t steps,
                       uint32_t *out)
{
    bool kept = true, small = true;
    for (size_t l = 0; l < LANES; l++)
        small &= n[l] + steps <= (UINT32_C(1) << 21);
    for (size_t l = 0; l < LANES; l += WIDTH) {
        bits all = small ? draw_lanes(state, n, steps, l, true, out)
                         : draw_lanes(state, n, steps, l, false, out);
        for (size_t i = 0; i < WIDTH; i++)
            kept &= all[i] != 0;
    }
    return kept;
}

#ifndef LIST_BITS
/* Four at a time, at least: how many there are is hard to foresee. What is too much is
 * overwritten. */
INLINE size_t list_bits(uint64_t in, uint64_t among, uint32_t at, uint32_t *out)
{
    size_t n = (size_t)__builtin_popcountll(in), i = 0;
    do {
        for (size_t j = 0; j < 4; j++) {
            uint64_t below = (in & -in) - 1;
            out[i + j] = at + (uint32_t)__builtin_popcountll(among & below);
            in &= in - 1;
        }
        i += 4;
    } while (i < n);
    return n;
}
#define LIST_BITS list_bits
#endif

static size_t members(const uint64_t *in, const uint64_t *among, const uint32_t *at,
                      size_t words, uint32_t *out)
{
    size_t n = 0;
    for (size_t i = 0; i < words; i++)
        n += LIST_BITS(in[i], among[i], at[i], out + n);
    return n;
}

static void pick(const qk__pair_list *from, const uint32_t *which, size_t n,
                 const qk__pair_list *to)
{
    for (size_t i = 0; i < n; i++) {
        to->u[i] = from->u[which[i]];
        to->w[i] = from->w[which[i]];
    }
    for (size_t i = 0; i < n && to->mid; i++) {
        to->mid[i] = from->mid[which[i]];
        to->bin[i] = from->bin[which[i]];
    }
}

static double sum(const double *x, size_t n)
{
    vec total[PARTS] = {0};
    double last[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t h = 0; h < PARTS; h++) {
            vec y;
            LOAD(y, x + i + h * WIDTH);
            total[h] += y;
        }
    memcpy(last, x + i, (n - i) * sizeof *x);
    for (size_t h = 0; h < PARTS; h++) {
        vec y;
        LOAD(y, last + h * WIDTH);
        total[h] += y;
    }
    return ADD_LANES(total);
}

INLINE void dot_lanes(const double *x, const double *y, vec *total)
{
    for (size_t h = 0; h < PARTS; h++) {
        vec a, b;
        LOAD(a, x + h * WIDTH);
        LOAD(b, y + h * WIDTH);
        total[h] = FMA(a, b, total[h]);
    }
}

static double dot(const double *x, const double *y, size_t n)
{
    vec total[PARTS] = {0};
    double last_x[LANES] = {0}, last_y[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        dot_lanes(x + i, y + i, total);
    memcpy(last_x, x + i, (n - i) * sizeof *x);
    memcpy(last_y, y + i, (n - i) * sizeof *y);
    dot_lanes(last_x, last_y, total);
    return ADD_LANES(total);
}

#define PAIR_KERNEL                                                                            \
    {                                                                                          \
        whiten_f32, whiten_f64, distances, differences, normalise, undecided, lags,            \
            draw_below, members, pick, sum, dot                                                \
    }

#endif
