/* SPDX-License-Identifier: Apache-2.0 */
/* Frequencies of turning planes: the best of the known frequencies, or else of a Fourier transform over the lattice of
 * positions. */
#include "stats/turning.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/length.h"
#include "stats/project.h"
#include "stats/turn_kernel.h"

enum { MIN_POSITIONS = 4 };

/* Of lengths equal to so many digits the slowest counts, turning forwards. */
static const double TIE = 1e-10;

struct qk__turn_finder {
    const qk__positions *positions;
    const double *frequencies; /* [count] */
    size_t count, n_q;
    size_t slots;             /* positions, filled up to whole lanes; 0: nothing is searched */
    uint32_t *slot_of_row;    /* [rows] */
    double *at;               /* [slots] places from the middle of the range */
    double *x[2], *y[2];      /* [slots] sums of unit vectors: of queries, of keys */
    double *c, *s;            /* [slots] the current wave */
    size_t bins;              /* of the grid, a power of two; 0: there is none */
    double *re, *im, *length; /* [bins] */
    double *root_c, *root_s;  /* [bins / 2] of unity */
};

void qk__turn_finder_free(qk__turn_finder **finder)
{
    if (!*finder)
        return;
    free((*finder)->slot_of_row);
    free((*finder)->at);
    free((*finder)->re);
    free(*finder);
    *finder = NULL;
}

/* ---- setting up ------------------------------------------------------------------------- */

static bool is_in_range(const qk__turn_finder *f, double omega)
{
    return omega >= TURN / (8 * f->positions->range) && omega <= TURN / 2 / f->positions->step;
}

static qk_status allocate_slots(qk__turn_finder *f, qk_error *err)
{
    const qk__positions *at = f->positions;
    f->slots = (at->count + TURN_LANES - 1) / TURN_LANES * TURN_LANES;
    QK_TRY(QK__CREATE_ARRAYS(err, {&f->slot_of_row, at->rows, sizeof *f->slot_of_row},
                             {&f->at, f->slots, 7 * sizeof *f->at}));
    double **arrays[] = {&f->x[0], &f->x[1], &f->y[0], &f->y[1], &f->c, &f->s};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        *arrays[i] = f->at + (i + 1) * f->slots;
    for (size_t k = 0; k < at->count; k++) {
        f->at[k] = (double)at->place[k] - (double)at->last_place / 2;
        for (size_t i = at->first[k]; i < at->first[k + 1]; i++)
            f->slot_of_row[at->order[i]] = (uint32_t)k;
    }
    return QK_OK;
}

static qk_status allocate_grid(qk__turn_finder *f, qk_error *err)
{
    for (f->bins = 2 * TURN_LANES; f->bins < 4 * (f->positions->last_place + 1);)
        f->bins *= 2;
    QK_TRY(QK__CREATE_ARRAYS(err, {&f->re, f->bins, 4 * sizeof *f->re}));
    f->im = f->re + f->bins;
    f->length = f->im + f->bins;
    f->root_c = f->length + f->bins;
    f->root_s = f->root_c + f->bins / 2;
    for (size_t i = 0; i < f->bins / 2; i++)
        f->re[i] = (double)i;
    qk__best_turn_kernel()->wave(f->re, f->bins / 2, 1 / (double)f->bins, f->root_c, f->root_s);
    return QK_OK;
}

static qk_status allocate_finder(qk__turn_finder *f, qk_error *err)
{
    bool known = false;
    if (f->positions->count < MIN_POSITIONS ||
        f->positions->last_place >= QK_MAX_TURNING_PLACES)
        return QK_OK;
    for (size_t i = 0; i < f->count; i++)
        known |= is_in_range(f, f->frequencies[i]);
    QK_TRY(allocate_slots(f, err));
    return known ? QK_OK : allocate_grid(f, err);
}

qk_status qk__turn_finder_create(qk__turn_finder **finder, const qk__positions *positions,
                                 size_t n_q, const double *frequencies, size_t count,
                                 qk_error *err)
{
    qk__turn_finder *f = calloc(1, sizeof *f);
    *finder = NULL;
    if (!f)
        return qk__nomem(err);
    *f = (qk__turn_finder){
        .positions = positions, .frequencies = frequencies, .count = count, .n_q = n_q};
    qk_status status = allocate_finder(f, err);
    if (status != QK_OK)
        qk__turn_finder_free(&f);
    *finder = f;
    return status;
}

/* ---- one frequency ---------------------------------------------------------------------- */

/* Adds up exp(i angle) by position. */
static void add_up(qk__turn_finder *f, const double *angle)
{
    enum { BLOCK = 512 };
    const qk__turn_kernel *kernel = qk__best_turn_kernel();
    double block[BLOCK], c[BLOCK], s[BLOCK];
    size_t rows = f->positions->rows;
    memset(f->x[0], 0, 4 * f->slots * sizeof(double));
    for (size_t first = 0; first < rows; first += BLOCK) {
        size_t count = rows - first < BLOCK ? rows - first : BLOCK;
        memset(block, 0, sizeof block);
        memcpy(block, angle + first, count * sizeof *angle);
        kernel->wave(block, BLOCK, 1 / TURN, c, s);
        for (size_t i = 0; i < count; i++) {
            size_t slot = f->slot_of_row[first + i], kind = first + i >= f->n_q;
            f->x[kind][slot] += c[i];
            f->y[kind][slot] += s[i];
        }
    }
}

/* Considers the sums turned back by omega, and by -omega. */
static void consider(qk__turn_finder *f, double omega, qk__turning *best)
{
    double re[2][2], im[2][2], rows = (double)f->positions->rows;
    qk__best_turn_kernel()->wave(f->at, f->slots, omega * f->positions->step / TURN, f->c,
                                 f->s);
    for (int kind = 0; kind < 2; kind++) {
        double xc = qk__dot(f->x[kind], f->c, f->slots),
               xs = qk__dot(f->x[kind], f->s, f->slots);
        double yc = qk__dot(f->y[kind], f->c, f->slots),
               ys = qk__dot(f->y[kind], f->s, f->slots);
        re[0][kind] = xc + ys;
        im[0][kind] = yc - xs;
        re[1][kind] = xc - ys;
        im[1][kind] = yc + xs;
    }
    for (int back = 0; back < 2; back++) {
        const double *x = re[back], *y = im[back];
        double length = (qk__length(x[0], y[0]) + qk__length(x[1], y[1])) / rows;
        bool slower = omega < fabs(best->omega);
        if (isnan(best->omega) || length > best->resultant * (1 + TIE) ||
            (slower && length >= best->resultant * (1 - TIE)))
            *best = (qk__turning){.omega = back ? -omega : omega,
                                  .resultant = fmin(length, 1),
                                  .phase_q = atan2(y[0], x[0]),
                                  .phase_k = atan2(y[1], x[1]),
                                  .known = f->bins == 0};
    }
}

/* ---- the grid --------------------------------------------------------------------------- */

/* Transforms n numbers from a on: decimation in frequency, in place, each half to its end, so that it stays in the
 * cache. Bin i is left at reversed(i). */
static void transform(qk__turn_finder *f, size_t a, size_t n)
{
    double *re = f->re + a, *im = f->im + a;
    size_t half = n / 2, stride = f->bins / n;
    for (size_t k = 0; k < half; k++) {
        double c = f->root_c[k * stride], s = f->root_s[k * stride];
        double x = re[k] - re[k + half], y = im[k] - im[k + half];
        re[k] += re[k + half];
        im[k] += im[k + half];
        re[k + half] = x * c + y * s;
        im[k + half] = y * c - x * s;
    }
    if (half > 1) {
        transform(f, a, half);
        transform(f, a + half, half);
    }
}

static size_t reversed(size_t i, size_t bins)
{
    size_t out = 0;
    for (; bins > 1; bins /= 2, i /= 2)
        out = 2 * out + i % 2;
    return out;
}

static void fill_grid(qk__turn_finder *f)
{
    memset(f->length, 0, f->bins * sizeof *f->length);
    for (int kind = 0; kind < 2; kind++) {
        memset(f->re, 0, 2 * f->bins * sizeof *f->re);
        for (size_t k = 0; k < f->positions->count; k++) {
            f->re[f->positions->place[k]] = f->x[kind][k];
            f->im[f->positions->place[k]] = f->y[kind][k];
        }
        transform(f, 0, f->bins);
        for (size_t i = 0; i < f->bins; i++)
            f->length[i] += qk__length(f->re[i], f->im[i]);
    }
}

static double best_of_grid(qk__turn_finder *f)
{
    double highest = 0, found = NAN;
    fill_grid(f);
    for (size_t i = 1; i <= f->bins / 2; i++) {
        double omega = TURN * (double)i / ((double)f->bins * f->positions->step);
        double length =
            fmax(f->length[reversed(i, f->bins)], f->length[reversed(f->bins - i, f->bins)]);
        if (!is_in_range(f, omega) || !(length > highest * (1 + TIE)))
            continue;
        highest = length;
        found = omega;
    }
    return found;
}

qk__turning qk__find_turning(qk__turn_finder *f, const double *angle)
{
    qk__turning best = {.omega = NAN, .resultant = NAN, .phase_q = NAN, .phase_k = NAN};
    if (f->slots == 0)
        return best;
    add_up(f, angle);
    if (f->bins > 0)
        consider(f, best_of_grid(f), &best);
    for (size_t i = 0; i < f->count; i++)
        if (f->bins == 0 && is_in_range(f, f->frequencies[i]))
            consider(f, f->frequencies[i], &best);
    return best;
}
