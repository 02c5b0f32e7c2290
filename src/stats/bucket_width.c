/* SPDX-License-Identifier: Apache-2.0 */
/* Which widths W explain every row: bucket = floor(position / W). */
#include "stats/bucket_width.h"

#include <math.h>
#include <stdbool.h>

typedef struct widths {
    uint64_t low, high; /* widths that explain the rows so far; none if low > high */
    double least, most; /* positions */
    double first, last; /* buckets */
} widths;

/* bucket W <= position < (bucket + 1) W. Divides only where the row narrows the range. For negative positions p and
 * buckets b, -1-p and -1-b obey the same. */
static void narrow(widths *w, int64_t position, int64_t bucket)
{
    uint64_t p = (uint64_t)(position < 0 ? -1 - position : position);
    uint64_t b = (uint64_t)(bucket < 0 ? -1 - bucket : bucket), product;
    if ((position < 0) != (bucket < 0)) {
        w->high = 0;
        return;
    }
    if (__builtin_mul_overflow(b, w->high, &product) || product > p)
        w->high = p / b;
    if (!__builtin_mul_overflow(b + 1, w->low, &product) && product <= p)
        w->low = p / (b + 1) + 1;
}

static void add_sample(widths *w, const qk_block *s)
{
    for (size_t i = 0; i < s->rows; i++) {
        if (s->group && s->group[i] == s->left_out)
            continue;
        double position = (double)s->position[i], bucket = (double)s->bucket[i];
        w->least = position < w->least ? position : w->least;
        w->most = position > w->most ? position : w->most;
        w->first = bucket < w->first ? bucket : w->first;
        w->last = bucket > w->last ? bucket : w->last;
        if (w->low <= w->high)
            narrow(w, s->position[i], s->bucket[i]);
    }
}

/* The number in low..high with the most factors of two, the smallest of several. */
static uint64_t roundest(uint64_t low, uint64_t high)
{
    uint64_t best = low;
    for (uint64_t unit = 2; unit != 0 && unit <= high; unit *= 2) {
        uint64_t above = (low - 1) / unit + 1; /* multiples of it */
        if (above <= high / unit)
            best = above * unit;
    }
    return best;
}

double qk__bucket_width(const qk_block *queries, const qk_block *keys)
{
    widths w = {1, UINT64_MAX, INFINITY, -INFINITY, INFINITY, -INFINITY};
    add_sample(&w, queries);
    add_sample(&w, keys);
    if (w.low <= w.high && w.high < UINT64_MAX)
        return (double)roundest(w.low, w.high);
    /* Not equally wide, or all in one bucket that has no upper end. */
    return w.last >= w.first ? (w.most - w.least + 1) / (w.last - w.first + 1) : 1;
}
