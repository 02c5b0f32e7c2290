/* SPDX-License-Identifier: Apache-2.0 */
/* The draws of CPython's random module, so that a published selection can be repeated. */
#ifndef QK_BASE_PY_RANDOM_H
#define QK_BASE_PY_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

/* random.Random(seed).sample(range(n), k): k different numbers below n, in the order
 * drawn. QK_ERR_ARGUMENT when k > n. */
QK_MUST_CHECK qk_status qk__py_sample(int64_t seed, size_t n, size_t k, size_t *out,
                                      qk_error *err);

#endif
