/* SPDX-License-Identifier: Apache-2.0 */
/* Findings over depth: what rises or falls from the first layer to the last. A layer counts
 * once, with the mean of its heads; with three or more models a model's correlation counts
 * once. */
#include <math.h>
#include <string.h>

#include "report/evidence.h"

static const struct {
    qk__finding_name name;
    const char *field;
} TRENDS[] = {
    {QK__DEPTH_R_Q, "r_q"},
    {QK__DEPTH_R_K, "r_k"},
    {QK__DEPTH_BIAS, "bias_strength"},
    {QK__DEPTH_PLASTICITY, "ap_overall"},
};

_Static_assert(QK__ENOUGH_LAYERS == 10, "findings.def says how many");

typedef struct model_trend {
    const qk__result_model *model;
    size_t layers;
    double independent; /* as many independent layers tell as much */
    double r;
} model_trend;

/* Neighbouring layers resemble each other, and a row of layers that wanders looks like a trend. So
 * what is left after the line tells how many layers count: n (1 - c) / (1 + c) with its correlation c
 * from one layer to the next, where that is above 0 (Santer et al., J. Geophys. Res. 105, 7337,
 * 2000). */
static double independent_layers(const double *x, const double *y, size_t layers)
{
    qk__line line = qk__fit_line(x, y, layers);
    double next = 0, own = 0, before = 0;
    for (size_t i = 0; i < layers; i++) {
        double left = y[i] - line.slope * x[i] - line.start;
        own += left * left;
        next += i > 0 ? left * before : 0;
        before = left;
    }
    double c = own > 0 ? fmax(0, next / own) : 0;
    return (double)layers * (1 - c) / (1 + c);
}

/* Of a model's layer means with depth. x and y hold as many numbers as it has heads. */
static model_trend trend_in(const qk__result_model *model, const qk__field *field, double *x,
                            double *y)
{
    model_trend out = {.model = model};
    for (size_t h = 0, first; h < model->num_heads;) {
        qk__mean mean = {0};
        for (first = h;
             h < model->num_heads && model->heads[h].layer == model->heads[first].layer; h++)
            qk__mean_add(&mean, qk__number_of(&model->heads[h], qk__field_number, field));
        x[out.layers] = model->heads[first].depth;
        y[out.layers] = qk__mean_of(&mean);
        out.layers += mean.count > 0;
    }
    out.r = qk__fit_line(x, y, out.layers).r;
    out.independent = independent_layers(x, y, out.layers);
    return out;
}

static qk__outcome test_one(qk__findings *findings, const model_trend *trend, bool named)
{
    qk__test test = {NAN, 0};
    if (trend->layers >= QK__ENOUGH_LAYERS && isfinite(trend->r)) {
        test = qk__test_correlation(trend->r, trend->independent);
        if (isnan(test.p)) /* the layers are worth fewer than three */
            test = (qk__test){1, 0};
    }
    qk__outcome outcome = qk__tested(findings, test);
    qk__estimate r = qk__estimate_correlation(trend->r, trend->independent);
    qk__phrase worth = {""};
    if (trend->independent < (double)trend->layers)
        worth = qk__phrase_of(" (as much as %.3g independent ones tell)", trend->independent);
    qk__evidence(findings, "%s%sr of layer means with depth = %.3g, %s, n = %zu layer%s%s; %s.",
                 named ? qk__short_name_of(trend->model->label).text : "", named ? ": " : "",
                 trend->r, qk__interval(&r).text, trend->layers, trend->layers == 1 ? "" : "s",
                 worth.text, outcome.text.text);
    return outcome;
}

/* One or two models, or the last checkpoint: each for itself, and what they agree on. */
static void trend_of_few(qk__findings *findings, size_t t, const qk__scope *scope,
                         const model_trend *trends, size_t count)
{
    size_t up = 0, down = 0, untested = 0;
    for (size_t i = 0; i < count; i++) {
        qk__outcome outcome = test_one(findings, &trends[i], count > 1);
        up += outcome.side > 0;
        down += outcome.side < 0;
        untested += isnan(outcome.p);
    }
    qk__units units = {.models = count};
    qk__scope own = {.results = scope->results, .model = count == 1 ? trends[0].model : NULL};
    qk__phrase noun = qk__noun(TRENDS[t].field);
    if (up > 0 && down > 0) {
        qk__verdict_is(findings, QK__DIVIDED);
        qk__claim(findings, "With depth, %s rises in one model and falls in the other.",
                  noun.text);
        return;
    }
    qk__conclude(findings, TRENDS[t].name,
                 untested == count ? QK__TOO_FEW
                 : up == count     ? QK__SUPPORTED
                 : down == count   ? QK__OPPOSITE
                                   : QK__UNSUPPORTED,
                 qk__where(&own, &units).text, noun.text);
}

static void trend_of_models(qk__findings *findings, size_t t, const double *z, size_t count)
{
    size_t rising = 0;
    for (size_t i = 0; i < count; i++)
        rising += z[i] > 0;
    qk__estimate mean = qk__estimate_correlations(z, count);
    qk__outcome outcome = qk__tested(findings, qk__test_mean(z, count, 0));
    qk__conclude(findings, TRENDS[t].name, qk__verdict_of(&outcome),
                 qk__phrase_of("across %zu models", count).text,
                 qk__noun(TRENDS[t].field).text);
    qk__evidence(
        findings,
        "r of layer means with depth, mean of %zu model%s: %.3g, %s; positive in %zu of "
        "them; %s.",
        count, count == 1 ? "" : "s", mean.value, qk__interval(&mean).text, rising,
        outcome.text.text);
}

/* x, y, z: room for as many numbers as there are heads, and models. */
static void state_trend(qk__findings *findings, const qk__scope *scope, size_t t, double *x,
                        double *y, double *z)
{
    const qk__field *field = qk__find_field(TRENDS[t].field);
    model_trend few[QK__ENOUGH_MODELS - 1];
    size_t count = 0, enough = 0;
    qk__each_in_scope (scope, model) {
        model_trend found = trend_in(model, field, x, y);
        if (found.layers == 0)
            continue;
        if (found.layers >= QK__ENOUGH_LAYERS && isfinite(found.r))
            z[enough++] = qk__fisher_z(found.r);
        if (count < sizeof few / sizeof *few)
            few[count] = found;
        count++;
    }
    if (count == 0)
        return;
    qk__finding_begin(findings, TRENDS[t].name);
    if (count >= QK__ENOUGH_MODELS)
        trend_of_models(findings, t, z, enough);
    else
        trend_of_few(findings, t, scope, few, count);
    if (strcmp(TRENDS[t].field, "ap_overall") == 0)
        qk__tell_held_keys(findings, scope);
}

void qk__findings_depth(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    size_t heads = qk__count_heads(results) + 1;
    double *x = qk__work_take(&findings->work, heads, sizeof *x);
    double *y = qk__work_take(&findings->work, heads, sizeof *y);
    double *z = qk__work_take(&findings->work, results->num_models, sizeof *z);
    for (size_t t = 0; !findings->work.failed && t < sizeof TRENDS / sizeof *TRENDS; t++)
        state_trend(findings, &scope, t, x, y, z);
}
