/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the rows of one head in blocks, the columns in step. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "capture/head_files.h"
#include "capture/seen_rows.h"

/* A block has a limit, so that a request for too many rows does not take all memory. */
static const size_t MAX_BLOCK_BYTES = (size_t)1 << 30;

struct qk_rows {
    qk__head_files files;
    bool failed;           /* the columns may be out of step */
    int64_t from_position; /* rows before it are left out; 0: none are */
    int64_t read;          /* rows of the files */
    int64_t done, most;    /* rows given out, and their limit */
    bool in_order;         /* where repeats are refused: each row follows those of its text */
    qk__seen_rows seen;
    qk__token_strings strings;

    /* the current block */
    size_t capacity; /* in rows */
    void *vectors;
    int64_t *ints[QK__ROW_COLUMNS];
    uint8_t *valid; /* windows may be null */
};

qk_status qk_rows_open(qk_rows **rows, const qk_head *head, unsigned columns, int64_t max_rows,
                       qk_error *err)
{
    QK_NEED(err, rows);
    *rows = NULL;
    QK_NEED(err, head);
    return qk__rows_reopen(rows, head, columns, max_rows, err);
}

/* Memory is kept, also that of the block where it fits. */
static void reset(qk_rows *rows, const qk_head *head, unsigned columns)
{
    qk__head_files_reset(&rows->files, head, columns);
    rows->failed = false;
    rows->from_position = rows->read = rows->done = 0;
    rows->in_order = true;
    qk__token_strings_free(&rows->strings);
}

static bool refuses_repeats(const qk_rows *rows)
{
    return (rows->files.columns & QK_REFUSE_REPEATS) != 0 &&
           qk__wants_column(&rows->files, QK__POSITION) &&
           qk__wants_column(&rows->files, QK__EXAMPLE);
}

qk_status qk__rows_reopen(qk_rows **rows, const qk_head *head, unsigned columns,
                          int64_t max_rows, qk_error *err)
{
    qk_rows *r = *rows ? *rows : calloc(1, sizeof *r);
    *rows = NULL;
    if (!r)
        return qk__nomem(err);
    qk__head_files *files = &r->files;
    size_t old_row_bytes = files->dim * qk__vector_number_bytes(files);
    unsigned old_columns = files->columns;
    bool was_packed = files->packed;
    reset(r, head, columns);
    qk_status status = qk__head_files_open(files, err);
    r->most = max_rows > 0 && max_rows < files->total ? max_rows : files->total;
    if (files->dim * qk__vector_number_bytes(files) != old_row_bytes ||
        columns != old_columns || files->packed != was_packed)
        r->capacity = 0; /* the block's arrays no longer fit */
    if (status == QK_OK && refuses_repeats(r))
        status = qk__seen_rows_start(&r->seen, r->most, err);
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
    reset(r, head, r->files.columns);
    r->capacity = 0;
    QK_TRY(qk__head_files_open_file(&r->files, i, err));
    *file = r->files.file;
    return QK_OK;
}

qk_status qk__rows_skip_below(qk_rows *rows, int64_t position, qk_error *err)
{
    if (!qk__wants_column(&rows->files, QK__POSITION) || rows->read > 0)
        return qk__fail(
            err, QK_ERR_ARGUMENT,
            "positions to skip are told before the first block, of rows that are read "
            "with their positions");
    rows->from_position = position;
    return QK_OK;
}

void qk_rows_close(qk_rows **rows)
{
    assert(rows);
    qk_rows *r = *rows;
    if (!r)
        return;
    qk__head_files_close(&r->files);
    free(r->vectors);
    for (int c = 0; c < QK__ROW_COLUMNS; c++)
        free(r->ints[c]);
    free(r->valid);
    free(r->seen.memory);
    qk__token_strings_free(&r->strings);
    free(r);
    *rows = NULL;
}

/* ---- blocks ----------------------------------------------------------------------------- */

/* dim is at most a few thousand and capacity at most MAX_BLOCK_BYTES, so no product below
 * overflows 64 bits; qk__alloc_aligned checks for narrower size_t. */
static qk_status reserve(qk_rows *rows, size_t capacity, qk_error *err)
{
    if (capacity <= rows->capacity)
        return QK_OK;
    rows->capacity = 0;
    if (qk__wants_column(&rows->files, QK__VECTOR)) {
        free(rows->vectors);
        rows->vectors = qk__alloc_aligned(capacity, rows->files.dim *
                                                        qk__vector_number_bytes(&rows->files));
        if (!rows->vectors)
            return qk__nomem(err);
    }
    for (int c = QK__POSITION; c < QK__ROW_COLUMNS; c++) {
        if (!qk__wants_column(&rows->files, c) && !qk__is_optional_column(&rows->files, c))
            continue;
        free(rows->ints[c]);
        rows->ints[c] = qk__calloc(capacity, sizeof *rows->ints[c]);
        if (!rows->ints[c])
            return qk__nomem(err);
    }
    if (qk__wants_column(&rows->files, QK__WINDOW) ||
        qk__is_optional_column(&rows->files, QK__EXAMPLE)) {
        free(rows->valid);
        rows->valid = qk__calloc(capacity, 1);
        if (!rows->valid)
            return qk__nomem(err);
    }
    rows->capacity = capacity;
    return QK_OK;
}

/* False statistics would mix heads. */
static qk_status check_heads(const qk_rows *rows, size_t at, size_t count, qk_error *err)
{
    const int64_t *head = rows->ints[QK__HEAD] + at;
    int64_t own = rows->files.head->id.head, others = 0;
    for (size_t i = 0; i < count; i++)
        others |= head[i] ^ own;
    for (size_t i = 0; others != 0 && i < count; i++)
        if (head[i] != own)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: column 'head': a row of head %lld among those of head %lld, "
                            "which the statistics of its row group do not tell: write the file "
                            "again",
                            qk__head_file_name(&rows->files), (long long)head[i],
                            (long long)own);
    return QK_OK;
}

static bool may_be_null(const qk_rows *rows, int c)
{
    return c == QK__WINDOW || qk__is_optional_column(&rows->files, c);
}

/* Rows `at` to `at + count` of column c. */
static qk_status read_column(qk_rows *rows, int c, size_t at, size_t count, qk_error *err)
{
    qk__cursor *cursor = rows->files.cursors[c];
    size_t got = 0;
    qk_status status;
    if (c == QK__VECTOR && rows->files.wide)
        status = qk__cursor_read_f64(cursor, (double *)rows->vectors + at * rows->files.dim,
                                     rows->files.dim, count, &got, err);
    else if (c == QK__VECTOR)
        status = qk__cursor_read_f32(cursor, (float *)rows->vectors + at * rows->files.dim,
                                     rows->files.dim, count, &got, err);
    else if (c == QK__TOKEN)
        status = qk__token_strings_read(&rows->strings, cursor, rows->ints[c] + at, count, &got,
                                        err);
    else
        status =
            qk__cursor_read_i64(cursor, rows->ints[c] + at,
                                may_be_null(rows, c) ? rows->valid : NULL, count, &got, err);
    QK_TRY(status);
    if (got < count)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: column '%s' ends %zu rows before the %lld of the file",
                        qk__head_file_name(&rows->files), qk__row_column_name(c), count - got,
                        (long long)qk__head_files_part(&rows->files).rows);
    for (size_t i = 0; qk__is_optional_column(&rows->files, c) && i < count; i++)
        if (!rows->valid[i])
            rows->ints[c][at + i] = QK_NO_EXAMPLE;
    return c == QK__HEAD ? check_heads(rows, at, count, err) : QK_OK;
}

static void settle_windows(qk_rows *rows, size_t at, size_t count)
{
    int64_t *window = rows->ints[QK__WINDOW] + at;
    if (!rows->files.cursors[QK__WINDOW]) {
        memset(window, 0, count * sizeof *window);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (!rows->valid[i] || window[i] < 0)
            window[i] = 0;
}

/* At the end of a file every column must be at its end, too. */
static qk_status check_ends(qk_rows *rows, qk_error *err)
{
    for (int c = 0; c < QK__ROW_COLUMNS; c++) {
        if (!rows->files.cursors[c])
            continue;
        int64_t value;
        uint8_t valid;
        size_t more = 0;
        if (c == QK__TOKEN)
            QK_TRY(qk__token_strings_read(&rows->strings, rows->files.cursors[c], &value, 1,
                                          &more, err));
        else if (c == QK__VECTOR)
            QK_TRY(qk__cursor_next_width(rows->files.cursors[c], &more, err));
        else
            QK_TRY(qk__cursor_read_i64(rows->files.cursors[c], &value, &valid, 1, &more, err));
        if (more > 0)
            return qk__fail(err, QK_ERR_INCONSISTENT,
                            "%s: column '%s' has more rows than the %lld of the file",
                            qk__head_file_name(&rows->files), qk__row_column_name(c),
                            (long long)qk__head_files_part(&rows->files).rows);
    }
    return QK_OK;
}

/* The next rows of the files, as rows `at` to `end` of the block. */
static qk_status read_part(qk_rows *rows, size_t at, size_t end, qk_error *err)
{
    while (at < end) {
        while (rows->files.rows_left == 0)
            QK_TRY(qk__head_files_next(&rows->files, err));
        size_t part = end - at;
        if ((uint64_t)rows->files.rows_left < part)
            part = (size_t)rows->files.rows_left;
        for (int c = 0; c < QK__ROW_COLUMNS; c++)
            if (rows->files.cursors[c])
                QK_TRY(read_column(rows, c, at, part, err));
        if (qk__wants_column(&rows->files, QK__WINDOW))
            settle_windows(rows, at, part);
        if (qk__wants_column(&rows->files, QK__TOKEN) && !rows->files.cursors[QK__TOKEN])
            memset(rows->ints[QK__TOKEN] + at, 0xff, part * sizeof(int64_t)); /* -1 */
        rows->files.rows_left -= (int64_t)part;
        if (rows->files.rows_left == 0)
            QK_TRY(check_ends(rows, err));
        at += part;
        rows->read += (int64_t)part;
    }
    return QK_OK;
}

static void move_row(qk_rows *rows, size_t from, size_t to)
{
    size_t row_bytes = rows->files.dim * qk__vector_number_bytes(&rows->files);
    char *vectors = rows->vectors;
    if (qk__wants_column(&rows->files, QK__VECTOR))
        memcpy(vectors + to * row_bytes, vectors + from * row_bytes, row_bytes);
    for (int c = QK__POSITION; c < QK__HEAD; c++)
        if (qk__wants_column(&rows->files, c))
            rows->ints[c][to] = rows->ints[c][from];
}

/* Moves the remaining rows of `at` to `end` of the block up; *at is then behind them. */
static void drop_rows(qk_rows *rows, size_t *at, size_t end)
{
    const int64_t *position = rows->ints[QK__POSITION];
    size_t kept = *at;
    for (size_t i = *at; i < end; i++)
        if (position[i] >= rows->from_position) {
            if (i > kept)
                move_row(rows, i, kept);
            kept++;
        }
    *at = kept;
}

/* Up to `count` rows. Blocks are as full as those of files without the rows left out, so that sums by blocks have the
 * same bytes. */
static qk_status fill_block(qk_rows *rows, size_t count, size_t *filled, qk_error *err)
{
    *filled = 0;
    while (*filled < count && rows->read < rows->files.total) {
        size_t end = count;
        if ((uint64_t)(rows->files.total - rows->read) < end - *filled)
            end = *filled + (size_t)(rows->files.total - rows->read);
        QK_TRY(read_part(rows, *filled, end, err));
        if (rows->from_position > 0)
            drop_rows(rows, filled, end);
        else
            *filled = end;
    }
    return QK_OK;
}

/* ---- repeats ---------------------------------------------------------------------------- */

/* Rows of the head that are read again. */
typedef struct again {
    int64_t most, rows;
    qk__seen_rows *seen;
    int64_t repeated;
    int64_t example, position, times; /* what is looked for, and how often it is there */
    const char *file[2];              /* of the first two */
} again;

static void see_block(again *a, const qk_block *block, const char *file)
{
    if (!block->example || !block->position)
        return;
    for (size_t i = 0; i < block->rows && a->rows < a->most; i++, a->rows++) {
        const int64_t example = block->example[i], position = block->position[i];
        if (example == QK_NO_EXAMPLE)
            continue;
        a->repeated += qk__seen_rows_add(a->seen, example, position);
        if (example == a->example && position == a->position && a->times++ < 2)
            a->file[a->times - 1] = file;
    }
}

static qk_status read_again(const qk_rows *rows, again *a, qk_error *err)
{
    enum { BLOCK_ROWS = 4096 };
    qk_head head = *rows->files.head;
    qk_status status = qk__seen_rows_start(a->seen, rows->most, err);
    head.num_files = 1;
    head.rows = 0; /* capture.json has the number of all files */
    for (size_t i = 0; i < rows->files.head->num_files && status == QK_OK; i++) {
        qk_rows *reader;
        qk_block block = {.rows = 1};
        head.files = rows->files.head->files + i;
        head.parts = rows->files.head->parts ? rows->files.head->parts + i : NULL;
        status = qk_rows_open(&reader, &head, QK_COLUMN_POSITION | QK_OPTIONAL_EXAMPLE, 0, err);
        if (status == QK_OK)
            status = qk__rows_skip_below(reader, rows->from_position, err);
        while (status == QK_OK && block.rows > 0 && a->rows < a->most) {
            status = qk_rows_next(reader, BLOCK_ROWS, &block, err);
            see_block(a, &block, head.files[0]);
        }
        qk_rows_close(&reader);
    }
    return status;
}

/* Checks a row that seems to repeat another one. */
static qk_status confirm(const qk_rows *rows, int64_t example, int64_t position, qk_error *err)
{
    qk__seen_rows seen = {0};
    again a = {.most = rows->most, .seen = &seen, .example = example, .position = position};
    qk_status status = read_again(rows, &a, err);
    free(seen.memory);
    if (status != QK_OK || a.times < 2)
        return status;
    const bool apart = a.file[0] != a.file[1];
    return qk__fail(err, QK_ERR_INCONSISTENT,
                    "%s%s%s: text %lld has position %lld %lld times; %lld of the head's %lld "
                    "rows repeat a text and position: remove them, or --allow-repeats",
                    a.file[0], apart ? " and " : "", apart ? a.file[1] : "", (long long)example,
                    (long long)position, (long long)a.times, (long long)a.repeated,
                    (long long)a.rows);
}

static qk_status check_repeats(qk_rows *rows, size_t count, qk_error *err)
{
    const int64_t *example = rows->ints[QK__EXAMPLE], *position = rows->ints[QK__POSITION];
    for (size_t i = 0; i < count; i++) {
        if (example[i] == QK_NO_EXAMPLE ||
            (rows->in_order && qk__seen_rows_follow(&rows->seen, example[i], position[i])))
            continue;
        if (rows->in_order) {
            again a = {.most = rows->done + (int64_t)i, .seen = &rows->seen};
            rows->in_order = false;
            QK_TRY(read_again(rows, &a, err));
        }
        if (qk__seen_rows_add(&rows->seen, example[i], position[i]))
            QK_TRY(confirm(rows, example[i], position[i], err));
    }
    return QK_OK;
}

qk_status qk_rows_next(qk_rows *rows, size_t max_rows, qk_block *block, qk_error *err)
{
    QK_NEED(err, rows, block);
    *block = (qk_block){.dim = rows->files.dim, .first_row = rows->done};
    if (max_rows == 0)
        return qk__fail(err, QK_ERR_ARGUMENT, "a block of 0 rows was asked for");
    if (rows->failed)
        return qk__fail(err, QK_ERR_ARGUMENT, "%s: read on after an error",
                        qk__head_file_name(&rows->files));
    size_t row_bytes = qk__wants_column(&rows->files, QK__VECTOR) && rows->files.dim > 0
                           ? rows->files.dim * qk__vector_number_bytes(&rows->files)
                           : sizeof(int64_t);
    size_t count = max_rows;
    if (count > MAX_BLOCK_BYTES / row_bytes)
        count = MAX_BLOCK_BYTES / row_bytes;
    if ((uint64_t)(rows->most - rows->done) < count)
        count = (size_t)(rows->most - rows->done);
    if ((uint64_t)(rows->files.total - rows->read) < count)
        count = (size_t)(rows->files.total - rows->read);
    if (count == 0)
        return QK_OK;
    qk_status status = reserve(rows, count, err);
    if (status == QK_OK)
        status = fill_block(rows, count, &block->rows, err);
    if (status == QK_OK && refuses_repeats(rows))
        status = check_repeats(rows, block->rows, err);
    if (status != QK_OK) {
        rows->failed = true;
        block->rows = 0;
        return status;
    }
    if (block->rows == 0)
        return QK_OK;
    if (qk__wants_column(&rows->files, QK__VECTOR)) {
        block->f32 = rows->files.wide ? NULL : rows->vectors;
        block->f64 = rows->files.wide ? rows->vectors : NULL;
    }
    /* A column of an earlier head may still have its memory, and too little. */
    block->position =
        qk__wants_column(&rows->files, QK__POSITION) ? rows->ints[QK__POSITION] : NULL;
    block->bucket = qk__wants_column(&rows->files, QK__BUCKET) ? rows->ints[QK__BUCKET] : NULL;
    block->example =
        qk__wants_column(&rows->files, QK__EXAMPLE) ? rows->ints[QK__EXAMPLE] : NULL;
    block->window = qk__wants_column(&rows->files, QK__WINDOW) ? rows->ints[QK__WINDOW] : NULL;
    rows->done += (int64_t)block->rows;
    return QK_OK;
}

void qk_rows_detach(qk_rows *rows)
{
    assert(rows);
    if (qk__wants_column(&rows->files, QK__VECTOR))
        rows->vectors = NULL;
    for (int c = QK__POSITION; c < QK__HEAD; c++)
        if (qk__wants_column(&rows->files, c))
            rows->ints[c] = NULL;
    rows->capacity = 0;
}

size_t qk_rows_dim(const qk_rows *rows)
{
    assert(rows);
    return rows->files.dim;
}

int64_t qk_rows_total(const qk_rows *rows)
{
    assert(rows);
    return rows->most;
}

const qk__file_print *qk__rows_file_print(const qk_rows *rows, size_t i)
{
    assert(rows && i < rows->files.head->num_files);
    return &rows->files.prints[i];
}

const int64_t *qk__rows_tokens(const qk_rows *rows)
{
    return qk__wants_column(&rows->files, QK__TOKEN) ? rows->ints[QK__TOKEN] : NULL;
}

const char *qk__rows_token_text(const qk_rows *rows, int64_t number)
{
    return qk__token_text(&rows->strings, (size_t)number);
}

qk__token_strings qk__rows_take_strings(qk_rows *rows)
{
    qk__token_strings taken = rows->strings;
    rows->strings = (qk__token_strings){0};
    return taken;
}
