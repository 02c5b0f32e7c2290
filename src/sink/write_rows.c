/* SPDX-License-Identifier: Apache-2.0 */
/* Writes captures from the blocks, when all are there. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parallel.h"
#include "capture/capture_writer.h"
#include "sink/all_blocks.h"
#include "sink/sink.h"

/* In each thread a row group takes about this much memory; readers read blocks of rows, whatever the row groups. */
enum { GROUP_BYTES = 16 << 20, MIN_GROUP_ROWS = 1024, MAX_GROUP_ROWS = 65536 };
enum { BLOCK_BYTES = 1 << 20 };

/* A file: of a head, or of all heads of a layer and kind. */
typedef struct file_job {
    int layer;
    qk_kind kind;
    const int *heads;
    size_t num_heads;
} file_job;

typedef struct finish {
    qk_sink *sink;
    int stage;
    qk__all_blocks all;
    qk_capture_writer *writer;
    file_job *jobs;
    size_t count;
    atomic_size_t done;
} finish;

/* ---- a head ----------------------------------------------------------------------------- */

/* Rows of a head on their way. */
typedef struct row_buffer {
    size_t capacity, filled; /* rows */
    float *vectors;
    int64_t *bucket, *example, *position, *window;
    const char **strings;
} row_buffer;

static void free_buffer(row_buffer *b)
{
    free(b->vectors);
    free(b->bucket);
    free(b->example);
    free(b->position);
    free(b->window);
    free(b->strings);
}

static qk_status init_buffer(const qk_sink *sink, row_buffer *b, int layer, qk_error *err)
{
    size_t row = sink->settings.head_dim * sizeof(float) + 2 * sizeof(int64_t);
    b->capacity = BLOCK_BYTES / row > 0 ? BLOCK_BYTES / row : 1;
    b->vectors = qk__calloc(b->capacity, sink->settings.head_dim * sizeof *b->vectors);
    b->bucket = qk__calloc(b->capacity, sizeof *b->bucket);
    b->example = qk__calloc(b->capacity, sizeof *b->example);
    b->position = qk__calloc(b->capacity, sizeof *b->position);
    b->window = qk__calloc(b->capacity, sizeof *b->window);
    b->strings = qk__calloc(b->capacity, sizeof *b->strings);
    if (!b->vectors || !b->bucket || !b->example || !b->position || !b->window || !b->strings)
        return qk__nomem(err);
    for (size_t i = 0; i < b->capacity; i++)
        b->window[i] = sink->settings.windows ? sink->settings.windows[layer] : 0;
    return QK_OK;
}

static qk_status flush(const qk_sink *sink, qk_head_writer *writer, row_buffer *b,
                       qk_error *err)
{
    const qk_block block = {.rows = b->filled,
                            .dim = sink->settings.head_dim,
                            .f32 = b->vectors,
                            .position = b->position,
                            .bucket = b->bucket,
                            .example = b->example,
                            .window = b->window};
    b->filled = 0;
    return qk_head_writer_add(writer, &block, b->strings, err);
}

static qk_status tell(const finish *f, qk_error *err)
{
    return qk__sink_ask(f->sink, "files", atomic_load(&f->done), f->count, err);
}

static qk_status find_string(const qk_sink *sink, int32_t token, const char **text,
                             qk_error *err)
{
    const qk_sink_settings *s = &sink->settings;
    *text = s->token_string && token >= 0 ? s->token_string(s->user, token) : "";
    return *text ? QK_OK
                 : qk__fail(err, QK_ERR_CANCELLED,
                            "token_string failed for token %d: what was put stays, and another "
                            "run goes on from there",
                            (int)token);
}

/* Fills the buffer with rows of a text, and writes it each time it is full. */
static qk_status copy_text(const finish *f, const qk__text_rows *text, size_t head,
                           qk_head_writer *writer, row_buffer *b, qk_error *err)
{
    const qk_sink *sink = f->sink;
    size_t dim = sink->settings.head_dim, rows = (size_t)text->rows, take;
    for (size_t done = 0; done < rows; done += take) {
        size_t room = b->capacity - b->filled;
        take = rows - done < room ? rows - done : room;
        QK_TRY(
            qk__text_vectors(text, head, done, take, dim, b->vectors + b->filled * dim, err));
        for (size_t i = 0; i < take; i++) {
            size_t at = b->filled + i;
            b->example[at] = text->example_id;
            b->position[at] = text->position[done + i];
            b->bucket[at] = qk_sampler_bucket(&sink->settings.sampler, b->position[at]);
            QK_TRY(find_string(sink, text->token[done + i], &b->strings[at], err));
        }
        b->filled += take;
        if (b->filled == b->capacity) {
            QK_TRY(flush(sink, writer, b, err));
            QK_TRY(tell(f, err));
        }
    }
    return QK_OK;
}

typedef struct copying {
    const finish *f;
    qk_head_writer *writer;
    row_buffer *buffer;
    size_t head; /* its place in the layer */
} copying;

static qk_status see_text(void *user, const qk__text_rows *text, qk_error *err)
{
    copying *c = user;
    return copy_text(c->f, text, c->head, c->writer, c->buffer, err);
}

static size_t group_rows(const qk_sink *sink)
{
    size_t rows = GROUP_BYTES / (sink->settings.head_dim * sizeof(float));
    return rows < MIN_GROUP_ROWS   ? MIN_GROUP_ROWS
           : rows > MAX_GROUP_ROWS ? MAX_GROUP_ROWS
                                   : rows;
}

static qk_status write_head(const finish *f, const file_job *job, size_t i, qk_error *err)
{
    const qk_sink *sink = f->sink;
    row_buffer buffer = {0};
    const int *all;
    qk_head_id id = {job->layer, job->heads[i], job->kind};
    copying c = {.f = f, .buffer = &buffer};
    qk__heads_of(sink, job->layer, job->kind, &all);
    c.head = (size_t)(&job->heads[i] - all);
    QK_TRY(qk_head_writer_open(&c.writer, f->writer, id, sink->settings.head_dim,
                               sink->settings.token_strings, group_rows(sink), err));
    qk_status status = init_buffer(sink, &buffer, job->layer, err);
    if (status == QK_OK)
        status = qk__each_text(&f->all, f->stage, qk__part_of(job->layer, job->kind), see_text,
                               &c, err);
    if (status == QK_OK && buffer.filled > 0)
        status = flush(sink, c.writer, &buffer, err);
    free_buffer(&buffer);
    if (status == QK_OK)
        return qk_head_writer_finish(&c.writer, err);
    qk_head_writer_abort(&c.writer);
    return status;
}

/* ---- a file ----------------------------------------------------------------------------- */

static qk_status write_file(const finish *f, const file_job *job, qk_error *err)
{
    for (size_t i = 0; i < job->num_heads; i++)
        QK_TRY(write_head(f, job, i, err));
    return qk_capture_writer_end_layer(f->writer, job->layer, job->kind, err);
}

static qk_status run_job(void *context, size_t i, int worker, qk_error *err)
{
    finish *f = context;
    (void)worker;
    qk_status status = tell(f, err);
    if (status == QK_OK)
        status = write_file(f, &f->jobs[i], err);
    atomic_fetch_add(&f->done, 1);
    return status;
}

/* ---- one capture ------------------------------------------------------------------------ */

static void add_jobs(finish *f, int layer, qk_kind kind)
{
    const int *heads;
    size_t count = qk__heads_of(f->sink, layer, kind, &heads);
    bool packed = f->sink->settings.layout == QK_LAYOUT_PACKED;
    size_t together = packed ? count : 1;
    if (f->all.total.stored[qk__part_of(layer, kind)] == 0)
        return;
    for (size_t i = 0; i < count; i += together)
        f->jobs[f->count++] =
            (file_job){.layer = layer, .kind = kind, .heads = heads + i, .num_heads = together};
}

static qk_status list_jobs(finish *f, qk_error *err)
{
    const qk_sink *sink = f->sink;
    size_t layers = (size_t)sink->settings.num_layers;
    f->count = 0;
    f->jobs = qk__calloc(sink->starts[QK_QUERY][layers] + sink->starts[QK_KEY][layers],
                         sizeof *f->jobs);
    if (!f->jobs)
        return qk__nomem(err);
    for (int layer = 0; layer < sink->settings.num_layers; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++)
            add_jobs(f, layer, (qk_kind)kind);
    return QK_OK;
}

static qk_status open_writer(finish *f, const char *folder, qk_error *err)
{
    const qk_sink_settings *s = &f->sink->settings;
    char *json, *card;
    QK_TRY(qk__describe(&f->all, f->stage, &json, &card, err));
    const qk_capture_meta meta = {.model = s->model_name ? s->model_name : "",
                                  .q_per_kv_group = s->num_q_heads / s->num_k_heads,
                                  .source = s->source ? s->source : "qkscope sink",
                                  .extra_json = json,
                                  .card = card,
                                  .layout = s->layout};
    qk_status status = qk_capture_writer_open(&f->writer, folder, &meta, err);
    free(json);
    free(card);
    return status;
}

static qk_status note_sums(const finish *f, qk_error *err)
{
    const qk_sink *sink = f->sink;
    for (int layer = 0; layer < sink->settings.num_layers; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++) {
            const int *heads;
            size_t count = qk__heads_of(sink, layer, (qk_kind)kind, &heads);
            int64_t summed = f->all.total.rows[qk__part_of(layer, (qk_kind)kind)];
            for (size_t i = 0; summed > 0 && i < count; i++)
                QK_TRY(qk__capture_writer_note_sums(
                    f->writer, (qk_head_id){layer, heads[i], (qk_kind)kind},
                    sink->settings.head_dim, summed, err));
        }
    return QK_OK;
}

static qk_status write_parts(finish *f, const char *folder, qk_error *err)
{
    QK_TRY(open_writer(f, folder, err));
    qk_status status = list_jobs(f, err);
    atomic_store(&f->done, 0);
    if (status == QK_OK)
        status = qk__parallel_try(f->count, f->sink->threads, run_job, f, err);
    free(f->jobs);
    QK_TRY(status);
    if (f->sink->settings.keep.moments) {
        QK_TRY(qk__write_sums(&f->all, f->sink, f->stage, folder, err));
        QK_TRY(note_sums(f, err));
    }
    if (qk__keeps_attention(f->sink, f->stage))
        QK_TRY(qk__write_sums(&f->all, f->sink, QK__ATTENTION, folder, err));
    QK_TRY(qk__write_examples(&f->all, folder, err));
    return qk_capture_writer_finish(&f->writer, err);
}

static qk_status write_capture(finish *f, qk_error *err)
{
    static const char *const NEW[QK__STAGES] = {"new/post", "new/pre"};
    bool both = f->sink->stages[QK__POST] && f->sink->stages[QK__PRE];
    char *folder = qk__stage_folder(f->sink, f->sink->fresh, f->stage);
    qk_status status = folder
                           ? qk__make_below(f->sink->partial, both ? NEW[f->stage] : "new", err)
                           : qk__nomem(err);
    if (status == QK_OK)
        status = write_parts(f, folder, err);
    qk_capture_writer_abort(&f->writer);
    free(folder);
    return status;
}

static qk_status write_all(finish *f, qk_error *err)
{
    QK_TRY(qk__all_blocks_open(&f->all, f->sink, err));
    if (!qk__all_blocks_any(&f->all))
        return qk__fail(err, QK_ERR_DEGENERATE,
                        "no position was kept: keep more rows (a higher base_rate, or the "
                        "sampler \"all\"), or give longer texts");
    for (f->stage = 0; f->stage < QK__STAGES; f->stage++)
        if (f->sink->stages[f->stage])
            QK_TRY(write_capture(f, err));
    return QK_OK;
}

qk_status qk__write_captures(qk_sink *sink, qk_error *err)
{
    finish f = {.sink = sink};
    atomic_init(&f.done, 0);
    qk__partial_unbuild(sink->settings.output); /* of a run that was stopped */
    qk_status status = write_all(&f, err);
    qk__all_blocks_close(&f.all);
    return status;
}
