/* SPDX-License-Identifier: Apache-2.0 */
/* A drawing that becomes an SVG: shapes, and texts whose width is known (text.h). Lengths are pixels from the
 * top left. Nothing here fails at once: the first failure (memory) is kept in the canvas, what follows does
 * nothing, and qk__canvas_write reports it.
 *
 * Numbers have two digits behind the point and depend on no locale, so the same drawing has the same bytes
 * everywhere. There are no names (id) in it: two drawings can stand in one page. */
#ifndef QK_DRAW_CANVAS_H
#define QK_DRAW_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "draw/theme.h"

typedef struct qk__canvas {
    const qk__theme *theme;
    qk__buffer body;
    bool one_pen; /* of a group of shapes (qk__begin_pen) */
    qk_status status;
    qk_error err;
} qk__canvas;

/* How a shape is painted. Colours are "#rrggbb"; those of the theme follow light and dark in a page. */
typedef struct qk__pen {
    const char *fill;   /* NULL: none */
    const char *stroke; /* NULL: none */
    double width;       /* of the stroke */
    double opacity;     /* of both; 0: opaque */
    bool dashed;
} qk__pen;

void qk__canvas_init(qk__canvas *canvas, const qk__theme *theme);
void qk__canvas_free(qk__canvas *canvas);

void qk__draw_rect(qk__canvas *canvas, double left, double top, double width, double height,
                   qk__pen pen);
/* One that is not seen: class says what is in its place, for who looks for it. */
void qk__draw_place(qk__canvas *canvas, const char *class, double left, double top,
                    double width, double height);
void qk__draw_line(qk__canvas *canvas, double x0, double y0, double x1, double y1, qk__pen pen);
/* Through the points; one that is not finite is a gap. closed: an area, which has no gaps. */
void qk__draw_path(qk__canvas *canvas, const double (*points)[2], size_t count, bool closed,
                   qk__pen pen);
/* All signs have about the area of a disc of that radius. They are one shape: where they lie on each other, they are no
 * more opaque. A place that is not finite has none. */
void qk__draw_signs(qk__canvas *canvas, qk__sign sign, const double (*places)[2], size_t count,
                    double radius, const char *color, double opacity);
/* What is drawn between these has that pen, whatever it says, and takes fewer bytes. */
void qk__begin_pen(qk__canvas *canvas, qk__pen pen);
void qk__end_pen(qk__canvas *canvas);
/* Grey with hatches, as no colour of a ramp is. */
void qk__draw_hatched(qk__canvas *canvas, double left, double top, double width, double height);
/* A PNG; sharp: its pixels are cells with edges. */
void qk__draw_image(qk__canvas *canvas, double left, double top, double width, double height,
                    const qk__buffer *png, bool sharp);
/* What is drawn between these is cut off at the edges. */
void qk__begin_clip(qk__canvas *canvas, double left, double top, double width, double height);
void qk__end_clip(qk__canvas *canvas);

/* Where a text stands about its place, whose y is the middle of the line. */
typedef enum qk__anchor { QK__START, QK__MIDDLE, QK__END } qk__anchor;
typedef struct qk__type {
    double size; /* pixels */
    const char *color;
    qk__anchor anchor;
    double turn;       /* degrees, clockwise, about the place */
    const char *whole; /* markup, shown where the mouse rests: what was cut; NULL: nothing */
} qk__type;
/* Markup (text.h). */
void qk__draw_text(qk__canvas *canvas, const char *markup, double x, double y, qk__type type);

/* The drawing as a file of these colours; millimetres: its width (0: pixels). In a page: as an element with
 * that label whose colours of the theme are variables of the style sheet (--fig-ink and the like). */
QK_MUST_CHECK qk_status qk__canvas_write(const qk__canvas *canvas, double width, double height,
                                         double millimetres, qk__buffer *out, qk_error *err);
QK_MUST_CHECK qk_status qk__canvas_write_in_page(const qk__canvas *canvas, double width,
                                                 double height, const char *label,
                                                 qk__buffer *out, qk_error *err);

#endif
