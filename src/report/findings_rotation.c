/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of the rotation model: recency bias, drift of keys against queries, the plane, and
 * whether bias and separation go together. */
#include <math.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/error.h"
#include "report/evidence.h"

static const char TOPIC[] = "Rotation model";

static const qk__question RECENT = {
    .id = "bias-recent",
    .topic = TOPIC,
    .field = "bias_strength",
    .share = true,
    .against = 0.5,
    .higher = "Most heads favour recent keys, whatever these say, @.",
    .lower = "Most heads favour early keys, whatever these say, @.",
    .either = "The data do not show that most heads favour recent keys, nor early ones, @.",
    .too_few = "Too few heads to tell whether recent keys are favoured.",
};

static void bias_favours_recent(qk__findings *findings, const qk__scope *scope)
{
    qk__answer above;
    if (qk__ask(findings, scope, &RECENT, &above))
        qk__evidence(findings, "Bias (μ_q,a · α_k) is above 0 in %s of %s heads (%s), %s, %s.",
                     qk__show_count(above.positive).text, qk__show_count(above.heads).text,
                     qk__show_percent((double)above.positive / (double)above.heads).text,
                     qk__interval_percent(&above.estimate).text, above.how_many.text);
}

/* ---- slopes ----------------------------------------------------------------------------- */

static double log_slope_ratio(const qk__result_head *head, const void *unused)
{
    (void)unused;
    return log(fabs(head->v.alpha_k)) - log(fabs(head->v.alpha_q));
}

/* One family's sentence; returns its verdict. */
static qk__verdict slope_of(qk__findings *findings, const qk__scope *scope, const char *name)
{
    qk__units units = qk__units_of(findings, scope, log_slope_ratio, NULL);
    qk__verdict verdict = QK__NUM_VERDICTS;
    if (units.count > 0) {
        qk__estimate e = qk__estimate_mean(units.values, units.count);
        verdict = qk__judge(&e, 0);
        qk__estimate ratio = {e.count, exp(e.value), exp(e.low), exp(e.high)};
        qk__phrase interval = qk__interval(&ratio, 3), n = qk__how_many(&units);
        qk__short_name family = qk__short_name_of(name);
        qk__evidence(findings, "%s: |α_k| / |α_q| is %s (geometric mean), %s, %s.",
                     *name ? family.text : "All heads", qk__show(ratio.value, 3).text,
                     interval.text, n.text);
    }
    qk__units_free(&units);
    return verdict;
}

static void keys_drift_faster(qk__findings *findings, const qk__scope *whole)
{
    const qk__results *results = whole->results;
    size_t seen[QK__NUM_VERDICTS + 1] = {0}, families = 0;
    qk__units any = qk__units_of(findings, whole, log_slope_ratio, NULL);
    bool present = any.count > 0;
    qk__units_free(&any);
    if (!present)
        return;
    qk__finding_begin(findings, "keys-drift-faster", TOPIC, QK__MEASURED);
    if (whole->model) {
        seen[slope_of(findings, whole, whole->model->label)]++;
        families = 1;
    }
    for (size_t f = 0; !whole->model && f < results->num_families; f++) {
        qk__scope scope = {.results = results, .family = results->families[f]};
        seen[slope_of(findings, &scope, results->families[f])]++;
        families++;
    }
    families -= seen[QK__NUM_VERDICTS]; /* those without slopes */
    qk__verdict verdict = seen[QK__TOO_FEW] == families                   ? QK__TOO_FEW
                          : seen[QK__SUPPORTED] == families               ? QK__SUPPORTED
                          : seen[QK__OPPOSITE] == families                ? QK__OPPOSITE
                          : seen[QK__SUPPORTED] + seen[QK__OPPOSITE] == 0 ? QK__UNSUPPORTED
                                                                          : QK__DIVIDED;
    qk__finding_verdict(findings, verdict);
    const char *each = families > 1 ? " in every family" : "";
    if (verdict == QK__SUPPORTED)
        qk__claim(findings, "Keys drift faster with position than queries%s.", each);
    else if (verdict == QK__OPPOSITE)
        qk__claim(findings, "Queries drift faster with position than keys%s.", each);
    else if (verdict == QK__DIVIDED)
        qk__claim(
            findings,
            "Whether keys drift faster than queries depends on the family: keys in %zu of "
            "%zu, queries in %zu, not settled in %zu.",
            seen[QK__SUPPORTED], families, seen[QK__OPPOSITE],
            families - seen[QK__SUPPORTED] - seen[QK__OPPOSITE]);
    else if (verdict == QK__UNSUPPORTED)
        qk__claim(findings, "The data do not show whether keys or queries drift faster%s.",
                  each);
    else
        qk__claim(findings, "Too few heads to tell whether keys drift faster than queries.");
}

/* ---- plane ------------------------------------------------------------------------------ */

static void plane_variance(qk__findings *findings, const qk__scope *scope)
{
    qk__units units =
        qk__units_of(findings, scope, qk__field_number, qk__find_field("plane_var_fraction"));
    if (units.count > 0) {
        qk__estimate e = qk__estimate_mean(units.values, units.count);
        qk__phrase where = qk__where(scope, &units), n = qk__how_many(&units);
        double low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < units.count; i++) {
            low = fmin(low, units.values[i]);
            high = fmax(high, units.values[i]);
        }
        qk__finding_begin(findings, "plane-variance", TOPIC, QK__MEASURED);
        qk__claim(
            findings,
            "The plane of drift and separation holds %s of the variance %s; a picture of the "
            "plane hides the other %s.",
            qk__show_percent(e.value).text, where.text, qk__show_percent(1 - e.value).text);
        qk__evidence(findings, "Mean %s, %s, range %s to %s, %s.",
                     qk__show_percent(e.value).text, qk__interval_percent(&e).text,
                     qk__show_percent(low).text, qk__show_percent(high).text, n.text);
    }
    qk__units_free(&units);
}

/* ---- bias against separation ------------------------------------------------------------ */

typedef struct relation {
    qk__line line;
    size_t groups; /* of heads that share keys: what the interval counts */
    qk__estimate r;
} relation;

/* Over the heads of a scope. x and y hold as many numbers as there are heads. */
static relation relate(const qk__scope *scope, double *x, double *y)
{
    relation out = {.groups = 0};
    size_t count = 0;
    for (size_t m = 0; m < scope->results->num_models; m++) {
        const qk__result_model *model = &scope->results->models[m];
        if (!qk__in_scope(scope, model))
            continue;
        int layer = -1, key = -1;
        for (size_t h = 0; h < model->num_heads; h++) {
            const qk__result_head *head = &model->heads[h];
            double separation = head->v.separation_strength, bias = head->v.bias_strength;
            if (!isfinite(separation) || !isfinite(bias) || qk__has_few_rows(head))
                continue;
            out.groups += head->layer != layer || head->k_head != key;
            layer = head->layer;
            key = head->k_head;
            x[count] = separation;
            y[count++] = bias;
        }
    }
    out.line = qk__fit_line(x, y, count);
    out.r = qk__estimate_correlation(out.line.r, out.groups);
    return out;
}

static void cite_relation(qk__findings *findings, const char *name, const relation *found)
{
    qk__evidence(findings, "%s: r = %s, %s, n = %s groups of heads that share keys (%s heads).",
                 name, qk__show(found->r.value, 2).text, qk__interval(&found->r, 3).text,
                 qk__show_count(found->groups).text, qk__show_count(found->line.count).text);
}

static void claim_simpson(qk__findings *findings, const relation *all, size_t rising,
                          size_t falling, size_t families)
{
    int side = qk__estimate_side(&all->r, 0);
    bool reversed =
        (side > 0 && rising == 0 && falling > 0) || (side < 0 && falling == 0 && rising > 0);
    if (reversed) {
        qk__finding_verdict(findings, QK__SUPPORTED);
        qk__claim(
            findings,
            "Simpson's paradox: bias and separation go %s over all heads together, but the "
            "other way within %zu of %zu families.",
            side > 0 ? "together" : "against each other", rising + falling, families);
    } else if (rising > 0 && falling > 0) {
        qk__finding_verdict(findings, QK__DIVIDED);
        qk__claim(
            findings,
            "Bias and separation go together in %zu of %zu families and against each other in "
            "%zu: the correlation over all heads hides it.",
            rising, families, falling);
    } else if (rising + falling == 0) {
        qk__claim(findings, "No family shows a relation of bias and separation that stands out "
                            "from chance.");
    } else {
        qk__claim(findings,
                  "No Simpson's paradox: where bias and separation are related (%zu of %zu "
                  "families) they go %s everywhere.",
                  rising + falling, families, rising ? "together" : "against each other");
    }
}

/* Needs two families; checkpoints of one run have none. */
static void bias_and_separation(qk__findings *findings, const qk__results *results)
{
    size_t room = qk__count_heads(results) + 1, families = 0, rising = 0, falling = 0;
    double *x = qk__calloc(room, sizeof *x), *y = qk__calloc(room, sizeof *y);
    if (!x || !y) {
        findings->status = qk__nomem(&findings->err);
    } else {
        qk__scope scope = {.results = results};
        relation all = relate(&scope, x, y);
        if (isfinite(all.r.low) && results->num_families > 1 && !results->checkpoints) {
            qk__finding_begin(findings, "bias-and-separation", TOPIC, QK__UNSUPPORTED);
            cite_relation(findings, "All heads", &all);
            for (size_t f = 0; f < results->num_families; f++) {
                scope.family = results->families[f];
                relation own = relate(&scope, x, y);
                int side = qk__estimate_side(&own.r, 0);
                rising += side > 0;
                falling += side < 0;
                families += own.line.count > 0;
                cite_relation(findings, qk__short_name_of(scope.family).text, &own);
            }
            claim_simpson(findings, &all, rising, falling, families);
        }
    }
    free(x);
    free(y);
}

void qk__findings_rotation(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    bias_favours_recent(findings, &scope);
    keys_drift_faster(findings, &scope);
    plane_variance(findings, &scope);
    bias_and_separation(findings, results);
}
