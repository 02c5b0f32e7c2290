/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a Parquet file: rows in, buffered column by column up to one row group. */
#include "parquet/writer.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "parquet/format.h"

enum {
    MAX_STRING_BYTES = 1 << 30, /* page sizes are int32 */
    GROUP_ROWS = 65536,
    MAX_VECTOR_WIDTH = 1 << 24,
};

struct qk__parquet_writer {
    char *path;
    size_t group_rows;
    qk__column_buffer *columns;
    size_t num_columns;
    size_t rows; /* buffered */
    qk__group_info *groups;
    size_t num_groups;
    size_t groups_capacity;
    qk__chunk_writer chunk;
    qk_status failed; /* a write that failed: the file is past saving */
};

static qk_status check_fields(const qk__field *fields, size_t num_fields, qk_error *err)
{
    for (size_t i = 0; i < num_fields; i++) {
        if (fields[i].kind != QK__FIELD_VECTOR)
            continue;
        if (fields[i].width == 0 || fields[i].width > MAX_VECTOR_WIDTH)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "field %s: vectors of %zu values: give 1 to %d", fields[i].name,
                            fields[i].width, MAX_VECTOR_WIDTH);
    }
    return QK_OK;
}

static qk_status init_columns(qk__parquet_writer *writer, const qk__field *fields,
                              qk_error *err)
{
    static const size_t value_sizes[] = {[QK__FIELD_INT32] = 4,
                                         [QK__FIELD_INT64] = 8,
                                         [QK__FIELD_STRING] = 0,
                                         [QK__FIELD_VECTOR] = 4};
    for (size_t i = 0; i < writer->num_columns; i++) {
        qk__column_buffer *column = &writer->columns[i];
        column->kind = fields[i].kind;
        column->width = column->kind == QK__FIELD_VECTOR ? fields[i].width : 1;
        column->value_size = value_sizes[fields[i].kind];
        column->name = qk__strdup(fields[i].name);
        if (!column->name)
            return qk__nomem(err);
    }
    return QK_OK;
}

qk_status qk__parquet_writer_open(qk__parquet_writer **writer, const char *path,
                                  const qk__field *fields, size_t num_fields, size_t group_rows,
                                  qk_error *err)
{
    *writer = NULL;
    qk__parquet_writer *w = calloc(1, sizeof *w);
    if (!w)
        return qk__nomem(err);
    w->group_rows = group_rows ? group_rows : GROUP_ROWS;
    w->num_columns = num_fields;
    w->columns = qk__calloc(num_fields, sizeof *w->columns);
    w->path = qk__strdup(path);
    qk_status status = check_fields(fields, num_fields, err);
    if (status == QK_OK && (!w->columns || !w->path))
        status = qk__nomem(err);
    if (status == QK_OK)
        status = init_columns(w, fields, err);
    if (status == QK_OK)
        status = qk__outfile_open(&w->chunk.out, path, err);
    if (status == QK_OK)
        status = qk__outfile_write(w->chunk.out, QK_PARQUET_MAGIC, 4, err);
    if (status != QK_OK)
        qk__parquet_writer_abort(&w);
    *writer = w;
    return status;
}

void qk__parquet_writer_abort(qk__parquet_writer **writer)
{
    qk__parquet_writer *w = *writer;
    if (!w)
        return;
    qk__outfile_discard(&w->chunk.out);
    qk__chunk_writer_free(&w->chunk);
    for (size_t i = 0; w->columns && i < w->num_columns; i++) {
        qk__column_buffer *column = &w->columns[i];
        free(column->name);
        qk__buffer_free(&column->values);
        qk__buffer_free(&column->lengths);
        qk__buffer_free(&column->valid);
    }
    for (size_t i = 0; i < w->num_groups; i++)
        free(w->groups[i].chunks);
    free(w->groups);
    free(w->columns);
    free(w->path);
    free(w);
    *writer = NULL;
}

/* ---- gathering rows --------------------------------------------------------------------- */

static bool is_valid(const qk__field_values *values, qk__field_kind kind, size_t row)
{
    if (values->valid && !values->valid[row])
        return false;
    return kind != QK__FIELD_STRING || values->strings[row];
}

/* Everything that can be wrong with the rows is found before any is taken over. */
static qk_status check_values(const qk__column_buffer *column, const qk__field_values *values,
                              size_t rows, qk_error *err)
{
    const void *given = column->kind == QK__FIELD_VECTOR   ? (const void *)values->f32
                        : column->kind == QK__FIELD_STRING ? (const void *)values->strings
                                                           : (const void *)values->i64;
    if (!given)
        return qk__fail(err, QK_ERR_ARGUMENT, "column %s: no values given", column->name);
    for (size_t i = 0; i < rows; i++) {
        if (column->kind == QK__FIELD_INT32 && is_valid(values, column->kind, i) &&
            (values->i64[i] < INT32_MIN || values->i64[i] > INT32_MAX))
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "column %s: %lld in row %zu of those added does not fit int32",
                            column->name, (long long)values->i64[i], i);
        if (column->kind == QK__FIELD_STRING && is_valid(values, column->kind, i) &&
            strlen(values->strings[i]) >= MAX_STRING_BYTES)
            return qk__fail(err, QK_ERR_ARGUMENT,
                            "column %s: string of %zu bytes in row %zu of those added",
                            column->name, strlen(values->strings[i]), i);
    }
    return QK_OK;
}

static qk_status append_value(qk__column_buffer *column, const qk__field_values *values,
                              size_t row, qk_error *err)
{
    if (column->kind == QK__FIELD_STRING) {
        uint32_t length = (uint32_t)strlen(values->strings[row]);
        QK_TRY(qk__buffer_append(&column->lengths, &length, sizeof length, err));
        return qk__buffer_append(&column->values, values->strings[row], length, err);
    }
    /* The low bytes come first: these 4 of 8 are the INT32. */
    return qk__buffer_append(&column->values, &values->i64[row], column->value_size, err);
}

static qk_status append_rows(qk__column_buffer *column, const qk__field_values *values,
                             size_t first, size_t rows, qk_error *err)
{
    if (column->kind == QK__FIELD_VECTOR) {
        size_t row_bytes = column->width * column->value_size;
        const uint8_t *vectors = (const uint8_t *)values->f32;
        column->present += rows * column->width;
        return qk__buffer_append(&column->values, vectors + first * row_bytes, rows * row_bytes,
                                 err);
    }
    for (size_t i = first; i < first + rows; i++) {
        uint8_t valid = is_valid(values, column->kind, i);
        QK_TRY(qk__buffer_append(&column->valid, &valid, 1, err));
        column->present += valid;
        column->nulls += !valid;
        if (valid)
            QK_TRY(append_value(column, values, i, err));
    }
    return QK_OK;
}

static qk_status add_group(qk__parquet_writer *writer, qk_error *err)
{
    if (writer->num_groups == writer->groups_capacity) {
        qk__group_info *groups =
            qk__grow(writer->groups, &writer->groups_capacity, sizeof *groups);
        if (!groups)
            return qk__nomem(err);
        writer->groups = groups;
    }
    qk__group_info *group = &writer->groups[writer->num_groups];
    group->rows = (int64_t)writer->rows;
    group->offset = qk__outfile_size(writer->chunk.out);
    group->chunks = qk__calloc(writer->num_columns, sizeof *group->chunks);
    if (!group->chunks)
        return qk__nomem(err);
    writer->num_groups++;
    return QK_OK;
}

static void clear_columns(qk__parquet_writer *writer)
{
    for (size_t i = 0; i < writer->num_columns; i++) {
        qk__column_buffer *column = &writer->columns[i];
        column->values.size = column->lengths.size = column->valid.size = 0;
        column->present = column->nulls = 0;
    }
    writer->rows = 0;
}

static qk_status write_group(qk__parquet_writer *writer, qk_error *err)
{
    QK_TRY(add_group(writer, err));
    qk__group_info *group = &writer->groups[writer->num_groups - 1];
    for (size_t i = 0; i < writer->num_columns; i++) {
        qk__column_buffer *column = &writer->columns[i];
        QK_TRY(qk__chunk_write(&writer->chunk, column, writer->rows, &group->chunks[i], err));
    }
    clear_columns(writer);
    return QK_OK;
}

/* Failures of the system name the file already. */
static qk_status name_file(const qk__parquet_writer *writer, qk_status status, qk_error *err)
{
    if (err && strncmp(err->message, writer->path, strlen(writer->path)) == 0)
        return status;
    return qk__context(err, status, "%s", writer->path);
}

static qk_status add_rows(qk__parquet_writer *writer, const qk__field_values *values,
                          size_t rows, qk_error *err)
{
    for (size_t done = 0; done < rows;) {
        size_t room = writer->group_rows - writer->rows;
        size_t n = rows - done < room ? rows - done : room;
        for (size_t i = 0; i < writer->num_columns; i++)
            QK_TRY(append_rows(&writer->columns[i], &values[i], done, n, err));
        writer->rows += n;
        done += n;
        if (writer->rows == writer->group_rows)
            QK_TRY(write_group(writer, err));
    }
    return QK_OK;
}

qk_status qk__parquet_writer_add(qk__parquet_writer *writer, const qk__field_values *values,
                                 size_t rows, qk_error *err)
{
    qk_status status = QK_OK;
    if (writer->failed != QK_OK)
        return qk__fail(err, writer->failed, "%s: writing failed before", writer->path);
    for (size_t i = 0; rows > 0 && status == QK_OK && i < writer->num_columns; i++)
        status = check_values(&writer->columns[i], &values[i], rows, err);
    if (status == QK_OK)
        status = writer->failed = add_rows(writer, values, rows, err);
    return status == QK_OK ? QK_OK : name_file(writer, status, err);
}

qk_status qk__parquet_writer_cut(qk__parquet_writer *writer, qk_error *err)
{
    if (writer->failed == QK_OK && writer->rows > 0)
        writer->failed = write_group(writer, err);
    return writer->failed == QK_OK ? QK_OK : name_file(writer, writer->failed, err);
}

size_t qk__parquet_writer_drop(qk__parquet_writer *writer)
{
    size_t rows = writer->rows;
    clear_columns(writer);
    return rows;
}

/* ---- the end ---------------------------------------------------------------------------- */

static qk_status write_footer(qk__parquet_writer *writer, qk_error *err)
{
    qk__buffer *footer = &writer->chunk.body;
    footer->size = 0;
    QK_TRY(qk__footer_encode(footer, writer->columns, writer->num_columns, writer->groups,
                             writer->num_groups, err));
    if (footer->size > INT32_MAX)
        return qk__fail(err, QK_ERR_UNSUPPORTED,
                        "footer of %zu bytes: choose larger row groups", footer->size);
    uint32_t size = (uint32_t)footer->size;
    QK_TRY(qk__buffer_append(footer, &size, sizeof size, err));
    QK_TRY(qk__buffer_append(footer, QK_PARQUET_MAGIC, 4, err));
    return qk__outfile_write(writer->chunk.out, footer->data, footer->size, err);
}

qk_status qk__parquet_writer_finish(qk__parquet_writer **writer, qk_error *err)
{
    qk__parquet_writer *w = *writer;
    qk_status status = QK_OK;
    if (w->failed != QK_OK)
        status = qk__fail(err, w->failed, "writing failed before");
    if (status == QK_OK && w->rows > 0)
        status = write_group(w, err);
    if (status == QK_OK)
        status = write_footer(w, err);
    if (status == QK_OK)
        status = qk__outfile_commit(&w->chunk.out, err);
    if (status != QK_OK)
        name_file(w, status, err);
    qk__parquet_writer_abort(writer);
    return status;
}
