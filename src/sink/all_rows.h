/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of all blocks, layer by layer, in the order of their texts. */
#ifndef QK_SINK_ALL_ROWS_H
#define QK_SINK_ALL_ROWS_H

#include "sink/sink.h"

typedef struct qk__all_rows qk__all_rows;

/* Rows of one text, layer and kind in a block's file. */
typedef struct qk__text_rows {
    int fd;
    int64_t example_id, rows;
    int64_t offset; /* of the vectors */
    const int64_t *position;
    const int32_t *token; /* -1: not known */
} qk__text_rows;

/* All blocks have to be there. */
QK_MUST_CHECK qk_status qk__all_rows_open(qk__all_rows **rows, const qk_sink *sink, int stage,
                                          qk_error *err);
void qk__all_rows_close(qk__all_rows **rows);

/* Rows of each head of a part that are in the files, and that are summed. */
int64_t qk__all_rows_count(const qk__all_rows *rows, size_t part);
int64_t qk__all_rows_kept(const qk__all_rows *rows, size_t part);

/* Adds rows in files, and rows summed; sets the heads of which anything is kept. */
void qk__all_rows_sum(const qk__all_rows *rows, qk_sink_outcome *outcome);

/* Calls `see` for each text that has rows in the files. Any thread. */
typedef qk_status qk__see_text_fn(void *user, const qk__text_rows *text, qk_error *err);
QK_MUST_CHECK qk_status qk__each_text(const qk__all_rows *rows, size_t part,
                                      qk__see_text_fn *see, void *user, qk_error *err);

/* Vectors first .. first + count - 1 of the head at a place of the layer's list. */
QK_MUST_CHECK qk_status qk__text_vectors(const qk__text_rows *text, size_t head, size_t first,
                                         size_t count, size_t dim, float *vectors,
                                         qk_error *err);

#endif
