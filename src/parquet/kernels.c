/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels this processor gets: the fastest that it can run. */
#include "parquet/kernels.h"

#ifndef QK_HAVE_X86_KERNELS
const qk__parquet_kernels *qk__parquet_kernels_avx2(void)
{
    return NULL;
}

const qk__parquet_kernels *qk__parquet_kernels_avx512(void)
{
    return NULL;
}
#endif

const qk__parquet_kernels *qk__best_parquet_kernels(void)
{
    const qk__parquet_kernels *best = qk__parquet_kernels_avx512();
    if (!best)
        best = qk__parquet_kernels_avx2();
    return best ? best : qk__parquet_kernels_portable();
}
