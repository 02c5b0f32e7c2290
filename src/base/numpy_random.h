/* SPDX-License-Identifier: Apache-2.0 */
/* The draws of NumPy's default generator, so that a published selection can be repeated. */
#ifndef QK_BASE_NUMPY_RANDOM_H
#define QK_BASE_NUMPY_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

/* Sets chosen[i], i < n, to whether numpy.random.default_rng(seed).choice(n, k, replace=False)
 * draws i, in whatever place. 1 <= n < 2^32; k >= n draws all. NumPy takes no seed below 0:
 * its low 64 bits are used. */
QK_MUST_CHECK qk_status qk__numpy_choice(int64_t seed, size_t n, size_t k, bool *chosen,
                                         qk_error *err);

#endif
