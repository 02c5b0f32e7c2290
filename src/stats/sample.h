/* SPDX-License-Identifier: Apache-2.0 */
/* Single rows of a qk_sample, whose numbers are float or double. */
#ifndef QK_STATS_SAMPLE_H
#define QK_STATS_SAMPLE_H

#include <qkscope/stats.h>

static inline const void *qk__sample_at(const qk_sample *sample, size_t row)
{
    size_t at = row * sample->dim;
    return sample->f32 ? (const void *)(sample->f32 + at) : sample->f64 + at;
}

/* Row r in double precision. */
static inline void qk__sample_row(const qk_sample *sample, size_t r, double *row)
{
    for (size_t i = 0; i < sample->dim; i++)
        row[i] = sample->f32 ? (double)sample->f32[r * sample->dim + i]
                             : sample->f64[r * sample->dim + i];
}

#endif
