/* SPDX-License-Identifier: Apache-2.0 */
/* Puts findings together: gathers their units, words their phrases, asks their questions. */
#include "report/evidence.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- scopes and units ------------------------------------------------------------------- */

qk__scope qk__whole_scope(const qk__results *results)
{
    qk__scope scope = {.results = results};
    if (results->checkpoints && results->num_models > 0)
        scope.model = &results->models[results->num_models - 1];
    return scope;
}

bool qk__in_scope(const qk__scope *scope, const qk__result_model *model)
{
    if (scope->model)
        return model == scope->model;
    return !scope->family || strcmp(model->family, scope->family) == 0;
}

double qk__field_number(const qk__result_head *head, const void *field)
{
    return field && !qk__has_few_rows(head) ? qk__field_value(field, &head->v) : NAN;
}

/* What a head says of a number: nothing where it has too few rows. */
static double say(const qk__result_head *head, qk__head_number *number, const void *argument)
{
    return qk__has_few_rows(head) ? NAN : number(head, argument);
}

/* Means over the groups of heads that share keys; heads come by layer and query head, so a
 * group's are neighbours. Returns how many. */
static size_t group_means(const qk__result_model *model, qk__head_number *number,
                          const void *argument, double *out)
{
    size_t count = 0;
    for (size_t h = 0; h < model->num_heads;) {
        qk__mean mean = {0};
        size_t first = h;
        do
            qk__mean_add(&mean, say(&model->heads[h++], number, argument));
        while (h < model->num_heads && model->heads[h].layer == model->heads[first].layer &&
               model->heads[h].k_head == model->heads[first].k_head);
        if (mean.count > 0)
            out[count++] = qk__mean_of(&mean);
    }
    return count;
}

/* Mean over the heads of a model, which are added to all, and the counts of the units. */
static double model_mean(const qk__result_model *model, qk__head_number *number,
                         const void *argument, qk__mean *all, qk__units *units)
{
    qk__mean mean = {0};
    for (size_t h = 0; h < model->num_heads; h++) {
        double value = say(&model->heads[h], number, argument);
        qk__mean_add(&mean, value);
        qk__mean_add(all, value);
        units->positive += isfinite(value) && value > 0;
    }
    units->models += mean.count > 0;
    return qk__mean_of(&mean);
}

qk__units qk__units_of(qk__findings *findings, const qk__scope *scope, qk__head_number *number,
                       const void *argument)
{
    enum { ENOUGH_MODELS = 3 };
    const qk__results *results = scope->results;
    qk__units units = {0};
    qk__mean all = {0};
    units.values =
        qk__calloc(results->num_models + qk__count_heads(results) + 1, sizeof *units.values);
    if (!units.values) {
        findings->status = qk__nomem(&findings->err);
        return units;
    }
    for (size_t m = 0; m < results->num_models; m++) {
        if (!qk__in_scope(scope, &results->models[m]))
            continue;
        double mean = model_mean(&results->models[m], number, argument, &all, &units);
        if (isfinite(mean))
            units.values[units.count++] = mean;
    }
    units.heads = all.count;
    units.mean = qk__mean_of(&all);
    units.of_models = units.models >= ENOUGH_MODELS;
    if (units.of_models)
        return units;
    units.count = 0;
    for (size_t m = 0; m < results->num_models; m++)
        if (qk__in_scope(scope, &results->models[m]))
            units.count +=
                group_means(&results->models[m], number, argument, units.values + units.count);
    return units;
}

void qk__units_free(qk__units *units)
{
    free(units->values);
    *units = (qk__units){0};
}

/* ---- phrases ---------------------------------------------------------------------------- */

static const qk__result_model *first_model(const qk__scope *scope)
{
    for (size_t m = 0; m < scope->results->num_models; m++)
        if (qk__in_scope(scope, &scope->results->models[m]))
            return &scope->results->models[m];
    return NULL;
}

qk__phrase qk__where(const qk__scope *scope, const qk__units *units)
{
    qk__phrase out = {""};
    const qk__result_model *model = first_model(scope);
    qk__short_name name = qk__short_name_of(model ? model->label : "");
    bool named = model && *model->label;
    if (units->of_models)
        snprintf(out.text, sizeof out.text, "across %zu models", units->models);
    else if (units->models > 1)
        snprintf(out.text, sizeof out.text, "in these %zu models", units->models);
    else if (scope->results->checkpoints)
        snprintf(out.text, sizeof out.text, "at the last checkpoint, %s", name.text);
    else
        snprintf(out.text, sizeof out.text, "in %s", named ? name.text : "this model");
    return out;
}

static void add_held(const qk__scope *scope, const char *name, double *least, double *most,
                     qk__mean *mean)
{
    const qk__field *field = qk__find_field(name);
    *least = INFINITY;
    *most = -INFINITY;
    for (size_t m = 0; m < scope->results->num_models; m++) {
        const qk__result_model *model = &scope->results->models[m];
        for (size_t h = 0; qk__in_scope(scope, model) && h < model->num_heads; h++) {
            double value = qk__field_value(field, &model->heads[h].v);
            *least = fmin(*least, value);
            *most = fmax(*most, value);
            qk__mean_add(mean, value);
        }
    }
}

qk__phrase qk__held_keys(const qk__scope *scope)
{
    double least, most;
    qk__mean mean = {0};
    qk__phrase out = {""};
    add_held(scope, "reservoir", &least, &most, &mean);
    if (mean.count > 0 && least < most)
        snprintf(out.text, sizeof out.text, "at most %.0f to %.0f keys of each bucket and text",
                 least, most);
    else if (mean.count > 0)
        snprintf(out.text, sizeof out.text, "at most %.0f key%s of each bucket and text", most,
                 most == 1 ? "" : "s");
    return out;
}

void qk__tell_held_keys(qk__findings *findings, const qk__scope *scope)
{
    double least, most;
    qk__mean error = {0};
    qk__phrase held = qk__held_keys(scope);
    add_held(scope, "ap_overall_se", &least, &most, &error);
    if (*held.text)
        qk__evidence(findings,
                     "From %s, which alone gives the plasticity of a head a standard error of "
                     "%s (mean of %s head%s; the largest is %s).",
                     held.text, qk__show(qk__mean_of(&error), 2).text,
                     qk__show_count(error.count).text, error.count == 1 ? "" : "s",
                     qk__show(most, 2).text);
}

qk__phrase qk__how_many(const qk__units *units)
{
    qk__phrase out;
    qk__shown heads = qk__show_count(units->heads), count = qk__show_count(units->count);
    snprintf(out.text, sizeof out.text, "n = %s %s (%s heads)", count.text,
             units->of_models ? "models" : "groups of heads that share keys", heads.text);
    return out;
}

static qk__phrase interval_of(const qk__estimate *estimate, qk__shown low, qk__shown high)
{
    qk__phrase out = {"no interval"};
    if (isfinite(estimate->low))
        snprintf(out.text, sizeof out.text, "95 %% interval %s to %s", low.text, high.text);
    return out;
}

qk__phrase qk__interval(const qk__estimate *estimate, int digits)
{
    return interval_of(estimate, qk__show(estimate->low, digits),
                       qk__show(estimate->high, digits));
}

qk__phrase qk__interval_percent(const qk__estimate *estimate)
{
    return interval_of(estimate, qk__show_percent(estimate->low),
                       qk__show_percent(estimate->high));
}

qk__verdict qk__judge(const qk__estimate *estimate, double against)
{
    const double rounding = 1e-12;
    if (!isfinite(estimate->low))
        return QK__TOO_FEW;
    if (fabs(estimate->low - against) < rounding && fabs(estimate->high - against) < rounding)
        return QK__UNSUPPORTED;
    int side = qk__estimate_side(estimate, against);
    return side > 0 ? QK__SUPPORTED : side < 0 ? QK__OPPOSITE : QK__UNSUPPORTED;
}

/* ---- sentences -------------------------------------------------------------------------- */

void qk__finding_begin(qk__findings *findings, const char *id, const char *topic,
                       qk__verdict verdict)
{
    if (findings->status != QK_OK)
        return;
    if (findings->count == findings->capacity) {
        size_t capacity = findings->capacity ? 2 * findings->capacity : 16;
        qk__finding *items = realloc(findings->items, capacity * sizeof *items);
        if (!items) {
            findings->status = qk__nomem(&findings->err);
            return;
        }
        findings->items = items;
        findings->capacity = capacity;
    }
    findings->items[findings->count++] =
        (qk__finding){.id = id, .topic = topic, .verdict = verdict};
}

void qk__finding_verdict(qk__findings *findings, qk__verdict verdict)
{
    if (findings->status == QK_OK)
        findings->items[findings->count - 1].verdict = verdict;
}

/* Adds a line to a text that may be NULL. */
static void add_line(qk__findings *findings, char **text, const char *line)
{
    size_t old = *text ? strlen(*text) + 1 : 0;
    char *longer = realloc(*text, old + strlen(line) + 1);
    if (!longer) {
        findings->status = qk__nomem(&findings->err);
        return;
    }
    if (old > 0)
        longer[old - 1] = '\n';
    memcpy(longer + old, line, strlen(line) + 1);
    *text = longer;
}

static void add_formatted(qk__findings *findings, bool claim, const char *fmt, va_list args)
{
    char line[1600];
    if (findings->status != QK_OK || findings->count == 0)
        return;
    vsnprintf(line, sizeof line, fmt, args);
    qk__finding *last = &findings->items[findings->count - 1];
    add_line(findings, claim ? &last->claim : &last->evidence, line);
}

void qk__claim(qk__findings *findings, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_formatted(findings, true, fmt, args);
    va_end(args);
}

void qk__evidence(qk__findings *findings, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_formatted(findings, false, fmt, args);
    va_end(args);
}

/* ---- questions -------------------------------------------------------------------------- */

typedef struct limit {
    const qk__field *field;
    double above;
} limit;

static double is_above(const qk__result_head *head, const void *argument)
{
    const limit *l = argument;
    double value = qk__field_number(head, l->field);
    return isfinite(value) ? value > l->above : NAN;
}

static qk__units units_asked(qk__findings *findings, const qk__scope *scope,
                             const qk__question *question)
{
    if (!question->field)
        return qk__units_of(findings, scope, question->number, &question->component);
    const limit l = {qk__find_field(question->field), question->above};
    return question->share ? qk__units_of(findings, scope, is_above, &l)
                           : qk__units_of(findings, scope, qk__field_number, l.field);
}

static void claim_there(qk__findings *findings, const char *claim, const char *where)
{
    size_t length = strcspn(claim, "@");
    bool placed = claim[length] != 0;
    qk__claim(findings, "%.*s%s%s", (int)length, claim, placed ? where : "",
              placed ? claim + length + 1 : "");
}

bool qk__ask(qk__findings *findings, const qk__scope *scope, const qk__question *question,
             qk__answer *answer)
{
    qk__units units = units_asked(findings, scope, question);
    bool known = units.count > 0;
    if (known) {
        qk__estimate estimate = question->share ? qk__estimate_share(units.values, units.count)
                                                : qk__estimate_mean(units.values, units.count);
        *answer = (qk__answer){units.heads, units.positive, estimate, qk__how_many(&units)};
        qk__verdict verdict = qk__judge(&estimate, question->against);
        qk__finding_begin(findings, question->id, question->topic, verdict);
        claim_there(findings,
                    verdict == QK__SUPPORTED     ? question->higher
                    : verdict == QK__OPPOSITE    ? question->lower
                    : verdict == QK__UNSUPPORTED ? question->either
                                                 : question->too_few,
                    qk__where(scope, &units).text);
    }
    qk__units_free(&units);
    return known;
}
