/* SPDX-License-Identifier: Apache-2.0 */
/* A figure being made: a canvas that is drawn on, and the numbers that it shows, row by row (figure.c, which
 * leads), then written as files (figure_files.c).
 *
 * Nothing here fails at once: the figure keeps the first failure (memory), later calls do nothing, and
 * qk__figure_write reports it; so the code that describes a figure stays readable.
 *
 * Texts are markup (draw/text.h). Only qk__figure_escape and qk__brief make markup of text from outside (labels,
 * names). */
#ifndef QK_FIGURE_FIGURE_H
#define QK_FIGURE_FIGURE_H

#include <stdbool.h>
#include <stddef.h>

#include <qkscope/report.h>

#include "base/buffer.h"
#include "draw/plot.h"
#include "base/arena.h"

typedef struct qk__figure {
    char name[120];     /* of the files, without ending: letters, digits, ". _ -" */
    int width, height;  /* nominal pixels: of the SVG; the PNG has twice as many */
    double millimetres; /* the width that was asked for, which `width` then is; 0: free */
    bool no_title, no_legend, symbols;
    struct {
        char title[240];   /* markup, or text from outside */
        char subject[240]; /* its study and model: text from outside */
        bool plain;        /* the title is from outside */
        bool ours;         /* the subject is markup */
    } heading;
    const qk__theme *theme;
    qk__canvas canvas;
    qk__buffer data;      /* NAME.csv */
    qk__buffer note;      /* NAME.md, or empty */
    const char **labels;  /* of the models, cut so that no two look alike: figure_text.h */
    struct qk__cut *cuts; /* texts that were cut, with their whole */
    qk__arena memory;
    qk_status status;
    qk_error err;
} qk__figure;

void qk__figure_init(qk__figure *figure, const char *name, const qk__theme *theme, int width,
                     int height);
void qk__figure_free(qk__figure *figure);

/* The page: its width in millimetres, with the same size of type on every page (0: as wide as the figure needs), and
 * whether it has a heading and a legend. Before the figure is built. */
void qk__figure_set_page(qk__figure *figure, const qk_figure_settings *settings);

/* Zeroed memory that lives as long as the figure. NULL: there is none, and the figure has failed. */
void *qk__figure_alloc(qk__figure *figure, size_t count, size_t size);
/* Keeps the first failure. */
void qk__figure_fail(qk__figure *figure, qk_status status, const qk_error *err);
/* Text from outside as markup, and markup by a format, printf style; both live as long as the figure. */
const char *qk__figure_escape(qk__figure *figure, const char *text);
const char *qk__figure_format(qk__figure *figure, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- the numbers ------------------------------------------------------------------------ */

#define QK__DATA_HEADER "panel,series,x,y,low,high,value\n"
/* What a row says, in the order of its columns: panel, series, place, values. Texts are markup. A place is a number or
 * a name; NaN is an empty field. */
typedef struct qk__told {
    const char *panel, *series;    /* NULL: the only one */
    const char *x_name, *y_name;   /* in place of x and y; NULL: these numbers */
    double x, y, low, high, value; /* value: of a cell */
} qk__told;
void qk__tell(qk__figure *figure, const qk__told *row);
/* Tells a point of a curve or a cloud; and one with an interval. */
void qk__tell_point(qk__figure *figure, const char *panel, const char *series, double x,
                    double y);
void qk__tell_range(qk__figure *figure, const char *panel, const char *series, double x,
                    double y, double low, double high);

/* ---- files ------------------------------------------------------------------------------ */

/* Writes NAME.svg, NAME.csv, the note and the other pictures into folder (made if missing), all or none. An error
 * names the figure and what a program said. in_page: the drawing as an element of a page, named label; NULL: not
 * wanted. */
QK_MUST_CHECK qk_status qk__figure_write(qk__figure *figure, const char *folder,
                                         const qk_figure_settings *settings, const char *label,
                                         qk__buffer *in_page, qk_error *err);

/* Moves the files of a drawn figure from one folder to another, and removes formats there that were not drawn. Without
 * any file in staging the figure is removed. */
QK_MUST_CHECK qk_status qk__figure_settle(const char *figure, const char *staging,
                                          const char *folder, qk_error *err);

/* Whether a figure failed because files could not be written or read (the disk is full), not through another program's
 * fault. Then the whole output is not complete; a figure that rsvg-convert cannot draw is only missing. */
bool qk__is_unwritten(qk_status status, const char *message);

/* Whether qk__figure_write takes the name; to be asked before any work is done. */
bool qk__is_figure_name(const char *name);

#endif
