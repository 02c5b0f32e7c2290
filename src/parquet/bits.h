/* SPDX-License-Identifier: Apache-2.0 */
/* Integers of variable length, as Thrift, runs and differences have them: seven bits a byte, the
 * lowest first, and the high bit set in all bytes but the last. Zigzag makes those of either sign
 * short. */
#ifndef QK_PARQUET_BITS_H
#define QK_PARQUET_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes an integer from *next and moves it on; false where none ends within `bits` bits, or
 * before `end`. */
static inline bool qk__varint_take(const uint8_t **next, const uint8_t *end, unsigned bits,
                                   uint64_t *value)
{
    *value = 0;
    for (unsigned shift = 0; shift < bits && *next < end; shift += 7) {
        uint8_t byte = *(*next)++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

/* Writes at most 10 bytes; returns how many. */
static inline size_t qk__varint_put(uint8_t *out, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

static inline uint64_t qk__zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t qk__unzigzag(uint64_t raw)
{
    return (int64_t)(raw >> 1 ^ (0 - (raw & 1)));
}

#endif
