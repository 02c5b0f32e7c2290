/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the rotation model: recency bias, drift of keys against queries, the plane, and
 * whether bias and separation go together. */
#include <math.h>

#include "report/evidence.h"

/* ---- slopes ----------------------------------------------------------------------------- */

static double log_slope_ratio(const qk__result_head *head, const void *unused)
{
    (void)unused;
    return log(fabs(head->v.alpha_k)) - log(fabs(head->v.alpha_q));
}

/* Median over the heads of a scope, as the tables of the page have it. */
static double median_ratio(qk__findings *findings, const qk__scope *scope)
{
    double *ratios =
        qk__work_take(&findings->work, qk__count_heads(scope->results) + 1, sizeof *ratios);
    size_t count = 0;
    if (!ratios)
        return NAN;
    qk__each_in_scope (scope, model)
        qk__each_head (model, head) {
            ratios[count] = exp(qk__number_of(head, log_slope_ratio, NULL));
            count += isfinite(ratios[count]);
        }
    return qk__median(ratios, count);
}

/* What families say together. */
typedef struct votes {
    size_t families, keys, queries, untested;
} votes;

/* One family's sentence and vote. */
static void slope_of(qk__findings *findings, const qk__scope *scope, const char *name,
                     votes *all)
{
    qk__units units = qk__units_of(findings, scope, log_slope_ratio, NULL);
    if (units.count == 0)
        return;
    qk__estimate e = qk__estimate_units(&units, false);
    qk__estimate ratio = {e.count, exp(e.value), exp(e.low), exp(e.high)};
    qk__outcome outcome = qk__tested(findings, qk__test_units(&units, 0, false),
                                     qk__lean(scope, log_slope_ratio, NULL, 0));
    qk__short_name family = qk__short_name_of(name);
    all->families++;
    all->keys += outcome.side > 0;
    all->queries += outcome.side < 0;
    all->untested += isnan(outcome.p);
    qk__evidence(findings,
                 "%s: |α_k| / |α_q|: median over heads %.3g, geometric mean over %s %.3g, %s, "
                 "%s; %s.",
                 *name ? family.text : "All heads", median_ratio(findings, scope),
                 units.of_models ? "models" : "groups", ratio.value, qk__interval(&ratio).text,
                 qk__how_many(&units).text, outcome.text.text);
}

static void claim_slopes(qk__findings *findings, const votes *all)
{
    size_t settled = all->keys + all->queries;
    qk__phrase where = {""};
    if (all->keys > 0 && all->queries > 0) {
        qk__verdict_is(findings, QK__DIVIDED);
        qk__claim(
            findings,
            "Whether keys drift faster than queries depends on the family: keys in %zu of "
            "%zu, queries in %zu, not settled in %zu.",
            all->keys, all->families, all->queries, all->families - settled);
        return;
    }
    if (all->families > 1)
        where = settled == 0               ? qk__phrase_of(" in any family")
                : settled == all->families ? qk__phrase_of(" in every family")
                                           : qk__phrase_of(" in %zu of %zu families; in the "
                                                           "others this is not settled",
                                                           settled, all->families);
    qk__conclude(findings, QK__KEYS_DRIFT_FASTER,
                 all->untested == all->families ? QK__TOO_FEW
                 : settled == 0                 ? QK__UNSUPPORTED
                 : all->keys > 0                ? QK__SUPPORTED
                                                : QK__OPPOSITE,
                 where.text, "");
}

static void keys_drift_faster(qk__findings *findings, const qk__scope *whole)
{
    const qk__results *results = whole->results;
    votes all = {0};
    qk__finding_begin(findings, QK__KEYS_DRIFT_FASTER);
    if (whole->model)
        slope_of(findings, whole, whole->model->label, &all);
    for (size_t f = 0; !whole->model && f < results->num_families; f++) {
        qk__scope scope = {.results = results, .family = results->families[f]};
        slope_of(findings, &scope, results->families[f], &all);
    }
    if (all.families > 0)
        claim_slopes(findings, &all);
    else
        qk__finding_drop(findings);
}

/* ---- plane ------------------------------------------------------------------------------ */

static void plane_variance(qk__findings *findings, const qk__scope *scope)
{
    qk__units units =
        qk__units_of(findings, scope, qk__field_number, qk__find_field("plane_var_fraction"));
    if (units.count == 0)
        return;
    qk__estimate e = qk__estimate_units(&units, false);
    qk__range range = QK__NO_RANGE;
    for (size_t i = 0; i < units.count; i++)
        qk__range_add(&range, units.values[i]);
    qk__finding_begin(findings, QK__PLANE_VARIANCE);
    qk__claim(
        findings,
        "The plane of drift and separation holds %g%% of the variance %s; a picture of the "
        "plane hides the other %g%%.",
        units.mean, qk__where(scope, &units).text, 1 - units.mean);
    qk__evidence(findings, "Share of the variance in the plane: %s, range %g%% to %g%%, %s.",
                 qk__mean_phrase(&units, &e, QK__OF_PERCENTAGES).text, range.low, range.high,
                 qk__how_many(&units).text);
}

/* ---- bias against separation ------------------------------------------------------------ */

/* r: over all heads together, which is not tested: it may come of what sets families apart. */
static void claim_simpson(qk__findings *findings, double r, size_t rising, size_t falling,
                          size_t families)
{
    if ((r > 0 && rising == 0 && falling > 0) || (r < 0 && falling == 0 && rising > 0)) {
        qk__verdict_is(findings, QK__SUPPORTED);
        qk__claim(
            findings,
            "Simpson's paradox: bias and separation go %s over all heads together, but the "
            "other way within %zu of %zu families.",
            r > 0 ? "together" : "against each other", rising + falling, families);
    } else if (rising > 0 && falling > 0) {
        qk__verdict_is(findings, QK__DIVIDED);
        qk__claim(
            findings,
            "Bias and separation go together in %zu of %zu families and against each other in "
            "%zu: the correlation over all heads hides it.",
            rising, families, falling);
    } else if (rising + falling == 0) {
        qk__conclude(findings, QK__BIAS_AND_SEPARATION, QK__UNSUPPORTED, "", "");
    } else {
        qk__verdict_is(findings, QK__UNSUPPORTED);
        qk__claim(findings,
                  "No Simpson's paradox: where bias and separation are related (%zu of %zu "
                  "families) they go %s everywhere.",
                  rising + falling, families, rising ? "together" : "against each other");
    }
}

static const qk__two_numbers BIAS_AND_SEPARATION = {.x = "separation_strength",
                                                    .y = "bias_strength"};

/* Needs two families; checkpoints of one run have none. */
static void bias_and_separation(qk__findings *findings, const qk__results *results)
{
    size_t families = 0, rising = 0, falling = 0, untested = 0;
    qk__scope scope = {.results = results};
    qk__relation all = qk__relate(findings, &scope, &BIAS_AND_SEPARATION);
    if (!isfinite(all.all) || results->num_families < 2 || results->checkpoints)
        return;
    qk__finding_begin(findings, QK__BIAS_AND_SEPARATION);
    qk__evidence(findings, "All heads: r = %.3g over %zu heads.", all.all, all.heads);
    for (size_t f = 0; f < results->num_families; f++) {
        scope.family = results->families[f];
        qk__relation own = qk__relate(findings, &scope, &BIAS_AND_SEPARATION);
        if (own.heads == 0)
            continue;
        qk__outcome outcome = qk__tested(findings, own.test, own.r.value);
        families++;
        rising += outcome.side > 0;
        falling += outcome.side < 0;
        untested += isnan(outcome.p);
        qk__evidence(findings, "%s: %s; %s.", qk__short_name_of(scope.family).text,
                     qk__relation_phrase(&own).text, outcome.text.text);
    }
    if (untested < families)
        claim_simpson(findings, all.all, rising, falling, families);
    else
        qk__conclude(findings, QK__BIAS_AND_SEPARATION, QK__TOO_FEW, "", "");
}

void qk__findings_rotation(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    qk__ask_side(findings, &scope, QK__BIAS_RECENT, "bias_strength", "Bias (μ_q,a · α_k)");
    keys_drift_faster(findings, &scope);
    plane_variance(findings, &scope);
    bias_and_separation(findings, results);
}
