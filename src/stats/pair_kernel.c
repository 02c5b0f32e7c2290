/* SPDX-License-Identifier: Apache-2.0 */
/* The portable pair kernels, which the others must equal, and the choice among them. */
#include "stats/pair_kernel.h"

#include <math.h>
#include <string.h>

#include <qkscope/stats.h>

enum { WIDTH = 2 };
#define BLOCK 4

typedef double vec __attribute__((vector_size(WIDTH * sizeof(double))));
typedef uint64_t bits __attribute__((vector_size(WIDTH * sizeof(uint64_t))));
typedef int32_t vec_i32 __attribute__((vector_size(WIDTH * sizeof(int32_t))));

#define SIGN                  ((bits){0} + (UINT64_C(1) << 63))
#define ALL(x)                ((vec){(x), (x)})
#define FMA(a, b, c)          ((vec){fma((a)[0], (b)[0], (c)[0]), fma((a)[1], (b)[1], (c)[1])})
#define SQRT(x)               ((vec){sqrt((x)[0]), sqrt((x)[1])})
#define FLOOR(x)              floor_both(x)
#define WIDEN(x)              ((vec){(x)[0], (x)[1]})
#define KEEP_BELOW(y, x, top) ((vec)((bits)(y) & (bits)((x) < (top))))
#define ADD_LANES(x)          add_pair(((x)[0] + (x)[2]) + ((x)[1] + (x)[3]))
#define ADD_LANES_EACH(sum, count, v)                                                          \
    for (size_t j_ = 0; j_ < (count); j_++)                                                    \
    (v)[j_] = ADD_LANES((sum)[j_])

static inline vec floor_both(vec x)
{
    return (vec){floor(x[0]), floor(x[1])};
}

static inline double add_pair(vec x)
{
    return x[0] + x[1];
}

#include "stats/pair_kernel_body.h"

const qk__pair_kernel qk__pair_portable = PAIR_KERNEL;

const qk__pair_kernel *const qk__pair_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__pair_portable,
    [QK_AVX2] = QK__ON_X86(qk__pair_avx2),
    [QK_AVX512] = QK__ON_X86(qk__pair_avx512),
    [QK_NEON] = QK__ON_ARM64(qk__pair_neon),
};

const qk__pair_kernel *qk__best_pair_kernel(void)
{
    return qk__pair_kernels[qk__best_simd(QK__VERSIONS(qk__pair_kernels))];
}
