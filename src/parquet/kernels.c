/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of the kernels of reading, and the choice among them. */
#include "parquet/kernels.h"

const qk__parquet_kernel *const qk__parquet_kernels[QK_NUM_SIMD] = {
    [QK_PORTABLE] = &qk__parquet_portable,
    [QK_AVX2] = QK__ON_X86(qk__parquet_avx2),
    [QK_AVX512_BYTES] = QK__ON_X86(qk__parquet_avx512_bytes),
    [QK_NEON] = QK__ON_ARM64(qk__parquet_neon),
};

const qk__parquet_kernel *qk__best_parquet_kernel(void)
{
    return qk__parquet_kernels[qk__best_simd(QK__VERSIONS(qk__parquet_kernels))];
}
