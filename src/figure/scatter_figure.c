/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a scatter collage: a sheet of panels, with bars of the colours beside it.
 *
 *     title, subtitle                     The title of a panel and the notes above its points are
 *     +-- title ---+ +-- title ---+  Q    part of the sheet's plan, so that they never meet others,
 *     | notes      | | notes      |  bar  whatever is drawn.
 *     | points     | | points     |
 *     +------------+ +------------+  K
 *     ...                            bar */
#include "figure/scatter_figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "draw/text.h"
#include "figure/scale.h"
#include "figure/sheet.h"
#include "stats/means.h"

enum {
    MANY_COLUMNS =
        5,      /* with so many columns panels are small, and the axes named once for all */
    BRIEF = 30, /* bytes of a title that fits above such a panel */
    BAR_STEPS = 64,
    MANY_POINTS = 4000, /* more points are an image */
    DOTS = 2,           /* dots of the image to a pixel; another for print */
    TYPE = 13,          /* pixels of the type that lengths of a sheet are for */
    BESIDE = 2 * TYPE,  /* from the last panel to the bars */
};

/* The layout of a scatter's panels. */
typedef struct collage {
    const qk__scatter *shown;
    qk__position_span q, k; /* with round ends */
    int notes;              /* lines above the points */
    double type;            /* size of panels' type, over the theme's */
    qk__sheet sheet;
    bool raster; /* points are an image */
    qk__tints tints;
} collage;

/* ---- places ----------------------------------------------------------------------------- */

static int notes_of(const qk__scatter *s)
{
    int most = 0;
    for (size_t i = 0; i < s->num_panels; i++) {
        int notes = s->panels[i].notes[0] ? 1 + (s->panels[i].notes[1] != NULL) : 0;
        most = notes > most ? notes : most;
    }
    return most;
}

static bool has_bars(const collage *c)
{
    return qk__span_shows(c->q) || qk__span_shows(c->k);
}

/* The width of a colour bar with its numbers, at type of 13. */
static double bar_width(const collage *c)
{
    char text[32];
    int64_t highest = c->q.high > c->k.high || !qk__span_shows(c->k) ? c->q.high : c->k.high;
    return TYPE * (5.2 + 0.62 * qk__group_digits(highest, text));
}

/* Lays out in so many columns. On a page of given width panels keep their shape. */
static void plan_columns(qk__figure *figure, collage *c, int columns)
{
    /* by columns; of many, the first where little is written above the panels */
    static const struct {
        double w, h, type;
    } SIZES[] = {{520, 430, 1},    {390, 320, 1},    {300, 250, 1},
                 {240, 205, 0.92}, {165, 138, 0.85}, {225, 185, 0.85}};
    int size = columns - 1;
    if (columns >= MANY_COLUMNS)
        size = MANY_COLUMNS - (c->notes == 0 && strlen(c->shown->panels[0].title) < BRIEF);
    c->type = SIZES[size].type;
    double line = c->type * TYPE;
    c->sheet = (qk__sheet){.count = c->shown->num_panels,
                           .most = (size_t)columns,
                           .left = 5.4 * TYPE,
                           .gap = 4 * line,
                           .right = BESIDE + (has_bars(c) ? bar_width(c) : -0.5 * TYPE),
                           .width = SIZES[size].w,
                           .above = (2 + 1.45 * c->notes) * line,
                           .height = SIZES[size].h,
                           .below = 2.4 * line,
                           .foot = 3.9 * TYPE - 2.4 * line};
    qk__lay_out(figure, &c->sheet);
    if (figure->millimetres > 0) {
        c->sheet.height *= c->sheet.first.width / qk__em(figure) / SIZES[size].w;
        qk__lay_out(figure, &c->sheet);
    }
}

/* Pixels of the longest line above a panel. */
static double widest_header(const qk__figure *figure, const collage *c)
{
    const double type = c->type * TYPE * qk__em(figure);
    double widest = 0;
    for (size_t i = 0; i < c->shown->num_panels; i++) {
        const qk__scatter_panel *panel = &c->shown->panels[i];
        widest = fmax(widest, qk__measure(panel->title, type));
        for (int n = 0; n < 2; n++)
            if (panel->notes[n])
                widest = fmax(widest, qk__measure(panel->notes[n], 0.85 * type));
    }
    return widest;
}

/* On a page of given width columns are left out, so that headers fit above the panels. */
static void plan_collage(qk__figure *figure, collage *c)
{
    int columns = c->shown->columns;
    plan_columns(figure, c, columns);
    while (figure->millimetres > 0 && columns > 1 &&
           c->sheet.across - 0.5 * c->type * TYPE * qk__em(figure) < widest_header(figure, c))
        plan_columns(figure, c, --columns);
}

/* ---- axes ------------------------------------------------------------------------------- */

/* A round step that divides range into at most `most` parts. */
static double round_step(double range, double most)
{
    static const double STEPS[] = {1, 2, 2.5, 5, 10};
    double power = pow(10, floor(log10(range / most)));
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++)
        if (STEPS[i] * power * most >= range * (1 - 1e-9))
            return STEPS[i] * power;
    return 10 * power;
}

/* The range of an axis for such values, with or without 0 on it. */
static qk__range widen(qk__range shown, bool zero)
{
    if (zero)
        qk__range_add(&shown, 0);
    double low = shown.low, high = shown.high;
    double room = 0.04 * (high - low);
    if (!(room > 1e-9 * fmax(fabs(low),
                             fabs(high)))) /* no spread: any range around the value will do */
        room = fmax(fabs(low), fabs(high)) > 0 ? 0.5 * fmax(fabs(low), fabs(high)) : 1;
    return (qk__range){low - room, high + room};
}

qk__scatter_axes qk__panel_axes(const qk__scatter *s, const qk__scatter_panel *panel)
{
    qk__range x = QK__NO_RANGE, y = QK__NO_RANGE;
    for (size_t i = 0; i < panel->count; i++) {
        qk__range_add(&x, panel->points[i].x);
        qk__range_add(&y, panel->points[i].y);
    }
    if (panel->count == 0)
        x = y = (qk__range){0, 0};
    x = widen(x, s->zero_lines);
    y = widen(y, s->zero_lines);
    return (qk__scatter_axes){x.low, x.high, y.low, y.high};
}

static void draw_panel_axes(const qk__figure *figure, const collage *c,
                            const qk__scatter_panel *panel, qk__plot *plot)
{
    const double line = c->type * TYPE * qk__em(figure);
    const qk__scatter_axes axes = qk__panel_axes(c->shown, panel);
    const qk__tic_style style = {.length = 3 * qk__em(figure)};
    plot->x = (qk__axis){axes.x_low, axes.x_high, false};
    plot->y = (qk__axis){axes.y_low, axes.y_high, false};
    plot->type = 0.8 * line;
    qk__number_tics(
        plot, QK__BELOW, 3.4 * line,
        round_step(axes.x_high - axes.x_low, fmax(1, floor(plot->width / (3.4 * line)))),
        style);
    qk__number_tics(
        plot, QK__LEFT, 2.3 * line,
        round_step(axes.y_high - axes.y_low, fmax(1, floor(plot->height / (2.3 * line)))),
        style);
    if (c->shown->zero_lines) {
        qk__line_across(plot, 0, qk__zero_line(figure));
        qk__line_up(plot, 0, qk__zero_line(figure));
    }
}

/* ---- panels ----------------------------------------------------------------------------- */

/* Many points are small, so that a cloud keeps its shape. Pixels. */
static double point_radius(const qk__plot *of, size_t count)
{
    double share = (double)count / (of->width * of->height); /* points per pixel */
    return 4.2 * fmin(0.6, fmax(0.16, 0.09 / sqrt(share > 0 ? share : 1)));
}

/* What is drawn one after the other: all points; or for one text first the other texts, then its queries, then its
 * keys. */
typedef struct layer {
    qk__sign sign;
    double size; /* over that of all */
    bool background, queries, keys;
} layer;

static bool is_in(const layer *l, const qk__point *p)
{
    return p->is_background ? l->background : p->is_key ? l->keys : l->queries;
}

static uint8_t tint_of_point(const qk__tints *tints, const qk__point *p)
{
    return p->is_background ? QK__TINT_GREY : qk__tint_of(tints, p->position, p->is_key);
}

static void tell_panel(qk__figure *figure, const qk__scatter_panel *panel)
{
    for (size_t i = 0; i < panel->count; i++) {
        const qk__point *p = &panel->points[i];
        const char *series = p->is_background
                                 ? p->is_key ? "key of another text" : "query of another text"
                             : p->is_key ? "key"
                                         : "query";
        qk__tell(figure, &(qk__told){panel->title, series, NULL, NULL, p->x, p->y, NAN, NAN,
                                     (double)p->position});
    }
}

static void put_layers(const qk__plot *plot, const collage *c, const qk__scatter_panel *panel,
                       qk__bitmap *bitmap, double dots)
{
    static const layer ALL[] = {{QK__DISC, 1, true, true, true}},
                       TEXT[] = {{QK__DISC, 1, true, false, false},
                                 {QK__DISC, 2.2, false, true, false},
                                 {QK__UP, 2.6, false, false, true}};
    const layer *layers = c->shown->one_text ? TEXT : ALL;
    const double radius = point_radius(plot, panel->count);
    for (int l = 0; l < (c->shown->one_text ? 3 : 1); l++)
        for (size_t i = 0; i < panel->count; i++) {
            const qk__point *p = &panel->points[i];
            if (!is_in(&layers[l], p))
                continue;
            const uint8_t tint = tint_of_point(&c->tints, p);
            const uint8_t *rgb = c->tints.colors[tint];
            const double r = layers[l].size * radius;
            const double at[2] = {qk__at_x(plot, p->x), qk__at_y(plot, p->y)};
            char color[8];
            if (bitmap)
                qk__bitmap_sign(bitmap, layers[l].sign, dots * (at[0] - plot->left),
                                dots * (at[1] - plot->top), dots * r, tint);
            else
                qk__draw_signs(plot->canvas, layers[l].sign, &at, 1, r,
                               p->is_background ? plot->canvas->theme->grid
                                                : qk__hex((unsigned)rgb[0] << 16 |
                                                              (unsigned)rgb[1] << 8 | rgb[2],
                                                          color),
                               0);
        }
}

static void put_image(qk__figure *figure, const collage *c, const qk__scatter_panel *panel,
                      const qk__plot *plot)
{
    const double dots = figure->millimetres > 0 ? DOTS + 1 : DOTS;
    qk__bitmap bitmap;
    qk__buffer png = {0};
    qk_error err;
    qk_status status = qk__bitmap_make(&bitmap, (size_t)fmax(1, ceil(dots * plot->width)),
                                       (size_t)fmax(1, ceil(dots * plot->height)), &err);
    if (status == QK_OK) {
        bitmap.count = c->tints.count;
        memcpy(bitmap.colors, c->tints.colors, sizeof bitmap.colors);
        put_layers(plot, c, panel, &bitmap, dots);
        status = qk__png_write(&bitmap, &png, &err);
    }
    qk__figure_fail(figure, status, &err);
    if (status == QK_OK)
        qk__draw_image(&figure->canvas, plot->left, plot->top, (double)bitmap.width / dots,
                       (double)bitmap.height / dots, &png, false);
    qk__buffer_free(&png);
    qk__bitmap_free(&bitmap);
}

static void write_panel_header(qk__figure *figure, const collage *c,
                               const qk__scatter_panel *panel, const qk__place *of)
{
    double line = 1.45 * c->type * TYPE * qk__em(figure), at = of->top - 0.52 * line;
    for (int i = 1; i >= 0; i--) {
        if (!panel->notes[i])
            continue;
        qk__put_sized(figure, panel->notes[i], of->left, at, QK__RIGHT_OF | QK__MUTED,
                      0.85 * c->type);
        at -= line;
    }
    if (panel->notes[0])
        qk__put_sized(figure, panel->title, of->left, at, QK__RIGHT_OF, c->type);
    else
        qk__put_sized(figure, panel->title, of->left + of->width / 2, at, QK__CENTRED, c->type);
}

/* In the upper left corner, over the points. */
static void write_box(qk__figure *figure, const collage *c, const qk__scatter_panel *panel,
                      const qk__place *of)
{
    if (!panel->box)
        return;
    const double type = 0.85 * c->type * TYPE * qk__em(figure), line = 1.3 * type;
    double width = 0, lines = 0, left = of->left + 8, top = of->top + 8;
    char text[QK__LINE_SIZE];
    for (const char *p = panel->box; *p; p += strcspn(p, "\n") + 1, lines++) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(p, "\n"), p);
        width = fmax(width, qk__measure(text, type));
    }
    qk__draw_rect(
        &figure->canvas, left, top, width + 12, lines * line + 8,
        (qk__pen){.fill = figure->theme->box, .stroke = figure->theme->muted, .width = 0.8});
    top += 4 + 0.5 * line;
    for (const char *p = panel->box; *p; p += strcspn(p, "\n") + 1, top += line) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(p, "\n"), p);
        qk__put_sized(figure, text, left + 6, top, QK__RIGHT_OF, 0.85 * c->type);
    }
}

/* Panels at the left and the lower edge have labels; many small panels share a pair of labels, in the middle. */
static void name_panel_axes(qk__figure *figure, const collage *c, size_t i)
{
    const double em = qk__em(figure), below = 2.7 * TYPE * em, beside = 3.9 * TYPE * em;
    const qk__sheet *sheet = &c->sheet;
    const qk__scatter *s = c->shown;
    qk__place of = qk__panel_place(sheet, i);
    char text[QK__LINE_SIZE];
    const double label = qk__measure(qk__in_symbols(figure, s->y_label, text), TYPE * em);
    bool lowest = qk__is_lowest(sheet, i), leftmost = qk__is_leftmost(sheet, i);
    if (sheet->columns >= MANY_COLUMNS || (figure->millimetres > 0 && label > of.height)) {
        of.width += (double)(sheet->columns - 1) * sheet->across;
        of.height += (double)(sheet->rows - 1) * sheet->down;
        lowest = leftmost = i == 0;
    }
    if (lowest)
        qk__put_markup(figure, s->x_label, of.left + of.width / 2, of.top + of.height + below,
                       QK__CENTRED);
    if (leftmost)
        qk__put_markup(figure, s->y_label, of.left - beside, of.top + of.height / 2,
                       QK__TURNED);
}

static void draw_scatter_panel(qk__figure *figure, const collage *c, size_t i)
{
    const qk__scatter_panel *panel = &c->shown->panels[i];
    const qk__place place = qk__panel_place(&c->sheet, i);
    qk__plot plot = qk__figure_plot(figure, &place);
    draw_panel_axes(figure, c, panel, &plot);
    if (c->raster)
        put_image(figure, c, panel, &plot);
    else
        put_layers(&plot, c, panel, NULL, 0);
    tell_panel(figure, panel);
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
    qk__draw_place(&figure->canvas, "panel", place.left, place.top, place.width, place.height);
    write_panel_header(figure, c, panel, &place);
    write_box(figure, c, panel, &place);
    name_panel_axes(figure, c, i);
}

/* ---- colour bars ------------------------------------------------------------------------ */

static void draw_bar(qk__figure *figure, const collage *c, bool keys, const char *label,
                     const qk__place *of)
{
    const qk__position_span span = keys ? c->k : c->q;
    bool point = span.low == span.high;
    double low = point ? (double)span.low - 0.5 : (double)span.low;
    double range = point ? 1 : (double)span.high - (double)span.low;
    qk__plot plot = qk__figure_plot(figure, of);
    char color[8];
    plot.y = (qk__axis){low, low + range, false};
    for (int i = 0; i < BAR_STEPS; i++) {
        /* every box reaches to the top, under those that follow: no seams */
        const uint8_t *rgb =
            c->tints.colors[qk__tint_at(&c->tints, point ? 0.5 : (i + 0.5) / BAR_STEPS, keys)];
        qk__hex((unsigned)rgb[0] << 16 | (unsigned)rgb[1] << 8 | rgb[2], color);
        qk__draw_bar(&plot, 0, 1, low + range * i / BAR_STEPS, low + range,
                     (qk__pen){.fill = color});
    }
    qk__draw_sides(&plot, 15);
    qk__draw_span_tics(&plot, span);
    qk__put_markup(figure, label, figure->width - 1.2 * TYPE * qk__em(figure),
                   of->top + of->height / 2, QK__TURNED);
}

/* Two bars share the height: each stands beside as many rows, where these are odd with half of a row. */
static void draw_bars(qk__figure *figure, const collage *c)
{
    const qk__sheet *sheet = &c->sheet;
    const double em = qk__em(figure), one = sheet->first.height;
    const double all = one + (double)(sheet->rows - 1) * sheet->down;
    const bool both = qk__span_shows(c->q) && qk__span_shows(c->k);
    qk__place q = sheet->first;
    q.left += (double)(sheet->columns - 1) * sheet->across + q.width + BESIDE * em;
    q.width = 1.3 * TYPE * em;
    q.height = all;
    qk__place k = q;
    if (both && figure->millimetres > 0 && c->notes > 0 && sheet->rows > 1) {
        /* beside the first two panels, and below their headers, which are wider than the panels */
        q.top += 0.7 * TYPE * em;
        q.height = k.height = one - 0.7 * TYPE * em;
        k.top = q.top + sheet->down;
    } else if (both) {
        size_t half = sheet->rows / 2;
        q.height = k.height = 2 * half == sheet->rows ? one + (double)(half - 1) * sheet->down
                                                      : (all - 2 * TYPE * em) / 2;
        k.top += all - k.height;
    }
    if (qk__span_shows(c->q))
        draw_bar(figure, c, false, c->shown->one_text ? "position" : "Q position", &q);
    if (qk__span_shows(c->k))
        draw_bar(figure, c, true, "K position", &k);
}

/* ---- the figure ------------------------------------------------------------------------- */

void qk__figure_scatter(qk__figure *figure, const qk__scatter *s)
{
    enum { WIDEST = 20000 };
    collage c = {
        .shown = s, .q = qk__round_span(s->q), .k = qk__round_span(s->k), .notes = notes_of(s)};
    size_t points = 0;
    for (size_t i = 0; i < s->num_panels; i++)
        points += s->panels[i].count;
    qk__make_tints(figure->theme, c.q, c.k, s->one_text, QK__TINT_STEPS, &c.tints);
    qk__suit_width(figure, WIDEST); /* until the size of the panels is known */
    qk__set_own_heading(figure, s->title, s->subtitle);
    plan_collage(figure, &c);
    c.raster = points > MANY_POINTS;
    qk__begin_sheet(figure, &c.sheet);
    for (size_t i = 0; i < s->num_panels; i++)
        draw_scatter_panel(figure, &c, i);
    if (has_bars(&c))
        draw_bars(figure, &c);
}
