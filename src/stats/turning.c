/* SPDX-License-Identifier: Apache-2.0 */
/* Frequencies of turning planes: an FFT over the lattice of positions finds the peaks of the
 * resultant length, and its exact derivative their tops. */
#include "stats/turning.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <kiss_fft.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/root.h"

enum { LANES = 2, MIN_POSITIONS = 4, OVERSAMPLING = 4, PARTS = 4 };

/* A longer transform no longer fits the second-level cache and takes several times as long a
 * point (KissFFT: 9 ns at this length, 64 at 32 times it). */
enum { MAX_TRANSFORM = 16384 };

/* A parabola through three bins a quarter of a turn apart misses the top by less than this; the
 * slowest bin, alone, by up to 1 - cos(pi / 8). */
static const double MARGIN = 0.04;
static const double SLOWEST_MARGIN = 0.08;

/* A top is at most 1 / cos(pi / 8) times its highest bin; lower bins than this are no peaks
 * that could matter. */
static const double LOWEST = 0.84;

/* Of tops equal to so many digits the slowest counts, turning forwards. */
static const double TIE = 1e-10;

static const double TURN = 6.283185307179586476925;

typedef double lanes __attribute__((vector_size(8 * LANES)));

/* sum[]: exp(i angle) added up by position, real and imaginary part of queries, then of keys.
 * Arrays over positions are padded to whole lanes with zeros. */
struct qk_turn_finder {
    qk_positions *positions;
    size_t n_q, padded;
    double *sum[PARTS];
    double *tau, *c, *s;
    int bins, strides, transform; /* bins = strides * transform */
    kiss_fft_cfg fft;
    kiss_fft_cpx *signal, *spectrum; /* [transform] */
    double *turn, *turned;           /* [2 * positions] see transform_all */
    float *length;                   /* of the sum of queries plus that of keys, by bin */
};

/* The sums turned back by omega tau, and their change with omega. */
typedef struct resultant {
    double re[2], im[2]; /* queries, keys */
    double length, slope;
} resultant;

typedef struct best_turn {
    double omega, length;
} best_turn;

void qk__turn_finder_free(qk_turn_finder **finder)
{
    if (!*finder)
        return;
    free((*finder)->sum[0]);
    free((*finder)->fft);
    free((*finder)->signal);
    free((*finder)->spectrum);
    free((*finder)->turn);
    free((*finder)->length);
    free(*finder);
    *finder = NULL;
}

static bool is_searched(const qk_positions *positions)
{
    return positions->count >= MIN_POSITIONS && positions->last_place < QK_MAX_TURNING_PLACES;
}

static qk_status allocate(qk_turn_finder *f, qk_error *err)
{
    const qk_positions *at = f->positions;
    f->padded = (at->count + LANES - 1) / LANES * LANES;
    int wanted = OVERSAMPLING * ((int)at->last_place + 1);
    f->transform = kiss_fft_next_fast_size(wanted < MAX_TRANSFORM ? wanted : MAX_TRANSFORM);
    f->strides = (wanted + f->transform - 1) / f->transform;
    f->bins = f->strides * f->transform;
    size_t points = (size_t)f->transform;
    double *arrays = qk__calloc(f->padded, (PARTS + 3) * sizeof *arrays);
    f->sum[0] = arrays;
    f->fft = kiss_fft_alloc(f->transform, 0, NULL, NULL);
    f->signal = qk__calloc(points, sizeof *f->signal);
    f->spectrum = qk__calloc(points, sizeof *f->spectrum);
    f->turn = qk__calloc(at->count, 4 * sizeof *f->turn);
    f->length = qk__calloc((size_t)f->bins, sizeof *f->length);
    if (!arrays || !f->fft || !f->signal || !f->spectrum || !f->turn || !f->length)
        return qk__nomem(err);
    f->turned = f->turn + 2 * at->count;
    for (size_t i = 0; i < at->count; i++) {
        double angle = -TURN * (double)at->place[i] / f->bins;
        f->turn[2 * i] = cos(angle);
        f->turn[2 * i + 1] = sin(angle);
    }
    for (size_t i = 1; i < PARTS; i++)
        f->sum[i] = arrays + i * f->padded;
    f->tau = arrays + PARTS * f->padded;
    f->c = f->tau + f->padded;
    f->s = f->c + f->padded;
    memcpy(f->tau, at->tau, at->count * sizeof(double));
    return QK_OK;
}

qk_status qk__turn_finder_create(qk_turn_finder **finder, qk_positions *positions, size_t n_q,
                                 qk_error *err)
{
    qk_turn_finder *f = calloc(1, sizeof *f);
    *finder = NULL;
    if (!f)
        return qk__nomem(err);
    f->positions = positions;
    f->n_q = n_q;
    qk_status status = is_searched(positions) ? allocate(f, err) : QK_OK;
    if (status != QK_OK)
        qk__turn_finder_free(&f);
    *finder = f;
    return status;
}

/* ---- one frequency, exactly ----------------------------------------------------------- */

static void add_up(qk_turn_finder *f, const double *angle)
{
    const qk_positions *at = f->positions;
    for (size_t k = 0; k < at->count; k++) {
        double sum[PARTS] = {0};
        for (size_t i = at->first[k]; i < at->first[k + 1]; i++) {
            size_t row = at->order[i], part = row < f->n_q ? 0 : 2;
            sum[part] += cos(angle[row]);
            sum[part + 1] += sin(angle[row]);
        }
        for (size_t i = 0; i < PARTS; i++)
            f->sum[i][k] = sum[i];
    }
}

static double total(lanes sum)
{
    double all = 0;
    for (size_t i = 0; i < LANES; i++)
        all += sum[i];
    return all;
}

/* With F = sum of S exp(-i omega tau): F' = -i sum of tau S exp(-i omega tau), and
 * |F|' = Re(conj(F) F') / |F|. */
static resultant resultant_at(qk_turn_finder *f, double omega)
{
    resultant out = {0};
    qk__wave(f->positions, omega, f->c, f->s);
    for (int kind = 0; kind < 2; kind++) {
        const double *x = f->sum[2 * kind], *y = f->sum[2 * kind + 1];
        lanes re = {0}, im = {0}, tau_re = {0}, tau_im = {0};
        for (size_t i = 0; i < f->padded; i += LANES) {
            lanes sx, sy, t, c, s;
            memcpy(&sx, x + i, sizeof sx);
            memcpy(&sy, y + i, sizeof sy);
            memcpy(&t, f->tau + i, sizeof t);
            memcpy(&c, f->c + i, sizeof c);
            memcpy(&s, f->s + i, sizeof s);
            lanes turned_x = sx * c + sy * s, turned_y = sy * c - sx * s;
            re += turned_x;
            im += turned_y;
            tau_re += t * turned_x;
            tau_im += t * turned_y;
        }
        out.re[kind] = total(re);
        out.im[kind] = total(im);
        double length = hypot(out.re[kind], out.im[kind]);
        out.length += length;
        if (length > 0)
            out.slope += (out.re[kind] * total(tau_im) - out.im[kind] * total(tau_re)) / length;
    }
    return out;
}

static double slope(void *context, double omega)
{
    return resultant_at(context, omega).slope;
}

/* ---- peaks ---------------------------------------------------------------------------- */

static double bin_omega(const qk_turn_finder *f, int bin)
{
    return TURN * bin / ((double)f->bins * f->positions->step);
}

static double slowest(const qk_turn_finder *f)
{
    return TURN / (8 * f->positions->range);
}

/* Moves the turned sums on by one bin: times exp(-i 2 pi place / bins). */
static void turn_on(qk_turn_finder *f)
{
    for (size_t i = 0; i < f->positions->count; i++) {
        double c = f->turn[2 * i], s = f->turn[2 * i + 1];
        double x = f->turned[2 * i], y = f->turned[2 * i + 1];
        f->turned[2 * i] = x * c - y * s;
        f->turned[2 * i + 1] = x * s + y * c;
    }
}

/* Bins stride, stride + strides, stride + 2 strides, ...: the sums turned by `stride` bins and
 * folded to the length of the transform. */
static void transform_stride(qk_turn_finder *f, int stride, bool first)
{
    const qk_positions *at = f->positions;
    memset(f->signal, 0, (size_t)f->transform * sizeof *f->signal);
    for (size_t i = 0; i < at->count; i++) {
        kiss_fft_cpx *to = &f->signal[at->place[i] % (size_t)f->transform];
        to->r += (float)f->turned[2 * i];
        to->i += (float)f->turned[2 * i + 1];
    }
    kiss_fft(f->fft, f->signal, f->spectrum);
    for (int i = 0; i < f->transform; i++) {
        float x = f->spectrum[i].r, y = f->spectrum[i].i;
        float *length = &f->length[i * f->strides + stride];
        *length = (first ? 0 : *length) + sqrtf(x * x + y * y);
    }
}

/* A transform of all bins in pieces (decimation in frequency): positions are few next to bins,
 * so that folding them costs less than what the cache saves. */
static void transform_all(qk_turn_finder *f)
{
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < f->positions->count; i++) {
            f->turned[2 * i] = f->sum[2 * kind][i];
            f->turned[2 * i + 1] = f->sum[2 * kind + 1][i];
        }
        for (int stride = 0; stride < f->strides; stride++) {
            transform_stride(f, stride, kind == 0);
            turn_on(f);
        }
    }
}

/* Of a bin from -bins to bins. */
static double length_at(const qk_turn_finder *f, int bin)
{
    return (double)f->length[bin < 0 ? bin + f->bins : bin % f->bins];
}

/* The slowest bin of either direction has no neighbour towards zero. */
static bool is_slowest(const qk_turn_finder *f, int bin)
{
    return fabs(bin_omega(f, bin > 0 ? bin - 1 : bin + 1)) <= slowest(f);
}

/* About the height of the top at a peak of the bins; 0 where there is none. */
static double peak_height(const qk_turn_finder *f, int bin)
{
    int outwards = bin > 0 ? 1 : -1;
    double here = length_at(f, bin), out = length_at(f, bin + outwards);
    if (fabs(bin_omega(f, bin)) <= slowest(f) || here < out)
        return 0;
    if (is_slowest(f, bin))
        return here;
    double in = length_at(f, bin - outwards), bend = in - 2 * here + out;
    if (here < in)
        return 0;
    return bend < 0 ? here - (in - out) * (in - out) / (8 * bend) : here;
}

/* Of the bins that are searched. */
static double highest_bin(const qk_turn_finder *f)
{
    float highest = 0;
    int first = 1;
    while (bin_omega(f, first) <= slowest(f))
        first++;
    for (int i = first; i <= f->bins - first; i++)
        highest = f->length[i] > highest ? f->length[i] : highest;
    return (double)highest;
}

static void consider(qk_turn_finder *f, double omega, best_turn *best)
{
    double step = f->positions->step, half_turn = TURN / 2 / step;
    if (omega > half_turn)
        omega -= TURN / step;
    if (omega <= -half_turn)
        omega += TURN / step;
    double length = resultant_at(f, omega).length;
    bool equal = fabs(length - best->length) <= TIE * length;
    bool slower = fabs(omega) < fabs(best->omega) ||
                  (fabs(omega) == fabs(best->omega) && omega > best->omega);
    if (isnan(best->omega) || (equal ? slower : length > best->length))
        *best = (best_turn){omega, length};
}

/* The top lies within a bin of the peak. */
static void refine(qk_turn_finder *f, int bin, best_turn *best)
{
    double a = bin_omega(f, bin - 1), middle = bin_omega(f, bin), b = bin_omega(f, bin + 1);
    if (bin > 0)
        a = fmax(a, slowest(f));
    else
        b = fmin(b, -slowest(f));
    double at_a = slope(f, a), at_b = slope(f, b), at_middle = 0;
    if (!(at_a > 0 && at_b < 0)) {
        at_middle = slope(f, middle);
        if (at_middle > 0) {
            a = middle;
            at_a = at_middle;
        } else {
            b = middle;
            at_b = at_middle;
        }
    }
    if (at_a > 0 && at_b < 0)
        consider(f, qk__root(slope, f, a, at_a, b, at_b), best);
    else
        consider(f, middle, best);
}

qk_turning qk__turning(qk_turn_finder *f, const double *angle)
{
    qk_turning out = {NAN, NAN, NAN, NAN};
    if (!is_searched(f->positions))
        return out;
    add_up(f, angle);
    transform_all(f);
    int last = f->bins / 2;
    double highest = highest_bin(f), low = LOWEST * highest;
    for (int bin = 1; bin <= last; bin++)
        if (length_at(f, bin) >= low || length_at(f, -bin) >= low)
            highest = fmax(highest, fmax(peak_height(f, bin), peak_height(f, -bin)));
    best_turn best = {NAN, 0};
    consider(f, slowest(f), &best);
    consider(f, -slowest(f), &best);
    for (int bin = 1; bin <= last; bin++) {
        for (int sign = 1; sign >= -1; sign -= 2) {
            if (length_at(f, sign * bin) < low)
                continue;
            double height = peak_height(f, sign * bin);
            double margin = is_slowest(f, sign * bin) ? SLOWEST_MARGIN : MARGIN;
            if (height > 0 && height >= (1 - margin) * highest)
                refine(f, sign * bin, &best);
        }
    }
    resultant at_best = resultant_at(f, best.omega);
    out.omega = best.omega;
    out.resultant = fmin(at_best.length / (double)f->positions->rows, 1);
    out.phase_q = atan2(at_best.im[0], at_best.re[0]);
    out.phase_k = atan2(at_best.im[1], at_best.re[1]);
    return out;
}
