/* SPDX-License-Identifier: Apache-2.0 */
/* Composes the SELECTs of figures about heads: a row a head, or statistics of the heads of each place. */
#include "base/error.h"
#include "figure/catalog.h"

size_t qk__count_series(const qk__panel *panel)
{
    size_t count = 0;
    for (const qk__chart_series *s = panel->series;
         count < QK__MAX_SERIES && (s->field || s->sql || s->role); s++)
        count++;
    return count;
}

static qk_status put_series(const qk__chart_series *series, qk__buffer *sql, qk_error *err)
{
    if (series->role == QK__BY_CATEGORY)
        return qk__buffer_printf(sql, err, "category = '%s'",
                                 qk_category_name(series->category));
    return qk__buffer_printf(sql, err, series->magnitude ? "abs(%s)" : "%s",
                             series->sql ? series->sql : series->field);
}

/* ---- a row a head ----------------------------------------------------------------------- */

/* Puts each series between these texts. */
static qk_status put_all_series(const qk__figure_kind *kind, const char *before,
                                const char *behind, qk__buffer *sql, qk_error *err)
{
    for (const qk__panel *panel = kind->panels; qk__count_series(panel) > 0; panel++)
        for (size_t s = 0; s < qk__count_series(panel); s++) {
            QK_TRY(qk__buffer_printf(sql, err, "%s", before));
            QK_TRY(put_series(&panel->series[s], sql, err));
            QK_TRY(qk__buffer_printf(sql, err, "%s", behind));
        }
    return QK_OK;
}

static qk_status ask_heads(const qk__figure_kind *kind, bool full, qk__buffer *sql,
                           qk_error *err)
{
    QK_TRY(qk__buffer_printf(sql, err, "SELECT head_id >> 42, layer, q_head, depth, category"));
    QK_TRY(put_all_series(kind, ", ", "", sql, err));
    QK_TRY(qk__buffer_printf(sql, err, " FROM head_numbers"));
    if (full) {
        QK_TRY(qk__buffer_printf(sql, err, " WHERE true"));
        QK_TRY(put_all_series(kind, " AND ", " IS NOT NULL", sql, err));
    }
    return qk__buffer_printf(sql, err, " ORDER BY head_id");
}

qk_status qk__ask_heads(const qk__subject *subject, qk__buffer *sql, qk_error *err)
{
    return ask_heads(subject->kind, false, sql, err);
}

qk_status qk__ask_full_heads(const qk__subject *subject, qk__buffer *sql, qk_error *err)
{
    return ask_heads(subject->kind, true, sql, err);
}

/* ---- a row a place ---------------------------------------------------------------------- */

/* Model and place, and the tables they come from. */
static const struct {
    const char *place, *from;
} OVER[] = {
    [QK__MODELS] = {"0, head_id >> 42", "head_numbers"},
    [QK__LAYERS] = {"0, layer", "head_numbers"},
    [QK__COMPONENTS] = {"0, pc", "qk WHERE pc < 10"},
    [QK__DIMENSIONS] = {"model_id, component", "dimension_weights JOIN models USING (model)"},
    [QK__LENGTHS] = {"head_id >> 42, length", "lengths"}};

/* Statistics over heads: the number, its lower and upper end, and the median. $ stands for the series, < for the
 * column's smallest value. */
static const char *const STATISTICS[] = {
    [QK__STAT_MEAN] = ", avg($), NULL, NULL, NULL",
    [QK__STAT_MEDIAN] = ", median($), NULL, NULL, NULL",
    /* with one head: a band without width */
    [QK__STAT_DEVIATION] = (", avg($), max(<, min(1, avg($) - coalesce(sd($), 0))), "
                            "max(<, min(1, avg($) + coalesce(sd($), 0))), NULL"),
    [QK__STAT_QUARTILES] = ", avg($), quantile($, 0.25), quantile($, 0.75), median($)"};

static qk_status put_statistic(const qk__panel *panel, const qk__chart_series *series,
                               qk__buffer *sql, qk_error *err)
{
    const qk__field *field = series->field ? qk__find_field(series->field) : NULL;
    const bool negative = field && field->info.range && field->info.range[0] == '-';
    for (const char *p = STATISTICS[panel->statistic]; *p; p++)
        if (*p == '$')
            QK_TRY(put_series(series, sql, err));
        else if (*p == '<')
            QK_TRY(qk__buffer_printf(sql, err, negative ? "-1" : "0"));
        else
            QK_TRY(qk__buffer_append(sql, p, 1, err));
    return QK_OK;
}

qk_status qk__ask_places(const qk__subject *subject, qk__buffer *sql, qk_error *err)
{
    const qk__figure_kind *kind = subject->kind;
    QK_TRY(qk__buffer_printf(sql, err, "SELECT %s", OVER[kind->over].place));
    for (const qk__panel *panel = kind->panels; qk__count_series(panel) > 0; panel++)
        for (size_t s = 0; s < qk__count_series(panel); s++)
            QK_TRY(put_statistic(panel, &panel->series[s], sql, err));
    return qk__buffer_printf(sql, err, " FROM %s GROUP BY 1, 2 ORDER BY 1, 2",
                             OVER[kind->over].from);
}
