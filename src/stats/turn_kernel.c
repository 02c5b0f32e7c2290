/* SPDX-License-Identifier: Apache-2.0 */
/* The turn kernels in the instruction set that every processor has, and the choice. */
#include "stats/turn_kernel.h"

#define VECTOR_BYTES 16
#include "stats/turn_kernel_body.h"

const qk__turn_kernel qk__turn_portable = TURN_KERNEL;

const qk__turn_kernel *const qk__turn_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__turn_portable,
    [QK_AVX2] = QK__ON_X86(qk__turn_avx2),
    [QK_AVX512] = QK__ON_X86(qk__turn_avx512),
};

const qk__turn_kernel *qk__best_turn_kernel(void)
{
    return qk__turn_kernels[qk__best_simd(QK__VERSIONS(qk__turn_kernels))];
}
