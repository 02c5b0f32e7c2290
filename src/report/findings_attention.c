/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of measured attention, and of heads that are changed: do the kinds of heads, positional overhead and the drift
 * of keys say how heads attend, and what they need. */
#include <math.h>

#include "report/evidence.h"

static const qk__kinds_question BY_KIND = {QK__ATTENTION_BY_KIND, "distance_share",
                                           QK_POSITION_DOMINATED, QK_CONTENT_FOCUSED};
static const qk__two_numbers OVERHEAD = {.x = "positional_overhead", .y = "distance_share"};
static const qk__two_numbers SLOPES = {.x = "rotation_slope", .y = "distance_slope"};

static const qk__kinds_question NEED_BY_KIND = {QK__NEED_BY_KIND, "freeze_share",
                                                QK_POSITION_DOMINATED, QK_CONTENT_FOCUSED};
static const qk__two_numbers DISTANCE_CONTENT = {.x = "distance_share", .y = "profile_share"};

/* Of measured and predicted slope: 1 where both have one sign, else -1. */
static double sign_of_slopes(const qk__result_head *head, const void *unused)
{
    (void)unused;
    double product = head->v.rotation_slope * head->v.distance_slope;
    return isfinite(product) ? (product > 0 ? 1 : -1) : NAN;
}

void qk__findings_attention(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    qk__ask_kinds(findings, &scope, &BY_KIND);
    qk__ask_relation(findings, &scope, QK__OVERHEAD_DISTANCE, &OVERHEAD);
    qk__ask_kinds(findings, &scope, &NEED_BY_KIND);
    qk__ask_relation(findings, &scope, QK__DISTANCE_CONTENT, &DISTANCE_CONTENT);
    if (!qk__ask_relation(findings, &scope, QK__DRIFT_SLOPE, &SLOPES))
        return;
    qk__units same = qk__units_of(findings, &scope, sign_of_slopes, NULL);
    if (same.heads > 0)
        qk__evidence(findings, "Both slopes have the same sign in %g%% of heads.",
                     (double)same.positive / (double)same.heads);
}
