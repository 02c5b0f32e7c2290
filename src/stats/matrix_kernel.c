/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix kernels in the instruction set that every processor has, and the choice. */
#include "stats/matrix_kernel.h"

#include "stats/matrix_kernel_body.h"

const qk__matrix_kernel qk__matrix_portable = MATRIX_KERNEL;

const qk__matrix_kernel *const qk__matrix_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__matrix_portable,
    [QK_AVX2] = QK__ON_X86(qk__matrix_avx2),
    [QK_AVX512] = QK__ON_X86(qk__matrix_avx512),
};

const qk__matrix_kernel *qk__best_matrix_kernel(void)
{
    return qk__matrix_kernels[qk__best_simd(QK__VERSIONS(qk__matrix_kernels))];
}
