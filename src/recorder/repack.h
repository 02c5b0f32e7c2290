/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of repacking share. run_repack.c leads: it checks, shares out the heads and puts the
 * result into its place; repack_rows.c copies the rows of a head, repack_facts.c what is told of
 * the capture. */
#ifndef QK_RECORDER_REPACK_H
#define QK_RECORDER_REPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/recorder.h>

#include "capture/capture_writer.h"

/* What a head's files have. */
typedef struct qk__head_columns {
    size_t dim; /* 0: there are no rows */
    bool wide;  /* vectors of DOUBLE in some file */
    bool strings, buckets, examples;
    bool wide_ids;
} qk__head_columns;

/* *rows is kept from call to call, as qk_rows_reopen does; NULL at first. */
QK_MUST_CHECK qk_status qk__repack_look(const qk_head *head, qk_rows **rows,
                                        qk__head_columns *columns, qk_error *err);

/* Copies all rows of a head into `out`, a head of this shape. */
QK_MUST_CHECK qk_status qk__repack_rows(const qk_head *head, const qk__head_columns *columns,
                                        const qk__head_shape *shape, qk_rows **rows,
                                        qk_head_writer *out, int64_t *count, qk_error *err);

/* What capture.json and the card say beyond what the writer puts into them anyway. */
typedef struct qk__repack_facts {
    char *source;
    char *extra; /* JSON; NULL: nothing */
    char *card;
} qk__repack_facts;
QK_MUST_CHECK qk_status qk__repack_facts_read(const qk_capture *capture,
                                              qk__repack_facts *facts, qk_error *err);
void qk__repack_facts_free(qk__repack_facts *facts);

/* Copies what lies beside the heads and belongs to the capture. */
QK_MUST_CHECK qk_status qk__repack_copy_files(const qk_capture *capture, const char *folder,
                                              qk_capture_writer *writer, qk_error *err);

#endif
