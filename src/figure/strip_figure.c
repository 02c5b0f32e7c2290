/* SPDX-License-Identifier: Apache-2.0 */
/* Draws rows of attention: a map for each head, whose rows are strips. */
#include "figure/maps.h"
#include "figure/scatter_figure.h"

enum { WIDEST = 20000, STRIP = 17 };

static qk__map make_map(const qk__scatter_panel *panel)
{
    const qk__strips *of = panel->strips;
    return (qk__map){.rows = of->rows,
                     .columns = of->columns,
                     .values = of->weight,
                     .from = of->from,
                     .row_labels = of->labels,
                     .unit = (double)of->width,
                     .name = panel->title,
                     .bar = "Weight (\xe2\x89\xa4 0.001 to 1)",
                     .scale = qk__scale_of_weights(0.001)};
}

void qk__figure_strips(qk__figure *figure, const qk__scatter *s)
{
    static const double WIDTHS[] = {620, 440, 340, 260};
    qk__maps *all = qk__figure_alloc(figure, 1, sizeof *all);
    if (!all)
        return;
    *all = (qk__maps){.sheet = {.most = (size_t)s->columns,
                                .left = 72,
                                .gap = 56,
                                .right = 24,
                                .width = WIDTHS[s->columns < 4 ? s->columns - 1 : 3],
                                .above = 24,
                                .height = STRIP * (double)s->panels->strips->rows,
                                .below = 32},
                      .one_scale = true,
                      .x_label = s->x_label,
                      .y_label = s->y_label,
                      .hatched = "keys that the row does not see"};
    for (; all->count < s->num_panels; all->count++)
        all->maps[all->count] = make_map(&s->panels[all->count]);
    qk__suit_width(figure, WIDEST); /* until the size of the panels is known */
    qk__set_own_heading(figure, s->title, s->subtitle);
    if (figure->status == QK_OK)
        qk__draw_maps(figure, all);
}
