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
#include "figure/sheet.h"

enum {
    MANY_COLUMNS = 5, /* from here on panels are small, and the axes named once for all */
    BRIEF = 30,       /* bytes of a title that fits above such a panel */
    BAR_STEPS = 64,
    MANY_POINTS = 10000, /* more of them are an image in SVG and PDF */
    NOTE = 39,
    TITLE = 17,        /* characters that a panel and the gap behind it must hold */
    TYPE = 13,         /* pixels of the type that lengths of a sheet are for */
    BESIDE = 2 * TYPE, /* from the last panel to the bars */
};

#define CHARACTER 0.58 /* width of a character beside its size */

/* Where the panels of a scatter stand. */
typedef struct collage {
    const qk__scatter *shown;
    qk__position_span q, k; /* with round ends */
    int notes;              /* lines above the points */
    double type;            /* of panels, beside the theme's */
    qk__sheet sheet;
    bool raster; /* points are an image */
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

/* Of a colour bar with its numbers, at type of 13. */
static double bar_width(const collage *c)
{
    char text[32];
    int64_t highest = c->q.high > c->k.high || !qk__span_shows(c->k) ? c->q.high : c->k.high;
    return TYPE * (5.2 + 0.62 * qk__group_digits(highest, text));
}

/* Lays out in so many columns. On a page whose width is given panels keep their shape. */
static void plan_columns(qk__figure *figure, collage *c, int columns)
{
    /* by columns; of many, first where little is written above them */
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

/* On a page whose width is given, columns are left out for the sake of what stands above the panels. */
static void plan_collage(qk__figure *figure, collage *c)
{
    const double text = CHARACTER * (c->notes > 0 ? 0.85 * NOTE : TITLE), gap = 4;
    int columns = c->shown->columns;
    plan_columns(figure, c, columns);
    while (figure->millimetres > 0 && columns > 1 &&
           c->sheet.first.width < (text - gap + 0.5) * c->type * TYPE * qk__em(figure))
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

/* What an axis shows of such values, with or without 0 on it. */
static qk__range widen(qk__range shown, bool zero)
{
    if (zero)
        qk__range_add(&shown, 0);
    double low = shown.low, high = shown.high;
    double room = 0.04 * (high - low);
    if (!(room >
          1e-9 * fmax(fabs(low), fabs(high)))) /* no spread: any range around it will do */
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

static void set_axis(qk__figure *figure, char axis, double low, double high, double tics)
{
    qk__figure_print(figure, "set %crange [%.9g:%.9g]; set %ctics %.9g\n", axis, low, high,
                     axis, round_step(high - low, tics));
}

static void set_panel_axes(qk__figure *figure, const collage *c, const qk__scatter_panel *panel)
{
    const double line = c->type * TYPE * qk__em(figure);
    const qk__scatter_axes axes = qk__panel_axes(c->shown, panel);
    set_axis(figure, 'x', axes.x_low, axes.x_high, floor(c->sheet.first.width / (3.4 * line)));
    set_axis(figure, 'y', axes.y_low, axes.y_high, floor(c->sheet.first.height / (2.3 * line)));
}

/* ---- panels ----------------------------------------------------------------------------- */

typedef enum choice { ALL, BACKGROUND, QUERIES, KEYS } choice;

static bool is_chosen(const qk__point *point, choice which)
{
    return which == ALL ||
           (which == BACKGROUND ? point->is_background
                                : !point->is_background && point->is_key == (which == KEYS));
}

/* Writes the chosen points as a block; false where there are none. */
static bool add_chosen_points(qk__figure *figure, const qk__scatter_panel *panel, choice which,
                              size_t *block)
{
    bool any = false;
    for (size_t i = 0; i < panel->count; i++) {
        const qk__point *p = &panel->points[i];
        if (!is_chosen(p, which))
            continue;
        any = true;
        qk__figure_row(figure, p->x, p->y, (double)p->position, p->is_key);
    }
    if (any)
        *block = qk__figure_end_block(figure);
    return any;
}

/* Points shrink as they get many, so that a cloud keeps its shape. */
static double point_size(const qk__place *of, size_t count)
{
    double share = (double)count / (of->width * of->height); /* points per pixel */
    return fmin(0.6, fmax(0.16, 0.09 / sqrt(share > 0 ? share : 1)));
}

/* Where the points of a panel are: all, or the layers of one text among others. */
typedef struct layers {
    bool there[3];
    size_t block[3];
} layers;

static layers add_layers(qk__figure *figure, const qk__scatter *s,
                         const qk__scatter_panel *panel)
{
    static const choice WHICH[] = {BACKGROUND, QUERIES, KEYS};
    layers of = {{false, false, false}, {0, 0, 0}};
    for (int i = 0; i < (s->one_text ? 3 : 1); i++)
        of.there[i] =
            add_chosen_points(figure, panel, s->one_text ? WHICH[i] : ALL, &of.block[i]);
    return of;
}

static void plot_points(qk__figure *figure, const collage *c, const qk__scatter_panel *panel,
                        const layers *of)
{
    static const struct {
        const char *style;
        double size;
    } LAYERS[] = {{"pt 7", 1}, {"pt 7", 2.2}, {"pt 9", 2.6}};
    double size = point_size(&c->sheet.first, panel->count);
    const char *separator = "plot ";
    if (!c->shown->one_text) {
        if (of->there[0])
            qk__figure_print(figure,
                             "plot data index %zu using 1:2:(tint($3,$4)) with points pt 7 ps "
                             "%.3f lc palette\n",
                             of->block[0], size);
        return;
    }
    for (int i = 0; i < 3; i++) {
        if (!of->there[i])
            continue;
        qk__figure_print(figure, "%sdata index %zu using ", separator, of->block[i]);
        if (i == 0)
            qk__figure_print(figure, "1:2 with points %s ps %.3f lc rgb '%s'", LAYERS[i].style,
                             LAYERS[i].size * size, figure->theme->grid);
        else
            qk__figure_print(figure, "1:2:(tint($3,$4)) with points %s ps %.3f lc palette",
                             LAYERS[i].style, LAYERS[i].size * size);
        separator = ", \\\n  ";
    }
    qk__figure_print(figure, "\n");
}

static void write_panel_header(qk__figure *figure, const collage *c,
                               const qk__scatter_panel *panel, const qk__place *of)
{
    char text[QK__LINE_SIZE];
    double line = 1.45 * c->type * TYPE * qk__em(figure), at = of->top - 0.52 * line;
    for (int i = 1; i >= 0; i--) {
        if (!panel->notes[i])
            continue;
        snprintf(text, sizeof text, "{/*%.3f %s}", 0.85 * c->type, panel->notes[i]);
        qk__put_markup(figure, text, of->left, at, QK__RIGHT_OF | QK__MUTED);
        at -= line;
    }
    snprintf(text, sizeof text, "{/*%.3f %s}", c->type, panel->title);
    if (panel->notes[0])
        qk__put_markup(figure, text, of->left, at, QK__RIGHT_OF);
    else
        qk__put_markup(figure, text, of->left + of->width / 2, at, QK__CENTRED);
}

/* In the upper left corner, over the points. */
static void write_box(qk__figure *figure, const collage *c, const qk__scatter_panel *panel,
                      const qk__place *of)
{
    if (!panel->box)
        return;
    double inset = 1.3 * c->type * TYPE * qk__em(figure);
    qk__figure_print(figure, "set label \"");
    for (const char *line = panel->box; *line;) {
        int length = (int)strcspn(line, "\n");
        qk__figure_print(figure, "{/*%.3f %.*s}%s", 0.85 * c->type, length, line,
                         line[length] && line[length + 1] ? "\\n" : "");
        line += length + (line[length] != 0);
    }
    qk__figure_print(figure, "\" at screen %.6f,%.6f left front boxed tc rgb '%s'\n",
                     (of->left + inset) / figure->width, 1 - (of->top + inset) / figure->height,
                     figure->theme->ink);
}

/* Panels have labels at the left and the lower edge; many small ones share a pair of labels, in the middle
 * of all. */
static void name_panel_axes(qk__figure *figure, const collage *c, size_t i)
{
    const double em = qk__em(figure), below = 2.7 * TYPE * em, beside = 3.9 * TYPE * em;
    const qk__sheet *sheet = &c->sheet;
    const qk__scatter *s = c->shown;
    qk__place of = qk__panel_place(sheet, i);
    char text[QK__LINE_SIZE];
    const double label =
        CHARACTER * TYPE * em * (double)strlen(qk__in_symbols(figure, s->y_label, text));
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

static void draw_scatter_panel(qk__figure *figure, const collage *c, size_t i, const layers *of)
{
    const qk__scatter_panel *panel = &c->shown->panels[i];
    const qk__place place = qk__panel_place(&c->sheet, i);
    qk__figure_print(figure, "\n# panel %zu\n", i + 1);
    qk__put_panel(figure, &place);
    set_panel_axes(figure, c, panel);
    write_panel_header(figure, c, panel, &place);
    write_box(figure, c, panel, &place);
    name_panel_axes(figure, c, i);
    if (c->raster)
        qk__figure_print(figure, "if (raster) { plot NaN } else {\n");
    plot_points(figure, c, panel, of);
    qk__figure_print(figure, "%sunset label\n", c->raster ? "}\n" : "");
}

/* The points alone, in the places that they have in the figure. */
static void put_points(qk__figure *figure, const collage *c, const layers *of)
{
    qk__print_position_colors(figure, c->q, c->k, c->shown->one_text);
    for (size_t i = 0; i < c->shown->num_panels; i++) {
        const qk__place place = qk__panel_place(&c->sheet, i);
        qk__put_panel(figure, &place);
        set_panel_axes(figure, c, &c->shown->panels[i]);
        qk__figure_print(figure, "unset xtics; unset ytics\n");
        plot_points(figure, c, &c->shown->panels[i], &of[i]);
    }
}

/* ---- colour bars ------------------------------------------------------------------------ */

static void draw_bar(qk__figure *figure, qk__position_span span, const char *label,
                     double colors, const qk__place *of)
{
    bool point = span.low == span.high;
    double low = point ? (double)span.low - 0.5 : (double)span.low;
    double range = point ? 1 : (double)span.high - (double)span.low;
    for (int i = 0; i < BAR_STEPS; i++) {
        /* every box reaches to the top, under those that follow: no seams between them */
        qk__figure_row(figure, low + range * i / BAR_STEPS, low + range,
                       colors + (point ? 0.5 : (i + 0.5) / BAR_STEPS));
    }
    size_t block = qk__figure_end_block(figure);
    qk__figure_print(figure, "\n# %s\n", label);
    qk__put_panel(figure, of);
    qk__figure_print(figure,
                     "set xrange [0:1]; set yrange [%.17g:%.17g]; set y2range [%.17g:%.17g]\n",
                     low, low + range, low, low + range);
    qk__print_span_tics(figure, span);
    qk__put_markup(figure, label, figure->width - 1.2 * TYPE * qk__em(figure),
                   of->top + of->height / 2, QK__TURNED);
    qk__figure_print(figure,
                     "plot data index %zu using (0.5):(($1+$2)/2):(0.5):(($2-$1)/2):3 with "
                     "boxxyerror fs solid noborder lc palette\nunset label\n",
                     block);
}

/* Two bars share the height: beside the same number of rows each, or of an odd number of rows
 * half of it. */
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
    qk__figure_print(figure, "\nunset xtics; unset ytics\nset border 15 lw 0.5\n"
                             "set y2tics out scale 0.4\nset format y2 '%%g'\n");
    if (qk__span_shows(c->q))
        draw_bar(figure, c->q, c->shown->one_text ? "position" : "Q position", 0, &q);
    if (qk__span_shows(c->k))
        draw_bar(figure, c->k, "K position", QK__KEY_COLORS, &k);
}

/* ---- the figure ------------------------------------------------------------------------- */

static void set_zero_lines(qk__figure *figure)
{
    const qk__theme *theme = figure->theme;
    qk__figure_print(figure,
                     "set style textbox opaque border rgb '%s' fillcolor rgb '%s' "
                     "margins 2,1.5\n"
                     "set xzeroaxis lt 1 lw 0.8 lc rgb '%s'; set yzeroaxis lt 1 lw 0.8 lc "
                     "rgb '%s'\n",
                     theme->muted, theme->box, theme->muted, theme->muted);
}

static void draw_collage(qk__figure *figure, collage *c, const layers *of)
{
    const qk__scatter *s = c->shown;
    qk__print_position_colors(figure, c->q, c->k, s->one_text);
    qk__begin_sheet(figure, &c->sheet);
    qk__figure_print(figure,
                     "set xtics offset 0,0.4\n"
                     "set format x '{/*%.3f %%g}'\nset format y '{/*%.3f %%g}'\n",
                     0.9 * c->type, 0.9 * c->type);
    if (s->zero_lines)
        set_zero_lines(figure);
    for (size_t i = 0; i < s->num_panels; i++)
        draw_scatter_panel(figure, c, i, &of[i]);
    if (s->zero_lines)
        qk__figure_print(figure, "unset xzeroaxis; unset yzeroaxis\n");
    if (has_bars(c))
        draw_bars(figure, c);
    qk__end_sheet(figure);
}

static layers *add_all_layers(qk__figure *figure, const qk__scatter *s)
{
    layers *of = qk__figure_alloc(figure, s->num_panels, sizeof *of);
    for (size_t i = 0; of && i < s->num_panels; i++)
        of[i] = add_layers(figure, s, &s->panels[i]);
    return of;
}

static collage collage_of(const qk__scatter *s)
{
    return (collage){
        .shown = s, .q = qk__round_span(s->q), .k = qk__round_span(s->k), .notes = notes_of(s)};
}

void qk__figure_scatter(qk__figure *figure, const qk__scatter *s)
{
    enum { WIDEST = 20000 };
    collage c = collage_of(s);
    layers *of = add_all_layers(figure, s);
    size_t points = 0;
    if (!of)
        return;
    for (size_t i = 0; i < s->num_panels; i++)
        points += s->panels[i].count;
    qk__suit_width(figure, WIDEST); /* until it is known what the panels take */
    qk__set_own_heading(figure, s->title, s->subtitle);
    plan_collage(figure, &c);
    c.raster = points > MANY_POINTS;
    if (c.raster) {
        qk__figure_begin_raster(figure, true);
        put_points(figure, &c, of);
        qk__figure_end_raster(figure);
    }
    draw_collage(figure, &c, of);
}

void qk__figure_points(qk__figure *figure, const qk__scatter *s, int width, int height)
{
    collage c = collage_of(s);
    layers *of = add_all_layers(figure, s);
    if (!of)
        return;
    c.type = 1;
    c.sheet.columns = (size_t)s->columns;
    c.sheet.first = (qk__place){0, 0, width, height};
    c.sheet.across = width;
    c.sheet.down = height;
    figure->width = s->columns * width;
    figure->height = (int)((s->num_panels + c.sheet.columns - 1) / c.sheet.columns) * height;
    qk__figure_print(figure, "unset key; unset border\nset multiplot\n");
    put_points(figure, &c, of);
    qk__end_sheet(figure);
}
