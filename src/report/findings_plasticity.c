/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of plasticity: does it fall over the context, and does that go with benchmark
 * scores. */
#include <math.h>
#include <stdio.h>
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
    if (qk__ask(findings, scope, &FALLS, &drop))
        qk__evidence(findings,
                     "Mean drop from the first to the last fifth %s, %s, %s; it drops in %s of "
                     "heads.",
                     qk__show(drop.estimate.value, 3).text,
                     qk__interval(&drop.estimate, 3).text, drop.how_many.text,
                     qk__show_percent((double)drop.positive / (double)drop.heads).text);
}

/* ---- scores ----------------------------------------------------------------------------- */

static double mean_of(const qk__result_model *model, const qk__field *field)
{
    double sum = 0;
    size_t count = 0;
    for (size_t h = 0; h < model->num_heads; h++) {
        double value = qk__field_number(&model->heads[h], field);
        if (isfinite(value)) {
            sum += value;
            count++;
        }
    }
    return count ? sum / (double)count : NAN;
}

static const qk__result_model *model_of(const qk__results *results, const char *name)
{
    for (size_t m = 0; m < results->num_models; m++)
        if (strcmp(results->models[m].name, name) == 0 ||
            strcmp(results->models[m].label, name) == 0)
            return &results->models[m];
    return NULL;
}

static size_t column_of(const qk__results *results, const char *name)
{
    for (size_t c = 0; c < results->num_score_columns; c++)
        if (strcmp(results->score_columns[c], name) == 0)
            return c;
    return results->num_score_columns;
}

/* The metric of a scored model: as the score file has it, else measured here (as in the
 * figure). */
static double metric_of(const qk__results *results, const qk__score *score, const char *metric)
{
    size_t column = column_of(results, metric);
    if (column < results->num_score_columns)
        return score->values[column];
    const qk__field *field = qk__find_field(metric);
    const qk__result_model *model = model_of(results, score->model);
    return field && model ? mean_of(model, field) : NAN;
}

/* The score asked for, else the first column that is not the metric itself. */
static const char *score_column(const qk__results *results, const qk__score_choice *choice,
                                const char *metric)
{
    if (choice->column)
        return choice->column;
    for (size_t c = 0; c < results->num_score_columns; c++)
        if (strcmp(results->score_columns[c], metric) != 0)
            return results->score_columns[c];
    return NULL;
}

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
    const char *metric = choice->metric ? choice->metric : "ap_drop";
    const char *column = score_column(results, choice, metric);
    if (results->num_scores == 0 || !column)
        return;
    size_t index = column_of(results, column), count = 0;
    double *x = qk__calloc(results->num_scores, sizeof *x);
    double *y = qk__calloc(results->num_scores, sizeof *y);
    if (!x || !y)
        findings->status = qk__nomem(&findings->err);
    for (size_t i = 0; x && y && index < results->num_score_columns && i < results->num_scores;
         i++) {
        double metric_value = metric_of(results, &results->scores[i], metric);
        double score = results->scores[i].values[index];
        if (isfinite(metric_value) && isfinite(score)) {
            x[count] = metric_value;
            y[count++] = score;
        }
    }
    if (count > 0) {
        qk__line line = qk__fit_line(x, y, count);
        line.count = count;
        state_scores(findings, &line, metric, column);
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
