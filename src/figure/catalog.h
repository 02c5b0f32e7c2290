/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that are drawn from tables: each family's file has a table of them. catalog.c draws
 * them all; install.c then moves them to their places. */
#ifndef QK_FIGURE_CATALOG_H
#define QK_FIGURE_CATALOG_H

#include <stdbool.h>
#include <stddef.h>

#include "figure/figure.h"
#include "results/results.h"

/* What a figure is drawn of. model is NULL unless the figure is one per model. */
typedef struct qk__subject {
    const qk__results *results;
    const qk__result_model *model;
    const struct qk__comparison *comparison; /* of two models; NULL: of none */
    const char *score_metric; /* of the score figure: a field or a column of the score file */
    const char *score_column; /* NULL = its first numeric column */
    /* Names of the figures asked for; without the slug of a model: all models'. None: all. */
    const char *const *only;
    size_t num_only;
} qk__subject;

typedef struct qk__figure_kind {
    const char *name;  /* "pca-03-layer-heatmap-rq"; per model the slug follows: "NAME-SLUG" */
    const char *title; /* heading in the report, plain text */
    const char *caption; /* one or two plain sentences: what is shown, and how to read it */
    bool per_model;
    int width, height; /* nominal pixels; a builder may change figure->height */
    /* Whether the results hold what it needs. */
    bool (*applies)(const qk__subject *subject);
    void (*build)(qk__figure *figure, const qk__subject *subject);
} qk__figure_kind;

typedef struct qk__figure_family {
    const char *title; /* "Combined QK PCA" */
    const qk__figure_kind *kinds;
    size_t count;
} qk__figure_family;

/* In report order. */
extern const qk__figure_family qk__head_maps;          /* head_map.c: layer by head */
extern const qk__figure_family qk__pca_figures;        /* pca_figures.c */
extern const qk__figure_family qk__pca_training;       /* pca_training.c: over checkpoints */
extern const qk__figure_family qk__rotation_figures;   /* rotation_figures.c */
extern const qk__figure_family qk__rotation_training;  /* rotation_training.c */
extern const qk__figure_family qk__stage_figures;      /* stage_figures.c: RoPE */
extern const qk__figure_family qk__plasticity_figures; /* plasticity_figures.c, with scores */
extern const qk__figure_family qk__compare_figures;    /* compare_figures.c: two models */

extern const qk__figure_family *const qk__figure_families[];
extern const size_t qk__num_figure_families;

/* One figure that was drawn, or failed (then message says why). */
typedef struct qk__drawn {
    char name[120];
    const qk__figure_family *family;
    const qk__figure_kind *kind;
    const qk__result_model *model; /* NULL unless per model */
    qk_status status;
    char *message;
} qk__drawn;

typedef struct qk__drawn_list {
    size_t count;
    qk__drawn *items; /* in report order */
} qk__drawn_list;

/* The figures that apply and are asked for, drawn by nobody yet. QK_ERR_NOT_FOUND: one that is asked for is
 * not among those that apply. */
QK_MUST_CHECK qk_status qk__list_figures(const qk__subject *subject, qk__drawn_list *list,
                                         qk_error *err);

/* Draws these figures into folder, several at a time. Figures that fail do not stop
 * the others: their status is in the list and the first is returned with its message in err
 * (the list is set then, too). progress may be NULL; it is called from any thread, one call at
 * a time. */
QK_MUST_CHECK qk_status qk__draw_figures(const qk__subject *subject, const char *folder,
                                         const qk_figure_settings *settings,
                                         qk_progress_fn *progress, void *user,
                                         qk__drawn_list *list, qk_error *err);

/* Moves what was drawn into staging to folder. Figures of the catalog that were not drawn, or
 * failed, are removed there if these are all: they are of other results. */
QK_MUST_CHECK qk_status qk__install_figures(const qk__drawn_list *drawn, bool all,
                                            const char *staging, const char *folder,
                                            qk_error *err);
void qk__drawn_list_free(qk__drawn_list *list);

/* ---- figures of a family that lie in a file of their own -------------------------------- */

/* rotation_bias.c: densities of bias_strength, an outline per model; bias_strength against
 * separation_strength, a point per head. A panel per family of models. */
bool qk__has_bias(const qk__subject *subject);
void qk__build_bias_histograms(qk__figure *figure, const qk__subject *subject);
bool qk__has_bias_pairs(const qk__subject *subject);
void qk__build_bias_scatter(qk__figure *figure, const qk__subject *subject);

/* plasticity_models.c: over checkpoints, and by model. */
bool qk__has_trajectory(const qk__subject *subject);
void qk__build_trajectory(qk__figure *figure, const qk__subject *subject);
bool qk__has_ap_by_model(const qk__subject *subject);
void qk__build_ap_by_model(qk__figure *figure, const qk__subject *subject);

/* score_figure.c: against an external score. */
bool qk__has_scores(const qk__subject *subject);
void qk__build_scores(qk__figure *figure, const qk__subject *subject);

/* layer_curves.c: means and quartiles of the heads of each layer, of one model. */
bool qk__has_layer_curves(const qk__subject *subject);
void qk__build_layer_curves(qk__figure *figure, const qk__subject *subject);

/* stage_curves.c: scores by distance of some heads. */
bool qk__has_score_curves(const qk__subject *subject);
void qk__build_score_curves(qk__figure *figure, const qk__subject *subject);

#endif
