/* SPDX-License-Identifier: Apache-2.0 */
/* Attention plasticity as docs/methods.md#plasticity writes it, in plain loops over all pairs: slow,
 * and nothing shared with the library. */
#ifndef QK_TESTS_PLASTICITY_LOOPS_H
#define QK_TESTS_PLASTICITY_LOOPS_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include <qkscope/stats.h>

enum { LOOP_DIM = 24, LOOP_BUCKETS = 24, LOOP_BINS = 64 };

typedef struct loop_sum {
    double ap; /* a sum while the loops run, then a mean */
    int64_t pairs;
    bool seen;
} loop_sum;

/* Buckets are 0..LOOP_BUCKETS-1; bins of lags begin at -LOOP_BINS / 2. */
typedef struct loops {
    double mean[LOOP_DIM], beta[LOOP_DIM], h[LOOP_DIM][LOOP_DIM];
    double variance[LOOP_DIM], mean_t;
    double tau[LOOP_BUCKETS], overall, fifths[QK_FIFTHS], tenths[QK_TENTHS];
    int64_t queries[LOOP_BUCKETS];
    loop_sum profile[LOOP_BUCKETS], cells[LOOP_BUCKETS][LOOP_BUCKETS];
    loop_sum bins[LOOP_BINS][LOOP_BINS];
} loops;

static double loop_value(const qk_block *s, size_t row, size_t c)
{
    return s->f32 ? s->f32[row * s->dim + c] : s->f64[row * s->dim + c];
}

static bool loop_absent(const qk_block *s, size_t row)
{
    return s->group && s->group[row] == s->left_out;
}

/* y = H x */
static void loop_mirror(const loops *l, size_t d, const double *x, double *y)
{
    for (size_t i = 0; i < d; i++) {
        y[i] = 0;
        for (size_t c = 0; c < d; c++)
            y[i] += l->h[i][c] * x[c];
    }
}

static void loop_query_model(loops *l, const qk_block *q)
{
    size_t d = q->dim, n = 0;
    double tt = 0, norm = 0, mirror[LOOP_DIM] = {0}, length = 0;
    for (size_t r = 0; r < q->rows; r++) {
        if (loop_absent(q, r))
            continue;
        n++;
        l->mean_t += (double)q->position[r];
        for (size_t c = 0; c < d; c++)
            l->mean[c] += loop_value(q, r, c);
    }
    l->mean_t /= (double)n;
    for (size_t c = 0; c < d; c++)
        l->mean[c] /= (double)n;
    for (size_t r = 0; r < q->rows; r++) {
        double t = (double)q->position[r] - l->mean_t;
        if (loop_absent(q, r))
            continue;
        tt += t * t;
        for (size_t c = 0; c < d; c++)
            l->beta[c] += t * (loop_value(q, r, c) - l->mean[c]);
    }
    for (size_t c = 0; c < d; c++) {
        l->beta[c] = tt > 0 ? l->beta[c] / tt : 0;
        norm += l->beta[c] * l->beta[c];
    }
    for (size_t c = 0; c < d && norm > 0; c++) {
        mirror[c] = l->beta[c] / sqrt(norm) - (c == 0);
        length += mirror[c] * mirror[c];
    }
    for (size_t i = 0; i < d; i++)
        for (size_t c = 0; c < d; c++)
            l->h[i][c] = (i == c) - (length > 0 ? 2 * mirror[i] * mirror[c] / length : 0);
    for (size_t r = 0; r < q->rows; r++) {
        double x[LOOP_DIM], y[LOOP_DIM];
        if (loop_absent(q, r))
            continue;
        for (size_t c = 0; c < d; c++)
            x[c] = loop_value(q, r, c) - l->mean[c] -
                   l->beta[c] * ((double)q->position[r] - l->mean_t);
        loop_mirror(l, d, x, y);
        for (size_t c = 0; c < d; c++)
            l->variance[c] += y[c] * y[c] / (double)(n - 1);
    }
    for (size_t c = 0; c < d; c++) /* what rounding leaves of zero */
        l->variance[c] = l->variance[c] > 1e-20 ? l->variance[c] : 0;
}

static void loop_query_buckets(loops *l, const qk_block *q)
{
    for (size_t r = 0; r < q->rows; r++)
        if (!loop_absent(q, r) && q->bucket[r] > 0) {
            l->queries[q->bucket[r]]++;
            l->tau[q->bucket[r]] += (double)q->position[r];
        }
    for (size_t j = 0; j < LOOP_BUCKETS; j++)
        l->tau[j] /= (double)l->queries[j];
}

/* Mean in mirrored coordinates of the queries of bucket j, and covariance of all. */
static void loop_bucket_model(const loops *l, size_t d, size_t j, double *mu,
                              double sigma[LOOP_DIM][LOOP_DIM])
{
    double at_tau[LOOP_DIM];
    for (size_t c = 0; c < d; c++)
        at_tau[c] = l->mean[c] + l->beta[c] * (l->tau[j] - l->mean_t);
    loop_mirror(l, d, at_tau, mu);
    for (size_t a = 0; a < d; a++)
        for (size_t b = 0; b < d; b++)
            sigma[a][b] = a == b ? l->variance[a] : 0;
}

static double loop_undecided(const loops *l, const qk_block *k, size_t a, size_t b,
                             const double *mu, double sigma[LOOP_DIM][LOOP_DIM])
{
    size_t d = k->dim;
    double delta[LOOP_DIM] = {0}, y[LOOP_DIM], mean = 0, variance = 0;
    for (size_t c = 0; c < d; c++)
        delta[c] = loop_value(k, a, c) - loop_value(k, b, c);
    loop_mirror(l, d, delta, y);
    for (size_t i = 0; i < d; i++) {
        mean += y[i] * mu[i];
        for (size_t c = 0; c < d; c++)
            variance += y[i] * sigma[i][c] * y[c];
    }
    if (!(variance > 0))
        return fabs(mean) < 1e-12 ? 1 : 0;
    double e = erfc(fabs(mean / sqrt(variance)) / sqrt(2));
    return e * (2 - e);
}

static bool loop_eligible(const loops *l, const qk_block *k, size_t row, size_t j,
                          int64_t window)
{
    if (loop_absent(k, row) || k->bucket[row] >= (int64_t)j)
        return false;
    return window <= 0 || k->bucket[row] == (int64_t)j - 1 ||
           l->tau[j] - (double)k->position[row] <= (double)window;
}

static void loop_add(loop_sum *sum, double pp)
{
    sum->ap += pp;
    sum->pairs++;
}

static void loop_pairs(loops *l, const qk_block *k, size_t j, const double *mu,
                       double sigma[LOOP_DIM][LOOP_DIM], int64_t window, double width)
{
    for (size_t a = 0; a < k->rows; a++) {
        if (!loop_eligible(l, k, a, j, window))
            continue;
        if (k->bucket[a] >= 0)
            l->cells[j][k->bucket[a]].seen = true;
        for (size_t b = 0; b < a; b++) {
            if (k->example[a] != k->example[b] || !loop_eligible(l, k, b, j, window))
                continue;
            double pp = loop_undecided(l, k, a, b, mu, sigma);
            double s1 = (double)k->position[a], s2 = (double)k->position[b];
            double lag = floor((l->tau[j] - (s1 + s2) / 2) / width);
            loop_add(&l->profile[j], pp);
            if (k->bucket[a] == k->bucket[b] && k->bucket[a] >= 0)
                loop_add(&l->cells[j][k->bucket[a]], pp);
            loop_add(
                &l->bins[(size_t)floor(fabs(s1 - s2) / width)][(size_t)(lag + LOOP_BINS / 2)],
                pp);
        }
    }
}

/* Means over queries of the AP of their buckets, in parts of the context. */
static double loop_part(const loops *l, const qk_block *q, int part, int parts)
{
    int64_t length = 0;
    double sum = 0, weight = 0;
    for (size_t r = 0; r < q->rows; r++)
        if (!loop_absent(q, r) && q->position[r] >= length)
            length = q->position[r] + 1;
    for (size_t r = 0; r < q->rows; r++) {
        int64_t j = q->bucket[r], t = q->position[r];
        if (loop_absent(q, r) || j <= 0 || l->profile[j].pairs == 0)
            continue;
        if (parts > 1 && (t < 0 || parts * t / length != part))
            continue;
        sum += l->profile[j].ap;
        weight++;
    }
    return sum / weight;
}

static loops *loop_over(const qk_block *q, const qk_block *k, double width)
{
    loops *l = calloc(1, sizeof *l);
    double mu[LOOP_DIM], sigma[LOOP_DIM][LOOP_DIM];
    if (!l)
        abort();
    loop_query_model(l, q);
    loop_query_buckets(l, q);
    for (size_t j = 1; j < LOOP_BUCKETS; j++) {
        if (l->queries[j] == 0)
            continue;
        loop_bucket_model(l, q->dim, j, mu, sigma);
        loop_pairs(l, k, j, mu, sigma, q->window ? q->window[0] : 0, width);
    }
    loop_sum *sums[] = {l->profile, l->cells[0], l->bins[0]};
    const size_t counts[] = {LOOP_BUCKETS, (size_t)LOOP_BUCKETS * LOOP_BUCKETS,
                             (size_t)LOOP_BINS * LOOP_BINS};
    for (size_t s = 0; s < 3; s++)
        for (size_t i = 0; i < counts[s]; i++)
            sums[s][i].ap /= (double)sums[s][i].pairs;
    l->overall = loop_part(l, q, 0, 1);
    for (int i = 0; i < QK_FIFTHS; i++)
        l->fifths[i] = loop_part(l, q, i, QK_FIFTHS);
    for (int i = 0; i < QK_TENTHS; i++)
        l->tenths[i] = loop_part(l, q, i, QK_TENTHS);
    return l;
}

#endif
