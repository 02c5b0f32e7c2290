/* SPDX-License-Identifier: Apache-2.0 */
/* What the view of a head shows beside its numbers: pictures of its queries and keys, its components, and its curves
 * over position and distance. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/error.h"
#include "base/json_build.h"
#include "report/sections.h"
#include "schema/columns.h"

enum { DIGITS = 5 };

/* ---- pictures --------------------------------------------------------------------------- */

/* [x from, x to, y from, y to, points]; or why there is no picture, "" where the page has no room. */
static json_t *picture(const qk__points_plane *plane, size_t i)
{
    const qk__head_cell *cell = &plane->cells.items[i];
    if (cell->why || plane->packed[i].size == 0)
        return qk__clean_text(cell->why ? cell->why : "");
    char *text = qk__base64(plane->packed[i].data, plane->packed[i].size);
    json_t *out = text ? json_pack("[f,f,f,f,s]", cell->axes.x_low, cell->axes.x_high,
                                   cell->axes.y_low, cell->axes.y_high, text)
                       : NULL;
    free(text);
    return out;
}

/* {"LAYER:HEAD": picture} */
static json_t *pictures(const qk__points_plane *plane)
{
    json_t *heads = json_object();
    for (size_t i = 0; i < plane->cells.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d:%d", plane->cells.items[i].head.layer,
                 plane->cells.items[i].head.head);
        heads = qk__json_set(heads, name, picture(plane, i));
    }
    return heads;
}

/* The strings of tokens that points have, and of which they are, by head. */
static json_t *add_tokens(json_t *root, const qk__points_plane *plane, const char *prefix)
{
    json_t *strings = json_array(), *heads = json_object();
    char name[32];
    for (size_t i = 0; i < plane->num_listed; i++)
        strings = qk__json_append(
            strings, qk__whole_text(qk__token_text(&plane->cells.strings, plane->listed[i])));
    for (size_t i = 0; i < plane->cells.count; i++) {
        if (plane->tokens[i].size == 0)
            continue;
        char *text = qk__base64(plane->tokens[i].data, plane->tokens[i].size);
        snprintf(name, sizeof name, "%d:%d", plane->cells.items[i].head.layer,
                 plane->cells.items[i].head.head);
        heads = qk__json_set(heads, name, text ? json_string(text) : NULL);
        free(text);
    }
    snprintf(name, sizeof name, "%stokens", prefix);
    return qk__json_set(root, name,
                        json_pack("{s:o, s:o}", "strings", strings, "heads", heads));
}

/* {plane: {"LAYER:HEAD": picture}}, and what is said of all of them. */
static json_t *model_points(const qk__model_points *of)
{
    json_t *root = json_pack("{s:I}", "shown", (json_int_t)of->shown);
    static const char *const WHYS[] = {"why", "pre_why"}, *const COMMANDS[] = {"command",
                                                                               "pre_command"};
    for (int s = 0; s < QK__NUM_POINT_STAGES; s++) {
        const qk__stage_points *stage = &of->stages[s];
        if (stage->planes[QK__PLANE_PCA].num_listed > 0)
            root = add_tokens(root, &stage->planes[QK__PLANE_PCA],
                              s == QK__POINTS_OWN ? "" : "pre_");
        if (stage->why)
            root = qk__json_set(root, WHYS[s], qk__clean_text(stage->why));
        if (stage->command)
            root = qk__json_set(root, COMMANDS[s], qk__clean_text(stage->command));
        for (int p = 0; p < QK__NUM_POINT_PLANES; p++)
            root = qk__json_set(root, qk__point_plane_names[s][p], pictures(&stage->planes[p]));
    }
    const qk__head_cells *cells = &of->stages[QK__POINTS_OWN].planes[0].cells;
    if (cells->count > 0)
        root = qk__json_set(root, "positions",
                            json_pack("[I,I,I,I]", (json_int_t)cells->q.low,
                                      (json_int_t)cells->q.high, (json_int_t)cells->k.low,
                                      (json_int_t)cells->k.high));
    return root;
}

static json_t *points(const qk__report *report)
{
    json_t *list = json_array();
    for (size_t m = 0; m < report->points.num_models; m++)
        list = qk__json_append(list, model_points(&report->points.models[m]));
    return list;
}

/* ---- curves ----------------------------------------------------------------------------- */

/* Each statement asks for head_id and then for what is drawn, in order. */
static const struct {
    const char *name, *select;
} CURVES[] = {
    {"components",
     "SELECT head_id, explained_variance, r_q, r_k FROM qk WHERE head_id IN temp.shown"
     " ORDER BY head_id, pc"},
    {"profile", "SELECT head_id, position, ap FROM head_profile WHERE head_id IN temp.shown"
                " ORDER BY head_id, position NULLS LAST, q_bucket"},
    {"scores", "SELECT head_id, distance, measured, predicted FROM score_by_distance"
               " WHERE head_id IN temp.shown ORDER BY head_id, bin"},
    /* attention in the latest rows, beside uniform attention */
    {"attention",
     "SELECT head_id, 0.5 * (distance_first + distance_last), mass / uniform,"
     " predicted_means / uniform, predicted_rotation / uniform FROM"
     " (SELECT *, max(row_first) OVER (PARTITION BY head_id) AS latest FROM attention_profile"
     "  WHERE head_id IN temp.shown) WHERE row_first = latest ORDER BY head_id, cell"},
    {"tokens",
     "SELECT head_id, list, token, share, lift, keys, texts, distance, position, example,"
     " queries, first_key, nearest, share_lo, share_hi FROM tokens WHERE head_id IN temp.shown ORDER BY head_id, list, rank"}};
enum { NUM_CURVES = sizeof CURVES / sizeof *CURVES };

qk_status qk__views_expect(qk__store *tables, qk_error *err)
{
    QK_TRY(qk__store_do(tables, err, "CREATE TABLE temp.shown (head_id INTEGER PRIMARY KEY)"));
    for (size_t i = 0; i < NUM_CURVES; i++)
        QK_TRY(qk__store_expect(tables, CURVES[i].select, err));
    return QK_OK;
}

/* An empty text is nothing. */
static json_t *value_in(const qk__found *rows, size_t row, size_t column)
{
    const char *text = qk__text_in(rows, row, column);
    return text ? qk__whole_text(text) : qk__json_number(qk__number_in(rows, row, column));
}

/* The rows of a head, from *at on: a list of values for each column. */
static json_t *curve_of(const qk__found *all, size_t *at, int64_t head)
{
    while (*at < all->count && all->of->values[0][*at].integer < head)
        ++*at;
    if (*at == all->count || all->of->values[0][*at].integer != head)
        return NULL;
    const qk__found own = qk__same_in(all, *at, 0);
    json_t *list = json_array();
    for (size_t c = 1; c < all->of->count; c++) {
        json_t *values = json_array();
        for (size_t i = 0; i < own.count; i++)
            values = qk__json_append(values, value_in(&own, i, c));
        list = qk__json_append(list, values);
    }
    return list;
}

/* Adds one kind of curve to the entries of the heads that have it. */
static qk_status add_curves(const qk__report *report, size_t kind, json_t *entries,
                            qk_error *err)
{
    const qk__page_heads *heads = &report->heads;
    qk_columns *rows;
    qk_status status = QK_OK;
    size_t at = 0;
    QK_TRY(qk__store_ask(report->tables, &rows, err, "%s", CURVES[kind].select));
    const qk__found all = {rows, 0, qk_columns_num_rows(rows)};
    for (size_t i = 0; i < heads->found.count && all.count > 0; i++) {
        json_t *curve = curve_of(&all, &at, heads->id[i]);
        if (curve && json_object_set_new(json_array_get(entries, i), CURVES[kind].name, curve))
            status = qk__nomem(err);
    }
    qk_columns_free(&rows);
    return status;
}

/* The heads whose curves the page has: all, or where these are too many the heads with pictures. */
static qk_status list_shown(const qk__report *report, qk_error *err)
{
    const bool all = report->results->num_heads <= QK__MOST_HEADS_SHOWN;
    const qk__page_heads *heads = &report->heads;
    qk__each_model (report->results, model) {
        const qk__model_points *of = &report->points.models[model - report->results->models];
        size_t first, count = qk__page_model(heads, model->id, &first);
        for (size_t i = first; i < first + count; i++)
            if (all || qk__points_has(of, (int)heads->layer[i], (int)heads->q_head[i]))
                QK_TRY(qk__store_do(report->tables, err, "INSERT INTO temp.shown VALUES (%lld)",
                                    (long long)heads->id[i]));
    }
    return QK_OK;
}

/* By head, in the order of the page; {} where a head has no curve of this kind. */
static json_t *curves(qk__page *page, const qk__report *report)
{
    json_t *list = json_array();
    for (size_t i = 0; i < report->heads.found.count; i++)
        list = qk__json_append(list, json_object());
    if (page->status == QK_OK)
        page->status = list_shown(report, &page->err);
    for (size_t i = 0; i < NUM_CURVES && page->status == QK_OK && list; i++)
        page->status = add_curves(report, i, list, &page->err);
    return list;
}

void qk__section_views(qk__page *page, const qk__report *report)
{
    qk__page_json(page, "qk-views",
                  json_pack("{s:o, s:o, s:i}", "points", points(report), "curves",
                            curves(page, report), "bytes", report->points.coordinate_bytes),
                  DIGITS);
}
