/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels: the innermost loops, as tables of functions, written for several instruction sets.
 *
 * A kernel is a struct of functions; its versions are an array of pointers by instruction set, NULL where it has
 * none. All versions give the same bits. A new version takes a file of its own, compiled with the flags of simd_flags
 * (meson.build), and a line in the array. A new set takes a line here, in qk__simd_names, in qk__simd_has and in
 * QK__VERSIONS, and its flags. */
#ifndef QK_BASE_SIMD_H
#define QK_BASE_SIMD_H

#include <stdbool.h>
#include <stddef.h>

/* A kernel uses the last set for which it has a version and which the processor can run. */
enum {
    QK_PORTABLE,     /* C alone, always there */
    QK_AVX2,         /* with FMA and F16C */
    QK_AVX512,       /* F */
    QK_AVX512_BYTES, /* with BW, DQ, VL and VBMI: permutes bytes */
    QK_AVX512_BF16,  /* multiplies bfloat16 numbers */
    QK_NEON,         /* every arm64 processor has it */
    QK_NUM_SIMD
};

extern const char *const qk__simd_names[QK_NUM_SIMD];

/* A version in the array of a kernel: NULL in a build for another processor. */
#ifdef QK_HAVE_X86_KERNELS
#define QK__ON_X86(version) &(version)
#else
#define QK__ON_X86(version) NULL
#endif
#ifdef QK_HAVE_ARM64_KERNELS
#define QK__ON_ARM64(version) &(version)
#else
#define QK__ON_ARM64(version) NULL
#endif

/* Whether this build and this processor have an instruction set. */
bool qk__simd_has(size_t set);

/* Which versions a kernel has, one bit for each instruction set: a constant in the file with their array. */
#define QK__VERSIONS(kernels)                                                                  \
    (1u | ((kernels)[QK_AVX2] ? 1u << QK_AVX2 : 0) |                                           \
     ((kernels)[QK_AVX512] ? 1u << QK_AVX512 : 0) |                                            \
     ((kernels)[QK_AVX512_BYTES] ? 1u << QK_AVX512_BYTES : 0) |                                \
     ((kernels)[QK_AVX512_BF16] ? 1u << QK_AVX512_BF16 : 0) |                                  \
     ((kernels)[QK_NEON] ? 1u << QK_NEON : 0))

/* The last of these sets that the processor has. Tests clear bits to get another version. */
size_t qk__best_simd(unsigned sets);

/* The set of each version of a kernel that can run here, the portable one first. */
#define qk__each_version(set, kernels)                                                         \
    for (size_t set = QK_PORTABLE; set < QK_NUM_SIMD; set++)                                   \
        if ((kernels)[set] && qk__simd_has(set))

#endif
