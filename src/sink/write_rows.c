/* SPDX-License-Identifier: Apache-2.0 */
/* Writes captures from the spool, when all texts are through. A head whose file is finished
 * loses its spool, so a run that was stopped here is resumed with the other heads. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "capture/capture_writer.h"
#include "recorder/place.h"
#include "recorder/recording.h"

/* A row group takes about as much memory in each thread; heads of a capture are read in blocks
 * of rows, whatever the groups. */
enum { GROUP_BYTES = 16 << 20, MIN_GROUP_ROWS = 1024, MAX_GROUP_ROWS = 65536 };
enum { BLOCK_BYTES = 1 << 20 };

typedef struct head_job {
    qk_head_id id;
    qk_status status;
    qk_error err;
} head_job;

typedef struct finish {
    qk__recording *r;
    int stage;
    qk_capture_writer *writer;
    head_job *jobs;
    size_t count;
    atomic_bool failed; /* no use in beginning further heads */
} finish;

/* Rows of a head on their way. */
typedef struct block_buffer {
    size_t capacity; /* rows */
    uint8_t *raw;
    float *vectors;
    int64_t *bucket, *example, *position, *window;
    const char **strings;
} block_buffer;

static void free_buffer(block_buffer *b)
{
    free(b->raw);
    free(b->vectors);
    free(b->bucket);
    free(b->example);
    free(b->position);
    free(b->window);
    free(b->strings);
}

static qk_status init_buffer(const qk__recording *r, block_buffer *b, int64_t window,
                             qk_error *err)
{
    size_t row = qk__spool_row_bytes(r);
    b->capacity = BLOCK_BYTES / row > 0 ? BLOCK_BYTES / row : 1;
    b->raw = qk__calloc(b->capacity, row);
    b->vectors = qk__calloc(b->capacity, (size_t)r->facts->head_dim * sizeof *b->vectors);
    b->bucket = qk__calloc(b->capacity, sizeof *b->bucket);
    b->example = qk__calloc(b->capacity, sizeof *b->example);
    b->position = qk__calloc(b->capacity, sizeof *b->position);
    b->window = qk__calloc(b->capacity, sizeof *b->window);
    b->strings = qk__calloc(b->capacity, sizeof *b->strings);
    if (!b->raw || !b->vectors || !b->bucket || !b->example || !b->position || !b->window ||
        !b->strings)
        return qk__nomem(err);
    for (size_t i = 0; i < b->capacity; i++)
        b->window[i] = window;
    return QK_OK;
}

static qk_status add_rows(const qk__recording *r, qk_head_writer *writer, block_buffer *b,
                          size_t rows, qk_error *err)
{
    size_t dim = (size_t)r->facts->head_dim;
    size_t size = qk__spool_row_bytes(r);
    for (size_t i = 0; i < rows; i++) {
        qk__spool_row row;
        memcpy(&row, b->raw + i * size, sizeof row);
        memcpy(b->vectors + i * dim, b->raw + i * size + sizeof row, dim * sizeof(float));
        b->example[i] = row.example_id;
        b->position[i] = row.position;
        b->bucket[i] = qk_sampler_bucket(&r->sampler, row.position);
        const char *piece = qk_tokenizer_piece(r->tokenizer, row.token);
        b->strings[i] = piece ? piece : "";
    }
    const qk_block block = {.rows = rows,
                            .dim = dim,
                            .f32 = b->vectors,
                            .position = b->position,
                            .bucket = b->bucket,
                            .example = b->example,
                            .window = b->window};
    return qk_head_writer_add(writer, &block, b->strings, err);
}

static qk_status copy_rows(const qk__recording *r, int fd, qk_head_id id,
                           qk_head_writer *writer, qk_error *err)
{
    block_buffer b = {0};
    size_t size = qk__spool_row_bytes(r);
    int64_t total = r->journal.rows[qk__part(id.layer, id.kind)];
    qk_status status = init_buffer(r, &b, r->facts->layers[id.layer].window, err);
    for (int64_t done = 0; status == QK_OK && done < total;) {
        int64_t left = total - done;
        size_t rows = left < (int64_t)b.capacity ? (size_t)left : b.capacity;
        status = qk__read_at(fd, b.raw, rows * size, done * (int64_t)size, err);
        if (status == QK_OK)
            status = add_rows(r, writer, &b, rows, err);
        done += (int64_t)rows;
    }
    free_buffer(&b);
    return status;
}

static void set_group_rows(const qk__recording *r, qk_parquet_writer_settings *settings)
{
    qk_parquet_writer_settings_default(settings);
    size_t rows = GROUP_BYTES / ((size_t)r->facts->head_dim * sizeof(float));
    settings->row_group_rows = rows < MIN_GROUP_ROWS   ? MIN_GROUP_ROWS
                               : rows > MAX_GROUP_ROWS ? MAX_GROUP_ROWS
                                                       : rows;
}

static qk_status write_head(const finish *f, qk_head_id id, const char *spool, qk_error *err)
{
    const qk__recording *r = f->r;
    qk_parquet_writer_settings settings;
    qk_head_writer *writer;
    int fd = open(spool, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return qk__fail(err, QK_ERR_IO, "%s: cannot open: %s", spool, strerror(errno));
    set_group_rows(r, &settings);
    qk_status status = qk_head_writer_open(&writer, f->writer, id, (size_t)r->facts->head_dim,
                                           r->settings->token_strings, &settings, err);
    if (status == QK_OK) {
        status = copy_rows(r, fd, id, writer, err);
        if (status != QK_OK) {
            qk__context(err, status, "%s", spool);
            qk_head_writer_abort(&writer);
        }
    }
    if (status == QK_OK)
        status = qk_head_writer_finish(&writer, err);
    close(fd);
    return status;
}

/* A head is finished when its file is in its place. */
static qk_status finish_head(const finish *f, qk_head_id id, const char *folder,
                             const char *spool, qk_error *err)
{
    const qk__recording *r = f->r;
    char *file = qk__path_join(folder, "data.parquet");
    if (!file)
        return qk__nomem(err);
    qk_status status;
    qk__output_sweep(folder);
    if (qk__is_file(file))
        status = qk__capture_writer_adopt(f->writer, id, (size_t)r->facts->head_dim,
                                          r->journal.rows[qk__part(id.layer, id.kind)], err);
    else
        status = write_head(f, id, spool, err);
    if (status == QK_OK)
        unlink(spool);
    free(file);
    return status;
}

static void run_job(void *context, size_t i, int worker)
{
    finish *f = context;
    head_job *job = &f->jobs[i];
    char name[QK_HEAD_NAME_SIZE];
    (void)worker;
    if (atomic_load(&f->failed))
        return;
    qk_head_name(job->id, name);
    char *stage = qk__stage_folder(f->r, f->r->fresh, f->stage);
    char *folder = stage ? qk__path_join(stage, name) : NULL;
    char *spool = qk__spool_path(f->r, f->stage, job->id);
    job->status = folder && spool ? finish_head(f, job->id, folder, spool, &job->err)
                                  : qk__nomem(&job->err);
    if (job->status != QK_OK)
        atomic_store(&f->failed, true);
    free(stage);
    free(folder);
    free(spool);
}

/* ---- one capture ------------------------------------------------------------------------ */

static qk_status list_jobs(finish *f, qk_error *err)
{
    const qk__recording *r = f->r;
    f->jobs = qk__calloc(r->selection->num_q + r->selection->num_k, sizeof *f->jobs);
    if (!f->jobs)
        return qk__nomem(err);
    f->count = 0;
    for (int layer = 0; layer < r->facts->num_layers; layer++)
        for (int kind = QK_QUERY; kind <= QK_KEY; kind++)
            for (int head = 0; head < qk__num_heads(r, (qk_kind)kind); head++) {
                qk_head_id id = {layer, head, (qk_kind)kind};
                if (qk__is_kept(r, id) && r->journal.rows[qk__part(layer, id.kind)] > 0)
                    f->jobs[f->count++].id = id;
            }
    if (f->count > 0)
        return QK_OK;
    if (r->journal.tokens == 0 && r->journal.skipped > 0)
        return qk__fail(
            err, QK_ERR_DEGENERATE,
            "no position was kept: %lld of %lld texts have more than %lld tokens and "
            "were passed over; split or cut them",
            (long long)r->journal.skipped, (long long)r->journal.texts,
            (long long)r->max_length);
    return qk__fail(err, QK_ERR_DEGENERATE,
                    "of %lld texts with %lld tokens no position was kept: the texts are too "
                    "short for the sampler's rate",
                    (long long)r->journal.texts, (long long)r->journal.tokens);
}

static qk_status open_writer(finish *f, const char *folder, qk_error *err)
{
    const qk__recording *r = f->r;
    char *json;
    char *card;
    QK_TRY(qk__describe(r, f->stage, &json, &card, err));
    const qk_capture_meta meta = {.model = r->model_name,
                                  .q_per_kv_group =
                                      r->facts->num_q_heads / r->facts->num_k_heads,
                                  .source = "qkscope capture",
                                  .extra_json = json,
                                  .card = card,
                                  .wide_ids = true};
    qk_status status = qk__capture_writer_reopen(&f->writer, folder, &meta, err);
    free(json);
    free(card);
    return status;
}

static qk_status write_heads(finish *f, qk_error *err)
{
    qk__parallel_for(f->count, f->r->threads, run_job, f);
    for (size_t i = 0; i < f->count; i++)
        if (f->jobs[i].status != QK_OK)
            return qk__fail(err, f->jobs[i].status, "%s", f->jobs[i].err.message);
    return QK_OK;
}

static qk_status write_capture(finish *f, qk_error *err)
{
    char *folder = qk__stage_folder(f->r, f->r->fresh, f->stage);
    if (!folder)
        return qk__nomem(err);
    if (qk__is_capture_of(folder, f->r->fingerprint)) { /* by an earlier run */
        free(folder);
        return QK_OK;
    }
    qk__output_sweep(folder);
    qk_status status = open_writer(f, folder, err);
    if (status == QK_OK)
        status = write_heads(f, err);
    if (status == QK_OK)
        status = qk__write_examples(f->r, folder, err);
    if (status == QK_OK)
        status = qk_capture_writer_finish(&f->writer, err);
    qk_capture_writer_abort(&f->writer);
    free(folder);
    return status;
}

qk_status qk__write_captures(qk__recording *r, qk_error *err)
{
    finish f = {.r = r};
    atomic_init(&f.failed, false);
    qk_status status = list_jobs(&f, err);
    r->outcome->heads = f.count;
    if (status == QK_OK && !r->journal.built)
        status = qk__count_buckets(r, err);
    for (int stage = 0; status == QK_OK && stage < QK__STAGES; stage++) {
        if (!r->stages[stage])
            continue;
        f.stage = stage;
        for (size_t i = 0; i < f.count; i++)
            r->outcome->rows +=
                r->journal.rows[qk__part(f.jobs[i].id.layer, f.jobs[i].id.kind)];
        if (!r->journal.built)
            status = write_capture(&f, err);
    }
    if (status == QK_OK && !r->journal.built) {
        r->journal.built = true;
        status = qk__journal_write(r, err);
    }
    free(f.jobs);
    return status;
}
