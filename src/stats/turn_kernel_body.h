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

enum { LANES = VECTOR_BYTES / sizeof(double) };

/* At any address. (memcpy goes through halves of the wider vectors, and waits for them.) */
typedef lanes lanes_at __attribute__((aligned(8), may_alias));

/* Macros, since what passes a vector through a call depends on the instruction set. */
#define LOAD(y, x)         ((y) = *(const lanes_at *)(x))
#define STORE(x, y)        (*(lanes_at *)(x) = (y))
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

#define TURN_KERNEL                                                                            \
    {                                                                                          \
        project, angles, wave                                                                  \
    }

#endif
