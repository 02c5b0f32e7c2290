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

/* Which figures show a finding, by its id. */
static const struct {
    const char *id, *figures[QK__NUM_SHOWN];
} SHOWN_IN[] = {
    {"pc0-positional", {"pca-01-pc-roles"}},
    {"queries-over-keys", {"pca-02-rq-rk-scatter", "pca-01-pc-roles", "map-01-r-q"}},
    {"kinds-of-heads", {"pca-02-rq-rk-scatter", "map-06-category"}},
    {"bias-recent", {"rotation-04-bias-histograms", "map-03-bias"}},
    {"keys-drift-faster", {"rotation-05-slope-ratio"}},
    {"plane-variance", {"rotation-03-variance-shares", "map-04-plane-variance"}},
    {"bias-and-separation", {"rotation-07-bias-vs-separation"}},
    {"plasticity-falls", {"plasticity-02-profiles", "plasticity-06-by-model"}},
    {"scores", {"plasticity-05-score"}},
    {"depth-r_q", {"map-01-r-q", "pca-03-layer-heatmap-rq"}},
    {"depth-r_k", {"map-02-r-k", "pca-04-layer-heatmap-rk"}},
    {"depth-bias_strength", {"map-03-bias", "rotation-06-layer-heatmaps"}},
    {"depth-ap_overall", {"map-05-plasticity"}},
    {"rope-position", {"stages-03-categories"}},
    {"rope-predicts-score", {"stages-02-score-by-distance"}},
    {"rope-slow-energy", {"stages-01-rotary-pairs"}},
    {"rope-slow-score", {"stages-01-rotary-pairs", "stages-02-score-by-distance"}},
    {"training-r_q", {"pca-07-position-signal", "pca-12-phase-portraits", "map-01-r-q"}},
    {"training-r_k", {"pca-07-position-signal", "pca-12-phase-portraits", "map-02-r-k"}},
    {"training-ev0", {"pca-09-pc0-variance"}},
    {"training-bias_strength",
     {"rotation-09-training-metrics", "rotation-10-bias-decomposition", "map-03-bias"}},
    {"training-ap_overall", {"plasticity-04-trajectory", "map-05-plasticity"}},
    {"training-ap_drop", {"plasticity-04-trajectory"}},
    {"training-steps",
     {"pca-07-position-signal", "rotation-09-training-metrics", "plasticity-04-trajectory"}},
    {"training-long-context", {"pca-07-position-signal", "pca-12-phase-portraits"}},
    {"plasticity-by-kind", {"map-05-plasticity", "map-06-category"}},
    {"overhead-plasticity", {"map-05-plasticity"}},
};

static void name_figures(qk__findings *findings)
{
    for (size_t i = 0; i < findings->count; i++)
        for (size_t k = 0; k < sizeof SHOWN_IN / sizeof *SHOWN_IN; k++)
            if (strcmp(findings->items[i].id, SHOWN_IN[k].id) == 0)
                memcpy(findings->items[i].figures, SHOWN_IN[k].figures,
                       sizeof SHOWN_IN[k].figures);
}

static void say_all(qk__findings *findings, const qk__results *results,
                    const qk__score_choice *scores)
{
    qk__findings_pca(findings, results);
    qk__findings_rotation(findings, results);
    qk__findings_plasticity(findings, results);
    qk__findings_scores(findings, results, scores);
    qk__findings_depth(findings, results);
    qk__findings_stages(findings, results);
    qk__findings_training(findings, results);
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
static void correct(qk__findings *findings)
{
    qk__tests *tests = &findings->tests;
    size_t holding = 0;
    if (findings->status == QK_OK)
        findings->status =
            qk__correct_p_values(tests->p, tests->count, tests->adjusted, &findings->err);
    for (size_t i = 0; i < tests->count; i++)
        holding += tests->adjusted[i] <= QK__LEVEL;
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
    *findings = (qk__findings){0};
    say_all(findings, results, scores);
    forget_sentences(findings);
    correct(findings);
    if (findings->status == QK_OK)
        say_all(findings, results, scores);
    qk_status status = findings->status;
    if (status != QK_OK) {
        qk__findings_free(findings);
        return qk__nomem(err);
    }
    name_figures(findings);
    return QK_OK;
}

void qk__findings_free(qk__findings *findings)
{
    forget_sentences(findings);
    free(findings->items);
    free(findings->tests.p);
    free(findings->tests.adjusted);
    *findings = (qk__findings){0};
}
