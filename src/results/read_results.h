/* SPDX-License-Identifier: Apache-2.0 */
/* Reading results from the tables of a folder. */
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

#endif
