/* SPDX-License-Identifier: Apache-2.0 */
/* What the numbers say, in sentences: a claim, whether the data support it, and on what
 * evidence.
 *
 * Claims about models need models: with three or more models a unit is a model's mean over its
 * heads. With fewer, and for the last of a row of checkpoints, the claim is about those models
 * only, and a unit is a group of query heads that share their keys, since heads of a group are not
 * independent. Every claim that is tested has a p-value; the p-values of all findings are corrected
 * together, and the verdict follows the corrected one. */
#ifndef QK_REPORT_FINDINGS_H
#define QK_REPORT_FINDINGS_H

#include <stdbool.h>

#include <qkscope/common.h>

#include "report/finding.h"
#include "tables/tables.h"

extern const char *const qk__verdict_names[QK__NUM_VERDICTS];  /* "not supported" */
extern const char *const qk__verdict_tokens[QK__NUM_VERDICTS]; /* "unsupported" */

/* All findings that the tables allow. */
QK_MUST_CHECK qk_status qk__findings_derive(qk__store *tables, const qk__score_choice *scores,
                                            qk__findings *findings, qk_error *err);
void qk__findings_free(qk__findings *findings);

/* Whether the finding says something that this figure shows. */
bool qk__is_shown_by(const qk__finding *finding, const char *figure);

#endif
