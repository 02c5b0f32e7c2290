/* SPDX-License-Identifier: Apache-2.0 */
/* How a number changes over the checkpoints of one training run, where it turns and where its largest step is. */
#include <math.h>

#include "report/answers.h"
#include "report/curve.h"

/* "NAME (PHASE)". */
static qk__phrase checkpoint(const qk__curve *curve, size_t point)
{
    size_t m = curve->points[point];
    return qk__phrase_of("%s (%s)", qk__short_name_of(curve->of->labels[m]).text,
                         qk__short_name_of(curve->of->phases[m]).text);
}

static size_t largest_step(const qk__curve *curve)
{
    size_t largest = 0;
    for (size_t m = 0; m + 1 < curve->count; m++)
        if (fabs(curve->means[m + 1] - curve->means[m]) >
            fabs(curve->means[largest + 1] - curve->means[largest]))
            largest = m;
    return largest;
}

/* "falls from 0.46 at A to 0.08 at B, then it rises to 0.64 at C; the largest step, ..." */
static void claim_legs(qk__findings *findings, const char *noun, const qk__curve *curve,
                       const size_t *pivots, size_t legs)
{
    char path[1000] = "";
    qk__phrase largest = {""};
    for (size_t i = 0; i <= legs; i++) {
        bool up = i > 0 && curve->means[pivots[i]] > curve->means[pivots[i - 1]];
        qk__add_words(path, sizeof path, "%s %.3g at %s",
                      i == 0   ? "from"
                      : i == 1 ? " to"
                      : up     ? ", then it rises to"
                               : ", then it falls to",
                      curve->means[pivots[i]], checkpoint(curve, pivots[i]).text);
    }
    size_t step = largest_step(curve);
    if (qk__curve_test(curve, step, step + 1).p <= findings->tests.level)
        largest = qk__phrase_of("; the largest step, %.3g, is that from %s to %s",
                                curve->means[step + 1] - curve->means[step],
                                checkpoint(curve, step).text, checkpoint(curve, step + 1).text);
    qk__claim(findings, "Over training, %s %s %s%s.", noun,
              curve->means[pivots[1]] > curve->means[pivots[0]] ? "rises" : "falls", path,
              largest.text);
}

/* Means with their intervals: of all checkpoints, or where there are many of the ones that matter. */
static void tell_means(qk__findings *findings, const qk__curve *curve, const size_t *pivots,
                       size_t legs)
{
    enum { MANY = 12 };
    char line[1400] = "";
    for (size_t m = 0; m < curve->count; m++) {
        bool said = curve->count <= MANY || m == 0 || m + 1 == curve->count;
        for (size_t i = 0; legs > 0 && i <= legs; i++)
            said |= pivots[i] == m;
        if (said)
            qk__add_words(line, sizeof line, "%s%s %.3g ± %.3g", *line ? ", " : "",
                          qk__short_name_of(curve->of->labels[curve->points[m]]).text,
                          curve->means[m], curve->halves[m]);
    }
    qk__evidence(
        findings,
        "Mean over %zu heads (%zu groups that share keys), ± half of its 95 %% interval "
        "within heads: %s.",
        curve->heads, curve->groups, line);
}

qk__answer qk__ask_training(qk__findings *findings, const qk__question *question,
                            const qk__asked *asked)
{
    qk__curve curve =
        asked->of->checkpoints ? qk__curve_of(&findings->work, asked) : (qk__curve){0};
    size_t *pivots = qk__work_take(&findings->work, asked->of->num_models + 1, sizeof *pivots);
    size_t from = 0, to = 0, legs = 0;
    if (curve.count <= 1 || !pivots)
        return (qk__answer){0};
    qk__test surest = qk__curve_test_any(&curve, &from, &to);
    qk__answer answer = {.any = true,
                         .what = qk__phrase_of("%s", question->what),
                         .outcome =
                             qk__tested(findings, surest, qk__curve_lean(&curve, from, to))};
    if (answer.outcome.side != 0)
        legs = qk__curve_legs(&curve, findings->tests.level, pivots);
    if (legs > 0)
        claim_legs(findings, question->what, &curve, pivots, legs);
    else
        answer.outcome.side = 0;
    answer.told = legs > 0;
    tell_means(findings, &curve, pivots, legs);
    if (isnan(answer.outcome.p))
        return answer;
    qk__estimate change = qk__curve_change(&curve, from, to);
    qk__evidence(findings,
                 "The most certain change of all %zu pairs, from %s to %s: %.3g, %s; %s. "
                 "Interval and p are those of all pairs at once.",
                 curve.count * (curve.count - 1) / 2, checkpoint(&curve, from).text,
                 checkpoint(&curve, to).text, change.value, qk__interval(&change).text,
                 answer.outcome.text.text);
    return answer;
}
