/* SPDX-License-Identifier: Apache-2.0 */
/* Findings on RoPE: heads that gain position by it, whether mean vectors predict the score by
 * distance, and which frequencies hold what. */
#include <math.h>

#include "report/evidence.h"

/* ---- categories ------------------------------------------------------------------------- */

/* 1: position-dominated after RoPE and not before, -1: the other way round. */
static double gains_position(const qk__result_head *head, const void *unused)
{
    (void)unused;
    if (head->category_before < 0 || head->category_after < 0)
        return NAN;
    return (double)(head->category_after == QK_POSITION_DOMINATED) -
           (double)(head->category_before == QK_POSITION_DOMINATED);
}

typedef struct counts {
    size_t before[QK_NUM_CATEGORIES], after[QK_NUM_CATEGORIES];
} counts;

static counts count_categories(const qk__scope *scope)
{
    counts out = {0};
    qk__each_in_scope (scope, model)
        qk__each_head (model, head) {
            if (qk__has_few_rows(head) || head->category_before < 0 || head->category_after < 0)
                continue;
            out.before[head->category_before]++;
            out.after[head->category_after]++;
        }
    return out;
}

static void position_gained(qk__findings *findings, const qk__scope *scope)
{
    static const qk__question GAINED = {
        .name = QK__ROPE_POSITION, .number = gains_position, .counts = true};
    qk__answer answer;
    if (!qk__ask(findings, scope, &GAINED, &answer))
        return;
    counts n = count_categories(scope);
    qk__evidence(findings,
                 "Position-dominated: %zu heads before RoPE, %zu after it, of %zu; "
                 "content-focused: %zu before, %zu after; %s.",
                 n.before[QK_POSITION_DOMINATED], n.after[QK_POSITION_DOMINATED], answer.heads,
                 n.before[QK_CONTENT_FOCUSED], n.after[QK_CONTENT_FOCUSED],
                 answer.how_many.text);
    qk__evidence(findings,
                 "Tested: is the change in the share of position-dominated heads above 0; "
                 "change over heads %g%%, %s; %s.",
                 answer.mean, qk__interval_percent(&answer.estimate).text, answer.p.text);
}

/* ---- prediction ------------------------------------------------------------------------- */

static double beats_constant(const qk__result_head *head, const void *unused)
{
    (void)unused;
    double r_squared = head->v.r_squared_predicted;
    return isfinite(r_squared) ? r_squared >= 0 : NAN;
}

static void score_predicted(qk__findings *findings, const qk__scope *scope)
{
    static const qk__question PREDICTED = {.name = QK__ROPE_PREDICTS_SCORE,
                                           .field = "r_squared_predicted",
                                           .share = true,
                                           .above = 0.5,
                                           .against = 0.5};
    qk__answer answer;
    if (!qk__ask(findings, scope, &PREDICTED, &answer))
        return;
    qk__units least = qk__units_of(findings, scope, beats_constant, NULL);
    qk__evidence(
        findings,
        "R² of the predicted curve is above 0.5 in %zu of %zu heads, and at least 0 (as a "
        "constant) in %zu; %s, %s.",
        answer.positive, answer.heads, least.positive, answer.measured.text,
        answer.how_many.text);
    qk__evidence(findings, "Tested: is R² above 0.5 in more than half of the heads; %s.",
                 answer.p.text);
}

/* ---- frequencies ------------------------------------------------------------------------ */

static void slow_energy(qk__findings *findings, const qk__scope *scope)
{
    qk__units q =
        qk__units_of(findings, scope, qk__field_number, qk__find_field("slow_energy_q"));
    qk__units k =
        qk__units_of(findings, scope, qk__field_number, qk__find_field("slow_energy_k"));
    if (q.count == 0 || k.count == 0)
        return;
    qk__estimate e_q = qk__estimate_units(&q, false);
    qk__estimate e_k = qk__estimate_units(&k, false);
    qk__finding_begin(findings, QK__ROPE_SLOW_ENERGY);
    qk__claim(findings,
              "Rotary pairs that turn less than once in the context hold %g%% of the squared "
              "length of queries and %g%% of that of keys %s.",
              q.mean, k.mean, qk__where(scope, &q).text);
    qk__evidence(findings, "Queries: %s; keys: %s; %s.",
                 qk__mean_phrase(&q, &e_q, QK__OF_PERCENTAGES).text,
                 qk__mean_phrase(&k, &e_k, QK__OF_PERCENTAGES).text, qk__how_many(&q).text);
}

static void slow_score(qk__findings *findings, const qk__scope *scope)
{
    static const qk__question SLOW = {
        .name = QK__ROPE_SLOW_SCORE, .field = "slow_score_share", .against = 0.5};
    qk__answer answer;
    if (!qk__ask(findings, scope, &SLOW, &answer))
        return;
    qk__evidence(findings,
                 "Share of pairs that turn less than once in the context in the variance of "
                 "the predicted score: mean over heads %g%%, %s, %s.",
                 answer.mean, qk__interval_percent(&answer.estimate).text,
                 answer.how_many.text);
    qk__evidence(findings, "Tested: is the mean share above 50 %%; %s.", answer.p.text);
}

void qk__findings_stages(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    position_gained(findings, &scope);
    score_predicted(findings, &scope);
    slow_energy(findings, &scope);
    slow_score(findings, &scope);
}
