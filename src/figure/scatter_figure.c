/* SPDX-License-Identifier: Apache-2.0 */
/* Where everything of a scatter collage lies on the page, and the commands that draw it.
 *
 *     title, subtitle                     Panels are given their places in pixels, so that the
 *     +-- title ---+ +-- title ---+  Q    colour bars, the labels of the outer panels and the
 *     | notes      | | notes      |  bar  notes above the points never meet, whatever is drawn.
 *     | points     | | points     |
 *     +------------+ +------------+  K
 *     ...                            bar */
#include "figure/scatter_figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

enum {
    MANY_COLUMNS = 5, /* from here on panels are small, and the axes named once for all */
    BRIEF = 30,       /* bytes of a title that fits above such a panel */
    BAR_STEPS = 64,
    MANY_POINTS = 10000, /* more of them are an image in SVG and PDF */
    NOTE = 39,
    TITLE = 17, /* characters that a panel and the gap behind it must hold */
};

#define CHARACTER 0.58 /* width of a character beside its size */

/* Pixels at nominal size; y counts from the top. */
typedef struct layout {
    double em;             /* size of the type */
    double type;           /* of panels, relative to it */
    double width, height;  /* the page */
    double plot_w, plot_h; /* of a panel, between its axes */
    double cell_w, cell_h; /* from panel to panel */
    double left, top;      /* of the first panel's points */
    double title_y, subtitle_y;
    double bar_left; /* of the colour bars */
    bool narrow;     /* laid out for a page of that width */
} layout;

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

/* Of a colour bar with its numbers, in ems. */
static double bar_width(const qk__scatter *s)
{
    char text[32];
    int64_t highest = s->q.high > s->k.high || !qk__span_shows(s->k) ? s->q.high : s->k.high;
    return 5.2 + 0.62 * qk__group_digits(highest, text);
}

static layout lay_out(const qk__figure *figure, const qk__scatter *s)
{
    /* by columns; of many, first where little is written above them */
    static const struct {
        double w, h, type;
    } SIZES[] = {{520, 430, 1},    {390, 320, 1},    {300, 250, 1},
                 {240, 205, 0.92}, {165, 138, 0.85}, {225, 185, 0.85}};
    int notes = notes_of(s), size = s->columns - 1;
    if (s->columns >= MANY_COLUMNS)
        size = MANY_COLUMNS - (notes == 0 && strlen(s->panels[0].title) < BRIEF);
    bool bars = qk__span_shows(s->q) || qk__span_shows(s->k);
    layout l = {.em = figure->theme->font_size, .type = SIZES[size].type};
    double scale = l.em / 13; /* the sizes suit the type of the paper theme */
    double header = l.type * l.em * (2.0 + 1.45 * notes);
    l.left = 5.4 * l.em;
    l.plot_w = SIZES[size].w * scale;
    l.plot_h = SIZES[size].h * scale;
    double right = 2 * l.em + (bars ? bar_width(s) : -0.5) * l.em;
    if (figure->millimetres > 0) { /* panels of the same shape, as wide as there is room for */
        double gaps = (s->columns - 1) * 4.0 * l.type * l.em;
        double wide = (figure->width - l.left - right - gaps) / s->columns;
        l.plot_h *= wide / l.plot_w;
        l.plot_w = wide;
        l.narrow = true;
    }
    l.cell_w = l.plot_w + 4.0 * l.type * l.em;
    l.cell_h = l.plot_h + header + 2.4 * l.type * l.em;
    l.title_y = 1.4 * l.em;
    l.subtitle_y = l.title_y + (s->title ? 1.8 * l.em : 0);
    l.top = l.subtitle_y + (s->subtitle ? 1.2 * l.em : -0.9 * l.em) + header;
    l.bar_left = l.left + (s->columns - 1) * l.cell_w + l.plot_w + 2 * l.em;
    l.width = l.bar_left - 2 * l.em + right;
    l.height = l.top + (s->rows - 1) * l.cell_h + l.plot_h + 3.9 * l.em;
    return l;
}

static double panel_x(const layout *l, int column)
{
    return l->left + column * l->cell_w;
}

static double panel_y(const layout *l, int row)
{
    return l->top + row * l->cell_h;
}

/* Margins of what is plotted next, from its place in pixels. */
static void place(qk__figure *figure, const layout *l, double x, double y, double w, double h)
{
    qk__figure_print(figure,
                     "set lmargin at screen %.6f; set rmargin at screen %.6f\n"
                     "set tmargin at screen %.6f; set bmargin at screen %.6f\n",
                     x / l->width, (x + w) / l->width, 1 - y / l->height,
                     1 - (y + h) / l->height);
}

/* A label at a place in pixels. text is quoted; the rest are gnuplot's words for labels. */
static void write_at(qk__figure *figure, const layout *l, double x, double y, const char *how,
                     const char *color, const char *text)
{
    qk__figure_print(figure, "set label %s at screen %.6f,%.6f %s tc rgb '%s'\n", text,
                     x / l->width, 1 - y / l->height, how, color);
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

/* With or without 0 on it. */
static void set_axis(qk__figure *figure, char axis, double low, double high, double tics,
                     bool zero)
{
    low = zero ? fmin(low, 0) : low;
    high = zero ? fmax(high, 0) : high;
    double room = 0.04 * (high - low);
    if (!(room >
          1e-9 * fmax(fabs(low), fabs(high)))) /* no spread: any range around it will do */
        room = fmax(fabs(low), fabs(high)) > 0 ? 0.5 * fmax(fabs(low), fabs(high)) : 1;
    qk__figure_print(figure, "set %crange [%.9g:%.9g]; set %ctics %.9g\n", axis, low - room,
                     high + room, axis, round_step(high - low + 2 * room, tics));
}

static void set_axes(qk__figure *figure, const layout *l, const qk__scatter_panel *panel,
                     bool zero)
{
    double low[2] = {0, 0}, high[2] = {0, 0};
    for (size_t i = 0; i < panel->count; i++) {
        const double at[2] = {panel->points[i].x, panel->points[i].y};
        for (int a = 0; a < 2; a++) {
            low[a] = i > 0 ? fmin(low[a], at[a]) : at[a];
            high[a] = i > 0 ? fmax(high[a], at[a]) : at[a];
        }
    }
    set_axis(figure, 'x', low[0], high[0], floor(l->plot_w / (3.4 * l->type * l->em)), zero);
    set_axis(figure, 'y', low[1], high[1], floor(l->plot_h / (2.3 * l->type * l->em)), zero);
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
static bool add_points(qk__figure *figure, const qk__scatter_panel *panel, choice which,
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
static double point_size(const layout *l, size_t count)
{
    double share = (double)count / (l->plot_w * l->plot_h); /* points per pixel */
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
        of.there[i] = add_points(figure, panel, s->one_text ? WHICH[i] : ALL, &of.block[i]);
    return of;
}

static void plot_points(qk__figure *figure, const layout *l, const qk__scatter *s,
                        const qk__scatter_panel *panel, const layers *of)
{
    static const struct {
        const char *style;
        double size;
    } LAYERS[] = {{"pt 7", 1}, {"pt 7", 2.2}, {"pt 9", 2.6}};
    double size = point_size(l, panel->count);
    const char *separator = "plot ";
    if (!s->one_text) {
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

static void write_header(qk__figure *figure, const layout *l, const qk__scatter_panel *panel,
                         double x, double y)
{
    const qk__theme *theme = figure->theme;
    char text[400];
    double line = 1.45 * l->type * l->em, at = y - 0.75 * l->type * l->em;
    for (int i = 1; i >= 0; i--) {
        if (!panel->notes[i])
            continue;
        snprintf(text, sizeof text, "'{/*%.3f %s}'", 0.85 * l->type, panel->notes[i]);
        write_at(figure, l, x, at, "left", theme->muted, text);
        at -= line;
    }
    snprintf(text, sizeof text, "'{/*%.3f %s}'", l->type, panel->title);
    write_at(figure, l, x + (panel->notes[0] ? 0 : l->plot_w / 2), at,
             panel->notes[0] ? "left" : "center", theme->ink, text);
}

/* In the upper left corner, over the points. */
static void write_box(qk__figure *figure, const layout *l, const qk__scatter_panel *panel,
                      double x, double y)
{
    if (!panel->box)
        return;
    double inset = 1.3 * l->type * l->em;
    qk__figure_print(figure, "set label \"");
    for (const char *line = panel->box; *line;) {
        int length = (int)strcspn(line, "\n");
        qk__figure_print(figure, "{/*%.3f %.*s}%s", 0.85 * l->type, length, line,
                         line[length] && line[length + 1] ? "\\n" : "");
        line += length + (line[length] != 0);
    }
    qk__figure_print(figure, "\" at screen %.6f,%.6f left front boxed tc rgb '%s'\n",
                     (x + inset) / l->width, 1 - (y + inset) / l->height, figure->theme->ink);
}

/* One label in the middle of the places from first to last. */
static void write_axis_label(qk__figure *figure, const layout *l, const char *text, bool is_x,
                             int first, int last, int line)
{
    char quoted[200];
    double x = is_x ? (panel_x(l, first) + panel_x(l, last) + l->plot_w) / 2
                    : panel_x(l, 0) - 3.9 * l->em;
    double y = is_x ? panel_y(l, line) + l->plot_h + 2.7 * l->em
                    : (panel_y(l, first) + panel_y(l, last) + l->plot_h) / 2;
    snprintf(quoted, sizeof quoted, "'%s'", text);
    write_at(figure, l, x, y, is_x ? "center" : "center rotate by 90", figure->theme->ink,
             quoted);
}

/* Panels have labels at the left and the lower edge; many small ones share a pair of labels. */
static void write_axis_labels(qk__figure *figure, const layout *l, const qk__scatter *s,
                              int row, int column)
{
    const double label = CHARACTER * l->em * (double)strlen(s->y_label);
    if (s->columns >= MANY_COLUMNS || (l->narrow && label > l->plot_h)) {
        if (row == 0 && column == 0) {
            write_axis_label(figure, l, s->x_label, true, 0, s->columns - 1, s->rows - 1);
            write_axis_label(figure, l, s->y_label, false, 0, s->rows - 1, 0);
        }
        return;
    }
    size_t below = ((size_t)row + 1) * (size_t)s->columns + (size_t)column;
    if (below >= s->num_panels)
        write_axis_label(figure, l, s->x_label, true, column, column, row);
    if (column == 0)
        write_axis_label(figure, l, s->y_label, false, row, row, 0);
}

static void draw_panel(qk__figure *figure, const layout *l, const qk__scatter *s, size_t i,
                       const layers *of, bool raster)
{
    const qk__scatter_panel *panel = &s->panels[i];
    int row = (int)i / s->columns, column = (int)i % s->columns;
    double x = panel_x(l, column), y = panel_y(l, row);
    qk__figure_print(figure, "\n# panel %zu\n", i + 1);
    place(figure, l, x, y, l->plot_w, l->plot_h);
    set_axes(figure, l, panel, s->zero_lines);
    write_header(figure, l, panel, x, y);
    write_box(figure, l, panel, x, y);
    write_axis_labels(figure, l, s, row, column);
    if (raster)
        qk__figure_print(figure, "if (raster) { plot NaN } else {\n");
    plot_points(figure, l, s, panel, of);
    qk__figure_print(figure, "%sunset label\n", raster ? "}\n" : "");
}

/* The points alone, in the places that they have in the figure. */
static void add_raster(qk__figure *figure, const layout *l, const qk__scatter *s,
                       const layers *of)
{
    qk__figure_begin_raster(figure, true);
    qk__print_position_colors(figure, s->q, s->k, s->one_text);
    for (size_t i = 0; i < s->num_panels; i++) {
        int row = (int)i / s->columns, column = (int)i % s->columns;
        place(figure, l, panel_x(l, column), panel_y(l, row), l->plot_w, l->plot_h);
        set_axes(figure, l, &s->panels[i], s->zero_lines);
        qk__figure_print(figure, "unset xtics; unset ytics\n");
        plot_points(figure, l, s, &s->panels[i], &of[i]);
    }
    qk__figure_end_raster(figure);
}

/* ---- colour bars ------------------------------------------------------------------------ */

static void draw_bar(qk__figure *figure, const layout *l, qk__position_span span,
                     const char *label, double colors, double y, double h)
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
    place(figure, l, l->bar_left, y, 1.3 * l->em, h);
    qk__figure_print(figure,
                     "set xrange [0:1]; set yrange [%.17g:%.17g]; set y2range [%.17g:%.17g]\n",
                     low, low + range, low, low + range);
    qk__print_span_tics(figure, span);
    char text[64];
    snprintf(text, sizeof text, "'%s'", label);
    write_at(figure, l, l->width - 1.2 * l->em, y + h / 2, "center rotate by 90",
             figure->theme->ink, text);
    qk__figure_print(figure,
                     "plot data index %zu using (0.5):(($1+$2)/2):(0.5):(($2-$1)/2):3 with "
                     "boxxyerror fs solid noborder lc palette\nunset label\n",
                     block);
}

/* Two bars share the height: beside the same number of rows each, or of an odd number of rows
 * half of it. */
static void draw_bars(qk__figure *figure, const layout *l, const qk__scatter *s)
{
    bool both = qk__span_shows(s->q) && qk__span_shows(s->k);
    double bottom = panel_y(l, s->rows - 1) + l->plot_h;
    double h = bottom - l->top;
    double second = bottom - h;
    if (both && l->narrow && notes_of(s) > 0 && s->rows > 1) {
        h = l->plot_h; /* beside the first two panels, whose headers run over the bars */
        second = panel_y(l, 1);
    } else if (both) {
        h = s->rows % 2 == 0 ? panel_y(l, s->rows / 2 - 1) + l->plot_h - l->top
                             : (h - 2 * l->em) / 2;
        second = bottom - h;
    }
    qk__figure_print(figure, "\nunset xtics; unset ytics\nset border 15 lw 0.5\n"
                             "set y2tics out scale 0.4\nset format y2 '%%g'\n");
    if (qk__span_shows(s->q))
        draw_bar(figure, l, s->q, s->one_text ? "position" : "Q position", 0, l->top, h);
    if (qk__span_shows(s->k))
        draw_bar(figure, l, s->k, "K position", QK__KEY_COLORS, both ? second : l->top, h);
}

/* On a page whose width is given, columns are left out for the sake of what stands above the
 * panels. */
static double least_panel(const layout *l, const qk__scatter *s)
{
    double text = CHARACTER * (notes_of(s) > 0 ? 0.85 * NOTE : TITLE), gap = 4;
    return (text - gap + 0.5) * l->type * l->em;
}

static void write_titles(qk__figure *figure, const layout *l, const qk__scatter *s)
{
    char text[400];
    double middle = (panel_x(l, 0) + panel_x(l, s->columns - 1) + l->plot_w) / 2;
    if (s->title)
        write_at(figure, l, middle, l->title_y, "center", figure->theme->ink,
                 qk__figure_quote(figure, s->title));
    if (!s->subtitle)
        return;
    snprintf(text, sizeof text, "'%s'", s->subtitle);
    write_at(figure, l, middle, l->subtitle_y, "center", figure->theme->ink, text);
}

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

static void draw_all(qk__figure *figure, const layout *l, const qk__scatter *s,
                     const layers *of, bool raster)
{
    qk__print_position_colors(figure, s->q, s->k, s->one_text);
    qk__figure_print(figure, "unset key\nset multiplot\n");
    qk__figure_show_raster(figure);
    qk__figure_print(figure,
                     "set xtics offset 0,0.4\n"
                     "set format x '{/*%.3f %%g}'\nset format y '{/*%.3f %%g}'\n",
                     0.9 * l->type, 0.9 * l->type);
    write_titles(figure, l, s);
    if (s->zero_lines)
        set_zero_lines(figure);
    for (size_t i = 0; i < s->num_panels; i++)
        draw_panel(figure, l, s, i, &of[i], raster);
    if (s->zero_lines)
        qk__figure_print(figure, "unset xzeroaxis; unset yzeroaxis\n");
    if (qk__span_shows(s->q) || qk__span_shows(s->k))
        draw_bars(figure, l, s);
    qk__figure_print(figure, "unset multiplot\n");
}

void qk__figure_scatter(qk__figure *figure, const qk__scatter *scatter)
{
    qk__scatter rounded = *scatter;
    const qk__scatter *s = &rounded;
    size_t points = 0;
    rounded.q = qk__round_span(scatter->q);
    rounded.k = qk__round_span(scatter->k);
    layout l = lay_out(figure, s);
    for (; figure->millimetres > 0 && l.plot_w < least_panel(&l, s) && s->columns > 1;
         l = lay_out(figure, s)) {
        rounded.columns--;
        rounded.rows = ((int)s->num_panels + s->columns - 1) / s->columns;
    }
    figure->width = (int)(figure->millimetres > 0 ? round(l.width) : ceil(l.width));
    figure->height = (int)ceil(l.height);
    l.width = figure->width;
    l.height = figure->height;
    layers *of = qk__figure_alloc(figure, s->num_panels + 1, sizeof *of);
    if (!of)
        return;
    for (size_t i = 0; i < s->num_panels; i++) {
        of[i] = add_layers(figure, s, &s->panels[i]);
        points += s->panels[i].count;
    }
    bool raster = points > MANY_POINTS;
    if (raster)
        add_raster(figure, &l, s, of);
    draw_all(figure, &l, s, of, raster);
    free(of);
}
