/* SPDX-License-Identifier: Apache-2.0 */
/* Gram kernel for NEON: blocks of 4 x 8 sums held in 16 registers. */
#include "stats/gram.h"

#include <arm_neon.h>

enum { WIDTH = 2, HEIGHT = 4, WIDE = 1 };

#define ALL(x)       vdupq_n_f64(x)
#define FMA(a, b, c) vfmaq_f64(c, a, b)

#include "stats/gram_body.h"

const qk__gram_kernel qk__gram_neon = GRAM_KERNEL;
