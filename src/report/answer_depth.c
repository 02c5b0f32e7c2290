/* SPDX-License-Identifier: Apache-2.0 */
/* What rises or falls from the first layer to the last. A layer counts once, with the mean of its heads; with three or
 * more models a model's correlation counts once. Neighbouring layers resemble each other, so layers that wander look
 * like a trend: the error of one model's slope comes from the model of layers (stats/layer_model.h). */
#include <math.h>

#include "report/answers.h"
#include "stats/means.h"

enum { ENOUGH_LAYERS = 10 }; /* questions.def says how many */

typedef struct trend {
    size_t layers;
    double r; /* of layer means */
    qk__layer_fit slope;
} trend;

/* Room for as many as there are heads. */
typedef struct layer_room {
    double *x, *y;
    qk__layer_mean *layers;
} layer_room;

static trend trend_in(const qk__asked *asked, size_t model, const layer_room *room)
{
    const qk__sample *of = asked->of;
    trend out = {0};
    qk__layers layers = {.items = room->layers};
    for (size_t h = of->begin[model], end; h < of->begin[model + 1]; h = end) {
        qk__mean mean = {0};
        end = qk__group_end(of, h);
        for (size_t i = h; i < end; i++)
            qk__mean_add(&mean, asked->y[i]);
        if (mean.count == 0)
            continue;
        qk__layers_add(&layers, 0, (int)of->layer[h], qk__mean_of(&mean));
        layers.items[layers.count - 1].x = of->depth[h];
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

static void tell_one(qk__findings *findings, const qk__asked *asked, const trend *found,
                     qk__answer *answer)
{
    qk__estimate change = qk__estimate_layers(&found->slope, QK__SURE);
    answer->outcome = qk__tested(findings, qk__test_layers(&found->slope, 0), found->r);
    qk__phrase range = {""};
    if (found->slope.count > 0)
        range = qk__phrase_of(", change from the first layer to the last %.3g, %s",
                              change.value, qk__interval(&change).text);
    qk__evidence(findings, "%sr of layer means with depth = %.3g%s, n = %zu layer%s; %s.",
                 qk__of_name(asked).text, found->r, range.text, found->layers,
                 found->layers == 1 ? "" : "s", answer->outcome.text.text);
}

static void tell_models(qk__findings *findings, const double *z, size_t count,
                        qk__answer *answer)
{
    size_t rising = 0;
    for (size_t i = 0; i < count; i++)
        rising += z[i] > 0;
    qk__estimate mean = qk__estimate_correlations(z, count);
    answer->outcome = qk__tested(findings, qk__test_mean(z, count, 0), mean.value);
    answer->where = qk__phrase_of("across %zu models", count);
    qk__evidence(
        findings,
        "r of layer means with depth, mean of %zu model%s: %.3g, %s; positive in %zu of "
        "them; %s.",
        count, count == 1 ? "" : "s", mean.value, qk__interval(&mean).text, rising,
        answer->outcome.text.text);
}

qk__answer qk__ask_depth(qk__findings *findings, const qk__question *question,
                         const qk__asked *asked)
{
    const qk__sample *of = asked->of;
    qk__work *work = &findings->work;
    const layer_room room = {qk__work_take(work, of->count + 1, sizeof *room.x),
                             qk__work_take(work, of->count + 1, sizeof *room.y),
                             qk__work_take(work, of->count + 1, sizeof *room.layers)};
    double *z = qk__work_take(work, of->num_models + 1, sizeof *z);
    qk__answer answer = {.what = qk__phrase_of("%s", question->what)};
    qk__units units = {0};
    trend one = {0};
    size_t enough = 0;
    for (size_t m = 0; !work->failed && m < of->num_models; m++) {
        trend found = trend_in(asked, m, &room);
        if (found.layers == 0)
            continue;
        if (found.layers >= ENOUGH_LAYERS && isfinite(found.r))
            z[enough++] = qk__fisher_z(found.r);
        if (units.models++ == 0)
            units.first_model = m;
        one = found;
    }
    answer.any = units.models > 0;
    answer.where = qk__where(asked, &units);
    if (units.models > 1)
        tell_models(findings, z, enough, &answer);
    else if (answer.any)
        tell_one(findings, asked, &one, &answer);
    return answer;
}
