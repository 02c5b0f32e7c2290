/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures: how they are drawn, the report of a results folder, scatter collages of rows. */
#ifndef QKSCOPE_REPORT_H
#define QKSCOPE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qkscope/analysis.h>
#include <qkscope/capture.h>
#include <qkscope/common.h>
#include <qkscope/settings.h>

QK_BEGIN_DECLS

/* ==== how figures are drawn =============================================================== */

/* How figures are drawn: formats, theme.
 *
 * Every figure NAME is NAME.svg, with its numbers in NAME.csv: docs/figures.md */

typedef enum qk_figure_format {
    QK_FIGURE_PNG = 1 << 0, /* at twice the nominal size; by rsvg-convert, as PDF */
    QK_FIGURE_SVG = 1 << 1, /* of every figure, asked for or not */
    QK_FIGURE_PDF = 1 << 2,
} qk_figure_format;

typedef enum qk_figure_theme {
    QK_THEME_PAPER,  /* white, thin lines, small type */
    QK_THEME_SCREEN, /* white, larger type: slides */
    QK_THEME_DARK,   /* dark background */
} qk_figure_theme;

typedef struct qk_figure_settings {
    unsigned formats; /* sum of qk_figure_format */
    qk_figure_theme theme;
    int width; /* width of the page in millimetres, 60 to 400, with the same size of type; 0 = each figure's own */
    bool no_title, no_legend; /* without headings or legends: a page says it below */
    bool symbols; /* in labels and legends instead of words, where there are any: r_q, AP */
} qk_figure_settings;

/* The ramps of the figures, matplotlib's. */
typedef enum qk_ramp { QK_RAMP_BLUES, QK_RAMP_REDS, QK_RAMP_MAGMA } qk_ramp;

/* The ramp's colour at x (0..1, clamped); returns whether white text is easier to read on it than black. */
QK_API bool qk_ramp_color(qk_ramp ramp, double x, unsigned char rgb[3]);

/* ==== reports ============================================================================= */

/* Figures and one self-contained page from a results folder. docs/figures.md#the-page
 *
 *     qk_report_settings settings;
 *     qk_report_outcome *outcome;
 *     qk_settings_default(&qk_report_settings_table, &settings);
 *     settings.results = "results";
 *     qk_status status = qk_report_write(&settings, &outcome, &err);
 *
 * draws results/figures/ and writes results/report.html. */

typedef struct qk_report_settings {
    const char *results; /* folder with tables (docs/reference/tables.md) */
    const char *output;  /* folder for figures/ and report.html; NULL = results */
    const char *title;   /* NULL = the study's, else made from the models' labels */
    const char *scores; /* CSV of benchmark scores; NULL = scores.csv of the folder, if there */
    const char *score_metric;   /* the number to compare with; NULL = "ap_drop" */
    const char *score_column;   /* which benchmark; NULL = the file's first numeric column */
    qk_figure_settings figures; /* formats beside SVG */
    bool html;                  /* false: only figures */
    /* Pictures of the queries and keys of heads on the page, from the captures that the manifests of the
     * results name, where these are there. */
    bool points;
    /* heads with such pictures; none = all heads, or where there are more than 300 some of them */
    qk_head_set heads;
    bool alone; /* the page without figures/ beside it, and without mentioning them */
    /* Names of the figures to draw; others stay as they are, and there is no page. For figures of each model,
     * the name without the model means all of them. */
    const char *const *names;
    size_t num_names; /* 0 = all figures */
    bool list;        /* draw nothing: the outcome has the names */
    /* also draw tables that differ from manifest.json, with a warning; replace a report.html of another program */
    bool force;
    qk_context context; /* progress: "figures", one drawn by each thread; no notices */
} qk_report_settings;

extern QK_API const qk_settings_table qk_report_settings_table;

typedef struct qk_report_outcome {
    size_t num_models, num_heads;
    size_t num_names;
    char **names;       /* of all figures of these results, or those asked for, in page order */
    size_t num_figures; /* drawn */
    size_t num_failed;
    char **failures; /* [num_failed] "figure NAME: why" */
    size_t num_changed;
    char **changed; /* [num_changed] with force: "TABLE is missing" and the like */
    char *html;     /* path; NULL with html = false */
    size_t html_bytes;
    double seconds;
    size_t num_files;
    /* [num_files] "figures/NAME.svg" and the like, from the output folder: all figures that are there now,
     * their numbers and notes */
    char **files;
} qk_report_outcome;

/* QK_OK; QK_ERR_PARTIAL when some figures failed (*outcome is set, the page says which); any other status when nothing
 * could be done (*outcome is NULL): QK_ERR_INCONSISTENT for results that are not complete, of two captures, or changed
 * since they were written; QK_ERR_EXISTS while another run is at work there. Until all is drawn, an earlier page and
 * its figures stay. docs/formats.md#results-folder */
QK_API QK_MUST_CHECK qk_status qk_report_write(const qk_report_settings *settings,
                                               qk_report_outcome **outcome, qk_error *err);
QK_API void qk_report_outcome_free(qk_report_outcome **outcome);

/* ==== scatter collages ==================================================================== */

/* Scatter collages: the rows of some heads, projected on two axes, coloured by position; or what the heads
 * attend to in one text. docs/figures.md#points-of-heads */

typedef enum qk_scatter_basis {
    QK_BASIS_PCA,        /* two components of the combined PCA, or of one kind's own */
    QK_BASIS_AB,         /* axes a and b of the rotation model */
    QK_BASIS_COMPLEMENT, /* pairs of the complement of a and b, a grid of panels for each head
                          */
    QK_BASIS_ATTENTION,  /* no axes: rows of attention of one text, whose keys are all there */
} qk_scatter_basis;

/* A head to draw: a query head, or with kinds QK_KINDS_K a key head. */
typedef struct qk_scatter_head {
    int layer, head;
} qk_scatter_head;

typedef struct qk_scatter_settings {
    qk_analysis_settings input; /* capture, revision, prefix, group size, max_samples, seed,
                                context, rotation settings as in an analysis; its output
                                and analyses are not used */
    qk_scatter_basis basis;
    qk_kinds kinds; /* BOTH: combined; Q or K alone: that kind's own PCA (basis PCA only) */
    /* to draw, in this order; none = random ones, or the first that pass input.layers and input.heads */
    qk_head_set heads;
    const char *const *about; /* markup above the panel of each range of `heads`; NULL: none */
    int random;               /* that many (or all, where there are fewer), as CPython's
                          random.Random(input.seed).sample over the query heads sorted by layer and
                          head         that pass input.layers and input.heads; 0 = not random */
    int rows, columns; /* panels of a collage; 0 = one figure a head, or 5x6 with COMPLEMENT */
    int pc_x, pc_y;    /* basis PCA: components on the axes, from 0 */
    bool centred; /* basis PCA: as the original draws it, zero is the mean of all rows of the
                     panel, a line runs through it each way, and a box has r of components:
                     those on the axes; of one kind in a figure of one column, the first of
                     input.pca, too (20 at most) */
    int64_t example_id; /* this text over the grey corpus, coloured by position; -1 = none, with
                           ATTENTION the longest */
    /* per kind and panel, evenly over the rows; 0 = all. The text of example_id is drawn whole */
    int64_t max_points;
    qk_figure_settings figures;
    const char *output; /* folder */
    const char *name;   /* of the figure, without ending; NULL = made from basis and heads */
    const char *title;  /* above the collage; NULL = none */
} qk_scatter_settings;

/* A value of max_points: 8,000, and 2,000 in the small panels of the complement. */
enum { QK_SCATTER_FEW_POINTS = -1 };

/* The first two components of both kinds, QK_SCATTER_FEW_POINTS. With more than 4,000 points a panel shows them as an
 * image. */
extern QK_API const qk_settings_table qk_scatter_settings_table;

typedef struct qk_scatter_outcome {
    size_t num_heads;
    qk_scatter_head *heads; /* drawn, in panel order */
    size_t num_figures;
    char **figures; /* [num_figures] names, without ending */
    size_t num_points;
    double seconds;
} qk_scatter_outcome;

/* A head that cannot be read or lacks such axes fails the run and is named: a collage without a panel would show
 * something else than was asked for. */
QK_API QK_MUST_CHECK qk_status qk_scatter_run(const qk_scatter_settings *settings,
                                              qk_scatter_outcome **outcome, qk_error *err);
QK_API void qk_scatter_outcome_free(qk_scatter_outcome **outcome);

QK_END_DECLS

#endif
