/* SPDX-License-Identifier: Apache-2.0 */
/* The portable prefill kernels, which the others must equal, and the choice among them. */
#include "prefill/panel_kernel.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/simd.h"

typedef float vec;

enum { WIDTH = 1, TILE_ROWS = 4, TILE_VECS = 16 };

#define ALL(x)               (x)
#define FMA(a, b, c)         fmaf(a, b, c)
#define LARGER(x, y)         ((x) > (y) ? (x) : (y))
#define SMALLER(x, y)        ((x) < (y) ? (x) : (y))
#define KEEP_FROM(y, x, low) ((x) < (low) ? 0.0f : (y))
#define POWER(t)             power(t)

static inline float power(float t)
{
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits <<= 23;
    memcpy(&t, &bits, sizeof bits);
    return t;
}

#include "prefill/panel_kernel_body.h"

const qk_prefill_kernel qk__prefill_portable = {"portable", rows, columns, softmax, activate};

const qk_prefill_kernel *qk__prefill_kernel_at(size_t i)
{
    static const qk_prefill_kernel *const kernels[QK_NUM_SIMD] = {
        [QK_PORTABLE] = &qk__prefill_portable,
#ifdef QK_HAVE_X86_KERNELS
        [QK_AVX2] = &qk__prefill_avx2,
        [QK_AVX512] = &qk__prefill_avx512,
#endif
    };
    return kernels[i];
}

const qk_prefill_kernel *qk__prefill_kernel(void)
{
    return qk__prefill_kernel_at(qk__simd_count() - 1);
}
