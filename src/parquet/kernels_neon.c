/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for NEON: eight values a step, four in each of two registers, as those for AVX2. */
#include "parquet/kernels.h"

#include <arm_neon.h>

enum {
    LANES = 8,
    HALF_BYTES = 16, /* loaded for each half */
    /* The widest value that lies in 4 bytes whatever bit it starts at. */
    WIDEST = 25,
};

/* Where four values lie that start at a bit of the first byte. */
typedef struct spread {
    uint8x16_t bytes; /* which source byte goes where */
    int32x4_t shifts; /* to the left: minus the start bit of each value within its lane */
} spread;

static spread make_spread(unsigned width, unsigned first_bit)
{
    static const uint32_t lanes[4] = {0, 1, 2, 3};
    uint32x4_t bit = vmlaq_n_u32(vdupq_n_u32(first_bit), vld1q_u32(lanes), width);
    uint32x4_t bytes = vmlaq_n_u32(vdupq_n_u32(0x03020100), vshrq_n_u32(bit, 3), 0x01010101);
    return (spread){vreinterpretq_u8_u32(bytes),
                    vnegq_s32(vreinterpretq_s32_u32(vandq_u32(bit, vdupq_n_u32(7))))};
}

static inline uint32x4_t spread_four(const spread *s, const uint8_t *src, uint32x4_t mask)
{
    uint32x4_t lanes = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(src), s->bytes));
    return vandq_u32(vshlq_u32(lanes, s->shifts), mask);
}

/* Steps that load nothing beyond the bytes of `count` values. */
static size_t safe_steps(size_t span, unsigned width, size_t count)
{
    size_t bytes = (count * width + 7) / 8;
    size_t steps = bytes < span ? 0 : (bytes - span) / width + 1;
    return steps > count / LANES ? count / LANES : steps;
}

static uint32_t unpack(const uint8_t *src, unsigned width, uint32_t *out, size_t count)
{
    size_t steps = 0;
    uint32x4_t largest = vdupq_n_u32(0);
    if (width > 0 && width <= WIDEST) {
        /* The upper half starts in the middle of a byte when the width is odd. */
        const size_t middle = 4 * width / 8;
        const spread low = make_spread(width, 0), high = make_spread(width, 4 * width % 8);
        const uint32x4_t mask = vdupq_n_u32((UINT32_C(1) << width) - 1);
        steps = safe_steps(middle + HALF_BYTES, width, count);
        for (size_t i = 0; i < steps; i++) {
            uint32x4_t a = spread_four(&low, src + i * width, mask);
            uint32x4_t b = spread_four(&high, src + i * width + middle, mask);
            largest = vmaxq_u32(largest, vmaxq_u32(a, b));
            vst1q_u32(out + LANES * i, a);
            vst1q_u32(out + LANES * i + 4, b);
        }
    }
    uint32_t most = vmaxvq_u32(largest);
    uint32_t rest = qk__parquet_portable.unpack(src + steps * width, width, out + LANES * steps,
                                                count - LANES * steps);
    return rest > most ? rest : most;
}

static void join4(const uint8_t *src, size_t stride, uint32_t *out, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        uint8x16x4_t bytes = {{vld1q_u8(src + i), vld1q_u8(src + stride + i),
                               vld1q_u8(src + 2 * stride + i), vld1q_u8(src + 3 * stride + i)}};
        vst4q_u8((uint8_t *)(void *)(out + i), bytes);
    }
    qk__parquet_portable.join4(src + i, stride, out + i, count - i);
}

static void join8(const uint8_t *src, size_t stride, uint64_t *out, size_t count)
{
    qk__parquet_portable.join8(src, stride, out, count);
}

const qk__parquet_kernel qk__parquet_neon = {unpack, join4, join8};
