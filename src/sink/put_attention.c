/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows of attention: those of a text and layer come at once, as one chunk. */
#include <stdlib.h>

#include "base/error.h"
#include "sink/sink.h"

typedef struct attention_delivery {
    qk_sink *sink;
    const qk_sink_attention *sums;
    qk__text_block *block;
    qk__text *text;
    qk__part_shape shape;
    qk__waiting *chunk;
} attention_delivery;

static qk_status check_attention(const qk_sink *sink, const qk_sink_attention *sums,
                                 qk_error *err)
{
    int64_t rows = 0;
    QK_TRY(qk__check_heads(sink, sums->layer, QK_QUERY, sums->heads, sums->num_heads, err));
    if (sums->num_buckets < 1 || sums->num_buckets > QK_DISTANCE_BINS || !sums->bucket_rows ||
        (sums->num_heads > 0 && !sums->sums))
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "attention without numbers, or in %zu buckets of rows: 1 to %d",
                        sums->num_buckets, QK_DISTANCE_BINS);
    for (size_t b = 0; b < sums->num_buckets; b++) {
        if (sums->bucket_rows[b] < 0 || sums->bucket_rows[b] > INT32_MAX)
            return qk__fail(err, QK_ERR_ARGUMENT, "%lld rows in bucket %zu: no such number",
                            (long long)sums->bucket_rows[b], b);
        rows += sums->bucket_rows[b];
    }
    return rows > 0 ? QK_OK : qk__fail(err, QK_ERR_ARGUMENT, "attention over no rows");
}

/* Makes a chunk for the layer of the text, whose attention comes once. The caller holds the mutex. */
static qk_status enter_attention(attention_delivery *d, qk_error *err)
{
    const qk_sink_attention *sums = d->sums;
    QK_TRY(qk__find_text(d->sink, sums->text, &d->block, &d->text, err));
    if (d->text->attended[sums->layer])
        return qk__fail(err, QK_ERR_ARGUMENT, "layer %d: the attention in text %lld came twice",
                        sums->layer, (long long)sums->text);
    if (d->text->tokens == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "text %lld has no tokens", (long long)sums->text);
    QK_TRY(qk__spare_take(d->sink, &d->chunk, err));
    d->text->attended[sums->layer] = true;
    d->chunk->next = NULL;
    d->chunk->text = d->text - d->block->texts;
    d->chunk->chunk = 0;
    d->chunk->last = true;
    d->chunk->has_first = false;
    return QK_OK;
}

/* The place of a captured head in what came; num_heads: it is not there. */
static size_t find_head(const qk_sink_attention *sums, int head)
{
    size_t i = 0;
    while (i < sums->num_heads && (sums->heads ? sums->heads[i] : (int)i) != head)
        i++;
    return i;
}

static qk_status take_attention(const attention_delivery *d, qk_error *err)
{
    const qk_sink_attention *sums = d->sums;
    const qk__summed_means rows = {.last_position = d->text->tokens - 1,
                                   .num_buckets = sums->num_buckets,
                                   .rows = sums->bucket_rows};
    QK_TRY(qk__chunk_means_expect(d->chunk->moments, &d->shape, &rows, err));
    for (size_t place = 0; place < d->shape.num_heads; place++) {
        size_t i = find_head(sums, d->shape.heads[place]);
        if (i == sums->num_heads)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "layer %d, query head %d: its attention in text %lld is missing: "
                            "all captured heads of a layer come at once",
                            sums->layer, d->shape.heads[place], (long long)sums->text);
        if (!qk__chunk_means_take(d->chunk->moments, place,
                                  sums->sums + i * sums->num_buckets * QK_ATTENTION_SUMS))
            return qk__fail(err, QK_ERR_DEGENERATE,
                            "layer %d, query head %d, text %lld: sums of attention that are "
                            "not finite",
                            sums->layer, d->shape.heads[place], (long long)sums->text);
    }
    return QK_OK;
}

static qk_status deliver(attention_delivery *d, qk_error *err)
{
    QK_TRY(check_attention(d->sink, d->sums, err));
    d->shape = qk__part_shape_of(d->sink, QK__ATTENTION, d->sums->layer, QK_QUERY);
    if (d->shape.num_heads == 0)
        return QK_OK;
    pthread_mutex_lock(&d->sink->mutex);
    qk_status status = enter_attention(d, err);
    pthread_mutex_unlock(&d->sink->mutex);
    QK_TRY(status);
    status = take_attention(d, err);
    if (status != QK_OK) {
        qk__waiting_free(&d->chunk);
        return status;
    }
    return qk__sums_push(d->sink, d->block, QK__ATTENTION, d->sums->layer, QK_QUERY, d->chunk,
                         err);
}

qk_status qk_sink_put_attention(qk_sink *sink, const qk_sink_attention *sums, qk_error *err)
{
    QK_NEED(err, sink, sums);
    attention_delivery d = {.sink = sink, .sums = sums};
    if (!sink->settings.keep.attention)
        return QK_OK;
    qk_status status = deliver(&d, err);
    if (status != QK_OK)
        qk__sink_fail(sink, status, err);
    return status;
}
