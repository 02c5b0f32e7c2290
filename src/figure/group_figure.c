/* SPDX-License-Identifier: Apache-2.0 */
/* Loss over how many heads are changed together, beside that of random ones: a panel for each change and
 * column. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

enum { MOST_PANELS = 12, COLUMNS = 2, LEAST_PANEL = 270 };
#define BAND 0.25 /* opacity */

/* Columns of rows. */
enum { WHAT = 1, CHOSEN_BY, SIZE, NUMBERS, MODEL = NUMBERS + 6, QUERY_HEADS, CURVE };

/* What a panel has to hold. */
enum { DELTA, DELTA_LOW, DELTA_HIGH, RANDOM, RANDOM_LEAST, RANDOM_MOST, NUM_NUMBERS };
typedef struct plot {
    const char *what, *chosen_by; /* from outside */
    size_t count;
    double *x, *numbers[NUM_NUMBERS]; /* [count] */
    /* of the model, whose shares are on the axis; NaN: numbers of heads are */
    double num_heads;
    double most; /* heads */
    double unit; /* of the axis, a head */
    qk__range loss;
    qk__power power;
    bool random;
} plot;

static plot find_points(qk__figure *figure, const qk__found *rows)
{
    plot p = {.what = qk__text_in(rows, 0, WHAT),
              .chosen_by = qk__text_in(rows, 0, CHOSEN_BY),
              .num_heads = qk__number_in(rows, 0, QUERY_HEADS),
              .most = qk__number_in(rows, rows->count - 1, SIZE),
              .loss = {0, 0}};
    p.unit = isfinite(p.num_heads) ? 100.0 / p.num_heads : 1;
    double *numbers =
        qk__figure_alloc(figure, (NUM_NUMBERS + 1) * (rows->count + 1), sizeof *numbers);
    if (!numbers)
        return p;
    p.count = rows->count;
    p.x = numbers;
    const char *panel = qk__figure_escape(figure, p.what);
    const char *column = qk__figure_escape(figure, p.chosen_by);
    const char *random = qk__figure_format(figure, "random (%s)", column);
    for (size_t n = 0; n < NUM_NUMBERS; n++)
        p.numbers[n] = numbers + (n + 1) * p.count;
    for (size_t i = 0; i < p.count; i++) {
        const double heads = qk__number_in(rows, i, SIZE);
        double *const *of = p.numbers;
        p.x[i] = heads * p.unit;
        for (size_t n = 0; n < NUM_NUMBERS; n++) {
            of[n][i] = qk__number_in(rows, i, NUMBERS + n);
            qk__range_add(&p.loss, of[n][i]);
        }
        qk__tell_range(figure, panel, column, heads, of[DELTA][i], of[DELTA_LOW][i],
                       of[DELTA_HIGH][i]);
        if (isfinite(of[RANDOM][i]))
            qk__tell_range(figure, panel, random, heads, of[RANDOM][i], of[RANDOM_LEAST][i],
                           of[RANDOM_MOST][i]);
        p.random |= isfinite(of[RANDOM][i]);
    }
    p.power = qk__power_for(qk__find_field("remove_loss"), fmax(-p.loss.low, p.loss.high));
    return p;
}

/* The share of the model's heads below, how many that are above; where the model is not known, their
 * number below. */
static void draw_axes(qk__figure *figure, const plot *p, qk__plot *at)
{
    const double em = qk__em(figure);
    const double most = 1.06 * p->most;
    const bool shares = isfinite(p->num_heads);
    const double room = 0.07 * (p->loss.high - p->loss.low);
    at->x = qk__axis_between(0, most * p->unit);
    at->y = qk__axis_between(p->loss.low - (p->loss.low < 0 ? room : 0), p->loss.high + room);
    qk__number_tics(at, QK__BELOW, 70 * em, 0, (qk__tic_style){.length = 4 * em});
    qk__number_tics(at, QK__LEFT, 44 * em, 0,
                    (qk__tic_style){.length = 4 * em, .factor = p->power.factor});
    if (shares) {
        qk__plot heads = *at;
        heads.x = qk__axis_between(0, most);
        const double step =
            fmax(1, qk__round_step(most / fmax(2, fmin(5, at->width / (44 * em)))));
        qk__number_tics(&heads, QK__ABOVE, 44 * em, step, (qk__tic_style){.length = 4 * em});
    }
    if (p->loss.low < 0)
        qk__line_across(at, 0, qk__zero_line(figure));
    qk__draw_sides(at, 1u << QK__BELOW | 1u << QK__LEFT | (shares ? 1u << QK__ABOVE : 0));
}

static void put_points(qk__figure *figure, const plot *p, const qk__plot *at)
{
    const qk__theme *theme = figure->theme;
    const double em = qk__em(figure);
    if (p->random) {
        qk__draw_band(at, p->x, p->numbers[RANDOM_LEAST], p->numbers[RANDOM_MOST], p->count,
                      (qk__pen){.fill = theme->muted, .opacity = BAND});
        qk__draw_curve(at, p->x, p->numbers[RANDOM], p->count,
                       (qk__pen){.stroke = theme->muted, .width = 1.5});
        qk__draw_points(at, p->x, p->numbers[RANDOM], p->count, QK__SQUARE, 2.3 * em,
                        theme->muted, 0);
    }
    qk__draw_whiskers(at, p->x, p->numbers[DELTA_LOW], p->numbers[DELTA_HIGH], p->count,
                      (qk__pen){.stroke = theme->accent, .width = 1.2});
    qk__draw_curve(at, p->x, p->numbers[DELTA], p->count,
                   (qk__pen){.stroke = theme->accent, .width = 1.8});
    qk__draw_points(at, p->x, p->numbers[DELTA], p->count, QK__DISC, 2.8 * em, theme->accent,
                    0);
}

/* Above it the change; below that by what its heads are chosen, which tells what the numbers on the upper
 * axis are. */
static void draw_panel(qk__figure *figure, const plot *p, const qk__sheet *sheet, size_t panel)
{
    const double em = qk__em(figure);
    const qk__place place = qk__panel_place(sheet, panel);
    const double middle = place.left + place.width / 2;
    const double room = place.width + 2 * sheet->right * em;
    const bool scaled = *p->power.text, shares = isfinite(p->num_heads);
    char text[QK__LINE_SIZE];
    qk__put_text(figure,
                 qk__figure_format(
                     figure, "%.600s%s%s%s",
                     qk__brief(figure, p->what, QK__SMALL * room - (scaled ? 110 * em : 0)),
                     scaled ? " (loss" : "", p->power.text, scaled ? ")" : ""),
                 middle, place.top - (sheet->above - 8) * em, QK__CENTRED);
    qk__put_text(
        figure,
        qk__figure_format(figure, "%s%.600s", shares ? "heads, first by " : "first by ",
                          qk__brief(figure, p->chosen_by, room - qk__text_width(figure, 16))),
        middle, place.top - (sheet->above - 24) * em, QK__NOTE);
    snprintf(text, sizeof text, shares ? "Heads changed (%% of %.0f)" : "Heads changed",
             p->num_heads);
    qk__put_markup(figure, text, middle, place.top + place.height + 38 * em, QK__CENTRED);
    if (qk__is_leftmost(sheet, panel))
        qk__label_panel(figure, &place, "Rise of the loss (nats a token)");
    qk__plot at = qk__figure_plot(figure, &place);
    draw_axes(figure, p, &at);
    put_points(figure, p, &at);
}

/* The one that the ablation is of; an ablation of groups alone has no results of heads, and so no models. */
static const qk__result_model *find_model(const qk__results *results, const char *name)
{
    qk__each_model (results, model)
        if (strcmp(model->name, name) == 0)
            return model;
    return NULL;
}

void qk__build_group_curves(qk__figure *figure, const qk__subject *subject)
{
    const qk__found *rows = &subject->rows;
    plot plots[MOST_PANELS];
    size_t count = 0, all = 0;
    bool random = false;
    char heading[160];
    for (size_t i = 0; i < rows->count; all++) {
        const qk__found curve = qk__same_in(rows, i, CURVE);
        if (count < MOST_PANELS)
            plots[count++] = find_points(figure, &curve);
        i += curve.count;
    }
    for (size_t i = 0; i < count; i++)
        random |= plots[i].random;
    const qk__entry entries[] = {
        {"first, with interval", figure->theme->accent, QK__DISC, 0},
        {"random, mean", figure->theme->muted, QK__LINE, 0},
        {"random, least to most", figure->theme->muted, QK__AREA, BAND}};
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
    if (count < all)
        snprintf(heading, sizeof heading, "%s, the first %zu of %zu curves",
                 subject->kind->heading, count, all);
    const char *name = qk__text_in(rows, 0, MODEL) ? qk__text_in(rows, 0, MODEL) : "";
    const qk__result_model alone = {.label = name}, *of = find_model(subject->results, name);
    qk__set_heading(figure, subject->results, of || !*name ? of : &alone, heading);
    qk__begin_sheet(figure, &sheet);
    for (size_t i = 0; i < count; i++)
        draw_panel(figure, &plots[i], &sheet, i);
}
