/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of the conversions, and the choice among them. */
#include "model/convert.h"

const qk__convert_kernel *const qk__convert_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__convert_portable,
    [QK_AVX2] = QK__ON_X86(qk__convert_avx2),
    [QK_NEON] = QK__ON_ARM64(qk__convert_neon),
};

const qk__convert_kernel *qk__best_convert_kernel(void)
{
    return qk__convert_kernels[qk__best_simd(QK__VERSIONS(qk__convert_kernels))];
}
