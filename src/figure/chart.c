/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of charts: statistics of series over models, layers, components or dimensions. */
#include "figure/chart.h"

#include <math.h>

/* ---- what is shown ---------------------------------------------------------------------- */

double qk__series_value(const qk__chart_series *series, const qk__result_head *head)
{
    if (series->role == QK__BY_CATEGORY)
        return head->category >= 0 ? head->category == (int)series->category : NAN;
    double value = series->of_head ? series->of_head(head)
                                   : qk__field_value(qk__find_field(series->field), &head->v);
    return series->magnitude ? fabs(value) : value;
}

const char *qk__series_name(const qk__chart_series *series)
{
    return series->name || !series->field ? series->name
                                          : qk__find_field(series->field)->info.label;
}

size_t qk__count_series(const qk__panel *panel)
{
    size_t count = 0;
    for (const qk__chart_series *s = panel->series;
         count < QK__MAX_SERIES && (s->field || s->of_head || s->at || s->role); s++)
        count++;
    return count;
}

static size_t most_components(const qk__results *results)
{
    enum { MOST = 10 };
    size_t count = 0;
    qk__each_model (results, model)
        qk__each_head (model, head)
            count = head->num_pcs > count ? head->num_pcs : count;
    return count < MOST ? count : MOST;
}

size_t qk__count_places(const qk__subject *subject)
{
    switch (subject->kind->over) {
    case QK__LAYERS:
        return subject->results->num_models == 1
                   ? (size_t)subject->results->models[0].last_layer + 1
                   : 0;
    case QK__COMPONENTS:
        return most_components(subject->results);
    case QK__DIMENSIONS:
        return subject->model->num_components;
    case QK__LENGTHS:
        return subject->model->num_heads > 0 ? subject->model->heads[0].num_lengths : 0;
    default:
        return subject->results->num_models;
    }
}

/* Whether a head is of a category at a length; NaN: of none. */
static double is_at_length(const qk__result_head *head, size_t place, qk_category category)
{
    const double own = place < head->num_lengths ? head->length_category[place] : -1;
    return own < 0 ? NAN : own == (double)category;
}

/* The heads of a place: of a model, or of its layer. */
static qk__result_model heads_at(const qk__subject *subject, size_t place)
{
    const qk__results *results = subject->results;
    if (subject->model)
        return *subject->model;
    if (subject->kind->over == QK__MODELS)
        return results->models[place];
    qk__result_model layer = results->models[0];
    size_t first = 0, end;
    while (first < layer.num_heads && (size_t)layer.heads[first].layer < place)
        first++;
    for (end = first; end < layer.num_heads && (size_t)layer.heads[end].layer == place;)
        end++;
    layer.heads += first;
    layer.num_heads = end - first;
    return layer;
}

static qk__spread spread_at(qk__figure *figure, const qk__subject *subject,
                            const qk__chart_series *series, size_t place)
{
    if (series->at) {
        double value = series->at(subject, place);
        return (qk__spread){1, value, NAN, value, value, value};
    }
    qk__result_model of = heads_at(subject, place);
    double *values = qk__figure_alloc(figure, of.num_heads + 1, sizeof *values);
    size_t count = 0;
    for (size_t h = 0; values && h < of.num_heads; h++) {
        values[count] = subject->kind->over == QK__LENGTHS
                            ? is_at_length(&of.heads[h], place, series->category)
                            : qk__series_value(series, &of.heads[h]);
        count += isfinite(values[count]);
    }
    return qk__spread_of_values(values, count);
}

static bool has_values(const qk__subject *subject, const qk__chart_series *series)
{
    for (size_t i = 0; series->at && i < qk__count_places(subject); i++)
        if (isfinite(series->at(subject, i)))
            return true;
    qk__each_model (subject->results, model)
        qk__each_head (model, head)
            if (!series->at && isfinite(qk__series_value(series, head)))
                return true;
    return false;
}

/* Where an area lies between curves, of both. */
bool qk__has_numbers(const qk__subject *subject, const qk__panel *panel)
{
    size_t count = qk__count_series(panel), found = 0;
    for (size_t s = 0; s < count; s++)
        found += has_values(subject, &panel->series[s]);
    return panel->between ? found == count : found > 0;
}

/* One layer makes no curve. */
bool qk__has_chart(const qk__subject *subject)
{
    const qk__results *results = subject->results;
    size_t places = qk__count_places(subject);
    if (places == 0 || (subject->kind->over == QK__LAYERS &&
                        (results->models[0].num_heads == 0 ||
                         results->models[0].heads[0].layer ==
                             results->models[0].heads[results->models[0].num_heads - 1].layer)))
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

static void set_statistic(qk__chart *c, size_t s, size_t row, const qk__spread *of,
                          const qk__field *field)
{
    const qk__statistic statistic = c->panel->statistic;
    double shown[QK__NUM_VALUES] = {of->mean, NAN, NAN, NAN};
    if (statistic == QK__STAT_MEDIAN)
        shown[QK__VALUE] = of->median;
    if (statistic == QK__STAT_QUARTILES) {
        shown[QK__VALUE_LOW] = of->quartile1;
        shown[QK__VALUE_HIGH] = of->quartile3;
        shown[QK__VALUE_MEDIAN] = of->median;
    }
    if (statistic == QK__STAT_DEVIATION &&
        isfinite(of->mean)) { /* within what the column can be */
        bool negative = field && field->info.range && field->info.range[0] == '-';
        double sd = isfinite(of->sd) ? of->sd : 0; /* one head: a band without width */
        shown[QK__VALUE_LOW] = fmin(1, fmax(negative ? -1 : 0, of->mean - sd));
        shown[QK__VALUE_HIGH] = fmax(negative ? -1 : 0, fmin(1, of->mean + sd));
    }
    for (size_t i = 0; i < QK__NUM_VALUES; i++) {
        c->values[s][i][row] = shown[i];
        qk__range_add(&c->range, shown[i]);
    }
}

/* The column, or what the legend says. */
const char *qk__told_series(qk__figure *figure, const qk__chart_series *series)
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
                               .series = qk__told_series(figure, &c->panel->series[s]),
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
static void add_numbers(qk__figure *figure, const qk__subject *subject, qk__chart *c,
                        const char *const *names)
{
    const qk__panel *panel = c->panel;
    const bool layers = subject->kind->over == QK__LAYERS;
    for (size_t i = 0; i < qk__count_places(subject); i++) {
        if (layers && heads_at(subject, i).num_heads == 0)
            continue;
        double sum = 0;
        const size_t row = c->rows++;
        c->place[row] = (double)i;
        for (size_t s = 0; s < c->count; s++) {
            const qk__chart_series *series = &panel->series[s];
            qk__spread spread = spread_at(figure, subject, series, i);
            set_statistic(c, s, row, &spread,
                          series->field ? qk__find_field(series->field) : NULL);
            sum += spread.mean;
        }
        if (panel->mark == QK__STACK)
            c->range.high = fmax(c->range.high, sum);
        tell_row(figure, c, names, row);
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
    if (take_memory(figure, qk__count_places(subject), &c))
        add_numbers(figure, subject, &c, names);
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

/* Room beyond the numbers, but not beyond 0, and not beyond 1 where there is nothing. */
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
