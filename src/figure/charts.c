/* SPDX-License-Identifier: Apache-2.0 */
/* Charts: bars, stacks and curves of numbers over models, layers, components or dimensions, as the row of the figure
 * says. */
#include <math.h>
#include <stdio.h>

#include "figure/chart.h"

/* Least pixels of a place on an axis, and of a plot; the share of a place that its bars take. */
enum {
    LEAST_PLACE = 20,
    LEAST_PLOT = 440,
    MODEL_ROOM = 120,
    LEFT = 76,
    LEAST_TIC = 30,
    TITLE = 28, /* above a plot */
    MOST_SHOWN = 12
};
#define BAR  0.76
#define DROP 0.2 /* opacity of an area between curves, so that lines below it are seen */

/* ---- colours and legends ---------------------------------------------------------------- */

static const char *series_color(const qk__figure *figure, const qk__chart_series *series,
                                char mixed[8])
{
    const qk__theme *theme = figure->theme;
    qk__hue hue = series->field ? qk__find_field(series->field)->hue : QK__HUE_NONE;
    switch (series->role) {
    case QK__FIRST:
        return theme->q;
    case QK__SECOND:
        return theme->k;
    case QK__TINT:
        return qk__mixed_color(theme->accent, theme->background, 0.5, mixed);
    case QK__REST:
        return theme->grid;
    case QK__GREY:
        return theme->muted;
    case QK__BY_CATEGORY:
        return qk__category_color(theme, (int)series->category);
    case QK__AS_COLUMN:
        return hue == QK__HUE_QUERIES ? theme->q
               : hue == QK__HUE_KEYS  ? theme->k
                                      : theme->accent;
    default:
        return theme->accent;
    }
}

/* Entries of a legend, with the colours that are mixed for them. */
typedef struct naming {
    size_t count;
    qk__entry entries[QK__MAX_ENTRIES + 8];
    char mixed[QK__MAX_ENTRIES + 8][10];
} naming;

/* Without entries where colours mean nothing: one family, or each model its own. */
static void name_chart_groups(const qk__figure *figure, const qk__results *results,
                              naming *named)
{
    const char *const *names;
    size_t count = qk__color_groups(results, &names);
    if (results->checkpoints || (count > 1 && count < results->num_models))
        named->count = qk__series_entries(figure, names, count, named->entries);
}

/* The points of the first curve are discs, of other curves squares. */
static int mark_of(const qk__panel *panel, size_t s)
{
    return panel->mark != QK__CURVES ? QK__AREA : s == 0 ? QK__DISC : QK__SQUARE;
}

static void name_series(const qk__figure *figure, const qk__subject *subject,
                        const qk__panel *panel, naming *named)
{
    if (panel->series[0].role == QK__GROUP) {
        if (named->count > 0)
            return;
        name_chart_groups(figure, subject->results, named);
        if (panel->statistic == QK__STAT_QUARTILES) {
            named->entries[named->count++] =
                (qk__entry){"quartiles", figure->theme->ink, QK__LINE, 0};
            named->entries[named->count++] =
                (qk__entry){"median", figure->theme->ink, QK__DISC, 0};
        }
        return;
    }
    for (size_t s = 0; s < qk__count_series(panel); s++) {
        const char *name = panel->series[s].role == QK__BY_CATEGORY
                               ? qk_category_name(panel->series[s].category)
                               : panel->series[s].name;
        if (!name)
            continue;
        const char *color = series_color(figure, &panel->series[s], named->mixed[named->count]);
        named->entries[named->count++] = (qk__entry){name, color, mark_of(panel, s), 0};
    }
    if (panel->between) {
        named->entries[named->count++] =
            (qk__entry){panel->between, figure->theme->accent, QK__AREA, DROP};
    }
}

/* ---- marks ------------------------------------------------------------------------------ */

/* The place's own colour, or that of its family. */
static const char *bar_color(const qk__figure *figure, const qk__subject *subject,
                             const qk__chart *c, size_t s, size_t row, char mixed[8])
{
    const qk__results *results = subject->results;
    if (c->panel->series[s].role == QK__GROUP)
        return qk__series_color(
            figure->theme, qk__color_group(results, &results->models[(size_t)c->place[row]]));
    return series_color(figure, &c->panel->series[s], mixed);
}

static void plot_bars(qk__figure *figure, const qk__subject *subject, const qk__chart *c,
                      const qk__plot *plot)
{
    const double width = BAR / (double)c->count;
    char mixed[8], text[QK__NUMBER_TEXT];
    bool told =
        c->panel->percent && qk__tic_step(c->rows, plot->width, 36 * qk__em(figure)) == 1;
    for (size_t s = 0; s < c->count; s++)
        for (size_t i = 0; i < c->rows; i++) {
            const double x = c->place[i] + ((double)s - (double)c->count / 2) * width;
            const double value = c->values[s][QK__VALUE][i];
            qk__draw_bar(plot, x, x + width, 0, value,
                         (qk__pen){.fill = bar_color(figure, subject, c, s, i, mixed)});
            if (told && isfinite(value))
                qk__put_text(figure,
                             qk__figure_format(figure, "%s%%",
                                               qk__number_text(text, "%.1f", 100 * value)),
                             qk__at_x(plot, c->place[i]),
                             qk__at_y(plot, value) - 8 * qk__em(figure), QK__SMALL_TYPE);
        }
    if (c->panel->statistic != QK__STAT_QUARTILES)
        return;
    double *const *first = c->values[0];
    qk__draw_whiskers(plot, c->place, first[QK__VALUE_LOW], first[QK__VALUE_HIGH], c->rows,
                      (qk__pen){.stroke = figure->theme->ink, .width = 1.2});
    qk__draw_points(plot, c->place, first[QK__VALUE_MEDIAN], c->rows, QK__DISC,
                    2 * qk__em(figure), figure->theme->ink, 0);
}

static void plot_stack(const qk__figure *figure, const qk__chart *c, const qk__plot *plot)
{
    char mixed[8];
    for (size_t i = 0; i < c->rows; i++) {
        double below = 0;
        for (size_t s = 0; s < c->count; s++) {
            const double above = below + c->values[s][QK__VALUE][i];
            qk__draw_bar(plot, c->place[i] - BAR / 2, c->place[i] + BAR / 2, below, above,
                         (qk__pen){.fill = series_color(figure, &c->panel->series[s], mixed)});
            below = above;
        }
    }
}

static void plot_curves(const qk__figure *figure, const qk__chart *c, const qk__plot *plot)
{
    char mixed[8];
    for (size_t s = 0; s < c->count && c->interval; s++)
        qk__draw_band(plot, c->place, c->values[s][QK__VALUE_LOW], c->values[s][QK__VALUE_HIGH],
                      c->rows,
                      (qk__pen){.fill = series_color(figure, &c->panel->series[s], mixed),
                                .opacity = 0.16});
    if (c->panel->between)
        qk__draw_band(plot, c->place, c->values[0][QK__VALUE], c->values[1][QK__VALUE], c->rows,
                      (qk__pen){.fill = figure->theme->accent, .opacity = DROP});
    for (size_t s = 0; s < c->count; s++) {
        const char *color = series_color(figure, &c->panel->series[s], mixed);
        const double *values = c->values[s][QK__VALUE];
        qk__draw_curve(plot, c->place, values, c->rows,
                       (qk__pen){.stroke = color, .width = 1.8});
        qk__draw_points(plot, c->place, values, c->rows, (qk__sign)mark_of(c->panel, s),
                        2.8 * qk__em(figure), color, 0);
    }
}

/* ---- panels ----------------------------------------------------------------------------- */

/* What a figure's panels share. */
typedef struct page {
    const qk__subject *subject;
    qk__sheet sheet;
    qk__model_axis axis;
    bool joined;              /* panels one below the other with one axis */
    bool names_each;          /* the legend of a panel is above it */
    bool named;               /* phases are named above panels */
    double phases;            /* height of these names */
    const char *const *names; /* of places */
} page;

static const char *const WORDS[] = {[QK__LAYERS] = "Layer",
                                    [QK__COMPONENTS] = "Principal component",
                                    [QK__DIMENSIONS] = "Query dimension",
                                    [QK__LENGTHS] = "Length of the texts (tokens)"};

/* The names of places, markup. NULL: no memory. */
static const char *const *place_names(qk__figure *figure, const qk__subject *subject)
{
    const size_t count = qk__count_places(subject);
    const qk__results *results = subject->results;
    const char **names = qk__figure_alloc(figure, count + 1, sizeof *names);
    for (size_t i = 0; names && i < count; i++)
        switch (subject->kind->over) {
        case QK__MODELS:
            names[i] = qk__figure_escape(figure, results->models[i].label);
            break;
        case QK__COMPONENTS:
            names[i] = qk__figure_format(figure, "PC%zu", i);
            break;
        case QK__LENGTHS:
            names[i] = qk__figure_format(figure, "%lld",
                                         (long long)qk__number_in(&subject->rows, i, 1));
            break;
        default:
            names[i] = qk__figure_format(figure, "%zu", i);
        }
    return names;
}

static void draw_places(qk__figure *figure, const page *p, bool last, const qk__place *place,
                        const qk__plot *plot)
{
    const size_t count = qk__count_places(p->subject);
    const qk__over over = p->subject->kind->over;
    const double em = qk__em(figure);
    if (over == QK__MODELS) {
        if (!last)
            return;
        qk__draw_model_axis(figure, &p->axis, plot);
        qk__label_model_axis(figure, &p->axis, place);
        return;
    }
    qk__put_markup(figure, WORDS[over], place->left + place->width / 2,
                   place->top + place->height + 38 * em, QK__CENTRED);
    const bool numbers = over == QK__LAYERS || over == QK__DIMENSIONS;
    if (p->names)
        qk__put_labels(figure, plot, QK__BELOW, p->names, count,
                       qk__tic_step(count, place->width, LEAST_TIC * em),
                       (qk__tic_style){.length = numbers ? 4 * em : 0});
}

/* The legend, and the title above it, or above the plot where there is none. */
static void put_chart_names(qk__figure *figure, const page *p, const qk__chart *c,
                            const qk__place *place)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    double top = place->top;
    char text[QK__LINE_SIZE];
    naming named = {0};
    if (p->names_each) {
        name_series(figure, p->subject, c->panel, &named);
        const qk__legend legend =
            qk__plan_legend(figure, named.entries, named.count, true, place->width);
        top -= legend.height;
        qk__put_legend(figure, &legend, middle, top - 4 * em);
    } else {
        top -= (p->sheet.above - TITLE) * em;
    }
    if (c->panel->title) {
        snprintf(text, sizeof text, "%s%s", c->panel->title, c->power.text);
        qk__put_markup(figure, text, middle, top - (TITLE - 12) * em, QK__CENTRED);
    }
}

static void put_y_label(qk__figure *figure, const page *p, const qk__chart *c, size_t i,
                        const qk__place *place)
{
    char label[QK__LINE_SIZE];
    const char *y_label = c->panel->y_label || c->panel->title
                              ? c->panel->y_label
                              : qk__series_name(&c->panel->series[0]);
    if (!qk__is_leftmost(&p->sheet, i) || !y_label)
        return;
    snprintf(label, sizeof label, "%s%s", y_label, c->panel->title ? "" : c->power.text);
    qk__put_markup(figure, label, 14 * qk__em(figure), place->top + place->height / 2,
                   QK__TURNED);
}

static void draw_chart(qk__figure *figure, const page *p, const qk__chart *c, size_t i)
{
    const double em = qk__em(figure);
    const qk__results *results = p->subject->results;
    const qk__place place = qk__panel_place(&p->sheet, i);
    const bool models = p->subject->kind->over == QK__MODELS;
    qk__plot plot = qk__figure_plot(figure, &place);
    plot.x = models ? qk__model_range(results)
                    : (qk__axis){-0.6, (double)qk__count_places(p->subject) - 0.4, false};
    plot.y = qk__value_axis(c);
    qk__number_tics(&plot, QK__LEFT, 44 * em, 0,
                    (qk__tic_style){.length = 4 * em,
                                    .grid = true,
                                    .factor = c->power.factor,
                                    .after = c->panel->percent ? "%" : NULL});
    draw_places(figure, p, !p->joined || i + 1 == p->sheet.count, &place, &plot);
    put_chart_names(figure, p, c, &place);
    put_y_label(figure, p, c, i, &place);
    if (models && p->named && (!p->joined || i == 0))
        qk__name_phases(figure, results, &place);
    if (models)
        qk__part_phases(&plot, results);
    if (plot.y.low < 0)
        qk__line_across(&plot, 0, qk__zero_line(figure));
    if (c->panel->mark == QK__BARS)
        plot_bars(figure, p->subject, c, &plot);
    else if (c->panel->mark == QK__STACK)
        plot_stack(figure, c, &plot);
    else
        plot_curves(figure, c, &plot);
    for (int k = 0; k < 2; k++)
        if (c->panel->lines[k] != 0)
            qk__line_across(&plot, c->panel->lines[k], qk__guide(figure));
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
}

/* ---- the figure ------------------------------------------------------------------------- */

/* Plans the axis of models, and the room for it and the names of phases. */
static void plan_models(qk__figure *figure, page *p)
{
    const double em = qk__em(figure);
    const qk__results *results = p->subject->results;
    qk__sheet *s = &p->sheet;
    size_t columns = s->most < s->count ? s->most : s->count;
    columns = qk__fit_columns(figure, columns, s->least);
    for (int round = 0; round < 2; round++) {
        double width =
            (figure->width - (s->left + s->right) * em - s->gap * em * ((double)columns - 1)) /
            (double)columns;
        p->axis = qk__plan_model_axis(figure, results, width);
        s->left = fmax(s->left, fmin(p->axis.reach / em + 8, 0.5 * width / em));
    }
    s->gap = columns > 1 ? fmax(s->gap, s->left) : s->gap;
    p->phases = p->named ? qk__phases_height(figure, results, p->axis.width) / em : 0;
    s->below = p->axis.height / em + 8;
    if (p->joined) {
        s->head += p->phases;
        s->foot += s->below - 16;
        s->below = 16;
    } else {
        s->above += p->phases;
    }
}

/* Room for the legend above each panel; in a row of panels, for the tallest. */
static void plan_legends(qk__figure *figure, page *p, const qk__chart *charts)
{
    const double em = qk__em(figure);
    qk__sheet *s = &p->sheet;
    const size_t columns =
        qk__fit_columns(figure, s->most < s->count ? s->most : s->count, s->least);
    const double width = figure->width / (double)columns - (LEFT + 18) * em;
    double *rows = qk__figure_alloc(figure, s->count + 1, sizeof *rows), tallest = 0;
    for (size_t i = 0; rows && i < s->count; i++) {
        naming named = {0};
        name_series(figure, p->subject, charts[i].panel, &named);
        double *row = &rows[i / columns];
        *row = fmax(
            *row, qk__plan_legend(figure, named.entries, named.count, true, width).height / em);
        tallest = fmax(tallest, *row);
    }
    for (size_t i = 0; rows && i <= s->count; i++)
        rows[i] = tallest - rows[i];
    s->above += tallest;
    s->less = rows;
}

static page plan_page(qk__figure *figure, const qk__subject *subject, const qk__chart *charts,
                      size_t count)
{
    const qk__figure_kind *kind = subject->kind;
    const double em = qk__em(figure), models = (double)subject->results->num_models;
    bool over_models = kind->over == QK__MODELS;
    page p = {.subject = subject,
              .joined = over_models && count > 1 && kind->columns <= 1,
              .names_each = !over_models && count > 1,
              .named = over_models && charts[0].panel->series[0].role != QK__GROUP};
    p.sheet = (qk__sheet){.count = count,
                          .most = kind->columns > 0 ? kind->columns : 1,
                          .least = 250,
                          .left = LEFT,
                          .gap = 62,
                          .right = 18,
                          .above = 8,
                          .height = kind->height,
                          .below = 54};
    qk__sheet *s = &p.sheet;
    while (over_models && s->most > 1 &&
           figure->width / em / (double)s->most - LEFT < LEAST_PLACE * 0.75 * models)
        s->most--;
    if (over_models && count == 1 && charts[0].panel->mark != QK__CURVES)
        qk__suit_width(figure, fmin(figure->width, fmax(LEAST_PLOT + (LEFT + 18) * em,
                                                        MODEL_ROOM * (2 + models))));
    if (charts[0].panel->title)
        s->above = TITLE;
    if (p.names_each)
        plan_legends(figure, &p, charts);
    if (over_models)
        plan_models(figure, &p);
    return p;
}

void qk__build_chart(qk__figure *figure, const qk__subject *subject)
{
    qk__chart charts[MOST_SHOWN];
    size_t count = 0;
    naming named = {0};
    const char *const *names = place_names(figure, subject);
    for (const qk__panel *panel = subject->kind->panels;
         qk__count_series(panel) > 0 && count < MOST_SHOWN; panel++)
        if (qk__has_numbers(subject, panel))
            charts[count++] = qk__make_chart(figure, subject, panel, names);
    if (count == 0) /* then it does not apply */
        return;
    page p = plan_page(figure, subject, charts, count);
    p.names = names;
    for (size_t i = 0; !p.names_each && i < count; i++)
        name_series(figure, subject, charts[i].panel, &named);
    p.sheet.entries = named.entries;
    p.sheet.num_entries = named.count;
    p.sheet.markup = charts[0].panel->series[0].role != QK__GROUP;
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    if (subject->kind->pools)
        qk__tell_pooled(figure, subject->results, subject->results->num_models);
    qk__begin_sheet(figure, &p.sheet);
    for (size_t i = 0; i < count; i++)
        draw_chart(figure, &p, &charts[i], i);
}
