/* SPDX-License-Identifier: Apache-2.0 */
/* Prefill kernels for NEON: a tile in four parts of 4 x 16 sums in 16 registers. */
#include <arm_neon.h>

typedef float32x4_t vec;
typedef uint32x4_t mask;

enum { WIDTH = 4, TILE_ROWS = 4, TILE_VECS = 4 };

#define ALL(x)       vdupq_n_f32(x)
#define FMA(a, b, c) vfmaq_f32(c, a, b)
/* Not vmaxq_f32, which knows which zero is larger and hands on what is not a number. */
#define LARGER(x, y)            vbslq_f32(vcgtq_f32(x, y), x, y)
#define SMALLER(x, y)           vbslq_f32(vcltq_f32(x, y), x, y)
#define BITS(x)                 vreinterpretq_u32_f32(x)
#define KEEP_FROM(y, x, low)    vreinterpretq_f32_u32(vbicq_u32(BITS(y), vcltq_f32(x, low)))
#define POWER(t)                vreinterpretq_f32_u32(vshlq_n_u32(BITS(t), 23))
#define ADD_WHERE(sum, x, mask) ((sum) + vreinterpretq_f32_u32(vandq_u32(BITS(x), mask)))
#define SAME(x, bits)           vceqq_u32(BITS(x), vdupq_n_u32((uint32_t)(bits)))
#define BELOW(x, y)             vcltq_f32(x, y)
#define ANY(mask)               (vmaxvq_u32(mask) != 0)

#include "prefill/panel_kernel_body.h"

/* The processor takes small sums for 0 before it rounds them, others do so afterwards, which differs next to 2^-126. So
 * where it has taken any, which is rare, the tile is computed once more. (BFDOT and BFMMLA of FEAT_BF16 round
 * otherwise than AVX512_BF16, in both of their modes, and cannot give these bits.) */
enum { FLUSH_TO_ZERO = 1 << 24, SUM_UNDERFLOW = 1 << 3 };

#define GET_REGISTER(value, name) __asm__ volatile("mrs %0, " name : "=r"(value)::"memory")
#define SET_REGISTER(name, value) __asm__ volatile("msr " name ", %0" ::"r"(value) : "memory")

#define WHILE_FLUSHING(sums, ...)                                                              \
    do {                                                                                       \
        uint64_t control_, status_, after_, none_ = 0;                                         \
        GET_REGISTER(control_, "fpcr");                                                        \
        GET_REGISTER(status_, "fpsr");                                                         \
        SET_REGISTER("fpcr", control_ | FLUSH_TO_ZERO);                                        \
        SET_REGISTER("fpsr", none_);                                                           \
        sums(__VA_ARGS__, false);                                                              \
        GET_REGISTER(after_, "fpsr");                                                          \
        SET_REGISTER("fpsr", status_);                                                         \
        SET_REGISTER("fpcr", control_);                                                        \
        if (after_ & SUM_UNDERFLOW)                                                            \
            sums(__VA_ARGS__, true);                                                           \
    } while (0)

#define FLUSHED(x) flushed(x)
static inline vec flushed(vec x)
{
    uint32x4_t small = vcaltq_f32(x, vdupq_n_f32(0x1p-126f));
    return vreinterpretq_f32_u32(vbicq_u32(BITS(x), vandq_u32(small, vdupq_n_u32(0x7fffffff))));
}

#include "prefill/bf16_kernel_body.h"

const qk__panel_kernel qk__panel_neon = {PANEL_KERNEL};
const qk__bf16_kernel qk__bf16_neon = {BF16_KERNEL};
