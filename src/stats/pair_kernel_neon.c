/* SPDX-License-Identifier: Apache-2.0 */
/* Pair kernels for NEON. */
#include "stats/pair_kernel.h"

#include <arm_neon.h>

enum { WIDTH = 2 };
#define BLOCK 4

typedef float64x2_t vec;
typedef uint64_t bits __attribute__((vector_size(WIDTH * sizeof(uint64_t))));
typedef int32_t vec_i32 __attribute__((vector_size(WIDTH * sizeof(int32_t))));

#define SIGN                  ((bits){0} + (UINT64_C(1) << 63))
#define ALL(x)                vdupq_n_f64(x)
#define FMA(a, b, c)          vfmaq_f64(c, a, b)
#define SQRT(x)               vsqrtq_f64(x)
#define FLOOR(x)              vrndmq_f64(x)
#define WIDEN(x)              vcvt_f64_f32(vld1_f32(x))
#define KEEP_BELOW(y, x, top) ((vec)((bits)(y)&vcltq_f64(x, top)))
#define ADD_LANES(x)          vaddvq_f64(((x)[0] + (x)[2]) + ((x)[1] + (x)[3]))

/* The additions of ADD_LANES for two at once. */
static inline __attribute__((always_inline)) void add_lanes_each(vec (*sum)[4], size_t count,
                                                                 double *v)
{
    vec x[4];
    for (size_t j = 0; j < 4; j++)
        x[j] = (sum[j][0] + sum[j][2]) + (sum[j][1] + sum[j][3]);
    for (size_t j = 0; j + 2 <= count; j += 2)
        vst1q_f64(v + j, vpaddq_f64(x[j], x[j + 1]));
    if (count % 2)
        v[count - 1] = vaddvq_f64(x[count - 1]);
}
#define ADD_LANES_EACH add_lanes_each

#include "stats/pair_kernel_body.h"

const qk__pair_kernel qk__pair_neon = PAIR_KERNEL;
