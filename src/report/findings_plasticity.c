/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of plasticity: does it fall over the context, does the kind of a head stand for it, and does
 * positional overhead go with it. */
#include <math.h>

#include "report/evidence.h"

static void plasticity_falls(qk__findings *findings, const qk__scope *scope)
{
    static const qk__question FALLS = {.name = QK__PLASTICITY_FALLS, .field = "ap_drop"};
    qk__answer drop;
    if (!qk__ask(findings, scope, &FALLS, &drop))
        return;
    qk__evidence(findings, "Drop from the first to the last fifth: %s, %s; %s.",
                 drop.measured.text, drop.how_many.text, drop.p.text);
    qk__evidence(findings, "It drops in %g%% of heads.",
                 (double)drop.positive / (double)drop.heads);
    qk__tell_held_keys(findings, scope);
}

/* ---- by kind of head -------------------------------------------------------------------- */

static const int KINDS[] = {QK_POSITION_DOMINATED, QK_Q_POSITIONAL, QK_K_POSITIONAL, QK_MIXED,
                            QK_CONTENT_FOCUSED};
enum { NUM_KINDS = sizeof KINDS / sizeof *KINDS };

/* Plasticity of a head of this kind. */
static double plasticity_of_kind(const qk__result_head *head, const void *kind)
{
    return head->category == *(const int *)kind ? head->v.ap_overall : NAN;
}

static double plasticity_of(const qk__result_head *head, const void *unused)
{
    (void)unused;
    return head->category >= 0 ? head->v.ap_overall : NAN;
}

static double squares_about(const qk__scope *scope, double mean)
{
    double sum = 0;
    qk__each_in_scope (scope, model)
        qk__each_head (model, head) {
            double value = qk__number_of(head, plasticity_of, NULL);
            sum += isfinite(value) ? (value - mean) * (value - mean) : 0;
        }
    return sum;
}

/* Mean by kind, and the share of the variance between heads that the kinds' means are. */
static void tell_kinds(qk__findings *findings, const qk__scope *scope)
{
    char line[1000] = "";
    double between = 0;
    qk__units all = qk__units_of(findings, scope, plasticity_of, NULL);
    for (size_t i = 0; i < NUM_KINDS; i++) {
        qk__units own = qk__units_of(findings, scope, plasticity_of_kind, &KINDS[i]);
        if (own.heads > 0) {
            double off = own.mean - all.mean;
            between += (double)own.heads * off * off;
            qk__add_words(line, sizeof line, "%s%s %.3g (%zu head%s)", *line ? ", " : "",
                          qk_category_name((qk_category)KINDS[i]), own.mean, own.heads,
                          own.heads == 1 ? "" : "s");
        }
    }
    qk__evidence(findings, "Mean plasticity over heads: %s.", line);
    double total = squares_about(scope, all.mean);
    if (total > 0)
        qk__evidence(
            findings,
            "The kind of a head explains %g%% of the variance of plasticity between heads.",
            between / total);
}

/* Content-focused less position-dominated: by model where there are three, else within layers, since kinds
 * and plasticity both go with the layer. */
typedef struct contrast {
    size_t models;                            /* with both */
    double *differences;                      /* one for each of these */
    size_t num_content, num_position, layers; /* groups of each kind; layers with both */
    qk__test test;
} contrast;

static contrast contrast_models(qk__findings *findings, const qk__scope *scope)
{
    static const int content = QK_CONTENT_FOCUSED, position = QK_POSITION_DOMINATED;
    contrast out = {.differences = qk__work_take(&findings->work, scope->results->num_models,
                                                 sizeof *out.differences)};
    qk__each_in_scope (scope, model) {
        qk__scope one = {.results = scope->results, .model = model};
        qk__units x = qk__units_of(findings, &one, plasticity_of_kind, &content);
        qk__units y = qk__units_of(findings, &one, plasticity_of_kind, &position);
        if (x.heads > 0 && y.heads > 0)
            out.differences[out.models++] = x.mean - y.mean;
    }
    out.test = qk__test_mean(out.differences, out.models, 0);
    return out;
}

static contrast contrast_layers(qk__findings *findings, const qk__scope *scope)
{
    static const int content = QK_CONTENT_FOCUSED, position = QK_POSITION_DOMINATED;
    qk__units x = qk__units_of(findings, scope, plasticity_of_kind, &content);
    qk__units y = qk__units_of(findings, scope, plasticity_of_kind, &position);
    contrast out = {.num_content = x.num_groups, .num_position = y.num_groups};
    qk__layers_subtract(&x.layers, &y.layers);
    out.layers = x.layers.count;
    out.test = qk__test_within_layers(&x.layers);
    return out;
}

static void plasticity_by_kind(qk__findings *findings, const qk__scope *scope)
{
    qk__units any = qk__units_of(findings, scope, plasticity_of, NULL);
    if (any.heads == 0)
        return;
    contrast found =
        any.of_models ? contrast_models(findings, scope) : contrast_layers(findings, scope);
    qk__finding_begin(findings, QK__PLASTICITY_BY_KIND);
    qk__outcome outcome = qk__tested(findings, found.test);
    qk__conclude(findings, QK__PLASTICITY_BY_KIND, qk__verdict_of(&outcome),
                 qk__where(scope, &any).text, "");
    tell_kinds(findings, scope);
    if (any.of_models)
        qk__evidence(findings,
                     "Tested: content-focused less position-dominated, n = %zu models that "
                     "have both; %s.",
                     found.models, outcome.text.text);
    else
        qk__evidence(
            findings,
            "Tested: groups of heads that share keys, %zu with content-focused heads "
            "against %zu with position-dominated ones, within %zu layer%s with both; %s.",
            found.num_content, found.num_position, found.layers, found.layers == 1 ? "" : "s",
            outcome.text.text);
}

/* ---- positional overhead ---------------------------------------------------------------- */

static const qk__two_numbers OVERHEAD = {.x = "positional_overhead", .y = "ap_overall"};

void qk__findings_plasticity(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    plasticity_falls(findings, &scope);
    plasticity_by_kind(findings, &scope);
    if (qk__ask_relation(findings, &scope, QK__OVERHEAD_PLASTICITY, &OVERHEAD))
        qk__evidence(findings,
                     "Positional overhead: share of the variance of queries and keys, "
                     "each about its own mean, that is linear in position.");
}
