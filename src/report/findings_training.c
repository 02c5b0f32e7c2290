/* SPDX-License-Identifier: Apache-2.0 */
/* Findings over checkpoints: how each number goes, where it turns and where its largest step is; whether
 * the large steps lie between phases; whether keys part from position when the context grows. One run
 * says nothing about another, and the sentences say so. */
#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "report/curve.h"
#include "tables/text_lengths.h"

static const struct {
    qk__finding_name name;
    const char *field;
    qk__head_number *number; /* keys of some heads go against their queries: r_k by its size */
} WATCHED[] = {
    {QK__TRAINING_R_Q, "r_q", qk__field_number},
    {QK__TRAINING_R_K, "r_k", qk__field_size},
    {QK__TRAINING_EV0, "ev0", qk__field_number},
    {QK__TRAINING_BIAS, "bias_strength", qk__field_number},
    {QK__TRAINING_PLASTICITY, "ap_overall", qk__field_number},
    {QK__TRAINING_DROP, "ap_drop", qk__field_number},
    /* Where texts are of one length, the bias says the same. */
    {QK__TRAINING_BIAS_OVER_CONTEXT, "bias_over_context", qk__field_number},
};
enum { NUM_WATCHED = sizeof WATCHED / sizeof *WATCHED, NUM_APART = NUM_WATCHED - 1 };

/* ---- curves ----------------------------------------------------------------------------- */

/* "NAME (PHASE)". */
static qk__phrase checkpoint(const qk__result_model *model)
{
    return qk__phrase_of("%s (%s)", qk__short_name_of(model->label).text,
                         qk__short_name_of(model->phase).text);
}

/* "within PHASE", "between PHASE and PHASE". */
static qk__phrase place_of_step(const qk__result_model *from, const qk__result_model *to)
{
    if (from->phase_index == to->phase_index)
        return qk__phrase_of("within the phase %s", qk__short_name_of(from->phase).text);
    return qk__phrase_of("between the phases %s and %s", qk__short_name_of(from->phase).text,
                         qk__short_name_of(to->phase).text);
}

static size_t largest_step(const qk__curve *curve)
{
    size_t largest = 0;
    for (size_t m = 0; m + 1 < curve->count; m++)
        if (fabs(curve->means[m + 1] - curve->means[m]) >
            fabs(curve->means[largest + 1] - curve->means[largest]))
            largest = m;
    return largest;
}

/* 1: every step goes up, -1: down, 0: neither. */
static int monotone(const qk__curve *curve)
{
    size_t up = 0, down = 0;
    for (size_t m = 0; m + 1 < curve->count; m++) {
        up += curve->means[m + 1] > curve->means[m];
        down += curve->means[m + 1] < curve->means[m];
    }
    return up + 1 == curve->count ? 1 : down + 1 == curve->count ? -1 : 0;
}

/* "falls from 0.46 at A to 0.08 at B, then it rises to 0.64 at C; the largest step, ..." */
static void claim_legs(qk__findings *findings, const char *noun, const qk__curve *curve,
                       const size_t *pivots, size_t legs)
{
    char path[1000] = "";
    qk__phrase largest = {""};
    for (size_t i = 0; i <= legs; i++) {
        bool up = i > 0 && curve->means[pivots[i]] > curve->means[pivots[i - 1]];
        qk__add_words(path, sizeof path, "%s %.3g at %s",
                      i == 0   ? "from"
                      : i == 1 ? " to"
                      : up     ? ", then it rises to"
                               : ", then it falls to",
                      curve->means[pivots[i]], checkpoint(curve->points[pivots[i]]).text);
    }
    size_t step = largest_step(curve);
    if (qk__curve_test(curve, step, step + 1).p <= findings->tests.level)
        largest = qk__phrase_of(
            "; the largest step, %.3g, lies %s", curve->means[step + 1] - curve->means[step],
            place_of_step(curve->points[step], curve->points[step + 1]).text);
    bool whole = legs == 1 && pivots[0] == 0 && pivots[1] + 1 == curve->count;
    qk__claim(findings, "Over training, %s %s %s%s%s.", noun,
              curve->means[pivots[1]] > curve->means[pivots[0]] ? "rises" : "falls", path,
              !whole                 ? ""
              : monotone(curve) != 0 ? ", in every step"
                                     : ", without a turn that stands out",
              largest.text);
}

/* Means with their intervals: all, or those that matter where there are many. */
static void tell_means(qk__findings *findings, const qk__curve *curve, const size_t *pivots,
                       size_t legs)
{
    enum { MANY = 12 };
    char line[1400] = "";
    for (size_t m = 0; m < curve->count; m++) {
        bool said = curve->count <= MANY || m == 0 || m + 1 == curve->count;
        for (size_t i = 0; legs > 0 && i <= legs; i++)
            said |= pivots[i] == m;
        if (said)
            qk__add_words(line, sizeof line, "%s%s %.3g ± %.3g", *line ? ", " : "",
                          qk__short_name_of(curve->points[m]->label).text, curve->means[m],
                          curve->halves[m]);
    }
    qk__evidence(
        findings,
        "Mean over %zu heads (%zu groups that share keys), ± half of its 95 %% interval "
        "within heads: %s.",
        curve->heads, curve->groups, line);
}

static void tell_change(qk__findings *findings, const char *what, const qk__curve *curve,
                        size_t from, size_t to)
{
    qk__estimate change = qk__curve_change(curve, from, to);
    qk__evidence(findings, "%s %s to %s, %s: %.3g, %s; p = %e, corrected for %zu pair%s.", what,
                 qk__short_name_of(curve->points[from]->label).text,
                 qk__short_name_of(curve->points[to]->label).text,
                 place_of_step(curve->points[from], curve->points[to]).text, change.value,
                 qk__interval(&change).text, qk__curve_test(curve, from, to).p,
                 curve->count * (curve->count - 1) / 2, curve->count > 2 ? "s" : "");
}

static void tell_changes(qk__findings *findings, const qk__curve *curve, const size_t *pivots,
                         size_t legs)
{
    size_t step = largest_step(curve);
    bool told = false;
    for (size_t i = 0; i < legs; i++) {
        tell_change(findings, "Change from", curve, pivots[i], pivots[i + 1]);
        told |= pivots[i] == step && pivots[i + 1] == step + 1;
    }
    if (!told)
        tell_change(findings, "Largest step from", curve, step, step + 1);
}

/* pivots: room for as many as there are checkpoints. */
static void state_curve(qk__findings *findings, size_t watched, const qk__curve *curve,
                        size_t *pivots)
{
    size_t from = 0, to = 0, legs = 0;
    qk__phrase noun = qk__noun_of(WATCHED[watched].field, WATCHED[watched].number);
    qk__finding_begin(findings, WATCHED[watched].name);
    qk__test surest = qk__curve_test_any(curve, &from, &to);
    qk__outcome outcome = qk__tested(findings, surest, qk__curve_lean(curve, from, to));
    if (outcome.side != 0)
        legs = qk__curve_legs(curve, findings->tests.level, pivots);
    qk__conclude(findings, WATCHED[watched].name,
                 legs > 0 || outcome.side == 0 ? qk__verdict_of(&outcome) : QK__UNSUPPORTED, "",
                 noun.text);
    if (legs > 0)
        claim_legs(findings, noun.text, curve, pivots, legs);
    tell_means(findings, curve, pivots, legs);
    if (!isnan(outcome.p)) {
        tell_changes(findings, curve, pivots, legs);
        qk__evidence(findings, "The most certain change of all pairs: %s.", outcome.text.text);
    }
    qk__evidence(findings, "One training run: another might go another way.");
}

static void state_curves(qk__findings *findings, const qk__results *results)
{
    size_t *pivots = qk__work_take(&findings->work, results->num_models + 1, sizeof *pivots);
    const size_t count = qk__has_unlike_lengths(results) ? NUM_WATCHED : NUM_APART;
    for (size_t i = 0; i < count; i++) {
        qk__curve curve = qk__curve_of(findings, results->models, results->num_models,
                                       WATCHED[i].number, qk__find_field(WATCHED[i].field));
        if (curve.count <= 1)
            continue;
        state_curve(findings, i, &curve, pivots);
        if (strncmp(WATCHED[i].field, "ap_", 3) == 0)
            qk__tell_held_keys(findings, &(qk__scope){.results = results});
    }
}

/* ---- steps between phases --------------------------------------------------------------- */

/* Adds to each step its rank by size among the steps of a number; false: not all checkpoints have it. */
static bool add_ranks(qk__findings *findings, const qk__results *results, size_t watched,
                      double *ranks)
{
    qk__curve curve =
        qk__curve_of(findings, results->models, results->num_models, WATCHED[watched].number,
                     qk__find_field(WATCHED[watched].field));
    bool whole = curve.count == results->num_models;
    for (size_t i = 0; whole && i + 1 < curve.count; i++) {
        double size = fabs(curve.means[i + 1] - curve.means[i]);
        for (size_t j = 0; j + 1 < curve.count; j++) {
            double other = fabs(curve.means[j + 1] - curve.means[j]);
            ranks[i] += i == j ? 1 : other < size ? 1 : other == size ? 0.5 : 0;
        }
    }
    return whole;
}

static void steps_between_phases(qk__findings *findings, const qk__results *results)
{
    enum { ENOUGH_STEPS = 4 };
    size_t steps = results->num_models - 1, known = 0, between = 0;
    double inside = 0, outside = 0;
    double *ranks = qk__work_take(&findings->work, steps, sizeof *ranks);
    char *marked = qk__work_take(&findings->work, steps, sizeof *marked);
    for (size_t i = 0; !findings->work.failed && i < NUM_APART; i++)
        known += add_ranks(findings, results, i, ranks);
    if (known == 0)
        return;
    for (size_t i = 0; i < steps; i++) {
        marked[i] = results->models[i].phase_index != results->models[i + 1].phase_index;
        between += marked[i];
        *(marked[i] ? &outside : &inside) += ranks[i] / (double)known;
    }
    qk__finding_begin(findings, QK__TRAINING_STEPS);
    qk__test test = {NAN, 0};
    if (steps >= ENOUGH_STEPS)
        findings->work.failed |= !qk__test_ranks(ranks, marked, steps, &test);
    /* Of pairs of a step of each kind: the share in which the one between phases is larger, less the other. */
    double lean =
        2 * (outside / (double)between - inside / (double)(steps - between)) / (double)steps;
    qk__outcome outcome = qk__tested(findings, test, lean);
    qk__conclude(findings, QK__TRAINING_STEPS, qk__verdict_of(&outcome), "", "");
    qk__evidence(
        findings,
        "Steps ranked by size, mean over %zu numbers (1: the smallest of %zu): between "
        "phases %.3g (n = %zu), within a phase %.3g (n = %zu); %s.",
        known, steps, outside / (double)between, between, inside / (double)(steps - between),
        steps - between, outcome.text.text);
}

/* ---- longer contexts -------------------------------------------------------------------- */

/* Whether a phase is called by its long context: one of its words begins with "long", "context" or
 * "ctx", or is LC, or LC with a number. */
static bool is_long_context(const char *phase)
{
    for (const char *word = phase; *word; word++) {
        if (word > phase && isalnum((unsigned char)word[-1]))
            continue;
        if (strncasecmp(word, "long", 4) == 0 || strncasecmp(word, "context", 7) == 0 ||
            strncasecmp(word, "ctx", 3) == 0 ||
            (strncasecmp(word, "lc", 2) == 0 && !isalpha((unsigned char)word[2])))
            return true;
    }
    return false;
}

/* From the checkpoint before the first phase of long contexts to the last of such a phase. pair: both. */
static void state_longer(qk__findings *findings, const qk__result_model *pair)
{
    const qk__field *r_q = qk__find_field("r_q"), *r_k = qk__find_field("r_k");
    qk__curve q = qk__curve_of(findings, pair, 2, qk__field_size, r_q);
    qk__curve k = qk__curve_of(findings, pair, 2, qk__field_size, r_k);
    qk__curve lead = qk__curve_of(findings, pair, 2, qk__query_lead, NULL);
    if (q.count != 2 || k.count != 2 || lead.count != 2)
        return;
    qk__test keys = qk__curve_test(&k, 0, 1);
    keys.side = -keys.side; /* both, if keys follow position less and queries lead by more */
    const qk__test tests[] = {keys, qk__curve_test(&lead, 0, 1)};
    qk__estimate fall = qk__curve_change(&k, 0, 1), gain = qk__curve_change(&lead, 0, 1);
    qk__finding_begin(findings, QK__TRAINING_LONG_CONTEXT);
    qk__outcome outcome = qk__tested(
        findings,
        qk__test_of_sides(qk__one_sided_all(tests, 2, 1), qk__one_sided_all(tests, 2, -1)),
        fmin(fabs(qk__curve_lean(&k, 0, 1)), fabs(qk__curve_lean(&lead, 0, 1))));
    qk__conclude(findings, QK__TRAINING_LONG_CONTEXT, qk__verdict_of(&outcome), "", "");
    qk__evidence(
        findings,
        "From %s to %s, position correlation on PC0, whatever its sign: queries %.3g to "
        "%.3g, keys %.3g to %.3g.",
        checkpoint(&pair[0]).text, checkpoint(&pair[1]).text, q.means[0], q.means[1],
        k.means[0], k.means[1]);
    qk__evidence(
        findings,
        "Change of keys: %.3g, %s; of the lead of queries: %.3g, %s; n = %zu groups of "
        "heads that share keys (%zu heads). Both tested: %s.",
        fall.value, qk__interval(&fall).text, gain.value, qk__interval(&gain).text, lead.groups,
        lead.heads, outcome.text.text);
}

/* Of each head that both have: by how much |r_k| fell, and the change of ln(mean_distance). */
static qk__result_model changes_of(qk__findings *findings, const qk__result_model *pair)
{
    qk__result_model out = pair[1];
    size_t at[2] = {0};
    const qk__result_head *both[2];
    out.num_heads = 0;
    out.heads = qk__work_take(&findings->work, pair[1].num_heads, sizeof *out.heads);
    while (out.heads && qk__next_pair(&pair[0], &pair[1], at, both)) {
        if (!both[0] || !both[1] || qk__has_few_rows(both[0]))
            continue;
        qk__result_head *head = &out.heads[out.num_heads++];
        *head = *both[1];
        head->v.r_k = fabs(both[0]->v.r_k) - fabs(both[1]->v.r_k);
        head->v.mean_distance = log(both[1]->v.mean_distance / both[0]->v.mean_distance);
    }
    return out;
}

/* The same of what heads attend to, where that was measured. */
static void state_farther(qk__findings *findings, const qk__result_model *pair)
{
    static const qk__two_numbers FALL_AND_REACH = {.x = "r_k", .y = "mean_distance"};
    qk__result_model changes = changes_of(findings, pair);
    const qk__results results = {.num_models = 1, .models = &changes};
    qk__scope scope = qk__whole_scope(&results);
    if (qk__ask_relation(findings, &scope, QK__TRAINING_FARTHER, &FALL_AND_REACH))
        qk__evidence(findings,
                     "From %s to %s, of each head: the fall of |r_k|, and the change of the "
                     "logarithm of its mean distance without the sink (%.3g in the mean).",
                     checkpoint(&pair[0]).text, checkpoint(&pair[1]).text,
                     qk__mean_over_heads(&changes, qk__find_field("mean_distance")));
}

static void longer_contexts(qk__findings *findings, const qk__results *results)
{
    size_t first = 0, last = 0;
    for (size_t m = results->num_models; m-- > 0;)
        if (is_long_context(results->models[m].phase)) {
            first = m;
            last = m > last ? m : last;
        }
    if (last == 0 || first == 0)
        return; /* no such phase, or nothing before it */
    const qk__result_model pair[] = {results->models[first - 1], results->models[last]};
    state_longer(findings, pair);
    state_farther(findings, pair);
}

void qk__findings_training(qk__findings *findings, const qk__results *results)
{
    if (!results->checkpoints || results->num_models < 2)
        return;
    state_curves(findings, results);
    steps_between_phases(findings, results);
    longer_contexts(findings, results);
}
