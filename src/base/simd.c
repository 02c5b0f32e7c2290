/* SPDX-License-Identifier: Apache-2.0 */
/* What this processor can do, as far as the kernels use it. */
#include "base/simd.h"

const char *const qk__simd_names[QK_NUM_SIMD] = {
    [QK_PORTABLE] = "portable",       [QK_AVX2] = "avx2",
    [QK_AVX512] = "avx512",           [QK_AVX512_BYTES] = "avx512-bytes",
    [QK_AVX512_BF16] = "avx512-bf16", [QK_NEON] = "neon",
};

/* Every processor with AVX2 has F16C; to ask for it costs microseconds in a virtual machine. */
bool qk__simd_has(size_t set)
{
#ifdef QK_HAVE_X86_KERNELS
    switch (set) {
    case QK_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    case QK_AVX512:
        return __builtin_cpu_supports("avx512f");
    case QK_AVX512_BYTES:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512vbmi");
    case QK_AVX512_BF16:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16");
    }
#endif
#ifdef QK_HAVE_ARM64_KERNELS
    if (set == QK_NEON)
        return true;
#endif
    return set == QK_PORTABLE;
}

/* Intel's processors multiply bfloat16 numbers at half the rate of AMD's: the kernel for AVX-512 alone, which ends
 * in the same bits, is faster there. */
static bool is_fast(size_t set)
{
#ifdef QK_HAVE_X86_KERNELS
    return set != QK_AVX512_BF16 || !__builtin_cpu_is("intel");
#else
    (void)set;
    return true;
#endif
}

size_t qk__best_simd(unsigned sets)
{
    size_t set = QK_NUM_SIMD - 1;
    while (set > QK_PORTABLE && !(sets >> set & 1 && qk__simd_has(set) && is_fast(set)))
        set--;
    return set;
}
