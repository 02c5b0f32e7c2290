/* SPDX-License-Identifier: Apache-2.0 */
/* The columns that rows are read from: their names, and their types in a file. */
#include "capture/row_columns.h"

#include <string.h>

#include "base/error.h"
#include "parquet/format.h"
#include "parquet/reader.h"

static const char *const NAMES[QK__ROW_COLUMNS] = {
    [QK__VECTOR] = "vector",      [QK__POSITION] = "position",     [QK__BUCKET] = "bucket",
    [QK__EXAMPLE] = "example_id", [QK__WINDOW] = "sliding_window", [QK__HEAD] = "head",
    [QK__TOKEN] = "token_str",
};

const char *qk__row_column_name(int c)
{
    return NAMES[c];
}

static const char *type_name(const qk_parquet_column *column)
{
    switch (column->logical) {
    case QK_PARQUET_STRING:
        return "STRING";
    case QK_PARQUET_FLOAT16:
        return "FLOAT16";
    case QK_PARQUET_NULL:
        return "nulls only";
    case QK_PARQUET_PLAIN_TYPE:
        break;
    }
    return qk__parquet_type_name(column->type);
}

static qk_status fail_type(const qk_parquet *file, int c, const qk_parquet_column *column,
                           const char *expected, qk_error *err)
{
    return qk__fail(
        err, QK_ERR_INCONSISTENT, "%s: column '%s': expected %s, found %s%s%s", file->path,
        NAMES[c], expected, column->max_repetition > 0 ? "a list of " : "", type_name(column),
        column->type == QK_PARQUET_FLOAT || column->type == QK_PARQUET_DOUBLE
            ? ": cast it to INT64"
        : c == QK__EXAMPLE ? "; number the texts ('qkscope capture' hashes their ids)"
                           : "");
}

static qk_status check_vector(const qk_parquet *file, const qk_parquet_column *column,
                              qk_error *err)
{
    bool number = column->type == QK_PARQUET_FLOAT || column->type == QK_PARQUET_DOUBLE ||
                  column->logical == QK_PARQUET_FLOAT16;
    if (!number || column->logical == QK_PARQUET_NULL || column->max_repetition != 1)
        return fail_type(file, QK__VECTOR, column, "a list of FLOAT, DOUBLE or FLOAT16", err);
    /* A list of structs has a leaf for each of their fields. */
    int leaves = 0;
    for (int i = 0; i < qk_parquet_num_columns(file); i++)
        leaves += strncmp(qk_parquet_column_at(file, i)->path, "vector.", 7) == 0;
    if (leaves > 1)
        return qk__fail(err, QK_ERR_INCONSISTENT,
                        "%s: column 'vector': expected a list of numbers, found a structure of "
                        "%d columns",
                        file->path, leaves);
    return QK_OK;
}

static bool is_integer(const qk_parquet_column *column)
{
    return (column->type == QK_PARQUET_INT32 || column->type == QK_PARQUET_INT64) &&
           column->logical == QK_PARQUET_PLAIN_TYPE && column->max_repetition == 0;
}

/* In an encoding that the reader knows: no analysis needs the strings enough to fail for them. */
static bool holds_strings(const qk_parquet_column *column)
{
    return column->type == QK_PARQUET_BYTE_ARRAY && column->max_repetition == 0 &&
           (column->encodings & 1U << ENC_DELTA_BYTE_ARRAY) == 0;
}

qk_status qk__row_column_find(const qk_parquet *file, int c, bool optional, int *index,
                              qk_error *err)
{
    QK_TRY(qk__context(err, qk__parquet_find(file, NAMES[c], index, err), "%s", file->path));
    if (*index < 0 && (c == QK__WINDOW || c == QK__TOKEN || optional))
        return QK_OK;
    if (*index < 0)
        return qk__fail(err, QK_ERR_INCONSISTENT, "%s: no column '%s'", file->path, NAMES[c]);
    const qk_parquet_column *column = qk_parquet_column_at(file, *index);
    if (c == QK__VECTOR)
        return check_vector(file, column, err);
    if ((c == QK__TOKEN && !holds_strings(column)) || (optional && !is_integer(column)) ||
        (c == QK__WINDOW && column->logical == QK_PARQUET_NULL)) {
        *index = -1;
        return QK_OK;
    }
    if (c == QK__TOKEN)
        return QK_OK;
    bool real = c == QK__WINDOW && column->max_repetition == 0 &&
                (column->type == QK_PARQUET_FLOAT || column->type == QK_PARQUET_DOUBLE);
    if (!real && !is_integer(column))
        return fail_type(file, c, column,
                         c == QK__WINDOW ? "INT32, INT64, FLOAT or DOUBLE" : "INT32 or INT64",
                         err);
    return QK_OK;
}
