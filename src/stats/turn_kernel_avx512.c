/* SPDX-License-Identifier: Apache-2.0 */
/* The turn kernels compiled for AVX-512. */
#include "stats/turn_kernel.h"

#define VECTOR_BYTES 64
#include "stats/turn_kernel_body.h"

const qk__turn_kernel qk__turn_avx512 = TURN_KERNEL;
