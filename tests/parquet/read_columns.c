/* SPDX-License-Identifier: Apache-2.0 */
/* Prints each column of a Parquet file as it is read, row by row, for oracle.py:
 *
 *     read_columns FILE
 *
 * "column PATH", then a line a row: an integer, "x" and the bytes of a string in hexadecimal, or the numbers of a vector
 * with blanks between; "-" is a null. The last line is "end", or "error" and its message. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "parquet/reader.h"

/* One row; false at the end. */
typedef qk_status print_row(qk__cursor *cursor, bool *more, qk_error *err);

static qk_status print_integer(qk__cursor *cursor, bool *more, qk_error *err)
{
    int64_t value;
    uint8_t valid;
    size_t rows;
    qk_status status = qk__cursor_read_i64(cursor, &value, &valid, 1, &rows, err);
    *more = rows > 0;
    if (*more && valid)
        printf("%" PRId64 "\n", value);
    else if (*more)
        puts("-");
    return status;
}

static qk_status print_string(qk__cursor *cursor, bool *more, qk_error *err)
{
    qk__bytes string;
    qk_status status = qk__cursor_read_string(cursor, &string, more, err);
    if (*more && !string.data)
        puts("-");
    else if (*more) {
        putchar('x');
        for (size_t i = 0; i < string.size; i++)
            printf("%02x", string.data[i]);
        putchar('\n');
    }
    return status;
}

static qk_status print_vector(qk__cursor *cursor, bool *more, qk_error *err)
{
    size_t width, rows = 0;
    *more = false;
    qk_status status = qk__cursor_next_width(cursor, &width, err);
    width = width > 0 ? width : 1; /* the end, or a row without values */
    double *values = calloc(width, sizeof *values);
    if (!values)
        abort();
    if (status == QK_OK)
        status = qk__cursor_read_f64(cursor, values, width, 1, &rows, err);
    *more = rows > 0;
    for (size_t i = 0; *more && i < width; i++)
        printf("%a%c", values[i], i + 1 < width ? ' ' : '\n');
    free(values);
    return status;
}

static print_row *choose(const qk_parquet_column *column)
{
    bool real = column->type == QK_PARQUET_FLOAT || column->type == QK_PARQUET_DOUBLE ||
                column->logical == QK_PARQUET_FLOAT16;
    return column->type == QK_PARQUET_BYTE_ARRAY ? print_string
           : real || column->max_repetition > 0  ? print_vector
                                                 : print_integer;
}

static void print_column(const qk_parquet *file, int i)
{
    qk__cursor *cursor;
    qk_error err = {0};
    const qk_parquet_column *column = qk_parquet_column_at(file, i);
    printf("column %s\n", column->path);
    bool more = true;
    qk_status status = qk__cursor_open(&cursor, file, i, &err);
    while (status == QK_OK && more)
        status = choose(column)(cursor, &more, &err);
    if (status == QK_OK)
        puts("end");
    else
        printf("error %s\n", err.message);
    qk__cursor_close(&cursor);
}

int main(int argc, char **argv)
{
    qk_parquet *file;
    qk_error err;
    if (argc != 2)
        return 2;
    if (qk_parquet_open(&file, argv[1], &err) != QK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int i = 0; i < qk_parquet_num_columns(file); i++)
        print_column(file, i);
    qk_parquet_close(&file);
    return 0;
}
