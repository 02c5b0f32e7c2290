/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a number differs between two kinds of heads: by model where there are three, else within
 * layers, since kinds and most numbers both go with the layer. */
#include <math.h>

#include "report/evidence.h"

static const qk_category KINDS[] = {QK_POSITION_DOMINATED, QK_Q_POSITIONAL, QK_K_POSITIONAL,
                                    QK_MIXED, QK_CONTENT_FOCUSED};
enum { NUM_KINDS = sizeof KINDS / sizeof *KINDS };

typedef struct number_of_kind {
    const qk__field *field;
    int category; /* QK_NUM_CATEGORIES: any */
} number_of_kind;

static double value_of_kind(const qk__result_head *head, const void *argument)
{
    const number_of_kind *of = argument;
    bool is_one = of->category == QK_NUM_CATEGORIES ? head->category >= 0
                                                    : head->category == of->category;
    return is_one ? qk__field_value(of->field, &head->v) : NAN;
}

static qk__units units_of_kind(qk__findings *findings, const qk__scope *scope,
                               const qk__kinds_question *question, int category)
{
    number_of_kind of = {qk__find_field(question->field), category};
    return qk__units_of(findings, scope, value_of_kind, &of);
}

static double squares_about(const qk__scope *scope, const qk__kinds_question *question,
                            double mean)
{
    number_of_kind any = {qk__find_field(question->field), QK_NUM_CATEGORIES};
    double sum = 0;
    qk__each_in_scope (scope, model)
        qk__each_head (model, head) {
            double value = qk__number_of(head, value_of_kind, &any);
            sum += isfinite(value) ? (value - mean) * (value - mean) : 0;
        }
    return sum;
}

/* Mean by kind, and the share of the variance between heads that the kinds' means are. */
static void tell_kinds(qk__findings *findings, const qk__scope *scope,
                       const qk__kinds_question *question, double mean)
{
    char line[1000] = "";
    double between = 0;
    for (size_t i = 0; i < NUM_KINDS; i++) {
        qk__units own = units_of_kind(findings, scope, question, (int)KINDS[i]);
        if (own.heads > 0) {
            double off = own.mean - mean;
            between += (double)own.heads * off * off;
            qk__add_words(line, sizeof line, "%s%s %.3g (%zu head%s)", *line ? ", " : "",
                          qk_category_name(KINDS[i]), own.mean, own.heads,
                          own.heads == 1 ? "" : "s");
        }
    }
    qk__phrase noun = qk__noun(question->field);
    qk__evidence(findings, "Mean over heads of %s: %s.", noun.text, line);
    double total = squares_about(scope, question, mean);
    if (total > 0)
        qk__evidence(findings,
                     "The kind of a head explains %g%% of the variance of %s between heads.",
                     between / total, noun.text);
}

/* The kind that should have more, less the other. */
typedef struct contrast {
    size_t models;                     /* with both */
    size_t num_more, num_less, layers; /* groups of each kind; layers with both */
    qk__estimate difference;
    qk__test test;
} contrast;

static contrast contrast_models(qk__findings *findings, const qk__scope *scope,
                                const qk__kinds_question *question)
{
    contrast out = {0};
    double *differences =
        qk__work_take(&findings->work, scope->results->num_models, sizeof *differences);
    qk__each_in_scope (scope, model) {
        qk__scope one = {.results = scope->results, .model = model};
        qk__units x = units_of_kind(findings, &one, question, (int)question->more);
        qk__units y = units_of_kind(findings, &one, question, (int)question->less);
        if (x.heads > 0 && y.heads > 0 && differences)
            differences[out.models++] = x.mean - y.mean;
    }
    out.difference = qk__estimate_mean(differences, out.models);
    out.test = qk__test_mean(differences, out.models, 0);
    return out;
}

static contrast contrast_layers(qk__findings *findings, const qk__scope *scope,
                                const qk__kinds_question *question)
{
    qk__units x = units_of_kind(findings, scope, question, (int)question->more);
    qk__units y = units_of_kind(findings, scope, question, (int)question->less);
    contrast out = {.num_more = x.num_groups, .num_less = y.num_groups};
    qk__layers_subtract(&x.layers, &y.layers);
    out.layers = x.layers.count;
    out.difference = qk__estimate_within_layers(&x.layers);
    out.test = qk__test_within_layers(&x.layers);
    return out;
}

/* Of pairs of one head of each kind, in one model or one layer of it: the share in which the kind that should have more has
 * more, less the share in which it has less. */
static double lean_of_kinds(const qk__scope *scope, const qk__kinds_question *question,
                            bool within_layers)
{
    number_of_kind more = {qk__find_field(question->field), (int)question->more};
    number_of_kind less = {more.field, (int)question->less};
    qk__mean lean = {0};
    qk__each_in_scope (scope, model)
        qk__each_head (model, x) {
            double own = qk__number_of(x, value_of_kind, &more);
            if (!isfinite(own))
                continue;
            qk__each_head (model, y) {
                double other = qk__number_of(y, value_of_kind, &less);
                if (isfinite(other) && (!within_layers || x->layer == y->layer))
                    qk__mean_add(&lean, (own > other) - (own < other));
            }
        }
    return qk__mean_of(&lean);
}

void qk__ask_kinds(qk__findings *findings, const qk__scope *scope,
                   const qk__kinds_question *question)
{
    qk__units any = units_of_kind(findings, scope, question, QK_NUM_CATEGORIES);
    if (any.heads == 0)
        return;
    const char *more = qk_category_name(question->more),
               *less = qk_category_name(question->less);
    contrast found = any.of_models ? contrast_models(findings, scope, question)
                                   : contrast_layers(findings, scope, question);
    qk__finding_begin(findings, question->name);
    qk__outcome outcome =
        qk__tested(findings, found.test, lean_of_kinds(scope, question, !any.of_models));
    qk__conclude(findings, question->name, qk__verdict_of(&outcome),
                 qk__where(scope, &any).text, "");
    tell_kinds(findings, scope, question, any.mean);
    if (isfinite(found.difference.value))
        qk__evidence(findings, "Difference %s, %s less %s: %.3g, %s.",
                     any.of_models ? "within models" : "within layers", more, less,
                     found.difference.value, qk__interval(&found.difference).text);
    if (any.of_models)
        qk__evidence(findings, "Tested: %s less %s, n = %zu models that have both; %s.", more,
                     less, found.models, outcome.text.text);
    else
        qk__evidence(findings,
                     "Tested: groups of heads that share keys, %zu with %s heads against %zu "
                     "with %s ones, within %zu layer%s with both; %s.",
                     found.num_more, more, found.num_less, less, found.layers,
                     found.layers == 1 ? "" : "s", outcome.text.text);
}
