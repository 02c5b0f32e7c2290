/* SPDX-License-Identifier: Apache-2.0 */
/* The portable prefill kernels, which the others must equal, and the choice among them. */
#include "prefill/panel_kernel.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "prefill/bf16_kernel.h"

typedef float vec;
typedef bool mask;

enum { WIDTH = 1, TILE_ROWS = 4, TILE_VECS = 16 };

#define ALL(x)                    (x)
#define FMA(a, b, c)              fmaf(a, b, c)
#define LARGER(x, y)              ((x) > (y) ? (x) : (y))
#define SMALLER(x, y)             ((x) < (y) ? (x) : (y))
#define KEEP_FROM(y, x, low)      ((x) < (low) ? 0.0f : (y))
#define POWER(t)                  power(t)
#define FLUSHED(x)                flushed(x)
#define WHILE_FLUSHING(sums, ...) sums(__VA_ARGS__, true)

static inline float power(float t)
{
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits <<= 23;
    memcpy(&t, &bits, sizeof bits);
    return t;
}

static inline float flushed(float x)
{
    return fabsf(x) < FLT_MIN ? copysignf(0, x) : x;
}

#define ADD_WHERE(sum, x, mask) ((mask) ? (sum) + (x) : (sum))
#define SAME(x, bits)           (memcmp(&(x), &(bits), sizeof(float)) == 0)
#define BELOW(x, y)             ((x) < (y))
#define ANY(mask)               (mask)

#include "prefill/panel_kernel_body.h"

#include "prefill/bf16_kernel_body.h"

const qk__panel_kernel qk__panel_portable = {PANEL_KERNEL};
const qk__bf16_kernel qk__bf16_portable = {BF16_KERNEL};

const qk__panel_kernel *const qk__panel_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__panel_portable,
    [QK_AVX2] = QK__ON_X86(qk__panel_avx2),
    [QK_AVX512] = QK__ON_X86(qk__panel_avx512),
    [QK_NEON] = QK__ON_ARM64(qk__panel_neon),
};

const qk__panel_kernel *qk__best_panel_kernel(void)
{
    return qk__panel_kernels[qk__best_simd(QK__VERSIONS(qk__panel_kernels))];
}

const qk__bf16_kernel *const qk__bf16_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__bf16_portable,        [QK_AVX2] = QK__ON_X86(qk__bf16_avx2),
    [QK_AVX512] = QK__ON_X86(qk__bf16_avx512), [QK_AVX512_BF16] = QK__ON_X86(qk__bf16_words),
    [QK_NEON] = QK__ON_ARM64(qk__bf16_neon),
};

const qk__bf16_kernel *qk__best_bf16_kernel(void)
{
    return qk__bf16_kernels[qk__best_simd(QK__VERSIONS(qk__bf16_kernels))];
}
