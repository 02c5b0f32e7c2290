/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the combined PCA: is PC0 positional, for whom, and what kinds of heads there
 * are. */
#include <math.h>

#include <qkscope/analysis.h>

#include "report/evidence.h"

/* The sign of a component is chosen so that r_q is not negative, or hardly so: no |r_q|, and the mean is
 * that of the page's tables. */
static double component_r_q(const qk__result_head *head, const void *component)
{
    size_t pc = *(const size_t *)component;
    return pc < head->num_pcs ? head->pc_r_q[pc] : NAN;
}

/* By how much PC0 follows query position more than a component. */
static double lead_of_pc0(const qk__result_head *head, const void *component)
{
    const size_t first = 0;
    return component_r_q(head, &first) - component_r_q(head, component);
}

enum { MOST_COMPONENTS = 64 };

/* PC0 against every other component. */
typedef struct contest {
    size_t count;                    /* of tests: the components after PC0, as far as tested */
    qk__test tests[MOST_COMPONENTS]; /* of the lead over each */
    size_t best;                     /* the one of the others with the largest mean r_q */
    double own, other;               /* mean r_q of PC0, and of that one */
} contest;

static double mean_r_q(qk__findings *findings, const qk__scope *scope, size_t pc)
{
    return qk__units_of(findings, scope, component_r_q, &pc).mean;
}

static contest compare_components(qk__findings *findings, const qk__scope *scope)
{
    contest out = {.own = mean_r_q(findings, scope, 0), .other = -HUGE_VAL};
    for (size_t pc = 1; pc <= MOST_COMPONENTS && !findings->work.failed; pc++) {
        double mean = mean_r_q(findings, scope, pc);
        if (!isfinite(mean))
            break;
        qk__units lead = qk__units_of(findings, scope, lead_of_pc0, &pc);
        out.tests[out.count++] = qk__test_units(&lead, 0, false);
        qk__work_release(&findings->work); /* there may be many components and heads */
        if (mean > out.other) {
            out.other = mean;
            out.best = pc;
        }
    }
    return out;
}

/* First only if it leads each of the others: then all of the tests have to hold. Behind if any of the
 * others leads: which one is not known beforehand, so its p-value is multiplied. */
static void pc0_is_positional(qk__findings *findings, const qk__scope *scope)
{
    contest found = compare_components(findings, scope);
    if (found.count == 0)
        return;
    qk__finding_begin(findings, QK__PC0_POSITIONAL);
    qk__outcome outcome =
        qk__tested(findings,
                   qk__test_of_sides(qk__one_sided_all(found.tests, found.count, 1),
                                     qk__one_sided_any(found.tests, found.count, -1)),
                   qk__lean(scope, lead_of_pc0, &found.best, 0));
    qk__units lead = qk__units_of(findings, scope, lead_of_pc0, &found.best);
    qk__estimate e = qk__estimate_units(&lead, false);
    qk__conclude(findings, QK__PC0_POSITIONAL, qk__verdict_of(&outcome),
                 qk__where(scope, &lead).text, qk__phrase_of("%zu", found.best).text);
    qk__evidence(
        findings,
        "Mean position correlation of queries: %.3g on PC0, %.3g on PC%zu, the next best; "
        "difference: %s, %s.",
        found.own, found.other, found.best, qk__mean_phrase(&lead, &e, QK__OF_NUMBERS).text,
        qk__how_many(&lead).text);
    qk__evidence(findings, "Tested against each of %zu components: %s.", found.count,
                 outcome.text.text);
}

static void queries_more_than_keys(qk__findings *findings, const qk__scope *scope)
{
    static const qk__question LEAD = {.name = QK__QUERIES_OVER_KEYS, .number = qk__query_lead};
    qk__answer lead;
    if (!qk__ask(findings, scope, &LEAD, &lead))
        return;
    qk__units q = qk__units_of(findings, scope, qk__field_size, qk__find_field("r_q"));
    qk__units k = qk__units_of(findings, scope, qk__field_size, qk__find_field("r_k"));
    qk__evidence(
        findings,
        "Position correlation on PC0, whatever its sign: mean %.3g of queries, %.3g of "
        "keys. Difference: %s, %s; %s.",
        q.mean, k.mean, lead.measured.text, lead.how_many.text, lead.p.text);
    qk__evidence(findings, "Queries follow position more closely in %g%% of heads.",
                 (double)lead.positive / (double)lead.heads);
}

static double is_category(const qk__result_head *head, const void *category)
{
    return head->category < 0 ? NAN : head->category == *(const int *)category;
}

/* Smallest and largest share over models, where units are models. */
static qk__phrase share_range(const qk__units *units)
{
    qk__range range = QK__NO_RANGE;
    for (size_t i = 0; units->of_models && i < units->count; i++)
        qk__range_add(&range, units->values[i]);
    return range.high > 0 ? qk__phrase_of("; by model from %g%% to %g%%", range.low, range.high)
                          : (qk__phrase){""};
}

static double is_uncertain(const qk__result_head *head, const void *unused)
{
    (void)unused;
    double share = head->v.category_probability;
    return isfinite(share) ? share < QK_CERTAIN : NAN;
}

/* A line of the finding about kinds of heads. */
static void uncertain_heads(qk__findings *findings, const qk__scope *scope)
{
    qk__units units = qk__units_of(findings, scope, is_uncertain, NULL);
    if (units.heads > 0)
        qk__evidence(
            findings,
            "The category of %zu of %zu heads is not certain: other texts of the kind may give "
            "another one with a probability of more than %g%%.",
            units.positive, units.heads, 1 - QK_CERTAIN);
}

/* Of content-focused heads: whether all dimensions together tell position. */
static double position_is_elsewhere(const qk__result_head *head, const void *unused)
{
    (void)unused;
    double told = fmax(head->v.position_r_q, head->v.position_r_k);
    if (head->category != QK_CONTENT_FOCUSED || !isfinite(told))
        return NAN;
    return told > QK_TELLS_POSITION;
}

static void heads_with_position_elsewhere(qk__findings *findings, const qk__scope *scope)
{
    qk__units units = qk__units_of(findings, scope, position_is_elsewhere, NULL);
    if (units.heads > 0)
        qk__evidence(findings,
                     "Content-focused speaks of PC0 alone: other components of %zu of %zu such "
                     "heads carry "
                     "position (position_r_q or position_r_k above %.3g).",
                     units.positive, units.heads, QK_TELLS_POSITION);
}

static void kinds_of_heads(qk__findings *findings, const qk__scope *scope)
{
    static const int order[] = {QK_POSITION_DOMINATED, QK_CONTENT_FOCUSED, QK_Q_POSITIONAL,
                                QK_K_POSITIONAL, QK_MIXED};
    enum { KINDS = sizeof order / sizeof *order };
    size_t of_kind[KINDS], heads = 0;
    qk__phrase ranges[KINDS], where;
    for (size_t i = 0; i < KINDS; i++) {
        qk__units units = qk__units_of(findings, scope, is_category, &order[i]);
        heads = units.heads;
        of_kind[i] = units.positive;
        where = qk__where(scope, &units);
        ranges[i] = share_range(&units);
    }
    if (heads == 0)
        return;
    size_t dominated = of_kind[0], content = of_kind[1];
    qk__finding_begin(findings, QK__KINDS_OF_HEADS);
    qk__claim(findings,
              "%g%% of heads are position-dominated and %g%% content-focused on PC0 %s: %s.",
              (double)dominated / (double)heads, (double)content / (double)heads, where.text,
              dominated > content   ? "PC0 follows position in more heads than it is free of it"
              : dominated < content ? "PC0 is free of position in more heads than it follows it"
                                    : "in as many heads PC0 follows position as is free of it");
    for (size_t i = 0; i < KINDS; i++)
        qk__evidence(findings, "%s: %zu of %zu heads (%g%%%s).",
                     qk_category_name((qk_category)order[i]), of_kind[i], heads,
                     (double)of_kind[i] / (double)heads, ranges[i].text);
    uncertain_heads(findings, scope);
    heads_with_position_elsewhere(findings, scope);
}

/* ---- separation and drift on PC0 -------------------------------------------------------- */

static double log_separation(const qk__result_head *head, const void *unused)
{
    (void)unused;
    return log(head->v.separation);
}

static double log_amplification(const qk__result_head *head, const void *unused)
{
    (void)unused;
    return log(fabs(head->v.mu_q_beta));
}

static const qk__two_numbers LOGARITHMS = {.number_x = log_separation,
                                           .number_y = log_amplification};

void qk__findings_pca(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    pc0_is_positional(findings, &scope);
    queries_more_than_keys(findings, &scope);
    kinds_of_heads(findings, &scope);
    qk__ask_side(findings, &scope, QK__SEPARATION_FAVOURS, "mu_q_beta",
                 "Amplification (mean query times drift of keys, μ_q · β)");
    if (qk__ask_relation(findings, &scope, QK__SEPARATION_AMPLIFIES, &LOGARITHMS))
        qk__evidence(findings,
                     "Of the logarithms of the separation and of the size of μ_q · β. Both "
                     "grow with the mean query: this says how the two go together, not which "
                     "makes the other.");
}
