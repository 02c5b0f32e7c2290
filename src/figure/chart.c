/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of charts: statistics of series over models, layers, components, dimensions or lengths. */
#include "figure/chart.h"

#include <math.h>

/* ---- what is shown ---------------------------------------------------------------------- */

const char *qk__series_name(const qk__chart_series *series)
{
    return series->name || !series->field ? series->name
                                          : qk__find_field(series->field)->info.label;
}

/* Columns of rows: the statistics of a series. */
enum { PLACE = 1, FIRST = 2 };

static size_t column_of(const qk__subject *subject, const qk__panel *panel)
{
    size_t column = FIRST;
    for (const qk__panel *p = subject->kind->panels; p < panel; p++)
        column += QK__NUM_VALUES * qk__count_series(p);
    return column;
}

size_t qk__count_places(const qk__subject *subject)
{
    const size_t rows = subject->rows.count;
    switch (subject->kind->over) {
    case QK__MODELS:
        return subject->results->num_models;
    case QK__LENGTHS:
        return rows;
    default: /* from 0 on */
        return rows > 0 ? (size_t)qk__number_in(&subject->rows, rows - 1, PLACE) + 1 : 0;
    }
}

/* The place of a row; SIZE_MAX: none. */
static size_t place_of(const qk__subject *subject, size_t row)
{
    switch (subject->kind->over) {
    case QK__MODELS:
        return qk__model_in(subject->results, &subject->rows, row, PLACE);
    case QK__LENGTHS:
        return row;
    default:
        return (size_t)qk__number_in(&subject->rows, row, PLACE);
    }
}

/* An area between curves needs both. */
bool qk__has_numbers(const qk__subject *subject, const qk__panel *panel)
{
    size_t count = qk__count_series(panel), found = 0, first = column_of(subject, panel);
    for (size_t s = 0; s < count; s++) {
        bool any = false;
        for (size_t i = 0; i < subject->rows.count && !any; i++)
            any = isfinite(
                qk__number_in(&subject->rows, i, first + QK__NUM_VALUES * s + QK__VALUE));
        found += any;
    }
    return panel->between ? found == count : found > 0;
}

/* One layer makes no curve, and several models have different layers. */
bool qk__has_chart(const qk__subject *subject)
{
    if (subject->kind->over == QK__LAYERS &&
        (subject->results->num_models != 1 || subject->rows.count < 2))
        return false;
    for (const qk__panel *panel = subject->kind->panels; qk__count_series(panel) > 0; panel++) {
        if (qk__has_numbers(subject, panel))
            return true;
        if (panel->between)
            return false;
    }
    return false;
}

/* ---- numbers ---------------------------------------------------------------------------- */

/* The name of a series in the file of numbers: the column, or the name in the legend. */
static const char *told_series(qk__figure *figure, const qk__chart_series *series)
{
    if (series->role == QK__BY_CATEGORY)
        return qk_category_name(series->category);
    if (!series->field)
        return series->name;
    return series->magnitude ? qk__figure_format(figure, "|%s|", series->field) : series->field;
}

static void tell_row(qk__figure *figure, const qk__chart *c, const char *const *names,
                     size_t row)
{
    for (size_t s = 0; s < c->count; s++) {
        double *const *of = c->values[s];
        const size_t place = (size_t)c->place[row];
        const qk__told told = {.panel = c->panel->title ? c->panel->title : c->panel->y_label,
                               .series = told_series(figure, &c->panel->series[s]),
                               .x_name = names ? names[place] : NULL,
                               .x = c->place[row],
                               .y = of[QK__VALUE][row],
                               .low = of[QK__VALUE_LOW][row],
                               .high = of[QK__VALUE_HIGH][row],
                               .value = of[QK__VALUE_MEDIAN][row]};
        qk__tell(figure, &told);
    }
}

/* A layer without heads is left out; a model without numbers keeps its place and interrupts lines. */
static void add_numbers(const qk__subject *subject, qk__chart *c)
{
    const qk__panel *panel = c->panel;
    const bool models = subject->kind->over == QK__MODELS;
    const size_t column = column_of(subject, panel);
    c->rows = models ? subject->results->num_models : subject->rows.count;
    for (size_t i = 0; i < c->rows; i++) {
        c->place[i] = (double)i;
        for (size_t k = 0; k < c->count * QK__NUM_VALUES; k++)
            c->values[k / QK__NUM_VALUES][k % QK__NUM_VALUES][i] = NAN;
    }
    for (size_t i = 0; i < subject->rows.count; i++) {
        const size_t place = place_of(subject, i), row = models ? place : i;
        double sum = 0;
        if (place == SIZE_MAX)
            continue;
        c->place[row] = (double)place;
        for (size_t k = 0; k < c->count * QK__NUM_VALUES; k++) {
            const double value = qk__number_in(&subject->rows, i, column + k);
            c->values[k / QK__NUM_VALUES][k % QK__NUM_VALUES][row] = value;
            qk__range_add(&c->range, value);
            sum += k % QK__NUM_VALUES == QK__VALUE ? value : 0;
        }
        if (panel->mark == QK__STACK)
            c->range.high = fmax(c->range.high, sum);
    }
}

static bool take_memory(qk__figure *figure, size_t places, qk__chart *c)
{
    double *all =
        qk__figure_alloc(figure, (1 + c->count * QK__NUM_VALUES) * (places + 1), sizeof *all);
    if (!all)
        return false;
    c->place = all;
    for (size_t s = 0; s < c->count; s++)
        for (size_t i = 0; i < QK__NUM_VALUES; i++)
            c->values[s][i] = all + (1 + s * QK__NUM_VALUES + i) * (places + 1);
    return true;
}

qk__chart qk__make_chart(qk__figure *figure, const qk__subject *subject, const qk__panel *panel,
                         const char *const *names)
{
    const qk__chart_series *first = &panel->series[0];
    qk__chart c = {.panel = panel,
                   .count = qk__count_series(panel),
                   .power = {0, 1, ""},
                   .interval = panel->statistic == QK__STAT_DEVIATION ||
                               panel->statistic == QK__STAT_QUARTILES,
                   .range = QK__NO_RANGE};
    if (take_memory(figure, qk__count_places(subject), &c)) {
        add_numbers(subject, &c);
        for (size_t i = 0; i < c.rows; i++)
            tell_row(figure, &c, names, i);
    }
    for (int i = 0; i < 2; i++)
        if (panel->lines[i] != 0)
            qk__range_add(&c.range, panel->lines[i]);
    if (!panel->loose || !(c.range.low <= c.range.high))
        qk__range_add(&c.range, 0);
    if (first->field)
        c.power = qk__power_for(qk__find_field(first->field), fmax(-c.range.low, c.range.high));
    if (panel->percent)
        c.power.factor = 100;
    return c;
}

/* Leaves room beyond the numbers, but not beyond 0, nor beyond 1 where nothing exceeds it. */
qk__axis qk__value_axis(const qk__chart *c)
{
    const qk__panel *panel = c->panel;
    double low = c->range.low, high = panel->to_one ? fmax(c->range.high, 1) : c->range.high;
    const bool share = panel->to_one || panel->loose;
    double room = fmax(0.07 * (high - low), share ? 0.01 : 0);
    if (room > 0) {
        low -= low != 0 ? room : 0;
        high += high != 0 && !(panel->to_one && high == 1) ? room : 0;
    }
    if (share && c->range.high <= 1)
        high = fmin(high, 1);
    if (share && c->range.low >= 0)
        low = fmax(low, 0);
    return qk__axis_between(low, high);
}
