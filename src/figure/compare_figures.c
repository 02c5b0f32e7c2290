/* SPDX-License-Identifier: Apache-2.0 */
/* Two models beside each other: each head in a and in b, and where in the model heads changed. */
#include "figure/compare_figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "figure/catalog.h"
#include "figure/sheet.h"

/* Metrics that are shown, if both have them. */
static const char *const METRICS[] = {"r_q",           "r_k",        "ev0",
                                      "bias_strength", "ap_overall", "plane_var_fraction",
                                      "lin_var_q",     "lin_var_k"};
enum { NUM_METRICS = sizeof METRICS / sizeof *METRICS };

size_t qk__compared_metrics(const qk__comparison *c,
                            const qk__compared_metric *chosen[QK__MOST_COMPARED])
{
    size_t count = 0;
    for (size_t i = 0; i < NUM_METRICS; i++)
        for (size_t m = 0; m < c->num_metrics && count < QK__MOST_COMPARED; m++)
            if (strcmp(c->metrics[m].field->info.name, METRICS[i]) == 0)
                chosen[count++] = &c->metrics[m];
    if (count == 0) /* of a table with none of these */
        chosen[count++] = &c->metrics[0];
    return count;
}

const char *qk__compared_title(qk__figure *figure, const qk__compared_metric *metric,
                               double width, const char *more)
{
    const char *label = metric->field->info.label;
    const double room = width - (*more ? qk__text_width(figure, 6) : 0);
    return qk__figure_format(figure, "%.600s%s",
                             qk__brief(figure, label ? label : metric->field->info.name, room),
                             more);
}

bool qk__has_compared_heads(const qk__subject *subject)
{
    return subject->comparison != NULL;
}

/* ---- each head in a and in b ------------------------------------------------------------ */

static void find_sides(const qk__comparison *c, const qk__compared_metric *metric,
                       qk__range *of_a, qk__range *of_b)
{
    *of_a = *of_b = QK__NO_RANGE;
    for (size_t i = 0; i < c->num_paired; i++) {
        const qk__change *x = &c->changes[metric->first + i];
        if (!isfinite(x->difference))
            continue;
        qk__range_add(of_a, x->a);
        qk__range_add(of_b, x->b);
    }
}

/* Heads whose change is supported last, over the others. */
static void put_sides(qk__figure *figure, const qk__comparison *c,
                      const qk__compared_metric *metric, const qk__plot *plot)
{
    const double radius = 2.6 * qk__em(figure);
    for (int supported = 0; supported < 2; supported++)
        for (size_t i = 0; i < c->num_paired; i++) {
            const qk__change *x = &c->changes[metric->first + i];
            if (!isfinite(x->difference) || (x->p_corrected < QK__CHANGE_LEVEL) != supported)
                continue;
            qk__draw_points(plot, &x->a, &x->b, 1, supported ? QK__DISC : QK__RING, radius,
                            supported ? figure->theme->highlight : figure->theme->muted, 0);
            qk__tell_point(figure, metric->field->info.name,
                           supported ? "changed" : "not shown to have changed", x->a, x->b);
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

static double largest_side(const qk__comparison *c, const qk__compared_metric *metric)
{
    double most = 0;
    for (size_t i = 0; i < c->num_paired; i++) {
        const qk__change *x = &c->changes[metric->first + i];
        if (isfinite(x->difference))
            most = fmax(most, fmax(fabs(x->a), fabs(x->b)));
    }
    return most;
}

static void draw_scatter(qk__figure *figure, const qk__comparison *c,
                         const qk__compared_metric *metric, const qk__sheet *sheet, size_t i)
{
    const double em = qk__em(figure);
    const qk__place of = qk__panel_place(sheet, i), *place = &of;
    const double middle = place->left + place->width / 2;
    qk__power power = qk__power_for(metric->field, largest_side(c, metric));
    qk__range of_a, of_b;
    find_sides(c, metric, &of_a, &of_b);
    bool one = settle_ranges(&of_a, &of_b);
    qk__put_text(figure, qk__compared_title(figure, metric, 0.97 * sheet->across, power.text),
                 middle, place->top - 12 * em, QK__SMALL_TYPE);
    qk__put_text(figure, qk__brief(figure, c->sides[0].label, place->width), middle,
                 place->top + place->height + 36 * em, QK__NOTE);
    if (qk__is_leftmost(sheet, i))
        qk__put_text(figure, qk__brief(figure, c->sides[1].label, place->height),
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
    put_sides(figure, c, metric, &plot);
}

void qk__build_compared_heads(qk__figure *figure, const qk__subject *subject)
{
    const qk__comparison *c = subject->comparison;
    const qk__compared_metric *chosen[QK__MOST_COMPARED];
    size_t count = qk__compared_metrics(c, chosen), tested = 0;
    for (size_t i = 0; i < count; i++)
        tested += chosen[i]->tested;
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
        draw_scatter(figure, c, chosen[i], &sheet, i);
}
