/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a Parquet file column by column: the subset that captures and texts use.
 *
 *     qk_parquet *file;
 *     qk__cursor *cursor;
 *     qk_parquet_open(&file, "l00h00q/data.parquet", &err);
 *     qk__parquet_find(file, "vector", &column, &err);
 *     qk__cursor_open(&cursor, file, column, &err);
 *     do
 *         qk__cursor_read_f32(cursor, block, d, 256, &rows, &err);
 *     while (rows > 0);
 *
 * A cursor streams one leaf column through every row group. It holds one page at a time (plus the chunk's dictionary), so
 * memory follows the page size, not the file size. Columns that are not asked for are not read.
 *
 * Data pages v1 and v2; PLAIN, RLE, PLAIN_DICTIONARY, RLE_DICTIONARY, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY,
 * BYTE_STREAM_SPLIT; uncompressed, Snappy, gzip, zstd, LZ4_RAW, Hadoop LZ4, Brotli; page CRCs are checked when
 * present. Anything else fails with QK_ERR_UNSUPPORTED naming the feature. Sizes found in a file are checked against the
 * file before memory is taken, and a small file may not become large without end: the limits are in docs/dev/parquet.md, and
 * what is over one fails with QK_ERR_UNSUPPORTED and the words "over the limit".
 *
 * read_rows.c has the calls that read rows. The inside of a file handle (reader.c) and of a cursor (cursor.c) is for the files that make up the reader. */
#ifndef QK_PARQUET_READER_H
#define QK_PARQUET_READER_H

#include <qkscope/parquet.h>

#include "base/buffer.h"
#include "base/fingerprint.h"
#include "parquet/metadata.h"
#include "parquet/pages.h"
#include "parquet/source.h"
#include "parquet/values.h"

struct qk_parquet {
    qk__source source;
    char *path;     /* for messages */
    int64_t footer; /* offset at which column data must have ended */
    qk__metadata metadata;
};

/* qk_parquet_open for a descriptor, which the handle takes over (also on failure); name
 * stands for the path in messages. */
QK_MUST_CHECK qk_status qk__parquet_open_fd(qk_parquet **file, int fd, const char *name,
                                            qk_error *err);

/* As qk_parquet_find, but QK_ERR_INCONSISTENT where several columns have the name. The message does not name the file. */
QK_MUST_CHECK qk_status qk__parquet_find(const qk_parquet *file, const char *name, int *index,
                                         qk_error *err);

/* Fingerprint of the whole file, to see whether it changed. */
QK_MUST_CHECK qk_status qk__parquet_fingerprint(const qk_parquet *file,
                                                char hash[QK__FINGERPRINT_SIZE], qk_error *err);

/* A cursor is always at a slot: the next one of the current page, or the first one of the
 * page that follows. */
typedef struct qk__cursor {
    const qk_parquet *file;
    const qk__leaf *leaf;
    size_t column;
    qk__value_type type;
    const qk__parquet_kernel *kernel;
    bool failed;

    size_t group;         /* current row group; end_group at the end */
    size_t end_group;     /* after the last one to read */
    bool in_group;        /* its chunk has been started */
    int64_t group_rows;   /* rows of it begun so far */
    int64_t row;          /* of the file: the next to begin */
    int64_t end_row;      /* of the file: after the last one to read */
    int64_t slots_beyond; /* slots of the chunk in pages not yet reached */

    qk__pages pages;
    qk__parquet_page page;
    size_t slots; /* left in the current page */
    qk__rle definition, repetition;
    qk__values values;
    qk__value_dictionary dictionary;
} qk__cursor;

/* Starts at the first row of a column. Fails for types outside the subset
 * (INT96, a nested column deeper than 255 levels) and for more values than a file of
 * this size may hold with QK_ERR_UNSUPPORTED. */
QK_MUST_CHECK qk_status qk__cursor_open(qk__cursor **cursor, const qk_parquet *file, int column,
                                        qk_error *err);
void qk__cursor_close(qk__cursor **cursor);

/* Reads up to max_rows rows of a column with one integer (or boolean) a row.
 * values[i] is 0 and valid[i] is 0 where the row is null; with valid == NULL a
 * null is QK_ERR_INCONSISTENT. *rows is 0 at the end of the column, else as many
 * as asked for unless the column ends first. A column of Null type reads as all null
 * whatever its physical type. With `valid`, FLOAT and DOUBLE are read, too: NaN as null, what
 * is not a whole number as QK_ERR_INCONSISTENT. */
QK_MUST_CHECK qk_status qk__cursor_read_i64(qk__cursor *cursor, int64_t *values, uint8_t *valid,
                                            size_t max_rows, size_t *rows, qk_error *err);

/* Number of values in the row that is read next, without consuming it: the head
 * dimension of a vector column. 0 at the end of the column. */
QK_MUST_CHECK qk_status qk__cursor_next_width(qk__cursor *cursor, size_t *width, qk_error *err);

/* Reads up to max_rows rows of exactly `width` numbers each into
 * values[rows][width]: FLOAT, DOUBLE, FLOAT16, INT32 or INT64, in a list, a
 * repeated field, or (width 1) a plain column. A null or a row of another length is
 * QK_ERR_INCONSISTENT and names the row. NaN and infinities pass through.
 * *rows as in qk__cursor_read_i64. read_f32 rounds wider types to float32. */
QK_MUST_CHECK qk_status qk__cursor_read_f32(qk__cursor *cursor, float *values, size_t width,
                                            size_t max_rows, size_t *rows, qk_error *err);
QK_MUST_CHECK qk_status qk__cursor_read_f64(qk__cursor *cursor, double *values, size_t width,
                                            size_t max_rows, size_t *rows, qk_error *err);

/* Reads one row of a column of byte strings; *string points into the cursor until its next call, and has no data where
 * the row is null. *more is false at the end of the column. */
QK_MUST_CHECK qk_status qk__cursor_read_string(qk__cursor *cursor, qk__bytes *string,
                                               bool *more, qk_error *err);

/* ---- for the reader and for files of rows ------------------------------------------------ */

/* qk__cursor_open for `count` row groups from `first` on. */
QK_MUST_CHECK qk_status qk__cursor_open_groups(qk__cursor **cursor, const qk_parquet *file,
                                               int column, size_t first, size_t count,
                                               qk_error *err);

/* Closes a cursor but keeps its page buffers and decompressor in *spare (what was there is
 * released), and lends them to a cursor just opened. Memory that is new each time costs the
 * kernel as much as decompression, for pages of a megabyte. *spare starts as zeros and ends
 * with qk__pages_free. */
void qk__cursor_retire(qk__cursor **cursor, qk__pages *spare);
void qk__cursor_equip(qk__cursor *cursor, qk__pages *spare);

/* Steps to the next page if the current one has no slots left. cursor->slots is 0 afterwards
 * only at the end of the column. */
QK_MUST_CHECK qk_status qk__cursor_fill(qk__cursor *cursor, qk_error *err);

/* Steps over `slots` slots, whose levels and values were taken and in which `rows` rows
 * begin. */
void qk__cursor_advance(qk__cursor *cursor, size_t slots, int64_t rows);

/* Decodes n values of the current page. */
QK_MUST_CHECK qk_status qk__cursor_values(qk__cursor *cursor, void *out, size_t n,
                                          qk_error *err);

/* Levels of the current page end before its slots do. */
qk_status qk__cursor_levels_end(const qk__cursor *cursor, qk_error *err);

/* Refuses a cursor that has failed before. */
QK_MUST_CHECK qk_status qk__cursor_check(const qk__cursor *cursor, qk_error *err);

/* Completes the message of a failed call and marks the cursor; passes QK_OK through. */
QK_MUST_CHECK qk_status qk__cursor_result(qk__cursor *cursor, qk_status status, qk_error *err);

/* Values in the row at the cursor, in the current page and those that follow. */
QK_MUST_CHECK qk_status qk__cursor_row_width(const qk__cursor *cursor, size_t *width,
                                             qk_error *err);

#endif
