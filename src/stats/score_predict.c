/* SPDX-License-Identifier: Apache-2.0 */
/* The mean score by distance as mean vectors predict it, pair by pair, beside the measured one.
 *
 * If what queries and keys say were independent of each other and of position, the mean of
 * Re(z_q e^(i w s) conj(z_k e^(i w t))) at distance s - t would be that of the means. */
#include <math.h>
#include <stdlib.h>

#include "stats/score_curve.h"

/* Sums over bins that have enough pairs, each counting the same. */
typedef struct sums {
    size_t count;
    double measured, predicted;              /* means */
    double mm, pp, mp, left, squared_errors; /* about these */
    bool errors;                             /* every bin has a standard error */
} sums;

static bool counts(const qk_score_bin *bin)
{
    return bin->pairs >= QK_SCORE_BIN_PAIRS;
}

static sums sum_bins(const qk_head_stages *s)
{
    sums out = {.errors = true};
    for (size_t b = 0; b < s->num_bins; b++) {
        if (!counts(&s->bins[b]))
            continue;
        out.measured += s->bins[b].measured;
        out.predicted += s->bins[b].predicted;
        out.count++;
    }
    out.measured /= (double)out.count;
    out.predicted /= (double)out.count;
    for (size_t b = 0; b < s->num_bins; b++) {
        if (!counts(&s->bins[b]))
            continue;
        const qk_score_bin *bin = &s->bins[b];
        double m = bin->measured - out.measured, p = bin->predicted - out.predicted;
        out.mm += m * m;
        out.pp += p * p;
        out.mp += m * p;
        out.left += (m - p) * (m - p);
        out.squared_errors += bin->standard_error * bin->standard_error;
        out.errors = out.errors && isfinite(bin->standard_error);
    }
    return out;
}

static void compare_curves(const sums *of, qk_head_stages *s)
{
    enum { LEAST_BINS = 3 };
    double n = (double)of->count;
    bool enough = of->count >= LEAST_BINS && of->mm > 0;
    s->measured_mean = of->count > 0 ? of->measured : NAN;
    s->predicted_mean = of->count > 0 ? of->predicted : NAN;
    s->measured_sd = of->count > 0 ? sqrt(of->mm / n) : NAN;
    s->predicted_sd = of->count > 0 ? sqrt(of->pp / n) : NAN;
    s->r_squared_predicted = enough ? 1 - of->left / of->mm : NAN;
    s->curve_r = enough && of->pp > 0 ? of->mp / sqrt(of->mm * of->pp) : NAN;
    s->chance_share = enough && of->errors ? of->squared_errors / of->mm : NAN;
}

/* The covariance of what each pair adds with the whole, which add up to the variance. */
static void share_variance(const qk_head_stages *s, const double *contributions, const sums *of)
{
    for (size_t p = 0; p < s->num_pairs; p++) {
        double sum = 0, mean = 0;
        for (size_t b = 0; b < s->num_bins; b++)
            if (counts(&s->bins[b]))
                mean += contributions[b * s->num_pairs + p];
        mean /= (double)of->count;
        for (size_t b = 0; b < s->num_bins; b++)
            if (counts(&s->bins[b]))
                sum += (contributions[b * s->num_pairs + p] - mean) *
                       (s->bins[b].predicted - of->predicted);
        s->pairs[p].score_share = of->pp > 0 ? sum / of->pp : NAN;
    }
}

static double ratio(double of, double by)
{
    return by > 0 ? of / by : NAN;
}

static qk_rope_pair describe_pair(const qk__pairing *pairing, size_t p, const qk__pair_means *q,
                                  const qk__pair_means *k)
{
    const double pi = 3.14159265358979323846;
    double omega = pairing->frequencies[p];
    double qq = q->re[p] * q->re[p] + q->im[p] * q->im[p];
    double kk = k->re[p] * k->re[p] + k->im[p] * k->im[p];
    double re = q->re[p] * k->re[p] + q->im[p] * k->im[p];
    double im = q->im[p] * k->re[p] - q->re[p] * k->im[p];
    return (qk_rope_pair){.frequency = omega,
                          .wavelength = omega > 0 ? 2 * pi / omega : INFINITY,
                          .energy_q = ratio(q->energy[p], q->total),
                          .energy_k = ratio(k->energy[p], k->total),
                          .concentration_q = ratio(qq, q->energy[p]),
                          .concentration_k = ratio(kk, k->energy[p]),
                          .mean_q = sqrt(qq),
                          .mean_k = sqrt(kk),
                          .phase = qq > 0 && kk > 0 ? atan2(im, re) : NAN};
}

double qk__pair_score(const qk__pair_means *q, const qk__pair_means *k, size_t p,
                      const double *turns, size_t pairs)
{
    double re = q->re[p] * k->re[p] + q->im[p] * k->im[p];
    double im = q->im[p] * k->re[p] - q->re[p] * k->im[p];
    return re * turns[p] - im * turns[pairs + p];
}

/* The pair with the largest share. */
static void find_top(qk_head_stages *s)
{
    s->top_pair = s->top_wavelength = s->top_share = NAN;
    for (size_t p = 0; p < s->num_pairs; p++) {
        const qk_rope_pair *pair = &s->pairs[p];
        if (isnan(pair->score_share) || s->top_share >= pair->score_share)
            continue;
        s->top_pair = (double)p;
        s->top_wavelength = pair->wavelength;
        s->top_share = pair->score_share;
    }
}

static void sum_slow(qk_head_stages *s)
{
    s->slow_energy_q = s->slow_energy_k = s->slow_score_share = 0;
    s->slow_pairs = 0;
    for (size_t p = 0; p < s->num_pairs; p++) {
        const qk_rope_pair *pair = &s->pairs[p];
        if (!(pair->wavelength > (double)s->context))
            continue;
        s->slow_pairs++;
        s->slow_energy_q += pair->energy_q;
        s->slow_energy_k += pair->energy_k;
        s->slow_score_share += pair->score_share;
    }
    if (isnan(s->top_pair)) /* no pair has a share */
        s->slow_score_share = NAN;
}

void qk__score_curve_predict(const qk__score_curve *curve, const qk__pairing *pairing,
                             const qk__pair_means *q, const qk__pair_means *k, double factor,
                             double rest, qk_head_stages *stages, double *contributions)
{
    size_t pairs = pairing->pairs;
    for (size_t p = 0; p < pairs; p++)
        stages->pairs[p] = describe_pair(pairing, p, q, k);
    for (size_t b = 0; b < curve->num_bins; b++) {
        double sum = 0;
        for (size_t p = 0; p < pairs; p++) {
            double *own = &contributions[b * pairs + p];
            *own = factor * qk__pair_score(q, k, p, curve->turns + b * 2 * pairs, pairs);
            sum += *own;
        }
        stages->bins[b] = curve->bins[b];
        stages->bins[b].predicted = sum + rest;
    }
    sums of = sum_bins(stages);
    compare_curves(&of, stages);
    share_variance(stages, contributions, &of);
    find_top(stages);
    sum_slow(stages);
}
