/* SPDX-License-Identifier: Apache-2.0 */
/* Places for the names of points, so that no name hides another, a point or the frame. Lengths are nominal pixels,
 * from the top left. */
#ifndef QK_FIGURE_LABEL_PLACES_H
#define QK_FIGURE_LABEL_PLACES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct qk__box {
    double left, top, right, bottom;
} qk__box;

typedef struct qk__name_place {
    double x, y;          /* the point */
    double width, height; /* of the name */
    bool shown;           /* false: there is no room for the name */
    bool apart;           /* a line should lead from the point to the name */
    qk__box box;          /* of the name */
} qk__name_place;

/* Sets shown, apart and box of each name. radius: of the points. line: two ends of a line that names should avoid,
 * NULL = none. */
void qk__place_names(qk__name_place *names, size_t count, double radius, const qk__box *frame,
                     const double line[4]);

#endif
