/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the rows of a head: numbers through qk_rows, tokens beside them. */
#include "recorder/repack.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "capture/capture.h"
#include "parquet/reader.h"

enum { BLOCK_BYTES = 1 << 20, MIN_BLOCK_ROWS = 64 };

/* ---- columns ---------------------------------------------------------------------------- */

static bool is_flat(const qk_parquet_column *column)
{
    return column->max_repetition == 0;
}

static int find_strings(const qk_parquet *file)
{
    int i = qk_parquet_find(file, "token_str");
    const qk_parquet_column *column = i >= 0 ? qk_parquet_column_at(file, i) : NULL;
    return column && column->type == QK_PARQUET_BYTE_ARRAY && is_flat(column) ? i : -1;
}

static void look_at_file(const qk_parquet *file, qk__head_columns *columns)
{
    int vector = qk_parquet_find(file, "vector");
    int example = qk_parquet_find(file, "example_id");
    columns->wide |=
        vector >= 0 && qk_parquet_column_at(file, vector)->type == QK_PARQUET_DOUBLE;
    columns->wide_ids |=
        example >= 0 && qk_parquet_column_at(file, example)->type == QK_PARQUET_INT64;
    columns->examples &= example >= 0;
    columns->buckets &= qk_parquet_find(file, "bucket") >= 0;
    columns->strings |= find_strings(file) >= 0;
}

static unsigned columns_to_read(const qk__head_columns *columns)
{
    return QK_COLUMN_VECTOR | QK_COLUMN_POSITION | QK_COLUMN_WINDOW |
           (columns->buckets ? QK_COLUMN_BUCKET : 0U) |
           (columns->examples ? QK_OPTIONAL_EXAMPLE : 0U);
}

qk_status qk__repack_look(const qk_head *head, qk_rows **rows, qk__head_columns *columns,
                          qk_error *err)
{
    *columns = (qk__head_columns){.examples = true, .buckets = true};
    bool readable = !head->missing && !head->failure; /* else opening it says what is wrong */
    for (size_t i = 0; readable && i < head->num_files; i++) {
        const qk_parquet *file;
        QK_TRY(qk__rows_file(rows, head, i, &file, err));
        look_at_file(file, columns);
    }
    QK_TRY(qk_rows_reopen(rows, head, columns_to_read(columns), 0, err));
    columns->dim = qk_rows_dim(*rows);
    return QK_OK;
}

/* ---- tokens ----------------------------------------------------------------------------- */

/* Column token_str of a head's files, one after the other. */
typedef struct tokens {
    const qk_head *head;
    size_t shard;
    int64_t left; /* rows of it */
    qk_parquet *file;
    qk_parquet_cursor *cursor; /* NULL: the file has none */
    int max_definition;        /* level of a token that is there */
    qk__buffer text;           /* of a block, each with a zero behind it */
    qk_parquet_bytes *values;
    uint8_t *definition;
    size_t *offsets;      /* [capacity] in text; SIZE_MAX = null */
    const char **strings; /* [capacity] */
    size_t capacity;
} tokens;

static void close_file(tokens *t)
{
    qk_parquet_cursor_close(&t->cursor);
    qk_parquet_close(&t->file);
}

static void free_tokens(tokens *t)
{
    close_file(t);
    qk__buffer_free(&t->text);
    free(t->values);
    free(t->definition);
    free(t->offsets);
    free(t->strings);
}

static qk_status open_tokens(tokens *t, const qk_head *head, size_t capacity, qk_error *err)
{
    *t = (tokens){.head = head, .capacity = capacity};
    t->values = qk__calloc(capacity, sizeof *t->values);
    t->definition = qk__calloc(capacity, 1);
    t->offsets = qk__calloc(capacity, sizeof *t->offsets);
    t->strings = qk__calloc(capacity, sizeof *t->strings);
    return t->values && t->definition && t->offsets && t->strings ? QK_OK : qk__nomem(err);
}

static qk_status next_file(tokens *t, qk_error *err)
{
    const qk_head *head = t->head;
    close_file(t);
    if (t->shard == head->num_files)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: column 'token_str' ends too soon",
                        head->files[head->num_files - 1]);
    QK_TRY(qk_parquet_open(&t->file, head->files[t->shard], err));
    int column = find_strings(t->file);
    const qk_head_part *part = head->parts ? &head->parts[t->shard] : NULL;
    t->left = part ? part->rows : qk_parquet_num_rows(t->file);
    t->shard++;
    if (column < 0)
        return QK_OK;
    t->max_definition = qk_parquet_column_at(t->file, column)->max_definition;
    if (!part)
        return qk_parquet_cursor_open(&t->cursor, t->file, column, err);
    return qk__cursor_open_groups(&t->cursor, t->file, column, (size_t)part->first_group,
                                  (size_t)part->num_groups, err);
}

static qk_status keep(tokens *t, const qk_parquet_bytes *value, qk_error *err)
{
    if (memchr(value->data ? (const void *)value->data : "", 0, value->size))
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "%s: column 'token_str': a token with a zero byte in it cannot be kept",
                        t->head->files[t->shard - 1]);
    QK_TRY(qk__buffer_append(&t->text, value->data, value->size, err));
    return qk__buffer_append(&t->text, "", 1, err);
}

/* Some of the next rows, up to `most`, of one file. */
static qk_status read_some(tokens *t, size_t at, size_t most, size_t *got, qk_error *err)
{
    size_t present = most;
    if ((uint64_t)t->left < most)
        most = (size_t)t->left;
    *got = most;
    if (t->cursor)
        QK_TRY(qk_parquet_read_slots(t->cursor, most, t->definition, NULL, t->values, got,
                                     &present, err));
    if (*got == 0)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: column 'token_str' ends too soon",
                        t->head->files[t->shard - 1]);
    for (size_t i = 0, next = 0; i < *got; i++) {
        bool valid =
            t->cursor && (t->max_definition == 0 || t->definition[i] == t->max_definition);
        t->offsets[at + i] = valid ? t->text.size : SIZE_MAX;
        if (valid)
            QK_TRY(keep(t, &t->values[next++], err));
    }
    t->left -= (int64_t)*got;
    return QK_OK;
}

static qk_status read_tokens(tokens *t, size_t rows, qk_error *err)
{
    t->text.size = 0;
    for (size_t at = 0, got; at < rows; at += got) {
        while (t->left == 0)
            QK_TRY(next_file(t, err));
        QK_TRY(read_some(t, at, rows - at, &got, err));
    }
    for (size_t i = 0; i < rows; i++)
        t->strings[i] =
            t->offsets[i] == SIZE_MAX ? NULL : (const char *)t->text.data + t->offsets[i];
    return QK_OK;
}

/* ---- rows ------------------------------------------------------------------------------- */

/* What the head's files lack and its new file has. */
typedef struct filler {
    double *vectors; /* floats as doubles; NULL: not needed */
    int64_t *ids;    /* all null; NULL: not needed */
} filler;

static qk_status fill_rows(filler *f, size_t rows, const qk__head_shape *shape, qk_block *block,
                           qk_error *err)
{
    if (shape->wide && !block->f64) {
        if (!f->vectors && !(f->vectors = qk__calloc(rows, shape->dim * sizeof *f->vectors)))
            return qk__nomem(err);
        for (size_t i = 0; i < block->rows * block->dim; i++)
            f->vectors[i] = block->f32[i];
        block->f64 = f->vectors;
        block->f32 = NULL;
    }
    if (!shape->no_examples && !block->example) {
        if (!f->ids && !(f->ids = qk__calloc(rows, sizeof *f->ids)))
            return qk__nomem(err);
        for (size_t i = 0; i < block->rows; i++)
            f->ids[i] = QK_NO_EXAMPLE;
        block->example = f->ids;
    }
    return QK_OK;
}

static qk_status copy_blocks(qk_rows *rows, size_t capacity, tokens *t,
                             const qk__head_shape *shape, filler *f, qk_head_writer *out,
                             int64_t *count, qk_error *err)
{
    for (;;) {
        qk_block block;
        QK_TRY(qk_rows_next(rows, capacity, &block, err));
        if (block.rows == 0)
            return QK_OK;
        QK_TRY(fill_rows(f, capacity, shape, &block, err));
        if (shape->strings)
            QK_TRY(read_tokens(t, block.rows, err));
        QK_TRY(qk_head_writer_add(out, &block, t->strings, err));
        *count += (int64_t)block.rows;
    }
}

qk_status qk__repack_rows(const qk_head *head, const qk__head_columns *columns,
                          const qk__head_shape *shape, qk_rows **rows, qk_head_writer *out,
                          int64_t *count, qk_error *err)
{
    size_t capacity = BLOCK_BYTES / (shape->dim * sizeof(double));
    if (capacity < MIN_BLOCK_ROWS)
        capacity = MIN_BLOCK_ROWS;
    *count = 0;
    QK_TRY(qk_rows_reopen(rows, head, columns_to_read(columns), 0, err));
    tokens t = {0};
    filler f = {0};
    qk_status status = shape->strings ? open_tokens(&t, head, capacity, err) : QK_OK;
    if (status == QK_OK)
        status = copy_blocks(*rows, capacity, &t, shape, &f, out, count, err);
    free_tokens(&t);
    free(f.vectors);
    free(f.ids);
    return status;
}
