/* SPDX-License-Identifier: Apache-2.0 */
/* What the model loses with more and more heads changed together, and with as many random ones: a panel for each
 * order of heads and change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

enum { MOST_PANELS = 6, COLUMNS = 3, RANDOM_ALPHA = 0xb0 };

typedef struct curve {
    const qk__ablated_group *points;
    size_t count;
} curve;

/* Two points at least; returns how many curves. */
static size_t find_curves(const qk__results *results, curve found[MOST_PANELS])
{
    size_t count = 0;
    for (size_t i = 0, end; i < results->num_groups && count < MOST_PANELS; i = end) {
        const qk__ablated_group *first = &results->groups[i];
        for (end = i + 1; end < results->num_groups; end++)
            if (strcmp(first->order, results->groups[end].order) != 0 ||
                strcmp(first->what, results->groups[end].what) != 0)
                break;
        if (end - i >= 2)
            found[count++] = (curve){first, end - i};
    }
    return count;
}

bool qk__has_group_curves(const qk__subject *subject)
{
    curve found[MOST_PANELS];
    return subject->results->num_models <= 1 && find_curves(subject->results, found) > 0;
}

static void draw_curve(qk__figure *figure, const curve *c, const qk__place *place)
{
    const double em = qk__em(figure), last = c->points[c->count - 1].heads;
    qk__range shown = QK__NO_RANGE;
    qk__range_add(&shown, 0);
    for (size_t i = 0; i < c->count; i++) {
        const qk__ablated_group *g = &c->points[i];
        const double told[] = {g->delta, g->lo, g->hi, g->least, g->most};
        for (size_t j = 0; j < sizeof told / sizeof *told; j++)
            qk__range_add(&shown, told[j]);
        qk__figure_row(figure, g->heads, g->delta, isfinite(g->lo) ? g->lo : g->delta,
                       isfinite(g->hi) ? g->hi : g->delta, g->random, g->least, g->most);
    }
    const size_t block = qk__figure_end_block(figure);
    const double margin = 0.06 * (shown.high - shown.low);
    qk__put_panel(figure, place);
    qk__set_range(figure, 'y', shown.low - margin, shown.high + margin, 4);
    qk__set_range(figure, 'x', 0, 1.04 * last, (int)fmax(2, place->width / (50 * em)));
    qk__figure_print(
        figure,
        "plot data index %zu using 1:6:7 with filledcurves lc rgb '#%02x%.6s', "
        "data index %zu using 1:5 with lines lw 2 lc rgb '%s', "
        "data index %zu using 1:3:(0):($4-$3) with vectors nohead lw 1 lc rgb '%s', "
        "data index %zu using 1:2 with linespoints pt 7 ps 0.7 lw 2 lc rgb '%s'\n"
        "unset label\nunset arrow\n",
        block, RANDOM_ALPHA, figure->theme->muted + 1, block, figure->theme->muted, block,
        figure->theme->accent, block, figure->theme->accent);
}

void qk__build_group_curves(qk__figure *figure, const qk__subject *subject)
{
    const qk__entry entries[] = {{"these heads", figure->theme->accent, 7},
                                 {"random ones: mean, range", figure->theme->muted, QK__LINE}};
    const double em = qk__em(figure);
    curve found[MOST_PANELS];
    qk__sheet sheet = {.count = find_curves(subject->results, found),
                       .most = COLUMNS,
                       .least = 250,
                       .left = 76,
                       .gap = 62,
                       .right = 20,
                       .above = 44,
                       .height = subject->kind->height,
                       .below = 48,
                       .entries = entries,
                       .num_entries = 2};
    qk__set_heading(figure, subject->results, NULL, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    for (size_t i = 0; i < sheet.count; i++) {
        qk__place place = qk__panel_place(&sheet, i);
        char name[200];
        if (qk__is_leftmost(&sheet, i))
            qk__label_panel(figure, &place, "Loss (nats a token)");
        if (qk__is_lowest(&sheet, i))
            qk__put_text(figure, "'Query heads changed together'", place.left + place.width / 2,
                         place.top + place.height + 38 * em, QK__CENTRED);
        snprintf(name, sizeof name, "%s, %s", found[i].points->what, found[i].points->order);
        qk__put_name(figure, name, &place, 10);
        draw_curve(figure, &found[i], &place);
    }
    qk__end_sheet(figure);
}
