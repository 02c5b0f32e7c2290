/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the fastest conversions that this processor has. */
#include "model/convert.h"

#ifndef QK_HAVE_X86_KERNELS
const qk__convert_kernels *qk__convert_kernels_avx2(void)
{
    return NULL;
}
#endif

const qk__convert_kernels *qk__best_convert_kernels(void)
{
    const qk__convert_kernels *avx2 = qk__convert_kernels_avx2();
    return avx2 ? avx2 : qk__convert_kernels_portable();
}
