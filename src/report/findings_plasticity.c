/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of plasticity: does it fall over the context, and does that go with benchmark
 * scores. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "report/evidence.h"

static const qk__question FALLS = {
    .id = "plasticity-falls",
    .topic = "Attention plasticity",
    .field = "ap_drop",
    .higher = "Plasticity falls over the context @: the longer it is, the more position "
              "decides which key wins.",
    .lower = "Plasticity rises over the context @: the longer it is, the less position "
             "decides which key wins.",
    .either = "The data do not show that plasticity falls or rises over the context @.",
    .too_few = "Too few heads to tell whether plasticity falls over the context.",
};

static void plasticity_falls(qk__findings *findings, const qk__scope *scope)
{
    qk__answer drop;
    if (!qk__ask(findings, scope, &FALLS, &drop))
        return;
    qk__evidence(findings,
                 "Mean drop from the first to the last fifth %s, %s, %s; it drops in %s of "
                 "heads.",
                 qk__show(drop.estimate.value, 3).text, qk__interval(&drop.estimate, 3).text,
                 drop.how_many.text,
                 qk__show_percent((double)drop.positive / (double)drop.heads).text);
    qk__tell_held_keys(findings, scope);
}

/* ---- scores ----------------------------------------------------------------------------- */

static void state_scores(qk__findings *findings, const qk__line *line, const char *metric,
                         const char *column)
{
    enum { ENOUGH = 5 };
    qk__short_name name = qk__short_name_of(metric), against = qk__short_name_of(column);
    qk__estimate r = qk__estimate_correlation(line->r, line->count);
    double p = qk_correlation_p_value(line->r, (int64_t)line->count);
    int side = qk__estimate_side(&r, 0);
    bool enough = line->count >= ENOUGH && isfinite(r.low);
    qk__finding_begin(findings, "scores", "Benchmark scores",
                      !enough     ? QK__TOO_FEW
                      : side != 0 ? QK__SUPPORTED
                                  : QK__UNSUPPORTED);
    if (!enough)
        qk__claim(findings, "Too few models with a score to tell whether %s goes with %s.",
                  name.text, against.text);
    else if (side != 0)
        qk__claim(findings, "%s goes with %s %s.", name.text, side > 0 ? "higher" : "lower",
                  against.text);
    else
        qk__claim(
            findings,
            "The data do not show that %s goes with %s: over so few models the correlation "
            "could be chance.",
            name.text, against.text);
    if (isfinite(line->r))
        qk__evidence(findings, "r = %s, %s, p = %s, n = %zu models.", qk__show(line->r, 2).text,
                     qk__interval(&r, 3).text, qk__show(p, 2).text, line->count);
    else
        qk__evidence(findings, "n = %zu models.", line->count);
    qk__evidence(findings,
                 "Models of one family are not independent, and models differ in much "
                 "else (size, training): a correlation is no cause.");
}

static void metric_and_scores(qk__findings *findings, const qk__results *results,
                              const qk__score_choice *choice)
{
    qk__score_pairing pair;
    size_t count = 0;
    if (!qk__pair_scores(results, choice->metric, choice->column, &pair))
        return;
    double *x = qk__calloc(results->num_scores, sizeof *x);
    double *y = qk__calloc(results->num_scores, sizeof *y);
    if (!x || !y)
        findings->status = qk__nomem(&findings->err);
    for (size_t i = 0; x && y && i < results->num_scores; i++) {
        x[count] = qk__scored_metric(&pair, &results->scores[i]);
        y[count] = results->scores[i].values[pair.y_column];
        count += isfinite(x[count]) && isfinite(y[count]);
    }
    if (count > 0) {
        qk__line line = qk__fit_line(x, y, count);
        line.count = count;
        state_scores(findings, &line, pair.metric, results->score_columns[pair.y_column]);
        if (!pair.from_scores && strncmp(pair.metric, "ap_", 3) == 0)
            qk__tell_held_keys(findings, &(qk__scope){.results = results});
    }
    free(x);
    free(y);
}

void qk__findings_plasticity(qk__findings *findings, const qk__results *results,
                             const qk__score_choice *scores)
{
    qk__scope scope = qk__whole_scope(results);
    plasticity_falls(findings, &scope);
    metric_and_scores(findings, results, scores);
}
