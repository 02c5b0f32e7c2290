/* SPDX-License-Identifier: Apache-2.0 */
/* The best sinusoid: a grid of frequencies over cells of positions finds the peaks, and the
 * exact derivative of R^2 their tops. */
#include "stats/sinusoid.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/root.h"

enum {
    LANES = 2,
    MIN_POSITIONS = 4,
    CELLS = 1024,    /* phases within one differ by at most a tenth */
    TURN_PARTS = 16, /* grid points per turn over the range */
    FIRST_PART = 2,  /* an eighth of a turn */
    LAST_PART = 256, /* 16 turns */
};

/* A peak of the grid this far below the best may be the best. A top lies at most 1/32 of a turn
 * off the grid, which costs it up to 1 - cos^2(pi/32) = 1%; the cells cost less. */
static const double MARGIN = 0.02;

/* Of tops equal to so many digits the slowest counts. */
static const double TIE = 1e-10;

typedef double lanes __attribute__((vector_size(8 * LANES)));

/* Points gathered by position; arrays are padded to whole lanes with zeros. */
typedef struct points {
    qk__positions *positions;
    size_t padded;
    double n, yy;   /* rows; sum of squares of y about its mean */
    double *weight; /* rows at the position */
    double *sum;    /* of y - mean */
    double *tau;    /* as in positions */
    double *u, *s;  /* the wave in hand */
} points;

/* The same points in at most CELLS cells. */
typedef struct cells {
    size_t padded;
    double *weight, *sum;
    double *tau;    /* mean of the rows in the cell */
    double *moment; /* sum of (y - mean) times the distance from tau */
    double *c, *s;  /* the wave in hand */
    double *turn_c, *turn_s;
} cells;

/* Regression on the two parts of a wave and a constant. */
typedef struct wave_fit {
    double a, b, d;
    double explained; /* sum of squares */
} wave_fit;

typedef struct search {
    points p;
    cells cell;
    int last;        /* grid part of the upper end */
    bool alternates; /* the upper end is half a turn a step */
    double explained[LAST_PART + 1];
    double omega, best;
} search;

static size_t padded_to_lanes(size_t count)
{
    return (count + LANES - 1) / LANES * LANES;
}

/* ---- one frequency, exactly ------------------------------------------------------------- */

/* Normal equations, centred: u and s have sums of squares uu, ss and of products us with each
 * other, yu, ys with y. Where they are one and the same direction, the longer one counts. */
static wave_fit solve(double uu, double us, double ss, double yu, double ys)
{
    const double singular = 1e-13;
    wave_fit fit = {0};
    double det = uu * ss - us * us;
    if (det > singular * uu * ss) {
        fit.a = (yu * ss - ys * us) / det;
        fit.b = (ys * uu - yu * us) / det;
    } else if (uu > ss) {
        fit.a = yu / uu;
    } else if (ss > 0) {
        fit.b = ys / ss;
    }
    fit.explained = fit.a * yu + fit.b * ys;
    return fit;
}

/* u = cos - 1 and s = sin from the half angle: at an eighth of a turn over the range the
 * cosine hardly differs from 1, and u keeps the digits that tell. */
static void set_wave(points *p, double omega)
{
    qk__wave(p->positions, omega / 2, p->u, p->s);
    for (size_t i = 0; i < p->padded; i += LANES) {
        lanes c, s, u;
        memcpy(&c, p->u + i, sizeof c);
        memcpy(&s, p->s + i, sizeof s);
        u = -2 * s * s;
        s = 2 * c * s;
        memcpy(p->u + i, &u, sizeof u);
        memcpy(p->s + i, &s, sizeof s);
    }
}

/* The limit at half a turn a step, where the sine or the cosine vanishes at every position:
 * (-1)^place, and the same times tau. */
static void set_alternating(points *p)
{
    for (size_t i = 0; i < p->positions->count; i++) {
        double sign = p->positions->place[i] % 2 ? -1 : 1;
        p->u[i] = sign;
        p->s[i] = sign * p->tau[i] / p->positions->range;
    }
}

static double total(lanes sum)
{
    double all = 0;
    for (size_t i = 0; i < LANES; i++)
        all += sum[i];
    return all;
}

static wave_fit fit_wave(const points *p)
{
    lanes su = {0}, ss = {0}, suu = {0}, sus = {0}, sss = {0}, syu = {0}, sys = {0};
    for (size_t i = 0; i < p->padded; i += LANES) {
        lanes w, y, u, s;
        memcpy(&w, p->weight + i, sizeof w);
        memcpy(&y, p->sum + i, sizeof y);
        memcpy(&u, p->u + i, sizeof u);
        memcpy(&s, p->s + i, sizeof s);
        lanes wu = w * u, ws = w * s;
        su += wu;
        ss += ws;
        suu += wu * u;
        sus += wu * s;
        sss += ws * s;
        syu += y * u;
        sys += y * s;
    }
    double mean_u = total(su) / p->n, mean_s = total(ss) / p->n;
    wave_fit fit = solve(total(suu) - total(su) * mean_u, total(sus) - total(su) * mean_s,
                         total(sss) - total(ss) * mean_s, total(syu), total(sys));
    fit.d = -(fit.a * mean_u + fit.b * mean_s);
    return fit;
}

/* Half the derivative of the explained sum of squares by omega: the fit is the best at omega,
 * so only the wave itself moves: sum of residual times tau (b cos - a sin). */
static double slope(void *context, double omega)
{
    points *p = context;
    set_wave(p, omega);
    wave_fit fit = fit_wave(p);
    lanes sum = {0};
    for (size_t i = 0; i < p->padded; i += LANES) {
        lanes w, y, t, u, s;
        memcpy(&w, p->weight + i, sizeof w);
        memcpy(&y, p->sum + i, sizeof y);
        memcpy(&t, p->tau + i, sizeof t);
        memcpy(&u, p->u + i, sizeof u);
        memcpy(&s, p->s + i, sizeof s);
        lanes residual = y - w * (fit.a * u + fit.b * s + fit.d);
        sum += residual * t * (fit.b * (1 + u) - fit.a * s);
    }
    return total(sum);
}

/* ---- the grid --------------------------------------------------------------------------- */

static void fill_cells(const points *p, cells *c)
{
    const qk__positions *at = p->positions;
    if (at->count <= CELLS) {
        memcpy(c->weight, p->weight, at->count * sizeof(double));
        memcpy(c->sum, p->sum, at->count * sizeof(double));
        memcpy(c->tau, p->tau, at->count * sizeof(double));
        c->padded = padded_to_lanes(at->count);
        return;
    }
    uint64_t width = at->last_place / CELLS + 1;
    for (size_t i = 0; i < at->count; i++) {
        size_t cell = (size_t)(at->place[i] / width);
        c->weight[cell] += p->weight[i];
        c->tau[cell] += p->weight[i] * p->tau[i];
    }
    for (size_t i = 0; i < CELLS; i++)
        c->tau[i] = c->weight[i] > 0 ? c->tau[i] / c->weight[i] : 0;
    for (size_t i = 0; i < at->count; i++) {
        size_t cell = (size_t)(at->place[i] / width);
        c->sum[cell] += p->sum[i];
        c->moment[cell] += p->sum[i] * (p->tau[i] - c->tau[cell]);
    }
    c->padded = CELLS;
}

/* Turns every cell's phase on by one grid point and returns what the wave explains. */
static double explained_by_next(cells *cell, double n, double omega)
{
    lanes sc = {0}, ss = {0}, scc = {0}, scs = {0}, syc = {0}, sys = {0};
    for (size_t i = 0; i < cell->padded; i += LANES) {
        lanes w, y, m, c, s, turn_c, turn_s;
        memcpy(&w, cell->weight + i, sizeof w);
        memcpy(&y, cell->sum + i, sizeof y);
        memcpy(&m, cell->moment + i, sizeof m);
        memcpy(&c, cell->c + i, sizeof c);
        memcpy(&s, cell->s + i, sizeof s);
        memcpy(&turn_c, cell->turn_c + i, sizeof turn_c);
        memcpy(&turn_s, cell->turn_s + i, sizeof turn_s);
        lanes next = c * turn_c - s * turn_s;
        s = c * turn_s + s * turn_c;
        c = next;
        memcpy(cell->c + i, &c, sizeof c);
        memcpy(cell->s + i, &s, sizeof s);
        lanes wc = w * c;
        m *= omega; /* y at its own positions, to first order in their distance */
        sc += wc;
        ss += w * s;
        scc += wc * c;
        scs += wc * s;
        syc += y * c - m * s;
        sys += y * s + m * c;
    }
    double c = total(sc), s = total(ss), cc = total(scc);
    wave_fit fit = solve(cc - c * c / n, total(scs) - c * s / n, n - cc - s * s / n, total(syc),
                         total(sys));
    return fit.explained;
}

static double grid_omega(const search *at, int part)
{
    if (part == at->last && at->alternates)
        return TURN / 2 / at->p.positions->step;
    return TURN * part / (TURN_PARTS * at->p.positions->range);
}

static void scan_grid(search *at)
{
    cells *cell = &at->cell;
    int last = at->alternates ? at->last - 1 : at->last;
    for (size_t i = 0; i < cell->padded; i++) {
        double step = grid_omega(at, 1) * cell->tau[i];
        cell->turn_c[i] = cos(step);
        cell->turn_s[i] = sin(step);
        cell->c[i] = cos((FIRST_PART - 1) * step);
        cell->s[i] = sin((FIRST_PART - 1) * step);
    }
    for (int part = FIRST_PART; part <= last; part++)
        at->explained[part] = explained_by_next(cell, at->p.n, grid_omega(at, part));
    if (at->alternates) {
        set_alternating(&at->p);
        at->explained[at->last] = fit_wave(&at->p).explained;
    }
}

/* ---- the search ------------------------------------------------------------------------- */

/* Where the derivative is asked. R^2 is symmetric about half a turn a step and its derivative
 * zero there: whether it grows towards that end shows a little before it. */
static double probe(const search *at, int part)
{
    const double before = 1.0 / 64;
    double omega = grid_omega(at, part);
    if (part == at->last && at->alternates)
        omega -= before * grid_omega(at, 1);
    return omega;
}

static void consider(search *at, double omega, bool alternating)
{
    if (alternating)
        set_alternating(&at->p);
    else
        set_wave(&at->p, omega);
    double explained = fit_wave(&at->p).explained;
    if (explained > at->best * (1 + TIE)) {
        at->best = explained;
        at->omega = omega;
    }
}

/* From a peak of the grid to its top: a root of the derivative, or an end of the interval. */
static void climb(search *at, int part)
{
    points *p = &at->p;
    int left = part > FIRST_PART ? part - 1 : FIRST_PART;
    int right = part < at->last ? part + 1 : at->last;
    double at_left = slope(p, probe(at, left)), at_right = slope(p, probe(at, right));
    while (!(at_left > 0) && left > FIRST_PART) {
        right = left--;
        at_right = at_left;
        at_left = slope(p, probe(at, left));
    }
    if (!(at_left > 0)) {
        consider(at, grid_omega(at, FIRST_PART), false);
        return;
    }
    while (!(at_right < 0) && right < at->last) {
        left = right++;
        at_left = at_right;
        at_right = slope(p, probe(at, right));
    }
    if (at_right < 0)
        consider(at, qk__root(slope, p, probe(at, left), at_left, probe(at, right), at_right),
                 false);
    else
        consider(at, grid_omega(at, at->last), at->alternates);
}

static void climb_peaks(search *at)
{
    const double *explained = at->explained;
    double highest = 0;
    for (int i = FIRST_PART; i <= at->last; i++)
        highest = explained[i] > highest ? explained[i] : highest;
    for (int i = FIRST_PART; i <= at->last; i++) {
        bool peak = (i == FIRST_PART || explained[i] > explained[i - 1]) &&
                    (i == at->last || explained[i] >= explained[i + 1]);
        if (peak && explained[i] >= (1 - MARGIN) * highest)
            climb(at, i);
    }
}

/* Half a turn a step is last_place / 2 turns over the range. */
static void set_end(search *at)
{
    uint64_t places = at->p.positions->last_place;
    at->alternates = places <= 2 * LAST_PART / TURN_PARTS;
    at->last = at->alternates ? (int)places * TURN_PARTS / 2 : LAST_PART;
}

/* ---- gathering -------------------------------------------------------------------------- */

static void gather_sums(points *p, const double *y)
{
    const qk__positions *at = p->positions;
    double mean = 0;
    for (size_t i = 0; i < at->rows; i++)
        mean += y[at->order[i]];
    p->n = (double)at->rows;
    mean /= p->n;
    p->yy = 0;
    for (size_t k = 0; k < at->count; k++) {
        for (size_t i = at->first[k]; i < at->first[k + 1]; i++) {
            double value = y[at->order[i]] - mean;
            p->sum[k] += value;
            p->yy += value * value;
        }
        p->weight[k] = (double)(at->first[k + 1] - at->first[k]);
        p->tau[k] = at->tau[k];
    }
}

qk_status qk__sinusoid_fit(qk__positions *positions, const double *y, double *omega,
                           double *r_squared, qk_error *err)
{
    enum { POINT_ARRAYS = 5, CELL_ARRAYS = 8 };
    *omega = *r_squared = NAN;
    if (positions->count < MIN_POSITIONS)
        return QK_OK;
    size_t padded = padded_to_lanes(positions->count);
    double *block = qk__calloc(POINT_ARRAYS * padded + CELL_ARRAYS * CELLS, sizeof *block);
    if (!block)
        return qk__nomem(err);
    points p = {.positions = positions, .padded = padded};
    double **of_points[POINT_ARRAYS] = {&p.weight, &p.sum, &p.tau, &p.u, &p.s};
    for (size_t i = 0; i < POINT_ARRAYS; i++)
        *of_points[i] = block + i * padded;
    cells c = {0};
    double **of_cells[CELL_ARRAYS] = {&c.weight, &c.sum, &c.tau,    &c.moment,
                                      &c.c,      &c.s,   &c.turn_c, &c.turn_s};
    for (size_t i = 0; i < CELL_ARRAYS; i++)
        *of_cells[i] = block + POINT_ARRAYS * padded + i * CELLS;
    gather_sums(&p, y);
    fill_cells(&p, &c);
    search at = {.p = p, .cell = c, .omega = NAN};
    set_end(&at);
    scan_grid(&at);
    climb_peaks(&at);
    *omega = at.omega;
    if (!isnan(at.omega))
        *r_squared = fmin(at.best / p.yy, 1);
    free(block);
    return QK_OK;
}
