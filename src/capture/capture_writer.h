/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the capture writer share. write_capture.c leads; packed_writer.c writes files that heads share;
 * both open files by writer_file.c. At the end it calls dataset_card.c and capture_json.c. */
#ifndef QK_CAPTURE_CAPTURE_WRITER_H
#define QK_CAPTURE_CAPTURE_WRITER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <qkscope/capture.h>

#include "parquet/writer.h"
#include "work/place.h"

/* One head. */
typedef struct qk__head_record {
    qk_head_id id;
    int64_t rows;
    size_t dim;
    bool begun;     /* its file, and not aborted */
    bool done;      /* its file */
    int64_t summed; /* rows behind its moments */
} qk__head_record;

/* The properties of a head's rows, the same for all heads of a packed file. */
typedef struct qk__head_shape {
    size_t dim;
    bool strings; /* with token_str */
    size_t group_rows;
} qk__head_shape;

/* A file of heads of one layer and kind. */
typedef struct qk__packed_file {
    int layer;
    qk_kind kind;
    qk__head_shape shape;
    char *folder;
    qk__parquet_writer *file; /* NULL: it is in its place */
    int last;                 /* head begun last */
    bool busy;                /* its writer is at work */
    bool lost;                /* has part of a head that was aborted */
} qk__packed_file;

struct qk_capture_writer {
    char *dir;
    qk__hold hold;
    char *model;
    char *source;
    char *card;
    int q_per_kv_group;
    qk_layout layout;
    json_t *extra;
    pthread_mutex_t lock; /* guards what follows: head writers come from several threads */
    qk__packed_file **packed;
    size_t num_packed, packed_capacity;
    qk__head_record *records;
    size_t num_records;
    size_t capacity;
};

/* Opens a file of one head or, with packed, of heads that share it, in an existing folder. */
QK_MUST_CHECK qk_status qk__capture_open_file(qk__parquet_writer **file,
                                              const qk_capture_writer *writer,
                                              const char *folder, const qk__head_shape *shape,
                                              qk_error *err);

/* Begin and end a head's turn in the file that it shares; between them *parquet is the head's alone. An aborted head
 * had `rows` rows added. The writer's lock must be free. */
QK_MUST_CHECK qk_status qk__packed_begin(qk_capture_writer *writer, qk_head_id id,
                                         const qk__head_shape *shape, qk__packed_file **file,
                                         qk__parquet_writer **parquet, qk_error *err);
QK_MUST_CHECK qk_status qk__packed_end(qk_capture_writer *writer, qk__packed_file *file,
                                       qk_error *err);
void qk__packed_give_up(qk_capture_writer *writer, qk__packed_file *file, int64_t rows);

/* The first puts all such files into place; the second removes them. */
QK_MUST_CHECK qk_status qk__packed_finish(qk_capture_writer *writer, qk_error *err);
void qk__packed_free(qk_capture_writer *writer);

/* Makes capture.json list the rows behind a head's moments; its rows, if any are kept, are written. */
QK_MUST_CHECK qk_status qk__capture_writer_note_sums(qk_capture_writer *writer, qk_head_id id,
                                                     size_t dim, int64_t summed, qk_error *err);

/* QK_ERR_ARGUMENT: a reader would refuse a capture.json with these keys. The reader itself is asked. */
QK_MUST_CHECK qk_status qk__capture_check_manifest(const json_t *object, qk_error *err);

/* Write capture.json and README.md, after records were sorted. */
QK_MUST_CHECK qk_status qk__capture_write_manifest(const qk_capture_writer *writer,
                                                   bool complete, qk_error *err);
QK_MUST_CHECK qk_status qk__capture_write_card(const qk_capture_writer *writer, qk_error *err);

#endif
