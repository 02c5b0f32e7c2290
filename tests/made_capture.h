/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of made-up heads: a drift with position, and noise. */
#ifndef TESTS_MADE_CAPTURE_H
#define TESTS_MADE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include <qkscope/capture.h>

#include "base/rng.h"

enum { MADE_ROWS = 64, MADE_DIM = 8 };

/* 0: the number behind it. */
typedef struct made_capture {
    int layers, query_heads, group; /* 1, 2, 2 query heads per key head */
    size_t dim, rows;               /* 4, 8 of a text; at most MADE_DIM and MADE_ROWS */
    int texts, buckets, width;      /* 3, 2, 128 tokens in a bucket */
    int window;
    uint64_t seed;
    qk_layout layout;
    const char *model;
    const char *extra; /* keys for capture.json */
} made_capture;

/* Positions of a text ascend and are spread evenly. */
static inline qk_status made_text(const made_capture *m, qk_head_writer *head, qk_kind kind,
                                  int text, qk__rng *rng, qk_error *err)
{
    float vectors[MADE_ROWS * MADE_DIM];
    int64_t position[MADE_ROWS], bucket[MADE_ROWS], example[MADE_ROWS], window[MADE_ROWS];
    const uint64_t span = (uint64_t)m->buckets * (uint64_t)m->width;
    for (size_t i = 0; i < m->rows; i++) {
        uint64_t first = i * span / m->rows, end = (i + 1) * span / m->rows;
        position[i] = (int64_t)(first + qk__rng_below(rng, end - first));
        bucket[i] = position[i] / m->width;
        example[i] = text;
        window[i] = m->window;
        for (size_t j = 0; j < m->dim; j++)
            vectors[i * m->dim + j] =
                (float)((kind == QK_QUERY ? 2 : -1) + qk__rng_gaussian(rng) / (double)(j + 1) +
                        (double)position[i] / (double)span * (double)(j % 3));
    }
    const qk_block block = {.rows = m->rows,
                            .dim = m->dim,
                            .f32 = vectors,
                            .position = position,
                            .bucket = bucket,
                            .example = example,
                            .window = window};
    return qk_head_writer_add(head, &block, NULL, err);
}

static inline qk_status made_head(const made_capture *m, qk_capture_writer *writer,
                                  qk_head_id id, qk_error *err)
{
    qk__rng rng;
    qk_head_writer *head;
    const uint64_t words[] = {(uint64_t)id.layer, (uint64_t)id.head, (uint64_t)id.kind};
    qk__rng_init(&rng, m->seed, words, 3);
    qk_status status = qk_head_writer_open(&head, writer, id, m->dim, false, 0, err);
    for (int text = 0; status == QK_OK && text < m->texts; text++)
        status = made_text(m, head, id.kind, text, &rng, err);
    if (status == QK_OK)
        return qk_head_writer_finish(&head, err);
    qk_head_writer_abort(&head);
    return status;
}

static inline qk_status made_heads(const made_capture *m, qk_capture_writer *writer,
                                   qk_error *err)
{
    qk_status status = QK_OK;
    for (int layer = 0; layer < m->layers; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
            int heads = kind == QK_QUERY ? m->query_heads : m->query_heads / m->group;
            for (int head = 0; status == QK_OK && head < heads; head++)
                status = made_head(m, writer, (qk_head_id){layer, head, (qk_kind)kind}, err);
            if (status == QK_OK)
                status = qk_capture_writer_end_layer(writer, layer, (qk_kind)kind, err);
        }
    return status;
}

static inline qk_status make_made_capture(made_capture m, const char *folder, qk_error *err)
{
    qk_capture_writer *writer;
    m.layers = m.layers ? m.layers : 1;
    m.query_heads = m.query_heads ? m.query_heads : 2;
    m.group = m.group ? m.group : 2;
    m.dim = m.dim ? m.dim : 4;
    m.rows = m.rows ? m.rows : 8;
    m.texts = m.texts ? m.texts : 3;
    m.buckets = m.buckets ? m.buckets : 2;
    m.width = m.width ? m.width : 128;
    const qk_capture_meta meta = {
        .model = m.model, .q_per_kv_group = m.group, .extra_json = m.extra, .layout = m.layout};
    qk_status status = qk_capture_writer_open(&writer, folder, &meta, err);
    if (status != QK_OK)
        return status;
    status = made_heads(&m, writer, err);
    if (status == QK_OK)
        return qk_capture_writer_finish(&writer, err);
    qk_capture_writer_abort(&writer);
    return status;
}

#endif
