/* SPDX-License-Identifier: Apache-2.0 */
/* Frequencies of turning planes: a transform over the lattice of positions finds the peaks of
 * the resultant length, and its exact derivative their tops. */
#include "stats/turning.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/error.h"
#include "stats/root.h"
#include "stats/turn_bins.h"
#include "stats/turn_cells.h"

enum { MIN_POSITIONS = 4 };

/* A parabola through three bins a quarter of a turn apart misses the top by less than this; the
 * slowest bin, alone, by up to 1 - cos(pi / 8). */
static const double MARGIN = 0.04;
static const double SLOWEST_MARGIN = 0.08;

/* A top is at most 1 / cos(pi / 8) times its highest bin; lower bins than this are no peaks
 * that could matter. */
static const double LOWEST = 0.84;

/* Within a bin the length changes by less than pi / 4 of the highest top (Bernstein), within
 * half a bin by half of that: where all bins about zero are lower than this share of the
 * highest, the slowest frequency is no top. */
static const double QUIET = 0.5;

/* Of tops equal to so many digits the slowest counts, turning forwards. */
static const double TIE = 1e-10;

struct qk__turn_finder {
    const qk__positions *positions;
    size_t n_q;
    qk__turn_cells *cells; /* NULL where nothing is searched */
    qk__turn_bins *bins;
    qk__turn_series series; /* around the frequency in hand */
};

typedef struct best_turn {
    double omega;
    qk__resultant at;
} best_turn;

void qk__turn_finder_free(qk__turn_finder **finder)
{
    if (!*finder)
        return;
    qk__turn_bins_free(&(*finder)->bins);
    qk__turn_cells_free(&(*finder)->cells);
    free(*finder);
    *finder = NULL;
}

static bool is_searched(const qk__positions *positions)
{
    return positions->count >= MIN_POSITIONS && positions->last_place < QK_MAX_TURNING_PLACES;
}

qk_status qk__turn_finder_create(qk__turn_finder **finder, const qk__positions *positions,
                                 size_t n_q, qk_error *err)
{
    qk__turn_finder *f = calloc(1, sizeof *f);
    qk_status status = QK_OK;
    *finder = NULL;
    if (!f)
        return qk__nomem(err);
    f->positions = positions;
    f->n_q = n_q;
    if (is_searched(positions)) {
        status = qk__turn_cells_create(&f->cells, positions, err);
        if (status == QK_OK)
            status = qk__turn_bins_create(&f->bins, positions, f->cells, err);
    }
    if (status != QK_OK)
        qk__turn_finder_free(&f);
    *finder = f;
    return status;
}

static double slope(void *context, double omega)
{
    return qk__turn_series_at(context, omega).slope;
}

/* ---- peaks ------------------------------------------------------------------------------ */

static double bin_omega(const qk__turn_finder *f, int bin)
{
    return TURN * bin / ((double)f->bins->bins * f->positions->step);
}

static double slowest(const qk__turn_finder *f)
{
    return TURN / (8 * f->positions->range);
}

/* Of a bin from -bins to bins. */
static double length_at(const qk__turn_finder *f, int bin)
{
    int bins = (int)f->bins->bins;
    return (double)f->bins->length[bin < 0 ? bin + bins : bin];
}

/* The slowest bin of either direction has no neighbour towards zero. */
static bool is_slowest(const qk__turn_finder *f, int bin)
{
    return fabs(bin_omega(f, bin > 0 ? bin - 1 : bin + 1)) <= slowest(f);
}

/* About the height of the top at a peak of the bins; 0 where there is none. */
static double peak_height(const qk__turn_finder *f, int bin)
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

/* The longest bin about zero, up to the first that is searched. Compared, since gcc 12 for arm64
 * fails on a loop of fmax here. */
static double highest_about_zero(const qk__turn_finder *f, int first)
{
    double highest = 0;
    for (int i = -first; i <= first; i++) {
        double length = length_at(f, i);
        highest = length > highest ? length : highest;
    }
    return highest;
}

static void consider(qk__turn_finder *f, double omega, best_turn *best)
{
    qk__resultant at = qk__turn_series_at(&f->series, omega);
    double step = f->positions->step, half_turn = TURN / 2 / step;
    if (omega > half_turn)
        omega -= TURN / step;
    if (omega <= -half_turn)
        omega += TURN / step;
    bool equal = fabs(at.length - best->at.length) <= TIE * at.length;
    bool slower = fabs(omega) < fabs(best->omega) ||
                  (fabs(omega) == fabs(best->omega) && omega > best->omega);
    if (isnan(best->omega) || (equal ? slower : at.length > best->at.length))
        *best = (best_turn){omega, at};
}

/* The top lies within a bin of the peak. */
static void refine(qk__turn_finder *f, int bin, best_turn *best)
{
    double a = bin_omega(f, bin - 1), middle = bin_omega(f, bin), b = bin_omega(f, bin + 1);
    qk__turn_series_set(&f->series, f->cells, middle);
    if (bin > 0)
        a = fmax(a, slowest(f));
    else
        b = fmin(b, -slowest(f));
    double at_a = slope(&f->series, a), at_b = slope(&f->series, b), at_middle = 0;
    if (!(at_a > 0 && at_b < 0)) {
        at_middle = slope(&f->series, middle);
        if (at_middle > 0) {
            a = middle;
            at_a = at_middle;
        } else {
            b = middle;
            at_b = at_middle;
        }
    }
    if (at_a > 0 && at_b < 0)
        consider(f, qk__root(slope, &f->series, a, at_a, b, at_b), best);
    else
        consider(f, middle, best);
}

/* Tops among the bins, slow ones first. */
static void refine_peaks(qk__turn_finder *f, double highest, best_turn *best)
{
    const int *high = f->bins->high;
    size_t count = qk__turn_bins_high(f->bins, LOWEST * highest);
    for (size_t i = 0; i < count; i++)
        highest = fmax(highest, peak_height(f, high[i]));
    for (size_t i = 0; i < count; i++) {
        double height = peak_height(f, high[i]);
        double margin = is_slowest(f, high[i]) ? SLOWEST_MARGIN : MARGIN;
        if (height > 0 && height >= (1 - margin) * highest)
            refine(f, high[i], best);
    }
}

qk__turning qk__find_turning(qk__turn_finder *f, const double *angle)
{
    qk__turning out = {NAN, NAN, NAN, NAN};
    if (!f->cells)
        return out;
    qk__turn_cells_add_up(f->cells, angle, f->n_q, f->positions->rows);
    qk__turn_bins_fill(f->bins, f->cells);
    int first = 1;
    while (bin_omega(f, first) <= slowest(f))
        first++;
    double about_zero = highest_about_zero(f, first);
    double highest = qk__turn_bins_confine(f->bins, first);
    best_turn best = {.omega = NAN};
    if (!(about_zero < QUIET * highest)) {
        qk__turn_series_set(&f->series, f->cells, 0);
        consider(f, slowest(f), &best);
        consider(f, -slowest(f), &best);
    }
    refine_peaks(f, highest, &best);
    out.omega = best.omega;
    out.resultant = fmin(best.at.length / (double)f->positions->rows, 1);
    out.phase_q = atan2(best.at.im[0], best.at.re[0]);
    out.phase_k = atan2(best.at.im[1], best.at.re[1]);
    return out;
}
