/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the files of a head, and checks each before its rows are read. */
#include "capture/head_files.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "capture/packed_file.h"

/* No model has heads beyond a few hundred dimensions. */
enum { MAX_DIM = 4096 };

static const unsigned FLAGS[QK__ROW_COLUMNS] = {
    [QK__VECTOR] = QK_COLUMN_VECTOR, [QK__POSITION] = QK_COLUMN_POSITION,
    [QK__BUCKET] = QK_COLUMN_BUCKET, [QK__EXAMPLE] = QK_COLUMN_EXAMPLE,
    [QK__WINDOW] = QK_COLUMN_WINDOW, [QK__TOKEN] = QK__TOKEN_STRINGS,
};

const char *qk__head_file_name(const qk__head_files *files)
{
    return files->head->files[files->index];
}

bool qk__is_optional_column(const qk__head_files *files, int c)
{
    return c == QK__EXAMPLE &&
           (files->columns & (QK_COLUMN_EXAMPLE | QK_OPTIONAL_EXAMPLE)) == QK_OPTIONAL_EXAMPLE;
}

bool qk__wants_column(const qk__head_files *files, int c)
{
    if (c == QK__HEAD)
        return files->packed;
    if (qk__is_optional_column(files, c))
        return !files->no_examples;
    return (files->columns & FLAGS[c]) != 0;
}

size_t qk__vector_number_bytes(const qk__head_files *files)
{
    return files->wide ? sizeof(double) : sizeof(float);
}

static void close_cursors(qk__head_files *files)
{
    for (int c = 0; c < QK__ROW_COLUMNS; c++)
        qk__cursor_retire(&files->cursors[c], &files->spare[c]);
}

/* Another file may have the name by now. */
static bool is_open(const qk_parquet *file, const char *path)
{
    struct stat is, was;
    return file && strcmp(file->path, path) == 0 && stat(path, &is) == 0 &&
           fstat(file->source.fd, &was) == 0 && is.st_dev == was.st_dev &&
           is.st_ino == was.st_ino && is.st_size == file->source.size;
}

/* Packed files stay open for their next heads: the footer is long. */
qk_status qk__head_files_open_file(qk__head_files *files, size_t index, qk_error *err)
{
    files->index = index;
    const char *path = qk__head_file_name(files);
    if (files->packed && is_open(files->file, path))
        return QK_OK;
    qk_parquet *before = files->before;
    files->before = files->file;
    files->file = before;
    if (files->packed && is_open(files->file, path))
        return QK_OK;
    qk_parquet_close(&files->file);
    if (!files->packed)
        qk_parquet_close(&files->before);
    return qk_parquet_open(&files->file, path, err);
}

qk_head_part qk__head_files_part(const qk__head_files *files)
{
    if (files->head->parts)
        return files->head->parts[files->index];
    return (qk_head_part){.num_groups = qk_parquet_num_row_groups(files->file),
                          .rows = qk_parquet_num_rows(files->file)};
}

/* Finds column c in the open file: *index is -1 where there is nothing to read. */
static qk_status find_column(qk__head_files *files, int c, int *index, qk_error *err)
{
    bool optional = qk__is_optional_column(files, c);
    *index = -1;
    if (!qk__wants_column(files, c))
        return QK_OK;
    QK_TRY(qk__row_column_find(files->file, c, optional, index, err));
    files->no_examples |= optional && *index < 0;
    return QK_OK;
}

/* The dimension is that of the first row found; all other rows must have it. */
static qk_status check_width(qk__head_files *files, qk_error *err)
{
    size_t width;
    QK_TRY(qk__cursor_next_width(files->cursors[QK__VECTOR], &width, err));
    if (width == 0 || width > MAX_DIM)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: column 'vector': the first vector has %zu values, expected 1 to %d",
            qk__head_file_name(files), width, MAX_DIM);
    if (files->dim != 0 && width != files->dim)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: column 'vector': %zu values a row, but %zu in the files before it",
                        qk__head_file_name(files), width, files->dim);
    files->dim = width;
    return QK_OK;
}

/* A run of equal rows takes no space in a file, but as much as any other once decoded. */
static qk_status check_budget(const qk__head_files *files, qk_error *err)
{
    size_t row_bytes =
        qk__wants_column(files, QK__VECTOR) ? files->dim * qk__vector_number_bytes(files) : 0;
    for (int c = QK__POSITION; c < QK__ROW_COLUMNS; c++)
        row_bytes += qk__wants_column(files, c) ? sizeof(int64_t) : 0;
    int64_t budget = qk__source_budget(&files->file->source);
    if (row_bytes == 0 || files->rows_left <= budget / (int64_t)row_bytes)
        return QK_OK;
    return qk__fail(
        err, QK_ERR_UNSUPPORTED,
        "%s: over the limit: %lld rows of %zu bytes, more than the %lld bytes that a "
        "file of %lld may become",
        qk__head_file_name(files), (long long)files->rows_left, row_bytes, (long long)budget,
        (long long)qk_parquet_file_bytes(files->file));
}

/* Opens a file and checks its columns; with `start` ready to read its first row. */
static qk_status open_columns(qk__head_files *files, size_t index, bool start, qk_error *err)
{
    close_cursors(files);
    QK_TRY(qk__head_files_open_file(files, index, err));
    const qk_head_part part = qk__head_files_part(files);
    QK_TRY(qk__packed_check(files->file, &part, err));
    files->rows_left = part.rows;
    for (int c = 0; c < QK__ROW_COLUMNS; c++) {
        int column;
        QK_TRY(find_column(files, c, &column, err));
        if (c == QK__VECTOR && column >= 0)
            files->wide |= qk_parquet_column_at(files->file, column)->type == QK_PARQUET_DOUBLE;
        if (start && column >= 0) {
            QK_TRY(qk__cursor_open_groups(&files->cursors[c], files->file, column,
                                          (size_t)part.first_group, (size_t)part.num_groups,
                                          err));
            qk__cursor_equip(files->cursors[c], &files->spare[c]);
        }
    }
    if (files->cursors[QK__VECTOR] && files->rows_left > 0)
        QK_TRY(check_width(files, err));
    return check_budget(files, err);
}

qk_status qk__head_files_next(qk__head_files *files, qk_error *err)
{
    return open_columns(files, files->index + 1, true, err);
}

void qk__head_files_reset(qk__head_files *files, const qk_head *head, unsigned columns)
{
    close_cursors(files);
    free(files->prints);
    files->prints = NULL;
    files->head = head;
    files->columns = columns;
    files->packed = head->parts != NULL;
    files->wide = files->no_examples = false;
    files->dim = 0;
    files->total = 0;
}

void qk__head_files_close(qk__head_files *files)
{
    close_cursors(files);
    qk_parquet_close(&files->file);
    qk_parquet_close(&files->before);
    free(files->prints);
    for (int c = 0; c < QK__ROW_COLUMNS; c++)
        qk__pages_free(&files->spare[c]);
}

/* ---- all of them ------------------------------------------------------------------------ */

static qk_status check_there(const qk_head *head, qk_error *err)
{
    if (head->failure)
        return qk__fail(err, head->failure->status, "%s", head->failure->message);
    if (head->missing && head->parts)
        return qk__fail(
            err, QK_ERR_NOT_FOUND,
            "%s: there are no rows of head %d, but capture.json lists them: fetch it "
            "again, or capture again",
            head->files[0], head->id.head);
    if (head->missing)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: not there, but capture.json lists this head: fetch it again, or "
                        "capture again",
                        head->files[0]);
    if (head->num_files == 0 && head->moments)
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "%s: this capture keeps moments and no rows, which this needs: capture "
                        "again with --keep rows",
                        head->moments);
    return head->num_files > 0
               ? QK_OK
               : qk__fail(err, QK_ERR_NOT_FOUND, "no Parquet files for this head");
}

/* The footers of all files give the totals. A lone file, the usual case, is opened once. */
qk_status qk__head_files_open(qk__head_files *files, qk_error *err)
{
    bool alone = files->head->num_files == 1;
    size_t first = 0;
    QK_TRY(check_there(files->head, err));
    files->prints = qk__calloc(files->head->num_files, sizeof *files->prints);
    if (!files->prints)
        return qk__nomem(err);
    for (size_t i = 0; i < files->head->num_files; i++) {
        QK_TRY(open_columns(files, i, alone, err));
        QK_TRY(qk__head_file_print(files->head, i, files->file,
                                   (files->columns & QK__FINGERPRINT) != 0, &files->prints[i],
                                   err));
        if (files->total == 0)
            first = i;
        if (files->rows_left > INT64_MAX - files->total)
            return qk__fail(err, QK_ERR_MALFORMED, "%s: impossible number of rows",
                            qk__head_file_name(files));
        files->total += files->rows_left;
    }
    if (files->head->rows > 0 && files->total != files->head->rows)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: %lld rows, but capture.json lists %lld of this head: fetch it "
                        "again, or capture again",
                        qk__head_file_name(files), (long long)files->total,
                        (long long)files->head->rows);
    return alone ? QK_OK : open_columns(files, first, true, err);
}
