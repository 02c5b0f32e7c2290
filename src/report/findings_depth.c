/* SPDX-License-Identifier: Apache-2.0 */
/* Findings over depth: what rises or falls from the first layer to the last. A layer counts
 * once, with the mean of its heads; with three or more models a model's correlation counts
 * once. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "report/evidence.h"

enum { ENOUGH_LAYERS = 5, ENOUGH_MODELS = 3 };

static const struct {
    const char *field, *id, *noun;
} TRENDS[] = {
    {"r_q", "depth-r_q", "the position correlation of queries on PC0"},
    {"r_k", "depth-r_k", "the position correlation of keys on PC0"},
    {"bias_strength", "depth-bias_strength", "the bias towards recent keys"},
    {"ap_overall", "depth-ap_overall", "plasticity"},
};

typedef struct model_trend {
    const qk__result_model *model;
    qk__line line;
    qk__estimate r;
    qk__verdict verdict;
    int side;
} model_trend;

/* r of a model's layer means with depth. x and y hold as many numbers as it has heads. */
static qk__line layer_line(const qk__result_model *model, const qk__field *field, double *x,
                           double *y)
{
    size_t layers = 0;
    for (size_t h = 0; h < model->num_heads;) {
        qk__mean mean = {0};
        size_t first = h;
        for (; h < model->num_heads && model->heads[h].layer == model->heads[first].layer; h++)
            qk__mean_add(&mean, qk__field_number(&model->heads[h], field));
        if (mean.count > 0) {
            x[layers] = model->heads[first].depth;
            y[layers++] = qk__mean_of(&mean);
        }
    }
    qk__line line = qk__fit_line(x, y, layers);
    line.count = layers;
    return line;
}

/* Begins the finding about trend t. side: 1 rises, -1 falls. */
static void claim_trend(qk__findings *findings, size_t t, qk__verdict verdict, int side,
                        const char *where)
{
    const char *noun = TRENDS[t].noun;
    qk__finding_begin(findings, TRENDS[t].id, "Depth", verdict);
    if (verdict == QK__DIVIDED)
        qk__claim(findings, "With depth, %s rises in one model and falls in the other.", noun);
    else if (verdict == QK__TOO_FEW)
        qk__claim(findings, "Too few layers to tell whether %s changes with depth.", noun);
    else if (verdict == QK__UNSUPPORTED)
        qk__claim(findings, "The data do not show that %s changes steadily with depth %s.",
                  noun, where);
    else
        qk__claim(findings, "With depth, %s %s %s.", noun, side > 0 ? "rises" : "falls", where);
}

/* One or two models, or the last checkpoint: each for itself, and what they agree on. */
static void trend_of_few(qk__findings *findings, size_t t, const qk__scope *scope,
                         const model_trend *trends, size_t count)
{
    size_t seen[QK__NUM_VERDICTS] = {0};
    int sides = 0;
    for (size_t i = 0; i < count; i++) {
        seen[trends[i].verdict]++;
        sides += trends[i].side;
    }
    bool settled = seen[QK__SUPPORTED] == count, agree = abs(sides) == (int)count;
    qk__verdict verdict = seen[QK__TOO_FEW] == count ? QK__TOO_FEW
                          : settled && agree         ? QK__SUPPORTED
                          : settled                  ? QK__DIVIDED
                                                     : QK__UNSUPPORTED;
    qk__units units = {.models = count};
    qk__scope own = {.results = scope->results, .model = count == 1 ? trends[0].model : NULL};
    claim_trend(findings, t, verdict, sides, qk__where(&own, &units).text);
    for (size_t i = 0; i < count; i++)
        qk__evidence(
            findings, "%s%sr of layer means with depth = %s, %s, p = %s, n = %zu layers.",
            count > 1 ? qk__short_name_of(trends[i].model->label).text : "",
            count > 1 ? ": " : "", qk__show(trends[i].line.r, 2).text,
            qk__interval(&trends[i].r, 3).text,
            qk__show(qk_correlation_p_value(trends[i].line.r, (int64_t)trends[i].line.count), 2)
                .text,
            trends[i].line.count);
}

static void trend_of_models(qk__findings *findings, size_t t, const double *r, size_t count)
{
    size_t rising = 0;
    for (size_t i = 0; i < count; i++)
        rising += r[i] > 0;
    qk__estimate mean = qk__estimate_mean(r, count);
    int side = qk__estimate_side(&mean, 0);
    qk__phrase where;
    snprintf(where.text, sizeof where.text, "across %zu models", count);
    claim_trend(findings, t,
                !isfinite(mean.low) ? QK__TOO_FEW
                : side != 0         ? QK__SUPPORTED
                                    : QK__UNSUPPORTED,
                side, where.text);
    qk__evidence(findings,
                 "Mean r of layer means with depth %s, %s, n = %zu models; positive in %zu of "
                 "them.",
                 qk__show(mean.value, 2).text, qk__interval(&mean, 3).text, count, rising);
}

static model_trend trend_in(const qk__result_model *model, const qk__field *field, double *x,
                            double *y)
{
    model_trend out = {.model = model, .line = layer_line(model, field, x, y)};
    out.r = qk__estimate_correlation(out.line.r, out.line.count);
    out.side = qk__estimate_side(&out.r, 0);
    out.verdict = out.line.count < ENOUGH_LAYERS || !isfinite(out.r.low) ? QK__TOO_FEW
                  : out.side != 0                                        ? QK__SUPPORTED
                                                                         : QK__UNSUPPORTED;
    return out;
}

static void trend(qk__findings *findings, const qk__scope *scope, size_t t, double *scratch,
                  size_t room)
{
    const qk__results *results = scope->results;
    const qk__field *field = qk__find_field(TRENDS[t].field);
    double *x = scratch, *y = scratch + room, *r = scratch + 2 * room;
    model_trend few[ENOUGH_MODELS - 1];
    size_t count = 0, enough = 0;
    for (size_t m = 0; field && m < results->num_models; m++) {
        if (!qk__in_scope(scope, &results->models[m]))
            continue;
        model_trend found = trend_in(&results->models[m], field, x, y);
        if (found.line.count == 0)
            continue;
        if (found.verdict != QK__TOO_FEW)
            r[enough++] = found.line.r;
        if (count < sizeof few / sizeof *few)
            few[count] = found;
        count++;
    }
    if (count >= ENOUGH_MODELS)
        trend_of_models(findings, t, r, enough);
    else if (count > 0)
        trend_of_few(findings, t, scope, few, count);
    if (count > 0 && strcmp(TRENDS[t].field, "ap_overall") == 0)
        qk__tell_held_keys(findings, scope);
}

void qk__findings_depth(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    size_t room = results->num_models + qk__count_heads(results) + 1;
    double *scratch = qk__calloc(room, 3 * sizeof *scratch);
    if (!scratch)
        findings->status = qk__nomem(&findings->err);
    for (size_t t = 0; scratch && t < sizeof TRENDS / sizeof *TRENDS; t++)
        trend(findings, &scope, t, scratch, room);
    free(scratch);
}
