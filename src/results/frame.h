/* SPDX-License-Identifier: Apache-2.0 */
/* A CSV file in memory, columns by name: for tables of a row a model. Larger ones are read row
 * by row (csv_reader.h, whose rules hold here, too). */
#ifndef QK_RESULTS_FRAME_H
#define QK_RESULTS_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/common.h>

typedef struct qk__frame qk__frame;

/* QK_ERR_MALFORMED also above 256 MiB of text. */
QK_MUST_CHECK qk_status qk__frame_read(qk__frame **frame, const char *path, qk_error *err);
void qk__frame_free(qk__frame **frame);

size_t qk__frame_num_rows(const qk__frame *frame);
size_t qk__frame_num_columns(const qk__frame *frame);
const char *qk__frame_column_name(const qk__frame *frame, size_t column);

/* As qk__reader_find; the column may be QK__NO_COLUMN. */
QK_MUST_CHECK qk_status qk__frame_find(const qk__frame *frame, const char *name, bool required,
                                       size_t *column, qk_error *err);

const char *qk__frame_text(const qk__frame *frame, size_t row, size_t column);
size_t qk__frame_row_number(const qk__frame *frame, size_t row); /* in the file */

/* Whether all fields that are not empty are numbers, and there is one. */
bool qk__frame_is_numeric(const qk__frame *frame, size_t column);

/* NaN where the field is empty or not a number. */
double qk__frame_number(const qk__frame *frame, size_t row, size_t column);

#endif
