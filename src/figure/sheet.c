/* SPDX-License-Identifier: Apache-2.0 */
/* Lays panels out in rows and columns. */
#include "figure/sheet.h"

#include <math.h>

/* Pixels above and below a legend; the least height of a plot that is to be square. */
enum { BEFORE_LEGEND = 2, BEHIND_LEGEND = 8, LEAST_SQUARE = 220 };

static size_t suitable_columns(size_t count)
{
    return count <= 3 ? count : count == 4 ? 2 : count <= 6 || count == 9 ? 3 : 4;
}

/* Sets the width of panels and figure; then the legend's place is known. */
static double choose_width(qk__figure *figure, qk__sheet *s)
{
    const double em = qk__em(figure);
    size_t most = s->most > 0 ? s->most : suitable_columns(s->count);
    size_t columns = most < s->count ? most : s->count;
    s->columns = qk__fit_columns(figure, columns > 0 ? columns : 1, s->least);
    size_t of = figure->millimetres > 0 ? s->columns : most > 0 ? most : 1;
    double beside = (s->left + s->right + s->gap * ((double)of - 1)) * em;
    s->page = s->page > 0 ? s->page : figure->width;
    double width = (s->page - beside) / (double)of;
    if (s->width > 0 && figure->millimetres <= 0)
        width = fmin(width, s->width * em);
    beside = (s->left + s->right + s->gap * ((double)s->columns - 1)) * em;
    qk__suit_width(figure, ceil(beside + width * (double)s->columns));
    return width;
}

/* The pixels that rows up to this one need less than `above`. */
static double less_until(const qk__sheet *s, size_t row, double em)
{
    double less = 0;
    for (size_t r = 0; s->less && r <= row && r < s->rows; r++)
        less += s->less[r] * em;
    return less;
}

void qk__lay_out(qk__figure *figure, qk__sheet *s)
{
    const double em = qk__em(figure);
    double width = choose_width(figure, s);
    s->rows = (s->count + s->columns - 1) / s->columns;
    s->legend =
        qk__plan_legend(figure, s->entries, s->num_entries, s->markup, figure->width - 24 * em);
    double legend =
        s->legend.count > 0 ? s->legend.height + (BEFORE_LEGEND + BEHIND_LEGEND) * em : 0;
    double top = qk__heading_height(figure) + legend + s->head * em;
    if (s->square && figure->millimetres > 0)
        s->height = fmin(s->height, fmax(LEAST_SQUARE, width / em));
    s->first = (qk__place){s->left * em, top + s->above * em, width, s->height * em};
    s->em = em;
    s->across = width + s->gap * em;
    s->down = (s->above + s->height + s->below) * em;
    figure->height =
        (int)ceil(top + (double)s->rows * s->down - less_until(s, s->rows, em) + s->foot * em);
}

void qk__begin_sheet(qk__figure *figure, qk__sheet *s)
{
    const double em = qk__em(figure);
    qk__lay_out(figure, s);
    qk__put_heading(figure);
    if (s->legend.count > 0)
        qk__put_legend(figure, &s->legend, figure->width / 2.0,
                       qk__heading_height(figure) + BEFORE_LEGEND * em);
}

qk__place qk__panel_place(const qk__sheet *s, size_t panel)
{
    qk__place place = s->first;
    size_t column = panel % s->columns, row = panel / s->columns;
    place.left += (double)column * s->across;
    place.top += (double)row * s->down - less_until(s, row, s->em);
    return place;
}

bool qk__is_leftmost(const qk__sheet *s, size_t panel)
{
    return panel % s->columns == 0;
}

bool qk__is_lowest(const qk__sheet *s, size_t panel)
{
    return panel + s->columns >= s->count;
}

static void break_name(const qk__figure *figure, const char *name, double width,
                       qk__lines *lines)
{
    qk__break_lines(name, false, width, qk__small_type(figure), 3, lines);
}

size_t qk__name_lines(const qk__figure *figure, const char *name, double width)
{
    qk__lines lines;
    break_name(figure, name, width, &lines);
    return lines.count;
}

void qk__put_name(qk__figure *figure, const char *name, const qk__place *place, double above)
{
    const double line = QK__NAME_LINE * qk__em(figure);
    qk__lines lines;
    break_name(figure, name, place->width, &lines);
    for (size_t i = 0; i < lines.count; i++)
        qk__put_text(
            figure, qk__figure_escape(figure, lines.text[i]), place->left + place->width / 2,
            place->top - above - line * ((double)(lines.count - i) - 0.5), QK__SMALL_TYPE);
}

void qk__put_axis_names(qk__figure *figure, const char *x, const char *y,
                        const qk__sheet *sheet)
{
    const double em = qk__em(figure);
    const qk__place *place = &sheet->first;
    qk__put_markup(figure, x, place->left + place->width / 2,
                   place->top + place->height + (sheet->below - 16) * em, QK__CENTRED);
    qk__put_markup(figure, y, 14 * em, place->top + place->height / 2, QK__TURNED);
}
