/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file, sound or not, through every reading call. */
#define _GNU_SOURCE /* memfd_create */
#include "exercise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "parquet/reader.h"

enum {
    ROWS = 100,
    WIDEST = 300,
    /* Rows read of one column: a few damaged bytes may claim many millions of equal ones. */
    MOST_ROWS = 1 << 17,
};

/* Calls that must agree on nothing but on staying within bounds. */
typedef qk_status read_some(qk__cursor *cursor, size_t *got, qk_error *err);

static qk_status some_strings(qk__cursor *cursor, size_t *got, qk_error *err)
{
    qk__bytes string;
    bool more;
    qk_status status = qk__cursor_read_string(cursor, &string, &more, err);
    /* Touch what was given out. */
    volatile uint8_t sum = 0;
    if (string.size > 0)
        sum = (uint8_t)(sum + string.data[0] + string.data[string.size - 1]);
    *got = more;
    return status;
}

static qk_status some_integers(qk__cursor *cursor, size_t *got, qk_error *err)
{
    int64_t values[ROWS];
    uint8_t valid[ROWS];
    return qk__cursor_read_i64(cursor, values, valid, ROWS, got, err);
}

static qk_status some_sure_integers(qk__cursor *cursor, size_t *got, qk_error *err)
{
    int64_t values[ROWS];
    return qk__cursor_read_i64(cursor, values, NULL, ROWS, got, err);
}

static qk_status some_floats(qk__cursor *cursor, size_t *got, qk_error *err)
{
    static float values[ROWS * WIDEST];
    size_t width;
    *got = 0;
    qk_status status = qk__cursor_next_width(cursor, &width, err);
    if (status != QK_OK || width == 0 || width > WIDEST)
        return status;
    return qk__cursor_read_f32(cursor, values, width, ROWS, got, err);
}

static qk_status some_doubles(qk__cursor *cursor, size_t *got, qk_error *err)
{
    static double values[ROWS * WIDEST];
    size_t width;
    *got = 0;
    qk_status status = qk__cursor_next_width(cursor, &width, err);
    if (status != QK_OK || width == 0 || width > WIDEST)
        return status;
    return qk__cursor_read_f64(cursor, values, width, 7, got, err);
}

/* A failure must come with its code and text. */
static void check_error(qk_status status, const qk_error *err)
{
    if (status == QK_OK || (err->status == status && err->message[0] != 0))
        return;
    fprintf(stderr, "status %d without a message\n", (int)status);
    abort();
}

static bool read_column(const qk_parquet *file, int column, read_some *read)
{
    qk__cursor *cursor;
    qk_error err = {0};
    qk_status status = qk__cursor_open(&cursor, file, column, &err);
    check_error(status, &err);
    if (status != QK_OK)
        return false;
    size_t got = 1;
    for (size_t total = 0; status == QK_OK && got > 0 && total < MOST_ROWS; total += got)
        status = read(cursor, &got, &err);
    check_error(status, &err);
    if (status != QK_OK && read(cursor, &got, &err) == QK_OK) {
        fprintf(stderr, "reading went on after: %s\n", err.message);
        abort();
    }
    qk__cursor_close(&cursor);
    return status == QK_OK;
}

static int exercise(qk_parquet *file)
{
    static read_some *const calls[] = {some_strings, some_integers, some_sure_integers,
                                       some_floats, some_doubles};
    int whole = 0;
    int columns = qk_parquet_num_columns(file) < 64 ? qk_parquet_num_columns(file) : 64;
    for (int i = 0; i < columns; i++) {
        const qk_parquet_column *info = qk_parquet_column_at(file, i);
        if (qk_parquet_find(file, info->path) < 0)
            abort();
        for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
            bool ok = read_column(file, i, calls[c]);
            whole += ok;
        }
    }
    return whole;
}

int exercise_bytes(const uint8_t *data, size_t size)
{
    int fd = memfd_create("parquet", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) {
        perror("memfd");
        exit(2);
    }
    qk_parquet *file;
    qk_error err = {0};
    qk_status status = qk__parquet_open_fd(&file, fd, "memory", &err);
    check_error(status, &err);
    if (status != QK_OK)
        return -1;
    int whole = exercise(file);
    qk_parquet_close(&file);
    return whole;
}
