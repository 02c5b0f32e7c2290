/* SPDX-License-Identifier: Apache-2.0 */
/* Scores of an external benchmark beside a number of the models. */
#ifndef QK_REPORT_SCORES_H
#define QK_REPORT_SCORES_H

#include "report/finding.h"
#include "tables/tables.h"

/* QK_ERR_ARGUMENT where there is no such metric or score; tells of models without scores and scores without models. */
QK_MUST_CHECK qk_status qk__check_scores(qk__store *tables, const qk__score_choice *choice,
                                         const qk_context *context, qk_error *err);

/* A row for each model with a score, as in the figure: columns x, y, and shown, the name of the score. */
QK_MUST_CHECK qk_status qk__read_scores(qk__store *tables, const qk__score_choice *choice,
                                        qk_columns **rows, qk_error *err);

#endif
