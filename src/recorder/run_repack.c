/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a capture again in another layout. It is made beside its place, and takes that when it is
 * whole. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "fetch/need.h"
#include "recorder/repack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "parquet/writer.h"
#include "parquet/writer_settings.h"
#include "place/place.h"
#include "sink/captures.h"
#include "settings/common_rows.h"
#include "settings/settings.h"

#define AT(member) QK_SETTING_AT(qk_repack_settings, member)

static const qk_setting ROWS[] = {
    {"output", QK_SETTING_PATH, AT(output), .letter = 'o', .value = "DIR",
     .help = "folder for the capture", .section = "Output"},
    QK__LAYOUT_ROW(qk_repack_settings, NULL, .number = QK_LAYOUT_PACKED, .yaml = NULL),
    {"force", QK_SETTING_FLAG, AT(force),
     .help = "replace a capture in DIR; the old one stays until the new one is complete",
     .section = "Output"},
    QK__REVISION_ROW(qk_repack_settings, NULL, .yaml = NULL),
    QK__OFFLINE_ROW(qk_repack_settings, NULL, .yaml = NULL),
    QK__SPLIT_ROW(qk_repack_settings, NULL, .yaml = NULL),
    QK_SETTING_PART(qk_repack_settings, writer, qk__parquet_writer_settings_table),
    QK__THREADS_ROW(qk_repack_settings, NULL, .yaml = NULL),
};

const qk_settings_table qk_repack_settings_table = {QK_SETTINGS_ROWS(qk_repack_settings, ROWS)};

void qk_repack_settings_default(qk_repack_settings *settings)
{
    qk__settings_default(&qk_repack_settings_table, settings);
}

/* Heads that one thread writes, one after the other: those of a file. */
typedef struct file_job {
    size_t *heads; /* numbers in the capture, ascending */
    size_t count;
    qk__head_shape shape;
} file_job;

typedef struct repack {
    const qk_repack_settings *settings;
    qk_capture *capture;
    int threads;
    bool replaces;             /* there is something in the place */
    qk_rows **readers;         /* [threads] */
    qk__head_columns *columns; /* [heads of the capture] */
    file_job *jobs;
    size_t num_jobs;
    qk_capture_writer *writer;
    qk__meter meter; /* of heads, and bytes of vectors */
    atomic_llong rows;
} repack;

static size_t num_heads(const repack *r)
{
    return qk_capture_num_heads(r->capture);
}

/* ---- what there is ---------------------------------------------------------------------- */

static qk_status look_job(void *context, size_t i, int worker, qk_error *err)
{
    repack *r = context;
    return qk__repack_look(qk_capture_head(r->capture, i), &r->readers[worker], &r->columns[i],
                           err);
}

/* The heads of a layer and kind, or each by itself, get a job. */
static qk_status list_jobs(repack *r, qk_error *err)
{
    bool packed = r->settings->layout == QK_LAYOUT_PACKED;
    r->jobs = qk__calloc(num_heads(r), sizeof *r->jobs);
    if (!r->jobs)
        return qk__nomem(err);
    for (size_t i = 0; i < num_heads(r); i++) {
        qk_head_id id = qk_capture_head(r->capture, i)->id;
        size_t j = packed ? 0 : r->num_jobs;
        for (; j < r->num_jobs; j++) {
            qk_head_id other = qk_capture_head(r->capture, r->jobs[j].heads[0])->id;
            if (other.layer == id.layer && other.kind == id.kind)
                break;
        }
        file_job *job = &r->jobs[j];
        if (j == r->num_jobs) {
            job->heads = qk__calloc(packed ? num_heads(r) - i : 1, sizeof *job->heads);
            if (!job->heads)
                return qk__nomem(err);
            r->num_jobs++;
        }
        job->heads[job->count++] = i;
    }
    return QK_OK;
}

/* Heads without rows have the dimension of others. */
static qk_status find_dim(const repack *r, size_t *dim, qk_error *err)
{
    for (size_t i = 0; i < num_heads(r); i++)
        if (r->columns[i].dim > 0) {
            *dim = r->columns[i].dim;
            return QK_OK;
        }
    return qk__fail(err, QK_ERR_DEGENERATE, "%s: no rows", qk_capture_path(r->capture));
}

static void set_shapes(repack *r, size_t dim)
{
    for (size_t j = 0; j < r->num_jobs; j++) {
        file_job *job = &r->jobs[j];
        job->shape = (qk__head_shape){.no_buckets = true, .no_examples = true, .no_ids = true};
        for (size_t h = 0; h < job->count; h++) {
            const qk__head_columns *c = &r->columns[job->heads[h]];
            if (job->shape.dim == 0)
                job->shape.dim = c->dim;
            job->shape.wide |= c->wide;
            job->shape.strings |= c->strings;
            job->shape.no_buckets &= !c->buckets;
            job->shape.no_examples &= !c->examples;
        }
        if (job->shape.dim == 0)
            job->shape.dim = dim;
    }
}

static qk_status look_at_capture(repack *r, qk_error *err)
{
    size_t dim;
    if (qk_capture_get_info(r->capture)->kept == QK_ROWS_NONE)
        return qk__fail(err, QK_ERR_ARGUMENT,
                        "%s: keeps moments and no rows, so there is nothing to lay out anew",
                        qk_capture_path(r->capture));
    r->columns = qk__calloc(num_heads(r), sizeof *r->columns);
    r->readers = qk__calloc((size_t)r->threads, sizeof *r->readers);
    if (!r->columns || !r->readers)
        return qk__nomem(err);
    QK_TRY(qk__parallel_try(num_heads(r), r->threads, look_job, r, err));
    QK_TRY(find_dim(r, &dim, err));
    QK_TRY(list_jobs(r, err));
    set_shapes(r, dim);
    return QK_OK;
}

/* ---- copying ---------------------------------------------------------------------------- */

/* The heads of a file must be alike; what makes them differ is found out here. */
static qk_status check_head(const repack *r, const file_job *job, size_t i, qk_error *err)
{
    const qk_head *head = qk_capture_head(r->capture, i);
    const qk__head_columns *c = &r->columns[i];
    if (c->dim > 0 && c->dim != job->shape.dim)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: vectors of %zu values, but %zu in the layer's first head: such heads "
            "cannot share a file; keep the layout heads",
            head->files[0], c->dim, job->shape.dim);
    if (!job->shape.no_buckets && !c->buckets)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: no column 'bucket', which other heads of the layer have: such heads "
            "cannot share a file; keep the layout heads",
            head->files[0]);
    return QK_OK;
}

/* Errors of reading name the file; those of writing name one that will not stay. */
static qk_status name_source(const qk_head *head, qk_status status, qk_error *err)
{
    for (size_t i = 0; err && i < head->num_files; i++)
        if (strncmp(err->message, head->files[i], strlen(head->files[i])) == 0)
            return status;
    return qk__context(err, status, "%s", head->files[0]);
}

static qk_status write_head(repack *r, const file_job *job, size_t i, int worker, int64_t *rows,
                            qk_error *err)
{
    const qk_head *head = qk_capture_head(r->capture, i);
    qk_head_writer *out;
    QK_TRY(check_head(r, job, i, err));
    QK_TRY(qk__head_writer_open_as(&out, r->writer, head->id, &job->shape, &r->settings->writer,
                                   err));
    qk_status status =
        qk__repack_rows(head, &r->columns[i], &job->shape, &r->readers[worker], out, rows, err);
    if (status != QK_OK) {
        qk_head_writer_abort(&out);
        return name_source(head, status, err);
    }
    return qk_head_writer_finish(&out, err);
}

static qk_status copy_job(void *context, size_t j, int worker, qk_error *err)
{
    repack *r = context;
    const file_job *job = &r->jobs[j];
    qk_head_id id = qk_capture_head(r->capture, job->heads[0])->id;
    for (size_t h = 0; h < job->count; h++) {
        int64_t rows;
        if (qk__meter_is_stopped(&r->meter))
            return QK_ERR_CANCELLED;
        QK_TRY(write_head(r, job, job->heads[h], worker, &rows, err));
        atomic_fetch_add(&r->rows, rows);
        if (!qk__meter_add(&r->meter, 1, rows * (int64_t)(job->shape.dim * sizeof(float))))
            return QK_ERR_CANCELLED;
    }
    return qk_capture_writer_end_layer(r->writer, id.layer, id.kind, err);
}

static bool has_wide_ids(const repack *r)
{
    for (size_t i = 0; i < num_heads(r); i++)
        if (r->columns[i].wide_ids)
            return true;
    return false;
}

static qk_status write_capture(repack *r, const char *folder, qk_error *err)
{
    const qk_capture_info *info = qk_capture_get_info(r->capture);
    qk__repack_facts facts;
    QK_TRY(qk__repack_facts_read(r->capture, &facts, err));
    const qk_capture_meta meta = {.model = info->model,
                                  .q_per_kv_group = info->q_per_kv_group,
                                  .source = facts.source,
                                  .extra_json = facts.extra,
                                  .card = facts.card,
                                  .wide_ids = has_wide_ids(r),
                                  .layout = r->settings->layout};
    qk_status status = qk_capture_writer_open(&r->writer, folder, &meta, err);
    qk__repack_facts_free(&facts);
    QK_TRY(status);
    qk__meter_open(&r->meter, (qk_progress){.what = "heads", .total = (int64_t)num_heads(r)},
                   &r->settings->context);
    status = qk__parallel_try(r->num_jobs, r->threads, copy_job, r, err);
    qk__meter_close(&r->meter);
    if (status == QK_ERR_CANCELLED)
        status = qk__fail(err, status, "stopped after %lld of %zu heads; nothing was written",
                          (long long)r->meter.now.done, num_heads(r));
    if (status == QK_OK)
        status = qk__repack_copy_files(r->capture, folder, r->writer, err);
    if (status == QK_OK)
        return qk_capture_writer_finish(&r->writer, err);
    qk_capture_writer_abort(&r->writer);
    return status;
}

/* ---- its place -------------------------------------------------------------------------- */

static bool is_within(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && path[length] == '/';
}

static bool is_empty(const char *folder)
{
    qk__names names;
    if (qk__list_dir(folder, &names, NULL) != QK_OK)
        return false;
    bool empty = names.count == 0;
    qk__names_free(&names);
    return empty;
}

/* `place` is the output folder, which is there by now. */
static qk_status check_place(const repack *r, const char *place, qk_error *err)
{
    char *source = realpath(qk_capture_path(r->capture), NULL);
    qk_status status = source ? QK_OK : qk__nomem(err);
    if (status == QK_OK && (is_within(place, source) || is_within(source, place)))
        status =
            qk__fail(err, QK_ERR_ARGUMENT,
                     "%s: lies in the capture that is read, or around it (%s); choose another "
                     "folder",
                     place, source);
    else if (status == QK_OK && qk__place_is_here(place))
        status =
            qk__fail(err, QK_ERR_ARGUMENT,
                     "%s: this command runs in that folder, which is to be replaced; choose "
                     "another one",
                     place);
    else if (status == QK_OK && !is_empty(place) && !r->settings->force)
        status =
            qk__fail(err, QK_ERR_EXISTS,
                     "%s: folder is not empty; choose another one, or --force to replace a "
                     "capture there",
                     place);
    else if (status == QK_OK && !is_empty(place) && !qk__holds_captures_alone(place))
        status =
            qk__fail(err, QK_ERR_EXISTS,
                     "%s: holds other files than a capture's; choose another folder", place);
    if (status == QK_OK)
        status = qk__check_strangers(place, err);
    free(source);
    return status;
}

/* Who writes without a lock (on a file system that has none) may have come meanwhile. */
static qk_status publish(const repack *r, qk__hold *folder, const char *made, qk_error *err)
{
    bool done;
    QK_TRY(check_place(r, folder->path, err));
    QK_TRY(qk__place_exchange(folder, made, made, r->replaces, &done, err));
    return done ? QK_OK
                : qk__fail(err, QK_ERR_IO,
                           "%s: cannot take the place of %s: %s; choose a new folder", made,
                           folder->path, strerror(errno));
}

static qk_status make_beside(repack *r, qk__hold *folder, const char *made, qk_error *err)
{
    int lock;
    if (qk__place_try(made, &lock)) { /* what a killed run left */
        qk__output_remove(made);
        close(lock);
    }
    qk_status status = look_at_capture(r, err);
    if (status == QK_OK)
        status = qk__place_make_private(made, err);
    if (status != QK_OK)
        return status;
    status = write_capture(r, made, err);
    if (status == QK_OK)
        status = publish(r, folder, made, err);
    qk__output_remove(made); /* the old one, or what was not published */
    return status;
}

static qk_status make_in(repack *r, qk__hold *folder, const char *place, qk_error *err)
{
    QK_TRY(qk__check_links(place, err));
    QK_TRY(check_place(r, place, err));
    r->replaces = !is_empty(place);
    if (r->settings->force)
        QK_TRY(qk__output_ask(place, err));
    char *made = qk__place_beside(place, "repack");
    qk_status status = made ? make_beside(r, folder, made, err) : qk__nomem(err);
    free(made);
    return status;
}

static qk_status make_capture(repack *r, qk_error *err)
{
    qk__hold folder;
    QK_TRY(qk__place_claim(&folder, r->settings->output, err));
    char *place = realpath(r->settings->output, NULL);
    qk_status status = place ? make_in(r, &folder, place, err) : qk__nomem(err);
    free(place);
    qk__place_release(&folder);
    return status;
}

/* ---- the run ---------------------------------------------------------------------------- */

static qk_status check_repack_settings(const qk_repack_settings *s, qk_error *err)
{
    QK_TRY(qk__settings_check(&qk_repack_settings_table, s, err));
    QK_TRY(qk__writer_check_settings(&s->writer, err));
    return s->capture && s->output ? QK_OK
                                   : qk__fail(err, QK_ERR_ARGUMENT, "no %s given",
                                              s->capture ? "output" : "capture");
}

static qk_status open_capture(repack *r, qk_error *err)
{
    const qk_repack_settings *s = r->settings;
    const qk_hub_settings what = {.name = s->capture,
                                  .revision = s->revision,
                                  .part = QK_HUB_ALL, /* the card and the texts, too */
                                  .prefix = s->prefix,
                                  .context = s->context};
    qk__needed needed;
    QK_TRY(qk__fetch_need(&what, NULL, &needed, err));
    qk_status status = qk_capture_open(&r->capture, needed.path, s->prefix, err);
    free(needed.path);
    if (status == QK_OK && !qk_capture_get_info(r->capture)->complete)
        status =
            qk__fail(err, QK_ERR_INCONSISTENT,
                     "%s: capture.json says that this capture was not finished: capture again",
                     qk_capture_path(r->capture));
    return status;
}

static void release_repack(repack *r)
{
    for (int i = 0; r->readers && i < r->threads; i++)
        qk_rows_close(&r->readers[i]);
    for (size_t j = 0; r->jobs && j < r->num_jobs; j++)
        free(r->jobs[j].heads);
    free(r->readers);
    free(r->jobs);
    free(r->columns);
    qk_capture_close(&r->capture);
}

qk_status qk_capture_repack(const qk_repack_settings *settings, qk_repack_outcome *outcome,
                            qk_error *err)
{
    QK_NEED(err, outcome);
    *outcome = (qk_repack_outcome){0};
    QK_NEED(err, settings);
    QK_TRY(check_repack_settings(settings, err));
    repack r = {.settings = settings};
    r.threads = qk__count_threads(&settings->context);
    atomic_init(&r.rows, 0);
    qk_status status = open_capture(&r, err);
    if (status == QK_OK)
        status = make_capture(&r, err);
    if (status == QK_OK) {
        outcome->heads = num_heads(&r);
        outcome->files = r.num_jobs;
        outcome->rows = atomic_load(&r.rows);
        outcome->vector_bytes = r.meter.now.bytes;
    }
    release_repack(&r);
    return status;
}
