/* SPDX-License-Identifier: Apache-2.0 */
/* What a capture holds (qkscope inspect): its footers and integer columns are read, heads in parallel; of the vectors
 * only the dimension. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <qkscope/capture.h>
#include <qkscope/hub.h>

#include "analysis/inspect_moments.h"
#include "analysis/states.h"
#include "analysis/value_set.h"
#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "base/parallel.h"
#include "capture/capture.h"
#include "settings/common_rows.h"

enum { BLOCK_ROWS = 8192 };

static const qk_setting ROWS[] = {
    QK__REVISION_ROW(qk_inspect_settings, NULL, .yaml = NULL),
    QK__SPLIT_ROW(qk_inspect_settings, NULL, .yaml = NULL),
    QK__GROUP_ROW(qk_inspect_settings, NULL, .yaml = NULL),
    QK__THREADS_ROW(qk_inspect_settings, NULL, .yaml = NULL),
};

const qk_settings_table qk_inspect_settings_table = {
    QK_SETTINGS_ROWS(qk_inspect_settings, ROWS)};

typedef struct job_list {
    const qk_capture *capture;
    qk_inspection *inspection;
    qk_rows **readers; /* one a worker */
} job_list;

/* ---- one head --------------------------------------------------------------------------- */

/* Reads the footer of one file. *columns loses those that it lacks, where a capture can be used without them. */
static qk_status look_at_file(qk_head_inspection *head, const qk_head *on_disk, size_t i,
                              qk_rows **reader, unsigned *columns, qk_error *err)
{
    const qk_parquet *file;
    QK_TRY(qk__rows_file(reader, on_disk, i, &file, err));
    int vector = qk_parquet_find(file, "vector");
    if (vector >= 0) {
        const qk_parquet_column *column = qk_parquet_column_at(file, vector);
        bool mixed = *head->codec && strcmp(head->codec, column->codec) != 0;
        snprintf(head->codec, sizeof head->codec, "%s", mixed ? "mixed" : column->codec);
        head->encodings |= column->encodings;
        head->wide |= column->type == QK_PARQUET_DOUBLE;
    }
    head->row_groups +=
        on_disk->parts ? on_disk->parts[i].num_groups : qk_parquet_num_row_groups(file);
    head->has_window |= qk_parquet_find(file, "sliding_window") >= 0;
    if (qk_parquet_find(file, "bucket") < 0)
        *columns &= ~(unsigned)QK_COLUMN_BUCKET;
    if (qk_parquet_find(file, "example_id") < 0)
        *columns &= ~(unsigned)QK_COLUMN_EXAMPLE;
    if (!head->created_by)
        head->created_by = qk__strdup(qk_parquet_created_by(file));
    return head->created_by ? QK_OK : qk__nomem(err);
}

/* Opening with vectors checks their column and dimension; the next step reads without them. */
static qk_status check_vectors(qk_head_inspection *head, const qk_head *on_disk,
                               qk_rows **reader, unsigned columns, qk_error *err)
{
    QK_TRY(qk__rows_reopen(reader, on_disk, columns | QK_COLUMN_VECTOR, 0, err));
    head->dim = qk_rows_dim(*reader);
    return QK_OK;
}

typedef struct head_sets {
    qk__value_set buckets, examples, windows;
} head_sets;

static qk_status add_block(qk_head_inspection *head, head_sets *sets, const qk_block *block,
                           qk_error *err)
{
    for (size_t i = 0; i < block->rows; i++) {
        int64_t position = block->position[i];
        bool first = head->rows == 0 && i == 0;
        if (first || position < head->position_min)
            head->position_min = position;
        if (first || position > head->position_max)
            head->position_max = position;
    }
    head->rows += (int64_t)block->rows;
    if (block->bucket)
        QK_TRY(qk__value_set_add(&sets->buckets, block->bucket, block->rows, err));
    if (block->example)
        QK_TRY(qk__value_set_add(&sets->examples, block->example, block->rows, err));
    return qk__value_set_add(&sets->windows, block->window, block->rows, err);
}

static qk_status read_integers(qk_head_inspection *head, const qk_head *on_disk,
                               qk_rows **reader, unsigned columns, head_sets *sets,
                               qk_error *err)
{
    QK_TRY(qk__rows_reopen(reader, on_disk, columns, 0, err));
    for (;;) {
        qk_block block;
        QK_TRY(qk_rows_next(*reader, BLOCK_ROWS, &block, err));
        if (block.rows == 0)
            return QK_OK;
        QK_TRY(add_block(head, sets, &block, err));
    }
}

static qk_status inspect_head(qk_head_inspection *head, const qk_head *on_disk,
                              qk_rows **reader, qk_error *err)
{
    unsigned columns =
        QK_COLUMN_POSITION | QK_COLUMN_BUCKET | QK_COLUMN_EXAMPLE | QK_COLUMN_WINDOW;
    if (on_disk->missing || on_disk->failure)
        return check_vectors(head, on_disk, reader, columns, err); /* says what is wrong */
    if (on_disk->moments)
        QK_TRY(qk__inspect_moments(head, on_disk, err));
    if (on_disk->num_files == 0)
        return QK_OK;
    size_t dim = head->dim;
    for (size_t i = 0; i < on_disk->num_files; i++)
        QK_TRY(look_at_file(head, on_disk, i, reader, &columns, err));
    head->has_bucket = (columns & QK_COLUMN_BUCKET) != 0;
    head->has_example = (columns & QK_COLUMN_EXAMPLE) != 0;
    QK_TRY(check_vectors(head, on_disk, reader, columns, err));
    if (on_disk->moments)
        QK_TRY(
            qk__states_fit(on_disk, qk_rows_total(*reader), head->dim, head->summed, dim, err));
    head_sets sets = {0};
    qk_status status = read_integers(head, on_disk, reader, columns, &sets, err);
    qk__value_set_take(&sets.buckets, &head->buckets);
    qk__value_set_take(&sets.examples, &head->examples);
    qk__value_set_take(&sets.windows, &head->windows);
    head->has_positions = head->rows > 0;
    return status;
}

static void inspect_job(void *context, size_t i, int worker)
{
    job_list *jobs = context;
    qk_head_inspection *head = &jobs->inspection->heads[i];
    const qk_head *on_disk = qk_capture_head(jobs->capture, i);
    qk_error err = {0};
    head->id = on_disk->id;
    head->files = on_disk->missing ? 0 : on_disk->num_files;
    for (size_t f = 0; f < head->files; f++) {
        struct stat st;
        if (on_disk->parts)
            head->bytes += on_disk->parts[f].bytes;
        else if (stat(on_disk->files[f], &st) == 0)
            head->bytes += st.st_size;
    }
    head->status = inspect_head(head, on_disk, &jobs->readers[worker], &err);
    if (head->status != QK_OK)
        head->message = qk__strdup(err.message);
}

/* ---- the capture ------------------------------------------------------------------------ */

static qk_status add_values(qk__value_set *set, const qk_values *values, qk_error *err)
{
    return qk__value_set_add(set, values->items, values->count, err);
}

static void add_positions(qk_inspection *in, const qk_head_inspection *head)
{
    if (!head->has_positions)
        return;
    if (!in->has_positions || head->position_min < in->position_min)
        in->position_min = head->position_min;
    if (!in->has_positions || head->position_max > in->position_max)
        in->position_max = head->position_max;
    in->has_positions = true;
}

static qk_status sum_up(qk_inspection *in, head_sets *sets, qk_error *err)
{
    bool same_dim = true;
    size_t texts = 0;
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_head_inspection *head = &in->heads[i];
        in->bytes += head->bytes;
        in->num_failed += head->status != QK_OK;
        if (head->status != QK_OK || (head->rows == 0 && head->summed == 0))
            continue;
        bool first = in->rows == 0 && in->summed == 0;
        add_positions(in, head);
        same_dim &= first || head->dim == in->dim;
        in->dim = head->dim;
        in->rows += head->rows;
        in->summed += head->summed;
        texts = (size_t)head->texts > texts ? (size_t)head->texts : texts;
        QK_TRY(add_values(&sets->buckets, &head->buckets, err));
        QK_TRY(add_values(&sets->examples, &head->examples, err));
        QK_TRY(add_values(&sets->windows, &head->windows, err));
    }
    if (!same_dim)
        in->dim = 0;
    qk_values examples;
    qk__value_set_take(&sets->buckets, &in->buckets);
    qk__value_set_take(&sets->windows, &in->windows);
    qk__value_set_take(&sets->examples, &examples);
    in->num_examples = in->kept == QK_ROWS_NONE ? texts : examples.count;
    free(examples.items);
    return QK_OK;
}

/* Heads of a packed file are of one layer. */
static bool is_shared_before(const qk_capture *capture, size_t i, const char *file)
{
    int layer = qk_capture_head(capture, i)->id.layer;
    while (i-- > 0 && qk_capture_head(capture, i)->id.layer == layer) {
        const qk_head *head = qk_capture_head(capture, i);
        for (size_t f = 0; head->parts && f < head->num_files; f++)
            if (strcmp(head->files[f], file) == 0)
                return true;
    }
    return false;
}

static void count_files(qk_inspection *in, const qk_capture *capture)
{
    for (size_t i = 0; i < in->num_heads; i++) {
        const qk_head *head = qk_capture_head(capture, i);
        if (head->missing)
            continue;
        for (size_t f = 0; f < head->num_files; f++)
            in->num_files += !head->parts || !is_shared_before(capture, i, head->files[f]);
        in->packed |= head->parts != NULL;
    }
}

static qk_status describe_capture(qk_inspection *in, const qk_capture *capture, int given,
                                  qk_error *err)
{
    const qk_capture_info *info = qk_capture_get_info(capture);
    if (!in->path)
        in->path = qk__strdup(qk_capture_path(capture));
    in->prefix = qk__strdup(qk_capture_prefix(capture));
    in->model = qk__strdup(info->model);
    in->has_manifest = info->has_manifest;
    in->complete = info->complete;
    in->num_texts = info->num_texts;
    in->num_windows = info->num_windows;
    in->kept = info->kept;
    in->has_moments = info->has_moments;
    in->has_attention = info->has_attention;
    in->reservoir = info->reservoir;
    in->groups = info->groups;
    qk__inspect_moments_files(in, capture);
    in->num_heads = qk_capture_num_heads(capture);
    count_files(in, capture);
    char names[QK_HEAD_NAME_SIZE * 10];
    in->num_missing = qk__capture_missing(capture, NULL, NULL, names, sizeof names);
    if (in->num_missing > 0 && !(in->missing = qk__strdup(names)))
        return qk__nomem(err);
    in->heads = qk__calloc(in->num_heads, sizeof *in->heads);
    if (!in->path || !in->prefix || !in->model || !in->heads)
        return qk__nomem(err);
    qk_error why = {0};
    qk_status status = qk_capture_group(capture, given, &in->group, &why);
    in->has_group = status == QK_OK;
    if (status == QK_ERR_ARGUMENT)
        return qk__fail(err, status, "%s", why.message);
    if (!in->has_group && !(in->group_message = qk__strdup(why.message)))
        return qk__nomem(err);
    return QK_OK;
}

static qk_status inspect(const qk_inspect_settings *settings, const qk_capture *capture,
                         qk_inspection *in, qk_error *err)
{
    QK_TRY(describe_capture(in, capture, settings->q_per_kv_group, err));
    int threads = qk__count_threads(&settings->context);
    job_list jobs = {capture, in, qk__calloc((size_t)threads, sizeof *jobs.readers)};
    if (!jobs.readers)
        return qk__nomem(err);
    qk__parallel_for(in->num_heads, threads, inspect_job, &jobs);
    for (int i = 0; i < threads; i++)
        qk_rows_close(&jobs.readers[i]);
    free(jobs.readers);
    head_sets sets = {0};
    qk_status status = sum_up(in, &sets, err);
    qk__value_set_free(&sets.buckets);
    qk__value_set_free(&sets.examples);
    qk__value_set_free(&sets.windows);
    return status;
}

qk_status qk_inspect_capture(const qk_inspect_settings *settings, qk_inspection **inspection,
                             qk_error *err)
{
    QK_NEED(err, inspection);
    *inspection = NULL;
    QK_NEED(err, settings);
    qk_capture *capture = NULL;
    qk_inspection *in = NULL;
    const qk_hub_wanted wanted = {.name = settings->capture,
                                  .revision = settings->revision,
                                  .part = QK_HUB_CAPTURE,
                                  .as_it_is = true};
    qk_hub_place place;
    qk_status status = qk_hub_get(&wanted, &place, err);
    if (status == QK_OK)
        status = qk_capture_open(&capture, place.path, settings->prefix, err);
    if (status == QK_OK && !(in = calloc(1, sizeof *in)))
        status = qk__nomem(err);
    if (status == QK_OK)
        status = inspect(settings, capture, in, err);
    qk_capture_close(&capture);
    free(place.path);
    if (status != QK_OK)
        qk_inspection_free(&in);
    *inspection = in;
    return status;
}

void qk_inspection_free(qk_inspection **inspection)
{
    assert(inspection);
    qk_inspection *in = *inspection;
    if (!in)
        return;
    for (size_t i = 0; in->heads && i < in->num_heads; i++) {
        qk_head_inspection *head = &in->heads[i];
        free(head->message);
        free(head->created_by);
        free(head->buckets.items);
        free(head->examples.items);
        free(head->windows.items);
    }
    free(in->heads);
    free(in->buckets.items);
    free(in->windows.items);
    free(in->path);
    free(in->prefix);
    free(in->model);
    free(in->group_message);
    free(in->missing);
    free(in);
    *inspection = NULL;
}
