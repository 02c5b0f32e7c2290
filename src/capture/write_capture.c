/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a capture: one folder per head (packed: per layer and kind), then card and manifest. */
#include "capture/capture_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "base/utf8.h"
#include "capture/capture.h"

enum { MAX_FIELDS = 7 };

struct qk_head_writer {
    qk_capture_writer *capture;
    qk_head_id id;
    qk__head_shape shape;
    int64_t rows;
    char *folder;             /* NULL: packed */
    qk__parquet_writer *file; /* its own, or that of `packed` */
    qk__packed_file *packed;  /* the file that it shares; NULL: none */
    qk__buffer valid;         /* of sliding_window and example_id, for the rows being added */
    int64_t *numbers;         /* column `head` for these rows */
    size_t capacity;          /* of numbers */
};

/* ---- the capture ------------------------------------------------------------------------ */

static void free_writer(qk_capture_writer **writer)
{
    qk_capture_writer *w = *writer;
    qk__packed_free(w);
    pthread_mutex_destroy(&w->lock);
    qk__place_release(&w->hold);
    json_decref(w->extra);
    free(w->records);
    free(w->card);
    free(w->source);
    free(w->model);
    free(w->dir);
    free(w);
    *writer = NULL;
}

static qk_status hold_empty_dir(qk_capture_writer *writer, const char *dir, qk_error *err)
{
    QK_TRY(qk__place_claim(&writer->hold, dir, err));
    qk__names names;
    QK_TRY(qk__list_dir(dir, &names, err));
    size_t count = names.count;
    qk__names_free(&names);
    if (count > 0)
        return qk__fail(err, QK_ERR_EXISTS,
                        "%s: folder is not empty: remove it or choose another one", dir);
    return QK_OK;
}

/* One line of printable text: it goes into headings and lists of the card. */
static char *copy_line(const char *text)
{
    char *copy = qk__strdup(text ? text : "");
    for (char *p = copy; p && *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = ' ';
    return copy;
}

static qk_status check_text(const char *name, const char *text, qk_error *err)
{
    size_t size = strlen(text);
    return qk__utf8_valid((const uint8_t *)text, size) == size
               ? QK_OK
               : qk__fail(err, QK_ERR_ARGUMENT, "%s is not valid UTF-8", name);
}

static qk_status take_meta(qk_capture_writer *writer, const qk_capture_meta *meta,
                           qk_error *err)
{
    static const qk_capture_meta none;
    meta = meta ? meta : &none;
    writer->q_per_kv_group = meta->q_per_kv_group;
    writer->layout = meta->layout;
    writer->model = copy_line(meta->model);
    writer->source = copy_line(meta->source);
    writer->card = qk__strdup(meta->card ? meta->card : "");
    if (!writer->model || !writer->source || !writer->card)
        return qk__nomem(err);
    QK_TRY(check_text("model name", writer->model, err));
    QK_TRY(check_text("source", writer->source, err));
    QK_TRY(check_text("card", writer->card, err));
    if (writer->layout != QK_LAYOUT_HEADS && writer->layout != QK_LAYOUT_PACKED)
        return qk__fail(err, QK_ERR_ARGUMENT, "no layout: %d", (int)writer->layout);
    if (meta->q_per_kv_group < 0 || meta->q_per_kv_group > QK_MAX_HEAD_NUMBER)
        return qk__fail(err, QK_ERR_ARGUMENT, "%d query heads per key head",
                        meta->q_per_kv_group);
    if (!meta->extra_json)
        return QK_OK;
    qk_error why = {0};
    qk_status status = qk__json_parse(&writer->extra, meta->extra_json,
                                      strlen(meta->extra_json), QK__JSON_GIVEN, &why);
    if (status == QK_ERR_NOMEM)
        return qk__nomem(err);
    if (!json_is_object(writer->extra))
        return qk__fail(err, QK_ERR_ARGUMENT, "extra_json is not a JSON object: %s",
                        writer->extra ? "it is of another type" : why.message);
    return QK_OK;
}

static qk_status open_writer(qk_capture_writer *writer, const char *dir,
                             const qk_capture_meta *meta, qk_error *err)
{
    writer->dir = qk__strdup(dir);
    QK_TRY(writer->dir ? take_meta(writer, meta, err) : qk__nomem(err));
    QK_TRY(hold_empty_dir(writer, dir, err));
    return qk__capture_write_manifest(writer, false, err);
}

qk_status qk_capture_writer_open(qk_capture_writer **writer, const char *dir,
                                 const qk_capture_meta *meta, qk_error *err)
{
    QK_NEED(err, writer);
    *writer = NULL;
    QK_NEED(err, dir);
    qk_capture_writer *w = calloc(1, sizeof *w);
    if (!w)
        return qk__nomem(err);
    if (pthread_mutex_init(&w->lock, NULL) != 0) {
        free(w);
        return qk__nomem(err);
    }
    qk_status status = open_writer(w, dir, meta, err);
    if (status != QK_OK)
        free_writer(&w);
    *writer = w;
    return status;
}

static int compare_records(const void *a, const void *b)
{
    return qk__head_compare(((const qk__head_record *)a)->id, ((const qk__head_record *)b)->id);
}

/* Drops heads without rows; a head begun and not finished is an error. */
static qk_status settle_records(qk_capture_writer *writer, qk_error *err)
{
    size_t kept = 0;
    for (size_t i = 0; i < writer->num_records; i++) {
        const qk__head_record record = writer->records[i];
        char name[QK_HEAD_NAME_SIZE];
        qk_head_name(record.id, name);
        if (!record.begun && record.summed == 0)
            continue;
        if (record.begun && !record.done)
            return qk__fail(err, QK_ERR_ARGUMENT, "%s: head %s is not finished", writer->dir,
                            name);
        writer->records[kept++] = record;
    }
    writer->num_records = kept;
    if (kept > 1)
        qsort(writer->records, kept, sizeof *writer->records, compare_records);
    return QK_OK;
}

qk_status qk_capture_writer_finish(qk_capture_writer **writer, qk_error *err)
{
    QK_NEED(err, writer);
    QK_NEED(err, *writer);
    qk_status status = settle_records(*writer, err);
    if (status == QK_OK)
        status = qk__packed_finish(*writer, err);
    if (status == QK_OK)
        status = qk__capture_write_card(*writer, err);
    if (status == QK_OK)
        status = qk__capture_write_manifest(*writer, true, err);
    free_writer(writer);
    return status;
}

void qk_capture_writer_abort(qk_capture_writer **writer)
{
    assert(writer);
    if (*writer)
        free_writer(writer);
}

/* ---- records of heads ------------------------------------------------------------------- */

static qk__head_record *find_record(qk_capture_writer *writer, qk_head_id id)
{
    for (size_t i = 0; i < writer->num_records; i++)
        if (qk__head_compare(writer->records[i].id, id) == 0)
            return &writer->records[i];
    return NULL;
}

/* NULL: out of memory. */
static qk__head_record *add_record(qk_capture_writer *writer)
{
    if (writer->num_records == writer->capacity) {
        qk__head_record *records =
            qk__grow(writer->records, &writer->capacity, sizeof *records);
        if (!records)
            return NULL;
        writer->records = records;
    }
    qk__head_record *record = &writer->records[writer->num_records++];
    *record = (qk__head_record){0};
    return record;
}

static qk_status begin_file(qk_capture_writer *writer, qk_head_id id, size_t dim, qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(id, name);
    qk__head_record *record = find_record(writer, id);
    if (!record)
        record = add_record(writer);
    if (!record)
        return qk__nomem(err);
    if (record->begun)
        return qk__fail(err, QK_ERR_EXISTS, "head %s is written already", name);
    *record = (qk__head_record){.id = id, .dim = dim, .begun = true};
    return QK_OK;
}

qk_status qk__capture_writer_note_sums(qk_capture_writer *writer, qk_head_id id, size_t dim,
                                       int64_t summed, qk_error *err)
{
    pthread_mutex_lock(&writer->lock);
    qk__head_record *record = find_record(writer, id);
    if (!record && (record = add_record(writer)) != NULL)
        *record = (qk__head_record){.id = id, .dim = dim};
    if (record)
        record->summed = summed;
    pthread_mutex_unlock(&writer->lock);
    return record ? QK_OK : qk__nomem(err);
}

static void end_file(qk_head_writer *head, bool done)
{
    pthread_mutex_lock(&head->capture->lock);
    qk__head_record *record = find_record(head->capture, head->id);
    if (record && done) {
        record->done = true;
        record->rows = head->rows;
    } else if (record) {
        record->begun = false;
    }
    pthread_mutex_unlock(&head->capture->lock);
}

/* ---- one head --------------------------------------------------------------------------- */

static qk_status open_own_file(qk_head_writer *head, qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(head->id, name);
    head->folder = qk__path_join(head->capture->dir, name);
    if (!head->folder)
        return qk__nomem(err);
    QK_TRY(qk__make_below(head->capture->dir, name, err));
    return qk__capture_open_file(&head->file, head->capture, head->folder, &head->shape, err);
}

qk_status qk_head_writer_open(qk_head_writer **head, qk_capture_writer *writer, qk_head_id id,
                              size_t dim, bool strings, size_t group_rows, qk_error *err)
{
    QK_NEED(err, head);
    *head = NULL;
    QK_NEED(err, writer);
    if (id.layer < 0 || id.layer > QK_MAX_HEAD_NUMBER || id.head < 0 ||
        id.head > QK_MAX_HEAD_NUMBER || (id.kind != QK_QUERY && id.kind != QK_KEY))
        return qk__fail(err, QK_ERR_ARGUMENT, "no head: layer %d, head %d", id.layer, id.head);
    qk_head_writer *h = calloc(1, sizeof *h);
    if (!h)
        return qk__nomem(err);
    *h = (qk_head_writer){.id = id, .shape = {dim, strings, group_rows}};
    pthread_mutex_lock(&writer->lock);
    qk_status status = begin_file(writer, id, dim, err);
    pthread_mutex_unlock(&writer->lock);
    if (status == QK_OK) {
        h->capture = writer;
        status = writer->layout == QK_LAYOUT_PACKED
                     ? qk__packed_begin(writer, id, &h->shape, &h->packed, &h->file, err)
                     : open_own_file(h, err);
    }
    if (status != QK_OK)
        qk_head_writer_abort(&h);
    *head = h;
    return status;
}

/* ---- its rows --------------------------------------------------------------------------- */

static const char *name_of(const qk_head_writer *head, char name[QK_HEAD_NAME_SIZE])
{
    qk_head_name(head->id, name);
    return name;
}

static qk_status check_block(const qk_head_writer *head, const qk_block *block,
                             const char *const *token_str, qk_error *err)
{
    const qk__head_shape *shape = &head->shape;
    char name[QK_HEAD_NAME_SIZE];
    if (!block->f32 || !block->position || !block->bucket || !block->example ||
        (shape->strings && !token_str))
        return qk__fail(err, QK_ERR_ARGUMENT, "head %s: a column of the block is missing",
                        name_of(head, name));
    if (block->dim != shape->dim)
        return qk__fail(err, QK_ERR_ARGUMENT, "head %s: vectors of %zu values in a head of %zu",
                        name_of(head, name), block->dim, shape->dim);
    return QK_OK;
}

static qk_status number_rows(qk_head_writer *head, size_t rows, qk_error *err)
{
    if (rows <= head->capacity)
        return QK_OK;
    free(head->numbers);
    head->numbers = qk__calloc(rows, sizeof *head->numbers);
    head->capacity = head->numbers ? rows : 0;
    if (!head->numbers)
        return qk__nomem(err);
    for (size_t i = 0; i < rows; i++)
        head->numbers[i] = head->id.head;
    return QK_OK;
}

/* Marks the windows that are no nulls. */
static qk_status mark_nulls(qk_head_writer *head, const qk_block *block, qk_error *err)
{
    QK_TRY(qk__buffer_reserve(&head->valid, block->rows, err));
    for (size_t i = 0; i < block->rows; i++)
        head->valid.data[i] = block->window && block->window[i] > 0;
    return QK_OK;
}

qk_status qk_head_writer_add(qk_head_writer *head, const qk_block *block,
                             const char *const *token_str, qk_error *err)
{
    QK_NEED(err, head, block);
    if (block->rows == 0)
        return QK_OK;
    QK_TRY(check_block(head, block, token_str, err));
    QK_TRY(mark_nulls(head, block, err));
    qk__field_values values[MAX_FIELDS] = {0};
    size_t count = 0;
    if (head->packed) {
        QK_TRY(number_rows(head, block->rows, err));
        values[count++].i64 = head->numbers;
    }
    values[count++].i64 = block->bucket;
    values[count++].i64 = block->example;
    values[count++].i64 = block->position;
    values[count++].f32 = block->f32;
    /* Without any window every row is null, and any column will do for the values. */
    values[count++] = (qk__field_values){.i64 = block->window ? block->window : block->position,
                                         .valid = head->valid.data};
    values[count].strings = token_str;
    QK_TRY(qk__parquet_writer_add(head->file, values, block->rows, err));
    head->rows += (int64_t)block->rows;
    return QK_OK;
}

static void free_head(qk_head_writer **head)
{
    qk__buffer_free(&(*head)->valid);
    free((*head)->numbers);
    free((*head)->folder);
    free(*head);
    *head = NULL;
}

qk_status qk_head_writer_finish(qk_head_writer **head, qk_error *err)
{
    QK_NEED(err, head);
    QK_NEED(err, *head);
    qk_head_writer *h = *head;
    qk_status status = h->packed ? qk__packed_end(h->capture, h->packed, err)
                                 : qk__parquet_writer_finish(&h->file, err);
    h->packed = NULL; /* its turn is over */
    h->file = NULL;
    if (status == QK_OK) {
        end_file(h, true);
        free_head(head);
    }
    qk_head_writer_abort(head); /* does nothing where it is finished */
    return status;
}

void qk_head_writer_abort(qk_head_writer **head)
{
    assert(head);
    qk_head_writer *h = *head;
    if (!h)
        return;
    if (h->packed)
        qk__packed_give_up(h->capture, h->packed, h->rows);
    else
        qk__parquet_writer_abort(&h->file);
    if (h->capture) {
        if (h->folder)
            rmdir(h->folder); /* stays unless it is empty */
        end_file(h, false);
    }
    free_head(head);
}
