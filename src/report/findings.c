/* SPDX-License-Identifier: Apache-2.0 */
/* Derives all findings, one topic after the other. */
#include "report/findings.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "report/evidence.h"
#include "stats/false_discovery.h"

const char *const qk__verdict_names[QK__NUM_VERDICTS] = {
    "supported",       "supported, against expectation",
    "divided",         "not supported",
    "too few to tell", "measured",
};
const char *const qk__verdict_tokens[QK__NUM_VERDICTS] = {
    "supported", "opposite", "divided", "unsupported", "too-few", "measured",
};

static void say_all(qk__findings *findings, const qk__results *results)
{
    static qk__topic_fn *const TOPICS[] = {
        qk__findings_pca,       qk__findings_rotation, qk__findings_plasticity,
        qk__findings_attention, qk__findings_scores,   qk__findings_depth,
        qk__findings_stages,    qk__findings_training,
    };
    for (size_t i = 0; i < sizeof TOPICS / sizeof *TOPICS; i++) {
        TOPICS[i](findings, results);
        qk__work_release(&findings->work);
    }
}

static void forget_sentences(qk__findings *findings)
{
    for (size_t i = 0; i < findings->count; i++) {
        free(findings->items[i].claim);
        free(findings->items[i].evidence);
    }
    findings->count = 0;
}

/* Corrects what was gathered, and finds the level that the correction comes to. */
static void correct_tests(qk__findings *findings)
{
    qk__tests *tests = &findings->tests;
    double *adjusted = tests->p ? tests->p + tests->capacity : NULL;
    size_t holding = 0;
    findings->work.failed |=
        qk__correct_p_values(tests->p, tests->count, adjusted, NULL) != QK_OK;
    for (size_t i = 0; adjusted && i < tests->count; i++)
        holding += adjusted[i] <= QK__LEVEL;
    tests->level = QK__LEVEL * (double)(holding > 0 ? holding : 1) /
                   (double)(tests->count + !tests->count);
    tests->next = 0;
    tests->corrected = true;
}

/* What is said depends on the corrected p-values, and these on all findings: so everything is said
 * twice, and the first time counts for its p-values only. */
qk_status qk__findings_derive(const qk__results *results, const qk__score_choice *scores,
                              qk__findings *findings, qk_error *err)
{
    *findings = (qk__findings){.scores = scores};
    say_all(findings, results);
    forget_sentences(findings);
    correct_tests(findings);
    say_all(findings, results);
    if (!findings->work.failed)
        return QK_OK;
    qk__findings_free(findings);
    return qk__nomem(err);
}

bool qk__is_shown_by(const qk__finding *finding, const char *figure)
{
    for (size_t i = 0; finding->claim && i < QK__NUM_SHOWN && finding->figures[i]; i++)
        if (strcmp(finding->figures[i], figure) == 0)
            return true;
    return false;
}

void qk__findings_free(qk__findings *findings)
{
    forget_sentences(findings);
    free(findings->items);
    free(findings->tests.p);
    *findings = (qk__findings){0};
}
