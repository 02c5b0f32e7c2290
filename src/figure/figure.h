/* SPDX-License-Identifier: Apache-2.0 */
/* A figure being made: a gnuplot script and the numbers it plots, put together line by line
 * (figure.c, which leads), then drawn (gnuplot.c).
 *
 * The script finds the terminal, the theme's colours and the line types set, and its data
 * file's name in the variable `data`: "plot data index 0 using 1:2 with lines". Line style N
 * (`ls N`) is the colour and point of series N - 1 (qk__series_color), ls 101 queries, ls 102
 * keys, ls 103 muted guide lines (dashed). The variable `size` is the terminal's font size:
 * other sizes are `font sprintf(',%g', 0.8*size)`, never numbers, since one script serves every
 * format.
 *
 * Nothing here fails at once: the first failure (memory) is kept in the figure, what follows
 * does nothing, and qk__figure_draw reports it; so the code that describes a figure stays
 * readable.
 *
 * Text from outside (labels, names) goes into a script through qk__figure_quote or
 * qk__figure_tic only: they are what keeps a hostile name from being a command. */
#ifndef QK_FIGURE_FIGURE_H
#define QK_FIGURE_FIGURE_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "figure/glyphs.h"
#include "draw/plot.h"
#include "results/grow.h"

typedef struct qk__figure {
    char name[120];     /* of the files, without ending: letters, digits, ". _ -" */
    int width, height;  /* nominal pixels: of the SVG; the PNG has twice as many */
    double millimetres; /* the width that was asked for, which width is then; 0: free */
    bool no_title, no_legend, symbols;
    struct {
        char title[240];   /* markup without quotes, or text from outside */
        char subject[240]; /* of which study and model: text from outside */
        bool plain;        /* the title is from outside */
        bool ours;         /* the subject is markup */
    } heading;
    double panel_height, panel_width; /* nominal pixels, of the panel placed last */
    const qk__theme *theme;
    qk__buffer script, data;
    qk__buffer raster; /* script of what is an image in an SVG */
    bool raster_pdf;   /* and in a PDF */
    qk__buffer note;   /* NAME.md, or empty */
    size_t num_blocks; /* blocks of data closed so far */
    qk__arena memory;
    struct qk__text *texts; /* what qk__figure_quote returned */
    size_t num_named;       /* of these, how many are variables of the script */
    qk__glyphs glyphs;
    locale_t plain; /* numbers with a decimal point whatever the user's locale */
    qk_status status;
    qk_error err;
} qk__figure;

void qk__figure_init(qk__figure *figure, const char *name, const qk__theme *theme, int width,
                     int height);
void qk__figure_free(qk__figure *figure);

/* A page of so many millimetres, with type of the same size as on any other (0: as wide as it is);
 * whether it has a heading and a legend. Before the figure is built. */
void qk__figure_set_page(qk__figure *figure, const qk_figure_settings *settings);

/* Memory, zeroed, that lives as long as the figure. NULL: there is none, and the figure knows it. */
void *qk__figure_alloc(qk__figure *figure, size_t count, size_t size);

/* Adds to the script, printf style. */
void qk__figure_print(qk__figure *figure, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A gnuplot string expression (a literal, or a variable) that shows the text as it is: no
 * markup, no substitution; control characters and separators of lines become spaces, what is
 * not UTF-8 becomes U+FFFD, what is beyond 60 characters an ellipsis. A zero-width space goes
 * into "]]>" and "\U+", which XML and gnuplot would take for something else. In PNG and PDF, a
 * character that no font of this machine has becomes '?'. The literal lives as long as the
 * figure. */
const char *qk__figure_quote(qk__figure *figure, const char *text);
/* The same for a line of a heading: 200 characters. */
const char *qk__figure_quote_line(qk__figure *figure, const char *text);
/* The same for a label in `set xtics (...)`, where gnuplot would take '%' for a format; 32
 * characters. */
const char *qk__figure_tic(qk__figure *figure, const char *text);
/* An expression made of such literals and markup of our own; it lives as long. */
const char *qk__figure_keep(qk__figure *figure, const char *expression);

/* Defines the texts that an SVG shows but a picture cannot, for lack of a font; the driver puts
 * it at the head of the script. */
QK_MUST_CHECK qk_status qk__figure_define_texts(const qk__figure *figure, qk__buffer *script,
                                                qk_error *err);

/* Numbers of the data file, row by row; NaN is written "NaN", which gnuplot leaves out (a gap
 * in a line). A block is what `index` counts. */
void qk__figure_value(qk__figure *figure, double value);
/* Further words of a row, printf style; nothing from outside, it is not escaped. */
void qk__figure_words(qk__figure *figure, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void qk__figure_end_row(qk__figure *figure);

/* Several numbers; a row of them. */
#define qk__figure_values(figure, ...)                                                         \
    qk__figure_add_values((figure), (const double[]){__VA_ARGS__},                             \
                          sizeof((const double[]){__VA_ARGS__}) / sizeof(double))
#define qk__figure_row(figure, ...)                                                            \
    (qk__figure_values((figure), __VA_ARGS__), qk__figure_end_row(figure))
void qk__figure_add_values(qk__figure *figure, const double *values, size_t count);
/* Closes the block and returns its index. One without rows gets a row of NaN: it plots as
 * nothing. */
size_t qk__figure_end_block(qk__figure *figure);

/* Writes NAME.gp, NAME.dat and the pictures into folder (made if missing), all together or
 * none. An error names the figure and what gnuplot said. */
QK_MUST_CHECK qk_status qk__figure_draw(qk__figure *figure, const char *folder,
                                        const qk_figure_settings *settings, qk_error *err);

/* Moves the files of a drawn figure from one folder to another; formats that were not drawn go
 * there. Without any file in staging the figure goes. */
QK_MUST_CHECK qk_status qk__figure_settle(const char *figure, const char *staging,
                                          const char *folder, qk_error *err);

/* Whether a figure failed because files could not be written or read, and not by gnuplot's fault: the
 * disk is full, say. Then whatever it belongs to is not complete, while a figure that gnuplot cannot draw
 * is one less. */
bool qk__is_unwritten(qk_status status, const char *message);

/* Whether qk__figure_draw takes it, to be asked before any work is done. */
bool qk__is_figure_name(const char *name);

/* ---- what several figures draw ---------------------------------------------------------- */

/* A dashed muted line down the plot at x (first axis), behind the data; or across it at y. */
void qk__figure_vertical(qk__figure *figure, double x);
void qk__figure_horizontal(qk__figure *figure, double y);

/* Many points or cells would make an SVG (and a PDF, where that is said) of megabytes. What is
 * printed between begin and end, with places and ranges of its own, is one image there, on the
 * page of the figure, whose size must be final. qk__figure_show_raster goes right behind `set
 * multiplot` (qk__begin_sheet does it); then print what the image shows where the variable
 * `raster` is 0, and axes alone where it is 1. */
void qk__figure_begin_raster(qk__figure *figure, bool pdf);
void qk__figure_end_raster(qk__figure *figure);
void qk__figure_show_raster(qk__figure *figure);

#endif
