/* SPDX-License-Identifier: Apache-2.0 */
/* Sums about a pilot: from rows, by tiles, to moments about the means. */
#include "stats/pilot_sums.h"

#include <math.h>
#include <string.h>

#include "base/buffer.h"

/* ---- a tile of rows --------------------------------------------------------------------- */

static size_t whole_panels(size_t dim)
{
    return (dim + PANEL - 1) / PANEL;
}

size_t qk__tile_size(size_t dim)
{
    return (TILE_ROWS + 4) * whole_panels(dim) * PANEL;
}

void qk__tile_place(qk__tile *tile, const qk__gram_kernel *kernel, size_t dim, double *memory)
{
    size_t panels = whole_panels(dim), columns = panels * PANEL;
    *tile = (qk__tile){.kernel = kernel, .dim = dim, .panels = panels, .rows = memory};
    tile->pilot = memory + columns * TILE_ROWS;
    tile->sum = tile->pilot + columns;
    tile->sum_xt = tile->sum + columns;
    tile->sum_xo = tile->sum_xt + columns;
    memset(memory, 0, columns * (TILE_ROWS + 1) * sizeof *memory);
}

void qk__tile_pack(qk__tile *tile, const qk__tile_rows *rows)
{
    memset(tile->sum, 0, 3 * tile->panels * PANEL * sizeof(double)); /* and those behind it */
    if (rows->wide)
        tile->kernel->pack_f64(rows->x, rows->index, tile->dim, tile->pilot, rows->t, rows->o,
                               rows->count, tile->rows, tile->sum, tile->sum_xt, tile->sum_xo);
    else
        tile->kernel->pack_f32(rows->x, rows->index, tile->dim, tile->pilot, rows->t, rows->o,
                               rows->count, tile->rows, tile->sum, tile->sum_xt, tile->sum_xo);
}

void qk__tile_set_pilot(qk__tile *tile, const qk__tile_rows *rows)
{
    const size_t columns = tile->panels * PANEL;
    memset(tile->pilot, 0, columns * sizeof(double));
    qk__tile_pack(tile, rows);
    for (size_t c = 0; c < columns; c++)
        tile->pilot[c] = tile->sum[c] / (double)rows->count;
}

bool qk__all_finite(const double *x, size_t count)
{
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite = finite && isfinite(x[i]);
    return finite;
}

/* ---- sums ------------------------------------------------------------------------------- */

size_t qk__sums_size(size_t panels)
{
    return qk__gram_size(panels) + 3 * panels * PANEL;
}

qk__sums qk__sums_at(double *memory, size_t panels)
{
    double *sum = memory + qk__gram_size(panels);
    return (qk__sums){.gram = memory,
                      .sum = sum,
                      .sum_xt = sum + panels * PANEL,
                      .sum_xo = sum + 2 * panels * PANEL};
}

double *qk__sums_memory(size_t count, size_t panels)
{
    return qk__alloc_aligned(count * qk__sums_size(panels), sizeof(double));
}

void qk__sums_place(qk__sums *sums, size_t count, double *memory, size_t panels)
{
    for (size_t i = 0; i < count; i++)
        sums[i] = qk__sums_at(memory + i * qk__sums_size(panels), panels);
}

void qk__sums_add_tile(qk__sums *to, const qk__tile *tile, const qk__tile_rows *rows)
{
    double sum_t = 0, sum_tt = 0;
    for (size_t r = 0; r < rows->count; r++) {
        sum_t += rows->t[r];
        sum_tt += rows->t[r] * rows->t[r];
        to->sum_o += rows->o ? rows->o[r] : 0;
        to->sum_oo += rows->o ? rows->o[r] * rows->o[r] : 0;
    }
    to->sum_t += sum_t;
    to->sum_tt += sum_tt;
    if (to->count == 0)
        memset(to->sum, 0, 3 * tile->panels * PANEL * sizeof(double));
    for (size_t c = 0; c < tile->dim; c++) {
        to->sum[c] += tile->sum[c];
        to->sum_xt[c] += tile->sum_xt[c];
        to->sum_xo[c] += tile->sum_xo[c];
    }
    tile->kernel->gram(tile->rows, rows->count, tile->panels, to->count == 0, to->gram);
    to->count += (int64_t)rows->count;
}

void qk__sums_add(const qk__gram_kernel *kernel, qk__sums *to, const qk__sums *more,
                  size_t panels)
{
    size_t size = qk__sums_size(panels);
    if (to->count == 0)
        memcpy(to->gram, more->gram, size * sizeof(double));
    else
        kernel->add(to->gram, more->gram, size);
    to->count += more->count;
    to->sum_t += more->sum_t;
    to->sum_tt += more->sum_tt;
    to->sum_o += more->sum_o;
    to->sum_oo += more->sum_oo;
}

void qk__sums_centre(const qk__sums *sums, const qk__tile *tile, double pilot_t, qk_moments *m)
{
    const double n = (double)sums->count;
    const size_t d = tile->dim;
    m->count = sums->count;
    m->mean_t = pilot_t + sums->sum_t / n;
    m->sum_tt = sums->sum_tt - sums->sum_t * sums->sum_t / n;
    if (m->sum_tt < 0)
        m->sum_tt = 0;
    for (size_t i = 0; i < d; i++) {
        const double *gram = sums->gram + qk__gram_row(tile->panels, i);
        m->mean[i] = tile->pilot[i] + sums->sum[i] / n;
        m->sum_xt[i] = sums->sum_xt[i] - sums->sum[i] * sums->sum_t / n;
        for (size_t j = i; j < d; j++) {
            double s = gram[j] - sums->sum[i] * sums->sum[j] / n;
            m->sum_xx[i * d + j] = s;
            m->sum_xx[j * d + i] = s;
        }
        if (m->sum_xx[i * d + i] < 0)
            m->sum_xx[i * d + i] = 0;
    }
}
