/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the rows of one head, from all its files (shards) or its parts of them, the columns in
 * step. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "capture/packed_file.h"
#include "capture/row_columns.h"
#include "parquet/reader.h"

/* No model has heads beyond a few hundred dimensions. The size of a block has a limit, so that
 * who asks for too many rows does not get all memory. */
enum { MAX_DIM = 4096 };
static const size_t MAX_BLOCK_BYTES = (size_t)1 << 30;

static const unsigned FLAGS[QK__ROW_COLUMNS] = {
    [QK__VECTOR] = QK_COLUMN_VECTOR, [QK__POSITION] = QK_COLUMN_POSITION,
    [QK__BUCKET] = QK_COLUMN_BUCKET, [QK__EXAMPLE] = QK_COLUMN_EXAMPLE,
    [QK__WINDOW] = QK_COLUMN_WINDOW,
};

struct qk_rows {
    const qk_head *head;
    unsigned columns;
    bool packed; /* the head shares its files */
    bool failed; /* the columns may be out of step */
    size_t dim;
    bool wide; /* some shard holds float64: all are read as that */
    int64_t total;
    int64_t done;          /* rows handed out */
    bool no_examples;      /* some shard has no ids: none are read */
    qk_file_print *prints; /* [head->num_files] */

    /* the shard being read */
    size_t shard;
    qk_parquet *file;
    qk_parquet *before; /* the packed file open before it: keys and queries take turns */
    qk_parquet_cursor *cursors[QK__ROW_COLUMNS]; /* NULL: not asked for, or no windows */
    int64_t shard_left;
    qk__pages spare[QK__ROW_COLUMNS]; /* buffers kept for the next shard or head */

    /* the block handed out */
    size_t capacity; /* in rows */
    void *vectors;
    int64_t *ints[QK__ROW_COLUMNS];
    uint8_t *valid; /* windows may be null */
};

static const char *file_name(const qk_rows *rows)
{
    return rows->head->files[rows->shard];
}

/* Whether column c may be missing: ids of texts, in a capture that was made without them. */
static bool is_optional(const qk_rows *rows, int c)
{
    return c == QK__EXAMPLE &&
           (rows->columns & (QK_COLUMN_EXAMPLE | QK_OPTIONAL_EXAMPLE)) == QK_OPTIONAL_EXAMPLE;
}

static bool wanted(const qk_rows *rows, int c)
{
    if (c == QK__HEAD)
        return rows->packed;
    if (is_optional(rows, c))
        return !rows->no_examples;
    return (rows->columns & FLAGS[c]) != 0;
}

static bool may_be_null(const qk_rows *rows, int c)
{
    return c == QK__WINDOW || is_optional(rows, c);
}

static size_t value_bytes(const qk_rows *rows)
{
    return rows->wide ? sizeof(double) : sizeof(float);
}

static void close_cursors(qk_rows *rows)
{
    for (int c = 0; c < QK__ROW_COLUMNS; c++)
        qk__cursor_retire(&rows->cursors[c], &rows->spare[c]);
}

/* Under its name another file may lie by now. */
static bool is_open(const qk_parquet *file, const char *path)
{
    struct stat is, was;
    return file && strcmp(file->path, path) == 0 && stat(path, &is) == 0 &&
           fstat(file->source.fd, &was) == 0 && is.st_dev == was.st_dev &&
           is.st_ino == was.st_ino && is.st_size == file->source.size;
}

/* Packed files stay open for the next heads of them: the footer of one is long. */
static qk_status open_file(qk_rows *rows, qk_error *err)
{
    const char *path = file_name(rows);
    if (rows->packed && is_open(rows->file, path))
        return QK_OK;
    qk_parquet *before = rows->before;
    rows->before = rows->file;
    rows->file = before;
    if (rows->packed && is_open(rows->file, path))
        return QK_OK;
    qk_parquet_close(&rows->file);
    if (!rows->packed)
        qk_parquet_close(&rows->before);
    return qk_parquet_open(&rows->file, path, err);
}

/* The row groups to read of the open shard. */
static qk_head_part part_of(const qk_rows *rows)
{
    if (rows->head->parts)
        return rows->head->parts[rows->shard];
    return (qk_head_part){.num_groups = qk_parquet_num_row_groups(rows->file),
                          .rows = qk_parquet_num_rows(rows->file)};
}

/* Finds column c in the open file: *index is -1 where there is nothing to read. */
static qk_status find_column(qk_rows *rows, int c, int *index, qk_error *err)
{
    bool optional = is_optional(rows, c);
    *index = -1;
    if (!wanted(rows, c))
        return QK_OK;
    QK_TRY(qk__row_column_find(rows->file, c, optional, index, err));
    rows->no_examples |= optional && *index < 0;
    return QK_OK;
}

/* ---- moving from shard to shard --------------------------------------------------------- */

/* The dimension is that of the first row found; all other rows must have it. */
static qk_status check_width(qk_rows *rows, qk_error *err)
{
    size_t width;
    QK_TRY(qk_parquet_next_width(rows->cursors[QK__VECTOR], &width, err));
    if (width == 0 || width > MAX_DIM)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: column 'vector': the first vector has %zu values, expected 1 to %d",
            file_name(rows), width, MAX_DIM);
    if (rows->dim != 0 && width != rows->dim)
        return qk__fail(
            err, QK_ERR_INCONSISTENT,
            "%s: column 'vector': %zu values a row, but %zu in the shards before it",
            file_name(rows), width, rows->dim);
    rows->dim = width;
    return QK_OK;
}

/* A run of equal rows takes no space in a file, but as much as any other once decoded. */
static qk_status check_budget(const qk_rows *rows, qk_error *err)
{
    size_t row_bytes = wanted(rows, QK__VECTOR) ? rows->dim * value_bytes(rows) : 0;
    for (int c = QK__POSITION; c < QK__ROW_COLUMNS; c++)
        row_bytes += wanted(rows, c) ? sizeof(int64_t) : 0;
    int64_t budget = qk__source_budget(&rows->file->source);
    if (row_bytes == 0 || rows->shard_left <= budget / (int64_t)row_bytes)
        return QK_OK;
    return qk__fail(
        err, QK_ERR_UNSUPPORTED,
        "%s: over the limit: %lld rows of %zu bytes, more than the %lld bytes that a "
        "file of %lld may become",
        file_name(rows), (long long)rows->shard_left, row_bytes, (long long)budget,
        (long long)qk_parquet_file_bytes(rows->file));
}

/* Opens a shard and checks its columns; with `start` ready to read its first row. */
static qk_status open_shard(qk_rows *rows, size_t shard, bool start, qk_error *err)
{
    close_cursors(rows);
    rows->shard = shard;
    QK_TRY(open_file(rows, err));
    const qk_head_part part = part_of(rows);
    QK_TRY(qk__packed_check(rows->file, &part, err));
    rows->shard_left = part.rows;
    for (int c = 0; c < QK__ROW_COLUMNS; c++) {
        int index;
        QK_TRY(find_column(rows, c, &index, err));
        if (c == QK__VECTOR && index >= 0)
            rows->wide |= qk_parquet_column_at(rows->file, index)->type == QK_PARQUET_DOUBLE;
        if (start && index >= 0) {
            QK_TRY(qk__cursor_open_groups(&rows->cursors[c], rows->file, index,
                                          (size_t)part.first_group, (size_t)part.num_groups,
                                          err));
            qk__cursor_equip(rows->cursors[c], &rows->spare[c]);
        }
    }
    if (rows->cursors[QK__VECTOR] && rows->shard_left > 0)
        QK_TRY(check_width(rows, err));
    return start ? check_budget(rows, err) : QK_OK;
}

/* Reads the footers of all shards, for the totals, and then opens the first one with rows,
 * which tells the dimension. A lone file, the usual case, is opened once. */
static qk_status open_shards(qk_rows *rows, int64_t max_rows, qk_error *err)
{
    bool alone = rows->head->num_files == 1;
    size_t first = 0;
    for (size_t i = 0; i < rows->head->num_files; i++) {
        QK_TRY(open_shard(rows, i, alone, err));
        QK_TRY(qk__head_file_print(rows->head, i, rows->file,
                                   (rows->columns & QK_FINGERPRINT) != 0, &rows->prints[i],
                                   err));
        if (rows->total == 0)
            first = i;
        if (rows->shard_left > INT64_MAX - rows->total)
            return qk__fail(err, QK_ERR_MALFORMED, "%s: impossible number of rows",
                            file_name(rows));
        rows->total += rows->shard_left;
    }
    if (rows->head->rows > 0 && rows->total != rows->head->rows)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: %lld rows, but capture.json lists %lld of this head: fetch it "
                        "again, or capture again",
                        file_name(rows), (long long)rows->total, (long long)rows->head->rows);
    if (max_rows > 0 && rows->total > max_rows)
        rows->total = max_rows;
    return alone ? QK_OK : open_shard(rows, first, true, err);
}

qk_status qk_rows_open(qk_rows **rows, const qk_head *head, unsigned columns, int64_t max_rows,
                       qk_error *err)
{
    QK_NEED(err, rows);
    *rows = NULL;
    QK_NEED(err, head);
    return qk_rows_reopen(rows, head, columns, max_rows, err);
}

/* Forgets the head last read, keeps the memory. */
static void reset(qk_rows *rows)
{
    close_cursors(rows);
    rows->failed = rows->wide = rows->no_examples = false;
    rows->dim = 0;
    rows->total = rows->done = 0;
    free(rows->prints);
    rows->prints = NULL;
}

qk_status qk_rows_reopen(qk_rows **rows, const qk_head *head, unsigned columns,
                         int64_t max_rows, qk_error *err)
{
    QK_NEED(err, rows);
    if (!head)
        qk_rows_close(rows);
    QK_NEED(err, head);
    qk_rows *r = *rows ? *rows : calloc(1, sizeof *r);
    *rows = NULL;
    if (!r)
        return qk__nomem(err);
    size_t old_row_bytes = r->dim * value_bytes(r);
    unsigned old_columns = r->columns;
    bool was_packed = r->packed;
    reset(r);
    r->head = head;
    r->packed = head->parts != NULL;
    r->columns = columns;
    r->prints = qk__calloc(head->num_files, sizeof *r->prints);
    qk_status status = QK_OK;
    if (head->failure)
        status = qk__fail(err, head->failure->status, "%s", head->failure->message);
    else if (head->missing && head->parts)
        status =
            qk__fail(err, QK_ERR_NOT_FOUND,
                     "%s: there are no rows of head %d, but capture.json lists them: fetch it "
                     "again, or capture again",
                     head->files[0], head->id.head);
    else if (head->missing)
        status = qk__fail(err, QK_ERR_NOT_FOUND,
                          "%s: not there, but capture.json lists this head: fetch it again, or "
                          "capture again",
                          head->files[0]);
    else if (head->num_files == 0 && head->moments)
        status =
            qk__fail(err, QK_ERR_NOT_FOUND,
                     "%s: this capture keeps moments and no rows, which this needs: capture "
                     "again with --keep rows",
                     head->moments);
    else if (head->num_files == 0)
        status = qk__fail(err, QK_ERR_NOT_FOUND, "no Parquet files for this head");
    else
        status = r->prints ? open_shards(r, max_rows, err) : qk__nomem(err);
    if (r->dim * value_bytes(r) != old_row_bytes || columns != old_columns ||
        r->packed != was_packed)
        r->capacity = 0; /* the block's arrays no longer fit */
    if (status != QK_OK)
        qk_rows_close(&r);
    *rows = r;
    return status;
}

qk_status qk__rows_file(qk_rows **rows, const qk_head *head, size_t i, const qk_parquet **file,
                        qk_error *err)
{
    qk_rows *r = *rows ? *rows : calloc(1, sizeof *r);
    *file = NULL;
    if (!r)
        return qk__nomem(err);
    *rows = r;
    reset(r);
    r->head = head;
    r->packed = head->parts != NULL;
    r->capacity = 0;
    r->shard = i;
    QK_TRY(open_file(r, err));
    *file = r->file;
    return QK_OK;
}

void qk_rows_close(qk_rows **rows)
{
    assert(rows);
    qk_rows *r = *rows;
    if (!r)
        return;
    close_cursors(r);
    qk_parquet_close(&r->file);
    qk_parquet_close(&r->before);
    free(r->prints);
    free(r->vectors);
    for (int c = 0; c < QK__ROW_COLUMNS; c++) {
        qk__pages_free(&r->spare[c]);
        free(r->ints[c]);
    }
    free(r->valid);
    free(r);
    *rows = NULL;
}

/* ---- blocks ----------------------------------------------------------------------------- */

/* dim is at most MAX_DIM and capacity at most MAX_BLOCK_BYTES, so no product below
 * overflows 64 bits; qk__alloc_aligned checks for narrower size_t. */
static qk_status reserve(qk_rows *rows, size_t capacity, qk_error *err)
{
    if (capacity <= rows->capacity)
        return QK_OK;
    rows->capacity = 0;
    if (wanted(rows, QK__VECTOR)) {
        free(rows->vectors);
        rows->vectors = qk__alloc_aligned(capacity, rows->dim * value_bytes(rows));
        if (!rows->vectors)
            return qk__nomem(err);
    }
    for (int c = QK__POSITION; c < QK__ROW_COLUMNS; c++) {
        if (!wanted(rows, c) && !is_optional(rows, c))
            continue;
        free(rows->ints[c]);
        rows->ints[c] = qk__calloc(capacity, sizeof *rows->ints[c]);
        if (!rows->ints[c])
            return qk__nomem(err);
    }
    if (wanted(rows, QK__WINDOW) || is_optional(rows, QK__EXAMPLE)) {
        free(rows->valid);
        rows->valid = qk__calloc(capacity, 1);
        if (!rows->valid)
            return qk__nomem(err);
    }
    rows->capacity = capacity;
    return QK_OK;
}

/* Statistics that lie would mix heads. */
static qk_status check_heads(const qk_rows *rows, size_t at, size_t count, qk_error *err)
{
    const int64_t *head = rows->ints[QK__HEAD] + at;
    int64_t own = rows->head->id.head, others = 0;
    for (size_t i = 0; i < count; i++)
        others |= head[i] ^ own;
    for (size_t i = 0; others != 0 && i < count; i++)
        if (head[i] != own)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: column 'head': a row of head %lld among those of head %lld, "
                            "which the statistics of its row group do not tell: write the file "
                            "again",
                            file_name(rows), (long long)head[i], (long long)own);
    return QK_OK;
}

/* Rows `at` to `at + count` of column c. */
static qk_status read_column(qk_rows *rows, int c, size_t at, size_t count, qk_error *err)
{
    qk_parquet_cursor *cursor = rows->cursors[c];
    size_t got = 0;
    qk_status status;
    if (c == QK__VECTOR && rows->wide)
        status = qk_parquet_read_f64(cursor, (double *)rows->vectors + at * rows->dim,
                                     rows->dim, count, &got, err);
    else if (c == QK__VECTOR)
        status = qk_parquet_read_f32(cursor, (float *)rows->vectors + at * rows->dim, rows->dim,
                                     count, &got, err);
    else
        status =
            qk_parquet_read_i64(cursor, rows->ints[c] + at,
                                may_be_null(rows, c) ? rows->valid : NULL, count, &got, err);
    QK_TRY(status);
    if (got < count)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: column '%s' ends %zu rows before the %lld of the file",
                        file_name(rows), qk__row_column_name(c), count - got,
                        (long long)part_of(rows).rows);
    for (size_t i = 0; is_optional(rows, c) && i < count; i++)
        if (!rows->valid[i])
            rows->ints[c][at + i] = QK_NO_EXAMPLE;
    return c == QK__HEAD ? check_heads(rows, at, count, err) : QK_OK;
}

static void settle_windows(qk_rows *rows, size_t at, size_t count)
{
    int64_t *window = rows->ints[QK__WINDOW] + at;
    if (!rows->cursors[QK__WINDOW]) {
        memset(window, 0, count * sizeof *window);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!rows->valid[i] || window[i] < 0)
            window[i] = 0;
}

/* At the end of a shard every column must be at its end, too. */
static qk_status check_ends(qk_rows *rows, qk_error *err)
{
    for (int c = 0; c < QK__ROW_COLUMNS; c++) {
        if (!rows->cursors[c])
            continue;
        int64_t value;
        uint8_t valid;
        size_t more = 0;
        if (c == QK__VECTOR)
            QK_TRY(qk_parquet_next_width(rows->cursors[c], &more, err));
        else
            QK_TRY(qk_parquet_read_i64(rows->cursors[c], &value, &valid, 1, &more, err));
        if (more > 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: column '%s' has more rows than the %lld of the file",
                            file_name(rows), qk__row_column_name(c),
                            (long long)part_of(rows).rows);
    }
    return QK_OK;
}

static qk_status fill(qk_rows *rows, size_t count, qk_error *err)
{
    for (size_t at = 0; at < count;) {
        while (rows->shard_left == 0)
            QK_TRY(open_shard(rows, rows->shard + 1, true, err));
        size_t part = count - at;
        if ((uint64_t)rows->shard_left < part)
            part = (size_t)rows->shard_left;
        for (int c = 0; c < QK__ROW_COLUMNS; c++)
            if (rows->cursors[c])
                QK_TRY(read_column(rows, c, at, part, err));
        if (wanted(rows, QK__WINDOW))
            settle_windows(rows, at, part);
        rows->shard_left -= (int64_t)part;
        if (rows->shard_left == 0)
            QK_TRY(check_ends(rows, err));
        at += part;
    }
    return QK_OK;
}

qk_status qk_rows_next(qk_rows *rows, size_t max_rows, qk_block *block, qk_error *err)
{
    QK_NEED(err, rows, block);
    *block = (qk_block){.dim = rows->dim, .first_row = rows->done};
    if (max_rows == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "a block of 0 rows was asked for");
    if (rows->failed)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: read on after an error", file_name(rows));
    size_t row_bytes = wanted(rows, QK__VECTOR) && rows->dim > 0 ? rows->dim * value_bytes(rows)
                                                                 : sizeof(int64_t);
    size_t count = max_rows;
    if (count > MAX_BLOCK_BYTES / row_bytes)
        count = MAX_BLOCK_BYTES / row_bytes;
    if ((uint64_t)(rows->total - rows->done) < count)
        count = (size_t)(rows->total - rows->done);
    if (count == 0)
        return QK_OK;
    qk_status status = reserve(rows, count, err);
    if (status == QK_OK)
        status = fill(rows, count, err);
    if (status != QK_OK) {
        rows->failed = true;
        return status;
    }
    block->rows = count;
    if (wanted(rows, QK__VECTOR)) {
        block->f32 = rows->wide ? NULL : rows->vectors;
        block->f64 = rows->wide ? rows->vectors : NULL;
    }
    /* A column that an earlier head was asked for may still have its memory, and too little. */
    block->position = wanted(rows, QK__POSITION) ? rows->ints[QK__POSITION] : NULL;
    block->bucket = wanted(rows, QK__BUCKET) ? rows->ints[QK__BUCKET] : NULL;
    block->example = wanted(rows, QK__EXAMPLE) ? rows->ints[QK__EXAMPLE] : NULL;
    block->window = wanted(rows, QK__WINDOW) ? rows->ints[QK__WINDOW] : NULL;
    rows->done += (int64_t)count;
    return QK_OK;
}

void qk_rows_detach(qk_rows *rows)
{
    assert(rows);
    if (wanted(rows, QK__VECTOR))
        rows->vectors = NULL;
    for (int c = QK__POSITION; c <= QK__WINDOW; c++)
        if (wanted(rows, c))
            rows->ints[c] = NULL;
    rows->capacity = 0;
}

size_t qk_rows_dim(const qk_rows *rows)
{
    assert(rows);
    return rows->dim;
}

int64_t qk_rows_total(const qk_rows *rows)
{
    assert(rows);
    return rows->total;
}

const qk_file_print *qk_rows_file_print(const qk_rows *rows, size_t i)
{
    assert(rows && i < rows->head->num_files);
    return &rows->prints[i];
}
