/* SPDX-License-Identifier: Apache-2.0 */
/* Findings of plasticity: does it fall over the context, does the kind of a head stand for it, and does
 * positional overhead go with it. */
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

/* ---- by kind of head, and with positional overhead -------------------------------------- */

static const qk__kinds_question BY_KIND = {QK__PLASTICITY_BY_KIND, "ap_overall",
                                           QK_CONTENT_FOCUSED, QK_POSITION_DOMINATED};
static const qk__two_numbers OVERHEAD = {.x = "positional_overhead", .y = "ap_overall"};

void qk__findings_plasticity(qk__findings *findings, const qk__results *results)
{
    qk__scope scope = qk__whole_scope(results);
    plasticity_falls(findings, &scope);
    qk__ask_kinds(findings, &scope, &BY_KIND);
    if (qk__ask_relation(findings, &scope, QK__OVERHEAD_PLASTICITY, &OVERHEAD))
        qk__evidence(findings,
                     "Positional overhead: share of the variance of queries and keys, "
                     "each about its own mean, that is linear in position.");
}
