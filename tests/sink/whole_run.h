/* SPDX-License-Identifier: Apache-2.0 */
/* A run of a sink, from opening to finishing, in as few lines as it takes. */
#ifndef TESTS_SINK_WHOLE_RUN_H
#define TESTS_SINK_WHOLE_RUN_H

#include <stdlib.h>
#include <string.h>

#include "tests/sink/made.h"

/* Some rows of some heads of a text; the values are made up. */
static inline qk_status made_put(qk_sink *sink, int64_t text, int layer, qk_kind kind,
                                 const int *heads, size_t num_heads, int64_t first, size_t rows,
                                 qk_error *err)
{
    static float data[Q_HEADS * 1024 * DIM];
    for (size_t h = 0; h < num_heads; h++)
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < DIM; i++)
                data[(h * rows + r) * DIM + i] = made_value(
                    text, layer, kind, false, heads ? heads[h] : (int)h, first + (int64_t)r, i);
    const qk_sink_rows all = {.text = text,
                              .layer = layer,
                              .kind = kind,
                              .heads = heads,
                              .num_heads = num_heads,
                              .first_position = first,
                              .rows = rows,
                              .data = data};
    return qk_sink_put(sink, &all, err);
}

static inline qk_status made_begin(qk_sink *sink, int64_t text, qk_error *err)
{
    const qk_sink_text begun = {.number = text,
                                .example_id = made_example(text),
                                .tokens = made_tokens(text),
                                .source = "made up"};
    return qk_sink_begin(sink, &begun, err);
}

static inline qk_status made_put_layer(qk_sink *sink, int64_t text, int layer, qk_error *err)
{
    size_t tokens = (size_t)made_tokens(text);
    qk_status status = made_put(sink, text, layer, QK_QUERY, NULL, Q_HEADS, 0, tokens, err);
    return status == QK_OK ? made_put(sink, text, layer, QK_KEY, NULL, K_HEADS, 0, tokens, err)
                           : status;
}

/* Sums over all rows of a layer's heads; nothing is stored. */
static inline qk_status made_put_sums(qk_sink *sink, int64_t text, int layer, qk_kind kind,
                                      size_t num_heads, qk_error *err)
{
    enum { BUCKETS = 16, WIDTH = 64 };
    static double x[Q_HEADS * DIM], xt[Q_HEADS * DIM], xx[Q_HEADS * DIM * DIM];
    static double by_bucket[3][Q_HEADS * BUCKETS * DIM];
    int64_t tokens = made_tokens(text);
    size_t buckets = (size_t)(tokens + WIDTH - 1) / WIDTH;
    memset(x, 0, sizeof x);
    memset(xt, 0, sizeof xt);
    memset(xx, 0, sizeof xx);
    memset(by_bucket, 0, sizeof by_bucket);
    for (size_t h = 0; h < num_heads; h++)
        for (int64_t t = 0; t < tokens; t++)
            for (size_t i = 0; i < DIM; i++) {
                double v = made_value(text, layer, kind, false, (int)h, t, i);
                size_t at = h * DIM + i, b = (h * buckets + (size_t)(t / WIDTH)) * DIM + i;
                x[at] += v;
                xt[at] += v * (double)t;
                by_bucket[0][b] += v;
                by_bucket[1][b] += v * (double)t;
                by_bucket[2][b] += v * v;
                for (size_t j = i; j < DIM; j++)
                    xx[at * DIM + j] += v * made_value(text, layer, kind, false, (int)h, t, j);
            }
    const qk_sink_sums sums = {.text = text,
                               .layer = layer,
                               .kind = kind,
                               .num_heads = num_heads,
                               .rows = tokens,
                               .sum_x = x,
                               .sum_xt = xt,
                               .sum_xx = xx,
                               .num_buckets = buckets,
                               .bucket_sum_x = by_bucket[0],
                               .bucket_sum_xt = by_bucket[1],
                               .bucket_sum_xx = by_bucket[2]};
    return qk_sink_put_sums(sink, &sums, err);
}

/* All of a text. */
static inline qk_status made_run(qk_sink *sink, int64_t text, qk_error *err)
{
    qk_status status = made_begin(sink, text, err);
    for (int layer = 0; status == QK_OK && layer < LAYERS; layer++)
        status = made_put_layer(sink, text, layer, err);
    return status == QK_OK ? qk_sink_text_done(sink, text, err) : status;
}

/* All texts that are wanted, and the end. */
static inline qk_status made_run_all(const qk_sink_settings *settings, qk_sink_outcome *outcome,
                                     qk_error *err)
{
    qk_sink *sink;
    qk_status status = qk_sink_open(&sink, settings, err);
    for (int64_t i = 0; status == QK_OK && i < settings->num_texts; i++)
        if (qk_sink_wants(sink, i))
            status = made_run(sink, i, err);
    if (status == QK_OK)
        return qk_sink_finish(&sink, outcome, err);
    qk_sink_close(&sink);
    return status;
}

#endif
