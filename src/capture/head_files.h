/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a head, or its parts of packed files, one after the other, with a cursor on each
 * column that is read. */
#ifndef QK_CAPTURE_HEAD_FILES_H
#define QK_CAPTURE_HEAD_FILES_H

#include <stdbool.h>

#include <qkscope/capture.h>

#include "capture/row_columns.h"
#include "parquet/reader.h"

typedef struct qk__head_files {
    const qk_head *head;
    unsigned columns;
    bool packed; /* the head shares its files */
    size_t dim;
    bool wide; /* some file holds float64: all are read as that */
    int64_t total;
    bool no_examples;       /* some file has no ids: none are read */
    qk__file_print *prints; /* [head->num_files] */

    /* the file that is being read */
    size_t index;
    qk_parquet *file;
    qk_parquet *before; /* the packed file open before it: keys and queries take turns */
    qk__cursor *cursors[QK__ROW_COLUMNS]; /* NULL: not asked for, or no windows or strings */
    int64_t rows_left;                    /* of it */
    qk__pages spare[QK__ROW_COLUMNS];     /* buffers kept for the next file or head */
} qk__head_files;

/* Forgets the last head and turns to another one; memory and packed files stay. files begins as zeros. */
void qk__head_files_reset(qk__head_files *files, const qk_head *head, unsigned columns);
void qk__head_files_close(qk__head_files *files);

/* Adds up the rows of all files, then opens the first file with rows, which tells the dimension. */
QK_MUST_CHECK qk_status qk__head_files_open(qk__head_files *files, qk_error *err);

/* Opens the next file at its first row. */
QK_MUST_CHECK qk_status qk__head_files_next(qk__head_files *files, qk_error *err);

/* Opens a file and no columns. */
QK_MUST_CHECK qk_status qk__head_files_open_file(qk__head_files *files, size_t index,
                                                 qk_error *err);

/* The path of the open file, and the row groups of the head in it. */
const char *qk__head_file_name(const qk__head_files *files);
qk_head_part qk__head_files_part(const qk__head_files *files);

/* Whether column c is read; and whether it may be missing: ids of texts, in a capture that was made
 * without them. */
bool qk__wants_column(const qk__head_files *files, int c);
bool qk__is_optional_column(const qk__head_files *files, int c);

/* Bytes of a number of a vector in memory. */
size_t qk__vector_number_bytes(const qk__head_files *files);

#endif
