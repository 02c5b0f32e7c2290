/* SPDX-License-Identifier: Apache-2.0 */
/* Positions cut into buckets of equal width. */
#include "analysis/buckets.h"

__extension__ typedef unsigned __int128 wide; /* positions may be any int64_t */

static wide span_of(const qk__buckets *b)
{
    return (wide)((uint64_t)b->last - (uint64_t)b->first) + 1;
}

double qk__buckets_width(const qk__buckets *b)
{
    return b->count > 0 ? (double)span_of(b) / b->count : 0;
}

void qk__buckets_cut(const qk__buckets *b, const int64_t *position, size_t rows,
                     int64_t *bucket)
{
    wide span = span_of(b);
    for (size_t i = 0; i < rows; i++) {
        int64_t t = position[i] < b->first ? b->first : position[i];
        t = t > b->last ? b->last : t;
        bucket[i] =
            (int64_t)((wide)((uint64_t)t - (uint64_t)b->first) * (unsigned)b->count / span);
    }
}
