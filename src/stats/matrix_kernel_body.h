/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix kernels, in vectors that the compiler fits to the instruction set of the file
 * that includes this. */
#ifndef QK_STATS_MATRIX_KERNEL_BODY_H
#define QK_STATS_MATRIX_KERNEL_BODY_H

#include <stdint.h>
#include <string.h>

#include "stats/matrix_kernel.h"

#define INLINE static inline __attribute__((always_inline))

typedef double lanes __attribute__((vector_size(MATRIX_LANES * sizeof(double))));
typedef int64_t lane_mask __attribute__((vector_size(MATRIX_LANES * sizeof(int64_t))));

/* Macros, since what passes a vector through a call depends on the instruction set. */
#define LOAD(y, x)  memcpy(&(y), x, sizeof(lanes))
#define STORE(x, y) memcpy(x, &(y), sizeof(lanes))

static double dot(const double *a, const double *b, size_t n)
{
    lanes sum[2] = {{0}, {0}}, x, y;
    size_t i = 0;
    for (; i + 2 * MATRIX_LANES <= n; i += 2 * MATRIX_LANES)
        for (size_t h = 0; h < 2; h++) {
            LOAD(x, a + i + h * MATRIX_LANES);
            LOAD(y, b + i + h * MATRIX_LANES);
            sum[h] += x * y;
        }
    for (size_t h = 0; i < n; h++, i += MATRIX_LANES) {
        double left[MATRIX_LANES] = {0}, right[MATRIX_LANES] = {0};
        size_t width = n - i < MATRIX_LANES ? n - i : MATRIX_LANES;
        memcpy(left, a + i, width * sizeof *a);
        memcpy(right, b + i, width * sizeof *b);
        LOAD(x, left);
        LOAD(y, right);
        sum[h] += x * y;
    }
    lanes s = sum[0] + sum[1];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static void add_scaled(double factor, const double *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* `rows` rows of a sweep; a constant at each call, so that the loops over it unroll. */
INLINE void sweep_rows(double *row, size_t ld, size_t rows, size_t first_lane, size_t i,
                       const double *v, const double *w, const double *next, double *product)
{
    for (size_t c = first_lane; c < ld; c += MATRIX_LANES) {
        lanes v_c, w_c, sum, x;
        LOAD(v_c, v + c);
        LOAD(w_c, w + c);
        LOAD(sum, product + c);
        for (size_t r = 0; r < rows; r++) {
            LOAD(x, row + r * ld + c);
            x -= v[i + r] * w_c + w[i + r] * v_c;
            STORE(row + r * ld + c, x);
            sum += next[i + r] * x;
        }
        STORE(product + c, sum);
    }
}

static void sweep(double *matrix, size_t ld, size_t first, size_t n, const double *v,
                  const double *w, const double *next, double *product)
{
    enum { ROWS = 4 };
    size_t first_lane = first / MATRIX_LANES * MATRIX_LANES, i = first;
    for (; i + ROWS <= n; i += ROWS)
        sweep_rows(matrix + i * ld, ld, ROWS, first_lane, i, v, w, next, product);
    for (; i < n; i++)
        sweep_rows(matrix + i * ld, ld, 1, first_lane, i, v, w, next, product);
}

/* A pivot of 0 needs no care: the next one is then minus infinity, the one after it as if the
 * matrix began there. */
static void sturm(const double *diagonal, const double *off_squared, size_t n,
                  const double x[STURM_POINTS], double below[STURM_POINTS])
{
    enum { PARTS = STURM_POINTS / MATRIX_LANES };
    lanes at[PARTS], pivot[PARTS];
    lane_mask count[PARTS];
    for (size_t h = 0; h < PARTS; h++) {
        LOAD(at[h], x + h * MATRIX_LANES);
        pivot[h] = diagonal[0] - at[h];
        count[h] = pivot[h] < 0;
    }
    for (size_t i = 1; i < n; i++)
        for (size_t h = 0; h < PARTS; h++) {
            pivot[h] = (diagonal[i] - at[h]) - off_squared[i - 1] / pivot[h];
            count[h] += pivot[h] < 0; /* a mask is 0 or -1 */
        }
    for (size_t h = 0; h < PARTS; h++)
        for (size_t i = 0; i < MATRIX_LANES; i++)
            below[h * MATRIX_LANES + i] = (double)-count[h][i];
}

#define MATRIX_KERNEL                                                                          \
    {                                                                                          \
        dot, add_scaled, sweep, sturm                                                          \
    }

#endif
