/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a number differs between two groups of heads: by model where there are three, else within
 * layers, since groups and most numbers both go with the layer. */
#include <math.h>

#include "report/answers.h"
#include "stats/means.h"

/* The heads of one group (x is 1 or 0), or with NAN the heads of both. */
static qk__units units_of_group(qk__work *work, const qk__asked *asked, double group)
{
    double *y = qk__work_take(work, asked->of->count + 1, sizeof *y);
    for (size_t i = 0; y && i < asked->of->count; i++)
        y[i] =
            (isnan(group) ? isfinite(asked->x[i]) : asked->x[i] == group) ? asked->y[i] : NAN;
    const qk__asked own = {.of = asked->of, .y = y};
    return y ? qk__units_of(work, &own, asked->y, 0) : (qk__units){0};
}

/* The first group less the second. */
typedef struct contrast {
    size_t models; /* models with heads of both groups */
    size_t layers; /* layers with heads of both groups */
    qk__estimate difference;
    qk__test test;
} contrast;

static contrast contrast_models(qk__work *work, const qk__asked *asked)
{
    const qk__sample *of = asked->of;
    contrast out = {0};
    double *differences = qk__work_take(work, of->num_models + 1, sizeof *differences);
    for (size_t m = 0; differences && m < of->num_models; m++) {
        qk__mean groups[2] = {{0, 0, 0}, {0, 0, 0}};
        for (size_t i = of->begin[m]; i < of->begin[m + 1]; i++)
            if (asked->x[i] == 0 || asked->x[i] == 1)
                qk__mean_add(&groups[(int)asked->x[i]], asked->y[i]);
        if (groups[0].count > 0 && groups[1].count > 0)
            differences[out.models++] = qk__mean_of(&groups[1]) - qk__mean_of(&groups[0]);
    }
    out.difference = qk__estimate_mean(differences, out.models, QK__SURE);
    out.test = qk__test_mean(differences, out.models, 0);
    return out;
}

static contrast contrast_layers(qk__units *more, const qk__units *less)
{
    contrast out = {0};
    qk__layers_subtract(&more->layers, &less->layers);
    out.layers = more->layers.count;
    out.difference = qk__estimate_within_layers(&more->layers);
    out.test = qk__test_within_layers(&more->layers);
    return out;
}

/* Over pairs of one head of each group, in one model or in one of its layers: the share of pairs in which the first
 * head has more, less the share in which it has less. */
static double lean_of_groups(const qk__asked *asked, bool within_layers)
{
    const qk__sample *of = asked->of;
    qk__mean lean = {0};
    for (size_t m = 0; m < of->num_models; m++)
        for (size_t i = of->begin[m]; i < of->begin[m + 1]; i++)
            for (size_t j = of->begin[m]; asked->x[i] == 1 && j < of->begin[m + 1]; j++)
                if (asked->x[j] == 0 && (!within_layers || of->layer[i] == of->layer[j]) &&
                    isfinite(asked->y[i]) && isfinite(asked->y[j]))
                    qk__mean_add(&lean,
                                 (asked->y[i] > asked->y[j]) - (asked->y[i] < asked->y[j]));
    return qk__mean_of(&lean);
}

qk__answer qk__ask_groups(qk__findings *findings, const qk__question *question,
                          const qk__asked *asked)
{
    qk__work *work = &findings->work;
    qk__units any = units_of_group(work, asked, NAN);
    if (any.heads == 0)
        return (qk__answer){0};
    qk__units more = units_of_group(work, asked, 1), less = units_of_group(work, asked, 0);
    const double means[] = {more.mean, less.mean};
    contrast found =
        any.of_models ? contrast_models(work, asked) : contrast_layers(&more, &less);
    qk__answer answer = {
        .any = true,
        .outcome = qk__tested(findings, found.test, lean_of_groups(asked, !any.of_models)),
        .where = qk__where(asked, &any)};
    qk__evidence(findings, "Mean over heads of %s: %s %.3g (%zu head%s), %s %.3g (%zu head%s).",
                 question->what, question->more, means[0], more.heads,
                 more.heads == 1 ? "" : "s", question->less, means[1], less.heads,
                 less.heads == 1 ? "" : "s");
    qk__phrase n = any.of_models
                       ? qk__phrase_of("n = %zu models that have both", found.models)
                       : qk__phrase_of("%zu against %zu groups of heads that share keys in %zu "
                                       "layer%s with both",
                                       more.num_groups, less.num_groups, found.layers,
                                       found.layers == 1 ? "" : "s");
    qk__evidence(findings, "Difference %s, %s less %s: %.3g, %s; %s; %s.",
                 any.of_models ? "within models" : "within layers", question->more,
                 question->less, found.difference.value, qk__interval(&found.difference).text,
                 n.text, answer.outcome.text.text);
    return answer;
}
