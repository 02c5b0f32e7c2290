/* SPDX-License-Identifier: Apache-2.0 */
/* What all Gram kernels do alike: packing rows into a tile, adding Gram matrices, and the form
 * v^T gram v. The compiler fits the vectors to the instruction set of the file that includes
 * this. */
#ifndef QK_STATS_GRAM_PACK_H
#define QK_STATS_GRAM_PACK_H

#include <string.h>

#include "stats/gram.h"

typedef double vec_f64 __attribute__((vector_size(PANEL * sizeof(double))));
typedef float vec_f32 __attribute__((vector_size(PANEL * sizeof(float))));

/* y = PANEL values at x. Macros, since what passes a vector through a call depends on the
 * instruction set. */
#define LOAD_F64(y, x) memcpy(&(y), x, sizeof(vec_f64))
#define LOAD_F32(y, x)                                                                         \
    do {                                                                                       \
        vec_f32 narrow_;                                                                       \
        memcpy(&narrow_, x, sizeof narrow_);                                                   \
        (y) = __builtin_convertvector(narrow_, vec_f64);                                       \
    } while (0)

/* One panel of `rows` rows: x - pilot into the tile, and the column sums carried on; sum_o where there is an o.
 * With fewer than PANEL columns left, the last ones are read through a zeroed copy. */
#define DEFINE_PACK(name, type, load)                                                          \
    static inline __attribute__((always_inline)) void name##_panel(                            \
        const type *x, const uint32_t *index, size_t dim, size_t width, const double *pilot,   \
        const double *t, const double *o, size_t rows, double *out, double *sum,               \
        double *sum_t, double *sum_o)                                                          \
    {                                                                                          \
        vec_f64 shift, s, st, so = {0};                                                        \
        LOAD_F64(shift, pilot);                                                                \
        LOAD_F64(s, sum);                                                                      \
        LOAD_F64(st, sum_t);                                                                   \
        if (o)                                                                                 \
            LOAD_F64(so, sum_o);                                                               \
        for (size_t r = 0; r < rows; r++) {                                                    \
            vec_f64 y;                                                                         \
            if (width == PANEL) {                                                              \
                load(y, x + index[r] * dim);                                                   \
            } else {                                                                           \
                type partial[PANEL] = {0};                                                     \
                memcpy(partial, x + index[r] * dim, width * sizeof(type));                     \
                load(y, partial);                                                              \
            }                                                                                  \
            y -= shift;                                                                        \
            memcpy(out + r * PANEL, &y, sizeof y);                                             \
            s += y;                                                                            \
            st += y * t[r];                                                                    \
            if (o)                                                                             \
                so += y * o[r];                                                                \
        }                                                                                      \
        memcpy(sum, &s, sizeof s);                                                             \
        memcpy(sum_t, &st, sizeof st);                                                         \
        if (o)                                                                                 \
            memcpy(sum_o, &so, sizeof so);                                                     \
    }                                                                                          \
                                                                                               \
    static void name(const type *x, const uint32_t *index, size_t dim, const double *pilot,    \
                     const double *t, const double *o, size_t rows, double *tile, double *sum, \
                     double *sum_t, double *sum_o)                                             \
    {                                                                                          \
        size_t c = 0;                                                                          \
        for (; c + PANEL <= dim; c += PANEL)                                                   \
            name##_panel(x + c, index, dim, PANEL, pilot + c, t, o, rows,                      \
                         tile + c * TILE_ROWS, sum + c, sum_t + c, o ? sum_o + c : NULL);      \
        if (c < dim)                                                                           \
            name##_panel(x + c, index, dim, dim - c, pilot + c, t, o, rows,                    \
                         tile + c * TILE_ROWS, sum + c, sum_t + c, o ? sum_o + c : NULL);      \
    }

DEFINE_PACK(pack_f32, float, LOAD_F32)
DEFINE_PACK(pack_f64, double, LOAD_F64)

static void add(double *to, const double *from, size_t count)
{
    for (size_t i = 0; i < count; i += PANEL) {
        vec_f64 x, y;
        LOAD_F64(x, to + i);
        LOAD_F64(y, from + i);
        x += y;
        memcpy(to + i, &x, sizeof x);
    }
}

/* Each entry above the diagonal panel stands for two. */
static double form(const double *gram, size_t panels, const double *v)
{
    vec_f64 inside = {0}, above = {0};
    for (size_t p = 0; p < panels; p++)
        for (size_t i = 0; i < PANEL; i++) {
            vec_f64 g, x, row = {0};
            LOAD_F64(g, gram);
            LOAD_F64(x, v + p * PANEL);
            inside += g * x * v[p * PANEL + i];
            for (size_t q = p + 1; q < panels; q++) {
                LOAD_F64(g, gram + (q - p) * PANEL);
                LOAD_F64(x, v + q * PANEL);
                row += g * x;
            }
            above += row * v[p * PANEL + i];
            gram += (panels - p) * PANEL;
        }
    double sum = 0, twice = 0;
    for (size_t i = 0; i < PANEL; i++) {
        sum += inside[i];
        twice += above[i];
    }
    return sum + 2 * twice;
}

#endif
