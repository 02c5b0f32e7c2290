/* SPDX-License-Identifier: Apache-2.0 */
/* A CSV table of a run: a header, and the rows of each head in table order. */
#ifndef QK_STUDY_TABLE_H
#define QK_STUDY_TABLE_H

#include "base/buffer.h"
#include "base/number.h"
#include "study/run.h"

/* Appends the rows of one head to text; none for a head without the numbers. */
typedef qk_status qk_format_head_fn(const qk_run *run, const qk_head_report *head,
                                    qk_buffer *text, qk_error *err);

typedef struct qk_table_spec {
    const char *name;      /* of the file */
    const char *columns;   /* "a,b,c" */
    const char *intervals; /* further columns where a run has intervals; NULL = none */
    qk_format_head_fn *format;
} qk_table_spec;

/* Formats heads in parallel and adds the finished file to the run's outputs. */
QK_MUST_CHECK qk_status qk__write_table(qk_run *run, const qk_table_spec *spec, qk_error *err);
/* The same at a path, which is its name among the outputs. */
QK_MUST_CHECK qk_status qk__write_table_at(qk_run *run, const qk_table_spec *spec,
                                           const char *path, qk_error *err);

/* model,layer,q_head,k_head, */
QK_MUST_CHECK qk_status qk__add_ids(const qk_run *run, const qk_head_report *head,
                                    qk_buffer *text, qk_error *err);

/* Numbers of one row, each but the last with a comma behind it, the last with `end`. NaN is
 * an empty field. */
QK_MUST_CHECK qk_status qk__add_numbers(qk_buffer *text, const double *values, size_t count,
                                        char end, qk_error *err);

/* What ends the row before its intervals: ',' where the run has them, else the end of the line.
 * qk__add_intervals then adds lo and hi of each, or nothing. */
char qk__row_end(const qk_run *run);
QK_MUST_CHECK qk_status qk__add_intervals(const qk_run *run, qk_buffer *text,
                                          const qk_interval *intervals, size_t count,
                                          qk_error *err);

#endif
