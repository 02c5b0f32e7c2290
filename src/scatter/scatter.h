/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of a scatter share: the heads chosen, and each head's rows on its axes. run_scatter.c
 * leads: it asks for heads, looks at each, and draws. */
#ifndef QK_SCATTER_SCATTER_H
#define QK_SCATTER_SCATTER_H

#include <qkscope/report.h>

#include "analysis/head_data.h"
#include "analysis/run.h"
#include "analysis/value_set.h"
#include "capture/token_strings.h"
#include "figure/scatter_figure.h"

/* Panels of a collage, across or down. */
enum { QK__SCATTER_SIDE = 12 };

/* What can be drawn at all: a name, an output, axes and heads that go together (scatter_settings.c). */
QK_MUST_CHECK qk_status qk__scatter_check_settings(const qk_scatter_settings *settings,
                                                   qk_error *err);

enum { QK__SCATTER_TEXT = 200, QK__SCATTER_BOX = 3000 };

/* Titles of one panel, in the figure's markup: numbers and our own words, nothing from outside.
 */
typedef struct qk__view_text {
    char title[QK__SCATTER_TEXT];
    char notes[2][QK__SCATTER_TEXT]; /* "" = none */
    char box[QK__SCATTER_BOX];       /* lines; "" = none */
} qk__view_text;

/* One head on its axes: a panel for each pair of them. */
typedef struct qk__head_view {
    qk_scatter_head head;
    size_t dim, num_panels;
    double *axes;                    /* [2 * num_panels][dim] */
    double origin[2];                /* of the first two axes: what is 0 there */
    qk__view_text *texts;            /* [num_panels] */
    char subtitle[QK__SCATTER_TEXT]; /* of a figure of this head alone; "" = none */
    qk__strips strips;               /* of attention, in place of points */
    size_t num_points;
    qk__point *points; /* [num_panels][num_points] in drawing order */
    qk__position_span q, k;
    qk__token_strings strings; /* of the points' tokens, where they are asked for */
} qk__head_view;

/* A row of a head, where it lies between the edges of its panel (0 to 65,535), and how early or late its position
 * is among those of its kind (0 to 255). */
typedef struct qk__dot {
    uint16_t x, y; /* y from the top */
    uint8_t at;
    bool is_key;
    int32_t token; /* the number of its string among those of the cells; -1: none */
} qk__dot;

/* The same heads as points alone, for a page with axes of its own (head_cells.c). */
typedef struct qk__head_cell {
    qk_scatter_head head;
    qk__scatter_axes axes; /* the edges */
    size_t count;
    qk__dot *dots; /* [count] in drawing order */
    char *why;     /* the head has no points, for this reason; else NULL */
} qk__head_cell;
typedef struct qk__head_cells {
    size_t count;
    qk__head_cell *items; /* in the order of qk__scatter_select */
    qk__position_span q, k;
    qk__token_strings strings; /* of the rows' tokens, where the capture has them */
} qk__head_cells;
/* Finds them. Unlike qk_scatter_run it leaves a head out that has no such axes, or no rows, and writes nothing. */
QK_MUST_CHECK qk_status qk__scatter_cells(const qk_scatter_settings *settings,
                                          qk__head_cells *cells, qk_error *err);
void qk__head_cells_free(qk__head_cells *cells);

/* The points of a panel as those of a cell; the spans of all heads are known. */
QK_MUST_CHECK qk_status qk__cell_fill(qk__head_cell *cell, const qk__scatter_panel *panel,
                                      const qk__token_strings *strings, qk__head_cells *all,
                                      qk_error *err);

/* The heads to draw, in panel order (scatter_heads.c). Release with free(). */
QK_MUST_CHECK qk_status qk__scatter_select(qk__run *run, const qk_scatter_settings *settings,
                                           qk_scatter_head **heads, size_t *count,
                                           qk_error *err);
/* Panels of one figure. */
size_t qk__scatter_places(const qk_scatter_settings *settings);

/* One figure: which heads it shows. */
typedef struct qk__scatter_shown {
    const qk_scatter_settings *settings;
    const qk_settings_table *table; /* of these */
    const char *name;
    const qk_scatter_head *heads;
    size_t num_heads;
} qk__scatter_shown;

/* Appends the note that stands beside it (scatter_note.c). */
QK_MUST_CHECK qk_status qk__scatter_note(const qk__scatter_shown *shown, qk__buffer *out,
                                         qk_error *err);

/* A head being looked at: in which run, by which worker, and what is asked for. */
typedef struct qk__look {
    qk__run *run;
    int worker;
    const qk_scatter_settings *settings;
    qk__head_view *view;
    bool tokens; /* points have the strings of their tokens */
} qk__look;

/* Fits the axes of view->head, and reads its rows onto them (scatter_view.c). */
QK_MUST_CHECK qk_status qk__head_view_make(const qk__look *look, int64_t *bytes, int64_t *rows,
                                           qk_error *err);
void qk__head_view_free(qk__head_view *view);

/* For attention, once the run is open (attention_strips.c): heads will keep their rows. QK_ERR_NOT_FOUND: the capture has
 * not all of them, or from before RoPE. */
QK_MUST_CHECK qk_status qk__keep_texts(qk__run *run, qk_error *err);
/* Rows of attention of view->head in the text of settings->example_id, else in the one that reaches furthest.
 * QK_ERR_NOT_FOUND: there is none, or rows of it are missing. */
QK_MUST_CHECK qk_status qk__make_strips(const qk__look *look, const qk__head_data *queries,
                                        const qk__head_data *keys, qk_error *err);

/* The rows of one kind that become points, on all axes of a view (scatter_rows.c). */
typedef struct qk__picked_rows {
    size_t count;
    qk__buffer values;      /* double [count][2 * num_panels] */
    qk__buffer points;      /* qk__point [count], all but x and y */
    int64_t in_text;        /* rows of settings->example_id */
    qk__position_span span; /* of all rows */
} qk__picked_rows;

/* Reads a head once more. `total` is the number of its rows. Where the text that is to stand
 * out is not among them, some_texts (may be NULL) gets a few that are: "0, 1, 2". */
QK_MUST_CHECK qk_status qk__pick_rows(const qk__look *look, const qk_head *head, int64_t total,
                                      qk__picked_rows *picked,
                                      char some_texts[QK__SCATTER_TEXT], qk_error *err);
void qk__picked_rows_free(qk__picked_rows *picked);
/* "0, 1, 2, ... 59 (60 texts)"; empties the set. */
void qk__list_texts(qk__value_set *set, char text[QK__SCATTER_TEXT]);
/* That a head has no such text, but some_texts. */
qk_status qk__fail_no_text(const qk_head *head, int64_t text, const char *some_texts,
                           qk_error *err);

/* Fills the view's points from the rows of its kinds (or one of them, and none), mixed so that
 * neither kind and no end of the context hides the other. */
QK_MUST_CHECK qk_status qk__mix_points(const qk__look *look, const qk__picked_rows *q,
                                       const qk__picked_rows *k, qk_error *err);

#endif
