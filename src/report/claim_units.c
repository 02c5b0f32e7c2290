/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers the units of a claim. */
#include "report/claim_units.h"

#include <math.h>
#include <string.h>

qk__scope qk__whole_scope(const qk__results *results)
{
    qk__scope scope = {.results = results};
    if (results->checkpoints && results->num_models > 0)
        scope.model = &results->models[results->num_models - 1];
    return scope;
}

static bool is_in_scope(const qk__scope *scope, const qk__result_model *model)
{
    if (scope->model)
        return model == scope->model;
    return !scope->family || strcmp(model->family, scope->family) == 0;
}

const qk__result_model *qk__next_in_scope(const qk__scope *scope,
                                          const qk__result_model *before)
{
    do
        before = qk__next_model(scope->results, before);
    while (before && !is_in_scope(scope, before));
    return before;
}

double qk__field_number(const qk__result_head *head, const void *field)
{
    return field ? qk__field_value(field, &head->v) : NAN;
}

double qk__field_size(const qk__result_head *head, const void *field)
{
    return fabs(qk__field_number(head, field));
}

double qk__query_lead(const qk__result_head *head, const void *unused)
{
    (void)unused;
    return fabs(head->v.r_q) - fabs(head->v.r_k);
}

double qk__number_of(const qk__result_head *head, qk__head_number *number, const void *argument)
{
    return qk__has_few_rows(head) ? NAN : number(head, argument);
}

double qk__lean(const qk__scope *scope, qk__head_number *number, const void *argument,
                double against)
{
    qk__mean lean = {0};
    qk__each_in_scope (scope, model)
        qk__each_head (model, head) {
            double value = qk__number_of(head, number, argument);
            qk__mean_add(&lean, isfinite(value) ? (value > against) - (value < against) : NAN);
        }
    return qk__mean_of(&lean);
}

size_t qk__group_end(const qk__result_model *model, size_t first)
{
    size_t h = first + 1;
    while (h < model->num_heads && model->heads[h].layer == model->heads[first].layer &&
           model->heads[h].k_head == model->heads[first].k_head)
        h++;
    return h;
}

/* Of one model: the means of its groups, and its own, which is returned. */
static double gather_model(const qk__result_model *model, qk__head_number *number,
                           const void *argument, qk__mean *all, qk__units *units)
{
    qk__mean own = {0};
    for (size_t h = 0, end; h < model->num_heads; h = end) {
        qk__mean group = {0};
        end = qk__group_end(model, h);
        for (size_t i = h; i < end; i++) {
            double value = qk__number_of(&model->heads[i], number, argument);
            qk__mean *const means[] = {&group, &own, all};
            for (size_t k = 0; k < sizeof means / sizeof *means; k++)
                qk__mean_add(means[k], value);
            units->positive += isfinite(value) && value > 0;
        }
        if (group.count == 0)
            continue;
        qk__layers_add(&units->layers, units->models, model->heads[h].layer,
                       qk__mean_of(&group));
        units->groups[units->num_groups++] = qk__mean_of(&group);
    }
    return qk__mean_of(&own);
}

qk__units qk__units_of(qk__findings *findings, const qk__scope *scope, qk__head_number *number,
                       const void *argument)
{
    const qk__results *results = scope->results;
    size_t room = results->num_models + qk__count_heads(results);
    qk__mean all = {0};
    qk__units units = {0};
    units.values = qk__work_take(&findings->work, 2 * room, sizeof *units.values);
    units.layers.items = qk__work_take(&findings->work, room, sizeof *units.layers.items);
    if (!units.values || !units.layers.items)
        return units;
    units.groups = units.values + room;
    qk__each_in_scope (scope, model) {
        double mean = gather_model(model, number, argument, &all, &units);
        if (isfinite(mean))
            units.values[units.models++] = mean;
    }
    units.heads = all.count;
    units.mean = qk__mean_of(&all);
    units.of_models = units.models >= QK__ENOUGH_MODELS;
    units.count = units.of_models ? units.models : units.num_groups;
    if (!units.of_models && units.num_groups > 0)
        memcpy(units.values, units.groups, units.num_groups * sizeof *units.values);
    return units;
}
