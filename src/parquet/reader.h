/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a file handle (reader.c) and of a cursor (cursor.c), for the files that make up
 * the reader. */
#ifndef QK_PARQUET_READER_H
#define QK_PARQUET_READER_H

#include <qkscope/parquet.h>

#include "base/buffer.h"
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

/* As qk_parquet_find, but QK_ERR_INCONSISTENT where several columns have the name. The message does
 * not name the file. */
QK_MUST_CHECK qk_status qk__parquet_find(const qk_parquet *file, const char *name, int *index,
                                         qk_error *err);

/* A cursor is always at a slot: the next one of the current page, or the first one of the
 * page that follows. */
struct qk_parquet_cursor {
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
    qk__buffer scratch; /* FIXED_LEN_BYTE_ARRAY values given out */
};

/* qk_parquet_cursor_open for `count` row groups from `first` on. */
QK_MUST_CHECK qk_status qk__cursor_open_groups(qk_parquet_cursor **cursor,
                                               const qk_parquet *file, int column, size_t first,
                                               size_t count, qk_error *err);

/* Closes a cursor but keeps its page buffers and decompressor in *spare (what was there is
 * released), and lends them to a cursor just opened. Memory that is new each time costs the
 * kernel as much as decompression, for pages of a megabyte. *spare starts as zeros and ends
 * with qk__pages_free. */
void qk__cursor_retire(qk_parquet_cursor **cursor, qk__pages *spare);
void qk__cursor_equip(qk_parquet_cursor *cursor, qk__pages *spare);

/* Steps to the next page if the current one has no slots left. cursor->slots is 0 afterwards
 * only at the end of the column. */
QK_MUST_CHECK qk_status qk__cursor_fill(qk_parquet_cursor *cursor, qk_error *err);

/* Steps over `slots` slots, whose levels and values were taken and in which `rows` rows
 * begin. */
void qk__cursor_advance(qk_parquet_cursor *cursor, size_t slots, int64_t rows);

/* Decodes n values of the current page. */
QK_MUST_CHECK qk_status qk__cursor_values(qk_parquet_cursor *cursor, void *out, size_t n,
                                          qk_error *err);

/* Levels of the current page end before its slots do. */
qk_status qk__cursor_levels_end(const qk_parquet_cursor *cursor, qk_error *err);

/* Refuses a cursor that has failed before. */
QK_MUST_CHECK qk_status qk__cursor_check(const qk_parquet_cursor *cursor, qk_error *err);

/* Completes the message of a failed call and marks the cursor; passes QK_OK through. */
QK_MUST_CHECK qk_status qk__cursor_result(qk_parquet_cursor *cursor, qk_status status,
                                          qk_error *err);

/* Values in the row at the cursor, in the current page and those that follow. */
QK_MUST_CHECK qk_status qk__cursor_row_width(const qk_parquet_cursor *cursor, size_t *width,
                                             qk_error *err);

#endif
