/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the combined PCA: is PC0 positional, for whom, and what kinds of heads there
 * are. */
#include <math.h>
#include <stdio.h>

#include <qkscope/analysis.h>

#include "report/evidence.h"

static const char TOPIC[] = "Combined QK PCA";

static double component_r_q(const qk__result_head *head, const void *component)
{
    size_t pc = *(const size_t *)component;
    return pc < head->num_pcs ? fabs(head->pc_r_q[pc]) : NAN;
}

/* By how much PC0 follows query position more than a component. */
static double lead_of_pc0(const qk__result_head *head, const void *component)
{
    const size_t first = 0;
    return component_r_q(head, &first) - component_r_q(head, component);
}

static double mean_over_heads(qk__findings *findings, const qk__scope *scope,
                              qk__head_number *number, const void *argument)
{
    qk__units units = qk__units_of(findings, scope, number, argument);
    double mean = units.mean;
    qk__units_free(&units);
    return mean;
}

/* The component after PC0 with the largest mean |r_q|; 0: there is none. */
static size_t runner_up(qk__findings *findings, const qk__scope *scope, double *largest)
{
    size_t best = 0;
    *largest = -1;
    for (size_t pc = 1;; pc++) {
        double mean = mean_over_heads(findings, scope, component_r_q, &pc);
        if (!isfinite(mean))
            return best;
        if (mean > *largest) {
            *largest = mean;
            best = pc;
        }
    }
}

static void pc0_is_positional(qk__findings *findings, const qk__scope *scope)
{
    double other;
    const size_t first = 0;
    size_t best = runner_up(findings, scope, &other);
    double own = mean_over_heads(findings, scope, component_r_q, &first);
    char opposite[120];
    snprintf(opposite, sizeof opposite,
             "It is not the first component that follows query position most @, but PC%zu.",
             best);
    const qk__question question = {
        .id = "pc0-positional",
        .topic = TOPIC,
        .number = lead_of_pc0,
        .component = best,
        .higher = "The first component is the one that follows query position most @.",
        .lower = opposite,
        .either = "The data do not show that the first component follows query position more "
                  "than every other @.",
        .too_few = "Too few heads to tell whether the first component is the positional one.",
    };
    qk__answer lead;
    if (best > 0 && qk__ask(findings, scope, &question, &lead))
        qk__evidence(
            findings,
            "Mean |r_q| is %s on PC0 and %s on PC%zu, the next best; difference %s, %s, %s.",
            qk__show(own, 3).text, qk__show(other, 3).text, best,
            qk__show(lead.estimate.value, 3).text, qk__interval(&lead.estimate, 3).text,
            lead.how_many.text);
}

static double r_q_over_r_k(const qk__result_head *head, const void *unused)
{
    (void)unused;
    return fabs(head->v.r_q) - fabs(head->v.r_k);
}

static const qk__question QUERIES_OVER_KEYS = {
    .id = "queries-over-keys",
    .topic = TOPIC,
    .number = r_q_over_r_k,
    .higher = "Queries follow position more closely than keys on PC0 @.",
    .lower = "Keys follow position more closely than queries on PC0 @.",
    .either = "The data do not show whether queries or keys follow position more closely on "
              "PC0 @.",
    .too_few = "Too few heads to compare queries and keys on PC0.",
};

static void queries_more_than_keys(qk__findings *findings, const qk__scope *scope)
{
    qk__answer lead;
    if (qk__ask(findings, scope, &QUERIES_OVER_KEYS, &lead))
        qk__evidence(findings,
                     "Mean |r_q| − |r_k| on PC0 is %s, %s, %s; |r_q| is the larger one in %s "
                     "of heads.",
                     qk__show(lead.estimate.value, 2).text,
                     qk__interval(&lead.estimate, 3).text, lead.how_many.text,
                     qk__show_percent((double)lead.positive / (double)lead.heads).text);
}

static double is_category(const qk__result_head *head, const void *category)
{
    return head->category < 0 ? NAN : head->category == *(const int *)category;
}

/* Smallest and largest share over models, where units are models. */
static void share_range(const qk__units *units, char *text, size_t size)
{
    double low = INFINITY, high = -INFINITY;
    *text = 0;
    for (size_t i = 0; units->of_models && i < units->count; i++) {
        low = fmin(low, units->values[i]);
        high = fmax(high, units->values[i]);
    }
    if (units->of_models && high > 0)
        snprintf(text, size, "; by model from %s to %s", qk__show_percent(low).text,
                 qk__show_percent(high).text);
}

static double is_uncertain(const qk__result_head *head, const void *unused)
{
    (void)unused;
    double share = head->v.category_share;
    return isfinite(share) ? share < QK_CERTAIN_SHARE : NAN;
}

/* A line of the finding about kinds of heads. */
static void uncertain_heads(qk__findings *findings, const qk__scope *scope)
{
    qk__units units = qk__units_of(findings, scope, is_uncertain, NULL);
    if (units.heads > 0)
        qk__evidence(findings,
                     "The category of %s of %s heads is uncertain: without some of the texts "
                     "it would be another one (category_share below %.1f).",
                     qk__show_count(units.positive).text, qk__show_count(units.heads).text,
                     QK_CERTAIN_SHARE);
    qk__units_free(&units);
}

static void kinds_of_heads(qk__findings *findings, const qk__scope *scope)
{
    static const int order[] = {QK_POSITION_DOMINATED, QK_CONTENT_FOCUSED, QK_Q_POSITIONAL,
                                QK_K_POSITIONAL, QK_MIXED};
    enum { KINDS = sizeof order / sizeof *order };
    size_t of_kind[KINDS], heads = 0;
    char ranges[KINDS][160];
    qk__phrase where;
    for (size_t i = 0; i < KINDS; i++) {
        qk__units units = qk__units_of(findings, scope, is_category, &order[i]);
        heads = units.heads;
        of_kind[i] = units.positive;
        where = qk__where(scope, &units);
        share_range(&units, ranges[i], sizeof ranges[i]);
        qk__units_free(&units);
    }
    if (heads == 0)
        return;
    size_t dominated = of_kind[0], content = of_kind[1];
    qk__finding_begin(findings, "kinds-of-heads", "Kinds of heads", QK__MEASURED);
    qk__claim(findings,
              "%s of heads are position-dominated and %s content-focused on PC0 %s: %s.",
              qk__show_percent((double)dominated / (double)heads).text,
              qk__show_percent((double)content / (double)heads).text, where.text,
              dominated > content   ? "more heads follow position than ignore it"
              : dominated < content ? "more heads ignore position than follow it"
                                    : "as many follow position as ignore it");
    for (size_t i = 0; i < KINDS; i++)
        qk__evidence(findings, "%s: %s of %s heads (%s%s).",
                     qk_category_name((qk_category)order[i]), qk__show_count(of_kind[i]).text,
                     qk__show_count(heads).text,
                     qk__show_percent((double)of_kind[i] / (double)heads).text, ranges[i]);
    uncertain_heads(findings, scope);
}

void qk__findings_pca(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    pc0_is_positional(findings, &scope);
    queries_more_than_keys(findings, &scope);
    kinds_of_heads(findings, &scope);
}
