/* SPDX-License-Identifier: Apache-2.0 */
/* A plot on a canvas: a place, two axes with tics that never run into each other, and marks in the units of the
 * axes: bars (stacks are bars on each other), points, curves, bands, cells. */
#ifndef QK_DRAW_PLOT_H
#define QK_DRAW_PLOT_H

#include "draw/canvas.h"

typedef struct qk__axis {
    double low, high; /* at the left or lower end, and at the other; low may be above high */
    bool logarithmic; /* both are above 0 */
} qk__axis;

typedef struct qk__plot {
    qk__canvas *canvas;
    double left, top, width, height; /* without its axes */
    qk__axis x, y;
    double type; /* pixels, of numbers on axes */
} qk__plot;

/* Where a number lies; NaN has no place. */
double qk__at_x(const qk__plot *plot, double x);
double qk__at_y(const qk__plot *plot, double y);

/* ---- tics ------------------------------------------------------------------------------- */

typedef enum qk__edge { QK__BELOW, QK__ABOVE, QK__LEFT, QK__RIGHT } qk__edge;

enum { QK__MOST_TICS = 128, QK__NUMBER_TEXT = 48 };
typedef struct qk__tic {
    double at;
    const char *text;  /* markup; "" : none */
    const char *whole; /* NULL: nothing was cut */
} qk__tic;

/* How tics look. */
typedef struct qk__tic_style {
    double length;      /* of the line outward, pixels; 0: none */
    double turn;        /* degrees by which labels are turned to the left below the plot */
    bool grid;          /* a faint line across the plot */
    bool plain;         /* no lines and numbers alone */
    const char *format; /* printf, of a number; NULL: as few digits as the step needs */
    double factor;      /* numbers are shown times this; 0: as they are */
    const char *after;  /* markup behind each number; NULL: nothing */
} qk__tic_style;

/* 1, 2 or 5 times a power of ten, near to step. */
double qk__round_step(double step);
/* A number as text, printf style: with a proper minus, and none before a zero. Returns out. */
const char *qk__number_text(char out[QK__NUMBER_TEXT], const char *format, double value);

/* Round numbers of an axis: about as many as stand `least` pixels apart, and so few that no two labels touch; of a
 * logarithmic axis powers of ten. step 0: chosen. */
void qk__number_tics(const qk__plot *plot, qk__edge side, double least, double step,
                     qk__tic_style style);
/* Labels at places; those that would touch the one before are left out. */
void qk__label_tics(const qk__plot *plot, qk__edge side, const qk__tic *tics, size_t count,
                    qk__tic_style style);
/* Lines along sides: a bit for each, 1 << QK__BELOW. */
void qk__draw_sides(const qk__plot *plot, unsigned sides);
/* A line across the plot at a number of an axis. */
void qk__line_across(const qk__plot *plot, double y, qk__pen pen);
void qk__line_up(const qk__plot *plot, double x, qk__pen pen);

/* ---- marks ------------------------------------------------------------------------------ */

/* Cut off at the edges of the plot. */
void qk__begin_marks(const qk__plot *plot);
void qk__end_marks(const qk__plot *plot);
void qk__draw_bar(const qk__plot *plot, double x0, double x1, double y0, double y1,
                  qk__pen pen);
void qk__draw_points(const qk__plot *plot, const double *x, const double *y, size_t count,
                     qk__sign sign, double radius, const char *color, double opacity);
/* NaN interrupts both. */
void qk__draw_curve(const qk__plot *plot, const double *x, const double *y, size_t count,
                    qk__pen pen);
void qk__draw_band(const qk__plot *plot, const double *x, const double *low, const double *high,
                   size_t count, qk__pen pen);
/* Between two numbers of each place, upright. */
void qk__draw_whiskers(const qk__plot *plot, const double *x, const double *low,
                       const double *high, size_t count, qk__pen pen);

#endif
