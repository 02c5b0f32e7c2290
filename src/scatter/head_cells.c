/* SPDX-License-Identifier: Apache-2.0 */
/* Heads as points alone: small numbers for each row. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "scatter/scatter.h"

void qk__head_cells_free(qk__head_cells *cells)
{
    for (size_t i = 0; i < cells->count; i++) {
        free(cells->items[i].why);
        free(cells->items[i].dots);
    }
    free(cells->items);
    qk__token_strings_free(&cells->strings);
    *cells = (qk__head_cells){0};
}

/* A share as one of so many numbers. */
static double part_of(double value, double low, double high, double most)
{
    double share = high > low ? (value - low) / (high - low) : 0.5;
    return floor(most * fmin(1, fmax(0, share)) + 0.5);
}

qk_status qk__cell_fill(qk__head_cell *cell, const qk__scatter_panel *panel,
                        const qk__token_strings *strings, qk__head_cells *all, qk_error *err)
{
    const qk__scatter plain = {.zero_lines = false};
    const qk__scatter_axes a = cell->axes = qk__panel_axes(&plain, panel);
    cell->dots = qk__calloc(panel->count + 1, sizeof *cell->dots);
    if (!cell->dots)
        return qk__nomem(err);
    for (size_t i = 0; i < panel->count; i++) {
        const qk__point *p = &panel->points[i];
        const qk__position_span span = p->is_key ? all->k : all->q;
        cell->dots[i] =
            (qk__dot){(uint16_t)part_of(p->x, a.x_low, a.x_high, UINT16_MAX),
                      (uint16_t)(UINT16_MAX - part_of(p->y, a.y_low, a.y_high, UINT16_MAX)),
                      (uint8_t)part_of((double)p->position, (double)span.low, (double)span.high,
                                       UINT8_MAX),
                      p->is_key, -1};
        int64_t number = -1;
        if (strings->count > 0 && p->token >= 0)
            QK_TRY(qk__token_strings_add(
                &all->strings, qk__token_text(strings, (size_t)p->token), &number, err));
        cell->dots[i].token = (int32_t)number;
    }
    cell->count = panel->count;
    return QK_OK;
}
