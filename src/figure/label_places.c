/* SPDX-License-Identifier: Apache-2.0 */
/* Finds places for the names of points: each name in turn takes the cheapest place around its point, given the places
 * of the others, until none moves. */
#include "figure/label_places.h"

#include <math.h>

enum { DIRECTIONS = 16, RINGS = 6, MAX_ROUNDS = 12, TOO_DEAR = 1000 };

static double overlap(const qk__box *a, const qk__box *b)
{
    double width = fmin(a->right, b->right) - fmax(a->left, b->left);
    double height = fmin(a->bottom, b->bottom) - fmax(a->top, b->top);
    return width > 0 && height > 0 ? width * height : 0;
}

/* The box of a name on that side of its point, in a ring; ring 0 touches the point. */
static qk__box box_at(const qk__name_place *name, double radius, int direction, int ring)
{
    double angle = 2 * acos(-1) * direction / DIRECTIONS;
    double c = cos(angle), s = -sin(angle), gap = radius + 3 + 9.0 * ring;
    double x = name->x + c * (gap + name->width / 2);
    double y = name->y + s * (gap + name->height / 2);
    return (qk__box){x - name->width / 2, y - name->height / 2, x + name->width / 2,
                     y + name->height / 2};
}

/* Whether the line from (x0, y0) to (x1, y1) meets the box (Liang and Barsky's clipping). */
static bool crosses(const qk__box *box, double x0, double y0, double x1, double y1)
{
    const double p[4] = {x0 - x1, x1 - x0, y0 - y1, y1 - y0};
    const double q[4] = {x0 - box->left, box->right - x0, y0 - box->top, box->bottom - y0};
    double from = 0, to = 1;
    for (int i = 0; i < 4; i++) {
        if (p[i] == 0 && q[i] < 0)
            return false;
        if (p[i] < 0)
            from = fmax(from, q[i] / p[i]);
        else if (p[i] > 0)
            to = fmin(to, q[i] / p[i]);
    }
    return from < to;
}

static bool is_inside(const qk__box *box, const qk__box *frame)
{
    return box->left >= frame->left && box->right <= frame->right && box->top >= frame->top &&
           box->bottom <= frame->bottom;
}

/* What names are placed among. */
typedef struct surroundings {
    qk__name_place *names;
    size_t count;
    double radius; /* of points */
    const qk__box *frame;
    const double *line; /* [4] or NULL */
} surroundings;

/* A place that must not be taken costs TOO_DEAR, one that should not a few units. Beside the point is cheaper than
 * above or below it, and both are cheaper than a slanting direction. */
static double cost_of(const surroundings *all, size_t i, const qk__box *box, int direction,
                      int ring)
{
    const qk__name_place *name = &all->names[i];
    const double x = (box->left + box->right) / 2, y = (box->top + box->bottom) / 2;
    const double radius = all->radius, *line = all->line;
    double cost = 6.0 * ring;
    cost += direction == 0                      ? 0
            : direction == DIRECTIONS / 2       ? 1
            : direction % (DIRECTIONS / 4) == 0 ? 1.5
                                                : 2;
    if (!is_inside(box, all->frame))
        cost += TOO_DEAR;
    for (size_t j = 0; j < all->count && cost < TOO_DEAR; j++) {
        const qk__name_place *other = &all->names[j];
        qk__box point = {other->x - radius, other->y - radius, other->x + radius,
                         other->y + radius};
        if (overlap(box, &point) > 0)
            cost += j == i ? 4 : TOO_DEAR;
        if (j == i)
            continue;
        if (other->shown && overlap(box, &other->box) > 0)
            cost += TOO_DEAR;
        if (other->shown && other->apart &&
            crosses(box, other->x, other->y, (other->box.left + other->box.right) / 2,
                    (other->box.top + other->box.bottom) / 2))
            cost += 20;
        if (ring > 0 && crosses(&point, name->x, name->y, x, y))
            cost += 20;
    }
    if (line && crosses(box, line[0], line[1], line[2], line[3]))
        cost += 4;
    return cost;
}

/* Returns whether the name moved. */
static bool place_one(const surroundings *all, size_t i)
{
    qk__name_place *name = &all->names[i], before = *name;
    double least = TOO_DEAR;
    name->shown = false;
    for (int ring = 0; ring < RINGS; ring++)
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            qk__box box = box_at(name, all->radius, direction, ring);
            double cost = cost_of(all, i, &box, direction, ring);
            if (cost < least) {
                least = cost;
                name->box = box;
                name->shown = true;
                name->apart = ring > 1;
            }
        }
    return name->shown != before.shown || name->box.left != before.box.left ||
           name->box.top != before.box.top;
}

void qk__place_names(qk__name_place *names, size_t count, double radius, const qk__box *frame,
                     const double line[4])
{
    const surroundings all = {names, count, radius, frame, line};
    bool moved = true;
    for (size_t i = 0; i < count; i++)
        names[i].shown = false;
    for (int round = 0; round < MAX_ROUNDS && moved; round++) {
        moved = false;
        for (size_t i = 0; i < count; i++)
            moved |= place_one(&all, i);
    }
}
