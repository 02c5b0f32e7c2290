/* SPDX-License-Identifier: Apache-2.0 */
/* What all Gram kernels do alike: packing rows into a tile, adding Gram matrices, and the form
 * v^T gram v; in vectors of WIDTH doubles, which the file that includes this defines: as wide as its
 * instruction set has them. (gcc takes wider ones apart badly.) */
#ifndef QK_STATS_GRAM_PACK_H
#define QK_STATS_GRAM_PACK_H

#include <string.h>

#include "stats/gram.h"

enum { PARTS = PANEL / WIDTH }; /* vectors that make a panel */

#define INLINE static inline __attribute__((always_inline))

typedef double vec __attribute__((vector_size(WIDTH * sizeof(double))));
typedef float vec_f32 __attribute__((vector_size(WIDTH * sizeof(float))));

/* At any address. (memcpy goes through halves of the wider vectors, and waits for them.) */
typedef vec vec_at __attribute__((aligned(8), may_alias));
typedef vec_f32 vec_f32_at __attribute__((aligned(4), may_alias));

/* Macros, since what passes a vector through a call depends on the instruction set. */
#define LOAD_F64(y, x) ((y) = *(const vec_at *)(x))
#define LOAD_F32(y, x) ((y) = __builtin_convertvector(*(const vec_f32_at *)(x), vec))
#define STORE(x, y)    (*(vec_at *)(x) = (y))

/* One panel of `rows` rows: x - pilot into the tile, and the column sums carried on; sum_o where there is an o.
 * With fewer than PANEL columns left, the last ones are read through a zeroed copy. */
#define DEFINE_PACK(name, type, load)                                                          \
    INLINE void name##_panel(const type *x, const uint32_t *index, size_t dim, size_t width,   \
                             const double *pilot, const double *t, const double *o,            \
                             size_t rows, double *out, double *sum, double *sum_t,             \
                             double *sum_o)                                                    \
    {                                                                                          \
        vec shift[PARTS], s[PARTS], st[PARTS], so[PARTS] = {{0}};                              \
        for (size_t h = 0; h < PARTS; h++) {                                                   \
            LOAD_F64(shift[h], pilot + h * WIDTH);                                             \
            LOAD_F64(s[h], sum + h * WIDTH);                                                   \
            LOAD_F64(st[h], sum_t + h * WIDTH);                                                \
            if (o)                                                                             \
                LOAD_F64(so[h], sum_o + h * WIDTH);                                            \
        }                                                                                      \
        for (size_t r = 0; r < rows; r++) {                                                    \
            const type *from = x + index[r] * dim;                                             \
            type partial[PANEL] = {0};                                                         \
            if (width < PANEL)                                                                 \
                from = memcpy(partial, from, width * sizeof(type));                            \
            for (size_t h = 0; h < PARTS; h++) {                                               \
                vec y;                                                                         \
                load(y, from + h * WIDTH);                                                     \
                y -= shift[h];                                                                 \
                STORE(out + r * PANEL + h * WIDTH, y);                                         \
                s[h] += y;                                                                     \
                st[h] += y * t[r];                                                             \
                if (o)                                                                         \
                    so[h] += y * o[r];                                                         \
            }                                                                                  \
        }                                                                                      \
        for (size_t h = 0; h < PARTS; h++) {                                                   \
            STORE(sum + h * WIDTH, s[h]);                                                      \
            STORE(sum_t + h * WIDTH, st[h]);                                                   \
            if (o)                                                                             \
                STORE(sum_o + h * WIDTH, so[h]);                                               \
        }                                                                                      \
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
    for (size_t i = 0; i < count; i += WIDTH) {
        vec x, y;
        LOAD_F64(x, to + i);
        LOAD_F64(y, from + i);
        x += y;
        STORE(to + i, x);
    }
}

/* Each entry above the diagonal panel stands for two. */
static double form(const double *gram, size_t panels, const double *v)
{
    vec inside[PARTS] = {{0}}, above[PARTS] = {{0}};
    for (size_t p = 0; p < panels; p++)
        for (size_t i = 0; i < PANEL; i++, gram += (panels - p) * PANEL)
            for (size_t h = 0; h < PARTS; h++) {
                vec g, x, row = {0};
                LOAD_F64(g, gram + h * WIDTH);
                LOAD_F64(x, v + p * PANEL + h * WIDTH);
                inside[h] += g * x * v[p * PANEL + i];
                for (size_t q = p + 1; q < panels; q++) {
                    LOAD_F64(g, gram + (q - p) * PANEL + h * WIDTH);
                    LOAD_F64(x, v + q * PANEL + h * WIDTH);
                    row += g * x;
                }
                above[h] += row * v[p * PANEL + i];
            }
    double sum = 0, twice = 0;
    for (size_t i = 0; i < PANEL; i++) {
        sum += inside[i / WIDTH][i % WIDTH];
        twice += above[i / WIDTH][i % WIDTH];
    }
    return sum + 2 * twice;
}

#endif
