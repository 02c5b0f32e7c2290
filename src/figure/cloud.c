/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the points of a cloud. */
#include "figure/cloud.h"

#include <math.h>
#include <stdio.h>

enum { LAYERS = 32 }; /* of points on each other */

/* Also for a head without a known category. */
const char *qk__color_of_category(const qk__figure *figure, int category)
{
    return category < QK_NUM_CATEGORIES ? qk__category_color(figure->theme, category)
                                        : figure->theme->muted;
}

int qk__category_or_none(const qk__found *rows, size_t row)
{
    const int category = qk__category_in(rows, row, QK__CATEGORY_NAME);
    return category >= 0 ? category : QK_NUM_CATEGORIES;
}

/* The first number of a head, and the second. */
static double value_in(const qk__found *rows, size_t row, int which)
{
    return qk__number_in(rows, row, QK__FIRST_SERIES + (size_t)which);
}

/* The kinds of points: their models, or their categories. */
static size_t count_kinds(const qk__cloud *c, const qk__family *family)
{
    return c->by_category ? QK_NUM_CATEGORIES + 1 : family->count;
}

/* A point, and its kind. */
typedef struct head_point {
    double x, y;
    size_t kind;
} head_point;

static head_point find_point(qk__figure *figure, const qk__cloud *c, const qk__family *family,
                             size_t m, const qk__found *rows, size_t row)
{
    const int category = qk__category_or_none(rows, row);
    const head_point point = {value_in(rows, row, 0), value_in(rows, row, 1),
                              c->by_category ? (size_t)category : m};
    const char *of = c->by_category && category < QK_NUM_CATEGORIES
                         ? qk_category_name((qk_category)category)
                         : qk__figure_escape(figure, family->models[m]->label);
    qk__tell_point(figure, *family->name ? qk__figure_escape(figure, family->name) : NULL, of,
                   point.x, point.y);
    return point;
}

/* Collects the points of one kind; x and y have room for them. */
static void put_kind(qk__figure *figure, const qk__cloud *c, const qk__plot *plot,
                     const qk__family *family, size_t kind, const head_point *points,
                     size_t count, double *x, double *y)
{
    const qk__families *all = &c->families;
    size_t found = 0;
    char color[8];
    for (size_t i = 0; i < count; i++) {
        x[found] = points[i].x;
        y[found] = points[i].y;
        found += points[i].kind == kind;
    }
    if (c->by_category)
        snprintf(color, sizeof color, "%s", qk__color_of_category(figure, (int)kind));
    else
        qk__model_color(figure, all, family, kind, color);
    const qk__sign sign =
        c->by_category ? qk__series_sign((int)kind) : qk__model_sign(all, family, kind);
    qk__draw_points(plot, x, y, found, sign, 4.2 * c->size * qk__em(figure), color, 0.5);
}

/* Lists points in the order in which they are drawn: models take turns, so that no model covers the others. Returns
 * their number. */
static size_t list_points(qk__figure *figure, const qk__cloud *c, const qk__family *family,
                          head_point *points)
{
    size_t most = 0, count = 0;
    qk__found *rows = qk__figure_alloc(figure, family->count + 1, sizeof *rows);
    for (size_t m = 0; rows && m < family->count; m++) {
        rows[m] = qk__rows_in(&c->families, family->models[m]);
        most = rows[m].count > most ? rows[m].count : most;
    }
    for (size_t turn = 0; turn < most; turn++)
        for (size_t m = 0; m < family->count; m++) {
            size_t h = turn * rows[m].count / most;
            if ((turn + 1) * rows[m].count / most != h)
                points[count++] = find_point(figure, c, family, m, &rows[m], h);
        }
    return count;
}

/* Draws layers, with one shape for each kind of points: overlapping points of one shape look like one point, and a
 * shape for each point would take megabytes. */
void qk__put_cloud(qk__figure *figure, const qk__cloud *c, const qk__plot *plot,
                   const qk__family *family)
{
    const size_t room = c->families.subject->all.count + 1;
    head_point *points = qk__figure_alloc(figure, room, sizeof *points);
    double *x = qk__figure_alloc(figure, 2 * room, sizeof *x);
    if (!points || !x)
        return;
    const size_t count = list_points(figure, c, family, points);
    for (size_t layer = 0; layer < LAYERS; layer++) {
        const size_t first = layer * count / LAYERS, end = (layer + 1) * count / LAYERS;
        for (size_t kind = 0; kind < count_kinds(c, family); kind++)
            put_kind(figure, c, plot, family, kind, points + first, end - first, x, x + room);
    }
}

void qk__widen_to_family(const qk__families *all, const qk__family *family, qk__range r[2])
{
    for (size_t m = 0; m < family->count; m++) {
        const qk__found rows = qk__rows_in(all, family->models[m]);
        for (size_t i = 0; i < 2 * rows.count; i++)
            qk__range_add(&r[i % 2], value_in(&rows, i / 2, i % 2));
    }
}

double qk__cloud_r(qk__figure *figure, const qk__families *all,
                   const qk__result_model *const *models, size_t num_models)
{
    size_t count = 0;
    const size_t most = all->subject->all.count + 1;
    double *x = qk__figure_alloc(figure, 2 * most, sizeof *x);
    for (size_t m = 0; x && m < num_models; m++) {
        const qk__found rows = qk__rows_in(all, models[m]);
        for (size_t i = 0; i < rows.count; i++, count++) {
            x[count] = value_in(&rows, i, 0);
            x[most + count] = value_in(&rows, i, 1);
        }
    }
    return x ? qk__fit_line(x, x + most, count).r : NAN;
}
