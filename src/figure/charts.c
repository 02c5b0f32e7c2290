/* SPDX-License-Identifier: Apache-2.0 */
/* Charts: bars, stacks and curves of numbers over models, layers, components or dimensions, as the
 * rows of the table say. */
#include <math.h>
#include <stdio.h>

#include "figure/chart.h"

/* A place of an axis needs so many pixels, a plot at least; the bars of one place take this part. */
enum {
    LEAST_PLACE = 20,
    LEAST_PLOT = 440,
    MODEL_ROOM = 120,
    LEFT = 76,
    LEAST_TIC = 30,
    MOST_SHOWN = 12
};
#define BAR        0.76
#define DROP_ALPHA 0xcc /* an area between curves: lines below it are seen */

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

/* None where colours tell nothing: there is one family, or each model is its own. */
static void name_chart_groups(const qk__figure *figure, const qk__results *results,
                              naming *named)
{
    const char *const *names;
    size_t count = qk__color_groups(results, &names);
    if (results->checkpoints || (count > 1 && count < results->num_models))
        named->count = qk__series_entries(figure, names, count, named->entries);
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
                (qk__entry){"quartiles", figure->theme->ink, QK__LINE};
            named->entries[named->count++] = (qk__entry){"median", figure->theme->ink, 7};
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
        named->entries[named->count++] =
            (qk__entry){name, color, panel->mark == QK__CURVES && s == 0 ? 7 : QK__AREA};
    }
    if (panel->between) {
        char *color = named->mixed[named->count];
        snprintf(color, 10, "#%02x%.6s", DROP_ALPHA, figure->theme->accent + 1);
        named->entries[named->count++] = (qk__entry){panel->between, color, QK__AREA};
    }
}

/* ---- marks ------------------------------------------------------------------------------ */

static void plot_bars(qk__figure *figure, const qk__chart *c, size_t places)
{
    const double width = BAR / (double)c->count, factor = c->power.factor;
    char mixed[8];
    for (size_t s = 0; s < c->count; s++) {
        const qk__chart_series *series = &c->panel->series[s];
        qk__figure_print(figure, "%sdata index %zu using ($1%+.3f):(%.9g*$%zu):(%.3f)",
                         s ? ", " : "plot ", c->block,
                         ((double)s - ((double)c->count - 1) / 2) * width, factor,
                         2 + s * c->width, width);
        if (series->role == QK__GROUP)
            qk__figure_print(figure, ":%zu with boxes lc rgb variable",
                             2 + c->count * c->width);
        else
            qk__figure_print(figure, " with boxes lc rgb '%s'",
                             series_color(figure, series, mixed));
    }
    if (c->panel->statistic ==
        QK__STAT_QUARTILES) /* yerrorbars would leave a gap around the point */
        qk__figure_print(figure,
                         ", data index %zu using 1:(%.9g*$3):(0):(%.9g*($4-$3)) with vectors "
                         "nohead lw 1.2 lc rgb '%s', data index %zu using 1:(%.9g*$5) with "
                         "points pt 7 ps 0.4 lc rgb '%s'",
                         c->block, factor, factor, figure->theme->ink, c->block, factor,
                         figure->theme->ink);
    if (c->panel->percent &&
        qk__tic_step(places, figure->panel_width, 36 * qk__em(figure)) == 1)
        qk__figure_print(
            figure,
            ", data index %zu using 1:(100*$2):(sprintf('%%.1f%%%%', 100*$2)) with "
            "labels offset 0,0.6 tc rgb '%s' font small",
            c->block, figure->theme->ink);
}

/* Each box reaches from zero to the top of its share, the highest drawn first. */
static void plot_stack(qk__figure *figure, const qk__chart *c)
{
    char mixed[8];
    for (size_t top = c->count; top-- > 0;) {
        qk__figure_print(figure, "%sdata index %zu using 1:($2",
                         top + 1 < c->count ? ", " : "plot ", c->block);
        for (size_t s = 1; s <= top; s++)
            qk__figure_print(figure, "+$%zu", 2 + s);
        qk__figure_print(figure, "):(%g) with boxes lc rgb '%s'", BAR,
                         series_color(figure, &c->panel->series[top], mixed));
    }
}

static void plot_curves(qk__figure *figure, const qk__chart *c)
{
    const char *separator = "plot ";
    const double factor = c->power.factor;
    char mixed[8];
    for (size_t s = 0; s < c->count && c->width > 1; s++, separator = ", ")
        qk__figure_print(
            figure,
            "%sdata index %zu using 1:(%.9g*$%zu):(%.9g*$%zu) with filledcurves fs "
            "transparent solid 0.16 noborder lc rgb '%s'",
            separator, c->block, factor, 3 + s * c->width, factor, 4 + s * c->width,
            series_color(figure, &c->panel->series[s], mixed));
    if (c->panel->between) {
        qk__figure_print(figure,
                         "%sdata index %zu using 1:2:3 with filledcurves lc rgb '#%02x%.6s'",
                         separator, c->block, DROP_ALPHA, figure->theme->accent + 1);
        separator = ", ";
    }
    for (size_t s = 0; s < c->count; s++, separator = ", ")
        qk__figure_print(figure,
                         "%sdata index %zu using 1:(%.9g*$%zu) with linespoints lt 1 lw 1.8 pt "
                         "%d ps 0.6 lc rgb '%s'",
                         separator, c->block, factor, 2 + s * c->width, s == 0 ? 7 : 5,
                         series_color(figure, &c->panel->series[s], mixed));
}

/* ---- panels ----------------------------------------------------------------------------- */

/* All that a figure's panels share. */
typedef struct page {
    const qk__subject *subject;
    qk__sheet sheet;
    qk__model_axis axis;
    bool joined;     /* panels below each other with one axis */
    bool names_each; /* the legend of a panel is above it */
    bool named;      /* phases are named above panels */
    double phases;   /* what that takes */
} page;

static void set_places(qk__figure *figure, const page *p, bool last, const qk__place *place)
{
    static const char *const WORDS[] = {[QK__LAYERS] = "Layer",
                                        [QK__COMPONENTS] = "Principal component",
                                        [QK__DIMENSIONS] = "Query dimension",
                                        [QK__LENGTHS] = "Length of the texts (tokens)"};
    const size_t count = qk__count_places(p->subject);
    const qk__over over = p->subject->kind->over;
    if (over == QK__MODELS) {
        qk__set_model_axis(figure, &p->axis);
        if (last)
            qk__label_model_axis(figure, &p->axis, place);
        else
            qk__figure_print(figure, "set format x ''\nunset xtics\n");
        return;
    }
    qk__put_markup(figure, WORDS[over], place->left + place->width / 2,
                   place->top + place->height + 38 * qk__em(figure), QK__CENTRED);
    size_t step = qk__tic_step(count, place->width, LEAST_TIC * qk__em(figure));
    qk__figure_print(figure, "set xrange [-0.6:%.1f]\nset xtics %zu font small\n",
                     (double)count - 0.4, step);
    if (over == QK__LENGTHS) {
        qk__figure_print(figure, "set xtics scale 0 (");
        for (size_t i = 0; i < count; i += step)
            qk__figure_print(figure, "%s'%lld' %zu", i ? ", " : "",
                             (long long)p->subject->model->heads[0].lengths[i], i);
        qk__figure_print(figure, ")\n");
    }
    if (over != QK__COMPONENTS)
        return;
    qk__figure_print(figure, "set xtics scale 0 (");
    for (size_t pc = 0; pc < count; pc += step)
        qk__figure_print(figure, "%s'PC%zu' %zu", pc ? ", " : "", pc, pc);
    qk__figure_print(figure, ")\n");
}

static void put_chart_names(qk__figure *figure, const page *p, const qk__chart *c,
                            const qk__place *place)
{
    const double em = qk__em(figure);
    char text[QK__LINE_SIZE];
    if (c->panel->title) {
        snprintf(text, sizeof text, "%s%s", c->panel->title, c->power.text);
        qk__put_markup(figure, text, place->left + place->width / 2,
                       place->top - (p->sheet.above - 12) * em, QK__CENTRED);
    }
    if (p->names_each) {
        naming named = {0};
        name_series(figure, p->subject, c->panel, &named);
        qk__legend legend =
            qk__plan_legend(figure, named.entries, named.count, true, place->width);
        qk__put_legend(figure, &legend, place->left + place->width / 2,
                       place->top - 4 * em - legend.height);
    }
}

static void draw_chart(qk__figure *figure, const page *p, const qk__chart *c, size_t i)
{
    const qk__results *results = p->subject->results;
    const qk__place place = qk__panel_place(&p->sheet, i);
    char label[QK__LINE_SIZE];
    qk__put_panel(figure, &place);
    set_places(figure, p, !p->joined || i + 1 == p->sheet.count, &place);
    put_chart_names(figure, p, c, &place);
    const char *y_label = c->panel->y_label || c->panel->title
                              ? c->panel->y_label
                              : qk__series_name(&c->panel->series[0]);
    if (qk__is_leftmost(&p->sheet, i) && y_label) {
        snprintf(label, sizeof label, "%s%s", y_label, c->panel->title ? "" : c->power.text);
        qk__put_markup(figure, label, 14 * qk__em(figure), place.top + place.height / 2,
                       QK__TURNED);
    }
    if (p->subject->kind->over == QK__MODELS && p->named && (!p->joined || i == 0))
        qk__figure_panel_phases(figure, results, &place);
    else if (p->subject->kind->over == QK__MODELS)
        qk__part_phases(figure, results);
    qk__set_values(figure, c, &place);
    if (c->panel->percent)
        qk__figure_print(figure, "set format y '%%g%%%%'\n");
    switch (c->panel->mark) {
    case QK__BARS:
        plot_bars(figure, c, qk__count_places(p->subject));
        break;
    case QK__STACK:
        plot_stack(figure, c);
        break;
    case QK__CURVES:
        plot_curves(figure, c);
        break;
    }
    qk__figure_print(figure, "\nunset label\nunset arrow\nunset xzeroaxis\n");
}

/* ---- the figure ------------------------------------------------------------------------- */

/* The axis of models, and what it and the names of phases take. */
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

/* Where the legend of a panel is above it, what the tallest takes. */
static double names_height(const qk__figure *figure, const page *p, const qk__chart *charts,
                           double width)
{
    double tallest = 0;
    for (size_t i = 0; i < p->sheet.count; i++) {
        naming named = {0};
        name_series(figure, p->subject, charts[i].panel, &named);
        if (named.count > 0)
            tallest =
                fmax(tallest,
                     qk__plan_legend(figure, named.entries, named.count, true, width).height);
    }
    return tallest / qk__em(figure);
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
        s->above = 28;
    if (p.names_each) {
        size_t columns = qk__fit_columns(figure, s->most < count ? s->most : count, s->least);
        s->above += names_height(figure, &p, charts,
                                 figure->width / (double)columns - (LEFT + 18) * em);
    }
    if (over_models)
        plan_models(figure, &p);
    return p;
}

void qk__build_chart(qk__figure *figure, const qk__subject *subject)
{
    qk__chart charts[MOST_SHOWN];
    size_t count = 0;
    naming named = {0};
    for (const qk__panel *panel = subject->kind->panels;
         qk__count_series(panel) > 0 && count < MOST_SHOWN; panel++)
        if (qk__has_numbers(subject, panel))
            charts[count++] = qk__make_chart(figure, subject, panel);
    if (count == 0) /* then it does not apply */
        return;
    page p = plan_page(figure, subject, charts, count);
    for (size_t i = 0; !p.names_each && i < count; i++)
        name_series(figure, subject, charts[i].panel, &named);
    p.sheet.entries = named.entries;
    p.sheet.num_entries = named.count;
    p.sheet.markup = charts[0].panel->series[0].role != QK__GROUP;
    qk__set_heading(figure, subject->results, subject->model, subject->kind->heading);
    if (subject->kind->pools)
        qk__tell_pooled(figure, subject->results);
    qk__begin_sheet(figure, &p.sheet);
    qk__figure_print(figure, "set style fill solid 1 noborder\nset grid y back\n");
    for (size_t i = 0; i < count; i++)
        draw_chart(figure, &p, &charts[i], i);
    qk__end_sheet(figure);
}
