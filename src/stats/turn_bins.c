/* SPDX-License-Identifier: Apache-2.0 */
/* A Fourier transform over the lattice of positions, a piece at a time: TURN_BINS neighbouring
 * bins lie side by side (decimation in frequency), so that vectors do all of them at once and
 * a piece stays in the cache. */
#include "stats/turn_bins.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"

/* MAX_POINTS: so many points of all bins, 256 KiB, stay in the second-level cache. */
enum { OVERSAMPLING = 4, MAX_POINTS = 2048, SECTION_POINTS = 64 };

void qk__turn_bins_free(qk__turn_bins **bins)
{
    if (!*bins)
        return;
    free((*bins)->length);
    free((*bins)->high);
    free((*bins)->top);
    free((*bins)->spectrum);
    free((*bins)->by_point);
    free((*bins)->by_part);
    free((*bins)->point);
    free((*bins)->order);
    free((*bins)->root);
    free((*bins)->x);
    free(*bins);
    *bins = NULL;
}

/* Number m of a transform of n points is left at order[m]: its last digit to base four tells
 * the quarter, and so on. */
static uint32_t left_at(uint32_t m, uint32_t n)
{
    return n < 4 ? m : m % 4 * (n / 4) + left_at(m / 4, n / 4);
}

/* exp(-i 2 pi lane place / bins) */
static void set_turns(qk__turn_point *turn, size_t place, size_t bins)
{
    double at[TURN_BINS], c[TURN_BINS], s[TURN_BINS];
    for (size_t lane = 0; lane < TURN_BINS; lane++)
        at[lane] = (double)(lane * place % bins);
    qk__best_turn_kernel()->wave(at, TURN_BINS, -1 / (double)bins, c, s);
    for (size_t lane = 0; lane < TURN_BINS; lane++) {
        turn->re[lane] = (float)c[lane];
        turn->im[lane] = (float)s[lane];
    }
}

static void set_tables(qk__turn_bins *b, const qk__positions *at, const qk__turn_cells *cells)
{
    size_t points = b->signal.points, parts = at->last_place / points + 1;
    for (size_t p = 0; p < points; p++) {
        double angle = -TURN * (double)p / (double)points;
        b->root[2 * p] = (float)cos(angle);
        b->root[2 * p + 1] = (float)sin(angle);
        b->order[p] = left_at((uint32_t)p, (uint32_t)points);
        set_turns(b->by_point + p, p, b->bins);
    }
    for (size_t i = 0; i < parts; i++)
        set_turns(b->by_part + i, i * points, b->bins);
    for (size_t k = 0; k < at->count; k++) {
        size_t slot = cells->slot[k];
        double angle = -TURN * TURN_BINS * (double)at->place[k] / (double)b->bins;
        b->point[slot] = (uint32_t)(at->place[k] % points);
        b->part[slot] = (uint32_t)(at->place[k] / points);
        b->turn[slot] = cos(angle);
        b->turn_s[slot] = sin(angle);
    }
}

static qk_status allocate_bins(qk__turn_bins *b, const qk__positions *at,
                               const qk__turn_cells *cells, qk_error *err)
{
    size_t wanted = OVERSAMPLING * ((size_t)at->last_place + 1), points = 1;
    while (points < MAX_POINTS && points * TURN_BINS < wanted)
        points *= 2;
    size_t passes = (wanted + points * TURN_BINS - 1) / (points * TURN_BINS);
    b->strides = passes * TURN_BINS;
    b->bins = b->strides * points;
    b->section = TURN_BINS * (points < SECTION_POINTS ? points : SECTION_POINTS);
    QK_TRY(QK__CREATE_ARRAYS(
        err, {&b->length, b->bins, sizeof *b->length}, {&b->high, b->bins, sizeof *b->high},
        {&b->top, b->bins / b->section, sizeof *b->top},
        {&b->spectrum, points, sizeof *b->spectrum},
        {&b->by_point, points, sizeof *b->by_point},
        {&b->by_part, (size_t)at->last_place / points + 1, sizeof *b->by_part},
        {&b->point, cells->slots, 2 * sizeof *b->point}, {&b->order, points, sizeof *b->order},
        {&b->root, points, 2 * sizeof *b->root}, {&b->x, cells->slots, 4 * sizeof *b->x}));
    b->y = b->x + cells->slots;
    b->turn = b->y + cells->slots;
    b->turn_s = b->turn + cells->slots;
    b->part = b->point + cells->slots;
    b->signal = (qk__turn_signal){cells->slots, b->x,        b->y,       b->point, b->part,
                                  points,       b->by_point, b->by_part, b->root,  b->order};
    return QK_OK;
}

qk_status qk__turn_bins_create(qk__turn_bins **bins, const qk__positions *positions,
                               const qk__turn_cells *cells, qk_error *err)
{
    qk__turn_bins *b = calloc(1, sizeof *b);
    *bins = NULL;
    if (!b)
        return qk__nomem(err);
    qk_status status = allocate_bins(b, positions, cells, err);
    if (status == QK_OK)
        set_tables(b, positions, cells);
    else
        qk__turn_bins_free(&b);
    *bins = b;
    return status;
}

/* Moves the turned sums on to the next TURN_BINS bins. */
static void turn_on(qk__turn_bins *b)
{
    for (size_t i = 0; i < b->signal.count; i++) {
        double x = b->x[i], y = b->y[i], c = b->turn[i], s = b->turn_s[i];
        b->x[i] = x * c - y * s;
        b->y[i] = x * s + y * c;
    }
}

void qk__turn_bins_fill(qk__turn_bins *b, const qk__turn_cells *cells)
{
    const qk__turn_kernel *kernel = qk__best_turn_kernel();
    for (int kind = 0; kind < 2; kind++) {
        memcpy(b->x, cells->x[kind], cells->slots * sizeof(double));
        memcpy(b->y, cells->y[kind], cells->slots * sizeof(double));
        for (size_t first = 0; first < b->strides; first += TURN_BINS) {
            if (first > 0)
                turn_on(b);
            kernel->transform(&b->signal, b->spectrum);
            kernel->lengths(b->spectrum, b->order, b->signal.points, b->strides, kind > 0,
                            b->length + first);
        }
    }
}

double qk__turn_bins_confine(qk__turn_bins *b, int first)
{
    const qk__turn_kernel *kernel = qk__best_turn_kernel();
    float highest = 0;
    b->length[0] = 0;
    for (size_t i = 1; i < (size_t)first; i++)
        b->length[i] = b->length[b->bins - i] = 0;
    for (size_t i = 0; i < b->bins / b->section; i++) {
        b->top[i] = kernel->highest(b->length + i * b->section, b->section);
        highest = b->top[i] > highest ? b->top[i] : highest;
    }
    return (double)highest;
}

/* Whether a section of bins forwards, and the same backwards, are all shorter. */
static bool is_low(const qk__turn_bins *b, size_t section, double least)
{
    size_t mirrored = b->bins / b->section - 1 - section;
    size_t edge = (b->bins - section * b->section) % b->bins;
    return (double)b->top[section] < least && (double)b->top[mirrored] < least &&
           (double)b->length[edge] < least;
}

size_t qk__turn_bins_high(qk__turn_bins *b, double least)
{
    size_t found = 0, last = b->bins / 2;
    for (size_t from = 0; from <= last; from += b->section) {
        if (is_low(b, from / b->section, least))
            continue;
        for (size_t i = from; i < from + b->section && i <= last; i++) {
            if (i > 0 && (double)b->length[i] >= least)
                b->high[found++] = (int)i;
            if (i > 0 && (double)b->length[b->bins - i] >= least)
                b->high[found++] = -(int)i;
        }
    }
    return found;
}
