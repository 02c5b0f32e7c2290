/* SPDX-License-Identifier: Apache-2.0 */
/* How two numbers of heads go together within models. With three or more models a model is a unit: its r
 * over its heads, as Fisher's z, tested by Student's t. With fewer, r is over all heads after each
 * model's means are taken off, and counts as many pairs as there are groups of heads that share keys,
 * less one for each model beyond the first. */
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

static void add_pairs(pairs *all, const qk__result_model *model, const qk__two_numbers *of)
{
    for (size_t h = 0, end; h < model->num_heads; h = end) {
        size_t before = all->count;
        end = qk__group_end(model, h);
        for (size_t i = h; i < end; i++) {
            all->x[all->count] = paired_value(&model->heads[i], of->x, of->number_x);
            all->y[all->count] = paired_value(&model->heads[i], of->y, of->number_y);
            all->count += isfinite(all->x[all->count]) && isfinite(all->y[all->count]);
        }
        all->groups += all->count > before;
    }
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
        add_pairs(all, model, of);
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

static void relate_heads(qk__relation *out, const qk__scope *scope, pairs *all,
                         const qk__two_numbers *of)
{
    *all = (pairs){.x = all->x, .y = all->y};
    qk__each_in_scope (scope, model) {
        size_t first = all->count;
        add_pairs(all, model, of);
        center_values(all->x + first, all->count - first);
        center_values(all->y + first, all->count - first);
    }
    out->units = (double)all->groups - (double)out->models + 1;
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
    bool several = relation->models > 1;
    qk__phrase out =
        several ? qk__phrase_of("r = %.3g over all %zu heads together; within models %.3g",
                                relation->all, relation->heads, relation->r.value)
                : qk__phrase_of("r = %.3g over %zu heads", relation->r.value, relation->heads);
    qk__add_words(out.text, sizeof out.text, ", %s, n = %lld %s%s",
                  qk__interval(&relation->r).text, llround(relation->units),
                  relation->of_models ? "models" : "groups of heads that share keys",
                  several && !relation->of_models ? " (one less for the models' means)" : "");
    return out;
}

bool qk__ask_relation(qk__findings *findings, const qk__scope *scope, qk__finding_name name,
                      const qk__two_numbers *of)
{
    qk__relation found = qk__relate(findings, scope, of);
    if (found.heads == 0)
        return false;
    qk__finding_begin(findings, name);
    qk__outcome outcome = qk__tested(findings, found.test);
    qk__units units = {.models = found.models, .of_models = found.of_models};
    qk__conclude(findings, name, qk__verdict_of(&outcome), qk__where(scope, &units).text, "");
    qk__evidence(findings, "%s; %s.", qk__relation_phrase(&found).text, outcome.text.text);
    return true;
}
