/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix kernels in the instruction set that every processor has, and the choice. */
#include "stats/matrix_kernel.h"

#include "stats/matrix_kernel_body.h"

const qk__matrix_kernel qk__matrix_portable = MATRIX_KERNEL("portable");

const qk__matrix_kernel *const qk__matrix_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__matrix_portable,
#ifdef QK_HAVE_X86_KERNELS
    [QK_AVX2] = &qk__matrix_avx2,
    [QK_AVX512] = &qk__matrix_avx512,
#endif
};

const qk__matrix_kernel *qk__best_matrix_kernel(void)
{
    return qk__matrix_kernels[qk__simd_count() - 1];
}
