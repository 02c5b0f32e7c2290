/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of benchmark scores: which numbers of models go with them. */
#include <math.h>
#include <string.h>

#include "report/evidence.h"

/* Begins the finding of models' metric x and score y. */
static void state_scores(qk__findings *findings, qk__finding_name id, const qk__line *line,
                         const char *metric, const char *column)
{
    enum { ENOUGH = 5 };
    double count = (double)line->count;
    qk__estimate r = qk__estimate_correlation(line->r, count);
    qk__finding_begin(findings, id);
    qk__outcome outcome = qk__tested(
        findings,
        line->count >= ENOUGH ? qk__test_correlation(line->r, count) : (qk__test){NAN, 0},
        line->r);
    qk__conclude(findings, id, qk__verdict_of(&outcome), qk__noun(column).text,
                 qk__noun(metric).text);
    if (isfinite(line->r))
        qk__evidence(findings, "r = %.3g, %s, n = %zu models; %s.", line->r,
                     qk__interval(&r).text, line->count, outcome.text.text);
    else
        qk__evidence(findings, "n = %zu models.", line->count);
    qk__evidence(findings,
                 "Models of one family are not independent, and models differ in much "
                 "else (size, training): a correlation is no cause.");
}

static void metric_and_scores(qk__findings *findings, qk__finding_name id,
                              const qk__results *results, const qk__score_pairing *pair)
{
    size_t count = 0;
    double *x = qk__work_take(&findings->work, results->num_scores + 1, sizeof *x);
    double *y = qk__work_take(&findings->work, results->num_scores + 1, sizeof *y);
    for (size_t i = 0; x && y && i < results->num_scores; i++) {
        x[count] = qk__scored_metric(pair, &results->scores[i]);
        y[count] = results->scores[i].values[pair->y_column];
        count += isfinite(x[count]) && isfinite(y[count]);
    }
    if (count == 0)
        return;
    qk__line line = qk__fit_line(x, y, count);
    line.count = count;
    state_scores(findings, id, &line, pair->metric, results->score_columns[pair->y_column]);
    if (!pair->from_scores && strncmp(pair->metric, "ap_", 3) == 0)
        qk__tell_held_keys(findings, &(qk__scope){.results = results});
}

void qk__findings_scores(qk__findings *findings, const qk__results *results)
{
    const qk__score_choice *scores = findings->scores;
    static const char overhead[] = "positional_overhead";
    qk__score_pairing pair;
    if (!qk__pair_scores(results, scores->metric, scores->column, &pair))
        return;
    const char *column = results->score_columns[pair.y_column];
    bool same = strcmp(pair.metric, overhead) == 0;
    metric_and_scores(findings, QK__SCORES, results, &pair);
    if (!same && qk__pair_scores(results, overhead, column, &pair))
        metric_and_scores(findings, QK__OVERHEAD_SCORES, results, &pair);
}
