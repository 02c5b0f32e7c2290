/* SPDX-License-Identifier: Apache-2.0 */
/* A table that is written head by head, by any thread that has a head ready. Rows are in the order of heads: rows that
 * come too early wait as text. How many wait depends on how far threads run ahead of each other, not on the number of
 * heads. */
#ifndef QK_ANALYSIS_TABLE_FILE_H
#define QK_ANALYSIS_TABLE_FILE_H

#include "analysis/run.h"
#include "schema/schema.h"

/* Opens it beside its place, and writes the header. The heads of the results are known. */
QK_MUST_CHECK qk_status qk__table_file_open(qk__table_file **file, qk__run *run,
                                            const qk__table *table, qk_error *err);

const qk__table *qk__table_file_table(const qk__table_file *file);

/* The rows of head i: once for each head, from any thread. */
QK_MUST_CHECK qk_status qk__table_file_put(qk__table_file *file, size_t i, qk_error *err);

/* Writes the heads that nobody has put yet, in parallel, and adds the file to the outputs of the run. Frees it in any
 * case. */
QK_MUST_CHECK qk_status qk__table_file_end(qk__table_file **file, qk_error *err);

/* Frees it and removes what was written. NULL is fine. */
void qk__table_file_drop(qk__table_file **file);

#endif
