/* SPDX-License-Identifier: Apache-2.0 */
/* What the scripts of the page get: the heads of both as one model, with columns of a, of b and of what changed. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/json_build.h"
#include "compare/compare.h"
#include "schema/schema.h"
#include "report/sections.h"

enum { DIGITS = 5 };

/* A column of a metric: NAME.diff, NAME.a, NAME.b, NAME.p. */
typedef struct part {
    const char *name, *head, *words; /* head: above the column in a table */
    const char *column;              /* in compare.csv */
    bool of_two;                     /* with the metric's colours, on one scale in a and in b */
} part;
static const part PARTS[] = {
    {"diff", "b − a", "b − a", "difference", false},
    {"a", "a", "in a", "a", true},
    {"b", "b", "in b", "b", true},
    {"p", "p", "p of the change, corrected", "p_corrected", false},
};
enum { NUM_PARTS = sizeof PARTS / sizeof *PARTS };

/* The range of both sides, or the largest change in either direction. */
static qk__range range_of(const qk_columns *rows, const part *of)
{
    qk__range range = QK__NO_RANGE;
    const double *a = qk_columns_reals(rows, of->of_two ? "a" : of->column),
                 *b = qk_columns_reals(rows, "b");
    for (size_t i = 0; i < qk_columns_num_rows(rows); i++) {
        qk__range_add(&range, of->of_two ? a[i] : fabs(a[i]));
        if (of->of_two)
            qk__range_add(&range, b[i]);
    }
    return range;
}

/* rows: of the metric, one for each head of both. */
static json_t *column(const qk_columns *rows, const qk__field *field, const part *of,
                      bool first)
{
    const double *numbers = qk_columns_reals(rows, of->column);
    qk__range range = range_of(rows, of);
    json_t *values = json_array();
    for (size_t i = 0; i < qk_columns_num_rows(rows); i++)
        values = qk__json_append(values, qk__json_number(numbers[i]));
    if (!isfinite(range.low)) {
        json_decref(values);
        return NULL;
    }
    qk__scale scale = of->of_two ? qk__scale_between(field->hue, range.low, range.high)
                                 : qk__scale_of_change(range.high);
    const char *name = field->info.name;
    return json_pack(
        "{s:o, s:o, s:s, s:o, s:o, s:b, s:o, s:o}", "name",
        json_sprintf("%s.%s", name, of->name), "head", json_sprintf("%s: %s", name, of->head),
        "table", "compare.csv", "label",
        json_sprintf("%s, %s", field->info.label ? field->info.label : name, of->words),
        "about", qk__clean_text(field->info.about ? field->info.about : ""), "first", first,
        "scale", qk__scale_json(&scale), "values", values);
}

/* All columns for the metrics in the tables above; for others only what changed. */
static qk_status add_columns(const qk__comparing *c, const qk_compare_metric *metric,
                             json_t **list, qk_error *err)
{
    qk_columns *rows;
    QK_TRY(qk__store_ask(c->tables, &rows, err,
                         "SELECT c.a, c.b, c.difference, c.p_corrected FROM temp.pairs p "
                         "LEFT JOIN compare c ON c.layer = p.layer AND c.q_head = p.q_head "
                         "AND c.metric = %Q ORDER BY p.rowid",
                         metric->name));
    for (size_t p = 0; p < (metric->main ? (size_t)NUM_PARTS : 1); p++) {
        json_t *one =
            column(rows, qk__find_field(metric->name), &PARTS[p], metric->main && p == 0);
        if (one)
            *list = qk__json_append(*list, one);
    }
    qk_columns_free(&rows);
    return QK_OK;
}

static json_t *integers(const qk_columns *rows, const char *column)
{
    json_t *list = json_array();
    for (size_t i = 0; i < qk_columns_num_rows(rows); i++)
        list = qk__json_append(list, json_integer(qk_columns_integers(rows, column)[i]));
    return list;
}

/* The categories in b; -1: none. */
static json_t *categories_of(const qk_columns *rows)
{
    const char *const *names = qk_columns_texts(rows, "category");
    json_t *list = json_array();
    for (size_t i = 0; i < qk_columns_num_rows(rows); i++)
        list = qk__json_append(list, json_integer(qk__category_of(names ? names[i] : NULL)));
    return list;
}

static json_t *zeros(size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = qk__json_append(list, json_integer(0));
    return list;
}

static void put_heads(qk__page *page, const qk__comparing *c, const qk_columns *rows,
                      json_t *columns)
{
    qk__phrase both = qk__phrase_of("%s → %s", qk__short_name_of(c->outcome->names[0]).text,
                                    qk__short_name_of(c->outcome->names[1]).text);
    json_t *categories = json_array();
    for (int k = 0; k < QK_NUM_CATEGORIES; k++)
        categories = qk__json_append(categories, json_string(qk_category_name((qk_category)k)));
    json_t *root = json_pack(
        "{s:b, s:[n,n], s:[{s:i, s:i, s:I, s:o, s:o}], s:[o], s:[], s:o, s:o, s:o, s:o, s:o, "
        "s:o, s:o}",
        "checkpoints", 0, "thresholds", "models", "family", 0, "phase", -1, "last_layer",
        (json_int_t)qk_columns_integers(rows, "last_layer")[0], "name",
        qk__clean_text(both.text), "label", qk__clean_text(both.text), "families",
        qk__clean_text(both.text), "phases", "categories", categories, "model",
        zeros(qk_columns_num_rows(rows)), "layer", integers(rows, "layer"), "q_head",
        integers(rows, "q_head"), "k_head", integers(rows, "k_head"), "category",
        categories_of(rows), "fields", columns);
    qk__page_json(page, "qk-heads", root, DIGITS);
}

qk_status qk__compare_put_data(qk__page *page, const qk__comparing *c, qk_error *err)
{
    qk_columns *rows = NULL;
    json_t *columns = json_array();
    qk_status status = QK_OK;
    for (size_t i = 0; i < c->outcome->num_metrics && status == QK_OK; i++)
        status = add_columns(c, &c->outcome->metrics[i], &columns, err);
    if (status == QK_OK)
        status = qk__store_ask(
            c->tables, &rows, err,
            "SELECT p.layer, p.q_head, p.k_head, h.category_b AS category, "
            "(SELECT max(max(n.layer), coalesce(max(m.layers), 0) - 1) FROM b.head_numbers n "
            "JOIN b.models m ON m.model = n.model WHERE n.model = %Q) AS last_layer "
            "FROM temp.pairs p JOIN compare_heads h ON h.layer = p.layer "
            "AND h.q_head = p.q_head ORDER BY p.rowid",
            c->sides[1].model);
    if (status == QK_OK)
        put_heads(page, c, rows, columns);
    else
        json_decref(columns);
    qk_columns_free(&rows);
    return status;
}
