/* SPDX-License-Identifier: Apache-2.0 */
/* The turn kernels in the instruction set that every processor has, and the choice. */
#include "stats/turn_kernel.h"

#define VECTOR_BYTES 16
#include "stats/turn_kernel_body.h"

const qk__turn_kernel qk__turn_portable = TURN_KERNEL("portable");

const qk__turn_kernel *const qk__turn_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__turn_portable,
#ifdef QK_HAVE_X86_KERNELS
    [QK_AVX2] = &qk__turn_avx2,
    [QK_AVX512] = &qk__turn_avx512,
#endif
};

const qk__turn_kernel *qk__best_turn_kernel(void)
{
    return qk__turn_kernels[qk__simd_count() - 1];
}
