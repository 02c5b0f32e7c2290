/* SPDX-License-Identifier: Apache-2.0 */
/* Files that the heads of a layer and kind share: whose turn it is, and when a file is complete. */
#include "capture/capture_writer.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/folder.h"
#include "capture/capture.h"

static void free_file(qk__packed_file *file)
{
    qk__parquet_writer_abort(&file->file);
    if (file->folder)
        rmdir(file->folder); /* stays unless it is empty */
    free(file->folder);
    free(file);
}

void qk__packed_free(qk_capture_writer *writer)
{
    for (size_t i = 0; i < writer->num_packed; i++)
        free_file(writer->packed[i]);
    free(writer->packed);
    writer->packed = NULL;
    writer->num_packed = writer->packed_capacity = 0;
}

/* ---- a head's turn ---------------------------------------------------------------------- */

static bool is_of(const qk__packed_file *file, int layer, qk_kind kind)
{
    return file->layer == layer && file->kind == kind;
}

static qk__packed_file *find_file(const qk_capture_writer *writer, qk_head_id id)
{
    for (size_t i = 0; i < writer->num_packed; i++)
        if (is_of(writer->packed[i], id.layer, id.kind))
            return writer->packed[i];
    return NULL;
}

static qk_status open_file(qk_capture_writer *writer, qk_head_id id,
                           const qk__head_shape *shape, qk__packed_file **file, qk_error *err)
{
    if (writer->num_packed == writer->packed_capacity) {
        qk__packed_file **files =
            qk__grow(writer->packed, &writer->packed_capacity, sizeof(qk__packed_file *));
        if (!files)
            return qk__nomem(err);
        writer->packed = files;
    }
    char name[QK_HEAD_NAME_SIZE];
    qk__layer_name(id.layer, id.kind, name);
    qk__packed_file *f = calloc(1, sizeof *f);
    if (!f)
        return qk__nomem(err);
    *f = (qk__packed_file){.layer = id.layer, .kind = id.kind, .shape = *shape, .last = -1};
    f->folder = qk__path_join(writer->dir, name);
    qk_status status = f->folder ? qk__make_below(writer->dir, name, err) : qk__nomem(err);
    if (status == QK_OK)
        status = qk__capture_open_file(&f->file, writer, f->folder, shape, err);
    if (status != QK_OK) {
        free_file(f);
        return status;
    }
    writer->packed[writer->num_packed++] = *file = f;
    return QK_OK;
}

static qk_status take_turn(const qk__packed_file *file, qk_head_id id,
                           const qk__head_shape *shape, qk_error *err)
{
    char name[QK_HEAD_NAME_SIZE];
    qk_head_name(id, name);
    if (!file->file || file->lost)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: head %s: %s", file->folder, name,
                        file->lost ? "a head of this file was given up half-way"
                                   : "this file is finished");
    if (file->busy || id.head <= file->last)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "%s: head %s %s head %d: the heads of a packed file are written one after "
            "the other, in ascending order",
            file->folder, name, file->busy ? "begins within" : "comes after", file->last);
    if (file->shape.dim != shape->dim || file->shape.strings != shape->strings)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "%s: head %s differs in dimension or columns from those before it: they "
            "cannot share a file",
            file->folder, name);
    return QK_OK;
}

qk_status qk__packed_begin(qk_capture_writer *writer, qk_head_id id,
                           const qk__head_shape *shape, qk__packed_file **file,
                           qk__parquet_writer **parquet, qk_error *err)
{
    pthread_mutex_lock(&writer->lock);
    qk_status status = QK_OK;
    qk__packed_file *f = find_file(writer, id);
    if (!f)
        status = open_file(writer, id, shape, &f, err);
    if (status == QK_OK)
        status = take_turn(f, id, shape, err);
    if (status == QK_OK) {
        f->busy = true;
        f->last = id.head;
        *file = f;
        *parquet = f->file;
    }
    pthread_mutex_unlock(&writer->lock);
    return status;
}

qk_status qk__packed_end(qk_capture_writer *writer, qk__packed_file *file, qk_error *err)
{
    qk_status status = qk__parquet_writer_cut(file->file, err);
    pthread_mutex_lock(&writer->lock);
    file->busy = false;
    file->lost |= status != QK_OK;
    pthread_mutex_unlock(&writer->lock);
    return status;
}

void qk__packed_give_up(qk_capture_writer *writer, qk__packed_file *file, int64_t rows)
{
    int64_t dropped = (int64_t)qk__parquet_writer_drop(file->file);
    pthread_mutex_lock(&writer->lock);
    file->busy = false;
    file->lost |= dropped != rows;
    pthread_mutex_unlock(&writer->lock);
}

/* ---- the end of a file ------------------------------------------------------------------ */

/* NULL when it is in its place already. */
static qk__parquet_writer *take_file(qk_capture_writer *writer, qk__packed_file *file,
                                     qk_status *status, qk_error *err)
{
    pthread_mutex_lock(&writer->lock);
    qk__parquet_writer *parquet = file->file;
    if (parquet && (file->busy || file->lost))
        *status = qk__fail(err, QK_ERR_ARGUMENT, "%s: head %d %s", file->folder, file->last,
                           file->busy ? "is still being written"
                                      : "was given up half-way: the file is lost");
    else
        file->file = NULL;
    pthread_mutex_unlock(&writer->lock);
    return *status == QK_OK ? parquet : NULL;
}

static qk_status finish_file(qk_capture_writer *writer, qk__packed_file *file, qk_error *err)
{
    qk_status status = QK_OK;
    qk__parquet_writer *parquet = take_file(writer, file, &status, err);
    if (parquet)
        status = qk__parquet_writer_finish(&parquet, err);
    return status;
}

/* The list may grow meanwhile, by files of other layers. */
static qk__packed_file *file_at(qk_capture_writer *writer, size_t i)
{
    pthread_mutex_lock(&writer->lock);
    qk__packed_file *file = i < writer->num_packed ? writer->packed[i] : NULL;
    pthread_mutex_unlock(&writer->lock);
    return file;
}

qk_status qk_capture_writer_end_layer(qk_capture_writer *writer, int layer, qk_kind kind,
                                      qk_error *err)
{
    QK_NEED(err, writer);
    qk_status status = QK_OK;
    qk__packed_file *file;
    for (size_t i = 0; status == QK_OK && (file = file_at(writer, i)); i++)
        if (is_of(file, layer, kind))
            status = finish_file(writer, file, err);
    return status;
}

qk_status qk__packed_finish(qk_capture_writer *writer, qk_error *err)
{
    for (size_t i = 0; i < writer->num_packed; i++)
        QK_TRY(finish_file(writer, writer->packed[i], err));
    return QK_OK;
}
