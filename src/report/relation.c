/* SPDX-License-Identifier: Apache-2.0 */
/* How two numbers of heads go together within models. With three or more models a model is a unit: its r
 * over its heads, as Fisher's z, tested by Student's t. With fewer, r is over all heads after each
 * layer's means are taken off, and counts as many pairs as there are groups of heads that share keys,
 * less one for each layer beyond the first. */
#include <math.h>

#include "report/evidence.h"

enum { ENOUGH_GROUPS = 4 };

/* The heads that have both numbers, model after model. */
typedef struct pairs {
    double *x, *y;
    size_t count;
    size_t groups; /* of heads that share keys */
} pairs;

static double paired_value(const qk__result_head *head, const char *field,
                           qk__head_number *number)
{
    return qk__number_of(head, field ? qk__field_number : number,
                         field ? qk__find_field(field) : NULL);
}

/* The group that begins at `first`; returns its end. */
static size_t add_group(pairs *all, const qk__result_model *model, size_t first,
                        const qk__two_numbers *of)
{
    size_t before = all->count, end = qk__group_end(model, first);
    for (size_t i = first; i < end; i++) {
        all->x[all->count] = paired_value(&model->heads[i], of->x, of->number_x);
        all->y[all->count] = paired_value(&model->heads[i], of->y, of->number_y);
        all->count += isfinite(all->x[all->count]) && isfinite(all->y[all->count]);
    }
    all->groups += all->count > before;
    return end;
}

static void center_values(double *values, size_t count)
{
    qk__mean mean = {0};
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&mean, values[i]);
    for (size_t i = 0; i < count; i++)
        values[i] -= qk__mean_of(&mean);
}

/* z: room for as many as there are models. */
static void relate_models(qk__relation *out, const qk__scope *scope, pairs *all,
                          const qk__two_numbers *of, double *z)
{
    size_t with_r = 0;
    qk__each_in_scope (scope, model) {
        size_t first = all->count, groups = all->groups;
        for (size_t h = 0; h < model->num_heads;)
            h = add_group(all, model, h, of);
        size_t own = all->count - first;
        out->models += own > 0;
        double r = qk__fit_line(all->x + first, all->y + first, own).r;
        if (isfinite(r) && all->groups - groups >= ENOUGH_GROUPS)
            z[with_r++] = qk__fisher_z(r);
    }
    out->heads = all->count;
    out->all = qk__fit_line(all->x, all->y, all->count).r;
    out->of_models = out->models >= QK__ENOUGH_MODELS;
    if (out->of_models) {
        out->units = (double)with_r;
        out->r = qk__estimate_correlations(z, with_r);
        out->test = qk__test_mean(z, with_r, 0);
    }
}

/* Layers differ, and a row of them that wanders goes along with any other: so heads are compared within
 * their layer only. A layer of one group of heads says nothing. */
static void relate_heads(qk__relation *out, const qk__scope *scope, pairs *all,
                         const qk__two_numbers *of)
{
    size_t layers = 0;
    *all = (pairs){.x = all->x, .y = all->y};
    qk__each_in_scope (scope, model)
        for (size_t h = 0, end; h < model->num_heads; h = end) {
            pairs before = *all;
            for (end = h;
                 end < model->num_heads && model->heads[end].layer == model->heads[h].layer;)
                end = add_group(all, model, end, of);
            if (all->groups - before.groups < 2) {
                *all = before;
                continue;
            }
            layers++;
            center_values(all->x + before.count, all->count - before.count);
            center_values(all->y + before.count, all->count - before.count);
        }
    out->units = layers > 0 ? (double)all->groups - (double)layers + 1 : 0;
    double r = qk__fit_line(all->x, all->y, all->count).r;
    out->r = qk__estimate_correlation(r, out->units);
    out->test =
        out->units >= ENOUGH_GROUPS ? qk__test_correlation(r, out->units) : (qk__test){NAN, 0};
}

qk__relation qk__relate(qk__findings *findings, const qk__scope *scope,
                        const qk__two_numbers *of)
{
    qk__relation out = {.all = NAN, .r = {0, NAN, NAN, NAN}, .test = {NAN, 0}};
    size_t room = qk__count_heads(scope->results) + 1;
    pairs all = {.x = qk__work_take(&findings->work, room, sizeof *all.x),
                 .y = qk__work_take(&findings->work, room, sizeof *all.y)};
    double *z = qk__work_take(&findings->work, scope->results->num_models, sizeof *z);
    if (!all.x || !all.y || !z)
        return out;
    relate_models(&out, scope, &all, of, z);
    if (out.models > 0 && !out.of_models)
        relate_heads(&out, scope, &all, of);
    return out;
}

qk__phrase qk__relation_phrase(const qk__relation *relation)
{
    return qk__phrase_of("r = %.3g over all %zu heads%s; within %s %.3g, %s, n = %lld %s",
                         relation->all, relation->heads,
                         relation->models > 1 ? " together" : "",
                         relation->of_models ? "models" : "layers", relation->r.value,
                         qk__interval(&relation->r).text, llround(relation->units),
                         relation->of_models ? "models"
                                             : "groups of heads that share keys (one less for "
                                               "the mean of each further layer)");
}

bool qk__ask_relation(qk__findings *findings, const qk__scope *scope, qk__finding_name name,
                      const qk__two_numbers *of)
{
    qk__relation found = qk__relate(findings, scope, of);
    if (found.heads == 0)
        return false;
    qk__finding_begin(findings, name);
    qk__outcome outcome = qk__tested(findings, found.test, found.r.value);
    qk__units units = {.models = found.models, .of_models = found.of_models};
    qk__conclude(findings, name, qk__verdict_of(&outcome), qk__where(scope, &units).text, "");
    qk__evidence(findings, "%s; %s.", qk__relation_phrase(&found).text, outcome.text.text);
    return true;
}
