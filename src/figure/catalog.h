/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that are drawn from tables. A figure is a row of the table in figures.def: a SELECT of numbers, the
 * marks for them, and the axis; the files beside it draw such rows. catalog.c asks for the numbers and draws all
 * figures; install.c then moves them to their places. */
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
    qk__found rows, all; /* rows of the figure's SELECT: of the model, and of all models */
    const qk__result_model *model;
    const struct qk__figure_kind *kind;
    const char *sides[2];     /* names of the two sides of a comparison */
    bool in_page;             /* also draw each figure as an element of a page */
    const char *score_metric; /* for the score figure: a field or a column of the score file */
    const char *score_column; /* NULL = its first numeric column */
    /* Names of the figures asked for; a name without the slug of a model means all models. None: all figures. */
    const char *const *only;
    size_t num_only;
} qk__subject;

/* ---- a row of the table ----------------------------------------------------------------- */

/* A colour, where it is not the column's. */
typedef enum qk__role {
    QK__AS_COLUMN, /* queries, keys, or neither */
    QK__FIRST,     /* colours of queries and keys for two things that are compared */
    QK__SECOND,
    QK__TINT,
    QK__REST,
    QK__GREY,
    QK__GROUP,       /* by family; in training, by phase */
    QK__BY_CATEGORY, /* of its category */
    /* of curves (curves.c), which also look different: */
    QK__MEASURED,
    QK__PREDICTED,
    QK__PREDICTED_TOO,
    QK__CHOSEN,   /* heads, and */
    QK__CONTROLS, /* random ones */
    QK__EACH_HEAD,
    QK__OF_HEADS, /* mean of heads */
    QK__CHANGED,  /* heads, from one model to another */
    QK__UNCHANGED,
} qk__role;

/* A number of each head. */
typedef struct qk__chart_series {
    const char *field; /* a column (tables.def), which has its colours, unit and ranges */
    const char *sql;   /* an expression in place of the column */
    /* with QK__BY_CATEGORY: 1 for a head with the category, 0 for any other */
    qk_category category;
    bool magnitude;
    const char *name; /* markup, in the legend; NULL: the name of the column */
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
    QK__BARS,   /* side by side */
    QK__STACK,  /* on top of each other */
    QK__CURVES, /* lines, with a band where the statistic has one */
} qk__mark;

/* The statistic over the heads of a place. */
typedef enum qk__statistic {
    QK__STAT_MEAN,
    QK__STAT_MEDIAN,
    QK__STAT_DEVIATION, /* the mean, and a standard deviation to either side */
    QK__STAT_QUARTILES, /* the mean, both quartiles, the median */
} qk__statistic;

typedef struct qk__panel {
    const char *title;   /* markup, above the panel; the power of ten follows */
    const char *y_label; /* markup, of panels at the left, also without a title */
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

/* What the horizontal axis shows. */
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
    QK__SIDES,  /* of a comparison, b over a */
} qk__over;

typedef struct qk__figure_kind {
    const char *name;    /* "pca-03-layer-heatmap-rq"; for a model "NAME-SLUG" */
    const char *title;   /* heading in the report, plain text */
    const char *heading; /* of the picture, markup */
    const char *caption; /* one or two plain sentences: what is shown, and how to read it */
    const char *tables;  /* where its numbers come from: "qk.csv, heads.csv" */
    const char *rows, *numbers; /* which of their rows, and what is made of them */
    bool per_model;
    bool alone;    /* compares the layers of one model */
    bool compares; /* compares models; for one model the head maps are better */
    bool pools;    /* shows the heads of all models in one picture without distinction */
    bool training; /* only of checkpoints, two or more */
    bool apart;    /* never of checkpoints */
    /* Its SELECT, fixed or composed; NULL: it asks nothing. */
    const char *select;
    qk_status (*compose)(const qk__subject *subject, qk__buffer *sql, qk_error *err);
    /* Whether the rows hold what it needs, NULL: any rows do; builds the figure. */
    bool (*applies)(const qk__subject *subject);
    void (*build)(qk__figure *figure, const qk__subject *subject);
    int width;  /* nominal pixels */
    int height; /* of a panel, at type of 13 */
    /* of maps and charts: */
    size_t columns; /* of panels, at most */
    qk__over over;
    const qk__panel *panels; /* the last one has no series */
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

/* A figure that was drawn, or failed (then message says why). */
typedef struct qk__drawn {
    char name[120];
    const qk__figure_family *family;
    const qk__figure_kind *kind;
    const qk__result_model *model; /* NULL unless per model */
    qk__found rows, all;           /* as in qk__subject */
    qk_status status;
    char *message;
    int width, height;  /* nominal pixels */
    qk__buffer in_page; /* an element of a page, if asked for */
} qk__drawn;

typedef struct qk__drawn_list {
    size_t count;
    qk__drawn *items; /* in report order */
    size_t num_asked;
    qk_columns **asked; /* the rows of their SELECTs */
} qk__drawn_list;

/* Lists the figures that apply and are asked for, not yet drawn. QK_ERR_NOT_FOUND: a name that is asked for does not
 * apply. */
QK_MUST_CHECK qk_status qk__list_figures(const qk__subject *subject, qk__drawn_list *list,
                                         qk_error *err);

/* Draws these figures into folder, several at a time. A failure does not stop the others: the list has its status, and
 * the first failure is returned with its message in err (the list is set then, too). Progress counts "figures". */
QK_MUST_CHECK qk_status qk__draw_figures(const qk__subject *subject, const char *folder,
                                         const qk_figure_settings *settings,
                                         const qk_context *context, qk__drawn_list *list,
                                         qk_error *err);

/* Moves drawn figures from staging to folder. If these are all figures, other figures of the catalog in the folder are
 * removed: they are of other results. */
QK_MUST_CHECK qk_status qk__install_figures(const qk__drawn_list *drawn, bool all,
                                            const char *staging, const char *folder,
                                            qk_error *err);
void qk__drawn_list_free(qk__drawn_list *list);

/* Fails where a figure is unwritten (figure.h). */
QK_MUST_CHECK qk_status qk__check_written(const qk__drawn_list *list, qk_error *err);

/* ---- what draws rows of the table ------------------------------------------------------- */

/* Composes the SELECT of such a figure; whether its rows hold what it needs; builds the figure. */
typedef qk_status qk__compose_fn(const qk__subject *subject, qk__buffer *sql, qk_error *err);
typedef bool qk__applies_fn(const qk__subject *subject);
typedef void qk__build_fn(qk__figure *figure, const qk__subject *subject);

/* ask_heads.c: a row a head, with these columns and then the series of all panels; the same for heads that have all
 * series; a row a place. */
enum { QK__MODEL, QK__LAYER, QK__Q_HEAD, QK__DEPTH, QK__CATEGORY_NAME, QK__FIRST_SERIES };
qk__compose_fn qk__ask_heads, qk__ask_full_heads, qk__ask_places;
/* score_figure.c: models beside a score */
qk__compose_fn qk__ask_scored;

/* charts.c: over models, layers, components or dimensions */
qk__applies_fn qk__has_chart;
qk__build_fn qk__build_chart;
/* head_maps.c: a panel for each model, a cell for each head; a panel for each number, a row for each model, over the
 * depth */
qk__applies_fn qk__has_head_maps, qk__has_depth_maps, qk__has_layer_map;
qk__build_fn qk__build_head_maps, qk__build_depth_maps, qk__build_layer_map;
/* points.c: the second series over the first, a point a head; a panel for each of some checkpoints; a panel for each
 * family, or each model */
qk__build_fn qk__build_points, qk__build_portraits, qk__build_family_points;
/* hills.c: densities over heads, a row for each model */
qk__build_fn qk__build_hills;

/* Figures with their own SELECT. curves.c: curves over a number, two models; other_maps.c: plasticity and attention
 * over distances, rotary pairs, categories, and two models; score_figure.c: against an external score. */
qk__applies_fn qk__has_distances, qk__has_change_maps, qk__has_scores, qk__has_sides;
qk__build_fn qk__build_curves, qk__build_distances, qk__build_rotary_pairs,
    qk__build_attention_by_depth, qk__build_category_changes, qk__build_change_maps,
    qk__build_scores;

#endif
