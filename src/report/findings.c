/* SPDX-License-Identifier: Apache-2.0 */
/* Derives all findings, one topic after the other. */
#include "report/findings.h"

#include <stdlib.h>

#include "base/error.h"
#include "report/evidence.h"

const char *const qk__verdict_names[QK__NUM_VERDICTS] = {
    "supported", "the opposite", "divided", "not supported", "too few to tell", "measured",
};
const char *const qk__verdict_tokens[QK__NUM_VERDICTS] = {
    "supported", "opposite", "divided", "unsupported", "too-few", "measured",
};

qk_status qk__findings_derive(const qk__results *results, const qk__score_choice *scores,
                              qk__findings *findings, qk_error *err)
{
    *findings = (qk__findings){0};
    qk__findings_pca(findings, results);
    qk__findings_rotation(findings, results);
    qk__findings_plasticity(findings, results, scores);
    qk__findings_depth(findings, results);
    qk__findings_stages(findings, results);
    qk__findings_training(findings, results);
    qk_status status = findings->status;
    if (status != QK_OK) {
        qk__findings_free(findings);
        return qk__nomem(err);
    }
    return QK_OK;
}

void qk__findings_free(qk__findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->items[i].claim);
        free(findings->items[i].evidence);
    }
    free(findings->items);
    *findings = (qk__findings){0};
}
