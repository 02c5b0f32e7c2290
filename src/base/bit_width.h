/* SPDX-License-Identifier: Apache-2.0 */
/* How often a number doubles: buckets of positions and of distances, draws below a number, packed
 * integers. */
#ifndef QK_BASE_BIT_WIDTH_H
#define QK_BASE_BIT_WIDTH_H

#include <stdint.h>

/* Bits that hold a value: 0 for 0, else 1 + floor(log2(value)). */
static inline unsigned qk__bit_width(uint64_t value)
{
    return value > 0 ? 64 - (unsigned)__builtin_clzll(value) : 0;
}

#endif
