/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the units of a claim, and tests their mean. */
#include "report/claim_units.h"

#include <math.h>
#include <string.h>

#include "stats/means.h"

/* The means of a model's groups; returns the model's own mean. series: the number of the model. */
static double gather_model(const qk__asked *asked, size_t model, size_t series, double bound,
                           qk__mean *all, qk__units *units)
{
    const qk__sample *of = asked->of;
    qk__mean own = {0};
    for (size_t h = of->begin[model], end; h < of->begin[model + 1]; h = end) {
        qk__mean group = {0};
        end = qk__group_end(of, h);
        for (size_t i = h; i < end; i++) {
            qk__mean *const means[] = {&group, &own, all};
            for (size_t k = 0; k < sizeof means / sizeof *means; k++)
                qk__mean_add(means[k], asked->y[i]);
            units->above += isfinite(asked->y[i]) && asked->y[i] > bound;
        }
        if (group.count == 0)
            continue;
        qk__layers_add(&units->layers, series, (int)of->layer[h], qk__mean_of(&group));
        units->groups[units->num_groups++] = qk__mean_of(&group);
    }
    return qk__mean_of(&own);
}

static bool has_number(const qk__sample *of, size_t model, const double *y)
{
    for (size_t i = of->begin[model]; i < of->begin[model + 1]; i++)
        if (isfinite(y[i]))
            return true;
    return false;
}

static double lean_of(const qk__asked *asked, double bound)
{
    qk__mean lean = {0};
    for (size_t i = 0; i < asked->of->count; i++)
        if (isfinite(asked->y[i]))
            qk__mean_add(&lean, (asked->y[i] > bound) - (asked->y[i] < bound));
    return qk__mean_of(&lean);
}

qk__units qk__units_of(qk__work *work, const qk__asked *asked, const double *base, double bound)
{
    const qk__sample *of = asked->of;
    size_t room = of->num_models + of->count, series = 0;
    qk__mean all = {0};
    qk__units units = {0};
    units.values = qk__work_take(work, 2 * room + 1, sizeof *units.values);
    units.layers.items = qk__work_take(work, room + 1, sizeof *units.layers.items);
    if (!units.values || !units.layers.items)
        return units;
    units.groups = units.values + room;
    for (size_t m = 0; m < of->num_models; m++) {
        double mean = gather_model(asked, m, series, bound, &all, &units);
        series += has_number(of, m, base);
        if (!isfinite(mean))
            continue;
        units.first_model = units.models == 0 ? m : units.first_model;
        units.values[units.models++] = mean;
    }
    units.heads = all.count;
    units.mean = qk__mean_of(&all);
    units.lean = lean_of(asked, bound);
    units.of_models = units.models >= QK__ENOUGH_MODELS;
    units.count = units.of_models ? units.models : units.num_groups;
    if (!units.of_models && units.num_groups > 0)
        memcpy(units.values, units.groups, units.num_groups * sizeof *units.values);
    return units;
}

qk__estimate qk__estimate_units(const qk__units *units, bool share)
{
    qk__estimate out = share ? qk__estimate_share(units->values, units->count)
                             : qk__estimate_mean(units->values, units->count, QK__SURE);
    if (!units->of_models)
        out = qk__widen_to_layers(out, &units->layers, QK__SURE);
    if (share && isfinite(out.low)) {
        out.low = fmax(0, out.low);
        out.high = fmin(1, out.high);
    }
    return out;
}

qk__test qk__test_units(const qk__units *units, double against, bool counts)
{
    if (!units->of_models)
        return qk__test_groups(units->groups, units->num_groups, &units->layers, against,
                               counts);
    qk__test groups = counts ? qk__test_signs(units->groups, units->num_groups, against)
                             : qk__test_mean(units->groups, units->num_groups, against);
    qk__test above = qk__test_mean(units->values, units->count, against);
    if (isnan(above.p) || isnan(groups.p))
        return (qk__test){NAN, 0};
    above.p = above.side == groups.side ? fmax(above.p, groups.p) : 1;
    return above;
}
