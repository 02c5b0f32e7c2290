/* SPDX-License-Identifier: Apache-2.0 */
/* Parquet tables: one text a row, in a column of strings. */
#include <inttypes.h>
#include <stdio.h>

#include "base/error.h"
#include "parquet/reader.h"
#include "paths/path_kind.h"
#include "recorder/texts.h"

/* the longest id that is shown */
enum { MAX_NAME = 4096 };

typedef struct parquet_reader {
    qk_parquet *file;
    qk__cursor *text, *id; /* id NULL: no such column was asked for */
    const qk__text_columns *columns;
    qk_parquet_type id_type;
    int64_t row; /* from 1 */
    qk__buffer name;
} parquet_reader;

static void close_reader(void *reader)
{
    parquet_reader *r = reader;
    qk__cursor_close(&r->text);
    qk__cursor_close(&r->id);
    qk_parquet_close(&r->file);
    qk__buffer_free(&r->name);
}

enum { LIST_SIZE = 400 };

/* The names of the first columns, quoted. */
static void list_columns(const qk_parquet *file, char list[LIST_SIZE])
{
    enum { MAX_NAMED = 8, MAX_LETTERS = 40 };
    size_t length = 0;
    int count = qk_parquet_num_columns(file);
    *list = 0;
    for (int i = 0; i < count && i < MAX_NAMED; i++)
        length +=
            (size_t)snprintf(list + length, LIST_SIZE - length, "%s\"%.*s\"", i ? ", " : "",
                             MAX_LETTERS, qk_parquet_column_at(file, i)->path);
    if (count > MAX_NAMED)
        snprintf(list + length, LIST_SIZE - length, " and others");
}

static qk_status open_column(parquet_reader *r, const char *name, qk__cursor **cursor,
                             const qk_parquet_column **column, qk_error *err)
{
    int i;
    *column = NULL;
    QK_TRY(qk__parquet_find(r->file, name, &i, err));
    if (i < 0) {
        char list[LIST_SIZE];
        list_columns(r->file, list);
        return qk__fail(err, QK_ERR_NOT_FOUND,
                        "there is no column \"%s\", but %s: name one with %s", name, list,
                        name == r->columns->id ? "--id-column" : "--text-column");
    }
    *column = qk_parquet_column_at(r->file, i);
    if ((*column)->max_repetition > 0)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "column \"%s\": lists", name);
    return qk__cursor_open(cursor, r->file, i, err);
}

static qk_status open_columns(parquet_reader *r, qk_error *err)
{
    const qk_parquet_column *column;
    QK_TRY(open_column(r, r->columns->text, &r->text, &column, err));
    if (column->type != QK_PARQUET_BYTE_ARRAY)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "column \"%s\" does not hold strings",
                        r->columns->text);
    if (!r->columns->id)
        return QK_OK;
    QK_TRY(open_column(r, r->columns->id, &r->id, &column, err));
    r->id_type = column->type;
    if (r->id_type == QK_PARQUET_INT96 || r->id_type == QK_PARQUET_FIXED_LEN_BYTE_ARRAY)
        return qk__fail(err, QK_ERR_UNSUPPORTED, "column \"%s\": an id is a number or a string",
                        r->columns->id);
    return QK_OK;
}

static qk_status open_reader(void *reader, const char *path, const qk__text_columns *columns,
                             qk_error *err)
{
    parquet_reader *r = reader;
    r->columns = columns;
    QK_TRY(qk_parquet_open(&r->file, path, err));
    qk_status status = qk__context(err, open_columns(r, err), "%s", path);
    return status == QK_ERR_NOT_FOUND ? qk__path_tell(path, QK__PATH_TEXTS, status, err)
                                      : status;
}

static qk_status null_id(parquet_reader *r, qk__input_text *text, qk_error *err)
{
    text->id = qk_example_id_of_text("None", 4);
    return qk__buffer_printf(&r->name, err, "None");
}

static qk_status read_id(parquet_reader *r, qk__input_text *text, bool *more, qk_error *err)
{
    qk__bytes bytes;
    size_t rows = 1;
    r->name.size = 0;
    switch (r->id_type) {
    case QK_PARQUET_BYTE_ARRAY:
        QK_TRY(qk__cursor_read_string(r->id, &bytes, more, err));
        if (!bytes.data)
            return null_id(r, text, err);
        text->id = qk_example_id_of_text((const char *)bytes.data, bytes.size);
        return qk__buffer_printf(&r->name, err, "%.*s",
                                 bytes.size < MAX_NAME ? (int)bytes.size : MAX_NAME,
                                 (const char *)bytes.data);
    case QK_PARQUET_FLOAT:
    case QK_PARQUET_DOUBLE: {
        double number = 0;
        QK_TRY(qk__cursor_read_f64(r->id, &number, 1, 1, &rows, err));
        *more = rows > 0;
        text->id = qk_example_id_of_number(number);
        return qk__buffer_printf(&r->name, err, "%.17g", number);
    }
    default: {
        uint8_t valid = 1;
        QK_TRY(qk__cursor_read_i64(r->id, &text->id, &valid, 1, &rows, err));
        *more = rows > 0;
        if (!valid)
            return null_id(r, text, err);
        return qk__buffer_printf(&r->name, err, "%" PRId64, text->id);
    }
    }
}

static qk_status next_text(void *reader, qk__input_text *text, bool *more, qk_error *err)
{
    parquet_reader *r = reader;
    qk__bytes bytes;
    QK_TRY(qk__cursor_read_string(r->text, &bytes, more, err));
    if (!*more)
        return QK_OK;
    text->line = ++r->row;
    if (!bytes.data)
        return qk__fail(err, QK_ERR_INCONSISTENT, "row %" PRId64 ": \"%s\" is null", r->row,
                        r->columns->text);
    text->data = (const char *)bytes.data;
    text->size = bytes.size;
    if (!r->id)
        return QK_OK;
    bool has_id = false;
    QK_TRY(read_id(r, text, &has_id, err));
    if (!has_id)
        return qk__fail(err, QK_ERR_INCONSISTENT, "column \"%s\" ends before row %" PRId64,
                        r->columns->id, r->row);
    text->has_id = true;
    text->name = (const char *)r->name.data;
    return QK_OK;
}

const qk__text_format qk__text_parquet = {sizeof(parquet_reader), open_reader, next_text,
                                          close_reader};
