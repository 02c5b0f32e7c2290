/* SPDX-License-Identifier: Apache-2.0 */
/* A table that is written head by head, by whichever thread has a head ready. Rows lie in the order of
 * heads; those of a head that is ready before an earlier one wait as text. So what waits follows from how
 * far threads run ahead of each other, and not from how many heads there are. */
#ifndef QK_ANALYSIS_TABLE_FILE_H
#define QK_ANALYSIS_TABLE_FILE_H

#include "analysis/run.h"
#include "schema/schema.h"

/* Opens it beside its place, and writes the header. The heads of the results are there. */
QK_MUST_CHECK qk_status qk__table_file_open(qk__table_file **file, qk__run *run,
                                            const qk__table *table, qk_error *err);

const qk__table *qk__table_file_table(const qk__table_file *file);

/* The rows of head i: once for each head, from any thread. */
QK_MUST_CHECK qk_status qk__table_file_put(qk__table_file *file, size_t i, qk_error *err);

/* The heads that nobody has put yet, in parallel; then the file is among the outputs of the run. Frees it,
 * whatever happens. */
QK_MUST_CHECK qk_status qk__table_file_end(qk__table_file **file, qk_error *err);

/* Frees it and removes what was written. NULL is fine. */
void qk__table_file_drop(qk__table_file **file);

#endif
