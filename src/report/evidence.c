/* SPDX-License-Identifier: Apache-2.0 */
/* Puts findings together: words their phrases, tells outcomes of tests, asks their questions. */
#include "report/evidence.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- phrases ---------------------------------------------------------------------------- */

qk__shown qk__number(double value)
{
    return qk__show(value, 3);
}

qk__shown qk__p_value(double p)
{
    const double least = 1e-300; /* below lies what is not told from 0 */
    qk__shown out = {"below 10⁻³⁰⁰"};
    return p < least ? out : qk__show(p, 2);
}

static const struct {
    const char *name, *noun;
} NOUNS[] = {
    {"r_q", "the position correlation of queries on PC0"},
    {"r_k", "the position correlation of keys on PC0"},
    {"ev0", "the share of variance that PC0 holds"},
    {"bias_strength", "the bias towards recent keys"},
    {"ap_overall", "plasticity"},
    {"ap_drop", "the drop of plasticity over the context"},
    {"ap_first_20pct", "plasticity in the first fifth of the context"},
    {"ap_last_20pct", "plasticity in the last fifth of the context"},
    {"positional_overhead", "the positional overhead"},
};

qk__phrase qk__noun(const char *name)
{
    qk__phrase out = {""};
    const qk__field *field = qk__find_field(name);
    for (size_t i = 0; i < sizeof NOUNS / sizeof *NOUNS; i++)
        if (strcmp(NOUNS[i].name, name) == 0)
            snprintf(out.text, sizeof out.text, "%s", NOUNS[i].noun);
    if (!*out.text)
        snprintf(out.text, sizeof out.text, "%s",
                 field && field->info.label ? field->info.label : qk__short_name_of(name).text);
    return out;
}

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
                     held.text, qk__number(qk__mean_of(&error)).text,
                     qk__show_count(error.count).text, error.count == 1 ? "" : "s",
                     qk__number(most).text);
}

static bool can_compare_layers(const qk__units *units)
{
    return !units->of_models && units->num_layers >= QK__ENOUGH_LAYERS;
}

qk__phrase qk__how_many(const qk__units *units)
{
    qk__phrase out;
    qk__shown heads = qk__show_count(units->heads), count = qk__show_count(units->count);
    char layers[40] = "";
    if (can_compare_layers(units))
        snprintf(layers, sizeof layers, " in %zu layers", units->num_layers);
    snprintf(out.text, sizeof out.text, "n = %s %s (%s heads)%s", count.text,
             units->of_models ? "models" : "groups of heads that share keys", heads.text,
             layers);
    return out;
}

static qk__short_phrase interval_of(const qk__estimate *estimate, qk__shown low, qk__shown high)
{
    qk__short_phrase out = {"no interval"};
    if (isfinite(estimate->low))
        snprintf(out.text, sizeof out.text, "95 %% interval %s to %s", low.text, high.text);
    return out;
}

qk__short_phrase qk__interval(const qk__estimate *estimate)
{
    return interval_of(estimate, qk__number(estimate->low), qk__number(estimate->high));
}

qk__short_phrase qk__interval_percent(const qk__estimate *estimate)
{
    return interval_of(estimate, qk__show_percent(estimate->low),
                       qk__show_percent(estimate->high));
}

qk__phrase qk__mean_phrase(const qk__units *units, const qk__estimate *estimate,
                           qk__mean_kind kind)
{
    qk__phrase out;
    bool percent = kind != QK__OF_NUMBERS, heads = kind == QK__OF_HEADS;
    qk__shown all = percent ? qk__show_percent(units->mean) : qk__number(units->mean);
    qk__shown own = percent ? qk__show_percent(estimate->value) : qk__number(estimate->value);
    qk__short_phrase interval =
        percent ? qk__interval_percent(estimate) : qk__interval(estimate);
    char models[100] = "";
    if (units->of_models)
        snprintf(models, sizeof models, ", mean over models %s", own.text);
    snprintf(out.text, sizeof out.text, "%s%s%s%s, %s", heads ? "" : "mean over heads ",
             all.text, heads ? " of heads" : "", models, interval.text);
    return out;
}

/* ---- sentences -------------------------------------------------------------------------- */

void qk__finding_begin(qk__findings *findings, const char *id, const char *topic)
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
    findings->items[findings->count++] = (qk__finding){
        .id = id, .topic = topic, .verdict = QK__MEASURED, .p = NAN, .p_adjusted = NAN};
}

/* The finding that is being made; NULL after a failure. */
static qk__finding *last(qk__findings *findings)
{
    return findings->status == QK_OK && findings->count > 0
               ? &findings->items[findings->count - 1]
               : NULL;
}

void qk__finding_drop(qk__findings *findings)
{
    qk__finding *dropped = last(findings);
    if (!dropped)
        return;
    free(dropped->claim);
    free(dropped->evidence);
    findings->count--;
}

void qk__verdict_is(qk__findings *findings, qk__verdict verdict)
{
    if (last(findings))
        last(findings)->verdict = verdict;
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
    qk__finding *finding = last(findings);
    if (!finding)
        return;
    vsnprintf(line, sizeof line, fmt, args);
    add_line(findings, claim ? &finding->claim : &finding->evidence, line);
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

/* ---- tests ------------------------------------------------------------------------------ */

static bool make_room(qk__tests *tests)
{
    if (tests->count < tests->capacity)
        return true;
    size_t capacity = tests->capacity ? 2 * tests->capacity : 32;
    double *p = realloc(tests->p, capacity * sizeof *p);
    if (p)
        tests->p = p;
    double *adjusted = realloc(tests->adjusted, capacity * sizeof *adjusted);
    if (adjusted)
        tests->adjusted = adjusted;
    if (p && adjusted)
        tests->capacity = capacity;
    return p && adjusted;
}

qk__outcome qk__tested(qk__findings *findings, qk__test test)
{
    qk__tests *tests = &findings->tests;
    qk__outcome out = {test.p, NAN, 0};
    qk__finding *of = last(findings);
    if (!of || isnan(test.p))
        return out;
    if (!tests->corrected) {
        if (make_room(tests))
            tests->p[tests->count++] = test.p;
        else
            findings->status = qk__nomem(&findings->err);
        return out;
    }
    if (tests->next < tests->count)
        out.adjusted = tests->adjusted[tests->next++];
    out.side = out.adjusted <= QK__LEVEL ? test.side : 0;
    of->p = fmin(of->p, out.p);
    of->p_adjusted = fmin(of->p_adjusted, out.adjusted);
    return out;
}

qk__short_phrase qk__outcome_phrase(const qk__outcome *outcome)
{
    qk__short_phrase out = {"no p-value"};
    if (!isnan(outcome->p))
        snprintf(out.text, sizeof out.text, "p = %s, corrected %s",
                 qk__p_value(outcome->p).text, qk__p_value(outcome->adjusted).text);
    return out;
}

qk__verdict qk__verdict_of(const qk__outcome *outcome)
{
    return isnan(outcome->p)   ? QK__TOO_FEW
           : outcome->side > 0 ? QK__SUPPORTED
           : outcome->side < 0 ? QK__OPPOSITE
                               : QK__UNSUPPORTED;
}

qk__estimate qk__estimate_units(const qk__units *units, bool share)
{
    qk__estimate (*of)(const double *, size_t) = share ? qk__estimate_share : qk__estimate_mean;
    qk__estimate out = of(units->values, units->count);
    if (!can_compare_layers(units))
        return out;
    qk__estimate layers = of(units->layers, units->num_layers);
    return layers.high - layers.low > out.high - out.low ? layers : out;
}

/* Student's t needs numbers that can be anything. Those of a group of heads, where they are counted, are
 * a few steps wide: such groups are tested by their signs. */
qk__test qk__test_units(const qk__units *units, double against, bool counts)
{
    qk__test groups = counts ? qk__test_signs(units->groups, units->num_groups, against)
                             : qk__test_mean(units->groups, units->num_groups, against);
    qk__test above = units->of_models ? qk__test_mean(units->values, units->count, against)
                     : can_compare_layers(units)
                         ? qk__test_mean(units->layers, units->num_layers, against)
                         : groups;
    if (isnan(above.p) || isnan(groups.p))
        return (qk__test){NAN, 0};
    above.p = above.side == groups.side ? fmax(above.p, groups.p) : 1;
    return above;
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
        return qk__units_of(findings, scope, question->number, NULL);
    const limit l = {qk__find_field(question->field), question->above};
    return question->share ? qk__units_of(findings, scope, is_above, &l)
                           : qk__units_of(findings, scope, qk__field_number, l.field);
}

void qk__claim_by(qk__findings *findings, const qk__question *question, qk__verdict verdict,
                  const char *where)
{
    const char *claim = verdict == QK__SUPPORTED     ? question->higher
                        : verdict == QK__OPPOSITE    ? question->lower
                        : verdict == QK__UNSUPPORTED ? question->either
                                                     : question->too_few;
    size_t length = strcspn(claim, "@");
    bool placed = claim[length] != 0;
    qk__verdict_is(findings,
                   verdict == QK__OPPOSITE && question->both_ways ? QK__SUPPORTED : verdict);
    qk__claim(findings, "%.*s%s%s", (int)length, claim, placed ? where : "",
              placed ? claim + length + 1 : "");
}

bool qk__ask(qk__findings *findings, const qk__scope *scope, const qk__question *question,
             qk__answer *answer)
{
    qk__units units = units_asked(findings, scope, question);
    bool known = units.count > 0;
    if (known) {
        qk__estimate estimate = qk__estimate_units(&units, question->share);
        qk__finding_begin(findings, question->id, question->topic);
        qk__outcome outcome =
            qk__tested(findings, qk__test_units(&units, question->against,
                                                question->share || question->counts));
        *answer = (qk__answer){
            units.heads,
            units.positive,
            units.mean,
            estimate,
            qk__how_many(&units),
            qk__mean_phrase(&units, &estimate, question->share ? QK__OF_HEADS : QK__OF_NUMBERS),
            qk__outcome_phrase(&outcome)};
        qk__claim_by(findings, question, qk__verdict_of(&outcome),
                     qk__where(scope, &units).text);
    }
    qk__units_free(&units);
    return known;
}
