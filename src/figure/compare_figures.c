/* SPDX-License-Identifier: Apache-2.0 */
/* Two models beside each other: each head in a and in b, and where in the model heads changed. */
#include "figure/compare_figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

size_t qk__compared_metrics(const qk__found *rows, qk__found of[QK__MOST_COMPARED])
{
    size_t count = 0;
    for (size_t i = 0; i < rows->count && count < QK__MOST_COMPARED; i += of[count - 1].count)
        of[count++] = qk__same_in(rows, i, QK__COMPARED_PLACE);
    return count;
}

static const qk__field *field_of(const qk__found *rows)
{
    return qk__find_field(qk__text_in(rows, 0, QK__COMPARED_METRIC));
}

const char *qk__compared_title(qk__figure *figure, const qk__found *rows, double width,
                               const char *more)
{
    const qk__field *field = field_of(rows);
    const double room = width - (*more ? qk__text_width(figure, 6) : 0);
    return qk__figure_format(
        figure, "%.600s%s",
        qk__brief(figure, field->info.label ? field->info.label : field->info.name, room),
        more);
}

/* A folder may hold compare.csv of others. */
bool qk__has_compared_heads(const qk__subject *subject)
{
    return subject->sides[0] && subject->rows.count > 0;
}

/* ---- each head in a and in b ------------------------------------------------------------ */

static qk__range range_of(const qk__found *rows, size_t column)
{
    qk__range range = QK__NO_RANGE;
    for (size_t i = 0; i < rows->count; i++)
        qk__range_add(&range, qk__number_in(rows, i, column));
    return range;
}

/* Heads whose change is supported last, over the others. */
static void put_sides(qk__figure *figure, const qk__found *rows, const qk__plot *plot)
{
    const double radius = 2.6 * qk__em(figure);
    for (int supported = 0; supported < 2; supported++)
        for (size_t i = 0; i < rows->count; i++) {
            const double a = qk__number_in(rows, i, QK__COMPARED_A),
                         b = qk__number_in(rows, i, QK__COMPARED_B);
            if ((qk__number_in(rows, i, QK__COMPARED_SUPPORTED) == 1) != supported)
                continue;
            qk__draw_points(plot, &a, &b, 1, supported ? QK__DISC : QK__RING, radius,
                            supported ? figure->theme->highlight : figure->theme->muted, 0);
            qk__tell_point(figure, field_of(rows)->info.name,
                           supported ? "changed" : "not shown to have changed", a, b);
        }
}

/* One for both axes, so that distances compare; but where one is far longer, the points of the other
 * would be a line. Whether it is one. */
static bool settle_ranges(qk__range *a, qk__range *b)
{
    enum { MOST_TIMES = 5 };
    double of_a = a->high - a->low, of_b = b->high - b->low;
    bool apart = fmin(of_a, of_b) > 0 && fmax(of_a, of_b) > MOST_TIMES * fmin(of_a, of_b);
    if (!apart) {
        qk__range_add(a, b->low);
        qk__range_add(a, b->high);
        *b = *a;
    }
    for (int i = 0; i < 2; i++) {
        qk__range *r = i == 0 ? a : b;
        double margin = r->high > r->low ? 0.06 * (r->high - r->low) : 0.5;
        r->low -= margin;
        r->high += margin;
    }
    return !apart;
}

/* Where nothing changed, as far as it lies in the panel. */
static void draw_identity(qk__figure *figure, const qk__plot *plot)
{
    double low = fmax(plot->x.low, plot->y.low), high = fmin(plot->x.high, plot->y.high);
    const double ends[2] = {low, high};
    if (low < high)
        qk__draw_curve(plot, ends, ends, 2, qk__guide(figure));
}

static void draw_scatter(qk__figure *figure, const qk__subject *subject, const qk__found *rows,
                         const qk__sheet *sheet, size_t i)
{
    const double em = qk__em(figure);
    const qk__place of = qk__panel_place(sheet, i), *place = &of;
    const double middle = place->left + place->width / 2;
    qk__range of_a = range_of(rows, QK__COMPARED_A), of_b = range_of(rows, QK__COMPARED_B);
    qk__power power =
        qk__power_for(field_of(rows), fmax(fmax(fabs(of_a.low), fabs(of_a.high)),
                                           fmax(fabs(of_b.low), fabs(of_b.high))));
    bool one = settle_ranges(&of_a, &of_b);
    qk__put_text(figure, qk__compared_title(figure, rows, 0.97 * sheet->across, power.text),
                 middle, place->top - 12 * em, QK__SMALL_TYPE);
    qk__put_text(figure, qk__brief(figure, subject->sides[0], place->width), middle,
                 place->top + place->height + 36 * em, QK__NOTE);
    if (qk__is_leftmost(sheet, i))
        qk__put_text(figure, qk__brief(figure, subject->sides[1], place->height),
                     place->left - 52 * em, place->top + place->height / 2,
                     QK__NOTE | QK__TURNED);
    qk__plot plot = qk__figure_plot(figure, place);
    const qk__tic_style style = {.length = 4 * em, .factor = power.factor};
    plot.x = qk__axis_between(of_a.low, of_a.high);
    plot.y = qk__axis_between(of_b.low, of_b.high);
    qk__number_tics(&plot, QK__BELOW, 60 * em, 0, style);
    qk__number_tics(&plot, QK__LEFT, 50 * em, 0, style);
    if (one) {
        draw_identity(figure, &plot);
    } else { /* it would lie along an axis */
        qk__line_across(&plot, 0, qk__guide(figure));
        qk__line_up(&plot, 0, qk__guide(figure));
    }
    qk__draw_sides(&plot, 1u << QK__BELOW | 1u << QK__LEFT);
    put_sides(figure, rows, &plot);
}

void qk__build_compared_heads(qk__figure *figure, const qk__subject *subject)
{
    qk__found chosen[QK__MOST_COMPARED];
    const qk__found *rows = &subject->rows;
    size_t count = qk__compared_metrics(rows, chosen), tested = 0;
    for (size_t i = 0; i < rows->count; i++)
        tested += isfinite(qk__number_in(rows, i, QK__COMPARED_SUPPORTED));
    const qk__entry entries[] = {
        {"changed (corrected p < 0.05)", figure->theme->highlight, QK__DISC, 0},
        {"no change shown, or not tested", figure->theme->muted, QK__RING, 0}};
    qk__sheet sheet = {.count = count,
                       .most = 3,
                       .least = 260,
                       .left = 70,
                       .gap = 66,
                       .right = 24,
                       .above = 28,
                       .height = 210,
                       .below = 50,
                       .entries = entries,
                       .num_entries = tested > 0 ? 2 : 0};
    qk__set_heading(figure, subject->results, NULL, subject->kind->heading);
    qk__begin_sheet(figure, &sheet);
    for (size_t i = 0; i < count; i++)
        draw_scatter(figure, subject, &chosen[i], &sheet, i);
}
