/* SPDX-License-Identifier: Apache-2.0 */
/* How two numbers of heads go together within models: heads are compared with heads of the same model only. With three
 * or more models a model is a unit: its r over its heads, as Fisher's z, tested by Student's t. With fewer models r is
 * over all heads after each layer's means are taken off, and counts as many pairs as there are groups of heads that
 * share keys, less one for each layer beyond the first. */
#include <math.h>

#include "report/answers.h"
#include "stats/means.h"

enum { ENOUGH_GROUPS = 4 };

/* The heads that have both numbers, model after model. */
typedef struct pairs {
    double *x, *y;
    size_t count;
    size_t groups; /* groups of heads that share keys */
} pairs;

typedef struct relation {
    size_t heads;
    double units; /* models, or groups of heads less the number of layers */
    double all;   /* r over the heads of all models */
    qk__estimate r;
    qk__test test;
    qk__units of;
} relation;

/* Adds the group that begins at `first`; returns where it ends. */
static size_t add_group(pairs *all, const qk__asked *asked, size_t first)
{
    size_t before = all->count, end = qk__group_end(asked->of, first);
    for (size_t i = first; i < end; i++) {
        all->x[all->count] = asked->x[i];
        all->y[all->count] = asked->y[i];
        all->count += isfinite(asked->x[i]) && isfinite(asked->y[i]);
    }
    all->groups += all->count > before;
    return end;
}

static void center_values(double *values, size_t count)
{
    qk__mean mean = {0};
    for (size_t i = 0; i < count; i++)
        qk__mean_add(&mean, values[i]);
    for (size_t i = 0; i < count; i++)
        values[i] -= qk__mean_of(&mean);
}

/* z has room for one value a model. */
static void relate_models(relation *out, const qk__asked *asked, pairs *all, double *z)
{
    size_t with_r = 0;
    for (size_t m = 0; m < asked->of->num_models; m++) {
        size_t first = all->count, groups = all->groups;
        for (size_t h = asked->of->begin[m]; h < asked->of->begin[m + 1];)
            h = add_group(all, asked, h);
        size_t own = all->count - first;
        if (own > 0 && out->of.models++ == 0)
            out->of.first_model = m;
        double r = qk__fit_line(all->x + first, all->y + first, own).r;
        if (isfinite(r) && all->groups - groups >= ENOUGH_GROUPS)
            z[with_r++] = qk__fisher_z(r);
    }
    out->heads = all->count;
    out->all = qk__fit_line(all->x, all->y, all->count).r;
    out->of.of_models = out->of.models >= QK__ENOUGH_MODELS;
    if (out->of.of_models) {
        out->units = (double)with_r;
        out->r = qk__estimate_correlations(z, with_r);
        out->test = qk__test_mean(z, with_r, 0);
    }
}

/* Layers differ, and numbers that wander from layer to layer correlate by chance: so heads are compared within their
 * layer only. A layer with one group of heads says nothing. */
static void relate_heads(relation *out, const qk__asked *asked, pairs *all)
{
    size_t layers = 0;
    *all = (pairs){.x = all->x, .y = all->y};
    for (size_t h = 0, end; h < asked->of->count; h = end) {
        pairs before = *all;
        end = qk__layer_end(asked->of, h);
        for (size_t next = h; next < end;)
            next = add_group(all, asked, next);
        if (all->groups - before.groups < 2) {
            *all = before;
            continue;
        }
        layers++;
        center_values(all->x + before.count, all->count - before.count);
        center_values(all->y + before.count, all->count - before.count);
    }
    out->units = layers > 0 ? (double)all->groups - (double)layers + 1 : 0;
    double r = qk__fit_line(all->x, all->y, all->count).r;
    out->r = qk__estimate_correlation(r, out->units);
    out->test =
        out->units >= ENOUGH_GROUPS ? qk__test_correlation(r, out->units) : (qk__test){NAN, 0};
}

static relation relate(qk__work *work, const qk__asked *asked)
{
    relation out = {.all = NAN, .r = {0, NAN, NAN, NAN}, .test = {NAN, 0}};
    size_t room = asked->of->count + 1;
    pairs all = {.x = qk__work_take(work, room, sizeof *all.x),
                 .y = qk__work_take(work, room, sizeof *all.y)};
    double *z = qk__work_take(work, asked->of->num_models + 1, sizeof *z);
    if (!all.x || !all.y || !z)
        return out;
    relate_models(&out, asked, &all, z);
    if (out.of.models > 0 && !out.of.of_models)
        relate_heads(&out, asked, &all);
    return out;
}

qk__answer qk__ask_relation(qk__findings *findings, const qk__question *question,
                            const qk__asked *asked)
{
    relation found = relate(&findings->work, asked);
    if (found.heads == 0)
        return (qk__answer){0};
    bool of_models = found.of.of_models;
    qk__answer answer = {.any = true,
                         .outcome = qk__tested(findings, found.test, found.r.value),
                         .size = found.all,
                         .where = qk__where(asked, &found.of)};
    qk__evidence(findings,
                 "%s%s: r = %.3g over all %zu heads%s; within %s %.3g, %s, n = %lld %s; %s.",
                 qk__of_name(asked).text, question->what, found.all, found.heads,
                 found.of.models > 1 ? " together" : "", of_models ? "models" : "layers",
                 found.r.value, qk__interval(&found.r).text, llround(found.units),
                 of_models ? "models"
                           : "groups of heads that share keys (one less for the mean of each "
                             "further layer)",
                 answer.outcome.text.text);
    return answer;
}
