/* SPDX-License-Identifier: Apache-2.0 */
/* Vectors to moments. The thread that brings the last vector of a chunk sums it. The sums are added text by text,
 * chunk by chunk, so that they do not depend on who was first; a chunk that comes too early waits. */
#include <stdlib.h>

#include "base/error.h"
#include "sink/sink.h"

qk__queue *qk__queue_of(const qk_sink *sink, const qk__text_block *block, int set, int layer,
                        qk_kind kind)
{
    size_t parts = 2 * (size_t)sink->settings.num_layers;
    return &block->queues[(size_t)set * parts + qk__part_of(layer, kind)];
}

qk__part_shape qk__part_shape_of(const qk_sink *sink, int set, int layer, qk_kind kind)
{
    const bool attention = set == QK__ATTENTION;
    qk__part_shape shape = {.dim = attention ? QK_ATTENTION_SUMS : sink->settings.head_dim,
                            .group_bits = sink->group_bits,
                            .max_groups = (uint32_t)sink->settings.keep.groups,
                            .by_bucket = kind == QK_QUERY,
                            .means = attention};
    if (!attention || kind == QK_QUERY)
        shape.num_heads = qk__heads_of(sink, layer, kind, &shape.heads);
    if (set == QK__PRE && kind == QK_QUERY && sink->settings.frequencies) {
        shape.pairs = sink->settings.frequencies[layer].count;
        shape.interleaved = sink->settings.rope_interleaved;
    }
    return shape;
}

/* ---- queues ----------------------------------------------------------------------------- */

static qk_status create(const qk_sink *sink, const qk__text_block *block, int set,
                        qk_error *err)
{
    for (int layer = 0; layer < sink->settings.num_layers; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
            qk__part_shape shape = qk__part_shape_of(sink, set, layer, (qk_kind)kind);
            qk__queue *queue = qk__queue_of(sink, block, set, layer, (qk_kind)kind);
            if (shape.num_heads == 0)
                continue;
            QK_TRY(qk__part_moments_create(&queue->sums, &shape, err));
            shape.by_bucket = false;
            if (sink->settings.keep.first > 0 && set != QK__ATTENTION)
                QK_TRY(qk__part_moments_create(&queue->first, &shape, err));
        }
    return QK_OK;
}

qk_status qk__queues_create(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    size_t count = QK__SUM_SETS * 2 * (size_t)sink->settings.num_layers;
    block->queues = qk__calloc(count, sizeof *block->queues);
    if (!block->queues)
        return qk__nomem(err);
    for (size_t i = 0; i < count; i++) /* never fails with these attributes */
        pthread_mutex_init(&block->queues[i].lock, NULL);
    qk_status status = QK_OK;
    for (int set = 0; status == QK_OK && set < QK__SUM_SETS; set++)
        if (qk__keeps_set(sink, set))
            status = create(sink, block, set, err);
    return status;
}

void qk__waiting_free(qk__waiting **list)
{
    while (*list) {
        qk__waiting *w = *list;
        *list = w->next;
        qk__chunk_moments_free(&w->moments);
        qk__chunk_moments_free(&w->first);
        free(w);
    }
}

void qk__queues_free(const qk_sink *sink, qk__text_block *block)
{
    size_t count = QK__SUM_SETS * 2 * (size_t)sink->settings.num_layers;
    for (size_t i = 0; block->queues && i < count; i++) {
        qk__queue *queue = &block->queues[i];
        qk__waiting_free(&queue->waiting);
        qk__part_moments_free(&queue->sums);
        qk__part_moments_free(&queue->first);
        pthread_mutex_destroy(&queue->lock);
    }
    free(block->queues);
    block->queues = NULL;
}

/* Memory of added chunks is kept for the next ones. */
static void spare_give(qk_sink *sink, qk__waiting *w)
{
    pthread_mutex_lock(&sink->mutex);
    w->next = sink->spare;
    sink->spare = w;
    pthread_mutex_unlock(&sink->mutex);
}

/* ---- in turn ---------------------------------------------------------------------------- */

static bool is_done(qk_sink *sink, const qk__text_block *block, int64_t text)
{
    pthread_mutex_lock(&sink->mutex);
    bool done = block->texts[text].state == QK__TEXT_DONE;
    pthread_mutex_unlock(&sink->mutex);
    return done;
}

/* Takes the chunk whose turn it is out of the queue; NULL: it has not come. */
static qk__waiting *take_next(qk__queue *queue)
{
    for (qk__waiting **at = &queue->waiting; *at; at = &(*at)->next)
        if ((*at)->text == queue->text && (*at)->chunk == queue->chunk) {
            qk__waiting *w = *at;
            *at = w->next;
            return w;
        }
    return NULL;
}

/* The caller holds the queue's lock. All chunks of a finished text are here: if its first chunk is not, it has none. */
static qk_status follow(qk_sink *sink, const qk__text_block *block, qk__queue *queue,
                        qk_error *err)
{
    while (queue->text < block->count) {
        bool done = is_done(sink, block, queue->text);
        qk__waiting *w = take_next(queue);
        if (!w && !(done && queue->chunk == 0))
            return QK_OK;
        if (!w) {
            queue->text++;
            continue;
        }
        int64_t id = block->texts[w->text].text_id;
        qk_status status =
            qk__part_moments_fold(queue->sums, id, w->chunk == 0, w->moments, err);
        if (status == QK_OK && w->has_first) /* they are in one chunk */
            status = qk__part_moments_fold(queue->first, id, true, w->first, err);
        queue->chunk = w->last ? 0 : queue->chunk + 1;
        queue->text += w->last;
        spare_give(sink, w);
        QK_TRY(status);
    }
    return QK_OK;
}

qk_status qk__sums_follow(qk_sink *sink, qk__text_block *block, qk_error *err)
{
    size_t count = QK__SUM_SETS * 2 * (size_t)sink->settings.num_layers;
    qk_status status = QK_OK;
    for (size_t i = 0; status == QK_OK && i < count; i++) {
        qk__queue *queue = &block->queues[i];
        if (!queue->sums)
            continue;
        pthread_mutex_lock(&queue->lock);
        status = follow(sink, block, queue, err);
        pthread_mutex_unlock(&queue->lock);
    }
    return status;
}

qk_status qk__sums_push(qk_sink *sink, const qk__text_block *block, int set, int layer,
                        qk_kind kind, qk__waiting *list, qk_error *err)
{
    qk__queue *queue = qk__queue_of(sink, block, set, layer, kind);
    pthread_mutex_lock(&queue->lock);
    qk__waiting **end = &list;
    while (*end)
        end = &(*end)->next;
    *end = queue->waiting;
    queue->waiting = list;
    qk_status status = follow(sink, block, queue, err);
    pthread_mutex_unlock(&queue->lock);
    return status;
}

/* ---- a chunk ---------------------------------------------------------------------------- */

qk_status qk__spare_take(qk_sink *sink, qk__waiting **found, qk_error *err)
{
    qk__waiting *w = sink->spare;
    if (w)
        sink->spare = w->next;
    *found = w;
    if (w)
        return QK_OK;
    if (!(w = calloc(1, sizeof *w)))
        return qk__nomem(err);
    *found = w;
    qk_status status = qk__chunk_moments_create(&w->moments, err);
    if (status != QK_OK) {
        free(w);
        *found = NULL;
    }
    return status;
}

/* Sums rows of first positions again: they come first in the first chunk of their text. */
static qk_status sum_first(const qk_sink *sink, qk__waiting *w, const qk__part_shape *shape,
                           const qk__chunk_rows *all, qk_error *err)
{
    qk__part_shape of_first = *shape;
    qk__chunk_rows rows = *all;
    of_first.by_bucket = false;
    rows.bucket = NULL;
    rows.rows = 0;
    while (rows.rows < all->rows && all->position[rows.rows] < sink->settings.keep.first)
        rows.rows++;
    w->has_first = rows.rows > 0;
    if (!w->has_first)
        return QK_OK;
    if (!w->first)
        QK_TRY(qk__chunk_moments_create(&w->first, err));
    return qk__chunk_moments_compute(w->first, &of_first, &rows, err);
}

static qk_status compute(const qk_sink *sink, qk__waiting *w, const qk__part *part, int stage,
                         int layer, qk_kind kind, qk_error *err)
{
    int64_t position[QK__CHUNK_ROWS], bucket[QK__CHUNK_ROWS];
    size_t rows = qk__chunk_rows_of(part, w->chunk);
    qk__part_shape shape = qk__part_shape_of(sink, stage, layer, kind);
    const qk__kept *kept = part->kept + w->chunk * QK__CHUNK_ROWS;
    for (size_t r = 0; r < rows; r++) {
        position[r] = kept[r].position;
        bucket[r] = qk_sampler_bucket(&sink->settings.sampler, position[r]);
    }
    const qk__chunk_rows vectors = {.rows = rows,
                                    .x = part->stages[stage].chunks[w->chunk].vectors,
                                    .head_stride = rows * shape.dim,
                                    .position = position,
                                    .bucket = shape.by_bucket ? bucket : NULL};
    QK_TRY(qk__chunk_moments_compute(w->moments, &shape, &vectors, err));
    return sum_first(sink, w, &shape, &vectors, err);
}

qk_status qk__sum_chunk(qk_sink *sink, qk__text_block *block, const qk__text *text,
                        const qk__part *part, int stage, int layer, qk_kind kind, size_t chunk,
                        qk_error *err)
{
    qk__waiting *w;
    qk__chunk_vectors *vectors = &part->stages[stage].chunks[chunk];
    pthread_mutex_lock(&sink->mutex);
    qk_status status = qk__spare_take(sink, &w, err);
    pthread_mutex_unlock(&sink->mutex);
    QK_TRY(status);
    w->text = text - block->texts;
    w->chunk = chunk;
    w->last = chunk + 1 == qk__chunks_of(part);
    w->next = NULL;
    status = compute(sink, w, part, stage, layer, kind, err);
    free(vectors->vectors);
    vectors->vectors = NULL;
    if (status != QK_OK) {
        spare_give(sink, w);
        return qk__context(err, status, "layer %d, %s of text %lld", layer,
                           kind == QK_QUERY ? "queries" : "keys", (long long)text->number);
    }
    return qk__sums_push(sink, block, stage, layer, kind, w, err);
}
