/* SPDX-License-Identifier: Apache-2.0 */
/* Scatter collages: the rows of some heads, projected on two axes, coloured by position.
 * docs/scatter.md */
#ifndef QKSCOPE_SCATTER_H
#define QKSCOPE_SCATTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/capture.h>
#include <qkscope/figure.h>

QK_BEGIN_DECLS

typedef enum qk_scatter_basis {
    QK_BASIS_PCA,        /* two components of the combined PCA, or of one kind's own */
    QK_BASIS_AB,         /* axes a and b of the rotation model */
    QK_BASIS_COMPLEMENT, /* pairs of the complement of a and b, a grid of panels for each head
                          */
} qk_scatter_basis;

/* A head to draw: a query head, or with kinds QK_KINDS_K a key head. */
typedef struct qk_scatter_head {
    int layer, head;
} qk_scatter_head;

typedef struct qk_scatter_settings {
    qk_analysis_settings input; /* capture, revision, prefix, group size, max_samples, seed,
                                threads, notice, rotation settings as in an analysis; its output
                                and analyses are not used */
    qk_scatter_basis basis;
    qk_kinds kinds;   /* BOTH: combined; Q or K alone: that kind's own PCA (basis PCA only) */
    size_t num_heads; /* heads to draw; 0 = random ones, or the first of the capture */
    const qk_scatter_head *heads;
    int random;        /* that many (or all, where there are fewer), as CPython's
                          random.Random(input.seed).sample over the query heads sorted by layer and
                          head         that pass input.layers and input.heads; 0 = not random */
    int rows, columns; /* panels of a collage; 0 = one figure a head, or 5x6 with COMPLEMENT */
    int pc_x, pc_y;    /* basis PCA: components on the axes, from 0 */
    bool centred; /* basis PCA: as the original draws it, zero is the mean of all rows of the
                     panel, a line runs through it each way, and a box has r of components:
                     those on the axes; of one kind in a figure of one column, the first of
                     input.pca, too (20 at most) */
    int64_t example_id; /* this text over the grey corpus, coloured by position; -1 = none */
    int64_t max_points; /* per kind and panel, evenly over the rows; 0 = all. Of the text of
                           example_id, all are drawn */
    qk_figure_settings figures;
    const char *output; /* folder */
    const char *name;   /* of the figure, without ending; NULL = made from basis and heads */
    const char *title;  /* above the collage; NULL = none */
} qk_scatter_settings;

/* A value of max_points: 8,000, and 2,000 in the small panels of the complement. */
enum { QK_SCATTER_FEW_POINTS = -1 };

/* The first two components of both kinds, QK_SCATTER_FEW_POINTS, PNG alone: an SVG of so many
 * points takes several megabytes. */
extern QK_API const qk_settings_table qk_scatter_settings_table;
QK_API void qk_scatter_settings_default(qk_scatter_settings *settings);

/* "5:13,1:8" into a list to free(); QK_ERR_ARGUMENT for anything else. */
QK_API QK_MUST_CHECK qk_status qk_scatter_heads_parse(const char *text, qk_scatter_head **heads,
                                                      size_t *count, qk_error *err);

typedef struct qk_scatter_outcome {
    size_t num_heads;
    qk_scatter_head *heads; /* drawn, in panel order */
    size_t num_figures;
    char **figures; /* [num_figures] names, without ending */
    size_t num_points;
    double seconds;
} qk_scatter_outcome;

/* A head that cannot be read or has no such axes fails the run and is named: a collage with a
 * panel left out would show something else than was asked for. */
QK_API QK_MUST_CHECK qk_status qk_scatter_run(const qk_scatter_settings *settings,
                                              qk_scatter_outcome **outcome, qk_error *err);
QK_API void qk_scatter_outcome_free(qk_scatter_outcome **outcome);

QK_END_DECLS

#endif
