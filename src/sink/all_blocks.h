/* SPDX-License-Identifier: Apache-2.0 */
/* All blocks of a run, open (all_blocks.c leads): their rows, layer by layer, by the numbers of their texts; their
 * sums (write_sums.c); and what they say of themselves (capture_facts.c). */
#ifndef QK_SINK_ALL_BLOCKS_H
#define QK_SINK_ALL_BLOCKS_H

#include "sink/sink.h"

typedef struct qk__all_blocks {
    const qk_sink *sink;
    qk__block *blocks;     /* [num_blocks] */
    qk__block_facts total; /* rows */
} qk__all_blocks;

/* Rows of one text, layer and kind in a block's file. */
typedef struct qk__text_rows {
    int fd;
    int64_t example_id, rows;
    int64_t offset; /* of the vectors */
    const int64_t *position;
    const int32_t *token; /* -1: not known */
} qk__text_rows;

/* All blocks have to be there; their bytes are compared with what was written. */
QK_MUST_CHECK qk_status qk__all_blocks_open(qk__all_blocks *all, qk_sink *sink, qk_error *err);
void qk__all_blocks_close(qk__all_blocks *all);

/* Whether any head keeps anything. */
bool qk__all_blocks_any(const qk__all_blocks *all);

/* Calls `see` for each text with rows of a stage in the files, by their numbers. From any thread. */
typedef qk_status qk__see_text_fn(void *user, const qk__text_rows *text, qk_error *err);
QK_MUST_CHECK qk_status qk__each_text(const qk__all_blocks *all, int stage, size_t part,
                                      qk__see_text_fn *see, void *user, qk_error *err);

/* Vectors first .. first + count - 1 of the head at a place of the layer's list. */
QK_MUST_CHECK qk_status qk__text_vectors(const qk__text_rows *text, size_t head, size_t first,
                                         size_t count, size_t dim, float *vectors,
                                         qk_error *err);

/* ---- write_sums.c ----------------------------------------------------------------------- */

/* Writes the sums of a set, of all blocks in their order, to folder/moments or folder/attention. */
QK_MUST_CHECK qk_status qk__write_sums(const qk__all_blocks *all, qk_sink *sink, int set,
                                       const char *folder, qk_error *err);

/* ---- capture_facts.c -------------------------------------------------------------------- */

/* Keys for capture.json and lines for the card of one stage, to be freed. */
QK_MUST_CHECK qk_status qk__describe(const qk__all_blocks *all, int stage, char **json,
                                     char **card, qk_error *err);

/* Writes dir/examples.csv. */
QK_MUST_CHECK qk_status qk__write_examples(const qk__all_blocks *all, const char *dir,
                                           qk_error *err);

#endif
