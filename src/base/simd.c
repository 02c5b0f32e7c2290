/* SPDX-License-Identifier: Apache-2.0 */
/* What this processor can do, as far as the kernels care. */
#include "base/simd.h"

size_t qk__simd_count(void)
{
#ifdef QK_HAVE_X86_KERNELS
    if (__builtin_cpu_supports("avx512f"))
        return QK_AVX512 + 1;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return QK_AVX2 + 1;
#endif
    return QK_PORTABLE + 1;
}

bool qk__simd_has_bf16(void)
{
#ifdef QK_HAVE_X86_KERNELS
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}
