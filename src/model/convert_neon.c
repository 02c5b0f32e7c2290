/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions with NEON. That of bfloat16 is a shift, which the compiler makes vectors of. */
#include <arm_neon.h>

#include "model/convert.h"

static void from_f16(const void *source, float *out, size_t count)
{
    const uint8_t *next = source;
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        float16x8_t halves = vreinterpretq_f16_u8(vld1q_u8(next + 2 * i));
        vst1q_f32(out + i, vcvt_f32_f16(vget_low_f16(halves)));
        vst1q_f32(out + i + 4, vcvt_high_f32_f16(halves));
    }
    qk__convert_portable.from_f16(next + 2 * i, out + i, count - i);
}

static void from_bf16(const void *source, float *out, size_t count)
{
    qk__convert_portable.from_bf16(source, out, count);
}

const qk__convert_kernel qk__convert_neon = {from_f16, from_bf16};
