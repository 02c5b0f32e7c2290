/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a mean over units lies above or below a bound, a share of heads above or below one half, and a component
 * before all others. */
#include <math.h>

#include "report/answers.h"
#include "stats/means.h"

/* ---- means and shares ------------------------------------------------------------------- */

/* "mean over heads 0.31, mean over models 0.30, 95 % interval 0.12 to 0.31": the mean over heads is what the page's
 * tables show. Where units are groups, their mean is left out. A share reads "31.0 % of heads, ...". */
static qk__phrase mean_phrase(const qk__units *units, const qk__estimate *e, bool share)
{
    qk__phrase out = share ? qk__phrase_of("%g%% of heads", units->mean)
                           : qk__phrase_of("mean over heads %.3g", units->mean);
    if (units->of_models && share)
        qk__add_words(out.text, sizeof out.text, ", mean over models %g%%", e->value);
    else if (units->of_models)
        qk__add_words(out.text, sizeof out.text, ", mean over models %.3g", e->value);
    if (share && isfinite(e->low))
        qk__add_words(out.text, sizeof out.text, ", 95 %% interval %g%% to %g%%", e->low,
                      e->high);
    else
        qk__add_words(out.text, sizeof out.text, ", %s", qk__interval(e).text);
    return out;
}

/* The share of a layer's heads on one side stops at 0 and 1, so layers that all stop there seem to agree. The distance
 * of heads from the bound shows how layers differ, so it is tested as well, in units of the median distance; no
 * outlier counts for more than a few units. */
static qk__test test_distances(qk__work *work, const qk__asked *asked, double bound,
                               qk__test shares)
{
    const double most = 3;
    size_t count = asked->of->count, known = 0;
    double *far = qk__work_take(work, count + 1, sizeof *far);
    double *sizes = qk__work_take(work, count + 1, sizeof *sizes);
    if (!far || !sizes)
        return shares;
    for (size_t i = 0; i < count; i++)
        if (isfinite(asked->y[i]))
            sizes[known++] = fabs(asked->y[i] - bound);
    double typical = qk__median(sizes, known);
    for (size_t i = 0; i < count; i++) {
        double off = (asked->y[i] - bound) / typical;
        far[i] = isfinite(off) ? fmin(most, fmax(-most, off)) : NAN;
    }
    const qk__asked distances = {.of = asked->of, .y = far};
    qk__units units = qk__units_of(work, &distances, far, 0);
    qk__test test = qk__test_groups(units.groups, units.num_groups, &units.layers, 0, false);
    if (isnan(test.p))
        return test;
    shares.p = shares.side == test.side ? fmax(shares.p, test.p) : 1;
    return shares;
}

static const double *above_bound(qk__work *work, const qk__asked *asked, double bound)
{
    double *out = qk__work_take(work, asked->of->count + 1, sizeof *out);
    for (size_t i = 0; out && i < asked->of->count; i++)
        out[i] = isfinite(asked->y[i]) ? asked->y[i] > bound : NAN;
    return out;
}

qk__answer qk__ask_mean(qk__findings *findings, const qk__question *question,
                        const qk__asked *asked)
{
    qk__work *work = &findings->work;
    const bool share = question->kind == QK__SHARE;
    const double against = share ? 0.5 : question->against;
    const qk__asked own = {
        asked->of, share ? above_bound(work, asked, question->against) : asked->y, NULL, ""};
    qk__units units = own.y ? qk__units_of(work, &own, own.y, against) : (qk__units){0};
    if (units.count == 0)
        return (qk__answer){0};
    qk__estimate e = qk__estimate_units(&units, share);
    qk__test test = qk__test_units(&units, against, question->kind != QK__MEAN);
    if (share && !units.of_models)
        test = test_distances(work, asked, question->against, test);
    e = share ? qk__widen_to_test(e, &test) : e;
    qk__answer answer = {.any = true,
                         .outcome = qk__tested(findings, test, units.lean),
                         .where = qk__where(asked, &units)};
    qk__evidence(findings, "%s%s is above %.1g in %zu of %zu heads: %s, %s; %s.",
                 qk__of_name(asked).text, question->what, question->against, units.above,
                 units.heads, mean_phrase(&units, &e, share).text, qk__how_many(&units).text,
                 answer.outcome.text.text);
    return answer;
}

/* ---- components ------------------------------------------------------------------------- */

enum { MOST_COMPONENTS = 64 };

/* Component 0 against all other components. */
typedef struct contest {
    size_t count; /* of tests: of the components after the first that are tested */
    qk__test tests[MOST_COMPONENTS]; /* of the lead of component 0 over each */
    size_t best;                     /* the other component with the largest mean */
    double own, other;               /* means of component 0 and of `best` */
    qk__units lead;                  /* of component 0 over `best` */
} contest;

/* Reads the numbers of the next component, whose rows begin at *row, and by how much component 0 leads it. */
static void read_component(const qk__asked *asked, size_t *row, double *number, double *lead)
{
    const qk_columns *rows = asked->of->components;
    const int64_t *id = qk_columns_integers(rows, "head_id"),
                  *pc = qk_columns_integers(rows, "pc");
    const double *r_q = qk_columns_reals(rows, "r_q");
    size_t count = qk_columns_num_rows(rows), i = *row;
    for (size_t h = 0; h < asked->of->count; h++) {
        while (i < count && pc[i] == pc[*row] && id[i] < asked->of->id[h])
            i++;
        bool found = i < count && pc[i] == pc[*row] && id[i] == asked->of->id[h] &&
                     isfinite(asked->y[h]);
        number[h] = found ? r_q[i] : NAN;
        lead[h] = found ? asked->y[h] - r_q[i] : NAN;
    }
    int64_t done = pc[*row];
    while (*row < count && pc[*row] == done)
        ++*row;
}

static contest compare_components(qk__work *work, const qk__asked *asked)
{
    contest out = {.own = qk__units_of(work, asked, asked->y, 0).mean, .other = -HUGE_VAL};
    size_t rows = qk_columns_num_rows(asked->of->components), room = asked->of->count + 1,
           best = 0;
    double *number = qk__work_take(work, room, sizeof *number);
    double *lead = qk__work_take(work, room, sizeof *lead);
    const qk__asked of_number = {.of = asked->of, .y = number},
                    of_lead = {.of = asked->of, .y = lead};
    for (size_t row = 0, start; row < rows && out.count < MOST_COMPONENTS && !work->failed;) {
        qk__work own = {0}; /* there may be many components and heads */
        start = row;
        read_component(asked, &row, number, lead);
        double mean = qk__units_of(&own, &of_number, number, 0).mean;
        qk__units units = qk__units_of(&own, &of_lead, lead, 0);
        if (isfinite(mean))
            out.tests[out.count++] = qk__test_units(&units, 0, false);
        if (mean > out.other) {
            out.other = mean;
            out.best = out.count;
            best = start;
        }
        work->failed |= own.failed;
        qk__work_release(&own);
        if (!isfinite(mean))
            break;
    }
    if (out.count > 0 && !work->failed) {
        read_component(asked, &best, number, lead);
        out.lead = qk__units_of(work, &of_lead, lead, 0);
    }
    return out;
}

/* Component 0 is first only if it leads every other component: all tests have to hold. It is behind if any other
 * component leads: which of them is not known beforehand, so that p-value is multiplied. */
qk__answer qk__ask_first(qk__findings *findings, const qk__question *question,
                         const qk__asked *asked)
{
    contest found = compare_components(&findings->work, asked);
    if (found.count == 0 || findings->work.failed)
        return (qk__answer){0};
    qk__estimate e = qk__estimate_units(&found.lead, false);
    qk__answer answer = {.any = true,
                         .outcome = qk__tested(
                             findings,
                             qk__test_of_sides(qk__one_sided_all(found.tests, found.count, 1),
                                               qk__one_sided_any(found.tests, found.count, -1)),
                             found.lead.lean),
                         .where = qk__where(asked, &found.lead),
                         .what = qk__phrase_of("%zu", found.best)};
    qk__evidence(findings,
                 "%s: mean over heads %.3g on PC0, %.3g on PC%zu, the next best; difference: "
                 "%s, %s.",
                 question->what, found.own, found.other, found.best,
                 mean_phrase(&found.lead, &e, false).text, qk__how_many(&found.lead).text);
    qk__evidence(findings, "Tested against each of %zu components: %s.", found.count,
                 answer.outcome.text.text);
    return answer;
}
