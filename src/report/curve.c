/* SPDX-License-Identifier: Apache-2.0 */
/* A number over checkpoints: which heads have it, its means and intervals, its changes, and where it turns. */
#include "report/curve.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "stats/means.h"

static bool has_number(const qk__asked *asked, size_t model)
{
    for (size_t i = asked->of->begin[model]; i < asked->of->begin[model + 1]; i++)
        if (isfinite(asked->y[i]))
            return true;
    return false;
}

/* Sets *next to the same head in another model, or to the head that would follow it; searches from *next on. */
static bool find_head(const qk__sample *of, size_t model, size_t head, size_t *next)
{
    size_t end = of->begin[model + 1];
    while (*next < end &&
           (of->layer[*next] < of->layer[head] ||
            (of->layer[*next] == of->layer[head] && of->q_head[*next] < of->q_head[head])))
        ++*next;
    return *next < end && of->layer[*next] == of->layer[head] &&
           of->q_head[*next] == of->q_head[head];
}

/* The values of a head at all checkpoints; false: some checkpoint has none. */
static bool follow(const qk__curve *curve, const qk__asked *asked, size_t head, size_t *next,
                   double *values)
{
    bool all = true;
    for (size_t m = 0; m < curve->count; m++) {
        bool found = find_head(curve->of, curve->points[m], head, &next[m]);
        values[m] = found ? asked->y[next[m]] : NAN;
        all &= isfinite(values[m]);
    }
    return all;
}

/* next and own have room for all checkpoints. The rows of curve->values have room for `room` groups. */
static void follow_heads(qk__curve *curve, const qk__asked *asked, size_t room, size_t *next,
                         double *own)
{
    const qk__sample *of = curve->of;
    size_t last = SIZE_MAX, members = 0, first = curve->points[0];
    for (size_t m = 0; m < curve->count; m++)
        next[m] = of->begin[curve->points[m]];
    for (size_t h = of->begin[first]; h < of->begin[first + 1]; h++) {
        if (!follow(curve, asked, h, next, own))
            continue;
        if (last == SIZE_MAX || of->layer[last] != of->layer[h] ||
            of->k_head[last] != of->k_head[h]) {
            curve->layer_of[curve->groups++] = (int)of->layer[h];
            members = 0;
        }
        last = h;
        members++;
        curve->heads++;
        for (size_t m = 0; m < curve->count; m++) {
            double *value = &curve->values[m * room + curve->groups - 1];
            *value += (own[m] - *value) / (double)members;
            curve->means[m] += (own[m] - curve->means[m]) / (double)curve->heads;
        }
    }
    for (size_t m = 1; m < curve->count; m++) /* the number of groups is known now */
        for (size_t g = 0; g < curve->groups; g++)
            curve->values[m * curve->groups + g] = curve->values[m * room + g];
}

static void measure_intervals(qk__curve *curve)
{
    size_t count = curve->count, groups = curve->groups;
    double all = 0;
    for (size_t i = 0; i < count * groups; i++)
        all += curve->values[i] / (double)(count * groups);
    for (size_t m = 0; m < count; m++) {
        for (size_t g = 0; g < groups; g++) {
            double kept = 0;
            for (size_t other = 0; other < count; other++)
                kept += curve->values[other * groups + g] / (double)count;
            curve->scratch[g] = curve->values[m * groups + g] - kept + all;
        }
        qk__estimate e = qk__estimate_mean(curve->scratch, groups, QK__SURE);
        curve->halves[m] =
            count > 1 ? (e.high - e.low) / 2 * sqrt((double)count / (double)(count - 1)) : NAN;
    }
}

static const double *differences(const qk__curve *curve, size_t from, size_t to)
{
    for (size_t g = 0; g < curve->groups; g++)
        curve->scratch[g] =
            curve->values[to * curve->groups + g] - curve->values[from * curve->groups + g];
    return curve->scratch;
}

double qk__curve_lean(const qk__curve *curve, size_t from, size_t to)
{
    const double *changes = differences(curve, from, to);
    qk__mean lean = {0};
    for (size_t g = 0; g < curve->groups; g++)
        qk__mean_add(&lean, (changes[g] > 0) - (changes[g] < 0));
    return qk__mean_of(&lean);
}

/* The layers of those differences. */
static qk__layers layers_of(const qk__curve *curve)
{
    qk__layers out = {.items = curve->layers};
    for (size_t g = 0; g < curve->groups; g++)
        qk__layers_add(&out, 0, curve->layer_of[g], curve->scratch[g]);
    return out;
}

/* Corrects the sorted p-values of all pairs: the k-th smallest is multiplied by the number of pairs that are not
 * smaller, and is never less than a smaller one after its correction. */
static void correct_holm(double *sorted, size_t count)
{
    double most = 0;
    for (size_t i = 0; i < count; i++)
        sorted[i] = most = fmin(1, fmax(most, sorted[i] * (double)(count - i)));
}

static size_t first_of(const double *sorted, size_t count, double p)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sorted[middle] < p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* plain and holm have room for all pairs. */
static void test_pairs(qk__curve *curve, double *plain, double *holm)
{
    size_t count = curve->count, pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            const double *change = differences(curve, i, j);
            qk__layers layers = layers_of(curve);
            qk__test test = qk__test_groups(change, curve->groups, &layers, 0, false);
            curve->tests[i * count + j] = test;
            curve->plain[i * count + j] = test.p;
            plain[pairs++] = test.p;
        }
    if (pairs == 0 || isnan(plain[0])) /* too few groups, for all pairs */
        return;
    qk__sort(plain, pairs);
    memcpy(holm, plain, pairs * sizeof *holm);
    correct_holm(holm, pairs);
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            qk__test *test = &curve->tests[i * count + j];
            test->p = holm[first_of(plain, pairs, test->p)];
        }
}

qk__curve qk__curve_of(qk__work *work, const qk__asked *asked)
{
    const size_t count = asked->of->num_models, room = asked->of->count + 1,
                 pairs = count * count;
    qk__curve out = {.of = asked->of};
    out.points = qk__work_take(work, count, sizeof *out.points);
    out.means = qk__work_take(work, count, sizeof *out.means);
    out.halves = qk__work_take(work, count, sizeof *out.halves);
    out.values = qk__work_take(work, count * room, sizeof *out.values);
    out.scratch = qk__work_take(work, room, sizeof *out.scratch);
    out.layer_of = qk__work_take(work, room, sizeof *out.layer_of);
    out.layers = qk__work_take(work, room, sizeof *out.layers);
    out.tests = qk__work_take(work, pairs, sizeof *out.tests);
    out.plain = qk__work_take(work, pairs, sizeof *out.plain);
    double *plain = qk__work_take(work, pairs, sizeof *plain);
    double *holm = qk__work_take(work, pairs, sizeof *holm);
    double *own = qk__work_take(work, count, sizeof *own);
    size_t *next = qk__work_take(work, count, sizeof *next);
    if (work->failed)
        return (qk__curve){0};
    for (size_t m = 0; m < count; m++)
        if (has_number(asked, m))
            out.points[out.count++] = m;
    if (out.count > 0)
        follow_heads(&out, asked, room, next, own);
    if (out.groups == 0)
        return (qk__curve){0};
    measure_intervals(&out);
    test_pairs(&out, plain, holm);
    return out;
}

/* ---- changes ---------------------------------------------------------------------------- */

qk__estimate qk__curve_change(const qk__curve *curve, size_t from, size_t to)
{
    const size_t pairs = curve->count * (curve->count - 1) / 2;
    const double level = 1 - (1 - QK__SURE) / (double)pairs;
    qk__estimate groups = qk__estimate_mean(differences(curve, from, to), curve->groups, level);
    qk__layers layers = layers_of(curve);
    return qk__widen_to_layers(groups, &layers, level);
}

qk__test qk__curve_test(const qk__curve *curve, size_t from, size_t to)
{
    return curve->tests[from * curve->count + to];
}

qk__test qk__curve_test_any(const qk__curve *curve, size_t *from, size_t *to)
{
    const size_t count = curve->count;
    double best = NAN;
    *from = *to = 0;
    for (size_t i = 0; i + 1 < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            const double p = curve->plain[i * count + j];
            if (isnan(p) || p >= best)
                continue;
            best = p;
            *from = i;
            *to = j;
        }
    return isnan(best) ? (qk__test){NAN, 0} : qk__curve_test(curve, *from, *to);
}

/* ---- turning points --------------------------------------------------------------------- */

/* Whether the number goes that way from one checkpoint to a later one, by more than chance. */
static bool goes(const qk__curve *curve, size_t from, size_t to, int way, double level)
{
    if (!((curve->means[to] - curve->means[from]) * way > 0))
        return false;
    qk__test test = qk__curve_test(curve, from, to);
    return test.side == way && test.p <= level;
}

/* Finds where the first leg begins and how far it goes at least; returns its way, 0 without a leg. */
static int first_leg(const qk__curve *curve, double level, size_t *from, size_t *to)
{
    size_t lowest = 0, highest = 0;
    for (size_t m = 1; m < curve->count; m++) {
        *to = m;
        *from = lowest;
        if (goes(curve, lowest, m, 1, level))
            return 1;
        *from = highest;
        if (goes(curve, highest, m, -1, level))
            return -1;
        lowest = curve->means[m] < curve->means[lowest] ? m : lowest;
        highest = curve->means[m] > curve->means[highest] ? m : highest;
    }
    qk__test best = qk__curve_test_any(curve, from, to);
    return best.p <= level ? best.side : 0;
}

size_t qk__curve_legs(const qk__curve *curve, double level, size_t *pivots)
{
    size_t legs = 1, *begin = pivots, end;
    int way = curve->count > 0 ? first_leg(curve, level, begin, &end) : 0;
    if (way == 0)
        return 0;
    for (size_t m = end + 1; m < curve->count; m++) {
        if (goes(curve, end, m, way, 1) && goes(curve, *begin, m, way, level)) {
            end = m; /* further on */
        } else if (goes(curve, end, m, -way, level)) {
            *++begin = end;
            legs++;
            end = m;
            way = -way;
        }
    }
    begin[1] = end;
    return legs;
}
