/* SPDX-License-Identifier: Apache-2.0 */
/* Puts findings together: words their phrases, tells outcomes of tests, asks their questions. */
#include "report/evidence.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

/* ---- phrases ---------------------------------------------------------------------------- */

static const struct {
    const char *name, *noun;
} NOUNS[] = {
    {"r_q", "the position correlation of queries on PC0"},
    {"r_k", "the position correlation of keys on PC0"},
    {"ev0", "the share of variance that PC0 holds"},
    {"bias_strength", "the bias towards recent keys"},
    {"bias_over_context", "the bias over the context"},
    {"ap_overall", "plasticity"},
    {"ap_drop", "the drop of plasticity over the context"},
    {"ap_first_20pct", "plasticity in the first fifth of the context"},
    {"ap_last_20pct", "plasticity in the last fifth of the context"},
    {"positional_overhead", "the positional overhead"},
    {"distance_share", "the share that distance explains"},
};

qk__phrase qk__noun(const char *name)
{
    const qk__field *field = qk__find_field(name);
    for (size_t i = 0; i < sizeof NOUNS / sizeof *NOUNS; i++)
        if (strcmp(NOUNS[i].name, name) == 0)
            return qk__phrase_of("%s", NOUNS[i].noun);
    return qk__phrase_of("%s", field && field->info.label ? field->info.label
                                                          : qk__short_name_of(name).text);
}

qk__phrase qk__noun_of(const char *name, qk__head_number *number)
{
    qk__phrase noun = qk__noun(name);
    return number == qk__field_size ? qk__phrase_of("the size of %s", noun.text) : noun;
}

static const char *first_label(const qk__scope *scope)
{
    const qk__result_model *model = qk__next_in_scope(scope, NULL);
    return model ? model->label : "";
}

qk__phrase qk__where(const qk__scope *scope, const qk__units *units)
{
    const char *label = first_label(scope);
    qk__short_name name = qk__short_name_of(label);
    if (units->of_models)
        return qk__phrase_of("across %zu models", units->models);
    if (units->models > 1)
        return qk__phrase_of("in these %zu models", units->models);
    if (scope->results->checkpoints)
        return qk__phrase_of("at the last checkpoint, %s", name.text);
    return qk__phrase_of("in %s", *label ? name.text : "this model");
}

static qk__range range_of(const qk__scope *scope, const char *name, qk__mean *mean)
{
    const qk__field *field = qk__find_field(name);
    qk__range range = QK__NO_RANGE;
    qk__each_in_scope (scope, model)
        qk__each_head (model, head) {
            qk__range_add(&range, qk__field_value(field, &head->v));
            qk__mean_add(mean, qk__field_value(field, &head->v));
        }
    return range;
}

qk__phrase qk__held_keys(const qk__scope *scope)
{
    static const char OF[] = "of each bucket and text";
    qk__mean mean = {0};
    qk__range held = range_of(scope, "reservoir", &mean);
    if (mean.count == 0)
        return (qk__phrase){""};
    if (held.low < held.high)
        return qk__phrase_of("at most %lld to %lld keys %s", llround(held.low),
                             llround(held.high), OF);
    return qk__phrase_of("at most %lld key%s %s", llround(held.high), held.high == 1 ? "" : "s",
                         OF);
}

void qk__tell_held_keys(qk__findings *findings, const qk__scope *scope)
{
    qk__mean error = {0};
    qk__phrase held = qk__held_keys(scope);
    qk__range errors = range_of(scope, "ap_overall_se", &error);
    if (*held.text)
        qk__evidence(findings,
                     "From %s, which alone gives the plasticity of a head a standard error of "
                     "%.3g (mean of %zu head%s; the largest is %.3g).",
                     held.text, qk__mean_of(&error), error.count, error.count == 1 ? "" : "s",
                     errors.high);
}

qk__phrase qk__how_many(const qk__units *units)
{
    qk__phrase out = qk__phrase_of(
        "n = %zu %s (%zu heads)", units->count,
        units->of_models ? "models" : "groups of heads that share keys", units->heads);
    if (!units->of_models)
        qk__add_words(out.text, sizeof out.text, " in %zu layer%s", units->layers.count,
                      units->layers.count == 1 ? "" : "s");
    return out;
}

qk__phrase qk__interval(const qk__estimate *estimate)
{
    return isfinite(estimate->low)
               ? qk__phrase_of("95 %% interval %.3g to %.3g", estimate->low, estimate->high)
               : qk__phrase_of("no interval");
}

qk__phrase qk__interval_percent(const qk__estimate *estimate)
{
    return isfinite(estimate->low)
               ? qk__phrase_of("95 %% interval %g%% to %g%%", estimate->low, estimate->high)
               : qk__phrase_of("no interval");
}

qk__phrase qk__mean_phrase(const qk__units *units, const qk__estimate *estimate,
                           qk__mean_kind kind)
{
    bool percent = kind != QK__OF_NUMBERS;
    qk__phrase interval = percent ? qk__interval_percent(estimate) : qk__interval(estimate);
    qk__phrase out = kind == QK__OF_HEADS ? qk__phrase_of("%g%% of heads", units->mean)
                     : percent            ? qk__phrase_of("mean over heads %g%%", units->mean)
                                          : qk__phrase_of("mean over heads %.3g", units->mean);
    if (units->of_models && percent)
        qk__add_words(out.text, sizeof out.text, ", mean over models %g%%", estimate->value);
    else if (units->of_models)
        qk__add_words(out.text, sizeof out.text, ", mean over models %.3g", estimate->value);
    qk__add_words(out.text, sizeof out.text, ", %s", interval.text);
    return out;
}

/* ---- sentences -------------------------------------------------------------------------- */

/* The rows of findings.def. */
static const struct {
    const char *id, *topic;
    bool both_ways;
    const char *higher, *lower, *either, *too_few, *figures[QK__NUM_SHOWN];
} ROWS[] = {
#define ONE  false
#define BOTH true
#define FIGURES(...)                                                                           \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }
#define FINDING(name, ...) {__VA_ARGS__},
#include "report/findings.def"
};

void qk__finding_begin(qk__findings *findings, qk__finding_name name)
{
    if (!findings->work.failed && findings->count == findings->capacity) {
        qk__finding *items =
            qk__grow(findings->items, &findings->capacity, sizeof *findings->items);
        findings->work.failed = !items;
        findings->items = items ? items : findings->items;
    }
    if (findings->work.failed)
        return;
    qk__finding *begun = &findings->items[findings->count++];
    *begun = (qk__finding){.id = ROWS[name].id,
                           .topic = ROWS[name].topic,
                           .verdict = QK__MEASURED,
                           .p = NAN,
                           .p_adjusted = NAN,
                           .effect = NAN};
    memcpy(begun->figures, ROWS[name].figures, sizeof begun->figures);
}

/* The finding that is being made; NULL after a failure. */
static qk__finding *last_finding(qk__findings *findings)
{
    return !findings->work.failed && findings->count > 0 ? &findings->items[findings->count - 1]
                                                         : NULL;
}

void qk__finding_drop(qk__findings *findings)
{
    qk__finding *dropped = last_finding(findings);
    if (!dropped)
        return;
    free(dropped->claim);
    free(dropped->evidence);
    findings->count--;
}

void qk__verdict_is(qk__findings *findings, qk__verdict verdict)
{
    if (last_finding(findings))
        last_finding(findings)->verdict = verdict;
}

/* Adds a line to a text that may be NULL. */
static void add_line(qk__findings *findings, char **text, const char *fmt, va_list args)
{
    char line[4000] = "";
    qk__add_words_v(line, sizeof line, fmt, args);
    char *longer = qk__format("%s%s%s", *text ? *text : "", *text ? "\n" : "", line);
    findings->work.failed = !longer;
    if (!longer)
        return;
    free(*text);
    *text = longer;
}

void qk__claim(qk__findings *findings, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (last_finding(findings))
        add_line(findings, &last_finding(findings)->claim, fmt, args);
    va_end(args);
}

void qk__evidence(qk__findings *findings, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (last_finding(findings))
        add_line(findings, &last_finding(findings)->evidence, fmt, args);
    va_end(args);
}

void qk__conclude(qk__findings *findings, qk__finding_name name, qk__verdict verdict,
                  const char *where, const char *what)
{
    const char *words = verdict == QK__SUPPORTED     ? ROWS[name].higher
                        : verdict == QK__OPPOSITE    ? ROWS[name].lower
                        : verdict == QK__UNSUPPORTED ? ROWS[name].either
                                                     : ROWS[name].too_few;
    char claim[1600] = "";
    qk__verdict_is(findings,
                   verdict == QK__OPPOSITE && ROWS[name].both_ways ? QK__SUPPORTED : verdict);
    for (size_t size; words && *words; words += size + (words[size] != 0)) {
        size = strcspn(words, "@$");
        qk__add_words(claim, sizeof claim, "%.*s%s", (int)size, words,
                      words[size] == '@'   ? where
                      : words[size] == '$' ? what
                                           : "");
    }
    if (words)
        qk__claim(findings, "%s", claim);
}

/* ---- tests ------------------------------------------------------------------------------ */

/* `adjusted` takes the second half. */
static bool grow_tests(qk__tests *tests)
{
    if (tests->count < tests->capacity)
        return true;
    double *p = qk__grow(tests->p, &tests->capacity, 2 * sizeof *p);
    tests->p = p ? p : tests->p;
    return p != NULL;
}

qk__outcome qk__tested(qk__findings *findings, qk__test test, double effect)
{
    qk__tests *tests = &findings->tests;
    qk__outcome out = {test.p, NAN, 0, qk__phrase_of("no p-value")};
    qk__finding *of = last_finding(findings);
    if (!of || isnan(test.p))
        return out;
    if (!tests->corrected) {
        if (grow_tests(tests))
            tests->p[tests->count++] = test.p;
        else
            findings->work.failed = true;
        return out;
    }
    if (tests->next < tests->count)
        out.adjusted = tests->p[tests->capacity + tests->next++];
    out.text = qk__phrase_of("p = %e, corrected %e", out.p, out.adjusted);
    out.side = out.adjusted <= QK__LEVEL ? test.side : 0;
    of->p = fmin(of->p, out.p);
    of->p_adjusted = fmin(of->p_adjusted, out.adjusted);
    if (out.side != 0)
        of->effect = fmin(of->effect, fabs(effect));
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
    qk__estimate out = share ? qk__estimate_share(units->values, units->count)
                             : qk__estimate_mean(units->values, units->count);
    if (!units->of_models)
        out = qk__widen_to_layers(out, &units->layers);
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

/* How far a head lies on its side, in units of `typical`; no outlier counts for more than a few. */
typedef struct side {
    limit of;
    double typical;
} side;

static double distance_on_side(const qk__result_head *head, const void *argument)
{
    const double most = 3;
    const side *s = argument;
    double off = (qk__field_number(head, s->of.field) - s->of.above) / s->typical;
    return isfinite(off) ? fmin(most, fmax(-most, off)) : NAN;
}

/* The share of a layer's heads on one side stops at 0 and 1, and layers that all stop there look as if they
 * agreed by themselves. How far heads lie on that side tells how layers differ, so it is tested as well. */
static qk__test test_distances(qk__findings *findings, const qk__scope *scope, const limit *of,
                               qk__test shares)
{
    size_t count = 0;
    double *sizes =
        qk__work_take(&findings->work, qk__count_heads(scope->results) + 1, sizeof *sizes);
    if (!sizes)
        return shares;
    qk__each_in_scope (scope, model)
        qk__each_head (model, head) {
            sizes[count] = fabs(qk__number_of(head, qk__field_number, of->field) - of->above);
            count += isfinite(sizes[count]);
        }
    const side s = {*of, qk__median(sizes, count)};
    qk__units units = qk__units_of(findings, scope, distance_on_side, &s);
    qk__test far = qk__test_groups(units.groups, units.num_groups, &units.layers, 0, false);
    if (isnan(far.p))
        return far;
    shares.p = shares.side == far.side ? fmax(shares.p, far.p) : 1;
    return shares;
}

/* What a question is of. of: its column and what that is to be above. */
static qk__head_number *number_asked(const qk__question *question, const limit *of,
                                     const void **argument)
{
    *argument = question->share ? (const void *)of : of->field;
    return question->share ? is_above : of->field ? qk__field_number : question->number;
}

bool qk__ask(qk__findings *findings, const qk__scope *scope, const qk__question *question,
             qk__answer *answer)
{
    const limit of = {question->field ? qk__find_field(question->field) : NULL,
                      question->above};
    const void *argument;
    qk__head_number *number = number_asked(question, &of, &argument);
    qk__units units = qk__units_of(findings, scope, number, argument);
    if (units.count == 0)
        return false;
    qk__estimate estimate = qk__estimate_units(&units, question->share);
    qk__finding_begin(findings, question->name);
    qk__test test =
        qk__test_units(&units, question->against, question->share || question->counts);
    if (question->share && !units.of_models)
        test = test_distances(findings, scope, &of, test);
    qk__outcome outcome =
        qk__tested(findings, test, qk__lean(scope, number, argument, question->against));
    *answer = (qk__answer){
        units.heads,
        units.positive,
        units.mean,
        estimate,
        qk__how_many(&units),
        qk__mean_phrase(&units, &estimate, question->share ? QK__OF_HEADS : QK__OF_NUMBERS),
        outcome.text};
    qk__conclude(findings, question->name, qk__verdict_of(&outcome),
                 qk__where(scope, &units).text, "");
    return true;
}

void qk__ask_side(qk__findings *findings, const qk__scope *scope, qk__finding_name name,
                  const char *field, const char *what)
{
    const qk__question question = {.name = name, .field = field, .share = true, .against = 0.5};
    qk__answer above;
    if (qk__ask(findings, scope, &question, &above))
        qk__evidence(findings, "%s is above 0 in %zu of %zu heads: %s, %s; %s.", what,
                     above.positive, above.heads, above.measured.text, above.how_many.text,
                     above.p.text);
}
