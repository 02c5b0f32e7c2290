/* SPDX-License-Identifier: Apache-2.0 */
/* The turn kernels, in vectors of VECTOR_BYTES, which the file that includes this defines: as
 * wide as its instruction set has them. (gcc takes wider ones apart badly.) */
#ifndef QK_STATS_TURN_KERNEL_BODY_H
#define QK_STATS_TURN_KERNEL_BODY_H

#include <math.h>
#include <string.h>

#include "stats/turn_kernel.h"

typedef double lanes __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t bits __attribute__((vector_size(VECTOR_BYTES)));
typedef float bins __attribute__((vector_size(VECTOR_BYTES)));

enum { LANES = VECTOR_BYTES / sizeof(double), BINS = VECTOR_BYTES / sizeof(float) };

/* At any address. (memcpy goes through halves of the wider vectors, and waits for them.) */
typedef lanes lanes_at __attribute__((aligned(8), may_alias));
typedef bins bins_at __attribute__((aligned(4), may_alias));

/* Macros, since what passes a vector through a call depends on the instruction set. */
#define LOAD(y, x)         ((y) = *(const lanes_at *)(x))
#define STORE(x, y)        (*(lanes_at *)(x) = (y))
#define LOAD_BINS(y, x)    ((y) = *(const bins_at *)(x))
#define STORE_BINS(x, y)   (*(bins_at *)(x) = (y))
#define SELECT(mask, a, b) ((lanes)(((mask) & (bits)(a)) | (~(mask) & (bits)(b))))
#define SIGN               ((bits){0} + INT64_MIN)
#define ABSOLUTE(x)        ((lanes)((bits)(x) & ~SIGN))
#define FLIP(mask, x)      ((lanes)((bits)(x) ^ ((mask)&SIGN)))
#define NEAREST_WHOLE(x)   (((x) + 0x1.8p52) - 0x1.8p52)

/* ---- projections ------------------------------------------------------------------------ */

static void project(const double *x, size_t ld, const double *axes, size_t dim, size_t columns,
                    double *out)
{
    for (size_t c = 0; c < columns; c += LANES) {
        lanes sum[TURN_ROWS] = {{0}}, axis;
        for (size_t j = 0; j < dim; j++) {
            LOAD(axis, axes + j * columns + c);
            for (size_t u = 0; u < TURN_ROWS; u++)
                sum[u] += x[u * ld + j] * axis;
        }
        for (size_t u = 0; u < TURN_ROWS; u++)
            STORE(out + u * columns + c, sum[u]);
    }
}

/* ---- angles and waves ------------------------------------------------------------------- */

/* (1 + z P(z)) of Chebyshev interpolation, highest power first. */
static const double ATAN[] = {0.016285756855221028, -0.034570561981427744, 0.04551593220626549,
                              -0.05230454270650244, 0.05878928997834775,   -0.06666424885738255,
                              0.07692296375032143,  -0.09090908753500877,  0.11111111105155447,
                              -0.14285714285659828, 0.19999999999999804,   -0.3333333333333333};
static const double SIN[] = {1.5917771759341917e-10, -2.5051126876085338e-08,
                             2.755731607868067e-06,  -0.00019841269836712495,
                             0.008333333333330918,   -0.16666666666666666};
static const double COS[] = {-1.1382408754153254e-11, 2.087614315990944e-09,
                             -2.755731725679604e-07,  2.4801587298736863e-05,
                             -0.0013888888888887378,  0.041666666666666664};

#define POLYNOMIAL(sum, coefficients, z)                                                       \
    do {                                                                                       \
        (sum) = (lanes){0} + (coefficients)[0];                                                \
        for (size_t k_ = 1; k_ < sizeof(coefficients) / sizeof(double); k_++)                  \
            (sum) = (sum) * (z) + (coefficients)[k_];                                          \
    } while (0)

/* The angle of the smaller coordinate over the larger one, brought below an eighth of a turn's
 * half by turning it back by an eighth. */
static void angles(const double *x, const double *y, size_t n, double *angle)
{
    const double quarter_pi = 0.78539816339744830962;
    for (size_t i = 0; i < n; i += LANES) {
        lanes a, b, sum;
        LOAD(a, x + i);
        LOAD(b, y + i);
        lanes wide = ABSOLUTE(a), high = ABSOLUTE(b);
        bits steep = high > wide, back = a < 0;
        lanes less = SELECT(steep, wide, high), more = SELECT(steep, high, wide);
        bits far = less > 0.41421356237309504880 * more, nothing = more == 0;
        lanes over = SELECT(far, less - more, less);
        lanes under = SELECT(far, less + more, SELECT(nothing, more + 1, more));
        lanes t = over / under, z = t * t;
        POLYNOMIAL(sum, ATAN, z);
        lanes turned = t + t * (z * sum) + SELECT(far, (lanes){0} + quarter_pi, (lanes){0});
        turned = SELECT(steep, 2 * quarter_pi - turned, turned);
        turned = SELECT(back, 4 * quarter_pi - turned, turned);
        turned = FLIP((bits)b, turned);
        STORE(angle + i, turned);
    }
}

/* Whole turns drop out of at * turns exactly: the leading bits of `turns` make exact products
 * with whole and half numbers. */
static void wave(const double *at, size_t n, double turns, double *cosine, double *sine)
{
    const double radians = 6.283185307179586476925;
    const double leading = ((turns + 0x1.8p24) - 0x1.8p24), rest = turns - leading;
    for (size_t i = 0; i < n; i += LANES) {
        lanes v, sin_sum, cos_sum;
        LOAD(v, at + i);
        lanes turn = leading * v;
        turn = (turn - NEAREST_WHOLE(turn)) + rest * v;
        lanes quarters = NEAREST_WHOLE(4 * turn), x = (turn - quarters / 4) * radians;
        lanes z = x * x;
        POLYNOMIAL(sin_sum, SIN, z);
        POLYNOMIAL(cos_sum, COS, z);
        lanes s = x + x * (z * sin_sum), c = 1 - z / 2 + z * z * cos_sum;
        quarters -= 4 * NEAREST_WHOLE(quarters / 4);
        bits aside = ABSOLUTE(quarters) == 1, half = ABSOLUTE(quarters) == 2;
        lanes real = SELECT(aside, s, c), imaginary = SELECT(aside, c, s);
        real = FLIP(half | (quarters == 1), real);
        imaginary = FLIP(half | (quarters == -1), imaginary);
        STORE(cosine + i, real);
        STORE(sine + i, imaginary);
    }
}

/* ---- moments ---------------------------------------------------------------------------- */

/* Sums stay apart in TURN_LANES lanes until the end. */
static void moments(const double *x, const double *y, const double *cosine, const double *sine,
                    const double *at, size_t n, double re[TURN_TERMS], double im[TURN_TERMS])
{
    double sum[2][TURN_TERMS][TURN_LANES];
    for (size_t h = 0; h < TURN_LANES; h += LANES) {
        lanes real[TURN_TERMS] = {{0}}, imaginary[TURN_TERMS] = {{0}};
        for (size_t i = h; i < n; i += TURN_LANES) {
            lanes a, b, c, s, v;
            LOAD(a, x + i);
            LOAD(b, y + i);
            LOAD(c, cosine + i);
            LOAD(s, sine + i);
            LOAD(v, at + i);
            lanes on = a * c + b * s, off = b * c - a * s;
            for (size_t m = 0; m < TURN_TERMS; m++) {
                real[m] += on;
                imaginary[m] += off;
                on *= v;
                off *= v;
            }
        }
        for (size_t m = 0; m < TURN_TERMS; m++) {
            STORE(sum[0][m] + h, real[m]);
            STORE(sum[1][m] + h, imaginary[m]);
        }
    }
    for (size_t m = 0; m < TURN_TERMS; m++) {
        const double *a = sum[0][m], *b = sum[1][m];
        re[m] = ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
        im[m] = ((b[0] + b[4]) + (b[2] + b[6])) + ((b[1] + b[5]) + (b[3] + b[7]));
    }
}

/* ---- transforms ------------------------------------------------------------------------- */

/* (re, im) times (c, s) */
#define TURN(re, im, c, s)                                                                     \
    do {                                                                                       \
        bins turned_ = (re) * (c) - (im) * (s);                                                \
        (im) = (re) * (s) + (im) * (c);                                                        \
        (re) = turned_;                                                                        \
    } while (0)

/* Adds up what falls on the same point, turned for every lane's bin. */
static void fold(const qk__turn_signal *signal, qk__turn_point *to)
{
    bins re, im, c, s;
    memset(to, 0, signal->points * sizeof *to);
    for (size_t i = 0; i < signal->count; i++) {
        float x = (float)signal->x[i], y = (float)signal->y[i];
        qk__turn_point *sum = to + signal->point[i];
        const qk__turn_point *turn = signal->by_part + signal->part[i];
        for (size_t h = 0; h < TURN_BINS; h += BINS) {
            LOAD_BINS(c, turn->re + h);
            LOAD_BINS(s, turn->im + h);
            LOAD_BINS(re, sum->re + h);
            LOAD_BINS(im, sum->im + h);
            re += x * c - y * s;
            im += x * s + y * c;
            STORE_BINS(sum->re + h, re);
            STORE_BINS(sum->im + h, im);
        }
    }
    for (size_t p = 0; p < signal->points; p++)
        for (size_t h = 0; h < TURN_BINS; h += BINS) {
            LOAD_BINS(c, signal->by_point[p].re + h);
            LOAD_BINS(s, signal->by_point[p].im + h);
            LOAD_BINS(re, to[p].re + h);
            LOAD_BINS(im, to[p].im + h);
            TURN(re, im, c, s);
            STORE_BINS(to[p].re + h, re);
            STORE_BINS(to[p].im + h, im);
        }
}

static void split_by_two(qk__turn_point *z)
{
    for (size_t i = 0; i < TURN_BINS; i++) {
        float re = z[0].re[i], im = z[0].im[i];
        z[0].re[i] = re + z[1].re[i];
        z[0].im[i] = im + z[1].im[i];
        z[1].re[i] = re - z[1].re[i];
        z[1].im[i] = im - z[1].im[i];
    }
}

/* Four points, n apart, of the bins from h on; root[j] turns the result j. */
static inline void butterfly(qk__turn_point *z, size_t n, const float *const root[4], size_t h)
{
    bins re[4], im[4];
    for (size_t j = 0; j < 4; j++) {
        LOAD_BINS(re[j], z[j * n].re + h);
        LOAD_BINS(im[j], z[j * n].im + h);
    }
    bins even_re = re[0] + re[2], even_im = im[0] + im[2];
    bins gap_re = re[0] - re[2], gap_im = im[0] - im[2];
    bins odd_re = re[1] + re[3], odd_im = im[1] + im[3];
    bins side_re = im[1] - im[3], side_im = re[3] - re[1];
    bins x[4] = {even_re + odd_re, gap_re + side_re, even_re - odd_re, gap_re - side_re};
    bins y[4] = {even_im + odd_im, gap_im + side_im, even_im - odd_im, gap_im - side_im};
    for (size_t j = 0; j < 4; j++) {
        if (j > 0)
            TURN(x[j], y[j], root[j][0], root[j][1]);
        STORE_BINS(z[j * n].re + h, x[j]);
        STORE_BINS(z[j * n].im + h, y[j]);
    }
}

/* Decimation in frequency by four, in place. The quarters follow one after another, each to
 * its end: from some size on they stay in the first-level cache. root holds the roots of unity
 * of order n * stride. */
static void split_by_four(qk__turn_point *z, size_t n, const float *root, size_t stride)
{
    size_t quarter = n / 4;
    if (n == 2)
        split_by_two(z);
    for (size_t k = 0; k < quarter; k++) {
        const float *roots[4] = {root, root + 2 * k * stride, root + 4 * k * stride,
                                 root + 6 * k * stride};
        for (size_t h = 0; h < TURN_BINS; h += BINS)
            butterfly(z + k, quarter, roots, h);
    }
    for (size_t j = 0; quarter > 1 && j < 4; j++)
        split_by_four(z + j * quarter, quarter, root, 4 * stride);
}

static void transform(const qk__turn_signal *signal, qk__turn_point *spectrum)
{
    fold(signal, spectrum);
    split_by_four(spectrum, signal->points, signal->root, 1);
}

/* Square roots in loops of their own, which vectors then do. */
static void lengths(const qk__turn_point *spectrum, const uint32_t *order, size_t points,
                    size_t strides, int add, float *length)
{
    enum { BLOCK = 64 };
    float square[BLOCK * TURN_BINS];
    bins re, im, root;
    for (size_t from = 0; from < points; from += BLOCK) {
        size_t count = points - from < BLOCK ? points - from : BLOCK;
        for (size_t m = 0; m < count; m++)
            for (size_t h = 0; h < TURN_BINS; h += BINS) {
                LOAD_BINS(re, spectrum[order[from + m]].re + h);
                LOAD_BINS(im, spectrum[order[from + m]].im + h);
                re = re * re + im * im;
                STORE_BINS(square + m * TURN_BINS + h, re);
            }
        for (size_t i = 0; i < count * TURN_BINS; i++)
            square[i] = sqrtf(square[i]);
        for (size_t m = 0; m < count; m++)
            for (size_t h = 0; h < TURN_BINS; h += BINS) {
                float *to = length + (from + m) * strides + h;
                LOAD_BINS(root, square + m * TURN_BINS + h);
                LOAD_BINS(re, to);
                root = add ? root + re : root;
                STORE_BINS(to, root);
            }
    }
}

static float highest(const float *length, size_t n)
{
    float most[TURN_BINS] = {0}, all = 0;
    for (size_t i = 0; i < n; i += TURN_BINS)
        for (size_t l = 0; l < TURN_BINS; l++)
            most[l] = length[i + l] > most[l] ? length[i + l] : most[l];
    for (size_t l = 0; l < TURN_BINS; l++)
        all = most[l] > all ? most[l] : all;
    return all;
}

#define TURN_KERNEL                                                                            \
    {                                                                                          \
        project, angles, wave, moments, transform, lengths, highest                            \
    }

#endif
