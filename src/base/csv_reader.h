/* SPDX-License-Identifier: Apache-2.0 */
/* A CSV file (RFC 4180), or one of tabs named .tsv, row by row. The text of a field comes back exactly as written; a
 * byte-order mark is skipped, rows end with LF, CRLF or CR, blank lines are skipped. Every row
 * must have as many fields as the header. Rows are counted from 1, the header, blank lines
 * included, as a spreadsheet shows them. All messages name the file. */
#ifndef QK_BASE_CSV_READER_H
#define QK_BASE_CSV_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/common.h>

typedef struct qk__csv_reader qk__csv_reader;

#define QK__NO_COLUMN SIZE_MAX

/* Opens a file and reads its header. QK_ERR_NOT_FOUND: no such file. QK_ERR_MALFORMED, here and
 * in qk__reader_next: not CSV, a zero byte, a row of another length than the header, or more
 * than a field (1 MiB), a row (4 MiB) or a header (4,096 columns) may have. */
QK_MUST_CHECK qk_status qk__reader_open(qk__csv_reader **reader, const char *path,
                                        qk_error *err);
void qk__reader_close(qk__csv_reader **reader);

const char *qk__reader_path(const qk__csv_reader *reader);
size_t qk__reader_num_columns(const qk__csv_reader *reader);
const char *qk__reader_column_name(const qk__csv_reader *reader, size_t column);

/* *column is the column of that name. Two of them are QK_ERR_MALFORMED; none too, if it is
 * required, else *column is QK__NO_COLUMN. */
QK_MUST_CHECK qk_status qk__reader_find(const qk__csv_reader *reader, const char *name,
                                        bool required, size_t *column, qk_error *err);

/* Goes to the next row; *more is false behind the last. */
QK_MUST_CHECK qk_status qk__reader_next(qk__csv_reader *reader, bool *more, qk_error *err);

/* Reads the rest of a small file into memory. Then qk__reader_go, in place of qk__reader_next, makes any of its rows
 * the current one, counted from 0. QK_ERR_MALFORMED also above 256 MiB of text. */
QK_MUST_CHECK qk_status qk__reader_load(qk__csv_reader *reader, size_t *rows, qk_error *err);
void qk__reader_go(qk__csv_reader *reader, size_t row);

/* Of the current row. Text stays until the next row; QK__NO_COLUMN has the text "". A number is NaN where the field is
 * empty; anything that is neither a number nor empty is QK_ERR_MALFORMED with row and column. An integer must be there
 * and lie within least .. most. */
size_t qk__reader_row(const qk__csv_reader *reader);
const char *qk__reader_text(const qk__csv_reader *reader, size_t column);
QK_MUST_CHECK qk_status qk__reader_number(const qk__csv_reader *reader, size_t column,
                                          double *value, qk_error *err);
QK_MUST_CHECK qk_status qk__reader_integer(const qk__csv_reader *reader, size_t column,
                                           int64_t least, int64_t most, int64_t *value,
                                           qk_error *err);

/* "a.csv: row 5, column 'ap'" before the fault. */
qk_status qk__reader_fail(const qk__csv_reader *reader, size_t column, qk_status status,
                          const char *what, qk_error *err);

#endif
