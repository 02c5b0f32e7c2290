/* SPDX-License-Identifier: Apache-2.0 */
/* What the view of a head shows beside its numbers: pictures of its queries and keys, its components, and its
 * curves over position and distance. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/json_build.h"
#include "report/sections.h"

enum { DIGITS = 5 };

/* ---- pictures --------------------------------------------------------------------------- */

/* [x from, x to, y from, y to, points]; or why there is none, "" where the page has no room. */
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

/* {plane: {"LAYER:HEAD": picture}}, and what there is to say of all of them. */
static json_t *model_points(const qk__model_points *of)
{
    json_t *root = json_pack("{s:I}", "shown", (json_int_t)of->shown);
    static const char *const WHYS[] = {"why", "pre_why"}, *const COMMANDS[] = {"command",
                                                                               "pre_command"};
    for (int s = 0; s < QK__NUM_POINT_STAGES; s++) {
        const qk__stage_points *stage = &of->stages[s];
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

static json_t *series(const double *values, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = qk__json_append(list, qk__json_number(values[i]));
    return list;
}

/* A list of series, without those that are NULL; nothing where the first of them has no points. */
static json_t *add_curves(json_t *entry, const char *name, size_t count, size_t num,
                          const double *const columns[])
{
    if (count == 0)
        return entry;
    json_t *list = json_array();
    for (size_t i = 0; i < num; i++)
        list = qk__json_append(list, columns[i] ? series(columns[i], count) : json_null());
    return qk__json_set(entry, name, list);
}

static json_t *curves_of(const qk__result_head *head)
{
    const double *const components[] = {head->pc_ev, head->pc_r_q, head->pc_r_k};
    const double *const profile[] = {head->profile_position, head->profile_ap};
    const qk__head_curve *s = &head->scores, *a = &head->attention;
    const double *const scores[] = {s->distance, s->measured, s->predicted[0]};
    const double *const attention[] = {a->distance, a->measured, a->predicted[0],
                                       a->predicted[1]};
    json_t *entry = json_object();
    entry = add_curves(entry, "components", head->num_pcs, 3, components);
    entry = add_curves(entry, "profile", head->num_profile, 2, profile);
    entry = add_curves(entry, "scores", s->count, 3, scores);
    return add_curves(entry, "attention", a->count, 4, attention);
}

/* By head, in the order of the page; {} where a page of so many heads has none of this one. */
static json_t *curves(const qk__report *report)
{
    const bool all = report->num_heads <= QK__MOST_HEADS_SHOWN;
    json_t *list = json_array();
    qk__each_model (report->results, model) {
        const qk__model_points *of = &report->points.models[model - report->results->models];
        qk__each_head (model, head)
            list = qk__json_append(list, all || qk__points_has(of, head) ? curves_of(head)
                                                                         : json_object());
    }
    return list;
}

void qk__section_views(qk__page *page, const qk__report *report)
{
    qk__page_json(page, "qk-views",
                  json_pack("{s:o, s:o, s:i}", "points", points(report), "curves",
                            curves(report), "bytes", report->points.coordinate_bytes),
                  DIGITS);
}
