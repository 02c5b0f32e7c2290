/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that are drawn from tables. A figure is a row of the table in figures.def: a SELECT of numbers, as which
 * marks, over what; the files beside it draw such rows. catalog.c asks for the numbers and draws all figures;
 * install.c then moves them to their places. */
#ifndef QK_FIGURE_CATALOG_H
#define QK_FIGURE_CATALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "figure/ask.h"
#include "figure/figure.h"

/* ---- what a figure is drawn of ---------------------------------------------------------- */

/* model is NULL unless the figure is one per model. */
typedef struct qk__subject {
    const qk__results *results;
    qk__store *tables;   /* NULL: there are none */
    qk__found rows, all; /* what the figure's SELECT found: of the model, and of all models */
    const qk__result_model *model;
    const struct qk__figure_kind *kind;
    const char *sides[2];     /* of a comparison, what the two are called */
    bool in_page;             /* drawings are wanted as elements of a page, too */
    const char *score_metric; /* of the score figure: a field or a column of the score file */
    const char *score_column; /* NULL = its first numeric column */
    /* Names of the figures asked for; without the slug of a model: all models'. None: all. */
    const char *const *only;
    size_t num_only;
} qk__subject;

/* ---- a row of the table ----------------------------------------------------------------- */

/* A colour, where it is not that of the column. */
typedef enum qk__role {
    QK__AS_COLUMN, /* queries, keys, or neither */
    QK__FIRST,     /* those of queries and keys for two that are compared */
    QK__SECOND,
    QK__TINT,
    QK__REST,
    QK__GREY,
    QK__GROUP,       /* of the family; in training, of the phase */
    QK__BY_CATEGORY, /* of its category */
    /* of curves (curves.c), which look unlike each other, too: */
    QK__MEASURED,
    QK__PREDICTED,
    QK__PREDICTED_TOO,
    QK__CHOSEN,   /* heads, and */
    QK__CONTROLS, /* random ones */
    QK__EACH_HEAD,
    QK__OF_HEADS, /* their mean */
    QK__CHANGED,  /* heads, from one model to another */
    QK__UNCHANGED,
} qk__role;

/* A number of each head. */
typedef struct qk__chart_series {
    const char *field;    /* a column (tables.def), which has its colours, unit and ranges */
    const char *sql;      /* what is taken in place of the column itself */
    qk_category category; /* by QK__BY_CATEGORY: 1 of a head that has it, 0 of any other */
    bool magnitude;
    const char *name; /* markup, in the legend; NULL: what the column says */
    qk__role role;
} qk__chart_series;
enum { QK__MAX_SERIES = 6 };
struct qk__panel;

/* ask_heads.c */
size_t qk__count_series(const struct qk__panel *panel);
/* chart.c: the label of a series, markup or plain text of ours. */
const char *qk__series_name(const qk__chart_series *series);

/* How numbers become marks. */
typedef enum qk__mark {
    QK__BARS,   /* beside each other */
    QK__STACK,  /* on each other */
    QK__CURVES, /* lines, with a band where the statistic has one */
} qk__mark;

/* What is taken over the heads of a place. */
typedef enum qk__statistic {
    QK__STAT_MEAN,
    QK__STAT_MEDIAN,
    QK__STAT_DEVIATION, /* the mean, and a standard deviation to either side */
    QK__STAT_QUARTILES, /* the mean, both quartiles, the median */
} qk__statistic;

typedef struct qk__panel {
    const char *title;   /* markup, above it; the power of ten follows */
    const char *y_label; /* markup, of panels at the left; without a title, likewise */
    qk__chart_series series[QK__MAX_SERIES];
    qk__mark mark;
    qk__statistic statistic;
    bool to_one;         /* the axis reaches 1 */
    bool loose;          /* it need not reach 0 */
    bool ratio;          /* on a logarithmic axis */
    bool percent;        /* numbers are shown in percent, and above the bars */
    const char *between; /* the name of the area between two curves; NULL = none */
    double lines[2];     /* across at these values, unless 0 */
    bool by_category;    /* points have the colours of their categories */
} qk__panel;

/* Where marks stand along the axis. */
typedef enum qk__over {
    QK__MODELS,
    QK__LAYERS,
    QK__COMPONENTS,
    QK__DIMENSIONS,
    QK__LENGTHS,
    /* of curves: */
    QK__DISTANCES,
    QK__POSITIONS,
    QK__SHARES, /* of the heads */
    QK__SIDES,  /* of a comparison, one over the other */
} qk__over;

typedef struct qk__figure_kind {
    const char *name;  /* "pca-03-layer-heatmap-rq"; per model the slug follows: "NAME-SLUG" */
    const char *title; /* heading in the report, plain text */
    const char *heading; /* of the picture, markup */
    const char *caption; /* one or two plain sentences: what is shown, and how to read it */
    const char *tables;  /* where its numbers come from: "qk.csv, heads.csv" */
    const char *rows, *numbers; /* which rows of these, and what is made of them */
    bool per_model;
    bool alone;    /* of one model, whose layers it compares */
    bool compares; /* models with each other: of one, the head maps say it better */
    bool pools; /* puts the heads of all models into one picture without telling them apart */
    bool training; /* of checkpoints alone, two or more */
    bool apart;    /* never of checkpoints */
    /* Its SELECT, as it is or put together; NULL: it asks nothing. */
    const char *select;
    qk_status (*compose)(const qk__subject *subject, qk__buffer *sql, qk_error *err);
    /* Whether the rows hold what it needs, NULL: where there are any; builds the figure. */
    bool (*applies)(const qk__subject *subject);
    void (*build)(qk__figure *figure, const qk__subject *subject);
    int width;  /* nominal pixels */
    int height; /* of a panel, at type of 13 */
    /* of maps and charts: */
    size_t columns; /* of panels, at most */
    qk__over over;
    const qk__panel *panels; /* ends with one without a series */
} qk__figure_kind;

typedef struct qk__figure_family {
    const char *title; /* "Combined QK PCA" */
    const qk__figure_kind *kinds;
    size_t count;
} qk__figure_family;

/* In report order (figures.c). */
extern const qk__figure_family qk__figure_families[];
extern const size_t qk__num_figure_families;

/* NULL: no figure has that name. */
const qk__figure_kind *qk__find_figure(const char *name);

/* ---- drawing ---------------------------------------------------------------------------- */

/* One figure that was drawn, or failed (then message says why). */
typedef struct qk__drawn {
    char name[120];
    const qk__figure_family *family;
    const qk__figure_kind *kind;
    const qk__result_model *model; /* NULL unless per model */
    qk__found rows, all;           /* as of qk__subject */
    qk_status status;
    char *message;
    int width, height;  /* nominal pixels */
    qk__buffer in_page; /* an element of a page, if that was asked for */
} qk__drawn;

typedef struct qk__drawn_list {
    size_t count;
    qk__drawn *items; /* in report order */
    size_t num_asked;
    qk_columns **asked; /* what their SELECTs found */
} qk__drawn_list;

/* The figures that apply and are asked for, drawn by nobody yet. QK_ERR_NOT_FOUND: one that is asked for is
 * not among those that apply. */
QK_MUST_CHECK qk_status qk__list_figures(const qk__subject *subject, qk__drawn_list *list,
                                         qk_error *err);

/* Draws these figures into folder, several at a time. Figures that fail do not stop
 * the others: their status is in the list and the first is returned with its message in err
 * (the list is set then, too). Progress counts "figures". */
QK_MUST_CHECK qk_status qk__draw_figures(const qk__subject *subject, const char *folder,
                                         const qk_figure_settings *settings,
                                         const qk_context *context, qk__drawn_list *list,
                                         qk_error *err);

/* Moves what was drawn into staging to folder. Figures of the catalog that were not drawn, or
 * failed, are removed there if these are all: they are of other results. */
QK_MUST_CHECK qk_status qk__install_figures(const qk__drawn_list *drawn, bool all,
                                            const char *staging, const char *folder,
                                            qk_error *err);
void qk__drawn_list_free(qk__drawn_list *list);

/* Fails where one of them is unwritten (figure.h). */
QK_MUST_CHECK qk_status qk__check_written(const qk__drawn_list *list, qk_error *err);

/* ---- what draws rows of the table ------------------------------------------------------- */

/* Puts the SELECT of such a figure together; whether its rows hold what it needs; and the figure. */
typedef qk_status qk__compose_fn(const qk__subject *subject, qk__buffer *sql, qk_error *err);
typedef bool qk__applies_fn(const qk__subject *subject);
typedef void qk__build_fn(qk__figure *figure, const qk__subject *subject);

/* ask_heads.c: a row a head, with these columns and then the series of all panels; those that have all of them; a row a
 * place. */
enum { QK__MODEL, QK__LAYER, QK__Q_HEAD, QK__DEPTH, QK__CATEGORY_NAME, QK__FIRST_SERIES };
qk__compose_fn qk__ask_heads, qk__ask_full_heads, qk__ask_places;
/* score_figure.c: models beside a score */
qk__compose_fn qk__ask_scored;

/* charts.c: over models, layers, components or dimensions */
qk__applies_fn qk__has_chart;
qk__build_fn qk__build_chart;
/* head_maps.c: a panel for each model, a cell for each head; a panel for each number, a row for each
 * model, over the depth */
qk__applies_fn qk__has_head_maps, qk__has_depth_maps, qk__has_layer_map;
qk__build_fn qk__build_head_maps, qk__build_depth_maps, qk__build_layer_map;
/* points.c: the second series over the first, a point a head; in a panel for each of some checkpoints;
 * and for each family, or each model */
qk__build_fn qk__build_points, qk__build_portraits, qk__build_family_points;
/* hills.c: densities over heads, a row for each model */
qk__build_fn qk__build_hills;

/* Figures whose row has a SELECT of its own. curves.c: curves over a number, two models; other_maps.c: plasticity and
 * attention over distances, rotary pairs, categories, and two models; score_figure.c: against an external score. */
qk__applies_fn qk__has_distances, qk__has_change_maps, qk__has_scores, qk__has_sides;
qk__build_fn qk__build_curves, qk__build_distances, qk__build_rotary_pairs,
    qk__build_attention_by_depth, qk__build_category_changes, qk__build_change_maps,
    qk__build_scores;

#endif
