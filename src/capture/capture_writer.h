/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the capture writer share, and heads in several files (shards).
 * capture_writer.c leads; at the end it calls dataset_card.c and capture_json.c. */
#ifndef QK_CAPTURE_CAPTURE_WRITER_H
#define QK_CAPTURE_CAPTURE_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/capture.h>

/* One head, over its shards. */
typedef struct qk__head_record {
    qk_head_id id;
    int64_t rows;
    size_t dim;
    int shards;      /* files planned */
    int files_begun; /* not aborted */
    int files_done;
} qk__head_record;

struct qk_capture_writer {
    char *dir;
    char *model;
    char *source;
    char *card;
    int q_per_kv_group;
    bool wide_ids;
    json_t *extra;
    pthread_mutex_t lock; /* of the records: head writers come from several threads */
    qk__head_record *records;
    size_t num_records;
    size_t capacity;
};

/* qk_head_writer_open for shard `shard` of `shards` of a head: with one shard the file is
 * data.parquet, else data-00000-of-00003.parquet and so on, whose name order is the row
 * order. Shards of a head may be written at the same time. */
QK_MUST_CHECK qk_status qk__head_writer_open_shard(
    qk_head_writer **head, qk_capture_writer *writer, qk_head_id id, size_t dim, bool strings,
    int shard, int shards, const qk_parquet_writer_settings *settings, qk_error *err);

/* qk_capture_writer_open for a capture that was begun before: the folder may hold anything.
 * Heads that are finished are made known, with their rows, by qk__capture_writer_adopt. */
QK_MUST_CHECK qk_status qk__capture_writer_reopen(qk_capture_writer **writer, const char *dir,
                                                  const qk_capture_meta *meta, qk_error *err);
QK_MUST_CHECK qk_status qk__capture_writer_adopt(qk_capture_writer *writer, qk_head_id id,
                                                 size_t dim, int64_t rows, qk_error *err);

/* Write capture.json and README.md; records are sorted by then. */
QK_MUST_CHECK qk_status qk__capture_write_manifest(const qk_capture_writer *writer,
                                                   bool complete, qk_error *err);
QK_MUST_CHECK qk_status qk__capture_write_card(const qk_capture_writer *writer, qk_error *err);

#endif
