/* SPDX-License-Identifier: Apache-2.0 */
/* Power series of a sum over positions: moments of cells, moved to the middle of the range. */
#include "stats/turn_cells.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "stats/length.h"
#include "stats/project.h"

/* ---- layout ----------------------------------------------------------------------------- */

void qk__turn_cells_free(qk__turn_cells **cells)
{
    if (!*cells)
        return;
    free((*cells)->slot);
    free((*cells)->slot_of_row);
    free((*cells)->x[0]);
    free(*cells);
    *cells = NULL;
}

/* Gives every position its slot, and cells their first ones. */
static void place_positions(qk__turn_cells *cells, const qk__positions *at, uint64_t width)
{
    size_t next = 0, k = 0;
    for (size_t cell = 0; cell < QK_TURN_CELLS; cell++) {
        cells->first[cell] = next;
        for (; k < at->count && at->place[k] / width == cell; k++) {
            for (size_t i = at->first[k]; i < at->first[k + 1]; i++)
                cells->slot_of_row[at->order[i]] = (uint32_t)next;
            cells->slot[k] = (uint32_t)next++;
        }
        next = (next + TURN_LANES - 1) / TURN_LANES * TURN_LANES;
    }
    cells->first[QK_TURN_CELLS] = cells->slots = next;
}

static void measure(qk__turn_cells *cells, const qk__positions *at, uint64_t width)
{
    double half = (double)at->last_place / 2;
    for (size_t cell = 0; cell < QK_TURN_CELLS; cell++) {
        double middle = (double)(cell * width) + (double)(width - 1) / 2 - half, power = 1;
        cells->middle[cell] = middle;
        for (int i = 0; i < QK_TURN_POWERS; i++) {
            cells->power[i][cell] = power;
            power *= middle / half / (i + 1);
        }
    }
    for (size_t k = 0; k < at->count; k++) {
        double from = (double)(at->place[k] % width) - (double)(width - 1) / 2;
        cells->at[cells->slot[k]] = from;
        cells->share[cells->slot[k]] = from / half;
    }
}

static qk_status allocate_cells(qk__turn_cells *cells, const qk__positions *at, qk_error *err)
{
    enum { ARRAYS = 8 };
    uint64_t width = at->last_place / QK_TURN_CELLS + 1;
    QK_TRY(QK__CREATE_ARRAYS(err, {&cells->slot, at->count, sizeof *cells->slot},
                             {&cells->slot_of_row, at->rows, sizeof *cells->slot_of_row}));
    place_positions(cells, at, width);
    double **arrays[ARRAYS] = {&cells->x[0], &cells->y[0],  &cells->x[1], &cells->y[1],
                               &cells->at,   &cells->share, &cells->c,    &cells->s};
    double *block = qk__calloc(cells->slots, ARRAYS * sizeof *block);
    if (!block)
        return qk__nomem(err);
    for (size_t i = 0; i < ARRAYS; i++)
        *arrays[i] = block + i * cells->slots;
    measure(cells, at, width);
    cells->step = at->step;
    cells->half_range = at->range / 2;
    return QK_OK;
}

qk_status qk__turn_cells_create(qk__turn_cells **cells, const qk__positions *positions,
                                qk_error *err)
{
    *cells = calloc(1, sizeof **cells);
    if (!*cells)
        return qk__nomem(err);
    qk_status status = allocate_cells(*cells, positions, err);
    if (status != QK_OK)
        qk__turn_cells_free(cells);
    return status;
}

void qk__turn_cells_add_up(qk__turn_cells *cells, const double *angle, size_t n_q, size_t rows)
{
    enum { BLOCK = 512 };
    const qk__turn_kernel *kernel = qk__best_turn_kernel();
    double block[BLOCK], c[BLOCK], s[BLOCK];
    memset(cells->x[0], 0, 4 * cells->slots * sizeof(double));
    for (size_t first = 0; first < rows; first += BLOCK) {
        size_t count = rows - first < BLOCK ? rows - first : BLOCK;
        memset(block, 0, sizeof block);
        memcpy(block, angle + first, count * sizeof *angle);
        kernel->wave(block, BLOCK, 1 / TURN, c, s);
        for (size_t i = 0; i < count; i++) {
            size_t slot = cells->slot_of_row[first + i], kind = first + i >= n_q;
            cells->x[kind][slot] += c[i];
            cells->y[kind][slot] += s[i];
        }
    }
}

/* ---- series ----------------------------------------------------------------------------- */

/* Moments m of all cells about their middles, over m!, turned back by omega from there. */
typedef struct cell_moments {
    double re[TURN_TERMS][QK_TURN_CELLS], im[TURN_TERMS][QK_TURN_CELLS];
} cell_moments;

static void set_moments(cell_moments *out, const qk__turn_cells *cells, int kind,
                        const double *c, const double *s)
{
    const qk__turn_kernel *kernel = qk__best_turn_kernel();
    for (size_t cell = 0; cell < QK_TURN_CELLS; cell++) {
        double re[TURN_TERMS], im[TURN_TERMS], over = 1;
        size_t first = cells->first[cell], count = cells->first[cell + 1] - first;
        kernel->moments(cells->x[kind] + first, cells->y[kind] + first, cells->c + first,
                        cells->s + first, cells->share + first, count, re, im);
        for (int m = 0; m < TURN_TERMS; over /= ++m) {
            out->re[m][cell] = over * (re[m] * c[cell] + im[m] * s[cell]);
            out->im[m][cell] = over * (im[m] * c[cell] - re[m] * s[cell]);
        }
    }
}

/* (T + v)^k / k! = sum over m of T^(k - m) / (k - m)! v^m / m! */
static void move_to_middle(const qk__turn_cells *cells, const cell_moments *from, double *re,
                           double *im)
{
    for (int k = 0; k < QK_TURN_POWERS; k++) {
        re[k] = im[k] = 0;
        for (int m = 0; m < TURN_TERMS && m <= k; m++) {
            re[k] += qk__dot(from->re[m], cells->power[k - m], QK_TURN_CELLS);
            im[k] += qk__dot(from->im[m], cells->power[k - m], QK_TURN_CELLS);
        }
    }
}

void qk__turn_series_set(qk__turn_series *series, qk__turn_cells *cells, double omega)
{
    const qk__turn_kernel *kernel = qk__best_turn_kernel();
    double c[QK_TURN_CELLS], s[QK_TURN_CELLS], turns = omega * cells->step / TURN;
    cell_moments moments;
    series->omega = omega;
    series->half_range = cells->half_range;
    kernel->wave(cells->at, cells->slots, turns, cells->c, cells->s);
    kernel->wave(cells->middle, QK_TURN_CELLS, turns, c, s);
    for (int kind = 0; kind < 2; kind++) {
        set_moments(&moments, cells, kind, c, s);
        move_to_middle(cells, &moments, series->re[kind], series->im[kind]);
    }
}

/* F and its derivative by Horner's rule in -i distance; |F|' = Re(conj(F) F') / |F|. */
qk__resultant qk__turn_series_at(const qk__turn_series *series, double omega)
{
    qk__resultant out = {0};
    double distance = (omega - series->omega) * series->half_range;
    for (int kind = 0; kind < 2; kind++) {
        double re = 0, im = 0, slope_re = 0, slope_im = 0, last;
        for (int k = QK_TURN_POWERS - 1; k >= 0; k--) {
            last = slope_re;
            slope_re = distance * slope_im + re;
            slope_im = im - distance * last;
            last = re;
            re = distance * im + series->re[kind][k];
            im = series->im[kind][k] - distance * last;
        }
        double length = qk__length(re, im);
        out.re[kind] = re;
        out.im[kind] = im;
        out.length += length;
        /* F' = -i times the derivative by -i distance */
        if (length > 0)
            out.slope += (re * slope_im - im * slope_re) / length;
    }
    return out;
}
