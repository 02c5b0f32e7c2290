/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix kernels compiled for AVX2. */
#include "stats/matrix_kernel.h"

#include "stats/matrix_kernel_body.h"

const qk__matrix_kernel qk__matrix_avx2 = MATRIX_KERNEL;
