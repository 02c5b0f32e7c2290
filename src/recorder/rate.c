/* SPDX-License-Identifier: Apache-2.0 */
/* Which rate of a sampler keeps a given number of rows of texts whose lengths are known. */
#include <qkscope/recorder.h>

#include "recorder/recording.h"

/* Positions that a sampler keeps with the same probability, min(1, rate / size). */
typedef struct rate_class {
    double size, positions;
} rate_class;

void qk__count_window(qk__token_counts *counts, int64_t tokens)
{
    counts->tokens += tokens;
    counts->windows++;
    counts->longest = tokens > counts->longest ? tokens : counts->longest;
    for (int log = 0; (INT64_C(1) << log) - 1 < tokens; log++) {
        int64_t begin = (INT64_C(1) << log) - 1;
        int64_t end = 2 * begin + 1;
        counts->by_log[log] += (end < tokens ? end : tokens) - begin;
    }
}

/* In the order of their sizes. */
static size_t list_classes(const qk_sampler *sampler, const qk__token_counts *counts,
                           rate_class classes[QK__LOGS])
{
    double size = (double)qk_sampler_bucket_size(sampler);
    classes[0] = (rate_class){size, (double)counts->tokens};
    if (sampler->type != QK_SAMPLER_LOG_UNIFORM)
        return 1;
    size_t count = 1;
    classes[0].positions = 0;
    for (int log = 0; log < QK__LOGS; log++) {
        double bucket = (double)(INT64_C(1) << log);
        if (bucket > size)
            classes[count++] = (rate_class){bucket, (double)counts->by_log[log]};
        else
            classes[0].positions += (double)counts->by_log[log];
    }
    while (count > 1 && classes[count - 1].positions == 0)
        count--;
    return count;
}

/* The smallest rate that keeps so many rows, fewer than there are: as it grows, class after
 * class is kept whole. */
static double solve(const rate_class *classes, size_t count, double rows)
{
    double whole = 0;
    for (size_t first = 0; first < count; first++) {
        double slope = 0;
        for (size_t i = first; i < count; i++)
            slope += classes[i].positions / classes[i].size;
        double rate = (rows - whole) / slope;
        if (rate <= classes[first].size)
            return rate;
        whole += classes[first].positions;
    }
    return classes[count - 1].size;
}

/* To four digits, so that it can be given by hand. */
static double round_up(double rate)
{
    double scale = 1;
    double unit = 1;
    while (rate * scale < 1000)
        scale *= 10;
    while (rate / unit >= 10000)
        unit *= 10;
    double digits = rate * scale / unit;
    double floor = (double)(int64_t)digits;
    return (digits - floor > 1e-9 ? floor + 1 : floor) / scale * unit;
}

static int64_t choose_bucket(qk_sampler_type type, int64_t longest)
{
    enum { BUCKETS = 16 };
    qk_sampler usual;
    int64_t size = 1;
    qk_sampler_default(&usual);
    while (size * BUCKETS < longest)
        size *= 2;
    return type == QK_SAMPLER_UNIFORM ? size : usual.min_bucket_size;
}

double qk__choose_rate(qk_sampler *sampler, const qk__token_counts *counts, int64_t rows)
{
    rate_class classes[QK__LOGS];
    if (sampler->min_bucket_size == 0)
        sampler->min_bucket_size = choose_bucket(sampler->type, counts->longest);
    size_t count = list_classes(sampler, counts, classes);
    sampler->base_rate = classes[count - 1].size;
    if (rows >= counts->tokens)
        return (double)counts->tokens;
    double rate = round_up(solve(classes, count, (double)rows));
    if (rate < sampler->base_rate)
        sampler->base_rate = rate;
    double expected = 0;
    for (size_t i = 0; i < count; i++) {
        double share = sampler->base_rate / classes[i].size;
        expected += classes[i].positions * (share < 1 ? share : 1);
    }
    return expected;
}
