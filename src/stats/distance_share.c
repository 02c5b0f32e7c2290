/* SPDX-License-Identifier: Apache-2.0 */
/* The weight of a row's keys by distance. A row with n keys gives a key of bin b the share v_b / Z(n), where Z(n) is the sum
 * of v over its n keys: the bins before its last one have all their keys, the last has those that are left. Sums of
 * rows have the attention of each bin, M_b, and of the rows with each last bin the weight W. So the likelihood is
 * sum M_b ln v_b - sum W E[ln Z(n)]. How n is spread within a last bin is not kept: it is taken to be even there. */
#include "stats/distance_share.h"

#include <math.h>

enum { BINS = QK_DISTANCE_BINS, MOST_STEPS = 300 };
static const double STEADY = 1e-10; /* of a weight from one step to the next, relative */

/* Keys of the bins before b; and of bin b. */
static double keys_before(int b)
{
    return b > 0 ? exp2(b - 1) : 0;
}

static double keys_in(int b)
{
    return b > 0 ? exp2(b - 1) : 1;
}

/* ---- how many keys rows see --------------------------------------------------------------- */

/* All numbers from `first` to `last` where they are few, else the three of Gauss and Legendre. */
static void spread(double first, double last, int *count, double *keys, double *share)
{
    static const double PLACES[] = {-0.7745966692414834, 0, 0.7745966692414834},
                        SHARES[] = {5.0 / 18, 8.0 / 18, 5.0 / 18};
    const double numbers = last - first + 1;
    const bool few = numbers <= QK__MOST_LENGTHS;
    *count = few ? (int)numbers : QK__MOST_LENGTHS;
    for (int i = 0; i < QK__MOST_LENGTHS; i++) {
        keys[i] = few ? first + i : (first + last) / 2 + PLACES[i] * numbers / 2;
        share[i] = few ? 1 / numbers : SHARES[i];
    }
}

qk__far_rows qk__far_rows_up_to(double most, bool windowed)
{
    qk__far_rows rows = {0};
    for (int b = 0; b < BINS; b++) {
        double first = keys_before(b) + 1, last = keys_before(b) + keys_in(b);
        if (first < most && (last > most || (b == BINS - 1 && isfinite(most))))
            last = most;
        if (windowed && last == most)
            first = most;
        spread(first, last, &rows.last[b].count, rows.last[b].keys, rows.last[b].share);
    }
    return rows;
}

/* ---- the fit ---------------------------------------------------------------------------- */

/* One step: each weight is the attention of its bin over what a weight of 1 would get there, as Z now is. The likelihood
 * never falls (a minorization, as for Bradley and Terry's model). Returns the largest relative change. */
static double step(const qk__far_rows *rows, const double *mass, const double *last,
                   double weight[BINS])
{
    double whole[BINS] = {0}, part[BINS] = {0}, before = 0, after = 0, change = 0;
    for (int b = 0; b < BINS; b++) {
        for (int i = 0; last[b] > 0 && i < rows->last[b].count; i++) {
            double here = rows->last[b].keys[i] - keys_before(b);
            double each = last[b] * rows->last[b].share[i] / (before + here * weight[b]);
            whole[b] += each;
            part[b] += each * here;
        }
        before += keys_in(b) * weight[b];
    }
    for (int b = BINS - 1; b >= 0; b--) {
        double expected = after * keys_in(b) + part[b];
        double next = mass[b] > 0 && expected > 0 ? mass[b] / expected : 0;
        if (next > 0)
            change = fmax(change, fabs(next - weight[b]) / next);
        after += whole[b];
        weight[b] = next;
    }
    return change;
}

void qk__distance_fit(const qk__far_rows *rows, const double *sums, double weight[BINS])
{
    for (int b = 0; b < BINS; b++)
        if (!(weight[b] > 0))
            weight[b] = 1;
    for (int i = 0; i < MOST_STEPS; i++)
        if (step(rows, sums + QK_ATTENTION_FAR_BINS, sums + QK_ATTENTION_LAST_BINS, weight) <
            STEADY)
            break;
}

/* The sum of w ln n is known, so Z / n is what rows within a bin stand for: where all weights are equal the number is
 * exact. */
double qk__distance_cross_entropy(const qk__far_rows *rows, const double *sums,
                                  double weight[BINS])
{
    const double *mass = sums + QK_ATTENTION_FAR_BINS, *last = sums + QK_ATTENTION_LAST_BINS;
    double before = 0, sum = sums[QK_ATTENTION_FAR_VISIBLE];
    for (int b = 0; b < BINS; b++) {
        if (mass[b] > 0 && weight[b] == 0 && b > 0)
            weight[b] = weight[b - 1];
        sum -= mass[b] > 0 ? mass[b] * log(weight[b]) : 0;
        for (int i = 0; last[b] > 0 && i < rows->last[b].count; i++) {
            double keys = rows->last[b].keys[i];
            sum += last[b] * rows->last[b].share[i] *
                   log((before + (keys - keys_before(b)) * weight[b]) / keys);
        }
        before += keys_in(b) * weight[b];
    }
    return sum;
}
