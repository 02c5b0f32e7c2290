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
    qk__head_number *number; /* keys of some heads go against their queries: r_k by its size */
} TRENDS[] = {
    {QK__DEPTH_R_Q, "r_q", qk__field_number},
    {QK__DEPTH_R_K, "r_k", qk__field_size},
    {QK__DEPTH_BIAS, "bias_strength", qk__field_number},
    {QK__DEPTH_PLASTICITY, "ap_overall", qk__field_number},
};

enum { ENOUGH_LAYERS = 10 };
_Static_assert(ENOUGH_LAYERS == 10, "findings.def says how many");

/* Neighbouring layers resemble each other, and a row of layers that wanders looks like a trend: the
 * slope has its error from the model of layers (stats/layer_model.h). */
typedef struct model_trend {
    const qk__result_model *model;
    size_t layers;
    double r; /* of layer means */
    qk__layer_fit slope;
} model_trend;

/* Room for as many as there are heads. */
typedef struct layer_room {
    double *x, *y;
    qk__layer_mean *layers;
} layer_room;

/* Of a model's layer means with depth. */
static model_trend trend_in(const qk__result_model *model, qk__head_number *number,
                            const qk__field *field, const layer_room *room)
{
    model_trend out = {.model = model};
    qk__layers layers = {.items = room->layers};
    for (size_t h = 0, end; h < model->num_heads; h = end) {
        qk__mean mean = {0};
        end = qk__group_end(model, h);
        for (size_t i = h; i < end; i++)
            qk__mean_add(&mean, qk__number_of(&model->heads[i], number, field));
        if (mean.count == 0)
            continue;
        qk__layers_add(&layers, 0, model->heads[h].layer, qk__mean_of(&mean));
        layers.items[layers.count - 1].x = model->heads[h].depth;
    }
    for (size_t i = 0; i < layers.count; i++) {
        room->x[i] = layers.items[i].x;
        room->y[i] = layers.items[i].mean;
    }
    out.layers = layers.count;
    out.r = qk__fit_line(room->x, room->y, layers.count).r;
    if (layers.count >= ENOUGH_LAYERS)
        out.slope = qk__fit_layers(&layers, true);
    return out;
}

static qk__outcome test_one(qk__findings *findings, const model_trend *trend, bool named)
{
    qk__estimate change = qk__estimate_layers(&trend->slope);
    qk__outcome outcome = qk__tested(findings, qk__test_layers(&trend->slope, 0), trend->r);
    qk__phrase range = {""};
    if (trend->slope.count > 0)
        range = qk__phrase_of(", change from the first layer to the last %.3g, %s",
                              change.value, qk__interval(&change).text);
    qk__evidence(findings, "%s%sr of layer means with depth = %.3g%s, n = %zu layer%s; %s.",
                 named ? qk__short_name_of(trend->model->label).text : "", named ? ": " : "",
                 trend->r, range.text, trend->layers, trend->layers == 1 ? "" : "s",
                 outcome.text.text);
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
    qk__phrase noun = qk__noun_of(TRENDS[t].field, TRENDS[t].number);
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
    qk__outcome outcome = qk__tested(findings, qk__test_mean(z, count, 0), mean.value);
    qk__conclude(findings, TRENDS[t].name, qk__verdict_of(&outcome),
                 qk__phrase_of("across %zu models", count).text,
                 qk__noun_of(TRENDS[t].field, TRENDS[t].number).text);
    qk__evidence(
        findings,
        "r of layer means with depth, mean of %zu model%s: %.3g, %s; positive in %zu of "
        "them; %s.",
        count, count == 1 ? "" : "s", mean.value, qk__interval(&mean).text, rising,
        outcome.text.text);
}

/* z: room for as many numbers as there are models. */
static void state_trend(qk__findings *findings, const qk__scope *scope, size_t t,
                        const layer_room *room, double *z)
{
    const qk__field *field = qk__find_field(TRENDS[t].field);
    model_trend few[QK__ENOUGH_MODELS - 1];
    size_t count = 0, enough = 0;
    qk__each_in_scope (scope, model) {
        model_trend found = trend_in(model, TRENDS[t].number, field, room);
        if (found.layers == 0)
            continue;
        if (found.layers >= ENOUGH_LAYERS && isfinite(found.r))
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
    const layer_room room = {qk__work_take(&findings->work, heads, sizeof *room.x),
                             qk__work_take(&findings->work, heads, sizeof *room.y),
                             qk__work_take(&findings->work, heads, sizeof *room.layers)};
    double *z = qk__work_take(&findings->work, results->num_models, sizeof *z);
    for (size_t t = 0; !findings->work.failed && t < sizeof TRENDS / sizeof *TRENDS; t++)
        state_trend(findings, &scope, t, &room, z);
}
