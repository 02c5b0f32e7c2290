/* SPDX-License-Identifier: Apache-2.0 */
/* Loss over how many heads are changed together, beside that of random ones: a panel for each change and
 * column. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

enum { MOST_PANELS = 12, COLUMNS = 2, LEAST_PANEL = 270, LEAST_NAME = 4 };

bool qk__has_group_curves(const qk__subject *subject)
{
    return subject->results->groups.count > 0;
}

/* What a panel has to hold, and where its numbers are. */
typedef struct plot {
    size_t block;
    double unit; /* of the axis, a head */
    qk__range loss;
    qk__power power;
    bool random;
    bool shares; /* of the model's heads are on the axis, else numbers of heads */
} plot;

/* Rows: place on the axis; delta and the ends of its interval; mean, least and most of the controls. */
static plot add_points(qk__figure *figure, const qk__group_curves *all,
                       const qk__group_curve *curve)
{
    plot p = {.shares = all->num_heads > 0, .loss = {0, 0}};
    p.unit = p.shares ? 100.0 / all->num_heads : 1;
    for (size_t i = 0; i < curve->count; i++) {
        const qk__group_point *of = &curve->points[i];
        const double numbers[] = {of->delta,  of->delta_lo,     of->delta_hi,
                                  of->random, of->random_least, of->random_most};
        qk__figure_value(figure, of->heads * p.unit);
        qk__figure_add_values(figure, numbers, 6);
        qk__figure_end_row(figure);
        for (size_t n = 0; n < 6; n++)
            if (isfinite(numbers[n]))
                qk__range_add(&p.loss, numbers[n]);
        p.random |= isfinite(of->random);
    }
    p.power = qk__power_for(qk__find_field("remove_loss"), fmax(-p.loss.low, p.loss.high));
    p.block = qk__figure_end_block(figure);
    return p;
}

/* The share of the model's heads below, how many that are above; where the model is not known, their
 * number below. */
static void set_axes(qk__figure *figure, const plot *p, const qk__group_curve *curve,
                     const qk__place *place)
{
    const double most = 1.06 * curve->points[curve->count - 1].heads, factor = p->power.factor;
    const double room = 0.07 * (p->loss.high - p->loss.low);
    const double count = fmax(2, fmin(5, place->width / (44 * qk__em(figure))));
    qk__set_range(figure, 'x', 0, most * p->unit, 4);
    qk__set_range(figure, 'y', factor * (p->loss.low - (p->loss.low < 0 ? room : 0)),
                  factor * (p->loss.high + room),
                  (int)fmax(2, place->height / (44 * qk__em(figure))));
    if (p->shares)
        qk__figure_print(figure, "set x2range [0:%.9g]\nset x2tics %.9g font small\n", most,
                         fmax(1, qk__round_step(most / count)));
    if (p->loss.low < 0)
        qk__figure_print(figure, "set xzeroaxis lt 1 lw 0.8 lc rgb '%s'\n",
                         figure->theme->muted);
}

static const char *band_color(const qk__figure *figure, char mixed[8])
{
    return qk__mixed_color(figure->theme->muted, figure->theme->background, 0.25, mixed);
}

static void plot_points(qk__figure *figure, const plot *p)
{
    const qk__theme *theme = figure->theme;
    const double factor = p->power.factor;
    char mixed[8];
    qk__figure_print(figure, "plot ");
    if (p->random)
        qk__figure_print(
            figure,
            "data index %zu using 1:(%.9g*$6):(%.9g*$7) with filledcurves lc rgb '%s', "
            "data index %zu using 1:(%.9g*$5) with linespoints lt 1 lw 1.5 pt 5 ps 0.5 "
            "lc rgb '%s', ",
            p->block, factor, factor, band_color(figure, mixed), p->block, factor,
            theme->muted);
    qk__figure_print(
        figure,
        "data index %zu using 1:(%.9g*$3):(0):(%.9g*($4-$3)) with vectors nohead "
        "lw 1.2 lc rgb '%s', "
        "data index %zu using 1:(%.9g*$2) with linespoints lt 1 lw 1.8 pt 7 ps 0.6 "
        "lc rgb '%s'\nunset label\nunset arrow\nunset xzeroaxis\n",
        p->block, factor, factor, theme->accent, p->block, factor, theme->accent);
}

/* Above it the change; below that by what its heads are chosen, which tells what the numbers on the upper
 * axis are. */
static void draw_panel(qk__figure *figure, const qk__group_curves *all,
                       const qk__group_curve *curve, const plot *p, const qk__sheet *sheet,
                       size_t panel)
{
    const double em = qk__em(figure);
    const qk__place place = qk__panel_place(sheet, panel);
    const double middle = place.left + place.width / 2;
    const double room = (place.width + 2 * sheet->right * em) / qk__text_width(figure, 1);
    const bool scaled = *p->power.text;
    char text[QK__LINE_SIZE];
    qk__put_panel(figure, &place);
    snprintf(text, sizeof text, "%s.'%s%s%s'",
             qk__brief(figure, curve->what,
                       (int)fmax(QK__SMALL * room - (scaled ? 14 : 0), LEAST_NAME)),
             scaled ? " (loss" : "", p->power.text, scaled ? ")" : "");
    qk__put_text(figure, qk__figure_keep(figure, text), middle,
                 place.top - (sheet->above - 8) * em, QK__CENTRED);
    snprintf(text, sizeof text, "%s.%s", p->shares ? "'heads, first by '" : "'first by '",
             qk__brief(figure, curve->column, (int)fmax(room - 16, LEAST_NAME)));
    qk__put_text(figure, qk__figure_keep(figure, text), middle,
                 place.top - (sheet->above - 24) * em, QK__NOTE);
    snprintf(text, sizeof text, p->shares ? "Heads changed (%% of %d)" : "Heads changed",
             all->num_heads);
    qk__put_markup(figure, text, middle, place.top + place.height + 38 * em, QK__CENTRED);
    if (qk__is_leftmost(sheet, panel))
        qk__label_panel(figure, &place, "Rise of the loss (nats a token)");
    set_axes(figure, p, curve, &place);
    plot_points(figure, p);
}

/* The one that the ablation is of; an ablation of groups alone has no results of heads, and so no models. */
static const qk__result_model *find_model(const qk__results *results)
{
    qk__each_model (results, model)
        if (strcmp(model->name, results->groups.model) == 0)
            return model;
    return NULL;
}

void qk__build_group_curves(qk__figure *figure, const qk__subject *subject)
{
    const qk__group_curves *all = &subject->results->groups;
    const size_t count = all->count < MOST_PANELS ? all->count : MOST_PANELS;
    plot plots[MOST_PANELS];
    bool random = false;
    char heading[160], mixed[8];
    for (size_t i = 0; i < count; i++) {
        plots[i] = add_points(figure, all, &all->items[i]);
        random |= plots[i].random;
    }
    const qk__entry entries[] = {
        {"first, with interval", figure->theme->accent, 7},
        {"random, mean", figure->theme->muted, QK__LINE},
        {"random, least to most", band_color(figure, mixed), QK__AREA}};
    qk__sheet sheet = {.count = count,
                       .most = COLUMNS,
                       .least = LEAST_PANEL,
                       .left = 70,
                       .gap = 62,
                       .right = 20,
                       .above = 62,
                       .height = subject->kind->height,
                       .below = 58,
                       .entries = entries,
                       .num_entries = random ? 3 : 1};
    snprintf(heading, sizeof heading, "%s", subject->kind->heading);
    if (count < all->count)
        snprintf(heading, sizeof heading, "%s, the first %zu of %zu curves",
                 subject->kind->heading, count, all->count);
    const qk__result_model alone = {.label = all->model}, *of = find_model(subject->results);
    qk__set_heading(figure, subject->results, of || !*all->model ? of : &alone, heading);
    qk__begin_sheet(figure, &sheet);
    qk__figure_print(figure, "set style fill solid 1 noborder\nset border %d\n",
                     all->num_heads > 0 ? 7 : 3);
    for (size_t i = 0; i < count; i++)
        draw_panel(figure, all, &all->items[i], &plots[i], &sheet, i);
    qk__end_sheet(figure);
}
