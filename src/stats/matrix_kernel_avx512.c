/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix kernels compiled for AVX-512. */
#include "stats/matrix_kernel.h"

#include "stats/matrix_kernel_body.h"

const qk__matrix_kernel qk__matrix_avx512 = MATRIX_KERNEL;
