/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of a test as the rows that statistics take. */
#ifndef QK_TESTS_STATS_BLOCKS_H
#define QK_TESTS_STATS_BLOCKS_H

#include <qkscope/stats.h>

static inline qk_block floats(const float *x, const int64_t *t, size_t rows, size_t dim)
{
    return (qk_block){.rows = rows, .dim = dim, .f32 = x, .position = t};
}

static inline qk_block doubles(const double *x, const int64_t *t, size_t rows, size_t dim)
{
    return (qk_block){.rows = rows, .dim = dim, .f64 = x, .position = t};
}

#endif
