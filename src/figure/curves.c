/* SPDX-License-Identifier: Apache-2.0 */
/* Curves over a number: heads over distance, heads along the context, groups of heads over their size; and points:
 * heads in one model over the same heads in another. A row of the SELECT is a point of a curve. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

/* Columns of rows. SERIES: its number in the row of the figure. NAME: of the panel. OF: of the curve, NULL: like its
 * series. NUMBER: R² of the panel; over shares and positions the number of heads; for two models whether heads were
 * tested. */
enum { PANEL = 1, SERIES, CURVE, NAME, OF, SUBJECT, NUMBER, X, Y, LOW, HIGH };
enum { MOST_PANELS = 12, FEW_POINTS = 20, REACH = 10, MOST_NUMBERS = 4 };
#define BAND 0.25 /* opacity */

/* What the panels of a figure share. */
typedef struct curves {
    const qk__subject *subject;
    const qk__panel *panel;
    qk__over over;
    qk__sheet sheet;
    size_t series, heads; /* heads: with a curve each */
    double opacity;       /* of the heads' curves */
} curves;

/* ---- how a series looks ----------------------------------------------------------------- */

typedef struct look {
    const char *color;
    double width;   /* of the line; 0: none */
    int sign;       /* QK__LINE: none */
    double radius;  /* of signs */
    double whisker; /* width of lines from low to high; 0: none */
    bool band;      /* between low and high */
} look;

static look look_of(const qk__figure *figure, const curves *c, size_t series)
{
    const qk__theme *t = figure->theme;
    switch (c->panel->series[series].role) {
    case QK__MEASURED:
        return (look){t->ink, 0, QK__DISC, 2.3, 1, false};
    case QK__PREDICTED:
        return (look){t->highlight, 2, QK__LINE, 0, 0, false};
    case QK__CHOSEN:
        return (look){t->accent, 1.8, QK__DISC, 2.8, 1.2, false};
    case QK__CONTROLS:
        return (look){t->muted, 1.5, QK__SQUARE, 2.3, 0, true};
    case QK__CHANGED:
        return (look){t->highlight, 0, QK__DISC, 2.6, 0, false};
    case QK__UNCHANGED:
        return (look){t->muted, 0, QK__RING, 2.6, 0, false};
    case QK__EACH_HEAD:
        return (look){t->muted, 0.7, QK__LINE, 0, 0, false};
    case QK__OF_HEADS:
        return (look){t->k, 2.5, QK__LINE, 2.4, 0, false};
    default:
        return (look){t->accent, 2, QK__LINE, 0, 0, false};
    }
}

/* ---- what there is ---------------------------------------------------------------------- */

static bool is_of(const qk__found *rows, size_t row, size_t series)
{
    return qk__number_in(rows, row, SERIES) == (double)series;
}

/* Whether a series has any number. */
static bool has_series(const qk__found *rows, size_t series)
{
    for (size_t i = 0; i < rows->count; i++)
        if (is_of(rows, i, series) && isfinite(qk__number_in(rows, i, Y)))
            return true;
    return false;
}

static size_t count_curves(const qk__found *rows, size_t series)
{
    size_t count = 0;
    for (size_t i = 0; i < rows->count; i += qk__same_in(rows, i, CURVE).count)
        count += is_of(rows, i, series);
    return count;
}

static void tell_curves(qk__figure *figure, const curves *c, const qk__found *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        const char *name = qk__text_in(rows, i, NAME), *of = qk__text_in(rows, i, OF);
        qk__tell_range(figure, name ? qk__figure_escape(figure, name) : NULL,
                       of ? qk__figure_escape(figure, of)
                          : c->panel->series[(size_t)qk__number_in(rows, i, SERIES)].name,
                       qk__number_in(rows, i, X), qk__number_in(rows, i, Y),
                       qk__number_in(rows, i, LOW), qk__number_in(rows, i, HIGH));
    }
}

/* ---- axes ------------------------------------------------------------------------------- */

/* For predicted ratios the axis ends at REACH times the measured ones. */
static qk__axis over_distances(const curves *c, const qk__found *rows)
{
    const bool ratio = c->panel->ratio;
    qk__range shown = QK__NO_RANGE;
    for (size_t i = 0; i < rows->count; i++)
        if (is_of(rows, i, 0) && (!ratio || qk__number_in(rows, i, Y) > 0))
            qk__range_add(&shown, qk__number_in(rows, i, Y));
    if (ratio && shown.low > shown.high) /* no number has a place on the axis */
        shown = (qk__range){1, 1};
    const double low = ratio ? shown.low / REACH : -INFINITY;
    const double high = ratio ? shown.high * REACH : INFINITY;
    for (size_t i = 0; i < rows->count; i++) {
        const double value = qk__number_in(rows, i, Y);
        if (!is_of(rows, i, 0))
            qk__range_add(&shown, isfinite(value) ? fmin(fmax(value, low), high) : NAN);
    }
    const double margin = 0.06 * (shown.high - shown.low);
    return ratio ? (qk__axis){shown.low / 1.4, shown.high * 1.4, true}
                 : qk__axis_between(shown.low - margin, shown.high + margin);
}

/* The range from 0 on, and beyond 0 if numbers are on its other side. */
static qk__range range_with_zero(const qk__found *rows, size_t first, size_t last)
{
    qk__range range = {0, 0};
    for (size_t i = 0; i < rows->count; i++)
        for (size_t column = first; column <= last; column++)
            qk__range_add(&range, qk__number_in(rows, i, column));
    return range;
}

/* Numbers along shares of a model's heads, with the number of heads above; where the model is not known, only those
 * numbers, below. */
static void put_share_tics(const qk__figure *figure, const qk__plot *plot, double most,
                           bool shares)
{
    const double em = qk__em(figure);
    const qk__tic_style style = {.length = 4 * em};
    qk__number_tics(plot, QK__BELOW, 70 * em, 0, style);
    if (!shares)
        return;
    qk__plot heads = *plot;
    heads.x = qk__axis_between(0, most);
    const double step =
        fmax(1, qk__round_step(most / fmax(2, fmin(5, plot->width / (44 * em)))));
    qk__number_tics(&heads, QK__ABOVE, 44 * em, step, style);
}

static qk__range range_of(const qk__found *rows, size_t column)
{
    qk__range range = QK__NO_RANGE;
    for (size_t i = 0; i < rows->count; i++)
        qk__range_add(&range, qk__number_in(rows, i, column));
    return range;
}

static qk__axis axis_around(const qk__range *r)
{
    const double margin = r->high > r->low ? 0.06 * (r->high - r->low) : 0.5;
    return qk__axis_between(r->low - margin, r->high + margin);
}

/* One range for both axes, so that distances compare, and the line where nothing changed; but where one range is far
 * longer, the points would lie on a line. */
static void put_sides_axes(const qk__figure *figure, const qk__found *rows, qk__power *power,
                           qk__plot *plot)
{
    enum { MOST_TIMES = 5 };
    const double em = qk__em(figure);
    qk__range a = range_of(rows, X), b = range_of(rows, Y);
    const double of_a = a.high - a.low, of_b = b.high - b.low;
    const bool apart = fmin(of_a, of_b) > 0 && fmax(of_a, of_b) > MOST_TIMES * fmin(of_a, of_b);
    *power =
        qk__power_for(qk__find_field(qk__text_in(rows, 0, NAME)),
                      fmax(fmax(fabs(a.low), fabs(a.high)), fmax(fabs(b.low), fabs(b.high))));
    if (!apart) {
        qk__range_add(&a, b.low);
        qk__range_add(&a, b.high);
        b = a;
    }
    plot->x = axis_around(&a);
    plot->y = axis_around(&b);
    const qk__tic_style style = {.length = 4 * em, .factor = power->factor};
    qk__number_tics(plot, QK__BELOW, 60 * em, 0, style);
    qk__number_tics(plot, QK__LEFT, 50 * em, 0, style);
    if (apart) { /* the line would lie along an axis */
        qk__line_across(plot, 0, qk__guide(figure));
        qk__line_up(plot, 0, qk__guide(figure));
    } else {
        qk__draw_curve(plot, (const double[]){plot->x.low, plot->x.high},
                       (const double[]){plot->y.low, plot->y.high}, 2, qk__guide(figure));
    }
}

/* Sets and draws the axes of a plot; returns the factor of x. */
static double put_axes(qk__figure *figure, const curves *c, const qk__found *rows,
                       qk__power *power, qk__plot *plot)
{
    const double em = qk__em(figure), number = qk__number_in(rows, 0, NUMBER);
    const qk__range x = range_with_zero(rows, X, X), y = range_with_zero(rows, Y, HIGH);
    const double room = 0.07 * (y.high - y.low), most = 1.06 * x.high;
    const bool shares = c->over == QK__SHARES && isfinite(number);
    const double unit = shares ? 100 / number : 1;
    qk__tic_style style = {.length = 4 * em, .grid = c->over == QK__POSITIONS};
    switch (c->over) {
    case QK__DISTANCES:
        plot->x = (qk__axis){0.8, 1.3 * fmax(x.high, 2), true};
        plot->y = over_distances(c, rows);
        qk__draw_number_axes(figure, plot, 40, 36);
        if (c->panel->ratio)
            qk__line_across(plot, 1, qk__guide(figure));
        break;
    case QK__SIDES:
        put_sides_axes(figure, rows, power, plot);
        break;
    case QK__POSITIONS:
        plot->x = qk__axis_between(x.low, x.high);
        qk__number_tics(plot, QK__LEFT, 40 * em, 0.2, style);
        style.format = "%.0f";
        qk__number_tics(plot, QK__BELOW, 70 * em, 0, style);
        break;
    default:
        *power = qk__power_for(qk__find_field("remove_loss"), fmax(-y.low, y.high));
        style.factor = power->factor;
        plot->x = qk__axis_between(0, most * unit);
        plot->y = qk__axis_between(y.low - (y.low < 0 ? room : 0), y.high + room);
        put_share_tics(figure, plot, most, shares);
        qk__number_tics(plot, QK__LEFT, 44 * em, 0, style);
        if (y.low < 0)
            qk__line_across(plot, 0, qk__zero_line(figure));
    }
    qk__draw_sides(plot, 1u << QK__BELOW | 1u << QK__LEFT | (shares ? 1u << QK__ABOVE : 0));
    return unit;
}

/* ---- marks ------------------------------------------------------------------------------ */

/* A curve of a series: its lines, or its signs. */
static void put_curve(qk__figure *figure, const qk__found *rows, const qk__plot *plot, look l,
                      double unit, bool signs)
{
    double *n[MOST_NUMBERS];
    for (size_t k = 0; k < MOST_NUMBERS; k++) {
        n[k] = qk__figure_alloc(figure, rows->count, sizeof *n[k]);
        for (size_t i = 0; n[k] && i < rows->count; i++)
            n[k][i] = qk__number_in(rows, i, X + k) * (k == 0 ? unit : 1);
        if (!n[k])
            return;
    }
    const bool every = l.sign != QK__LINE || rows->count <= FEW_POINTS;
    if (signs && l.radius > 0 && every)
        qk__draw_points(plot, n[0], n[1], rows->count,
                        l.sign == QK__LINE ? QK__DISC : (qk__sign)l.sign,
                        l.radius * qk__em(figure), l.color, 0);
    if (signs)
        return;
    if (l.band)
        qk__draw_band(plot, n[0], n[2], n[3], rows->count,
                      (qk__pen){.fill = l.color, .opacity = BAND});
    if (l.whisker > 0)
        qk__draw_whiskers(plot, n[0], n[2], n[3], rows->count,
                          (qk__pen){.stroke = l.color, .width = l.whisker});
    if (l.width > 0)
        qk__draw_curve(plot, n[0], n[1], rows->count,
                       (qk__pen){.stroke = l.color, .width = l.width});
}

/* Draws the first series last, over the others. */
static void put_all_series(qk__figure *figure, const curves *c, const qk__found *rows,
                           const qk__plot *plot, double unit, bool signs)
{
    for (size_t s = c->series; s-- > 0;) {
        const look l = look_of(figure, c, s);
        const bool faint = !signs && c->panel->series[s].role == QK__EACH_HEAD;
        if (faint)
            qk__begin_pen(
                plot->canvas,
                (qk__pen){.stroke = l.color, .width = l.width, .opacity = c->opacity});
        for (size_t i = 0; i < rows->count;) {
            const qk__found curve = qk__same_in(rows, i, CURVE);
            if (is_of(&curve, 0, s))
                put_curve(figure, &curve, plot, l, unit, signs);
            i += curve.count;
        }
        if (faint)
            qk__end_pen(plot->canvas);
    }
}

/* ---- panels ----------------------------------------------------------------------------- */

/* Names groups of heads: the change, and below it how its heads are chosen, which explains the numbers on the upper
 * axis. */
static void name_group(qk__figure *figure, const curves *c, const qk__found *rows,
                       const qk__place *place, const char *power)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2;
    const double room = place->width + 2 * c->sheet.right * em,
                 heads = qk__number_in(rows, 0, NUMBER);
    char text[QK__LINE_SIZE];
    const char *name = qk__brief(figure, qk__text_in(rows, 0, NAME),
                                 QK__SMALL * room - (*power ? 110 * em : 0));
    const char *by =
        qk__brief(figure, qk__text_in(rows, 0, OF), room - qk__text_width(figure, 16));
    qk__put_text(
        figure, qk__figure_format(figure, *power ? "%.600s (loss%s)" : "%.600s%s", name, power),
        middle, place->top - (c->sheet.above - 8) * em, QK__CENTRED);
    qk__put_text(figure,
                 qk__figure_format(figure, "%s%.600s",
                                   isfinite(heads) ? "heads, first by " : "first by ", by),
                 middle, place->top - (c->sheet.above - 24) * em, QK__NOTE);
    snprintf(text, sizeof text,
             isfinite(heads) ? "Heads changed (%% of %.0f)" : "Heads changed", heads);
    qk__put_markup(figure, text, middle, place->top + place->height + 38 * em, QK__CENTRED);
}

static void name_head(qk__figure *figure, const qk__found *rows, const qk__place *place,
                      bool lowest)
{
    const double em = qk__em(figure), middle = place->left + place->width / 2,
                 fit = qk__number_in(rows, 0, NUMBER);
    char text[QK__NUMBER_TEXT];
    qk__put_text(figure,
                 qk__figure_format(figure, "%s%s%s", qk__text_in(rows, 0, NAME),
                                   isfinite(fit) ? ": <i>R</i>² = " : "",
                                   isfinite(fit) ? qk__number_text(text, "%.2f", fit) : ""),
                 middle, place->top - 12 * em, QK__CENTRED);
    if (lowest)
        qk__put_text(figure, "Distance + 1 (tokens)", middle,
                     place->top + place->height + 38 * em, QK__CENTRED);
}

static void name_sides(qk__figure *figure, const curves *c, const qk__found *rows, size_t panel,
                       const char *power)
{
    const double em = qk__em(figure);
    const qk__place place = qk__panel_place(&c->sheet, panel);
    const double middle = place.left + place.width / 2;
    const char *const *sides = c->subject->sides;
    qk__put_text(
        figure,
        qk__metric_title(figure, qk__text_in(rows, 0, NAME), 0.97 * c->sheet.across, power),
        middle, place.top - 12 * em, QK__SMALL_TYPE);
    qk__put_text(figure, qk__brief(figure, sides[0], place.width), middle,
                 place.top + place.height + 36 * em, QK__NOTE);
    if (qk__is_leftmost(&c->sheet, panel))
        qk__put_text(figure, qk__brief(figure, sides[1], place.height), place.left - 52 * em,
                     place.top + place.height / 2, QK__NOTE | QK__TURNED);
}

static void draw_panel(qk__figure *figure, const curves *c, const qk__found *rows, size_t panel)
{
    const qk__place place = qk__panel_place(&c->sheet, panel);
    qk__plot plot = qk__figure_plot(figure, &place);
    qk__power power = {0, 1, ""};
    tell_curves(figure, c, rows);
    const double unit = put_axes(figure, c, rows, &power, &plot);
    if (c->over == QK__SHARES)
        name_group(figure, c, rows, &place, power.text);
    else if (c->over == QK__DISTANCES)
        name_head(figure, rows, &place, qk__is_lowest(&c->sheet, panel));
    else if (c->over == QK__SIDES)
        name_sides(figure, c, rows, panel, power.text);
    else
        qk__put_axis_names(figure, "Position of the query (tokens)", c->panel->y_label,
                           &c->sheet);
    if (c->panel->y_label && c->over != QK__POSITIONS && qk__is_leftmost(&c->sheet, panel))
        qk__label_panel(figure, &place, c->panel->y_label);
    qk__begin_marks(&plot);
    put_all_series(figure, c, rows, &plot, unit, false);
    qk__end_marks(&plot);
    put_all_series(figure, c, rows, &plot, unit, true);
}

/* ---- the figure ------------------------------------------------------------------------- */

/* Names the series that have numbers. */
static size_t name_curves(qk__figure *figure, const curves *c, const qk__found *rows,
                          qk__entry *entries)
{
    size_t count = 0;
    for (size_t s = 0; s < c->series; s++) {
        const look l = look_of(figure, c, s);
        const bool each = c->panel->series[s].role == QK__EACH_HEAD;
        const double all = qk__number_in(rows, 0, NUMBER);
        const char *name = c->panel->series[s].name;
        if (c->over == QK__SIDES ? !(all > 0) : !has_series(rows, s))
            continue;
        if (each)
            name = (double)c->heads < all
                       ? qk__figure_format(figure, "%zu of %.0f heads", c->heads, all)
                       : qk__figure_format(figure, "%s (%zu)", name, c->heads);
        entries[count++] =
            (qk__entry){name, l.color, l.band ? QK__LINE : l.sign, each ? c->opacity : 0};
        if (l.band)
            entries[count++] = (qk__entry){c->panel->between, l.color, QK__AREA, BAND};
    }
    return count;
}

static const qk__sheet SHEETS[] = {
    [QK__DISTANCES] =
        {.most = 3, .least = 250, .left = 70, .gap = 62, .right = 20, .above = 28, .below = 48},
    [QK__POSITIONS] =
        {.most = 1, .left = 84, .right = 24, .above = 8, .below = 54, .square = true},
    [QK__SIDES] =
        {.most = 3, .least = 260, .left = 70, .gap = 66, .right = 24, .above = 28, .below = 50},
    [QK__SHARES] = {
        .most = 2, .least = 270, .left = 70, .gap = 62, .right = 20, .above = 62, .below = 58}};

/* A folder may hold compare.csv of other commands. */
bool qk__has_sides(const qk__subject *subject)
{
    return subject->sides[0] && subject->rows.count > 0;
}

/* The model of an ablation; an ablation only of groups of heads has no results of heads, and so no models. */
static void set_curves_heading(qk__figure *figure, const qk__subject *subject,
                               const char *heading)
{
    const char *name = qk__text_in(&subject->rows, 0, SUBJECT);
    const qk__result_model alone = {.label = name}, *of = name ? &alone : subject->model;
    qk__each_model (subject->results, model)
        if (name && strcmp(model->name, name) == 0)
            of = model;
    qk__set_heading(figure, subject->results, of, heading);
}

void qk__build_curves(qk__figure *figure, const qk__subject *subject)
{
    const qk__figure_kind *kind = subject->kind;
    const qk__found *rows = &subject->rows;
    qk__entry entries[2 * QK__MAX_SERIES];
    char heading[160];
    size_t panels = 0;
    curves c = {.subject = subject,
                .panel = kind->panels,
                .over = kind->over,
                .sheet = SHEETS[kind->over]};
    c.sheet.height = kind->height;
    c.series = qk__count_series(c.panel);
    c.heads = count_curves(rows, 1);
    c.opacity = fmin(0.7, fmax(0.2, 3 / sqrt((double)c.heads)));
    for (size_t i = 0; i < rows->count; i += qk__same_in(rows, i, PANEL).count)
        panels++;
    c.sheet.count = panels < MOST_PANELS ? panels : MOST_PANELS;
    c.sheet.entries = entries;
    c.sheet.num_entries = name_curves(figure, &c, rows, entries);
    snprintf(heading, sizeof heading, "%s", kind->heading);
    if (c.sheet.count < panels)
        snprintf(heading, sizeof heading, "%s, the first %zu of %zu curves", kind->heading,
                 c.sheet.count, panels);
    set_curves_heading(figure, subject, heading);
    qk__begin_sheet(figure, &c.sheet);
    for (size_t i = 0, panel = 0; panel < c.sheet.count; panel++) {
        const qk__found own = qk__same_in(rows, i, PANEL);
        draw_panel(figure, &c, &own, panel);
        i += own.count;
    }
}
