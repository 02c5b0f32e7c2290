/* SPDX-License-Identifier: Apache-2.0 */
/* What the sums of all texts come to. An effect is a ratio of sums over texts. Its interval is that of a jackknife
 * that leaves out one group of texts at a time, so that what texts have in common with themselves counts once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ablation/ablation.h"
#include "base/error.h"
#include "stats/false_discovery.h"
#include "stats/jackknife.h"
#include "stats/student.h"

/* A number over all texts, and without each group of texts. */
typedef struct repeated {
    double all, without[QK__ABLATION_GROUPS];
} repeated;

typedef struct interval {
    double lo, hi, p;
} interval;

/* A trial's number per token, over cells first .. end - 1. */
static void rate(const qk__ablation *a, size_t trial, bool drift, int first, int end,
                 repeated *out)
{
    size_t trials;
    (void)qk__trials(a, &trials);
    double sum[QK__ABLATION_GROUPS + 1] = {0}, tokens[QK__ABLATION_GROUPS + 1] = {0};
    const uint32_t groups = (uint32_t)a->text_groups;
    for (size_t t = 0; t < a->num_texts; t++) {
        const qk__text_sums *text = a->sums + t * (1 + trials), *own = text + 1 + trial;
        for (int c = first; c < end; c++) {
            const double value = drift ? own->tokens[c] : own->values[c];
            for (uint32_t g = 0; g <= groups; g++)
                if (g == groups || g != a->window_group[t]) {
                    sum[g] += value;
                    tokens[g] += text->tokens[c];
                }
        }
    }
    out->all = tokens[groups] > 0 ? sum[groups] / tokens[groups] : NAN;
    for (uint32_t g = 0; g < groups; g++)
        out->without[g] = tokens[g] > 0 ? sum[g] / tokens[g] : NAN;
}

/* A trial's delta per token that it changed. Returns the degrees of freedom of texts that weigh by such tokens. */
static double rate_changed(const qk__ablation *a, size_t trial, repeated *out)
{
    size_t trials;
    (void)qk__trials(a, &trials);
    double sum[QK__ABLATION_GROUPS] = {0}, changed[QK__ABLATION_GROUPS] = {0}, sums = 0,
           all = 0;
    const uint32_t groups = (uint32_t)a->text_groups;
    for (size_t t = 0; t < a->num_texts; t++) {
        const qk__text_sums *own = a->sums + t * (1 + trials) + 1 + trial;
        for (int c = 0; c < QK_DISTANCE_BINS; c++)
            sum[a->window_group[t]] += own->values[c];
        changed[a->window_group[t]] += own->changed;
    }
    for (uint32_t g = 0; g < groups; g++) {
        sums += sum[g];
        all += changed[g];
    }
    out->all = sums / all;
    for (uint32_t g = 0; g < groups; g++)
        out->without[g] = (sums - sum[g]) / (all - changed[g]);
    return qk__degrees_per_token(changed, groups);
}

static interval about(const qk__ablation *a, const repeated *r, double degrees)
{
    interval out;
    const double error = qk__jackknife_error(r->without, (uint32_t)a->text_groups, false);
    qk__interval_about(r->all, error, degrees, a->settings->level / 100, false, &out.lo,
                       &out.hi);
    out.p = r->all == 0 && error == 0 ? 1 : qk__student_p_value(r->all / error, degrees);
    return out;
}

/* The trial of another change of the same group of heads; the number of trials: none. */
static size_t find_trial(const qk__ablation *a, size_t group, const char *what)
{
    size_t count, i = 0;
    const qk__trial *trials = qk__trials(a, &count);
    while (i < count &&
           (trials[i].group != group || strcmp(a->whats[trials[i].what].name, what) != 0))
        i++;
    return i;
}

/* Adds delta as a share of the removal's delta. */
static void add_share(const qk__ablation *a, size_t group, const repeated *delta,
                      qk_ablation_effect *e)
{
    size_t count;
    (void)qk__trials(a, &count);
    const size_t removal = find_trial(a, group, "remove");
    e->share = e->share_lo = e->share_hi = NAN;
    if (removal == count)
        return;
    repeated removed, ratio;
    rate(a, removal, false, 0, QK_DISTANCE_BINS, &removed);
    ratio.all = delta->all / removed.all;
    for (int g = 0; g < a->text_groups; g++)
        ratio.without[g] = delta->without[g] / removed.without[g];
    const interval i = about(a, &ratio, a->degrees);
    e->share = ratio.all;
    e->share_lo = i.lo;
    e->share_hi = i.hi;
}

/* The interval of beyond, which other texts would move, and other draws: of_draws is the variance of their mean. Degrees
 * of freedom by Welch and Satterthwaite. */
static void add_beyond(const qk__ablation *a, const repeated *beyond, double of_draws,
                       qk_ablation_effect *e)
{
    const double error = qk__jackknife_error(beyond->without, (uint32_t)a->text_groups, false),
                 of_texts = error * error, both = of_texts + of_draws;
    const double shares =
        of_texts * of_texts / a->degrees + of_draws * of_draws / (e->draws - 1);
    qk__interval_about(beyond->all, sqrt(both), both > 0 ? both * both / shares : a->degrees,
                       a->settings->level / 100, false, &e->beyond_lo, &e->beyond_hi);
}

/* Adds the comparison with random groups of heads, or random directions of the same heads. */
static void add_draws(const qk__ablation *a, size_t trial, const repeated *delta,
                      qk_ablation_effect *e)
{
    size_t count, groups;
    const qk__trial *trials = qk__trials(a, &count);
    const qk__head_group *list = qk__head_groups(a, &groups);
    repeated mean = {0}, one;
    double squares = 0;
    e->random = e->random_least = e->random_most = NAN;
    e->beyond = e->beyond_lo = e->beyond_hi = NAN;
    for (size_t i = 0; i < count; i++) {
        const qk__head_group *group = &list[trials[i].group];
        const bool random = trials[i].draw > 0
                                ? trials[i].group == trials[trial].group
                                : group->draw > 0 && group->of == trials[trial].group;
        if (!random || trials[i].what != trials[trial].what)
            continue;
        rate(a, i, false, 0, QK_DISTANCE_BINS, &one);
        const double off = one.all - mean.all;
        mean.all += off / ++e->draws;
        squares += off * (one.all - mean.all);
        e->random_least = fmin(e->random_least, one.all);
        e->random_most = fmax(e->random_most, one.all);
        for (int g = 0; g < a->text_groups; g++)
            mean.without[g] += one.without[g];
    }
    if (e->draws == 0)
        return;
    e->random = mean.all;
    if (e->draws < QK__LEAST_CONTROLS)
        return;
    one.all = delta->all - e->random;
    for (int g = 0; g < a->text_groups; g++)
        one.without[g] = delta->without[g] - mean.without[g] / e->draws;
    const double possible = a->whats[trials[trial].what].kind == QK_CHANGE_DIRECTION
                                ? INFINITY
                                : list[trials[trial].group].possible;
    e->beyond = one.all;
    add_beyond(a, &one, squares / (e->draws - 1) / e->draws * (1 - e->draws / possible), e);
}

/* Adds the share of tokens that are changed, and how many different texts have any. */
static qk_status count_changed(const qk__ablation *a, size_t trial, qk_ablation_effect *e,
                               qk_error *err)
{
    size_t trials;
    (void)qk__trials(a, &trials);
    bool *seen = qk__calloc((size_t)a->recording.counts.texts + 1, sizeof *seen);
    if (!seen)
        return qk__nomem(err);
    for (size_t t = 0; t < a->num_texts; t++) {
        const double changed = a->sums[t * (1 + trials) + 1 + trial].changed;
        e->changed += changed;
        e->changed_texts += changed > 0 && !seen[a->window_text[t]];
        seen[a->window_text[t]] |= changed > 0;
    }
    e->changed /= (double)a->outcome->tokens;
    free(seen);
    return QK_OK;
}

static qk_status find_effect(const qk__ablation *a, size_t trial, qk_ablation_effect *e,
                             qk_error *err)
{
    size_t count;
    const qk__trial *t = &qk__trials(a, &count)[trial];
    const qk__head_group *group = &qk__head_groups(a, &count)[t->group];
    const int width = a->recording.facts->num_q_heads;
    repeated delta, drift, again, of_changed;
    *e = (qk_ablation_effect){.group = qk__strdup(group->name),
                              .layer = group->single ? group->heads[0] / width : -1,
                              .q_head = group->single ? group->heads[0] % width : -1,
                              .heads = group->count,
                              .loss = a->outcome->loss};
    if (!e->group)
        return qk__nomem(err);
    memcpy(e->what, a->whats[t->what].name, sizeof e->what);
    rate(a, trial, false, 0, QK_DISTANCE_BINS, &delta);
    rate(a, trial, true, 0, QK_DISTANCE_BINS, &drift);
    rate(a, trial, false, QK__ABLATION_REPEATED, QK__ABLATION_CELLS, &again);
    const interval d = about(a, &delta, a->degrees), k = about(a, &drift, a->degrees);
    const double degrees = rate_changed(a, trial, &of_changed);
    e->delta = delta.all;
    e->delta_lo = d.lo;
    e->delta_hi = d.hi;
    QK_TRY(count_changed(a, trial, e, err));
    e->p = e->changed > 0 ? d.p : NAN; /* what changed nothing is no test */
    e->p_corrected = NAN;
    e->drift = drift.all;
    e->changed_delta_hi = e->changed > 0 ? about(a, &of_changed, degrees).hi : NAN;
    e->drift_lo = k.lo < 0 ? 0 : k.lo;
    e->drift_hi = k.hi;
    e->repeated = again.all;
    add_share(a, t->group, &delta, e);
    add_draws(a, trial, &delta, e);
    return QK_OK;
}

/* Tokens whose pair of tokens is new: all but the repeats. */
static void add_novel(qk_ablation_effect *e, double tokens, double repeats)
{
    const double again = repeats > 0 ? e->repeated * repeats : 0;
    e->novel = tokens > repeats ? (e->delta * tokens - again) / (tokens - repeats) : NAN;
}

/* Tests of single heads and tests of groups of heads, each corrected together. */
static qk_status correct(qk_ablation_outcome *o, bool singles, qk_error *err)
{
    double *p = qk__calloc(2 * o->num_effects, sizeof *p);
    if (!p)
        return qk__nomem(err);
    for (size_t i = 0; i < o->num_effects; i++)
        p[i] = (o->effects[i].layer >= 0) == singles ? o->effects[i].p : NAN;
    qk_status status = qk__correct_p_values(p, o->num_effects, p + o->num_effects, err);
    for (size_t i = 0; status == QK_OK && i < o->num_effects; i++)
        if ((o->effects[i].layer >= 0) == singles)
            o->effects[i].p_corrected = p[o->num_effects + i];
    free(p);
    return status;
}

static bool is_of_group(const qk_ablation_effect *e, const qk_ablation_effect *other)
{
    return (e->layer >= 0) == (other->layer >= 0) && strcmp(e->group, other->group) == 0;
}

/* Leaves out shares of a removal that is not decided: the ratio to what may be 0 has no such interval. Effects of a
 * group stand together. */
static void drop_shares(qk_ablation_outcome *o)
{
    qk_ablation_effect *const all = o->effects;
    for (size_t i = 0, end = 0; i < o->num_effects; i = end) {
        bool decided = false;
        for (; end < o->num_effects && is_of_group(&all[end], &all[i]); end++)
            decided |=
                strcmp(all[end].what, "remove") == 0 && all[end].p_corrected <= QK__MOST_P;
        for (size_t j = i; j < end && !decided; j++)
            all[j].share = all[j].share_lo = all[j].share_hi = NAN;
    }
}

qk_status qk__find_effects(qk__ablation *a, qk_error *err)
{
    qk_ablation_outcome *o = a->outcome;
    size_t trials, groups;
    const qk__trial *list = qk__trials(a, &trials);
    const qk__head_group *of = qk__head_groups(a, &groups);
    double tokens = 0, repeats = 0, loss = 0, of_group[QK__ABLATION_GROUPS] = {0};
    for (size_t t = 0; t < a->num_texts; t++) {
        const qk__text_sums *text = a->sums + t * (1 + trials);
        for (int c = 0; c < QK_DISTANCE_BINS; c++) {
            tokens += text->tokens[c];
            of_group[a->window_group[t]] += text->tokens[c];
            loss += text->values[c];
        }
        repeats += text->tokens[QK__ABLATION_REPEATED];
    }
    a->degrees = qk__degrees_per_token(of_group, (uint32_t)a->text_groups);
    if (a->text_groups > 1 && a->degrees < 1)
        qk__tell_notice(&a->recorder.context, QK_NOTICE_WARNING,
                        "most tokens are of one text, so that %d texts tell as much as %.1f: "
                        "there are no intervals",
                        (int)a->text_groups, a->degrees + 1);
    o->loss = loss / tokens;
    o->tokens = (int64_t)tokens;
    o->effects = qk__calloc(trials, sizeof *o->effects);
    if (!o->effects)
        return qk__nomem(err);
    for (int singles = 1; singles >= 0; singles--)
        for (size_t g = 0; g < groups; g++)
            for (size_t w = 0; w < a->num_whats; w++)
                for (size_t i = 0; i < trials; i++)
                    if (list[i].group == g && list[i].what == w && of[g].draw == 0 &&
                        list[i].draw == 0 && of[g].single == (singles == 1)) {
                        qk_ablation_effect *e = &o->effects[o->num_effects++];
                        QK_TRY(find_effect(a, i, e, err));
                        add_novel(e, tokens, repeats);
                    }
    QK_TRY(correct(o, true, err));
    QK_TRY(correct(o, false, err));
    drop_shares(o);
    return QK_OK;
}
