/* SPDX-License-Identifier: Apache-2.0 */
/* Reading results from the tables of a folder, or of runs that are still in memory. */
#ifndef QK_RESULTS_READ_RESULTS_H
#define QK_RESULTS_READ_RESULTS_H

#include "results/results.h"

/* Reads a folder. scores: a file to use instead of the folder's scores.csv; NULL = that one, if
 * there. A folder without any table is QK_ERR_NOT_FOUND; a table without the id columns or with
 * a field that is neither empty nor a number is QK_ERR_MALFORMED and names file, row and
 * column. On failure *results is NULL. */
QK_MUST_CHECK qk_status qk__results_read(qk__results **results, const char *folder,
                                         const char *scores, qk_error *err);
void qk__results_free(qk__results **results);

/* The same of a study, model by model in the order of its list, while they are analysed: only
 * what results have is kept of a run. folder: of the study, whose manifest is there already. */
QK_MUST_CHECK qk_status qk__results_begin(qk__builder **builder, const char *folder,
                                          qk_error *err);
/* Tables of the next model: of a run in memory, else (run = NULL) those that a run with these
 * contents has written into a folder; both NULL: it has none. */
QK_MUST_CHECK qk_status qk__results_add(qk__builder *builder, const qk__listed_model *model,
                                        const qk_analysis_results *run, const char *tables,
                                        unsigned contents, qk_error *err);
/* With the folder's scores.csv, if there. The builder is gone, on failure, too. */
QK_MUST_CHECK qk_status qk__results_finish(qk__builder **builder, qk__results **results,
                                           qk_error *err);
void qk__results_discard(qk__builder **builder);

#endif
